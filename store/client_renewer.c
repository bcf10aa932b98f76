/* SPDX-License-Identifier: Apache-2.0 */
/* client_renewer.c - the thread that keeps sessions alive while nobody looks.
 *
 * Leases are asked for again at half of their time, as many in one request as
 * are due. One that is refused is over for good; one whose request fails is
 * asked for again at half of what is left. An embedded core hears here of the
 * writers that were at it; a master process hears it by heartbeats.
 */
#include "client.h"
#include "client_sessions.h"
#include "mci_alloc.h"
#include "mci_thread.h"

#define BATCH 256
#define GOODBYE_MS 1000
#define AGAIN_MIN_NS (10 * MCI_NS_PER_MS)

/* ---- what is due ----------------------------------------------------------- */

void mci_renewal_plan(uint64_t sent_ns, uint64_t left_ns, uint64_t *end_out,
                      uint64_t *renew_out)
{
    uint64_t most_ns = UINT64_MAX - sent_ns;
    left_ns = left_ns < most_ns ? left_ns : most_ns;
    *end_out = sent_ns + left_ns;
    *renew_out = sent_ns + left_ns / 2;
}

struct batch {
    struct mc_get_session *sessions[BATCH];
    struct mci_read_row rows[BATCH];
    size_t count;
};

static struct mc_get_session *get_at(struct mci_link *link)
{
    return MCI_CONTAINER(link, struct mc_get_session, link);
}

static void add(struct batch *batch, struct mc_get_session *session)
{
    batch->sessions[batch->count] = session;
    batch->rows[batch->count++] = session->row;
}

/* The lock is held, as for those below. */
static void take_due(struct mci_sessions *sessions, uint64_t now_ns,
                     struct batch *batch)
{
    struct mci_link *link = sessions->gets.next;
    batch->count = 0;
    sessions->renew_at_ns = UINT64_MAX;
    for (; link != &sessions->gets; link = link->next) {
        struct mc_get_session *session = get_at(link);
        bool is_due = !session->is_over && now_ns >= session->renew_ns;
        if (is_due && now_ns >= session->lease_end_ns) {
            session->is_over = true;
        } else if (is_due && batch->count < BATCH) {
            session->refs++;
            session->renew_ns = UINT64_MAX; /* while it is asked for */
            add(batch, session);
        } else if (!session->is_over) {
            mci_renewer_note(sessions, session->renew_ns);
        }
    }
}

static void take_gone(struct mci_sessions *sessions, struct batch *batch)
{
    batch->count = 0;
    while (!mci_list_is_empty(&sessions->gone) && batch->count < BATCH) {
        struct mc_get_session *session = get_at(sessions->gone.next);
        mci_list_remove(&session->link);
        add(batch, session);
    }
}

/* ---- renewing ---------------------------------------------------------------- */

static void note_one(struct mci_sessions *sessions,
                     struct mc_get_session *session,
                     const struct mci_read_row *row, uint64_t sent_ns)
{
    if (row->err == MC_OK) {
        const struct mc_view key = session->row.key;
        session->row = *row;
        session->row.key = key;
        mci_renewal_plan(sent_ns, row->lease_left_ns, &session->lease_end_ns,
                         &session->renew_ns);
    } else if (row->err == MC_ERR_LEASE_EXPIRED) {
        session->is_over = true;
        return;
    } else {
        uint64_t now_ns = mci_clock_ns();
        uint64_t left_ns =
            session->lease_end_ns > now_ns ? session->lease_end_ns - now_ns : 0;
        uint64_t pause_ns = left_ns / 2;
        session->renew_ns =
            now_ns + (pause_ns > AGAIN_MIN_NS ? pause_ns : AGAIN_MIN_NS);
    }
    mci_renewer_note(sessions, session->renew_ns);
}

