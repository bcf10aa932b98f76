/* SPDX-License-Identifier: Apache-2.0 */
/* Random changes on small indexes under all kinds of bounds, with and without
 * allocations that fail: after every few the index is counted through, and what
 * it lets go is never what somebody holds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "draw.h"
#include "index_check.h"
#include "mci_alloc.h"
#include "suite.h"

#define SEEDS (getenv("MC_SOAK") ? 5000 : 400)
#define CHANGES 1200
#define CHAIN_MAX 40

struct world {
    uint64_t random;
    struct mc_index *index;
    struct mc_index_reader *reader;
    bool has_parts;
    uint64_t range; /* hashes are below */
    uint64_t sessions;
    /* what the engine w9 holds, which nobody takes away */
    bool is_kept[512];
};

static struct mc_view text(const char *s)
{
    return mc_view_str(s);
}

static void open_world(struct world *world, uint64_t seed)
{
    struct mc_index_opts opts = {0};
    memset(world, 0, sizeof *world);
    world->random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    world->has_parts = draw(&world->random, 2);
    world->range = 8 + draw(&world->random, 300);
    world->sessions = 2 + draw(&world->random, 60);
    opts.max_nodes =
        draw(&world->random, 2) ? 4 + draw(&world->random, world->range) : 0;
    opts.max_sessions =
        draw(&world->random, 2) ? 1 + draw(&world->random, 12) : 0;
    opts.max_heads =
        draw(&world->random, 2) ? 1 + (uint32_t)draw(&world->random, 4) : 0;
    opts.max_marks = draw(&world->random, 2) ? 1 + draw(&world->random, 60) : 0;
    opts.max_owners =
        draw(&world->random, 3) ? 0 : 3 + (uint32_t)draw(&world->random, 4);
    ck_assert_int_eq(
        mc_key_layout_parse(text(world->has_parts ? "vllm:tp=2" : "u64"),
                            text(""), &opts.layout),
        MC_OK);
    ck_assert_int_eq(mc_index_create(&opts, &world->index), MC_OK);
    ck_assert_int_eq(mc_index_reader_create(world->index, &world->reader),
                     MC_OK);
}

static void close_world(struct world *world)
{
    mc_index_reader_destroy(world->reader);
    mc_index_destroy(world->index);
}

struct step {
    char key[128];
    char session[16];
    char worker[8];
    char backend[8];
    const char *medium;
    const char *tenant;
    uint64_t chain[CHAIN_MAX];
    size_t len;
    uint64_t parent;
    bool has_parent;
    enum mc_tier tier;
    struct mc_index_engine engine;
};

static void draw_step(struct world *world, struct step *step)
{
    uint64_t hash = draw(&world->random, world->range);
    step->session[0] = '\0';
    if (draw(&world->random, 10)) {
        (void)snprintf(step->session, sizeof step->session, "s%u",
                       (unsigned)draw(&world->random, world->sessions));
    }
    (void)snprintf(step->worker, sizeof step->worker, "w%u",
                   (unsigned)draw(&world->random, 3));
    (void)snprintf(step->backend, sizeof step->backend, "n%u",
                   (unsigned)draw(&world->random, 3));
    if (world->has_parts) {
        (void)snprintf(step->key, sizeof step->key, "@tp_rank:%u@%048u%016llx",
                       (unsigned)draw(&world->random, 2),
                       draw(&world->random, 20) ? 7u : 8u,
                       (unsigned long long)hash);
    } else {
        (void)snprintf(step->key, sizeof step->key,
                       draw(&world->random, 20) ? "%llu" : "0%llu",
                       (unsigned long long)hash);
    }
    step->medium = draw(&world->random, 3) ? "cpu" : "disk";
    step->tenant = draw(&world->random, 5) ? "default" : "t2";
    step->len = 1 + draw(&world->random, 12);
    step->chain[0] = hash;
    bool is_line = draw(&world->random, 20) == 0;
    step->len = is_line ? CHAIN_MAX : step->len;
    for (size_t i = 1; i < step->len; i++) {
        uint64_t above = step->chain[i - 1];
        step->chain[i] =
            is_line ? (above + 1) % world->range
            : draw(&world->random, 30)
                ? (above * 2 + 1 + draw(&world->random, 2)) % world->range
                : draw(&world->random, world->range);
    }
    step->has_parent = draw(&world->random, 2);
    step->parent = draw(&world->random, world->range);
    step->tier = draw(&world->random, 2) ? MC_TIER_HOST : MC_TIER_DEVICE;
    step->engine =
        (struct mc_index_engine){text(step->tenant), text(step->worker),
                                 (uint32_t)draw(&world->random, 2)};
}

