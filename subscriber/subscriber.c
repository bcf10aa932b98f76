/* SPDX-License-Identifier: Apache-2.0 */
/* Puts the parts together: the reading thread (source), the stream that turns
 * messages into events and signals, the index. In poll mode a message is taken
 * from the queue, stepped through and given back; one that mc_subscriber_next
 * is in the middle of stays `current`. With own_thread the reading thread does
 * all of it and there is no queue between. */
#include "mc_subscriber.h"

#include <errno.h>
#include <poll.h>
#include <sys/random.h>

#include "mci_alloc.h"
#include "mci_clock.h"
#include "source.h"
#include "stream.h"

#define SOURCES_MAX 64 /* and so much is the number of a request shifted */
#define QUEUE_BYTES_DEFAULT (UINT64_C(64) << 20)
#define MIRROR_ENTRIES_DEFAULT (UINT64_C(16) << 20)

/* Whose a connection is. */
struct route {
    uint32_t source;
    uint32_t place;
};

struct mc_subscriber {
    struct stream *stream;
    struct source_set *sources;
    uint32_t source_count;
    bool own_thread;
    struct source_message *current; /* being stepped through, or NULL */
    bool is_stepping; /* the stream has a message, ours or injected */
    uint32_t tick_at; /* the next source to be told of the time */
    /* Each place of each source has connections of its own. */
    struct route routes[SOURCES_MAX];
    uint32_t route_count;
};

/* ---- opening and closing ---------------------------------------------- */

static bool is_source(const struct mc_source_opts *source)
{
    if ((unsigned)source->profile > MC_PROFILE_ENGINE ||
        (unsigned)source->begin > MC_BEGIN_SEQ ||
        source->other_count > MC_PUBLISHER_PLACES_MAX ||
        (source->other_count > 0 &&
         (!source->others || source->profile == MC_PROFILE_ENGINE))) {
        return false;
    }
    for (size_t i = 0; i < source->other_count; i++) {
        if (!source->others[i].endpoint) {
            return false;
        }
    }
    return true;
}

static enum mc_err check_opts(const struct mc_subscriber_opts *opts)
{
    size_t places = 0;
    if (!opts || !opts->sources || opts->source_count == 0 ||
        opts->source_count > SOURCES_MAX ||
        opts->max_message_events > MC_EVENT_COUNT_MAX) {
        return MC_ERR_INVALID_PARAMS;
    }
    for (size_t i = 0; i < opts->source_count; i++) {
        if (!is_source(&opts->sources[i])) {
            return MC_ERR_INVALID_PARAMS;
        }
        places += 1 + opts->sources[i].other_count;
    }
    return places <= SOURCES_MAX ? MC_OK : MC_ERR_INVALID_PARAMS;
}

static enum mc_err open_stream(struct mc_subscriber *subscriber,
                               const struct mc_subscriber_opts *opts)
{
    uint64_t entries = opts->max_mirror_entries ? opts->max_mirror_entries
                                                : MIRROR_ENTRIES_DEFAULT;
    struct stream_opts stream = {
        .source_count = (uint32_t)opts->source_count,
        .sources = opts->sources,
        .max_events = opts->max_message_events ? opts->max_message_events
                                               : MC_EVENT_COUNT_MAX,
        .max_mirror_entries = opts->no_mirror ? 0 : entries,
        .patience_ns = opts->recovery_patience_ms * MCI_NS_PER_MS,
        .sink = index_sink_of(opts->index),
        .on_event = opts->on_event,
        .on_signal = opts->on_signal,
        .on_message = opts->on_message,
        .ctx = opts->ctx,
    };
    /* Without entropy the seed is 0: hashes are then merely predictable. */
    (void)!getrandom(&stream.seed, sizeof stream.seed, GRND_NONBLOCK);
    return stream_create(&stream, &subscriber->stream);
}

/* ---- requests ---------------------------------------------------------- */

/* Numbers of requests are each source's own; between us and the sockets they
 * say whose they are. */
static uint64_t number_outside(uint32_t source, uint64_t number)
{
    return number * SOURCES_MAX + source;
}

static uint32_t route_of(const struct mc_subscriber *subscriber,
                         uint32_t source, uint32_t place)
{
    uint32_t i = 0;
    while (subscriber->routes[i].source != source ||
           subscriber->routes[i].place != place) {
        i++;
    }
    return i;
}

/* False if it could not be asked. */
static bool carry_out(struct mc_subscriber *subscriber, uint32_t source,
                      const struct recovery_order *order)
{
    uint64_t number = number_outside(source, order->number);
    if (order->kind == RECOVERY_GRANT) {
        source_credit(subscriber->sources, number, order->credit);
        return true;
    }
    if (order->kind == RECOVERY_DROP) {
        source_drop(subscriber->sources, number);
        return true;
    }
    struct asker_request request = {
        .source = route_of(subscriber, source,
                           stream_place(subscriber->stream, source)),
        .number = number,
        .kind = order->ask,
        .from_seq = order->from_seq,
        .credit = order->credit,
    };
    return source_ask(subscriber->sources, &request) == MC_OK;
}

