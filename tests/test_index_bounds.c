/* SPDX-License-Identifier: Apache-2.0 */
/* Each bound, with its counter: what goes first, and what never goes. */
#include <string.h>

#include "index_check.h"
#include "index_rig.h"
#include "suite.h"

START_TEST(at_the_bound_on_nodes_held_blocks_stay_and_new_ones_are_refused)
{
    struct mc_index_opts bounds = {.max_nodes = 10};
    struct mc_index *index = rig_index("u64", &bounds);
    struct mc_index_reader *reader = rig_reader(index);
    for (uint64_t block = 0; block < 10; block++) {
        ck_assert_int_eq(rig_store(index, "n1", block, ""), MC_INDEX_APPLIED);
    }
    ck_assert_int_eq(rig_store(index, "n1", 10, ""), MC_INDEX_FULL);
    ck_assert_int_eq(rig_store(index, "n1", 3, ""), MC_INDEX_APPLIED);
    ck_assert_uint_eq(rig_stats(index).refused_nodes, 1);
    ck_assert_uint_eq(rig_stats(index).refused_changes, 1);
    ck_assert_uint_eq(rig_stats(index).freed_nodes, 0);
    for (uint64_t block = 0; block < 10; block++) {
        ck_assert_uint_eq(rig_stored(reader, &block, 1), 1);
    }
    /* One that nobody holds any more makes room. */
    ck_assert_int_eq(rig_remove(index, "n1", 4), MC_INDEX_APPLIED);
    ck_assert_int_eq(rig_store(index, "n1", 10, ""), MC_INDEX_APPLIED);
    ck_assert_uint_eq(rig_stats(index).freed_nodes, 1);
    ck_assert_uint_eq(rig_stats(index).nodes, 10);
    index_check(index);
    mc_index_reader_destroy(reader);
    mc_index_destroy(index);
}
END_TEST

START_TEST(the_block_that_is_idle_for_longest_goes_first)
{
    struct mc_index_opts bounds = {.max_nodes = 4};
    struct mc_index *index = rig_index("u64", &bounds);
    struct mc_index_reader *reader = rig_reader(index);
    for (uint64_t block = 0; block < 4; block++) {
        (void)rig_store(index, "n1", block, "");
    }
    static const uint64_t order[] = {2, 0, 3, 1};
    for (size_t i = 0; i < 4; i++) {
        (void)rig_remove(index, "n1", order[i]);
    }
    /* 2 comes back and goes again: it is the newest then. */
    (void)rig_store(index, "n1", 2, "");
    (void)rig_remove(index, "n1", 2);
    static const uint64_t gone[] = {0, 3, 1, 2};
    for (uint64_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(
            mc_index_chain(reader, rig_text("default"), gone[i], NULL, 0, NULL),
            1);
        ck_assert_int_eq(rig_store(index, "n1", 100 + i, ""), MC_INDEX_APPLIED);
        ck_assert_uint_eq(
            mc_index_chain(reader, rig_text("default"), gone[i], NULL, 0, NULL),
            0);
    }
    mc_index_reader_destroy(reader);
    mc_index_destroy(index);
}
END_TEST

START_TEST(a_chain_is_freed_from_its_end)
{
    struct mc_index_opts bounds = {.max_nodes = 6};
    struct mc_index *index = rig_index("u64", &bounds);
    struct mc_index_reader *reader = rig_reader(index);
    static const uint64_t chain[] = {1, 2, 3, 4, 5, 6};
    ck_assert_int_eq(rig_observe(index, "a", chain, 6), MC_INDEX_APPLIED);
    mc_index_session_end(index, rig_text("default"), rig_text("a"));
    for (uint64_t i = 0; i < 5; i++) {
        ck_assert_int_eq(rig_store(index, "n1", 100 + i, ""), MC_INDEX_APPLIED);
        ck_assert_uint_eq(
            mc_index_chain(reader, rig_text("default"), 5 - i, NULL, 0, NULL),
            5 - i);
        ck_assert_uint_eq(
            mc_index_chain(reader, rig_text("default"), 6 - i, NULL, 0, NULL),
            0);
        index_check(index);
    }
    mc_index_reader_destroy(reader);
    mc_index_destroy(index);
}
END_TEST

