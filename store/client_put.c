/* SPDX-License-Identifier: Apache-2.0 */
/* client_put.c - writing: start, copy, end; and take back what failed.
 *
 * A batch is checked as a whole and then goes in slices, whose rows take their
 * own entries of the tag and group vectors; so splitting costs the same few
 * bytes whatever the length of the batch.
 */
#include <string.h>

#include "client.h"
#include "mc_session.h"
#include "mci_alloc.h"

#define SLICE_ROWS 128

/* A batch on its way. */
struct writing {
    struct mc_client *client;
    const struct mc_replicate_config *config;
    const struct mc_view *keys;
    const struct mc_view *values;
    int64_t *results;
    bool replaces;
};

/* ---- checks ------------------------------------------------------------ */

static enum mc_err check_groups(const struct mc_replicate_config *config,
                                size_t count)
{
    if (!config->group_ids) {
        return config->group_id_count == 0 ? MC_OK : MC_ERR_INVALID_PARAMS;
    }
    if (config->group_id_count != count) {
        return MC_ERR_INVALID_PARAMS;
    }
    for (size_t i = 0; i < count; i++) {
        if (mci_group_id_check(config->group_ids[i]) != MC_OK) {
            return MC_ERR_INVALID_PARAMS;
        }
    }
    return MC_OK;
}

/* Both vectors, whole, before anything is filtered or done. */
static enum mc_err check_vectors(const struct mc_replicate_config *config,
                                 size_t count)
{
    if (!config) {
        return MC_OK;
    }
    if (!config->session_ids && config->session_id_count > 0) {
        return MC_ERR_INVALID_PARAMS;
    }
    enum mc_err err = mc_session_ids_check(config->session_ids,
                                           config->session_id_count, count);
    return err != MC_OK ? err : check_groups(config, count);
}

/* ---- a slice ----------------------------------------------------------- */

static void fill_rows(const struct writing *writing, size_t first,
                      struct mci_write_row *rows, size_t count)
{
    const struct mc_replicate_config *config = writing->config;
    bool has_tags = config && config->session_ids;
    bool has_groups = config && config->group_ids;
    const struct mc_view none = {NULL, 0};
    for (size_t i = 0; i < count; i++) {
        const struct mc_view *value = &writing->values[first + i];
        struct mci_write_row *row = &rows[i];
        row->key = writing->keys[first + i];
        row->session_id = has_tags ? config->session_ids[first + i] : none;
        row->group_id = has_groups ? config->group_ids[first + i] : none;
        row->size = value->data ? value->len : 0; /* 0 is refused */
        row->attempt = (struct mci_attempt){.number = 0};
        row->place_count = 0;
        row->in_doubt = false;
        row->err = MC_OK;
    }
}

static enum mc_err start(const struct writing *writing,
                         const struct mci_call *call,
                         struct mci_write_row *rows, size_t count)
{
    const struct mci_master_link *link = &writing->client->link;
    return (writing->replaces ? link->ops->upsert_start : link->ops->put_start)(
        link->ctx, call, writing->config, rows, count);
}

static enum mc_err copy_in(const struct mc_client *client,
                           const struct mci_write_row *row,
                           const struct mc_view *value)
{
    for (uint32_t i = 0; i < row->place_count; i++) {
        uint8_t *memory =
            mci_client_memory(client, &row->places[i], value->len);
        if (!memory) {
            return MC_ERR_TRANSFER_FAIL;
        }
        memcpy(memory, value->data, value->len);
    }
    return MC_OK;
}

/* Rows that were started and failed since are taken back. A revoke makes no
 * events and needs no room, so it does not fail where the end did. */
static void take_back(const struct mci_master_link *link,
                      const struct mci_call *call, struct mci_write_row *rows,
                      size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (rows[i].err != MC_OK && rows[i].attempt.number != 0) {
            struct mci_write_row row = rows[i];
            (void)link->ops->put_revoke(link->ctx, call, &row, 1);
        }
    }
}

/* Ends what was copied; the others are left out by number. */
static void end(const struct writing *writing, const struct mci_call *call,
                struct mci_write_row *rows, size_t count)
{
    const struct mci_master_link *link = &writing->client->link;
    bool any_failed = false;
    for (size_t i = 0; i < count; i++) {
        any_failed |= rows[i].err != MC_OK;
    }
    if (any_failed) {
        take_back(link, call, rows, count);
        for (size_t i = 0; i < count; i++) {
            if (rows[i].err != MC_OK) {
                rows[i].attempt.number = 0;
            }
        }
    }
    enum mc_err err = link->ops->put_end(link->ctx, call, rows, count);
    (void)err; /* every row holds it */
    take_back(link, call, rows, count);
}

/* What became of a put that found another one of its key under way: if that was
 * an earlier row of the same slice, and failed, this one has failed with it. */
