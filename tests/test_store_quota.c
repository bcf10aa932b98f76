/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_quota.c - what a tenant may have. SAFETY E.5. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "store_rig.h"
#include "suite.h"

static struct rig rig;

static void open_rig(uint64_t segment_bytes)
{
    const struct rig_opts opts = {.segment_bytes = segment_bytes,
                                  .store = {.enable_multi_tenants = true}};
    rig_open(&rig, &opts);
}

static void be(const char *tenant)
{
    rig.tenant = mc_view_str(tenant);
}

static enum mc_err set(const char *tenant, uint64_t bytes)
{
    return mci_master_quota_set(rig.master, mc_view_str(tenant), bytes);
}

static struct mci_quota get(const char *tenant)
{
    struct mci_quota quota = {.bytes = 0};
    ck_assert_int_eq(
        mci_master_quota_get(rig.master, mc_view_str(tenant), &quota), MC_OK);
    return quota;
}

static void close_rig(void)
{
    ck_assert(mci_master_check(rig.master));
    rig_close(&rig);
}

START_TEST(without_a_policy_any_tenant_may_write)
{
    open_rig(1 * MIB);
    be("t1");
    ck_assert_int_eq(rig_put(&rig, "a", 100), MC_OK);
    struct mci_quota quota;
    ck_assert_int_eq(
        mci_master_quota_get(rig.master, mc_view_str("t1"), &quota),
        MC_ERR_TENANT_NOT_REGISTERED);
    ck_assert_int_eq(set("t2", 1 * MIB), MC_OK); /* from now on there is one */
    ck_assert_int_eq(rig_put(&rig, "b", 100), MC_ERR_TENANT_NOT_REGISTERED);
    ck_assert_int_eq(rig_upsert(&rig, "a", 100), MC_ERR_TENANT_NOT_REGISTERED);
    be("t3"); /* and no such tenant is made */
    ck_assert_int_eq(rig_put(&rig, "b", 100), MC_ERR_TENANT_NOT_REGISTERED);
    ck_assert_uint_eq(rig_stats(&rig).tenants, 3);
    be("default");
    ck_assert_int_eq(rig_put(&rig, "b", 100), MC_ERR_TENANT_NOT_REGISTERED);
    be("t1"); /* reading and removing go on */
    ck_assert_int_eq(rig_get(&rig, "a", false).err, MC_OK);
    ck_assert_int_eq(rig_remove(&rig, "a", true), 0);
    be("t2");
    ck_assert_int_eq(rig_put(&rig, "b", 100), MC_OK);
    close_rig();
}
END_TEST

START_TEST(it_needs_multi_tenancy)
{
    rig_open(&rig, NULL);
    struct mci_quota quota;
    ck_assert_int_eq(set("default", 1), MC_ERR_UNAVAILABLE_IN_CURRENT_MODE);
    ck_assert_int_eq(
        mci_master_quota_get(rig.master, mc_view_str("default"), &quota),
        MC_ERR_UNAVAILABLE_IN_CURRENT_MODE);
    ck_assert_int_eq(
        mci_master_quota_delete(rig.master, mc_view_str("default")),
        MC_ERR_UNAVAILABLE_IN_CURRENT_MODE);
    rig_close(&rig);
}
END_TEST

