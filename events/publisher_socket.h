/* SPDX-License-Identifier: Apache-2.0 */
/* publisher_socket.h - the door to libzmq for what is published: an XPUB socket
 * of its own context, bound, that never waits.
 *
 * Messages are copied into libzmq's memory, so no free function of ours runs on
 * its threads.
 * Threads: opened, used and closed by one and the same thread.
 */
#ifndef PUBLISHER_SOCKET_H
#define PUBLISHER_SOCKET_H
#include <stdbool.h>
#include <stdint.h>

#include "mc_err.h"
#include "mc_view.h"
#include "mci_curve_file.h"

struct mci_publisher_socket {
    void *context;
    void *socket;
    uint64_t subscriptions; /* standing now */
    void *door; /* asked for each peer that connects; NULL: all may */
    const struct mci_curve_list *allowed;
};

/* Who may listen. Borrowed: the pair for open, the list as long as the socket
 * is open. */
struct mci_publisher_curve {
    struct mci_curve_pair pair;
    struct mci_curve_list allowed;
};

struct mci_publisher_socket_opts {
    const char *endpoint;
    int mark; /* messages that wait for each subscriber */
    const struct mci_publisher_curve *curve; /* NULL: all may, in the clear */
};

/* Binds; endpoint_out gets the endpoint as bound, cut at its capacity. Logs
 * endpoint and cause of a failure. Errors: MC_ERR_INVALID_PARAMS (the endpoint
 * cannot be bound), MC_ERR_NOMEM (libzmq has no resources left),
 * MC_ERR_NOT_SUPPORTED (ZeroMQ was built without CURVE). */
MC_CHECK_RESULT enum mc_err
mci_publisher_socket_open(struct mci_publisher_socket *socket,
                          const struct mci_publisher_socket_opts *opts,
                          char *endpoint_out, size_t capacity);

/* Waits at most linger_ms for queues of subscribers to run empty. */
void mci_publisher_socket_close(struct mci_publisher_socket *socket,
                                int linger_ms);

/* Takes in what subscribers have said, and lets in those who may; waits up to wait_ms for the first word.
 * True if a new subscription was among it. */
bool mci_publisher_socket_listen(struct mci_publisher_socket *socket,
                                 int wait_ms);

/* Sends one message of three frames, or nothing of it. Errors: MC_ERR_NOMEM,
 * MC_ERR_RPC_FAIL. */
MC_CHECK_RESULT enum mc_err
mci_publisher_socket_send(struct mci_publisher_socket *socket,
                          struct mc_view topic, uint64_t seq,
                          struct mc_view payload);

/* A new pair of CURVE keys as text of 40 characters each. Errors:
 * MC_ERR_NOT_SUPPORTED (libzmq was built without). Any thread. */
#define MCI_CURVE_TEXT_LEN 40
MC_CHECK_RESULT enum mc_err
mci_curve_keypair(char public_out[MCI_CURVE_TEXT_LEN + 1],
                  char secret_out[MCI_CURVE_TEXT_LEN + 1]);
#endif
