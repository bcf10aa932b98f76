/* SPDX-License-Identifier: Apache-2.0 */
/* row_driver_ops.c - operations once they are taken: how rows end, who is told. */
#include <string.h>

#include "mci_alloc.h"
#include "mci_cond.h"
#include "row_driver.h"

/* ---- telling -------------------------------------------------------------------- */

/* How many calls of on_change this thread is in: one may cause others. */
static _Thread_local uint32_t told_depth;

/* The lock is held. */
static void note_change(struct mc_row_op *op)
{
    struct mc_row_driver *driver = op->driver;
    bool was_empty = mci_list_is_empty(&driver->changed);
    if (mci_list_is_empty(&op->changed)) {
        mci_list_push_back(&driver->changed, &op->changed);
    }
    if (was_empty) {
        mci_bell_ring(&driver->bell);
    }
    if (op->pending == 0) {
        (void)pthread_cond_broadcast(&driver->ended);
    }
}

/* Begun under the lock, so that a release waits for it; with a reference of its
 * own, for those that do not. */
static void tell(struct mc_row_op *op)
{
    struct mc_row_driver *driver = op->driver;
    told_depth++;
    driver->opts.on_change(driver->opts.ctx, op->ctx);
    told_depth--;
    mci_rows_lock(driver);
    op->telling--;
    (void)pthread_cond_broadcast(&driver->ended);
    mci_row_op_drop(op);
    mci_rows_unlock(driver);
}

/* ---- ending --------------------------------------------------------------------- */

static void count_row(struct mc_row_op *op, const struct mci_row *row)
{
    struct mc_row_driver_stats *stats = &op->driver->stats;
    bool is_put = op->work.kind == MCI_WORK_PUT;
    uint64_t *reasons = is_put ? stats->puts : stats->gets;
    reasons[MC_ROW_REASON_NONE]--;
    reasons[row->state.reason]++;
    if (row->state.reason == MC_ROW_REASON_MOVED) {
        *(is_put ? &stats->put_bytes : &stats->get_bytes) += row->size;
    }
}

static void end_row(struct mc_row_op *op, struct mci_row *row,
                    const struct mci_row_end *end)
{
    row->state =
        (struct mc_row_state){.status = mc_row_reason_status(end->reason),
                              .reason = end->reason,
                              .err = end->err,
                              .local_ended = true,
                              .remote_ended = !end->in_doubt};
    mci_row_unuse(op->driver, row);
    op->pending--;
    count_row(op, row);
}

/* A twin of a row that was written finds what that one wrote. */
static void end_with_twins(struct mc_row_op *op, uint32_t r,
                           const struct mci_row_end *end)
{
    struct mci_row_end of_twin = *end;
    if (of_twin.reason == MC_ROW_REASON_MOVED) {
        of_twin.reason = MC_ROW_REASON_EXISTS;
    }
    of_twin.in_doubt = false;
    end_row(op, &op->rows[r], end);
    for (uint32_t twin = op->rows[r].twin; twin != 0;
         twin = op->rows[twin].twin) {
        end_row(op, &op->rows[twin], &of_twin);
    }
}

/* Leaves the lock. */
static void unlock_and_tell(struct mc_row_op *op)
{
    struct mc_row_driver *driver = op->driver;
    bool is_told = driver->opts.on_change != NULL;
    note_change(op);
    op->telling += is_told;
    op->refs += is_told;
    mci_rows_unlock(driver);
    if (is_told) {
        tell(op);
    }
}

void mci_rows_end(struct mc_row_op *op, size_t first,
                  const struct mci_row_end *ends, size_t count)
{
    struct mc_row_driver *driver = op->driver;
    mci_rows_lock(driver);
    for (size_t i = 0; i < count; i++) {
        end_with_twins(op, op->order[first + i], &ends[i]);
        if (ends[i].session) {
            mci_row_leave(driver, ends[i].claim, ends[i].session);
        } else if (ends[i].claim) {
            mci_row_unclaim(driver, ends[i].claim);
        }
    }
    unlock_and_tell(op);
}

