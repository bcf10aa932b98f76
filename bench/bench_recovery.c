/* SPDX-License-Identifier: Apache-2.0 */
/* T23, T23L, T24: what it costs to make good what was missed.
 *
 * T23: the latency of upserts in a store of 1 M keys (MC_BENCH_KEYS: another number)
 * while a process of its own takes one snapshot after the other, and without. The
 * asker is this program again, a DEALER that reads every row strictly; as it stands
 * for another machine, it takes no processor from the puts by waking up.
 * T23L: the same with 10 M keys, where there is memory for them.
 * T24: events per second of a replay of what is in the history, and of the live
 * stream, both over TCP on this host and read strictly. */
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#include "bench.h"
#include "mc_client.h"
#include "mc_event.h"
#include "mci_bytes.h"
#include "mci_publisher.h"
#include "mci_thread.h"

#define KEYS UINT64_C(1000000)
#define KEYS_LARGE UINT64_C(10000000)
#define KEY_BYTES_MAX 1000 /* of memory, with value and what is kept of a key */
#define KEY_MAX 80
#define VALUE_LEN 64
#define RANGE_BYTES 256 /* of the segment, more than such a value takes */
#define PERCENTILE_PUTS 100000
#define PATIENCE_MS 60000
#define FRAMES_MAX 6

/* ---- messages ----------------------------------------------------------------- */

struct message {
    zmq_msg_t parts[FRAMES_MAX];
    struct mc_view frames[FRAMES_MAX];
    size_t count;
};

static void drop(struct message *message)
{
    for (size_t i = 0; i < message->count; i++) {
        (void)zmq_msg_close(&message->parts[i]);
    }
    message->count = 0;
}

static bool receive(void *socket, struct message *message)
{
    drop(message);
    int more = 1;
    while (more && message->count < FRAMES_MAX) {
        zmq_msg_t *part = &message->parts[message->count];
        (void)zmq_msg_init(part);
        if (zmq_msg_recv(part, socket, 0) < 0) {
            return false;
        }
        message->frames[message->count++] =
            mc_view_make(zmq_msg_data(part), zmq_msg_size(part));
        more = zmq_msg_more(part);
    }
    return true;
}

/* Topic, number and payload; -1: they cannot be read. */
static int64_t events_in(const struct mc_view *frames)
{
    static struct mc_event events[MC_BATCH_EVENTS_MAX];
    struct mc_event_batch batch;
    return mc_event_read(frames, 3, events, MC_BATCH_EVENTS_MAX, &batch,
                         NULL) == MC_EVENT_OK
               ? (int64_t)batch.count
               : -1;
}

static void *connect_to(void *context, int type, const char *endpoint)
{
    const int zero = 0;
    const int wait_ms = PATIENCE_MS;
    void *socket = zmq_socket(context, type);
    (void)zmq_setsockopt(socket, ZMQ_RCVHWM, &zero, sizeof zero);
    (void)zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof zero);
    (void)zmq_setsockopt(socket, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
    if (type == ZMQ_SUB) {
        (void)zmq_setsockopt(socket, ZMQ_SUBSCRIBE, "", 0);
    }
    (void)zmq_connect(socket, endpoint);
    return socket;
}

static bool ask(void *socket, const void *request, size_t len)
{
    return zmq_send(socket, "", 0, ZMQ_SNDMORE) == 0 &&
           zmq_send(socket, request, len, 0) == (int)len;
}

/* ---- T23: puts beside snapshots ------------------------------------------------ */

/* One snapshot after the other, until it is killed. */
static int take_snapshots(const char *endpoint)
{
    struct message message = {.count = 0};
    const struct mc_view number = mc_view_make("\0\0\0\0\0\0\0\1", 8);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* not without the bench */
    mci_thread_wait_turn();                 /* stands for another machine */
    void *socket = connect_to(zmq_ctx_new(), ZMQ_DEALER, endpoint);
    while (ask(socket, "snapshot", 8)) {
        bool is_first = true;
        do {
            if (!receive(socket, &message) || message.count < 4) {
                return 1;
            }
            const struct mc_view frames[] = {mc_view_str(""), number,
                                             message.frames[3]};
            if (!is_first && message.count == 4 && events_in(frames) < 0) {
                return 1;
            }
            is_first = false;
        } while (message.count == 4);
    }
    return 1;
}

