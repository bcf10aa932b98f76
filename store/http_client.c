/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "http_server.h"
#include "mci_alloc.h"
#include "mci_client_http.h"

#define HEALTHY 0
#define STATUS_UNAVAILABLE 503

struct mci_client_http {
    struct mci_client_http_opts opts;
    struct mci_http_server *server;
};

static void show_health(void *ctx, const struct mci_http_request *request,
                        struct mci_http_response *response)
{
    static const char *const words[] = {"healthy", "not_initialized",
                                        "master_unreachable"};
    const struct mci_client_http *http = ctx;
    (void)request;
    int code = http->opts.health ? http->opts.health(http->opts.ctx) : 1;
    code = code >= 0 && code <= 2 ? code : 1;
    response->status = code == HEALTHY ? 200 : STATUS_UNAVAILABLE;
    mci_http_print(response, "{\"status\":\"%s\",\"code\":%d}", words[code],
                   code);
}

static void show_text(const struct mci_client_http *http,
                      enum mc_err (*fn)(void *ctx, struct mci_buf *text),
                      struct mci_http_response *response)
{
    response->content_type = MCI_HTTP_METRICS;
    if (!fn || fn(http->opts.ctx, &response->body) != MC_OK) {
        mci_http_say(response, STATUS_UNAVAILABLE, "metrics not available");
    }
}

static void show_metrics(void *ctx, const struct mci_http_request *request,
                         struct mci_http_response *response)
{
    const struct mci_client_http *http = ctx;
    (void)request;
    show_text(http, http->opts.metrics, response);
}

static void show_summary(void *ctx, const struct mci_http_request *request,
                         struct mci_http_response *response)
{
    const struct mci_client_http *http = ctx;
    (void)request;
    show_text(http, http->opts.summary, response);
}

static const struct mci_http_route routes[] = {
    {"/health", MCI_HTTP_GET, show_health},
    {"/metrics", MCI_HTTP_GET, show_metrics},
    {"/metrics/summary", MCI_HTTP_GET, show_summary},
    {"/version", MCI_HTTP_GET, mci_http_show_version},
};

enum mc_err mci_client_http_open(const struct mci_client_http_opts *opts,
                                 struct mci_client_http **http_out,
                                 uint16_t *port_out)
{
    struct mci_client_http *http = mci_calloc(1, sizeof *http);
    if (!http) {
        return MC_ERR_NOMEM;
    }
    http->opts = *opts;
    const struct mci_http_server_opts server = {.name = "client",
                                                .address = opts->address,
                                                .port = opts->port,
                                                .routes = routes,
                                                .route_count = sizeof routes /
                                                               sizeof routes[0],
                                                .ctx = http};
    enum mc_err err = mci_http_server_open(&server, &http->server, port_out);
    if (err) {
        mci_free(http);
        return err;
    }
    *http_out = http;
    return MC_OK;
}

void mci_client_http_close(struct mci_client_http *http)
{
    if (!http) {
        return;
    }
    mci_http_server_close(http->server);
    mci_free(http);
}