START_TEST(what_is_readable_and_what_is_open_is_charged)
{
    open_rig(1 * MIB);
    ck_assert_int_eq(set("t", 10000), MC_OK);
    be("t");
    ck_assert_int_eq(rig_put(&rig, "a", 1000), MC_OK);
    ck_assert_uint_eq(get("t").charged_bytes, 1000);
    struct mci_write_row open = rig_put_start(&rig, "b", 500);
    ck_assert_uint_eq(get("t").charged_bytes, 1500);
    ck_assert_int_eq(rig_put_start(&rig, "b", 500).err,
                     MC_ERR_OBJECT_ALREADY_EXISTS);
    ck_assert_int_eq(rig_put_start(&rig, "c", 20000).err,
                     MC_ERR_TENANT_QUOTA_EXCEEDED);
    ck_assert_uint_eq(get("t").charged_bytes, 1500);
    ck_assert_int_eq(rig_revoke(&rig, &open), MC_OK);
    ck_assert_uint_eq(get("t").charged_bytes, 1000);
    open = rig_upsert_start(&rig, "a", 2000); /* both count until the end */
    ck_assert_uint_eq(get("t").charged_bytes, 3000);
    ck_assert_int_eq(rig_end(&rig, &open), MC_OK);
    ck_assert_uint_eq(get("t").charged_bytes, 2000);
    open = rig_put_start(&rig, "d", 700);
    open.in_doubt = true;
    ck_assert_int_eq(rig_revoke(&rig, &open), MC_OK);
    ck_assert_uint_eq(get("t").charged_bytes, 2000);
    ck_assert_int_eq(rig_remove(&rig, "a", true), 0);
    ck_assert_uint_eq(get("t").charged_bytes, 0);
    close_rig();
}
END_TEST

START_TEST(what_only_leases_hold_is_not_charged)
{
    open_rig(1 * MIB);
    ck_assert_int_eq(set("t", 4096), MC_OK);
    be("t");
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(rig_upsert(&rig, "a", 4096),
                         i == 0 ? MC_OK : MC_ERR_TENANT_QUOTA_EXCEEDED);
        if (i == 0) {
            ck_assert_int_eq(rig_get(&rig, "a", false).err, MC_OK);
            ck_assert_int_eq(rig_remove(&rig, "a", true), 0);
            ck_assert_uint_eq(rig_stats(&rig).leased_only_bytes, 4096);
            ck_assert_uint_eq(get("t").charged_bytes, 0);
            ck_assert_int_eq(rig_put(&rig, "a", 4096), MC_OK);
        }
    }
    close_rig();
}
END_TEST

START_TEST(over_its_quota_a_tenant_evicts_its_own)
{
    open_rig(1 * MIB);
    ck_assert_int_eq(set("t", 4 * KIB), MC_OK);
    ck_assert_int_eq(set("u", 512 * KIB), MC_OK);
    be("u");
    for (int i = 0; i < 100; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "u%d", i);
        ck_assert_int_eq(rig_put(&rig, key, 1 * KIB), MC_OK);
    }
    be("t");
    for (int i = 0; i < 20; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "t%d", i);
        ck_assert_int_eq(rig_put(&rig, key, 1 * KIB), MC_OK);
        ck_assert_uint_le(get("t").charged_bytes, 4 * KIB);
    }
    ck_assert_int_eq(rig_exist(&rig, "t0"), 0); /* the oldest went */
    ck_assert_int_eq(rig_exist(&rig, "t16"), 1);
    ck_assert_int_eq(rig_exist(&rig, "t19"), 1);
    ck_assert_uint_eq(get("u").charged_bytes, 100 * KIB); /* nobody else's */
    ck_assert_uint_eq(rig_stats(&rig).evicted_objects, 16);
    (void)rig_events(&rig);
    close_rig();
}
END_TEST

START_TEST(what_may_not_go_makes_the_write_fail)
{
    open_rig(1 * MIB);
    ck_assert_int_eq(set("t", 2 * KIB), MC_OK);
    be("t");
    const struct mc_replicate_config pinned = {.with_hard_pin = true};
    rig.config = &pinned;
    ck_assert_int_eq(rig_put(&rig, "a", 1 * KIB), MC_OK);
    rig.config = NULL;
    ck_assert_int_eq(rig_put(&rig, "b", 1 * KIB), MC_OK);
    ck_assert_int_eq(rig_get(&rig, "b", false).err, MC_OK); /* leased */
    (void)rig_events(&rig);
    ck_assert_int_eq(rig_put(&rig, "c", 1 * KIB), MC_ERR_TENANT_QUOTA_EXCEEDED);
    EXPECT_EVENTS(&rig, "");
    rig_pass(&rig, 10001);
    ck_assert_int_eq(rig_exist(&rig, "b"), 1); /* which yields */
    ck_assert_int_eq(rig_put(&rig, "c", 1 * KIB), MC_OK);
    EXPECT_EVENTS(&rig, "-t/cpu:b +t/cpu:c");
    /* An upsert never evicts its own key. */
    ck_assert_int_eq(rig_upsert(&rig, "c", 1 * KIB),
                     MC_ERR_TENANT_QUOTA_EXCEEDED);
    ck_assert_int_eq(rig_exist(&rig, "c"), 1);
    close_rig();
}
END_TEST

