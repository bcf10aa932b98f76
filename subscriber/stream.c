/* SPDX-License-Identifier: Apache-2.0 */
/* A message goes through phases: READ (decode it, let the cursor judge it),
 * EVENTS (one after the other), and it may step aside (`waiting`) while the one
 * that was held before it goes first. Signals are queued and always leave
 * before the next event does; what is lost is dropped when it is noticed, before
 * the signals that say so. */
#include "stream.h"

#include <string.h>

#include "mci_alloc.h"
#include "replacement.h"

/* One message or event makes at most gap, epoch, degraded and two stales. */
#define SIGNALS_MAX 8

enum phase {
    PHASE_IDLE = 0, /* no message */
    PHASE_READ,
    PHASE_EVENTS
};

struct letter {
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
    bool is_waiting;       /* waiting follows when letter is done */
    struct letter waiting; /* then letter is the one that was held */
    struct mc_event_batch batch;
    uint32_t at;         /* the next event */
    uint32_t pairs_from; /* events before it were dropped */
    bool is_judged;      /* the cursor has seen the event at `at` */
    bool is_second_try;  /* there was no room for it once */
    struct mc_signal signals[SIGNALS_MAX];
    size_t signal_at;
    size_t signal_count;
    struct mc_signal signal; /* as handed out */
    struct mc_delivery delivery;
};

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
        enum mc_err err = follower_init(
            &stream->followers[i], opts->sources ? &opts->sources[i] : NULL,
            opts->max_mirror_entries, opts->seed);
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
    mci_free(stream->followers);
    mci_free(stream->is_deferred);
    mci_free(stream->engine_events);
    mci_free(stream->events);
    mci_free(stream);
}

static struct follower *follower_now(struct stream *stream)
{
    return &stream->followers[stream->source];
}

/* ---- signals ---------------------------------------------------------- */

static struct mc_signal *push_signal(struct stream *stream,
                                     enum mc_signal_type type)
{
    struct mc_signal *signal = &stream->signals[stream->signal_count++];
    *signal = (struct mc_signal){.type = type, .source = stream->source};
    return signal;
}

/* What the source holds goes, and that is said if it held something. */
static void drop_source(struct stream *stream, uint64_t seq)
{
    stream->pairs_from = stream->at;
    if (follower_drop(follower_now(stream), &stream->opts.sink)) {
        push_signal(stream, MC_SIGNAL_STALE)->seq = seq;
    }
}

static void push_gap(struct stream *stream,
                     const struct cursor_finding *finding)
{
    struct mc_signal *signal = push_signal(stream, MC_SIGNAL_GAP);
    signal->from_id = finding->from_id;
    signal->to_id = finding->to_id;
    signal->from_seq = finding->from_seq;
    signal->to_seq = finding->to_seq;
    signal->seq = stream->batch.seq;
}

static void push_epoch(struct stream *stream,
                       const struct cursor_finding *finding)
{
    struct mc_signal *signal = push_signal(stream, MC_SIGNAL_EPOCH);
    signal->epoch = finding->epoch;
    signal->from_id = finding->baseline_id > 0 ? 1 : 0;
    signal->to_id = finding->baseline_id;
    signal->seq = stream->batch.seq;
}

static void push_degraded(struct stream *stream, enum mc_event_error reason,
                          uint32_t offset, uint64_t seq)
{
    struct mc_signal *signal = push_signal(stream, MC_SIGNAL_DEGRADED);
    signal->reason = reason;
    signal->offset = offset;
    signal->seq = seq;
}

/* Says what the cursor found, and acts on it. */
static void heed(struct stream *stream, const struct cursor_finding *finding)
{
    struct follower *follower = follower_now(stream);
    if (finding->what & CURSOR_GAP) {
        push_gap(stream, finding);
    }
    if (finding->what & CURSOR_EPOCH) {
        push_epoch(stream, finding);
    }
    if (finding->what & CURSOR_BROKEN) {
        drop_source(stream, stream->batch.seq);
    }
    if (finding->what & CURSOR_EPOCH) {
        follower->knows_all = finding->baseline_id == 0;
    }
    if (finding->what & CURSOR_DISCARD) {
        follower_count(&follower->counters.strays, 1);
        follower_forget_held(follower);
    }
}