struct store {
    struct mc_client *client;
    uint64_t keys;
    uint64_t number;  /* of the next put */
    double *times;    /* of PERCENTILE_PUTS */
    uint64_t batches; /* of snapshots, while puts were timed */
    double slowest_us;
};

static void stat_events(const struct store *store,
                        struct mc_publisher_stats *events)
{
    struct mc_client_stats stats;
    mc_client_stat(store->client, &stats);
    *events = stats.events;
}

/* Upserts, so that each changes what the snapshot says and none evicts. */
static bool put_next(struct store *store)
{
    char text[KEY_MAX];
    static const uint8_t value[VALUE_LEN] = {1};
    int len = snprintf(text, sizeof text, "%064jx__k",
                       (uintmax_t)(store->number * 7919 % store->keys));
    store->number++;
    return mc_client_upsert(store->client, mc_view_make(text, (size_t)len),
                            value, sizeof value, NULL) == MC_OK;
}

static uint64_t available_bytes(void)
{
    char line[128];
    static const char name[] = "MemAvailable:";
    uint64_t kib = 0;
    FILE *file = fopen("/proc/meminfo", "r");
    while (file && kib == 0 && fgets(line, sizeof line, file)) {
        if (strncmp(line, name, sizeof name - 1) == 0) {
            kib = strtoull(line + sizeof name - 1, NULL, 10);
        }
    }
    if (file) {
        (void)fclose(file);
    }
    return kib << 10;
}

static bool open_store(struct store *store, uint64_t count)
{
    *store = (struct store){.keys = count};
    const struct mc_client_opts opts = {
        .segment_bytes = (store->keys + store->keys / 8) * RANGE_BYTES,
        .store = {.default_kv_lease_ttl_ms = MC_NONE,
                  .eviction_high_watermark = 1.0},
        .events = {.bind_endpoint = "tcp://127.0.0.1:*",
                   .replay_endpoint = "tcp://127.0.0.1:*",
                   .backend_id = "bench"}};
    store->times = calloc(PERCENTILE_PUTS, sizeof *store->times);
    if (!store->times || mc_client_open(&opts, &store->client) != MC_OK) {
        return false;
    }
    for (uint64_t i = 0; i < store->keys; i++) {
        if (!put_next(store)) {
            return false;
        }
    }
    struct mc_client_stats stats;
    mc_client_stat(store->client, &stats);
    return stats.objects == store->keys;
}

/* Not by fork: it would leave all memory of the store write-protected, and the puts
 * that are timed would pay a page fault for each page that they come to. */
static pid_t start_asker(const struct store *store)
{
    struct mc_publisher_stats before;
    struct mc_publisher_stats events;
    char name[] = "bench_recovery";
    char option[] = "--snapshots";
    pid_t pid = -1;
    stat_events(store, &before);
    char *const args[] = {name, option, before.replay_endpoint, NULL};
    if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, args, environ) != 0) {
        return -1;
    }
    double end = bench_now() + PATIENCE_MS / 1000.0;
    do {
        stat_events(store, &events);
    } while (events.snapshot_walks == before.snapshot_walks &&
             bench_now() < end);
    return pid;
}

static bool time_puts(struct store *store, double *p99_out)
{
    for (size_t i = 0; i < PERCENTILE_PUTS; i++) {
        double begin = bench_now();
        if (!put_next(store)) {
            return false;
        }
        store->times[i] = (bench_now() - begin) * 1e6;
    }
    *p99_out = bench_percentile(store->times, PERCENTILE_PUTS, 0.99);
    return true;
}

static bool put_p99_asked(void *ctx, double seconds, double *value_out)
{
    struct store *store = ctx;
    struct mc_publisher_stats before;
    struct mc_publisher_stats after;
    (void)seconds;
    pid_t asker = start_asker(store);
    if (asker < 0) {
        return false;
    }
    stat_events(store, &before);
    bool is_good = time_puts(store, value_out);
    stat_events(store, &after);
    store->batches += after.snapshot_batches - before.snapshot_batches;
    double slowest = store->times[PERCENTILE_PUTS - 1];
    store->slowest_us =
        slowest > store->slowest_us ? slowest : store->slowest_us;
    /* One that ended by itself could not read what it got. */
    is_good = is_good && waitpid(asker, NULL, WNOHANG) == 0;
    (void)kill(asker, SIGKILL);
    (void)waitpid(asker, NULL, 0);
    return is_good;
}

