/* SPDX-License-Identifier: Apache-2.0 */
/* client_get.c - the calls that read objects as a whole. */
#include <string.h>

#include "client_read.h"
#include "mci_alloc.h"

static struct mc_view key_at(const struct mci_reading *reading, size_t i)
{
    return reading->keys[i];
}

static void settle_result(struct mci_reading *reading, size_t i,
                          const struct mci_piece *pieces, size_t count)
{
    (void)count;
    reading->results[i] = pieces[0].result;
}

/* ---- into a buffer ------------------------------------------------------- */

static enum mc_err aim_buffer(struct mci_reading *reading, size_t i,
                              uint64_t size, struct mci_piece *pieces,
                              size_t count)
{
    const struct mc_span *buffer = &reading->buffers[i];
    (void)count;
    if (!buffer->data || buffer->len < size ||
        !mci_reading_may_use(reading, buffer->data, buffer->len)) {
        return MC_ERR_INVALID_PARAMS;
    }
    mci_part_set(&pieces[0].part, 0, buffer->data, size);
    return MC_OK;
}

static const struct mci_reading_ops into_buffers = {
    .key = key_at, .aim = aim_buffer, .settle = settle_result};

static enum mc_err read_rows(struct mci_reading *reading, const void *targets,
                             size_t count)
{
    enum mc_err err =
        mci_client_check_rows(reading->keys, reading->results, count);
    if (err == MC_OK && count > 0 && !targets) {
        err = MC_ERR_INVALID_PARAMS;
    }
    if (err == MC_OK) {
        err = mci_read(reading, count);
    }
    return err != MC_OK ? mci_client_refuse(reading->results, count, err)
                        : MC_OK;
}

enum mc_err mc_client_get_into(struct mc_client *client, struct mc_view key,
                               void *buffer, size_t capacity,
                               uint64_t *size_out)
{
    const struct mc_span span = {.data = buffer, .len = capacity};
    int64_t result = 0;
    struct mci_reading reading = {.ops = &into_buffers,
                                  .client = client,
                                  .keys = &key,
                                  .buffers = &span,
                                  .results = &result};
    if (!buffer) {
        return MC_ERR_INVALID_PARAMS;
    }
    enum mc_err err = mci_client_code(mci_read(&reading, 1), &result);
    if (err == MC_OK && size_out) {
        *size_out = (uint64_t)result;
    }
    return err;
}

enum mc_err mc_client_batch_get_into(struct mc_client *client,
                                     const struct mc_view *keys,
                                     const struct mc_span *buffers,
                                     size_t count, int64_t *results_out)
{
    struct mci_reading reading = {.ops = &into_buffers,
                                  .client = client,
                                  .keys = keys,
                                  .buffers = buffers,
                                  .results = results_out};
    return read_rows(&reading, buffers, count);
}

/* ---- into many buffers --------------------------------------------------- */

/* How many spans the object fills, and how much of the last one. */
static enum mc_err measure(const struct mc_spans *list, uint64_t size,
                           size_t *count_out, uint64_t *last_out)
{
    uint64_t left = size;
    for (size_t i = 0; i < list->count; i++) {
        if (left <= list->spans[i].len) {
            *count_out = i + 1;
            *last_out = left;
            return MC_OK;
        }
        left -= list->spans[i].len;
    }
    return MC_ERR_INVALID_PARAMS; /* longer than the spans */
}

static enum mc_err trim(const struct mc_spans *list, size_t count,
                        uint64_t last, struct mci_piece *piece)
{
    struct mc_span *spans = &piece->part.own;
    if (list->spans[count - 1].len == last) {
        piece->part.spans = list->spans;
        return MC_OK;
    }
    if (count > 1) {
        spans = mci_alloc(count * sizeof *spans);
        if (!spans) {
            return MC_ERR_NOMEM;
        }
        piece->trimmed = spans;
    }
    memcpy(spans, list->spans, count * sizeof *spans);
    spans[count - 1].len = last;
    piece->part.spans = spans;
    return MC_OK;
}

