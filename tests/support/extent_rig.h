/* SPDX-License-Identifier: Apache-2.0 */
/* extent_rig.h - what the tests of extents share.
 */
#ifndef EXTENT_RIG_H
#define EXTENT_RIG_H
#include <check.h>

#include "mci_extent.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define SPACE (1 * MIB)
#define GRANULE UINT64_C(64)
#define PLACES (SPACE / GRANULE)

static uint64_t random_state;

static inline uint64_t draw(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

static inline struct mci_extents *open_space(uint64_t capacity)
{
    struct mci_extents *space = NULL;
    ck_assert_int_eq(mci_extents_create(capacity, 0, &space), MC_OK);
    return space;
}

static inline struct mci_extents_stats stats_of(const struct mci_extents *space)
{
    struct mci_extents_stats stats;
    mci_extents_stats(space, &stats);
    return stats;
}

static inline struct mci_extent must_alloc(struct mci_extents *space,
                                           uint64_t len, void *owner)
{
    struct mci_extent extent;
    enum mc_err err = mci_extents_alloc(space, len, owner, &extent);
    if (err != MC_OK || extent.len < len || extent.owner != owner) {
        ck_abort_msg("alloc of %ju: %d", (uintmax_t)len, err);
    }
    return extent;
}
#endif
