/* SPDX-License-Identifier: Apache-2.0 */
/* Without TLS a call is one system call and nothing else. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>

#include "mc_log.h"
#include "mci_alloc.h"
#include "mci_clock.h"
#include "mci_stream.h"
#include "tls.h"

#define PARTS_MAX 1024 /* of one system call (IOV_MAX) */
#define PEER_MAX (INET6_ADDRSTRLEN + 9)

/* Under way within a host. The system doubles it for what it needs itself, and
 * the whole fits into a second cache of 1 MiB with some of the bytes' own
 * memory. Less costs wake-ups, more costs misses: of a get of 1 MiB the copies
 * take two thirds. */
#define NEAR_BYTES (384 << 10)

struct mci_stream {
    int fd;
    struct mci_tls_session *session; /* NULL: none */
    char peer[PEER_MAX];
};

union end { /* of a connection */
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* ---- life ----------------------------------------------------------------- */

static void name_peer(struct mci_stream *stream)
{
    union end u;
    socklen_t len = sizeof u;
    char text[INET6_ADDRSTRLEN] = "?";
    memset(&u, 0, sizeof u);
    if (getpeername(stream->fd, &u.any, &len) < 0) {
        (void)snprintf(stream->peer, sizeof stream->peer, "?");
    } else if (u.any.sa_family == AF_INET) {
        (void)inet_ntop(AF_INET, &u.v4.sin_addr, text, sizeof text);
        (void)snprintf(stream->peer, sizeof stream->peer, "%s:%u", text,
                       (unsigned)ntohs(u.v4.sin_port));
    } else if (u.any.sa_family == AF_INET6) {
        (void)inet_ntop(AF_INET6, &u.v6.sin6_addr, text, sizeof text);
        (void)snprintf(stream->peer, sizeof stream->peer, "[%s]:%u", text,
                       (unsigned)ntohs(u.v6.sin6_port));
    } else {
        (void)snprintf(stream->peer, sizeof stream->peer, "unix");
    }
}

/* host: NULL on the accepting side. */
static enum mc_err create(int fd, struct mci_tls *tls, const char *host,
                          struct mci_stream **stream_out)
{
    struct mci_stream *stream = mci_calloc(1, sizeof *stream);
    if (!stream) {
        goto err_close_fd;
    }
    stream->fd = fd;
    name_peer(stream);
    if (tls) {
        stream->session = mci_tls_session_create(tls, fd, host, stream->peer);
        if (!stream->session) {
            goto err_free;
        }
    }
    *stream_out = stream;
    return MC_OK;

err_free:
    mci_free(stream);
err_close_fd:
    (void)close(fd);
    return MC_ERR_NOMEM;
}

enum mc_err mci_stream_accept(int fd, struct mci_tls *tls,
                              struct mci_stream **stream_out)
{
    int on = 1; /* a Unix socket refuses, which is fine */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return create(fd, tls, NULL, stream_out);
}

void mci_stream_close(struct mci_stream *stream)
{
    if (!stream) {
        return;
    }
    mci_tls_session_destroy(stream->session);
    (void)close(stream->fd);
    mci_free(stream);
}

void mci_stream_abort(struct mci_stream *stream)
{
    if (!stream) {
        return;
    }
    const struct linger at_once = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(stream->fd, SOL_SOCKET, SO_LINGER, &at_once,
                     sizeof at_once);
    mci_stream_close(stream);
}

/* ---- how much is under way ------------------------------------------------- */

static bool is_one_host(const union end *a, const union end *b)
{
    if (a->any.sa_family != b->any.sa_family) {
        return false;
    }
    if (a->any.sa_family == AF_INET6) {
        return memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr,
                      sizeof a->v6.sin6_addr) == 0;
    }
    return a->any.sa_family == AF_INET &&
           a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr;
}

