/* SPDX-License-Identifier: Apache-2.0 */
/* client_put_ends.c - how put sessions end.
 *
 * First they are sealed, so that no range begins, and those on their way are
 * waited for; then, for an end, holes are filled and sums put behind. After that their owners are
 * asked to close the attempts: the receipt proves that nothing lands any more,
 * also of ranges that failed, and without it such a session is not published.
 * Only then does the master hear of it. All of that can be done again.
 */
#include "client_put_fill.h"
#include "mci_alloc.h"

#define SEAL_MS 2000 /* for proofs that are good to have and no more */

struct ending {
    struct mc_client *client;
    struct mci_sessions *sessions;
    struct mc_put_session *const *handles;
    size_t count;
    int64_t *results;
    uint64_t deadline_ns;
    bool is_revoke;
    bool *doubts;
    struct mci_mover mover;
    uint64_t call;
    struct mci_write_row *rows; /* what the master is told; attempt number 0:
                                   passed over */
};

/* A session that is named twice is ended where it is named first. */
static bool is_first(const struct ending *ending, size_t i)
{
    const struct mc_put_session *session = ending->handles[i];
    return session && session->call == ending->call && session->call_row == i;
}

static bool goes_on(const struct ending *ending, size_t i)
{
    return is_first(ending, i) && ending->results[i] == MC_OK;
}

/* ---- sealing --------------------------------------------------------------------- */

static void seal_all(struct ending *ending)
{
    mci_sessions_lock(ending->sessions);
    ending->call = ++ending->sessions->calls;
    for (size_t i = 0; i < ending->count; i++) {
        struct mc_put_session *session = ending->handles[i];
        ending->results[i] = session ? MC_OK : MC_ERR_INVALID_PARAMS;
        if (session && session->call != ending->call) {
            session->call = ending->call;
            session->call_row = i;
            session->is_sealed = true;
            session->refs++;
        }
    }
    mci_sessions_unlock(ending->sessions);
}

static void release_all(struct ending *ending)
{
    mci_sessions_lock(ending->sessions);
    /* Twice named ones first look at the row that they follow. */
    for (size_t i = 0; i < ending->count; i++) {
        const struct mc_put_session *session = ending->handles[i];
        if (session && !is_first(ending, i)) {
            ending->results[i] = ending->results[session->call_row];
        }
    }
    for (size_t i = ending->count; i > 0; i--) {
        struct mc_put_session *session = ending->handles[i - 1];
        if (is_first(ending, i - 1)) {
            int64_t result = ending->results[i - 1];
            bool is_over =
                result == MC_OK ||
                (ending->is_revoke && result == MC_ERR_INVALID_VERSION);
            session->is_over = is_over;
            mci_put_session_drop(ending->sessions, session);
            if (is_over) {
                mci_put_session_drop(ending->sessions, session);
            }
        }
    }
    mci_sessions_unlock(ending->sessions);
}

/* Whatever is waited for, the master is still to be told. */
static uint64_t half_of_time(const struct ending *ending)
{
    uint64_t now_ns = mci_clock_ns();
    return ending->deadline_ns > now_ns
               ? now_ns + (ending->deadline_ns - now_ns) / 2
               : ending->deadline_ns;
}

/* What is copied in this process ends by itself. */
static bool may_wait(const struct ending *ending, uint64_t until_ns)
{
    return !ending->client->outside || mci_clock_ns() < until_ns;
}

/* Until nothing of the listed sessions is on its way, or the deadline. */
static void await_ranges(struct ending *ending)
{
    uint64_t until_ns =
        ending->is_revoke ? half_of_time(ending) : ending->deadline_ns;
    mci_sessions_lock(ending->sessions);
    for (size_t i = 0; i < ending->count; i++) {
        struct mc_put_session *session = ending->handles[i];
        if (!is_first(ending, i)) {
            continue;
        }
        while (session->moving > 0 && may_wait(ending, until_ns)) {
            mci_sessions_wait(ending->sessions);
        }
        session->is_left = session->moving > 0;
        if (session->is_left && !ending->is_revoke) {
            ending->results[i] = MC_ERR_RPC_TIMEOUT;
        }
    }
    mci_sessions_unlock(ending->sessions);
}

/* ---- holes ----------------------------------------------------------------------- */

static void refuse_holes(struct ending *ending)
{
    mci_sessions_lock(ending->sessions);
    for (size_t i = 0; i < ending->count; i++) {
        struct mc_put_session *session = ending->handles[i];
        struct mci_interval hole;
        if (goes_on(ending, i) && session->is_complete &&
            mci_coverage_hole(&session->coverage, 0, &hole)) {
            ending->results[i] = MC_ERR_INVALID_WRITE;
            session->is_sealed = false;
        }
    }
    mci_sessions_unlock(ending->sessions);
}

static bool has_hole(struct ending *ending, size_t i)
{
    struct mci_interval hole;
    mci_sessions_lock(ending->sessions);
    bool is_hole = mci_coverage_hole(&ending->handles[i]->coverage, 0, &hole);
    mci_sessions_unlock(ending->sessions);
    return is_hole;
}

