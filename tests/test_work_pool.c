/* SPDX-License-Identifier: Apache-2.0 */
/* test_work_pool.c - threads that do what a queue holds: each row once, each work
 * ended once, and nothing of it touched afterwards.
 */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_fail.h"
#include "await.h"
#include "mci_clock.h"
#include "suite.h"
#include "work_pool.h"

#define NEVER UINT64_MAX
#define ROWS 16

/* An operation as a user of the pool may have it. */
struct job {
    struct mci_work work;
    _Atomic int ran[ROWS];
    _Atomic int dropped[ROWS];
    _Atomic int verdict; /* of what was dropped last */
    _Atomic int ended;
    size_t turns; /* of an ordered one, without a lock */
};

struct rig {
    struct mci_work_pool *pool;
    _Atomic int inside; /* run functions that wait for the gate */
    _Atomic int is_open;
    _Atomic int stopped; /* which left the gate since they were told to */
    _Atomic int order_count;
    struct job *_Atomic order[64]; /* in which parts began */
    bool frees;                    /* jobs, as soon as they have ended */
    bool is_slow_to_hear;          /* of an end: waits for the gate */
    _Atomic int hears;
    _Atomic int freed;
};

static struct job *job_of(struct mci_work *work)
{
    return MCI_CONTAINER(work, struct job, work);
}

/* Waits for the gate, or to be told to stop. */
static void run(void *ctx, const struct mci_work_part *part)
{
    struct rig *rig = ctx;
    struct job *job = job_of(part->work);
    int turn = atomic_fetch_add(&rig->order_count, 1);
    ck_assert_int_eq(part->verdict, MCI_WORK_RUN);
    if (turn < 64) {
        rig->order[turn] = job;
    }
    atomic_fetch_add(&rig->inside, 1);
    bool is_let =
        AWAIT(atomic_load(&rig->is_open) || mci_work_stops(part->work));
    ck_assert(is_let);
    if (!atomic_load(&rig->is_open)) {
        atomic_fetch_add(&rig->stopped, 1);
    }
    atomic_fetch_sub(&rig->inside, 1);
    for (size_t i = part->first; i < part->first + part->count; i++) {
        atomic_fetch_add(&job->ran[i], 1);
    }
    if (job->work.is_ordered) {
        job->turns++; /* one by one, so nobody else does; TSan looks at it */
    }
}

static void run_gets(void *ctx, const struct mci_work_part *part)
{
    ck_assert_int_eq(part->work->kind, MCI_WORK_GET);
    run(ctx, part);
}

static void run_puts(void *ctx, const struct mci_work_part *part)
{
    ck_assert_int_eq(part->work->kind, MCI_WORK_PUT);
    run(ctx, part);
}

static void drop(void *ctx, const struct mci_work_part *part)
{
    struct job *job = job_of(part->work);
    (void)ctx;
    atomic_store(&job->verdict, (int)part->verdict);
    for (size_t i = part->first; i < part->first + part->count; i++) {
        atomic_fetch_add(&job->dropped[i], 1);
    }
}

static void ended(void *ctx, struct mci_work *work)
{
    struct rig *rig = ctx;
    struct job *job = job_of(work);
    if (rig->frees) {
        mci_work_pool_leave(rig->pool, work);
        memset(job, 0xa5, sizeof *job);
        free(job);
        atomic_fetch_add(&rig->freed, 1);
        return;
    }
    if (rig->is_slow_to_hear) {
        atomic_store(&rig->hears, 1);
        bool is_let = AWAIT(atomic_load(&rig->is_open));
        ck_assert(is_let);
    }
    atomic_fetch_add(&job->ended, 1);
}

static const struct mci_work_ops ops = {
    .run_gets = run_gets, .run_puts = run_puts, .drop = drop, .ended = ended};

static struct mci_work_pool_opts opts_of(struct rig *rig, uint32_t workers)
{
    return (struct mci_work_pool_opts){.ops = &ops,
                                       .ctx = rig,
                                       .name = "test-work",
                                       .limits = {.workers = workers,
                                                  .rows_max = 64,
                                                  .rows_per_part = 1,
                                                  .bytes_per_part = 100}};
}

