/* SPDX-License-Identifier: Apache-2.0 */
/* One number per request, however often it is sent (SAFETY C.2). What becomes
 * of a try:
 *
 *   answered                done
 *   answered -103           the master does not know this identity: if this was
 *                           the only try, nothing was done; it is asked anew
 *                           under the next identity
 *   answered as stale       not done by this try
 *   broken, not all sent    nothing was done; once more
 *   broken, all sent        it may have been done; once more, same number
 *   the identity changed    not sent: asked anew. Sent: what changes something
 *                           has an unknown outcome, what reads is asked anew
 *   the deadline            not sent: failed. Sent: unknown; the slot takes the
 *                           next number at once, for a cancel, so that the next
 *                           heartbeat says that this one is given up
 */
#include "mc_log.h"
#include "remote.h"

#define BACKOFF_FIRST_NS (5 * MCI_NS_PER_MS)
#define BACKOFF_MAX_NS (200 * MCI_NS_PER_MS)
#define IDLE_NS (100 * MCI_NS_PER_MS) /* after that a connection is looked at */

/* ---- beginning ----------------------------------------------------------- */

enum mc_err mci_remote_ask_begin(struct mci_remote *remote,
                                 const struct remote_ask_opts *opts,
                                 struct remote_ask *ask)
{
    uint64_t deadline_ns = opts->deadline_ns;
    enum mc_err err = MC_OK;
    if (deadline_ns == 0) {
        deadline_ns = mci_clock_deadline(mci_clock_ns(), remote->timeout_ms);
    }
    struct remote_slot *slot = mci_remote_slot_take(remote, deadline_ns, &err);
    if (!slot) {
        return err;
    }
    *ask = (struct remote_ask){.remote = remote,
                               .op = opts->op,
                               .tenant = opts->tenant,
                               .deadline_ns = deadline_ns,
                               .epoch = opts->epoch,
                               .backoff_ns = BACKOFF_FIRST_NS,
                               .slot = slot};
    mci_remote_wire_begin(&slot->wire, &ask->pack);
    return MC_OK;
}

static uint32_t time_left_ms(uint64_t deadline_ns)
{
    uint64_t now_ns = mci_clock_ns();
    uint64_t left_ms =
        deadline_ns > now_ns ? (deadline_ns - now_ns) / MCI_NS_PER_MS : 0;
    return left_ms < UINT32_MAX ? (uint32_t)left_ms : UINT32_MAX;
}

static struct mci_request request_of(const struct remote_ask *ask)
{
    return (struct mci_request){
        .version = MCI_CONTROL_VERSION,
        .op = ask->op,
        .slot = ask->slot->index,
        .number = atomic_load(&ask->slot->number),
        .time_left_ms = time_left_ms(ask->deadline_ns),
        .client = ask->self.client,
        .incarnation = ask->self.incarnation,
        .epoch = ask->self.epoch,
        .tenant = ask->tenant,
    };
}

/* ---- who we are ---------------------------------------------------------- */

/* The slot's numbers become those of the present identity. */
static void follow_identity(struct remote_ask *ask)
{
    struct mci_remote *remote = ask->remote;
    struct remote_slot *slot = ask->slot;
    (void)pthread_mutex_lock(&remote->lock);
    ask->self = remote->self;
    ask->generation = atomic_load(&remote->generation);
    bool is_other = atomic_load(&slot->generation) != ask->generation;
    if (is_other) {
        atomic_store(&slot->number, 0);
        atomic_store(&slot->generation, ask->generation);
        slot->is_doubtful = false;
    }
    (void)pthread_mutex_unlock(&remote->lock);
    if (is_other) {
        mci_remote_wire_drop(&slot->wire);
        ask->has_number = false;
        ask->is_sent = false;
    }
}

static bool is_of_old_identity(const struct remote_ask *ask)
{
    return atomic_load(&ask->remote->generation) != ask->generation;
}

/* Waits for the next identity; false: not within the deadline, or it is this
 * thread that would have to bring it. */
static bool await_identity(struct remote_ask *ask)
{
    struct mci_remote *remote = ask->remote;
    mci_remote_life_suspect(remote, ask->generation);
    if (mci_remote_life_is_current(remote) ||
        atomic_load(&remote->life.stops)) {
        return false;
    }
    (void)pthread_mutex_lock(&remote->lock);
    while (!is_of_old_identity(ask) && mci_clock_ns() < ask->deadline_ns) {
        mci_remote_wait(remote, &remote->changed, ask->deadline_ns);
    }
    (void)pthread_mutex_unlock(&remote->lock);
    return is_of_old_identity(ask);
}

/* ---- the slot made ready ------------------------------------------------- */

