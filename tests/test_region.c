/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that rows may name: what is counted, what overlaps, what is pinned. */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>

#include "alloc_fail.h"
#include "await.h"
#include "mci_clock.h"
#include "region.h"
#include "suite.h"

static uint8_t memory[1 << 16];

static struct mci_regions *make(void)
{
    static struct mci_regions regions;
    ck_assert_int_eq(mci_regions_init(&regions), MC_OK);
    return &regions;
}

START_TEST(the_same_range_is_counted)
{
    struct mci_regions *regions = make();
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(mci_regions_add(regions, memory, 100), MC_OK);
    }
    for (int i = 0; i < 3; i++) {
        ck_assert(mci_regions_has(regions, memory, 100));
        ck_assert_int_eq(mci_regions_remove(regions, memory, 0), MC_OK);
    }
    ck_assert(!mci_regions_has(regions, memory, 1));
    ck_assert_int_eq(mci_regions_remove(regions, memory, 0),
                     MC_ERR_INVALID_PARAMS);
    mci_regions_fini(regions);
}
END_TEST

START_TEST(other_overlaps_and_odd_ranges_are_refused)
{
    struct mci_regions *regions = make();
    ck_assert_int_eq(mci_regions_add(regions, memory + 1000, 1000), MC_OK);
    static const struct {
        size_t at;
        size_t len;
        enum mc_err err;
    } cases[] = {
        {1000, 999, MC_ERR_INVALID_PARAMS}, {1000, 1001, MC_ERR_INVALID_PARAMS},
        {999, 2, MC_ERR_INVALID_PARAMS},    {999, 1, MC_OK},
        {1999, 1, MC_ERR_INVALID_PARAMS},   {2000, 5, MC_OK},
        {0, 5000, MC_ERR_INVALID_PARAMS},   {1500, 1, MC_ERR_INVALID_PARAMS},
        {3000, 0, MC_ERR_INVALID_PARAMS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert_int_eq(
            mci_regions_add(regions, memory + cases[i].at, cases[i].len),
            cases[i].err);
    }
    ck_assert_int_eq(mci_regions_add(regions, NULL, 10), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mci_regions_add(regions, memory + 9000, SIZE_MAX),
                     MC_ERR_INVALID_PARAMS);
    /* Neighbours are not one range. */
    ck_assert(!mci_regions_has(regions, memory + 1000, 1001));
    ck_assert(mci_regions_has(regions, memory + 1000, 1000));
    ck_assert(mci_regions_has(regions, memory + 1999, 1));
    mci_regions_fini(regions);
}
END_TEST

START_TEST(pins_are_all_or_none)
{
    struct mci_regions *regions = make();
    ck_assert_int_eq(mci_regions_add(regions, memory, 100), MC_OK);
    ck_assert_int_eq(mci_regions_add(regions, memory + 200, 100), MC_OK);
    struct mc_span good[] = {
        {memory, 10}, {NULL, 0}, {memory + 290, 10}, {memory + 50, 50}};
    struct mc_span bad[] = {{memory, 10}, {memory + 150, 10}};
    ck_assert(!mci_regions_pin(regions, bad, 2));
    ck_assert(mci_regions_pin(regions, good, 4));
    ck_assert_int_eq(mci_regions_remove(regions, memory, 0),
                     MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS);
    ck_assert_int_eq(mci_regions_remove(regions, memory + 200, 0),
                     MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS);
    ck_assert(mci_regions_pin(regions, good, 1)); /* it is not leaving */
    mci_regions_unpin(regions, good, 1);
    mci_regions_unpin(regions, good, 4);
    ck_assert_int_eq(mci_regions_remove(regions, memory, 0), MC_OK);
    ck_assert_int_eq(mci_regions_remove(regions, memory + 200, 0), MC_OK);
    mci_regions_fini(regions);
}
END_TEST

static void *remove_it(void *arg)
{
    return (void *)(intptr_t)mci_regions_remove(arg, memory, UINT64_MAX);
}

START_TEST(a_range_that_is_leaving_takes_no_new_rows)
{
    struct mci_regions *regions = make();
    struct mc_span span = {memory, 10};
    pthread_t thread;
    void *err = NULL;
    ck_assert_int_eq(mci_regions_add(regions, memory, 100), MC_OK);
    ck_assert(mci_regions_pin(regions, &span, 1));
    ck_assert_int_eq(pthread_create(&thread, NULL, remove_it, regions), 0);
    bool was_pinned = true;
    while (was_pinned) {
        was_pinned = mci_regions_pin(regions, &span, 1);
        if (was_pinned) {
            mci_regions_unpin(regions, &span, 1);
            await_turn();
        }
    }
    mci_regions_unpin(regions, &span, 1);
    ck_assert_int_eq(pthread_join(thread, &err), 0);
    ck_assert_ptr_null(err);
    ck_assert(!mci_regions_has(regions, memory, 1));
    mci_regions_fini(regions);
}
END_TEST

START_TEST(many_ranges_are_found)
{
    struct mci_regions *regions = make();
    /* In an order of their own, every second 16 bytes. */
    for (size_t i = 0; i < 2048; i++) {
        size_t at = i * 1031 % 2048;
        ck_assert_int_eq(mci_regions_add(regions, memory + 32 * at, 16), MC_OK);
    }
    for (size_t i = 0; i < 2048; i++) {
        ck_assert(mci_regions_has(regions, memory + 32 * i, 16));
        ck_assert(!mci_regions_has(regions, memory + 32 * i + 16, 1));
    }
    for (size_t i = 0; i < 2048; i++) {
        size_t at = i * 517 % 2048;
        ck_assert_int_eq(mci_regions_remove(regions, memory + 32 * at, 0),
                         MC_OK);
    }
    mci_regions_fini(regions);
}
END_TEST

START_TEST(registering_without_memory_leaves_nothing)
{
    struct alloc_fail fail;
    ALLOC_FAIL_EACH(fail)
    {
        struct mci_regions *regions = make();
        alloc_fail_arm(&fail);
        enum mc_err err = mci_regions_add(regions, memory, 100);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        ck_assert_int_eq(mci_regions_has(regions, memory, 1), err == MC_OK);
        mci_regions_fini(regions);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("region");
    TCase *ranges = tcase_create("ranges");
    tcase_add_test(ranges, the_same_range_is_counted);
    tcase_add_test(ranges, other_overlaps_and_odd_ranges_are_refused);
    tcase_add_test(ranges, pins_are_all_or_none);
    tcase_add_test(ranges, a_range_that_is_leaving_takes_no_new_rows);
    tcase_add_test(ranges, many_ranges_are_found);
    tcase_add_test(ranges, registering_without_memory_leaves_nothing);
    suite_add_tcase(suite, ranges);
    return suite_run(suite);
}
