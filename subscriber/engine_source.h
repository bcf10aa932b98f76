/* SPDX-License-Identifier: Apache-2.0 */
/* engine_source.h - what is kept about a source that is an engine: the names
 * that the index knows it by, and the ranks that it spoke for; and how its
 * events are told to the index.
 *
 * Told are the events of group 0 of a hybrid cache, or without a group, that
 * are about this worker and a tier that the index knows; the others are counted
 * and handed on, and the index does not hear of them.
 * Threads: one thread at a time.
 */
#ifndef ENGINE_SOURCE_H
#define ENGINE_SOURCE_H
#include "mc_engine_event.h"
#include "mc_subscriber.h"

struct engine_source;
struct index_sink;

/* Blocks that came, as mc_index_engine_stored and _held want them. */
struct engine_blocks {
    enum mc_tier tier;
    bool is_unordered;
    const uint64_t *parent; /* NULL: they begin a sequence */
    const uint64_t *hashes;
    size_t count;
    struct mc_view session;
};

/* Copies the names. Errors: MC_ERR_INVALID_PARAMS (a worker or tenant that the
 * index would not take), MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err
engine_source_create(const struct mc_source_opts *opts,
                     struct engine_source **source_out);
void engine_source_destroy(struct engine_source *source); /* NULL is fine */

/* Events as engines tell them, and beside each what it has in common with an
 * event of a store. */
struct engine_room {
    struct mc_engine_event *engine_events;
    struct mc_event *events;
    size_t capacity; /* of both */
};

/* Reads a message. The rank of one that names none is the source's. */
MC_CHECK_RESULT enum mc_event_error engine_source_read(
    const struct engine_source *source, const struct mc_view *frames,
    size_t count, const struct engine_room *room,
    struct mc_event_batch *batch_out, struct mc_event_fault *fault_out);

/* Tells the index. *is_full_out: it had no room for a block. Errors:
 * MC_ERR_BUFFER_OVERFLOW (ranks), nothing was told then; MC_ERR_NOMEM, the
 * index could not take a block out. */
MC_CHECK_RESULT enum mc_err
engine_source_apply(struct engine_source *source, const struct index_sink *sink,
                    const struct mc_engine_event *event, uint32_t dp_rank,
                    bool *is_full_out);

/* Tells the index that nothing is known of any rank that spoke. */
void engine_source_lose(struct engine_source *source,
                        const struct index_sink *sink);
#endif
