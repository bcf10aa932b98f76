/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_goings.c - which events the ways to go make: the lower half of
 * DESIGN 4's table, row by row, asked of the core. */
#include <check.h>
#include <stdlib.h>

#include "mc_publisher.h"
#include "store_rig.h"
#include "suite.h"

static struct rig rig;

static void open_rig(void)
{
    rig_open(&rig, NULL);
}

static void end_is(struct mci_write_row row, enum mc_err code)
{
    ck_assert_int_eq(row.err, MC_OK);
    ck_assert_int_eq(rig_end(&rig, &row), code);
}

/* ---- every way to go ---------------------------------------------------- */

static void put_on_both(const char *spec, const char *key)
{
    ck_assert_int_eq(rig_put(&rig, spec, 100), MC_OK);
    ck_assert_int_eq(rig_offload(&rig, key), MC_OK);
}

START_TEST(remove_says_so_for_each_medium)
{
    open_rig();
    put_on_both("a#s1", "a");
    ck_assert_int_eq(rig_put(&rig, "b#s2", 100), MC_OK);
    (void)rig_events(&rig);
    ck_assert_int_eq(rig_remove(&rig, "a", false), 0);
    EXPECT_EVENTS(&rig, "-cpu:a#s1&-disk:a#s1");
    ck_assert_int_eq(rig_remove(&rig, "b", true), 0);
    EXPECT_EVENTS(&rig, "-cpu:b#s2");
    ck_assert_int_eq(rig_remove(&rig, "b", true), MC_ERR_OBJECT_NOT_FOUND);
    EXPECT_EVENTS(&rig, "");
    rig_close(&rig);
}
END_TEST

START_TEST(a_batch_of_removes_says_so_in_row_order)
{
    open_rig();
    ck_assert_int_eq(rig_put(&rig, "a", 100), MC_OK);
    ck_assert_int_eq(rig_put(&rig, "b", 100), MC_OK);
    (void)rig_events(&rig);
    struct mc_view keys[] = {mc_view_str("b"), mc_view_str("x"),
                             mc_view_str("a"), mc_view_str("b")};
    int64_t results[4];
    struct mci_call call = rig_call(&rig);
    ck_assert_int_eq(
        mci_master_remove(rig.master, &call, keys, 4, false, results), MC_OK);
    ck_assert_int_eq(results[0], 0);
    ck_assert_int_eq(results[1], MC_ERR_OBJECT_NOT_FOUND);
    ck_assert_int_eq(results[2], 0);
    ck_assert_int_eq(results[3], MC_ERR_OBJECT_NOT_FOUND);
    EXPECT_EVENTS(&rig, "-cpu:b -cpu:a");
    rig_close(&rig);
}
END_TEST

START_TEST(a_regex_says_so_for_each_key)
{
    open_rig();
    put_on_both("model/a#s1", "model/a");
    ck_assert_int_eq(rig_put(&rig, "other", 100), MC_OK);
    (void)rig_events(&rig);
    struct mci_call call = rig_call(&rig);
    uint64_t removed = 0;
    ck_assert_int_eq(mci_master_remove_by_regex(rig.master, &call,
                                                mc_view_str("^mod"), false,
                                                &removed),
                     MC_OK);
    ck_assert_uint_eq(removed, 1);
    EXPECT_EVENTS(&rig, "-cpu:model/a#s1&-disk:model/a#s1");
    rig_close(&rig);
}
END_TEST

START_TEST(eviction_says_removed_before_what_it_made_room_for)
{
    open_rig();
    ck_assert_int_eq(rig_put(&rig, "a#s1", MIB / 2), MC_OK);
    ck_assert_int_eq(rig_put(&rig, "b", MIB / 2), MC_OK);
    (void)rig_events(&rig);
    struct mci_write_row row = rig_put_start(&rig, "c", MIB / 2);
    EXPECT_EVENTS(&rig, "-cpu:a#s1");
    end_is(row, MC_OK);
    EXPECT_EVENTS(&rig, "+cpu:c");
    rig_close(&rig);
}
END_TEST

START_TEST(an_unmounted_segment_takes_its_copies_along)
{
    open_rig();
    ck_assert_int_eq(rig_put(&rig, "a#s1", 100), MC_OK);
    put_on_both("b#s2", "b");
    (void)rig_events(&rig);
    mci_master_segment_close(rig.master, rig.segment);
    bool done = false;
    while (!done) {
        ck_assert_int_eq(mci_master_segment_step(rig.master, rig.segment,
                                                 rig.now_ns, 0, &done),
                         MC_OK);
    }
    const char *events = rig_events(&rig);
    ck_assert_msg(strcmp(events, "-cpu:a#s1 -cpu:b#s2") == 0 ||
                      strcmp(events, "-cpu:b#s2 -cpu:a#s1") == 0,
                  "%s", events);
    ck_assert_int_eq(rig_probe(&rig, "a").state, MC_OBJECT_ABSENT);
    ck_assert_uint_eq(rig_probe(&rig, "b").media, MC_MEDIUM_DISK);
    rig_close(&rig);
}
END_TEST

