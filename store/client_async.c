/* SPDX-License-Identifier: Apache-2.0 */
/* client_async.c - operations on a work pool.
 *
 * A part of an operation is the synchronous call on its rows, with the deadline
 * and the stop flag of the whole. What has completed is in `done` until it is
 * taken, but for what somebody waits for.
 */
#include "mc_client_async.h"

#include <pthread.h>

#include "client_read.h"
#include "client_write.h"
#include "mci_alloc.h"
#include "mci_bell.h"
#include "work_pool.h"

#define WORKERS 4
#define WORKERS_MAX 64
#define ROWS_PER_CALL 256
#define BYTES_PER_CALL (128 * UINT64_C(1048576))

struct mc_async {
    struct mc_client *client;
    struct mci_work_pool *pool;
    size_t rows_max;
    pthread_mutex_t lock;  /* guards all below */
    pthread_cond_t waited; /* something that is waited for has completed */
    struct mci_link done;
    struct mci_bell bell; /* rings while done is not empty */
};

struct mc_async_op {
    struct mci_link link; /* in done */
    struct mc_async *async;
    struct mci_work work;
    struct mc_async_rows rows;
    bool is_waited; /* guarded by the lock */
    bool is_done;
    uint64_t row_bytes[];
};

static struct mc_async_op *op_of(struct mci_work *work)
{
    return MCI_CONTAINER(work, struct mc_async_op, work);
}

/* ---- parts --------------------------------------------------------------- */

static struct mci_until until_of(const struct mci_work_part *part)
{
    return (struct mci_until){.deadline_ns = part->work->deadline_ns,
                              .stops = &part->work->stops};
}

static void get_rows(void *ctx, const struct mci_work_part *part)
{
    const struct mc_async *async = ctx;
    const struct mc_async_rows *rows = &op_of(part->work)->rows;
    const struct mci_until until = until_of(part);
    int64_t *results = rows->results + part->first;
    enum mc_err err = MC_OK;
    if (rows->kind == MC_ASYNC_READ) {
        err = mci_get_sessions_read(
            async->client, rows->get_sessions + part->first,
            rows->fragments + part->first, part->count, &until, results);
    } else {
        err = mci_get_into_lists(async->client, rows->keys + part->first,
                                 rows->spans + part->first, part->count, &until,
                                 results);
    }
    (void)err; /* every row holds it */
}

/* A part has its own entries of the vectors. */
static const struct mc_replicate_config *
config_of(const struct mc_async_rows *rows, const struct mci_work_part *part,
          struct mc_replicate_config *room)
{
    if (!rows->config) {
        return NULL;
    }
    *room = *rows->config;
    if (room->session_ids) {
        room->session_ids += part->first;
        room->session_id_count = part->count;
    }
    if (room->group_ids) {
        room->group_ids += part->first;
        room->group_id_count = part->count;
    }
    return room;
}

static void put_rows(void *ctx, const struct mci_work_part *part)
{
    const struct mc_async *async = ctx;
    const struct mc_async_rows *rows = &op_of(part->work)->rows;
    const struct mci_until until = until_of(part);
    int64_t *results = rows->results + part->first;
    enum mc_err err = MC_OK;
    if (rows->kind == MC_ASYNC_WRITE) {
        err = mci_put_sessions_write(
            async->client, rows->put_sessions + part->first,
            rows->fragments + part->first, part->count, &until, results);
    } else {
        struct mc_replicate_config room;
        struct mci_writing writing = {.client = async->client,
                                      .config = config_of(rows, part, &room),
                                      .keys = rows->keys + part->first,
                                      .lists = rows->spans + part->first,
                                      .replaces = rows->kind == MC_ASYNC_UPSERT,
                                      .until = until,
                                      .results = results};
        err = mci_write(&writing, part->count);
    }
    (void)err; /* every row holds it */
}

static void drop_rows(void *ctx, const struct mci_work_part *part)
{
    const struct mc_async_rows *rows = &op_of(part->work)->rows;
    enum mc_err err =
        part->verdict == MCI_WORK_LATE ? MC_ERR_RPC_TIMEOUT : MC_ERR_CANCELED;
    (void)ctx;
    (void)mci_client_refuse(rows->results + part->first, part->count, err);
}

static void complete(void *ctx, struct mci_work *work)
{
    struct mc_async *async = ctx;
    struct mc_async_op *op = op_of(work);
    (void)pthread_mutex_lock(&async->lock);
    op->is_done = true;
    if (op->is_waited) {
        (void)pthread_cond_broadcast(&async->waited);
    } else {
        bool was_empty = mci_list_is_empty(&async->done);
        mci_list_push_back(&async->done, &op->link);
        if (was_empty) {
            mci_bell_ring(&async->bell);
        }
    }
    (void)pthread_mutex_unlock(&async->lock);
}

