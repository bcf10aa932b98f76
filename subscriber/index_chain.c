/* SPDX-License-Identifier: Apache-2.0 */
/* Chains: checked whole, then linked.
 *
 * A block may come once in a chain and not above it. A flag on the blocks seen
 * finds repetitions. Whether a block stands above the chain is asked only where
 * it can: one whose parent is the block before it stands below, and one that
 * has nothing below it stands above nothing. */
#include "index.h"

/* ---- linking ----------------------------------------------------------- */

/* A list of marks is walked, whose marks leave it one by one: no session may be
 * let go for room meanwhile, and no mark that left may become another one. */
static void begin_grafting(struct mc_index *ix)
{
    ix->is_grafting = true;
    ix->memory.is_frozen = true;
}

static void end_grafting(struct mc_index *ix)
{
    ix->is_grafting = false;
    ix->memory.is_frozen = false;
}

/* The session's mark on a node that joins the run of its parent goes up into
 * the mark on that run. False if the session had to be let go. */
static bool move_mark(struct mc_index *ix, uint32_t id, uint32_t run_id,
                      uint32_t parent)
{
    struct index_mark *mark = mark_at(ix, id);
    uint32_t session =
        atomic_load_explicit(&mark->session, memory_order_relaxed);
    uint32_t reach = atomic_load_explicit(&mark->reach, memory_order_relaxed);
    uint32_t above;
    if (!index_mark_cover_above(ix, session, parent, &above)) {
        index_session_drop(ix, session);
        count_add(&ix->counters.dropped_sessions, 1);
        return false;
    }
    struct index_mark_place place = index_mark_place_of(ix, mark->first);
    index_mark_leave(ix, id, index_mark_is_hashed(ix, &place));
    /* The sum keeps MARK_HEAD. */
    index_mark_move(ix, above, run_at(ix, run_id)->len + reach);
    return true;
}

/* All marks of the node's run, or of the lone node, as a list. */
static uint32_t marks_of(const struct mc_index *ix, uint32_t node)
{
    uint64_t where = node_where(node_at(ix, node));
    return where & NODE_IN_RUN
               ? atomic_load_explicit(&run_at(ix, where_run(where))->marks,
                                      memory_order_relaxed)
               : where_run(where);
}

static bool has_many_marks(const struct mc_index *ix, uint32_t node)
{
    uint32_t count = 0;
    uint32_t m = marks_of(ix, node);
    while (m && count <= INDEX_MID_MAX) {
        count++;
        m = atomic_load_explicit(&mark_at(ix, m)->next_run,
                                 memory_order_relaxed);
    }
    return count > INDEX_MID_MAX;
}

/* Whether node, the first of its run or alone, may continue parent's run; the
 * run then has room. A long run does not move into a shorter one: so however
 * chains come together, no node moves more often than its run can double. */
static bool can_join(struct mc_index *ix, uint32_t parent, uint32_t node,
                     size_t more)
{
    uint64_t above = node_where(node_at(ix, parent));
    uint64_t where = node_where(node_at(ix, node));
    uint32_t count =
        where & NODE_IN_RUN ? run_at(ix, where_run(where))->len : 1;
    if (!(above & NODE_IN_RUN)) {
        return count <= 32 && !has_many_marks(ix, parent);
    }
    struct index_run *run = run_at(ix, where_run(above));
    return where_pos(above) + 1u == run->len &&
           run->tail_marks <= INDEX_MID_MAX &&
           (count <= 32 || count <= run->len) &&
           index_run_extend(ix, run, count, more);
}

/* The marks have moved already; readers keep to the old run and list. */
static void move_nodes(struct mc_index *ix, uint32_t run_id, uint32_t node)
{
    uint64_t where = node_where(node_at(ix, node));
    if (!(where & NODE_IN_RUN)) {
        index_run_append(ix, run_id, node);
        return;
    }
    uint32_t old_id = where_run(where);
    struct index_run *old = run_at(ix, old_id);
    for (uint32_t i = 0; i < old->len; i++) {
        index_run_append(ix, run_id, ids_get(old, i));
    }
    if (!old->is_own) {
        index_block_retire(
            &ix->memory, atomic_load_explicit(&old->ids, memory_order_relaxed));
    }
    index_pool_retire(&ix->memory, &ix->runs, old_id);
}

