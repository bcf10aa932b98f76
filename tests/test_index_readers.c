/* SPDX-License-Identifier: Apache-2.0 */
/* Readers beside the writer: what is there all the time is answered all the
 * time, whatever else changes, and nobody waits for anybody. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "await.h"
#include "index.h"
#include "index_check.h"
#include "index_walk.h"
#include "suite.h"

#define READERS 3
#define DEPTH 9 /* of the tree: block n hangs below (n - 1) / 2 */
#define BLOCKS ((1u << (DEPTH + 1)) - 1)
#define STEADY 700u /* the block that is there all the time */
#define ROUNDS (getenv("MC_SOAK") ? 2000000 : 30000)

/* Check's own assertions are for one thread. */
#define must(holds) must_at((holds), #holds, __LINE__)
static void must_at(bool holds, const char *what, int line)
{
    if (!holds) {
        (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, line, what);
        abort();
    }
}

static struct mc_view text(const char *s)
{
    return mc_view_str(s);
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* The chain of a block, root first. */
static size_t chain_of(uint64_t block, uint64_t *out)
{
    size_t len = 1;
    for (uint64_t b = block; b; b = (b - 1) / 2) {
        len++;
    }
    size_t at = len;
    for (uint64_t b = block;; b = (b - 1) / 2) {
        out[--at] = b;
        if (!b) {
            return len;
        }
    }
}

static struct mc_index *make_index(const char *layout,
                                   const struct mc_index_opts *bounds)
{
    struct mc_index_opts opts = *bounds;
    struct mc_index *index = NULL;
    ck_assert_int_eq(mc_key_layout_parse(text(layout), text(""), &opts.layout),
                     MC_OK);
    ck_assert_int_eq(mc_index_create(&opts, &index), MC_OK);
    return index;
}

/* ---- all questions beside a random stream ------------------------------ */

struct play {
    struct mc_index *index;
    atomic_bool is_over;
    _Atomic uint64_t turns;
};

static void store_block(struct mc_index *index, const char *backend,
                        uint64_t block, const char *session)
{
    char key[24];
    (void)snprintf(key, sizeof key, "%llu", (unsigned long long)block);
    (void)mc_index_stored(index, text("default"), text(backend), text(key),
                          text("cpu"), text(session));
}

static void remove_block(struct mc_index *index, const char *backend,
                         uint64_t block)
{
    char key[24];
    (void)snprintf(key, sizeof key, "%llu", (unsigned long long)block);
    (void)mc_index_removed(index, text("default"), text(backend), text(key),
                           text("cpu"));
}

/* One change of the stream; it never touches what the store "steady" holds nor
 * the session "steady". */
static void change(struct mc_index *index, uint64_t *random)
{
    uint64_t block = next_random(random) % BLOCKS;
    uint64_t chain[DEPTH + 2];
    size_t len = chain_of(block, chain);
    size_t from = next_random(random) % len;
    char session[16];
    char worker[16];
    (void)snprintf(session, sizeof session, "s%u",
                   (unsigned)(next_random(random) % 40));
    (void)snprintf(worker, sizeof worker, "w%u",
                   (unsigned)(next_random(random) % 8));
    const struct mc_index_engine engine = {text("default"), text(worker), 0};
    switch (next_random(random) % 16) {
    case 0:
    case 1:
    case 2:
        store_block(index, "other", block, session);
        break;
    case 3:
        remove_block(index, "other", block);
        break;
    case 4:
        mc_index_engine_cleared(index, &engine);
        break;
    case 5:
        mc_index_session_end(index, text("default"), text(session));
        break;
    case 6:
        mc_index_source_lost(index, text("other"));
        break;
    case 7:
        mc_index_engine_removed(index, &engine, MC_TIER_HOST, chain, len);
        break;
    case 8:
        (void)mc_index_observe(index, text("default"), text(session), chain,
                               len);
        break;
    case 9:
        store_block(index, "steady", STEADY, "");
        break;
    default:
        (void)mc_index_engine_stored(index, &engine, MC_TIER_HOST,
                                     from ? &chain[from - 1] : NULL,
                                     chain + from, len - from, text(session));
    }
}

static void ask_steady(struct mc_index_reader *reader)
{
    uint64_t chain[DEPTH + 2];
    uint64_t got[DEPTH + 2];
    size_t len = chain_of(STEADY, chain);
    struct mc_index_place places[64];
    struct mc_index_worker workers[16];
    struct mc_index_match match = {.places = places,
                                   .place_capacity = 64,
                                   .workers = workers,
                                   .worker_capacity = 16};
    mc_index_match(reader, text("default"), chain, len, &match);
    must(match.store == len);
    bool is_found = false;
    for (size_t i = 0; i < match.place_count; i++) {
        if (mc_view_equal(places[i].owner, text("store:steady"))) {
            must(places[i].blocks == len);
            is_found = true;
        }
    }
    must(is_found);
    for (size_t i = 0; i < match.worker_count; i++) {
        must(workers[i].own >= 1);
        must(workers[i].with_store == len);
    }
    bool is_rooted = false;
    must((mc_index_chain(reader, text("default"), STEADY, got, DEPTH + 2,
                         &is_rooted)) == (len));
    must(is_rooted);
    must(memcmp(got, chain, len * sizeof *chain) == 0);
    must((mc_index_heads(reader, text("default"), text("steady"), got,
                         DEPTH + 2)) == (1));
    must(got[0] == STEADY);
}

static void ask_sessions(struct mc_index_reader *reader, uint64_t *random)
{
    uint64_t chain[DEPTH + 2];
    size_t len = chain_of(STEADY, chain);
    struct mc_view names[64];
    size_t count = mc_index_sessions_of(
        reader, text("default"), chain[next_random(random) % len], names, 64);
    bool is_found = false;
    for (size_t i = 0; i < count; i++) {
        is_found |= mc_view_equal(names[i], text("steady"));
    }
    must(is_found);
    struct mc_index_place places[64];
    uint64_t blocks = 0;
    count = mc_index_resident(reader, text("default"), text("steady"), places,
                              64, &blocks);
    must(blocks == len);
    is_found = false;
    for (size_t i = 0; i < count; i++) {
        if (mc_view_equal(places[i].owner, text("store:steady"))) {
            must(places[i].blocks == len);
            must(places[i].prefix == len);
            is_found = true;
        }
    }
    must(is_found);
}

static bool count_row(void *ctx, const struct mc_index_session *row)
{
    must(mc_view_equal(row->tenant, text("default")));
    must((row->session.len) >= (2));
    *(size_t *)ctx += mc_view_equal(row->session, text("steady"));
    return true;
}

/* Whatever is answered of the rest is a part of the tree. */
static void ask_any(struct mc_index_reader *reader, uint64_t *random)
{
    uint64_t got[DEPTH + 2];
    uint64_t block = next_random(random) % BLOCKS;
    size_t len =
        mc_index_chain(reader, text("default"), block, got, DEPTH + 2, NULL);
    must((len) <= (DEPTH + 1));
    for (size_t i = len; i-- > 0; block = (block - 1) / 2) {
        must(got[i] == block);
    }
    char session[16];
    (void)snprintf(session, sizeof session, "s%u",
                   (unsigned)(next_random(random) % 10)); /* asking touches */
    uint64_t heads[64];
    size_t count =
        mc_index_heads(reader, text("default"), text(session), heads, 64);
    for (size_t i = 0; i < count && i < 64; i++) {
        must(heads[i] < BLOCKS);
        must(i == 0 || heads[i - 1] < heads[i]);
    }
    struct mc_index_place places[64];
    uint64_t blocks = 0;
    count = mc_index_resident(reader, text("default"), text(session), places,
                              64, &blocks);
    for (size_t i = 0; i < count && i < 64; i++) {
        must((places[i].prefix) <= (DEPTH + 1));
        must(places[i].blocks <= blocks);
    }
    size_t steady = 0;
    must((mc_index_sessions(reader, text("default"), count_row, &steady)) ==
         (MC_OK));
    must(steady == 1);
    struct mc_index_tenant tenants[2];
    must((mc_index_tenants(reader, tenants, 2)) == (1));
}

static void *read_loop(void *ctx)
{
    struct play *play = ctx;
    struct mc_index_reader *reader = NULL;
    must((mc_index_reader_create(play->index, &reader)) == (MC_OK));
    uint64_t random = 88172645463325252u + (uintptr_t)&reader;
    while (!atomic_load(&play->is_over)) {
        ask_steady(reader);
        ask_sessions(reader, &random);
        ask_any(reader, &random);
        atomic_fetch_add(&play->turns, 1);
    }
    mc_index_reader_destroy(reader);
    return NULL;
}

static void run_play(const struct mc_index_opts *bounds)
{
    struct play play = {.index = make_index("u64", bounds)};
    uint64_t chain[DEPTH + 2];
    size_t len = chain_of(STEADY, chain);
    ck_assert_int_eq(mc_index_observe(play.index, text("default"),
                                      text("steady"), chain, len),
                     MC_INDEX_APPLIED);
    for (size_t i = 0; i < len; i++) {
        store_block(play.index, "steady", chain[i], "");
    }
    pthread_t threads[READERS];
    for (int i = 0; i < READERS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, read_loop, &play),
                         0);
    }
    uint64_t random = 88172645463325252u;
    for (int i = 0; i < ROUNDS; i++) {
        change(play.index, &random);
        if (i % 8 == 0) { /* with ten asked about, never the oldest of 20 */
            (void)mc_index_observe(play.index, text("default"), text("steady"),
                                   chain, len);
        }
    }
    ck_assert(AWAIT(atomic_load(&play.turns) > 100));
    atomic_store(&play.is_over, true);
    for (int i = 0; i < READERS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
    index_check(play.index);
    mc_index_destroy(play.index);
}

