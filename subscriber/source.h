/* SPDX-License-Identifier: Apache-2.0 */
/* source.h - one thread that reads one SUB socket per publisher and hands
 * messages on, with word of every new connection before the first message that
 * came over it; asks recovery servers and hands on their answers; and wakes who
 * delivers when that was asked for.
 *
 * Either the messages go through a bounded queue to a taker on another thread,
 * or, with on_message, straight to that function on the reading thread. When the
 * queue is full the sockets are not read: libzmq's own queue fills, then the
 * publisher's, which drops, and that shows as a gap; answers wait at their
 * server. All that is handed on comes in one order, through one queue.
 * Threads: open and close: one; take, rest, give_back, ask, credit, drop and
 * wake_at: one at a time, which with on_message is the reading thread, in that
 * function; numbers: any. The sockets live and die on the reading thread.
 */
#ifndef SOURCE_H
#define SOURCE_H
#include "inbox.h"
#include "mc_subscriber.h"
#include "recovery_answer.h"

#define SOURCE_FRAMES_MAX 4 /* frames of a message that are kept */
/* Of an answer, behind the delimiter: one more than any can have. */
#define SOURCE_ANSWER_FRAMES_MAX 5

#define SOURCE_REQUESTS_MAX 8 /* of one source at a time */

struct source_set;

enum source_word {
    SOURCE_MESSAGE = 0, /* of the publisher: frames */
    SOURCE_CONNECT,     /* a new connection to it */
    SOURCE_ANSWER,      /* to request `request`: frames, without the delimiter;
                           none: it could not be asked, or it had none */
    SOURCE_TICK         /* the time of source_wake_at has come; of no source */
};

/* Frames are borrowed. */
struct source_message {
    struct inbox_letter letter; /* letter.source says whose it is */
    enum source_word word;
    uint64_t request;
    size_t count;
    struct mc_view frames[SOURCE_ANSWER_FRAMES_MAX];
};

typedef void (*source_message_fn)(void *ctx,
                                  const struct source_message *message);

struct source_opts {
    const struct mc_source_opts *sources; /* borrowed for the call */
    uint32_t source_count;
    uint64_t max_queue_bytes;
    source_message_fn on_message; /* NULL: through the queue; else *set_out is
                                     set when it is called first */
    void *ctx;
};

struct source_numbers {
    bool is_connected;
    uint64_t connects;
    uint64_t disconnects;
    struct inbox_load queue;
};

/* Connects all sources that have an endpoint and starts to read; waits for
 * neither. Recovery servers are connected to when they are asked. Errors:
 * MC_ERR_INVALID_PARAMS (an endpoint that ZeroMQ refuses, with a line in the
 * log), MC_ERR_NOMEM, MC_ERR_INTERNAL_ERROR (no descriptors or threads left). */
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

/* Asks the recovery server of request->source; copied. The request is open, and
 * its answers come, until it is dropped, whatever they say: it may be granted
 * credit, and always has to be dropped. After source_drop no answer to it is
 * handed out any more, nor is one that was in the queue. A server that cannot be
 * reached is tried until then. Errors: MC_ERR_INVALID_PARAMS (the source has no
 * recovery server; a request that cannot be; its number is open),
 * MC_ERR_NO_AVAILABLE_HANDLE (SOURCE_REQUESTS_MAX of the source are open
 * or being closed). */
MC_CHECK_RESULT enum mc_err source_ask(struct source_set *set,
                                       const struct asker_request *request);
/* A number that is not open is passed over. */
void source_credit(struct source_set *set, uint64_t number, uint32_t credit);
void source_drop(struct source_set *set, uint64_t number);

/* Hands on a tick once mci_clock_ns is at or past this time, or up to a
 * millisecond later; replaces the time asked for before. UINT64_MAX: none. Comes
 * only where something is read: a source with an endpoint or a recovery server. */
void source_wake_at(struct source_set *set, uint64_t at_ns);

void source_numbers(struct source_set *set, uint32_t source,
                    struct source_numbers *numbers_out);
#endif
