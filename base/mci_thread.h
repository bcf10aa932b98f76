/* SPDX-License-Identifier: Apache-2.0 */
/* mci_thread.h - threads of our own, on which signals of the application are not
 * handled.
 * Threads: any thread.
 */
#ifndef MCI_THREAD_H
#define MCI_THREAD_H
#include <pthread.h>
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
#endif
