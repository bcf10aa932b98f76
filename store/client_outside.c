/* SPDX-License-Identifier: Apache-2.0 */
/* client_outside.c - opening and closing what a client has outside.
 *
 * At open: the transfer first, so that there is an endpoint and with it a name;
 * then the master hears the name; then what was prepared is mounted. Closing
 * goes the other way round, and no step of it waits for longer than a second or
 * two for anybody.
 */
#include "client_outside.h"

#include <stdio.h>
#include <string.h>

#include "client.h"
#include "client_targets.h"
#include "mc_log.h"
#include "mci_alloc.h"

#define GOODBYE_MS 1000
#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define DEFAULT_HTTP_PORT 9300
#define SEGMENT_BYTES (64 * UINT64_C(1048576))

struct mc_transfer *mci_outside_transfer(struct mci_outside *outside)
{
    return outside->transfer;
}

/* ---- what the heartbeat tells --------------------------------------------- */

void mci_outside_renewed(void *ctx)
{
    struct mci_outside *outside = ctx;
    (void)pthread_mutex_lock(&outside->targets_lock);
    struct mci_target_set *before = outside->targets;
    outside->targets = NULL;
    (void)pthread_mutex_unlock(&outside->targets_lock);
    mci_targets_release(before);
    mci_lent_conceal(outside);
}

static enum mc_err fence(void *ctx, const struct mc_fence *fences, size_t count,
                         struct mci_stuck *stuck_out, size_t *stuck_count_out)
{
    struct mci_outside *outside = ctx;
    size_t stuck = 0;
    enum mc_err err =
        mc_transfer_fence(outside->transfer, fences, count, outside->stuck,
                          MC_ATTEMPTS_MAX, &stuck);
    for (size_t i = 0; i < stuck && err == MC_OK; i++) {
        stuck_out[i] =
            (struct mci_stuck){.attempt = outside->stuck[i].attempt,
                               .incarnation = outside->stuck[i].incarnation};
    }
    if (err == MC_OK) {
        *stuck_count_out = stuck;
    }
    return err;
}

/* ---- grants of long writes ------------------------------------------------ */

static struct mc_grant renewed_get(void *ctx)
{
    const struct mci_renewed_grant *renewed = ctx;
    struct mci_remote *remote = renewed->outside->remote;
    struct mc_grant grant;
    (void)mci_remote_attempt_touched(remote, renewed->attempt);
    bool is_newer = mci_remote_attempt_grant(remote, renewed->attempt,
                                             renewed->place, &grant) &&
                    grant.deadline_ns > renewed->granted.deadline_ns;
    return is_newer ? grant : renewed->granted;
}

void mci_renewed_grant_init(struct mci_renewed_grant *renewed,
                            struct mci_outside *outside,
                            const struct mci_write_row *row, uint32_t place)
{
    *renewed = (struct mci_renewed_grant){
        .source = {.get = renewed_get, .ctx = renewed},
        .outside = outside,
        .granted = row->grants[place],
        .attempt = row->attempt.number,
        .place = place};
}

/* ---- opening --------------------------------------------------------------- */

static void read_host_id(char room[MCI_HOST_ID_MAX])
{
    FILE *file = fopen(BOOT_ID, "re");
    if (!file) {
        return;
    }
    size_t len = fread(room, 1, MCI_HOST_ID_MAX - 1, file);
    room[len] = '\0';
    room[strcspn(room, "\n")] = '\0';
    (void)fclose(file);
}

static enum mc_err open_transfer(struct mci_outside *outside,
                                 const struct mc_client_opts *opts)
{
    const struct mci_settings *settings = &outside->settings;
    const struct mci_address *address = &settings->address;
    const struct mc_transfer_opts transfer = {
        .host = address->host,
        .bind_address = settings->bind_address,
        .port = address->has_port ? address->port : 0,
        .port_min = address->has_port ? 0 : settings->port_min,
        .port_max = address->has_port ? 0 : settings->port_max,
        .port_tries = settings->port_tries,
        /* Who has a name is served under it, also if it lends nothing yet. */
        .is_served_at_once = settings->has_address,
        .no_shm = settings->no_shm,
        .no_local = settings->no_local,
        .any_memory = true,
        .only = settings->only,
        .tls = opts->tls};
    return mc_transfer_open(&transfer, &outside->transfer);
}

