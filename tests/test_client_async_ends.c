/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_async_ends.c - operations that are canceled, late or closed, at
 * every moment: each ends once, its memory is touched no more, and no object
 * comes of what did not say so. */
#include <pthread.h>
#include <stdatomic.h>

#include "async_rig.h"
#include "await.h"
#include "client_read.h"
#include "client_write.h"
#include "copy.h"
#include "crowd_rig.h"
#include "sanitized.h"
#include "suite.h"

#define LEN 600
#define LOG_EVENTS MCI_EVENT_LOG_CAPACITY_MIN

static struct client_rig rig;
static struct mc_async *async;

/* With room for what leases hold, so that nothing is evicted. */
static void open_rig(const struct mc_async_opts *opts)
{
    const struct mc_client_opts client_opts = {.segment_bytes = 16 * MIB};
    client_open(&rig, &client_opts);
    ck_assert_int_eq(mc_async_open(rig.client, opts, &async), MC_OK);
}

static void close_rig(void)
{
    mc_async_close(async);
    (void)client_events(&rig);
    client_close(&rig);
}

static struct mc_client_stats stats_now(void)
{
    struct mc_client_stats stats;
    mc_client_stat(rig.client, &stats);
    return stats;
}

static bool is_there(const struct async_job *job, size_t i)
{
    return client_has(&rig, job->names[i]);
}

static void remove_all(void)
{
    uint64_t removed = 0;
    ck_assert_int_eq(mc_client_remove_all(rig.client, true, &removed), MC_OK);
    (void)client_events(&rig);
}

/* ---- what has not begun ---------------------------------------------------------- */

static bool waits_for_room(void)
{
    struct mci_log_stats stats;
    mci_event_log_stats(rig.log, &stats);
    return stats.waits > 0;
}

/* The log is full, so a put waits with the only worker. */
static struct async_job *hold_the_worker(uint32_t timeout_ms)
{
    static const struct mc_async_opts one = {.workers = 1, .rows_per_call = 2};
    const struct mc_client_opts opts = {
        .segment_bytes = MIB,
        .events = {.overflow = MC_PUBLISHER_BLOCK,
                   .queue_capacity = LOG_EVENTS}};
    struct async_job *held = job_make("held", 1, LEN);
    client_open(&rig, &opts);
    ck_assert_int_eq(mc_async_open(rig.client, &one, &async), MC_OK);
    /* A put wants room for three events before it makes one. */
    for (int i = 0; i < LOG_EVENTS - 2; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "full/%d", i);
        ck_assert_int_eq(client_put(&rig, key, key, sizeof key), MC_OK);
    }
    job_fill(held, 5);
    job_submit(held, async, MC_ASYNC_PUT, timeout_ms);
    ck_assert(AWAIT(waits_for_room()));
    ck_assert_uint_eq(stats_now().attempts, 1);
    return held;
}

#define WAITING 4
static const enum mc_async_kind kinds[WAITING] = {
    MC_ASYNC_GET, MC_ASYNC_PUT, MC_ASYNC_UPSERT, MC_ASYNC_GET};

static void make_waiting(struct async_job *jobs[WAITING], uint32_t timeout_ms)
{
    static const char *const names[WAITING] = {"n", "b", "c", "d"};
    static const size_t counts[WAITING] = {8, 7, 3, 0};
    for (size_t i = 0; i < WAITING; i++) {
        jobs[i] = job_make(names[i], counts[i], LEN);
        job_shut(jobs[i]); /* nobody is to touch it, ever */
        job_submit(jobs[i], async, kinds[i], timeout_ms);
    }
}

static void free_waiting(struct async_job *jobs[WAITING])
{
    for (size_t i = 0; i < WAITING; i++) {
        job_free(jobs[i]);
    }
}

static void expect_not_begun(struct async_job *jobs[WAITING], int64_t result)
{
    for (size_t i = 0; i < WAITING; i++) {
        job_expect(jobs[i], result);
    }
    for (size_t i = 0; i < jobs[1]->count; i++) {
        ck_assert(!is_there(jobs[1], i));
    }
}

START_TEST(what_waits_can_be_canceled)
{
    struct async_job *jobs[WAITING];
    struct async_job *held = hold_the_worker(0);
    make_waiting(jobs, 0);
    for (size_t i = 0; i < WAITING; i++) {
        mc_async_cancel(jobs[i]->op);
        mc_async_cancel(jobs[i]->op);
        mc_async_wait(jobs[i]->op);
    }
    expect_not_begun(jobs, MC_ERR_CANCELED);
    (void)client_events(&rig);
    mc_async_wait(held->op);
    job_expect(held, 0);
    ck_assert(is_there(held, 0));
    close_rig();
    job_free(held);
    free_waiting(jobs);
}
END_TEST

