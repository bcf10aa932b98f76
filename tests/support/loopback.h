/* SPDX-License-Identifier: Apache-2.0 */
/* loopback.h - a publisher for tests: a socket on 127.0.0.1, in a context of its
 * own, that knows when it has a subscriber and can die and come back on the same
 * port.
 */
#ifndef LOOPBACK_H
#define LOOPBACK_H
#include <check.h>
#include <errno.h>
#include <zmq.h>

#include "await.h"
#include "mc_view.h"

#define LOOPBACK_WAIT_MS 20000

struct loopback {
    void *context;
    void *socket;
    char endpoint[64];
};

static inline void loopback_bind(struct loopback *loopback)
{
    const int unbounded = 0;
    const int wait = LOOPBACK_WAIT_MS;
    const int every = 1; /* subscription is told, not the first one alone */
    loopback->context = zmq_ctx_new();
    ck_assert_ptr_nonnull(loopback->context);
    loopback->socket = zmq_socket(loopback->context, ZMQ_XPUB);
    ck_assert_ptr_nonnull(loopback->socket);
    (void)zmq_setsockopt(loopback->socket, ZMQ_SNDHWM, &unbounded,
                         sizeof unbounded);
    (void)zmq_setsockopt(loopback->socket, ZMQ_LINGER, &unbounded,
                         sizeof unbounded);
    (void)zmq_setsockopt(loopback->socket, ZMQ_RCVTIMEO, &wait, sizeof wait);
    (void)zmq_setsockopt(loopback->socket, ZMQ_XPUB_VERBOSE, &every,
                         sizeof every);
    ck_assert(AWAIT(zmq_bind(loopback->socket, loopback->endpoint) == 0));
}

/* On a free port. */
static inline void loopback_open(struct loopback *loopback)
{
    size_t len = sizeof loopback->endpoint;
    (void)snprintf(loopback->endpoint, len, "tcp://127.0.0.1:*");
    loopback_bind(loopback);
    ck_assert_int_eq(zmq_getsockopt(loopback->socket, ZMQ_LAST_ENDPOINT,
                                    loopback->endpoint, &len),
                     0);
}

/* Waits until somebody has subscribed; every one who does is told once. */
static inline void loopback_await_subscriber(struct loopback *loopback)
{
    char word[64];
    int len = zmq_recv(loopback->socket, word, sizeof word, 0);
    ck_assert_int_gt(len, 0);
    ck_assert_int_eq(word[0], 1);
}

static inline void loopback_send(struct loopback *loopback,
                                 const struct mc_view *frames, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int sent = zmq_send(loopback->socket, frames[i].data, frames[i].len,
                            i + 1 < count ? ZMQ_SNDMORE : 0);
        ck_assert_int_eq(sent, (int)frames[i].len);
    }
}

/* What it has sent and nobody has read yet may be lost. */
static inline void loopback_close(struct loopback *loopback)
{
    (void)zmq_close(loopback->socket);
    (void)zmq_ctx_term(loopback->context);
}
#endif
