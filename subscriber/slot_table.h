/* SPDX-License-Identifier: Apache-2.0 */
/* slot_table.h - open addressing over pointers: the bare table under the mirror
 * and its names.
 *
 * A slot is a 32-bit hash, 0 for an empty one, and a pointer; twelve bytes. At
 * most three quarters are taken; it grows by doubling and closes the holes of
 * what is taken out, so that a probe ends at the first empty slot. What is
 * equal the user says:
 *
 *     for (size_t i = slot_table_first(&t, hash); slot_table_is_taken(&t, i);
 *          i = slot_table_after(&t, i)) {
 *         if (t.hashes[i] == hash && same(t.items[i])) ...
 *     }
 *
 * Threads: one thread at a time.
 */
#ifndef SLOT_TABLE_H
#define SLOT_TABLE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mc_err.h"

struct slot_table { /* zeroed is empty */
    uint32_t *hashes;
    void **items;
    size_t capacity; /* a power of two, or 0 */
    size_t count;
};

void slot_table_fini(struct slot_table *table); /* items are not touched */

/* Makes room for one more. Errors: MC_ERR_NOMEM; nothing has changed then. */
MC_CHECK_RESULT enum mc_err slot_table_reserve(struct slot_table *table);

/* Adds an item after a reserve; hash is not 0. */
void slot_table_add(struct slot_table *table, uint32_t hash, void *item);

/* Takes out what stands in a slot; other items move. */
void slot_table_remove(struct slot_table *table, size_t slot);

/* The hash of a slot: 32 of 64 bits, and never 0. */
static inline uint32_t slot_table_hash(uint64_t hash)
{
    uint32_t folded = (uint32_t)(hash >> 32);
    return folded ? folded : 1;
}

static inline size_t slot_table_first(const struct slot_table *table,
                                      uint32_t hash)
{
    return table->capacity ? hash & (table->capacity - 1) : 0;
}

static inline bool slot_table_is_taken(const struct slot_table *table,
                                       size_t slot)
{
    return table->capacity && table->hashes[slot];
}

static inline size_t slot_table_after(const struct slot_table *table,
                                      size_t slot)
{
    return (slot + 1) & (table->capacity - 1);
}
#endif
