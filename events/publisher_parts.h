/* SPDX-License-Identifier: Apache-2.0 */
/* publisher_parts.h - what a publisher is made of, for the files that make it, run
 * it and count it.
 *
 * Threads: as told at each part.
 */
#ifndef PUBLISHER_PARTS_H
#define PUBLISHER_PARTS_H
#include <stdatomic.h>

#include "batcher.h"
#include "history.h"
#include "mci_publisher.h"
#include "opened_thread.h"
#include "publisher_socket.h"
#include "recovery_server.h"
#include "send_mark.h"

/* Written by the publisher's thread alone. */
struct publisher_counters {
    _Atomic uint64_t last_seq;
    _Atomic uint64_t batches;
    _Atomic uint64_t events;
    _Atomic uint64_t bytes;
    _Atomic uint64_t failed; /* events that could not be sent */
    _Atomic uint64_t skipped;
    _Atomic uint64_t heartbeats;
    _Atomic uint64_t subscribers;
};

struct mci_publisher {
    struct mci_event_log *log;
    char *endpoint; /* as asked for */
    char *topic;
    char *backend_id;
    struct mci_zmq_curve curve;  /* without keys: none */
    struct mci_history *history; /* NULL: none is kept */
    struct publisher_counters counters;
    _Atomic bool stops;
    struct mci_opened_thread thread;
    /* Written before the thread says that it is open. */
    char bound[sizeof((struct mc_publisher_stats *)0)->endpoint];

    /* The thread's own. */
    struct mci_publisher_socket socket;
    struct mci_send_mark mark;
    struct mci_batcher batcher;
    struct mci_log_taken taken;
    struct mc_event_writer *writer;
    uint8_t *payload; /* MC_BATCH_BYTES_MAX */
    uint32_t turns_unheard;
    uint64_t begins_ns; /* also without a subscriber */

    /* For who asks again. */
    char *replay_endpoint; /* empty: nobody can */
    unsigned replay_layout;
    bool no_object_key;
    struct mc_event_writer *recovery_writer; /* the server's own */
    struct mci_recovery_server *recovery;    /* NULL: not yet, or none */
};

static inline void mci_counter_add(_Atomic uint64_t *counter, uint64_t by)
{
    atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

static inline uint64_t mci_counter_get(_Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static inline void mci_counter_set(_Atomic uint64_t *counter, uint64_t value)
{
    atomic_store_explicit(counter, value, memory_order_relaxed);
}

static inline const struct mci_zmq_curve *
mci_publisher_curve(const struct mci_publisher *publisher)
{
    return publisher->curve.allowed.count > 0 ? &publisher->curve : NULL;
}

/* All that is allocated. Errors: MC_ERR_NOMEM; what there is by then goes with
 * free. */
MC_CHECK_RESULT enum mc_err
mci_publisher_fill(struct mci_publisher *publisher,
                   const struct mc_publisher_opts *opts);
MC_CHECK_RESULT enum mc_err
mci_publisher_read_keys(struct mci_publisher *publisher,
                        const struct mc_publisher_opts *opts);
void mci_publisher_free(struct mci_publisher *publisher);
#endif
