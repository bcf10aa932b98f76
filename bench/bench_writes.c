/* SPDX-License-Identifier: Apache-2.0 */
/* T16, T16k, T16b: what events cost a writer.
 *
 * Two kinds of embedded store, in turn and anew for each round: one publishes to
 * a follower in a process of its own, the other one does not (T16, T16k), or
 * publishes to a follower that is stopped (T16b). The follower is this program again, a plain
 * SUB socket that reads every event strictly. Both pools are full, so each put
 * evicts, as in a cache that is in use. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

#include "bench.h"
#include "mc_client.h"
#include "mc_event.h"

#define MIB (UINT64_C(1) << 20)
#define KEY_MAX 80
#define KEYS_AHEAD \
    4 /* times the pool: an old key is gone when it comes again */
#define PERCENTILE_PUTS 100000
#define MARK_BYTES (8 * MIB) /* the mark of a slow subscriber */
#define PATIENCE_S 30.0

/* ---- the follower ------------------------------------------------------- */

#define FRAMES 3

static bool receive(void *socket, zmq_msg_t *frames, struct mc_view *views)
{
    for (int i = 0; i < FRAMES; i++) {
        if (zmq_msg_recv(&frames[i], socket, 0) < 0) {
            return false;
        }
        views[i] =
            mc_view_make(zmq_msg_data(&frames[i]), zmq_msg_size(&frames[i]));
    }
    return true;
}

/* Reads until it is killed. */
static int follow(const char *endpoint)
{
    static struct mc_event events[MC_BATCH_EVENTS_MAX];
    void *context = zmq_ctx_new();
    void *socket = zmq_socket(context, ZMQ_SUB);
    zmq_msg_t frames[FRAMES];
    struct mc_view views[FRAMES];
    struct mc_event_batch batch;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* not without the bench */
    for (int i = 0; i < FRAMES; i++) {
        (void)zmq_msg_init(&frames[i]);
    }
    if (zmq_setsockopt(socket, ZMQ_SUBSCRIBE, "", 0) != 0 ||
        zmq_connect(socket, endpoint) != 0) {
        return 1;
    }
    while (receive(socket, frames, views)) {
        if (mc_event_read(views, FRAMES, events, MC_BATCH_EVENTS_MAX, &batch,
                          NULL) != MC_EVENT_OK) {
            return 1;
        }
    }
    return 1;
}

static pid_t start_follower(const char *endpoint)
{
    pid_t pid = fork();
    if (pid == 0) {
        (void)execl("/proc/self/exe", "bench_writes", "--follow", endpoint,
                    (char *)NULL);
        _exit(1);
    }
    return pid;
}

static void end_follower(pid_t pid)
{
    if (pid > 0) {
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
    }
}

/* ---- a store ------------------------------------------------------------- */

struct side {
    struct mc_client *client;
    pid_t follower; /* 0: none */
    uint8_t *value;
    size_t value_len;
    uint64_t number; /* of the next key */
    uint64_t keys;
    double *times; /* of PERCENTILE_PUTS */
};

static void pause_briefly(void)
{
    struct timespec pause = {0, 1000000};
    (void)nanosleep(&pause, NULL);
}

static void stat_events(const struct side *side,
                        struct mc_publisher_stats *events)
{
    struct mc_client_stats stats;
    mc_client_stat(side->client, &stats);
    *events = stats.events;
}

static bool await_follower(struct side *side)
{
    struct mc_publisher_stats events;
    double end = bench_now() + PATIENCE_S;
    do {
        pause_briefly();
        stat_events(side, &events);
    } while (events.subscribers == 0 && bench_now() < end);
    return events.subscribers > 0;
}

static bool put_next(struct side *side)
{
    char text[KEY_MAX];
    int len = snprintf(text, sizeof text, "%064jx__k",
                       (uintmax_t)(side->number++ % side->keys));
    return mc_client_put(side->client, mc_view_make(text, (size_t)len),
                         side->value, side->value_len, NULL) == MC_OK;
}

static bool fill_pool(struct side *side, uint64_t pool_bytes)
{
    for (uint64_t i = 0; i < pool_bytes / side->value_len + 1; i++) {
        if (!put_next(side)) {
            return false;
        }
    }
    return true;
}

static bool open_side(struct side *side, uint64_t pool_bytes, size_t value_len,
                      bool publishes)
{
    struct mc_client_opts opts = {.segment_bytes = pool_bytes,
                                  .store = {.default_kv_lease_ttl_ms = MC_NONE,
                                            .eviction_high_watermark = 1.0},
                                  .events = {.hwm_bytes = MARK_BYTES}};
    if (publishes) {
        opts.events.bind_endpoint = "tcp://127.0.0.1:*";
        opts.events.backend_id = "bench";
    }
    *side = (struct side){.value_len = value_len,
                          .keys = pool_bytes / value_len * KEYS_AHEAD};
    side->value = malloc(value_len);
    side->times = calloc(PERCENTILE_PUTS, sizeof *side->times);
    if (!side->value || !side->times ||
        mc_client_open(&opts, &side->client) != MC_OK) {
        return false;
    }
    memset(side->value, 'v', value_len);
    if (publishes) {
        struct mc_publisher_stats events;
        stat_events(side, &events);
        side->follower = start_follower(events.endpoint);
        if (side->follower < 0 || !await_follower(side)) {
            return false;
        }
    }
    return fill_pool(side, pool_bytes);
}

