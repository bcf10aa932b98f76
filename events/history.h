/* SPDX-License-Identifier: Apache-2.0 */
/* history.h - the batches published last, for those who ask for them again.
 *
 * A ring bounded by a number of batches and by bytes; the newest batch is kept
 * whatever its size. A batch is counted: who got one may read it while the ring
 * has moved on, and what readers hold beyond the ring is theirs to bound.
 * Sequence numbers rise but have holes where numbers were burnt.
 * Threads: one thread adds, any thread reads.
 */
#ifndef HISTORY_H
#define HISTORY_H
#include <stdbool.h>
#include <stdint.h>

#include "mc_err.h"
#include "mc_view.h"

#define MCI_HISTORY_BATCHES_DEFAULT 65536
#define MCI_HISTORY_BYTES_DEFAULT (UINT64_C(256) << 20)

struct mci_history;

/* A published batch; never changes. */
struct mci_history_batch {
    uint64_t seq;
    struct mc_view payload; /* lives as long as the batch is held */
};

/* 0 = the defaults. Errors: MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err
mci_history_create(uint32_t max_batches, uint64_t max_bytes,
                   struct mci_history **history_out);

/* Batches that are still held live on. NULL is fine. */
void mci_history_destroy(struct mci_history *history);

/* Copies a batch in as the newest; what is beyond the bounds goes. seq must be
 * above the newest. Errors: MC_ERR_NOMEM; the number is missing for good then.
 */
MC_CHECK_RESULT enum mc_err mci_history_add(struct mci_history *history,
                                            uint64_t seq,
                                            struct mc_view payload);

/* The batch with the lowest number at or above from_seq; NULL if there is none.
 * Held for the caller, who gives it back. */
const struct mci_history_batch *mci_history_hold(struct mci_history *history,
                                                 uint64_t from_seq);
void mci_history_release(const struct mci_history_batch *batch);

struct mci_history_stats {
    uint64_t batches;
    uint64_t bytes;      /* with what is kept beside the payload */
    uint64_t oldest_seq; /* 0 if there is none */
    uint64_t tail_seq;   /* newest; 0 if there is none */
};
void mci_history_stats(struct mci_history *history,
                       struct mci_history_stats *stats_out);
#endif
