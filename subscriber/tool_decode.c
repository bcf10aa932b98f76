/* SPDX-License-Identifier: Apache-2.0 */
/* Each row is judged alone: what the strict reader makes of one message. What
 * messages say together (gaps, duplicates) is for play and tail. */
#include <stdlib.h>

#include "mc_event.h"
#include "tool_line.h"
#include "tool_rows.h"
#include "tool_show.h"

static void add_refusal(struct tool_line *line, enum mc_event_error error,
                        uint32_t offset)
{
    tool_line_text(line, "error", mc_view_str(mc_event_error_name(error)));
    tool_line_number(line, "offset", offset);
}

static void add_event(struct tool_line *line, const struct mc_event *event)
{
    tool_line_open(line, NULL, '{');
    if (event->type == MC_EVENT_NONE) {
        add_refusal(line, event->error, event->error_offset);
    } else {
        tool_line_number(line, "event_id", event->event_id);
        tool_show_fields(line, event);
    }
    tool_line_close(line, '}');
}

static void add_batch(struct tool_line *line,
                      const struct mc_event_batch *batch,
                      const struct mc_event *events)
{
    tool_line_open(line, NULL, '{');
    tool_line_number(line, "seq", batch->seq);
    tool_line_number(line, "timestamp_ms", batch->timestamp_ms);
    tool_line_number(line, "dp_rank", batch->dp_rank);
    tool_line_open(line, "events", '[');
    for (uint32_t i = 0; i < batch->count; i++) {
        add_event(line, &events[i]);
    }
    tool_line_close(line, ']');
    tool_line_close(line, '}');
}

static void add_engine_event(struct tool_line *line,
                             const struct mc_engine_event *event)
{
    tool_line_open(line, NULL, '{');
    if (event->type == MC_EVENT_NONE) {
        add_refusal(line, event->error, event->error_offset);
    } else {
        tool_show_engine_fields(line, event);
    }
    tool_line_close(line, '}');
}

/* dp_rank null: the message names none. */
static void add_engine_batch(struct tool_line *line,
                             const struct mc_engine_batch *batch,
                             const struct mc_engine_event *events)
{
    tool_line_open(line, NULL, '{');
    tool_line_number(line, "seq", batch->seq);
    tool_line_number(line, "timestamp_ms", batch->timestamp_ms);
    if (batch->has_dp_rank) {
        tool_line_number(line, "dp_rank", batch->dp_rank);
    } else {
        tool_line_null(line, "dp_rank");
    }
    tool_line_open(line, "events", '[');
    for (uint32_t i = 0; i < batch->count; i++) {
        add_engine_event(line, &events[i]);
    }
    tool_line_close(line, ']');
    tool_line_close(line, '}');
}

static void add_fault(struct tool_line *line,
                      const struct mc_event_fault *fault)
{
    tool_line_open(line, NULL, '{');
    add_refusal(line, fault->error, fault->offset);
    if (fault->has_seq) {
        tool_line_number(line, "seq", fault->seq);
    } else {
        tool_line_null(line, "seq");
    }
    tool_line_close(line, '}');
}

struct decode {
    struct tool_rows *rows;
    struct tool_frames frames;
    struct tool_line line;
    struct mc_event *events; /* MC_EVENT_COUNT_MAX of these or of those */
    struct mc_engine_event *engine_events; /* NULL: of a store */
};

static enum mc_event_error decode_store(struct decode *decode,
                                        struct mc_event_fault *fault)
{
    struct mc_event_batch batch;
    enum mc_event_error error =
        mc_event_read(decode->frames.views, decode->frames.count,
                      decode->events, MC_EVENT_COUNT_MAX, &batch, fault);
    if (error == MC_EVENT_OK) {
        add_batch(&decode->line, &batch, decode->events);
    }
    return error;
}

static enum mc_event_error decode_engine(struct decode *decode,
                                         struct mc_event_fault *fault)
{
    struct mc_engine_batch batch;
    enum mc_event_error error = mc_engine_event_read(
        decode->frames.views, decode->frames.count, decode->engine_events,
        MC_EVENT_COUNT_MAX, &batch, fault);
    if (error == MC_EVENT_OK) {
        add_engine_batch(&decode->line, &batch, decode->engine_events);
    }
    return error;
}

static int decode_row(void *ctx, struct json_object *row)
{
    struct decode *decode = ctx;
    int code = tool_frames_read(&decode->frames, decode->rows, row);
    if (code != TOOL_DONE) {
        return code;
    }
    struct mc_event_fault fault = {0};
    enum mc_event_error error = decode->engine_events
                                    ? decode_engine(decode, &fault)
                                    : decode_store(decode, &fault);
    if (error != MC_EVENT_OK) {
        add_fault(&decode->line, &fault);
    }
    bool is_whole = !decode->line.is_failed;
    if (!tool_line_write(&decode->line, stdout) && !is_whole) {
        return tool_rows_fail(decode->rows, "out of memory");
    }
    return TOOL_DONE;
}

static int run(const struct tool_args *args)
{
    struct decode decode = {0};
    int code = TOOL_FAILED;
    if (args->is_engine) {
        decode.engine_events =
            calloc(MC_EVENT_COUNT_MAX, sizeof *decode.engine_events);
    } else {
        decode.events = calloc(MC_EVENT_COUNT_MAX, sizeof *decode.events);
    }
    if (!decode.events && !decode.engine_events) {
        return tool_fail(args->command, "out of memory");
    }
    decode.rows = tool_rows_open(args->command, args->operand);
    if (decode.rows) {
        code = tool_rows_each(decode.rows, decode_row, &decode);
    }
    tool_rows_close(decode.rows);
    tool_frames_fini(&decode.frames);
    tool_line_fini(&decode.line);
    free(decode.events);
    free(decode.engine_events);
    return code;
}

const struct tool_command tool_decode = {
    .name = "decode",
    .operands = "[FILE]",
    .operand_max = 1,
    .options = TOOL_PROFILE,
    .summary = "what the strict reader makes of recorded messages",
    .explanation =
        "Reads JSON lines with \"frames\": [HEX, ...], as record writes them,\n"
        "from FILE or stdin, or one JSON array of them. Prints a line for "
        "each:\n"
        "{\"seq\",\"timestamp_ms\",\"dp_rank\",\"events\":[...]}, or what is "
        "wrong:\n"
        "{\"error\",\"offset\",\"seq\"}. A refused event stands in its place "
        "as\n"
        "{\"error\",\"offset\"}; offsets are bytes of the third frame.",
    .example = "mc-events decode recording.jsonl",
    .run = run,
};
