/* SPDX-License-Identifier: Apache-2.0 */
/* master_remove.c - taking objects away: by key, by expression, all of them.
 *
 * By key is foreground work. The others are bulk producers of events: they go
 * through the table in slices, reserve before each shard lock, and wait while
 * the log is over half full.
 */
#include "caller.h"
#include "lease.h"
#include "mci_regex.h"
#include "media.h"
#include "space.h"
#include "version.h"

/* ---- by key ------------------------------------------------------------ */

struct removal {
    struct mci_master *master;
    const struct mci_call *call;
    const struct mci_tenant *tenant;
    bool force;
    enum mci_log_class cls;
};

static enum mc_err unlink_key(const struct removal *removal,
                              struct mci_change *change)
{
    struct mci_shard *shard = change->shard;
    mci_version_oust(change);
    uint32_t index = mci_chain_linked(shard, change->slot);
    if (index == 0) {
        return mci_chain_is_written(shard, change->slot)
                   ? MC_ERR_REPLICA_IS_NOT_READY
                   : MC_ERR_OBJECT_NOT_FOUND;
    }
    const struct mci_record *record = mci_pool_at(&shard->pool, index);
    const struct mci_lease_asking asking = {
        .master = removal->master, .shard = shard, .now_ns = change->now_ns};
    if (!removal->force && mci_lease_until(&asking, record) > asking.now_ns) {
        return MC_ERR_OBJECT_HAS_LEASE;
    }
    mci_version_unlink(change, index);
    return MC_OK;
}

static enum mc_err remove_key(const struct removal *removal, struct mc_view key)
{
    struct mci_master *master = removal->master;
    uint32_t reserved = 0;
    if (mci_media_reserve(master, MC_MEDIUM_COUNT, removal->cls,
                          removal->call->deadline_ns, &reserved) != MC_OK) {
        return MC_ERR_RPC_TIMEOUT;
    }
    struct mci_spot spot;
    struct mci_leavings leavings;
    mci_leavings_init(&leavings);
    mci_spot_make(master, removal->tenant->index, key, &spot);
    struct mci_shard *shard = &master->shards[spot.shard];
    mci_shard_lock(shard);
    struct mci_change change = {
        .master = master,
        .shard = shard,
        .slot = mci_table_find(&shard->table, &shard->pool, &spot),
        .now_ns = removal->call->now_ns,
        .reserved = &reserved,
        .leavings = &leavings};
    enum mc_err err = unlink_key(removal, &change);
    mci_shard_unlock(shard);
    mci_media_unreserve(master, reserved);
    mci_leavings_clear(master, &leavings);
    return err;
}

enum mc_err mci_master_remove(struct mci_master *master,
                              const struct mci_call *call,
                              const struct mc_view *keys, size_t count,
                              bool force, int64_t *results_out)
{
    struct mci_tenant *tenant = NULL;
    enum mc_err err = count > MC_ROWS_MAX
                          ? MC_ERR_INVALID_PARAMS
                          : mci_call_begin(master, call, false, &tenant);
    if (err != MC_OK) {
        mci_results_fill(results_out, count, err);
        return err;
    }
    const struct removal removal = {.master = master,
                                    .call = call,
                                    .tenant = tenant,
                                    .force = force,
                                    .cls = MCI_LOG_FOREGROUND};
    for (size_t i = 0; i < count; i++) {
        results_out[i] = mci_key_check(keys[i]);
        if (results_out[i] == MC_OK) {
            results_out[i] = tenant ? remove_key(&removal, keys[i])
                                    : MC_ERR_OBJECT_NOT_FOUND;
        }
    }
    return MC_OK;
}

/* ---- by expression ----------------------------------------------------- */

static enum mc_err remove_matches(const struct removal *removal,
                                  const struct mci_page *page,
                                  struct mci_regex *regex, uint64_t *removed)
{
    for (uint32_t i = 0; i < page->count; i++) {
        bool found = false;
        enum mc_err err = mci_regex_find(regex, page->rows[i].key, &found);
        if (err == MC_OK && found) {
            err = remove_key(removal, page->rows[i].key);
            *removed += err == MC_OK;
            err = err == MC_ERR_RPC_TIMEOUT ? err : MC_OK;
        }
        if (err != MC_OK) {
            return err;
        }
    }
    return MC_OK;
}

static enum mc_err remove_found(const struct removal *removal,
                                struct mci_regex *regex, uint64_t *removed)
{
    struct mci_page page;
    struct mci_cursor cursor = {.shard = 0};
    enum mc_err err = mci_page_init(&page);
    while (err == MC_OK && !cursor.at_end) {
        err = mci_master_list(removal->master, removal->tenant->log.name,
                              &cursor, &page);
        if (err == MC_OK) {
            err = remove_matches(removal, &page, regex, removed);
        }
        if (err == MC_OK && !cursor.at_end &&
            !mci_call_goes_on(removal->call)) {
            err = MC_ERR_RPC_TIMEOUT;
        }
    }
    mci_page_fini(&page);
    return err;
}

enum mc_err mci_master_remove_by_regex(struct mci_master *master,
                                       const struct mci_call *call,
                                       struct mc_view regex, bool force,
                                       uint64_t *removed_out)
{
    struct mci_tenant *tenant = NULL;
    struct mci_regex *compiled = NULL;
    enum mc_err err = mci_call_begin(master, call, false, &tenant);
    if (err == MC_OK) {
        err = mci_regex_compile(regex, &compiled);
    }
    if (err != MC_OK) {
        return err;
    }
    const struct removal removal = {.master = master,
                                    .call = call,
                                    .tenant = tenant,
                                    .force = force,
                                    .cls = MCI_LOG_BULK};
    uint64_t removed = 0;
    if (tenant) {
        err = remove_found(&removal, compiled, &removed);
    }
    mci_regex_destroy(compiled);
    if (err == MC_OK || err == MC_ERR_RPC_TIMEOUT) {
        *removed_out = removed;
    }
    return err;
}
