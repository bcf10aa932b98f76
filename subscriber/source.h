/* SPDX-License-Identifier: Apache-2.0 */
/* source.h - one thread that reads one SUB socket per publisher and hands
 * messages on, with word of every new connection before the first message that
 * came over it.
 *
 * Either the messages go through a bounded queue to a taker on another thread,
 * or, with on_message, straight to that function on the reading thread. When the
 * queue is full the sockets are not read: libzmq's own queue fills, then the
 * publisher's, which drops, and that shows as a gap.
 * Threads: open and close: one; take, rest, give_back: one at a time; numbers:
 * any. The sockets live and die on the reading thread.
 */
#ifndef SOURCE_H
#define SOURCE_H
#include "inbox.h"
#include "mc_subscriber.h"

#define SOURCE_FRAMES_MAX 4 /* frames of a message that are kept */

struct source_set;

/* is_connect: no message, a new connection. Frames are borrowed. */
struct source_message {
    struct inbox_letter letter; /* letter.source says whose it is */
    bool is_connect;
    size_t count;
    struct mc_view frames[SOURCE_FRAMES_MAX];
};

typedef void (*source_message_fn)(void *ctx,
                                  const struct source_message *message);

struct source_opts {
    const struct mc_source_opts *sources; /* borrowed for the call */
    uint32_t source_count;
    uint64_t max_queue_bytes;
    source_message_fn on_message; /* NULL: through the queue */
    void *ctx;
};

struct source_numbers {
    bool is_connected;
    uint64_t connects;
    uint64_t disconnects;
    struct inbox_load queue;
};

/* Connects all sources that have an endpoint and starts to read; waits for
 * neither. Errors: MC_ERR_INVALID_PARAMS (an endpoint that ZeroMQ refuses, with
 * a line in the log), MC_ERR_NOMEM, MC_ERR_INTERNAL_ERROR (no descriptors or
 * threads left). */
MC_CHECK_RESULT enum mc_err source_open(const struct source_opts *opts,
                                        struct source_set **set_out);
/* Stops, joins, frees; what stands in the queue is dropped. NULL is fine. */
void source_close(struct source_set *set);

int source_fd(const struct source_set *set);
uint64_t source_count(struct source_set *set); /* messages in the queue */

/* The next message, NULL if there is none. source_rest: nothing is left to be
 * done with it, though it is still looked at; source_give_back ends that. */
struct source_message *source_take(struct source_set *set);
void source_rest(struct source_set *set);
void source_give_back(struct source_set *set, struct source_message *message);

void source_numbers(struct source_set *set, uint32_t source,
                    struct source_numbers *numbers_out);
#endif
