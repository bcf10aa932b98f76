/* SPDX-License-Identifier: Apache-2.0 */
#include "lease.h"

#include "group.h"
#include "version.h"

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

uint64_t mci_lease_until_locked(const struct mci_master *master,
                                const struct mci_record *record, bool firm)
{
    uint64_t until = record->lease_ns;
    if (!firm) {
        until = later(until, asked_until(master, record));
    }
    const struct mci_group *group = mci_group_of(record->label);
    if (group) {
        until = later(until, group->lease_ns);
        until = firm ? until : later(until, group->asked_ns);
    }
    return until;
}

uint64_t mci_lease_until(const struct mci_master *master,
                         const struct mci_record *record, bool firm)
{
    struct mci_group *group = mci_group_of(record->label);
    if (!group) {
        return mci_lease_until_locked(master, record, firm);
    }
    mci_group_lock(group);
    uint64_t until = mci_lease_until_locked(master, record, firm);
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

uint64_t mci_lease_stays(const struct mci_master *master,
                         const struct mci_record *record, bool firm)
{
    return later(mci_lease_until(master, record, firm),
                 mci_lease_unspent(record));
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
