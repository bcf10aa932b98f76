/* SPDX-License-Identifier: Apache-2.0 */
#include "event_batch.h"

enum mc_event_error event_batch_frames(const struct mc_view *frames,
                                       size_t frame_count,
                                       struct mc_event_fault *fault)
{
    if (frame_count != 3) {
        return MC_EVENT_ERROR_FRAME_COUNT;
    }
    if (frames[1].len != 8) {
        return MC_EVENT_ERROR_SEQ_SIZE;
    }
    fault->has_seq = 1;
    fault->seq = mci_get_be64(frames[1].data);
    if (frames[2].len > MC_EVENT_PAYLOAD_MAX) {
        return MC_EVENT_ERROR_PAYLOAD_TOO_LARGE;
    }
    return MC_EVENT_OK;
}

bool event_batch_number(struct event_walk *walk, uint64_t max,
                        enum mc_event_error type_fault,
                        enum mc_event_error range_fault, uint64_t *number_out)
{
    struct token token;
    if (!event_walk_token(walk, &token)) {
        return false;
    }
    if (token.kind != TOKEN_UINT && token.kind != TOKEN_NEGATIVE) {
        return event_walk_fault(walk, type_fault, walk->at);
    }
    if (token.kind == TOKEN_NEGATIVE || token.value > max) {
        return event_walk_fault(walk, range_fault, walk->at);
    }
    *number_out = token.value;
    walk->at = token.body;
    return true;
}

bool event_batch_events(struct event_walk *walk, size_t capacity,
                        uint32_t *count_out)
{
    struct token token;
    if (!event_walk_token(walk, &token)) {
        return false;
    }
    if (token.kind != TOKEN_ARRAY) {
        return event_walk_fault(walk, MC_EVENT_ERROR_EVENTS_TYPE, walk->at);
    }
    if (token.value > MC_EVENT_COUNT_MAX || token.value > capacity) {
        return event_walk_fault(walk, MC_EVENT_ERROR_EVENTS_COUNT, walk->at);
    }
    if (!token_can_follow(&token, walk->end)) {
        return event_walk_truncated(walk);
    }
    *count_out = (uint32_t)token.value;
    walk->at = token.body;
    return true;
}
