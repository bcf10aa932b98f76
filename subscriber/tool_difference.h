/* SPDX-License-Identifier: Apache-2.0 */
/* tool_difference.h - what a follower and a store differ in, and what stays of
 * that when it is looked at again.
 *
 * Threads: one thread at a time.
 */
#ifndef TOOL_DIFFERENCE_H
#define TOOL_DIFFERENCE_H
#include "tool_compare.h"
#include "tool_line.h"

enum tool_difference_kind {
    TOOL_DIFFERENCE_MISSING = 0, /* the store has it, the follower does not */
    TOOL_DIFFERENCE_GHOST,       /* the other way round */
    TOOL_DIFFERENCE_OLD,         /* the follower's is older */
    TOOL_DIFFERENCE_TAG,         /* another session or group */
    TOOL_DIFFERENCE_UNLISTED,    /* held, and not among the master's keys */
    TOOL_DIFFERENCE_LISTED       /* among them, and not held */
};

/* A difference as a row: its names, and the ids of both sides. */
struct tool_difference {
    enum tool_difference_kind kind;
    uint64_t held_id; /* 0: none */
    uint64_t stored_id;
    char *text;
    struct tool_names names;
};

struct tool_differences {
    struct tool_difference *rows;
    size_t count;
    size_t capacity;
    bool is_failed; /* out of memory: not all of them are there */
};

void tool_differences_clear(struct tool_differences *found);

/* For tool_rowset_compare, with a struct tool_differences as ctx: of rows of a
 * store, and of keys that a master lists. */
void tool_differences_add(void *ctx, const struct tool_row *held,
                          const struct tool_row *stored);
void tool_differences_add_key(void *ctx, const struct tool_row *held,
                              const struct tool_row *listed);

void tool_differences_sort(struct tool_differences *found);
/* Leaves in `later` what was in `earlier` too, with the same ids; both sorted. */
void tool_differences_keep(struct tool_differences *later,
                           const struct tool_differences *earlier);

/* Puts it on the line, as JSON or for people. */
void tool_difference_json(struct tool_line *line,
                          const struct tool_difference *row);
void tool_difference_text(struct tool_line *line,
                          const struct tool_difference *row);
#endif
