/* SPDX-License-Identifier: Apache-2.0 */
#include "http_metadata.h"

#include <pthread.h>
#include <string.h>

#include "http_server.h"
#include "mci_alloc.h"
#include "mci_map.h"

/* One block: the struct, the key, the value. */
struct entry {
    size_t key_len;
    size_t value_len;
    char bytes[];
};

struct mci_metadata {
    struct mci_http_server *server;
    pthread_mutex_t lock;
    struct mci_map map; /* of struct entry; guarded by lock */
    uint64_t bytes;     /* guarded by lock */
};

enum outcome { UPDATED, UNCHANGED, NO_ROOM, NO_MEMORY };

/* ---- the table ------------------------------------------------------------ */

static struct entry *entry_create(struct mc_view key, struct mc_view value)
{
    struct entry *entry = mci_alloc(sizeof *entry + key.len + value.len);
    if (entry) {
        entry->key_len = key.len;
        entry->value_len = value.len;
        memcpy(entry->bytes, key.data, key.len);
        if (value.len > 0) {
            memcpy(entry->bytes + key.len, value.data, value.len);
        }
    }
    return entry;
}

static struct mc_view entry_value(const struct entry *entry)
{
    return mc_view_make(entry->bytes + entry->key_len, entry->value_len);
}

static uint64_t entry_bytes(const struct entry *entry)
{
    return entry ? entry->key_len + entry->value_len : 0;
}

/* Under the lock. *old_out is to be freed after it. */
static enum outcome put(struct mci_metadata *metadata, struct entry *entry,
                        void **old_out)
{
    struct mc_view key = mc_view_make(entry->bytes, entry->key_len);
    const struct entry *old = mci_map_get(&metadata->map, key);
    if (old && mc_view_equal(entry_value(old), entry_value(entry))) {
        return UNCHANGED;
    }
    uint64_t bytes = metadata->bytes - entry_bytes(old) + entry_bytes(entry);
    if (bytes > MCI_METADATA_BYTES_MAX) {
        return NO_ROOM;
    }
    enum mc_err err = mci_map_put(&metadata->map, key, entry, old_out);
    if (err) {
        return err == MC_ERR_NOMEM ? NO_MEMORY : NO_ROOM;
    }
    metadata->bytes = bytes;
    return UPDATED;
}

/* ---- pages ----------------------------------------------------------------- */

static bool key_of(const struct mci_http_request *request,
                   struct mci_http_response *response, struct mc_view *key_out)
{
    if (!mci_http_arg(request, "key", key_out) || key_out->len == 0) {
        mci_http_say(response, 400, "Missing key parameter");
        return false;
    }
    if (key_out->len > MCI_METADATA_KEY_MAX ||
        memchr(key_out->data, '\0', key_out->len)) {
        mci_http_say(response, 400, "key too long or with NUL");
        return false;
    }
    return true;
}

static void get_key(struct mci_metadata *metadata, struct mc_view key,
                    struct mci_http_response *response)
{
    (void)pthread_mutex_lock(&metadata->lock);
    const struct entry *entry = mci_map_get(&metadata->map, key);
    if (entry) {
        response->content_type = "application/json";
        mci_http_write(response, entry_value(entry));
    }
    (void)pthread_mutex_unlock(&metadata->lock);
    if (!entry) {
        mci_http_say(response, 404, "metadata not found");
    }
}

static void put_key(struct mci_metadata *metadata, struct mc_view key,
                    struct mc_view value, struct mci_http_response *response)
{
    struct entry *entry = entry_create(key, value);
    void *old = NULL;
    enum outcome outcome = NO_MEMORY;
    if (entry) {
        (void)pthread_mutex_lock(&metadata->lock);
        outcome = put(metadata, entry, &old);
        (void)pthread_mutex_unlock(&metadata->lock);
    }
    mci_free(outcome == UPDATED ? old : entry);
    switch (outcome) {
    case UPDATED:
        mci_http_say(response, 200, "metadata updated");
        break;
    case UNCHANGED:
        mci_http_say(response, 200, "metadata unchanged");
        break;
    case NO_ROOM:
        mci_http_say(response, 507, "no room for more metadata");
        break;
    case NO_MEMORY:
        response->has_failed = true;
        break;
    }
}

