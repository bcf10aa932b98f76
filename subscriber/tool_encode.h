/* SPDX-License-Identifier: Apache-2.0 */
/* tool_encode.h - reads one row of `mc-events encode`: a batch of events as
 * JSON, to what the event writer takes.
 *
 * Nothing that the writer would not write is dropped: unknown fields, events
 * that disagree about what is constant in a batch, and values that the writer
 * derives otherwise (hashes, the legacy twin) are refused by name.
 * Threads: one thread at a time.
 */
#ifndef TOOL_ENCODE_H
#define TOOL_ENCODE_H
#include "mc_event_writer.h"
#include "tool_rows.h"

struct tool_encode_row {
    struct mc_event_writer_opts opts; /* views into the row */
    uint64_t seq;
    uint64_t timestamp_ms;
    struct mc_event_record *records; /* grown as needed; freed by the caller */
    size_t count;
    size_t capacity;
};

/* TOOL_DONE, or TOOL_FAILED after a line on stderr. Views are valid as long as
 * the object. */
int tool_encode_row_read(struct tool_encode_row *row,
                         const struct tool_rows *rows,
                         struct json_object *object);

#endif
