/* SPDX-License-Identifier: Apache-2.0 */
/* Runs: stretches of chains.
 *
 * A node joins the run of its parent when it is the first to continue it, and
 * starts another otherwise. A node's parent never changes once known, so an
 * array of ids that a reader has found stays true as far as the node it came
 * from, whatever happens to the run meanwhile: runs that are merged or cut
 * leave their old arrays as they were.
 *
 * The marks of a run end anywhere in it, and whoever asks for the sessions of
 * a late node passes over those that end before. So that this costs no more
 * than the answer, a run in which more marks end early than reach its end (and
 * more than a few) is cut where half of them have ended. */
#include "index.h"

uint32_t index_node_parent(const struct mc_index *ix, uint32_t id)
{
    uint64_t where = node_where(node_at(ix, id));
    if (!(where & NODE_IN_RUN)) {
        return 0;
    }
    const struct index_run *run = run_at(ix, where_run(where));
    uint32_t pos = where_pos(where);
    return pos ? ids_get(run, pos - 1)
               : atomic_load_explicit(&run->parent, memory_order_relaxed);
}

bool index_node_is_tail(const struct mc_index *ix, uint32_t id)
{
    uint64_t where = node_where(node_at(ix, id));
    return !(where & NODE_IN_RUN) ||
           where_pos(where) + 1u == run_at(ix, where_run(where))->len;
}

bool index_node_is_above(const struct mc_index *ix, uint32_t a, uint32_t b)
{
    uint64_t where_a = node_where(node_at(ix, a));
    while (b) {
        uint64_t where = node_where(node_at(ix, b));
        if (!(where & NODE_IN_RUN)) {
            return a == b;
        }
        if ((where_a & NODE_IN_RUN) && where_run(where) == where_run(where_a)) {
            return where_pos(where_a) <= where_pos(where);
        }
        b = atomic_load_explicit(&run_at(ix, where_run(where))->parent,
                                 memory_order_relaxed);
    }
    return false;
}

/* ---- making and growing ------------------------------------------------ */

bool index_run_reserve(struct mc_index *ix, size_t count)
{
    return count < UINT32_MAX &&
           index_pool_reserve(&ix->memory, &ix->runs, (uint32_t)count);
}

static struct index_ids *own_ids(struct index_run *run)
{
    return (struct index_ids *)(void *)&run->own_cap;
}

static void run_init(struct index_run *run)
{
    run->own_cap = INDEX_RUN_OWN;
    for (uint32_t i = 0; i < INDEX_RUN_OWN; i++) {
        atomic_store_explicit(&run->own[i], 0, memory_order_relaxed);
    }
    atomic_store_explicit(&run->ids, own_ids(run), memory_order_relaxed);
    atomic_store_explicit(&run->parent, 0, memory_order_relaxed);
    atomic_store_explicit(&run->marks, 0, memory_order_relaxed);
    run->mark_count = 0;
    run->tail_marks = 0;
    run->branches = 0;
    run->len = 0;
    run->has_shrunk = false;
    run->is_own = true;
    run->is_hashed = false;
}

/* How many runs hang below a node; "many" is too many to ever get down to 0. */
static uint32_t branches_of(uint64_t where)
{
    uint32_t children = where_children(where);
    return children == NODE_CHILDREN_MASK ? UINT32_C(1) << 24 : children;
}

static void place_node(struct mc_index *ix, uint32_t run_id, uint32_t id,
                       uint32_t pos)
{
    struct index_node *node = node_at(ix, id);
    uint64_t where = node_where(node);
    node_set_where(node, (where & ~NODE_PLACE_MASK) | NODE_IN_RUN |
                             (uint64_t)run_id << 32 | (uint64_t)pos << 24);
}

uint32_t index_run_make(struct mc_index *ix, uint32_t node)
{
    uint64_t where = node_where(node_at(ix, node));
    if (where & NODE_IN_RUN) {
        return where_run(where);
    }
    uint32_t id = index_pool_take(&ix->memory, &ix->runs);
    struct index_run *run = run_at(ix, id);
    run_init(run);
    run->len = 1;
    run->first = node;
    run->branches = branches_of(where);
    for (uint32_t m = where_run(where); m;) {
        run->mark_count++;
        m = atomic_load_explicit(&mark_at(ix, m)->next_run,
                                 memory_order_relaxed);
    }
    run->tail_marks = run->mark_count;
    run->is_hashed = (where & NODE_HASHED) != 0;
    atomic_store_explicit(&run->own[0], node, memory_order_relaxed);
    atomic_store_explicit(&run->marks, where_run(where), memory_order_relaxed);
    place_node(ix, id, node, 0);
    return id;
}

