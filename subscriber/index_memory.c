/* SPDX-License-Identifier: Apache-2.0 */
/* Three lists by epoch are enough: a reader seen in the current epoch entered
 * after everything of the one before last was unlinked.
 *
 * Pools are mapped without access at first and opened step by step, each at
 * most doubling what is open, from 2 MiB on in pieces of as much, for which
 * large pages are asked: a walk over ten million records then costs a few
 * address translations instead of one each. Each step is noted in a block of
 * mci_alloc, so that a test can make it fail. */
#include "index_memory.h"

#include <string.h>
#include <sys/mman.h>

#include "mci_alloc.h"

#define FIRST_PIECE ((size_t)64 << 10)
#define PIECE ((size_t)2 << 20)
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

/* ---- pieces of pools --------------------------------------------------- */

struct index_commit {
    struct index_commit *next;
};

static size_t round_up(size_t size, size_t step)
{
    return (size + step - 1) & ~(step - 1);
}

/* Addresses on a 2 MiB bound; NULL if there are none. */
static unsigned char *reserve_addresses(size_t size)
{
    unsigned char *at =
        mmap(NULL, size + PIECE, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) {
        return NULL;
    }
    size_t skip = (size_t)(-(uintptr_t)at & (PIECE - 1));
    if (skip) {
        (void)munmap(at, skip);
    }
    if (skip < PIECE) {
        (void)munmap(at + skip + size, PIECE - skip);
    }
    return at + skip;
}

static size_t next_piece(const struct index_pool *pool)
{
    size_t size = pool->committed < FIRST_PIECE ? FIRST_PIECE : pool->committed;
    size = size < PIECE ? size : PIECE;
    size_t left = pool->reserved - pool->committed;
    return size < left ? size : left;
}

static bool grow(struct index_memory *memory, struct index_pool *pool)
{
    size_t size = next_piece(pool);
    if (size == 0 || !add_bytes(memory, size)) {
        return false;
    }
    struct index_commit *commit = mci_alloc(sizeof *commit);
    unsigned char *at = pool->base + pool->committed;
    if (!commit || mprotect(at, size, PROT_READ | PROT_WRITE) != 0) {
        mci_free(commit);
        sub_bytes(memory, size);
        return false;
    }
    if (size == PIECE) {
        (void)madvise(at, size, MADV_HUGEPAGE); /* only a wish */
    }
    commit->next = pool->commits;
    pool->commits = commit;
    pool->committed += size;
    size_t count = pool->committed / pool->unit;
    pool->ready = count > pool->limit ? pool->limit : (uint32_t)(count - 1);
    return true;
}

static void pool_fini(struct index_pool *pool)
{
    while (pool->commits) {
        struct index_commit *next = pool->commits->next;
        mci_free(pool->commits);
        pool->commits = next;
    }
    if (pool->base) {
        (void)munmap(pool->base, pool->reserved);
    }
    pool->base = NULL;
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
        pool_fini(memory->pools[i]);
    }
    mci_free(memory->seats);
    memset(memory, 0, sizeof *memory);
}

/* ---- epochs ------------------------------------------------------------ */

static uint32_t *link_of(const struct index_pool *pool, uint32_t id)
{
    unsigned char *unit = index_pool_at(pool, id, pool->unit);
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
    if (memory->is_frozen) {
        return false;
    }
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

bool index_memory_unstick(struct index_memory *memory)
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
    pool->link_at = shape->link_at;
    pool->limit = shape->limit;
    pool->reserved =
        round_up(((size_t)shape->limit + 1) * shape->unit, FIRST_PIECE);
    pool->base = reserve_addresses(pool->reserved);
    if (!pool->base) {
        return MC_ERR_NOMEM;
    }
    memory->pools[memory->pool_count++] = pool;
    return MC_OK;
}

/* The first record is never given out: its id is 0. */
static uint32_t take_fresh(struct index_memory *memory, struct index_pool *pool)
{
    uint32_t high = atomic_load_explicit(&pool->high, memory_order_relaxed);
    while (high >= pool->ready) {
        if (high == pool->limit || index_memory_is_stuck(memory) ||
            !grow(memory, pool)) {
            return 0;
        }
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

uint32_t index_pool_find(struct index_memory *memory, struct index_pool *pool)
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
    while ((uint64_t)pool->free_count + pool->ready < (uint64_t)high + count) {
        if (pool->ready == pool->limit || index_memory_is_stuck(memory) ||
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
