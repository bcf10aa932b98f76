/* SPDX-License-Identifier: Apache-2.0 */
/* What others want of the reading thread (stop, requests, a tick) they write
 * down, and then ring its wake-up fd. */
#include "source_parts.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "mc_log.h"
#include "mci_alloc.h"
#include "mci_thread.h"

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
            !copy_text(source->recovery_endpoint,
                       &connection->recovery_endpoint) ||
            !copy_text(source->topic, &connection->topic)) {
            return false;
        }
        set->servers[i] =
            (struct asker_server){.endpoint = connection->recovery_endpoint,
                                  .keys = &connection->keys};
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
        mci_free(set->connections[i].recovery_endpoint);
        mci_free(set->connections[i].topic);
        mq_keys_wipe(&set->connections[i].keys);
    }
    asker_destroy(set->asker);
    mci_free(set->servers);
    mci_free(set->connections);
    mci_free(set->polled);
    mci_free(set->items);
    mci_free(set);
}

static enum mc_err make_asker(struct source_set *set)
{
    enum mc_err err = asker_create(set->servers, set->count,
                                   SOURCE_REQUESTS_MAX, &set->asker);
    if (err) {
        return err;
    }
    uint32_t requests = asker_capacity(set->asker);
    set->has_thread = set->open_count > 0 || requests > 0;
    set->items =
        mci_calloc(1 + 2 * (size_t)set->count + requests, sizeof *set->items);
    return set->items ? MC_OK : MC_ERR_NOMEM;
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
    set->servers = mci_calloc(set->count, sizeof *set->servers);
    set->polled = mci_calloc(set->count, sizeof *set->polled);
    atomic_init(&set->wake_at_ns, UINT64_MAX);
    if (!set->connections || !set->servers || !set->polled ||
        !copy_sources(set, opts)) {
        free_parts(set);
        return MC_ERR_NOMEM;
    }
    enum mc_err err = make_asker(set);
    err = err ? err : read_all_keys(set, opts);
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
    bool is_started =
        mci_thread_start(&set->thread, NULL, source_read, set) == 0;
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
    if (!set->has_thread) {
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
        source_letter_empty((struct letter *)(void *)letter);
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
    *set_out = set; /* its thread may call on_message before this returns */
    err = start(set);
    if (err != MC_OK) {
        goto err_end_zmq;
    }
    return MC_OK;

err_end_zmq:
    *set_out = NULL;
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
    if (set->has_thread) {
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

static bool is_dropped(struct source_set *set, const struct letter *letter)
{
    const struct source_message *message = &letter->message;
    return message->word == SOURCE_ANSWER &&
           !asker_is_open(set->asker, letter->place, message->request);
}

struct source_message *source_take(struct source_set *set)
{
    for (;;) {
        struct letter *letter =
            (struct letter *)(void *)inbox_take(&set->inbox);
        if (!letter || !is_dropped(set, letter)) {
            return letter ? &letter->message : NULL;
        }
        source_give_back(set, &letter->message);
    }
}

void source_rest(struct source_set *set)
{
    inbox_rest(&set->inbox);
}

void source_give_back(struct source_set *set, struct source_message *message)
{
    struct letter *letter = (struct letter *)(void *)message;
    source_letter_empty(letter);
    if (!inbox_give_back(&set->inbox, &message->letter)) {
        mci_free(letter);
    }
}

/* ---- what the reading thread is to do --------------------------------- */

static void ring(struct source_set *set)
{
    (void)eventfd_write(set->wake_fd, 1);
}

enum mc_err source_ask(struct source_set *set,
                       const struct asker_request *request)
{
    enum mc_err err = asker_ask(set->asker, request);
    ring(set);
    return err;
}

void source_credit(struct source_set *set, uint64_t number, uint32_t credit)
{
    asker_credit(set->asker, number, credit);
    ring(set);
}

void source_drop(struct source_set *set, uint64_t number)
{
    asker_drop(set->asker, number);
    ring(set);
}

/* A later time needs no ring: it wakes up at the earlier one, and sees. */
void source_wake_at(struct source_set *set, uint64_t at_ns)
{
    if (atomic_exchange(&set->wake_at_ns, at_ns) > at_ns) {
        ring(set);
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
