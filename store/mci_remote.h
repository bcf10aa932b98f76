/* SPDX-License-Identifier: Apache-2.0 */
/* mci_remote.h - a client's end of the control connections to a master process.
 *
 * Keeps up to MCI_SLOTS_MAX pooled connections, each a slot with one request
 * outstanding: a caller's thread writes its request and reads the answer
 * itself. A heartbeat runs on a thread and connection of its own from open to
 * close, whatever the application does. When the master has forgotten this
 * client or is another one (a new epoch), the heartbeat thread registers anew
 * under a new incarnation and tells the owner of the remote through callbacks.
 *
 * What a caller may rely on: a mutating call is done once or not at all; one
 * that ran out of time answers MC_ERR_RPC_TIMEOUT (outcome unknown) and was
 * made harmless as SAFETY C.3 says; a call that never reached the master
 * answers MC_ERR_RPC_FAIL.
 * Threads: any thread, but open and close.
 */
#ifndef MCI_REMOTE_H
#define MCI_REMOTE_H
#include "mc_tls.h"
#include "mci_control.h"
#include "mci_link.h"

struct mci_remote;

/* Called on the heartbeat thread, without locks held; may call the remote. */
struct mci_remote_events {
    /* This client is a new incarnation now: its segments are not mounted any
     * more, cached segment rows are void. Nothing is granted to the old one. */
    void (*renewed)(void *ctx);
    /* Fences to carry out; *stuck_out (room for MC_ATTEMPTS_MAX) as
     * mc_transfer_fence; also called with count 0 while anything is stuck. */
    enum mc_err (*fence)(void *ctx, const struct mc_fence *fences, size_t count,
                         struct mci_stuck *stuck_out, size_t *stuck_count_out);
    /* The master has closed these attempts of ours in doubt. */
    void (*closed)(void *ctx, const uint64_t *attempts, size_t count);
    void *ctx;
};

struct mci_remote_opts {
    const char *master;  /* host:port */
    const char *name;    /* of this client, host:port; NULL: lends nothing */
    const char *host_id; /* NULL: found out */
    const char *tenant;  /* NULL: default */
    uint32_t timeout_ms; /* of a call; 0 = 30 s */
    uint32_t connect_timeout_ms; /* 0 = 30 s */
    const struct mc_tls_opts *tls;
    struct mci_remote_events events;
};

/* Connects, says hello, starts the heartbeat. A name that a living client holds
 * is waited for, within the connect timeout. Errors, each with a line in the
 * log: MC_ERR_INVALID_PARAMS (address), MC_ERR_RPC_FAIL, MC_ERR_RPC_TIMEOUT,
 * MC_ERR_NOT_SUPPORTED (another protocol version; the line names both),
 * MC_ERR_SEGMENT_ALREADY_EXISTS (the name is held), -1011 (tenant), -11. */
MC_CHECK_RESULT enum mc_err mci_remote_open(const struct mci_remote_opts *opts,
                                            struct mci_remote **remote_out);
/* Says goodbye within deadline, joins. No call may be under way. */
void mci_remote_close(struct mci_remote *remote, uint64_t deadline_ns);

/* The table of mci_link.h; ctx is the remote. */
struct mci_master_link mci_remote_link(struct mci_remote *remote);

/* Who we are now; changes with each renewal. */
struct mci_remote_self {
    uint32_t client;
    uint64_t incarnation;
    uint64_t epoch;
};
struct mci_remote_self mci_remote_self(struct mci_remote *remote);

/* Errors: those of calls; -600, -1010, -200. */
MC_CHECK_RESULT enum mc_err mci_remote_mount(struct mci_remote *remote,
                                             const struct mci_mount *mount,
                                             uint64_t deadline_ns,
                                             uint32_t *segment_out);
MC_CHECK_RESULT enum mc_err mci_remote_unmount(struct mci_remote *remote,
                                               uint32_t segment,
                                               uint64_t grace_ms,
                                               uint64_t deadline_ns);
MC_CHECK_RESULT enum mc_err
mci_remote_segment_status(struct mci_remote *remote, uint32_t segment,
                          uint64_t deadline_ns,
                          enum mci_segment_status *status_out);

/* What is known of segments, asked for once and kept. The row's texts are
 * borrowed and valid until close, or an hour after they were renewed. The
 * number of a segment means something else at another master; grants do not, so
 * that a place of one that is looked up at another is refused there. Errors:
 * -101 (not mounted), -103 (another identity has come), those of calls. */
MC_CHECK_RESULT enum mc_err
mci_remote_segment(struct mci_remote *remote, uint32_t segment,
                   uint64_t deadline_ns,
                   const struct mci_segment_row **row_out);

/* Open attempts, which heartbeats list (SAFETY D.1); put_start enters them, end
 * and revoke take them out. This says that one was written to just now, and
 * answers its present grants (place by place) as renewed. False: not open. */
bool mci_remote_attempt_touched(struct mci_remote *remote, uint64_t attempt);
bool mci_remote_attempt_grant(struct mci_remote *remote, uint64_t attempt,
                              uint32_t place, struct mc_grant *grant_out);
/* Nobody is at it any more, and the master could not be told: what heartbeats
 * list no longer, it closes. Unknown ones are fine. */
void mci_remote_attempt_give_up(struct mci_remote *remote, uint64_t attempt);

/* 0 healthy, 1 not known to the master now, 2 master unreachable: by the last
 * heartbeat. */
int mci_remote_health(const struct mci_remote *remote);

/* Figures of the master and of its events, by one question. Errors: those of
 * calls. */
MC_CHECK_RESULT enum mc_err
mci_remote_figures(struct mci_remote *remote, const struct mci_call *call,
                   struct mci_master_stats *master_out,
                   struct mc_publisher_stats *events_out);

/* Waits until a heartbeat has been answered since open, which it mostly has been
 * by then; or until deadline_ns. */
void mci_remote_await_heartbeat(struct mci_remote *remote,
                                uint64_t deadline_ns);

struct mci_remote_stats {
    uint64_t calls; /* requests that were answered, by op below */
    uint64_t calls_by_op[64];
    uint64_t retries;
    uint64_t timeouts;
    uint64_t connects;
    uint64_t heartbeats;
    uint64_t renewals; /* new incarnations */
    uint64_t attempts; /* open now */
};
void mci_remote_stat(const struct mci_remote *remote,
                     struct mci_remote_stats *stats_out);
#endif
