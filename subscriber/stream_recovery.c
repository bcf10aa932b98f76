/* SPDX-License-Identifier: Apache-2.0 */
/* Where a source recovers. By ids, messages are taken as they come, and what
 * was fetched fills the holes. By number (an engine, or a store without epochs)
 * what comes after a gap is kept back until a replay has brought what is before
 * it, or has nothing to bring. */
#include "stream_parts.h"

#include <string.h>

#include "mci_bytes.h"

#define TIDY_PER_MESSAGE 512 /* some 100 us */

void stream_crowded(struct stream *stream)
{
    struct follower *follower = stream_follower(stream);
    recovery_crowded(follower->recovery, stream->now_ns);
    mirror_forget(follower->mirror);
}

/* ---- by number --------------------------------------------------------- */

static void keep_back(struct stream *stream)
{
    struct follower *follower = stream_follower(stream);
    kept_add(&follower->kept, stream->letter.frames, stream->letter.count);
    stream_finish(stream);
}

/* Fetches from this number on before anything else is taken. */
static void fetch_from(struct stream *stream, uint64_t from_seq, bool is_told)
{
    struct recovery *recovery = stream_follower(stream)->recovery;
    recovery_begin_replay(recovery, from_seq);
    recovery->is_told = is_told;
}

static bool may_fetch(const struct stream *stream,
                      const struct recovery *recovery)
{
    return stream->letter.kind == LETTER_LIVE &&
           stream->now_ns >= recovery->backoff_ns;
}

static void begin_gap(struct stream *stream, uint64_t from_seq, uint64_t to_seq)
{
    struct follower *follower = stream_follower(stream);
    stream_lost_tail(stream, from_seq, to_seq);
    follower->told_seq = to_seq;
    fetch_from(stream, from_seq, true);
    keep_back(stream);
}

/* Part of it, or all, cannot be read: it is fetched once, and stays back in case
 * that brings nothing. */
static void fetch_refused(struct stream *stream, uint64_t seq)
{
    stream_follower(stream)->refused_seq = seq;
    fetch_from(stream, seq, true);
    keep_back(stream);
}

/* Of many the first one is said. */
static void tell_refused(struct stream *stream)
{
    struct follower *follower = stream_follower(stream);
    bool is_told = false;
    for (uint32_t i = 0; i < stream->batch.count; i++) {
        const struct mc_event *event = &stream->events[i];
        if (event->type != MC_EVENT_NONE) {
            continue;
        }
        follower_count(&follower->counters.refused_events, 1);
        follower_count(&follower->counters.refused[event->error], 1);
        if (!is_told) {
            stream_refused(stream, event->error, event->error_offset,
                           stream->batch.seq);
        }
        is_told = true;
    }
}

static bool divert_by_number(struct stream *stream,
                             const struct cursor_message *message)
{
    struct follower *follower = stream_follower(stream);
    struct recovery *recovery = follower->recovery;
    const struct cursor *cursor = &follower->cursor;
    uint64_t last = cursor->last_seq;
    if (stream->letter.kind == LETTER_LIVE && recovery->is_active) {
        keep_back(stream);
        return true;
    }
    bool is_fetched = stream->letter.kind == LETTER_REPLAY ||
                      message->seq >= recovery->request.from_seq;
    if (stream->letter.kind != LETTER_LIVE && cursor->has_baseline &&
        message->seq <= last && is_fetched) {
        stream_finish(stream); /* and not the beginning of another run */
        return true;
    }
    if (!cursor->has_baseline || message->seq <= last ||
        !may_fetch(stream, recovery)) {
        return false;
    }
    if (message->seq - last > 1 && message->seq - last <= CURSOR_FAR) {
        begin_gap(stream, last + 1, message->seq - 1);
        return true;
    }
    if (stream->batch.refused > 0 && message->seq - last == 1) {
        tell_refused(stream);
        fetch_refused(stream, message->seq);
        return true;
    }
    return false;
}

