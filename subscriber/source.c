/* SPDX-License-Identifier: Apache-2.0 */
/* The reading thread polls, in this order, its wake-up fd, a monitor per source,
 * and the sockets; while the queue is full it leaves the last ones out. The
 * monitor of a socket is looked at after each message has been received and
 * before it is handed on: libzmq tells of a connection before it passes anything
 * that came over it. */
#include "source.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "mc_log.h"
#include "mci_alloc.h"
#include "mci_thread.h"
#include "mq_socket.h"

#define BURST_MAX 256     /* messages read of one source before the next */
#define NO_MEMORY_WAIT 10 /* ms, then it is tried again */

struct letter { /* a message with the parts that its frames point into */
    struct source_message message;
    zmq_msg_t parts[SOURCE_FRAMES_MAX];
};

struct connection {
    char *endpoint; /* NULL: none */
    char *topic;
    struct mq_keys keys;
    void *socket;
    void *monitor;
    _Atomic bool is_connected;
    _Atomic uint64_t connects;
    _Atomic uint64_t disconnects;
};

struct source_set {
    struct connection *connections;
    uint32_t count;
    uint32_t open_count; /* connections with an endpoint, and so a socket */
    source_message_fn on_message;
    void *ctx;
    void *zmq;
    int wake_fd;
    struct inbox inbox;
    pthread_t thread;
    atomic_bool is_stopping;
    /* Of the reading thread: */
    zmq_pollitem_t *items; /* wake, monitors, sockets */
    uint32_t *polled;      /* which connection the i-th monitor belongs to */
    struct letter *letter; /* being filled, or NULL */
    /* Guarded by ready_lock: */
    pthread_mutex_t ready_lock;
    pthread_cond_t ready;
    bool is_ready;
    enum mc_err ready_err;
};

/* ---- letters ---------------------------------------------------------- */

static struct letter *letter_get(struct source_set *set)
{
    struct letter *letter = (struct letter *)(void *)inbox_get(&set->inbox);
    if (!letter) {
        letter = mci_alloc(sizeof *letter);
    }
    if (letter) {
        letter->message.count = 0;
    }
    return letter;
}

static void letter_empty(struct letter *letter)
{
    mq_drop(letter->parts, letter->message.count);
    letter->message.count = 0;
}

/* ---- the thread ------------------------------------------------------- */

/* False where reading has to pause. */
static bool hand_on(struct source_set *set, struct letter *letter)
{
    struct source_message *message = &letter->message;
    set->letter = NULL;
    message->letter.bytes = sizeof *letter;
    for (size_t i = 0; i < message->count; i++) {
        message->letter.bytes += message->frames[i].len;
    }
    if (!set->on_message) {
        return inbox_put(&set->inbox, &message->letter);
    }
    set->on_message(set->ctx, message);
    letter_empty(letter);
    set->letter = letter;
    return true;
}

/* Takes in what the monitor says; true if a connection was made. */
static bool hear_monitor(struct connection *connection)
{
    bool is_new = false;
    unsigned event = 0;
    while (mq_receive_word(connection->monitor, &event)) {
        bool is_up = event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
        is_new |= is_up;
        atomic_store_explicit(&connection->is_connected, is_up,
                              memory_order_relaxed);
        atomic_fetch_add_explicit(is_up ? &connection->connects
                                        : &connection->disconnects,
                                  1, memory_order_relaxed);
    }
    return is_new;
}

/* Passes on that a connection was made; false where there is no memory to. */
static bool tell_connect(struct source_set *set, uint32_t source)
{
    struct letter *letter = letter_get(set);
    if (!letter) {
        return false;
    }
    struct letter *filled = set->letter;
    letter->message.is_connect = true;
    letter->message.letter.source = source;
    (void)hand_on(set, letter);
    if (set->letter) { /* back already; the one being filled goes on */
        mci_free(set->letter);
    }
    set->letter = filled;
    return true;
}

/* Reads up to a burst of messages; false where reading has to pause. */
static bool read_source(struct source_set *set, uint32_t source)
{
    struct connection *connection = &set->connections[source];
    for (int i = 0; i < BURST_MAX; i++) {
        if (!set->letter) {
            set->letter = letter_get(set);
        }
        struct letter *letter = set->letter;
        if (!letter) {
            (void)zmq_poll(set->items, 1, NO_MEMORY_WAIT);
            return true;
        }
        struct source_message *message = &letter->message;
        if (!mq_receive(connection->socket, letter->parts, message->frames,
                        SOURCE_FRAMES_MAX, &message->count)) {
            return true;
        }
        if (hear_monitor(connection)) {
            (void)tell_connect(set, source);
        }
        message->is_connect = false;
        message->letter.source = source;
        if (!hand_on(set, letter)) {
            inbox_count_pause(&set->inbox, source);
            return false;
        }
    }
    return true;
}

/* Words of connections over which nothing has come yet. */
static void hear_all(struct source_set *set)
{
    for (uint32_t i = 0; i < set->open_count; i++) {
        uint32_t source = set->polled[i];
        if (set->items[1 + i].revents &&
            hear_monitor(&set->connections[source])) {
            (void)tell_connect(set, source);
        }
    }
}

