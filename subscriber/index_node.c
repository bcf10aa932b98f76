/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes: made when first heard of, freed only when room is needed.
 *
 * A node that is held nowhere and has neither child nor head stands in a list,
 * in the order in which nodes came to that state; its links lie where the
 * digest of a held page would be. At the bound the first of the list goes. */
#include "index.h"

void index_node_flag(struct mc_index *ix, uint32_t id, uint64_t clear,
                     uint64_t set)
{
    struct index_node *node = node_at(ix, id);
    uint64_t where = node_where(node);
    atomic_store_explicit(&node->where, (where & ~clear) | set,
                          memory_order_relaxed);
}

/* ---- idle nodes -------------------------------------------------------- */

static bool is_idle(const struct mc_index *ix, uint32_t id)
{
    const struct index_node *node = node_at(ix, id);
    uint64_t where = node_where(node);
    if (atomic_load_explicit(&node->set, memory_order_relaxed) ||
        (where & (NODE_PARTS | NODE_PINNED)) || where_children(where)) {
        return false;
    }
    if (!(where & NODE_IN_RUN)) {
        return where_run(where) == 0; /* no marks */
    }
    const struct index_run *run = run_at(ix, where_run(where));
    return where_pos(where) + 1u == run->len && run->tail_marks == 0;
}

static void link_idle(struct mc_index *ix, uint32_t id)
{
    struct index_node *node = node_at(ix, id);
    node->u.idle.older = ix->newest_idle;
    node->u.idle.newer = 0;
    if (ix->newest_idle) {
        node_at(ix, ix->newest_idle)->u.idle.newer = id;
    } else {
        ix->oldest_idle = id;
    }
    ix->newest_idle = id;
    index_node_flag(ix, id, 0, NODE_IDLE);
}

static void unlink_idle(struct mc_index *ix, uint32_t id)
{
    struct index_node *node = node_at(ix, id);
    uint32_t older = node->u.idle.older;
    uint32_t newer = node->u.idle.newer;
    if (older) {
        node_at(ix, older)->u.idle.newer = newer;
    } else {
        ix->oldest_idle = newer;
    }
    if (newer) {
        node_at(ix, newer)->u.idle.older = older;
    } else {
        ix->newest_idle = older;
    }
    index_node_flag(ix, id, NODE_IDLE, 0);
}

void index_node_settle(struct mc_index *ix, uint32_t id)
{
    if (!(node_where(node_at(ix, id)) & NODE_IDLE) && is_idle(ix, id)) {
        link_idle(ix, id);
    }
}

void index_node_keep(struct mc_index *ix, uint32_t id)
{
    if (node_where(node_at(ix, id)) & NODE_IDLE) {
        unlink_idle(ix, id);
    }
}

void index_node_add_child(struct mc_index *ix, uint32_t id)
{
    struct index_node *node = node_at(ix, id);
    index_node_keep(ix, id);
    uint64_t where = node_where(node);
    if (where_children(where) != NODE_CHILDREN_MASK) {
        atomic_store_explicit(&node->where, where + 1, memory_order_relaxed);
    }
    if (where & NODE_IN_RUN) {
        run_at(ix, where_run(where))->branches++;
    }
}

static void lose_child(struct mc_index *ix, uint32_t id)
{
    struct index_node *node = node_at(ix, id);
    uint64_t where = node_where(node);
    if (where_children(where) != NODE_CHILDREN_MASK) {
        atomic_store_explicit(&node->where, where - 1, memory_order_relaxed);
    }
    if (where & NODE_IN_RUN) {
        run_at(ix, where_run(where))->branches--;
    }
    index_node_settle(ix, id);
}

/* ---- making and freeing ------------------------------------------------ */

void index_node_free(struct mc_index *ix, uint32_t id)
{
    struct index_node *node = node_at(ix, id);
    uint64_t where = node_where(node);
    uint32_t tenant = atomic_load_explicit(&node->tenant, memory_order_relaxed);
    uint64_t hash = atomic_load_explicit(&node->hash, memory_order_relaxed);
    uint32_t parent = index_node_parent(ix, id);
    index_node_keep(ix, id);
    index_table_remove(&ix->node_table, index_node_tag(ix, tenant, hash), id);
    /* Arrays of runs may name the node for ever; whoever meets it there sees
     * that it is nobody's. */
    atomic_store_explicit(&node->tenant, 0, memory_order_release);
    if (where & NODE_IN_RUN) {
        bool is_first = where_pos(where) == 0;
        index_run_shrink(ix, where_run(where));
        if (parent && is_first) {
            lose_child(ix, parent);
        } else if (parent) {
            index_node_settle(ix, parent);
        }
    }
    count_add(&tenant_at(ix, tenant)->nodes, UINT64_MAX);
    count_add(&ix->counters.nodes, UINT64_MAX);
    count_add(&ix->counters.freed_nodes, 1);
    index_pool_retire(&ix->memory, &ix->nodes, id);
}

/* One node less, if any may go. */
static bool make_room(struct mc_index *ix)
{
    if (!ix->oldest_idle && !index_session_free_heads(ix)) {
        return false;
    }
    index_node_free(ix, ix->oldest_idle);
    return true;
}

static uint32_t take_node(struct mc_index *ix)
{
    if (index_memory_is_stuck(&ix->memory)) {
        return 0;
    }
    if (count_get(&ix->counters.nodes) >= ix->opts.max_nodes &&
        !make_room(ix)) {
        return 0;
    }
    uint32_t id = index_pool_take(&ix->memory, &ix->nodes);
    if (!id && make_room(ix)) {
        id = index_pool_take(&ix->memory, &ix->nodes);
    }
    return id;
}

static uint32_t make(struct mc_index *ix, uint32_t tenant, uint64_t hash)
{
    uint32_t id = take_node(ix);
    if (!id) {
        return 0;
    }
    struct index_node *node = node_at(ix, id);
    node->u.digest = 0;
    atomic_store_explicit(&node->where, NODE_FRESH, memory_order_relaxed);
    atomic_store_explicit(&node->set, 0, memory_order_relaxed);
    atomic_store_explicit(&node->hash, hash, memory_order_relaxed);
    atomic_store_explicit(&node->tenant, tenant, memory_order_release);
    if (!index_table_insert(&ix->memory, &ix->node_table,
                            index_node_tag(ix, tenant, hash), id)) {
        atomic_store_explicit(&node->tenant, 0, memory_order_release);
        index_pool_retire(&ix->memory, &ix->nodes, id);
        return 0;
    }
    count_add(&tenant_at(ix, tenant)->nodes, 1);
    count_add(&ix->counters.nodes, 1);
    return id;
}

uint32_t index_node_get(struct mc_index *ix, uint32_t tenant, uint64_t hash)
{
    uint32_t id = index_node_find(ix, tenant, hash);
    if (!id) {
        id = make(ix, tenant, hash);
        if (!id) {
            count_add(&ix->counters.refused_nodes, 1);
        }
    }
    return id;
}
