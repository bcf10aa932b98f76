/* SPDX-License-Identifier: Apache-2.0 */
#include "places.h"

bool places_is_current(const struct places *places, uint32_t place)
{
    return !places->has_current || places->current == place;
}

/* Whether the one that is followed gives way to this one. */
static bool gives_way(const struct places *places, const struct cursor *cursor,
                      const struct cursor_message *message)
{
    uint64_t heard_ns = places->heard_ns[places->current];
    bool is_silent = message->now_ns > heard_ns &&
                     message->now_ns - heard_ns > PLACES_SILENCE_NS;
    return is_silent || !cursor->has_ids || message->epoch > cursor->epoch;
}

bool places_hear(struct places *places, uint32_t place,
                 const struct cursor *cursor,
                 const struct cursor_message *message, bool *is_other_out)
{
    *is_other_out = false;
    places->heard_ns[place] = message->now_ns;
    if (places_is_current(places, place)) {
        places->has_current = true;
        places->current = place;
        return true;
    }
    if (!message->has_event) {
        return false; /* it says no epoch */
    }
    if (cursor->has_ids && message->epoch == cursor->epoch) {
        return true;
    }
    *is_other_out = gives_way(places, cursor, message);
    if (*is_other_out) {
        places->current = place;
    }
    return *is_other_out;
}
