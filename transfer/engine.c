/* SPDX-License-Identifier: Apache-2.0 */
#include "engine.h"

#include <string.h>

#include "mc_log.h"
#include "mci_address.h"
#include "mci_alloc.h"
#include "mci_clock.h"
#include "mci_stream.h"
#include "target.h"
#include "workers.h"

#define HOST_DEFAULT "127.0.0.1"
#define SERVER_THREADS_DEFAULT 2
#define SERVER_THREADS_MAX 256
#define WORKERS_DEFAULT 2
#define WORKERS_MAX 256
#define CONNECTIONS_DEFAULT 8
#define QUEUE_MAX_DEFAULT 1024

/* How long a fence is posted: no grant that was made before it lives longer. */
#define FENCE_TTL_NS (MCI_GRANT_TTL_NS + 2 * MCI_GRANT_SLACK_NS)

/* ---- forks ------------------------------------------------------------- */

static _Atomic uint32_t forks; /* in the line of this process */
static pthread_once_t forks_once = PTHREAD_ONCE_INIT;

static void count_fork(void)
{
    (void)atomic_fetch_add(&forks, 1);
}

static void watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, count_fork);
}

bool mci_engine_is_elsewhere(const struct mc_transfer *transfer)
{
    return transfer->forks != atomic_load(&forks);
}

/* ---- opening ----------------------------------------------------------- */

static uint32_t or_default(uint32_t value, uint32_t instead)
{
    return value ? value : instead;
}

static enum mc_err check_opts(const struct mc_transfer_opts *opts)
{
    if (opts->only == MC_TRANSPORT_RDMA) {
        return MC_ERR_NOT_SUPPORTED;
    }
    if ((opts->host &&
         (!*opts->host || strlen(opts->host) > MCI_HOST_LEN_MAX)) ||
        (opts->bind_address && strlen(opts->bind_address) > MCI_HOST_LEN_MAX) ||
        (unsigned)opts->only > MC_TRANSPORT_RDMA ||
        opts->port_min > opts->port_max || opts->workers > WORKERS_MAX ||
        opts->server_threads > SERVER_THREADS_MAX) {
        return MC_ERR_INVALID_PARAMS;
    }
    return MC_OK;
}

static void free_opts(struct mc_transfer_opts *opts)
{
    mci_free((void *)(uintptr_t)opts->host);
    mci_free((void *)(uintptr_t)opts->bind_address);
}

static enum mc_err copy_opts(struct mc_transfer_opts *own,
                             const struct mc_transfer_opts *opts)
{
    const char *host = opts->host ? opts->host : HOST_DEFAULT;
    const char *bound = opts->bind_address ? opts->bind_address : "";
    *own = *opts;
    own->tls = NULL;
    own->host = mci_strdup_n(host, strlen(host));
    own->bind_address = mci_strdup_n(bound, strlen(bound));
    if (!own->host || !own->bind_address) {
        free_opts(own);
        return MC_ERR_NOMEM;
    }
    own->server_threads =
        or_default(opts->server_threads, SERVER_THREADS_DEFAULT);
    own->workers = or_default(opts->workers, WORKERS_DEFAULT);
    own->connections_per_peer =
        or_default(opts->connections_per_peer, CONNECTIONS_DEFAULT);
    own->queue_max = or_default(opts->queue_max, QUEUE_MAX_DEFAULT);
    return MC_OK;
}

static bool is_wanted(const struct mc_transfer_opts *opts,
                      enum mc_transport_kind kind)
{
    if ((kind == MC_TRANSPORT_SHM && opts->no_shm) ||
        (kind == MC_TRANSPORT_LOCAL && opts->no_local)) {
        return false;
    }
    return opts->only == MC_TRANSPORT_AUTO || opts->only == kind;
}

static void close_transports(struct mc_transfer *transfer)
{
    for (size_t i = mci_transport_count; i > 0; i--) {
        const struct mci_transport *transport = mci_transports[i - 1];
        if (transfer->states[transport->kind]) {
            transport->close(transfer->states[transport->kind]);
            transfer->states[transport->kind] = NULL;
        }
    }
}

static enum mc_err open_transports(struct mc_transfer *transfer)
{
    for (size_t i = 0; i < mci_transport_count; i++) {
        const struct mci_transport *transport = mci_transports[i];
        if (!is_wanted(&transfer->opts, transport->kind)) {
            continue;
        }
        enum mc_err err =
            transport->open(transfer, &transfer->states[transport->kind]);
        if (err != MC_OK) {
            transfer->states[transport->kind] = NULL;
            close_transports(transfer);
            return err;
        }
    }
    return MC_OK;
}

static enum mc_err open_tls(struct mc_transfer *transfer,
                            const struct mc_tls_opts *opts)
{
    return opts ? mci_tls_create(opts, &transfer->tls) : MC_OK;
}

