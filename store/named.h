/* SPDX-License-Identifier: Apache-2.0 */
/* named.h - leases with a name: one holder's, of one version, until then.
 *
 * One table per shard, made with its first lease. A lease stands in the list of
 * its version, the one touched last first, and in a heap by its deadline, which
 * lies in the same array: whatever deadlines are, taking, extending and dropping
 * one costs the logarithm of how many there are. A version that has any is marked
 * in its record, whose count of holds gives its place to the first lease, so that
 * a version without any pays nothing.
 *
 * Leases are named by their index, from 1 on, which is used again; their numbers
 * are not. Knows neither holders nor what the end of a lease brings about.
 * Threads: guarded by the lock of the shard.
 */
#ifndef NAMED_H
#define NAMED_H
#include "object.h"

struct mci_named {
    uint64_t number;   /* 0: not in use */
    uint64_t until_ns; /* its end, unless it is extended */
    uint64_t limit_ns; /* no extension goes beyond */
    uint32_t record;   /* the version */
    uint32_t prev;     /* of the same version */
    uint32_t next;     /* likewise; not in use: the next one that is not */
    uint32_t holds;    /* of the version; the first one's counts */
    uint32_t rank;     /* its place in the heap */
    uint32_t ranked;   /* of the heap: which one has this one's index as rank */
};
_Static_assert(sizeof(struct mci_named) == 48, "a lease is 48 bytes");

/* Grows by doubling and keeps what it has: its bound is the most leases that
 * there ever were at a time. */
struct mci_named_table {
    uint32_t capacity; /* leases, and one that is none */
    uint32_t count;
    uint32_t touched; /* indexes ever used */
    uint32_t unused;  /* list by `next` */
    struct mci_named all[];
};

/* Room for one lease more, which cannot fail then. *table may move.
 * Errors: MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mci_named_reserve(struct mci_named_table **table);
void mci_named_fini(struct mci_named_table *table); /* NULL is fine */

/* Adds number, until_ns and limit_ns of terms to a version, in room reserved. */
uint32_t mci_named_add(struct mci_named_table *table,
                       const struct mci_pool *pool, uint32_t record,
                       const struct mci_named *terms);
void mci_named_remove(struct mci_named_table *table,
                      const struct mci_pool *pool, uint32_t lease);
/* Touches a lease and sets its deadline. */
void mci_named_extend(struct mci_named_table *table,
                      const struct mci_pool *pool, uint32_t lease,
                      uint64_t until_ns);
/* The version of one record stands in another from now on, holds and all; the
 * former is left without either. */
void mci_named_move(struct mci_named_table *table, const struct mci_pool *pool,
                    uint32_t from, uint32_t to);

/* Tables may be NULL below. */

/* The lease at an index if it has this number, else NULL. */
struct mci_named *mci_named_find(struct mci_named_table *table, uint32_t lease,
                                 uint64_t number);
/* The one that ends first; 0: there is none. */
uint32_t mci_named_first(const struct mci_named_table *table);

/* The deadline of a lease of the version that is not over, of the one touched
 * last; 0: none is left. And the latest of all. */
uint64_t mci_named_live(const struct mci_named_table *table,
                        const struct mci_record *record, uint64_t now_ns);
uint64_t mci_named_latest(const struct mci_named_table *table,
                          const struct mci_record *record);

/* Readers inside this process that hold the version. */
uint32_t mci_holds(const struct mci_named_table *table,
                   const struct mci_record *record);
void mci_hold_add(struct mci_named_table *table, struct mci_record *record);
void mci_hold_drop(struct mci_named_table *table, struct mci_record *record);

/* Whether lists, heap and records agree. For tests. */
bool mci_named_check(const struct mci_named_table *table,
                     const struct mci_pool *pool);
#endif
