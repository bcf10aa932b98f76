/* SPDX-License-Identifier: Apache-2.0 */
/* index.h - inside the session prefix index: records and who may touch them.
 *
 * Node: a block of a tenant. Run: a stretch of a chain, at most 256 nodes each
 * the child of the one before; it hangs below a node of another run, or its
 * first node has no known parent. A node that is nobody's child and has had no
 * child in its own run is alone and has no run. Mark: (session, run, position):
 * the session's lineage holds the run's nodes up to the position. So one word
 * answers "is it covered", the marks of a node's run are the sessions below it,
 * and no path is climbed but by whole runs.
 *
 * Heads of a session lie on no common path, so a run holds at most one of them,
 * and it stands where the session's mark on that run stands.
 *
 * Residency of a node is the id of a set of places, shared by all nodes held in
 * the same places. A place is a slot and a tier; a slot is an owner within a
 * tenant until it is cleared. Pages of several parts that are not whole yet are
 * kept aside (index_parts.c).
 *
 * Fields marked W are the writer's alone; all others are read by readers too,
 * and atomic.
 */
#ifndef INDEX_H
#define INDEX_H
#include "index_memory.h"
#include "index_table.h"
#include "mc_index.h"
#include "mci_map.h"

#define INDEX_RUN_MAX 256u
#define INDEX_RUN_OWN 4u
#define INDEX_MID_MAX 16u   /* marks that may end inside a run for nothing */
#define INDEX_LISTED_MAX 6u /* marks of a run that are found by their list */
#define INDEX_SLOTS_MAX 65536u
#define INDEX_SET_CACHE 4096u
#define INDEX_OWNER_CACHE 256u
#define INDEX_NAME_MAX 256u /* bytes of an owner's name */

/* ---- nodes ------------------------------------------------------------- */

/* struct index_node.where: run << 32 | position << 24 | flags | children. The
 * first half is a run's id with NODE_IN_RUN, else the first of the node's
 * marks. Children are runs that hang below the node; 65 535 stands for ever. */
#define NODE_ROOT (UINT64_C(1) << 16) /* someone said it begins a sequence */
#define NODE_IN_RUN (UINT64_C(1) << 17)
#define NODE_PARTS (UINT64_C(1) << 18)  /* has pages that are not whole */
#define NODE_IDLE (UINT64_C(1) << 19)   /* in the list of those to be freed */
#define NODE_PINNED (UINT64_C(1) << 20) /* used by the change under way */
#define NODE_CHAIN (UINT64_C(1) << 21)  /* met in the chain being checked */
#define NODE_FRESH (UINT64_C(1) << 22)  /* made by the change under way */
#define NODE_HASHED (UINT64_C(1) << 23) /* alone: its marks are in the table */
#define NODE_PLACE_MASK (~UINT64_C(0) << 24 | NODE_IN_RUN)
#define NODE_CHILDREN_MASK UINT64_C(0xffff)

struct index_node { /* two to a cache line */
    _Atomic uint64_t hash;
    union {
        uint64_t digest; /* W: of the page whose parts are held */
        struct {
            uint32_t older; /* W: links of idle nodes and of the pool */
            uint32_t newer;
        } idle;
    } u;
    _Atomic uint64_t where;
    _Atomic uint32_t set;    /* 0 = held nowhere */
    _Atomic uint32_t tenant; /* 0 = freed */
};

static inline uint32_t where_run(uint64_t where)
{
    return (uint32_t)(where >> 32);
}

static inline uint32_t where_pos(uint64_t where)
{
    return (uint32_t)(where >> 24) & 0xff;
}

static inline uint32_t where_children(uint64_t where)
{
    return (uint32_t)(where & NODE_CHILDREN_MASK);
}

/* ---- runs -------------------------------------------------------------- */

/* Ids of a run's nodes. Positions are written once in an array's life: a run
 * that has shrunk continues in another array. */
struct index_ids {
    uint32_t cap;
    uint32_t pad;
    _Atomic uint32_t at[];
};