static void fill_holes(struct ending *ending)
{
    uint64_t until_ns = half_of_time(ending);
    for (size_t i = 0; i < ending->count; i++) {
        if (goes_on(ending, i) && has_hole(ending, i)) {
            ending->results[i] = mci_put_session_fill(
                &ending->mover, ending->handles[i], until_ns);
        }
    }
}

static void place_sums(struct ending *ending)
{
    uint64_t until_ns = half_of_time(ending);
    for (size_t i = 0; i < ending->count; i++) {
        if (goes_on(ending, i) && ending->handles[i]->row.has_sums) {
            ending->results[i] = mci_put_session_place_sums(
                &ending->mover, ending->handles[i], until_ns);
        }
    }
}

/* ---- proofs ------------------------------------------------------------------------ */

struct proving {
    struct mc_transfer_row *moves;
    struct proof {
        size_t row;
        uint32_t place;
    } * proofs;
    size_t count;
};

/* The owners that are still to be asked about a session. */
static void add_owners(struct ending *ending, size_t i, struct proving *proving)
{
    const struct mc_put_session *session = ending->handles[i];
    const struct mci_write_row *row = &session->row;
    for (uint32_t p = 0; p < row->place_count; p++) {
        struct mc_transfer_row *move = &proving->moves[proving->count];
        const struct mci_claim claim = {.place = &row->places[p],
                                        .grant = &row->grants[p],
                                        .subject = row->attempt.number,
                                        .bytes = mci_row_bytes(row),
                                        .is_write = true};
        if (row->receipts[p] != 0 ||
            mci_mover_aim(&ending->mover, &claim, 0, ending->deadline_ns,
                          move) != MC_OK) {
            continue;
        }
        struct mci_renewed_grant renewed;
        mci_renewed_grant_init(&renewed, ending->client->outside, row, p);
        move->grant = renewed.source.get(renewed.source.ctx);
        move->transport = session->went[p];
        proving->proofs[proving->count++] = (struct proof){i, p};
    }
}

static bool is_in_doubt(const struct mc_put_session *session)
{
    bool is_proven = true;
    for (uint32_t p = 0; p < session->row.place_count; p++) {
        is_proven &= session->row.receipts[p] != 0;
    }
    return session->is_left || (session->in_doubt && !is_proven);
}

/* Who is in doubt needs the proof and waits for it; the others have their space
 * back sooner. */
static uint64_t proof_deadline(struct ending *ending)
{
    uint64_t soon_ns = mci_clock_deadline(mci_clock_ns(), SEAL_MS);
    bool is_needed = false;
    for (size_t i = 0; i < ending->count; i++) {
        is_needed |= goes_on(ending, i) && is_in_doubt(ending->handles[i]);
    }
    uint64_t most_ns = half_of_time(ending);
    return is_needed || most_ns < soon_ns ? most_ns : soon_ns;
}

static void ask_owners(struct ending *ending, struct proving *proving)
{
    for (size_t i = 0; i < ending->count; i++) {
        if (goes_on(ending, i) && !ending->handles[i]->is_left) {
            add_owners(ending, i, proving);
        }
    }
    if (proving->count == 0) {
        return;
    }
    mci_mover_seal(&ending->mover, proving->moves, proving->count,
                   proof_deadline(ending));
    for (size_t k = 0; k < proving->count; k++) {
        const struct proof *proof = &proving->proofs[k];
        ending->handles[proof->row]->row.receipts[proof->place] =
            proving->moves[k].receipt;
    }
}

static void prove(struct ending *ending)
{
    size_t most = ending->count * MCI_REPLICAS_MAX;
    struct proving proving = {.count = 0};
    if (!ending->mover.targets) {
        return;
    }
    proving.moves = mci_alloc(most * sizeof(*proving.moves));
    proving.proofs = mci_alloc(most * sizeof(*proving.proofs));
    if (proving.moves && proving.proofs) {
        ask_owners(ending, &proving);
    }
    mci_free(proving.moves);
    mci_free(proving.proofs);
    for (size_t i = 0; i < ending->count && !ending->is_revoke; i++) {
        if (goes_on(ending, i) && is_in_doubt(ending->handles[i])) {
            ending->results[i] = MC_ERR_TRANSFER_FAIL;
        }
    }
}

/* ---- telling the master ---------------------------------------------------------------- */

static struct mci_call call_of(const struct ending *ending)
{
    struct mci_call call = mci_client_call(ending->client);
    call.deadline_ns = ending->deadline_ns;
    return call;
}

/* What a master that does not have it open says of its fate. A session is over
 * then, and only one that was published was not revoked. */
