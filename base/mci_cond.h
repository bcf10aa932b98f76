/* SPDX-License-Identifier: Apache-2.0 */
/* mci_cond.h - conditions that are waited for until a deadline of mci_clock_ns.
 *
 * Waiting goes in slices, so that a clock of tests, and time that the machine
 * slept, are seen. Waking up says nothing: the caller looks again.
 * Threads: as conditions are.
 */
#ifndef MCI_COND_H
#define MCI_COND_H
#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "mci_clock.h"

#define MCI_COND_SLICE_NS (UINT64_C(50) * 1000000)

static inline int mci_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    if (pthread_condattr_init(&attr) != 0) {
        return -1;
    }
    int failed = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) ||
                 pthread_cond_init(cond, &attr);
    (void)pthread_condattr_destroy(&attr);
    return failed ? -1 : 0;
}

/* Waits a while, at most until deadline_ns; the mutex is held. */
static inline void mci_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                 uint64_t deadline_ns)
{
    uint64_t now_ns = mci_clock_ns();
    if (now_ns >= deadline_ns) {
        return;
    }
    uint64_t wait_ns = deadline_ns - now_ns;
    if (wait_ns > MCI_COND_SLICE_NS) {
        wait_ns = MCI_COND_SLICE_NS;
    }
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at);
    uint64_t ns = (uint64_t)at.tv_nsec + wait_ns;
    at.tv_sec += (time_t)(ns / MCI_NS_PER_S);
    at.tv_nsec = (long)(ns % MCI_NS_PER_S);
    (void)pthread_cond_timedwait(cond, mutex, &at);
}
#endif
