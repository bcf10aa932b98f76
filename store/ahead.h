/* SPDX-License-Identifier: Apache-2.0 */
/* ahead.h - has the memory fetched that rows of a batch will need.
 *
 * Finding a key goes from slot to record to label, and using it touches the
 * neighbours in its queue: each a miss where tables are large. Here some rows take
 * each step together, so that they wait for memory side by side. Nothing is
 * decided: the rows are then executed as if this had not happened.
 * Threads: any thread; no lock may be held.
 */
#ifndef AHEAD_H
#define AHEAD_H
#include "core.h"

#define MCI_AHEAD_ROWS 16

/* Spots without a key are passed over. count is at most MCI_AHEAD_ROWS. */
void mci_look_ahead(struct mci_master *master, const struct mci_spot *spots,
                    size_t count);

/* The same for the keys of rows, which need not be sound. */
void mci_look_ahead_at(struct mci_master *master, uint16_t tenant,
                       const struct mci_write_row *rows, size_t count);
#endif
