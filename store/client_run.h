/* SPDX-License-Identifier: Apache-2.0 */
/* client_run.h - rows of transfer that are collected and then go at once.
 *
 * Whatever call it is, what it reads or writes ends here: a claim to an object
 * and a part of it make a move; a run of them is moved together.
 * Threads: a run by one thread.
 */
#ifndef CLIENT_RUN_H
#define CLIENT_RUN_H
#include "client_move.h"
#include "client_spans.h"

struct mci_run {
    struct mci_mover mover;
    struct mc_transfer_row *moves;
    uint32_t *owners; /* which part each is of, as the caller counts */
    size_t room;
    size_t count;
    uint64_t bytes;
};

#define MCI_RUN_MOVES 1024
#define MCI_RUN_BYTES (64 * UINT64_C(1048576))

static inline bool mci_run_is_full(const struct mci_run *run)
{
    return run->count >= run->room;
}

/* So many bytes more still go along. */
static inline bool mci_run_takes(const struct mci_run *run, uint64_t bytes)
{
    return run->bytes == 0 ||
           (bytes <= MCI_RUN_BYTES && run->bytes <= MCI_RUN_BYTES - bytes);
}

/* There is room. The part's spans stay as they are until the run has gone.
 * *move_out: borrowed. Errors: as mci_mover_aim; nothing is added. */
MC_CHECK_RESULT enum mc_err mci_run_add(struct mci_run *run,
                                        const struct mci_claim *claim,
                                        const struct mci_part *part,
                                        uint64_t deadline_ns,
                                        struct mc_transfer_row **move_out);
/* The moves tell; they stay until clear. */
void mci_run_go(struct mci_run *run, uint64_t deadline_ns);
void mci_run_clear(struct mci_run *run);
#endif
