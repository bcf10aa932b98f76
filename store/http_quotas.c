/* SPDX-License-Identifier: Apache-2.0 */
/* GET, PUT and DELETE /api/v1/tenant_quotas?tenant_id=T; GET without a tenant
 * tells all. The size to set is quota_bytes of the query or of a JSON body.
 */
#include <json-c/json.h>

#include "master_process.h"
#include "quota_value.h"

#define AT_A_TIME 64

static void write_quota(struct mci_http_response *response,
                        const struct mci_quota *quota)
{
    mci_http_print(response, "{\"tenant_id\":");
    mci_http_json_string(response, quota->tenant);
    mci_http_print(response,
                   ",\"requested_bytes\":%ju,\"effective_bytes\":%ju,"
                   "\"charged_bytes\":%ju,\"explicit_policy\":%s}",
                   (uintmax_t)quota->bytes, (uintmax_t)quota->effective_bytes,
                   (uintmax_t)quota->charged_bytes,
                   quota->is_set ? "true" : "false");
}

static void tell_all(struct mci_master *core,
                     struct mci_http_response *response)
{
    struct mci_quota quotas[AT_A_TIME];
    const char *comma = "";
    uint32_t from = 0;
    size_t count;
    mci_http_print(response, "{\"success\":true,\"data\":[");
    while ((count = mci_master_quotas(core, &from, quotas, AT_A_TIME)) > 0) {
        for (size_t i = 0; i < count; i++) {
            mci_http_print(response, "%s", comma);
            write_quota(response, &quotas[i]);
            comma = ",";
        }
    }
    mci_http_print(response, "]}");
}

static void tell_one(struct mci_master *core, struct mc_view tenant,
                     struct mci_http_response *response)
{
    struct mci_quota quota;
    enum mc_err err = mci_master_quota_get(core, tenant, &quota);
    if (err) {
        mci_page_fail(response, err);
        return;
    }
    mci_http_print(response, "{\"success\":true,\"data\":");
    write_quota(response, &quota);
    mci_http_print(response, "}");
}

static bool size_of(const struct mci_http_request *request, uint64_t *bytes_out)
{
    struct mc_view value;
    bool is_good = false;
    if (mci_http_arg(request, "quota_bytes", &value)) {
        json_object *text =
            json_object_new_string_len(value.data, (int)value.len);
        is_good = text && mci_quota_value(text, bytes_out);
        json_object_put(text);
        return is_good;
    }
    json_object *root = mci_json_parse(request->body);
    is_good = root && mci_quota_member(root, bytes_out);
    json_object_put(root);
    return is_good;
}

static void set(struct mci_master *core, struct mc_view tenant,
                const struct mci_http_request *request,
                struct mci_http_response *response)
{
    uint64_t bytes = 0;
    enum mc_err err = MC_ERR_INVALID_PARAMS;
    if (size_of(request, &bytes)) {
        err = mci_master_quota_set(core, tenant, bytes);
    }
    if (err) {
        mci_page_fail(response, err);
    } else {
        tell_one(core, tenant, response);
    }
}

static void drop(struct mci_master *core, struct mc_view tenant,
                 struct mci_http_response *response)
{
    enum mc_err err = mci_master_quota_delete(core, tenant);
    if (err) {
        mci_page_fail(response, err);
    } else {
        mci_http_print(response, "{\"success\":true}");
    }
}

void mci_page_quotas(void *ctx, const struct mci_http_request *request,
                     struct mci_http_response *response)
{
    struct mc_master *master = ctx;
    struct mc_view tenant;
    if (!master->has_tenants) {
        mci_page_fail(response, MC_ERR_UNAVAILABLE_IN_CURRENT_MODE);
    } else if (!mci_http_arg(request, "tenant_id", &tenant)) {
        if (request->method == MCI_HTTP_GET) {
            tell_all(master->core, response);
        } else {
            mci_page_fail(response, MC_ERR_INVALID_PARAMS);
        }
    } else if (request->method == MCI_HTTP_PUT) {
        set(master->core, tenant, request, response);
    } else if (request->method == MCI_HTTP_DELETE) {
        drop(master->core, tenant, response);
    } else {
        tell_one(master->core, tenant, response);
    }
}
