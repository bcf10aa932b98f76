/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_evict.c - placing and evicting: SAFETY E.1 and E.2, and known faults
 * that eviction has had elsewhere. Where the order of last use decides, each
 * test runs with one shard and with many. E.3 and E.4 are in test_store_pins, what
 * happens in between in test_store_meanwhile; E.5 speaks of quotas, which come
 * with tenants. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "evict_rig.h"
#include "suite.h"

static struct rig rig;

static const char *const abcd[] = {"a", "b", "c", "d"};

/* ---- E.1 ------------------------------------------------------------------ */

START_TEST(a_put_of_what_exists_evicts_nothing)
{
    open_default(&rig, _i);
    put_quarters(&rig, abcd, 4);
    (void)rig_events(&rig);
    char *before = rig_state(&rig);
    ck_assert_int_eq(rig_put(&rig, "d", MIB), MC_ERR_OBJECT_ALREADY_EXISTS);
    ck_assert_int_eq(rig_put(&rig, "a", 64), MC_ERR_OBJECT_ALREADY_EXISTS);
    EXPECT_UNCHANGED(&rig, before);
    free(before);
    rig_close(&rig);
}
END_TEST

START_TEST(a_put_of_what_is_being_written_evicts_nothing)
{
    open_default(&rig, _i);
    struct mci_write_row open = rig_put_start(&rig, "w", QUARTER);
    ck_assert_int_eq(open.err, MC_OK);
    put_quarters(&rig, abcd, 3);
    (void)rig_events(&rig);
    char *before = rig_state(&rig);
    ck_assert_int_eq(rig_put(&rig, "w", QUARTER), MC_ERR_OBJECT_ALREADY_EXISTS);
    EXPECT_UNCHANGED(&rig, before);
    free(before);
    rig_close(&rig);
}
END_TEST

START_TEST(what_can_never_fit_evicts_nothing)
{
    open_default(&rig, _i);
    put_quarters(&rig, abcd, 4);
    (void)rig_events(&rig);
    char *before = rig_state(&rig);
    uint64_t sizes[] = {MIB + 1, 1024 * MIB, MC_OBJECT_SIZE_MAX};
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(rig_put(&rig, "x", sizes[i]),
                         MC_ERR_NO_AVAILABLE_HANDLE);
    }
    EXPECT_UNCHANGED(&rig, before);
    free(before);
    rig_close(&rig);
}
END_TEST

/* ---- E.2: the order ------------------------------------------------------- */

START_TEST(the_least_recently_used_goes_first)
{
    open_default(&rig, _i);
    put_quarters(&rig, abcd, 4);
    get_ok(&rig, "a");
    rig_pass(&rig, LEASE_MS + 1);
    (void)rig_events(&rig);
    ck_assert_int_eq(rig_put(&rig, "e", QUARTER), MC_OK);
    EXPECT_EVENTS(&rig, "-cpu:b +cpu:e");
    ck_assert_int_eq(rig_put(&rig, "f", QUARTER), MC_OK);
    ck_assert_int_eq(rig_put(&rig, "g", QUARTER), MC_OK);
    EXPECT_EVENTS(&rig, "-cpu:c +cpu:f -cpu:d +cpu:g");
    ck_assert_int_eq(rig_put(&rig, "h", QUARTER), MC_OK);
    EXPECT_EVENTS(&rig, "-cpu:a +cpu:h");
    rig_close(&rig);
}
END_TEST

START_TEST(asking_whether_it_exists_is_a_use_and_a_probe_is_none)
{
    open_default(&rig, _i);
    put_quarters(&rig, abcd, 4);
    ck_assert_int_eq(rig_exist(&rig, "a"), 1);
    (void)rig_probe(&rig, "b");
    rig_pass(&rig, LEASE_MS + 1);
    (void)rig_events(&rig);
    ck_assert_int_eq(rig_put(&rig, "e", QUARTER), MC_OK);
    EXPECT_EVENTS(&rig, "-cpu:b +cpu:e");
    rig_close(&rig);
}
END_TEST

