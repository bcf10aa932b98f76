/* SPDX-License-Identifier: Apache-2.0 */
#include "start.h"

#include "group.h"
#include "media.h"
#include "version.h"
#include "writer.h"

/* ---- looking ----------------------------------------------------------- */

static bool is_living_put(struct mci_master *master,
                          const struct mci_record *record)
{
    return record->state == MCI_RECORD_OPEN &&
           !(record->marks & (MCI_MARK_UPSERT | MCI_MARK_PROMOTE)) &&
           mci_writer_of(master, mci_number_client(record->number));
}

static enum mc_err check_put(const struct mci_start *start,
                             const struct mci_slot *slot)
{
    if (mci_chain_readable(start->master, start->shard, slot) != 0) {
        return MC_ERR_OBJECT_ALREADY_EXISTS;
    }
    uint32_t index = slot ? slot->index : 0;
    while (index != 0) {
        const struct mci_record *record =
            mci_pool_at(&start->shard->pool, index);
        if (is_living_put(start->master, record)) {
            return MC_ERR_OBJECT_ALREADY_EXISTS;
        }
        index = mci_record_chain(record);
    }
    return MC_OK;
}

/* A group is for life. */
static enum mc_err check_upsert(const struct mci_start *start,
                                const struct mci_slot *slot)
{
    uint32_t index = mci_chain_readable(start->master, start->shard, slot);
    if (index == 0 || start->row->group_id.len == 0) {
        return MC_OK;
    }
    struct mc_view group_id =
        mci_label_group_id(mci_pool_at(&start->shard->pool, index)->label);
    return mc_view_equal(group_id, start->row->group_id)
               ? MC_OK
               : MC_ERR_INVALID_PARAMS;
}

static bool has_promotion(const struct mci_start *start,
                          const struct mci_slot *slot)
{
    for (uint32_t index = slot->index; index != 0;) {
        const struct mci_record *record =
            mci_pool_at(&start->shard->pool, index);
        if (record->state == MCI_RECORD_OPEN &&
            (record->marks & MCI_MARK_PROMOTE)) {
            return true;
        }
        index = mci_record_chain(record);
    }
    return false;
}

/* Tells the row what is on disk, which is all of a copy: behind an object with
 * sums they are there too. */
static enum mc_err check_promote(struct mci_start *start,
                                 const struct mci_slot *slot)
{
    uint32_t index = mci_chain_readable(start->master, start->shard, slot);
    if (index == 0) {
        return MC_ERR_OBJECT_NOT_FOUND;
    }
    const struct mci_record *record = mci_pool_at(&start->shard->pool, index);
    if ((record->marks & MCI_MARK_CPU) || has_promotion(start, slot)) {
        return MC_ERR_REPLICA_ALREADY_EXISTS;
    }
    if (start->placed_count > 0 && start->bytes != record->bytes) {
        return MC_ERR_OBJECT_NOT_FOUND; /* another version than at the look */
    }
    start->bytes = record->bytes;
    start->row->size = mci_record_size(record);
    start->row->has_sums = record->label->has_sums;
    return MC_OK;
}

static enum mc_err check_slot(struct mci_start *start,
                              const struct mci_slot *slot)
{
    if (atomic_load(&start->writer->is_expired)) {
        return MC_ERR_CLIENT_NOT_FOUND;
    }
    switch (start->kind) {
    case MCI_START_PUT:
        return check_put(start, slot);
    case MCI_START_UPSERT:
        return check_upsert(start, slot);
    default:
        return check_promote(start, slot);
    }
}

/* A key that is not there yet needs a place among max_objects; `take`: takes
 * it, else it is only looked whether there is one. */
static enum mc_err admit_key(const struct mci_start *start,
                             const struct mci_slot *slot, bool take)
{
    struct mci_master *master = start->master;
    uint64_t max = master->opts.max_objects;
    if (slot) {
        return MC_OK;
    }
    uint64_t count =
        take ? atomic_fetch_add(&master->key_count, 1)
             : atomic_load_explicit(&master->key_count, memory_order_relaxed);
    if (max == 0 || count < max) {
        return MC_OK;
    }
    if (take) {
        atomic_fetch_sub(&master->key_count, 1);
    }
    atomic_fetch_add(&master->alloc_failures, 1);
    return MC_ERR_NO_AVAILABLE_HANDLE;
}

static struct mci_slot *find_slot(const struct mci_start *start)
{
    return mci_table_find(&start->shard->table, &start->shard->pool,
                          &start->spot);
}

static void give_records(struct mci_start *start)
{
    struct mci_pool *pool = &start->shard->pool;
    for (uint32_t i = 0; i + 1 < MCI_REPLICAS_MAX; i++) {
        if (start->copies[i] != 0) {
            mci_pool_give(pool, start->copies[i]);
            start->copies[i] = 0;
        }
    }
    if (start->index != 0) {
        mci_pool_give(pool, start->index);
        start->index = 0;
    }
}

