/* SPDX-License-Identifier: Apache-2.0 */
/* test_registry_attempts.c - grants, receipts, and attempts that nobody ends.
 * SAFETY B.1, B.2, C.3 and D.1, the registry's part. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "registry_pair.h"
#include "suite.h"

#define IDLE_MS 600000

static uint64_t on_owners_clock(uint64_t ns)
{
    return ns + owner.clock_ahead_ns;
}

static struct mc_grant_terms write_terms(const struct mci_write_row *row)
{
    return (struct mc_grant_terms){.registration = owner.registration,
                                   .incarnation = writer.incarnation,
                                   .subject = row->attempt.number,
                                   .offset = row->places[0].offset,
                                   .len = row->size,
                                   .is_write = true};
}

static void expect_grant(const struct mc_grant *grant,
                         const struct mc_grant_terms *terms,
                         uint64_t deadline_ns)
{
    ck_assert_uint_eq(grant->deadline_ns, deadline_ns);
    ck_assert_uint_eq(grant->tag, mc_grant_tag(owner.key, terms, deadline_ns));
}

/* ---- grants --------------------------------------------------------------- */

START_TEST(a_write_grant_is_bound_to_all_of_its_terms)
{
    pair_open();
    struct mci_write_row row = fellow_start(&writer, 3, "a", 4096);
    struct mc_grant_terms terms = write_terms(&row);
    uint64_t ttl_ns = 5 * SECOND + 4096 * 60;
    expect_grant(&row.grants[0], &terms,
                 on_owners_clock(cast.rig.now_ns + ttl_ns));
    pair_close();
}
END_TEST

START_TEST(a_write_grant_lasts_no_longer_than_its_call_or_fifty_seconds)
{
    pair_open();
    struct mci_write_row row = rig_row("a", 4096);
    struct mci_call call = fellow_call(&writer);
    ck_assert_int_eq(
        mci_master_put_start(cast.rig.master, &call, NULL, &row, 1), MC_OK);
    ck_assert_int_eq(mci_registry_started(cast.registry, writer.member, 0, 1,
                                          1500, &row, 1, cast.rig.now_ns),
                     MC_OK);
    ck_assert_uint_eq(row.grants[0].deadline_ns,
                      on_owners_clock(cast.rig.now_ns + 1500 * MS));
    ck_assert_int_eq(fellow_mount(&owner, UINT64_C(8) << 30), MC_OK);
    row = rig_row("b", UINT64_C(4) << 30);
    ck_assert_int_eq(
        mci_master_put_start(cast.rig.master, &call, NULL, &row, 1), MC_OK);
    ck_assert_int_eq(row.err, MC_OK);
    ck_assert_int_eq(mci_registry_started(cast.registry, writer.member, 0, 2,
                                          UINT64_MAX, &row, 1, cast.rig.now_ns),
                     MC_OK);
    ck_assert_uint_eq(
        row.grants[0].deadline_ns,
        on_owners_clock(cast.rig.now_ns + (MC_GRANT_TTL_MAX_MS - TTL_MS) * MS));
    pair_close();
}
END_TEST

START_TEST(deadlines_follow_the_owners_clock_as_its_heartbeats_tell_it)
{
    static const uint64_t late_ms[] = {2000, 500, 900, 3000, 2500, 2400, 2300};
    static const uint64_t best_ms[] = {0, 0, 0, 500, 500, 900, 2300};
    pair_open();
    uint64_t ahead_ns = owner.clock_ahead_ns;
    for (size_t i = 0; i < sizeof late_ms / sizeof late_ms[0]; i++) {
        char key[8];
        (void)snprintf(key, sizeof key, "k%zu", i);
        rig_pass(&cast.rig, BEAT_MS);
        /* A heartbeat that was on its way for long, or a clock that stood. */
        owner.clock_ahead_ns = ahead_ns - late_ms[i] * MS;
        ck_assert_int_eq(fellow_beat(&owner), MC_OK);
        struct mci_write_row row = fellow_start(&writer, 0, key, 4096);
        struct mc_grant_terms terms = write_terms(&row);
        expect_grant(&row.grants[0], &terms,
                     cast.rig.now_ns + ahead_ns - best_ms[i] * MS + 5 * SECOND +
                         4096 * 60);
    }
    pair_close();
}
END_TEST

