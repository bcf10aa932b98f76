/* SPDX-License-Identifier: Apache-2.0 */
/* evict.c - which copy goes next.
 *
 * Lanes publish the last use of their heads and, where a walk through a lane
 * found nothing that may go, a time before which looking again is useless. So a
 * store full of leases costs each hopeless allocation a look at some atomics,
 * not a walk through everything.
 */
#include "evict.h"

#include <string.h>

#include "group.h"
#include "lease.h"
#include "media.h"
#include "space.h"
#include "version.h"

#define SHARDS_COMPARED 64 /* heads that are compared, where there are more */

/* ---- may it go --------------------------------------------------------- */

static bool is_spared(const struct mci_eviction *eviction,
                      const struct mci_shard *shard,
                      const struct mci_record *version)
{
    const struct mci_spot *spot = eviction->spared;
    return spot && spot->shard == shard->index &&
           spot->tenant == version->label->tenant &&
           mc_view_equal(spot->key, mci_label_key(version->label));
}

static struct mci_lease_asking asking_of(const struct mci_eviction *eviction,
                                         const struct mci_shard *shard,
                                         bool firm)
{
    return (struct mci_lease_asking){.master = eviction->master,
                                     .shard = shard,
                                     .now_ns = mci_eviction_now(eviction),
                                     .firm = firm};
}

/* The level at which a readable version may go; *until_ns_out (0: not known) is
 * when a lease ends that stands in the way. */
static enum mci_level level_of(const struct mci_eviction *eviction,
                               const struct mci_shard *shard,
                               const struct mci_record *version)
{
    const struct mci_master *master = eviction->master;
    struct mci_lease_asking asking = asking_of(eviction, shard, true);
    if ((version->marks & MCI_MARK_HARD) ||
        mci_holds(shard->named, version) > 0 ||
        is_spared(eviction, shard, version) ||
        mci_lease_stays(&asking, version) > asking.now_ns) {
        return MCI_LEVEL_BLOCKED;
    }
    bool is_soft = version->marks & MCI_MARK_SOFT;
    if (is_soft && master->opts.no_evict_soft_pinned) {
        return MCI_LEVEL_BLOCKED;
    }
    asking.firm = false;
    if (mci_lease_until(&asking, version) > asking.now_ns) {
        return is_soft ? MCI_LEVEL_ASKED_SOFT : MCI_LEVEL_ASKED;
    }
    return is_soft ? MCI_LEVEL_SOFT : MCI_LEVEL_PLAIN;
}

/* One turn in a shard, whose lock is held. */
struct turn {
    const struct mci_eviction *eviction;
    enum mci_level level;
    struct mci_shard *shard;
    uint32_t reserved;
    struct mci_leavings *leavings;
};

/* Looks again at the lease of a version's group, whose members are leased under
 * its lock. One that goes for good leaves the group with that look. Ungrouped:
 * true. */
static bool group_lets_go(const struct turn *turn,
                          const struct mci_record *version, bool for_good)
{
    struct mci_group *group = mci_group_of(version->label);
    if (!group) {
        return true;
    }
    const struct mci_lease_asking asking =
        asking_of(turn->eviction, turn->shard, turn->level >= MCI_LEVEL_ASKED);
    mci_group_lock(group);
    bool may_go = mci_lease_until_locked(&asking, version) <= asking.now_ns;
    if (may_go && for_good) {
        mci_list_remove(&mci_label_extras(version->label)->member.link);
    }
    mci_group_unlock(group);
    return may_go;
}

/* A copy's version: itself, or the one it belongs to. */
static uint32_t version_of(const struct mci_shard *shard, uint32_t copy)
{
    const struct mci_record *record = mci_pool_at(&shard->pool, copy);
    return record->state == MCI_RECORD_COPY ? (uint32_t)record->number : copy;
}

/* False if the group was leased meanwhile. */
static bool evict_copy(struct turn *turn, uint32_t copy)
{
    struct mci_shard *shard = turn->shard;
    uint32_t index = version_of(shard, copy);
    const struct mci_record *version = mci_pool_at(&shard->pool, index);
    if (!group_lets_go(turn, version,
                       mci_version_hangs_on(shard, index, copy))) {
        return false;
    }
    struct mci_spot spot;
    mci_spot_of(turn->eviction->master, version, &spot);
    struct mci_change change = {
        .master = turn->eviction->master,
        .shard = shard,
        .slot = mci_table_find(&shard->table, &shard->pool, &spot),
        .now_ns = mci_eviction_now(turn->eviction),
        .reserved = &turn->reserved,
        .leavings = turn->leavings};
    shard->counts.evicted_objects++;
    shard->counts.evicted_bytes += version->bytes;
    mci_version_drop_copy(&change, index, copy);
    return true;
}

