/* SPDX-License-Identifier: Apache-2.0 */
#include "object_table.h"

#include "mci_alloc.h"

#define FIRST_CAPACITY 8
#define CAPACITY_MAX (1U << 31)

static uint32_t home_of(const struct mci_table *table, uint64_t tag)
{
    return (uint32_t)((tag * table->capacity) >> 32);
}

static void place(struct mci_table *table, uint32_t tag, uint32_t index)
{
    uint32_t mask = table->capacity - 1;
    uint32_t at = home_of(table, tag);
    while (table->slots[at].index != 0) {
        at = (at + 1) & mask;
    }
    table->slots[at].tag = tag;
    table->slots[at].index = index;
}

static enum mc_err grow(struct mci_table *table)
{
    if (table->capacity == CAPACITY_MAX) {
        return MC_ERR_NOMEM;
    }
    struct mci_table bigger = *table;
    bigger.capacity =
        table->capacity ? table->capacity * 2 : (uint32_t)FIRST_CAPACITY;
    bigger.slots = mci_calloc(bigger.capacity, sizeof *bigger.slots);
    if (!bigger.slots) {
        return MC_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < table->capacity; i++) {
        if (table->slots[i].index != 0) {
            place(&bigger, table->slots[i].tag, table->slots[i].index);
        }
    }
    mci_free(table->slots);
    *table = bigger;
    return MC_OK;
}

enum mc_err mci_table_promise(struct mci_table *table)
{
    uint64_t needed = (uint64_t)table->used + table->promised + 1;
    if (needed * 4 > (uint64_t)table->capacity * 3) {
        enum mc_err err = grow(table);
        if (err != MC_OK) {
            return err;
        }
    }
    table->promised++;
    return MC_OK;
}

void mci_table_unpromise(struct mci_table *table)
{
    table->promised--;
}

static bool is_of(const struct mci_record *record, const struct mci_spot *spot)
{
    return record->label->tenant == spot->tenant &&
           mc_view_equal(mci_label_key(record->label), spot->key);
}

struct mci_slot *mci_table_find(const struct mci_table *table,
                                const struct mci_pool *pool,
                                const struct mci_spot *spot)
{
    if (table->capacity == 0) {
        return NULL;
    }
    uint32_t mask = table->capacity - 1;
    uint32_t at = home_of(table, spot->tag);
    for (;;) {
        struct mci_slot *slot = &table->slots[at];
        if (slot->index == 0) {
            return NULL;
        }
        if (slot->tag == spot->tag &&
            is_of(mci_pool_at(pool, slot->index), spot)) {
            return slot;
        }
        at = (at + 1) & mask;
    }
}

void mci_table_insert(struct mci_table *table, uint32_t tag, uint32_t index)
{
    place(table, tag, index);
    table->used++;
    table->promised--;
}

void mci_table_remove(struct mci_table *table, struct mci_slot *slot)
{
    uint32_t mask = table->capacity - 1;
    uint32_t hole = (uint32_t)(slot - table->slots);
    uint32_t at = hole;
    for (;;) {
        at = (at + 1) & mask;
        const struct mci_slot *later = &table->slots[at];
        if (later->index == 0) {
            break;
        }
        uint32_t from_home = (at - home_of(table, later->tag)) & mask;
        if (from_home >= ((at - hole) & mask)) {
            table->slots[hole] = *later;
            hole = at;
        }
    }
    table->slots[hole].index = 0;
    table->used--;
}

void mci_table_fini(struct mci_table *table)
{
    mci_free(table->slots);
    table->slots = NULL;
    table->capacity = 0;
    table->used = 0;
}

/* ---- walking ----------------------------------------------------------- */

/* Entries of the range stand at their home or behind it, before the next empty
 * slot: so slots from the first home to the last one are looked at, and beyond
 * it until an empty one. */
struct mci_walk mci_walk_begin(const struct mci_table *table,
                               uint64_t first_tag, uint64_t end_tag)
{
    struct mci_walk walk = {
        .table = table, .first_tag = first_tag, .end_tag = end_tag};
    if (table->capacity > 0 && first_tag < end_tag) {
        walk.at = home_of(table, first_tag);
        walk.left = home_of(table, end_tag - 1) - walk.at + 1;
    }
    return walk;
}

struct mci_slot *mci_walk_next(struct mci_walk *walk)
{
    const struct mci_table *table = walk->table;
    while (walk->turns < table->capacity) {
        struct mci_slot *slot = &table->slots[walk->at];
        if (slot->index == 0 && walk->left == 0) {
            break;
        }
        walk->at = (walk->at + 1) & (table->capacity - 1);
        walk->left -= walk->left > 0;
        walk->turns++;
        if (slot->index != 0 && slot->tag >= walk->first_tag &&
            slot->tag < walk->end_tag) {
            return slot;
        }
    }
    return NULL;
}

/* The slot just shown may hold another entry now. */
void mci_walk_again(struct mci_walk *walk)
{
    walk->at = (walk->at - 1) & (walk->table->capacity - 1);
    walk->turns--;
    walk->left++;
}

uint64_t mci_table_range_end(const struct mci_table *table, uint64_t first_tag,
                             uint32_t slots)
{
    uint64_t end = UINT64_C(1) << 32;
    if (table->capacity == 0) {
        return end;
    }
    uint64_t per_slot = end / table->capacity;
    uint64_t stop = (first_tag / per_slot + slots) * per_slot;
    return stop < end ? stop : end;
}
