/* SPDX-License-Identifier: Apache-2.0 */
/* client_slice.h - some rows of a read: asking for them and moving their pieces.
 *
 * The pieces of a slice go in runs of bounded bytes, so that a lease has to last
 * for one run only: a row whose lease is half over when its turn comes is asked
 * for again first. If it then is another version, all its pieces start again;
 * bytes of two versions never count together.
 * Threads: a slice by one thread.
 */
#ifndef CLIENT_SLICE_H
#define CLIENT_SLICE_H
#include "client_read.h"
#include "client_run.h"

#define MCI_PLACE_NONE UINT32_MAX
#define MCI_LOOKS_MAX 3

struct mci_row_state {
    uint64_t lease_end_ns;
    uint64_t renew_ns; /* half of its lease is over */
    uint32_t tried;    /* places, a bit each */
    uint32_t place;    /* chosen, or MCI_PLACE_NONE */
    uint32_t first_piece;
    uint32_t piece_count;
    uint32_t restarts;
    uint32_t looks; /* times it was asked for again, since no copy was to be
                       had */
};

/* Room for all of it is the caller's. */
struct mci_slice {
    struct mci_reading *reading;
    struct mci_run run;
    size_t first; /* row of the call */
    size_t count;
    struct mci_read_row *rows;
    struct mci_row_state *states;
    struct mci_piece *pieces;
    /* Its own: */
    size_t piece_count;
    size_t left; /* pieces that are not done */
    uint64_t deadline_ns;
    uint64_t now_ns;             /* as of the last run */
    uint64_t run_until_ns;       /* no lease of the run lasts longer */
    bool run_has_others;         /* there are other copies to try */
    struct mci_slice_sums *sums; /* NULL: no row that was read yet has any */
};

/* Reads rows first .. first + count and settles them. */
void mci_slice_read(struct mci_slice *slice);

static inline struct mc_client *mci_slice_client(const struct mci_slice *slice)
{
    return slice->reading->client;
}

static inline bool mci_slice_is_here(const struct mci_slice *slice)
{
    return !mci_slice_client(slice)->outside;
}

/* Nothing is asked for: what is had counts for as long as it does. */
static inline bool mci_slice_is_known(const struct mci_slice *slice)
{
    return slice->reading->ops->recall != NULL;
}

/* ---- asking (client_slice_ask.c) ----------------------------------------- */

/* Asks for all rows and aims their pieces. */
void mci_slice_ask(struct mci_slice *slice);
/* For one row, while none of its pieces is on its way. */
void mci_slice_ask_again(struct mci_slice *slice, size_t r);

/* Unless it is done. */
void mci_slice_finish(struct mci_slice *slice, struct mci_piece *piece,
                      int64_t result);
void mci_slice_finish_row(struct mci_slice *slice, size_t r, enum mc_err err);
/* Frees the lists that were made for the row's pieces. */
void mci_slice_forget(struct mci_slice *slice, size_t r);
#endif
