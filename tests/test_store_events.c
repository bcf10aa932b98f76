/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_events.c - which events what happens makes: DESIGN 4's table, row
 * by row, asked of the core. */
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

/* ---- readable on a key that had none ------------------------------------ */

START_TEST(a_version_on_a_fresh_key_is_stored_with_its_tag_and_group)
{
    open_rig();
    ck_assert_int_eq(rig_put(&rig, "a#s1@g1", 100), MC_OK);
    EXPECT_EVENTS(&rig, "+cpu:a#s1@g1");
    ck_assert_int_eq(rig_put(&rig, "b", 100), MC_OK);
    EXPECT_EVENTS(&rig, "+cpu:b");
    ck_assert_int_eq(rig_upsert(&rig, "c#s2", 100), MC_OK);
    EXPECT_EVENTS(&rig, "+cpu:c#s2");
    rig_close(&rig);
}
END_TEST

START_TEST(nothing_is_said_before_the_end)
{
    open_rig();
    struct mci_write_row put = rig_put_start(&rig, "a#s1", 100);
    struct mci_write_row upsert = rig_upsert_start(&rig, "b#s2", 100);
    EXPECT_EVENTS(&rig, "");
    end_is(upsert, MC_OK);
    end_is(put, MC_OK);
    EXPECT_EVENTS(&rig, "+cpu:b#s2 +cpu:a#s1");
    rig_close(&rig);
}
END_TEST

START_TEST(a_key_that_came_back_is_stored_again)
{
    open_rig();
    ck_assert_int_eq(rig_put(&rig, "a#s1", 100), MC_OK);
    ck_assert_int_eq(rig_remove(&rig, "a", false), 0);
    ck_assert_int_eq(rig_put(&rig, "a#s2", 100), MC_OK);
    EXPECT_EVENTS(&rig, "+cpu:a#s1 -cpu:a#s1 +cpu:a#s2");
    rig_close(&rig);
}
END_TEST

/* ---- upsert ------------------------------------------------------------- */

START_TEST(an_upsert_over_a_value_is_removed_and_stored_in_one)
{
    open_rig();
    ck_assert_int_eq(rig_put(&rig, "a#s1@g", 100), MC_OK);
    ck_assert_int_eq(rig_upsert(&rig, "a#s2", 5000), MC_OK);
    EXPECT_EVENTS(&rig, "+cpu:a#s1@g -cpu:a#s1@g&+cpu:a#s2@g");
    ck_assert_int_eq(rig_upsert(&rig, "a", 100), MC_OK);
    EXPECT_EVENTS(&rig, "-cpu:a#s2@g&+cpu:a#s2@g");
    rig_close(&rig);
}
END_TEST

START_TEST(an_upsert_takes_every_medium_of_the_old_version_away)
{
    open_rig();
    ck_assert_int_eq(rig_put(&rig, "a#s1", 100), MC_OK);
    ck_assert_int_eq(rig_offload(&rig, "a"), MC_OK);
    ck_assert_int_eq(rig_upsert(&rig, "a#s2", 100), MC_OK);
    EXPECT_EVENTS(&rig, "+cpu:a#s1 +disk:a#s1 "
                        "-cpu:a#s1&-disk:a#s1&+cpu:a#s2");
    ck_assert_uint_eq(rig_probe(&rig, "a").media, MC_MEDIUM_CPU);
    rig_close(&rig);
}
END_TEST

START_TEST(an_upsert_over_a_disk_copy_removes_the_disk)
{
    open_rig();
    ck_assert_int_eq(rig_put(&rig, "a#s1", 100), MC_OK);
    ck_assert_int_eq(rig_offload(&rig, "a"), MC_OK);
    ck_assert_int_eq(rig_clear_replica(&rig, "a"), 0);
    ck_assert_int_eq(rig_upsert(&rig, "a", 100), MC_OK);
    EXPECT_EVENTS(&rig, "+cpu:a#s1 +disk:a#s1 -cpu:a#s1 "
                        "-disk:a#s1&+cpu:a#s1");
    rig_close(&rig);
}
END_TEST

/* ---- media come and go -------------------------------------------------- */

START_TEST(memory_goes_and_disk_stays)
{
    open_rig();
    ck_assert_int_eq(rig_put(&rig, "a#s1@g", 100), MC_OK);
    ck_assert_int_eq(rig_offload(&rig, "a"), MC_OK);
    EXPECT_EVENTS(&rig, "+cpu:a#s1@g +disk:a#s1@g");
    ck_assert_int_eq(rig_clear_replica(&rig, "a"), 0);
    EXPECT_EVENTS(&rig, "-cpu:a#s1@g");
    ck_assert_uint_eq(rig_probe(&rig, "a").media, MC_MEDIUM_DISK);
    ck_assert_int_eq(rig_disk_gone(&rig, "a"), 0);
    EXPECT_EVENTS(&rig, "-disk:a#s1@g");
    ck_assert_int_eq(rig_probe(&rig, "a").state, MC_OBJECT_ABSENT);
    rig_close(&rig);
}
END_TEST

