/* SPDX-License-Identifier: Apache-2.0 */
/* ask_loop.h - a few connections that each ask, wait for the answer and ask again,
 * all on one thread over epoll; the same for us and for a peer.
 *
 * What is asked and when an answer is whole is said by two functions of the side;
 * everything else is shared, so that only the servers differ.
 * Threads: one.
 */
#ifndef ASK_LOOP_H
#define ASK_LOOP_H
#include <errno.h>
#include <sys/epoll.h>

#include "bench.h"
#include "mci_buf.h"
#include "servers.h"

#define ASK_CONNS_MAX 16
#define ASK_STALL_MS 10000

struct ask_conn {
    int fd;
    uint32_t index;
    uint64_t asked; /* requests so far */
    struct mci_buf out;
    size_t out_at;
    struct mci_buf in;
    void *ctx; /* the side's */
};

struct ask_loop {
    struct ask_conn conns[ASK_CONNS_MAX];
    uint32_t count;
    int epoll_fd;
    /* Writes the next request to conn->out. */
    void (*ask)(struct ask_conn *conn);
    /* Bytes of the answer if it is whole and right, 0 if more must come, -1 if
     * it is wrong. *units: of work that it ends. */
    ssize_t (*take)(struct ask_conn *conn, uint64_t *units);
};

/* Sends what stands in conn->out, and waits for one answer; with the socket as
 * it is. For setting up. */
static inline bool ask_once(struct ask_loop *loop, struct ask_conn *conn)
{
    uint64_t units = 0;
    size_t sent = 0;
    ssize_t len = 0;
    while (sent < conn->out.len) {
        ssize_t n = send(conn->fd, conn->out.data + sent, conn->out.len - sent,
                         MSG_NOSIGNAL);
        if (n <= 0) {
            return false;
        }
        sent += (size_t)n;
    }
    mci_buf_clear(&conn->in);
    while ((len = loop->take(conn, &units)) == 0) {
        if (mci_buf_reserve(&conn->in, 65536) != MC_OK) {
            return false;
        }
        ssize_t n = recv(conn->fd, conn->in.data + conn->in.len, 65536, 0);
        if (n <= 0) {
            return false;
        }
        conn->in.len += (size_t)n;
    }
    mci_buf_clear(&conn->in);
    return len > 0;
}

static inline bool ask_loop_open(struct ask_loop *loop, uint16_t port,
                                 uint32_t count)
{
    loop->count = count;
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (uint32_t i = 0; i < count; i++) {
        struct ask_conn *conn = &loop->conns[i];
        *conn = (struct ask_conn){.index = i, .fd = server_connect(port)};
        mci_buf_init(&conn->out, (size_t)64 << 20);
        mci_buf_init(&conn->in, (size_t)64 << 20);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = conn};
        if (conn->fd < 0 ||
            epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, conn->fd, &event) != 0) {
            return false;
        }
    }
    return true;
}

static inline void ask_loop_close(struct ask_loop *loop)
{
    for (uint32_t i = 0; i < loop->count; i++) {
        (void)close(loop->conns[i].fd);
        mci_buf_fini(&loop->conns[i].out);
        mci_buf_fini(&loop->conns[i].in);
    }
    (void)close(loop->epoll_fd);
}

/* Sends what the socket takes; the rest follows when it is writable. */
static inline bool ask_flush(struct ask_loop *loop, struct ask_conn *conn)
{
    bool was_blocked = conn->out_at > 0;
    while (conn->out_at < conn->out.len) {
        ssize_t n =
            send(conn->fd, conn->out.data + conn->out_at,
                 conn->out.len - conn->out_at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n <= 0) {
            if (n == 0 || errno != EAGAIN) {
                return false;
            }
            break;
        }
        conn->out_at += (size_t)n;
    }
    bool is_blocked = conn->out_at < conn->out.len;
    if (is_blocked != was_blocked) {
        struct epoll_event event = {
            .events = EPOLLIN | (is_blocked ? EPOLLOUT : 0u), .data.ptr = conn};
        (void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, conn->fd, &event);
    }
    conn->out_at = is_blocked ? conn->out_at : 0;
    if (!is_blocked) {
        mci_buf_clear(&conn->out);
    }
    return true;
}

static inline bool ask_next(struct ask_loop *loop, struct ask_conn *conn)
{
    mci_buf_clear(&conn->out);
    conn->out_at = 0;
    loop->ask(conn);
    conn->asked++;
    return ask_flush(loop, conn);
}

/* False: the other side is gone, or answered what it must not. */
static inline bool ask_receive(struct ask_loop *loop, struct ask_conn *conn,
                               bool asks_on, uint64_t *units, uint32_t *open)
{
    const size_t room = (size_t)128 << 10;
    if (mci_buf_reserve(&conn->in, room) != MC_OK) {
        return false;
    }
    ssize_t n =
        recv(conn->fd, conn->in.data + conn->in.len, room, MSG_DONTWAIT);
    if (n <= 0) {
        return n < 0 && errno == EAGAIN;
    }
    conn->in.len += (size_t)n;
    ssize_t len = loop->take(conn, units);
    if (len == 0) {
        return true;
    }
    if (len < 0 || (size_t)len != conn->in.len) {
        return false;
    }
    mci_buf_clear(&conn->in);
    if (!asks_on) {
        (*open)--;
        return true;
    }
    return ask_next(loop, conn);
}

/* Asks for about so long; units per second. */
static inline bool ask_loop_run(struct ask_loop *loop, double seconds,
                                double *units_per_s_out)
{
    struct epoll_event events[ASK_CONNS_MAX];
    uint64_t units = 0;
    uint32_t open = loop->count;
    double begin = bench_now();
    for (uint32_t i = 0; i < loop->count; i++) {
        if (!ask_next(loop, &loop->conns[i])) {
            return false;
        }
    }
    while (open > 0) {
        int count =
            epoll_wait(loop->epoll_fd, events, ASK_CONNS_MAX, ASK_STALL_MS);
        if (count <= 0) {
            return false;
        }
        double now = bench_now();
        for (int i = 0; i < count; i++) {
            struct ask_conn *conn = events[i].data.ptr;
            if ((events[i].events & EPOLLOUT) && !ask_flush(loop, conn)) {
                return false;
            }
            if ((events[i].events & ~(uint32_t)EPOLLOUT) &&
                !ask_receive(loop, conn, now - begin < seconds, &units,
                             &open)) {
                return false;
            }
        }
    }
    *units_per_s_out = (double)units / (bench_now() - begin);
    return true;
}
#endif
