/* SPDX-License-Identifier: Apache-2.0 */
/* Figures as Prometheus reads them. Names that others know are kept; figures
 * that only this store has begin with mckv_.
 */
#include <string.h>

#include "http_segments.h"
#include "master_process.h"

/* All that is told, taken at about the same moment. */
struct figures {
    struct mci_master_stats core;
    struct mci_registry_stats registry;
    struct mci_control_stats control;
    struct mc_publisher_stats events;
    struct mci_metadata_stats metadata;
};

static void collect(struct mc_master *master, struct figures *figures)
{
    memset(figures, 0, sizeof *figures);
    mci_master_stat(master->core, &figures->core);
    mci_registry_stat(master->registry, &figures->registry);
    mci_control_server_stat(master->control, &figures->control);
    mci_process_events(master, &figures->events);
    if (master->metadata) {
        mci_metadata_stat(master->metadata, &figures->metadata);
    }
}

static void write_head(struct mci_http_response *response, const char *name,
                       const char *type, const char *help)
{
    mci_http_print(response, "# HELP %s %s\n# TYPE %s %s\n", name, help, name,
                   type);
}

/* ---- single figures ----------------------------------------------------------- */

struct figure {
    const char *name;
    const char *type;
    const char *help;
    size_t at; /* in struct figures */
};

#define GAUGE "gauge"
#define COUNTER "counter"
#define CORE(field) offsetof(struct figures, core.field)
#define REGISTRY(field) offsetof(struct figures, registry.field)
#define CONTROL(field) offsetof(struct figures, control.field)
#define EVENTS(field) offsetof(struct figures, events.field)