START_TEST(lineage_of_untouched_sessions_goes_before_a_block_is_refused)
{
    struct mc_index_opts bounds = {.max_nodes = 6};
    struct mc_index *index = rig_index("u64", &bounds);
    struct mc_index_reader *reader = rig_reader(index);
    uint64_t heads[2];
    static const uint64_t a[] = {1, 2, 3};
    static const uint64_t b[] = {11, 12, 13};
    ck_assert_int_eq(rig_observe(index, "a", a, 3), MC_INDEX_APPLIED);
    ck_assert_int_eq(rig_observe(index, "b", b, 3), MC_INDEX_APPLIED);
    ck_assert_uint_eq(rig_heads(reader, "a", heads, 2), 1); /* touches a */
    ck_assert_int_eq(rig_store(index, "n1", 100, "c"), MC_INDEX_APPLIED);
    ck_assert_uint_eq(rig_heads(reader, "a", heads, 2), 1);
    ck_assert_uint_eq(rig_heads(reader, "b", heads, 2), 0);
    ck_assert_uint_eq(rig_heads(reader, "c", heads, 2), 1);
    ck_assert_uint_eq(rig_stats(index).dropped_sessions, 1);
    index_check(index);
    mc_index_reader_destroy(reader);
    mc_index_destroy(index);
}
END_TEST

START_TEST(the_session_touched_least_recently_goes)
{
    struct mc_index_opts bounds = {.max_sessions = 3};
    struct mc_index *index = rig_index("u64", &bounds);
    struct mc_index_reader *reader = rig_reader(index);
    uint64_t heads[2];
    uint64_t blocks;
    struct mc_index_place places[2];
    (void)rig_store(index, "n1", 1, "a");
    (void)rig_store(index, "n1", 2, "b");
    (void)rig_store(index, "n1", 3, "c");
    (void)rig_store(index, "n1", 1, "a"); /* advanced, if nowhere */
    ck_assert_uint_eq(rig_heads(reader, "b", heads, 2), 1); /* asked about */
    (void)rig_store(index, "n1", 4, "d");
    ck_assert_uint_eq(rig_heads(reader, "c", heads, 2), 0);
    (void)mc_index_resident(reader, rig_text("default"), rig_text("a"), places,
                            2, &blocks);
    (void)rig_store(index, "n1", 5, "e");
    ck_assert_uint_eq(rig_heads(reader, "b", heads, 2), 0);
    ck_assert_uint_eq(rig_heads(reader, "a", heads, 2), 1);
    ck_assert_uint_eq(rig_heads(reader, "d", heads, 2), 1);
    ck_assert_uint_eq(rig_stats(index).sessions, 3);
    ck_assert_uint_eq(rig_stats(index).dropped_sessions, 2);
    ck_assert_uint_eq(rig_stats(index).nodes, 5); /* all held */
    mc_index_reader_destroy(reader);
    mc_index_destroy(index);
}
END_TEST

START_TEST(the_oldest_head_goes_at_the_bound_on_heads)
{
    struct mc_index_opts bounds = {.max_heads = 3};
    struct mc_index *index = rig_index("u64", &bounds);
    struct mc_index_reader *reader = rig_reader(index);
    uint64_t heads[8];
    for (uint64_t block = 0; block < 5; block++) {
        ck_assert_int_eq(rig_store(index, "n1", block, "a"), MC_INDEX_APPLIED);
        index_check(index);
    }
    ck_assert_uint_eq(rig_heads(reader, "a", heads, 8), 3);
    ck_assert_uint_eq(heads[0], 2);
    ck_assert_uint_eq(heads[2], 4);
    ck_assert_uint_eq(rig_stats(index).dropped_heads, 2);
    ck_assert_uint_eq(rig_stats(index).marks, 3);
    /* A head that moves on is no new one. */
    static const uint64_t chain[] = {3, 30, 31};
    ck_assert_int_eq(rig_observe(index, "a", chain, 3), MC_INDEX_APPLIED);
    ck_assert_uint_eq(rig_stats(index).dropped_heads, 2);
    ck_assert_uint_eq(rig_heads(reader, "a", heads, 8), 3);
    ck_assert_uint_eq(heads[2], 31);
    mc_index_reader_destroy(reader);
    mc_index_destroy(index);
}
END_TEST

