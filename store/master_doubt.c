/* SPDX-License-Identifier: Apache-2.0 */
/* master_doubt.c - attempts that somebody else than their writer ends, and the
 * quarantine as others see it.
 *
 * They are named by number and by where their record is. A record never moves
 * while it is open or in doubt, and a number is never used again, so a name that
 * has become void is seen to be so.
 */
#include <string.h>

#include "space.h"
#include "version.h"
#include "writer.h"

/* One attempt whose shard is locked. */
struct grip {
    struct mci_change change;
    struct mci_spot spot;
    struct mci_leavings leavings;
    uint32_t index;
};

static struct mci_shard *shard_of(struct mci_master *master, uint64_t ref)
{
    uint64_t shard = ref >> 32;
    return shard < master->shard_count ? &master->shards[shard] : NULL;
}

/* The lock of the shard is held. */
static struct mci_record *find(const struct mci_shard *shard, uint64_t ref,
                               uint64_t number, enum mci_record_state state)
{
    uint32_t index = (uint32_t)ref;
    if (index == 0 || index >= shard->pool.touched) {
        return NULL;
    }
    struct mci_record *record = mci_pool_at(&shard->pool, index);
    return record->state == state && record->number == number ? record : NULL;
}

static enum mc_err grip_begin(struct grip *grip, struct mci_master *master,
                              uint64_t ref, uint64_t number)
{
    struct mci_shard *shard = shard_of(master, ref);
    if (!shard) {
        return MC_ERR_INVALID_VERSION;
    }
    mci_leavings_init(&grip->leavings);
    mci_shard_lock(shard);
    const struct mci_record *record = find(shard, ref, number, MCI_RECORD_OPEN);
    if (!record) {
        mci_shard_unlock(shard);
        return MC_ERR_INVALID_VERSION;
    }
    mci_spot_of(master, record, &grip->spot);
    grip->index = (uint32_t)ref;
    grip->change = (struct mci_change){
        .master = master,
        .shard = shard,
        .slot = mci_table_find(&shard->table, &shard->pool, &grip->spot),
        .leavings = &grip->leavings};
    return MC_OK;
}

static void grip_end(struct grip *grip)
{
    mci_shard_unlock(grip->change.shard);
    mci_leavings_clear(grip->change.master, &grip->leavings);
}

bool mci_master_attempt_is_open(struct mci_master *master, uint64_t ref,
                                uint64_t number)
{
    struct mci_shard *shard = shard_of(master, ref);
    if (!shard) {
        return false;
    }
    mci_shard_lock(shard);
    bool is_open = find(shard, ref, number, MCI_RECORD_OPEN) != NULL;
    mci_shard_unlock(shard);
    return is_open;
}

enum mc_err mci_master_attempt_alive(struct mci_master *master, uint64_t ref,
                                     uint64_t number, uint64_t now_ns)
{
    struct grip grip;
    enum mc_err err = grip_begin(&grip, master, ref, number);
    if (err == MC_OK) {
        mci_attempt_used(&grip.change, grip.index, now_ns);
        grip_end(&grip);
    }
    return err;
}

enum mc_err mci_master_attempt_abandon(struct mci_master *master, uint64_t ref,
                                       uint64_t number, uint64_t until_ns,
                                       uint64_t now_ns)
{
    struct grip grip;
    enum mc_err err = grip_begin(&grip, master, ref, number);
    if (err == MC_OK) {
        grip.change.now_ns = now_ns;
        mci_attempt_discard(&grip.change, grip.index, MCI_FATE_REFUSED,
                            until_ns);
        grip_end(&grip);
    }
    return err;
}

enum mc_err mci_master_attempt_doubt(struct mci_master *master, uint64_t ref,
                                     uint64_t number, uint64_t now_ns)
{
    struct grip grip;
    enum mc_err err = grip_begin(&grip, master, ref, number);
    if (err == MC_OK) {
        grip.change.now_ns = now_ns;
        mci_attempt_doubt(&grip.change, grip.index);
        grip_end(&grip);
    }
    return err;
}

/* ---- quarantine -------------------------------------------------------- */

static void tell_places(struct mci_master *master,
                        const struct mci_shard *shard, uint32_t index,
                        struct mci_doubt *doubt)
{
    doubt->place_count = 0;
    uint32_t copy = mci_copy_first(shard, index);
    for (; copy != 0; copy = mci_copy_next(shard, copy)) {
        struct mci_space *space =
            mci_space_at(master, mci_pool_at(&shard->pool, copy)->segment);
        if (!atomic_load(&space->is_gone)) {
            doubt->segments[doubt->place_count++] = atomic_load(&space->id);
        }
    }
}

static size_t take_in_shard(struct mci_master *master, struct mci_shard *shard,
                            struct mci_doubt *doubts_out, size_t max)
{
    size_t count = 0;
    mci_shard_lock(shard);
    while (shard->untold != 0 && count < max) {
        uint32_t index = mci_doubt_told(master, shard);
        const struct mci_record *record = mci_pool_at(&shard->pool, index);
        struct mci_doubt *doubt = &doubts_out[count++];
        memset(doubt, 0, sizeof *doubt);
        doubt->ref = mci_ref_make(shard->index, index);
        doubt->number = record->number;
        doubt->since_ns = record->used_ns;
        doubt->bytes = record->bytes;
        doubt->client = mci_number_client(record->number);
        tell_places(master, shard, index, doubt);
    }
    mci_shard_unlock(shard);
    return count;
}

size_t mci_master_doubts_take(struct mci_master *master,
                              struct mci_doubt *doubts_out, size_t max)
{
    size_t count = 0;
    for (uint32_t i = 0; i < master->shard_count && count < max &&
                         atomic_load(&master->untold) > 0;
         i++) {
        count += take_in_shard(master, &master->shards[i], &doubts_out[count],
                               max - count);
    }
    return count;
}

void mci_master_doubts_free(struct mci_master *master,
                            const struct mci_doubt *doubts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct mci_shard *shard = shard_of(master, doubts[i].ref);
        if (!shard) {
            continue;
        }
        struct mci_leavings leavings;
        mci_leavings_init(&leavings);
        mci_shard_lock(shard);
        const struct mci_record *record =
            find(shard, doubts[i].ref, doubts[i].number, MCI_RECORD_DOUBTFUL);
        if (record) {
            struct mci_spot spot;
            mci_spot_of(master, record, &spot);
            struct mci_change change = {
                .master = master,
                .shard = shard,
                .slot = mci_table_find(&shard->table, &shard->pool, &spot),
                .leavings = &leavings};
            mci_attempt_proven(&change, (uint32_t)doubts[i].ref);
        }
        mci_shard_unlock(shard);
        mci_leavings_clear(master, &leavings);
    }
}

uint64_t mci_master_release_ns(const struct mci_master *master)
{
    return master->idle_ns;
}
