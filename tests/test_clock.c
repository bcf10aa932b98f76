/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <time.h>

#include "mci_clock.h"
#include "suite.h"

static uint64_t boot_time_ns(void)
{
    struct timespec now;
    ck_assert_int_eq(clock_gettime(CLOCK_BOOTTIME, &now), 0);
    return (uint64_t)now.tv_sec * MCI_NS_PER_S + (uint64_t)now.tv_nsec;
}

static void use_real_clock(void)
{
    mci_clock_fake(NULL);
}

START_TEST(test_the_clock_is_boot_time)
{
    uint64_t before = boot_time_ns();
    uint64_t now_ns = mci_clock_ns();
    uint64_t after = boot_time_ns();
    ck_assert_uint_gt(now_ns, 0);
    ck_assert_uint_le(before, now_ns);
    ck_assert_uint_le(now_ns, after);
}
END_TEST

START_TEST(test_the_wall_clock_is_unix_time_in_ms)
{
    uint64_t before = (uint64_t)time(NULL) * 1000;
    uint64_t wall_ms = mci_clock_wall_ms();
    /* time() may be a tick behind. */
    ck_assert_uint_ge(wall_ms + 1000, before);
    ck_assert_uint_le(wall_ms, ((uint64_t)time(NULL) + 2) * 1000);
}
END_TEST

START_TEST(test_a_fake_clock_answers_what_the_test_says)
{
    uint64_t now_ns = 5;
    mci_clock_fake(&now_ns);
    ck_assert_uint_eq(mci_clock_ns(), 5);
    __atomic_store_n(&now_ns, 7 * MCI_NS_PER_S, __ATOMIC_RELEASE);
    ck_assert_uint_eq(mci_clock_ns(), 7 * MCI_NS_PER_S);
    ck_assert_uint_gt(mci_clock_wall_ms(), 7000);
    mci_clock_fake(NULL);
    ck_assert_uint_ge(mci_clock_ns() + MCI_NS_PER_S, boot_time_ns());
}
END_TEST

START_TEST(test_a_deadline_is_now_and_the_duration)
{
    ck_assert_uint_eq(mci_clock_deadline(10, 1), 10 + MCI_NS_PER_MS);
    ck_assert_uint_eq(mci_clock_deadline(0, 1000), MCI_NS_PER_S);
}
END_TEST

START_TEST(test_no_duration_and_sums_that_wrap_are_no_deadline)
{
    uint64_t most_ms = UINT64_MAX / MCI_NS_PER_MS;
    ck_assert_uint_eq(mci_clock_deadline(10, 0), UINT64_MAX);
    ck_assert_uint_eq(mci_clock_deadline(10, UINT64_MAX), UINT64_MAX);
    ck_assert_uint_eq(mci_clock_deadline(0, most_ms + 1), UINT64_MAX);
    ck_assert_uint_eq(mci_clock_deadline(UINT64_MAX - 5, 1), UINT64_MAX);
    ck_assert_uint_eq(mci_clock_deadline(0, most_ms), most_ms * MCI_NS_PER_MS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("clock");
    TCase *tcase = tcase_create("clocks");
    tcase_add_checked_fixture(tcase, NULL, use_real_clock);
    tcase_add_test(tcase, test_the_clock_is_boot_time);
    tcase_add_test(tcase, test_the_wall_clock_is_unix_time_in_ms);
    tcase_add_test(tcase, test_a_fake_clock_answers_what_the_test_says);
    tcase_add_test(tcase, test_a_deadline_is_now_and_the_duration);
    tcase_add_test(tcase, test_no_duration_and_sums_that_wrap_are_no_deadline);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