START_TEST(an_expired_client_takes_memory_and_disk_along)
{
    struct rig_opts opts = {.segment_bytes = MC_NONE};
    rig_open(&rig, &opts);
    uint32_t reader = rig.client;
    rig.client = rig_add_client(&rig, MIB, &rig.segment);
    put_on_both("a#s1@g", "a");
    (void)rig_events(&rig);
    mci_master_client_expire(rig.master, rig.client);
    bool done = false;
    while (!done) {
        ck_assert_int_eq(mci_master_client_step(rig.master, rig.client,
                                                rig.now_ns, 0, &done),
                         MC_OK);
    }
    const char *events = rig_events(&rig);
    ck_assert_msg(strcmp(events, "-cpu:a#s1@g -disk:a#s1@g") == 0 ||
                      strcmp(events, "-disk:a#s1@g -cpu:a#s1@g") == 0 ||
                      strcmp(events, "-cpu:a#s1@g&-disk:a#s1@g") == 0,
                  "%s", events);
    mci_master_client_fenced(rig.master, rig.client);
    rig.client = reader;
    ck_assert_int_eq(rig_probe(&rig, "a").state, MC_OBJECT_ABSENT);
    rig_close(&rig);
}
END_TEST

START_TEST(a_cleared_replica_says_so)
{
    open_rig();
    ck_assert_int_eq(rig_put(&rig, "a#s1", 100), MC_OK);
    (void)rig_events(&rig);
    ck_assert_int_eq(rig_clear_replica(&rig, "a"), 0);
    EXPECT_EVENTS(&rig, "-cpu:a#s1");
    ck_assert_int_eq(rig_clear_replica(&rig, "a"), MC_ERR_OBJECT_NOT_FOUND);
    EXPECT_EVENTS(&rig, "");
    rig_close(&rig);
}
END_TEST

/* ---- remove_all --------------------------------------------------------- */

START_TEST(remove_all_says_removed_per_key_and_then_cleared)
{
    open_rig();
    ck_assert_int_eq(rig_put(&rig, "a#s1", 100), MC_OK);
    (void)rig_events(&rig);
    ck_assert_uint_eq(rig_remove_all(&rig, false), 1);
    EXPECT_EVENTS(&rig, "-cpu:a#s1 !default");
    rig_close(&rig);
}
END_TEST

START_TEST(remove_all_of_nothing_is_cleared_alone)
{
    open_rig();
    ck_assert_uint_eq(rig_remove_all(&rig, false), 0);
    EXPECT_EVENTS(&rig, "!default");
    rig_close(&rig);
}
END_TEST

START_TEST(remove_all_that_leaves_something_is_not_cleared)
{
    open_rig();
    ck_assert_int_eq(rig_put(&rig, "a", 100), MC_OK);
    ck_assert_int_eq(rig_put(&rig, "b", 100), MC_OK);
    ck_assert_int_eq(rig_get(&rig, "b", false).err, MC_OK);
    (void)rig_events(&rig);
    ck_assert_uint_eq(rig_remove_all(&rig, false), 1);
    EXPECT_EVENTS(&rig, "-cpu:a");
    ck_assert_uint_eq(rig_remove_all(&rig, true), 1);
    EXPECT_EVENTS(&rig, "-cpu:b !default");
    rig_close(&rig);
}
END_TEST

START_TEST(an_open_write_is_no_reason_against_cleared)
{
    open_rig();
    struct mci_write_row row = rig_put_start(&rig, "a", 100);
    ck_assert_uint_eq(rig_remove_all(&rig, false), 0);
    EXPECT_EVENTS(&rig, "!default");
    end_is(row, MC_OK);
    EXPECT_EVENTS(&rig, "+cpu:a");
    rig_close(&rig);
}
END_TEST

START_TEST(tenants_are_cleared_one_by_one)
{
    struct rig_opts opts = {.store.enable_multi_tenants = true};
    rig_open(&rig, &opts);
    ck_assert_int_eq(rig_put(&rig, "a", 100), MC_OK);
    rig.tenant = mc_view_str("t1");
    ck_assert_int_eq(rig_put(&rig, "a#s1", 100), MC_OK);
    EXPECT_EVENTS(&rig, "+cpu:a +t1/cpu:a#s1");
    ck_assert_uint_eq(rig_remove_all(&rig, false), 1);
    EXPECT_EVENTS(&rig, "-t1/cpu:a#s1 !t1");
    rig.tenant = mc_view_make(NULL, 0);
    ck_assert_int_eq(rig_probe(&rig, "a").state, MC_OBJECT_READABLE);
    rig_close(&rig);
}
END_TEST

static TCase *went(void)
{
    TCase *tcase = tcase_create("went");
    tcase_add_test(tcase, remove_says_so_for_each_medium);
    tcase_add_test(tcase, a_batch_of_removes_says_so_in_row_order);
    tcase_add_test(tcase, a_regex_says_so_for_each_key);
    tcase_add_test(tcase, eviction_says_removed_before_what_it_made_room_for);
    tcase_add_test(tcase, an_unmounted_segment_takes_its_copies_along);
    tcase_add_test(tcase, an_expired_client_takes_memory_and_disk_along);
    tcase_add_test(tcase, a_cleared_replica_says_so);
    return tcase;
}

static TCase *cleared(void)
{
    TCase *tcase = tcase_create("cleared");
    tcase_add_test(tcase, remove_all_says_removed_per_key_and_then_cleared);
    tcase_add_test(tcase, remove_all_of_nothing_is_cleared_alone);
    tcase_add_test(tcase, remove_all_that_leaves_something_is_not_cleared);
    tcase_add_test(tcase, an_open_write_is_no_reason_against_cleared);
    tcase_add_test(tcase, tenants_are_cleared_one_by_one);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("store goings");
    suite_add_tcase(suite, went());
    suite_add_tcase(suite, cleared());
    return suite_run(suite);
}