static void start(struct rig *rig, uint32_t workers)
{
    memset(rig, 0, sizeof *rig);
    const struct mci_work_pool_opts opts = opts_of(rig, workers);
    ck_assert_int_eq(mci_work_pool_create(&opts, &rig->pool), MC_OK);
}

static void job_init(struct job *job, enum mci_work_kind kind, size_t rows)
{
    memset(job, 0, sizeof *job);
    job->work.kind = kind;
    job->work.row_count = rows;
    job->work.deadline_ns = NEVER;
}

static void add(struct rig *rig, struct job *job)
{
    ck_assert_int_eq(mci_work_pool_add(rig->pool, &job->work), MC_OK);
}

/* A job that one thread is inside of and stays in. */
static void hold_a_worker(struct rig *rig, struct job *job,
                          enum mci_work_kind kind)
{
    int inside = atomic_load(&rig->inside);
    job_init(job, kind, 1);
    add(rig, job);
    ck_assert(AWAIT(atomic_load(&rig->inside) == inside + 1));
}

static size_t count(_Atomic int *rows)
{
    size_t sum = 0;
    for (size_t i = 0; i < ROWS; i++) {
        int times = atomic_load(&rows[i]);
        ck_assert(times == 0 || times == 1);
        sum += (size_t)times;
    }
    return sum;
}

/* It has ended: each row once. */
static void check_ended(struct job *job, size_t dropped)
{
    ck_assert_int_eq(atomic_load(&job->ended), 1);
    ck_assert_uint_eq(count(job->dropped), dropped);
    ck_assert_uint_eq(count(job->ran), job->work.row_count - dropped);
    for (size_t i = 0; i < job->work.row_count; i++) {
        ck_assert_int_eq(
            atomic_load(&job->ran[i]) + atomic_load(&job->dropped[i]), 1);
    }
}

static bool has_ended(struct job *job)
{
    return AWAIT(atomic_load(&job->ended) > 0);
}

/* ---- running ----------------------------------------------------------------- */

START_TEST(all_workers_do_parts_of_one_work)
{
    struct rig rig;
    struct job job;
    start(&rig, 4);
    job_init(&job, MCI_WORK_GET, ROWS);
    add(&rig, &job);
    ck_assert(AWAIT(atomic_load(&rig.inside) == 4));
    atomic_store(&rig.is_open, 1);
    ck_assert(has_ended(&job));
    ck_assert(mci_work_pool_await(rig.pool, NEVER));
    check_ended(&job, 0);
    mci_work_pool_destroy(rig.pool);
}
END_TEST

START_TEST(a_get_goes_where_puts_would_take_all_workers)
{
    struct rig rig;
    struct job puts;
    struct job get;
    start(&rig, 3);
    job_init(&puts, MCI_WORK_PUT, 8);
    job_init(&get, MCI_WORK_GET, 1);
    add(&rig, &puts);
    ck_assert(AWAIT(atomic_load(&rig.inside) == 2));
    add(&rig, &get);
    ck_assert(AWAIT(atomic_load(&rig.inside) == 3));
    ck_assert_ptr_eq(rig.order[2], &get);
    atomic_store(&rig.is_open, 1);
    ck_assert(has_ended(&puts) && has_ended(&get));
    mci_work_pool_destroy(rig.pool);
    check_ended(&puts, 0);
}
END_TEST

START_TEST(who_waits_does_the_work_itself)
{
    struct rig rig;
    struct job held;
    struct job job;
    struct job none;
    start(&rig, 1);
    hold_a_worker(&rig, &held, MCI_WORK_GET);
    job_init(&job, MCI_WORK_PUT, ROWS);
    job_init(&none, MCI_WORK_PUT, 0);
    job.work.is_ordered = true;
    add(&rig, &job);
    add(&rig, &none);
    atomic_store(&rig.is_open, 1);
    mci_work_pool_help(rig.pool, &job.work);
    ck_assert(has_ended(&job) && has_ended(&none));
    check_ended(&job, 0);
    check_ended(&none, 0);
    ck_assert_uint_eq(job.turns, ROWS);
    mci_work_pool_help(rig.pool, &job.work);
    mci_work_pool_cancel(rig.pool, &job.work);
    check_ended(&job, 0);
    mci_work_pool_destroy(rig.pool);
}
END_TEST

