/* SPDX-License-Identifier: Apache-2.0 */
/* peer_http.c - the door to libcurl. */
#include "mci_peer_http.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

#include "mci_alloc.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void begin(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* Answers are of no interest beyond their status. */
static size_t swallow(char *bytes, size_t size, size_t count, void *ctx)
{
    (void)bytes;
    (void)ctx;
    return size * count;
}

static char *address_of(CURL *curl, const char *url, const char *key)
{
    char *escaped = curl_easy_escape(curl, key, 0);
    if (!escaped) {
        return NULL;
    }
    size_t room = strlen(url) + sizeof "?key=" + strlen(escaped);
    char *address = mci_alloc(room);
    if (address) {
        (void)snprintf(address, room, "%s?key=%s", url, escaped);
    }
    curl_free(escaped);
    return address;
}

static bool set_common(CURL *curl, const char *address, uint32_t timeout_ms)
{
    return curl_easy_setopt(curl, CURLOPT_URL, address) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http") == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_PROXY, "") == CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)timeout_ms) ==
               CURLE_OK &&
           curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, swallow) == CURLE_OK;
}

static enum mc_err perform(CURL *curl, long *status_out)
{
    long status = 0;
    CURLcode code = curl_easy_perform(curl);
    if (code == CURLE_OK) {
        (void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    }
    if (status_out) {
        *status_out = status;
    }
    if (code == CURLE_OPERATION_TIMEDOUT) {
        return MC_ERR_RPC_TIMEOUT;
    }
    if (code == CURLE_OUT_OF_MEMORY) {
        return MC_ERR_NOMEM;
    }
    return status / 100 == 2 ? MC_OK : MC_ERR_RPC_FAIL;
}

/* body: NULL for a deletion. */
static enum mc_err ask(const char *url, const char *key,
                       const struct mc_view *body, uint32_t timeout_ms,
                       long *status_out)
{
    (void)pthread_once(&once, begin);
    enum mc_err err = MC_ERR_NOMEM;
    struct curl_slist *headers = NULL;
    CURL *curl = curl_easy_init();
    char *address = curl ? address_of(curl, url, key) : NULL;
    bool is_set = address && set_common(curl, address, timeout_ms) &&
                  curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST,
                                   body ? "PUT" : "DELETE") == CURLE_OK;
    if (is_set && body) {
        headers = curl_slist_append(NULL, "Content-Type: application/json");
        is_set =
            headers &&
            curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers) == CURLE_OK &&
            curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)body->len) ==
                CURLE_OK &&
            curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body->data) == CURLE_OK;
    }
    if (is_set) {
        err = perform(curl, status_out);
    }
    curl_slist_free_all(headers);
    mci_free(address);
    curl_easy_cleanup(curl);
    return err;
}

enum mc_err mci_peer_http_put(const char *url, const char *key,
                              struct mc_view body, uint32_t timeout_ms,
                              long *status_out)
{
    return ask(url, key, &body, timeout_ms, status_out);
}

enum mc_err mci_peer_http_delete(const char *url, const char *key,
                                 uint32_t timeout_ms, long *status_out)
{
    return ask(url, key, NULL, timeout_ms, status_out);
}