static const struct figure table[] = {
    {"master_allocated_bytes", GAUGE, "memory handed out",
     CORE(allocated_bytes)},
    {"master_total_capacity_bytes", GAUGE, "memory lent", CORE(capacity_bytes)},
    {"master_key_count", GAUGE, "readable objects", CORE(objects)},
    {"master_active_clients", GAUGE, "living clients", REGISTRY(clients)},
    {"total_get_nums_", COUNTER, "reads asked for", CORE(gets)},
    {"valid_get_nums_", COUNTER, "reads of something readable", CORE(hits)},
    {"master_evicted_key_count", COUNTER, "objects evicted",
     CORE(evicted_objects)},
    {"master_evicted_size_bytes", COUNTER, "bytes evicted",
     CORE(evicted_bytes)},
    {"master_put_start_alloc_failures_total", COUNTER,
     "writes that found no room", CORE(alloc_failures)},
    {"mckv_commits_total", COUNTER, "writes that became readable",
     CORE(commits)},
    {"mckv_evicted_windows_total", COUNTER,
     "ranges cleared because plain eviction made no hole",
     CORE(evicted_windows)},
    {"mckv_attempts", GAUGE, "open writes", CORE(attempts)},
    {"mckv_leased_only_bytes", GAUGE, "unlinked bytes that leases keep",
     CORE(leased_only_bytes)},
    {"mckv_quarantined_bytes", GAUGE, "bytes of writes that ended in doubt",
     CORE(quarantined_bytes)},
    {"mckv_quarantined_attempts", GAUGE, "writes that ended in doubt",
     CORE(quarantined)},
    {"mckv_groups", GAUGE, "groups", CORE(groups)},
    {"mckv_tenants", GAUGE, "tenants", CORE(tenants)},
    {"mckv_object_table_slots", GAUGE, "size of the object table",
     CORE(table_slots)},
    {"mckv_segments", GAUGE, "mounted segments", REGISTRY(segments)},
    {"mckv_expired_clients_total", COUNTER, "clients that fell silent",
     REGISTRY(expired_clients)},
    {"mckv_left_clients_total", COUNTER, "clients that left in good order",
     REGISTRY(left_clients)},
    {"mckv_fences_open", GAUGE, "fences that are not acknowledged",
     REGISTRY(fences_open)},
    {"mckv_stuck_attempts", GAUGE, "writes that owners report as stuck",
     REGISTRY(stuck)},
    {"mckv_bad_receipts_total", COUNTER, "receipts that were not true",
     REGISTRY(bad_receipts)},
    {"mckv_control_connections", GAUGE, "connections of clients",
     CONTROL(connections)},
    {"mckv_control_stale_total", COUNTER, "requests out of turn",
     CONTROL(stale)},
    {"mckv_control_repeated_total", COUNTER, "requests answered from memory",
     CONTROL(repeated)},
    {"mckv_control_malformed_total", COUNTER,
     "frames that cost their connection", CONTROL(malformed)},
    {"mckv_control_kept_bytes", GAUGE, "answers kept for repeats",
     CONTROL(kept_bytes)},
    {"mckv_events_published_total", COUNTER, "events sent",
     EVENTS(published_events)},
    {"mckv_event_batches_published_total", COUNTER, "messages sent",
     EVENTS(published_batches)},
    {"mckv_event_bytes_published_total", COUNTER, "payload sent",
     EVENTS(published_bytes)},
    {"mckv_events_dropped_total", COUNTER, "events lost",
     EVENTS(dropped_events)},
    {"mckv_events_skipped_total", COUNTER, "events without a key, not sent",
     EVENTS(skipped_events)},
    {"mckv_event_last_id", GAUGE, "newest event id", EVENTS(last_event_id)},
    {"mckv_event_last_seq", GAUGE, "newest sequence number", EVENTS(last_seq)},
    {"mckv_event_queue_depth", GAUGE, "events waiting to be sent",
     EVENTS(queue_depth)},
    {"mckv_event_queue_capacity", GAUGE, "events that may wait",
     EVENTS(queue_capacity)},
    {"mckv_event_writers_waited_total", COUNTER, "waits for room in the log",
     EVENTS(blocked_writers)},
    {"mckv_event_subscribers", GAUGE, "subscriptions", EVENTS(subscribers)},
    {"mckv_event_heartbeats_total", COUNTER, "empty messages sent",
     EVENTS(heartbeats)},
    {"mckv_event_history_batches", GAUGE, "messages kept for replay",
     EVENTS(history_batches)},
    {"mckv_event_history_bytes", GAUGE, "bytes of them", EVENTS(history_bytes)},
    {"mckv_event_history_oldest_seq", GAUGE, "oldest number kept",
     EVENTS(history_oldest_seq)},
    {"mckv_recovery_replays_total", COUNTER, "replays asked for",
     EVENTS(replay_requests)},
    {"mckv_recovery_snapshots_total", COUNTER, "snapshots asked for",
     EVENTS(snapshot_requests)},
    {"mckv_recovery_statuses_total", COUNTER, "times the status was asked for",
     EVENTS(status_requests)},
    {"mckv_recovery_malformed_total", COUNTER, "messages that were no request",
     EVENTS(malformed_requests)},
    {"mckv_recovery_refused_total", COUNTER,
     "requests for which there was no room, or no tenant",
     EVENTS(refused_requests)},
    {"mckv_recovery_given_up_total", COUNTER,
     "requests whose reader took nothing, or went", EVENTS(given_up_requests)},
    {"mckv_recovery_unanswered_total", COUNTER,
     "requests that were not even told that there is nothing",
     EVENTS(unanswered_requests)},
    {"mckv_recovery_waiting", GAUGE, "requests in line",
     EVENTS(waiting_requests)},
    {"mckv_recovery_batches_total", COUNTER, "messages replayed",
     EVENTS(replayed_batches)},
    {"mckv_recovery_snapshot_batches_total", COUNTER,
     "messages of snapshots sent", EVENTS(snapshot_batches)},
    {"mckv_recovery_walks_total", COUNTER, "walks through the store",
     EVENTS(snapshot_walks)},
    {"mckv_metadata_keys", GAUGE, "keys of the metadata server",
     offsetof(struct figures, metadata.keys)},
    {"mckv_metadata_bytes", GAUGE, "bytes of the metadata server",
     offsetof(struct figures, metadata.bytes)},
};

