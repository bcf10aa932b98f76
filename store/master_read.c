/* SPDX-License-Identifier: Apache-2.0 */
/* master_read.c - get, exist, get_size, probe: one short lock per row. */
#include <string.h>

#include "ahead.h"
#include "caller.h"
#include "lease.h"
#include "sweep.h"
#include "version.h"

/* ---- what a key answers ------------------------------------------------ */

struct found {
    struct mci_shard *shard; /* locked */
    struct mci_record *record;
    uint32_t index;
    enum mc_object_state state;
};

/* Locks the key's shard and looks. */
static struct found find(struct mci_master *master, const struct mci_spot *spot)
{
    struct found found = {.state = MC_OBJECT_ABSENT};
    found.shard = &master->shards[spot->shard];
    mci_shard_lock(found.shard);
    const struct mci_slot *slot =
        mci_table_find(&found.shard->table, &found.shard->pool, spot);
    found.index = mci_chain_readable(master, found.shard, slot);
    if (found.index != 0) {
        found.record = mci_pool_at(&found.shard->pool, found.index);
        found.state = MC_OBJECT_READABLE;
    } else if (mci_chain_is_written(found.shard, slot)) {
        found.state = MC_OBJECT_WRITING;
    }
    return found;
}

static enum mc_err code_of(const struct found *found)
{
    switch (found->state) {
    case MC_OBJECT_READABLE:
        return MC_OK;
    case MC_OBJECT_WRITING:
        return MC_ERR_REPLICA_IS_NOT_READY;
    default:
        return MC_ERR_OBJECT_NOT_FOUND;
    }
}

/* What calls over an array of keys have in common. tenant NULL: it has nothing
 * yet. */
static enum mc_err begin(struct mci_master *master, const struct mci_call *call,
                         size_t count, struct mci_tenant **tenant_out)
{
    if (count > MC_ROWS_MAX) {
        return MC_ERR_INVALID_PARAMS;
    }
    return mci_call_begin(master, call, false, tenant_out);
}

