/* SPDX-License-Identifier: Apache-2.0 */
/* evict.h - what has to go when something new must find room.
 *
 * The least recently used copy of a space goes first, approximated by comparing
 * the heads of some shards' lanes. What is leased is passed over, what is pinned
 * stands in lanes apart. Levels say how far an evictor may go: soft pins after
 * all others, and leases of askers only where the allocation would else fail.
 * What is evicted for an allocation goes to its claim, so nobody else gets it;
 * where the least recently used ones leave no hole, a window is cleared.
 * Threads: any thread; no lock may be held.
 */
#ifndef EVICT_H
#define EVICT_H
#include "core.h"

enum mci_level {
    MCI_LEVEL_PLAIN = 0,
    MCI_LEVEL_SOFT = 1,       /* soft pins too, where they may */
    MCI_LEVEL_ASKED = 2,      /* what only exist leases protect */
    MCI_LEVEL_ASKED_SOFT = 3, /* the same of soft pins */
    MCI_LEVEL_BLOCKED = 4     /* must stay */
};

/* Takes what an eviction left, gives it back or on, and empties it. */
typedef void (*mci_evict_sink_fn)(void *ctx, struct mci_leavings *leavings);

/* Who evicts, where, and for whom. */
struct mci_eviction {
    struct mci_master *master;
    struct mci_space *space;
    uint64_t now_ns;
    uint64_t deadline_ns;
    uint64_t
        *waited_ns; /* for the event log, since now_ns; NULL: not counted */
    enum mci_log_class cls;
    const struct mci_spot *spared; /* a key that must not go, or NULL */
    mci_evict_sink_fn sink;
    void *sink_ctx;
};

/* What time it is by now: leases that ended while the log was full have ended. */
static inline uint64_t mci_eviction_now(const struct mci_eviction *eviction)
{
    return eviction->now_ns + (eviction->waited_ns ? *eviction->waited_ns : 0);
}

enum mci_evicted {
    MCI_EVICTED_ONE,
    MCI_EVICTED_NONE,    /* nothing may go at this level */
    MCI_EVICTED_SMALL,   /* the next one is shorter than asked; it stays */
    MCI_EVICTED_TIMEOUT, /* no room in the event log */
};

/* Evicts the oldest copy at this level, if it has at least min_bytes. Its range
 * and the like are in leavings, which the caller gives back. */
enum mci_evicted mci_evict_oldest(const struct mci_eviction *eviction,
                                  enum mci_level level, uint64_t min_bytes,
                                  struct mci_leavings *leavings);

/* Evicts the copy of one extent in the space, if it may go at this level: a
 * window's part. */
enum mci_evicted mci_evict_extent(const struct mci_eviction *eviction,
                                  enum mci_level level, uint64_t ref,
                                  uint32_t extent,
                                  struct mci_leavings *leavings);

/* Evicts what else may go of a group, some of it, into the sink; the rest comes
 * first later. Takes over the reference to the group. */
void mci_evict_group(const struct mci_eviction *eviction, enum mci_level level,
                     struct mci_group *group);

/* As mci_evict_oldest, for a member of a group that was left partial. */
enum mci_evicted mci_evict_partial(const struct mci_eviction *eviction,
                                   enum mci_level level, uint64_t min_bytes,
                                   struct mci_leavings *leavings);

/* The level at which the copy with this extent may go. */
enum mci_level mci_evict_level(const struct mci_eviction *eviction,
                               uint64_t ref, uint32_t extent);

/* Makes room of `bytes` in the space and takes it for an owner; brings its own
 * sink.
 * Errors: -200 (nothing was evicted that need not be), -901, -11. */
MC_CHECK_RESULT enum mc_err mci_evict_for(const struct mci_eviction *eviction,
                                          uint64_t bytes, uint64_t owner,
                                          struct mci_extent *extent_out);
#endif
