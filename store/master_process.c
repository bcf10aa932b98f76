/* SPDX-License-Identifier: Apache-2.0 */
/* Opened from the inside out, so that whoever can be asked finds everything
 * behind it; closed the other way round, and events leave last.
 */
#include "master_process.h"

#include <stdio.h>
#include <string.h>

#include "epoch.h"
#include "mc_log.h"
#include "mci_alloc.h"
#include "mci_clock.h"
#include "stat_words.h"

struct mci_call mci_process_call(const struct mc_master *master,
                                 struct mc_view tenant, uint64_t timeout_ms)
{
    uint64_t now_ns = mci_clock_ns();
    return (struct mci_call){.client = master->client,
                             .tenant = tenant,
                             .now_ns = now_ns,
                             .deadline_ns =
                                 mci_clock_deadline(now_ns, timeout_ms)};
}

void mci_process_events(const struct mc_master *master,
                        struct mc_publisher_stats *stats_out)
{
    *stats_out = (struct mc_publisher_stats){.enabled = false};
    if (master->publisher) {
        mci_publisher_stats(master->publisher, stats_out);
        return;
    }
    struct mci_log_stats log;
    mci_event_log_stats(master->log, &log);
    stats_out->epoch = mci_event_log_epoch(master->log);
    stats_out->last_event_id = log.last_id;
    stats_out->dropped_events = log.dropped;
    stats_out->queue_depth = log.depth;
    stats_out->queue_capacity = log.capacity;
    stats_out->blocked_writers = log.waits;
}

/* ---- what others call back --------------------------------------------------- */

/* The core also counts the client under which the pages call it. */
static void put_clients(const struct mc_master *master,
                        struct mci_stat_words *words)
{
    struct mci_master_stats stats;
    struct mci_registry_stats registry;
    mci_registry_stat(master->registry, &registry);
    mci_stat_words_get(words, &stats);
    stats.clients = registry.clients;
    mci_stat_words_put(words, &stats);
}

static void fill_words(void *ctx, struct mci_stat_words *words)
{
    const struct mc_master *master = ctx;
    put_clients(master, words);
    struct mc_publisher_stats events;
    mci_process_events(master, &events);
    mci_stat_words_put_events(words, &events);
    if (master->bound.events[0]) {
        words->events_endpoint = mc_view_str(master->bound.events);
    }
    if (master->bound.recovery[0]) {
        words->recovery_endpoint = mc_view_str(master->bound.recovery);
    }
}

static void client_expired(void *ctx, struct mc_view name)
{
    const struct mc_master *master = ctx;
    if (master->metadata && master->metadata_cleanup) {
        mci_metadata_forget(master->metadata, name);
    }
}

/* ---- opening ------------------------------------------------------------------ */

static enum mc_err open_events(struct mc_master *master,
                               const struct mc_publisher_opts *events)
{
    const struct mci_log_opts log = {.epoch = mci_epoch_make(),
                                     .capacity = events->queue_capacity,
                                     .overflow = events->overflow};
    master->bound.epoch = log.epoch;
    enum mc_err err = mci_event_log_create(&log, &master->log);
    if (err || !mci_publisher_is_wanted(events)) {
        return err;
    }
    err = mci_publisher_create(events, master->log, &master->publisher);
    if (err) {
        return err;
    }
    struct mc_publisher_stats stats;
    mci_publisher_stats(master->publisher, &stats);
    memcpy(master->bound.events, stats.endpoint, sizeof stats.endpoint);
    return MC_OK;
}

static enum mc_err open_core(struct mc_master *master,
                             const struct mc_master_opts *opts)
{
    const struct mci_master_opts core = {.store = opts->store,
                                         .log = master->log};
    enum mc_err err = mci_master_create(&core, &master->core);
    if (!err) {
        err = mci_master_client_add(master->core, &master->client);
    }
    if (!err) {
        const struct mci_registry_opts registry = {
            .master = master->core,
            .epoch = master->bound.epoch,
            .client_ttl_ms = opts->client_ttl_ms,
            .heartbeat_ms = opts->heartbeat_ms,
            .expired = client_expired,
            .ctx = master};
        err = mci_registry_create(&registry, &master->registry);
    }
    return err ? err : mci_sweeper_start(&master->sweeper, master->core);
}

/* Those who ask again can be answered once there is a core. */
static enum mc_err open_recovery(struct mc_master *master,
                                 const struct mc_master_opts *opts)
{
    (void)opts;
    if (!master->publisher) {
        return MC_OK;
    }
    enum mc_err err =
        mci_snapshot_init(&master->snapshot, master->core, master->log);
    if (!err) {
        err = mci_publisher_serve(master->publisher, &mci_snapshot_walk,
                                  &master->snapshot);
    }
    if (err) {
        return err;
    }
    struct mc_publisher_stats stats;
    mci_publisher_stats(master->publisher, &stats);
    memcpy(master->bound.recovery, stats.replay_endpoint,
           sizeof stats.replay_endpoint);
    return MC_OK;
}

