/* SPDX-License-Identifier: Apache-2.0 */
/* One table of entries, one of scopes (mirror_scope.c). */
#include "mirror_parts.h"
#include "mirror_past.h"

#include <string.h>

#include "mci_alloc.h"
#include "mci_hash.h"

enum mc_err mirror_create(uint64_t max_entries, uint64_t seed,
                          struct mirror **mirror_out)
{
    struct mirror *mirror = mci_calloc(1, sizeof *mirror);
    if (!mirror) {
        return MC_ERR_NOMEM;
    }
    mci_list_init(&mirror->scopes);
    mci_list_init(&mirror->graves);
    mci_list_init(&mirror->floors);
    mci_list_init(&mirror->old_graves);
    mci_list_init(&mirror->old_floors);
    mirror->names.seed = seed;
    mirror->seed = seed;
    mirror->max_entries = max_entries;
    *mirror_out = mirror;
    return MC_OK;
}

void mirror_destroy(struct mirror *mirror)
{
    if (!mirror) {
        return;
    }
    mirror_clear(mirror);
    mci_free(mirror);
}

/* ---- entries ---------------------------------------------------------- */

static uint32_t entry_hash(const struct mirror *mirror,
                           const struct mirror_scope *scope, struct mc_view key,
                           struct mc_view medium)
{
    uint64_t hash = mirror->seed ^ ((uint64_t)scope->hash << 32);
    hash = mci_hash64_seeded(medium.data, medium.len, hash);
    return slot_table_hash(mci_hash64_seeded(key.data, key.len, hash));
}

static struct mc_view key_of(const struct mirror_entry *entry)
{
    return mc_view_make(entry->key, entry->key_len);
}

static bool is_entry(const struct mirror_entry *entry,
                     const struct mirror_scope *scope, struct mc_view key,
                     struct mc_view medium)
{
    return entry->scope == scope && mc_view_equal(key_of(entry), key) &&
           mc_view_equal(name_view(entry->medium), medium);
}

/* The slot of an entry, or one that is empty. */
static size_t entry_slot(const struct mirror *mirror,
                         const struct mirror_scope *scope, struct mc_view key,
                         struct mc_view medium)
{
    const struct slot_table *table = &mirror->entries;
    uint32_t hash = entry_hash(mirror, scope, key, medium);
    size_t i = slot_table_first(table, hash);
    for (; slot_table_is_taken(table, i); i = slot_table_after(table, i)) {
        if (table->hashes[i] == hash &&
            is_entry(table->items[i], scope, key, medium)) {
            break;
        }
    }
    return i;
}

struct mirror_entry *mirror_entry_find(const struct mirror *mirror,
                                       const struct mirror_scope *scope,
                                       const struct mirror_event *event,
                                       size_t *slot_out)
{
    *slot_out = entry_slot(mirror, scope, event->object_key, event->medium);
    return slot_table_is_taken(&mirror->entries, *slot_out)
               ? mirror->entries.items[*slot_out]
               : NULL;
}

size_t mirror_entry_slot(const struct mirror *mirror,
                         const struct mirror_entry *entry)
{
    const struct slot_table *table = &mirror->entries;
    size_t i = slot_table_first(table, entry->hash);
    while (table->items[i] != entry) {
        i = slot_table_after(table, i);
    }
    return i;
}

void mirror_entry_free(struct mirror *mirror, struct mirror_entry *entry)
{
    name_pool_release(&mirror->names, entry->medium);
    name_pool_release(&mirror->names, entry->session);
    name_pool_release(&mirror->names, entry->group);
    mci_free(entry);
}

static void grave_uncount(struct mirror *mirror,
                          const struct mirror_entry *entry)
{
    entry->scope->graves--;
    if (mirror_is_grave(mirror, entry)) {
        mirror->grave_count--;
    } else {
        mirror->old_count--;
    }
}

void mirror_entry_unlink(struct mirror *mirror, struct mirror_entry *entry,
                         size_t slot)
{
    slot_table_remove(&mirror->entries, slot);
    mci_list_remove(&entry->link);
    if (entry->is_grave) {
        grave_uncount(mirror, entry);
    } else {
        entry->scope->count--;
    }
}

void mirror_part(struct mirror *mirror)
{
    struct mirror_entry *entry = mirror->parting;
    if (entry) {
        mirror->parting = NULL;
        mirror_scope_drop_empty(mirror, entry->scope);
        mirror_entry_free(mirror, entry);
    }
}

static enum mc_err entry_name(struct mirror *mirror, struct mirror_entry *entry,
                              const struct mirror_event *event)
{
    struct name_pool *names = &mirror->names;
    enum mc_err err = name_pool_hold(names, event->medium, &entry->medium);
    if (err == MC_OK) {
        err = name_pool_hold(names, event->session_id, &entry->session);
    }
    if (err == MC_OK) {
        err = name_pool_hold(names, event->group_id, &entry->group);
    }
    return err;
}

