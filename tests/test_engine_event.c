/* SPDX-License-Identifier: Apache-2.0 */
/* Events of engines: the forms of engine_rows.py and its refusals, mutants, a
 * second opinion, and that a bad event costs itself alone. */
#include <inttypes.h>
#include <msgpack.h>
#include <stdarg.h>
#include <stdio.h>

#include "mc_engine_event.h"
#include "mci_alloc.h"
#include "mci_bytes.h"
#include "suite.h"
#include "vectors.h"

#define VIEWS 64
#define TEXT_MAX 65536
#define MUTANTS 300

static struct mc_engine_event events[VIEWS];
static const uint8_t seq_bytes[8] = {0, 0, 0, 0, 0, 0, 0, 7};

static enum mc_event_error read_payload(const void *payload, size_t len,
                                        struct mc_engine_batch *batch_out,
                                        struct mc_event_fault *fault_out)
{
    struct mc_view frames[3] = {mc_view_make("", 0), mc_view_make(seq_bytes, 8),
                                mc_view_make(payload, len)};
    return mc_engine_event_read(frames, 3, events, VIEWS, batch_out, fault_out);
}

/* What was read, as text */

struct text {
    size_t len;
    char bytes[TEXT_MAX];
};

__attribute__((format(printf, 2, 3))) static void say(struct text *text,
                                                      const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len =
        vsnprintf(text->bytes + text->len, TEXT_MAX - text->len, format, args);
    va_end(args);
    ck_assert_int_ge(len, 0);
    text->len += (size_t)len;
    ck_assert_uint_lt(text->len, TEXT_MAX);
}

static void say_view(struct text *text, const char *name, struct mc_view view)
{
    if (view.data) {
        say(text, " %s=%.*s", name, (int)view.len, (const char *)view.data);
    }
}

static void say_number(struct text *text, const char *name, uint64_t number)
{
    if (number != 0) {
        say(text, " %s=%" PRIu64, name, number);
    }
}

static void say_hashes(struct text *text, const struct mc_engine_event *event)
{
    uint64_t hashes[8];
    size_t count = mc_engine_event_hashes(event, hashes, 8);
    for (size_t i = 0; i < count && i < 8; i++) {
        say(text, "%s%" PRIx64, i == 0 ? " hashes=" : ",", hashes[i]);
    }
}

static void say_event(struct text *text, const struct mc_engine_event *event)
{
    if (event->error != MC_EVENT_OK) {
        say(text, "\nrefused %s@%" PRIu32, mc_event_error_name(event->error),
            event->error_offset);
        ck_assert_int_eq(event->type, MC_EVENT_NONE);
        ck_assert_uint_eq(event->hash_count, 0);
        return;
    }
    say(text, "\n%s", mc_event_type_name(event->type));
    say_hashes(text, event);
    if (event->has_parent) {
        say(text, " parent=%" PRIx64, event->parent);
    }
    say_number(text, "tokens", event->token_count);
    say_number(text, "size", event->block_size);
    say(text, "%s%s", event->has_pairs ? " pairs" : "",
        event->is_unordered ? " unordered" : "");
    if (event->has_group) {
        say(text, " group=%" PRIu32, event->group_idx);
    }
    say_number(text, "window", event->sliding_window);
    if (event->has_lora_id) {
        say(text, " lora_id=%" PRId64, event->lora_id);
    }
    say_view(text, "medium", event->medium);
    say_view(text, "lora", event->lora_name);
    say_view(text, "session", event->session_id);
    say_view(text, "salt", event->cache_salt);
    say_view(text, "kind", event->spec_kind);
    say_view(text, "locality", event->locality);
}

