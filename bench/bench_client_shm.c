/* SPDX-License-Identifier: Apache-2.0 */
/* T6, T6b: getting 1 MiB from a node on the same host, metadata included: in
 * batches of 32 beside memcpy of buffers that are as cold, and one at a time
 * beside a GET of Redis on one connection.
 *
 * Both sides walk through 256 objects, eight times the last cache, into a ring
 * of buffers of that size. Redis says how long a value is, so that its bytes are
 * received at their place. */
#include <sys/uio.h>

#include "node_rig.h"

#define WALK_ROWS 256
#define BATCH RIG_BATCH_MAX
#define WALK_BYTES (WALK_ROWS * RIG_MIB)

/* ---- memcpy ----------------------------------------------------------------- */

static bool copy_rows(struct stream *stream)
{
    const uint8_t *source = stream->ctx;
    for (size_t i = 0; i < BATCH; i++) {
        size_t at = stream->at + i * RIG_MIB;
        memcpy(stream->memory + at, source + at, RIG_MIB);
        bench_keep(stream->memory + at);
    }
    return true;
}

/* ---- Redis -------------------------------------------------------------------- */

#define HEAD "$1048576\r\n"
#define HEAD_LEN (sizeof HEAD - 1)

struct redis {
    pid_t pid;
    int fd;
    struct rig *rig; /* has the keys */
};

static bool is_said(int fd, const char *wanted)
{
    char said[16] = "";
    size_t len = strlen(wanted);
    return bare_recv(fd, said, len) && memcmp(said, wanted, len) == 0;
}

static bool set_values(struct redis *redis, uint8_t *value)
{
    for (size_t i = 0; i < WALK_ROWS; i++) {
        char head[160];
        uint64_t word = i * RIG_MIB;
        int len =
            snprintf(head, sizeof head, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n" HEAD,
                     RIG_KEY_LEN, redis->rig->keys[i]);
        memcpy(value, &word, sizeof word);
        if (!bare_send(redis->fd, head, (size_t)len) ||
            !bare_send(redis->fd, value, RIG_MIB) ||
            !bare_send(redis->fd, "\r\n", 2) ||
            !is_said(redis->fd, "+OK\r\n")) {
            return false;
        }
    }
    return true;
}

/* With as few calls as there can be. */
static bool recv_value(int fd, uint8_t *value)
{
    char head[HEAD_LEN];
    char end[2];
    struct iovec parts[3] = {
        {head, sizeof head}, {value, RIG_MIB}, {end, sizeof end}};
    size_t first = 0;
    while (first < 3) {
        ssize_t got = readv(fd, parts + first, (int)(3 - first));
        if (got <= 0) {
            return false;
        }
        size_t left = (size_t)got;
        while (first < 3 && left >= parts[first].iov_len) {
            left -= parts[first++].iov_len;
        }
        if (first < 3) {
            parts[first].iov_base = (uint8_t *)parts[first].iov_base + left;
            parts[first].iov_len -= left;
        }
    }
    return memcmp(head, HEAD, sizeof head) == 0 && end[0] == '\r';
}

static bool get_value(struct stream *stream)
{
    struct redis *redis = stream->ctx;
    char ask[128];
    uint64_t word = 0;
    int len = snprintf(ask, sizeof ask, "*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n",
                       RIG_KEY_LEN, redis->rig->keys[stream->at / RIG_MIB]);
    bool is_good = bare_send(redis->fd, ask, (size_t)len) &&
                   recv_value(redis->fd, stream->memory + stream->at);
    memcpy(&word, stream->memory + stream->at, sizeof word);
    return is_good && word == stream->at;
}

static bool open_redis(struct redis *redis, uint8_t *value)
{
    uint16_t port = 0;
    redis->pid = server_start_redis(&port);
    redis->fd = redis->pid > 0 ? server_connect(port) : -1;
    return redis->fd >= 0 && set_values(redis, value);
}

static void close_redis(struct redis *redis)
{
    if (redis->fd >= 0) {
        (void)close(redis->fd);
    }
    server_end(redis->pid);
}

/* ---- targets ------------------------------------------------------------------ */

struct work {
    struct bench *bench;
    struct rig rig;
    struct rig_caller caller;
    struct streams ours;
    struct streams theirs;
    uint8_t *source; /* of memcpy */
    struct redis redis;
};

static bool open_work(struct work *work, size_t rows)
{
    const struct rig_opts opts = {
        .transport = "shm", .row_bytes = RIG_MIB, .row_count = WALK_ROWS};
    work->redis.fd = -1;
    work->caller = (struct rig_caller){.rig = &work->rig, .rows = rows};
    work->ours = (struct streams){.bench = work->bench, .count = 1};
    work->theirs = work->ours;
    if (!rig_open(&work->rig, &opts) ||
        !rig_stream_open(&work->caller, &work->ours.rows[0])) {
        return false;
    }
    work->theirs.rows[0] = (struct stream){.memory = stream_map(WALK_BYTES),
                                           .bytes = WALK_BYTES,
                                           .step_bytes = rows * RIG_MIB};
    return work->theirs.rows[0].memory;
}

static void close_work(struct work *work)
{
    close_redis(&work->redis);
    stream_unmap(work->source, WALK_BYTES);
    stream_unmap(work->theirs.rows[0].memory, WALK_BYTES);
    rig_stream_close(&work->caller, &work->ours.rows[0]);
    rig_close(&work->rig);
}

static void measure(struct work *work, bool is_open)
{
    const struct bench_sides sides = {streams_measure, &work->ours,
                                      streams_measure, &work->theirs};
    if (is_open) {
        (void)bench_rounds_of(work->bench, &sides);
    } else {
        bench_fail(work->bench, "cannot be set up");
    }
    close_work(work);
}

static void run_t6(struct bench *bench)
{
    struct work work = {.bench = bench};
    bool is_open = open_work(&work, BATCH);
    work.source = stream_map(WALK_BYTES);
    work.theirs.rows[0].step = copy_rows;
    work.theirs.rows[0].ctx = work.source;
    measure(&work, is_open && work.source);
}

static void run_t6b(struct bench *bench)
{
    struct work work = {.bench = bench};
    bool is_open = open_work(&work, 1);
    work.redis.rig = &work.rig;
    work.theirs.rows[0].step = get_value;
    work.theirs.rows[0].ctx = &work.redis;
    measure(&work,
            is_open && open_redis(&work.redis, work.theirs.rows[0].memory));
}

int main(int argc, char **argv)
{
    static const struct bench_target targets[] = {
        {.id = "T6",
         .what = "get 1 MiB over shared memory, batch of 32 / memcpy, cold",
         .unit = "MB/s",
         .ours = "mckv",
         .peer = "memcpy",
         .better = BENCH_HIGHER,
         .gate = 0.65,
         .goal = 0.77,
         .run = run_t6},
        {.id = "T6b",
         .what = "get 1 MiB over shared memory, one at a time / redis GET",
         .unit = "MB/s",
         .ours = "mckv",
         .peer = "redis",
         .better = BENCH_HIGHER,
         .gate = 2.0,
         .goal = 3.0,
         .run = run_t6b},
    };
    int code = 0;
    if (rig_serve(argc, argv, &code)) {
        return code;
    }
    return bench_main(argc, argv, targets, BENCH_COUNT(targets));
}
