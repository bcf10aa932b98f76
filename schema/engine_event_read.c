/* SPDX-License-Identifier: Apache-2.0 */
/* The message and the whole of an engine's event; single fields are
 * engine_event_field.c. */
#include "engine_event_field.h"
#include "event_batch.h"

struct engine_reader {
    struct event_walk walk;
    struct mc_engine_event *events;
    size_t capacity;
    struct mc_engine_batch batch;
};

/* ---- events ------------------------------------------------------------ */

/* What depends on the whole event, in the order in which it is named. */
static enum mc_event_error judge_draft(const struct engine_draft *draft)
{
    enum mc_event_type type = draft->event->type;
    if (!engine_draft_has(draft, ENGINE_TYPE)) {
        return MC_EVENT_ERROR_EVENT_TYPE_MISSING;
    }
    if (type != MC_EVENT_CLEARED &&
        !engine_draft_has(draft, ENGINE_BLOCK_HASHES)) {
        return MC_EVENT_ERROR_FIELD_MISSING;
    }
    /* Left out is not nil: nil says that the blocks begin a sequence. */
    if (type == MC_EVENT_STORED && !engine_draft_has(draft, ENGINE_PARENT)) {
        return MC_EVENT_ERROR_FIELD_MISSING;
    }
    return MC_EVENT_OK;
}

/* The elements of an event whose header has been read, as long as they are
 * good. */
static bool read_elements(struct event_walk *walk, struct engine_draft *draft,
                          const struct token *event)
{
    for (uint64_t i = 0; i < event->value; i++) {
        bool is_map = event->kind == TOKEN_MAP;
        bool is_walked;
        if (walk->error == MC_EVENT_OK) {
            is_walked = is_map ? engine_field_read(walk, draft)
                               : engine_field_read_at(walk, draft, i);
        } else {
            is_walked = event_walk_skip(walk, EVENT_FIELD_DEPTH) &&
                        (!is_map || event_walk_skip(walk, EVENT_FIELD_DEPTH));
        }
        if (!is_walked) {
            return false;
        }
    }
    return true;
}

