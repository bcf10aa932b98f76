/* SPDX-License-Identifier: Apache-2.0 */
/* master_check.c - do all structures agree? For tests. */
#include "group.h"
#include "lease.h"
#include "mc_log.h"
#include "space.h"
#include "version.h"
#include "writer.h"

struct tally {
    struct mci_master *master;
    uint64_t objects;
    uint64_t attempts;
    uint64_t doubtful;
    uint64_t untold;
    uint64_t charged_bytes;
    uint64_t waiting_bytes;
    uint64_t keys;
    uint64_t disk_copies;
    uint64_t extents;
    uint64_t in_lanes;   /* copies of readable versions */
    uint64_t lane_count; /* as the lanes say */
    uint64_t leases;     /* with names */
    bool is_sound;
};

static void expect(struct tally *tally, bool holds, const char *what)
{
    if (!holds) {
        mc_log(MC_LOG_ERROR, "master: check: %s", what);
        tally->is_sound = false;
    }
}

/* The extent of a copy names the version as its owner. */
static void check_extent(struct tally *tally, const struct mci_shard *shard,
                         uint32_t index, uint32_t copy)
{
    const struct mci_record *record = mci_pool_at(&shard->pool, copy);
    const struct mci_space *space =
        mci_space_at(tally->master, record->segment);
    struct mci_extent extent = mci_extents_get(space->extents, record->extent);
    expect(tally, extent.state == MCI_EXTENT_ALLOCATED, "extent is free");
    expect(tally, extent.len >= record->bytes, "extent is short");
    bool is_placed = mci_pool_at(&shard->pool, index)->label != NULL;
    expect(tally,
           !is_placed || extent.offset == mci_place_offset(space, record),
           "offset differs");
    expect(tally,
           mci_pool_at(&shard->pool, index)->state != MCI_RECORD_READABLE ||
               mci_ref_of_owner(extent.owner) ==
                   mci_ref_make(shard->index, index),
           "extent has another owner");
    tally->extents++;
}

static void check_copies(struct tally *tally, const struct mci_shard *shard,
                         uint32_t index)
{
    const struct mci_record *record = mci_pool_at(&shard->pool, index);
    bool waits =
        record->state == MCI_RECORD_LIMBO || record->state == MCI_RECORD_HELD;
    uint32_t copy = mci_copy_first(shard, index);
    for (; copy != 0; copy = mci_copy_next(shard, copy)) {
        check_extent(tally, shard, index, copy);
        tally->in_lanes += record->state == MCI_RECORD_READABLE;
        tally->waiting_bytes +=
            waits ? mci_range_bytes(mci_pool_at(&shard->pool, copy)->bytes) : 0;
    }
}

/* What a readable version has beyond memory: its group knows where it is, and
 * the client that holds it on disk counts it. */
static void check_extras(struct tally *tally, const struct mci_shard *shard,
                         uint32_t index)
{
    const struct mci_record *record = mci_pool_at(&shard->pool, index);
    struct mci_extras *extras = mci_label_extras(record->label);
    if (!extras) {
        expect(tally, !(record->marks & MCI_MARK_DISK), "disk without extras");
        return;
    }
    if (extras->member.group) {
        expect(tally, extras->member.ref == mci_ref_make(shard->index, index),
               "group knows another record");
        expect(tally, !mci_list_is_empty(&extras->member.link),
               "readable and not a member");
    }
    if (record->marks & MCI_MARK_DISK) {
        tally->disk_copies++;
        expect(tally, extras->disk_client != 0, "on disk of nobody");
    }
}

/* A record that is in the chain of its key. */
static void check_chained(struct tally *tally, const struct mci_shard *shard,
                          uint32_t index)
{
    const struct mci_record *record = mci_pool_at(&shard->pool, index);
    struct mci_spot spot;
    mci_spot_of(tally->master, record, &spot);
    const struct mci_slot *slot =
        mci_table_find(&shard->table, &shard->pool, &spot);
    expect(tally, slot != NULL, "record is not in the table");
    uint32_t at = slot ? slot->index : 0;
    while (at != 0 && at != index) {
        at = mci_record_chain(mci_pool_at(&shard->pool, at));
    }
    expect(tally, at == index, "record is not in its chain");
    if (record->state == MCI_RECORD_READABLE) {
        expect(tally, slot && slot->index == index, "readable is not first");
    }
}

