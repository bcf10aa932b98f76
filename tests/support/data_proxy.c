/* SPDX-License-Identifier: Apache-2.0 */
/* data_proxy.c - see the header. One thread, which has the lock whenever it does
 * not wait. */
#include "data_proxy.h"

#include <arpa/inet.h>
#include <check.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNS_MAX 64
#define ROOM 65536
#define NO_END UINT64_MAX

/* What goes one way on a connection. */
struct lane {
    uint8_t room[ROOM];
    size_t at;
    size_t len;
};

struct conn {
    int fds[2]; /* by way: where its bytes come from */
    struct lane lanes[2];
};

struct data_proxy {
    int listener;
    int wake[2];
    uint16_t port;
    pthread_t thread;
    pthread_mutex_t lock;
    /* guarded by lock: */
    bool stops;
    bool refuses;
    struct conn *conns[CONNS_MAX];
    int conn_count;
    uint64_t left[2]; /* bytes that may pass */
    bool is_held[2];
    unsigned closed;
};

static struct sockaddr_in address_of(const char *host, uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    ck_assert_int_eq(inet_pton(AF_INET, host, &at.sin_addr), 1);
    return at;
}

/* ---- connections --------------------------------------------------------- */

static void free_conn(struct conn *conn)
{
    (void)close(conn->fds[DATA_TO_OWNER]);
    (void)close(conn->fds[DATA_FROM_OWNER]);
    free(conn);
}

