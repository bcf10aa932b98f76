/* SPDX-License-Identifier: Apache-2.0 */
/* test_registry_segments.c - what members lend: mounting, grace, unmounting.
 * SAFETY D.2, and faults others had with one name mounted twice. */
#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "registry_rig.h"
#include "suite.h"

static struct cast cast;
static struct fellow a;
static struct fellow b;

static enum mci_segment_status status(void)
{
    return mci_registry_segment_status(cast.registry, a.segment);
}

START_TEST(a_mount_again_answers_the_same)
{
    cast_open(&cast, NULL);
    fellow_join(&cast, &a, "a:1", 1 * MIB);
    uint32_t segment = a.segment;
    a.mounts--;
    ck_assert_int_eq(fellow_mount(&a, 1 * MIB), MC_OK);
    ck_assert_uint_eq(a.segment, segment);
    ck_assert_uint_eq(cast_stats(&cast).segments, 1);
    ck_assert_int_eq(fellow_unmount(&a, 1000), MC_OK);
    a.mounts--;
    ck_assert_int_eq(fellow_mount(&a, 1 * MIB),
                     MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS);
    fellow_leave(&a);
    cast_close(&cast);
}
END_TEST

START_TEST(bad_mounts_are_refused)
{
    cast_open(&cast, NULL);
    fellow_join(&cast, &a, "a:1", 0);
    const struct mci_mount good = {
        .id = {1, 2}, .bytes = 4096, .base = 1, .name = mc_view_str("a:1")};
    char longest[MCI_NAME_LEN_MAX + 1];
    memset(longest, 'x', sizeof longest);
    struct mci_mount cases[] = {good, good, good, good, good, good};
    cases[0].bytes = 0;
    cases[1].base = 0;
    cases[2].bytes = UINT64_MAX;
    cases[3].name = mc_view_make(longest, sizeof longest);
    cases[4].endpoint = mc_view_str("\xff");
    cases[5].shm = mc_view_make("a\0b", 3);
    uint32_t segment = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert_int_eq(mci_registry_mount(cast.registry, a.member, &cases[i],
                                            cast.rig.now_ns, &segment),
                         MC_ERR_INVALID_PARAMS);
    }
    ck_assert_int_eq(mci_registry_mount(cast.registry, a.member, &good,
                                        cast.rig.now_ns, &segment),
                     MC_OK);
    fellow_leave(&a);
    cast_close(&cast);
}
END_TEST

START_TEST(all_that_was_said_of_a_segment_is_told)
{
    cast_open(&cast, NULL);
    fellow_join(&cast, &a, "a:1", 1 * MIB);
    struct mci_segment_row row;
    struct mci_segment_texts texts;
    ck_assert_int_eq(fellow_put(&a, "k", 4096), MC_OK);
    ck_assert(mci_registry_segment(cast.registry, a.segment, &row, &texts));
    ck_assert_uint_eq(row.segment, a.segment);
    ck_assert_uint_eq(row.client, a.client);
    ck_assert_uint_eq(row.incarnation, a.incarnation);
    ck_assert_uint_eq(row.registration, a.registration);
    ck_assert_uint_eq(row.bytes, 1 * MIB);
    ck_assert_uint_eq(row.used_bytes, 4096);
    ck_assert_uint_eq(row.base, 4096);
    ck_assert_int_eq(row.status, MCI_SEGMENT_OK);
    ck_assert(mc_view_equal(row.endpoint, mc_view_str("127.0.0.1:1")));
    ck_assert(mc_view_equal(row.protocol, mc_view_str("tcp")));
    ck_assert(mc_view_equal(row.host_id, mc_view_str("host-a")));
    ck_assert_uint_eq(row.shm.len, 0);
    ck_assert(
        !mci_registry_segment(cast.registry, a.segment + 1, &row, &texts));
    ck_assert(!mci_registry_segment(cast.registry, 0, &row, &texts));
    fellow_leave(&a);
    cast_close(&cast);
}
END_TEST

