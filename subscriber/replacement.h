/* SPDX-License-Identifier: Apache-2.0 */
/* replacement.h - finds the `removed` and `stored` of one key and medium that
 * are one change: a value replaced.
 *
 * A publisher tells a replacement as `removed` for every medium of the old value
 * and then `stored` for every medium of the new one, adjacent and in one
 * message. So between the two of a pair stands nothing but events of that key,
 * and few of them: over REPLACEMENT_SPAN apart they are no pair.
 * Threads: pure functions.
 */
#ifndef REPLACEMENT_H
#define REPLACEMENT_H
#include <stdbool.h>

#include "mc_event.h"

#define REPLACEMENT_SPAN 16

/* Whether events[at] is a `removed` whose `stored` follows in events[..count),
 * with rising ids, so that it is sure to be applied. */
bool replacement_is_coming(const struct mc_event *events, uint32_t count,
                           uint32_t at);

/* Whether events[at] is a `stored` whose `removed` stands before it in
 * events[from..at); *removed_out is its place. */
bool replacement_find(const struct mc_event *events, uint32_t from, uint32_t at,
                      uint32_t *removed_out);
#endif
