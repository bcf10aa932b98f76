/* SPDX-License-Identifier: Apache-2.0 */
/* Three lists by epoch are enough: a reader seen in the current epoch entered
 * after everything of the one before last was unlinked. Big chunks are mapped,
 * not allocated, on 2 MiB bounds: a walk over ten million records then costs a
 * few address translations instead of one each. */
#include "index_memory.h"

#include <string.h>
#include <sys/mman.h>

#include "mci_alloc.h"

#define MAP_ALIGN (UINT64_C(2) << 20)
#define LIMBO_MIN (UINT64_C(256) << 10)
#define LIMBO_MAX (UINT64_C(64) << 20)

enum mc_err index_memory_init(struct index_memory *memory, uint64_t max_bytes,
                              uint32_t max_readers)
{
    memset(memory, 0, sizeof *memory);
    memory->max_bytes = max_bytes;
    memory->max_limbo = max_bytes / 64;
    if (memory->max_limbo < LIMBO_MIN) {
        memory->max_limbo = LIMBO_MIN;
    }
    if (memory->max_limbo > LIMBO_MAX) {
        memory->max_limbo = LIMBO_MAX;
    }
    size_t size = (size_t)max_readers * sizeof *memory->seats;
    memory->seats = mci_alloc_aligned(64, size);
    if (!memory->seats) {
        return MC_ERR_NOMEM;
    }
    memset(memory->seats, 0, size);
    memory->seat_count = max_readers;
    atomic_store(&memory->bytes, size);
    atomic_store(&memory->epoch, 1);
    return MC_OK;
}

static bool add_bytes(struct index_memory *memory, uint64_t size)
{
    uint64_t before =
        atomic_fetch_add_explicit(&memory->bytes, size, memory_order_relaxed);
    if (size <= memory->max_bytes && before <= memory->max_bytes - size) {
        return true;
    }
    atomic_fetch_sub_explicit(&memory->bytes, size, memory_order_relaxed);
    return false;
}

static void sub_bytes(struct index_memory *memory, uint64_t size)
{
    atomic_fetch_sub_explicit(&memory->bytes, size, memory_order_relaxed);
}

/* ---- chunks ------------------------------------------------------------ */

static size_t big_size(const struct index_pool *pool)
{
    size_t size = (size_t)pool->unit << pool->shift;
    return (size + MAP_ALIGN - 1) & ~(size_t)(MAP_ALIGN - 1);
}

static unsigned char *map_aligned(size_t size)
{
    size_t whole = size + MAP_ALIGN;
    unsigned char *at = mmap(NULL, whole, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) {
        return NULL;
    }
    size_t skip = (size_t)(-(uintptr_t)at & (MAP_ALIGN - 1));
    if (skip) {
        (void)munmap(at, skip);
    }
    if (skip < MAP_ALIGN) {
        (void)munmap(at + skip + size, (size_t)MAP_ALIGN - skip);
    }
    (void)madvise(at + skip, size, MADV_HUGEPAGE); /* only a wish */
    return at + skip;
}

static bool grow(struct index_memory *memory, struct index_pool *pool)
{
    uint32_t next = pool->ready + 1; /* first id without memory */
    bool is_big = next >> pool->shift;
    uint32_t step = is_big ? 1u << pool->shift : 1u << (pool->shift - 4);
    size_t size = is_big ? big_size(pool) : (size_t)pool->unit * step;
    if (!add_bytes(memory, size)) {
        return false;
    }
    unsigned char *chunk =
        is_big ? map_aligned(size) : mci_alloc_aligned(64, (size + 63) & ~63ul);
    if (!chunk) {
        sub_bytes(memory, size);
        return false;
    }
    if (!is_big) {
        memset(chunk, 0, size); /* a mapping is zero already */
    }
    _Atomic(unsigned char *) *at =
        is_big ? &pool->big[next >> pool->shift]
               : &pool->small[next >> (pool->shift - 4)];
    atomic_store_explicit(at, chunk, memory_order_release);
    pool->ready = (next | (step - 1));
    return true;
}

static void pool_fini(struct index_memory *memory, struct index_pool *pool)
{
    for (uint32_t i = 0; i < INDEX_SMALL_CHUNKS; i++) {
        mci_free(atomic_load(&pool->small[i]));
    }
    if (pool->big) {
        for (uint32_t i = 1; i <= pool->limit >> pool->shift; i++) {
            unsigned char *chunk = atomic_load(&pool->big[i]);
            if (chunk) {
                (void)munmap(chunk, big_size(pool));
            }
        }
        index_block_give(memory, (void *)pool->big);
    }
}

void index_memory_fini(struct index_memory *memory)
{
    for (uint32_t i = 0; i < INDEX_EPOCHS; i++) {
        struct index_block *block = memory->limbo[i];
        while (block) {
            struct index_block *next = block->next;
            mci_free(block);
            block = next;
        }
    }
    for (uint32_t i = 0; i < memory->pool_count; i++) {
        pool_fini(memory, memory->pools[i]);
    }
    mci_free(memory->seats);
    memset(memory, 0, sizeof *memory);
}

/* ---- epochs ------------------------------------------------------------ */

static uint32_t *link_of(const struct index_pool *pool, uint32_t id)
{
    unsigned char *unit = index_pool_at(pool, id, pool->shift, pool->unit);
    return (uint32_t *)(void *)(unit + pool->link_at);
}