START_TEST(helping_goes_on_while_all_workers_are_busy)
{
    struct rig rig;
    struct job held;
    struct job job;
    start(&rig, 1);
    hold_a_worker(&rig, &held, MCI_WORK_GET);
    job_init(&job, MCI_WORK_GET, 3);
    job.work.is_ordered = true;
    job.work.deadline_ns = 1; /* so that none of its rows waits for the gate */
    add(&rig, &job);
    mci_work_pool_help(rig.pool, &job.work);
    ck_assert(has_ended(&job));
    ck_assert_int_eq(atomic_load(&held.ended), 0);
    check_ended(&job, 3);
    ck_assert_int_eq(atomic_load(&job.verdict), MCI_WORK_LATE);
    atomic_store(&rig.is_open, 1);
    mci_work_pool_destroy(rig.pool);
}
END_TEST

START_TEST(the_pool_does_not_touch_what_has_ended)
{
    struct rig rig;
    start(&rig, 3);
    rig.frees = true;
    atomic_store(&rig.is_open, 1);
    for (int i = 0; i < 200; i++) {
        struct job *job = malloc(sizeof *job);
        ck_assert_ptr_nonnull(job);
        job_init(job, i % 2 == 0 ? MCI_WORK_GET : MCI_WORK_PUT,
                 (size_t)i % ROWS);
        job->work.is_ordered = i % 3 == 0;
        ck_assert(AWAIT(mci_work_pool_add(rig.pool, &job->work) == MC_OK));
    }
    ck_assert(mci_work_pool_await(rig.pool, NEVER));
    ck_assert_int_eq(atomic_load(&rig.freed), 200);
    mci_work_pool_destroy(rig.pool);
}
END_TEST

START_TEST(who_awaits_the_pool_awaits_its_users_functions)
{
    struct rig rig;
    struct job job;
    start(&rig, 1);
    rig.is_slow_to_hear = true;
    job_init(&job, MCI_WORK_GET, 0);
    add(&rig, &job);
    ck_assert(AWAIT(atomic_load(&rig.hears) == 1));
    ck_assert(!mci_work_pool_await(rig.pool, 0));
    atomic_store(&rig.is_open, 1);
    ck_assert(mci_work_pool_await(rig.pool, NEVER));
    ck_assert_int_eq(atomic_load(&job.ended), 1);
    mci_work_pool_destroy(rig.pool);
}
END_TEST

/* ---- not running ----------------------------------------------------------------- */

/* Canceled when _i of its 8 rows have begun. */
START_TEST(canceled_at_every_moment_each_row_ends_once)
{
    struct rig rig;
    struct job held[4];
    struct job job;
    start(&rig, 4);
    for (int i = 0; i < 4 - _i; i++) {
        hold_a_worker(&rig, &held[i], MCI_WORK_GET);
    }
    job_init(&job, MCI_WORK_GET, 8);
    add(&rig, &job);
    ck_assert(AWAIT(atomic_load(&rig.inside) == 4));
    mci_work_pool_cancel(rig.pool, &job.work);
    mci_work_pool_cancel(rig.pool, &job.work);
    ck_assert(has_ended(&job));
    check_ended(&job, 8 - (size_t)_i);
    ck_assert_int_eq(atomic_load(&job.verdict), MCI_WORK_CANCELED);
    ck_assert_int_eq(atomic_load(&rig.stopped), _i);
    atomic_store(&rig.is_open, 1);
    mci_work_pool_destroy(rig.pool);
    for (int i = 0; i < 4 - _i; i++) {
        check_ended(&held[i], 0);
    }
}
END_TEST

