/* SPDX-License-Identifier: Apache-2.0 */
/* The first poller listens and hands connections round; the last one is for
 * heartbeats. Stopping goes the other way: no new connections, then all of them
 * closed by the threads they belong to, then the threads. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "control_conn.h"
#include "mc_log.h"
#include "mci_alloc.h"
#include "mci_clock.h"
#include "mci_thread.h"

#define CONNECTIONS_DEFAULT 16384
/* Beyond them: told so; beyond these, closed at once. */
#define REFUSED_MAX 256
#define ACCEPTED_AT_ONCE 64
#define PAUSE_NS (100 * MCI_NS_PER_MS) /* without descriptors */
#define THREADS_MAX 64
#define STALL_DEFAULT_MS 30000
#define OUT_MAX (2 * (size_t)MC_MESSAGE_LEN_MAX)
/* An answer that refuses always finds room. */
#define OUT_SPARE ((size_t)64 << 10)

/* The registry is asked at least so often, whatever it says. */
#define STEP_WAIT_NS (100 * MCI_NS_PER_MS)
#define STOOD_STILL_NS (1 * MCI_NS_PER_S) /* no step takes so long */
#define STEP_LOG_WAIT_MS 300
#define REAP_NS MCI_NS_PER_S

/* ---- connections -------------------------------------------------------- */

struct mci_control_poller *mci_control_pulse(struct mci_control_server *server)
{
    return &server->pollers[server->poller_count - 1];
}

bool mci_control_admit(struct mci_control_server *server)
{
    (void)pthread_mutex_lock(&server->lock);
    bool has_room =
        server->conn_count < server->opts.connections_max + REFUSED_MAX;
    server->conn_count += has_room;
    (void)pthread_mutex_unlock(&server->lock);
    return has_room;
}

void mci_control_leave(struct mci_control_server *server)
{
    (void)pthread_mutex_lock(&server->lock);
    server->conn_count--;
    (void)pthread_cond_broadcast(&server->changed);
    (void)pthread_mutex_unlock(&server->lock);
}

static bool is_crowded(struct mci_control_server *server)
{
    (void)pthread_mutex_lock(&server->lock);
    bool is_over = server->conn_count > server->opts.connections_max;
    (void)pthread_mutex_unlock(&server->lock);
    return is_over;
}

static void take_in(struct mci_control_server *server, int fd)
{
    struct mci_control_conn *conn = NULL;
    if (!mci_control_admit(server)) {
        mc_log(MC_LOG_WARN, "control: too many connections");
        (void)close(fd);
        return;
    }
    if (mci_conn_create(server, fd, &conn) != MC_OK) {
        mc_log(MC_LOG_WARN, "control: accept: out of memory");
        mci_control_leave(server);
        return;
    }
    conn->is_refused = is_crowded(server);
    uint32_t at = server->next_poller++ % (server->poller_count - 1);
    mci_conn_move(conn, &server->pollers[at]);
}

static void on_listener(struct mci_watch *watch, uint32_t events)
{
    struct mci_control_server *server =
        MCI_CONTAINER(watch, struct mci_control_server, listener);
    (void)events;
    for (int i = 0; i < ACCEPTED_AT_ONCE; i++) {
        int fd = accept4(watch->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            take_in(server, fd);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
            errno == ENOMEM) {
            mc_log(MC_LOG_WARN, "control: accept: %s", strerrordesc_np(errno));
            server->paused_until_ns = mci_clock_ns() + PAUSE_NS;
            mci_poller_change(server->pollers[0].poller, watch, 0);
        }
        if (errno != EINTR && errno != ECONNABORTED) {
            return;
        }
    }
}

/* ---- pollers ------------------------------------------------------------ */

static struct mci_control_conn *first_due(struct mci_control_poller *poller,
                                          uint64_t now_ns, uint64_t *next_ns)
{
    struct mci_link *at = poller->running.next;
    for (; at != &poller->running; at = at->next) {
        struct mci_control_conn *conn =
            MCI_CONTAINER(at, struct mci_control_conn, running_link);
        if (conn->again_ns <= now_ns) {
            return conn;
        }
        *next_ns = conn->again_ns < *next_ns ? conn->again_ns : *next_ns;
    }
    return NULL;
}

