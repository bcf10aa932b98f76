/* SPDX-License-Identifier: Apache-2.0 */
/* extent_walk.c - looking at extents: by handle, by position, as a whole. */
#include <assert.h>

#include "extent_nodes.h"

struct mci_extent mci_extents_get(const struct mci_extents *space,
                                  uint32_t handle)
{
    assert(handle > 0 && handle < space->touched);
    const struct node *node = extent_node(space, handle);
    assert(node->state <= NODE_CLAIMED);
    struct mci_extent extent = {
        .handle = handle,
        .state = (enum mci_extent_state)node->state,
        .offset = (uint64_t)node->start << space->granule_shift,
        .len = extent_node_len(space, node) << space->granule_shift,
        .owner = node->state == NODE_ALLOCATED ? node->as.owner : NULL,
    };
    return extent;
}

/* A slice without a beginning lies inside an extent that began before. */
uint32_t mci_extents_near(const struct mci_extents *space, uint64_t offset)
{
    uint64_t place = offset >> space->granule_shift;
    if (place >= space->capacity) {
        return MCI_EXTENT_NONE;
    }
    uint64_t slice = place >> space->slice_shift;
    while (space->slices[slice] == 0) {
        slice--;
    }
    uint32_t index = space->slices[slice];
    if (slice == place >> space->slice_shift) {
        return index;
    }
    for (;;) {
        uint32_t next = extent_node(space, index)->next;
        if (next == 0 || extent_node(space, next)->start > place) {
            return index;
        }
        index = next;
    }
}

uint32_t mci_extents_at(const struct mci_extents *space, uint64_t offset)
{
    uint32_t index = mci_extents_near(space, offset);
    if (index == MCI_EXTENT_NONE) {
        return MCI_EXTENT_NONE;
    }
    uint64_t place = offset >> space->granule_shift;
    if (extent_node(space, index)->start > place) {
        return extent_node(space, index)->prev;
    }
    for (;;) {
        uint32_t next = extent_node(space, index)->next;
        if (next == 0 || extent_node(space, next)->start > place) {
            return index;
        }
        index = next;
    }
}

uint32_t mci_extents_next(const struct mci_extents *space, uint32_t handle)
{
    assert(handle > 0 && handle < space->touched);
    return extent_node(space, handle)->next;
}

static uint64_t largest_free(const struct mci_extents *space)
{
    if (space->level_map == 0) {
        return 0;
    }
    unsigned level = 63U - (unsigned)__builtin_clzll(space->level_map);
    unsigned sub = 63U - (unsigned)__builtin_clzll(space->sub_maps[level]);
    uint64_t largest = 0;
    uint32_t index = space->bins[level][sub];
    while (index != 0) {
        const struct node *node = extent_node(space, index);
        uint64_t len = extent_node_len(space, node);
        largest = len > largest ? len : largest;
        index = node->as.link.next;
    }
    return largest;
}

void mci_extents_stats(const struct mci_extents *space,
                       struct mci_extents_stats *stats_out)
{
    unsigned shift = space->granule_shift;
    uint64_t taken = space->allocated + space->claimed;
    struct mci_extents_stats stats = {
        .capacity_bytes = space->capacity << shift,
        .allocated_bytes = space->allocated << shift,
        .claimed_bytes = space->claimed << shift,
        .free_bytes = (space->capacity - taken) << shift,
        .largest_free_bytes = largest_free(space) << shift,
        .allocated_count = space->allocated_count,
        .free_count = space->free_count,
        .node_bytes = (uint64_t)space->chunk_count * EXTENT_CHUNK_NODES *
                      sizeof(struct node),
    };
    *stats_out = stats;
}

/* ---- check ------------------------------------------------------------- */

struct tally {
    uint64_t granules[NODE_BORDER];
    uint64_t count[NODE_BORDER];
};

static bool node_is_sound(const struct mci_extents *space, uint32_t index)
{
    const struct node *node = extent_node(space, index);
    const struct node *next = extent_node(space, node->next);
    if (node->state > NODE_CLAIMED || next->prev != index ||
        next->start <= node->start) {
        return false;
    }
    if (node->state == NODE_FREE && next->state == NODE_FREE) {
        return false;
    }
    uint64_t slice = node->start >> space->slice_shift;
    const struct node *prev = extent_node(space, node->prev);
    bool begins_slice = prev->state == NODE_BORDER ||
                        prev->start >> space->slice_shift != slice;
    return (space->slices[slice] == index) == begins_slice;
}

static bool bins_are_sound(const struct mci_extents *space)
{
    uint64_t count = 0;
    for (unsigned level = 0; level < EXTENT_LEVELS; level++) {
        uint64_t map = 0;
        for (unsigned sub = 0; sub < EXTENT_SUBS; sub++) {
            uint32_t index = space->bins[level][sub];
            map |= (uint64_t)(index != 0) << sub;
            while (index != 0) {
                const struct node *node = extent_node(space, index);
                struct extent_bin bin =
                    extent_bin_of(extent_node_len(space, node));
                if (node->state != NODE_FREE || bin.level != level ||
                    bin.sub != sub) {
                    return false;
                }
                count++;
                index = node->as.link.next;
            }
        }
        if (map != space->sub_maps[level] ||
            (map != 0) != (space->level_map >> level & 1)) {
            return false;
        }
    }
    return count == space->free_count;
}

bool mci_extents_check(const struct mci_extents *space)
{
    struct tally tally = {{0}, {0}};
    uint64_t nodes = 1;
    uint32_t index = extent_node(space, 0)->next;
    if (index != 0 && extent_node(space, index)->start != 0) {
        return false;
    }
    while (index != 0) {
        const struct node *node = extent_node(space, index);
        if (!node_is_sound(space, index)) {
            return false;
        }
        tally.granules[node->state] += extent_node_len(space, node);
        tally.count[node->state]++;
        nodes++;
        index = node->next;
    }
    uint64_t places = (uint64_t)space->chunk_count * EXTENT_CHUNK_NODES;
    return tally.granules[NODE_ALLOCATED] == space->allocated &&
           tally.granules[NODE_CLAIMED] == space->claimed &&
           tally.count[NODE_ALLOCATED] == space->allocated_count &&
           tally.count[NODE_FREE] == space->free_count &&
           nodes + space->spare == places && bins_are_sound(space);
}
