/* SPDX-License-Identifier: Apache-2.0 */
/* mc_client_sessions.h - objects read and written piece by piece.
 *
 * A session resolves once where an object is; after that its bytes move layer by
 * layer without a word to the master. A get session reads one version, which its
 * lease keeps, whatever happens to the key meanwhile; the lease is renewed in the
 * background, for an hour at most, and given back at the end. A put session has
 * an open write, which nobody takes over while its owner lives and writes; its
 * end makes the object readable, its revoke leaves no trace.
 *
 * By handle: each session is its caller's own. By key: names that others know,
 * one table for all of a client; users of one key share its get session.
 *
 * Results are those of the calls on lists in mc_client.h. A call that moves bytes
 * returns when nobody touches the caller's memory any more, whatever it answers.
 * timeout_ms 0: the client's own.
 * Threads: any thread. One handle is closed, ended or revoked once, and not used
 * after that; before mc_client_close, which voids what is left.
 */
#ifndef MC_CLIENT_SESSIONS_H
#define MC_CLIENT_SESSIONS_H
#include "mc_client.h"

#ifdef __cplusplus
extern "C" {
#endif

struct mc_get_session; /* opaque */
struct mc_put_session;

/* A piece of an object and memory, which is registered or the client takes
 * any. */
struct mc_fragment {
    void *data;
    uint64_t offset; /* in the object */
    uint64_t len;
};
/* The fragments of one row; at most MC_SPANS_MAX (-600 of the row). */
struct mc_fragments {
    const struct mc_fragment *rows;
    size_t count;
};

/* ---- reading by handle --------------------------------------------------- */

/* sessions_out: one per row, NULL where its result is a code. Rows: 0, -704, -703,
 * -702 (no copy in memory), -707 (the lease was over on arrival), -400. Errors:
 * -600, -11, those of the link. */
MC_CHECK_RESULT enum mc_err mc_client_get_sessions_open(
    struct mc_client *client, const struct mc_view *keys, size_t count,
    struct mc_get_session **sessions_out, int64_t *results_out);

/* Rows: the sum of its fragments' bytes, 0 for none; -600 (a fragment outside of
 * the object, memory that may not be used, NULL for the session; nothing is read
 * for the row), -707 (the lease was over before, or when the last byte came: what
 * was read is void), -800, -801 (a block that a fragment covers whole is wrong in
 * every copy). Several calls may read one session at a time. */
MC_CHECK_RESULT enum mc_err
mc_client_get_sessions_read(struct mc_client *client,
                            struct mc_get_session *const *sessions,
                            const struct mc_fragments *fragments, size_t count,
                            uint32_t timeout_ms, int64_t *results_out);

/* Gives the leases back. NULL is fine. A lease that cannot be given back ends by
 * itself. */
void mc_client_get_sessions_close(struct mc_client *client,
                                  struct mc_get_session *const *sessions,
                                  size_t count);

/* ---- writing by handle --------------------------------------------------- */

/* Opens a write of sizes[i] bytes per row; the vectors of the config are per row.
 * Rows: 0, -705 (readable, or another write is open), -200, -600, -400. Errors:
 * as mc_client_batch_put, those of the link. */
MC_CHECK_RESULT enum mc_err mc_client_put_sessions_open(
    struct mc_client *client, const struct mc_view *keys, const uint64_t *sizes,
    const struct mc_replicate_config *config, size_t count,
    struct mc_put_session **sessions_out, int64_t *results_out);

/* Rows: the sum of its fragments' bytes, counted once whatever the copies; -600
 * (outside, memory that may not be used, ended or revoked, overlapping another
 * fragment of the call or one on its way in this session; nothing is written for
 * the row), -800 (a copy of a fragment failed: the session stays as it was; what
 * is written there again has to be the same bytes, since those of the failed call
 * may still land), -200 (too many pieces, written out of order). */
MC_CHECK_RESULT enum mc_err
mc_client_put_sessions_write(struct mc_client *client,
                             struct mc_put_session *const *sessions,
                             const struct mc_fragments *fragments, size_t count,
                             uint32_t timeout_ms, int64_t *results_out);

/* Nothing more is written; then the object is readable. What was never written is
 * filled with zeros, or refused if the config says complete.
 * Rows: 0 (published, or dropped since another write of the key became readable
 * first; the handle is gone), -700 (complete, and has a hole: it stays open),
 * -901 (ranges on their way until the deadline, or the master was not heard of),
 * other codes. After all but 0 and -700 the session can only be ended again or
 * revoked. */
MC_CHECK_RESULT enum mc_err
mc_client_put_sessions_end(struct mc_client *client,
                           struct mc_put_session *const *sessions, size_t count,
                           uint32_t timeout_ms, int64_t *results_out);

/* The first bytes that were not written. False: there are none. */
bool mc_client_put_session_hole(struct mc_client *client,
                                const struct mc_put_session *session,
                                uint64_t *from_out, uint64_t *len_out);

/* The write leaves no trace. Waits for ranges on their way until the deadline;
 * where bytes may still land the space is kept back until it is proven that none
 * do. Rows: 0 (the handle is gone), -300 (it was published, or nobody knows what
 * became of it: the handle is gone), other codes (it can be revoked again). */
MC_CHECK_RESULT enum mc_err mc_client_put_sessions_revoke(
    struct mc_client *client, struct mc_put_session *const *sessions,
    size_t count, uint32_t timeout_ms, int64_t *results_out);

/* ---- by key ---------------------------------------------------------------- */

/* As get_sessions_open. A key that has a session in this client is counted once
 * more and answers 0, the version is that of the first start. */
MC_CHECK_RESULT enum mc_err
mc_client_batch_get_session_start(struct mc_client *client,
                                  const struct mc_view *keys, size_t count,
                                  int64_t *results_out);
/* As get_sessions_read; -600: no session. One that answers -707 is dropped. */
MC_CHECK_RESULT enum mc_err mc_client_batch_get_into_multi_buffer_ranges(
    struct mc_client *client, const struct mc_view *keys,
    const struct mc_fragments *fragments, size_t count, int64_t *results_out);
/* Drops one use of each; keys without session are passed over. results_out: 0;
 * may be NULL. */
MC_CHECK_RESULT enum mc_err
mc_client_batch_get_session_end(struct mc_client *client,
                                const struct mc_view *keys, size_t count,
                                int64_t *results_out);

/* As put_sessions_open; -600: the key has one in this client. */
MC_CHECK_RESULT enum mc_err mc_client_batch_put_session_start(
    struct mc_client *client, const struct mc_view *keys, const uint64_t *sizes,
    const struct mc_replicate_config *config, size_t count,
    int64_t *results_out);
/* -600: no session. */
MC_CHECK_RESULT enum mc_err mc_client_batch_put_from_multi_buffer_ranges(
    struct mc_client *client, const struct mc_view *keys,
    const struct mc_fragments *fragments, size_t count, int64_t *results_out);
/* As put_sessions_end and _revoke; -600: no session. A key twice in the list has
 * one result. */
MC_CHECK_RESULT enum mc_err
mc_client_batch_put_session_end(struct mc_client *client,
                                const struct mc_view *keys, size_t count,
                                int64_t *results_out);
MC_CHECK_RESULT enum mc_err
mc_client_batch_put_session_revoke(struct mc_client *client,
                                   const struct mc_view *keys, size_t count,
                                   int64_t *results_out);

#ifdef __cplusplus
}
#endif
#endif
