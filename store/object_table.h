/* SPDX-License-Identifier: Apache-2.0 */
/* object_table.h - keys to chains of records, one table per shard.
 *
 * Open addressing over slots of eight bytes, at most three quarters full; it
 * grows by a half and by a third in turn, so that it never is much too large. A
 * slot's place follows the order of its tag (32 bits of the hash), so a table can
 * be walked by ranges of tags, and growing does not move a walk. Removal moves
 * later entries back and leaves no mark.
 * Threads: guarded by the lock of the shard.
 */
#ifndef OBJECT_TABLE_H
#define OBJECT_TABLE_H
#include "object.h"

struct mci_slot {
    uint32_t tag;
    uint32_t index; /* first record of the chain; 0: empty */
};

struct mci_table {
    struct mci_slot *slots;
    uint32_t capacity; /* 2^n or 3 * 2^n, or 0 */
    uint32_t used;
    uint32_t promised; /* inserts that must not fail any more */
};

/* What a key hashes to. */
struct mci_spot {
    struct mc_view key;
    uint32_t shard;
    uint32_t tag;
    uint16_t tenant;
};

/* Sees to it that one insert more than promised before cannot fail, and
 * promises it. Errors: MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mci_table_promise(struct mci_table *table);
void mci_table_unpromise(struct mci_table *table);

/* The slot of a key, or NULL. Valid until the table changes. */
struct mci_slot *mci_table_find(const struct mci_table *table,
                                const struct mci_pool *pool,
                                const struct mci_spot *spot);

/* Where the search for a key begins; NULL: there is nothing yet. And the first
 * record whose slot has the key's tag, 0 if there is none: almost always the
 * key's, found without looking at it. For looking ahead. */
const struct mci_slot *mci_table_home(const struct mci_table *table,
                                      const struct mci_spot *spot);
uint32_t mci_table_guess(const struct mci_table *table,
                         const struct mci_spot *spot);

/* Puts a key in that is not there, on a promise. */
void mci_table_insert(struct mci_table *table, uint32_t tag, uint32_t index);
void mci_table_remove(struct mci_table *table, struct mci_slot *slot);
void mci_table_fini(struct mci_table *table);

/* A walk over the slots with first_tag <= tag < end_tag (end_tag up to 2^32).
 * After removing the entry it showed, call mci_walk_again. */
struct mci_walk {
    const struct mci_table *table;
    uint64_t first_tag;
    uint64_t end_tag;
    uint32_t at;
    uint32_t left;  /* slots that must be looked at whatever is in them */
    uint32_t turns; /* slots looked at, at most all */
};
struct mci_walk mci_walk_begin(const struct mci_table *table,
                               uint64_t first_tag, uint64_t end_tag);
struct mci_slot *mci_walk_next(struct mci_walk *walk);
void mci_walk_again(struct mci_walk *walk);

/* The end of a range that begins at a tag and covers about `slots` slots. */
uint64_t mci_table_range_end(const struct mci_table *table, uint64_t first_tag,
                             uint32_t slots);
#endif
