/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_named.c - leases with names: what a session holds of the versions
 * it reads, for how long, and what its end brings about. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "alloc_fail.h"
#include "mc_limits.h"
#include "store_rig.h"
#include "suite.h"

#define LEASE_MS 10000 /* the default */
#define HOUR_MS MC_LEASE_LONGEST_MS

static struct rig rig;

/* A store that has an object of so many bytes, "a", and a lease of it. */
static struct mci_read_row open_leased(uint64_t size)
{
    rig_open_with(&rig, "a", size);
    return rig_lease(&rig, "a");
}

/* Nothing waits for a reader any more. */
static void close_free(void)
{
    ck_assert_uint_eq(rig_leased_only(&rig), 0);
    rig_close(&rig);
}

/* ---- what a lease is ----------------------------------------------------- */

START_TEST(a_named_lease_is_the_rows_own_and_leaves_the_anonymous_one_alone)
{
    struct mci_read_row one = open_leased(100);
    struct mci_read_row two = rig_lease(&rig, "a");
    ck_assert_uint_eq(one.lease_left_ns, LEASE_MS * MS);
    ck_assert_uint_ne(one.lease.number, 0);
    ck_assert_uint_ne(one.lease.number, two.lease.number);
    ck_assert_uint_eq(one.place_count, 1);
    ck_assert_uint_eq(rig_probe(&rig, "a").lease_ms, LEASE_MS);
    rig_lease_release(&rig, &one);
    ck_assert_uint_eq(one.lease.number, 0);
    ck_assert_uint_ge(rig_probe(&rig, "a").lease_ms, LEASE_MS - 1);
    rig_lease_release(&rig, &two);
    ck_assert_uint_eq(rig_probe(&rig, "a").lease_ms, 0);
    struct mci_read_row plain = rig_get(&rig, "a", false);
    ck_assert_uint_eq(plain.lease.number, 0);
    rig_close(&rig);
}
END_TEST

START_TEST(a_living_one_stands_in_the_way_of_removal_as_a_read_does)
{
    struct mci_read_row row = open_leased(100);
    ck_assert_int_eq(rig_remove(&rig, "a", false), MC_ERR_OBJECT_HAS_LEASE);
    ck_assert_uint_eq(rig_remove_all(&rig, false), 0);
    rig_pass(&rig, LEASE_MS - 1);
    ck_assert_int_eq(rig_remove(&rig, "a", false), MC_ERR_OBJECT_HAS_LEASE);
    rig_pass(&rig, 1);
    ck_assert_int_eq(rig_remove(&rig, "a", false), 0); /* unswept */
    ck_assert_uint_eq(rig_stats(&rig).allocated_bytes, 0);
    ck_assert_int_eq(rig_lease_renew(&rig, &row), MC_ERR_LEASE_EXPIRED);
    ck_assert(mci_master_check(rig.master));
    rig_close(&rig);
}
END_TEST

/* The one that was touched last may end first, here by its hour. */
START_TEST(of_several_holders_the_last_one_counts)
{
    struct mci_read_row old = open_leased(100);
    for (unsigned i = 0; i < HOUR_MS / LEASE_MS - 1; i++) {
        rig_pass(&rig, LEASE_MS - 1);
        ck_assert_int_eq(rig_lease_renew(&rig, &old), MC_OK);
    }
    struct mci_read_row fresh = rig_lease(&rig, "a");
    while (old.lease_left_ns == LEASE_MS * MS) {
        rig_pass(&rig, 500);
        ck_assert_int_eq(rig_lease_renew(&rig, &fresh), MC_OK);
        ck_assert_int_eq(rig_lease_renew(&rig, &old), MC_OK);
    }
    ck_assert_uint_lt(old.lease_left_ns, fresh.lease_left_ns);
    uint64_t old_left_ns = old.lease_left_ns;
    rig.now_ns += old_left_ns;
    ck_assert_int_eq(rig_lease_renew(&rig, &old), MC_ERR_LEASE_EXPIRED);
    ck_assert_int_eq(rig_remove(&rig, "a", false), MC_ERR_OBJECT_HAS_LEASE);
    rig_sweep(&rig);
    ck_assert(mci_master_check(rig.master));
    ck_assert_int_eq(rig_remove(&rig, "a", false), MC_ERR_OBJECT_HAS_LEASE);
    rig.now_ns += fresh.lease_left_ns - old_left_ns - 1;
    ck_assert_int_eq(rig_lease_renew(&rig, &fresh), MC_OK);
    rig_close(&rig);
}
END_TEST

