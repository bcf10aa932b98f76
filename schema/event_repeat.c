/* SPDX-License-Identifier: Apache-2.0 */
/* Why a match is as good as reading in full: the runs hold every header and
 * name, so structure, field set, nesting and constant values are those of an
 * event that was found good; all bytes compared lie inside the payload, so no
 * count can exceed what is left; and each varying value is held to the bounds
 * of its field, the ones judged at the end of the event included. */
#include "event_repeat.h"

/* The run that holds a view, and where in it. */
static struct event_repeat_view place_view(const struct event_repeat *repeat,
                                           struct mc_view view)
{
    struct event_repeat_view place = {0, 0};
    for (unsigned i = 0; i < repeat->run_count && view.data; i++) {
        const struct event_repeat_run *run = &repeat->runs[i];
        const uint8_t *at = view.data;
        if (at >= run->bytes && at + view.len <= run->bytes + run->len) {
            place.run = i;
            place.offset = (size_t)(at - run->bytes);
            break;
        }
    }
    return place;
}

void event_repeat_learn(struct event_repeat *repeat,
                        const struct event_draft *draft, const uint8_t *begin,
                        const uint8_t *end)
{
    const uint8_t *at = begin;
    for (unsigned i = 0; i < draft->mark_count; i++) {
        const struct event_mark *mark = &draft->marks[i];
        repeat->runs[i].bytes = at;
        repeat->runs[i].len = (size_t)(mark->begin - at);
        repeat->runs[i].field = mark->field;
        at = mark->end;
    }
    repeat->run_count = draft->mark_count + 1;
    repeat->runs[draft->mark_count].bytes = at;
    repeat->runs[draft->mark_count].len = (size_t)(end - at);
    repeat->runs[draft->mark_count].field = FIELD_COUNT;
    repeat->tenant_id = place_view(repeat, draft->event->tenant_id);
    repeat->backend_id = place_view(repeat, draft->event->backend_id);
    repeat->medium = place_view(repeat, draft->event->medium);
    repeat->constant = *draft->event;
    repeat->constant.group_id = mc_view_make(NULL, 0);
    repeat->constant.session_id = mc_view_make(NULL, 0);
    repeat->constant.object_key = mc_view_make(NULL, 0);
}

static inline bool is_same_run(const uint8_t *a, const uint8_t *b, size_t len)
{
    uint64_t words[4];
    if (len < 8 || len > 16) {
        return memcmp(a, b, len) == 0;
    }
    memcpy(&words[0], a, 8);
    memcpy(&words[1], b, 8);
    memcpy(&words[2], a + len - 8, 8);
    memcpy(&words[3], b + len - 8, 8);
    return ((words[0] ^ words[1]) | (words[2] ^ words[3])) == 0;
}

/* A str or nil of at most max bytes; NULL where it is something else. */
static inline const uint8_t *read_text(const uint8_t *at, const uint8_t *end,
                                       size_t max, struct mc_view *view_out)
{
    struct token token;
    token_read(at, end, &token);
    if (token.kind == TOKEN_NIL) {
        *view_out = mc_view_make(NULL, 0);
        return token.body;
    }
    if (token.kind != TOKEN_STR || token.value > max ||
        !event_text_is_valid(token.body, token.value)) {
        return NULL;
    }
    *view_out = mc_view_make(token.body, token.value);
    return token.body + token.value;
}

static inline const uint8_t *
read_unsigned(const uint8_t *at, const uint8_t *end, uint64_t *number_out)
{
    struct token token;
    token_read(at, end, &token);
    if (token.kind != TOKEN_UINT) {
        return NULL;
    }
    *number_out = token.value;
    return token.body;
}

/* The varying values of an event. */
struct varying {
    uint64_t event_id;
    struct mc_view group_id;
    struct mc_view session_id;
    struct mc_view object_key;
};

/* One varying value; NULL where it is not what an event like this may hold. */
static inline const uint8_t *read_varying(enum event_field field,
                                          const uint8_t *at, const uint8_t *end,
                                          struct varying *varying)
{
    uint64_t timestamp;
    switch (field) {
    case FIELD_EVENT_ID:
        return read_unsigned(at, end, &varying->event_id);
    case FIELD_TIMESTAMP:
        return read_unsigned(at, end, &timestamp);
    case FIELD_GROUP_ID:
        return read_text(at, end, SIZE_MAX, &varying->group_id);
    case FIELD_SESSION_ID:
        return read_text(at, end, MC_SESSION_ID_LEN_MAX, &varying->session_id);
    default:
        at = read_text(at, end, MC_KEY_LEN_MAX, &varying->object_key);
        return varying->object_key.len != 0 ? at : NULL;
    }
}

static inline void move_view(struct mc_view *view,
                             const struct event_repeat_view *place,
                             const uint8_t *const *runs)
{
    if (view->data) {
        view->data = runs[place->run] + place->offset;
    }
}

bool event_repeat_match(const struct event_repeat *repeat,
                        struct event_walk *walk, struct mc_event *event_out)
{
    const uint8_t *at = walk->at;
    const uint8_t *runs[EVENT_VARYING_MAX + 1];
    struct varying varying = {0};
    if (repeat->run_count == 0) {
        return false;
    }
    for (unsigned i = 0; i < repeat->run_count; i++) {
        const struct event_repeat_run *run = &repeat->runs[i];
        if ((size_t)(walk->end - at) < run->len ||
            !is_same_run(at, run->bytes, run->len)) {
            return false;
        }
        runs[i] = at;
        at += run->len;
        if (run->field == FIELD_COUNT) {
            break;
        }
        at = read_varying(run->field, at, walk->end, &varying);
        if (!at) {
            return false;
        }
    }
    *event_out = repeat->constant;
    event_out->event_id = varying.event_id;
    event_out->group_id = varying.group_id;
    event_out->object_key = varying.object_key;
    if (varying.session_id.len != 0) {
        event_out->session_id = varying.session_id;
    }
    move_view(&event_out->tenant_id, &repeat->tenant_id, runs);
    move_view(&event_out->backend_id, &repeat->backend_id, runs);
    move_view(&event_out->medium, &repeat->medium, runs);
    walk->at = at;
    return true;
}
