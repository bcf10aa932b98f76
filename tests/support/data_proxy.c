/* SPDX-License-Identifier: Apache-2.0 */
/* data_proxy.c - see the header. */
#include "data_proxy.h"

#include <check.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "mci_list.h"
#include "proxy.h"

#define ROOM 65536
#define NO_END UINT64_MAX

/* What goes one way on a connection. */
struct lane {
    uint8_t room[ROOM];
    size_t at;
    size_t len;
};

struct conn {
    struct proxy_conn base;
    struct lane lanes[2];
};

struct data_proxy {
    struct proxy base;
    /* guarded by its lock: */
    uint64_t left[2]; /* bytes that may pass */
    bool is_held[2];
    unsigned closed;
};

static struct data_proxy *proxy_of(struct proxy *base)
{
    return MCI_CONTAINER(base, struct data_proxy, base);
}

static struct conn *conn_of(struct proxy_conn *base)
{
    return MCI_CONTAINER(base, struct conn, base);
}

/* ---- bytes --------------------------------------------------------------- */

/* False: this side is gone. Where nothing may pass, what waits is left in the
 * socket. */
static bool read_lane(struct data_proxy *proxy, struct conn *conn, int way)
{
    struct lane *lane = &conn->lanes[way];
    int from = conn->base.fds[way];
    uint8_t look;
    if (lane->len > 0) {
        return true;
    }
    if (proxy->left[way] == 0) {
        ssize_t seen = recv(from, &look, 1, MSG_PEEK | MSG_DONTWAIT);
        proxy->is_held[way] |= seen > 0;
        return seen != 0;
    }
    size_t most = proxy->left[way] < ROOM ? (size_t)proxy->left[way] : ROOM;
    ssize_t len = recv(from, lane->room, most, MSG_DONTWAIT);
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
    ssize_t len = send(conn->base.fds[!way], lane->room + lane->at, lane->len,
                       MSG_DONTWAIT | MSG_NOSIGNAL);
    if (len > 0) {
        lane->at += (size_t)len;
        lane->len -= (size_t)len;
    }
    return len > 0;
}

/* A way that is held and has something waiting is not asked again, only for its
 * end. */
static short events_of(struct proxy *base, struct proxy_conn *base_conn,
                       int way)
{
    const struct data_proxy *proxy = proxy_of(base);
    const struct conn *conn = conn_of(base_conn);
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

static bool serve(struct proxy *base, struct proxy_conn *base_conn,
                  const short events[2])
{
    struct data_proxy *proxy = proxy_of(base);
    struct conn *conn = conn_of(base_conn);
    bool has_peer = serve_side(proxy, conn, DATA_TO_OWNER, events[0]);
    bool has_owner = serve_side(proxy, conn, DATA_FROM_OWNER, events[1]);
    proxy->closed += !has_owner;
    return has_peer && has_owner;
}

static const struct proxy_ops ops = {
    .conn_bytes = sizeof(struct conn), .events = events_of, .serve = serve};

/* ---- for tests ----------------------------------------------------------- */

struct data_proxy *data_proxy_open(void)
{
    struct data_proxy *proxy = calloc(1, sizeof *proxy);
    ck_assert_ptr_nonnull(proxy);
    proxy->left[0] = NO_END;
    proxy->left[1] = NO_END;
    proxy_start(&proxy->base, &ops, DATA_PROXY_BIND, 0);
    return proxy;
}

void data_proxy_close(struct data_proxy *proxy)
{
    if (proxy) {
        proxy_stop(&proxy->base);
        free(proxy);
    }
}

uint16_t data_proxy_port(const struct data_proxy *proxy)
{
    return proxy->base.port;
}

static void allow(struct data_proxy *proxy, enum data_way way, uint64_t bytes)
{
    proxy_lock(&proxy->base);
    proxy->left[way] = bytes;
    proxy->is_held[way] = false;
    proxy_unlock(&proxy->base);
    proxy_kick(&proxy->base);
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
    proxy_lock(&proxy->base);
    bool is_held = proxy->is_held[way];
    proxy_unlock(&proxy->base);
    return is_held;
}

void data_proxy_refuse(struct data_proxy *proxy, bool refuses)
{
    proxy_refuse(&proxy->base, refuses);
}

unsigned data_proxy_connections(struct data_proxy *proxy)
{
    proxy_lock(&proxy->base);
    int count = proxy->base.conn_count;
    proxy_unlock(&proxy->base);
    return (unsigned)count;
}

unsigned data_proxy_closed(struct data_proxy *proxy)
{
    proxy_lock(&proxy->base);
    unsigned closed = proxy->closed;
    proxy_unlock(&proxy->base);
    return closed;
}