/* ---- by ids ------------------------------------------------------------ */

/* Fetched: a message with a number that was seen is taken for what of it is
 * missing, one that is next as if it had come by itself. */
static bool divert_fetched(struct stream *stream,
                           const struct cursor_message *message)
{
    struct follower *follower = stream_follower(stream);
    const struct cursor *cursor = &follower->cursor;
    bool is_foreign = message->has_event && cursor->has_ids &&
                      message->epoch != cursor->epoch;
    bool is_seen = cursor->has_baseline && message->seq <= cursor->last_seq;
    bool is_far = cursor->has_baseline && !is_seen &&
                  message->seq - cursor->last_seq > CURSOR_FAR;
    stream->is_next = !is_seen;
    if (is_foreign || is_far || (is_seen && !message->has_event)) {
        stream_finish(stream);
        return true;
    }
    if (!is_seen) {
        return false;
    }
    uint64_t before = (uint64_t)message->first_index + 1;
    stream->base_id =
        message->first_id > before ? message->first_id - before : 0;
    bool is_wanted =
        holes_meet(&follower->recovery->holes, stream->base_id + 1,
                   message->last_id) ||
        (message->last_id > cursor->mark && !cursor_is_whole(cursor));
    if (is_wanted) {
        stream_begin_events(stream);
    } else {
        stream_finish(stream);
    }
    return true;
}

/* An old message that came once more may hold what is missing. */
static bool divert_old(struct stream *stream,
                       const struct cursor_message *message)
{
    struct follower *follower = stream_follower(stream);
    const struct cursor *cursor = &follower->cursor;
    bool is_old = message->has_event && cursor->has_ids &&
                  message->epoch == cursor->epoch &&
                  message->seq <= cursor->last_seq &&
                  message->last_id <= cursor->mark;
    if (!is_old || !holes_meet(&follower->recovery->holes, message->first_id,
                               message->last_id)) {
        return false;
    }
    stream_begin_events(stream);
    return true;
}

bool stream_divert(struct stream *stream, const struct cursor_message *message)
{
    const struct follower *follower = stream_follower(stream);
    stream->is_next = true;
    stream->base_id = 0;
    if (!follower->recovery) {
        return false;
    }
    if (stream->letter.kind == LETTER_ROWS) {
        stream_begin_events(stream);
        return true;
    }
    if (stream->letter.kind == LETTER_REPLAY) {
        recovery_batch(follower->recovery, message->seq,
                       stream->batch.refused == 0, stream->now_ns);
    }
    if (follower->recovery->is_by_number) {
        return divert_by_number(stream, message);
    }
    return stream->letter.kind == LETTER_REPLAY
               ? divert_fetched(stream, message)
               : divert_old(stream, message);
}

/* ---- what could not be read -------------------------------------------- */

static bool divert_row_refused(struct stream *stream, enum mc_event_error error)
{
    struct follower *follower = stream_follower(stream);
    follower->recovery->snapshot.is_flawed = true;
    follower_count(&follower->counters.refused[error], 1);
    stream_finish(stream);
    return true;
}

/* True: it was refused before, or is none of what was asked for. */
static bool divert_fetched_refused(struct stream *stream,
                                   const struct mc_event_fault *fault)
{
    struct follower *follower = stream_follower(stream);
    recovery_batch(follower->recovery, fault->seq, false, stream->now_ns);
    bool is_new = !follower->cursor.has_baseline ||
                  fault->seq > follower->cursor.last_seq;
    if (!is_new) {
        stream_finish(stream);
    }
    return !is_new;
}

static bool divert_refused_by_number(struct stream *stream,
                                     const struct mc_event_fault *fault)
{
    struct follower *follower = stream_follower(stream);
    const struct cursor *cursor = &follower->cursor;
    if (follower->recovery->is_active) {
        keep_back(stream);
        return true;
    }
    bool is_next = cursor->has_baseline && fault->has_seq &&
                   fault->seq > cursor->last_seq &&
                   fault->seq - cursor->last_seq == 1;
    if (!is_next || !may_fetch(stream, follower->recovery)) {
        return false;
    }
    follower_count(&follower->counters.refused_messages, 1);
    follower_count(&follower->counters.refused[fault->error], 1);
    stream_refused(stream, fault->error, fault->offset, fault->seq);
    fetch_refused(stream, fault->seq);
    return true;
}

