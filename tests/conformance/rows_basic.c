/* SPDX-License-Identifier: Apache-2.0 */
/* rows_basic.c - what each status says is so, byte for byte. */
#include <stdio.h>

#include "rows_kit.h"

#define SLOT 1000
#define GAP 24 /* between slots, marked */

static struct mc_row_span slot(const struct rows_memory *memory, size_t i,
                               size_t len)
{
    return (struct mc_row_span){memory->region, i * (SLOT + GAP), len};
}

static uint8_t *slot_bytes(const struct rows_memory *memory, size_t i)
{
    return memory->bytes + i * (SLOT + GAP);
}

#define ROWS 10

struct view {
    char names[ROWS][8];
    struct mc_row_span spans[ROWS];
    struct mc_row rows[ROWS];
    struct mc_row_state states[ROWS];
};

/* Rows of rising sizes, the last of a whole slot. */
static size_t size_of(size_t i)
{
    return SLOT - (ROWS - 1 - i) * 99;
}

static void make_view(struct view *view, const struct rows_memory *memory)
{
    for (size_t i = 0; i < ROWS; i++) {
        (void)snprintf(view->names[i], sizeof view->names[i], "k%zu", i);
        view->spans[i] = slot(memory, i, size_of(i));
        view->rows[i] = kit_row(view->names[i], &view->spans[i]);
    }
}

START_TEST(what_was_put_is_read)
{
    const struct mc_row_driver_opts opts = {.rows_per_call = 3,
                                            .bytes_per_call = 1500};
    struct rows_kit kit;
    struct view view;
    kit_open(&kit, NULL, &opts);
    struct rows_memory from = kit_memory(&kit, ROWS * (SLOT + GAP));
    struct rows_memory to = kit_memory(&kit, ROWS * (SLOT + GAP));
    make_view(&view, &from);
    for (size_t i = 0; i < ROWS; i++) {
        kit_fill(slot_bytes(&from, i), size_of(i), (uint32_t)i);
    }
    kit_await(kit_submit(&kit, MC_ROW_PUT, view.rows, ROWS, 0), view.states,
              ROWS);
    for (size_t i = 0; i < ROWS; i++) {
        kit_expect(view.states[i], MC_ROW_REASON_MOVED);
        ck_assert(kit_is_filled(slot_bytes(&from, i), size_of(i), (uint32_t)i));
    }
    kit_retire(&kit, &from);
    make_view(&view, &to);
    kit_await(kit_submit(&kit, MC_ROW_GET, view.rows, ROWS, 0), view.states,
              ROWS);
    for (size_t i = 0; i < ROWS; i++) {
        size_t len = size_of(i);
        kit_expect(view.states[i], MC_ROW_REASON_MOVED);
        ck_assert(kit_is_filled(slot_bytes(&to, i), len, (uint32_t)i));
        ck_assert(kit_is_marked(&to, i * (SLOT + GAP) + len, SLOT + GAP - len));
    }
    kit_retire(&kit, &to);
    kit_close(&kit);
}
END_TEST

START_TEST(spans_make_one_object_in_order)
{
    struct rows_kit kit;
    struct mc_row_state state;
    uint8_t whole[600];
    kit_open(&kit, NULL, NULL);
    struct rows_memory a = kit_memory(&kit, 1000);
    struct rows_memory b = kit_memory(&kit, 1000);
    const struct mc_row_span out[] = {
        {b.region, 500, 100}, {a.region, 0, 300}, {b.region, 0, 200}};
    const struct mc_row_span in[] = {{a.region, 400, 599}, {b.region, 999, 1}};
    struct mc_row row = kit_row("k", out);
    kit_fill(whole, sizeof whole, 3);
    memcpy(b.bytes + 500, whole, 100);
    memcpy(a.bytes, whole + 100, 300);
    memcpy(b.bytes, whole + 400, 200);
    row.span_count = 3;
    kit_await(kit_submit(&kit, MC_ROW_PUT, &row, 1, 0), &state, 1);
    kit_expect(state, MC_ROW_REASON_MOVED);
    row.spans = in;
    row.span_count = 2;
    kit_await(kit_submit(&kit, MC_ROW_GET, &row, 1, 0), &state, 1);
    kit_expect(state, MC_ROW_REASON_MOVED);
    ck_assert_mem_eq(a.bytes + 400, whole, 599);
    ck_assert_mem_eq(b.bytes + 999, whole + 599, 1);
    ck_assert(kit_is_marked(&a, 300, 100) && kit_is_marked(&a, 999, 1));
    ck_assert(kit_is_marked(&b, 600, 399));
    kit_retire(&kit, &a);
    kit_retire(&kit, &b);
    kit_close(&kit);
}
END_TEST