static void free_limbo(struct index_memory *memory, uint32_t which)
{
    struct index_block *block = memory->limbo[which];
    memory->limbo[which] = NULL;
    while (block) {
        struct index_block *next = block->next;
        memory->limbo_bytes -= block->size;
        sub_bytes(memory, block->size);
        mci_free(block);
        block = next;
    }
    for (uint32_t i = 0; i < memory->pool_count; i++) {
        struct index_pool *pool = memory->pools[i];
        uint32_t count = pool->limbo_count[which];
        if (count) {
            *link_of(pool, pool->limbo_tail[which]) = pool->free_head;
            pool->free_head = pool->limbo_head[which];
            pool->free_count += count;
            pool->limbo_count[which] = 0;
            pool->limbo_head[which] = 0;
            memory->limbo_bytes -= (uint64_t)count * pool->unit;
        }
    }
}

bool index_memory_advance(struct index_memory *memory)
{
    uint64_t epoch = atomic_load_explicit(&memory->epoch, memory_order_relaxed);
    uint32_t used = atomic_load(&memory->seats_used);
    for (uint32_t i = 0; i < used; i++) {
        uint64_t seen = atomic_load(&memory->seats[i].epoch);
        if (seen && seen != epoch) {
            return false;
        }
    }
    atomic_store(&memory->epoch, epoch + 1);
    free_limbo(memory, (uint32_t)((epoch + 2) % INDEX_EPOCHS));
    return true;
}

bool index_memory_is_stuck(struct index_memory *memory)
{
    for (int i = 0; i < 3 && memory->limbo_bytes > memory->max_limbo; i++) {
        if (!index_memory_advance(memory)) {
            break;
        }
    }
    return memory->limbo_bytes > memory->max_limbo;
}

static uint32_t current_limbo(const struct index_memory *memory)
{
    return (
        uint32_t)(atomic_load_explicit(&memory->epoch, memory_order_relaxed) %
                  INDEX_EPOCHS);
}

/* ---- blocks ------------------------------------------------------------ */

void *index_block_take(struct index_memory *memory, size_t size)
{
    size_t whole = size + sizeof(struct index_block);
    if (whole < size || index_memory_is_stuck(memory) ||
        !add_bytes(memory, whole)) {
        return NULL;
    }
    struct index_block *block = mci_calloc(1, whole);
    if (!block) {
        sub_bytes(memory, whole);
        return NULL;
    }
    block->size = whole;
    return block + 1;
}

void index_block_give(struct index_memory *memory, void *at)
{
    if (!at) {
        return;
    }
    struct index_block *block = (struct index_block *)at - 1;
    sub_bytes(memory, block->size);
    mci_free(block);
}

void index_block_retire(struct index_memory *memory, void *at)
{
    if (!at) {
        return;
    }
    struct index_block *block = (struct index_block *)at - 1;
    uint32_t which = current_limbo(memory);
    block->next = memory->limbo[which];
    memory->limbo[which] = block;
    memory->limbo_bytes += block->size;
}

/* ---- pools ------------------------------------------------------------- */

enum mc_err index_pool_init(struct index_memory *memory,
                            struct index_pool *pool,
                            const struct index_pool_shape *shape)
{
    memset(pool, 0, sizeof *pool);
    pool->unit = shape->unit;
    pool->shift = shape->shift;
    pool->link_at = shape->link_at;
    pool->limit = shape->limit;
    size_t chunks = (size_t)(shape->limit >> shape->shift) + 1;
    pool->big = index_block_take(memory, chunks * sizeof *pool->big);
    if (!pool->big) {
        return MC_ERR_NOMEM;
    }
    memory->pools[memory->pool_count++] = pool;
    return MC_OK;
}

/* The first record of the first chunk is never given out: its id is 0. */
static uint32_t take_fresh(struct index_memory *memory, struct index_pool *pool)
{
    uint32_t high = atomic_load_explicit(&pool->high, memory_order_relaxed);
    if (high == pool->limit) {
        return 0;
    }
    if (high >= pool->ready &&
        (index_memory_is_stuck(memory) || !grow(memory, pool))) {
        return 0;
    }
    atomic_store_explicit(&pool->high, high + 1, memory_order_release);
    return high + 1;
}

static uint32_t take_free(struct index_pool *pool)
{
    uint32_t id = pool->free_head;
    if (id) {
        pool->free_head = *link_of(pool, id);
        pool->free_count--;
    }
    return id;
}

uint32_t index_pool_take(struct index_memory *memory, struct index_pool *pool)
{
    uint32_t id = take_free(pool);
    if (!id) {
        id = take_fresh(memory, pool);
    }
    /* What was retired may serve, if its readers have left. */
    for (int i = 0; !id && i < 2 && index_memory_has_limbo(memory); i++) {
        if (!index_memory_advance(memory)) {
            break;
        }
        id = take_free(pool);
    }
    return id;
}

bool index_pool_reserve(struct index_memory *memory, struct index_pool *pool,
                        uint32_t count)
{
    uint32_t high = atomic_load_explicit(&pool->high, memory_order_relaxed);
    while (
        (uint64_t)pool->free_count +
            ((pool->ready < pool->limit ? pool->ready : pool->limit) - high) <
        count) {
        if (pool->ready >= pool->limit || index_memory_is_stuck(memory) ||
            !grow(memory, pool)) {
            return false;
        }
    }
    return true;
}

void index_pool_give(struct index_pool *pool, uint32_t id)
{
    *link_of(pool, id) = pool->free_head;
    pool->free_head = id;
    pool->free_count++;
}

void index_pool_retire(struct index_memory *memory, struct index_pool *pool,
                       uint32_t id)
{
    uint32_t which = current_limbo(memory);
    *link_of(pool, id) = pool->limbo_head[which];
    if (!pool->limbo_head[which]) {
        pool->limbo_tail[which] = id;
    }
    pool->limbo_head[which] = id;
    pool->limbo_count[which]++;
    memory->limbo_bytes += pool->unit;
}
