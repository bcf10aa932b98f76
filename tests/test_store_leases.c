/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_leases.c - versions, leases and attempts: the rules of SAFETY A and
 * D that a store can break without a network, each by the interleaving it
 * closes. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "store_rig.h"
#include "suite.h"

#define LEASE_MS 10000 /* the default */

static struct rig rig;

static struct mci_place place_of(const char *key)
{
    struct mci_call call = rig_call(&rig);
    struct mci_read_row row = {.key = mc_view_str(key)};
    ck_assert_int_eq(mci_master_get(rig.master, &call, &row, 1), MC_OK);
    ck_assert_int_eq(row.err, MC_OK);
    ck_assert_uint_eq(row.place_count, 1);
    return row.places[0];
}

/* ---- A.1: what a lease holds -------------------------------------------- */

START_TEST(a_lease_holds_the_bytes_after_their_key_is_gone)
{
    rig_open_with(&rig, "a", MIB / 2);
    struct mci_read_row read = rig_get(&rig, "a", false);
    ck_assert_uint_eq(read.lease_left_ns, LEASE_MS * MS);
    uint64_t deadline_ns = rig.now_ns + read.lease_left_ns;
    rig_unlink(&rig, "a", (enum rig_way)_i);
    if (_i == RIG_BY_UPSERT) {
        ck_assert_uint_eq(rig_probe(&rig, "a").size, 64);
    } else {
        ck_assert_int_eq(rig_get(&rig, "a", false).err,
                         MC_ERR_OBJECT_NOT_FOUND);
    }
    ck_assert_uint_eq(rig_leased_only(&rig), MIB / 2);
    rig_fill_beside(&rig, read.places[0], MIB / 2);
    rig.now_ns = deadline_ns - 1000000;
    rig_sweep(&rig);
    ck_assert_uint_eq(rig_leased_only(&rig), MIB / 2);
    rig_fill_beside(&rig, read.places[0], MIB / 2);
    rig.now_ns = deadline_ns + 1;
    rig_sweep(&rig);
    ck_assert_uint_eq(rig_leased_only(&rig), 0);
    ck_assert_int_eq(rig_put(&rig, "z", MIB / 2), MC_OK);
    rig_close(&rig);
}
END_TEST

/* An allocation does not wait for the sweep: what is over is taken. */
START_TEST(bytes_whose_lease_is_over_are_found_by_an_allocation)
{
    rig_open_with(&rig, "a", MIB / 2);
    ck_assert_int_eq(rig_put(&rig, "b", MIB / 2), MC_OK);
    ck_assert_int_eq(rig_get(&rig, "a", false).err, MC_OK);
    ck_assert_int_eq(rig_get(&rig, "b", false).err, MC_OK);
    ck_assert_int_eq(rig_remove(&rig, "a", true), 0);
    ck_assert_int_eq(rig_put(&rig, "c", MIB / 2), MC_ERR_NO_AVAILABLE_HANDLE);
    rig_pass(&rig, LEASE_MS + 1);
    ck_assert_int_eq(rig_put(&rig, "c", MIB / 2), MC_OK);
    rig_close(&rig);
}
END_TEST

/* Of two that wait, each waits for its own lease. */
START_TEST(one_lease_that_is_over_does_not_end_another)
{
    rig_open_with(&rig, "a", 256 * KIB);
    ck_assert_int_eq(rig_put(&rig, "b", 512 * KIB), MC_OK);
    ck_assert_int_eq(rig_get(&rig, "a", false).err, MC_OK);
    rig_pass(&rig, LEASE_MS / 2);
    struct mci_read_row read = rig_get(&rig, "b", false);
    ck_assert_uint_eq(rig_remove_all(&rig, true), 2);
    rig_pass_and_sweep(&rig, LEASE_MS / 2 + 1);
    ck_assert_uint_eq(rig_leased_only(&rig), 512 * KIB);
    rig_fill_beside(&rig, read.places[0], 512 * KIB);
    rig_pass_and_sweep(&rig, LEASE_MS / 2);
    ck_assert_uint_eq(rig_leased_only(&rig), 0);
    rig_close(&rig);
}
END_TEST

START_TEST(without_a_lease_bytes_are_free_at_once)
{
    rig_open_with(&rig, "a", MIB);
    ck_assert_int_eq(rig_remove(&rig, "a", false), 0);
    ck_assert_uint_eq(rig_stats(&rig).allocated_bytes, 0);
    ck_assert_int_eq(rig_put(&rig, "a", MIB), MC_OK);
    ck_assert_uint_eq(rig_remove_all(&rig, false), 1);
    ck_assert_uint_eq(rig_stats(&rig).allocated_bytes, 0);
    rig_close(&rig);
}
END_TEST

