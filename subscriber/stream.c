/* SPDX-License-Identifier: Apache-2.0 */
#include "stream_parts.h"

#include <string.h>

#include "mci_alloc.h"

static bool has_engines(const struct stream_opts *opts)
{
    for (uint32_t i = 0; opts->sources && i < opts->source_count; i++) {
        if (opts->sources[i].profile == MC_PROFILE_ENGINE) {
            return true;
        }
    }
    return false;
}

static enum mc_err create_parts(struct stream *stream)
{
    const struct stream_opts *opts = &stream->opts;
    stream->events = mci_alloc(opts->max_events * sizeof *stream->events);
    stream->is_deferred =
        mci_alloc(opts->max_events * sizeof *stream->is_deferred);
    stream->followers =
        mci_calloc(opts->source_count, sizeof *stream->followers);
    if (!stream->events || !stream->is_deferred || !stream->followers) {
        return MC_ERR_NOMEM;
    }
    if (has_engines(opts)) {
        stream->engine_events =
            mci_alloc(opts->max_events * sizeof *stream->engine_events);
        if (!stream->engine_events) {
            return MC_ERR_NOMEM;
        }
    }
    for (uint32_t i = 0; i < opts->source_count; i++) {
        struct follower_opts follower = {
            .source = opts->sources ? &opts->sources[i] : NULL,
            .max_mirror_entries = opts->max_mirror_entries,
            .seed = opts->seed + i,
            .patience_ns = opts->patience_ns,
        };
        enum mc_err err = follower_init(&stream->followers[i], &follower);
        if (err != MC_OK) {
            return err;
        }
    }
    return MC_OK;
}

enum mc_err stream_create(const struct stream_opts *opts,
                          struct stream **stream_out)
{
    struct stream *stream = mci_calloc(1, sizeof *stream);
    if (!stream) {
        return MC_ERR_NOMEM;
    }
    stream->opts = *opts;
    enum mc_err err = create_parts(stream);
    if (err != MC_OK) {
        stream_destroy(stream);
        return err;
    }
    stream->opts.sources = NULL;
    *stream_out = stream;
    return MC_OK;
}

void stream_destroy(struct stream *stream)
{
    if (!stream) {
        return;
    }
    for (uint32_t i = 0; stream->followers && i < stream->opts.source_count;
         i++) {
        follower_fini(&stream->followers[i]);
    }
    kept_free(stream->kept);
    mci_free(stream->followers);
    mci_free(stream->is_deferred);
    mci_free(stream->engine_events);
    mci_free(stream->events);
    mci_free(stream);
}

/* ---- messages --------------------------------------------------------- */

static void count_bytes(struct stream *stream)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < stream->letter.count; i++) {
        bytes += stream->letter.frames[i].len;
    }
    follower_count(&stream_follower(stream)->counters.bytes, bytes);
}

void stream_take(struct stream *stream, uint32_t source,
                 const struct mc_view *frames, size_t count, uint64_t now_ns)
{
    stream_take_from(stream, source, 0, frames, count, now_ns);
}

void stream_take_from(struct stream *stream, uint32_t source, uint32_t place,
                      const struct mc_view *frames, size_t count,
                      uint64_t now_ns)
{
    struct letter *letter = &stream->letter;
    letter->kind = LETTER_LIVE;
    letter->place = place;
    stream->source = source;
    stream->now_ns = now_ns;
    stream->phase = PHASE_READ;
    letter->count = count < STREAM_FRAMES_MAX ? count : STREAM_FRAMES_MAX;
    if (letter->count > 0) {
        memcpy(letter->frames, frames, letter->count * sizeof *frames);
    }
    count_bytes(stream);
    if (stream->opts.on_message) {
        stream->opts.on_message(stream->opts.ctx, source, letter->frames,
                                letter->count);
    }
}

void stream_finish(struct stream *stream)
{
    struct follower *follower = stream_follower(stream);
    stream->phase = follower->recovery ? PHASE_DECIDE : PHASE_IDLE;
    if (stream->is_waiting) {
        follower_forget_held(follower);
        stream->is_waiting = false;
        stream->letter = stream->waiting;
        stream->phase = PHASE_READ;
    }
    follower_publish(follower);
}

static void count_refused(struct follower *follower, enum mc_event_error error)
{
    follower_count(&follower->counters.refused_messages, 1);
    follower_count(&follower->counters.refused[error], 1);
}

