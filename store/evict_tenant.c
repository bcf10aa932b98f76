/* SPDX-License-Identifier: Apache-2.0 */
/* evict_tenant.c - what of one tenant has to go.
 *
 * Lanes know no tenants, so a shard's lanes are walked from the oldest on for
 * some copies of this one, and then those are evicted; the next call goes on
 * with the next shard. So the order of last use is kept within a shard only, and
 * a walk under a shard lock is bounded. What is gone with its owner and still
 * charged goes before anything that somebody could read.
 */
#include "evict.h"
#include "lease.h"
#include "media.h"
#include "quota.h"
#include "space.h"
#include "version.h"

#define FOUND_MAX 8
#define WALK_MAX 1024 /* copies of others that are passed over in one lane */

struct candidate {
    struct mci_space *space;
    uint64_t ref;
    uint64_t bytes;
    uint32_t extent;
};

struct hunt {
    struct mci_master *master;
    uint16_t tenant;
    struct candidate found[FOUND_MAX];
    uint32_t count;
};

/* The shard's lock is held. */
static void look_in_lane(struct hunt *hunt, const struct mci_shard *shard,
                         uint32_t slot, enum mci_lane_kind kind)
{
    struct mci_lane *lane = mci_lane_of(hunt->master, shard, slot, kind);
    uint32_t copy = lane->queue.head;
    for (uint32_t i = 0; copy != 0 && i < WALK_MAX && hunt->count < FOUND_MAX;
         i++) {
        const struct mci_record *record = mci_pool_at(&shard->pool, copy);
        uint32_t index =
            record->state == MCI_RECORD_COPY ? (uint32_t)record->number : copy;
        const struct mci_record *version = mci_pool_at(&shard->pool, index);
        if (version->label->tenant == hunt->tenant) {
            hunt->found[hunt->count++] =
                (struct candidate){.space = mci_space_at(hunt->master, slot),
                                   .ref = mci_ref_make(shard->index, index),
                                   .bytes = record->bytes,
                                   .extent = record->extent};
        }
        copy = record->next;
    }
}

static void look_in_shard(struct hunt *hunt, struct mci_shard *shard,
                          enum mci_lane_kind kind)
{
    uint32_t spaces = atomic_load(&hunt->master->space_count);
    hunt->count = 0;
    mci_shard_lock(shard);
    for (uint32_t slot = 0; slot < spaces && hunt->count < FOUND_MAX; slot++) {
        look_in_lane(hunt, shard, slot, kind);
    }
    mci_shard_unlock(shard);
}

/* ---- what is gone --------------------------------------------------------- */

/* Whether there can be any: not where only leases keep what was taken out. */
static bool is_any_going(struct mci_master *master)
{
    uint32_t spaces = atomic_load(&master->space_count);
    for (uint32_t slot = 0; slot < spaces; slot++) {
        if (mci_space_is_going(master, mci_space_at(master, slot))) {
            return true;
        }
    }
    return false;
}

/* Whether a lane belongs to space that is gone and has something in it, as far as
 * its head shows without the lock. */
static bool may_have_gone(struct mci_master *master,
                          const struct mci_shard *shard, uint32_t slot,
                          enum mci_lane_kind kind)
{
    const struct mci_space *space = mci_space_at(master, slot);
    return atomic_load(&space->is_gone) &&
           atomic_load_explicit(
               &mci_lane_of(master, shard, slot, kind)->head_used_ns,
               memory_order_relaxed) != MCI_NEVER;
}

static bool shard_may_have_gone(struct mci_master *master,
                                const struct mci_shard *shard)
{
    uint32_t spaces = atomic_load(&master->space_count);
    for (uint32_t slot = 0; slot < spaces; slot++) {
        for (unsigned kind = 0; kind < MCI_LANE_KINDS; kind++) {
            if (may_have_gone(master, shard, slot, (enum mci_lane_kind)kind)) {
                return true;
            }
        }
    }
    return false;
}

/* Nobody has it any more, so no lease and no pin keeps it. */
static void look_in_gone(struct hunt *hunt, struct mci_shard *shard)
{
    uint32_t spaces = atomic_load(&hunt->master->space_count);
    hunt->count = 0;
    if (!shard_may_have_gone(hunt->master, shard)) {
        return;
    }
    mci_shard_lock(shard);
    for (uint32_t slot = 0; slot < spaces && hunt->count < FOUND_MAX; slot++) {
        for (unsigned kind = 0; kind < MCI_LANE_KINDS; kind++) {
            if (may_have_gone(hunt->master, shard, slot,
                              (enum mci_lane_kind)kind)) {
                look_in_lane(hunt, shard, slot, (enum mci_lane_kind)kind);
            }
        }
    }
    mci_shard_unlock(shard);
}

