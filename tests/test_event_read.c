/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <msgpack.h>
#include <stdio.h>
#include <stdlib.h>

#include "event_outcome.h"
#include "mc_event_writer.h"
#include "mci_alloc.h"
#include "mci_bytes.h"
#include "suite.h"
#include "vectors.h"

#define VIEWS 128
static struct mc_event events[MC_EVENT_COUNT_MAX];
static const uint8_t seq_bytes[8] = {0, 0, 0, 0, 0, 0, 0, 9};

static enum mc_event_error read_payload(const void *payload, size_t len,
                                        size_t capacity,
                                        struct mc_event_fault *fault_out)
{
    struct mc_event_batch batch;
    struct mc_view frames[3] = {mc_view_make("", 0), mc_view_make(seq_bytes, 8),
                                mc_view_make(payload, len)};
    return mc_event_read(frames, 3, events, capacity, &batch, fault_out);
}

/* Golden rows */

static void check_text(json_object *expect, const char *field,
                       struct mc_view text, const char *row)
{
    json_object *value = json_object_object_get(expect, field);
    if (!value) {
        ck_assert_msg(!text.data, "%s: %s is not none", row, field);
        return;
    }
    struct mc_view expected =
        mc_view_make(json_object_get_string(value),
                     (size_t)json_object_get_string_len(value));
    ck_assert_msg(mc_view_equal(text, expected), "%s: %s", row, field);
}

static void check_event(json_object *expect, const struct mc_event *event,
                        const char *row)
{
    char epoch[17];
    const char *error = vector_string(expect, "error");
    if (error) {
        ck_assert_msg(strcmp(mc_event_error_name(event->error), error) == 0,
                      "%s: %s and not %s", row,
                      mc_event_error_name(event->error), error);
        ck_assert_int_eq(event->type, MC_EVENT_NONE);
        return;
    }
    ck_assert_msg(event->error == MC_EVENT_OK, "%s: %s", row,
                  mc_event_error_name(event->error));
    ck_assert_uint_eq(event->event_id, vector_number(expect, "event_id"));
    ck_assert_str_eq(mc_event_type_name(event->type),
                     vector_string(expect, "event_type"));
    check_text(expect, "tenant_id", event->tenant_id, row);
    check_text(expect, "backend_id", event->backend_id, row);
    check_text(expect, "medium", event->medium, row);
    check_text(expect, "group_id", event->group_id, row);
    check_text(expect, "session_id", event->session_id, row);
    check_text(expect, "object_key", event->object_key, row);
    (void)snprintf(epoch, sizeof epoch, "%016" PRIx64, event->epoch);
    const char *expected = vector_string(expect, "epoch");
    ck_assert_msg(strcmp(epoch, expected ? expected : "0000000000000000") == 0,
                  "%s: epoch %s", row, epoch);
}

static void check_events(json_object *expect,
                         const struct mc_event_batch *batch, const char *row)
{
    json_object *rows = json_object_object_get(expect, "events");
    ck_assert_uint_eq(batch->seq, vector_number(expect, "seq"));
    ck_assert_uint_eq(batch->timestamp_ms,
                      vector_number(expect, "timestamp_ms"));
    ck_assert_uint_eq(batch->dp_rank, vector_number(expect, "dp_rank"));
    ck_assert_uint_eq(batch->count, json_object_array_length(rows));
    for (uint32_t i = 0; i < batch->count; i++) {
        check_event(json_object_array_get_idx(rows, i), &events[i], row);
    }
}

static void check_fault(json_object *expect, const struct mc_event_fault *fault,
                        const char *row)
{
    json_object *seq = json_object_object_get(expect, "seq");
    ck_assert_msg(strcmp(mc_event_error_name(fault->error),
                         vector_string(expect, "error")) == 0,
                  "%s: %s", row, mc_event_error_name(fault->error));
    ck_assert_msg(fault->has_seq == (seq != NULL), "%s: seq", row);
    ck_assert_uint_eq(fault->seq, json_object_get_uint64(seq));
}

