/* SPDX-License-Identifier: Apache-2.0 */
/* extent.c - allocation of extents.
 *
 * Which hole: first a few of the request's own bin, where holes of exactly this
 * size are (blocks of one size are the rule in a cache); then the first hole of
 * the next bin that is not empty, which fits without a look; and only before
 * saying no, more of the own bin.
 * The head of a hole is taken: taking the tail for large requests made no
 * measurable difference in mixes of small and large.
 */
#include <assert.h>

#include "extent_nodes.h"
#include "mci_alloc.h"

#define LOOK_FIRST 8
#define LOOK_LAST 512
#define GRANULE_MIN 16
#define GRANULE_MAX (1U << 20)

enum mc_err mci_extents_create(uint64_t capacity_bytes, uint32_t granule,
                               struct mci_extents **space_out)
{
    if (granule == 0) {
        granule = MCI_EXTENT_GRANULE_DEFAULT;
    }
    if (capacity_bytes > MCI_EXTENT_SPACE_MAX || granule < GRANULE_MIN ||
        granule > GRANULE_MAX || (granule & (granule - 1)) != 0) {
        return MC_ERR_INVALID_PARAMS;
    }
    struct mci_extents *space = mci_calloc(1, sizeof *space);
    if (!space) {
        return MC_ERR_NOMEM;
    }
    space->granule_shift = (unsigned)__builtin_ctz(granule);
    space->capacity = capacity_bytes >> space->granule_shift;
    if (extent_nodes_init(space) != MC_OK) {
        mci_free(space);
        return MC_ERR_NOMEM;
    }
    if (space->capacity > 0) {
        extent_node_release(space, extent_node_insert(space, 0, 0));
    }
    *space_out = space;
    return MC_OK;
}

void mci_extents_destroy(struct mci_extents *space)
{
    if (space) {
        extent_nodes_fini(space);
        mci_free(space);
    }
}

/* ---- finding a hole ---------------------------------------------------- */

static uint32_t look_in_bin(const struct mci_extents *space, uint64_t len,
                            unsigned limit)
{
    struct extent_bin bin = extent_bin_of(len);
    uint32_t index = space->bins[bin.level][bin.sub];
    for (unsigned i = 0; i < limit && index != 0; i++) {
        const struct node *node = extent_node(space, index);
        if (extent_node_len(space, node) >= len) {
            return index;
        }
        index = node->as.link.next;
    }
    return 0;
}

/* The first hole of the bins in which every hole is long enough. */
static uint32_t look_above(const struct mci_extents *space, uint64_t len)
{
    if (len >= EXTENT_SUBS) {
        unsigned top = 63U - (unsigned)__builtin_clzll(len);
        len += (UINT64_C(1) << (top - EXTENT_SUB_BITS)) - 1;
    }
    struct extent_bin bin = extent_bin_of(len);
    if (bin.level >= EXTENT_LEVELS) {
        return 0;
    }
    uint64_t subs = space->sub_maps[bin.level] & (~UINT64_C(0) << bin.sub);
    if (subs == 0) {
        uint64_t levels = space->level_map & (~UINT64_C(0) << bin.level << 1);
        if (levels == 0) {
            return 0;
        }
        bin.level = (unsigned)__builtin_ctzll(levels);
        subs = space->sub_maps[bin.level];
    }
    return space->bins[bin.level][__builtin_ctzll(subs)];
}

static uint32_t find_hole(const struct mci_extents *space, uint64_t len)
{
    uint32_t index = look_in_bin(space, len, LOOK_FIRST);
    if (index == 0) {
        index = look_above(space, len);
    }
    if (index == 0) {
        index = look_in_bin(space, len, LOOK_LAST);
    }
    return index;
}

/* ---- taking and giving back -------------------------------------------- */

static uint64_t granules_of(const struct mci_extents *space, uint64_t len)
{
    uint64_t granule = UINT64_C(1) << space->granule_shift;
    return (len >> space->granule_shift) + ((len & (granule - 1)) != 0);
}

static void mark_allocated(struct mci_extents *space, uint32_t index,
                           void *owner)
{
    struct node *node = extent_node(space, index);
    node->state = NODE_ALLOCATED;
    node->claim = 0;
    node->as.owner = owner;
    space->allocated += extent_node_len(space, node);
    space->allocated_count++;
}

/* Frees what a hole, in no bin any more, has beyond len granules. */
static void cut(struct mci_extents *space, uint32_t hole, uint64_t len)
{
    const struct node *node = extent_node(space, hole);
    if (extent_node_len(space, node) > len) {
        uint32_t rest = extent_node_insert(space, hole, node->start + len);
        extent_node_release(space, rest);
    }
}

enum mc_err mci_extents_alloc(struct mci_extents *space, uint64_t len,
                              void *owner, struct mci_extent *extent_out)
{
    if (len == 0) {
        return MC_ERR_INVALID_PARAMS;
    }
    uint64_t granules = granules_of(space, len);
    uint32_t hole =
        granules <= space->capacity ? find_hole(space, granules) : 0;
    if (hole == 0) {
        return MC_ERR_NO_AVAILABLE_HANDLE;
    }
    if (extent_node_len(space, extent_node(space, hole)) > granules) {
        enum mc_err err = extent_nodes_provide(space);
        if (err != MC_OK) {
            return err;
        }
    }
    extent_bin_remove(space, hole);
    extent_node(space, hole)->state = NODE_UNUSED;
    cut(space, hole, granules);
    mark_allocated(space, hole, owner);
    *extent_out = mci_extents_get(space, hole);
    return MC_OK;
}

