/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_attempts.c - who may end what: attempts that race, are wrong, late,
 * in doubt, idle, or whose segment or client is gone. SAFETY A.4 and D. */
#include <check.h>
#include <stdlib.h>

#include "store_rig.h"
#include "suite.h"

#define IDLE_MS 600000 /* the default release timeout */

static struct rig rig;

/* ---- A.4: who wins ------------------------------------------------------- */

START_TEST(a_put_end_that_finds_the_key_readable_drops_its_bytes)
{
    rig_open(&rig, NULL);
    struct mci_write_row put = rig_put_start(&rig, "a#s1", 8192);
    ck_assert_int_eq(rig_upsert(&rig, "a#s2", 100), MC_OK);
    uint64_t version = rig_probe(&rig, "a").version;
    ck_assert_int_eq(rig_end(&rig, &put), MC_OK);
    ck_assert_uint_eq(rig_probe(&rig, "a").version, version);
    ck_assert(rig_has_tag(&rig, "a", "s2"));
    ck_assert_uint_eq(rig_stats(&rig).allocated_bytes, 128);
    ck_assert_int_eq(
        mci_master_attempt_fate(rig.master, rig.client, put.attempt),
        MCI_FATE_DROPPED);
    ck_assert_int_eq(rig_end(&rig, &put), MC_OK); /* retried */
    rig_close(&rig);
}
END_TEST

START_TEST(a_put_of_a_living_writer_is_not_preempted)
{
    rig_open(&rig, NULL);
    struct mci_write_row put = rig_put_start(&rig, "a#s1", 100);
    rig_pass(&rig, IDLE_MS - 1);
    rig_sweep(&rig);
    struct mci_write_row other = rig_put_start(&rig, "a#s2", 100);
    ck_assert_int_eq(other.err, MC_ERR_OBJECT_ALREADY_EXISTS);
    ck_assert_uint_eq(other.attempt.number, 0);
    ck_assert_int_eq(rig_end(&rig, &put), MC_OK);
    ck_assert(rig_has_tag(&rig, "a", "s1"));
    rig_close(&rig);
}
END_TEST

