/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "alloc_fail.h"
#include "event_make.h"
#include "suite.h"
#include "vectors.h"

#define EVENTS 64

/* Golden rows */

static struct mc_view text_of(json_object *event, const char *name)
{
    json_object *value = json_object_object_get(event, name);
    return mc_view_make(json_object_get_string(value),
                        (size_t)json_object_get_string_len(value));
}

static enum mc_event_type type_of(const char *name)
{
    return strcmp(name, "stored") == 0    ? MC_EVENT_STORED
           : strcmp(name, "removed") == 0 ? MC_EVENT_REMOVED
                                          : MC_EVENT_CLEARED;
}

static struct mc_event_record record_of(json_object *event)
{
    struct mc_event_record record = {0};
    record.type = type_of(vector_string(event, "event_type"));
    record.event_id = vector_number(event, "event_id");
    record.timestamp_ms = vector_number(event, "timestamp");
    record.tenant_id = text_of(event, "tenant_id");
    record.backend_id = text_of(event, "backend_id");
    record.medium = text_of(event, "medium");
    record.group_id = text_of(event, "group_id");
    record.session_id = text_of(event, "session_id");
    record.object_key = text_of(event, "object_key");
    return record;
}

/* The settings stand in the events of the row. */
static struct mc_event_writer_opts opts_of(json_object *row)
{
    struct mc_event_writer_opts opts = {.epoch = EPOCH};
    json_object *events = json_object_object_get(row, "events");
    opts.plain = strcmp(vector_string(row, "profile"), "plain") == 0;
    opts.dp_rank = (uint32_t)vector_number(row, "dp_rank");
    if (json_object_array_length(events) != 0) {
        json_object *event = json_object_array_get_idx(events, 0);
        opts.model_name = text_of(event, "model_name");
        opts.block_size = (uint32_t)vector_number(event, "block_size");
    }
    return opts;
}

static void check_row(json_object *row)
{
    struct mc_event_record records[EVENTS];
    struct vector_frames message;
    size_t len = 0;
    struct mc_event_writer_opts opts = opts_of(row);
    json_object *events = json_object_object_get(row, "events");
    size_t count = json_object_array_length(events);
    for (size_t i = 0; i < count; i++) {
        records[i] = record_of(json_object_array_get_idx(events, i));
    }
    vector_frames_make(row, &message);
    struct mc_event_writer *writer = make_writer(&opts);
    /* Twice: what a writer keeps must not show. */
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(
            mc_event_writer_batch(writer, vector_number(row, "timestamp_ms"),
                                  records, count, buffer, sizeof buffer, &len),
            MC_OK);
        ck_assert_msg(
            mc_view_equal(mc_view_make(buffer, len), message.frames[2]), "%s",
            vector_string(row, "name"));
    }
    mc_event_writer_destroy(writer);
    vector_frames_free(&message);
}

START_TEST(every_golden_row_is_written_byte_for_byte)
{
    json_object *rows = vectors_load("encode.json");
    ck_assert_uint_gt(json_object_array_length(rows), 10);
    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        check_row(json_object_array_get_idx(rows, i));
    }
    json_object_put(rows);
}
END_TEST

#define MIXED 5

static struct mc_event_record make_mixed(uint64_t *random)
{
    static const char *const tenants[] = {"a", "default", "",
                                          "seventeen-bytes-t", "b"};
    static const char *const media[] = {"cpu", "disk", "cpv"};
    static const char *const backends[] = {"n1", "node-0001", "node-0002"};
    struct mc_event_record record =
        make_record((enum mc_event_type)(1 + vector_random(random, 3)), "key");
    record.tenant_id = mc_view_str(tenants[vector_random(random, 5)]);
    record.backend_id = mc_view_str(backends[vector_random(random, 3)]);
    if (record.type != MC_EVENT_CLEARED) {
        record.medium = mc_view_str(media[vector_random(random, 3)]);
    }
    record.timestamp_ms = vector_random(random, 2) ? 5 : TIMESTAMP_MS + 1;
    return record;
}

/* Header and rank of a batch of so few events. */
#define BATCH_HEADER (1 + 9 + 1)
#define BATCH_RANK 1