START_TEST(what_is_not_there_is_missed)
{
    struct rows_kit kit;
    kit_open(&kit, NULL, NULL);
    struct rows_memory memory = kit_memory(&kit, SLOT);
    kit_expect(kit_run(&kit, MC_ROW_GET, "none", slot(&memory, 0, SLOT)),
               MC_ROW_REASON_ABSENT);
    ck_assert(kit_is_marked(&memory, 0, SLOT));
    kit_close(&kit);
}
END_TEST

START_TEST(what_is_there_stays_as_it_is)
{
    struct rows_kit kit;
    uint8_t old[SLOT];
    uint8_t now[SLOT];
    kit_open(&kit, NULL, NULL);
    struct rows_memory memory = kit_memory(&kit, SLOT);
    kit_fill(old, SLOT, 1);
    kit_fill(memory.bytes, SLOT, 2);
    ck_assert_int_eq(rows_on->put(kit.world, mc_view_str("k"), old, SLOT),
                     MC_OK);
    kit_expect(kit_run(&kit, MC_ROW_PUT, "k", slot(&memory, 0, SLOT)),
               MC_ROW_REASON_EXISTS);
    ck_assert_int_eq(rows_on->get(kit.world, mc_view_str("k"), now, SLOT),
                     SLOT);
    ck_assert(kit_is_filled(now, SLOT, 1));
    kit_close(&kit);
}
END_TEST

static enum mc_row_reason probe(struct rows_kit *kit, const char *key)
{
    const struct mc_view view = mc_view_str(key);
    struct mc_row_state state;
    ck_assert_int_eq(mc_row_driver_probe(kit->driver, &view, 1, 0, &state),
                     MC_OK);
    ck_assert_int_eq(state.status, mc_row_reason_status(state.reason));
    return state.reason;
}

START_TEST(what_another_writes_is_not_ready)
{
    struct rows_kit kit;
    uint8_t theirs[SLOT];
    kit_open(&kit, NULL, NULL);
    struct rows_memory memory = kit_memory(&kit, SLOT);
    kit_fill(theirs, SLOT, 4);
    ck_assert_int_eq(probe(&kit, "k"), MC_ROW_REASON_ABSENT);
    void *writing = rows_on->write(kit.world, mc_view_str("k"), SLOT);
    kit_expect(kit_run(&kit, MC_ROW_PUT, "k", slot(&memory, 0, SLOT)),
               MC_ROW_REASON_BEING_WRITTEN);
    kit_expect(kit_run(&kit, MC_ROW_GET, "k", slot(&memory, 0, SLOT)),
               MC_ROW_REASON_BEING_WRITTEN);
    ck_assert(kit_is_marked(&memory, 0, SLOT));
    ck_assert_int_eq(probe(&kit, "k"), MC_ROW_REASON_BEING_WRITTEN);
    rows_on->finish(kit.world, writing, theirs);
    ck_assert_int_eq(probe(&kit, "k"), MC_ROW_REASON_EXISTS);
    kit_expect(kit_run(&kit, MC_ROW_GET, "k", slot(&memory, 0, SLOT)),
               MC_ROW_REASON_MOVED);
    ck_assert(kit_is_filled(memory.bytes, SLOT, 4));
    kit_close(&kit);
}
END_TEST

