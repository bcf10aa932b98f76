/* SPDX-License-Identifier: Apache-2.0 */
/* T27: reading through sessions that are open, in pieces of 64 KiB, beside memcpy
 * of the same pieces; and rows of 1 MiB by session (open, read, close), by batch
 * and without waiting, beside loops that know where their bytes are.
 *
 * All sides walk through 256 MiB on both ends, eight times the last cache. Of the
 * first layer the figure is the time until an eighth of each of 32 objects is
 * here, asking the master included, beside the time until all of them are. CPU is
 * that of the reading process: with shared memory no other one touches bytes. */
#include <poll.h>
#include <time.h>

#include "mc_client_async.h"
#include "node_rig.h"

#define WALK_ROWS 256
#define WALK_BYTES (WALK_ROWS * RIG_MIB)
#define PIECE ((size_t)64 << 10)
#define LAYERS 8
#define LAYER_ROWS 32
#define IN_FLIGHT 2 /* operations, of those that do not wait */

/* ---- ours ---------------------------------------------------------------- */

struct reader { /* the ctx of a stream */
    struct rig *rig;
    size_t rows; /* of a step */
    size_t len;  /* of each, from the head of its object on */
    struct mc_async *async;
    struct mc_view keys[WALK_ROWS];
    struct mc_span spans[WALK_ROWS];
    struct mc_spans lists[WALK_ROWS];
    struct mc_fragment fragments[WALK_ROWS];
    struct mc_fragments fragment_lists[WALK_ROWS];
    struct mc_get_session *sessions[WALK_ROWS];
    int64_t results[WALK_ROWS];
};

/* The bytes of object `row` go where they would lie if all were laid in order. */
static void aim(struct reader *reader, uint8_t *memory, size_t row)
{
    uint8_t *at = memory + row * RIG_MIB;
    reader->keys[row] = mc_view_make(reader->rig->keys[row], RIG_KEY_LEN);
    reader->spans[row] = (struct mc_span){.data = at, .len = reader->len};
    reader->lists[row] = (struct mc_spans){&reader->spans[row], 1};
    reader->fragments[row] =
        (struct mc_fragment){.data = at, .len = reader->len};
    reader->fragment_lists[row] =
        (struct mc_fragments){&reader->fragments[row], 1};
}

static void blank(const struct reader *reader, size_t first)
{
    uint64_t word = UINT64_MAX;
    for (size_t i = first; i < first + reader->rows; i++) {
        memcpy(reader->spans[i].data, &word, sizeof word);
    }
}

static bool have_come(const struct reader *reader, size_t first)
{
    for (size_t i = first; i < first + reader->rows; i++) {
        uint64_t word;
        memcpy(&word, reader->spans[i].data, sizeof word);
        if (word != i * RIG_MIB || reader->results[i] != (int64_t)reader->len) {
            return false;
        }
    }
    return true;
}

static bool open_sessions(struct reader *reader, size_t first, size_t count)
{
    if (mc_client_get_sessions_open(reader->rig->client, reader->keys + first,
                                    count, reader->sessions + first,
                                    reader->results + first) != MC_OK) {
        return false;
    }
    for (size_t i = first; i < first + count; i++) {
        if (reader->results[i] != 0) {
            return false;
        }
    }
    return true;
}

static void close_sessions(struct reader *reader, size_t first, size_t count)
{
    mc_client_get_sessions_close(reader->rig->client, reader->sessions + first,
                                 count);
    memset(reader->sessions + first, 0,
           count * sizeof(struct mc_get_session *));
}

static bool read_sessions(struct reader *reader, size_t first)
{
    return mc_client_get_sessions_read(
               reader->rig->client, reader->sessions + first,
               reader->fragment_lists + first, reader->rows, 0,
               reader->results + first) == MC_OK;
}

/* One piece, of a session that stays open. */
static bool step_piece(struct stream *stream)
{
    struct reader *reader = stream->ctx;
    struct mc_fragment piece = {.data = stream->memory + stream->at,
                                .offset = stream->at % RIG_MIB,
                                .len = PIECE};
    const struct mc_fragments list = {&piece, 1};
    int64_t result = 0;
    return mc_client_get_sessions_read(reader->rig->client,
                                       &reader->sessions[stream->at / RIG_MIB],
                                       &list, 1, 0, &result) == MC_OK &&
           result == (int64_t)PIECE;
}

static bool step_sessions(struct stream *stream)
{
    struct reader *reader = stream->ctx;
    size_t first = stream->at / RIG_MIB;
    blank(reader, first);
    bool is_good = open_sessions(reader, first, reader->rows) &&
                   read_sessions(reader, first);
    close_sessions(reader, first, reader->rows);
    return is_good && have_come(reader, first);
}

