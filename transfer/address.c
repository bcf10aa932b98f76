/* SPDX-License-Identifier: Apache-2.0 */
/* address.c - see the header. Numbers never meet the resolver, so that nothing
 * here needs name service or /etc/hosts where addresses are given.
 */
#include "mci_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mci_clock.h"
#include "resolver.h"

#define BACKLOG_DEFAULT 1024

/* ---- parsing ------------------------------------------------------------ */

static bool parse_port(const char *text, uint16_t *port_out)
{
    uint32_t port = 0;
    size_t len = strlen(text);
    if (len == 0 || len > 5) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        port = port * 10 + (uint32_t)(text[i] - '0');
    }
    if (port > UINT16_MAX) {
        return false;
    }
    *port_out = (uint16_t)port;
    return true;
}

static bool host_is_sane(const char *host, size_t len)
{
    if (len == 0 || len > MCI_HOST_LEN_MAX) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)host[i];
        if (c <= ' ' || c == 0x7f || strchr("[]/", c)) {
            return false;
        }
    }
    return true;
}

bool mci_host_is_number(const char *host)
{
    unsigned char number[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, number) == 1 ||
           inet_pton(AF_INET6, host, number) == 1;
}

enum mc_err mci_address_parse(const char *text, struct mci_address *address_out)
{
    if (!text) {
        return MC_ERR_INVALID_PARAMS;
    }
    struct mci_address address = {.port = 0};
    const char *host = text;
    size_t len = strlen(text);
    const char *port = NULL;
    const char *colon = strchr(text, ':');
    if (text[0] == '[') {
        const char *end = strchr(text, ']');
        if (!end || (end[1] != '\0' && end[1] != ':')) {
            return MC_ERR_INVALID_PARAMS;
        }
        host = text + 1;
        len = (size_t)(end - host);
        port = end[1] ? end + 2 : NULL;
    } else if (colon && !strchr(colon + 1, ':')) {
        len = (size_t)(colon - text);
        port = colon + 1;
    }
    if (!host_is_sane(host, len) ||
        (port && !parse_port(port, &address.port))) {
        return MC_ERR_INVALID_PARAMS;
    }
    address.has_port = port != NULL;
    memcpy(address.host, host, len);
    *address_out = address;
    return MC_OK;
}

void mci_address_print(const struct mci_address *address, char *room)
{
    bool is_v6 = strchr(address->host, ':') != NULL;
    (void)snprintf(room, MCI_HOST_LEN_MAX + 9, is_v6 ? "[%s]:%u" : "%s:%u",
                   address->host, (unsigned)address->port);
}

/* ---- sockets ------------------------------------------------------------ */

/* An address of the system with a port put in. */
struct endpoint {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } u;
    socklen_t len;
};

static bool endpoint_make(const struct addrinfo *entry, uint16_t port,
                          struct endpoint *endpoint_out)
{
    if (entry->ai_addrlen > sizeof endpoint_out->u ||
        (entry->ai_family != AF_INET && entry->ai_family != AF_INET6)) {
        return false;
    }
    memcpy(&endpoint_out->u, entry->ai_addr, entry->ai_addrlen);
    endpoint_out->len = entry->ai_addrlen;
    if (entry->ai_family == AF_INET) {
        endpoint_out->u.v4.sin_port = htons(port);
    } else {
        endpoint_out->u.v6.sin6_port = htons(port);
    }
    return true;
}

static uint64_t time_left_ns(uint64_t deadline_ns)
{
    uint64_t now_ns = mci_clock_ns();
    return deadline_ns > now_ns ? deadline_ns - now_ns : 0;
}

static const char *errno_text(int number)
{
    const char *text = strerrordesc_np(number);
    return text ? text : "unknown error";
}

/* 0, or an errno. */
static int await_connected(int fd, uint64_t deadline_ns)
{
    for (;;) {
        uint64_t left_ms = time_left_ns(deadline_ns) / MCI_NS_PER_MS;
        struct pollfd entry = {.fd = fd, .events = POLLOUT};
        int count = poll(&entry, 1, left_ms > 60000 ? 60000 : (int)left_ms + 1);
        if (count > 0) {
            int failed = 0;
            socklen_t len = sizeof failed;
            (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &len);
            return failed;
        }
        if (count < 0 && errno != EINTR) {
            return errno;
        }
        if (time_left_ns(deadline_ns) == 0) {
            return ETIMEDOUT;
        }
    }
}

/* 0, or an errno. */
static int connect_one(const struct endpoint *endpoint, uint64_t deadline_ns,
                       int *fd_out)
{
    int fd = socket(endpoint->u.any.sa_family,
                    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return errno;
    }
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    int failed = 0;
    if (connect(fd, &endpoint->u.any, endpoint->len) < 0) {
        failed = errno == EINPROGRESS || errno == EINTR
                     ? await_connected(fd, deadline_ns)
                     : errno;
    }
    if (failed) {
        (void)close(fd);
        return failed;
    }
    *fd_out = fd;
    return 0;
}

/* An address that swallows packets gets its share of the time only. */
static uint64_t share_of(uint64_t deadline_ns, const struct addrinfo *entry)
{
    uint64_t count = 0;
    for (; entry; entry = entry->ai_next) {
        count++;
    }
    uint64_t left_ns = time_left_ns(deadline_ns);
    return deadline_ns - left_ns + left_ns / (count ? count : 1);
}