/* Carries out what the stream has ordered; true if it has something to say of
 * that. */
static bool carry_out_all(struct mc_subscriber *subscriber)
{
    struct recovery_order order;
    uint32_t source = 0;
    while (stream_next_order(subscriber->stream, &source, &order)) {
        if (!carry_out(subscriber, source, &order)) {
            stream_order_failed(subscriber->stream, source, order.number,
                                mci_clock_ns());
            return true;
        }
    }
    source_wake_at(subscriber->sources, stream_wake_at(subscriber->stream));
    return false;
}

/* Gives the stream a message, an answer, or word of a connection or of time. */
static void take(struct mc_subscriber *subscriber,
                 const struct source_message *message)
{
    struct stream *stream = subscriber->stream;
    struct route route = subscriber->routes[message->letter.source];
    uint64_t now_ns = mci_clock_ns();
    subscriber->is_stepping = true;
    switch (message->word) {
    case SOURCE_MESSAGE:
        stream_take_from(stream, route.source, route.place, message->frames,
                         message->count, now_ns);
        break;
    case SOURCE_CONNECT:
        stream_connected(stream, route.source, route.place, now_ns);
        break;
    case SOURCE_ANSWER:
        stream_take_answer(stream, route.source, message->request / SOURCES_MAX,
                           message->frames, message->count, now_ns);
        break;
    case SOURCE_TICK:
        subscriber->tick_at = 0;
        break;
    }
}

/* The next item of what was taken; false: it is done. */
static bool step(struct mc_subscriber *subscriber,
                 struct mc_subscriber_item *item_out)
{
    for (;;) {
        if (stream_step(subscriber->stream, item_out)) {
            return true;
        }
        if (carry_out_all(subscriber)) {
            continue;
        }
        if (subscriber->tick_at == subscriber->source_count) {
            subscriber->is_stepping = false;
            return false;
        }
        stream_take_tick(subscriber->stream, subscriber->tick_at++,
                         mci_clock_ns());
    }
}

/* Steps through the rest of a message; how many items that were. */
static size_t step_through(struct mc_subscriber *subscriber)
{
    struct mc_subscriber_item item;
    size_t count = 0;
    while (step(subscriber, &item)) {
        count++;
    }
    return count;
}

static void on_message(void *ctx, const struct source_message *message)
{
    struct mc_subscriber *subscriber = ctx;
    take(subscriber, message);
    (void)step_through(subscriber);
}

/* ---- opening and closing ----------------------------------------------- */

/* Lays out a connection for each place of each source. */
static void lay_routes(struct mc_subscriber *subscriber,
                       const struct mc_subscriber_opts *opts,
                       struct mc_source_opts *connections)
{
    for (uint32_t i = 0; i < opts->source_count; i++) {
        const struct mc_source_opts *source = &opts->sources[i];
        for (uint32_t place = 0; place <= source->other_count; place++) {
            uint32_t at = subscriber->route_count++;
            subscriber->routes[at] = (struct route){i, place};
            connections[at] = *source;
            if (place > 0) {
                connections[at].endpoint = source->others[place - 1].endpoint;
                connections[at].recovery_endpoint =
                    source->others[place - 1].recovery_endpoint;
            }
        }
    }
}

static enum mc_err open_sources(struct mc_subscriber *subscriber,
                                const struct mc_subscriber_opts *opts)
{
    struct mc_source_opts connections[SOURCES_MAX];
    lay_routes(subscriber, opts, connections);
    struct source_opts sources = {
        .sources = connections,
        .source_count = subscriber->route_count,
        .max_queue_bytes =
            opts->max_queue_bytes ? opts->max_queue_bytes : QUEUE_BYTES_DEFAULT,
        .on_message = opts->own_thread ? on_message : NULL,
        .ctx = subscriber,
    };
    return source_open(&sources, &subscriber->sources);
}

