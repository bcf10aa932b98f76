/* SPDX-License-Identifier: Apache-2.0 */
/* mc_engine_event.h - reads the KV events of engines (vLLM, SGLang) as strictly
 * as mc_event.h reads those of a store, by the same walk.
 *
 * An engine's message has the same three frames. Its payload is an array
 * [seconds, [event, ...], dp_rank], or a map of the same; an event is an array
 * or a map, depending on the engine and its version, and a reader need not know
 * which. It says which blocks, by hash, came to a medium of this worker or went
 * from it. Refusals are those of mc_event.h; a bad event costs itself alone.
 * docs/events.md lists the forms.
 * Threads: pure functions, any thread.
 */
#ifndef MC_ENGINE_EVENT_H
#define MC_ENGINE_EVENT_H
#include <stdbool.h>

#include "mc_event.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One event. Views are borrowed from the payload: valid as long as its bytes.
 * data == NULL: nil or absent. An event that was refused has type
 * MC_EVENT_NONE, index, error and error_offset, and all else zero. */
struct mc_engine_event {
    enum mc_event_type type;
    enum mc_event_error error;
    uint32_t error_offset;   /* into the payload */
    uint32_t index;          /* place in its message, from 0 */
    uint32_t hash_count;     /* stored, removed: at most MC_EVENT_BLOCKS_MAX */
    uint32_t token_count;    /* tokens, or pairs of them */
    uint32_t block_size;     /* tokens of a block; 0 = not said */
    uint32_t group_idx;      /* of a hybrid cache */
    uint32_t sliding_window; /* of the group, in tokens; 0 = not said */
    bool has_parent; /* stored: false: begins a sequence, or is_unordered */
    bool has_group;
    bool has_lora_id;
    bool has_pairs;    /* token_ids are pairs, as EAGLE drafts need them */
    bool is_unordered; /* stored: an empty token_ids and no parent: blocks that
                       were copied to a medium; nothing is said about what
                       precedes them */
    uint64_t parent;   /* as mc_engine_event_hashes gives them */
    int64_t lora_id;
    struct mc_view hashes; /* their msgpack bytes */
    struct mc_view medium; /* as sent: "GPU", "CPU", ...; none: "GPU" */
    struct mc_view lora_name;
    struct mc_view session_id; /* none where empty */
    struct mc_view cache_salt;
    struct mc_view spec_kind; /* of the group, "full_attention" ... */
    struct mc_view locality;  /* "REMOTE": not at this worker */
};

/* A message. */
struct mc_engine_batch {
    uint64_t seq;          /* from 0 */
    uint64_t timestamp_ms; /* unix time, rounded down */
    uint32_t dp_rank;
    bool has_dp_rank; /* false: nil or left out */
    uint32_t count;   /* events, the refused ones included */
    uint32_t refused; /* how many of them were refused */
};

/* Reads one message into events[0..capacity), as mc_event_read does. */
MC_CHECK_RESULT enum mc_event_error
mc_engine_event_read(const struct mc_view *frames, size_t frame_count,
                     struct mc_engine_event *events, size_t capacity,
                     struct mc_engine_batch *batch_out,
                     struct mc_event_fault *fault_out);

/* The block hashes of a good event, 64 bits each: integers as they are, a
 * negative one as its two's complement, of bytes the last eight, big-endian.
 * Writes at most `capacity`; returns how many there are. */
size_t mc_engine_event_hashes(const struct mc_engine_event *event,
                              uint64_t *hashes_out, size_t capacity);

#ifdef __cplusplus
}
#endif
#endif
