/* SPDX-License-Identifier: Apache-2.0 */
/* master_remove_all.c - everything of a tenant goes, and `cleared` says so.
 *
 * The table is walked in ranges of tags; each slice reserves its events before
 * it takes the shard lock, and goes over its range again until nothing in it may
 * go any more. `cleared` is appended only if, under the log's lock, nothing of
 * the tenant was committed since the beginning and nothing of it is readable.
 */
#include "caller.h"
#include "lease.h"
#include "media.h"
#include "version.h"

#define TAGS_END (UINT64_C(1) << 32)

struct removal {
    struct mci_master *master;
    const struct mci_call *call;
    struct mci_tenant *tenant;
    bool force;
};

#define WALK_SLOTS 256
#define SLICE_EVENTS (MCI_LEAVINGS_LABELS * MC_MEDIUM_COUNT)

/* One range of tags of one shard, in which everything that may goes. */
struct clearing {
    const struct removal *removal;
    struct mci_shard *shard;
    uint64_t first_tag;
    uint64_t end_tag;
    uint64_t removed;
};

/* What is gone has nothing that a lease could protect. */
static bool may_remove(const struct clearing *clearing,
                       const struct mci_record *record, bool is_gone)
{
    const struct removal *removal = clearing->removal;
    const struct mci_lease_asking asking = {.master = removal->master,
                                            .shard = clearing->shard,
                                            .now_ns = removal->call->now_ns};
    return record->label->tenant == removal->tenant->index &&
           (removal->force || is_gone ||
            mci_lease_until(&asking, record) <= asking.now_ns);
}

/* Unlinks what one reservation and one set of leavings has room for; true if
 * that was all of the range. */
static bool clear_slice(struct clearing *clearing, uint32_t *reserved,
                        uint32_t budget, struct mci_leavings *leavings)
{
    struct mci_shard *shard = clearing->shard;
    struct mci_walk walk =
        mci_walk_begin(&shard->table, clearing->first_tag, clearing->end_tag);
    struct mci_change change = {.master = clearing->removal->master,
                                .shard = shard,
                                .now_ns = clearing->removal->call->now_ns,
                                .reserved = reserved,
                                .leavings = leavings};
    while ((change.slot = mci_walk_next(&walk))) {
        uint32_t index = mci_chain_linked(shard, change.slot);
        if (index == 0) {
            continue;
        }
        bool is_gone = mci_chain_gone(change.master, shard, change.slot) != 0;
        if (!may_remove(clearing, mci_pool_at(&shard->pool, index), is_gone)) {
            continue;
        }
        if (budget < MC_MEDIUM_COUNT || !mci_leavings_have_room(leavings)) {
            return false;
        }
        budget -= MC_MEDIUM_COUNT;
        mci_version_unlink(&change, index);
        clearing->removed += !is_gone; /* that was no object any more */
        mci_walk_again(&walk);
    }
    return true;
}

static enum mc_err clear_range(struct clearing *clearing, uint64_t *end_tag)
{
    const struct removal *removal = clearing->removal;
    struct mci_master *master = removal->master;
    uint32_t slice = mci_event_log_slice(master->log);
    bool is_done = false;
    while (!is_done) {
        struct mci_leavings leavings;
        uint32_t reserved = 0;
        uint32_t events = SLICE_EVENTS;
        events = events < slice ? events : slice;
        mci_leavings_init(&leavings);
        enum mc_err err =
            mci_media_reserve(master, events, MCI_LOG_BULK,
                              removal->call->deadline_ns, &reserved);
        if (err != MC_OK) {
            return err;
        }
        mci_shard_lock(clearing->shard);
        clearing->end_tag = mci_table_range_end(
            &clearing->shard->table, clearing->first_tag, WALK_SLOTS);
        is_done = clear_slice(clearing, &reserved, events, &leavings);
        mci_shard_unlock(clearing->shard);
        mci_media_unreserve(master, reserved);
        mci_leavings_clear(master, &leavings);
    }
    *end_tag = clearing->end_tag;
    return MC_OK;
}

static enum mc_err clear_shards(const struct removal *removal,
                                uint64_t *removed)
{
    struct mci_master *master = removal->master;
    enum mc_err err = MC_OK;
    for (uint32_t i = 0; i < master->shard_count && err == MC_OK; i++) {
        struct clearing clearing = {.removal = removal,
                                    .shard = &master->shards[i]};
        uint64_t tag = 0;
        while (tag < TAGS_END && err == MC_OK) {
            clearing.first_tag = tag;
            err = mci_call_goes_on(removal->call) ? clear_range(&clearing, &tag)
                                                  : MC_ERR_RPC_TIMEOUT;
        }
        *removed += clearing.removed;
    }
    return err;
}

static enum mc_err append_cleared(const struct removal *removal,
                                  uint64_t commits_at_start)
{
    struct mci_master *master = removal->master;
    uint32_t reserved = 0;
    enum mc_err err = mci_media_reserve(master, 1, MCI_LOG_BULK,
                                        removal->call->deadline_ns, &reserved);
    if (err != MC_OK) {
        return err;
    }
    (void)mci_event_log_append_cleared(master->log, &removal->tenant->log,
                                       commits_at_start, false, &reserved);
    mci_media_unreserve(master, reserved);
    return MC_OK;
}

enum mc_err mci_master_remove_all(struct mci_master *master,
                                  const struct mci_call *call, bool force,
                                  uint64_t *removed_out)
{
    struct removal removal = {.master = master, .call = call, .force = force};
    uint64_t removed = 0;
    uint64_t commits = 0;
    uint64_t readable = 0;
    enum mc_err err = mci_call_begin(master, call, false, &removal.tenant);
    if (err != MC_OK) {
        return err;
    }
    if (removal.tenant) {
        mci_event_log_tenant_counts(master->log, &removal.tenant->log, &commits,
                                    &readable);
        err = clear_shards(&removal, &removed);
        if (err == MC_OK) {
            err = append_cleared(&removal, commits);
        }
    }
    if (err == MC_OK || err == MC_ERR_RPC_TIMEOUT) {
        *removed_out = removed;
    }
    return err;
}