/* After a pause for want of descriptors. */
static uint64_t listen_again(struct mci_control_server *server, uint64_t now_ns,
                             uint64_t next_ns)
{
    if (now_ns < server->paused_until_ns) {
        return server->paused_until_ns < next_ns ? server->paused_until_ns
                                                 : next_ns;
    }
    server->paused_until_ns = 0;
    mci_poller_change(server->pollers[0].poller, &server->listener, EPOLLIN);
    return next_ns;
}

/* One slice of one job, so that what others ask is looked at in between. */
static uint64_t turn(void *ctx, uint64_t now_ns)
{
    struct mci_control_poller *poller = ctx;
    mci_conns_look_over(poller, now_ns);
    uint64_t next_ns = poller->tick_ns;
    struct mci_control_server *server = poller->server;
    if (server->paused_until_ns > 0 && poller == &server->pollers[0]) {
        next_ns = listen_again(server, now_ns, next_ns);
    }
    struct mci_control_conn *conn = first_due(poller, now_ns, &next_ns);
    if (conn) {
        mci_request_step(conn, now_ns);
        return 0;
    }
    return next_ns;
}

static void on_stop(struct mci_task *task)
{
    struct mci_control_poller *poller =
        MCI_CONTAINER(task, struct mci_control_poller, stop);
    struct mci_control_server *server = poller->server;
    if (poller == &server->pollers[0] && server->is_listening) {
        mci_poller_remove(poller->poller, &server->listener);
        server->is_listening = false;
    }
    mci_conns_close(poller);
}

static enum mc_err open_poller(struct mci_control_server *server,
                               struct mci_control_poller *poller)
{
    bool is_pulse = poller == mci_control_pulse(server);
    const struct mci_poller_opts opts = {.name = is_pulse ? "mc-pulse"
                                                          : "mc-control",
                                         .turn = turn,
                                         .ctx = poller};
    poller->server = server;
    poller->is_pulse = is_pulse;
    poller->stop.run = on_stop;
    mci_list_init(&poller->conns);
    mci_list_init(&poller->running);
    mci_buf_init(&poller->out, OUT_MAX);
    poller->bytes = mci_alloc(MCI_CONN_BYTES);
    poller->slice = mci_slice_create();
    poller->pulse = is_pulse ? mci_pulse_memory_create() : NULL;
    if (!poller->bytes || !poller->slice || (is_pulse && !poller->pulse) ||
        mci_buf_reserve(&poller->out, OUT_SPARE) != MC_OK) {
        return MC_ERR_NOMEM;
    }
    return mci_poller_create(&opts, &poller->poller);
}

static void close_poller(struct mci_control_poller *poller)
{
    mci_poller_destroy(poller->poller);
    mci_buf_fini(&poller->out);
    mci_free(poller->bytes);
    mci_slice_destroy(poller->slice);
    mci_pulse_memory_destroy(poller->pulse);
}

/* ---- the registry's thread ---------------------------------------------- */

void mci_control_kick(struct mci_control_server *server)
{
    (void)pthread_mutex_lock(&server->lock);
    server->is_kicked = true;
    (void)pthread_cond_broadcast(&server->changed);
    (void)pthread_mutex_unlock(&server->lock);
}

/* Waits on the system's clock, which goes on whatever ours says. */
static void wait_for_kick(struct mci_control_server *server, uint64_t wait_ns)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t nsec = (uint64_t)until.tv_nsec + wait_ns;
    until.tv_sec += (time_t)(nsec / MCI_NS_PER_S);
    until.tv_nsec = (long)(nsec % MCI_NS_PER_S);
    while (!server->is_kicked && !server->is_ending) {
        if (pthread_cond_timedwait(&server->changed, &server->lock, &until)) {
            break;
        }
    }
    server->is_kicked = false;
}