static void check_rows(const char *file)
{
    json_object *rows = vectors_load(file);
    ck_assert_uint_gt(json_object_array_length(rows), 50);
    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        json_object *row = json_object_array_get_idx(rows, i);
        json_object *expect = json_object_object_get(row, "expect");
        const char *name = vector_string(row, "name");
        struct vector_frames message;
        struct mc_event_batch batch;
        struct mc_event_fault fault;
        vector_frames_make(row, &message);
        if (mc_event_read(message.frames, message.count, events,
                          MC_EVENT_COUNT_MAX, &batch, &fault) == MC_EVENT_OK) {
            ck_assert_msg(!vector_string(expect, "error"), "%s: read", name);
            check_events(expect, &batch, name);
        } else {
            ck_assert_msg(vector_string(expect, "error") != NULL, "%s: %s",
                          name, mc_event_error_name(fault.error));
            check_fault(expect, &fault, name);
        }
        vector_frames_free(&message);
    }
    json_object_put(rows);
}

START_TEST(every_golden_row_reads_as_it_says)
{
    check_rows("decode.json");
    check_rows("decode-more.json");
}
END_TEST

START_TEST(the_copies_are_the_rows_of_the_shared_folder)
{
    static const char *const names[] = {"decode.json", "decode-more.json",
                                        "encode.json"};
    for (size_t i = 0; i < 3; i++) {
        char *ours = vectors_text(MC_TEST_DATA "/vectors", names[i]);
        char *shared = vectors_text(MC_SHARED_VECTORS, names[i]);
        ck_assert_ptr_nonnull(ours);
        ck_assert_msg(!shared || strcmp(ours, shared) == 0, "%s", names[i]);
        free(ours);
        free(shared);
    }
}
END_TEST

/* Bounds */

/* [1, [event], 0] with an unknown field that fills the payload to len bytes. */
static uint8_t *make_payload_of(size_t len)
{
    static const char head[] = "\x93\x01\x91\x85"
                               "\xa8"
                               "event_id\x01"
                               "\xaa"
                               "event_type\xa7"
                               "cleared"
                               "\xa9tenant_id\xa1t"
                               "\xaa"
                               "backend_id\xa1n"
                               "\xa3pad\xc6";
    size_t begin = sizeof head - 1;
    uint8_t *payload = calloc(1, len);
    ck_assert_ptr_nonnull(payload);
    memcpy(payload, head, begin);
    mci_put_be32(payload + begin, (uint32_t)(len - begin - 4 - 1));
    return payload;
}

START_TEST(a_payload_of_16_mib_is_read_and_one_byte_more_is_not)
{
    struct mc_event_fault fault;
    uint8_t *payload = make_payload_of(MC_EVENT_PAYLOAD_MAX);
    ck_assert_int_eq(read_payload(payload, MC_EVENT_PAYLOAD_MAX, VIEWS, &fault),
                     MC_EVENT_OK);
    ck_assert_int_eq(events[0].type, MC_EVENT_CLEARED);
    free(payload);

    payload = make_payload_of(MC_EVENT_PAYLOAD_MAX + 1);
    ck_assert_int_eq(
        read_payload(payload, MC_EVENT_PAYLOAD_MAX + 1, VIEWS, &fault),
        MC_EVENT_ERROR_PAYLOAD_TOO_LARGE);
    ck_assert_uint_eq(fault.offset, 0);
    ck_assert_int_eq(fault.has_seq, 1);
    ck_assert_uint_eq(fault.seq, 9);
    free(payload);
}
END_TEST

/* [1, [nil, nil, ...], 0] */
static uint8_t *make_payload_of_nils(uint32_t count, size_t *len_out)
{
    *len_out = 2 + 5 + count + 1;
    uint8_t *payload = malloc(*len_out);
    ck_assert_ptr_nonnull(payload);
    payload[0] = 0x93;
    payload[1] = 1;
    payload[2] = 0xdd;
    mci_put_be32(payload + 3, count);
    memset(payload + 7, 0xc0, count);
    payload[*len_out - 1] = 0;
    return payload;
}

