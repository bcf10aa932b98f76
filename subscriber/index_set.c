/* SPDX-License-Identifier: Apache-2.0 */
/* Residency as shared sets of places.
 *
 * Blocks of one chain are mostly held in the same places, so a node stores the
 * id of a set, and equal sets are stored once. A change of a node finds the set
 * that has one place more or less, usually in a small table of steps taken
 * before. A set never changes; one that no node has is kept for a while, since
 * what was there comes back.
 *
 * Places of a cleared owner stay in sets until a sweep has passed every node;
 * whoever reads a set leaves them out, and no new set is made with them.
 *
 * Taking a place away must not fail for want of memory. When it would, a set of
 * the reserve is used; they are put back when there is memory again. */
#include <string.h>

#include "index.h"

#define UNUSED_MAX 1024u
#define SPARE_MAX 16u
#define SPARE_PLACES 64u

enum mc_err index_sets_init(struct mc_index *ix)
{
    ix->set_cache =
        index_block_take(&ix->memory, INDEX_SET_CACHE * sizeof *ix->set_cache);
    ix->set_scratch_cap = ix->opts.max_owners * MC_TIER_COUNT + 1;
    ix->set_scratch = index_block_take(
        &ix->memory, ix->set_scratch_cap * sizeof *ix->set_scratch);
    ix->set_stamp = 2;
    return ix->set_cache && ix->set_scratch ? MC_OK : MC_ERR_NOMEM;
}

void index_sets_fini(struct mc_index *ix)
{
    uint32_t high =
        atomic_load_explicit(&ix->setrefs.high, memory_order_relaxed);
    for (uint32_t id = 1; id <= high; id++) {
        if (!setref_at(ix, id)->is_dead) {
            index_block_give(&ix->memory, set_at(ix, id));
        }
    }
    while (ix->spare_sets) {
        struct index_set *set = ix->spare_sets;
        memcpy(&ix->spare_sets, set->place, sizeof ix->spare_sets);
        index_block_give(&ix->memory, set);
    }
    index_block_give(&ix->memory, ix->set_cache);
    index_block_give(&ix->memory, ix->set_scratch);
}

bool index_set_holds(const struct index_set *set, uint32_t place)
{
    uint32_t low = 0;
    uint32_t high = set->count;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (set->place[mid] < place) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low < set->count && set->place[low] == place;
}

/* ---- finding and making ------------------------------------------------ */

static uint32_t set_find(const struct mc_index *ix, uint64_t key,
                         const uint32_t *places, uint32_t count)
{
    struct index_probe probe =
        index_probe_begin(&ix->set_table, (uint32_t)(key >> 32));
    uint32_t id;
    while ((id = index_probe_next(&probe))) {
        const struct index_set *set = set_at(ix, id);
        if (set->key == key && set->count == count &&
            memcmp(set->place, places, count * sizeof *places) == 0) {
            return id;
        }
    }
    return 0;
}

static struct index_set *take_block(struct mc_index *ix, uint32_t count,
                                    bool may_use_spare)
{
    struct index_set *set = index_block_take(
        &ix->memory, sizeof *set + count * sizeof set->place[0]);
    if (!set && may_use_spare && ix->spare_sets && count <= SPARE_PLACES) {
        set = ix->spare_sets;
        memcpy(&ix->spare_sets, set->place, sizeof ix->spare_sets);
        ix->spare_count--;
    }
    return set;
}

static void fill_spares(struct mc_index *ix)
{
    while (ix->spare_count < SPARE_MAX) {
        struct index_set *set = index_block_take(
            &ix->memory, sizeof *set + SPARE_PLACES * sizeof set->place[0]);
        if (!set) {
            return;
        }
        memcpy(set->place, &ix->spare_sets, sizeof ix->spare_sets);
        ix->spare_sets = set;
        ix->spare_count++;
    }
    (void)index_pool_reserve(&ix->memory, &ix->setrefs, SPARE_MAX);
}

