/* SPDX-License-Identifier: Apache-2.0 */
/* Marks: how far a session's lineage reaches in each run.
 *
 * Most runs have one session or a few, and their marks are found by walking the
 * run's list; a run with more has them in a table.
 *
 * A mark on a run implies marks on all runs above it, as far as the node below
 * which it hangs. So covering a node climbs only until it meets a mark, and
 * each run is climbed once in a session's life. */
#include "index.h"

static uint32_t mark_tag(const struct mc_index *ix, uint32_t session,
                         uint32_t first)
{
    return (
        uint32_t)(index_mix(((uint64_t)session << 32 | first) ^ ix->secret) >>
                  32);
}

static uint32_t mark_session(const struct index_mark *mark)
{
    return atomic_load_explicit(&mark->session, memory_order_relaxed);
}

static uint32_t mark_reach(const struct index_mark *mark)
{
    return atomic_load_explicit(&mark->reach, memory_order_relaxed);
}

static uint32_t mark_pos(const struct index_mark *mark)
{
    return mark_reach(mark) & ~MARK_HEAD;
}

static uint32_t list_head(const struct mc_index *ix,
                          const struct index_mark_place *place)
{
    return place->run ? atomic_load_explicit(&run_at(ix, place->run)->marks,
                                             memory_order_relaxed)
                      : where_run(node_where(node_at(ix, place->first)));
}

bool index_mark_is_hashed(const struct mc_index *ix,
                          const struct index_mark_place *place)
{
    return place->run
               ? run_at(ix, place->run)->is_hashed
               : (node_where(node_at(ix, place->first)) & NODE_HASHED) != 0;
}

uint32_t index_mark_find(const struct mc_index *ix, uint32_t session,
                         const struct index_mark_place *place)
{
    if (!index_mark_is_hashed(ix, place)) {
        uint32_t m = list_head(ix, place);
        while (m && mark_session(mark_at(ix, m)) != session) {
            m = atomic_load_explicit(&mark_at(ix, m)->next_run,
                                     memory_order_relaxed);
        }
        return m;
    }
    struct index_probe probe =
        index_probe_begin(&ix->mark_table, mark_tag(ix, session, place->first));
    uint32_t id;
    while ((id = index_probe_next(&probe))) {
        const struct index_mark *mark = mark_at(ix, id);
        if (mark->first == place->first && mark_session(mark) == session) {
            return id;
        }
    }
    return 0;
}

/* The run of a mark, 0 if its node is alone. */
static uint32_t mark_run(const struct mc_index *ix,
                         const struct index_mark *mark)
{
    uint64_t where = node_where(node_at(ix, mark->first));
    return where & NODE_IN_RUN ? where_run(where) : 0;
}

/* ---- the two lists ----------------------------------------------------- */

static void set_list_head(struct mc_index *ix, uint32_t run, uint32_t first,
                          uint32_t mark)
{
    if (run) {
        atomic_store_explicit(&run_at(ix, run)->marks, mark,
                              memory_order_release);
        return;
    }
    struct index_node *node = node_at(ix, first);
    uint64_t where = node_where(node) & UINT64_C(0xffffffff);
    node_set_where(node, (uint64_t)mark << 32 | where);
}

static void link_mark(struct mc_index *ix, uint32_t id,
                      const struct index_mark_place *place)
{
    struct index_mark *mark = mark_at(ix, id);
    uint32_t head = list_head(ix, place);
    atomic_store_explicit(&mark->next_run, head, memory_order_relaxed);
    mark->prev_run = 0;
    if (head) {
        mark_at(ix, head)->prev_run = id;
    }
    set_list_head(ix, place->run, place->first, id);
    struct index_session *session = session_at(ix, mark_session(mark));
    mark->prev_session = 0;
    mark->next_session = session->marks;
    if (session->marks) {
        mark_at(ix, session->marks)->prev_session = id;
    }
    session->marks = id;
}

static void count_blocks(struct mc_index *ix, const struct index_mark *mark,
                         uint64_t n)
{
    count_add(&session_at(ix, mark_session(mark))->blocks, n);
}