static enum mc_err take_records(struct mci_start *start)
{
    struct mci_pool *pool = &start->shard->pool;
    enum mc_err err = mci_pool_take(pool, &start->index);
    for (uint32_t i = 0; i + 1 < start->copy_max && err == MC_OK; i++) {
        err = mci_pool_take(pool, &start->copies[i]);
    }
    if (err == MC_OK) {
        err = mci_table_promise(&start->shard->table);
    }
    if (err != MC_OK) {
        give_records(start);
    }
    return err;
}

/* What is gone and not taken out yet goes first, lest it is charged beside what
 * comes. A start waits for no room in the log: without room for these events it
 * stays, and the end takes it out. */
static void oust_gone(const struct mci_start *start)
{
    struct mci_master *master = start->master;
    uint32_t reserved = 0;
    struct mci_leavings leavings;
    if (mci_media_reserve(master, MC_MEDIUM_COUNT, MCI_LOG_FOREGROUND, 0,
                          &reserved) != MC_OK) {
        return;
    }
    mci_leavings_init(&leavings);
    mci_shard_lock(start->shard);
    struct mci_change change = {.master = master,
                                .shard = start->shard,
                                .slot = find_slot(start),
                                .now_ns = start->call->now_ns,
                                .reserved = &reserved,
                                .leavings = &leavings};
    mci_version_oust(&change);
    mci_shard_unlock(start->shard);
    mci_media_unreserve(master, reserved);
    mci_leavings_clear(master, &leavings);
}

/* Locks the shard and finds the key's slot, without what is gone. */
static const struct mci_slot *begin_look(const struct mci_start *start)
{
    mci_shard_lock(start->shard);
    const struct mci_slot *slot = find_slot(start);
    if (mci_chain_gone(start->master, start->shard, slot) != 0) {
        mci_shard_unlock(start->shard);
        oust_gone(start);
        mci_shard_lock(start->shard);
        slot = find_slot(start);
    }
    return slot;
}

enum mc_err mci_start_look(struct mci_start *start)
{
    const struct mci_slot *slot = begin_look(start);
    enum mc_err err = check_slot(start, slot);
    if (err == MC_OK) {
        err = admit_key(start, slot, false);
    }
    if (err == MC_OK) {
        err = take_records(start);
    }
    mci_shard_unlock(start->shard);
    return err;
}

void mci_start_give_back(struct mci_start *start)
{
    mci_shard_lock(start->shard);
    give_records(start);
    mci_table_unpromise(&start->shard->table);
    mci_shard_unlock(start->shard);
}

/* ---- inserting --------------------------------------------------------- */

static void set_place(struct mci_record *record,
                      const struct mci_placed *placed)
{
    record->segment = placed->slot;
    record->extent = placed->extent;
    record->place = placed->place;
}

static void fill_copies(struct mci_start *start, struct mci_record *record)
{
    struct mci_extras *extras = mci_label_extras(start->label);
    for (uint32_t i = start->placed_count - 1; i > 0; i--) {
        struct mci_record *copy =
            mci_pool_at(&start->shard->pool, start->copies[i - 1]);
        copy->state = MCI_RECORD_COPY;
        copy->number = start->index;
        copy->bytes = record->bytes;
        set_place(copy, &start->placed[i]);
        copy->at.next_copy = extras->copies;
        extras->copies = start->copies[i - 1];
        start->copies[i - 1] = 0;
    }
}

static void fill_record(struct mci_start *start, struct mci_record *record)
{
    record->label = start->label;
    record->state = MCI_RECORD_OPEN;
    record->used_ns = start->call->now_ns;
    record->bytes = start->bytes;
    record->number = mci_writer_number(start->writer);
    set_place(record, &start->placed[0]);
    if (start->kind == MCI_START_UPSERT) {
        record->marks |= MCI_MARK_UPSERT;
    }
    if (start->config && start->config->with_hard_pin) {
        record->marks |= MCI_MARK_HARD;
    }
    fill_copies(start, record);
    struct mci_extras *extras = mci_label_extras(start->label);
    if (extras) {
        extras->member.group = start->group;
    }
}

enum mc_err mci_start_insert(struct mci_start *start)
{
    struct mci_shard *shard = start->shard;
    mci_shard_lock(shard);
    struct mci_slot *slot = find_slot(start);
    enum mc_err err = check_slot(start, slot);
    if (err == MC_OK) {
        err = admit_key(start, slot, true);
    }
    if (err == MC_OK) {
        struct mci_record *record = mci_pool_at(&shard->pool, start->index);
        fill_record(start, record);
        if (start->kind == MCI_START_PROMOTE) {
            record->marks |= MCI_MARK_PROMOTE;
            record->at.target = mci_pool_at(&shard->pool, slot->index)->number;
        }
        if (slot) {
            mci_chain_add(shard, slot, start->index);
            mci_table_unpromise(&shard->table);
        } else {
            mci_table_insert(&shard->table, start->spot.tag, start->index);
        }
        mci_queue_push_back(&shard->pool, &shard->open, start->index);
        shard->counts.attempts++;
        start->row->attempt.number = record->number;
        start->row->ref = mci_ref_make(shard->index, start->index);
        start->index = 0;
    }
    give_records(start); /* of copies that found no place */
    if (err != MC_OK) {
        mci_table_unpromise(&shard->table);
    }
    mci_shard_unlock(shard);
    return err;
}