/* Reserves for one event and takes the lock. */
static bool turn_begin(struct turn *turn)
{
    const struct mci_eviction *eviction = turn->eviction;
    turn->reserved = 0;
    enum mc_err err = mci_media_reserve(eviction->master, 1, eviction->cls, 0,
                                        &turn->reserved);
    if (err != MC_OK && eviction->deadline_ns > 0) {
        uint64_t begun_ns = mci_clock_ns();
        err = mci_media_reserve(eviction->master, 1, eviction->cls,
                                eviction->deadline_ns, &turn->reserved);
        if (eviction->waited_ns) {
            *eviction->waited_ns += mci_clock_ns() - begun_ns;
        }
    }
    if (err != MC_OK) {
        return false;
    }
    mci_shard_lock(turn->shard);
    return true;
}

static void turn_end(struct turn *turn)
{
    mci_shard_unlock(turn->shard);
    mci_media_unreserve(turn->eviction->master, turn->reserved);
}

/* ---- the oldest one ---------------------------------------------------- */

static struct mci_lane *lane_at(const struct mci_eviction *eviction,
                                enum mci_level level, uint32_t shard)
{
    enum mci_lane_kind kind =
        level == MCI_LEVEL_PLAIN || level == MCI_LEVEL_ASKED ? MCI_LANE_PLAIN
                                                             : MCI_LANE_SOFT;
    return &eviction->space
                ->lanes[(size_t)kind * eviction->master->shard_count + shard];
}

static _Atomic uint64_t *blocked_of(struct mci_lane *lane, enum mci_level level)
{
    return &lane->blocked_ns[level >= MCI_LEVEL_ASKED];
}

#define NO_SHARD UINT32_MAX
#define WORD_BITS 64

/* Shards in which this call has found nothing; cleared at the first of them. */
struct tried {
    bool is_any;
    uint64_t bits[MCI_SHARDS_MAX / WORD_BITS];
};

static bool was_tried(const struct tried *tried, uint32_t shard)
{
    return tried->is_any &&
           (tried->bits[shard / WORD_BITS] >> (shard % WORD_BITS) & 1) != 0;
}

static void note_tried(struct tried *tried, uint32_t shard,
                       uint32_t shard_count)
{
    if (!tried->is_any) {
        size_t words = (shard_count + WORD_BITS - 1) / WORD_BITS;
        memset(tried->bits, 0, words * sizeof tried->bits[0]);
        tried->is_any = true;
    }
    tried->bits[shard / WORD_BITS] |= UINT64_C(1) << (shard % WORD_BITS);
}

static bool is_blocked(const struct mci_eviction *eviction,
                       enum mci_level level, struct mci_lane *lane)
{
    return atomic_load_explicit(blocked_of(lane, level), memory_order_relaxed) >
           mci_eviction_now(eviction);
}

/* The shard whose lane has the oldest head, of SHARDS_COMPARED or, if that finds
 * none, more of them. */
static uint32_t pick_shard(const struct mci_eviction *eviction,
                           enum mci_level level, const struct tried *tried)
{
    uint32_t count = eviction->master->shard_count;
    uint32_t start = atomic_fetch_add_explicit(
        &eviction->space->turn, SHARDS_COMPARED, memory_order_relaxed);
    uint64_t oldest_ns = MCI_NEVER;
    uint32_t picked = NO_SHARD;
    for (uint32_t i = 0; i < count; i++) {
        if (i >= SHARDS_COMPARED && picked != NO_SHARD) {
            break;
        }
        uint32_t shard = (start + i) & (count - 1);
        struct mci_lane *lane = lane_at(eviction, level, shard);
        uint64_t used_ns =
            atomic_load_explicit(&lane->head_used_ns, memory_order_relaxed);
        if (used_ns < oldest_ns && !is_blocked(eviction, level, lane) &&
            !was_tried(tried, shard)) {
            oldest_ns = used_ns;
            picked = shard;
        }
    }
    return picked;
}

/* When looking at a version again can make sense; 0: any time. */
static uint64_t wait_until(const struct mci_eviction *eviction,
                           enum mci_level level, const struct mci_shard *shard,
                           const struct mci_record *version)
{
    if (mci_holds(shard->named, version) > 0 ||
        is_spared(eviction, shard, version)) {
        return 0;
    }
    const struct mci_lease_asking asking =
        asking_of(eviction, shard, level >= MCI_LEVEL_ASKED);
    return mci_lease_stays(&asking, version);
}

/* The first copy of the lane that may go; those before it move to the tail. 0 if
 * there is none, and then it is noted for how long. */
