/* SPDX-License-Identifier: Apache-2.0 */
/* client_sessions.c - see the header. */
#include "client_sessions.h"

#include "client.h"
#include "mci_alloc.h"
#include "mci_cond.h"

enum mc_err mci_sessions_init(struct mci_sessions *sessions,
                              struct mc_client *client)
{
    sessions->client = client;
    sessions->renew_at_ns = UINT64_MAX;
    mci_list_init(&sessions->gets);
    mci_list_init(&sessions->gone);
    mci_list_init(&sessions->puts);
    mci_map_init(&sessions->get_keys, SIZE_MAX / 64);
    mci_map_init(&sessions->put_keys, SIZE_MAX / 64);
    if (pthread_mutex_init(&sessions->lock, NULL) != 0) {
        sessions->client = NULL;
        return MC_ERR_NOMEM;
    }
    if (mci_cond_init(&sessions->changed) != 0) {
        (void)pthread_mutex_destroy(&sessions->lock);
        sessions->client = NULL;
        return MC_ERR_NOMEM;
    }
    return MC_OK;
}

void mci_sessions_stop(struct mci_sessions *sessions)
{
    if (sessions->client) {
        mci_renewer_stop(sessions);
    }
}

/* Handles that were not given back are void; the master ends what it has of
 * them with the client. */
void mci_sessions_fini(struct mci_sessions *sessions)
{
    if (!sessions->client) {
        return;
    }
    struct mci_link *gets[] = {&sessions->gets, &sessions->gone};
    for (size_t i = 0; i < sizeof gets / sizeof *gets; i++) {
        while (!mci_list_is_empty(gets[i])) {
            struct mc_get_session *session =
                MCI_CONTAINER(gets[i]->next, struct mc_get_session, link);
            mci_list_remove(&session->link);
            mci_get_session_free(session);
        }
    }
    while (!mci_list_is_empty(&sessions->puts)) {
        struct mc_put_session *session =
            MCI_CONTAINER(sessions->puts.next, struct mc_put_session, link);
        mci_list_remove(&session->link);
        mci_put_session_free(session);
    }
    mci_map_fini(&sessions->get_keys);
    mci_map_fini(&sessions->put_keys);
    (void)pthread_cond_destroy(&sessions->changed);
    (void)pthread_mutex_destroy(&sessions->lock);
    sessions->client = NULL;
}

void mci_sessions_wait(struct mci_sessions *sessions)
{
    mci_cond_wait(&sessions->changed, &sessions->lock, UINT64_MAX);
}
