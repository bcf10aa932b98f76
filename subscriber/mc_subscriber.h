/* SPDX-License-Identifier: Apache-2.0 */
/* mc_subscriber.h - follows event publishers and never lies about what it
 * missed.
 *
 * A subscriber has one or more sources, each one publisher. Every message is
 * read strictly and whole, checked against the source's sequence and event ids,
 * and applied event by event to a mirror ((tenant, key, medium) -> id, session,
 * group), to a session index where one is given, and to the caller: after an
 * event is applied and before the next one is, the caller hears of it, so that
 * a question asked there sees exactly that prefix of the stream. What cannot be
 * trusted any more is said by signals, once and in order.
 *
 * Without a recovery endpoint a loss means: gap, stale, the source's entries
 * go, and it starts again from the next event. A message or event that was
 * refused held changes that nobody knows, so it means the same: degraded,
 * stale. What held nothing (bytes whose number is missing or not the next one)
 * is told as degraded alone; if it did hold something, the next number shows.
 * stale is told only where there was something to lose since the last time.
 *
 * With a recovery endpoint the source asks there for what it missed or could not
 * read: for a replay first, for a snapshot where the replay has it not. Events go
 * on being delivered as they come; what is fetched is applied by its ids. The
 * caller hears differences against what it was told, so that stored and removed
 * of a key and medium alternate at all times (a removed of what it was never
 * told is not delivered), and recovered when everything is
 * in its place: mirror and index then are what the store was at the last id. One
 * fault makes one recovery; more that happen meanwhile are part of it. Where the
 * server does not answer, or not well, that is told once as degraded, and it is
 * asked again after a pause that grows from a quarter of a second to at most 30
 * seconds; entries stay meanwhile. stale is told only where another run of the
 * publisher begins, or what is held does not fit. After a new connection the
 * server is asked where the stream stands, so that the loss of its last messages
 * is seen too. A source whose events have no epoch, and an engine, recover by
 * sequence number: what comes after a gap waits, up to 16 MiB, until a replay has
 * brought what is before it; what the replay does not bring means stale.
 *
 * Threads: a thread of the subscriber reads the sockets. Events are delivered
 * either on the thread that calls mc_subscriber_poll or _next (default), or on
 * the subscriber's own (opts.own_thread), where they may run before
 * mc_subscriber_open has returned. Callbacks run without locks held and may
 * call what is marked "inside callbacks".
 */
#ifndef MC_SUBSCRIBER_H
#define MC_SUBSCRIBER_H
#include <stdbool.h>
#include <stdint.h>

#include "mc_engine_event.h"
#include "mc_err.h"
#include "mc_event.h"
#include "mc_index.h"
#include "mc_view.h"

