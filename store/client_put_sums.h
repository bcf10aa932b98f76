/* SPDX-License-Identifier: Apache-2.0 */
/* client_put_sums.h - sums of what is written: of whole objects, which go along
 * with their bytes, and of put sessions, which go at the end.
 */
#ifndef CLIENT_PUT_SUMS_H
#define CLIENT_PUT_SUMS_H
#include <pthread.h>

#include "block_sums.h"
#include "client_spans.h"

/* ---- whole objects ---------------------------------------------------------- */

/* What a slice of whole writes needs besides its rows; zeroed is none. By one
 * thread. */
struct mci_put_sums {
    struct mci_tail *tails;
};

/* The part is the row's object: makes the sums of it and puts them behind, as one
 * more span. Errors: MC_ERR_NOMEM; the part is as it was. */
MC_CHECK_RESULT enum mc_err mci_put_sums_add(struct mci_put_sums *sums,
                                             const struct mci_write_row *row,
                                             struct mci_part *part);
/* Once the parts have gone. */
void mci_put_sums_clear(struct mci_put_sums *sums);

/* ---- put sessions ----------------------------------------------------------- */

/* Made when the first bytes are written. */
struct mci_session_sums {
    pthread_mutex_t lock; /* guards blocks, but for what make may do; a leaf */
    struct mci_block_sums blocks;
    bool is_placed; /* for good; by who ends the session */
};

/* There are some from here on. Errors: MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err
mci_session_sums_need(struct mci_sessions *sessions,
                      struct mc_put_session *session);
void mci_session_sums_free(struct mci_session_sums *sums); /* NULL is fine */

/* Fragments that were written, or of which nobody knows what was; they are the
 * caller's until this has returned. */
void mci_session_sums_note(struct mci_session_sums *sums,
                           const struct mc_fragments *fragments,
                           bool have_arrived);
/* A range that was filled with `zeros`, which are MCI_SUM_BLOCK. */
void mci_session_sums_fill(struct mci_session_sums *sums, uint64_t from,
                           uint64_t len, const uint8_t *zeros);
#endif
