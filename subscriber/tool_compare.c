/* SPDX-License-Identifier: Apache-2.0 */
#include "tool_compare.h"

#include <stdlib.h>
#include <string.h>

#define NAME_COUNT 5

/* Copies a name behind the others; none stays none. */
static char *put(char *at, struct mc_view from, struct mc_view *to)
{
    *to = mc_view_make(NULL, 0);
    if (!from.data) {
        return at;
    }
    *to = mc_view_make(at, from.len);
    memcpy(at, from.data, from.len);
    return at + from.len;
}

static bool grow(struct tool_rowset *set)
{
    size_t capacity = set->capacity ? 2 * set->capacity : 1024;
    struct tool_row *rows = realloc(set->rows, capacity * sizeof *rows);
    if (rows) {
        set->rows = rows;
        set->capacity = capacity;
    }
    return rows != NULL;
}

void tool_rowset_add(struct tool_rowset *set, const struct tool_names *names,
                     uint64_t event_id)
{
    struct tool_row row = {.event_id = event_id};
    size_t len = names->tenant.len + names->key.len + names->medium.len +
                 names->session.len + names->group.len;
    row.text = malloc(len + 1);
    if (!row.text || (set->count == set->capacity && !grow(set))) {
        free(row.text);
        set->is_failed = true;
        return;
    }
    char *at = row.text;
    at = put(at, names->tenant, &row.names.tenant);
    at = put(at, names->key, &row.names.key);
    at = put(at, names->medium, &row.names.medium);
    at = put(at, names->session, &row.names.session);
    (void)put(at, names->group, &row.names.group);
    set->rows[set->count++] = row;
}

void tool_rowset_clear(struct tool_rowset *set)
{
    for (size_t i = 0; i < set->count; i++) {
        free(set->rows[i].text);
    }
    free(set->rows);
    *set = (struct tool_rowset){0};
}

static int compare_views(struct mc_view a, struct mc_view b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len > 0 ? memcmp(a.data, b.data, len) : 0;
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

int tool_names_compare(const struct tool_names *a, const struct tool_names *b)
{
    int order = compare_views(a->tenant, b->tenant);
    order = order ? order : compare_views(a->key, b->key);
    return order ? order : compare_views(a->medium, b->medium);
}

/* Of the same names the newest first. */
static int compare_rows(const void *left, const void *right)
{
    const struct tool_row *a = left;
    const struct tool_row *b = right;
    int order = tool_names_compare(&a->names, &b->names);
    return order ? order
                 : (a->event_id < b->event_id) - (a->event_id > b->event_id);
}

void tool_rowset_sort(struct tool_rowset *set)
{
    size_t kept = 0;
    if (set->count > 0) {
        qsort(set->rows, set->count, sizeof *set->rows, compare_rows);
    }
    for (size_t i = 0; i < set->count; i++) {
        if (kept > 0 && tool_names_compare(&set->rows[kept - 1].names,
                                           &set->rows[i].names) == 0) {
            free(set->rows[i].text);
        } else {
            set->rows[kept++] = set->rows[i];
        }
    }
    set->count = kept;
}

static bool differs(const struct tool_row *held, const struct tool_row *stored)
{
    if (held->event_id != stored->event_id) {
        return held->event_id < stored->event_id;
    }
    return !mc_view_equal(held->names.session, stored->names.session) ||
           !mc_view_equal(held->names.group, stored->names.group);
}

void tool_rowset_compare(const struct tool_rowset *held,
                         const struct tool_rowset *stored,
                         tool_difference_fn fn, void *ctx)
{
    size_t i = 0;
    size_t k = 0;
    while (i < held->count || k < stored->count) {
        const struct tool_row *a = i < held->count ? &held->rows[i] : NULL;
        const struct tool_row *b = k < stored->count ? &stored->rows[k] : NULL;
        int order = !a ? 1 : !b ? -1 : tool_names_compare(&a->names, &b->names);
        if (order != 0) {
            fn(ctx, order < 0 ? a : NULL, order < 0 ? NULL : b);
        } else if (differs(a, b)) {
            fn(ctx, a, b);
        }
        i += order <= 0;
        k += order >= 0;
    }
}
