/* SPDX-License-Identifier: Apache-2.0 */
/* The ids that were passed over, against a plain array of what each one is; and
 * what a cursor makes of those that were fetched. */
#include "cursor_fetch.h"
#include "draw.h"
#include "holes.h"
#include "suite.h"

enum { IDS = 4000 };

/* 0: there, 1: lost, 2: refused. */
struct plain {
    char ids[IDS];
    uint64_t lost;
    uint64_t refused;
};

static void check(const struct holes *holes, const struct plain *plain,
                  uint64_t *state)
{
    uint64_t first = 0;
    uint64_t last = 0;
    for (uint64_t id = 1; id < IDS; id++) {
        if (plain->ids[id]) {
            first = first ? first : id;
            last = id;
        }
    }
    ck_assert_uint_eq(holes_last(holes), last);
    ck_assert_uint_eq(holes_first(holes), first);
    ck_assert(holes_are_empty(holes) == (first == 0));
    uint64_t from = 1 + draw(state, IDS - 30);
    bool is_met = false;
    for (uint64_t id = from; id <= from + 20; id++) {
        is_met |= plain->ids[id] != 0;
    }
    ck_assert(holes_meet(holes, from, from + 20) == is_met);
}

static void take_to(struct holes *holes, struct plain *plain, uint64_t to)
{
    struct holes_taken taken = holes_take_to(holes, to);
    struct holes_taken want = {0, 0};
    for (uint64_t id = 1; id <= to; id++) {
        want.lost += plain->ids[id] == 1;
        want.refused += plain->ids[id] == 2;
        plain->ids[id] = 0;
    }
    ck_assert_uint_eq(taken.lost, want.lost);
    ck_assert_uint_eq(taken.refused, want.refused);
}

START_TEST(at_random_it_is_what_a_plain_array_is)
{
    uint64_t state = UINT64_C(0x2545f4914f6cdd1d) + (uint64_t)_i;
    struct holes holes = {.count = 0};
    struct plain plain = {.lost = 0};
    uint64_t top = 0;
    for (int step = 0; step < 400; step++) {
        uint64_t kind = draw(&state, 20);
        if (kind < 8 && top + 40 < IDS) {
            uint64_t from = top + 1 + draw(&state, 8);
            top = from + draw(&state, 12);
            bool is_refused = draw(&state, 3) == 0;
            struct cursor_hole hole = {from, top, is_refused};
            holes_add(&holes, &hole);
            memset(&plain.ids[from], is_refused ? 2 : 1, top - from + 1);
        } else if (kind < 19) {
            uint64_t id = 1 + draw(&state, top + 1);
            bool is_refused = false;
            bool is_taken = holes_take(&holes, id, &is_refused);
            ck_assert(is_taken == (plain.ids[id] != 0));
            ck_assert(!is_taken || is_refused == (plain.ids[id] == 2));
            plain.ids[id] = 0;
        } else {
            take_to(&holes, &plain, draw(&state, top + 1));
        }
        check(&holes, &plain, &state);
    }
}
END_TEST

START_TEST(too_many_ranges_are_counted_and_covered_only_as_a_whole)
{
    struct holes holes = {.count = 0};
    bool is_refused = false;
    for (uint64_t i = 0; i < HOLES_MAX + 10; i++) {
        struct cursor_hole hole = {10 * i + 1, 10 * i + 3, i % 2 == 1};
        holes_add(&holes, &hole);
    }
    const uint64_t last = 10 * (HOLES_MAX + 9) + 3;
    ck_assert_uint_eq(holes.count, HOLES_MAX);
    ck_assert_uint_eq(holes_last(&holes), last);
    ck_assert(!holes_take(&holes, last, &is_refused));
    struct holes_taken taken = holes_take_to(&holes, last - 1);
    ck_assert_uint_eq(taken.lost + taken.refused, 3 * HOLES_MAX);
    ck_assert(!holes_are_empty(&holes));
    taken = holes_take_to(&holes, last);
    ck_assert_uint_eq(taken.lost, 15);
    ck_assert_uint_eq(taken.refused, 15);
    ck_assert(holes_are_empty(&holes));
}
END_TEST

START_TEST(a_split_range_without_a_place_for_its_rest_loses_no_id)
{
    struct holes holes = {.count = 0};
    bool is_refused = false;
    for (uint64_t i = 0; i < HOLES_MAX; i++) {
        struct cursor_hole hole = {10 * i + 1, 10 * i + 3, false};
        holes_add(&holes, &hole);
    }
    ck_assert(holes_take(&holes, 2, &is_refused));
    struct holes_taken taken = holes_take_to(&holes, UINT64_MAX);
    ck_assert_uint_eq(taken.lost, 3 * HOLES_MAX - 1);
}
END_TEST

/* ---- the cursor ---- */

static void check_sum(const struct cursor *cursor)
{
    ck_assert_uint_eq(cursor->delivered + cursor_refused(cursor) + cursor->lost,
                      cursor_span(cursor));
}

static void hear(struct cursor *cursor, struct holes *holes, uint64_t seq,
                 uint64_t from_id, uint64_t to_id)
{
    struct cursor_message message = {.seq = seq,
                                     .count = (uint32_t)(to_id - from_id + 1),
                                     .has_event = true,
                                     .first_id = from_id,
                                     .last_id = to_id,
                                     .epoch = 9};
    struct cursor_finding finding;
    ck_assert_int_eq(cursor_message(cursor, &message, &finding), CURSOR_NEXT);
    for (uint64_t id = from_id;; id++) {
        for (unsigned i = 0; i < finding.hole_count; i++) {
            holes_add(holes, &finding.holes[i]);
        }
        if (id > to_id) {
            break;
        }
        (void)cursor_event(cursor, 9, id, &finding);
    }
    check_sum(cursor);
}