/* "HOST:PORT" with what others can connect to in place of "any". */
static void print_bound(const char *address, uint16_t port, char *room,
                        size_t size)
{
    const char *host = address && address[0] ? address : "0.0.0.0";
    (void)snprintf(room, size, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host,
                   (unsigned)port);
}

static enum mc_err open_control(struct mc_master *master,
                                const struct mc_master_opts *opts)
{
    const struct mci_control_server_opts server = {
        .master = master->core,
        .registry = master->registry,
        .tls = master->tls,
        .listen = {.host = opts->rpc_address, .port = opts->rpc_port},
        .epoch = master->bound.epoch,
        .threads = opts->rpc_threads,
        .idle_timeout_s = opts->rpc_idle_timeout_s,
        .stat = fill_words,
        .ctx = master};
    uint16_t port = 0;
    const char *why = "";
    enum mc_err err =
        mci_control_server_create(&server, &master->control, &port, &why);
    if (err) {
        mc_log(MC_LOG_ERROR, "control: listen on %s port %u: %s",
               opts->rpc_address ? opts->rpc_address : "any address",
               (unsigned)opts->rpc_port, why);
        return err;
    }
    print_bound(opts->rpc_address, port, master->bound.rpc,
                sizeof master->bound.rpc);
    return MC_OK;
}

static enum mc_err open_metadata(struct mc_master *master,
                                 const struct mc_master_opts *opts)
{
    uint16_t port = 0;
    if (!opts->with_metadata) {
        return MC_OK;
    }
    master->metadata_cleanup = opts->metadata_cleanup;
    enum mc_err err = mci_metadata_open(
        opts->metadata_address, opts->metadata_port, &master->metadata, &port);
    if (!err) {
        print_bound(opts->metadata_address, port, master->bound.metadata,
                    sizeof master->bound.metadata);
    }
    return err;
}

static enum mc_err open_admin(struct mc_master *master,
                              const struct mc_master_opts *opts)
{
    uint16_t port = 0;
    if (!opts->with_admin) {
        return MC_OK;
    }
    enum mc_err err =
        mci_admin_open(master, opts->admin_address, opts->admin_port, &port);
    if (!err) {
        print_bound(opts->admin_address, port, master->bound.admin,
                    sizeof master->bound.admin);
    }
    return err;
}

static enum mc_err open_tls(struct mc_master *master,
                            const struct mc_master_opts *opts)
{
    return opts->tls ? mci_tls_create(opts->tls, &master->tls) : MC_OK;
}

static enum mc_err open_events_step(struct mc_master *master,
                                    const struct mc_master_opts *opts)
{
    return open_events(master, &opts->events);
}

static enum mc_err open_quotas(struct mc_master *master,
                               const struct mc_master_opts *opts)
{
    return opts->tenant_quota_file
               ? mci_quota_file_read(master->core, opts->tenant_quota_file)
               : MC_OK;
}

enum mc_err mc_master_open(const struct mc_master_opts *opts,
                           struct mc_master **master_out, const char **what_out)
{
    static const struct {
        const char *what;
        enum mc_err (*open)(struct mc_master *master,
                            const struct mc_master_opts *opts);
    } steps[] = {{"tls", open_tls},
                 {"events", open_events_step},
                 {"store", open_core},
                 {"recovery", open_recovery},
                 {"tenant_quota_file", open_quotas},
                 {"metadata", open_metadata},
                 {"rpc", open_control},
                 {"admin", open_admin}};
    struct mc_master *master = mci_calloc(1, sizeof *master);
    if (!master) {
        return MC_ERR_NOMEM;
    }
    master->has_tenants = opts->store.enable_multi_tenants;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        enum mc_err err = steps[i].open(master, opts);
        if (err) {
            if (what_out) {
                *what_out = steps[i].what;
            }
            mc_master_close(master);
            return err;
        }
    }
    *master_out = master;
    return MC_OK;
}

void mc_master_close(struct mc_master *master)
{
    if (!master) {
        return;
    }
    mci_http_server_close(master->admin);
    mci_control_server_destroy(master->control);
    mci_registry_destroy(master->registry);
    mci_metadata_close(master->metadata);
    mci_sweeper_stop(&master->sweeper);
    mci_publisher_destroy(master->publisher);
    mci_snapshot_fini(&master->snapshot);
    mci_master_destroy(master->core);
    mci_event_log_destroy(master->log);
    mci_tls_destroy(master->tls);
    mci_free(master);
}

void mc_master_bound(const struct mc_master *master,
                     struct mc_master_bound *bound_out)
{
    *bound_out = master->bound;
}
