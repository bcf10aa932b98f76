/* SPDX-License-Identifier: Apache-2.0 */
/* The reading thread polls, in this order, its wake-up fd, a monitor per source,
 * the sockets, and those of open requests; while the queue is full it leaves out
 * all but the first two. The monitor of a socket is looked at after each message
 * has been received and before it is handed on: libzmq tells of a connection
 * before it passes anything that came over it. */
#include "source_parts.h"

#include <errno.h>
#include <stdio.h>
#include <sys/eventfd.h>

#include "mc_log.h"
#include "mci_alloc.h"
#include "mci_clock.h"

#define BURST_MAX 256         /* messages read of one source before the next */
#define NO_MEMORY_WAIT 10     /* ms, then it is tried again */
#define TICK_WAIT_MAX 3600000 /* ms, then it is looked at again */
#define AGAIN_NS (500 * MCI_NS_PER_MS) /* for libzmq to connect by itself */

/* ---- letters ---------------------------------------------------------- */

static struct letter *letter_get(struct source_set *set)
{
    struct letter *letter = (struct letter *)(void *)inbox_get(&set->inbox);
    if (!letter) {
        letter = mci_alloc(sizeof *letter);
    }
    if (letter) {
        letter->message.count = 0;
        letter->part_count = 0;
    }
    return letter;
}

void source_letter_empty(struct letter *letter)
{
    mq_drop(letter->parts, letter->part_count);
    letter->message.count = 0;
    letter->part_count = 0;
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
    source_letter_empty(letter);
    set->letter = letter;
    return true;
}

static void went_up(struct connection *connection)
{
    connection->again_at_ns = 0;
    atomic_store_explicit(&connection->is_connected, true,
                          memory_order_relaxed);
    atomic_fetch_add_explicit(&connection->connects, 1, memory_order_relaxed);
}

/* libzmq says next that it tries again, if it does. A connection that broke the
 * protocol ends with one word: that a handshake failed, or that it is lost. */
static void went_down(struct connection *connection)
{
    bool was_up = atomic_exchange_explicit(&connection->is_connected, false,
                                           memory_order_relaxed);
    connection->again_at_ns = mci_clock_ns() + AGAIN_NS;
    if (was_up) {
        atomic_fetch_add_explicit(&connection->disconnects, 1,
                                  memory_order_relaxed);
    }
}

/* Takes in what the monitor says; true if a connection was made. */
static bool hear_monitor(struct connection *connection)
{
    bool is_new = false;
    unsigned event = 0;
    while (mq_receive_word(connection->monitor, &event)) {
        switch (event) {
        case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
            went_up(connection);
            is_new = true;
            break;
        case ZMQ_EVENT_DISCONNECTED:
        case ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL:
        case ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL:
        case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
            went_down(connection);
            break;
        default:
            connection->again_at_ns = 0; /* libzmq is at it */
        }
    }
    return is_new;
}

/* Those that libzmq has given up. */
static void connect_again(struct source_set *set)
{
    for (uint32_t i = 0; i < set->open_count; i++) {
        struct connection *connection = &set->connections[set->polled[i]];
        uint64_t now_ns = mci_clock_ns();
        if (connection->again_at_ns == 0 || connection->again_at_ns > now_ns) {
            continue;
        }
        mc_log(MC_LOG_INFO,
               "subscriber: endpoint %s: given up, connecting again",
               connection->endpoint);
        bool is_tried =
            mq_connect_again(connection->socket, connection->endpoint);
        connection->again_at_ns = is_tried ? 0 : now_ns + AGAIN_NS;
    }
}

/* Hands on what is no message, with nothing in it; false where there is no
 * memory to. A letter that is being filled stays what it was. */
static bool tell(struct source_set *set, const struct source_message *told,
                 uint32_t place)
{
    struct letter *letter = letter_get(set);
    if (!letter) {
        return false;
    }
    struct letter *filled = set->letter;
    letter->message = *told;
    letter->place = place;
    (void)hand_on(set, letter);
    mci_free(set->letter); /* back already, if it is */
    set->letter = filled;
    return true;
}

static void tell_connect(struct source_set *set, uint32_t source)
{
    (void)tell(set,
               &(struct source_message){.letter = {.source = source},
                                        .word = SOURCE_CONNECT},
               0);
}

/* The letter to fill next. NULL after a pause: there is no memory. */
static struct letter *letter_to_fill(struct source_set *set)
{
    if (!set->letter) {
        set->letter = letter_get(set);
    }
    if (!set->letter) {
        (void)zmq_poll(set->items, 1, NO_MEMORY_WAIT);
    }
    return set->letter;
}

/* Reads up to a burst of messages; false where reading has to pause. */
static bool read_source(struct source_set *set, uint32_t source)
{
    struct connection *connection = &set->connections[source];
    for (int i = 0; i < BURST_MAX; i++) {
        struct letter *letter = letter_to_fill(set);
        if (!letter) {
            return true;
        }
        struct source_message *message = &letter->message;
        if (!mq_receive(connection->socket, letter->parts, message->frames,
                        SOURCE_FRAMES_MAX, &message->count)) {
            return true;
        }
        letter->part_count = message->count;
        if (hear_monitor(connection)) {
            tell_connect(set, source);
        }
        message->word = SOURCE_MESSAGE;
        message->letter.source = source;
        if (!hand_on(set, letter)) {
            inbox_count_pause(&set->inbox, source);
            return false;
        }
    }
    return true;
}

/* ---- requests --------------------------------------------------------- */

