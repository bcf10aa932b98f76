/* SPDX-License-Identifier: Apache-2.0 */
/* test_registry_nomem.c - a registry without memory refuses, and loses
 * nothing. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "alloc_fail.h"
#include "registry_pair.h"
#include "suite.h"

START_TEST(create_fails_whole)
{
    struct rig rig;
    struct alloc_fail fail;
    rig_open(&rig, NULL);
    const struct mci_registry_opts opts = {.master = rig.master, .epoch = 1};
    ALLOC_FAIL_EACH(fail)
    {
        struct mci_registry *registry = NULL;
        alloc_fail_arm(&fail);
        enum mc_err err = mci_registry_create(&opts, &registry);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        mci_registry_destroy(registry);
    }
    rig_close(&rig);
}
END_TEST

START_TEST(a_hello_fails_whole)
{
    pair_open();
    /* Some is kept after a first hello, so each round is one more client. */
    char name[16];
    int round = 0;
    uint64_t clients = cast_stats(&cast).clients;
    bool again = true;
    while (again) {
        (void)snprintf(name, sizeof name, "n%d", ++round);
        struct mci_hello hello = {.incarnation = 50000 + (uint64_t)round,
                                  .name = mc_view_str(name)};
        struct mci_welcome welcome;
        (void)mci_alloc_fail_at((uint64_t)round);
        enum mc_err err = mci_registry_hello(cast.registry, &hello,
                                             cast.rig.now_ns, &welcome);
        again = mci_alloc_fail_at(0) == 0;
        ck_assert_int_eq(err, again ? MC_ERR_NOMEM : MC_OK);
        clients += err == MC_OK;
        ck_assert_uint_eq(cast_stats(&cast).clients, clients);
    }
    pair_close();
}
END_TEST

START_TEST(a_mount_fails_whole)
{
    struct alloc_fail fail;
    pair_open();
    ck_assert_int_eq(fellow_mount(&writer, 64 * KIB), MC_OK); /* a space */
    ck_assert_int_eq(fellow_unmount(&writer, 0), MC_OK);
    cast_settle(&cast);
    ALLOC_FAIL_EACH(fail)
    {
        alloc_fail_arm(&fail);
        enum mc_err err = fellow_mount(&writer, 64 * KIB);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        if (err == MC_OK) {
            ck_assert_int_eq(fellow_unmount(&writer, 0), MC_OK);
            cast_settle(&cast);
        }
        ck_assert_uint_eq(cast_stats(&cast).segments, 1);
        ck_assert_uint_eq(rig_stats(&cast.rig).capacity_bytes, 1 * MIB);
    }
    pair_close();
}
END_TEST

START_TEST(a_start_that_cannot_be_entered_says_so)
{
    pair_open();
    struct mci_call call = fellow_call(&writer);
    bool failed = true;
    for (uint64_t k = 1; failed; k++) {
        struct mci_write_row row = rig_row("a", 64);
        ck_assert_int_eq(
            mci_master_put_start(cast.rig.master, &call, NULL, &row, 1), MC_OK);
        (void)mci_alloc_fail_at(k);
        enum mc_err err = mci_registry_started(
            cast.registry, writer.member, 0, k, 1000, &row, 1, cast.rig.now_ns);
        failed = mci_alloc_fail_at(0) == 0;
        ck_assert_int_eq(err, failed ? MC_ERR_NOMEM : MC_OK);
        ck_assert_uint_eq(cast_stats(&cast).attempts, !failed);
        /* As the server does then: nobody was told. */
        ck_assert_int_eq(mci_master_put_revoke(cast.rig.master, &call, &row, 1),
                         MC_OK);
    }
    pair_close();
}
END_TEST

START_TEST(what_is_in_doubt_waits_for_memory)
{
    bool failed = true;
    for (uint64_t k = 1; failed; k++) {
        pair_open();
        for (int i = 0; i < 3; i++) {
            char key[8];
            (void)snprintf(key, sizeof key, "k%d", i);
            ck_assert_int_eq(fellow_start(&writer, 0, key, 64).err, MC_OK);
        }
        mci_registry_goodbye(cast.registry, writer.member, cast.rig.now_ns);
        (void)mci_alloc_fail_at(k);
        for (int i = 0; i < 8; i++) {
            (void)cast_step(&cast);
        }
        ck_assert_int_eq(fellow_beat(&owner), MC_OK);
        failed = mci_alloc_fail_at(0) == 0;
        fellow_fence(&owner);
        ck_assert_int_eq(fellow_beat(&owner), MC_OK);
        cast_settle(&cast);
        fellow_fence(&owner);
        ck_assert_int_eq(fellow_beat(&owner), MC_OK);
        rig_pass(&cast.rig, 1);
        cast_settle(&cast);
        ck_assert_uint_eq(pair_quarantined(), 0);
        ck_assert_uint_eq(pair_allocated(), 0);
        ck_assert_uint_eq(cast_stats(&cast).fences_open, 0);
        pair_close();
    }
}
END_TEST

START_TEST(leaving_allocates_nothing)
{
    pair_open();
    ck_assert_int_eq(fellow_put(&writer, "a", 64), MC_OK);
    ck_assert_int_eq(fellow_start(&writer, 0, "b", 64).err, MC_OK);
    (void)mci_alloc_fail_at(1);
    mci_registry_goodbye(cast.registry, owner.member, cast.rig.now_ns);
    mci_registry_hung_up(cast.registry, writer.member, cast.rig.now_ns);
    ck_assert_int_ne(mci_alloc_fail_at(0), 0);
    cast_settle(&cast);
    ck_assert_uint_eq(rig_stats(&cast.rig).objects, 0);
    pair_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store.registry_nomem");
    TCase *tcase = tcase_create("nomem");
    tcase_add_test(tcase, create_fails_whole);
    tcase_add_test(tcase, a_hello_fails_whole);
    tcase_add_test(tcase, a_mount_fails_whole);
    tcase_add_test(tcase, a_start_that_cannot_be_entered_says_so);
    tcase_add_test(tcase, what_is_in_doubt_waits_for_memory);
    tcase_add_test(tcase, leaving_allocates_nothing);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
