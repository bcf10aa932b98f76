/* SPDX-License-Identifier: Apache-2.0 */
/* client_slice.c - see the header. */
#include "client_slice.h"

#include <time.h>

/* ---- a run --------------------------------------------------------------- */

static bool has_others(const struct mci_slice *slice, size_t r)
{
    const struct mci_row_state *state = &slice->states[r];
    uint32_t all = (UINT32_C(1) << slice->rows[r].place_count) - 1;
    return (all & ~state->tried & ~(UINT32_C(1) << state->place)) != 0;
}

static void leave_place(struct mci_slice *slice, size_t r)
{
    struct mci_row_state *state = &slice->states[r];
    if (state->place != MCI_PLACE_NONE) {
        state->tried |= UINT32_C(1) << state->place;
        state->place = MCI_PLACE_NONE;
    }
}

static uint64_t lease_end(const struct mci_slice *slice, size_t r)
{
    struct mci_reading *reading = slice->reading;
    return mci_slice_is_known(slice)
               ? reading->ops->lease_end(reading, slice->first + r)
               : slice->states[r].lease_end_ns;
}

static void judge(struct mci_slice *slice, const struct mc_transfer_row *move,
                  struct mci_piece *piece)
{
    size_t r = piece->part.row;
    bool is_late = slice->now_ns >= lease_end(slice, r);
    if (slice->reading->touched) {
        slice->reading->touched[slice->first + r] = true;
    }
    if (move->err == MC_OK) {
        mci_slice_finish(slice, piece,
                         is_late ? MC_ERR_LEASE_EXPIRED
                                 : (int64_t)piece->part.len);
    } else if (is_late || move->err == MC_ERR_LEASE_EXPIRED) {
        mci_slice_finish(slice, piece, MC_ERR_LEASE_EXPIRED);
    } else if (move->err == MC_ERR_NOMEM) {
        mci_slice_finish(slice, piece, MC_ERR_NOMEM);
    } else {
        leave_place(slice, r);
    }
}

/* Time is kept back for a copy that was not tried yet. */
static uint64_t run_deadline(const struct mci_slice *slice)
{
    uint64_t deadline_ns = slice->deadline_ns < slice->run_until_ns
                               ? slice->deadline_ns
                               : slice->run_until_ns;
    if (!slice->run_has_others || deadline_ns <= slice->now_ns) {
        return deadline_ns;
    }
    return slice->now_ns + (deadline_ns - slice->now_ns) / 2;
}

static void run(struct mci_slice *slice)
{
    struct mci_run *moving = &slice->run;
    if (moving->count > 0) {
        mci_run_go(moving, run_deadline(slice));
        if (!mci_slice_is_here(slice) || mci_slice_is_known(slice)) {
            slice->now_ns = mci_clock_ns();
        }
        for (size_t i = 0; i < moving->count; i++) {
            judge(slice, &moving->moves[i], &slice->pieces[moving->owners[i]]);
        }
    }
    mci_run_clear(moving);
    slice->run_until_ns = 0;
    slice->run_has_others = false;
}

/* ---- collecting ---------------------------------------------------------- */

/* The nearest place that was not tried yet. */
static bool pick(struct mci_slice *slice, size_t r)
{
    struct mci_row_state *state = &slice->states[r];
    const struct mci_read_row *row = &slice->rows[r];
    enum mci_nearness best = MCI_NEAR_NOWHERE;
    if (state->place != MCI_PLACE_NONE) {
        return true;
    }
    if (row->place_count == 1 && state->tried == 0) {
        state->place = 0;
        return true;
    }
    for (uint32_t i = 0; i < row->place_count; i++) {
        if (state->tried & UINT32_C(1) << i) {
            continue;
        }
        enum mci_nearness near = mci_mover_near(
            &slice->run.mover, row->places[i].segment, slice->deadline_ns);
        if (near < best) {
            best = near;
            state->place = i;
        }
    }
    return state->place != MCI_PLACE_NONE;
}

