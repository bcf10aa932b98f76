/* SPDX-License-Identifier: Apache-2.0 */
/* client_outside.h - what a client has when its master is another process: the
 * remote link, the transfer, what it lends, and where others' segments are.
 *
 * Threads: any thread, but open and close.
 */
#ifndef CLIENT_OUTSIDE_H
#define CLIENT_OUTSIDE_H
#include "mc_transfer.h"
#include "mci_link.h"

struct mci_outside;

struct mc_transfer *mci_outside_transfer(struct mci_outside *outside);

/* Where a long write finds its grant as renewed by heartbeats. */
struct mci_renewed_grant {
    struct mc_grant_source source;
    struct mci_outside *outside;
    struct mc_grant granted; /* at the start */
    uint64_t attempt;
    uint32_t place;
};
void mci_renewed_grant_init(struct mci_renewed_grant *renewed,
                            struct mci_outside *outside,
                            const struct mci_write_row *row, uint32_t place);
#endif
