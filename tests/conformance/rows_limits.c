/* SPDX-License-Identifier: Apache-2.0 */
/* rows_limits.c - what is taken and what is refused, whole. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "rows_kit.h"

#define LEN 4096 /* of a region */

static enum mc_err submit(struct rows_kit *kit,
                          const struct mc_row_request *request,
                          struct mc_row_op **op_out)
{
    struct mc_row_op *none = NULL;
    enum mc_err err =
        mc_row_driver_submit(kit->driver, request, op_out ? op_out : &none);
    ck_assert(err == MC_OK || !none);
    return err;
}

/* ---- ranges -------------------------------------------------------------------- */

static const uint64_t edges[] = {0,
                                 1,
                                 LEN - 1,
                                 LEN,
                                 LEN + 1,
                                 UINT64_C(1) << 31,
                                 UINT64_C(1) << 32,
                                 UINT64_C(1) << 63,
                                 UINT64_MAX};
#define EDGES (sizeof edges / sizeof edges[0])

static bool is_range(uint64_t offset, uint64_t len)
{
    return len > 0 && offset <= LEN && len <= LEN - offset;
}

/* Neighbours stay as they are, in the region and around it. */
static void move_range(struct rows_kit *kit, const struct rows_memory *memory,
                       const char *key, const struct mc_row_span *span)
{
    static uint8_t object[LEN];
    int64_t len = (int64_t)span->len;
    memset(memory->bytes, 0xa5, memory->len);
    kit_fill(memory->bytes + span->offset, span->len, 7);
    kit_expect(kit_run(kit, MC_ROW_PUT, key, *span), MC_ROW_REASON_MOVED);
    ck_assert_int_eq(rows_on->get(kit->world, mc_view_str(key), object, LEN),
                     len);
    ck_assert(kit_is_filled(object, span->len, 7));
    memset(memory->bytes, 0xa5, memory->len);
    kit_expect(kit_run(kit, MC_ROW_GET, key, *span), MC_ROW_REASON_MOVED);
    ck_assert(kit_is_filled(memory->bytes + span->offset, span->len, 7));
    ck_assert(kit_is_marked(memory, 0, span->offset));
    ck_assert(kit_is_marked(memory, span->offset + span->len,
                            memory->len - span->offset - span->len));
}

START_TEST(every_range_is_right_or_refused)
{
    struct rows_kit kit;
    unsigned right = 0;
    kit_open(&kit, NULL, NULL);
    struct rows_memory memory = kit_memory(&kit, LEN);
    for (size_t i = 0; i < EDGES * EDGES; i++) {
        const struct mc_row_span span = {memory.region, edges[i / EDGES],
                                         edges[i % EDGES]};
        char key[8];
        (void)snprintf(key, sizeof key, "k%zu", i);
        const struct mc_row row = kit_row(key, &span);
        if (is_range(span.offset, span.len)) {
            move_range(&kit, &memory, key, &span);
            right++;
            continue;
        }
        for (int kind = MC_ROW_GET; kind <= MC_ROW_PUT; kind++) {
            const struct mc_row_request request = {
                .kind = (enum mc_row_kind)kind, .rows = &row, .count = 1};
            ck_assert_int_eq(submit(&kit, &request, NULL),
                             MC_ERR_INVALID_PARAMS);
        }
    }
    ck_assert_uint_eq(right, 6);
    kit_close(&kit);
}
END_TEST

/* Each pair of spans whose lengths are edges: sums do not wrap. */
START_TEST(sums_of_spans_do_not_wrap)
{
    struct rows_kit kit;
    kit_open(&kit, NULL, NULL);
    struct rows_memory memory = kit_memory(&kit, LEN);
    for (size_t i = 0; i < EDGES * EDGES; i++) {
        const struct mc_row_span spans[] = {
            {memory.region, 0, edges[i / EDGES]},
            {memory.region, 0, edges[i % EDGES]}};
        if (is_range(0, spans[0].len) && is_range(0, spans[1].len)) {
            continue;
        }
        struct mc_row row = kit_row("k", spans);
        row.span_count = 2;
        const struct mc_row_request request = {
            .kind = MC_ROW_PUT, .rows = &row, .count = 1};
        ck_assert_int_eq(submit(&kit, &request, NULL), MC_ERR_INVALID_PARAMS);
    }
    kit_close(&kit);
}
END_TEST

/* ---- requests -------------------------------------------------------------------- */

static const struct wrong_key {
    const char *key;
    size_t len;
    enum mc_err err;
} wrong_keys[] = {{"", 0, MC_ERR_INVALID_PARAMS},
                  {NULL, 0, MC_ERR_INVALID_PARAMS},
                  {"a\0b", 3, MC_ERR_INVALID_KEY},
                  {"\xff", 1, MC_ERR_INVALID_KEY},
                  {NULL, MC_KEY_LEN_MAX + 1, MC_ERR_INVALID_KEY}};

