/* SPDX-License-Identifier: Apache-2.0 */
/* Applies the events of a message. A source that recovers takes them by their
 * ids, in whatever order they come, and its user hears only what is different
 * from what it heard last: an event that changes nothing is not handed out, and
 * one that comes over an older version of its key is preceded by the `removed`
 * that was missed. All others are applied as they come. */
#include "stream_parts.h"

#include "replacement.h"

static enum follower_way way_of(struct stream *stream)
{
    const struct mc_event *events = stream->events;
    uint32_t at = stream->at;
    stream->is_deferred[at] = false;
    if (stream_follower(stream)->engine) {
        return FOLLOWER_PLAIN; /* blocks have no versions */
    }
    if (replacement_is_coming(events, stream->batch.count, at)) {
        stream->is_deferred[at] = true;
        return FOLLOWER_DEFER;
    }
    uint32_t removed = 0;
    bool is_second = replacement_find(events, stream->pairs_from, at, &removed);
    return is_second && stream->is_deferred[removed] ? FOLLOWER_REPLACE
                                                     : FOLLOWER_PLAIN;
}

static void pass_event(struct stream *stream)
{
    stream->at++;
    stream->is_judged = false;
    stream->is_second_try = false;
    stream->is_over = false;
}

/* The event was not applied. */
static void skip_event(struct stream *stream)
{
    stream->is_deferred[stream->at] = false;
    pass_event(stream);
}

/* ---- events that could not be read ------------------------------------ */

static void count_refused(struct stream *stream, enum mc_event_error error)
{
    struct follower *follower = stream_follower(stream);
    follower_count(&follower->counters.refused_events, 1);
    follower_count(&follower->counters.refused[error], 1);
}

/* What was fetched and cannot be read now could not be read before; unless it
 * is seen for the first time. */
static void refuse_again(struct stream *stream)
{
    struct follower *follower = stream_follower(stream);
    uint64_t id = stream->base_id + stream->at + 1;
    if (stream->base_id > 0 && id > cursor_last_id(&follower->cursor)) {
        cursor_event_refused(&follower->cursor);
    }
}

static void refuse_event(struct stream *stream, const struct mc_event *event)
{
    struct follower *follower = stream_follower(stream);
    uint64_t seq = stream->batch.seq;
    bool is_new = !follower_was_refused(follower, seq);
    if (stream->letter.kind == LETTER_ROWS) {
        count_refused(stream, event->error);
        follower->recovery->snapshot.is_flawed = true;
        return;
    }
    if (stream->letter.kind == LETTER_REPLAY && follower_has_ids(follower) &&
        !stream->is_next) {
        refuse_again(stream);
        return;
    }
    cursor_event_refused(&follower->cursor);
    if (is_new) {
        count_refused(stream, event->error);
        stream_refused(stream, event->error, event->error_offset, seq);
    }
    if (follower_has_ids(follower)) {
        recovery_lost(follower->recovery, seq,
                      stream->letter.kind == LETTER_REPLAY);
    } else {
        stream_restart(stream, seq);
    }
}

/* ---- room -------------------------------------------------------------- */

/* There was no room for the event. All that the source held goes, which makes
 * room, and the event gets a second chance after that is said; else it is
 * lost, and that is said too. */
static void lack_room(struct stream *stream)
{
    struct follower *follower = stream_follower(stream);
    bool is_stored = stream->letter.kind != LETTER_ROWS;
    if (!stream->is_second_try) {
        stream->is_second_try = true;
        stream_drop(stream, stream->batch.seq);
        if (follower_has_ids(follower)) {
            recovery_no_room(follower->recovery, stream->now_ns);
        }
        return;
    }
    uint64_t id = stream->events[stream->at].event_id;
    struct cursor_finding finding = {
        .what = CURSOR_GAP, .from_id = id, .to_id = id};
    if (is_stored) {
        cursor_event_lost(&follower->cursor);
        stream_heed(stream, &finding);
    }
    skip_event(stream);
}

/* ---- events as they come ----------------------------------------------- */

static void hand_on(struct stream *stream, const struct mc_event *event,
                    const struct mc_engine_event *engine, bool replaces)
{
    stream->delivery = (struct mc_delivery){
        .source = stream->source,
        .replaces = replaces,
        .is_derived = event == &stream->derived,
        .origin = stream->letter.kind == LETTER_ROWS     ? MC_FROM_SNAPSHOT
                  : stream->letter.kind == LETTER_REPLAY ? MC_FROM_REPLAY
                                                         : MC_FROM_STREAM,
        .batch = &stream->batch,
        .event = event,
        .engine = engine,
    };
}

static void note_full(struct stream *stream, bool is_full)
{
    if (is_full) {
        stream_degraded(stream, MC_DEGRADED_INDEX_FULL);
    }
}

