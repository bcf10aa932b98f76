/* SPDX-License-Identifier: Apache-2.0 */
/* Names, and what they stand for: tenants, owners, slots.
 *
 * Tenants stay. Owners stay until their number reaches its bound; then those
 * without a slot go. A slot is what sets hold: when an owner is cleared in a
 * tenant its slot is retired, which takes effect at once, and the owner gets
 * another the next time it holds something. */
#include <string.h>

#include "index.h"
#include "mci_alloc.h"
#include "mci_hash.h"

struct index_name *index_name_make(struct mc_index *ix, struct mc_view text)
{
    struct index_name *name =
        index_block_take(&ix->memory, sizeof *name + text.len);
    if (name) {
        name->len = (uint32_t)text.len;
        if (text.len) {
            memcpy(name->bytes, text.data, text.len);
        }
    }
    return name;
}

static bool is_named(const struct index_name *name, struct mc_view text)
{
    return name->len == text.len &&
           (text.len == 0 || memcmp(name->bytes, text.data, text.len) == 0);
}

/* ---- tenants ----------------------------------------------------------- */

static uint32_t tenant_tag(const struct mc_index *ix, struct mc_view name)
{
    return (uint32_t)(mci_hash64_seeded(name.data ? name.data : "", name.len,
                                        ix->secret) >>
                      32);
}

uint32_t index_tenant_find(const struct mc_index *ix, struct mc_view name)
{
    struct index_probe probe =
        index_probe_begin(&ix->tenant_table, tenant_tag(ix, name));
    uint32_t id;
    while ((id = index_probe_next(&probe))) {
        if (is_named(atomic_load_explicit(&tenant_at(ix, id)->name,
                                          memory_order_acquire),
                     name)) {
            return id;
        }
    }
    return 0;
}

static uint32_t tenant_make(struct mc_index *ix, struct mc_view text)
{
    if (ix->tenant_count >= ix->opts.max_tenants || text.len > INDEX_NAME_MAX) {
        return 0;
    }
    uint32_t id = index_pool_take(&ix->memory, &ix->tenants);
    struct index_name *name = id ? index_name_make(ix, text) : NULL;
    if (!name) {
        goto err_give_id;
    }
    struct index_tenant *tenant = tenant_at(ix, id);
    memset(tenant, 0, sizeof *tenant);
    atomic_store_explicit(&tenant->name, name, memory_order_release);
    if (!index_table_insert(&ix->memory, &ix->tenant_table,
                            tenant_tag(ix, text), id)) {
        goto err_give_name;
    }
    ix->tenant_count++;
    return id;

err_give_name:
    atomic_store_explicit(&tenant->name, NULL, memory_order_relaxed);
    index_block_retire(&ix->memory, name); /* a walk may have met it */
err_give_id:
    if (id) {
        index_pool_give(&ix->tenants, id);
    }
    return 0;
}

uint32_t index_tenant_get(struct mc_index *ix, struct mc_view name)
{
    uint32_t id = ix->last_tenant;
    if (id && is_named(atomic_load_explicit(&tenant_at(ix, id)->name,
                                            memory_order_relaxed),
                       name)) {
        return id;
    }
    id = index_tenant_find(ix, name);
    if (!id) {
        id = tenant_make(ix, name);
    }
    ix->last_tenant = id;
    return id;
}

/* ---- owners ------------------------------------------------------------ */

static size_t owner_text(const struct index_owner_key *key, char *text_out,
                         size_t *stem_at_out)
{
    static const char head[] = {'s', 't', 'o', 'r', 'e', ':'};
    size_t at = 0;
    if (key->is_store) {
        memcpy(text_out, head, sizeof head);
        at = sizeof head;
    }
    *stem_at_out = at;
    if (key->stem.data) {
        memcpy(text_out + at, key->stem.data, key->stem.len);
    }
    at += key->stem.len;
    if (!key->is_store) {
        char digits[10];
        size_t n = 0;
        uint32_t rank = key->rank;
        do {
            digits[n++] = (char)('0' + rank % 10);
            rank /= 10;
        } while (rank);
        text_out[at++] = '/';
        while (n) {
            text_out[at++] = digits[--n];
        }
    }
    return at;
}