enum mc_err mc_subscriber_open(const struct mc_subscriber_opts *opts,
                               struct mc_subscriber **subscriber_out)
{
    enum mc_err err = check_opts(opts);
    if (err != MC_OK) {
        return err;
    }
    struct mc_subscriber *subscriber = mci_calloc(1, sizeof *subscriber);
    if (!subscriber) {
        return MC_ERR_NOMEM;
    }
    subscriber->source_count = (uint32_t)opts->source_count;
    subscriber->tick_at = subscriber->source_count;
    subscriber->own_thread = opts->own_thread;
    err = open_stream(subscriber, opts);
    bool has_to_begin =
        err == MC_OK && stream_wake_at(subscriber->stream) != UINT64_MAX;
    if (err == MC_OK) {
        err = open_sources(subscriber, opts);
    }
    if (err == MC_OK && has_to_begin) {
        source_wake_at(subscriber->sources, 0);
    }
    if (err != MC_OK) {
        mc_subscriber_close(subscriber);
        return err;
    }
    *subscriber_out = subscriber;
    return MC_OK;
}

void mc_subscriber_close(struct mc_subscriber *subscriber)
{
    if (!subscriber) {
        return;
    }
    if (subscriber->current) {
        source_give_back(subscriber->sources, subscriber->current);
    }
    source_close(subscriber->sources);
    stream_destroy(subscriber->stream);
    mci_free(subscriber);
}

int mc_subscriber_fd(const struct mc_subscriber *subscriber)
{
    return source_fd(subscriber->sources);
}

/* ---- delivering ------------------------------------------------------- */

static bool is_done(const struct mc_subscriber *subscriber)
{
    return stream_is_done(subscriber->stream) &&
           subscriber->tick_at == subscriber->source_count;
}

static void give_back(struct mc_subscriber *subscriber)
{
    subscriber->is_stepping = false;
    if (!subscriber->current) {
        return;
    }
    source_give_back(subscriber->sources, subscriber->current);
    source_rest(subscriber->sources);
    subscriber->current = NULL;
}

/* The next message of the queue; false if there is none. */
static bool take_next(struct mc_subscriber *subscriber)
{
    subscriber->current = source_take(subscriber->sources);
    if (!subscriber->current) {
        return false;
    }
    take(subscriber, subscriber->current);
    return true;
}

/* Delivers the rest of the message at hand. */
static size_t finish_current(struct mc_subscriber *subscriber)
{
    if (!subscriber->is_stepping) {
        return 0;
    }
    size_t count = step_through(subscriber);
    give_back(subscriber);
    return count;
}

/* Waits until something may be there; false at the deadline. */
static bool wait_until(const struct mc_subscriber *subscriber, int timeout_ms,
                       uint64_t deadline_ns)
{
    struct pollfd polled = {.fd = mc_subscriber_fd(subscriber),
                            .events = POLLIN};
    for (;;) {
        uint64_t now_ns = mci_clock_ns();
        int left_ms = -1;
        if (timeout_ms >= 0) {
            uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
            left_ms = (int)((left_ns + MCI_NS_PER_MS - 1) / MCI_NS_PER_MS);
        }
        int count = poll(&polled, 1, left_ms);
        if (count > 0) {
            return true;
        }
        if (count == 0 || errno != EINTR) {
            return false;
        }
    }
}

static uint64_t deadline_of(int timeout_ms)
{
    return mci_clock_ns() +
           (timeout_ms > 0 ? (uint64_t)timeout_ms * MCI_NS_PER_MS : 0);
}

/* Handles up to `max` messages of the queue; how many that were, words of
 * connections and of time not counted. */
static size_t handle(struct mc_subscriber *subscriber, uint64_t max,
                     size_t *handled)
{
    size_t messages = 0;
    while (messages < max && take_next(subscriber)) {
        messages += subscriber->current->word == SOURCE_MESSAGE ||
                    subscriber->current->word == SOURCE_ANSWER;
        *handled += step_through(subscriber);
        give_back(subscriber);
    }
    return messages;
}

enum mc_err mc_subscriber_poll(struct mc_subscriber *subscriber, int timeout_ms,
                               size_t max_messages, size_t *handled_out)
{
    if (subscriber->own_thread) {
        return MC_ERR_UNAVAILABLE_IN_CURRENT_MODE;
    }
    bool is_halfway = subscriber->is_stepping && !is_done(subscriber);
    size_t messages = is_halfway ? 1 : 0;
    size_t handled = finish_current(subscriber);
    uint64_t deadline_ns = deadline_of(timeout_ms);
    for (;;) {
        /* Not more than is there now, or a flood would never let go. */
        uint64_t max = source_count(subscriber->sources);
        if (max_messages > 0 && max > max_messages - messages) {
            max = max_messages - messages;
        }
        messages += handle(subscriber, max, &handled);
        if (messages > 0 || handled > 0 ||
            !wait_until(subscriber, timeout_ms, deadline_ns)) {
            break;
        }
    }
    if (handled_out) {
        *handled_out = handled;
    }
    return MC_OK;
}

