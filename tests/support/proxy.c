/* SPDX-License-Identifier: Apache-2.0 */
/* proxy.c - see the header. */
#include "proxy.h"

#include <arpa/inet.h>
#include <check.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define POLL_MS 100

void proxy_close_fd(int *fd)
{
    if (*fd >= 0) {
        (void)close(*fd);
        *fd = -1;
    }
}

/* ---- connections --------------------------------------------------------- */

static void free_conn(struct proxy *proxy, struct proxy_conn *conn)
{
    proxy_close_fd(&conn->fds[0]);
    proxy_close_fd(&conn->fds[1]);
    if (proxy->ops->fini) {
        proxy->ops->fini(conn);
    }
    free(conn);
}

static int connect_target(const struct proxy *proxy)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&proxy->target,
                           sizeof proxy->target) != 0) {
        proxy_close_fd(&fd);
    }
    return fd;
}

static void accept_one(struct proxy *proxy)
{
    int yes = 1;
    int fds[2] = {accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC), -1};
    if (fds[0] < 0) {
        return;
    }
    proxy->accepted++;
    if (!proxy->refuses && proxy->conn_count < PROXY_CONNS_MAX) {
        fds[1] = connect_target(proxy);
    }
    if (fds[1] < 0) {
        proxy_close_fd(&fds[0]);
        return;
    }
    struct proxy_conn *conn = calloc(1, proxy->ops->conn_bytes);
    ck_assert_ptr_nonnull(conn);
    for (int way = 0; way < 2; way++) {
        (void)setsockopt(fds[way], IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        conn->fds[way] = fds[way];
    }
    proxy->conns[proxy->conn_count++] = conn;
}

/* ---- the thread ---------------------------------------------------------- */

static int fill_polls(struct proxy *proxy, struct pollfd *polls)
{
    int count = 0;
    polls[count++] = (struct pollfd){.fd = proxy->listener, .events = POLLIN};
    polls[count++] = (struct pollfd){.fd = proxy->wake[0], .events = POLLIN};
    for (int i = 0; i < proxy->conn_count; i++) {
        struct proxy_conn *conn = proxy->conns[i];
        for (int way = 0; way < 2; way++) {
            polls[count++] =
                (struct pollfd){.fd = conn->fds[way],
                                .events = proxy->ops->events(proxy, conn, way)};
        }
    }
    return count;
}

static void serve(struct proxy *proxy, const struct pollfd *polls)
{
    uint8_t drained[64];
    if (polls[1].revents != 0) {
        (void)!read(proxy->wake[0], drained, sizeof drained);
    }
    int kept = 0;
    for (int i = 0; i < proxy->conn_count; i++) {
        struct proxy_conn *conn = proxy->conns[i];
        const struct pollfd *pair = &polls[2 + 2 * i];
        const short events[2] = {pair[0].revents, pair[1].revents};
        if (proxy->ops->serve(proxy, conn, events)) {
            proxy->conns[kept++] = conn;
        } else {
            free_conn(proxy, conn);
        }
    }
    proxy->conn_count = kept;
    if (polls[0].revents != 0) {
        accept_one(proxy);
    }
}

static void *run(void *ctx)
{
    struct proxy *proxy = ctx;
    struct pollfd *polls = calloc(2 + 2 * PROXY_CONNS_MAX, sizeof *polls);
    ck_assert_ptr_nonnull(polls);
    proxy_lock(proxy);
    while (!proxy->stops) {
        int count = fill_polls(proxy, polls);
        proxy_unlock(proxy);
        (void)poll(polls, (nfds_t)count, POLL_MS);
        proxy_lock(proxy);
        serve(proxy, polls);
    }
    proxy_unlock(proxy);
    free(polls);
    return NULL;
}

/* ---- life ---------------------------------------------------------------- */

static struct sockaddr_in address_of(const char *host, uint16_t port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    ck_assert_int_eq(inet_pton(AF_INET, host, &at.sin_addr), 1);
    return at;
}

void proxy_start(struct proxy *proxy, const struct proxy_ops *ops,
                 const char *target_host, uint16_t target_port)
{
    struct sockaddr_in at = address_of("127.0.0.1", 0);
    socklen_t len = sizeof at;
    proxy->ops = ops;
    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(proxy->listener, 0);
    ck_assert_int_eq(bind(proxy->listener, (struct sockaddr *)&at, sizeof at),
                     0);
    ck_assert_int_eq(listen(proxy->listener, PROXY_CONNS_MAX), 0);
    ck_assert_int_eq(getsockname(proxy->listener, (struct sockaddr *)&at, &len),
                     0);
    proxy->port = ntohs(at.sin_port);
    proxy->target =
        address_of(target_host, target_port ? target_port : proxy->port);
    ck_assert_int_eq(pipe2(proxy->wake, O_CLOEXEC | O_NONBLOCK), 0);
    (void)pthread_mutex_init(&proxy->lock, NULL);
    ck_assert_int_eq(pthread_create(&proxy->thread, NULL, run, proxy), 0);
}

void proxy_stop(struct proxy *proxy)
{
    proxy_lock(proxy);
    proxy->stops = true;
    proxy_unlock(proxy);
    proxy_kick(proxy);
    (void)pthread_join(proxy->thread, NULL);
    for (int i = 0; i < proxy->conn_count; i++) {
        free_conn(proxy, proxy->conns[i]);
    }
    (void)close(proxy->listener);
    (void)close(proxy->wake[0]);
    (void)close(proxy->wake[1]);
    (void)pthread_mutex_destroy(&proxy->lock);
}

void proxy_kick(struct proxy *proxy)
{
    (void)!write(proxy->wake[1], "", 1);
}

void proxy_refuse(struct proxy *proxy, bool refuses)
{
    proxy_lock(proxy);
    proxy->refuses = refuses;
    proxy_unlock(proxy);
}
