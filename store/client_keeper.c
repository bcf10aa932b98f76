/* SPDX-License-Identifier: Apache-2.0 */
/* client_keeper.c - the thread that mends what a client lends.
 *
 * It sleeps until somebody says that something was given up, and tries once a
 * second while something is left to do. Touching the pages of a large segment
 * takes seconds, which is why it is not done where heartbeats come from.
 */
#include <time.h>

#include "client_outside.h"
#include "mci_clock.h"
#include "mci_thread.h"

#define RETRY_MS 1000

/* Until it is woken, or, while something is left to do, for a second. */
static void wait_locked(struct mci_outside *outside, uint64_t wakes,
                        bool is_done)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += RETRY_MS / 1000;
    while (!outside->is_stopping && outside->wakes == wakes) {
        if (is_done) {
            (void)pthread_cond_wait(&outside->lent_changed,
                                    &outside->lent_lock);
        } else if (pthread_cond_timedwait(&outside->lent_changed,
                                          &outside->lent_lock, &until) != 0) {
            return;
        }
    }
}

static bool publish(struct mci_outside *outside)
{
    (void)pthread_mutex_lock(&outside->lent_lock);
    bool is_published = outside->is_published;
    outside->is_published = true; /* unless it changes meanwhile */
    (void)pthread_mutex_unlock(&outside->lent_lock);
    if (is_published || mci_metadata_publish(outside)) {
        return true;
    }
    (void)pthread_mutex_lock(&outside->lent_lock);
    outside->is_published = false;
    (void)pthread_mutex_unlock(&outside->lent_lock);
    return false;
}

static void *keep(void *ctx)
{
    struct mci_outside *outside = ctx;
    (void)pthread_setname_np(pthread_self(), "mc-keeper");
    (void)pthread_mutex_lock(&outside->lent_lock);
    while (!outside->is_stopping) {
        uint64_t wakes = outside->wakes;
        (void)pthread_mutex_unlock(&outside->lent_lock);
        bool is_done = mci_lent_restore(outside);
        is_done &= publish(outside);
        (void)pthread_mutex_lock(&outside->lent_lock);
        wait_locked(outside, wakes, is_done);
    }
    (void)pthread_mutex_unlock(&outside->lent_lock);
    return NULL;
}

/* Signals are for the threads of the application. */
enum mc_err mci_keeper_start(struct mci_outside *outside)
{
    outside->has_keeper =
        mci_thread_start(&outside->keeper, NULL, keep, outside) == 0;
    return outside->has_keeper ? MC_OK : MC_ERR_NOMEM;
}

void mci_keeper_wake(struct mci_outside *outside)
{
    (void)pthread_mutex_lock(&outside->lent_lock);
    outside->wakes++;
    (void)pthread_cond_broadcast(&outside->lent_changed);
    (void)pthread_mutex_unlock(&outside->lent_lock);
}

void mci_keeper_stop(struct mci_outside *outside)
{
    if (!outside->has_keeper) {
        return;
    }
    (void)pthread_mutex_lock(&outside->lent_lock);
    outside->is_stopping = true;
    (void)pthread_cond_broadcast(&outside->lent_changed);
    (void)pthread_mutex_unlock(&outside->lent_lock);
    (void)pthread_join(outside->keeper, NULL);
    outside->has_keeper = false;
}
