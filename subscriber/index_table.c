/* SPDX-License-Identifier: Apache-2.0 */
/* The first bits of a tag choose the segment, its last sixteen the slot where
 * probing starts, so all that a split needs stands in the slot's own word. A
 * segment asks to be split at two thirds; while that cannot be had it fills up
 * to nine tenths before it refuses. */
#include "index_table.h"

#include <string.h>

#define SEG_HARD 914u
#define DEPTH_MAX 22u

static struct index_seg *seg_at(const struct index_pool *segs, uint32_t id)
{
    return index_pool_at(segs, id, sizeof(struct index_seg));
}

static struct index_seg *seg_take(struct index_memory *memory,
                                  struct index_pool *segs, uint32_t depth)
{
    uint32_t id = index_pool_take(memory, segs);
    if (!id) {
        return NULL;
    }
    struct index_seg *seg = seg_at(segs, id);
    seg->id = id;
    seg->used = 0;
    seg->live = 0;
    seg->depth = depth;
    memset((void *)seg->slot, 0, sizeof seg->slot); /* nobody sees it yet */
    return seg;
}

static struct index_dir *dir_take(struct index_memory *memory, uint32_t depth)
{
    struct index_dir *dir =
        index_block_take(memory, sizeof *dir + (sizeof dir->seg[0] << depth));
    if (dir) {
        dir->depth = depth;
    }
    return dir;
}

enum mc_err index_table_init(struct index_memory *memory,
                             struct index_table *table, struct index_pool *segs)
{
    struct index_dir *dir = dir_take(memory, 0);
    struct index_seg *seg = dir ? seg_take(memory, segs, 0) : NULL;
    if (!seg) {
        index_block_give(memory, dir);
        return MC_ERR_NOMEM;
    }
    atomic_store(&dir->seg[0], seg);
    atomic_store(&table->dir, dir);
    table->segs = segs;
    return MC_OK;
}

void index_table_fini(struct index_memory *memory, struct index_table *table)
{
    index_block_give(memory, atomic_load(&table->dir));
    atomic_store(&table->dir, NULL);
}

/* Puts seg into every place of the directory that its prefix owns. */
static void publish(struct index_dir *dir, struct index_seg *seg, uint32_t tag)
{
    uint32_t span = dir->depth - seg->depth;
    uint32_t first = (uint32_t)(((uint64_t)tag << seg->depth) >> 32) << span;
    for (uint32_t i = 0; i < 1u << span; i++) {
        atomic_store_explicit(&dir->seg[first + i], seg, memory_order_release);
    }
}

static bool double_dir(struct index_memory *memory, struct index_table *table)
{
    struct index_dir *old =
        atomic_load_explicit(&table->dir, memory_order_relaxed);
    struct index_dir *dir = dir_take(memory, old->depth + 1);
    if (!dir) {
        return false;
    }
    for (uint32_t i = 0; i < 1u << dir->depth; i++) {
        struct index_seg *seg =
            atomic_load_explicit(&old->seg[i >> 1], memory_order_relaxed);
        atomic_store_explicit(&dir->seg[i], seg, memory_order_relaxed);
    }
    atomic_store_explicit(&table->dir, dir, memory_order_release);
    index_block_retire(memory, old);
    return true;
}

/* Copies the live entries of seg: those whose tag has the bit to the second of
 * to, the others to the first. One pass, and no branch on the bit, which is as
 * good as drawn by lot. */
static void copy_entries(struct index_seg *const to[2],
                         const struct index_seg *seg, uint32_t bit)
{
    for (uint32_t i = 0; i < INDEX_SEG_SLOTS; i++) {
        uint64_t slot =
            atomic_load_explicit(&seg->slot[i], memory_order_relaxed);
        if (slot && (uint32_t)slot != INDEX_SLOT_GONE) {
            index_seg_put(to[((uint32_t)(slot >> 32) & bit) != 0], slot);
        }
    }
}

/* The same entries without those that are gone. */
static bool rebuild(struct index_memory *memory, struct index_table *table,
                    struct index_seg *seg, uint32_t tag)
{
    struct index_seg *fresh = seg_take(memory, table->segs, seg->depth);
    if (!fresh) {
        return false;
    }
    struct index_seg *const to[2] = {fresh, fresh};
    copy_entries(to, seg, 0);
    publish(atomic_load_explicit(&table->dir, memory_order_relaxed), fresh,
            tag);
    index_pool_retire(memory, table->segs, seg->id);
    return true;
}

static bool split(struct index_memory *memory, struct index_table *table,
                  struct index_seg *seg, uint32_t tag)
{
    struct index_dir *dir =
        atomic_load_explicit(&table->dir, memory_order_relaxed);
    if (seg->depth == DEPTH_MAX ||
        (seg->depth == dir->depth && !double_dir(memory, table))) {
        return false;
    }
    dir = atomic_load_explicit(&table->dir, memory_order_relaxed);
    uint32_t bit = UINT32_C(1) << (31 - seg->depth);
    struct index_seg *low = seg_take(memory, table->segs, seg->depth + 1);
    struct index_seg *high = seg_take(memory, table->segs, seg->depth + 1);
    if (!low || !high) {
        struct index_seg *one = low ? low : high;
        if (one) {
            index_pool_give(table->segs, one->id);
        }
        return false;
    }
    struct index_seg *const to[2] = {low, high};
    copy_entries(to, seg, bit);
    publish(dir, low, tag & ~bit);
    publish(dir, high, tag | bit);
    index_pool_retire(memory, table->segs, seg->id);
    return true;
}

bool index_table_make_room(struct index_memory *memory,
                           struct index_table *table, uint32_t tag)
{
    struct index_seg *seg = index_table_seg(table, tag);
    for (uint32_t i = 0; i <= DEPTH_MAX && seg->used >= INDEX_SEG_SOFT; i++) {
        bool is_better = seg->live < INDEX_SEG_SOFT * 3 / 4
                             ? rebuild(memory, table, seg, tag)
                             : split(memory, table, seg, tag);
        if (!is_better) {
            break;
        }
        seg = index_table_seg(table, tag);
    }
    return seg->used < SEG_HARD;
}

static bool is_slot_empty(const struct index_seg *seg, uint32_t at)
{
    return !atomic_load_explicit(&seg->slot[at], memory_order_relaxed);
}

/* A gone slot before an empty one may be empty itself: whoever probes past it
 * stops one step later anyway. */
static void sweep_back(struct index_seg *seg, uint32_t at)
{
    uint32_t next = at + 1 == INDEX_SEG_SLOTS ? 0 : at + 1;
    while (is_slot_empty(seg, next)) {
        uint64_t slot =
            atomic_load_explicit(&seg->slot[at], memory_order_relaxed);
        if ((uint32_t)slot != INDEX_SLOT_GONE) {
            return;
        }
        atomic_store_explicit(&seg->slot[at], 0, memory_order_relaxed);
        seg->used--;
        next = at;
        at = at ? at - 1 : INDEX_SEG_SLOTS - 1;
    }
}

void index_table_remove(struct index_table *table, uint32_t tag, uint32_t id)
{
    struct index_seg *seg = index_table_seg(table, tag);
    uint64_t entry = (uint64_t)tag << 32 | id;
    uint32_t at = index_table_start(tag);
    while (atomic_load_explicit(&seg->slot[at], memory_order_relaxed) !=
           entry) {
        at = at + 1 == INDEX_SEG_SLOTS ? 0 : at + 1;
    }
    atomic_store_explicit(&seg->slot[at], INDEX_SLOT_GONE,
                          memory_order_release);
    seg->live--;
    sweep_back(seg, at);
}
