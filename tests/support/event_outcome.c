/* SPDX-License-Identifier: Apache-2.0 */
#include "event_outcome.h"

#include <check.h>
#include <inttypes.h>
#include <stdlib.h>

#include "mci_event_read.h"
#include "vectors.h"

struct reading {
    enum mc_event_error error;
    struct mc_event_batch batch;
    struct mc_event_fault fault;
    struct mc_event *events;
};

static void reading_init(struct reading *reading)
{
    memset(reading, 0, sizeof *reading);
    /* What is not filled must not matter. */
    reading->events = malloc(MC_EVENT_COUNT_MAX * sizeof *reading->events);
    ck_assert_ptr_nonnull(reading->events);
}

static void say(struct mci_buf *line, const char *text)
{
    ck_assert_int_eq(mci_buf_append(line, text, strlen(text)), MC_OK);
}

static void say_text(struct mci_buf *line, struct mc_view text)
{
    if (!text.data) {
        say(line, " -");
        return;
    }
    ck_assert_int_eq(mci_buf_printf(line, " %zu:%08" PRIx32, text.len,
                                    vector_crc(0, text.data, text.len)),
                     MC_OK);
}

static void say_event(struct mci_buf *line, const struct mc_event *event)
{
    if (event->error != MC_EVENT_OK) {
        ck_assert_int_eq(event->type, MC_EVENT_NONE);
        ck_assert_int_eq(mci_buf_printf(line, ";%s@%" PRIu32,
                                        mc_event_error_name(event->error),
                                        event->error_offset),
                         MC_OK);
        return;
    }
    ck_assert_int_eq(mci_buf_printf(line, ";%s %" PRIu64 " %016" PRIx64,
                                    mc_event_type_name(event->type),
                                    event->event_id, event->epoch),
                     MC_OK);
    say_text(line, event->tenant_id);
    say_text(line, event->backend_id);
    say_text(line, event->medium);
    say_text(line, event->group_id);
    say_text(line, event->session_id);
    say_text(line, event->object_key);
}

static void say_reading(struct mci_buf *line, const struct reading *reading)
{
    const struct mc_event_batch *batch = &reading->batch;
    if (reading->error != MC_EVENT_OK) {
        ck_assert_int_eq(mci_buf_printf(line, "%s@%" PRIu32,
                                        mc_event_error_name(reading->error),
                                        reading->fault.offset),
                         MC_OK);
        return;
    }
    ck_assert_int_eq(mci_buf_printf(line, "%" PRIu64 " %" PRIu32,
                                    batch->timestamp_ms, batch->dp_rank),
                     MC_OK);
    uint32_t refused = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        ck_assert_uint_eq(reading->events[i].index, i);
        refused += reading->events[i].error != MC_EVENT_OK;
        say_event(line, &reading->events[i]);
    }
    ck_assert_uint_eq(refused, batch->refused);
}

static void compare(const struct reading *a, const struct reading *b)
{
    ck_assert_int_eq(a->error, b->error);
    ck_assert_uint_eq(a->fault.offset, b->fault.offset);
    ck_assert_int_eq(a->fault.error, b->fault.error);
    ck_assert_int_eq(a->fault.has_seq, b->fault.has_seq);
    ck_assert_uint_eq(a->fault.seq, b->fault.seq);
    ck_assert_uint_eq(a->batch.seq, b->batch.seq);
    ck_assert_uint_eq(a->batch.timestamp_ms, b->batch.timestamp_ms);
    ck_assert_uint_eq(a->batch.dp_rank, b->batch.dp_rank);
    ck_assert_uint_eq(a->batch.refused, b->batch.refused);
    ck_assert_uint_eq(a->batch.count, b->batch.count);
    size_t len = a->batch.count * sizeof a->events[0];
    ck_assert_int_eq(memcmp(a->events, b->events, len), 0);
}

void event_outcome(const struct mc_view *frames, size_t count,
                   struct mci_buf *line_out)
{
    static struct reading quick;
    static struct reading full;
    if (!quick.events) {
        reading_init(&quick);
        reading_init(&full);
    }
    memset(&quick.batch, 0, sizeof quick.batch);
    memset(&full.batch, 0, sizeof full.batch);
    memset(&quick.fault, 0, sizeof quick.fault);
    memset(&full.fault, 0, sizeof full.fault);
    quick.error = mc_event_read(frames, count, quick.events, MC_EVENT_COUNT_MAX,
                                &quick.batch, &quick.fault);
    full.error =
        mci_event_read_in_full(frames, count, full.events, MC_EVENT_COUNT_MAX,
                               &full.batch, &full.fault);
    compare(&quick, &full);
    mci_buf_clear(line_out);
    say_reading(line_out, &quick);
}

void event_outcome_of(const void *payload, size_t len, struct mci_buf *line_out)
{
    static const uint8_t seq[8] = {0, 0, 0, 0, 0, 0, 0, 1};
    uint8_t *copy = malloc(len ? len : 1);
    ck_assert_ptr_nonnull(copy);
    if (len != 0) {
        memcpy(copy, payload, len);
    }
    struct mc_view frames[3] = {mc_view_make("", 0), mc_view_make(seq, 8),
                                mc_view_make(copy, len)};
    event_outcome(frames, 3, line_out);
    free(copy);
}
