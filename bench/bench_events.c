/* SPDX-License-Identifier: Apache-2.0 */
/* T13, T14: the way of events over a PUB socket on TCP, from records to decoded
 * views.
 *
 * On both sides one thread encodes batches of 64 and sends, and the measuring
 * thread receives and decodes: ours with the writer, the publisher's socket and
 * the strict reader, the peers with msgpack-c packing and unpacking (T13) or
 * with bytes as they are (T14). T13log and T14log take the whole way that a
 * store's events go, with a third thread that appends them one by one to the
 * event log; the peers are the same, so these rows also tell what the log and
 * the hand-over cost.
 *
 * The sender stays at most WINDOW_EVENTS ahead of the receiver, less than any
 * high-water mark, so nothing is lost; a gap fails the target. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <zmq.h>

#include "bench.h"
#include "event_rows.h"
#include "mci_bytes.h"
#include "mci_publisher.h"
#include "publisher_socket.h"

#define WINDOW_EVENTS (UINT64_C(512) * EVENT_ROWS)
#define PEER_MARK 2048 /* messages */
#define WARM_SECONDS 0.1
#define RECEIVE_WAIT_MS 5000

struct side;

/* Reads one message; the number of its events, 0 if it is bad. */
typedef uint64_t (*decode_fn)(struct side *side);

struct side {
    struct bench *bench;
    decode_fn decode;
    bool counts_bytes; /* MB/s, else events/s */

    /* The sender's. */
    struct event_rows rows;
    pthread_t sender;
    _Atomic bool stops;
    _Atomic uint64_t received; /* events */
    msgpack_sbuffer packed;
    msgpack_packer packer;
    bool packs; /* each batch anew */
    void *sender_socket;
    struct mci_event_log *log;
    struct mci_publisher *publisher;
    struct mci_publisher_socket door;
    struct mc_event_writer *writer;
    uint8_t payload[MC_BATCH_BYTES_MAX];

    /* The receiver's. */
    void *socket;
    zmq_msg_t frames[3];
    struct mc_view views[3];
    struct mc_event events[EVENT_ROWS];
    msgpack_zone *zone;
    uint64_t last_seq;
    uint64_t messages;
    uint64_t bytes;
    uint64_t gaps;
};

/* --- senders ------------------------------------------------------------- */

static void pause_briefly(void)
{
    struct timespec pause = {0, 20000};
    (void)nanosleep(&pause, NULL);
}

/* False when it is over. */
static bool await_window(struct side *side, uint64_t sent)
{
    while (sent - side->received > WINDOW_EVENTS - EVENT_ROWS) {
        if (side->stops) {
            return false;
        }
        pause_briefly();
    }
    return !side->stops;
}

static void *append_run(void *arg)
{
    struct side *side = arg;
    struct mci_log_tenant tenant = {.name = mc_view_str("default")};
    uint64_t sent = 0;
    while (await_window(side, sent)) {
        uint32_t reserved = 0;
        if (mci_event_log_reserve(side->log, EVENT_ROWS, MCI_LOG_FOREGROUND,
                                  UINT64_MAX, &reserved)) {
            break;
        }
        for (unsigned i = 0; i < EVENT_ROWS; i++) {
            const struct mc_event_record *row = &side->rows.records[i];
            const struct mci_log_event event = {.type = row->type,
                                                .medium = MC_MEDIUM_CPU,
                                                .group_id = row->group_id,
                                                .session_id = row->session_id};
            (void)mci_event_log_append(side->log, &tenant, row->object_key,
                                       &event, 1, &reserved);
        }
        sent += EVENT_ROWS;
    }
    return NULL;
}

static void *write_run(void *arg)
{
    struct side *side = arg;
    const struct mc_view topic = {"", 0};
    uint64_t sent = 0;
    for (uint64_t seq = 1; await_window(side, sent); seq++) {
        size_t len = 0;
        if (mc_event_writer_batch(side->writer, EVENT_ROWS_TIMESTAMP_MS,
                                  side->rows.records, EVENT_ROWS, side->payload,
                                  sizeof side->payload, &len) ||
            mci_publisher_socket_send(&side->door, topic, seq,
                                      mc_view_make(side->payload, len))) {
            break;
        }
        sent += EVENT_ROWS;
    }
    return NULL;
}