bool stream_divert_refused(struct stream *stream,
                           const struct mc_event_fault *fault)
{
    const struct follower *follower = stream_follower(stream);
    switch (stream->letter.kind) {
    case LETTER_ROWS:
        return divert_row_refused(stream, fault->error);
    case LETTER_REPLAY:
        return divert_fetched_refused(stream, fault);
    case LETTER_LIVE:
        return follower->recovery && follower->recovery->is_by_number &&
               divert_refused_by_number(stream, fault);
    case LETTER_KEPT:
        break;
    }
    return false;
}

/* ---- deciding ---------------------------------------------------------- */

static void say_what_failed(struct stream *stream, struct recovery *recovery)
{
    if (recovery->degraded != MC_DEGRADED_NONE) {
        stream_degraded(stream, recovery->degraded);
        recovery->degraded = MC_DEGRADED_NONE;
    }
    if (recovery->has_lost_tail) {
        recovery->has_lost_tail = false;
        stream_lost_tail(stream, recovery->lost_from_seq,
                         recovery->lost_to_seq);
    }
}

static void close_recovery(struct stream *stream)
{
    struct follower *follower = stream_follower(stream);
    bool by_snapshot = false;
    if (recovery_close(follower->recovery, true, &by_snapshot)) {
        follower->knows_all |= by_snapshot;
        stream_recovered(stream, by_snapshot);
    }
}

/* The replay is over: on with what was kept back. It may be that more came than
 * could be kept, and then the next replay brings that. */
static void go_on(struct stream *stream)
{
    struct follower *follower = stream_follower(stream);
    struct recovery *recovery = follower->recovery;
    kept_free(stream->kept);
    stream->kept = kept_take(&follower->kept);
    if (stream->kept) {
        stream->letter.kind = LETTER_KEPT;
        stream->letter.count = stream->kept->count;
        memcpy(stream->letter.frames, stream->kept->frames,
               stream->kept->count * sizeof *stream->letter.frames);
        stream->phase = PHASE_READ;
        return;
    }
    bool has_more = follower->kept.is_full;
    follower->kept.is_full = false;
    if (has_more && stream->now_ns >= recovery->backoff_ns) {
        recovery_begin_replay(recovery, follower->cursor.last_seq + 1);
        return; /* to decide once more */
    }
    close_recovery(stream);
    follower->is_raw = false;
    follower_go_by_number(follower, follower->engine != NULL ||
                                        follower->cursor.epoch == 0);
    stream->phase = PHASE_IDLE;
}

static void begin_sweep(struct stream *stream)
{
    const struct recovery_snapshot *snapshot =
        &stream_follower(stream)->recovery->snapshot;
    stream->sweep = (struct mirror_sweep){.round = snapshot->round,
                                          .first_id = snapshot->first_id};
    stream->letter.kind = LETTER_ROWS;
    stream->batch = (struct mc_event_batch){.seq = 0};
    stream->phase = PHASE_SWEEP;
}

/* What is forgotten is freed a little after each message, so that a stream at rest
 * has it back in time too and none waits for all of it. */
static void tidy_mirror(struct recovery *recovery, struct mirror *mirror)
{
    if (recovery->forgets) {
        recovery->forgets = false;
        mirror_forget(mirror);
    }
    mirror_tidy(mirror, TIDY_PER_MESSAGE);
}