struct index_run { /* 64 bytes */
    _Atomic(struct index_ids *) ids;
    _Atomic uint32_t parent; /* node; 0 = none known */
    _Atomic uint32_t marks;  /* the first */
    uint32_t mark_count;     /* W */
    uint32_t tail_marks;     /* W: of these, at the last position */
    uint32_t branches;       /* W: runs that hang below its nodes */
    uint16_t len;            /* W */
    bool has_shrunk;         /* W */
    bool is_own : 1;         /* W: ids lie in the record */
    bool is_hashed : 1;      /* W: its marks are in the table */
    uint32_t link;           /* W */
    uint32_t own_cap;        /* a struct index_ids, in place */
    uint32_t first;          /* W: its first node; the pad of the ids */
    _Atomic uint32_t own[INDEX_RUN_OWN];
};

/* ---- marks ------------------------------------------------------------- */

#define MARK_HEAD UINT32_C(0x80000000)
struct index_mark {
    _Atomic uint32_t session;
    _Atomic uint32_t reach;    /* position, MARK_HEAD if a head stands there */
    _Atomic uint32_t next_run; /* next mark of the run */
    uint32_t prev_run;         /* W */
    uint32_t first;        /* W: the run's first node, its name in the table */
    uint32_t next_session; /* W */
    uint32_t prev_session; /* W, and the pool's link */
};

/* ---- names, owners, slots, tenants ------------------------------------- */

struct index_name { /* a block, retired with its record */
    uint32_t len;
    char bytes[];
};

struct index_owner {
    _Atomic(struct index_name *) name;
    uint32_t stem_at;  /* W: worker or backend within the name */
    uint32_t stem_len; /* W */
    uint32_t rank;     /* W */
    uint32_t slots;    /* W: first slot in use */
    uint32_t retired;  /* W: slots that are still swept */
    uint32_t link;     /* W */
    bool is_store;     /* W */
    bool is_used;      /* W: else the name is not ours any more */
};

enum index_slot_state {
    SLOT_FREE = 0,
    SLOT_LIVE = 1,
    SLOT_RETIRED = 2, /* waits for a sweep */
    SLOT_SWEPT = 3    /* being swept */
};

struct index_slot {
    _Atomic uint32_t state;
    _Atomic uint32_t owner;
    _Atomic uint32_t is_store;
    uint32_t tenant;              /* W */
    uint32_t next;                /* W: of the owner */
    uint32_t link;                /* W */
    uint64_t held[MC_TIER_COUNT]; /* W: blocks */
};

struct index_tenant {
    _Atomic(struct index_name *) name;
    _Atomic uint64_t nodes;
    _Atomic uint64_t sessions;
    _Atomic uint64_t resident;
    uint32_t *slots;   /* W: a block; by owner */
    uint32_t slot_cap; /* W */
    uint32_t link;     /* W */
};

/* ---- residency --------------------------------------------------------- */

struct index_set { /* a block; constant once published but for W */
    uint32_t count;
    uint32_t refs;    /* W: nodes */
    uint64_t key;     /* W: hash of the places */
    uint32_t clean;   /* W: sweep in which it was seen to hold no dead place */
    bool is_in_table; /* W */
    bool is_unused;   /* W: in the list of those without nodes */
    bool has_store;   /* W: some place is a store's, perhaps cleared */
    uint32_t place[]; /* ascending; slot * MC_TIER_COUNT + tier */
};

struct index_setref {
    _Atomic(struct index_set *) set;
    uint32_t link;    /* W */
    uint32_t is_dead; /* W: retired; the block is not ours any more */
};

struct index_set_cache {
    uint32_t from;
    uint32_t place;
    uint32_t to;
    uint32_t stamp; /* is_out in the lowest bit */
};

struct index_parts { /* W; a page of which some parts are there */
    uint32_t node;
    uint32_t place;
    uint32_t next; /* of the node */
    uint32_t link;
    uint64_t have[2]; /* MC_KEY_PARTS_MAX bits */
};

/* ---- sessions ---------------------------------------------------------- */

struct index_heads {
    _Atomic uint32_t count;
    uint32_t cap;
    _Atomic uint32_t at[]; /* nodes */
};