/* False where reading has to pause. */
static bool read_all(struct source_set *set)
{
    bool has_room = true;
    for (uint32_t i = 0; i < set->open_count; i++) {
        if (set->items[1 + set->open_count + i].revents) {
            has_room &= read_source(set, set->polled[i]);
        }
    }
    return has_room;
}

static void read_on(struct source_set *set)
{
    bool is_paused = false;
    while (!atomic_load(&set->is_stopping)) {
        is_paused = is_paused && inbox_is_full(&set->inbox);
        int count = (int)(1 + set->open_count * (is_paused ? 1 : 2));
        if (zmq_poll(set->items, count, -1) < 0 && errno != EINTR) {
            mc_log(MC_LOG_ERROR, "subscriber: poll: %s", zmq_strerror(errno));
            return;
        }
        if (set->items[0].revents) {
            eventfd_t woken;
            (void)eventfd_read(set->wake_fd, &woken);
        }
        hear_all(set);
        is_paused = is_paused || !read_all(set);
    }
}

/* ---- sockets ---------------------------------------------------------- */

static enum mc_err open_connection(struct source_set *set,
                                   struct connection *connection)
{
    char name[64];
    (void)snprintf(name, sizeof name, "inproc://monitor-%td",
                   connection - set->connections);
    connection->socket =
        mq_open_sub(set->zmq, &connection->keys, connection->topic);
    connection->monitor =
        connection->socket ? mq_open_monitor(set->zmq, connection->socket, name)
                           : NULL;
    return connection->monitor
               ? mq_connect(connection->socket, connection->endpoint)
               : MC_ERR_INTERNAL_ERROR;
}

static enum mc_err open_connections(struct source_set *set)
{
    set->items[0] = (zmq_pollitem_t){.fd = set->wake_fd, .events = ZMQ_POLLIN};
    for (uint32_t i = 0; i < set->open_count; i++) {
        struct connection *connection = &set->connections[set->polled[i]];
        enum mc_err err = open_connection(set, connection);
        if (err != MC_OK) {
            return err;
        }
        set->items[1 + i] = (zmq_pollitem_t){.socket = connection->monitor,
                                             .events = ZMQ_POLLIN};
        set->items[1 + set->open_count + i] = (zmq_pollitem_t){
            .socket = connection->socket, .events = ZMQ_POLLIN};
    }
    return MC_OK;
}

static void close_connections(struct source_set *set)
{
    for (uint32_t i = 0; i < set->count; i++) {
        mq_close(set->connections[i].socket);
        mq_close(set->connections[i].monitor);
    }
}

static void *run(void *arg)
{
    struct source_set *set = arg;
    enum mc_err err = open_connections(set);
    pthread_mutex_lock(&set->ready_lock);
    set->is_ready = true;
    set->ready_err = err;
    pthread_cond_signal(&set->ready);
    pthread_mutex_unlock(&set->ready_lock);
    if (err == MC_OK) {
        read_on(set);
    }
    close_connections(set);
    return NULL;
}

/* ---- opening and closing ---------------------------------------------- */

static bool copy_text(const char *text, char **copy_out)
{
    *copy_out = text ? mci_strdup_n(text, strlen(text)) : NULL;
    return !text || *copy_out;
}

static enum mc_err read_all_keys(struct source_set *set,
                                 const struct source_opts *opts)
{
    enum mc_err err = MC_OK;
    for (uint32_t i = 0; !err && i < opts->source_count; i++) {
        err = mq_keys_read(&opts->sources[i], &set->connections[i].keys);
    }
    return err;
}

static bool copy_sources(struct source_set *set, const struct source_opts *opts)
{
    for (uint32_t i = 0; i < opts->source_count; i++) {
        const struct mc_source_opts *source = &opts->sources[i];
        struct connection *connection = &set->connections[i];
        if (!copy_text(source->endpoint, &connection->endpoint) ||
            !copy_text(source->topic, &connection->topic)) {
            return false;
        }
        if (source->endpoint) {
            set->polled[set->open_count++] = i;
        }
    }
    return true;
}

static void free_parts(struct source_set *set)
{
    for (uint32_t i = 0; set->connections && i < set->count; i++) {
        mci_free(set->connections[i].endpoint);
        mci_free(set->connections[i].topic);
        mq_keys_wipe(&set->connections[i].keys);
    }
    mci_free(set->connections);
    mci_free(set->polled);
    mci_free(set->items);
    mci_free(set);
}

static enum mc_err make_parts(const struct source_opts *opts,
                              struct source_set **set_out)
{
    struct source_set *set = mci_calloc(1, sizeof *set);
    if (!set) {
        return MC_ERR_NOMEM;
    }
    set->count = opts->source_count;
    set->on_message = opts->on_message;
    set->ctx = opts->ctx;
    set->connections = mci_calloc(set->count, sizeof *set->connections);
    set->polled = mci_calloc(set->count, sizeof *set->polled);
    set->items = mci_calloc(1 + 2 * (size_t)set->count, sizeof *set->items);
    if (!set->connections || !set->polled || !set->items ||
        !copy_sources(set, opts)) {
        free_parts(set);
        return MC_ERR_NOMEM;
    }
    enum mc_err err = read_all_keys(set, opts);
    if (err) {
        free_parts(set);
        return err;
    }
    *set_out = set;
    return MC_OK;
}

