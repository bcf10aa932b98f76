/* SPDX-License-Identifier: Apache-2.0 */
/* batcher.h - from records of the event log to batches with sequence numbers.
 *
 * A batch holds at most MC_BATCH_EVENTS_MAX events and max_bytes of payload,
 * whole groups, and ids without a hole. Each event that was lost
 * burns one sequence number before the next batch, so a subscriber sees that
 * something is missing and how much. An event that settings suppress counts as
 * lost: a subscriber does not get it, and is not told otherwise. Pure: takes
 * the time as an argument.
 * Threads: one thread at a time.
 */
#ifndef BATCHER_H
#define BATCHER_H
#include "mc_event_writer.h"
#include "mci_event_log.h"

struct mci_batcher_opts {
    const struct mc_event_writer *writer; /* borrowed: sizes the events */
    struct mc_view backend_id;            /* borrowed */
    uint64_t base_seq;     /* sequence numbers start one above it */
    uint32_t max_bytes;    /* of payload; only a group of its own may have more.
                              0 = MC_BATCH_BYTES_MAX, which none may pass */
    uint64_t heartbeat_ns; /* of silence; 0 = no heartbeats */
    bool skips_keyed;      /* stored and removed are suppressed */
};

#define MCI_BATCHER_MEDIA (1u << MC_MEDIUM_COUNT)

struct mci_batcher {
    struct mci_batcher_opts opts;
    uint64_t last_seq;
    uint64_t burnt;   /* numbers to be skipped before the next batch */
    uint64_t skipped; /* events suppressed so far */
    uint64_t silent_since_ns;
    const struct mci_log_taken *taken;
    uint32_t next;                           /* of taken->records */
    struct mc_view media[MCI_BATCHER_MEDIA]; /* names by mask; NONE has none */
    struct mc_event_record records[MC_BATCH_EVENTS_MAX];
};

/* One message. records are borrowed until the batcher is called again; count 0
 * is a heartbeat. */
struct mci_batch {
    uint64_t seq;
    uint64_t timestamp_ms;
    const struct mc_event_record *records;
    uint32_t count;
};

void mci_batcher_init(struct mci_batcher *batcher,
                      const struct mci_batcher_opts *opts, uint64_t now_ns);

/* The base that makes sequence numbers of a later start greater than those of
 * an earlier one: (seconds since 2025) << 32; 0 before 2025. */
uint64_t mci_batcher_epoch_base(uint64_t wall_ms);

/* Gives it what was taken; borrowed until mci_batcher_next answers false, and
 * only then may more be given. */
void mci_batcher_load(struct mci_batcher *batcher,
                      const struct mci_log_taken *taken);

/* The next batch of what was loaded; false at its end. */
bool mci_batcher_next(struct mci_batcher *batcher, uint64_t timestamp_ms,
                      struct mci_batch *batch_out);

/* When a heartbeat is due; UINT64_MAX if never. */
uint64_t mci_batcher_heartbeat_at(const struct mci_batcher *batcher);

/* An empty batch; nothing may be loaded. */
void mci_batcher_heartbeat(struct mci_batcher *batcher, uint64_t timestamp_ms,
                           struct mci_batch *batch_out);

/* Something is being sent: silence starts anew. */
void mci_batcher_sent(struct mci_batcher *batcher, uint64_t now_ns);
#endif
