/* SPDX-License-Identifier: Apache-2.0 */
/* master_lease.c - leases with names: renewed, held, released; by their ref, so
 * that no key is looked for. */
#include "caller.h"
#include "lease.h"
#include "version.h"
#include "writer.h"

/* A lease that was found, under the lock of its shard. */
struct grip {
    struct mci_shard *shard;
    uint32_t lease; /* 0: there is none, and nothing is locked */
    struct mci_record *record;
    uint32_t index;
};

/* What a row names, if it is the caller's and of that version. It may be over. */
static struct grip grip(struct mci_master *master, const struct mci_call *call,
                        const struct mci_read_row *row)
{
    const struct mci_lease *lease = &row->lease;
    struct grip grip = {.lease = 0};
    uint64_t shard = lease->ref >> 32;
    if (lease->epoch != master->epoch || shard >= master->shard_count ||
        mci_number_client(lease->number) != call->client) {
        return grip;
    }
    grip.shard = &master->shards[shard];
    mci_shard_lock(grip.shard);
    const struct mci_named *named =
        mci_named_find(grip.shard->named, (uint32_t)lease->ref, lease->number);
    if (named) {
        grip.index = named->record;
        grip.record = mci_pool_at(&grip.shard->pool, named->record);
    }
    if (!named || grip.record->number != row->version) {
        mci_shard_unlock(grip.shard);
        return grip;
    }
    grip.lease = (uint32_t)lease->ref;
    return grip;
}

static void clear(struct mci_read_row *row)
{
    row->place_count = 0;
    row->hold = (struct mci_hold){.index = 0};
    row->media = 0;
    row->has_sums = false;
    row->size = 0;
    row->lease_left_ns = 0;
}

/* One row of renew or hold, of a lease that is not over. */
typedef void (*lease_row_fn)(struct mci_master *master,
                             const struct mci_call *call,
                             const struct grip *grip, struct mci_read_row *row);

static void renew_row(struct mci_master *master, const struct mci_call *call,
                      const struct grip *grip, struct mci_read_row *row)
{
    (void)row;
    mci_lease_extend(master, grip->shard, grip->lease, call->now_ns);
}

static void hold_row(struct mci_master *master, const struct mci_call *call,
                     const struct grip *grip, struct mci_read_row *row)
{
    (void)master, (void)call;
    if (grip->record->extent != 0) {
        mci_hold_add(grip->shard->named, grip->record);
        row->hold.shard = grip->shard->index;
        row->hold.index = grip->index;
    }
}

static enum mc_err lease_row(struct mci_master *master,
                             const struct mci_call *call,
                             struct mci_read_row *row, lease_row_fn act)
{
    struct grip grip_on = grip(master, call, row);
    if (grip_on.lease == 0) {
        return MC_ERR_LEASE_EXPIRED;
    }
    const struct mci_named *named = &grip_on.shard->named->all[grip_on.lease];
    /* A renewal does not keep what nobody can read. */
    bool goes_on = named->until_ns > call->now_ns &&
                   mci_version_is_there(master, grip_on.shard, grip_on.index);
    if (goes_on) {
        act(master, call, &grip_on, row);
        mci_version_tell(master, grip_on.shard, grip_on.index, row);
        row->lease_left_ns = named->until_ns - call->now_ns;
    }
    mci_shard_unlock(grip_on.shard);
    return goes_on ? MC_OK : MC_ERR_LEASE_EXPIRED;
}

static enum mc_err lease_rows(struct mci_master *master,
                              const struct mci_call *call,
                              struct mci_read_row *rows, size_t count,
                              lease_row_fn act)
{
    struct mci_tenant *tenant = NULL;
    enum mc_err err = count > MC_ROWS_MAX
                          ? MC_ERR_INVALID_PARAMS
                          : mci_call_begin(master, call, false, &tenant);
    for (size_t i = 0; i < count; i++) {
        clear(&rows[i]);
        rows[i].err =
            err == MC_OK ? lease_row(master, call, &rows[i], act) : err;
    }
    return err;
}

enum mc_err mci_master_lease_renew(struct mci_master *master,
                                   const struct mci_call *call,
                                   struct mci_read_row *rows, size_t count)
{
    return lease_rows(master, call, rows, count, renew_row);
}

enum mc_err mci_master_lease_hold(struct mci_master *master,
                                  const struct mci_call *call,
                                  struct mci_read_row *rows, size_t count)
{
    return lease_rows(master, call, rows, count, hold_row);
}

static void release_row(struct mci_master *master, const struct mci_call *call,
                        struct mci_read_row *row)
{
    struct grip grip_on = grip(master, call, row);
    struct mci_leavings leavings;
    if (grip_on.lease == 0) {
        return;
    }
    mci_leavings_init(&leavings);
    mci_lease_drop(master, grip_on.shard, grip_on.lease, &leavings);
    mci_shard_unlock(grip_on.shard);
    mci_leavings_clear(master, &leavings);
}

enum mc_err mci_master_lease_release(struct mci_master *master,
                                     const struct mci_call *call,
                                     struct mci_read_row *rows, size_t count)
{
    struct mci_tenant *tenant = NULL;
    enum mc_err err = count > MC_ROWS_MAX
                          ? MC_ERR_INVALID_PARAMS
                          : mci_call_begin(master, call, false, &tenant);
    for (size_t i = 0; i < count; i++) {
        rows[i].err = err;
        if (err == MC_OK) {
            release_row(master, call, &rows[i]);
            rows[i].lease = (struct mci_lease){.number = 0};
        }
    }
    return err;
}