START_TEST(a_deadline_is_only_ever_extended)
{
    struct rig_opts opts = {.store.exist_lease_ttl_ms = 1000};
    rig_open(&rig, &opts);
    ck_assert_int_eq(rig_put(&rig, "a", 100), MC_OK);
    ck_assert_uint_eq(rig_probe(&rig, "a").lease_ms, 0);
    ck_assert_int_eq(rig_exist(&rig, "a"), 1);
    ck_assert_uint_eq(rig_probe(&rig, "a").lease_ms, 1000);
    ck_assert_uint_eq(rig_get(&rig, "a", false).lease_left_ns, LEASE_MS * MS);
    rig_pass(&rig, 3000);
    ck_assert_int_eq(rig_exist(&rig, "a"), 1);
    uint64_t left = rig_probe(&rig, "a").lease_ms;
    ck_assert(left >= 6990 && left <= 7000);
    rig_pass(&rig, 3000);
    ck_assert_uint_eq(rig_get(&rig, "a", false).lease_left_ns, LEASE_MS * MS);
    rig_close(&rig);
}
END_TEST

START_TEST(a_clock_that_stands_or_steps_back_shortens_nothing)
{
    rig_open_with(&rig, "a", 100);
    ck_assert_int_eq(rig_get(&rig, "a", false).err, MC_OK);
    uint64_t now_ns = rig.now_ns;
    rig.now_ns -= 5 * SECOND;
    ck_assert_uint_ge(rig_get(&rig, "a", false).lease_left_ns, LEASE_MS * MS);
    rig.now_ns = now_ns + LEASE_MS * MS - MS;
    ck_assert_int_eq(rig_remove(&rig, "a", false), MC_ERR_OBJECT_HAS_LEASE);
    rig_close(&rig);
}
END_TEST

/* A reader in this process that is slower than its lease still gets its bytes:
 * D1 of the known faults. */
START_TEST(a_hold_keeps_the_bytes_beyond_the_lease)
{
    rig_open_with(&rig, "a", MIB / 2);
    struct mci_read_row one = rig_get(&rig, "a", true);
    struct mci_read_row two = rig_get(&rig, "a", true);
    ck_assert_int_eq(one.err, MC_OK);
    rig_pass(&rig, 100 * LEASE_MS);
    rig_fill_beside(&rig, one.places[0],
                    MIB / 2); /* not evicted under the reader */
    ck_assert_int_eq(rig_upsert(&rig, "a", 64), MC_OK);
    rig_sweep(&rig);
    rig_fill_beside(&rig, one.places[0], MIB / 2);
    rig_release(&rig, &one);
    rig_sweep(&rig);
    rig_fill_beside(&rig, two.places[0], MIB / 2);
    ck_assert_uint_eq(rig_leased_only(&rig), MIB / 2);
    rig_release(&rig, &two);
    rig_sweep(&rig);
    ck_assert_uint_eq(rig_leased_only(&rig), 0);
    ck_assert_int_eq(rig_put(&rig, "z", MIB / 2), MC_OK);
    rig_close(&rig);
}
END_TEST

/* Evicting it would give no byte to anybody. */
START_TEST(what_is_held_is_not_evicted_in_vain)
{
    struct rig_opts opts = {.store.default_kv_lease_ttl_ms = MC_NONE};
    rig_open(&rig, &opts);
    ck_assert_int_eq(rig_put(&rig, "a", MIB), MC_OK);
    struct mci_read_row read = rig_get(&rig, "a", true);
    ck_assert_uint_eq(read.lease_left_ns, 0);
    (void)rig_events(&rig);
    char *before = rig_state(&rig);
    ck_assert_int_eq(rig_put(&rig, "b", 64), MC_ERR_NO_AVAILABLE_HANDLE);
    EXPECT_UNCHANGED(&rig, before);
    free(before);
    rig_release(&rig, &read);
    ck_assert_int_eq(rig_put(&rig, "b", 64), MC_OK);
    EXPECT_EVENTS(&rig, "-cpu:a +cpu:b");
    rig_close(&rig);
}
END_TEST