void mci_stream_tune_for_bulk(struct mci_stream *stream)
{
    const int bytes = NEAR_BYTES;
    union end own;
    union end peer;
    socklen_t own_len = sizeof own;
    socklen_t peer_len = sizeof peer;
    memset(&own, 0, sizeof own);
    memset(&peer, 0, sizeof peer);
    if (getsockname(stream->fd, &own.any, &own_len) == 0 &&
        getpeername(stream->fd, &peer.any, &peer_len) == 0 &&
        is_one_host(&own, &peer)) {
        (void)setsockopt(stream->fd, SOL_SOCKET, SO_SNDBUF, &bytes,
                         sizeof bytes);
    }
}

/* ---- moving bytes ---------------------------------------------------------- */

static enum mc_err fail(const struct mci_stream *stream, const char *what,
                        const char *why)
{
    mc_log(MC_LOG_DEBUG, "peer %s: %s: %s", stream->peer, what, why);
    return MC_ERR_RPC_FAIL;
}

static bool is_empty(const struct iovec *parts, int count)
{
    for (int i = 0; i < count; i++) {
        if (parts[i].iov_len > 0) {
            return false;
        }
    }
    return true;
}

/* What a system call that moved nothing means. */
static enum mc_err judge(const struct mci_stream *stream, const char *what,
                         int failed, size_t *moved_out)
{
    if (failed == EAGAIN || failed == EWOULDBLOCK) {
        *moved_out = 0;
        return MC_OK;
    }
    return fail(stream, what, strerrordesc_np(failed));
}

/* Of one part, which most are: cheaper than with the head of a message. */
static ssize_t recv_parts(int fd, const struct iovec *parts, int count)
{
    if (count == 1) {
        return recv(fd, parts->iov_base, parts->iov_len, 0);
    }
    struct msghdr message = {
        .msg_iov = (struct iovec *)(uintptr_t)parts,
        .msg_iovlen = (size_t)(count < PARTS_MAX ? count : PARTS_MAX)};
    return recvmsg(fd, &message, 0);
}

static ssize_t send_parts(int fd, const struct iovec *parts, int count)
{
    if (count == 1) {
        return send(fd, parts->iov_base, parts->iov_len, MSG_NOSIGNAL);
    }
    const struct msghdr message = {
        .msg_iov = (struct iovec *)(uintptr_t)parts,
        .msg_iovlen = (size_t)(count < PARTS_MAX ? count : PARTS_MAX)};
    return sendmsg(fd, &message, MSG_NOSIGNAL);
}

enum mc_err mci_stream_recv(struct mci_stream *stream,
                            const struct iovec *parts, int count,
                            size_t *moved_out)
{
    if (stream->session) {
        return mci_tls_session_recv(stream->session, parts, count, moved_out);
    }
    ssize_t got;
    do {
        got = recv_parts(stream->fd, parts, count);
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
        return judge(stream, "recv", errno, moved_out);
    }
    if (got == 0 && !is_empty(parts, count)) {
        return fail(stream, "recv", "closed by the peer");
    }
    *moved_out = (size_t)got;
    return MC_OK;
}

enum mc_err mci_stream_send(struct mci_stream *stream,
                            const struct iovec *parts, int count,
                            size_t *moved_out)
{
    if (stream->session) {
        return mci_tls_session_send(stream->session, parts, count, moved_out);
    }
    ssize_t sent;
    do {
        sent = send_parts(stream->fd, parts, count);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0) {
        return judge(stream, "send", errno, moved_out);
    }
    *moved_out = (size_t)sent;
    return MC_OK;
}

bool mci_stream_is_full(const struct mci_stream *stream,
                        const struct iovec *parts, int count, size_t moved)
{
    size_t wanted = 0;
    if (moved == 0 || stream->session) {
        return moved == 0; /* TLS moves a record at a time */
    }
    for (int i = 0; i < count; i++) {
        wanted += parts[i].iov_len;
    }
    return moved < wanted;
}

bool mci_stream_has_pending(const struct mci_stream *stream)
{
    return stream->session && mci_tls_session_has_pending(stream->session);
}

