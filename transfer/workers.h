/* SPDX-License-Identifier: Apache-2.0 */
/* workers.h - batches that were submitted, and the threads that run them.
 *
 * A batch is queued, runs, and is done; done ones wait to be polled, unless
 * somebody waits for them. All of it is guarded by one lock, which nobody holds
 * while rows move. Threads are made with the first batch.
 *
 * Threads: any thread, but create and destroy.
 */
#ifndef WORKERS_H
#define WORKERS_H
#include "mc_transfer.h"

struct mci_worker_pool;

MC_CHECK_RESULT enum mc_err
mci_workers_create(struct mc_transfer *transfer,
                   struct mci_worker_pool **pool_out);
/* Cancels what is unfinished, joins, and frees all batches. NULL is fine. */
void mci_workers_destroy(struct mci_worker_pool *pool);
#endif