START_TEST(quotas_of_more_than_is_lent_count_for_their_share)
{
    open_rig(1 * MIB);
    ck_assert_int_eq(set("t", 3 * MIB), MC_OK);
    ck_assert_int_eq(set("u", 1 * MIB), MC_OK);
    ck_assert_uint_eq(get("t").bytes, 3 * MIB);
    ck_assert_uint_eq(get("t").effective_bytes, 768 * KIB);
    ck_assert_uint_eq(get("u").effective_bytes, 256 * KIB);
    be("u");
    ck_assert_int_eq(rig_put(&rig, "a", 257 * KIB),
                     MC_ERR_TENANT_QUOTA_EXCEEDED);
    ck_assert_int_eq(rig_put(&rig, "a", 256 * KIB), MC_OK);
    uint32_t segment = 0;
    (void)rig_add_client(&rig, 3 * MIB, &segment);
    ck_assert_uint_eq(get("u").effective_bytes, 1 * MIB);
    mci_master_segment_close(rig.master, segment);
    ck_assert_uint_eq(get("u").effective_bytes, 256 * KIB);
    mci_master_segment_close(rig.master, rig.segment);
    ck_assert_uint_eq(get("u").effective_bytes, 1 * MIB); /* none to share */
    ck_assert_int_eq(set("t", UINT64_MAX), MC_OK);        /* sums do not wrap */
    ck_assert_int_eq(set("u", UINT64_MAX), MC_OK);
    close_rig();
}
END_TEST

START_TEST(only_an_empty_tenant_loses_its_quota)
{
    open_rig(1 * MIB);
    ck_assert_int_eq(set("t", 1 * MIB), MC_OK);
    ck_assert_int_eq(set("u", 1 * MIB), MC_OK);
    be("t");
    ck_assert_int_eq(rig_put(&rig, "a", 100), MC_OK);
    ck_assert_int_eq(mci_master_quota_delete(rig.master, mc_view_str("t")),
                     MC_ERR_TENANT_NOT_EMPTY);
    ck_assert_int_eq(rig_offload(&rig, "a"), MC_OK);
    ck_assert_int_eq(rig_clear_replica(&rig, "a"), 0); /* on disk only */
    ck_assert_uint_eq(get("t").charged_bytes, 0);
    ck_assert_int_eq(mci_master_quota_delete(rig.master, mc_view_str("t")),
                     MC_ERR_TENANT_NOT_EMPTY);
    ck_assert_int_eq(rig_remove(&rig, "a", true), 0);
    struct mci_write_row open = rig_put_start(&rig, "b", 100);
    ck_assert_int_eq(mci_master_quota_delete(rig.master, mc_view_str("t")),
                     MC_ERR_TENANT_NOT_EMPTY);
    ck_assert_int_eq(rig_revoke(&rig, &open), MC_OK);
    ck_assert_int_eq(mci_master_quota_delete(rig.master, mc_view_str("t")),
                     MC_OK);
    ck_assert_int_eq(mci_master_quota_delete(rig.master, mc_view_str("t")),
                     MC_ERR_TENANT_NOT_REGISTERED);
    ck_assert_int_eq(mci_master_quota_delete(rig.master, mc_view_str("none")),
                     MC_ERR_TENANT_NOT_REGISTERED);
    ck_assert_int_eq(mci_master_quota_delete(rig.master, mc_view_str("_x")),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(rig_put(&rig, "c", 100), MC_ERR_TENANT_NOT_REGISTERED);
    close_rig();
}
END_TEST

START_TEST(all_tenants_are_listed_page_by_page)
{
    open_rig(1 * MIB);
    for (int i = 0; i < 10; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "t%d", i);
        ck_assert_int_eq(set(name, 1000 + (uint64_t)i), MC_OK);
    }
    struct mci_quota page[3];
    uint32_t from = 0;
    size_t count = 0;
    uint64_t sum = 0;
    size_t seen = 0;
    while ((count = mci_master_quotas(rig.master, &from, page, 3)) > 0) {
        for (size_t i = 0; i < count; i++) {
            sum += page[i].bytes;
            seen++;
        }
    }
    ck_assert_uint_eq(seen, 11); /* "default" has none */
    ck_assert_uint_eq(sum, 10045);
    close_rig();
}
END_TEST

