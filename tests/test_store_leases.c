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
#define IDLE_MS 600000

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

static bool overlap(struct mci_place a, uint64_t a_size, struct mci_place b,
                    uint64_t b_size)
{
    return a.segment == b.segment && a.offset < b.offset + b_size &&
           b.offset < a.offset + a_size;
}

/* ---- A.1: what a lease holds -------------------------------------------- */

enum way {
    BY_REMOVE,
    BY_FORCE,
    BY_REMOVE_ALL,
    BY_REGEX,
    BY_UPSERT,
    BY_CLEARING,
    WAYS
};

static void unlink_a(enum way way)
{
    struct mci_call call = rig_call(&rig);
    uint64_t removed = 0;
    switch (way) {
    case BY_REMOVE:
        ck_assert_int_eq(rig_remove(&rig, "a", false), MC_ERR_OBJECT_HAS_LEASE);
        ck_assert_int_eq(rig_remove(&rig, "a", true), 0);
        return;
    case BY_FORCE:
        ck_assert_int_eq(rig_remove(&rig, "a", true), 0);
        return;
    case BY_REMOVE_ALL:
        ck_assert_uint_eq(rig_remove_all(&rig, true), 1);
        return;
    case BY_REGEX:
        ck_assert_int_eq(mci_master_remove_by_regex(rig.master, &call,
                                                    mc_view_str("a"), true,
                                                    &removed),
                         MC_OK);
        ck_assert_uint_eq(removed, 1);
        return;
    case BY_UPSERT:
        ck_assert_int_eq(rig_upsert(&rig, "a", 64), MC_OK);
        return;
    case BY_CLEARING:
        ck_assert_int_eq(rig_clear_replica(&rig, "a"), 0);
        return;
    default:
        ck_abort();
    }
}

/* Everything that can be had is had, and lies beside the leased bytes. */
static void fill_beside(struct mci_place leased, uint64_t size)
{
    for (int i = 0; i < 64; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "f%d", i);
        struct mci_write_row row = rig_put_start(&rig, key, 64 * KIB);
        if (row.err == MC_OK) {
            ck_assert(!overlap(leased, size, row.places[0], 64 * KIB));
            ck_assert_int_eq(rig_end(&rig, &row), MC_OK);
        }
    }
}

START_TEST(a_lease_holds_the_bytes_after_their_key_is_gone)
{
    rig_open(&rig, NULL);
    ck_assert_int_eq(rig_put(&rig, "a", MIB / 2), MC_OK);
    struct mci_read_row read = rig_get(&rig, "a", false);
    ck_assert_uint_eq(read.lease_left_ns, LEASE_MS * MS);
    uint64_t deadline_ns = rig.now_ns + read.lease_left_ns;
    unlink_a((enum way)_i);
    if (_i == BY_UPSERT) {
        ck_assert_uint_eq(rig_probe(&rig, "a").size, 64);
    } else {
        ck_assert_int_eq(rig_get(&rig, "a", false).err,
                         MC_ERR_OBJECT_NOT_FOUND);
    }
    ck_assert_uint_eq(rig_stats(&rig).leased_only_bytes, MIB / 2);
    fill_beside(read.places[0], MIB / 2);
    rig.now_ns = deadline_ns - 1000000;
    rig_sweep(&rig);
    ck_assert_uint_eq(rig_stats(&rig).leased_only_bytes, MIB / 2);
    fill_beside(read.places[0], MIB / 2);
    rig.now_ns = deadline_ns + 1;
    rig_sweep(&rig);
    ck_assert_uint_eq(rig_stats(&rig).leased_only_bytes, 0);
    ck_assert_int_eq(rig_put(&rig, "z", MIB / 2), MC_OK);
    rig_close(&rig);
}
END_TEST

