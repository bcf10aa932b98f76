/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "alloc_fail.h"
#include "await.h"
#include "mci_stream.h"
#include "socket_pair.h"
#include "suite.h"

struct duo {
    struct mci_stream *a;
    struct mci_stream *b;
};

static struct duo open_duo(void)
{
    int ends[2];
    struct duo duo = {.a = NULL};
    pair_make(ends);
    ck_assert_int_eq(mci_stream_accept(ends[0], NULL, &duo.a), MC_OK);
    ck_assert_int_eq(mci_stream_accept(ends[1], NULL, &duo.b), MC_OK);
    return duo;
}

static void close_duo(struct duo duo)
{
    mci_stream_close(duo.a);
    mci_stream_close(duo.b);
}

static bool is_readable(const struct mci_stream *stream)
{
    struct pollfd entry = {.fd = mci_stream_fd(stream), .events = POLLIN};
    return poll(&entry, 1, 10000) == 1;
}

START_TEST(parts_go_out_and_come_in_with_one_call)
{
    struct duo duo = open_duo();
    char one[4];
    char two[5];
    const struct iovec out[3] = {{"abc", 3}, {"", 0}, {"defghi", 6}};
    const struct iovec in[2] = {{one, sizeof one}, {two, sizeof two}};
    size_t moved = 0;
    ck_assert_int_eq(mci_stream_send(duo.a, out, 3, &moved), MC_OK);
    ck_assert_uint_eq(moved, 9);
    ck_assert(is_readable(duo.b));
    ck_assert_int_eq(mci_stream_recv(duo.b, in, 2, &moved), MC_OK);
    ck_assert_uint_eq(moved, 9);
    ck_assert_mem_eq(one, "abcd", 4);
    ck_assert_mem_eq(two, "efghi", 5);
    ck_assert(!mci_stream_has_pending(duo.b));
    ck_assert_int_eq(strncmp(mci_stream_peer(duo.b), "127.0.0.1:", 10), 0);
    close_duo(duo);
}
END_TEST

START_TEST(nothing_there_is_no_error)
{
    struct duo duo = open_duo();
    char room[8];
    const struct iovec in = {room, sizeof room};
    size_t moved = 1;
    ck_assert_int_eq(mci_stream_recv(duo.a, &in, 1, &moved), MC_OK);
    ck_assert_uint_eq(moved, 0);
    ck_assert_int_eq(mci_stream_recv_events(duo.a), POLLIN);
    ck_assert_int_eq(mci_stream_send_events(duo.a), POLLOUT);
    close_duo(duo);
}
END_TEST

/* An empty read must not be taken for the end of the stream. */
START_TEST(asking_for_nothing_moves_nothing)
{
    struct duo duo = open_duo();
    const struct iovec none = {NULL, 0};
    size_t moved = 1;
    ck_assert_int_eq(mci_stream_recv(duo.a, &none, 1, &moved), MC_OK);
    ck_assert_uint_eq(moved, 0);
    ck_assert_int_eq(mci_stream_send_all(duo.b, "x", 1, pair_soon()), MC_OK);
    ck_assert(is_readable(duo.a));
    moved = 1;
    ck_assert_int_eq(mci_stream_recv(duo.a, &none, 1, &moved), MC_OK);
    ck_assert_uint_eq(moved, 0);
    close_duo(duo);
}
END_TEST

START_TEST(a_full_socket_moves_what_fits_and_then_nothing)
{
    struct duo duo = open_duo();
    static char block[1 << 20];
    const struct iovec out = {block, sizeof block};
    size_t moved = 1;
    size_t total = 0;
    while (moved > 0 && total < ((size_t)1 << 30)) {
        ck_assert_int_eq(mci_stream_send(duo.a, &out, 1, &moved), MC_OK);
        total += moved;
    }
    ck_assert_uint_eq(moved, 0);
    uint64_t before_ns = mci_clock_ns();
    uint64_t deadline_ns = before_ns + 50 * MCI_NS_PER_MS;
    ck_assert_int_eq(
        mci_stream_send_all(duo.a, block, sizeof block, deadline_ns),
        MC_ERR_RPC_TIMEOUT);
    ck_assert_uint_lt(mci_clock_ns() - before_ns, 5 * MCI_NS_PER_S);
    close_duo(duo);
}
END_TEST

struct flow {
    struct mci_stream *stream;
    uint8_t *bytes;
    size_t len;
    enum mc_err err;
};

static void *send_flow(void *ctx)
{
    struct flow *flow = ctx;
    flow->err =
        mci_stream_send_all(flow->stream, flow->bytes, flow->len, pair_soon());
    return NULL;
}

static int room_of(const struct mci_stream *stream)
{
    int room = 0;
    socklen_t len = sizeof room;
    ck_assert_int_eq(
        getsockopt(mci_stream_fd(stream), SOL_SOCKET, SO_SNDBUF, &room, &len),
        0);
    return room;
}

