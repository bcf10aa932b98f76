/* SPDX-License-Identifier: Apache-2.0 */
/* mirror.h - what one source holds, as its events tell: (tenant, backend, key,
 * medium) -> id of the last change, session, group.
 *
 * Events are absolute: one counts only if its id is above the last one applied
 * for its place. Where ids mean nothing (by_order) the order of arrival counts.
 * Keys stand in their entries, names that repeat are kept once. What is cleared
 * (a tenant at a backend, or all) costs what it held and no more. Removing and
 * clearing allocate nothing.
 * Threads: one thread at a time.
 */
#ifndef MIRROR_H
#define MIRROR_H
#include <stdbool.h>
#include <stdint.h>

#include "mc_err.h"
#include "mc_view.h"

struct mirror;

/* The place of an event and what it says; medium, session_id and group_id may
 * be none. Views are borrowed for the call. */
struct mirror_event {
    struct mc_view tenant_id;
    struct mc_view backend_id;
    struct mc_view object_key;
    struct mc_view medium;
    struct mc_view session_id;
    struct mc_view group_id;
    uint64_t event_id;
    bool by_order;
};

enum mirror_change {
    MIRROR_ADDED = 0,
    MIRROR_CHANGED, /* stored of what is there */
    MIRROR_GONE,
    MIRROR_ABSENT, /* removed of what is not there */
    MIRROR_OLD     /* by its id; nothing changed */
};

/* Borrowed views, until the mirror changes. */
struct mirror_row {
    uint64_t event_id;
    struct mc_view tenant_id;
    struct mc_view backend_id;
    struct mc_view object_key;
    struct mc_view medium;
    struct mc_view session_id;
    struct mc_view group_id;
};

/* seed: for the hashes, so that keys cannot be chosen to collide. */
MC_CHECK_RESULT enum mc_err mirror_create(uint64_t max_entries, uint64_t seed,
                                          struct mirror **mirror_out);
void mirror_destroy(struct mirror *mirror); /* NULL is fine */

/* Errors: MC_ERR_NOMEM, MC_ERR_BUFFER_OVERFLOW (max_entries); nothing has
 * changed then. */
MC_CHECK_RESULT enum mc_err mirror_stored(struct mirror *mirror,
                                          const struct mirror_event *event,
                                          enum mirror_change *change_out);
enum mirror_change mirror_removed(struct mirror *mirror,
                                  const struct mirror_event *event);
/* All media of a tenant at a backend, up to an id unless by_order; how many
 * entries went. */
uint64_t mirror_cleared(struct mirror *mirror,
                        const struct mirror_event *event);
void mirror_clear(struct mirror *mirror); /* everything */

uint64_t mirror_count(const struct mirror *mirror);

/* Whichever backend holds it. */
bool mirror_find(const struct mirror *mirror, struct mc_view tenant_id,
                 struct mc_view object_key, struct mc_view medium,
                 struct mirror_row *row_out);

/* Walks all entries: *cursor starts at 0; false at the end. */
bool mirror_next(const struct mirror *mirror, size_t *cursor,
                 struct mirror_row *row_out);
#endif
