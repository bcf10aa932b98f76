/* SPDX-License-Identifier: Apache-2.0 */
#include "mirror_past.h"

#include "mirror_parts.h"

/* Looking does not change the mirror but for the scope it remembers. */
static struct mirror_scope *find_scope(const struct mirror *mirror,
                                       const struct mirror_event *event)
{
    return mirror_scope_find((struct mirror *)(uintptr_t)mirror, event);
}

static struct mirror_entry *find_entry(const struct mirror *mirror,
                                       const struct mirror_event *event)
{
    size_t slot = 0;
    const struct mirror_scope *scope = find_scope(mirror, event);
    return scope ? mirror_entry_find(mirror, scope, event, &slot) : NULL;
}

enum mirror_place mirror_look(const struct mirror *mirror,
                              const struct mirror_event *event)
{
    const struct mirror_scope *scope = find_scope(mirror, event);
    if (!scope) {
        return MIRROR_EMPTY;
    }
    if (event->event_id <= mirror_floor_of(mirror, scope)) {
        return MIRROR_NEWER;
    }
    size_t slot = 0;
    const struct mirror_entry *entry =
        mirror_entry_find(mirror, scope, event, &slot);
    if (!entry || (entry->is_grave && !mirror_is_grave(mirror, entry))) {
        return MIRROR_EMPTY;
    }
    if (entry->is_grave) {
        return event->event_id <= entry->event_id ? MIRROR_NEWER : MIRROR_EMPTY;
    }
    if (entry->event_id == event->event_id) {
        return MIRROR_EQUAL;
    }
    return entry->event_id < event->event_id ? MIRROR_OLDER : MIRROR_NEWER;
}

/* ---- graves and floors ------------------------------------------------ */

static bool has_ground(const struct mirror *mirror)
{
    return mirror_graves(mirror) < (mirror->max_entries + 3) / 4;
}

uint64_t mirror_graves(const struct mirror *mirror)
{
    return mirror->grave_count + mirror->floor_count;
}

static void bury_entry(struct mirror *mirror, struct mirror_entry *entry)
{
    name_pool_release(&mirror->names, entry->session);
    name_pool_release(&mirror->names, entry->group);
    entry->session = NULL;
    entry->group = NULL;
    entry->is_grave = true;
    entry->round = mirror->era;
    mci_list_remove(&entry->link);
    mci_list_push_back(&mirror->graves, &entry->link);
    entry->scope->count--;
    entry->scope->graves++;
    mirror->grave_count++;
}

/* A grave of before is one again. */
static void bury_again(struct mirror *mirror, struct mirror_entry *entry)
{
    entry->round = mirror->era;
    mci_list_remove(&entry->link);
    mci_list_push_back(&mirror->graves, &entry->link);
    mirror->old_count--;
    mirror->grave_count++;
}

static enum mc_err bury_anew(struct mirror *mirror,
                             const struct mirror_event *event)
{
    struct mirror_event bare = *event;
    struct mirror_entry *entry = NULL;
    bare.session_id = mc_view_make(NULL, 0);
    bare.group_id = mc_view_make(NULL, 0);
    struct mirror_scope *scope = mirror_scope_find(mirror, event);
    if (!scope) {
        enum mc_err err = mirror_scope_add(mirror, event, &scope);
        if (err != MC_OK) {
            return err;
        }
    }
    enum mc_err err = mirror_entry_add(mirror, scope, &bare, &entry);
    if (err != MC_OK) {
        mirror_scope_drop_empty(mirror, scope);
        return err;
    }
    bury_entry(mirror, entry);
    return MC_OK;
}

enum mc_err mirror_bury(struct mirror *mirror, const struct mirror_event *event)
{
    mirror_tidy(mirror, MIRROR_TIDY_PER_CHANGE);
    struct mirror_entry *entry = find_entry(mirror, event);
    if (entry && mirror_is_grave(mirror, entry)) {
        if (event->event_id > entry->event_id) {
            entry->event_id = event->event_id;
        }
        return MC_OK;
    }
    if (!has_ground(mirror)) {
        return MC_ERR_BUFFER_OVERFLOW;
    }
    if (!entry) {
        return bury_anew(mirror, event);
    }
    entry->event_id = event->event_id;
    if (entry->is_grave) {
        bury_again(mirror, entry);
    } else {
        bury_entry(mirror, entry);
    }
    return MC_OK;
}

enum mc_err mirror_floor(struct mirror *mirror,
                         const struct mirror_event *event)
{
    mirror_tidy(mirror, MIRROR_TIDY_PER_CHANGE);
    struct mirror_scope *scope = mirror_scope_find(mirror, event);
    if (scope && mirror_floor_of(mirror, scope) > 0) {
        if (event->event_id > scope->floor) {
            scope->floor = event->event_id;
        }
        return MC_OK;
    }
    if (!has_ground(mirror)) {
        return MC_ERR_BUFFER_OVERFLOW;
    }
    if (!scope) {
        enum mc_err err = mirror_scope_add(mirror, event, &scope);
        if (err != MC_OK) {
            return err;
        }
    }
    scope->floor = event->event_id;
    scope->floor_era = mirror->era;
    mci_list_remove(&scope->floor_link);
    mci_list_push_back(&mirror->floors, &scope->floor_link);
    mirror->floor_count++;
    return MC_OK;
}

