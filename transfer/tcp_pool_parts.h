/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_pool_parts.h - what the files of the pool of connections share.
 *
 * tcp_pool.c keeps and hands out, tcp_connect.c makes connections.
 * Threads: all of it is guarded by the pool's lock; functions are called with it
 * held.
 */
#ifndef TCP_POOL_PARTS_H
#define TCP_POOL_PARTS_H
#include "mci_map.h"
#include "tcp_pool.h"

struct mci_tcp_pool {
    struct mc_transfer *transfer;
    uint32_t idle_max; /* per peer */
    uint32_t open_max;
    pthread_mutex_t lock; /* guards all below, and all of peers and wants */
    pthread_cond_t ended; /* a thread */
    uint32_t threads;
    bool is_closing;
    struct mci_map peers; /* by endpoint */
    struct mci_link idle; /* longest idle first */
    uint32_t idle_count;
};

struct mci_tcp_peer {
    struct mci_tcp_pool *pool;
    uint32_t refs;
    uint32_t open; /* in use, idle, or being made */
    uint32_t idle_count;
    struct mci_link idle;    /* last used at the end */
    struct mci_link waiting; /* wants */
    struct mci_address address;
    size_t endpoint_len;
    char *endpoint;
};

struct mci_tcp_want {
    struct mci_tcp_peer *peer; /* held */
    uint64_t deadline_ns;
    struct mci_link in_waiting;
    uint32_t refs; /* of the caller, and of a thread or the waiting list */
    int fd;
    bool is_over;
    bool is_dropped;
    enum mc_err err;
    struct mci_tcp_link *link;
};

static inline void mci_tcp_pool_lock(struct mci_tcp_pool *pool)
{
    (void)pthread_mutex_lock(&pool->lock);
}

static inline void mci_tcp_pool_unlock(struct mci_tcp_pool *pool)
{
    (void)pthread_mutex_unlock(&pool->lock);
}

void mci_tcp_peer_free_if_unused(struct mci_tcp_peer *peer);
/* A connection of the peer is gone, so another may be made. */
void mci_tcp_peer_closed_one(struct mci_tcp_peer *peer);

/* With two references: of the caller, and of who will end it. NULL: no memory.
 * Needs no lock. */
struct mci_tcp_want *mci_tcp_want_create(struct mci_tcp_peer *peer,
                                         uint64_t deadline_ns);
void mci_tcp_want_unref(struct mci_tcp_want *want);
/* Gives up the reference of who ends it. */
void mci_tcp_want_end(struct mci_tcp_want *want, struct mci_tcp_link *link,
                      enum mc_err err);
/* Begins to connect; the peer's open counts it already. */
void mci_tcp_want_start(struct mci_tcp_want *want);
#endif
