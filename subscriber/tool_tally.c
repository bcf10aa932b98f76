/* SPDX-License-Identifier: Apache-2.0 */
/* Open addressing over an array of rows, at most half full; names are never
 * taken out. */
#include <stdlib.h>

#include "tool_tally.h"

struct tool_tally {
    struct tool_tally_row *rows; /* name.data NULL: free */
    size_t mask;
    size_t count;
    size_t name_max;
    uint64_t others;
};

struct tool_tally *tool_tally_create(size_t name_max)
{
    size_t capacity = 16;
    while (capacity < 2 * name_max) {
        capacity *= 2;
    }
    struct tool_tally *tally = calloc(1, sizeof *tally);
    struct tool_tally_row *rows = calloc(capacity, sizeof *rows);
    if (!tally || !rows) {
        free(tally);
        free(rows);
        return NULL;
    }
    tally->rows = rows;
    tally->mask = capacity - 1;
    tally->name_max = name_max;
    return tally;
}

void tool_tally_destroy(struct tool_tally *tally)
{
    if (tally) {
        for (size_t i = 0; i <= tally->mask; i++) {
            free((void *)(uintptr_t)tally->rows[i].name.data);
        }
        free(tally->rows);
        free(tally);
    }
}

static uint64_t hash_of(struct mc_view name)
{
    const unsigned char *bytes = name.data;
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (size_t i = 0; i < name.len; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return hash ^ hash >> 32;
}

void tool_tally_add(struct tool_tally *tally, struct mc_view name)
{
    size_t at = (size_t)hash_of(name) & tally->mask;
    while (tally->rows[at].name.data &&
           !mc_view_equal(tally->rows[at].name, name)) {
        at = (at + 1) & tally->mask;
    }
    struct tool_tally_row *row = &tally->rows[at];
    if (!row->name.data) {
        void *copy =
            tally->count < tally->name_max ? malloc(name.len + 1) : NULL;
        if (!copy) {
            tally->others++;
            return;
        }
        if (name.len > 0) {
            memcpy(copy, name.data, name.len);
        }
        row->name = mc_view_make(copy, name.len);
        tally->count++;
    }
    row->total++;
    row->recent++;
}

static int is_busier(const struct tool_tally_row *a,
                     const struct tool_tally_row *b)
{
    return a->recent != b->recent ? a->recent > b->recent : a->total > b->total;
}

size_t tool_tally_top(const struct tool_tally *tally,
                      struct tool_tally_row *rows_out, size_t capacity)
{
    size_t count = 0;
    for (size_t i = 0; i <= tally->mask; i++) {
        const struct tool_tally_row *row = &tally->rows[i];
        if (!row->name.data ||
            (count == capacity && !is_busier(row, &rows_out[count - 1]))) {
            continue;
        }
        size_t at = count < capacity ? count++ : count - 1;
        while (at > 0 && is_busier(row, &rows_out[at - 1])) {
            rows_out[at] = rows_out[at - 1];
            at--;
        }
        rows_out[at] = *row;
    }
    return count;
}

size_t tool_tally_count(const struct tool_tally *tally)
{
    return tally->count;
}

uint64_t tool_tally_others(const struct tool_tally *tally)
{
    return tally->others;
}

void tool_tally_roll(struct tool_tally *tally)
{
    for (size_t i = 0; i <= tally->mask; i++) {
        tally->rows[i].recent = 0;
    }
}
