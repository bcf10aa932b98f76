/* SPDX-License-Identifier: Apache-2.0 */
#include "index_check.h"

#include <check.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "index.h"

/* Check notes each of its own assertions in a file, and there are millions. */
#define sound(holds) sound_at((holds), #holds, __LINE__)
static void sound_at(bool holds, const char *what, int line)
{
    if (!holds) {
        ck_abort_msg("index_check.c:%d: %s", line, what);
    }
}

static uint32_t high_of(const struct index_pool *pool)
{
    return atomic_load(&pool->high);
}

static uint32_t tenant_of(const struct mc_index *ix, uint32_t id)
{
    return atomic_load(&node_at(ix, id)->tenant);
}

static uint32_t set_of(const struct mc_index *ix, uint32_t id)
{
    return atomic_load(&node_at(ix, id)->set);
}

static uint32_t next_mark(const struct mc_index *ix, uint32_t m)
{
    return atomic_load(&mark_at(ix, m)->next_run);
}

static uint32_t pos_of(const struct mc_index *ix, uint32_t m)
{
    return atomic_load(&mark_at(ix, m)->reach) & ~MARK_HEAD;
}

static bool is_head(const struct mc_index *ix, uint32_t m)
{
    return atomic_load(&mark_at(ix, m)->reach) & MARK_HEAD;
}

/* ---- runs and nodes ---------------------------------------------------- */

static void check_marks(const struct mc_index *ix, uint32_t first, uint32_t m,
                        uint32_t len)
{
    uint32_t before = 0;
    for (; m; m = next_mark(ix, m)) {
        const struct index_mark *mark = mark_at(ix, m);
        uint32_t session = atomic_load(&mark->session);
        sound(mark->first == first);
        sound(mark->prev_run == before);
        sound(pos_of(ix, m) < len);
        struct index_mark_place place = index_mark_place_of(ix, first);
        sound(index_mark_find(ix, session, &place) == m);
        sound(atomic_load(&session_at(ix, session)->tenant) != 0);
        sound(atomic_load(&session_at(ix, session)->tenant) ==
              tenant_of(ix, first));
        before = m;
    }
}

static void check_run(const struct mc_index *ix, uint32_t run_id)
{
    const struct index_run *run = run_at(ix, run_id);
    uint32_t marks = 0;
    uint32_t tail = 0;
    uint32_t branches = 0;
    sound(run->len >= 1);
    sound(run->len <= INDEX_RUN_MAX);
    sound(run->len <= (atomic_load(&run->ids)->cap));
    for (uint32_t pos = 0; pos < run->len; pos++) {
        uint64_t where = node_where(node_at(ix, ids_get(run, pos)));
        sound(where & NODE_IN_RUN);
        sound(where_run(where) == run_id);
        sound(where_pos(where) == pos);
        sound(tenant_of(ix, ids_get(run, pos)) ==
              tenant_of(ix, ids_get(run, 0)));
        branches += where_children(where);
    }
    for (uint32_t m = atomic_load(&run->marks); m; m = next_mark(ix, m)) {
        marks++;
        tail += pos_of(ix, m) + 1 == run->len;
    }
    sound(run->mark_count == marks);
    sound(run->tail_marks == tail);
    sound(run->branches == branches);
    check_marks(ix, ids_get(run, 0), atomic_load(&run->marks), run->len);
    uint32_t parent = atomic_load(&run->parent);
    if (parent) {
        sound(tenant_of(ix, parent) == tenant_of(ix, ids_get(run, 0)));
        sound(!(node_where(node_at(ix, ids_get(run, 0))) & NODE_ROOT));
    }
}

static bool may_be_freed(const struct mc_index *ix, uint32_t id)
{
    uint64_t where = node_where(node_at(ix, id));
    if (set_of(ix, id) || (where & NODE_PARTS) || where_children(where) ||
        !index_node_is_tail(ix, id)) {
        return false;
    }
    uint32_t m = where & NODE_IN_RUN
                     ? atomic_load(&run_at(ix, where_run(where))->marks)
                     : where_run(where);
    for (; m; m = next_mark(ix, m)) {
        if (pos_of(ix, m) == where_pos(where)) {
            return false;
        }
    }
    return true;
}