static void close_side(struct side *side)
{
    end_follower(side->follower);
    mc_client_close(side->client);
    free(side->value);
    free(side->times);
}

/* ---- T16, T16k: throughput ------------------------------------------------ */

static uint64_t put_step(void *ctx)
{
    struct side *side = ctx;
    return put_next(side) ? 1 : 0;
}

/* One side of a round: a store of its own each time, so that neither side keeps
 * the luckier pages for the whole run. */
struct throughput {
    uint64_t pool_bytes;
    size_t value_len;
    bool publishes;
    uint64_t published; /* of all rounds */
    uint64_t dropped;
};

static bool puts_per_second(void *ctx, double seconds, double *value_out)
{
    struct throughput *throughput = ctx;
    struct side side;
    struct mc_publisher_stats events;
    bool is_good = open_side(&side, throughput->pool_bytes,
                             throughput->value_len, throughput->publishes) &&
                   bench_rate(put_step, &side, seconds, value_out);
    if (is_good) {
        stat_events(&side, &events);
        throughput->published += events.published_events;
        throughput->dropped += events.dropped_events;
    }
    close_side(&side);
    return is_good;
}

static void run_throughput(struct bench *bench, uint64_t pool_bytes,
                           size_t value_len)
{
    struct throughput with = {pool_bytes, value_len, true, 0, 0};
    struct throughput without = {pool_bytes, value_len, false, 0, 0};
    const struct bench_sides sides = {puts_per_second, &with, puts_per_second,
                                      &without};
    if (!bench_rounds_of(bench, &sides)) {
        bench_fail(bench, "a store or its follower did not start");
        return;
    }
    bench_note(bench, "%ju events published, %ju dropped by the log",
               (uintmax_t)with.published, (uintmax_t)with.dropped);
}

static void run_t16(struct bench *bench)
{
    run_throughput(bench, 128 * MIB, MIB);
}

static void run_t16k(struct bench *bench)
{
    run_throughput(bench, 64 * MIB, 4096);
}

/* ---- T16b: latency --------------------------------------------------------- */

/* Stops the follower, and puts until what waits for it is at the mark: twice as
 * much was published since. */
static bool fill_mark(struct side *side)
{
    struct mc_publisher_stats events;
    double end = bench_now() + PATIENCE_S;
    (void)kill(side->follower, SIGSTOP);
    stat_events(side, &events);
    uint64_t begin = events.published_bytes;
    do {
        for (int i = 0; i < 1000; i++) {
            if (!put_next(side)) {
                return false;
            }
        }
        stat_events(side, &events);
    } while (events.published_bytes - begin < 2 * MARK_BYTES &&
             bench_now() < end);
    return events.published_bytes - begin >= 2 * MARK_BYTES;
}

static bool time_puts(struct side *side, double *p99_out)
{
    for (size_t i = 0; i < PERCENTILE_PUTS; i++) {
        double begin = bench_now();
        if (!put_next(side)) {
            return false;
        }
        side->times[i] = (bench_now() - begin) * 1e6;
    }
    *p99_out = bench_percentile(side->times, PERCENTILE_PUTS, 0.99);
    return true;
}

/* A store and a follower of its own for each round, as in T16. */
static bool put_p99(void *ctx, double seconds, double *value_out)
{
    const bool *stops = ctx;
    struct side side;
    (void)seconds;
    bool is_good = open_side(&side, 64 * MIB, 4096, true) &&
                   (!*stops || fill_mark(&side)) && time_puts(&side, value_out);
    close_side(&side);
    return is_good;
}

static void run_t16b(struct bench *bench)
{
    bool stopped = true;
    bool running = false;
    const struct bench_sides sides = {put_p99, &stopped, put_p99, &running};
    if (!bench_rounds_of(bench, &sides)) {
        bench_fail(bench, "a store or its follower did not start");
    }
}

int main(int argc, char **argv)
{
    static const struct bench_target targets[] = {
        {.id = "T16",
         .what = "put 1 MiB, events on and a follower / events off",
         .unit = "puts/s",
         .ours = "events on",
         .peer = "events off",
         .better = BENCH_HIGHER,
         .gate = 0.95,
         .goal = 0.99,
         .run = run_t16},
        {.id = "T16k",
         .what = "put 4 KiB, events on and a follower / events off",
         .unit = "puts/s",
         .ours = "events on",
         .peer = "events off",
         .better = BENCH_HIGHER,
         .gate = BENCH_NONE,
         .goal = BENCH_NONE,
         .run = run_t16k},
        {.id = "T16b",
         .what = "put p99 4 KiB, follower stopped / running",
         .unit = "us",
         .ours = "stopped",
         .peer = "running",
         .better = BENCH_LOWER,
         .gate = 1.5,
         .goal = 1.1,
         .run = run_t16b},
    };
    if (argc == 3 && strcmp(argv[1], "--follow") == 0) {
        return follow(argv[2]);
    }
    return bench_main(argc, argv, targets, BENCH_COUNT(targets));
}
