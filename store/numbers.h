/* SPDX-License-Identifier: Apache-2.0 */
/* numbers.h - a table from numbers to numbers.
 *
 * Open addressing, at most three quarters full, grows by doubling and keeps what
 * it has; removal moves later entries back. Zeroed is empty. 0 is no key.
 * Threads: one thread at a time.
 */
#ifndef NUMBERS_H
#define NUMBERS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mc_err.h"

struct mci_number_slot {
    uint64_t key; /* 0: empty */
    uint64_t value;
};

struct mci_numbers {
    struct mci_number_slot *slots;
    size_t capacity; /* a power of two, or 0 */
    size_t count;
};

void mci_numbers_fini(struct mci_numbers *numbers);

/* Sees to it that so many more puts cannot fail. Errors: MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mci_numbers_reserve(struct mci_numbers *numbers,
                                                size_t more);

/* Inserts or replaces, in room that was reserved. */
void mci_numbers_put(struct mci_numbers *numbers, uint64_t key, uint64_t value);

/* False if absent; *value_out is left alone then. */
bool mci_numbers_get(const struct mci_numbers *numbers, uint64_t key,
                     uint64_t *value_out);
void mci_numbers_remove(struct mci_numbers *numbers, uint64_t key);
#endif
