/* SPDX-License-Identifier: Apache-2.0 */
#include "replacement.h"

static bool is_same_key(const struct mc_event *a, const struct mc_event *b)
{
    return b->type != MC_EVENT_NONE && b->type != MC_EVENT_CLEARED &&
           a->epoch == b->epoch &&
           mc_view_equal(a->object_key, b->object_key) &&
           mc_view_equal(a->tenant_id, b->tenant_id) &&
           mc_view_equal(a->backend_id, b->backend_id);
}

bool replacement_is_coming(const struct mc_event *events, uint32_t count,
                           uint32_t at)
{
    const struct mc_event *removed = &events[at];
    uint64_t last_id = removed->event_id;
    if (removed->type != MC_EVENT_REMOVED) {
        return false;
    }
    uint32_t end =
        count - at > REPLACEMENT_SPAN ? at + REPLACEMENT_SPAN : count;
    for (uint32_t i = at + 1; i < end; i++) {
        const struct mc_event *event = &events[i];
        bool is_newer = event->epoch == 0 || event->event_id > last_id;
        if (!is_same_key(removed, event) || !is_newer) {
            return false;
        }
        if (mc_view_equal(event->medium, removed->medium)) {
            return event->type == MC_EVENT_STORED;
        }
        last_id = event->event_id;
    }
    return false;
}

bool replacement_find(const struct mc_event *events, uint32_t from, uint32_t at,
                      uint32_t *removed_out)
{
    const struct mc_event *stored = &events[at];
    if (stored->type != MC_EVENT_STORED) {
        return false;
    }
    if (at - from > REPLACEMENT_SPAN) {
        from = at - REPLACEMENT_SPAN;
    }
    for (uint32_t i = at; i-- > from;) {
        const struct mc_event *event = &events[i];
        if (!is_same_key(stored, event)) {
            return false;
        }
        if (mc_view_equal(event->medium, stored->medium)) {
            *removed_out = i;
            return event->type == MC_EVENT_REMOVED;
        }
    }
    return false;
}
