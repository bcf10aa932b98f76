/* SPDX-License-Identifier: Apache-2.0 */
/* row_driver.c - the life of a driver, and what it tells of itself. */
#include <string.h>
#include <unistd.h>

#include "mci_alloc.h"
#include "mci_cond.h"
#include "row_driver.h"

#define WORKERS 4
#define ROWS_PER_CALL 256
#define BYTES_PER_CALL (UINT64_C(128) << 20)
#define ROWS_MAX 262144
#define TIMEOUT_MS 60000
#define CLOSE_MS 2000

/* ---- opening -------------------------------------------------------------------- */

static uint32_t or_else(uint32_t given, uint32_t other)
{
    return given ? given : other;
}

static enum mc_err take_opts(const struct mc_row_driver_opts *given,
                             struct mc_row_driver_opts *opts)
{
    if (given) {
        *opts = *given;
    }
    opts->workers = or_else(opts->workers, WORKERS);
    opts->rows_per_call = or_else(opts->rows_per_call, ROWS_PER_CALL);
    opts->rows_max = or_else(opts->rows_max, ROWS_MAX);
    opts->timeout_ms = or_else(opts->timeout_ms, TIMEOUT_MS);
    opts->close_ms = or_else(opts->close_ms, CLOSE_MS);
    opts->replicas = or_else(opts->replicas, 1);
    if (opts->bytes_per_call == 0) {
        opts->bytes_per_call = BYTES_PER_CALL;
    }
    bool is_sound = opts->workers <= MC_ROW_WORKERS_MAX &&
                    opts->rows_per_call <= MC_ROWS_MAX &&
                    opts->bytes_per_call <= MC_OBJECT_SIZE_MAX &&
                    opts->rows_max <= MC_ROW_QUEUE_MAX &&
                    opts->replicas <= MC_ROW_REPLICAS_MAX;
    return is_sound ? MC_OK : MC_ERR_INVALID_PARAMS;
}

/* Nobody touches it any more: it counts in the queue no more, and is its user's
 * alone. */
static void forget(void *ctx, struct mci_work *work)
{
    struct mc_row_driver *driver = ctx;
    struct mc_row_op *op = MCI_CONTAINER(work, struct mc_row_op, work);
    mci_work_pool_leave(driver->pool, work);
    mci_rows_lock(driver);
    mci_row_op_drop(op);
    mci_rows_unlock(driver);
}

static const struct mci_work_ops work_ops = {.run_gets = mci_rows_run,
                                             .run_puts = mci_rows_run,
                                             .drop = mci_rows_drop,
                                             .ended = forget};

static enum mc_err make_locks(struct mc_row_driver *driver)
{
    if (pthread_mutex_init(&driver->lock, NULL) != 0) {
        return MC_ERR_NOMEM;
    }
    if (mci_cond_init(&driver->ended) != 0) {
        goto err_destroy_lock;
    }
    if (mci_cond_init(&driver->wake) != 0) {
        goto err_destroy_ended;
    }
    return MC_OK;
err_destroy_ended:
    (void)pthread_cond_destroy(&driver->ended);
err_destroy_lock:
    (void)pthread_mutex_destroy(&driver->lock);
    return MC_ERR_NOMEM;
}

static void free_driver(struct mc_row_driver *driver)
{
    (void)pthread_cond_destroy(&driver->wake);
    (void)pthread_cond_destroy(&driver->ended);
    (void)pthread_mutex_destroy(&driver->lock);
    mci_free(driver);
}

static enum mc_err make_pool(struct mc_row_driver *driver)
{
    const struct mci_work_pool_opts opts = {
        .ops = &work_ops,
        .ctx = driver,
        .name = "mckv-rows",
        .limits = {.workers = driver->opts.workers,
                   .rows_max = SIZE_MAX, /* the driver counts them */
                   .rows_per_part = driver->opts.rows_per_call,
                   .bytes_per_part = driver->opts.bytes_per_call}};
    return mci_work_pool_create(&opts, &driver->pool);
}

enum mc_err mc_row_driver_open(struct mc_client *client,
                               const struct mc_row_driver_opts *opts,
                               struct mc_row_driver **driver_out)
{
    struct mc_row_driver_opts taken = {.workers = 0};
    enum mc_err err = take_opts(opts, &taken);
    if (err != MC_OK || !client || !driver_out) {
        return MC_ERR_INVALID_PARAMS;
    }
    struct mc_row_driver *driver = mci_calloc(1, sizeof *driver);
    if (!driver) {
        return MC_ERR_NOMEM;
    }
    driver->client = client;
    driver->opts = taken;
    driver->pid = getpid();
    mci_bell_init(&driver->bell);
    mci_list_init(&driver->ops);
    mci_list_init(&driver->changed);
    mci_list_init(&driver->left);
    mci_map_init(&driver->claims, SIZE_MAX / 64);
    if (make_locks(driver) != MC_OK) {
        mci_free(driver);
        return MC_ERR_NOMEM;
    }
    err = make_pool(driver);
    if (err != MC_OK) {
        free_driver(driver);
        return err;
    }
    *driver_out = driver;
    return MC_OK;
}

