/* SPDX-License-Identifier: Apache-2.0 */
/* mci_event_log.h - the order of all events, and the queue to the publisher.
 *
 * The store appends here, under the lock of the key's shard, at the moment in
 * which readers can get something else than before; so the order of appends is
 * the order of commits. An append gives ids, counts the tenant's commits, and
 * copies the event into a ring. One consumer (the publisher, or a test's tap)
 * takes records out on a thread of its own. Without a consumer an append only
 * advances ids and counts.
 *
 * The ring holds `capacity` events of any legal size: its address space is
 * reserved for the worst case, and pages are touched as needed, those used last
 * first. An append allocates nothing and cannot fail.
 *
 * Full: with drop_oldest the oldest whole groups go, counted, each leaving a
 * hole in the ids; with block an append needs a reservation, taken before the
 * shard lock, so that it never waits under one.
 *
 * Lock order: shard -> group -> event log. Nothing is called under the lock.
 * Threads: any number of appenders, one consumer.
 */
#ifndef MCI_EVENT_LOG_H
#define MCI_EVENT_LOG_H
#include <stdbool.h>
#include <stdint.h>

#include "mc_err.h"
#include "mc_event.h"
#include "mc_medium.h"
#include "mc_publisher.h"

#define MCI_EVENT_LOG_CAPACITY_DEFAULT 65536
#define MCI_EVENT_LOG_CAPACITY_MIN 1024
#define MCI_EVENT_LOG_RESERVE_MAX 1024 /* events of one reservation */
#define MCI_EVENT_LOG_GROUP_MAX (2 * MC_MEDIUM_COUNT)

struct mci_event_log;

/* A tenant as the log sees it; part of the store's tenant, outlives the log's
 * use of it. Both counts are guarded by the log's lock. */
struct mci_log_tenant {
    struct mc_view name; /* never empty */
    uint64_t commits;    /* stored events so far */
    uint64_t readable;   /* stored minus removed: (key, medium) pairs */
};

struct mci_log_opts {
    uint64_t epoch;    /* not 0 */
    uint32_t capacity; /* events; 0 = default */
    enum mc_publisher_overflow overflow;
};

/* Errors: MC_ERR_INVALID_PARAMS (capacity below the minimum), MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err
mci_event_log_create(const struct mci_log_opts *opts,
                     struct mci_event_log **log_out);
void mci_event_log_destroy(struct mci_event_log *log);

/* Says that a consumer is there (before the first append that it must see).
 * Errors: MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS if there is one already. */
MC_CHECK_RESULT enum mc_err mci_event_log_attach(struct mci_event_log *log);

/* The consumer is gone: what is queued is dropped uncounted, writers that wait
 * go on. */
void mci_event_log_detach(struct mci_event_log *log);

enum mci_log_class {
    MCI_LOG_FOREGROUND, /* a caller waits for this */
    MCI_LOG_BULK        /* expiry, remove_all and the like: stays under half of
                           the log, and after 100 ms of waiting goes first */
};

/* Reserves room for `count` events (1..MCI_EVENT_LOG_RESERVE_MAX), waiting until
 * deadline_ns, 0 = does not wait. With drop_oldest a foreground reservation
 * succeeds at once and reserves nothing; bulk producers wait for room under both
 * policies, and ask for at most mci_event_log_slice events. Without a consumer
 * always succeeds. *reserved_out is what must be given back or used up. No lock
 * of the store may be held, nor another reservation.
 * Errors: MC_ERR_RPC_TIMEOUT. */
MC_CHECK_RESULT enum mc_err mci_event_log_reserve(struct mci_event_log *log,
                                                  uint32_t count,
                                                  enum mci_log_class cls,
                                                  uint64_t deadline_ns,
                                                  uint32_t *reserved_out);
void mci_event_log_unreserve(struct mci_event_log *log, uint32_t count);

/* The most events that one bulk slice may make: 256, or a quarter of the log. */
uint32_t mci_event_log_slice(const struct mci_event_log *log);

/* One event to append; views are copied. */
struct mci_log_event {
    enum mc_event_type type; /* STORED or REMOVED */
    enum mc_medium medium;
    struct mc_view group_id;
    struct mc_view session_id;
};

/* Appends 1..MCI_EVENT_LOG_GROUP_MAX events of one key that belong together;
 * they get consecutive ids and never stand in two batches. Returns the id of
 * the first. *reserved (may be NULL) is counted down by what was used; events
 * beyond it drop the oldest. Called under the key's shard lock. */
uint64_t mci_event_log_append(struct mci_event_log *log,
                              struct mci_log_tenant *tenant,
                              struct mc_view object_key,
                              const struct mci_log_event *events, size_t count,
                              uint32_t *reserved);

/* Appends `cleared` for the tenant if its commit count still is
 * commits_at_start and nothing of it is readable; both judged under the log's
 * lock. With `always` it is appended in any case (the start of an epoch).
 * Returns its id, 0 if nothing was appended. */
uint64_t mci_event_log_append_cleared(struct mci_event_log *log,
                                      struct mci_log_tenant *tenant,
                                      uint64_t commits_at_start, bool always,
                                      uint32_t *reserved);

/* Reads a tenant's counts under the log's lock. */
void mci_event_log_tenant_counts(struct mci_event_log *log,
                                 const struct mci_log_tenant *tenant,
                                 uint64_t *commits_out, uint64_t *readable_out);

uint64_t mci_event_log_last_id(struct mci_event_log *log);
uint64_t mci_event_log_epoch(const struct mci_event_log *log);

struct mci_log_stats {
    uint64_t last_id;
    uint64_t depth; /* events queued */
    uint64_t capacity;
    uint64_t dropped; /* events lost to overflow */
    uint64_t reserved;
    uint64_t waits; /* reservations that had to wait */
};
void mci_event_log_stats(struct mci_event_log *log,
                         struct mci_log_stats *stats_out);

/* A record taken out; views point into the taker's buffer. */
struct mci_log_record {
    uint64_t id;
    uint64_t lost_before; /* events dropped between the record before and this;
                             only the first record of a take can have any */
    enum mc_event_type type;
    enum mc_medium medium; /* NONE on cleared */
    bool group_continues;  /* the next record belongs to the same group */
    struct mc_view tenant_id;
    struct mc_view object_key;
    struct mc_view group_id;
    struct mc_view session_id;
};

/* What one take may hold; made once by the consumer. */
struct mci_log_taken {
    struct mci_log_record *records; /* capacity MC_BATCH_EVENTS_MAX */
    uint32_t count;
    uint8_t *bytes;
    uint64_t depth_left; /* events that stayed in the log */
};
MC_CHECK_RESULT enum mc_err mci_log_taken_init(struct mci_log_taken *taken);
void mci_log_taken_fini(struct mci_log_taken *taken);

/* Takes up to MC_BATCH_EVENTS_MAX records in whole groups, without a hole
 * between them and at most MC_BATCH_BYTES_MAX bytes; waits for the first until
 * deadline_ns, 0 = does not wait. count 0 after the wait, or after
 * mci_event_log_wake. Blocking: deadlines are on mci_clock_ns, which is looked
 * at anew at least every 50 ms. */
void mci_event_log_take(struct mci_event_log *log, uint64_t deadline_ns,
                        struct mci_log_taken *taken);
void mci_event_log_wake(struct mci_event_log *log);

/* Lets events gather: returns when `count` are queued, after wait_ns (at most
 * 50 ms), or after mci_event_log_wake, which the next take sees too. For the
 * consumer's thread; on the real clock. */
void mci_event_log_gather(struct mci_event_log *log, uint32_t count,
                          uint64_t wait_ns);
#endif
