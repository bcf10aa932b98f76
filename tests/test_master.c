/* SPDX-License-Identifier: Apache-2.0 */
/* test_master.c - corners of the core that what is promised does not show at
 * once: who carries leased bytes, who remembers what for how long.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "evict_rig.h"
#include "mci_alloc.h"
#include "suite.h"
#include "writer.h"

static struct rig rig;

static uint64_t waiting(void)
{
    return rig_stats(&rig).leased_only_bytes;
}

/* ---- leased bytes whose version lives on ------------------------------------ */

static void promote(const char *key)
{
    struct mci_write_row row = {.key = mc_view_str(key), .is_spent = true};
    struct mci_call call = rig_call(&rig);
    ck_assert_int_eq(mci_master_promote_start(rig.master, &call, &row, 1),
                     MC_OK);
    ck_assert_int_eq(row.err, MC_OK);
    ck_assert_int_eq(mci_master_promote_end(rig.master, &call, &row, 1), MC_OK);
    ck_assert_int_eq(row.err, MC_OK);
}

START_TEST(leased_memory_of_a_version_on_disk_waits_each_time_it_goes)
{
    rig_open(&rig, NULL);
    ck_assert_int_eq(rig_put(&rig, "a#s@g", QUARTER), MC_OK);
    ck_assert_int_eq(rig_offload(&rig, "a"), MC_OK);
    for (int i = 0; i < 3; i++) {
        struct mci_read_row row = rig_get(&rig, "a", false);
        ck_assert_int_eq(row.err, MC_OK);
        ck_assert_int_eq(rig_clear_replica(&rig, "a"), 0);
        ck_assert_uint_eq(rig_probe(&rig, "a").media, MC_MEDIUM_DISK);
        ck_assert_uint_eq(waiting(), QUARTER);
        struct mci_write_row other = rig_put_start(&rig, "b", 2 * QUARTER);
        ck_assert_int_eq(other.err, MC_OK);
        ck_assert(
            !rig_overlap(row.places[0], QUARTER, other.places[0], 3 * QUARTER));
        ck_assert_int_eq(rig_revoke(&rig, &other), MC_OK);
        promote("a");
        ck_assert(rig_has_tag(&rig, "a", "s"));
        ck_assert(mci_master_check(rig.master));
        rig_pass(&rig, LEASE_MS + 1);
        rig_sweep(&rig);
        ck_assert_uint_eq(waiting(), 0);
    }
    (void)rig_events(&rig);
    rig_close(&rig);
}
END_TEST

START_TEST(of_two_copies_each_can_go_first)
{
    for (int first = 0; first < 2; first++) {
        uint32_t segments[2];
        struct mc_replicate_config two = {.replica_num = 2};
        rig_open(&rig, NULL);
        (void)rig_add_client(&rig, MIB, &segments[1]);
        segments[0] = rig.segment;
        rig.config = &two;
        ck_assert_int_eq(rig_put(&rig, "a", QUARTER), MC_OK);
        EXPECT_EVENTS(&rig, "+cpu:a");
        ck_assert_uint_eq(rig_get(&rig, "a", false).place_count, 2);
        rig.segment = segments[first];
        ck_assert_int_eq(rig_clear_replica(&rig, "a"), 0);
        ck_assert_int_eq(rig_clear_replica(&rig, "a"),
                         MC_ERR_REPLICA_NOT_FOUND);
        EXPECT_EVENTS(&rig, "");
        ck_assert_uint_eq(waiting(), QUARTER);
        struct mci_read_row row = rig_get(&rig, "a", false);
        ck_assert_uint_eq(row.place_count, 1);
        ck_assert_uint_eq(row.places[0].segment, segments[!first]);
        rig.segment = segments[!first];
        ck_assert_int_eq(rig_clear_replica(&rig, "a"), 0);
        EXPECT_EVENTS(&rig, "-cpu:a");
        ck_assert_uint_eq(waiting(), 2 * QUARTER);
        rig_pass(&rig, LEASE_MS + 1);
        rig_sweep(&rig);
        ck_assert_uint_eq(rig_stats(&rig).allocated_bytes, 0);
        rig_close(&rig);
    }
}
END_TEST

START_TEST(a_copy_that_is_being_read_here_is_busy)
{
    rig_open(&rig, NULL);
    ck_assert_int_eq(rig_put(&rig, "a", QUARTER), MC_OK);
    ck_assert_int_eq(rig_offload(&rig, "a"), MC_OK);
    struct mci_read_row row = rig_get(&rig, "a", true);
    ck_assert_int_eq(rig_clear_replica(&rig, "a"), MC_ERR_OBJECT_REPLICA_BUSY);
    rig_release(&rig, &row);
    ck_assert_int_eq(rig_clear_replica(&rig, "a"), 0);
    EXPECT_EVENTS(&rig, "+cpu:a +disk:a -cpu:a");
    rig_close(&rig);
}
END_TEST

