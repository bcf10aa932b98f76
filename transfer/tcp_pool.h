/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_pool.h - connections to peers, kept while they are idle.
 *
 * A connection is used by one call at a time. Idle ones are kept up to a number
 * per peer and in all, the longest idle go first; what the peer has closed
 * meanwhile is noticed before it is used again. There are never more than a
 * bound per peer; who comes then waits for one to come back.
 *
 * Connecting happens on a short-lived thread each, so that a call can look after
 * its other connections, its deadline and its cancellation meanwhile, also where
 * the resolver blocks. A connection whose caller has gone stays as an idle one.
 * Nothing is remembered of failures.
 *
 * Threads: any thread.
 */
#ifndef TCP_POOL_H
#define TCP_POOL_H
#include "engine.h"
#include "mci_list.h"
#include "mci_stream.h"
#include "tcp_input.h"

#define MCI_TCP_CONNECT_MS 5000 /* at most, whatever the deadline */

struct mci_tcp_pool;
struct mci_tcp_peer; /* a peer by its endpoint, counted */

struct mci_tcp_link { /* one connection, owned by who took it */
    struct mci_tcp_peer *peer;
    struct mci_stream *stream;
    uint64_t next_number; /* of requests */
    bool was_idle;        /* it has been used before */
    /* of the pool */
    struct mci_link in_peer;
    struct mci_link in_pool;
    uint64_t since_ns;
    struct mci_tcp_input input;
};

/* Somebody waits for a connection. Readable descriptor when it is there. */
struct mci_tcp_want;

MC_CHECK_RESULT enum mc_err mci_tcp_pool_create(struct mc_transfer *transfer,
                                                struct mci_tcp_pool **pool_out);
/* Closes what is idle and waits for connecting threads. Nothing is out. */
void mci_tcp_pool_destroy(struct mci_tcp_pool *pool);

/* Counted. Errors: MC_ERR_INVALID_PARAMS (endpoint), MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mci_tcp_peer_hold(struct mci_tcp_pool *pool,
                                              const char *endpoint,
                                              struct mci_tcp_peer **peer_out);
void mci_tcp_peer_release(struct mci_tcp_peer *peer);

/* A connection at once (*link_out), or a want to wait for (*want_out); the other
 * is NULL. is_fresh: none that was used before. Errors: MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mci_tcp_peer_take(struct mci_tcp_peer *peer,
                                              bool is_fresh,
                                              uint64_t deadline_ns,
                                              struct mci_tcp_link **link_out,
                                              struct mci_tcp_want **want_out);

int mci_tcp_want_fd(const struct mci_tcp_want *want); /* POLLIN: look */
/* True once it is over: the connection or why there is none. */
bool mci_tcp_want_look(struct mci_tcp_want *want,
                       struct mci_tcp_link **link_out, enum mc_err *err_out);
/* Ends it, over or not; a connection that nobody took goes to the pool. */
void mci_tcp_want_drop(struct mci_tcp_want *want);

/* Gives a connection back on which nothing is outstanding. */
void mci_tcp_link_keep(struct mci_tcp_link *link);
/* Breaks it. */
void mci_tcp_link_abort(struct mci_tcp_link *link);
#endif
