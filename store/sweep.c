/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep.h"

#include "evict.h"
#include "lease.h"
#include "media.h"
#include "space.h"
#include "version.h"
#include "writer.h"

#define SHARDS_PER_STEP 256
#define ATTEMPTS_PER_STEP 64
#define EVICTIONS_PER_STEP 256

/* ---- leases and soft pins ---------------------------------------------- */

/* Frees from limbo what has ended; false when leavings are full. */
static bool drain_limbo(struct mci_shard *shard, uint64_t now_ns,
                        struct mci_leavings *leavings)
{
    struct mci_pool *pool = &shard->pool;
    while (shard->limbo != 0 &&
           mci_pool_at(pool, shard->limbo)->lease_ns <= now_ns) {
        if (!mci_leavings_have_room(leavings)) {
            return false;
        }
        uint32_t index = mci_limbo_pop(pool, &shard->limbo);
        mci_pool_at(pool, index)->state = MCI_RECORD_HELD;
        mci_version_let_go(shard, index, leavings);
    }
    uint64_t next_ns = shard->limbo != 0
                           ? mci_pool_at(pool, shard->limbo)->lease_ns
                           : MCI_NEVER;
    atomic_store_explicit(&shard->limbo_ns, next_ns, memory_order_relaxed);
    return true;
}

/* Likewise drops the named leases that have ended. */
static bool drop_named(struct mci_master *master, struct mci_shard *shard,
                       uint64_t now_ns, struct mci_leavings *leavings,
                       bool *found)
{
    uint32_t lease = mci_named_first(shard->named);
    while (lease != 0 && shard->named->all[lease].until_ns <= now_ns) {
        if (!mci_leavings_have_room(leavings)) {
            return false;
        }
        mci_lease_drop(master, shard, lease, leavings);
        *found = true;
        lease = mci_named_first(shard->named);
    }
    atomic_store_explicit(&shard->named_ns,
                          lease != 0 ? shard->named->all[lease].until_ns
                                     : MCI_NEVER,
                          memory_order_relaxed);
    return true;
}

/* A version whose soft pin ran out is an ordinary one, and an old one. */
static void unpin(struct mci_master *master, struct mci_shard *shard,
                  uint32_t index)
{
    struct mci_record *version = mci_pool_at(&shard->pool, index);
    mci_version_leave_lanes(master, shard, index);
    version->marks &= (uint8_t)~MCI_MARK_SOFT;
    mci_label_extras(version->label)->soft_ns = 0;
    uint32_t copy = mci_copy_first(shard, index);
    for (; copy != 0; copy = mci_copy_next(shard, copy)) {
        mci_lane_enter_first(master, shard, copy, version->marks);
    }
}

static bool unpin_lane(struct mci_master *master, struct mci_shard *shard,
                       uint32_t slot, uint64_t now_ns, uint64_t *next_ns)
{
    struct mci_lane *lane = mci_lane_of(master, shard, slot, MCI_LANE_SOFT);
    bool found = false;
    uint32_t copy = lane->queue.tail; /* so that the oldest comes first */
    while (copy != 0) {
        const struct mci_record *record = mci_pool_at(&shard->pool, copy);
        uint32_t index =
            record->state == MCI_RECORD_COPY ? (uint32_t)record->number : copy;
        uint32_t next = record->prev;
        uint64_t soft_ns =
            mci_label_extras(mci_pool_at(&shard->pool, index)->label)->soft_ns;
        if (soft_ns <= now_ns) {
            unpin(master, shard, index);
            found = true;
        } else if (soft_ns < *next_ns) {
            *next_ns = soft_ns;
        }
        copy = next;
    }
    return found;
}

static bool let_soft_pins_end(struct mci_master *master,
                              struct mci_shard *shard, uint64_t now_ns)
{
    bool found = false;
    uint64_t next_ns = MCI_NEVER;
    uint32_t count = atomic_load(&master->space_count);
    for (uint32_t slot = 0; slot < count; slot++) {
        found |= unpin_lane(master, shard, slot, now_ns, &next_ns);
    }
    atomic_store_explicit(&shard->soft_ns, next_ns, memory_order_relaxed);
    return found;
}

bool mci_reclaim_shard(struct mci_master *master, struct mci_shard *shard,
                       uint64_t now_ns)
{
    bool found = false;
    bool is_done = false;
    while (!is_done) {
        struct mci_leavings leavings;
        mci_leavings_init(&leavings);
        mci_shard_lock(shard);
        is_done = drop_named(master, shard, now_ns, &leavings, &found) &&
                  drain_limbo(shard, now_ns, &leavings);
        if (is_done && atomic_load_explicit(&shard->soft_ns,
                                            memory_order_relaxed) <= now_ns) {
            found |= let_soft_pins_end(master, shard, now_ns);
        }
        mci_shard_unlock(shard);
        found |= leavings.range_count > 0;
        mci_leavings_clear(master, &leavings);
    }
    return found;
}

static uint64_t due_of(const struct mci_shard *shard)
{
    uint64_t limbo_ns =
        atomic_load_explicit(&shard->limbo_ns, memory_order_relaxed);
    uint64_t soft_ns =
        atomic_load_explicit(&shard->soft_ns, memory_order_relaxed);
    uint64_t named_ns =
        atomic_load_explicit(&shard->named_ns, memory_order_relaxed);
    uint64_t first_ns = limbo_ns < soft_ns ? limbo_ns : soft_ns;
    return named_ns < first_ns ? named_ns : first_ns;
}

