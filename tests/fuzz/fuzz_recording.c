/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded files as decode, play and lint read them: JSON lines, or one array of
 * them, with frames in hexadecimal. A row that is read is written as record
 * writes it and read again, and both readers of messages look at its frames. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz_bytes.h"
#include "mc_engine_event.h"
#include "tool_line.h"
#include "tool_rows.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define VIEWS 1024

static struct mc_event events[VIEWS];
static struct mc_engine_event engine_events[VIEWS];

/* What the tools have in the file of their main. */
const struct tool_option tool_options[] = {{.name = NULL}};
static const struct tool_command command = {.name = "fuzz"};
static const struct tool_program program = {
    .name = "fuzz", .version = "0", .options = tool_options};

bool tool_wait(int fd, int64_t timeout_ms)
{
    (void)fd;
    (void)timeout_ms;
    return true;
}

bool tool_is_stopped(void)
{
    return false;
}

/* Complaints about bad lines are what is expected, and not shown. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    tool_begin(&program);
    FILE *nowhere = fopen("/dev/null", "we");
    require(nowhere != NULL);
    stderr = nowhere;
    return 0;
}

static void look(const struct mc_view *frames, size_t count)
{
    struct mc_event_batch batch;
    struct mc_engine_batch engine_batch;
    struct mc_event_fault fault;
    enum mc_event_error error =
        mc_event_read(frames, count, events, VIEWS, &batch, &fault);
    require(error == MC_EVENT_OK ? batch.count <= VIEWS : fault.error == error);
    error = mc_engine_event_read(frames, count, engine_events, VIEWS,
                                 &engine_batch, &fault);
    require(error == MC_EVENT_OK ? engine_batch.count <= VIEWS
                                 : fault.error == error);
}

struct again {
    const struct mc_view *frames;
    size_t count;
    struct tool_rows *rows;
    bool is_seen;
};

static int compare_row(void *ctx, struct json_object *row)
{
    struct again *again = ctx;
    struct tool_frames frames = {0};
    require(tool_frames_read(&frames, again->rows, row) == TOOL_DONE);
    require(frames.count == again->count);
    for (size_t i = 0; i < frames.count; i++) {
        require(frames.views[i].len == again->frames[i].len);
        require(frames.views[i].len == 0 ||
                memcmp(frames.views[i].data, again->frames[i].data,
                       frames.views[i].len) == 0);
    }
    tool_frames_fini(&frames);
    again->is_seen = true;
    return TOOL_DONE;
}

/* The name is borrowed as long as the rows are open; two are at most. */
static struct tool_rows *open_bytes(const void *data, size_t size)
{
    static char paths[2][64];
    static unsigned turn;
    char *path = paths[turn++ % 2];
    int fd = memfd_create("recording", MFD_CLOEXEC);
    require(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    (void)snprintf(path, sizeof paths[0], "/proc/self/fd/%d", fd);
    struct tool_rows *rows = tool_rows_open(&command, path);
    require(rows != NULL);
    (void)close(fd);
    return rows;
}

static void write_and_read(const struct mc_view *frames, size_t count)
{
    struct tool_line line = {0};
    struct again again = {.frames = frames, .count = count};
    tool_line_open(&line, NULL, '{');
    tool_line_number(&line, "t_ns", 1);
    tool_line_open(&line, "frames", '[');
    for (size_t i = 0; i < count; i++) {
        tool_line_hex(&line, NULL, frames[i]);
    }
    tool_line_close(&line, ']');
    tool_line_close(&line, '}');
    require(!line.is_failed);
    again.rows = open_bytes(line.text, line.len);
    require(tool_rows_each(again.rows, compare_row, &again) == TOOL_DONE);
    require(again.is_seen);
    tool_rows_close(again.rows);
    tool_line_fini(&line);
}

struct reading {
    struct tool_rows *rows;
    struct tool_frames frames;
    unsigned count;
};

static int read_row(void *ctx, struct json_object *row)
{
    struct reading *reading = ctx;
    int code = tool_frames_read(&reading->frames, reading->rows, row);
    if (code == TOOL_DONE) {
        look(reading->frames.views, reading->frames.count);
        if (reading->count++ < 3) {
            write_and_read(reading->frames.views, reading->frames.count);
        }
    }
    return code;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct reading reading = {.rows = open_bytes(data, size)};
    int code = tool_rows_each(reading.rows, read_row, &reading);
    require(code == TOOL_DONE || code == TOOL_FAILED);
    tool_rows_close(reading.rows);
    tool_frames_fini(&reading.frames);
    return 0;
}