void mci_rows_end_alike(struct mc_row_op *op, size_t first,
                        const struct mci_row_end *end, size_t count)
{
    mci_rows_lock(op->driver);
    for (size_t i = 0; i < count; i++) {
        end_with_twins(op, op->order[first + i], end);
    }
    unlock_and_tell(op);
}

void mci_row_op_drop(struct mc_row_op *op)
{
    if (--op->refs == 0) {
        mci_list_remove(&op->link);
        mci_list_remove(&op->changed);
        mci_free(op);
    }
}

/* ---- calls on one ------------------------------------------------------------------ */

size_t mc_row_op_states(struct mc_row_op *op, struct mc_row_state *states_out)
{
    struct mc_row_driver *driver = op->driver;
    if (mci_rows_are_elsewhere(driver)) {
        memset(states_out, 0, op->count * sizeof *states_out);
        return op->count;
    }
    mci_rows_lock(driver);
    for (size_t i = 0; i < op->count; i++) {
        states_out[i] = op->rows[i].state;
    }
    size_t pending = op->pending;
    mci_rows_unlock(driver);
    return pending;
}

void mc_row_op_cancel(struct mc_row_op *op)
{
    if (!mci_rows_are_elsewhere(op->driver)) {
        atomic_store(&op->is_asked_to_end, true);
        mci_work_pool_cancel(op->driver->pool, &op->work);
    }
}

enum mc_err mc_row_op_wait(struct mc_row_op *op, uint32_t timeout_ms)
{
    struct mc_row_driver *driver = op->driver;
    uint64_t deadline_ns = mci_clock_ns() + timeout_ms * MCI_NS_PER_MS;
    if (mci_rows_are_elsewhere(driver)) {
        return MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
    }
    mci_rows_lock(driver);
    while (op->pending > 0 && mci_clock_ns() < deadline_ns) {
        mci_cond_wait(&driver->ended, &driver->lock, deadline_ns);
    }
    enum mc_err err = op->pending > 0 ? MC_ERR_RPC_TIMEOUT : MC_OK;
    mci_rows_unlock(driver);
    return err;
}

enum mc_err mc_row_op_release(struct mc_row_op *op)
{
    if (!op) {
        return MC_OK;
    }
    struct mc_row_driver *driver = op->driver;
    if (mci_rows_are_elsewhere(driver)) {
        return MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
    }
    mci_rows_lock(driver);
    if (op->pending > 0) {
        mci_rows_unlock(driver);
        return MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
    }
    bool was_changed = !mci_list_is_empty(&op->changed);
    mci_list_remove(&op->changed);
    if (was_changed && mci_list_is_empty(&driver->changed)) {
        mci_bell_silence(&driver->bell);
    }
    /* Two that are told could wait for each other. */
    while (op->telling > 0 && told_depth == 0) {
        (void)pthread_cond_wait(&driver->ended, &driver->lock);
    }
    mci_row_op_drop(op);
    mci_rows_unlock(driver);
    return MC_OK;
}

/* ---- calls on all -------------------------------------------------------------------- */

size_t mc_row_driver_poll(struct mc_row_driver *driver, void **ctxs_out,
                          size_t max)
{
    size_t count = 0;
    if (mci_rows_are_elsewhere(driver)) {
        return 0;
    }
    mci_rows_lock(driver);
    while (count < max && !mci_list_is_empty(&driver->changed)) {
        struct mc_row_op *op =
            MCI_CONTAINER(driver->changed.next, struct mc_row_op, changed);
        mci_list_remove(&op->changed);
        ctxs_out[count++] = op->ctx;
    }
    if (count > 0 && mci_list_is_empty(&driver->changed)) {
        mci_bell_silence(&driver->bell);
    }
    mci_rows_unlock(driver);
    return count;
}

int mc_row_driver_eventfd(struct mc_row_driver *driver)
{
    if (mci_rows_are_elsewhere(driver)) {
        return -1;
    }
    mci_rows_lock(driver);
    int fd = mci_bell_fd(&driver->bell, !mci_list_is_empty(&driver->changed));
    mci_rows_unlock(driver);
    return fd;
}