START_TEST(what_is_always_there_is_always_answered)
{
    struct mc_index_opts bounds = {0};
    run_play(&bounds);
}
END_TEST

START_TEST(so_it_is_while_blocks_and_sessions_are_let_go)
{
    struct mc_index_opts bounds = {
        .max_nodes = 300, .max_sessions = 20, .max_heads = 3, .max_owners = 6};
    run_play(&bounds);
}
END_TEST

/* ---- replacements ------------------------------------------------------ */

static void *watch_page(void *ctx)
{
    struct play *play = ctx;
    struct mc_index_reader *reader = NULL;
    must((mc_index_reader_create(play->index, &reader)) == (MC_OK));
    uint64_t hash = 0;
    while (!atomic_load(&play->is_over)) {
        struct mc_index_match match = {0};
        mc_index_match(reader, text("default"), &hash, 1, &match);
        must(match.store == 1);
        must(match.place_count == 1);
        atomic_fetch_add(&play->turns, 1);
    }
    mc_index_reader_destroy(reader);
    return NULL;
}

#define ZEROS "0000000000000000"
#define PAGE ZEROS ZEROS ZEROS ZEROS

START_TEST(a_replacement_is_never_seen_half_done)
{
    static const char *const keys[] = {PAGE "_0_k", PAGE "_0_v"};
    struct mc_index_opts bounds = {0};
    struct play play = {.index = make_index("sglang:mha:tp=1", &bounds)};
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(mc_index_stored(play.index, text("default"),
                                         text("n1"), text(keys[i]), text("cpu"),
                                         text("a")),
                         MC_INDEX_APPLIED);
    }
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, watch_page, &play), 0);
    for (int i = 0; i < ROUNDS; i++) {
        char session[8];
        (void)snprintf(session, sizeof session, "s%d", i % 7);
        ck_assert_int_eq(mc_index_replaced(play.index, text("default"),
                                           text("n1"), text(keys[i % 2]),
                                           text("cpu"), text(session)),
                         MC_INDEX_APPLIED);
    }
    ck_assert(AWAIT(atomic_load(&play.turns) > 100));
    atomic_store(&play.is_over, true);
    (void)pthread_join(thread, NULL);
    mc_index_destroy(play.index);
}
END_TEST