static void *step(void *ctx)
{
    struct mci_control_server *server = ctx;
    uint64_t reaped_ns = 0;
    uint64_t last_ns = mci_clock_ns();
    (void)pthread_setname_np(pthread_self(), "mc-registry");
    (void)pthread_mutex_lock(&server->lock);
    while (!server->is_ending) {
        (void)pthread_mutex_unlock(&server->lock);
        uint64_t now_ns = mci_clock_ns();
        if (now_ns > last_ns + STOOD_STILL_NS) {
            mci_registry_was_away(server->ground.registry, now_ns);
        }
        last_ns = now_ns;
        uint64_t next_ns =
            mci_registry_step(server->ground.registry, now_ns,
                              mci_clock_deadline(now_ns, STEP_LOG_WAIT_MS));
        if (now_ns >= reaped_ns + REAP_NS) {
            reaped_ns = now_ns;
            mci_control_clients_reap(&server->clients);
        }
        (void)pthread_mutex_lock(&server->lock);
        now_ns = mci_clock_ns();
        if (next_ns > now_ns) {
            uint64_t wait_ns = next_ns - now_ns;
            wait_for_kick(server,
                          wait_ns < STEP_WAIT_NS ? wait_ns : STEP_WAIT_NS);
        }
    }
    (void)pthread_mutex_unlock(&server->lock);
    return NULL;
}

/* Signals are for the threads of the application. */
static enum mc_err start_stepper(struct mci_control_server *server)
{
    int failed = mci_thread_start(&server->stepper, NULL, step, server);
    if (failed) {
        mc_log(MC_LOG_ERROR, "control: registry thread: error %d", failed);
        return MC_ERR_NOMEM;
    }
    return MC_OK;
}

static void stop_stepper(struct mci_control_server *server)
{
    (void)pthread_mutex_lock(&server->lock);
    server->is_ending = true;
    (void)pthread_cond_broadcast(&server->changed);
    (void)pthread_mutex_unlock(&server->lock);
    (void)pthread_join(server->stepper, NULL);
}

/* ---- life --------------------------------------------------------------- */

static void init_lock(struct mci_control_server *server)
{
    pthread_condattr_t attr;
    (void)pthread_mutex_init(&server->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&server->changed, &attr);
    (void)pthread_condattr_destroy(&attr);
}

static uint32_t thread_count(uint32_t wanted)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (wanted == 0) {
        return cores >= 4 ? 4 : cores < 1 ? 1 : (uint32_t)cores;
    }
    return wanted < THREADS_MAX ? wanted : THREADS_MAX;
}

static enum mc_err open_pollers(struct mci_control_server *server)
{
    server->poller_count = thread_count(server->opts.threads) + 1;
    server->pollers = mci_calloc(server->poller_count, sizeof *server->pollers);
    if (!server->pollers) {
        return MC_ERR_NOMEM;
    }
    for (uint32_t i = 0; i < server->poller_count; i++) {
        enum mc_err err = open_poller(server, &server->pollers[i]);
        if (err != MC_OK) {
            return err;
        }
    }
    return MC_OK;
}

static void close_pollers(struct mci_control_server *server)
{
    for (uint32_t i = 0; server->pollers && i < server->poller_count; i++) {
        close_poller(&server->pollers[i]);
    }
    mci_free(server->pollers);
}

static void on_listen(struct mci_task *task)
{
    struct mci_control_poller *poller =
        MCI_CONTAINER(task, struct mci_control_poller, listen);
    struct mci_control_server *server = poller->server;
    server->is_listening =
        mci_poller_add(poller->poller, &server->listener, EPOLLIN) == MC_OK;
}

