/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of the cursor. Publishers with epochs go by ids (accept_by_ids),
 * the others and messages without events by sequence (accept_by_seq). */
#include "cursor.h"

#include <string.h>

void cursor_init(struct cursor *cursor)
{
    memset(cursor, 0, sizeof *cursor);
}

void cursor_connected(struct cursor *cursor)
{
    cursor->is_fresh = true;
}

uint64_t cursor_last_id(const struct cursor *cursor)
{
    return cursor->mark + cursor->floating;
}

uint64_t cursor_refused(const struct cursor *cursor)
{
    return cursor->refused + cursor->floating;
}

uint64_t cursor_span(const struct cursor *cursor)
{
    if (!cursor->epoch) {
        return cursor->closed_span;
    }
    return cursor->closed_span + cursor_last_id(cursor) - cursor->baseline_id;
}

static bool has_epoch(const struct cursor *cursor)
{
    return cursor->has_ids && cursor->epoch != 0;
}

/* Refused events that floated have found their place. */
static void settle_floating(struct cursor *cursor)
{
    cursor->refused += cursor->floating;
    cursor->floating = 0;
}

/* Where no epoch vouches for ids, what is counted is the span. */
static void count_span(struct cursor *cursor, uint64_t count)
{
    if (!cursor->epoch) {
        cursor->closed_span += count;
    }
}

static void tell_gap(struct cursor *cursor, struct cursor_finding *finding)
{
    if (!(finding->what & CURSOR_GAP)) {
        cursor->gaps++;
    }
    finding->what |= CURSOR_GAP | CURSOR_BROKEN;
}

static void tell_lost_ids(struct cursor *cursor, struct cursor_finding *finding,
                          uint64_t from_id, uint64_t to_id)
{
    tell_gap(cursor, finding);
    finding->from_id = from_id;
    finding->to_id = to_id;
}

/* Ids that are passed over. */
static void note_hole(struct cursor_finding *finding, uint64_t from_id,
                      uint64_t to_id, bool is_refused)
{
    if (to_id >= from_id) {
        finding->holes[finding->hole_count++] =
            (struct cursor_hole){from_id, to_id, is_refused};
    }
}

static void tell_lost_seqs(struct cursor_finding *finding, uint64_t from_seq,
                           uint64_t to_seq)
{
    finding->from_seq = from_seq;
    finding->to_seq = to_seq;
}

void cursor_rebase(struct cursor *cursor, uint64_t epoch, uint64_t base)
{
    uint64_t span = cursor_span(cursor);
    settle_floating(cursor);
    cursor->closed_span = span;
    cursor->epoch = epoch;
    cursor->baseline_id = base;
    cursor->mark = base;
    cursor->has_ids = true;
    cursor->has_unread = false;
    cursor->has_open_ids = false;
    cursor->is_loose = false;
}

static void tell_epoch(const struct cursor *cursor,
                       struct cursor_finding *finding)
{
    finding->what |= CURSOR_EPOCH;
    finding->epoch = cursor->epoch;
    finding->baseline_id = cursor->baseline_id;
}

/* The id before the message's first event, going by its first readable one. */
static uint64_t base_of(const struct cursor_message *message)
{
    uint64_t before = (uint64_t)message->first_index + 1;
    return message->first_id > before ? message->first_id - before : 0;
}

static void move_to(struct cursor *cursor, uint64_t seq)
{
    cursor->last_seq = seq;
    cursor->is_unread = false;
}

static void forget_line(struct cursor *cursor, struct cursor_finding *finding)
{
    if (cursor->is_held) {
        finding->what |= CURSOR_DISCARD;
    }
    cursor->has_line = false;
    cursor->is_held = false;
}

/* The numbers may go on from this message. */
static void draw_line(struct cursor *cursor,
                      const struct cursor_message *message)
{
    cursor->has_line = true;
    cursor->line_seq = message->seq;
    cursor->line_epoch = message->has_event ? message->epoch : cursor->epoch;
}

static enum cursor_verdict hold(struct cursor *cursor,
                                const struct cursor_message *message)
{
    draw_line(cursor, message);
    cursor->is_held = true;
    return CURSOR_HOLD;
}

/* Another publisher, or the same one after a new start. */
static void restart(struct cursor *cursor, const struct cursor_message *message,
                    struct cursor_finding *finding)
{
    cursor->restarts++;
    move_to(cursor, message->seq);
    finding->what |= CURSOR_MOVED;
    if (message->has_event) {
        cursor_rebase(cursor, message->epoch, base_of(message));
        tell_epoch(cursor, finding);
        finding->what |= CURSOR_BROKEN;
        return;
    }
    cursor_rebase(cursor, 0, 0);
    cursor->has_ids = false;
    tell_gap(cursor, finding);
}

