/* SPDX-License-Identifier: Apache-2.0 */
/* snapshot.h - what a store tells of all that can be read, for whoever follows
 * its events.
 *
 * A walk as mci_master_list walks, with a row per medium. The order of ids and
 * of what is looked at is mci_snapshot.h's: the id at the beginning is read
 * before the first shard, the one at the end after the last.
 * Threads: one thread at a time per struct; as many structs as there are walkers.
 */
#ifndef SNAPSHOT_H
#define SNAPSHOT_H
#include "mci_master.h"
#include "mci_snapshot.h"

struct mci_snapshot {
    struct mci_master *master; /* borrowed */
    struct mci_event_log *log; /* borrowed */
    struct mci_page page;
    struct mc_event_record *records;
};

/* Errors: MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mci_snapshot_init(struct mci_snapshot *snapshot,
                                              struct mci_master *master,
                                              struct mci_event_log *log);
void mci_snapshot_fini(struct mci_snapshot *snapshot); /* zeroed is fine */

/* Its ctx is a struct mci_snapshot. */
extern const struct mci_snapshot_source mci_snapshot_walk;
#endif
