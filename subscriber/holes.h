/* SPDX-License-Identifier: Apache-2.0 */
/* holes.h - the ids of one epoch that a source has passed over and may still
 * fetch: a set of ranges, each lost or refused.
 *
 * Ranges are found in the order of their ids and are few; where there are too
 * many the set keeps no more than how many ids it has no place for, and up to
 * which one: only a snapshot can cover those. So it never grows.
 * Threads: one thread at a time; nothing is allocated.
 */
#ifndef HOLES_H
#define HOLES_H
#include "cursor.h"

#define HOLES_MAX 256

struct holes {                            /* zeroed is empty */
    struct cursor_hole ranges[HOLES_MAX]; /* by id, apart from each other */
    uint32_t count;
    uint64_t excess_lost; /* ids that found no place */
    uint64_t excess_refused;
    uint64_t excess_to; /* the highest of them */
};

void holes_add(struct holes *holes, const struct cursor_hole *hole);
bool holes_are_empty(const struct holes *holes);
/* The lowest and the highest id that is missing; 0 if none is. Of those without
 * a place the lowest is not known. */
uint64_t holes_first(const struct holes *holes);
uint64_t holes_last(const struct holes *holes);
/* Whether one of the ids in from_id..to_id is in the set, with a place. */
bool holes_meet(const struct holes *holes, uint64_t from_id, uint64_t to_id);
/* Takes an id out; false if it is not there. */
bool holes_take(struct holes *holes, uint64_t id, bool *is_refused_out);

/* How many ids were taken out. */
struct holes_taken {
    uint64_t lost;
    uint64_t refused;
};
/* Takes out all ids up to this one; what has no place only if all of it is. */
struct holes_taken holes_take_to(struct holes *holes, uint64_t id);
#endif
