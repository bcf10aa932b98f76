/* SPDX-License-Identifier: Apache-2.0 */
/* The door of this folder to libcurl. */
#include "tool_admin.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mc_limits.h"

#define TIMEOUT_DEFAULT_MS 10000L
#define LINE_MAX_BYTES (4 * (size_t)MC_KEY_LEN_MAX + 1)

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

/* The address of the page; the caller frees it. NULL without memory. */
static char *address_of(CURL *curl, const char *admin, struct mc_view tenant)
{
    static const char path[] = "/get_all_keys?tenant_id=";
    size_t admin_len = strlen(admin);
    while (admin_len > 0 && admin[admin_len - 1] == '/') {
        admin_len--;
    }
    char *name = curl_easy_escape(curl, tenant.data, (int)tenant.len);
    size_t room = name ? admin_len + sizeof path + strlen(name) : 0;
    char *address = name ? malloc(room) : NULL;
    if (address) {
        (void)snprintf(address, room, "%.*s%s%s", (int)admin_len, admin, path,
                       name);
    }
    curl_free(name);
    return address;
}

static int fetch(const struct tool_args *args, CURL *curl, const char *address,
                 struct listing *listing)
{
    char why[CURL_ERROR_SIZE] = "";
    long timeout_ms = args->has_timeout && args->timeout_ms < INT32_MAX
                          ? (long)args->timeout_ms
                          : TIMEOUT_DEFAULT_MS;
    (void)curl_easy_setopt(curl, CURLOPT_URL, address);
    (void)curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
    (void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_FAILONERROR, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, timeout_ms);
    /* A long list takes long; standing still is what ends it. */
    (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
    (void)curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, timeout_ms / 1000 + 1);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(curl, CURLOPT_WRITEDATA, listing);
    CURLcode code = curl_easy_perform(curl);
    if (code == CURLE_OK && listing->len == 0) {
        return TOOL_DONE;
    }
    return tool_fail(args->command, "%s: %s", address,
                     code == CURLE_OK       ? "ends inside a line"
                     : listing->is_too_long ? "a line that is no key"
                     : why[0]               ? why
                                            : curl_easy_strerror(code));
}

int tool_admin_keys(const struct tool_args *args, struct mc_view tenant,
                    struct tool_rowset *set)
{
    struct listing *listing = calloc(1, sizeof *listing);
    CURL *curl = listing ? curl_easy_init() : NULL;
    char *address = curl ? address_of(curl, args->admin, tenant) : NULL;
    int code;
    if (address) {
        listing->set = set;
        listing->tenant = tenant;
        code = fetch(args, curl, address, listing);
    } else {
        code = tool_fail(args->command, "out of memory");
    }
    free(address);
    curl_easy_cleanup(curl);
    free(listing);
    return code;
}
