/* SPDX-License-Identifier: Apache-2.0 */
#include "workers.h"

#include <pthread.h>

#include "mc_log.h"
#include "mci_alloc.h"
#include "mci_bell.h"
#include "mci_list.h"
#include "mci_thread.h"
#include "rows.h"

enum batch_state { BATCH_QUEUED, BATCH_RUNNING, BATCH_DONE };

struct mc_transfer_batch {
    struct mci_link link; /* in queued, running or done */
    struct mci_worker_pool *pool;
    struct mci_rows rows;
    void *ctx;
    _Atomic int is_canceled;
    pthread_cond_t finished;
    /* guarded by the pool's lock */
    enum batch_state state;
    bool is_waited; /* somebody is in wait: not for poll */
    enum mc_err err;
};

struct mci_worker_pool {
    struct mc_transfer *transfer;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t work;
    struct mci_link queued;
    struct mci_link running;
    struct mci_link done;
    uint32_t batches; /* all that were not freed */
    bool stops;
    struct mci_bell bell; /* rings while done is not empty */
    uint32_t thread_count;
    pthread_t *threads; /* opts.workers of them */
};

/* ---- completions ------------------------------------------------------- */

/* The lock is held. */
static void settle_bell(const struct mci_worker_pool *pool)
{
    if (mci_list_is_empty(&pool->done)) {
        mci_bell_silence(&pool->bell);
    }
}

/* The lock is held. */
static void complete(struct mc_transfer_batch *batch, enum mc_err err)
{
    struct mci_worker_pool *pool = batch->pool;
    bool was_empty = mci_list_is_empty(&pool->done);
    mci_list_remove(&batch->link);
    batch->state = BATCH_DONE;
    batch->err = err;
    if (batch->is_waited) {
        (void)pthread_cond_signal(&batch->finished);
        return;
    }
    mci_list_push_back(&pool->done, &batch->link);
    if (was_empty) {
        mci_bell_ring(&pool->bell);
    }
}

/* The lock is held and left meanwhile. */
static void run_batch(struct mc_transfer_batch *batch)
{
    struct mci_worker_pool *pool = batch->pool;
    mci_list_remove(&batch->link);
    mci_list_push_back(&pool->running, &batch->link);
    batch->state = BATCH_RUNNING;
    (void)pthread_mutex_unlock(&pool->lock);
    mci_rows_move(&batch->rows);
    enum mc_err err = mci_rows_finish(&batch->rows);
    (void)pthread_mutex_lock(&pool->lock);
    complete(batch, err);
}

static void free_batch(struct mc_transfer_batch *batch)
{
    (void)pthread_cond_destroy(&batch->finished);
    mci_free(batch);
}

/* ---- threads ----------------------------------------------------------- */

