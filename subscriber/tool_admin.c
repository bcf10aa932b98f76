/* SPDX-License-Identifier: Apache-2.0 */
/* The door of this folder to libcurl. */
#include "tool_admin.h"

#include <curl/curl.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mc_limits.h"

#define TIMEOUT_DEFAULT_MS 10000L
#define LINE_MAX_BYTES (4 * (size_t)MC_KEY_LEN_MAX + 1)
#define TENANTS_MAX_BYTES (64u << 20)

struct mc_view tool_admin_spell(struct mc_view key)
{
    static char text[LINE_MAX_BYTES];
    static const char hex[] = "0123456789abcdef";
    const unsigned char *bytes = key.data;
    size_t len = 0;
    if (key.len > MC_KEY_LEN_MAX) {
        return mc_view_make(NULL, 0);
    }
    for (size_t i = 0; i < key.len; i++) {
        if (bytes[i] >= 0x20 && bytes[i] != 0x7f) {
            text[len++] = (char)bytes[i];
        } else {
            text[len++] = '\\';
            text[len++] = 'x';
            text[len++] = hex[bytes[i] >> 4];
            text[len++] = hex[bytes[i] & 15];
        }
    }
    return mc_view_make(text, len);
}

struct listing {
    struct tool_rowset *set;
    struct mc_view tenant;
    char line[LINE_MAX_BYTES];
    size_t len;
    bool is_too_long;
};

static void add_line(struct listing *listing)
{
    const struct tool_names names = {
        .tenant = listing->tenant,
        .key = mc_view_make(listing->line, listing->len)};
    tool_rowset_add(listing->set, &names, 0);
    listing->len = 0;
}

static size_t on_body(char *data, size_t size, size_t count, void *ctx)
{
    struct listing *listing = ctx;
    for (size_t i = 0; i < size * count; i++) {
        if (data[i] == '\n') {
            add_line(listing);
        } else if (listing->len == sizeof listing->line) {
            listing->is_too_long = true;
            return 0; /* ends it */
        } else {
            listing->line[listing->len++] = data[i];
        }
    }
    return size * count;
}

/* The address of a page, of a tenant where one is given; the caller frees it.
 * NULL without memory. */
static char *address_of(CURL *curl, const char *admin, const char *page,
                        struct mc_view tenant)
{
    static const char word[] = "?tenant_id=";
    size_t admin_len = strlen(admin);
    while (admin_len > 0 && admin[admin_len - 1] == '/') {
        admin_len--;
    }
    char *name = curl_easy_escape(curl, tenant.len > 0 ? tenant.data : "",
                                  (int)tenant.len);
    size_t room =
        admin_len + strlen(page) + sizeof word + (name ? strlen(name) : 0);
    char *address = name ? malloc(room) : NULL;
    if (address) {
        (void)snprintf(address, room, "%.*s%s%s%s", (int)admin_len, admin, page,
                       tenant.len > 0 ? word : "", name);
    }
    curl_free(name);
    return address;
}

/* A page on its way. */
struct fetch {
    const char *page;
    struct mc_view tenant;
    curl_write_callback on_body;
    void *ctx;
    char *address; /* owned */
    char why[CURL_ERROR_SIZE];
    long status; /* 0: none came */
    CURLcode code;
};

static void set_options(const struct tool_args *args, CURL *curl,
                        struct fetch *fetch)
{
    long timeout_ms = args->has_timeout && args->timeout_ms < INT32_MAX
                          ? (long)args->timeout_ms
                          : TIMEOUT_DEFAULT_MS;
    (void)curl_easy_setopt(curl, CURLOPT_URL, fetch->address);
    (void)curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, fetch->why);
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, timeout_ms);
    /* A long list takes long; standing still is what ends it. */
    (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, timeout_ms / 1000 + 1);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, fetch->on_body);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, fetch->ctx);
}

/* False without memory. In any case fetch_end follows. */
static bool fetch_page(const struct tool_args *args, struct fetch *fetch)
{
    CURL *curl = curl_easy_init();
    fetch->address =
        curl ? address_of(curl, args->admin, fetch->page, fetch->tenant) : NULL;
    if (fetch->address) {
        set_options(args, curl, fetch);
        fetch->code = curl_easy_perform(curl);
        (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &fetch->status);
    }
    curl_easy_cleanup(curl);
    return fetch->address != NULL;
}

