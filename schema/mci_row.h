/* SPDX-License-Identifier: Apache-2.0 */
/* mci_row.h - what a client and its master say of one object: the rows of
 * writing and reading.
 *
 * The same row goes through the core, over a direct call or the control
 * connection, and through the transfer. A grant is what lets a client touch the
 * range of a segment; the core knows nothing of grants, they are made and checked
 * at the edges.
 * Threads: plain values.
 */
#ifndef MCI_ROW_H
#define MCI_ROW_H
#include <stdbool.h>
#include <stdint.h>

#include "mc_err.h"
#include "mc_grant.h"
#include "mc_object.h"
#include "mci_sums.h"

#define MCI_REPLICAS_MAX 4 /* memory copies made of one object */

/* Never used again. The number is its client's id above a serial. */
struct mci_attempt {
    uint64_t epoch;
    uint64_t number; /* 0: none */
};

enum mci_fate {
    MCI_FATE_UNKNOWN = 0, /* not this client's, never started or long ago */
    MCI_FATE_OPEN = 1,
    MCI_FATE_COMMITTED = 2,
    MCI_FATE_REFUSED = 3, /* revoked, expired, or without space at its end */
    MCI_FATE_DROPPED = 4  /* its end found the key readable, and answered 0 */
};

/* A range of a segment; its length is mci_placed_bytes of the object. */
struct mci_place {
    uint64_t offset;
    uint32_t segment;
};

/* One object to be written; the same row goes through start and end. */
struct mci_write_row {
    struct mc_view key;
    struct mc_view session_id;  /* start: none or empty = untagged */
    struct mc_view group_id;    /* start: none or empty = ungrouped */
    uint64_t size;              /* start */
    struct mci_attempt attempt; /* start: out; end, revoke: in */
    uint64_t ref; /* start: out, where the core keeps the attempt */
    struct mci_place places[MCI_REPLICAS_MAX]; /* start: out */
    struct mc_grant grants[MCI_REPLICAS_MAX];  /* start: out, by the link */
    uint64_t receipts[MCI_REPLICAS_MAX];       /* end, revoke: in; 0: none */
    uint32_t place_count;                      /* start: out */
    bool has_sums; /* start: out, by the config; their room is in the places */
    bool in_doubt; /* revoke: bytes may still land, so quarantine */
    bool
        is_spent; /* end, revoke: every owner has a receipt out that the attempt
                      can write no more, so its range may be reused at once. Set
                      by whoever checks receipts; a direct link sets it */
    enum mc_err err;
};

/* What a copy of it takes, once it was started. */
static inline uint64_t mci_row_bytes(const struct mci_write_row *row)
{
    return mci_placed_bytes(row->size, row->has_sums);
}

/* A version that is held cannot be reused, whatever leases say. */
struct mci_hold {
    uint32_t shard;
    uint32_t index; /* 0: none */
};

/* A lease with a name: a session's, of the version that it reads. The number is
 * its client's id above a serial, never used again within the epoch; ref is where
 * the core keeps it. The epoch is told of every version that is read. */
struct mci_lease {
    uint64_t epoch;
    uint64_t number; /* 0: none */
    uint64_t ref;
};

/* One object to be read; the same row goes through get and, while the lease that
 * it brought goes on, renew, hold and release, which look at lease and version. */
struct mci_read_row {
    struct mc_view key;
    bool want_hold;  /* by a reader inside the master's process */
    bool want_lease; /* get: one with a name, in place of the version's own */
    struct mci_lease lease; /* get: out */
    /* out */
    enum mc_err err;
    uint32_t place_count; /* copies in memory; 0: on disk only */
    struct mci_place places[MCI_REPLICAS_MAX];
    struct mc_grant grants[MCI_REPLICAS_MAX]; /* by the link */
    struct mci_hold hold;
    unsigned media;
    bool has_sums;
    uint64_t size;
    uint64_t version;       /* get: out */
    uint64_t lease_left_ns; /* from now_ns on, true also for groups */
};
#endif
