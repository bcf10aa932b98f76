/* SPDX-License-Identifier: Apache-2.0 */
/* client_read.c - see the header.
 *
 * Rows go in slices, and the pieces of a slice in runs of bounded bytes, so that
 * a lease has to last for one run only: a row whose lease is half over when its
 * turn comes is asked for again first. If it then is another version, all its
 * pieces start again; bytes of two versions never count together.
 */
#include "client_read.h"

#include <time.h>

#include "client_move.h"
#include "mci_alloc.h"

#define HERE_ROWS 64 /* held rows keep their bytes from being reused */
#define AWAY_ROWS 4096
#define SLICE_PIECES 4096
#define RUN_MOVES 1024
#define RUN_BYTES (64 * UINT64_C(1048576))
#define RESTARTS_MAX 8
#define LOOKS_MAX 3
#define NOWHERE UINT32_MAX
#define NEVER UINT64_MAX

struct row_state {
    uint64_t lease_end_ns;
    uint64_t renew_ns; /* half of its lease is over */
    uint32_t tried;    /* places, a bit each */
    uint32_t place;    /* chosen, or NOWHERE */
    uint32_t first_piece;
    uint32_t piece_count;
    uint32_t restarts;
    uint32_t looks; /* times it was asked for again, since no copy was to be
                       had */
};

struct slice {
    struct mci_reading *reading;
    struct mci_mover mover;
    size_t first; /* row of the call */
    size_t count;
    struct mci_read_row *rows;
    struct row_state *states;
    struct mci_piece *pieces;
    size_t piece_count;
    size_t left; /* pieces that are not done */
    uint64_t deadline_ns;
    uint64_t now_ns; /* as of the last run */
    /* The run that is being collected. */
    struct mc_transfer_row *moves;
    uint32_t *move_pieces; /* which piece each is of */
    size_t move_room;
    size_t move_count;
    uint64_t move_bytes;
    uint64_t run_until_ns; /* no lease of the run lasts longer */
    bool run_has_others;   /* there are other copies to try */
};

static struct mc_client *client_of(const struct slice *slice)
{
    return slice->reading->client;
}

static bool is_here(const struct slice *slice)
{
    return !client_of(slice)->outside;
}

bool mci_reading_may_use(struct mci_reading *reading, const void *data,
                         size_t len)
{
    struct mc_client *client = reading->client;
    return mci_memory_use(&client->memory, &reading->use, data, len) ||
           client->any_memory;
}

/* ---- outcomes ------------------------------------------------------------ */

static void finish(struct slice *slice, struct mci_piece *piece, int64_t result)
{
    if (!piece->is_done) {
        piece->is_done = true;
        piece->result = result;
        slice->left--;
    }
}

static void finish_row(struct slice *slice, size_t r, enum mc_err err)
{
    const struct row_state *state = &slice->states[r];
    for (uint32_t i = 0; i < state->piece_count; i++) {
        finish(slice, &slice->pieces[state->first_piece + i], err);
    }
}