static void refuse_message(struct stream *stream,
                           const struct mc_event_fault *fault)
{
    struct follower *follower = stream_follower(stream);
    struct cursor_finding finding;
    uint64_t seq = fault->has_seq ? fault->seq : 0;
    if (stream_divert_refused(stream, fault)) {
        return;
    }
    bool is_heard = stream->letter.kind != LETTER_LIVE ||
                    places_is_current(&follower->places, stream->letter.place);
    bool is_ours =
        is_heard && cursor_message_refused(&follower->cursor, fault->has_seq,
                                           seq, &finding);
    if (!follower_was_refused(follower, seq)) {
        count_refused(follower, fault->error);
        stream_refused(stream, fault->error, fault->offset, seq);
    }
    if (is_ours && follower_has_ids(follower)) {
        recovery_lost(follower->recovery, seq,
                      stream->letter.kind == LETTER_REPLAY);
    } else if (is_ours) {
        stream_restart(stream, seq);
    }
    stream_finish(stream);
}

static struct cursor_message summary(const struct stream *stream)
{
    struct cursor_message message = {.seq = stream->batch.seq,
                                     .now_ns = stream->now_ns,
                                     .count = stream->batch.count};
    for (uint32_t i = 0; i < stream->batch.count; i++) {
        const struct mc_event *event = &stream->events[i];
        if (event->type == MC_EVENT_NONE) {
            continue;
        }
        if (!message.has_event) {
            message.has_event = true;
            message.first_index = i;
            message.first_id = event->event_id;
            message.epoch = event->epoch;
        }
        if (event->event_id > message.last_id) {
            message.last_id = event->event_id;
        }
    }
    return message;
}

void stream_begin_events(struct stream *stream)
{
    struct follower *follower = stream_follower(stream);
    bool is_published = stream->letter.kind <= LETTER_KEPT;
    follower_count(&follower->counters.messages, is_published);
    if (stream->batch.count == 0) {
        follower_count(&follower->counters.heartbeats, is_published);
    }
    stream->phase = PHASE_EVENTS;
}

/* Keeps a copy; where there is no memory for one the message is believed now,
 * and what that means is said. */
static void hold(struct stream *stream, const struct cursor_message *message)
{
    struct follower *follower = stream_follower(stream);
    struct cursor_finding finding;
    if (follower_hold(follower, stream->letter.frames) == MC_OK) {
        stream_finish(stream);
        return;
    }
    cursor_release(&follower->cursor, message, &finding);
    stream_heed(stream, &finding);
    stream_begin_events(stream);
}

/* The one that was held goes first. */
static void step_aside(struct stream *stream)
{
    struct held_message *held = &stream_follower(stream)->held;
    stream->waiting = stream->letter;
    stream->is_waiting = true;
    stream->letter.count = 3;
    memcpy(stream->letter.frames, held->frames, sizeof held->frames);
}

/* Whether a message is that of the publisher which is followed. Where that is
 * another one from here on, it is met as on a new connection, and its numbers
 * have nothing to do with those before. */
static bool is_heard(struct stream *stream,
                     const struct cursor_message *message)
{
    struct follower *follower = stream_follower(stream);
    bool is_other = false;
    if (stream->letter.kind != LETTER_LIVE) {
        return true;
    }
    bool is_ours = places_hear(&follower->places, stream->letter.place,
                               &follower->cursor, message, &is_other);
    if (is_other) {
        cursor_connected(&follower->cursor);
        follower->cursor.has_baseline &= follower->cursor.has_ids;
    }
    return is_ours;
}

static void judge(struct stream *stream)
{
    struct follower *follower = stream_follower(stream);
    struct cursor_message message = summary(stream);
    struct cursor_finding finding;
    if (stream->is_waiting) {
        cursor_release(&follower->cursor, &message, &finding);
        stream_heed(stream, &finding);
        stream_begin_events(stream);
        return;
    }
    if (!is_heard(stream, &message)) {
        follower_count(&follower->counters.passed_over, 1);
        stream_finish(stream);
        return;
    }
    if (stream_divert(stream, &message)) {
        return;
    }
    enum cursor_verdict verdict =
        cursor_message(&follower->cursor, &message, &finding);
    stream_heed(stream, &finding);
    switch (verdict) {
    case CURSOR_NEXT:
        stream_begin_events(stream);
        break;
    case CURSOR_HOLD:
        hold(stream, &message);
        break;
    case CURSOR_RELEASE:
        step_aside(stream);
        break;
    case CURSOR_DUPLICATE:
        follower_count(&follower->counters.messages, 1);
        follower_count(&follower->counters.duplicates, message.count);
        stream_finish(stream);
        break;
    }
}