static void check_node(const struct mc_index *ix, uint32_t id)
{
    const struct index_node *node = node_at(ix, id);
    uint64_t where = node_where(node);
    sound(index_node_find(ix, tenant_of(ix, id), atomic_load(&node->hash)) ==
          id);
    sound(!(where & (NODE_PINNED | NODE_CHAIN | NODE_FRESH)));
    if (!(where & NODE_IN_RUN)) {
        check_marks(ix, id, where_run(where), 1);
    } else if (where_pos(where) == 0) {
        check_run(ix, where_run(where));
    }
    sound((!!(where & NODE_IDLE)) == may_be_freed(ix, id));
    sound((!!(where & NODE_PARTS)) == (index_parts_first(ix, id) != 0));
}

static void check_children(const struct mc_index *ix, uint32_t *children)
{
    for (uint32_t id = 1; id <= high_of(&ix->nodes); id++) {
        uint64_t where = node_where(node_at(ix, id));
        if (tenant_of(ix, id) && (where & NODE_IN_RUN) && !where_pos(where)) {
            children[atomic_load(&run_at(ix, where_run(where))->parent)]++;
        }
    }
    for (uint32_t id = 1; id <= high_of(&ix->nodes); id++) {
        if (tenant_of(ix, id)) {
            sound((where_children(node_where(node_at(ix, id)))) ==
                  (children[id]));
        }
    }
}

static void check_nodes(const struct mc_index *ix)
{
    uint64_t nodes = 0;
    uint64_t held = 0;
    uint64_t idle = 0;
    for (uint32_t id = 1; id <= high_of(&ix->nodes); id++) {
        if (tenant_of(ix, id)) {
            check_node(ix, id);
            nodes++;
            held += set_of(ix, id) != 0;
            idle += may_be_freed(ix, id);
        }
    }
    sound(count_get(&ix->counters.nodes) == nodes);
    sound(count_get(&ix->counters.held_nodes) == held);
    uint32_t before = 0;
    for (uint32_t id = ix->oldest_idle; id;
         id = node_at(ix, id)->u.idle.newer) {
        sound((node_at(ix, id)->u.idle.older) == before);
        before = id;
        idle--;
    }
    sound(idle == 0);
    sound(ix->newest_idle == before);
}

/* ---- sessions ---------------------------------------------------------- */

/* Each mark reaches exactly as far as a head or a mark below asks for. */
static void check_reach(const struct mc_index *ix, uint32_t session, uint32_t m)
{
    struct index_mark_place place =
        index_mark_place_of(ix, mark_at(ix, m)->first);
    uint32_t parent =
        place.run ? atomic_load(&run_at(ix, place.run)->parent) : 0;
    if (parent) {
        struct index_mark_place above = index_mark_place_of(ix, parent);
        uint32_t up = index_mark_find(ix, session, &above);
        sound(up != 0);
        sound(pos_of(ix, up) >= above.pos);
    }
    bool is_asked = is_head(ix, m);
    uint32_t other = session_at(ix, session)->marks;
    for (; other; other = mark_at(ix, other)->next_session) {
        struct index_mark_place at =
            index_mark_place_of(ix, mark_at(ix, other)->first);
        uint32_t p = at.run ? atomic_load(&run_at(ix, at.run)->parent) : 0;
        if (p && index_mark_place_of(ix, p).first == mark_at(ix, m)->first) {
            uint32_t pos = index_mark_place_of(ix, p).pos;
            sound(pos <= pos_of(ix, m));
            sound(!is_head(ix, m) || pos < pos_of(ix, m));
            is_asked |= pos == pos_of(ix, m);
        }
    }
    sound(is_asked);
}

