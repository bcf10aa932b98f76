/* SPDX-License-Identifier: Apache-2.0 */
/* sums.c - see the header. */
#include "sums.h"

#include "mci_bytes.h"

uint64_t mci_sum_seed(const struct mci_summed *of, uint64_t block)
{
    uint8_t name[4 * 8];
    mci_put_le64(name, of->epoch);
    mci_put_le64(name + 8, of->version);
    mci_put_le64(name + 16, of->size);
    mci_put_le64(name + 24, block);
    return mci_hash64(name, sizeof name);
}

uint64_t mci_sum_none(const struct mci_summed *of, uint64_t block)
{
    return mci_hash64_seeded(NULL, 0, mci_sum_seed(of, block));
}

uint64_t mci_sum_make(const struct mci_summed *of, uint64_t block,
                      const void *data)
{
    return mci_hash64_seeded(data, mci_sum_block_len(of->size, block),
                             mci_sum_seed(of, block));
}

struct mci_blocks mci_blocks_within(uint64_t size, uint64_t from, uint64_t len)
{
    uint64_t first = mci_sums_count(from);
    uint64_t end = from + len == size ? mci_sums_count(size)
                                      : (from + len) / MCI_SUM_BLOCK;
    struct mci_blocks blocks = {.first = first};
    blocks.count = end > first && len > 0 ? end - first : 0;
    return blocks;
}

/* ---- in spans ---------------------------------------------------------- */

void mci_sum_walk_begin(struct mci_sum_walk *walk, const struct mci_summed *of,
                        const struct mc_span *spans)
{
    walk->of = of;
    walk->span = spans;
    walk->at = 0;
}

/* Some of what is left of the span; an empty one yields to the next. */
static const uint8_t *take(struct mci_sum_walk *walk, uint64_t most,
                           size_t *len_out)
{
    while (walk->at == walk->span->len) {
        walk->span++;
        walk->at = 0;
    }
    const uint8_t *data = (const uint8_t *)walk->span->data + walk->at;
    size_t len = walk->span->len - walk->at;
    *len_out = len < most ? len : (size_t)most;
    walk->at += *len_out;
    return data;
}

void mci_sum_walk_skip(struct mci_sum_walk *walk, uint64_t len)
{
    while (len > 0) {
        size_t some = 0;
        (void)take(walk, len, &some);
        len -= some;
    }
}

uint64_t mci_sum_walk_next(struct mci_sum_walk *walk, uint64_t block)
{
    uint64_t left = mci_sum_block_len(walk->of->size, block);
    size_t some = 0;
    const uint8_t *data = take(walk, left, &some);
    if (some == left) {
        return mci_sum_make(walk->of, block, data);
    }
    struct mci_hash_stream stream;
    mci_hash_begin(&stream, mci_sum_seed(walk->of, block));
    for (;;) {
        mci_hash_add(&stream, data, some);
        left -= some;
        if (left == 0) {
            return mci_hash_end(&stream);
        }
        data = take(walk, left, &some);
    }
}
