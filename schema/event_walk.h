/* SPDX-License-Identifier: Apache-2.0 */
/* event_walk.h - the one walk over an event payload, and its two kinds of
 * fault.
 *
 * A fault of the message ends the walk where it stands. A fault of an event is
 * noted, the first one only, and the walk goes on, because a fault of the
 * message that is met later wins.
 * Threads: one thread at a time.
 */
#ifndef MC_EVENT_WALK_H
#define MC_EVENT_WALK_H
#include "mc_event.h"
#include "mci_utf8.h"
#include "token.h"

struct event_walk {
    const uint8_t *base;
    const uint8_t *at;
    const uint8_t *end;
    enum mc_event_error fault; /* of the message */
    uint32_t fault_offset;
    enum mc_event_error error; /* of the event at hand */
    uint32_t error_offset;
};

/* Nesting of the values inside an event: batch 1, events 2, event 3. */
#define EVENT_DEPTH 3
#define EVENT_FIELD_DEPTH 4

static inline void event_walk_begin(struct event_walk *walk,
                                    struct mc_view payload)
{
    walk->base = payload.data ? payload.data : (const void *)"";
    walk->at = walk->base;
    walk->end = walk->base + payload.len;
    walk->fault = MC_EVENT_OK;
    walk->error = MC_EVENT_OK;
}

/* Always false, for the caller to return. */
static inline bool event_walk_fault(struct event_walk *walk,
                                    enum mc_event_error error,
                                    const uint8_t *at)
{
    walk->fault = error;
    walk->fault_offset = (uint32_t)(at - walk->base);
    return false;
}

static inline bool event_walk_truncated(struct event_walk *walk)
{
    return event_walk_fault(walk, MC_EVENT_ERROR_PAYLOAD_TRUNCATED, walk->end);
}

static inline void event_walk_error(struct event_walk *walk,
                                    enum mc_event_error error,
                                    const uint8_t *at)
{
    if (walk->error == MC_EVENT_OK) {
        walk->error = error;
        walk->error_offset = (uint32_t)(at - walk->base);
    }
}

/* Reads the header at walk->at and stays there; false on a fault. */
static inline bool event_walk_token(struct event_walk *walk,
                                    struct token *token_out)
{
    token_read(walk->at, walk->end, token_out);
    if (token_out->kind > TOKEN_MALFORMED) {
        return true;
    }
    if (token_out->kind == TOKEN_MALFORMED) {
        return event_walk_fault(walk, MC_EVENT_ERROR_PAYLOAD_MALFORMED,
                                walk->at);
    }
    return event_walk_truncated(walk);
}

#define EVENT_HIGH_BITS UINT64_C(0x8080808080808080)

/* Is this UTF-8? Most names and keys are ASCII and judged in here. */
static inline bool event_text_is_valid(const uint8_t *text, size_t len)
{
    uint64_t high = 0;
    uint64_t words[4];
    size_t done = 0;
    if (len < sizeof words[0]) {
        for (; done < len; done++) {
            high |= text[done];
        }
        return (high & 0x80) == 0 || mci_utf8_valid(text, len);
    }
    for (; len - done >= sizeof words; done += sizeof words) {
        memcpy(words, text + done, sizeof words);
        high |= words[0] | words[1] | words[2] | words[3];
    }
    for (; len - done >= sizeof words[0]; done += sizeof words[0]) {
        memcpy(words, text + done, sizeof words[0]);
        high |= words[0];
    }
    /* The last word may overlap what was seen. */
    memcpy(words, text + len - sizeof words[0], sizeof words[0]);
    high |= words[0];
    return (high & EVENT_HIGH_BITS) == 0 || mci_utf8_valid(text, len);
}

static inline bool event_token_is(const struct token *token, const char *text)
{
    return mc_view_equal(mc_view_make(token->body, token->value),
                         mc_view_str(text));
}

/* Walks one value of any shape to its end, as long as the message allows; a
 * container in its place would be nested `depth` deep. Strs that are not UTF-8
 * are an error of the event. False on a fault. */
MC_CHECK_RESULT bool event_walk_skip(struct event_walk *walk, unsigned depth);

/* The walk stands at a name that no field has: it and its value are walked. */
MC_CHECK_RESULT bool event_walk_unknown(struct event_walk *walk,
                                        const struct token *name,
                                        unsigned depth);
#endif