bool mci_rows_are_elsewhere(const struct mc_row_driver *driver)
{
    return driver->pid != getpid();
}

/* ---- the end -------------------------------------------------------------------- */

static void stop(struct mc_row_driver *driver)
{
    mci_rows_lock(driver);
    driver->is_closing = true;
    mci_rows_unlock(driver);
    mci_work_pool_stop(driver->pool);
}

/* The lock is held. */
static bool has_rows(const struct mc_row_driver *driver)
{
    const struct mc_row_driver_stats *stats = &driver->stats;
    return stats->gets[MC_ROW_REASON_NONE] + stats->puts[MC_ROW_REASON_NONE] >
           0;
}

/* Rows that have ended are touched by nobody, also where the worker that ended
 * them is still telling of it. */
enum mc_err mc_row_driver_drain(struct mc_row_driver *driver,
                                uint32_t timeout_ms)
{
    uint64_t deadline_ns = mci_clock_ns() + timeout_ms * MCI_NS_PER_MS;
    if (mci_rows_are_elsewhere(driver)) {
        return MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
    }
    stop(driver);
    mci_rows_lock(driver);
    while (has_rows(driver) && mci_clock_ns() < deadline_ns) {
        mci_cond_wait(&driver->ended, &driver->lock, deadline_ns);
    }
    enum mc_err err = has_rows(driver) ? MC_ERR_RPC_TIMEOUT : MC_OK;
    mci_rows_unlock(driver);
    return err;
}

static void free_ops(struct mc_row_driver *driver)
{
    while (!mci_list_is_empty(&driver->ops)) {
        struct mc_row_op *op =
            MCI_CONTAINER(driver->ops.next, struct mc_row_op, link);
        mci_row_op_drop(op);
    }
}

/* Of a child of a fork: it has neither threads nor the lock. */
void mc_row_driver_close(struct mc_row_driver *driver)
{
    if (!driver || mci_rows_are_elsewhere(driver)) {
        return;
    }
    stop(driver);
    mci_work_pool_destroy(driver->pool);
    mci_rows_settle_all(
        driver, mci_clock_deadline(mci_clock_ns(), driver->opts.close_ms));
    mci_rows_unregister_all(driver);
    free_ops(driver);
    mci_bell_fini(&driver->bell);
    free_driver(driver);
}

/* ---- asking ---------------------------------------------------------------------- */

static enum mc_err probe_some(struct mc_row_driver *driver,
                              const struct mc_view *keys, size_t count,
                              uint64_t deadline_ns,
                              struct mc_row_state *states_out)
{
    struct mc_client *client = driver->client;
    struct mc_probe *probes = mci_alloc(count * sizeof *probes);
    int64_t *results = mci_alloc(count * sizeof *results);
    enum mc_err err = probes && results ? MC_OK : MC_ERR_NOMEM;
    if (err == MC_OK) {
        enum mc_err asked = mci_client_probe_until(
            client, keys, count, deadline_ns, probes, results);
        (void)asked; /* every row holds it */
        for (size_t i = 0; i < count; i++) {
            enum mc_row_reason reason =
                mci_row_reason_of_probe(results[i], probes[i].state);
            states_out[i] = (struct mc_row_state){
                .status = mc_row_reason_status(reason),
                .reason = reason,
                .err = results[i] < 0 ? (enum mc_err)results[i] : MC_OK,
                .local_ended = true,
                .remote_ended = true};
        }
    }
    mci_free(probes);
    mci_free(results);
    return err;
}

enum mc_err mc_row_driver_probe(struct mc_row_driver *driver,
                                const struct mc_view *keys, size_t count,
                                uint32_t timeout_ms,
                                struct mc_row_state *states_out)
{
    if (mci_rows_are_elsewhere(driver)) {
        return MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
    }
    if (count > MC_ROWS_MAX || (count > 0 && (!keys || !states_out))) {
        return MC_ERR_INVALID_PARAMS;
    }
    uint64_t deadline_ns =
        timeout_ms ? mci_clock_deadline(mci_clock_ns(), timeout_ms) : 0;
    return count > 0 ? probe_some(driver, keys, count, deadline_ns, states_out)
                     : MC_OK;
}

void mc_row_driver_stat(struct mc_row_driver *driver,
                        struct mc_row_driver_stats *stats_out)
{
    if (mci_rows_are_elsewhere(driver)) {
        memset(stats_out, 0, sizeof *stats_out);
        return;
    }
    mci_rows_lock(driver);
    *stats_out = driver->stats;
    stats_out->regions = driver->region_count;
    mci_rows_unlock(driver);
}
