/* SPDX-License-Identifier: Apache-2.0 */
#include "follower.h"

#include <string.h>

#include "mci_alloc.h"
#include "mci_bytes.h"
#include "mirror_past.h"

/* Backends are interned one by one and let go only with the source's entries;
 * a stream that makes up ever more of them is dropped here. */
#define BACKENDS_MAX 4096

/* An engine's live messages wait for what is fetched, so not for long. */
#define ENGINE_PATIENCE_NS (2 * RECOVERY_NS_PER_S)
#define KEPT_BYTES_MAX ((size_t)16 << 20)

static bool can_begin(const struct mc_source_opts *source,
                      const struct follower *follower)
{
    bool is_ours = source->begin == MC_BEGIN_NOW || follower->recovery;
    return is_ours && (source->begin != MC_BEGIN_SNAPSHOT || !follower->engine);
}

static enum mc_err init_recovery(struct follower *follower,
                                 const struct follower_opts *opts)
{
    const struct mc_source_opts *source = opts->source;
    uint64_t patience_ns = opts->patience_ns;
    if (!follower->engine && !follower->mirror) {
        return MC_ERR_INVALID_PARAMS;
    }
    follower->recovery = mci_alloc(sizeof *follower->recovery);
    if (!follower->recovery) {
        return MC_ERR_NOMEM;
    }
    if (patience_ns == 0 && follower->engine) {
        patience_ns = ENGINE_PATIENCE_NS;
    }
    recovery_init(follower->recovery, patience_ns, opts->seed);
    follower->recovery->is_unpaced = follower->engine != NULL;
    follower_go_by_number(follower, follower->engine != NULL ||
                                        source->begin == MC_BEGIN_SEQ);
    if (source->begin == MC_BEGIN_SNAPSHOT && !follower->engine) {
        recovery_begin_snapshot(follower->recovery);
    } else if (source->begin == MC_BEGIN_SEQ) {
        recovery_begin_replay(follower->recovery, source->begin_seq);
        follower->is_raw = true;
    }
    return MC_OK;
}

static enum mc_err init_parts(struct follower *follower,
                              const struct follower_opts *opts)
{
    const struct mc_source_opts *source = opts->source;
    enum mc_err err = MC_OK;
    if (source && source->profile == MC_PROFILE_ENGINE) {
        err = engine_source_create(source, &follower->engine);
    } else if (opts->max_mirror_entries > 0) {
        err = mirror_create(opts->max_mirror_entries, opts->seed,
                            &follower->mirror);
    }
    if (err == MC_OK && source && source->recovery_endpoint) {
        err = init_recovery(follower, opts);
    }
    if (err == MC_OK && source && !can_begin(source, follower)) {
        err = MC_ERR_INVALID_PARAMS;
    }
    return err;
}

enum mc_err follower_init(struct follower *follower,
                          const struct follower_opts *opts)
{
    memset(follower, 0, sizeof *follower);
    cursor_init(&follower->cursor);
    kept_init(&follower->kept, KEPT_BYTES_MAX);
    follower->backends.seed = opts->seed;
    return init_parts(follower, opts);
}

void follower_fini(struct follower *follower)
{
    mirror_destroy(follower->mirror);
    engine_source_destroy(follower->engine);
    name_pool_fini(&follower->backends);
    follower_forget_held(follower);
    if (follower->recovery) {
        kept_empty(&follower->kept);
    }
    mci_free(follower->recovery);
}

/* ---- recovering -------------------------------------------------------- */

void follower_go_by_number(struct follower *follower, bool is_by_number)
{
    struct recovery *recovery = follower->recovery;
    if (!recovery || (recovery->is_by_number && recovery->is_active)) {
        return; /* after what is being fetched */
    }
    recovery_go_by_number(recovery, is_by_number);
    follower->cursor.keeps_losses = !is_by_number;
}

bool follower_was_told(const struct follower *follower,
                       const struct cursor_finding *finding)
{
    return follower->recovery && follower->recovery->is_by_number &&
           finding->to_seq > 0 && finding->to_seq <= follower->told_seq;
}

bool follower_was_refused(const struct follower *follower, uint64_t seq)
{
    return follower->refused_seq > 0 && follower->refused_seq == seq;
}

/* ---- applying ---------------------------------------------------------- */

static enum mc_err know_backend(struct follower *follower,
                                struct mc_view backend_id)
{
    if (name_pool_find(&follower->backends, backend_id)) {
        return MC_OK;
    }
    if (follower->backends.table.count >= BACKENDS_MAX) {
        return MC_ERR_BUFFER_OVERFLOW;
    }
    struct name *name = NULL;
    return name_pool_hold(&follower->backends, backend_id, &name);
}

struct mirror_event follower_mirror_event(const struct mc_event *event)
{
    return (struct mirror_event){
        .tenant_id = event->tenant_id,
        .backend_id = event->backend_id,
        .object_key = event->object_key,
        .medium = event->medium,
        .session_id = event->session_id,
        .group_id = event->group_id,
        .event_id = event->event_id,
        .by_order = event->epoch == 0,
    };
}