/* The next item of the message at hand or of the queue; false if none. */
static bool next_item(struct mc_subscriber *subscriber,
                      struct mc_subscriber_item *item_out)
{
    for (;;) {
        if (subscriber->is_stepping && step(subscriber, item_out)) {
            if (is_done(subscriber)) {
                source_rest(subscriber->sources);
            }
            return true;
        }
        give_back(subscriber);
        if (!take_next(subscriber)) {
            return false;
        }
    }
}

enum mc_err mc_subscriber_next(struct mc_subscriber *subscriber, int timeout_ms,
                               struct mc_subscriber_item *item_out)
{
    if (subscriber->own_thread) {
        return MC_ERR_UNAVAILABLE_IN_CURRENT_MODE;
    }
    uint64_t deadline_ns = deadline_of(timeout_ms);
    while (!next_item(subscriber, item_out)) {
        if (!wait_until(subscriber, timeout_ms, deadline_ns)) {
            return MC_ERR_RPC_TIMEOUT;
        }
    }
    return MC_OK;
}

enum mc_err mc_subscriber_inject(struct mc_subscriber *subscriber,
                                 uint32_t source, const struct mc_view *frames,
                                 size_t count)
{
    if (subscriber->own_thread) {
        return MC_ERR_UNAVAILABLE_IN_CURRENT_MODE;
    }
    if (source >= subscriber->source_count || (count > 0 && !frames)) {
        return MC_ERR_INVALID_PARAMS;
    }
    (void)finish_current(subscriber);
    stream_take(subscriber->stream, source, frames, count, mci_clock_ns());
    (void)step_through(subscriber);
    return MC_OK;
}

/* ---- the mirror ------------------------------------------------------- */

size_t mc_subscriber_mirror_count(const struct mc_subscriber *subscriber)
{
    size_t count = 0;
    for (uint32_t i = 0; i < subscriber->source_count; i++) {
        const struct mirror *mirror = stream_mirror(subscriber->stream, i);
        count += mirror ? mirror_count(mirror) : 0;
    }
    return count;
}

static struct mc_mirror_entry entry_of(uint32_t source,
                                       const struct mirror_row *row)
{
    return (struct mc_mirror_entry){
        .source = source,
        .event_id = row->event_id,
        .tenant_id = row->tenant_id,
        .object_key = row->object_key,
        .medium = row->medium,
        .session_id = row->session_id,
        .group_id = row->group_id,
    };
}

bool mc_subscriber_mirror_get(const struct mc_subscriber *subscriber,
                              uint32_t source, struct mc_view tenant_id,
                              struct mc_view object_key, struct mc_view medium,
                              struct mc_mirror_entry *entry_out)
{
    const struct mirror *mirror =
        source < subscriber->source_count
            ? stream_mirror(subscriber->stream, source)
            : NULL;
    struct mirror_row row;
    if (!mirror || !mirror_find(mirror, tenant_id, object_key, medium, &row)) {
        return false;
    }
    *entry_out = entry_of(source, &row);
    return true;
}

/* False if the walk was stopped. */
static bool walk_source(const struct mc_subscriber *subscriber, uint32_t source,
                        mc_mirror_fn fn, void *ctx)
{
    const struct mirror *mirror = stream_mirror(subscriber->stream, source);
    struct mirror_row row;
    size_t cursor = 0;
    while (mirror && mirror_next(mirror, &cursor, &row)) {
        struct mc_mirror_entry entry = entry_of(source, &row);
        if (!fn(ctx, &entry)) {
            return false;
        }
    }
    return true;
}

void mc_subscriber_mirror_walk(const struct mc_subscriber *subscriber,
                               mc_mirror_fn fn, void *ctx)
{
    for (uint32_t i = 0; i < subscriber->source_count; i++) {
        if (!walk_source(subscriber, i, fn, ctx)) {
            return;
        }
    }
}

/* ---- counters --------------------------------------------------------- */

static void add_numbers(const struct mc_subscriber *subscriber, uint32_t route,
                        struct mc_source_stats *stats)
{
    struct source_numbers numbers;
    source_numbers(subscriber->sources, route, &numbers);
    stats->is_connected |= numbers.is_connected;
    stats->connects += numbers.connects;
    stats->disconnects += numbers.disconnects;
    stats->queue_messages += numbers.queue.messages;
    stats->queue_bytes += numbers.queue.bytes;
    stats->queue_full += numbers.queue.full;
}

void mc_subscriber_stats(const struct mc_subscriber *subscriber,
                         uint32_t source, struct mc_source_stats *stats_out)
{
    *stats_out = (struct mc_source_stats){.epoch = 0};
    if (source >= subscriber->source_count) {
        return;
    }
    stream_stats(subscriber->stream, source, stats_out);
    for (uint32_t i = 0; i < subscriber->route_count; i++) {
        if (subscriber->routes[i].source == source) {
            add_numbers(subscriber, i, stats_out);
        }
    }
}