START_TEST(a_head_that_goes_takes_back_its_marks_alone)
{
    struct mc_index_opts bounds = {.max_heads = 2};
    struct mc_index *index = rig_index("u64", &bounds);
    struct mc_index_reader *reader = rig_reader(index);
    static const uint64_t a[] = {1, 2, 3, 4};
    static const uint64_t b[] = {1, 2, 13, 14};
    static const uint64_t c[] = {1, 22, 23};
    (void)rig_observe(index, "s", a, 4);
    (void)rig_observe(index, "s", b, 4);
    (void)rig_observe(index, "s", c, 3); /* a's head goes */
    index_check(index);
    static const uint64_t in[] = {1, 2, 13, 14, 22, 23};
    static const uint64_t out[] = {3, 4};
    for (size_t i = 0; i < 6; i++) {
        ck_assert_uint_eq(
            mc_index_sessions_of(reader, rig_text("default"), in[i], NULL, 0),
            1);
    }
    for (size_t i = 0; i < 2; i++) {
        ck_assert_uint_eq(
            mc_index_sessions_of(reader, rig_text("default"), out[i], NULL, 0),
            0);
    }
    mc_index_reader_destroy(reader);
    mc_index_destroy(index);
}
END_TEST

START_TEST(marks_have_a_bound_too)
{
    struct mc_index_opts bounds = {.max_marks = 4};
    struct mc_index *index = rig_index("u64", &bounds);
    struct mc_index_reader *reader = rig_reader(index);
    uint64_t heads[8];
    for (uint64_t block = 0; block < 4; block++) {
        char session[8];
        (void)snprintf(session, sizeof session, "s%u", (unsigned)block);
        (void)rig_store(index, "n1", block, session);
    }
    ck_assert_int_eq(rig_store(index, "n1", 9, "new"), MC_INDEX_APPLIED);
    ck_assert_uint_eq(rig_heads(reader, "s0", heads, 8), 0);
    ck_assert_uint_eq(rig_heads(reader, "new", heads, 8), 1);
    /* A session that alone asks for more than there are gets no more. */
    enum mc_index_result result = MC_INDEX_APPLIED;
    for (uint64_t block = 20; block < 26; block++) {
        result = rig_store(index, "n1", block, "new");
    }
    ck_assert_int_eq(result, MC_INDEX_FULL);
    ck_assert_uint_eq(rig_heads(reader, "new", heads, 8), 4);
    ck_assert_uint_gt(rig_stats(index).dropped_marks, 0);
    ck_assert_uint_eq(rig_stats(index).marks, 4);
    index_check(index);
    mc_index_reader_destroy(reader);
    mc_index_destroy(index);
}
END_TEST

START_TEST(bytes_stay_below_their_bound)
{
    struct mc_index_opts bounds = {.max_bytes = UINT64_C(3) << 20};
    struct mc_index *index = rig_index("u64", &bounds);
    struct mc_index_reader *reader = rig_reader(index);
    uint64_t held = 0;
    while (rig_store(index, "n1", held, "") == MC_INDEX_APPLIED) {
        held++;
        ck_assert_uint_lt(held, 200000);
    }
    ck_assert_uint_gt(held, 10000);
    ck_assert_uint_le(rig_stats(index).bytes, bounds.max_bytes);
    ck_assert_uint_eq(rig_stats(index).refused_nodes, 1);
    for (uint64_t block = 0; block < held; block++) {
        ck_assert_uint_eq(rig_stored(reader, &block, 1), 1);
    }
    /* What is removed makes room for as many. */
    for (uint64_t block = 0; block < 1000; block++) {
        (void)rig_remove(index, "n1", block);
    }
    for (uint64_t block = 0; block < 1000; block++) {
        ck_assert_int_eq(rig_store(index, "n1", 1000000 + block, ""),
                         MC_INDEX_APPLIED);
    }
    ck_assert_uint_le(rig_stats(index).bytes, bounds.max_bytes);
    index_check(index);
    mc_index_reader_destroy(reader);
    mc_index_destroy(index);
}
END_TEST

