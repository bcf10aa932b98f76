/* SPDX-License-Identifier: Apache-2.0 */
/* client_attempts.h - bytes into all places of open attempts, and what is known
 * of them afterwards.
 *
 * Whole objects go in one part, which closes their attempt at each owner: the
 * receipt for that proves that nothing comes in any more, so that the range can
 * be used again. Parts of objects close nothing.
 * Threads: by one thread.
 */
#ifndef CLIENT_ATTEMPTS_H
#define CLIENT_ATTEMPTS_H
#include "client_run.h"

struct mci_attempts {
    struct mci_run run;                /* a move per place of a part */
    struct mci_renewed_grant *renewed; /* one per move of the run's room */
    struct mci_write_row *rows;        /* that parts are of */
    struct mci_part *parts;
    size_t part_count;
    size_t places_most; /* of a row; the run has room for those of a part */
    uint8_t (*went)[MCI_REPLICAS_MAX]; /* out, per row: how bytes of it went to
                                          each place, tcp before others; NULL:
                                          nobody asks */
    bool is_whole; /* a part is its row's object, and its row has no other */
    bool is_out_of_time; /* out: an owner was waited for as long as may be */
};

/* Moves the parts of all rows that have no code, until the mover is stopped. A row
 * of which any place or part failed or was left holds a code; whole ones hold receipts, and are in doubt where
 * bytes may still land. */
void mci_attempts_move(struct mci_attempts *attempts, uint64_t deadline_ns);
#endif
