/* SPDX-License-Identifier: Apache-2.0 */
/* Pages about objects. They look without leasing: an operator who asks where a
 * key is does not keep it, nor count as a hit.
 */
#include <string.h>

#include "http_lines.h"
#include "master_process.h"
#include "mci_alloc.h"

#define REMOVE_TIMEOUT_MS 10000
#define KEYS_MAX 65536
#define TENANTS_AT_A_TIME 64

static struct mc_view tenant_of(const struct mci_http_request *request)
{
    struct mc_view tenant = {NULL, 0};
    (void)mci_http_arg(request, "tenant_id", &tenant);
    return tenant;
}

/* ---- all keys ------------------------------------------------------------- */

/* A walk through the store while its rows are being sent. */
struct walk {
    struct mci_master *core;
    struct mci_cursor cursor;
    struct mci_page page;
    uint32_t at;                        /* row of the page */
    char tenant[MC_TENANT_LEN_MAX + 1]; /* empty: default */
    size_t tenant_len;
    char line[4 * MC_KEY_LEN_MAX + 1]; /* what is being sent */
    struct mci_http_lines lines;
};

/* One key a line; so a control character in a key is written as \xHH. */
static size_t write_line(char *out, struct mc_view key)
{
    static const char hex[] = "0123456789abcdef";
    const uint8_t *bytes = key.data;
    size_t len = 0;
    for (size_t i = 0; i < key.len; i++) {
        if (bytes[i] >= 0x20 && bytes[i] != 0x7f) {
            out[len++] = (char)bytes[i];
            continue;
        }
        out[len++] = '\\';
        out[len++] = 'x';
        out[len++] = hex[bytes[i] >> 4];
        out[len++] = hex[bytes[i] & 15];
    }
    out[len++] = '\n';
    return len;
}

/* Makes the next line; false at the end. */
static bool next_line(void *ctx, struct mc_view *line_out, enum mc_err *err_out)
{
    struct walk *walk = ctx;
    while (walk->at == walk->page.count) {
        if (walk->cursor.at_end) {
            return false;
        }
        const struct mc_view tenant =
            walk->tenant_len ? mc_view_make(walk->tenant, walk->tenant_len)
                             : mc_view_str("default");
        *err_out =
            mci_master_list(walk->core, tenant, &walk->cursor, &walk->page);
        walk->at = 0;
        if (*err_out) {
            return false;
        }
    }
    size_t len = write_line(walk->line, walk->page.rows[walk->at++].key);
    *line_out = mc_view_make(walk->line, len);
    return true;
}

static int64_t read_walk(void *ctx, char *out, size_t max)
{
    struct walk *walk = ctx;
    return mci_http_lines_read(&walk->lines, out, max);
}

static void close_walk(void *ctx)
{
    struct walk *walk = ctx;
    mci_page_fini(&walk->page);
    mci_free(walk);
}

void mci_page_all_keys(void *ctx, const struct mci_http_request *request,
                       struct mci_http_response *response)
{
    struct mc_master *master = ctx;
    struct mc_view tenant = tenant_of(request);
    enum mc_err err = mci_master_tenant_check(master->core, tenant);
    if (err) {
        mci_page_fail(response, err);
        return;
    }
    struct walk *walk = mci_calloc(1, sizeof *walk);
    if (!walk || mci_page_init(&walk->page) != MC_OK) {
        mci_free(walk);
        response->has_failed = true;
        return;
    }
    walk->core = master->core;
    walk->lines = (struct mci_http_lines){.next = next_line, .ctx = walk};
    if (tenant.len > 0) {
        memcpy(walk->tenant, tenant.data, tenant.len);
        walk->tenant_len = tenant.len;
    }
    response->content_type = MCI_HTTP_TEXT;
    response->source = (struct mci_http_source){
        .read = read_walk, .close = close_walk, .ctx = walk};
}

/* ---- where keys are -------------------------------------------------------- */

/* The copies in memory, as an array. */
static void write_places(struct mc_master *master,
                         struct mci_http_response *response,
                         const struct mci_read_row *row)
{
    const char *comma = "";
    mci_http_print(response, "[");
    for (uint32_t i = 0; i < row->place_count; i++) {
        struct mci_segment_row segment;
        struct mci_segment_texts texts;
        if (!mci_registry_segment(master->registry, row->places[i].segment,
                                  &segment, &texts)) {
            continue; /* went since */
        }
        mci_http_print(response, "%s{\"size_\":%ju,\"buffer_address_\":%ju,",
                       comma, (uintmax_t)row->size,
                       (uintmax_t)(segment.base + row->places[i].offset));
        mci_http_print(response, "\"protocol_\":");
        mci_http_json_string(response, segment.protocol);
        mci_http_print(response, ",\"transport_endpoint_\":");
        mci_http_json_string(response, segment.endpoint);
        mci_http_print(response, "}");
        comma = ",";
    }
    mci_http_print(response, "]");
}