#ifdef __cplusplus
extern "C" {
#endif

struct mc_subscriber;

enum mc_signal_type {
    MC_SIGNAL_GAP = 1,       /* ids and sequence numbers were missed */
    MC_SIGNAL_RECOVERED = 2, /* what was missed has been made good */
    MC_SIGNAL_EPOCH = 3,     /* a publisher is followed from here on: at the
                                first event, and whenever it is a new one */
    MC_SIGNAL_DEGRADED = 4,  /* what is held may be wrong: see cause */
    MC_SIGNAL_STALE = 5      /* the source's entries are gone; starting again */
};
const char *mc_signal_name(enum mc_signal_type type); /* "gap" ... */

enum mc_degraded_cause {
    MC_DEGRADED_NONE = 0,
    MC_DEGRADED_REFUSED,    /* a message or event: see reason, offset, seq */
    MC_DEGRADED_INDEX_FULL, /* the index refused a block, told once until the
                               source starts again */
    /* These once in a recovery; it goes on trying. */
    MC_DEGRADED_UNANSWERED, /* the recovery server did not answer, or not this */
    MC_DEGRADED_BAD_ANSWER, /* it answered what cannot be read or be true */
    MC_DEGRADED_OVERTAKEN,  /* changes were lost, or too many to remember,
                               faster than snapshots came */
    MC_DEGRADED_NO_ROOM     /* what is held does not fit: out of memory, or over
                               max_mirror_entries */
};

struct mc_signal {
    enum mc_signal_type type;
    uint32_t source;  /* index into opts.sources */
    uint64_t from_id; /* gap: ids from..to were missed; 0..0: not known.
                               epoch: ids from..to came before us and are not
                               known; 0..0: none did, or it has no ids */
    uint64_t to_id;
    uint64_t from_seq; /* gap: sequence numbers from..to were missed; 0..0:
                               the ids alone show it */
    uint64_t to_seq;
    uint64_t epoch;   /* epoch: the new one, 0: it stamps none */
    bool by_snapshot; /* recovered: by snapshot and not by replay */
    enum mc_degraded_cause cause;
    enum mc_event_error reason; /* degraded, refused: by which rule */
    uint32_t offset;            /* degraded: where in the payload */
    uint64_t seq;               /* message in which it was noticed, 0 if none */
};
/* Of a degraded one: the name of the rule, or of the cause ("unanswered" ...). */
const char *mc_signal_reason(const struct mc_signal *signal);

enum mc_delivery_origin {
    MC_FROM_STREAM = 0, /* as it was published */
    MC_FROM_REPLAY,
    MC_FROM_SNAPSHOT /* a row, or what no row named; batch->seq is 0 */
};

/* An event as delivered; batch and event are borrowed for the call. A duplicate
 * is not delivered at all. replaces: this `stored` follows the `removed` of the
 * same key and medium in the same message, with nothing but events of that key
 * between them. The index takes such a pair as one change, with the `stored`;
 * all else that can be asked in a callback is as of the event. */
struct mc_delivery {
    uint32_t source;
    bool replaces;
    bool is_derived; /* a `removed` that no event said: what is different now
                        was missed. Its event_id is that of what showed it */
    enum mc_delivery_origin origin;
    const struct mc_event_batch *batch;
    const struct mc_event *event;
    const struct mc_engine_event *engine; /* of an engine, else NULL; then
                                             `event` holds type, index, medium
                                             and session, and nothing else */
};

typedef void (*mc_event_fn)(void *ctx, const struct mc_delivery *delivery);
typedef void (*mc_signal_fn)(void *ctx, const struct mc_signal *signal);
/* Sees every message before it is read, bad ones too; frames are borrowed. */
typedef void (*mc_message_fn)(void *ctx, uint32_t source,
                              const struct mc_view *frames, size_t count);

enum mc_source_profile {
    MC_PROFILE_STORE = 0,
    MC_PROFILE_ENGINE = 1 /* vLLM, SGLang */
};

/* Where a source begins; the others than MC_BEGIN_NOW ask its recovery server. */
enum mc_begin {
    MC_BEGIN_NOW = 0,  /* with what comes first */
    MC_BEGIN_SNAPSHOT, /* with all that the store holds, and then `recovered`;
                          not for engines */
    MC_BEGIN_SEQ /* with message begin_seq, or the oldest that is kept: all
                          up to the newest is delivered as it was published */
};

/* Another publisher of the same store. */
struct mc_publisher_place {
    const char *endpoint;
    const char *recovery_endpoint; /* NULL: none */
};
#define MC_PUBLISHER_PLACES_MAX 7 /* others than the first one */

/* One publisher. Strings are copied. The backend ids of two stores should
 * differ, and the worker or rank of two engines: an index knows them by these.
 * An engine has neither ids nor epochs, its numbers alone show what was missed;
 * it has no mirror. */
struct mc_source_opts {
    const char *endpoint; /* e.g. tcp://127.0.0.1:5557; NULL: injected only */
    const char *recovery_endpoint; /* its recovery server; NULL: none */
    enum mc_begin begin;
    uint64_t begin_seq;
    /* Others that publish for the same store, in its place or after it: of a
     * list of masters, say. All are listened to and one is followed. Of two that
     * are heard of within 3 s that is the one with the greater epoch; one that
     * was silent for longer gives way. Not for engines. Keys are those above. */
    const struct mc_publisher_place *others;
    size_t other_count;
    const char *topic; /* subscription prefix; NULL = everything */
    /* CURVE: the publisher's public key (40 characters), and a file with our own
     * pair, "public KEY" and "secret KEY". Both or none. */
    const char *curve_server_key;
    const char *curve_key_file;
    enum mc_source_profile profile;
    /* Of an engine: its name in the index, needed, without ':' and '/'; the
     * tenant of its blocks, NULL: "default"; its rank where messages name
     * none. */
    const char *worker;
    const char *tenant;
    uint32_t dp_rank;
};

/* sources needed; else all zero = the defaults. */
struct mc_subscriber_opts {
    const struct mc_source_opts *sources;
    size_t source_count; /* 1..64 */
    bool own_thread;     /* deliver on the subscriber's thread */
    bool no_mirror;
    struct mc_index *index;   /* fed in stream order; borrowed, outlives us. Its
                                  one writer is the delivering thread */
    uint64_t max_queue_bytes; /* messages read but not yet delivered; 0 = 64
                                  MiB. Full: the socket is not read */
    uint64_t max_mirror_entries; /* per source; 0 = 16 Mi; over it the source
                                    goes stale. A quarter of it more for what
                                    was removed, while recovering */
    uint32_t max_message_events; /* 0 = MC_EVENT_COUNT_MAX, which is also most;
                                    a message with more is refused */
    uint32_t recovery_patience_ms; /* with a recovery server that says nothing;
                                      0 = 10 s, of an engine 2 s */
    mc_event_fn on_event;          /* any may be NULL */
    mc_signal_fn on_signal;
    mc_message_fn on_message;
    void *ctx;
};

/* Connects; never waits for a publisher to be there. The caller owns it and
 * ends it with mc_subscriber_close. Errors: MC_ERR_INVALID_PARAMS (no source, an
 * endpoint that ZeroMQ refuses, with a line in the log; keys that are none; an
 * engine's worker or tenant that an index would not take; a store with a recovery
 * endpoint and no mirror; a beginning that cannot be had), MC_ERR_FILE_OPEN_FAIL
 * (the key file), MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err
mc_subscriber_open(const struct mc_subscriber_opts *opts,
                   struct mc_subscriber **subscriber_out);

/* Stops, joins, frees; what was not delivered is not. NULL is fine. Not inside
 * callbacks. */
void mc_subscriber_close(struct mc_subscriber *subscriber);

/* Readable (level-triggered) while mc_subscriber_poll has something to do;
 * owned by the subscriber. -1 with own_thread. */
int mc_subscriber_fd(const struct mc_subscriber *subscriber);

/* Delivers what has come, through the callbacks, on this thread: waits up to
 * timeout_ms (-1: for ever) for the first message and then handles at most
 * max_messages (0: all that are there). *handled_out (may be NULL) counts
 * events and signals delivered. One thread at a time. Errors:
 * MC_ERR_UNAVAILABLE_IN_CURRENT_MODE (own_thread). */
MC_CHECK_RESULT enum mc_err mc_subscriber_poll(struct mc_subscriber *subscriber,
                                               int timeout_ms,
                                               size_t max_messages,
                                               size_t *handled_out);

/* The same one at a time: the next event or signal, whichever comes first in
 * order. Exactly one of the two pointers is set on MC_OK; both are borrowed
 * until the next call. Callbacks run too, if set. Errors: MC_ERR_RPC_TIMEOUT
 * (nothing came), MC_ERR_UNAVAILABLE_IN_CURRENT_MODE. */
struct mc_subscriber_item {
    const struct mc_delivery *delivery;
    const struct mc_signal *signal;
};
MC_CHECK_RESULT enum mc_err
mc_subscriber_next(struct mc_subscriber *subscriber, int timeout_ms,
                   struct mc_subscriber_item *item_out);

/* Puts one recorded message through the same path as if source had sent it
 * (poll mode, the polling thread, not inside callbacks): playing a file,
 * testing. Its callbacks have run when this returns; nothing of it is left for
 * mc_subscriber_next, and what that had left of a message before is delivered
 * first. Errors: MC_ERR_INVALID_PARAMS (no such source),
 * MC_ERR_UNAVAILABLE_IN_CURRENT_MODE (own_thread). */
MC_CHECK_RESULT enum mc_err
mc_subscriber_inject(struct mc_subscriber *subscriber, uint32_t source,
                     const struct mc_view *frames, size_t count);

/* ---- the mirror: inside callbacks, or on the polling thread ------------ */

struct mc_mirror_entry {
    uint32_t source;
    uint64_t event_id; /* last change */
    struct mc_view tenant_id;
    struct mc_view object_key;
    struct mc_view medium;
    struct mc_view session_id; /* none: untagged */
    struct mc_view group_id;   /* none: ungrouped */
};
size_t mc_subscriber_mirror_count(const struct mc_subscriber *subscriber);
/* False if the key is not there in that medium. Views are borrowed until the
 * next delivery. */
bool mc_subscriber_mirror_get(const struct mc_subscriber *subscriber,
                              uint32_t source, struct mc_view tenant_id,
                              struct mc_view object_key, struct mc_view medium,
                              struct mc_mirror_entry *entry_out);
/* In no order; return false to stop; no delivery meanwhile. */
typedef bool (*mc_mirror_fn)(void *ctx, const struct mc_mirror_entry *entry);
void mc_subscriber_mirror_walk(const struct mc_subscriber *subscriber,
                               mc_mirror_fn fn, void *ctx);

/* ---- counters: any thread --------------------------------------------- */

struct mc_source_stats {
    bool is_connected;
    bool has_baseline; /* a first message was seen */
    uint64_t epoch;    /* 0: none seen */
    uint64_t last_seq;
    uint64_t baseline_id;   /* ids up to it, of this epoch, were never ours */
    uint64_t last_event_id; /* every id above the baseline up to it is settled:
                                 delivered, refused or lost */
    uint64_t span_ids;      /* ids settled so far, over all epochs: always
                                 events + refused_ids + lost_ids */
    uint64_t messages;      /* read well */
    uint64_t bytes;
    uint64_t events; /* delivered: applied, or covered by a snapshot */
    uint64_t stored;
    uint64_t removed;
    uint64_t cleared;
    uint64_t heartbeats;
    uint64_t duplicates;  /* events by id or sequence, not delivered */
    uint64_t passed_over; /* messages of publishers that are not followed */
    uint64_t strays;      /* messages far off the sequence that the next
                                 message did not confirm, not delivered */
    uint64_t gaps;
    uint64_t lost_ids; /* ids never seen, or not applied: out of memory,
                                 over max_mirror_entries */
    uint64_t lost_seqs;
    uint64_t stales;   /* times that the source's entries went */
    uint64_t restarts; /* new epochs */
    uint64_t connects;
    uint64_t disconnects;
    uint64_t refused_messages;
    uint64_t refused_events;
    uint64_t refused_ids;                    /* ids seen and not readable */
    uint64_t refused[MC_EVENT_ERROR_COUNT_]; /* both, by reason */
    uint64_t contradictions; /* stored of what is there, and, while all that
                                 the publisher ever said is known, removed of
                                 what is not; by ids that are new */
    uint64_t queue_messages;
    uint64_t queue_bytes;
    uint64_t queue_full; /* times reading had to pause */
    uint64_t mirror_entries;
    /* What on_event was called for: with a recovery server not what `events`
     * counts, since what changes nothing is not handed out, and what a
     * snapshot or the lack of it shows is. */
    uint64_t deliveries;
    /* Recovering; 0 without a recovery endpoint. */
    bool is_recovering;
    uint64_t recoveries; /* told as recovered: */
    uint64_t recoveries_by_replay;
    uint64_t recoveries_by_snapshot;
    uint64_t requests; /* made, so often: */
    uint64_t replays_asked;
    uint64_t snapshots_asked;
    uint64_t statuses_asked;
    uint64_t failed_requests; /* of them; each was followed by a pause */
    uint64_t refetched_ids;   /* seen to be missing, and then replayed */
    uint64_t covered_ids;     /* the same, and then in a snapshot */
    uint64_t snapshot_rows;
    uint64_t tombstones; /* of what was removed, kept while recovering */
};
void mc_subscriber_stats(const struct mc_subscriber *subscriber,
                         uint32_t source, struct mc_source_stats *stats_out);

#ifdef __cplusplus
}
#endif
#endif