START_TEST(an_owner_is_refused_at_the_bound_until_another_holds_nothing)
{
    struct mc_index_opts bounds = {.max_owners = 2, .max_tenants = 1};
    struct mc_index *index = rig_index("u64", &bounds);
    ck_assert_int_eq(rig_store(index, "n1", 1, ""), MC_INDEX_APPLIED);
    ck_assert_int_eq(rig_store(index, "n2", 1, ""), MC_INDEX_APPLIED);
    ck_assert_int_eq(rig_store(index, "n3", 1, ""), MC_INDEX_FULL);
    ck_assert_uint_eq(rig_stats(index).refused_places, 1);
    mc_index_source_lost(index, rig_text("n1"));
    while (mc_index_maintain(index, 100)) {
    }
    ck_assert_int_eq(rig_store(index, "n3", 1, ""), MC_INDEX_APPLIED);
    ck_assert_int_eq(mc_index_observe(index, rig_text("other"), rig_text("s"),
                                      &(uint64_t){1}, 1),
                     MC_INDEX_FULL);
    index_check(index);
    mc_index_destroy(index);
}
END_TEST

/* ---- slots ------------------------------------------------------------- */

START_TEST(a_cleared_owner_is_empty_at_once_however_much_it_held)
{
    struct mc_index_opts bounds = {0};
    struct mc_index *index = rig_index("u64", &bounds);
    struct mc_index_reader *reader = rig_reader(index);
    const uint64_t count = 20000;
    for (uint64_t block = 0; block < count; block++) {
        (void)rig_store(index, "n1", block, "");
        if (block % 2) {
            (void)rig_store(index, "n2", block, "");
        }
    }
    mc_index_cleared(index, rig_text("default"), rig_text("n1"));
    for (uint64_t block = 0; block < count; block += 97) {
        ck_assert_uint_eq(rig_stored(reader, &block, 1), block % 2);
    }
    ck_assert_uint_eq(rig_stats(index).resident, count / 2);
    /* It holds again what it stores now, and nothing of before. */
    (void)rig_store(index, "n1", 0, "");
    uint64_t some[2] = {0, 2};
    ck_assert_uint_eq(rig_stored(reader, some, 2), 1);
    index_check(index);
    ck_assert(mc_index_maintain(index, 10)); /* not swept yet */
    while (mc_index_maintain(index, 1000)) {
    }
    index_check(index);
    ck_assert_uint_eq(rig_stats(index).resident, count / 2 + 1);
    struct mc_index_tenant tenant;
    ck_assert_uint_eq(mc_index_tenants(reader, &tenant, 1), 1);
    ck_assert_uint_eq(tenant.resident, count / 2 + 1);
    mc_index_reader_destroy(reader);
    mc_index_destroy(index);
}
END_TEST

START_TEST(slots_of_cleared_owners_are_used_again)
{
    struct mc_index_opts bounds = {0};
    struct mc_index *index = rig_index("u64", &bounds);
    struct mc_index_reader *reader = rig_reader(index);
    for (int round = 0; round < 3000; round++) {
        char backend[16];
        (void)snprintf(backend, sizeof backend, "n%d", round % 500);
        uint64_t block = (uint64_t)round % 50;
        ck_assert_int_eq(rig_store(index, backend, block, ""),
                         MC_INDEX_APPLIED);
        ck_assert_uint_eq(rig_stored(reader, &block, 1), 1);
        mc_index_source_lost(index, rig_text(backend));
        ck_assert_uint_eq(rig_stored(reader, &block, 1), 0);
    }
    while (mc_index_maintain(index, 1000)) {
    }
    index_check(index);
    ck_assert_uint_eq(rig_stats(index).resident, 0);
    ck_assert_uint_eq(index_check_idle(index), 50);
    mc_index_reader_destroy(reader);
    mc_index_destroy(index);
}
END_TEST

