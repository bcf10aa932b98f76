/* SPDX-License-Identifier: Apache-2.0 */
/* sweeper.h - the thread that does a master's background work.
 * Threads: start and stop by one thread.
 */
#ifndef SWEEPER_H
#define SWEEPER_H
#include <pthread.h>
#include <stdbool.h>

#include "mci_master.h"

struct mci_sweeper {
    struct mci_master *master; /* borrowed; NULL: not started */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool must_stop; /* guarded by lock */
};

/* Errors: MC_ERR_NOMEM (no thread can be had). */
MC_CHECK_RESULT enum mc_err mci_sweeper_start(struct mci_sweeper *sweeper,
                                              struct mci_master *master);
void mci_sweeper_stop(struct mci_sweeper *sweeper); /* zeroed is fine */
#endif
