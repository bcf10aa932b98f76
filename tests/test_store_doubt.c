/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_doubt.c - the quarantine as others see it, and attempts that
 * somebody else than their writer ends. SAFETY B.3 and D.1, the core's part. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "store_rig.h"
#include "suite.h"

#define IDLE_MS 600000 /* the default release timeout */

static struct rig rig;
static struct mci_doubt doubts[64];

static size_t take(void)
{
    return mci_master_doubts_take(rig.master, doubts, 64);
}

static struct mci_write_row doubt(const char *key, uint64_t size)
{
    struct mci_write_row row = rig_put_start(&rig, key, size);
    row.in_doubt = true;
    ck_assert_int_eq(rig_revoke(&rig, &row), MC_OK);
    return row;
}

START_TEST(what_is_in_doubt_is_told_once_with_its_places)
{
    rig_open(&rig, NULL);
    ck_assert_uint_eq(take(), 0);
    struct mci_write_row a = doubt("a", 4096);
    rig_pass(&rig, 5);
    struct mci_write_row b = doubt("b", 100);
    ck_assert_uint_eq(take(), 2);
    ck_assert_uint_eq(doubts[0].number, a.attempt.number);
    ck_assert_uint_eq(doubts[0].client, rig.client);
    ck_assert_uint_eq(doubts[0].bytes, 4096);
    ck_assert_uint_eq(doubts[0].place_count, 1);
    ck_assert_uint_eq(doubts[0].segments[0], rig.segment);
    ck_assert_uint_eq(doubts[1].number, b.attempt.number);
    ck_assert_uint_eq(doubts[1].since_ns, rig.now_ns);
    ck_assert_uint_eq(take(), 0);
    rig_close(&rig);
}
END_TEST

START_TEST(a_listing_goes_on_where_its_array_ended)
{
    const struct rig_opts opts = {.shards = 8};
    rig_open(&rig, &opts);
    for (int i = 0; i < 100; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%d", i);
        (void)doubt(key, 64);
    }
    size_t told = 0;
    uint64_t sum = 0;
    for (size_t got = 1; got > 0; told += got) {
        got = mci_master_doubts_take(rig.master, doubts, 7);
        for (size_t i = 0; i < got; i++) {
            sum += doubts[i].number & 0xffffffff;
        }
        mci_master_doubts_free(rig.master, doubts, got);
    }
    ck_assert_uint_eq(told, 100);
    ck_assert_uint_eq(sum, 5050);
    ck_assert_uint_eq(rig_stats(&rig).quarantined, 0);
    ck_assert_uint_eq(rig_stats(&rig).allocated_bytes, 0);
    ck_assert(mci_master_check(rig.master));
    rig_close(&rig);
}
END_TEST

START_TEST(only_what_is_named_is_freed)
{
    rig_open(&rig, NULL);
    (void)doubt("a", 4096);
    (void)doubt("b", 4096);
    ck_assert_uint_eq(take(), 2);
    struct mci_doubt wrong = doubts[0];
    wrong.number++;
    mci_master_doubts_free(rig.master, &wrong, 1);
    wrong = doubts[0];
    wrong.ref = UINT64_MAX;
    mci_master_doubts_free(rig.master, &wrong, 1);
    wrong.ref = doubts[0].ref + 1000;
    mci_master_doubts_free(rig.master, &wrong, 1);
    ck_assert_uint_eq(rig_stats(&rig).quarantined, 2);
    mci_master_doubts_free(rig.master, &doubts[0], 1);
    mci_master_doubts_free(rig.master, &doubts[0], 1); /* again */
    ck_assert_uint_eq(rig_stats(&rig).quarantined, 1);
    ck_assert_uint_eq(rig_stats(&rig).quarantined_bytes, 4096);
    ck_assert_uint_eq(rig_stats(&rig).allocated_bytes, 4096);
    rig_close(&rig);
}
END_TEST

START_TEST(the_writers_word_alone_frees_nothing)
{
    rig_open(&rig, NULL);
    struct mci_write_row row = doubt("a", 4096);
    row.in_doubt = false;
    row.is_spent = false;
    ck_assert_int_eq(rig_revoke(&rig, &row), MC_OK);
    ck_assert_int_eq(rig_end(&rig, &row), MC_ERR_INVALID_VERSION);
    ck_assert_uint_eq(rig_stats(&rig).quarantined, 1);
    row.is_spent = true; /* with receipts it does, told or not */
    ck_assert_int_eq(rig_revoke(&rig, &row), MC_OK);
    ck_assert_uint_eq(rig_stats(&rig).allocated_bytes, 0);
    ck_assert_uint_eq(take(), 0);
    row = doubt("b", 100);
    ck_assert_uint_eq(take(), 1);
    row.in_doubt = false;
    ck_assert_int_eq(rig_end(&rig, &row), MC_ERR_INVALID_VERSION);
    ck_assert_uint_eq(rig_stats(&rig).allocated_bytes, 0);
    mci_master_doubts_free(rig.master, doubts, 1);
    ck_assert(mci_master_check(rig.master));
    rig_close(&rig);
}
END_TEST

START_TEST(what_goes_out_of_the_middle_is_not_told)
{
    rig_open(&rig, NULL);
    struct mci_write_row a = doubt("a", 64);
    struct mci_write_row b = doubt("b", 64);
    struct mci_write_row c = doubt("c", 64);
    ck_assert_uint_eq(mci_master_doubts_take(rig.master, doubts, 1), 1);
    ck_assert_uint_eq(doubts[0].number, a.attempt.number);
    b.in_doubt = false;
    ck_assert_int_eq(rig_revoke(&rig, &b), MC_OK);
    ck_assert_uint_eq(take(), 1);
    ck_assert_uint_eq(doubts[0].number, c.attempt.number);
    ck_assert(mci_master_check(rig.master));
    rig_close(&rig);
}
END_TEST

