/* SPDX-License-Identifier: Apache-2.0 */
/* work_pool.h - the threads that do what a work queue (work_queue.h) holds.
 *
 * Its user gives four functions, and adds works that it keeps:
 *
 *   run_gets, run_puts   do the rows of a part; every row has its result, and
 *                        nobody touches its memory, when they return
 *   drop                 gives its result to rows that never begin; the part's
 *                        verdict says why
 *   ended                all rows of the work have been through one of these;
 *                        called once, and the pool does not touch the work again
 *
 * All four are called without locks, by workers, by the thread that looks at
 * deadlines, or by whoever helps, cancels or stops; run functions of one work at
 * the same time, unless it is ordered. They may call the pool, but not await or
 * destroy. A run function keeps the work's deadline itself, and looks now and
 * then at mci_work_stops. What they wrote is seen by whoever is told by ended.
 *
 * There are `workers` threads and one more, made with the first work; they sleep
 * while there is nothing to do.
 * Threads: any thread, but create and destroy.
 */
#ifndef WORK_POOL_H
#define WORK_POOL_H
#include "work_queue.h"

struct mci_work_pool; /* opaque */

struct mci_work_ops {
    void (*run_gets)(void *ctx, const struct mci_work_part *part);
    void (*run_puts)(void *ctx, const struct mci_work_part *part);
    void (*drop)(void *ctx, const struct mci_work_part *part);
    void (*ended)(void *ctx, struct mci_work *work);
};

struct mci_work_pool_opts {
    const struct mci_work_ops *ops; /* lives as long as the pool */
    void *ctx;
    const char *name; /* of its threads, at most 15 bytes; the same */
    struct mci_work_limits limits;
};

/* Errors: -11. */
MC_CHECK_RESULT enum mc_err
mci_work_pool_create(const struct mci_work_pool_opts *opts,
                     struct mci_work_pool **pool_out);
/* Stops it and waits until all works have ended, which takes as long as what
 * runs. NULL is fine. */
void mci_work_pool_destroy(struct mci_work_pool *pool);

/* The work is the pool's until ended, which may come before this returns.
 * Errors: -200 (full, or no thread can be made), -1010 (stopped, or after a
 * fork); then it is still its user's. */
MC_CHECK_RESULT enum mc_err mci_work_pool_add(struct mci_work_pool *pool,
                                              struct mci_work *work);
/* The work has ended, and counts in the queue no more. */
void mci_work_pool_leave(struct mci_work_pool *pool, struct mci_work *work);

/* Rows that have not begun are dropped, here; what runs is told to stop. The work
 * has not left. */
void mci_work_pool_cancel(struct mci_work_pool *pool, struct mci_work *work);
/* Does here what no worker has begun of the work; returns when there is no such
 * part now. The work does not leave meanwhile. */
void mci_work_pool_help(struct mci_work_pool *pool, struct mci_work *work);

/* Nothing is added any more; all works are canceled. Returns without waiting for
 * what runs. Any number of times. */
void mci_work_pool_stop(struct mci_work_pool *pool);
/* Waits until the deadline for all works to have ended, whoever may add more.
 * True: they have, and no function runs. */
bool mci_work_pool_await(struct mci_work_pool *pool, uint64_t deadline_ns);
#endif