/* The copy of a version that was found, if it still lies there; else 0. */
static uint32_t copy_found(const struct mci_shard *shard, uint32_t index,
                           const struct candidate *candidate)
{
    uint32_t copy = mci_copy_first(shard, index);
    for (; copy != 0; copy = mci_copy_next(shard, copy)) {
        const struct mci_record *record = mci_pool_at(&shard->pool, copy);
        if (record->extent == candidate->extent &&
            record->segment == candidate->space->slot) {
            break;
        }
    }
    return copy;
}

/* A copy that is gone, of a version of which another one, or a disk, is there. Who
 * reads it now keeps it, as from the slices. */
static uint64_t oust_copy(const struct mci_change *change, uint32_t index,
                          const struct candidate *candidate)
{
    const struct mci_shard *shard = change->shard;
    uint32_t copy = copy_found(shard, index, candidate);
    if (copy == 0 || !atomic_load(&candidate->space->is_gone) ||
        mci_holds(shard->named, mci_pool_at(&shard->pool, index)) > 0) {
        return 0;
    }
    uint64_t bytes = mci_pool_at(&shard->pool, copy)->bytes;
    mci_version_drop_copy(change, index, copy);
    return bytes;
}

/* Takes out what was found, if it still is there and gone: the version, or the
 * copy. The bytes that are charged no more. */
static uint64_t oust_found(const struct hunt *hunt, struct mci_change *change,
                           const struct candidate *candidate)
{
    uint32_t index = (uint32_t)candidate->ref;
    const struct mci_record *record = mci_pool_at(&change->shard->pool, index);
    struct mci_spot spot;
    if (record->state != MCI_RECORD_READABLE ||
        record->label->tenant != hunt->tenant) {
        return 0;
    }
    mci_spot_of(hunt->master, record, &spot);
    change->slot =
        mci_table_find(&change->shard->table, &change->shard->pool, &spot);
    if (mci_chain_gone(hunt->master, change->shard, change->slot) == 0) {
        return oust_copy(change, index, candidate);
    }
    uint64_t bytes = mci_version_copy_bytes(change->shard, index);
    mci_version_oust(change);
    return bytes;
}

static enum mc_err oust(const struct hunt *hunt,
                        const struct mci_eviction *eviction,
                        const struct candidate *candidate, uint64_t *bytes_out)
{
    struct mci_leavings leavings;
    uint32_t reserved = 0;
    enum mc_err err =
        mci_media_reserve(hunt->master, MC_MEDIUM_COUNT, eviction->cls,
                          eviction->deadline_ns, &reserved);
    if (err != MC_OK) {
        return MC_ERR_RPC_TIMEOUT;
    }
    struct mci_shard *shard = &hunt->master->shards[candidate->ref >> 32];
    struct mci_change change = {.master = hunt->master,
                                .shard = shard,
                                .now_ns = eviction->now_ns,
                                .reserved = &reserved,
                                .leavings = &leavings};
    mci_leavings_init(&leavings);
    mci_shard_lock(change.shard);
    *bytes_out = oust_found(hunt, &change, candidate);
    mci_shard_unlock(change.shard);
    mci_media_unreserve(hunt->master, reserved);
    mci_leavings_clear(hunt->master, &leavings);
    return MC_OK;
}

/* Some of what is gone in a shard; *more_out: there may be more. */
static enum mc_err oust_some(struct hunt *hunt,
                             const struct mci_eviction *eviction,
                             struct mci_shard *shard, uint64_t *bytes_left,
                             bool *more_out)
{
    bool is_any = false;
    look_in_gone(hunt, shard);
    for (uint32_t i = 0; *bytes_left > 0 && i < hunt->count; i++) {
        uint64_t bytes = 0;
        enum mc_err err = oust(hunt, eviction, &hunt->found[i], &bytes);
        if (err != MC_OK) {
            return err;
        }
        is_any |= bytes > 0;
        *bytes_left -= bytes < *bytes_left ? bytes : *bytes_left;
    }
    *more_out = is_any && hunt->count == FOUND_MAX;
    return MC_OK;
}

