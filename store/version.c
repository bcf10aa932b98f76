/* SPDX-License-Identifier: Apache-2.0 */
#include "version.h"

#include <assert.h>

#include "group.h"
#include "lease.h"
#include "mci_hash.h"
#include "media.h"
#include "quota.h"
#include "space.h"
#include "writer.h"

/* ---- finding ----------------------------------------------------------- */

#define TENANT_STEP UINT64_C(0x9e3779b97f4a7c15)

void mci_spot_make(const struct mci_master *master, uint16_t tenant,
                   struct mc_view key, struct mci_spot *spot_out)
{
    uint64_t seed = master->seed + tenant * TENANT_STEP;
    uint64_t hash = mci_hash64_seeded(key.data, key.len, seed);
    spot_out->key = key;
    spot_out->tenant = tenant;
    spot_out->tag = (uint32_t)hash;
    spot_out->shard = master->shard_bits == 0
                          ? 0
                          : (uint32_t)(hash >> (64 - master->shard_bits));
}

void mci_spot_of(const struct mci_master *master,
                 const struct mci_record *record, struct mci_spot *spot_out)
{
    mci_spot_make(master, record->label->tenant, mci_label_key(record->label),
                  spot_out);
}

uint32_t mci_chain_linked(const struct mci_shard *shard,
                          const struct mci_slot *slot)
{
    if (!slot) {
        return 0;
    }
    const struct mci_record *first = mci_pool_at(&shard->pool, slot->index);
    return first->state == MCI_RECORD_READABLE ? slot->index : 0;
}

static bool is_on_disk(struct mci_master *master,
                       const struct mci_record *record)
{
    if (!(record->marks & MCI_MARK_DISK)) {
        return false;
    }
    uint32_t client = mci_label_extras(record->label)->disk_client;
    return mci_writer_of(master, client) != NULL;
}

bool mci_version_is_there(struct mci_master *master,
                          const struct mci_shard *shard, uint32_t index)
{
    bool is_there = is_on_disk(master, mci_pool_at(&shard->pool, index));
    uint32_t copy = mci_copy_first(shard, index);
    while (copy != 0 && !is_there) {
        uint32_t slot = mci_pool_at(&shard->pool, copy)->segment;
        is_there = !atomic_load(&mci_space_at(master, slot)->is_gone);
        copy = mci_copy_next(shard, copy);
    }
    return is_there;
}

uint32_t mci_chain_gone(struct mci_master *master,
                        const struct mci_shard *shard,
                        const struct mci_slot *slot)
{
    if (atomic_load_explicit(&master->going, memory_order_acquire) == 0) {
        return 0;
    }
    uint32_t index = mci_chain_linked(shard, slot);
    return index != 0 && !mci_version_is_there(master, shard, index) ? index
                                                                     : 0;
}

uint32_t mci_chain_readable(struct mci_master *master,
                            const struct mci_shard *shard,
                            const struct mci_slot *slot)
{
    return mci_chain_gone(master, shard, slot) == 0
               ? mci_chain_linked(shard, slot)
               : 0;
}

bool mci_chain_is_written(const struct mci_shard *shard,
                          const struct mci_slot *slot)
{
    uint32_t index = slot ? slot->index : 0;
    while (index != 0) {
        const struct mci_record *record = mci_pool_at(&shard->pool, index);
        if (record->state == MCI_RECORD_OPEN &&
            !(record->marks & MCI_MARK_PROMOTE)) {
            return true;
        }
        index = mci_record_chain(record);
    }
    return false;
}

uint32_t mci_chain_attempt(const struct mci_shard *shard,
                           const struct mci_slot *slot, uint64_t number)
{
    uint32_t index = slot ? slot->index : 0;
    while (index != 0) {
        const struct mci_record *record = mci_pool_at(&shard->pool, index);
        if (record->number == number && record->state != MCI_RECORD_READABLE) {
            return index;
        }
        index = mci_record_chain(record);
    }
    return 0;
}

void mci_chain_remove(struct mci_master *master, struct mci_shard *shard,
                      struct mci_slot *slot, uint32_t index)
{
    struct mci_record *record = mci_pool_at(&shard->pool, index);
    uint32_t *link = &slot->index;
    while (*link != index) {
        link = &mci_pool_at(&shard->pool, *link)->label->chain;
    }
    if (link == &slot->index && record->label->chain == 0) {
        mci_table_remove(&shard->table, slot);
        atomic_fetch_sub_explicit(&master->key_count, 1, memory_order_relaxed);
    } else {
        *link = record->label->chain;
    }
    record->label->chain = 0;
}

