/* SPDX-License-Identifier: Apache-2.0 */
/* Readers beside the writer: what is there all the time is answered all the
 * time, whatever else changes, and nobody waits for anybody. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "await.h"
#include "index.h"
#include "index_check.h"
#include "index_play.h"
#include "index_rig.h"
#include "index_walk.h"
#include "suite.h"

#define STOPS (getenv("MC_SOAK") ? 20000 : 150)
#define ROUNDS (getenv("MC_SOAK") ? 2000000 : 30000)

static struct mc_view text(const char *s)
{
    return mc_view_str(s);
}

/* ---- all questions beside a random stream ------------------------------ */

static void run_play(const struct mc_index_opts *bounds)
{
    struct play play;
    uint64_t random = 88172645463325252u;
    play_begin(&play, bounds);
    for (int i = 0; i < ROUNDS; i++) {
        play_change(play.index, &random);
        if (i % 8 == 0) { /* with ten asked about, never the oldest of 20 */
            play_touch(&play);
        }
    }
    ck_assert(AWAIT(play_turns(&play) > 30));
    play_end(&play);
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

struct watch {
    struct mc_index *index;
    atomic_bool is_over;
    _Atomic uint64_t turns;
};

static void *watch_page(void *ctx)
{
    struct watch *watch = ctx;
    struct mc_index_reader *reader = NULL;
    must(mc_index_reader_create(watch->index, &reader) == MC_OK);
    uint64_t hash = 0;
    while (!atomic_load(&watch->is_over)) {
        struct mc_index_match match = {0};
        mc_index_match(reader, text("default"), &hash, 1, &match);
        must(match.store == 1);
        must(match.place_count == 1);
        atomic_fetch_add(&watch->turns, 1);
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
    struct watch watch = {.index = rig_index("sglang:mha:tp=1", &bounds)};
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(mc_index_stored(watch.index, text("default"),
                                         text("n1"), text(keys[i]), text("cpu"),
                                         text("a")),
                         MC_INDEX_APPLIED);
    }
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, watch_page, &watch), 0);
    for (int i = 0; i < ROUNDS; i++) {
        char session[8];
        (void)snprintf(session, sizeof session, "s%d", i % 7);
        ck_assert_int_eq(mc_index_replaced(watch.index, text("default"),
                                           text("n1"), text(keys[i % 2]),
                                           text("cpu"), text(session)),
                         MC_INDEX_APPLIED);
    }
    ck_assert(AWAIT(atomic_load(&watch.turns) > 100));
    atomic_store(&watch.is_over, true);
    (void)pthread_join(thread, NULL);
    mc_index_destroy(watch.index);
}
END_TEST

/* ---- a writer that is stopped in the middle of something ----------------- */

static atomic_bool is_stopped;
static atomic_bool may_go_on;
static atomic_bool is_changing; /* the writer is inside of a change */

static void on_stop(int number)
{
    (void)number;
    atomic_store(&is_stopped, true);
    while (!atomic_load(&may_go_on)) {
        (void)poll(NULL, 0, 1);
    }
    atomic_store(&may_go_on, false);
}

static void *write_loop(void *ctx)
{
    struct play *play = ctx;
    uint64_t random = 88172645463325252u;
    for (uint64_t i = 0; !atomic_load(&play->is_over); i++) {
        atomic_store(&is_changing, true);
        play_change(play->index, &random);
        if (i % 8 == 0) {
            play_touch(play);
        }
        atomic_store(&is_changing, false);
    }
    return NULL;
}

/* A signal stops it wherever it is; nobody who asks has to wait for it. */
START_TEST(readers_go_on_while_the_writer_stands_still)
{
    struct mc_index_opts bounds = {.max_nodes = 300, .max_sessions = 20};
    struct sigaction action = {.sa_handler = on_stop};
    struct play play;
    pthread_t writer;
    int inside = 0;
    (void)sigaction(SIGUSR1, &action, NULL);
    play_begin(&play, &bounds);
    ck_assert_int_eq(pthread_create(&writer, NULL, write_loop, &play), 0);
    for (int i = 0; i < STOPS; i++) {
        atomic_store(&is_stopped, false);
        ck_assert_int_eq(pthread_kill(writer, SIGUSR1), 0);
        ck_assert(AWAIT(atomic_load(&is_stopped)));
        inside += atomic_load(&is_changing);
        uint64_t turns = play_turns(&play);
        ck_assert(AWAIT(play_turns(&play) >= turns + 3));
        atomic_store(&may_go_on, true);
        ck_assert(AWAIT(!atomic_load(&may_go_on)));
    }
    ck_assert_int_gt(inside, STOPS / 4);
    atomic_store(&play.is_over, true);
    (void)pthread_join(writer, NULL);
    play_end(&play);
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
    struct mc_index *index = rig_index("u64", &bounds);
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
    struct mc_index *index = rig_index("u64", &bounds);
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
    tcase_add_test(threads, readers_go_on_while_the_writer_stands_still);
    suite_add_tcase(suite, threads);
    TCase *epochs = tcase_create("epochs");
    tcase_add_test(epochs,
                   a_reader_that_never_leaves_costs_new_blocks_not_memory);
    tcase_add_test(epochs, readers_are_as_many_as_the_bound_says);
    suite_add_tcase(suite, epochs);
    return suite_run(suite);
}
