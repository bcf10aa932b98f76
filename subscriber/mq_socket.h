/* SPDX-License-Identifier: Apache-2.0 */
/* mq_socket.h - the door to ZeroMQ: the sockets of a subscriber, their options
 * and keys, and messages read from them without copying.
 *
 * Threads: a socket lives and dies on one; keys are read by any.
 */
#ifndef MQ_SOCKET_H
#define MQ_SOCKET_H
#include <stdbool.h>
#include <zmq.h>

#include "mc_err.h"
#include "mc_subscriber.h"
#include "mci_curve_file.h"

/* CURVE keys of a source; server empty: in the clear. */
struct mq_keys {
    char server[MCI_CURVE_KEY_LEN + 1];
    struct mci_curve_pair pair;
};

/* Errors: MC_ERR_INVALID_PARAMS (one without the other, or no key), those of
 * mci_curve_pair_read; each with a line in the log. */
MC_CHECK_RESULT enum mc_err mq_keys_read(const struct mc_source_opts *source,
                                         struct mq_keys *keys_out);
void mq_keys_wipe(struct mq_keys *keys);

/* A SUB socket that wants topics that begin so (NULL: all), a DEALER, with the
 * bounds on what waits in them; not yet connected. The caller closes them with
 * mq_close. NULL after a line in the log. */
void *mq_open_sub(void *context, const struct mq_keys *keys, const char *topic);
void *mq_open_dealer(void *context, const struct mq_keys *keys);

/* Errors: MC_ERR_INVALID_PARAMS, with a line in the log. */
MC_CHECK_RESULT enum mc_err mq_connect(void *socket, const char *endpoint);

/* libzmq gives a connection up for good when its peer breaks the protocol, or
 * what it said was altered under CURVE: makes it anew. False: it cannot be
 * tried now. */
bool mq_connect_again(void *socket, const char *endpoint);

/* A socket on which is told when connections of that one are made, lost or
 * refused, and that libzmq tries again by itself; name is one that no other in the context has. NULL after a line in the log. */
void *mq_open_monitor(void *context, void *socket, const char *name);

void mq_close(void *socket); /* NULL is fine */

/* Without waiting: reads one message whole and keeps as many of its frames as
 * there is room for, in parts, which the caller then closes with mq_drop; the
 * rest is read away. False if there is none. */
bool mq_receive(void *socket, zmq_msg_t *parts, struct mc_view *frames,
                size_t room, size_t *count_out);
void mq_drop(zmq_msg_t *parts, size_t count);

/* The number of a monitor's next event; false if there is none. */
bool mq_receive_word(void *monitor, unsigned *event_out);

/* Without waiting; false where there is no room, or no memory. */
bool mq_send(void *socket, const struct mc_view *frames, size_t count);
#endif