void mirror_forget(struct mirror *mirror)
{
    mirror_part(mirror);
    mci_list_append(&mirror->old_graves, &mirror->graves);
    mci_list_append(&mirror->old_floors, &mirror->floors);
    mirror->old_count += mirror->grave_count;
    mirror->grave_count = 0;
    mirror->floor_count = 0;
    mirror->era++;
}

uint64_t mirror_forgotten(const struct mirror *mirror)
{
    return mirror->old_count;
}

static void free_grave(struct mirror *mirror)
{
    struct mirror_entry *entry =
        MCI_CONTAINER(mirror->old_graves.next, struct mirror_entry, link);
    struct mirror_scope *scope = entry->scope;
    mirror_entry_unlink(mirror, entry, mirror_entry_slot(mirror, entry));
    mirror_entry_free(mirror, entry);
    mirror_scope_drop_empty(mirror, scope);
}

static void free_floor(struct mirror *mirror)
{
    struct mirror_scope *scope =
        MCI_CONTAINER(mirror->old_floors.next, struct mirror_scope, floor_link);
    mci_list_remove(&scope->floor_link);
    scope->floor = 0;
    mirror_scope_drop_empty(mirror, scope);
}

void mirror_tidy(struct mirror *mirror, size_t count)
{
    mirror_part(mirror);
    for (size_t i = 0; i < count && mirror->old_count > 0; i++) {
        free_grave(mirror);
    }
    for (size_t i = 0; i < count && !mci_list_is_empty(&mirror->old_floors);
         i++) {
        free_floor(mirror);
    }
}

/* ---- taking out ------------------------------------------------------- */

static void take_out(struct mirror *mirror, struct mirror_entry *entry,
                     size_t slot, struct mirror_row *row_out)
{
    mirror_entry_unlink(mirror, entry, slot);
    mirror->parting = entry;
    mirror_fill_row(entry, row_out);
}

bool mirror_take_older(struct mirror *mirror, const struct mirror_event *event,
                       struct mirror_row *row_out)
{
    size_t slot = 0;
    mirror_part(mirror);
    const struct mirror_scope *scope = mirror_scope_find(mirror, event);
    struct mirror_entry *entry =
        scope ? mirror_entry_find(mirror, scope, event, &slot) : NULL;
    if (!entry || entry->is_grave || entry->event_id >= event->event_id) {
        return false;
    }
    take_out(mirror, entry, slot, row_out);
    return true;
}

/* What is newer goes to the end of the list, so that it is not looked at again
 * by the next call; what is older stays in front. */
bool mirror_take_cleared(struct mirror *mirror,
                         const struct mirror_event *event,
                         struct mirror_row *row_out)
{
    mirror_part(mirror);
    struct mirror_scope *scope = mirror_scope_find(mirror, event);
    uint64_t count = scope ? scope->count : 0;
    for (uint64_t i = 0; i < count; i++) {
        struct mci_link *link = scope->entries.next;
        struct mirror_entry *entry =
            MCI_CONTAINER(link, struct mirror_entry, link);
        if (entry->event_id < event->event_id) {
            take_out(mirror, entry, mirror_entry_slot(mirror, entry), row_out);
            return true;
        }
        mci_list_remove(link);
        mci_list_push_back(&scope->entries, link);
    }
    return false;
}

bool mirror_has_newer(const struct mirror *mirror,
                      const struct mirror_event *event)
{
    const struct mirror_scope *scope = find_scope(mirror, event);
    const struct mci_link *link = scope ? scope->entries.next : NULL;
    for (; scope && link != &scope->entries; link = link->next) {
        const struct mirror_entry *entry =
            MCI_CONTAINER(link, struct mirror_entry, link);
        if (entry->event_id >= event->event_id) {
            return true;
        }
    }
    return false;
}

/* ---- snapshots -------------------------------------------------------- */

void mirror_name(struct mirror *mirror, const struct mirror_event *event,
                 uint32_t round)
{
    struct mirror_entry *entry = find_entry(mirror, event);
    if (entry && !entry->is_grave) {
        entry->round = round;
    }
}

/* Taking one out moves others into its slot, so that is looked at again. */
bool mirror_take_unnamed(struct mirror *mirror, struct mirror_sweep *sweep,
                         struct mirror_row *row_out)
{
    mirror_part(mirror);
    for (; sweep->at < mirror->entries.capacity; sweep->at++) {
        struct mirror_entry *entry = mirror->entries.items[sweep->at];
        if (entry && !entry->is_grave && entry->round != sweep->round &&
            entry->event_id <= sweep->first_id) {
            take_out(mirror, entry, sweep->at, row_out);
            return true;
        }
    }
    return false;
}