static void write_figures(struct mci_http_response *response,
                          const struct figures *figures)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        uint64_t value;
        memcpy(&value, (const uint8_t *)figures + table[i].at, sizeof value);
        write_head(response, table[i].name, table[i].type, table[i].help);
        mci_http_print(response, "%s %ju\n", table[i].name, (uintmax_t)value);
    }
}

/* ---- figures by operation ------------------------------------------------------ */

struct operation {
    const char *name;
    enum mci_op op;
    bool is_batch;
};

static const struct operation operations[] = {
    {"batch_put_start", MCI_OP_PUT_START, true},
    {"batch_upsert_start", MCI_OP_UPSERT_START, true},
    {"batch_put_end", MCI_OP_PUT_END, true},
    {"batch_put_revoke", MCI_OP_PUT_REVOKE, true},
    {"batch_get_replica_list", MCI_OP_GET, true},
    {"batch_exist_key", MCI_OP_EXIST, true},
    {"batch_renew_lease", MCI_OP_RENEW_LEASE, true},
    {"batch_release_lease", MCI_OP_RELEASE_LEASE, true},
    {"batch_replica_clear", MCI_OP_REPLICA_CLEAR, true},
    {"batch_remove", MCI_OP_REMOVE, true},
    {"remove_by_regex", MCI_OP_REMOVE_BY_REGEX, false},
    {"remove_all", MCI_OP_REMOVE_ALL, false},
    {"mount_segment", MCI_OP_SEGMENT_MOUNT, false},
    {"unmount_segment", MCI_OP_SEGMENT_UNMOUNT, false},
    {"ping", MCI_OP_HEARTBEAT, false},
};

static void write_count(struct mci_http_response *response, const char *name,
                        const char *what, uint64_t count)
{
    mci_http_print(response,
                   "# TYPE master_%s_%s_total counter\n"
                   "master_%s_%s_total %ju\n",
                   name, what, name, what, (uintmax_t)count);
}

static void write_operations(struct mci_http_response *response,
                             const struct mci_control_stats *stats)
{
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        const struct operation *row = &operations[i];
        size_t op = (size_t)row->op;
        write_count(response, row->name, "requests", stats->requests[op]);
        write_count(response, row->name, "failures", stats->failures[op]);
        if (row->is_batch) {
            write_count(response, row->name, "partial_successes",
                        stats->partial[op]);
            write_count(response, row->name, "items", stats->items[op]);
            write_count(response, row->name, "failed_items",
                        stats->failed_items[op]);
        }
    }
}

/* ---- figures by segment and tenant ----------------------------------------------- */

/* In quotes; backslash, quote and line feed as the format wants them. */
static void write_label(struct mci_http_response *response, struct mc_view text)
{
    const char *bytes = text.data;
    mci_http_write(response, mc_view_str("\""));
    for (size_t i = 0; i < text.len; i++) {
        const char *escaped = bytes[i] == '\\'   ? "\\\\"
                              : bytes[i] == '"'  ? "\\\""
                              : bytes[i] == '\n' ? "\\n"
                                                 : NULL;
        mci_http_write(response, escaped ? mc_view_str(escaped)
                                         : mc_view_make(bytes + i, 1));
    }
    mci_http_write(response, mc_view_str("\""));
}

static void write_segments(struct mci_http_response *response,
                           struct mci_registry *registry, const char *name,
                           const char *help, size_t at)
{
    struct mci_segment_walk walk = {.registry = registry};
    write_head(response, name, GAUGE, help);
    while (mci_segment_walk_next(&walk)) {
        uint64_t value;
        memcpy(&value, (const uint8_t *)&walk.row + at, sizeof value);
        mci_http_print(response, "%s{segment=", name);
        write_label(response, walk.row.name);
        mci_http_print(response, ",id=\"%u\"} %ju\n", walk.row.segment,
                       (uintmax_t)value);
    }
}

