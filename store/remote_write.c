/* SPDX-License-Identifier: Apache-2.0 */
/* Starts, ends, revokes and what is asked about attempts.
 *
 * A batch goes in as few messages as its bytes allow, in the order of its rows.
 * The number of an attempt means something within its epoch only: a row of
 * another epoch is answered here (-300), and a request that names attempts is
 * not sent under another epoch than theirs.
 */
#include "remote.h"

#define ROW_BYTES 128 /* of a row on the wire, beside its texts */

static void refuse_rows(struct mci_write_row *rows, size_t count,
                        enum mc_err err)
{
    for (size_t i = 0; i < count; i++) {
        rows[i].err = err;
    }
}

/* What came of the messages of one batch. A later one that fails leaves its
 * code in its rows only. */
struct outcome {
    enum mc_err err; /* of the first message */
    bool is_begun;
};

static void note(struct outcome *outcome, enum mc_err err)
{
    if (!outcome->is_begun) {
        outcome->err = err;
    }
    outcome->is_begun = true;
}

/* ---- start --------------------------------------------------------------- */

struct start {
    struct mci_remote *remote;
    const struct mci_call *call;
    const struct mc_replicate_config *config;
    enum mci_op op;
};

static bool is_sound(const struct mci_write_row *row)
{
    return row->err != MC_OK ||
           (row->attempt.number != 0 && row->place_count != 0);
}

static void read_started(struct remote_ask *ask, struct mci_write_row *rows,
                         size_t count)
{
    if (mci_rows_unpack(&ask->unpack) != count) {
        mci_unpack_refuse(&ask->unpack, MCI_UNPACK_ERROR_LENGTH);
    }
    for (size_t i = 0; i < count; i++) {
        mci_started_unpack(&ask->unpack, ask->self.epoch, &rows[i]);
        if (!is_sound(&rows[i])) {
            mci_unpack_refuse(&ask->unpack, MCI_UNPACK_ERROR_RANGE);
        }
    }
}

/* Before the slot is given back: remote.h says why. Returns how many. */
static size_t enter_started(struct remote_ask *ask,
                            const struct mci_write_row *rows, size_t count)
{
    size_t entered = 0;
    for (size_t i = 0; i < count; i++) {
        if (rows[i].err == MC_OK) {
            mci_remote_book_enter(&ask->remote->book, ask->generation,
                                  &rows[i]);
            entered++;
        }
    }
    return entered;
}

static void forget_started(struct mci_write_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        rows[i].attempt = (struct mci_attempt){.number = 0};
        rows[i].place_count = 0;
    }
}

static enum mc_err start_run(const struct start *start,
                             struct mci_write_row *rows, size_t count)
{
    struct mci_remote *remote = start->remote;
    const struct remote_ask_opts opts = {.op = start->op,
                                         .tenant = start->call->tenant,
                                         .deadline_ns =
                                             start->call->deadline_ns};
    struct remote_ask ask;
    size_t entered = 0;
    enum mc_err err = mci_remote_book_promise(&remote->book, count);
    if (err != MC_OK) {
        return err;
    }
    err = mci_remote_ask_begin(remote, &opts, &ask);
    if (err != MC_OK) {
        goto err_promise;
    }
    mci_start_pack(&ask.pack, start->config, rows, count);
    err = mci_remote_ask_run(&ask);
    if (err == MC_OK) {
        read_started(&ask, rows, count);
        if (mci_unpack_done(&ask.unpack) == MCI_UNPACK_OK) {
            entered = enter_started(&ask, rows, count);
        }
    }
    err = mci_remote_ask_end(&ask, err);

err_promise:
    mci_remote_book_unpromise(&remote->book, count - entered);
    return err;
}

static size_t bytes_of_start(const struct mci_write_row *row)
{
    return ROW_BYTES + mci_remote_text_bytes(row->key, MC_KEY_LEN_MAX) +
           mci_remote_text_bytes(row->session_id, MC_SESSION_ID_LEN_MAX) +
           mci_remote_text_bytes(row->group_id, MC_GROUP_ID_LEN_MAX);
}

static enum mc_err start_rows(const struct start *start,
                              struct mci_write_row *rows, size_t count)
{
    struct outcome outcome = {.err = MC_OK};
    struct remote_run run = {.at = 0};
    forget_started(rows, count);
    while (run.at < count || !outcome.is_begun) {
        while (run.at + run.count < count &&
               mci_remote_run_takes(
                   &run, bytes_of_start(&rows[run.at + run.count]))) {
        }
        enum mc_err err = start_run(start, &rows[run.at], run.count);
        if (err != MC_OK) {
            forget_started(&rows[run.at], run.count);
            refuse_rows(&rows[run.at], outcome.is_begun ? run.count : count,
                        err);
        }
        note(&outcome, err);
        if (outcome.err != MC_OK) {
            break;
        }
        run = (struct remote_run){.at = run.at + run.count};
    }
    return outcome.err;
}

