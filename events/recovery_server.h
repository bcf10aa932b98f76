/* SPDX-License-Identifier: Apache-2.0 */
/* recovery_server.h - the thread that carries recovery.h's decisions out: one
 * ROUTER socket, which it alone touches.
 *
 * Messages go without waiting. What a reader has no room for is tried again, when
 * libzmq says that there may be room and after 2 to 64 ms, so its answers are not
 * lost, and nobody else waits for it.
 * Threads: create and destroy by one, stats by any.
 */
#ifndef RECOVERY_SERVER_H
#define RECOVERY_SERVER_H
#include "recovery.h"
#include "zmq_socket.h"

struct mci_recovery_server;

struct mci_recovery_server_opts {
    const char *endpoint;
    const struct mci_zmq_curve
        *curve; /* NULL: all may; borrowed until the end */
    struct mci_recovery_opts recovery; /* what it borrows: until the end */
};

/* Binds and serves. Errors: MC_ERR_INVALID_PARAMS (cannot bind; the log line
 * names endpoint and cause), MC_ERR_NOT_SUPPORTED (no CURVE), MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err
mci_recovery_server_create(const struct mci_recovery_server_opts *opts,
                           struct mci_recovery_server **server_out);

/* Within 200 ms, whatever readers do. NULL is fine. */
void mci_recovery_server_destroy(struct mci_recovery_server *server);

/* As bound; lives as long as the server. */
const char *
mci_recovery_server_endpoint(const struct mci_recovery_server *server);

/* As of about now. */
void mci_recovery_server_stats(struct mci_recovery_server *server,
                               struct mci_recovery_stats *stats_out);
#endif
