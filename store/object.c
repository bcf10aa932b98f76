/* SPDX-License-Identifier: Apache-2.0 */
#include "object.h"

#include <string.h>

#include "chunks.h"
#include "mci_alloc.h"

/* ---- labels ------------------------------------------------------------ */

#define EXTRAS_ALIGN _Alignof(struct mci_extras)

static size_t extras_offset(size_t key_len, size_t tag_len)
{
    size_t end = sizeof(struct mci_label) + key_len + tag_len;
    return (end + EXTRAS_ALIGN - 1) & ~(EXTRAS_ALIGN - 1);
}

struct mci_label *mci_label_create(const struct mci_label_opts *opts)
{
    size_t size = sizeof(struct mci_label) + opts->key.len + opts->tag.len;
    if (opts->has_extras) {
        size = extras_offset(opts->key.len, opts->tag.len) +
               sizeof(struct mci_extras);
    }
    struct mci_label *label = mci_alloc(size);
    if (!label) {
        return NULL;
    }
    label->chain = 0;
    label->key_len = (uint16_t)opts->key.len;
    label->tag_len = (uint16_t)opts->tag.len;
    label->tenant = opts->tenant;
    label->data_type = opts->data_type;
    label->has_extras = opts->has_extras;
    label->is_shared = false;
    label->has_sums = opts->has_sums;
    memcpy(label->bytes, opts->key.data, opts->key.len);
    if (opts->tag.len > 0) {
        memcpy(label->bytes + opts->key.len, opts->tag.data, opts->tag.len);
    }
    if (opts->has_extras) {
        struct mci_extras *extras = mci_label_extras(label);
        memset(extras, 0, sizeof *extras);
        mci_list_init(&extras->member.link);
    }
    return label;
}

void mci_label_destroy(struct mci_label *label)
{
    if (!label) {
        return;
    }
    struct mci_extras *extras = mci_label_extras(label);
    if (extras) {
        mci_free(extras->heirloom);
    }
    mci_free(label);
}

struct mc_view mci_label_key(const struct mci_label *label)
{
    return mc_view_make(label->bytes, label->key_len);
}

struct mc_view mci_label_tag(const struct mci_label *label)
{
    if (label->tag_len == 0) {
        const struct mci_extras *extras = mci_label_extras(label);
        if (!extras || !extras->heirloom) {
            return mc_view_make(NULL, 0);
        }
        label = extras->heirloom;
    }
    return mc_view_make(label->bytes + label->key_len, label->tag_len);
}

struct mci_extras *mci_label_extras(const struct mci_label *label)
{
    if (!label->has_extras) {
        return NULL;
    }
    size_t offset = extras_offset(label->key_len, label->tag_len);
    return (struct mci_extras *)(void *)((char *)(uintptr_t)label + offset);
}

void mci_label_inherit(struct mci_label *heir, struct mci_label *from)
{
    struct mci_extras *extras = mci_label_extras(heir);
    if (from->tag_len > 0) {
        from->is_shared = true;
        extras->heirloom = from;
        return;
    }
    struct mci_extras *from_extras = mci_label_extras(from);
    if (from_extras) {
        extras->heirloom = from_extras->heirloom;
        from_extras->heirloom = NULL;
    }
}

bool mci_label_release(struct mci_label *label)
{
    struct mci_extras *extras = mci_label_extras(label);
    if (extras && extras->heirloom && extras->heirloom->is_shared) {
        extras->heirloom->is_shared = false;
        extras->heirloom = NULL;
    }
    bool was_shared = label->is_shared;
    label->is_shared = false;
    return !was_shared;
}

/* ---- pool -------------------------------------------------------------- */

#define CHUNKS_FIRST 4

static enum mc_err add_chunk(struct mci_pool *pool)
{
    if (pool->chunk_count == pool->chunk_max) {
        uint32_t max = pool->chunk_max ? pool->chunk_max * 2 : CHUNKS_FIRST;
        struct mci_record **chunks =
            mci_realloc(pool->chunks, max * sizeof(*chunks));
        if (!chunks) {
            return MC_ERR_NOMEM;
        }
        pool->chunks = chunks;
        pool->chunk_max = max;
    }
    struct mci_record *chunk = mci_chunks_take(pool->source);
    if (!chunk) {
        return MC_ERR_NOMEM;
    }
    pool->chunks[pool->chunk_count++] = chunk;
    return MC_OK;
}

