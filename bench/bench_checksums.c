/* SPDX-License-Identifier: Apache-2.0 */
/* C1, C1t, C2: what it costs that blocks are compared: objects with checksums
 * beside the same without, in two stores alike. */
#include "node_rig.h"

#define WALK_ROWS 128 /* of 1 MiB */

struct side {
    struct rig rig;
    struct rig_caller caller;
    struct streams streams;
};

static bool open_side(struct side *side, struct bench *bench,
                      const struct rig_opts *opts)
{
    side->streams = (struct streams){.bench = bench, .count = 1};
    if (!rig_open(&side->rig, opts)) {
        return false;
    }
    side->caller =
        (struct rig_caller){.rig = &side->rig, .rows = RIG_BATCH_MAX};
    return rig_stream_open(&side->caller, &side->streams.rows[0]);
}

static void close_side(struct side *side)
{
    side->caller.rig = &side->rig;
    rig_stream_close(&side->caller, &side->streams.rows[0]);
    rig_close(&side->rig);
}

static void run(struct bench *bench, const char *transport, bool is_put)
{
    struct rig_opts opts = {.transport = transport,
                            .row_bytes = RIG_MIB,
                            .row_count = WALK_ROWS,
                            .is_put = is_put,
                            .checksum = true};
    static struct side with;
    static struct side without;
    const struct bench_sides sides = {streams_measure, &with.streams,
                                      streams_measure, &without.streams};
    bool is_good = open_side(&with, bench, &opts);
    opts.checksum = false;
    is_good = open_side(&without, bench, &opts) && is_good;
    if (is_good) {
        (void)bench_rounds_of(bench, &sides);
    } else {
        bench_fail(bench, "master and node cannot be set up");
    }
    close_side(&with);
    close_side(&without);
}

static void run_c1(struct bench *bench)
{
    run(bench, "shm", false);
}

static void run_c1t(struct bench *bench)
{
    run(bench, "tcp", false);
}

static void run_c2(struct bench *bench)
{
    run(bench, "shm", true);
}

#define AGAINST_NONE                                        \
    .unit = "MB/s", .ours = "checksums", .peer = "without", \
    .better = BENCH_HIGHER, .gate = BENCH_NONE, .goal = BENCH_NONE

int main(int argc, char **argv)
{
    static const struct bench_target targets[] = {
        {.id = "C1",
         .what = "get 1 MiB over shared memory, with checksums / without",
         AGAINST_NONE,
         .run = run_c1},
        {.id = "C1t",
         .what = "get 1 MiB over tcp, with checksums / without",
         AGAINST_NONE,
         .run = run_c1t},
        {.id = "C2",
         .what = "put 1 MiB over shared memory, with checksums / without",
         AGAINST_NONE,
         .run = run_c2},
    };
    int code = 0;
    if (rig_serve(argc, argv, &code)) {
        return code;
    }
    return bench_main(argc, argv, targets, BENCH_COUNT(targets));
}
