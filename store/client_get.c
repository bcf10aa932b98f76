/* SPDX-License-Identifier: Apache-2.0 */
/* client_get.c - reading: hold a version, copy it, let it go.
 *
 * The hold keeps the bytes whatever leases and writers do, so a read inside this
 * process never finds that its lease is over.
 */
#include <string.h>

#include "client.h"
#include "mci_alloc.h"

#define SLICE_ROWS 64

/* A batch on its way; either into the caller's buffers or into new ones. */
struct reading {
    struct mc_client *client;
    const struct mc_view *keys;
    const struct mc_span *buffers; /* NULL: new memory */
    struct mc_span *spans;         /* what is handed out then */
    int64_t *results;
};

static void *target_of(const struct reading *reading, size_t i, uint64_t size,
                       enum mc_err *err)
{
    if (reading->buffers) {
        const struct mc_span *buffer = &reading->buffers[i];
        *err =
            buffer->data && buffer->len >= size ? MC_OK : MC_ERR_INVALID_PARAMS;
        return buffer->data;
    }
    void *data = mci_alloc(size);
    *err = data ? MC_OK : MC_ERR_NOMEM;
    return data;
}

static int64_t copy_out(const struct reading *reading, size_t i,
                        const struct mci_read_row *row)
{
    if (row->err != MC_OK) {
        return row->err;
    }
    const uint8_t *memory =
        row->place_count > 0
            ? mci_client_memory(reading->client, &row->places[0], row->size)
            : NULL;
    if (!memory) {
        return MC_ERR_INVALID_REPLICA;
    }
    enum mc_err err = MC_OK;
    void *target = target_of(reading, i, row->size, &err);
    if (err != MC_OK) {
        return err;
    }
    memcpy(target, memory, row->size);
    if (reading->spans) {
        reading->spans[i] = (struct mc_span){.data = target, .len = row->size};
    }
    return (int64_t)row->size;
}

static void read_slice(const struct reading *reading, size_t first,
                       struct mci_read_row *rows, size_t count)
{
    const struct mci_master_link *link = &reading->client->link;
    const struct mci_call call = mci_client_call(reading->client);
    for (size_t i = 0; i < count; i++) {
        rows[i].key = reading->keys[first + i];
        rows[i].want_hold = true;
    }
    enum mc_err err = link->ops->get(link->ctx, &call, rows, count);
    (void)err; /* every row holds it */
    for (size_t i = 0; i < count; i++) {
        reading->results[first + i] = copy_out(reading, first + i, &rows[i]);
    }
    link->ops->release(link->ctx, rows, count);
}

static enum mc_err read_batch(const struct reading *reading, size_t count)
{
    enum mc_err err =
        mci_client_check_rows(reading->keys, reading->results, count);
    if (err == MC_OK && count > 0 && !reading->buffers && !reading->spans) {
        err = MC_ERR_INVALID_PARAMS;
    }
    for (size_t i = 0; i < count && reading->spans; i++) {
        reading->spans[i] = (struct mc_span){.data = NULL};
    }
    if (err != MC_OK) {
        return mci_client_refuse(reading->results, count, err);
    }
    size_t most = count < SLICE_ROWS ? count : SLICE_ROWS;
    struct mci_read_row *rows = mci_alloc(most * sizeof *rows);
    if (!rows) {
        return mci_client_refuse(reading->results, count, MC_ERR_NOMEM);
    }
    for (size_t first = 0; first < count; first += most) {
        size_t left = count - first;
        read_slice(reading, first, rows, left < most ? left : most);
    }
    mci_free(rows);
    return MC_OK;
}

/* ---- calls ------------------------------------------------------------- */

static enum mc_err code_of(int64_t result)
{
    return result < 0 ? (enum mc_err)result : MC_OK;
}

enum mc_err mc_client_get_into(struct mc_client *client, struct mc_view key,
                               void *buffer, size_t capacity,
                               uint64_t *size_out)
{
    const struct mc_span span = {.data = buffer, .len = capacity};
    int64_t result = 0;
    const struct reading reading = {
        .client = client, .keys = &key, .buffers = &span, .results = &result};
    if (!buffer) {
        return MC_ERR_INVALID_PARAMS;
    }
    struct mci_read_row row;
    read_slice(&reading, 0, &row, 1);
    if (result >= 0 && size_out) {
        *size_out = (uint64_t)result;
    }
    return code_of(result);
}

enum mc_err mc_client_batch_get_into(struct mc_client *client,
                                     const struct mc_view *keys,
                                     const struct mc_span *buffers,
                                     size_t count, int64_t *results_out)
{
    const struct reading reading = {.client = client,
                                    .keys = keys,
                                    .buffers = buffers,
                                    .results = results_out};
    return read_batch(&reading, count);
}

enum mc_err mc_client_get(struct mc_client *client, struct mc_view key,
                          void **data_out, size_t *size_out)
{
    struct mc_span span = {.data = NULL};
    int64_t result = 0;
    const struct reading reading = {
        .client = client, .keys = &key, .spans = &span, .results = &result};
    if (!data_out || !size_out) {
        return MC_ERR_INVALID_PARAMS;
    }
    struct mci_read_row row;
    read_slice(&reading, 0, &row, 1);
    if (result >= 0) {
        *data_out = span.data;
        *size_out = span.len;
    }
    return code_of(result);
}

enum mc_err mc_client_batch_get(struct mc_client *client,
                                const struct mc_view *keys, size_t count,
                                struct mc_span *spans_out, int64_t *results_out)
{
    const struct reading reading = {.client = client,
                                    .keys = keys,
                                    .spans = spans_out,
                                    .results = results_out};
    return read_batch(&reading, count);
}

void mc_client_free(void *data)
{
    mci_free(data);
}
