/* SPDX-License-Identifier: Apache-2.0 */
/* master_end.c - put_end, put_revoke, and what is known of attempts.
 *
 * Room in the event log is reserved for some rows at a time, before any shard
 * lock; where it does not come in time, the rows one by one take what there is.
 */
#include "ahead.h"
#include "caller.h"
#include "group.h"
#include "lease.h"
#include "media.h"
#include "space.h"
#include "version.h"
#include "writer.h"

#define ROWS_PER_RESERVATION MCI_AHEAD_ROWS
#define EVENTS_PER_ROW (MC_MEDIUM_COUNT + 1) /* the old media, and memory */

struct ending {
    struct mci_master *master;
    const struct mci_call *call;
    uint16_t tenant;
    uint32_t reserved;
    struct mci_leavings leavings;
};

/* What was asked about an attempt that is not open any more. */
static enum mc_err answer_by_fate(const struct ending *ending,
                                  const struct mci_write_row *row,
                                  bool is_revoke)
{
    enum mci_fate fate = mci_master_attempt_fate(
        ending->master, ending->call->client, row->attempt);
    bool is_done = fate == MCI_FATE_DROPPED ||
                   fate == (is_revoke ? MCI_FATE_REFUSED : MCI_FATE_COMMITTED);
    return is_done ? MC_OK : MC_ERR_INVALID_VERSION;
}

/* A group is for life: what became readable under another one, or under none,
 * after this was started is not replaced. */
static bool breaks_group(const struct mci_change *change, uint32_t index,
                         uint32_t former)
{
    const struct mci_pool *pool = &change->shard->pool;
    const struct mci_group *group =
        mci_group_of(mci_pool_at(pool, index)->label);
    return former != 0 && group &&
           mci_group_of(mci_pool_at(pool, former)->label) != group;
}

/* An open attempt whose end has come. */
static enum mc_err end_open(struct mci_change *change, uint32_t index,
                            bool is_spent, uint64_t until_ns)
{
    uint32_t former =
        mci_chain_readable(change->master, change->shard, change->slot);
    const struct mci_record *record = mci_pool_at(&change->shard->pool, index);
    bool is_put = !(record->marks & MCI_MARK_UPSERT);
    if (is_put && former != 0) {
        mci_attempt_discard(change, index, MCI_FATE_DROPPED, until_ns);
        return MC_OK;
    }
    if (breaks_group(change, index, former)) {
        mci_attempt_discard(change, index, MCI_FATE_REFUSED, until_ns);
        return MC_ERR_INVALID_PARAMS;
    }
    if (mci_attempt_shed(change, index) == 0) {
        mci_attempt_discard(change, index, MCI_FATE_REFUSED, until_ns);
        return MC_ERR_INVALID_VERSION;
    }
    mci_version_oust(change); /* it is not inherited from */
    mci_version_publish(change, index, is_spent);
    return MC_OK;
}

enum ask { ASK_END, ASK_REVOKE };

static enum mc_err settle_attempt(struct ending *ending,
                                  struct mci_change *change,
                                  const struct mci_write_row *row, enum ask ask)
{
    uint32_t index =
        mci_chain_attempt(change->shard, change->slot, row->attempt.number);
    const struct mci_record *record =
        index ? mci_pool_at(&change->shard->pool, index) : NULL;
    if (!record || (ask == ASK_END && (record->marks & MCI_MARK_PROMOTE))) {
        return answer_by_fate(ending, row, ask == ASK_REVOKE);
    }
    bool is_doubtful = record->state == MCI_RECORD_DOUBTFUL;
    if (ask == ASK_REVOKE && row->in_doubt) {
        if (!is_doubtful) {
            mci_attempt_doubt(change, index);
        }
        return MC_OK;
    }
    if (is_doubtful) {
        if (row->is_spent) {
            mci_attempt_proven(change, index);
        }
        return ask == ASK_REVOKE ? MC_OK : MC_ERR_INVALID_VERSION;
    }
    uint64_t until_ns = row->is_spent ? 0 : mci_lease_spent_at(change->now_ns);
    if (ask == ASK_REVOKE) {
        mci_attempt_discard(change, index, MCI_FATE_REFUSED, until_ns);
        return MC_OK;
    }
    return end_open(change, index, row->is_spent, until_ns);
}

static enum mc_err settle_row(struct ending *ending,
                              const struct mci_write_row *row, enum ask ask)
{
    struct mci_master *master = ending->master;
    if (row->attempt.epoch != master->epoch ||
        mci_number_client(row->attempt.number) != ending->call->client ||
        mci_key_check(row->key) != MC_OK) {
        return MC_ERR_INVALID_VERSION;
    }
    struct mci_spot spot;
    mci_spot_make(master, ending->tenant, row->key, &spot);
    struct mci_shard *shard = &master->shards[spot.shard];
    mci_leavings_init(&ending->leavings);
    mci_shard_lock(shard);
    struct mci_change change = {
        .master = master,
        .shard = shard,
        .slot = mci_table_find(&shard->table, &shard->pool, &spot),
        .now_ns = ending->call->now_ns,
        .reserved = &ending->reserved,
        .leavings = &ending->leavings};
    enum mc_err err = settle_attempt(ending, &change, row, ask);
    mci_shard_unlock(shard);
    mci_leavings_clear(master, &ending->leavings);
    return err;
}

