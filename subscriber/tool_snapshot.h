/* SPDX-License-Identifier: Apache-2.0 */
/* tool_snapshot.h - asks for a snapshot and hands its rows on, one at a time.
 *
 * Threads: the main thread only.
 */
#ifndef TOOL_SNAPSHOT_H
#define TOOL_SNAPSHOT_H
#include "mc_event.h"
#include "tool_ask.h"

struct tool_snapshot {
    const struct tool_args *args;
    /* Any may be NULL; other than TOOL_DONE ends it with that code. */
    int (*on_first)(void *ctx, const struct mc_answer *answer);
    int (*on_row)(void *ctx, const struct mc_event *event);
    int (*on_refused)(void *ctx, const struct mc_event *event);
    int (*on_last)(void *ctx, const struct mc_answer *answer);
    void *ctx;
    /* Set while running. */
    uint64_t rows;
    uint64_t refused; /* rows that could not be read; so is a message of them */
};

/* Of --tenant, or of all. TOOL_DONE, also where rows were refused, what a
 * function said, or TOOL_FAILED after a line on stderr. */
int tool_snapshot_run(struct tool_snapshot *snapshot);

#endif
