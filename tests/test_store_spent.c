/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_spent.c - a range whose write grant may still be alive goes to
 * nobody else. SAFETY B.2, the core's part. */
#include <check.h>
#include <stdlib.h>

#include "store_rig.h"
#include "suite.h"

static struct rig rig;

static uint64_t waiting_bytes(void)
{
    return rig_stats(&rig).leased_only_bytes;
}

static struct mci_write_row unspent_start(const char *key, uint64_t size)
{
    struct mci_write_row row = rig_put_start(&rig, key, size);
    ck_assert_int_eq(row.err, MC_OK);
    row.is_spent = false;
    return row;
}

/* Neither this test nor anybody else can have these bytes now. */
static void expect_kept(struct mci_place place, uint64_t size)
{
    rig_fill_beside(&rig, place, size);
    (void)rig_remove_all(&rig, true);
}

START_TEST(an_unspent_version_keeps_its_range_after_a_forced_remove)
{
    rig_open(&rig, NULL);
    struct mci_write_row row = unspent_start("a", 4096);
    ck_assert_int_eq(rig_end(&rig, &row), MC_OK);
    ck_assert_int_eq(rig_remove(&rig, "a", false), 0); /* not a lease */
    EXPECT_EVENTS(&rig, "+cpu:a -cpu:a");
    ck_assert_uint_eq(waiting_bytes(), 4096);
    expect_kept(row.places[0], 4096);
    rig_pass(&rig, MC_GRANT_TTL_MAX_MS - 1);
    rig_sweep(&rig);
    ck_assert_uint_eq(waiting_bytes(), 4096);
    rig_pass(&rig, 1);
    rig_sweep(&rig);
    ck_assert_uint_eq(waiting_bytes(), 0);
    ck_assert_uint_eq(rig_stats(&rig).allocated_bytes, 0);
    ck_assert(mci_master_check(rig.master));
    rig_close(&rig);
}
END_TEST

START_TEST(an_unspent_version_is_free_at_once_when_its_grant_is_long_over)
{
    rig_open(&rig, NULL);
    struct mci_write_row row = unspent_start("a", 4096);
    ck_assert_int_eq(rig_end(&rig, &row), MC_OK);
    rig_pass(&rig, MC_GRANT_TTL_MAX_MS);
    ck_assert_int_eq(rig_remove(&rig, "a", false), 0);
    ck_assert_uint_eq(rig_stats(&rig).allocated_bytes, 0);
    rig_close(&rig);
}
END_TEST

START_TEST(a_revoke_that_is_not_spent_keeps_the_range_for_a_grants_time)
{
    rig_open(&rig, NULL);
    struct mci_write_row row = unspent_start("a#s1@g", 4096);
    ck_assert_int_eq(rig_revoke(&rig, &row), MC_OK);
    ck_assert_int_eq(rig_revoke(&rig, &row), MC_OK); /* again */
    ck_assert_uint_eq(rig_stats(&rig).attempts, 0);
    ck_assert_uint_eq(rig_stats(&rig).quarantined, 0);
    ck_assert_int_eq(rig_probe(&rig, "a").state, MC_OBJECT_ABSENT);
    ck_assert(mci_master_check(rig.master));
    expect_kept(row.places[0], 4096);
    rig_pass(&rig, MC_GRANT_TTL_MAX_MS);
    rig_sweep(&rig);
    ck_assert_uint_eq(rig_stats(&rig).allocated_bytes, 0);
    ck_assert_uint_eq(rig_stats(&rig).groups, 0);
    rig_close(&rig);
}
END_TEST

START_TEST(a_dropped_put_that_is_not_spent_keeps_its_range_as_well)
{
    rig_open(&rig, NULL);
    struct mci_write_row row = unspent_start("a", 4096);
    ck_assert_int_eq(rig_upsert(&rig, "a", 128), MC_OK);
    ck_assert_int_eq(rig_end(&rig, &row), MC_OK);
    ck_assert_int_eq(rig_remove(&rig, "a", true), 0);
    expect_kept(row.places[0], 4096);
    rig_pass(&rig, MC_GRANT_TTL_MAX_MS);
    rig_sweep(&rig);
    ck_assert_uint_eq(rig_stats(&rig).allocated_bytes, 0);
    rig_close(&rig);
}
END_TEST

START_TEST(an_upsert_over_an_unspent_version_does_not_free_it)
{
    rig_open(&rig, NULL);
    struct mci_write_row row = unspent_start("a", 4096);
    ck_assert_int_eq(rig_end(&rig, &row), MC_OK);
    ck_assert_int_eq(rig_upsert(&rig, "a", 128), MC_OK);
    ck_assert_uint_eq(waiting_bytes(), 4096);
    ck_assert_int_eq(rig_remove(&rig, "a", true), 0);
    expect_kept(row.places[0], 4096);
    rig_close(&rig);
}
END_TEST

START_TEST(eviction_passes_over_what_is_not_spent_until_it_is)
{
    const struct rig_opts opts = {.segment_bytes = 64 * KIB};
    rig_open(&rig, &opts);
    struct mci_write_row old = unspent_start("old", 32 * KIB);
    ck_assert_int_eq(rig_end(&rig, &old), MC_OK);
    ck_assert_int_eq(rig_put(&rig, "b", 32 * KIB), MC_OK);
    /* The oldest is passed over: evicting it would gain nothing. */
    ck_assert_int_eq(rig_put(&rig, "c", 32 * KIB), MC_OK);
    ck_assert_int_eq(rig_exist(&rig, "old"), 1);
    ck_assert_int_eq(rig_exist(&rig, "b"), 0);
    ck_assert_int_eq(rig_put(&rig, "d", 64 * KIB), MC_ERR_NO_AVAILABLE_HANDLE);
    ck_assert_int_eq(rig_exist(&rig, "c"), 1);
    rig_pass(&rig, MC_GRANT_TTL_MAX_MS + 10000);
    ck_assert_int_eq(rig_put(&rig, "d", 64 * KIB), MC_OK);
    ck_assert(mci_master_check(rig.master));
    rig_close(&rig);
}
END_TEST

