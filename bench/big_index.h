/* SPDX-License-Identifier: Apache-2.0 */
/* big_index.h - an index at size: ten million blocks, a hundred thousand
 * sessions, 256 workers.
 *
 * Chains of 96 blocks grow sixteen at a time, 64 of them by turns, told by the
 * engine of one of the workers each, with a session of its own; the store "n1"
 * holds every block too.
 */
#ifndef BIG_INDEX_H
#define BIG_INDEX_H
#include <stdio.h>

#include "mc_index.h"

#ifndef BLOCKS /* fewer, to try a change out */
#define BLOCKS (10u * 1000 * 1000)
#endif
#define DEPTH 96u
#define CHAINS (BLOCKS / DEPTH)
#define TURN 16u
#define BY_TURNS 64u
#define WORKERS 256u

static inline uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static inline uint64_t block_of(uint64_t chain, uint64_t depth)
{
    return mix(chain * DEPTH + depth);
}

static inline struct mc_index *big_make(void)
{
    struct mc_index_opts opts = {.block_bytes = 4096};
    struct mc_index *index = NULL;
    if (mc_key_layout_parse(mc_view_str("u64"), mc_view_str(""),
                            &opts.layout) != MC_OK ||
        mc_index_create(&opts, &index) != MC_OK) {
        return NULL;
    }
    return index;
}

/* What the store says of a block: that it has it, or has it no more. */
static inline bool big_store(struct mc_index *index, uint64_t hash)
{
    char key[24];
    int len = snprintf(key, sizeof key, "%llu", (unsigned long long)hash);
    return mc_index_stored(index, mc_view_str("default"), mc_view_str("n1"),
                           mc_view_make(key, (size_t)len), mc_view_str("cpu"),
                           mc_view_make(NULL, 0)) == MC_INDEX_APPLIED;
}

static inline bool big_remove(struct mc_index *index, uint64_t hash)
{
    char key[24];
    int len = snprintf(key, sizeof key, "%llu", (unsigned long long)hash);
    return mc_index_removed(index, mc_view_str("default"), mc_view_str("n1"),
                            mc_view_make(key, (size_t)len),
                            mc_view_str("cpu")) == MC_INDEX_APPLIED;
}

static inline bool big_add_turn(struct mc_index *index, uint64_t chain,
                                uint64_t depth)
{
    uint64_t hashes[TURN];
    uint64_t parent = block_of(chain, depth - 1);
    char worker[16];
    char session[24];
    (void)snprintf(worker, sizeof worker, "w%u", (unsigned)(chain % WORKERS));
    (void)snprintf(session, sizeof session, "conv-%u", (unsigned)chain);
    const struct mc_index_engine engine = {mc_view_str("default"),
                                           mc_view_str(worker), 0};
    for (uint64_t i = 0; i < TURN; i++) {
        hashes[i] = block_of(chain, depth + i);
        if (!big_store(index, hashes[i])) {
            return false;
        }
    }
    return mc_index_engine_stored(index, &engine, MC_TIER_DEVICE,
                                  depth ? &parent : NULL, hashes, TURN,
                                  mc_view_str(session)) == MC_INDEX_APPLIED;
}

static inline bool big_fill(struct mc_index *index)
{
    for (uint64_t first = 0; first < CHAINS; first += BY_TURNS) {
        for (uint64_t depth = 0; depth < DEPTH; depth += TURN) {
            for (uint64_t i = 0; i < BY_TURNS && first + i < CHAINS; i++) {
                if (!big_add_turn(index, first + i, depth)) {
                    return false;
                }
            }
        }
    }
    return true;
}

#endif