START_TEST(many_workers_hold_one_chain)
{
    struct mc_index_opts bounds = {0};
    struct mc_index *index = rig_index("u64", &bounds);
    struct mc_index_reader *reader = rig_reader(index);
    static const uint64_t chain[] = {1, 2, 3};
    static struct mc_index_place places[1024];
    static struct mc_index_worker workers[256];
    for (int w = 0; w < 256; w++) {
        char name[8];
        (void)snprintf(name, sizeof name, "w%d", w);
        const struct mc_index_engine engine = {rig_text("default"),
                                               rig_text(name), 0};
        for (int tier = 0; tier < MC_TIER_COUNT; tier++) {
            ck_assert_int_eq(
                mc_index_engine_stored(index, &engine, (enum mc_tier)tier, NULL,
                                       chain, 1 + (size_t)w % 3, rig_text("")),
                MC_INDEX_APPLIED);
        }
    }
    struct mc_index_match match = {.places = places,
                                   .place_capacity = 1024,
                                   .workers = workers,
                                   .worker_capacity = 256};
    mc_index_match(reader, rig_text("default"), chain, 3, &match);
    ck_assert_uint_eq(match.place_count, 1024);
    ck_assert_uint_eq(match.worker_count, 256);
    for (size_t i = 0; i < 1024; i++) {
        int w;
        ck_assert_int_eq(sscanf(places[i].owner.data, "w%d/", &w), 1);
        ck_assert_uint_eq(places[i].blocks, 1 + (uint64_t)w % 3);
        ck_assert_int_eq(places[i].tier, (int)(i % MC_TIER_COUNT));
    }
    mc_index_worker_lost(index, rig_text("w7"));
    mc_index_match(reader, rig_text("default"), chain, 3, &match);
    ck_assert_uint_eq(match.worker_count, 255);
    index_check(index);
    mc_index_reader_destroy(reader);
    mc_index_destroy(index);
}
END_TEST

/* ---- names ------------------------------------------------------------- */

START_TEST(an_owner_that_was_empty_when_lost_is_let_go)
{
    struct mc_index_opts bounds = {.max_owners = 8};
    struct mc_index *index = rig_index("u64", &bounds);
    const uint64_t block = 7;
    for (unsigned i = 0; i < 100; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "w%u", i);
        const struct mc_index_engine engine = {rig_text("default"),
                                               rig_text(name), 0};
        ck_assert_int_eq(mc_index_engine_stored(index, &engine, MC_TIER_DEVICE,
                                                NULL, &block, 1, rig_text("")),
                         MC_INDEX_APPLIED);
        mc_index_engine_removed(index, &engine, MC_TIER_DEVICE, &block, 1);
        mc_index_worker_lost(index, rig_text(name));
        while (mc_index_maintain(index, 1000)) {
        }
    }
    for (unsigned i = 0; i < 100; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "n%u", i);
        ck_assert_int_eq(rig_store(index, name, block, ""), MC_INDEX_APPLIED);
        ck_assert_int_eq(rig_remove(index, name, block), MC_INDEX_APPLIED);
        mc_index_source_lost(index, rig_text(name));
        while (mc_index_maintain(index, 1000)) {
        }
    }
    index_check(index);
    mc_index_destroy(index);
}
END_TEST

static enum mc_index_result store_part(struct mc_index *index,
                                       const char *backend, uint64_t block,
                                       int rank)
{
    char key[128];
    (void)snprintf(key, sizeof key, "@tp_rank:%d@%048d%016llx", rank, 0,
                   (unsigned long long)block);
    return mc_index_stored(index, rig_text("default"), rig_text(backend),
                           rig_text(key), rig_text("cpu"), rig_text(""));
}

/* The page of a store that is lost stands behind another's when the sweep comes
 * by, and moves into its place as that one is finished. */
START_TEST(parts_of_a_lost_store_are_not_inherited)
{
    enum { OTHERS = 4000 };
    const uint64_t block = 0xabc;
    for (uint32_t steps = OTHERS; steps < 2 * OTHERS; steps += 250) {
        struct mc_index_opts bounds = {.max_nodes = 1 << 16};
        struct mc_index *index = rig_index("vllm:tp=3", &bounds);
        struct mc_index_reader *reader = rig_reader(index);
        struct mc_index_place places[4];
        struct mc_index_match match = {.places = places, .place_capacity = 4};
        (void)store_part(index, "a", block, 0);
        (void)store_part(index, "a", block, 1);
        for (uint64_t i = 0; i < OTHERS; i++) {
            (void)store_part(index, "a", 100000 + i, 0);
        }
        (void)store_part(index, "b", block, 0);
        (void)store_part(index, "b", block, 1);
        mc_index_source_lost(index, rig_text("b"));
        (void)mc_index_maintain(index, steps);
        (void)store_part(index, "a", block, 2);
        while (mc_index_maintain(index, 100000)) {
        }
        ck_assert_int_eq(store_part(index, "c", block, 2), MC_INDEX_APPLIED);
        mc_index_match(reader, rig_text("default"), &block, 1, &match);
        ck_assert_uint_eq(match.place_count, 1);
        ck_assert(mc_view_equal(places[0].owner, rig_text("store:a")));
        mc_index_reader_destroy(reader);
        mc_index_destroy(index);
    }
}
END_TEST