/* The name is where others reach us by tcp. If nobody does, labels have to
 * differ all the same. */
static enum mc_err find_name(struct mci_outside *outside,
                             const struct mc_exposure *lent)
{
    char endpoint[MC_TRANSFER_ENDPOINT_SIZE];
    struct mci_address *address = &outside->settings.address;
    struct mci_address served;
    enum mc_err err = mc_transfer_endpoint(outside->transfer, endpoint);
    if (err != MC_OK) {
        return err;
    }
    if (endpoint[0] == '\0') {
        const char *shm = lent ? lent->shm : "";
        address->has_port = address->has_port && shm[0] != '\0';
        (void)snprintf(outside->name, sizeof outside->name, "%.200s%s%s",
                       address->host, shm[0] ? "/" : "", shm);
        return MC_OK;
    }
    if (mci_address_parse(endpoint, &served) == MC_OK && served.has_port) {
        address->port = served.port;
        address->has_port = true;
    }
    (void)snprintf(outside->name, sizeof outside->name, "%s", endpoint);
    return MC_OK;
}

static enum mc_err open_remote(struct mci_outside *outside,
                               const struct mc_client_opts *opts)
{
    bool has_name = outside->settings.address.has_port;
    const struct mci_remote_opts remote = {
        .master = opts->master,
        .name = has_name ? outside->name : NULL,
        .host_id = outside->host_id[0] ? outside->host_id : NULL,
        .tenant = opts->tenant,
        .timeout_ms = outside->settings.timeout_ms,
        .connect_timeout_ms = outside->settings.connect_timeout_ms,
        .tls = opts->tls,
        .events = {
            .renewed = mci_outside_renewed, .fence = fence, .ctx = outside}};
    enum mc_err err = mci_remote_open(&remote, &outside->remote);
    if (err == MC_OK) {
        outside->client->link = mci_remote_link(outside->remote);
    }
    return err;
}

static enum mc_err open_lent(struct mci_outside *outside,
                             const struct mc_client_opts *opts,
                             struct mci_loan **lent_out)
{
    const struct mci_lending lending = {
        .bytes = opts->segment_bytes ? opts->segment_bytes : SEGMENT_BYTES,
        .no_prefault = opts->no_prefault};
    outside->no_prefault = opts->no_prefault;
    if (opts->segment_bytes == MC_NONE) {
        return MC_OK;
    }
    return mci_lend_prepare(outside, &lending, lent_out);
}

/* ---- pages ------------------------------------------------------------------ */

static int health_of(void *ctx)
{
    return mc_client_health(ctx);
}

static enum mc_err open_http(struct mci_outside *outside,
                             const struct mc_client_opts *opts)
{
    if (!opts->with_http) {
        return MC_OK;
    }
    uint16_t port = opts->http_port ? opts->http_port : DEFAULT_HTTP_PORT;
    const struct mci_client_http_opts http = {
        .port = opts->http_port == MC_HTTP_ANY ? 0 : port,
        .health = health_of,
        .metrics = mci_client_metrics,
        .summary = mci_client_summary,
        .ctx = outside->client};
    return mci_client_http_open(&http, &outside->http, &outside->http_port);
}

/* ---- all of it ---------------------------------------------------------------- */

