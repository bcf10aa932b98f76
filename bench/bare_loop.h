/* SPDX-License-Identifier: Apache-2.0 */
/* bare_loop.h - what we are measured against: bytes over blocking sockets, and
 * nothing else.
 *
 * One request for a batch, then its bytes, and for writes one word back; request
 * and bytes of a row each in a call of their own.
 *
 * Threads: one for each end of a connection.
 */
#ifndef BARE_LOOP_H
#define BARE_LOOP_H
#include <stdint.h>
#include <sys/socket.h>

#include "servers.h"
#include "streams.h"

struct bare_ask {
    uint64_t is_write;
    uint64_t at; /* in the server's memory */
    uint64_t rows;
    uint64_t row_bytes;
};

static inline bool bare_send(int fd, const void *data, size_t len)
{
    const uint8_t *at = data;
    while (len > 0) {
        ssize_t sent = send(fd, at, len, MSG_NOSIGNAL);
        if (sent <= 0) {
            return false;
        }
        at += sent;
        len -= (size_t)sent;
    }
    return true;
}

static inline bool bare_recv(int fd, void *data, size_t len)
{
    uint8_t *at = data;
    while (len > 0) {
        ssize_t got = recv(fd, at, len, 0);
        if (got <= 0) {
            return false;
        }
        at += got;
        len -= (size_t)got;
    }
    return true;
}

/* Until the other end closes. */
static inline void bare_serve(int fd, uint8_t *memory)
{
    struct bare_ask ask;
    bool is_good = true;
    while (is_good && bare_recv(fd, &ask, sizeof ask)) {
        for (uint64_t i = 0; i < ask.rows && is_good; i++) {
            uint8_t *row = memory + ask.at + i * ask.row_bytes;
            is_good = ask.is_write ? bare_recv(fd, row, ask.row_bytes)
                                   : bare_send(fd, row, ask.row_bytes);
        }
        if (is_good && ask.is_write) {
            is_good = bare_send(fd, &ask.at, sizeof ask.at);
        }
    }
}

static inline bool bare_move(int fd, const struct bare_ask *ask, uint8_t *local)
{
    uint64_t word = 0;
    bool is_good = bare_send(fd, ask, sizeof *ask);
    for (uint64_t i = 0; i < ask->rows && is_good; i++) {
        uint8_t *row = local + i * ask->row_bytes;
        is_good = ask->is_write ? bare_send(fd, row, ask->row_bytes)
                                : bare_recv(fd, row, ask->row_bytes);
    }
    return is_good && (!ask->is_write || bare_recv(fd, &word, sizeof word));
}

/* ---- streams -------------------------------------------------------------- */

struct bare_end { /* the ctx of a stream */
    struct bare_ask ask;
    int fd;
};

static inline bool bare_step(struct stream *stream)
{
    struct bare_end *end = stream->ctx;
    end->ask.at = stream->at;
    return bare_move(end->fd, &end->ask, stream->memory + stream->at);
}

/* ---- a server in a process of its own ------------------------------------------ */

struct bare_conn {
    int fd;
    uint8_t *memory;
};

static inline void *bare_serve_conn(void *arg)
{
    struct bare_conn *conn = arg;
    bare_serve(conn->fd, conn->memory);
    (void)close(conn->fd);
    free(conn);
    return NULL;
}

/* Each connection has memory of its own. Serves until it is killed. */
static inline int bare_server(size_t bytes)
{
    uint16_t port = 0;
    pthread_t thread;
    int listener = server_bind(&port);
    if (listener < 0 || listen(listener, STREAMS_MAX) != 0) {
        return 1;
    }
    (void)printf(":%u\n", port);
    (void)fflush(stdout);
    for (;;) {
        struct bare_conn *conn = calloc(1, sizeof *conn);
        if (!conn) {
            return 1;
        }
        conn->fd = accept(listener, NULL, NULL);
        conn->memory = stream_map(bytes);
        server_send_at_once(conn->fd);
        if (!conn->memory ||
            pthread_create(&thread, NULL, bare_serve_conn, conn) != 0) {
            free(conn);
            return 1;
        }
        (void)pthread_detach(thread);
    }
}

#endif