START_TEST(a_deadline_is_kept_though_all_workers_are_busy)
{
    struct rig rig;
    struct job held;
    struct job late;
    struct job later;
    static uint64_t now_ns;
    __atomic_store_n(&now_ns, 1000, __ATOMIC_SEQ_CST);
    mci_clock_fake(&now_ns);
    start(&rig, 1);
    hold_a_worker(&rig, &held, MCI_WORK_GET);
    job_init(&later, MCI_WORK_PUT, 3);
    later.work.deadline_ns = 3000;
    add(&rig, &later);
    job_init(&late, MCI_WORK_GET, 5);
    late.work.deadline_ns = 2000;
    add(&rig, &late);
    __atomic_store_n(&now_ns, 2000, __ATOMIC_SEQ_CST);
    ck_assert(has_ended(&late));
    check_ended(&late, 5);
    ck_assert_int_eq(atomic_load(&late.verdict), MCI_WORK_LATE);
    ck_assert_int_eq(atomic_load(&later.ended), 0);
    __atomic_store_n(&now_ns, 3000, __ATOMIC_SEQ_CST);
    ck_assert(has_ended(&later));
    check_ended(&later, 3);
    ck_assert_int_eq(atomic_load(&held.ended), 0);
    atomic_store(&rig.is_open, 1);
    mci_work_pool_destroy(rig.pool);
    mci_clock_fake(NULL);
}
END_TEST

START_TEST(a_full_pool_refuses_until_something_leaves)
{
    struct rig rig;
    struct job jobs[4];
    struct job more;
    start(&rig, 1);
    job_init(&more, MCI_WORK_GET, 1);
    for (size_t i = 0; i < 4; i++) {
        job_init(&jobs[i], MCI_WORK_GET, 16);
        add(&rig, &jobs[i]);
    }
    ck_assert_int_eq(mci_work_pool_add(rig.pool, &more.work),
                     MC_ERR_NO_AVAILABLE_HANDLE);
    mci_work_pool_cancel(rig.pool, &jobs[3].work);
    ck_assert(has_ended(&jobs[3]));
    ck_assert_int_eq(mci_work_pool_add(rig.pool, &more.work),
                     MC_ERR_NO_AVAILABLE_HANDLE);
    mci_work_pool_leave(rig.pool, &jobs[3].work);
    add(&rig, &more);
    atomic_store(&rig.is_open, 1);
    mci_work_pool_destroy(rig.pool);
    check_ended(&more, atomic_load(&more.dropped[0]) ? 1 : 0);
}
END_TEST

START_TEST(stopping_ends_everything_once_and_waits_for_nothing)
{
    struct rig rig;
    struct job held;
    struct job jobs[3];
    start(&rig, 1);
    hold_a_worker(&rig, &held, MCI_WORK_PUT);
    for (size_t i = 0; i < 3; i++) {
        job_init(&jobs[i], i == 0 ? MCI_WORK_PUT : MCI_WORK_GET, i * 5);
        add(&rig, &jobs[i]);
    }
    ck_assert(!mci_work_pool_await(rig.pool, 0));
    mci_work_pool_stop(rig.pool);
    for (size_t i = 0; i < 3; i++) {
        check_ended(&jobs[i], i * 5);
    }
    struct job more;
    job_init(&more, MCI_WORK_GET, 1);
    ck_assert_int_eq(mci_work_pool_add(rig.pool, &more.work),
                     MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS);
    ck_assert(mci_work_pool_await(rig.pool, NEVER));
    check_ended(&held, 0);
    ck_assert_int_eq(atomic_load(&rig.stopped), 1);
    mci_work_pool_stop(rig.pool);
    mci_work_pool_destroy(rig.pool);
}
END_TEST

