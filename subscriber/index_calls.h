/* SPDX-License-Identifier: Apache-2.0 */
/* index_calls.h - what the rooms of the index ask of each other.
 *
 * Included by index.h, whose records it speaks of. Only the writer makes these
 * calls, but for those that take a const index.
 */
#ifndef INDEX_CALLS_H
#define INDEX_CALLS_H
#include "index.h"

/* index_node.c */
/* A node of the block, made if need be (and if it can be: else 0, counted). */
uint32_t index_node_get(struct mc_index *ix, uint32_t tenant, uint64_t hash);
/* Changes flags of where; readers do not look at them. */
void index_node_flag(struct mc_index *ix, uint32_t id, uint64_t clear,
                     uint64_t set);
/* To be called when a node may have lost the last reason to be kept. */
void index_node_settle(struct mc_index *ix, uint32_t id);
/* The node has a reason to be kept. */
void index_node_keep(struct mc_index *ix, uint32_t id);
void index_node_add_child(struct mc_index *ix, uint32_t id);
void index_node_free(struct mc_index *ix, uint32_t id);

/* index_run.c */
uint32_t index_node_parent(const struct mc_index *ix, uint32_t id);
bool index_node_is_tail(const struct mc_index *ix, uint32_t id);
/* Whether a is b or above it. */
bool index_node_is_above(const struct mc_index *ix, uint32_t a, uint32_t b);
/* Records for count links are there. */
bool index_run_reserve(struct mc_index *ix, size_t count);
/* Makes the node a run of its own, if it is alone. Needs a reserved record. */
uint32_t index_run_make(struct mc_index *ix, uint32_t node);
/* Room for count nodes more behind the run's last, expecting `more` later. */
bool index_run_extend(struct mc_index *ix, struct index_run *run,
                      uint32_t count, size_t more);
/* Puts a node behind the run's last; there must be room. */
void index_run_append(struct mc_index *ix, uint32_t run, uint32_t node);
/* Splits runs in which too many marks end early. */
void index_run_balance(struct mc_index *ix, uint32_t run);
/* Counts anew the marks that reach the last node. */
void index_run_count_tail(struct mc_index *ix, uint32_t run);
/* Takes the last node off. */
void index_run_shrink(struct mc_index *ix, uint32_t run);

/* index_mark.c */
/* Where a mark goes: on a run, named by its first node, or on a lone node. */
struct index_mark_place {
    uint32_t first;
    uint32_t run; /* 0: first is alone */
    uint32_t pos;
};
static inline struct index_mark_place
index_mark_place_of(const struct mc_index *ix, uint32_t node)
{
    uint64_t where = node_where(node_at(ix, node));
    struct index_mark_place place = {node, 0, 0};
    if (where & NODE_IN_RUN) {
        place.run = where_run(where);
        place.pos = where_pos(where);
        place.first = run_at(ix, place.run)->first;
    }
    return place;
}
/* The session's mark on the place's run, or 0. */
uint32_t index_mark_find(const struct mc_index *ix, uint32_t session,
                         const struct index_mark_place *place);
/* A mark reaching the place's position, MARK_HEAD or not; 0 without room. */
uint32_t index_mark_make(struct mc_index *ix, uint32_t session,
                         const struct index_mark_place *place, uint32_t head);
/* Moves a mark up or down its run. */
void index_mark_move(struct mc_index *ix, uint32_t mark, uint32_t reach);
void index_mark_remove(struct mc_index *ix, uint32_t mark);
/* Takes a mark out of its session and the table only: its run is about to
 * vanish, and its list stays as readers may see it. is_in_table: as the run
 * says. */
void index_mark_leave(struct mc_index *ix, uint32_t mark, bool is_in_table);
bool index_mark_is_hashed(const struct mc_index *ix,
                          const struct index_mark_place *place);
/* What the next call begins with: where a node is and which mark was found. */
struct index_mark_met {
    uint32_t node; /* 0: nowhere, a root was reached */
    uint32_t mark; /* 0: none there */
    struct index_mark_place place;
};
/* Whether the session covers a node; if not, what it found is for _cover. */
bool index_mark_covers(const struct mc_index *ix, uint32_t session,
                       uint32_t node, struct index_mark_met *met_out);
/* How many marks covering a node would need. */
uint64_t index_mark_need(const struct mc_index *ix, uint32_t session,
                         uint32_t node);
/* Covers a node that is not covered, and all above it, and sets a head on it,
 * in the place of one that is now passed. met is what index_mark_covers said.
 * False, and nothing changed, without room. */
bool index_mark_cover(struct mc_index *ix, uint32_t session, uint32_t node,
                      const struct index_mark_met *met);
/* Covers a node below which the session has a head, and all above it; a head
 * that is passed is dropped. Leaves in *mark_out the mark on the node's run.
 * False, and nothing changed, without room. */
bool index_mark_cover_above(struct mc_index *ix, uint32_t session,
                            uint32_t node, uint32_t *mark_out);