static void forget_trimmed(struct slice *slice, size_t r)
{
    const struct row_state *state = &slice->states[r];
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

static void take_lease(struct slice *slice, size_t r, uint64_t sent_ns)
{
    struct row_state *state = &slice->states[r];
    uint64_t left_ns = is_here(slice) ? NEVER : slice->rows[r].lease_left_ns;
    state->lease_end_ns = after(sent_ns, left_ns);
    state->renew_ns = after(sent_ns, left_ns / 2);
    state->tried = 0;
    state->place = NOWHERE;
}

/* Time is counted from before the request was sent. */
static void ask(struct slice *slice)
{
    const struct mci_master_link *link = &client_of(slice)->link;
    const struct mci_call call = mci_client_call(client_of(slice));
    const struct mci_reading *reading = slice->reading;
    for (size_t r = 0; r < slice->count; r++) {
        slice->rows[r].key = reading->ops->key(reading, slice->first + r);
        slice->rows[r].want_hold = is_here(slice);
        slice->rows[r].want_lease = false;
    }
    enum mc_err err =
        link->ops->get(link->ctx, &call, slice->rows, slice->count);
    (void)err; /* every row holds it */
    for (size_t r = 0; r < slice->count; r++) {
        slice->states[r].restarts = 0;
        slice->states[r].looks = is_here(slice) ? LOOKS_MAX : 0;
        take_lease(slice, r, call.now_ns);
    }
    slice->now_ns = call.now_ns;
    slice->deadline_ns =
        mci_clock_deadline(call.now_ns, client_of(slice)->transfer_timeout_ms);
}

/* All pieces of the row begin anew. */
static void aim_row(struct slice *slice, size_t r)
{
    struct mci_reading *reading = slice->reading;
    const struct mci_read_row *row = &slice->rows[r];
    struct row_state *state = &slice->states[r];
    struct mci_piece *pieces = &slice->pieces[state->first_piece];
    for (uint32_t i = 0; i < state->piece_count; i++) {
        pieces[i] = (struct mci_piece){.row = (uint32_t)r};
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
        finish_row(slice, r, err);
    }
}

/* The outcome of the first half does not count if the second is of another
 * version. */
static void restart(struct slice *slice, size_t r)
{
    struct row_state *state = &slice->states[r];
    if (++state->restarts > RESTARTS_MAX) {
        finish_row(slice, r, MC_ERR_LEASE_EXPIRED);
        return;
    }
    forget_trimmed(slice, r);
    for (uint32_t i = 0; i < state->piece_count; i++) {
        slice->left += slice->pieces[state->first_piece + i].is_done;
    }
    aim_row(slice, r);
}

/* Asks for one row again, while none of its pieces is on its way. */
static void ask_again(struct slice *slice, size_t r)
{
    const struct mci_master_link *link = &client_of(slice)->link;
    const struct mci_call call = mci_client_call(client_of(slice));
    struct mci_read_row row = {.key = slice->rows[r].key};
    enum mc_err err = mci_mover_again(&slice->mover);
    if (err == MC_OK) {
        err = link->ops->get(link->ctx, &call, &row, 1);
        err = err == MC_OK ? row.err : err;
    }
    if (err != MC_OK) {
        finish_row(slice, r, err);
        return;
    }
    uint64_t version = slice->rows[r].version;
    slice->rows[r] = row;
    take_lease(slice, r, call.now_ns);
    slice->now_ns = mci_clock_ns();
    if (row.version != version || row.place_count == 0) {
        restart(slice, r);
    }
}

/* ---- a run --------------------------------------------------------------- */

static bool has_others(const struct slice *slice, size_t r)
{
    const struct row_state *state = &slice->states[r];
    uint32_t all = (UINT32_C(1) << slice->rows[r].place_count) - 1;
    return (all & ~state->tried & ~(UINT32_C(1) << state->place)) != 0;
}

static void leave_place(struct slice *slice, size_t r)
{
    struct row_state *state = &slice->states[r];
    if (state->place != NOWHERE) {
        state->tried |= UINT32_C(1) << state->place;
        state->place = NOWHERE;
    }
}

static void judge(struct slice *slice, const struct mc_transfer_row *move,
                  struct mci_piece *piece)
{
    bool is_late = slice->now_ns >= slice->states[piece->row].lease_end_ns;
    if (move->err == MC_OK) {
        finish(slice, piece,
               is_late ? MC_ERR_LEASE_EXPIRED : (int64_t)piece->len);
    } else if (is_late || move->err == MC_ERR_LEASE_EXPIRED) {
        finish(slice, piece, MC_ERR_LEASE_EXPIRED);
    } else if (move->err == MC_ERR_NOMEM) {
        finish(slice, piece, MC_ERR_NOMEM);
    } else {
        mci_mover_note(move);
        leave_place(slice, piece->row);
    }
}

/* Time is kept back for a copy that was not tried yet. */
static uint64_t run_deadline(const struct slice *slice)
{
    uint64_t deadline_ns = slice->deadline_ns < slice->run_until_ns
                               ? slice->deadline_ns
                               : slice->run_until_ns;
    if (!slice->run_has_others || deadline_ns <= slice->now_ns) {
        return deadline_ns;
    }
    return slice->now_ns + (deadline_ns - slice->now_ns) / 2;
}

static void run(struct slice *slice)
{
    if (slice->move_count > 0) {
        mci_mover_run(&slice->mover, slice->moves, slice->move_count,
                      run_deadline(slice));
        if (!is_here(slice)) {
            slice->now_ns = mci_clock_ns();
        }
        for (size_t i = 0; i < slice->move_count; i++) {
            judge(slice, &slice->moves[i],
                  &slice->pieces[slice->move_pieces[i]]);
        }
    }
    slice->move_count = 0;
    slice->move_bytes = 0;
    slice->run_until_ns = 0;
    slice->run_has_others = false;
}

/* ---- collecting ---------------------------------------------------------- */

/* The nearest place that was not tried yet. */
static bool pick(struct slice *slice, size_t r)
{
    struct row_state *state = &slice->states[r];
    const struct mci_read_row *row = &slice->rows[r];
    enum mci_nearness best = MCI_NEAR_NOWHERE;
    if (state->place != NOWHERE) {
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
            &slice->mover, row->places[i].segment, slice->deadline_ns);
        if (near < best) {
            best = near;
            state->place = i;
        }
    }
    return state->place != NOWHERE;
}

