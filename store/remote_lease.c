/* SPDX-License-Identifier: Apache-2.0 */
/* Leases with names, renewed and released.
 *
 * The number of a lease means something within its epoch only: one of another
 * epoch is over, which is answered here, and a request that names leases is not
 * sent under another epoch than theirs. A renewal may be done again: it extends
 * from when it is done, never beyond the lease's hour. A release is done once; it
 * is the last that is heard of its number, so it can come too late for nothing.
 */
#include "remote.h"

#define ROW_BYTES 28 /* of a lease on the wire */

struct leases {
    struct mci_remote *remote;
    const struct mci_call *call;
    enum mci_op op;
    uint64_t epoch; /* of the leases that are named */
};

static bool is_named(const struct leases *leases,
                     const struct mci_read_row *row)
{
    return row->lease.number != 0 && row->lease.epoch == leases->epoch;
}

static void pack_named(const struct leases *leases, struct mci_pack *pack,
                       const struct mci_read_row *rows, size_t count)
{
    size_t named = 0;
    for (size_t i = 0; i < count; i++) {
        named += is_named(leases, &rows[i]);
    }
    mci_rows_pack(pack, named);
    for (size_t i = 0; i < count; i++) {
        if (is_named(leases, &rows[i])) {
            mci_lease_row_pack(pack, &rows[i]);
        }
    }
}

static void read_renewed(const struct leases *leases, struct remote_ask *ask,
                         struct mci_read_row *row)
{
    mci_renewed_unpack(&ask->unpack, row);
    if (row->err == MC_OK) {
        row->lease_left_ns = mci_remote_lease_from(ask, leases->call->now_ns,
                                                   row->lease_left_ns);
    }
}

static void read_released(struct remote_ask *ask, struct mci_read_row *row)
{
    int64_t result = mci_result_unpack(&ask->unpack);
    if (result > 0 || result < INT32_MIN) {
        mci_unpack_refuse(&ask->unpack, MCI_UNPACK_ERROR_RANGE);
    }
    row->err = (enum mc_err)result;
}

static void read_rows(const struct leases *leases, struct remote_ask *ask,
                      struct mci_read_row *rows, size_t count)
{
    size_t left = mci_rows_unpack(&ask->unpack);
    for (size_t i = 0; i < count; i++) {
        if (!is_named(leases, &rows[i])) {
            continue;
        }
        if (left == 0) {
            mci_unpack_refuse(&ask->unpack, MCI_UNPACK_ERROR_LENGTH);
            return;
        }
        left--;
        if (leases->op == MCI_OP_RENEW_LEASE) {
            read_renewed(leases, ask, &rows[i]);
        } else {
            read_released(ask, &rows[i]);
        }
    }
}

static enum mc_err run_rows(const struct leases *leases,
                            struct mci_read_row *rows, size_t count)
{
    const struct remote_ask_opts opts = {.op = leases->op,
                                         .tenant = leases->call->tenant,
                                         .deadline_ns =
                                             leases->call->deadline_ns,
                                         .epoch = leases->epoch};
    struct remote_ask ask;
    enum mc_err err = mci_remote_ask_begin(leases->remote, &opts, &ask);
    if (err != MC_OK) {
        return err;
    }
    pack_named(leases, &ask.pack, rows, count);
    err = mci_remote_ask_run(&ask);
    if (err == MC_OK) {
        read_rows(leases, &ask, rows, count);
    }
    return mci_remote_ask_end(&ask, err);
}

/* All named rows; a part that fails refuses them all, released or renewed as some
 * of them may be. */
static enum mc_err ask_rows(const struct leases *leases,
                            struct mci_read_row *rows, size_t count)
{
    struct remote_run run = {.at = 0};
    enum mc_err err = MC_OK;
    while (err == MC_OK && run.at < count) {
        while (run.at + run.count < count &&
               mci_remote_run_takes(&run, ROW_BYTES)) {
        }
        err = run_rows(leases, &rows[run.at], run.count);
        run = (struct remote_run){.at = run.at + run.count};
    }
    return err;
}

static size_t count_named(const struct leases *leases,
                          const struct mci_read_row *rows, size_t count)
{
    size_t named = 0;
    for (size_t i = 0; i < count; i++) {
        named += is_named(leases, &rows[i]);
    }
    return named;
}

static void refuse_row(struct mci_read_row *row, enum mc_err err)
{
    row->err = err;
    row->place_count = 0;
    row->hold = (struct mci_hold){.index = 0};
    row->media = 0;
    row->has_sums = false;
    row->size = 0;
    row->lease_left_ns = 0;
}

enum mc_err mci_remote_lease_renew(void *ctx, const struct mci_call *call,
                                   struct mci_read_row *rows, size_t count)
{
    const struct leases leases = {ctx, call, MCI_OP_RENEW_LEASE,
                                  mci_remote_self(ctx).epoch};
    enum mc_err err = MC_OK;
    if (count_named(&leases, rows, count) > 0) {
        err = ask_rows(&leases, rows, count);
    }
    if (err == MC_ERR_INVALID_VERSION) {
        err = MC_OK; /* another epoch has come: all of them are over */
        for (size_t i = 0; i < count; i++) {
            refuse_row(&rows[i], MC_ERR_LEASE_EXPIRED);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (err != MC_OK) {
            refuse_row(&rows[i], err);
        } else if (!is_named(&leases, &rows[i])) {
            refuse_row(&rows[i], MC_ERR_LEASE_EXPIRED);
        }
    }
    return err;
}

enum mc_err mci_remote_lease_release(void *ctx, const struct mci_call *call,
                                     struct mci_read_row *rows, size_t count)
{
    const struct leases leases = {ctx, call, MCI_OP_RELEASE_LEASE,
                                  mci_remote_self(ctx).epoch};
    enum mc_err err = MC_OK;
    if (count_named(&leases, rows, count) > 0) {
        err = ask_rows(&leases, rows, count);
    }
    bool is_over = err == MC_ERR_INVALID_VERSION; /* another epoch has come */
    err = is_over ? MC_OK : err;
    for (size_t i = 0; i < count; i++) {
        if (err != MC_OK || is_over || !is_named(&leases, &rows[i])) {
            rows[i].err = err;
        }
        if (rows[i].err == MC_OK) {
            rows[i].lease = (struct mci_lease){.number = 0};
        }
    }
    return err;
}

/* Nothing is held in another process. */
enum mc_err mci_remote_lease_hold(void *ctx, const struct mci_call *call,
                                  struct mci_read_row *rows, size_t count)
{
    (void)ctx, (void)call;
    for (size_t i = 0; i < count; i++) {
        rows[i].hold = (struct mci_hold){.index = 0};
        rows[i].err = MC_ERR_NOT_SUPPORTED;
    }
    return MC_ERR_NOT_SUPPORTED;
}
