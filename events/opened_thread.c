/* SPDX-License-Identifier: Apache-2.0 */
#include "opened_thread.h"

#include <string.h>

#include "mc_log.h"
#include "mci_thread.h"

static enum mc_err start_thread(struct mci_opened_thread *opened,
                                const char *what, void *(*run)(void *arg),
                                void *arg)
{
    int rc = mci_thread_start(&opened->thread, NULL, run, arg);
    if (rc != 0) {
        mc_log(MC_LOG_ERROR, "%s: thread: %s", what, strerror(rc));
        return MC_ERR_NOMEM;
    }
    return MC_OK;
}

static void fini(struct mci_opened_thread *opened)
{
    (void)pthread_cond_destroy(&opened->said);
    (void)pthread_mutex_destroy(&opened->lock);
}

enum mc_err mci_opened_start(struct mci_opened_thread *opened, const char *what,
                             const char *name, void *(*run)(void *arg),
                             void *arg)
{
    (void)pthread_mutex_init(&opened->lock, NULL);
    (void)pthread_cond_init(&opened->said, NULL);
    opened->has_said = false;
    enum mc_err err = start_thread(opened, what, run, arg);
    if (err) {
        fini(opened);
        return err;
    }
    (void)pthread_setname_np(opened->thread, name);
    (void)pthread_mutex_lock(&opened->lock);
    while (!opened->has_said) {
        (void)pthread_cond_wait(&opened->said, &opened->lock);
    }
    err = opened->err;
    (void)pthread_mutex_unlock(&opened->lock);
    if (err) {
        mci_opened_join(opened);
    }
    return err;
}

void mci_opened_say(struct mci_opened_thread *opened, enum mc_err err)
{
    (void)pthread_mutex_lock(&opened->lock);
    opened->has_said = true;
    opened->err = err;
    (void)pthread_cond_signal(&opened->said);
    (void)pthread_mutex_unlock(&opened->lock);
}

void mci_opened_join(struct mci_opened_thread *opened)
{
    (void)pthread_join(opened->thread, NULL);
    fini(opened);
}
