/* SPDX-License-Identifier: Apache-2.0 */
#include "tcp_server.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "mc_log.h"
#include "mci_address.h"
#include "mci_alloc.h"
#include "mci_clock.h"
#include "mci_hash.h"
#include "mci_stream.h"
#include "tcp_conn.h"

#define ACCEPT_MAX 64 /* in one turn */
#define PORT_PAUSE_NS (100 * (long)MCI_NS_PER_MS)
#define LISTEN_AGAIN_NS (100 * MCI_NS_PER_MS)
#define LOOK_NS (1 * MCI_NS_PER_S)

/* ---- who is inside --------------------------------------------------------- */

_Atomic uint32_t *mci_tcp_server_inside(struct mci_tcp_server *server,
                                        uint64_t registration, uint64_t attempt)
{
    const uint64_t words[2] = {registration, attempt};
    return &server->inside[mci_hash64(words, sizeof words) % MCI_TCP_INSIDE];
}

/* ---- sweeps ------------------------------------------------------------------ */

struct sweep_task {
    struct mci_task task;
    struct mci_tcp_sweep *sweep;
    struct mci_tcp_thread *thread;
};

struct mci_tcp_sweep {
    const struct mci_exposed *gone;
    _Atomic uint32_t left; /* threads that have not looked yet */
    /* for a connection */
    struct mci_task told;
    struct mci_tcp_thread *origin; /* NULL: somebody waits below */
    struct mci_tcp_conn *conn;     /* of origin's thread */
    /* for who waits */
    pthread_mutex_t lock;
    pthread_cond_t done;
    bool is_done;
    uint32_t count;
    struct sweep_task tasks[];
};

static void cut_off(struct mci_tcp_thread *thread,
                    const struct mci_exposed *gone)
{
    struct mci_link *link = thread->conns.next;
    while (link != &thread->conns) {
        struct mci_tcp_conn *conn =
            MCI_CONTAINER(link, struct mci_tcp_conn, in_thread);
        link = link->next;
        if (atomic_load(&thread->server->is_closing)) {
            mci_tcp_conn_destroy(conn);
        } else if (mci_tcp_conn_is_over(conn, gone)) {
            mc_log(MC_LOG_DEBUG, "peer %s: cut off: what it does is closed",
                   mci_stream_peer(conn->stream));
            mci_tcp_conn_destroy(conn);
        }
    }
}

/* On the origin's thread. */
static void tell_conn(struct mci_task *task)
{
    struct mci_tcp_sweep *sweep =
        MCI_CONTAINER(task, struct mci_tcp_sweep, told);
    struct mci_tcp_conn *conn = sweep->conn;
    mci_free(sweep);
    if (conn) {
        conn->sweep = NULL;
        mci_tcp_conn_swept(conn);
    }
}

static void tell(struct mci_tcp_sweep *sweep)
{
    if (sweep->origin) {
        mci_poller_post(sweep->origin->poller, &sweep->told);
        return;
    }
    (void)pthread_mutex_lock(&sweep->lock);
    sweep->is_done = true;
    (void)pthread_cond_signal(&sweep->done);
    (void)pthread_mutex_unlock(&sweep->lock);
}

static void sweep_thread(struct mci_task *task)
{
    struct sweep_task *own = MCI_CONTAINER(task, struct sweep_task, task);
    struct mci_tcp_sweep *sweep = own->sweep;
    cut_off(own->thread, sweep->gone);
    if (atomic_fetch_sub(&sweep->left, 1) == 1) {
        tell(sweep);
    }
}

static struct mci_tcp_sweep *sweep_create(struct mci_tcp_server *server)
{
    struct mci_tcp_sweep *sweep = mci_calloc(
        1, sizeof *sweep + server->thread_count * sizeof(struct sweep_task));
    if (!sweep) {
        return NULL;
    }
    sweep->count = server->thread_count;
    sweep->told.run = tell_conn;
    atomic_init(&sweep->left, sweep->count);
    for (uint32_t i = 0; i < sweep->count; i++) {
        sweep->tasks[i].task.run = sweep_thread;
        sweep->tasks[i].sweep = sweep;
        sweep->tasks[i].thread = &server->threads[i];
    }
    return sweep;
}

