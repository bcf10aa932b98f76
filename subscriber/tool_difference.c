/* SPDX-License-Identifier: Apache-2.0 */
#include "tool_difference.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const kind_names[] = {"missing", "ghost",    "old",
                                         "tag",     "unlisted", "listed"};

void tool_differences_clear(struct tool_differences *found)
{
    for (size_t i = 0; i < found->count; i++) {
        free(found->rows[i].text);
    }
    free(found->rows);
    *found = (struct tool_differences){0};
}

static char *copy(struct mc_view from, char *at, struct mc_view *to)
{
    *to = mc_view_make(NULL, 0);
    if (!from.data) {
        return at;
    }
    *to = mc_view_make(at, from.len);
    memcpy(at, from.data, from.len);
    return at + from.len;
}

static void note(struct tool_differences *found, enum tool_difference_kind kind,
                 const struct tool_row *held, const struct tool_row *stored)
{
    const struct tool_row *either = held ? held : stored;
    if (!either) {
        return;
    }
    const struct tool_names *names = &either->names;
    struct tool_difference row = {.kind = kind,
                                  .held_id = held ? held->event_id : 0,
                                  .stored_id = stored ? stored->event_id : 0};
    if (found->count == found->capacity) {
        size_t capacity = found->capacity ? 2 * found->capacity : 64;
        struct tool_difference *rows =
            realloc(found->rows, capacity * sizeof *rows);
        found->is_failed = found->is_failed || !rows;
        if (!rows) {
            return;
        }
        found->rows = rows;
        found->capacity = capacity;
    }
    row.text =
        malloc(names->tenant.len + names->key.len + names->medium.len + 1);
    if (!row.text) {
        found->is_failed = true;
        return;
    }
    char *at = copy(names->tenant, row.text, &row.names.tenant);
    at = copy(names->key, at, &row.names.key);
    (void)copy(names->medium, at, &row.names.medium);
    found->rows[found->count++] = row;
}

void tool_differences_add(void *ctx, const struct tool_row *held,
                          const struct tool_row *stored)
{
    enum tool_difference_kind kind = !held     ? TOOL_DIFFERENCE_MISSING
                                     : !stored ? TOOL_DIFFERENCE_GHOST
                                     : held->event_id != stored->event_id
                                         ? TOOL_DIFFERENCE_OLD
                                         : TOOL_DIFFERENCE_TAG;
    note(ctx, kind, held, stored);
}

void tool_differences_add_key(void *ctx, const struct tool_row *held,
                              const struct tool_row *listed)
{
    if (!held || !listed) {
        note(ctx, held ? TOOL_DIFFERENCE_UNLISTED : TOOL_DIFFERENCE_LISTED,
             held, listed);
    }
}

static int compare_differences(const void *left, const void *right)
{
    const struct tool_difference *a = left;
    const struct tool_difference *b = right;
    if (a->kind != b->kind) {
        return a->kind < b->kind ? -1 : 1;
    }
    return tool_names_compare(&a->names, &b->names);
}

static bool is_same(const struct tool_difference *a,
                    const struct tool_difference *b)
{
    return a && a->held_id == b->held_id && a->stored_id == b->stored_id;
}

void tool_differences_sort(struct tool_differences *found)
{
    if (found->count > 0) {
        qsort(found->rows, found->count, sizeof *found->rows,
              compare_differences);
    }
}

void tool_differences_keep(struct tool_differences *later,
                           const struct tool_differences *earlier)
{
    size_t kept = 0;
    for (size_t i = 0; i < later->count; i++) {
        const struct tool_difference *before =
            earlier->count == 0
                ? NULL
                : bsearch(&later->rows[i], earlier->rows, earlier->count,
                          sizeof *earlier->rows, compare_differences);
        if (is_same(before, &later->rows[i])) {
            later->rows[kept++] = later->rows[i];
        } else {
            free(later->rows[i].text);
        }
    }
    later->count = kept;
}

void tool_difference_json(struct tool_line *line,
                          const struct tool_difference *row)
{
    tool_line_open(line, NULL, '{');
    tool_line_text(line, "difference", mc_view_str(kind_names[row->kind]));
    tool_line_text(line, "tenant_id", row->names.tenant);
    tool_line_text(line, "object_key", row->names.key);
    tool_line_text(line, "medium", row->names.medium);
    tool_line_number(line, "held_event_id", row->held_id);
    tool_line_number(line, "store_event_id", row->stored_id);
    tool_line_close(line, '}');
}

void tool_difference_text(struct tool_line *line,
                          const struct tool_difference *row)
{
    tool_line_format(line, "%-8s ", kind_names[row->kind]);
    tool_line_safe(line, row->names.key);
    tool_line_add(line, " ");
    tool_line_safe(line, row->names.medium);
    tool_line_add(line, " tenant=");
    tool_line_safe(line, row->names.tenant);
    tool_line_format(line, " held=%" PRIu64 " store=%" PRIu64, row->held_id,
                     row->stored_id);
}