static enum mc_err fill_in(struct mc_transfer *transfer,
                           const struct mc_transfer_opts *opts)
{
    enum mc_err err = copy_opts(&transfer->opts, opts);
    if (err != MC_OK) {
        return err;
    }
    err = open_tls(transfer, opts->tls);
    if (err != MC_OK) {
        goto err_free_opts;
    }
    err = mci_regions_init(&transfer->regions);
    if (err != MC_OK) {
        goto err_destroy_tls;
    }
    err = mci_exposures_init(&transfer->exposures);
    if (err != MC_OK) {
        goto err_fini_regions;
    }
    err = mci_board_create(&transfer->board);
    if (err != MC_OK) {
        goto err_fini_exposures;
    }
    mci_list_init(&transfer->targets);
    if (pthread_mutex_init(&transfer->targets_lock, NULL) != 0) {
        err = MC_ERR_NOMEM;
        goto err_destroy_board;
    }
    return MC_OK;
err_destroy_board:
    mci_board_destroy(transfer->board);
err_fini_exposures:
    mci_exposures_fini(&transfer->exposures);
err_fini_regions:
    mci_regions_fini(&transfer->regions);
err_destroy_tls:
    mci_tls_destroy(transfer->tls);
err_free_opts:
    free_opts(&transfer->opts);
    return err;
}

static void empty_out(struct mc_transfer *transfer)
{
    (void)pthread_mutex_destroy(&transfer->targets_lock);
    mci_board_destroy(transfer->board);
    mci_exposures_fini(&transfer->exposures);
    mci_regions_fini(&transfer->regions);
    mci_tls_destroy(transfer->tls);
    free_opts(&transfer->opts);
}

enum mc_err mc_transfer_open(const struct mc_transfer_opts *opts,
                             struct mc_transfer **transfer_out)
{
    static const struct mc_transfer_opts defaults;
    opts = opts ? opts : &defaults;
    enum mc_err err = check_opts(opts);
    if (err != MC_OK) {
        return err;
    }
    (void)pthread_once(&forks_once, watch_forks);
    struct mc_transfer *transfer = mci_calloc(1, sizeof *transfer);
    if (!transfer) {
        return MC_ERR_NOMEM;
    }
    transfer->forks = atomic_load(&forks);
    err = fill_in(transfer, opts);
    if (err != MC_OK) {
        goto err_free;
    }
    err = mci_workers_create(transfer, &transfer->pool);
    if (err != MC_OK) {
        goto err_empty;
    }
    err = open_transports(transfer);
    if (err != MC_OK) {
        goto err_destroy_pool;
    }
    *transfer_out = transfer;
    return MC_OK;
err_destroy_pool:
    mci_workers_destroy(transfer->pool);
err_empty:
    empty_out(transfer);
err_free:
    mci_free(transfer);
    return err;
}

/* ---- lending ----------------------------------------------------------- */

static void conceal(struct mc_transfer *transfer, struct mci_exposed *exposed)
{
    mci_exposed_conceal(exposed);
    for (size_t i = 0; i < mci_transport_count; i++) {
        const struct mci_transport *transport = mci_transports[i];
        if (transfer->states[transport->kind]) {
            transport->conceal(transfer->states[transport->kind], exposed);
        }
    }
    mci_exposed_release(exposed);
}

void mc_transfer_close(struct mc_transfer *transfer)
{
    struct mci_exposed *exposed;
    if (!transfer || mci_engine_is_elsewhere(transfer)) {
        return;
    }
    mci_workers_destroy(transfer->pool);
    mci_targets_detach(transfer);
    while ((exposed = mci_exposed_take(transfer, 0)) != NULL) {
        conceal(transfer, exposed);
    }
    close_transports(transfer);
    empty_out(transfer);
    mci_free(transfer);
}

static enum mc_err expose_everywhere(struct mc_transfer *transfer,
                                     struct mci_exposed *exposed)
{
    for (size_t i = 0; i < mci_transport_count; i++) {
        const struct mci_transport *transport = mci_transports[i];
        if (!transfer->states[transport->kind]) {
            continue;
        }
        enum mc_err err =
            transport->expose(transfer->states[transport->kind], exposed);
        if (err != MC_OK) {
            return err;
        }
    }
    return MC_OK;
}

static void tell(const struct mci_exposed *exposed,
                 struct mc_exposure *exposure_out)
{
    memset(exposure_out, 0, sizeof *exposure_out);
    exposure_out->registration = exposed->registration;
    memcpy(exposure_out->key, exposed->key, sizeof exposure_out->key);
    memcpy(exposure_out->endpoint, exposed->endpoint,
           sizeof exposure_out->endpoint);
    memcpy(exposure_out->shm, exposed->shm, sizeof exposure_out->shm);
}

