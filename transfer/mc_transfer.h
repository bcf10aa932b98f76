/* SPDX-License-Identifier: Apache-2.0 */
/* mc_transfer.h - moves bytes between memory of this process and memory that
 * other processes lend.
 *
 * An owner exposes memory; that makes a registration with a secret key, of which
 * grants are made (mc_grant.h). A peer opens a target and moves rows: each row
 * is a list of local spans on one side and one range of the target on the other.
 * A row goes by the first transport that can: local (same process), shm (same
 * host, the owner's memory mapped here), tcp.
 *
 * A batch of rows is run on the caller's thread, or submitted and completed once
 * later. Every row answers twice: local_ended says that nobody touches the
 * caller's memory any more, and is always set when a call returned or a batch
 * completed; remote_ended says that no more bytes can land in the target's
 * range. At its deadline a batch breaks its own connections and completes.
 *
 * Threads: any thread, but close.
 */
#ifndef MC_TRANSFER_H
#define MC_TRANSFER_H
#include <stdbool.h>
#include <stdint.h>

#include "mc_err.h"
#include "mc_grant.h"
#include "mc_object.h"
#include "mc_tls.h"

#ifdef __cplusplus
extern "C" {
#endif

struct mc_transfer; /* opaque */

enum mc_transport_kind {
    MC_TRANSPORT_AUTO = 0,
    MC_TRANSPORT_LOCAL = 1,
    MC_TRANSPORT_SHM = 2,
    MC_TRANSPORT_TCP = 3,
    MC_TRANSPORT_RDMA = 4 /* not built: -1012 */
};

/* All zero = the defaults. Strings are copied. */
struct mc_transfer_opts {
    const char *host;         /* by which peers reach this process; NULL =
                                 "127.0.0.1" */
    const char *bind_address; /* NULL = all addresses */
    uint16_t port;            /* where bytes are served; 0 = a free one */
    uint16_t port_min;        /* of a range to look in, with port 0; 0 = any */
    uint16_t port_max;
    uint32_t port_tries; /* how often the range is looked through, 100 ms apart,
                            while all of it is taken; 0 = once */
    bool is_served_at_once; /* listen at open, not at the first exposure */
    bool no_shm;            /* neither offered nor used */
    bool no_local;          /* own memory goes by shm or tcp as well */
    bool any_memory; /* rows may name memory that was not registered; nobody
                        then waits for them but their caller. Not with rdma */
    enum mc_transport_kind only;   /* any other is not used; AUTO = no limit */
    uint32_t server_threads;       /* 0 = 2 */
    uint32_t workers;              /* for submitted batches; 0 = 2 */
    uint32_t connections_per_peer; /* kept open when idle; 0 = 8 */
    uint32_t queue_max;            /* submitted and not taken; 0 = 1024 */
    const struct mc_tls_opts *tls; /* of tcp; NULL = none. Copied */
};

/* Errors: MC_ERR_INVALID_PARAMS, MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS (the port
 * is taken; a line in the log), MC_ERR_NOT_SUPPORTED (rdma), MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err
mc_transfer_open(const struct mc_transfer_opts *opts,
                 struct mc_transfer **transfer_out);
/* Completes each unfinished batch (CANCELED as MC_ERR_TRANSFER_FAIL), ends all
 * exposures, joins. Completions that were not taken are gone; targets can still be
 * closed, and nothing else. */
void mc_transfer_close(struct mc_transfer *transfer); /* NULL is fine */

/* ---- local memory ------------------------------------------------------ */

/* Says that a range may be named in rows. The same range again is counted.
 * Errors: MC_ERR_INVALID_PARAMS (NULL, 0, wrapping, overlapping another),
 * MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mc_transfer_register(struct mc_transfer *transfer,
                                                 void *base, size_t len);
/* Waits, until deadline_ns, for rows under way that name it. Errors:
 * MC_ERR_INVALID_PARAMS (not registered at this base),
 * MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS (still in use; it stays registered). */
MC_CHECK_RESULT enum mc_err mc_transfer_unregister(struct mc_transfer *transfer,
                                                   void *base,
                                                   uint64_t deadline_ns);
/* The range lies within one registered range. */
bool mc_transfer_is_registered(const struct mc_transfer *transfer,
                               const void *base, size_t len);

/* ---- lent memory ------------------------------------------------------- */

struct mc_exposure_opts {
    void *base;
    uint64_t bytes;
    int fd; /* memfd it is mapped from, borrowed; -1: not over shm */
    uint64_t fd_offset; /* of base */
    void *generation;   /* _Atomic uint64_t in shared memory at the head of fd,
                           raised when it is given up; NULL without fd */
};
#define MC_TRANSFER_ENDPOINT_SIZE 280
struct mc_exposure {
    uint64_t registration;
    uint8_t key[MC_GRANT_KEY_LEN]; /* secret, for who makes the grants */
    char endpoint[MC_TRANSFER_ENDPOINT_SIZE]; /* host:port; empty: not served */
    char shm[64];                             /* empty: not offered */
};

/* Where peers reach this process by tcp, as exposures tell it: host:port. Empty
 * while nobody listens: before the first exposure, unless is_served_at_once, or
 * if tcp is not used. Errors: MC_ERR_INVALID_PARAMS (the host it was opened with
 * is none), MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS (after a fork). */
MC_CHECK_RESULT enum mc_err
mc_transfer_endpoint(const struct mc_transfer *transfer,
                     char endpoint_out[MC_TRANSFER_ENDPOINT_SIZE]);

/* The memory stays the caller's. Errors: MC_ERR_NOMEM,
 * MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS (port), MC_ERR_INTERNAL_ERROR. */
MC_CHECK_RESULT enum mc_err
mc_transfer_expose(struct mc_transfer *transfer,
                   const struct mc_exposure_opts *opts,
                   struct mc_exposure *exposure_out);
/* Raises the generation, refuses all grants of the registration and closes the
 * connections that are inside it; after that nobody but a shm peer that has not
 * looked at the generation touches the memory. Unknown ones are fine. */
void mc_transfer_conceal(struct mc_transfer *transfer, uint64_t registration);

/* Carries out fences (SAFETY B.3): later requests are refused, connections inside
 * are closed, shm peers have left or cannot enter. What a shm peer is still
 * inside of is told in stuck_out (attempt and incarnation), up to stuck_max;
 * ask again with count 0 later. Blocks for the turn of the server threads only.
 * Fences are kept for MC_GRANT_TTL_MAX_MS and a bit. Errors: MC_ERR_NOMEM,
 * MC_ERR_BUFFER_OVERFLOW (more are stuck); then nothing may be acknowledged. */
struct mc_fence_stuck {
    uint64_t attempt;
    uint64_t incarnation;
};
MC_CHECK_RESULT enum mc_err
mc_transfer_fence(struct mc_transfer *transfer, const struct mc_fence *fences,
                  size_t count, struct mc_fence_stuck *stuck_out,
                  size_t stuck_max, size_t *stuck_count_out);

/* ---- targets ----------------------------------------------------------- */

struct mc_target; /* opaque, counted */

/* Strings are copied. Nothing is connected yet. */
struct mc_target_opts {
    uint64_t registration;
    uint64_t bytes;
    const char *endpoint; /* host:port; NULL or "": by tcp nowhere */
    const char *shm;      /* NULL or "": not offered */
};
MC_CHECK_RESULT enum mc_err mc_target_open(struct mc_transfer *transfer,
                                           const struct mc_target_opts *opts,
                                           struct mc_target **target_out);
void mc_target_close(
    struct mc_target *target); /* after its rows; NULL is fine */

/* Whether the owner lives and has this registration. Errors: those of rows. */
MC_CHECK_RESULT enum mc_err mc_target_probe(struct mc_target *target,
                                            uint64_t deadline_ns);
/* How rows would go now; may connect to find out. */
enum mc_transport_kind mc_target_transport(struct mc_target *target,
                                           uint64_t deadline_ns);

/* ---- rows -------------------------------------------------------------- */

/* One more than an object has, for what goes along with it. */
#define MC_TRANSFER_SPANS_MAX (MC_SPANS_MAX + 1)

struct mc_transfer_row {
    struct mc_target *target;
    const struct mc_span
        *spans; /* at most MC_TRANSFER_SPANS_MAX; the sum of their
                                    lengths is what moves */
    uint32_t span_count;
    uint64_t offset; /* in the registration */
    struct mc_grant_terms
        terms; /* what the grant was made for; direction too */
    struct mc_grant grant;
    /* A write that ends the attempt at this target: no other row of the attempt
     * is under way or comes later. Its answer is a receipt. */
    bool is_final;
    /* Renewed grants: if not NULL, read before each piece. */
    const struct mc_grant_source *source;
    /* out */
    enum mc_err err;
    uint64_t bytes; /* moved, in order from the first */
    bool local_ended;
    bool remote_ended;
    uint64_t receipt; /* of a final write; 0: none */
    enum mc_transport_kind transport;
};

/* Where a row finds its present grant; any thread may be asking. */
struct mc_grant_source {
    struct mc_grant (*get)(void *ctx);
    void *ctx;
};

/* Moves rows on the calling thread; returns when every row has ended locally.
 * MC_OK: every row is MC_OK; else MC_ERR_TRANSFER_FAIL, and rows tell.
 * Rows: MC_ERR_INVALID_PARAMS (range, spans, memory that is not registered),
 * MC_ERR_TRANSFER_FAIL (refused, broken, over the deadline),
 * MC_ERR_LEASE_EXPIRED (the grant's deadline passed; reads), MC_ERR_NOMEM. */
enum mc_err mc_transfer_run(struct mc_transfer *transfer,
                            struct mc_transfer_row *rows, size_t count,
                            uint64_t deadline_ns);

/* Asks the owners to close attempts for good, for receipts of writes that failed
 * or were not final: rows as in run, whose spans are not looked at. A row says in
 * transport how it went (AUTO: it did not): one that went by tcp is sealed by
 * tcp, where what is still under way of it is known. */
enum mc_err mc_transfer_seal(struct mc_transfer *transfer,
                             struct mc_transfer_row *rows, size_t count,
                             uint64_t deadline_ns);

struct mc_transfer_batch; /* opaque */

/* As run, on a worker; rows and what they name stay untouched by the caller until
 * the batch has completed, once. Errors: MC_ERR_NO_AVAILABLE_HANDLE (queue_max),
 * MC_ERR_NOMEM; then there is no batch. */
MC_CHECK_RESULT enum mc_err
mc_transfer_submit(struct mc_transfer *transfer, struct mc_transfer_row *rows,
                   size_t count, uint64_t deadline_ns, void *ctx,
                   struct mc_transfer_batch **batch_out);
/* Makes the batch complete soon; rows that had not begun answer
 * MC_ERR_TRANSFER_FAIL with both bits set. */
void mc_transfer_cancel(struct mc_transfer_batch *batch);
/* Blocks until it has completed, running it here if no worker has begun, and
 * frees it; it is then not seen by poll. */
enum mc_err mc_transfer_wait(struct mc_transfer_batch *batch);

/* Takes up to max batches that have completed; each ctx once. The batch is freed
 * by that. Returns how many. Never blocks. */
size_t mc_transfer_poll(struct mc_transfer *transfer, void **ctxs_out,
                        size_t max);
/* Readable while a completion waits; the transfer's own, do not close. -1 if it
 * cannot be made. */
int mc_transfer_eventfd(struct mc_transfer *transfer);

struct mc_transfer_stats {
    uint64_t read_bytes[5]; /* by enum mc_transport_kind, as a peer */
    uint64_t written_bytes[5];
    uint64_t moved_rows[5];     /* whole and well, seals apart */
    uint64_t served_read_bytes; /* as an owner, over tcp */
    uint64_t served_written_bytes;
    uint64_t rows;
    uint64_t failed_rows;
    uint64_t refused_requests; /* as an owner: grants that did not hold */
    uint64_t connections;      /* open now, both sides */
    uint64_t connects;         /* ever */
    uint64_t fences;
    uint64_t shm_peers; /* mapped by others now */
};
void mc_transfer_stat(const struct mc_transfer *transfer,
                      struct mc_transfer_stats *stats_out);

#ifdef __cplusplus
}
#endif
#endif