enum mc_err mci_remote_put_start(void *ctx, const struct mci_call *call,
                                 const struct mc_replicate_config *config,
                                 struct mci_write_row *rows, size_t count)
{
    const struct start start = {ctx, call, config, MCI_OP_PUT_START};
    return start_rows(&start, rows, count);
}

enum mc_err mci_remote_upsert_start(void *ctx, const struct mci_call *call,
                                    const struct mc_replicate_config *config,
                                    struct mci_write_row *rows, size_t count)
{
    const struct start start = {ctx, call, config, MCI_OP_UPSERT_START};
    return start_rows(&start, rows, count);
}

/* ---- end, revoke, touch -------------------------------------------------- */

struct ending {
    struct mci_remote *remote;
    const struct mci_call *call;
    enum mci_op op;
    uint64_t epoch; /* of the attempts that are named */
};

static bool is_named(const struct ending *ending,
                     const struct mci_write_row *row)
{
    return row->attempt.number != 0 && row->attempt.epoch == ending->epoch;
}

static void pack_ending(const struct ending *ending, struct mci_pack *pack,
                        const struct mci_write_row *rows, size_t count)
{
    size_t named = 0;
    for (size_t i = 0; i < count; i++) {
        named += is_named(ending, &rows[i]);
    }
    mci_rows_pack(pack, named);
    for (size_t i = 0; i < count; i++) {
        if (!is_named(ending, &rows[i])) {
            continue;
        }
        if (ending->op == MCI_OP_ATTEMPT_TOUCH) {
            mci_touch_row_pack(pack, rows[i].key, rows[i].attempt.number);
        } else {
            mci_end_row_pack(pack, &rows[i]);
        }
    }
}

static void read_ended(const struct ending *ending, struct mci_unpack *unpack,
                       struct mci_write_row *rows, size_t count)
{
    size_t left = mci_rows_unpack(unpack);
    for (size_t i = 0; i < count; i++) {
        if (!is_named(ending, &rows[i])) {
            continue;
        }
        if (left == 0) {
            mci_unpack_refuse(unpack, MCI_UNPACK_ERROR_LENGTH);
            return;
        }
        left--;
        int64_t result = mci_result_unpack(unpack);
        if (result > 0 || result < INT32_MIN) {
            mci_unpack_refuse(unpack, MCI_UNPACK_ERROR_RANGE);
        }
        rows[i].err = (enum mc_err)result;
    }
}

/* What is over is over: its end was answered, or it was not open. */
static void leave_ended(const struct ending *ending,
                        const struct mci_write_row *rows, size_t count)
{
    if (ending->op == MCI_OP_ATTEMPT_TOUCH) {
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (is_named(ending, &rows[i]) &&
            (rows[i].err == MC_OK || rows[i].err == MC_ERR_INVALID_VERSION)) {
            mci_remote_book_leave(&ending->remote->book,
                                  rows[i].attempt.number);
        }
    }
}

static enum mc_err end_run(const struct ending *ending,
                           struct mci_write_row *rows, size_t count)
{
    const struct remote_ask_opts opts = {.op = ending->op,
                                         .tenant = ending->call->tenant,
                                         .deadline_ns =
                                             ending->call->deadline_ns,
                                         .epoch = ending->epoch};
    struct remote_ask ask;
    enum mc_err err = mci_remote_ask_begin(ending->remote, &opts, &ask);
    if (err != MC_OK) {
        return err;
    }
    pack_ending(ending, &ask.pack, rows, count);
    err = mci_remote_ask_run(&ask);
    if (err == MC_OK) {
        read_ended(ending, &ask.unpack, rows, count);
        if (mci_unpack_done(&ask.unpack) == MCI_UNPACK_OK) {
            leave_ended(ending, rows, count);
        }
    }
    return mci_remote_ask_end(&ask, err);
}

/* Answers what need not be asked; returns how many rows are left. */
static size_t answer_strangers(const struct ending *ending,
                               struct mci_write_row *rows, size_t count)
{
    size_t named = 0;
    for (size_t i = 0; i < count; i++) {
        if (is_named(ending, &rows[i])) {
            named++;
        } else if (rows[i].attempt.number != 0 ||
                   ending->op == MCI_OP_ATTEMPT_TOUCH) {
            rows[i].err = MC_ERR_INVALID_VERSION;
        }
    }
    return named;
}

/* To rows that were asked about. */
static void refuse_named(const struct ending *ending,
                         struct mci_write_row *rows, size_t count,
                         enum mc_err err)
{
    for (size_t i = 0; i < count; i++) {
        if (is_named(ending, &rows[i])) {
            rows[i].err = err;
        }
    }
}