START_TEST(what_waits_ends_at_its_deadline)
{
    struct async_job *jobs[WAITING];
    struct async_job *held = hold_the_worker(0);
    size_t left = WAITING;
    make_waiting(jobs, 30);
    while (left > 0) {
        void *ctxs[WAITING];
        size_t count = 0;
        ck_assert(AWAIT((count = mc_async_poll(async, ctxs, left)) > 0));
        for (size_t i = 0; i < count; i++) {
            ck_assert_ptr_ne(ctxs[i], held);
        }
        left -= count;
    }
    expect_not_begun(jobs, MC_ERR_RPC_TIMEOUT);
    (void)client_events(&rig);
    mc_async_wait(held->op);
    job_expect(held, 0);
    close_rig();
    job_free(held);
    free_waiting(jobs);
}
END_TEST

START_TEST(closing_ends_what_waits_and_what_runs)
{
    struct async_job *jobs[WAITING];
    struct async_job *held = hold_the_worker(300);
    make_waiting(jobs, 0);
    mc_async_close(async);
    job_shut(held);
    job_expect(held, MC_ERR_RPC_TIMEOUT);
    expect_not_begun(jobs, MC_ERR_CANCELED);
    ck_assert(!is_there(held, 0));
    ck_assert_uint_eq(stats_now().attempts, 0);
    (void)client_events(&rig);
    client_close(&rig);
    job_free(held);
    free_waiting(jobs);
}
END_TEST

START_TEST(who_waits_needs_no_worker)
{
    struct async_job *held = hold_the_worker(0);
    struct async_job *get = job_make("nobody", 9, LEN);
    job_run(get, async, MC_ASYNC_GET);
    job_expect(get, MC_ERR_OBJECT_NOT_FOUND);
    ck_assert_uint_eq(mc_async_poll(async, &(void *){NULL}, 1), 0);
    (void)client_events(&rig);
    mc_async_wait(held->op);
    close_rig();
    job_free(held);
    job_free(get);
}
END_TEST

/* ---- what has begun --------------------------------------------------------------- */

#define MANY 5000
#define FLAGGED 10
#define SMALL 16

/* One row of the read is the word that stops it: what came before it is right,
 * and far behind it nothing has begun. */
START_TEST(a_read_stops_in_the_middle)
{
    static _Atomic int stop;
    static const uint8_t one[sizeof(int)] = {1};
    uint8_t value[SMALL];
    struct names names = names_make(MANY, value, SMALL);
    uint8_t *got = must_alloc(MANY * SMALL);
    struct mc_span *spans = must_alloc(MANY * sizeof *spans);
    struct mc_spans *lists = must_alloc(MANY * sizeof *lists);
    stamp_fill(value, SMALL, 3);
    atomic_store(&stop, 0);
    client_open(&rig, NULL);
    names.values[FLAGGED] = mc_view_make(one, sizeof one);
    ck_assert_int_eq(mc_client_batch_put(rig.client, names.keys, names.values,
                                         MANY, NULL, names.results),
                     MC_OK);
    for (size_t i = 0; i < MANY; i++) {
        spans[i] = (struct mc_span){got + i * SMALL, SMALL};
        lists[i] = (struct mc_spans){&spans[i], 1};
    }
    spans[FLAGGED] = (struct mc_span){(void *)(uintptr_t)&stop, sizeof one};
    const struct mci_until until = {.stops = &stop};
    ck_assert_int_eq(mci_get_into_lists(rig.client, names.keys, lists, MANY,
                                        &until, names.results),
                     MC_OK);
    for (size_t i = 0; i < MANY; i++) {
        uint64_t stamp = 0;
        bool is_read = names.results[i] != MC_ERR_CANCELED;
        ck_assert(!is_read || i == FLAGGED || names.results[i] == SMALL);
        ck_assert(stamp_read(got + i * SMALL, SMALL, &stamp));
        ck_assert(!is_read || i == FLAGGED || stamp == 3);
        ck_assert(i < MANY / 2 || (!is_read && stamp == 0));
    }
    (void)client_events(&rig);
    client_close(&rig);
    names_free(&names);
    free(got);
    free(spans);
    free(lists);
}
END_TEST