static enum mc_err mirror_apply(struct follower *follower,
                                const struct mc_event *event)
{
    if (!follower->mirror) {
        return MC_OK;
    }
    struct mirror_event what = follower_mirror_event(event);
    enum mirror_change change = MIRROR_ADDED;
    enum mc_err err = MC_OK;
    if (event->type == MC_EVENT_STORED) {
        err = mirror_stored(follower->mirror, &what, &change);
    } else if (event->type == MC_EVENT_REMOVED) {
        change = mirror_removed(follower->mirror, &what);
    } else {
        (void)mirror_cleared(follower->mirror, &what);
    }
    if (err != MC_OK) {
        return err;
    }
    if (change == MIRROR_CHANGED ||
        (change == MIRROR_ABSENT && follower->knows_all)) {
        follower_count(&follower->counters.contradictions, 1);
    }
    return MC_OK;
}

/* False where the index had no room. */
static bool index_apply(const struct index_sink *sink,
                        const struct mc_event *event, enum follower_way way)
{
    if (way == FOLLOWER_DEFER) {
        return true;
    }
    if (way == FOLLOWER_REPLACE) {
        return sink->replaced(sink->ctx, event);
    }
    if (event->type == MC_EVENT_STORED) {
        return sink->stored(sink->ctx, event);
    }
    if (event->type == MC_EVENT_REMOVED) {
        return sink->removed(sink->ctx, event);
    }
    sink->cleared(sink->ctx, event);
    return true;
}

static void count_event(struct follower *follower, enum mc_event_type type)
{
    struct follower_counters *counters = &follower->counters;
    follower_count(type == MC_EVENT_STORED    ? &counters->stored
                   : type == MC_EVENT_REMOVED ? &counters->removed
                                              : &counters->cleared,
                   1);
}

/* An event was applied; true if the index refused it, the first time. */
static bool note_applied(struct follower *follower, enum mc_event_type type,
                         bool is_full)
{
    bool is_news = is_full && !follower->is_index_full;
    follower->is_index_full |= is_full;
    follower->is_dirty = true;
    count_event(follower, type);
    return is_news;
}

enum mc_err follower_index(struct follower *follower,
                           const struct index_sink *sink,
                           const struct mc_event *event, enum follower_way way,
                           bool *is_full_out)
{
    bool is_full = sink->stored && !index_apply(sink, event, way);
    if (is_full && event->type == MC_EVENT_REMOVED) {
        return MC_ERR_NOMEM; /* it would go on to say that the block is there */
    }
    *is_full_out = note_applied(follower, event->type, is_full);
    return MC_OK;
}

enum mc_err follower_apply(struct follower *follower,
                           const struct index_sink *sink,
                           const struct mc_event *event, enum follower_way way,
                           bool *is_full_out)
{
    enum mc_err err = know_backend(follower, event->backend_id);
    if (err != MC_OK) {
        return err;
    }
    err = mirror_apply(follower, event);
    if (err != MC_OK) {
        return err;
    }
    return follower_index(follower, sink, event, way, is_full_out);
}

enum mc_err follower_apply_engine(struct follower *follower,
                                  const struct index_sink *sink,
                                  const struct mc_engine_event *event,
                                  uint32_t dp_rank, bool *is_full_out)
{
    bool is_full = false;
    enum mc_err err =
        engine_source_apply(follower->engine, sink, event, dp_rank, &is_full);
    if (err == MC_OK) {
        *is_full_out = note_applied(follower, event->type, is_full);
    }
    return err;
}

static void lose_backends(struct follower *follower,
                          const struct index_sink *sink)
{
    const struct slot_table *table = &follower->backends.table;
    for (size_t i = 0; sink->lost && i < table->capacity; i++) {
        if (table->items[i]) {
            sink->lost(sink->ctx, name_view(table->items[i]));
        }
    }
    name_pool_fini(&follower->backends);
}

bool follower_drop(struct follower *follower, const struct index_sink *sink)
{
    follower->knows_all = false;
    lose_backends(follower, sink);
    if (follower->engine) {
        engine_source_lose(follower->engine, sink);
    }
    if (follower->mirror) {
        mirror_clear(follower->mirror);
    }
    if (!follower->is_dirty) {
        return false;
    }
    follower->is_dirty = false;
    follower->is_index_full = false;
    follower_count(&follower->counters.stales, 1);
    return true;
}

enum mc_err follower_hold(struct follower *follower,
                          const struct mc_view *frames)
{
    size_t len = 0;
    for (int i = 0; i < 3; i++) {
        if (!mci_add_size(len, frames[i].len, &len)) {
            return MC_ERR_NOMEM;
        }
    }
    char *bytes = mci_alloc(len);
    if (!bytes) {
        return MC_ERR_NOMEM;
    }
    follower->held.bytes = bytes;
    for (int i = 0; i < 3; i++) {
        if (frames[i].len > 0) {
            memcpy(bytes, frames[i].data, frames[i].len);
        }
        follower->held.frames[i] = mc_view_make(bytes, frames[i].len);
        bytes += frames[i].len;
    }
    return MC_OK;
}