static void accept_one(struct data_proxy *proxy)
{
    struct sockaddr_in to = address_of(DATA_PROXY_BIND, proxy->port);
    int yes = 1;
    int fd = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) {
        return;
    }
    int owner = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (owner < 0 || proxy->refuses || proxy->conn_count == CONNS_MAX ||
        connect(owner, (struct sockaddr *)&to, sizeof to) != 0) {
        (void)close(fd);
        (void)close(owner);
        return;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    (void)setsockopt(owner, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    struct conn *conn = calloc(1, sizeof *conn);
    ck_assert_ptr_nonnull(conn);
    conn->fds[DATA_TO_OWNER] = fd;
    conn->fds[DATA_FROM_OWNER] = owner;
    proxy->conns[proxy->conn_count++] = conn;
}

/* False: this side is gone. Where nothing may pass, what waits is left in the
 * socket. */
static bool read_lane(struct data_proxy *proxy, struct conn *conn, int way)
{
    struct lane *lane = &conn->lanes[way];
    uint8_t look;
    if (lane->len > 0) {
        return true;
    }
    if (proxy->left[way] == 0) {
        ssize_t seen = recv(conn->fds[way], &look, 1, MSG_PEEK | MSG_DONTWAIT);
        proxy->is_held[way] |= seen > 0;
        return seen != 0;
    }
    size_t most = proxy->left[way] < ROOM ? (size_t)proxy->left[way] : ROOM;
    ssize_t len = recv(conn->fds[way], lane->room, most, MSG_DONTWAIT);
    if (len <= 0) {
        return false;
    }
    lane->at = 0;
    lane->len = (size_t)len;
    proxy->left[way] -= proxy->left[way] == NO_END ? 0 : (uint64_t)len;
    return true;
}

static bool write_lane(struct conn *conn, int way)
{
    struct lane *lane = &conn->lanes[way];
    if (lane->len == 0) {
        return true;
    }
    ssize_t len = send(conn->fds[!way], lane->room + lane->at, lane->len,
                       MSG_DONTWAIT | MSG_NOSIGNAL);
    if (len > 0) {
        lane->at += (size_t)len;
        lane->len -= (size_t)len;
    }
    return len > 0;
}

/* ---- the thread ---------------------------------------------------------- */

/* A way that is held and has something waiting is not asked again, only for its
 * end. */
static short events_of(const struct data_proxy *proxy, const struct conn *conn,
                       int way)
{
    int events = POLLRDHUP;
    if (conn->lanes[way].len == 0 &&
        (proxy->left[way] > 0 || !proxy->is_held[way])) {
        events |= POLLIN;
    }
    if (conn->lanes[!way].len > 0) {
        events |= POLLOUT;
    }
    return (short)events;
}

static int fill_polls(struct data_proxy *proxy, struct pollfd *polls)
{
    int count = 0;
    polls[count++] = (struct pollfd){.fd = proxy->listener, .events = POLLIN};
    polls[count++] = (struct pollfd){.fd = proxy->wake[0], .events = POLLIN};
    for (int i = 0; i < proxy->conn_count; i++) {
        for (int way = 0; way < 2; way++) {
            struct conn *conn = proxy->conns[i];
            polls[count++] = (struct pollfd){
                .fd = conn->fds[way], .events = events_of(proxy, conn, way)};
        }
    }
    return count;
}

static bool serve_side(struct data_proxy *proxy, struct conn *conn, int way,
                       short events)
{
    bool is_there = true;
    if (events & POLLOUT) {
        is_there = write_lane(conn, !way);
    }
    if (is_there && (events & POLLIN)) {
        is_there = read_lane(proxy, conn, way);
    }
    bool is_over = (events & (POLLERR | POLLHUP)) != 0 ||
                   ((events & POLLRDHUP) && proxy->left[way] == 0);
    return is_there && !is_over;
}

static void serve(struct data_proxy *proxy, const struct pollfd *polls)
{
    uint8_t drained[64];
    if (polls[1].revents != 0) {
        (void)!read(proxy->wake[0], drained, sizeof drained);
    }
    int kept = 0;
    for (int i = 0; i < proxy->conn_count; i++) {
        struct conn *conn = proxy->conns[i];
        const struct pollfd *pair = &polls[2 + 2 * i];
        bool has_peer = serve_side(proxy, conn, 0, pair[0].revents);
        bool has_owner = serve_side(proxy, conn, 1, pair[1].revents);
        proxy->closed += !has_owner;
        if (has_peer && has_owner) {
            proxy->conns[kept++] = conn;
        } else {
            free_conn(conn);
        }
    }
    proxy->conn_count = kept;
    if (polls[0].revents != 0) {
        accept_one(proxy);
    }
}

static void *run_proxy(void *ctx)
{
    struct data_proxy *proxy = ctx;
    struct pollfd polls[2 + 2 * CONNS_MAX];
    (void)pthread_mutex_lock(&proxy->lock);
    while (!proxy->stops) {
        int count = fill_polls(proxy, polls);
        (void)pthread_mutex_unlock(&proxy->lock);
        (void)poll(polls, (nfds_t)count, 100);
        (void)pthread_mutex_lock(&proxy->lock);
        serve(proxy, polls);
    }
    (void)pthread_mutex_unlock(&proxy->lock);
    return NULL;
}

/* ---- for tests ----------------------------------------------------------- */

static void kick(struct data_proxy *proxy)
{
    (void)!write(proxy->wake[1], "", 1);
}

struct data_proxy *data_proxy_open(void)
{
    struct data_proxy *proxy = calloc(1, sizeof *proxy);
    ck_assert_ptr_nonnull(proxy);
    struct sockaddr_in at = address_of("127.0.0.1", 0);
    socklen_t len = sizeof at;
    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(proxy->listener, 0);
    ck_assert_int_eq(bind(proxy->listener, (struct sockaddr *)&at, sizeof at),
                     0);
    ck_assert_int_eq(listen(proxy->listener, CONNS_MAX), 0);
    ck_assert_int_eq(getsockname(proxy->listener, (struct sockaddr *)&at, &len),
                     0);
    proxy->port = ntohs(at.sin_port);
    proxy->left[0] = NO_END;
    proxy->left[1] = NO_END;
    ck_assert_int_eq(pipe2(proxy->wake, O_CLOEXEC | O_NONBLOCK), 0);
    (void)pthread_mutex_init(&proxy->lock, NULL);
    ck_assert_int_eq(pthread_create(&proxy->thread, NULL, run_proxy, proxy), 0);
    return proxy;
}

void data_proxy_close(struct data_proxy *proxy)
{
    if (!proxy) {
        return;
    }
    (void)pthread_mutex_lock(&proxy->lock);
    proxy->stops = true;
    (void)pthread_mutex_unlock(&proxy->lock);
    kick(proxy);
    (void)pthread_join(proxy->thread, NULL);
    for (int i = 0; i < proxy->conn_count; i++) {
        free_conn(proxy->conns[i]);
    }
    (void)close(proxy->listener);
    (void)close(proxy->wake[0]);
    (void)close(proxy->wake[1]);
    (void)pthread_mutex_destroy(&proxy->lock);
    free(proxy);
}

uint16_t data_proxy_port(const struct data_proxy *proxy)
{
    return proxy->port;
}

static void allow(struct data_proxy *proxy, enum data_way way, uint64_t bytes)
{
    (void)pthread_mutex_lock(&proxy->lock);
    proxy->left[way] = bytes;
    proxy->is_held[way] = false;
    (void)pthread_mutex_unlock(&proxy->lock);
    kick(proxy);
}

void data_proxy_hold(struct data_proxy *proxy, enum data_way way,
                     uint64_t after)
{
    allow(proxy, way, after);
}

void data_proxy_release(struct data_proxy *proxy, enum data_way way)
{
    allow(proxy, way, NO_END);
}

bool data_proxy_is_held(struct data_proxy *proxy, enum data_way way)
{
    (void)pthread_mutex_lock(&proxy->lock);
    bool is_held = proxy->is_held[way];
    (void)pthread_mutex_unlock(&proxy->lock);
    return is_held;
}

void data_proxy_refuse(struct data_proxy *proxy, bool refuses)
{
    (void)pthread_mutex_lock(&proxy->lock);
    proxy->refuses = refuses;
    (void)pthread_mutex_unlock(&proxy->lock);
}

unsigned data_proxy_connections(struct data_proxy *proxy)
{
    (void)pthread_mutex_lock(&proxy->lock);
    int count = proxy->conn_count;
    (void)pthread_mutex_unlock(&proxy->lock);
    return (unsigned)count;
}

unsigned data_proxy_closed(struct data_proxy *proxy)
{
    (void)pthread_mutex_lock(&proxy->lock);
    unsigned closed = proxy->closed;
    (void)pthread_mutex_unlock(&proxy->lock);
    return closed;
}