START_TEST(an_upsert_does_not_end_over_another_groups_value)
{
    rig_open(&rig, NULL);
    struct mci_write_row row = rig_upsert_start(&rig, "a#s1@g1", 100);
    struct mci_write_row same = rig_upsert_start(&rig, "a#s3@g2", 100);
    struct mci_write_row none = rig_upsert_start(&rig, "a#s4", 100);
    ck_assert_int_eq(rig_put(&rig, "a#s2@g2", 100), MC_OK);
    (void)rig_events(&rig);
    ck_assert_int_eq(rig_end(&rig, &row), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(rig_end(&rig, &row), MC_ERR_INVALID_VERSION);
    EXPECT_EVENTS(&rig, "");
    ck_assert_int_eq(rig_end(&rig, &same), MC_OK);
    ck_assert_int_eq(rig_end(&rig, &none), MC_OK);
    EXPECT_EVENTS(&rig, "-cpu:a#s2@g2&+cpu:a#s3@g2 -cpu:a#s3@g2&+cpu:a#s4@g2");
    row = rig_upsert_start(&rig, "b@g1", 100);
    ck_assert_int_eq(rig_put(&rig, "b", 100), MC_OK); /* ungrouped for life */
    ck_assert_int_eq(rig_end(&rig, &row), MC_ERR_INVALID_PARAMS);
    ck_assert(mci_master_check(rig.master));
    (void)rig_events(&rig);
    rig_close(&rig);
}
END_TEST

START_TEST(of_several_upserts_the_last_end_decides)
{
    rig_open(&rig, NULL);
    static const char *const specs[] = {"a#s0", "a#s1", "a#s2"};
    struct mci_write_row rows[3];
    for (int i = 0; i < 3; i++) {
        rows[i] = rig_upsert_start(&rig, specs[i], 100 + (uint64_t)i);
        ck_assert_int_eq(rows[i].err, MC_OK);
    }
    ck_assert_int_eq(rig_end(&rig, &rows[2]), MC_OK);
    ck_assert_int_eq(rig_end(&rig, &rows[0]), MC_OK);
    ck_assert_int_eq(rig_end(&rig, &rows[1]), MC_OK);
    EXPECT_EVENTS(&rig, "+cpu:a#s2 -cpu:a#s2&+cpu:a#s0 -cpu:a#s0&+cpu:a#s1");
    ck_assert_uint_eq(rig_probe(&rig, "a").size, 101);
    ck_assert_uint_eq(rig_stats(&rig).allocated_bytes, 128);
    rig_close(&rig);
}
END_TEST

START_TEST(a_removed_key_becomes_readable_by_a_write_that_was_open)
{
    rig_open(&rig, NULL);
    ck_assert_int_eq(rig_put(&rig, "a#s1", 100), MC_OK);
    struct mci_write_row row = rig_upsert_start(&rig, "a#s2", 100);
    ck_assert_int_eq(rig_remove(&rig, "a", false), 0);
    ck_assert_int_eq(rig_get(&rig, "a", false).err,
                     MC_ERR_REPLICA_IS_NOT_READY);
    ck_assert_int_eq(rig_exist(&rig, "a"), 0);
    ck_assert_int_eq(rig_remove(&rig, "a", false), MC_ERR_REPLICA_IS_NOT_READY);
    ck_assert_int_eq(rig_remove(&rig, "a", true), MC_ERR_REPLICA_IS_NOT_READY);
    ck_assert_int_eq(rig_end(&rig, &row), MC_OK);
    EXPECT_EVENTS(&rig, "+cpu:a#s1 -cpu:a#s1 +cpu:a#s2");
    rig_close(&rig);
}
END_TEST

/* ---- attempts ------------------------------------------------------------ */

static void end_refused(struct mci_write_row row, const char *key)
{
    row.key = mc_view_str(key);
    ck_assert_int_eq(rig_end(&rig, &row), MC_ERR_INVALID_VERSION);
    ck_assert_int_eq(rig_revoke(&rig, &row), MC_ERR_INVALID_VERSION);
}

START_TEST(a_wrong_attempt_is_refused_and_changes_nothing)
{
    rig_open(&rig, NULL);
    uint32_t other = rig_add_client(&rig, 0, NULL);
    uint32_t owner = rig.client;
    ck_assert_int_eq(rig_put(&rig, "done", 100), MC_OK);
    struct mci_write_row open = rig_put_start(&rig, "a#s1", 100);
    (void)rig_events(&rig);
    char *before = rig_state(&rig);
    struct mci_write_row wrong = open;
    wrong.attempt.number++;
    end_refused(wrong, "a");
    wrong.attempt.number = UINT64_MAX;
    end_refused(wrong, "a");
    wrong = open;
    wrong.attempt.epoch++;
    end_refused(wrong, "a");
    end_refused(open, "b");    /* never written */
    end_refused(open, "done"); /* another key */
    rig.client = other;
    end_refused(open, "a");
    rig.client = owner;
    EXPECT_UNCHANGED(&rig, before);
    free(before);
    ck_assert_int_eq(rig_end(&rig, &open), MC_OK);
    rig_close(&rig);
}
END_TEST

/* C4: the end of one attempt, late, must not complete a later one. */
START_TEST(a_late_end_does_not_complete_another_attempt)
{
    rig_open(&rig, NULL);
    struct mci_write_row first = rig_put_start(&rig, "a#s1", 100);
    ck_assert_int_eq(rig_end(&rig, &first), MC_OK);
    ck_assert_int_eq(rig_remove(&rig, "a", true), 0);
    struct mci_write_row second = rig_put_start(&rig, "a#s2", 100);
    ck_assert_uint_ne(second.attempt.number, first.attempt.number);
    (void)rig_events(&rig);
    ck_assert_int_eq(rig_end(&rig, &first), MC_OK); /* its kept answer */
    EXPECT_EVENTS(&rig, "");
    ck_assert_int_eq(rig_probe(&rig, "a").state, MC_OBJECT_WRITING);
    ck_assert_int_eq(rig_revoke(&rig, &first), MC_ERR_INVALID_VERSION);
    ck_assert_int_eq(rig_probe(&rig, "a").state, MC_OBJECT_WRITING);
    ck_assert_int_eq(rig_end(&rig, &second), MC_OK);
    rig_close(&rig);
}
END_TEST

START_TEST(ends_and_revokes_answer_the_same_when_retried)
{
    rig_open(&rig, NULL);
    struct mci_write_row row = rig_put_start(&rig, "a", 100);
    ck_assert_int_eq(rig_revoke(&rig, &row), MC_OK);
    ck_assert_int_eq(rig_revoke(&rig, &row), MC_OK);
    ck_assert_int_eq(rig_end(&rig, &row), MC_ERR_INVALID_VERSION);
    ck_assert_uint_eq(rig_stats(&rig).allocated_bytes, 0);
    ck_assert_uint_eq(rig_stats(&rig).attempts, 0);
    row = rig_put_start(&rig, "a", 100);
    ck_assert_int_eq(rig_end(&rig, &row), MC_OK);
    ck_assert_int_eq(rig_revoke(&rig, &row), MC_ERR_INVALID_VERSION);
    ck_assert_int_eq(rig_probe(&rig, "a").state, MC_OBJECT_READABLE);
    rig_close(&rig);
}
END_TEST

START_TEST(fates_are_told_as_they_were)
{
    rig_open(&rig, NULL);
    struct mci_write_row a = rig_put_start(&rig, "a", 100);
    struct mci_write_row b = rig_put_start(&rig, "b", 100);
    struct mci_write_row c = rig_put_start(&rig, "c", 100);
    struct mci_attempt none = {a.attempt.epoch, a.attempt.number + 1000};
    ck_assert_int_eq(rig_end(&rig, &b), MC_OK);
    ck_assert_int_eq(rig_revoke(&rig, &c), MC_OK);
    struct {
        struct mci_attempt attempt;
        enum mci_fate fate;
    } rows[] = {{a.attempt, MCI_FATE_OPEN},
                {b.attempt, MCI_FATE_COMMITTED},
                {c.attempt, MCI_FATE_REFUSED},
                {none, MCI_FATE_UNKNOWN}};
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(
            mci_master_attempt_fate(rig.master, rig.client, rows[i].attempt),
            rows[i].fate);
    }
    rig_close(&rig);
}
END_TEST