/* The node of a handle that must be allocated. */
static struct node *allocated_node(struct mci_extents *space, uint32_t handle)
{
    assert(handle > 0 && handle < space->touched);
    struct node *node = extent_node(space, handle);
    assert(node->state == NODE_ALLOCATED);
    return node;
}

static void unmark_allocated(struct mci_extents *space, uint32_t handle)
{
    struct node *node = allocated_node(space, handle);
    space->allocated -= extent_node_len(space, node);
    space->allocated_count--;
    node->state = NODE_UNUSED;
}

void mci_extents_free(struct mci_extents *space, uint32_t handle)
{
    unmark_allocated(space, handle);
    extent_node_release(space, handle);
}

void mci_extents_set_owner(struct mci_extents *space, uint32_t handle,
                           void *owner)
{
    allocated_node(space, handle)->as.owner = owner;
}

/* ---- claims ------------------------------------------------------------ */

/* One open claim keeps one node in reserve, until it has taken. */
enum claim_state { CLAIM_CLOSED = 0, CLAIM_OPEN = 1, CLAIM_TAKEN = 2 };

enum mc_err mci_extents_claim_begin(struct mci_extents *space,
                                    uint32_t *claim_out)
{
    uint32_t claim = 1;
    while (claim <= MCI_CLAIMS_MAX &&
           space->claim_states[claim] != CLAIM_CLOSED) {
        claim++;
    }
    if (claim > MCI_CLAIMS_MAX) {
        return MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
    }
    enum mc_err err = extent_nodes_provide(space);
    if (err != MC_OK) {
        return err;
    }
    space->reserved++;
    space->claim_states[claim] = CLAIM_OPEN;
    *claim_out = claim;
    return MC_OK;
}

static bool joins(const struct mci_extents *space, uint32_t index,
                  uint32_t claim)
{
    const struct node *node = extent_node(space, index);
    return node->state == NODE_FREE ||
           (node->state == NODE_CLAIMED && node->claim == claim);
}

static void leave_list(struct mci_extents *space, uint32_t index)
{
    struct node *node = extent_node(space, index);
    if (node->state == NODE_FREE) {
        extent_bin_remove(space, index);
    } else {
        space->claimed -= extent_node_len(space, node);
        extent_list_remove(space, &space->claims[node->claim], index);
    }
    node->state = NODE_UNUSED;
}

static void enter_claim(struct mci_extents *space, uint32_t claim,
                        uint32_t index)
{
    struct node *node = extent_node(space, index);
    node->state = NODE_CLAIMED;
    node->claim = (uint8_t)claim;
    space->claimed += extent_node_len(space, node);
    extent_list_push(space, &space->claims[claim], index);
}

struct mci_extent mci_extents_claim_give(struct mci_extents *space,
                                         uint32_t claim, uint32_t handle)
{
    assert(claim > 0 && claim <= MCI_CLAIMS_MAX &&
           space->claim_states[claim] != CLAIM_CLOSED);
    unmark_allocated(space, handle);
    uint32_t index = handle;
    uint32_t next = extent_node(space, index)->next;
    while (joins(space, next, claim)) {
        leave_list(space, next);
        extent_node_delete(space, next);
        next = extent_node(space, index)->next;
    }
    uint32_t prev = extent_node(space, index)->prev;
    while (joins(space, prev, claim)) {
        leave_list(space, prev);
        extent_node_delete(space, index);
        index = prev;
        prev = extent_node(space, index)->prev;
    }
    enter_claim(space, claim, index);
    return mci_extents_get(space, index);
}

bool mci_extents_claim_take(struct mci_extents *space, uint32_t claim,
                            uint32_t piece, uint64_t len, void *owner,
                            struct mci_extent *extent_out)
{
    struct node *node = extent_node(space, piece);
    assert(node->state == NODE_CLAIMED && node->claim == claim);
    assert(space->claim_states[claim] == CLAIM_OPEN && len > 0);
    uint64_t granules = granules_of(space, len);
    uint64_t had = extent_node_len(space, node);
    if (had < granules) {
        return false;
    }
    leave_list(space, piece);
    space->claim_states[claim] = CLAIM_TAKEN;
    space->reserved--;
    if (had > granules) {
        uint32_t rest =
            extent_node_insert(space, piece, node->start + granules);
        enter_claim(space, claim, rest);
    }
    mark_allocated(space, piece, owner);
    *extent_out = mci_extents_get(space, piece);
    return true;
}

void mci_extents_claim_end(struct mci_extents *space, uint32_t claim)
{
    assert(claim > 0 && claim <= MCI_CLAIMS_MAX &&
           space->claim_states[claim] != CLAIM_CLOSED);
    while (space->claims[claim] != 0) {
        uint32_t index = space->claims[claim];
        leave_list(space, index);
        extent_node_release(space, index);
    }
    if (space->claim_states[claim] == CLAIM_OPEN) {
        space->reserved--;
    }
    space->claim_states[claim] = CLAIM_CLOSED;
}
