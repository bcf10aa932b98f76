/* SPDX-License-Identifier: Apache-2.0 */
/* extent_nodes.h - the nodes behind extents: a pool, the order by address, and
 * the lists they stand in.
 *
 * A node is 24 bytes. Its length is not stored: an extent ends where its
 * neighbour begins. Node 0 is the border: it begins at the end of the space and
 * closes the circle of neighbours, so neither end is a special case. Slices are
 * a coarse table from positions to the first node in each, kept exact.
 * Threads: as mci_extent.h.
 */
#ifndef EXTENT_NODES_H
#define EXTENT_NODES_H
#include "mci_extent.h"

#define EXTENT_CHUNK_NODES 4096
#define EXTENT_SUB_BITS 6
#define EXTENT_SUBS (1U << EXTENT_SUB_BITS)
#define EXTENT_LEVELS 40 /* 2^44 granules of 16 bytes */
#define EXTENT_SLICES_MAX 65536
#define EXTENT_SLICE_BYTES_MIN 65536

enum node_state {
    NODE_FREE = MCI_EXTENT_FREE,
    NODE_ALLOCATED = MCI_EXTENT_ALLOCATED,
    NODE_CLAIMED = MCI_EXTENT_CLAIMED,
    NODE_BORDER = 3,
    NODE_UNUSED = 4 /* in no extent: a place in the pool */
};

struct node {
    uint64_t start : 48; /* in granules */
    uint64_t state : 8;
    uint64_t claim : 8;
    uint32_t prev; /* by address */
    uint32_t next;
    union {
        void *owner; /* allocated */
        struct {
            uint32_t prev; /* free: in its bin, claimed: in its claim, */
            uint32_t next; /* unused: in the pool */
        } link;
    } as;
};
_Static_assert(sizeof(struct node) == 24, "a node is 24 bytes");

struct mci_extents {
    unsigned granule_shift;
    unsigned slice_shift; /* granules of a slice, as a power of two */
    uint64_t capacity;    /* this and all below in granules */
    uint64_t allocated;
    uint64_t claimed;
    uint64_t allocated_count;
    uint64_t free_count;
    /* The pool. */
    struct node **chunks;
    uint32_t chunk_count;
    uint32_t chunk_max;
    uint32_t touched;  /* nodes ever used, the border included */
    uint32_t unused;   /* first of the list of nodes given back */
    uint32_t spare;    /* nodes that can be had without growing */
    uint32_t reserved; /* of them, promised to claims */
    /* Where to begin. */
    uint32_t *slices;
    uint32_t slice_count;
    uint64_t level_map; /* bit: some bin of the level is not empty */
    uint64_t sub_maps[EXTENT_LEVELS];
    uint32_t bins[EXTENT_LEVELS][EXTENT_SUBS];
    uint32_t claims[MCI_CLAIMS_MAX + 1]; /* first node of each */
    uint8_t claim_states[MCI_CLAIMS_MAX + 1];
};

static inline struct node *extent_node(const struct mci_extents *space,
                                       uint32_t index)
{
    return &space->chunks[index / EXTENT_CHUNK_NODES]
                         [index % EXTENT_CHUNK_NODES];
}

/* Its length in granules. */
static inline uint64_t extent_node_len(const struct mci_extents *space,
                                       const struct node *node)
{
    return extent_node(space, node->next)->start - node->start;
}

/* Makes the pool with its border, and the slices. */
MC_CHECK_RESULT enum mc_err extent_nodes_init(struct mci_extents *space);
void extent_nodes_fini(struct mci_extents *space);

/* Sees to it that one node more than those promised can be had. Errors:
 * MC_ERR_NOMEM, MC_ERR_NO_AVAILABLE_HANDLE (more extents than handles). */
MC_CHECK_RESULT enum mc_err extent_nodes_provide(struct mci_extents *space);

/* Puts a node behind another one, beginning at start. Needs a spare one. */
uint32_t extent_node_insert(struct mci_extents *space, uint32_t before,
                            uint64_t start);

/* Takes a node out; the one before it grows by its length. */
void extent_node_delete(struct mci_extents *space, uint32_t index);

/* The list that begins at *head. */
void extent_list_push(struct mci_extents *space, uint32_t *head,
                      uint32_t index);
void extent_list_remove(struct mci_extents *space, uint32_t *head,
                        uint32_t index);

/* The bin of a length: level 0 has one for each length below 64, each level
 * above cuts a power of two into 64. */
struct extent_bin {
    unsigned level;
    unsigned sub;
};
struct extent_bin extent_bin_of(uint64_t len);

/* Frees a node that is in no list: merges and enters a bin. */
void extent_node_release(struct mci_extents *space, uint32_t index);

/* Takes a free node out of its bin; its state is the caller's to set. */
void extent_bin_remove(struct mci_extents *space, uint32_t index);
#endif
