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