START_TEST(events_are_the_same_in_any_company)
{
    static uint8_t together[MC_BATCH_BYTES_MAX];
    struct mc_event_writer_opts opts = {.epoch = EPOCH};
    struct mc_event_writer *writer = make_writer(&opts);
    uint64_t random = 3;
    for (int i = 0; i < 2000; i++) {
        struct mc_event_record records[MIXED];
        size_t len = 0;
        for (size_t k = 0; k < MIXED; k++) {
            records[k] = make_mixed(&random);
        }
        ck_assert_int_eq(mc_event_writer_batch(writer, TIMESTAMP_MS, records,
                                               MIXED, together, sizeof together,
                                               &len),
                         MC_OK);
        size_t at = BATCH_HEADER;
        for (size_t k = 0; k < MIXED; k++) {
            struct mc_view one = write_one(&opts, &records[k]);
            size_t event_len = one.len - BATCH_HEADER - BATCH_RANK;
            ck_assert_uint_le(at + event_len, len);
            ck_assert_int_eq(
                memcmp(together + at, buffer + BATCH_HEADER, event_len), 0);
            at += event_len;
        }
        ck_assert_uint_eq(at + BATCH_RANK, len);
    }
    mc_event_writer_destroy(writer);
}
END_TEST

START_TEST(strings_that_change_in_place_between_batches_are_seen)
{
    char tenant[] = "aaa";
    size_t len = 0;
    struct mc_event_writer_opts opts = {.epoch = EPOCH};
    struct mc_event_writer *writer = make_writer(&opts);
    struct mc_event_record record = make_record(MC_EVENT_STORED, "k");
    record.tenant_id = mc_view_str(tenant);
    ck_assert_int_eq(mc_event_writer_batch(writer, 1, &record, 1, buffer,
                                           sizeof buffer, &len),
                     MC_OK);
    ck_assert_ptr_nonnull(memmem(buffer, len,
                                 "\xa3"
                                 "aaa",
                                 4));
    tenant[1] = 'b';
    ck_assert_int_eq(mc_event_writer_batch(writer, 1, &record, 1, buffer,
                                           sizeof buffer, &len),
                     MC_OK);
    ck_assert_ptr_nonnull(memmem(buffer, len,
                                 "\xa3"
                                 "aba",
                                 4));
    mc_event_writer_destroy(writer);
}
END_TEST

/* Bounds */

START_TEST(the_bound_holds_and_nothing_is_written_beyond_it)
{
    static const size_t lens[] = {0,   1,   15,  16,  31,   32,   33,   127,
                                  128, 129, 255, 256, 4095, 4096, 65536};
    struct mc_event_writer_opts opts = {.epoch = EPOCH, .seq_hashes = true};
    struct mc_event_writer *writer = make_writer(&opts);
    char *text = malloc(65536);
    ck_assert_ptr_nonnull(text);
    memset(text, '1', 65536);
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        struct mc_event_record record = make_record(MC_EVENT_STORED, "");
        record.event_id = UINT64_MAX;
        record.timestamp_ms = UINT64_MAX;
        record.object_key = mc_view_make(text, lens[i] ? lens[i] : 20);
        record.group_id = mc_view_make(text, lens[i]);
        record.session_id = record.group_id;
        record.tenant_id = record.group_id;
        record.medium = record.group_id;
        size_t bound = mc_event_writer_bound(writer, &record) +
                       MC_EVENT_WRITER_BATCH_BOUND;
        uint8_t *exact = malloc(bound);
        size_t len = 0;
        ck_assert_ptr_nonnull(exact);
        ck_assert_int_eq(mc_event_writer_batch(writer, UINT64_MAX, &record, 1,
                                               exact, bound, &len),
                         MC_OK);
        ck_assert_uint_le(len, bound);
        len = 77;
        ck_assert_int_eq(mc_event_writer_batch(writer, UINT64_MAX, &record, 1,
                                               exact, bound - 24, &len),
                         MC_ERR_BUFFER_OVERFLOW);
        ck_assert_uint_eq(len, 77);
        free(exact);
    }
    free(text);
    mc_event_writer_destroy(writer);
}
END_TEST

