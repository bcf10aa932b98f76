/* SPDX-License-Identifier: Apache-2.0 */
/* T1t, T2t, T5t: rows over tcp against a loop on bare sockets (bare_loop.h) that
 * moves the same bytes in the same order. What the client makes of it is T1, T2
 * and T5; these tell which share is the transfer's. Both sides walk through
 * memory of the same size, touched before, and both have the other end on
 * threads of this process. */
#include <pthread.h>
#include <stdatomic.h>

#include "bare_loop.h"
#include "mc_transfer.h"
#include "mci_clock.h"

#define ROW ((size_t)1 << 20)
#define BATCH 32
#define WINDOW (128 * ROW) /* of memory, on both ends */
#define PATIENCE_NS (20 * MCI_NS_PER_S)

struct bare { /* one of its streams */
    struct bare_end end;
    struct bare_conn server;
    pthread_t thread;
    bool is_served;
};

struct side {
    struct streams streams; /* first: what is measured */
    bool is_write;
    struct bare bare[STREAMS_MAX];
    /* of rows */
    uint8_t *memory;
    struct mc_transfer *owner;
    struct mc_transfer *peer;
    struct mc_exposure exposure;
    struct mc_target *target;
    _Atomic uint64_t attempts;
};

/* ---- rows --------------------------------------------------------------- */

static bool move_rows(struct stream *stream)
{
    struct side *side = stream->ctx;
    struct mc_transfer_row rows[BATCH];
    struct mc_span spans[BATCH];
    uint64_t now_ns = mci_clock_ns();
    size_t at = stream->at;
    for (size_t i = 0; i < BATCH; i++) {
        struct mc_transfer_row *row = &rows[i];
        spans[i] = (struct mc_span){stream->memory + at + i * ROW, ROW};
        *row = (struct mc_transfer_row){
            .target = side->target,
            .spans = &spans[i],
            .span_count = 1,
            .offset = at + i * ROW,
            .terms = {.registration = side->exposure.registration,
                      .incarnation = 1,
                      .subject = atomic_fetch_add(&side->attempts, 1) + 1,
                      .offset = at + i * ROW,
                      .len = ROW,
                      .is_write = side->is_write},
            .grant = {.deadline_ns = now_ns + PATIENCE_NS},
            .is_final = side->is_write};
        row->grant.tag = mc_grant_tag(side->exposure.key, &row->terms,
                                      row->grant.deadline_ns);
    }
    return mc_transfer_run(side->peer, rows, BATCH, now_ns + PATIENCE_NS) ==
           MC_OK;
}

static bool open_rows(struct side *side)
{
    const struct mc_transfer_opts opts = {.bind_address = "127.0.0.1",
                                          .only = MC_TRANSPORT_TCP,
                                          .any_memory = true};
    side->memory = stream_map(WINDOW);
    if (!side->memory || mc_transfer_open(&opts, &side->owner) ||
        mc_transfer_open(&opts, &side->peer)) {
        return false;
    }
    const struct mc_exposure_opts exposure = {
        .base = side->memory, .bytes = WINDOW, .fd = -1};
    if (mc_transfer_expose(side->owner, &exposure, &side->exposure)) {
        return false;
    }
    const struct mc_target_opts target = {.registration =
                                              side->exposure.registration,
                                          .bytes = WINDOW,
                                          .endpoint = side->exposure.endpoint};
    return mc_target_open(side->peer, &target, &side->target) == MC_OK;
}

static void close_rows(struct side *side)
{
    mc_target_close(side->target);
    mc_transfer_close(side->peer);
    mc_transfer_close(side->owner);
    stream_unmap(side->memory, WINDOW);
}

/* ---- bare sockets ---------------------------------------------------------- */

static void *serve_bare(void *arg)
{
    struct bare_conn *conn = arg;
    bare_serve(conn->fd, conn->memory);
    return NULL;
}

