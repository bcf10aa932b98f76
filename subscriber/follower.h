/* SPDX-License-Identifier: Apache-2.0 */
/* follower.h - what is kept about one source: its cursor, its mirror, the
 * backends it spoke of, its counters; and how one event is applied to all that.
 *
 * Applying an event succeeds wholly or changes nothing. Dropping a source takes
 * its mirror away and tells the index that each of its backends is lost.
 * Threads: one thread at a time, but follower_stats: any thread.
 */
#ifndef FOLLOWER_H
#define FOLLOWER_H
#include <stdatomic.h>

#include "cursor.h"
#include "engine_source.h"
#include "mc_subscriber.h"
#include "mirror.h"
#include "name_pool.h"

/* Where events go beside the mirror; the session index, outside of tests. NULL
 * ctx and functions: nowhere. They answer false where the index had no room or
 * memory: it then misses a block, or after `removed` holds one that is gone. */
struct index_sink {
    void *ctx;
    bool (*stored)(void *ctx, const struct mc_event *event);
    bool (*replaced)(void *ctx, const struct mc_event *event);
    bool (*removed)(void *ctx, const struct mc_event *event);
    void (*cleared)(void *ctx, const struct mc_event *event);
    void (*lost)(void *ctx, struct mc_view backend_id);
    /* Events of engines. */
    bool (*blocks_stored)(void *ctx, const struct mc_index_engine *engine,
                          const struct engine_blocks *blocks);
    bool (*blocks_removed)(void *ctx, const struct mc_index_engine *engine,
                           const struct engine_blocks *blocks);
    void (*blocks_cleared)(void *ctx, const struct mc_index_engine *engine);
};

/* Written by the delivering thread alone, read by any: relaxed loads and
 * stores. What the cursor counts is copied in by follower_publish. */
struct follower_counters {
    _Atomic uint64_t messages;
    _Atomic uint64_t bytes;
    _Atomic uint64_t stored;
    _Atomic uint64_t removed;
    _Atomic uint64_t cleared;
    _Atomic uint64_t heartbeats;
    _Atomic uint64_t duplicates;
    _Atomic uint64_t strays;
    _Atomic uint64_t stales;
    _Atomic uint64_t refused_messages;
    _Atomic uint64_t refused_events;
    _Atomic uint64_t refused[MC_EVENT_ERROR_COUNT_];
    _Atomic uint64_t contradictions;
    _Atomic uint64_t has_baseline;
    _Atomic uint64_t epoch;
    _Atomic uint64_t last_seq;
    _Atomic uint64_t baseline_id;
    _Atomic uint64_t last_event_id;
    _Atomic uint64_t span_ids;
    _Atomic uint64_t events;
    _Atomic uint64_t gaps;
    _Atomic uint64_t lost_ids;
    _Atomic uint64_t lost_seqs;
    _Atomic uint64_t refused_ids;
    _Atomic uint64_t restarts;
    _Atomic uint64_t mirror_entries;
};

/* A message that waits for the next one to confirm it, copied. */
struct held_message {
    void *bytes; /* NULL: none is held */
    struct mc_view frames[3];
};

struct follower {
    struct cursor cursor;
    struct mirror *mirror;        /* NULL: none is kept */
    struct engine_source *engine; /* NULL: it is a store */
    struct name_pool backends;
    struct held_message held;
    bool is_dirty;      /* something was applied since it was dropped */
    bool knows_all;     /* nothing the publisher ever said is missing */
    bool is_index_full; /* told already */
    struct follower_counters counters;
};

static inline void follower_count(_Atomic uint64_t *counter, uint64_t more)
{
    uint64_t now = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, now + more, memory_order_relaxed);
}

/* max_mirror_entries 0: no mirror, and an engine has none; source NULL: a store
 * like any. Errors: MC_ERR_INVALID_PARAMS (names of an engine), MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err follower_init(struct follower *follower,
                                          const struct mc_source_opts *source,
                                          uint64_t max_mirror_entries,
                                          uint64_t seed);
void follower_fini(struct follower *follower);

enum follower_way {
    FOLLOWER_PLAIN = 0,
    FOLLOWER_DEFER,  /* removed: the index hears of it with what follows */
    FOLLOWER_REPLACE /* stored: and of both here */
};

/* Applies an event that is new. *is_full_out: the index refused it, which is
 * told once. Errors: MC_ERR_NOMEM, MC_ERR_BUFFER_OVERFLOW (the mirror's bound):
 * nothing has changed then, or, where the index could not take a block out,
 * nothing but what goes when the source is dropped. */
MC_CHECK_RESULT enum mc_err follower_apply(struct follower *follower,
                                           const struct index_sink *sink,
                                           const struct mc_event *event,
                                           enum follower_way way,
                                           bool *is_full_out);

/* The same for an event of an engine. Errors: MC_ERR_BUFFER_OVERFLOW (ranks),
 * MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err
follower_apply_engine(struct follower *follower, const struct index_sink *sink,
                      const struct mc_engine_event *event, uint32_t dp_rank,
                      bool *is_full_out);

/* Lets go of all that the source holds; false if that is nothing. */
bool follower_drop(struct follower *follower, const struct index_sink *sink);

/* Copies a message of three frames to be held. Errors: MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err follower_hold(struct follower *follower,
                                          const struct mc_view *frames);
void follower_forget_held(struct follower *follower);

/* Makes the cursor's counters visible to other threads. */
void follower_publish(struct follower *follower);
void follower_stats(const struct follower *follower,
                    struct mc_source_stats *stats_out);
#endif
