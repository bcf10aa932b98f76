/* SPDX-License-Identifier: Apache-2.0 */
/* The writer lays constants out once (model, block size, ranks), so the events
 * of a row must agree in them; a field that the writer would not write as given
 * is an error and never dropped. tool_encode_row.c reads the row. */
#include <stdlib.h>

#include "tool_encode.h"
#include "tool_line.h"

struct encode {
    struct tool_rows *rows;
    struct tool_encode_row row;
    struct tool_line line;
    unsigned char *buffer;
    size_t capacity;
};

static bool buffer_reserve(struct encode *encode,
                           const struct mc_event_writer *writer)
{
    size_t needed = MC_EVENT_WRITER_BATCH_BOUND;
    for (size_t i = 0; i < encode->row.count; i++) {
        needed += mc_event_writer_bound(writer, &encode->row.records[i]);
    }
    if (needed > encode->capacity) {
        void *grown = realloc(encode->buffer, needed);
        if (!grown) {
            return false;
        }
        encode->buffer = grown;
        encode->capacity = needed;
    }
    return true;
}

static void add_frames(struct tool_line *line, uint64_t seq,
                       struct mc_view payload)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++) {
        bytes[i] = (unsigned char)(seq >> (56 - 8 * i));
    }
    tool_line_open(line, NULL, '{');
    tool_line_open(line, "frames", '[');
    tool_line_text(line, NULL, mc_view_make("", 0));
    tool_line_hex(line, NULL, mc_view_make(bytes, sizeof bytes));
    tool_line_hex(line, NULL, payload);
    tool_line_close(line, ']');
    tool_line_close(line, '}');
}

static int encode_row(void *ctx, struct json_object *object)
{
    struct encode *encode = ctx;
    struct tool_encode_row *row = &encode->row;
    int code = tool_encode_row_read(row, encode->rows, object);
    if (code != TOOL_DONE) {
        return code;
    }
    struct mc_event_writer *writer;
    enum mc_err err = mc_event_writer_create(&row->opts, &writer);
    if (err != MC_OK) {
        return tool_rows_fail(encode->rows, "%s (%d)", mc_err_text(err), err);
    }
    size_t len = 0;
    err = MC_ERR_NOMEM;
    if (buffer_reserve(encode, writer)) {
        err = mc_event_writer_batch(writer, row->timestamp_ms, row->records,
                                    row->count, encode->buffer,
                                    encode->capacity, &len);
    }
    mc_event_writer_destroy(writer);
    if (err != MC_OK) {
        return tool_rows_fail(encode->rows, "%s (%d)", mc_err_text(err), err);
    }
    add_frames(&encode->line, row->seq, mc_view_make(encode->buffer, len));
    bool is_whole = !encode->line.is_failed;
    if (!tool_line_write(&encode->line, stdout) && !is_whole) {
        return tool_rows_fail(encode->rows, "out of memory");
    }
    return TOOL_DONE;
}

static int run(const struct tool_args *args)
{
    struct encode encode = {0};
    int code = TOOL_FAILED;
    encode.rows = tool_rows_open(args->command, args->operand);
    if (encode.rows) {
        code = tool_rows_each(encode.rows, encode_row, &encode);
    }
    tool_rows_close(encode.rows);
    tool_line_fini(&encode.line);
    free(encode.row.records);
    free(encode.buffer);
    return code;
}

const struct tool_command tool_encode = {
    .name = "encode",
    .operands = "[FILE]",
    .operand_max = 1,
    .summary = "events as JSON to the frames that a store sends",
    .explanation =
        "Reads JSON lines, or one JSON array of rows, from FILE or stdin:\n"
        "{\"profile\":\"plain\"|\"full\",\"seq\",\"timestamp_ms\",\"dp_rank\","
        "\n"
        "\"events\":[{...}]}, the events with the fields of docs/events.md and "
        "an\n"
        "epoch as a number. Prints {\"frames\":[HEX,HEX,HEX]} for each. A "
        "field\n"
        "that may be nil may be left out; one that cannot be written as given "
        "is\n"
        "an error.",
    .example = "mc-events encode rows.jsonl | mc-events decode",
    .run = run,
};