static int send_copy(void *socket, const void *bytes, size_t len, int flags)
{
    zmq_msg_t frame;
    if (zmq_msg_init_size(&frame, len) != 0) {
        return -1;
    }
    memcpy(zmq_msg_data(&frame), bytes, len);
    return zmq_msg_send(&frame, socket, flags);
}

static void *send_run(void *arg)
{
    struct side *side = arg;
    uint64_t sent = 0;
    for (uint64_t seq = 1; await_window(side, sent); seq++) {
        uint8_t number[8];
        mci_put_be64(number, seq);
        if (side->packs) {
            msgpack_sbuffer_clear(&side->packed);
            event_rows_pack(&side->packer, &side->rows);
        }
        if (send_copy(side->sender_socket, "", 0, ZMQ_SNDMORE) < 0 ||
            send_copy(side->sender_socket, number, 8, ZMQ_SNDMORE) < 0 ||
            send_copy(side->sender_socket, side->packed.data, side->packed.size,
                      0) < 0) {
            break;
        }
        sent += EVENT_ROWS;
    }
    return NULL;
}

/* --- the receiver -------------------------------------------------------- */

static uint64_t decode_ours(struct side *side)
{
    struct mc_event_batch batch;
    if (mc_event_read(side->views, 3, side->events, EVENT_ROWS, &batch, NULL) !=
            MC_EVENT_OK ||
        batch.refused != 0) {
        return 0;
    }
    bench_keep(side->events);
    return batch.count;
}

static uint64_t decode_msgpack(struct side *side)
{
    msgpack_object object;
    size_t offset = 0;
    if (msgpack_unpack(side->views[2].data, side->views[2].len, &offset,
                       side->zone, &object) != MSGPACK_UNPACK_SUCCESS) {
        return 0;
    }
    bench_keep(&object);
    msgpack_zone_clear(side->zone);
    return EVENT_ROWS;
}

static uint64_t decode_nothing(struct side *side)
{
    bench_keep(side->views[2].data);
    return EVENT_ROWS;
}

/* Receives and reads one message; false if none comes or it is bad. */
static bool receive(struct side *side)
{
    uint64_t events = 0;
    int made = 0;
    while (made < 3) {
        zmq_msg_t *frame = &side->frames[made];
        (void)zmq_msg_init(frame);
        if (zmq_msg_recv(frame, side->socket, 0) < 0) {
            return false;
        }
        side->views[made++] =
            mc_view_make(zmq_msg_data(frame), zmq_msg_size(frame));
    }
    if (side->views[1].len == 8) {
        uint64_t seq = mci_get_be64(side->views[1].data);
        side->gaps += side->messages > 0 && seq != side->last_seq + 1;
        side->last_seq = seq;
        events = side->decode(side);
        side->bytes += side->views[2].len;
        side->messages++;
    }
    for (int i = 0; i < 3; i++) {
        (void)zmq_msg_close(&side->frames[i]);
    }
    atomic_fetch_add_explicit(&side->received, events, memory_order_relaxed);
    return events > 0;
}

static bool receive_for(struct side *side, double seconds)
{
    double until = bench_now() + seconds;
    while (bench_now() < until) {
        if (!receive(side)) {
            bench_fail(side->bench, "no message, or one that cannot be read");
            return false;
        }
    }
    return true;
}

static bool measure(struct side *side, double seconds, double *value_out)
{
    if (!receive_for(side, WARM_SECONDS)) {
        return false;
    }
    uint64_t events = side->received;
    uint64_t bytes = side->bytes;
    double began = bench_now();
    if (!receive_for(side, seconds)) {
        return false;
    }
    double spent = bench_now() - began;
    double work = side->counts_bytes ? (double)(side->bytes - bytes) / 1e6
                                     : (double)(side->received - events);
    if (side->gaps > 0) {
        bench_fail(side->bench, "%llu gaps", (unsigned long long)side->gaps);
        return false;
    }
    *value_out = work / spent;
    return true;
}