static enum mc_err fate_of(struct ending *ending, size_t i)
{
    const struct mci_master_link *link = &ending->client->link;
    const struct mci_call call = call_of(ending);
    enum mci_fate fate = MCI_FATE_UNKNOWN;
    enum mc_err err = link->ops->attempt_fate(
        link->ctx, &call, &ending->rows[i].attempt, 1, &fate);
    bool is_gone =
        err == MC_OK && (fate == MCI_FATE_REFUSED || fate == MCI_FATE_DROPPED);
    return is_gone ? MC_OK : MC_ERR_INVALID_VERSION;
}

static void tell(struct ending *ending)
{
    const struct mci_master_link *link = &ending->client->link;
    const struct mci_call call = call_of(ending);
    size_t count = 0;
    for (size_t i = 0; i < ending->count; i++) {
        ending->rows[i] = (struct mci_write_row){.err = MC_OK};
        if (goes_on(ending, i)) {
            ending->rows[count] = ending->handles[i]->row;
            ending->rows[count].err = MC_OK;
            ending->rows[count].in_doubt =
                ending->is_revoke && is_in_doubt(ending->handles[i]);
            count++;
        }
    }
    if (count == 0) {
        return;
    }
    enum mc_err err =
        (ending->is_revoke ? link->ops->put_revoke : link->ops->put_end)(
            link->ctx, &call, ending->rows, count);
    (void)err; /* every row holds it */
    for (size_t i = 0, r = 0; i < ending->count; i++) {
        if (goes_on(ending, i)) {
            ending->results[i] = ending->rows[r++].err;
        }
    }
}

static void settle_fates(struct ending *ending)
{
    for (size_t i = 0; i < ending->count && ending->is_revoke; i++) {
        if (is_first(ending, i) &&
            (ending->results[i] == MC_ERR_INVALID_VERSION ||
             ending->results[i] == MC_ERR_OBJECT_NOT_FOUND)) {
            ending->rows[i] = ending->handles[i]->row;
            ending->results[i] = fate_of(ending, i);
        }
    }
}

/* ---- a call ------------------------------------------------------------------------------ */

static void note_doubts(struct ending *ending)
{
    mci_sessions_lock(ending->sessions);
    for (size_t i = 0; i < ending->count; i++) {
        if (ending->doubts && ending->handles[i]) {
            ending->doubts[i] =
                (ending->results[i] != MC_OK || ending->is_revoke) &&
                is_in_doubt(ending->handles[i]);
        }
    }
    mci_sessions_unlock(ending->sessions);
}

static void end_all(struct ending *ending)
{
    seal_all(ending);
    await_ranges(ending);
    if (!ending->is_revoke) {
        refuse_holes(ending);
        fill_holes(ending);
        place_sums(ending);
    }
    prove(ending);
    tell(ending);
    settle_fates(ending);
    note_doubts(ending);
    release_all(ending);
}

enum mc_err mci_put_sessions_finish(const struct mci_put_finish *asked,
                                    int64_t *results_out)
{
    struct ending ending = {.client = asked->client,
                            .sessions = &asked->client->sessions,
                            .handles = asked->sessions,
                            .count = asked->count,
                            .results = results_out,
                            .deadline_ns = asked->deadline_ns,
                            .is_revoke = asked->is_revoke,
                            .doubts = asked->doubts_out};
    enum mc_err err =
        mci_client_check_rows(asked->sessions, results_out, asked->count);
    if (err == MC_OK && asked->count > 0) {
        err = mci_mover_begin(asked->client, NULL, &ending.mover);
    }
    if (err != MC_OK || asked->count == 0) {
        return mci_client_refuse(results_out, asked->count, err);
    }
    ending.rows = mci_alloc(asked->count * sizeof(*ending.rows));
    if (ending.rows) {
        end_all(&ending);
    } else {
        err = mci_client_refuse(results_out, asked->count, MC_ERR_NOMEM);
    }
    mci_free(ending.rows);
    mci_mover_end(&ending.mover);
    return err;
}

static uint64_t deadline_of(const struct mc_client *client, uint32_t timeout_ms)
{
    return mci_clock_deadline(mci_clock_ns(),
                              timeout_ms ? timeout_ms : client->timeout_ms);
}

enum mc_err mc_client_put_sessions_end(struct mc_client *client,
                                       struct mc_put_session *const *sessions,
                                       size_t count, uint32_t timeout_ms,
                                       int64_t *results_out)
{
    const struct mci_put_finish asked = {.client = client,
                                         .sessions = sessions,
                                         .count = count,
                                         .deadline_ns =
                                             deadline_of(client, timeout_ms)};
    return mci_put_sessions_finish(&asked, results_out);
}

enum mc_err mc_client_put_sessions_revoke(
    struct mc_client *client, struct mc_put_session *const *sessions,
    size_t count, uint32_t timeout_ms, int64_t *results_out)
{
    const struct mci_put_finish asked = {.client = client,
                                         .sessions = sessions,
                                         .count = count,
                                         .deadline_ns =
                                             deadline_of(client, timeout_ms),
                                         .is_revoke = true};
    return mci_put_sessions_finish(&asked, results_out);
}
