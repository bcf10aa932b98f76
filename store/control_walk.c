/* SPDX-License-Identifier: Apache-2.0 */
#include "control_walk.h"

#include "mc_log.h"
#include "mci_thread.h"

/* NULL: the end was asked for, and nothing is left. */
static struct mci_walk *take(struct mci_walker *walker)
{
    (void)pthread_mutex_lock(&walker->lock);
    while (!walker->first && !walker->is_stopping) {
        (void)pthread_cond_wait(&walker->wake, &walker->lock);
    }
    struct mci_walk *walk = walker->first;
    if (walk) {
        walker->first = walk->next;
        if (!walker->first) {
            walker->last = &walker->first;
        }
    }
    (void)pthread_mutex_unlock(&walker->lock);
    return walk;
}

static void *run(void *ctx)
{
    struct mci_walker *walker = ctx;
    struct mci_walk *walk;
    (void)pthread_setname_np(pthread_self(), "mc-walk");
    while ((walk = take(walker))) {
        mci_job_walk(walk->job);
        mci_poller_post(walk->poller, &walk->done);
    }
    return NULL;
}

enum mc_err mci_walker_start(struct mci_walker *walker)
{
    (void)pthread_mutex_init(&walker->lock, NULL);
    (void)pthread_cond_init(&walker->wake, NULL);
    walker->first = NULL;
    walker->last = &walker->first;
    walker->is_stopping = false;
    int failed = mci_thread_start(&walker->thread, NULL, run, walker);
    if (failed) {
        mc_log(MC_LOG_ERROR, "control: worker thread: error %d", failed);
        (void)pthread_cond_destroy(&walker->wake);
        (void)pthread_mutex_destroy(&walker->lock);
        return MC_ERR_NOMEM;
    }
    walker->is_started = true;
    return MC_OK;
}

void mci_walker_stop(struct mci_walker *walker)
{
    if (!walker->is_started) {
        return;
    }
    (void)pthread_mutex_lock(&walker->lock);
    walker->is_stopping = true;
    (void)pthread_cond_signal(&walker->wake);
    (void)pthread_mutex_unlock(&walker->lock);
    (void)pthread_join(walker->thread, NULL);
    (void)pthread_cond_destroy(&walker->wake);
    (void)pthread_mutex_destroy(&walker->lock);
    walker->is_started = false;
}

void mci_walker_submit(struct mci_walker *walker, struct mci_walk *walk)
{
    walk->next = NULL;
    (void)pthread_mutex_lock(&walker->lock);
    *walker->last = walk;
    walker->last = &walk->next;
    (void)pthread_cond_signal(&walker->wake);
    (void)pthread_mutex_unlock(&walker->lock);
}