/* The head is leased longer than those behind it: it is passed over. */
START_TEST(a_leased_head_is_passed_over_and_goes_to_the_tail)
{
    open_sharded(&rig, _i, (struct mc_store_opts){.exist_lease_ttl_ms = 1000});
    put_quarters(&rig, abcd, 4);
    get_ok(&rig, "a");
    ck_assert_int_eq(rig_exist(&rig, "b"), 1);
    ck_assert_int_eq(rig_exist(&rig, "c"), 1);
    ck_assert_int_eq(rig_exist(&rig, "d"), 1);
    rig_pass(&rig, 2000);
    (void)rig_events(&rig);
    ck_assert_int_eq(rig_put(&rig, "e", QUARTER), MC_OK);
    EXPECT_EVENTS(&rig, "-cpu:b +cpu:e");
    ck_assert(is_there(&rig, "a"));
    rig_close(&rig);
}
END_TEST

START_TEST(when_everything_is_leased_nothing_goes)
{
    open_default(&rig, _i);
    put_quarters(&rig, abcd, 4);
    for (int i = 0; i < 4; i++) {
        get_ok(&rig, abcd[i]);
    }
    (void)rig_events(&rig);
    char *before = rig_state(&rig);
    ck_assert_int_eq(rig_put(&rig, "e", 64), MC_ERR_NO_AVAILABLE_HANDLE);
    ck_assert_int_eq(rig_put(&rig, "e", MIB), MC_ERR_NO_AVAILABLE_HANDLE);
    EXPECT_UNCHANGED(&rig, before);
    ck_assert_uint_eq(rig_stats(&rig).alloc_failures, 2);
    free(before);
    rig_pass(&rig, LEASE_MS + 1);
    ck_assert_int_eq(rig_put(&rig, "e", 64), MC_OK);
    rig_close(&rig);
}
END_TEST

START_TEST(an_open_write_is_not_evicted)
{
    open_default(&rig, _i);
    struct mci_write_row open = rig_put_start(&rig, "w", QUARTER);
    rig_pass(&rig, 60000);
    put_quarters(&rig, abcd, 4);
    ck_assert_int_eq(rig_end(&rig, &open), MC_OK);
    ck_assert(is_there(&rig, "w"));
    rig_close(&rig);
}
END_TEST

/* ---- E.2: windows --------------------------------------------------------- */

/* 256 objects of 4 KiB fill the segment; the i-th lies in the i-th place. */
static void fill_small(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%u", i);
        struct mci_write_row row = rig_put_start(&rig, key, 4 * KIB);
        ck_assert_int_eq(row.err, MC_OK);
        ck_assert_int_eq(rig_end(&rig, &row), MC_OK);
    }
    ck_assert_uint_eq(rig_stats(&rig).allocated_bytes, MIB);
}

static void use_in_scattered_order(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%u", i * 85 % 256);
        get_ok(&rig, key);
    }
    rig_pass(&rig, LEASE_MS + 1);
}

START_TEST(a_window_is_cleared_where_eviction_makes_no_hole)
{
    open_default(&rig, _i);
    fill_small();
    use_in_scattered_order();
    (void)rig_events(&rig);
    ck_assert_int_eq(rig_put(&rig, "big", 64 * KIB), MC_OK);
    struct mci_master_stats stats = rig_stats(&rig);
    ck_assert_uint_eq(stats.evicted_windows, 1);
    /* Its own size in plain eviction, and a window of it. */
    ck_assert_uint_le(stats.evicted_objects, 2 * 17);
    ck_assert_uint_ge(stats.evicted_objects, 16);
    ck_assert(is_there(&rig, "big"));
    rig_close(&rig);
}
END_TEST

/* The upper half has a hole behind each object: windows there cost half. Where
 * it is looked first depends on the time. */
static void clear_cheap_window(int row, uint64_t later_ms)
{
    open_default(&rig, row);
    fill_small();
    use_in_scattered_order();
    for (uint32_t i = 129; i < 256; i += 2) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%u", i);
        ck_assert_int_eq(rig_remove(&rig, key, true), 0);
    }
    (void)rig_events(&rig);
    rig_pass(&rig, later_ms);
    ck_assert_int_eq(rig_put(&rig, "big", 64 * KIB), MC_OK);
    struct mci_master_stats stats = rig_stats(&rig);
    ck_assert_uint_eq(stats.evicted_windows, 1);
    ck_assert_msg(stats.evicted_objects <= 16 + 10, "%ju",
                  (uintmax_t)stats.evicted_objects);
    rig_close(&rig);
}

START_TEST(the_cheaper_window_is_cleared)
{
    for (uint64_t later_ms = 0; later_ms < 12; later_ms++) {
        clear_cheap_window(_i, later_ms);
    }
}
END_TEST

