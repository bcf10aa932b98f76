/* SPDX-License-Identifier: Apache-2.0 */
/* tool_show.h - how an event and a signal look: one line each, as a table for
 * people or as exact JSON for programs.
 *
 * Threads: one thread at a time.
 */
#ifndef TOOL_SHOW_H
#define TOOL_SHOW_H
#include "mc_subscriber.h"
#include "tool_line.h"

struct tool_show {
    bool is_json;
    bool is_colored;
    const struct mc_key_layout *layout; /* NULL: no block column */
    struct tool_line line;
    uint64_t failed; /* lines that could not be put together */
};

/* The column names of the table; nothing as JSON. */
void tool_show_head(struct tool_show *show);

/* One line on stdout each: an event of a store or of an engine, a signal, a row
 * of a snapshot. */
void tool_show_delivery(struct tool_show *show,
                        const struct mc_delivery *delivery);
void tool_show_signal(struct tool_show *show, const struct mc_signal *signal);
void tool_show_row(struct tool_show *show, const struct mc_event *event);
/* Writes out what was put on the line. */
void tool_show_line(struct tool_show *show);

/* JSON members that every event has, from its type to its epoch; those of an
 * engine's, from its type on. */
void tool_show_fields(struct tool_line *line, const struct mc_event *event);
void tool_show_engine_fields(struct tool_line *line,
                             const struct mc_engine_event *event);
/* " name=text" if there is a text. */
void tool_show_named(struct tool_line *line, const char *name,
                     struct mc_view text);
/* Columns of an engine's event, behind its number. */
void tool_show_engine_columns(struct tool_line *line,
                              const struct mc_engine_event *event);
#endif
