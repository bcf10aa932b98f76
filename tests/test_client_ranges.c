/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_ranges.c - pieces of objects: C1, J4 of the known faults. */
#include <stdlib.h>
#include <string.h>

#include "client_rig.h"
#include "crowd_rig.h"
#include "suite.h"

#define LEN 4000

static struct client_rig rig;
static uint8_t value[LEN];
static uint8_t buffer[3 * LEN];

static void open_filled(void)
{
    client_open(&rig, NULL);
    for (size_t i = 0; i < LEN; i++) {
        value[i] = (uint8_t)(i * 7 + i / 256);
    }
    memset(buffer, 0xcc, sizeof buffer);
    ck_assert_int_eq(client_put(&rig, "a", value, LEN), MC_OK);
    ck_assert_int_eq(client_put(&rig, "b", value, 100), MC_OK);
}

START_TEST(pieces_go_where_they_are_wanted)
{
    const struct mc_range of_a[] = {
        {.to = 10, .from = 5, .len = 20},
        {.to = LEN, .from = 0, .len = LEN},
        {.to = 100, .from = LEN - 1, .len = 1},
        {.to = 200, .from = LEN, .len = 0},
    };
    const struct mc_range of_b[] = {{.to = 50, .from = 90, .len = 10}};
    int64_t results_a[4];
    int64_t results_b[1];
    const struct mc_range_row rows[] = {{mc_view_str("a"), of_a, 4, results_a},
                                        {mc_view_str("b"), of_b, 1, results_b}};
    open_filled();
    ck_assert_int_eq(
        mc_client_get_into_ranges(rig.client, buffer, sizeof buffer, rows, 2),
        MC_OK);
    ck_assert(results_a[0] == 20 && results_a[1] == LEN && results_a[2] == 1 &&
              results_a[3] == 0 && results_b[0] == 10);
    ck_assert_mem_eq(buffer + 10, value + 5, 20);
    ck_assert_mem_eq(buffer + LEN, value, LEN);
    ck_assert_mem_eq(buffer + 100, value + LEN - 1, 1);
    ck_assert_mem_eq(buffer + 50, value + 90, 10);
    ck_assert(buffer[9] == 0xcc && buffer[30] == 0xcc && buffer[49] == 0xcc &&
              buffer[60] == 0xcc && buffer[99] == 0xcc && buffer[101] == 0xcc &&
              buffer[200] == 0xcc && buffer[LEN - 1] == 0xcc &&
              buffer[2 * LEN] == 0xcc);
    client_close(&rig);
}
END_TEST

/* J4: every pair of offset and length that could wrap. */
START_TEST(no_sum_of_offset_and_length_wraps)
{
    static const uint64_t edges[] = {0,
                                     1,
                                     99,
                                     100,
                                     101,
                                     UINT64_C(1) << 31,
                                     UINT64_C(1) << 32,
                                     UINT64_C(1) << 63,
                                     UINT64_MAX - 99,
                                     UINT64_MAX};
    const size_t count = sizeof edges / sizeof edges[0];
    open_filled();
    for (size_t i = 0; i < count * count * count; i++) {
        const struct mc_range ranges[] = {{.to = 0, .from = 0, .len = 1},
                                          {.to = edges[i / count / count],
                                           .from = edges[i / count % count],
                                           .len = edges[i % count]},
                                          {.to = 1, .from = 1, .len = 1}};
        int64_t results[3] = {7, 7, 7};
        const struct mc_range_row row = {mc_view_str("b"), ranges, 3, results};
        const struct mc_range *range = &ranges[1];
        bool fits = range->len <= 100 && range->from <= 100 - range->len &&
                    range->to <= sizeof buffer - range->len;
        ck_assert_int_eq(mc_client_get_into_ranges(rig.client, buffer,
                                                   sizeof buffer, &row, 1),
                         MC_OK);
        ck_assert_int_eq(results[0], 1);
        ck_assert_int_eq(results[2], 1);
        ck_assert_int_eq(results[1],
                         fits ? (int64_t)range->len : MC_ERR_INVALID_PARAMS);
    }
    client_close(&rig);
}
END_TEST

START_TEST(a_missing_object_fails_its_pieces_only)
{
    const struct mc_range ranges[] = {{0, 0, 1}, {1, 1, 1}};
    int64_t results[3][2];
    const struct mc_range_row rows[] = {
        {mc_view_str("a"), ranges, 2, results[0]},
        {mc_view_str("nothing"), ranges, 2, results[1]},
        {mc_view_make("\xff", 1), ranges, 2, results[2]}};
    open_filled();
    ck_assert_int_eq(
        mc_client_get_into_ranges(rig.client, buffer, sizeof buffer, rows, 3),
        MC_OK);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(results[0][i], 1);
        ck_assert_int_eq(results[1][i], MC_ERR_OBJECT_NOT_FOUND);
        ck_assert_int_eq(results[2][i], MC_ERR_INVALID_KEY);
    }
    client_close(&rig);
}
END_TEST