static bool has_store(const struct mc_index *ix, const uint32_t *places,
                      uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (atomic_load_explicit(
                &slot_at(ix, places[i] / MC_TIER_COUNT)->is_store,
                memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

static void set_free(struct mc_index *ix, uint32_t id)
{
    struct index_set *set = set_at(ix, id);
    if (set->is_in_table) {
        index_table_remove(&ix->set_table, (uint32_t)(set->key >> 32), id);
    }
    setref_at(ix, id)->is_dead = 1; /* readers may still follow the id */
    index_block_retire(&ix->memory, set);
    index_pool_retire(&ix->memory, &ix->setrefs, id);
    ix->set_stamp += 2;
}

/* A set nobody has waits in line; when the line is too long its older half
 * goes, at one stroke, since each time the remembered steps go too. */
static void trim_unused(struct mc_index *ix)
{
    while (ix->unused_sets > UNUSED_MAX / 2) {
        uint32_t id = ix->unused_head;
        ix->unused_head = setref_at(ix, id)->link;
        ix->unused_sets--;
        if (!ix->unused_head) {
            ix->unused_tail = 0;
        }
        set_at(ix, id)->is_unused = false;
        if (set_at(ix, id)->refs == 0) {
            set_free(ix, id);
        }
    }
}

static void set_unused(struct mc_index *ix, uint32_t id)
{
    struct index_set *set = set_at(ix, id);
    if (set->is_unused) {
        return;
    }
    set->is_unused = true;
    setref_at(ix, id)->link = 0;
    if (ix->unused_tail) {
        setref_at(ix, ix->unused_tail)->link = id;
    } else {
        ix->unused_head = id;
    }
    ix->unused_tail = id;
    if (++ix->unused_sets > UNUSED_MAX) {
        trim_unused(ix);
    }
}

/* The set of the places in the scratch; 0 without room. */
static uint32_t set_get(struct mc_index *ix, uint32_t count, bool may_use_spare)
{
    uint64_t key = 0;
    for (uint32_t i = 0; i < count; i++) {
        key += index_mix(ix->set_scratch[i] + ix->secret);
    }
    key = index_mix(key);
    uint32_t id = set_find(ix, key, ix->set_scratch, count);
    if (id) {
        return id;
    }
    struct index_set *set = take_block(ix, count, may_use_spare);
    id = set ? index_pool_take(&ix->memory, &ix->setrefs) : 0;
    if (!id) {
        index_block_give(&ix->memory, set);
        return 0;
    }
    memset(set, 0, sizeof *set);
    set->count = count;
    set->key = key;
    set->has_store = has_store(ix, ix->set_scratch, count);
    memcpy(set->place, ix->set_scratch, count * sizeof set->place[0]);
    setref_at(ix, id)->is_dead = 0;
    atomic_store_explicit(&setref_at(ix, id)->set, set, memory_order_release);
    /* Outside the table it is a set like another, only not found again. */
    set->is_in_table = index_table_insert(&ix->memory, &ix->set_table,
                                          (uint32_t)(key >> 32), id);
    set_unused(ix, id);
    return id;
}

/* Copies what still counts of a set into the scratch, with or without one
 * place. Returns how many, UINT32_MAX if there are too many. */
static uint32_t fill_scratch(struct mc_index *ix, uint32_t from, uint32_t place,
                             bool is_out)
{
    const struct index_set *set = from ? set_at(ix, from) : NULL;
    uint32_t n = 0;
    bool is_put = is_out;
    for (uint32_t i = 0; set && i < set->count; i++) {
        uint32_t at = set->place[i];
        if (at == place || !index_place_is_live(ix, at)) {
            continue;
        }
        if (!is_put && at > place) {
            ix->set_scratch[n++] = place;
            is_put = true;
        }
        if (n + 1 >= ix->set_scratch_cap) {
            return UINT32_MAX;
        }
        ix->set_scratch[n++] = at;
    }
    if (!is_put) {
        ix->set_scratch[n++] = place;
    }
    return n;
}

/* The set that a step leads to. False without room. */
static bool step(struct mc_index *ix, uint32_t from, uint32_t place,
                 bool is_out, uint32_t *to_out)
{
    uint32_t at = (uint32_t)(index_mix((uint64_t)from << 32 | place) &
                             (INDEX_SET_CACHE - 1));
    struct index_set_cache *cache = &ix->set_cache[at];
    if (cache->stamp == ix->set_stamp + is_out && cache->from == from &&
        cache->place == place) {
        *to_out = cache->to;
        return true;
    }
    uint32_t count = fill_scratch(ix, from, place, is_out);
    if (count == UINT32_MAX) {
        return false;
    }
    uint32_t to = count ? set_get(ix, count, is_out) : 0;
    if (count && !to) {
        return false;
    }
    cache->from = from;
    cache->place = place;
    cache->to = to;
    cache->stamp = ix->set_stamp + is_out;
    *to_out = to;
    return true;
}

/* ---- nodes ------------------------------------------------------------- */

static void node_set_set(struct mc_index *ix, uint32_t id, uint32_t to)
{
    struct index_node *node = node_at(ix, id);
    uint32_t from = atomic_load_explicit(&node->set, memory_order_relaxed);
    if (from == to) {
        return;
    }
    if (to) {
        set_at(ix, to)->refs++;
    }
    atomic_store_explicit(&node->set, to, memory_order_release);
    if (!from || !to) {
        uint64_t n = to ? 1 : UINT64_MAX;
        uint32_t tenant =
            atomic_load_explicit(&node->tenant, memory_order_relaxed);
        count_add(&tenant_at(ix, tenant)->resident, n);
        count_add(&ix->counters.held_nodes, n);
    }
    if (from && --set_at(ix, from)->refs == 0) {
        set_unused(ix, from);
    }
    if (to) {
        index_node_keep(ix, id);
    } else {
        index_node_settle(ix, id);
    }
}

bool index_node_holds(const struct mc_index *ix, uint32_t node, uint32_t place)
{
    uint32_t set =
        atomic_load_explicit(&node_at(ix, node)->set, memory_order_relaxed);
    return set && index_set_holds(set_at(ix, set), place);
}

bool index_place_add(struct mc_index *ix, uint32_t node, uint32_t place)
{
    uint32_t from =
        atomic_load_explicit(&node_at(ix, node)->set, memory_order_relaxed);
    uint32_t to;
    if (from && index_set_holds(set_at(ix, from), place)) {
        return true;
    }
    if (!step(ix, from, place, false, &to)) {
        count_add(&ix->counters.refused_places, 1);
        return false;
    }
    node_set_set(ix, node, to);
    slot_at(ix, place / MC_TIER_COUNT)->held[place % MC_TIER_COUNT]++;
    count_add(&ix->counters.resident, 1);
    return true;
}

bool index_place_remove(struct mc_index *ix, uint32_t node, uint32_t place)
{
    uint32_t from =
        atomic_load_explicit(&node_at(ix, node)->set, memory_order_relaxed);
    uint32_t to;
    if (!from || !index_set_holds(set_at(ix, from), place)) {
        return true;
    }
    if (!step(ix, from, place, true, &to)) {
        count_add(&ix->counters.refused_places, 1);
        return false;
    }
    node_set_set(ix, node, to);
    slot_at(ix, place / MC_TIER_COUNT)->held[place % MC_TIER_COUNT]--;
    count_add(&ix->counters.resident, UINT64_MAX);
    if (ix->spare_count < SPARE_MAX) {
        fill_spares(ix);
    }
    return true;
}

bool index_node_is_stored(const struct mc_index *ix, uint32_t node)
{
    uint32_t id =
        atomic_load_explicit(&node_at(ix, node)->set, memory_order_relaxed);
    const struct index_set *set = id ? set_at(ix, id) : NULL;
    for (uint32_t i = 0; set && set->has_store && i < set->count; i++) {
        const struct index_slot *slot =
            slot_at(ix, set->place[i] / MC_TIER_COUNT);
        if (atomic_load_explicit(&slot->is_store, memory_order_relaxed) &&
            index_place_is_live(ix, set->place[i])) {
            return true;
        }
    }
    return index_parts_are_live(ix, node);
}

/* ---- sweeping ---------------------------------------------------------- */

static bool has_dead_place(struct mc_index *ix, struct index_set *set)
{
    if (set->clean == ix->sweep_round) {
        return false;
    }
    for (uint32_t i = 0; i < set->count; i++) {
        if (!index_place_is_live(ix, set->place[i])) {
            return true;
        }
    }
    set->clean = ix->sweep_round;
    return false;
}

bool index_node_sweep(struct mc_index *ix, uint32_t id)
{
    uint32_t from =
        atomic_load_explicit(&node_at(ix, id)->set, memory_order_relaxed);
    uint32_t to;
    if (!from || !has_dead_place(ix, set_at(ix, from))) {
        return true;
    }
    if (!step(ix, from, UINT32_MAX, true, &to)) {
        return false;
    }
    node_set_set(ix, id, to);
    return true;
}

void index_set_sweep(struct mc_index *ix, uint32_t id)
{
    struct index_set *set = set_at(ix, id);
    if (!set || setref_at(ix, id)->is_dead || set->refs || !set->is_in_table ||
        !has_dead_place(ix, set)) {
        return;
    }
    index_table_remove(&ix->set_table, (uint32_t)(set->key >> 32), id);
    set->is_in_table = false; /* it goes when its turn in the line comes */
}