static enum mc_err init_locks(struct mci_outside *outside)
{
    pthread_condattr_t attr;
    if (pthread_mutex_init(&outside->targets_lock, NULL) != 0) {
        return MC_ERR_NOMEM;
    }
    if (pthread_mutex_init(&outside->lent_lock, NULL) != 0) {
        goto err_destroy_targets;
    }
    if (pthread_condattr_init(&attr) != 0) {
        goto err_destroy_lent;
    }
    bool is_made = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0 &&
                   pthread_cond_init(&outside->lent_changed, &attr) == 0;
    (void)pthread_condattr_destroy(&attr);
    if (is_made) {
        return MC_OK;
    }
err_destroy_lent:
    (void)pthread_mutex_destroy(&outside->lent_lock);
err_destroy_targets:
    (void)pthread_mutex_destroy(&outside->targets_lock);
    return MC_ERR_NOMEM;
}

static enum mc_err keep_texts(struct mci_outside *outside,
                              const struct mci_settings *settings)
{
    outside->settings = *settings;
    outside->stuck = mci_alloc(MC_ATTEMPTS_MAX * sizeof(*outside->stuck));
    if (settings->metadata_url) {
        outside->metadata_url = mci_strdup_n(settings->metadata_url,
                                             strlen(settings->metadata_url));
    }
    if (settings->cluster_id) {
        outside->cluster_id =
            mci_strdup_n(settings->cluster_id, strlen(settings->cluster_id));
    }
    bool is_kept = outside->stuck &&
                   !outside->metadata_url == !settings->metadata_url &&
                   !outside->cluster_id == !settings->cluster_id;
    return is_kept ? MC_OK : MC_ERR_NOMEM;
}

static enum mc_err open_parts(struct mci_outside *outside,
                              const struct mc_client_opts *opts)
{
    struct mci_loan *lent = NULL;
    uint32_t handle = 0;
    enum mc_err err = open_transfer(outside, opts);
    if (err == MC_OK) {
        err = open_lent(outside, opts, &lent);
    }
    if (err == MC_OK) {
        err = find_name(outside, lent ? mci_lent_exposure(lent) : NULL);
    }
    if (err == MC_OK) {
        err = open_remote(outside, opts);
    }
    if (err != MC_OK) {
        mci_lend_drop(outside, lent);
        return err;
    }
    if (lent) {
        err = mci_lend_mount(outside, lent, &handle);
    }
    if (err == MC_OK) {
        err = mci_keeper_start(outside);
    }
    return err == MC_OK ? open_http(outside, opts) : err;
}

enum mc_err mci_outside_open(struct mc_client *client,
                             const struct mc_client_opts *opts,
                             const struct mci_settings *settings)
{
    struct mci_outside *outside = mci_calloc(1, sizeof *outside);
    if (!outside) {
        return MC_ERR_NOMEM;
    }
    enum mc_err err = init_locks(outside);
    if (err != MC_OK) {
        mci_free(outside);
        return err;
    }
    outside->client = client;
    mci_list_init(&outside->lent);
    client->outside = outside;
    read_host_id(outside->host_id);
    err = keep_texts(outside, settings);
    if (err == MC_OK) {
        err = open_parts(outside, opts);
    }
    outside->settings.bind_address = NULL;
    outside->settings.metadata_url = NULL;
    outside->settings.cluster_id = NULL;
    return err; /* what there is is closed with the client */
}

void mci_outside_close(struct mci_outside *outside)
{
    if (!outside) {
        return;
    }
    mci_client_http_close(outside->http);
    mci_keeper_stop(outside);
    if (outside->remote) {
        mci_metadata_withdraw(outside);
        mci_remote_close(outside->remote,
                         mci_clock_deadline(mci_clock_ns(), GOODBYE_MS));
    }
    mci_targets_release(outside->targets);
    mci_lent_free(outside);
    mc_transfer_close(outside->transfer);
    (void)pthread_cond_destroy(&outside->lent_changed);
    (void)pthread_mutex_destroy(&outside->lent_lock);
    (void)pthread_mutex_destroy(&outside->targets_lock);
    mci_free(outside->stuck);
    mci_free(outside->metadata_url);
    mci_free(outside->cluster_id);
    mci_free(outside);
}
