/* SPDX-License-Identifier: Apache-2.0 */
/* publisher_stats.c - what a publisher and its recovery server have done. */
#include <stdio.h>
#include <string.h>

#include "publisher_parts.h"

static void recovery_stats(struct mci_publisher *publisher,
                           struct mc_publisher_stats *stats)
{
    struct mci_history_stats history;
    struct mci_recovery_stats recovery;
    if (!publisher->recovery) {
        return;
    }
    mci_history_stats(publisher->history, &history);
    mci_recovery_server_stats(publisher->recovery, &recovery);
    stats->history_batches = history.batches;
    stats->history_bytes = history.bytes;
    stats->history_oldest_seq = history.oldest_seq;
    stats->replay_requests = recovery.replays;
    stats->snapshot_requests = recovery.snapshots;
    stats->status_requests = recovery.statuses;
    stats->malformed_requests = recovery.malformed;
    stats->refused_requests = recovery.refused;
    stats->given_up_requests = recovery.given_up + recovery.vanished;
    stats->unanswered_requests = recovery.unanswered;
    stats->replayed_batches = recovery.batches;
    stats->snapshot_batches = recovery.parts;
    stats->snapshot_walks = recovery.walks;
    stats->waiting_requests = recovery.waiting;
    (void)snprintf(stats->replay_endpoint, sizeof stats->replay_endpoint, "%s",
                   mci_recovery_server_endpoint(publisher->recovery));
}

void mci_publisher_stats(struct mci_publisher *publisher,
                         struct mc_publisher_stats *stats_out)
{
    struct publisher_counters *counters = &publisher->counters;
    struct mci_log_stats log;
    mci_event_log_stats(publisher->log, &log);
    *stats_out = (struct mc_publisher_stats){
        .enabled = true,
        .epoch = mci_event_log_epoch(publisher->log),
        .last_event_id = log.last_id,
        .last_seq = mci_counter_get(&counters->last_seq),
        .published_batches = mci_counter_get(&counters->batches),
        .published_events = mci_counter_get(&counters->events),
        .published_bytes = mci_counter_get(&counters->bytes),
        .dropped_events = log.dropped + mci_counter_get(&counters->failed),
        .skipped_events = mci_counter_get(&counters->skipped),
        .heartbeats = mci_counter_get(&counters->heartbeats),
        .queue_depth = log.depth,
        .queue_capacity = log.capacity,
        .blocked_writers = log.waits,
        .subscribers = mci_counter_get(&counters->subscribers)};
    memcpy(stats_out->endpoint, publisher->bound, sizeof publisher->bound);
    (void)snprintf(stats_out->backend_id, sizeof stats_out->backend_id, "%s",
                   publisher->backend_id);
    recovery_stats(publisher, stats_out);
}