START_TEST(a_read_grant_ends_with_its_lease)
{
    pair_open();
    struct mci_write_row row = fellow_start(&writer, 0, "a", 4096);
    ck_assert_int_eq(fellow_end(&writer, &row), MC_OK);
    struct mci_read_row read = {.key = mc_view_str("a")};
    struct mci_call call = fellow_call(&writer);
    ck_assert_int_eq(mci_master_get(cast.rig.master, &call, &read, 1), MC_OK);
    mci_registry_granted(cast.registry, writer.member, &read, 1,
                         cast.rig.now_ns);
    struct mc_grant_terms terms = write_terms(&row);
    terms.is_write = false;
    terms.subject = read.version;
    ck_assert_uint_gt(read.lease_left_ns, 0);
    expect_grant(&read.grants[0], &terms,
                 on_owners_clock(cast.rig.now_ns + read.lease_left_ns));
    /* Nobody reads what is on its way out. */
    ck_assert_int_eq(fellow_unmount(&owner, 0), MC_OK);
    mci_registry_granted(cast.registry, writer.member, &read, 1,
                         cast.rig.now_ns);
    ck_assert_uint_eq(read.grants[0].deadline_ns, 0);
    ck_assert_uint_eq(read.grants[0].tag, 0);
    pair_close();
}
END_TEST

START_TEST(rows_that_failed_have_no_grants)
{
    pair_open();
    struct mci_write_row row = {.key = mc_view_str("a"),
                                .err = MC_ERR_NO_AVAILABLE_HANDLE,
                                .place_count = 3};
    ck_assert_int_eq(mci_registry_started(cast.registry, writer.member, 0, 1,
                                          1000, &row, 1, cast.rig.now_ns),
                     MC_OK);
    ck_assert_uint_eq(row.grants[0].tag, 0);
    ck_assert_uint_eq(cast_stats(&cast).attempts, 0);
    struct mci_read_row read = {.err = MC_ERR_OBJECT_NOT_FOUND,
                                .place_count = 4};
    mci_registry_granted(cast.registry, writer.member, &read, 1,
                         cast.rig.now_ns);
    ck_assert_uint_eq(read.grants[0].tag, 0);
    pair_close();
}
END_TEST

START_TEST(nothing_is_placed_before_the_owners_clock_is_known)
{
    cast_open(&cast, NULL);
    memset(&owner, 0, sizeof owner);
    ck_assert_int_eq(fellow_hello(&cast, &owner, "owner:1"), MC_OK);
    ck_assert_int_eq(fellow_mount(&owner, 1 * MIB), MC_OK);
    fellow_join(&cast, &writer, "writer:1", 0);
    ck_assert_int_eq(fellow_start(&writer, 0, "a", 64).err,
                     MC_ERR_NO_AVAILABLE_HANDLE);
    ck_assert_int_eq(fellow_beat(&owner), MC_OK);
    struct mci_write_row row = fellow_start(&writer, 0, "a", 64);
    ck_assert_int_eq(row.err, MC_OK);
    ck_assert_uint_ne(row.grants[0].tag, 0);
    pair_close();
}
END_TEST

/* What became of attempts is kept for the last 65536; what is open stays so,
 * however many have come since. */
