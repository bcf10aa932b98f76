/* SPDX-License-Identifier: Apache-2.0 */
/* lease.h - until when a version must stay.
 *
 * A read gives a lease that nothing but force overcomes, and even then the bytes
 * stay. Asking whether a key exists gives one that yields to an allocation which
 * else would fail: nobody was told an address. A lease of a member is one of its
 * whole group. Deadlines are only ever extended.
 * Threads: under the lock of the version's shard; takes the group's.
 */
#ifndef LEASE_H
#define LEASE_H
#include "core.h"

/* A use by a read, which answers the deadline that is true now, or by an exist;
 * both make the version the last one to be evicted. */
uint64_t mci_lease_read(struct mci_master *master, struct mci_shard *shard,
                        uint32_t index, uint64_t now_ns);
void mci_lease_asked(struct mci_master *master, struct mci_shard *shard,
                     uint32_t index, uint64_t now_ns);

/* When the last lease of a readable version ends; firm: without those that
 * yield. */
uint64_t mci_lease_until(const struct mci_master *master,
                         const struct mci_record *record, bool firm);

/* Until when its memory cannot be had by unlinking it: the lease, or a write
 * grant that may still be alive. */
uint64_t mci_lease_stays(const struct mci_master *master,
                         const struct mci_record *record, bool firm);

/* When the last write grant of what ended just now is over. */
uint64_t mci_lease_spent_at(uint64_t now_ns);

/* Until when a write grant of this version may be alive; 0: none is. */
uint64_t mci_lease_unspent(const struct mci_record *record);

/* As mci_lease_until for a caller that holds the lock of the version's group, if any. */
uint64_t mci_lease_until_locked(const struct mci_master *master,
                                const struct mci_record *record, bool firm);
#endif