START_TEST(an_hour_after_it_was_taken_a_lease_is_over)
{
    struct mci_read_row row = open_leased(100);
    uint64_t limit_ns = rig.now_ns + HOUR_MS * MS;
    while (rig.now_ns + LEASE_MS * MS < limit_ns) {
        rig_pass(&rig, LEASE_MS / 2);
        ck_assert_int_eq(rig_lease_renew(&rig, &row), MC_OK);
        ck_assert_uint_le(rig.now_ns + row.lease_left_ns, limit_ns);
    }
    ck_assert_uint_eq(rig.now_ns + row.lease_left_ns, limit_ns);
    rig.now_ns = limit_ns - 1;
    ck_assert_int_eq(rig_lease_renew(&rig, &row), MC_OK);
    ck_assert_uint_eq(row.lease_left_ns, 1);
    ck_assert_int_eq(rig_remove(&rig, "a", false), MC_ERR_OBJECT_HAS_LEASE);
    rig.now_ns = limit_ns;
    ck_assert_int_eq(rig_lease_renew(&rig, &row), MC_ERR_LEASE_EXPIRED);
    ck_assert_uint_eq(row.lease_left_ns, 0);
    ck_assert_uint_eq(row.place_count, 0);
    ck_assert_int_eq(rig_remove(&rig, "a", false), 0);
    rig_close(&rig);
}
END_TEST

START_TEST(no_read_lease_is_longer_than_an_hour_with_a_name)
{
    struct rig_opts opts = {.store.default_kv_lease_ttl_ms = 2 * HOUR_MS};
    rig_open(&rig, &opts);
    ck_assert_int_eq(rig_put(&rig, "a", 100), MC_OK);
    ck_assert_uint_eq(rig_lease(&rig, "a").lease_left_ns, HOUR_MS * MS);
    rig_close(&rig);
}
END_TEST

START_TEST(a_clock_that_steps_back_shortens_no_named_lease)
{
    struct mci_read_row row = open_leased(100);
    uint64_t now_ns = rig.now_ns;
    rig.now_ns -= 5 * SECOND;
    ck_assert_int_eq(rig_lease_renew(&rig, &row), MC_OK);
    ck_assert_uint_eq(rig.now_ns + row.lease_left_ns, now_ns + LEASE_MS * MS);
    rig_close(&rig);
}
END_TEST

/* ---- whose it is ---------------------------------------------------------- */

START_TEST(a_lease_is_its_clients_its_versions_and_its_epochs)
{
    struct mci_read_row row = open_leased(100);
    struct mci_read_row wrong[6] = {row, row, row, row, row, row};
    wrong[0].lease.number++;
    wrong[1].lease.ref++;
    wrong[2].lease.ref |= UINT64_C(1) << 32;
    wrong[3].lease.epoch++;
    wrong[4].version++;
    wrong[5].lease.number = 0;
    for (size_t i = 0; i < 6; i++) {
        struct mci_read_row asked = wrong[i];
        ck_assert_int_eq(rig_lease_renew(&rig, &asked), MC_ERR_LEASE_EXPIRED);
        asked = wrong[i];
        ck_assert_int_eq(rig_lease_hold(&rig, &asked), MC_ERR_LEASE_EXPIRED);
        rig_lease_release(&rig, &wrong[i]);
    }
    uint32_t mine = rig.client;
    rig.client = rig_add_client(&rig, 0, NULL);
    struct mci_read_row stolen = row;
    ck_assert_int_eq(rig_lease_renew(&rig, &stolen), MC_ERR_LEASE_EXPIRED);
    rig_lease_release(&rig, &stolen);
    rig.client = mine;
    ck_assert_int_eq(rig_lease_renew(&rig, &row), MC_OK);
    rig_close(&rig);
}
END_TEST