static bool renew(struct mci_sessions *sessions, struct batch *batch,
                  uint64_t now_ns)
{
    const struct mc_client *client = sessions->client;
    mci_sessions_lock(sessions);
    take_due(sessions, now_ns, batch);
    mci_sessions_unlock(sessions);
    if (batch->count == 0) {
        return false;
    }
    const struct mci_call call = mci_client_call(client);
    enum mc_err err = client->link.ops->lease_renew(client->link.ctx, &call,
                                                    batch->rows, batch->count);
    (void)err; /* every row holds it */
    mci_sessions_lock(sessions);
    for (size_t i = 0; i < batch->count; i++) {
        note_one(sessions, batch->sessions[i], &batch->rows[i], call.now_ns);
        mci_get_session_drop(sessions, batch->sessions[i]);
    }
    mci_sessions_unlock(sessions);
    return batch->count == BATCH;
}

/* ---- giving back --------------------------------------------------------------- */

static bool give_back(struct mci_sessions *sessions, struct batch *batch,
                      uint32_t timeout_ms)
{
    const struct mc_client *client = sessions->client;
    mci_sessions_lock(sessions);
    take_gone(sessions, batch);
    mci_sessions_unlock(sessions);
    if (batch->count == 0) {
        return false;
    }
    struct mci_call call = mci_client_call(client);
    call.deadline_ns = mci_clock_deadline(call.now_ns, timeout_ms);
    enum mc_err err = client->link.ops->lease_release(
        client->link.ctx, &call, batch->rows, batch->count);
    (void)err; /* they end by themselves */
    for (size_t i = 0; i < batch->count; i++) {
        mci_get_session_free(batch->sessions[i]);
    }
    return batch->count == BATCH;
}

/* ---- writers ------------------------------------------------------------------- */

uint64_t mci_renewer_tell_at(const struct mci_sessions *sessions,
                             uint64_t now_ns)
{
    const struct mci_master *master = sessions->client->master;
    return master ? now_ns + mci_master_release_ns(master) / 8 : UINT64_MAX;
}

struct telling {
    struct mc_put_session *sessions[BATCH];
    struct mci_write_row rows[BATCH];
    size_t count;
};

/* Those whose writers were at it and were not told of for a while. The lock is
 * held. */
static void take_writers(struct mci_sessions *sessions, uint64_t now_ns,
                         struct telling *telling)
{
    struct mci_link *link = sessions->puts.next;
    telling->count = 0;
    for (; link != &sessions->puts && telling->count < BATCH;
         link = link->next) {
        struct mc_put_session *session =
            MCI_CONTAINER(link, struct mc_put_session, link);
        if (session->has_written && now_ns >= session->touch_ns) {
            session->has_written = false;
            session->touch_ns = mci_renewer_tell_at(sessions, now_ns);
            session->refs++;
            telling->sessions[telling->count] = session;
            telling->rows[telling->count++] = session->row;
        }
    }
}

static bool tell_some(struct mci_sessions *sessions, uint64_t now_ns,
                      struct telling *telling)
{
    const struct mc_client *client = sessions->client;
    mci_sessions_lock(sessions);
    take_writers(sessions, now_ns, telling);
    mci_sessions_unlock(sessions);
    if (telling->count == 0) {
        return false;
    }
    const struct mci_call call = mci_client_call(client);
    enum mc_err err = client->link.ops->attempt_touch(
        client->link.ctx, &call, telling->rows, telling->count);
    (void)err; /* their ends will tell */
    mci_sessions_lock(sessions);
    for (size_t i = 0; i < telling->count; i++) {
        mci_put_session_drop(sessions, telling->sessions[i]);
    }
    mci_sessions_unlock(sessions);
    return telling->count == BATCH;
}

static bool has_writers(struct mci_sessions *sessions)
{
    mci_sessions_lock(sessions);
    bool is_any = !mci_list_is_empty(&sessions->puts);
    mci_sessions_unlock(sessions);
    return is_any;
}

static bool tell_writers(struct mci_sessions *sessions, uint64_t now_ns)
{
    struct telling *telling = mci_alloc(sizeof *telling);
    if (!telling) {
        return false; /* again in a little while */
    }
    bool more = tell_some(sessions, now_ns, telling);
    mci_free(telling);
    return more;
}

