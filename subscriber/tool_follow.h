/* SPDX-License-Identifier: Apache-2.0 */
/* tool_follow.h - the loop of every subcommand that listens: opens a
 * subscriber, hands on what comes, ends when told to.
 *
 * It ends when a callback calls tool_follow_end, on SIGINT or SIGTERM, or when
 * nobody reads our stdout any more; stdout is flushed whenever nothing is
 * waiting. At the end one line on stderr says what was seen, missed and
 * refused.
 * Threads: the main thread only.
 */
#ifndef TOOL_FOLLOW_H
#define TOOL_FOLLOW_H
#include "mc_subscriber.h"
#include "tool.h"

struct tool_follow {
    const struct tool_args *args;
    mc_event_fn on_event; /* any may be NULL; ctx is this struct's ctx */
    mc_signal_fn on_signal;
    mc_message_fn on_message;
    bool is_raw; /* messages are wanted, and nothing that is made of them */
    void (*on_tick)(void *ctx); /* every tick_ms, 0: never */
    uint64_t tick_ms;
    void *ctx;
    /* Set while running. */
    struct mc_subscriber *subscriber;
    bool is_ended;
    int code;
};

int tool_follow_run(struct tool_follow *follow);

/* No further callback after the current one; code becomes the exit code. */
void tool_follow_end(struct tool_follow *follow, int code);

/* What a source is, and what an engine is called. */
#define TOOL_WORKER "engine"
enum mc_source_profile tool_profile(const struct tool_args *args);
/* What the options of a listener say; borrowed from args. */
void tool_source_opts(const struct tool_args *args,
                      struct mc_source_opts *source_out);

/* One line on stderr about a source. */
void tool_follow_summary(const struct tool_command *command,
                         const struct mc_source_stats *stats);

#endif
