/* SPDX-License-Identifier: Apache-2.0 */
/* test_registry_fences.c - quarantine is left by proof only. SAFETY B.3 and B.4,
 * the registry's part. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "mc_log.h"
#include "registry_pair.h"
#include "suite.h"

static struct fellow other;

static struct mci_write_row start_doubtful(const char *key, uint64_t size)
{
    struct mci_write_row row = fellow_start(&writer, 0, key, size);
    ck_assert_int_eq(row.err, MC_OK);
    ck_assert_int_eq(fellow_revoke(&writer, &row, true), MC_OK);
    return row;
}

static void beat_both(void)
{
    rig_pass(&cast.rig, BEAT_MS);
    ck_assert_int_eq(fellow_beat(&writer), MC_OK);
    ck_assert_int_eq(fellow_beat(&owner), MC_OK);
}

/* ---- attempts ------------------------------------------------------------- */

START_TEST(space_is_back_within_two_heartbeats_of_the_owner)
{
    pair_open();
    struct mci_write_row row = start_doubtful("a", 4096);
    beat_both();
    ck_assert_uint_eq(owner.pulse.fence_count, 1);
    ck_assert_uint_eq(owner.pulse.fences[0].number, 1);
    ck_assert_int_eq(owner.pulse.fences[0].kind, MC_FENCE_ATTEMPT);
    ck_assert_uint_eq(owner.pulse.fences[0].subject, row.attempt.number);
    ck_assert_uint_eq(writer.pulse.fence_count, 0);
    ck_assert_uint_eq(pair_quarantined(), 1);
    ck_assert_uint_eq(cast_stats(&cast).fences_open, 1);
    fellow_fence(&owner);
    beat_both();
    ck_assert_uint_eq(owner.pulse.fence_count, 0);
    ck_assert_uint_eq(pair_quarantined(), 0);
    ck_assert_uint_eq(pair_allocated(), 0);
    ck_assert_uint_eq(cast_stats(&cast).fences_open, 0);
    EXPECT_EVENTS(&cast.rig, "");
    pair_close();
}
END_TEST

START_TEST(no_time_is_long_enough_without_a_proof)
{
    pair_open();
    struct mci_write_row row = start_doubtful("a", 4096);
    for (int i = 0; i < 1000; i++) {
        beat_both();
        rig_sweep(&cast.rig);
        cast_settle(&cast);
    }
    ck_assert_uint_eq(owner.pulse.fence_count, 1); /* told each time */
    ck_assert_uint_eq(pair_quarantined(), 1);
    rig_fill_beside(&cast.rig, row.places[0], 4096);
    ck_assert_uint_eq(pair_quarantined(), 1);
    pair_close();
}
END_TEST

START_TEST(fences_are_numbered_by_one_and_acknowledged_up_to_a_number)
{
    pair_open();
    (void)start_doubtful("a", 64);
    (void)start_doubtful("b", 64);
    beat_both();
    ck_assert_uint_eq(owner.pulse.fence_count, 2);
    (void)start_doubtful("c", 64);
    owner.fences_done = 1;
    beat_both();
    ck_assert_uint_eq(pair_quarantined(), 2);
    ck_assert_uint_eq(owner.pulse.fence_count, 2);
    ck_assert_uint_eq(owner.pulse.fences[0].number, 2);
    ck_assert_uint_eq(owner.pulse.fences[1].number, 3);
    owner.fences_done = 3;
    beat_both();
    ck_assert_uint_eq(pair_quarantined(), 0);
    pair_close();
}
END_TEST

START_TEST(a_number_that_was_never_told_proves_nothing)
{
    pair_open();
    owner.fences_done = UINT64_MAX;
    beat_both();
    (void)start_doubtful("a", 64);
    beat_both(); /* this one is told here, and cannot be done */
    owner.fences_done = 0;
    beat_both();
    ck_assert_uint_eq(owner.pulse.fence_count, 1);
    ck_assert_uint_eq(pair_quarantined(), 1);
    pair_close();
}
END_TEST

START_TEST(what_is_stuck_stays_and_nothing_else_does)
{
    pair_open();
    struct mci_write_row a = start_doubtful("a", 4096);
    (void)start_doubtful("b", 4096);
    beat_both();
    fellow_fence(&owner);
    owner.stuck[0] = (struct mci_stuck){.attempt = a.attempt.number,
                                        .incarnation = writer.incarnation};
    owner.stuck_count = 1;
    beat_both();
    ck_assert_uint_eq(pair_quarantined(), 1);
    ck_assert_uint_eq(pair_allocated(), 4096);
    ck_assert_uint_eq(cast_stats(&cast).stuck, 1);
    ck_assert_uint_eq(owner.pulse.fence_count, 0);
    for (int i = 0; i < 700; i++) {
        beat_both();
        cast_settle(&cast);
    }
    ck_assert_uint_eq(pair_quarantined(), 1);
    owner.stuck_count = 0; /* the peer went on, or died */
    beat_both();
    ck_assert_uint_eq(pair_quarantined(), 0);
    ck_assert_uint_eq(cast_stats(&cast).stuck, 0);
    ck_assert_uint_eq(pair_allocated(), 0);
    pair_close();
}
END_TEST