START_TEST(a_number_does_not_come_twice)
{
    struct mci_read_row first = open_leased(100);
    struct mci_read_row again = first;
    rig_lease_release(&rig, &first);
    struct mci_read_row second = rig_lease(&rig, "a");
    ck_assert_uint_eq(second.lease.ref, again.lease.ref); /* its place does */
    ck_assert_uint_ne(second.lease.number, again.lease.number);
    struct mci_read_row late = again;
    ck_assert_int_eq(rig_lease_renew(&rig, &late), MC_ERR_LEASE_EXPIRED);
    rig_lease_release(&rig, &again); /* once more, and late: no matter */
    ck_assert_int_eq(rig_lease_renew(&rig, &second), MC_OK);
    rig_close(&rig);
}
END_TEST

/* An expired client may still read what it was granted: its leases end as they
 * would have, and its id waits for that. */
START_TEST(the_leases_of_a_dead_client_end_at_their_deadlines)
{
    rig_open_with(&rig, "a", MIB / 2);
    uint32_t mine = rig.client;
    uint32_t dead = rig_add_client(&rig, 0, NULL);
    rig.client = dead;
    struct mci_read_row row = rig_lease(&rig, "a");
    mci_master_client_expire(rig.master, dead);
    bool done = false;
    ck_assert_int_eq(
        mci_master_client_step(rig.master, dead, rig.now_ns, 0, &done), MC_OK);
    ck_assert(done);
    mci_master_client_fenced(rig.master, dead);
    ck_assert_int_eq(rig_lease_renew(&rig, &row), MC_ERR_CLIENT_NOT_FOUND);
    rig.client = mine;
    ck_assert_int_eq(rig_remove(&rig, "a", false), MC_ERR_OBJECT_HAS_LEASE);
    ck_assert_int_eq(rig_upsert(&rig, "a", 64), MC_OK);
    ck_assert_uint_eq(rig_leased_only(&rig), MIB / 2);
    ck_assert_uint_ne(rig_add_client(&rig, 0, NULL), dead);
    ck_assert(mci_master_check(rig.master));
    rig_pass_and_sweep(&rig, LEASE_MS);
    ck_assert_uint_eq(rig_leased_only(&rig), 0);
    ck_assert_uint_eq(rig_add_client(&rig, 0, NULL), dead);
    rig_close(&rig);
}
END_TEST

/* ---- A.1: what it holds ---------------------------------------------------- */

START_TEST(bytes_stay_until_their_holder_lets_go_or_its_lease_is_over)
{
    bool is_released = _i % 2 == 0;
    struct mci_read_row row = open_leased(MIB / 2);
    rig_unlink(&rig, "a", (enum rig_way)(_i / 2));
    if (_i / 2 != RIG_BY_UPSERT) {
        ck_assert_int_eq(rig_get(&rig, "a", false).err,
                         MC_ERR_OBJECT_NOT_FOUND);
    }
    for (unsigned i = 0; i < 5; i++) {
        ck_assert_uint_eq(rig_leased_only(&rig), MIB / 2);
        rig_fill_beside(&rig, row.places[0], MIB / 2);
        rig_pass_and_sweep(&rig, LEASE_MS - 1);
        struct mci_place place = row.places[0];
        ck_assert_int_eq(rig_lease_renew(&rig, &row), MC_OK);
        ck_assert_uint_eq(row.lease_left_ns, LEASE_MS * MS);
        ck_assert_uint_eq(row.place_count, 1);
        ck_assert_uint_eq(row.places[0].offset, place.offset);
        ck_assert_uint_eq(row.size, MIB / 2);
    }
    ck_assert(mci_master_check(rig.master));
    if (is_released) {
        rig_lease_release(&rig, &row); /* no sweep: at once */
    } else {
        rig_pass_and_sweep(&rig, LEASE_MS - 1);
        ck_assert_uint_eq(rig_leased_only(&rig), MIB / 2);
        rig_pass_and_sweep(&rig, 1);
    }
    ck_assert_uint_eq(rig_leased_only(&rig), 0);
    ck_assert_int_eq(rig_put(&rig, "z", MIB / 2), MC_OK);
    rig_close(&rig);
}
END_TEST