static void add_move(struct slice *slice, struct mci_piece *piece)
{
    const struct mci_read_row *row = &slice->rows[piece->row];
    const struct row_state *state = &slice->states[piece->row];
    struct mc_transfer_row *move = &slice->moves[slice->move_count];
    const struct mci_claim claim = {.place = &row->places[state->place],
                                    .grant = &row->grants[state->place],
                                    .subject = row->version,
                                    .size = row->size};
    enum mc_err err = mci_mover_aim(&slice->mover, &claim, piece->from,
                                    slice->deadline_ns, move);
    if (err == MC_ERR_NOMEM) {
        finish(slice, piece, err);
        return;
    }
    if (err != MC_OK) {
        leave_place(slice, piece->row);
        return;
    }
    move->spans = piece->spans;
    move->span_count = piece->span_count;
    slice->move_pieces[slice->move_count++] = (uint32_t)(piece - slice->pieces);
    slice->move_bytes += piece->len;
    slice->run_has_others |= has_others(slice, piece->row);
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
static void look_again(struct slice *slice, size_t r)
{
    static const uint32_t pauses_ms[LOOKS_MAX] = {0, 5, 50};
    struct row_state *state = &slice->states[r];
    run(slice);
    slice->now_ns = mci_clock_ns();
    if (state->looks == LOOKS_MAX || slice->now_ns >= slice->deadline_ns) {
        finish_row(slice, r, MC_ERR_TRANSFER_FAIL);
        return;
    }
    if (pauses_ms[state->looks] > 0) {
        pause_briefly(pauses_ms[state->looks]);
    }
    state->looks++;
    ask_again(slice, r);
}

static void collect(struct slice *slice, struct mci_piece *piece)
{
    size_t r = piece->row;
    if (slice->now_ns >= slice->deadline_ns) {
        finish_row(slice, r, MC_ERR_TRANSFER_FAIL);
        return;
    }
    if (slice->now_ns >= slice->states[r].renew_ns) {
        run(slice);
        ask_again(slice, r);
    }
    if (piece->is_done) {
        return;
    }
    if (!pick(slice, r)) {
        look_again(slice, r);
        return; /* its turn comes with the next pass */
    }
    if (slice->move_bytes > 0 && slice->move_bytes + piece->len > RUN_BYTES) {
        run(slice);
    }
    add_move(slice, piece);
    if (slice->move_count == slice->move_room) {
        run(slice);
    }
}

static void move_pieces(struct slice *slice)
{
    while (slice->left > 0) {
        for (size_t i = 0; i < slice->piece_count && slice->left > 0; i++) {
            if (!slice->pieces[i].is_done) {
                collect(slice, &slice->pieces[i]);
            }
        }
        run(slice);
    }
}

/* ---- a slice ------------------------------------------------------------- */

static size_t pieces_of(const struct mci_reading *reading, size_t i)
{
    return reading->ops->piece_count ? reading->ops->piece_count(reading, i)
                                     : 1;
}

static void settle(struct slice *slice)
{
    struct mci_reading *reading = slice->reading;
    for (size_t r = 0; r < slice->count; r++) {
        const struct row_state *state = &slice->states[r];
        reading->ops->settle(reading, slice->first + r,
                             &slice->pieces[state->first_piece],
                             state->piece_count);
        forget_trimmed(slice, r);
    }
}

static void read_slice(struct slice *slice)
{
    const struct mci_master_link *link = &client_of(slice)->link;
    uint32_t piece = 0;
    for (size_t r = 0; r < slice->count; r++) {
        slice->states[r].first_piece = piece;
        slice->states[r].piece_count =
            (uint32_t)pieces_of(slice->reading, slice->first + r);
        piece += slice->states[r].piece_count;
    }
    slice->piece_count = piece;
    slice->left = piece;
    run(slice); /* begins an empty one */
    ask(slice);
    for (size_t r = 0; r < slice->count; r++) {
        aim_row(slice, r);
    }
    move_pieces(slice);
    settle(slice);
    if (is_here(slice)) {
        link->ops->release(link->ctx, slice->rows, slice->count);
    }
}

/* ---- a call -------------------------------------------------------------- */

/* How many rows the next slice has, and no more pieces than SLICE_PIECES unless
 * one row has them. */
static size_t slice_rows(const struct mci_reading *reading, size_t first,
                         size_t count, size_t *pieces_out)
{
    size_t most = reading->client->outside ? AWAY_ROWS : HERE_ROWS;
    size_t rows = 0;
    size_t pieces = 0;
    while (rows < most && first + rows < count) {
        size_t more = pieces_of(reading, first + rows);
        if (rows > 0 && pieces + more > SLICE_PIECES) {
            break;
        }
        pieces += more;
        rows++;
    }
    *pieces_out = pieces;
    return rows;
}

static enum mc_err make_room(struct slice *slice, size_t count)
{
    size_t rows_most = 0;
    size_t pieces_most = 0;
    size_t pieces = 0;
    for (size_t first = 0; first < count;) {
        size_t rows = slice_rows(slice->reading, first, count, &pieces);
        first += rows;
        rows_most = rows > rows_most ? rows : rows_most;
        pieces_most = pieces > pieces_most ? pieces : pieces_most;
    }
    slice->move_room = pieces_most < RUN_MOVES ? pieces_most : RUN_MOVES;
    slice->rows = mci_alloc(rows_most * sizeof(*slice->rows));
    slice->states = mci_alloc(rows_most * sizeof(*slice->states));
    slice->pieces = mci_alloc(pieces_most * sizeof(*slice->pieces));
    slice->moves = mci_alloc(slice->move_room * sizeof(*slice->moves));
    slice->move_pieces =
        mci_alloc(slice->move_room * sizeof(*slice->move_pieces));
    bool is_made = slice->rows && slice->states && slice->pieces &&
                   slice->moves && slice->move_pieces;
    return is_made && pieces_most <= UINT32_MAX ? MC_OK : MC_ERR_NOMEM;
}

static void free_room(struct slice *slice)
{
    mci_free(slice->rows);
    mci_free(slice->states);
    mci_free(slice->pieces);
    mci_free(slice->moves);
    mci_free(slice->move_pieces);
}

static enum mc_err read_many(struct slice *slice, size_t count)
{
    size_t pieces = 0;
    enum mc_err err = make_room(slice, count);
    for (size_t first = 0; first < count && err == MC_OK;) {
        slice->first = first;
        slice->count = slice_rows(slice->reading, first, count, &pieces);
        read_slice(slice);
        first += slice->count;
    }
    free_room(slice);
    return err;
}

/* No allocation for the most frequent call. */
static void read_one(struct slice *slice)
{
    struct mci_read_row row;
    struct row_state state;
    struct mci_piece piece;
    struct mc_transfer_row move;
    uint32_t move_piece = 0;
    slice->count = 1;
    slice->rows = &row;
    slice->states = &state;
    slice->pieces = &piece;
    slice->moves = &move;
    slice->move_pieces = &move_piece;
    slice->move_room = 1;
    read_slice(slice);
    slice->rows = NULL;
    slice->states = NULL;
    slice->pieces = NULL;
    slice->moves = NULL;
    slice->move_pieces = NULL;
}

enum mc_err mci_read(struct mci_reading *reading, size_t count)
{
    struct slice slice = {.reading = reading};
    if (count == 0) {
        return MC_OK;
    }
    enum mc_err err = mci_mover_begin(reading->client, &slice.mover);
    if (err != MC_OK) {
        return err;
    }
    if (count == 1 && pieces_of(reading, 0) == 1) {
        read_one(&slice);
    } else {
        err = read_many(&slice, count);
    }
    mci_mover_end(&slice.mover);
    mci_memory_release(&reading->client->memory, &reading->use);
    return err;
}
