/* SPDX-License-Identifier: Apache-2.0 */
/* source_recovery.h - what one source does about what it has missed: what to ask its
 * recovery server, when to ask again, and when all is made good.
 *
 * It hears of losses, answers, connections and time, and gives out orders (ask,
 * grant credit, drop) for whoever has the sockets. One request is open at a
 * time. What was missed is asked for once, by a replay; what the replay did not
 * have, or what nobody knows the number of, makes a snapshot due. A snapshot is
 * done with when the stream has reached the id at its end and nothing above its
 * beginning is missing. Requests that fail are made again, after a time that
 * doubles from RECOVERY_BACKOFF_NS to RECOVERY_BACKOFF_MAX_NS.
 *
 * What the ids of a source are, applied, or missing stands in its cursor; events
 * and rows do not come here, only what they mean.
 * Threads: one thread at a time. Pure: takes the time as an argument, allocates
 * nothing.
 */
#ifndef SOURCE_RECOVERY_H
#define SOURCE_RECOVERY_H
#include "cursor_fetch.h"
#include "holes.h"
#include "mc_subscriber.h"
#include "recovery_answer.h"

#define RECOVERY_NS_PER_S UINT64_C(1000000000)
#define RECOVERY_PATIENCE_NS (10 * RECOVERY_NS_PER_S)
#define RECOVERY_BACKOFF_NS (RECOVERY_NS_PER_S / 4)
#define RECOVERY_BACKOFF_MAX_NS (30 * RECOVERY_NS_PER_S)
#define RECOVERY_TARGET_NS RECOVERY_NS_PER_S
#define RECOVERY_STATUS_NS (10 * RECOVERY_NS_PER_S)
#define RECOVERY_CREDIT 64
#define RECOVERY_SNAPSHOTS_MAX 3 /* begun anew in one recovery, then backoff */
/* A snapshot tells the tail a moment after its first id. */
#define RECOVERY_TAIL_SLACK 16

struct recovery_counters {
    uint64_t recoveries;
    uint64_t by_replay;
    uint64_t by_snapshot;
    uint64_t requests;
    uint64_t replays;
    uint64_t snapshots;
    uint64_t statuses;
    uint64_t refetched; /* ids delivered by a replay */
    uint64_t covered;   /* by a snapshot */
    uint64_t rows;
    uint64_t failures; /* requests that were not answered as they should be */
};

enum recovery_order_kind { RECOVERY_ASK = 1, RECOVERY_GRANT, RECOVERY_DROP };

struct recovery_order {
    enum recovery_order_kind kind;
    uint64_t number; /* of the request */
    enum asker_kind ask;
    uint64_t from_seq;
    uint32_t credit; /* with RECOVERY_ASK too; 0: none */
};
#define RECOVERY_ORDERS_MAX 8

/* What is open; number 0: nothing. */
struct recovery_request {
    uint64_t number;
    enum asker_kind kind;
    uint64_t from_seq;
    uint64_t next_seq; /* replay: the number that comes next */
    uint64_t deadline_ns;
    uint32_t credit;   /* replay: messages that may still come; 0: all */
    bool has_break;    /* replay: a number is missing, or could not be read */
    bool is_fresh;     /* status: asked for because of a new connection */
    uint64_t doubt_id; /* status: ids up to it came again; 0: none did */
};

enum recovery_stage {
    RECOVERY_NO_SNAPSHOT = 0,
    RECOVERY_WALKING, /* from its first message to its last */
    RECOVERY_WALKED   /* and the stream has to reach its last id */
};

struct recovery_snapshot {
    enum recovery_stage stage;
    bool is_flawed; /* a row could not be read */
    uint32_t round; /* which one, counted from 1 */
    uint64_t epoch;
    uint64_t first_id;
    uint64_t last_id;
    uint64_t next_index;
};

struct recovery {
    uint64_t patience_ns;
    uint64_t seed;
    bool is_by_number; /* a source without ids that count: replays alone */
    bool is_unpaced;   /* the server takes no credit, as those of engines */
    struct holes holes;
    bool is_active; /* something is to be made good */
    bool is_told;   /* and that was said, so `recovered` is due */
    bool has_used_snapshot;
    bool wants_snapshot;
    bool wants_status;
    uint64_t wants_seq;  /* replay from here; UINT64_MAX: none */
    uint64_t slack_seq;  /* replay from here rather; UINT64_MAX: no */
    uint64_t target_seq; /* a tail that was told of; 0: none */
    uint64_t target_ns;
    bool is_target_asked;
    bool is_fresh; /* connected anew since the last status */
    uint64_t doubt_id;
    uint64_t covered_id;     /* a snapshot had everything up to it */
    uint64_t believed_epoch; /* the publisher's own word on a new connection */
    uint64_t status_ns;      /* the next one that nothing calls for */
    struct recovery_request request;
    struct recovery_snapshot snapshot;
    uint64_t last_number;
    uint32_t attempts; /* that failed in a row */
    uint32_t restarts; /* of snapshots */
    uint64_t backoff_ns;
    bool is_degraded;                /* told already */
    enum mc_degraded_cause degraded; /* to be told; 0: nothing is */
    bool has_lost_tail;              /* to be told: a gap without ids */
    uint64_t lost_from_seq;
    uint64_t lost_to_seq;
    bool forgets; /* what the mirror keeps of the past is of no use */
    struct recovery_order orders[RECOVERY_ORDERS_MAX];
    uint32_t order_count;
    struct recovery_counters counters;
};

