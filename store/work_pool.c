/* SPDX-License-Identifier: Apache-2.0 */
/* work_pool.c - see the header.
 *
 * Who takes a part wakes another thread if there is more, so an addition wakes
 * one, which wakes the next; and a worker that has done with a part looks at once
 * for what had to wait for it. So no part waits beside an idle worker. Deadlines
 * have a thread of their own, since all workers may be busy with what ends later.
 */
#include "work_pool.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "mc_log.h"
#include "mci_alloc.h"
#include "mci_clock.h"
#include "mci_cond.h"
#include "mci_thread.h"

#define NAME_SIZE 16 /* of a thread, with its end */

struct mci_work_pool {
    struct mci_work_pool_opts opts;
    char name[NAME_SIZE];
    pid_t pid;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t work;  /* there is something to do */
    pthread_cond_t due;   /* the next deadline may have changed */
    pthread_cond_t rest;  /* all have ended */
    struct mci_work_queue queue;
    uint32_t inside; /* threads that are in functions of the user */
    bool stops;
    bool has_clock;
    pthread_t clock;
    uint32_t thread_count;
    pthread_t *threads; /* limits.workers of them */
};

/* ---- parts --------------------------------------------------------------- */

static void do_rows(const struct mci_work_pool *pool,
                    const struct mci_work_part *part)
{
    const struct mci_work_ops *ops = pool->opts.ops;
    if (part->count == 0) {
        return;
    }
    if (part->verdict != MCI_WORK_RUN) {
        ops->drop(pool->opts.ctx, part);
    } else if (part->work->kind == MCI_WORK_GET) {
        ops->run_gets(pool->opts.ctx, part);
    } else {
        ops->run_puts(pool->opts.ctx, part);
    }
}

static bool is_at_rest(const struct mci_work_pool *pool)
{
    return pool->inside == 0 && mci_work_queue_is_idle(&pool->queue);
}

static void wake_next(struct mci_work_pool *pool)
{
    if (mci_work_queue_waits(&pool->queue)) {
        (void)pthread_cond_signal(&pool->work);
    }
}

/* The lock is held and left meanwhile. The work may be gone afterwards. */
static void do_part(struct mci_work_pool *pool,
                    const struct mci_work_part *part)
{
    pool->inside++;
    wake_next(pool);
    (void)pthread_mutex_unlock(&pool->lock);
    do_rows(pool, part);
    (void)pthread_mutex_lock(&pool->lock);
    bool has_ended = mci_work_queue_end(&pool->queue, part);
    if (has_ended) {
        (void)pthread_mutex_unlock(&pool->lock);
        pool->opts.ops->ended(pool->opts.ctx, part->work);
        (void)pthread_mutex_lock(&pool->lock);
    }
    pool->inside--;
    if (is_at_rest(pool)) {
        (void)pthread_cond_broadcast(&pool->rest);
    }
}

/* ---- threads ------------------------------------------------------------- */

