/* SPDX-License-Identifier: Apache-2.0 */
/* server_rig.c - see the header. */
#include "server_rig.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mci_bytes.h"
#include "mci_clock.h"

#define EPOCH UINT64_C(0x0123456789abcdef)
#define BLOCKING_CAPACITY 1024
#define FRAME_MAX (MC_MESSAGE_LEN_MAX + MCI_FRAME_HEAD)
#define OBJECT_BYTES 64

/* ---- the server ---------------------------------------------------------- */

void server_rig_open(struct server_rig *rig,
                     const struct mci_control_server_opts *opts, bool blocks)
{
    *rig = (struct server_rig){.port = 0};
    const struct mci_log_opts log = {
        .epoch = EPOCH,
        .capacity = blocks ? BLOCKING_CAPACITY : 0,
        .overflow = blocks ? MC_PUBLISHER_BLOCK : MC_PUBLISHER_DROP_OLDEST};
    ck_assert_int_eq(mci_event_log_create(&log, &rig->log), MC_OK);
    if (blocks) {
        ck_assert_int_eq(mci_event_log_attach(rig->log), MC_OK);
    }
    ck_assert_int_eq(mci_log_taken_init(&rig->taken), MC_OK);
    const struct mci_master_opts master = {.log = rig->log};
    ck_assert_int_eq(mci_master_create(&master, &rig->master), MC_OK);
    const struct mci_registry_opts registry = {
        .master = rig->master, .epoch = EPOCH, .client_ttl_ms = SERVER_TTL_MS};
    ck_assert_int_eq(mci_registry_create(&registry, &rig->registry), MC_OK);
    struct mci_control_server_opts server = {.threads = 2};
    const char *why = NULL;
    if (opts) {
        server = *opts;
    }
    server.master = rig->master;
    server.registry = rig->registry;
    server.epoch = EPOCH;
    server.listen.host = "127.0.0.1";
    ck_assert_int_eq(
        mci_control_server_create(&server, &rig->server, &rig->port, &why),
        MC_OK);
}

void server_rig_close(struct server_rig *rig)
{
    mci_control_server_destroy(rig->server);
    for (uint32_t i = 0; i < rig->pulse_count; i++) {
        (void)close(rig->pulses[i]);
    }
    mci_registry_destroy(rig->registry);
    ck_assert(mci_master_check(rig->master));
    mci_master_destroy(rig->master);
    mci_log_taken_fini(&rig->taken);
    mci_event_log_destroy(rig->log);
}

struct mci_control_stats server_rig_stats(struct server_rig *rig)
{
    struct mci_control_stats stats;
    mci_control_server_stat(rig->server, &stats);
    return stats;
}

struct mci_master_stats server_rig_core(struct server_rig *rig)
{
    struct mci_master_stats stats;
    mci_master_stat(rig->master, &stats);
    return stats;
}

void server_rig_drain(struct server_rig *rig)
{
    do {
        mci_event_log_take(rig->log, 0, &rig->taken);
    } while (rig->taken.count > 0);
}

void server_rig_fill(struct server_rig *rig)
{
    static struct mci_log_tenant tenant;
    tenant = (struct mci_log_tenant){.name = mc_view_str("filler")};
    const struct mci_log_event event = {.type = MC_EVENT_STORED,
                                        .medium = MC_MEDIUM_CPU};
    uint32_t reserved = 0;
    while (mci_event_log_reserve(rig->log, 1, MCI_LOG_FOREGROUND, 0,
                                 &reserved) == MC_OK) {
        (void)mci_event_log_append(rig->log, &tenant, mc_view_str("filler"),
                                   &event, 1, &reserved);
        mci_event_log_unreserve(rig->log, reserved);
        reserved = 0;
    }
}

/* ---- peers --------------------------------------------------------------- */

