/* SPDX-License-Identifier: Apache-2.0 */
#include "object_table.h"

#include "mci_alloc.h"

#define FIRST_CAPACITY 8
#define CAPACITY_MAX (1U << 31)

static uint32_t home_of(const struct mci_table *table, uint64_t tag)
{
    return (uint32_t)((tag * table->capacity) >> 32);
}

/* The slot behind; behind the last one is the first. */
static uint32_t behind(const struct mci_table *table, uint32_t at)
{
    return at + 1 == table->capacity ? 0 : at + 1;
}

/* How many slots `to` is behind `from`. */
static uint32_t distance(const struct mci_table *table, uint32_t from,
                         uint32_t to)
{
    return to >= from ? to - from : to + table->capacity - from;
}

static void place(struct mci_table *table, uint32_t tag, uint32_t index)
{
    uint32_t at = home_of(table, tag);
    while (table->slots[at].index != 0) {
        at = behind(table, at);
    }
    table->slots[at].tag = tag;
    table->slots[at].index = index;
}

static uint32_t next_capacity(uint32_t capacity)
{
    if (capacity == 0) {
        return FIRST_CAPACITY;
    }
    bool is_power_of_two = (capacity & (capacity - 1)) == 0;
    return is_power_of_two ? capacity / 2 * 3 : capacity / 3 * 4;
}

static enum mc_err grow(struct mci_table *table)
{
    if (table->capacity == CAPACITY_MAX) {
        return MC_ERR_NOMEM;
    }
    struct mci_table bigger = *table;
    bigger.capacity = next_capacity(table->capacity);
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
        at = behind(table, at);
    }
}

const struct mci_slot *mci_table_home(const struct mci_table *table,
                                      const struct mci_spot *spot)
{
    return table->capacity == 0 ? NULL
                                : &table->slots[home_of(table, spot->tag)];
}

uint32_t mci_table_guess(const struct mci_table *table,
                         const struct mci_spot *spot)
{
    if (table->capacity == 0) {
        return 0;
    }
    uint32_t at = home_of(table, spot->tag);
    while (table->slots[at].index != 0 && table->slots[at].tag != spot->tag) {
        at = behind(table, at);
    }
    return table->slots[at].index;
}

void mci_table_insert(struct mci_table *table, uint32_t tag, uint32_t index)
{
    place(table, tag, index);
    table->used++;
    table->promised--;
}

void mci_table_remove(struct mci_table *table, struct mci_slot *slot)
{
    uint32_t hole = (uint32_t)(slot - table->slots);
    uint32_t at = hole;
    for (;;) {
        at = behind(table, at);
        const struct mci_slot *later = &table->slots[at];
        if (later->index == 0) {
            break;
        }
        uint32_t home = home_of(table, later->tag);
        if (distance(table, home, at) >= distance(table, hole, at)) {
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
        walk->at = behind(table, walk->at);
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
    walk->at = walk->at == 0 ? walk->table->capacity - 1 : walk->at - 1;
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
    uint64_t home = home_of(table, first_tag);
    if (slots >= table->capacity - home) {
        return end;
    }
    /* The first tag whose home is so many slots on. */
    return ((home + slots) * end + table->capacity - 1) / table->capacity;
}
