/* SPDX-License-Identifier: Apache-2.0 */
#include "mci_poller.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "alloc_fail.h"
#include "await.h"
#include "mci_clock.h"
#include "suite.h"

static struct mci_poller *poller;

static void open_poller(void)
{
    const struct mci_poller_opts opts = {.name = "test"};
    ck_assert_int_eq(mci_poller_create(&opts, &poller), MC_OK);
}

/* Runs fn on the poller's thread and waits for it. */
struct errand {
    struct mci_task task;
    void (*fn)(void *ctx);
    void *ctx;
    atomic_bool is_done;
};

static void run_errand(struct mci_task *task)
{
    struct errand *errand = (struct errand *)task;
    errand->fn(errand->ctx);
    atomic_store(&errand->is_done, true);
}

static void on_poller(void (*fn)(void *ctx), void *ctx)
{
    struct errand errand = {.task = {.run = run_errand}, .fn = fn, .ctx = ctx};
    mci_poller_post(poller, &errand.task);
    ck_assert(AWAIT(atomic_load(&errand.is_done)));
}

static void nothing(void *ctx)
{
    (void)ctx;
}

/* An eventfd that is watched. */
struct bell {
    struct mci_watch watch;
    atomic_uint rings;
    uint32_t events;
    struct bell *takes_out; /* removed when this one rings */
    bool is_freed;
    bool keeps_ringing;
};

static void ring(struct bell *bell)
{
    const uint64_t one = 1;
    ck_assert_int_eq(write(bell->watch.fd, &one, sizeof one), sizeof one);
}

static void bell_ready(struct mci_watch *watch, uint32_t events)
{
    struct bell *bell = (struct bell *)watch;
    uint64_t count;
    bell->events = events;
    if (!bell->keeps_ringing) {
        ck_assert_int_eq(read(watch->fd, &count, sizeof count), sizeof count);
    }
    if (bell->takes_out && !bell->takes_out->is_freed) {
        struct bell *other = bell->takes_out;
        mci_poller_remove(poller, &other->watch);
        (void)close(other->watch.fd);
        other->is_freed = true;
    }
    atomic_fetch_add(&bell->rings, 1);
}

static void bell_open(struct bell *bell)
{
    *bell = (struct bell){.watch = {.ready = bell_ready}};
    bell->watch.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    ck_assert_int_ge(bell->watch.fd, 0);
}

static void add_bell(void *ctx)
{
    struct bell *bell = ctx;
    ck_assert_int_eq(mci_poller_add(poller, &bell->watch, EPOLLIN), MC_OK);
}

static void remove_bell(void *ctx)
{
    struct bell *bell = ctx;
    mci_poller_remove(poller, &bell->watch);
}

START_TEST(what_is_watched_is_told_until_it_is_removed)
{
    struct bell bell;
    open_poller();
    bell_open(&bell);
    on_poller(add_bell, &bell);
    ring(&bell);
    ck_assert(AWAIT(atomic_load(&bell.rings) == 1));
    ring(&bell);
    ck_assert(AWAIT(atomic_load(&bell.rings) == 2));
    ck_assert_uint_eq(bell.events, EPOLLIN);
    on_poller(remove_bell, &bell);
    ring(&bell);
    on_poller(remove_bell, &bell); /* a turn passes; twice does no harm */
    ck_assert_uint_eq(atomic_load(&bell.rings), 2);
    mci_poller_destroy(poller);
    (void)close(bell.watch.fd);
}
END_TEST

START_TEST(what_was_not_taken_is_told_again)
{
    struct bell bell;
    open_poller();
    bell_open(&bell);
    bell.keeps_ringing = true;
    ring(&bell);
    on_poller(add_bell, &bell);
    ck_assert(AWAIT(atomic_load(&bell.rings) >= 3));
    mci_poller_destroy(poller);
    (void)close(bell.watch.fd);
}
END_TEST

static void ring_both(void *ctx)
{
    struct bell *bells = ctx;
    ring(&bells[0]);
    ring(&bells[1]);
}

/* Both ring before one turn; whichever comes first removes, closes and frees
 * the other. */
START_TEST(what_is_removed_is_not_told_in_the_same_turn)
{
    open_poller();
    for (int i = 0; i < 50; i++) {
        struct bell *bells = calloc(2, sizeof *bells);
        ck_assert_ptr_nonnull(bells);
        bell_open(&bells[0]);
        bell_open(&bells[1]);
        bells[0].takes_out = &bells[1];
        bells[1].takes_out = &bells[0];
        on_poller(add_bell, &bells[0]);
        on_poller(add_bell, &bells[1]);
        on_poller(ring_both, bells);
        ck_assert(AWAIT(
            atomic_load(&bells[0].rings) + atomic_load(&bells[1].rings) > 0));
        int alive = bells[0].is_freed ? 1 : 0;
        on_poller(remove_bell, &bells[alive]);
        ck_assert_uint_eq(
            atomic_load(&bells[0].rings) + atomic_load(&bells[1].rings), 1);
        (void)close(bells[alive].watch.fd);
        free(bells);
    }
    mci_poller_destroy(poller);
}
END_TEST