START_TEST(an_attempt_older_than_all_fates_that_are_kept_stays_open)
{
    pair_open();
    struct mci_write_row old = fellow_start(&writer, 0, "old", 4096);
    fellow_know(&writer, &old, 0);
    unsigned failed = 0; /* an assertion in each round would take most time */
    for (int i = 0; i < 65536; i++) {
        struct mci_write_row row = fellow_start(&writer, 1, "new", 64);
        fellow_receipt(&owner, &row);
        failed +=
            row.err != MC_OK || fellow_revoke(&writer, &row, false) != MC_OK;
    }
    ck_assert_uint_eq(failed, 0);
    ck_assert_int_eq(
        mci_master_attempt_fate(cast.rig.master, writer.client, old.attempt),
        MCI_FATE_UNKNOWN);
    unsigned renewals = 0;
    for (int i = 0; i < 40; i++) {
        rig_pass(&cast.rig, BEAT_MS);
        ck_assert_int_eq(fellow_beat(&owner), MC_OK);
        ck_assert_int_eq(fellow_beat(&writer), MC_OK);
        ck_assert_uint_eq(writer.pulse.closed_count, 0);
        renewals += writer.pulse.renewal_count;
    }
    ck_assert_uint_gt(renewals, 0);
    ck_assert_uint_eq(cast_stats(&cast).attempts, 1);
    struct mci_write_row wrong = old;
    wrong.key = mc_view_str("elsewhere");
    ck_assert_int_eq(fellow_end(&writer, &wrong), MC_ERR_INVALID_VERSION);
    ck_assert_uint_eq(cast_stats(&cast).attempts, 1);
    fellow_receipt(&owner, &old);
    ck_assert_int_eq(fellow_end(&writer, &old), MC_OK);
    ck_assert_uint_eq(cast_stats(&cast).attempts, 0);
    ck_assert_int_eq(fellow_beat(&writer), MC_OK);
    ck_assert_uint_eq(writer.pulse.closed_count, 1);
    pair_close();
}
END_TEST

START_TEST(heartbeats_renew_the_grants_of_what_is_open)
{
    pair_open();
    struct mci_write_row row = fellow_start(&writer, 0, "a", 4096);
    fellow_know(&writer, &row, 0);
    ck_assert_int_eq(fellow_beat(&writer), MC_OK);
    ck_assert_uint_eq(writer.pulse.renewal_count, 0); /* fresh enough */
    for (int i = 0; i < 20; i++) {
        rig_pass(&cast.rig, BEAT_MS);
        ck_assert_int_eq(fellow_beat(&owner), MC_OK);
        ck_assert_int_eq(fellow_beat(&writer), MC_OK);
        if (writer.pulse.renewal_count > 0) {
            ck_assert_uint_eq(writer.pulse.renewals[0].attempt,
                              row.attempt.number);
            ck_assert_uint_eq(writer.pulse.renewals[0].place_count, 1);
            row.grants[0] = writer.pulse.renewals[0].grants[0];
            struct mc_grant_terms terms = write_terms(&row);
            expect_grant(
                &row.grants[0], &terms,
                on_owners_clock(cast.rig.now_ns + 5 * SECOND + 4096 * 60));
        }
        /* What is missing is two heartbeats long at most. */
        ck_assert_uint_gt(row.grants[0].deadline_ns,
                          on_owners_clock(cast.rig.now_ns + 2 * SECOND));
    }
    ck_assert_int_eq(fellow_end(&writer, &row), MC_OK);
    rig_pass(&cast.rig, BEAT_MS);
    ck_assert_int_eq(fellow_beat(&writer), MC_OK);
    ck_assert_uint_eq(writer.pulse.renewal_count, 0); /* only while open */
    ck_assert_uint_eq(writer.pulse.closed_count, 0);  /* and it ended well */
    pair_close();
}
END_TEST

/* ---- receipts ------------------------------------------------------------- */

START_TEST(receipts_of_all_places_make_an_end_spent)
{
    pair_open();
    struct mci_write_row row = fellow_start(&writer, 0, "a", 4096);
    fellow_receipt(&owner, &row);
    ck_assert_int_eq(fellow_end(&writer, &row), MC_OK);
    ck_assert(row.is_spent);
    ck_assert_uint_eq(cast_stats(&cast).attempts, 0);
    ck_assert_int_eq(rig_remove(&cast.rig, "a", true), 0);
    ck_assert_uint_eq(pair_allocated(), 0);
    ck_assert_uint_eq(cast_stats(&cast).bad_receipts, 0);
    pair_close();
}
END_TEST

