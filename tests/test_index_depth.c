/* SPDX-License-Identifier: Apache-2.0 */
/* Chains a hundred thousand blocks long, in every order in which they can come
 * together: no recursion, no cost that grows with them, nothing forgotten. */
#include <stdlib.h>

#include "index.h"
#include "index_check.h"
#include "index_rig.h"
#include "suite.h"

#define DEEP 100000u

static uint64_t *chain_from(uint64_t first, size_t count)
{
    uint64_t *chain = malloc(count * sizeof *chain);
    ck_assert_ptr_nonnull(chain);
    for (size_t i = 0; i < count; i++) {
        chain[i] = first + i;
    }
    return chain;
}

static void check_chain(struct mc_index *index, const uint64_t *chain,
                        size_t count, const char *session)
{
    struct mc_index_reader *reader = rig_reader(index);
    uint64_t *got = malloc(count * sizeof *got);
    ck_assert_ptr_nonnull(got);
    ck_assert_uint_eq(mc_index_chain(reader, rig_text("default"),
                                     chain[count - 1], got, count, NULL),
                      count);
    ck_assert_mem_eq(got, chain, count * sizeof *got);
    ck_assert_uint_eq(mc_index_chain(reader, rig_text("default"),
                                     chain[count - 1], got, 3, NULL),
                      count);
    ck_assert_mem_eq(got, chain + count - 3, 3 * sizeof *got);
    ck_assert_uint_eq(rig_heads(reader, session, got, 1), 1);
    ck_assert_uint_eq(got[0], chain[count - 1]);
    ck_assert_uint_eq(
        mc_index_sessions_of(reader, rig_text("default"), chain[0], NULL, 0),
        1);
    uint64_t blocks = 0;
    struct mc_index_place place;
    (void)mc_index_resident(reader, rig_text("default"), rig_text(session),
                            &place, 1, &blocks);
    ck_assert_uint_eq(blocks, count);
    free(got);
    mc_index_reader_destroy(reader);
}

START_TEST(a_long_chain_comes_in_one_piece)
{
    struct mc_index_opts bounds = {0};
    struct mc_index *index = rig_index("u64", &bounds);
    uint64_t *chain = chain_from(0, DEEP);
    ck_assert_int_eq(rig_observe(index, "s", chain, DEEP), MC_INDEX_APPLIED);
    ck_assert_int_eq(rig_observe(index, "s", chain, DEEP), MC_INDEX_APPLIED);
    check_chain(index, chain, DEEP, "s");
    index_check(index);
    /* Its first block below its last is a circle. */
    const struct mc_index_engine engine = {rig_text("default"), rig_text("w"),
                                           0};
    ck_assert_int_eq(mc_index_engine_stored(index, &engine, MC_TIER_HOST,
                                            &chain[DEEP - 1], chain, 1,
                                            rig_text("")),
                     MC_INDEX_CYCLIC_PARENT);
    free(chain);
    mc_index_destroy(index);
}
END_TEST

static void grow(bool is_downwards, bool is_tagged)
{
    struct mc_index_opts bounds = {.max_heads = 4};
    struct mc_index *index = rig_index("u64", &bounds);
    uint64_t *chain = chain_from(1, DEEP);
    const struct mc_index_engine engine = {rig_text("default"), rig_text("w"),
                                           0};
    if (is_tagged) {
        (void)rig_store(index, "n1", chain[DEEP - 1], "s");
    }
    for (size_t n = 1; n < DEEP; n++) {
        size_t i = is_downwards ? n : DEEP - n;
        ck_assert_int_eq(mc_index_engine_stored(index, &engine, MC_TIER_HOST,
                                                &chain[i - 1], &chain[i], 1,
                                                rig_text("")),
                         MC_INDEX_APPLIED);
    }
    if (!is_tagged) {
        ck_assert_int_eq(rig_store(index, "n1", chain[DEEP - 1], "s"),
                         MC_INDEX_APPLIED);
    }
    check_chain(index, chain, DEEP, "s");
    index_check(index);
    /* A session on it costs a mark for each run, not for each block. */
    ck_assert_uint_lt(rig_stats(index).marks, DEEP / 30);
    free(chain);
    mc_index_destroy(index);
}

START_TEST(a_long_chain_grows_at_its_end)
{
    grow(true, false);
}
END_TEST

START_TEST(a_long_chain_grows_at_its_end_below_which_someone_waits)
{
    grow(true, true);
}
END_TEST

START_TEST(a_long_chain_grows_upwards)
{
    grow(false, false);
}
END_TEST

