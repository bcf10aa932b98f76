/* SPDX-License-Identifier: Apache-2.0 */
/* test_send_mark.c - from a bound in bytes to a count of messages. */
#include <check.h>

#include "send_mark.h"
#include "suite.h"

static struct mci_send_mark mark_make(uint64_t bytes)
{
    struct mci_send_mark mark;
    mci_send_mark_init(&mark, bytes);
    return mark;
}

/* Adds until the mean has settled; answers how often the mark changed. */
static int settle(struct mci_send_mark *mark, uint64_t message_bytes)
{
    int changes = 0;
    for (int i = 0; i < 2000; i++) {
        changes += mci_send_mark_add(mark, message_bytes);
    }
    return changes;
}

START_TEST(first_mean_is_one_kib_and_the_default_bound_64_mib)
{
    struct mci_send_mark mark = mark_make(0);
    ck_assert_int_eq(mark.messages, (64 << 20) / (1024 + 200));
}
END_TEST

START_TEST(mark_follows_the_mean_within_a_quarter)
{
    const uint64_t sizes[] = {1000, 5000, 20000, 3000};
    struct mci_send_mark mark = mark_make(64 << 20);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        (void)settle(&mark, sizes[i]);
        double exact = (64 << 20) / (double)(sizes[i] + 200);
        ck_assert_double_gt(mark.messages, exact / 1.34);
        ck_assert_double_lt(mark.messages, exact * 1.34);
    }
}
END_TEST

START_TEST(mark_stays_where_sizes_stay)
{
    struct mci_send_mark mark = mark_make(64 << 20);
    (void)settle(&mark, 3000);
    ck_assert_int_eq(settle(&mark, 3000), 0);
    ck_assert_int_le(settle(&mark, 3300), 1);
    ck_assert_int_gt(settle(&mark, 9000), 0);
}
END_TEST

START_TEST(sudden_large_messages_lower_the_mark_at_once)
{
    struct mci_send_mark mark = mark_make(64 << 20);
    (void)settle(&mark, 400);
    int before = mark.messages;
    ck_assert(mci_send_mark_add(&mark, 262144));
    ck_assert_int_lt(mark.messages, before / 4);
    for (int i = 0; i < 128; i++) {
        (void)mci_send_mark_add(&mark, 262144);
    }
    ck_assert_int_eq(mark.messages, MCI_SEND_MARK_MIN);
}
END_TEST

START_TEST(mark_stays_within_its_bounds)
{
    struct mci_send_mark small = mark_make(1);
    struct mci_send_mark large = mark_make(UINT64_MAX);
    struct mci_send_mark empty = mark_make(UINT64_C(1) << 40);
    ck_assert_int_eq(small.messages, MCI_SEND_MARK_MIN);
    ck_assert_int_eq(large.messages, MCI_SEND_MARK_MAX);
    (void)settle(&empty, 0);
    ck_assert_int_eq(empty.messages, MCI_SEND_MARK_MAX);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("send_mark");
    TCase *tc = tcase_create("mark");
    tcase_add_test(tc, first_mean_is_one_kib_and_the_default_bound_64_mib);
    tcase_add_test(tc, mark_follows_the_mean_within_a_quarter);
    tcase_add_test(tc, mark_stays_where_sizes_stay);
    tcase_add_test(tc, sudden_large_messages_lower_the_mark_at_once);
    tcase_add_test(tc, mark_stays_within_its_bounds);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
