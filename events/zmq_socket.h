/* SPDX-License-Identifier: Apache-2.0 */
/* zmq_socket.h - the door to libzmq: a bound socket of its own context, which
 * never waits to send, and who may come in.
 *
 * Messages are copied into libzmq's memory, so no free function of ours runs on
 * its threads.
 * Threads: opened, used and closed by one and the same thread.
 */
#ifndef ZMQ_SOCKET_H
#define ZMQ_SOCKET_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mc_err.h"
#include "mc_view.h"
#include "mci_curve_file.h"

/* Who may come in. Borrowed: the pair for open, the list as long as the socket
 * is open. */
struct mci_zmq_curve {
    struct mci_curve_pair pair;
    struct mci_curve_list allowed;
};

enum mci_zmq_kind {
    MCI_ZMQ_PUBLISHES, /* XPUB; says every subscription and its end */
    MCI_ZMQ_ANSWERS    /* ROUTER; who is not there is told as such */
};

struct mci_zmq_opts {
    enum mci_zmq_kind kind;
    const char *what; /* "publisher": for the log; constant */
    const char *endpoint;
    int mark;         /* messages that wait for each peer */
    int64_t word_max; /* bytes of a frame from a peer; more cuts it off */
    const struct mci_zmq_curve *curve; /* NULL: all may, in the clear */
};

struct mci_zmq_socket {
    void *context;
    void *socket;
    const char *what;
    void *door; /* asked for each peer that connects; NULL: all may */
    const struct mci_curve_list *allowed;
};

/* Binds; endpoint_out gets the endpoint as bound, cut at its capacity. Logs
 * endpoint and cause of a failure. Errors: MC_ERR_INVALID_PARAMS (the endpoint
 * cannot be bound), MC_ERR_NOMEM (libzmq has no resources left),
 * MC_ERR_NOT_SUPPORTED (ZeroMQ was built without CURVE). */
MC_CHECK_RESULT enum mc_err mci_zmq_open(struct mci_zmq_socket *socket,
                                         const struct mci_zmq_opts *opts,
                                         char *endpoint_out, size_t capacity);

/* Waits at most linger_ms for queues of peers to run empty. */
void mci_zmq_close(struct mci_zmq_socket *socket, int linger_ms);

/* Lets in those who may; waits up to wait_ms for the first word of a peer, or
 * for libzmq to say that something has changed: true then, and it may be that a
 * queue that was full is not any more. */
bool mci_zmq_wait(struct mci_zmq_socket *socket, int wait_ms);

/* Takes one frame of what peers have said: as much of it as there is room for
 * is copied, *len_out is its whole length. False if there is none. */
bool mci_zmq_receive(struct mci_zmq_socket *socket, uint8_t *room,
                     size_t capacity, size_t *len_out, bool *has_more_out);

enum mci_zmq_sent {
    MCI_ZMQ_SENT,
    MCI_ZMQ_BLOCKED, /* the peer's queue is full */
    MCI_ZMQ_GONE,    /* there is no such peer */
    MCI_ZMQ_NOMEM,
    MCI_ZMQ_FAILED
};
#define MCI_ZMQ_FRAMES_MAX 6

/* Sends one message of 1..MCI_ZMQ_FRAMES_MAX frames, or nothing of it. What is
 * blocked has not been copied. */
enum mci_zmq_sent mci_zmq_send(struct mci_zmq_socket *socket,
                               const struct mc_view *frames, size_t count);

/* A new pair of CURVE keys as text of 40 characters each. Errors:
 * MC_ERR_NOT_SUPPORTED (libzmq was built without). Any thread. */
MC_CHECK_RESULT enum mc_err
mci_curve_keypair(char public_out[MCI_CURVE_KEY_LEN + 1],
                  char secret_out[MCI_CURVE_KEY_LEN + 1]);
#endif