/* The engine that keeps what it holds: a block that the index took for it must
 * stay. */
static void keep_block(struct world *world)
{
    const struct mc_index_engine engine = {text("default"), text("w9"), 0};
    uint64_t hash = draw(&world->random, world->range);
    if (mc_index_engine_stored(world->index, &engine, MC_TIER_DEVICE, &hash,
                               &hash, 1, text("")) ==
        MC_INDEX_CYCLIC_PARENT) { /* refused as a chain, but held */
        world->is_kept[hash] = true;
    }
}

static void check_kept(struct world *world)
{
    for (uint64_t hash = 0; hash < world->range; hash++) {
        struct mc_index_worker workers[16];
        struct mc_index_match match = {.workers = workers,
                                       .worker_capacity = 16};
        bool is_held = false;
        if (!world->is_kept[hash]) {
            continue;
        }
        mc_index_match(world->reader, text("default"), &hash, 1, &match);
        for (size_t i = 0; i < match.worker_count; i++) {
            is_held |= mc_view_equal(workers[i].owner, text("w9/0"));
        }
        ck_assert_msg(is_held, "block %u was let go", (unsigned)hash);
    }
}

static void change_blocks(struct world *world, const struct step *step,
                          uint64_t roll)
{
    struct mc_index *index = world->index;
    const uint64_t *parent = step->has_parent ? &step->parent : NULL;
    if (roll < 4) {
        (void)mc_index_stored(index, text(step->tenant), text(step->backend),
                              text(step->key), text(step->medium),
                              text(step->session));
    } else if (roll < 6) {
        (void)mc_index_removed(index, text(step->tenant), text(step->backend),
                               text(step->key), text(step->medium));
    } else if (roll < 10) {
        (void)mc_index_engine_stored(index, &step->engine, step->tier, parent,
                                     step->chain, step->len,
                                     text(step->session));
    } else if (roll < 11) {
        (void)mc_index_engine_held(index, &step->engine, step->tier,
                                   step->chain, step->len % 4,
                                   text(step->session));
    } else if (roll < 12) {
        mc_index_engine_removed(index, &step->engine, step->tier, step->chain,
                                step->len);
    } else {
        (void)mc_index_observe(index, text(step->tenant), text(step->session),
                               step->chain, step->len);
    }
}

static void change_owners(struct world *world, const struct step *step,
                          uint64_t roll)
{
    struct mc_index *index = world->index;
    uint64_t heads[8];
    switch (roll) {
    case 0:
        mc_index_cleared(index, text(step->tenant), text(step->backend));
        break;
    case 1:
        mc_index_source_lost(index, text(step->backend));
        break;
    case 2:
        mc_index_worker_lost(index, text(step->worker));
        break;
    case 3:
        mc_index_engine_cleared(index, &step->engine);
        break;
    case 4:
        (void)mc_index_maintain(index, 100);
        break;
    case 5:
    case 6:
        mc_index_session_end(index, text(step->tenant), text(step->session));
        break;
    default:
        (void)mc_index_heads(world->reader, text(step->tenant),
                             text(step->session), heads, 8);
    }
}

static void run_world(uint64_t seed, bool is_failing)
{
    struct world world;
    struct mci_alloc_stats before;
    struct mci_alloc_stats after;
    mci_alloc_stats(&before);
    open_world(&world, seed);
    for (int i = 0; i < CHANGES; i++) {
        struct step step;
        draw_step(&world, &step);
        uint64_t roll = draw(&world.random, 15);
        uint64_t other = draw(&world.random, 12);
        if (is_failing) {
            (void)mci_alloc_fail_at(1 + draw(&world.random, 6));
        }
        if (roll < 13) {
            change_blocks(&world, &step, roll);
        } else if (roll < 14) {
            change_owners(&world, &step, other);
        } else {
            keep_block(&world);
        }
        (void)mci_alloc_fail_at(0);
        if (i % 16 == 0) {
            index_check(world.index);
        }
    }
    check_kept(&world);
    while (mc_index_maintain(world.index, 1000)) {
    }
    index_check(world.index);
    check_kept(&world);
    close_world(&world);
    mci_alloc_stats(&after);
    ck_assert_int_eq(after.blocks, before.blocks);
}

