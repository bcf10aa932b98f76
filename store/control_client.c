/* SPDX-License-Identifier: Apache-2.0 */
#include "control_client.h"

#include "mci_alloc.h"
#include "mci_bytes.h"

#define REAPED_AT_ONCE 64

struct name {
    uint8_t bytes[12];
};

static struct mc_view name_of(uint32_t client, uint64_t incarnation,
                              struct name *name)
{
    mci_put_be32(name->bytes, client);
    mci_put_be64(name->bytes + 4, incarnation);
    return mc_view_make(name->bytes, sizeof name->bytes);
}

void mci_control_clients_init(struct mci_control_clients *clients,
                              struct mci_registry *registry)
{
    (void)pthread_mutex_init(&clients->lock, NULL);
    mci_map_init(&clients->map, MCI_CLIENTS_MAX);
    clients->registry = registry;
}

void mci_control_clients_fini(struct mci_control_clients *clients)
{
    size_t cursor = 0;
    struct mc_view name;
    void *client;
    while (mci_map_next(&clients->map, &cursor, &name, &client)) {
        mci_control_client_release(client);
    }
    mci_map_fini(&clients->map);
    (void)pthread_mutex_destroy(&clients->lock);
}

/* Takes over the hold on member, on success. */
static struct mci_control_client *create(struct mci_member *member,
                                         uint64_t incarnation)
{
    struct mci_control_client *client = mci_calloc(1, sizeof *client);
    if (!client) {
        return NULL;
    }
    (void)pthread_mutex_init(&client->lock, NULL);
    mci_slots_init(&client->slots);
    client->member = member;
    client->client = mci_member_client(member);
    client->incarnation = incarnation;
    atomic_init(&client->holds, 1);
    return client;
}

static enum mc_err add(struct mci_control_clients *clients,
                       struct mci_member *member, uint64_t incarnation,
                       struct mci_control_client **client_out)
{
    struct name name;
    struct mci_control_client *client = create(member, incarnation);
    if (!client) {
        mci_member_release(member);
        return MC_ERR_NOMEM;
    }
    enum mc_err err =
        mci_map_put(&clients->map, name_of(client->client, incarnation, &name),
                    client, NULL);
    if (err != MC_OK) {
        mci_control_client_release(client);
        return MC_ERR_NOMEM;
    }
    *client_out = client;
    return MC_OK;
}

enum mc_err mci_control_client_find(struct mci_control_clients *clients,
                                    uint32_t client, uint64_t incarnation,
                                    struct mci_control_client **client_out)
{
    struct name name;
    struct mci_member *member = NULL;
    enum mc_err err =
        mci_registry_member(clients->registry, client, incarnation, &member);
    if (err != MC_OK) {
        return err;
    }
    (void)pthread_mutex_lock(&clients->lock);
    struct mci_control_client *found =
        mci_map_get(&clients->map, name_of(client, incarnation, &name));
    if (found) {
        mci_member_release(member);
    } else {
        err = add(clients, member, incarnation, &found);
    }
    if (err == MC_OK) {
        (void)atomic_fetch_add(&found->holds, 1);
        *client_out = found;
    }
    (void)pthread_mutex_unlock(&clients->lock);
    return err;
}

void mci_control_client_release(struct mci_control_client *client)
{
    if (!client || atomic_fetch_sub(&client->holds, 1) > 1) {
        return;
    }
    mci_member_release(client->member);
    mci_slots_fini(&client->slots);
    (void)pthread_mutex_destroy(&client->lock);
    mci_free(client);
}

bool mci_control_client_lives(struct mci_control_clients *clients,
                              const struct mci_control_client *client)
{
    struct mci_member *member = NULL;
    if (mci_registry_member(clients->registry, client->client,
                            client->incarnation, &member) != MC_OK) {
        return false;
    }
    mci_member_release(member);
    return true;
}

/* Some that are gone, taken out of the map. */
static size_t take_expired(struct mci_control_clients *clients,
                           struct mci_control_client *gone[REAPED_AT_ONCE])
{
    size_t cursor = 0;
    size_t count = 0;
    struct mc_view name;
    void *client;
    while (count < REAPED_AT_ONCE &&
           mci_map_next(&clients->map, &cursor, &name, &client)) {
        if (!mci_control_client_lives(clients, client)) {
            gone[count++] = client;
        }
    }
    for (size_t i = 0; i < count; i++) {
        struct name text;
        (void)mci_map_remove(
            &clients->map,
            name_of(gone[i]->client, gone[i]->incarnation, &text));
    }
    return count;
}

void mci_control_clients_reap(struct mci_control_clients *clients)
{
    struct mci_control_client *gone[REAPED_AT_ONCE];
    size_t count;
    do {
        (void)pthread_mutex_lock(&clients->lock);
        count = take_expired(clients, gone);
        (void)pthread_mutex_unlock(&clients->lock);
        for (size_t i = 0; i < count; i++) {
            mci_control_client_release(gone[i]);
        }
    } while (count == REAPED_AT_ONCE);
}

uint64_t mci_control_clients_kept(struct mci_control_clients *clients)
{
    size_t cursor = 0;
    uint64_t bytes = 0;
    struct mc_view name;
    void *found;
    (void)pthread_mutex_lock(&clients->lock);
    while (mci_map_next(&clients->map, &cursor, &name, &found)) {
        struct mci_control_client *client = found;
        (void)pthread_mutex_lock(&client->lock);
        bytes += client->slots.kept_bytes;
        (void)pthread_mutex_unlock(&client->lock);
    }
    (void)pthread_mutex_unlock(&clients->lock);
    return bytes;
}