static void say_message(struct text *text, const struct mc_view *frames,
                        size_t count)
{
    struct mc_engine_batch batch;
    struct mc_event_fault fault;
    text->len = 0;
    if (mc_engine_event_read(frames, count, events, VIEWS, &batch, &fault) !=
        MC_EVENT_OK) {
        say(text, "fault %s@%" PRIu32, mc_event_error_name(fault.error),
            fault.offset);
        if (fault.has_seq) {
            say(text, " seq=%" PRIu64, fault.seq);
        }
        return;
    }
    say(text, "seq=%" PRIu64 " ts=%" PRIu64, batch.seq, batch.timestamp_ms);
    if (batch.has_dp_rank) {
        say(text, " rank=%" PRIu32, batch.dp_rank);
    } else {
        ck_assert_uint_eq(batch.dp_rank, 0);
        say(text, " rank=-");
    }
    say(text, " count=%" PRIu32 " refused=%" PRIu32, batch.count,
        batch.refused);
    for (uint32_t i = 0; i < batch.count; i++) {
        ck_assert_uint_eq(events[i].index, i);
        say_event(text, &events[i]);
    }
}

/* Rows */

typedef void (*row_fn)(json_object *row, struct vector_frames *message);

static void for_each_row(row_fn visit)
{
    json_object *rows = vectors_load_copy("engine.json");
    ck_assert_uint_gt(json_object_array_length(rows), 100);
    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        json_object *row = json_object_array_get_idx(rows, i);
        struct vector_frames message;
        vector_frames_make(row, &message);
        visit(row, &message);
        vector_frames_free(&message);
    }
    json_object_put(rows);
}

static void check_row(json_object *row, struct vector_frames *message)
{
    static struct text text;
    say_message(&text, message->frames, message->count);
    ck_assert_msg(strcmp(text.bytes, vector_string(row, "expect")) == 0,
                  "%s reads:\n%s\nand not:\n%s", vector_string(row, "name"),
                  text.bytes, vector_string(row, "expect"));
}

START_TEST(every_form_and_refusal_reads_as_it_says)
{
    for_each_row(check_row);
}
END_TEST

START_TEST(frames_are_judged_as_those_of_a_store)
{
    static struct text text;
    struct mc_view frames[4] = {mc_view_make("topic", 5),
                                mc_view_make(seq_bytes, 8),
                                mc_view_make("\x92\x01\x90", 3),
                                {NULL, 0}};
    say_message(&text, frames, 3);
    ck_assert_str_eq(text.bytes, "seq=7 ts=1000 rank=- count=0 refused=0");
    say_message(&text, frames, 2);
    ck_assert_str_eq(text.bytes, "fault frame_count@0");
    say_message(&text, frames, 4);
    ck_assert_str_eq(text.bytes, "fault frame_count@0");
    frames[1].len = 7;
    say_message(&text, frames, 3);
    ck_assert_str_eq(text.bytes, "fault seq_size@0");
    frames[1].len = 8;
    frames[2] = mc_view_make(NULL, 0);
    say_message(&text, frames, 3);
    ck_assert_str_eq(text.bytes, "fault payload_truncated@0 seq=7");
}
END_TEST

START_TEST(a_payload_over_16_mib_is_not_walked)
{
    struct mc_view frames[3] = {mc_view_make("", 0), mc_view_make(seq_bytes, 8),
                                mc_view_make("", MC_EVENT_PAYLOAD_MAX + 1)};
    static struct text text;
    say_message(&text, frames, 3);
    ck_assert_str_eq(text.bytes, "fault payload_too_large@0 seq=7");
}
END_TEST

/* Bounds */

/* [1, [["BlockRemoved", [1, 1, ...]]]] with so many hashes. */
static size_t make_removed(uint8_t *bytes, uint32_t hashes)
{
    static const char head[] = "\x92\x01\x91\x92\xac"
                               "BlockRemoved\xdd";
    size_t len = sizeof head - 1;
    memcpy(bytes, head, len);
    mci_put_be32(bytes + len, hashes);
    memset(bytes + len + 4, 1, hashes);
    return len + 4 + hashes;
}