/* Applies the event at `at`; true if it is to be handed out. */
static bool apply_plainly(struct stream *stream, enum follower_way way)
{
    struct follower *follower = stream_follower(stream);
    const struct mc_event *event = &stream->events[stream->at];
    const struct mc_engine_event *engine =
        follower->engine ? &stream->engine_events[stream->at] : NULL;
    bool is_full = false;
    enum mc_err err =
        engine ? follower_apply_engine(follower, &stream->opts.sink, engine,
                                       stream->batch.dp_rank, &is_full)
               : follower_apply(follower, &stream->opts.sink, event, way,
                                &is_full);
    if (err != MC_OK) {
        lack_room(stream);
        return false;
    }
    note_full(stream, is_full);
    hand_on(stream, event, engine, way == FOLLOWER_REPLACE);
    pass_event(stream);
    return true;
}

/* ---- differences ------------------------------------------------------- */

void stream_derive(struct stream *stream, const struct mirror_row *row,
                   uint64_t event_id)
{
    stream->derived = (struct mc_event){
        .type = MC_EVENT_REMOVED,
        .event_id = event_id,
        .epoch = stream_follower(stream)->cursor.epoch,
        .tenant_id = row->tenant_id,
        .backend_id = row->backend_id,
        .medium = row->medium,
        .group_id = row->group_id,
        .session_id = row->session_id,
        .object_key = row->object_key,
    };
    hand_on(stream, &stream->derived, NULL, false);
}

/* Tells the index and counts what was derived, unless what follows replaces it.
 * False where the index would go on to say that the block is there. */
static bool tell_derived(struct stream *stream, enum follower_way way)
{
    bool is_full = false;
    enum mc_err err =
        follower_index(stream_follower(stream), &stream->opts.sink,
                       &stream->derived, way, &is_full);
    note_full(stream, is_full);
    return err == MC_OK;
}

/* Something of the past has to be remembered; where it cannot be, what is being
 * fetched begins anew. */
static void remember(struct stream *stream, const struct mirror_event *what,
                     bool is_cleared)
{
    struct follower *follower = stream_follower(stream);
    if (!recovery_needs_past(follower->recovery)) {
        return;
    }
    enum mc_err err = is_cleared ? mirror_floor(follower->mirror, what)
                                 : mirror_bury(follower->mirror, what);
    if (err != MC_OK) {
        stream_crowded(stream);
    }
}

/* An entry of the key with a lower id goes first. */
static bool make_way(struct stream *stream, const struct mirror_event *what)
{
    struct follower *follower = stream_follower(stream);
    struct mirror_row row;
    if (!mirror_take_older(follower->mirror, what, &row)) {
        return false;
    }
    if (!follower->recovery->is_active) {
        follower_count(&follower->counters.contradictions, 1);
    }
    stream->is_over = true;
    stream_derive(stream, &row, what->event_id);
    (void)tell_derived(stream, FOLLOWER_DEFER);
    return true;
}

static bool apply_stored(struct stream *stream, const struct mirror_event *what,
                         enum mirror_place place)
{
    struct follower *follower = stream_follower(stream);
    if (place == MIRROR_OLDER && make_way(stream, what)) {
        return true;
    }
    enum follower_way way = way_of(stream);
    if (stream->is_over) {
        way = FOLLOWER_REPLACE;
    }
    if (!apply_plainly(stream, way)) {
        return false;
    }
    if (stream->letter.kind == LETTER_ROWS) {
        mirror_name(follower->mirror, what, follower->recovery->snapshot.round);
    }
    return true;
}

/* Nothing is there, or nothing any more. */
static void note_removed(struct stream *stream, const struct mirror_event *what)
{
    struct follower *follower = stream_follower(stream);
    if (!stream->is_over && follower->knows_all &&
        !follower->recovery->is_active) {
        follower_count(&follower->counters.contradictions, 1);
    }
    remember(stream, what, false);
    pass_event(stream);
}

/* What is told is what goes, also where its tags are not those of the event,
 * which are of a version that was missed. The event is passed with the next
 * step, when what goes is not looked at any more. */
static bool apply_removed(struct stream *stream,
                          const struct mirror_event *what,
                          enum mirror_place place)
{
    struct follower *follower = stream_follower(stream);
    const struct mc_event *event = &stream->events[stream->at];
    struct mirror_row row;
    if (place != MIRROR_OLDER ||
        !mirror_take_older(follower->mirror, what, &row)) {
        note_removed(stream, what);
        return false;
    }
    enum follower_way way =
        stream->letter.kind == LETTER_LIVE ? way_of(stream) : FOLLOWER_PLAIN;
    stream_derive(stream, &row, what->event_id);
    if (!tell_derived(stream, way)) {
        lack_room(stream);
        return false;
    }
    if (mc_view_equal(row.session_id, event->session_id) &&
        mc_view_equal(row.group_id, event->group_id)) {
        hand_on(stream, event, NULL, false);
    }
    stream->is_over = true;
    return true;
}