static bool is_list_full(const struct mc_index *ix,
                         const struct index_mark_place *place)
{
    if (place->run) {
        return run_at(ix, place->run)->mark_count >= INDEX_LISTED_MAX;
    }
    uint32_t count = 0;
    uint32_t m = list_head(ix, place);
    while (m && count < INDEX_LISTED_MAX) {
        count++;
        m = atomic_load_explicit(&mark_at(ix, m)->next_run,
                                 memory_order_relaxed);
    }
    return count == INDEX_LISTED_MAX;
}

/* Takes the marks of the list out of the table again, up to `end`. */
static void unhash_list(struct mc_index *ix,
                        const struct index_mark_place *place, uint32_t end)
{
    uint32_t m = list_head(ix, place);
    while (m != end) {
        const struct index_mark *mark = mark_at(ix, m);
        index_table_remove(&ix->mark_table,
                           mark_tag(ix, mark_session(mark), place->first), m);
        m = atomic_load_explicit(&mark->next_run, memory_order_relaxed);
    }
}

static bool hash_list(struct mc_index *ix, const struct index_mark_place *place)
{
    uint32_t m = list_head(ix, place);
    while (m) {
        const struct index_mark *mark = mark_at(ix, m);
        if (!index_table_insert(&ix->memory, &ix->mark_table,
                                mark_tag(ix, mark_session(mark), place->first),
                                m)) {
            unhash_list(ix, place, m);
            return false;
        }
        m = atomic_load_explicit(&mark->next_run, memory_order_relaxed);
    }
    if (place->run) {
        run_at(ix, place->run)->is_hashed = true;
    } else {
        index_node_flag(ix, place->first, 0, NODE_HASHED);
    }
    return true;
}

uint32_t index_mark_make(struct mc_index *ix, uint32_t session,
                         const struct index_mark_place *place, uint32_t head)
{
    if (count_get(&ix->counters.marks) >= ix->opts.max_marks) {
        return 0;
    }
    if (!index_mark_is_hashed(ix, place) && is_list_full(ix, place) &&
        !hash_list(ix, place)) {
        return 0;
    }
    uint32_t id = index_pool_take(&ix->memory, &ix->marks);
    if (!id) {
        return 0;
    }
    if (index_mark_is_hashed(ix, place) &&
        !index_table_insert(&ix->memory, &ix->mark_table,
                            mark_tag(ix, session, place->first), id)) {
        index_pool_give(&ix->marks, id);
        return 0;
    }
    struct index_mark *mark = mark_at(ix, id);
    atomic_store_explicit(&mark->session, session, memory_order_relaxed);
    atomic_store_explicit(&mark->reach, place->pos | head,
                          memory_order_relaxed);
    mark->first = place->first;
    link_mark(ix, id, place);
    count_add(&ix->counters.marks, 1);
    count_blocks(ix, mark, place->pos + UINT64_C(1));
    if (place->run) {
        struct index_run *run = run_at(ix, place->run);
        run->mark_count++;
        run->tail_marks += place->pos + 1u == run->len;
    }
    return id;
}

void index_mark_move(struct mc_index *ix, uint32_t id, uint32_t reach)
{
    struct index_mark *mark = mark_at(ix, id);
    uint32_t old = mark_pos(mark);
    uint32_t pos = reach & ~MARK_HEAD;
    uint32_t run_id = mark_run(ix, mark);
    if (run_id) {
        struct index_run *run = run_at(ix, run_id);
        run->tail_marks -= old + 1u == run->len;
        run->tail_marks += pos + 1u == run->len;
    }
    count_blocks(ix, mark, (uint64_t)pos - old);
    atomic_store_explicit(&mark->reach, reach, memory_order_release);
}

void index_mark_leave(struct mc_index *ix, uint32_t id, bool is_in_table)
{
    struct index_mark *mark = mark_at(ix, id);
    if (mark->next_session) {
        mark_at(ix, mark->next_session)->prev_session = mark->prev_session;
    }
    if (mark->prev_session) {
        mark_at(ix, mark->prev_session)->next_session = mark->next_session;
    } else {
        session_at(ix, mark_session(mark))->marks = mark->next_session;
    }
    if (is_in_table) {
        index_table_remove(&ix->mark_table,
                           mark_tag(ix, mark_session(mark), mark->first), id);
    }
    count_blocks(ix, mark, -(mark_pos(mark) + UINT64_C(1)));
    count_add(&ix->counters.marks, UINT64_MAX);
    index_pool_retire(&ix->memory, &ix->marks, id);
}