static enum mc_err connect_slot(struct remote_ask *ask)
{
    struct mci_remote *remote = ask->remote;
    uint64_t limit_ns =
        mci_clock_deadline(mci_clock_ns(), remote->connect_timeout_ms);
    struct remote_hello hello = {.role = MCI_ROLE_CALLS,
                                 .deadline_ns = limit_ns < ask->deadline_ns
                                                    ? limit_ns
                                                    : ask->deadline_ns,
                                 .self = ask->self};
    return mci_remote_hello(remote, &ask->slot->wire, &hello);
}

/* Sends what is due before the slot may be used again (SAFETY C.3). Goes over
 * memory of its own, since the request is written already. */
static enum mc_err cancel_given_up(struct remote_ask *ask)
{
    struct remote_wire *wire = &ask->slot->wire;
    struct mci_buf request_bytes = wire->out;
    struct mci_request request = request_of(ask);
    struct mci_answer answer;
    struct mci_unpack unpack;
    struct mci_pack pack;
    bool is_whole = false;
    request.op = MCI_OP_CANCEL;
    request.tenant = mc_view_make(NULL, 0);
    mci_buf_init(&wire->out, REMOTE_HEAD_ROOM * 2);
    mci_remote_wire_begin(wire, &pack);
    mci_pack_nil(&pack);
    enum mc_err err = mci_pack_done(&pack);
    if (err == MC_OK) {
        err = mci_remote_wire_send(wire, &request, ask->deadline_ns, &is_whole);
    }
    mci_buf_fini(&wire->out);
    wire->out = request_bytes;
    if (err == MC_OK) {
        err = mci_remote_wire_recv(wire, &request, ask->deadline_ns, &answer,
                                   &unpack);
    }
    if (err != MC_OK) {
        return err;
    }
    ask->slot->is_doubtful = answer.code == MC_ERR_CLIENT_NOT_FOUND;
    return ask->slot->is_doubtful ? answer.code : MC_OK;
}

static enum mc_err make_ready(struct remote_ask *ask)
{
    struct remote_slot *slot = ask->slot;
    enum mc_err err = MC_OK;
    if (slot->wire.stream && mci_clock_ns() - slot->used_ns > IDLE_NS &&
        mci_remote_wire_is_stale(&slot->wire)) {
        mci_remote_wire_drop(&slot->wire);
    }
    if (!slot->wire.stream) {
        err = connect_slot(ask);
    }
    if (err == MC_OK && slot->is_doubtful) {
        err = cancel_given_up(ask);
    }
    return err;
}

/* ---- one try ------------------------------------------------------------- */

/* Makes the slot ready, sends, reads. *code_out: the master's, if MC_OK. */
static enum mc_err try_once(struct remote_ask *ask, enum mc_err *code_out)
{
    struct remote_slot *slot = ask->slot;
    struct mci_answer answer = {.code = MC_OK};
    enum mc_err err = make_ready(ask);
    if (err != MC_OK) {
        return err;
    }
    if (!ask->has_number) {
        atomic_fetch_add(&slot->number, 1);
        ask->has_number = true;
        ask->sent_ns = mci_clock_ns();
    }
    struct mci_request request = request_of(ask);
    bool is_whole = false;
    slot->used_ns = mci_clock_ns();
    err = mci_remote_wire_send(&slot->wire, &request, ask->deadline_ns,
                               &is_whole);
    ask->is_sent = ask->is_sent || is_whole;
    if (err == MC_OK) {
        err = mci_remote_wire_recv(&slot->wire, &request, ask->deadline_ns,
                                   &answer, &ask->unpack);
    }
    if (err == MC_OK) {
        *code_out = answer.code;
    }
    return err;
}

/* The number is given up. What changes something gets its cancel; of what only
 * reads, any later number is enough. */
static void give_up(struct remote_ask *ask)
{
    mci_remote_wire_drop(&ask->slot->wire);
    if (ask->is_sent && mci_op_mutates(ask->op)) {
        ask->slot->is_doubtful = true;
        atomic_fetch_add(&ask->slot->number, 1);
        mci_remote_life_hurry(ask->remote);
    }
}

/* What to answer when there is nothing more to be tried. */
static enum mc_err outcome_of(const struct remote_ask *ask, enum mc_err err)
{
    if (ask->is_sent && (mci_op_mutates(ask->op) || err == MC_ERR_RPC_FAIL)) {
        return MC_ERR_RPC_TIMEOUT;
    }
    if (!ask->is_sent && err == MC_ERR_RPC_TIMEOUT) {
        return MC_ERR_RPC_FAIL;
    }
    return err;
}

