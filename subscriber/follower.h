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
#include "index_sink.h"
#include "kept.h"
#include "mc_subscriber.h"
#include "mirror.h"
#include "name_pool.h"
#include "places.h"
#include "source_recovery.h"

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
    _Atomic uint64_t is_recovering;
    _Atomic uint64_t mirror_graves;
    _Atomic uint64_t recoveries;
    _Atomic uint64_t by_replay;
    _Atomic uint64_t by_snapshot;
    _Atomic uint64_t requests;
    _Atomic uint64_t replays;
    _Atomic uint64_t snapshots;
    _Atomic uint64_t statuses;
    _Atomic uint64_t refetched;
    _Atomic uint64_t covered;
    _Atomic uint64_t rows;
    _Atomic uint64_t failures;
    _Atomic uint64_t deliveries;
    _Atomic uint64_t passed_over;
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
    struct places places;
    struct held_message held;
    struct recovery *recovery; /* NULL: what is lost stays lost */
    struct kept kept;          /* by number: what came after a gap */
    bool is_raw; /* begins at a number: events are told as they were published
                    until what is published now is reached */
    uint64_t told_seq;    /* by number: the loss of those up to it was told */
    uint64_t refused_seq; /* by number: was refused, and is fetched once */
    bool is_dirty;        /* something was applied since it was dropped */
    bool knows_all;       /* nothing the publisher ever said is missing */
    bool is_index_full;   /* told already */
    struct follower_counters counters;
};

static inline void follower_count(_Atomic uint64_t *counter, uint64_t more)
{
    uint64_t now = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, now + more, memory_order_relaxed);
}

struct follower_opts {
    const struct mc_source_opts *source; /* NULL: a store like any */
    uint64_t max_mirror_entries; /* 0: no mirror, and an engine has none */
    uint64_t seed;
    uint64_t patience_ns; /* with answers; 0: the default */
};

/* Errors: MC_ERR_INVALID_PARAMS (names of an engine; a store that is to recover
 * without a mirror; a beginning that cannot be), MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err follower_init(struct follower *follower,
                                          const struct follower_opts *opts);
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

/* Only the index and the counters of that. */
MC_CHECK_RESULT enum mc_err follower_index(struct follower *follower,
                                           const struct index_sink *sink,
                                           const struct mc_event *event,
                                           enum follower_way way,
                                           bool *is_full_out);

/* An event as the mirror takes it. */
struct mirror_event follower_mirror_event(const struct mc_event *event);

/* The same for an event of an engine. Errors: MC_ERR_BUFFER_OVERFLOW (ranks),
 * MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err
follower_apply_engine(struct follower *follower, const struct index_sink *sink,
                      const struct mc_engine_event *event, uint32_t dp_rank,
                      bool *is_full_out);

/* Lets go of all that the source holds; false if that is nothing. */
bool follower_drop(struct follower *follower, const struct index_sink *sink);

/* It recovers by ids. */
static inline bool follower_has_ids(const struct follower *follower)
{
    return follower->recovery && !follower->recovery->is_by_number;
}
/* Whether it recovers by number from here on. */
void follower_go_by_number(struct follower *follower, bool is_by_number);
/* Whether the gap was said when it was found. */
bool follower_was_told(const struct follower *follower,
                       const struct cursor_finding *finding);
/* Whether a message that is refused was so before. */
bool follower_was_refused(const struct follower *follower, uint64_t seq);

/* Copies a message of three frames to be held. Errors: MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err follower_hold(struct follower *follower,
                                          const struct mc_view *frames);
void follower_forget_held(struct follower *follower);

/* Makes the cursor's counters visible to other threads. */
void follower_publish(struct follower *follower);
void follower_stats(const struct follower *follower,
                    struct mc_source_stats *stats_out);
#endif