static size_t bytes_of_end(const struct mci_write_row *row)
{
    return ROW_BYTES + mci_remote_text_bytes(row->key, MC_KEY_LEN_MAX);
}

static enum mc_err end_rows(struct ending *ending, struct mci_write_row *rows,
                            size_t count)
{
    struct outcome outcome = {.err = MC_OK};
    struct remote_run run = {.at = 0};
    ending->epoch = mci_remote_self(ending->remote).epoch;
    if (answer_strangers(ending, rows, count) == 0) {
        return MC_OK;
    }
    while (run.at < count) {
        while (run.at + run.count < count &&
               mci_remote_run_takes(&run,
                                    bytes_of_end(&rows[run.at + run.count]))) {
        }
        size_t to = outcome.is_begun ? run.count : count - run.at;
        enum mc_err err = end_run(ending, &rows[run.at], run.count);
        if (err == MC_ERR_INVALID_VERSION) {
            /* Another epoch has come. */
            refuse_named(ending, &rows[run.at], count - run.at, err);
            return MC_OK;
        }
        if (err != MC_OK) {
            refuse_named(ending, &rows[run.at], to, err);
        }
        note(&outcome, err);
        if (outcome.err != MC_OK) {
            break;
        }
        run = (struct remote_run){.at = run.at + run.count};
    }
    return outcome.err;
}

enum mc_err mci_remote_put_end(void *ctx, const struct mci_call *call,
                               struct mci_write_row *rows, size_t count)
{
    struct ending ending = {.remote = ctx, .call = call, .op = MCI_OP_PUT_END};
    return end_rows(&ending, rows, count);
}

enum mc_err mci_remote_put_revoke(void *ctx, const struct mci_call *call,
                                  struct mci_write_row *rows, size_t count)
{
    struct ending ending = {
        .remote = ctx, .call = call, .op = MCI_OP_PUT_REVOKE};
    return end_rows(&ending, rows, count);
}

enum mc_err mci_remote_attempt_touch(void *ctx, const struct mci_call *call,
                                     struct mci_write_row *rows, size_t count)
{
    struct ending ending = {
        .remote = ctx, .call = call, .op = MCI_OP_ATTEMPT_TOUCH};
    return end_rows(&ending, rows, count);
}

/* ---- fates --------------------------------------------------------------- */

/* Those of other epochs are not sent; returns how many are. */
static size_t pack_asked(struct mci_pack *pack, uint64_t epoch,
                         const struct mci_attempt *attempts, size_t count)
{
    size_t asked = 0;
    for (size_t i = 0; i < count; i++) {
        asked += attempts[i].epoch == epoch;
    }
    mci_rows_pack(pack, asked);
    for (size_t i = 0; i < count; i++) {
        if (attempts[i].epoch == epoch) {
            mci_pack_u64(pack, attempts[i].number);
        }
    }
    return asked;
}

static void read_fates(struct mci_unpack *unpack, uint64_t epoch,
                       const struct mci_attempt *attempts, size_t count,
                       enum mci_fate *fates_out)
{
    size_t left = mci_rows_unpack(unpack);
    for (size_t i = 0; i < count; i++) {
        fates_out[i] = MCI_FATE_UNKNOWN;
        if (attempts[i].epoch != epoch) {
            continue;
        }
        if (left-- == 0) {
            mci_unpack_refuse(unpack, MCI_UNPACK_ERROR_LENGTH);
            return;
        }
        fates_out[i] = (enum mci_fate)mci_unpack_u32(unpack, MCI_FATE_DROPPED);
    }
}

enum mc_err mci_remote_attempt_fate(void *ctx, const struct mci_call *call,
                                    const struct mci_attempt *attempts,
                                    size_t count, enum mci_fate *fates_out)
{
    struct mci_remote *remote = ctx;
    uint64_t epoch = mci_remote_self(remote).epoch;
    const struct remote_ask_opts opts = {.op = MCI_OP_ATTEMPT_FATE,
                                         .tenant = call->tenant,
                                         .deadline_ns = call->deadline_ns,
                                         .epoch = epoch};
    struct remote_ask ask;
    enum mc_err err = mci_remote_ask_begin(remote, &opts, &ask);
    if (err != MC_OK) {
        return err;
    }
    (void)pack_asked(&ask.pack, epoch, attempts, count);
    err = mci_remote_ask_run(&ask);
    if (err == MC_OK) {
        read_fates(&ask.unpack, epoch, attempts, count, fates_out);
    }
    err = mci_remote_ask_end(&ask, err);
    if (err != MC_ERR_INVALID_VERSION) {
        return err;
    }
    for (size_t i = 0; i < count; i++) {
        fates_out[i] = MCI_FATE_UNKNOWN; /* another epoch has come */
    }
    return MC_OK;
}