START_TEST(without_receipts_the_range_stays_back_for_a_grants_time)
{
    pair_open();
    struct mci_write_row row = fellow_start(&writer, 0, "a", 4096);
    ck_assert_int_eq(fellow_end(&writer, &row), MC_OK);
    ck_assert(!row.is_spent);
    ck_assert_int_eq(rig_remove(&cast.rig, "a", true), 0);
    ck_assert_uint_eq(pair_allocated(), 4096);
    struct mci_write_row revoked = fellow_start(&writer, 0, "b", 4096);
    ck_assert_int_eq(fellow_revoke(&writer, &revoked, false), MC_OK);
    ck_assert_uint_eq(pair_allocated(), 8192);
    rig_pass(&cast.rig, MC_GRANT_TTL_MAX_MS + 1);
    rig_sweep(&cast.rig);
    ck_assert_uint_eq(pair_allocated(), 0);
    pair_close();
}
END_TEST

START_TEST(a_revoke_with_receipts_frees_at_once)
{
    pair_open();
    struct mci_write_row row = fellow_start(&writer, 0, "a", 4096);
    fellow_receipt(&owner, &row);
    ck_assert_int_eq(fellow_revoke(&writer, &row, false), MC_OK);
    ck_assert_uint_eq(pair_allocated(), 0);
    pair_close();
}
END_TEST

START_TEST(a_wrong_receipt_is_counted_and_none)
{
    pair_open();
    struct mci_write_row a = fellow_start(&writer, 0, "a", 4096);
    struct mci_write_row b = fellow_start(&writer, 0, "b", 4096);
    fellow_receipt(&owner, &b);
    a.receipts[0] = b.receipts[0]; /* another attempt's */
    ck_assert_int_eq(fellow_end(&writer, &a), MC_OK);
    ck_assert(!a.is_spent);
    ck_assert_uint_eq(cast_stats(&cast).bad_receipts, 1);
    pair_close();
}
END_TEST

START_TEST(one_receipt_of_two_is_not_enough)
{
    pair_open();
    struct fellow other;
    fellow_join(&cast, &other, "other:1", 1 * MIB);
    const struct mc_replicate_config config = {.replica_num = 2};
    cast.rig.config = &config;
    struct mci_write_row row = fellow_start(&writer, 0, "a", 4096);
    cast.rig.config = NULL;
    ck_assert_uint_eq(row.place_count, 2);
    fellow_receipt(&owner, &row);
    struct mci_write_row copy = row;
    mci_registry_ending(cast.registry, &copy, 1);
    ck_assert(!copy.is_spent);
    fellow_receipt(&other, &copy);
    mci_registry_ending(cast.registry, &copy, 1);
    ck_assert(copy.is_spent);
    /* A segment that is gone needs none. */
    ck_assert_int_eq(fellow_unmount(&other, 0), MC_OK);
    mci_registry_ending(cast.registry, &row, 1);
    ck_assert(row.is_spent);
    fellow_leave(&other);
    pair_close();
}
END_TEST

START_TEST(what_is_spent_is_not_believed_from_outside)
{
    pair_open();
    struct mci_write_row row = {.key = mc_view_str("a"),
                                .attempt = {1, 1},
                                .is_spent = true,
                                .receipts = {1, 2, 3, 4}};
    mci_registry_ending(cast.registry, &row, 1);
    ck_assert(!row.is_spent);
    row.attempt.number = 0;
    row.is_spent = true;
    mci_registry_ending(cast.registry, &row, 1);
    ck_assert(!row.is_spent);
    row.attempt.number = UINT64_MAX;
    mci_registry_ending(cast.registry, &row, 1);
    ck_assert(!row.is_spent);
    pair_close();
}
END_TEST

/* ---- given up ------------------------------------------------------------- */