static void pause_before_retry(struct remote_ask *ask)
{
    struct mci_remote *remote = ask->remote;
    uint64_t until_ns = mci_clock_ns() + ask->backoff_ns;
    if (until_ns > ask->deadline_ns) {
        until_ns = ask->deadline_ns;
    }
    ask->backoff_ns = ask->backoff_ns * 2 < BACKOFF_MAX_NS ? ask->backoff_ns * 2
                                                           : BACKOFF_MAX_NS;
    (void)pthread_mutex_lock(&remote->lock);
    while (!is_of_old_identity(ask) && mci_clock_ns() < until_ns) {
        mci_remote_wait(remote, &remote->changed, until_ns);
    }
    (void)pthread_mutex_unlock(&remote->lock);
    atomic_fetch_add(&remote->retries, 1);
}

/* The master does not know this identity. MC_OK: there is a new one. */
static enum mc_err after_unknown(struct remote_ask *ask, bool was_sent)
{
    if (was_sent && mci_op_mutates(ask->op)) {
        mci_remote_life_suspect(ask->remote, ask->generation);
        return MC_ERR_RPC_TIMEOUT;
    }
    ask->is_sent = false;
    return await_identity(ask) ? MC_OK : MC_ERR_CLIENT_NOT_FOUND;
}

/* The number was out of turn, which is not what we think: nothing was done now,
 * but perhaps by an earlier try. */
static enum mc_err after_stale(const struct remote_ask *ask, bool was_sent)
{
    mc_log(MC_LOG_WARN, "master %s: %s: taken for stale",
           ask->remote->address.host, mci_op_name(ask->op));
    return was_sent && mci_op_mutates(ask->op) ? MC_ERR_RPC_TIMEOUT
                                               : MC_ERR_RPC_FAIL;
}

/* After a try that was not answered. MC_OK: once more. */
static enum mc_err after_failure(struct remote_ask *ask, enum mc_err err)
{
    bool is_broken = err == MC_ERR_RPC_FAIL || err == MC_ERR_RPC_TIMEOUT;
    mci_remote_wire_drop(&ask->slot->wire);
    if (is_broken && mci_clock_ns() < ask->deadline_ns) {
        pause_before_retry(ask);
        return MC_OK;
    }
    return outcome_of(ask, err);
}

/* Under which identity to try; MC_ERR_RPC_TIMEOUT: what was sent under another
 * one is not sent again. */
static enum mc_err choose_identity(struct remote_ask *ask)
{
    if (!is_of_old_identity(ask)) {
        return MC_OK;
    }
    if (ask->is_sent && mci_op_mutates(ask->op)) {
        return MC_ERR_RPC_TIMEOUT;
    }
    follow_identity(ask);
    bool is_named = ask->epoch == 0 || ask->epoch == ask->self.epoch;
    return is_named ? MC_OK : MC_ERR_INVALID_VERSION;
}

static enum mc_err run_tries(struct remote_ask *ask)
{
    enum mc_err err = choose_identity(ask);
    while (err == MC_OK) {
        bool was_sent = ask->is_sent;
        enum mc_err code = MC_OK;
        err = try_once(ask, &code);
        if (err == MC_OK && code == MC_ERR_INVALID_VERSION) {
            return after_stale(ask, was_sent);
        }
        if (err == MC_OK && code != MC_ERR_CLIENT_NOT_FOUND) {
            ask->is_answered = true;
            return code;
        }
        if (err == MC_OK || err == MC_ERR_CLIENT_NOT_FOUND) {
            err = after_unknown(ask, was_sent);
        } else {
            err = after_failure(ask, err);
        }
        if (err == MC_OK) {
            err = choose_identity(ask);
        }
    }
    return err;
}

enum mc_err mci_remote_ask_run(struct remote_ask *ask)
{
    struct mci_remote *remote = ask->remote;
    enum mc_err err = mci_pack_done(&ask->pack);
    if (err != MC_OK) {
        return err == MC_ERR_BUFFER_OVERFLOW ? MC_ERR_INVALID_PARAMS : err;
    }
    err = run_tries(ask);
    if (ask->is_answered) {
        atomic_fetch_add(&remote->calls_by_op[ask->op], 1);
        return err;
    }
    give_up(ask);
    if (err == MC_ERR_RPC_TIMEOUT) {
        atomic_fetch_add(&remote->timeouts, 1);
    }
    mc_log(MC_LOG_DEBUG, "master %s: %s: %s", remote->address.host,
           mci_op_name(ask->op), mc_err_text(err));
    return err;
}

enum mc_err mci_remote_ask_end(struct remote_ask *ask, enum mc_err err)
{
    if (err == MC_OK && mci_unpack_done(&ask->unpack) != MCI_UNPACK_OK) {
        mc_log(MC_LOG_WARN, "master %s: %s: an answer that cannot be read",
               ask->remote->address.host, mci_op_name(ask->op));
        give_up(ask);
        err = MC_ERR_RPC_FAIL;
    }
    mci_remote_slot_give(ask->remote, ask->slot);
    return err;
}