START_TEST(what_is_stopped_from_the_start_does_nothing)
{
    static const _Atomic int stop = 1;
    const struct mci_until until = {.deadline_ns = UINT64_MAX, .stops = &stop};
    struct async_job *job = job_make("k", 5, LEN);
    struct mc_fragment piece = {job->pages, 0, LEN};
    const struct mc_fragments list = {&piece, 1};
    struct mc_put_session *put = NULL;
    struct mc_get_session *get = NULL;
    open_rig(NULL);
    job_fill(job, 7);
    ck_assert_int_eq(client_put(&rig, "there", job->pages, LEN), MC_OK);
    (void)client_events(&rig);
    const struct mc_view key = mc_view_str("there");
    ck_assert_int_eq(
        mc_client_get_sessions_open(rig.client, &key, 1, &get, job->results),
        MC_OK);
    ck_assert_int_eq(mc_client_put_sessions_open(rig.client, &job->keys[4],
                                                 &(uint64_t){LEN}, NULL, 1,
                                                 &put, job->results),
                     MC_OK);
    job_shut(job);
    char *before = client_state(&rig);
    struct mci_writing writing = {.client = rig.client,
                                  .keys = job->keys,
                                  .lists = job->lists,
                                  .results = job->results,
                                  .until = until};
    ck_assert_int_eq(mci_write(&writing, 4), MC_ERR_CANCELED);
    ck_assert_int_eq(job->results[0], MC_ERR_CANCELED);
    ck_assert_int_eq(job->results[3], MC_ERR_CANCELED);
    job->keys[0] = key;
    ck_assert_int_eq(mci_get_into_lists(rig.client, job->keys, job->lists, 1,
                                        &until, job->results),
                     MC_OK);
    ck_assert_int_eq(job->results[0], MC_ERR_CANCELED);
    ck_assert_int_eq(
        mci_get_sessions_read(rig.client, &get, &list, 1, &until, job->results),
        MC_OK);
    ck_assert_int_eq(job->results[0], MC_ERR_CANCELED);
    ck_assert_int_eq(mci_put_sessions_write(rig.client, &put, &list, 1, &until,
                                            job->results),
                     MC_OK);
    ck_assert_int_eq(job->results[0], MC_ERR_CANCELED);
    EXPECT_CLIENT_UNCHANGED(&rig, before);
    free(before);
    ck_assert(mc_client_put_session_hole(rig.client, put, &(uint64_t){0},
                                         &(uint64_t){0}));
    mc_client_get_sessions_close(rig.client, &get, 1);
    close_rig();
    job_free(job);
}
END_TEST

START_TEST(a_write_that_is_late_from_the_start_does_nothing)
{
    struct async_job *job = job_make("k", 5, LEN);
    open_rig(NULL);
    job_shut(job);
    char *before = client_state(&rig);
    struct mci_writing writing = {.client = rig.client,
                                  .keys = job->keys,
                                  .lists = job->lists,
                                  .results = job->results,
                                  .until = {.deadline_ns = 1}};
    ck_assert_int_eq(mci_write(&writing, job->count), MC_ERR_RPC_TIMEOUT);
    job_expect(job, MC_ERR_RPC_TIMEOUT);
    EXPECT_CLIENT_UNCHANGED(&rig, before);
    free(before);
    close_rig();
    job_free(job);
}
END_TEST

static _Atomic int hook_stop;
static _Atomic int hook_left; /* pieces until it stops */

static void stop_in_copy(const struct mc_transfer_row *row)
{
    (void)row;
    if (atomic_fetch_sub(&hook_left, 1) == 1) {
        atomic_store(&hook_stop, 1);
    }
}

/* In the middle of its copies, at each piece: nothing of it is left. */
START_TEST(a_write_that_is_stopped_leaves_nothing)
{
    enum { ROWS = 3 };
    const char *link = client_link();
    if (!link || strcmp(link, "shm") != 0) {
        return; /* elsewhere copies have no hook */
    }
    const struct mc_client_opts opts = {.segment_bytes = 8 * MIB};
    const struct mci_until until = {.stops = &hook_stop};
    struct async_job *job = job_make("k", ROWS, 5 * MIB / 2);
    client_open(&rig, &opts);
    job_fill(job, 7);
    mci_copy_set_hook(stop_in_copy);
    int stops_at = 0;
    do {
        struct mci_writing writing = {.client = rig.client,
                                      .keys = job->keys,
                                      .lists = job->lists,
                                      .results = job->results,
                                      .until = until};
        atomic_store(&hook_stop, 0);
        atomic_store(&hook_left, ++stops_at);
        ck_assert_int_eq(mci_write(&writing, ROWS), MC_OK);
        ck_assert(stops_at > 1 || atomic_load(&hook_stop) == 1);
        for (size_t i = 0; i < ROWS; i++) {
            ck_assert(job->results[i] == 0 ||
                      job->results[i] == MC_ERR_CANCELED);
            ck_assert_int_eq(is_there(job, i), job->results[i] == 0);
        }
        ck_assert_uint_eq(stats_now().attempts, 0);
        remove_all();
        ck_assert(AWAIT(stats_now().allocated_bytes == 0));
    } while (atomic_load(&hook_stop) == 1);
    ck_assert_int_gt(stops_at, ROWS);
    mci_copy_set_hook(NULL);
    client_close(&rig);
    job_free(job);
}
END_TEST

/* ---- at any moment ----------------------------------------------------------------- */

