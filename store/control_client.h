/* SPDX-License-Identifier: Apache-2.0 */
/* control_client.h - the request slots of each living client.
 *
 * Slots outlive connections and end with the client's incarnation. One lock per
 * client guards its slots and what waits in them; it is held for a look only, and
 * nothing is called under it.
 * Threads: any thread, but init and fini.
 */
#ifndef CONTROL_CLIENT_H
#define CONTROL_CLIENT_H
#include <pthread.h>
#include <stdatomic.h>

#include "mci_map.h"
#include "registry.h"
#include "slots.h"

struct mci_control_client {
    pthread_mutex_t lock;
    struct mci_slots slots; /* guarded by lock, as is what waits in them */
    const void *pulse; /* guarded by lock: connection of the last heartbeat */
    struct mci_member *member;
    uint32_t client;
    uint64_t incarnation;
    atomic_uint holds;
};

struct mci_control_clients {
    pthread_mutex_t lock;
    struct mci_map map; /* guarded by lock; holds each once */
    struct mci_registry *registry;
};

void mci_control_clients_init(struct mci_control_clients *clients,
                              struct mci_registry *registry);
/* No connection may be left. */
void mci_control_clients_fini(struct mci_control_clients *clients);

/* The living client that a request names, held for the caller. Errors: -103,
 * MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err
mci_control_client_find(struct mci_control_clients *clients, uint32_t client,
                        uint64_t incarnation,
                        struct mci_control_client **client_out);
void mci_control_client_release(struct mci_control_client *client);

/* It has not been expired. */
bool mci_control_client_lives(struct mci_control_clients *clients,
                              const struct mci_control_client *client);

/* Lets go of clients that were expired. */
void mci_control_clients_reap(struct mci_control_clients *clients);

/* Memory of all answers that are kept. */
uint64_t mci_control_clients_kept(struct mci_control_clients *clients);
#endif
