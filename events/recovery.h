/* SPDX-License-Identifier: Apache-2.0 */
/* recovery.h - who asks the recovery server for what, who waits, and what is to
 * be sent next.
 *
 * Hears requests as frames, gives out one message at a time, and is told how
 * sending it went. Four replays and two walks for snapshots go on at a time; who
 * asked before a walk began shares it. The others wait in line, up to 256, and 16
 * of one peer. A request ends by itself: at its end, when its reader is gone, or
 * when it has not taken anything for ten seconds (tried once more then); never for
 * another's sake. What it has not been sent yet stays in the history, not here: it
 * holds the next batch, counted.
 *
 * Answers to one peer come in the order of its requests and do not mix, also the
 * END of what is refused or no request; only the status comes in between.
 *
 * Threads: one thread at a time. Pure: takes the time as an argument.
 */
#ifndef RECOVERY_H
#define RECOVERY_H
#include "history.h"
#include "mci_snapshot.h"
#include "recovery_request.h"

#define MCI_RECOVERY_REPLAYS 4
#define MCI_RECOVERY_WALKS 2
#define MCI_RECOVERY_WAIT_MAX 256
#define MCI_RECOVERY_PEER_WAIT_MAX 16
/* Readers that share walks, and peers with answers that are short: no more at a
 * time. */
#define MCI_RECOVERY_SHARING_MAX 256
#define MCI_RECOVERY_ASIDE_MAX 256
#define MCI_RECOVERY_PATIENCE_NS UINT64_C(10000000000)
/* For a short answer, so also for the END of a request that was given up. */
#define MCI_RECOVERY_ASIDE_PATIENCE_NS UINT64_C(60000000000)
/* What is blocked is tried again after a quarter of the time for which nothing was
 * taken, within these. */
#define MCI_RECOVERY_RETRY_NS UINT64_C(2000000)
#define MCI_RECOVERY_RETRY_MAX_NS UINT64_C(64000000)
/* Who took something so lately is tried at once when there may be room. */
#define MCI_RECOVERY_BRISK_NS UINT64_C(20000000)
/* How long readers of a walk wait for one of them that is slow. */
#define MCI_RECOVERY_LAG_NS UINT64_C(1000000000)

struct mci_recovery;

struct mci_recovery_opts {
    struct mci_history *history;              /* borrowed, and so below */
    const struct mci_snapshot_source *source; /* with ctx: the store */
    void *ctx;
    struct mc_event_writer *writer; /* nobody else uses it */
    struct mc_view backend_id;
    struct mc_view topic;
    uint64_t epoch;
    uint32_t max_bytes; /* of a message of a snapshot */
    unsigned layout;    /* of a replay's answer: 4 with topic, 3 without */
    bool no_rows;       /* events with keys are suppressed */
};

/* Errors: MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err
mci_recovery_create(const struct mci_recovery_opts *opts,
                    struct mci_recovery **recovery_out);
void mci_recovery_destroy(struct mci_recovery *recovery); /* NULL is fine */

/* Takes in a message of a peer: all its frames, the empty delimiter first, each
 * as far as MCI_RECOVERY_FRAME_MAX + 1 bytes at least. A name of more than 255
 * bytes is nobody's. */
void mci_recovery_hear(struct mci_recovery *recovery, struct mc_view peer,
                       const struct mc_view *frames, size_t count,
                       uint64_t now_ns);

/* The first frame is the peer's name. Borrowed until mci_recovery_told. */
#define MCI_RECOVERY_ANSWER_MAX 6
struct mci_recovery_message {
    struct mc_view frames[MCI_RECOVERY_ANSWER_MAX];
    size_t count;
};

/* What is to be sent now; false: nothing. */
bool mci_recovery_next(struct mci_recovery *recovery, uint64_t now_ns,
                       uint64_t wall_ms,
                       struct mci_recovery_message *message_out);

enum mci_recovery_outcome {
    MCI_RECOVERY_SENT,
    MCI_RECOVERY_BLOCKED, /* there is no room for it; it comes again */
    MCI_RECOVERY_GONE     /* nobody is there */
};

/* What came of the message; must follow each. */
void mci_recovery_told(struct mci_recovery *recovery,
                       enum mci_recovery_outcome outcome, uint64_t now_ns);

/* Queues that were full may have room. */
void mci_recovery_room(struct mci_recovery *recovery, uint64_t now_ns);

/* When mci_recovery_next is to be asked again, if nothing is heard before;
 * UINT64_MAX: never. */
uint64_t mci_recovery_wake_at(const struct mci_recovery *recovery);

struct mci_recovery_stats {
    uint64_t replays; /* requests, and so below */
    uint64_t snapshots;
    uint64_t statuses;
    uint64_t malformed;
    uint64_t refused;    /* answered with END: the line was full, or the tenant
                          cannot be */
    uint64_t given_up;   /* took nothing for too long */
    uint64_t unanswered; /* not even END: too many wait to be told something, or
                            it was not taken within a minute */
    uint64_t vanished;   /* their reader was gone */
    uint64_t batches;    /* replayed */
    uint64_t parts;      /* messages of snapshots */
    uint64_t walks;      /* begun */
    uint64_t serving;    /* now */
    uint64_t waiting;    /* now, in line */
};
void mci_recovery_stats(const struct mci_recovery *recovery,
                        struct mci_recovery_stats *stats_out);
#endif
