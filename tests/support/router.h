/* SPDX-License-Identifier: Apache-2.0 */
/* router.h - a recovery server for tests that says what it is told to: a ROUTER
 * on 127.0.0.1, in a context of its own, that can die and come back on the same
 * port.
 */
#ifndef ROUTER_H
#define ROUTER_H
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <zmq.h>

#include "await.h"
#include "mc_view.h"

#define ROUTER_WAIT_MS 20000
#define ROUTER_FRAMES_MAX 4

struct router {
    void *context;
    void *socket;
    const char *secret_key; /* NULL: in the clear */
    char endpoint[64];
};

/* What was heard, the delimiter first, and from whom. */
struct router_heard {
    zmq_msg_t name;
    zmq_msg_t parts[ROUTER_FRAMES_MAX];
    struct mc_view peer;
    size_t count;
    struct mc_view frames[ROUTER_FRAMES_MAX];
};

static inline void router_bind(struct router *router)
{
    const int zero = 0;
    const int one = 1;
    const int wait = ROUTER_WAIT_MS;
    router->context = zmq_ctx_new();
    ck_assert_ptr_nonnull(router->context);
    router->socket = zmq_socket(router->context, ZMQ_ROUTER);
    ck_assert_ptr_nonnull(router->socket);
    (void)zmq_setsockopt(router->socket, ZMQ_SNDHWM, &zero, sizeof zero);
    (void)zmq_setsockopt(router->socket, ZMQ_LINGER, &zero, sizeof zero);
    (void)zmq_setsockopt(router->socket, ZMQ_ROUTER_MANDATORY, &one,
                         sizeof one);
    (void)zmq_setsockopt(router->socket, ZMQ_RCVTIMEO, &wait, sizeof wait);
    if (router->secret_key) {
        (void)zmq_setsockopt(router->socket, ZMQ_CURVE_SERVER, &one,
                             sizeof one);
        (void)zmq_setsockopt(router->socket, ZMQ_CURVE_SECRETKEY,
                             router->secret_key, 41);
    }
    ck_assert(AWAIT(zmq_bind(router->socket, router->endpoint) == 0));
}

/* On a free port. */
static inline void router_open_secret(struct router *router,
                                      const char *secret_key)
{
    size_t len = sizeof router->endpoint;
    router->secret_key = secret_key;
    (void)snprintf(router->endpoint, len, "tcp://127.0.0.1:*");
    router_bind(router);
    ck_assert_int_eq(zmq_getsockopt(router->socket, ZMQ_LAST_ENDPOINT,
                                    router->endpoint, &len),
                     0);
}

static inline void router_open(struct router *router)
{
    router_open_secret(router, NULL);
}

static inline void router_close(struct router *router)
{
    (void)zmq_close(router->socket);
    (void)zmq_ctx_term(router->context);
}

static inline bool router_has_heard(const struct router *router)
{
    zmq_pollitem_t item = {.socket = router->socket, .events = ZMQ_POLLIN};
    return zmq_poll(&item, 1, 0) == 1;
}

/* Waits for the next message; router_forget ends it. */
static inline void router_hear(struct router *router,
                               struct router_heard *heard)
{
    (void)zmq_msg_init(&heard->name);
    ck_assert_int_ge(zmq_msg_recv(&heard->name, router->socket, 0), 0);
    heard->peer =
        mc_view_make(zmq_msg_data(&heard->name), zmq_msg_size(&heard->name));
    bool has_more = zmq_msg_more(&heard->name) != 0;
    for (heard->count = 0; has_more; heard->count++) {
        ck_assert_uint_lt(heard->count, ROUTER_FRAMES_MAX);
        zmq_msg_t *part = &heard->parts[heard->count];
        (void)zmq_msg_init(part);
        ck_assert_int_ge(zmq_msg_recv(part, router->socket, 0), 0);
        heard->frames[heard->count] =
            mc_view_make(zmq_msg_data(part), zmq_msg_size(part));
        has_more = zmq_msg_more(part) != 0;
    }
}

static inline void router_forget(struct router_heard *heard)
{
    (void)zmq_msg_close(&heard->name);
    for (size_t i = 0; i < heard->count; i++) {
        (void)zmq_msg_close(&heard->parts[i]);
    }
}

/* False if that peer is not there any more. */
static inline bool router_try(struct router *router,
                              const struct router_heard *to,
                              const struct mc_view *frames, size_t count)
{
    if (zmq_send(router->socket, to->peer.data, to->peer.len, ZMQ_SNDMORE) <
        0) {
        ck_assert_int_eq(zmq_errno(), EHOSTUNREACH);
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        int flags = i + 1 < count ? ZMQ_SNDMORE : 0;
        ck_assert_int_eq(
            zmq_send(router->socket, frames[i].data, frames[i].len, flags),
            (int)frames[i].len);
    }
    return true;
}

static inline void router_send(struct router *router,
                               const struct router_heard *to,
                               const struct mc_view *frames, size_t count)
{
    ck_assert(router_try(router, to, frames, count));
}

/* The delimiter and one frame. */
static inline bool router_try_text(struct router *router,
                                   const struct router_heard *to,
                                   const char *text)
{
    const struct mc_view frames[2] = {mc_view_str(""), mc_view_str(text)};
    return router_try(router, to, frames, 2);
}

static inline void router_say(struct router *router,
                              const struct router_heard *to, const char *text)
{
    ck_assert(router_try_text(router, to, text));
}
#endif
