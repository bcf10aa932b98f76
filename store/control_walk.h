/* SPDX-License-Identifier: Apache-2.0 */
/* control_walk.h - a worker for requests that go through the whole table.
 *
 * They are executed one after the other, off the pollers, and come back to the
 * poller that brought them.
 * Threads: submit from pollers; start and stop by one.
 */
#ifndef CONTROL_WALK_H
#define CONTROL_WALK_H
#include <pthread.h>

#include "control_job.h"
#include "mci_poller.h"

struct mci_walk {
    struct mci_job *job;
    struct mci_poller *poller; /* where done runs */
    struct mci_task done;
    struct mci_walk *next; /* kept by the worker */
};

struct mci_walker {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct mci_walk *first; /* guarded by lock, as the rest */
    struct mci_walk **last;
    bool is_stopping;
    bool is_started;
};

/* Errors: MC_ERR_NOMEM (no thread can be had). */
MC_CHECK_RESULT enum mc_err mci_walker_start(struct mci_walker *walker);
/* What is under way is to end by job->goes_on; everything comes back. */
void mci_walker_stop(struct mci_walker *walker); /* zeroed is fine */

/* The caller keeps walk and job alive until done runs. */
void mci_walker_submit(struct mci_walker *walker, struct mci_walk *walk);
#endif
