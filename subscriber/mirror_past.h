/* SPDX-License-Identifier: Apache-2.0 */
/* mirror_past.h - what a mirror needs to take in events out of their order,
 * while a source recovers.
 *
 * What was removed leaves a grave with the id that took it away, what was
 * cleared a floor, so that an older event or row does not bring it back. Both
 * are bounded together by a quarter of the mirror's entries, and forgotten when
 * nothing older can come any more. What a snapshot names is marked with the
 * number of its round; what it did not name can then be swept.
 *
 * An entry that is taken out here stays to be looked at until the mirror is
 * changed next.
 * Threads: one thread at a time.
 */
#ifndef MIRROR_PAST_H
#define MIRROR_PAST_H
#include "mirror.h"

enum mirror_place {
    MIRROR_EMPTY = 0, /* nothing is there, or what has gone by a lower id */
    MIRROR_OLDER,     /* an entry with a lower id */
    MIRROR_EQUAL,     /* an entry with this id */
    MIRROR_NEWER      /* an entry, a grave or a floor with a higher id, or a
                         grave or floor with this one */
};

/* What stands in the place of an event, by ids. */
enum mirror_place mirror_look(const struct mirror *mirror,
                              const struct mirror_event *event);

/* Makes a grave in the place of an event, out of the entry if there is one.
 * Errors: MC_ERR_BUFFER_OVERFLOW, MC_ERR_NOMEM; nothing has changed then. */
MC_CHECK_RESULT enum mc_err mirror_bury(struct mirror *mirror,
                                        const struct mirror_event *event);
/* Nothing of the event's tenant at its backend counts up to its id. Takes no
 * entry out. Errors as above. */
MC_CHECK_RESULT enum mc_err mirror_floor(struct mirror *mirror,
                                         const struct mirror_event *event);
uint64_t mirror_graves(const struct mirror *mirror); /* with floors */
/* Forgets all graves and floors, at once, however many there are. Their memory is
 * freed with what is changed from then on, four for each change, so that they are
 * never more than the bound together with new ones. */
void mirror_forget(struct mirror *mirror);
#define MIRROR_TIDY_PER_CHANGE 4
/* Frees at most so many of those that are forgotten. */
void mirror_tidy(struct mirror *mirror, size_t count);
uint64_t mirror_forgotten(const struct mirror *mirror); /* and not yet freed */

/* Takes out the entry in the place of an event, if it is older. */
bool mirror_take_older(struct mirror *mirror, const struct mirror_event *event,
                       struct mirror_row *row_out);
/* Takes out the next entry of the event's tenant at its backend that is older
 * than the event; false: none is left. */
bool mirror_take_cleared(struct mirror *mirror,
                         const struct mirror_event *event,
                         struct mirror_row *row_out);
/* Whether the event's tenant at its backend has an entry that is not older. */
bool mirror_has_newer(const struct mirror *mirror,
                      const struct mirror_event *event);

/* A snapshot of this round has named the entry in the place of an event. */
void mirror_name(struct mirror *mirror, const struct mirror_event *event,
                 uint32_t round);

/* What a snapshot that began at first_id did not name. Zero `at` to begin; the
 * mirror may be changed in between. */
struct mirror_sweep {
    uint32_t round;
    uint64_t first_id;
    size_t at;
};
/* Takes out the next entry of a sweep; false: none is left. */
bool mirror_take_unnamed(struct mirror *mirror, struct mirror_sweep *sweep,
                         struct mirror_row *row_out);
#endif