void index_mark_remove(struct mc_index *ix, uint32_t id)
{
    struct index_mark *mark = mark_at(ix, id);
    uint32_t run_id = mark_run(ix, mark);
    uint32_t next = atomic_load_explicit(&mark->next_run, memory_order_relaxed);
    if (next) {
        mark_at(ix, next)->prev_run = mark->prev_run;
    }
    if (mark->prev_run) {
        atomic_store_explicit(&mark_at(ix, mark->prev_run)->next_run, next,
                              memory_order_release);
    } else {
        set_list_head(ix, run_id, mark->first, next);
    }
    if (run_id) {
        struct index_run *run = run_at(ix, run_id);
        run->mark_count--;
        run->tail_marks -= mark_pos(mark) + 1u == run->len;
    }
    struct index_mark_place place = {mark->first, run_id, 0};
    index_mark_leave(ix, id, index_mark_is_hashed(ix, &place));
    index_run_balance(ix, run_id);
}

/* ---- covering ---------------------------------------------------------- */

static uint32_t place_parent(const struct mc_index *ix,
                             const struct index_mark_place *place)
{
    return place->run ? atomic_load_explicit(&run_at(ix, place->run)->parent,
                                             memory_order_relaxed)
                      : 0;
}

uint64_t index_mark_need(const struct mc_index *ix, uint32_t session,
                         uint32_t node)
{
    uint64_t need = 0;
    while (node) {
        struct index_mark_place place = index_mark_place_of(ix, node);
        if (session && index_mark_find(ix, session, &place)) {
            break;
        }
        need++;
        node = place_parent(ix, &place);
    }
    return need;
}

/* Where the session's last head in a run has moved to or was passed. */
static bool scan_branches(const struct mc_index *ix, uint32_t id,
                          uint32_t *pos_out)
{
    const struct index_mark *mark = mark_at(ix, id);
    uint32_t run_id = mark_run(ix, mark);
    uint32_t branches =
        run_id ? run_at(ix, run_id)->branches
               : where_children(node_where(node_at(ix, mark->first)));
    bool is_found = false;
    uint32_t m = branches ? session_at(ix, mark_session(mark))->marks : 0;
    for (; m; m = mark_at(ix, m)->next_session) {
        struct index_mark_place below =
            index_mark_place_of(ix, mark_at(ix, m)->first);
        uint32_t parent = place_parent(ix, &below);
        if (!parent) {
            continue;
        }
        struct index_mark_place at = index_mark_place_of(ix, parent);
        if (at.first == mark->first && (!is_found || at.pos > *pos_out)) {
            *pos_out = at.pos;
            is_found = true;
        }
    }
    return is_found;
}

/* A head has gone: takes back the marks that led to it alone. */
static void uncover(struct mc_index *ix, uint32_t session, uint32_t node)
{
    struct index_mark_place place = index_mark_place_of(ix, node);
    uint32_t id = index_mark_find(ix, session, &place);
    for (;;) {
        uint32_t pos = 0;
        if (scan_branches(ix, id, &pos)) {
            index_mark_move(ix, id, pos);
            break;
        }
        uint32_t parent = place_parent(ix, &place);
        index_mark_remove(ix, id);
        if (!parent) {
            break;
        }
        place = index_mark_place_of(ix, parent);
        id = index_mark_find(ix, session, &place);
        if (mark_reach(mark_at(ix, id)) != place.pos) {
            break; /* a head stands there, or the session went deeper */
        }
    }
    index_node_settle(ix, node);
}

static void undo(struct mc_index *ix, uint32_t session, uint32_t node,
                 uint32_t above)
{
    while (node != above) {
        struct index_mark_place place = index_mark_place_of(ix, node);
        node = place_parent(ix, &place);
        index_mark_remove(ix, index_mark_find(ix, session, &place));
    }
}