static enum mc_err begin(struct ending *ending, size_t count)
{
    struct mci_tenant *tenant = NULL;
    enum mc_err err =
        count > MC_ROWS_MAX
            ? MC_ERR_INVALID_PARAMS
            : mci_call_begin(ending->master, ending->call, false, &tenant);
    if (err == MC_OK && !tenant) {
        err = MC_ERR_INVALID_VERSION; /* it never started anything */
    }
    if (err == MC_OK) {
        ending->tenant = tenant->index;
    }
    return err;
}

/* ---- put_end ----------------------------------------------------------- */

static size_t count_attempts(const struct mci_write_row *rows, size_t count)
{
    size_t attempts = 0;
    for (size_t i = 0; i < count; i++) {
        attempts += rows[i].attempt.number != 0;
    }
    return attempts;
}

static enum mc_err reserve(struct ending *ending, size_t rows,
                           uint64_t deadline_ns)
{
    return mci_media_reserve(ending->master, (uint32_t)rows * EVENTS_PER_ROW,
                             MCI_LOG_FOREGROUND, deadline_ns,
                             &ending->reserved);
}

static void end_reserved(struct ending *ending, struct mci_write_row *rows,
                         size_t count)
{
    mci_look_ahead_at(ending->master, ending->tenant, rows, count);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].attempt.number != 0) {
            rows[i].err = settle_row(ending, &rows[i], ASK_END);
        }
    }
    mci_media_unreserve(ending->master, ending->reserved);
    ending->reserved = 0;
}

static void end_some(struct ending *ending, struct mci_write_row *rows,
                     size_t count)
{
    size_t attempts = count_attempts(rows, count);
    if (attempts == 0) {
        return;
    }
    if (reserve(ending, attempts, ending->call->deadline_ns) == MC_OK) {
        end_reserved(ending, rows, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (rows[i].attempt.number == 0) {
            continue;
        }
        if (reserve(ending, 1, 0) == MC_OK) {
            end_reserved(ending, &rows[i], 1);
        } else {
            rows[i].err = MC_ERR_RPC_TIMEOUT;
        }
    }
}

enum mc_err mci_master_put_end(struct mci_master *master,
                               const struct mci_call *call,
                               struct mci_write_row *rows, size_t count)
{
    struct ending ending = {.master = master, .call = call};
    enum mc_err err = begin(&ending, count);
    if (err != MC_OK) {
        mci_rows_fill(rows, count, err);
        return err;
    }
    for (size_t i = 0; i < count; i += ROWS_PER_RESERVATION) {
        size_t left = count - i;
        end_some(&ending, &rows[i],
                 left < ROWS_PER_RESERVATION ? left : ROWS_PER_RESERVATION);
    }
    return MC_OK;
}

/* ---- put_revoke -------------------------------------------------------- */

/* Makes no events, so nothing is reserved. */
enum mc_err mci_master_put_revoke(struct mci_master *master,
                                  const struct mci_call *call,
                                  struct mci_write_row *rows, size_t count)
{
    struct ending ending = {.master = master, .call = call};
    enum mc_err err = begin(&ending, count);
    if (err != MC_OK) {
        mci_rows_fill(rows, count, err);
        return err;
    }
    for (size_t i = 0; i < count; i++) {
        if (rows[i].attempt.number != 0) {
            rows[i].err = settle_row(&ending, &rows[i], ASK_REVOKE);
        }
    }
    return MC_OK;
}

/* ---- touch ------------------------------------------------------------- */

enum mc_err mci_master_attempt_touch(struct mci_master *master,
                                     const struct mci_call *call,
                                     struct mc_view key,
                                     struct mci_attempt attempt)
{
    struct ending ending = {.master = master, .call = call};
    enum mc_err err = begin(&ending, 1);
    if (err != MC_OK || attempt.epoch != master->epoch ||
        mci_number_client(attempt.number) != call->client ||
        mci_key_check(key) != MC_OK) {
        return err != MC_OK ? err : MC_ERR_INVALID_VERSION;
    }
    struct mci_spot spot;
    mci_spot_make(master, ending.tenant, key, &spot);
    struct mci_shard *shard = &master->shards[spot.shard];
    mci_shard_lock(shard);
    const struct mci_slot *slot =
        mci_table_find(&shard->table, &shard->pool, &spot);
    uint32_t index = mci_chain_attempt(shard, slot, attempt.number);
    err = MC_ERR_INVALID_VERSION;
    if (index != 0 &&
        mci_pool_at(&shard->pool, index)->state == MCI_RECORD_OPEN) {
        const struct mci_change change = {.shard = shard};
        mci_attempt_used(&change, index, call->now_ns);
        err = MC_OK;
    }
    mci_shard_unlock(shard);
    return err;
}
