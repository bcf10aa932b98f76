/* SPDX-License-Identifier: Apache-2.0 */
/* The message and the whole of an event; single fields are event_field.c. */
#include "mci_event_read.h"

#include "event_batch.h"
#include "event_field.h"
#include "event_repeat.h"

/* Layouts learned in this message: an upsert of a key on two media needs four
 * in turn. */
#define REPEATS 4
struct repeats {
    bool is_used;
    unsigned last;   /* matched last */
    unsigned oldest; /* to be learned over */
    struct event_repeat at[REPEATS];
};

struct event_reader {
    struct event_walk walk;
    struct repeats repeats;
};

static bool draft_has(const struct event_draft *draft, enum event_field field)
{
    return draft->seen >> field & 1;
}

/* What depends on the whole event, in the order in which it is named. */
static enum mc_event_error judge_draft(const struct event_draft *draft)
{
    const struct mc_event *event = draft->event;
    bool is_cleared = event->type == MC_EVENT_CLEARED;
    if (!draft_has(draft, FIELD_EVENT_TYPE)) {
        return MC_EVENT_ERROR_EVENT_TYPE_MISSING;
    }
    if (draft_has(draft, FIELD_TYPE) && draft->twin != event->type) {
        return MC_EVENT_ERROR_EVENT_TYPE_CONFLICT;
    }
    if (!draft_has(draft, FIELD_EVENT_ID) ||
        !draft_has(draft, FIELD_TENANT_ID) || event->backend_id.len == 0 ||
        (!is_cleared && !draft_has(draft, FIELD_MEDIUM))) {
        return MC_EVENT_ERROR_FIELD_MISSING;
    }
    if (!is_cleared && !event->medium.data) {
        return MC_EVENT_ERROR_FIELD_TYPE;
    }
    if (!is_cleared && event->object_key.len == 0) {
        return MC_EVENT_ERROR_OBJECT_KEY_MISSING;
    }
    return MC_EVENT_OK;
}

/* The fields of an event whose map header has been read, as long as they are
 * good. */
static bool read_fields(struct event_walk *walk, struct event_draft *draft,
                        uint64_t pairs)
{
    for (; pairs > 0; pairs--) {
        if (walk->error == MC_EVENT_OK) {
            if (!event_field_read(walk, draft)) {
                return false;
            }
        } else if (!event_walk_skip(walk, EVENT_FIELD_DEPTH) ||
                   !event_walk_skip(walk, EVENT_FIELD_DEPTH)) {
            return false;
        }
    }
    return true;
}

/* The map of an event; what is wrong with it is left in the walk. */
static bool read_map(struct event_walk *walk, struct event_draft *draft)
{
    const uint8_t *begin = walk->at;
    struct token token;
    if (!event_walk_token(walk, &token)) {
        return false;
    }
    if (token.kind != TOKEN_MAP) {
        event_walk_error(walk, MC_EVENT_ERROR_EVENT_TYPE_FORM, begin);
        return event_walk_skip(walk, EVENT_DEPTH);
    }
    if (!token_can_follow(&token, walk->end)) {
        return event_walk_truncated(walk);
    }
    walk->at = token.body;
    if (!read_fields(walk, draft, token.value)) {
        return false;
    }
    if (walk->error == MC_EVENT_OK) {
        enum mc_event_error error = judge_draft(draft);
        if (error != MC_EVENT_OK) {
            event_walk_error(walk, error, begin);
        }
    }
    return true;
}

static void refuse_event(const struct event_walk *walk, struct mc_event *event)
{
    memset(event, 0, sizeof *event);
    event->error = walk->error;
    event->error_offset = walk->error_offset;
}

static void learn_event(struct repeats *repeats,
                        const struct event_draft *draft, const uint8_t *begin,
                        const uint8_t *end)
{
    event_repeat_learn(&repeats->at[repeats->oldest], draft, begin, end);
    repeats->last = repeats->oldest;
    repeats->oldest = (repeats->oldest + 1) % REPEATS;
}

/* One event in full. False on a fault of the message. */
static bool read_event(struct event_reader *reader, struct mc_event *event)
{
    struct event_walk *walk = &reader->walk;
    const uint8_t *begin = walk->at;
    struct event_draft draft;
    draft.event = event;
    draft.seen = 0;
    draft.twin = MC_EVENT_NONE;
    draft.mark_count = 0;
    memset(event, 0, sizeof *event);
    walk->error = MC_EVENT_OK;
    if (!read_map(walk, &draft)) {
        return false;
    }
    if (walk->error != MC_EVENT_OK) {
        refuse_event(walk, event);
        return true;
    }
    if (event->session_id.len == 0) {
        event->session_id = mc_view_make(NULL, 0);
    }
    if (reader->repeats.is_used) {
        learn_event(&reader->repeats, &draft, begin, walk->at);
    }
    return true;
}