/* ---- messages --------------------------------------------------------- */

void stream_connected(struct stream *stream, uint32_t source)
{
    cursor_connected(&stream->followers[source].cursor);
}

static void count_bytes(struct stream *stream)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < stream->letter.count; i++) {
        bytes += stream->letter.frames[i].len;
    }
    follower_count(&follower_now(stream)->counters.bytes, bytes);
}

void stream_take(struct stream *stream, uint32_t source,
                 const struct mc_view *frames, size_t count, uint64_t now_ns)
{
    struct letter *letter = &stream->letter;
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

static void finish(struct stream *stream)
{
    struct follower *follower = follower_now(stream);
    stream->phase = PHASE_IDLE;
    if (stream->is_waiting) {
        follower_forget_held(follower);
        stream->is_waiting = false;
        stream->letter = stream->waiting;
        stream->phase = PHASE_READ;
    }
    follower_publish(follower);
}

static void refuse_message(struct stream *stream,
                           const struct mc_event_fault *fault)
{
    struct follower *follower = follower_now(stream);
    struct cursor_finding finding;
    follower_count(&follower->counters.refused_messages, 1);
    follower_count(&follower->counters.refused[fault->error], 1);
    uint64_t seq = fault->has_seq ? fault->seq : 0;
    bool is_ours = cursor_message_refused(&follower->cursor, fault->has_seq,
                                          seq, &finding);
    push_degraded(stream, fault->error, fault->offset, seq);
    if (is_ours) {
        drop_source(stream, seq);
    }
    finish(stream);
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

static void begin_events(struct stream *stream)
{
    struct follower *follower = follower_now(stream);
    follower_count(&follower->counters.messages, 1);
    if (stream->batch.count == 0) {
        follower_count(&follower->counters.heartbeats, 1);
    }
    stream->phase = PHASE_EVENTS;
}

/* Keeps a copy; where there is no memory for one the message is believed now,
 * and what that means is said. */
static void hold(struct stream *stream, const struct cursor_message *message)
{
    struct follower *follower = follower_now(stream);
    struct cursor_finding finding;
    if (follower_hold(follower, stream->letter.frames) == MC_OK) {
        finish(stream);
        return;
    }
    cursor_release(&follower->cursor, message, &finding);
    heed(stream, &finding);
    begin_events(stream);
}

/* The one that was held goes first. */
static void step_aside(struct stream *stream)
{
    struct held_message *held = &follower_now(stream)->held;
    stream->waiting = stream->letter;
    stream->is_waiting = true;
    stream->letter.count = 3;
    memcpy(stream->letter.frames, held->frames, sizeof held->frames);
}

static void judge(struct stream *stream)
{
    struct follower *follower = follower_now(stream);
    struct cursor_message message = summary(stream);
    struct cursor_finding finding;
    if (stream->is_waiting) {
        cursor_release(&follower->cursor, &message, &finding);
        heed(stream, &finding);
        begin_events(stream);
        return;
    }
    enum cursor_verdict verdict =
        cursor_message(&follower->cursor, &message, &finding);
    heed(stream, &finding);
    switch (verdict) {
    case CURSOR_NEXT:
        begin_events(stream);
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
        finish(stream);
        break;
    }
}

static enum mc_event_error read_frames(struct stream *stream,
                                       struct mc_event_fault *fault_out)
{
    const struct engine_source *engine = follower_now(stream)->engine;
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

static void read_message(struct stream *stream)
{
    struct mc_event_fault fault = {.error = MC_EVENT_OK};
    stream->at = 0;
    stream->pairs_from = 0;
    stream->is_judged = false;
    stream->is_second_try = false;
    if (read_frames(stream, &fault) != MC_EVENT_OK) {
        refuse_message(stream, &fault);
        return;
    }
    judge(stream);
}

/* ---- events ----------------------------------------------------------- */

static enum follower_way way_of(struct stream *stream)
{
    const struct mc_event *events = stream->events;
    uint32_t at = stream->at;
    stream->is_deferred[at] = false;
    if (follower_now(stream)->engine) {
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

static void refuse_event(struct stream *stream, const struct mc_event *event)
{
    struct follower *follower = follower_now(stream);
    cursor_event_refused(&follower->cursor);
    follower_count(&follower->counters.refused_events, 1);
    follower_count(&follower->counters.refused[event->error], 1);
    push_degraded(stream, event->error, event->error_offset, stream->batch.seq);
    drop_source(stream, stream->batch.seq);
}

static void pass_event(struct stream *stream)
{
    stream->at++;
    stream->is_judged = false;
    stream->is_second_try = false;
}

/* There was no room for the event. All that the source held goes, which makes
 * room, and the event gets a second chance after that is said; else it is
 * lost, and that is said too. */
static void lack_room(struct stream *stream)
{
    struct follower *follower = follower_now(stream);
    if (!stream->is_second_try) {
        stream->is_second_try = true;
        drop_source(stream, stream->batch.seq);
        return;
    }
    uint64_t id = stream->events[stream->at].event_id;
    struct cursor_finding finding = {
        .what = CURSOR_GAP, .from_id = id, .to_id = id};
    cursor_event_lost(&follower->cursor);
    heed(stream, &finding);
    stream->is_deferred[stream->at] = false;
    pass_event(stream);
}

/* Applies the event at `at`; true if it is to be handed out. */
static bool apply_event(struct stream *stream)
{
    struct follower *follower = follower_now(stream);
    const struct mc_event *event = &stream->events[stream->at];
    const struct mc_engine_event *engine =
        follower->engine ? &stream->engine_events[stream->at] : NULL;
    enum follower_way way = way_of(stream);
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
    if (is_full) {
        push_degraded(stream, MC_EVENT_OK, 0, stream->batch.seq);
    }
    stream->delivery = (struct mc_delivery){
        .source = stream->source,
        .replaces = way == FOLLOWER_REPLACE,
        .batch = &stream->batch,
        .event = event,
        .engine = engine,
    };
    pass_event(stream);
    return true;
}

/* One step on: signals may have been pushed, or an event is to be handed out
 * (true). */
static bool take_event(struct stream *stream)
{
    struct follower *follower = follower_now(stream);
    const struct mc_event *event = &stream->events[stream->at];
    if (event->type == MC_EVENT_NONE) {
        refuse_event(stream, event);
        stream->is_deferred[stream->at] = false;
        pass_event(stream);
        return false;
    }
    if (stream->is_judged) {
        return apply_event(stream);
    }
    struct cursor_finding finding;
    enum cursor_verdict verdict = cursor_event(&follower->cursor, event->epoch,
                                               event->event_id, &finding);
    if (verdict == CURSOR_DUPLICATE) {
        follower_count(&follower->counters.duplicates, 1);
        stream->is_deferred[stream->at] = false;
        pass_event(stream);
        return false;
    }
    heed(stream, &finding);
    stream->is_judged = true;
    return finding.what == 0 && apply_event(stream);
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
    follower_publish(follower_now(stream));
    if (stream->opts.on_signal) {
        stream->opts.on_signal(stream->opts.ctx, &stream->signal);
    }
    *item_out = (struct mc_subscriber_item){.signal = &stream->signal};
}

static void hand_out_event(struct stream *stream,
                           struct mc_subscriber_item *item_out)
{
    follower_publish(follower_now(stream));
    if (stream->opts.on_event) {
        stream->opts.on_event(stream->opts.ctx, &stream->delivery);
    }
    *item_out = (struct mc_subscriber_item){.delivery = &stream->delivery};
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
        if (stream->phase == PHASE_READ) {
            read_message(stream);
        } else if (stream->at == stream->batch.count) {
            finish(stream);
        } else if (take_event(stream)) {
            hand_out_event(stream, item_out);
            return true;
        }
    }
}

bool stream_is_done(const struct stream *stream)
{
    bool has_event =
        stream->phase == PHASE_EVENTS && stream->at < stream->batch.count;
    return stream->signal_count == 0 && stream->phase != PHASE_READ &&
           !has_event && !stream->is_waiting;
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