static enum mc_event_error read_frames(struct stream *stream,
                                       struct mc_event_fault *fault_out)
{
    const struct engine_source *engine = stream_follower(stream)->engine;
    const struct letter *letter = &stream->letter;
    if (engine) {
        const struct engine_room room = {stream->engine_events, stream->events,
                                         stream->opts.max_events};
        return engine_source_read(engine, letter->frames, letter->count, &room,
                                  &stream->batch, fault_out);
    }
    return mc_event_read(letter->frames, letter->count, stream->events,
                         stream->opts.max_events, &stream->batch, fault_out);
}

void stream_read(struct stream *stream)
{
    struct mc_event_fault fault = {.error = MC_EVENT_OK};
    stream->at = 0;
    stream->pairs_from = 0;
    stream->is_judged = false;
    stream->is_second_try = false;
    stream->is_over = false;
    if (read_frames(stream, &fault) != MC_EVENT_OK) {
        refuse_message(stream, &fault);
        return;
    }
    judge(stream);
}

/* ---- handing out ------------------------------------------------------ */

static void hand_out_signal(struct stream *stream,
                            struct mc_subscriber_item *item_out)
{
    stream->signal = stream->signals[stream->signal_at++];
    if (stream->signal_at == stream->signal_count) {
        stream->signal_at = 0;
        stream->signal_count = 0;
    }
    follower_publish(stream_follower(stream));
    if (stream->opts.on_signal) {
        stream->opts.on_signal(stream->opts.ctx, &stream->signal);
    }
    *item_out = (struct mc_subscriber_item){.signal = &stream->signal};
}

static void hand_out_event(struct stream *stream,
                           struct mc_subscriber_item *item_out)
{
    struct follower *follower = stream_follower(stream);
    follower_count(&follower->counters.deliveries, 1);
    follower_publish(follower);
    if (stream->opts.on_event) {
        stream->opts.on_event(stream->opts.ctx, &stream->delivery);
    }
    *item_out = (struct mc_subscriber_item){.delivery = &stream->delivery};
}

/* One step on; true if a delivery is to be handed out. */
static bool go_on(struct stream *stream)
{
    switch (stream->phase) {
    case PHASE_READ:
        stream_read(stream);
        return false;
    case PHASE_EVENTS:
        if (stream->at < stream->batch.count) {
            return stream_take_event(stream);
        }
        stream_finish(stream);
        return false;
    case PHASE_DECIDE:
        stream_decide(stream);
        return false;
    case PHASE_SWEEP:
        return stream_sweep(stream);
    case PHASE_IDLE:
        break;
    }
    return false;
}

bool stream_step(struct stream *stream, struct mc_subscriber_item *item_out)
{
    for (;;) {
        if (stream->signal_count > 0) {
            hand_out_signal(stream, item_out);
            return true;
        }
        if (stream->phase == PHASE_IDLE) {
            return false;
        }
        if (go_on(stream)) {
            hand_out_event(stream, item_out);
            return true;
        }
    }
}

bool stream_is_done(const struct stream *stream)
{
    const struct follower *follower = &stream->followers[stream->source];
    bool has_event = stream->phase == PHASE_EVENTS &&
                     (stream->at < stream->batch.count || follower->recovery);
    bool is_busy = stream->phase != PHASE_EVENTS && stream->phase != PHASE_IDLE;
    return stream->signal_count == 0 && !has_event && !is_busy &&
           !stream->is_waiting;
}

uint32_t stream_place(const struct stream *stream, uint32_t source)
{
    return stream->followers[source].places.current;
}

const struct mirror *stream_mirror(const struct stream *stream, uint32_t source)
{
    return stream->followers[source].mirror;
}

void stream_stats(const struct stream *stream, uint32_t source,
                  struct mc_source_stats *stats_out)
{
    follower_stats(&stream->followers[source], stats_out);
}
