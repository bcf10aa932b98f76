/* SPDX-License-Identifier: Apache-2.0 */
/* client_sums.h - the sums of what a slice reads.
 *
 * With each piece that covers blocks whole goes a second move in the same run,
 * of the sums of these blocks. What a session has fetched it keeps, so that its
 * later reads have no such move. The slice's run has room for both while its
 * sums are open.
 * Threads: as the slice.
 */
#ifndef CLIENT_SUMS_H
#define CLIENT_SUMS_H
#include "client_slice.h"
#include "sums.h"

/* Of one piece; zeroed: nothing is looked at. */
struct mci_sums_want {
    struct mci_blocks blocks;
    struct mci_part part; /* fetched: owned; len 0: nothing is */
    const uint8_t *kept;  /* of all blocks; borrowed of a session */
    bool is_all;          /* what is fetched */
};

struct mci_slice_sums {
    struct mci_sums_want *wants; /* per piece */
    bool *is_asked;              /* per row: all of its sums are, or were */
    /* What the run has without sums. */
    struct mc_transfer_row *moves;
    uint32_t *owners;
    size_t room;
};

/* The run is empty. Errors: MC_ERR_NOMEM; nothing has changed. */
MC_CHECK_RESULT enum mc_err mci_slice_sums_open(struct mci_slice *slice);
void mci_slice_sums_close(struct mci_slice *slice); /* not open is fine */

/* The piece is about to be read from its place: *part_out is what has to come
 * along, in the move behind its own, or NULL. Errors: MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err
mci_slice_sums_want(struct mci_slice *slice, struct mci_piece *piece,
                    const struct mci_part **part_out);
/* A second move of the piece is behind the first. */
bool mci_slice_sums_came(const struct mci_slice *slice,
                         const struct mci_piece *piece);

enum mci_match {
    MCI_MATCH,
    MCI_MATCH_UNSURE, /* by sums that were kept */
    MCI_MATCH_NOT     /* *block_out is the first one */
};
/* All has come. What was wanted is dropped, by _drop otherwise. */
enum mci_match mci_slice_sums_match(struct mci_slice *slice,
                                    struct mci_piece *piece,
                                    uint64_t *block_out);
void mci_slice_sums_drop(struct mci_slice *slice,
                         const struct mci_piece *piece);
#endif