#define INDEX_HEADS_OWN 2u
struct index_session {
    _Atomic(struct index_name *) name;
    _Atomic(struct index_heads *) heads;
    _Atomic uint64_t touched; /* by the index's clock */
    _Atomic uint64_t blocks;  /* in lineage */
    _Atomic uint32_t tenant;  /* 0 = gone */
    uint32_t tag;             /* W */
    uint32_t marks;           /* W: the first */
    uint32_t heap_at;         /* W */
    uint64_t heap_key;        /* W: touched, as the heap knows it */
    uint32_t next_drop;       /* W: head to go first at the bound */
    uint32_t link;            /* W */
    bool has_lost_head;       /* W: the next head needs another array */
    /* a struct index_heads, in place */
    _Atomic uint32_t own_count;
    uint32_t own_cap;
    _Atomic uint32_t own[INDEX_HEADS_OWN];
};

/* ---- the index --------------------------------------------------------- */

enum index_sweep_phase { SWEEP_NONE = 0, SWEEP_NODES, SWEEP_PARTS, SWEEP_SETS };

struct index_counters {
    _Atomic uint64_t nodes;
    _Atomic uint64_t held_nodes; /* in some place */
    _Atomic uint64_t resident;
    _Atomic uint64_t sessions;
    _Atomic uint64_t marks;
    _Atomic uint64_t applied;
    _Atomic uint64_t matched_keys;
    _Atomic uint64_t foreign_keys;
    _Atomic uint64_t collisions;
    _Atomic uint64_t conflicting_parents;
    _Atomic uint64_t cyclic_parents;
    _Atomic uint64_t refused_nodes;
    _Atomic uint64_t refused_places;
    _Atomic uint64_t refused_changes;
    _Atomic uint64_t invalid;
    _Atomic uint64_t dropped_sessions;
    _Atomic uint64_t dropped_heads;
    _Atomic uint64_t dropped_marks;
    _Atomic uint64_t freed_nodes;
};

struct index_owner_cache {
    uint64_t key;
    uint32_t owner;
};

struct mc_index {
    struct mc_index_opts opts; /* constant */
    struct index_memory memory;
    uint64_t secret; /* constant; tables cannot be filled on purpose */

    struct index_pool segs, nodes, runs, marks, sessions, tenants, owners,
        slots, setrefs, parts;
    struct index_table node_table, mark_table, session_table, tenant_table,
        set_table, parts_table;

    struct index_counters counters;
    _Atomic uint64_t clock; /* of touches */

    /* W from here on. */
    uint32_t oldest_idle; /* nodes to be freed, by the time they became so */
    uint32_t newest_idle;

    struct mci_map owner_map;
    uint32_t owner_count;
    uint32_t tenant_count;
    uint32_t last_tenant;
    uint32_t last_session;
    uint32_t last_store;
    struct index_owner_cache owner_cache[INDEX_OWNER_CACHE];
    uint32_t dead_slots; /* retired and not yet swept */

    struct index_set_cache *set_cache; /* INDEX_SET_CACHE */
    uint32_t set_stamp;
    uint32_t *set_scratch; /* places of a set under way */
    uint32_t set_scratch_cap;
    struct index_set *spare_sets;
    uint32_t spare_count;
    uint32_t unused_sets; /* without nodes, kept for a while */
    uint32_t unused_head; /* through setref.link */
    uint32_t unused_tail;

    enum index_sweep_phase sweep_phase;
    uint32_t sweep_at;
    uint32_t sweep_round;
    bool has_sweep_failed;

    uint32_t *heap; /* sessions, least recently touched first */
    uint32_t heap_count;
    uint32_t heap_cap;

    uint32_t *chain; /* nodes of the chain under way */
    size_t chain_cap;
    uint32_t reserved_runs;
    uint32_t busy_session; /* not to be let go now */
    bool is_grafting;      /* lists of marks are walked: no session may go */
    uint32_t step;         /* changes, for what is done every so often */
};

