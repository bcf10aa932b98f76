/* SPDX-License-Identifier: Apache-2.0 */
/* master_start.c - put_start, upsert_start, promote_start: look, allocate,
 * insert.
 *
 * A short look under the shard lock says whether the write may begin, and takes
 * a record and the promise of a table slot. Space is found, and made by
 * evicting, without any lock. The insert looks again, and cannot fail for want
 * of anything; whatever was taken is given back if it must not be.
 */
#include "caller.h"
#include "group.h"
#include "mc_session.h"
#include "placement.h"
#include "space.h"
#include "version.h"
#include "writer.h"

enum start_kind { START_PUT, START_UPSERT, START_PROMOTE };

/* One row on its way. */
struct start {
    struct mci_master *master;
    const struct mci_call *call;
    const struct mc_replicate_config *config;
    struct mci_writer *writer;
    struct mci_write_row *row;
    struct mci_shard *shard;
    struct mci_spot spot;
    enum start_kind kind;
    uint32_t copy_max; /* wanted */
    /* taken so far: */
    uint32_t index;
    uint32_t copies[MCI_REPLICAS_MAX - 1];
    struct mci_label *label;
    struct mci_group *group;
    struct mci_placed placed[MCI_REPLICAS_MAX];
    uint32_t placed_count;
};

/* ---- looking ----------------------------------------------------------- */

static bool is_living_put(struct mci_master *master,
                          const struct mci_record *record)
{
    return record->state == MCI_RECORD_OPEN &&
           !(record->marks & (MCI_MARK_UPSERT | MCI_MARK_PROMOTE)) &&
           mci_writer_of(master, mci_number_client(record->number));
}

static enum mc_err check_put(const struct start *start,
                             const struct mci_slot *slot)
{
    uint32_t index = slot ? slot->index : 0;
    while (index != 0) {
        const struct mci_record *record =
            mci_pool_at(&start->shard->pool, index);
        if (record->state == MCI_RECORD_READABLE ||
            is_living_put(start->master, record)) {
            return MC_ERR_OBJECT_ALREADY_EXISTS;
        }
        index = mci_record_chain(record);
    }
    return MC_OK;
}

/* A group is for life. */
static enum mc_err check_upsert(const struct start *start,
                                const struct mci_slot *slot)
{
    uint32_t index = mci_chain_readable(start->shard, slot);
    if (index == 0 || start->row->group_id.len == 0) {
        return MC_OK;
    }
    struct mc_view group_id =
        mci_label_group_id(mci_pool_at(&start->shard->pool, index)->label);
    return mc_view_equal(group_id, start->row->group_id)
               ? MC_OK
               : MC_ERR_INVALID_PARAMS;
}

