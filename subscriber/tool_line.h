/* SPDX-License-Identifier: Apache-2.0 */
/* tool_line.h - builds one line of output: JSON that is exact, or text that is
 * safe to show.
 *
 * A line is put together in memory and written whole, so that a reader of a
 * pipe never sees half of one. JSON strings keep every byte of a UTF-8 string;
 * text has control characters and backslash as \xHH, byte by byte. The first
 * allocation that fails sticks: nothing more is added and tool_line_write says
 * so.
 * Threads: one thread at a time per line.
 */
#ifndef TOOL_LINE_H
#define TOOL_LINE_H
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "mc_view.h"

struct tool_line {
    char *text;
    size_t len;
    size_t capacity;
    bool is_failed;
    bool is_first; /* no member yet in the innermost object or array */
};

void tool_line_fini(struct tool_line *line); /* of a zeroed one is fine */

/* Writes the line and a line feed, and empties it. False: not written. */
bool tool_line_write(struct tool_line *line, FILE *out);

void tool_line_add(struct tool_line *line, const char *text);
void tool_line_bytes(struct tool_line *line, const void *data, size_t len);
void tool_line_format(struct tool_line *line, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Control characters and backslash as \xHH; "none" as "-". */
void tool_line_safe(struct tool_line *line, struct mc_view text);

/* JSON. A name of NULL: an element of an array. Commas are set where due. */
void tool_line_open(struct tool_line *line, const char *name, char bracket);
void tool_line_close(struct tool_line *line, char bracket);
void tool_line_text(struct tool_line *line, const char *name,
                    struct mc_view text); /* "none": null */
void tool_line_number(struct tool_line *line, const char *name,
                      uint64_t number);
void tool_line_integer(struct tool_line *line, const char *name,
                       int64_t number);
void tool_line_bool(struct tool_line *line, const char *name, bool is_true);
void tool_line_null(struct tool_line *line, const char *name);
void tool_line_epoch(struct tool_line *line, const char *name,
                     uint64_t epoch); /* 16 hex digits; 0: null */
void tool_line_hex(struct tool_line *line, const char *name,
                   struct mc_view bytes);

#endif