void mci_chain_add(struct mci_shard *shard, struct mci_slot *slot,
                   uint32_t index)
{
    struct mci_record *record = mci_pool_at(&shard->pool, index);
    uint32_t *link = &slot->index;
    if (record->state != MCI_RECORD_READABLE &&
        mci_chain_linked(shard, slot) != 0) {
        link = &mci_pool_at(&shard->pool, slot->index)->label->chain;
    }
    record->label->chain = *link;
    *link = index;
}

uint32_t mci_copy_first(const struct mci_shard *shard, uint32_t index)
{
    return mci_pool_at(&shard->pool, index)->extent != 0 ? index : 0;
}

uint32_t mci_copy_next(const struct mci_shard *shard, uint32_t copy)
{
    const struct mci_record *record = mci_pool_at(&shard->pool, copy);
    if (record->state == MCI_RECORD_COPY) {
        return record->at.next_copy;
    }
    const struct mci_extras *extras =
        record->label ? mci_label_extras(record->label) : NULL;
    return extras ? extras->copies : 0;
}

void mci_version_tell(struct mci_master *master, const struct mci_shard *shard,
                      uint32_t index, struct mci_read_row *row)
{
    const struct mci_record *version = mci_pool_at(&shard->pool, index);
    row->media = version->marks & MCI_MARK_MEDIA;
    row->size = mci_record_size(version);
    row->has_sums = version->label->has_sums;
    row->version = version->number;
    row->lease.epoch = master->epoch;
    uint32_t copy = mci_copy_first(shard, index);
    for (; copy != 0; copy = mci_copy_next(shard, copy)) {
        const struct mci_record *record = mci_pool_at(&shard->pool, copy);
        struct mci_place *place = &row->places[row->place_count++];
        struct mci_space *space = mci_space_at(master, record->segment);
        place->offset = mci_place_offset(space, record);
        place->segment = atomic_load(&space->id);
    }
}

/* ---- lanes ------------------------------------------------------------- */

void mci_version_enter_lanes(struct mci_master *master, struct mci_shard *shard,
                             uint32_t index)
{
    const struct mci_record *version = mci_pool_at(&shard->pool, index);
    uint32_t copy = mci_copy_first(shard, index);
    for (; copy != 0; copy = mci_copy_next(shard, copy)) {
        mci_pool_at(&shard->pool, copy)->used_ns = version->used_ns;
        mci_lane_enter(master, shard, copy, version->marks);
    }
}

void mci_version_leave_lanes(struct mci_master *master, struct mci_shard *shard,
                             uint32_t index)
{
    unsigned marks = mci_pool_at(&shard->pool, index)->marks;
    uint32_t copy = mci_copy_first(shard, index);
    for (; copy != 0; copy = mci_copy_next(shard, copy)) {
        mci_lane_leave(master, shard, copy, marks);
    }
}

void mci_version_used(struct mci_master *master, struct mci_shard *shard,
                      uint32_t index)
{
    const struct mci_record *version = mci_pool_at(&shard->pool, index);
    uint32_t copy = mci_copy_first(shard, index);
    for (; copy != 0; copy = mci_copy_next(shard, copy)) {
        mci_pool_at(&shard->pool, copy)->used_ns = version->used_ns;
        mci_lane_to_tail(master, shard, copy, version->marks);
    }
}

/* ---- freeing ----------------------------------------------------------- */

static void leave_range(const struct mci_record *record,
                        struct mci_leavings *leavings)
{
    if (record->extent != 0) {
        mci_leavings_range(leavings, record->segment, record->extent,
                           record->bytes);
    }
}

void mci_record_free(struct mci_shard *shard, uint32_t index,
                     struct mci_leavings *leavings)
{
    struct mci_record *record = mci_pool_at(&shard->pool, index);
    struct mci_label *label = record->label;
    struct mci_extras *extras = label ? mci_label_extras(label) : NULL;
    leave_range(record, leavings);
    uint32_t copy = extras ? extras->copies : 0;
    while (copy != 0) {
        uint32_t next = mci_pool_at(&shard->pool, copy)->at.next_copy;
        leave_range(mci_pool_at(&shard->pool, copy), leavings);
        mci_pool_give(&shard->pool, copy);
        copy = next;
    }
    if (extras) {
        extras->copies = 0;
        mci_leavings_group(leavings, extras->member.group);
        extras->member.group = NULL;
    }
    if (extras && extras->spare != 0) {
        mci_pool_give(&shard->pool, extras->spare);
        extras->spare = 0;
    }
    if (label && mci_label_release(label)) {
        mci_leavings_label(leavings, label);
    }
    mci_pool_give(&shard->pool, index);
}

