/* SPDX-License-Identifier: Apache-2.0 */
#include "lease.h"

#include "group.h"
#include "space.h"
#include "version.h"
#include "writer.h"

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Sums do not wrap: none is later than NEVER. */
static uint64_t after(uint64_t now_ns, uint64_t ttl_ns)
{
    return ttl_ns > MCI_NEVER - now_ns ? MCI_NEVER : now_ns + ttl_ns;
}

static uint64_t asked_until(const struct mci_master *master,
                            const struct mci_record *record)
{
    return record->marks & MCI_MARK_ASKED
               ? after(record->used_ns, master->exist_lease_ns)
               : 0;
}

uint64_t mci_lease_until_locked(const struct mci_lease_asking *asking,
                                const struct mci_record *record)
{
    uint64_t until = record->lease_ns;
    if (record->is_named) {
        until = later(until, mci_named_live(asking->shard->named, record,
                                            asking->now_ns));
    }
    if (!asking->firm) {
        until = later(until, asked_until(asking->master, record));
    }
    const struct mci_group *group = mci_group_of(record->label);
    if (group) {
        until = later(until, group->lease_ns);
        until = asking->firm ? until : later(until, group->asked_ns);
    }
    return until;
}

uint64_t mci_lease_until(const struct mci_lease_asking *asking,
                         const struct mci_record *record)
{
    struct mci_group *group = mci_group_of(record->label);
    if (!group) {
        return mci_lease_until_locked(asking, record);
    }
    mci_group_lock(group);
    uint64_t until = mci_lease_until_locked(asking, record);
    mci_group_unlock(group);
    return until;
}

uint64_t mci_lease_spent_at(uint64_t now_ns)
{
    return after(now_ns, MC_GRANT_TTL_MAX_MS * MCI_NS_PER_MS);
}

uint64_t mci_lease_unspent(const struct mci_record *record)
{
    return record->marks & MCI_MARK_UNSPENT
               ? mci_lease_spent_at(record->used_ns)
               : 0;
}

uint64_t mci_lease_stays(const struct mci_lease_asking *asking,
                         const struct mci_record *record)
{
    return later(mci_lease_until(asking, record), mci_lease_unspent(record));
}

uint64_t mci_lease_last(const struct mci_shard *shard,
                        const struct mci_record *record)
{
    return later(later(record->lease_ns, mci_lease_unspent(record)),
                 mci_named_latest(shard->named, record));
}

static void extend_group(struct mci_group *group, uint64_t *deadline,
                         uint64_t until)
{
    mci_group_lock(group);
    *deadline = later(*deadline, until);
    mci_group_unlock(group);
}

uint64_t mci_lease_read(struct mci_master *master, struct mci_shard *shard,
                        uint32_t index, uint64_t now_ns)
{
    struct mci_record *record = mci_pool_at(&shard->pool, index);
    uint64_t until = after(now_ns, master->read_lease_ns);
    /* An exist lease goes on only if it would outlast this one. */
    if (asked_until(master, record) <= until) {
        record->marks &= (uint8_t)~MCI_MARK_ASKED;
    }
    record->used_ns = later(record->used_ns, now_ns);
    record->lease_ns = later(record->lease_ns, until);
    struct mci_group *group = mci_group_of(record->label);
    if (group) {
        extend_group(group, &group->lease_ns, until);
    }
    mci_version_used(master, shard, index);
    return record->lease_ns;
}

void mci_lease_asked(struct mci_master *master, struct mci_shard *shard,
                     uint32_t index, uint64_t now_ns)
{
    if (master->exist_lease_ns == 0) {
        return;
    }
    struct mci_record *record = mci_pool_at(&shard->pool, index);
    record->marks |= MCI_MARK_ASKED;
    record->used_ns = later(record->used_ns, now_ns);
    struct mci_group *group = mci_group_of(record->label);
    if (group) {
        extend_group(group, &group->asked_ns,
                     after(now_ns, master->exist_lease_ns));
    }
    mci_version_used(master, shard, index);
}

/* ---- with a name ------------------------------------------------------- */