START_TEST(stuck_ones_that_are_nobodys_are_passed_over)
{
    pair_open();
    owner.stuck[0] = (struct mci_stuck){.attempt = 12345};
    owner.stuck[1] = (struct mci_stuck){.attempt = 0};
    owner.stuck_count = 2;
    (void)start_doubtful("a", 64);
    beat_both();
    fellow_fence(&owner);
    beat_both();
    ck_assert_uint_eq(pair_quarantined(), 0);
    ck_assert_uint_eq(cast_stats(&cast).stuck, 0);
    pair_close();
}
END_TEST

START_TEST(an_older_heartbeat_that_comes_late_undoes_nothing)
{
    pair_open();
    (void)start_doubtful("a", 64);
    beat_both();
    fellow_fence(&owner);
    beat_both();
    ck_assert_uint_eq(pair_quarantined(), 0);
    (void)start_doubtful("b", 64);
    owner.fences_done = 0; /* composed before the first fence came */
    beat_both();
    ck_assert_uint_eq(owner.pulse.fence_count, 1);
    ck_assert_uint_eq(owner.pulse.fences[0].number, 2);
    ck_assert_uint_eq(pair_quarantined(), 1);
    fellow_fence(&owner);
    beat_both();
    ck_assert_uint_eq(pair_quarantined(), 0);
    pair_close();
}
END_TEST

START_TEST(every_owner_has_to_say_so)
{
    pair_open();
    fellow_join(&cast, &other, "other:1", 1 * MIB);
    const struct mc_replicate_config config = {.replica_num = 2};
    cast.rig.config = &config;
    struct mci_write_row row = start_doubtful("a", 4096);
    cast.rig.config = NULL;
    ck_assert_uint_eq(row.place_count, 2);
    beat_both();
    ck_assert_int_eq(fellow_beat(&other), MC_OK);
    ck_assert_uint_eq(owner.pulse.fence_count, 1);
    fellow_fence(&owner);
    beat_both();
    ck_assert_uint_eq(pair_quarantined(), 1);
    ck_assert_uint_eq(pair_allocated(), 2 * 4096);
    other.fences_done = 1;
    ck_assert_int_eq(fellow_beat(&other), MC_OK);
    ck_assert_uint_eq(pair_quarantined(), 0);
    ck_assert_uint_eq(pair_allocated(), 0);
    fellow_leave(&other);
    pair_close();
}
END_TEST

START_TEST(the_writers_receipts_are_a_proof_too)
{
    pair_open();
    struct mci_write_row row = fellow_start(&writer, 0, "a", 4096);
    struct mci_write_row again = row;
    ck_assert_int_eq(fellow_revoke(&writer, &row, true), MC_OK);
    ck_assert_int_eq(fellow_revoke(&writer, &again, false), MC_OK);
    ck_assert_uint_eq(pair_quarantined(), 1); /* a word alone is none */
    beat_both();
    fellow_fence(&owner);
    beat_both();
    ck_assert_uint_eq(pair_quarantined(), 0);
    pair_close();
}
END_TEST

START_TEST(a_writer_in_the_masters_process_is_fenced_by_attempt)
{
    pair_open();
    struct mci_write_row row = rig_put_start(&cast.rig, "a", 4096);
    row.in_doubt = true;
    ck_assert_int_eq(rig_revoke(&cast.rig, &row), MC_OK);
    beat_both();
    ck_assert_uint_eq(owner.pulse.fence_count, 1);
    ck_assert_int_eq(owner.pulse.fences[0].kind, MC_FENCE_ATTEMPT);
    fellow_fence(&owner);
    beat_both();
    ck_assert_uint_eq(pair_allocated(), 0);
    pair_close();
}
END_TEST

/* ---- owners that go --------------------------------------------------------- */