START_TEST(within_a_host_the_bytes_under_way_are_bounded)
{
    struct duo duo = open_duo();
    ck_assert_int_gt(room_of(duo.a), 1 << 20); /* else it proves nothing */
    mci_stream_tune_for_bulk(duo.a);
    ck_assert_int_lt(room_of(duo.a), 1 << 20);
    ck_assert_int_gt(room_of(duo.b), 1 << 20);
    close_duo(duo);
}
END_TEST

/* Two addresses of one machine look like two hosts. */
START_TEST(between_hosts_the_system_bounds_the_bytes_under_way)
{
    struct sockaddr_in own = {.sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
    struct sockaddr_in peer = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof peer;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct mci_stream *stream = NULL;
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&peer, len), 0);
    ck_assert_int_eq(listen(listener, 1), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&peer, &len), 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&own, sizeof own), 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&peer, len), 0);
    ck_assert_int_eq(mci_stream_accept(fd, NULL, &stream), MC_OK);
    int before = room_of(stream);
    mci_stream_tune_for_bulk(stream);
    ck_assert_int_eq(room_of(stream), before);
    mci_stream_close(stream);
    (void)close(listener);
}
END_TEST

START_TEST(a_long_message_arrives_whole)
{
    struct duo duo = open_duo();
    const size_t len = 8 << 20;
    struct flow flow = {.stream = duo.a, .bytes = malloc(len), .len = len};
    uint8_t *got = malloc(len);
    pthread_t thread;
    ck_assert(flow.bytes && got);
    for (size_t i = 0; i < len; i++) {
        flow.bytes[i] = (uint8_t)(i * 31 >> 3);
    }
    ck_assert_int_eq(pthread_create(&thread, NULL, send_flow, &flow), 0);
    ck_assert_int_eq(mci_stream_recv_all(duo.b, got, len, pair_soon()), MC_OK);
    (void)pthread_join(thread, NULL);
    ck_assert_int_eq(flow.err, MC_OK);
    ck_assert_int_eq(memcmp(got, flow.bytes, len), 0);
    free(got);
    free(flow.bytes);
    close_duo(duo);
}
END_TEST

START_TEST(a_silent_peer_costs_recv_its_deadline)
{
    struct duo duo = open_duo();
    char room[8];
    ck_assert_int_eq(mci_stream_send_all(duo.b, "half", 4, pair_soon()), MC_OK);
    uint64_t before_ns = mci_clock_ns();
    ck_assert_int_eq(mci_stream_recv_all(duo.a, room, sizeof room,
                                         before_ns + 50 * MCI_NS_PER_MS),
                     MC_ERR_RPC_TIMEOUT);
    uint64_t took_ns = mci_clock_ns() - before_ns;
    ck_assert_uint_ge(took_ns, 50 * MCI_NS_PER_MS);
    ck_assert_uint_lt(took_ns, 5 * MCI_NS_PER_S);
    close_duo(duo);
}
END_TEST

START_TEST(the_end_of_the_stream_is_an_error)
{
    struct duo duo = open_duo();
    char room[8];
    ck_assert_int_eq(mci_stream_send_all(duo.b, "half", 4, pair_soon()), MC_OK);
    mci_stream_close(duo.b);
    ck_assert_int_eq(mci_stream_recv_all(duo.a, room, sizeof room, pair_soon()),
                     MC_ERR_RPC_FAIL);
    mci_stream_close(duo.a);
}
END_TEST

START_TEST(an_aborted_peer_is_an_error_and_what_it_queued_is_gone)
{
    struct duo duo = open_duo();
    static char block[1 << 20];
    const struct iovec out = {block, sizeof block};
    size_t moved = 1;
    while (moved > 0) {
        ck_assert_int_eq(mci_stream_send(duo.b, &out, 1, &moved), MC_OK);
    }
    mci_stream_abort(duo.b);
    /* A reset comes at once and throws away what was received but not read. */
    enum mc_err err = MC_OK;
    size_t total = 0;
    while (!err) {
        err = mci_stream_recv_all(duo.a, block, 1, pair_soon());
        total += !err;
    }
    ck_assert_int_eq(err, MC_ERR_RPC_FAIL);
    ck_assert_uint_lt(total, sizeof block);
    mci_stream_close(duo.a);
}
END_TEST

/* Writing to a peer that is gone raises no SIGPIPE. */
START_TEST(writing_to_a_closed_peer_is_an_error)
{
    struct duo duo = open_duo();
    enum mc_err err = MC_OK;
    mci_stream_close(duo.b);
    for (int i = 0; i < 1000 && !err; i++) {
        err = mci_stream_send_all(duo.a, "x", 1, pair_soon());
        await_turn();
    }
    ck_assert_int_eq(err, MC_ERR_RPC_FAIL);
    mci_stream_close(duo.a);
}
END_TEST

