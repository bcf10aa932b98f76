/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "tool_line.h"

static const char hex_digits[] = "0123456789abcdef";

/* Room for len more bytes and a NUL. */
static bool reserve(struct tool_line *line, size_t len)
{
    if (line->is_failed) {
        return false;
    }
    if (line->capacity - line->len > len) {
        return true;
    }
    size_t capacity = line->capacity ? line->capacity : 1024;
    while (capacity - line->len <= len) {
        if (capacity > SIZE_MAX / 2) {
            line->is_failed = true;
            return false;
        }
        capacity *= 2;
    }
    char *text = realloc(line->text, capacity);
    if (!text) {
        line->is_failed = true;
        return false;
    }
    line->text = text;
    line->capacity = capacity;
    return true;
}

void tool_line_fini(struct tool_line *line)
{
    free(line->text);
    *line = (struct tool_line){0};
}

bool tool_line_write(struct tool_line *line, FILE *out)
{
    tool_line_add(line, "\n");
    bool is_written =
        !line->is_failed && fwrite(line->text, 1, line->len, out) == line->len;
    line->len = 0;
    line->is_first = false;
    return is_written;
}

void tool_line_bytes(struct tool_line *line, const void *data, size_t len)
{
    if (len > 0 && reserve(line, len)) {
        memcpy(line->text + line->len, data, len);
        line->len += len;
    }
}

void tool_line_add(struct tool_line *line, const char *text)
{
    tool_line_bytes(line, text, strlen(text));
}

void tool_line_format(struct tool_line *line, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (len > 0) {
        tool_line_bytes(line, text,
                        (size_t)len < sizeof text ? (size_t)len
                                                  : sizeof text - 1);
    }
}

/* C0, DEL, and C1, which UTF-8 spells C2 80 to C2 9F: 2 bytes. 0: harmless. */
static size_t control_len(const unsigned char *at, size_t left)
{
    if (at[0] < 0x20 || at[0] == 0x7f || at[0] == '\\') {
        return 1;
    }
    return left > 1 && at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0 ? 2 : 0;
}

void tool_line_safe(struct tool_line *line, struct mc_view text)
{
    if (!text.data) {
        tool_line_add(line, "-");
        return;
    }
    const unsigned char *bytes = text.data;
    for (size_t i = 0; i < text.len;) {
        size_t len = control_len(bytes + i, text.len - i);
        if (len == 0) {
            tool_line_bytes(line, bytes + i++, 1);
        }
        for (; len > 0; len--, i++) {
            char escape[4] = {'\\', 'x', hex_digits[bytes[i] >> 4],
                              hex_digits[bytes[i] & 15]};
            tool_line_bytes(line, escape, sizeof escape);
        }
    }
}

static void add_quoted(struct tool_line *line, struct mc_view text)
{
    const unsigned char *bytes = text.data;
    size_t begin = 0;
    tool_line_add(line, "\"");
    for (size_t i = 0; i < text.len; i++) {
        if (bytes[i] >= 0x20 && bytes[i] != '"' && bytes[i] != '\\') {
            continue;
        }
        tool_line_bytes(line, bytes + begin, i - begin);
        begin = i + 1;
        if (bytes[i] >= 0x20) {
            char escape[2] = {'\\', (char)bytes[i]};
            tool_line_bytes(line, escape, sizeof escape);
        } else {
            char escape[6] = {'\\',
                              'u',
                              '0',
                              '0',
                              hex_digits[bytes[i] >> 4],
                              hex_digits[bytes[i] & 15]};
            tool_line_bytes(line, escape, sizeof escape);
        }
    }
    tool_line_bytes(line, bytes + begin, text.len - begin);
    tool_line_add(line, "\"");
}

/* The comma and the name before a value. */
static void begin_value(struct tool_line *line, const char *name)
{
    if (line->len > 0 && !line->is_first) {
        tool_line_add(line, ",");
    }
    line->is_first = false;
    if (name) {
        add_quoted(line, mc_view_str(name));
        tool_line_add(line, ":");
    }
}

void tool_line_open(struct tool_line *line, const char *name, char bracket)
{
    begin_value(line, name);
    tool_line_bytes(line, &bracket, 1);
    line->is_first = true;
}

void tool_line_close(struct tool_line *line, char bracket)
{
    tool_line_bytes(line, &bracket, 1);
    line->is_first = false;
}

void tool_line_text(struct tool_line *line, const char *name,
                    struct mc_view text)
{
    begin_value(line, name);
    if (text.data) {
        add_quoted(line, text);
    } else {
        tool_line_add(line, "null");
    }
}

void tool_line_number(struct tool_line *line, const char *name, uint64_t number)
{
    begin_value(line, name);
    tool_line_format(line, "%" PRIu64, number);
}

void tool_line_integer(struct tool_line *line, const char *name, int64_t number)
{
    begin_value(line, name);
    tool_line_format(line, "%" PRId64, number);
}

void tool_line_bool(struct tool_line *line, const char *name, bool is_true)
{
    begin_value(line, name);
    tool_line_add(line, is_true ? "true" : "false");
}

void tool_line_null(struct tool_line *line, const char *name)
{
    begin_value(line, name);
    tool_line_add(line, "null");
}

void tool_line_epoch(struct tool_line *line, const char *name, uint64_t epoch)
{
    begin_value(line, name);
    if (epoch) {
        tool_line_format(line, "\"%016" PRIx64 "\"", epoch);
    } else {
        tool_line_add(line, "null");
    }
}

void tool_line_hex(struct tool_line *line, const char *name,
                   struct mc_view bytes)
{
    begin_value(line, name);
    tool_line_add(line, "\"");
    if (bytes.len < SIZE_MAX / 2 && reserve(line, 2 * bytes.len)) {
        const unsigned char *from = bytes.data;
        char *to = line->text + line->len;
        for (size_t i = 0; i < bytes.len; i++) {
            *to++ = hex_digits[from[i] >> 4];
            *to++ = hex_digits[from[i] & 15];
        }
        line->len += 2 * bytes.len;
    }
    tool_line_add(line, "\"");
}