/* A copy that goes alone, because another or the disk stays, waits as well. */
START_TEST(a_lease_holds_the_bytes_of_a_copy_that_goes_alone)
{
    rig_open(&rig, NULL);
    uint32_t second = 0;
    if (_i == 1) {
        (void)rig_add_client(&rig, MIB, &second);
    }
    struct mc_replicate_config two = {.replica_num = 2};
    rig.config = _i == 1 ? &two : NULL;
    ck_assert_int_eq(rig_put(&rig, "a", MIB / 2), MC_OK);
    rig.config = NULL;
    if (_i == 0) {
        ck_assert_int_eq(rig_offload(&rig, "a"), MC_OK);
    }
    struct mci_read_row read = rig_get(&rig, "a", false);
    ck_assert_int_eq(read.err, MC_OK);
    ck_assert_int_eq(rig_clear_replica(&rig, "a"), 0);
    ck_assert_int_eq(rig_probe(&rig, "a").state, MC_OBJECT_READABLE);
    ck_assert_uint_eq(rig_leased_only(&rig), MIB / 2);
    for (uint32_t i = 0; i < read.place_count; i++) {
        rig_fill_beside(&rig, read.places[i], MIB / 2);
    }
    rig_pass_and_sweep(&rig, LEASE_MS + 1);
    ck_assert_uint_eq(rig_leased_only(&rig), 0);
    rig_close(&rig);
}
END_TEST

/* A lease belongs to a version: the next one of the key has its own. */
START_TEST(the_next_version_is_not_leased_by_readers_of_the_last)
{
    rig_open_with(&rig, "a", 100);
    ck_assert_int_eq(rig_get(&rig, "a", false).err, MC_OK);
    uint64_t version = rig_probe(&rig, "a").version;
    ck_assert_int_eq(rig_upsert(&rig, "a", 100), MC_OK);
    ck_assert_uint_ne(rig_probe(&rig, "a").version, version);
    ck_assert_uint_eq(rig_probe(&rig, "a").lease_ms, 0);
    ck_assert_int_eq(rig_remove(&rig, "a", false), 0);
    rig_close(&rig);
}
END_TEST

START_TEST(an_upsert_writes_beside_what_is_readable)
{
    rig_open_with(&rig, "a", 4096);
    struct mci_place old = place_of("a");
    struct mci_write_row row = rig_upsert_start(&rig, "a", 4096);
    ck_assert_int_eq(row.err, MC_OK);
    ck_assert(!rig_overlap(old, 4096, row.places[0], 4096));
    struct mci_place still = place_of("a");
    ck_assert_uint_eq(still.offset, old.offset);
    ck_assert_int_eq(rig_end(&rig, &row), MC_OK);
    struct mci_place fresh = place_of("a");
    ck_assert_uint_eq(fresh.offset, row.places[0].offset);
    rig_close(&rig);
}
END_TEST

START_TEST(an_upsert_without_room_for_both_changes_nothing)
{
    rig_open_with(&rig, "a#s1", 768 * KIB);
    (void)rig_events(&rig);
    char *before = rig_state(&rig);
    /* its own key is never evicted for it */
    ck_assert_int_eq(rig_upsert(&rig, "a#s2", 512 * KIB),
                     MC_ERR_NO_AVAILABLE_HANDLE);
    EXPECT_UNCHANGED(&rig, before);
    free(before);
    rig_close(&rig);
}
END_TEST

START_TEST(an_upsert_evicts_others_before_it_gives_up)
{
    rig_open_with(&rig, "a#s1", 512 * KIB);
    ck_assert_int_eq(rig_put(&rig, "b", 512 * KIB), MC_OK);
    (void)rig_events(&rig);
    ck_assert_int_eq(rig_upsert(&rig, "a#s2", 512 * KIB), MC_OK);
    EXPECT_EVENTS(&rig, "-cpu:b -cpu:a#s1&+cpu:a#s2");
    rig_close(&rig);
}
END_TEST

/* ---- A.3: which tag is kept --------------------------------------------- */

START_TEST(an_untagged_upsert_keeps_the_tag_of_the_moment_of_its_end)
{
    rig_open_with(&rig, "a#s1", 100);
    struct mci_write_row slow = rig_upsert_start(&rig, "a", 100);
    ck_assert_int_eq(rig_upsert(&rig, "a#s2", 100), MC_OK);
    (void)rig_events(&rig);
    ck_assert_int_eq(rig_end(&rig, &slow), MC_OK);
    EXPECT_EVENTS(&rig, "-cpu:a#s2&+cpu:a#s2");
    ck_assert(rig_has_tag(&rig, "a", "s2"));
    rig_close(&rig);
}
END_TEST

