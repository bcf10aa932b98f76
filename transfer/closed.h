/* SPDX-License-Identifier: Apache-2.0 */
/* closed.h - attempts that are spent at one registration.
 *
 * Sets of a few entries each, found by hash; the table grows and shrinks with
 * what has not ended. An entry is forgotten when no grant of its attempt can be
 * alive. Where the table cannot grow (its maximum, or no memory) the entry that
 * ends first makes room and its end becomes the floor: whatever grant ends at or
 * below the floor is refused.
 *
 * Threads: any thread.
 */
#ifndef CLOSED_H
#define CLOSED_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mc_err.h"

#define MCI_CLOSED_MAX 1048576 /* entries, of 16 bytes */

struct mci_closed;

/* max: entries, rounded up to a power of two; 0 = MCI_CLOSED_MAX. */
MC_CHECK_RESULT enum mc_err mci_closed_create(size_t max,
                                              struct mci_closed **closed_out);
void mci_closed_destroy(struct mci_closed *closed); /* NULL is fine */

/* Remembers an attempt until until_ns. Never fails: see the floor. */
void mci_closed_add(struct mci_closed *closed, uint64_t attempt,
                    uint64_t until_ns, uint64_t now_ns);

/* The attempt is spent, or its grant ends at or below the floor. */
bool mci_closed_refuses(struct mci_closed *closed, uint64_t attempt,
                        uint64_t grant_ns);

size_t mci_closed_capacity(struct mci_closed *closed);
#endif
