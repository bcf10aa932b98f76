/* SPDX-License-Identifier: Apache-2.0 */
/* extent_nodes.c - pool, order and lists of extents.
 *
 * The directory of chunks is made at once for as many chunks as the space can
 * ever need (8 bytes for each 4096 granules), so that a chunk never moves; the
 * chunks come one by one.
 */
#include "extent_nodes.h"

#include <assert.h>

#include "mci_alloc.h"

#define START_MASK ((UINT64_C(1) << 48) - 1)

static enum mc_err grow(struct mci_extents *space)
{
    if (space->chunk_count == space->chunk_max) {
        return MC_ERR_NO_AVAILABLE_HANDLE;
    }
    struct node *chunk = mci_alloc(EXTENT_CHUNK_NODES * sizeof *chunk);
    if (!chunk) {
        return MC_ERR_NOMEM;
    }
    space->chunks[space->chunk_count++] = chunk;
    space->spare += EXTENT_CHUNK_NODES;
    return MC_OK;
}

static void init_border(struct mci_extents *space)
{
    struct node *border = extent_node(space, 0);
    border->start = space->capacity & START_MASK;
    border->state = NODE_BORDER;
    border->claim = 0;
    border->prev = 0;
    border->next = 0;
    border->as.owner = NULL;
    space->touched = 1;
    space->spare--;
}

static unsigned slice_shift_for(const struct mci_extents *space)
{
    unsigned shift = 0;
    while ((EXTENT_SLICE_BYTES_MIN >> space->granule_shift) >> shift > 1 ||
           space->capacity >> shift >= EXTENT_SLICES_MAX) {
        shift++;
    }
    return shift;
}

enum mc_err extent_nodes_init(struct mci_extents *space)
{
    uint64_t chunks = (space->capacity + 1) / EXTENT_CHUNK_NODES + 1;
    uint32_t chunks_max = UINT32_MAX / EXTENT_CHUNK_NODES;
    space->chunk_max = chunks < chunks_max ? (uint32_t)chunks : chunks_max;
    space->chunks = mci_calloc(space->chunk_max, sizeof *space->chunks);
    if (!space->chunks) {
        return MC_ERR_NOMEM;
    }
    space->slice_shift = slice_shift_for(space);
    space->slice_count = (uint32_t)(space->capacity >> space->slice_shift) + 1;
    space->slices = mci_calloc(space->slice_count, sizeof *space->slices);
    if (!space->slices || grow(space) != MC_OK) {
        extent_nodes_fini(space);
        return MC_ERR_NOMEM;
    }
    init_border(space);
    return MC_OK;
}

void extent_nodes_fini(struct mci_extents *space)
{
    for (uint32_t i = 0; i < space->chunk_count; i++) {
        mci_free(space->chunks[i]);
    }
    mci_free(space->chunks);
    mci_free(space->slices);
}

enum mc_err extent_nodes_provide(struct mci_extents *space)
{
    if (space->spare > space->reserved) {
        return MC_OK;
    }
    return grow(space);
}

/* ---- slices ------------------------------------------------------------ */

static uint32_t *slice_of(struct mci_extents *space, const struct node *node)
{
    return &space->slices[node->start >> space->slice_shift];
}

static void slice_enter(struct mci_extents *space, uint32_t index)
{
    const struct node *node = extent_node(space, index);
    uint32_t *first = slice_of(space, node);
    if (*first == 0 || extent_node(space, *first)->start > node->start) {
        *first = index;
    }
}

static void slice_leave(struct mci_extents *space, uint32_t index)
{
    const struct node *node = extent_node(space, index);
    uint32_t *first = slice_of(space, node);
    if (*first != index) {
        return;
    }
    bool next_is_in = node->next != 0 &&
                      slice_of(space, extent_node(space, node->next)) == first;
    *first = next_is_in ? node->next : 0;
}

/* ---- nodes ------------------------------------------------------------- */

