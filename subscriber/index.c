/* SPDX-License-Identifier: Apache-2.0 */
#include "index.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "mci_alloc.h"
#include "mci_clock.h"

static const char *const tier_names[MC_TIER_COUNT] = {"device", "disk",
                                                      "external", "host"};

const char *mc_tier_name(enum mc_tier tier)
{
    return (unsigned)tier < MC_TIER_COUNT ? tier_names[tier] : "unknown";
}

enum mc_err mc_tier_parse(struct mc_view name, enum mc_tier *tier_out)
{
    for (int tier = 0; tier < MC_TIER_COUNT; tier++) {
        if (mc_view_equal(name, mc_view_str(tier_names[tier]))) {
            *tier_out = (enum mc_tier)tier;
            return MC_OK;
        }
    }
    return MC_ERR_INVALID_PARAMS;
}

const char *mc_index_result_name(enum mc_index_result result)
{
    switch (result) {
    case MC_INDEX_APPLIED:
        return "applied";
    case MC_INDEX_FOREIGN:
        return "foreign";
    case MC_INDEX_COLLISION:
        return "collision";
    case MC_INDEX_CONFLICTING_PARENT:
        return "conflicting_parent";
    case MC_INDEX_CYCLIC_PARENT:
        return "cyclic_parent";
    case MC_INDEX_FULL:
        return "full";
    case MC_INDEX_INVALID:
        return "invalid";
    }
    return "unknown";
}

/* ---- making ------------------------------------------------------------ */

static uint64_t pick64(uint64_t value, uint64_t fallback)
{
    return value ? value : fallback;
}

static uint32_t pick32(uint32_t value, uint32_t fallback)
{
    return value ? value : fallback;
}

static void set_opts(struct mc_index *ix, const struct mc_index_opts *opts)
{
    const uint64_t mi = UINT64_C(1) << 20;
    ix->opts = *opts;
    ix->opts.max_nodes = pick64(opts->max_nodes, 16 * mi);
    ix->opts.max_sessions = pick64(opts->max_sessions, mi / 4);
    ix->opts.max_heads = pick32(opts->max_heads, 64);
    ix->opts.max_marks = pick64(opts->max_marks, 64 * mi);
    ix->opts.max_bytes = pick64(opts->max_bytes, 8192 * mi);
    ix->opts.max_owners = pick32(opts->max_owners, 1024);
    ix->opts.max_tenants = pick32(opts->max_tenants, 1024);
    ix->opts.max_readers = pick32(opts->max_readers, 64);
}

static bool are_opts_fit(const struct mc_index_opts *opts)
{
    const uint64_t gi = UINT64_C(1) << 30;
    return opts->layout.parts >= 1 && opts->layout.parts <= MC_KEY_PARTS_MAX &&
           opts->max_nodes <= gi && opts->max_sessions <= gi &&
           opts->max_marks <= gi && opts->max_owners <= 65536 &&
           opts->max_tenants <= 65536 && opts->max_readers <= 65536 &&
           opts->max_heads <= 65536;
}

/* Ids wait for readers before they are used again, so each pool has some to
 * spare over its bound. */
#define SPARE_IDS 4096u

#define SHAPE(type, link, limit)                          \
    {                                                     \
        sizeof(struct type), offsetof(struct type, link), \
            (uint32_t)(limit) + SPARE_IDS                 \
    }

static enum mc_err init_pools(struct mc_index *ix)
{
    const struct mc_index_opts *o = &ix->opts;
    uint64_t nodes = o->max_nodes;
    const struct {
        struct index_pool *pool;
        struct index_pool_shape shape;
    } rows[] = {
        {&ix->segs, SHAPE(index_seg, link,
                          (nodes * 3 + o->max_marks + o->max_sessions) / 256)},
        {&ix->nodes, SHAPE(index_node, u.idle.older, nodes)},
        {&ix->runs, SHAPE(index_run, link, nodes)},
        {&ix->marks, SHAPE(index_mark, prev_session, o->max_marks)},
        {&ix->sessions, SHAPE(index_session, link, o->max_sessions)},
        {&ix->tenants, SHAPE(index_tenant, link, o->max_tenants)},
        {&ix->owners, SHAPE(index_owner, link, o->max_owners)},
        {&ix->slots, SHAPE(index_slot, link, INDEX_SLOTS_MAX)},
        {&ix->setrefs, SHAPE(index_setref, link, nodes)},
        {&ix->parts, SHAPE(index_parts, link, nodes * 2)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (index_pool_init(&ix->memory, rows[i].pool, &rows[i].shape) !=
            MC_OK) {
            return MC_ERR_NOMEM;
        }
    }
    return MC_OK;
}

static enum mc_err init_tables(struct mc_index *ix)
{
    struct index_table *const tables[] = {&ix->node_table,    &ix->mark_table,
                                          &ix->session_table, &ix->tenant_table,
                                          &ix->set_table,     &ix->parts_table};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        if (index_table_init(&ix->memory, tables[i], &ix->segs) != MC_OK) {
            return MC_ERR_NOMEM;
        }
    }
    return MC_OK;
}

