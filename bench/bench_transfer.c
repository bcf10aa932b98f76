/* SPDX-License-Identifier: Apache-2.0 */
/* T1, T2, T5: rows over tcp against a loop on bare blocking sockets that moves
 * the same bytes in the same order: one request for a batch, then its bytes, and
 * for writes one word back. Both sides walk through memory of the same size,
 * touched before, and both have the other end on threads of this process. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"
#include "mc_transfer.h"
#include "mci_clock.h"

#define ROW ((size_t)1 << 20)
#define BATCH 32
#define WINDOW (128 * ROW) /* of memory, on both ends */
#define STREAMS_MAX 2
#define PATIENCE_NS (20 * MCI_NS_PER_S)

struct stream { /* one caller */
    struct side *side;
    uint8_t *local;
    uint8_t *remote; /* of a bare socket */
    size_t at;
    int fd;        /* ours; -1 */
    int server_fd; /* the other end */
    pthread_t server;
    pthread_t thread;
    uint64_t bytes; /* moved in a measurement */
    bool is_good;
};

struct side {
    struct bench *bench;
    bool is_write;
    size_t stream_count;
    double seconds;
    struct stream streams[STREAMS_MAX];
    bool (*move)(struct stream *stream);
    /* of rows */
    uint8_t *memory;
    struct mc_transfer *owner;
    struct mc_transfer *peer;
    struct mc_exposure exposure;
    struct mc_target *target;
    _Atomic uint64_t attempts;
};

static uint8_t *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

static size_t next_place(struct stream *stream)
{
    size_t at = stream->at;
    stream->at = (at + BATCH * ROW) % WINDOW;
    return at;
}

/* ---- rows --------------------------------------------------------------- */