static void add_move(struct mci_slice *slice, struct mci_piece *piece)
{
    size_t r = piece->part.row;
    size_t m = slice->run.count;
    const struct mci_read_row *row = &slice->rows[r];
    const struct mci_row_state *state = &slice->states[r];
    struct mc_transfer_row *move = NULL;
    const struct mci_claim claim = {.place = &row->places[state->place],
                                    .grant = &row->grants[state->place],
                                    .subject = row->version,
                                    .size = row->size};
    enum mc_err err = mci_run_add(&slice->run, &claim, &piece->part,
                                  slice->deadline_ns, &move);
    if (err == MC_ERR_NOMEM) {
        mci_slice_finish(slice, piece, err);
        return;
    }
    if (err != MC_OK) {
        leave_place(slice, r);
        return;
    }
    if (mci_slice_is_known(slice) && slice->run.mover.targets) {
        struct mci_reading *reading = slice->reading;
        move->source =
            reading->ops->grants(reading, slice->first + r, row, state->place);
        move->grant = move->source->get(move->source->ctx);
    }
    slice->run.owners[m] = (uint32_t)(piece - slice->pieces);
    slice->run_has_others |= has_others(slice, r);
    if (state->lease_end_ns > slice->run_until_ns) {
        slice->run_until_ns = state->lease_end_ns;
    }
}

static void pause_briefly(uint32_t ms)
{
    const struct timespec pause = {.tv_nsec = (long)(ms * MCI_NS_PER_MS)};
    (void)nanosleep(&pause, NULL);
}

/* Nothing is left to try: what the master said may be out of date. Once more at
 * once, and again in a little while: what is on a segment that has just gone is
 * taken out in slices. */
static void look_again(struct mci_slice *slice, size_t r)
{
    static const uint32_t pauses_ms[MCI_LOOKS_MAX] = {0, 5, 50};
    struct mci_row_state *state = &slice->states[r];
    run(slice);
    slice->now_ns = mci_clock_ns();
    if (state->looks == MCI_LOOKS_MAX || slice->now_ns >= slice->deadline_ns) {
        mci_slice_finish_row(slice, r, MC_ERR_TRANSFER_FAIL);
        return;
    }
    if (pauses_ms[state->looks] > 0) {
        pause_briefly(pauses_ms[state->looks]);
    }
    state->looks++;
    mci_slice_ask_again(slice, r);
}

static void collect(struct mci_slice *slice, struct mci_piece *piece)
{
    size_t r = piece->part.row;
    if (slice->now_ns >= slice->deadline_ns) {
        mci_slice_finish_row(slice, r, MC_ERR_TRANSFER_FAIL);
        return;
    }
    if (slice->now_ns >= slice->states[r].renew_ns) {
        run(slice);
        mci_slice_ask_again(slice, r);
    }
    if (piece->is_done) {
        return;
    }
    if (!pick(slice, r)) {
        look_again(slice, r);
        return; /* its turn comes with the next pass */
    }
    if (!mci_run_takes(&slice->run, piece->part.len)) {
        run(slice);
    }
    add_move(slice, piece);
    if (mci_run_is_full(&slice->run)) {
        run(slice);
    }
}

/* What was collected has not gone. */
static void abandon(struct mci_slice *slice)
{
    mci_run_clear(&slice->run);
    for (size_t i = 0; i < slice->piece_count; i++) {
        mci_slice_finish(slice, &slice->pieces[i], MC_ERR_CANCELED);
    }
}

static void move_pieces(struct mci_slice *slice)
{
    while (slice->left > 0) {
        for (size_t i = 0; i < slice->piece_count && slice->left > 0; i++) {
            if (mci_until_stops(&slice->reading->until)) {
                abandon(slice);
            } else if (!slice->pieces[i].is_done) {
                collect(slice, &slice->pieces[i]);
            }
        }
        run(slice);
    }
}

/* ---- a slice ------------------------------------------------------------- */

static void settle(struct mci_slice *slice)
{
    struct mci_reading *reading = slice->reading;
    for (size_t r = 0; r < slice->count; r++) {
        const struct mci_row_state *state = &slice->states[r];
        reading->ops->settle(reading, slice->first + r,
                             &slice->pieces[state->first_piece],
                             state->piece_count);
        mci_slice_forget(slice, r);
    }
}

void mci_slice_read(struct mci_slice *slice)
{
    const struct mci_master_link *link = &mci_slice_client(slice)->link;
    uint32_t piece = 0;
    for (size_t r = 0; r < slice->count; r++) {
        slice->states[r].first_piece = piece;
        slice->states[r].piece_count =
            (uint32_t)mci_reading_pieces(slice->reading, slice->first + r);
        piece += slice->states[r].piece_count;
    }
    slice->piece_count = piece;
    slice->left = piece;
    run(slice); /* begins an empty one */
    mci_slice_ask(slice);
    move_pieces(slice);
    settle(slice);
    if (mci_slice_is_here(slice)) {
        link->ops->release(link->ctx, slice->rows, slice->count);
    }
}