/* ---- a reader that stays inside ---------------------------------------- */

/* Session after session that comes and goes leaves something for readers to
 * leave; so does every array that grows. */
static uint64_t churn(struct mc_index *index, uint64_t from)
{
    for (uint64_t i = from; i < from + 4000; i++) {
        uint64_t chain[3] = {i * 4, i * 4 + 1, i * 4 + 2};
        char session[24];
        (void)snprintf(session, sizeof session, "s%llu", (unsigned long long)i);
        (void)mc_index_observe(index, text("default"), text(session), chain, 3);
        mc_index_session_end(index, text("default"), text(session));
    }
    struct mc_index_stats stats;
    mc_index_stats(index, &stats);
    return stats.bytes;
}

START_TEST(a_reader_that_never_leaves_costs_new_blocks_not_memory)
{
    struct mc_index_opts bounds = {.max_nodes = 2000,
                                   .max_bytes = UINT64_C(16) << 20};
    struct mc_index *index = make_index("u64", &bounds);
    struct mc_index_reader *reader = NULL;
    struct mc_index_stats stats;
    ck_assert_int_eq(mc_index_reader_create(index, &reader), MC_OK);
    (void)churn(index, 0);
    mc_index_stats(index, &stats);
    ck_assert_uint_eq(stats.refused_nodes, 0);
    ck_assert_uint_gt(stats.freed_nodes, 0);

    index_reader_begin(reader);
    (void)churn(index, 10000);
    mc_index_stats(index, &stats);
    ck_assert_uint_gt(stats.refused_nodes, 0);
    uint64_t bytes = stats.bytes;
    ck_assert_uint_eq(churn(index, 20000), bytes);
    index_check(index);

    index_reader_end(reader);
    mc_index_stats(index, &stats);
    uint64_t refused = stats.refused_nodes;
    (void)churn(index, 30000);
    mc_index_stats(index, &stats);
    ck_assert_uint_eq(stats.refused_nodes, refused);
    while (mc_index_maintain(index, 1000)) {
    }
    index_check(index);
    mc_index_reader_destroy(reader);
    mc_index_destroy(index);
}
END_TEST

