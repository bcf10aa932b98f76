/* SPDX-License-Identifier: Apache-2.0 */
/* event_field.h - the fields of an event: their names, types and bounds.
 *
 * One field is one name and one value. What is read goes into a draft, which
 * becomes an event once the whole of it has been seen.
 */
#ifndef MC_EVENT_FIELD_H
#define MC_EVENT_FIELD_H
#include "event_walk.h"

enum event_field {
    FIELD_EVENT_ID,
    FIELD_TIMESTAMP,
    FIELD_EVENT_TYPE,
    FIELD_TYPE,
    FIELD_TENANT_ID,
    FIELD_BACKEND_ID,
    FIELD_MEDIUM,
    FIELD_OBJECT_KEY,
    FIELD_SESSION_ID,
    FIELD_GROUP_ID,
    FIELD_MODEL_NAME,
    FIELD_ADDITIONAL_SALT,
    FIELD_LORA_NAME,
    FIELD_BLOCK_SIZE,
    FIELD_DP_RANK,
    FIELD_BASE_BLOCK_IDX,
    FIELD_SEQ_HASHES,
    FIELD_BLOCK_HASHES,
    FIELD_PARENT_HASH,
    FIELD_PARENT_BLOCK_HASH,
    FIELD_TOKEN_IDS,
    FIELD_EPOCH,
    FIELD_COUNT /* and any name that is none of these */
};

/* Values that differ between neighbouring events of one publisher. */
#define EVENT_VARYING_FIELDS                                               \
    (1u << FIELD_EVENT_ID | 1u << FIELD_TIMESTAMP | 1u << FIELD_GROUP_ID | \
     1u << FIELD_SESSION_ID | 1u << FIELD_OBJECT_KEY)
#define EVENT_VARYING_MAX 5

/* Where the value of a varying field stood. */
struct event_mark {
    enum event_field field;
    const uint8_t *begin;
    const uint8_t *end;
};

/* An event while it is being read. */
struct event_draft {
    struct mc_event *event;  /* filled as fields come */
    uint32_t seen;           /* a bit per field */
    enum mc_event_type twin; /* what `type` says, none if unknown */
    unsigned mark_count;
    struct event_mark marks[EVENT_VARYING_MAX];
};

/* Which field a name is; FIELD_COUNT if unknown. */
enum event_field event_field_find(const uint8_t *name, size_t len);

/* Reads one name and one value. False on a fault of the message; a fault of the
 * event is noted in the walk, and the value has been walked even so. */
MC_CHECK_RESULT bool event_field_read(struct event_walk *walk,
                                      struct event_draft *draft);
#endif