/* A use of a version that is readable. The anonymous deadline stays, so an exist
 * lease that still runs goes on, from this use; one that is over stays over. */
static void use_named(struct mci_master *master, struct mci_shard *shard,
                      uint32_t index, uint64_t now_ns, uint64_t until_ns)
{
    struct mci_record *record = mci_pool_at(&shard->pool, index);
    if (asked_until(master, record) <= now_ns) {
        record->marks &= (uint8_t)~MCI_MARK_ASKED;
    }
    record->used_ns = later(record->used_ns, now_ns);
    struct mci_group *group = mci_group_of(record->label);
    if (group) {
        extend_group(group, &group->lease_ns, until_ns);
    }
    mci_version_used(master, shard, index);
}

static void expect_end(struct mci_master *master, struct mci_shard *shard,
                       uint64_t until_ns)
{
    mci_hint_lower(&shard->named_ns, until_ns);
    mci_hint_lower(&master->due_ns, until_ns);
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

enum mc_err mci_lease_take(struct mci_master *master, struct mci_shard *shard,
                           uint32_t index, const struct mci_call *call,
                           struct mci_read_row *row)
{
    struct mci_writer *writer = mci_writer_of(master, call->client);
    if (!writer) {
        return MC_ERR_CLIENT_NOT_FOUND; /* expired meanwhile */
    }
    enum mc_err err = mci_named_reserve(&shard->named);
    if (err != MC_OK) {
        return err;
    }
    struct mci_named terms = {
        .limit_ns = after(call->now_ns, MC_LEASE_LONGEST_MS * MCI_NS_PER_MS)};
    terms.until_ns =
        sooner(after(call->now_ns, master->read_lease_ns), terms.limit_ns);
    err = mci_writer_lease(writer, &terms.number);
    if (err != MC_OK) {
        return err;
    }
    uint32_t lease = mci_named_add(shard->named, &shard->pool, index, &terms);
    expect_end(master, shard, terms.until_ns);
    use_named(master, shard, index, call->now_ns, terms.until_ns);
    row->lease = (struct mci_lease){.epoch = master->epoch,
                                    .number = terms.number,
                                    .ref = mci_ref_make(shard->index, lease)};
    row->lease_left_ns = terms.until_ns - call->now_ns;
    return MC_OK;
}

void mci_lease_extend(struct mci_master *master, struct mci_shard *shard,
                      uint32_t lease, uint64_t now_ns)
{
    const struct mci_named *named = &shard->named->all[lease];
    uint32_t index = named->record;
    uint64_t until_ns =
        sooner(after(now_ns, master->read_lease_ns), named->limit_ns);
    until_ns = later(until_ns, named->until_ns);
    mci_named_extend(shard->named, &shard->pool, lease, until_ns);
    if (mci_pool_at(&shard->pool, index)->state == MCI_RECORD_READABLE) {
        use_named(master, shard, index, now_ns, until_ns);
    }
}

/* Its lanes were told until when looking for something to evict is in vain. */
static void unblock_lanes(struct mci_master *master, struct mci_shard *shard,
                          uint32_t index)
{
    unsigned marks = mci_pool_at(&shard->pool, index)->marks;
    uint32_t copy = mci_copy_first(shard, index);
    for (; copy != 0; copy = mci_copy_next(shard, copy)) {
        mci_lane_unblock(master, shard, copy, marks);
    }
}

void mci_lease_drop(struct mci_master *master, struct mci_shard *shard,
                    uint32_t lease, struct mci_leavings *leavings)
{
    const struct mci_named *named = &shard->named->all[lease];
    uint32_t index = named->record;
    mci_writer_unlease(mci_writer_at(master, mci_number_client(named->number)));
    mci_named_remove(shard->named, &shard->pool, lease);
    const struct mci_record *record = mci_pool_at(&shard->pool, index);
    if (record->state == MCI_RECORD_READABLE) {
        unblock_lanes(master, shard, index);
    } else if (record->state == MCI_RECORD_HELD) {
        mci_version_let_go(shard, index, leavings);
    }
}