/* Bytes may still land there, so nobody gets the range before it is proven that
 * they cannot. */
START_TEST(a_revoke_in_doubt_keeps_the_range_from_everybody)
{
    rig_open(&rig, NULL);
    struct mci_write_row row = rig_put_start(&rig, "a", 512 * KIB);
    row.in_doubt = true;
    ck_assert_int_eq(rig_revoke(&rig, &row), MC_OK);
    ck_assert_uint_eq(rig_stats(&rig).quarantined_bytes, 512 * KIB);
    ck_assert_int_eq(rig_probe(&rig, "a").state, MC_OBJECT_ABSENT);
    rig_pass(&rig, 100 * IDLE_MS);
    rig_sweep(&rig);
    rig_fill_beside(&rig, row.places[0], 512 * KIB);
    ck_assert_uint_eq(rig_stats(&rig).quarantined_bytes, 512 * KIB);
    rig_close(&rig);
}
END_TEST

/* ---- D: writers that hang or are gone ------------------------------------ */

START_TEST(an_idle_attempt_is_closed_and_told_so)
{
    rig_open(&rig, NULL);
    struct mci_write_row idle = rig_put_start(&rig, "a", 100);
    struct mci_write_row busy = rig_put_start(&rig, "b", 100);
    rig_pass(&rig, IDLE_MS - 1000);
    struct mci_call call = rig_call(&rig);
    ck_assert_int_eq(mci_master_attempt_touch(rig.master, &call,
                                              mc_view_str("b"), busy.attempt),
                     MC_OK);
    rig_pass(&rig, 2000);
    rig_sweep(&rig);
    ck_assert_uint_eq(rig_stats(&rig).attempts, 1);
    ck_assert_int_eq(rig_end(&rig, &idle), MC_ERR_INVALID_VERSION);
    call = rig_call(&rig);
    ck_assert_int_eq(mci_master_attempt_touch(rig.master, &call,
                                              mc_view_str("a"), idle.attempt),
                     MC_ERR_INVALID_VERSION);
    ck_assert_int_eq(rig_put(&rig, "a", 100), MC_OK);
    ck_assert_int_eq(rig_end(&rig, &busy), MC_OK);
    rig_close(&rig);
}
END_TEST

