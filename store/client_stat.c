/* SPDX-License-Identifier: Apache-2.0 */
/* client_stat.c - how a client and its store are. */
#include <inttypes.h>

#include "client.h"
#include "mci_client.h"

struct mci_event_log *mci_client_log(struct mc_client *client)
{
    return client->log;
}

struct mci_master *mci_client_master(struct mc_client *client)
{
    return client->master;
}

struct mci_outside *mci_client_outside(struct mc_client *client)
{
    return client->outside;
}

uint64_t mc_client_last_event_id(struct mc_client *client)
{
    if (client->log) {
        return mci_event_log_last_id(client->log);
    }
    struct mc_client_stats stats;
    mc_client_stat(client, &stats);
    return stats.events.last_event_id;
}

static void stat_events(struct mc_client *client,
                        struct mc_publisher_stats *events)
{
    if (client->publisher) {
        mci_publisher_stats(client->publisher, events);
        return;
    }
    struct mci_log_stats log;
    mci_event_log_stats(client->log, &log);
    events->epoch = mci_event_log_epoch(client->log);
    events->last_event_id = log.last_id;
    events->dropped_events = log.dropped;
    events->queue_depth = log.depth;
    events->queue_capacity = log.capacity;
    events->blocked_writers = log.waits;
}

/* With a master process both come in one answer; zeros if there is none. */
static void ask_stats(struct mc_client *client, struct mci_master_stats *master,
                      struct mc_publisher_stats *events)
{
    const struct mci_call call = mci_client_call(client);
    if (client->outside) {
        enum mc_err err =
            mci_remote_figures(client->outside->remote, &call, master, events);
        (void)err; /* zeros tell */
        return;
    }
    (void)client->link.ops->stat(client->link.ctx, &call, master);
    stat_events(client, events);
}

void mc_client_stat(struct mc_client *client, struct mc_client_stats *stats_out)
{
    struct mci_master_stats master = {.objects = 0};
    struct mc_publisher_stats events = {.epoch = 0};
    ask_stats(client, &master, &events);
    *stats_out = (struct mc_client_stats){
        .capacity_bytes = master.capacity_bytes,
        .allocated_bytes = master.allocated_bytes,
        .leased_only_bytes = master.leased_only_bytes,
        .objects = master.objects,
        .attempts = master.attempts,
        .puts = master.commits,
        .gets = master.gets,
        .hits = master.hits,
        .evicted_objects = master.evicted_objects,
        .evicted_bytes = master.evicted_bytes,
        .evicted_windows = master.evicted_windows,
        .alloc_failures = master.alloc_failures,
        .quarantined_bytes = master.quarantined_bytes,
        .clients = master.clients,
        .segments = master.segments,
        .filled_bytes = atomic_load(&client->sessions.filled_bytes),
        .checked_blocks = atomic_load(&client->mismatches.checked),
        .mismatched_blocks = atomic_load(&client->mismatches.wrong),
        .unsummed_blocks = atomic_load(&client->mismatches.unsummed),
        .events = events};
}

/* By how bytes go, in the order of struct mc_client_moved. */
static const struct {
    const char *name;
    enum mc_transport_kind kind;
} ways[] = {{"local", MC_TRANSPORT_LOCAL},
            {"shm", MC_TRANSPORT_SHM},
            {"tcp", MC_TRANSPORT_TCP}};
#define WAYS (sizeof ways / sizeof ways[0])

void mc_client_moved(const struct mc_client *client,
                     struct mc_client_moved *moved_out)
{
    struct mc_transfer_stats stats;
    struct mc_client_way *outs[] = {&moved_out->local, &moved_out->shm,
                                    &moved_out->tcp};
    *moved_out = (struct mc_client_moved){.tcp = {0}};
    if (!client->outside) {
        return;
    }
    mc_transfer_stat(client->outside->transfer, &stats);
    for (size_t i = 0; i < WAYS; i++) {
        outs[i]->read_bytes = stats.read_bytes[ways[i].kind];
        outs[i]->written_bytes = stats.written_bytes[ways[i].kind];
        outs[i]->rows = stats.moved_rows[ways[i].kind];
    }
}

const char *mc_client_hostname(const struct mc_client *client)
{
    return client->outside ? client->outside->name : "embedded";
}

int mc_client_health(const struct mc_client *client)
{
    return client->outside ? mci_remote_health(client->outside->remote) : 0;
}

uint16_t mc_client_http_port(const struct mc_client *client)
{
    return client->outside ? client->outside->http_port : 0;
}

/* ---- pages --------------------------------------------------------------- */

static uint64_t sum(const uint64_t values[5])
{
    uint64_t all = 0;
    for (size_t i = 0; i < 5; i++) {
        all += values[i];
    }
    return all;
}