static struct cursor made(void)
{
    struct cursor cursor;
    cursor_init(&cursor);
    cursor.keeps_losses = true;
    return cursor;
}

START_TEST(what_is_passed_over_is_named_and_can_be_fetched)
{
    struct cursor cursor = made();
    struct holes holes = {.count = 0};
    bool is_refused = true;
    hear(&cursor, &holes, 1, 1, 4);
    cursor_event_refused(&cursor);
    cursor_event_refused(&cursor);
    ck_assert(!cursor_is_whole(&cursor));
    hear(&cursor, &holes, 3, 9, 9);
    ck_assert(cursor_is_whole(&cursor));
    ck_assert_uint_eq(holes.count, 2);
    ck_assert(holes_take(&holes, 6, &is_refused));
    ck_assert(is_refused);
    cursor_fetched(&cursor, 1, is_refused);
    check_sum(&cursor);
    ck_assert(holes_take(&holes, 7, &is_refused));
    ck_assert(!is_refused);
    cursor_fetched(&cursor, 1, is_refused);
    check_sum(&cursor);
    ck_assert_uint_eq(cursor.delivered, 7);
    ck_assert_uint_eq(cursor.refused, 1);
    ck_assert_uint_eq(cursor.lost, 1);
}
END_TEST

START_TEST(old_ids_under_a_new_number_are_doubted_and_not_believed)
{
    struct cursor cursor = made();
    struct holes holes = {.count = 0};
    struct cursor_message message = {
        .seq = 2, .count = 1, .has_event = true, .first_id = 2, .last_id = 2};
    struct cursor_finding finding;
    message.epoch = 9;
    hear(&cursor, &holes, 1, 1, 4);
    ck_assert_int_eq(cursor_message(&cursor, &message, &finding), CURSOR_NEXT);
    ck_assert_uint_eq(finding.what, CURSOR_OLD);
    ck_assert_int_eq(cursor_event(&cursor, 9, 2, &finding), CURSOR_DUPLICATE);
    ck_assert_uint_eq(cursor.last_seq, 2);
    ck_assert_uint_eq(cursor.mark, 4);
    check_sum(&cursor);
}
END_TEST

START_TEST(a_jump_delivers_what_a_snapshot_covers)
{
    struct cursor cursor = made();
    struct holes holes = {.count = 0};
    hear(&cursor, &holes, 1, 1, 4);
    cursor_event_refused(&cursor);
    cursor_jump(&cursor, 3);
    ck_assert_uint_eq(cursor.mark, 4);
    cursor_jump(&cursor, 9);
    check_sum(&cursor);
    ck_assert_uint_eq(cursor.delivered, 9);
    ck_assert_uint_eq(cursor_refused(&cursor), 0);
    hear(&cursor, &holes, 2, 10, 10);
    ck_assert(holes_are_empty(&holes));
}
END_TEST

START_TEST(a_snapshot_is_a_baseline)
{
    struct cursor cursor = made();
    struct holes holes = {.count = 0};
    struct cursor_finding finding;
    cursor_adopt(&cursor, 9, 100, 50, &finding);
    ck_assert_uint_eq(finding.what, CURSOR_EPOCH);
    ck_assert_uint_eq(finding.baseline_id, 100);
    hear(&cursor, &holes, 51, 101, 101);
    ck_assert(holes_are_empty(&holes));
    hear(&cursor, &holes, 53, 103, 103);
    ck_assert_uint_eq(holes_first(&holes), 102);
    cursor_adopt(&cursor, 10, 7, 3, &finding);
    ck_assert_uint_eq(finding.what, CURSOR_EPOCH | CURSOR_MOVED);
    ck_assert_uint_eq(cursor.restarts, 1);
    check_sum(&cursor);
}
END_TEST

START_TEST(a_baseline_can_be_moved_back_to_a_snapshot)
{
    struct cursor cursor = made();
    struct holes holes = {.count = 0};
    struct cursor_finding finding;
    hear(&cursor, &holes, 7, 30, 31);
    cursor_reach_back(&cursor, 25, &finding);
    ck_assert_uint_eq(finding.hole_count, 1);
    ck_assert_uint_eq(finding.holes[0].from_id, 26);
    ck_assert_uint_eq(finding.holes[0].to_id, 29);
    check_sum(&cursor);
    cursor_reach_back(&cursor, 27, &finding);
    ck_assert_uint_eq(finding.hole_count, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("holes");
    TCase *holes = tcase_create("holes");
    tcase_add_loop_test(holes, at_random_it_is_what_a_plain_array_is, 0, 50);
    tcase_add_test(holes,
                   too_many_ranges_are_counted_and_covered_only_as_a_whole);
    tcase_add_test(holes,
                   a_split_range_without_a_place_for_its_rest_loses_no_id);
    suite_add_tcase(suite, holes);
    TCase *cursor = tcase_create("cursor");
    tcase_add_test(cursor, what_is_passed_over_is_named_and_can_be_fetched);
    tcase_add_test(cursor,
                   old_ids_under_a_new_number_are_doubted_and_not_believed);
    tcase_add_test(cursor, a_jump_delivers_what_a_snapshot_covers);
    tcase_add_test(cursor, a_snapshot_is_a_baseline);
    tcase_add_test(cursor, a_baseline_can_be_moved_back_to_a_snapshot);
    suite_add_tcase(suite, cursor);
    return suite_run(suite);
}
