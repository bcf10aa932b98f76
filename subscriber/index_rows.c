/* SPDX-License-Identifier: Apache-2.0 */
/* Counting contiguous blocks per place, down a chain.
 *
 * Only a change of set needs a look: while the next block is held in the very
 * same places nothing ends. */
#include <stdlib.h>
#include <string.h>

#include "index_walk.h"

const struct index_name *index_slot_name(const struct mc_index *ix,
                                         uint32_t slot)
{
    uint32_t owner =
        atomic_load_explicit(&slot_at(ix, slot)->owner, memory_order_acquire);
    return atomic_load_explicit(&owner_at(ix, owner)->name,
                                memory_order_acquire);
}

void index_rows_begin(struct mc_index_reader *reader, uint32_t id)
{
    const struct mc_index *ix = reader->ix;
    const struct index_set *set = id ? set_at(ix, id) : NULL;
    reader->row_count = 0;
    for (uint32_t i = 0; set && i < set->count; i++) {
        uint32_t place = set->place[i];
        if (index_place_is_live(ix, place) &&
            reader->row_count < reader->row_cap) {
            struct index_row *row = &reader->rows[reader->row_count++];
            memset(row, 0, sizeof *row);
            row->place = place;
            row->name = index_slot_name(ix, place / MC_TIER_COUNT);
        }
    }
}

uint32_t index_rows_step(struct mc_index_reader *reader, uint32_t id,
                         uint64_t at)
{
    const struct mc_index *ix = reader->ix;
    const struct index_set *set = id ? set_at(ix, id) : NULL;
    uint32_t left = 0;
    for (uint32_t i = 0; i < reader->row_count; i++) {
        struct index_row *row = &reader->rows[i];
        if (row->is_over) {
            continue;
        }
        if (set && index_set_holds(set, row->place) &&
            index_place_is_live(ix, row->place)) {
            left++;
        } else {
            row->is_over = true;
            row->blocks = at;
        }
    }
    return left;
}

void index_rows_end(struct mc_index_reader *reader, uint64_t count)
{
    for (uint32_t i = 0; i < reader->row_count; i++) {
        if (!reader->rows[i].is_over) {
            reader->rows[i].blocks = count;
        }
    }
}

int index_name_compare(const struct index_name *a, const struct index_name *b)
{
    uint32_t len = a->len < b->len ? a->len : b->len;
    int order = memcmp(a->bytes, b->bytes, len);
    return order ? order : (a->len > b->len) - (a->len < b->len);
}

static int compare_rows(const void *a, const void *b)
{
    const struct index_row *x = a;
    const struct index_row *y = b;
    int order = x->name == y->name ? 0 : index_name_compare(x->name, y->name);
    uint32_t tier_x = x->place % MC_TIER_COUNT;
    uint32_t tier_y = y->place % MC_TIER_COUNT;
    return order ? order : (tier_x > tier_y) - (tier_x < tier_y);
}

void index_rows_sort(struct index_row *rows, size_t count)
{
    if (count > 1) {
        qsort(rows, count, sizeof *rows, compare_rows);
    }
}