static bool step_batch(struct stream *stream)
{
    struct reader *reader = stream->ctx;
    size_t first = stream->at / RIG_MIB;
    blank(reader, first);
    return mc_client_batch_get_into(reader->rig->client, reader->keys + first,
                                    reader->spans + first, reader->rows,
                                    reader->results + first) == MC_OK &&
           have_come(reader, first);
}

/* Takes one operation, as an event loop would. */
static bool take_one(struct reader *reader)
{
    struct pollfd watch = {.fd = mc_async_eventfd(reader->async),
                           .events = POLLIN};
    void *ctx;
    while (mc_async_poll(reader->async, &ctx, 1) == 0) {
        if (poll(&watch, 1, 60000) <= 0) {
            return false;
        }
    }
    return true;
}

/* Of a step so many rows are one operation each, so that one is on its way while
 * another is begun. */
static bool step_async(struct stream *stream)
{
    struct reader *reader = stream->ctx;
    size_t first = stream->at / RIG_MIB;
    size_t rows = reader->rows / IN_FLIGHT;
    bool is_good = true;
    blank(reader, first);
    for (size_t i = 0; i < IN_FLIGHT; i++) {
        size_t at = first + i * rows;
        const struct mc_async_rows what = {.kind = MC_ASYNC_GET,
                                           .count = rows,
                                           .results = reader->results + at,
                                           .ctx = reader,
                                           .keys = reader->keys + at,
                                           .spans = reader->lists + at};
        struct mc_async_op *op;
        is_good =
            is_good && mc_async_submit(reader->async, &what, &op) == MC_OK;
    }
    for (size_t i = 0; i < IN_FLIGHT && is_good; i++) {
        is_good = take_one(reader);
    }
    return is_good && have_come(reader, first);
}

/* ---- memcpy ---------------------------------------------------------------- */

static bool step_copy(struct stream *stream)
{
    const uint8_t *source = stream->ctx;
    size_t row = stream->step_bytes < RIG_MIB ? stream->step_bytes : RIG_MIB;
    for (size_t i = 0; i < stream->step_bytes; i += row) {
        memcpy(stream->memory + stream->at + i, source + stream->at + i, row);
        bench_keep(stream->memory + stream->at + i);
    }
    return true;
}

/* ---- both ------------------------------------------------------------------ */

struct work {
    struct bench *bench;
    struct rig rig;
    struct reader *reader;
    struct streams ours;
    struct streams theirs;
    uint8_t *source; /* of memcpy */
    struct bare_end bare;
    pid_t server;
};

static bool open_ours(struct work *work, const char *transport, size_t rows)
{
    const struct rig_opts opts = {
        .transport = transport, .row_bytes = RIG_MIB, .row_count = WALK_ROWS};
    struct stream *stream = &work->ours.rows[0];
    work->ours = (struct streams){.bench = work->bench, .count = 1};
    work->theirs = work->ours;
    work->bare.fd = -1;
    work->reader = calloc(1, sizeof *work->reader);
    if (!rig_open(&work->rig, &opts) || !work->reader) {
        return false;
    }
    *stream = (struct stream){.ctx = work->reader,
                              .memory = stream_map(WALK_BYTES),
                              .bytes = WALK_BYTES,
                              .step_bytes = rows * RIG_MIB};
    work->reader->rig = &work->rig;
    work->reader->rows = rows;
    work->reader->len = RIG_MIB;
    if (!stream->memory ||
        mc_client_register_buffer(work->rig.client, stream->memory,
                                  WALK_BYTES) != MC_OK ||
        mc_async_open(work->rig.client, NULL, &work->reader->async) != MC_OK) {
        return false;
    }
    for (size_t i = 0; i < WALK_ROWS; i++) {
        aim(work->reader, stream->memory, i);
    }
    return true;
}

static bool open_copy(struct work *work)
{
    work->source = stream_map(WALK_BYTES);
    work->theirs.rows[0] =
        (struct stream){.step = step_copy,
                        .ctx = work->source,
                        .memory = stream_map(WALK_BYTES),
                        .bytes = WALK_BYTES,
                        .step_bytes = work->ours.rows[0].step_bytes};
    return work->source && work->theirs.rows[0].memory;
}