START_TEST(an_object_of_another_size_is_a_fault)
{
    static const size_t sizes[] = {1, SLOT - 1, SLOT + 1, 3 * SLOT};
    struct rows_kit kit;
    uint8_t object[3 * SLOT];
    kit_open(&kit, NULL, NULL);
    struct rows_memory memory = kit_memory(&kit, 3 * SLOT);
    const struct mc_row_span middle = {memory.region, SLOT, SLOT};
    kit_fill(object, sizeof object, 5);
    for (size_t i = 0; i < 4; i++) {
        ck_assert_int_eq(
            rows_on->put(kit.world, mc_view_str("k"), object, sizes[i]), MC_OK);
        kit_expect(kit_run(&kit, MC_ROW_GET, "k", middle),
                   MC_ROW_REASON_WRONG_SIZE);
        ck_assert(kit_is_marked(&memory, 0, SLOT));
        ck_assert(kit_is_marked(&memory, 2 * SLOT, SLOT));
        ck_assert_int_eq(rows_on->remove(kit.world, mc_view_str("k")), MC_OK);
    }
    kit_retire(&kit, &memory);
    kit_close(&kit);
}
END_TEST

START_TEST(a_store_without_room_declines)
{
    const struct rows_store store = {.bytes = KIT_MIB};
    struct rows_kit kit;
    kit_open(&kit, &store, NULL);
    struct rows_memory memory = kit_memory(&kit, KIT_MIB / 2);
    const struct mc_row_span half = {memory.region, 0, KIT_MIB / 2};
    void *writing =
        rows_on->write(kit.world, mc_view_str("big"), KIT_MIB * 3 / 4);
    kit_expect(kit_run(&kit, MC_ROW_PUT, "k", half), MC_ROW_REASON_NO_SPACE);
    rows_on->finish(kit.world, writing, NULL);
    struct mc_row_state state;
    ck_assert(AWAIT((state = kit_run(&kit, MC_ROW_PUT, "k", half),
                     state.status == MC_ROW_READY)));
    kit_close(&kit);
}
END_TEST

/* Each reads the object; of puts the first writes. Whatever part they are in. */
START_TEST(a_key_named_twice_ends_twice)
{
    const struct mc_row_driver_opts opts = {.rows_per_call = _i ? 1 : 0};
    struct rows_kit kit;
    struct mc_row_state states[4];
    struct mc_row_span spans[4];
    struct mc_row rows[4];
    uint8_t now[SLOT];
    kit_open(&kit, NULL, &opts);
    struct rows_memory memory = kit_memory(&kit, 4 * (SLOT + GAP));
    for (size_t i = 0; i < 4; i++) {
        spans[i] = slot(&memory, i, SLOT);
        rows[i] = kit_row(i == 1 ? "other" : "k", &spans[i]);
        kit_fill(slot_bytes(&memory, i), SLOT, (uint32_t)i);
    }
    kit_await(kit_submit(&kit, MC_ROW_PUT, rows, 4, 0), states, 4);
    kit_expect(states[0], MC_ROW_REASON_MOVED);
    kit_expect(states[1], MC_ROW_REASON_MOVED);
    kit_expect(states[2], MC_ROW_REASON_EXISTS);
    kit_expect(states[3], MC_ROW_REASON_EXISTS);
    ck_assert_int_eq(rows_on->get(kit.world, mc_view_str("k"), now, SLOT),
                     SLOT);
    ck_assert(kit_is_filled(now, SLOT, 0));
    kit_await(kit_submit(&kit, MC_ROW_GET, rows, 4, 0), states, 4);
    for (size_t i = 0; i < 4; i++) {
        kit_expect(states[i], MC_ROW_REASON_MOVED);
        ck_assert(kit_is_filled(slot_bytes(&memory, i), SLOT, i == 1));
        ck_assert(kit_is_marked(&memory, i * (SLOT + GAP) + SLOT, GAP));
    }
    kit_close(&kit);
}
END_TEST