/* ---- copies, promotions, closed segments ---------------------------------- */

START_TEST(copies_are_charged_each_and_only_where_they_found_a_place)
{
    open_rig(1 * MIB);
    uint32_t segment = 0;
    (void)rig_add_client(&rig, 1 * MIB, &segment);
    ck_assert_int_eq(set("t", 1 * MIB), MC_OK);
    be("t");
    const struct mc_replicate_config config = {.replica_num = 3};
    rig.config = &config;
    ck_assert_int_eq(rig_put(&rig, "a", 1000), MC_OK);
    ck_assert_uint_eq(get("t").charged_bytes, 2000);
    struct mci_write_row open = rig_put_start(&rig, "b", 1000);
    ck_assert_uint_eq(get("t").charged_bytes, 4000);
    ck_assert_int_eq(rig_clear_replica(&rig, "a"), 0);
    ck_assert_uint_eq(get("t").charged_bytes, 3000);
    mci_master_segment_close(rig.master, segment);
    ck_assert_int_eq(rig_end(&rig, &open), MC_OK); /* sheds a copy */
    ck_assert_uint_eq(get("t").charged_bytes, 2000);
    bool done = false;
    while (!done) {
        ck_assert_int_eq(
            mci_master_segment_step(rig.master, segment, rig.now_ns, 0, &done),
            MC_OK);
    }
    ck_assert_uint_eq(get("t").charged_bytes, 1000);
    rig.config = NULL;
    ck_assert_int_eq(rig_offload(&rig, "b"), MC_OK);
    ck_assert_int_eq(rig_clear_replica(&rig, "b"), 0);
    ck_assert_uint_eq(get("t").charged_bytes, 0);
    struct mci_write_row row = rig_row("b", 0);
    struct mci_call call = rig_call(&rig);
    ck_assert_int_eq(mci_master_promote_start(rig.master, &call, &row, 1),
                     MC_OK);
    ck_assert_int_eq(row.err, MC_OK);
    ck_assert_uint_eq(get("t").charged_bytes, 1000);
    ck_assert_int_eq(mci_master_promote_end(rig.master, &call, &row, 1), MC_OK);
    ck_assert_uint_eq(get("t").charged_bytes, 1000);
    (void)rig_remove_all(&rig, true);
    ck_assert_uint_eq(get("t").charged_bytes, 0);
    close_rig();
}
END_TEST

