/* SPDX-License-Identifier: Apache-2.0 */
/* mismatches.h - what a client knows of checksums: how many blocks it looked at,
 * and what it last found wrong.
 * Threads: any, but init and fini.
 */
#ifndef MISMATCHES_H
#define MISMATCHES_H
#include <pthread.h>
#include <stdatomic.h>

#include "mc_client.h"

struct mci_mismatches {
    _Atomic uint64_t checked;  /* blocks */
    _Atomic uint64_t wrong;    /* likewise, in one copy */
    _Atomic uint64_t unsummed; /* blocks that were published without */
    pthread_mutex_t lock;      /* guards the last one; a leaf */
    struct mc_mismatch last;   /* count 0: none */
};

MC_CHECK_RESULT enum mc_err
mci_mismatches_init(struct mci_mismatches *mismatches);
void mci_mismatches_fini(struct mci_mismatches *mismatches);

/* Counts it and says so in the log. `found` names all but its count and key. */
void mci_mismatches_note(struct mci_mismatches *mismatches, struct mc_view key,
                         const struct mc_mismatch *found);
#endif
