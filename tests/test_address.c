/* SPDX-License-Identifier: Apache-2.0 */
#include "mci_address.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>

#include "alloc_fail.h"
#include "socket_pair.h"
#include "suite.h"

static const struct {
    const char *text;
    enum mc_err err;
    const char *host;
    uint16_t port;
    bool has_port;
    const char *printed;
} table[] = {
    {"h", MC_OK, "h", 0, false, "h:0"},
    {"h:1", MC_OK, "h", 1, true, "h:1"},
    {"h:65535", MC_OK, "h", 65535, true, "h:65535"},
    {"h:0", MC_OK, "h", 0, true, "h:0"},
    {"0.0.0.0", MC_OK, "0.0.0.0", 0, false, "0.0.0.0:0"},
    {"10.0.0.2:7001", MC_OK, "10.0.0.2", 7001, true, "10.0.0.2:7001"},
    {"::1", MC_OK, "::1", 0, false, "[::1]:0"},
    {"[::1]", MC_OK, "::1", 0, false, "[::1]:0"},
    {"[::1]:80", MC_OK, "::1", 80, true, "[::1]:80"},
    {"::1:80", MC_OK, "::1:80", 0, false, "[::1:80]:0"},
    {"a-name.of.some-host:50051", MC_OK, "a-name.of.some-host", 50051, true,
     "a-name.of.some-host:50051"},
    {"", MC_ERR_INVALID_PARAMS, NULL, 0, false, NULL},
    {":", MC_ERR_INVALID_PARAMS, NULL, 0, false, NULL},
    {":80", MC_ERR_INVALID_PARAMS, NULL, 0, false, NULL},
    {"h:", MC_ERR_INVALID_PARAMS, NULL, 0, false, NULL},
    {"h:99999", MC_ERR_INVALID_PARAMS, NULL, 0, false, NULL},
    {"h:65536", MC_ERR_INVALID_PARAMS, NULL, 0, false, NULL},
    {"h:-1", MC_ERR_INVALID_PARAMS, NULL, 0, false, NULL},
    {"h:+1", MC_ERR_INVALID_PARAMS, NULL, 0, false, NULL},
    {"h:1x", MC_ERR_INVALID_PARAMS, NULL, 0, false, NULL},
    {"h: 1", MC_ERR_INVALID_PARAMS, NULL, 0, false, NULL},
    {"h:18446744073709551617", MC_ERR_INVALID_PARAMS, NULL, 0, false, NULL},
    {"[::1]:p", MC_ERR_INVALID_PARAMS, NULL, 0, false, NULL},
    {"[::1]80", MC_ERR_INVALID_PARAMS, NULL, 0, false, NULL},
    {"[::1", MC_ERR_INVALID_PARAMS, NULL, 0, false, NULL},
    {"[]:80", MC_ERR_INVALID_PARAMS, NULL, 0, false, NULL},
    {"h h:1", MC_ERR_INVALID_PARAMS, NULL, 0, false, NULL},
    {"http://h:1", MC_ERR_INVALID_PARAMS, NULL, 0, false, NULL},
    {"h\n:1", MC_ERR_INVALID_PARAMS, NULL, 0, false, NULL},
};

START_TEST(what_people_write_is_read_or_refused)
{
    struct mci_address address;
    memset(&address, 0x5a, sizeof address);
    enum mc_err err = mci_address_parse(table[_i].text, &address);
    ck_assert_msg(err == table[_i].err, "\"%s\": %d", table[_i].text, err);
    if (err) {
        ck_assert_msg(address.host[0] == 0x5a, "output touched");
        return;
    }
    char printed[MCI_HOST_LEN_MAX + 9];
    mci_address_print(&address, printed);
    ck_assert_str_eq(address.host, table[_i].host);
    ck_assert_uint_eq(address.port, table[_i].port);
    ck_assert_int_eq(address.has_port, table[_i].has_port);
    ck_assert_str_eq(printed, table[_i].printed);
}
END_TEST

START_TEST(a_number_is_told_from_a_name)
{
    static const char *const numbers[] = {"127.0.0.1", "::1", "fe80::1:2"};
    static const char *const names[] = {"localhost", "1.2.3",     "1.2.3.4.5",
                                        "[::1]",     "256.1.1.1", ""};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        ck_assert_msg(mci_host_is_number(numbers[i]), "%s", numbers[i]);
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        ck_assert_msg(!mci_host_is_number(names[i]), "%s", names[i]);
    }
}
END_TEST