/* The first event of a publisher of which only heartbeats were heard. */
static void adopt_ids(struct cursor *cursor,
                      const struct cursor_message *message,
                      struct cursor_finding *finding)
{
    cursor_rebase(cursor, message->epoch, base_of(message));
    tell_epoch(cursor, finding);
}

static bool is_far(const struct cursor *cursor, uint64_t seq)
{
    return seq > cursor->last_seq && seq - cursor->last_seq > CURSOR_FAR;
}

static bool is_next(const struct cursor *cursor, uint64_t seq)
{
    if (cursor->is_unread && seq == cursor->last_seq) {
        return true; /* the number was taken by what could not be read */
    }
    return seq > cursor->last_seq && seq - cursor->last_seq == 1;
}

/* Takes the numbers in between as lost; false if there are none. */
static bool skip_seqs(struct cursor *cursor, uint64_t seq,
                      struct cursor_finding *finding)
{
    uint64_t from = cursor->last_seq + 1;
    bool is_gap = !is_next(cursor, seq);
    if (is_gap) {
        cursor->lost_seqs += seq - from;
        tell_lost_seqs(finding, from, seq - 1);
    }
    move_to(cursor, seq);
    return is_gap;
}

/* Without trusted ids: what they say about a gap in the numbers. */
static void guess_lost_ids(struct cursor *cursor,
                           const struct cursor_message *message,
                           struct cursor_finding *finding)
{
    uint64_t base = base_of(message);
    uint64_t last = cursor_last_id(cursor);
    if (base > last && !cursor->is_loose) {
        tell_lost_ids(cursor, finding, last + 1, base);
        cursor->lost += base - last;
        count_span(cursor, base - last);
    }
}

/* A gap in the numbers at a message that names no trusted id. */
static void tell_seq_gap(struct cursor *cursor,
                         const struct cursor_message *message,
                         struct cursor_finding *finding)
{
    tell_gap(cursor, finding);
    if (cursor->has_ids && !cursor->epoch && message->has_event) {
        guess_lost_ids(cursor, message, finding);
    } else {
        cursor->has_open_ids = true;
    }
}

/* Whether ids that no epoch vouches for rise by one all the same. */
static void watch_ids(struct cursor *cursor,
                      const struct cursor_message *message)
{
    bool is_told = cursor->has_unread || cursor->has_open_ids;
    if (!is_told && base_of(message) != cursor->mark) {
        cursor->is_loose = true;
    }
}

/* Forward at any distance, all doubts being settled. */
static void go_forward(struct cursor *cursor,
                       const struct cursor_message *message,
                       struct cursor_finding *finding)
{
    if (skip_seqs(cursor, message->seq, finding)) {
        tell_seq_gap(cursor, message, finding);
    } else if (message->has_event && cursor->has_ids) {
        watch_ids(cursor, message);
    }
    if (!message->has_event) {
        return;
    }
    if (!cursor->has_ids) {
        adopt_ids(cursor, message, finding);
    }
    cursor->has_unread = false;
    cursor->has_open_ids = false;
}

static enum cursor_verdict accept_by_seq(struct cursor *cursor,
                                         const struct cursor_message *message,
                                         struct cursor_finding *finding)
{
    uint64_t seq = message->seq;
    if (is_far(cursor, seq)) {
        return hold(cursor, message);
    }
    if (seq > cursor->last_seq || is_next(cursor, seq)) {
        go_forward(cursor, message, finding);
        return CURSOR_NEXT;
    }
    if (has_epoch(cursor)) {
        /* Without an event it is old, unless the numbers go on from here. */
        draw_line(cursor, message);
        return CURSOR_DUPLICATE;
    }
    if (cursor->is_fresh) {
        restart(cursor, message, finding);
        return CURSOR_NEXT;
    }
    return hold(cursor, message);
}

/* Ids between the last known one and `base` are missing: refused with the
 * messages that could not be read, or lost. */
static void settle_hole(struct cursor *cursor, uint64_t base, bool is_seq_gap,
                        struct cursor_finding *finding)
{
    uint64_t last = cursor_last_id(cursor);
    uint64_t hole = base - last;
    bool is_lost = is_seq_gap || cursor->has_open_ids || !cursor->has_unread;
    note_hole(finding, cursor->mark + 1, last, true);
    note_hole(finding, last + 1, base, !is_lost);
    if (hole > 0 && !is_lost) {
        cursor->refused += hole;
    } else if (hole > 0) {
        cursor->lost += hole;
        if (is_seq_gap || !cursor->has_open_ids) {
            tell_lost_ids(cursor, finding, last + 1, base);
        }
    }
    settle_floating(cursor);
    cursor->mark = base;
    cursor->has_unread = false;
    cursor->has_open_ids = false;
}

