/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_place.c - where copies go: preferred segments, the writer's host,
 * strategies, newcomers, and segments that take nothing any more. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "store_rig.h"
#include "suite.h"

static struct rig rig;

struct lender {
    uint32_t client;
    uint32_t segment;
};

static struct lender lend(const char *host, const char *name, uint64_t bytes)
{
    struct lender lender;
    ck_assert_int_eq(
        mci_master_client_add_on(rig.master, mc_view_str(host), &lender.client),
        MC_OK);
    const struct mci_lent lent = {
        .name = name, .bytes = bytes, .client = lender.client};
    ck_assert_int_eq(mci_master_segment_add(rig.master, &lent, &lender.segment),
                     MC_OK);
    return lender;
}

static void open_rig(enum mc_allocation_strategy strategy)
{
    const struct rig_opts opts = {.segment_bytes = MC_NONE,
                                  .store = {.allocation_strategy = strategy}};
    rig_open(&rig, &opts);
}

/* Starts so many as the client and counts those on the segment. */
static int count_on(uint32_t client, uint32_t segment, int starts,
                    uint64_t size)
{
    static int serial;
    struct rig own = rig;
    int count = 0;
    own.client = client;
    for (int i = 0; i < starts; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%d", serial++);
        struct mci_write_row row = rig_put_start(&own, key, size);
        ck_assert_int_eq(row.err, MC_OK);
        count += row.places[0].segment == segment;
    }
    return count;
}

START_TEST(a_preferred_name_gets_all_while_it_has_room)
{
    open_rig(MC_ALLOCATION_RANDOM);
    struct lender a = lend("h1", "a", 1 * MIB);
    struct lender b = lend("h1", "b", 64 * KIB);
    const struct mc_replicate_config config = {.preferred_segment = "b"};
    rig.config = &config;
    ck_assert_int_eq(count_on(a.client, b.segment, 64, 1024), 64);
    ck_assert_int_eq(count_on(a.client, a.segment, 8, 1024), 8); /* full */
    rig.config = NULL;
    rig_close(&rig);
}
END_TEST

START_TEST(preferred_names_are_tried_in_their_order)
{
    open_rig(MC_ALLOCATION_RANDOM);
    struct lender a = lend("h1", "a", 1 * MIB);
    struct lender b = lend("h1", "b", 4 * KIB);
    struct lender c = lend("h1", "c", 4 * KIB);
    static const char *const names[] = {"none", "c", "b"};
    const struct mc_replicate_config config = {.preferred_segments = names,
                                               .preferred_segment_count = 3};
    rig.config = &config;
    ck_assert_int_eq(count_on(a.client, c.segment, 4, 1024), 4);
    ck_assert_int_eq(count_on(a.client, b.segment, 4, 1024), 4);
    ck_assert_int_eq(count_on(a.client, a.segment, 4, 1024), 4);
    rig.config = NULL;
    rig_close(&rig);
}
END_TEST

START_TEST(segments_of_one_name_share)
{
    open_rig(MC_ALLOCATION_RANDOM);
    struct lender a = lend("h1", "a", 1 * MIB);
    struct lender also_a = lend("h1", "a", 1 * MIB);
    struct lender b = lend("h1", "b", 1 * MIB);
    const struct mc_replicate_config config = {.preferred_segment = "a"};
    rig.config = &config;
    int first = count_on(b.client, a.segment, 300, 64);
    ck_assert_int_gt(first, 50);
    ck_assert_int_lt(first, 250);
    ck_assert_int_eq(count_on(b.client, b.segment, 300, 64), 0);
    (void)also_a;
    rig.config = NULL;
    rig_close(&rig);
}
END_TEST

START_TEST(the_same_node_is_its_own_memory_then_its_host)
{
    open_rig(MC_ALLOCATION_RANDOM);
    struct lender far = lend("h2", "far", 1 * MIB);
    struct lender near = lend("h1", "near", 1 * MIB);
    struct lender own = lend("h1", "own", 8 * KIB);
    const struct mc_replicate_config config = {.prefer_alloc_in_same_node =
                                                   true};
    rig.config = &config;
    ck_assert_int_eq(count_on(own.client, own.segment, 8, 1024), 8);
    ck_assert_int_eq(count_on(own.client, near.segment, 100, 1024), 100);
    ck_assert_int_eq(count_on(far.client, far.segment, 100, 1024), 100);
    uint32_t nobody = 0;
    ck_assert_int_eq(mci_master_client_add(rig.master, &nobody), MC_OK);
    int on_far = count_on(nobody, far.segment, 100, 64);
    ck_assert_int_gt(on_far, 10); /* a host of none is nobody's neighbour */
    rig.config = NULL;
    ck_assert_int_lt(count_on(own.client, near.segment, 100, 64), 90);
    rig_close(&rig);
}
END_TEST

START_TEST(preferred_names_go_before_the_same_node)
{
    open_rig(MC_ALLOCATION_LOCAL_FIRST);
    struct lender far = lend("h2", "far", 1 * MIB);
    struct lender own = lend("h1", "own", 1 * MIB);
    const struct mc_replicate_config config = {.preferred_segment = "far"};
    ck_assert_int_eq(count_on(own.client, own.segment, 50, 64), 50);
    rig.config = &config;
    ck_assert_int_eq(count_on(own.client, far.segment, 50, 64), 50);
    rig.config = NULL;
    rig_close(&rig);
}
END_TEST