/* All threads may have looked, and the sweep be gone, when this returns. */
static void sweep_post(struct mci_tcp_sweep *sweep)
{
    struct mci_tcp_thread *threads = sweep->tasks[0].thread;
    uint32_t count = sweep->count;
    for (uint32_t i = 0; i < count; i++) {
        mci_poller_post(threads[i].poller, &sweep->tasks[i].task);
    }
}

void mci_tcp_server_sweep(struct mci_tcp_server *server,
                          const struct mci_exposed *gone)
{
    struct mci_tcp_sweep *sweep = server->sweep;
    (void)pthread_mutex_lock(&server->sweep_lock);
    sweep->gone = gone;
    sweep->is_done = false;
    atomic_store(&sweep->left, sweep->count);
    sweep_post(sweep);
    (void)pthread_mutex_lock(&sweep->lock);
    while (!sweep->is_done) {
        (void)pthread_cond_wait(&sweep->done, &sweep->lock);
    }
    (void)pthread_mutex_unlock(&sweep->lock);
    (void)pthread_mutex_unlock(&server->sweep_lock);
}

enum mc_err mci_tcp_server_sweep_for(struct mci_tcp_thread *thread,
                                     struct mci_tcp_conn *conn,
                                     struct mci_tcp_sweep **sweep_out)
{
    struct mci_tcp_sweep *sweep = sweep_create(thread->server);
    if (!sweep) {
        return MC_ERR_NOMEM;
    }
    sweep->origin = thread;
    sweep->conn = conn;
    *sweep_out = sweep;
    sweep_post(sweep);
    return MC_OK;
}

void mci_tcp_sweep_forget(struct mci_tcp_sweep *sweep)
{
    sweep->conn = NULL;
}

/* ---- accepting ----------------------------------------------------------------- */

struct adoption {
    struct mci_task task;
    struct mci_tcp_thread *thread;
    int fd;
};