/* Where the ids of the message begin, not below the mark; floating events that
 * the ids leave no room for were none. */
static uint64_t place(struct cursor *cursor,
                      const struct cursor_message *message)
{
    uint64_t base = base_of(message);
    if (message->first_id <= cursor->mark || base < cursor->mark) {
        base = cursor->mark;
    }
    if (base < cursor_last_id(cursor)) {
        cursor->floating = base - cursor->mark;
    }
    return base;
}

static void doubt_ids(struct cursor *cursor,
                      const struct cursor_message *message,
                      struct cursor_finding *finding)
{
    if (cursor->keeps_losses) {
        finding->what |= CURSOR_OLD;
        return;
    }
    cursor_rebase(cursor, cursor->epoch, base_of(message));
    finding->what |= CURSOR_MOVED;
    tell_gap(cursor, finding);
}

/* All ids are settled ones. Under a number that is new the publisher
 * contradicts itself: what it means by its ids is not known any more. Where
 * losses are kept some of them may be what is missing, or were covered by a
 * snapshot that was ahead of the stream; else the publisher is to be asked. */
static enum cursor_verdict accept_old_ids(struct cursor *cursor,
                                          const struct cursor_message *message,
                                          struct cursor_finding *finding)
{
    if (message->seq <= cursor->last_seq) {
        return CURSOR_DUPLICATE;
    }
    if (is_far(cursor, message->seq)) {
        return hold(cursor, message);
    }
    (void)skip_seqs(cursor, message->seq, finding);
    doubt_ids(cursor, message, finding);
    return CURSOR_NEXT;
}

static enum cursor_verdict accept_by_ids(struct cursor *cursor,
                                         const struct cursor_message *message,
                                         struct cursor_finding *finding)
{
    if (message->last_id <= cursor->mark) {
        return accept_old_ids(cursor, message, finding);
    }
    uint64_t base = place(cursor, message);
    bool is_number_odd =
        !is_next(cursor, message->seq) &&
        (message->seq <= cursor->last_seq || is_far(cursor, message->seq));
    if (is_number_odd && base > cursor_last_id(cursor)) {
        return hold(cursor, message);
    }
    bool is_seq_gap = false;
    if (is_number_odd) {
        /* The ids go on, so the number is wrong and not the message. */
        draw_line(cursor, message);
    } else {
        is_seq_gap = skip_seqs(cursor, message->seq, finding);
    }
    settle_hole(cursor, base, is_seq_gap, finding);
    return CURSOR_NEXT;
}

static bool is_foreign(const struct cursor *cursor,
                       const struct cursor_message *message)
{
    return message->has_event && cursor->has_ids &&
           message->epoch != cursor->epoch;
}

static bool continues_line(const struct cursor *cursor,
                           const struct cursor_message *message)
{
    if (!cursor->has_line || message->seq <= cursor->line_seq) {
        return false;
    }
    if (message->has_event && message->epoch != cursor->line_epoch) {
        return false;
    }
    if (!is_foreign(cursor, message) && is_next(cursor, message->seq)) {
        return false; /* nor does it leave the line it was on */
    }
    uint64_t step = message->seq - cursor->line_seq;
    return cursor->is_held ? step <= CURSOR_FAR : step == 1;
}

/* The numbers go on elsewhere, as two messages in a row have said. */
static void take_line(struct cursor *cursor,
                      const struct cursor_message *message,
                      struct cursor_finding *finding)
{
    bool is_behind = cursor->line_seq < cursor->last_seq;
    cursor->has_line = false;
    move_to(cursor, cursor->line_seq);
    if (is_behind && !message->has_event) {
        /* Heartbeats alone say so: a new publisher whose events are unknown. */
        tell_gap(cursor, finding);
        cursor->has_open_ids = true;
    }
}

static void accept_first(struct cursor *cursor,
                         const struct cursor_message *message,
                         struct cursor_finding *finding)
{
    cursor->has_baseline = true;
    move_to(cursor, message->seq);
    if (message->has_event) {
        adopt_ids(cursor, message, finding);
    }
}

/* Events of another epoch. An epoch rises with time: a lower one is a message
 * of the past, unless the connection is a new one or the next message agrees. */
static enum cursor_verdict meet_foreign(struct cursor *cursor,
                                        const struct cursor_message *message,
                                        struct cursor_finding *finding)
{
    if (message->epoch < cursor->epoch && !cursor->is_fresh) {
        return hold(cursor, message);
    }
    restart(cursor, message, finding);
    return CURSOR_NEXT;
}