START_TEST(wrong_calls_answer_their_code)
{
    struct mc_event_writer_opts opts = {0};
    struct mc_event_writer *writer = make_writer(&opts);
    struct mc_event_record record = make_record(MC_EVENT_STORED, "k");
    size_t len = 77;
    record.type = MC_EVENT_NONE;
    ck_assert_int_eq(mc_event_writer_batch(writer, 1, &record, 1, buffer,
                                           sizeof buffer, &len),
                     MC_ERR_INVALID_PARAMS);
    record.type = (enum mc_event_type)4;
    ck_assert_int_eq(mc_event_writer_batch(writer, 1, &record, 1, buffer,
                                           sizeof buffer, &len),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_uint_eq(mc_event_writer_bound(writer, &record), 0);
    ck_assert_int_eq(mc_event_writer_batch(writer, 1, NULL,
                                           MC_EVENT_COUNT_MAX + 1, buffer,
                                           sizeof buffer, &len),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_event_writer_batch(writer, 1, NULL, 0, buffer,
                                           MC_EVENT_WRITER_BATCH_BOUND - 1,
                                           &len),
                     MC_ERR_BUFFER_OVERFLOW);
    ck_assert_uint_eq(len, 77);
    mc_event_writer_destroy(writer);
    mc_event_writer_destroy(NULL);
}
END_TEST

START_TEST(settings_must_be_utf8_and_short)
{
    static char text[4097];
    struct mc_event_writer *writer = NULL;
    struct mc_event_writer_opts opts = {0};
    memset(text, 'm', sizeof text);
    struct mc_view *settings[] = {&opts.model_name, &opts.additional_salt,
                                  &opts.lora_name};
    for (size_t i = 0; i < 3; i++) {
        *settings[i] = mc_view_str("\xff");
        ck_assert_int_eq(mc_event_writer_create(&opts, &writer),
                         MC_ERR_INVALID_PARAMS);
        *settings[i] = mc_view_make(text, 4097);
        ck_assert_int_eq(mc_event_writer_create(&opts, &writer),
                         MC_ERR_INVALID_PARAMS);
        ck_assert_ptr_null(writer);
        *settings[i] = mc_view_make(text, 4096);
    }
    struct mc_event_record record = make_record(MC_EVENT_REMOVED, "k");
    check_reads(write_one(&opts, &record));
}
END_TEST

START_TEST(a_writer_is_made_wholly_or_not_at_all)
{
    struct alloc_fail fail;
    struct mc_event_writer_opts opts = {.model_name = {"model", 5}};
    ALLOC_FAIL_EACH(fail)
    {
        struct mc_event_writer *writer = NULL;
        alloc_fail_arm(&fail);
        enum mc_err err = mc_event_writer_create(&opts, &writer);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        ck_assert(alloc_fail_happened(&fail) == (writer == NULL));
        mc_event_writer_destroy(writer);
    }
    ck_assert_uint_gt(fail.k, 3);
}
END_TEST

START_TEST(writing_allocates_nothing)
{
    struct mc_event_writer_opts opts = {.epoch = 1};
    struct mc_event_writer *writer = make_writer(&opts);
    struct mc_event_record record = make_record(MC_EVENT_STORED, "k");
    size_t len;
    uint64_t before = mci_alloc_thread_calls();
    for (int i = 0; i < 100; i++) {
        record.tenant_id = mc_view_str(i % 2 ? "a" : "bb");
        ck_assert_int_eq(mc_event_writer_batch(writer, 1, &record, 1, buffer,
                                               sizeof buffer, &len),
                         MC_OK);
    }
    ck_assert_uint_eq(mci_alloc_thread_calls(), before);
    mc_event_writer_destroy(writer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("event_write");
    TCase *rows = tcase_create("rows");
    tcase_add_test(rows, every_golden_row_is_written_byte_for_byte);
    tcase_add_test(rows, events_are_the_same_in_any_company);
    tcase_add_test(rows, strings_that_change_in_place_between_batches_are_seen);
    suite_add_tcase(suite, rows);
    TCase *bounds = tcase_create("bounds");
    tcase_add_test(bounds, the_bound_holds_and_nothing_is_written_beyond_it);
    tcase_add_test(bounds, wrong_calls_answer_their_code);
    tcase_add_test(bounds, settings_must_be_utf8_and_short);
    tcase_add_test(bounds, a_writer_is_made_wholly_or_not_at_all);
    tcase_add_test(bounds, writing_allocates_nothing);
    suite_add_tcase(suite, bounds);
    return suite_run(suite);
}