static bool has_promotion(const struct start *start,
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

/* Tells the row the size of what is on disk. */
static enum mc_err check_promote(const struct start *start,
                                 const struct mci_slot *slot)
{
    uint32_t index = mci_chain_readable(start->shard, slot);
    if (index == 0) {
        return MC_ERR_OBJECT_NOT_FOUND;
    }
    const struct mci_record *record = mci_pool_at(&start->shard->pool, index);
    if ((record->marks & MCI_MARK_CPU) || has_promotion(start, slot)) {
        return MC_ERR_REPLICA_ALREADY_EXISTS;
    }
    if (start->placed_count > 0 && start->row->size != record->size) {
        return MC_ERR_OBJECT_NOT_FOUND; /* another version than at the look */
    }
    start->row->size = record->size;
    return MC_OK;
}

static enum mc_err check_slot(const struct start *start,
                              const struct mci_slot *slot)
{
    if (atomic_load(&start->writer->is_expired)) {
        return MC_ERR_CLIENT_NOT_FOUND;
    }
    switch (start->kind) {
    case START_PUT:
        return check_put(start, slot);
    case START_UPSERT:
        return check_upsert(start, slot);
    default:
        return check_promote(start, slot);
    }
}

/* A key that is not there yet needs a place among max_objects; `take`: takes
 * it, else it is only looked whether there is one. */
static enum mc_err admit_key(const struct start *start,
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

static struct mci_slot *find_slot(const struct start *start)
{
    return mci_table_find(&start->shard->table, &start->shard->pool,
                          &start->spot);
}

static void give_records(struct start *start)
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

static enum mc_err take_records(struct start *start)
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

static enum mc_err look(struct start *start)
{
    mci_shard_lock(start->shard);
    const struct mci_slot *slot = find_slot(start);
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

/* ---- allocating -------------------------------------------------------- */

static uint64_t soft_pin_ttl_ns(const struct mci_master *master,
                                const struct mc_replicate_config *config)
{
    if (config->soft_pin_ttl_ms == MC_NONE) {
        return 0;
    }
    return config->soft_pin_ttl_ms == 0
               ? master->soft_pin_ns
               : config->soft_pin_ttl_ms * MCI_NS_PER_MS;
}

static enum mc_err make_label(struct start *start)
{
    const struct mc_replicate_config *config = start->config;
    const struct mci_write_row *row = start->row;
    enum mc_soft_pin_action action =
        config ? config->soft_pin_action : MC_SOFT_PIN_PRESERVE;
    const struct mci_label_opts opts = {
        .key = row->key,
        .tag = row->session_id,
        .tenant = start->spot.tenant,
        .data_type = (uint8_t)(config ? config->data_type : MC_DATA_UNKNOWN),
        .has_extras = start->kind == START_UPSERT || start->copy_max > 1 ||
                      row->group_id.len > 0 || action == MC_SOFT_PIN_ENABLE};
    start->label = mci_label_create(&opts);
    if (!start->label) {
        return MC_ERR_NOMEM;
    }
    struct mci_extras *extras = mci_label_extras(start->label);
    if (extras) {
        extras->soft_action = (uint8_t)action;
    }
    if (action == MC_SOFT_PIN_ENABLE) {
        extras->soft_ns = soft_pin_ttl_ns(start->master, config);
    }
    if (row->group_id.len == 0) {
        return MC_OK;
    }
    return mci_group_get(start->master, start->spot.tenant, row->group_id,
                         &start->group);
}

static enum mc_err allocate(struct start *start)
{
    enum mc_err err = make_label(start);
    if (err != MC_OK) {
        return err;
    }
    const struct mci_want want = {
        .master = start->master,
        .call = start->call,
        .config = start->config,
        .spared = start->kind == START_UPSERT ? &start->spot : NULL,
        .bytes = start->row->size,
        .owner = mci_ref_make(start->shard->index, start->index)};
    return mci_place(&want, start->placed, &start->placed_count);
}

/* ---- inserting --------------------------------------------------------- */

static void set_place(struct mci_record *record,
                      const struct mci_placed *placed)
{
    record->segment = placed->slot;
    record->extent = placed->extent;
    record->place = placed->place;
}

static void fill_copies(struct start *start, struct mci_record *record)
{
    struct mci_extras *extras = mci_label_extras(start->label);
    for (uint32_t i = start->placed_count - 1; i > 0; i--) {
        struct mci_record *copy =
            mci_pool_at(&start->shard->pool, start->copies[i - 1]);
        copy->state = MCI_RECORD_COPY;
        copy->number = start->index;
        copy->size = record->size;
        set_place(copy, &start->placed[i]);
        copy->at.next_copy = extras->copies;
        extras->copies = start->copies[i - 1];
        start->copies[i - 1] = 0;
    }
}

static void fill_record(struct start *start, struct mci_record *record)
{
    record->label = start->label;
    record->state = MCI_RECORD_OPEN;
    record->used_ns = start->call->now_ns;
    record->size = start->row->size;
    record->number = mci_writer_number(start->writer);
    set_place(record, &start->placed[0]);
    if (start->kind == START_UPSERT) {
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

static enum mc_err insert(struct start *start)
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
        if (start->kind == START_PROMOTE) {
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
        start->index = 0;
    }
    give_records(start); /* of copies that found no place */
    if (err != MC_OK) {
        mci_table_unpromise(&shard->table);
    }
    mci_shard_unlock(shard);
    return err;
}

/* ---- a row ------------------------------------------------------------- */

/* Gives back what look and allocate took. */
static void undo(struct start *start)
{
    if (start->index != 0) {
        mci_shard_lock(start->shard);
        give_records(start);
        mci_table_unpromise(&start->shard->table);
        mci_shard_unlock(start->shard);
    }
    for (uint32_t i = 0; i < start->placed_count; i++) {
        struct mci_range range = {.extent = start->placed[i].extent,
                                  .segment = start->placed[i].slot};
        mci_space_free(start->master, &range);
    }
    mci_group_put(start->master, start->group);
    mci_label_destroy(start->label);
}

static enum mc_err open_attempt(struct start *start)
{
    enum mc_err err = look(start);
    if (err != MC_OK) {
        return err;
    }
    err = allocate(start);
    if (err == MC_OK) {
        err = insert(start);
    }
    if (err != MC_OK) {
        undo(start);
    }
    return err;
}

static void tell_places(const struct start *start)
{
    struct mci_write_row *row = start->row;
    row->attempt.epoch = start->master->epoch;
    row->place_count = start->placed_count;
    for (uint32_t i = 0; i < start->placed_count; i++) {
        row->places[i].offset = start->placed[i].offset;
        row->places[i].segment = start->placed[i].segment_id;
    }
}

static enum mc_err check_row(const struct start *start)
{
    const struct mci_write_row *row = start->row;
    enum mc_err err = mci_key_check(row->key);
    if (err == MC_OK && start->kind != START_PROMOTE &&
        (row->size == 0 || row->size > MC_OBJECT_SIZE_MAX)) {
        err = MC_ERR_INVALID_PARAMS;
    }
    return err;
}

static enum mc_err start_row(struct start *start, uint16_t tenant)
{
    struct mci_write_row *row = start->row;
    row->attempt = (struct mci_attempt){.epoch = 0};
    row->place_count = 0;
    row->in_doubt = false;
    enum mc_err err = check_row(start);
    if (err == MC_OK) {
        err = mci_writer_admit(start->writer);
    }
    if (err != MC_OK) {
        return err;
    }
    mci_spot_make(start->master, tenant, row->key, &start->spot);
    start->shard = &start->master->shards[start->spot.shard];
    err = open_attempt(start);
    if (err != MC_OK) {
        mci_writer_leave(start->writer);
        return err;
    }
    tell_places(start);
    return MC_OK;
}

/* ---- a call ------------------------------------------------------------ */

/* Ids are checked before anything else happens. */
static enum mc_err check_ids(const struct mci_write_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (mc_session_id_check(rows[i].session_id) != MC_OK ||
            mci_group_id_check(rows[i].group_id) != MC_OK) {
            return MC_ERR_INVALID_PARAMS;
        }
    }
    return MC_OK;
}

static uint32_t copies_wanted(const struct mc_replicate_config *config)
{
    uint32_t copies = config ? config->replica_num : 1;
    if (copies == 0) {
        return 1;
    }
    return copies > MCI_REPLICAS_MAX ? MCI_REPLICAS_MAX : copies;
}

static enum mc_err begin(struct start *start, const struct mci_write_row *rows,
                         size_t count, struct mci_tenant **tenant_out)
{
    enum mc_err err =
        count > MC_ROWS_MAX ? MC_ERR_INVALID_PARAMS : check_ids(rows, count);
    if (err == MC_OK) {
        err = mci_config_check(start->master, start->config);
    }
    if (err == MC_OK) {
        err = mci_call_begin(start->master, start->call, true, tenant_out);
    }
    start->writer = mci_writer_of(start->master, start->call->client);
    if (err == MC_OK && !start->writer) {
        err = MC_ERR_CLIENT_NOT_FOUND;
    }
    return err;
}

static enum mc_err start_rows(const struct start *first,
                              struct mci_write_row *rows, size_t count)
{
    struct start start = *first;
    struct mci_tenant *tenant = NULL;
    enum mc_err err = begin(&start, rows, count, &tenant);
    if (err != MC_OK) {
        mci_rows_fill(rows, count, err);
        return err;
    }
    const struct start fresh = start;
    for (size_t i = 0; i < count; i++) {
        start = fresh;
        start.row = &rows[i];
        rows[i].err = start_row(&start, tenant->index);
    }
    return MC_OK;
}

enum mc_err mci_master_put_start(struct mci_master *master,
                                 const struct mci_call *call,
                                 const struct mc_replicate_config *config,
                                 struct mci_write_row *rows, size_t count)
{
    const struct start start = {.master = master,
                                .call = call,
                                .config = config,
                                .copy_max = copies_wanted(config)};
    return start_rows(&start, rows, count);
}

enum mc_err mci_master_upsert_start(struct mci_master *master,
                                    const struct mci_call *call,
                                    const struct mc_replicate_config *config,
                                    struct mci_write_row *rows, size_t count)
{
    const struct start start = {.master = master,
                                .call = call,
                                .config = config,
                                .copy_max = copies_wanted(config),
                                .kind = START_UPSERT};
    return start_rows(&start, rows, count);
}

enum mc_err mci_master_promote_start(struct mci_master *master,
                                     const struct mci_call *call,
                                     struct mci_write_row *rows, size_t count)
{
    const struct start start = {
        .master = master, .call = call, .copy_max = 1, .kind = START_PROMOTE};
    for (size_t i = 0; i < count; i++) {
        rows[i].session_id = mc_view_make(NULL, 0);
        rows[i].group_id = mc_view_make(NULL, 0);
    }
    return start_rows(&start, rows, count);
}