static const struct mci_work_ops work_ops = {.run_gets = get_rows,
                                             .run_puts = put_rows,
                                             .drop = drop_rows,
                                             .ended = complete};

/* ---- life ---------------------------------------------------------------- */

static uint64_t or_usual(uint64_t asked, uint64_t usual)
{
    return asked > 0 ? asked : usual;
}

static enum mc_err make_pool(struct mc_async *async,
                             const struct mc_async_opts *opts)
{
    const struct mci_work_pool_opts pool_opts = {
        .ops = &work_ops,
        .ctx = async,
        .name = "mckv-async",
        .limits = {.workers = (uint32_t)or_usual(opts->workers, WORKERS),
                   .rows_max = (size_t)or_usual(opts->rows_max, MC_ROWS_MAX),
                   .rows_per_part =
                       (size_t)or_usual(opts->rows_per_call, ROWS_PER_CALL),
                   .bytes_per_part =
                       or_usual(opts->bytes_per_call, BYTES_PER_CALL)}};
    async->rows_max = pool_opts.limits.rows_max;
    return mci_work_pool_create(&pool_opts, &async->pool);
}

enum mc_err mc_async_open(struct mc_client *client,
                          const struct mc_async_opts *opts,
                          struct mc_async **async_out)
{
    static const struct mc_async_opts usual;
    opts = opts ? opts : &usual;
    if (!client || !async_out || opts->workers > WORKERS_MAX) {
        return MC_ERR_INVALID_PARAMS;
    }
    struct mc_async *async = mci_calloc(1, sizeof *async);
    if (!async) {
        return MC_ERR_NOMEM;
    }
    async->client = client;
    mci_list_init(&async->done);
    mci_bell_init(&async->bell);
    if (pthread_mutex_init(&async->lock, NULL) != 0) {
        goto err_free;
    }
    if (pthread_cond_init(&async->waited, NULL) != 0) {
        goto err_destroy_lock;
    }
    if (make_pool(async, opts) != MC_OK) {
        goto err_destroy_waited;
    }
    *async_out = async;
    return MC_OK;
err_destroy_waited:
    (void)pthread_cond_destroy(&async->waited);
err_destroy_lock:
    (void)pthread_mutex_destroy(&async->lock);
err_free:
    mci_free(async);
    return MC_ERR_NOMEM;
}

void mc_async_close(struct mc_async *async)
{
    if (!async) {
        return;
    }
    mci_work_pool_destroy(async->pool);
    while (!mci_list_is_empty(&async->done)) {
        struct mc_async_op *op =
            MCI_CONTAINER(async->done.next, struct mc_async_op, link);
        mci_list_remove(&op->link);
        mci_free(op);
    }
    mci_bell_fini(&async->bell);
    (void)pthread_cond_destroy(&async->waited);
    (void)pthread_mutex_destroy(&async->lock);
    mci_free(async);
}

/* ---- submitting ---------------------------------------------------------- */

static bool is_put(const struct mc_async_rows *rows)
{
    return rows->kind != MC_ASYNC_GET && rows->kind != MC_ASYNC_READ;
}

static bool has_ranges(const struct mc_async_rows *rows)
{
    return rows->kind == MC_ASYNC_READ || rows->kind == MC_ASYNC_WRITE;
}

/* As the calls refuse as a whole. */
static enum mc_err check(const struct mc_async *async,
                         const struct mc_async_rows *rows)
{
    const void *whats =
        rows->kind == MC_ASYNC_READ    ? (const void *)rows->get_sessions
        : rows->kind == MC_ASYNC_WRITE ? (const void *)rows->put_sessions
                                       : (const void *)rows->keys;
    const void *wheres = has_ranges(rows) ? (const void *)rows->fragments
                                          : (const void *)rows->spans;
    if (rows->kind < MC_ASYNC_GET || rows->kind > MC_ASYNC_WRITE ||
        rows->count > async->rows_max || (rows->count > 0 && !wheres)) {
        return MC_ERR_INVALID_PARAMS;
    }
    enum mc_err err = mci_client_check_rows(whats, rows->results, rows->count);
    if (err == MC_OK && is_put(rows) && !has_ranges(rows)) {
        err = mci_client_check_config(rows->config, rows->count);
    }
    return err;
}

static uint64_t add_up(uint64_t sum, uint64_t len)
{
    return len < UINT64_MAX - sum ? sum + len : UINT64_MAX;
}

