/* SPDX-License-Identifier: Apache-2.0 */
/* mci_client_http.h - the pages of a client: is it well, and its figures.
 *
 * GET /health: {"status":"healthy","code":0}, 200 if healthy, else 503.
 * GET /metrics: Prometheus text. GET /metrics/summary: one line for people.
 * GET /version. Callbacks run on threads of the server, without locks held.
 * Threads: open and close by one.
 */
#ifndef MCI_CLIENT_HTTP_H
#define MCI_CLIENT_HTTP_H
#include <stdint.h>

#include "mci_buf.h"

struct mci_client_http;

struct mci_client_http_opts {
    const char *address; /* NULL = any */
    uint16_t port;       /* 0 = a free one */
    /* 0 healthy, 1 not initialized (or not known to the master), 2 the master
     * cannot be reached. */
    int (*health)(void *ctx);
    /* Appends text. NULL, or an error: 503 "metrics not available". */
    enum mc_err (*metrics)(void *ctx, struct mci_buf *text);
    enum mc_err (*summary)(void *ctx, struct mci_buf *text);
    void *ctx;
};

/* Errors, each with a line in the log: MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS (the
 * port is taken), MC_ERR_INVALID_PARAMS (address), MC_ERR_NOMEM,
 * MC_ERR_INTERNAL_ERROR. */
MC_CHECK_RESULT enum mc_err
mci_client_http_open(const struct mci_client_http_opts *opts,
                     struct mci_client_http **http_out, uint16_t *port_out);
void mci_client_http_close(struct mci_client_http *http); /* NULL is fine */
#endif