START_TEST(the_release_timeout_is_settable)
{
    struct rig_opts opts = {.store.put_start_release_timeout_ms = 5000};
    rig_open(&rig, &opts);
    struct mci_write_row row = rig_put_start(&rig, "a", 128);
    rig_pass(&rig, 4999);
    rig_sweep(&rig);
    ck_assert_uint_eq(rig_stats(&rig).attempts, 1);
    rig_pass(&rig, 2);
    rig_sweep(&rig);
    ck_assert_uint_eq(rig_stats(&rig).attempts, 0);
    ck_assert_uint_eq(rig_stats(&rig).quarantined_bytes, 128);
    ck_assert_int_eq(rig_end(&rig, &row), MC_ERR_INVALID_VERSION);
    rig_close(&rig);
}
END_TEST

/* D.2: the mark comes before the slices, and an end looks at it. */
START_TEST(an_end_on_a_segment_that_is_gone_is_refused_and_not_said)
{
    rig_open(&rig, NULL);
    struct mci_write_row put = rig_put_start(&rig, "a#s1", 100);
    mci_master_segment_close(rig.master, rig.segment);
    ck_assert_int_eq(rig_end(&rig, &put), MC_ERR_INVALID_VERSION);
    EXPECT_EVENTS(&rig, "");
    ck_assert_int_eq(rig_probe(&rig, "a").state, MC_OBJECT_ABSENT);
    ck_assert_int_eq(rig_put_start(&rig, "b", 100).err,
                     MC_ERR_NO_AVAILABLE_HANDLE);
    rig_close(&rig);
}
END_TEST

START_TEST(an_upsert_end_on_a_segment_that_is_gone_leaves_the_old_value)
{
    rig_open(&rig, NULL);
    ck_assert_int_eq(rig_put(&rig, "a#s1", 100), MC_OK);
    struct mci_write_row row = rig_upsert_start(&rig, "a#s2", 100);
    (void)rig_events(&rig);
    mci_master_segment_close(rig.master, rig.segment);
    ck_assert_int_eq(rig_end(&rig, &row), MC_ERR_INVALID_VERSION);
    EXPECT_EVENTS(&rig, "");
    bool done = false;
    while (!done) {
        ck_assert_int_eq(mci_master_segment_step(rig.master, rig.segment,
                                                 rig.now_ns, 0, &done),
                         MC_OK);
    }
    EXPECT_EVENTS(&rig, "-cpu:a#s1");
    rig_close(&rig);
}
END_TEST