static void fetch_end(struct fetch *fetch)
{
    free(fetch->address);
}

static int fail(const struct tool_args *args, const struct fetch *fetch,
                const char *why)
{
    const char *said =
        fetch->why[0] ? fetch->why : curl_easy_strerror(fetch->code);
    return tool_fail(args->command, "%s: %s", fetch->address, why ? why : said);
}

int tool_admin_keys(const struct tool_args *args, struct mc_view tenant,
                    struct tool_rowset *set)
{
    struct listing *listing = calloc(1, sizeof *listing);
    struct fetch fetch = {.page = "/get_all_keys",
                          .tenant = tenant,
                          .on_body = on_body,
                          .ctx = listing};
    int code = TOOL_DONE;
    if (listing) {
        listing->set = set;
        listing->tenant = tenant;
    }
    if (!listing || !fetch_page(args, &fetch)) {
        code = tool_fail(args->command, "out of memory");
    } else if (fetch.code != CURLE_OK) {
        code = fail(args, &fetch,
                    listing->is_too_long ? "a line that is no key" : NULL);
    } else if (listing->len > 0) {
        code = fail(args, &fetch, "ends inside a line");
    }
    fetch_end(&fetch);
    free(listing);
    return code;
}

/* ---- tenants ----------------------------------------------------------- */

struct parsing {
    struct json_tokener *tokener;
    struct json_object *root;
    size_t len;
    bool is_bad;
};

static size_t on_json(char *data, size_t size, size_t count, void *ctx)
{
    struct parsing *parsing = ctx;
    size_t len = size * count;
    parsing->len += len;
    if (parsing->root) {
        return len; /* it is whole */
    }
    parsing->is_bad = parsing->len > TENANTS_MAX_BYTES;
    if (parsing->is_bad) {
        return 0; /* ends it */
    }
    parsing->root = json_tokener_parse_ex(parsing->tokener, data, (int)len);
    parsing->is_bad =
        json_tokener_get_error(parsing->tokener) != json_tokener_success &&
        json_tokener_get_error(parsing->tokener) != json_tokener_continue;
    return parsing->is_bad ? 0 : len;
}

/* False where the page says something else. */
static bool add_tenants(struct json_object *root, struct tool_rowset *set)
{
    struct json_object *data;
    if (!json_object_object_get_ex(root, "data", &data) ||
        !json_object_is_type(data, json_type_array)) {
        return false;
    }
    for (size_t i = 0; i < json_object_array_length(data); i++) {
        struct json_object *name;
        struct json_object *row = json_object_array_get_idx(data, i);
        if (!json_object_object_get_ex(row, "tenant_id", &name) ||
            !json_object_is_type(name, json_type_string)) {
            return false;
        }
        const struct tool_names names = {
            .tenant = mc_view_make(json_object_get_string(name),
                                   (size_t)json_object_get_string_len(name))};
        tool_rowset_add(set, &names, 0);
    }
    return true;
}

/* It has no such page, or no tenants. */
static bool has_no_tenants(const struct fetch *fetch)
{
    return fetch->code == CURLE_HTTP_RETURNED_ERROR &&
           (fetch->status == 404 || fetch->status == 409);
}

int tool_admin_tenants(const struct tool_args *args, struct tool_rowset *set)
{
    struct parsing parsing = {.tokener = json_tokener_new()};
    struct fetch fetch = {
        .page = "/api/v1/tenant_quotas", .on_body = on_json, .ctx = &parsing};
    int code = TOOL_DONE;
    if (!parsing.tokener || !fetch_page(args, &fetch)) {
        code = tool_fail(args->command, "out of memory");
    } else if (has_no_tenants(&fetch)) {
        /* Nobody is named. */
    } else if (fetch.code != CURLE_OK && !parsing.is_bad) {
        code = fail(args, &fetch, NULL);
    } else if (parsing.is_bad || !parsing.root ||
               !add_tenants(parsing.root, set)) {
        code = fail(args, &fetch, "no list of tenants");
    }
    json_object_put(parsing.root);
    if (parsing.tokener) {
        json_tokener_free(parsing.tokener);
    }
    fetch_end(&fetch);
    return code;
}