START_TEST(segments_are_listed_in_order_and_page_by_page)
{
    cast_open(&cast, NULL);
    fellow_join(&cast, &a, "a:1", 0);
    for (int i = 0; i < 50; i++) {
        ck_assert_int_eq(fellow_mount(&a, 4096), MC_OK);
        if (i % 3 == 0) { /* so that slots are used again */
            ck_assert_int_eq(fellow_unmount(&a, 0), MC_OK);
            cast_settle(&cast);
        }
    }
    uint32_t after = 0;
    uint32_t page[7];
    size_t seen = 0;
    size_t count = 0;
    while ((count = mci_registry_segments(cast.registry, after, page, 7)) > 0) {
        for (size_t i = 0; i < count; i++) {
            ck_assert_uint_gt(page[i], after);
            after = page[i];
        }
        seen += count;
    }
    ck_assert_uint_eq(seen, cast_stats(&cast).segments);
    ck_assert_uint_eq(mci_registry_segments(cast.registry, 0, page, 0), 0);
    fellow_leave(&a);
    cast_close(&cast);
}
END_TEST

START_TEST(an_unmount_takes_effect_before_it_returns)
{
    cast_open(&cast, NULL);
    fellow_join(&cast, &a, "a:1", 1 * MIB);
    fellow_join(&cast, &b, "b:1", 0);
    ck_assert_int_eq(fellow_put(&b, "k", 100), MC_OK);
    struct mci_write_row open = fellow_start(&b, 0, "open", 100);
    (void)rig_events(&cast.rig);
    ck_assert_int_eq(fellow_unmount(&a, 0), MC_OK);
    ck_assert_int_eq(status(), MCI_SEGMENT_UNMOUNTING);
    ck_assert_int_eq(fellow_start(&b, 0, "new", 100).err,
                     MC_ERR_NO_AVAILABLE_HANDLE);
    /* An end finds no copy that counts, and publishes nothing. */
    ck_assert_int_eq(fellow_end(&b, &open), MC_ERR_INVALID_VERSION);
    cast_settle(&cast);
    EXPECT_EVENTS(&cast.rig, "-cpu:k");
    ck_assert_int_eq(status(), MCI_SEGMENT_UNDEFINED);
    ck_assert_int_eq(fellow_unmount(&a, 0), MC_OK); /* unknown by now */
    fellow_leave(&a);
    fellow_leave(&b);
    cast_close(&cast);
}
END_TEST

START_TEST(with_grace_it_stays_readable_and_nothing_new_comes)
{
    cast_open(&cast, NULL);
    fellow_join(&cast, &a, "a:1", 1 * MIB);
    ck_assert_int_eq(fellow_put(&a, "k", 100), MC_OK);
    struct mci_write_row open = fellow_start(&a, 0, "open", 100);
    (void)rig_events(&cast.rig);
    ck_assert_int_eq(fellow_unmount(&a, 2000), MC_OK);
    ck_assert_int_eq(fellow_unmount(&a, 5000), MC_OK); /* never longer */
    ck_assert_int_eq(status(), MCI_SEGMENT_GRACEFULLY_UNMOUNTING);
    ck_assert_int_eq(fellow_start(&a, 0, "new", 100).err,
                     MC_ERR_NO_AVAILABLE_HANDLE);
    ck_assert_int_eq(fellow_end(&a, &open), MC_OK);
    ck_assert_int_eq(fellow_beat(&a), MC_OK); /* does not admit it again */
    rig_pass(&cast.rig, 1999);
    cast_settle(&cast);
    ck_assert_int_eq(rig_get(&cast.rig, "k", false).err, MC_OK);
    ck_assert_int_eq(fellow_start(&a, 0, "new", 100).err,
                     MC_ERR_NO_AVAILABLE_HANDLE);
    EXPECT_EVENTS(&cast.rig, "+cpu:open");
    uint64_t left_ns = cast_step(&cast) - cast.rig.now_ns;
    ck_assert_uint_le(left_ns, 1 * MS);
    cast.rig.now_ns += left_ns;
    cast_settle(&cast);
    EXPECT_EVENTS(&cast.rig, "-cpu:open -cpu:k");
    ck_assert_int_eq(status(), MCI_SEGMENT_UNDEFINED);
    fellow_leave(&a);
    cast_close(&cast);
}
END_TEST

START_TEST(a_grace_ends_with_its_owner)
{
    cast_open(&cast, NULL);
    fellow_join(&cast, &a, "a:1", 1 * MIB);
    ck_assert_int_eq(fellow_put(&a, "k", 100), MC_OK);
    ck_assert_int_eq(fellow_unmount(&a, 3600000), MC_OK);
    (void)rig_events(&cast.rig);
    mci_registry_goodbye(cast.registry, a.member, cast.rig.now_ns);
    cast_settle(&cast);
    EXPECT_EVENTS(&cast.rig, "-cpu:k");
    ck_assert_uint_eq(cast_stats(&cast).segments, 0);
    fellow_leave(&a);
    cast_close(&cast);
}
END_TEST

