/* SPDX-License-Identifier: Apache-2.0 */
/* start.h - one row of put_start, upsert_start or promote_start on its way.
 *
 * What it does under the shard lock is look and insert; what it takes at the look
 * it either puts in at the insert or gives back.
 * Threads: a start belongs to one thread.
 */
#ifndef START_H
#define START_H
#include "placement.h"

enum mci_start_kind { MCI_START_PUT, MCI_START_UPSERT, MCI_START_PROMOTE };

/* One row on its way. */
struct mci_start {
    struct mci_master *master;
    const struct mci_call *call;
    const struct mc_replicate_config *config;
    struct mci_writer *writer;
    struct mci_write_row *row;
    struct mci_shard *shard;
    struct mci_spot spot;
    enum mci_start_kind kind;
    uint32_t copy_max; /* wanted */
    uint64_t bytes;    /* of a copy */
    /* taken so far: */
    uint32_t index;
    uint32_t copies[MCI_REPLICAS_MAX - 1];
    struct mci_label *label;
    struct mci_group *group;
    struct mci_placed placed[MCI_REPLICAS_MAX];
    uint32_t placed_count;
    uint64_t charged_bytes;
};

/* May the write begin? Takes records and the promise of a table slot. Errors:
 * those of the row; then nothing is taken. */
MC_CHECK_RESULT enum mc_err mci_start_look(struct mci_start *start);

/* Looks again, and makes the attempt. Errors: as above; then the records and
 * the promise are given back. */
MC_CHECK_RESULT enum mc_err mci_start_insert(struct mci_start *start);

/* Gives back what the look took. */
void mci_start_give_back(struct mci_start *start);
#endif