enum mc_err mc_transfer_expose(struct mc_transfer *transfer,
                               const struct mc_exposure_opts *opts,
                               struct mc_exposure *exposure_out)
{
    struct mci_exposed *exposed = NULL;
    if (mci_engine_is_elsewhere(transfer)) {
        return MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
    }
    enum mc_err err = mci_exposed_create(transfer, opts, &exposed);
    if (err != MC_OK) {
        return err;
    }
    err = expose_everywhere(transfer, exposed);
    if (err != MC_OK) {
        conceal(transfer, exposed);
        return err;
    }
    tell(exposed, exposure_out);
    mci_exposed_publish(exposed);
    return MC_OK;
}

enum mc_err mc_transfer_endpoint(const struct mc_transfer *transfer,
                                 char endpoint_out[MC_TRANSFER_ENDPOINT_SIZE])
{
    char endpoint[MC_TRANSFER_ENDPOINT_SIZE] = "";
    enum mc_err err = MC_OK;
    if (mci_engine_is_elsewhere(transfer)) {
        return MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
    }
    for (size_t i = 0; i < mci_transport_count && err == MC_OK; i++) {
        const struct mci_transport *transport = mci_transports[i];
        void *state = transfer->states[transport->kind];
        if (state && transport->endpoint) {
            err = transport->endpoint(state, endpoint);
        }
    }
    if (err == MC_OK) {
        memcpy(endpoint_out, endpoint, sizeof endpoint);
    }
    return err;
}

void mc_transfer_conceal(struct mc_transfer *transfer, uint64_t registration)
{
    if (registration == 0 || mci_engine_is_elsewhere(transfer)) {
        return;
    }
    struct mci_exposed *exposed = mci_exposed_take(transfer, registration);
    if (exposed) {
        conceal(transfer, exposed);
    }
}

enum mc_err mc_transfer_fence(struct mc_transfer *transfer,
                              const struct mc_fence *fences, size_t count,
                              struct mc_fence_stuck *stuck_out,
                              size_t stuck_max, size_t *stuck_count_out)
{
    struct mci_stuck_list stuck = {.rows = stuck_out, .max = stuck_max};
    if (mci_engine_is_elsewhere(transfer)) {
        return MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
    }
    uint64_t now_ns = mci_clock_ns();
    mci_board_post(transfer->board, fences, count, now_ns,
                   now_ns + FENCE_TTL_NS);
    mci_count(&transfer->counters.fences, count);
    for (size_t i = 0; i < mci_transport_count; i++) {
        const struct mci_transport *transport = mci_transports[i];
        if (!transfer->states[transport->kind]) {
            continue;
        }
        enum mc_err err = transport->fence(transfer->states[transport->kind],
                                           fences, count, &stuck);
        if (err != MC_OK) {
            return err;
        }
    }
    *stuck_count_out = stuck.count;
    return MC_OK;
}

/* ---- local memory ------------------------------------------------------ */

enum mc_err mc_transfer_register(struct mc_transfer *transfer, void *base,
                                 size_t len)
{
    return mci_engine_is_elsewhere(transfer)
               ? MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS
               : mci_regions_add(&transfer->regions, base, len);
}

enum mc_err mc_transfer_unregister(struct mc_transfer *transfer, void *base,
                                   uint64_t deadline_ns)
{
    return mci_engine_is_elsewhere(transfer)
               ? MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS
               : mci_regions_remove(&transfer->regions, base, deadline_ns);
}

bool mc_transfer_is_registered(const struct mc_transfer *transfer,
                               const void *base, size_t len)
{
    struct mc_transfer *own = (struct mc_transfer *)(uintptr_t)transfer;
    return !mci_engine_is_elsewhere(transfer) &&
           mci_regions_has(&own->regions, base, len);
}

/* ---- counters ---------------------------------------------------------- */

static uint64_t read_counter(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

void mc_transfer_stat(const struct mc_transfer *transfer,
                      struct mc_transfer_stats *stats_out)
{
    const struct mci_counters *from = &transfer->counters;
    *stats_out = (struct mc_transfer_stats){
        .served_read_bytes = read_counter(&from->served_read_bytes),
        .served_written_bytes = read_counter(&from->served_written_bytes),
        .rows = read_counter(&from->rows),
        .failed_rows = read_counter(&from->failed_rows),
        .refused_requests = read_counter(&from->refused_requests),
        .connections = read_counter(&from->connections),
        .connects = read_counter(&from->connects),
        .fences = read_counter(&from->fences),
        .shm_peers = read_counter(&from->shm_peers),
    };
    for (int kind = 0; kind < MCI_TRANSPORT_KINDS; kind++) {
        stats_out->read_bytes[kind] = read_counter(&from->read_bytes[kind]);
        stats_out->written_bytes[kind] =
            read_counter(&from->written_bytes[kind]);
        stats_out->moved_rows[kind] = read_counter(&from->moved_rows[kind]);
    }
}