static enum mc_err fate_of_twin(const struct mci_write_row *rows, size_t i)
{
    for (size_t j = 0; j < i; j++) {
        if (rows[j].err != MC_OK &&
            rows[j].err != MC_ERR_OBJECT_ALREADY_EXISTS &&
            mc_view_equal(rows[j].key, rows[i].key)) {
            return rows[j].err;
        }
    }
    return MC_OK;
}

/* To whoever puts it is all the same who was first. */
static int64_t answer_of(const struct writing *writing,
                         const struct mci_write_row *rows, size_t i)
{
    bool exists = rows[i].err == MC_ERR_OBJECT_ALREADY_EXISTS;
    return exists && !writing->replaces ? fate_of_twin(rows, i) : rows[i].err;
}

/* Errors: the master refused the call as a whole, which it does for the first
 * slice already or not at all. */
static enum mc_err write_slice(const struct writing *writing, size_t first,
                               struct mci_write_row *rows, size_t count)
{
    const struct mci_call call = mci_client_call(writing->client);
    fill_rows(writing, first, rows, count);
    enum mc_err err = start(writing, &call, rows, count);
    for (size_t i = 0; i < count && err == MC_OK; i++) {
        if (rows[i].err == MC_OK) {
            rows[i].err =
                copy_in(writing->client, &rows[i], &writing->values[first + i]);
        }
    }
    if (err == MC_OK) {
        end(writing, &call, rows, count);
    }
    for (size_t i = 0; i < count; i++) {
        writing->results[first + i] = answer_of(writing, rows, i);
    }
    return err;
}

/* ---- calls ------------------------------------------------------------- */

static enum mc_err write_one(const struct writing *writing)
{
    enum mc_err err = check_vectors(writing->config, 1);
    if (err != MC_OK) {
        return err;
    }
    struct mci_write_row row;
    err = write_slice(writing, 0, &row, 1);
    return err != MC_OK ? err : (enum mc_err)writing->results[0];
}

enum mc_err mc_client_put(struct mc_client *client, struct mc_view key,
                          const void *data, size_t len,
                          const struct mc_replicate_config *config)
{
    const struct mc_view value = mc_view_make(data, len);
    int64_t result = MC_OK;
    const struct writing writing = {.client = client,
                                    .config = config,
                                    .keys = &key,
                                    .values = &value,
                                    .results = &result};
    return write_one(&writing);
}

enum mc_err mc_client_upsert(struct mc_client *client, struct mc_view key,
                             const void *data, size_t len,
                             const struct mc_replicate_config *config)
{
    const struct mc_view value = mc_view_make(data, len);
    int64_t result = MC_OK;
    const struct writing writing = {.client = client,
                                    .config = config,
                                    .keys = &key,
                                    .values = &value,
                                    .results = &result,
                                    .replaces = true};
    return write_one(&writing);
}

static enum mc_err write_batch(const struct writing *writing, size_t count)
{
    enum mc_err err =
        mci_client_check_rows(writing->keys, writing->results, count);
    if (err == MC_OK && count > 0 && !writing->values) {
        err = MC_ERR_INVALID_PARAMS;
    }
    if (err == MC_OK) {
        err = check_vectors(writing->config, count);
    }
    if (err != MC_OK) {
        return mci_client_refuse(writing->results, count, err);
    }
    size_t most = count < SLICE_ROWS ? count : SLICE_ROWS;
    struct mci_write_row *rows = mci_alloc(most * sizeof *rows);
    if (!rows) {
        return mci_client_refuse(writing->results, count, MC_ERR_NOMEM);
    }
    for (size_t first = 0; first < count && err == MC_OK; first += most) {
        size_t left = count - first;
        err = write_slice(writing, first, rows, left < most ? left : most);
    }
    mci_free(rows);
    return err != MC_OK ? mci_client_refuse(writing->results, count, err)
                        : MC_OK;
}

enum mc_err mc_client_batch_put(struct mc_client *client,
                                const struct mc_view *keys,
                                const struct mc_view *values, size_t count,
                                const struct mc_replicate_config *config,
                                int64_t *results_out)
{
    const struct writing writing = {.client = client,
                                    .config = config,
                                    .keys = keys,
                                    .values = values,
                                    .results = results_out};
    return write_batch(&writing, count);
}

enum mc_err mc_client_batch_upsert(struct mc_client *client,
                                   const struct mc_view *keys,
                                   const struct mc_view *values, size_t count,
                                   const struct mc_replicate_config *config,
                                   int64_t *results_out)
{
    const struct writing writing = {.client = client,
                                    .config = config,
                                    .keys = keys,
                                    .values = values,
                                    .results = results_out,
                                    .replaces = true};
    return write_batch(&writing, count);
}