/* Nobody is asked about it. */
START_TEST(a_key_of_another_put_under_way_is_not_ready)
{
    struct rows_kit kit;
    struct mc_row_state state;
    kit_open(&kit, NULL, NULL);
    struct rows_memory memory = kit_memory(&kit, SLOT);
    const struct mc_row_span span = slot(&memory, 0, SLOT);
    const struct mc_row row = kit_row("k", &span);
    if (kit_fault(&kit, ROWS_END, ROWS_HOLD, 1)) {
        struct mc_row_op *first =
            kit_submit(&kit, MC_ROW_PUT, &row, 1, KIT_LONG_MS);
        ck_assert(AWAIT(rows_on->is_hit(kit.world)));
        uint64_t requests = rows_on->requests(kit.world);
        kit_expect(kit_run(&kit, MC_ROW_PUT, "k", span),
                   MC_ROW_REASON_WRITTEN_HERE);
        ck_assert_uint_eq(rows_on->requests(kit.world), requests);
        rows_on->lift(kit.world);
        kit_await(first, &state, 1);
        kit_expect(state, MC_ROW_REASON_MOVED);
        kit_expect(kit_run(&kit, MC_ROW_PUT, "k", span), MC_ROW_REASON_EXISTS);
    }
    kit_close(&kit);
}
END_TEST

/* The lease of the first look is over when the bytes are there. */
START_TEST(what_came_after_its_lease_is_read_once_more)
{
    const struct rows_store store = {.bytes = KIT_MIB,
                                     .lease_ms = kit_ms(1000)};
    struct rows_kit kit;
    struct mc_row_state state;
    uint8_t object[SLOT];
    kit_open(&kit, &store, NULL);
    struct rows_memory memory = kit_memory(&kit, SLOT);
    const struct mc_row_span span = slot(&memory, 0, SLOT);
    const struct mc_row row = kit_row("k", &span);
    kit_fill(object, SLOT, 6);
    ck_assert_int_eq(rows_on->put(kit.world, mc_view_str("k"), object, SLOT),
                     MC_OK);
    if (kit_fault(&kit, ROWS_BYTES, ROWS_HOLD, 0)) {
        uint64_t requests = rows_on->requests(kit.world);
        uint64_t begun_ms = kit_now_ms();
        struct mc_row_op *op = kit_submit(&kit, MC_ROW_GET, &row, 1, 0);
        ck_assert(AWAIT(kit_now_ms() > begun_ms + kit_ms(1200)));
        ck_assert(rows_on->is_hit(kit.world));
        rows_on->lift(kit.world);
        kit_await(op, &state, 1);
        kit_expect(state, MC_ROW_REASON_MOVED);
        ck_assert(kit_is_filled(memory.bytes, SLOT, 6));
        ck_assert_uint_ge(rows_on->requests(kit.world), requests + 2);
    }
    kit_retire(&kit, &memory);
    kit_close(&kit);
}
END_TEST

TCase *rows_basic_case(void)
{
    TCase *tcase = tcase_create("basic");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, what_was_put_is_read);
    tcase_add_test(tcase, spans_make_one_object_in_order);
    tcase_add_test(tcase, what_is_not_there_is_missed);
    tcase_add_test(tcase, what_is_there_stays_as_it_is);
    tcase_add_test(tcase, what_another_writes_is_not_ready);
    tcase_add_test(tcase, an_object_of_another_size_is_a_fault);
    tcase_add_test(tcase, a_store_without_room_declines);
    tcase_add_loop_test(tcase, a_key_named_twice_ends_twice, 0, 2);
    tcase_add_test(tcase, a_key_of_another_put_under_way_is_not_ready);
    tcase_add_test(tcase, what_came_after_its_lease_is_read_once_more);
    return tcase;
}