/* Makes marks from where *met stands up to one of the session's. */
static bool climb(struct mc_index *ix, uint32_t session, uint32_t head,
                  struct index_mark_met *met)
{
    uint32_t node = met->node;
    while (!met->mark) {
        if (!index_mark_make(ix, session, &met->place, head)) {
            undo(ix, session, node, met->node);
            return false;
        }
        head = 0;
        met->node = place_parent(ix, &met->place);
        if (!met->node) {
            break;
        }
        met->place = index_mark_place_of(ix, met->node);
        met->mark = index_mark_find(ix, session, &met->place);
    }
    return true;
}

/* The head that is passed when a mark is to reach a place; 0 if none. */
static uint32_t passed_head(const struct mc_index *ix,
                            const struct index_mark_met *met)
{
    if (!met->mark) {
        return 0;
    }
    uint32_t reach = mark_reach(mark_at(ix, met->mark));
    uint32_t pos = reach & ~MARK_HEAD;
    if (!(reach & MARK_HEAD) || pos > met->place.pos) {
        return 0;
    }
    return met->place.run ? ids_get(run_at(ix, met->place.run), pos)
                          : met->place.first;
}

static void reach_out(struct mc_index *ix, const struct index_mark_met *met,
                      uint32_t head, bool has_passed)
{
    if (met->mark &&
        (has_passed || mark_pos(mark_at(ix, met->mark)) < met->place.pos)) {
        index_mark_move(ix, met->mark, met->place.pos | head);
    }
}

bool index_mark_covers(const struct mc_index *ix, uint32_t session,
                       uint32_t node, struct index_mark_met *met_out)
{
    met_out->node = node;
    met_out->place = index_mark_place_of(ix, node);
    met_out->mark = index_mark_find(ix, session, &met_out->place);
    return met_out->mark &&
           mark_pos(mark_at(ix, met_out->mark)) >= met_out->place.pos;
}

/* A lone node that no session holds yet, the first that is heard of most
 * blocks: one mark, one head, nothing above. */
static bool cover_lone(struct mc_index *ix, uint32_t session, uint32_t node,
                       const struct index_mark_place *place)
{
    uint32_t lost = 0;
    uint32_t mark = index_mark_make(ix, session, place, MARK_HEAD);
    if (!mark) {
        return false;
    }
    if (!index_heads_put(ix, session, 0, node, &lost)) {
        index_mark_remove(ix, mark);
        return false;
    }
    index_node_keep(ix, node);
    if (lost) {
        uncover(ix, session, lost);
    }
    return true;
}

bool index_mark_cover(struct mc_index *ix, uint32_t session, uint32_t node,
                      const struct index_mark_met *begin)
{
    if (!begin->mark && !begin->place.run) {
        return cover_lone(ix, session, node, &begin->place);
    }
    struct index_mark_met met = *begin;
    uint32_t lost = 0;
    if (!climb(ix, session, MARK_HEAD, &met)) {
        return false;
    }
    uint32_t passed = passed_head(ix, &met);
    if (!index_heads_put(ix, session, passed, node, &lost)) {
        undo(ix, session, node, met.node);
        return false;
    }
    reach_out(ix, &met, met.node == node ? MARK_HEAD : 0, passed != 0);
    index_node_keep(ix, node);
    if (lost) {
        uncover(ix, session, lost);
    }
    if (begin->place.run) {
        index_run_balance(ix, index_mark_place_of(ix, node).run);
    }
    if (met.node && met.node != node) {
        index_run_balance(ix, index_mark_place_of(ix, met.node).run);
    }
    return true;
}

bool index_mark_cover_above(struct mc_index *ix, uint32_t session,
                            uint32_t node, uint32_t *mark_out)
{
    struct index_mark_met met;
    (void)index_mark_covers(ix, session, node, &met);
    struct index_mark_place place = met.place;
    uint32_t found = met.mark;
    if (!climb(ix, session, 0, &met)) {
        return false;
    }
    uint32_t passed = passed_head(ix, &met);
    if (passed) {
        index_heads_remove(ix, session, passed);
    }
    reach_out(ix, &met, 0, passed != 0);
    *mark_out = found ? found : index_mark_find(ix, session, &place);
    return true;
}