static enum mc_err entry_make(struct mirror *mirror,
                              const struct mirror_event *event,
                              struct mirror_entry **entry_out)
{
    size_t key_len = event->object_key.len;
    struct mirror_entry *entry = mci_alloc(sizeof *entry + key_len);
    if (!entry) {
        return MC_ERR_NOMEM;
    }
    memset(entry, 0, sizeof *entry);
    enum mc_err err = entry_name(mirror, entry, event);
    if (err != MC_OK) {
        mirror_entry_free(mirror, entry);
        return err;
    }
    entry->event_id = event->event_id;
    entry->key_len = (uint32_t)key_len;
    if (key_len > 0) {
        memcpy(entry->key, event->object_key.data, key_len);
    }
    *entry_out = entry;
    return MC_OK;
}

enum mc_err mirror_entry_add(struct mirror *mirror, struct mirror_scope *scope,
                             const struct mirror_event *event,
                             struct mirror_entry **entry_out)
{
    enum mc_err err = slot_table_reserve(&mirror->entries);
    if (err != MC_OK) {
        return err;
    }
    struct mirror_entry *entry = NULL;
    err = entry_make(mirror, event, &entry);
    if (err != MC_OK) {
        return err;
    }
    entry->scope = scope;
    entry->hash = entry_hash(mirror, scope, event->object_key, event->medium);
    scope->count++;
    mci_list_push_back(&scope->entries, &entry->link);
    slot_table_add(&mirror->entries, entry->hash, entry);
    *entry_out = entry;
    return MC_OK;
}

/* ---- events ----------------------------------------------------------- */

static bool is_old(const struct mirror *mirror,
                   const struct mirror_entry *entry,
                   const struct mirror_event *event)
{
    bool counts = !entry->is_grave || mirror_is_grave(mirror, entry);
    return !event->by_order && counts && event->event_id <= entry->event_id;
}

/* Both names are held before either old one is let go. */
static enum mc_err entry_change(struct mirror *mirror,
                                struct mirror_entry *entry,
                                const struct mirror_event *event)
{
    struct name *session = NULL;
    struct name *group = NULL;
    enum mc_err err =
        name_pool_hold(&mirror->names, event->session_id, &session);
    if (err != MC_OK) {
        return err;
    }
    err = name_pool_hold(&mirror->names, event->group_id, &group);
    if (err != MC_OK) {
        name_pool_release(&mirror->names, session);
        return err;
    }
    name_pool_release(&mirror->names, entry->session);
    name_pool_release(&mirror->names, entry->group);
    entry->session = session;
    entry->group = group;
    entry->event_id = event->event_id;
    return MC_OK;
}

/* What was gone is there again. */
static void rise(struct mirror *mirror, struct mirror_entry *entry)
{
    grave_uncount(mirror, entry);
    entry->is_grave = false;
    entry->round = 0;
    mci_list_remove(&entry->link);
    mci_list_push_back(&entry->scope->entries, &entry->link);
    entry->scope->count++;
}

static enum mc_err stored_again(struct mirror *mirror,
                                struct mirror_entry *entry,
                                const struct mirror_event *event,
                                enum mirror_change *change_out)
{
    if (is_old(mirror, entry, event)) {
        *change_out = MIRROR_OLD;
        return MC_OK;
    }
    if (entry->is_grave && mirror_count(mirror) >= mirror->max_entries) {
        return MC_ERR_BUFFER_OVERFLOW;
    }
    enum mc_err err = entry_change(mirror, entry, event);
    if (err != MC_OK) {
        return err;
    }
    *change_out = entry->is_grave ? MIRROR_ADDED : MIRROR_CHANGED;
    if (entry->is_grave) {
        rise(mirror, entry);
    }
    return MC_OK;
}

static enum mc_err stored_anew(struct mirror *mirror,
                               struct mirror_scope *scope,
                               const struct mirror_event *event)
{
    struct mirror_entry *entry = NULL;
    if (mirror_count(mirror) >= mirror->max_entries) {
        return MC_ERR_BUFFER_OVERFLOW;
    }
    if (!scope) {
        enum mc_err err = mirror_scope_add(mirror, event, &scope);
        if (err != MC_OK) {
            return err;
        }
    }
    enum mc_err err = mirror_entry_add(mirror, scope, event, &entry);
    if (err != MC_OK) {
        mirror_scope_drop_empty(mirror, scope);
    }
    return err;
}

