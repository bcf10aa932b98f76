/* SPDX-License-Identifier: Apache-2.0 */
/* A scope is a tenant at a backend; it has its entries in a list, so that clearing
 * it does not look at others, and goes with its last entry. Events of one scope
 * come in runs, hence last_scope. */
#include "mirror_parts.h"

#include "mci_alloc.h"
#include "mci_hash.h"

static uint32_t scope_hash(const struct mirror *mirror, struct mc_view tenant,
                           struct mc_view backend)
{
    uint64_t hash = mci_hash64_seeded(tenant.data, tenant.len, mirror->seed);
    return slot_table_hash(mci_hash64_seeded(backend.data, backend.len, hash));
}

static bool is_scope(const struct mirror_scope *scope, struct mc_view tenant,
                     struct mc_view backend)
{
    return mc_view_equal(name_view(scope->tenant), tenant) &&
           mc_view_equal(name_view(scope->backend), backend);
}

/* The slot of a scope, or one that is empty. */
static size_t scope_slot(const struct mirror *mirror, uint32_t hash,
                         struct mc_view tenant, struct mc_view backend)
{
    const struct slot_table *table = &mirror->scope_table;
    size_t i = slot_table_first(table, hash);
    for (; slot_table_is_taken(table, i); i = slot_table_after(table, i)) {
        if (table->hashes[i] == hash &&
            is_scope(table->items[i], tenant, backend)) {
            break;
        }
    }
    return i;
}

struct mirror_scope *mirror_scope_find(struct mirror *mirror,
                                       const struct mirror_event *event)
{
    struct mc_view tenant = event->tenant_id;
    struct mc_view backend = event->backend_id;
    if (mirror->last_scope && is_scope(mirror->last_scope, tenant, backend)) {
        return mirror->last_scope;
    }
    size_t slot = scope_slot(mirror, scope_hash(mirror, tenant, backend),
                             tenant, backend);
    if (!slot_table_is_taken(&mirror->scope_table, slot)) {
        return NULL;
    }
    mirror->last_scope = mirror->scope_table.items[slot];
    return mirror->last_scope;
}

void mirror_scope_free(struct mirror *mirror, struct mirror_scope *scope)
{
    if (mirror->last_scope == scope) {
        mirror->last_scope = NULL;
    }
    mci_list_remove(&scope->link);
    mci_list_remove(&scope->floor_link);
    name_pool_release(&mirror->names, scope->tenant);
    name_pool_release(&mirror->names, scope->backend);
    mci_free(scope);
}

void mirror_scope_drop_empty(struct mirror *mirror, struct mirror_scope *scope)
{
    if (scope->count > 0 || scope->graves > 0 || scope->floor > 0) {
        return;
    }
    slot_table_remove(&mirror->scope_table,
                      scope_slot(mirror, scope->hash, name_view(scope->tenant),
                                 name_view(scope->backend)));
    mirror_scope_free(mirror, scope);
}

static enum mc_err scope_name(struct mirror *mirror, struct mirror_scope *scope,
                              struct mc_view tenant, struct mc_view backend)
{
    enum mc_err err = name_pool_hold(&mirror->names, tenant, &scope->tenant);
    if (err != MC_OK) {
        return err;
    }
    return name_pool_hold(&mirror->names, backend, &scope->backend);
}

enum mc_err mirror_scope_add(struct mirror *mirror,
                             const struct mirror_event *event,
                             struct mirror_scope **scope_out)
{
    struct mc_view tenant = event->tenant_id;
    struct mc_view backend = event->backend_id;
    enum mc_err err = slot_table_reserve(&mirror->scope_table);
    if (err != MC_OK) {
        return err;
    }
    struct mirror_scope *scope = mci_calloc(1, sizeof *scope);
    if (!scope) {
        return MC_ERR_NOMEM;
    }
    mci_list_init(&scope->entries);
    mci_list_init(&scope->link);
    mci_list_init(&scope->floor_link);
    err = scope_name(mirror, scope, tenant, backend);
    if (err != MC_OK) {
        mirror_scope_free(mirror, scope);
        return err;
    }
    scope->hash = scope_hash(mirror, tenant, backend);
    slot_table_add(&mirror->scope_table, scope->hash, scope);
    mci_list_push_back(&mirror->scopes, &scope->link);
    mirror->last_scope = scope;
    *scope_out = scope;
    return MC_OK;
}
