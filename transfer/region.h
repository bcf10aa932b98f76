/* SPDX-License-Identifier: Apache-2.0 */
/* region.h - local memory that rows may name.
 *
 * A sorted array of ranges that do not overlap. The spans of rows under way pin
 * theirs; a range that is pinned is not taken out.
 * Threads: any thread, but init and fini.
 */
#ifndef REGION_H
#define REGION_H
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mc_err.h"
#include "mc_object.h"

#define MCI_REGIONS_MAX 1048576

struct mci_region {
    uintptr_t base;
    size_t len;
    uint32_t times;        /* registered; guarded by lock */
    bool is_leaving;       /* takes no new pins; guarded by lock */
    _Atomic uint32_t pins; /* raised under a read lock at least */
};

struct mci_regions {
    pthread_rwlock_t lock;
    pthread_mutex_t wait_lock;
    pthread_cond_t unpinned;
    _Atomic uint32_t waiters;   /* for unpinned */
    struct mci_region **sorted; /* by base; guarded by lock */
    size_t count;
    size_t capacity;
};

MC_CHECK_RESULT enum mc_err mci_regions_init(struct mci_regions *regions);
void mci_regions_fini(struct mci_regions *regions);

/* As mc_transfer_register, _unregister and _is_registered say. */
MC_CHECK_RESULT enum mc_err mci_regions_add(struct mci_regions *regions,
                                            void *base, size_t len);
MC_CHECK_RESULT enum mc_err mci_regions_remove(struct mci_regions *regions,
                                               void *base,
                                               uint64_t deadline_ns);
bool mci_regions_has(struct mci_regions *regions, const void *base, size_t len);

/* Pins what the spans lie in, all or (false) nothing. Spans of no length pin
 * nothing. */
bool mci_regions_pin(struct mci_regions *regions, const struct mc_span *spans,
                     size_t count);
void mci_regions_unpin(struct mci_regions *regions, const struct mc_span *spans,
                       size_t count);
#endif
