/* SPDX-License-Identifier: Apache-2.0 */
/* mci_map.h - hash map from bytes to a pointer.
 *
 * Keys are copied in; values are the caller's. Open addressing with a stored
 * hash, at most 3/4 full, grows by doubling up to the maximum given at init.
 * Meant for the moderate tables of set-up and bookkeeping (tenants, names); the
 * object table and the index have tables of their own.
 * Threads: one thread at a time.
 */
#ifndef MCI_MAP_H
#define MCI_MAP_H
#include <stdint.h>

#include "mc_err.h"
#include "mc_view.h"

struct mci_map_slot;
struct mci_map {
    struct mci_map_slot *slots;
    size_t capacity; /* power of two, or 0 before the first put */
    size_t count;
    size_t max;
};

void mci_map_init(struct mci_map *map, size_t max_count);
void mci_map_fini(struct mci_map *map); /* values are not touched */

/* NULL if absent. A key of "none" is the empty key. */
void *mci_map_get(const struct mci_map *map, struct mc_view key);

/* Inserts or replaces; *old_out (may be NULL) gets the value replaced or NULL.
 * Errors: MC_ERR_NOMEM, MC_ERR_BUFFER_OVERFLOW (at the maximum). */
MC_CHECK_RESULT enum mc_err mci_map_put(struct mci_map *map, struct mc_view key,
                                        void *value, void **old_out);

/* Takes the entry out and returns its value, NULL if absent. */
void *mci_map_remove(struct mci_map *map, struct mc_view key);

/* Walks all entries: *cursor starts at 0; false at the end. The key is
 * borrowed until the map changes. No changes while walking. */
int mci_map_next(const struct mci_map *map, size_t *cursor,
                 struct mc_view *key_out, void **value_out);
#endif