static bool put_p99(void *ctx, double seconds, double *value_out)
{
    (void)seconds;
    return time_puts(ctx, value_out);
}

static void run_with(struct bench *bench, uint64_t keys)
{
    struct store store;
    if (!open_store(&store, keys)) {
        bench_fail(bench, "the store did not take its keys");
    } else if (bench_rounds(bench, put_p99_asked, put_p99, &store)) {
        bench_note(bench,
                   "%ju keys, %ju snapshot messages meanwhile, slowest put "
                   "beside them %.0f us",
                   (uintmax_t)store.keys, (uintmax_t)store.batches,
                   store.slowest_us);
    }
    mc_client_close(store.client);
    free(store.times);
}

static void run_t23(struct bench *bench)
{
    const char *keys = getenv("MC_BENCH_KEYS");
    run_with(bench, keys ? strtoull(keys, NULL, 10) : KEYS);
}

static void run_t23l(struct bench *bench)
{
    if (available_bytes() < KEYS_LARGE * KEY_BYTES_MAX) {
        bench_fail(bench, "needs %ju GB of memory",
                   (uintmax_t)(KEYS_LARGE * KEY_BYTES_MAX >> 30));
        return;
    }
    run_with(bench, KEYS_LARGE);
}

/* ---- T24: replay and live ------------------------------------------------------ */

#define HISTORY_BATCHES 8192
#define HISTORY_BYTES (UINT64_C(1) << 30)

struct stream {
    struct mci_event_log *log;
    struct mci_publisher *publisher;
    struct mci_log_tenant tenant;
    void *context;
    pthread_t sender;
    atomic_bool stops;
};

static enum mc_err no_begin(void *ctx, struct mc_view tenant, uint64_t *id_out)
{
    (void)ctx;
    (void)tenant;
    *id_out = 0;
    return MC_OK;
}

static enum mc_err no_rows(void *ctx, struct mc_view tenant,
                           struct mci_snapshot_cursor *cursor,
                           struct mci_snapshot_rows *rows_out)
{
    (void)ctx;
    (void)tenant;
    cursor->at_end = true;
    *rows_out = (struct mci_snapshot_rows){NULL, 0};
    return MC_OK;
}

static uint64_t no_number(void *ctx)
{
    (void)ctx;
    return 0;
}

static void *send_events(void *ctx)
{
    struct stream *stream = ctx;
    const struct mci_log_event event = {
        .type = MC_EVENT_STORED,
        .medium = MC_MEDIUM_CPU,
        .group_id = mc_view_str("sglang-hicache:0123456789abcdef"),
        .session_id = mc_view_str("session-1")};
    char key[KEY_MAX];
    for (uint64_t i = 0; !stream->stops; i++) {
        uint32_t reserved = 0;
        int len = snprintf(key, sizeof key, "%064jx_0_k", (uintmax_t)i);
        if (mci_event_log_reserve(stream->log, 1, MCI_LOG_FOREGROUND,
                                  UINT64_MAX, &reserved) == MC_OK) {
            (void)mci_event_log_append(stream->log, &stream->tenant,
                                       mc_view_make(key, (size_t)len), &event,
                                       1, &reserved);
        }
    }
    return NULL;
}

static bool open_stream(struct stream *stream)
{
    static const struct mci_snapshot_source nothing = {no_begin, no_rows,
                                                       no_number, no_number};
    const struct mci_log_opts log = {.epoch = 1,
                                     .overflow = MC_PUBLISHER_BLOCK};
    const struct mc_publisher_opts opts = {.bind_endpoint = "tcp://127.0.0.1:*",
                                           .replay_endpoint =
                                               "tcp://127.0.0.1:*",
                                           .backend_id = "bench",
                                           .overflow = MC_PUBLISHER_BLOCK,
                                           .history_batches = HISTORY_BATCHES,
                                           .history_bytes = HISTORY_BYTES,
                                           .hwm_bytes = HISTORY_BYTES,
                                           .heartbeat_ms = MC_NONE};
    *stream = (struct stream){.tenant.name = mc_view_str("default"),
                              .context = zmq_ctx_new()};
    return mci_event_log_create(&log, &stream->log) == MC_OK &&
           mci_publisher_create(&opts, stream->log, &stream->publisher) ==
               MC_OK &&
           mci_publisher_serve(stream->publisher, &nothing, NULL) == MC_OK;
}