static void write_quotas(struct mci_http_response *response,
                         struct mci_master *core, const char *name,
                         const char *help, size_t at)
{
    struct mci_quota quotas[64];
    uint32_t from = 0;
    size_t count;
    write_head(response, name, GAUGE, help);
    while ((count = mci_master_quotas(core, &from, quotas, 64)) > 0) {
        for (size_t i = 0; i < count; i++) {
            uint64_t value;
            memcpy(&value, (const uint8_t *)&quotas[i] + at, sizeof value);
            mci_http_print(response, "%s{tenant_id=", name);
            write_label(response, quotas[i].tenant);
            mci_http_print(response, "} %ju\n", (uintmax_t)value);
        }
    }
}

void mci_page_metrics(void *ctx, const struct mci_http_request *request,
                      struct mci_http_response *response)
{
    struct mc_master *master = ctx;
    struct figures figures;
    (void)request;
    collect(master, &figures);
    response->content_type = MCI_HTTP_METRICS;
    write_figures(response, &figures);
    write_operations(response, &figures.control);
    write_segments(response, master->registry, "segment_allocated_bytes",
                   "memory of a segment that is handed out",
                   offsetof(struct mci_segment_row, used_bytes));
    write_segments(response, master->registry, "segment_total_capacity_bytes",
                   "memory of a segment",
                   offsetof(struct mci_segment_row, bytes));
    if (!master->has_tenants) {
        return;
    }
    write_quotas(response, master->core,
                 "mooncake_tenant_quota_requested_bytes", "quota as set",
                 offsetof(struct mci_quota, bytes));
    write_quotas(
        response, master->core, "mooncake_tenant_quota_effective_bytes",
        "quota as it counts now", offsetof(struct mci_quota, effective_bytes));
    write_quotas(response, master->core, "mooncake_tenant_quota_charged_bytes",
                 "bytes that count", offsetof(struct mci_quota, charged_bytes));
}

/* ---- for people ---------------------------------------------------------------- */

#define MIB (1 << 20)

void mci_page_summary(void *ctx, const struct mci_http_request *request,
                      struct mci_http_response *response)
{
    struct mc_master *master = ctx;
    struct figures figures;
    (void)request;
    collect(master, &figures);
    const struct mci_master_stats *core = &figures.core;
    double share = core->capacity_bytes
                       ? 100.0 * (double)core->allocated_bytes /
                             (double)core->capacity_bytes
                       : 0;
    response->content_type = MCI_HTTP_METRICS;
    mci_http_print(
        response,
        "Mem Storage: %.1f MB / %.1f MB (%.1f%%) | Keys: %ju | "
        "Clients: %ju | Segments: %ju | Gets: %ju (%ju hits) | "
        "Puts: %ju | Open writes: %ju | Quarantine: %ju bytes | "
        "Evicted: %ju keys, %ju bytes | Events: %ju sent, %ju lost, "
        "%ju waiting\n",
        (double)core->allocated_bytes / MIB, (double)core->capacity_bytes / MIB,
        share, (uintmax_t)core->objects, (uintmax_t)figures.registry.clients,
        (uintmax_t)figures.registry.segments, (uintmax_t)core->gets,
        (uintmax_t)core->hits, (uintmax_t)core->commits,
        (uintmax_t)core->attempts, (uintmax_t)core->quarantined_bytes,
        (uintmax_t)core->evicted_objects, (uintmax_t)core->evicted_bytes,
        (uintmax_t)figures.events.published_events,
        (uintmax_t)figures.events.dropped_events,
        (uintmax_t)figures.events.queue_depth);
}