/* The row beside it is sound, and nothing of it is taken either. */
START_TEST(a_wrong_key_refuses_all_rows)
{
    const struct wrong_key *wrong = &wrong_keys[_i];
    struct rows_kit kit;
    char *letters = malloc(MC_KEY_LEN_MAX + 1);
    kit_open(&kit, NULL, NULL);
    struct rows_memory memory = kit_memory(&kit, LEN);
    const struct mc_row_span span = {memory.region, 0, LEN};
    ck_assert_ptr_nonnull(letters);
    memset(letters, 'k', MC_KEY_LEN_MAX + 1);
    struct mc_row rows[2] = {kit_row("sound", &span), kit_row("", &span)};
    rows[1].key = mc_view_make(
        wrong->key || wrong->len == 0 ? wrong->key : letters, wrong->len);
    const struct mc_row_request request = {
        .kind = MC_ROW_PUT, .rows = rows, .count = 2};
    ck_assert_int_eq(submit(&kit, &request, NULL), wrong->err);
    ck_assert_int_eq(
        rows_on->get(kit.world, mc_view_str("sound"), memory.bytes, LEN),
        MC_ERR_OBJECT_NOT_FOUND);
    rows[1].key = mc_view_make(letters, MC_KEY_LEN_MAX);
    struct mc_row_op *op = NULL;
    struct mc_row_state states[2];
    ck_assert_int_eq(submit(&kit, &request, &op), MC_OK);
    kit_count(&kit, MC_ROW_PUT, 2);
    kit_await(op, states, 2);
    kit_expect(states[1], MC_ROW_REASON_MOVED);
    free(letters);
    kit_retire(&kit, &memory);
    kit_close(&kit);
}
END_TEST

START_TEST(what_is_no_request_is_refused)
{
    struct rows_kit kit;
    kit_open(&kit, NULL, NULL);
    struct rows_memory memory = kit_memory(&kit, LEN);
    const struct mc_row_span span = {memory.region, 0, LEN};
    const struct mc_row_span strange = {memory.region + 1, 0, LEN};
    const struct mc_row sound = kit_row("k", &span);
    struct mc_row rows[] = {sound, sound, sound, sound, sound};
    rows[0].span_count = 0;
    rows[1].spans = NULL;
    rows[2].span_count = MC_SPANS_MAX + 1;
    rows[3].spans = &strange;
    rows[4].session_id = mc_view_str("\xff");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct mc_row_request request = {
            .kind = MC_ROW_PUT, .rows = &rows[i], .count = 1};
        ck_assert_int_eq(submit(&kit, &request, NULL), MC_ERR_INVALID_PARAMS);
    }
    const struct mc_row_request requests[] = {
        {.kind = MC_ROW_GET, .rows = &sound, .count = 0},
        {.kind = MC_ROW_GET, .rows = NULL, .count = 1},
        {.kind = MC_ROW_GET, .rows = &sound, .count = MC_ROWS_MAX + 1},
        {.kind = (enum mc_row_kind)2, .rows = &sound, .count = 1}};
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        ck_assert_int_eq(submit(&kit, &requests[i], NULL),
                         MC_ERR_INVALID_PARAMS);
    }
    kit_retire(&kit, &memory); /* nothing of it counts as used */
    kit_close(&kit);
}
END_TEST

START_TEST(a_full_queue_refuses_and_takes_nothing)
{
    const struct mc_row_driver_opts opts = {.workers = 1, .rows_max = 4};
    struct rows_kit kit;
    struct mc_row_state states[4];
    kit_open(&kit, NULL, &opts);
    struct rows_memory memory = kit_memory(&kit, LEN);
    const struct mc_row_span span = {memory.region, 0, LEN};
    const struct mc_row rows[] = {kit_row("a", &span), kit_row("b", &span),
                                  kit_row("c", &span), kit_row("d", &span),
                                  kit_row("e", &span)};
    const struct mc_row_request five = {
        .kind = MC_ROW_GET, .rows = rows, .count = 5};
    const struct mc_row_request one = {
        .kind = MC_ROW_GET, .rows = rows, .count = 1};
    ck_assert_int_eq(submit(&kit, &five, NULL), MC_ERR_NO_AVAILABLE_HANDLE);
    if (kit_fault(&kit, ROWS_READ, ROWS_HOLD, 0)) {
        struct mc_row_op *op = kit_submit(&kit, MC_ROW_GET, rows, 4, 0);
        ck_assert_int_eq(submit(&kit, &one, NULL), MC_ERR_NO_AVAILABLE_HANDLE);
        ck_assert(AWAIT(rows_on->is_hit(kit.world)));
        rows_on->lift(kit.world);
        kit_await(op, states, 4);
    }
    struct mc_row_op *again = NULL;
    ck_assert_int_eq(submit(&kit, &one, &again), MC_OK); /* they have ended */
    kit_count(&kit, MC_ROW_GET, 1);
    kit_await(again, states, 1);
    kit_expect(states[0], MC_ROW_REASON_ABSENT);
    kit_close(&kit);
}
END_TEST

