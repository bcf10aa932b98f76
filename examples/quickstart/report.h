/* SPDX-License-Identifier: Apache-2.0 */
/* report.h - what the follower shows: event lines now and then, a bar for each
 * minute of the trace, the ten largest sessions.
 *
 * Threads: one thread at a time.
 */
#ifndef REPORT_H
#define REPORT_H
#include "mc_index.h"
#include "mc_subscriber.h"
#include "trace.h"

struct report_minute {
    uint64_t requests;
    uint64_t blocks;
    uint64_t resident; /* leading blocks that waited in the store */
};

struct report {
    struct report_minute *minutes; /* owned; count of them, from 0 */
    size_t count;
    size_t shown; /* minutes already printed */
    uint64_t events;
    uint64_t next_line_ns; /* when the next event line is due */
    uint64_t first_ns;     /* time of the first and newest event */
    uint64_t last_ns;
};

/* False: no memory. */
bool report_init(struct report *report, const struct trace *trace);
void report_fini(struct report *report);

/* Counts an event; prints one line about it twice a second. */
void report_event(struct report *report, const struct mc_event *event);

/* Counts an answer; prints the bar of a minute once the next one begins. */
void report_answer(struct report *report, const struct trace_request *request,
                   uint64_t resident);

/* Prints what is left of the bars, and the sums. */
void report_end(struct report *report);

/* Prints the ten sessions with most blocks. False: no memory. */
bool report_sessions(struct mc_index_reader *reader);

#endif