uint64_t mci_version_copy_bytes(const struct mci_shard *shard, uint32_t index)
{
    uint64_t bytes = 0;
    uint32_t copy = mci_copy_first(shard, index);
    for (; copy != 0; copy = mci_copy_next(shard, copy)) {
        bytes += mci_pool_at(&shard->pool, copy)->bytes;
    }
    return bytes;
}

static uint64_t waiting_bytes(const struct mci_shard *shard, uint32_t index)
{
    uint64_t bytes = 0;
    uint32_t copy = mci_copy_first(shard, index);
    for (; copy != 0; copy = mci_copy_next(shard, copy)) {
        bytes += mci_range_bytes(mci_pool_at(&shard->pool, copy)->bytes);
    }
    return bytes;
}

void mci_limbo_free(struct mci_shard *shard, uint32_t index,
                    struct mci_leavings *leavings)
{
    shard->counts.waiting_bytes -= waiting_bytes(shard, index);
    mci_record_free(shard, index, leavings);
}

bool mci_version_is_kept(const struct mci_shard *shard,
                         const struct mci_record *record)
{
    return record->is_named || mci_holds(shard->named, record) > 0;
}

void mci_version_let_go(struct mci_shard *shard, uint32_t index,
                        struct mci_leavings *leavings)
{
    if (!mci_version_is_kept(shard, mci_pool_at(&shard->pool, index))) {
        mci_limbo_free(shard, index, leavings);
    }
}

/* Named leases that are over and were not swept keep nothing. */
static void drop_ended(const struct mci_change *change, uint32_t index)
{
    struct mci_shard *shard = change->shard;
    const struct mci_record *record = mci_pool_at(&shard->pool, index);
    if (mci_named_live(shard->named, record, change->now_ns) != 0) {
        return;
    }
    while (record->is_named) {
        mci_lease_drop(change->master, shard, record->by.named,
                       change->leavings);
    }
}

void mci_version_retire(const struct mci_change *change, uint32_t index)
{
    struct mci_shard *shard = change->shard;
    struct mci_record *record = mci_pool_at(&shard->pool, index);
    uint64_t unspent_ns = mci_lease_unspent(record);
    if (record->label) {
        mci_quota_discharge(change->master, record->label->tenant,
                            mci_version_copy_bytes(shard, index));
    }
    if (record->lease_ns < unspent_ns) {
        record->lease_ns = unspent_ns;
    }
    drop_ended(change, index);
    if (record->lease_ns <= change->now_ns &&
        !mci_version_is_kept(shard, record)) {
        mci_record_free(shard, index, change->leavings);
        return;
    }
    shard->counts.waiting_bytes += waiting_bytes(shard, index);
    if (record->lease_ns <= change->now_ns) {
        record->state = MCI_RECORD_HELD;
        return;
    }
    record->state = MCI_RECORD_LIMBO;
    mci_limbo_push(&shard->pool, &shard->limbo, index);
    mci_hint_lower(&shard->limbo_ns, record->lease_ns);
    mci_hint_lower(&change->master->due_ns, record->lease_ns);
}

/* ---- unlinking --------------------------------------------------------- */

void mci_version_leave_disk(struct mci_master *master,
                            const struct mci_record *record)
{
    struct mci_extras *extras = mci_label_extras(record->label);
    if (extras && extras->disk_client != 0) {
        struct mci_writer *writer = mci_writer_at(master, extras->disk_client);
        atomic_fetch_sub(&writer->disk_copies, 1);
        extras->disk_client = 0;
    }
}

void mci_version_unlink(const struct mci_change *change, uint32_t index)
{
    struct mci_shard *shard = change->shard;
    struct mci_record *record = mci_pool_at(&shard->pool, index);
    struct mci_media_change media = {.from = NULL};
    mci_version_leave_lanes(change->master, shard, index);
    mci_chain_remove(change->master, shard, change->slot, index);
    mci_media_from(&media, record, record->marks & MCI_MARK_MEDIA);
    mci_media_change(change->master, shard, &media, change->reserved);
    mci_group_leave(record->label);
    mci_version_leave_disk(change->master, record);
    mci_version_retire(change, index);
}