START_TEST(an_event_may_hold_as_many_hashes_as_the_bound_and_not_one_more)
{
    static uint8_t bytes[MC_EVENT_BLOCKS_MAX + 100];
    static uint64_t hashes[MC_EVENT_BLOCKS_MAX];
    struct mc_engine_batch batch;
    size_t len = make_removed(bytes, MC_EVENT_BLOCKS_MAX);
    ck_assert_int_eq(read_payload(bytes, len, &batch, NULL), MC_EVENT_OK);
    ck_assert_uint_eq(batch.refused, 0);
    ck_assert_uint_eq(
        mc_engine_event_hashes(&events[0], hashes, MC_EVENT_BLOCKS_MAX),
        MC_EVENT_BLOCKS_MAX);
    ck_assert_uint_eq(hashes[MC_EVENT_BLOCKS_MAX - 1], 1);
    len = make_removed(bytes, MC_EVENT_BLOCKS_MAX + 1);
    ck_assert_int_eq(read_payload(bytes, len, &batch, NULL), MC_EVENT_OK);
    ck_assert_int_eq(events[0].error, MC_EVENT_ERROR_HASH_COUNT);
    ck_assert_uint_eq(events[0].error_offset, 17);
}
END_TEST

START_TEST(hashes_beyond_what_was_lent_are_counted_and_not_written)
{
    uint8_t bytes[64];
    uint64_t hashes[3] = {7, 7, 7};
    struct mc_engine_batch batch;
    size_t len = make_removed(bytes, 5);
    ck_assert_int_eq(read_payload(bytes, len, &batch, NULL), MC_EVENT_OK);
    ck_assert_uint_eq(mc_engine_event_hashes(&events[0], hashes, 2), 5);
    ck_assert_uint_eq(hashes[1], 1);
    ck_assert_uint_eq(hashes[2], 7);
    ck_assert_uint_eq(mc_engine_event_hashes(&events[0], NULL, 0), 5);
}
END_TEST

START_TEST(more_events_than_views_lent_are_refused_at_their_header)
{
    uint8_t bytes[8 + VIEWS] = "\x92\x01\xdc";
    struct mc_engine_batch batch = {.seq = 99};
    struct mc_event_fault fault;
    mci_put_be16(bytes + 3, VIEWS + 1);
    ck_assert_int_eq(read_payload(bytes, 5 + VIEWS + 1, &batch, &fault),
                     MC_EVENT_ERROR_EVENTS_COUNT);
    ck_assert_uint_eq(fault.offset, 2);
    ck_assert_uint_eq(batch.seq, 99);
}
END_TEST

/* Mutants */

/* A second library says that it is one value and nothing behind it. */
static void agree_with_msgpack(const void *bytes, size_t len)
{
    msgpack_unpacked result;
    size_t offset = 0;
    msgpack_unpacked_init(&result);
    ck_assert_int_eq(msgpack_unpack_next(&result, bytes, len, &offset),
                     MSGPACK_UNPACK_SUCCESS);
    ck_assert_uint_eq(offset, len);
    msgpack_unpacked_destroy(&result);
}

static uint64_t accepted;

/* Reads bytes in a block of their own size, so that a sanitizer sees a read
 * beyond the end. */
static void check_bytes(const uint8_t *bytes, size_t len)
{
    static struct text text;
    uint8_t *copy = malloc(len ? len : 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, bytes, len);
    struct mc_view frames[3] = {mc_view_make("", 0), mc_view_make(seq_bytes, 8),
                                mc_view_make(copy, len)};
    uint64_t before = mci_alloc_thread_calls();
    say_message(&text, frames, 3);
    ck_assert_uint_eq(mci_alloc_thread_calls(), before);
    if (strncmp(text.bytes, "seq=7 ts=", 9) == 0) {
        accepted++;
        agree_with_msgpack(copy, len);
    } else {
        ck_assert_int_eq(strncmp(text.bytes, "fault ", 6), 0);
    }
    free(copy);
}