/* An answer with no frames. */
static void tell_failed(void *ctx, uint32_t place)
{
    struct source_set *set = ctx;
    uint64_t number = asker_number(set->asker, place);
    if (asker_is_open(set->asker, place, number)) {
        (void)tell(set,
                   &(struct source_message){
                       .letter = {.source = asker_source(set->asker, place)},
                       .word = SOURCE_ANSWER,
                       .request = number},
                   place);
    }
}

/* What stands behind the delimiter; what has none is no answer. */
static void strip(struct letter *letter, const struct mc_view *frames)
{
    struct source_message *message = &letter->message;
    bool is_answer = letter->part_count > 0 && frames[0].len == 0;
    message->count = is_answer ? letter->part_count - 1 : 0;
    for (size_t i = 0; i < message->count; i++) {
        message->frames[i] = frames[1 + i];
    }
}

/* Reads up to a burst of answers; false where reading has to pause. */
static bool read_answers(struct source_set *set, uint32_t place)
{
    uint64_t number = asker_number(set->asker, place);
    uint32_t source = asker_source(set->asker, place);
    for (int i = 0; i < BURST_MAX; i++) {
        struct letter *letter = letter_to_fill(set);
        struct mc_view frames[PARTS_MAX];
        if (!letter || !asker_is_open(set->asker, place, number)) {
            return true;
        }
        if (!asker_receive(set->asker, place, letter->parts, frames, PARTS_MAX,
                           &letter->part_count)) {
            return true;
        }
        strip(letter, frames);
        letter->message.word = SOURCE_ANSWER;
        letter->message.request = number;
        letter->message.letter.source = source;
        letter->place = place;
        if (!hand_on(set, letter)) {
            inbox_count_pause(&set->inbox, source);
            return false;
        }
    }
    return true;
}

/* ---- the loop --------------------------------------------------------- */

/* Words of connections over which nothing has come yet. */
static void hear_all(struct source_set *set)
{
    for (uint32_t i = 0; i < set->open_count; i++) {
        uint32_t source = set->polled[i];
        if (set->items[1 + i].revents &&
            hear_monitor(&set->connections[source])) {
            tell_connect(set, source);
        }
    }
}

/* False where reading has to pause. */
static bool read_all(struct source_set *set)
{
    bool has_room = true;
    const zmq_pollitem_t *sockets = &set->items[1 + set->open_count];
    for (uint32_t i = 0; i < set->open_count; i++) {
        if (sockets[i].revents) {
            has_room &= read_source(set, set->polled[i]);
        }
    }
    const zmq_pollitem_t *requests = &sockets[set->open_count];
    for (uint32_t i = 0; i < set->request_count; i++) {
        if (requests[i].revents & ZMQ_POLLIN) {
            has_room &= read_answers(set, asker_place(set->asker, i));
        }
    }
    return has_room;
}

/* How long to wait, in ms, until a tick or a connection is due; -1: for ever. */
static long due_wait(const struct source_set *set)
{
    uint64_t at_ns = atomic_load(&set->wake_at_ns);
    uint64_t now_ns = mci_clock_ns();
    for (uint32_t i = 0; i < set->open_count; i++) {
        uint64_t again_ns = set->connections[set->polled[i]].again_at_ns;
        at_ns = again_ns > 0 && again_ns < at_ns ? again_ns : at_ns;
    }
    if (at_ns == UINT64_MAX) {
        return -1;
    }
    uint64_t left_ns = at_ns > now_ns ? at_ns - now_ns : 0;
    uint64_t left_ms = left_ns / MCI_NS_PER_MS + (left_ns % MCI_NS_PER_MS > 0);
    return left_ms < TICK_WAIT_MAX ? (long)left_ms : TICK_WAIT_MAX;
}

/* Hands on a tick that is due, unless another time is asked for meanwhile; where
 * there is no memory it is due still. */
static void tick(struct source_set *set)
{
    uint64_t at_ns = atomic_load(&set->wake_at_ns);
    if (at_ns > mci_clock_ns() ||
        !atomic_compare_exchange_strong(&set->wake_at_ns, &at_ns, UINT64_MAX)) {
        return;
    }
    if (!tell(set, &(struct source_message){.word = SOURCE_TICK}, 0)) {
        uint64_t never = UINT64_MAX;
        (void)atomic_compare_exchange_strong(&set->wake_at_ns, &never, at_ns);
        (void)zmq_poll(set->items, 1, NO_MEMORY_WAIT);
    }
}

/* Fills in the requests to poll; how many items that makes. Without the sockets
 * while reading is paused. */
static int gather(struct source_set *set, bool is_paused)
{
    uint32_t sources = set->open_count;
    set->request_count =
        asker_poll(set->asker, &set->items[1 + 2 * (size_t)sources]);
    return (int)(is_paused ? 1 + sources
                           : 1 + 2 * sources + set->request_count);
}

static void read_on(struct source_set *set)
{
    bool is_paused = false;
    while (!atomic_load(&set->is_stopping)) {
        is_paused = is_paused && inbox_is_full(&set->inbox);
        int count = gather(set, is_paused);
        if (zmq_poll(set->items, count, due_wait(set)) < 0 && errno != EINTR) {
            mc_log(MC_LOG_ERROR, "subscriber: poll: %s", zmq_strerror(errno));
            return;
        }
        if (set->items[0].revents) {
            eventfd_t woken;
            (void)eventfd_read(set->wake_fd, &woken);
        }
        hear_all(set);
        is_paused = is_paused || !read_all(set);
        asker_settle(set->asker, set->zmq, tell_failed, set);
        connect_again(set);
        tick(set);
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
    asker_close(set->asker);
    for (uint32_t i = 0; i < set->count; i++) {
        mq_close(set->connections[i].socket);
        mq_close(set->connections[i].monitor);
    }
}

void *source_read(void *arg)
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
