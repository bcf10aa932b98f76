/* SPDX-License-Identifier: Apache-2.0 */
/* tool_tally.h - counts by name: how often each tenant or session was seen, in
 * all and since the last report.
 *
 * Holds a bounded number of names; what comes under a new name beyond that is
 * counted together, so that the sums stay true.
 * Threads: one thread at a time.
 */
#ifndef TOOL_TALLY_H
#define TOOL_TALLY_H
#include <stdint.h>

#include "mc_view.h"

struct tool_tally;

struct tool_tally_row {
    struct mc_view name; /* borrowed: as long as the tally */
    uint64_t total;
    uint64_t recent; /* since the last roll */
};

struct tool_tally *tool_tally_create(size_t name_max); /* NULL: no memory */
void tool_tally_destroy(struct tool_tally *tally);     /* NULL is fine */

void tool_tally_add(struct tool_tally *tally, struct mc_view name);

/* The busiest rows, most recent first, then by total; at most capacity. */
size_t tool_tally_top(const struct tool_tally *tally,
                      struct tool_tally_row *rows_out, size_t capacity);

/* All names, and what came under names that did not fit. */
size_t tool_tally_count(const struct tool_tally *tally);
uint64_t tool_tally_others(const struct tool_tally *tally);

/* Begins a new interval. */
void tool_tally_roll(struct tool_tally *tally);

#endif
