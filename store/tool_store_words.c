/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "tool_store.h"
#include "tool_store_json.h"

#define PROGRESS_EVERY_NS UINT64_C(200000000)

/* C0, DEL, and C1, which UTF-8 spells C2 80 to C2 9F: 2 bytes. 0: harmless. */
static size_t control_len(const unsigned char *at, size_t left)
{
    if (at[0] < 0x20 || at[0] == 0x7f || at[0] == '\\') {
        return 1;
    }
    return left > 1 && at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0 ? 2 : 0;
}

static void put_safe(FILE *out, struct mc_view text)
{
    const unsigned char *bytes = text.data;
    if (!text.data) {
        fputc('-', out);
        return;
    }
    for (size_t i = 0; i < text.len;) {
        size_t len = control_len(bytes + i, text.len - i);
        if (len == 0) {
            fputc(bytes[i], out);
            i++;
        }
        for (; len > 0; len--, i++) {
            fprintf(out, "\\x%02X", bytes[i]);
        }
    }
}

int tool_fail_on(const struct tool_command *command, struct mc_view on,
                 enum mc_err err)
{
    tool_say_who(command);
    put_safe(stderr, on);
    fprintf(stderr, ": %s (%d)\n", mc_err_text(err), (int)err);
    return TOOL_FAILED;
}

void tool_put_safe(struct mc_view text)
{
    put_safe(stdout, text);
}

void tool_put_code(const struct tool_args *args, struct mc_view key,
                   int64_t code)
{
    if (args->json) {
        struct tool_json json;
        tool_json_begin(&json);
        tool_json_text(&json, "key", key);
        tool_json_i64(&json, "code", code);
        tool_json_write(&json);
        return;
    }
    tool_put_safe(key);
    printf(" %" PRId64 "\n", code);
}

void tool_put_count(const struct tool_args *args, uint64_t removed)
{
    if (args->json) {
        struct tool_json json;
        tool_json_begin(&json);
        tool_json_u64(&json, "removed", removed);
        tool_json_write(&json);
        return;
    }
    printf("%" PRIu64 "\n", removed);
}

const char *tool_size_text(uint64_t bytes, char text[TOOL_SIZE_TEXT_LEN])
{
    static const char *const units[] = {"B",  "KB", "MB", "GB",
                                        "TB", "PB", "EB"};
    size_t unit = 0;
    double size = (double)bytes;
    while (size >= 1024 && unit < 6) {
        size /= 1024;
        unit++;
    }
    (void)snprintf(text, TOOL_SIZE_TEXT_LEN,
                   size < 10 && unit > 0 ? "%.2f %s" : "%.4g %s", size,
                   units[unit]);
    return text;
}

void tool_progress(const struct tool_command *command, uint64_t done,
                   uint64_t of, bool is_done)
{
    static uint64_t shown_ns;
    static bool is_shown;
    uint64_t now_ns = tool_now_ns();
    if (!isatty(STDERR_FILENO)) {
        return;
    }
    if (is_done) {
        if (is_shown) {
            fputs("\r\x1b[K", stderr);
        }
        is_shown = false;
        return;
    }
    if (is_shown && now_ns - shown_ns < PROGRESS_EVERY_NS) {
        return;
    }
    is_shown = true;
    shown_ns = now_ns;
    fprintf(stderr, "\r%s: %" PRIu64 "/%" PRIu64 "\x1b[K", command->name, done,
            of);
    fflush(stderr);
}