START_TEST(the_last_of_what_keeps_a_version_frees_it)
{
    struct mci_read_row one = open_leased(MIB / 2);
    struct mci_read_row two = rig_lease(&rig, "a");
    struct mci_read_row held = rig_get(&rig, "a", true);
    ck_assert_int_eq(rig_upsert(&rig, "a", 64), MC_OK);
    static const uint8_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                         {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    rig_pass(&rig, LEASE_MS - 1);
    ck_assert_int_eq(rig_lease_renew(&rig, &one), MC_OK);
    ck_assert_int_eq(rig_lease_renew(&rig, &two), MC_OK);
    rig_pass(&rig, 1); /* the anonymous one is over */
    rig_sweep(&rig);
    for (unsigned i = 0; i < 3; i++) {
        ck_assert_uint_eq(rig_leased_only(&rig), MIB / 2);
        rig_fill_beside(&rig, held.places[0], MIB / 2);
        ck_assert(mci_master_check(rig.master));
        switch (orders[_i][i]) {
        case 0:
            rig_lease_release(&rig, &one);
            break;
        case 1:
            rig_lease_release(&rig, &two);
            break;
        default:
            rig_release(&rig, &held);
            break;
        }
    }
    close_free();
}
END_TEST

/* The anonymous lease of another reader goes on. */
START_TEST(a_release_frees_nothing_that_others_may_read)
{
    struct mci_read_row row = open_leased(MIB / 2);
    rig_pass(&rig, 1000);
    struct mci_read_row other = rig_get(&rig, "a", false);
    ck_assert_int_eq(rig_remove(&rig, "a", true), 0);
    rig_lease_release(&rig, &row);
    ck_assert_uint_eq(rig_leased_only(&rig), MIB / 2);
    rig_fill_beside(&rig, other.places[0], MIB / 2);
    rig_pass_and_sweep(&rig, LEASE_MS);
    close_free();
}
END_TEST

/* An allocation that would fail finds what leases let go, swept or not. */
START_TEST(what_a_lease_let_go_is_found_by_an_allocation)
{
    struct mci_read_row row = open_leased(MIB);
    ck_assert_int_eq(rig_remove(&rig, "a", true), 0);
    ck_assert_int_eq(rig_put(&rig, "b", MIB), MC_ERR_NO_AVAILABLE_HANDLE);
    rig_pass(&rig, LEASE_MS);
    ck_assert_int_eq(rig_put(&rig, "b", MIB), MC_OK);
    ck_assert_int_eq(rig_lease_renew(&rig, &row), MC_ERR_LEASE_EXPIRED);
    rig_close(&rig);
}
END_TEST

/* A copy that goes alone waits for the leases of that moment; who renews is told
 * of it no more. */
START_TEST(a_copy_that_goes_alone_waits_for_the_leases_of_that_moment)
{
    rig_open_with(&rig, "a", MIB / 2);
    ck_assert_int_eq(rig_offload(&rig, "a"), MC_OK);
    struct mci_read_row row = rig_lease(&rig, "a");
    struct mci_place place = row.places[0];
    ck_assert_int_eq(rig_clear_replica(&rig, "a"), 0);
    ck_assert_uint_eq(rig_leased_only(&rig), MIB / 2);
    rig_pass_and_sweep(&rig, LEASE_MS - 1);
    rig_fill_beside(&rig, place, MIB / 2);
    ck_assert_int_eq(rig_lease_renew(&rig, &row), MC_OK);
    ck_assert_uint_eq(row.place_count, 0);
    ck_assert_uint_eq(row.media, MC_MEDIUM_DISK);
    ck_assert_int_eq(rig_lease_hold(&rig, &row), MC_OK);
    ck_assert_uint_eq(row.hold.index, 0); /* there is nothing to copy */
    rig_pass_and_sweep(&rig, 1);
    close_free();
}
END_TEST

/* A version that comes back into memory stands in another record. */
START_TEST(a_lease_goes_along_with_a_version_that_is_promoted)
{
    rig_open_with(&rig, "a", 4096);
    ck_assert_int_eq(rig_offload(&rig, "a"), MC_OK);
    ck_assert_int_eq(rig_clear_replica(&rig, "a"), 0);
    struct mci_read_row one = rig_lease(&rig, "a");
    struct mci_read_row two = rig_lease(&rig, "a");
    ck_assert_uint_eq(one.place_count, 0);
    struct mci_write_row row = rig_row("a", 4096);
    struct mci_call call = rig_call(&rig);
    ck_assert_int_eq(mci_master_promote_start(rig.master, &call, &row, 1),
                     MC_OK);
    ck_assert_int_eq(mci_master_promote_end(rig.master, &call, &row, 1), MC_OK);
    ck_assert_int_eq(row.err, MC_OK);
    ck_assert(mci_master_check(rig.master));
    ck_assert_int_eq(rig_lease_renew(&rig, &one), MC_OK);
    ck_assert_uint_eq(one.place_count, 1);
    ck_assert_int_eq(rig_remove(&rig, "a", false), MC_ERR_OBJECT_HAS_LEASE);
    ck_assert_int_eq(rig_remove(&rig, "a", true), 0);
    rig_lease_release(&rig, &one);
    ck_assert_uint_gt(rig_leased_only(&rig), 0);
    rig_lease_release(&rig, &two);
    close_free();
}
END_TEST

/* Nobody can read it, so nobody keeps it for an hour. */
START_TEST(what_stood_on_a_segment_that_is_gone_is_not_renewed)
{
    struct mci_read_row row = open_leased(MIB / 2);
    mci_master_segment_close(rig.master, rig.segment);
    bool done = false;
    ck_assert_int_eq(
        mci_master_segment_step(rig.master, rig.segment, rig.now_ns, 0, &done),
        MC_OK);
    ck_assert(done);
    ck_assert_uint_eq(rig_leased_only(&rig), MIB / 2);
    ck_assert_int_eq(rig_lease_renew(&rig, &row), MC_ERR_LEASE_EXPIRED);
    rig_lease_release(&rig, &row);
    close_free();
}
END_TEST

/* ---- in this process -------------------------------------------------------- */

START_TEST(a_hold_by_a_lease_outlives_it)
{
    struct mci_read_row row = open_leased(MIB / 2);
    ck_assert_int_eq(rig_upsert(&rig, "a", 64), MC_OK);
    rig_pass(&rig, 1000);
    ck_assert_int_eq(rig_lease_hold(&rig, &row), MC_OK);
    ck_assert_uint_eq(row.lease_left_ns, (LEASE_MS - 1000) * MS - 1000);
    ck_assert_uint_eq(row.place_count, 1);
    rig_pass_and_sweep(&rig, LEASE_MS);
    ck_assert_uint_eq(rig_leased_only(&rig), MIB / 2);
    struct mci_read_row late = row;
    ck_assert_int_eq(rig_lease_hold(&rig, &late), MC_ERR_LEASE_EXPIRED);
    ck_assert_uint_eq(late.hold.index, 0);
    rig_release(&rig, &row);
    close_free();
}
END_TEST

/* ---- E.2, E.4: eviction ------------------------------------------------------ */

START_TEST(eviction_passes_over_what_has_a_living_lease)
{
    rig_open_with(&rig, "a", MIB / 2);
    ck_assert_int_eq(rig_put(&rig, "b", MIB / 2), MC_OK);
    struct mci_read_row row = rig_lease(&rig, "a");
    ck_assert_int_eq(rig_exist(&rig, "b"), 1); /* b was used last, a is firm */
    ck_assert_int_eq(rig_put(&rig, "c", MIB / 2), MC_OK);
    ck_assert_int_eq(rig_probe(&rig, "b").state, MC_OBJECT_ABSENT);
    ck_assert_int_eq(rig_get(&rig, "c", false).err, MC_OK);
    ck_assert_int_eq(rig_put(&rig, "d", MIB / 2), MC_ERR_NO_AVAILABLE_HANDLE);
    /* That it was looked for in vain until then is not believed now. */
    rig_lease_release(&rig, &row);
    ck_assert_int_eq(rig_put(&rig, "d", MIB / 2), MC_OK);
    ck_assert_int_eq(rig_probe(&rig, "a").state, MC_OBJECT_ABSENT);
    rig_close(&rig);
}
END_TEST

START_TEST(what_a_renewal_keeps_is_not_evicted_and_was_used_last)
{
    struct mci_read_row row = open_leased(MIB / 2);
    ck_assert_int_eq(rig_put(&rig, "b", MIB / 2), MC_OK);
    for (unsigned i = 0; i < 4; i++) {
        rig_pass(&rig, LEASE_MS - 1);
        ck_assert_int_eq(rig_lease_renew(&rig, &row), MC_OK);
    }
    ck_assert_int_eq(rig_put(&rig, "c", MIB / 2), MC_OK); /* b goes */
    ck_assert_int_eq(rig_probe(&rig, "a").state, MC_OBJECT_READABLE);
    rig_pass(&rig, LEASE_MS);
    ck_assert_int_eq(rig_put(&rig, "d", MIB / 2), MC_OK); /* a goes, over */
    ck_assert_int_eq(rig_probe(&rig, "a").state, MC_OBJECT_ABSENT);
    rig_close(&rig);
}
END_TEST

START_TEST(a_named_lease_of_a_member_leases_its_group_as_a_read_does)
{
    rig_open_with(&rig, "a@g", 256 * KIB);
    ck_assert_int_eq(rig_put(&rig, "b@g", 256 * KIB), MC_OK);
    struct mci_read_row row = rig_lease(&rig, "a");
    ck_assert_int_eq(rig_remove(&rig, "b", false), MC_ERR_OBJECT_HAS_LEASE);
    rig_pass(&rig, LEASE_MS - 1);
    ck_assert_int_eq(rig_lease_renew(&rig, &row), MC_OK);
    rig_pass(&rig, LEASE_MS - 1);
    ck_assert_int_eq(rig_put(&rig, "z", 768 * KIB), MC_ERR_NO_AVAILABLE_HANDLE);
    /* The deadline of a group is not shortened. */
    rig_lease_release(&rig, &row);
    ck_assert_int_eq(rig_remove(&rig, "b", false), MC_ERR_OBJECT_HAS_LEASE);
    rig_pass(&rig, 1);
    ck_assert_int_eq(rig_remove(&rig, "b", false), 0);
    /* One that is unlinked leases its former group no more. */
    row = rig_lease(&rig, "a");
    ck_assert_int_eq(rig_put(&rig, "c@g", 256 * KIB), MC_OK);
    ck_assert_int_eq(rig_remove(&rig, "a", true), 0);
    rig_pass(&rig, LEASE_MS - 1);
    ck_assert_int_eq(rig_lease_renew(&rig, &row), MC_OK);
    rig_pass(&rig, 1);
    ck_assert_int_eq(rig_remove(&rig, "c", false), 0);
    rig_close(&rig);
}
END_TEST

/* An exist lease that still runs goes on from a named read's time, one that is
 * over does not come back. */
START_TEST(an_exist_lease_goes_on_beside_a_named_one)
{
    struct rig_opts opts = {.store.exist_lease_ttl_ms = 2000};
    rig_open(&rig, &opts);
    ck_assert_int_eq(rig_put(&rig, "a", 100), MC_OK);
    ck_assert_int_eq(rig_exist(&rig, "a"), 1);
    rig_pass(&rig, 1000);
    struct mci_read_row row = rig_lease(&rig, "a");
    rig_lease_release(&rig, &row);
    ck_assert_uint_eq(rig_probe(&rig, "a").lease_ms, 2000);
    rig_pass(&rig, 2000);
    row = rig_lease(&rig, "a");
    rig_lease_release(&rig, &row);
    ck_assert_uint_eq(rig_probe(&rig, "a").lease_ms, 0);
    rig_close(&rig);
}
END_TEST

/* ---- bounds ------------------------------------------------------------------ */

START_TEST(a_client_has_so_many_leases_and_not_one_more)
{
    struct rig_opts opts = {.shards = _i == 0 ? 1 : 4};
    struct mci_read_row *rows = calloc(MC_LEASES_MAX, sizeof *rows);
    ck_assert_ptr_nonnull(rows);
    rig_open(&rig, &opts);
    ck_assert_int_eq(rig_put(&rig, "a", 100), MC_OK);
    ck_assert_int_eq(rig_put(&rig, "b", 100), MC_OK);
    for (size_t i = 0; i < MC_LEASES_MAX; i++) {
        rows[i].key = mc_view_str(i % 2 == 0 ? "a" : "b");
        rows[i].want_lease = true;
    }
    struct mci_call call = rig_call(&rig);
    ck_assert_int_eq(mci_master_get(rig.master, &call, rows, MC_LEASES_MAX),
                     MC_OK);
    for (size_t i = 0; i < MC_LEASES_MAX; i++) {
        ck_assert_int_eq(rows[i].err, MC_OK);
    }
    uint64_t gets = rig_stats(&rig).gets;
    struct mci_read_row over = rig_lease(&rig, "a");
    ck_assert_int_eq(over.err, MC_ERR_NO_AVAILABLE_HANDLE);
    ck_assert_uint_eq(over.lease.number, 0);
    ck_assert_uint_eq(over.place_count, 0);
    ck_assert_uint_eq(rig_stats(&rig).gets, gets);
    ck_assert_int_eq(rig_lease(&rig, "c").err, MC_ERR_OBJECT_NOT_FOUND);
    ck_assert_int_eq(rig_get(&rig, "a", false).err, MC_OK);
    ck_assert(mci_master_check(rig.master));
    uint32_t mine = rig.client;
    rig.client = rig_add_client(&rig, 0, NULL);
    ck_assert_int_eq(rig_lease(&rig, "a").err, MC_OK); /* each its own */
    rig.client = mine;
    rig_lease_release(&rig, &rows[7]);
    ck_assert_int_eq(rig_lease(&rig, "a").err, MC_OK);
    ck_assert_int_eq(rig_lease(&rig, "a").err, MC_ERR_NO_AVAILABLE_HANDLE);
    rig_pass(&rig, LEASE_MS);
    ck_assert_int_eq(rig_lease(&rig, "a").err, MC_OK); /* nothing has swept */
    rig_sweep(&rig);
    ck_assert(mci_master_check(rig.master));
    rig_close(&rig);
    free(rows);
}
END_TEST

START_TEST(a_lease_that_finds_no_memory_leaves_all_as_it_was)
{
    struct alloc_fail fail;
    bool was_refused = false;
    ALLOC_FAIL_EACH(fail)
    {
        rig_open(&rig, NULL);
        ck_assert_int_eq(rig_put(&rig, "a", 100), MC_OK);
        struct mci_read_row rows[40];
        struct mci_read_row *refused = NULL;
        (void)rig_events(&rig);
        char *before = rig_state(&rig);
        alloc_fail_arm(&fail);
        for (size_t i = 0; i < 40; i++) {
            rows[i] = rig_lease(&rig, "a");
            refused = rows[i].err != MC_OK ? &rows[i] : refused;
        }
        alloc_fail_disarm(&fail);
        ck_assert((refused != NULL) == alloc_fail_happened(&fail));
        ck_assert(mci_master_check(rig.master));
        EXPECT_UNCHANGED(&rig, before);
        free(before);
        if (refused) {
            ck_assert_int_eq(refused->err, MC_ERR_NOMEM);
            ck_assert_uint_eq(refused->lease.number, 0);
            ck_assert_uint_eq(refused->place_count, 0);
            was_refused = true;
        }
        ck_assert_uint_eq(rig_stats(&rig).gets, refused ? 39 : 40);
        for (size_t i = 0; i < 40; i++) {
            rig_lease_release(&rig, &rows[i]);
        }
        ck_assert_int_eq(rig_remove(&rig, "a", false), 0);
        rig_close(&rig);
    }
    ck_assert(was_refused);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store named");
    TCase *tcase = tcase_create("leases");
    tcase_add_test(
        tcase,
        a_named_lease_is_the_rows_own_and_leaves_the_anonymous_one_alone);
    tcase_add_test(tcase,
                   a_living_one_stands_in_the_way_of_removal_as_a_read_does);
    tcase_add_test(tcase, of_several_holders_the_last_one_counts);
    tcase_add_test(tcase, an_hour_after_it_was_taken_a_lease_is_over);
    tcase_add_test(tcase, no_read_lease_is_longer_than_an_hour_with_a_name);
    tcase_add_test(tcase, a_clock_that_steps_back_shortens_no_named_lease);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("holders");
    tcase_add_test(tcase, a_lease_is_its_clients_its_versions_and_its_epochs);
    tcase_add_test(tcase, a_number_does_not_come_twice);
    tcase_add_test(tcase, the_leases_of_a_dead_client_end_at_their_deadlines);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("A.1");
    tcase_add_loop_test(
        tcase, bytes_stay_until_their_holder_lets_go_or_its_lease_is_over, 0,
        2 * RIG_WAYS);
    tcase_add_loop_test(tcase, the_last_of_what_keeps_a_version_frees_it, 0, 6);
    tcase_add_test(tcase, a_release_frees_nothing_that_others_may_read);
    tcase_add_test(tcase, what_a_lease_let_go_is_found_by_an_allocation);
    tcase_add_test(tcase,
                   a_copy_that_goes_alone_waits_for_the_leases_of_that_moment);
    tcase_add_test(tcase, a_lease_goes_along_with_a_version_that_is_promoted);
    tcase_add_test(tcase, what_stood_on_a_segment_that_is_gone_is_not_renewed);
    tcase_add_test(tcase, a_hold_by_a_lease_outlives_it);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("E.2");
    tcase_add_test(tcase, eviction_passes_over_what_has_a_living_lease);
    tcase_add_test(tcase,
                   what_a_renewal_keeps_is_not_evicted_and_was_used_last);
    tcase_add_test(tcase,
                   a_named_lease_of_a_member_leases_its_group_as_a_read_does);
    tcase_add_test(tcase, an_exist_lease_goes_on_beside_a_named_one);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("bounds");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, a_client_has_so_many_leases_and_not_one_more, 0,
                        2);
    tcase_add_test(tcase, a_lease_that_finds_no_memory_leaves_all_as_it_was);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