static enum mc_err write_figure(struct mci_buf *text, const char *name,
                                const char *type, uint64_t value)
{
    return mci_buf_printf(text, "# TYPE %s %s\n%s %" PRIu64 "\n", name, type,
                          name, value);
}

static enum mc_err write_calls(struct mci_buf *text,
                               const struct mci_remote_stats *remote)
{
    enum mc_err err =
        mci_buf_printf(text, "# TYPE mooncake_client_rpc_count counter\n");
    for (unsigned op = 0; op < 64 && err == MC_OK; op++) {
        if (remote->calls_by_op[op] > 0) {
            err = mci_buf_printf(
                text, "mooncake_client_rpc_count{rpc=\"%s\"} %" PRIu64 "\n",
                mci_op_name((enum mci_op)op), remote->calls_by_op[op]);
        }
    }
    return err;
}

/* A family of figures, one per way. */
static enum mc_err write_ways(struct mci_buf *text, const char *name,
                              const uint64_t values[5])
{
    enum mc_err err = mci_buf_printf(text, "# TYPE %s counter\n", name);
    for (size_t i = 0; i < WAYS && err == MC_OK; i++) {
        err = mci_buf_printf(text, "%s{transport=\"%s\"} %" PRIu64 "\n", name,
                             ways[i].name, values[ways[i].kind]);
    }
    return err;
}

static enum mc_err write_moved(struct mci_buf *text,
                               const struct mc_transfer_stats *moved)
{
    enum mc_err err =
        write_ways(text, "mckv_transport_read_bytes", moved->read_bytes);
    if (err == MC_OK) {
        err = write_ways(text, "mckv_transport_write_bytes",
                         moved->written_bytes);
    }
    return err == MC_OK
               ? write_ways(text, "mckv_transport_rows", moved->moved_rows)
               : err;
}

enum mc_err mci_client_metrics(void *ctx, struct mci_buf *text)
{
    const struct mc_client *client = ctx;
    const struct mci_mismatches *known = &client->mismatches;
    struct mc_transfer_stats moved;
    struct mci_remote_stats remote;
    mc_transfer_stat(client->outside->transfer, &moved);
    mci_remote_stat(client->outside->remote, &remote);
    const struct {
        const char *name;
        const char *type;
        uint64_t value;
    } figures[] = {
        {"mooncake_transfer_read_bytes", "counter", sum(moved.read_bytes)},
        {"mooncake_transfer_write_bytes", "counter", sum(moved.written_bytes)},
        {"mckv_served_read_bytes", "counter", moved.served_read_bytes},
        {"mckv_served_write_bytes", "counter", moved.served_written_bytes},
        {"mckv_transfer_rows", "counter", moved.rows},
        {"mckv_transfer_failed_rows", "counter", moved.failed_rows},
        {"mckv_transfer_refused", "counter", moved.refused_requests},
        {"mckv_transfer_connections", "gauge", moved.connections},
        {"mckv_rpc_retries", "counter", remote.retries},
        {"mckv_rpc_timeouts", "counter", remote.timeouts},
        {"mckv_heartbeats", "counter", remote.heartbeats},
        {"mckv_renewals", "counter", remote.renewals},
        {"mckv_attempts", "gauge", remote.attempts},
        {"mckv_checksum_blocks", "counter", atomic_load(&known->checked)},
        {"mckv_checksum_mismatches", "counter", atomic_load(&known->wrong)},
        {"mckv_checksum_unsummed_blocks", "counter",
         atomic_load(&known->unsummed)},
    };
    enum mc_err err = MC_OK;
    for (size_t i = 0; i < sizeof figures / sizeof figures[0] && err == MC_OK;
         i++) {
        err = write_figure(text, figures[i].name, figures[i].type,
                           figures[i].value);
    }
    if (err == MC_OK) {
        err = write_moved(text, &moved);
    }
    return err == MC_OK ? write_calls(text, &remote) : err;
}

enum mc_err mci_client_summary(void *ctx, struct mci_buf *text)
{
    const struct mc_client *client = ctx;
    struct mc_transfer_stats moved;
    struct mci_remote_stats remote;
    mc_transfer_stat(client->outside->transfer, &moved);
    mci_remote_stat(client->outside->remote, &remote);
    return mci_buf_printf(
        text,
        "calls %" PRIu64 " retries %" PRIu64 " read %" PRIu64
        " bytes written %" PRIu64 " bytes failed rows %" PRIu64
        " attempts %" PRIu64 "\n",
        remote.calls, remote.retries, sum(moved.read_bytes),
        sum(moved.written_bytes), moved.failed_rows, remote.attempts);
}
