/* SPDX-License-Identifier: Apache-2.0 */
/* index_table.h - hash tables from a 32-bit tag to ids of records.
 *
 * A directory of segments, chosen by the tag's first bits. A segment that is
 * full is split in two, alone: so growing costs a few microseconds at a time,
 * whatever the size, and readers go on in the old segment until the new ones
 * are published. A slot holds (tag, id) in one word and never moves inside its
 * segment; the caller compares the record itself, since tags may be equal.
 *
 * Threads: one writer, any readers between index_memory_enter and _leave.
 */
#ifndef INDEX_TABLE_H
#define INDEX_TABLE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "index_memory.h"

#define INDEX_SEG_SLOTS 1016u
#define INDEX_SLOT_GONE UINT32_MAX

struct index_seg {  /* 8 KiB */
    uint32_t id;    /* in the pool of segments */
    uint32_t link;  /* of the pool's lists */
    uint32_t used;  /* slots that are not empty */
    uint32_t live;  /* of these, not gone */
    uint32_t depth; /* how many first bits of the tag all its entries share */
    uint32_t pad[11];
    _Atomic uint64_t slot[INDEX_SEG_SLOTS]; /* tag << 32 | id; 0 = empty */
};

struct index_dir {
    uint32_t depth;
    uint32_t pad;
    _Atomic(struct index_seg *) seg[];
};

struct index_table {
    _Atomic(struct index_dir *) dir;
    struct index_pool *segs; /* shared by all tables of an index */
};

MC_CHECK_RESULT enum mc_err index_table_init(struct index_memory *memory,
                                             struct index_table *table,
                                             struct index_pool *segs);
void index_table_fini(struct index_memory *memory, struct index_table *table);

#define INDEX_SEG_SOFT 660u /* used slots from which a segment is split */

/* The way of index_table_insert into a segment that is rather full. */
bool index_table_make_room(struct index_memory *memory,
                           struct index_table *table, uint32_t tag);
/* The pair must be there. Needs no memory. */
void index_table_remove(struct index_table *table, uint32_t tag, uint32_t id);

struct index_probe {
    const struct index_seg *seg;
    uint32_t tag;
    uint32_t at;
    uint32_t left;
};

static inline uint32_t index_table_start(uint32_t tag)
{
    return ((tag & 0xffff) * INDEX_SEG_SLOTS) >> 16;
}

static inline struct index_seg *index_table_seg(const struct index_table *table,
                                                uint32_t tag)
{
    struct index_dir *dir =
        atomic_load_explicit(&table->dir, memory_order_acquire);
    uint32_t at = (uint32_t)(((uint64_t)tag << dir->depth) >> 32);
    return atomic_load_explicit(&dir->seg[at], memory_order_acquire);
}

static inline void index_seg_put(struct index_seg *seg, uint64_t entry)
{
    uint32_t at = index_table_start((uint32_t)(entry >> 32));
    uint64_t slot;
    while (
        (slot = atomic_load_explicit(&seg->slot[at], memory_order_relaxed)) &&
        (uint32_t)slot != INDEX_SLOT_GONE) {
        at = at + 1 == INDEX_SEG_SLOTS ? 0 : at + 1;
    }
    seg->used += slot ? 0 : 1;
    seg->live++;
    atomic_store_explicit(&seg->slot[at], entry, memory_order_release);
}

/* True if it went in; false at a bound or without memory. */
static inline bool index_table_insert(struct index_memory *memory,
                                      struct index_table *table, uint32_t tag,
                                      uint32_t id)
{
    struct index_seg *seg = index_table_seg(table, tag);
    if (seg->used >= INDEX_SEG_SOFT) {
        if (!index_table_make_room(memory, table, tag)) {
            return false;
        }
        seg = index_table_seg(table, tag);
    }
    index_seg_put(seg, (uint64_t)tag << 32 | id);
    return true;
}

static inline struct index_probe
index_probe_begin(const struct index_table *table, uint32_t tag)
{
    struct index_probe probe = {index_table_seg(table, tag), tag,
                                index_table_start(tag), INDEX_SEG_SLOTS};
    return probe;
}

/* The next id under the tag, 0 when there is none left. */
static inline uint32_t index_probe_next(struct index_probe *probe)
{
    while (probe->left) {
        uint64_t slot = atomic_load_explicit(&probe->seg->slot[probe->at],
                                             memory_order_acquire);
        if (!slot) {
            break;
        }
        probe->left--;
        probe->at = probe->at + 1 == INDEX_SEG_SLOTS ? 0 : probe->at + 1;
        if ((uint32_t)(slot >> 32) == probe->tag &&
            (uint32_t)slot != INDEX_SLOT_GONE) {
            return (uint32_t)slot;
        }
    }
    probe->left = 0;
    return 0;
}
#endif
