/* SPDX-License-Identifier: Apache-2.0 */
/* places.h - which of several publishers of one store is followed.
 *
 * All of them are listened to. Of two that are both heard of within
 * PLACES_SILENCE_NS the one with the greater epoch is followed; one that has
 * been silent for longer gives way to whoever has events. Two ways to the same
 * publisher, which show by the same epoch, are one.
 * Threads: one thread at a time. Pure.
 */
#ifndef PLACES_H
#define PLACES_H
#include "cursor.h"

#define PLACES_MAX 8
#define PLACES_SILENCE_NS UINT64_C(3000000000)

struct places {       /* zeroed is empty */
    bool has_current; /* somebody was heard */
    uint32_t current;
    uint64_t heard_ns[PLACES_MAX];
};

/* A message that could be read came from this place. False: it is not that of
 * the publisher that is followed, and not for the cursor. *is_other_out: another
 * one is followed from here on. */
bool places_hear(struct places *places, uint32_t place,
                 const struct cursor *cursor,
                 const struct cursor_message *message, bool *is_other_out);

/* Whether this place is, or would be, the one that is followed. */
bool places_is_current(const struct places *places, uint32_t place);
#endif
