/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pipe_lines.h"

/* A line that is already there, or NULL. */
static char *take_line(struct pipe_reader *reader)
{
    char *begin = reader->bytes + reader->begin;
    char *feed = memchr(begin, '\n', reader->end - reader->begin);
    if (!feed) {
        return NULL;
    }
    *feed = 0;
    reader->begin = (size_t)(feed + 1 - reader->bytes);
    return begin;
}

const char *pipe_line_read(struct pipe_reader *reader, int timeout_ms)
{
    for (;;) {
        char *line = take_line(reader);
        if (line || reader->is_closed) {
            return line;
        }
        memmove(reader->bytes, reader->bytes + reader->begin,
                reader->end - reader->begin);
        reader->end -= reader->begin;
        reader->begin = 0;
        struct pollfd watched = {.fd = reader->fd, .events = POLLIN};
        int ready = poll(&watched, 1, timeout_ms);
        if (ready < 0 && errno == EINTR) {
            continue;
        }
        if (ready <= 0) {
            return NULL;
        }
        ssize_t got = read(reader->fd, reader->bytes + reader->end,
                           sizeof reader->bytes - reader->end);
        if (got > 0) {
            reader->end += (size_t)got;
        } else if (got == 0 || errno != EINTR) {
            reader->is_closed = true; /* also when a line is too long */
        }
    }
}

bool pipe_number(const char **at, uint64_t *number_out)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(*at, &end, 10);
    if (**at < '0' || **at > '9' || errno != 0) {
        return false;
    }
    *number_out = number;
    *at = *end == ' ' ? end + 1 : end;
    return true;
}

bool pipe_line_write(int fd, const char *fmt, ...)
{
    char text[4608];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(text, sizeof text - 1, fmt, args);
    va_end(args);
    if (len < 0 || (size_t)len >= sizeof text - 1) {
        return false;
    }
    text[len++] = '\n';
    for (int at = 0; at < len;) {
        ssize_t put = write(fd, text + at, (size_t)(len - at));
        if (put < 0 && errno != EINTR) {
            return false;
        }
        at += put > 0 ? (int)put : 0;
    }
    return true;
}