static size_t fewer(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Without a tenant there is nothing to look for: no key. */
static struct mci_spot spot_of(const struct mci_master *master,
                               const struct mci_tenant *tenant,
                               struct mc_view key)
{
    struct mci_spot spot = {.shard = 0};
    if (tenant) {
        mci_spot_make(master, tenant->index, key, &spot);
    }
    return spot;
}

/* Spots of the next keys of a batch. A key that is none, or whose row is refused,
 * has its code in results. */
struct some {
    struct mci_spot spots[MCI_AHEAD_ROWS];
    size_t count;
};

static void take_some(struct some *some, struct mci_master *master,
                      const struct mci_tenant *tenant,
                      const struct mc_view *keys, int64_t *results,
                      size_t count, enum mc_err err)
{
    some->count = fewer(count, MCI_AHEAD_ROWS);
    for (size_t i = 0; i < some->count; i++) {
        results[i] = err != MC_OK ? err : mci_key_check(keys[i]);
        some->spots[i] =
            spot_of(master, results[i] == MC_OK ? tenant : NULL, keys[i]);
    }
    mci_look_ahead(master, some->spots, some->count);
}

/* ---- get --------------------------------------------------------------- */

/* The lease that the row wants, anonymous or its own. */
static enum mc_err lease_row(struct mci_master *master,
                             const struct mci_call *call,
                             const struct found *found,
                             struct mci_read_row *row)
{
    if (row->want_lease) {
        return mci_lease_take(master, found->shard, found->index, call, row);
    }
    row->lease_left_ns =
        mci_lease_read(master, found->shard, found->index, call->now_ns) -
        call->now_ns;
    return MC_OK;
}

/* One that can be found but not be leased is as if nobody had asked. */
static void try_row(struct mci_master *master, const struct mci_call *call,
                    const struct mci_spot *spot, struct mci_read_row *row)
{
    struct found found = find(master, spot);
    struct mci_shard *shard = found.shard;
    row->err = code_of(&found);
    if (row->err != MC_OK) {
        shard->counts.gets++;
    } else if ((row->err = lease_row(master, call, &found, row)) == MC_OK) {
        shard->counts.gets++;
        shard->counts.hits++;
        mci_version_tell(master, shard, found.index, row);
        if (row->want_hold && row->place_count > 0) {
            mci_hold_add(shard->named, found.record);
            row->hold.shard = shard->index;
            row->hold.index = found.index;
        }
    }
    mci_shard_unlock(shard);
}

/* A client with as many leases as it may have gets another one once some of them
 * have ended, swept or not. */
static void get_row(struct mci_master *master, const struct mci_call *call,
                    const struct mci_spot *spot, struct mci_read_row *row)
{
    try_row(master, call, spot, row);
    if (row->err == MC_ERR_NO_AVAILABLE_HANDLE &&
        mci_reclaim_due(master, call->now_ns)) {
        try_row(master, call, spot, row);
    }
}

static void look_row(struct mci_master *master, const struct mci_call *call,
                     const struct mci_spot *spot, struct mci_read_row *row)
{
    (void)call;
    struct found found = find(master, spot);
    row->err = code_of(&found);
    if (row->err == MC_OK) {
        mci_version_tell(master, found.shard, found.index, row);
    }
    mci_shard_unlock(found.shard);
}

static void clear_row(struct mci_read_row *row)
{
    row->place_count = 0;
    row->hold = (struct mci_hold){.index = 0};
    row->lease = (struct mci_lease){.number = 0};
    row->media = 0;
    row->has_sums = false;
    row->size = 0;
    row->version = 0;
    row->lease_left_ns = 0;
}

typedef void (*read_row_fn)(struct mci_master *master,
                            const struct mci_call *call,
                            const struct mci_spot *spot,
                            struct mci_read_row *row);

static void read_some(struct mci_master *master, const struct mci_call *call,
                      const struct mci_tenant *tenant,
                      struct mci_read_row *rows, size_t count, read_row_fn read)
{
    struct mci_spot spots[MCI_AHEAD_ROWS];
    for (size_t i = 0; i < count; i++) {
        rows[i].err = mci_key_check(rows[i].key);
        spots[i] =
            spot_of(master, rows[i].err == MC_OK ? tenant : NULL, rows[i].key);
        if (rows[i].err == MC_OK && !tenant) {
            rows[i].err = MC_ERR_OBJECT_NOT_FOUND;
        }
    }
    mci_look_ahead(master, spots, count);
    for (size_t i = 0; i < count; i++) {
        if (spots[i].key.data) {
            read(master, call, &spots[i], &rows[i]);
        }
    }
}

static enum mc_err read_rows(struct mci_master *master,
                             const struct mci_call *call,
                             struct mci_read_row *rows, size_t count,
                             read_row_fn read)
{
    struct mci_tenant *tenant = NULL;
    enum mc_err err = begin(master, call, count, &tenant);
    for (size_t i = 0; i < count; i++) {
        clear_row(&rows[i]);
        rows[i].err = err;
    }
    for (size_t i = 0; i < count && err == MC_OK; i += MCI_AHEAD_ROWS) {
        read_some(master, call, tenant, &rows[i],
                  fewer(count - i, MCI_AHEAD_ROWS), read);
    }
    return err;
}

enum mc_err mci_master_get(struct mci_master *master,
                           const struct mci_call *call,
                           struct mci_read_row *rows, size_t count)
{
    return read_rows(master, call, rows, count, get_row);
}

enum mc_err mci_master_look(struct mci_master *master,
                            const struct mci_call *call,
                            struct mci_read_row *rows, size_t count)
{
    return read_rows(master, call, rows, count, look_row);
}

static void release(struct mci_master *master, const struct mci_hold *hold)
{
    struct mci_shard *shard = &master->shards[hold->shard];
    struct mci_leavings leavings;
    mci_leavings_init(&leavings);
    mci_shard_lock(shard);
    struct mci_record *record = mci_pool_at(&shard->pool, hold->index);
    mci_hold_drop(shard->named, record);
    if (record->state == MCI_RECORD_HELD) {
        mci_version_let_go(shard, hold->index, &leavings);
    }
    mci_shard_unlock(shard);
    mci_leavings_clear(master, &leavings);
}

void mci_master_release(struct mci_master *master, struct mci_read_row *rows,
                        size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (rows[i].hold.index != 0) {
            release(master, &rows[i].hold);
            rows[i].hold.index = 0;
        }
    }
}

