/* SPDX-License-Identifier: Apache-2.0 */
/* mci_thread.h - threads of our own, on which signals of the application are not
 * handled.
 * Threads: any thread.
 */
#ifndef MCI_THREAD_H
#define MCI_THREAD_H
#include <pthread.h>
#include <sched.h>
#include <signal.h>

/* As pthread_create, with all signals blocked. attr may be NULL. */
static inline int mci_thread_start(pthread_t *thread,
                                   const pthread_attr_t *attr,
                                   void *(*run)(void *ctx), void *ctx)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(thread, attr, run, ctx);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

/* From now on the calling thread, and those that it makes, take no processor from
 * another thread by waking up: they wait for an idle one, or for their turn.
 * Where that cannot be had, all stays as it is. */
static inline void mci_thread_wait_turn(void)
{
    const struct sched_param none = {.sched_priority = 0};
    if (sched_getscheduler(0) == SCHED_OTHER) {
        (void)pthread_setschedparam(pthread_self(), SCHED_BATCH, &none);
    }
}
#endif