START_TEST(a_member_that_is_only_on_disk_still_is_one)
{
    rig_open(&rig, NULL);
    ck_assert_int_eq(rig_put(&rig, "a@g", QUARTER), MC_OK);
    ck_assert_int_eq(rig_offload(&rig, "a"), MC_OK);
    ck_assert_int_eq(rig_put(&rig, "x", 4 * QUARTER), MC_OK);
    ck_assert_uint_eq(rig_probe(&rig, "a").media, MC_MEDIUM_DISK);
    ck_assert(mci_master_check(rig.master));
    EXPECT_EVENTS(&rig, "+cpu:a@g +disk:a@g -cpu:a@g +cpu:x");
    rig_close(&rig);
}
END_TEST

/* ---- hints of the evictor and of limbo --------------------------------------- */

/* A walk that found only leases is remembered; what comes later is found. */
START_TEST(what_comes_after_a_hopeless_look_can_be_evicted)
{
    for (int i = 0; i < SHARD_ROWS; i++) {
        static const char *const specs[] = {"a", "b", "c"};
        open_default(&rig, i);
        put_quarters(&rig, specs, 3);
        for (int j = 0; j < 3; j++) {
            get_ok(&rig, specs[j]);
        }
        ck_assert_int_eq(rig_put(&rig, "big", 2 * QUARTER),
                         MC_ERR_NO_AVAILABLE_HANDLE);
        ck_assert_int_eq(rig_put(&rig, "d", QUARTER), MC_OK);
        ck_assert_int_eq(rig_put(&rig, "e", QUARTER), MC_OK);
        ck_assert(!is_there(&rig, "d"));
        (void)rig_events(&rig);
        rig_close(&rig);
    }
}
END_TEST

START_TEST(leases_that_end_one_after_the_other_are_each_found_in_time)
{
    for (int i = 0; i < SHARD_ROWS; i++) {
        static const char *const specs[] = {"a", "b", "c", "d"};
        open_default(&rig, i);
        put_quarters(&rig, specs, 4);
        for (int j = 0; j < 4; j++) {
            get_ok(&rig, specs[j]);
            ck_assert_int_eq(rig_remove(&rig, specs[j], true), 0);
            rig_pass(&rig, LEASE_MS / 10);
        }
        ck_assert_uint_eq(waiting(), 4 * QUARTER);
        rig_pass(&rig, LEASE_MS * 5 / 10);
        ck_assert_int_eq(rig_put(&rig, "early", QUARTER),
                         MC_ERR_NO_AVAILABLE_HANDLE);
        for (int j = 0; j < 4; j++) {
            static const char *const later[] = {"e", "f", "g", "h"};
            rig_pass(&rig, LEASE_MS / 10);
            ck_assert_int_eq(rig_put(&rig, later[j], QUARTER), MC_OK);
            get_ok(&rig, later[j]); /* so that it does not make room itself */
            ck_assert_int_eq(rig_put(&rig, "early", QUARTER),
                             MC_ERR_NO_AVAILABLE_HANDLE);
        }
        (void)rig_events(&rig);
        rig_close(&rig);
    }
}
END_TEST

/* ---- attempts and clients ------------------------------------------------------ */

START_TEST(fates_are_kept_for_so_many_attempts_and_no_more)
{
    enum { KEPT = 65536 };
    rig_open(&rig, NULL);
    struct mci_write_row first = rig_put_start(&rig, "a", 64);
    ck_assert_int_eq(rig_end(&rig, &first), MC_OK);
    struct mci_write_row open = rig_put_start(&rig, "b", 64);
    for (int i = 0; i < KEPT - 2; i++) {
        struct mci_write_row row = rig_put_start(&rig, "c", 64);
        ck_assert_int_eq(rig_revoke(&rig, &row), MC_OK);
    }
    ck_assert_int_eq(
        mci_master_attempt_fate(rig.master, rig.client, first.attempt),
        MCI_FATE_COMMITTED);
    ck_assert_int_eq(rig_end(&rig, &first), MC_OK);
    struct mci_write_row last = rig_put_start(&rig, "d", 64);
    ck_assert_int_eq(
        mci_master_attempt_fate(rig.master, rig.client, first.attempt),
        MCI_FATE_UNKNOWN);
    ck_assert_int_eq(rig_end(&rig, &first), MC_ERR_INVALID_VERSION);
    struct mci_write_row more = rig_put_start(&rig, "e", 64);
    /* Older than what is remembered, and still it ends. */
    ck_assert_int_eq(rig_end(&rig, &open), MC_OK);
    ck_assert_int_eq(
        mci_master_attempt_fate(rig.master, rig.client, more.attempt),
        MCI_FATE_OPEN);
    ck_assert_int_eq(rig_end(&rig, &last), MC_OK);
    ck_assert_int_eq(rig_end(&rig, &more), MC_OK);
    (void)rig_events(&rig);
    rig_close(&rig);
}
END_TEST