static bool join(struct mc_index *ix, uint32_t run_id, uint32_t parent,
                 uint32_t node)
{
    bool is_whole = true;
    uint32_t first_mark = marks_of(ix, node);
    begin_grafting(ix);
    for (uint32_t m = first_mark; m;) {
        uint32_t next = atomic_load_explicit(&mark_at(ix, m)->next_run,
                                             memory_order_relaxed);
        is_whole &= move_mark(ix, m, run_id, parent);
        m = next;
    }
    end_grafting(ix);
    move_nodes(ix, run_id, node);
    if (first_mark) {
        index_run_count_tail(ix, run_id);
    }
    return is_whole;
}
/* The node's run hangs below parent. */
static bool hang(struct mc_index *ix, uint32_t parent, uint32_t node)
{
    uint32_t run_id = index_run_make(ix, node);
    bool is_whole = true;
    begin_grafting(ix);
    for (uint32_t m = marks_of(ix, node); m;) {
        const struct index_mark *mark = mark_at(ix, m);
        uint32_t next =
            atomic_load_explicit(&mark->next_run, memory_order_relaxed);
        uint32_t session =
            atomic_load_explicit(&mark->session, memory_order_relaxed);
        uint32_t above;
        if (!index_mark_cover_above(ix, session, parent, &above)) {
            index_session_drop(ix, session);
            count_add(&ix->counters.dropped_sessions, 1);
            is_whole = false;
        }
        m = next;
    }
    end_grafting(ix);
    atomic_store_explicit(&run_at(ix, run_id)->parent, parent,
                          memory_order_release);
    index_node_add_child(ix, parent);
    index_run_balance(ix, where_run(node_where(node_at(ix, node))));
    return is_whole;
}

/* Near the bound on marks untouched sessions go, rather than those grafted. */
static void make_room_to_graft(struct mc_index *ix, uint32_t parent,
                               uint32_t node)
{
    uint64_t need = 0;
    if (count_get(&ix->counters.marks) <=
        ix->opts.max_marks - ix->opts.max_marks / 8) {
        return;
    }
    for (uint32_t m = marks_of(ix, node); m;) {
        const struct index_mark *mark = mark_at(ix, m);
        need += index_mark_need(
            ix, atomic_load_explicit(&mark->session, memory_order_relaxed),
            parent);
        m = atomic_load_explicit(&mark->next_run, memory_order_relaxed);
    }
    (void)index_session_make_room(ix, need);
}

bool index_node_link(struct mc_index *ix, uint32_t parent, uint32_t node,
                     size_t more)
{
    index_node_keep(ix, parent);
    make_room_to_graft(ix, parent, node);
    bool is_whole;
    if (can_join(ix, parent, node, more)) {
        uint32_t run_id = index_run_make(ix, parent);
        uint64_t where = node_where(node_at(ix, node));
        uint32_t count =
            where & NODE_IN_RUN ? run_at(ix, where_run(where))->len : 1;
        if (index_run_extend(ix, run_at(ix, run_id), count, more)) {
            is_whole = join(ix, run_id, parent, node);
            index_run_balance(ix, run_id);
            return is_whole;
        }
    }
    is_whole = hang(ix, parent, node);
    uint64_t above = node_where(node_at(ix, parent));
    index_run_balance(ix, above & NODE_IN_RUN ? where_run(above) : 0);
    return is_whole;
}

/* ---- checking ---------------------------------------------------------- */

/* Whether anything can hang below a node. */
static bool has_below(const struct mc_index *ix, uint32_t id)
{
    return where_children(node_where(node_at(ix, id))) ||
           !index_node_is_tail(ix, id);
}

/* What the chain's i-th block says; above is the one before, 0 for none. */
static enum mc_index_result check_block(struct mc_index *ix, uint32_t above,
                                        uint32_t top, uint32_t id)
{
    uint32_t known = index_node_parent(ix, id);
    if (known && known == above) {
        index_node_flag(ix, id, 0, NODE_CHAIN);
        return MC_INDEX_APPLIED;
    }
    uint64_t where = node_where(node_at(ix, id));
    if ((where & NODE_CHAIN) || id == top ||
        (top && has_below(ix, id) && index_node_is_above(ix, id, top))) {
        return MC_INDEX_CYCLIC_PARENT;
    }
    if (known || (above && (where & NODE_ROOT))) {
        return MC_INDEX_CONFLICTING_PARENT;
    }
    index_node_flag(ix, id, 0, NODE_CHAIN);
    return MC_INDEX_APPLIED;
}