START_TEST(a_long_chain_grows_upwards_from_a_head)
{
    grow(false, true);
}
END_TEST

/* Two open halves of each pair are joined, then two pairs ... */
START_TEST(a_long_chain_comes_together_from_pieces)
{
    const size_t count = 1u << 16;
    struct mc_index_opts bounds = {.max_heads = 65536};
    struct mc_index *index = rig_index("u64", &bounds);
    uint64_t *chain = chain_from(1, count);
    const struct mc_index_engine engine = {rig_text("default"), rig_text("w"),
                                           0};
    for (size_t i = 0; i < count; i += 16) {
        (void)rig_store(index, "n1", chain[i], "s");
    }
    for (size_t size = 1; size < count; size *= 2) {
        for (size_t at = size; at < count; at += size * 2) {
            ck_assert_int_eq(mc_index_engine_stored(
                                 index, &engine, MC_TIER_HOST, &chain[at - 1],
                                 &chain[at], 1, rig_text("")),
                             MC_INDEX_APPLIED);
        }
    }
    (void)rig_store(index, "n1", chain[count - 1], "s");
    check_chain(index, chain, count, "s");
    index_check(index);
    free(chain);
    mc_index_destroy(index);
}
END_TEST

/* Many sessions end early in one chain, one goes on: who asks for a late block
 * must not pass over all the others. */
START_TEST(sessions_that_end_early_do_not_stand_in_the_way)
{
    struct mc_index_opts bounds = {0};
    struct mc_index *index = rig_index("u64", &bounds);
    struct mc_index_reader *reader = rig_reader(index);
    uint64_t *chain = chain_from(1, 200);
    ck_assert_int_eq(rig_observe(index, "long", chain, 200), MC_INDEX_APPLIED);
    for (unsigned i = 0; i < 5000; i++) {
        char session[16];
        (void)snprintf(session, sizeof session, "s%u", i);
        ck_assert_int_eq(rig_observe(index, session, chain, 1 + i % 150),
                         MC_INDEX_APPLIED);
    }
    index_check(index);
    for (size_t at = 0; at < 200; at++) {
        size_t wanted = 1;
        for (unsigned i = 0; i < 5000; i++) {
            wanted += i % 150 >= at;
        }
        ck_assert_uint_eq(mc_index_sessions_of(reader, rig_text("default"),
                                               chain[at], NULL, 0),
                          wanted);
        uint32_t node = index_node_find(index, index->last_tenant, chain[at]);
        struct index_mark_place place = index_mark_place_of(index, node);
        const struct index_run *run = run_at(index, place.run);
        ck_assert_uint_le(run->mark_count, 2 * wanted + INDEX_MID_MAX);
    }
    free(chain);
    mc_index_reader_destroy(reader);
    mc_index_destroy(index);
}
END_TEST

/* Each block of the chain has another child that came first, so that every
 * block starts a run. */
START_TEST(a_chain_beside_a_comb_is_no_different)
{
    const size_t count = 5000;
    struct mc_index_opts bounds = {0};
    struct mc_index *index = rig_index("u64", &bounds);
    uint64_t *chain = chain_from(1, count);
    for (size_t i = 0; i < count; i++) {
        uint64_t pair[2] = {chain[i], 1000000 + i};
        const struct mc_index_engine engine = {rig_text("default"),
                                               rig_text("w"), 0};
        ck_assert_int_eq(mc_index_engine_stored(index, &engine, MC_TIER_HOST,
                                                i ? &chain[i - 1] : NULL, pair,
                                                2, rig_text("")),
                         MC_INDEX_APPLIED);
    }
    ck_assert_int_eq(rig_observe(index, "s", chain, count), MC_INDEX_APPLIED);
    check_chain(index, chain, count, "s");
    index_check(index);
    free(chain);
    mc_index_destroy(index);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("index_depth");
    TCase *tcase = tcase_create("depth");
    tcase_set_timeout(tcase, 0);
    tcase_add_test(tcase, a_long_chain_comes_in_one_piece);
    tcase_add_test(tcase, a_long_chain_grows_at_its_end);
    tcase_add_test(tcase,
                   a_long_chain_grows_at_its_end_below_which_someone_waits);
    tcase_add_test(tcase, a_long_chain_grows_upwards);
    tcase_add_test(tcase, a_long_chain_grows_upwards_from_a_head);
    tcase_add_test(tcase, a_long_chain_comes_together_from_pieces);
    tcase_add_test(tcase, sessions_that_end_early_do_not_stand_in_the_way);
    tcase_add_test(tcase, a_chain_beside_a_comb_is_no_different);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
