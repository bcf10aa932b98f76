/* SPDX-License-Identifier: Apache-2.0 */
/* The changing calls: names to ids, keys to blocks, then the rooms below. */
#include "index.h"

static bool is_fit(struct mc_view name)
{
    return name.len <= INDEX_NAME_MAX && (name.data || name.len == 0);
}

static bool is_worker(struct mc_view worker)
{
    if (!is_fit(worker)) {
        return false;
    }
    const char *text = worker.data;
    for (size_t i = 0; i < worker.len; i++) {
        if (text[i] == ':' || text[i] == '/') {
            return false;
        }
    }
    return true;
}

static enum mc_index_result done(struct mc_index *ix,
                                 enum mc_index_result result)
{
    static const size_t at[] = {
        [MC_INDEX_APPLIED] = offsetof(struct index_counters, applied),
        [MC_INDEX_FOREIGN] = offsetof(struct index_counters, foreign_keys),
        [MC_INDEX_COLLISION] = offsetof(struct index_counters, collisions),
        [MC_INDEX_CONFLICTING_PARENT] =
            offsetof(struct index_counters, conflicting_parents),
        [MC_INDEX_CYCLIC_PARENT] =
            offsetof(struct index_counters, cyclic_parents),
        [MC_INDEX_FULL] = offsetof(struct index_counters, refused_changes),
        [MC_INDEX_INVALID] = offsetof(struct index_counters, invalid),
    };
    count_add((_Atomic uint64_t *)(void *)((char *)&ix->counters + at[result]),
              1);
    index_step(ix);
    return result;
}

/* The node has no further use in this change. */
static void settle(struct mc_index *ix, uint32_t node)
{
    index_node_flag(ix, node, NODE_FRESH, 0);
    index_node_settle(ix, node);
}

static bool medium_tier(struct mc_view medium, enum mc_tier *tier_out)
{
    if (mc_view_equal(medium, mc_view_make("cpu", 3))) {
        *tier_out = MC_TIER_EXTERNAL;
        return true;
    }
    if (mc_view_equal(medium, mc_view_make("disk", 4))) {
        *tier_out = MC_TIER_DISK;
        return true;
    }
    return false;
}

static uint32_t place_get(struct mc_index *ix, uint32_t tenant,
                          const struct index_owner_key *key, enum mc_tier tier)
{
    uint32_t owner = index_owner_get(ix, key);
    uint32_t slot = owner ? index_slot_get(ix, tenant, owner) : 0;
    if (!slot) {
        count_add(&ix->counters.refused_places, 1);
        return 0;
    }
    return slot * MC_TIER_COUNT + (uint32_t)tier;
}

static uint32_t place_find(struct mc_index *ix, struct mc_view tenant,
                           const struct index_owner_key *key, enum mc_tier tier)
{
    uint32_t t = index_tenant_find(ix, tenant);
    uint32_t owner = t ? index_owner_find(ix, key) : 0;
    uint32_t slot = owner ? index_slot_find(ix, t, owner) : 0;
    return slot ? slot * MC_TIER_COUNT + (uint32_t)tier : 0;
}

/* ---- stores ------------------------------------------------------------ */

static enum mc_index_result hold_page(struct mc_index *ix, uint32_t node_id,
                                      uint32_t place,
                                      const struct mc_key_page *page)
{
    struct index_node *node = node_at(ix, node_id);
    if (index_node_is_stored(ix, node_id)) {
        if (node->u.digest != page->digest) {
            return MC_INDEX_COLLISION;
        }
    }
    index_node_keep(ix, node_id);
    node->u.digest = page->digest;
    return index_part_add(ix, node_id, place, page->part) ? MC_INDEX_APPLIED
                                                          : MC_INDEX_FULL;
}

/* The block will be looked up, mostly for the first time: its place in the
 * table is fetched while names are looked at. */
static void fetch(const struct mc_index *ix, uint64_t hash)
{
    uint32_t tag = index_node_tag(ix, ix->last_tenant, hash);
    __builtin_prefetch(
        &index_table_seg(&ix->node_table, tag)->slot[index_table_start(tag)]);
}

static enum mc_index_result store_page(struct mc_index *ix, uint32_t tenant,
                                       uint32_t place,
                                       const struct mc_key_page *page,
                                       struct mc_view session)
{
    uint32_t node = index_node_get(ix, tenant, page->hash);
    if (!node) {
        return MC_INDEX_FULL;
    }
    enum mc_index_result result = MC_INDEX_APPLIED;
    if (place) {
        result = hold_page(ix, node, place, page);
    }
    if (result != MC_INDEX_COLLISION) {
        enum mc_index_result lineage =
            index_session_advance(ix, tenant, session, node);
        result = result ? result : lineage;
    }
    settle(ix, node);
    return result;
}