START_TEST(a_given_up_start_is_closed_without_quarantine)
{
    pair_open();
    struct mci_write_row kept = fellow_start(&writer, 0, "kept", 64);
    struct mci_write_row row = fellow_start(&writer, 0, "a", 4096);
    struct mci_write_row elsewhere = fellow_start(&writer, 1, "c", 64);
    /* The request of that number in that slot, and no other. */
    mci_registry_given_up(cast.registry, writer.member, 0, 7, false,
                          cast.rig.now_ns);
    mci_registry_given_up(cast.registry, writer.member, 2, 2, false,
                          cast.rig.now_ns);
    ck_assert_uint_eq(cast_stats(&cast).attempts, 3);
    mci_registry_given_up(cast.registry, writer.member, 0, 2, false,
                          cast.rig.now_ns);
    ck_assert_uint_eq(cast_stats(&cast).attempts, 2);
    ck_assert_uint_eq(pair_allocated(), 128);
    ck_assert_uint_eq(pair_quarantined(), 0);
    /* Late, it can do nothing, and others write meanwhile. */
    ck_assert_int_eq(rig_put(&cast.rig, "a", 64), MC_OK);
    ck_assert_int_eq(fellow_end(&writer, &row), MC_ERR_INVALID_VERSION);
    ck_assert_int_eq(fellow_end(&writer, &kept), MC_OK);
    ck_assert_int_eq(fellow_end(&writer, &elsewhere), MC_OK);
    mci_registry_given_up(cast.registry, writer.member, 0, 1, false,
                          cast.rig.now_ns);
    ck_assert_int_eq(rig_exist(&cast.rig, "kept"), 1);
    pair_close();
}
END_TEST

/* Who says that it has seen no answer may have seen it, and its grants hold. */
START_TEST(what_was_granted_in_an_answer_is_kept_back_until_that_is_over)
{
    pair_open();
    struct mci_write_row row = fellow_start(&writer, 0, "a", 4096);
    ck_assert_int_eq(row.err, MC_OK);
    uint64_t left_ns =
        row.grants[0].deadline_ns - cast.rig.now_ns - owner.clock_ahead_ns;
    mci_registry_given_up(cast.registry, writer.member, 0, 1, true,
                          cast.rig.now_ns);
    ck_assert_uint_eq(cast_stats(&cast).attempts, 0);
    ck_assert_int_eq(fellow_end(&writer, &row), MC_ERR_INVALID_VERSION);
    rig_sweep(&cast.rig);
    ck_assert_uint_eq(pair_allocated(), 4096);
    rig_pass(&cast.rig, left_ns / 1000000 + 1);
    rig_sweep(&cast.rig);
    ck_assert_uint_eq(pair_allocated(), 0);
    ck_assert_uint_eq(pair_quarantined(), 0);
    pair_close();
}
END_TEST

START_TEST(a_given_up_batch_goes_whole)
{
    pair_open();
    struct mci_write_row rows[300];
    char keys[300][8];
    struct mci_call call = fellow_call(&writer);
    for (int i = 0; i < 300; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "k%d", i);
        rows[i] = rig_row(keys[i], 64);
    }
    ck_assert_int_eq(
        mci_master_put_start(cast.rig.master, &call, NULL, rows, 300), MC_OK);
    ck_assert_int_eq(mci_registry_started(cast.registry, writer.member, 5, 9,
                                          1000, rows, 300, cast.rig.now_ns),
                     MC_OK);
    ck_assert_uint_eq(cast_stats(&cast).attempts, 300);
    ck_assert_int_eq(fellow_end(&writer, &rows[17]), MC_OK);
    mci_registry_given_up(cast.registry, writer.member, 5, 9, false,
                          cast.rig.now_ns);
    ck_assert_uint_eq(cast_stats(&cast).attempts, 0);
    ck_assert_uint_eq(rig_stats(&cast.rig).attempts, 0);
    ck_assert_uint_eq(pair_allocated(), 64);
    pair_close();
}
END_TEST

START_TEST(a_start_whose_slot_moved_on_unlisted_has_no_writer)
{
    pair_open();
    (void)fellow_start(&writer, 0, "a", 4096);
    ck_assert_int_eq(fellow_beat(&writer), MC_OK);
    ck_assert_uint_eq(cast_stats(&cast).attempts, 1); /* not moved on yet */
    writer.slots[0]++;
    ck_assert_int_eq(fellow_beat(&writer), MC_OK);
    ck_assert_uint_eq(cast_stats(&cast).attempts, 0);
    ck_assert_uint_eq(rig_stats(&cast.rig).attempts, 0);
    ck_assert_uint_eq(pair_quarantined(), 0);
    /* Nobody knows the grant; but should somebody, it is waited for. */
    ck_assert_uint_eq(pair_allocated(), 4096);
    rig_pass(&cast.rig, 5001);
    rig_sweep(&cast.rig);
    ck_assert_uint_eq(pair_allocated(), 0);
    pair_close();
}
END_TEST