START_TEST(nobody_unmounts_what_is_anothers)
{
    cast_open(&cast, NULL);
    fellow_join(&cast, &a, "a:1", 1 * MIB);
    fellow_join(&cast, &b, "b:1", 0);
    b.segment = a.segment;
    ck_assert_int_eq(fellow_unmount(&b, 0), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(status(), MCI_SEGMENT_OK);
    ck_assert_int_eq(fellow_put(&b, "k", 100), MC_OK);
    fellow_leave(&a);
    fellow_leave(&b);
    cast_close(&cast);
}
END_TEST

START_TEST(a_restarted_owner_begins_empty_beside_what_is_still_going)
{
    cast_open(&cast, NULL);
    fellow_join(&cast, &a, "a:1", 1 * MIB);
    for (int i = 0; i < 500; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%d", i);
        ck_assert_int_eq(fellow_put(&a, key, 100), MC_OK);
    }
    rig_pass(&cast.rig, 2 * BEAT_MS + 1);
    fellow_join(&cast, &b, "a:1", 1 * MIB); /* no slice has been done yet */
    ck_assert_int_eq(fellow_put(&b, "new", 100), MC_OK);
    cast_settle(&cast);
    ck_assert_uint_eq(rig_stats(&cast.rig).objects, 1);
    ck_assert_int_eq(rig_exist(&cast.rig, "new"), 1);
    ck_assert_int_eq(rig_exist(&cast.rig, "k7"), 0);
    ck_assert_uint_eq(cast_stats(&cast).segments, 1);
    fellow_leave(&a);
    fellow_leave(&b);
    cast_close(&cast);
}
END_TEST

/* ---- two threads, one name ------------------------------------------------ */

#define ROUNDS 1000

static void *mount_and_unmount(void *ctx)
{
    struct fellow *fellow = ctx;
    for (int i = 0; i < ROUNDS; i++) {
        if (fellow_mount(fellow, 64 * KIB) != MC_OK) {
            return ctx;
        }
        struct mci_write_row row = fellow_start(fellow, 0, "k", 64);
        if (row.err == MC_OK) {
            (void)fellow_end(fellow, &row);
        }
        if (i + 1 < ROUNDS && fellow_unmount(fellow, 0) != MC_OK) {
            return ctx;
        }
        (void)cast_step(&cast);
    }
    return NULL;
}

START_TEST(mounting_and_unmounting_one_name_from_two_threads_ends_usable)
{
    cast_open(&cast, NULL);
    fellow_join(&cast, &a, "a:1", 0);
    b = a; /* the same member, twice at it */
    b.member = a.member;
    b.mounts = 1000000;
    pthread_t threads[2];
    struct fellow *const fellows[2] = {&a, &b};
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(
            pthread_create(&threads[i], NULL, mount_and_unmount, fellows[i]),
            0);
    }
    for (int i = 0; i < 2; i++) {
        void *fault = NULL;
        (void)pthread_join(threads[i], &fault);
        ck_assert_ptr_null(fault);
    }
    cast_settle(&cast);
    rig_pass(&cast.rig, MC_GRANT_TTL_MAX_MS);
    rig_sweep(&cast.rig);
    ck_assert_uint_eq(cast_stats(&cast).segments, 2);
    ck_assert_uint_eq(rig_stats(&cast.rig).capacity_bytes, 128 * KIB);
    ck_assert_int_eq(fellow_put(&a, "last", 100), MC_OK);
    ck_assert_int_eq(fellow_beat(&a), MC_OK);
    fellow_leave(&a);
    cast_close(&cast);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store.registry_segments");
    TCase *tcase = tcase_create("segments");
    tcase_add_test(tcase, a_mount_again_answers_the_same);
    tcase_add_test(tcase, bad_mounts_are_refused);
    tcase_add_test(tcase, all_that_was_said_of_a_segment_is_told);
    tcase_add_test(tcase, segments_are_listed_in_order_and_page_by_page);
    tcase_add_test(tcase, an_unmount_takes_effect_before_it_returns);
    tcase_add_test(tcase, with_grace_it_stays_readable_and_nothing_new_comes);
    tcase_add_test(tcase, a_grace_ends_with_its_owner);
    tcase_add_test(tcase, nobody_unmounts_what_is_anothers);
    tcase_add_test(tcase,
                   a_restarted_owner_begins_empty_beside_what_is_still_going);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("threads");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(
        tcase, mounting_and_unmounting_one_name_from_two_threads_ends_usable);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
