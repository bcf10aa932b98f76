/* SPDX-License-Identifier: Apache-2.0 */
/* coverage.h - which bytes of an object have been written, and which are on their
 * way.
 *
 * Two sorted lists of ranges that do not overlap. What is written joins with its
 * neighbours, so that an object written layer by layer is one range in the end.
 * What is on its way stays as it was begun, and nothing else may begin there: two
 * writes of the same bytes at a time would leave a mixture.
 * Pure. Threads: guarded by whoever has it.
 */
#ifndef COVERAGE_H
#define COVERAGE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mc_err.h"

/* Ranges of one object, written or on their way; -200 over it. */
#define MCI_COVERAGE_MAX 65536

struct mci_interval {
    uint64_t from;
    uint64_t len;
};

struct mci_intervals {
    struct mci_interval *all; /* by from; none is empty, none overlap */
    size_t count;
    size_t room;
};

struct mci_coverage {
    uint64_t size;
    struct mci_intervals written;
    struct mci_intervals on_way;
};

void mci_coverage_init(struct mci_coverage *coverage, uint64_t size);
void mci_coverage_fini(struct mci_coverage *coverage); /* zeroed is fine */

/* All of the ranges are on their way from now on, or none: -600 (one is outside
 * of the object, overlaps another of them or one on its way), -200, -11. Empty
 * ones, inside, count for nothing. */
MC_CHECK_RESULT enum mc_err
mci_coverage_begin(struct mci_coverage *coverage,
                   const struct mci_interval *ranges, size_t count);
/* They were begun like that, and have arrived or not. Allocates nothing. */
void mci_coverage_end(struct mci_coverage *coverage,
                      const struct mci_interval *ranges, size_t count,
                      bool have_arrived);

static inline bool mci_coverage_is_idle(const struct mci_coverage *coverage)
{
    return coverage->on_way.count == 0;
}

/* The first hole at or after `at`; what is on its way is a hole still. */
bool mci_coverage_hole(const struct mci_coverage *coverage, uint64_t at,
                       struct mci_interval *hole_out);
#endif