START_TEST(places_on_closed_segments_are_not_named)
{
    rig_open(&rig, NULL);
    uint32_t other = 0;
    (void)rig_add_client(&rig, 1 * MIB, &other);
    const struct mc_replicate_config config = {.replica_num = 2};
    rig.config = &config;
    (void)doubt("a", 4096);
    mci_master_segment_close(rig.master, rig.segment);
    ck_assert_uint_eq(take(), 1);
    ck_assert_uint_eq(doubts[0].place_count, 1);
    ck_assert_uint_eq(doubts[0].segments[0], other);
    rig.config = NULL;
    rig_close(&rig);
}
END_TEST

START_TEST(idle_attempts_become_visible)
{
    rig_open(&rig, NULL);
    struct mci_write_row row = rig_put_start(&rig, "a", 4096);
    struct mci_write_row living = rig_put_start(&rig, "b", 4096);
    rig_pass(&rig, IDLE_MS - 1);
    ck_assert_int_eq(mci_master_attempt_alive(rig.master, living.ref,
                                              living.attempt.number,
                                              rig.now_ns),
                     MC_OK);
    rig_pass(&rig, 1);
    rig_sweep(&rig);
    ck_assert_uint_eq(take(), 1);
    ck_assert_uint_eq(doubts[0].number, row.attempt.number);
    ck_assert_int_eq(mci_master_attempt_alive(rig.master, row.ref,
                                              row.attempt.number, rig.now_ns),
                     MC_ERR_INVALID_VERSION);
    ck_assert_int_eq(rig_end(&rig, &living), MC_OK);
    rig_close(&rig);
}
END_TEST

START_TEST(an_abandoned_attempt_leaves_no_trace)
{
    rig_open(&rig, NULL);
    struct mci_write_row row = rig_put_start(&rig, "a#s1@g", 4096);
    uint64_t number = row.attempt.number;
    ck_assert_int_eq(mci_master_attempt_abandon(rig.master, row.ref, number + 1,
                                                0, rig.now_ns),
                     MC_ERR_INVALID_VERSION);
    ck_assert_int_eq(
        mci_master_attempt_abandon(rig.master, row.ref, number, 0, rig.now_ns),
        MC_OK);
    ck_assert_int_eq(
        mci_master_attempt_abandon(rig.master, row.ref, number, 0, rig.now_ns),
        MC_ERR_INVALID_VERSION);
    ck_assert_uint_eq(rig_stats(&rig).allocated_bytes, 0);
    ck_assert_uint_eq(rig_stats(&rig).groups, 0);
    ck_assert_int_eq(
        mci_master_attempt_fate(rig.master, rig.client, row.attempt),
        MCI_FATE_REFUSED);
    ck_assert_int_eq(rig_end(&rig, &row), MC_ERR_INVALID_VERSION);
    ck_assert(mci_master_check(rig.master));
    rig_close(&rig);
}
END_TEST

START_TEST(an_abandoned_attempt_can_be_kept_back_for_a_while)
{
    rig_open(&rig, NULL);
    struct mci_write_row row = rig_put_start(&rig, "a", 4096);
    ck_assert_int_eq(
        mci_master_attempt_abandon(rig.master, row.ref, row.attempt.number,
                                   rig.now_ns + 10 * MS, rig.now_ns),
        MC_OK);
    ck_assert_int_eq(rig_put(&rig, "a", 64), MC_OK);
    rig_pass(&rig, 9);
    rig_sweep(&rig);
    ck_assert_uint_eq(rig_stats(&rig).allocated_bytes, 4096 + 64);
    rig_pass(&rig, 1);
    rig_sweep(&rig);
    ck_assert_uint_eq(rig_stats(&rig).allocated_bytes, 64);
    rig_close(&rig);
}
END_TEST

START_TEST(an_attempt_is_put_in_doubt_by_name)
{
    rig_open(&rig, NULL);
    struct mci_write_row row = rig_put_start(&rig, "a", 4096);
    ck_assert_int_eq(mci_master_attempt_doubt(rig.master, row.ref,
                                              row.attempt.number, rig.now_ns),
                     MC_OK);
    ck_assert_int_eq(mci_master_attempt_doubt(rig.master, row.ref,
                                              row.attempt.number, rig.now_ns),
                     MC_ERR_INVALID_VERSION);
    ck_assert_uint_eq(take(), 1);
    ck_assert_int_eq(rig_put(&rig, "a", 64), MC_OK);
    mci_master_doubts_free(rig.master, doubts, 1);
    ck_assert_uint_eq(rig_stats(&rig).allocated_bytes, 64);
    ck_assert(mci_master_check(rig.master));
    rig_close(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store.doubt");
    TCase *tcase = tcase_create("doubt");
    tcase_add_test(tcase, what_is_in_doubt_is_told_once_with_its_places);
    tcase_add_test(tcase, a_listing_goes_on_where_its_array_ended);
    tcase_add_test(tcase, only_what_is_named_is_freed);
    tcase_add_test(tcase, the_writers_word_alone_frees_nothing);
    tcase_add_test(tcase, what_goes_out_of_the_middle_is_not_told);
    tcase_add_test(tcase, places_on_closed_segments_are_not_named);
    tcase_add_test(tcase, idle_attempts_become_visible);
    tcase_add_test(tcase, an_abandoned_attempt_leaves_no_trace);
    tcase_add_test(tcase, an_abandoned_attempt_can_be_kept_back_for_a_while);
    tcase_add_test(tcase, an_attempt_is_put_in_doubt_by_name);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
