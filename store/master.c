/* SPDX-License-Identifier: Apache-2.0 */
/* master.c - a master begins and ends, and says how it is. */
#include <string.h>
#include <sys/random.h>

#include "group.h"
#include "mci_alloc.h"
#include "space.h"
#include "tenant.h"
#include "writer.h"

#define READ_LEASE_MS 10000
#define SOFT_PIN_MS (30 * 60 * 1000)
#define SOFT_PIN_MAX_MS (24 * 60 * 60 * 1000)
#define RELEASE_MS (600 * 1000)
#define HIGH_WATERMARK 0.90
#define EVICTION_RATIO 0.05
#define TENANTS_DEFAULT 1024
#define GROUPS_PER_STRIPE_MAX (1U << 28)

/* A shard should have some dozens of objects, so that one that is evicted is one
 * of the oldest, and not many more shards than that takes. */
#define BYTES_PER_OBJECT 4096
#define OBJECTS_PER_SHARD 64
#define SHARDS_DEFAULT_MAX 1024

/* ---- settings ---------------------------------------------------------- */

/* 0 is the default, MC_NONE really 0; what would wrap is forever. */
static uint64_t ttl_ns(uint64_t ms, uint64_t default_ms)
{
    if (ms == MC_NONE) {
        return 0;
    }
    ms = ms == 0 ? default_ms : ms;
    return ms > MCI_NEVER / MCI_NS_PER_MS ? MCI_NEVER : ms * MCI_NS_PER_MS;
}

static bool is_share(double value)
{
    return value >= 0.0 && value <= 1.0;
}

static enum mc_err fill_settings(struct mci_master *master)
{
    struct mc_store_opts *opts = &master->opts;
    if ((unsigned)opts->allocation_strategy > MC_ALLOCATION_LOCAL_FIRST ||
        !is_share(opts->eviction_high_watermark) ||
        !is_share(opts->eviction_ratio)) {
        return MC_ERR_INVALID_PARAMS;
    }
    if (opts->eviction_high_watermark <= 0.0) {
        opts->eviction_high_watermark = HIGH_WATERMARK;
    }
    if (opts->eviction_ratio <= 0.0) {
        opts->eviction_ratio = EVICTION_RATIO;
    }
    if (opts->max_tenants == 0) {
        opts->max_tenants = TENANTS_DEFAULT;
    }
    master->read_lease_ns =
        ttl_ns(opts->default_kv_lease_ttl_ms, READ_LEASE_MS);
    master->exist_lease_ns =
        opts->exist_lease_ttl_ms == 0
            ? master->read_lease_ns
            : ttl_ns(opts->exist_lease_ttl_ms, READ_LEASE_MS);
    master->soft_pin_ns = ttl_ns(opts->default_kv_soft_pin_ttl_ms, SOFT_PIN_MS);
    master->soft_pin_max_ns =
        ttl_ns(opts->max_kv_soft_pin_ttl_ms, SOFT_PIN_MAX_MS);
    master->idle_ns =
        opts->put_start_release_timeout_ms == MC_NONE
            ? MCI_NEVER
            : ttl_ns(opts->put_start_release_timeout_ms, RELEASE_MS);
    return master->soft_pin_ns > master->soft_pin_max_ns ? MC_ERR_INVALID_PARAMS
                                                         : MC_OK;
}

static enum mc_err choose_shards(struct mci_master *master,
                                 const struct mci_master_opts *opts)
{
    uint32_t count = opts->shards;
    if (count > MCI_SHARDS_MAX || (count & (count - 1)) != 0) {
        return MC_ERR_INVALID_PARAMS;
    }
    if (count == 0) {
        uint64_t objects = opts->expected_bytes / BYTES_PER_OBJECT;
        count = opts->expected_bytes == 0 ? SHARDS_DEFAULT_MAX : 1;
        while (count < SHARDS_DEFAULT_MAX &&
               (uint64_t)count * OBJECTS_PER_SHARD < objects) {
            count *= 2;
        }
    }
    master->shard_count = count;
    master->shard_bits = (unsigned)__builtin_ctz(count);
    return MC_OK;
}

static uint64_t random_seed(void)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != (ssize_t)sizeof seed) {
        seed = mci_clock_ns();
    }
    return seed;
}

/* ---- create ------------------------------------------------------------ */

static enum mc_err make_shards(struct mci_master *master)
{
    size_t bytes = master->shard_count * sizeof *master->shards;
    master->shards = mci_alloc_aligned(_Alignof(struct mci_shard), bytes);
    if (!master->shards) {
        return MC_ERR_NOMEM;
    }
    memset(master->shards, 0, bytes);
    for (uint32_t i = 0; i < master->shard_count; i++) {
        struct mci_shard *shard = &master->shards[i];
        mci_lock_init(&shard->lock);
        shard->index = i;
        shard->pool.source = &master->chunks;
        atomic_init(&shard->limbo_ns, MCI_NEVER);
        atomic_init(&shard->soft_ns, MCI_NEVER);
        atomic_init(&shard->named_ns, MCI_NEVER);
    }
    return MC_OK;
}

static void init_tables(struct mci_master *master)
{
    mci_chunks_init(&master->chunks);
    mci_lock_init(&master->tables_lock);
    mci_lock_init(&master->partial_lock);
    mci_list_init(&master->partial);
    atomic_init(&master->due_ns, MCI_NEVER);
    mci_map_init(&master->host_map, MCI_CLIENTS_MAX);
    for (unsigned i = 0; i < MCI_GROUP_STRIPES; i++) {
        mci_lock_init(&master->groups[i].lock);
        mci_map_init(&master->groups[i].map, GROUPS_PER_STRIPE_MAX);
    }
}