START_TEST(a_window_holds_nothing_that_is_leased_or_pinned)
{
    open_default(&rig, _i);
    struct mc_replicate_config pinned = {.with_hard_pin = true};
    for (uint32_t i = 0; i < 256; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%u", i);
        rig.config = i % 32 == 0 ? &pinned : NULL;
        ck_assert_int_eq(rig_put(&rig, key, 4 * KIB), MC_OK);
    }
    rig.config = NULL;
    use_in_scattered_order();
    for (uint32_t i = 16; i < 256; i += 32) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%u", i);
        get_ok(&rig, key);
    }
    /* Every 16th cannot go; what fits between is found, again and again. */
    for (int i = 0; i < 6; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "big%d", i);
        enum mc_err err = rig_put(&rig, key, 40 * KIB);
        ck_assert_msg(err == MC_OK || err == MC_ERR_NO_AVAILABLE_HANDLE, "%d",
                      err);
        for (uint32_t k = 0; k < 256; k += 16) {
            char kept[16];
            (void)snprintf(kept, sizeof kept, "k%u", k);
            ck_assert(is_there(&rig, kept));
        }
        ck_assert(mci_master_check(rig.master));
    }
    rig_close(&rig);
}
END_TEST

START_TEST(no_window_means_no_room_and_nothing_evicted)
{
    open_default(&rig, _i);
    fill_small();
    use_in_scattered_order();
    for (uint32_t i = 0; i < 256; i += 8) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%u", i);
        get_ok(&rig, key);
    }
    (void)rig_events(&rig);
    char *before = rig_state(&rig);
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(rig_put(&rig, "big", 64 * KIB),
                         MC_ERR_NO_AVAILABLE_HANDLE);
    }
    EXPECT_UNCHANGED(&rig, before);
    free(before);
    rig_close(&rig);
}
END_TEST

START_TEST(the_whole_segment_can_be_one_window)
{
    open_default(&rig, _i);
    fill_small();
    use_in_scattered_order();
    ck_assert_int_eq(rig_put(&rig, "big", MIB), MC_OK);
    ck_assert_uint_eq(rig_stats(&rig).objects, 1);
    rig_close(&rig);
}
END_TEST

/* ---- D7 and the background ------------------------------------------------- */

/* Fewer segments than copies: as many as there are, and nothing is evicted for
 * those that there cannot be. */
START_TEST(fewer_segments_than_copies_evict_nothing)
{
    struct mc_replicate_config two = {.replica_num = 2};
    open_default(&rig, _i);
    put_quarters(&rig, abcd, 2);
    (void)rig_events(&rig);
    rig.config = &two;
    struct mci_write_row row = rig_put_start(&rig, "e", QUARTER);
    ck_assert_int_eq(row.err, MC_OK);
    ck_assert_uint_eq(row.place_count, 1);
    ck_assert_int_eq(rig_end(&rig, &row), MC_OK);
    EXPECT_EVENTS(&rig, "+cpu:e");
    ck_assert_uint_eq(rig_stats(&rig).evicted_objects, 0);
    rig_close(&rig);
}
END_TEST

/* D4: a read does not schedule what it read for removal. */
START_TEST(without_pressure_nothing_ever_goes)
{
    open_default(&rig, _i);
    put_quarters(&rig, abcd, 3);
    for (int i = 0; i < 100; i++) {
        get_ok(&rig, abcd[i % 3]);
        rig_pass(&rig, 2 * LEASE_MS);
        rig_sweep(&rig);
    }
    ck_assert_uint_eq(rig_stats(&rig).objects, 3);
    ck_assert_uint_eq(rig_stats(&rig).evicted_objects, 0);
    rig_close(&rig);
}
END_TEST

START_TEST(the_sweep_goes_down_to_the_low_mark_and_no_further)
{
    open_default(&rig, _i);
    fill_small();
    rig_pass(&rig, 1000);
    rig_sweep(&rig);
    uint64_t used = rig_stats(&rig).allocated_bytes;
    /* High watermark 0.90, and 0.05 beyond it. */
    ck_assert_msg(used <= MIB * 86 / 100 && used >= MIB * 84 / 100, "%ju",
                  (uintmax_t)used);
    ck_assert(!is_there(&rig, "k0"));
    ck_assert(is_there(&rig, "k255"));
    rig_sweep(&rig);
    ck_assert_uint_eq(rig_stats(&rig).allocated_bytes, used);
    rig_close(&rig);
}
END_TEST

