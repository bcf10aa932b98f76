/* SPDX-License-Identifier: Apache-2.0 */
/* tool_live.h - a follower that goes on while its subcommand does something else:
 * asks, waits, compares.
 *
 * Threads: the main thread only.
 */
#ifndef TOOL_LIVE_H
#define TOOL_LIVE_H
#include "mc_subscriber.h"
#include "tool.h"

struct tool_live {
    const struct tool_args *args;
    struct mc_subscriber *subscriber;
    int poll_fd;   /* readable when there is something to do */
    bool is_heard; /* the stream itself, and not only its recovery server */
};

/* All of these: TOOL_DONE, or TOOL_FAILED after a line on stderr, unless the
 * process was told to end: then without one. */

/* Follows what args name, from `begin` on, into an index unless it is NULL
 * (borrowed, outlives it). tool_live_close in any case. */
int tool_live_open(struct tool_live *live, const struct tool_args *args,
                   enum mc_begin begin, struct mc_index *index);

/* A descriptor more that ends a wait, until it is closed. */
int tool_live_watch(const struct tool_live *live, int fd);

/* One line on stderr about what was seen, and the end. Zeroed is fine. */
void tool_live_close(struct tool_live *live);

/* How long one waits for what must come. */
uint64_t tool_live_patience_ms(const struct tool_live *live);

/* Follows for up to wait_ms; less where there is something to do. */
int tool_live_turn(const struct tool_live *live, int64_t wait_ms);
int tool_live_for(const struct tool_live *live, uint64_t ms);

/* Until nothing is to be made good and it has come as far as this id of this run
 * of the publisher, or to a later run; fails when it has got no further for as
 * long as one is patient. */
int tool_live_reach(const struct tool_live *live, uint64_t epoch, uint64_t id);

/* Until the stream is heard, or nothing would be known of it. One that is at rest
 * without heartbeats says nothing: so does stderr then, and it is no failure. */
int tool_live_hear(const struct tool_live *live);
#endif
