/* SPDX-License-Identifier: Apache-2.0 */
/* follower_rig.h - a subscriber for tests: a plain SUB socket, and what it
 * received read by the strict reader.
 */
#ifndef FOLLOWER_RIG_H
#define FOLLOWER_RIG_H
#include <check.h>
#include <stdbool.h>
#include <string.h>
#include <zmq.h>

#include "mc_event.h"

#define FOLLOWER_WAIT_MS 20000 /* for a message that must come */

struct follower {
    void *context;
    void *socket;
    /* The message received last. */
    zmq_msg_t frames[3];
    bool has_message;
    struct mc_view views[3];
    struct mc_event_batch batch;
    struct mc_event events[MC_BATCH_EVENTS_MAX];
    /* What came so far. */
    uint64_t last_seq;
    uint64_t last_id;
    uint64_t messages;
    uint64_t event_count;
    uint64_t seq_gaps; /* numbers missing between messages */
    uint64_t id_gaps;  /* ids missing between messages */
    uint64_t faults;   /* what must never be */
};

static inline void follower_open_filtered(struct follower *follower,
                                          const char *endpoint,
                                          const char *filter, int mark)
{
    const int linger = 0;
    memset(follower, 0, sizeof *follower);
    follower->context = zmq_ctx_new();
    ck_assert_ptr_nonnull(follower->context);
    follower->socket = zmq_socket(follower->context, ZMQ_SUB);
    ck_assert_ptr_nonnull(follower->socket);
    (void)zmq_setsockopt(follower->socket, ZMQ_RCVHWM, &mark, sizeof mark);
    (void)zmq_setsockopt(follower->socket, ZMQ_LINGER, &linger, sizeof linger);
    ck_assert_int_eq(
        zmq_setsockopt(follower->socket, ZMQ_SUBSCRIBE, filter, strlen(filter)),
        0);
    ck_assert_int_eq(zmq_connect(follower->socket, endpoint), 0);
}

static inline void follower_open(struct follower *follower,
                                 const char *endpoint)
{
    follower_open_filtered(follower, endpoint, "", 0);
}

static inline void follower_drop_message(struct follower *follower)
{
    for (int i = 0; follower->has_message && i < 3; i++) {
        (void)zmq_msg_close(&follower->frames[i]);
    }
    follower->has_message = false;
}

static inline void follower_close(struct follower *follower)
{
    follower_drop_message(follower);
    (void)zmq_close(follower->socket);
    (void)zmq_ctx_term(follower->context);
}

static inline bool follower_fetch(struct follower *follower, int wait_ms)
{
    follower_drop_message(follower);
    (void)zmq_setsockopt(follower->socket, ZMQ_RCVTIMEO, &wait_ms,
                         sizeof wait_ms);
    for (int i = 0; i < 3; i++) {
        zmq_msg_t *frame = &follower->frames[i];
        (void)zmq_msg_init(frame);
        if (zmq_msg_recv(frame, follower->socket, 0) < 0) {
            return false;
        }
        follower->faults += zmq_msg_more(frame) != (i < 2);
        follower->views[i] =
            mc_view_make(zmq_msg_data(frame), zmq_msg_size(frame));
    }
    follower->has_message = true;
    return true;
}

/* Numbers rise, ids within a message have no hole, and ids are missing only
 * where numbers are. */
static inline void follower_account(struct follower *follower)
{
    const struct mc_event_batch *batch = &follower->batch;
    uint64_t seq_gap = 0;
    if (follower->messages > 0) {
        follower->faults += batch->seq <= follower->last_seq;
        seq_gap = batch->seq - follower->last_seq - 1;
    }
    for (uint32_t i = 0; i < batch->count; i++) {
        uint64_t id = follower->events[i].event_id;
        uint64_t gap = 0;
        if (follower->event_count > 0) {
            follower->faults += id <= follower->last_id;
            gap = id - follower->last_id - 1;
        }
        follower->faults += gap > 0 && (i > 0 || seq_gap == 0);
        follower->id_gaps += gap;
        follower->last_id = id;
        follower->event_count++;
    }
    follower->seq_gaps += seq_gap;
    follower->last_seq = batch->seq;
    follower->messages++;
}

/* Receives and reads one message; false if none comes. */
static inline bool follower_next(struct follower *follower, int wait_ms)
{
    if (!follower_fetch(follower, wait_ms)) {
        return false;
    }
    follower->faults +=
        mc_event_read(follower->views, 3, follower->events, MC_BATCH_EVENTS_MAX,
                      &follower->batch, NULL) != MC_EVENT_OK;
    follower->faults += follower->batch.refused;
    follower_account(follower);
    return true;
}

/* Reads until an id has come. */
static inline void follower_reach(struct follower *follower, uint64_t id)
{
    while (follower->last_id < id) {
        ck_assert_msg(follower_next(follower, FOLLOWER_WAIT_MS),
                      "nothing came after id %ju",
                      (uintmax_t)follower->last_id);
    }
    ck_assert_uint_eq(follower->faults, 0);
}

#endif
