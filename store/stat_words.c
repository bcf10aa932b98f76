/* SPDX-License-Identifier: Apache-2.0 */
#include "stat_words.h"

#include <stddef.h>
#include <string.h>

/* The order on the wire. */
static const size_t figures[] = {
    offsetof(struct mci_master_stats, capacity_bytes),
    offsetof(struct mci_master_stats, allocated_bytes),
    offsetof(struct mci_master_stats, leased_only_bytes),
    offsetof(struct mci_master_stats, quarantined_bytes),
    offsetof(struct mci_master_stats, objects),
    offsetof(struct mci_master_stats, attempts),
    offsetof(struct mci_master_stats, quarantined),
    offsetof(struct mci_master_stats, commits),
    offsetof(struct mci_master_stats, gets),
    offsetof(struct mci_master_stats, hits),
    offsetof(struct mci_master_stats, evicted_objects),
    offsetof(struct mci_master_stats, evicted_bytes),
    offsetof(struct mci_master_stats, evicted_windows),
    offsetof(struct mci_master_stats, alloc_failures),
    offsetof(struct mci_master_stats, groups),
    offsetof(struct mci_master_stats, tenants),
    offsetof(struct mci_master_stats, table_slots),
    offsetof(struct mci_master_stats, clients),
    offsetof(struct mci_master_stats, segments),
};
#define FIGURE_COUNT (sizeof figures / sizeof figures[0])
_Static_assert(FIGURE_COUNT <= MCI_STAT_WORDS_OWN, "words of the core");
_Static_assert(MCI_STAT_WORDS_OWN < MCI_STAT_WORDS_MAX, "words of the process");

void mci_stat_words_put(struct mci_stat_words *words,
                        const struct mci_master_stats *stats)
{
    memset(words->words, 0, MCI_STAT_WORDS_OWN * sizeof words->words[0]);
    for (size_t i = 0; i < FIGURE_COUNT; i++) {
        memcpy(&words->words[i], (const uint8_t *)stats + figures[i],
               sizeof words->words[i]);
    }
    if (words->count < MCI_STAT_WORDS_OWN) {
        words->count = MCI_STAT_WORDS_OWN;
    }
}

void mci_stat_words_get(const struct mci_stat_words *words,
                        struct mci_master_stats *stats_out)
{
    struct mci_master_stats stats = {.objects = 0};
    for (size_t i = 0; i < FIGURE_COUNT && i < words->count; i++) {
        memcpy((uint8_t *)&stats + figures[i], &words->words[i],
               sizeof words->words[i]);
    }
    *stats_out = stats;
}

/* ---- events ------------------------------------------------------------- */

/* The order on the wire; the first word of all is whether they are on. */
static const size_t event_figures[] = {
    offsetof(struct mc_publisher_stats, epoch),
    offsetof(struct mc_publisher_stats, last_event_id),
    offsetof(struct mc_publisher_stats, last_seq),
    offsetof(struct mc_publisher_stats, published_batches),
    offsetof(struct mc_publisher_stats, published_events),
    offsetof(struct mc_publisher_stats, published_bytes),
    offsetof(struct mc_publisher_stats, dropped_events),
    offsetof(struct mc_publisher_stats, skipped_events),
    offsetof(struct mc_publisher_stats, heartbeats),
    offsetof(struct mc_publisher_stats, queue_depth),
    offsetof(struct mc_publisher_stats, queue_capacity),
    offsetof(struct mc_publisher_stats, blocked_writers),
    offsetof(struct mc_publisher_stats, subscribers),
    offsetof(struct mc_publisher_stats, history_batches),
    offsetof(struct mc_publisher_stats, history_bytes),
    offsetof(struct mc_publisher_stats, history_oldest_seq),
    offsetof(struct mc_publisher_stats, replay_requests),
    offsetof(struct mc_publisher_stats, snapshot_requests),
    offsetof(struct mc_publisher_stats, status_requests),
    offsetof(struct mc_publisher_stats, malformed_requests),
    offsetof(struct mc_publisher_stats, refused_requests),
    offsetof(struct mc_publisher_stats, given_up_requests),
    offsetof(struct mc_publisher_stats, replayed_batches),
    offsetof(struct mc_publisher_stats, snapshot_walks),
    offsetof(struct mc_publisher_stats, waiting_requests),
    offsetof(struct mc_publisher_stats, snapshot_batches),
    offsetof(struct mc_publisher_stats, unanswered_requests),
};
#define EVENT_COUNT (sizeof event_figures / sizeof event_figures[0])
#define EVENTS_AT MCI_STAT_WORDS_OWN
#define EVENTS_END (EVENTS_AT + 1 + EVENT_COUNT)
_Static_assert(EVENTS_END <= MCI_STAT_WORDS_MAX, "words of the events");

void mci_stat_words_put_events(struct mci_stat_words *words,
                               const struct mc_publisher_stats *stats)
{
    words->words[EVENTS_AT] = stats->enabled;
    for (size_t i = 0; i < EVENT_COUNT; i++) {
        memcpy(&words->words[EVENTS_AT + 1 + i],
               (const uint8_t *)stats + event_figures[i],
               sizeof words->words[0]);
    }
    if (words->count < EVENTS_END) {
        words->count = EVENTS_END;
    }
}

void mci_stat_words_get_events(const struct mci_stat_words *words,
                               struct mc_publisher_stats *stats_out)
{
    struct mc_publisher_stats stats = {.enabled = false};
    if (words->count > EVENTS_AT) {
        stats.enabled = words->words[EVENTS_AT] != 0;
    }
    for (size_t i = 0; i < EVENT_COUNT && EVENTS_AT + 1 + i < words->count;
         i++) {
        memcpy((uint8_t *)&stats + event_figures[i],
               &words->words[EVENTS_AT + 1 + i], sizeof words->words[0]);
    }
    *stats_out = stats;
}
