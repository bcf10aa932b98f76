/* SPDX-License-Identifier: Apache-2.0 */
/* asker_rig.h - one who asks the recovery server: a plain DEALER socket. */
#ifndef ASKER_RIG_H
#define ASKER_RIG_H
#include <check.h>
#include <stdbool.h>
#include <string.h>
#include <zmq.h>

#include "mc_view.h"
#include "mci_bytes.h"

#define ASKER_WAIT_MS 20000 /* for an answer that must come */
#define ASKER_FRAMES_MAX 6

struct asker {
    void *context;
    void *socket;
    /* The answer received last, the delimiter first. */
    zmq_msg_t parts[ASKER_FRAMES_MAX];
    struct mc_view frames[ASKER_FRAMES_MAX];
    size_t count;
};

/* mark: how many answers may wait on its side, 0: any number. */
static inline void asker_open(struct asker *asker, const char *endpoint,
                              int mark)
{
    const int linger = 0;
    memset(asker, 0, sizeof *asker);
    asker->context = zmq_ctx_new();
    ck_assert_ptr_nonnull(asker->context);
    asker->socket = zmq_socket(asker->context, ZMQ_DEALER);
    ck_assert_ptr_nonnull(asker->socket);
    (void)zmq_setsockopt(asker->socket, ZMQ_RCVHWM, &mark, sizeof mark);
    (void)zmq_setsockopt(asker->socket, ZMQ_LINGER, &linger, sizeof linger);
    ck_assert_int_eq(zmq_connect(asker->socket, endpoint), 0);
}

static inline void asker_drop(struct asker *asker)
{
    for (size_t i = 0; i < asker->count; i++) {
        (void)zmq_msg_close(&asker->parts[i]);
    }
    asker->count = 0;
}

static inline void asker_close(struct asker *asker)
{
    asker_drop(asker);
    (void)zmq_close(asker->socket);
    (void)zmq_ctx_term(asker->context);
}

static inline void asker_ask(struct asker *asker, const struct mc_view *frames,
                             size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ck_assert_int_ge(zmq_send(asker->socket, frames[i].data, frames[i].len,
                                  i + 1 < count ? ZMQ_SNDMORE : 0),
                         0);
    }
}

static inline void asker_ask_word(struct asker *asker, const char *word)
{
    const struct mc_view frames[] = {mc_view_str(""), mc_view_str(word)};
    asker_ask(asker, frames, 2);
}

static inline void asker_ask_replay(struct asker *asker, uint64_t start)
{
    uint8_t number[8];
    mci_put_be64(number, start);
    const struct mc_view frames[] = {mc_view_str(""), mc_view_make(number, 8)};
    asker_ask(asker, frames, 2);
}

/* One answer; false if none comes in time. */
static inline bool asker_next(struct asker *asker, int wait_ms)
{
    int more = 1;
    size_t more_len = sizeof more;
    asker_drop(asker);
    (void)zmq_setsockopt(asker->socket, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
    while (more) {
        ck_assert_uint_lt(asker->count, ASKER_FRAMES_MAX);
        zmq_msg_t *part = &asker->parts[asker->count];
        (void)zmq_msg_init(part);
        if (zmq_msg_recv(part, asker->socket, 0) < 0) {
            return false;
        }
        asker->frames[asker->count++] =
            mc_view_make(zmq_msg_data(part), zmq_msg_size(part));
        (void)zmq_getsockopt(asker->socket, ZMQ_RCVMORE, &more, &more_len);
    }
    return true;
}

static inline void asker_must_next(struct asker *asker)
{
    ck_assert_msg(asker_next(asker, ASKER_WAIT_MS), "no answer came");
    ck_assert_uint_eq(asker->frames[0].len, 0);
}

/* Of a replay with four frames. */
static inline uint64_t asker_seq(const struct asker *asker)
{
    ck_assert_uint_eq(asker->count, 4);
    ck_assert_uint_eq(asker->frames[2].len, 8);
    return mci_get_be64(asker->frames[2].data);
}

static inline bool asker_has_end(const struct asker *asker)
{
    return asker->count == 4 && asker_seq(asker) == UINT64_MAX &&
           asker->frames[1].len == 0 && asker->frames[3].len == 0;
}

#endif