enum mc_err mci_pool_take(struct mci_pool *pool, uint32_t *index_out)
{
    uint32_t index = pool->unused;
    if (index != 0) {
        pool->unused = mci_pool_at(pool, index)->next;
    } else {
        index = pool->touched ? pool->touched : 1;
        if (index / MCI_POOL_CHUNK >= pool->chunk_count) {
            enum mc_err err = add_chunk(pool);
            if (err != MC_OK) {
                return err;
            }
        }
        pool->touched = index + 1;
    }
    struct mci_record *record = mci_pool_at(pool, index);
    memset(record, 0, sizeof *record);
    *index_out = index;
    return MC_OK;
}

void mci_pool_give(struct mci_pool *pool, uint32_t index)
{
    struct mci_record *record = mci_pool_at(pool, index);
    memset(record, 0, sizeof *record);
    record->next = pool->unused;
    pool->unused = index;
}

void mci_pool_fini(struct mci_pool *pool)
{
    mci_free(pool->chunks);
    memset(pool, 0, sizeof *pool);
}

/* ---- queues ------------------------------------------------------------ */

void mci_queue_push_back(const struct mci_pool *pool, struct mci_queue *queue,
                         uint32_t index)
{
    struct mci_record *record = mci_pool_at(pool, index);
    record->prev = queue->tail;
    record->next = 0;
    if (queue->tail != 0) {
        mci_pool_at(pool, queue->tail)->next = index;
    } else {
        queue->head = index;
    }
    queue->tail = index;
}

void mci_queue_push_front(const struct mci_pool *pool, struct mci_queue *queue,
                          uint32_t index)
{
    struct mci_record *record = mci_pool_at(pool, index);
    record->prev = 0;
    record->next = queue->head;
    if (queue->head != 0) {
        mci_pool_at(pool, queue->head)->prev = index;
    } else {
        queue->tail = index;
    }
    queue->head = index;
}

void mci_queue_remove(const struct mci_pool *pool, struct mci_queue *queue,
                      uint32_t index)
{
    struct mci_record *record = mci_pool_at(pool, index);
    if (record->prev != 0) {
        mci_pool_at(pool, record->prev)->next = record->next;
    } else {
        queue->head = record->next;
    }
    if (record->next != 0) {
        mci_pool_at(pool, record->next)->prev = record->prev;
    } else {
        queue->tail = record->prev;
    }
    record->prev = 0;
    record->next = 0;
}

/* ---- limbo ------------------------------------------------------------- */

/* Joins two heaps, neither of which has siblings. */
static uint32_t meld(const struct mci_pool *pool, uint32_t a, uint32_t b)
{
    if (a == 0 || b == 0) {
        return a != 0 ? a : b;
    }
    if (mci_pool_at(pool, b)->lease_ns < mci_pool_at(pool, a)->lease_ns) {
        uint32_t swap = a;
        a = b;
        b = swap;
    }
    mci_pool_at(pool, b)->next = mci_pool_at(pool, a)->prev;
    mci_pool_at(pool, a)->prev = b;
    return a;
}

void mci_limbo_push(const struct mci_pool *pool, uint32_t *root, uint32_t index)
{
    struct mci_record *record = mci_pool_at(pool, index);
    record->prev = 0;
    record->next = 0;
    *root = meld(pool, *root, index);
}

/* Takes the heap at *siblings off its list. */
static uint32_t detach(const struct mci_pool *pool, uint32_t *siblings)
{
    uint32_t index = *siblings;
    if (index != 0) {
        struct mci_record *record = mci_pool_at(pool, index);
        *siblings = record->next;
        record->next = 0;
    }
    return index;
}

uint32_t mci_limbo_pop(const struct mci_pool *pool, uint32_t *root)
{
    uint32_t first = *root;
    if (first == 0) {
        return 0;
    }
    uint32_t children = mci_pool_at(pool, first)->prev;
    uint32_t pairs = 0;
    while (children != 0) {
        uint32_t a = detach(pool, &children);
        uint32_t b = detach(pool, &children);
        uint32_t pair = meld(pool, a, b);
        mci_pool_at(pool, pair)->next = pairs;
        pairs = pair;
    }
    uint32_t heap = 0;
    while (pairs != 0) {
        heap = meld(pool, heap, detach(pool, &pairs));
    }
    *root = heap;
    mci_pool_at(pool, first)->prev = 0;
    return first;
}