START_TEST(a_listed_attempt_stays_open_whatever_its_slot_does)
{
    pair_open();
    struct mci_write_row row = fellow_start(&writer, 0, "a", 4096);
    fellow_know(&writer, &row, 0);
    writer.slots[0] += 100;
    for (int i = 0; i < 5; i++) {
        rig_pass(&cast.rig, BEAT_MS);
        ck_assert_int_eq(fellow_beat(&writer), MC_OK);
    }
    ck_assert_int_eq(fellow_end(&writer, &row), MC_OK);
    pair_close();
}
END_TEST

START_TEST(one_that_was_listed_and_is_no_more_ends_in_doubt)
{
    pair_open();
    struct mci_write_row row = fellow_start(&writer, 0, "a", 4096);
    fellow_know(&writer, &row, 0);
    writer.slots[0]++;
    ck_assert_int_eq(fellow_beat(&writer), MC_OK);
    fellow_forget(&writer);
    ck_assert_int_eq(fellow_beat(&writer), MC_OK);
    ck_assert_uint_eq(pair_quarantined(), 1);
    ck_assert_int_eq(fellow_beat(&owner), MC_OK);
    ck_assert_uint_eq(owner.pulse.fence_count, 1);
    fellow_fence(&owner);
    ck_assert_int_eq(fellow_beat(&owner), MC_OK);
    ck_assert_uint_eq(pair_allocated(), 0);
    pair_close();
}
END_TEST

START_TEST(an_end_that_meets_a_heartbeat_is_no_loss)
{
    pair_open();
    struct mci_write_row row = fellow_start(&writer, 0, "a", 4096);
    fellow_know(&writer, &row, 0);
    ck_assert_int_eq(fellow_end(&writer, &row), MC_OK);
    writer.slots[0]++;
    ck_assert_int_eq(fellow_beat(&writer), MC_OK); /* composed before the end */
    ck_assert_uint_eq(writer.pulse.closed_count, 0);
    fellow_forget(&writer);
    ck_assert_int_eq(fellow_beat(&writer), MC_OK);
    ck_assert_int_eq(rig_exist(&cast.rig, "a"), 1);
    ck_assert_uint_eq(pair_quarantined(), 0);
    pair_close();
}
END_TEST

/* ---- idle ----------------------------------------------------------------- */

static void pass_with_beats(uint64_t ms, uint64_t *age_ms)
{
    for (uint64_t passed = 0; passed < ms; passed += BEAT_MS) {
        rig_pass(&cast.rig, BEAT_MS);
        if (age_ms) {
            *age_ms += BEAT_MS;
        }
        ck_assert_int_eq(fellow_beat(&writer), MC_OK);
        ck_assert_int_eq(fellow_beat(&owner), MC_OK);
        rig_sweep(&cast.rig);
        cast_settle(&cast);
    }
}

START_TEST(an_idle_attempt_is_closed_in_doubt_and_its_writer_told)
{
    pair_open();
    struct mci_write_row row = fellow_start(&writer, 0, "a", 4096);
    fellow_know(&writer, &row, 0);
    uint64_t *age_ms = &writer.known[0].age_ms;
    pass_with_beats(IDLE_MS, age_ms);
    ck_assert_uint_eq(pair_quarantined(), 1);
    *age_ms += BEAT_MS;
    rig_pass(&cast.rig, BEAT_MS);
    ck_assert_int_eq(fellow_beat(&writer), MC_OK);
    ck_assert_uint_eq(writer.pulse.closed_count, 1);
    ck_assert_uint_eq(writer.pulse.closed[0], row.attempt.number);
    ck_assert_uint_eq(writer.pulse.renewal_count, 0);
    ck_assert_uint_eq(cast_stats(&cast).attempts, 0);
    /* Told again as long as it is listed, should an answer be lost. */
    ck_assert_int_eq(fellow_beat(&writer), MC_OK);
    ck_assert_uint_eq(writer.pulse.closed_count, 1);
    ck_assert_int_eq(fellow_end(&writer, &row), MC_ERR_INVALID_VERSION);
    ck_assert_int_eq(fellow_beat(&owner), MC_OK);
    fellow_fence(&owner);
    ck_assert_int_eq(fellow_beat(&owner), MC_OK);
    ck_assert_uint_eq(pair_allocated(), 0);
    pair_close();
}
END_TEST

