/* SPDX-License-Identifier: Apache-2.0 */
/* client_slice_ask.c - where the rows of a slice are, and what becomes of them. */
#include "client_slice.h"
#include "mci_alloc.h"

#define RESTARTS_MAX 8
#define NEVER UINT64_MAX

/* ---- outcomes ------------------------------------------------------------ */

void mci_slice_finish(struct mci_slice *slice, struct mci_piece *piece,
                      int64_t result)
{
    if (!piece->is_done) {
        piece->is_done = true;
        piece->result = result;
        slice->left--;
    }
}

void mci_slice_finish_row(struct mci_slice *slice, size_t r, enum mc_err err)
{
    const struct mci_row_state *state = &slice->states[r];
    for (uint32_t i = 0; i < state->piece_count; i++) {
        mci_slice_finish(slice, &slice->pieces[state->first_piece + i], err);
    }
}

void mci_slice_forget(struct mci_slice *slice, size_t r)
{
    const struct mci_row_state *state = &slice->states[r];
    for (uint32_t i = 0; i < state->piece_count; i++) {
        struct mci_piece *piece = &slice->pieces[state->first_piece + i];
        mci_free(piece->trimmed);
        piece->trimmed = NULL;
    }
}

/* ---- asking -------------------------------------------------------------- */

static uint64_t after(uint64_t now_ns, uint64_t left_ns)
{
    return left_ns > NEVER - now_ns ? NEVER : now_ns + left_ns;
}

static void take_lease(struct mci_slice *slice, size_t r, uint64_t sent_ns)
{
    struct mci_row_state *state = &slice->states[r];
    uint64_t left_ns =
        mci_slice_is_here(slice) ? NEVER : slice->rows[r].lease_left_ns;
    state->lease_end_ns = after(sent_ns, left_ns);
    state->renew_ns = after(sent_ns, left_ns / 2);
    state->tried = 0;
    state->place = MCI_PLACE_NONE;
}

static void set_deadline(struct mci_slice *slice, uint64_t now_ns)
{
    uint64_t given_ns = slice->reading->until.deadline_ns;
    slice->now_ns = now_ns;
    slice->deadline_ns =
        given_ns ? given_ns
                 : mci_clock_deadline(
                       now_ns, mci_slice_client(slice)->transfer_timeout_ms);
}

static void recall(struct mci_slice *slice)
{
    struct mci_reading *reading = slice->reading;
    for (size_t r = 0; r < slice->count; r++) {
        struct mci_row_state *state = &slice->states[r];
        reading->ops->recall(reading, slice->first + r, &slice->rows[r]);
        state->lease_end_ns = NEVER; /* looked at when it matters */
        state->renew_ns = NEVER;
        state->tried = 0;
        state->place = MCI_PLACE_NONE;
        state->restarts = 0;
        state->looks = MCI_LOOKS_MAX;
    }
    set_deadline(slice, mci_clock_ns());
}

/* Time is counted from before the request was sent. */
static void ask(struct mci_slice *slice)
{
    const struct mci_master_link *link = &mci_slice_client(slice)->link;
    const struct mci_reading *reading = slice->reading;
    const struct mci_call call = mci_client_call_until(
        mci_slice_client(slice), reading->until.deadline_ns);
    for (size_t r = 0; r < slice->count; r++) {
        slice->rows[r].key = reading->ops->key(reading, slice->first + r);
        slice->rows[r].want_hold = mci_slice_is_here(slice);
        slice->rows[r].want_lease = false;
    }
    enum mc_err err =
        link->ops->get(link->ctx, &call, slice->rows, slice->count);
    (void)err; /* every row holds it */
    for (size_t r = 0; r < slice->count; r++) {
        slice->states[r].restarts = 0;
        slice->states[r].looks = mci_slice_is_here(slice) ? MCI_LOOKS_MAX : 0;
        take_lease(slice, r, call.now_ns);
    }
    set_deadline(slice, call.now_ns);
}

/* Instead of asking, when it would be for nothing. */
static void leave_out(struct mci_slice *slice)
{
    for (size_t r = 0; r < slice->count; r++) {
        slice->rows[r] = (struct mci_read_row){.err = MC_ERR_CANCELED};
    }
}

/* All pieces of the row begin anew. */
static void aim_row(struct mci_slice *slice, size_t r)
{
    struct mci_reading *reading = slice->reading;
    const struct mci_read_row *row = &slice->rows[r];
    struct mci_row_state *state = &slice->states[r];
    struct mci_piece *pieces = &slice->pieces[state->first_piece];
    for (uint32_t i = 0; i < state->piece_count; i++) {
        pieces[i] = (struct mci_piece){.part = {.row = (uint32_t)r}};
    }
    enum mc_err err = row->err;
    if (err == MC_OK && row->place_count == 0) {
        err = MC_ERR_INVALID_REPLICA; /* on disk only */
    }
    if (err == MC_OK) {
        err = reading->ops->aim(reading, slice->first + r, row->size, pieces,
                                state->piece_count);
    }
    for (uint32_t i = 0; i < state->piece_count; i++) {
        slice->left -= pieces[i].is_done;
    }
    if (err != MC_OK) {
        mci_slice_finish_row(slice, r, err);
    }
}

/* The outcome of the first half does not count if the second is of another
 * version. */
static void restart(struct mci_slice *slice, size_t r)
{
    struct mci_row_state *state = &slice->states[r];
    if (++state->restarts > RESTARTS_MAX) {
        mci_slice_finish_row(slice, r, MC_ERR_LEASE_EXPIRED);
        return;
    }
    mci_slice_forget(slice, r);
    for (uint32_t i = 0; i < state->piece_count; i++) {
        slice->left += slice->pieces[state->first_piece + i].is_done;
    }
    aim_row(slice, r);
}

/* Asks for one row again, while none of its pieces is on its way. */
void mci_slice_ask_again(struct mci_slice *slice, size_t r)
{
    const struct mci_master_link *link = &mci_slice_client(slice)->link;
    const struct mci_call call = mci_client_call_until(
        mci_slice_client(slice), slice->reading->until.deadline_ns);
    struct mci_read_row row = {.key = slice->rows[r].key};
    enum mc_err err = mci_mover_again(&slice->run.mover);
    if (err == MC_OK) {
        err = link->ops->get(link->ctx, &call, &row, 1);
        err = err == MC_OK ? row.err : err;
    }
    if (err != MC_OK) {
        mci_slice_finish_row(slice, r, err);
        return;
    }
    uint64_t version = slice->rows[r].version;
    slice->rows[r] = row;
    take_lease(slice, r, call.now_ns);
    slice->now_ns = mci_clock_ns();
    if (row.version != version || row.place_count == 0) {
        restart(slice, r);
        return;
    }
    const struct mci_row_state *state = &slice->states[r];
    for (uint32_t i = 0; i < state->piece_count; i++) {
        slice->pieces[state->first_piece + i].bad = 0; /* places are others */
    }
}

void mci_slice_ask(struct mci_slice *slice)
{
    if (mci_slice_is_known(slice)) {
        recall(slice);
    } else if (mci_until_stops(&slice->reading->until)) {
        leave_out(slice);
    } else {
        ask(slice);
    }
    for (size_t r = 0; r < slice->count; r++) {
        aim_row(slice, r);
    }
}
