/* SPDX-License-Identifier: Apache-2.0 */
/* client_read.c - see the header. */
#include "client_read.h"

#include "client_slice.h"
#include "mci_alloc.h"

#define HERE_ROWS 64 /* held rows keep their bytes from being reused */
#define AWAY_ROWS 4096
#define SLICE_PIECES 4096

bool mci_reading_may_use(struct mci_reading *reading, const void *data,
                         size_t len)
{
    const struct mci_using using = {.client = reading->client,
                                    .use = &reading->use};
    return mci_using_may(&using, data, len);
}

size_t mci_reading_pieces(const struct mci_reading *reading, size_t i)
{
    return reading->ops->piece_count ? reading->ops->piece_count(reading, i)
                                     : 1;
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
        size_t more = mci_reading_pieces(reading, first + rows);
        if (rows > 0 && pieces + more > SLICE_PIECES) {
            break;
        }
        pieces += more;
        rows++;
    }
    *pieces_out = pieces;
    return rows;
}

static enum mc_err make_room(struct mci_slice *slice, size_t count)
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
    struct mci_run *run = &slice->run;
    run->room = pieces_most < MCI_RUN_MOVES ? pieces_most : MCI_RUN_MOVES;
    slice->rows = mci_alloc(rows_most * sizeof(*slice->rows));
    slice->states = mci_alloc(rows_most * sizeof(*slice->states));
    slice->pieces = mci_alloc(pieces_most * sizeof(*slice->pieces));
    run->moves = mci_alloc(run->room * sizeof(*run->moves));
    run->owners = mci_alloc(run->room * sizeof(*run->owners));
    bool is_made = slice->rows && slice->states && slice->pieces &&
                   run->moves && run->owners;
    return is_made && pieces_most <= UINT32_MAX ? MC_OK : MC_ERR_NOMEM;
}

static void free_room(struct mci_slice *slice)
{
    mci_free(slice->rows);
    mci_free(slice->states);
    mci_free(slice->pieces);
    mci_free(slice->run.moves);
    mci_free(slice->run.owners);
}

static enum mc_err read_many(struct mci_slice *slice, size_t count)
{
    size_t pieces = 0;
    enum mc_err err = make_room(slice, count);
    for (size_t first = 0; first < count && err == MC_OK;) {
        slice->first = first;
        slice->count = slice_rows(slice->reading, first, count, &pieces);
        mci_slice_read(slice);
        first += slice->count;
    }
    free_room(slice);
    return err;
}

/* No allocation for the most frequent call. */
static void read_one(struct mci_slice *slice)
{
    struct mci_read_row row;
    struct mci_row_state state;
    struct mci_piece piece;
    struct mc_transfer_row move;
    uint32_t owner = 0;
    slice->count = 1;
    slice->rows = &row;
    slice->states = &state;
    slice->pieces = &piece;
    slice->run.moves = &move;
    slice->run.owners = &owner;
    slice->run.room = 1;
    mci_slice_read(slice);
}

enum mc_err mci_read(struct mci_reading *reading, size_t count)
{
    struct mci_slice slice = {.reading = reading};
    if (count == 0) {
        return MC_OK;
    }
    enum mc_err err = mci_mover_begin(reading->client, reading->until.stops,
                                      &slice.run.mover);
    if (err != MC_OK) {
        return err;
    }
    if (count == 1 && mci_reading_pieces(reading, 0) == 1) {
        read_one(&slice);
    } else {
        err = read_many(&slice, count);
    }
    mci_mover_end(&slice.run.mover);
    mci_memory_release(&reading->client->memory, &reading->use);
    return err;
}