START_TEST(names_that_do_not_fit_are_refused_and_change_nothing)
{
    struct mc_index_opts bounds = {0};
    struct mc_index *index = rig_index("u64", &bounds);
    static const char *const workers[] = {"a:b", "a/b", ":", "store:n1"};
    const uint64_t hash = 1;
    char longer[258];
    memset(longer, 'x', 257);
    longer[257] = '\0';
    for (size_t i = 0; i < 4; i++) {
        const struct mc_index_engine engine = {rig_text("default"),
                                               rig_text(workers[i]), 0};
        ck_assert_int_eq(mc_index_engine_stored(index, &engine, MC_TIER_HOST,
                                                NULL, &hash, 1, rig_text("")),
                         MC_INDEX_INVALID);
    }
    ck_assert_int_eq(rig_store(index, "n1", 1, longer), MC_INDEX_INVALID);
    ck_assert_int_eq(rig_store(index, longer, 1, ""), MC_INDEX_INVALID);
    ck_assert_int_eq(rig_observe(index, longer, &hash, 1), MC_INDEX_INVALID);
    ck_assert_uint_eq(rig_stats(index).nodes, 0);
    ck_assert_uint_eq(rig_stats(index).invalid, 7);
    longer[256] = '\0';
    ck_assert_int_eq(rig_store(index, "n1", 1, longer), MC_INDEX_APPLIED);
    mc_index_destroy(index);
}
END_TEST

START_TEST(bounds_that_make_no_sense_are_refused)
{
    struct mc_index_opts opts = {0};
    struct mc_index *index = NULL;
    ck_assert_int_eq(mc_index_create(&opts, &index), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_index_create(NULL, &index), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(
        mc_key_layout_parse(rig_text("u64"), rig_text(""), &opts.layout),
        MC_OK);
    opts.max_nodes = UINT64_MAX;
    ck_assert_int_eq(mc_index_create(&opts, &index), MC_ERR_INVALID_PARAMS);
    opts.max_nodes = 0;
    opts.max_bytes = 1000;
    ck_assert_int_eq(mc_index_create(&opts, &index), MC_ERR_NOMEM);
    ck_assert_ptr_null(index);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("index_bounds");
    TCase *nodes = tcase_create("nodes");
    tcase_set_timeout(nodes, 0);
    tcase_add_test(
        nodes, at_the_bound_on_nodes_held_blocks_stay_and_new_ones_are_refused);
    tcase_add_test(nodes, the_block_that_is_idle_for_longest_goes_first);
    tcase_add_test(nodes, a_chain_is_freed_from_its_end);
    tcase_add_test(
        nodes, lineage_of_untouched_sessions_goes_before_a_block_is_refused);
    tcase_add_test(nodes, bytes_stay_below_their_bound);
    suite_add_tcase(suite, nodes);
    TCase *sessions = tcase_create("sessions");
    tcase_add_test(sessions, the_session_touched_least_recently_goes);
    tcase_add_test(sessions, the_oldest_head_goes_at_the_bound_on_heads);
    tcase_add_test(sessions, a_head_that_goes_takes_back_its_marks_alone);
    tcase_add_test(sessions, marks_have_a_bound_too);
    suite_add_tcase(suite, sessions);
    TCase *owners = tcase_create("owners");
    tcase_set_timeout(owners, 0);
    tcase_add_test(
        owners, an_owner_is_refused_at_the_bound_until_another_holds_nothing);
    tcase_add_test(owners,
                   a_cleared_owner_is_empty_at_once_however_much_it_held);
    tcase_add_test(owners, slots_of_cleared_owners_are_used_again);
    tcase_add_test(owners, an_owner_that_was_empty_when_lost_is_let_go);
    tcase_add_test(owners, parts_of_a_lost_store_are_not_inherited);
    tcase_add_test(owners, many_workers_hold_one_chain);
    suite_add_tcase(suite, owners);
    TCase *names = tcase_create("names");
    tcase_add_test(names, names_that_do_not_fit_are_refused_and_change_nothing);
    tcase_add_test(names, bounds_that_make_no_sense_are_refused);
    suite_add_tcase(suite, names);
    return suite_run(suite);
}
