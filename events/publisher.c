/* SPDX-License-Identifier: Apache-2.0 */
/* publisher.c - see mci_publisher.h.
 *
 * The socket is opened on the thread that uses it; create waits for the word
 * how that went, so that a port that is taken is an error of create. All memory
 * is had before the thread starts: from then on nothing is allocated but
 * libzmq's own messages, and copies for the history where one is kept.
 */
#include "mc_log.h"
#include "mci_alloc.h"
#include "mci_clock.h"
#include "publisher_parts.h"

#define LISTEN_NS (100 * MCI_NS_PER_MS) /* longest time of not listening */
#define LISTEN_TURNS 16                 /* the same in turns, when busy */
#define DRAIN_NS (900 * MCI_NS_PER_MS)  /* at the end, for the log */
#define CLOSE_NS (1600 * MCI_NS_PER_MS) /* and with subscribers' queues */
#define LINGER_MIN_NS (200 * MCI_NS_PER_MS)
#define START_SLICE_MS 10
#define GATHER_NS MCI_NS_PER_MS
#define STREAM_BATCHES 16 /* to wait for where batches come full, */
#define STREAM_NS (2 * MCI_NS_PER_MS)

/* --- the thread ---------------------------------------------------------- */

static bool listen(struct mci_publisher *publisher, int wait_ms)
{
    bool is_new = mci_publisher_socket_listen(&publisher->socket, wait_ms);
    mci_counter_set(&publisher->counters.subscribers,
                    publisher->socket.subscriptions);
    publisher->turns_unheard = 0;
    return is_new;
}

/* Into the history first: what somebody saw can be asked for. A batch that has
 * no room there goes out all the same. */
static void keep(struct mci_publisher *publisher, uint64_t seq, size_t len)
{
    if (publisher->history &&
        mci_history_add(publisher->history, seq,
                        mc_view_make(publisher->payload, len))) {
        mc_log(MC_LOG_WARN,
               "publisher: history: message %ju is not kept: "
               "out of memory",
               (uintmax_t)seq);
    }
}

static enum mc_err send_batch(struct mci_publisher *publisher,
                              const struct mci_batch *batch, size_t *len_out)
{
    enum mc_err err = mc_event_writer_batch(
        publisher->writer, batch->timestamp_ms, batch->records, batch->count,
        publisher->payload, MC_BATCH_BYTES_MAX, len_out);
    if (err) {
        return err;
    }
    keep(publisher, batch->seq, *len_out);
    return mci_publisher_socket_send(
        &publisher->socket, mc_view_str(publisher->topic), batch->seq,
        mc_view_make(publisher->payload, *len_out));
}

/* The number is used up whether or not the batch gets out. */
static void publish(struct mci_publisher *publisher,
                    const struct mci_batch *batch)
{
    struct publisher_counters *counters = &publisher->counters;
    size_t len = 0;
    mci_counter_set(&counters->last_seq, batch->seq);
    enum mc_err err = send_batch(publisher, batch, &len);
    if (err) {
        mci_counter_add(&counters->failed, batch->count);
        mc_log(MC_LOG_WARN, "publisher: send %u events: %s", batch->count,
               mc_err_text(err));
        return;
    }
    mci_counter_add(&counters->bytes, len);
    if (batch->count > 0) {
        mci_counter_add(&counters->batches, 1);
        mci_counter_add(&counters->events, batch->count);
    } else {
        mci_counter_add(&counters->heartbeats, 1);
    }
}

static void publish_taken(struct mci_publisher *publisher)
{
    struct mci_batch batch;
    mci_batcher_load(&publisher->batcher, &publisher->taken);
    while (mci_batcher_next(&publisher->batcher, mci_clock_wall_ms(), &batch)) {
        mci_batcher_sent(&publisher->batcher, mci_clock_ns());
        publish(publisher, &batch);
    }
    mci_counter_set(&publisher->counters.skipped, publisher->batcher.skipped);
}

static void beat_if_due(struct mci_publisher *publisher)
{
    struct mci_batch batch;
    uint64_t now_ns = mci_clock_ns();
    if (now_ns < mci_batcher_heartbeat_at(&publisher->batcher)) {
        return;
    }
    mci_batcher_heartbeat(&publisher->batcher, mci_clock_wall_ms(), &batch);
    mci_batcher_sent(&publisher->batcher, now_ns);
    publish(publisher, &batch);
}

/* The first event after silence goes at once. Those that follow it closely wait
 * up to a millisecond for each other: the queue of a subscriber is bounded in
 * messages, and messages of one event, as fast as a thread can make them, would
 * fill it while libzmq's thread has lost its processor. Each message also wakes
 * four threads on its way, whose time a writer on a small machine pays (T16).
 *
 * In a stream that fills batches within that time it is this thread's own waking
 * that they pay: where no processor is idle it takes one of theirs, and for each
 * batch that is more often than the hundredth that p99 leaves out (T23). */
static void gather(struct mci_publisher *publisher)
{
    const struct mci_log_taken *taken = &publisher->taken;
    if (taken->count == 0 || taken->depth_left >= MC_BATCH_EVENTS_MAX) {
        return;
    }
    if (taken->count < MC_BATCH_EVENTS_MAX) {
        mci_event_log_gather(publisher->log, MC_BATCH_EVENTS_MAX, GATHER_NS);
    } else {
        mci_event_log_gather(publisher->log,
                             STREAM_BATCHES * MC_BATCH_EVENTS_MAX, STREAM_NS);
    }
}

