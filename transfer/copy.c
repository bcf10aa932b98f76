/* SPDX-License-Identifier: Apache-2.0 */
#include "copy.h"

#include <string.h>

#include "mci_clock.h"

static _Atomic(mci_piece_fn) piece_hook;

void mci_copy_set_hook(mci_piece_fn hook)
{
    atomic_store(&piece_hook, hook);
}

/* Where a copy stands in the row's spans. */
struct place {
    uint32_t span;
    size_t into;
};

static enum mc_err look(const struct mci_copy *copy, uint64_t piece)
{
    const struct mc_transfer_row *row = copy->row;
    uint64_t now_ns = mci_clock_ns();
    if (now_ns >= copy->deadline_ns || atomic_load(copy->canceled)) {
        return MC_ERR_TRANSFER_FAIL;
    }
    struct mc_grant grant = mci_row_grant(row);
    enum mc_err err = copy->guard->may(copy->guard, row, &grant, now_ns);
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
        uint8_t *local = (uint8_t *)span->data + at->into;
        uint8_t *remote = copy->base + row->offset + row->bytes;
        if (here > 0 && row->terms.is_write) {
            memcpy(remote, local, here);
        } else if (here > 0) {
            memcpy(local, remote, here);
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

enum mc_err mci_copy_row(const struct mci_copy *copy)
{
    struct mc_transfer_row *row = copy->row;
    struct place at = {0, 0};
    uint64_t len = mci_row_len(row);
    do {
        uint64_t piece = len - row->bytes;
        piece = piece < MCI_PIECE_BYTES ? piece : MCI_PIECE_BYTES;
        enum mc_err err = look(copy, piece);
        if (err != MC_OK) {
            return err;
        }
        copy_piece(copy, &at, piece);
        mci_piece_fn hook = atomic_load(&piece_hook);
        if (hook) {
            hook(row);
        }
    } while (row->bytes < len);
    return MC_OK;
}