/* ---- exist, get_size --------------------------------------------------- */

static int64_t exist_key(struct mci_master *master, const struct mci_call *call,
                         const struct mci_spot *spot)
{
    struct found found = find(master, spot);
    bool exists = found.state == MC_OBJECT_READABLE;
    if (exists) {
        mci_lease_asked(master, found.shard, found.index, call->now_ns);
    }
    mci_shard_unlock(found.shard);
    return exists;
}

enum mc_err mci_master_exist(struct mci_master *master,
                             const struct mci_call *call,
                             const struct mc_view *keys, size_t count,
                             int64_t *results_out)
{
    struct mci_tenant *tenant = NULL;
    enum mc_err err = begin(master, call, count, &tenant);
    struct some some;
    for (size_t at = 0; at < count; at += some.count) {
        take_some(&some, master, tenant, &keys[at], &results_out[at],
                  count - at, err);
        for (size_t i = 0; i < some.count; i++) {
            if (some.spots[i].key.data) {
                results_out[at + i] = exist_key(master, call, &some.spots[i]);
            }
        }
    }
    return err;
}

static int64_t size_of_key(struct mci_master *master,
                           const struct mci_call *call,
                           const struct mci_spot *spot)
{
    struct found found = find(master, spot);
    int64_t result = code_of(&found);
    if (result == MC_OK) {
        (void)mci_lease_read(master, found.shard, found.index, call->now_ns);
        result = (int64_t)mci_record_size(found.record);
    }
    mci_shard_unlock(found.shard);
    return result;
}

enum mc_err mci_master_get_size(struct mci_master *master,
                                const struct mci_call *call,
                                const struct mc_view *keys, size_t count,
                                int64_t *results_out)
{
    struct mci_tenant *tenant = NULL;
    enum mc_err err = begin(master, call, count, &tenant);
    struct some some;
    for (size_t at = 0; at < count; at += some.count) {
        take_some(&some, master, tenant, &keys[at], &results_out[at],
                  count - at, err);
        for (size_t i = 0; i < some.count; i++) {
            int64_t *result = &results_out[at + i];
            if (some.spots[i].key.data) {
                *result = size_of_key(master, call, &some.spots[i]);
            } else if (*result == MC_OK) {
                *result = MC_ERR_OBJECT_NOT_FOUND;
            }
        }
    }
    return err;
}

/* ---- probe ------------------------------------------------------------- */

static void probe_key(struct mci_master *master, const struct mci_call *call,
                      const struct mci_spot *spot, struct mc_probe *probe)
{
    struct found found = find(master, spot);
    probe->state = found.state;
    if (found.state == MC_OBJECT_READABLE) {
        const struct mci_record *record = found.record;
        struct mc_view tag = mci_label_tag(record->label);
        const struct mci_lease_asking asking = {
            .master = master, .shard = found.shard, .now_ns = call->now_ns};
        uint64_t until_ns = mci_lease_until(&asking, record);
        probe->media = record->marks & MCI_MARK_MEDIA;
        probe->size = mci_record_size(record);
        probe->version = record->number;
        probe->lease_ms = until_ns > call->now_ns
                              ? (until_ns - call->now_ns) / MCI_NS_PER_MS
                              : 0;
        probe->session_len = tag.len;
        if (tag.len > 0) {
            memcpy(probe->session, tag.data, tag.len);
        }
    }
    mci_shard_unlock(found.shard);
}

enum mc_err mci_master_probe(struct mci_master *master,
                             const struct mci_call *call,
                             const struct mc_view *keys, size_t count,
                             struct mc_probe *probes_out, int64_t *results_out)
{
    struct mci_tenant *tenant = NULL;
    enum mc_err err = begin(master, call, count, &tenant);
    struct some some;
    for (size_t at = 0; at < count; at += some.count) {
        take_some(&some, master, tenant, &keys[at], &results_out[at],
                  count - at, err);
        for (size_t i = 0; i < some.count; i++) {
            memset(&probes_out[at + i], 0, sizeof probes_out[at + i]);
            if (some.spots[i].key.data) {
                probe_key(master, call, &some.spots[i], &probes_out[at + i]);
            }
        }
    }
    return err;
}