/* ix->chain holds the parent, or 0, and then the chain. */
static enum mc_index_result check(struct mc_index *ix, size_t count)
{
    enum mc_index_result result = MC_INDEX_APPLIED;
    uint32_t top = ix->chain[0];
    size_t seen = 1;
    for (; seen <= count && !result; seen++) {
        result = check_block(ix, ix->chain[seen - 1], top, ix->chain[seen]);
    }
    for (size_t i = 1; i < seen; i++) {
        index_node_flag(ix, ix->chain[i], NODE_CHAIN, 0);
    }
    return result;
}

/* ---- applying ---------------------------------------------------------- */

static bool reserve_chain(struct mc_index *ix, size_t count)
{
    if (count < ix->chain_cap) {
        return true;
    }
    size_t cap = ix->chain_cap ? ix->chain_cap : 512;
    while (cap <= count) {
        if (cap > SIZE_MAX / 2 / sizeof *ix->chain) {
            return false;
        }
        cap *= 2;
    }
    uint32_t *nodes = index_block_take(&ix->memory, cap * sizeof *nodes);
    if (!nodes) {
        return false;
    }
    index_block_give(&ix->memory, ix->chain);
    ix->chain = nodes;
    ix->chain_cap = cap;
    return true;
}

static uint32_t pin_node(struct mc_index *ix, uint32_t tenant, uint64_t hash)
{
    uint32_t id = index_node_get(ix, tenant, hash);
    if (id) {
        index_node_keep(ix, id);
        index_node_flag(ix, id, 0, NODE_PINNED);
    }
    return id;
}

/* Finds or makes all nodes of the chain. False if some was refused. */
static bool pin_chain(struct mc_index *ix, const struct index_chain *chain)
{
    bool is_whole = true;
    ix->chain[0] = 0;
    for (size_t i = 0; i < chain->count; i++) {
        uint32_t id = 0;
        if (is_whole || chain->place) {
            id = pin_node(ix, chain->tenant, chain->hashes[i]);
        }
        if (id && chain->place) {
            is_whole &= index_place_add(ix, id, chain->place);
        }
        ix->chain[i + 1] = id;
        is_whole &= id != 0;
    }
    if (chain->parent && is_whole) {
        ix->chain[0] = pin_node(ix, chain->tenant, *chain->parent);
        is_whole = ix->chain[0] != 0;
    }
    return is_whole;
}

/* A node that the change made for nothing goes again. */
static void unpin_chain(struct mc_index *ix, size_t count)
{
    for (size_t i = 0; i <= count; i++) {
        uint32_t id = ix->chain[i];
        if (!id) {
            continue;
        }
        uint64_t where = node_where(node_at(ix, id));
        if (!(where & NODE_PINNED)) {
            continue; /* it stands in the chain twice */
        }
        index_node_flag(ix, id, NODE_PINNED | NODE_FRESH, 0);
        index_node_settle(ix, id);
        bool is_bare =
            (where & (NODE_FRESH | NODE_ROOT | NODE_IN_RUN)) == NODE_FRESH;
        if (is_bare && (node_where(node_at(ix, id)) & NODE_IDLE)) {
            index_node_free(ix, id);
        }
    }
}

static bool link_chain(struct mc_index *ix, size_t count)
{
    bool is_whole = true;
    if (!ix->chain[0]) {
        index_node_flag(ix, ix->chain[1], 0, NODE_ROOT);
    }
    for (size_t i = 1; i <= count; i++) {
        ix->reserved_runs = (uint32_t)(count - i) + 2;
        if (ix->chain[i - 1] && !index_node_parent(ix, ix->chain[i])) {
            is_whole &=
                index_node_link(ix, ix->chain[i - 1], ix->chain[i], count - i);
        }
    }
    ix->reserved_runs = 0;
    return is_whole;
}

enum mc_index_result index_chain_apply(struct mc_index *ix,
                                       const struct index_chain *chain)
{
    if (!reserve_chain(ix, chain->count)) {
        return MC_INDEX_FULL;
    }
    enum mc_index_result result = MC_INDEX_FULL;
    if (pin_chain(ix, chain)) {
        result = check(ix, chain->count);
        if (!result && !index_run_reserve(ix, chain->count + 1)) {
            result = MC_INDEX_FULL;
        }
    }
    if (!result) {
        bool is_whole = link_chain(ix, chain->count);
        result = index_session_advance(ix, chain->tenant, chain->session,
                                       ix->chain[chain->count]);
        if (!is_whole) {
            result = MC_INDEX_FULL;
        }
    }
    unpin_chain(ix, chain->count);
    return result;
}