START_TEST(readers_are_as_many_as_the_bound_says)
{
    struct mc_index_opts bounds = {.max_readers = 2};
    struct mc_index *index = make_index("u64", &bounds);
    struct mc_index_reader *readers[3] = {NULL, NULL, NULL};
    ck_assert_int_eq(mc_index_reader_create(index, &readers[0]), MC_OK);
    ck_assert_int_eq(mc_index_reader_create(index, &readers[1]), MC_OK);
    ck_assert_int_eq(mc_index_reader_create(index, &readers[2]),
                     MC_ERR_BUFFER_OVERFLOW);
    ck_assert_ptr_null(readers[2]);
    mc_index_reader_destroy(readers[0]);
    ck_assert_int_eq(mc_index_reader_create(index, &readers[2]), MC_OK);
    mc_index_reader_destroy(readers[1]);
    mc_index_reader_destroy(readers[2]);
    mc_index_reader_destroy(NULL);
    mc_index_destroy(index);
    mc_index_destroy(NULL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("index_readers");
    TCase *threads = tcase_create("threads");
    tcase_set_timeout(threads, 0);
    tcase_add_test(threads, what_is_always_there_is_always_answered);
    tcase_add_test(threads, so_it_is_while_blocks_and_sessions_are_let_go);
    tcase_add_test(threads, a_replacement_is_never_seen_half_done);
    suite_add_tcase(suite, threads);
    TCase *epochs = tcase_create("epochs");
    tcase_add_test(epochs,
                   a_reader_that_never_leaves_costs_new_blocks_not_memory);
    tcase_add_test(epochs, readers_are_as_many_as_the_bound_says);
    suite_add_tcase(suite, epochs);
    return suite_run(suite);
}