START_TEST(eviction_leaves_the_disk_copy)
{
    open_rig();
    ck_assert_int_eq(rig_put(&rig, "a#s1", MIB / 2), MC_OK);
    ck_assert_int_eq(rig_offload(&rig, "a"), MC_OK);
    ck_assert_int_eq(rig_put(&rig, "b", MIB / 2), MC_OK);
    EXPECT_EVENTS(&rig, "+cpu:a#s1 +disk:a#s1 +cpu:b");
    ck_assert_int_eq(rig_put(&rig, "c", MIB / 2), MC_OK);
    EXPECT_EVENTS(&rig, "-cpu:a#s1 +cpu:c");
    ck_assert_uint_eq(rig_probe(&rig, "a").media, MC_MEDIUM_DISK);
    rig_close(&rig);
}
END_TEST

START_TEST(promoted_is_stored_in_memory)
{
    open_rig();
    ck_assert_int_eq(rig_put(&rig, "a#s1@g", 100), MC_OK);
    ck_assert_int_eq(rig_offload(&rig, "a"), MC_OK);
    ck_assert_int_eq(rig_clear_replica(&rig, "a"), 0);
    (void)rig_events(&rig);
    struct mci_write_row row = rig_row("a", 100);
    struct mci_call call = rig_call(&rig);
    ck_assert_int_eq(mci_master_promote_start(rig.master, &call, &row, 1),
                     MC_OK);
    ck_assert_int_eq(row.err, MC_OK);
    EXPECT_EVENTS(&rig, "");
    ck_assert_int_eq(mci_master_promote_end(rig.master, &call, &row, 1), MC_OK);
    ck_assert_int_eq(row.err, MC_OK);
    EXPECT_EVENTS(&rig, "+cpu:a#s1@g");
    ck_assert_uint_eq(rig_probe(&rig, "a").media,
                      MC_MEDIUM_CPU | MC_MEDIUM_DISK);
    rig_close(&rig);
}
END_TEST

START_TEST(a_disk_copy_told_twice_is_stored_once)
{
    open_rig();
    ck_assert_int_eq(rig_put(&rig, "a", 100), MC_OK);
    ck_assert_int_eq(rig_offload(&rig, "a"), MC_OK);
    ck_assert_int_eq(rig_offload(&rig, "a"), MC_OK);
    EXPECT_EVENTS(&rig, "+cpu:a +disk:a");
    rig_close(&rig);
}
END_TEST

/* ---- nothing happened --------------------------------------------------- */

START_TEST(what_changes_nothing_for_readers_is_not_said)
{
    open_rig();
    ck_assert_int_eq(rig_put(&rig, "a#s1", 100), MC_OK);
    (void)rig_events(&rig);
    /* duplicate put, read, exist, size */
    ck_assert_int_eq(rig_put(&rig, "a#s2", 200), MC_ERR_OBJECT_ALREADY_EXISTS);
    ck_assert_int_eq(rig_get(&rig, "a", false).err, MC_OK);
    ck_assert_int_eq(rig_exist(&rig, "a"), 1);
    ck_assert_int_eq(rig_exist(&rig, "x"), 0);
    EXPECT_EVENTS(&rig, "");
    /* revoked */
    struct mci_write_row row = rig_put_start(&rig, "b#s3", 100);
    ck_assert_int_eq(rig_revoke(&rig, &row), MC_OK);
    row = rig_upsert_start(&rig, "a#s3", 100);
    ck_assert_int_eq(rig_revoke(&rig, &row), MC_OK);
    EXPECT_EVENTS(&rig, "");
    ck_assert(rig_has_tag(&rig, "a", "s1"));
    rig_close(&rig);
}
END_TEST

START_TEST(a_retried_end_is_said_once)
{
    open_rig();
    struct mci_write_row row = rig_put_start(&rig, "a", 100);
    ck_assert_int_eq(rig_end(&rig, &row), MC_OK);
    ck_assert_int_eq(rig_end(&rig, &row), MC_OK);
    EXPECT_EVENTS(&rig, "+cpu:a");
    struct mci_write_row upsert = rig_upsert_start(&rig, "a", 100);
    ck_assert_int_eq(rig_end(&rig, &upsert), MC_OK);
    ck_assert_int_eq(rig_end(&rig, &upsert), MC_OK);
    ck_assert_int_eq(rig_end(&rig, &row), MC_OK);
    EXPECT_EVENTS(&rig, "-cpu:a&+cpu:a");
    rig_close(&rig);
}
END_TEST

START_TEST(a_put_that_lost_the_race_is_not_said)
{
    open_rig();
    struct mci_write_row put = rig_put_start(&rig, "a#s1", 100);
    ck_assert_int_eq(rig_upsert(&rig, "a#s2", 200), MC_OK);
    EXPECT_EVENTS(&rig, "+cpu:a#s2");
    end_is(put, MC_OK);
    EXPECT_EVENTS(&rig, "");
    ck_assert_uint_eq(rig_probe(&rig, "a").size, 200);
    rig_close(&rig);
}
END_TEST