/* The places of fates are told apart by a generation that comes again: an
 * attempt that was open for so long must not settle another one's. */
START_TEST(an_old_attempt_leaves_the_fates_of_new_ones_alone)
{
    enum { KEPT = 65536, GENERATIONS = 64 };
    rig_open(&rig, NULL);
    struct mci_write_row old = rig_put_start(&rig, "a", 64);
    struct mci_writer *writer = mci_writer_at(rig.master, rig.client);
    atomic_fetch_add(&writer->last_serial, KEPT * GENERATIONS - 1);
    struct mci_write_row new = rig_put_start(&rig, "b", 64);
    ck_assert_uint_eq(new.attempt.number - old.attempt.number,
                      KEPT * GENERATIONS);
    ck_assert_int_eq(rig_end(&rig, &old), MC_OK);
    ck_assert_int_eq(
        mci_master_attempt_fate(rig.master, rig.client, new.attempt),
        MCI_FATE_OPEN);
    ck_assert_int_eq(rig_revoke(&rig, &new), MC_OK);
    ck_assert_int_eq(
        mci_master_attempt_fate(rig.master, rig.client, new.attempt),
        MCI_FATE_REFUSED);
    (void)rig_events(&rig);
    rig_close(&rig);
}
END_TEST

START_TEST(fates_take_the_memory_of_their_bound_and_no_more)
{
    enum { KEPT = 65536 };
    struct mci_alloc_stats before;
    struct mci_alloc_stats after;
    rig_open(&rig, NULL);
    unsigned failed = 0; /* an assertion in each round would take most time */
    for (uint32_t i = 0; i < KEPT + 1000; i++) {
        struct mci_write_row row = rig_put_start(&rig, "a", 64);
        failed += rig_revoke(&rig, &row) != MC_OK;
        if (i == 0) {
            mci_alloc_stats(&before);
        }
    }
    mci_alloc_stats(&after);
    ck_assert_uint_eq(failed, 0);
    ck_assert_int_eq(after.bytes, before.bytes);
    ck_assert_int_eq(after.blocks, before.blocks);
    /* What is kept of another incarnation is its own. */
    uint32_t other = rig_add_client(&rig, 0, NULL);
    struct mci_call call = rig_call(&rig);
    struct mci_write_row row = rig_row("b", 64);
    call.client = other;
    ck_assert_int_eq(mci_master_put_start(rig.master, &call, NULL, &row, 1),
                     MC_OK);
    ck_assert_int_eq(mci_master_attempt_fate(rig.master, other, row.attempt),
                     MCI_FATE_OPEN);
    ck_assert_int_eq(
        mci_master_attempt_fate(rig.master, rig.client, row.attempt),
        MCI_FATE_UNKNOWN);
    (void)rig_events(&rig);
    rig_close(&rig);
}
END_TEST

START_TEST(a_client_has_so_many_attempts_open_and_no_more)
{
    rig_open(&rig, &(struct rig_opts){.segment_bytes = 8 * MIB});
    char key[16];
    struct mci_write_row row = {0};
    for (int i = 0; i < MC_ATTEMPTS_MAX; i++) {
        (void)snprintf(key, sizeof key, "k%d", i);
        row = rig_put_start(&rig, key, 64);
        ck_assert_int_eq(row.err, MC_OK);
    }
    ck_assert_int_eq(rig_put_start(&rig, "more", 64).err,
                     MC_ERR_NO_AVAILABLE_HANDLE);
    row.key = mc_view_str(key);
    ck_assert_int_eq(rig_revoke(&rig, &row), MC_OK);
    ck_assert_int_eq(rig_put_start(&rig, "more", 64).err, MC_OK);
    rig_close(&rig);
}
END_TEST