static void check_cuts(json_object *row, struct vector_frames *message)
{
    struct mc_view payload = message->frames[2];
    const char *expect = vector_string(row, "expect");
    for (size_t len = 0; len < payload.len; len++) {
        uint64_t were = accepted;
        check_bytes(payload.data, len);
        bool may_be_whole = strstr(expect, "payload_trailing") != NULL;
        ck_assert_msg(accepted == were || may_be_whole, "%s cut to %zu",
                      vector_string(row, "name"), len);
    }
}

START_TEST(every_truncation_is_refused)
{
    for_each_row(check_cuts);
}
END_TEST

static size_t change(uint8_t *bytes, size_t len, uint64_t *random)
{
    static const uint8_t telling[] = {
        0xc0, 0xc1, 0xc2, 0x80, 0x81, 0x90, 0x91, 0x9f, 0xa0, 0xbf, 0xff,
        0xc4, 0xca, 0xcb, 0xcf, 0xd3, 0xd9, 0xdb, 0xdc, 0xdd, 0xde, 0xdf};
    size_t at = vector_random(random, len);
    switch (vector_random(random, 4)) {
    case 0:
        bytes[at] = (uint8_t)vector_random(random, 256);
        return len;
    case 1:
        bytes[at] = telling[vector_random(random, sizeof telling)];
        return len;
    case 2:
        memmove(bytes + at, bytes + at + 1, len - at - 1);
        return len - 1;
    default:
        memmove(bytes + at + 1, bytes + at, len - at);
        bytes[at] = telling[vector_random(random, sizeof telling)];
        return len + 1;
    }
}

static void check_mutants(json_object *row, struct vector_frames *message)
{
    static uint8_t bytes[4096];
    static uint64_t random = 20261130;
    struct mc_view payload = message->frames[2];
    (void)row;
    ck_assert_uint_lt(payload.len, sizeof bytes - 3);
    for (int i = 0; i < MUTANTS && payload.len > 4; i++) {
        size_t len = payload.len;
        memcpy(bytes, payload.data, len);
        for (uint64_t k = 1 + vector_random(&random, 3); k > 0; k--) {
            len = change(bytes, len, &random);
        }
        check_bytes(bytes, len);
    }
}

START_TEST(mutants_are_read_or_refused_with_a_name)
{
    for_each_row(check_mutants);
    ck_assert_uint_gt(accepted, 1000);
}
END_TEST

/* A value of any shape, well formed but for its strs, which need not be UTF-8.
 */
static void pack_any(msgpack_packer *packer, uint64_t *random, int depth)
{
    uint64_t size = vector_random(random, 4);
    char text[4];
    for (int i = 0; i < 4; i++) {
        text[i] = (char)vector_random(random, 256);
    }
    switch (vector_random(random, depth > 3 ? 7 : 9)) {
    case 0:
        msgpack_pack_nil(packer);
        return;
    case 1:
        msgpack_pack_true(packer);
        return;
    case 2:
        msgpack_pack_uint64(packer, *random);
        return;
    case 3:
        msgpack_pack_int64(packer, -(int64_t)vector_random(random, 1 << 20));
        return;
    case 4:
        msgpack_pack_double(packer, 0.5);
        return;
    case 5:
        msgpack_pack_str_with_body(packer, text, size);
        return;
    case 6:
        msgpack_pack_bin_with_body(packer, text, size);
        return;
    case 7:
        msgpack_pack_array(packer, size);
        for (; size > 0; size--) {
            pack_any(packer, random, depth + 1);
        }
        return;
    default:
        msgpack_pack_map(packer, size);
        for (; size > 0; size--) {
            pack_any(packer, random, depth + 1);
            pack_any(packer, random, depth + 1);
        }
    }
}

static void pack_text(msgpack_packer *packer, const char *text)
{
    msgpack_pack_str_with_body(packer, text, strlen(text));
}