static uint32_t take_place(struct mci_extents *space)
{
    assert(space->spare > 0);
    space->spare--;
    uint32_t index = space->unused;
    if (index != 0) {
        space->unused = extent_node(space, index)->as.link.next;
        return index;
    }
    return space->touched++;
}

uint32_t extent_node_insert(struct mci_extents *space, uint32_t before,
                            uint64_t start)
{
    uint32_t index = take_place(space);
    struct node *node = extent_node(space, index);
    struct node *left = extent_node(space, before);
    node->start = start & START_MASK;
    node->state = NODE_UNUSED;
    node->claim = 0;
    node->as.owner = NULL;
    node->prev = before;
    node->next = left->next;
    extent_node(space, left->next)->prev = index;
    left->next = index;
    slice_enter(space, index);
    return index;
}

void extent_node_delete(struct mci_extents *space, uint32_t index)
{
    struct node *node = extent_node(space, index);
    slice_leave(space, index);
    extent_node(space, node->prev)->next = node->next;
    extent_node(space, node->next)->prev = node->prev;
    node->state = NODE_UNUSED;
    node->as.link.next = space->unused;
    space->unused = index;
    space->spare++;
}

/* ---- lists ------------------------------------------------------------- */

void extent_list_push(struct mci_extents *space, uint32_t *head, uint32_t index)
{
    struct node *node = extent_node(space, index);
    node->as.link.prev = 0;
    node->as.link.next = *head;
    if (*head != 0) {
        extent_node(space, *head)->as.link.prev = index;
    }
    *head = index;
}

void extent_list_remove(struct mci_extents *space, uint32_t *head,
                        uint32_t index)
{
    const struct node *node = extent_node(space, index);
    if (node->as.link.prev != 0) {
        extent_node(space, node->as.link.prev)->as.link.next =
            node->as.link.next;
    } else {
        assert(*head == index);
        *head = node->as.link.next;
    }
    if (node->as.link.next != 0) {
        extent_node(space, node->as.link.next)->as.link.prev =
            node->as.link.prev;
    }
}

struct extent_bin extent_bin_of(uint64_t len)
{
    struct extent_bin bin = {0, (unsigned)len};
    if (len >= EXTENT_SUBS) {
        unsigned top = 63U - (unsigned)__builtin_clzll(len);
        bin.level = top - EXTENT_SUB_BITS + 1;
        bin.sub = (unsigned)(len >> (top - EXTENT_SUB_BITS)) - EXTENT_SUBS;
    }
    return bin;
}

static void bin_enter(struct mci_extents *space, uint32_t index)
{
    struct node *node = extent_node(space, index);
    struct extent_bin bin = extent_bin_of(extent_node_len(space, node));
    node->state = NODE_FREE;
    extent_list_push(space, &space->bins[bin.level][bin.sub], index);
    space->sub_maps[bin.level] |= UINT64_C(1) << bin.sub;
    space->level_map |= UINT64_C(1) << bin.level;
    space->free_count++;
}

void extent_bin_remove(struct mci_extents *space, uint32_t index)
{
    const struct node *node = extent_node(space, index);
    struct extent_bin bin = extent_bin_of(extent_node_len(space, node));
    uint32_t *head = &space->bins[bin.level][bin.sub];
    extent_list_remove(space, head, index);
    space->free_count--;
    if (*head != 0) {
        return;
    }
    space->sub_maps[bin.level] &= ~(UINT64_C(1) << bin.sub);
    if (space->sub_maps[bin.level] == 0) {
        space->level_map &= ~(UINT64_C(1) << bin.level);
    }
}

void extent_node_release(struct mci_extents *space, uint32_t index)
{
    uint32_t prev = extent_node(space, index)->prev;
    uint32_t next = extent_node(space, index)->next;
    if (extent_node(space, prev)->state == NODE_FREE) {
        extent_bin_remove(space, prev);
        extent_node_delete(space, index);
        index = prev;
    }
    if (extent_node(space, next)->state == NODE_FREE) {
        extent_bin_remove(space, next);
        extent_node_delete(space, next);
    }
    bin_enter(space, index);
}
