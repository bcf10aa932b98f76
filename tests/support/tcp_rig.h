/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_rig.h - an owner that lends memory over tcp, a peer that moves rows, and a
 * peer that is nothing but a socket, for what no peer of ours would do.
 */
#ifndef TCP_RIG_H
#define TCP_RIG_H
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "await.h"
#include "engine.h"
#include "mci_address.h"
#include "mci_clock.h"
#include "target.h"
#include "tcp_wire.h"

#define TCP_RIG_WAIT_NS (20 * MCI_NS_PER_S)
#define TCP_RIG_INCARNATION 0x1234

struct tcp_rig {
    struct mc_transfer *owner;
    struct mc_transfer *peer;
    uint8_t *memory;
    size_t bytes;
    struct mc_exposure exposure;
    struct mc_target *target;
    uint64_t attempt; /* the last one made */
};

static inline struct mc_transfer_opts tcp_rig_opts(void)
{
    return (struct mc_transfer_opts){.bind_address = "127.0.0.1",
                                     .only = MC_TRANSPORT_TCP,
                                     .any_memory = true};
}

static inline void tcp_rig_open_as(struct tcp_rig *rig, size_t bytes,
                                   const struct mc_transfer_opts *opts)
{
    memset(rig, 0, sizeof *rig);
    rig->bytes = bytes;
    rig->memory = calloc(1, bytes);
    ck_assert_ptr_nonnull(rig->memory);
    ck_assert_int_eq(mc_transfer_open(opts, &rig->owner), MC_OK);
    ck_assert_int_eq(mc_transfer_open(opts, &rig->peer), MC_OK);
    const struct mc_exposure_opts exposure = {
        .base = rig->memory, .bytes = bytes, .fd = -1};
    ck_assert_int_eq(mc_transfer_expose(rig->owner, &exposure, &rig->exposure),
                     MC_OK);
    const struct mc_target_opts target = {.registration =
                                              rig->exposure.registration,
                                          .bytes = bytes,
                                          .endpoint = rig->exposure.endpoint};
    ck_assert_int_eq(mc_target_open(rig->peer, &target, &rig->target), MC_OK);
}

static inline void tcp_rig_open(struct tcp_rig *rig, size_t bytes)
{
    const struct mc_transfer_opts opts = tcp_rig_opts();
    tcp_rig_open_as(rig, bytes, &opts);
}

static inline void tcp_rig_close(struct tcp_rig *rig)
{
    mc_target_close(rig->target);
    mc_transfer_close(rig->peer);
    mc_transfer_close(rig->owner);
    free(rig->memory);
}

static inline uint64_t tcp_rig_soon(void)
{
    return mci_clock_ns() + TCP_RIG_WAIT_NS;
}

/* A row for [offset, offset + span->len), with a grant for just that; a write is
 * of a new attempt. */
static inline struct mc_transfer_row tcp_rig_row(struct tcp_rig *rig,
                                                 bool is_write, uint64_t offset,
                                                 const struct mc_span *span)
{
    struct mc_transfer_row row = {
        .target = rig->target,
        .spans = span,
        .span_count = 1,
        .offset = offset,
        .terms = {.registration = rig->exposure.registration,
                  .incarnation = TCP_RIG_INCARNATION,
                  .subject = ++rig->attempt,
                  .offset = offset,
                  .len = span->len,
                  .is_write = is_write}};
    row.grant.deadline_ns = tcp_rig_soon();
    row.grant.tag =
        mc_grant_tag(rig->exposure.key, &row.terms, row.grant.deadline_ns);
    return row;
}

static inline uint64_t tcp_rig_receipt(const struct tcp_rig *rig,
                                       uint64_t attempt)
{
    return mc_grant_receipt(rig->exposure.key, rig->exposure.registration,
                            attempt);
}

static inline void tcp_rig_fill(uint8_t *bytes, size_t len, unsigned seed)
{
    uint32_t word = seed * 2654435761u + 1;
    for (size_t i = 0; i < len; i++) {
        word = word * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(word >> 24);
    }
}

/* ---- a bare socket ------------------------------------------------------- */

static inline void raw_patience(int fd)
{
    const struct timeval wait = {.tv_sec = 20};
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
}

/* A blocking one, to the rig's owner. */
static inline int raw_connect(const struct tcp_rig *rig)
{
    struct mci_address address;
    const char *why = "";
    int fd = -1;
    ck_assert_int_eq(mci_address_parse(rig->exposure.endpoint, &address),
                     MC_OK);
    ck_assert_int_eq(mci_address_connect(&address, tcp_rig_soon(), &fd, &why),
                     MC_OK);
    ck_assert_int_eq(fcntl(fd, F_SETFL, 0), 0);
    raw_patience(fd);
    return fd;
}

/* False: the other side has closed. */
static inline bool raw_send(int fd, const void *data, size_t len)
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

/* Returns how much came before the end. */
static inline size_t raw_recv(int fd, void *data, size_t len)
{
    size_t done = 0;
    while (done < len) {
        ssize_t got = recv(fd, (uint8_t *)data + done, len - done, 0);
        if (got <= 0) {
            break;
        }
        done += (size_t)got;
    }
    return done;
}

/* Closed or reset, within the patience; what comes before is passed over. */
static inline bool raw_is_closed(int fd)
{
    uint8_t bytes[4096];
    ssize_t got;
    do {
        got = recv(fd, bytes, sizeof bytes, 0);
    } while (got > 0);
    return got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

static inline struct mci_tcp_request
raw_request(const struct mc_transfer_row *row, enum mci_tcp_op op,
            uint64_t number)
{
    uint64_t len = 0;
    for (uint32_t i = 0; i < row->span_count; i++) {
        len += row->spans[i].len;
    }
    bool moves = op == MCI_TCP_READ || op == MCI_TCP_WRITE;
    return (struct mci_tcp_request){.op = op,
                                    .is_final = row->is_final,
                                    .number = number,
                                    .terms = row->terms,
                                    .grant = row->grant,
                                    .offset = moves ? row->offset : 0,
                                    .len = moves ? len : 0};
}

static inline void raw_ask(int fd, const struct mci_tcp_request *request)
{
    uint8_t head[MCI_TCP_REQUEST_LEN];
    mci_tcp_request_write(request, head);
    ck_assert(raw_send(fd, head, sizeof head));
}

static inline struct mci_tcp_answer raw_answer(int fd)
{
    uint8_t head[MCI_TCP_ANSWER_LEN];
    struct mci_tcp_answer answer = {0};
    ck_assert_uint_eq(raw_recv(fd, head, sizeof head), sizeof head);
    ck_assert_int_eq(mci_tcp_answer_read(head, &answer), MC_OK);
    return answer;
}
#endif
