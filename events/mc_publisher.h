/* SPDX-License-Identifier: Apache-2.0 */
/* mc_publisher.h - how a store tells the world: settings and counters of its
 * event publisher.
 *
 * The publisher belongs to a store; there is nothing to call here, these are
 * the structs that opening a store and asking its state use. Events leave on a
 * ZeroMQ PUB socket from a thread of their own; a writer never waits for a
 * socket. docs/events.md is the wire contract.
 */
#ifndef MC_PUBLISHER_H
#define MC_PUBLISHER_H
#include <stdbool.h>
#include <stdint.h>

#include "mc_limits.h"
#include "mc_view.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What happens when the event log is full. */
enum mc_publisher_overflow {
    MC_PUBLISHER_DROP_OLDEST = 0, /* lost events are counted, and a hole in the
                                     ids and sequence numbers shows them */
    MC_PUBLISHER_BLOCK = 1        /* the writer waits within its deadline */
};

/* All zero: no events are published. Strings are NUL-terminated, copied, and
 * may be NULL for "none". */
struct mc_publisher_opts {
    const char *bind_endpoint;   /* e.g. tcp://127.0.0.1:5557, port * or 0 for a
                                    free one; needed together with backend_id */
    const char *replay_endpoint; /* the recovery server; keeps a history */
    const char *backend_id;
    const char *topic; /* first frame, default empty */
    const char *model_name;
    const char *additional_salt;
    const char *lora_name;
    uint32_t block_size;
    uint32_t dp_rank;
    enum mc_publisher_overflow overflow;
    uint32_t queue_capacity;  /* events; 0 = 65536, else at least 1024 */
    uint32_t history_batches; /* 0 = 65536 */
    uint64_t history_bytes;   /* 0 = 256 MiB */
    uint64_t hwm_bytes;       /* per slow subscriber; 0 = 64 MiB, at least 8 */
    uint64_t heartbeat_ms;    /* 0 = 1000 with a replay endpoint, else off;
                                 UINT64_MAX = off */
    uint32_t replay_layout;   /* frames of a replayed message after the
                                 delimiter, and it: 0 or 4, or 3: no topic */
    /* CURVE: encrypts, and only holders of allowed keys get anything. Both or
     * none. The first file holds this side's key pair, the other public keys,
     * one a line; docs/master.md says their form. */
    const char *curve_server_key_file;
    const char *curve_allowed_keys_file;
    bool no_legacy_compat;
    bool no_object_key;   /* only `cleared` is sent; the rest counts as lost */
    bool no_extra_fields; /* no epoch, no session_id on removed/cleared */
    bool emit_seq_hashes;
    bool empty_token_ids; /* [] instead of nil */
    bool sequence_epoch;  /* sequence starts at (s since 2025) << 32 */
};

/* Counters; all since the store was opened. */
struct mc_publisher_stats {
    bool enabled;
    uint64_t epoch;
    uint64_t last_event_id; /* newest id given out */
    uint64_t last_seq;      /* newest sequence number used */
    uint64_t published_batches;
    uint64_t published_events;
    uint64_t published_bytes; /* payload */
    uint64_t dropped_events;  /* lost to a full log or a failed send */
    uint64_t skipped_events;  /* keyless: no_object_key suppresses them */
    uint64_t heartbeats;
    uint64_t queue_depth; /* events waiting in the log */
    uint64_t queue_capacity;
    uint64_t blocked_writers; /* waits for room, so far */
    uint64_t subscribers;     /* subscriptions standing now */
    uint64_t history_batches; /* kept for replay now */
    uint64_t history_bytes;
    uint64_t history_oldest_seq;
    uint64_t replay_requests;
    uint64_t snapshot_requests;
    uint64_t status_requests;
    uint64_t malformed_requests;
    uint64_t refused_requests;    /* the line was full, or no such tenant */
    uint64_t given_up_requests;   /* took nothing for too long, or vanished */
    uint64_t unanswered_requests; /* that got not even an END: too many peers
                                     take nothing */
    uint64_t replayed_batches;
    uint64_t snapshot_batches; /* messages of snapshots sent */
    uint64_t snapshot_walks;   /* through the store; requests share them */
    uint64_t waiting_requests; /* in line now */
    char endpoint[256];        /* as bound, NUL-terminated; empty if off */
    char replay_endpoint[256];
    char backend_id[MC_BACKEND_ID_LEN_MAX + 1];
};

#ifdef __cplusplus
}
#endif
#endif
