/* SPDX-License-Identifier: Apache-2.0 */
#include "sweeper.h"

#include <time.h>

#include "mc_log.h"
#include "mci_clock.h"
#include "mci_thread.h"

#define PAUSE_NS (10 * MCI_NS_PER_MS)
/* For room in the event log, in one step: longer than what makes a bulk producer
 * overdue, or the sweep would never get its turn on a log that stays full. */
#define LOG_WAIT_MS 300

static void pause_until_next(struct mci_sweeper *sweeper)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)PAUSE_NS;
    if (until.tv_nsec >= (long)MCI_NS_PER_S) {
        until.tv_nsec -= (long)MCI_NS_PER_S;
        until.tv_sec++;
    }
    (void)pthread_cond_timedwait(&sweeper->wake, &sweeper->lock, &until);
}

static void *run(void *ctx)
{
    struct mci_sweeper *sweeper = ctx;
    (void)pthread_mutex_lock(&sweeper->lock);
    while (!sweeper->must_stop) {
        (void)pthread_mutex_unlock(&sweeper->lock);
        uint64_t now_ns = mci_clock_ns();
        bool more = mci_master_sweep(sweeper->master, now_ns,
                                     mci_clock_deadline(now_ns, LOG_WAIT_MS));
        (void)pthread_mutex_lock(&sweeper->lock);
        if (!more && !sweeper->must_stop) {
            pause_until_next(sweeper);
        }
    }
    (void)pthread_mutex_unlock(&sweeper->lock);
    return NULL;
}

/* Signals are for the threads of the application. */
static int start_thread(struct mci_sweeper *sweeper)
{
    return mci_thread_start(&sweeper->thread, NULL, run, sweeper);
}

enum mc_err mci_sweeper_start(struct mci_sweeper *sweeper,
                              struct mci_master *master)
{
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&sweeper->wake, &attr);
    (void)pthread_condattr_destroy(&attr);
    (void)pthread_mutex_init(&sweeper->lock, NULL);
    sweeper->must_stop = false;
    sweeper->master = master;
    int failed = start_thread(sweeper);
    if (failed) {
        mc_log(MC_LOG_ERROR, "sweeper: thread: error %d", failed);
        (void)pthread_cond_destroy(&sweeper->wake);
        (void)pthread_mutex_destroy(&sweeper->lock);
        sweeper->master = NULL;
        return MC_ERR_NOMEM;
    }
    return MC_OK;
}

void mci_sweeper_stop(struct mci_sweeper *sweeper)
{
    if (!sweeper->master) {
        return;
    }
    (void)pthread_mutex_lock(&sweeper->lock);
    sweeper->must_stop = true;
    (void)pthread_cond_signal(&sweeper->wake);
    (void)pthread_mutex_unlock(&sweeper->lock);
    (void)pthread_join(sweeper->thread, NULL);
    (void)pthread_cond_destroy(&sweeper->wake);
    (void)pthread_mutex_destroy(&sweeper->lock);
    sweeper->master = NULL;
}
