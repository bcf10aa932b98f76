/* SPDX-License-Identifier: Apache-2.0 */
/* recovery_walk.h - one walk over the store, for all who asked for a snapshot
 * before it began.
 *
 * What the walk finds is written once, as a chain of messages. A reader stands
 * at the message that it was sent last, and holds what follows; what everybody
 * was sent is freed. The walk goes on when a reader wants more. Who falls too
 * far behind leaves with the cursor of its next message, and walks on from there
 * by itself, later.
 * Threads: one thread at a time. Pure.
 */
#ifndef RECOVERY_WALK_H
#define RECOVERY_WALK_H
#include "history.h"
#include "mc_limits.h"
#include "mci_buf.h"
#include "mci_snapshot.h"

/* What walks are made of; borrowed by each. */
struct mci_recovery_store {
    const struct mci_snapshot_source *source;
    void *ctx;
    struct mci_history *history;
    struct mc_event_writer *writer;
    struct mc_view backend_id;
    uint64_t epoch;
    uint32_t max_bytes; /* of a message, but for a single event */
    bool no_rows;       /* settings suppress events with keys */
    uint8_t *payload;   /* MC_BATCH_BYTES_MAX, to write in */
};

/* How much of a walk may wait for the slower ones of its readers. */
#define MCI_WALK_WINDOW_BYTES (UINT64_C(4) << 20)

enum mci_chunk_kind { MCI_CHUNK_BEGIN, MCI_CHUNK_ROWS, MCI_CHUNK_END };

/* A message. Counted by its walk, by the one before it, and by readers. */
struct mci_chunk {
    struct mci_chunk *next; /* NULL: not made yet */
    uint32_t refs;
    enum mci_chunk_kind kind;
    uint64_t number;                   /* in the walk */
    struct mci_snapshot_cursor cursor; /* of the slice it is from */
    size_t len;
    uint8_t payload[];
};

struct mci_walk_shared {
    const struct mci_recovery_store *store;
    uint8_t tenant_len; /* 0: all */
    char tenant[MC_TENANT_LEN_MAX];
    struct mci_snapshot_cursor cursor;
    struct mci_chunk *tail;  /* made last */
    struct mci_chunk *start; /* before the first, until the first slice: so long
                                readers may join; NULL afterwards */
    uint64_t bytes;          /* waiting for readers */
    uint64_t full_since_ns;  /* they are too many since then; 0: they are not */
    uint32_t readers;
};

/* A walk without readers. cursor NULL: from the beginning, with its first
 * message made. Errors: those of the source, MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err
mci_walk_open(const struct mci_recovery_store *store, struct mc_view tenant,
              const struct mci_snapshot_cursor *cursor,
              struct mci_walk_shared **walk_out);

/* All readers must have left. */
void mci_walk_close(struct mci_walk_shared *walk);

/* The place of a reader that joins, which has been sent nothing. */
struct mci_chunk *mci_walk_join(struct mci_walk_shared *walk);
void mci_walk_leave(struct mci_walk_shared *walk, struct mci_chunk *at);

/* A reader was sent the message after `at`: its new place. */
struct mci_chunk *mci_walk_advance(struct mci_walk_shared *walk,
                                   struct mci_chunk *at);

/* Makes more messages: a slice's, or the last one. After some slices without
 * rows it returns without. Errors: MC_ERR_NOMEM; try again. */
MC_CHECK_RESULT enum mc_err mci_walk_more(struct mci_walk_shared *walk,
                                          uint64_t wall_ms);
#endif
