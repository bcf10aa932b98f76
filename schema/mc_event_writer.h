/* SPDX-License-Identifier: Apache-2.0 */
/* mc_event_writer.h - writes KV cache events: a batch to the payload of one
 * message.
 *
 * What never changes between events (field names, model, backend, ranks) is
 * laid out once when the writer is made; an event then costs a few copies. The
 * bytes are those of msgpack's smallest forms, byte for byte what
 * docs/events.md shows. The "full" profile adds `epoch` to every event and
 * `session_id` to removed and cleared; "plain" is what other stores send.
 * Threads: one thread at a time per writer.
 */
#ifndef MC_EVENT_WRITER_H
#define MC_EVENT_WRITER_H
#include <stdbool.h>

#include "mc_event.h"

#ifdef __cplusplus
extern "C" {
#endif

struct mc_event_writer; /* opaque */

/* All zero = profile full without model, block size and rank. Views are copied.
 * Strings must be UTF-8. */
struct mc_event_writer_opts {
    bool plain;            /* no additive fields */
    bool no_legacy_compat; /* leave out type, block_hashes, parent_block_hash */
    bool no_object_key;    /* leave out object_key */
    bool empty_token_ids;  /* token_ids is [] and not nil */
    bool seq_hashes;       /* decimal or 0x u64 keys fill the hash arrays */
    uint32_t block_size;   /* 0: nil */
    uint32_t dp_rank;
    uint64_t epoch;            /* profile full only */
    struct mc_view model_name; /* none or empty: nil, and so below */
    struct mc_view additional_salt;
    struct mc_view lora_name;
};

/* One event to write. Views are borrowed for the call and must be UTF-8 within
 * mc_limits.h; that is not checked again here. Needed: tenant_id (empty reads
 * as "default"), backend_id, and on stored and removed medium and object_key. */
struct mc_event_record {
    enum mc_event_type type;
    uint64_t event_id;
    uint64_t timestamp_ms;
    struct mc_view tenant_id;
    struct mc_view backend_id;
    struct mc_view medium;
    struct mc_view group_id;   /* none or empty: nil */
    struct mc_view session_id; /* none or empty: nil */
    struct mc_view object_key;
};

/* The caller owns the writer. Errors: MC_ERR_INVALID_PARAMS (a string that is
 * not UTF-8 or longer than 4096 bytes), MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err
mc_event_writer_create(const struct mc_event_writer_opts *opts,
                       struct mc_event_writer **writer_out);
void mc_event_writer_destroy(struct mc_event_writer *writer); /* NULL is fine */

/* Changes the epoch that following events carry. */
void mc_event_writer_set_epoch(struct mc_event_writer *writer, uint64_t epoch);

/* An upper bound of the payload bytes that one event takes, and what a batch
 * takes beside its events. Sum these to size a buffer. */
size_t mc_event_writer_bound(const struct mc_event_writer *writer,
                             const struct mc_event_record *record);
#define MC_EVENT_WRITER_BATCH_BOUND 24

/* Writes the payload of a batch into buffer[0..capacity). *len_out gets its
 * length. Nothing is allocated. Errors: MC_ERR_BUFFER_OVERFLOW if the bounds do
 * not fit (the buffer's content is undefined then), MC_ERR_INVALID_PARAMS
 * (count over MC_EVENT_COUNT_MAX, a type that is none of the three). */
MC_CHECK_RESULT enum mc_err
mc_event_writer_batch(struct mc_event_writer *writer, uint64_t timestamp_ms,
                      const struct mc_event_record *records, size_t count,
                      void *buffer, size_t capacity, size_t *len_out);

#ifdef __cplusplus
}
#endif
#endif