static enum mc_err aim_list(struct mci_reading *reading, size_t i,
                            uint64_t size, struct mci_piece *pieces,
                            size_t count)
{
    const struct mc_spans *list = &reading->lists[i];
    size_t span_count = 0;
    uint64_t last = 0;
    const struct mci_using using = {.client = reading->client,
                                    .use = &reading->use};
    (void)count;
    if (!mci_using_list(&using, list)) {
        return MC_ERR_INVALID_PARAMS;
    }
    enum mc_err err = measure(list, size, &span_count, &last);
    if (err == MC_OK) {
        err = trim(list, span_count, last, &pieces[0]);
    }
    pieces[0].part.span_count = (uint32_t)span_count;
    pieces[0].part.len = size;
    return err;
}

static const struct mci_reading_ops into_lists = {
    .key = key_at, .aim = aim_list, .settle = settle_result};

enum mc_err mci_get_into_lists(struct mc_client *client,
                               const struct mc_view *keys,
                               const struct mc_spans *buffers, size_t count,
                               const struct mci_until *until,
                               int64_t *results_out)
{
    struct mci_reading reading = {.ops = &into_lists,
                                  .client = client,
                                  .keys = keys,
                                  .lists = buffers,
                                  .until = *until,
                                  .results = results_out};
    return read_rows(&reading, buffers, count);
}

/* The nearest copy is taken first whatever is preferred. */
enum mc_err mc_client_batch_get_into_multi_buffers(
    struct mc_client *client, const struct mc_view *keys,
    const struct mc_spans *buffers, size_t count, bool prefer_same_node,
    int64_t *results_out)
{
    const struct mci_until until = {.stops = NULL};
    (void)prefer_same_node;
    return mci_get_into_lists(client, keys, buffers, count, &until,
                              results_out);
}

/* ---- into lists that are filled -------------------------------------------- */

static enum mc_err aim_exact(struct mci_reading *reading, size_t i,
                             uint64_t size, struct mci_piece *pieces,
                             size_t count)
{
    const struct mc_spans *list = &reading->lists[i];
    uint64_t room = 0;
    const struct mci_using using = {.client = reading->client,
                                    .use = &reading->use};
    (void)count;
    enum mc_err err = mci_using_sum(&using, list, size, &room);
    if (err != MC_OK || room != size) {
        return MC_ERR_INVALID_PARAMS;
    }
    pieces[0].part.spans = list->spans;
    pieces[0].part.span_count = (uint32_t)list->count;
    pieces[0].part.len = size;
    return MC_OK;
}

static const struct mci_reading_ops into_exact = {
    .key = key_at, .aim = aim_exact, .settle = settle_result};

enum mc_err mci_read_exact(struct mci_reading *reading, size_t count)
{
    reading->ops = &into_exact;
    return read_rows(reading, reading->lists, count);
}

/* ---- into new memory ----------------------------------------------------- */

static void unmake(struct mci_reading *reading, size_t i)
{
    mci_free(reading->made[i].data);
    reading->made[i] = (struct mc_span){.data = NULL};
}

static enum mc_err aim_made(struct mci_reading *reading, size_t i,
                            uint64_t size, struct mci_piece *pieces,
                            size_t count)
{
    (void)count;
    unmake(reading, i); /* it may have been made for another version */
    void *data = mci_alloc(size);
    if (!data) {
        return MC_ERR_NOMEM;
    }
    reading->made[i] = (struct mc_span){.data = data, .len = size};
    mci_part_set(&pieces[0].part, 0, data, size);
    return MC_OK;
}

static void settle_made(struct mci_reading *reading, size_t i,
                        const struct mci_piece *pieces, size_t count)
{
    (void)count;
    reading->results[i] = pieces[0].result;
    if (pieces[0].result < 0) {
        unmake(reading, i);
    }
}

static const struct mci_reading_ops into_made = {
    .key = key_at, .aim = aim_made, .settle = settle_made};

