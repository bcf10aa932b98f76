/* SPDX-License-Identifier: Apache-2.0 */
/* sums.h - checksums of blocks: XXH3-64 of each 64 KiB of an object.
 *
 * A sum is seeded with what it is of: epoch and number of the version, the
 * object's size and the block's place in it. So bytes of another object, of
 * another version or of another place do not pass, though they are whole. A block
 * without a sum has in its place the sum of no bytes at all, since zeros are what
 * lost memory holds.
 * Threads: any; a walk by one. Pure.
 */
#ifndef SUMS_H
#define SUMS_H
#include "mc_object.h"
#include "mci_hash.h"
#include "mci_sums.h"

/* Whose sums. */
struct mci_summed {
    uint64_t epoch;
    uint64_t version;
    uint64_t size;
};

uint64_t mci_sum_seed(const struct mci_summed *of, uint64_t block);
/* What stands where there is no sum. */
uint64_t mci_sum_none(const struct mci_summed *of, uint64_t block);
/* Of a whole block at hand. */
uint64_t mci_sum_make(const struct mci_summed *of, uint64_t block,
                      const void *data);

static inline uint64_t mci_sum_block_len(uint64_t size, uint64_t block)
{
    uint64_t left = size - block * MCI_SUM_BLOCK;
    return left < MCI_SUM_BLOCK ? left : MCI_SUM_BLOCK;
}

/* The blocks that a range covers whole; the range lies within the object. */
struct mci_blocks {
    uint64_t first;
    uint64_t count;
};
struct mci_blocks mci_blocks_within(uint64_t size, uint64_t from, uint64_t len);

/* Sums of bytes that lie in spans, block by block from `from` on. The spans hold
 * at least the blocks that are asked for. */
struct mci_sum_walk {
    const struct mci_summed *of;
    const struct mc_span *span;
    size_t at; /* in the span */
};
void mci_sum_walk_begin(struct mci_sum_walk *walk, const struct mci_summed *of,
                        const struct mc_span *spans);
/* Passes over bytes. */
void mci_sum_walk_skip(struct mci_sum_walk *walk, uint64_t len);
/* The sum of the block that begins where the walk is, and goes behind it. */
uint64_t mci_sum_walk_next(struct mci_sum_walk *walk, uint64_t block);
#endif
