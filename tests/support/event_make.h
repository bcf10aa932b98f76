/* SPDX-License-Identifier: Apache-2.0 */
/* event_make.h - writers, records and payloads of single events for tests. */
#ifndef EVENT_MAKE_H
#define EVENT_MAKE_H
#include <check.h>

#include "mc_event_writer.h"

#define TIMESTAMP_MS UINT64_C(1739145600000)
#define EPOCH UINT64_C(0x0123456789abcdef)

static const uint8_t seq_bytes[8] = {0, 0, 0, 0, 0, 0, 0, 1};
static uint8_t buffer[MC_BATCH_BYTES_MAX];

static inline struct mc_event_writer *
make_writer(const struct mc_event_writer_opts *opts)
{
    struct mc_event_writer *writer = NULL;
    ck_assert_int_eq(mc_event_writer_create(opts, &writer), MC_OK);
    return writer;
}

static inline struct mc_event_record make_record(enum mc_event_type type,
                                                 const char *key)
{
    struct mc_event_record record = {0};
    record.type = type;
    record.event_id = 1;
    record.timestamp_ms = TIMESTAMP_MS;
    record.tenant_id = mc_view_str("default");
    record.backend_id = mc_view_str("n1");
    if (type != MC_EVENT_CLEARED) {
        record.medium = mc_view_str("cpu");
        record.object_key = mc_view_str(key);
    }
    return record;
}

static inline struct mc_view write_one(const struct mc_event_writer_opts *opts,
                                       const struct mc_event_record *record)
{
    struct mc_event_writer *writer = make_writer(opts);
    size_t len = 0;
    ck_assert_int_eq(mc_event_writer_batch(writer, TIMESTAMP_MS, record, 1,
                                           buffer, sizeof buffer, &len),
                     MC_OK);
    mc_event_writer_destroy(writer);
    return mc_view_make(buffer, len);
}

/* One event, and a good one. */
static inline void check_reads(struct mc_view payload)
{
    struct mc_event event;
    struct mc_event_batch batch;
    struct mc_view frames[3] = {mc_view_make("", 0), mc_view_make(seq_bytes, 8),
                                payload};
    ck_assert_int_eq(mc_event_read(frames, 3, &event, 1, &batch, NULL),
                     MC_EVENT_OK);
    ck_assert_int_eq(event.error, MC_EVENT_OK);
}

#endif