short mci_stream_recv_events(const struct mci_stream *stream)
{
    if (stream->session) {
        return mci_tls_session_recv_events(stream->session);
    }
    return POLLIN;
}

short mci_stream_send_events(const struct mci_stream *stream)
{
    if (stream->session) {
        return mci_tls_session_send_events(stream->session);
    }
    return POLLOUT;
}

int mci_stream_fd(const struct mci_stream *stream)
{
    return stream->fd;
}

const char *mci_stream_peer(const struct mci_stream *stream)
{
    return stream->peer;
}

/* ---- whole messages --------------------------------------------------------- */

static enum mc_err await(const struct mci_stream *stream, short events,
                         uint64_t deadline_ns)
{
    for (;;) {
        uint64_t now_ns = mci_clock_ns();
        if (now_ns >= deadline_ns) {
            return MC_ERR_RPC_TIMEOUT;
        }
        uint64_t left_ms = (deadline_ns - now_ns) / MCI_NS_PER_MS + 1;
        struct pollfd entry = {.fd = stream->fd, .events = events};
        int count = poll(&entry, 1, left_ms < 10000 ? (int)left_ms : 10000);
        if (count > 0) {
            return MC_OK;
        }
        if (count < 0 && errno != EINTR) {
            return fail(stream, "poll", strerrordesc_np(errno));
        }
    }
}

enum mc_err mci_stream_send_all(struct mci_stream *stream, const void *data,
                                size_t len, uint64_t deadline_ns)
{
    size_t done = 0;
    while (done < len) {
        const struct iovec part = {.iov_base =
                                       (uint8_t *)(uintptr_t)data + done,
                                   .iov_len = len - done};
        size_t moved = 0;
        enum mc_err err = mci_stream_send(stream, &part, 1, &moved);
        if (!err && moved == 0) {
            err = await(stream, mci_stream_send_events(stream), deadline_ns);
        }
        if (err) {
            return err;
        }
        done += moved;
    }
    return MC_OK;
}

enum mc_err mci_stream_recv_all(struct mci_stream *stream, void *data,
                                size_t len, uint64_t deadline_ns)
{
    size_t done = 0;
    while (done < len) {
        const struct iovec part = {.iov_base = (uint8_t *)data + done,
                                   .iov_len = len - done};
        size_t moved = 0;
        enum mc_err err = mci_stream_recv(stream, &part, 1, &moved);
        if (!err && moved == 0) {
            err = await(stream, mci_stream_recv_events(stream), deadline_ns);
        }
        if (err) {
            return err;
        }
        done += moved;
    }
    return MC_OK;
}

/* ---- connecting -------------------------------------------------------------- */

static enum mc_err shake_hands(struct mci_stream *stream, uint64_t deadline_ns)
{
    bool is_done = false;
    while (!is_done) {
        enum mc_err err = mci_tls_session_handshake(stream->session, &is_done);
        if (!err && !is_done) {
            err = await(stream, mci_stream_recv_events(stream), deadline_ns);
        }
        if (err) {
            return err;
        }
    }
    return MC_OK;
}

enum mc_err mci_stream_connect(const struct mci_address *address,
                               struct mci_tls *tls, uint64_t deadline_ns,
                               struct mci_stream **stream_out)
{
    int fd;
    const char *why = "";
    enum mc_err err = mci_address_connect(address, deadline_ns, &fd, &why);
    if (err) {
        char text[MCI_HOST_LEN_MAX + 9];
        mci_address_print(address, text);
        mc_log(MC_LOG_DEBUG, "peer %s: connect: %s", text, why);
        return err;
    }
    struct mci_stream *stream;
    err = create(fd, tls, address->host, &stream);
    if (err) {
        return err;
    }
    if (tls) {
        err = shake_hands(stream, deadline_ns);
        if (err) {
            mci_stream_close(stream);
            return err;
        }
    }
    *stream_out = stream;
    return MC_OK;
}