/* Only for cutting: whether the row is sound is found out by the call. */
static uint64_t bytes_of(const struct mc_async_rows *rows, size_t i)
{
    uint64_t sum = 0;
    if (has_ranges(rows)) {
        const struct mc_fragments *list = &rows->fragments[i];
        size_t count =
            list->rows && list->count <= MC_SPANS_MAX ? list->count : 0;
        for (size_t k = 0; k < count; k++) {
            sum = add_up(sum, list->rows[k].len);
        }
        return sum;
    }
    const struct mc_spans *list = &rows->spans[i];
    size_t count = list->spans && list->count <= MC_SPANS_MAX ? list->count : 0;
    for (size_t k = 0; k < count; k++) {
        sum = add_up(sum, list->spans[k].len);
    }
    return sum;
}

static struct mc_async_op *make_op(struct mc_async *async,
                                   const struct mc_async_rows *rows)
{
    struct mc_async_op *op =
        mci_calloc(1, sizeof *op + rows->count * sizeof op->row_bytes[0]);
    if (!op) {
        return NULL;
    }
    op->async = async;
    op->rows = *rows;
    for (size_t i = 0; i < rows->count; i++) {
        op->row_bytes[i] = bytes_of(rows, i);
    }
    op->work.kind = is_put(rows) ? MCI_WORK_PUT : MCI_WORK_GET;
    op->work.is_ordered = is_put(rows); /* rows may be of one key */
    op->work.row_count = rows->count;
    op->work.row_bytes = op->row_bytes;
    op->work.deadline_ns =
        mci_until_timeout(async->client, rows->timeout_ms).deadline_ns;
    return op;
}

enum mc_err mc_async_submit(struct mc_async *async,
                            const struct mc_async_rows *rows,
                            struct mc_async_op **op_out)
{
    if (!rows || !op_out) {
        return MC_ERR_INVALID_PARAMS;
    }
    enum mc_err err = check(async, rows);
    if (err != MC_OK) {
        return err;
    }
    struct mc_async_op *op = make_op(async, rows);
    if (!op) {
        return MC_ERR_NOMEM;
    }
    /* It may have been polled, and so freed, when add returns. */
    struct mc_async_op *before = *op_out;
    *op_out = op;
    err = mci_work_pool_add(async->pool, &op->work);
    if (err != MC_OK) {
        *op_out = before;
        mci_free(op);
    }
    return err;
}

/* ---- completing ---------------------------------------------------------- */

void mc_async_cancel(struct mc_async_op *op)
{
    mci_work_pool_cancel(op->async->pool, &op->work);
}

static void take(struct mc_async_op *op)
{
    mci_work_pool_leave(op->async->pool, &op->work);
    mci_free(op);
}

/* The lock is held. */
static void leave_done(struct mc_async *async, struct mc_async_op *op)
{
    mci_list_remove(&op->link);
    if (mci_list_is_empty(&async->done)) {
        mci_bell_silence(&async->bell);
    }
}

void mc_async_wait(struct mc_async_op *op)
{
    struct mc_async *async = op->async;
    (void)pthread_mutex_lock(&async->lock);
    op->is_waited = true;
    if (op->is_done) {
        leave_done(async, op);
    }
    (void)pthread_mutex_unlock(&async->lock);
    mci_work_pool_help(async->pool, &op->work);
    (void)pthread_mutex_lock(&async->lock);
    while (!op->is_done) {
        (void)pthread_cond_wait(&async->waited, &async->lock);
    }
    (void)pthread_mutex_unlock(&async->lock);
    take(op);
}

static struct mc_async_op *next_done(struct mc_async *async)
{
    struct mc_async_op *op = NULL;
    (void)pthread_mutex_lock(&async->lock);
    if (!mci_list_is_empty(&async->done)) {
        op = MCI_CONTAINER(async->done.next, struct mc_async_op, link);
        leave_done(async, op);
    }
    (void)pthread_mutex_unlock(&async->lock);
    return op;
}

size_t mc_async_poll(struct mc_async *async, void **ctxs_out, size_t max)
{
    size_t count = 0;
    struct mc_async_op *op = NULL;
    while (count < max && (op = next_done(async)) != NULL) {
        ctxs_out[count++] = op->rows.ctx;
        take(op);
    }
    return count;
}

int mc_async_eventfd(struct mc_async *async)
{
    (void)pthread_mutex_lock(&async->lock);
    int fd = mci_bell_fd(&async->bell, !mci_list_is_empty(&async->done));
    (void)pthread_mutex_unlock(&async->lock);
    return fd;
}
