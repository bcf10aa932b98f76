/* SPDX-License-Identifier: Apache-2.0 */
/* placement.h - where the copies of a new object go.
 *
 * Preferred segments first, then, where that is asked for, the writer's own and
 * those on its host; then by the strategy, then all others in turn. Copies go to
 * distinct clients, as many as there are, at least one. Only the first copy may
 * evict.
 * Threads: any thread; no lock may be held.
 */
#ifndef PLACEMENT_H
#define PLACEMENT_H
#include "core.h"

struct mci_want {
    struct mci_master *master;
    const struct mci_call *call;
    const struct mc_replicate_config *config; /* NULL: one copy, anywhere */
    const struct mci_spot *spared;            /* its key is not evicted; NULL */
    uint64_t *waited_ns;                      /* for the event log so far */
    uint64_t bytes;
    uint64_t owner; /* reference to a record */
};

struct mci_placed {
    uint64_t offset;
    uint32_t place; /* the same in granules */
    uint32_t segment_id;
    uint32_t client;
    uint32_t extent;
    uint16_t slot;
};

/* Takes room for 1 to MCI_REPLICAS_MAX copies. Errors: -200, -901, -11; then
 * nothing is taken. */
MC_CHECK_RESULT enum mc_err mci_place(const struct mci_want *want,
                                      struct mci_placed *placed_out,
                                      uint32_t *count_out);
#endif