START_TEST(more_events_than_views_lent_are_refused_at_their_header)
{
    struct mc_event_fault fault;
    size_t len;
    uint8_t *payload = make_payload_of_nils(MC_EVENT_COUNT_MAX, &len);
    memset(events, 0xa5, sizeof events);
    ck_assert_int_eq(read_payload(payload, len, 64, &fault),
                     MC_EVENT_ERROR_EVENTS_COUNT);
    ck_assert_uint_eq(fault.offset, 2);
    /* Not a byte was written behind what was lent. */
    ck_assert_uint_eq(((const uint8_t *)&events[64])[0], 0xa5);
    free(payload);

    payload = make_payload_of_nils(64, &len);
    ck_assert_int_eq(read_payload(payload, len, 64, NULL), MC_EVENT_OK);
    ck_assert_int_eq(events[63].error, MC_EVENT_ERROR_EVENT_TYPE_FORM);
    ck_assert_uint_eq(events[63].error_offset, 7 + 63);
    ck_assert_int_eq(read_payload(payload, len, 63, NULL),
                     MC_EVENT_ERROR_EVENTS_COUNT);
    free(payload);
}
END_TEST

START_TEST(as_many_events_as_a_message_may_hold_are_read)
{
    size_t len;
    struct mc_event_batch batch;
    uint8_t *payload = make_payload_of_nils(MC_EVENT_COUNT_MAX, &len);
    struct mc_event *views = malloc(MC_EVENT_COUNT_MAX * sizeof *views);
    struct mc_view frames[3] = {mc_view_make("", 0), mc_view_make(seq_bytes, 8),
                                mc_view_make(payload, len)};
    ck_assert_ptr_nonnull(views);
    ck_assert_int_eq(
        mc_event_read(frames, 3, views, MC_EVENT_COUNT_MAX, &batch, NULL),
        MC_EVENT_OK);
    ck_assert_uint_eq(batch.count, MC_EVENT_COUNT_MAX);
    ck_assert_uint_eq(batch.refused, MC_EVENT_COUNT_MAX);
    free(views);
    free(payload);
}
END_TEST

START_TEST(headers_that_lie_cost_no_memory_and_no_time)
{
    static const struct {
        const char *bytes;
        size_t len;
        enum mc_event_error error;
        uint32_t offset;
    } rows[] = {
        {"\xdd\xff\xff\xff\xff", 5, MC_EVENT_ERROR_BATCH_ARITY, 0},
        {"\x93\x01\xdd\xff\xff\xff\xff", 7, MC_EVENT_ERROR_EVENTS_COUNT, 2},
        {"\x93\x01\xdc\x00\x40\xc0\x00", 7, MC_EVENT_ERROR_PAYLOAD_TRUNCATED,
         7},
        {"\x93\x01\x91\xdf\xff\xff\xff\xff\x00", 9,
         MC_EVENT_ERROR_PAYLOAD_TRUNCATED, 9},
        {"\x93\x01\x91\xdb\xff\xff\xff\xff\x00", 9,
         MC_EVENT_ERROR_PAYLOAD_TRUNCATED, 9},
        {"\x93\x01\x91\x81\xa1x\xdd\xff\xff\xff\xff\x00", 12,
         MC_EVENT_ERROR_PAYLOAD_TRUNCATED, 12},
        {"\x93\x01\x91\x81\xaaseq_hashes\xdd\xff\xff\xff\xff\x00", 21,
         MC_EVENT_ERROR_PAYLOAD_TRUNCATED, 21},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mc_event_fault fault = {0};
        uint64_t before = mci_alloc_thread_calls();
        ck_assert_int_eq(
            read_payload(rows[i].bytes, rows[i].len, VIEWS, &fault),
            rows[i].error);
        ck_assert_uint_eq(fault.offset, rows[i].offset);
        ck_assert_uint_eq(mci_alloc_thread_calls(), before);
    }
}
END_TEST

START_TEST(a_fault_leaves_the_batch_alone)
{
    struct mc_event_batch batch = {1, 2, 3, 4, 5};
    struct mc_view frames[3] = {mc_view_make("", 0), mc_view_make(seq_bytes, 8),
                                mc_view_make("\x93\x01\x90", 3)};
    ck_assert_int_eq(mc_event_read(frames, 3, events, VIEWS, &batch, NULL),
                     MC_EVENT_ERROR_PAYLOAD_TRUNCATED);
    ck_assert_uint_eq(batch.seq, 1);
    ck_assert_uint_eq(batch.timestamp_ms, 2);
    ck_assert_uint_eq(batch.dp_rank, 3);
    ck_assert_uint_eq(batch.count, 4);
    ck_assert_uint_eq(batch.refused, 5);
    /* A frame without bytes may come as NULL. */
    frames[2] = mc_view_make(NULL, 0);
    ck_assert_int_eq(mc_event_read(frames, 3, events, VIEWS, &batch, NULL),
                     MC_EVENT_ERROR_PAYLOAD_TRUNCATED);
}
END_TEST