static uint32_t next_cap(const struct index_run *run, uint32_t need,
                         size_t more)
{
    if (more) {
        return more > INDEX_RUN_MAX - need ? INDEX_RUN_MAX
                                           : need + (uint32_t)more;
    }
    /* With the block's head and the array's, sizes that malloc likes. */
    uint32_t cap = 14;
    while (cap < need) {
        cap = cap * 2 + 2;
    }
    return run->len && cap < INDEX_RUN_MAX ? cap : INDEX_RUN_MAX;
}

bool index_run_extend(struct mc_index *ix, struct index_run *run,
                      uint32_t count, size_t more)
{
    uint32_t need = run->len + count;
    struct index_ids *old =
        atomic_load_explicit(&run->ids, memory_order_relaxed);
    if (need > INDEX_RUN_MAX || (run->has_shrunk && run->len > 64)) {
        return false;
    }
    if (!run->has_shrunk && need <= old->cap) {
        return true;
    }
    uint32_t cap = next_cap(run, need, more);
    struct index_ids *ids =
        index_block_take(&ix->memory, sizeof *ids + cap * sizeof ids->at[0]);
    if (!ids) {
        return false;
    }
    ids->cap = cap;
    for (uint32_t i = 0; i < run->len; i++) {
        atomic_store_explicit(&ids->at[i], ids_get(run, i),
                              memory_order_relaxed);
    }
    atomic_store_explicit(&run->ids, ids, memory_order_release);
    if (!run->is_own) {
        index_block_retire(&ix->memory, old);
    }
    run->is_own = false;
    run->has_shrunk = false;
    return true;
}

void index_run_append(struct mc_index *ix, uint32_t run_id, uint32_t node)
{
    struct index_run *run = run_at(ix, run_id);
    struct index_ids *ids =
        atomic_load_explicit(&run->ids, memory_order_relaxed);
    atomic_store_explicit(&ids->at[run->len], node, memory_order_release);
    run->branches += branches_of(node_where(node_at(ix, node)));
    place_node(ix, run_id, node, run->len);
    run->len++;
    run->tail_marks = 0;
}

static uint32_t reach_pos(uint32_t reach)
{
    return reach & ~MARK_HEAD;
}

static uint32_t mark_reach(const struct index_mark *mark)
{
    return atomic_load_explicit(&mark->reach, memory_order_relaxed);
}

void index_run_count_tail(struct mc_index *ix, uint32_t run_id)
{
    struct index_run *run = run_at(ix, run_id);
    run->tail_marks = 0;
    uint32_t m = atomic_load_explicit(&run->marks, memory_order_relaxed);
    while (m) {
        const struct index_mark *mark = mark_at(ix, m);
        run->tail_marks += reach_pos(mark_reach(mark)) + 1u == run->len;
        m = atomic_load_explicit(&mark->next_run, memory_order_relaxed);
    }
}

void index_run_shrink(struct mc_index *ix, uint32_t run_id)
{
    struct index_run *run = run_at(ix, run_id);
    run->len--;
    run->has_shrunk = true;
    if (run->len) {
        index_run_count_tail(ix, run_id);
        return;
    }
    if (!run->is_own) {
        index_block_retire(
            &ix->memory, atomic_load_explicit(&run->ids, memory_order_relaxed));
    }
    index_pool_retire(&ix->memory, &ix->runs, run_id);
}

/* ---- cutting ----------------------------------------------------------- */

/* The position at which half of the marks that end early have ended. */
static uint32_t pick_cut(const struct mc_index *ix, const struct index_run *run)
{
    uint32_t ends[INDEX_RUN_MAX] = {0};
    uint32_t m = atomic_load_explicit(&run->marks, memory_order_relaxed);
    while (m) {
        const struct index_mark *mark = mark_at(ix, m);
        ends[reach_pos(mark_reach(mark))]++;
        m = atomic_load_explicit(&mark->next_run, memory_order_relaxed);
    }
    uint32_t early = run->mark_count - run->tail_marks;
    uint32_t seen = 0;
    uint32_t pos = 0;
    for (; pos + 2u < run->len; pos++) {
        seen += ends[pos];
        if (seen * 2 >= early) {
            break;
        }
    }
    return pos;
}

