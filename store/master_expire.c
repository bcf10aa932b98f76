/* SPDX-License-Identifier: Apache-2.0 */
/* master_expire.c - segments and clients that are gone, in slices.
 *
 * A segment is marked gone before its first slice, and an end that commits later
 * looks at the mark under its shard lock; so a shard that was gone through stays
 * empty. Where a slice stands is a hint: going through a shard twice is harmless.
 */
#include "caller.h"
#include "media.h"
#include "space.h"
#include "version.h"
#include "writer.h"

#define SHARDS_PER_STEP 256
#define WALK_SLOTS 256
#define COPIES_PER_HOLD 8 /* of a shard's lock: writers wait for it */
#define TAGS_END (UINT64_C(1) << 32)

/* One slice: what it may still do. */
struct slice {
    struct mci_master *master;
    uint64_t now_ns;
    uint64_t deadline_ns;
    uint32_t budget; /* events */
    uint32_t reserved;
    struct mci_leavings leavings;
};

static enum mc_err slice_begin(struct slice *slice)
{
    slice->budget = mci_event_log_slice(slice->master->log);
    slice->reserved = 0;
    mci_leavings_init(&slice->leavings);
    return mci_media_reserve(slice->master, slice->budget, MCI_LOG_BULK,
                             slice->deadline_ns, &slice->reserved);
}

static void slice_end(struct slice *slice)
{
    mci_media_unreserve(slice->master, slice->reserved);
    mci_leavings_clear(slice->master, &slice->leavings);
}

static bool slice_has_room(const struct slice *slice)
{
    return slice->budget > 0 && mci_leavings_have_room(&slice->leavings);
}

static struct mci_change change_of(struct slice *slice, struct mci_shard *shard,
                                   const struct mci_record *record)
{
    struct mci_spot spot;
    mci_spot_of(slice->master, record, &spot);
    return (struct mci_change){
        .master = slice->master,
        .shard = shard,
        .slot = mci_table_find(&shard->table, &shard->pool, &spot),
        .now_ns = slice->now_ns,
        .reserved = &slice->reserved,
        .leavings = &slice->leavings};
}

/* A copy that goes alone would leave its reader without it. */
static bool is_being_read(const struct mci_shard *shard, uint32_t index)
{
    const struct mci_record *record = mci_pool_at(&shard->pool, index);
    bool is_whole =
        mci_copy_next(shard, index) == 0 && !(record->marks & MCI_MARK_DISK);
    return mci_holds(shard->named, record) > 0 && !is_whole;
}

/* ---- segments ---------------------------------------------------------- */

/* Asks for the labels of what goes next, so that nobody waits for them under
 * the lock. */
static void fetch_labels(const struct mci_shard *shard,
                         const struct mci_lane *lane)
{
    uint32_t at = lane->queue.head;
    for (unsigned i = 0; i < COPIES_PER_HOLD && at != 0; i++) {
        const struct mci_record *record = mci_pool_at(&shard->pool, at);
        __builtin_prefetch(record->label);
        at = record->next;
    }
}

/* Takes some copies out; *left: how many it has not yet come by. */
static void empty_some(struct slice *slice, struct mci_shard *shard,
                       struct mci_lane *lane, uint32_t *left)
{
    for (unsigned i = 0; i < COPIES_PER_HOLD; i++) {
        if (*left == 0 || !slice_has_room(slice)) {
            return;
        }
        uint32_t copy = lane->queue.head;
        if (copy == 0) {
            *left = 0; /* others took some out */
            return;
        }
        (*left)--;
        const struct mci_record *record = mci_pool_at(&shard->pool, copy);
        uint32_t index =
            record->state == MCI_RECORD_COPY ? (uint32_t)record->number : copy;
        const struct mci_record *version = mci_pool_at(&shard->pool, index);
        if (is_being_read(shard, index)) {
            mci_lane_to_tail(slice->master, shard, copy, version->marks);
            continue;
        }
        struct mci_change change = change_of(slice, shard, version);
        slice->budget--;
        mci_version_drop_copy(&change, index, copy);
    }
    fetch_labels(shard, lane);
}

/* Empties one lane; false if the slice is used up or readers are in the way. */
static bool empty_lane(struct slice *slice, struct mci_shard *shard,
                       struct mci_lane *lane)
{
    mci_shard_lock(shard);
    uint32_t left = lane->count;
    while (left > 0 && slice->budget > 0) {
        empty_some(slice, shard, lane, &left);
        mci_shard_unlock(shard);
        mci_leavings_clear(slice->master, &slice->leavings);
        mci_shard_lock(shard);
    }
    bool is_empty = lane->count == 0;
    mci_shard_unlock(shard);
    return is_empty;
}