/* Sums take room wherever their object does, and are in no size that is told. */
START_TEST(sums_are_charged_and_not_told_as_size)
{
    const struct mc_replicate_config config = {.checksum = true};
    const uint64_t size = 2 * 65536 + 1;
    open_rig(1 * MIB);
    ck_assert_int_eq(set("t", 1 * MIB), MC_OK);
    be("t");
    rig.config = &config;
    ck_assert_int_eq(rig_put(&rig, "a", size), MC_OK);
    ck_assert_uint_eq(get("t").charged_bytes, size + 3 * 8);
    ck_assert_uint_eq(rig_probe(&rig, "a").size, size);
    rig.config = NULL;
    struct mci_read_row row = rig_get(&rig, "a", false);
    ck_assert_uint_eq(row.size, size);
    ck_assert(row.has_sums);
    ck_assert_int_eq(rig_offload(&rig, "a"), MC_OK); /* has another label */
    ck_assert_uint_eq(rig_get(&rig, "a", false).size, size);
    ck_assert(rig_get(&rig, "a", false).has_sums);
    ck_assert_int_eq(rig_clear_replica(&rig, "a"), 0);
    ck_assert_uint_eq(get("t").charged_bytes, 0);
    ck_assert_uint_eq(rig_probe(&rig, "a").size, size);
    struct mci_write_row promoted = rig_row("a", 0);
    struct mci_call call = rig_call(&rig);
    ck_assert_int_eq(mci_master_promote_start(rig.master, &call, &promoted, 1),
                     MC_OK);
    ck_assert_int_eq(promoted.err, MC_OK);
    ck_assert_uint_eq(promoted.size, size);
    ck_assert(promoted.has_sums);
    ck_assert_uint_eq(get("t").charged_bytes, size + 3 * 8);
    ck_assert_int_eq(mci_master_promote_end(rig.master, &call, &promoted, 1),
                     MC_OK);
    ck_assert_uint_eq(rig_get(&rig, "a", false).size, size);
    ck_assert(rig_get(&rig, "a", false).has_sums);
    ck_assert_int_eq(rig_upsert(&rig, "a", size), MC_OK);
    ck_assert(!rig_get(&rig, "a", false).has_sums);
    ck_assert_uint_eq(rig_get(&rig, "a", false).size, size);
    ck_assert_uint_eq(get("t").charged_bytes, size);
    close_rig();
}
END_TEST

/* ---- threads --------------------------------------------------------------- */

#define THREADS 4
#define TURNS 3000

static atomic_uint over;

static void *write_much(void *ctx)
{
    struct rig *own = ctx;
    for (int i = 0; i < TURNS; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "%x-%d",
                       (unsigned)((uintptr_t)ctx >> 3 & 0xffff), i % 50);
        enum mc_err err =
            i % 3 == 0 ? rig_upsert(own, key, 1024) : rig_put(own, key, 512);
        atomic_fetch_add(&over, err == MC_ERR_TENANT_QUOTA_EXCEEDED);
        struct mci_quota quota;
        if (mci_master_quota_get(own->master, own->tenant, &quota) != MC_OK ||
            quota.charged_bytes > 16 * KIB + THREADS * 1024) {
            return ctx;
        }
    }
    return NULL;
}

START_TEST(no_crowd_gets_beyond_a_quota)
{
    const struct rig_opts opts = {.shards = 16,
                                  .log_capacity = 1 << 20,
                                  .store = {.enable_multi_tenants = true}};
    rig_open(&rig, &opts);
    ck_assert_int_eq(set("t", 16 * KIB), MC_OK);
    be("t");
    struct rig own[THREADS];
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        own[i] = rig;
    }
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, write_much, &own[i]),
                         0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *fault = NULL;
        (void)pthread_join(threads[i], &fault);
        ck_assert_ptr_null(fault);
    }
    ck_assert_uint_le(get("t").charged_bytes, 16 * KIB);
    ck_assert_uint_gt(rig_stats(&rig).evicted_objects, 100);
    close_rig();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store.quota");
    TCase *tcase = tcase_create("quota");
    tcase_add_test(tcase, without_a_policy_any_tenant_may_write);
    tcase_add_test(tcase, it_needs_multi_tenancy);
    tcase_add_test(tcase, what_is_readable_and_what_is_open_is_charged);
    tcase_add_test(tcase, what_only_leases_hold_is_not_charged);
    tcase_add_test(tcase, over_its_quota_a_tenant_evicts_its_own);
    tcase_add_test(tcase, what_may_not_go_makes_the_write_fail);
    tcase_add_test(tcase, quotas_of_more_than_is_lent_count_for_their_share);
    tcase_add_test(tcase, only_an_empty_tenant_loses_its_quota);
    tcase_add_test(tcase, all_tenants_are_listed_page_by_page);
    tcase_add_test(tcase,
                   copies_are_charged_each_and_only_where_they_found_a_place);
    tcase_add_test(tcase, sums_are_charged_and_not_told_as_size);
    tcase_add_test(tcase, no_crowd_gets_beyond_a_quota);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