/* ---- regions ---------------------------------------------------------------------- */

START_TEST(what_is_no_region_is_refused)
{
    struct rows_kit kit;
    uint32_t region = 77;
    kit_open(&kit, NULL, NULL);
    struct rows_memory memory = kit_memory(&kit, 2 * LEN);
    uint8_t *bytes = memory.bytes;
    ck_assert_int_eq(mc_row_driver_register(kit.driver, bytes, LEN,
                                            MC_MEMORY_DEVICE, &region),
                     MC_ERR_NOT_SUPPORTED);
    ck_assert_int_eq(
        mc_row_driver_register(kit.driver, NULL, LEN, MC_MEMORY_HOST, &region),
        MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(
        mc_row_driver_register(kit.driver, bytes, 0, MC_MEMORY_HOST, &region),
        MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_row_driver_register(kit.driver, bytes, UINT64_MAX,
                                            MC_MEMORY_HOST, &region),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_row_driver_register(kit.driver, bytes + 1, LEN,
                                            MC_MEMORY_HOST, &region),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_uint_eq(region, 77);
    ck_assert_int_eq(mc_row_driver_unregister(kit.driver, memory.region + 1),
                     MC_ERR_INVALID_PARAMS);
    kit_retire(&kit, &memory);
    ck_assert_int_eq(mc_row_driver_unregister(kit.driver, memory.region),
                     MC_ERR_INVALID_PARAMS);
    kit_close(&kit);
}
END_TEST

/* A number that is gone is nobody's; those beside it are what they were. */
START_TEST(regions_come_and_go)
{
    struct rows_kit kit;
    struct rows_memory memories[20];
    kit_open(&kit, NULL, NULL);
    for (size_t i = 0; i < 20; i++) {
        memories[i] = kit_memory(&kit, LEN);
        for (size_t k = 0; k < i; k++) {
            ck_assert_uint_ne(memories[k].region, memories[i].region);
        }
    }
    for (size_t i = 0; i < 20; i += 2) {
        kit_retire(&kit, &memories[i]);
    }
    struct rows_memory later = kit_memory(&kit, LEN);
    for (size_t i = 0; i < 20; i++) {
        const struct mc_row_span span = {memories[i].region, 0, LEN};
        const struct mc_row row = kit_row("none", &span);
        const struct mc_row_request request = {
            .kind = MC_ROW_GET, .rows = &row, .count = 1};
        ck_assert_uint_ne(memories[i].region, later.region);
        if (i % 2 == 0) {
            ck_assert_int_eq(submit(&kit, &request, NULL),
                             MC_ERR_INVALID_PARAMS);
        } else {
            kit_expect(kit_run(&kit, MC_ROW_GET, "none", span),
                       MC_ROW_REASON_ABSENT);
        }
    }
    kit_close(&kit);
}
END_TEST

START_TEST(a_region_in_use_stays)
{
    struct rows_kit kit;
    struct mc_row_state state;
    kit_open(&kit, NULL, NULL);
    struct rows_memory memory = kit_memory(&kit, LEN);
    const struct mc_row_span span = {memory.region, 0, LEN};
    const struct mc_row row = kit_row("k", &span);
    if (kit_fault(&kit, ROWS_OPEN, ROWS_HOLD, 1)) {
        struct mc_row_op *op =
            kit_submit(&kit, MC_ROW_PUT, &row, 1, KIT_LONG_MS);
        ck_assert(AWAIT(rows_on->is_hit(kit.world)));
        ck_assert_int_eq(mc_row_driver_unregister(kit.driver, memory.region),
                         MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS);
        rows_on->lift(kit.world);
        kit_await(op, &state, 1);
        kit_expect(state, MC_ROW_REASON_MOVED);
    }
    kit_retire(&kit, &memory);
    kit_close(&kit);
}
END_TEST

TCase *rows_limits_case(void)
{
    TCase *tcase = tcase_create("limits");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, every_range_is_right_or_refused);
    tcase_add_test(tcase, sums_of_spans_do_not_wrap);
    tcase_add_loop_test(tcase, a_wrong_key_refuses_all_rows, 0,
                        (int)(sizeof wrong_keys / sizeof wrong_keys[0]));
    tcase_add_test(tcase, what_is_no_request_is_refused);
    tcase_add_test(tcase, a_full_queue_refuses_and_takes_nothing);
    tcase_add_test(tcase, what_is_no_region_is_refused);
    tcase_add_test(tcase, regions_come_and_go);
    tcase_add_test(tcase, a_region_in_use_stays);
    return tcase;
}
