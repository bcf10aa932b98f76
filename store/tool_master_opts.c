/* SPDX-License-Identifier: Apache-2.0 */
/* What several flags say together, and options made of them. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "tool_master.h"

#define QUEUE_MIN 1024

static bool is_set(const char *text)
{
    return text && text[0] != '\0';
}

static int refuse(const char *text)
{
    tool_master_say("%s", text);
    return 2;
}

/* One of a list of words, by position. */
static int choose(const char *flag, const char *value, const char *const *words,
                  size_t count, size_t *chosen_out)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(value, words[i]) == 0) {
            *chosen_out = i;
            return 0;
        }
    }
    tool_master_say("--%s %s: no such choice (%s%s%s%s%s)", flag, value,
                    words[0], count > 1 ? ", " : "", count > 1 ? words[1] : "",
                    count > 2 ? ", " : "", count > 2 ? words[2] : "");
    return 2;
}

/* ---- the store ------------------------------------------------------------------- */

static int fill_store(const struct master_settings *settings,
                      struct mc_store_opts *store)
{
    static const char *const strategies[] = {"random", "free_ratio_first",
                                             "local_first"};
    static const char *const allocators[] = {"offset", "cachelib"};
    size_t strategy = 0;
    size_t allocator = 0;
    int code = choose("allocation_strategy", settings->allocation_strategy,
                      strategies, 3, &strategy);
    if (code == 0) {
        code = choose("memory_allocator", settings->memory_allocator,
                      allocators, 2, &allocator);
    }
    if (code != 0) {
        return code;
    }
    if (allocator == 1) {
        tool_master_say("warning: --memory_allocator cachelib: is known, but "
                        "not built; offset is used");
    }
    if (settings->release_ms <= settings->discard_ms) {
        return refuse("--put_start_release_timeout_sec: must be longer than "
                      "--put_start_discard_timeout_sec");
    }
    *store = (struct mc_store_opts){
        .default_kv_lease_ttl_ms =
            settings->lease_ms ? settings->lease_ms : MC_NONE,
        .default_kv_soft_pin_ttl_ms =
            settings->soft_pin_ms ? settings->soft_pin_ms : MC_NONE,
        .max_kv_soft_pin_ttl_ms =
            settings->max_soft_pin_ms ? settings->max_soft_pin_ms : MC_NONE,
        .no_evict_soft_pinned = !settings->evict_soft_pinned,
        .eviction_high_watermark = settings->high_watermark,
        .eviction_ratio = settings->eviction_ratio,
        .put_start_release_timeout_ms = settings->release_ms,
        .enable_multi_tenants = settings->with_tenants,
        .allocation_strategy = (enum mc_allocation_strategy)strategy};
    if (settings->has_exist_lease) {
        store->exist_lease_ttl_ms =
            settings->exist_lease_ms ? settings->exist_lease_ms : MC_NONE;
    }
    return 0;
}

/* ---- events ------------------------------------------------------------------------ */

static int fill_events(const struct master_settings *settings,
                       struct mc_publisher_opts *events)
{
    static const char *const policies[] = {"drop_oldest", "block"};
    static const char *const layouts[] = {"4", "3"};
    static const char *const tokens[] = {"nil", "empty"};
    size_t policy = 0;
    size_t layout = 0;
    size_t token = 0;
    if (choose("kv_events_overflow", settings->overflow, policies, 2,
               &policy) ||
        choose("kv_events_replay_layout", settings->replay_layout, layouts, 2,
               &layout) ||
        choose("kv_events_legacy_token_ids", settings->token_ids, tokens, 2,
               &token)) {
        return 2;
    }
    if (settings->queue_capacity > 0 && settings->queue_capacity < QUEUE_MIN) {
        return refuse("--kv_events_queue_capacity: is 0, or 1024 or more");
    }
    memset(events, 0, sizeof *events);
    if (settings->with_events) {
        *events = settings->events;
        if (!is_set(events->bind_endpoint) || !is_set(events->backend_id)) {
            return refuse("--enable_kv_events: needs --kv_events_bind_endpoint "
                          "and --kv_events_backend_id");
        }
    }
    events->overflow = (enum mc_publisher_overflow)policy;
    if (settings->has_heartbeat && events->heartbeat_ms == 0) {
        events->heartbeat_ms = MC_NONE;
    }
    events->replay_layout = layout == 0 ? 4 : 3;
    events->queue_capacity = (uint32_t)settings->queue_capacity;
    events->history_batches = (uint32_t)settings->history_batches;
    events->block_size = (uint32_t)settings->block_size;
    events->dp_rank = (uint32_t)settings->dp_rank;
    events->empty_token_ids = token == 1;
    events->no_legacy_compat = !settings->legacy_compat;
    events->no_object_key = !settings->object_key;
    events->no_extra_fields = !settings->extra_fields;
    return 0;
}

