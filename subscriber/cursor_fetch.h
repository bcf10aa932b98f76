/* SPDX-License-Identifier: Apache-2.0 */
/* cursor_fetch.h - what a cursor is told when something that it passed over has
 * been fetched, or stands in a snapshot.
 *
 * Each id stays in exactly one state: fetching or covering moves it from lost or
 * refused to delivered, and the sum of cursor.h holds throughout.
 * Threads: one thread at a time; nothing is allocated.
 */
#ifndef CURSOR_FETCH_H
#define CURSOR_FETCH_H
#include "cursor.h"

/* So many ids that were lost, or refused, are delivered now. */
void cursor_fetched(struct cursor *cursor, uint64_t count, bool is_refused);

/* Whether every id up to the last one is known to be in its place: nothing was
 * missed or refused of which the ids are not known yet. */
bool cursor_is_whole(const struct cursor *cursor);

/* All numbers up to the last one were seen after all, and read. */
void cursor_made_whole(struct cursor *cursor);

/* A snapshot covers the ids up to this one: those above the mark are delivered
 * with it. */
void cursor_jump(struct cursor *cursor, uint64_t id);

/* A publisher is known by its snapshot: ids up to this one are covered, its
 * messages come after seq unless some have come already. */
void cursor_adopt(struct cursor *cursor, uint64_t epoch, uint64_t id,
                  uint64_t seq, struct cursor_finding *finding_out);

/* Ids from this one on are ours too, though the first message came later; those
 * in between are missing. */
void cursor_reach_back(struct cursor *cursor, uint64_t id,
                       struct cursor_finding *finding_out);
#endif