void stream_decide(struct stream *stream)
{
    struct follower *follower = stream_follower(stream);
    struct recovery *recovery = follower->recovery;
    enum recovery_verdict verdict =
        recovery_decide(recovery, &follower->cursor, stream->now_ns);
    if (follower->mirror) {
        tidy_mirror(recovery, follower->mirror);
    }
    say_what_failed(stream, recovery);
    switch (verdict) {
    case RECOVERY_WAIT:
        stream->phase = PHASE_IDLE;
        break;
    case RECOVERY_SWEEP:
        begin_sweep(stream);
        break;
    case RECOVERY_OVER:
        close_recovery(stream);
        break;
    case RECOVERY_STOP:
        go_on(stream);
        break;
    }
    follower_publish(follower);
}

/* What the snapshot did not name goes, one by one. */
bool stream_sweep(struct stream *stream)
{
    struct follower *follower = stream_follower(stream);
    struct mirror_row row;
    if (!mirror_take_unnamed(follower->mirror, &stream->sweep, &row)) {
        recovery_swept(follower->recovery);
        stream->phase = PHASE_DECIDE;
        return false;
    }
    stream_derive(stream, &row, stream->sweep.first_id);
    bool is_full = false;
    if (follower_index(follower, &stream->opts.sink, &stream->derived,
                       FOLLOWER_PLAIN, &is_full) != MC_OK) {
        stream_restart(stream, 0);
        stream->phase = PHASE_DECIDE;
        return false;
    }
    return true;
}

/* ---- what comes from outside ------------------------------------------- */

static bool take_first(struct stream *stream,
                       const struct recovery_answer *answer)
{
    struct follower *follower = stream_follower(stream);
    struct recovery *recovery = follower->recovery;
    struct cursor *cursor = &follower->cursor;
    struct cursor_finding finding;
    bool is_known = cursor->has_ids && answer->epoch == cursor->epoch;
    bool is_newer = !cursor->has_ids || answer->epoch > cursor->epoch ||
                    answer->epoch == recovery->believed_epoch;
    if (!is_known && !is_newer) {
        return false;
    }
    recovery_first(recovery, answer, stream->now_ns);
    if (is_known) {
        cursor_reach_back(cursor, answer->first_id, &finding);
        for (unsigned i = 0; i < finding.hole_count; i++) {
            holes_add(&recovery->holes, &finding.holes[i]);
            recovery_lost(recovery, answer->tail_seq + 1, false);
        }
        return true;
    }
    cursor_adopt(cursor, answer->epoch, answer->first_id, answer->tail_seq,
                 &finding);
    stream->batch = (struct mc_event_batch){.seq = 0};
    recovery_adopted(recovery);
    stream_tell(stream, &finding);
    if (finding.what & CURSOR_MOVED) {
        stream_drop(stream, 0);
    }
    return true;
}

static void read_letter(struct stream *stream, enum letter_kind kind,
                        struct mc_view topic, uint64_t seq,
                        struct mc_view payload)
{
    struct letter *letter = &stream->letter;
    mci_put_be64(stream->seq_bytes, seq);
    letter->kind = kind;
    letter->count = 3;
    letter->frames[0] = topic.data ? topic : mc_view_make("", 0);
    letter->frames[1] = mc_view_make(stream->seq_bytes, 8);
    letter->frames[2] = payload;
    stream->phase = PHASE_READ;
}

static void take_status(struct stream *stream,
                        const struct recovery_answer *answer)
{
    struct follower *follower = stream_follower(stream);
    if (recovery_status(follower->recovery, &follower->cursor, answer,
                        stream->now_ns)) {
        stream_restart(stream, 0);
    }
}