START_TEST(an_owner_that_expires_takes_the_need_for_proof_with_it)
{
    pair_open();
    (void)start_doubtful("a", 4096);
    ck_assert_int_eq(fellow_beat(&owner), MC_OK);
    for (int i = 0; i < TTL_MS / BEAT_MS; i++) {
        rig_pass(&cast.rig, BEAT_MS);
        ck_assert_int_eq(fellow_beat(&writer), MC_OK);
        cast_settle(&cast);
    }
    ck_assert_uint_eq(cast_stats(&cast).clients, 1);
    ck_assert_uint_eq(pair_quarantined(), 0);
    ck_assert_uint_eq(pair_allocated(), 0);
    ck_assert_uint_eq(cast_stats(&cast).fences_open, 0);
    pair_close();
}
END_TEST

START_TEST(an_unmounted_segment_holds_nothing_up)
{
    pair_open();
    (void)start_doubtful("a", 4096);
    beat_both();
    ck_assert_int_eq(fellow_unmount(&owner, 0), MC_OK);
    cast_settle(&cast);
    ck_assert_uint_eq(pair_quarantined(), 0);
    ck_assert_uint_eq(pair_allocated(), 0);
    pair_close();
}
END_TEST

START_TEST(what_becomes_doubtful_on_a_closed_segment_needs_nothing)
{
    pair_open();
    struct mci_write_row row = fellow_start(&writer, 0, "a", 4096);
    ck_assert_int_eq(fellow_unmount(&owner, 0), MC_OK);
    cast_settle(&cast);
    ck_assert_int_eq(fellow_revoke(&writer, &row, true), MC_OK);
    cast_settle(&cast);
    ck_assert_uint_eq(pair_quarantined(), 0);
    ck_assert_uint_eq(pair_allocated(), 0);
    pair_close();
}
END_TEST

START_TEST(an_owner_that_is_displaced_is_gone_as_well)
{
    pair_open();
    (void)start_doubtful("a", 4096);
    beat_both();
    rig_pass(&cast.rig, 2 * BEAT_MS + 1);
    struct fellow successor;
    fellow_join(&cast, &successor, "owner:1", 1 * MIB);
    cast_settle(&cast);
    ck_assert_uint_eq(pair_quarantined(), 0);
    (void)start_doubtful("b", 4096);
    ck_assert_int_eq(fellow_beat(&successor), MC_OK);
    ck_assert_uint_eq(successor.pulse.fence_count, 1);
    ck_assert_uint_eq(successor.pulse.fences[0].number, 1); /* its own count */
    fellow_leave(&successor);
    pair_close();
}
END_TEST

/* ---- writers that go --------------------------------------------------------- */

static void expire_writer(void)
{
    mci_registry_goodbye(cast.registry, writer.member, cast.rig.now_ns);
}

START_TEST(an_expired_writer_is_one_fence_however_much_it_had_open)
{
    const struct cast_opts opts = {.rig = {.shards = 64}};
    cast_open(&cast, &opts);
    fellow_join(&cast, &owner, "owner:1", 1 * MIB);
    fellow_join(&cast, &writer, "writer:1", 0);
    for (int i = 0; i < 200; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%d", i);
        ck_assert_int_eq(fellow_start(&writer, 0, key, 64).err, MC_OK);
    }
    expire_writer();
    cast_settle(&cast);
    ck_assert_uint_eq(pair_quarantined(), 200);
    ck_assert_int_eq(fellow_beat(&owner), MC_OK);
    ck_assert_uint_eq(owner.pulse.fence_count, 1);
    ck_assert_int_eq(owner.pulse.fences[0].kind, MC_FENCE_INCARNATION);
    ck_assert_uint_eq(owner.pulse.fences[0].subject, writer.incarnation);
    fellow_fence(&owner);
    ck_assert_int_eq(fellow_beat(&owner), MC_OK);
    cast_settle(&cast);
    ck_assert_uint_eq(pair_quarantined(), 0);
    ck_assert_uint_eq(pair_allocated(), 0);
    ck_assert_uint_eq(cast_stats(&cast).attempts, 0);
    pair_close();
}
END_TEST

START_TEST(a_number_is_not_used_again_before_the_last_proof)
{
    pair_open();
    ck_assert_int_eq(fellow_start(&writer, 0, "a", 64).err, MC_OK);
    expire_writer();
    cast_settle(&cast);
    struct fellow next;
    fellow_join(&cast, &next, "writer:1", 0);
    ck_assert_uint_ne(next.client, writer.client);
    ck_assert_int_eq(fellow_beat(&owner), MC_OK);
    fellow_fence(&owner);
    ck_assert_int_eq(fellow_beat(&owner), MC_OK);
    rig_pass(&cast.rig, 1);
    cast_settle(&cast);
    struct fellow last;
    fellow_join(&cast, &last, "last:1", 0);
    ck_assert_uint_eq(last.client, writer.client);
    fellow_leave(&next);
    fellow_leave(&last);
    pair_close();
}
END_TEST