void mci_version_oust(struct mci_change *change)
{
    const struct mci_pool *pool = &change->shard->pool;
    uint32_t index =
        mci_chain_gone(change->master, change->shard, change->slot);
    if (index != 0) {
        bool is_all = mci_record_chain(mci_pool_at(pool, index)) == 0;
        mci_version_unlink(change, index);
        change->slot = is_all ? NULL : change->slot;
    }
}

/* The extent of a copy that went alone waits in a record of its own. */
static void retire_range(const struct mci_change *change,
                         const struct mci_range *range, uint64_t lease_ns,
                         uint32_t carrier)
{
    struct mci_pool *pool = &change->shard->pool;
    if (lease_ns <= change->now_ns) {
        mci_leavings_range(change->leavings, range->segment, range->extent,
                           range->bytes);
        if (carrier != 0) {
            mci_pool_give(pool, carrier);
        }
        return;
    }
    assert(carrier != 0);
    struct mci_record *record = mci_pool_at(pool, carrier);
    *record = (struct mci_record){.lease_ns = lease_ns,
                                  .bytes = range->bytes,
                                  .segment = range->segment,
                                  .extent = range->extent};
    mci_version_retire(change, carrier);
}

/* Takes one copy's range out of a version that is in no lane; *carrier_out is a
 * record that this freed, or 0. */
static struct mci_range detach_copy(struct mci_shard *shard, uint32_t index,
                                    uint32_t copy, uint32_t *carrier_out)
{
    struct mci_record *version = mci_pool_at(&shard->pool, index);
    struct mci_record *record = mci_pool_at(&shard->pool, copy);
    struct mci_extras *extras = mci_label_extras(version->label);
    struct mci_range range = {.bytes = record->bytes,
                              .extent = record->extent,
                              .segment = record->segment};
    *carrier_out = 0;
    if (copy == index) {
        *carrier_out = extras ? extras->copies : 0;
        version->extent = 0;
        if (*carrier_out != 0) {
            record = mci_pool_at(&shard->pool, *carrier_out);
            mci_record_move_copy(version, record);
            extras->copies = record->at.next_copy;
        }
        return range;
    }
    uint32_t *link = &extras->copies;
    while (*link != copy) {
        link = &mci_pool_at(&shard->pool, *link)->at.next_copy;
    }
    *link = record->at.next_copy;
    *carrier_out = copy;
    return range;
}

bool mci_version_hangs_on(const struct mci_shard *shard, uint32_t index,
                          uint32_t copy)
{
    return copy == index && mci_copy_next(shard, index) == 0 &&
           !(mci_pool_at(&shard->pool, index)->marks & MCI_MARK_DISK);
}

void mci_version_drop_copy(const struct mci_change *change, uint32_t index,
                           uint32_t copy)
{
    struct mci_shard *shard = change->shard;
    struct mci_record *version = mci_pool_at(&shard->pool, index);
    bool is_last = copy == index && mci_copy_next(shard, index) == 0;
    if (mci_version_hangs_on(shard, index, copy)) {
        mci_version_unlink(change, index);
        return;
    }
    uint32_t carrier = 0;
    mci_version_leave_lanes(change->master, shard, index);
    struct mci_range range = detach_copy(shard, index, copy, &carrier);
    mci_version_enter_lanes(change->master, shard, index);
    mci_quota_discharge(change->master, version->label->tenant, range.bytes);
    if (is_last) {
        struct mci_extras *extras = mci_label_extras(version->label);
        struct mci_media_change media = {.from = NULL};
        carrier = extras->spare;
        extras->spare = 0;
        mci_media_from(&media, version, MC_MEDIUM_CPU);
        mci_media_change(change->master, shard, &media, change->reserved);
    }
    retire_range(change, &range, mci_lease_last(shard, version), carrier);
}

void mci_version_drop_disk(const struct mci_change *change, uint32_t index)
{
    struct mci_shard *shard = change->shard;
    struct mci_record *version = mci_pool_at(&shard->pool, index);
    struct mci_extras *extras = mci_label_extras(version->label);
    mci_version_leave_disk(change->master, version);
    if (!(version->marks & MCI_MARK_CPU)) {
        mci_version_unlink(change, index);
        return;
    }
    struct mci_media_change media = {.from = NULL};
    mci_media_from(&media, version, MC_MEDIUM_DISK);
    mci_media_change(change->master, shard, &media, change->reserved);
    if (extras->spare != 0) {
        mci_pool_give(&shard->pool, extras->spare);
        extras->spare = 0;
    }
}
