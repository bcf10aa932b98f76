/* SPDX-License-Identifier: Apache-2.0 */
/* client_run.c - see the header. */
#include "client_run.h"

enum mc_err mci_run_add(struct mci_run *run, const struct mci_claim *claim,
                        const struct mci_part *part, uint64_t deadline_ns,
                        struct mc_transfer_row **move_out)
{
    struct mc_transfer_row *move = &run->moves[run->count];
    enum mc_err err =
        mci_mover_aim(&run->mover, claim, part->from, deadline_ns, move);
    if (err != MC_OK) {
        return err;
    }
    move->spans = part->spans;
    move->span_count = part->span_count;
    run->count++;
    run->bytes += part->len;
    *move_out = move;
    return MC_OK;
}

void mci_run_go(struct mci_run *run, uint64_t deadline_ns)
{
    if (run->count > 0) {
        mci_mover_run(&run->mover, run->moves, run->count, deadline_ns);
    }
    for (size_t i = 0; i < run->count; i++) {
        if (run->moves[i].err != MC_OK) {
            mci_mover_note(&run->moves[i]);
        }
    }
}

void mci_run_clear(struct mci_run *run)
{
    run->count = 0;
    run->bytes = 0;
}