START_TEST(the_sweep_leaves_what_is_leased_or_pinned)
{
    struct mc_replicate_config pinned = {.with_hard_pin = true};
    open_default(&rig, _i);
    rig.config = &pinned;
    put_quarters(&rig, abcd, 2);
    rig.config = NULL;
    put_quarters(&rig, abcd + 2, 2);
    get_ok(&rig, "c");
    ck_assert_int_eq(rig_exist(&rig, "d"), 1);
    (void)rig_events(&rig);
    char *before = rig_state(&rig);
    rig_sweep(&rig);
    EXPECT_UNCHANGED(&rig, before);
    free(before);
    rig_close(&rig);
}
END_TEST

/* J6, J7 through the store: sizes change, room is found. */
START_TEST(other_sizes_find_the_room_of_the_first)
{
    struct rig_opts opts = {.segment_bytes = 64 * MIB,
                            .shards = shards_of_row(_i)};
    rig_open(&rig, &opts);
    uint32_t small = rig_fill(&rig, "s", 4 * KIB, 16384);
    ck_assert_uint_eq(small, 16384);
    (void)rig_events(&rig);
    ck_assert_uint_eq(rig_remove_all(&rig, false), small);
    (void)rig_events(&rig);
    ck_assert_uint_eq(rig_fill(&rig, "l", 8 * MIB, 8), 8);
    ck_assert_uint_eq(rig_remove_all(&rig, false), 8);
    ck_assert_uint_eq(rig_fill(&rig, "t", 4 * KIB, 16384), 16384);
    ck_assert_uint_eq(rig_count(&rig, "t", 16384), 16384);
    (void)rig_events(&rig);
    rig_close(&rig);
}
END_TEST

START_TEST(a_mix_of_small_and_large_puts_is_not_refused)
{
    enum { PUTS = 10000 };
    struct rig_opts opts = {.segment_bytes = 256 * MIB,
                            .no_tap = true,
                            .shards = shards_of_row(_i)};
    rig_open(&rig, &opts);
    uint64_t state = 88172645463325252U;
    int refused = 0;
    for (int i = 0; i < PUTS; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        uint64_t size = state % 2 ? 256 + state / 2 % (16 * KIB - 256)
                                  : 8 * MIB + state / 2 % (8 * MIB);
        char key[16];
        (void)snprintf(key, sizeof key, "m%d", i);
        refused += rig_put(&rig, key, size) != MC_OK;
        (void)snprintf(key, sizeof key, "m%d", i - 1 - (int)(state >> 60) % 3);
        (void)rig_remove(&rig, key, true);
    }
    ck_assert_msg(refused < PUTS / 1000, "%d refused", refused);
    rig_close(&rig);
}
END_TEST

static TCase *order(void)
{
    TCase *tcase = tcase_create("order");
    ADD(tcase, a_put_of_what_exists_evicts_nothing);
    ADD(tcase, a_put_of_what_is_being_written_evicts_nothing);
    ADD(tcase, what_can_never_fit_evicts_nothing);
    ADD(tcase, the_least_recently_used_goes_first);
    ADD(tcase, asking_whether_it_exists_is_a_use_and_a_probe_is_none);
    ADD(tcase, a_leased_head_is_passed_over_and_goes_to_the_tail);
    ADD(tcase, when_everything_is_leased_nothing_goes);
    ADD(tcase, an_open_write_is_not_evicted);
    return tcase;
}

static TCase *windows(void)
{
    TCase *tcase = tcase_create("windows");
    ADD(tcase, a_window_is_cleared_where_eviction_makes_no_hole);
    ADD(tcase, the_cheaper_window_is_cleared);
    ADD(tcase, a_window_holds_nothing_that_is_leased_or_pinned);
    ADD(tcase, no_window_means_no_room_and_nothing_evicted);
    ADD(tcase, the_whole_segment_can_be_one_window);
    return tcase;
}

static TCase *room(void)
{
    TCase *tcase = tcase_create("room");
    tcase_set_timeout(tcase, 60);
    ADD(tcase, fewer_segments_than_copies_evict_nothing);
    ADD(tcase, without_pressure_nothing_ever_goes);
    ADD(tcase, the_sweep_goes_down_to_the_low_mark_and_no_further);
    ADD(tcase, the_sweep_leaves_what_is_leased_or_pinned);
    ADD(tcase, other_sizes_find_the_room_of_the_first);
    ADD(tcase, a_mix_of_small_and_large_puts_is_not_refused);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("store evict");
    suite_add_tcase(suite, order());
    suite_add_tcase(suite, windows());
    suite_add_tcase(suite, room());
    return suite_run(suite);
}
