/* SPDX-License-Identifier: Apache-2.0 */
/* master_disk.c - copies on disk come and go, and go back to memory.
 *
 * The master only hears of them: a client says that it holds a version on disk,
 * or no longer does. A version gets extras for that, and a spare record to carry
 * its memory range when that goes first, before the copy counts.
 */
#include <string.h>

#include "caller.h"
#include "lease.h"
#include "mci_alloc.h"
#include "media.h"
#include "version.h"
#include "writer.h"

/* What one key's change needs; begun with room for one event, the shard locked,
 * and ended with everything given back. */
struct turn {
    struct mci_spot spot;
    struct mci_change change;
    uint32_t reserved;
    struct mci_leavings leavings;
};

static enum mc_err turn_begin(struct turn *turn, struct mci_master *master,
                              const struct mci_call *call, uint16_t tenant,
                              struct mc_view key)
{
    turn->reserved = 0;
    enum mc_err err = mci_media_reserve(master, 1, MCI_LOG_FOREGROUND,
                                        call->deadline_ns, &turn->reserved);
    if (err != MC_OK) {
        return err;
    }
    mci_leavings_init(&turn->leavings);
    mci_spot_make(master, tenant, key, &turn->spot);
    struct mci_shard *shard = &master->shards[turn->spot.shard];
    mci_shard_lock(shard);
    turn->change = (struct mci_change){
        .master = master,
        .shard = shard,
        .slot = mci_table_find(&shard->table, &shard->pool, &turn->spot),
        .now_ns = call->now_ns,
        .reserved = &turn->reserved,
        .leavings = &turn->leavings};
    return MC_OK;
}

static void turn_end(struct turn *turn)
{
    mci_shard_unlock(turn->change.shard);
    mci_media_unreserve(turn->change.master, turn->reserved);
    mci_leavings_clear(turn->change.master, &turn->leavings);
}

/* ---- offloaded --------------------------------------------------------- */

/* The readable version a row is about. */
static enum mc_err find_version(const struct turn *turn, uint64_t version,
                                uint32_t *index_out)
{
    uint32_t index = mci_chain_readable(turn->change.master, turn->change.shard,
                                        turn->change.slot);
    if (index == 0) {
        return MC_ERR_OBJECT_NOT_FOUND;
    }
    if (mci_pool_at(&turn->change.shard->pool, index)->number != version) {
        return MC_ERR_INVALID_VERSION;
    }
    *index_out = index;
    return MC_OK;
}

/* Counts a disk copy in; the version has extras. A client that has expired since
 * the call began gets none: its expiry may have passed this shard. */
static enum mc_err add_disk(const struct turn *turn, uint32_t index,
                            uint32_t client)
{
    struct mci_shard *shard = turn->change.shard;
    struct mci_master *master = turn->change.master;
    struct mci_record *record = mci_pool_at(&shard->pool, index);
    struct mci_extras *extras = mci_label_extras(record->label);
    if (atomic_load(&mci_writer_at(master, client)->is_expired)) {
        return MC_ERR_CLIENT_NOT_FOUND;
    }
    if (record->marks & MCI_MARK_DISK) {
        return extras->disk_client == client ? MC_OK
                                             : MC_ERR_OBJECT_ALREADY_EXISTS;
    }
    enum mc_err err = mci_pool_take(&shard->pool, &extras->spare);
    if (err != MC_OK) {
        return err;
    }
    extras->disk_client = client;
    atomic_fetch_add(&mci_writer_at(master, client)->disk_copies, 1);
    struct mci_media_change media = {.from = NULL};
    mci_media_to(&media, record, MC_MEDIUM_DISK);
    mci_media_change(master, shard, &media, turn->change.reserved);
    return MC_OK;
}

/* The tag of a version without extras, to make it a label that has them. */
struct old_tag {
    size_t len;
    char bytes[MC_SESSION_ID_LEN_MAX];
};

/* With label NULL a version without extras makes it ask for one (-702, which is
 * no answer of this call); else the label replaces its own. */
static enum mc_err offload_turn(const struct turn *turn,
                                const struct mci_disk_row *row, uint32_t client,
                                struct mci_label **label, struct old_tag *tag)
{
    uint32_t index = 0;
    enum mc_err err = find_version(turn, row->version, &index);
    if (err != MC_OK) {
        return err;
    }
    struct mci_record *record = mci_pool_at(&turn->change.shard->pool, index);
    if (!mci_label_extras(record->label)) {
        struct mc_view old = mci_label_tag(record->label);
        if (!*label) {
            tag->len = old.len;
            memcpy(tag->bytes, old.data ? old.data : "", old.len);
            return MC_ERR_INVALID_REPLICA;
        }
        struct mci_label *mine = record->label;
        (*label)->data_type = mine->data_type;
        (*label)->has_sums = mine->has_sums;
        (*label)->chain = mine->chain;
        record->label = *label;
        *label = mine;
    }
    return add_disk(turn, index, client);
}

static enum mc_err offload_row(struct mci_master *master,
                               const struct mci_call *call, uint16_t tenant,
                               const struct mci_disk_row *row)
{
    struct mci_label *label = NULL;
    struct old_tag tag = {.len = 0};
    enum mc_err err = MC_OK;
    for (;;) {
        struct turn turn;
        err = turn_begin(&turn, master, call, tenant, row->key);
        if (err != MC_OK) {
            break;
        }
        err = offload_turn(&turn, row, call->client, &label, &tag);
        turn_end(&turn);
        if (err != MC_ERR_INVALID_REPLICA) {
            break;
        }
        const struct mci_label_opts opts = {
            .key = row->key,
            .tag = mc_view_make(tag.bytes, tag.len),
            .tenant = tenant,
            .has_extras = true};
        label = mci_label_create(&opts);
        if (!label) {
            return MC_ERR_NOMEM;
        }
    }
    mci_label_destroy(label);
    return err;
}