static void *work(void *arg)
{
    struct mci_worker_pool *pool = arg;
    (void)pthread_setname_np(pthread_self(), "mckv-transfer");
    (void)pthread_mutex_lock(&pool->lock);
    for (;;) {
        if (!mci_list_is_empty(&pool->queued)) {
            run_batch(MCI_CONTAINER(pool->queued.next, struct mc_transfer_batch,
                                    link));
        } else if (pool->stops) {
            break;
        } else {
            (void)pthread_cond_wait(&pool->work, &pool->lock);
        }
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* The lock is held. One thread is enough to go on with. */
static enum mc_err start_threads(struct mci_worker_pool *pool)
{
    if (pool->thread_count > 0) {
        return MC_OK;
    }
    while (pool->thread_count < pool->transfer->opts.workers &&
           mci_thread_start(&pool->threads[pool->thread_count], NULL, work,
                            pool) == 0) {
        pool->thread_count++;
    }
    if (pool->thread_count == 0) {
        mc_log(MC_LOG_ERROR, "transfer: no thread for batches can be made");
        return MC_ERR_NO_AVAILABLE_HANDLE;
    }
    return MC_OK;
}

enum mc_err mci_workers_create(struct mc_transfer *transfer,
                               struct mci_worker_pool **pool_out)
{
    struct mci_worker_pool *pool = mci_calloc(1, sizeof *pool);
    if (!pool) {
        return MC_ERR_NOMEM;
    }
    pool->threads = mci_calloc(transfer->opts.workers, sizeof *pool->threads);
    if (!pool->threads) {
        goto err_free;
    }
    if (pthread_mutex_init(&pool->lock, NULL) != 0) {
        goto err_free_threads;
    }
    if (pthread_cond_init(&pool->work, NULL) != 0) {
        goto err_destroy_lock;
    }
    pool->transfer = transfer;
    mci_bell_init(&pool->bell);
    mci_list_init(&pool->queued);
    mci_list_init(&pool->running);
    mci_list_init(&pool->done);
    *pool_out = pool;
    return MC_OK;
err_destroy_lock:
    (void)pthread_mutex_destroy(&pool->lock);
err_free_threads:
    mci_free(pool->threads);
err_free:
    mci_free(pool);
    return MC_ERR_NOMEM;
}

/* Canceled batches complete quickly, by the threads that would run them. */
static void cancel_all(struct mci_worker_pool *pool)
{
    struct mci_link *lists[] = {&pool->queued, &pool->running};
    (void)pthread_mutex_lock(&pool->lock);
    pool->stops = true;
    for (size_t i = 0; i < 2; i++) {
        for (struct mci_link *at = lists[i]->next; at != lists[i];
             at = at->next) {
            atomic_store(
                &MCI_CONTAINER(at, struct mc_transfer_batch, link)->is_canceled,
                1);
        }
    }
    (void)pthread_cond_broadcast(&pool->work);
    (void)pthread_mutex_unlock(&pool->lock);
}

void mci_workers_destroy(struct mci_worker_pool *pool)
{
    if (!pool) {
        return;
    }
    cancel_all(pool);
    for (uint32_t i = 0; i < pool->thread_count; i++) {
        (void)pthread_join(pool->threads[i], NULL);
    }
    while (!mci_list_is_empty(&pool->done)) {
        struct mc_transfer_batch *batch =
            MCI_CONTAINER(pool->done.next, struct mc_transfer_batch, link);
        mci_list_remove(&batch->link);
        free_batch(batch);
    }
    mci_bell_fini(&pool->bell);
    (void)pthread_cond_destroy(&pool->work);
    (void)pthread_mutex_destroy(&pool->lock);
    mci_free(pool->threads);
    mci_free(pool);
}

/* ---- calls ------------------------------------------------------------- */

static enum mc_err make_batch(struct mci_worker_pool *pool,
                              const struct mci_rows *rows, void *ctx,
                              struct mc_transfer_batch **batch_out)
{
    struct mc_transfer_batch *batch = mci_calloc(1, sizeof *batch);
    if (!batch) {
        return MC_ERR_NOMEM;
    }
    if (pthread_cond_init(&batch->finished, NULL) != 0) {
        mci_free(batch);
        return MC_ERR_NOMEM;
    }
    mci_list_init(&batch->link);
    batch->pool = pool;
    batch->ctx = ctx;
    batch->rows = *rows;
    batch->rows.canceled = &batch->is_canceled;
    *batch_out = batch;
    return MC_OK;
}

/* Counts a batch in; the lock is not held. */
static enum mc_err reserve(struct mci_worker_pool *pool)
{
    enum mc_err err = MC_ERR_NO_AVAILABLE_HANDLE;
    (void)pthread_mutex_lock(&pool->lock);
    if (pool->batches < pool->transfer->opts.queue_max) {
        err = start_threads(pool);
    }
    if (err == MC_OK) {
        pool->batches++;
    }
    (void)pthread_mutex_unlock(&pool->lock);
    return err;
}

static void unreserve(struct mci_worker_pool *pool)
{
    (void)pthread_mutex_lock(&pool->lock);
    pool->batches--;
    (void)pthread_mutex_unlock(&pool->lock);
}

enum mc_err mc_transfer_submit(struct mc_transfer *transfer,
                               struct mc_transfer_row *rows, size_t count,
                               uint64_t deadline_ns, void *ctx,
                               struct mc_transfer_batch **batch_out)
{
    if (mci_engine_is_elsewhere(transfer)) {
        return MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
    }
    struct mci_worker_pool *pool = transfer->pool;
    enum mc_err err = reserve(pool);
    if (err != MC_OK) {
        return err;
    }
    struct mci_rows all = {.transfer = transfer,
                           .rows = rows,
                           .count = count,
                           .deadline_ns = deadline_ns};
    struct mc_transfer_batch *batch = NULL;
    err = make_batch(pool, &all, ctx, &batch);
    if (err != MC_OK) {
        unreserve(pool);
        return err;
    }
    mci_rows_prepare(&batch->rows);
    /* It may be polled, and so freed, before this function returns. */
    *batch_out = batch;
    (void)pthread_mutex_lock(&pool->lock);
    mci_list_push_back(&pool->queued, &batch->link);
    (void)pthread_cond_signal(&pool->work);
    (void)pthread_mutex_unlock(&pool->lock);
    return MC_OK;
}

void mc_transfer_cancel(struct mc_transfer_batch *batch)
{
    struct mci_worker_pool *pool = batch->pool;
    if (mci_engine_is_elsewhere(pool->transfer)) {
        return;
    }
    atomic_store(&batch->is_canceled, 1);
    (void)pthread_mutex_lock(&pool->lock);
    if (batch->state == BATCH_QUEUED) {
        run_batch(batch);
    }
    (void)pthread_mutex_unlock(&pool->lock);
}

enum mc_err mc_transfer_wait(struct mc_transfer_batch *batch)
{
    struct mci_worker_pool *pool = batch->pool;
    if (mci_engine_is_elsewhere(pool->transfer)) {
        return MC_ERR_TRANSFER_FAIL;
    }
    (void)pthread_mutex_lock(&pool->lock);
    batch->is_waited = true;
    if (batch->state == BATCH_QUEUED) {
        run_batch(batch);
    }
    while (batch->state != BATCH_DONE) {
        (void)pthread_cond_wait(&batch->finished, &pool->lock);
    }
    mci_list_remove(&batch->link);
    settle_bell(pool);
    pool->batches--;
    (void)pthread_mutex_unlock(&pool->lock);
    enum mc_err err = batch->err;
    free_batch(batch);
    return err;
}

size_t mc_transfer_poll(struct mc_transfer *transfer, void **ctxs_out,
                        size_t max)
{
    struct mci_worker_pool *pool = transfer->pool;
    size_t count = 0;
    if (mci_engine_is_elsewhere(transfer)) {
        return 0;
    }
    (void)pthread_mutex_lock(&pool->lock);
    while (count < max && !mci_list_is_empty(&pool->done)) {
        struct mc_transfer_batch *batch =
            MCI_CONTAINER(pool->done.next, struct mc_transfer_batch, link);
        mci_list_remove(&batch->link);
        ctxs_out[count++] = batch->ctx;
        pool->batches--;
        free_batch(batch);
    }
    settle_bell(pool);
    (void)pthread_mutex_unlock(&pool->lock);
    return count;
}

int mc_transfer_eventfd(struct mc_transfer *transfer)
{
    struct mci_worker_pool *pool = transfer->pool;
    if (mci_engine_is_elsewhere(transfer)) {
        return -1;
    }
    (void)pthread_mutex_lock(&pool->lock);
    int fd = mci_bell_fd(&pool->bell, !mci_list_is_empty(&pool->done));
    (void)pthread_mutex_unlock(&pool->lock);
    return fd;
}