enum mc_index_result mc_index_stored(struct mc_index *ix, struct mc_view tenant,
                                     struct mc_view backend, struct mc_view key,
                                     struct mc_view medium,
                                     struct mc_view session)
{
    struct mc_key_page page;
    struct index_owner_key owner = {backend, 0, true};
    enum mc_tier tier;
    if (!mc_key_parse(&ix->opts.layout, key, &page)) {
        return done(ix, MC_INDEX_FOREIGN);
    }
    count_add(&ix->counters.matched_keys, 1);
    if (!is_fit(tenant) || !is_fit(backend) || !is_fit(session)) {
        return done(ix, MC_INDEX_INVALID);
    }
    fetch(ix, page.hash);
    bool is_held = medium_tier(medium, &tier);
    if (!is_held && (!session.data || session.len == 0)) {
        return done(ix, MC_INDEX_APPLIED);
    }
    uint32_t t = index_tenant_get(ix, tenant);
    if (!t) {
        count_add(&ix->counters.refused_nodes, 1);
        return done(ix, MC_INDEX_FULL);
    }
    uint32_t place = is_held ? place_get(ix, t, &owner, tier) : 0;
    if (is_held && !place) {
        return done(ix, MC_INDEX_FULL);
    }
    return done(ix, store_page(ix, t, place, &page, session));
}

enum mc_index_result mc_index_removed(struct mc_index *ix,
                                      struct mc_view tenant,
                                      struct mc_view backend,
                                      struct mc_view key, struct mc_view medium)
{
    struct mc_key_page page;
    struct index_owner_key owner = {backend, 0, true};
    enum mc_tier tier;
    if (!mc_key_parse(&ix->opts.layout, key, &page)) {
        return done(ix, MC_INDEX_FOREIGN);
    }
    count_add(&ix->counters.matched_keys, 1);
    if (!is_fit(tenant) || !is_fit(backend)) {
        return done(ix, MC_INDEX_INVALID);
    }
    uint32_t place =
        medium_tier(medium, &tier) ? place_find(ix, tenant, &owner, tier) : 0;
    uint32_t node =
        place ? index_node_find(ix, index_tenant_find(ix, tenant), page.hash)
              : 0;
    if (!node || !index_node_is_stored(ix, node)) {
        return done(ix, MC_INDEX_APPLIED);
    }
    if (node_at(ix, node)->u.digest != page.digest) {
        return done(ix, MC_INDEX_COLLISION);
    }
    return done(ix, index_part_remove(ix, node, place, page.part)
                        ? MC_INDEX_APPLIED
                        : MC_INDEX_FULL);
}

/* A removed and a stored of one page leave it where it was, so the two are
 * one `stored` to whom it is there already, and nobody sees it gone. */
enum mc_index_result
mc_index_replaced(struct mc_index *ix, struct mc_view tenant,
                  struct mc_view backend, struct mc_view key,
                  struct mc_view medium, struct mc_view session)
{
    return mc_index_stored(ix, tenant, backend, key, medium, session);
}

static void clear(struct mc_index *ix, struct mc_view tenant,
                  const struct index_owner_key *key)
{
    uint32_t t = index_tenant_find(ix, tenant);
    uint32_t owner = t ? index_owner_find(ix, key) : 0;
    uint32_t slot = owner ? index_slot_find(ix, t, owner) : 0;
    if (slot && !index_slot_is_empty(ix, slot)) {
        index_slot_retire(ix, slot);
        index_sweep_begin(ix);
    }
    (void)done(ix, MC_INDEX_APPLIED);
}

void mc_index_cleared(struct mc_index *ix, struct mc_view tenant,
                      struct mc_view backend)
{
    struct index_owner_key key = {backend, 0, true};
    clear(ix, tenant, &key);
}

/* Empty slots too: with the last one the owner's name is let go. */
static void lose_owner(struct mc_index *ix, uint32_t owner)
{
    uint32_t next;
    for (uint32_t id = owner_at(ix, owner)->slots; id; id = next) {
        next = slot_at(ix, id)->next;
        index_slot_retire(ix, id);
    }
}

void mc_index_source_lost(struct mc_index *ix, struct mc_view backend)
{
    struct index_owner_key key = {backend, 0, true};
    uint32_t owner = index_owner_find(ix, &key);
    if (owner) {
        lose_owner(ix, owner);
        index_sweep_begin(ix);
    }
    (void)done(ix, MC_INDEX_APPLIED);
}

/* ---- engines ----------------------------------------------------------- */

/* Names to ids for blocks that an engine holds; the chain's hashes and session
 * are set. */
static enum mc_index_result enter_engine(struct mc_index *ix,
                                         const struct mc_index_engine *engine,
                                         enum mc_tier tier,
                                         struct index_chain *chain)
{
    struct index_owner_key owner = {engine->worker, engine->dp_rank, false};
    if (!is_fit(engine->tenant) || !is_worker(engine->worker) ||
        !is_fit(chain->session) || (unsigned)tier >= MC_TIER_COUNT) {
        return MC_INDEX_INVALID;
    }
    if (chain->count == 0) {
        return MC_INDEX_APPLIED;
    }
    chain->tenant = index_tenant_get(ix, engine->tenant);
    if (!chain->tenant) {
        count_add(&ix->counters.refused_nodes, 1);
        return MC_INDEX_FULL;
    }
    chain->place = place_get(ix, chain->tenant, &owner, tier);
    return chain->place ? MC_INDEX_APPLIED : MC_INDEX_FULL;
}

