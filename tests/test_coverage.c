/* SPDX-License-Identifier: Apache-2.0 */
/* test_coverage.c - what is written and what is on its way, against a byte map. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_fail.h"
#include "coverage.h"
#include "suite.h"

static enum mc_err write_range(struct mci_coverage *coverage, uint64_t from,
                               uint64_t len)
{
    const struct mci_interval range = {from, len};
    enum mc_err err = mci_coverage_begin(coverage, &range, 1);
    if (err == MC_OK) {
        mci_coverage_end(coverage, &range, 1, true);
    }
    return err;
}

static bool has_hole(const struct mci_coverage *coverage, uint64_t from,
                     uint64_t len)
{
    struct mci_interval hole;
    return mci_coverage_hole(coverage, 0, &hole) && hole.from == from &&
           hole.len == len;
}

START_TEST(layers_join_into_one_range)
{
    struct mci_coverage coverage;
    struct mci_interval hole;
    mci_coverage_init(&coverage, 40);
    ck_assert(has_hole(&coverage, 0, 40));
    for (uint64_t i = 0; i < 4; i++) {
        static const uint64_t order[] = {1, 3, 0, 2};
        ck_assert_int_eq(write_range(&coverage, order[i] * 10, 10), MC_OK);
    }
    ck_assert_uint_eq(coverage.written.count, 1);
    ck_assert(!mci_coverage_hole(&coverage, 0, &hole));
    mci_coverage_fini(&coverage);
}
END_TEST

START_TEST(what_has_not_arrived_is_a_hole)
{
    struct mci_coverage coverage;
    const struct mci_interval ranges[] = {{0, 10}, {20, 20}};
    mci_coverage_init(&coverage, 40);
    ck_assert_int_eq(mci_coverage_begin(&coverage, ranges, 2), MC_OK);
    ck_assert(!mci_coverage_is_idle(&coverage));
    ck_assert(has_hole(&coverage, 0, 40));
    mci_coverage_end(&coverage, &ranges[0], 1, true);
    mci_coverage_end(&coverage, &ranges[1], 1, false);
    ck_assert(mci_coverage_is_idle(&coverage));
    ck_assert(has_hole(&coverage, 10, 30));
    mci_coverage_fini(&coverage);
}
END_TEST

START_TEST(two_writes_of_a_byte_are_not_on_their_way_at_a_time)
{
    struct mci_coverage coverage;
    const struct mci_interval first = {10, 10};
    const struct mci_interval twice[] = {{0, 5}, {20, 5}, {4, 1}};
    mci_coverage_init(&coverage, 40);
    ck_assert_int_eq(mci_coverage_begin(&coverage, &first, 1), MC_OK);
    for (uint64_t from = 0; from < 30; from++) {
        bool overlaps = from < 20 && from + 3 > 10;
        ck_assert_int_eq(write_range(&coverage, from, 3),
                         overlaps ? MC_ERR_INVALID_PARAMS : MC_OK);
    }
    /* Nor of one call; then nothing of it has begun. */
    ck_assert_int_eq(mci_coverage_begin(&coverage, twice, 3),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_uint_eq(coverage.on_way.count, 1);
    mci_coverage_end(&coverage, &first, 1, false);
    ck_assert_int_eq(write_range(&coverage, 0, 40), MC_OK);
    mci_coverage_fini(&coverage);
}
END_TEST

/* Every pair that could wrap. */
START_TEST(no_sum_of_offset_and_length_wraps)
{
    static const uint64_t sizes[] = {1, 100, UINT64_C(1) << 48};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const uint64_t size = sizes[s];
        const uint64_t edges[] = {0,
                                  1,
                                  size - 1,
                                  size,
                                  size + 1,
                                  UINT64_C(1) << 31,
                                  UINT64_C(1) << 32,
                                  UINT64_C(1) << 63,
                                  UINT64_MAX - 1,
                                  UINT64_MAX};
        for (size_t i = 0; i < 100; i++) {
            struct mci_coverage coverage;
            uint64_t from = edges[i / 10];
            uint64_t len = edges[i % 10];
            bool fits = len <= size && from <= size - len;
            mci_coverage_init(&coverage, size);
            ck_assert_int_eq(write_range(&coverage, from, len),
                             fits ? MC_OK : MC_ERR_INVALID_PARAMS);
            ck_assert_uint_eq(coverage.written.count, fits && len > 0);
            mci_coverage_fini(&coverage);
        }
    }
}
END_TEST