static void spend(unsigned turns)
{
    static _Atomic unsigned spent;
    for (unsigned i = 0; i < turns; i++) {
        atomic_fetch_add_explicit(&spent, 1, memory_order_relaxed);
    }
}

/* One round: rows that were put are there, others are not. */
static void cancel_a_put(struct async_job *put, unsigned turns)
{
    job_submit(put, async, MC_ASYNC_PUT, 0);
    spend(turns);
    mc_async_cancel(put->op);
    mc_async_wait(put->op);
    job_shut(put);
    for (size_t i = 0; i < put->count; i++) {
        ck_assert(put->results[i] == 0 || put->results[i] == MC_ERR_CANCELED);
        ck_assert_int_eq(is_there(put, i), put->results[i] == 0);
    }
    ck_assert_uint_eq(stats_now().attempts, 0);
}

static void cancel_a_get(struct async_job *get, const struct async_job *put,
                         unsigned turns)
{
    job_submit(get, async, MC_ASYNC_GET, 0);
    spend(turns);
    mc_async_cancel(get->op);
    mc_async_wait(get->op);
    for (size_t i = 0; i < get->count; i++) {
        int64_t there = put->results[i] == 0 ? LEN : MC_ERR_OBJECT_NOT_FOUND;
        ck_assert(get->results[i] == there ||
                  get->results[i] == MC_ERR_CANCELED);
        ck_assert(get->results[i] != LEN || job_row_is(get, i, 7));
    }
    job_shut(get);
}

START_TEST(canceled_at_any_moment_each_row_says_what_is)
{
    static const struct mc_async_opts opts = {.workers = 3, .rows_per_call = 4};
    unsigned rounds = SANITIZED ? 15 : 60;
    open_rig(&opts);
    for (unsigned i = 0; i < rounds; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "r%u", i);
        struct async_job *put = job_make(name, 40, LEN);
        struct async_job *get = job_make(name, 40, LEN);
        job_fill(put, 7);
        cancel_a_put(put, i * i * 10);
        cancel_a_get(get, put, (rounds - i) * (rounds - i) * 5);
        remove_all();
        job_free(put);
        job_free(get);
    }
    close_rig();
}
END_TEST

/* Closing comes in the middle of it all. */
START_TEST(closed_at_any_moment_each_row_says_what_is)
{
    unsigned rounds = SANITIZED ? 6 : 20;
    open_rig(NULL);
    for (unsigned i = 0; i < rounds; i++) {
        static const struct mc_async_opts opts = {.workers = 2,
                                                  .rows_per_call = 4};
        struct mc_async *other = NULL;
        struct async_job *put = job_make("k", 40, LEN);
        struct async_job *get = job_make("k", 40, LEN);
        job_fill(put, 7);
        ck_assert_int_eq(mc_async_open(rig.client, &opts, &other), MC_OK);
        job_submit(put, other, MC_ASYNC_PUT, 0);
        job_submit(get, other, MC_ASYNC_GET, 0);
        spend(i * i * 200);
        mc_async_close(other);
        job_shut(put);
        for (size_t k = 0; k < put->count; k++) {
            int64_t result = get->results[k];
            ck_assert(put->results[k] == 0 ||
                      put->results[k] == MC_ERR_CANCELED);
            ck_assert_int_eq(is_there(put, k), put->results[k] == 0);
            ck_assert(result == MC_ERR_CANCELED ||
                      result == MC_ERR_OBJECT_NOT_FOUND ||
                      result == MC_ERR_REPLICA_IS_NOT_READY ||
                      (result == LEN && job_row_is(get, k, 7)));
        }
        job_shut(get);
        remove_all();
        job_free(put);
        job_free(get);
    }
    close_rig();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_async_ends");
    TCase *waiting = tcase_create("waiting");
    tcase_set_timeout(waiting, 100);
    tcase_add_test(waiting, what_waits_can_be_canceled);
    tcase_add_test(waiting, what_waits_ends_at_its_deadline);
    tcase_add_test(waiting, closing_ends_what_waits_and_what_runs);
    tcase_add_test(waiting, who_waits_needs_no_worker);
    suite_add_tcase(suite, waiting);
    TCase *running = tcase_create("running");
    tcase_set_timeout(running, 100);
    tcase_add_test(running, a_read_stops_in_the_middle);
    tcase_add_test(running, what_is_stopped_from_the_start_does_nothing);
    tcase_add_test(running, a_write_that_is_late_from_the_start_does_nothing);
    tcase_add_test(running, a_write_that_is_stopped_leaves_nothing);
    tcase_add_test(running, canceled_at_any_moment_each_row_says_what_is);
    tcase_add_test(running, closed_at_any_moment_each_row_says_what_is);
    suite_add_tcase(suite, running);
    return suite_run(suite);
}
