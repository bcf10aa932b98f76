/* SPDX-License-Identifier: Apache-2.0 */
/* client.c - opening and closing, and what concerns a client as a whole. */
#include "client.h"

#include <string.h>

#include "epoch.h"
#include "mc_log.h"
#include "mci_alloc.h"

#define SEGMENT_BYTES (64 * UINT64_C(1048576))
#define SEGMENT_LABEL "embedded"

/* ---- opening ----------------------------------------------------------- */

static bool is_set(const char *text)
{
    return text && text[0] != '\0';
}

static enum mc_err check_opts(const struct mc_client_opts *opts)
{
    if (opts->tenant && strlen(opts->tenant) > MC_TENANT_LEN_MAX) {
        return MC_ERR_INVALID_PARAMS;
    }
    bool is_wanted = mci_publisher_is_wanted(&opts->events) ||
                     is_set(opts->events.backend_id);
    if (is_wanted && mci_settings_is_remote(opts)) {
        mc_log(MC_LOG_ERROR, "client: events come from the master process");
        return MC_ERR_INVALID_PARAMS;
    }
    return is_wanted ? mci_publisher_check(&opts->events) : MC_OK;
}

/* The log comes with its consumer, before the master has anything to say. */
static enum mc_err open_events(struct mc_client *client,
                               const struct mc_publisher_opts *events)
{
    const struct mci_log_opts log = {.epoch = mci_epoch_make(),
                                     .capacity = events->queue_capacity,
                                     .overflow = events->overflow};
    enum mc_err err = mci_event_log_create(&log, &client->log);
    if (err == MC_OK && mci_publisher_is_wanted(events)) {
        err = mci_publisher_create(events, client->log, &client->publisher);
    }
    return err;
}

static enum mc_err open_segment(struct mc_client *client,
                                const struct mc_client_opts *opts)
{
    uint64_t bytes = opts->segment_bytes;
    if (bytes == 0) {
        bytes = SEGMENT_BYTES;
    } else if (bytes == MC_NONE) {
        bytes = 0;
    }
    const struct mci_segment_opts segment = {.bytes = bytes,
                                             .label = SEGMENT_LABEL,
                                             .no_prefault = opts->no_prefault};
    return mci_segment_init(&client->segment, &segment);
}

static enum mc_err lend_segment(struct mc_client *client)
{
    if (client->segment.bytes == 0) {
        return MC_OK;
    }
    const struct mci_lent lent = {.name = client->segment.label,
                                  .bytes = client->segment.bytes,
                                  .client = client->id};
    return mci_master_segment_add(client->master, &lent, &client->segment_id);
}

static enum mc_err open_master(struct mc_client *client,
                               const struct mc_store_opts *store)
{
    const struct mci_master_opts opts = {.store = *store,
                                         .log = client->log,
                                         .expected_bytes =
                                             client->segment.bytes};
    enum mc_err err = mci_master_create(&opts, &client->master);
    if (err != MC_OK) {
        return err;
    }
    client->link = mci_link_direct(client->master);
    err = mci_master_tenant_check(client->master, mc_view_str(client->tenant));
    if (err == MC_OK) {
        err = mci_master_client_add(client->master, &client->id);
    }
    if (err == MC_OK) {
        err = lend_segment(client);
    }
    return err == MC_OK ? mci_sweeper_start(&client->sweeper, client->master)
                        : err;
}

/* Those who ask again can be answered now. */
static enum mc_err open_recovery(struct mc_client *client)
{
    if (!client->publisher) {
        return MC_OK;
    }
    enum mc_err err =
        mci_snapshot_init(&client->snapshot, client->master, client->log);
    return err ? err
               : mci_publisher_serve(client->publisher, &mci_snapshot_walk,
                                     &client->snapshot);
}