static bool is_owner(const struct mc_index *ix, uint32_t id,
                     const struct index_owner_key *key)
{
    const struct index_owner *owner = owner_at(ix, id);
    const struct index_name *name =
        atomic_load_explicit(&owner->name, memory_order_relaxed);
    return owner->is_used && owner->is_store == key->is_store &&
           (key->is_store || owner->rank == key->rank) &&
           owner->stem_len == key->stem.len &&
           (!key->stem.data || memcmp(name->bytes + owner->stem_at,
                                      key->stem.data, key->stem.len) == 0);
}

/* Room for the bound on names, "store:" and a rank. */
#define OWNER_TEXT_MAX (INDEX_NAME_MAX + 20)

uint32_t index_owner_find(struct mc_index *ix,
                          const struct index_owner_key *key)
{
    if (key->stem.len > INDEX_NAME_MAX) {
        return 0;
    }
    if (key->is_store && ix->last_store && is_owner(ix, ix->last_store, key)) {
        return ix->last_store;
    }
    uint64_t hash =
        mci_hash64_seeded(key->stem.data ? key->stem.data : "", key->stem.len,
                          ix->secret + key->rank * UINT64_C(2) + key->is_store);
    struct index_owner_cache *cache =
        &ix->owner_cache[hash & (INDEX_OWNER_CACHE - 1)];
    if (cache->owner && cache->key == hash && is_owner(ix, cache->owner, key)) {
        return cache->owner;
    }
    char text[OWNER_TEXT_MAX];
    size_t stem_at;
    size_t len = owner_text(key, text, &stem_at);
    uint32_t id = (uint32_t)(uintptr_t)mci_map_get(&ix->owner_map,
                                                   mc_view_make(text, len));
    if (id) {
        cache->key = hash;
        cache->owner = id;
        ix->last_store = key->is_store ? id : ix->last_store;
    }
    return id;
}

/* Owners that hold nothing go, to make room for others. */
static bool drop_owner(struct mc_index *ix)
{
    uint32_t high =
        atomic_load_explicit(&ix->owners.high, memory_order_relaxed);
    for (uint32_t id = 1; id <= high; id++) {
        struct index_owner *owner = owner_at(ix, id);
        struct index_name *name =
            atomic_load_explicit(&owner->name, memory_order_relaxed);
        if (owner->is_used && !owner->slots && !owner->retired) {
            (void)mci_map_remove(&ix->owner_map, index_name_view(name));
            owner->is_used = false; /* readers may still follow the name */
            index_block_retire(&ix->memory, name);
            index_pool_retire(&ix->memory, &ix->owners, id);
            ix->owner_count--;
            return true;
        }
    }
    return false;
}

static uint32_t owner_make(struct mc_index *ix,
                           const struct index_owner_key *key)
{
    char text[OWNER_TEXT_MAX];
    size_t stem_at;
    size_t len = owner_text(key, text, &stem_at);
    uint32_t id = index_pool_take(&ix->memory, &ix->owners);
    struct index_name *name =
        id ? index_name_make(ix, mc_view_make(text, len)) : NULL;
    if (!name) {
        goto err_give_id;
    }
    struct index_owner *owner = owner_at(ix, id);
    memset(owner, 0, sizeof *owner);
    owner->stem_at = (uint32_t)stem_at;
    owner->stem_len = (uint32_t)key->stem.len;
    owner->rank = key->rank;
    owner->is_store = key->is_store;
    if (mci_map_put(&ix->owner_map, index_name_view(name),
                    (void *)(uintptr_t)id, NULL) != MC_OK) {
        goto err_give_name;
    }
    owner->is_used = true;
    atomic_store_explicit(&owner->name, name, memory_order_release);
    ix->owner_count++;
    return id;

err_give_name:
    index_block_give(&ix->memory, name);
err_give_id:
    if (id) {
        index_pool_give(&ix->owners, id);
    }
    return 0;
}