static enum mc_err make_tables(struct mci_master *master)
{
    size_t chunks = MCI_CLIENTS_MAX / MCI_WRITER_CHUNK + 1;
    master->writers = mci_calloc(chunks, sizeof *master->writers);
    if (!master->writers) {
        return MC_ERR_NOMEM;
    }
    enum mc_err err = make_shards(master);
    return err != MC_OK ? err : mci_tenants_init(master);
}

enum mc_err mci_master_create(const struct mci_master_opts *opts,
                              struct mci_master **master_out)
{
    struct mci_master *master =
        mci_alloc_aligned(_Alignof(struct mci_master), sizeof *master);
    if (!master) {
        return MC_ERR_NOMEM;
    }
    memset(master, 0, sizeof *master);
    master->opts = opts->store;
    master->log = opts->log;
    master->epoch = mci_event_log_epoch(opts->log);
    master->seed = opts->seed ? opts->seed : random_seed();
    init_tables(master);
    enum mc_err err = fill_settings(master);
    if (err == MC_OK) {
        err = choose_shards(master, opts);
    }
    if (err == MC_OK) {
        err = make_tables(master);
    }
    if (err != MC_OK) {
        mci_master_destroy(master);
        return err;
    }
    /* Before any commit is possible; with nobody else there it finds room. */
    (void)mci_event_log_append_cleared(
        master->log, &mci_tenant_at(master, 0)->log, 0, true, NULL);
    *master_out = master;
    return MC_OK;
}

/* ---- destroy ----------------------------------------------------------- */

static void free_label(struct mci_master *master, struct mci_label *label)
{
    struct mci_extras *extras = label ? mci_label_extras(label) : NULL;
    if (extras) {
        mci_group_put(master, extras->member.group);
        extras->member.group = NULL;
    }
    if (label && mci_label_release(label)) {
        mci_label_destroy(label);
    }
}

static void free_shards(struct mci_master *master)
{
    for (uint32_t i = 0; i < master->shard_count && master->shards; i++) {
        struct mci_shard *shard = &master->shards[i];
        for (uint32_t j = 1; j < shard->pool.touched; j++) {
            free_label(master, mci_pool_at(&shard->pool, j)->label);
        }
        mci_pool_fini(&shard->pool);
        mci_table_fini(&shard->table);
        mci_named_fini(shard->named);
        (void)pthread_mutex_destroy(&shard->lock);
    }
    mci_free(master->shards);
    mci_chunks_fini(&master->chunks);
}

static void free_groups(struct mci_master *master)
{
    while (!mci_list_is_empty(&master->partial)) {
        struct mci_link *link = master->partial.next;
        mci_list_remove(link);
        mci_group_put(master,
                      MCI_CONTAINER(link, struct mci_group, partial_link));
    }
    for (unsigned i = 0; i < MCI_GROUP_STRIPES; i++) {
        mci_map_fini(&master->groups[i].map);
        (void)pthread_mutex_destroy(&master->groups[i].lock);
    }
}

void mci_master_destroy(struct mci_master *master)
{
    if (!master) {
        return;
    }
    free_shards(master);
    free_groups(master);
    mci_spaces_fini(master);
    if (master->writers) {
        mci_writers_fini(master);
        mci_free((void *)master->writers);
    }
    if (master->tenants) {
        mci_tenants_fini(master);
    }
    mci_map_fini(&master->host_map);
    (void)pthread_mutex_destroy(&master->tables_lock);
    (void)pthread_mutex_destroy(&master->partial_lock);
    mci_free(master);
}

/* ---- stat -------------------------------------------------------------- */

static void add_shard(struct mci_shard *shard, struct mci_master_stats *stats)
{
    mci_shard_lock(shard);
    const struct mci_shard_counts *counts = &shard->counts;
    stats->leased_only_bytes += counts->waiting_bytes;
    stats->quarantined_bytes += counts->doubtful_bytes;
    stats->objects += counts->objects;
    stats->attempts += counts->attempts;
    stats->quarantined += counts->doubtful;
    stats->commits += counts->commits;
    stats->gets += counts->gets;
    stats->hits += counts->hits;
    stats->evicted_objects += counts->evicted_objects;
    stats->evicted_bytes += counts->evicted_bytes;
    stats->table_slots += shard->table.capacity;
    mci_shard_unlock(shard);
}

void mci_master_stat(struct mci_master *master,
                     struct mci_master_stats *stats_out)
{
    struct mci_master_stats stats = {.capacity_bytes = 0};
    for (uint32_t i = 0; i < master->shard_count; i++) {
        add_shard(&master->shards[i], &stats);
    }
    uint32_t count = atomic_load(&master->space_count);
    for (uint32_t i = 0; i < count; i++) {
        struct mci_space *space = mci_space_at(master, i);
        stats.capacity_bytes += atomic_load(&space->capacity_bytes);
        stats.allocated_bytes += atomic_load(&space->used_bytes);
        stats.segments += atomic_load(&space->is_gone) ? 0 : 1;
    }
    stats.evicted_windows = atomic_load(&master->evicted_windows);
    stats.alloc_failures = atomic_load(&master->alloc_failures);
    stats.groups = atomic_load(&master->group_count);
    stats.tenants = atomic_load(&master->tenant_count);
    stats.clients = atomic_load(&master->client_count);
    *stats_out = stats;
}