START_TEST(a_child_of_a_fork_is_refused)
{
    struct rig rig;
    struct job job;
    int status = 0;
    start(&rig, 1);
    job_init(&job, MCI_WORK_GET, 1);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        enum mc_err err = mci_work_pool_add(rig.pool, &job.work);
        mci_work_pool_destroy(rig.pool);
        _exit(err == MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    mci_work_pool_destroy(rig.pool);
}
END_TEST

START_TEST(a_pool_that_finds_no_memory_is_not_made)
{
    struct rig rig = {.pool = NULL};
    const struct mci_work_pool_opts opts = opts_of(&rig, 4);
    struct alloc_fail fail;
    ALLOC_FAIL_EACH(fail)
    {
        struct mci_work_pool *pool = NULL;
        alloc_fail_arm(&fail);
        enum mc_err err = mci_work_pool_create(&opts, &pool);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        mci_work_pool_destroy(pool);
    }
}
END_TEST

/* ---- many at a time ------------------------------------------------------------- */

#define CROWD 4
#define TURNS 60

struct member {
    struct rig *rig;
    uint32_t draws;
};

/* Adds jobs; each is waited for, helped, canceled or late. */
static void *take_part(void *arg)
{
    struct member *member = arg;
    struct rig *rig = member->rig;
    for (uint32_t i = 0; i < TURNS; i++) {
        struct job job;
        uint32_t way = (i + member->draws) % 5;
        job_init(&job, i % 3 == 0 ? MCI_WORK_PUT : MCI_WORK_GET, i % ROWS);
        job.work.is_ordered = i % 2 == 0;
        if (way == 4) {
            job.work.deadline_ns = mci_clock_ns() + i * UINT64_C(10000);
        }
        if (!AWAIT(mci_work_pool_add(rig->pool, &job.work) == MC_OK)) {
            return member;
        }
        if (way == 1) {
            mci_work_pool_help(rig->pool, &job.work);
        } else if (way == 2) {
            mci_work_pool_cancel(rig->pool, &job.work);
        }
        if (!has_ended(&job)) {
            return member;
        }
        for (size_t k = 0; k < job.work.row_count; k++) {
            if (atomic_load(&job.ran[k]) + atomic_load(&job.dropped[k]) != 1) {
                return member;
            }
        }
        mci_work_pool_leave(rig->pool, &job.work);
        if (atomic_load(&job.ended) != 1) {
            return member;
        }
        memset(&job, 0xa5, sizeof job);
    }
    return NULL;
}

START_TEST(a_crowd_has_each_row_once)
{
    struct rig rig;
    pthread_t threads[CROWD];
    struct member members[CROWD];
    start(&rig, 3);
    atomic_store(&rig.is_open, 1);
    for (uint32_t i = 0; i < CROWD; i++) {
        members[i] = (struct member){.rig = &rig, .draws = i};
        ck_assert_int_eq(
            pthread_create(&threads[i], NULL, take_part, &members[i]), 0);
    }
    for (size_t i = 0; i < CROWD; i++) {
        void *failed = NULL;
        ck_assert_int_eq(pthread_join(threads[i], &failed), 0);
        ck_assert_ptr_null(failed);
    }
    ck_assert(mci_work_pool_await(rig.pool, NEVER));
    mci_work_pool_destroy(rig.pool);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("work_pool");
    TCase *running = tcase_create("running");
    tcase_set_timeout(running, 60);
    tcase_add_test(running, all_workers_do_parts_of_one_work);
    tcase_add_test(running, a_get_goes_where_puts_would_take_all_workers);
    tcase_add_test(running, who_waits_does_the_work_itself);
    tcase_add_test(running, helping_goes_on_while_all_workers_are_busy);
    tcase_add_test(running, the_pool_does_not_touch_what_has_ended);
    tcase_add_test(running, who_awaits_the_pool_awaits_its_users_functions);
    suite_add_tcase(suite, running);
    TCase *dropped = tcase_create("dropped");
    tcase_set_timeout(dropped, 60);
    tcase_add_loop_test(dropped, canceled_at_every_moment_each_row_ends_once, 0,
                        5);
    tcase_add_test(dropped, a_deadline_is_kept_though_all_workers_are_busy);
    tcase_add_test(dropped, a_full_pool_refuses_until_something_leaves);
    tcase_add_test(dropped,
                   stopping_ends_everything_once_and_waits_for_nothing);
    tcase_add_test(dropped, a_child_of_a_fork_is_refused);
    tcase_add_test(dropped, a_pool_that_finds_no_memory_is_not_made);
    suite_add_tcase(suite, dropped);
    TCase *crowd = tcase_create("crowd");
    tcase_set_timeout(crowd, 120);
    tcase_add_test(crowd, a_crowd_has_each_row_once);
    suite_add_tcase(suite, crowd);
    return suite_run(suite);
}
