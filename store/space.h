/* SPDX-License-Identifier: Apache-2.0 */
/* space.h - lent segments as the core sees them, and the lanes in them.
 *
 * A space in use has an id, which is its slot and a generation; a slot is used
 * again only when the last range of its former segment was given back.
 * Threads: any thread; lanes under the lock of their shard.
 */
#ifndef SPACE_H
#define SPACE_H
#include "core.h"

/* Gives a range back; the last one of a closed space ends its use. */
void mci_space_free(struct mci_master *master, const struct mci_range *range);

/* Takes bytes; the owner is a reference to a record. Errors: -200, -11. */
MC_CHECK_RESULT enum mc_err mci_space_take(struct mci_space *space,
                                           uint64_t bytes, uint64_t owner,
                                           struct mci_extent *extent_out);

/* The owner of an extent as a reference, and back. */
static inline void *mci_owner_of_ref(uint64_t ref)
{
    return (void *)(uintptr_t)ref;
}
static inline uint64_t mci_ref_of_owner(const void *owner)
{
    return (uint64_t)(uintptr_t)owner;
}

/* The space of an id, NULL if there is none such. */
struct mci_space *mci_space_find(struct mci_master *master, uint32_t id);

/* Whether it is gone and the slices of its end have not come by all of it; after
 * that nothing that is linked lies there. */
bool mci_space_is_going(const struct mci_master *master,
                        struct mci_space *space);

/* Ends its use if it is closed and nothing is left in it. lock is held. */
void mci_space_settle(struct mci_master *master, struct mci_space *space);

void mci_spaces_fini(struct mci_master *master);

/* ---- lanes, under the lock of the shard ------------------------------- */

/* The lane in which a copy of a version with these marks stands. */
enum mci_lane_kind mci_lane_kind(unsigned marks);

/* index is a version's record or one of its further copies; marks are the
 * version's, used_ns is copied into the copy. */
void mci_lane_enter(struct mci_master *master, struct mci_shard *shard,
                    uint32_t index, unsigned marks);
void mci_lane_enter_first(struct mci_master *master, struct mci_shard *shard,
                          uint32_t index, unsigned marks);
void mci_lane_leave(struct mci_master *master, struct mci_shard *shard,
                    uint32_t index, unsigned marks);
void mci_lane_to_tail(struct mci_master *master, struct mci_shard *shard,
                      uint32_t index, unsigned marks);
/* A lease of the version was given back before its end: what was noted of the
 * lane holds no more. */
void mci_lane_unblock(struct mci_master *master, struct mci_shard *shard,
                      uint32_t index, unsigned marks);
#endif