static enum cursor_verdict judge(struct cursor *cursor,
                                 const struct cursor_message *message,
                                 struct cursor_finding *finding)
{
    if (!cursor->has_baseline) {
        accept_first(cursor, message, finding);
        return CURSOR_NEXT;
    }
    if (!continues_line(cursor, message)) {
        forget_line(cursor, finding);
    } else if (cursor->is_held) {
        return CURSOR_RELEASE;
    } else {
        take_line(cursor, message, finding);
    }
    if (is_foreign(cursor, message)) {
        return meet_foreign(cursor, message, finding);
    }
    if (message->has_event && has_epoch(cursor)) {
        return accept_by_ids(cursor, message, finding);
    }
    return accept_by_seq(cursor, message, finding);
}

enum cursor_verdict cursor_message(struct cursor *cursor,
                                   const struct cursor_message *message,
                                   struct cursor_finding *finding_out)
{
    memset(finding_out, 0, sizeof *finding_out);
    cursor->heard_ns = message->now_ns;
    enum cursor_verdict verdict = judge(cursor, message, finding_out);
    if (verdict != CURSOR_RELEASE) {
        cursor->is_fresh = false;
    }
    return verdict;
}

/* The held message has an epoch's ids and goes on in it. */
static void release_by_ids(struct cursor *cursor,
                           const struct cursor_message *message,
                           struct cursor_finding *finding)
{
    bool is_seq_gap = true;
    if (message->seq > cursor->last_seq) {
        is_seq_gap = skip_seqs(cursor, message->seq, finding);
    } else {
        move_to(cursor, message->seq);
    }
    if (message->last_id <= cursor->mark) {
        doubt_ids(cursor, message, finding);
        return;
    }
    settle_hole(cursor, place(cursor, message), is_seq_gap, finding);
}

void cursor_release(struct cursor *cursor, const struct cursor_message *message,
                    struct cursor_finding *finding_out)
{
    memset(finding_out, 0, sizeof *finding_out);
    cursor->has_line = false;
    cursor->is_held = false;
    bool is_by_ids = message->has_event && has_epoch(cursor);
    if (is_foreign(cursor, message) ||
        (!is_by_ids && message->seq <= cursor->last_seq)) {
        restart(cursor, message, finding_out);
    } else if (is_by_ids) {
        release_by_ids(cursor, message, finding_out);
    } else {
        go_forward(cursor, message, finding_out);
    }
}

bool cursor_message_refused(struct cursor *cursor, bool has_seq, uint64_t seq,
                            struct cursor_finding *finding_out)
{
    memset(finding_out, 0, sizeof *finding_out);
    bool is_ours = cursor->has_baseline && has_seq && seq > cursor->last_seq &&
                   seq - cursor->last_seq == 1;
    if (!is_ours) {
        return false;
    }
    cursor->last_seq = seq;
    cursor->is_unread = true;
    cursor->has_unread = true;
    finding_out->what = CURSOR_BROKEN;
    return true;
}

static enum cursor_verdict deliver(struct cursor *cursor, uint64_t id)
{
    cursor->mark = id;
    cursor->delivered++;
    count_span(cursor, 1);
    return CURSOR_NEXT;
}

enum cursor_verdict cursor_event(struct cursor *cursor, uint64_t epoch,
                                 uint64_t id,
                                 struct cursor_finding *finding_out)
{
    memset(finding_out, 0, sizeof *finding_out);
    if (epoch != cursor->epoch) {
        cursor->restarts++;
        cursor_rebase(cursor, epoch, id > 0 ? id - 1 : 0);
        tell_epoch(cursor, finding_out);
        finding_out->what |= CURSOR_BROKEN | CURSOR_MOVED;
    }
    if (!cursor->epoch) {
        return deliver(cursor, id);
    }
    if (id <= cursor->mark) {
        return CURSOR_DUPLICATE;
    }
    uint64_t missing = id - 1 - cursor->mark;
    if (cursor->floating > missing) {
        cursor->floating = missing;
    }
    uint64_t lost = missing - cursor->floating;
    note_hole(finding_out, cursor->mark + 1, cursor->mark + cursor->floating,
              true);
    note_hole(finding_out, id - lost, id - 1, false);
    if (lost > 0) {
        cursor->lost += lost;
        tell_lost_ids(cursor, finding_out, id - lost, id - 1);
    }
    settle_floating(cursor);
    return deliver(cursor, id);
}

void cursor_event_refused(struct cursor *cursor)
{
    if (!has_epoch(cursor)) {
        cursor->refused++;
        cursor->has_unread = true;
        count_span(cursor, 1);
        return;
    }
    cursor->floating++;
}

void cursor_event_lost(struct cursor *cursor)
{
    cursor->delivered--;
    cursor->lost++;
    cursor->gaps++;
}
