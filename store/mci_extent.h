/* SPDX-License-Identifier: Apache-2.0 */
/* mci_extent.h - which bytes of an address space are taken, and by whom.
 *
 * An address space of up to 2^48 bytes is cut into extents that cover it
 * without a gap: allocated ones, each with an owner, and free ones, no two of
 * which touch. Allocation finds a hole by two levels of bins (powers of two,
 * each cut into 64) and freeing merges with both neighbours, both in constant
 * time. Nothing is ever moved. Extents are handles of 32 bits into a pool of 24
 * bytes each, which grows in chunks, and only when something is allocated:
 * giving back never needs memory.
 *
 * Extents can be walked in address order from any position; that is how a
 * window to be cleared is judged. What is evicted on behalf of an allocation
 * goes to a claim, not to the free space: a claim joins what it is given with
 * the holes and claimed extents beside it, until a piece is large enough to
 * become the allocation. So nobody else gets the bytes in between.
 *
 * A freed, claimed or foreign handle is a fault of the caller and asserted.
 * Threads: one thread at a time; the owner has one lock for it, a leaf, held
 * over as many calls as belong together. Pure: touches none of the bytes it
 * deals in.
 */
#ifndef MCI_EXTENT_H
#define MCI_EXTENT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mc_err.h"

#define MCI_EXTENT_SPACE_MAX (UINT64_C(1) << 48)
#define MCI_EXTENT_GRANULE_DEFAULT 64
#define MCI_EXTENT_NONE 0 /* no handle is 0 */
#define MCI_CLAIMS_MAX 255

struct mci_extents;

/* capacity_bytes is rounded down to whole granules; 0 is a space in which
 * nothing fits. granule: a power of two from 16 to 2^20, 0 = 64.
 * Errors: MC_ERR_INVALID_PARAMS, MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mci_extents_create(uint64_t capacity_bytes,
                                               uint32_t granule,
                                               struct mci_extents **space_out);
void mci_extents_destroy(struct mci_extents *space); /* NULL is fine */

enum mci_extent_state {
    MCI_EXTENT_FREE,
    MCI_EXTENT_ALLOCATED,
    MCI_EXTENT_CLAIMED
};

/* What is known of an extent; a copy. */
struct mci_extent {
    uint32_t handle;
    enum mci_extent_state state;
    uint64_t offset; /* never changes while it is allocated */
    uint64_t len;    /* whole granules */
    void *owner;     /* allocated only */
};

/* Takes len bytes (rounded up to granules) for an owner, which may be NULL.
 * Errors: MC_ERR_INVALID_PARAMS (len 0), MC_ERR_NO_AVAILABLE_HANDLE (no hole of
 * that size), MC_ERR_NOMEM; on any of them nothing has changed. */
MC_CHECK_RESULT enum mc_err mci_extents_alloc(struct mci_extents *space,
                                              uint64_t len, void *owner,
                                              struct mci_extent *extent_out);

/* Gives an allocated extent back. */
void mci_extents_free(struct mci_extents *space, uint32_t handle);

void mci_extents_set_owner(struct mci_extents *space, uint32_t handle,
                           void *owner);

/* ---- walking ---------------------------------------------------------- */

struct mci_extent mci_extents_get(const struct mci_extents *space,
                                  uint32_t handle);

/* The extent that holds a position below the capacity; NONE beyond. Costs a
 * walk within one slice of the space (64 KiB, or a 65 536th of it). */
uint32_t mci_extents_at(const struct mci_extents *space, uint64_t offset);

/* The first extent of the slice that holds a position, or the one that covers
 * the slice: a place to begin at, without a walk. NONE beyond the capacity. */
uint32_t mci_extents_near(const struct mci_extents *space, uint64_t offset);

/* The neighbour behind; NONE at the end of the space. */
uint32_t mci_extents_next(const struct mci_extents *space, uint32_t handle);

/* ---- claims ----------------------------------------------------------- */

/* Begins a claim, with the memory that its end may need, so that nothing below
 * can fail for want of memory. Errors: MC_ERR_NOMEM,
 * MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS (MCI_CLAIMS_MAX are open). */
MC_CHECK_RESULT enum mc_err mci_extents_claim_begin(struct mci_extents *space,
                                                    uint32_t *claim_out);

/* Gives an allocated extent to a claim: it joins with the free extents and
 * those of the same claim on both sides. Returns what it is a part of now; the
 * handle given, and handles of the claim returned before, are void. */
struct mci_extent mci_extents_claim_give(struct mci_extents *space,
                                         uint32_t claim, uint32_t handle);

/* Turns len bytes of the claim into an allocation; false, and nothing changed,
 * if the piece (as claim_give returned it) is shorter. */
MC_CHECK_RESULT bool mci_extents_claim_take(struct mci_extents *space,
                                            uint32_t claim, uint32_t piece,
                                            uint64_t len, void *owner,
                                            struct mci_extent *extent_out);

/* Ends a claim; what is left of it becomes free. */
void mci_extents_claim_end(struct mci_extents *space, uint32_t claim);

/* ---- state ------------------------------------------------------------ */

struct mci_extents_stats {
    uint64_t capacity_bytes;
    uint64_t allocated_bytes;
    uint64_t claimed_bytes;
    uint64_t free_bytes;
    uint64_t largest_free_bytes; /* found by a look through one bin */
    uint64_t allocated_count;
    uint64_t free_count;
    uint64_t node_bytes; /* memory of the pool */
};
void mci_extents_stats(const struct mci_extents *space,
                       struct mci_extents_stats *stats_out);

/* Walks everything and says whether it is sound; for tests. */
bool mci_extents_check(const struct mci_extents *space);
#endif