/* A run of the nodes behind the cut, not yet theirs. */
static uint32_t make_back(struct mc_index *ix, const struct index_run *run,
                          uint32_t cut)
{
    uint32_t count = run->len - (cut + 1u);
    if (!index_pool_reserve(&ix->memory, &ix->runs, ix->reserved_runs + 1)) {
        return 0; /* the chain under way may need them */
    }
    uint32_t id = index_pool_take(&ix->memory, &ix->runs);
    struct index_run *back = run_at(ix, id);
    run_init(back);
    if (!index_run_extend(ix, back, count, 0)) {
        index_pool_retire(&ix->memory, &ix->runs, id);
        return 0;
    }
    struct index_ids *ids =
        atomic_load_explicit(&back->ids, memory_order_relaxed);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t node = ids_get(run, cut + 1 + i);
        atomic_store_explicit(&ids->at[i], node, memory_order_relaxed);
        back->branches += branches_of(node_where(node_at(ix, node)));
    }
    back->len = (uint16_t)count;
    back->first = ids_get(run, cut + 1);
    atomic_store_explicit(&back->parent, ids_get(run, cut),
                          memory_order_relaxed);
    return id;
}

static void drop_back(struct mc_index *ix, uint32_t back_id)
{
    struct index_run *back = run_at(ix, back_id);
    uint32_t m;
    while ((m = atomic_load_explicit(&back->marks, memory_order_relaxed))) {
        atomic_store_explicit(&back->marks,
                              atomic_load_explicit(&mark_at(ix, m)->next_run,
                                                   memory_order_relaxed),
                              memory_order_relaxed);
        index_mark_leave(ix, m, back->is_hashed);
    }
    if (!back->is_own) {
        index_block_retire(&ix->memory, atomic_load_explicit(
                                            &back->ids, memory_order_relaxed));
    }
    index_pool_retire(&ix->memory, &ix->runs, back_id);
}

/* Marks on the back run for those that reach into it. */
static bool mark_back(struct mc_index *ix, const struct index_run *run,
                      uint32_t cut, uint32_t back_id)
{
    struct index_mark_place place = {ids_get(run, cut + 1), back_id, 0};
    uint32_t m = atomic_load_explicit(&run->marks, memory_order_relaxed);
    while (m) {
        const struct index_mark *mark = mark_at(ix, m);
        uint32_t reach = mark_reach(mark);
        if (reach_pos(reach) > cut) {
            place.pos = reach_pos(reach) - (cut + 1);
            uint32_t session =
                atomic_load_explicit(&mark->session, memory_order_relaxed);
            if (!index_mark_make(ix, session, &place, reach & MARK_HEAD)) {
                return false;
            }
        }
        m = atomic_load_explicit(&mark->next_run, memory_order_relaxed);
    }
    return true;
}

/* Readers who come by a node of the back find its marks at every moment: they
 * look whether it has moved once they have read them (index_read.c). */
static uint32_t cut_run(struct mc_index *ix, uint32_t run_id, uint32_t cut)
{
    struct index_run *run = run_at(ix, run_id);
    uint32_t back_id = make_back(ix, run, cut);
    if (!back_id) {
        return 0;
    }
    if (!mark_back(ix, run, cut, back_id)) {
        drop_back(ix, back_id);
        return 0;
    }
    struct index_run *back = run_at(ix, back_id);
    for (uint32_t i = 0; i < back->len; i++) {
        place_node(ix, back_id, ids_get(back, i), i);
    }
    run->branches -= back->branches;
    run->len = (uint16_t)(cut + 1);
    run->has_shrunk = true;
    index_node_add_child(ix, ids_get(run, cut));
    uint32_t m = atomic_load_explicit(&run->marks, memory_order_relaxed);
    for (; m; m = atomic_load_explicit(&mark_at(ix, m)->next_run,
                                       memory_order_relaxed)) {
        if (reach_pos(mark_reach(mark_at(ix, m))) > cut) {
            index_mark_move(ix, m, cut);
        }
    }
    index_run_count_tail(ix, run_id);
    index_run_count_tail(ix, back_id);
    return back_id;
}

void index_run_balance(struct mc_index *ix, uint32_t run_id)
{
    while (run_id && !ix->is_grafting) {
        const struct index_run *run = run_at(ix, run_id);
        uint32_t early = run->mark_count - run->tail_marks;
        if (early <= INDEX_MID_MAX || early <= run->tail_marks) {
            return;
        }
        run_id = cut_run(ix, run_id, pick_cut(ix, run));
    }
}
