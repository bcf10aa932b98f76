/* SPDX-License-Identifier: Apache-2.0 */
#include "batcher.h"

#include <assert.h>

#define MS_OF_2025 UINT64_C(1735689600000) /* 2025-01-01 in unix time */

void mci_batcher_init(struct mci_batcher *batcher,
                      const struct mci_batcher_opts *opts, uint64_t now_ns)
{
    *batcher = (struct mci_batcher){
        .opts = *opts, .last_seq = opts->base_seq, .silent_since_ns = now_ns};
    if (opts->max_bytes == 0 || opts->max_bytes > MC_BATCH_BYTES_MAX) {
        batcher->opts.max_bytes = MC_BATCH_BYTES_MAX;
    }
    for (unsigned medium = 1; medium < MCI_BATCHER_MEDIA; medium++) {
        batcher->media[medium] = mc_view_str(mc_medium_name(medium));
    }
}

uint64_t mci_batcher_epoch_base(uint64_t wall_ms)
{
    if (wall_ms < MS_OF_2025) {
        return 0;
    }
    return ((wall_ms - MS_OF_2025) / 1000) << 32;
}

void mci_batcher_load(struct mci_batcher *batcher,
                      const struct mci_log_taken *taken)
{
    assert(taken->count <= MC_BATCH_EVENTS_MAX);
    batcher->taken = taken;
    batcher->next = 0;
}

static bool is_suppressed(const struct mci_batcher *batcher,
                          const struct mci_log_record *record)
{
    return batcher->opts.skips_keyed && record->type != MC_EVENT_CLEARED;
}

static void skip_suppressed(struct mci_batcher *batcher)
{
    const struct mci_log_taken *taken = batcher->taken;
    while (batcher->next < taken->count &&
           is_suppressed(batcher, &taken->records[batcher->next])) {
        batcher->burnt += taken->records[batcher->next].lost_before + 1;
        batcher->skipped++;
        batcher->next++;
    }
}

static void fill_record(const struct mci_batcher *batcher,
                        const struct mci_log_record *from,
                        struct mc_event_record *to)
{
    to->type = from->type;
    to->event_id = from->id;
    to->tenant_id = from->tenant_id;
    to->backend_id = batcher->opts.backend_id;
    to->medium = batcher->media[from->medium];
    to->group_id = from->group_id;
    to->session_id = from->session_id;
    to->object_key = from->object_key;
}

/* Adds the next group behind `count` records; answers its number of records, 0
 * if it belongs into another batch. *bytes grows by the group's bound. */
static uint32_t add_group(struct mci_batcher *batcher, uint32_t count,
                          size_t *bytes)
{
    const struct mci_log_record *record =
        &batcher->taken->records[batcher->next];
    const uint32_t left = batcher->taken->count - batcher->next;
    size_t sum = *bytes;
    uint32_t size = 0;
    if (count > 0 &&
        (record->lost_before > 0 || is_suppressed(batcher, record))) {
        return 0;
    }
    do {
        struct mc_event_record *to = &batcher->records[count + size];
        fill_record(batcher, &record[size], to);
        sum += mc_event_writer_bound(batcher->opts.writer, to);
        size++;
    } while (record[size - 1].group_continues && size < left);
    if (count > 0 && sum > batcher->opts.max_bytes) {
        return 0;
    }
    *bytes = sum;
    batcher->next += size;
    return size;
}

static void take_seq(struct mci_batcher *batcher, uint64_t timestamp_ms,
                     uint32_t count, struct mci_batch *batch_out)
{
    batcher->last_seq += batcher->burnt + 1;
    batcher->burnt = 0;
    for (uint32_t i = 0; i < count; i++) {
        batcher->records[i].timestamp_ms = timestamp_ms;
    }
    *batch_out = (struct mci_batch){.seq = batcher->last_seq,
                                    .timestamp_ms = timestamp_ms,
                                    .records = batcher->records,
                                    .count = count};
}

bool mci_batcher_next(struct mci_batcher *batcher, uint64_t timestamp_ms,
                      struct mci_batch *batch_out)
{
    size_t bytes = MC_EVENT_WRITER_BATCH_BOUND;
    uint32_t count = 0;
    skip_suppressed(batcher);
    if (batcher->next == batcher->taken->count) {
        return false;
    }
    batcher->burnt += batcher->taken->records[batcher->next].lost_before;
    while (batcher->next < batcher->taken->count) {
        uint32_t size = add_group(batcher, count, &bytes);
        if (size == 0) {
            break;
        }
        count += size;
    }
    assert(count > 0);
    take_seq(batcher, timestamp_ms, count, batch_out);
    return true;
}

uint64_t mci_batcher_heartbeat_at(const struct mci_batcher *batcher)
{
    uint64_t at_ns;
    if (batcher->opts.heartbeat_ns == 0 ||
        __builtin_add_overflow(batcher->silent_since_ns,
                               batcher->opts.heartbeat_ns, &at_ns)) {
        return UINT64_MAX;
    }
    return at_ns;
}

void mci_batcher_heartbeat(struct mci_batcher *batcher, uint64_t timestamp_ms,
                           struct mci_batch *batch_out)
{
    take_seq(batcher, timestamp_ms, 0, batch_out);
}

void mci_batcher_sent(struct mci_batcher *batcher, uint64_t now_ns)
{
    batcher->silent_since_ns = now_ns;
}
