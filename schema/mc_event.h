/* SPDX-License-Identifier: Apache-2.0 */
/* mc_event.h - reads KV cache events: one ZeroMQ message to views, strictly.
 *
 * A message has three frames: topic, sequence number (u64, big-endian), and a
 * msgpack payload [timestamp_ms, [event, ...], dp_rank]. One walk over the
 * payload fills an array of events that the caller lends; nothing is handed on
 * before the walk has reached the end of the message. Every length is compared
 * with a bound before it is believed, every str checked for UTF-8, and nothing
 * is allocated. A bad event costs itself alone; a bad message yields nothing
 * but, where it can be read, its sequence number. docs/events.md is the
 * contract with bytes.
 * Threads: pure functions, any thread.
 */
#ifndef MC_EVENT_H
#define MC_EVENT_H
#include <stdint.h>

#include "mc_err.h"
#include "mc_limits.h"
#include "mc_view.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Refusals by name, X(ENUM, name). Those up to dp_rank_range cost the message,
 * the others the event; the last two only engines' events can have, and a fault
 * of a name in an engine's message that is a map costs the message. */
#define MC_EVENT_ERROR_LIST(X)                    \
    X(FRAME_COUNT, "frame_count")                 \
    X(SEQ_SIZE, "seq_size")                       \
    X(PAYLOAD_TOO_LARGE, "payload_too_large")     \
    X(PAYLOAD_TRUNCATED, "payload_truncated")     \
    X(PAYLOAD_TRAILING, "payload_trailing")       \
    X(PAYLOAD_MALFORMED, "payload_malformed")     \
    X(DEPTH, "depth")                             \
    X(BATCH_TYPE, "batch_type")                   \
    X(BATCH_ARITY, "batch_arity")                 \
    X(TIMESTAMP_TYPE, "timestamp_type")           \
    X(TIMESTAMP_RANGE, "timestamp_range")         \
    X(EVENTS_TYPE, "events_type")                 \
    X(EVENTS_COUNT, "events_count")               \
    X(DP_RANK_TYPE, "dp_rank_type")               \
    X(DP_RANK_RANGE, "dp_rank_range")             \
    X(EVENT_TYPE_FORM, "event_type_form")         \
    X(FIELD_NAME, "field_name")                   \
    X(FIELD_DUPLICATE, "field_duplicate")         \
    X(EVENT_TYPE_MISSING, "event_type_missing")   \
    X(EVENT_TYPE_UNKNOWN, "event_type_unknown")   \
    X(EVENT_TYPE_CONFLICT, "event_type_conflict") \
    X(FIELD_MISSING, "field_missing")             \
    X(FIELD_TYPE, "field_type")                   \
    X(FIELD_RANGE, "field_range")                 \
    X(OBJECT_KEY_MISSING, "object_key_missing")   \
    X(OBJECT_KEY_TOO_LONG, "object_key_too_long") \
    X(SESSION_ID_TOO_LONG, "session_id_too_long") \
    X(UTF8, "utf8")                               \
    X(HASH_COUNT, "hash_count")                   \
    X(HASH_SIZE, "hash_size")

enum mc_event_error {
    MC_EVENT_OK = 0,
#define MC_EVENT_ERROR_ENUM_(name, text) MC_EVENT_ERROR_##name,
    MC_EVENT_ERROR_LIST(MC_EVENT_ERROR_ENUM_)
#undef MC_EVENT_ERROR_ENUM_
        MC_EVENT_ERROR_COUNT_
};

/* Its name in lower case, as in the list; "ok" for 0, "unknown" beyond. */
const char *mc_event_error_name(enum mc_event_error error);

enum mc_event_type {
    MC_EVENT_NONE = 0, /* the event was refused */
    MC_EVENT_STORED = 1,
    MC_EVENT_REMOVED = 2,
    MC_EVENT_CLEARED = 3
};

/* "stored", "removed", "cleared", "none". */
const char *mc_event_type_name(enum mc_event_type type);

/* One event. Views are borrowed from the payload: valid as long as its bytes.
 * data == NULL: nil or absent. An event that was refused has type
 * MC_EVENT_NONE, index, error and error_offset, and all else zero. */
struct mc_event {
    enum mc_event_type type;
    enum mc_event_error error;
    uint32_t error_offset; /* into the payload */
    uint32_t index;        /* place in its message, from 0 */
    uint64_t event_id;
    uint64_t epoch; /* 0 = none */
    struct mc_view tenant_id;
    struct mc_view backend_id;
    struct mc_view medium; /* may be none on cleared */
    struct mc_view group_id;
    struct mc_view session_id; /* none where empty */
    struct mc_view object_key; /* may be none on cleared */
};

/* A message. */
struct mc_event_batch {
    uint64_t seq;
    uint64_t timestamp_ms; /* unix time */
    uint32_t dp_rank;
    uint32_t count;   /* events, the refused ones included; 0: a heartbeat */
    uint32_t refused; /* how many of them were refused */
};

/* What was wrong with a message. */
struct mc_event_fault {
    enum mc_event_error error;
    uint32_t offset; /* into the payload; 0 for faults of the frames */
    int has_seq;     /* the sequence number could be read even so */
    uint64_t seq;
};

/* Reads one message into events[0..capacity). Returns MC_EVENT_OK and fills
 * *batch_out, or names the fault, fills *fault_out (may be NULL) and leaves
 * *batch_out alone; events[] is scratch then. More events than capacity is
 * MC_EVENT_ERROR_EVENTS_COUNT; MC_EVENT_COUNT_MAX views take any message. */
MC_CHECK_RESULT enum mc_event_error
mc_event_read(const struct mc_view *frames, size_t frame_count,
              struct mc_event *events, size_t capacity,
              struct mc_event_batch *batch_out,
              struct mc_event_fault *fault_out);

#ifdef __cplusplus
}
#endif
#endif