/* A put whose writer has been expired is preempted by another client's. */
START_TEST(a_preempted_write_is_not_said)
{
    open_rig();
    uint32_t dead = rig_add_client(&rig, 0, NULL);
    uint32_t alive = rig.client;
    rig.client = dead;
    struct mci_write_row lost = rig_put_start(&rig, "a#s1", 100);
    ck_assert_int_eq(lost.err, MC_OK);
    rig.client = alive;
    ck_assert_int_eq(rig_put_start(&rig, "a", 100).err,
                     MC_ERR_OBJECT_ALREADY_EXISTS);
    mci_master_client_expire(rig.master, dead);
    ck_assert_int_eq(rig_put(&rig, "a#s2", 100), MC_OK);
    EXPECT_EVENTS(&rig, "+cpu:a#s2");
    rig.client = dead;
    ck_assert_int_ne(rig_end(&rig, &lost), MC_OK);
    EXPECT_EVENTS(&rig, "");
    rig.client = alive;
    ck_assert(rig_has_tag(&rig, "a", "s2"));
    rig_close(&rig);
}
END_TEST

START_TEST(a_second_copy_on_a_medium_is_not_said)
{
    open_rig();
    uint32_t second;
    (void)rig_add_client(&rig, MIB, &second);
    struct mc_replicate_config config = {.replica_num = 2};
    rig.config = &config;
    struct mci_write_row row = rig_put_start(&rig, "a#s1", 100);
    ck_assert_int_eq(row.err, MC_OK);
    ck_assert_uint_eq(row.place_count, 2);
    ck_assert_uint_ne(row.places[0].segment, row.places[1].segment);
    end_is(row, MC_OK);
    EXPECT_EVENTS(&rig, "+cpu:a#s1");
    /* One of two copies goes: readers still get it from memory. */
    ck_assert_int_eq(rig_clear_replica(&rig, "a"), 0);
    EXPECT_EVENTS(&rig, "");
    rig.segment = second;
    ck_assert_int_eq(rig_clear_replica(&rig, "a"), 0);
    EXPECT_EVENTS(&rig, "-cpu:a#s1");
    rig_close(&rig);
}
END_TEST

/* The object knows the id of its last change per medium: what a list shows. */
START_TEST(an_object_shows_the_id_of_its_last_event)
{
    open_rig();
    ck_assert_int_eq(rig_put(&rig, "a", 100), MC_OK); /* 2, behind cleared */
    ck_assert_int_eq(rig_put(&rig, "b", 100), MC_OK); /* 3 */
    ck_assert_int_eq(rig_offload(&rig, "a"), MC_OK);  /* 4 */
    struct mci_page page;
    struct mci_cursor cursor = {0};
    ck_assert_int_eq(mci_page_init(&page), MC_OK);
    uint32_t seen = 0;
    while (!cursor.at_end) {
        ck_assert_int_eq(
            mci_master_list(rig.master, mc_view_make(NULL, 0), &cursor, &page),
            MC_OK);
        for (uint32_t i = 0; i < page.count; i++) {
            bool is_a = mc_view_equal(page.rows[i].key, mc_view_str("a"));
            ck_assert_uint_eq(page.rows[i].last_event_id, is_a ? 4 : 3);
            ck_assert_uint_eq(page.media_ids[i][0], is_a ? 2 : 3);
            ck_assert_uint_eq(page.media_ids[i][1], is_a ? 4 : 0);
            seen++;
        }
    }
    ck_assert_uint_eq(seen, 2);
    mci_page_fini(&page);
    rig_close(&rig);
}
END_TEST

static TCase *came(void)
{
    TCase *tcase = tcase_create("came");
    tcase_add_test(tcase,
                   a_version_on_a_fresh_key_is_stored_with_its_tag_and_group);
    tcase_add_test(tcase, nothing_is_said_before_the_end);
    tcase_add_test(tcase, a_key_that_came_back_is_stored_again);
    tcase_add_test(tcase, an_upsert_over_a_value_is_removed_and_stored_in_one);
    tcase_add_test(tcase, an_upsert_takes_every_medium_of_the_old_version_away);
    tcase_add_test(tcase, an_upsert_over_a_disk_copy_removes_the_disk);
    tcase_add_test(tcase, memory_goes_and_disk_stays);
    tcase_add_test(tcase, eviction_leaves_the_disk_copy);
    tcase_add_test(tcase, promoted_is_stored_in_memory);
    tcase_add_test(tcase, a_disk_copy_told_twice_is_stored_once);
    tcase_add_test(tcase, an_object_shows_the_id_of_its_last_event);
    return tcase;
}

static TCase *nothing(void)
{
    TCase *tcase = tcase_create("nothing");
    tcase_add_test(tcase, what_changes_nothing_for_readers_is_not_said);
    tcase_add_test(tcase, a_retried_end_is_said_once);
    tcase_add_test(tcase, a_put_that_lost_the_race_is_not_said);
    tcase_add_test(tcase, a_preempted_write_is_not_said);
    tcase_add_test(tcase, a_second_copy_on_a_medium_is_not_said);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("store events");
    suite_add_tcase(suite, came());
    suite_add_tcase(suite, nothing());
    return suite_run(suite);
}