START_TEST(range_calls_that_heartbeats_tell_of_keep_an_attempt_alive)
{
    pair_open();
    struct mci_write_row row = fellow_start(&writer, 0, "a", 4096);
    fellow_know(&writer, &row, 10);
    pass_with_beats(2 * IDLE_MS, NULL); /* always as young */
    ck_assert_uint_eq(writer.pulse.closed_count, 0);
    ck_assert_int_eq(fellow_end(&writer, &row), MC_OK);
    pair_close();
}
END_TEST

START_TEST(ages_that_make_no_sense_do_no_harm)
{
    pair_open();
    struct mci_write_row row = fellow_start(&writer, 0, "a", 4096);
    fellow_know(&writer, &row, UINT64_MAX);
    writer.known[writer.known_count++] =
        (struct mci_known_attempt){.number = 0};
    writer.known[writer.known_count++] =
        (struct mci_known_attempt){.number = UINT64_MAX};
    writer.known[writer.known_count++] = writer.known[0];
    ck_assert_int_eq(fellow_beat(&writer), MC_OK);
    ck_assert_uint_eq(writer.pulse.closed_count, 2);
    ck_assert_int_eq(fellow_end(&writer, &row), MC_OK);
    pair_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store.registry_attempts");
    TCase *tcase = tcase_create("grants");
    tcase_add_test(tcase, a_write_grant_is_bound_to_all_of_its_terms);
    tcase_add_test(
        tcase, a_write_grant_lasts_no_longer_than_its_call_or_fifty_seconds);
    tcase_add_test(tcase,
                   deadlines_follow_the_owners_clock_as_its_heartbeats_tell_it);
    tcase_add_test(tcase, a_read_grant_ends_with_its_lease);
    tcase_add_test(tcase, rows_that_failed_have_no_grants);
    tcase_add_test(tcase, nothing_is_placed_before_the_owners_clock_is_known);
    tcase_add_test(tcase, heartbeats_renew_the_grants_of_what_is_open);
    tcase_add_test(tcase,
                   an_attempt_older_than_all_fates_that_are_kept_stays_open);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("receipts");
    tcase_add_test(tcase, receipts_of_all_places_make_an_end_spent);
    tcase_add_test(tcase,
                   without_receipts_the_range_stays_back_for_a_grants_time);
    tcase_add_test(tcase, a_revoke_with_receipts_frees_at_once);
    tcase_add_test(tcase, a_wrong_receipt_is_counted_and_none);
    tcase_add_test(tcase, one_receipt_of_two_is_not_enough);
    tcase_add_test(tcase, what_is_spent_is_not_believed_from_outside);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("given up");
    tcase_add_test(tcase, a_given_up_start_is_closed_without_quarantine);
    tcase_add_test(
        tcase, what_was_granted_in_an_answer_is_kept_back_until_that_is_over);
    tcase_add_test(tcase, a_given_up_batch_goes_whole);
    tcase_add_test(tcase, a_start_whose_slot_moved_on_unlisted_has_no_writer);
    tcase_add_test(tcase, a_listed_attempt_stays_open_whatever_its_slot_does);
    tcase_add_test(tcase, one_that_was_listed_and_is_no_more_ends_in_doubt);
    tcase_add_test(tcase, an_end_that_meets_a_heartbeat_is_no_loss);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("idle");
    tcase_add_test(tcase,
                   an_idle_attempt_is_closed_in_doubt_and_its_writer_told);
    tcase_add_test(tcase,
                   range_calls_that_heartbeats_tell_of_keep_an_attempt_alive);
    tcase_add_test(tcase, ages_that_make_no_sense_do_no_harm);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