START_TEST(local_first_is_for_single_copies)
{
    open_rig(MC_ALLOCATION_LOCAL_FIRST);
    struct lender far = lend("h2", "far", 1 * MIB);
    struct lender own = lend("h1", "own", 1 * MIB);
    const struct mc_replicate_config config = {.replica_num = 2};
    rig.config = &config;
    int first_on_far = count_on(own.client, far.segment, 100, 64);
    ck_assert_int_gt(first_on_far, 10);
    rig.config = NULL;
    rig_close(&rig);
}
END_TEST

/* ---- newcomers -------------------------------------------------------------- */

static int share_of_newcomer(enum mc_allocation_strategy strategy)
{
    open_rig(strategy);
    struct lender old[3];
    for (int i = 0; i < 3; i++) {
        old[i] = lend("h", "old", 1 * MIB);
    }
    const struct mc_replicate_config config = {.preferred_segment = "old"};
    rig.config = &config;
    (void)count_on(old[0].client, 0, 3 * 922, 1024); /* 90 % */
    rig.config = NULL;
    struct lender newcomer = lend("h", "new", 1 * MIB);
    int share = count_on(old[0].client, newcomer.segment, 1000, 64);
    rig_close(&rig);
    return share;
}

START_TEST(an_empty_newcomer_does_not_get_everything)
{
    int share = share_of_newcomer(MC_ALLOCATION_RANDOM);
    ck_assert_int_gt(share, 150);
    ck_assert_int_lt(share, 350); /* a quarter */
    share = share_of_newcomer(MC_ALLOCATION_FREE_RATIO_FIRST);
    ck_assert_int_gt(share, 300);
    ck_assert_int_lt(share, 550); /* 7 / 16 */
}
END_TEST

START_TEST(free_ratio_first_fills_the_emptier_ones)
{
    open_rig(MC_ALLOCATION_FREE_RATIO_FIRST);
    struct lender a = lend("h", "a", 1 * MIB);
    struct lender b = lend("h", "b", 1 * MIB);
    struct lender c = lend("h", "c", 1 * MIB);
    const struct mc_replicate_config config = {.preferred_segment = "a"};
    rig.config = &config;
    (void)count_on(a.client, 0, 512, 1024);
    rig.config = NULL;
    int on_a = count_on(a.client, a.segment, 600, 1024);
    int on_b = count_on(b.client, b.segment, 300, 1024);
    ck_assert_int_lt(on_a, 150);
    ck_assert_int_gt(on_b, 60);
    (void)c;
    rig_close(&rig);
}
END_TEST

/* ---- closed ones --------------------------------------------------------------- */

START_TEST(a_closed_or_shut_segment_gets_nothing_and_no_put_fails)
{
    for (unsigned strategy = 0; strategy < 3; strategy++) {
        open_rig((enum mc_allocation_strategy)strategy);
        struct lender a = lend("h", "a", 1 * MIB);
        struct lender b = lend("h", "b", 1 * MIB);
        struct lender c = lend("h", "c", 1 * MIB);
        mci_master_segment_admit(rig.master, b.segment, false);
        mci_master_segment_close(rig.master, c.segment);
        static const char *const names[] = {"c", "b"};
        const struct mc_replicate_config config = {.preferred_segments = names,
                                                   .preferred_segment_count = 2,
                                                   .prefer_alloc_in_same_node =
                                                       true};
        rig.config = &config;
        ck_assert_int_eq(count_on(b.client, a.segment, 100, 64), 100);
        rig.config = NULL;
        ck_assert_int_eq(count_on(b.client, a.segment, 100, 64), 100);
        mci_master_segment_admit(rig.master, b.segment, true);
        mci_master_segment_admit(rig.master, c.segment, true); /* too late */
        ck_assert_int_gt(count_on(b.client, b.segment, 100, 64), 0);
        ck_assert_int_eq(count_on(b.client, c.segment, 100, 64), 0);
        rig_close(&rig);
    }
}
END_TEST

START_TEST(strategies_that_are_none_are_refused)
{
    struct mci_log_opts log_opts = {.epoch = 1};
    struct mci_event_log *log = NULL;
    struct mci_master *master = NULL;
    ck_assert_int_eq(mci_event_log_create(&log_opts, &log), MC_OK);
    const struct mci_master_opts opts = {
        .log = log,
        .store = {.allocation_strategy = (enum mc_allocation_strategy)3}};
    ck_assert_int_eq(mci_master_create(&opts, &master), MC_ERR_INVALID_PARAMS);
    mci_event_log_destroy(log);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store.place");
    TCase *tcase = tcase_create("place");
    tcase_add_test(tcase, a_preferred_name_gets_all_while_it_has_room);
    tcase_add_test(tcase, preferred_names_are_tried_in_their_order);
    tcase_add_test(tcase, segments_of_one_name_share);
    tcase_add_test(tcase, the_same_node_is_its_own_memory_then_its_host);
    tcase_add_test(tcase, preferred_names_go_before_the_same_node);
    tcase_add_test(tcase, local_first_is_for_single_copies);
    tcase_add_test(tcase, an_empty_newcomer_does_not_get_everything);
    tcase_add_test(tcase, free_ratio_first_fills_the_emptier_ones);
    tcase_add_test(tcase,
                   a_closed_or_shut_segment_gets_nothing_and_no_put_fails);
    tcase_add_test(tcase, strategies_that_are_none_are_refused);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