static bool read_form(struct event_walk *walk, struct engine_draft *draft)
{
    const uint8_t *begin = walk->at;
    struct token token;
    if (!event_walk_token(walk, &token)) {
        return false;
    }
    if (token.kind != TOKEN_MAP && token.kind != TOKEN_ARRAY) {
        event_walk_error(walk, MC_EVENT_ERROR_EVENT_TYPE_FORM, begin);
        return event_walk_skip(walk, EVENT_DEPTH);
    }
    if (!token_can_follow(&token, walk->end)) {
        return event_walk_truncated(walk);
    }
    walk->at = token.body;
    if (!read_elements(walk, draft, &token)) {
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

static void refuse_event(const struct event_walk *walk,
                         struct mc_engine_event *event)
{
    memset(event, 0, sizeof *event);
    event->error = walk->error;
    event->error_offset = walk->error_offset;
}

/* False on a fault of the message. */
static bool read_event(struct event_walk *walk, struct mc_engine_event *event)
{
    struct engine_draft draft = {.event = event};
    memset(event, 0, sizeof *event);
    walk->error = MC_EVENT_OK;
    if (!read_form(walk, &draft)) {
        return false;
    }
    if (walk->error != MC_EVENT_OK) {
        refuse_event(walk, event);
        return true;
    }
    if (event->session_id.len == 0) {
        event->session_id = mc_view_make(NULL, 0);
    }
    event->is_unordered = event->type == MC_EVENT_STORED &&
                          !event->has_parent && draft.has_empty_tokens;
    return true;
}

static bool read_events(struct engine_reader *reader)
{
    struct mc_engine_batch *batch = &reader->batch;
    if (!event_batch_events(&reader->walk, reader->capacity, &batch->count)) {
        return false;
    }
    for (uint32_t i = 0; i < batch->count; i++) {
        struct mc_engine_event *event = &reader->events[i];
        if (!read_event(&reader->walk, event)) {
            return false;
        }
        event->index = i;
        batch->refused += event->error != MC_EVENT_OK;
    }
    return true;
}

/* ---- the batch --------------------------------------------------------- */

#define SECONDS_MAX (INT64_MAX / 1000)

/* Seconds, as a float of either width or an integer. */
static bool read_seconds(struct engine_reader *reader)
{
    struct event_walk *walk = &reader->walk;
    struct token token;
    if (!event_walk_token(walk, &token)) {
        return false;
    }
    if (token.kind != TOKEN_FLOAT) {
        uint64_t seconds;
        if (!event_batch_number(walk, SECONDS_MAX,
                                MC_EVENT_ERROR_TIMESTAMP_TYPE,
                                MC_EVENT_ERROR_TIMESTAMP_RANGE, &seconds)) {
            return false;
        }
        reader->batch.timestamp_ms = seconds * 1000;
        return true;
    }
    double seconds = token_float(&token, *walk->at);
    if (!(seconds >= 0 && seconds < (double)SECONDS_MAX)) {
        return event_walk_fault(walk, MC_EVENT_ERROR_TIMESTAMP_RANGE, walk->at);
    }
    reader->batch.timestamp_ms = (uint64_t)(seconds * 1000);
    walk->at = token.body;
    return true;
}

static bool read_rank(struct engine_reader *reader)
{
    struct event_walk *walk = &reader->walk;
    struct token token;
    uint64_t rank;
    if (!event_walk_token(walk, &token)) {
        return false;
    }
    if (token.kind == TOKEN_NIL) {
        walk->at = token.body;
        return true;
    }
    if (!event_batch_number(walk, UINT32_MAX, MC_EVENT_ERROR_DP_RANK_TYPE,
                            MC_EVENT_ERROR_DP_RANK_RANGE, &rank)) {
        return false;
    }
    reader->batch.dp_rank = (uint32_t)rank;
    reader->batch.has_dp_rank = true;
    return true;
}

enum batch_field { BATCH_TS, BATCH_EVENTS, BATCH_RANK, BATCH_FIELD_COUNT };

static enum batch_field find_batch_field(const struct token *name)
{
    return event_token_is(name, "ts")                   ? BATCH_TS
           : event_token_is(name, "events")             ? BATCH_EVENTS
           : event_token_is(name, "data_parallel_rank") ? BATCH_RANK
                                                        : BATCH_FIELD_COUNT;
}

static bool read_batch_value(struct engine_reader *reader,
                             enum batch_field field)
{
    return field == BATCH_TS       ? read_seconds(reader)
           : field == BATCH_EVENTS ? read_events(reader)
                                   : read_rank(reader);
}

/* Not even the message is known to be what it seems, so a name costs all. */
static bool read_batch_unknown(struct event_walk *walk,
                               const struct token *name)
{
    walk->error = MC_EVENT_OK;
    if (!event_walk_unknown(walk, name, 2)) {
        return false;
    }
    return walk->error == MC_EVENT_OK ||
           event_walk_fault(walk, walk->error, walk->base + walk->error_offset);
}

static bool read_batch_pair(struct engine_reader *reader, unsigned *seen)
{
    struct event_walk *walk = &reader->walk;
    struct token name;
    if (!event_walk_token(walk, &name)) {
        return false;
    }
    if (name.kind != TOKEN_STR) {
        return event_walk_fault(walk, MC_EVENT_ERROR_FIELD_NAME, walk->at);
    }
    enum batch_field field = find_batch_field(&name);
    if (field == BATCH_FIELD_COUNT) {
        return read_batch_unknown(walk, &name);
    }
    if (*seen >> field & 1) {
        return event_walk_fault(walk, MC_EVENT_ERROR_FIELD_DUPLICATE, walk->at);
    }
    *seen |= 1u << field;
    walk->at = token_end(&name);
    return read_batch_value(reader, field);
}

static bool read_batch_map(struct engine_reader *reader, uint64_t pairs)
{
    unsigned needed = 1u << BATCH_TS | 1u << BATCH_EVENTS;
    unsigned seen = 0;
    for (; pairs > 0; pairs--) {
        if (!read_batch_pair(reader, &seen)) {
            return false;
        }
    }
    return (seen & needed) == needed ||
           event_walk_fault(&reader->walk, MC_EVENT_ERROR_FIELD_MISSING,
                            reader->walk.base);
}

static bool read_payload(struct engine_reader *reader)
{
    struct event_walk *walk = &reader->walk;
    struct token token;
    if (!event_walk_token(walk, &token)) {
        return false;
    }
    bool is_map = token.kind == TOKEN_MAP;
    if (!is_map && token.kind != TOKEN_ARRAY) {
        return event_walk_fault(walk, MC_EVENT_ERROR_BATCH_TYPE, walk->at);
    }
    if (!is_map && token.value != 2 && token.value != 3) {
        return event_walk_fault(walk, MC_EVENT_ERROR_BATCH_ARITY, walk->at);
    }
    if (!token_can_follow(&token, walk->end)) {
        return event_walk_truncated(walk);
    }
    walk->at = token.body;
    bool is_read = is_map ? read_batch_map(reader, token.value)
                          : read_seconds(reader) && read_events(reader) &&
                                (token.value == 2 || read_rank(reader));
    if (is_read && walk->at != walk->end) {
        return event_walk_fault(walk, MC_EVENT_ERROR_PAYLOAD_TRAILING,
                                walk->at);
    }
    return is_read;
}

enum mc_event_error mc_engine_event_read(const struct mc_view *frames,
                                         size_t frame_count,
                                         struct mc_engine_event *events,
                                         size_t capacity,
                                         struct mc_engine_batch *batch_out,
                                         struct mc_event_fault *fault_out)
{
    struct mc_event_fault fault = {MC_EVENT_OK, 0, 0, 0};
    fault.error = event_batch_frames(frames, frame_count, &fault);
    if (fault.error == MC_EVENT_OK) {
        struct engine_reader reader = {.events = events, .capacity = capacity};
        event_walk_begin(&reader.walk, frames[2]);
        if (read_payload(&reader)) {
            reader.batch.seq = fault.seq;
            *batch_out = reader.batch;
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

size_t mc_engine_event_hashes(const struct mc_engine_event *event,
                              uint64_t *hashes_out, size_t capacity)
{
    if (event->hash_count == 0) {
        return 0;
    }
    const uint8_t *at = event->hashes.data;
    const uint8_t *end = at + event->hashes.len;
    for (size_t i = 0; i < event->hash_count && i < capacity; i++) {
        /* Set, because a reader of this line does not see that the bytes have
         * been walked. */
        struct token token = {0, at, TOKEN_NIL};
        token_read(at, end, &token);
        hashes_out[i] = engine_hash_of(&token);
        at = token_end(&token);
    }
    return event->hash_count;
}