static void refuse(struct mci_tcp_server *server, int fd, enum mc_err code)
{
    const struct mci_tcp_answer answer = {.op = MCI_TCP_PROBE, .code = code};
    uint8_t head[MCI_TCP_ANSWER_LEN];
    mci_tcp_answer_write(&answer, head);
    if (!server->transfer->tls) {
        (void)send(fd, head, sizeof head, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    (void)close(fd);
    mci_count(&server->transfer->counters.refused_requests, 1);
    mc_log(MC_LOG_DEBUG, "tcp: connection refused: %s, %u may be open",
           mc_err_text(code), (unsigned)server->conns_max);
}

/* Peers that have vanished without a word are noticed in two minutes, though they
 * ask for nothing. */
static void watch_over(int fd)
{
    const int on = 1;
    const int idle_s = 60;
    const int between_s = 15;
    const int count = 4;
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s,
                     sizeof between_s);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

static void adopt(struct mci_task *task)
{
    struct adoption *adoption = MCI_CONTAINER(task, struct adoption, task);
    struct mci_tcp_thread *thread = adoption->thread;
    struct mci_stream *stream;
    watch_over(adoption->fd);
    enum mc_err err =
        mci_stream_accept(adoption->fd, thread->server->transfer->tls, &stream);
    mci_free(adoption);
    if (!err && atomic_load(&thread->server->is_closing)) {
        mci_stream_close(stream);
        return;
    }
    if (!err) {
        mci_stream_tune_for_bulk(stream);
        err = mci_tcp_conn_create(thread, stream);
    }
    if (err) {
        (void)atomic_fetch_sub(&thread->server->conn_count, 1);
        mc_log(MC_LOG_WARN, "tcp: accept: %s", mc_err_text(err));
    }
}

/* Takes the descriptor. */
static void hand_over(struct mci_tcp_server *server, int fd)
{
    if (atomic_load(&server->conn_count) >= server->conns_max) {
        refuse(server, fd, MC_ERR_NO_AVAILABLE_HANDLE);
        return;
    }
    struct adoption *adoption = mci_alloc(sizeof *adoption);
    if (!adoption) {
        refuse(server, fd, MC_ERR_NOMEM);
        return;
    }
    (void)atomic_fetch_add(&server->conn_count, 1);
    adoption->task.run = adopt;
    adoption->thread =
        &server->threads[server->next_thread++ % server->thread_count];
    adoption->fd = fd;
    mci_poller_post(adoption->thread->poller, &adoption->task);
}

/* Without descriptors or memory, what waits is told again and again; so look
 * away for a while. */
static void listen_later(struct mci_tcp_server *server, int failed)
{
    mc_log(MC_LOG_WARN, "tcp: accept: %s", strerrordesc_np(failed));
    server->listen_again_ns = mci_clock_ns() + LISTEN_AGAIN_NS;
    mci_poller_change(server->threads[0].poller, &server->listener, 0);
}

static void accept_ready(struct mci_watch *watch, uint32_t events)
{
    struct mci_tcp_server *server =
        MCI_CONTAINER(watch, struct mci_tcp_server, listener);
    (void)events;
    for (int i = 0; i < ACCEPT_MAX; i++) {
        int fd = accept4(watch->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            hand_over(server, fd);
            continue;
        }
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
            errno == ENOMEM) {
            listen_later(server, errno);
        }
        if (errno != EINTR && errno != ECONNABORTED) {
            return;
        }
    }
}

/* ---- turns ---------------------------------------------------------------------- */

static void cut_stalled(struct mci_tcp_thread *thread, uint64_t now_ns)
{
    struct mci_link *link = thread->conns.next;
    while (link != &thread->conns) {
        struct mci_tcp_conn *conn =
            MCI_CONTAINER(link, struct mci_tcp_conn, in_thread);
        link = link->next;
        if (mci_tcp_conn_is_stalled(conn, now_ns)) {
            mc_log(MC_LOG_DEBUG, "peer %s: cut off: it stands still",
                   mci_stream_peer(conn->stream));
            mci_tcp_conn_destroy(conn);
        }
    }
}

static void go_on(struct mci_tcp_thread *thread)
{
    struct mci_link eager;
    if (mci_list_is_empty(&thread->eager)) {
        return;
    }
    mci_list_init(&eager);
    while (!mci_list_is_empty(&thread->eager)) {
        struct mci_link *link = thread->eager.next;
        mci_list_remove(link);
        mci_list_push_back(&eager, link);
    }
    while (!mci_list_is_empty(&eager)) {
        struct mci_link *link = eager.next;
        mci_list_remove(link);
        mci_tcp_conn_go_on(MCI_CONTAINER(link, struct mci_tcp_conn, in_eager));
    }
}

static uint64_t turn(void *ctx, uint64_t now_ns)
{
    struct mci_tcp_thread *thread = ctx;
    struct mci_tcp_server *server = thread->server;
    uint64_t next_ns = UINT64_MAX;
    go_on(thread);
    if (thread == server->threads && server->listen_again_ns > 0) {
        next_ns = server->listen_again_ns;
        if (now_ns >= next_ns) {
            server->listen_again_ns = 0;
            mci_poller_change(thread->poller, &server->listener, EPOLLIN);
            next_ns = UINT64_MAX;
        }
    }
    if (!mci_list_is_empty(&thread->conns)) {
        if (now_ns >= thread->look_ns) {
            cut_stalled(thread, now_ns);
            thread->look_ns = now_ns + LOOK_NS;
        }
        if (thread->look_ns < next_ns) {
            next_ns = thread->look_ns;
        }
    }
    return mci_list_is_empty(&thread->eager) ? next_ns : 0;
}

/* ---- life ------------------------------------------------------------------------ */

static enum mc_err listen_at(struct mci_tcp_server *server)
{
    const struct mc_transfer_opts *opts = &server->transfer->opts;
    const struct mci_listen_opts listen_opts = {.host = opts->bind_address,
                                                .port = opts->port,
                                                .port_min = opts->port_min,
                                                .port_max = opts->port_max};
    const struct timespec pause = {.tv_nsec = PORT_PAUSE_NS};
    const char *why = "";
    enum mc_err err = mci_address_listen(&listen_opts, &server->listener.fd,
                                         &server->port, &why);
    for (uint32_t n = 1; n < opts->port_tries && opts->port == 0 &&
                         err == MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
         n++) {
        mc_log(MC_LOG_INFO, "tcp: ports %u to %u: %s, again in 100 ms",
               (unsigned)opts->port_min, (unsigned)opts->port_max, why);
        (void)nanosleep(&pause, NULL);
        err = mci_address_listen(&listen_opts, &server->listener.fd,
                                 &server->port, &why);
    }
    if (err) {
        mc_log(MC_LOG_ERROR, "tcp: listen on %s:%u: %s",
               opts->bind_address ? opts->bind_address : "*",
               (unsigned)(opts->port ? opts->port : opts->port_min), why);
    }
    return err;
}

static enum mc_err start_threads(struct mci_tcp_server *server)
{
    uint32_t wanted = server->transfer->opts.server_threads;
    uint32_t count = wanted > MCI_TCP_THREADS_MAX ? MCI_TCP_THREADS_MAX
                     : wanted == 0                ? 1
                                                  : wanted;
    for (uint32_t i = 0; i < count; i++) {
        struct mci_tcp_thread *thread = &server->threads[i];
        char name[24];
        (void)snprintf(name, sizeof name, "mc-tcp-%u", (unsigned)i);
        const struct mci_poller_opts opts = {
            .name = name, .turn = turn, .ctx = thread};
        thread->server = server;
        mci_list_init(&thread->conns);
        mci_list_init(&thread->eager);
        enum mc_err err = mci_poller_create(&opts, &thread->poller);
        if (err) {
            return err;
        }
        server->thread_count = i + 1;
    }
    return MC_OK;
}

static void end_threads(struct mci_tcp_server *server)
{
    for (uint32_t i = 0; i < server->thread_count; i++) {
        mci_poller_destroy(server->threads[i].poller);
        server->threads[i].poller = NULL;
    }
}

static void listen_run(struct mci_task *task)
{
    struct mci_tcp_server *server =
        MCI_CONTAINER(task, struct mci_tcp_server, listen);
    enum mc_err err =
        mci_poller_add(server->threads[0].poller, &server->listener, EPOLLIN);
    if (err) {
        mc_log(MC_LOG_ERROR, "tcp: port %u is not served: %s",
               (unsigned)server->port, mc_err_text(err));
    }
}

/* The threads must be there. */
static enum mc_err ready_sweep(struct mci_tcp_server *server)
{
    server->sweep = sweep_create(server);
    if (!server->sweep) {
        return MC_ERR_NOMEM;
    }
    (void)pthread_mutex_init(&server->sweep_lock, NULL);
    (void)pthread_mutex_init(&server->sweep->lock, NULL);
    (void)pthread_cond_init(&server->sweep->done, NULL);
    return MC_OK;
}

enum mc_err mci_tcp_server_create(struct mc_transfer *transfer,
                                  struct mci_tcp_server **server_out)
{
    struct mci_tcp_server *server = mci_calloc(1, sizeof *server);
    if (!server) {
        return MC_ERR_NOMEM;
    }
    server->transfer = transfer;
    server->conns_max = MCI_TCP_CONNECTIONS_MAX;
    server->listener.ready = accept_ready;
    server->listen.run = listen_run;
    enum mc_err err = listen_at(server);
    if (err) {
        goto err_free;
    }
    err = start_threads(server);
    if (!err) {
        err = ready_sweep(server);
    }
    if (err) {
        goto err_end_threads;
    }
    mci_poller_post(server->threads[0].poller, &server->listen);
    *server_out = server;
    return MC_OK;

err_end_threads:
    end_threads(server);
    (void)close(server->listener.fd);
err_free:
    mci_free(server);
    return err;
}

/* The first sweep closes all connections, so that none asks for a sweep any
 * more; after the second all that was asked for before has been told or is on its
 * way to a poller, which sees to it before it ends. */
void mci_tcp_server_destroy(struct mci_tcp_server *server)
{
    if (!server) {
        return;
    }
    atomic_store(&server->is_closing, 1);
    mci_tcp_server_sweep(server, NULL);
    mci_tcp_server_sweep(server, NULL);
    end_threads(server);
    (void)close(server->listener.fd);
    (void)pthread_cond_destroy(&server->sweep->done);
    (void)pthread_mutex_destroy(&server->sweep->lock);
    (void)pthread_mutex_destroy(&server->sweep_lock);
    mci_free(server->sweep);
    mci_free(server);
}