static void check_session(const struct mc_index *ix, uint32_t id)
{
    const struct index_session *session = session_at(ix, id);
    const struct index_heads *heads = atomic_load(&session->heads);
    uint32_t count = atomic_load(&heads->count);
    uint64_t blocks = 0;
    uint32_t head_marks = 0;
    sound(atomic_load(&session->tenant) != 0);
    sound(count <= heads->cap);
    sound(count >= 1);
    for (uint32_t m = session->marks; m; m = mark_at(ix, m)->next_session) {
        sound(atomic_load(&mark_at(ix, m)->session) == id);
        blocks += pos_of(ix, m) + 1;
        head_marks += is_head(ix, m);
        check_reach(ix, id, m);
    }
    sound(blocks == count_get(&session->blocks));
    sound(head_marks == count);
    for (uint32_t i = 0; i < count; i++) {
        struct index_mark_place place =
            index_mark_place_of(ix, atomic_load(&heads->at[i]));
        uint32_t m = index_mark_find(ix, id, &place);
        sound(m != 0);
        sound(atomic_load(&mark_at(ix, m)->reach) == (place.pos | MARK_HEAD));
    }
}

static void check_sessions(const struct mc_index *ix)
{
    uint64_t marks = 0;
    sound(count_get(&ix->counters.sessions) == ix->heap_count);
    for (uint32_t i = 0; i < ix->heap_count; i++) {
        const struct index_session *session = session_at(ix, ix->heap[i]);
        sound(session->heap_at == i);
        sound(session->heap_key <= count_get(&session->touched));
        if (i) {
            sound((session_at(ix, ix->heap[(i - 1) / 2])->heap_key) <=
                  session->heap_key);
        }
        check_session(ix, ix->heap[i]);
        for (uint32_t m = session->marks; m; m = mark_at(ix, m)->next_session) {
            marks++;
        }
    }
    sound(count_get(&ix->counters.marks) == marks);
}

/* ---- places ------------------------------------------------------------ */

static void check_sets(const struct mc_index *ix, uint32_t *refs)
{
    uint64_t resident = 0;
    for (uint32_t id = 1; id <= high_of(&ix->nodes); id++) {
        if (tenant_of(ix, id)) {
            refs[set_of(ix, id)]++;
        }
    }
    for (uint32_t id = 1; id <= high_of(&ix->setrefs); id++) {
        const struct index_set *set = set_at(ix, id);
        if (!set || setref_at(ix, id)->is_dead) {
            sound((refs[id]) == 0);
            continue;
        }
        sound(set->refs == (refs[id]));
        sound(set->refs || set->is_unused);
        for (uint32_t i = 0; i < set->count; i++) {
            sound(i == 0 || set->place[i - 1] < set->place[i]);
            if (index_place_is_live(ix, set->place[i])) {
                resident += refs[id];
            }
        }
    }
    sound(count_get(&ix->counters.resident) == resident);
}

static void check_slots(const struct mc_index *ix)
{
    uint32_t dead = 0;
    uint64_t resident = 0;
    for (uint32_t id = 1; id <= high_of(&ix->slots); id++) {
        const struct index_slot *slot = slot_at(ix, id);
        uint32_t state = atomic_load(&slot->state);
        dead += state == SLOT_RETIRED || state == SLOT_SWEPT;
        if (state == SLOT_LIVE) {
            sound(index_slot_find(ix, slot->tenant,
                                  atomic_load(&slot->owner)) == id);
            for (int tier = 0; tier < MC_TIER_COUNT; tier++) {
                resident += slot->held[tier];
            }
        }
    }
    sound(dead == ix->dead_slots);
    sound(count_get(&ix->counters.resident) == resident);
}

void index_check(struct mc_index *ix)
{
    uint32_t *counts =
        calloc((size_t)high_of(&ix->nodes) + high_of(&ix->setrefs) + 1,
               sizeof *counts);
    ck_assert_ptr_nonnull(counts);
    check_nodes(ix);
    check_children(ix, counts);
    memset(counts, 0,
           ((size_t)high_of(&ix->nodes) + high_of(&ix->setrefs) + 1) *
               sizeof *counts);
    check_sets(ix, counts);
    check_slots(ix);
    check_sessions(ix);
    free(counts);
}

uint32_t index_check_idle(struct mc_index *ix)
{
    uint32_t count = 0;
    for (uint32_t id = 1; id <= high_of(&ix->nodes); id++) {
        count += tenant_of(ix, id) && may_be_freed(ix, id);
    }
    return count;
}