static bool open_sockets(struct work *work)
{
    char bytes[32];
    uint16_t port = 0;
    (void)snprintf(bytes, sizeof bytes, "%zu", WALK_BYTES);
    work->server = server_start_own("--bare", bytes, NULL, &port);
    work->bare.fd = work->server > 0 ? server_connect(port) : -1;
    work->bare.ask =
        (struct bare_ask){.rows = work->reader->rows, .row_bytes = RIG_MIB};
    work->theirs.rows[0] =
        (struct stream){.step = bare_step,
                        .ctx = &work->bare,
                        .memory = stream_map(WALK_BYTES),
                        .bytes = WALK_BYTES,
                        .step_bytes = work->ours.rows[0].step_bytes};
    return work->bare.fd >= 0 && work->theirs.rows[0].memory;
}

static void close_work(struct work *work)
{
    struct stream *stream = &work->ours.rows[0];
    if (work->reader) {
        mc_async_close(work->reader->async);
        if (work->rig.client) {
            close_sessions(work->reader, 0, WALK_ROWS);
        }
    }
    if (stream->memory && work->rig.client) {
        (void)!mc_client_unregister_buffer(work->rig.client, stream->memory);
    }
    if (work->bare.fd >= 0) {
        (void)close(work->bare.fd);
    }
    server_end(work->server);
    rig_close(&work->rig);
    stream_unmap(stream->memory, WALK_BYTES);
    stream_unmap(work->theirs.rows[0].memory, WALK_BYTES);
    stream_unmap(work->source, WALK_BYTES);
    free(work->reader);
}

static void measure(struct work *work, bool is_open, bench_side_fn side)
{
    const struct bench_sides sides = {side, &work->ours, side, &work->theirs};
    if (is_open) {
        (void)bench_rounds_of(work->bench, &sides);
    } else {
        bench_fail(work->bench, "cannot be set up");
    }
    close_work(work);
}

/* ---- targets --------------------------------------------------------------- */

static void run_pieces(struct bench *bench)
{
    struct work work = {.bench = bench};
    bool is_open =
        open_ours(&work, "shm", 1) && open_sessions(work.reader, 0, WALK_ROWS);
    work.ours.rows[0].step = step_piece;
    work.ours.rows[0].step_bytes = PIECE;
    measure(&work, is_open && open_copy(&work), streams_measure);
}

static void run_rows(struct bench *bench, bool (*step)(struct stream *),
                     size_t rows, const char *transport)
{
    struct work work = {.bench = bench};
    bool is_open = open_ours(&work, transport, rows);
    work.ours.rows[0].step = step;
    if (strcmp(transport, "shm") == 0) {
        is_open = is_open && open_copy(&work);
    } else {
        is_open = is_open && open_sockets(&work);
    }
    measure(&work, is_open, streams_measure);
}

static void run_s32(struct bench *bench)
{
    run_rows(bench, step_sessions, 32, "shm");
}
static void run_b32(struct bench *bench)
{
    run_rows(bench, step_batch, 32, "shm");
}
static void run_a32(struct bench *bench)
{
    run_rows(bench, step_async, 32, "shm");
}
static void run_s256(struct bench *bench)
{
    run_rows(bench, step_sessions, 256, "shm");
}
static void run_b256(struct bench *bench)
{
    run_rows(bench, step_batch, 256, "shm");
}
static void run_a256(struct bench *bench)
{
    run_rows(bench, step_async, 256, "shm");
}
static void run_s32t(struct bench *bench)
{
    run_rows(bench, step_sessions, 32, "tcp");
}
static void run_a32t(struct bench *bench)
{
    run_rows(bench, step_async, 32, "tcp");
}

/* CPU of this process per GiB, in ms. */
static bool cpu_measure(void *ctx, double seconds, double *value_out)
{
    struct streams *streams = ctx;
    struct timespec began;
    struct timespec ended;
    double rate = 0;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &began);
    if (!streams_measure(streams, seconds, &rate)) {
        return false;
    }
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ended);
    double used_ms = (double)(ended.tv_sec - began.tv_sec) * 1e3 +
                     (double)(ended.tv_nsec - began.tv_nsec) / 1e6;
    *value_out = used_ms * 1073741824.0 / (double)streams->rows[0].moved;
    return true;
}

static void run_cpu(struct bench *bench)
{
    struct work work = {.bench = bench};
    bool is_open = open_ours(&work, "shm", 32) && open_copy(&work);
    work.ours.rows[0].step = step_sessions;
    measure(&work, is_open, cpu_measure);
}

/* ---- the first layer ------------------------------------------------------- */

struct first {
    struct reader *reader;
    size_t at; /* object */
    size_t
        layer; /* which is read first; each in turn, so that none is cached */
};