static uint64_t draw_secret(void)
{
    uint64_t secret;
    if (getrandom(&secret, sizeof secret, GRND_NONBLOCK) !=
        (ssize_t)sizeof secret) {
        secret = index_mix(mci_clock_ns());
    }
    return secret;
}

enum mc_err mc_index_create(const struct mc_index_opts *opts,
                            struct mc_index **index_out)
{
    if (!opts || !are_opts_fit(opts)) {
        return MC_ERR_INVALID_PARAMS;
    }
    struct mc_index *ix = mci_alloc_aligned(64, sizeof *ix);
    if (!ix) {
        return MC_ERR_NOMEM;
    }
    memset(ix, 0, sizeof *ix);
    set_opts(ix, opts);
    ix->secret = draw_secret();
    mci_map_init(&ix->owner_map, ix->opts.max_owners);
    if (index_memory_init(&ix->memory, ix->opts.max_bytes,
                          ix->opts.max_readers) != MC_OK ||
        init_pools(ix) != MC_OK || init_tables(ix) != MC_OK ||
        index_sets_init(ix) != MC_OK) {
        mc_index_destroy(ix);
        return MC_ERR_NOMEM;
    }
    *index_out = ix;
    return MC_OK;
}

/* ---- ending ------------------------------------------------------------ */

static void free_runs(struct mc_index *ix)
{
    uint32_t high = atomic_load(&ix->nodes.high);
    for (uint32_t id = 1; ix->nodes.base && id <= high; id++) {
        const struct index_node *node = node_at(ix, id);
        uint64_t where = node_where(node);
        if (!atomic_load_explicit(&node->tenant, memory_order_relaxed) ||
            !(where & NODE_IN_RUN) || where_pos(where)) {
            continue; /* each run once, by its first node */
        }
        struct index_run *run = run_at(ix, where_run(where));
        if (!run->is_own) {
            index_block_give(&ix->memory, atomic_load(&run->ids));
        }
    }
}

static void free_sessions(struct mc_index *ix)
{
    for (uint32_t i = 0; i < ix->heap_count; i++) {
        struct index_session *session = session_at(ix, ix->heap[i]);
        struct index_heads *heads = atomic_load(&session->heads);
        if ((void *)heads != (void *)&session->own_count) {
            index_block_give(&ix->memory, heads);
        }
        index_block_give(&ix->memory, atomic_load(&session->name));
    }
    index_block_give(&ix->memory, ix->heap);
}

static void free_names(struct mc_index *ix)
{
    uint32_t high = ix->tenants.base ? atomic_load(&ix->tenants.high) : 0;
    for (uint32_t id = 1; id <= high; id++) {
        struct index_tenant *tenant = tenant_at(ix, id);
        index_block_give(&ix->memory, tenant->slots);
        index_block_give(&ix->memory, atomic_load(&tenant->name));
    }
    high = ix->owners.base ? atomic_load(&ix->owners.high) : 0;
    for (uint32_t id = 1; id <= high; id++) {
        if (owner_at(ix, id)->is_used) {
            index_block_give(&ix->memory, atomic_load(&owner_at(ix, id)->name));
        }
    }
    mci_map_fini(&ix->owner_map);
}

void mc_index_destroy(struct mc_index *ix)
{
    if (!ix) {
        return;
    }
    if (ix->memory.seats) {
        free_runs(ix);
        free_sessions(ix);
        free_names(ix);
        index_sets_fini(ix);
        index_block_give(&ix->memory, ix->chain);
        struct index_table *const tables[] = {
            &ix->node_table,   &ix->mark_table, &ix->session_table,
            &ix->tenant_table, &ix->set_table,  &ix->parts_table};
        for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
            index_table_fini(&ix->memory, tables[i]);
        }
    }
    index_memory_fini(&ix->memory);
    mci_free(ix);
}

/* ---- counters ---------------------------------------------------------- */

void mc_index_stats(struct mc_index *ix, struct mc_index_stats *stats_out)
{
    const struct index_counters *c = &ix->counters;
    *stats_out = (struct mc_index_stats){
        .nodes = count_get(&c->nodes),
        .resident = count_get(&c->resident),
        .sessions = count_get(&c->sessions),
        .marks = count_get(&c->marks),
        .bytes = atomic_load_explicit(&ix->memory.bytes, memory_order_relaxed),
        .applied = count_get(&c->applied),
        .matched_keys = count_get(&c->matched_keys),
        .foreign_keys = count_get(&c->foreign_keys),
        .collisions = count_get(&c->collisions),
        .conflicting_parents = count_get(&c->conflicting_parents),
        .cyclic_parents = count_get(&c->cyclic_parents),
        .refused_nodes = count_get(&c->refused_nodes),
        .refused_places = count_get(&c->refused_places),
        .refused_changes = count_get(&c->refused_changes),
        .invalid = count_get(&c->invalid),
        .dropped_sessions = count_get(&c->dropped_sessions),
        .dropped_heads = count_get(&c->dropped_heads),
        .dropped_marks = count_get(&c->dropped_marks),
        .freed_nodes = count_get(&c->freed_nodes),
    };
}