START_TEST(later_slices_are_covered_by_the_fence_of_the_first)
{
    const struct cast_opts opts = {.rig = {.shards = 1024}};
    cast_open(&cast, &opts);
    fellow_join(&cast, &owner, "owner:1", 1 * MIB);
    fellow_join(&cast, &writer, "writer:1", 0);
    struct mci_write_row rows[100];
    for (int i = 0; i < 100; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%d", i);
        rows[i] = fellow_start(&writer, 0, key, 64);
    }
    expire_writer();
    (void)cast_step(&cast); /* 256 shards of 1024 */
    uint64_t first = pair_quarantined();
    ck_assert_uint_gt(first, 0);
    ck_assert_uint_lt(first, 100);
    ck_assert_int_eq(fellow_beat(&owner), MC_OK);
    fellow_fence(&owner);
    /* One of those that are not in doubt yet is stuck already. */
    uint64_t stuck = 0;
    for (int i = 0; i < 100; i++) {
        if (rows[i].ref >> 32 >= 512) {
            stuck = rows[i].attempt.number;
        }
    }
    ck_assert_uint_ne(stuck, 0);
    owner.stuck[0] =
        (struct mci_stuck){.attempt = stuck, .incarnation = writer.incarnation};
    owner.stuck_count = 1;
    ck_assert_int_eq(fellow_beat(&owner), MC_OK);
    cast_settle(&cast);
    ck_assert_uint_eq(pair_quarantined(), 100 - first);
    ck_assert_int_eq(fellow_beat(&owner), MC_OK);
    cast_settle(&cast);
    ck_assert_uint_eq(owner.pulse.fence_count, 0); /* the first one covers */
    ck_assert_uint_eq(pair_quarantined(), 1);
    ck_assert_uint_eq(cast_stats(&cast).stuck, 1);
    owner.stuck_count = 0;
    ck_assert_int_eq(fellow_beat(&owner), MC_OK);
    ck_assert_uint_eq(pair_quarantined(), 0);
    pair_close();
}
END_TEST

/* Attempts of a writer that expires, on both of the owner's segments; returns how
 * many are on the one that goes then, which may be the one whose place told the
 * fence. */
static uint64_t expire_and_unmount(bool first_goes)
{
    uint32_t gone = owner.segment;
    ck_assert_int_eq(fellow_mount(&owner, 1 * MIB), MC_OK);
    gone = first_goes ? gone : owner.segment;
    uint64_t count = 0;
    for (int i = 0; i < 32; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%d", i);
        struct mci_write_row row = fellow_start(&writer, 0, key, 4096);
        ck_assert_int_eq(row.err, MC_OK);
        count += row.places[0].segment == gone;
    }
    ck_assert_uint_gt(count, 0);
    ck_assert_uint_lt(count, 32);
    expire_writer();
    cast_settle(&cast);
    ck_assert_uint_eq(pair_quarantined(), 32);
    ck_assert_int_eq(mci_registry_unmount(cast.registry, owner.member, gone, 0,
                                          cast.rig.now_ns),
                     MC_OK);
    cast_settle(&cast);
    return count;
}

START_TEST(a_fence_is_told_though_the_segment_that_asked_for_it_is_gone)
{
    pair_open();
    uint64_t gone = expire_and_unmount(_i == 0);
    ck_assert_uint_eq(pair_quarantined(), 32 - gone);
    struct fellow late;
    fellow_join(&cast, &late, "late:1", 0);
    struct mci_write_row row = fellow_start(&late, 0, "late", 64);
    ck_assert_int_eq(fellow_revoke(&late, &row, true), MC_OK);
    ck_assert_int_eq(fellow_beat(&owner), MC_OK);
    ck_assert_uint_eq(owner.pulse.fence_count, 2);
    ck_assert_uint_eq(owner.pulse.fences[0].number, 1);
    ck_assert_int_eq(owner.pulse.fences[0].kind, MC_FENCE_INCARNATION);
    ck_assert_uint_eq(owner.pulse.fences[0].subject, writer.incarnation);
    ck_assert_uint_eq(owner.pulse.fences[1].number, 2);
    fellow_fence(&owner);
    ck_assert_int_eq(fellow_beat(&owner), MC_OK);
    cast_settle(&cast);
    ck_assert_uint_eq(pair_quarantined(), 0);
    fellow_leave(&late);
    pair_close();
}
END_TEST