/* An allocation does not wait for the sweep: what is over is taken. */
START_TEST(bytes_whose_lease_is_over_are_found_by_an_allocation)
{
    rig_open(&rig, NULL);
    ck_assert_int_eq(rig_put(&rig, "a", MIB / 2), MC_OK);
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

START_TEST(without_a_lease_bytes_are_free_at_once)
{
    rig_open(&rig, NULL);
    ck_assert_int_eq(rig_put(&rig, "a", MIB), MC_OK);
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
    rig_open(&rig, NULL);
    ck_assert_int_eq(rig_put(&rig, "a", 100), MC_OK);
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
    rig_open(&rig, NULL);
    ck_assert_int_eq(rig_put(&rig, "a", MIB / 2), MC_OK);
    struct mci_read_row one = rig_get(&rig, "a", true);
    struct mci_read_row two = rig_get(&rig, "a", true);
    ck_assert_int_eq(one.err, MC_OK);
    rig_pass(&rig, 100 * LEASE_MS);
    fill_beside(one.places[0], MIB / 2); /* not evicted under the reader */
    ck_assert_int_eq(rig_upsert(&rig, "a", 64), MC_OK);
    rig_sweep(&rig);
    fill_beside(one.places[0], MIB / 2);
    rig_release(&rig, &one);
    rig_sweep(&rig);
    fill_beside(two.places[0], MIB / 2);
    ck_assert_uint_eq(rig_stats(&rig).leased_only_bytes, MIB / 2);
    rig_release(&rig, &two);
    ck_assert_uint_eq(rig_stats(&rig).leased_only_bytes, 0);
    ck_assert_int_eq(rig_put(&rig, "z", MIB / 2), MC_OK);
    rig_close(&rig);
}
END_TEST

/* A lease belongs to a version: the next one of the key has its own. */
START_TEST(the_next_version_is_not_leased_by_readers_of_the_last)
{
    rig_open(&rig, NULL);
    ck_assert_int_eq(rig_put(&rig, "a", 100), MC_OK);
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
    rig_open(&rig, NULL);
    ck_assert_int_eq(rig_put(&rig, "a", 4096), MC_OK);
    struct mci_place old = place_of("a");
    struct mci_write_row row = rig_upsert_start(&rig, "a", 4096);
    ck_assert_int_eq(row.err, MC_OK);
    ck_assert(!overlap(old, 4096, row.places[0], 4096));
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
    rig_open(&rig, NULL);
    ck_assert_int_eq(rig_put(&rig, "a#s1", 768 * KIB), MC_OK);
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
    rig_open(&rig, NULL);
    ck_assert_int_eq(rig_put(&rig, "a#s1", 512 * KIB), MC_OK);
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
    rig_open(&rig, NULL);
    ck_assert_int_eq(rig_put(&rig, "a#s1", 100), MC_OK);
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
    rig_open(&rig, NULL);
    ck_assert_int_eq(rig_put(&rig, "a#s1", 100), MC_OK);
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
    rig_open(&rig, NULL);
    ck_assert_int_eq(rig_put(&rig, "a#s1", 100), MC_OK);
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

START_TEST(of_several_upserts_the_last_end_decides)
{
    rig_open(&rig, NULL);
    struct mci_write_row rows[3];
    for (int i = 0; i < 3; i++) {
        char spec[8];
        (void)snprintf(spec, sizeof spec, "a#s%d", i);
        rows[i] = rig_upsert_start(&rig, spec, 100 + (uint64_t)i);
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
    fill_beside(row.places[0], 512 * KIB);
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
    struct mci_write_row row = rig_put_start(&rig, "a", 100);
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

static TCase *leases(void)
{
    TCase *tcase = tcase_create("leases");
    tcase_add_loop_test(tcase, a_lease_holds_the_bytes_after_their_key_is_gone,
                        0, WAYS);
    tcase_add_test(tcase, bytes_whose_lease_is_over_are_found_by_an_allocation);
    tcase_add_test(tcase, without_a_lease_bytes_are_free_at_once);
    tcase_add_test(tcase, a_deadline_is_only_ever_extended);
    tcase_add_test(tcase, a_clock_that_stands_or_steps_back_shortens_nothing);
    tcase_add_test(tcase, a_hold_keeps_the_bytes_beyond_the_lease);
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

static TCase *attempts(void)
{
    TCase *tcase = tcase_create("attempts");
    tcase_add_test(tcase,
                   a_put_end_that_finds_the_key_readable_drops_its_bytes);
    tcase_add_test(tcase, a_put_of_a_living_writer_is_not_preempted);
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
    Suite *suite = suite_create("store leases");
    suite_add_tcase(suite, leases());
    suite_add_tcase(suite, tags());
    suite_add_tcase(suite, attempts());
    suite_add_tcase(suite, writers());
    return suite_run(suite);
}