static void turn(struct mci_publisher *publisher)
{
    uint64_t until_ns = mci_clock_ns() + LISTEN_NS;
    uint64_t heartbeat_ns = mci_batcher_heartbeat_at(&publisher->batcher);
    until_ns = heartbeat_ns < until_ns ? heartbeat_ns : until_ns;
    until_ns = publisher->socket.has_words ? 0 : until_ns;
    mci_event_log_take(publisher->log, until_ns, &publisher->taken);
    publish_taken(publisher);
    beat_if_due(publisher);
    publisher->turns_unheard++;
    if (publisher->taken.count == 0 ||
        publisher->turns_unheard >= LISTEN_TURNS) {
        (void)listen(publisher, 0);
    }
    gather(publisher);
}

static void await_subscriber(struct mci_publisher *publisher)
{
    while (!publisher->stops && mci_clock_ns() < publisher->begins_ns) {
        if (listen(publisher, START_SLICE_MS)) {
            return;
        }
    }
}

/* What is in the log now goes out, if it does so in time. */
static void drain_and_close(struct mci_publisher *publisher)
{
    uint64_t began_ns = mci_clock_ns();
    uint64_t spent_ns = 0;
    do {
        mci_event_log_take(publisher->log, 0, &publisher->taken);
        publish_taken(publisher);
        spent_ns = mci_clock_ns() - began_ns;
    } while (publisher->taken.count > 0 && spent_ns < DRAIN_NS);
    if (publisher->taken.depth_left > 0) {
        mc_log(MC_LOG_WARN, "publisher: closed with %ju events unsent",
               (uintmax_t)publisher->taken.depth_left);
    }
    uint64_t linger_ns = LINGER_MIN_NS;
    if (spent_ns < CLOSE_NS - LINGER_MIN_NS) {
        linger_ns = CLOSE_NS - spent_ns;
    }
    mci_publisher_socket_close(&publisher->socket,
                               (int)(linger_ns / MCI_NS_PER_MS));
}

static enum mc_err open_socket(struct mci_publisher *publisher)
{
    const struct mci_publisher_socket_opts opts = {
        .endpoint = publisher->endpoint,
        .mark = publisher->mark.messages,
        .curve = mci_publisher_curve(publisher)};
    enum mc_err err = mci_publisher_socket_open(
        &publisher->socket, &opts, publisher->bound, sizeof publisher->bound);
    mci_opened_say(&publisher->thread, err);
    return err;
}

static void *run(void *arg)
{
    struct mci_publisher *publisher = arg;
    if (open_socket(publisher)) {
        return NULL;
    }
    await_subscriber(publisher);
    while (!publisher->stops) {
        turn(publisher);
    }
    drain_and_close(publisher);
    return NULL;
}

/* --- its owner ----------------------------------------------------------- */

enum mc_err mci_publisher_create(const struct mc_publisher_opts *opts,
                                 struct mci_event_log *log,
                                 struct mci_publisher **publisher_out)
{
    enum mc_err err = mci_publisher_check(opts);
    if (err) {
        return err;
    }
    struct mci_publisher *publisher = mci_calloc(1, sizeof *publisher);
    if (!publisher) {
        return MC_ERR_NOMEM;
    }
    publisher->log = log;
    err = mci_publisher_fill(publisher, opts);
    if (!err) {
        err = mci_publisher_read_keys(publisher, opts);
    }
    if (err) {
        goto err_free;
    }
    err = mci_event_log_attach(log);
    if (err) {
        goto err_free;
    }
    err = mci_opened_start(&publisher->thread, "publisher", "mckv-events", run,
                           publisher);
    if (err) {
        goto err_detach;
    }
    mc_log(MC_LOG_INFO, "publisher: events at %s", publisher->bound);
    *publisher_out = publisher;
    return MC_OK;

err_detach:
    mci_event_log_detach(log);
err_free:
    mci_publisher_free(publisher);
    return err;
}

enum mc_err mci_publisher_serve(struct mci_publisher *publisher,
                                const struct mci_snapshot_source *source,
                                void *ctx)
{
    if (!publisher->history) {
        return MC_OK;
    }
    const struct mci_recovery_server_opts opts = {
        .endpoint = publisher->replay_endpoint,
        .curve = mci_publisher_curve(publisher),
        .recovery = {.history = publisher->history,
                     .source = source,
                     .ctx = ctx,
                     .writer = publisher->recovery_writer,
                     .backend_id = mc_view_str(publisher->backend_id),
                     .topic = mc_view_str(publisher->topic),
                     .epoch = mci_event_log_epoch(publisher->log),
                     .max_bytes = publisher->mark.batch_bytes,
                     .layout = publisher->replay_layout,
                     .no_rows = publisher->no_object_key}};
    return mci_recovery_server_create(&opts, &publisher->recovery);
}

void mci_publisher_destroy(struct mci_publisher *publisher)
{
    if (!publisher) {
        return;
    }
    mci_recovery_server_destroy(publisher->recovery);
    publisher->stops = true;
    mci_event_log_wake(publisher->log);
    mci_opened_join(&publisher->thread);
    mci_event_log_detach(publisher->log);
    mci_publisher_free(publisher);
}
