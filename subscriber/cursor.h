/* SPDX-License-Identifier: Apache-2.0 */
/* cursor.h - where a reader stands in one publisher's stream, and what each
 * message means from there: next, old, a gap, a new publisher.
 *
 * Two rulers lie beside the stream. Sequence numbers count messages, event ids
 * count events. A publisher that stamps an epoch promises ids that rise by one
 * within it, so there the ids decide: every id up to the mark is settled, an id
 * at or below it is a duplicate, a hole above it a loss, and the sequence
 * numbers say only where messages went missing. A publisher without epochs
 * promises nothing about its ids; there the sequence alone decides, and ids are
 * told but never trusted.
 *
 * The first message is a baseline: what came before it is not known, and not a
 * gap. Every id from the baseline on is then in exactly one state: delivered,
 * refused (seen, not readable) or lost (not seen), and at any moment
 *     delivered + refused + lost = span = sum over epochs (last id - baseline).
 * Refused events at the end of a message have no id of their own yet; they
 * float above the mark until the next event shows their place.
 *
 * A number that is over 2^20 ahead, or behind, is believed only when the next
 * message goes on from it: the message is held back meanwhile. Right after a
 * fresh connection a number behind means a new publisher at once.
 *
 * A cursor that has broken continuity says so (CURSOR_BROKEN) and goes on from
 * the message at hand. A finding names the ids that it passed over, so that they
 * can be fetched; cursor_fetch.h has what is told to the cursor then.
 * Threads: one thread at a time; nothing is allocated.
 */
#ifndef CURSOR_H
#define CURSOR_H
#include <stdbool.h>
#include <stdint.h>

#define CURSOR_FAR (UINT64_C(1) << 20)

/* A message that was read well. */
struct cursor_message {
    uint64_t seq;
    uint64_t now_ns;
    uint32_t count;       /* events in it, refused ones too; 0: a heartbeat */
    bool has_event;       /* one of them at least could be read; then: */
    uint32_t first_index; /* its place */
    uint64_t first_id;    /* its id */
    uint64_t last_id;     /* the highest id of a readable one */
    uint64_t epoch;       /* of the first readable one; 0 = none */
};

enum cursor_verdict {
    CURSOR_NEXT = 0,  /* take its events, each through cursor_event */
    CURSOR_DUPLICATE, /* nothing of it is new */
    CURSOR_HOLD,      /* keep a copy and go on with the next message */
    CURSOR_RELEASE    /* the message that is held comes first: hand it to
                         cursor_release, take its events, then ask again */
};

/* What there is to say, in this order: gap, epoch, broken. */
#define CURSOR_GAP 1u /* from_id..to_id, from_seq..to_seq; 0..0: not known */
#define CURSOR_EPOCH \
    2u                    /* a publisher is followed from here; its ids up to
                             baseline_id came before and are not known */
#define CURSOR_BROKEN 4u  /* what was gathered so far cannot be trusted */
#define CURSOR_DISCARD 8u /* the message that is held was a stray: forget it */
#define CURSOR_MOVED \
    16u /* ids begin anew: those that are missing, and what
                             stands above the new mark, mean nothing now */
#define CURSOR_OLD \
    32u /* ids that are settled, under a number that is new;
                             only where losses are kept */

/* Ids that were passed over, of an epoch: lost, or seen and refused. */
struct cursor_hole {
    uint64_t from_id;
    uint64_t to_id;
    bool is_refused;
};
#define CURSOR_HOLES_MAX 2

struct cursor_finding {
    unsigned what;
    unsigned hole_count; /* also where what is 0: their loss was told before */
    struct cursor_hole holes[CURSOR_HOLES_MAX];
    uint64_t from_id;
    uint64_t to_id;
    uint64_t from_seq;
    uint64_t to_seq;
    uint64_t epoch;
    uint64_t baseline_id;
};

struct cursor {
    bool keeps_losses; /* set by the owner: what is missing may be fetched */
    bool has_baseline; /* a message was accepted */
    bool has_ids;      /* an event was, so epoch and mark mean something */
    bool is_fresh;     /* connected anew since the last message */
    bool is_unread;    /* last_seq belongs to a message that was refused */
    bool has_unread;   /* a message was refused since the last event */
    bool has_open_ids; /* a gap was told whose ids are not known yet */
    bool has_line;     /* line_seq may be where the numbers go on */
    bool is_held;      /* ... and its message is kept back */
    bool is_loose;     /* ids without epoch that do not rise by one */
    uint64_t line_seq;
    uint64_t line_epoch;
    uint64_t epoch; /* 0: the publisher has none */
    uint64_t last_seq;
    uint64_t mark; /* every id up to it is settled */
    uint64_t baseline_id;
    uint64_t floating; /* refused events above the mark */
    uint64_t heard_ns; /* when the last message came */
    /* Counters since the beginning. */
    uint64_t closed_span; /* ids of epochs that are over */
    uint64_t delivered;
    uint64_t refused;
    uint64_t lost;
    uint64_t lost_seqs;
    uint64_t gaps;
    uint64_t restarts;
};

void cursor_init(struct cursor *cursor);

/* The connection is a new one: numbers may begin anew. */
void cursor_connected(struct cursor *cursor);

/* Judges a message that was read. */
enum cursor_verdict cursor_message(struct cursor *cursor,
                                   const struct cursor_message *message,
                                   struct cursor_finding *finding_out);

/* Accepts the message that is held, after CURSOR_RELEASE or when it cannot be
 * kept. */
void cursor_release(struct cursor *cursor, const struct cursor_message *message,
                    struct cursor_finding *finding_out);

/* A message that could not be read. It moves the cursor only if its number is
 * the next one; true then, and finding says broken: it held events. */
bool cursor_message_refused(struct cursor *cursor, bool has_seq, uint64_t seq,
                            struct cursor_finding *finding_out);

/* Judges an event of an accepted message, in order: NEXT (counted as delivered)
 * or DUPLICATE. */
enum cursor_verdict cursor_event(struct cursor *cursor, uint64_t epoch,
                                 uint64_t id,
                                 struct cursor_finding *finding_out);

/* An event of an accepted message that could not be read. */
void cursor_event_refused(struct cursor *cursor);

/* The event just judged NEXT could not be applied: it counts as lost, and that
 * as a gap. */
void cursor_event_lost(struct cursor *cursor);

/* Ids begin anew after `base`, in an epoch of their own or in the old one. For
 * cursor_fetch.c. */
void cursor_rebase(struct cursor *cursor, uint64_t epoch, uint64_t base);

/* Highest id that is settled or known to stand before the next one. */
uint64_t cursor_last_id(const struct cursor *cursor);
uint64_t cursor_refused(const struct cursor *cursor);
uint64_t cursor_span(const struct cursor *cursor);
#endif