void peer_open(struct peer *peer, struct server_rig *rig)
{
    const int on = 1;
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons(rig->port),
                                        .sin_addr.s_addr =
                                            htonl(INADDR_LOOPBACK)};
    *peer = (struct peer){.rig = rig, .epoch = EPOCH};
    peer->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(peer->fd, 0);
    (void)setsockopt(peer->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ck_assert_int_eq(
        connect(peer->fd, (const struct sockaddr *)&address, sizeof address),
        0);
    mci_buf_init(&peer->out, 2 * (size_t)FRAME_MAX);
    mci_buf_init(&peer->in, FRAME_MAX);
}

void peer_close(struct peer *peer)
{
    if (peer->fd >= 0) {
        (void)close(peer->fd);
    }
    peer->fd = -1;
    mci_buf_fini(&peer->out);
    mci_buf_fini(&peer->in);
}

void peer_send_bytes(struct peer *peer, const void *data, size_t len)
{
    size_t sent = 0;
    while (sent < len) {
        ssize_t n = send(peer->fd, (const uint8_t *)data + sent, len - sent,
                         MSG_NOSIGNAL);
        ck_assert_int_gt(n, 0);
        sent += (size_t)n;
    }
}

static void receive(struct peer *peer, uint8_t *data, size_t len)
{
    size_t got = 0;
    while (got < len) {
        ck_assert(peer_has_answer(peer, PEER_PATIENCE_MS));
        ssize_t n = recv(peer->fd, data + got, len - got, 0);
        ck_assert_int_gt(n, 0);
        got += (size_t)n;
    }
}

struct mci_pack *peer_ask(struct peer *peer, const struct asked *asked)
{
    const struct mci_request request = {
        .version = MCI_CONTROL_VERSION,
        .op = asked->op,
        .slot = asked->slot,
        .number = asked->number,
        .time_left_ms =
            asked->time_left_ms ? asked->time_left_ms : PEER_PATIENCE_MS,
        .client = peer->client,
        .incarnation = peer->incarnation,
        .epoch = peer->epoch};
    mci_buf_clear(&peer->out);
    mci_pack_init(&peer->pack, &peer->out);
    peer->at = mci_request_begin(&peer->pack, &request);
    return &peer->pack;
}

struct mc_view peer_finish(struct peer *peer)
{
    ck_assert_int_eq(mci_frame_finish(&peer->pack, peer->at), MC_OK);
    return mci_buf_view(&peer->out);
}

void peer_send(struct peer *peer)
{
    struct mc_view frame = peer_finish(peer);
    peer_send_bytes(peer, frame.data, frame.len);
}

enum mc_err peer_answer(struct peer *peer, const struct asked *asked)
{
    uint8_t head[MCI_FRAME_HEAD];
    receive(peer, head, sizeof head);
    size_t len = mci_get_le32(head);
    ck_assert_uint_le(len, MC_MESSAGE_LEN_MAX);
    mci_buf_clear(&peer->in);
    ck_assert_int_eq(mci_buf_reserve(&peer->in, len), MC_OK);
    receive(peer, peer->in.data, len);
    peer->in.len = len;
    mci_unpack_init(&peer->result, mci_buf_view(&peer->in));
    mci_answer_read(&peer->result, &peer->answer);
    ck_assert_int_eq(peer->result.error, MCI_UNPACK_OK);
    ck_assert_uint_eq(peer->answer.slot, asked->slot);
    ck_assert_uint_eq(peer->answer.number, asked->number);
    return peer->answer.code;
}

enum mc_err peer_call(struct peer *peer, const struct asked *asked)
{
    peer_send(peer);
    return peer_answer(peer, asked);
}

struct mc_view peer_last(const struct peer *peer)
{
    return mci_buf_view(&peer->in);
}

bool peer_has_answer(const struct peer *peer, int wait_ms)
{
    struct pollfd waits = {.fd = peer->fd, .events = POLLIN};
    return poll(&waits, 1, wait_ms) > 0;
}

void peer_expect_end(struct peer *peer)
{
    uint8_t byte;
    ck_assert(peer_has_answer(peer, PEER_PATIENCE_MS));
    ck_assert_int_le(recv(peer->fd, &byte, 1, 0), 0);
}

