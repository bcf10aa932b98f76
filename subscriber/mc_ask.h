/* SPDX-License-Identifier: Apache-2.0 */
/* mc_ask.h - asks a recovery server: what was published, what can be read now,
 * and where the stream stands (docs/events.md, "The recovery server").
 *
 * One question at a time; a new one ends the one before, and what is late of
 * that never comes. Answers are read strictly: what no server may say, or not
 * in this order, ends the question as bad, with the name of the fault. Events
 * in them are not read here: the frames of an answer are a message for
 * mc_event_read, or of an engine for mc_engine_event_read. Who follows a stream
 * needs none of this: mc_subscriber asks for what it missed by itself.
 *
 * Threads: one thread at a time; a thread of the asker's own reads the socket.
 */
#ifndef MC_ASK_H
#define MC_ASK_H
#include <stdbool.h>
#include <stdint.h>

#include "mc_err.h"
#include "mc_view.h"

#ifdef __cplusplus
extern "C" {
#endif

struct mc_ask;

/* endpoint needed; else all zero = the defaults. Strings are copied. */
struct mc_ask_opts {
    const char *endpoint; /* of the recovery server */
    /* CURVE, as in struct mc_source_opts. Both or none. */
    const char *curve_server_key;
    const char *curve_key_file;
    uint64_t max_queue_bytes; /* answers read but not yet taken; 0 = 64 MiB.
                                 Full: the socket is not read */
};

/* Opens nothing on the network yet. The caller owns it and ends it with
 * mc_ask_close. Errors: MC_ERR_INVALID_PARAMS (no endpoint; keys that are
 * none), MC_ERR_FILE_OPEN_FAIL (the key file), MC_ERR_NOMEM,
 * MC_ERR_INTERNAL_ERROR (no descriptors or threads left). */
MC_CHECK_RESULT enum mc_err mc_ask_open(const struct mc_ask_opts *opts,
                                        struct mc_ask **ask_out);
void mc_ask_close(struct mc_ask *ask); /* NULL is fine */

/* ---- questions ---------------------------------------------------------
 * None waits. A server that cannot be reached is tried until the question ends:
 * waiting for an answer has a time, asking has none. Errors of all:
 * MC_ERR_NO_AVAILABLE_HANDLE (many were asked at once, and those before are
 * still being ended: again in a moment). */

/* Answered by one MC_ANSWER_STATUS. */
MC_CHECK_RESULT enum mc_err mc_ask_status(struct mc_ask *ask);

/* Answered by an MC_ANSWER_BATCH for each message that is kept from number
 * from_seq to the newest at the time of asking, and MC_ANSWER_END. Paced: at
 * most `window` messages are on their way or not taken yet; 0: not paced, for
 * servers that do not know pacing (engines). */
MC_CHECK_RESULT enum mc_err mc_ask_replay(struct mc_ask *ask, uint64_t from_seq,
                                          uint32_t window);

/* Answered by MC_ANSWER_FIRST, MC_ANSWER_ROWS any number of times, and
 * MC_ANSWER_LAST. tenant none: of all. Errors: MC_ERR_INVALID_PARAMS (a tenant
 * that is empty, over MC_TENANT_LEN_MAX or not UTF-8). */
MC_CHECK_RESULT enum mc_err mc_ask_snapshot(struct mc_ask *ask,
                                            struct mc_view tenant);

/* ---- answers ---------------------------------------------------------- */

enum mc_answer_type {
    MC_ANSWER_BATCH = 1, /* frames, number: as it was published */
    MC_ANSWER_END,       /* of a replay; ends the question, and so below */
    MC_ANSWER_FIRST,     /* of a snapshot: epoch, first_id, tail_seq */
    MC_ANSWER_ROWS,      /* frames, number: `stored` events, number from 1 */
    MC_ANSWER_LAST,      /* epoch, last_id, tail_seq; ends it */
    MC_ANSWER_STATUS,    /* epoch, tail_seq, oldest_seq, last_id, keys,
                            backend_id; ends it */
    MC_ANSWER_REFUSED,   /* END where something else is due: too many are
                            asking, it knows no such tenant, or does not know
                            the question; ends it */
    MC_ANSWER_BAD        /* fault: what came is no answer; ends it */
};

#define MC_ANSWER_FRAMES 3

/* What the type does not name is zero. Views are borrowed until the next call
 * with this mc_ask. */
struct mc_answer {
    enum mc_answer_type type;
    struct mc_view frames[MC_ANSWER_FRAMES]; /* topic, number, payload */
    uint64_t number;
    uint64_t epoch;
    uint64_t first_id; /* ids up to it had been given out before the walk */
    uint64_t last_id;  /* ids up to it had been given out when this was said */
    uint64_t tail_seq; /* of the newest message then; 0: none */
    uint64_t oldest_seq; /* of the oldest that is kept; 0: none */
    uint64_t keys;
    struct mc_view backend_id;
    const char *fault; /* static; NULL but for MC_ANSWER_BAD */
};

/* Waits up to timeout_ms (-1: for ever) for the next answer. Errors:
 * MC_ERR_RPC_TIMEOUT (nothing came; the question goes on),
 * MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS (nothing is asked). */
MC_CHECK_RESULT enum mc_err mc_ask_next(struct mc_ask *ask, int timeout_ms,
                                        struct mc_answer *answer_out);

/* Readable (level-triggered) while an answer may be there; owned by it. */
int mc_ask_fd(const struct mc_ask *ask);

#ifdef __cplusplus
}
#endif
#endif