START_TEST(bounds_let_go_of_lineage_never_of_what_is_held)
{
    for (int seed = 1; seed <= SEEDS; seed++) {
        run_world((uint64_t)seed, false);
    }
}
END_TEST

START_TEST(so_do_allocations_that_fail)
{
    for (int seed = 1; seed <= SEEDS; seed++) {
        run_world((uint64_t)seed + 100000, true);
    }
}
END_TEST

/* ---- each allocation of each change ------------------------------------ */

static bool is_full(struct mc_index *index, int what, uint64_t from)
{
    const struct mc_index_engine engine = {text("default"), text("w0"), 0};
    uint64_t chain[30];
    char key[24];
    for (uint64_t i = 0; i < 30; i++) {
        chain[i] = from + i;
    }
    (void)snprintf(key, sizeof key, "%llu", (unsigned long long)from);
    enum mc_index_result result;
    switch (what) {
    case 0:
        result = mc_index_stored(index, text("t"), text("n1"), text(key),
                                 text("cpu"), text("a"));
        break;
    case 1:
        result = mc_index_engine_stored(index, &engine, MC_TIER_DEVICE, NULL,
                                        chain, 30, text("b"));
        break;
    default:
        result = mc_index_observe(index, text("t"), text("c"), chain, 30);
    }
    ck_assert(result == MC_INDEX_FULL || result == MC_INDEX_APPLIED);
    return result == MC_INDEX_FULL;
}

/* From an empty index on, each change is tried with its first, second, third
 * ... allocation failing: it says that it is full, and tried again it works and
 * leaves what it leaves without failures. */
START_TEST(a_change_that_failed_for_memory_works_when_there_is_some)
{
    struct mc_index_opts opts = {0};
    ck_assert_int_eq(mc_key_layout_parse(text("u64"), text(""), &opts.layout),
                     MC_OK);
    for (int what = 0; what < 3; what++) {
        struct mc_index *index = NULL;
        ck_assert_int_eq(mc_index_create(&opts, &index), MC_OK);
        uint64_t refusals = 0;
        for (uint64_t from = 1000; from < 60000; from += 1000) {
            bool has_failed = true;
            for (uint64_t k = 1; has_failed; k++) {
                (void)mci_alloc_fail_at(k);
                bool full = is_full(index, what, from);
                has_failed = mci_alloc_fail_at(0) == 0;
                refusals += full;
                ck_assert(has_failed || !full);
                index_check(index);
            }
        }
        ck_assert_uint_gt(refusals, 0);
        struct mc_index_stats stats;
        mc_index_stats(index, &stats);
        ck_assert_uint_eq(stats.nodes, what ? 59 * 30 : 59);
        ck_assert_uint_eq(stats.sessions, 1);
        mc_index_destroy(index);
    }
}
END_TEST

START_TEST(creating_fails_clean_at_each_allocation)
{
    struct mc_index_opts opts = {0};
    ck_assert_int_eq(mc_key_layout_parse(text("u64"), text(""), &opts.layout),
                     MC_OK);
    bool has_failed = true;
    for (uint64_t k = 1; has_failed; k++) {
        struct mci_alloc_stats before;
        struct mci_alloc_stats after;
        struct mc_index *index = NULL;
        struct mc_index_reader *reader = NULL;
        mci_alloc_stats(&before);
        (void)mci_alloc_fail_at(k);
        enum mc_err err = mc_index_create(&opts, &index);
        if (err == MC_OK) {
            err = mc_index_reader_create(index, &reader);
        }
        has_failed = mci_alloc_fail_at(0) == 0;
        ck_assert_int_eq(err, has_failed ? MC_ERR_NOMEM : MC_OK);
        mc_index_reader_destroy(reader);
        mc_index_destroy(index);
        mci_alloc_stats(&after);
        ck_assert_int_eq(after.blocks, before.blocks);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("index_random");
    TCase *random = tcase_create("random");
    tcase_set_timeout(random, 0);
    tcase_add_test(random, bounds_let_go_of_lineage_never_of_what_is_held);
    tcase_add_test(random, so_do_allocations_that_fail);
    suite_add_tcase(suite, random);
    TCase *memory = tcase_create("memory");
    tcase_set_timeout(memory, 0);
    tcase_add_test(memory,
                   a_change_that_failed_for_memory_works_when_there_is_some);
    tcase_add_test(memory, creating_fails_clean_at_each_allocation);
    suite_add_tcase(suite, memory);
    return suite_run(suite);
}
