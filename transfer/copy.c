/* SPDX-License-Identifier: Apache-2.0 */
#include "copy.h"

#include <string.h>

#include "mci_clock.h"

static _Atomic(mci_piece_fn) piece_hook;

void mci_copy_set_hook(mci_piece_fn hook)
{
    atomic_store(&piece_hook, hook);
}

/* Where a copy stands. */
struct place {
    uint32_t span;
    size_t into;
    int slot; /* in the gate; -1: none */
    uint64_t grant_ns;
};

static enum mc_err ask_guard(const struct mci_copy *copy, struct place *at)
{
    uint64_t now_ns = mci_clock_ns();
    struct mc_grant grant = mci_row_grant(copy->row);
    if (at->slot >= 0 && at->grant_ns != grant.deadline_ns) {
        at->grant_ns = grant.deadline_ns;
        mci_gate_renew(copy->gate, at->slot, at->grant_ns);
    }
    return copy->guard->may(copy->guard, copy->row, &grant, now_ns);
}

static enum mc_err look(const struct mci_copy *copy, struct place *at,
                        uint64_t piece)
{
    const struct mc_transfer_row *row = copy->row;
    if (mci_clock_ns() >= copy->deadline_ns || atomic_load(copy->canceled)) {
        return MC_ERR_TRANSFER_FAIL;
    }
    enum mc_err err = ask_guard(copy, at);
    if (err == MC_OK && copy->guard->touch && piece > 0) {
        err = copy->guard->touch(copy->guard, row->offset + row->bytes, piece,
                                 row->terms.is_write);
    }
    return err;
}

static void copy_piece(const struct mci_copy *copy, struct place *at,
                       uint64_t piece)
{
    struct mc_transfer_row *row = copy->row;
    while (piece > 0) {
        const struct mc_span *span = &row->spans[at->span];
        uint64_t here = span->len - at->into;
        here = here < piece ? here : piece;
        uint8_t *remote = copy->base + row->offset + row->bytes;
        if (here > 0) {
            uint8_t *local = (uint8_t *)span->data + at->into;
            memcpy(row->terms.is_write ? remote : local,
                   row->terms.is_write ? local : remote, here);
        }
        row->bytes += here;
        piece -= here;
        at->into += here;
        if (at->into == span->len) {
            at->span++;
            at->into = 0;
        }
    }
}

static enum mc_err copy_pieces(const struct mci_copy *copy, struct place *at)
{
    struct mc_transfer_row *row = copy->row;
    uint64_t len = mci_row_len(row);
    do {
        uint64_t piece = len - row->bytes;
        piece = piece < MCI_PIECE_BYTES ? piece : MCI_PIECE_BYTES;
        enum mc_err err = look(copy, at, piece);
        if (err != MC_OK) {
            return err;
        }
        copy_piece(copy, at, piece);
        mci_piece_fn hook = atomic_load(&piece_hook);
        if (hook) {
            hook(row);
        }
    } while (row->bytes < len);
    return MC_OK;
}

enum mc_err mci_copy_row(const struct mci_copy *copy)
{
    const struct mc_transfer_row *row = copy->row;
    struct place at = {.slot = -1, .grant_ns = mci_row_grant(row).deadline_ns};
    if (row->terms.is_write) {
        at.slot = mci_gate_enter(copy->gate, copy->board, &row->terms,
                                 at.grant_ns, copy->deadline_ns);
        if (at.slot < 0) {
            return MC_ERR_TRANSFER_FAIL;
        }
    }
    enum mc_err err = copy_pieces(copy, &at);
    if (at.slot >= 0) {
        mci_gate_leave(copy->gate, at.slot);
    } else if (err == MC_OK) {
        /* What was read is worthless if the lease ended meanwhile, or the memory
         * was given up. */
        err = ask_guard(copy, &at);
    }
    return err;
}