/* The plain lane is the last one: what is in another one moves there when its soft
 * pin ends, and nothing moves back. */
static bool empty_shard(struct slice *slice, const struct mci_space *space,
                        uint32_t index)
{
    struct mci_shard *shard = &slice->master->shards[index];
    bool is_empty = true;
    for (unsigned kind = MCI_LANE_KINDS; kind-- > 0;) {
        is_empty &= empty_lane(slice, shard,
                               mci_lane_of(slice->master, shard, space->slot,
                                           (enum mci_lane_kind)kind));
    }
    return is_empty;
}

static uint32_t step_of(struct mci_space *space)
{
    (void)pthread_mutex_lock(&space->lock);
    uint32_t step = space->step_shard;
    (void)pthread_mutex_unlock(&space->lock);
    return step;
}

static void note_step(struct mci_space *space, uint32_t segment, uint32_t step)
{
    (void)pthread_mutex_lock(&space->lock);
    if (atomic_load(&space->id) == segment) {
        space->step_shard = step;
    }
    (void)pthread_mutex_unlock(&space->lock);
}

enum mc_err mci_master_segment_step(struct mci_master *master, uint32_t segment,
                                    uint64_t now_ns, uint64_t deadline_ns,
                                    bool *done_out)
{
    struct mci_space *space = mci_space_find(master, segment);
    if (!space) {
        *done_out = true;
        return MC_OK;
    }
    if (!atomic_load(&space->is_gone)) {
        return MC_ERR_INVALID_PARAMS;
    }
    struct slice slice = {
        .master = master, .now_ns = now_ns, .deadline_ns = deadline_ns};
    uint32_t step = step_of(space);
    if (step < master->shard_count) {
        enum mc_err err = slice_begin(&slice);
        if (err != MC_OK) {
            return err;
        }
        while (step < master->shard_count && empty_shard(&slice, space, step)) {
            step++;
        }
        slice_end(&slice);
        note_step(space, segment, step);
    }
    *done_out = step == master->shard_count;
    return MC_OK;
}

/* ---- clients ----------------------------------------------------------- */

void mci_master_client_expire(struct mci_master *master, uint32_t client)
{
    struct mci_writer *writer = mci_writer_of(master, client);
    if (!writer) {
        return;
    }
    (void)pthread_mutex_lock(&master->tables_lock);
    writer->step_shard = 0;
    if (!atomic_load(&writer->is_expired)) {
        writer->is_going = true;
        atomic_fetch_add(&master->going, 1); /* before it can be seen */
        atomic_store(&writer->is_expired, true);
        (void)atomic_fetch_sub(&master->client_count, 1);
    }
    (void)pthread_mutex_unlock(&master->tables_lock);
    uint32_t count = atomic_load(&master->space_count);
    for (uint32_t slot = 0; slot < count; slot++) {
        struct mci_space *space = mci_space_at(master, slot);
        uint32_t id = atomic_load(&space->id);
        if (id != 0 && atomic_load(&space->client) == client) {
            mci_master_segment_close(master, id);
        }
    }
}

/* Nothing that is linked is with it any more. tables_lock is held. */
static void note_gone_through(struct mci_master *master,
                              struct mci_writer *writer)
{
    if (writer->is_going) {
        writer->is_going = false;
        atomic_fetch_sub(&master->going, 1);
    }
}

/* One slice of one of its segments that are not empty yet; *busy_out: there is
 * more. */
static enum mc_err step_segments(struct mci_master *master, uint32_t client,
                                 uint64_t now_ns, uint64_t deadline_ns,
                                 bool *busy_out)
{
    uint32_t count = atomic_load(&master->space_count);
    *busy_out = false;
    for (uint32_t slot = 0; slot < count && !*busy_out; slot++) {
        struct mci_space *space = mci_space_at(master, slot);
        uint32_t id = atomic_load(&space->id);
        if (id == 0 || atomic_load(&space->client) != client ||
            !atomic_load(&space->is_gone)) {
            continue;
        }
        bool done = false;
        enum mc_err err =
            mci_master_segment_step(master, id, now_ns, deadline_ns, &done);
        if (err != MC_OK) {
            return err;
        }
        *busy_out = !done;
    }
    return MC_OK;
}