/* Where something newer is there the user is not told of all, but of what went.
 */
static bool apply_cleared(struct stream *stream,
                          const struct mirror_event *what)
{
    struct follower *follower = stream_follower(stream);
    struct mirror_row row;
    if (!stream->is_over) {
        remember(stream, what, true);
        if (!mirror_has_newer(follower->mirror, what)) {
            return apply_plainly(stream, FOLLOWER_PLAIN);
        }
        stream->is_over = true;
    }
    if (!mirror_take_cleared(follower->mirror, what, &row)) {
        skip_event(stream);
        return false;
    }
    stream_derive(stream, &row, what->event_id);
    if (!tell_derived(stream, FOLLOWER_PLAIN)) {
        lack_room(stream);
        return false;
    }
    return true;
}

static bool apply_difference(struct stream *stream)
{
    struct follower *follower = stream_follower(stream);
    const struct mc_event *event = &stream->events[stream->at];
    struct mirror_event what = follower_mirror_event(event);
    if (event->type == MC_EVENT_CLEARED && stream->is_over) {
        return apply_cleared(stream, &what); /* it has set a floor itself */
    }
    enum mirror_place place = mirror_look(follower->mirror, &what);
    if (!stream->is_over) {
        stream->is_deferred[stream->at] = false;
    }
    if (place == MIRROR_NEWER || place == MIRROR_EQUAL) {
        if (place == MIRROR_EQUAL && stream->letter.kind == LETTER_ROWS) {
            mirror_name(follower->mirror, &what,
                        follower->recovery->snapshot.round);
        }
        skip_event(stream);
        return false;
    }
    if (event->type == MC_EVENT_STORED) {
        return apply_stored(stream, &what, place);
    }
    return event->type == MC_EVENT_REMOVED ? apply_removed(stream, &what, place)
                                           : apply_cleared(stream, &what);
}

static bool apply_event(struct stream *stream)
{
    struct follower *follower = stream_follower(stream);
    bool has_places = follower->recovery && follower->mirror;
    if (has_places && follower->cursor.epoch != 0 && !follower->is_raw) {
        return apply_difference(stream);
    }
    return apply_plainly(stream, way_of(stream));
}

/* ---- judging ----------------------------------------------------------- */

/* An id that is settled: is it one that was missing? */
static bool is_fetched(struct stream *stream, const struct mc_event *event)
{
    struct follower *follower = stream_follower(stream);
    struct recovery *recovery = follower->recovery;
    bool is_refused = false;
    if (!follower_has_ids(follower) || !recovery_needs_past(recovery) ||
        !holes_take(&recovery->holes, event->event_id, &is_refused)) {
        return false;
    }
    cursor_fetched(&follower->cursor, 1, is_refused);
    recovery->counters.refetched++;
    return true;
}

static void count_duplicate(struct stream *stream)
{
    if (stream->letter.kind == LETTER_LIVE) {
        follower_count(&stream_follower(stream)->counters.duplicates, 1);
    }
}

/* Rows are of the snapshot's run, and fetched events of the stream's. */
static bool is_of_this_run(const struct stream *stream,
                           const struct follower *follower,
                           const struct mc_event *event)
{
    if (stream->letter.kind == LETTER_LIVE || !follower->cursor.has_ids) {
        return true;
    }
    return event->epoch == follower->cursor.epoch;
}

static bool take_row(struct stream *stream, const struct mc_event *event)
{
    struct recovery *recovery = stream_follower(stream)->recovery;
    if (event->type != MC_EVENT_STORED ||
        event->epoch != recovery->snapshot.epoch) {
        recovery->snapshot.is_flawed = true;
        skip_event(stream);
        return false;
    }
    if (!stream->is_judged) {
        stream->is_judged = true;
        recovery->counters.rows++;
    }
    return apply_difference(stream);
}

bool stream_take_event(struct stream *stream)
{
    struct follower *follower = stream_follower(stream);
    const struct mc_event *event = &stream->events[stream->at];
    if (event->type == MC_EVENT_NONE) {
        refuse_event(stream, event);
        skip_event(stream);
        return false;
    }
    if (stream->letter.kind == LETTER_ROWS) {
        return take_row(stream, event);
    }
    if (stream->is_judged) {
        return apply_event(stream);
    }
    if (!is_of_this_run(stream, follower, event)) {
        skip_event(stream);
        return false;
    }
    struct cursor_finding finding;
    enum cursor_verdict verdict = cursor_event(&follower->cursor, event->epoch,
                                               event->event_id, &finding);
    if (verdict == CURSOR_DUPLICATE && !is_fetched(stream, event)) {
        stream_heed(stream, &finding); /* id 0 may be of another run */
        count_duplicate(stream);
        skip_event(stream);
        return false;
    }
    stream_heed(stream, &finding);
    stream->is_judged = true;
    return finding.what == 0 && apply_event(stream);
}