START_TEST(every_error_has_a_name_of_its_own)
{
    for (int i = 0; i < MC_EVENT_ERROR_COUNT_; i++) {
        const char *name = mc_event_error_name((enum mc_event_error)i);
        ck_assert_str_ne(name, "unknown");
        for (int k = 0; k < i; k++) {
            ck_assert_str_ne(name, mc_event_error_name((enum mc_event_error)k));
        }
    }
    ck_assert_str_eq(mc_event_error_name(MC_EVENT_ERROR_COUNT_), "unknown");
    ck_assert_str_eq(mc_event_type_name(MC_EVENT_NONE), "none");
    ck_assert_str_eq(mc_event_type_name(MC_EVENT_CLEARED), "cleared");
}
END_TEST

/* Likeness to earlier events */

#define LIKE_EVENTS 12

/* A batch as the publisher makes it: upserts on two media, untagged keys,
 * another tenant, a clear. */
static size_t make_batch(uint8_t *buffer, size_t capacity)
{
    static const char *const sessions[] = {"agent-7", NULL, "\xc3\xa9t\xc3\xa9",
                                           "s"};
    static const char *const tenants[] = {"default", "default", "tenant-b"};
    struct mc_event_writer_opts opts = {.epoch = 77};
    struct mc_event_record records[LIKE_EVENTS] = {0};
    struct mc_event_writer *writer = NULL;
    char keys[LIKE_EVENTS][80];
    size_t len = 0;
    ck_assert_int_eq(mc_event_writer_create(&opts, &writer), MC_OK);
    for (unsigned i = 0; i < LIKE_EVENTS; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "%064x__k", i * 2654435761u);
        records[i].type = i == 7           ? MC_EVENT_CLEARED
                          : i / 2 % 2 == 0 ? MC_EVENT_REMOVED
                                           : MC_EVENT_STORED;
        records[i].event_id = (uint64_t)1 << (5 * i);
        records[i].timestamp_ms = UINT64_C(1739145600000) + i;
        records[i].tenant_id = mc_view_str(tenants[i / 4]);
        records[i].backend_id = mc_view_str("node-1");
        records[i].medium = mc_view_str(i % 2 ? "disk" : "cpu");
        records[i].group_id = mc_view_str(i % 3 ? "g" : NULL);
        records[i].session_id = mc_view_str(sessions[i % 4]);
        records[i].object_key = mc_view_str(keys[i]);
    }
    ck_assert_int_eq(mc_event_writer_batch(writer, 1739145600000, records,
                                           LIKE_EVENTS, buffer, capacity, &len),
                     MC_OK);
    mc_event_writer_destroy(writer);
    return len;
}

/* event_outcome reads each message in both ways and compares. */
START_TEST(likeness_to_an_earlier_event_changes_no_outcome)
{
    static uint8_t good[16384];
    static uint8_t bad[16384];
    struct mci_buf line;
    uint64_t random = 11;
    size_t len = make_batch(good, sizeof good);
    mci_buf_init(&line, 1 << 20);
    for (int i = 0; i < 30000; i++) {
        memcpy(bad, good, len);
        for (uint64_t n = vector_random(&random, 3); n > 0; n--) {
            bad[vector_random(&random, len)] =
                (uint8_t)vector_random(&random, 256);
        }
        event_outcome_of(bad, len, &line);
    }
    for (size_t cut = 0; cut < len; cut++) {
        event_outcome_of(good, cut, &line);
    }
    event_outcome_of(good, len, &line);
    ck_assert_uint_eq(line.data[line.len - 1] != 0, 1);
    mci_buf_fini(&line);
}
END_TEST