START_TEST(a_peer_that_only_stopped_sending_still_receives)
{
    struct duo duo = open_duo();
    char room[4];
    ck_assert_int_eq(shutdown(mci_stream_fd(duo.b), SHUT_WR), 0);
    ck_assert_int_eq(mci_stream_recv_all(duo.a, room, 1, pair_soon()),
                     MC_ERR_RPC_FAIL);
    ck_assert_int_eq(mci_stream_send_all(duo.a, "late", 4, pair_soon()), MC_OK);
    ck_assert_int_eq(mci_stream_recv_all(duo.b, room, 4, pair_soon()), MC_OK);
    ck_assert_mem_eq(room, "late", 4);
    close_duo(duo);
}
END_TEST

START_TEST(a_unix_socket_is_a_stream_too)
{
    int ends[2];
    struct duo duo = {.a = NULL};
    char room[2];
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends),
                     0);
    ck_assert_int_eq(mci_stream_accept(ends[0], NULL, &duo.a), MC_OK);
    ck_assert_int_eq(mci_stream_accept(ends[1], NULL, &duo.b), MC_OK);
    ck_assert_int_eq(mci_stream_send_all(duo.a, "hi", 2, pair_soon()), MC_OK);
    ck_assert_int_eq(mci_stream_recv_all(duo.b, room, 2, pair_soon()), MC_OK);
    ck_assert_str_eq(mci_stream_peer(duo.a), "unix");
    mci_stream_abort(duo.a);
    ck_assert_int_eq(mci_stream_recv_all(duo.b, room, 1, pair_soon()),
                     MC_ERR_RPC_FAIL);
    mci_stream_close(duo.b);
}
END_TEST

START_TEST(connecting_reaches_a_listener)
{
    uint16_t port = 0;
    int listener = pair_listen(&port);
    struct duo duo = {.a = NULL};
    char room[2];
    struct mci_address address = {.host = "127.0.0.1", .port = port};
    ck_assert_int_eq(mci_stream_connect(&address, NULL, pair_soon(), &duo.a),
                     MC_OK);
    ck_assert_int_eq(mci_stream_accept(pair_accept(listener), NULL, &duo.b),
                     MC_OK);
    ck_assert_int_eq(mci_stream_send_all(duo.a, "hi", 2, pair_soon()), MC_OK);
    ck_assert_int_eq(mci_stream_recv_all(duo.b, room, 2, pair_soon()), MC_OK);
    close_duo(duo);
    (void)close(listener);
    struct mci_stream *none = NULL;
    ck_assert_int_eq(mci_stream_connect(&address, NULL, pair_soon(), &none),
                     MC_ERR_RPC_FAIL);
    ck_assert_ptr_null(none);
}
END_TEST

START_TEST(a_stream_without_memory_closes_its_socket)
{
    struct alloc_fail fail;
    mci_stream_close(NULL);
    mci_stream_abort(NULL);
    ALLOC_FAIL_EACH(fail)
    {
        int ends[2];
        struct mci_stream *stream = NULL;
        pair_make(ends);
        alloc_fail_arm(&fail);
        enum mc_err err = mci_stream_accept(ends[0], NULL, &stream);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        if (err) {
            ck_assert_int_eq(fcntl(ends[0], F_GETFD), -1);
        }
        mci_stream_close(stream);
        (void)close(ends[1]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("socket_stream");
    TCase *moves = tcase_create("moves");
    tcase_set_timeout(moves, 60);
    tcase_add_test(moves, parts_go_out_and_come_in_with_one_call);
    tcase_add_test(moves, nothing_there_is_no_error);
    tcase_add_test(moves, asking_for_nothing_moves_nothing);
    tcase_add_test(moves, a_full_socket_moves_what_fits_and_then_nothing);
    tcase_add_test(moves, within_a_host_the_bytes_under_way_are_bounded);
    tcase_add_test(moves, between_hosts_the_system_bounds_the_bytes_under_way);
    tcase_add_test(moves, a_long_message_arrives_whole);
    tcase_add_test(moves, a_unix_socket_is_a_stream_too);
    tcase_add_test(moves, connecting_reaches_a_listener);
    suite_add_tcase(suite, moves);
    TCase *peers = tcase_create("peers");
    tcase_set_timeout(peers, 60);
    tcase_add_test(peers, a_silent_peer_costs_recv_its_deadline);
    tcase_add_test(peers, the_end_of_the_stream_is_an_error);
    tcase_add_test(peers,
                   an_aborted_peer_is_an_error_and_what_it_queued_is_gone);
    tcase_add_test(peers, writing_to_a_closed_peer_is_an_error);
    tcase_add_test(peers, a_peer_that_only_stopped_sending_still_receives);
    tcase_add_test(peers, a_stream_without_memory_closes_its_socket);
    suite_add_tcase(suite, peers);
    return suite_run(suite);
}