START_TEST(an_untagged_upsert_of_what_is_gone_at_its_end_has_no_tag)
{
    rig_open_with(&rig, "a#s1", 100);
    struct mci_write_row slow = rig_upsert_start(&rig, "a", 100);
    ck_assert_int_eq(rig_remove(&rig, "a", false), 0);
    (void)rig_events(&rig);
    ck_assert_int_eq(rig_end(&rig, &slow), MC_OK);
    EXPECT_EVENTS(&rig, "+cpu:a");
    ck_assert_uint_eq(rig_probe(&rig, "a").session_len, 0);
    rig_close(&rig);
}
END_TEST

START_TEST(an_untagged_upsert_keeps_the_tag_of_a_put_that_came_first)
{
    rig_open(&rig, NULL);
    struct mci_write_row slow = rig_upsert_start(&rig, "a", 100);
    ck_assert_int_eq(rig_put(&rig, "a#s9", 100), MC_OK);
    (void)rig_events(&rig);
    ck_assert_int_eq(rig_end(&rig, &slow), MC_OK);
    EXPECT_EVENTS(&rig, "-cpu:a#s9&+cpu:a#s9");
    rig_close(&rig);
}
END_TEST

START_TEST(a_pending_tag_is_nobodys_before_its_end_and_gone_after_a_revoke)
{
    rig_open_with(&rig, "a#s1", 100);
    struct mci_write_row row = rig_upsert_start(&rig, "a#s2", 100);
    ck_assert(rig_has_tag(&rig, "a", "s1"));
    ck_assert_int_eq(rig_revoke(&rig, &row), MC_OK);
    ck_assert(rig_has_tag(&rig, "a", "s1"));
    struct mci_write_row put = rig_put_start(&rig, "b#s3", 100);
    ck_assert_uint_eq(rig_probe(&rig, "b").session_len, 0);
    ck_assert_int_eq(rig_probe(&rig, "b").state, MC_OBJECT_WRITING);
    ck_assert_int_eq(rig_revoke(&rig, &put), MC_OK);
    ck_assert_int_eq(rig_put(&rig, "b", 100), MC_OK);
    ck_assert_uint_eq(rig_probe(&rig, "b").session_len, 0);
    rig_close(&rig);
}
END_TEST

static TCase *leases(void)
{
    TCase *tcase = tcase_create("leases");
    tcase_add_loop_test(tcase, a_lease_holds_the_bytes_after_their_key_is_gone,
                        0, RIG_WAYS);
    tcase_add_test(tcase, bytes_whose_lease_is_over_are_found_by_an_allocation);
    tcase_add_test(tcase, one_lease_that_is_over_does_not_end_another);
    tcase_add_test(tcase, without_a_lease_bytes_are_free_at_once);
    tcase_add_test(tcase, a_deadline_is_only_ever_extended);
    tcase_add_test(tcase, a_clock_that_stands_or_steps_back_shortens_nothing);
    tcase_add_test(tcase, a_hold_keeps_the_bytes_beyond_the_lease);
    tcase_add_test(tcase, what_is_held_is_not_evicted_in_vain);
    tcase_add_loop_test(
        tcase, a_lease_holds_the_bytes_of_a_copy_that_goes_alone, 0, 2);
    tcase_add_test(tcase,
                   the_next_version_is_not_leased_by_readers_of_the_last);
    tcase_add_test(tcase, an_upsert_writes_beside_what_is_readable);
    tcase_add_test(tcase, an_upsert_without_room_for_both_changes_nothing);
    tcase_add_test(tcase, an_upsert_evicts_others_before_it_gives_up);
    return tcase;
}

static TCase *tags(void)
{
    TCase *tcase = tcase_create("tags");
    tcase_add_test(tcase,
                   an_untagged_upsert_keeps_the_tag_of_the_moment_of_its_end);
    tcase_add_test(tcase,
                   an_untagged_upsert_of_what_is_gone_at_its_end_has_no_tag);
    tcase_add_test(tcase,
                   an_untagged_upsert_keeps_the_tag_of_a_put_that_came_first);
    tcase_add_test(
        tcase, a_pending_tag_is_nobodys_before_its_end_and_gone_after_a_revoke);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("store leases");
    suite_add_tcase(suite, leases());
    suite_add_tcase(suite, tags());
    return suite_run(suite);
}
