/* SPDX-License-Identifier: Apache-2.0 */
/* publisher.c - see mci_publisher.h.
 *
 * The socket is opened on the thread that uses it; create waits for the word
 * how that went, so that a port that is taken is an error of create. All memory
 * is had before the thread starts: from then on nothing is allocated but
 * libzmq's own messages.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

#include "batcher.h"
#include "mc_log.h"
#include "mci_alloc.h"
#include "mci_clock.h"
#include "mci_publisher.h"
#include "publisher_socket.h"
#include "send_mark.h"

#define START_WAIT_NS MCI_NS_PER_S      /* for the first subscription */
#define LISTEN_NS (100 * MCI_NS_PER_MS) /* longest time of not listening */
#define LISTEN_TURNS 16                 /* the same in turns, when busy */
#define DRAIN_NS (900 * MCI_NS_PER_MS)  /* at the end, for the log */
#define CLOSE_NS (1600 * MCI_NS_PER_MS) /* and with subscribers' queues */
#define LINGER_MIN_NS (200 * MCI_NS_PER_MS)
#define START_SLICE_MS 10
#define GATHER_NS MCI_NS_PER_MS

/* Written by the publisher's thread alone. */
struct counters {
    _Atomic uint64_t last_seq;
    _Atomic uint64_t batches;
    _Atomic uint64_t events;
    _Atomic uint64_t bytes;
    _Atomic uint64_t failed; /* events that could not be sent */
    _Atomic uint64_t skipped;
    _Atomic uint64_t heartbeats;
    _Atomic uint64_t subscribers;
};

struct mci_publisher {
    struct mci_event_log *log;
    char *endpoint; /* as asked for */
    char *topic;
    char *backend_id;
    struct counters counters;
    _Atomic bool stops;
    pthread_t thread;

    pthread_mutex_t lock;
    pthread_cond_t opened;
    /* Guarded by lock. */
    bool is_opened; /* well or not */
    enum mc_err open_err;
    char bound[sizeof((struct mc_publisher_stats *)0)->endpoint];

    /* The thread's own. */
    struct mci_publisher_socket socket;
    struct mci_zmq_curve curve; /* without keys: none */
    struct mci_send_mark mark;
    struct mci_batcher batcher;
    struct mci_log_taken taken;
    struct mc_event_writer *writer;
    uint8_t *payload; /* MC_BATCH_BYTES_MAX */
    uint32_t turns_unheard;
    uint64_t begins_ns; /* also without a subscriber */
};