static void close_stream(struct stream *stream)
{
    mci_publisher_destroy(stream->publisher);
    mci_event_log_destroy(stream->log);
    (void)zmq_ctx_term(stream->context);
}

/* Live: as fast as one thread makes them and this one reads them. */
static bool live_rate(void *ctx, double seconds, double *value_out)
{
    struct stream *stream = ctx;
    struct message message = {.count = 0};
    struct mc_publisher_stats stats;
    mci_publisher_stats(stream->publisher, &stats);
    void *socket = connect_to(stream->context, ZMQ_SUB, stats.endpoint);
    stream->stops = false;
    if (pthread_create(&stream->sender, NULL, send_events, stream) != 0) {
        return false;
    }
    bool is_good = receive(socket, &message);
    double began = bench_now();
    uint64_t events = 0;
    while (is_good && bench_now() - began < seconds) {
        is_good = receive(socket, &message) && message.count == 3;
        int64_t count = is_good ? events_in(message.frames) : -1;
        is_good = count >= 0;
        events += (uint64_t)count;
    }
    *value_out = (double)events / (bench_now() - began);
    stream->stops = true;
    (void)pthread_join(stream->sender, NULL);
    drop(&message);
    (void)zmq_close(socket);
    return is_good;
}

/* The history, over and over; the live rounds have filled it. */
static bool replay_rate(void *ctx, double seconds, double *value_out)
{
    struct stream *stream = ctx;
    struct message message = {.count = 0};
    struct mc_publisher_stats stats;
    do { /* what is in the log goes first, so that both have the machine */
        mci_publisher_stats(stream->publisher, &stats);
    } while (stats.queue_depth > 0);
    void *socket =
        connect_to(stream->context, ZMQ_DEALER, stats.replay_endpoint);
    double began = bench_now();
    uint64_t events = 0;
    bool is_good = true;
    while (is_good && bench_now() - began < seconds) {
        is_good = ask(socket, "\0\0\0\0\0\0\0", 8) &&
                  receive(socket, &message) && message.count == 4;
        while (is_good && message.frames[3].len > 0) {
            int64_t count = events_in(message.frames + 1);
            is_good =
                count >= 0 && receive(socket, &message) && message.count == 4;
            events += (uint64_t)count;
        }
    }
    *value_out = (double)events / (bench_now() - began);
    drop(&message);
    (void)zmq_close(socket);
    return is_good && events > 0;
}

static void run_t24(struct bench *bench)
{
    struct stream stream;
    double filled = 0;
    if (!open_stream(&stream) || !live_rate(&stream, 1.0, &filled) ||
        !bench_rounds(bench, replay_rate, live_rate, &stream)) {
        bench_fail(bench, "a message did not come or could not be read");
    }
    close_stream(&stream);
}

int main(int argc, char **argv)
{
    static const struct bench_target targets[] = {
        {.id = "T23",
         .what = "upsert p99 while snapshots of 1 M keys are taken / without",
         .unit = "us",
         .ours = "asked",
         .peer = "not asked",
         .better = BENCH_LOWER,
         .gate = 1.3,
         .goal = 1.05,
         .run = run_t23},
        {.id = "T23L",
         .what = "upsert p99 while snapshots of 10 M keys are taken / without",
         .unit = "us",
         .ours = "asked",
         .peer = "not asked",
         .better = BENCH_LOWER,
         .gate = 1.3,
         .goal = 1.05,
         .run = run_t23l},
        {.id = "T24",
         .what = "catch-up by replay / live",
         .unit = "events/s",
         .ours = "replay",
         .peer = "live",
         .better = BENCH_HIGHER,
         .gate = 0.5,
         .goal = 0.9,
         .run = run_t24},
    };
    if (argc == 3 && strcmp(argv[1], "--snapshots") == 0) {
        return take_snapshots(argv[2]);
    }
    return bench_main(argc, argv, targets, BENCH_COUNT(targets));
}
