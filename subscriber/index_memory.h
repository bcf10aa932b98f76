/* SPDX-License-Identifier: Apache-2.0 */
/* index_memory.h - memory of the index: counted, bounded, reclaimed by epochs.
 *
 * Records of one size live in pools and are named by 32-bit ids; 0 is none.
 * A pool reserves addresses for all records that its bound allows, which costs
 * nothing, and gets memory behind them as it grows; so it never moves, a reader
 * may follow an id without asking anybody, and an id is an address by one
 * multiplication. Blocks of other sizes come from mci_alloc with a
 * small head. What readers may still see is retired, not freed: it waits in
 * the list of the epoch in which it was retired. An epoch ends when no reader
 * is left in an older one, and then what was retired two epochs ago is free.
 *
 * The links of those lists lie in fields that readers never look at, so that
 * retiring needs no memory. When a reader stays inside and the lists reach
 * their bound, taking fails as if memory were out.
 *
 * Threads: one writer; readers only call index_memory_enter and _leave and
 * follow ids.
 */
#ifndef INDEX_MEMORY_H
#define INDEX_MEMORY_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "mc_err.h"

#define INDEX_EPOCHS 3u
#define INDEX_POOLS_MAX 10u

/* One reader's place: the epoch it is in, 0 while outside. A line of its own,
 * since each reader writes it twice a call. */
struct index_seat {
    _Alignas(64) _Atomic uint64_t epoch;
    atomic_bool is_taken;
};

struct index_pool {
    unsigned char *base;   /* constant */
    uint32_t unit;         /* bytes of one record */
    uint32_t link_at;      /* offset of a uint32_t that only the writer reads */
    uint32_t limit;        /* the greatest id */
    uint32_t ready;        /* the greatest id with memory */
    _Atomic uint32_t high; /* ids 1..high have been given out */
    size_t reserved;       /* bytes of addresses */
    size_t committed;      /* bytes with memory behind them */
    struct index_commit *commits;
    uint32_t free_head;
    uint32_t free_count;
    uint32_t limbo_head[INDEX_EPOCHS];
    uint32_t limbo_tail[INDEX_EPOCHS];
    uint32_t limbo_count[INDEX_EPOCHS];
};

struct index_block {
    struct index_block *next;
    size_t size;
};

struct index_memory {
    uint64_t max_bytes;
    uint64_t max_limbo;
    _Atomic uint64_t bytes;
    _Alignas(64) _Atomic uint64_t epoch;
    uint64_t limbo_bytes; /* over all three lists, pools included */
    struct index_block *limbo[INDEX_EPOCHS];
    struct index_pool *pools[INDEX_POOLS_MAX];
    uint32_t pool_count;
    uint32_t seat_count;
    _Atomic uint32_t seats_used; /* seats beyond were never taken */
    struct index_seat *seats;
    bool
        is_frozen; /* what is retired may still be in lists: nothing is freed */
};

MC_CHECK_RESULT enum mc_err index_memory_init(struct index_memory *memory,
                                              uint64_t max_bytes,
                                              uint32_t max_readers);
/* Frees all pools and everything retired; blocks still in use are the
 * caller's. Zeroed is fine. */
void index_memory_fini(struct index_memory *memory);

/* Readers: between the two nothing retired later than enter is freed. */
static inline void index_memory_enter(struct index_memory *memory,
                                      struct index_seat *seat)
{
    uint64_t epoch = atomic_load(&memory->epoch);
    atomic_store(&seat->epoch, epoch);
    /* Either the writer's look at the seats comes after the store, or this
     * load sees the epoch that it then made, and with it all it had unlinked:
     * the second load is what orders the two. */
    (void)atomic_load(&memory->epoch);
}

static inline void index_memory_leave(struct index_seat *seat)
{
    atomic_store(&seat->epoch, 0);
}

/* Tries to end an epoch; true if it ended. */
bool index_memory_advance(struct index_memory *memory);
/* Whether something waits for readers. */
static inline bool index_memory_has_limbo(const struct index_memory *memory)
{
    return memory->limbo_bytes != 0;
}
/* Tries to end epochs until retired memory is below its bound; whether it is
 * still not, because of a reader that does not leave. */
bool index_memory_unstick(struct index_memory *memory);
static inline bool index_memory_is_stuck(struct index_memory *memory)
{
    return memory->limbo_bytes > memory->max_limbo &&
           index_memory_unstick(memory);
}

/* Zeroed bytes; NULL at a bound or without memory. */
void *index_block_take(struct index_memory *memory, size_t size);
void index_block_give(struct index_memory *memory, void *block);
void index_block_retire(struct index_memory *memory, void *block);

struct index_pool_shape {
    uint32_t unit;
    uint32_t link_at;
    uint32_t limit;
};
MC_CHECK_RESULT enum mc_err
index_pool_init(struct index_memory *memory, struct index_pool *pool,
                const struct index_pool_shape *shape);
/* The way of index_pool_take when no record lies ready. */
uint32_t index_pool_find(struct index_memory *memory, struct index_pool *pool);
/* A record that was never used, or not since its readers left; not cleared. 0
 * at a bound or without memory. */
static inline uint32_t index_pool_take(struct index_memory *memory,
                                       struct index_pool *pool)
{
    uint32_t id = pool->free_head;
    if (id) {
        memcpy(&pool->free_head,
               pool->base + (size_t)id * pool->unit + pool->link_at,
               sizeof pool->free_head);
        pool->free_count--;
        return id;
    }
    uint32_t high = atomic_load_explicit(&pool->high, memory_order_relaxed);
    if (high < pool->ready) {
        atomic_store_explicit(&pool->high, high + 1, memory_order_release);
        return high + 1;
    }
    return index_pool_find(memory, pool);
}
/* True if the next count takes cannot fail. */
bool index_pool_reserve(struct index_memory *memory, struct index_pool *pool,
                        uint32_t count);
void index_pool_give(struct index_pool *pool, uint32_t id);
void index_pool_retire(struct index_memory *memory, struct index_pool *pool,
                       uint32_t id);

/* Where a record lies. unit is the pool's own, written as a constant so that
 * the compiler can fold it. */
static inline void *index_pool_at(const struct index_pool *pool, uint32_t id,
                                  size_t unit)
{
    return pool->base + id * unit;
}
#endif