static void count(_Atomic uint64_t *counter, uint64_t by)
{
    atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

static uint64_t counted(_Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void set(_Atomic uint64_t *counter, uint64_t value)
{
    atomic_store_explicit(counter, value, memory_order_relaxed);
}

/* --- the thread ---------------------------------------------------------- */

static bool listen(struct mci_publisher *publisher, int wait_ms)
{
    bool is_new = mci_publisher_socket_listen(&publisher->socket, wait_ms);
    set(&publisher->counters.subscribers, publisher->socket.subscriptions);
    publisher->turns_unheard = 0;
    return is_new;
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
    return mci_publisher_socket_send(
        &publisher->socket, mc_view_str(publisher->topic), batch->seq,
        mc_view_make(publisher->payload, *len_out));
}

/* The number is used up whether or not the batch gets out. */
static void publish(struct mci_publisher *publisher,
                    const struct mci_batch *batch)
{
    struct counters *counters = &publisher->counters;
    size_t len = 0;
    set(&counters->last_seq, batch->seq);
    enum mc_err err = send_batch(publisher, batch, &len);
    if (err) {
        count(&counters->failed, batch->count);
        mc_log(MC_LOG_WARN, "publisher: send %u events: %s", batch->count,
               mc_err_text(err));
        return;
    }
    count(&counters->bytes, len);
    if (batch->count > 0) {
        count(&counters->batches, 1);
        count(&counters->events, batch->count);
    } else {
        count(&counters->heartbeats, 1);
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
    set(&publisher->counters.skipped, publisher->batcher.skipped);
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
 * four threads on its way, whose time a writer on a small machine pays (T16). */
static void gather(struct mci_publisher *publisher)
{
    if (publisher->taken.count > 0 &&
        publisher->taken.depth_left < MC_BATCH_EVENTS_MAX) {
        mci_event_log_gather(publisher->log, MC_BATCH_EVENTS_MAX, GATHER_NS);
    }
}

static void turn(struct mci_publisher *publisher)
{
    uint64_t until_ns = mci_clock_ns() + LISTEN_NS;
    uint64_t heartbeat_ns = mci_batcher_heartbeat_at(&publisher->batcher);
    until_ns = heartbeat_ns < until_ns ? heartbeat_ns : until_ns;
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
    char bound[sizeof publisher->bound] = "";
    const struct mci_publisher_socket_opts opts = {
        .endpoint = publisher->endpoint,
        .mark = publisher->mark.messages,
        .curve = publisher->curve.allowed.count > 0 ? &publisher->curve : NULL};
    enum mc_err err = mci_publisher_socket_open(&publisher->socket, &opts,
                                                bound, sizeof bound);
    (void)pthread_mutex_lock(&publisher->lock);
    publisher->is_opened = true;
    publisher->open_err = err;
    memcpy(publisher->bound, bound, sizeof bound);
    (void)pthread_cond_signal(&publisher->opened);
    (void)pthread_mutex_unlock(&publisher->lock);
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

static void publisher_free(struct mci_publisher *publisher)
{
    (void)pthread_cond_destroy(&publisher->opened);
    (void)pthread_mutex_destroy(&publisher->lock);
    mc_event_writer_destroy(publisher->writer);
    mci_log_taken_fini(&publisher->taken);
    mci_curve_list_fini(&publisher->curve.allowed);
    explicit_bzero(&publisher->curve.pair, sizeof publisher->curve.pair);
    mci_free(publisher->payload);
    mci_free(publisher->backend_id);
    mci_free(publisher->topic);
    mci_free(publisher->endpoint);
    mci_free(publisher);
}

static enum mc_err make_writer(struct mci_publisher *publisher,
                               const struct mc_publisher_opts *opts)
{
    const struct mc_event_writer_opts writer_opts = {
        .plain = opts->no_extra_fields,
        .no_legacy_compat = opts->no_legacy_compat,
        .no_object_key = opts->no_object_key,
        .empty_token_ids = opts->empty_token_ids,
        .seq_hashes = opts->emit_seq_hashes,
        .block_size = opts->block_size,
        .dp_rank = opts->dp_rank,
        .epoch = mci_event_log_epoch(publisher->log),
        .model_name = mc_view_str(opts->model_name),
        .additional_salt = mc_view_str(opts->additional_salt),
        .lora_name = mc_view_str(opts->lora_name)};
    return mc_event_writer_create(&writer_opts, &publisher->writer);
}

static char *text_copy(const char *text)
{
    return mci_strdup_n(text ? text : "", text ? strlen(text) : 0);
}

static enum mc_err fill_publisher(struct mci_publisher *publisher,
                                  const struct mc_publisher_opts *opts)
{
    publisher->mark = mci_send_mark(opts->hwm_bytes);
    publisher->endpoint = text_copy(opts->bind_endpoint);
    publisher->topic = text_copy(opts->topic);
    publisher->backend_id = text_copy(opts->backend_id);
    publisher->payload = mci_alloc(MC_BATCH_BYTES_MAX);
    if (!publisher->endpoint || !publisher->topic || !publisher->backend_id ||
        !publisher->payload) {
        return MC_ERR_NOMEM;
    }
    enum mc_err err = mci_log_taken_init(&publisher->taken);
    if (err) {
        return err;
    }
    err = make_writer(publisher, opts);
    if (err) {
        return err;
    }
    struct mci_batcher_opts batcher_opts = {
        .writer = publisher->writer,
        .backend_id = mc_view_str(publisher->backend_id),
        .max_bytes = publisher->mark.batch_bytes,
        .skips_keyed = opts->no_object_key};
    if (__builtin_mul_overflow(opts->heartbeat_ms, MCI_NS_PER_MS,
                               &batcher_opts.heartbeat_ns)) {
        batcher_opts.heartbeat_ns = 0;
    }
    if (opts->sequence_epoch) {
        batcher_opts.base_seq = mci_batcher_epoch_base(mci_clock_wall_ms());
    }
    uint64_t now_ns = mci_clock_ns();
    publisher->begins_ns = now_ns + START_WAIT_NS;
    mci_batcher_init(&publisher->batcher, &batcher_opts, now_ns);
    set(&publisher->counters.last_seq, batcher_opts.base_seq);
    return MC_OK;
}

static enum mc_err read_keys(struct mci_publisher *publisher,
                             const struct mc_publisher_opts *opts)
{
    if (!opts->curve_server_key_file || !opts->curve_server_key_file[0]) {
        return MC_OK;
    }
    enum mc_err err = mci_curve_pair_read(opts->curve_server_key_file,
                                          &publisher->curve.pair);
    return err ? err
               : mci_curve_list_read(opts->curve_allowed_keys_file,
                                     &publisher->curve.allowed);
}

/* No signal of the program is handled on this thread. */
static enum mc_err start_thread(struct mci_publisher *publisher)
{
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&publisher->thread, NULL, run, publisher);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc != 0) {
        mc_log(MC_LOG_ERROR, "publisher: thread: %s", strerror(rc));
        return MC_ERR_NOMEM;
    }
    (void)pthread_setname_np(publisher->thread, "mckv-events");
    return MC_OK;
}

static enum mc_err start(struct mci_publisher *publisher)
{
    enum mc_err err = start_thread(publisher);
    if (err) {
        return err;
    }
    (void)pthread_mutex_lock(&publisher->lock);
    while (!publisher->is_opened) {
        (void)pthread_cond_wait(&publisher->opened, &publisher->lock);
    }
    err = publisher->open_err;
    (void)pthread_mutex_unlock(&publisher->lock);
    if (err) {
        (void)pthread_join(publisher->thread, NULL);
    }
    return err;
}

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
    (void)pthread_mutex_init(&publisher->lock, NULL);
    (void)pthread_cond_init(&publisher->opened, NULL);
    err = fill_publisher(publisher, opts);
    if (!err) {
        err = read_keys(publisher, opts);
    }
    if (err) {
        goto err_free;
    }
    err = mci_event_log_attach(log);
    if (err) {
        goto err_free;
    }
    err = start(publisher);
    if (err) {
        goto err_detach;
    }
    mc_log(MC_LOG_INFO, "publisher: events at %s", publisher->bound);
    *publisher_out = publisher;
    return MC_OK;

err_detach:
    mci_event_log_detach(log);
err_free:
    publisher_free(publisher);
    return err;
}

void mci_publisher_destroy(struct mci_publisher *publisher)
{
    if (!publisher) {
        return;
    }
    publisher->stops = true;
    mci_event_log_wake(publisher->log);
    (void)pthread_join(publisher->thread, NULL);
    mci_event_log_detach(publisher->log);
    publisher_free(publisher);
}

void mci_publisher_stats(struct mci_publisher *publisher,
                         struct mc_publisher_stats *stats_out)
{
    struct counters *counters = &publisher->counters;
    struct mci_log_stats log;
    mci_event_log_stats(publisher->log, &log);
    *stats_out = (struct mc_publisher_stats){
        .enabled = true,
        .epoch = mci_event_log_epoch(publisher->log),
        .last_event_id = log.last_id,
        .last_seq = counted(&counters->last_seq),
        .published_batches = counted(&counters->batches),
        .published_events = counted(&counters->events),
        .published_bytes = counted(&counters->bytes),
        .dropped_events = log.dropped + counted(&counters->failed),
        .skipped_events = counted(&counters->skipped),
        .heartbeats = counted(&counters->heartbeats),
        .queue_depth = log.depth,
        .queue_capacity = log.capacity,
        .blocked_writers = log.waits,
        .subscribers = counted(&counters->subscribers)};
    memcpy(stats_out->endpoint, publisher->bound, sizeof publisher->bound);
}