START_TEST(what_a_writer_left_on_its_own_memory_needs_no_proof)
{
    pair_open();
    ck_assert_int_eq(fellow_unmount(&owner, 0), MC_OK);
    ck_assert_int_eq(fellow_mount(&writer, 1 * MIB), MC_OK);
    ck_assert_int_eq(fellow_start(&writer, 0, "a", 64).err, MC_OK);
    expire_writer();
    cast_settle(&cast);
    ck_assert_uint_eq(pair_quarantined(), 0);
    ck_assert_uint_eq(pair_allocated(), 0);
    pair_close();
}
END_TEST

START_TEST(writer_and_owner_may_die_together)
{
    pair_open();
    ck_assert_int_eq(fellow_start(&writer, 0, "a", 64).err, MC_OK);
    (void)start_doubtful("b", 64);
    rig_pass(&cast.rig, TTL_MS);
    cast_settle(&cast);
    rig_pass(&cast.rig, 1);
    cast_settle(&cast);
    ck_assert_uint_eq(pair_allocated(), 0);
    ck_assert_uint_eq(cast_stats(&cast).clients, 0);
    struct fellow next;
    fellow_join(&cast, &next, "owner:1", 1 * MIB);
    ck_assert_uint_le(next.client, 3); /* numbers are free again */
    fellow_leave(&next);
    pair_close();
}
END_TEST

/* ---- reporting --------------------------------------------------------------- */

static int warnings;

static void count_warnings(void *ctx, enum mc_log_level level, const char *text)
{
    (void)ctx, (void)text;
    warnings += level == MC_LOG_WARN;
}

START_TEST(what_is_stuck_for_long_is_reported_once_and_not_freed)
{
    const struct cast_opts opts = {
        .rig = {.store = {.put_start_release_timeout_ms = 5000}}};
    cast_open(&cast, &opts);
    fellow_join(&cast, &owner, "owner:1", 1 * MIB);
    fellow_join(&cast, &writer, "writer:1", 0);
    (void)start_doubtful("a", 64);
    warnings = 0;
    mc_log_set_sink(count_warnings, NULL);
    beat_both();
    cast_settle(&cast);
    ck_assert_int_eq(warnings, 0);
    for (int i = 0; i < 10; i++) {
        beat_both();
        cast_settle(&cast);
    }
    mc_log_set_sink(NULL, NULL);
    ck_assert_int_eq(warnings, 1);
    ck_assert_uint_eq(pair_quarantined(), 1);
    fellow_fence(&owner);
    beat_both();
    ck_assert_uint_eq(pair_quarantined(), 0);
    pair_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store.registry_fences");
    TCase *tcase = tcase_create("attempts");
    tcase_add_test(tcase, space_is_back_within_two_heartbeats_of_the_owner);
    tcase_add_test(tcase, no_time_is_long_enough_without_a_proof);
    tcase_add_test(tcase,
                   fences_are_numbered_by_one_and_acknowledged_up_to_a_number);
    tcase_add_test(tcase, a_number_that_was_never_told_proves_nothing);
    tcase_add_test(tcase, what_is_stuck_stays_and_nothing_else_does);
    tcase_add_test(tcase, stuck_ones_that_are_nobodys_are_passed_over);
    tcase_add_test(tcase, an_older_heartbeat_that_comes_late_undoes_nothing);
    tcase_add_test(tcase, every_owner_has_to_say_so);
    tcase_add_test(tcase, the_writers_receipts_are_a_proof_too);
    tcase_add_test(tcase, a_writer_in_the_masters_process_is_fenced_by_attempt);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("owners");
    tcase_add_test(tcase,
                   an_owner_that_expires_takes_the_need_for_proof_with_it);
    tcase_add_test(tcase, an_unmounted_segment_holds_nothing_up);
    tcase_add_test(tcase,
                   what_becomes_doubtful_on_a_closed_segment_needs_nothing);
    tcase_add_test(tcase, an_owner_that_is_displaced_is_gone_as_well);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("writers");
    tcase_add_test(tcase,
                   an_expired_writer_is_one_fence_however_much_it_had_open);
    tcase_add_test(tcase, a_number_is_not_used_again_before_the_last_proof);
    tcase_add_test(tcase, later_slices_are_covered_by_the_fence_of_the_first);
    tcase_add_loop_test(
        tcase, a_fence_is_told_though_the_segment_that_asked_for_it_is_gone, 0,
        2);
    tcase_add_test(tcase, what_a_writer_left_on_its_own_memory_needs_no_proof);
    tcase_add_test(tcase, writer_and_owner_may_die_together);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("reporting");
    tcase_add_test(tcase,
                   what_is_stuck_for_long_is_reported_once_and_not_freed);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