START_TEST(a_host_is_as_long_as_names_may_be)
{
    struct mci_address address;
    char text[400];
    memset(text, 'h', sizeof text);
    text[300] = '\0';
    ck_assert_int_eq(mci_address_parse(text, &address), MC_ERR_INVALID_PARAMS);
    text[256] = '\0';
    ck_assert_int_eq(mci_address_parse(text, &address), MC_ERR_INVALID_PARAMS);
    memcpy(text + 255, ":65535", 7);
    ck_assert_int_eq(mci_address_parse(text, &address), MC_OK);
    char printed[MCI_HOST_LEN_MAX + 9];
    mci_address_print(&address, printed);
    ck_assert_str_eq(printed, text);
    ck_assert_int_eq(mci_address_parse(NULL, &address), MC_ERR_INVALID_PARAMS);
}
END_TEST

static enum mc_err try_connect(const char *text, uint16_t port, int *fd_out)
{
    struct mci_address address;
    const char *why = NULL;
    ck_assert_int_eq(mci_address_parse(text, &address), MC_OK);
    address.port = port;
    enum mc_err err = mci_address_connect(&address, pair_soon(), fd_out, &why);
    ck_assert(err == MC_OK || (why && why[0]));
    return err;
}

static enum mc_err try_listen(const struct mci_listen_opts *opts, int *fd_out,
                              uint16_t *port_out)
{
    const char *why = NULL;
    enum mc_err err = mci_address_listen(opts, fd_out, port_out, &why);
    ck_assert(err == MC_OK || (why && why[0]));
    return err;
}

