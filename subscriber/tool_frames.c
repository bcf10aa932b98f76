/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "tool_rows.h"

void tool_frames_fini(struct tool_frames *frames)
{
    free(frames->views);
    free(frames->bytes);
    *frames = (struct tool_frames){0};
}

static bool reserve(struct tool_frames *frames, size_t views, size_t bytes)
{
    if (views > frames->view_capacity || !frames->views) {
        void *grown =
            realloc(frames->views, (views + 1) * sizeof *frames->views);
        if (!grown) {
            return false;
        }
        frames->views = grown;
        frames->view_capacity = views;
    }
    if (bytes > frames->byte_capacity || !frames->bytes) {
        void *grown = realloc(frames->bytes, bytes + 1);
        if (!grown) {
            return false;
        }
        frames->bytes = grown;
        frames->byte_capacity = bytes;
    }
    return true;
}

/* 0 to 15, or -1. */
static int digit_value(char c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool read_hex(const char *text, size_t len, unsigned char *bytes_out)
{
    for (size_t i = 0; i < len; i += 2) {
        int high = digit_value(text[i]);
        int low = i + 1 < len ? digit_value(text[i + 1]) : -1;
        if (high < 0 || low < 0) {
            return false;
        }
        bytes_out[i / 2] = (unsigned char)(high << 4 | low);
    }
    return true;
}

int tool_frames_read(struct tool_frames *frames, const struct tool_rows *rows,
                     struct json_object *row)
{
    struct json_object *list = NULL;
    if (!json_object_object_get_ex(row, "frames", &list) ||
        !json_object_is_type(list, json_type_array)) {
        return tool_rows_fail(rows, "frames: missing, or not an array");
    }
    size_t count = json_object_array_length(list);
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        struct json_object *hex = json_object_array_get_idx(list, i);
        if (!json_object_is_type(hex, json_type_string)) {
            return tool_rows_fail(rows, "frames[%zu]: not a string", i);
        }
        bytes += (size_t)json_object_get_string_len(hex) / 2;
    }
    if (!reserve(frames, count, bytes)) {
        return tool_rows_fail(rows, "frames: out of memory");
    }
    unsigned char *at = frames->bytes;
    for (size_t i = 0; i < count; i++) {
        struct json_object *hex = json_object_array_get_idx(list, i);
        size_t len = (size_t)json_object_get_string_len(hex);
        if (!read_hex(json_object_get_string(hex), len, at)) {
            return tool_rows_fail(rows, "frames[%zu]: not hexadecimal", i);
        }
        frames->views[i] = mc_view_make(at, len / 2);
        at += len / 2;
    }
    frames->count = count;
    return TOOL_DONE;
}