/* The layout that came last is the likeliest. */
static bool match_event(struct event_reader *reader, struct mc_event *event)
{
    struct repeats *repeats = &reader->repeats;
    for (unsigned i = 0; i < REPEATS; i++) {
        unsigned which = (repeats->last + i) % REPEATS;
        if (event_repeat_match(&repeats->at[which], &reader->walk, event)) {
            repeats->last = which;
            return true;
        }
    }
    return false;
}

static bool read_events(struct event_reader *reader, struct mc_event *events,
                        struct mc_event_batch *batch)
{
    for (uint32_t i = 0; i < batch->count; i++) {
        struct mc_event *event = &events[i];
        if (!match_event(reader, event) && !read_event(reader, event)) {
            return false;
        }
        event->index = i;
        batch->refused += event->error != MC_EVENT_OK;
    }
    return true;
}

static bool read_batch_header(struct event_walk *walk)
{
    struct token token;
    if (!event_walk_token(walk, &token)) {
        return false;
    }
    if (token.kind != TOKEN_ARRAY) {
        return event_walk_fault(walk, MC_EVENT_ERROR_BATCH_TYPE, walk->at);
    }
    if (token.value != 3) {
        return event_walk_fault(walk, MC_EVENT_ERROR_BATCH_ARITY, walk->at);
    }
    if (!token_can_follow(&token, walk->end)) {
        return event_walk_truncated(walk);
    }
    walk->at = token.body;
    return true;
}

static bool read_payload(struct event_reader *reader, struct mc_event *events,
                         size_t capacity, struct mc_event_batch *batch)
{
    struct event_walk *walk = &reader->walk;
    uint64_t rank;
    if (!read_batch_header(walk) ||
        !event_batch_number(walk, INT64_MAX, MC_EVENT_ERROR_TIMESTAMP_TYPE,
                            MC_EVENT_ERROR_TIMESTAMP_RANGE,
                            &batch->timestamp_ms) ||
        !event_batch_events(walk, capacity, &batch->count) ||
        !read_events(reader, events, batch) ||
        !event_batch_number(walk, UINT32_MAX, MC_EVENT_ERROR_DP_RANK_TYPE,
                            MC_EVENT_ERROR_DP_RANK_RANGE, &rank)) {
        return false;
    }
    batch->dp_rank = (uint32_t)rank;
    if (walk->at != walk->end) {
        return event_walk_fault(walk, MC_EVENT_ERROR_PAYLOAD_TRAILING,
                                walk->at);
    }
    return true;
}

struct message {
    const struct mc_view *frames;
    size_t frame_count;
    struct mc_event *events;
    size_t capacity;
};

static void begin_walk(struct event_reader *reader, struct mc_view payload)
{
    event_walk_begin(&reader->walk, payload);
    for (unsigned i = 0; i < REPEATS; i++) {
        reader->repeats.at[i].run_count = 0;
    }
    reader->repeats.last = 0;
    reader->repeats.oldest = 0;
}

static enum mc_event_error read_message(const struct message *message,
                                        bool uses_repeats,
                                        struct mc_event_batch *batch_out,
                                        struct mc_event_fault *fault_out)
{
    struct mc_event_fault fault = {MC_EVENT_OK, 0, 0, 0};
    struct mc_event_batch batch = {0, 0, 0, 0, 0};
    fault.error =
        event_batch_frames(message->frames, message->frame_count, &fault);
    if (fault.error == MC_EVENT_OK) {
        struct event_reader reader;
        begin_walk(&reader, message->frames[2]);
        reader.repeats.is_used = uses_repeats;
        if (read_payload(&reader, message->events, message->capacity, &batch)) {
            batch.seq = fault.seq;
            *batch_out = batch;
            return MC_EVENT_OK;
        }
        fault.error = reader.walk.fault;
        fault.offset = reader.walk.fault_offset;
    }
    if (fault_out) {
        *fault_out = fault;
    }
    return fault.error;
}

enum mc_event_error mc_event_read(const struct mc_view *frames,
                                  size_t frame_count, struct mc_event *events,
                                  size_t capacity,
                                  struct mc_event_batch *batch_out,
                                  struct mc_event_fault *fault_out)
{
    struct message message = {frames, frame_count, events, capacity};
    return read_message(&message, true, batch_out, fault_out);
}

enum mc_event_error mci_event_read_in_full(const struct mc_view *frames,
                                           size_t frame_count,
                                           struct mc_event *events,
                                           size_t capacity,
                                           struct mc_event_batch *batch_out,
                                           struct mc_event_fault *fault_out)
{
    struct message message = {frames, frame_count, events, capacity};
    return read_message(&message, false, batch_out, fault_out);
}