enum mc_err mc_client_get(struct mc_client *client, struct mc_view key,
                          void **data_out, size_t *size_out)
{
    struct mc_span span = {.data = NULL};
    int64_t result = 0;
    struct mci_reading reading = {.ops = &into_made,
                                  .client = client,
                                  .keys = &key,
                                  .made = &span,
                                  .results = &result};
    if (!data_out || !size_out) {
        return MC_ERR_INVALID_PARAMS;
    }
    enum mc_err err = mci_client_code(mci_read(&reading, 1), &result);
    if (err == MC_OK) {
        *data_out = span.data;
        *size_out = span.len;
    }
    return err;
}

enum mc_err mc_client_batch_get(struct mc_client *client,
                                const struct mc_view *keys, size_t count,
                                struct mc_span *spans_out, int64_t *results_out)
{
    struct mci_reading reading = {.ops = &into_made,
                                  .client = client,
                                  .keys = keys,
                                  .made = spans_out,
                                  .results = results_out};
    for (size_t i = 0; i < count && spans_out; i++) {
        spans_out[i] = (struct mc_span){.data = NULL};
    }
    return read_rows(&reading, spans_out, count);
}

void mc_client_free(void *data)
{
    mci_free(data);
}

/* ---- into the local buffer ----------------------------------------------- */

static void give_back(struct mci_reading *reading, size_t i)
{
    mc_client_release_buffer(reading->client, &reading->lent[i]);
}

/* Handles are never 0. */
static enum mc_err aim_lent(struct mci_reading *reading, size_t i,
                            uint64_t size, struct mci_piece *pieces,
                            size_t count)
{
    void *data = NULL;
    uint32_t handle = 0;
    (void)count;
    give_back(reading, i);
    enum mc_err err =
        mci_local_buffer_take(reading->client->buffer, size, &data, &handle);
    if (err != MC_OK) {
        return err;
    }
    reading->lent[i] = (struct mc_buffer){
        .data = data, .len = size, .owner = (void *)(uintptr_t)handle};
    mci_part_set(&pieces[0].part, 0, data, size);
    return MC_OK;
}

static void settle_lent(struct mci_reading *reading, size_t i,
                        const struct mci_piece *pieces, size_t count)
{
    (void)count;
    reading->results[i] = pieces[0].result;
    if (pieces[0].result < 0) {
        give_back(reading, i);
    }
}

static const struct mci_reading_ops into_lent = {
    .key = key_at, .aim = aim_lent, .settle = settle_lent};

enum mc_err mc_client_get_buffer(struct mc_client *client, struct mc_view key,
                                 struct mc_buffer *buffer_out)
{
    struct mc_buffer buffer = {.data = NULL};
    int64_t result = 0;
    struct mci_reading reading = {.ops = &into_lent,
                                  .client = client,
                                  .keys = &key,
                                  .lent = &buffer,
                                  .results = &result};
    if (!buffer_out) {
        return MC_ERR_INVALID_PARAMS;
    }
    enum mc_err err = mci_client_code(mci_read(&reading, 1), &result);
    if (err == MC_OK) {
        *buffer_out = buffer;
    }
    return err;
}

enum mc_err mc_client_batch_get_buffer(struct mc_client *client,
                                       const struct mc_view *keys, size_t count,
                                       struct mc_buffer *buffers_out,
                                       int64_t *results_out)
{
    struct mci_reading reading = {.ops = &into_lent,
                                  .client = client,
                                  .keys = keys,
                                  .lent = buffers_out,
                                  .results = results_out};
    for (size_t i = 0; i < count && buffers_out; i++) {
        buffers_out[i] = (struct mc_buffer){.data = NULL};
    }
    return read_rows(&reading, buffers_out, count);
}

void mc_client_release_buffer(struct mc_client *client,
                              struct mc_buffer *buffer)
{
    if (buffer && buffer->owner) {
        mci_local_buffer_give(client->buffer,
                              (uint32_t)(uintptr_t)buffer->owner);
        *buffer = (struct mc_buffer){.data = NULL};
    }
}