START_TEST(a_client_id_is_used_again_and_its_numbers_are_not)
{
    rig_open(&rig, NULL);
    uint32_t owner = rig.client;
    uint32_t first = rig_add_client(&rig, 0, NULL);
    rig.client = first;
    struct mci_write_row left = rig_put_start(&rig, "a", 64);
    bool done = false;
    mci_master_client_expire(rig.master, first);
    while (!done) {
        ck_assert_int_eq(
            mci_master_client_step(rig.master, first, rig.now_ns, 0, &done),
            MC_OK);
    }
    ck_assert_uint_eq(rig_stats(&rig).quarantined_bytes, 64);
    ck_assert_uint_ne(rig_add_client(&rig, 0, NULL), first);
    mci_master_client_fenced(rig.master, first);
    ck_assert_uint_eq(rig_stats(&rig).allocated_bytes, 0);
    ck_assert_uint_eq(rig_add_client(&rig, 0, NULL), first);
    struct mci_write_row row = rig_put_start(&rig, "a", 64);
    ck_assert_uint_gt(row.attempt.number, left.attempt.number);
    ck_assert_int_eq(rig_end(&rig, &left), MC_ERR_INVALID_VERSION);
    ck_assert_int_eq(rig_end(&rig, &row), MC_OK);
    rig.client = owner;
    (void)rig_events(&rig);
    rig_close(&rig);
}
END_TEST

START_TEST(a_segment_slot_is_used_again_under_another_id)
{
    rig_open(&rig, NULL);
    uint32_t first = 0;
    uint32_t second = 0;
    bool done = false;
    (void)rig_add_client(&rig, MIB, &first);
    mci_master_segment_close(rig.master, first);
    (void)rig_add_client(&rig, MIB, &second);
    ck_assert_uint_ne(first, second);
    /* The old id says nothing about the new segment. */
    mci_master_segment_close(rig.master, first);
    ck_assert_int_eq(
        mci_master_segment_step(rig.master, first, rig.now_ns, 0, &done),
        MC_OK);
    ck_assert(done);
    ck_assert_uint_eq(rig_stats(&rig).capacity_bytes, 2 * MIB);
    rig_close(&rig);
}
END_TEST

/* ---- walking --------------------------------------------------------------------- */

START_TEST(pages_hold_keys_of_any_length)
{
    enum { MANY = 60 };
    static char keys[MANY][MC_KEY_LEN_MAX + 1];
    unsigned listed = 0;
    struct mci_cursor cursor = {.shard = 0};
    struct mci_page page;
    rig_open(&rig, NULL);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "%0*d", MC_KEY_LEN_MAX, i);
        ck_assert_int_eq(rig_put(&rig, keys[i], 64), MC_OK);
    }
    ck_assert_int_eq(mci_page_init(&page), MC_OK);
    while (!cursor.at_end) {
        ck_assert_int_eq(
            mci_master_list(rig.master, rig.tenant, &cursor, &page), MC_OK);
        for (uint32_t i = 0; i < page.count; i++) {
            ck_assert_uint_eq(page.rows[i].key.len, MC_KEY_LEN_MAX);
            listed++;
        }
    }
    ck_assert_uint_eq(listed, MANY);
    mci_page_fini(&page);
    (void)rig_events(&rig);
    rig_close(&rig);
}
END_TEST

static void add_cases(Suite *suite)
{
    TCase *tcase = tcase_create("copies");
    tcase_add_test(tcase,
                   leased_memory_of_a_version_on_disk_waits_each_time_it_goes);
    tcase_add_test(tcase, of_two_copies_each_can_go_first);
    tcase_add_test(tcase, a_copy_that_is_being_read_here_is_busy);
    tcase_add_test(tcase, a_member_that_is_only_on_disk_still_is_one);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("hints");
    tcase_add_test(tcase, what_comes_after_a_hopeless_look_can_be_evicted);
    tcase_add_test(tcase,
                   leases_that_end_one_after_the_other_are_each_found_in_time);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("numbers");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, fates_are_kept_for_so_many_attempts_and_no_more);
    tcase_add_test(tcase, an_old_attempt_leaves_the_fates_of_new_ones_alone);
    tcase_add_test(tcase, fates_take_the_memory_of_their_bound_and_no_more);
    tcase_add_test(tcase, a_client_has_so_many_attempts_open_and_no_more);
    tcase_add_test(tcase, a_client_id_is_used_again_and_its_numbers_are_not);
    tcase_add_test(tcase, a_segment_slot_is_used_again_under_another_id);
    tcase_add_test(tcase, pages_hold_keys_of_any_length);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    Suite *suite = suite_create("master");
    add_cases(suite);
    return suite_run(suite);
}
