/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the admin pages, and those that say the same to everybody. */
#include "master_process.h"

/* One master, no standby: these words never change while it answers. */
static void page_health(void *ctx, const struct mci_http_request *request,
                        struct mci_http_response *response)
{
    (void)ctx;
    (void)request;
    mci_http_print(response, "{\"status\":\"ok\",\"role\":\"leader\","
                             "\"ha_state\":\"serving\","
                             "\"service_ready\":true}");
}

static void page_role(void *ctx, const struct mci_http_request *request,
                      struct mci_http_response *response)
{
    (void)ctx;
    (void)request;
    mci_http_say(response, 200, "leader");
}

static void page_ha_status(void *ctx, const struct mci_http_request *request,
                           struct mci_http_response *response)
{
    (void)ctx;
    (void)request;
    mci_http_say(response, 200, "serving");
}

static void page_leader(void *ctx, const struct mci_http_request *request,
                        struct mci_http_response *response)
{
    (void)ctx;
    (void)request;
    mci_http_print(response, "{\"present\":false}");
}

static void page_unbuilt(void *ctx, const struct mci_http_request *request,
                         struct mci_http_response *response)
{
    (void)ctx;
    (void)request;
    mci_page_fail(response, MC_ERR_NOT_SUPPORTED);
}

static unsigned status_of(enum mc_err err)
{
    switch (err) {
    case MC_OK:
        return 200;
    case MC_ERR_INVALID_PARAMS:
    case MC_ERR_INVALID_KEY:
        return 400;
    case MC_ERR_SEGMENT_NOT_FOUND:
    case MC_ERR_OBJECT_NOT_FOUND:
    case MC_ERR_REPLICA_IS_NOT_READY:
    case MC_ERR_JOB_NOT_FOUND:
    case MC_ERR_TENANT_NOT_REGISTERED:
        return 404;
    case MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS:
    case MC_ERR_UNAVAILABLE_IN_CURRENT_MODE:
    case MC_ERR_TENANT_NOT_EMPTY:
        return 409;
    case MC_ERR_NOT_SUPPORTED:
        return 501;
    default:
        return 500;
    }
}

void mci_page_fail(struct mci_http_response *response, enum mc_err err)
{
    response->status = status_of(err);
    response->content_type = MCI_HTTP_JSON;
    mci_buf_clear(&response->body);
    mci_http_print(response,
                   "{\"success\":false,\"error_code\":%d,"
                   "\"error_message\":\"%s\"}",
                   err, mc_err_text(err));
}

#define ANY_METHOD (MCI_HTTP_GET | MCI_HTTP_POST)

static const struct mci_http_route routes[] = {
    {"/health", MCI_HTTP_GET, page_health},
    {"/metrics", MCI_HTTP_GET, mci_page_metrics},
    {"/metrics/summary", MCI_HTTP_GET, mci_page_summary},
    {"/version", MCI_HTTP_GET, mci_http_show_version},
    {"/role", MCI_HTTP_GET, page_role},
    {"/ha_status", MCI_HTTP_GET, page_ha_status},
    {"/leader", MCI_HTTP_GET, page_leader},
    {"/get_all_keys", MCI_HTTP_GET, mci_page_all_keys},
    {"/get_all_segments", MCI_HTTP_GET, mci_page_all_segments},
    {"/query_key", MCI_HTTP_GET, mci_page_query_key},
    {"/batch_query_keys", MCI_HTTP_GET, mci_page_query_keys},
    {"/query_segment", MCI_HTTP_GET, mci_page_segment},
    {"/get_segments_detail", MCI_HTTP_GET, mci_page_segments_detail},
    {"/kv_events/status", MCI_HTTP_GET, mci_page_events_status},
    {"/kv_events/snapshot", MCI_HTTP_GET, mci_page_events_snapshot},
    {"/api/v1/segments/status", MCI_HTTP_GET, mci_page_segment_status},
    {"/api/v1/remove_all", MCI_HTTP_POST, mci_page_remove_all},
    {"/api/v1/tenant_quotas", MCI_HTTP_GET | MCI_HTTP_PUT | MCI_HTTP_DELETE,
     mci_page_quotas},
    {"/api/v1/drain_jobs", ANY_METHOD, page_unbuilt},
    {"/api/v1/drain_jobs/query", ANY_METHOD, page_unbuilt},
    {"/api/v1/drain_jobs/cancel", ANY_METHOD, page_unbuilt},
};

enum mc_err mci_admin_open(struct mc_master *master, const char *address,
                           uint16_t port, uint16_t *port_out)
{
    const struct mci_http_server_opts server = {.name = "admin",
                                                .address = address,
                                                .port = port,
                                                .routes = routes,
                                                .route_count = sizeof routes /
                                                               sizeof routes[0],
                                                .ctx = master};
    return mci_http_server_open(&server, &master->admin, port_out);
}