static enum mc_err oust_round(struct hunt *hunt,
                              const struct mci_eviction *eviction,
                              uint64_t *bytes_left)
{
    struct mci_master *master = hunt->master;
    struct mci_tenant *tenant = mci_tenant_at(master, hunt->tenant);
    enum mc_err err = MC_OK;
    for (uint32_t i = 0; i < master->shard_count; i++) {
        uint32_t shard = atomic_fetch_add(&tenant->evict_turn, 1);
        bool more = true;
        while (more && *bytes_left > 0 && err == MC_OK) {
            err = oust_some(hunt, eviction,
                            &master->shards[shard & (master->shard_count - 1)],
                            bytes_left, &more);
        }
        if (*bytes_left == 0 || err != MC_OK) {
            break;
        }
    }
    return err;
}

/* ---- what may go ---------------------------------------------------------- */

static void give_back(void *ctx, struct mci_leavings *leavings)
{
    mci_leavings_clear(ctx, leavings);
}

static enum mci_evicted evict(const struct mci_eviction *eviction,
                              const struct candidate *candidate,
                              enum mci_level level)
{
    struct mci_eviction here = *eviction;
    struct mci_leavings leavings;
    struct mci_group *group = NULL;
    mci_leavings_init(&leavings);
    here.space = candidate->space;
    enum mci_evicted evicted = mci_evict_extent(&here, level, candidate->ref,
                                                candidate->extent, &leavings);
    if (leavings.group_count > 0) {
        group = leavings.groups[--leavings.group_count];
    }
    mci_leavings_clear(eviction->master, &leavings);
    if (group) {
        mci_evict_group(&here, level, group);
    }
    return evicted;
}

/* One round over all shards at one level, as far as needed. */
static enum mc_err evict_round(struct hunt *hunt,
                               const struct mci_eviction *eviction,
                               enum mci_level level, uint64_t *bytes_left)
{
    struct mci_master *master = hunt->master;
    struct mci_tenant *tenant = mci_tenant_at(master, hunt->tenant);
    bool is_soft = level == MCI_LEVEL_SOFT || level == MCI_LEVEL_ASKED_SOFT;
    enum mci_lane_kind kind = is_soft ? MCI_LANE_SOFT : MCI_LANE_PLAIN;
    for (uint32_t i = 0; *bytes_left > 0 && i < master->shard_count; i++) {
        uint32_t shard = atomic_fetch_add(&tenant->evict_turn, 1);
        look_in_shard(hunt, &master->shards[shard & (master->shard_count - 1)],
                      kind);
        for (uint32_t j = 0; *bytes_left > 0 && j < hunt->count; j++) {
            const struct candidate *candidate = &hunt->found[j];
            enum mci_evicted evicted = evict(eviction, candidate, level);
            if (evicted == MCI_EVICTED_TIMEOUT) {
                return MC_ERR_RPC_TIMEOUT;
            }
            if (evicted == MCI_EVICTED_ONE) {
                *bytes_left -= candidate->bytes < *bytes_left ? candidate->bytes
                                                              : *bytes_left;
            }
        }
    }
    return MC_OK;
}

enum mc_err mci_evict_of_tenant(struct mci_master *master,
                                const struct mci_call *call, uint16_t tenant,
                                uint64_t bytes, const struct mci_spot *spared,
                                bool with_asked)
{
    struct hunt hunt = {.master = master, .tenant = tenant};
    const struct mci_eviction eviction = {.master = master,
                                          .now_ns = call->now_ns,
                                          .deadline_ns = call->deadline_ns,
                                          .cls = MCI_LOG_FOREGROUND,
                                          .spared = spared,
                                          .sink = give_back,
                                          .sink_ctx = master};
    unsigned last = with_asked ? MCI_LEVEL_ASKED_SOFT : MCI_LEVEL_SOFT;
    enum mc_err err = MC_OK;
    if (atomic_load(&master->going) > 0 && is_any_going(master)) {
        err = oust_round(&hunt, &eviction, &bytes);
    }
    for (unsigned level = MCI_LEVEL_PLAIN;
         level <= last && bytes > 0 && err == MC_OK; level++) {
        err = evict_round(&hunt, &eviction, (enum mci_level)level, &bytes);
    }
    return err;
}
