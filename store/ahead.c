/* SPDX-License-Identifier: Apache-2.0 */
#include "ahead.h"

#include "space.h"
#include "version.h"

#define LINE 64

static void fetch(const void *at)
{
    __builtin_prefetch(at);
}

/* To be written: else the line would be asked for twice. */
static void fetch_own(const void *at)
{
    __builtin_prefetch(at, 1);
}

/* Records cross a line more often than not. */
static void fetch_record(const struct mci_pool *pool, uint32_t index)
{
    const struct mci_record *record = mci_pool_at(pool, index);
    fetch_own(record);
    fetch_own(&record->marks);
}

/* Its lock, table and pool. */
static void fetch_shards(struct mci_master *master,
                         const struct mci_spot *spots, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct mci_shard *shard = &master->shards[spots[i].shard];
        fetch_own(shard);
        fetch((const uint8_t *)shard + LINE);
        fetch_own(&shard->counts);
    }
}

static void fetch_slots(struct mci_master *master, const struct mci_spot *spots,
                        size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (spots[i].key.data) {
            struct mci_shard *shard = &master->shards[spots[i].shard];
            mci_shard_lock(shard);
            fetch(mci_table_home(&shard->table, &spots[i]));
            mci_shard_unlock(shard);
        }
    }
}

static void fetch_records(struct mci_master *master,
                          const struct mci_spot *spots, size_t count,
                          uint32_t *indexes_out)
{
    for (size_t i = 0; i < count; i++) {
        indexes_out[i] = 0;
        if (spots[i].key.data) {
            struct mci_shard *shard = &master->shards[spots[i].shard];
            mci_shard_lock(shard);
            indexes_out[i] = mci_table_guess(&shard->table, &spots[i]);
            if (indexes_out[i] != 0) {
                fetch_record(&shard->pool, indexes_out[i]);
            }
            mci_shard_unlock(shard);
        }
    }
}

/* What a record points to; it may be another one's by now, which is no harm. */
static void fetch_labels(struct mci_master *master,
                         const struct mci_spot *spots, size_t count,
                         const uint32_t *indexes,
                         const struct mci_lane **lanes_out)
{
    for (size_t i = 0; i < count; i++) {
        lanes_out[i] = NULL;
        if (indexes[i] != 0) {
            struct mci_shard *shard = &master->shards[spots[i].shard];
            mci_shard_lock(shard);
            const struct mci_record *record =
                mci_pool_at(&shard->pool, indexes[i]);
            if (record->label) {
                fetch(record->label);
                fetch((const uint8_t *)record->label + LINE);
            }
            fetch_record(&shard->pool, record->prev);
            fetch_record(&shard->pool, record->next);
            if (record->state == MCI_RECORD_READABLE && record->extent != 0) {
                lanes_out[i] = mci_lane_of(master, shard, record->segment,
                                           mci_lane_kind(record->marks));
                fetch_own(lanes_out[i]);
            }
            mci_shard_unlock(shard);
        }
    }
}

/* What is used goes behind the last one of its lane. */
static void fetch_tails(struct mci_master *master, const struct mci_spot *spots,
                        size_t count, const struct mci_lane **lanes)
{
    for (size_t i = 0; i < count; i++) {
        if (lanes[i]) {
            struct mci_shard *shard = &master->shards[spots[i].shard];
            mci_shard_lock(shard);
            fetch_record(&shard->pool, lanes[i]->queue.tail);
            mci_shard_unlock(shard);
        }
    }
}

void mci_look_ahead(struct mci_master *master, const struct mci_spot *spots,
                    size_t count)
{
    uint32_t indexes[MCI_AHEAD_ROWS];
    const struct mci_lane *lanes[MCI_AHEAD_ROWS];
    if (count < 2) {
        return;
    }
    fetch_shards(master, spots, count);
    fetch_slots(master, spots, count);
    fetch_records(master, spots, count, indexes);
    fetch_labels(master, spots, count, indexes, lanes);
    fetch_tails(master, spots, count, lanes);
}

void mci_look_ahead_at(struct mci_master *master, uint16_t tenant,
                       const struct mci_write_row *rows, size_t count)
{
    struct mci_spot spots[MCI_AHEAD_ROWS];
    count = count < MCI_AHEAD_ROWS ? count : MCI_AHEAD_ROWS;
    for (size_t i = 0; i < count; i++) {
        spots[i] = (struct mci_spot){.shard = 0};
        if (rows[i].key.data && rows[i].key.len > 0 &&
            rows[i].key.len <= MC_KEY_LEN_MAX) {
            mci_spot_make(master, tenant, rows[i].key, &spots[i]);
        }
    }
    mci_look_ahead(master, spots, count);
}
