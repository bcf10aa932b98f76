/* SPDX-License-Identifier: Apache-2.0 */
/* http_server.h - pages over HTTP: the one door to libmicrohttpd.
 *
 * A server is a table of routes. It answers by itself what no route answers: 404
 * for a path it does not have, 405 for a method a path does not take, 413 for a
 * body over its limit. Each connection has a thread, so a slow reader or a long
 * page delays nobody else; how many there may be is bounded.
 * Threads: open and close by one; routes run on threads of the server, several
 * at once, without locks held.
 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H
#include <stdbool.h>
#include <stdint.h>

#include "mci_buf.h"

enum mci_http_method {
    MCI_HTTP_GET = 1u << 0, /* HEAD too */
    MCI_HTTP_PUT = 1u << 1,
    MCI_HTTP_POST = 1u << 2,
    MCI_HTTP_DELETE = 1u << 3
};

/* Borrowed for the call of its route. */
struct mci_http_request {
    enum mci_http_method method;
    const char *path;
    struct mc_view body;
    void *connection;
};

/* An argument of the query, decoded; valid for the call. False: not given.
 * Given twice: the first. */
bool mci_http_arg(const struct mci_http_request *request, const char *name,
                  struct mc_view *value_out);
/* "1", "true" and "yes" in any case. */
bool mci_http_arg_is_true(const struct mci_http_request *request,
                          const char *name);

/* A body that is made while it is sent. */
struct mci_http_source {
    /* Puts at most max bytes at out; returns how many, 0 at the end, less than
     * 0 to cut the connection. */
    int64_t (*read)(void *ctx, char *out, size_t max);
    void (*close)(void *ctx); /* once, also if nothing was read */
    void *ctx;
};

/* What a route fills in. A write that fails makes the answer a 500. */
struct mci_http_response {
    unsigned status;          /* 200 at first */
    const char *content_type; /* constant; JSON at first */
    struct mci_buf body;
    struct mci_http_source source; /* with read: instead of body */
    bool has_failed;
};

#define MCI_HTTP_JSON "application/json; charset=utf-8"
#define MCI_HTTP_LINES "application/x-ndjson" /* a JSON value a line */
#define MCI_HTTP_TEXT "text/plain; charset=utf-8"
#define MCI_HTTP_METRICS "text/plain; version=0.0.4"

void mci_http_print(struct mci_http_response *response, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void mci_http_write(struct mci_http_response *response, struct mc_view bytes);
/* In quotes, escaped; what is not UTF-8 becomes U+FFFD. */
void mci_http_json_string(struct mci_http_response *response,
                          struct mc_view text);
/* Sets status, plain text and body. */
void mci_http_say(struct mci_http_response *response, unsigned status,
                  const char *text);

struct mci_http_route {
    const char *path;
    unsigned methods; /* bits */
    void (*run)(void *ctx, const struct mci_http_request *request,
                struct mci_http_response *response);
};

/* A route that servers share: {"version":"0.1.0"}. */
void mci_http_show_version(void *ctx, const struct mci_http_request *request,
                           struct mci_http_response *response);

struct mci_http_server;

struct mci_http_server_opts {
    const char *name;                    /* for the log */
    const char *address;                 /* NULL = any */
    uint16_t port;                       /* 0 = a free one */
    const struct mci_http_route *routes; /* constant */
    size_t route_count;
    size_t body_max; /* of requests; 0 = 1 MiB */
    void *ctx;
};

/* Errors, each with a line in the log that names the port:
 * MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS (it is taken), MC_ERR_INVALID_PARAMS
 * (address), MC_ERR_NOMEM, MC_ERR_INTERNAL_ERROR. */
MC_CHECK_RESULT enum mc_err
mci_http_server_open(const struct mci_http_server_opts *opts,
                     struct mci_http_server **server_out, uint16_t *port_out);
/* Cuts connections; waits for routes that are running. NULL is fine. */
void mci_http_server_close(struct mci_http_server *server);
#endif