static enum mc_err open_embedded(struct mc_client *client,
                                 const struct mc_client_opts *opts)
{
    enum mc_err err = open_segment(client, opts);
    if (err == MC_OK) {
        err = open_events(client, &opts->events);
    }
    if (err == MC_OK) {
        err = open_master(client, &opts->store);
    }
    return err == MC_OK ? open_recovery(client) : err;
}

/* What every client has, whatever its master. */
static enum mc_err make_client(const struct mc_client_opts *opts,
                               const struct mci_settings *settings,
                               struct mc_client **client_out)
{
    struct mc_client *client = mci_calloc(1, sizeof *client);
    if (!client) {
        return MC_ERR_NOMEM;
    }
    client->segment.fd = -1;
    client->timeout_ms = settings->timeout_ms;
    client->transfer_timeout_ms = settings->transfer_timeout_ms;
    client->any_memory = opts->any_memory;
    client->checksum = settings->checksum;
    if (opts->tenant) {
        memcpy(client->tenant, opts->tenant, strlen(opts->tenant));
    }
    enum mc_err err = mci_memory_init(&client->memory);
    if (err != MC_OK) {
        goto err_free;
    }
    err =
        mci_local_buffer_create(settings->local_buffer_bytes, &client->buffer);
    if (err != MC_OK) {
        goto err_fini_memory;
    }
    err = mci_sessions_init(&client->sessions, client);
    if (err != MC_OK) {
        goto err_release_buffer;
    }
    err = mci_mismatches_init(&client->mismatches);
    if (err != MC_OK) {
        goto err_fini_sessions;
    }
    *client_out = client;
    return MC_OK;
err_fini_sessions:
    mci_sessions_fini(&client->sessions);
err_release_buffer:
    mc_local_buffer_release(client->buffer);
err_fini_memory:
    mci_memory_fini(&client->memory);
err_free:
    mci_free(client);
    return err;
}

enum mc_err mc_client_open(const struct mc_client_opts *opts,
                           struct mc_client **client_out)
{
    static const struct mc_client_opts defaults;
    opts = opts ? opts : &defaults;
    struct mci_settings settings;
    struct mc_client *client = NULL;
    enum mc_err err = check_opts(opts);
    if (err == MC_OK) {
        err = mci_settings_read(opts, &settings);
    }
    if (err == MC_OK) {
        err = make_client(opts, &settings, &client);
    }
    if (err != MC_OK) {
        return err;
    }
    err = mci_settings_is_remote(opts)
              ? mci_outside_open(client, opts, &settings)
              : open_embedded(client, opts);
    if (err != MC_OK) {
        mc_client_close(client);
        return err;
    }
    *client_out = client;
    return MC_OK;
}

void mc_client_close(struct mc_client *client)
{
    if (!client) {
        return;
    }
    mci_sessions_stop(&client->sessions);
    mci_outside_close(client->outside);
    mci_sweeper_stop(&client->sweeper);
    mci_publisher_destroy(client->publisher);
    mci_snapshot_fini(&client->snapshot);
    mci_master_destroy(client->master);
    mci_event_log_destroy(client->log);
    mci_segment_fini(&client->segment);
    mci_mismatches_fini(&client->mismatches);
    mci_sessions_fini(&client->sessions);
    mc_local_buffer_release(client->buffer);
    mci_memory_fini(&client->memory);
    mci_free(client);
}

/* ---- for the calls ----------------------------------------------------- */

struct mci_call mci_client_call(const struct mc_client *client)
{
    uint64_t now_ns = mci_clock_ns();
    return (struct mci_call){
        .client = client->id,
        .tenant = mc_view_str(client->tenant),
        .now_ns = now_ns,
        .deadline_ns = mci_clock_deadline(now_ns, client->timeout_ms)};
}

struct mci_call mci_client_call_until(const struct mc_client *client,
                                      uint64_t deadline_ns)
{
    struct mci_call call = mci_client_call(client);
    if (deadline_ns > 0 && deadline_ns < call.deadline_ns) {
        call.deadline_ns = deadline_ns;
    }
    return call;
}