static inline struct index_node *node_at(const struct mc_index *ix, uint32_t id)
{
    return index_pool_at(&ix->nodes, id, sizeof(struct index_node));
}

static inline struct index_run *run_at(const struct mc_index *ix, uint32_t id)
{
    return index_pool_at(&ix->runs, id, sizeof(struct index_run));
}

static inline struct index_mark *mark_at(const struct mc_index *ix, uint32_t id)
{
    return index_pool_at(&ix->marks, id, sizeof(struct index_mark));
}

static inline struct index_session *session_at(const struct mc_index *ix,
                                               uint32_t id)
{
    return index_pool_at(&ix->sessions, id, sizeof(struct index_session));
}

static inline struct index_tenant *tenant_at(const struct mc_index *ix,
                                             uint32_t id)
{
    return index_pool_at(&ix->tenants, id, sizeof(struct index_tenant));
}

static inline struct index_owner *owner_at(const struct mc_index *ix,
                                           uint32_t id)
{
    return index_pool_at(&ix->owners, id, sizeof(struct index_owner));
}

static inline struct index_slot *slot_at(const struct mc_index *ix, uint32_t id)
{
    return index_pool_at(&ix->slots, id, sizeof(struct index_slot));
}

static inline struct index_setref *setref_at(const struct mc_index *ix,
                                             uint32_t id)
{
    return index_pool_at(&ix->setrefs, id, sizeof(struct index_setref));
}

static inline struct index_set *set_at(const struct mc_index *ix, uint32_t id)
{
    return atomic_load_explicit(&setref_at(ix, id)->set, memory_order_acquire);
}

static inline struct index_parts *parts_at(const struct mc_index *ix,
                                           uint32_t id)
{
    return index_pool_at(&ix->parts, id, sizeof(struct index_parts));
}

/* The writer's own view of what only it changes. */
static inline uint64_t node_where(const struct index_node *node)
{
    return atomic_load_explicit(&node->where, memory_order_relaxed);
}

static inline void node_set_where(struct index_node *node, uint64_t where)
{
    atomic_store_explicit(&node->where, where, memory_order_release);
}

static inline uint32_t ids_get(const struct index_run *run, uint32_t pos)
{
    struct index_ids *ids =
        atomic_load_explicit(&run->ids, memory_order_relaxed);
    return atomic_load_explicit(&ids->at[pos], memory_order_relaxed);
}

/* Counters have one writer: no locked instruction. */
static inline void count_add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(
        counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
        memory_order_relaxed);
}

static inline uint64_t count_get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static inline uint64_t index_mix(uint64_t x)
{
    x ^= x >> 33;
    x *= UINT64_C(0xff51afd7ed558ccd);
    x ^= x >> 33;
    x *= UINT64_C(0xc4ceb9fe1a85ec53);
    x ^= x >> 33;
    return x;
}

static inline uint32_t index_node_tag(const struct mc_index *ix,
                                      uint32_t tenant, uint64_t hash)
{
    return (uint32_t)(index_mix(hash ^ ix->secret ^
                                (tenant * UINT64_C(0x9e3779b97f4a7c15))) >>
                      32);
}

/* 0 if the tenant has no such block; readers and writer. */
static inline uint32_t index_node_find(const struct mc_index *ix,
                                       uint32_t tenant, uint64_t hash)
{
    struct index_probe probe =
        index_probe_begin(&ix->node_table, index_node_tag(ix, tenant, hash));
    uint32_t id;
    while ((id = index_probe_next(&probe))) {
        const struct index_node *node = node_at(ix, id);
        if (atomic_load_explicit(&node->tenant, memory_order_acquire) ==
                tenant &&
            atomic_load_explicit(&node->hash, memory_order_relaxed) == hash) {
            return id;
        }
    }
    return 0;
}

/* Whether a set's place still counts. */
static inline bool index_place_is_live(const struct mc_index *ix,
                                       uint32_t place)
{
    return atomic_load_explicit(&slot_at(ix, place / MC_TIER_COUNT)->state,
                                memory_order_acquire) == SLOT_LIVE;
}

#include "index_calls.h"
#endif
