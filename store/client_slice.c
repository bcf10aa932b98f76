/* SPDX-License-Identifier: Apache-2.0 */
/* client_slice.c - see the header. */
#include "client_slice.h"

#include <time.h>

#include "client_sums.h"

/* ---- a run --------------------------------------------------------------- */

static bool has_others(const struct mci_slice *slice,
                       const struct mci_piece *piece)
{
    size_t r = piece->part.row;
    uint32_t all = (UINT32_C(1) << slice->rows[r].place_count) - 1;
    uint32_t out = slice->states[r].tried | piece->bad | 1U << piece->place;
    return (all & ~out) != 0;
}

static void leave_place(struct mci_slice *slice, const struct mci_piece *piece)
{
    struct mci_row_state *state = &slice->states[piece->part.row];
    state->tried |= UINT32_C(1) << piece->place;
    if (state->place == piece->place) {
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

/* Only one piece was on its way, so that no other row can have landed in its
 * memory. */
static bool ran_alone(const struct mci_run *run)
{
    return run->owners[0] == run->owners[run->count - 1];
}

/* What does not match counts as wrong if it was read alone, with its sums; the
 * next place is looked for then. */
static void check(struct mci_slice *slice, struct mci_piece *piece)
{
    const struct mci_read_row *row = &slice->rows[piece->part.row];
    struct mc_mismatch found = {.version = row->version, .size = row->size};
    enum mci_match match = mci_slice_sums_match(slice, piece, &found.block);
    if (match == MCI_MATCH) {
        mci_slice_finish(slice, piece, (int64_t)piece->part.len);
    } else if (match == MCI_MATCH_UNSURE || !ran_alone(&slice->run)) {
        piece->is_alone = true;
    } else {
        piece->bad |= (uint8_t)(1U << piece->place);
        found.segment = row->places[piece->place].segment;
        mci_mismatches_note(&mci_slice_client(slice)->mismatches, row->key,
                            &found);
    }
}

static void judge(struct mci_slice *slice, const struct mc_transfer_row *move,
                  struct mci_piece *piece)
{
    size_t r = piece->part.row;
    bool is_late = slice->now_ns >= lease_end(slice, r);
    if (slice->reading->touched) {
        slice->reading->touched[slice->first + r] = true;
    }
    if (move->err == MC_OK && !is_late && slice->sums) {
        check(slice, piece);
        return;
    }
    if (slice->sums) {
        mci_slice_sums_drop(slice, piece);
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
        leave_place(slice, piece);
    }
}

/* The moves of a run, of which one may be followed by that of its sums. */
static void judge_all(struct mci_slice *slice)
{
    const struct mci_run *run = &slice->run;
    for (size_t i = 0; i < run->count; i++) {
        struct mc_transfer_row *move = &run->moves[i];
        struct mci_piece *piece = &slice->pieces[run->owners[i]];
        if (mci_slice_sums_came(slice, piece)) {
            i++;
            move->err = move->err == MC_OK ? run->moves[i].err : move->err;
        }
        judge(slice, move, piece);
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
        judge_all(slice);
    }
    mci_run_clear(moving);
    slice->run_until_ns = 0;
    slice->run_has_others = false;
}

/* ---- collecting ---------------------------------------------------------- */

/* The nearest place that is not one of these, a bit each. */
static uint32_t nearest(struct mci_slice *slice, size_t r, uint32_t out)
{
    const struct mci_read_row *row = &slice->rows[r];
    enum mci_nearness best = MCI_NEAR_NOWHERE;
    uint32_t place = MCI_PLACE_NONE;
    if (row->place_count == 1 && out == 0) {
        return 0;
    }
    for (uint32_t i = 0; i < row->place_count; i++) {
        if (out & UINT32_C(1) << i) {
            continue;
        }
        enum mci_nearness near = mci_mover_near(
            &slice->run.mover, row->places[i].segment, slice->deadline_ns);
        if (near < best) {
            best = near;
            place = i;
        }
    }
    return place;
}

/* That of the row, and where the piece did not match there, another one. */
static bool pick(struct mci_slice *slice, struct mci_piece *piece)
{
    size_t r = piece->part.row;
    struct mci_row_state *state = &slice->states[r];
    uint32_t place = state->place;
    if (piece->bad != 0) {
        place = nearest(slice, r, state->tried | piece->bad);
    } else if (place == MCI_PLACE_NONE) {
        place = nearest(slice, r, state->tried);
        state->place = place;
    }
    piece->place = place == MCI_PLACE_NONE ? 0 : (uint8_t)place;
    return place != MCI_PLACE_NONE;
}

/* Its bytes, or its sums. */
static enum mc_err add_part(struct mci_slice *slice,
                            const struct mci_piece *piece,
                            const struct mci_part *part)
{
    size_t r = piece->part.row;
    size_t m = slice->run.count;
    const struct mci_read_row *row = &slice->rows[r];
    struct mc_transfer_row *move = NULL;
    const struct mci_claim claim = {
        .place = &row->places[piece->place],
        .grant = &row->grants[piece->place],
        .subject = row->version,
        .bytes = mci_placed_bytes(row->size, row->has_sums)};
    enum mc_err err =
        mci_run_add(&slice->run, &claim, part, slice->deadline_ns, &move);
    if (err != MC_OK) {
        return err;
    }
    if (mci_slice_is_known(slice) && slice->run.mover.targets) {
        struct mci_reading *reading = slice->reading;
        move->source =
            reading->ops->grants(reading, slice->first + r, row, piece->place);
        move->grant = move->source->get(move->source->ctx);
    }
    slice->run.owners[m] = (uint32_t)(piece - slice->pieces);
    return MC_OK;
}

static enum mc_err add_parts(struct mci_slice *slice, struct mci_piece *piece)
{
    const struct mci_part *sums = NULL;
    enum mc_err err = MC_OK;
    if (slice->sums) {
        err = mci_slice_sums_want(slice, piece, &sums);
    }
    if (err == MC_OK) {
        err = add_part(slice, piece, &piece->part);
    }
    return err == MC_OK && sums ? add_part(slice, piece, sums) : err;
}

static void add_move(struct mci_slice *slice, struct mci_piece *piece)
{
    const struct mci_row_state *state = &slice->states[piece->part.row];
    size_t count = slice->run.count;
    uint64_t bytes = slice->run.bytes;
    enum mc_err err = add_parts(slice, piece);
    if (err != MC_OK) {
        slice->run.count = count;
        slice->run.bytes = bytes;
        if (slice->sums) {
            mci_slice_sums_drop(slice, piece);
        }
    }
    if (err == MC_ERR_NOMEM) {
        mci_slice_finish(slice, piece, err);
        return;
    }
    if (err != MC_OK) {
        leave_place(slice, piece);
        return;
    }
    slice->run_has_others |= has_others(slice, piece);
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

/* From the first row on that has sums. */
static bool open_sums(struct mci_slice *slice, struct mci_piece *piece)
{
    if (!slice->sums) {
        run(slice);
        enum mc_err err = mci_slice_sums_open(slice);
        if (err != MC_OK) {
            mci_slice_finish(slice, piece, err);
        }
    }
    return slice->sums != NULL;
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
    if (!pick(slice, piece)) {
        if (piece->bad != 0) {
            mci_slice_finish(slice, piece, MC_ERR_CHECKSUM_MISMATCH);
        } else {
            look_again(slice, r);
        }
        return; /* its turn comes with the next pass */
    }
    if (slice->rows[r].has_sums && !open_sums(slice, piece)) {
        return;
    }
    if (piece->is_alone) {
        run(slice);
    }
    if (!mci_run_takes(&slice->run, piece->part.len)) {
        run(slice);
    }
    add_move(slice, piece);
    if (mci_run_is_full(&slice->run) || piece->is_alone) {
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
    mci_slice_sums_close(slice);
    settle(slice);
    if (mci_slice_is_here(slice)) {
        link->ops->release(link->ctx, slice->rows, slice->count);
    }
}