void follower_forget_held(struct follower *follower)
{
    mci_free(follower->held.bytes);
    memset(&follower->held, 0, sizeof follower->held);
}

static void publish(_Atomic uint64_t *counter, uint64_t value)
{
    atomic_store_explicit(counter, value, memory_order_relaxed);
}

static void publish_recovery(struct follower *follower)
{
    struct follower_counters *counters = &follower->counters;
    const struct recovery *recovery = follower->recovery;
    publish(&counters->is_recovering, recovery->is_active);
    publish(&counters->recoveries, recovery->counters.recoveries);
    publish(&counters->by_replay, recovery->counters.by_replay);
    publish(&counters->by_snapshot, recovery->counters.by_snapshot);
    publish(&counters->requests, recovery->counters.requests);
    publish(&counters->replays, recovery->counters.replays);
    publish(&counters->snapshots, recovery->counters.snapshots);
    publish(&counters->statuses, recovery->counters.statuses);
    publish(&counters->refetched, recovery->counters.refetched);
    publish(&counters->covered, recovery->counters.covered);
    publish(&counters->rows, recovery->counters.rows);
    publish(&counters->failures, recovery->counters.failures);
    publish(&counters->mirror_graves,
            follower->mirror ? mirror_graves(follower->mirror) : 0);
}

void follower_publish(struct follower *follower)
{
    struct follower_counters *counters = &follower->counters;
    const struct cursor *cursor = &follower->cursor;
    publish(&counters->has_baseline, cursor->has_baseline);
    publish(&counters->epoch, cursor->epoch);
    publish(&counters->last_seq, cursor->last_seq);
    publish(&counters->baseline_id, cursor->baseline_id);
    publish(&counters->last_event_id, cursor_last_id(cursor));
    publish(&counters->span_ids, cursor_span(cursor));
    publish(&counters->events, cursor->delivered);
    publish(&counters->gaps, cursor->gaps);
    publish(&counters->lost_ids, cursor->lost);
    publish(&counters->lost_seqs, cursor->lost_seqs);
    publish(&counters->refused_ids, cursor_refused(cursor));
    publish(&counters->restarts, cursor->restarts);
    publish(&counters->mirror_entries,
            follower->mirror ? mirror_count(follower->mirror) : 0);
    if (follower->recovery) {
        publish_recovery(follower);
    }
}

static uint64_t seen(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void follower_stats(const struct follower *follower,
                    struct mc_source_stats *stats_out)
{
    const struct follower_counters *counters = &follower->counters;
    stats_out->has_baseline = seen(&counters->has_baseline) != 0;
    stats_out->epoch = seen(&counters->epoch);
    stats_out->last_seq = seen(&counters->last_seq);
    stats_out->baseline_id = seen(&counters->baseline_id);
    stats_out->last_event_id = seen(&counters->last_event_id);
    stats_out->span_ids = seen(&counters->span_ids);
    stats_out->messages = seen(&counters->messages);
    stats_out->bytes = seen(&counters->bytes);
    stats_out->events = seen(&counters->events);
    stats_out->stored = seen(&counters->stored);
    stats_out->removed = seen(&counters->removed);
    stats_out->cleared = seen(&counters->cleared);
    stats_out->heartbeats = seen(&counters->heartbeats);
    stats_out->duplicates = seen(&counters->duplicates);
    stats_out->strays = seen(&counters->strays);
    stats_out->gaps = seen(&counters->gaps);
    stats_out->lost_ids = seen(&counters->lost_ids);
    stats_out->lost_seqs = seen(&counters->lost_seqs);
    stats_out->stales = seen(&counters->stales);
    stats_out->restarts = seen(&counters->restarts);
    stats_out->refused_messages = seen(&counters->refused_messages);
    stats_out->refused_events = seen(&counters->refused_events);
    stats_out->refused_ids = seen(&counters->refused_ids);
    for (int i = 0; i < MC_EVENT_ERROR_COUNT_; i++) {
        stats_out->refused[i] = seen(&counters->refused[i]);
    }
    stats_out->contradictions = seen(&counters->contradictions);
    stats_out->mirror_entries = seen(&counters->mirror_entries);
    stats_out->deliveries = seen(&counters->deliveries);
    stats_out->passed_over = seen(&counters->passed_over);
    stats_out->is_recovering = seen(&counters->is_recovering) != 0;
    stats_out->recoveries = seen(&counters->recoveries);
    stats_out->recoveries_by_replay = seen(&counters->by_replay);
    stats_out->recoveries_by_snapshot = seen(&counters->by_snapshot);
    stats_out->requests = seen(&counters->requests);
    stats_out->replays_asked = seen(&counters->replays);
    stats_out->snapshots_asked = seen(&counters->snapshots);
    stats_out->statuses_asked = seen(&counters->statuses);
    stats_out->refetched_ids = seen(&counters->refetched);
    stats_out->covered_ids = seen(&counters->covered);
    stats_out->snapshot_rows = seen(&counters->rows);
    stats_out->failed_requests = seen(&counters->failures);
    stats_out->tombstones = seen(&counters->mirror_graves);
}