enum mc_index_result
mc_index_engine_stored(struct mc_index *ix,
                       const struct mc_index_engine *engine, enum mc_tier tier,
                       const uint64_t *parent, const uint64_t *hashes,
                       size_t count, struct mc_view session)
{
    struct index_chain chain = {0, parent, hashes, count, session, 0};
    enum mc_index_result result = enter_engine(ix, engine, tier, &chain);
    if (!result && count > 0) {
        result = index_chain_apply(ix, &chain);
    }
    return done(ix, result);
}

static enum mc_index_result
hold_block(struct mc_index *ix, const struct index_chain *chain, uint64_t hash)
{
    uint32_t node = index_node_get(ix, chain->tenant, hash);
    if (!node) {
        return MC_INDEX_FULL;
    }
    index_node_keep(ix, node);
    enum mc_index_result result = index_place_add(ix, node, chain->place)
                                      ? MC_INDEX_APPLIED
                                      : MC_INDEX_FULL;
    enum mc_index_result lineage =
        index_session_advance(ix, chain->tenant, chain->session, node);
    settle(ix, node);
    return result ? result : lineage;
}

enum mc_index_result mc_index_engine_held(struct mc_index *ix,
                                          const struct mc_index_engine *engine,
                                          enum mc_tier tier,
                                          const uint64_t *hashes, size_t count,
                                          struct mc_view session)
{
    struct index_chain chain = {0, NULL, hashes, count, session, 0};
    enum mc_index_result result = enter_engine(ix, engine, tier, &chain);
    for (size_t i = 0; chain.place && i < count; i++) {
        enum mc_index_result one = hold_block(ix, &chain, hashes[i]);
        result = result ? result : one;
    }
    return done(ix, result);
}

enum mc_index_result
mc_index_engine_removed(struct mc_index *ix,
                        const struct mc_index_engine *engine, enum mc_tier tier,
                        const uint64_t *hashes, size_t count)
{
    struct index_owner_key owner = {engine->worker, engine->dp_rank, false};
    uint32_t place = place_find(ix, engine->tenant, &owner, tier);
    uint32_t tenant = place ? index_tenant_find(ix, engine->tenant) : 0;
    enum mc_index_result result = MC_INDEX_APPLIED;
    for (size_t i = 0; tenant && i < count; i++) {
        uint32_t node = index_node_find(ix, tenant, hashes[i]);
        if (node && !index_place_remove(ix, node, place)) {
            result = MC_INDEX_FULL;
        }
    }
    return done(ix, result);
}

void mc_index_engine_cleared(struct mc_index *ix,
                             const struct mc_index_engine *engine)
{
    struct index_owner_key key = {engine->worker, engine->dp_rank, false};
    clear(ix, engine->tenant, &key);
}

void mc_index_worker_lost(struct mc_index *ix, struct mc_view worker)
{
    uint32_t high =
        atomic_load_explicit(&ix->owners.high, memory_order_relaxed);
    for (uint32_t id = 1; id <= high; id++) {
        const struct index_owner *owner = owner_at(ix, id);
        const struct index_name *name =
            atomic_load_explicit(&owner->name, memory_order_relaxed);
        if (owner->is_used && !owner->is_store &&
            mc_view_equal(
                mc_view_make(name->bytes, owner->stem_len),
                mc_view_make(worker.data ? worker.data : "", worker.len))) {
            lose_owner(ix, id);
        }
    }
    index_sweep_begin(ix);
    (void)done(ix, MC_INDEX_APPLIED);
}

/* ---- sessions ---------------------------------------------------------- */

enum mc_index_result mc_index_observe(struct mc_index *ix,
                                      struct mc_view tenant,
                                      struct mc_view session,
                                      const uint64_t *hashes, size_t count)
{
    struct index_chain chain = {0, NULL, hashes, count, session, 0};
    if (!is_fit(tenant) || !is_fit(session)) {
        return done(ix, MC_INDEX_INVALID);
    }
    if (count == 0) {
        return done(ix, MC_INDEX_APPLIED);
    }
    chain.tenant = index_tenant_get(ix, tenant);
    if (!chain.tenant) {
        count_add(&ix->counters.refused_nodes, 1);
        return done(ix, MC_INDEX_FULL);
    }
    return done(ix, index_chain_apply(ix, &chain));
}

void mc_index_session_end(struct mc_index *ix, struct mc_view tenant,
                          struct mc_view session)
{
    uint32_t t = index_tenant_find(ix, tenant);
    uint32_t id = t && session.data && session.len
                      ? index_session_find(ix, t, session)
                      : 0;
    if (id) {
        index_session_drop(ix, id);
    }
    (void)done(ix, MC_INDEX_APPLIED);
}