void mci_page_query_key(void *ctx, const struct mci_http_request *request,
                        struct mci_http_response *response)
{
    struct mc_master *master = ctx;
    struct mci_read_row row = {.want_hold = false};
    if (!mci_http_arg(request, "key", &row.key)) {
        mci_page_fail(response, MC_ERR_INVALID_PARAMS);
        return;
    }
    const struct mci_call call =
        mci_process_call(master, tenant_of(request), 0);
    enum mc_err err = mci_master_look(master->core, &call, &row, 1);
    err = err ? err : row.err;
    if (err) {
        mci_page_fail(response, err);
        return;
    }
    mci_http_print(response, "{\"success\":true,\"data\":");
    write_places(master, response, &row);
    mci_http_print(response, "}");
}

static void write_answer(struct mc_master *master,
                         struct mci_http_response *response,
                         const struct mci_read_row *row)
{
    mci_http_json_string(response, row->key);
    if (row->err) {
        mci_http_print(response, ":{\"ok\":false,\"error\":\"%s\"}",
                       mc_err_text(row->err));
        return;
    }
    mci_http_print(response, ":{\"ok\":true,\"values\":");
    write_places(master, response, row);
    if (row->media & MC_MEDIUM_DISK) {
        mci_http_print(response, ",\"local_disk_values\":[{\"size_\":%ju}]",
                       (uintmax_t)row->size);
    }
    mci_http_print(response, "}");
}

static void write_answers(struct mc_master *master, struct mc_view tenant,
                          struct mc_view keys,
                          struct mci_http_response *response)
{
    const char *text = keys.data;
    const char *end = text + keys.len;
    const char *comma = "";
    for (size_t count = 0; text < end && count < KEYS_MAX; count++) {
        const char *stop = memchr(text, ',', (size_t)(end - text));
        stop = stop ? stop : end;
        struct mci_read_row row = {
            .key = mc_view_make(text, (size_t)(stop - text))};
        const struct mci_call call = mci_process_call(master, tenant, 0);
        text = stop + 1;
        if (row.key.len == 0) {
            continue;
        }
        enum mc_err err = mci_master_look(master->core, &call, &row, 1);
        row.err = err ? err : row.err;
        mci_http_print(response, "%s", comma);
        write_answer(master, response, &row);
        comma = ",";
    }
}

void mci_page_query_keys(void *ctx, const struct mci_http_request *request,
                         struct mci_http_response *response)
{
    struct mc_master *master = ctx;
    struct mc_view keys;
    if (!mci_http_arg(request, "keys", &keys) || keys.len == 0) {
        mci_page_fail(response, MC_ERR_INVALID_PARAMS);
        return;
    }
    mci_http_print(response, "{\"success\":true,\"data\":{");
    write_answers(master, tenant_of(request), keys, response);
    mci_http_print(response, "}}");
}

/* ---- removing ---------------------------------------------------------------- */

static enum mc_err remove_tenant(struct mc_master *master,
                                 struct mc_view tenant, bool force,
                                 uint64_t *removed)
{
    uint64_t count = 0;
    const struct mci_call call =
        mci_process_call(master, tenant, REMOVE_TIMEOUT_MS);
    enum mc_err err = mci_master_remove_all(master->core, &call, force, &count);
    *removed += count;
    return err;
}

static enum mc_err remove_every_tenant(struct mc_master *master, bool force,
                                       uint64_t *removed)
{
    struct mci_quota tenants[TENANTS_AT_A_TIME];
    uint32_t from = 0;
    for (;;) {
        size_t count =
            mci_master_quotas(master->core, &from, tenants, TENANTS_AT_A_TIME);
        for (size_t i = 0; i < count; i++) {
            enum mc_err err =
                remove_tenant(master, tenants[i].tenant, force, removed);
            if (err) {
                return err;
            }
        }
        if (count == 0) {
            return MC_OK;
        }
    }
}

void mci_page_remove_all(void *ctx, const struct mci_http_request *request,
                         struct mci_http_response *response)
{
    struct mc_master *master = ctx;
    struct mc_view tenant = tenant_of(request);
    bool force = mci_http_arg_is_true(request, "force");
    uint64_t removed = 0;
    enum mc_err err = !master->has_tenants || tenant.len > 0
                          ? remove_tenant(master, tenant, force, &removed)
                          : remove_every_tenant(master, force, &removed);
    if (err) {
        mci_page_fail(response, err);
        return;
    }
    mci_http_print(response, "{\"removed_count\":%ju}", (uintmax_t)removed);
}
