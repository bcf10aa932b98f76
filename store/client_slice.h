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

struct mci_row_state {
    uint64_t lease_end_ns;
    uint64_t renew_ns; /* half of its lease is over */
    uint32_t tried;    /* places, a bit each */
    uint32_t place;    /* chosen, or none */
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
    uint64_t now_ns;       /* as of the last run */
    uint64_t run_until_ns; /* no lease of the run lasts longer */
    bool run_has_others;   /* there are other copies to try */
};

/* Reads rows first .. first + count and settles them. */
void mci_slice_read(struct mci_slice *slice);
#endif
