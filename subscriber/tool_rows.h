/* SPDX-License-Identifier: Apache-2.0 */
/* tool_rows.h - reads rows: JSON lines from a file or stdin, or one JSON array
 * of them.
 *
 * Each row is an object. Blank lines are skipped, and that is all that is:
 * whatever else cannot be read exactly (a cut line, a number that does not fit
 * 64 bits, half of a surrogate pair) is refused with its place, "FILE:LINE" or
 * "FILE: row N" in an array. Frames are read from hexadecimal strings.
 * Threads: one thread at a time.
 */
#ifndef TOOL_ROWS_H
#define TOOL_ROWS_H
#include <json-c/json.h>

#include "mc_view.h"
#include "tool.h"

struct tool_rows;

enum tool_rows_step { TOOL_ROW = 0, TOOL_ROWS_END = 1, TOOL_ROWS_FAILED = 2 };

/* path NULL or "-": stdin. NULL after a line on stderr. */
struct tool_rows *tool_rows_open(const struct tool_command *command,
                                 const char *path);
void tool_rows_close(struct tool_rows *rows); /* NULL is fine */

/* The next row, borrowed until the next call. FAILED: said on stderr; so it is
 * when the process was told to end. */
enum tool_rows_step tool_rows_next(struct tool_rows *rows,
                                   struct json_object **row_out);

/* Gives each row to fn, until one is not TOOL_DONE, or whoever read our stdout
 * has gone. TOOL_DONE, or what fn said, or TOOL_FAILED as with next. */
int tool_rows_each(struct tool_rows *rows,
                   int (*fn)(void *ctx, struct json_object *row), void *ctx);

/* The next line as it stands, without its line feed, borrowed until the next
 * call; blank ones included. For readers that have a parser of their own. */
enum tool_rows_step tool_rows_line(struct tool_rows *rows,
                                   struct mc_view *line_out);

/* Is this line blank or JSON that can be read exactly? TOOL_FAILED after a line
 * on stderr. */
int tool_rows_check(struct tool_rows *rows, struct mc_view line);

/* Prints "mc-events: NAME: PLACE: ..." for the current row; TOOL_FAILED. */
int tool_rows_fail(const struct tool_rows *rows, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The value of a whole number from 0 to 2^64-1. */
bool tool_number_read(struct json_object *value, uint64_t *number_out);

/* The frames of a row, from "frames": [hex, ...]. */
struct tool_frames {
    struct mc_view *views;
    size_t count;
    size_t view_capacity;
    unsigned char *bytes;
    size_t byte_capacity;
};
void tool_frames_fini(struct tool_frames *frames);
/* TOOL_DONE, or TOOL_FAILED after a line on stderr. Views are valid until the
 * next call. */
int tool_frames_read(struct tool_frames *frames, const struct tool_rows *rows,
                     struct json_object *row);

#endif
