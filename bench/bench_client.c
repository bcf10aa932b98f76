/* SPDX-License-Identifier: Apache-2.0 */
/* T1 to T5, T7: what a client gets and puts over tcp, metadata included, beside a
 * loop on bare sockets that moves the same bytes.
 *
 * Master, node and the bare loop's other end are processes of their own. Both
 * sides walk through as much memory of the same kind, touched before, on both
 * ends; the bare loop knows where its bytes are and asks nobody. */
#include "node_rig.h"

#define WALK_ROWS 128 /* of 1 MiB */
#define SMALL_ROWS 8192
#define SMALL_BYTES 4096
#define BATCH RIG_BATCH_MAX

/* ---- the bare side --------------------------------------------------------- */

struct bare_side {
    struct streams streams;
    struct bare_end ends[STREAMS_MAX];
    pid_t server;
    size_t bytes;
};

static bool open_bare(struct bare_side *side, const struct rig_opts *opts,
                      size_t rows)
{
    uint16_t port = 0;
    char bytes[32];
    side->bytes = opts->row_bytes * opts->row_count;
    (void)snprintf(bytes, sizeof bytes, "%zu", side->bytes);
    side->server = server_start_own("--bare", bytes, NULL, &port);
    bool is_good = side->server > 0;
    for (size_t i = 0; i < side->streams.count; i++) {
        struct bare_end *end = &side->ends[i];
        end->ask = (struct bare_ask){.is_write = opts->is_put,
                                     .rows = rows,
                                     .row_bytes = opts->row_bytes};
        end->fd = is_good ? server_connect(port) : -1;
        side->streams.rows[i] =
            (struct stream){.step = bare_step,
                            .ctx = end,
                            .memory = stream_map(side->bytes),
                            .bytes = side->bytes,
                            .step_bytes = rows * opts->row_bytes};
        is_good = is_good && end->fd >= 0 && side->streams.rows[i].memory;
    }
    return is_good;
}

static void close_bare(struct bare_side *side)
{
    for (size_t i = 0; i < side->streams.count; i++) {
        (void)close(side->ends[i].fd);
        stream_unmap(side->streams.rows[i].memory, side->bytes);
    }
    server_end(side->server);
}

/* ---- our side --------------------------------------------------------------- */

struct our_side {
    struct streams streams;
    struct rig_caller callers[STREAMS_MAX];
};

static bool open_ours(struct our_side *side, struct rig *rig, size_t rows)
{
    bool is_good = true;
    for (size_t i = 0; i < side->streams.count; i++) {
        side->callers[i] = (struct rig_caller){.rig = rig, .rows = rows};
        is_good = rig_stream_open(&side->callers[i], &side->streams.rows[i]) &&
                  is_good;
    }
    return is_good;
}

static void close_ours(struct our_side *side)
{
    for (size_t i = 0; i < side->streams.count; i++) {
        rig_stream_close(&side->callers[i], &side->streams.rows[i]);
    }
}

/* ---- targets ------------------------------------------------------------------ */

static void run(struct bench *bench, bool is_put, size_t rows, size_t count)
{
    const struct rig_opts opts = {.transport = "tcp",
                                  .row_bytes = RIG_MIB,
                                  .row_count = WALK_ROWS,
                                  .is_put = is_put};
    struct our_side ours = {.streams = {.bench = bench}};
    struct bare_side bare = {.streams = {.bench = bench, .count = count}};
    const struct bench_sides sides = {streams_measure, &ours.streams,
                                      streams_measure, &bare.streams};
    struct rig rig;
    if (!rig_open(&rig, &opts)) {
        bench_fail(bench, "master and node cannot be set up");
    } else {
        ours.streams.count = count;
        if (!open_ours(&ours, &rig, rows) || !open_bare(&bare, &opts, rows)) {
            bench_fail(bench, "the sides cannot be set up");
        } else {
            (void)bench_rounds_of(bench, &sides);
        }
        close_bare(&bare);
        close_ours(&ours);
    }
    rig_close(&rig);
}

static void run_t1(struct bench *bench)
{
    run(bench, false, BATCH, 1);
}

static void run_t2(struct bench *bench)
{
    run(bench, true, BATCH, 1);
}

static void run_t3(struct bench *bench)
{
    run(bench, false, 1, 1);
}

static void run_t4(struct bench *bench)
{
    run(bench, true, 1, 1);
}

static void run_t5(struct bench *bench)
{
    run(bench, false, BATCH, 2);
}

/* Both sides are ours. */
static void run_small(struct bench *bench, const char *transport)
{
    const struct rig_opts opts = {.transport = transport,
                                  .row_bytes = SMALL_BYTES,
                                  .row_count = SMALL_ROWS};
    struct our_side batches = {.streams = {.bench = bench}};
    struct our_side singles = {.streams = {.bench = bench}};
    const struct bench_sides sides = {streams_measure, &batches.streams,
                                      streams_measure, &singles.streams};
    struct rig rig;
    if (!rig_open(&rig, &opts)) {
        bench_fail(bench, "master and node cannot be set up");
    } else {
        batches.streams.count = 1;
        singles.streams.count = 1;
        bool is_open = open_ours(&batches, &rig, BATCH);
        if (open_ours(&singles, &rig, 1) && is_open) {
            (void)bench_rounds_of(bench, &sides);
        } else {
            bench_fail(bench, "the sides cannot be set up");
        }
        close_ours(&singles);
        close_ours(&batches);
    }
    rig_close(&rig);
}

static void run_t7(struct bench *bench)
{
    run_small(bench, "tcp");
}

static void run_t7s(struct bench *bench)
{
    run_small(bench, "shm");
}

#define AGAINST_SOCKETS \
    .unit = "MB/s", .ours = "mckv", .peer = "sockets", .better = BENCH_HIGHER
#define AGAINST_SINGLES                                   \
    .unit = "MB/s", .ours = "batches", .peer = "singles", \
    .better = BENCH_HIGHER, .gate = 5, .goal = 15

int main(int argc, char **argv)
{
    static const struct bench_target targets[] = {
        {.id = "T1",
         .what = "get 1 MiB over tcp, batch of 32 / bare sockets",
         AGAINST_SOCKETS,
         .gate = 0.85,
         .goal = 0.97,
         .run = run_t1},
        {.id = "T2",
         .what = "put 1 MiB over tcp, batch of 32 / bare sockets",
         AGAINST_SOCKETS,
         .gate = 0.85,
         .goal = 0.97,
         .run = run_t2},
        {.id = "T3",
         .what = "get 1 MiB over tcp, one at a time / bare sockets",
         AGAINST_SOCKETS,
         .gate = 0.75,
         .goal = 0.83,
         .run = run_t3},
        {.id = "T4",
         .what = "put 1 MiB over tcp, one at a time / bare sockets",
         AGAINST_SOCKETS,
         .gate = 0.62,
         .goal = 0.70,
         .run = run_t4},
        {.id = "T5",
         .what = "two streams, get 1 MiB over tcp / bare sockets",
         AGAINST_SOCKETS,
         .gate = 0.85,
         .goal = 0.95,
         .run = run_t5},
        {.id = "T7",
         .what = "get 4 KiB over tcp in batches of 32 / single gets",
         AGAINST_SINGLES,
         .run = run_t7},
        {.id = "T7s",
         .what = "get 4 KiB over shared memory in batches of 32 / single gets",
         AGAINST_SINGLES,
         .run = run_t7s},
    };
    int code = 0;
    if (rig_serve(argc, argv, &code)) {
        return code;
    }
    return bench_main(argc, argv, targets, BENCH_COUNT(targets));
}