START_TEST(an_end_counts_the_copies_that_are_left)
{
    rig_open(&rig, NULL);
    uint32_t second;
    (void)rig_add_client(&rig, MIB, &second);
    struct mc_replicate_config config = {.replica_num = 2};
    rig.config = &config;
    struct mci_write_row row = rig_put_start(&rig, "a", 100);
    ck_assert_uint_eq(row.place_count, 2);
    mci_master_segment_close(rig.master, second);
    ck_assert_int_eq(rig_end(&rig, &row), MC_OK);
    EXPECT_EVENTS(&rig, "+cpu:a");
    struct mci_read_row read = rig_get(&rig, "a", false);
    ck_assert_uint_eq(read.place_count, 1);
    ck_assert_uint_eq(read.places[0].segment, rig.segment);
    rig_close(&rig);
}
END_TEST

START_TEST(an_expired_client_is_refused_and_stands_in_nobodys_way)
{
    rig_open(&rig, NULL);
    uint32_t alive = rig.client;
    uint32_t dead = rig_add_client(&rig, 0, NULL);
    rig.client = dead;
    struct mci_write_row row = rig_put_start(&rig, "a", 64 * KIB);
    mci_master_client_expire(rig.master, dead);
    struct mci_write_row next = rig_put_start(&rig, "b", 100);
    ck_assert_int_eq(next.err, MC_ERR_CLIENT_NOT_FOUND);
    ck_assert_int_ne(rig_end(&rig, &row), MC_OK);
    rig.client = alive;
    bool done = false;
    while (!done) {
        ck_assert_int_eq(
            mci_master_client_step(rig.master, dead, rig.now_ns, 0, &done),
            MC_OK);
    }
    /* Nobody has proven yet that it does not write any more. */
    ck_assert_uint_eq(rig_stats(&rig).quarantined_bytes, 64 * KIB);
    ck_assert_int_eq(rig_put(&rig, "a", 100), MC_OK);
    mci_master_client_fenced(rig.master, dead);
    ck_assert_uint_eq(rig_stats(&rig).quarantined_bytes, 0);
    ck_assert_uint_eq(rig_stats(&rig).allocated_bytes, 128);
    EXPECT_EVENTS(&rig, "+cpu:a");
    rig_close(&rig);
}
END_TEST

static TCase *attempts(void)
{
    TCase *tcase = tcase_create("attempts");
    tcase_add_test(tcase,
                   a_put_end_that_finds_the_key_readable_drops_its_bytes);
    tcase_add_test(tcase, a_put_of_a_living_writer_is_not_preempted);
    tcase_add_test(tcase, an_upsert_does_not_end_over_another_groups_value);
    tcase_add_test(tcase, of_several_upserts_the_last_end_decides);
    tcase_add_test(tcase,
                   a_removed_key_becomes_readable_by_a_write_that_was_open);
    tcase_add_test(tcase, a_wrong_attempt_is_refused_and_changes_nothing);
    tcase_add_test(tcase, a_late_end_does_not_complete_another_attempt);
    tcase_add_test(tcase, ends_and_revokes_answer_the_same_when_retried);
    tcase_add_test(tcase, fates_are_told_as_they_were);
    tcase_add_test(tcase, a_revoke_in_doubt_keeps_the_range_from_everybody);
    return tcase;
}

static TCase *writers(void)
{
    TCase *tcase = tcase_create("writers");
    tcase_add_test(tcase, an_idle_attempt_is_closed_and_told_so);
    tcase_add_test(tcase, the_release_timeout_is_settable);
    tcase_add_test(tcase,
                   an_end_on_a_segment_that_is_gone_is_refused_and_not_said);
    tcase_add_test(
        tcase, an_upsert_end_on_a_segment_that_is_gone_leaves_the_old_value);
    tcase_add_test(tcase, an_end_counts_the_copies_that_are_left);
    tcase_add_test(tcase,
                   an_expired_client_is_refused_and_stands_in_nobodys_way);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("store attempts");
    suite_add_tcase(suite, attempts());
    suite_add_tcase(suite, writers());
    return suite_run(suite);
}
