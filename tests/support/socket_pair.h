/* SPDX-License-Identifier: Apache-2.0 */
/* socket_pair.h - two ends of a tcp connection over loopback, non-blocking.
 */
#ifndef SOCKET_PAIR_H
#define SOCKET_PAIR_H
#include <check.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mci_address.h"
#include "mci_clock.h"

static inline int pair_listen(uint16_t *port_out)
{
    const struct mci_listen_opts opts = {.host = "127.0.0.1"};
    const char *why = "";
    int fd = -1;
    ck_assert_msg(mci_address_listen(&opts, &fd, port_out, &why) == MC_OK,
                  "listen: %s", why);
    return fd;
}

static inline int pair_connect(uint16_t port)
{
    const struct mci_address address = {.host = "127.0.0.1", .port = port};
    const char *why = "";
    int fd = -1;
    ck_assert_msg(mci_address_connect(&address,
                                      mci_clock_ns() + 10 * MCI_NS_PER_S, &fd,
                                      &why) == MC_OK,
                  "connect: %s", why);
    return fd;
}

static inline int pair_accept(int listener)
{
    struct pollfd entry = {.fd = listener, .events = POLLIN};
    ck_assert_int_eq(poll(&entry, 1, 10000), 1);
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    return fd;
}

static inline void pair_make(int ends_out[2])
{
    uint16_t port = 0;
    int listener = pair_listen(&port);
    ends_out[0] = pair_connect(port);
    ends_out[1] = pair_accept(listener);
    (void)close(listener);
}

static inline uint64_t pair_soon(void)
{
    return mci_clock_ns() + 20 * MCI_NS_PER_S;
}
#endif
