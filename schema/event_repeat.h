/* SPDX-License-Identifier: Apache-2.0 */
/* event_repeat.h - reads an event by comparing it with an earlier one.
 *
 * Events of one publisher differ in a few values; all else, names and constant
 * values, stands in the same runs of bytes. Once an event has been read in
 * full, a like one is read by comparing the runs and reading the values between
 * them. Where anything differs, nothing is decided here: the event is read in
 * full. So the outcome is the same with and without this room.
 */
#ifndef MC_EVENT_REPEAT_H
#define MC_EVENT_REPEAT_H
#include "event_field.h"

/* Constant bytes, and the varying value behind them (the last has none). */
struct event_repeat_run {
    const uint8_t *bytes;
    size_t len;
    enum event_field field;
};

/* A view into one of the runs. */
struct event_repeat_view {
    unsigned run;
    size_t offset;
};

/* What was learned from one event. run_count 0: nothing, matches nothing. */
struct event_repeat {
    unsigned run_count;
    struct event_repeat_run runs[EVENT_VARYING_MAX + 1];
    struct event_repeat_view tenant_id;
    struct event_repeat_view backend_id;
    struct event_repeat_view medium;
    struct mc_event constant; /* without the varying values */
};

/* Learns from an event that was read in full and is good. Its bytes must stay
 * until the last match. */
void event_repeat_learn(struct event_repeat *repeat,
                        const struct event_draft *draft, const uint8_t *begin,
                        const uint8_t *end);

/* True: *event_out is filled and the walk stands behind the event. False:
 * neither was touched. */
bool event_repeat_match(const struct event_repeat *repeat,
                        struct event_walk *walk, struct mc_event *event_out);
#endif