START_TEST(views_point_into_the_bytes_of_their_own_event)
{
    static uint8_t payload[16384];
    size_t len = make_batch(payload, sizeof payload);
    const uint8_t *last = payload;
    ck_assert_int_eq(read_payload(payload, len, VIEWS, NULL), MC_EVENT_OK);
    for (unsigned i = 0; i < LIKE_EVENTS; i++) {
        const uint8_t *tenant = events[i].tenant_id.data;
        const uint8_t *backend = events[i].backend_id.data;
        ck_assert(tenant > last);
        ck_assert(backend > tenant);
        last = backend;
    }
    ck_assert(last < payload + len);
}
END_TEST

/* Second opinion */

static void agree_with_msgpack(struct mc_view payload, const char *row)
{
    msgpack_unpacked result;
    size_t offset = 0;
    msgpack_unpacked_init(&result);
    ck_assert_msg(msgpack_unpack_next(&result, payload.data, payload.len,
                                      &offset) == MSGPACK_UNPACK_SUCCESS,
                  "%s: msgpack-c refuses it", row);
    ck_assert_uint_eq(offset, payload.len);
    ck_assert_int_eq(result.data.type, MSGPACK_OBJECT_ARRAY);
    ck_assert_uint_eq(result.data.via.array.size, 3);
    ck_assert_uint_eq(result.data.via.array.ptr[1].type, MSGPACK_OBJECT_ARRAY);
    msgpack_unpacked_destroy(&result);
}

START_TEST(what_is_accepted_is_well_formed_to_msgpack_c_too)
{
    json_object *rows = vectors_load("decode.json");
    uint64_t random = 5;
    int accepted = 0;
    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        json_object *row = json_object_array_get_idx(rows, i);
        struct vector_frames message;
        vector_frames_make(row, &message);
        for (int k = 0; k < 200 && message.count == 3; k++) {
            struct mc_view payload = message.frames[2];
            uint8_t *bytes = (uint8_t *)(uintptr_t)payload.data;
            size_t at = payload.len ? vector_random(&random, payload.len) : 0;
            uint8_t kept = payload.len ? bytes[at] : 0;
            if (payload.len && k > 0) {
                bytes[at] = (uint8_t)vector_random(&random, 256);
            }
            if (read_payload(payload.data, payload.len, VIEWS, NULL) ==
                MC_EVENT_OK) {
                agree_with_msgpack(payload, vector_string(row, "name"));
                accepted++;
            }
            if (payload.len) {
                bytes[at] = kept;
            }
        }
        vector_frames_free(&message);
    }
    ck_assert_int_gt(accepted, 1000);
    json_object_put(rows);
}
END_TEST

START_TEST(reading_allocates_nothing)
{
    static uint8_t payload[16384];
    size_t len = make_batch(payload, sizeof payload);
    struct mc_event_fault fault;
    uint64_t before = mci_alloc_thread_calls();
    for (size_t cut = 0; cut <= len; cut++) {
        (void)read_payload(payload, cut, VIEWS, &fault);
    }
    ck_assert_uint_eq(mci_alloc_thread_calls(), before);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("event_read");
    TCase *rows = tcase_create("rows");
    tcase_add_test(rows, every_golden_row_reads_as_it_says);
    tcase_add_test(rows, the_copies_are_the_rows_of_the_shared_folder);
    suite_add_tcase(suite, rows);
    TCase *bounds = tcase_create("bounds");
    tcase_add_test(bounds,
                   a_payload_of_16_mib_is_read_and_one_byte_more_is_not);
    tcase_add_test(bounds,
                   more_events_than_views_lent_are_refused_at_their_header);
    tcase_add_test(bounds, as_many_events_as_a_message_may_hold_are_read);
    tcase_add_test(bounds, headers_that_lie_cost_no_memory_and_no_time);
    tcase_add_test(bounds, a_fault_leaves_the_batch_alone);
    tcase_add_test(bounds, every_error_has_a_name_of_its_own);
    tcase_add_test(bounds, reading_allocates_nothing);
    suite_add_tcase(suite, bounds);
    TCase *opinions = tcase_create("opinions");
    tcase_set_timeout(opinions, 300);
    tcase_add_test(opinions, likeness_to_an_earlier_event_changes_no_outcome);
    tcase_add_test(opinions, views_point_into_the_bytes_of_their_own_event);
    tcase_add_test(opinions, what_is_accepted_is_well_formed_to_msgpack_c_too);
    suite_add_tcase(suite, opinions);
    return suite_run(suite);
}
