/* SPDX-License-Identifier: Apache-2.0 */
/* client_sums.c - see the header. */
#include "client_sums.h"

#include "mci_alloc.h"
#include "mci_bytes.h"

#define KEPT_BYTES_MAX (UINT64_C(1) << 20) /* of a session */

static struct mci_sums_want *want_of(const struct mci_slice *slice,
                                     const struct mci_piece *piece)
{
    return &slice->sums->wants[piece - slice->pieces];
}

void mci_slice_sums_drop(struct mci_slice *slice, const struct mci_piece *piece)
{
    struct mci_sums_want *want = want_of(slice, piece);
    if (want->part.len > 0) {
        mci_free(want->part.own.data);
    }
    *want = (struct mci_sums_want){.kept = NULL};
}

/* ---- room -------------------------------------------------------------------- */

static void free_all(struct mci_slice_sums *sums, struct mci_run *run)
{
    mci_free(run->moves);
    mci_free(run->owners);
    mci_free(sums->wants);
    mci_free(sums->is_asked);
    mci_free(sums);
}

enum mc_err mci_slice_sums_open(struct mci_slice *slice)
{
    struct mci_run *run = &slice->run;
    size_t room = 2 * run->room; /* and one, for the second move of the last */
    struct mci_slice_sums *sums = mci_alloc(sizeof *sums);
    struct mci_run larger = {.moves = NULL};
    if (!sums) {
        return MC_ERR_NOMEM;
    }
    sums->wants = mci_calloc(slice->piece_count, sizeof(*sums->wants));
    sums->is_asked = mci_calloc(slice->count, sizeof(*sums->is_asked));
    larger.moves = mci_alloc((room + 1) * sizeof(*run->moves));
    larger.owners = mci_alloc((room + 1) * sizeof(*run->owners));
    if (!sums->wants || !sums->is_asked || !larger.moves || !larger.owners) {
        free_all(sums, &larger);
        return MC_ERR_NOMEM;
    }
    sums->moves = run->moves;
    sums->owners = run->owners;
    sums->room = run->room;
    run->moves = larger.moves;
    run->owners = larger.owners;
    run->room = room;
    slice->sums = sums;
    return MC_OK;
}

void mci_slice_sums_close(struct mci_slice *slice)
{
    struct mci_slice_sums *sums = slice->sums;
    struct mci_run *run = &slice->run;
    struct mci_run larger = *run;
    if (!sums) {
        return;
    }
    for (size_t i = 0; i < slice->piece_count; i++) {
        mci_slice_sums_drop(slice, &slice->pieces[i]); /* of runs not gone */
    }
    run->moves = sums->moves;
    run->owners = sums->owners;
    run->room = sums->room;
    slice->sums = NULL;
    free_all(sums, &larger);
}

/* ---- wanted ------------------------------------------------------------------ */

/* The first piece of a session's row fetches for those to come. */
static bool wants_all(struct mci_slice *slice, const struct mci_piece *piece)
{
    const struct mci_read_row *row = &slice->rows[piece->part.row];
    bool *is_asked = &slice->sums->is_asked[piece->part.row];
    bool wants = slice->reading->ops->keep_sums && !*is_asked &&
                 mci_sums_count(row->size) * MCI_SUM_LEN <= KEPT_BYTES_MAX;
    *is_asked |= wants;
    return wants;
}

enum mc_err mci_slice_sums_want(struct mci_slice *slice,
                                struct mci_piece *piece,
                                const struct mci_part **part_out)
{
    struct mci_reading *reading = slice->reading;
    const struct mci_read_row *row = &slice->rows[piece->part.row];
    const struct mci_place *place = &row->places[piece->place];
    struct mci_sums_want *want = want_of(slice, piece);
    struct mci_blocks fetch = {.count = 0};
    if (row->has_sums) {
        fetch = mci_blocks_within(row->size, piece->part.from, piece->part.len);
    }
    want->blocks = fetch;
    *part_out = NULL;
    if (fetch.count == 0) {
        return MC_OK;
    }
    if (reading->ops->kept_sums && !piece->is_alone) {
        want->kept = reading->ops->kept_sums(
            reading, slice->first + piece->part.row, place);
    }
    if (want->kept) {
        return MC_OK;
    }
    want->is_all = wants_all(slice, piece);
    if (want->is_all) {
        fetch = (struct mci_blocks){0, mci_sums_count(row->size)};
    }
    uint64_t len = fetch.count * MCI_SUM_LEN;
    void *data = mci_alloc(len);
    if (!data) {
        want->blocks.count = 0;
        return MC_ERR_NOMEM;
    }
    mci_part_set(&want->part, row->size + fetch.first * MCI_SUM_LEN, data, len);
    *part_out = &want->part;
    return MC_OK;
}

bool mci_slice_sums_came(const struct mci_slice *slice,
                         const struct mci_piece *piece)
{
    return slice->sums && want_of(slice, piece)->part.len > 0;
}

/* ---- looked at --------------------------------------------------------------- */

/* How many of the wanted blocks match, from the first on; those that have no sum
 * do. */
static uint64_t count_matches(const struct mci_read_row *row,
                              const struct mci_piece *piece,
                              const struct mci_sums_want *want,
                              uint64_t *unsummed_out)
{
    const struct mci_summed of = {
        .epoch = row->lease.epoch, .version = row->version, .size = row->size};
    const uint8_t *sums = want->kept ? want->kept : want->part.own.data;
    struct mci_sum_walk walk;
    uint64_t i = 0;
    if (want->kept || want->is_all) {
        sums += want->blocks.first * MCI_SUM_LEN;
    }
    mci_sum_walk_begin(&walk, &of, piece->part.spans);
    mci_sum_walk_skip(&walk,
                      want->blocks.first * MCI_SUM_BLOCK - piece->part.from);
    for (; i < want->blocks.count; i++) {
        uint64_t block = want->blocks.first + i;
        uint64_t told = mci_get_le64(sums + i * MCI_SUM_LEN);
        if (mci_sum_walk_next(&walk, block) == told) {
            continue;
        }
        if (mci_sum_none(&of, block) != told) {
            break;
        }
        ++*unsummed_out;
    }
    return i;
}

enum mci_match mci_slice_sums_match(struct mci_slice *slice,
                                    struct mci_piece *piece,
                                    uint64_t *block_out)
{
    struct mci_reading *reading = slice->reading;
    struct mci_sums_want *want = want_of(slice, piece);
    const struct mci_read_row *row = &slice->rows[piece->part.row];
    if (want->blocks.count == 0) {
        return MCI_MATCH;
    }
    uint64_t unsummed = 0;
    uint64_t matches = count_matches(row, piece, want, &unsummed);
    enum mci_match match = MCI_MATCH;
    if (matches < want->blocks.count) {
        *block_out = want->blocks.first + matches;
        match = want->kept ? MCI_MATCH_UNSURE : MCI_MATCH_NOT;
    } else if (want->is_all) {
        reading->ops->keep_sums(reading, slice->first + piece->part.row,
                                &row->places[piece->place],
                                want->part.own.data);
        want->part.len = 0;
    }
    atomic_fetch_add_explicit(&reading->client->mismatches.checked,
                              matches - unsummed, memory_order_relaxed);
    mci_slice_sums_drop(slice, piece);
    return match;
}