uint32_t index_owner_get(struct mc_index *ix, const struct index_owner_key *key)
{
    uint32_t id = index_owner_find(ix, key);
    if (id || key->stem.len > INDEX_NAME_MAX) {
        return id;
    }
    if (ix->owner_count >= ix->opts.max_owners && !drop_owner(ix)) {
        return 0;
    }
    return owner_make(ix, key);
}

/* ---- slots ------------------------------------------------------------- */

uint32_t index_slot_find(const struct mc_index *ix, uint32_t tenant,
                         uint32_t owner)
{
    const struct index_tenant *t = tenant_at(ix, tenant);
    return owner < t->slot_cap ? t->slots[owner] : 0;
}

static bool reserve_slots(struct mc_index *ix, struct index_tenant *tenant,
                          uint32_t owner)
{
    if (owner < tenant->slot_cap) {
        return true;
    }
    uint32_t cap = tenant->slot_cap ? tenant->slot_cap * 2 : 8;
    while (cap <= owner) {
        cap *= 2;
    }
    uint32_t *slots = index_block_take(&ix->memory, cap * sizeof *slots);
    if (!slots) {
        return false;
    }
    if (tenant->slot_cap) {
        memcpy(slots, tenant->slots, tenant->slot_cap * sizeof *slots);
    }
    index_block_give(&ix->memory, tenant->slots);
    tenant->slots = slots;
    tenant->slot_cap = cap;
    return true;
}

uint32_t index_slot_get(struct mc_index *ix, uint32_t tenant, uint32_t owner)
{
    uint32_t id = index_slot_find(ix, tenant, owner);
    if (id) {
        return id;
    }
    struct index_tenant *t = tenant_at(ix, tenant);
    if (!reserve_slots(ix, t, owner) ||
        !(id = index_pool_take(&ix->memory, &ix->slots))) {
        return 0;
    }
    struct index_slot *slot = slot_at(ix, id);
    struct index_owner *o = owner_at(ix, owner);
    slot->tenant = tenant;
    slot->next = o->slots;
    memset(slot->held, 0, sizeof slot->held);
    atomic_store_explicit(&slot->owner, owner, memory_order_relaxed);
    atomic_store_explicit(&slot->is_store, o->is_store, memory_order_relaxed);
    atomic_store_explicit(&slot->state, SLOT_LIVE, memory_order_release);
    o->slots = id;
    t->slots[owner] = id;
    return id;
}

bool index_slot_is_empty(const struct mc_index *ix, uint32_t id)
{
    const struct index_slot *slot = slot_at(ix, id);
    uint64_t held = 0;
    for (int tier = 0; tier < MC_TIER_COUNT; tier++) {
        held += slot->held[tier];
    }
    return held == 0 && ix->opts.layout.parts == 1;
}

void index_slot_retire(struct mc_index *ix, uint32_t id)
{
    struct index_slot *slot = slot_at(ix, id);
    uint32_t owner_id =
        atomic_load_explicit(&slot->owner, memory_order_relaxed);
    struct index_owner *owner = owner_at(ix, owner_id);
    uint64_t held = 0;
    for (int tier = 0; tier < MC_TIER_COUNT; tier++) {
        held += slot->held[tier];
    }
    atomic_store(&slot->state, SLOT_RETIRED);
    count_add(&ix->counters.resident, -held);
    tenant_at(ix, slot->tenant)->slots[owner_id] = 0;
    if (owner->slots == id) {
        owner->slots = slot->next;
    } else {
        uint32_t before = owner->slots;
        while (slot_at(ix, before)->next != id) {
            before = slot_at(ix, before)->next;
        }
        slot_at(ix, before)->next = slot->next;
    }
    owner->retired++;
    ix->dead_slots++;
    ix->set_stamp += 2; /* remembered steps may lead to its places */
}

void index_slot_free(struct mc_index *ix, uint32_t id)
{
    struct index_slot *slot = slot_at(ix, id);
    owner_at(ix, atomic_load_explicit(&slot->owner, memory_order_relaxed))
        ->retired--;
    atomic_store_explicit(&slot->state, SLOT_FREE, memory_order_release);
    ix->dead_slots--;
    index_pool_retire(&ix->memory, &ix->slots, id);
}