/* index_session.c */
uint32_t index_session_tag(const struct mc_index *ix, uint32_t tenant,
                           struct mc_view name);
uint32_t index_session_find(const struct mc_index *ix, uint32_t tenant,
                            struct mc_view text);
void index_session_touch(struct mc_index *ix, uint32_t id);
/* Takes a session out with all its marks. Needs no memory. */
void index_session_drop(struct mc_index *ix, uint32_t id);
/* Lets the least recently touched session go, other than the busy one. */
bool index_session_drop_oldest(struct mc_index *ix);
/* Lets sessions go until so many marks fit. */
bool index_session_make_room(struct mc_index *ix, uint64_t need);
/* Lets sessions go whose heads keep nodes that nobody holds. */
bool index_session_free_heads(struct mc_index *ix);
/* The session reached a block. */
enum mc_index_result index_session_advance(struct mc_index *ix, uint32_t tenant,
                                           struct mc_view name, uint32_t node);
/* A head on a node, in the place of old_node's if that is not 0. At the bound
 * on heads the oldest goes: *lost_out, 0 if none. False without room. */
bool index_heads_put(struct mc_index *ix, uint32_t session, uint32_t old_node,
                     uint32_t node, uint32_t *lost_out);
void index_heads_remove(struct mc_index *ix, uint32_t id, uint32_t node);

/* index_name.c */
struct index_name *index_name_make(struct mc_index *ix, struct mc_view text);
static inline struct mc_view index_name_view(const struct index_name *name)
{
    return mc_view_make(name->bytes, name->len);
}
uint32_t index_tenant_find(const struct mc_index *ix, struct mc_view name);
uint32_t index_tenant_get(struct mc_index *ix, struct mc_view name);
/* The owner's name from its parts. is_store: rank is not looked at. */
struct index_owner_key {
    struct mc_view stem;
    uint32_t rank;
    bool is_store;
};
uint32_t index_owner_find(struct mc_index *ix,
                          const struct index_owner_key *key);
uint32_t index_owner_get(struct mc_index *ix,
                         const struct index_owner_key *key);
/* The live slot of an owner in a tenant; 0 if there is none. */
uint32_t index_slot_find(const struct mc_index *ix, uint32_t tenant,
                         uint32_t owner);
uint32_t index_slot_get(struct mc_index *ix, uint32_t tenant, uint32_t owner);
bool index_slot_is_empty(const struct mc_index *ix, uint32_t slot);
/* What the slot holds counts no more from now on. */
void index_slot_retire(struct mc_index *ix, uint32_t slot);
void index_slot_free(struct mc_index *ix, uint32_t slot);

/* index_set.c */
MC_CHECK_RESULT enum mc_err index_sets_init(struct mc_index *ix);
void index_sets_fini(struct mc_index *ix);
bool index_set_holds(const struct index_set *set, uint32_t place);
/* Adds or takes a node's place. False without room. */
bool index_place_add(struct mc_index *ix, uint32_t node, uint32_t place);
bool index_place_remove(struct mc_index *ix, uint32_t node, uint32_t place);
bool index_node_holds(const struct mc_index *ix, uint32_t node, uint32_t place);
/* Whether any store holds a part of the node's page. */
bool index_node_is_stored(const struct mc_index *ix, uint32_t node);
/* Takes cleared places out of one node. False without room. */
bool index_node_sweep(struct mc_index *ix, uint32_t node);
/* Makes sure that a set with cleared places, which no node has any more, is
 * not found again. */
void index_set_sweep(struct mc_index *ix, uint32_t id);

/* index_parts.c */
/* A part came or went at a store's place. False without room. */
bool index_part_add(struct mc_index *ix, uint32_t node, uint32_t place,
                    uint32_t part);
bool index_part_remove(struct mc_index *ix, uint32_t node, uint32_t place,
                       uint32_t part);
/* Frees an unfinished page if its place was cleared. */
void index_parts_sweep(struct mc_index *ix, uint32_t id);
bool index_parts_are_live(const struct mc_index *ix, uint32_t node);
/* The node's first unfinished page. */
uint32_t index_parts_first(const struct mc_index *ix, uint32_t node);
/* As import finds them: the whole map of parts at once. */
bool index_parts_put(struct mc_index *ix, uint32_t node, uint32_t place,
                     const uint64_t have[2]);

/* index_chain.c */
struct index_chain {
    uint32_t tenant;
    const uint64_t *parent; /* NULL: hashes begin a sequence */
    const uint64_t *hashes;
    size_t count;
    struct mc_view session;
    uint32_t place; /* held there; 0: nowhere */
};
enum mc_index_result index_chain_apply(struct mc_index *ix,
                                       const struct index_chain *chain);
/* Hangs a node without parent below another; records are reserved. more: how
 * many nodes are likely to follow it. False if a session had to be let go. */
bool index_node_link(struct mc_index *ix, uint32_t parent, uint32_t node,
                     size_t more);

/* index_sweep.c */
/* To be called at the end of each change. */
void index_step(struct mc_index *ix);
void index_sweep_begin(struct mc_index *ix);
#endif