static void check_record(struct tally *tally, const struct mci_shard *shard,
                         uint32_t index)
{
    const struct mci_record *record = mci_pool_at(&shard->pool, index);
    switch ((enum mci_record_state)record->state) {
    case MCI_RECORD_READABLE:
        tally->charged_bytes += mci_version_copy_bytes(shard, index);
        tally->objects++;
        expect(tally, record->marks & MCI_MARK_MEDIA, "readable by nothing");
        expect(tally,
               ((record->marks & MCI_MARK_CPU) != 0) == (record->extent != 0),
               "medium and copies differ");
        check_chained(tally, shard, index);
        check_extras(tally, shard, index);
        break;
    case MCI_RECORD_OPEN:
        tally->charged_bytes += mci_version_copy_bytes(shard, index);
        tally->attempts++;
        check_chained(tally, shard, index);
        break;
    case MCI_RECORD_DOUBTFUL:
        tally->doubtful++;
        check_chained(tally, shard, index);
        break;
    case MCI_RECORD_HELD:
        expect(tally, mci_version_is_kept(shard, record), "held by nobody");
        break;
    default:
        break;
    }
    expect(tally,
           !record->is_named || record->state == MCI_RECORD_READABLE ||
               record->state == MCI_RECORD_LIMBO ||
               record->state == MCI_RECORD_HELD,
           "a lease of no version");
    if (record->state != MCI_RECORD_UNUSED &&
        record->state != MCI_RECORD_COPY) {
        check_copies(tally, shard, index);
    }
}

static uint32_t queue_length(const struct mci_shard *shard,
                             const struct mci_queue *queue)
{
    uint32_t length = 0;
    uint32_t before = 0;
    uint32_t index = queue->head;
    while (index != 0 && mci_pool_at(&shard->pool, index)->prev == before) {
        length++;
        before = index;
        index = mci_pool_at(&shard->pool, index)->next;
    }
    return index == 0 && queue->tail == before ? length : UINT32_MAX;
}

static void check_lanes(struct tally *tally, const struct mci_shard *shard)
{
    uint32_t count = atomic_load(&tally->master->space_count);
    for (uint32_t slot = 0; slot < count; slot++) {
        for (unsigned kind = 0; kind < MCI_LANE_KINDS; kind++) {
            const struct mci_lane *lane = mci_lane_of(
                tally->master, shard, slot, (enum mci_lane_kind)kind);
            uint32_t head = lane->queue.head;
            uint64_t used_ns =
                head ? mci_pool_at(&shard->pool, head)->used_ns : MCI_NEVER;
            expect(tally, queue_length(shard, &lane->queue) == lane->count,
                   "lane is broken");
            expect(tally, atomic_load(&lane->head_used_ns) == used_ns,
                   "lane shows another head");
            tally->lane_count += lane->count;
        }
    }
}

/* Those in doubt that were not told are the last of the queue. */
static void check_told(struct tally *tally, const struct mci_shard *shard)
{
    uint32_t index = shard->doubtful.head;
    bool is_told = true;
    for (; index != 0; index = mci_pool_at(&shard->pool, index)->next) {
        is_told &= index != shard->untold;
        bool is_marked =
            mci_pool_at(&shard->pool, index)->marks & MCI_MARK_TOLD;
        expect(tally, is_marked == is_told, "told and untold");
        tally->untold += !is_marked;
    }
}

/* Every lease is one of a writer's, and is looked at when it ends. */
static void check_leases(struct tally *tally, const struct mci_shard *shard)
{
    uint32_t first = mci_named_first(shard->named);
    expect(tally, mci_named_check(shard->named, &shard->pool), "named leases");
    if (first == 0) {
        return;
    }
    uint64_t until_ns = shard->named->all[first].until_ns;
    tally->leases += shard->named->count;
    expect(tally,
           atomic_load(&shard->named_ns) <= until_ns &&
               atomic_load(&tally->master->due_ns) <= until_ns,
           "a lease ends before it is looked at");
}