/* Signals are for the caller's threads. */
static bool start_thread(struct source_set *set)
{
    bool is_started = mci_thread_start(&set->thread, NULL, run, set) == 0;
    if (is_started) {
        (void)pthread_setname_np(set->thread, "mc-subscriber");
    }
    return is_started;
}

static enum mc_err wait_ready(struct source_set *set)
{
    pthread_mutex_lock(&set->ready_lock);
    while (!set->is_ready) {
        pthread_cond_wait(&set->ready, &set->ready_lock);
    }
    enum mc_err err = set->ready_err;
    pthread_mutex_unlock(&set->ready_lock);
    if (err != MC_OK) {
        pthread_join(set->thread, NULL);
    }
    return err;
}

static enum mc_err start(struct source_set *set)
{
    if (set->open_count == 0) {
        return MC_OK;
    }
    if (!start_thread(set)) {
        return MC_ERR_INTERNAL_ERROR;
    }
    return wait_ready(set);
}

static void end_zmq(void *zmq)
{
    while (zmq_ctx_term(zmq) != 0 && errno == EINTR) {
    }
}

static enum mc_err open_fds(struct source_set *set, uint64_t max_queue_bytes)
{
    set->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (set->wake_fd < 0) {
        return MC_ERR_INTERNAL_ERROR;
    }
    enum mc_err err =
        inbox_init(&set->inbox, set->count, max_queue_bytes, set->wake_fd);
    if (err != MC_OK) {
        close(set->wake_fd);
    }
    return err;
}

static void close_fds(struct source_set *set)
{
    struct inbox_letter *letter;
    while ((letter = inbox_drain(&set->inbox))) {
        letter_empty((struct letter *)(void *)letter);
        mci_free(letter);
    }
    mci_free(set->letter);
    inbox_fini(&set->inbox);
    close(set->wake_fd);
}

enum mc_err source_open(const struct source_opts *opts,
                        struct source_set **set_out)
{
    struct source_set *set = NULL;
    enum mc_err err = make_parts(opts, &set);
    if (err != MC_OK) {
        return err;
    }
    err = open_fds(set, opts->max_queue_bytes);
    if (err != MC_OK) {
        goto err_free_parts;
    }
    set->zmq = zmq_ctx_new();
    if (!set->zmq) {
        err = MC_ERR_NOMEM;
        goto err_close_fds;
    }
    pthread_mutex_init(&set->ready_lock, NULL);
    pthread_cond_init(&set->ready, NULL);
    err = start(set);
    if (err != MC_OK) {
        goto err_end_zmq;
    }
    *set_out = set;
    return MC_OK;

err_end_zmq:
    pthread_cond_destroy(&set->ready);
    pthread_mutex_destroy(&set->ready_lock);
    end_zmq(set->zmq);
err_close_fds:
    close_fds(set);
err_free_parts:
    free_parts(set);
    return err;
}

void source_close(struct source_set *set)
{
    if (!set) {
        return;
    }
    if (set->open_count > 0) {
        atomic_store(&set->is_stopping, true);
        (void)eventfd_write(set->wake_fd, 1);
        pthread_join(set->thread, NULL);
    }
    pthread_cond_destroy(&set->ready);
    pthread_mutex_destroy(&set->ready_lock);
    end_zmq(set->zmq);
    close_fds(set);
    free_parts(set);
}

/* ---- the taker -------------------------------------------------------- */

int source_fd(const struct source_set *set)
{
    return set->on_message ? -1 : set->inbox.fd;
}

uint64_t source_count(struct source_set *set)
{
    return inbox_count(&set->inbox);
}

struct source_message *source_take(struct source_set *set)
{
    return (struct source_message *)(void *)inbox_take(&set->inbox);
}

void source_rest(struct source_set *set)
{
    inbox_rest(&set->inbox);
}

void source_give_back(struct source_set *set, struct source_message *message)
{
    struct letter *letter = (struct letter *)(void *)message;
    letter_empty(letter);
    if (!inbox_give_back(&set->inbox, &message->letter)) {
        mci_free(letter);
    }
}

void source_numbers(struct source_set *set, uint32_t source,
                    struct source_numbers *numbers_out)
{
    const struct connection *connection = &set->connections[source];
    numbers_out->is_connected =
        atomic_load_explicit(&connection->is_connected, memory_order_relaxed);
    numbers_out->connects =
        atomic_load_explicit(&connection->connects, memory_order_relaxed);
    numbers_out->disconnects =
        atomic_load_explicit(&connection->disconnects, memory_order_relaxed);
    inbox_load(&set->inbox, source, &numbers_out->queue);
}