/* patience_ns 0: RECOVERY_PATIENCE_NS. seed: spreads the times of many. */
void recovery_init(struct recovery *recovery, uint64_t patience_ns,
                   uint64_t seed);

/* ---- what happens to the stream */

/* Where to begin: with a snapshot, or a replay from a number. */
void recovery_begin_snapshot(struct recovery *recovery);
void recovery_begin_replay(struct recovery *recovery, uint64_t from_seq);

/* Whether the ids of the source count. Where they turn out not to, nothing that
 * was missed by id can be made good any more, and that is told. */
void recovery_go_by_number(struct recovery *recovery, bool is_by_number);

void recovery_connected(struct recovery *recovery, const struct cursor *cursor);

/* Messages from this number on (0: not known) were missed or refused, which was
 * said. is_known: a replay had them, or rather did not. */
void recovery_lost(struct recovery *recovery, uint64_t from_seq, bool is_known);

/* The ids begin anew. is_all_known: nothing of the new ones is missing. */
void recovery_moved(struct recovery *recovery, bool is_all_known);

/* The ids begin anew with the snapshot that is being walked. */
void recovery_adopted(struct recovery *recovery);

/* Ids came again under a number that is new. */
void recovery_doubt(struct recovery *recovery, const struct cursor *cursor);

/* The mirror can keep no more of the past. */
void recovery_crowded(struct recovery *recovery, uint64_t now_ns);

/* What is held does not fit, and is gone. */
void recovery_no_room(struct recovery *recovery, uint64_t now_ns);

/* ---- answers: of the request that is open */

/* A message of a replay, before anything is made of it. */
void recovery_batch(struct recovery *recovery, uint64_t seq, bool is_readable,
                    uint64_t now_ns);
void recovery_first(struct recovery *recovery,
                    const struct recovery_answer *answer, uint64_t now_ns);
/* False: not the one that was due; it has failed. */
bool recovery_rows(struct recovery *recovery, uint64_t index, uint64_t now_ns);
/* The last one of a snapshot. */
void recovery_walked(struct recovery *recovery, struct cursor *cursor,
                     const struct recovery_answer *answer, uint64_t now_ns);
/* END: of a replay, or instead of an answer. */
void recovery_end(struct recovery *recovery, struct cursor *cursor,
                  uint64_t now_ns);
/* True: the publisher contradicts itself, and nothing it said can be believed. */
bool recovery_status(struct recovery *recovery, const struct cursor *cursor,
                     const struct recovery_answer *answer, uint64_t now_ns);
/* The answer was none, or could not be asked for. */
void recovery_failed(struct recovery *recovery, enum mc_degraded_cause cause,
                     uint64_t now_ns);

/* ---- what comes of it */

enum recovery_verdict {
    RECOVERY_WAIT = 0, /* nothing now */
    RECOVERY_SWEEP, /* what the snapshot did not name goes; then it is over */
    RECOVERY_OVER,  /* told: say so. Everything is in its place */
    RECOVERY_STOP   /* by number: the replay has given all that it has */
};
/* Makes the orders that are due. */
enum recovery_verdict recovery_decide(struct recovery *recovery,
                                      const struct cursor *cursor,
                                      uint64_t now_ns);
/* The time has come: an answer that is overdue has failed. */
void recovery_tick(struct recovery *recovery, uint64_t now_ns);
/* When there is something to decide though nothing comes; UINT64_MAX: never. */
uint64_t recovery_wake_at(const struct recovery *recovery,
                          const struct cursor *cursor);

void recovery_swept(struct recovery *recovery);
/* It was over, or given up. True: that is to be said, *by_snapshot_out how. */
bool recovery_close(struct recovery *recovery, bool is_good,
                    bool *by_snapshot_out);

/* Whether what is removed has to be remembered. */
bool recovery_needs_past(const struct recovery *recovery);
bool recovery_next_order(struct recovery *recovery,
                         struct recovery_order *order_out);
#endif