static void take_answer(struct stream *stream,
                        const struct recovery_answer *answer)
{
    struct follower *follower = stream_follower(stream);
    struct recovery *recovery = follower->recovery;
    switch (answer->type) {
    case RECOVERY_ANSWER_BATCH:
        read_letter(stream, LETTER_REPLAY, answer->topic, answer->seq,
                    answer->payload);
        return;
    case RECOVERY_ANSWER_SNAPSHOT_ROWS:
        if (recovery_rows(recovery, answer->index, stream->now_ns)) {
            read_letter(stream, LETTER_ROWS, mc_view_make("", 0), 0,
                        answer->payload);
        }
        return;
    case RECOVERY_ANSWER_SNAPSHOT_FIRST:
        if (!take_first(stream, answer)) {
            recovery_failed(recovery, MC_DEGRADED_BAD_ANSWER, stream->now_ns);
        }
        return;
    case RECOVERY_ANSWER_SNAPSHOT_END:
        recovery_walked(recovery, &follower->cursor, answer, stream->now_ns);
        return;
    case RECOVERY_ANSWER_END:
        recovery_end(recovery, &follower->cursor, stream->now_ns);
        return;
    case RECOVERY_ANSWER_STATUS:
        take_status(stream, answer);
        return;
    case RECOVERY_ANSWER_BAD:
        recovery_failed(recovery, MC_DEGRADED_BAD_ANSWER, stream->now_ns);
        return;
    }
}

static void turn_to(struct stream *stream, uint32_t source, uint64_t now_ns)
{
    stream->source = source;
    stream->now_ns = now_ns;
    stream->phase = PHASE_DECIDE;
}

void stream_take_answer(struct stream *stream, uint32_t source,
                        uint64_t request, const struct mc_view *frames,
                        size_t count, uint64_t now_ns)
{
    struct recovery *recovery = stream->followers[source].recovery;
    if (!recovery || recovery->request.number == 0 ||
        recovery->request.number != request) {
        return;
    }
    struct recovery_answer answer;
    recovery_answer_read(recovery->request.kind, frames, count, &answer);
    turn_to(stream, source, now_ns);
    take_answer(stream, &answer);
}

void stream_take_tick(struct stream *stream, uint32_t source, uint64_t now_ns)
{
    struct follower *follower = &stream->followers[source];
    struct recovery *recovery = follower->recovery;
    if (recovery && now_ns >= recovery_wake_at(recovery, &follower->cursor)) {
        turn_to(stream, source, now_ns);
        recovery_tick(recovery, now_ns);
    }
}

void stream_connected(struct stream *stream, uint32_t source, uint32_t place,
                      uint64_t now_ns)
{
    struct follower *follower = &stream->followers[source];
    struct recovery *recovery = follower->recovery;
    if (!places_is_current(&follower->places, place)) {
        return;
    }
    cursor_connected(&follower->cursor);
    if (!recovery) {
        return;
    }
    turn_to(stream, source, now_ns);
    recovery_connected(recovery, &follower->cursor);
    if (recovery->is_by_number && !recovery->is_active &&
        follower->cursor.has_baseline && now_ns >= recovery->backoff_ns) {
        recovery_begin_replay(recovery, follower->cursor.last_seq + 1);
    }
}

void stream_order_failed(struct stream *stream, uint32_t source,
                         uint64_t request, uint64_t now_ns)
{
    struct recovery *recovery = stream->followers[source].recovery;
    if (recovery->request.number == request) {
        turn_to(stream, source, now_ns);
        recovery_failed(recovery, MC_DEGRADED_UNANSWERED, now_ns);
    }
}

uint64_t stream_wake_at(const struct stream *stream)
{
    uint64_t at_ns = UINT64_MAX;
    for (uint32_t i = 0; i < stream->opts.source_count; i++) {
        const struct follower *follower = &stream->followers[i];
        uint64_t due_ns =
            follower->recovery
                ? recovery_wake_at(follower->recovery, &follower->cursor)
                : UINT64_MAX;
        at_ns = due_ns < at_ns ? due_ns : at_ns;
    }
    return at_ns;
}

bool stream_next_order(struct stream *stream, uint32_t *source_out,
                       struct recovery_order *order_out)
{
    for (uint32_t i = 0; i < stream->opts.source_count; i++) {
        struct recovery *recovery = stream->followers[i].recovery;
        if (recovery && recovery_next_order(recovery, order_out)) {
            *source_out = i;
            return true;
        }
    }
    return false;
}
