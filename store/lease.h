/* SPDX-License-Identifier: Apache-2.0 */
/* lease.h - until when a version must stay.
 *
 * A read gives a lease that nothing but force overcomes, and even then the bytes
 * stay. Asking whether a key exists gives one that yields to an allocation which
 * else would fail: nobody was told an address. These two are anonymous: deadlines
 * of the version that are only ever extended. A session takes a lease with a name,
 * which it renews for at most an hour and may give back before its end.
 *
 * A lease of a member is one of its whole group. Of a named one the group gets the
 * deadline it has when it is taken or renewed, and keeps it when the lease is
 * given back: a group's deadlines are only extended.
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

/* Puts a named lease of the call's client on a readable version, and tells it in
 * the row with the time it has left; the anonymous deadline stays. Errors: -200
 * (the client has too many), -103, -11; nothing has changed then. */
MC_CHECK_RESULT enum mc_err mci_lease_take(struct mci_master *master,
                                           struct mci_shard *shard,
                                           uint32_t index,
                                           const struct mci_call *call,
                                           struct mci_read_row *row);
/* Extends a lease that is not over, as far as it may be. */
void mci_lease_extend(struct mci_master *master, struct mci_shard *shard,
                      uint32_t lease, uint64_t now_ns);
/* A named lease is no more; what only it kept is freed. */
void mci_lease_drop(struct mci_master *master, struct mci_shard *shard,
                    uint32_t lease, struct mci_leavings *leavings);

/* What is asked of a lease: as of when, and of which shard its version is. firm:
 * without those that yield. */
struct mci_lease_asking {
    const struct mci_master *master;
    const struct mci_shard *shard;
    uint64_t now_ns;
    bool firm;
};

/* Until when a readable version is leased; with named leases, until one of those
 * that are not over ends. */
uint64_t mci_lease_until(const struct mci_lease_asking *asking,
                         const struct mci_record *record);

/* Until when its memory cannot be had by unlinking it: the lease, or a write
 * grant that may still be alive. */
uint64_t mci_lease_stays(const struct mci_lease_asking *asking,
                         const struct mci_record *record);

/* When the last of those is over that may touch a copy of a version now; what is
 * renewed later is told of it no more. */
uint64_t mci_lease_last(const struct mci_shard *shard,
                        const struct mci_record *record);

/* When the last write grant of what ended just now is over. */
uint64_t mci_lease_spent_at(uint64_t now_ns);

/* Until when a write grant of this version may be alive; 0: none is. */
uint64_t mci_lease_unspent(const struct mci_record *record);

/* As mci_lease_until for a caller that holds the lock of the version's group, if any. */
uint64_t mci_lease_until_locked(const struct mci_lease_asking *asking,
                                const struct mci_record *record);
#endif