static uint32_t find_in_lane(const struct mci_eviction *eviction,
                             enum mci_level level, struct mci_shard *shard)
{
    struct mci_lane *lane = lane_at(eviction, level, shard->index);
    uint64_t blocked_ns = MCI_NEVER;
    for (uint32_t left = lane->count; left > 0; left--) {
        uint32_t copy = lane->queue.head;
        const struct mci_record *version =
            mci_pool_at(&shard->pool, version_of(shard, copy));
        if (level_of(eviction, shard, version) <= level) {
            return copy;
        }
        uint64_t until_ns = wait_until(eviction, level, shard, version);
        blocked_ns = until_ns < blocked_ns ? until_ns : blocked_ns;
        mci_lane_to_tail(eviction->master, shard, copy, version->marks);
    }
    atomic_store_explicit(blocked_of(lane, level), blocked_ns,
                          memory_order_relaxed);
    return 0;
}

static enum mci_evicted evict_in_shard(struct turn *turn, uint64_t min_bytes)
{
    if (!turn_begin(turn)) {
        return MCI_EVICTED_TIMEOUT;
    }
    enum mci_evicted evicted = MCI_EVICTED_NONE;
    uint32_t copy = find_in_lane(turn->eviction, turn->level, turn->shard);
    if (copy != 0 && mci_pool_at(&turn->shard->pool, copy)->bytes < min_bytes) {
        evicted = MCI_EVICTED_SMALL;
    } else if (copy != 0 && evict_copy(turn, copy)) {
        evicted = MCI_EVICTED_ONE;
    }
    turn_end(turn);
    return evicted;
}

enum mci_evicted mci_evict_oldest(const struct mci_eviction *eviction,
                                  enum mci_level level, uint64_t min_bytes,
                                  struct mci_leavings *leavings)
{
    struct mci_master *master = eviction->master;
    bool is_soft = level == MCI_LEVEL_SOFT || level == MCI_LEVEL_ASKED_SOFT;
    if (is_soft && master->opts.no_evict_soft_pinned) {
        return MCI_EVICTED_NONE;
    }
    struct tried tried;
    tried.is_any = false;
    for (;;) {
        uint32_t shard = pick_shard(eviction, level, &tried);
        if (shard == NO_SHARD) {
            return MCI_EVICTED_NONE;
        }
        struct turn turn = {.eviction = eviction,
                            .level = level,
                            .shard = &master->shards[shard],
                            .leavings = leavings};
        enum mci_evicted evicted = evict_in_shard(&turn, min_bytes);
        if (evicted != MCI_EVICTED_NONE) {
            return evicted;
        }
        note_tried(&tried, shard, master->shard_count);
    }
}

/* ---- a certain one ----------------------------------------------------- */

/* The copy of the version that stands in the space with this extent, or 0. */
static uint32_t copy_of(const struct mci_eviction *eviction,
                        const struct mci_shard *shard, uint32_t index,
                        uint32_t extent)
{
    if (index >= shard->pool.touched ||
        mci_pool_at(&shard->pool, index)->state != MCI_RECORD_READABLE) {
        return 0;
    }
    uint32_t copy = mci_copy_first(shard, index);
    for (; copy != 0; copy = mci_copy_next(shard, copy)) {
        const struct mci_record *record = mci_pool_at(&shard->pool, copy);
        if (record->extent == extent &&
            record->segment == eviction->space->slot) {
            return copy;
        }
    }
    return 0;
}

enum mci_level mci_evict_level(const struct mci_eviction *eviction,
                               uint64_t ref, uint32_t extent)
{
    struct mci_shard *shard = &eviction->master->shards[ref >> 32];
    uint32_t index = (uint32_t)ref;
    enum mci_level level = MCI_LEVEL_BLOCKED;
    mci_shard_lock(shard);
    if (copy_of(eviction, shard, index, extent) != 0) {
        level = level_of(eviction, shard, mci_pool_at(&shard->pool, index));
    }
    mci_shard_unlock(shard);
    return level;
}

enum mci_evicted mci_evict_extent(const struct mci_eviction *eviction,
                                  enum mci_level level, uint64_t ref,
                                  uint32_t extent,
                                  struct mci_leavings *leavings)
{
    struct turn turn = {.eviction = eviction,
                        .level = level,
                        .shard = &eviction->master->shards[ref >> 32],
                        .leavings = leavings};
    uint32_t index = (uint32_t)ref;
    if (!turn_begin(&turn)) {
        return MCI_EVICTED_TIMEOUT;
    }
    enum mci_evicted evicted = MCI_EVICTED_NONE;
    const struct mci_pool *pool = &turn.shard->pool;
    uint32_t copy = copy_of(eviction, turn.shard, index, extent);
    if (copy != 0 &&
        level_of(eviction, turn.shard, mci_pool_at(pool, index)) <= level &&
        evict_copy(&turn, copy)) {
        evicted = MCI_EVICTED_ONE;
    }
    turn_end(&turn);
    return evicted;
}
