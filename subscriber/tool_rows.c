/* SPDX-License-Identifier: Apache-2.0 */
/* json-c is lenient where a silent change would follow: it clamps numbers that
 * do not fit and replaces lone surrogates. Both are looked for here. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool_rows.h"

#define LINE_MAX_BYTES ((size_t)256 << 20)
#define JSON_DEPTH 64

struct tool_rows {
    const struct tool_command *command;
    const char *name; /* of the file, for people */
    int fd;
    bool is_at_end; /* of the file */
    bool is_begun;  /* a line that is not blank was seen */
    char *buffer;
    size_t begin; /* first byte that was not handed out */
    size_t end;   /* of what was read */
    size_t capacity;
    uint64_t line; /* number of the current one, from 1 */
    struct json_tokener *tokener;
    struct json_object *current; /* owned: the row, or the array */
    bool is_array;
    size_t index; /* of the next element */
};

struct tool_rows *tool_rows_open(const struct tool_command *command,
                                 const char *path)
{
    bool is_stdin = !path || strcmp(path, "-") == 0;
    struct tool_rows *rows = calloc(1, sizeof *rows);
    struct json_tokener *tokener = json_tokener_new_ex(JSON_DEPTH);
    if (!rows || !tokener) {
        tool_fail(command, "out of memory");
        goto err_free;
    }
    rows->command = command;
    rows->name = is_stdin ? "stdin" : path;
    rows->tokener = tokener;
    json_tokener_set_flags(tokener,
                           JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    rows->fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (rows->fd >= 0) {
        return rows;
    }
    tool_fail(command, "%s: %s", path, strerror(errno));
err_free:
    if (tokener) {
        json_tokener_free(tokener);
    }
    free(rows);
    return NULL;
}

void tool_rows_close(struct tool_rows *rows)
{
    if (rows) {
        json_object_put(rows->current);
        json_tokener_free(rows->tokener);
        if (rows->fd != STDIN_FILENO) {
            close(rows->fd);
        }
        free(rows->buffer);
        free(rows);
    }
}

int tool_rows_fail(const struct tool_rows *rows, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (rows->is_array) {
        return tool_fail(rows->command, "%s: row %zu: %s", rows->name,
                         rows->index, text);
    }
    return tool_fail(rows->command, "%s:%llu: %s", rows->name,
                     (unsigned long long)rows->line, text);
}

/* Moves what is left to the front and reads more behind it. */
static bool fill(struct tool_rows *rows)
{
    if (rows->begin > 0) {
        memmove(rows->buffer, rows->buffer + rows->begin,
                rows->end - rows->begin);
        rows->end -= rows->begin;
        rows->begin = 0;
    }
    if (rows->end == rows->capacity) {
        size_t capacity = rows->capacity ? 2 * rows->capacity : 65536;
        char *buffer =
            capacity <= LINE_MAX_BYTES ? realloc(rows->buffer, capacity) : NULL;
        if (!buffer) {
            rows->line++;
            tool_rows_fail(rows, "line too long");
            return false;
        }
        rows->buffer = buffer;
        rows->capacity = capacity;
    }
    if (tool_flush(rows->command) != TOOL_DONE) {
        return false; /* before a wait, what was made of the last lines goes */
    }
    ssize_t got = -1;
    while (got < 0) {
        if (!tool_wait(rows->fd, -1) && tool_is_stopped()) {
            tool_fail(rows->command, "%s: interrupted", rows->name);
            return false;
        }
        got = read(rows->fd, rows->buffer + rows->end,
                   rows->capacity - rows->end);
        if (got < 0 && errno != EINTR && errno != EAGAIN) {
            tool_fail(rows->command, "%s: %s", rows->name, strerror(errno));
            return false;
        }
    }
    rows->end += (size_t)got;
    rows->is_at_end = got == 0;
    return true;
}

enum tool_rows_step tool_rows_line(struct tool_rows *rows,
                                   struct mc_view *line_out)
{
    size_t looked_at = 0;
    const char *feed = NULL;
    for (;;) {
        size_t left = rows->end - rows->begin;
        if (left > looked_at) {
            feed = memchr(rows->buffer + rows->begin + looked_at, '\n',
                          left - looked_at);
        }
        if (feed || rows->is_at_end) {
            break;
        }
        looked_at = left;
        if (!fill(rows)) {
            return TOOL_ROWS_FAILED;
        }
    }
    if (!feed && rows->begin == rows->end) {
        return TOOL_ROWS_END;
    }
    const char *line = rows->buffer + rows->begin;
    size_t len = feed ? (size_t)(feed - line) : rows->end - rows->begin;
    rows->begin += feed ? len + 1 : len;
    rows->line++;
    *line_out = mc_view_make(line, len);
    return TOOL_ROW;
}

static bool is_blank(struct mc_view text)
{
    const char *bytes = text.data;
    for (size_t i = 0; i < text.len; i++) {
        if (bytes[i] == 0 || !strchr(" \t\r\n", bytes[i])) {
            return false;
        }
    }
    return true;
}

/* The value of 4 hexadecimal digits, or -1. */
static int read_unit(const char *at, const char *end)
{
    int value = 0;
    for (int i = 0; i < 4; i++) {
        const char *digits = "0123456789abcdef0123456789ABCDEF";
        const char *found =
            at + i < end && at[i] ? strchr(digits, at[i]) : NULL;
        if (!found) {
            return -1;
        }
        value = value * 16 + (int)((found - digits) % 16);
    }
    return value;
}

/* Half of a pair of \uD800 escapes, which json-c replaces without a word. */
static bool has_lone_surrogate(struct mc_view text)
{
    const char *at = text.data;
    const char *end = at + text.len;
    while ((at = memchr(at, '\\', (size_t)(end - at))) && end - at >= 2) {
        if (at[1] != 'u') {
            at += 2;
            continue;
        }
        int unit = read_unit(at + 2, end);
        if (unit < 0xd800 || unit > 0xdfff) {
            at += 2;
            continue;
        }
        bool is_pair =
            unit < 0xdc00 && end - at >= 12 && at[6] == '\\' && at[7] == 'u';
        int low = is_pair ? read_unit(at + 8, end) : -1;
        if (low < 0xdc00 || low > 0xdfff) {
            return true;
        }
        at += 12;
    }
    return false;
}

/* One JSON value that is all of the text; NULL after a line on stderr. */
static struct json_object *parse(struct tool_rows *rows, struct mc_view text)
{
    if (memchr(text.data, 0, text.len)) {
        tool_rows_fail(rows, "not JSON: a NUL byte");
        return NULL;
    }
    json_tokener_reset(rows->tokener);
    errno = 0;
    struct json_object *value =
        json_tokener_parse_ex(rows->tokener, text.data, (int)text.len);
    int overflow = errno == ERANGE;
    enum json_tokener_error error = json_tokener_get_error(rows->tokener);
    if (error == json_tokener_continue) {
        tool_rows_fail(rows, "not JSON: ends inside a value");
    } else if (error != json_tokener_success) {
        tool_rows_fail(rows, "not JSON: %s at byte %zu",
                       json_tokener_error_desc(error),
                       json_tokener_get_parse_end(rows->tokener));
    } else if (overflow) {
        tool_rows_fail(rows, "a number does not fit 64 bits");
    } else if (has_lone_surrogate(text)) {
        tool_rows_fail(rows, "a \\u escape is half of a pair");
    } else {
        return value;
    }
    json_object_put(value);
    return NULL;
}

int tool_rows_check(struct tool_rows *rows, struct mc_view line)
{
    if (is_blank(line)) {
        return TOOL_DONE;
    }
    struct json_object *value = parse(rows, line);
    json_object_put(value);
    return value ? TOOL_DONE : TOOL_FAILED;
}

/* The file is one array: reads it to its end. */
static enum tool_rows_step open_array(struct tool_rows *rows,
                                      struct mc_view first)
{
    rows->begin -=
        (size_t)(rows->buffer + rows->begin - (const char *)first.data);
    while (!rows->is_at_end) {
        if (!fill(rows)) {
            return TOOL_ROWS_FAILED;
        }
    }
    struct mc_view text =
        mc_view_make(rows->buffer + rows->begin, rows->end - rows->begin);
    rows->current = parse(rows, text);
    rows->is_array = true;
    rows->begin = rows->end;
    return rows->current ? TOOL_ROW : TOOL_ROWS_FAILED;
}

static enum tool_rows_step next_value(struct tool_rows *rows,
                                      struct json_object **row_out)
{
    struct mc_view line = {0};
    do {
        enum tool_rows_step step = tool_rows_line(rows, &line);
        if (step != TOOL_ROW) {
            return step;
        }
    } while (is_blank(line));
    const char *text = line.data;
    if (!rows->is_begun && text[strspn(text, " \t")] == '[') {
        return open_array(rows, line);
    }
    rows->is_begun = true;
    json_object_put(rows->current);
    rows->current = parse(rows, line);
    *row_out = rows->current;
    return rows->current ? TOOL_ROW : TOOL_ROWS_FAILED;
}

enum tool_rows_step tool_rows_next(struct tool_rows *rows,
                                   struct json_object **row_out)
{
    struct json_object *row = NULL;
    if (!rows->is_array) {
        enum tool_rows_step step = next_value(rows, &row);
        if (step != TOOL_ROW) {
            return step;
        }
    }
    if (rows->is_array) {
        if (rows->index == json_object_array_length(rows->current)) {
            return TOOL_ROWS_END;
        }
        row = json_object_array_get_idx(rows->current, rows->index++);
    }
    if (!json_object_is_type(row, json_type_object)) {
        tool_rows_fail(rows, "not an object");
        return TOOL_ROWS_FAILED;
    }
    *row_out = row;
    return TOOL_ROW;
}

bool tool_number_read(struct json_object *value, uint64_t *number_out)
{
    if (!json_object_is_type(value, json_type_int)) {
        return false;
    }
    uint64_t number = json_object_get_uint64(value);
    if (number == 0 && json_object_get_int64(value) != 0) {
        return false; /* negative: json-c answers 0 */
    }
    *number_out = number;
    return true;
}

int tool_rows_each(struct tool_rows *rows,
                   int (*fn)(void *ctx, struct json_object *row), void *ctx)
{
    struct json_object *row;
    int code = TOOL_DONE;
    while (code == TOOL_DONE && !tool_is_unread()) {
        enum tool_rows_step step = tool_rows_next(rows, &row);
        if (step != TOOL_ROW) {
            return step == TOOL_ROWS_END ? TOOL_DONE : TOOL_FAILED;
        }
        code = fn(ctx, row);
    }
    return code;
}