static bool follow(struct side *side, void *context, const char *endpoint)
{
    const int zero = 0;
    const int wait_ms = RECEIVE_WAIT_MS;
    side->socket = zmq_socket(context, ZMQ_SUB);
    if (!side->socket) {
        return false;
    }
    (void)zmq_setsockopt(side->socket, ZMQ_RCVHWM, &zero, sizeof zero);
    (void)zmq_setsockopt(side->socket, ZMQ_LINGER, &zero, sizeof zero);
    (void)zmq_setsockopt(side->socket, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
    (void)zmq_setsockopt(side->socket, ZMQ_SUBSCRIBE, "", 0);
    return zmq_connect(side->socket, endpoint) == 0;
}

/* Starts the sender, measures, ends it. */
static bool run_stream(struct side *side, void *(*sender)(void *),
                       double seconds, double *value_out)
{
    side->stops = false;
    side->received = 0;
    side->messages = 0;
    if (pthread_create(&side->sender, NULL, sender, side) != 0) {
        bench_fail(side->bench, "no thread");
        return false;
    }
    bool is_measured = measure(side, seconds, value_out);
    side->stops = true;
    (void)pthread_join(side->sender, NULL);
    return is_measured;
}

/* --- sides --------------------------------------------------------------- */

static bool publisher_open(struct side *side)
{
    const struct mci_log_opts log_opts = {.epoch = EVENT_ROWS_EPOCH,
                                          .overflow = MC_PUBLISHER_BLOCK};
    const struct mc_publisher_opts opts = {.bind_endpoint = "tcp://127.0.0.1:*",
                                           .backend_id = "node-1"};
    if (mci_event_log_create(&log_opts, &side->log)) {
        return false;
    }
    if (mci_publisher_create(&opts, side->log, &side->publisher)) {
        mci_event_log_destroy(side->log);
        return false;
    }
    return true;
}

static bool log_side(void *ctx, double seconds, double *value_out)
{
    struct side *side = ctx;
    struct mc_publisher_stats stats;
    bool is_measured = false;
    if (!publisher_open(side)) {
        bench_fail(side->bench, "no publisher");
        return false;
    }
    void *context = zmq_ctx_new();
    mci_publisher_stats(side->publisher, &stats);
    if (follow(side, context, stats.endpoint)) {
        is_measured = run_stream(side, append_run, seconds, value_out);
    }
    mci_publisher_stats(side->publisher, &stats);
    (void)zmq_close(side->socket);
    (void)zmq_ctx_term(context);
    mci_publisher_destroy(side->publisher);
    mci_event_log_destroy(side->log);
    bench_note(side->bench, "%.1f events a message of ours",
               (double)stats.published_events /
                   (double)(stats.published_batches + 1));
    return is_measured;
}

/* A peer that has come and said nothing yet ends the wait too. */
static bool await_subscription(struct mci_publisher_socket *door)
{
    double until = bench_now() + RECEIVE_WAIT_MS / 1e3;
    while (!mci_publisher_socket_listen(door, RECEIVE_WAIT_MS)) {
        if (bench_now() >= until) {
            return false;
        }
    }
    return true;
}

static bool our_side(void *ctx, double seconds, double *value_out)
{
    struct side *side = ctx;
    char endpoint[256];
    bool is_measured = false;
    const struct mci_publisher_socket_opts opts = {
        .endpoint = "tcp://127.0.0.1:*", .mark = PEER_MARK};
    if (mci_publisher_socket_open(&side->door, &opts, endpoint,
                                  sizeof endpoint)) {
        bench_fail(side->bench, "no socket");
        return false;
    }
    void *context = zmq_ctx_new();
    if (follow(side, context, endpoint) && await_subscription(&side->door)) {
        is_measured = run_stream(side, write_run, seconds, value_out);
    }
    (void)zmq_close(side->socket);
    (void)zmq_ctx_term(context);
    mci_publisher_socket_close(&side->door, 0);
    return is_measured;
}

/* Binds, connects the receiver, and waits until its subscription is there. */
static bool peer_connect(struct side *side, void *context)
{
    const int mark = PEER_MARK;
    const int zero = 0;
    char endpoint[256];
    char word[8];
    size_t len = sizeof endpoint;
    (void)zmq_setsockopt(side->sender_socket, ZMQ_SNDHWM, &mark, sizeof mark);
    (void)zmq_setsockopt(side->sender_socket, ZMQ_LINGER, &zero, sizeof zero);
    return zmq_bind(side->sender_socket, "tcp://127.0.0.1:*") == 0 &&
           zmq_getsockopt(side->sender_socket, ZMQ_LAST_ENDPOINT, endpoint,
                          &len) == 0 &&
           follow(side, context, endpoint) &&
           zmq_recv(side->sender_socket, word, sizeof word, 0) > 0;
}

static bool peer_side(void *ctx, double seconds, double *value_out)
{
    struct side *side = ctx;
    bool is_measured = false;
    void *contexts[2] = {zmq_ctx_new(), zmq_ctx_new()};
    side->sender_socket = zmq_socket(contexts[0], ZMQ_XPUB);
    if (peer_connect(side, contexts[1])) {
        is_measured = run_stream(side, send_run, seconds, value_out);
    } else {
        bench_fail(side->bench, "no peer");
    }
    (void)zmq_close(side->socket);
    (void)zmq_close(side->sender_socket);
    (void)zmq_ctx_term(contexts[1]);
    (void)zmq_ctx_term(contexts[0]);
    return is_measured;
}

static struct side *side_make(struct bench *bench, decode_fn decode)
{
    const struct mc_event_writer_opts opts = {.epoch = EVENT_ROWS_EPOCH};
    struct side *side = calloc(1, sizeof *side);
    if (!side || mc_event_writer_create(&opts, &side->writer)) {
        free(side);
        return NULL;
    }
    side->bench = bench;
    side->decode = decode;
    event_rows_init(&side->rows);
    msgpack_sbuffer_init(&side->packed);
    msgpack_packer_init(&side->packer, &side->packed, msgpack_sbuffer_write);
    event_rows_pack(&side->packer, &side->rows);
    side->zone = msgpack_zone_new(EVENT_ROWS_ZONE_BYTES);
    return side;
}

static void side_drop(struct side *side)
{
    if (side) {
        mc_event_writer_destroy(side->writer);
        msgpack_zone_free(side->zone);
        msgpack_sbuffer_destroy(&side->packed);
        free(side);
    }
}

/* Against msgpack-c in events/s, against raw bytes in MB/s. */
static void run_against(struct bench *bench, bench_side_fn our_fn, bool is_raw)
{
    struct side *ours = side_make(bench, decode_ours);
    struct side *peer =
        side_make(bench, is_raw ? decode_nothing : decode_msgpack);
    if (ours && peer) {
        ours->counts_bytes = is_raw;
        peer->counts_bytes = is_raw;
        peer->packs = !is_raw;
        const struct bench_sides sides = {our_fn, ours, peer_side, peer};
        (void)bench_rounds_of(bench, &sides);
    } else {
        bench_fail(bench, "out of memory");
    }
    side_drop(peer);
    side_drop(ours);
}

static void run_t13(struct bench *bench)
{
    run_against(bench, our_side, false);
}

static void run_t13log(struct bench *bench)
{
    run_against(bench, log_side, false);
}

static void run_t14(struct bench *bench)
{
    run_against(bench, our_side, true);
}

static void run_t14log(struct bench *bench)
{
    run_against(bench, log_side, true);
}

static const struct bench_target targets[] = {
    {.id = "T13",
     .what = "events end to end / msgpack-c on both sides",
     .unit = "events/s",
     .ours = "mckv",
     .peer = "msgpack-c",
     .better = BENCH_HIGHER,
     .gate = 1.5,
     .goal = 2.0,
     .run = run_t13},
    {.id = "T13log",
     .what = "the same from the event log on",
     .unit = "events/s",
     .ours = "mckv",
     .peer = "msgpack-c",
     .better = BENCH_HIGHER,
     .gate = BENCH_NONE,
     .goal = BENCH_NONE,
     .run = run_t13log},
    {.id = "T14",
     .what = "events end to end / raw ZeroMQ at the same message size",
     .unit = "MB/s",
     .ours = "mckv",
     .peer = "zeromq",
     .better = BENCH_HIGHER,
     .gate = 0.85,
     .goal = 0.97,
     .run = run_t14},
    {.id = "T14log",
     .what = "the same from the event log on",
     .unit = "MB/s",
     .ours = "mckv",
     .peer = "zeromq",
     .better = BENCH_HIGHER,
     .gate = BENCH_NONE,
     .goal = BENCH_NONE,
     .run = run_t14log},
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, targets, BENCH_COUNT(targets));
}
