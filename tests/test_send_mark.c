/* SPDX-License-Identifier: Apache-2.0 */
/* test_send_mark.c - from a bound in bytes to messages and their size. */
#include <check.h>
#include <stdbool.h>

#include "send_mark.h"
#include "suite.h"

#define MIB (UINT64_C(1) << 20)

static uint64_t bytes_of(struct mci_send_mark mark)
{
    return (uint64_t)mark.messages *
           (mark.batch_bytes + MCI_SEND_MARK_OVERHEAD);
}

START_TEST(zero_is_64_mib)
{
    struct mci_send_mark mark = mci_send_mark(0);
    ck_assert_int_eq(mark.messages, mci_send_mark(64 * MIB).messages);
    ck_assert_uint_le(bytes_of(mark), 64 * MIB);
    ck_assert_uint_ge(bytes_of(mark), 63 * MIB);
    ck_assert_uint_eq(mark.batch_bytes, MCI_SEND_MARK_BATCH_MAX);
}
END_TEST

START_TEST(full_queue_keeps_to_the_bound)
{
    for (uint64_t mib = 8; mib <= 6000; mib += 8) {
        struct mci_send_mark mark = mci_send_mark(mib * MIB);
        /* A little more where there is the least number of messages. */
        ck_assert_uint_le(bytes_of(mark), mib * MIB * 103 / 100);
        ck_assert_uint_ge(bytes_of(mark), mib * MIB * 95 / 100);
        ck_assert_int_ge(mark.messages, MCI_SEND_MARK_MESSAGES_MIN);
    }
}
END_TEST

START_TEST(extreme_bounds_stay_within_limits)
{
    struct mci_send_mark least = mci_send_mark(1);
    struct mci_send_mark most = mci_send_mark(UINT64_MAX);
    ck_assert_int_eq(least.messages, MCI_SEND_MARK_MESSAGES_MIN);
    ck_assert_uint_eq(least.batch_bytes, MCI_SEND_MARK_BATCH_MIN);
    ck_assert_int_eq(most.messages, MCI_SEND_MARK_MESSAGES_MAX);
    ck_assert_uint_eq(most.batch_bytes, MCI_SEND_MARK_BATCH_MAX);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("send_mark");
    TCase *tc = tcase_create("mark");
    tcase_add_test(tc, zero_is_64_mib);
    tcase_add_test(tc, full_queue_keeps_to_the_bound);
    tcase_add_test(tc, extreme_bounds_stay_within_limits);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