enum mc_err mci_master_offloaded(struct mci_master *master,
                                 const struct mci_call *call,
                                 struct mci_disk_row *rows, size_t count)
{
    struct mci_tenant *tenant = NULL;
    enum mc_err err = count > MC_ROWS_MAX
                          ? MC_ERR_INVALID_PARAMS
                          : mci_call_begin(master, call, false, &tenant);
    for (size_t i = 0; i < count; i++) {
        rows[i].err = err != MC_OK ? err : mci_key_check(rows[i].key);
        if (rows[i].err == MC_OK) {
            rows[i].err =
                tenant ? offload_row(master, call, tenant->index, &rows[i])
                       : MC_ERR_OBJECT_NOT_FOUND;
        }
    }
    return err;
}

/* ---- disk_gone --------------------------------------------------------- */

static enum mc_err disk_gone_key(struct mci_master *master,
                                 const struct mci_call *call, uint16_t tenant,
                                 struct mc_view key)
{
    struct turn turn;
    enum mc_err err = turn_begin(&turn, master, call, tenant, key);
    if (err != MC_OK) {
        return err;
    }
    uint32_t index =
        mci_chain_readable(master, turn.change.shard, turn.change.slot);
    err = MC_ERR_OBJECT_NOT_FOUND;
    if (index != 0) {
        const struct mci_record *record =
            mci_pool_at(&turn.change.shard->pool, index);
        err = MC_ERR_REPLICA_NOT_FOUND;
        if ((record->marks & MCI_MARK_DISK) &&
            mci_label_extras(record->label)->disk_client == call->client) {
            mci_version_drop_disk(&turn.change, index);
            err = MC_OK;
        }
    }
    turn_end(&turn);
    return err;
}

enum mc_err mci_master_disk_gone(struct mci_master *master,
                                 const struct mci_call *call,
                                 const struct mc_view *keys, size_t count,
                                 int64_t *results_out)
{
    struct mci_tenant *tenant = NULL;
    enum mc_err err = count > MC_ROWS_MAX
                          ? MC_ERR_INVALID_PARAMS
                          : mci_call_begin(master, call, false, &tenant);
    for (size_t i = 0; i < count; i++) {
        results_out[i] = err != MC_OK ? err : mci_key_check(keys[i]);
        if (results_out[i] == MC_OK) {
            results_out[i] =
                tenant ? disk_gone_key(master, call, tenant->index, keys[i])
                       : MC_ERR_OBJECT_NOT_FOUND;
        }
    }
    return err;
}

/* ---- promote_end ------------------------------------------------------- */

static enum mc_err promote_turn(const struct turn *turn,
                                struct mci_write_row *row)
{
    const struct mci_change *change = &turn->change;
    struct mci_pool *pool = &change->shard->pool;
    uint32_t index =
        mci_chain_attempt(change->shard, change->slot, row->attempt.number);
    if (index == 0) {
        bool is_done = mci_fate_get(change->master, row->attempt.number) ==
                       MCI_FATE_COMMITTED;
        return is_done ? MC_OK : MC_ERR_INVALID_VERSION;
    }
    const struct mci_record *record = mci_pool_at(pool, index);
    if (!(record->marks & MCI_MARK_PROMOTE)) {
        return MC_ERR_INVALID_VERSION;
    }
    uint32_t target =
        mci_chain_readable(change->master, change->shard, change->slot);
    uint64_t until_ns = row->is_spent ? 0 : mci_lease_spent_at(change->now_ns);
    bool fits = record->state == MCI_RECORD_OPEN && target != 0 &&
                mci_pool_at(pool, target)->number == record->at.target &&
                !(mci_pool_at(pool, target)->marks & MCI_MARK_CPU);
    if (record->state != MCI_RECORD_OPEN) {
        return MC_ERR_INVALID_VERSION; /* it waits for its proof */
    }
    if (!fits || mci_attempt_shed(change, index) == 0) {
        mci_attempt_discard(change, index, MCI_FATE_REFUSED, until_ns);
        return MC_ERR_INVALID_VERSION;
    }
    mci_attempt_promote(change, index, target, row->is_spent);
    return MC_OK;
}

static enum mc_err promote_row(struct mci_master *master,
                               const struct mci_call *call, uint16_t tenant,
                               struct mci_write_row *row)
{
    if (row->attempt.epoch != master->epoch ||
        mci_number_client(row->attempt.number) != call->client ||
        mci_key_check(row->key) != MC_OK) {
        return MC_ERR_INVALID_VERSION;
    }
    struct turn turn;
    enum mc_err err = turn_begin(&turn, master, call, tenant, row->key);
    if (err == MC_OK) {
        err = promote_turn(&turn, row);
        turn_end(&turn);
    }
    return err;
}

enum mc_err mci_master_promote_end(struct mci_master *master,
                                   const struct mci_call *call,
                                   struct mci_write_row *rows, size_t count)
{
    struct mci_tenant *tenant = NULL;
    enum mc_err err = count > MC_ROWS_MAX
                          ? MC_ERR_INVALID_PARAMS
                          : mci_call_begin(master, call, false, &tenant);
    if (err != MC_OK) {
        mci_rows_fill(rows, count, err);
        return err;
    }
    for (size_t i = 0; i < count; i++) {
        if (rows[i].attempt.number != 0) {
            rows[i].err =
                tenant ? promote_row(master, call, tenant->index, &rows[i])
                       : MC_ERR_INVALID_VERSION;
        }
    }
    return MC_OK;
}
