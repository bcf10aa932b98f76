/* SPDX-License-Identifier: Apache-2.0 */
/* copy.h - a row whose remote side is mapped here: memcpy, in pieces.
 *
 * Before each piece the guard is asked; a piece that has begun is finished.
 * Threads: a copy is its caller's.
 */
#ifndef COPY_H
#define COPY_H
#include "engine.h"

struct mci_guard {
    /* May the row go on under this grant? Before each piece, and after the last
     * byte of a read. */
    enum mc_err (*may)(struct mci_guard *guard,
                       const struct mc_transfer_row *row,
                       const struct mc_grant *grant, uint64_t now_ns);
    /* Makes sure that these bytes can be touched; NULL: they can. */
    enum mc_err (*touch)(struct mci_guard *guard, uint64_t offset, uint64_t len,
                         bool is_write);
};

struct mci_copy {
    struct mc_transfer_row *row; /* bytes is counted up */
    uint8_t *base;               /* of the registration */
    struct mci_guard *guard;
    struct mci_gate *gate; /* of writes */
    const struct mci_board_page *board;
    const _Atomic int *canceled;
    uint64_t deadline_ns;
};
/* Moves a row; a write is inside the gate meanwhile. Errors:
 * MC_ERR_TRANSFER_FAIL (deadline, canceled, fenced), those of the guard. */
MC_CHECK_RESULT enum mc_err mci_copy_row(const struct mci_copy *copy);

/* Test seam: called after each piece, before the row goes on; NULL: nobody. */
typedef void (*mci_piece_fn)(const struct mc_transfer_row *row);
void mci_copy_set_hook(mci_piece_fn hook);
#endif