/* ---- the thread ------------------------------------------------------------------ */

static bool has_leases_due(struct mci_sessions *sessions, uint64_t now_ns)
{
    mci_sessions_lock(sessions);
    bool is_due =
        !mci_list_is_empty(&sessions->gone) || now_ns >= sessions->renew_at_ns;
    mci_sessions_unlock(sessions);
    return is_due;
}

static bool step_leases(struct mci_sessions *sessions, uint64_t now_ns)
{
    struct batch *batch = mci_alloc(sizeof *batch);
    if (!batch) {
        return false; /* again in a little while */
    }
    bool more = renew(sessions, batch, now_ns);
    more |= give_back(sessions, batch, sessions->client->timeout_ms);
    mci_free(batch);
    return more;
}

bool mci_renewer_step(struct mci_sessions *sessions, uint64_t now_ns)
{
    bool more =
        has_leases_due(sessions, now_ns) && step_leases(sessions, now_ns);
    if (!sessions->client->outside && has_writers(sessions)) {
        more |= tell_writers(sessions, now_ns);
    }
    return more;
}

/* The lock is held. */
static void wait_for_work(struct mci_sessions *sessions)
{
    bool is_idle = mci_list_is_empty(&sessions->gets) &&
                   mci_list_is_empty(&sessions->gone) &&
                   mci_list_is_empty(&sessions->puts);
    if (is_idle) {
        (void)pthread_cond_wait(&sessions->changed, &sessions->lock);
    } else {
        mci_sessions_wait(sessions);
    }
}

static void *run(void *ctx)
{
    struct mci_sessions *sessions = ctx;
    (void)pthread_setname_np(pthread_self(), "mc-renewer");
    mci_sessions_lock(sessions);
    while (!sessions->is_stopping) {
        mci_sessions_unlock(sessions);
        bool more = mci_renewer_step(sessions, mci_clock_ns());
        mci_sessions_lock(sessions);
        if (!more && !sessions->is_stopping) {
            wait_for_work(sessions);
        }
    }
    mci_sessions_unlock(sessions);
    return NULL;
}

/* Signals are for the threads of the application. The lock is held. */
static void start_locked(struct mci_sessions *sessions)
{
    sessions->has_renewer =
        mci_thread_start(&sessions->renewer, NULL, run, sessions) == 0;
}

enum mc_err mci_renewer_start(struct mci_sessions *sessions)
{
    mci_sessions_lock(sessions);
    if (!sessions->has_renewer) {
        start_locked(sessions);
    }
    bool is_started = sessions->has_renewer;
    mci_sessions_unlock(sessions);
    return is_started ? MC_OK : MC_ERR_NOMEM;
}

/* All that is left, within what a goodbye may take. */
static void give_back_all(struct mci_sessions *sessions)
{
    struct batch *batch = NULL;
    mci_sessions_lock(sessions);
    while (!mci_list_is_empty(&sessions->gets)) {
        struct mci_link *link = sessions->gets.next;
        mci_list_remove(link);
        mci_list_push_back(&sessions->gone, link);
    }
    if (!mci_list_is_empty(&sessions->gone)) {
        batch = mci_alloc(sizeof *batch);
    }
    mci_sessions_unlock(sessions);
    if (batch) {
        bool more = true;
        uint64_t until_ns = mci_clock_deadline(mci_clock_ns(), GOODBYE_MS);
        while (more && mci_clock_ns() < until_ns) {
            more = give_back(sessions, batch, GOODBYE_MS);
        }
    }
    mci_free(batch);
}

void mci_renewer_stop(struct mci_sessions *sessions)
{
    mci_sessions_lock(sessions);
    sessions->is_stopping = true;
    (void)pthread_cond_broadcast(&sessions->changed);
    mci_sessions_unlock(sessions);
    if (sessions->has_renewer) {
        (void)pthread_join(sessions->renewer, NULL);
        sessions->has_renewer = false;
        give_back_all(sessions);
    }
}