/* A good event in either form, or with any value in the place of one of its
 * own, if bad is a place. */
static void pack_stored(msgpack_packer *packer, bool is_map, int bad,
                        uint64_t *random)
{
    static const char *const names[] = {
        "type",      "block_hashes", "parent_block_hash",
        "token_ids", "block_size",   "lora_id",
        "medium"};
    if (is_map) {
        msgpack_pack_map(packer, 7);
    } else {
        msgpack_pack_array(packer, 7);
    }
    for (int i = 0; i < 7; i++) {
        if (is_map) {
            pack_text(packer, names[i]);
        }
        if (i == bad) {
            pack_any(packer, random, 0);
        } else if (i == 0) {
            pack_text(packer, "BlockStored");
        } else if (i == 6) {
            pack_text(packer, "GPU");
        } else if (i == 1 || i == 3) {
            msgpack_pack_array(packer, 1);
            msgpack_pack_int64(packer, i);
        } else {
            msgpack_pack_int64(packer, i);
        }
    }
}

START_TEST(any_value_in_the_place_of_another_costs_at_most_its_event)
{
    uint64_t random = 7;
    uint64_t refused = 0;
    for (int round = 0; round < 20000; round++) {
        msgpack_sbuffer buffer;
        msgpack_packer packer;
        struct mc_engine_batch batch;
        int bad = (int)vector_random(&random, 8) - 1;
        bool is_map = vector_random(&random, 2) == 0;
        msgpack_sbuffer_init(&buffer);
        msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
        msgpack_pack_array(&packer, 2);
        msgpack_pack_double(&packer, 1.0);
        msgpack_pack_array(&packer, 3);
        pack_stored(&packer, !is_map, -1, &random);
        pack_stored(&packer, is_map, bad, &random);
        pack_stored(&packer, is_map, -1, &random);
        ck_assert_int_eq(read_payload(buffer.data, buffer.size, &batch, NULL),
                         MC_EVENT_OK);
        ck_assert_uint_eq(batch.count, 3);
        for (int i = 0; i < 3; i += 2) {
            ck_assert_int_eq(events[i].type, MC_EVENT_STORED);
            ck_assert_uint_eq(events[i].parent, 2);
            ck_assert_uint_eq(events[i].block_size, 4);
            ck_assert(mc_view_equal(events[i].medium, mc_view_str("GPU")));
        }
        ck_assert(bad != -1 || events[1].error == MC_EVENT_OK);
        refused += batch.refused;
        msgpack_sbuffer_destroy(&buffer);
    }
    ck_assert_uint_gt(refused, 5000);
    ck_assert_uint_lt(refused, 19000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("engine_event");
    TCase *rows = tcase_create("rows");
    tcase_add_test(rows, every_form_and_refusal_reads_as_it_says);
    tcase_add_test(rows, frames_are_judged_as_those_of_a_store);
    suite_add_tcase(suite, rows);
    TCase *bounds = tcase_create("bounds");
    tcase_add_test(bounds, a_payload_over_16_mib_is_not_walked);
    tcase_add_test(
        bounds, an_event_may_hold_as_many_hashes_as_the_bound_and_not_one_more);
    tcase_add_test(bounds,
                   hashes_beyond_what_was_lent_are_counted_and_not_written);
    tcase_add_test(bounds,
                   more_events_than_views_lent_are_refused_at_their_header);
    suite_add_tcase(suite, bounds);
    TCase *mutants = tcase_create("mutants");
    tcase_set_timeout(mutants, 120);
    tcase_add_test(mutants, every_truncation_is_refused);
    tcase_add_test(mutants, mutants_are_read_or_refused_with_a_name);
    tcase_add_test(mutants,
                   any_value_in_the_place_of_another_costs_at_most_its_event);
    suite_add_tcase(suite, mutants);
    return suite_run(suite);
}