/* ---- against a map of bytes ------------------------------------------------ */

#define BYTES 64

static void compare(const struct mci_coverage *coverage, const uint8_t *map)
{
    for (uint64_t at = 0; at <= BYTES; at++) {
        struct mci_interval hole = {0, 0};
        uint64_t from = at;
        while (from < BYTES && map[from]) {
            from++;
        }
        uint64_t end = from;
        while (end < BYTES && !map[end]) {
            end++;
        }
        bool is_hole = mci_coverage_hole(coverage, at, &hole);
        ck_assert_int_eq(is_hole, from < BYTES);
        ck_assert(!is_hole || (hole.from == from && hole.len == end - from));
    }
}

START_TEST(any_order_of_ranges_gives_the_same_bytes)
{
    uint32_t seed = 12345;
    for (int round = 0; round < 500; round++) {
        struct mci_coverage coverage;
        uint8_t map[BYTES] = {0};
        mci_coverage_init(&coverage, BYTES);
        for (int i = 0; i < 20; i++) {
            seed = seed * 1664525 + 1013904223;
            uint64_t from = (seed >> 8) % BYTES;
            uint64_t len = (seed >> 16) % (BYTES - from + 1) % 12;
            ck_assert_int_eq(write_range(&coverage, from, len), MC_OK);
            memset(map + from, 1, len);
            compare(&coverage, map);
        }
        mci_coverage_fini(&coverage);
    }
}
END_TEST

START_TEST(ranges_are_bounded)
{
    struct mci_coverage coverage;
    mci_coverage_init(&coverage, UINT64_C(1) << 40);
    for (uint64_t i = 0; i < MCI_COVERAGE_MAX; i++) {
        ck_assert_int_eq(write_range(&coverage, 2 * i, 1), MC_OK);
    }
    ck_assert_int_eq(write_range(&coverage, 2 * MCI_COVERAGE_MAX, 1),
                     MC_ERR_NO_AVAILABLE_HANDLE);
    mci_coverage_fini(&coverage);
}
END_TEST

START_TEST(a_range_that_finds_no_memory_has_not_begun)
{
    struct alloc_fail fail;
    ALLOC_FAIL_EACH(fail)
    {
        struct mci_coverage coverage;
        mci_coverage_init(&coverage, 40);
        alloc_fail_arm(&fail);
        enum mc_err err = write_range(&coverage, 10, 10);
        alloc_fail_disarm(&fail);
        bool failed = alloc_fail_happened(&fail);
        ck_assert_int_eq(err, failed ? MC_ERR_NOMEM : MC_OK);
        ck_assert(mci_coverage_is_idle(&coverage));
        ck_assert_uint_eq(coverage.written.count, !failed);
        mci_coverage_fini(&coverage);
    }
}
END_TEST

static TCase *ranges(void)
{
    TCase *tcase = tcase_create("ranges");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, layers_join_into_one_range);
    tcase_add_test(tcase, what_has_not_arrived_is_a_hole);
    tcase_add_test(tcase, two_writes_of_a_byte_are_not_on_their_way_at_a_time);
    tcase_add_test(tcase, no_sum_of_offset_and_length_wraps);
    tcase_add_test(tcase, any_order_of_ranges_gives_the_same_bytes);
    tcase_add_test(tcase, ranges_are_bounded);
    tcase_add_test(tcase, a_range_that_finds_no_memory_has_not_begun);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("coverage");
    suite_add_tcase(suite, ranges());
    return suite_run(suite);
}