static void delete_key(struct mci_metadata *metadata, struct mc_view key,
                       struct mci_http_response *response)
{
    (void)pthread_mutex_lock(&metadata->lock);
    struct entry *entry = mci_map_remove(&metadata->map, key);
    metadata->bytes -= entry_bytes(entry);
    (void)pthread_mutex_unlock(&metadata->lock);
    if (entry) {
        mci_http_say(response, 200, "metadata deleted");
    } else {
        mci_http_say(response, 404, "metadata not found");
    }
    mci_free(entry);
}

static void metadata_page(void *ctx, const struct mci_http_request *request,
                          struct mci_http_response *response)
{
    struct mci_metadata *metadata = ctx;
    struct mc_view key;
    if (!key_of(request, response, &key)) {
        return;
    }
    switch (request->method) {
    case MCI_HTTP_PUT:
        put_key(metadata, key, request->body, response);
        break;
    case MCI_HTTP_DELETE:
        delete_key(metadata, key, response);
        break;
    default:
        get_key(metadata, key, response);
        break;
    }
}

static void health_page(void *ctx, const struct mci_http_request *request,
                        struct mci_http_response *response)
{
    (void)ctx;
    (void)request;
    mci_http_say(response, 200, "OK");
}

static const struct mci_http_route routes[] = {
    {"/metadata", MCI_HTTP_GET | MCI_HTTP_PUT | MCI_HTTP_DELETE, metadata_page},
    {"/health", MCI_HTTP_GET, health_page},
};

/* ---- life -------------------------------------------------------------------- */

enum mc_err mci_metadata_open(const char *address, uint16_t port,
                              struct mci_metadata **out, uint16_t *port_out)
{
    struct mci_metadata *metadata = mci_calloc(1, sizeof *metadata);
    if (!metadata) {
        return MC_ERR_NOMEM;
    }
    (void)pthread_mutex_init(&metadata->lock, NULL);
    mci_map_init(&metadata->map, MCI_METADATA_KEYS_MAX);
    const struct mci_http_server_opts server = {
        .name = "metadata",
        .address = address,
        .port = port,
        .routes = routes,
        .route_count = sizeof routes / sizeof routes[0],
        .body_max = MCI_METADATA_VALUE_MAX,
        .ctx = metadata};
    enum mc_err err =
        mci_http_server_open(&server, &metadata->server, port_out);
    if (err) {
        mci_metadata_close(metadata);
        return err;
    }
    *out = metadata;
    return MC_OK;
}

void mci_metadata_close(struct mci_metadata *metadata)
{
    if (!metadata) {
        return;
    }
    mci_http_server_close(metadata->server);
    size_t cursor = 0;
    struct mc_view key;
    void *entry;
    while (mci_map_next(&metadata->map, &cursor, &key, &entry)) {
        mci_free(entry);
    }
    mci_map_fini(&metadata->map);
    (void)pthread_mutex_destroy(&metadata->lock);
    mci_free(metadata);
}

/* "mooncake/ram/NAME", "mooncake/CLUSTER/rpc_meta/NAME". */
static bool is_of(struct mc_view key, const char *kind, struct mc_view name)
{
    size_t kind_len = strlen(kind);
    const char *text = key.data;
    if (key.len < kind_len + name.len) {
        return false;
    }
    size_t at = key.len - name.len;
    return memcmp(text + at, name.data, name.len) == 0 &&
           memcmp(text + at - kind_len, kind, kind_len) == 0;
}

void mci_metadata_forget(struct mci_metadata *metadata, struct mc_view name)
{
    (void)pthread_mutex_lock(&metadata->lock);
    size_t cursor = 0;
    struct mc_view key;
    void *value;
    while (name.len > 0 &&
           mci_map_next(&metadata->map, &cursor, &key, &value)) {
        if (!is_of(key, "/ram/", name) && !is_of(key, "/rpc_meta/", name)) {
            continue;
        }
        /* Taking one out moves others: begin again. */
        struct entry *entry = value;
        (void)mci_map_remove(&metadata->map,
                             mc_view_make(entry->bytes, entry->key_len));
        metadata->bytes -= entry_bytes(entry);
        mci_free(entry);
        cursor = 0;
    }
    (void)pthread_mutex_unlock(&metadata->lock);
}

void mci_metadata_stat(struct mci_metadata *metadata,
                       struct mci_metadata_stats *stats_out)
{
    (void)pthread_mutex_lock(&metadata->lock);
    stats_out->keys = metadata->map.count;
    stats_out->bytes = metadata->bytes;
    (void)pthread_mutex_unlock(&metadata->lock);
}