static void check_shard(struct tally *tally, struct mci_shard *shard)
{
    struct tally before = *tally;
    for (uint32_t i = 1; i < shard->pool.touched; i++) {
        check_record(tally, shard, i);
    }
    check_lanes(tally, shard);
    check_leases(tally, shard);
    const struct mci_shard_counts *counts = &shard->counts;
    expect(tally, tally->objects - before.objects == counts->objects,
           "count of objects");
    expect(tally, tally->attempts - before.attempts == counts->attempts,
           "count of attempts");
    expect(tally, queue_length(shard, &shard->open) == counts->attempts,
           "queue of attempts");
    expect(tally, tally->doubtful - before.doubtful == counts->doubtful,
           "count of doubtful");
    expect(tally, queue_length(shard, &shard->doubtful) == counts->doubtful,
           "queue of doubtful");
    check_told(tally, shard);
    expect(tally,
           tally->waiting_bytes - before.waiting_bytes == counts->waiting_bytes,
           "count of waiting bytes");
    tally->keys += shard->table.used;
    expect(tally, shard->table.promised == 0, "promises are left");
}

static void check_spaces(struct tally *tally)
{
    uint64_t allocated = 0;
    uint32_t count = atomic_load(&tally->master->space_count);
    for (uint32_t i = 0; i < count; i++) {
        struct mci_space *space = mci_space_at(tally->master, i);
        struct mci_extents_stats stats;
        if (!space->extents) {
            continue;
        }
        mci_extents_stats(space->extents, &stats);
        allocated += stats.allocated_count;
        expect(tally, mci_extents_check(space->extents), "extents");
        expect(tally, stats.claimed_bytes == 0, "claims are left");
        expect(tally, stats.allocated_bytes == atomic_load(&space->used_bytes),
               "used bytes of a space");
    }
    expect(tally, allocated == tally->extents, "extents without a record");
}

/* All that is gone counts until nothing that is linked can be with it. */
static void check_going(struct tally *tally)
{
    struct mci_master *master = tally->master;
    uint32_t going = 0;
    uint32_t count = atomic_load(&master->space_count);
    for (uint32_t i = 0; i < count; i++) {
        struct mci_space *space = mci_space_at(master, i);
        going += atomic_load(&space->id) != 0 && atomic_load(&space->is_gone);
    }
    for (uint32_t id = 1; id <= master->writer_count; id++) {
        struct mci_writer *writer = mci_writer_at(master, id);
        expect(tally, !writer->is_going || atomic_load(&writer->is_expired),
               "a client that lives is going");
        going += writer->is_going;
    }
    expect(tally, going == atomic_load(&master->going), "count of going");
}

static void check_writers(struct tally *tally)
{
    uint64_t open = 0;
    uint64_t disk_copies = 0;
    uint64_t leases = 0;
    for (uint32_t id = 1; id <= tally->master->writer_count; id++) {
        struct mci_writer *writer = mci_writer_at(tally->master, id);
        open += atomic_load(&writer->open);
        disk_copies += atomic_load(&writer->disk_copies);
        leases += atomic_load(&writer->leases);
    }
    expect(tally, disk_copies == tally->disk_copies, "disk copies of writers");
    expect(tally, open == tally->attempts, "open attempts of writers");
    expect(tally, leases == tally->leases, "leases of writers");
}

static void check_tenants(struct tally *tally)
{
    struct mci_master *master = tally->master;
    uint64_t charged_bytes = 0;
    uint32_t count = atomic_load(&master->tenant_count);
    for (uint32_t i = 0; i < count; i++) {
        charged_bytes +=
            atomic_load(&mci_tenant_at(master, (uint16_t)i)->charged_bytes);
    }
    expect(tally,
           charged_bytes ==
               (master->opts.enable_multi_tenants ? tally->charged_bytes : 0),
           "bytes charged to tenants");
}

bool mci_master_check(struct mci_master *master)
{
    struct tally tally = {.master = master, .is_sound = true};
    for (uint32_t i = 0; i < master->shard_count; i++) {
        mci_shard_lock(&master->shards[i]);
        check_shard(&tally, &master->shards[i]);
        mci_shard_unlock(&master->shards[i]);
    }
    expect(&tally, tally.in_lanes == tally.lane_count, "copies and lanes");
    expect(&tally, tally.keys == atomic_load(&master->key_count),
           "count of keys");
    expect(&tally, tally.untold == atomic_load(&master->untold),
           "count of untold");
    check_spaces(&tally);
    check_going(&tally);
    check_writers(&tally);
    check_tenants(&tally);
    return tally.is_sound;
}