static bool open_bare(struct bare *bare, bool is_write)
{
    uint16_t port = 0;
    int listener = server_bind(&port);
    bare->end.ask = (struct bare_ask){
        .is_write = is_write, .rows = BATCH, .row_bytes = ROW};
    bare->server.memory = stream_map(WINDOW);
    if (listener < 0 || listen(listener, 1) != 0) {
        return false;
    }
    bare->end.fd = server_connect(port);
    bare->server.fd = bare->end.fd < 0 ? -1 : accept(listener, NULL, NULL);
    (void)close(listener);
    if (bare->server.fd < 0 || !bare->server.memory) {
        return false;
    }
    server_send_at_once(bare->server.fd);
    bare->is_served =
        pthread_create(&bare->thread, NULL, serve_bare, &bare->server) == 0;
    return bare->is_served;
}

static void close_bare(struct bare *bare)
{
    (void)shutdown(bare->end.fd, SHUT_RDWR);
    if (bare->is_served) {
        (void)pthread_join(bare->thread, NULL);
    }
    (void)close(bare->end.fd);
    (void)close(bare->server.fd);
    stream_unmap(bare->server.memory, WINDOW);
}

/* ---- measuring ---------------------------------------------------------------- */

static bool open_side(struct side *side, bool is_bare)
{
    bool is_good = is_bare || open_rows(side);
    for (size_t i = 0; i < side->streams.count; i++) {
        struct stream *stream = &side->streams.rows[i];
        side->bare[i].end.fd = -1;
        side->bare[i].server.fd = -1;
        *stream = (struct stream){.step = is_bare ? bare_step : move_rows,
                                  .ctx = is_bare ? (void *)&side->bare[i].end
                                                 : (void *)side,
                                  .memory = stream_map(WINDOW),
                                  .bytes = WINDOW,
                                  .step_bytes = BATCH * ROW};
        is_good = is_good && stream->memory &&
                  (!is_bare || open_bare(&side->bare[i], side->is_write));
    }
    return is_good;
}

static void close_side(struct side *side, bool is_bare)
{
    for (size_t i = 0; i < side->streams.count; i++) {
        if (is_bare) {
            close_bare(&side->bare[i]);
        }
        stream_unmap(side->streams.rows[i].memory, WINDOW);
    }
    if (!is_bare) {
        close_rows(side);
    }
}

static void run(struct bench *bench, bool is_write, size_t stream_count)
{
    struct side ours = {.streams = {.bench = bench, .count = stream_count},
                        .is_write = is_write};
    struct side bare = {.streams = {.bench = bench, .count = stream_count},
                        .is_write = is_write};
    const struct bench_sides sides = {streams_measure, &ours.streams,
                                      streams_measure, &bare.streams};
    bool is_open = open_side(&ours, false);
    if (open_side(&bare, true) && is_open) {
        (void)bench_rounds_of(bench, &sides);
    } else {
        bench_fail(bench, "cannot be set up");
    }
    close_side(&bare, true);
    close_side(&ours, false);
}

static void run_t1(struct bench *bench)
{
    run(bench, false, 1);
}

static void run_t2(struct bench *bench)
{
    run(bench, true, 1);
}

static void run_t5(struct bench *bench)
{
    run(bench, false, 2);
}

static const struct bench_target targets[] = {
    {.id = "T1t",
     .what = "rows of 1 MiB read over tcp, batch of 32 / bare sockets",
     .unit = "MB/s",
     .ours = "mckv",
     .peer = "sockets",
     .better = BENCH_HIGHER,
     .gate = BENCH_NONE,
     .goal = BENCH_NONE,
     .run = run_t1},
    {.id = "T2t",
     .what = "rows of 1 MiB written over tcp, batch of 32 / bare sockets",
     .unit = "MB/s",
     .ours = "mckv",
     .peer = "sockets",
     .better = BENCH_HIGHER,
     .gate = BENCH_NONE,
     .goal = BENCH_NONE,
     .run = run_t2},
    {.id = "T5t",
     .what = "two streams, rows of 1 MiB read / bare sockets",
     .unit = "MB/s",
     .ours = "mckv",
     .peer = "sockets",
     .better = BENCH_HIGHER,
     .gate = BENCH_NONE,
     .goal = BENCH_NONE,
     .run = run_t5},
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, targets, BENCH_COUNT(targets));
}
