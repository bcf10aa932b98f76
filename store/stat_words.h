/* SPDX-License-Identifier: Apache-2.0 */
/* stat_words.h - which word of the answer to stat is which figure of the core.
 *
 * New figures are added at the end; an older peer's words that are not there are
 * read as 0. Words from MCI_STAT_WORDS_OWN on are the process's (events).
 * Threads: any thread. Pure.
 */
#ifndef STAT_WORDS_H
#define STAT_WORDS_H
#include "mc_publisher.h"
#include "mci_control.h"
#include "mci_master.h"

#define MCI_STAT_WORDS_OWN 32

/* Fills words 0 to MCI_STAT_WORDS_OWN - 1; count is at least that afterwards. */
void mci_stat_words_put(struct mci_stat_words *words,
                        const struct mci_master_stats *stats);
void mci_stat_words_get(const struct mci_stat_words *words,
                        struct mci_master_stats *stats_out);

/* The words behind them: what the process tells of its events. Endpoints are
 * texts of their own. Put raises count to what it fills in. */
void mci_stat_words_put_events(struct mci_stat_words *words,
                               const struct mc_publisher_stats *stats);
void mci_stat_words_get_events(const struct mci_stat_words *words,
                               struct mc_publisher_stats *stats_out);
#endif
