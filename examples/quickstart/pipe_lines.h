/* SPDX-License-Identifier: Apache-2.0 */
/* pipe_lines.h - lines over the two pipes between writer and follower.
 *
 * writer to follower: "ready ENDPOINT", "stats ...", "end EVENT_ID FILE".
 * follower to writer: "joined", "ack N", "again", "done".
 * Threads: one thread at a time per reader.
 */
#ifndef PIPE_LINES_H
#define PIPE_LINES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pipe_reader {
    int fd;
    bool is_closed; /* the other side has gone */
    size_t begin;
    size_t end;
    char bytes[8192];
};

/* The next whole line, without line feed, or NULL: none within timeout_ms (0:
 * only what is there), or the other side has gone. Borrowed until the next
 * call. */
const char *pipe_line_read(struct pipe_reader *reader, int timeout_ms);

/* Reads a decimal number at *at and moves *at behind it and one space. */
bool pipe_number(const char **at, uint64_t *number_out);

/* False: the other side has gone. */
bool pipe_line_write(int fd, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