void peer_expect_last(struct peer *peer)
{
    uint8_t room[4096];
    ssize_t len;
    do {
        ck_assert(peer_has_answer(peer, PEER_PATIENCE_MS));
        len = recv(peer->fd, room, sizeof room, 0);
    } while (len > 0);
}

/* ---- hello --------------------------------------------------------------- */

enum mc_err peer_hello(struct peer *peer, uint64_t incarnation,
                       enum mci_role role)
{
    static uint64_t drawn = 1000;
    const struct asked asked = {.op = MCI_OP_HELLO};
    struct mci_welcome welcome;
    if (incarnation == 0) {
        incarnation = ++drawn;
    }
    const struct mci_hello hello = {.version_min = MCI_CONTROL_VERSION,
                                    .version_max = MCI_CONTROL_VERSION,
                                    .role = role,
                                    .incarnation = incarnation,
                                    .host_id = mc_view_str("host"),
                                    .software = mc_view_str("test")};
    mci_hello_pack(peer_ask(peer, &asked), &hello);
    enum mc_err err = peer_call(peer, &asked);
    mci_welcome_unpack(&peer->result, &welcome);
    ck_assert_int_eq(mci_unpack_done(&peer->result), MCI_UNPACK_OK);
    peer->client = welcome.client;
    peer->incarnation = incarnation;
    ck_assert_uint_eq(welcome.epoch, EPOCH);
    ck_assert((welcome.client != 0) == (err == MC_OK));
    return err;
}

void peer_join(struct peer *peer, struct server_rig *rig)
{
    peer_open(peer, rig);
    ck_assert_int_eq(peer_hello(peer, 0, MCI_ROLE_CALLS), MC_OK);
}

void peer_join_as(struct peer *peer, const struct peer *like)
{
    peer_open(peer, like->rig);
    peer->client = like->client;
    ck_assert_int_eq(peer_hello(peer, like->incarnation, MCI_ROLE_CALLS),
                     MC_OK);
    ck_assert_uint_eq(peer->client, like->client);
}

/* ---- heartbeats ---------------------------------------------------------- */

void peer_pulse(struct peer *peer, const struct peer *like)
{
    peer_open(peer, like->rig);
    peer->client = like->client;
    ck_assert_int_eq(peer_hello(peer, like->incarnation, MCI_ROLE_HEARTBEAT),
                     MC_OK);
}

enum mc_err peer_beat(struct peer *peer, const uint64_t *slots, uint32_t count)
{
    const struct asked asked = {.op = MCI_OP_HEARTBEAT};
    const struct mci_heartbeat heartbeat = {
        .clock_ns = mci_clock_ns(), .slots = slots, .slot_count = count};
    mci_heartbeat_pack(peer_ask(peer, &asked), &heartbeat);
    return peer_call(peer, &asked);
}

/* One beat, on a connection that stays. */
static void tell_clock(struct peer *owner)
{
    struct peer pulse;
    struct server_rig *rig = owner->rig;
    ck_assert_uint_lt(rig->pulse_count, SERVER_PULSES_MAX);
    peer_pulse(&pulse, owner);
    ck_assert_int_eq(peer_beat(&pulse, NULL, 0), MC_OK);
    rig->pulses[rig->pulse_count++] = pulse.fd;
    pulse.fd = -1;
    peer_close(&pulse);
}

/* ---- whole calls --------------------------------------------------------- */

uint32_t peer_mount(struct peer *peer, uint64_t number, uint64_t bytes)
{
    const struct asked asked = {.op = MCI_OP_SEGMENT_MOUNT, .number = number};
    const struct mci_mount mount = {.id = {7, peer->incarnation},
                                    .registration = 5,
                                    .key = {1, 2, 3},
                                    .bytes = bytes,
                                    .base = 0x10000,
                                    .name = mc_view_str("node:1"),
                                    .endpoint = mc_view_str("node:2"),
                                    .protocol = mc_view_str("tcp")};
    tell_clock(peer);
    mci_mount_pack(peer_ask(peer, &asked), &mount);
    ck_assert_int_eq(peer_call(peer, &asked), MC_OK);
    uint32_t segment = mci_unpack_u32(&peer->result, UINT32_MAX);
    ck_assert_int_eq(mci_unpack_done(&peer->result), MCI_UNPACK_OK);
    return segment;
}