bool mci_reclaim_due(struct mci_master *master, uint64_t now_ns)
{
    if (atomic_load(&master->due_ns) > now_ns) {
        return false;
    }
    bool found = false;
    atomic_store(&master->due_ns, MCI_NEVER);
    for (uint32_t i = 0; i < master->shard_count; i++) {
        struct mci_shard *shard = &master->shards[i];
        if (due_of(shard) <= now_ns) {
            found |= mci_reclaim_shard(master, shard, now_ns);
        }
        mci_hint_lower(&master->due_ns, due_of(shard));
    }
    return found;
}

/* ---- attempts ---------------------------------------------------------- */

/* Closes what has been idle for too long, in doubt. */
static bool close_idle(struct mci_master *master, struct mci_shard *shard,
                       uint64_t now_ns)
{
    unsigned closed = 0;
    struct mci_leavings leavings;
    mci_leavings_init(&leavings);
    mci_shard_lock(shard);
    while (shard->open.head != 0 && closed < ATTEMPTS_PER_STEP) {
        uint32_t index = shard->open.head;
        uint64_t used_ns = mci_pool_at(&shard->pool, index)->used_ns;
        if (now_ns < used_ns || now_ns - used_ns < master->idle_ns) {
            break;
        }
        struct mci_change change = {.master = master,
                                    .shard = shard,
                                    .now_ns = now_ns,
                                    .leavings = &leavings};
        mci_attempt_doubt(&change, index);
        closed++;
    }
    mci_shard_unlock(shard);
    return closed == ATTEMPTS_PER_STEP;
}

static bool step_shards(struct mci_master *master, uint64_t now_ns)
{
    uint32_t count = master->shard_count < SHARDS_PER_STEP ? master->shard_count
                                                           : SHARDS_PER_STEP;
    uint32_t first = atomic_fetch_add(&master->sweep_shard, count);
    bool more = false;
    for (uint32_t i = 0; i < count; i++) {
        struct mci_shard *shard =
            &master->shards[(first + i) & (master->shard_count - 1)];
        if (due_of(shard) <= now_ns) {
            (void)mci_reclaim_shard(master, shard, now_ns);
        }
        more |= close_idle(master, shard, now_ns);
    }
    return more;
}

/* ---- watermark --------------------------------------------------------- */

static void give_back(void *ctx, struct mci_leavings *leavings)
{
    mci_leavings_clear(ctx, leavings);
}

/* Evicts one copy in the background: soft pins stay unless all else is gone,
 * and leases of askers count. */
static enum mci_evicted evict_one(const struct mci_eviction *eviction)
{
    struct mci_leavings leavings;
    enum mci_evicted evicted = MCI_EVICTED_NONE;
    enum mci_level level = MCI_LEVEL_PLAIN;
    mci_leavings_init(&leavings);
    evicted = mci_evict_partial(eviction, level, 0, &leavings);
    while (evicted == MCI_EVICTED_NONE && level <= MCI_LEVEL_SOFT) {
        evicted = mci_evict_oldest(eviction, level, 0, &leavings);
        if (evicted == MCI_EVICTED_NONE) {
            level = (enum mci_level)(level + 1);
        }
    }
    struct mci_group *group = NULL;
    if (leavings.group_count > 0) {
        group = leavings.groups[--leavings.group_count];
    }
    mci_leavings_clear(eviction->master, &leavings);
    if (group) {
        mci_evict_group(eviction, level, group);
    }
    return evicted;
}

/* Above the high watermark it begins, at the low mark, or with nothing that may
 * go, it ends. */
static bool must_lower(const struct mci_eviction *eviction)
{
    const struct mc_store_opts *opts = &eviction->master->opts;
    struct mci_space *space = eviction->space;
    double capacity = (double)atomic_load(&space->capacity_bytes);
    double used = (double)atomic_load(&space->used_bytes);
    double high = capacity * opts->eviction_high_watermark;
    double low = high - capacity * opts->eviction_ratio;
    if (atomic_load(&space->is_gone) || used <= low) {
        atomic_store(&space->is_lowering, false);
    } else if (used > high) {
        atomic_store(&space->is_lowering, true);
    }
    return atomic_load(&space->is_lowering);
}

/* True if the step was not enough. */
static bool lower_space(const struct mci_eviction *eviction)
{
    for (unsigned i = 0; i < EVICTIONS_PER_STEP; i++) {
        if (!must_lower(eviction)) {
            return false;
        }
        if (evict_one(eviction) != MCI_EVICTED_ONE) {
            atomic_store(&eviction->space->is_lowering, false);
            return false;
        }
    }
    return true;
}

bool mci_master_sweep(struct mci_master *master, uint64_t now_ns,
                      uint64_t deadline_ns)
{
    bool more = step_shards(master, now_ns);
    uint32_t count = atomic_load(&master->space_count);
    for (uint32_t slot = 0; slot < count; slot++) {
        const struct mci_eviction eviction = {.master = master,
                                              .space =
                                                  mci_space_at(master, slot),
                                              .now_ns = now_ns,
                                              .deadline_ns = deadline_ns,
                                              .cls = MCI_LOG_BULK,
                                              .sink = give_back,
                                              .sink_ctx = master};
        more |= lower_space(&eviction);
    }
    return more;
}