static void remove_self(struct mci_watch *watch, uint32_t events)
{
    struct bell *bell = (struct bell *)watch;
    (void)events;
    mci_poller_remove(poller, watch);
    atomic_fetch_add(&bell->rings, 1);
}

START_TEST(a_watch_may_end_itself)
{
    struct bell bell;
    open_poller();
    bell_open(&bell);
    bell.watch.ready = remove_self;
    on_poller(add_bell, &bell);
    ring(&bell);
    ck_assert(AWAIT(atomic_load(&bell.rings) == 1));
    on_poller(nothing, NULL); /* it is still full, and not told */
    ck_assert_uint_eq(atomic_load(&bell.rings), 1);
    mci_poller_destroy(poller);
    (void)close(bell.watch.fd);
}
END_TEST

static void mute(void *ctx)
{
    struct bell *bell = ctx;
    mci_poller_change(poller, &bell->watch, 0);
}

static void unmute(void *ctx)
{
    struct bell *bell = ctx;
    mci_poller_change(poller, &bell->watch, EPOLLIN);
}

START_TEST(what_is_not_asked_for_is_not_told)
{
    struct bell bell;
    open_poller();
    bell_open(&bell);
    on_poller(add_bell, &bell);
    on_poller(mute, &bell);
    ring(&bell);
    on_poller(mute, &bell);
    ck_assert_uint_eq(atomic_load(&bell.rings), 0);
    on_poller(unmute, &bell);
    ck_assert(AWAIT(atomic_load(&bell.rings) == 1));
    mci_poller_destroy(poller);
    (void)close(bell.watch.fd);
}
END_TEST

static void add_closed(void *ctx)
{
    struct mci_watch watch = {.fd = -1};
    (void)ctx;
    ck_assert_int_eq(mci_poller_add(poller, &watch, EPOLLIN),
                     MC_ERR_INTERNAL_ERROR);
}

START_TEST(a_bad_descriptor_is_refused)
{
    open_poller();
    on_poller(add_closed, NULL);
    mci_poller_destroy(poller);
}
END_TEST

/* ---- posts ------------------------------------------------------------------ */

#define POSTERS 8
#define POSTS 2000

struct letter {
    struct mci_task task;
    int poster;
    int number;
};

static struct {
    int next[POSTERS]; /* of the poller's thread */
    int out_of_order;
    int elsewhere;
    atomic_int count;
} post_office;

static void take_letter(struct mci_task *task)
{
    struct letter *letter = (struct letter *)task;
    if (post_office.next[letter->poster]++ != letter->number) {
        post_office.out_of_order++;
    }
    if (!mci_poller_is_current(poller)) {
        post_office.elsewhere++;
    }
    atomic_fetch_add(&post_office.count, 1);
    free(letter);
}

static void *post_many(void *ctx)
{
    int poster = *(const int *)ctx;
    for (int i = 0; i < POSTS; i++) {
        struct letter *letter = calloc(1, sizeof *letter);
        ck_assert_ptr_nonnull(letter);
        letter->task.run = take_letter;
        letter->poster = poster;
        letter->number = i;
        mci_poller_post(poller, &letter->task);
    }
    return NULL;
}

