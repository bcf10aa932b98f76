/* SPDX-License-Identifier: Apache-2.0 */
/* block_sums.h - the sums of an object that is written piece by piece.
 *
 * A block that comes whole is summed at once. One that comes in pieces has a
 * stream as long as each begins where the last one ended; there are
 * MCI_BLOCK_STREAMS of them. A block whose pieces came in another order, found no
 * stream, or were written over in part has no sum, until it is written whole.
 *
 * The bytes of a block are summed in two steps, so that nobody waits for long:
 * `make` for those that a piece covers whole, which nobody else writes meanwhile,
 * and `note`, which is short, for what is left and for what is known of all.
 * Threads: make by any; the rest by one at a time. Pure.
 */
#ifndef BLOCK_SUMS_H
#define BLOCK_SUMS_H
#include "mc_err.h"
#include "sums.h"

#define MCI_BLOCK_STREAMS 16

struct mci_block_stream {
    uint64_t block;
    uint64_t len; /* that it has got; 0: not in use */
    struct mci_hash_stream hash;
};

struct mci_block_sums {
    struct mci_summed of;
    uint64_t count;
    uint8_t *sums;   /* as they are placed */
    uint8_t *states; /* what is known of each block */
    struct mci_block_stream streams[MCI_BLOCK_STREAMS];
};

/* Errors: MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mci_block_sums_init(struct mci_block_sums *sums,
                                                const struct mci_summed *of);
void mci_block_sums_fini(struct mci_block_sums *sums); /* zeroed is fine */

/* The piece lies within the object. */
void mci_block_sums_make(struct mci_block_sums *sums, uint64_t from,
                         const void *data, uint64_t len);
/* After make, of the same piece. */
void mci_block_sums_note(struct mci_block_sums *sums, uint64_t from,
                         const void *data, uint64_t len);
/* Nobody knows what stands there now. */
void mci_block_sums_spoil(struct mci_block_sums *sums, uint64_t from,
                          uint64_t len);

/* Marks the blocks that have no sum, and answers how many; again is fine. Then
 * `sums` can be placed. */
uint64_t mci_block_sums_end(struct mci_block_sums *sums);
#endif
