/* SPDX-License-Identifier: Apache-2.0 */
/* opened_thread.h - a thread that opens what it works on, and its owner, who
 * waits for the word how that went.
 *
 * A ZeroMQ socket lives and dies on its thread, so a port that is taken is known
 * there first. No signal of the program is handled on it.
 * Threads: start and join by one; say by the thread itself.
 */
#ifndef OPENED_THREAD_H
#define OPENED_THREAD_H
#include <pthread.h>
#include <stdbool.h>

#include "mc_err.h"

struct mci_opened_thread {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t said;
    bool has_said; /* guarded by lock, and so below */
    enum mc_err err;
};

/* Runs the function, which must call mci_opened_say once, and return after it if
 * that was an error. `what` is for the log, the thread is called by its name.
 * Errors: what was said (the thread is over then), MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mci_opened_start(struct mci_opened_thread *opened,
                                             const char *what, const char *name,
                                             void *(*run)(void *arg),
                                             void *arg);

/* How opening went. What was written before is seen by who waits. */
void mci_opened_say(struct mci_opened_thread *opened, enum mc_err err);

/* After a start that was well. */
void mci_opened_join(struct mci_opened_thread *opened);
#endif