/* Its open attempts end in doubt: they may still be written to. */
static void doubt_attempts(struct slice *slice, struct mci_shard *shard,
                           uint32_t client)
{
    mci_shard_lock(shard);
    uint32_t index = shard->open.head;
    while (index != 0) {
        const struct mci_record *record = mci_pool_at(&shard->pool, index);
        uint32_t next = record->next;
        if (mci_number_client(record->number) == client) {
            struct mci_change change = {.master = slice->master,
                                        .shard = shard,
                                        .now_ns = slice->now_ns,
                                        .leavings = &slice->leavings};
            mci_attempt_doubt(&change, index);
        }
        index = next;
    }
    mci_shard_unlock(shard);
}

static bool is_disk_of(const struct mci_record *record, uint32_t client)
{
    return (record->marks & MCI_MARK_DISK) &&
           mci_label_extras(record->label)->disk_client == client;
}

/* Drops its disk copies in a range of tags; false if the slice is used up. */
static bool drop_disks(struct slice *slice, struct mci_shard *shard,
                       uint32_t client, uint64_t first_tag, uint64_t end_tag)
{
    struct mci_walk walk = mci_walk_begin(&shard->table, first_tag, end_tag);
    struct mci_slot *slot = NULL;
    while ((slot = mci_walk_next(&walk))) {
        uint32_t index = mci_chain_linked(shard, slot);
        if (index == 0 ||
            !is_disk_of(mci_pool_at(&shard->pool, index), client)) {
            continue;
        }
        if (!slice_has_room(slice)) {
            return false;
        }
        struct mci_change change = {.master = slice->master,
                                    .shard = shard,
                                    .slot = slot,
                                    .now_ns = slice->now_ns,
                                    .reserved = &slice->reserved,
                                    .leavings = &slice->leavings};
        slice->budget--;
        mci_version_drop_disk(&change, index);
        mci_walk_again(&walk);
    }
    return true;
}

static bool drop_disks_in_shard(struct slice *slice, struct mci_shard *shard,
                                uint32_t client)
{
    bool is_done = true;
    uint64_t tag = 0;
    while (tag < TAGS_END && is_done) {
        mci_shard_lock(shard);
        uint64_t end = mci_table_range_end(&shard->table, tag, WALK_SLOTS);
        is_done = drop_disks(slice, shard, client, tag, end);
        mci_shard_unlock(shard);
        tag = end;
    }
    return is_done;
}

static enum mc_err step_shards(struct slice *slice, struct mci_writer *writer,
                               uint32_t *step)
{
    enum mc_err err = slice_begin(slice);
    if (err != MC_OK) {
        return err;
    }
    uint32_t count = slice->master->shard_count;
    for (uint32_t i = 0; i < SHARDS_PER_STEP && *step < count; i++) {
        struct mci_shard *shard = &slice->master->shards[*step];
        doubt_attempts(slice, shard, writer->id);
        if (atomic_load(&writer->disk_copies) > 0 &&
            !drop_disks_in_shard(slice, shard, writer->id)) {
            break;
        }
        (*step)++;
    }
    slice_end(slice);
    return MC_OK;
}

enum mc_err mci_master_client_step(struct mci_master *master, uint32_t client,
                                   uint64_t now_ns, uint64_t deadline_ns,
                                   bool *done_out)
{
    struct mci_writer *writer = mci_writer_at(master, client);
    if (!writer || !atomic_load(&writer->is_expired)) {
        return writer ? MC_ERR_INVALID_PARAMS : MC_ERR_CLIENT_NOT_FOUND;
    }
    bool is_busy = false;
    enum mc_err err =
        step_segments(master, client, now_ns, deadline_ns, &is_busy);
    if (err != MC_OK || is_busy) {
        *done_out = false;
        return err;
    }
    struct slice slice = {
        .master = master, .now_ns = now_ns, .deadline_ns = deadline_ns};
    (void)pthread_mutex_lock(&master->tables_lock);
    uint32_t step = writer->step_shard;
    (void)pthread_mutex_unlock(&master->tables_lock);
    if (step < master->shard_count) {
        err = step_shards(&slice, writer, &step);
        if (err != MC_OK) {
            return err;
        }
    }
    (void)pthread_mutex_lock(&master->tables_lock);
    writer->step_shard = step;
    if (step == master->shard_count) {
        note_gone_through(master, writer);
    }
    (void)pthread_mutex_unlock(&master->tables_lock);
    *done_out = step == master->shard_count;
    return MC_OK;
}

/* ---- fenced ------------------------------------------------------------ */

