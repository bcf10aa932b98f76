/* SPDX-License-Identifier: Apache-2.0 */
/* set_tap.h - a tap that applies the stream to a set of keys "k00" to "k99" and
 * knows what must never be in it: a hole in the ids, a key stored or removed
 * twice in a row, a removal with another tag than the stored one's, a tag that
 * comes back, an upsert that loses its tag, cleared while something is there.
 * The first fault is kept as text.
 */
#ifndef SET_TAP_H
#define SET_TAP_H
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "client_rig.h"
#include "mci_clock.h"

#define KEYS 100
#define TAG_MAX 32

struct entry {
    bool is_stored;
    char tag[TAG_MAX];
    char last_tag[TAG_MAX]; /* of its last removal */
    uint64_t last_id;
};

struct tap {
    struct client_rig *rig;
    struct entry entries[KEYS];
    uint32_t stored;
    uint64_t last_id;
    uint64_t events;
    uint64_t cleared;
    uint64_t upserts;
    char fault[128]; /* the first one */
    bool in_group;
    struct entry replaced; /* the removed one of an upsert under way */
    atomic_bool may_end;   /* when the log is empty */
};

static inline void find_fault(struct tap *tap,
                              const struct mci_log_record *record,
                              const char *what)
{
    if (tap->fault[0] == '\0') {
        (void)snprintf(tap->fault, sizeof tap->fault, "event %ju: %s",
                       (uintmax_t)record->id, what);
    }
}

static inline void copy_tag(char *out, struct mc_view tag)
{
    size_t len = tag.data && tag.len < TAG_MAX ? tag.len : 0;
    memcpy(out, len ? tag.data : "", len);
    out[len] = '\0';
}

static inline int key_number(struct mc_view key)
{
    const char *text = key.data;
    return key.len == 3 ? (text[1] - '0') * 10 + (text[2] - '0') : -1;
}

static inline void apply_stored(struct tap *tap, struct entry *entry,
                                const struct mci_log_record *record)
{
    char tag[TAG_MAX];
    copy_tag(tag, record->session_id);
    if (entry->is_stored) {
        find_fault(tap, record, "stored twice");
    }
    /* A tag that went is never back: an untagged write of a key that nobody can
     * read has none. */
    if (!tap->in_group && tag[0] && strcmp(tag, entry->last_tag) == 0) {
        find_fault(tap, record, "a tag came back");
    }
    /* In an upsert without a tag of its own the old one is kept: so a tagged
     * entry never becomes an untagged one. */
    if (tap->in_group && tap->replaced.tag[0] && !tag[0]) {
        find_fault(tap, record, "an upsert lost the tag");
    }
    tap->upserts += tap->in_group;
    entry->is_stored = true;
    memcpy(entry->tag, tag, sizeof tag);
    tap->stored++;
}

static inline void apply_removed(struct tap *tap, struct entry *entry,
                                 const struct mci_log_record *record)
{
    char tag[TAG_MAX];
    copy_tag(tag, record->session_id);
    if (!entry->is_stored) {
        find_fault(tap, record, "removed twice");
        return;
    }
    if (strcmp(tag, entry->tag) != 0) {
        find_fault(tap, record, "removed with another tag");
    }
    tap->replaced = *entry;
    entry->is_stored = false;
    memcpy(entry->last_tag, tag, sizeof tag);
    tap->stored--;
}

static inline void apply(struct tap *tap, const struct mci_log_record *record)
{
    if (record->id != tap->last_id + 1 || record->lost_before != 0) {
        find_fault(tap, record, "a hole in the ids");
    }
    tap->last_id = record->id;
    tap->events++;
    if (record->type == MC_EVENT_CLEARED) {
        tap->cleared++;
        if (tap->stored != 0) {
            find_fault(tap, record, "cleared what is readable");
        }
        return;
    }
    int number = key_number(record->object_key);
    if (number < 0 || record->medium != MC_MEDIUM_CPU) {
        find_fault(tap, record, "a foreign key or medium");
        return;
    }
    struct entry *entry = &tap->entries[number];
    if (record->type == MC_EVENT_STORED) {
        apply_stored(tap, entry, record);
    } else {
        apply_removed(tap, entry, record);
    }
    entry->last_id = record->id;
    tap->in_group = record->group_continues;
}

static inline void *run_tap(void *ctx)
{
    struct tap *tap = ctx;
    for (;;) {
        bool is_last = atomic_load(&tap->may_end);
        mci_event_log_take(tap->rig->log, mci_clock_ns() + 10 * MCI_NS_PER_MS,
                           &tap->rig->taken);
        for (uint32_t i = 0; i < tap->rig->taken.count; i++) {
            apply(tap, &tap->rig->taken.records[i]);
        }
        if (is_last && tap->rig->taken.count == 0) {
            return NULL;
        }
    }
}
#endif
