/* SPDX-License-Identifier: Apache-2.0 */
/* tool_compare.h - sets of what can be read, by (tenant, key, medium), and what
 * two of them differ in.
 *
 * Threads: one thread at a time per set.
 */
#ifndef TOOL_COMPARE_H
#define TOOL_COMPARE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mc_view.h"

/* Names of a row; session and group may be none. */
struct tool_names {
    struct mc_view tenant;
    struct mc_view key;
    struct mc_view medium;
    struct mc_view session;
    struct mc_view group;
};

struct tool_row {
    char *text; /* owned: the names, one after the other */
    struct tool_names names;
    uint64_t event_id; /* of its last change */
};

/* Zeroed is empty. Rows are sorted by tool_rowset_sort, which also drops all but
 * the newest of those with the same tenant, key and medium. */
struct tool_rowset {
    struct tool_row *rows;
    size_t count;
    size_t capacity;
    bool is_failed; /* out of memory: not all of them are there */
};

void tool_rowset_add(struct tool_rowset *set, const struct tool_names *names,
                     uint64_t event_id);
void tool_rowset_sort(struct tool_rowset *set);
void tool_rowset_clear(struct tool_rowset *set); /* frees all; zeroed is fine */

/* The place of a row among tenants, keys and media: <0, 0, >0. */
int tool_names_compare(const struct tool_names *a, const struct tool_names *b);

/* Of what two sorted sets differ in, in order. held: what was followed, stored:
 * what the store said; one of them may be NULL. A row is no difference where the
 * one that is held is newer. */
typedef void (*tool_difference_fn)(void *ctx, const struct tool_row *held,
                                   const struct tool_row *stored);
void tool_rowset_compare(const struct tool_rowset *held,
                         const struct tool_rowset *stored,
                         tool_difference_fn fn, void *ctx);
#endif