static uint64_t load_layer(void *ctx)
{
    struct first *first = ctx;
    struct reader *reader = first->reader;
    size_t len = RIG_MIB / LAYERS;
    for (size_t i = first->at; i < first->at + LAYER_ROWS; i++) {
        reader->fragments[i] = (struct mc_fragment){
            .data = (uint8_t *)reader->spans[i].data + first->layer * len,
            .offset = first->layer * len,
            .len = len};
    }
    bool is_good = open_sessions(reader, first->at, LAYER_ROWS) &&
                   read_sessions(reader, first->at);
    for (size_t i = first->at; i < first->at + LAYER_ROWS && is_good; i++) {
        is_good = reader->results[i] == (int64_t)len;
    }
    close_sessions(reader, first->at, LAYER_ROWS);
    first->at = (first->at + LAYER_ROWS) % WALK_ROWS;
    first->layer = (first->layer + (first->at == 0)) % LAYERS;
    return is_good;
}

static uint64_t load_all(void *ctx)
{
    struct first *first = ctx;
    struct reader *reader = first->reader;
    size_t at = first->at;
    bool is_good =
        mc_client_batch_get_into(reader->rig->client, reader->keys + at,
                                 reader->spans + at, LAYER_ROWS,
                                 reader->results + at) == MC_OK &&
        have_come(reader, at);
    first->at = (at + LAYER_ROWS) % WALK_ROWS;
    return is_good;
}

static bool time_us(bench_step_fn step, void *ctx, double seconds,
                    double *value_out)
{
    double ns = 0;
    bool is_good = bench_time(step, ctx, seconds, &ns);
    *value_out = ns / 1e3;
    return is_good;
}

static bool time_layer(void *ctx, double seconds, double *value_out)
{
    return time_us(load_layer, ctx, seconds, value_out);
}

static bool time_all(void *ctx, double seconds, double *value_out)
{
    return time_us(load_all, ctx, seconds, value_out);
}

static void run_first(struct bench *bench)
{
    struct work work = {.bench = bench};
    if (open_ours(&work, "shm", LAYER_ROWS)) {
        struct first first = {.reader = work.reader};
        (void)bench_rounds(bench, time_layer, time_all, &first);
    } else {
        bench_fail(bench, "cannot be set up");
    }
    close_work(&work);
}

#define AGAINST(name, what_rows, function)                             \
    {                                                                  \
        .id = name, .what = what_rows, .unit = "MB/s", .ours = "mckv", \
        .peer = "raw", .better = BENCH_HIGHER, .gate = BENCH_NONE,     \
        .goal = BENCH_NONE, .run = function                            \
    }

int main(int argc, char **argv)
{
    static const struct bench_target targets[] = {
        {.id = "T27",
         .what = "64 KiB pieces through open sessions, shared memory / memcpy",
         .unit = "MB/s",
         .ours = "mckv",
         .peer = "memcpy",
         .better = BENCH_HIGHER,
         .gate = 0.7,
         .goal = 0.9,
         .run = run_pieces},
        AGAINST("T27s", "32 x 1 MiB by session, shared memory / memcpy",
                run_s32),
        AGAINST("T27b", "32 x 1 MiB by batch, shared memory / memcpy", run_b32),
        AGAINST("T27a", "32 x 1 MiB without waiting, shared memory / memcpy",
                run_a32),
        AGAINST("T27S", "256 x 1 MiB by session, shared memory / memcpy",
                run_s256),
        AGAINST("T27B", "256 x 1 MiB by batch, shared memory / memcpy",
                run_b256),
        AGAINST("T27A", "256 x 1 MiB without waiting, shared memory / memcpy",
                run_a256),
        AGAINST("T27st", "32 x 1 MiB by session, tcp / bare sockets", run_s32t),
        AGAINST("T27at", "32 x 1 MiB without waiting, tcp / bare sockets",
                run_a32t),
        {.id = "T27c",
         .what = "CPU of 32 x 1 MiB by session / of memcpy",
         .unit = "ms/GiB",
         .ours = "mckv",
         .peer = "memcpy",
         .better = BENCH_LOWER,
         .gate = BENCH_NONE,
         .goal = BENCH_NONE,
         .run = run_cpu},
        {.id = "T27f",
         .what = "first of 8 layers of 32 x 1 MiB / all of them by batch",
         .unit = "us",
         .ours = "layer",
         .peer = "all",
         .better = BENCH_LOWER,
         .gate = BENCH_NONE,
         .goal = BENCH_NONE,
         .run = run_first},
    };
    int code = 0;
    if (rig_serve(argc, argv, &code)) {
        return code;
    }
    return bench_main(argc, argv, targets, BENCH_COUNT(targets));
}
