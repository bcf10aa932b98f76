/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h - messages in, events and signals out, one at a time and in order.
 *
 * A message is given with stream_take and then asked for until it has no more:
 * each stream_step applies and hands out one event, or says one signal. So a
 * question asked between two steps sees exactly that prefix of the stream. A
 * message is read whole before any of it is applied; it stays the caller's and
 * must live until stream_is_done. No I/O happens here.
 * Threads: one thread at a time, but stream_stats: any thread.
 */
#ifndef STREAM_H
#define STREAM_H
#include "follower.h"

/* Frames that are looked at; a message has three. */
#define STREAM_FRAMES_MAX 4

struct stream;

struct stream_opts {
    uint32_t source_count;
    const struct mc_source_opts *sources; /* borrowed for the call; NULL: stores
                                             all */
    uint32_t max_events;                  /* of one message */
    uint64_t max_mirror_entries;          /* per source; 0: no mirror */
    uint64_t seed;
    uint64_t patience_ns; /* with recovery servers; 0: the default */
    struct index_sink sink;
    mc_event_fn on_event; /* any may be NULL */
    mc_signal_fn on_signal;
    mc_message_fn on_message;
    void *ctx;
};

/* Errors: MC_ERR_INVALID_PARAMS (names of an engine), MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err stream_create(const struct stream_opts *opts,
                                          struct stream **stream_out);
void stream_destroy(struct stream *stream); /* NULL is fine */

/* Takes a message of a source when the one before is done. Frames over
 * STREAM_FRAMES_MAX are not looked at. */
void stream_take(struct stream *stream, uint32_t source,
                 const struct mc_view *frames, size_t count, uint64_t now_ns);

/* The same for one of several publishers that a source may have, below
 * PLACES_MAX; stream_take is for the first. */
void stream_take_from(struct stream *stream, uint32_t source, uint32_t place,
                      const struct mc_view *frames, size_t count,
                      uint64_t now_ns);

/* The connection of a source, to one of its places, is a new one. Taken as a
 * message is. */
void stream_connected(struct stream *stream, uint32_t source, uint32_t place,
                      uint64_t now_ns);

/* The place whose publisher is followed, and asked. */
uint32_t stream_place(const struct stream *stream, uint32_t source);

/* ---- recovering: taken as messages are, and followed by orders */

/* An answer to a request; nothing happens if it is not open any more. */
void stream_take_answer(struct stream *stream, uint32_t source,
                        uint64_t request, const struct mc_view *frames,
                        size_t count, uint64_t now_ns);
/* Time has passed, for a source. */
void stream_take_tick(struct stream *stream, uint32_t source, uint64_t now_ns);
/* When a tick is due; UINT64_MAX: never. */
uint64_t stream_wake_at(const struct stream *stream);
/* What is to be asked, granted or dropped next; false: nothing. */
bool stream_next_order(struct stream *stream, uint32_t *source_out,
                       struct recovery_order *order_out);
/* It could not be carried out. */
void stream_order_failed(struct stream *stream, uint32_t source,
                         uint64_t request, uint64_t now_ns);

/* ---- */

/* The next event or signal, after its callback has run; false when the message
 * is done and may go. What item_out points at lives until the next call. */
bool stream_step(struct stream *stream, struct mc_subscriber_item *item_out);

/* Nothing is left to be handed out. The last item's views may still point into
 * the message. */
bool stream_is_done(const struct stream *stream);

/* NULL if none is kept. */
const struct mirror *stream_mirror(const struct stream *stream,
                                   uint32_t source);

/* Fills in what is counted here and leaves the rest. */
void stream_stats(const struct stream *stream, uint32_t source,
                  struct mc_source_stats *stats_out);
#endif