/* Frees the ranges in quarantine of one shard; false when leavings are full. */
static bool free_doubtful(struct slice *slice, struct mci_shard *shard,
                          uint32_t client)
{
    uint32_t index = shard->doubtful.head;
    while (index != 0) {
        const struct mci_record *record = mci_pool_at(&shard->pool, index);
        uint32_t next = record->next;
        if (mci_number_client(record->number) == client) {
            if (!mci_leavings_have_room(&slice->leavings)) {
                return false;
            }
            struct mci_change change = change_of(slice, shard, record);
            mci_attempt_proven(&change, index);
        }
        index = next;
    }
    return true;
}

void mci_master_client_fenced(struct mci_master *master, uint32_t client)
{
    struct mci_writer *writer = mci_writer_at(master, client);
    if (!writer || !atomic_load(&writer->is_expired)) {
        return;
    }
    for (uint32_t i = 0; i < master->shard_count; i++) {
        bool is_done = false;
        while (!is_done) {
            struct slice slice = {.master = master};
            mci_leavings_init(&slice.leavings);
            mci_shard_lock(&master->shards[i]);
            is_done = free_doubtful(&slice, &master->shards[i], client);
            mci_shard_unlock(&master->shards[i]);
            mci_leavings_clear(master, &slice.leavings);
        }
    }
    (void)pthread_mutex_lock(&master->tables_lock);
    if (atomic_load(&writer->open) == 0 &&
        atomic_load(&writer->disk_copies) == 0) {
        note_gone_through(master, writer);
        writer->is_used = false;
    }
    (void)pthread_mutex_unlock(&master->tables_lock);
}

/* ---- replica_clear ----------------------------------------------------- */

static uint32_t copy_in(const struct mci_shard *shard, uint32_t index,
                        const struct mci_space *space)
{
    uint32_t copy = mci_copy_first(shard, index);
    while (copy != 0 &&
           mci_pool_at(&shard->pool, copy)->segment != space->slot) {
        copy = mci_copy_next(shard, copy);
    }
    return copy;
}

static enum mc_err clear_copy(struct slice *slice, uint16_t tenant,
                              struct mc_view key, const struct mci_space *space)
{
    struct mci_spot spot;
    mci_spot_make(slice->master, tenant, key, &spot);
    struct mci_shard *shard = &slice->master->shards[spot.shard];
    enum mc_err err = MC_OK;
    mci_shard_lock(shard);
    const struct mci_slot *slot =
        mci_table_find(&shard->table, &shard->pool, &spot);
    uint32_t index = mci_chain_readable(slice->master, shard, slot);
    uint32_t copy = index ? copy_in(shard, index, space) : 0;
    if (copy == 0) {
        err = index ? MC_ERR_REPLICA_NOT_FOUND : MC_ERR_OBJECT_NOT_FOUND;
    } else if (is_being_read(shard, index)) {
        err = MC_ERR_OBJECT_REPLICA_BUSY;
    } else {
        struct mci_change change =
            change_of(slice, shard, mci_pool_at(&shard->pool, index));
        mci_version_drop_copy(&change, index, copy);
    }
    mci_shard_unlock(shard);
    return err;
}

static enum mc_err clear_key(struct mci_master *master,
                             const struct mci_call *call, uint16_t tenant,
                             struct mc_view key, const struct mci_space *space)
{
    struct slice slice = {.master = master, .now_ns = call->now_ns};
    mci_leavings_init(&slice.leavings);
    enum mc_err err = mci_media_reserve(master, 1, MCI_LOG_FOREGROUND,
                                        call->deadline_ns, &slice.reserved);
    if (err == MC_OK) {
        err = clear_copy(&slice, tenant, key, space);
        slice_end(&slice);
    }
    return err;
}

enum mc_err mci_master_replica_clear(struct mci_master *master,
                                     const struct mci_call *call,
                                     const struct mc_view *keys, size_t count,
                                     uint32_t segment, int64_t *results_out)
{
    struct mci_tenant *tenant = NULL;
    struct mci_space *space = mci_space_find(master, segment);
    enum mc_err err = count > MC_ROWS_MAX ? MC_ERR_INVALID_PARAMS : MC_OK;
    if (err == MC_OK && !space) {
        err = MC_ERR_SEGMENT_NOT_FOUND;
    }
    if (err == MC_OK) {
        err = mci_call_begin(master, call, false, &tenant);
    }
    for (size_t i = 0; i < count; i++) {
        results_out[i] = err != MC_OK ? err : mci_key_check(keys[i]);
        if (results_out[i] == MC_OK) {
            results_out[i] =
                tenant ? clear_key(master, call, tenant->index, keys[i], space)
                       : MC_ERR_OBJECT_NOT_FOUND;
        }
    }
    return err;
}