static bool move_rows(struct stream *stream)
{
    struct side *side = stream->side;
    struct mc_transfer_row rows[BATCH];
    struct mc_span spans[BATCH];
    uint64_t now_ns = mci_clock_ns();
    size_t at = next_place(stream);
    for (size_t i = 0; i < BATCH; i++) {
        struct mc_transfer_row *row = &rows[i];
        spans[i] = (struct mc_span){stream->local + at + i * ROW, ROW};
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
    side->memory = map(WINDOW);
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
    if (side->memory) {
        (void)munmap(side->memory, WINDOW);
    }
}

/* ---- bare sockets ---------------------------------------------------------- */

static bool send_whole(int fd, const void *data, size_t len)
{
    const uint8_t *at = data;
    while (len > 0) {
        ssize_t sent = send(fd, at, len, MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
        at += sent;
        len -= (size_t)sent;
    }
    return true;
}

static bool recv_whole(int fd, void *data, size_t len)
{
    uint8_t *at = data;
    while (len > 0) {
        ssize_t got = recv(fd, at, len, 0);
        if (got <= 0) {
            return false;
        }
        at += got;
        len -= (size_t)got;
    }
    return true;
}

static void *serve_bare(void *arg)
{
    struct stream *stream = arg;
    int fd = stream->server_fd;
    uint64_t request[2];
    bool is_good = true;
    while (is_good && recv_whole(fd, request, sizeof request)) {
        for (size_t i = 0; i < BATCH && is_good; i++) {
            uint8_t *row = stream->remote + request[1] + i * ROW;
            is_good = request[0] ? recv_whole(fd, row, ROW)
                                 : send_whole(fd, row, ROW);
        }
        if (is_good && request[0]) {
            is_good = send_whole(fd, request, 8);
        }
    }
    return NULL;
}

static bool move_bare(struct stream *stream)
{
    size_t at = next_place(stream);
    uint64_t request[2] = {stream->side->is_write, at};
    bool is_good = send_whole(stream->fd, request, sizeof request);
    for (size_t i = 0; i < BATCH && is_good; i++) {
        uint8_t *row = stream->local + at + i * ROW;
        is_good = request[0] ? send_whole(stream->fd, row, ROW)
                             : recv_whole(stream->fd, row, ROW);
    }
    return is_good && (!request[0] || recv_whole(stream->fd, request, 8));
}

static void send_at_once(int fd)
{
    const int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static bool open_bare(struct stream *stream)
{
    struct sockaddr_in name = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof name;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    stream->remote = map(WINDOW);
    stream->fd = socket(AF_INET, SOCK_STREAM, 0);
    bool is_good = stream->remote && stream->fd >= 0 &&
                   bind(listener, (struct sockaddr *)&name, len) == 0 &&
                   listen(listener, 1) == 0 &&
                   getsockname(listener, (struct sockaddr *)&name, &len) == 0 &&
                   connect(stream->fd, (struct sockaddr *)&name, len) == 0;
    if (is_good) {
        stream->server_fd = accept(listener, NULL, NULL);
        send_at_once(stream->fd);
        send_at_once(stream->server_fd);
    }
    (void)close(listener);
    return is_good &&
           pthread_create(&stream->server, NULL, serve_bare, stream) == 0;
}

static void close_bare(struct stream *stream)
{
    if (stream->fd >= 0) {
        (void)close(stream->fd);
        (void)pthread_join(stream->server, NULL);
        (void)close(stream->server_fd);
    }
    if (stream->remote) {
        (void)munmap(stream->remote, WINDOW);
    }
}

/* ---- measuring ---------------------------------------------------------------- */

static void *run_stream(void *arg)
{
    struct stream *stream = arg;
    double until = bench_now() + stream->side->seconds;
    stream->bytes = 0;
    stream->is_good = true;
    while (stream->is_good && bench_now() < until) {
        stream->is_good = stream->side->move(stream);
        stream->bytes += BATCH * ROW;
    }
    return NULL;
}

static bool measure(void *ctx, double seconds, double *value_out)
{
    struct side *side = ctx;
    uint64_t bytes = 0;
    bool is_good = true;
    double began = bench_now();
    side->seconds = seconds;
    for (size_t i = 1; i < side->stream_count; i++) {
        struct stream *stream = &side->streams[i];
        is_good =
            pthread_create(&stream->thread, NULL, run_stream, stream) == 0 &&
            is_good;
    }
    (void)run_stream(&side->streams[0]);
    for (size_t i = 0; i < side->stream_count; i++) {
        if (i > 0) {
            (void)pthread_join(side->streams[i].thread, NULL);
        }
        is_good = is_good && side->streams[i].is_good;
        bytes += side->streams[i].bytes;
    }
    if (!is_good) {
        bench_fail(side->bench, "a transfer failed");
        return false;
    }
    *value_out = (double)bytes / 1e6 / (bench_now() - began);
    return true;
}

static bool open_side(struct side *side, bool is_bare)
{
    side->move = is_bare ? move_bare : move_rows;
    bool is_good = is_bare || open_rows(side);
    for (size_t i = 0; i < side->stream_count; i++) {
        struct stream *stream = &side->streams[i];
        stream->side = side;
        stream->fd = -1;
        stream->local = map(WINDOW);
        is_good = is_good && stream->local && (!is_bare || open_bare(stream));
    }
    return is_good;
}

static void close_side(struct side *side, bool is_bare)
{
    for (size_t i = 0; i < side->stream_count; i++) {
        if (is_bare) {
            close_bare(&side->streams[i]);
        }
        if (side->streams[i].local) {
            (void)munmap(side->streams[i].local, WINDOW);
        }
    }
    if (!is_bare) {
        close_rows(side);
    }
}

static void run(struct bench *bench, bool is_write, size_t stream_count)
{
    struct side ours = {
        .bench = bench, .is_write = is_write, .stream_count = stream_count};
    struct side bare = {
        .bench = bench, .is_write = is_write, .stream_count = stream_count};
    const struct bench_sides sides = {measure, &ours, measure, &bare};
    if (open_side(&ours, false) && open_side(&bare, true)) {
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
    {.id = "T1",
     .what = "get 1 MiB over tcp, batch of 32 / bare sockets",
     .unit = "MB/s",
     .ours = "mckv",
     .peer = "sockets",
     .better = BENCH_HIGHER,
     .gate = 0.85,
     .goal = 0.97,
     .run = run_t1},
    {.id = "T2",
     .what = "put 1 MiB over tcp, batch of 32 / bare sockets",
     .unit = "MB/s",
     .ours = "mckv",
     .peer = "sockets",
     .better = BENCH_HIGHER,
     .gate = 0.85,
     .goal = 0.97,
     .run = run_t2},
    {.id = "T5",
     .what = "two streams, get 1 MiB / bare sockets",
     .unit = "MB/s",
     .ours = "mckv",
     .peer = "sockets",
     .better = BENCH_HIGHER,
     .gate = 0.85,
     .goal = 0.95,
     .run = run_t5},
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, targets, BENCH_COUNT(targets));
}