enum mc_err mirror_stored(struct mirror *mirror,
                          const struct mirror_event *event,
                          enum mirror_change *change_out)
{
    size_t slot = 0;
    mirror_tidy(mirror, MIRROR_TIDY_PER_CHANGE);
    struct mirror_scope *scope = mirror_scope_find(mirror, event);
    struct mirror_entry *entry =
        scope ? mirror_entry_find(mirror, scope, event, &slot) : NULL;
    if (entry) {
        return stored_again(mirror, entry, event, change_out);
    }
    enum mc_err err = stored_anew(mirror, scope, event);
    if (err == MC_OK) {
        *change_out = MIRROR_ADDED;
    }
    return err;
}

enum mirror_change mirror_removed(struct mirror *mirror,
                                  const struct mirror_event *event)
{
    size_t slot = 0;
    mirror_tidy(mirror, MIRROR_TIDY_PER_CHANGE);
    struct mirror_scope *scope = mirror_scope_find(mirror, event);
    struct mirror_entry *entry =
        scope ? mirror_entry_find(mirror, scope, event, &slot) : NULL;
    if (!entry || entry->is_grave) {
        return MIRROR_ABSENT;
    }
    if (is_old(mirror, entry, event)) {
        return MIRROR_OLD;
    }
    mirror_entry_unlink(mirror, entry, slot);
    mirror_entry_free(mirror, entry);
    mirror_scope_drop_empty(mirror, scope);
    return MIRROR_GONE;
}

uint64_t mirror_cleared(struct mirror *mirror, const struct mirror_event *event)
{
    mirror_part(mirror);
    struct mirror_scope *scope = mirror_scope_find(mirror, event);
    if (!scope) {
        return 0;
    }
    uint64_t gone = 0;
    struct mci_link *link = scope->entries.next;
    while (link != &scope->entries) {
        struct mirror_entry *entry =
            MCI_CONTAINER(link, struct mirror_entry, link);
        link = link->next;
        if (!is_old(mirror, entry, event)) {
            mirror_entry_unlink(mirror, entry,
                                mirror_entry_slot(mirror, entry));
            mirror_entry_free(mirror, entry);
            gone++;
        }
    }
    mirror_scope_drop_empty(mirror, scope);
    return gone;
}

void mirror_clear(struct mirror *mirror)
{
    mirror_part(mirror);
    while (!mci_list_is_empty(&mirror->scopes)) {
        struct mirror_scope *scope =
            MCI_CONTAINER(mirror->scopes.next, struct mirror_scope, link);
        mirror_scope_free(mirror, scope);
    }
    for (size_t i = 0; i < mirror->entries.capacity; i++) {
        mci_free(mirror->entries.items[i]);
    }
    slot_table_fini(&mirror->entries);
    slot_table_fini(&mirror->scope_table);
    name_pool_fini(&mirror->names);
    mci_list_init(&mirror->graves);
    mci_list_init(&mirror->old_graves);
    mirror->grave_count = 0;
    mirror->floor_count = 0;
    mirror->old_count = 0;
}

/* ---- looking ---------------------------------------------------------- */

uint64_t mirror_count(const struct mirror *mirror)
{
    return mirror->entries.count - mirror->grave_count - mirror->old_count;
}

void mirror_fill_row(const struct mirror_entry *entry,
                     struct mirror_row *row_out)
{
    row_out->event_id = entry->event_id;
    row_out->tenant_id = name_view(entry->scope->tenant);
    row_out->backend_id = name_view(entry->scope->backend);
    row_out->object_key = key_of(entry);
    row_out->medium = name_view(entry->medium);
    row_out->session_id = name_view(entry->session);
    row_out->group_id = name_view(entry->group);
}

bool mirror_find(const struct mirror *mirror, struct mc_view tenant_id,
                 struct mc_view object_key, struct mc_view medium,
                 struct mirror_row *row_out)
{
    const struct mirror_event place = {.object_key = object_key,
                                       .medium = medium};
    const struct name *tenant = name_pool_find(&mirror->names, tenant_id);
    const struct mci_link *link = mirror->scopes.next;
    for (; link != &mirror->scopes; link = link->next) {
        const struct mirror_scope *scope =
            MCI_CONTAINER(link, struct mirror_scope, link);
        if (scope->tenant != tenant) {
            continue;
        }
        size_t slot = 0;
        const struct mirror_entry *entry =
            mirror_entry_find(mirror, scope, &place, &slot);
        if (entry && !entry->is_grave) {
            mirror_fill_row(entry, row_out);
            return true;
        }
    }
    return false;
}

bool mirror_next(const struct mirror *mirror, size_t *cursor,
                 struct mirror_row *row_out)
{
    while (*cursor < mirror->entries.capacity) {
        const struct mirror_entry *entry = mirror->entries.items[(*cursor)++];
        if (entry && !entry->is_grave) {
            mirror_fill_row(entry, row_out);
            return true;
        }
    }
    return false;
}