static void *do_work(void *arg)
{
    struct mci_work_pool *pool = arg;
    struct mci_work_part part;
    (void)pthread_setname_np(pthread_self(), pool->name);
    (void)pthread_mutex_lock(&pool->lock);
    for (;;) {
        if (mci_work_queue_take(&pool->queue, mci_clock_ns(), &part)) {
            do_part(pool, &part);
        } else if (pool->stops) {
            break;
        } else {
            (void)pthread_cond_wait(&pool->work, &pool->lock);
        }
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return NULL;
}

static void *keep_deadlines(void *arg)
{
    struct mci_work_pool *pool = arg;
    struct mci_work_part part;
    (void)pthread_setname_np(pthread_self(), pool->name);
    (void)pthread_mutex_lock(&pool->lock);
    while (!pool->stops) {
        if (mci_work_queue_take_late(&pool->queue, mci_clock_ns(), &part)) {
            do_part(pool, &part);
        } else if (pool->queue.due_ns == UINT64_MAX) {
            (void)pthread_cond_wait(&pool->due, &pool->lock);
        } else {
            mci_cond_wait(&pool->due, &pool->lock, pool->queue.due_ns);
        }
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* The lock is held. One worker is enough to go on with. */
static enum mc_err start_threads(struct mci_work_pool *pool)
{
    if (pool->thread_count > 0) {
        return MC_OK;
    }
    if (!pool->has_clock) {
        pool->has_clock =
            mci_thread_start(&pool->clock, NULL, keep_deadlines, pool) == 0;
    }
    while (pool->has_clock && pool->thread_count < pool->opts.limits.workers &&
           mci_thread_start(&pool->threads[pool->thread_count], NULL, do_work,
                            pool) == 0) {
        pool->thread_count++;
    }
    if (pool->thread_count == 0) {
        return MC_ERR_NO_AVAILABLE_HANDLE;
    }
    pool->queue.limits.workers = pool->thread_count;
    return MC_OK;
}

/* ---- life ---------------------------------------------------------------- */

static enum mc_err make_conditions(struct mci_work_pool *pool)
{
    if (mci_cond_init(&pool->work) != 0) {
        return MC_ERR_NOMEM;
    }
    if (mci_cond_init(&pool->due) != 0) {
        goto err_destroy_work;
    }
    if (mci_cond_init(&pool->rest) != 0) {
        goto err_destroy_due;
    }
    return MC_OK;
err_destroy_due:
    (void)pthread_cond_destroy(&pool->due);
err_destroy_work:
    (void)pthread_cond_destroy(&pool->work);
    return MC_ERR_NOMEM;
}

static void free_pool(struct mci_work_pool *pool)
{
    mci_free(pool->threads);
    mci_free(pool);
}

enum mc_err mci_work_pool_create(const struct mci_work_pool_opts *opts,
                                 struct mci_work_pool **pool_out)
{
    struct mci_work_pool *pool = mci_calloc(1, sizeof *pool);
    if (!pool) {
        return MC_ERR_NOMEM;
    }
    pool->opts = *opts;
    pool->opts.name = pool->name;
    strncpy(pool->name, opts->name, NAME_SIZE - 1);
    pool->pid = getpid();
    mci_work_queue_init(&pool->queue, &opts->limits);
    pool->threads = mci_calloc(opts->limits.workers, sizeof *pool->threads);
    if (!pool->threads || pthread_mutex_init(&pool->lock, NULL) != 0) {
        free_pool(pool);
        return MC_ERR_NOMEM;
    }
    if (make_conditions(pool) != MC_OK) {
        (void)pthread_mutex_destroy(&pool->lock);
        free_pool(pool);
        return MC_ERR_NOMEM;
    }
    *pool_out = pool;
    return MC_OK;
}

/* In the child of a fork there are no threads, and the lock may be held. */
static bool is_elsewhere(const struct mci_work_pool *pool)
{
    return pool->pid != getpid();
}

void mci_work_pool_destroy(struct mci_work_pool *pool)
{
    if (!pool || is_elsewhere(pool)) {
        return;
    }
    mci_work_pool_stop(pool);
    (void)mci_work_pool_await(pool, UINT64_MAX);
    for (uint32_t i = 0; i < pool->thread_count; i++) {
        (void)pthread_join(pool->threads[i], NULL);
    }
    if (pool->has_clock) {
        (void)pthread_join(pool->clock, NULL);
    }
    (void)pthread_cond_destroy(&pool->work);
    (void)pthread_cond_destroy(&pool->due);
    (void)pthread_cond_destroy(&pool->rest);
    (void)pthread_mutex_destroy(&pool->lock);
    free_pool(pool);
}

/* ---- works --------------------------------------------------------------- */

/* The lock is held. */
static enum mc_err add(struct mci_work_pool *pool, struct mci_work *work)
{
    uint64_t due_ns = pool->queue.due_ns;
    if (pool->stops) {
        return MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
    }
    enum mc_err err = start_threads(pool);
    if (err == MC_OK) {
        err = mci_work_queue_add(&pool->queue, work);
    }
    if (err != MC_OK) {
        return err;
    }
    (void)pthread_cond_signal(&pool->work);
    if (pool->queue.due_ns < due_ns) {
        (void)pthread_cond_signal(&pool->due);
    }
    return MC_OK;
}

enum mc_err mci_work_pool_add(struct mci_work_pool *pool, struct mci_work *work)
{
    if (is_elsewhere(pool)) {
        return MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
    }
    (void)pthread_mutex_lock(&pool->lock);
    enum mc_err err = add(pool, work);
    bool has_threads = pool->thread_count > 0;
    (void)pthread_mutex_unlock(&pool->lock);
    if (err == MC_ERR_NO_AVAILABLE_HANDLE && !has_threads) {
        mc_log(MC_LOG_ERROR, "%s: no thread can be made", pool->name);
    }
    return err;
}

void mci_work_pool_leave(struct mci_work_pool *pool, struct mci_work *work)
{
    (void)pthread_mutex_lock(&pool->lock);
    mci_work_queue_leave(&pool->queue, work);
    (void)pthread_mutex_unlock(&pool->lock);
}

void mci_work_pool_cancel(struct mci_work_pool *pool, struct mci_work *work)
{
    struct mci_work_part part;
    if (is_elsewhere(pool)) {
        return;
    }
    (void)pthread_mutex_lock(&pool->lock);
    if (mci_work_queue_cancel(&pool->queue, work, &part)) {
        do_part(pool, &part);
    }
    (void)pthread_mutex_unlock(&pool->lock);
}

void mci_work_pool_help(struct mci_work_pool *pool, struct mci_work *work)
{
    struct mci_work_part part;
    if (is_elsewhere(pool)) {
        return;
    }
    (void)pthread_mutex_lock(&pool->lock);
    while (mci_work_queue_take_of(&pool->queue, work, mci_clock_ns(), &part)) {
        do_part(pool, &part);
    }
    (void)pthread_mutex_unlock(&pool->lock);
}

void mci_work_pool_stop(struct mci_work_pool *pool)
{
    struct mci_work_part part;
    if (is_elsewhere(pool)) {
        return;
    }
    (void)pthread_mutex_lock(&pool->lock);
    pool->stops = true;
    while (mci_work_queue_cancel_next(&pool->queue, &part)) {
        do_part(pool, &part);
    }
    (void)pthread_cond_broadcast(&pool->work);
    (void)pthread_cond_broadcast(&pool->due);
    (void)pthread_mutex_unlock(&pool->lock);
}

bool mci_work_pool_await(struct mci_work_pool *pool, uint64_t deadline_ns)
{
    if (is_elsewhere(pool)) {
        return false;
    }
    (void)pthread_mutex_lock(&pool->lock);
    while (!is_at_rest(pool) && mci_clock_ns() < deadline_ns) {
        mci_cond_wait(&pool->rest, &pool->lock, deadline_ns);
    }
    bool has_rest = is_at_rest(pool);
    (void)pthread_mutex_unlock(&pool->lock);
    return has_rest;
}
