/* SPDX-License-Identifier: Apache-2.0 */
#include "slot_table.h"

#include "mci_alloc.h"

#define CAPACITY_MIN 16

void slot_table_fini(struct slot_table *table)
{
    mci_free(table->hashes);
    mci_free(table->items);
    *table = (struct slot_table){.capacity = 0};
}

void slot_table_add(struct slot_table *table, uint32_t hash, void *item)
{
    size_t slot = slot_table_first(table, hash);
    while (table->hashes[slot]) {
        slot = slot_table_after(table, slot);
    }
    table->hashes[slot] = hash;
    table->items[slot] = item;
    table->count++;
}

static enum mc_err grow(struct slot_table *table)
{
    struct slot_table grown = {.capacity = table->capacity ? table->capacity * 2
                                                           : CAPACITY_MIN};
    grown.hashes = mci_calloc(grown.capacity, sizeof *grown.hashes);
    grown.items = mci_calloc(grown.capacity, sizeof *grown.items);
    if (!grown.hashes || !grown.items) {
        slot_table_fini(&grown);
        return MC_ERR_NOMEM;
    }
    for (size_t i = 0; i < table->capacity; i++) {
        if (table->hashes[i]) {
            slot_table_add(&grown, table->hashes[i], table->items[i]);
        }
    }
    slot_table_fini(table);
    *table = grown;
    return MC_OK;
}

enum mc_err slot_table_reserve(struct slot_table *table)
{
    if (table->count < table->capacity / 4 * 3) {
        return MC_OK;
    }
    return grow(table);
}

void slot_table_remove(struct slot_table *table, size_t slot)
{
    size_t mask = table->capacity - 1;
    size_t hole = slot;
    for (size_t i = (hole + 1) & mask; table->hashes[i]; i = (i + 1) & mask) {
        size_t home = table->hashes[i] & mask;
        /* An item may fill the hole unless its home lies behind it. */
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            table->hashes[hole] = table->hashes[i];
            table->items[hole] = table->items[i];
            hole = i;
        }
    }
    table->hashes[hole] = 0;
    table->items[hole] = NULL;
    table->count--;
}