enum mc_err
mci_control_server_create(const struct mci_control_server_opts *opts,
                          struct mci_control_server **server_out,
                          uint16_t *port_out, const char **why_out)
{
    *why_out = "out of memory";
    struct mci_control_server *server = mci_calloc(1, sizeof *server);
    if (!server) {
        return MC_ERR_NOMEM;
    }
    server->opts = *opts;
    if (server->opts.connections_max == 0) {
        server->opts.connections_max = CONNECTIONS_DEFAULT;
    }
    server->stall_ns =
        MCI_NS_PER_MS *
        (opts->stall_timeout_ms ? opts->stall_timeout_ms : STALL_DEFAULT_MS);
    server->ground = (struct mci_control_ground){.master = opts->master,
                                                 .registry = opts->registry,
                                                 .epoch = opts->epoch,
                                                 .stat = opts->stat,
                                                 .ctx = opts->ctx};
    server->listener.ready = on_listener;
    init_lock(server);
    mci_control_clients_init(&server->clients, opts->registry);
    enum mc_err err = mci_address_listen(&opts->listen, &server->listener.fd,
                                         port_out, why_out);
    if (err != MC_OK) {
        goto err_free;
    }
    err = open_pollers(server);
    if (err == MC_OK) {
        err = mci_walker_start(&server->walker);
    }
    if (err != MC_OK) {
        goto err_close_pollers;
    }
    err = start_stepper(server);
    if (err != MC_OK) {
        goto err_stop_walker;
    }
    server->pollers[0].listen.run = on_listen;
    mci_poller_post(server->pollers[0].poller, &server->pollers[0].listen);
    *server_out = server;
    return MC_OK;

err_stop_walker:
    mci_walker_stop(&server->walker);
err_close_pollers:
    close_pollers(server);
    (void)close(server->listener.fd);
err_free:
    mci_control_clients_fini(&server->clients);
    (void)pthread_cond_destroy(&server->changed);
    (void)pthread_mutex_destroy(&server->lock);
    mci_free(server);
    return err;
}

static void await_no_connections(struct mci_control_server *server)
{
    (void)pthread_mutex_lock(&server->lock);
    while (server->conn_count > 0) {
        (void)pthread_cond_wait(&server->changed, &server->lock);
    }
    (void)pthread_mutex_unlock(&server->lock);
}

void mci_control_server_destroy(struct mci_control_server *server)
{
    if (!server) {
        return;
    }
    atomic_store(&server->is_stopping, true);
    for (uint32_t i = 0; i < server->poller_count; i++) {
        mci_poller_post(server->pollers[i].poller, &server->pollers[i].stop);
    }
    mci_walker_stop(&server->walker);
    await_no_connections(server);
    stop_stepper(server);
    close_pollers(server);
    (void)close(server->listener.fd);
    mci_control_clients_fini(&server->clients);
    (void)pthread_cond_destroy(&server->changed);
    (void)pthread_mutex_destroy(&server->lock);
    mci_free(server);
}

/* ---- figures ------------------------------------------------------------ */

static void add_each(const atomic_uint_fast64_t *counters, uint64_t *sums)
{
    for (size_t i = 0; i < MCI_OPS_COUNTED; i++) {
        sums[i] += atomic_load_explicit(&counters[i], memory_order_relaxed);
    }
}

static void add_poller(const struct mci_control_counts *counts,
                       struct mci_control_stats *stats)
{
    add_each(counts->requests, stats->requests);
    add_each(counts->failures, stats->failures);
    add_each(counts->partial, stats->partial);
    add_each(counts->items, stats->items);
    add_each(counts->failed_items, stats->failed_items);
    stats->stale += atomic_load_explicit(&counts->stale, memory_order_relaxed);
    stats->repeated +=
        atomic_load_explicit(&counts->repeated, memory_order_relaxed);
    stats->malformed +=
        atomic_load_explicit(&counts->malformed, memory_order_relaxed);
}

void mci_control_server_stat(struct mci_control_server *server,
                             struct mci_control_stats *stats_out)
{
    memset(stats_out, 0, sizeof *stats_out);
    for (uint32_t i = 0; i < server->poller_count; i++) {
        add_poller(&server->pollers[i].counts, stats_out);
    }
    (void)pthread_mutex_lock(&server->lock);
    stats_out->connections = server->conn_count;
    (void)pthread_mutex_unlock(&server->lock);
    stats_out->kept_bytes = mci_control_clients_kept(&server->clients);
}
