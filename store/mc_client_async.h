/* SPDX-License-Identifier: Apache-2.0 */
/* mc_client_async.h - reading and writing without waiting.
 *
 * A queue of operations on a client, with threads of its own. An operation is what
 * a call on a list does, with the same rows and results: objects to or from spans,
 * or ranges of sessions. Submitting returns at once; later the operation
 * completes, once, and is taken, by poll or by wait. Its rows go in parts, of
 * bounded rows and bytes, to whichever worker is free: gets before puts, but after
 * four parts of gets a put that waits goes; puts never have all of several
 * workers. Puts of one operation go in the order of its rows; gets of one may go
 * at the same time, so where their memory overlaps it holds a mixture.
 *
 * Each operation has a deadline, and can be canceled. Either way it completes
 * soon, and no thread touches its memory any more:
 *   - rows that have not begun answer -12 (canceled) or -901 (the deadline came),
 *     their memory is untouched, and nothing has changed in the store;
 *   - rows under way answer as they would, if they get so far; else reads -12,
 *     -800 or -901 (memory holds anything), writes -12, -800 or -901, and no object has
 *     come of them unless -901 says that nobody knows. What writes have begun is
 *     taken back, for at most 4 s after that.
 *
 * The child of a fork may submit, which is refused, and nothing else.
 * Blocking: nothing here but wait and close. Threads: any thread, but close. An
 * operation may be canceled and waited for until it was taken, so not while
 * another thread polls.
 */
#ifndef MC_CLIENT_ASYNC_H
#define MC_CLIENT_ASYNC_H
#include "mc_client_sessions.h"

#ifdef __cplusplus
extern "C" {
#endif

struct mc_async; /* opaque */
struct mc_async_op;

/* All zero = the defaults. */
struct mc_async_opts {
    uint32_t workers;        /* threads; 0 = 4, at most 64. There is one more,
                                which keeps deadlines */
    uint32_t rows_max;       /* of all operations that were not taken, where one
                                without rows counts as one; 0 = 65536 */
    uint32_t rows_per_call;  /* of a part; 0 = 256 */
    uint64_t bytes_per_call; /* of a part that has several rows; 0 = 128 MiB */
};

/* Opens a queue; the caller ends it with mc_async_close, before the client. A
 * client may have several. Threads are made with the first operation.
 * Errors: -600 (workers; NULL), -11. */
MC_CHECK_RESULT enum mc_err mc_async_open(struct mc_client *client,
                                          const struct mc_async_opts *opts,
                                          struct mc_async **async_out);
/* Cancels what has not completed, waits for it and joins. Operations that were
 * not taken are gone. NULL is fine. */
void mc_async_close(struct mc_async *async);

enum mc_async_kind {
    MC_ASYNC_GET = 1,    /* mc_client_batch_get_into_multi_buffers */
    MC_ASYNC_PUT = 2,    /* mc_client_batch_put_from_multi_buffers */
    MC_ASYNC_UPSERT = 3, /* the same, in place of what is there */
    MC_ASYNC_READ = 4,   /* mc_client_get_sessions_read */
    MC_ASYNC_WRITE = 5   /* mc_client_put_sessions_write */
};

/* What to do. The struct is copied; all that it names, keys, lists, vectors and
 * memory, is the caller's and stays as it is until the operation has completed,
 * results are not looked at until then. */
struct mc_async_rows {
    enum mc_async_kind kind;
    size_t count;
    int64_t *results; /* per row, as the call answers */
    uint32_t
        timeout_ms; /* from submit on; 0: the client's transfer_timeout_ms */
    void *ctx;      /* for poll */
    /* GET, PUT, UPSERT */
    const struct mc_view *keys;
    const struct mc_spans *spans;
    const struct mc_replicate_config *config; /* of puts; NULL: none */
    /* READ, WRITE: the one of its kind. Not closed, ended or revoked before it
     * has completed. */
    struct mc_get_session *const *get_sessions;
    struct mc_put_session *const *put_sessions;
    const struct mc_fragments *fragments;
};

/* *op_out is valid until the operation is taken, which another thread may do
 * before this returns.
 * Errors: -600 (as the call would refuse as a whole; count over rows_max), -200
 * (rows_max are not taken yet, or no thread can be made), -1010 (after a fork),
 * -11; then nothing is taken, and results are untouched. */
MC_CHECK_RESULT enum mc_err mc_async_submit(struct mc_async *async,
                                            const struct mc_async_rows *rows,
                                            struct mc_async_op **op_out);

/* Makes the operation complete soon. It is still to be taken. */
void mc_async_cancel(struct mc_async_op *op);

/* Returns when the operation has completed, and takes it; poll does not see it. The
 * caller's thread does what no worker has begun, so that a submit with a wait is
 * the call on the list itself. */
void mc_async_wait(struct mc_async_op *op);

/* Takes up to max operations that have completed; each ctx once. Returns how many.
 * Never blocks. */
size_t mc_async_poll(struct mc_async *async, void **ctxs_out, size_t max);

/* Readable while an operation can be taken by poll; the queue's own, do not close.
 * -1 if it cannot be made. */
int mc_async_eventfd(struct mc_async *async);

#ifdef __cplusplus
}
#endif
#endif
