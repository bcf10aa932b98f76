/* SPDX-License-Identifier: Apache-2.0 */
/* mirror_parts.h - what a mirror is made of, for mirror.c, mirror_past.c and
 * mirror_scope.c.
 *
 * An entry that is gone is a grave: it holds the id of what took it away, and
 * nothing else of it is looked at. The floor of a scope is the id of the last
 * `cleared`, as long as such things are kept. Both say nothing any more once the
 * mirror is in a later era: forgotten, they stand there until they are freed, some
 * with each change.
 */
#ifndef MIRROR_PARTS_H
#define MIRROR_PARTS_H
#include "mci_list.h"
#include "mirror.h"
#include "name_pool.h"

struct mirror_scope {
    struct mci_link entries;
    struct mci_link link;       /* in mirror.scopes */
    struct mci_link floor_link; /* in mirror.floors or .old_floors */
    struct name *tenant;
    struct name *backend;
    uint64_t count; /* of entries, graves not among them */
    uint64_t graves;
    uint64_t floor; /* 0: none */
    uint32_t floor_era;
    uint32_t hash;
};

struct mirror_entry {
    struct mci_link link; /* in its scope; of a grave, in mirror.graves or
                             .old_graves */
    struct mirror_scope *scope;
    struct name *medium;
    struct name *session;
    struct name *group;
    uint64_t event_id;
    uint32_t hash;
    uint32_t key_len;
    uint32_t
        round; /* of the last snapshot that named it; of a grave: its era */
    bool is_grave;
    char key[];
};

struct mirror {
    struct slot_table entries; /* and graves */
    struct slot_table scope_table;
    struct mci_link scopes;
    struct mci_link graves; /* of this era */
    struct mci_link floors;
    struct mci_link old_graves; /* to be freed */
    struct mci_link old_floors;
    uint64_t grave_count; /* of this era */
    uint64_t floor_count; /* scopes that have one */
    uint64_t old_count;   /* graves of before */
    uint32_t era;
    struct mirror_scope *last_scope; /* NULL, or one that lives */
    struct mirror_entry *parting;    /* taken out, still looked at; or NULL */
    struct name_pool names;
    uint64_t max_entries;
    uint64_t seed;
};

/* A grave that still says something. */
static inline bool mirror_is_grave(const struct mirror *mirror,
                                   const struct mirror_entry *entry)
{
    return entry->is_grave && entry->round == mirror->era;
}

/* 0: none that still says something. */
static inline uint64_t mirror_floor_of(const struct mirror *mirror,
                                       const struct mirror_scope *scope)
{
    return scope->floor_era == mirror->era ? scope->floor : 0;
}

/* NULL if it holds nothing. */
struct mirror_scope *mirror_scope_find(struct mirror *mirror,
                                       const struct mirror_event *event);
MC_CHECK_RESULT enum mc_err mirror_scope_add(struct mirror *mirror,
                                             const struct mirror_event *event,
                                             struct mirror_scope **scope_out);
/* Lets go of a scope that holds nothing any more. */
void mirror_scope_drop_empty(struct mirror *mirror, struct mirror_scope *scope);
/* One that is in no table any more, or not yet. */
void mirror_scope_free(struct mirror *mirror, struct mirror_scope *scope);

/* The entry or grave in the place of an event; NULL: none, *slot_out is then
 * empty. */
struct mirror_entry *mirror_entry_find(const struct mirror *mirror,
                                       const struct mirror_scope *scope,
                                       const struct mirror_event *event,
                                       size_t *slot_out);
MC_CHECK_RESULT enum mc_err mirror_entry_add(struct mirror *mirror,
                                             struct mirror_scope *scope,
                                             const struct mirror_event *event,
                                             struct mirror_entry **entry_out);
size_t mirror_entry_slot(const struct mirror *mirror,
                         const struct mirror_entry *entry);
/* Takes an entry or grave out of table and list; its scope stays, even empty. */
void mirror_entry_unlink(struct mirror *mirror, struct mirror_entry *entry,
                         size_t slot);
void mirror_entry_free(struct mirror *mirror, struct mirror_entry *entry);

/* Before a change: ends the life of what was taken out last. */
void mirror_part(struct mirror *mirror);

void mirror_fill_row(const struct mirror_entry *entry,
                     struct mirror_row *row_out);
#endif
