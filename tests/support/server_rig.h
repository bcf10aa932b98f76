/* SPDX-License-Identifier: Apache-2.0 */
/* server_rig.h - a control server on a free port over a core of its own, and
 * peers that speak to it over raw sockets, frame by frame.
 *
 * A peer is one connection. What it writes is laid out with the codec of the
 * project but sent as the test likes: in pieces, twice, cut, or not the truth.
 * The test is the consumer of events: the log is full when it says so.
 */
#ifndef SERVER_RIG_H
#define SERVER_RIG_H
#include <check.h>

#include "control_server.h"
#include "mci_event_log.h"

#define SERVER_TTL_MS 600000 /* nobody expires while a test is slow */
#define SERVER_PULSES_MAX 8
#define PEER_PATIENCE_MS 20000

struct server_rig {
    struct mci_event_log *log;
    struct mci_master *master;
    struct mci_registry *registry;
    struct mci_control_server *server;
    uint16_t port;
    struct mci_log_taken taken;
    int pulses[SERVER_PULSES_MAX]; /* connections of the heartbeats that owners
                                      of segments have sent, once each */
    uint32_t pulse_count;
};

/* opts may be NULL; what is the rig's own is filled in. With `blocks` the log
 * holds 1024 events, which nobody takes. */
void server_rig_open(struct server_rig *rig,
                     const struct mci_control_server_opts *opts, bool blocks);
void server_rig_close(struct server_rig *rig);
struct mci_control_stats server_rig_stats(struct server_rig *rig);
struct mci_master_stats server_rig_core(struct server_rig *rig);

/* Takes all events out of the log. */
void server_rig_drain(struct server_rig *rig);
/* Adds to the log until it is full. */
void server_rig_fill(struct server_rig *rig);

struct peer {
    struct server_rig *rig;
    int fd;
    uint32_t client;
    uint64_t incarnation;
    uint64_t epoch;
    struct mci_buf out;
    struct mci_buf in;
    struct mci_pack pack;
    size_t at;
    struct mci_answer answer;
    struct mci_unpack result;
};

void peer_open(struct peer *peer, struct server_rig *rig);
void peer_close(struct peer *peer);

/* Says hello; returns the code. An incarnation of 0 draws a new one. */
enum mc_err peer_hello(struct peer *peer, uint64_t incarnation,
                       enum mci_role role);
/* Opens and says hello as a new client. */
void peer_join(struct peer *peer, struct server_rig *rig);
/* Another connection of the client of `like`. */
void peer_join_as(struct peer *peer, const struct peer *like);

struct asked {
    enum mci_op op;
    uint32_t slot;
    uint64_t number;
    uint32_t time_left_ms; /* 0 = 20 s */
};
/* Begins a request; the args are packed onto the result; ended by peer_send or
 * peer_finish. */
struct mci_pack *peer_ask(struct peer *peer, const struct asked *asked);
/* The frame, whole, valid until the next peer_ask. */
struct mc_view peer_finish(struct peer *peer);
void peer_send(struct peer *peer);
void peer_send_bytes(struct peer *peer, const void *data, size_t len);

/* Waits for an answer, which must be to this slot and number; its code. The
 * result is read next from peer->result. */
enum mc_err peer_answer(struct peer *peer, const struct asked *asked);
enum mc_err peer_call(struct peer *peer, const struct asked *asked);
/* The last frame that came, without its length. */
struct mc_view peer_last(const struct peer *peer);

/* Something can be read, or the end, within the time. */
bool peer_has_answer(const struct peer *peer, int wait_ms);
/* Waits for the other side to close; nothing may come before. */
void peer_expect_end(struct peer *peer);
void peer_expect_last(struct peer *peer); /* after what is on its way */

/* ---- whole calls --------------------------------------------------------- */

/* Lends a segment; with a heartbeat, since nothing is placed before the owner's
 * clock is known. */
uint32_t peer_mount(struct peer *peer, uint64_t number, uint64_t bytes);

/* Makes peer the connection for heartbeats of the client of `like`. */
void peer_pulse(struct peer *peer, const struct peer *like);
enum mc_err peer_beat(struct peer *peer, const uint64_t *slots, uint32_t count);

struct key_text {
    char text[24];
};
/* "key-<i>" */
struct mc_view key_of(struct key_text *text, uint64_t i);

/* put_start, put_end, revoke, get, exist, remove of keys first to first + count;
 * the request is begun, sent and not awaited. */
void peer_send_keys(struct peer *peer, const struct asked *asked,
                    uint64_t first, uint32_t count);
void peer_send_start(struct peer *peer, const struct asked *asked,
                     uint64_t first, uint32_t count);
/* numbers: of the attempts, as read from a start's answer. */
void peer_send_end(struct peer *peer, const struct asked *asked, uint64_t first,
                   const uint64_t *numbers, uint32_t count);
/* Reads the rows of a start's answer; returns how many were granted. */
uint32_t peer_read_started(struct peer *peer, uint64_t *numbers_out,
                           uint32_t count);
/* How many results are equal to `value`. */
uint32_t peer_count_results(struct peer *peer, int64_t value);

/* start and end; numbers `number` and `number + 1` of slot 0. */
void peer_put(struct peer *peer, uint64_t number, uint64_t first,
              uint32_t count);
#endif
