/* SPDX-License-Identifier: Apache-2.0 */
/* client_ranges.c - pieces of objects into one buffer. */
#include "client_read.h"

static struct mc_view key_at(const struct mci_reading *reading, size_t i)
{
    return reading->ranges[i].key;
}

static size_t count_at(const struct mci_reading *reading, size_t i)
{
    return reading->ranges[i].count;
}

static void refuse(struct mci_piece *piece, int64_t result)
{
    piece->is_done = true;
    piece->result = result;
}

static enum mc_err aim_ranges(struct mci_reading *reading, size_t i,
                              uint64_t size, struct mci_piece *pieces,
                              size_t count)
{
    for (size_t k = 0; k < count; k++) {
        const struct mc_range *range = &reading->ranges[i].ranges[k];
        struct mci_piece *piece = &pieces[k];
        if (!mci_is_within(range->from, range->len, size) ||
            !mci_is_within(range->to, range->len, reading->capacity)) {
            refuse(piece, MC_ERR_INVALID_PARAMS);
            continue;
        }
        if (range->len == 0) {
            refuse(piece, 0);
            continue;
        }
        mci_part_set(&piece->part, range->from,
                     (uint8_t *)reading->buffer + range->to, range->len);
    }
    return MC_OK;
}

static void settle_ranges(struct mci_reading *reading, size_t i,
                          const struct mci_piece *pieces, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        reading->ranges[i].results[k] = pieces[k].result;
    }
}

static const struct mci_reading_ops into_ranges = {.key = key_at,
                                                   .piece_count = count_at,
                                                   .aim = aim_ranges,
                                                   .settle = settle_ranges};

static enum mc_err check_rows(struct mci_reading *reading, size_t count)
{
    if (count > MC_ROWS_MAX || (count > 0 && !reading->ranges)) {
        return MC_ERR_INVALID_PARAMS;
    }
    for (size_t i = 0; i < count; i++) {
        const struct mc_range_row *row = &reading->ranges[i];
        if (row->count > 0 && (!row->ranges || !row->results)) {
            return MC_ERR_INVALID_PARAMS;
        }
    }
    bool may_use =
        reading->buffer && reading->capacity > 0 &&
        mci_reading_may_use(reading, reading->buffer, reading->capacity);
    return may_use || count == 0 ? MC_OK : MC_ERR_INVALID_PARAMS;
}

static enum mc_err refuse_all(const struct mc_range_row *rows, size_t count,
                              enum mc_err err)
{
    for (size_t i = 0; rows && i < count; i++) {
        (void)mci_client_refuse(rows[i].results, rows[i].count, err);
    }
    return err;
}

enum mc_err mc_client_get_into_ranges(struct mc_client *client, void *buffer,
                                      size_t capacity,
                                      const struct mc_range_row *rows,
                                      size_t count)
{
    struct mci_reading reading = {.ops = &into_ranges,
                                  .client = client,
                                  .ranges = rows,
                                  .buffer = buffer,
                                  .capacity = capacity};
    enum mc_err err = check_rows(&reading, count);
    if (err == MC_OK) {
        err = mci_read(&reading, count);
    }
    mci_memory_release(&client->memory, &reading.use);
    return err == MC_OK ? MC_OK : refuse_all(rows, count, err);
}
