/* SPDX-License-Identifier: Apache-2.0 */
/* A publisher that breaks the protocol: libzmq gives such a connection up for good
 * and says nothing; a source connects again. The publisher is a plain socket. */
#include <arpa/inet.h>
#include <check.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "await.h"
#include "source.h"
#include "suite.h"

#define WAIT_MS 20000
#define GREETING_LEN 64

struct rude {
    int listener;
    int peer; /* connected, -1: nobody */
    char endpoint[64];
};

static void rude_open(struct rude *rude)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t len = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    rude->peer = -1;
    rude->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(rude->listener, 0);
    ck_assert_int_eq(bind(rude->listener, (struct sockaddr *)&address, len), 0);
    ck_assert_int_eq(listen(rude->listener, 8), 0);
    ck_assert_int_eq(
        getsockname(rude->listener, (struct sockaddr *)&address, &len), 0);
    (void)snprintf(rude->endpoint, sizeof rude->endpoint, "tcp://127.0.0.1:%d",
                   ntohs(address.sin_port));
}

static void rude_leave(struct rude *rude)
{
    if (rude->peer >= 0) {
        (void)close(rude->peer);
    }
    rude->peer = -1;
}

static void rude_close(struct rude *rude)
{
    rude_leave(rude);
    (void)close(rude->listener);
}

static void rude_say(struct rude *rude, const void *bytes, size_t len)
{
    ck_assert_int_eq(send(rude->peer, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
}

/* Takes in the next one who connects, as a publisher of this mechanism does. */
static void rude_meet(struct rude *rude, const char *mechanism)
{
    uint8_t greeting[GREETING_LEN] = {0xff, [9] = 0x7f, [10] = 3};
    struct pollfd comes = {.fd = rude->listener, .events = POLLIN};
    memcpy(greeting + 12, mechanism, strlen(mechanism));
    ck_assert_msg(poll(&comes, 1, WAIT_MS) == 1, "nobody connects");
    rude_leave(rude);
    rude->peer = accept(rude->listener, NULL, NULL);
    ck_assert_int_ge(rude->peer, 0);
    rude_say(rude, greeting, sizeof greeting);
}

static void rude_greet(struct rude *rude)
{
    static const char ready[] = "\x04\x19\x05READY\x0bSocket-Type\0\0\0\x03PUB";
    rude_meet(rude, "NULL");
    rude_say(rude, ready, sizeof ready - 1);
}

/* Until the other side has ended it. */
static void rude_await_end(struct rude *rude)
{
    char room[256];
    struct pollfd says = {.fd = rude->peer, .events = POLLIN};
    do {
        ck_assert_int_eq(poll(&says, 1, WAIT_MS), 1);
    } while (recv(rude->peer, room, sizeof room, 0) > 0);
}

static struct source_set *open_on(const struct rude *rude)
{
    const struct mc_source_opts source = {.endpoint = rude->endpoint};
    const struct source_opts opts = {
        .sources = &source, .source_count = 1, .max_queue_bytes = 65536};
    struct source_set *set = NULL;
    ck_assert_int_eq(source_open(&opts, &set), MC_OK);
    return set;
}

static void expect_word(struct source_set *set, enum source_word word)
{
    struct pollfd polled = {.fd = source_fd(set), .events = POLLIN};
    ck_assert_int_eq(poll(&polled, 1, WAIT_MS), 1);
    struct source_message *message = source_take(set);
    ck_assert_ptr_nonnull(message);
    ck_assert_int_eq(message->word, word);
    source_rest(set);
    source_give_back(set, message);
}

static struct source_numbers numbers_of(struct source_set *set)
{
    struct source_numbers numbers;
    source_numbers(set, 0, &numbers);
    return numbers;
}

START_TEST(who_broke_the_protocol_is_connected_to_again)
{
    static const char nonsense[] = "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff";
    static const char number[] = "\x00\x08"
                                 "12345678";
    struct rude rude;
    rude_open(&rude);
    struct source_set *set = open_on(&rude);
    for (uint64_t i = 0; i < 3; i++) {
        rude_greet(&rude);
        expect_word(set, SOURCE_CONNECT);
        rude_say(&rude, nonsense, sizeof nonsense - 1);
        rude_await_end(&rude);
        ck_assert(AWAIT(numbers_of(set).disconnects == i + 1));
        ck_assert(!numbers_of(set).is_connected);
    }
    rude_greet(&rude); /* and now it behaves */
    expect_word(set, SOURCE_CONNECT);
    rude_say(&rude, number, sizeof number - 1);
    expect_word(set, SOURCE_MESSAGE);
    ck_assert(numbers_of(set).is_connected);
    ck_assert_uint_eq(numbers_of(set).connects, 4);
    source_close(set);
    rude_close(&rude);
}
END_TEST

/* A handshake that fails is no connection, and is tried again. */
START_TEST(who_speaks_another_mechanism_is_tried_again)
{
    struct rude rude;
    rude_open(&rude);
    struct source_set *set = open_on(&rude);
    for (int i = 0; i < 2; i++) {
        rude_meet(&rude, "PLAIN");
        rude_await_end(&rude);
    }
    ck_assert(!numbers_of(set).is_connected);
    rude_greet(&rude);
    expect_word(set, SOURCE_CONNECT);
    ck_assert_uint_eq(numbers_of(set).connects, 1);
    ck_assert_uint_eq(numbers_of(set).disconnects, 0);
    source_close(set);
    rude_close(&rude);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("source_again");
    TCase *tc = tcase_create("given up");
    tcase_set_timeout(tc, 100);
    tcase_add_test(tc, who_broke_the_protocol_is_connected_to_again);
    tcase_add_test(tc, who_speaks_another_mechanism_is_tried_again);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