static void post_from_all(void)
{
    pthread_t threads[POSTERS];
    int numbers[POSTERS];
    memset(&post_office, 0, sizeof post_office);
    for (int i = 0; i < POSTERS; i++) {
        numbers[i] = i;
        ck_assert_int_eq(
            pthread_create(&threads[i], NULL, post_many, &numbers[i]), 0);
    }
    for (int i = 0; i < POSTERS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
}

static void expect_all_letters(void)
{
    ck_assert_int_eq(atomic_load(&post_office.count), POSTERS * POSTS);
    ck_assert_int_eq(post_office.out_of_order, 0);
    ck_assert_int_eq(post_office.elsewhere, 0);
}

START_TEST(posts_of_eight_threads_are_run_once_and_in_order)
{
    open_poller();
    ck_assert(!mci_poller_is_current(poller));
    post_from_all();
    ck_assert(AWAIT(atomic_load(&post_office.count) == POSTERS * POSTS));
    mci_poller_destroy(poller);
    expect_all_letters();
}
END_TEST

static atomic_bool is_held;

static void hold(struct mci_task *task)
{
    (void)task;
    (void)AWAIT(!atomic_load(&is_held));
}

static void *let_go(void *ctx)
{
    (void)ctx;
    await_turn();
    atomic_store(&is_held, false);
    return NULL;
}

START_TEST(destroy_runs_first_what_is_pending)
{
    struct mci_task holder = {.run = hold};
    pthread_t thread;
    open_poller();
    atomic_store(&is_held, true);
    mci_poller_post(poller, &holder);
    post_from_all();
    ck_assert_int_eq(pthread_create(&thread, NULL, let_go, NULL), 0);
    mci_poller_destroy(poller);
    (void)pthread_join(thread, NULL);
    expect_all_letters();
}
END_TEST

static struct mci_task second;
static atomic_int seconds;

static void run_second(struct mci_task *task)
{
    (void)task;
    atomic_fetch_add(&seconds, 1);
}

static void post_second(struct mci_task *task)
{
    (void)task;
    second.run = run_second;
    mci_poller_post(poller, &second);
}

START_TEST(a_task_may_post_and_the_end_waits_for_that)
{
    struct mci_task first = {.run = post_second};
    atomic_store(&seconds, 0);
    open_poller();
    mci_poller_post(poller, &first);
    ck_assert(AWAIT(atomic_load(&seconds) == 1));
    mci_poller_post(poller, &first);
    mci_poller_destroy(poller);
    ck_assert_int_eq(atomic_load(&seconds), 2);
}
END_TEST

/* ---- turns ------------------------------------------------------------------- */

static struct {
    atomic_uint turns;
    _Atomic uint64_t again_ns; /* what the next turn answers, once */
    _Atomic uint64_t last_ns;
} wheel;

static uint64_t turn(void *ctx, uint64_t now_ns)
{
    (void)ctx;
    atomic_store(&wheel.last_ns, now_ns);
    atomic_fetch_add(&wheel.turns, 1);
    return atomic_exchange(&wheel.again_ns, UINT64_MAX);
}

START_TEST(a_turn_comes_when_it_wants_to)
{
    const struct mci_poller_opts opts = {.turn = turn};
    atomic_store(&wheel.again_ns, UINT64_MAX);
    ck_assert_int_eq(mci_poller_create(&opts, &poller), MC_OK);
    ck_assert(AWAIT(atomic_load(&wheel.turns) >= 1));
    unsigned before = atomic_load(&wheel.turns);
    uint64_t wanted_ns = mci_clock_ns() + 20 * MCI_NS_PER_MS;
    atomic_store(&wheel.again_ns, wanted_ns);
    on_poller(nothing, NULL);
    ck_assert(AWAIT(atomic_load(&wheel.turns) >= before + 2));
    ck_assert(AWAIT(atomic_load(&wheel.last_ns) >= wanted_ns));
    mci_poller_destroy(poller);
}
END_TEST

START_TEST(a_turn_in_the_past_comes_at_once)
{
    const struct mci_poller_opts opts = {.turn = turn};
    atomic_store(&wheel.again_ns, 1);
    ck_assert_int_eq(mci_poller_create(&opts, &poller), MC_OK);
    ck_assert(AWAIT(atomic_load(&wheel.turns) >= 2));
    mci_poller_destroy(poller);
}
END_TEST

START_TEST(running_allocates_nothing)
{
    struct bell bell;
    struct mci_alloc_stats before;
    struct mci_alloc_stats after;
    open_poller();
    bell_open(&bell);
    on_poller(add_bell, &bell);
    mci_alloc_stats(&before);
    for (unsigned i = 1; i <= 100; i++) {
        ring(&bell);
        ck_assert(AWAIT(atomic_load(&bell.rings) == i));
        on_poller(nothing, NULL);
    }
    mci_alloc_stats(&after);
    ck_assert_uint_eq(after.calls, before.calls);
    mci_poller_destroy(poller);
    (void)close(bell.watch.fd);
}
END_TEST

START_TEST(creating_without_memory_fails_cleanly)
{
    struct alloc_fail fail;
    mci_poller_destroy(NULL);
    ALLOC_FAIL_EACH(fail)
    {
        const struct mci_poller_opts opts = {.name = "test"};
        poller = NULL;
        alloc_fail_arm(&fail);
        enum mc_err err = mci_poller_create(&opts, &poller);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        mci_poller_destroy(poller);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("poller");
    TCase *watches = tcase_create("watches");
    tcase_set_timeout(watches, 60);
    tcase_add_test(watches, what_is_watched_is_told_until_it_is_removed);
    tcase_add_test(watches, what_was_not_taken_is_told_again);
    tcase_add_test(watches, what_is_removed_is_not_told_in_the_same_turn);
    tcase_add_test(watches, a_watch_may_end_itself);
    tcase_add_test(watches, what_is_not_asked_for_is_not_told);
    tcase_add_test(watches, a_bad_descriptor_is_refused);
    suite_add_tcase(suite, watches);
    TCase *posts = tcase_create("posts");
    tcase_set_timeout(posts, 60);
    tcase_add_test(posts, posts_of_eight_threads_are_run_once_and_in_order);
    tcase_add_test(posts, destroy_runs_first_what_is_pending);
    tcase_add_test(posts, a_task_may_post_and_the_end_waits_for_that);
    suite_add_tcase(suite, posts);
    TCase *turns = tcase_create("turns");
    tcase_set_timeout(turns, 60);
    tcase_add_test(turns, a_turn_comes_when_it_wants_to);
    tcase_add_test(turns, a_turn_in_the_past_comes_at_once);
    tcase_add_test(turns, running_allocates_nothing);
    tcase_add_test(turns, creating_without_memory_fails_cleanly);
    suite_add_tcase(suite, turns);
    return suite_run(suite);
}