/* ---- addresses ----------------------------------------------------------------------- */

static bool ipv4_of(const char *interface, char *room, size_t size)
{
    struct ifaddrs *all = NULL;
    bool is_found = false;
    if (getifaddrs(&all) != 0) {
        return false;
    }
    for (const struct ifaddrs *entry = all; entry && !is_found;
         entry = entry->ifa_next) {
        struct sockaddr_in address;
        if (!entry->ifa_addr || entry->ifa_addr->sa_family != AF_INET ||
            strcmp(entry->ifa_name, interface) != 0) {
            continue;
        }
        memcpy(&address, entry->ifa_addr, sizeof address);
        is_found = inet_ntop(AF_INET, &address.sin_addr, room,
                             (socklen_t)size) != NULL;
    }
    freeifaddrs(all);
    return is_found;
}

/* "0.0.0.0" of old means any address; ours is of both families. */
static const char *address_of(const char *text)
{
    return is_set(text) && strcmp(text, "0.0.0.0") != 0 ? text : NULL;
}

static int fill_addresses(const struct master_settings *settings,
                          struct mc_master_opts *opts)
{
    static char found[INET_ADDRSTRLEN];
    opts->rpc_address = address_of(settings->rpc_address);
    if (is_set(settings->rpc_interface)) {
        if (!ipv4_of(settings->rpc_interface, found, sizeof found)) {
            tool_master_say("--rpc_interface %s: has no IPv4 address",
                            settings->rpc_interface);
            return 2;
        }
        opts->rpc_address = found;
    }
    opts->rpc_port = (uint16_t)settings->rpc_port;
    opts->with_admin = true;
    opts->admin_address = address_of(settings->metrics_host);
    opts->admin_port = (uint16_t)settings->metrics_port;
    opts->with_metadata = settings->with_metadata;
    opts->metadata_address = address_of(settings->metadata_host);
    opts->metadata_port = (uint16_t)settings->metadata_port;
    opts->metadata_cleanup = settings->metadata_cleanup;
    return 0;
}

static int fill_quotas(const struct master_settings *settings,
                       struct mc_master_opts *opts)
{
    const char *uri = settings->quota_uri;
    if (!is_set(uri)) {
        return 0;
    }
    if (strcmp(settings->quota_type, "file") != 0) {
        tool_master_say("--tenant_quota_connector_type %s: is file",
                        settings->quota_type);
        return 2;
    }
    if (!settings->with_tenants) {
        return refuse("--tenant_quota_connector_uri: needs "
                      "--enable_multi_tenants");
    }
    opts->tenant_quota_file = strncmp(uri, "file://", 7) == 0 ? uri + 7 : uri;
    return 0;
}

static int fill_tls(const struct master_settings *settings,
                    struct mc_master_opts *opts)
{
    const struct mc_tls_opts *tls = &settings->tls;
    int count =
        is_set(tls->cert_file) + is_set(tls->key_file) + is_set(tls->ca_file);
    if (count != 0 && count != 3) {
        return refuse("--tls_cert, --tls_key and --tls_ca go together");
    }
    opts->tls = count == 3 ? tls : NULL;
    return 0;
}

int tool_master_opts(const struct master_settings *settings,
                     struct mc_master_opts *opts_out)
{
    memset(opts_out, 0, sizeof *opts_out);
    if (settings->client_ttl_ms > UINT32_MAX) {
        return refuse("--client_ttl: is 49 days at most");
    }
    int code = fill_store(settings, &opts_out->store);
    if (code == 0) {
        code = fill_events(settings, &opts_out->events);
    }
    if (code == 0) {
        code = fill_addresses(settings, opts_out);
    }
    if (code == 0) {
        code = fill_quotas(settings, opts_out);
    }
    if (code == 0) {
        code = fill_tls(settings, opts_out);
    }
    if (!settings->no_delay) {
        tool_master_say("warning: --norpc_enable_tcp_no_delay: is known, but "
                        "not built; it has no effect");
    }
    opts_out->rpc_threads = (uint32_t)settings->rpc_threads;
    opts_out->rpc_idle_timeout_s = (uint32_t)(settings->rpc_idle_ms / 1000);
    opts_out->client_ttl_ms = (uint32_t)settings->client_ttl_ms;
    return code;
}