struct mc_view key_of(struct key_text *text, uint64_t i)
{
    int len = snprintf(text->text, sizeof text->text, "key-%ju", (uintmax_t)i);
    return mc_view_make(text->text, (size_t)len);
}

void peer_send_keys(struct peer *peer, const struct asked *asked,
                    uint64_t first, uint32_t count)
{
    struct mci_pack *pack = peer_ask(peer, asked);
    if (asked->op == MCI_OP_REMOVE) {
        mci_pack_array(pack, 2);
        mci_pack_bool(pack, true);
    }
    mci_rows_pack(pack, count);
    for (uint32_t i = 0; i < count; i++) {
        struct key_text text;
        mci_pack_str(pack, key_of(&text, first + i));
    }
    peer_send(peer);
}

void peer_send_start(struct peer *peer, const struct asked *asked,
                     uint64_t first, uint32_t count)
{
    struct mci_write_row *rows = calloc(count ? count : 1, sizeof *rows);
    struct key_text *texts = calloc(count ? count : 1, sizeof *texts);
    ck_assert(rows && texts);
    for (uint32_t i = 0; i < count; i++) {
        rows[i].key = key_of(&texts[i], first + i);
        rows[i].size = OBJECT_BYTES;
    }
    mci_start_pack(peer_ask(peer, asked), NULL, rows, count);
    peer_send(peer);
    free(rows);
    free(texts);
}

void peer_send_end(struct peer *peer, const struct asked *asked, uint64_t first,
                   const uint64_t *numbers, uint32_t count)
{
    struct mci_pack *pack = peer_ask(peer, asked);
    mci_rows_pack(pack, count);
    for (uint32_t i = 0; i < count; i++) {
        struct key_text text;
        const struct mci_write_row row = {
            .key = key_of(&text, first + i),
            .attempt = {.epoch = peer->epoch, .number = numbers[i]},
            .place_count = 1};
        mci_end_row_pack(pack, &row);
    }
    peer_send(peer);
}

uint32_t peer_read_started(struct peer *peer, uint64_t *numbers_out,
                           uint32_t count)
{
    uint32_t granted = 0;
    ck_assert_uint_eq(mci_rows_unpack(&peer->result), count);
    for (uint32_t i = 0; i < count; i++) {
        struct mci_write_row row = {.size = 0};
        mci_started_unpack(&peer->result, peer->epoch, &row);
        numbers_out[i] = row.attempt.number;
        granted += row.err == MC_OK;
    }
    ck_assert_int_eq(mci_unpack_done(&peer->result), MCI_UNPACK_OK);
    return granted;
}

uint32_t peer_count_results(struct peer *peer, int64_t value)
{
    uint32_t found = 0;
    uint32_t count = mci_rows_unpack(&peer->result);
    for (uint32_t i = 0; i < count; i++) {
        found += mci_result_unpack(&peer->result) == value;
    }
    ck_assert_int_eq(mci_unpack_done(&peer->result), MCI_UNPACK_OK);
    return found;
}

void peer_put(struct peer *peer, uint64_t number, uint64_t first,
              uint32_t count)
{
    const struct asked start = {.op = MCI_OP_PUT_START, .number = number};
    const struct asked end = {.op = MCI_OP_PUT_END, .number = number + 1};
    uint64_t *numbers = calloc(count, sizeof *numbers);
    ck_assert_ptr_nonnull(numbers);
    peer_send_start(peer, &start, first, count);
    ck_assert_int_eq(peer_answer(peer, &start), MC_OK);
    ck_assert_uint_eq(peer_read_started(peer, numbers, count), count);
    peer_send_end(peer, &end, first, numbers, count);
    ck_assert_int_eq(peer_answer(peer, &end), MC_OK);
    ck_assert_uint_eq(peer_count_results(peer, MC_OK), count);
    free(numbers);
}
