/* SPDX-License-Identifier: Apache-2.0 */
/* engine.h - what the transports may know of the engine they work for.
 *
 * A transport gets the engine at open and keeps it; pollers and connections are
 * the transport's own. Rows that reach a transport are checked: their spans sum
 * up, their memory is registered and kept so, range and direction agree with
 * their terms, and their outcome is "failed, both ends over" until the transport
 * says otherwise.
 *
 * Threads: options, tls and clock are constant from open on; counters are
 * atomic.
 */
#ifndef ENGINE_H
#define ENGINE_H
#include <pthread.h>
#include <stdatomic.h>

#include "board.h"
#include "exposed.h"
#include "gate.h"
#include "mc_transfer.h"
#include "mci_list.h"
#include "region.h"
#include "transport.h"

#define MCI_TRANSPORT_KINDS 5 /* of enum mc_transport_kind, AUTO with them */

/* A copy looks at deadline, fence and grant once per so many bytes. */
#define MCI_PIECE_BYTES (UINT64_C(1) << 20)

struct mci_tls;
struct mci_worker_pool; /* workers.h */

/* As struct mc_transfer_stats; relaxed. What peers move (bytes and rows) is
 * counted by the engine from the rows' outcomes, the others where they
 * happen. */
struct mci_counters {
    _Atomic uint64_t read_bytes[MCI_TRANSPORT_KINDS];
    _Atomic uint64_t written_bytes[MCI_TRANSPORT_KINDS];
    _Atomic uint64_t moved_rows[MCI_TRANSPORT_KINDS];
    _Atomic uint64_t served_read_bytes;
    _Atomic uint64_t served_written_bytes;
    _Atomic uint64_t rows;
    _Atomic uint64_t failed_rows;
    _Atomic uint64_t refused_requests;
    _Atomic uint64_t connections;
    _Atomic uint64_t connects;
    _Atomic uint64_t fences;
    _Atomic uint64_t shm_peers;
};

static inline void mci_count(_Atomic uint64_t *counter, uint64_t by)
{
    (void)atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

static inline void mci_count_down(_Atomic uint64_t *counter, uint64_t by)
{
    (void)atomic_fetch_sub_explicit(counter, by, memory_order_relaxed);
}

struct mc_transfer {
    struct mc_transfer_opts opts; /* defaults filled in, strings copied; host is
                                     never NULL, tls is NULL: see below */
    struct mci_tls *tls;          /* NULL: none */
    struct mci_counters counters;
    struct mci_regions regions;     /* local memory that rows may name */
    struct mci_exposures exposures; /* what is lent */
    struct mci_board *board; /* fences; listed before a transport hears of
                                       them */
    struct mci_gate gate;    /* threads of this process inside writes */
    void *states[MCI_TRANSPORT_KINDS]; /* by kind; NULL: not in use */
    struct mci_worker_pool *pool;
    pthread_mutex_t targets_lock;
    struct mci_link targets; /* open ones; guarded by targets_lock */
    uint32_t forks;          /* of the process, at open */
};

/* The process was forked since this engine was opened: nothing of it may be
 * touched, its threads are elsewhere. */
bool mci_engine_is_elsewhere(const struct mc_transfer *transfer);

/* What a row answers for what a check said (exposed.h): a deadline that passed is
 * LEASE_EXPIRED for reads, everything else TRANSFER_FAIL. */
static inline enum mc_err mci_row_err(enum mc_err err, bool is_write)
{
    if (err == MC_OK || err == MC_ERR_NOMEM ||
        (err == MC_ERR_LEASE_EXPIRED && !is_write)) {
        return err;
    }
    return MC_ERR_TRANSFER_FAIL;
}

/* The grant a row has now: of its source, if it has one. */
static inline struct mc_grant mci_row_grant(const struct mc_transfer_row *row)
{
    return row->source ? row->source->get(row->source->ctx) : row->grant;
}

/* The sum of a row's spans; does not wrap, since that was checked. */
uint64_t mci_row_len(const struct mc_transfer_row *row);

/* The transports that are built, in the order in which they are tried. */
extern const struct mci_transport *const mci_transports[];
extern const size_t mci_transport_count;
const struct mci_transport *mci_transport_get(enum mc_transport_kind kind);
#endif
