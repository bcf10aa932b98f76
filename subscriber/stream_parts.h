/* SPDX-License-Identifier: Apache-2.0 */
/* stream_parts.h - a stream in pieces: stream.c takes messages and hands out
 * what came of them, stream_say.c makes signals of what the cursor finds,
 * stream_event.c applies events, stream_recovery.c takes answers.
 *
 * A message goes through phases: READ (decode it, let the cursor judge it),
 * EVENTS (one after the other), and it may step aside (`waiting`) while the one
 * that was held before it goes first. Signals are queued and always leave before
 * the next event does; what is lost is dropped when it is noticed, before the
 * signals that say so. When a message is done the source's recovery decides what
 * follows from it (DECIDE); that may be to SWEEP the mirror, or to go on with
 * messages that were kept back.
 */
#ifndef STREAM_PARTS_H
#define STREAM_PARTS_H
#include "mirror_past.h"
#include "stream.h"

/* One message or event makes at most gap, epoch, degraded and two stales, and
 * what is decided after it another three. */
#define SIGNALS_MAX 16

enum phase {
    PHASE_IDLE = 0, /* no message */
    PHASE_READ,
    PHASE_EVENTS,
    PHASE_DECIDE,
    PHASE_SWEEP
};

enum letter_kind {
    LETTER_LIVE = 0,
    LETTER_KEPT,   /* it was live, and kept back */
    LETTER_REPLAY, /* fetched */
    LETTER_ROWS    /* of a snapshot */
};

struct letter {
    enum letter_kind kind;
    uint32_t place; /* live: where it came from */
    struct mc_view frames[STREAM_FRAMES_MAX];
    size_t count;
};

struct stream {
    struct stream_opts opts;
    struct follower *followers;
    struct mc_event *events;               /* max_events views */
    struct mc_engine_event *engine_events; /* beside them; NULL: no engines */
    bool *is_deferred; /* per event: the index has not heard of it */
    enum phase phase;
    uint32_t source;
    uint64_t now_ns;
    struct letter letter;
    bool is_waiting;           /* waiting follows when letter is done */
    struct letter waiting;     /* then letter is the one that was held */
    struct kept_message *kept; /* the letter points into it; or NULL */
    struct mc_event_batch batch;
    uint8_t seq_bytes[8]; /* of a letter that came without */
    bool is_next;         /* replay: its number was not seen before */
    uint64_t base_id;     /* else: the id before its first event */
    uint32_t at;          /* the next event */
    uint32_t pairs_from;  /* events before it were dropped */
    bool is_judged;       /* the cursor has seen the event at `at` */
    bool is_second_try;   /* there was no room for it once */
    bool is_over;         /* its place was emptied for it, which was told */
    struct mirror_sweep sweep;
    struct mc_signal signals[SIGNALS_MAX];
    size_t signal_at;
    size_t signal_count;
    struct mc_signal signal; /* as handed out */
    struct mc_delivery delivery;
    struct mc_event derived; /* what delivery.event points to where no event
                                said so */
};

static inline struct follower *stream_follower(struct stream *stream)
{
    return &stream->followers[stream->source];
}

/* ---- stream_say.c ----------------------------------------------------- */

void stream_degraded(struct stream *stream, enum mc_degraded_cause cause);
void stream_refused(struct stream *stream, enum mc_event_error reason,
                    uint32_t offset, uint64_t seq);
void stream_recovered(struct stream *stream, bool by_snapshot);
void stream_lost_tail(struct stream *stream, uint64_t from_seq,
                      uint64_t to_seq);
/* What the source holds goes, and that is said if it held something. */
void stream_drop(struct stream *stream, uint64_t seq);
/* The same, because the source has to begin anew: it asks for a snapshot where
 * it can. */
void stream_restart(struct stream *stream, uint64_t seq);
/* Says what the cursor found: gap, epoch. */
void stream_tell(struct stream *stream, const struct cursor_finding *finding);
/* The same, and acts on it. */
void stream_heed(struct stream *stream, const struct cursor_finding *finding);

/* ---- stream.c --------------------------------------------------------- */

/* Looks at a letter that was put in place. */
void stream_read(struct stream *stream);
void stream_begin_events(struct stream *stream);
/* The message is done. */
void stream_finish(struct stream *stream);

/* ---- stream_event.c --------------------------------------------------- */

/* One step on: signals may have been pushed, or a delivery is to be handed out
 * (true). */
bool stream_take_event(struct stream *stream);
/* Fills in a `removed` that no event said. */
void stream_derive(struct stream *stream, const struct mirror_row *row,
                   uint64_t event_id);

/* ---- stream_recovery.c ------------------------------------------------ */

/* A message that was read, of a source that recovers: true if it was dealt with
 * here, and is not for the cursor. */
bool stream_divert(struct stream *stream, const struct cursor_message *message);
/* The same for one that could not be read. */
bool stream_divert_refused(struct stream *stream,
                           const struct mc_event_fault *fault);
/* What follows from what was done; leaves PHASE_DECIDE. */
void stream_decide(struct stream *stream);
/* As stream_take_event; leaves PHASE_SWEEP at the end. */
bool stream_sweep(struct stream *stream);
/* The mirror can keep no more of the past. */
void stream_crowded(struct stream *stream);
#endif
