/* SPDX-License-Identifier: Apache-2.0 */
/* Frames are written as they came, before anything judges them, so that a
 * recording also holds what a strict reader refuses. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tool_follow.h"
#include "tool_line.h"

struct record {
    struct tool_follow follow;
    FILE *file;
    const char *name;
    struct tool_line line;
    uint64_t begin_ns; /* when the first message came */
    uint64_t messages;
};

static void on_message(void *ctx, uint32_t source, const struct mc_view *frames,
                       size_t count)
{
    struct record *record = ctx;
    struct tool_line *line = &record->line;
    uint64_t now = tool_now_ns();
    (void)source;
    if (record->messages == 0) {
        record->begin_ns = now;
    }
    tool_line_open(line, NULL, '{');
    tool_line_number(line, "t_ns", now - record->begin_ns);
    tool_line_open(line, "frames", '[');
    for (size_t i = 0; i < count; i++) {
        tool_line_hex(line, NULL, frames[i]);
    }
    tool_line_close(line, ']');
    tool_line_close(line, '}');
    bool is_whole = !line->is_failed;
    errno = 0;
    if (!tool_line_write(line, record->file)) {
        const char *why = is_whole ? strerror(errno) : "out of memory";
        tool_follow_end(&record->follow,
                        tool_fail(record->follow.args->command, "%s: %s",
                                  record->name, why));
        return;
    }
    record->messages++;
    const struct tool_args *args = record->follow.args;
    if (args->has_count && record->messages == args->count) {
        tool_follow_end(&record->follow, TOOL_DONE);
    }
}

/* Whoever looks into the file while it grows sees whole lines, soon. */
static void on_tick(void *ctx)
{
    struct record *record = ctx;
    errno = 0;
    if (fflush(record->file) != 0) {
        tool_follow_end(&record->follow,
                        tool_fail(record->follow.args->command, "%s: %s",
                                  record->name, strerror(errno)));
    }
}

static int run(const struct tool_args *args)
{
    bool is_stdout = strcmp(args->operand, "-") == 0;
    struct record record = {
        .follow = {.args = args,
                   .on_message = on_message,
                   .is_raw = true,
                   .on_tick = on_tick,
                   .tick_ms = 200},
        .name = is_stdout ? "stdout" : args->operand,
    };
    record.follow.ctx = &record;
    record.file = is_stdout ? stdout : fopen(args->operand, "we");
    if (!record.file) {
        return tool_fail(args->command, "%s: %s", args->operand,
                         strerror(errno));
    }
    int code = tool_follow_run(&record.follow);
    errno = 0;
    if (!is_stdout && fclose(record.file) != 0 && code == TOOL_DONE) {
        code = tool_fail(args->command, "%s: %s", record.name, strerror(errno));
    }
    tool_line_fini(&record.line);
    tool_say(args->command, "%" PRIu64 " messages in %s", record.messages,
             record.name);
    return code;
}

const struct tool_command tool_record = {
    .name = "record",
    .operands = "FILE",
    .operand_min = 1,
    .operand_max = 1,
    .options = TOOL_ENDPOINT | TOOL_LISTEN | TOOL_TOPIC | TOOL_COUNT,
    .summary = "messages to a file, as they come",
    .explanation =
        "Writes a line for each message, also for those that a strict reader\n"
        "refuses: {\"t_ns\":N,\"frames\":[HEX,...]}, t_ns counted from the "
        "first.\n"
        "Of a message with more than four frames the first four are kept. "
        "FILE\n"
        "is begun anew; - is stdout. decode and play read it.",
    .example = "mc-events record --count 1000 recording.jsonl",
    .run = run,
};
