/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_server.h - the owner's side of bytes over tcp: threads, and who is inside.
 *
 * A few threads, each with a poller, own the connections; a connection never
 * changes its thread, and only its thread touches memory on its behalf or closes
 * it. So whoever closes an attempt, or gives memory up, first lets the checks
 * refuse it and then has every thread look once at what its connections are in
 * the middle of (a sweep): what would be refused now is cut off. When all have
 * looked, nobody is inside.
 *
 * A final write must do the same before its receipt goes out. So that it need
 * not trouble the other threads each time, connections that are receiving a
 * write are counted by attempt (hashed): entering counts first and checks then,
 * closing closes first and looks at the count then.
 *
 * Threads: create, sweep and destroy from any thread, the rest as said.
 */
#ifndef TCP_SERVER_H
#define TCP_SERVER_H
#include "engine.h"
#include "mci_list.h"
#include "mci_poller.h"

#define MCI_TCP_THREADS_MAX 64
#define MCI_TCP_CONNECTIONS_MAX 4096
#define MCI_TCP_INSIDE 1024 /* counters; power of two */

struct mci_tcp_server;
struct mci_tcp_conn; /* tcp_conn.h */

struct mci_tcp_thread { /* touched by its own thread only */
    struct mci_tcp_server *server;
    struct mci_poller *poller;
    struct mci_link conns;
    struct mci_link eager; /* conns that stopped for the sake of others */
    uint64_t look_ns;      /* when to look for stalled conns */
};

struct mci_tcp_server {
    struct mc_transfer *transfer;
    uint32_t conns_max;
    _Atomic uint32_t conn_count;
    _Atomic int is_closing;
    pthread_mutex_t sweep_lock; /* of the sweep that is kept ready */
    struct mci_tcp_sweep *sweep;
    /* Requests that have ended, on any thread: what one did to lent memory comes
     * before what begins after it. */
    _Atomic uint64_t ended;
    _Atomic uint32_t inside[MCI_TCP_INSIDE];
    uint32_t thread_count;
    struct mci_tcp_thread threads[MCI_TCP_THREADS_MAX];
    /* of the first thread */
    struct mci_watch listener;
    struct mci_task listen;
    uint32_t next_thread;
    uint64_t listen_again_ns; /* 0: listening */
    uint16_t port;
};

/* Listens as the engine's options say. Errors:
 * MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS (port), MC_ERR_INVALID_PARAMS (address),
 * MC_ERR_NOMEM, MC_ERR_INTERNAL_ERROR; each with a line in the log. */
MC_CHECK_RESULT enum mc_err
mci_tcp_server_create(struct mc_transfer *transfer,
                      struct mci_tcp_server **server_out);
void mci_tcp_server_destroy(struct mci_tcp_server *server); /* NULL is fine */

/* Every thread cuts off what is refused by now and everything that is inside
 * `gone` (may be NULL); returns when all have. Not from a server's thread. */
void mci_tcp_server_sweep(struct mci_tcp_server *server,
                          const struct mci_exposed *gone);

/* The same without waiting, for a connection, on its thread: it is told by
 * mci_tcp_conn_swept there. Errors: MC_ERR_NOMEM. */
struct mci_tcp_sweep;
MC_CHECK_RESULT enum mc_err
mci_tcp_server_sweep_for(struct mci_tcp_thread *thread,
                         struct mci_tcp_conn *conn,
                         struct mci_tcp_sweep **sweep_out);
/* The connection has gone and will not be told. */
void mci_tcp_sweep_forget(struct mci_tcp_sweep *sweep);

/* The counter of an attempt. */
_Atomic uint32_t *mci_tcp_server_inside(struct mci_tcp_server *server,
                                        uint64_t registration,
                                        uint64_t attempt);
#endif
