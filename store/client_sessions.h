/* SPDX-License-Identifier: Apache-2.0 */
/* client_sessions.h - sessions from the inside: what each holds, who may touch
 * it, and the thread that keeps them alive.
 *
 * A session is counted: its owner has one reference, each call that moves bytes
 * and each renewal under way another, so that nobody waits for a reader in order
 * to close. What the last one leaves of a get session is its lease, which the
 * renewer gives back: whoever moves bytes makes no request.
 *
 * One lock guards all sessions of a client. It is a leaf: no request, no
 * transfer and no call of the core is made under it, but grants are read under
 * it by transfers.
 * Threads: any thread, but init and fini.
 */
#ifndef CLIENT_SESSIONS_H
#define CLIENT_SESSIONS_H
#include <pthread.h>
#include <stdatomic.h>

#include "coverage.h"
#include "mc_client_sessions.h"
#include "mci_link.h"
#include "mci_list.h"
#include "mci_map.h"

struct mci_sessions {
    struct mc_client *client;
    pthread_mutex_t lock; /* guards all below, and the sessions */
    pthread_cond_t changed;
    struct mci_link gets; /* open ones */
    struct mci_link gone; /* get sessions whose leases are to be given back */
    struct mci_link puts;
    struct mci_map get_keys;
    struct mci_map put_keys;
    pthread_t renewer;
    bool has_renewer;
    bool is_stopping;
    uint64_t renew_at_ns; /* nothing is due before */
    uint64_t calls;       /* of lists: what a session was last named in */
    _Atomic uint64_t filled_bytes;
};

struct mc_get_session {
    struct mci_link link;    /* in gets, gone, or none */
    struct mci_read_row row; /* of get, or of the last renewal */
    uint64_t lease_end_ns;
    uint64_t renew_ns;
    uint32_t refs;
    uint32_t key_uses; /* by key; 0: the table has it not */
    bool is_over;      /* the lease cannot be had any more */
    uint8_t *sums; /* NULL: none yet; as they stand in sums_place. They do not
                          change until the session is freed */
    struct mci_place sums_place;
    uint8_t key[];
};

struct mc_put_session {
    struct mci_link link; /* in puts */
    struct mci_write_row row;
    struct mci_coverage coverage;
    struct mci_session_sums *sums;  /* NULL: nothing needed them yet */
    uint8_t went[MCI_REPLICAS_MAX]; /* how bytes went, tcp before others */
    uint64_t touch_ns; /* embedded: when the core is to hear of its writer */
    uint64_t call;     /* of the list it was last named in */
    size_t call_row;
    uint32_t refs;
    uint32_t moving; /* calls that write now */
    bool is_complete;
    bool is_sealed;
    bool has_written; /* since it was last told */
    bool is_left;     /* its end did not wait for what moves */
    bool is_ending;   /* by key */
    bool is_over;     /* it was ended or revoked */
    bool in_doubt;    /* bytes of a range that failed may still land */
    uint8_t key[];
};

MC_CHECK_RESULT enum mc_err mci_sessions_init(struct mci_sessions *sessions,
                                              struct mc_client *client);
/* Stops the renewer. Before the link goes. */
void mci_sessions_stop(struct mci_sessions *sessions);
void mci_sessions_fini(struct mci_sessions *sessions);

static inline void mci_sessions_lock(struct mci_sessions *sessions)
{
    (void)pthread_mutex_lock(&sessions->lock);
}
static inline void mci_sessions_unlock(struct mci_sessions *sessions)
{
    (void)pthread_mutex_unlock(&sessions->lock);
}
/* Waits for a change, and never long: clocks may be those of tests. */
void mci_sessions_wait(struct mci_sessions *sessions);

/* ---- the renewer (client_renewer.c) ---------------------------------------- */

/* Runs from the first session on. Errors: -11. */
MC_CHECK_RESULT enum mc_err mci_renewer_start(struct mci_sessions *sessions);
void mci_renewer_stop(struct mci_sessions *sessions);

/* Something is due then. The lock is held. */
static inline void mci_renewer_note(struct mci_sessions *sessions,
                                    uint64_t at_ns)
{
    if (at_ns < sessions->renew_at_ns) {
        sessions->renew_at_ns = at_ns;
    }
}

/* When a lease that was asked for at `sent` and has so long to go is to be asked
 * for again. Pure. */
void mci_renewal_plan(uint64_t sent_ns, uint64_t left_ns, uint64_t *end_out,
                      uint64_t *renew_out);
/* When an embedded core hears next of a writer that was heard of now. */
uint64_t mci_renewer_tell_at(const struct mci_sessions *sessions,
                             uint64_t now_ns);
/* One step of it, as of now: asks for what is half over, gives back what is
 * gone, tells the core who writes. True: there is more to do at once. */
bool mci_renewer_step(struct mci_sessions *sessions, uint64_t now_ns);

/* ---- get sessions (client_get_sessions.c) ---------------------------------- */

/* The lock is held. Whether its version is still to be had. */
static inline bool mci_get_session_is_live(const struct mc_get_session *session,
                                           uint64_t now_ns)
{
    return !session->is_over && now_ns < session->lease_end_ns;
}
void mci_get_session_free(struct mc_get_session *session); /* in no list */
/* Drops one reference; the lock is held. */
void mci_get_session_drop(struct mci_sessions *sessions,
                          struct mc_get_session *session);
/* Drops one reference of each; NULL ones are passed over. Takes the lock. */
void mci_get_sessions_release(struct mci_sessions *sessions,
                              struct mc_get_session *const *held, size_t count);

/* ---- put sessions (client_put_sessions.c, client_put_ends.c) --------------- */

/* As those of get sessions. */
void mci_put_session_free(struct mc_put_session *session); /* in no list */
void mci_put_session_drop(struct mci_sessions *sessions,
                          struct mc_put_session *session);
void mci_put_sessions_release(struct mci_sessions *sessions,
                              struct mc_put_session *const *held, size_t count);

/* mc_client_put_sessions_open, which is over by a time that the caller sets. */
struct mci_put_opening {
    struct mc_client *client;
    const struct mc_view *keys;
    const uint64_t *sizes;
    const struct mc_replicate_config *config;
    struct mc_replicate_config own; /* of mci_client_config */
    size_t count;
    uint64_t deadline_ns; /* 0: that of the client */
    struct mc_put_session **sessions;
    struct mci_write_row *rows; /* its own */
};
MC_CHECK_RESULT enum mc_err
mci_put_sessions_open(struct mci_put_opening *opening, int64_t *results_out);

/* Nobody ends or revokes it any more, and its keeper's reference is gone: the
 * master takes its attempt back as soon as it hears that nobody knows it. */
void mci_put_session_give_up(struct mci_sessions *sessions,
                             struct mc_put_session *session);

/* mc_client_put_sessions_end and _revoke. doubts_out, per row: bytes of it may
 * still land in its place; rows that are NULL are left alone. */
struct mci_put_finish {
    struct mc_client *client;
    struct mc_put_session *const *sessions;
    size_t count;
    uint64_t deadline_ns;
    bool is_revoke;
    bool *doubts_out; /* NULL: nobody asks */
};
MC_CHECK_RESULT enum mc_err
mci_put_sessions_finish(const struct mci_put_finish *asked,
                        int64_t *results_out);
#endif
