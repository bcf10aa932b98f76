/* SPDX-License-Identifier: Apache-2.0 */
/* master_start.c - put_start, upsert_start, promote_start: look, allocate,
 * insert.
 *
 * A short look under the shard lock says whether the write may begin, and takes
 * a record and the promise of a table slot. Space is found, and made by
 * evicting, without any lock. The insert looks again, and cannot fail for want
 * of anything; whatever was taken is given back if it must not be.
 */
#include "ahead.h"
#include "caller.h"
#include "group.h"
#include "mc_session.h"
#include "quota.h"
#include "space.h"
#include "start.h"
#include "version.h"
#include "writer.h"

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

static enum mc_err make_label(struct mci_start *start)
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
        .has_extras = start->kind == MCI_START_UPSERT || start->copy_max > 1 ||
                      row->group_id.len > 0 || action == MC_SOFT_PIN_ENABLE,
        .has_sums = row->has_sums};
    start->label = mci_label_create(&opts);
    if (!start->label) {
        return MC_ERR_NOMEM;
    }
    struct mci_extras *extras = mci_label_extras(start->label);
    if (extras) {
        extras->soft_action = (uint8_t)action;
        extras->soft_ns = action == MC_SOFT_PIN_ENABLE
                              ? soft_pin_ttl_ns(start->master, config)
                              : 0;
    }
    if (row->group_id.len == 0) {
        return MC_OK;
    }
    return mci_group_get(start->master, start->spot.tenant, row->group_id,
                         &start->group);
}

/* Before anything is evicted for it. */
static enum mc_err charge(struct mci_start *start)
{
    const struct mci_spot *spared =
        start->kind == MCI_START_UPSERT ? &start->spot : NULL;
    uint64_t bytes = start->bytes * start->copy_max;
    enum mc_err err = mci_quota_charge(start->master, start->call,
                                       start->spot.tenant, bytes, spared);
    start->charged_bytes = err == MC_OK ? bytes : 0;
    return err;
}

/* For copies that found no place, or for none. */
static void discharge(struct mci_start *start, uint32_t copies)
{
    uint64_t bytes = start->bytes * copies;
    mci_quota_discharge(start->master, start->spot.tenant,
                        start->charged_bytes - bytes);
    start->charged_bytes = bytes;
}

static enum mc_err allocate(struct mci_start *start)
{
    enum mc_err err = make_label(start);
    if (err != MC_OK) {
        return err;
    }
    uint64_t waited_ns = 0;
    const struct mci_want want = {
        .master = start->master,
        .waited_ns = &waited_ns,
        .call = start->call,
        .config = start->config,
        .spared = start->kind == MCI_START_UPSERT ? &start->spot : NULL,
        .bytes = start->bytes,
        .owner = mci_ref_make(start->shard->index, start->index)};
    return mci_place(&want, start->placed, &start->placed_count);
}

/* ---- a row ------------------------------------------------------------- */

/* Gives back what look and allocate took. */
static void undo(struct mci_start *start)
{
    if (start->index != 0) {
        mci_start_give_back(start);
    }
    for (uint32_t i = 0; i < start->placed_count; i++) {
        struct mci_range range = {.extent = start->placed[i].extent,
                                  .segment = start->placed[i].slot};
        mci_space_free(start->master, &range);
    }
    mci_group_put(start->master, start->group);
    mci_label_destroy(start->label);
    discharge(start, 0);
}

static enum mc_err open_attempt(struct mci_start *start)
{
    enum mc_err err = mci_start_look(start);
    if (err != MC_OK) {
        return err;
    }
    err = charge(start);
    if (err == MC_OK) {
        err = allocate(start);
    }
    if (err == MC_OK) {
        discharge(start, start->placed_count);
        err = mci_start_insert(start);
    }
    if (err != MC_OK) {
        undo(start);
    }
    return err;
}

static void tell_places(const struct mci_start *start)
{
    struct mci_write_row *row = start->row;
    row->attempt.epoch = start->master->epoch;
    row->place_count = start->placed_count;
    for (uint32_t i = 0; i < start->placed_count; i++) {
        row->places[i].offset = start->placed[i].offset;
        row->places[i].segment = start->placed[i].segment_id;
    }
}

static enum mc_err check_row(const struct mci_start *start)
{
    const struct mci_write_row *row = start->row;
    enum mc_err err = mci_key_check(row->key);
    if (err == MC_OK && start->kind != MCI_START_PROMOTE &&
        (row->size == 0 || row->size > MC_OBJECT_SIZE_MAX)) {
        err = MC_ERR_INVALID_PARAMS;
    }
    return err;
}

static enum mc_err start_row(struct mci_start *start, uint16_t tenant)
{
    struct mci_write_row *row = start->row;
    row->attempt = (struct mci_attempt){.epoch = 0};
    row->place_count = 0;
    row->has_sums = start->config && start->config->checksum;
    row->in_doubt = false;
    enum mc_err err = check_row(start);
    start->bytes = mci_row_bytes(row);
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

static enum mc_err begin(struct mci_start *start,
                         const struct mci_write_row *rows, size_t count,
                         struct mci_tenant **tenant_out)
{
    enum mc_err err =
        count > MC_ROWS_MAX ? MC_ERR_INVALID_PARAMS : check_ids(rows, count);
    if (err == MC_OK) {
        err = mci_config_check(start->master, start->config);
    }
    if (err == MC_OK) {
        bool is_policy = mci_quota_is_policy(start->master);
        err =
            mci_call_begin(start->master, start->call, !is_policy, tenant_out);
        if (err == MC_OK && is_policy &&
            (!*tenant_out || !atomic_load(&(*tenant_out)->has_quota))) {
            err = MC_ERR_TENANT_NOT_REGISTERED;
        }
    }
    start->writer = mci_writer_of(start->master, start->call->client);
    if (err == MC_OK && !start->writer) {
        err = MC_ERR_CLIENT_NOT_FOUND;
    }
    return err;
}

static enum mc_err start_rows(const struct mci_start *first,
                              struct mci_write_row *rows, size_t count)
{
    struct mci_start start = *first;
    struct mci_tenant *tenant = NULL;
    enum mc_err err = begin(&start, rows, count, &tenant);
    if (err != MC_OK) {
        mci_rows_fill(rows, count, err);
        return err;
    }
    const struct mci_start fresh = start;
    for (size_t i = 0; i < count; i++) {
        if (i % MCI_AHEAD_ROWS == 0) {
            mci_look_ahead_at(start.master, tenant->index, &rows[i], count - i);
        }
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
    const struct mci_start start = {.master = master,
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
    const struct mci_start start = {.master = master,
                                    .call = call,
                                    .config = config,
                                    .copy_max = copies_wanted(config),
                                    .kind = MCI_START_UPSERT};
    return start_rows(&start, rows, count);
}

enum mc_err mci_master_promote_start(struct mci_master *master,
                                     const struct mci_call *call,
                                     struct mci_write_row *rows, size_t count)
{
    const struct mci_start start = {.master = master,
                                    .call = call,
                                    .copy_max = 1,
                                    .kind = MCI_START_PROMOTE};
    for (size_t i = 0; i < count; i++) {
        rows[i].session_id = mc_view_make(NULL, 0);
        rows[i].group_id = mc_view_make(NULL, 0);
    }
    return start_rows(&start, rows, count);
}
