/* SPDX-License-Identifier: Apache-2.0 */
/* engine_event_field.h - the fields of an engine's event: names, places in an
 * array, types and bounds.
 */
#ifndef ENGINE_EVENT_FIELD_H
#define ENGINE_EVENT_FIELD_H
#include "event_walk.h"
#include "mc_engine_event.h"

enum engine_field {
    ENGINE_TYPE,
    ENGINE_BLOCK_HASHES,
    ENGINE_PARENT,
    ENGINE_TOKEN_IDS,
    ENGINE_BLOCK_SIZE,
    ENGINE_LORA_ID,
    ENGINE_MEDIUM,
    ENGINE_LORA_NAME,
    ENGINE_EXTRA_KEYS,
    ENGINE_GROUP_IDX,
    ENGINE_SPEC_KIND,
    ENGINE_SLIDING_WINDOW,
    ENGINE_LOCALITY,
    ENGINE_SESSION_ID,
    ENGINE_CACHE_SALT,
    ENGINE_FIELD_COUNT /* and any name that is none of these */
};

/* An event while it is being read. */
struct engine_draft {
    struct mc_engine_event *event; /* filled as fields come */
    uint32_t seen;                 /* a bit per field */
    bool has_empty_tokens;
};

static inline bool engine_draft_has(const struct engine_draft *draft,
                                    enum engine_field field)
{
    return draft->seen >> field & 1;
}

/* Reads a name and a value of an event that is a map. False on a fault of the
 * message; a fault of the event is noted in the walk, and the value has been
 * walked even so. */
MC_CHECK_RESULT bool engine_field_read(struct event_walk *walk,
                                       struct engine_draft *draft);

/* Reads the value at a place of an event that is an array: the tag stands at
 * place 0 and says what the others are. */
MC_CHECK_RESULT bool engine_field_read_at(struct event_walk *walk,
                                          struct engine_draft *draft,
                                          uint64_t place);

/* The hash of a token that may be one. */
uint64_t engine_hash_of(const struct token *token);
#endif