START_TEST(a_call_that_cannot_be_is_refused_whole)
{
    const struct mc_range range = {0, 0, 1};
    int64_t result = 7;
    const struct mc_range_row row = {mc_view_str("a"), &range, 1, &result};
    const struct mc_range_row no_ranges = {mc_view_str("a"), NULL, 1, &result};
    const struct mc_range_row no_results = {mc_view_str("a"), &range, 1, NULL};
    open_filled();
    ck_assert_int_eq(mc_client_get_into_ranges(rig.client, NULL, 10, &row, 1),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(result, MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_client_get_into_ranges(rig.client, buffer, 0, &row, 1),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(
        mc_client_get_into_ranges(rig.client, buffer, 9, &no_ranges, 1),
        MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(
        mc_client_get_into_ranges(rig.client, buffer, 9, &no_results, 1),
        MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_client_get_into_ranges(rig.client, buffer, 9, NULL, 1),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_client_get_into_ranges(rig.client, buffer, 9, NULL, 0),
                     MC_OK);
    client_close(&rig);
}
END_TEST

/* The buffer as a whole has to be registered (store.md 10: its capacity is
 * checked). */
START_TEST(a_buffer_that_is_registered_in_part_is_refused)
{
    const struct mc_range range = {0, 0, 1};
    int64_t result = 7;
    const struct mc_range_row row = {mc_view_str("a"), &range, 1, &result};
    client_open_strict(&rig, NULL);
    ck_assert_int_eq(client_put(&rig, "a", value, LEN), MC_OK);
    ck_assert_int_eq(mc_client_register_buffer(rig.client, buffer, LEN), MC_OK);
    ck_assert_int_eq(
        mc_client_get_into_ranges(rig.client, buffer, LEN + 1, &row, 1),
        MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(
        mc_client_get_into_ranges(rig.client, buffer, LEN, &row, 1), MC_OK);
    ck_assert_int_eq(result, 1);
    ck_assert_int_eq(mc_client_unregister_buffer(rig.client, buffer), MC_OK);
    client_close(&rig);
}
END_TEST

/* More pieces than a slice or a run takes, in one row and over many. */
START_TEST(thousands_of_pieces_are_all_read)
{
    enum { PIECES = 9000, ROWS = 200 };
    struct mc_range *ranges = must_alloc(PIECES * sizeof *ranges);
    int64_t *results = must_alloc((PIECES + ROWS) * sizeof *results);
    struct mc_range_row *rows = must_alloc((ROWS + 1) * sizeof *rows);
    uint8_t *many = must_alloc(PIECES);
    open_filled();
    for (uint64_t i = 0; i < PIECES; i++) {
        ranges[i] = (struct mc_range){
            .to = PIECES - 1 - i, .from = i * 31 % LEN, .len = 1};
    }
    for (size_t i = 0; i < ROWS; i++) {
        rows[i] = (struct mc_range_row){mc_view_str("a"), &ranges[i], 1,
                                        &results[PIECES + i]};
    }
    rows[ROWS] =
        (struct mc_range_row){mc_view_str("a"), ranges, PIECES, results};
    ck_assert_int_eq(
        mc_client_get_into_ranges(rig.client, many, PIECES, rows, ROWS + 1),
        MC_OK);
    for (size_t i = 0; i < PIECES; i++) {
        ck_assert_int_eq(results[i], 1);
        ck_assert_uint_eq(many[PIECES - 1 - i], value[i * 31 % LEN]);
    }
    for (size_t i = 0; i < ROWS; i++) {
        ck_assert_int_eq(results[PIECES + i], 1);
    }
    client_close(&rig);
    free(ranges);
    free(results);
    free(rows);
    free(many);
}
END_TEST

static TCase *pieces(void)
{
    TCase *tcase = tcase_create("pieces");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, pieces_go_where_they_are_wanted);
    tcase_add_test(tcase, no_sum_of_offset_and_length_wraps);
    tcase_add_test(tcase, a_missing_object_fails_its_pieces_only);
    tcase_add_test(tcase, a_call_that_cannot_be_is_refused_whole);
    tcase_add_test(tcase, a_buffer_that_is_registered_in_part_is_refused);
    tcase_add_test(tcase, thousands_of_pieces_are_all_read);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("client ranges");
    suite_add_tcase(suite, pieces());
    return suite_run(suite);
}
