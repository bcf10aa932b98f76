/* SPDX-License-Identifier: Apache-2.0 */
/* publisher_socket.h - the socket on which events are published, and how many
 * subscriptions stand.
 *
 * Threads: opened, used and closed by one and the same thread.
 */
#ifndef PUBLISHER_SOCKET_H
#define PUBLISHER_SOCKET_H
#include "zmq_socket.h"

struct mci_publisher_socket {
    struct mci_zmq_socket zmq;
    uint64_t subscriptions; /* standing now */
    bool has_words;         /* there is more to listen to: do not wait */
};

struct mci_publisher_socket_opts {
    const char *endpoint;
    int mark; /* messages that wait for each subscriber */
    const struct mci_zmq_curve *curve; /* NULL: all may, in the clear */
};

/* As mci_zmq_open, and so the errors. */
MC_CHECK_RESULT enum mc_err
mci_publisher_socket_open(struct mci_publisher_socket *socket,
                          const struct mci_publisher_socket_opts *opts,
                          char *endpoint_out, size_t capacity);

/* Waits at most linger_ms for queues of subscribers to run empty. */
void mci_publisher_socket_close(struct mci_publisher_socket *socket,
                                int linger_ms);

/* Takes in what subscribers have said, and lets in those who may; waits up to
 * wait_ms for the first word. True if a new subscription was among it. */
bool mci_publisher_socket_listen(struct mci_publisher_socket *socket,
                                 int wait_ms);

/* Sends one message of three frames, or nothing of it. Errors: MC_ERR_NOMEM,
 * MC_ERR_RPC_FAIL. */
MC_CHECK_RESULT enum mc_err
mci_publisher_socket_send(struct mci_publisher_socket *socket,
                          struct mc_view topic, uint64_t seq,
                          struct mc_view payload);
#endif