static enum mc_err connect_any(const struct addrinfo *all, uint16_t port,
                               uint64_t deadline_ns, int *fd_out,
                               const char **why_out)
{
    int failed = EADDRNOTAVAIL;
    for (const struct addrinfo *entry = all; entry; entry = entry->ai_next) {
        struct endpoint endpoint;
        if (!endpoint_make(entry, port, &endpoint)) {
            continue;
        }
        failed = connect_one(&endpoint, share_of(deadline_ns, entry), fd_out);
        if (failed == 0) {
            return MC_OK;
        }
        if (time_left_ns(deadline_ns) == 0) {
            failed = ETIMEDOUT;
            break;
        }
    }
    *why_out = errno_text(failed);
    return time_left_ns(deadline_ns) == 0 ? MC_ERR_RPC_TIMEOUT
                                          : MC_ERR_RPC_FAIL;
}

enum mc_err mci_address_connect(const struct mci_address *address,
                                uint64_t deadline_ns, int *fd_out,
                                const char **why_out)
{
    struct addrinfo *all = NULL;
    enum mc_err err = MC_OK;
    if (mci_resolve(address->host, AI_NUMERICHOST, &all) != 0) {
        err = mci_resolve_by(address->host, deadline_ns, &all, why_out);
    }
    if (err) {
        return err;
    }
    err = connect_any(all, address->port, deadline_ns, fd_out, why_out);
    freeaddrinfo(all);
    return err;
}

/* ---- listening ---------------------------------------------------------- */

static int listen_on(const struct endpoint *endpoint, unsigned backlog,
                     int *fd_out)
{
    int fd = socket(endpoint->u.any.sa_family,
                    SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return errno;
    }
    int on = 1;
    int off = 0;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (endpoint->u.any.sa_family == AF_INET6) {
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
    if (bind(fd, &endpoint->u.any, endpoint->len) < 0 ||
        listen(fd, (int)(backlog ? backlog : BACKLOG_DEFAULT)) < 0) {
        int failed = errno;
        (void)close(fd);
        return failed;
    }
    *fd_out = fd;
    return 0;
}

static uint16_t bound_port(int fd)
{
    struct endpoint endpoint = {.len = sizeof endpoint.u};
    if (getsockname(fd, &endpoint.u.any, &endpoint.len) < 0) {
        return 0;
    }
    return ntohs(endpoint.u.any.sa_family == AF_INET ? endpoint.u.v4.sin_port
                                                     : endpoint.u.v6.sin6_port);
}

/* The first port that can be had. 0, or an errno. */
static int listen_in_range(const struct addrinfo *entry,
                           const struct mci_listen_opts *opts, int *fd_out)
{
    uint32_t first = opts->port;
    uint32_t last = opts->port;
    if (opts->port == 0 && opts->port_min != 0) {
        first = opts->port_min;
        last = opts->port_max;
    }
    int failed = EADDRINUSE;
    for (uint32_t port = first; port <= last; port++) {
        struct endpoint endpoint;
        if (!endpoint_make(entry, (uint16_t)port, &endpoint)) {
            return EAFNOSUPPORT;
        }
        failed = listen_on(&endpoint, opts->backlog, fd_out);
        if (failed != EADDRINUSE && failed != EACCES) {
            return failed;
        }
    }
    return failed;
}

static int listen_any(const struct addrinfo *all,
                      const struct mci_listen_opts *opts, int *fd_out)
{
    int failed = EADDRNOTAVAIL;
    for (const struct addrinfo *entry = all; entry; entry = entry->ai_next) {
        failed = listen_in_range(entry, opts, fd_out);
        if (failed == 0 || failed == EADDRINUSE) {
            return failed;
        }
    }
    return failed;
}

/* A machine without IPv6 has no address of both families. */
static int listen_everywhere(const struct mci_listen_opts *opts, int *fd_out)
{
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct addrinfo second = {.ai_family = AF_INET,
                              .ai_addrlen = sizeof v4,
                              .ai_addr = (struct sockaddr *)&v4};
    struct addrinfo first = {.ai_family = AF_INET6,
                             .ai_addrlen = sizeof v6,
                             .ai_addr = (struct sockaddr *)&v6,
                             .ai_next = &second};
    return listen_any(&first, opts, fd_out);
}

enum mc_err mci_address_listen(const struct mci_listen_opts *opts, int *fd_out,
                               uint16_t *port_out, const char **why_out)
{
    struct addrinfo *all = NULL;
    int failed = 0;
    int fd = -1;
    if (!opts->host || opts->host[0] == '\0') {
        failed = listen_everywhere(opts, &fd);
    } else if (mci_resolve(opts->host, AI_NUMERICHOST | AI_PASSIVE, &all) ==
                   0 ||
               mci_resolve(opts->host, AI_PASSIVE, &all) == 0) {
        failed = listen_any(all, opts, &fd);
        freeaddrinfo(all);
    } else {
        *why_out = "unknown host";
        return MC_ERR_INVALID_PARAMS;
    }
    if (failed) {
        *why_out = errno_text(failed);
        return failed == EADDRINUSE ? MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS
                                    : MC_ERR_INTERNAL_ERROR;
    }
    *fd_out = fd;
    *port_out = bound_port(fd);
    return MC_OK;
}