START_TEST(a_lease_that_ends_later_than_the_grant_decides)
{
    const struct rig_opts opts = {
        .store = {.default_kv_lease_ttl_ms = 2 * MC_GRANT_TTL_MAX_MS}};
    rig_open(&rig, &opts);
    struct mci_write_row row = unspent_start("a", 4096);
    ck_assert_int_eq(rig_end(&rig, &row), MC_OK);
    ck_assert_int_eq(rig_get(&rig, "a", false).err, MC_OK);
    ck_assert_int_eq(rig_remove(&rig, "a", true), 0);
    rig_pass(&rig, MC_GRANT_TTL_MAX_MS + 1);
    rig_sweep(&rig);
    ck_assert_uint_eq(waiting_bytes(), 4096);
    rig_pass(&rig, MC_GRANT_TTL_MAX_MS);
    rig_sweep(&rig);
    ck_assert_uint_eq(waiting_bytes(), 0);
    rig_close(&rig);
}
END_TEST

START_TEST(a_held_unspent_version_waits_for_both)
{
    rig_open(&rig, NULL);
    struct mci_write_row row = unspent_start("a", 4096);
    ck_assert_int_eq(rig_end(&rig, &row), MC_OK);
    struct mci_read_row read = rig_get(&rig, "a", true);
    ck_assert_int_eq(rig_remove(&rig, "a", true), 0);
    rig_release(&rig, &read);
    ck_assert_uint_eq(waiting_bytes(), 4096);
    rig_pass(&rig, MC_GRANT_TTL_MAX_MS + 1);
    rig_sweep(&rig);
    ck_assert_uint_eq(waiting_bytes(), 0);
    rig_close(&rig);
}
END_TEST

START_TEST(one_copy_that_goes_alone_waits_for_the_grant)
{
    rig_open(&rig, NULL);
    uint32_t other = 0;
    (void)rig_add_client(&rig, 1 * MIB, &other);
    const struct mc_replicate_config config = {.replica_num = 2};
    rig.config = &config;
    struct mci_write_row row = unspent_start("a", 4096);
    ck_assert_uint_eq(row.place_count, 2);
    ck_assert_int_eq(rig_end(&rig, &row), MC_OK);
    ck_assert_int_eq(rig_clear_replica(&rig, "a"), 0);
    ck_assert_uint_eq(waiting_bytes(), 4096);
    ck_assert_int_eq(rig_exist(&rig, "a"), 1);
    rig_pass(&rig, MC_GRANT_TTL_MAX_MS + 1);
    rig_sweep(&rig);
    ck_assert_uint_eq(waiting_bytes(), 0);
    ck_assert(mci_master_check(rig.master));
    rig_close(&rig);
}
END_TEST

START_TEST(a_promotion_that_is_not_spent_counts_from_its_end)
{
    rig_open(&rig, NULL);
    ck_assert_int_eq(rig_put(&rig, "a", 4096), MC_OK);
    ck_assert_int_eq(rig_offload(&rig, "a"), MC_OK);
    ck_assert_int_eq(rig_clear_replica(&rig, "a"), 0);
    ck_assert_int_eq(rig_exist(&rig, "a"), 1); /* used long before the end */
    rig_pass(&rig, 5000);
    struct mci_write_row row = rig_row("a", 4096);
    struct mci_call call = rig_call(&rig);
    ck_assert_int_eq(mci_master_promote_start(rig.master, &call, &row, 1),
                     MC_OK);
    row.is_spent = false;
    ck_assert_int_eq(mci_master_promote_end(rig.master, &call, &row, 1), MC_OK);
    ck_assert_int_eq(row.err, MC_OK);
    ck_assert_int_eq(rig_remove(&rig, "a", true), 0);
    rig_pass(&rig, MC_GRANT_TTL_MAX_MS - 1);
    rig_sweep(&rig);
    ck_assert_uint_eq(waiting_bytes(), 4096);
    rig_pass(&rig, 1);
    rig_sweep(&rig);
    ck_assert_uint_eq(waiting_bytes(), 0);
    ck_assert(mci_master_check(rig.master));
    rig_close(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store.spent");
    TCase *tcase = tcase_create("spent");
    tcase_add_test(tcase,
                   an_unspent_version_keeps_its_range_after_a_forced_remove);
    tcase_add_test(
        tcase, an_unspent_version_is_free_at_once_when_its_grant_is_long_over);
    tcase_add_test(
        tcase, a_revoke_that_is_not_spent_keeps_the_range_for_a_grants_time);
    tcase_add_test(tcase,
                   a_dropped_put_that_is_not_spent_keeps_its_range_as_well);
    tcase_add_test(tcase, an_upsert_over_an_unspent_version_does_not_free_it);
    tcase_add_test(tcase, eviction_passes_over_what_is_not_spent_until_it_is);
    tcase_add_test(tcase, a_lease_that_ends_later_than_the_grant_decides);
    tcase_add_test(tcase, a_held_unspent_version_waits_for_both);
    tcase_add_test(tcase, one_copy_that_goes_alone_waits_for_the_grant);
    tcase_add_test(tcase, a_promotion_that_is_not_spent_counts_from_its_end);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