static void expect_reached(int listener, const char *host, uint16_t port)
{
    int fd = -1;
    ck_assert_int_eq(try_connect(host, port, &fd), MC_OK);
    int on = 0;
    socklen_t len = sizeof on;
    ck_assert_int_eq(getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, &len), 0);
    ck_assert_int_ne(on, 0);
    ck_assert_int_ne(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
    ck_assert_int_ne(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
    int other = pair_accept(listener);
    (void)close(other);
    (void)close(fd);
}

START_TEST(a_number_and_a_name_are_reached)
{
    const struct mci_listen_opts opts = {.host = "0.0.0.0"};
    int listener = -1;
    uint16_t port = 0;
    ck_assert_int_eq(try_listen(&opts, &listener, &port), MC_OK);
    ck_assert_uint_ne(port, 0);
    expect_reached(listener, "127.0.0.1", port);
    expect_reached(listener, "localhost", port);
    (void)close(listener);
}
END_TEST

static bool has_v6(void)
{
    const struct mci_listen_opts opts = {.host = "::1"};
    int fd = -1;
    uint16_t port = 0;
    bool has = try_listen(&opts, &fd, &port) == MC_OK;
    if (has) {
        (void)close(fd);
    }
    return has;
}

START_TEST(any_address_is_of_both_families)
{
    const struct mci_listen_opts opts = {.host = _i ? "" : NULL};
    int listener = -1;
    uint16_t port = 0;
    ck_assert_int_eq(try_listen(&opts, &listener, &port), MC_OK);
    expect_reached(listener, "127.0.0.1", port);
    if (has_v6()) {
        expect_reached(listener, "::1", port);
        expect_reached(listener, "[::1]", port);
    }
    (void)close(listener);
}
END_TEST

START_TEST(a_taken_port_is_told_as_taken)
{
    uint16_t port = 0;
    uint16_t other = 0;
    int listener = pair_listen(&port);
    int fd = -1;
    struct mci_listen_opts opts = {.host = "127.0.0.1", .port = port};
    ck_assert_int_eq(try_listen(&opts, &fd, &other),
                     MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS);
    opts.host = NULL;
    ck_assert_int_eq(try_listen(&opts, &fd, &other),
                     MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS);
    ck_assert_int_eq(fd, -1);
    (void)close(listener);
}
END_TEST

START_TEST(the_first_free_port_of_a_range_is_taken)
{
    int taken[2] = {-1, -1};
    int fd = -1;
    uint16_t port = 0;
    struct mci_listen_opts opts = {.host = "127.0.0.1"};
    /* Three neighbours, of which we hold the first two. */
    for (uint32_t first = 20000; taken[1] < 0; first += 7) {
        ck_assert_uint_lt(first, 60000);
        opts.port = (uint16_t)first;
        if (try_listen(&opts, &taken[0], &port)) {
            continue;
        }
        opts.port++;
        if (try_listen(&opts, &taken[1], &port)) {
            (void)close(taken[0]);
        }
    }
    opts = (struct mci_listen_opts){.host = "127.0.0.1",
                                    .port_min = (uint16_t)(port - 1),
                                    .port_max = port};
    uint16_t found = 0;
    ck_assert_int_eq(try_listen(&opts, &fd, &found),
                     MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS);
    opts.port_max = (uint16_t)(port + 200);
    ck_assert_int_eq(try_listen(&opts, &fd, &found), MC_OK);
    ck_assert_uint_gt(found, port);
    ck_assert_uint_le(found, opts.port_max);
    (void)close(fd);
    (void)close(taken[0]);
    (void)close(taken[1]);
}
END_TEST

START_TEST(an_unknown_host_is_told_as_that)
{
    int fd = -1;
    uint16_t port = 0;
    const struct mci_listen_opts opts = {.host = "no-such-host.invalid"};
    ck_assert_int_eq(try_listen(&opts, &fd, &port), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(try_connect("no-such-host.invalid", 1, &fd),
                     MC_ERR_RPC_FAIL);
    const struct mci_listen_opts foreign = {.host = "192.0.2.1"};
    ck_assert_int_eq(try_listen(&foreign, &fd, &port), MC_ERR_INTERNAL_ERROR);
    ck_assert_int_eq(fd, -1);
}
END_TEST

START_TEST(a_closed_port_is_told_at_once)
{
    uint16_t port = 0;
    int fd = -1;
    (void)close(pair_listen(&port));
    ck_assert_int_eq(try_connect("127.0.0.1", port, &fd), MC_ERR_RPC_FAIL);
    ck_assert_int_eq(fd, -1);
}
END_TEST

/* A listener whose queue is full answers no SYN. */
START_TEST(a_silent_peer_costs_the_deadline)
{
    const struct mci_listen_opts opts = {.host = "127.0.0.1", .backlog = 1};
    int listener = -1;
    uint16_t port = 0;
    int fds[16];
    int count = 0;
    ck_assert_int_eq(try_listen(&opts, &listener, &port), MC_OK);
    const struct mci_address address = {.host = "127.0.0.1", .port = port};
    enum mc_err err = MC_OK;
    uint64_t before_ns = 0;
    while (!err && count < 16) {
        const char *why = NULL;
        before_ns = mci_clock_ns();
        err = mci_address_connect(&address, before_ns + 100 * MCI_NS_PER_MS,
                                  &fds[count], &why);
        count += !err;
    }
    uint64_t took_ns = mci_clock_ns() - before_ns;
    ck_assert_int_eq(err, MC_ERR_RPC_TIMEOUT);
    ck_assert_uint_ge(took_ns, 100 * MCI_NS_PER_MS);
    ck_assert_uint_lt(took_ns, 5000 * MCI_NS_PER_MS);
    while (count > 0) {
        (void)close(fds[--count]);
    }
    (void)close(listener);
}
END_TEST

START_TEST(a_name_without_memory_is_a_failed_connect)
{
    uint16_t port = 0;
    int listener = pair_listen(&port);
    struct alloc_fail fail;
    ALLOC_FAIL_EACH(fail)
    {
        const struct mci_address address = {.host = "localhost", .port = port};
        int fd = -1;
        const char *why = NULL;
        fail.is_shared = true;
        alloc_fail_arm(&fail);
        enum mc_err err = mci_address_connect(&address, pair_soon(), &fd, &why);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_RPC_FAIL : MC_OK);
        if (!err) {
            (void)close(fd);
        }
    }
    (void)close(listener);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("address");
    TCase *texts = tcase_create("texts");
    tcase_add_loop_test(texts, what_people_write_is_read_or_refused, 0,
                        sizeof table / sizeof table[0]);
    tcase_add_test(texts, a_host_is_as_long_as_names_may_be);
    tcase_add_test(texts, a_number_is_told_from_a_name);
    suite_add_tcase(suite, texts);
    TCase *sockets = tcase_create("sockets");
    tcase_set_timeout(sockets, 60);
    tcase_add_test(sockets, a_number_and_a_name_are_reached);
    tcase_add_loop_test(sockets, any_address_is_of_both_families, 0, 2);
    tcase_add_test(sockets, a_taken_port_is_told_as_taken);
    tcase_add_test(sockets, the_first_free_port_of_a_range_is_taken);
    tcase_add_test(sockets, an_unknown_host_is_told_as_that);
    tcase_add_test(sockets, a_closed_port_is_told_at_once);
    tcase_add_test(sockets, a_silent_peer_costs_the_deadline);
    tcase_add_test(sockets, a_name_without_memory_is_a_failed_connect);
    suite_add_tcase(suite, sockets);
    return suite_run(suite);
}
