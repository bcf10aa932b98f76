/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_conn.h - one connection as the owner of memory sees it.
 *
 * Requests are done in order. Nothing of a request is believed before its grant
 * has been checked, and the check is made again before every piece of it; where
 * it fails in the middle the connection is cut off, since the stream is out of
 * step. Bytes of a refused write are received to nowhere. What a connection can
 * cost is its own size.
 *
 * Threads: that of its server thread.
 */
#ifndef TCP_CONN_H
#define TCP_CONN_H
#include "tcp_input.h"
#include "tcp_server.h"
#include "tcp_wire.h"

#define MCI_TCP_OUTS 16 /* answers that wait to be sent */

enum mci_tcp_conn_stage {
    MCI_TCP_CONN_HEAD,  /* of the next request */
    MCI_TCP_CONN_WRITE, /* its bytes, into memory */
    MCI_TCP_CONN_DRAIN, /* its bytes, to nowhere */
    MCI_TCP_CONN_SWEEP, /* waits for a sweep, to give a receipt */
    MCI_TCP_CONN_LAST   /* closes once its answers are out */
};

struct mci_tcp_out {             /* an answer */
    struct mci_exposed *exposed; /* held; NULL: no bytes follow */
    struct mc_grant_terms terms;
    struct mc_grant grant;
    uint64_t offset;
    uint64_t len;
    uint8_t head[MCI_TCP_ANSWER_LEN];
};

struct mci_tcp_conn {
    struct mci_watch watch;
    struct mci_tcp_thread *thread;
    struct mci_stream *stream;
    struct mci_link in_thread;
    struct mci_link in_eager;
    struct mci_tcp_sweep *sweep;
    enum mci_tcp_conn_stage stage;
    bool is_dry; /* the socket had no more the last time */
    uint64_t last_number;
    /* the request under way */
    struct mci_tcp_request request;
    struct mci_exposed *exposed; /* held while it writes */
    uint64_t done;
    enum mc_err code;  /* what it answers once it is drained */
    uint64_t moved_ns; /* when a byte last came or went */
    /* answers, a ring */
    uint32_t out_from;
    uint32_t out_count;
    uint64_t out_done; /* bytes of the first that are sent */
    struct mci_tcp_out outs[MCI_TCP_OUTS];
    struct mci_tcp_input input;
};

/* Takes the stream, also on failure. Errors: MC_ERR_NOMEM,
 * MC_ERR_INTERNAL_ERROR. */
MC_CHECK_RESULT enum mc_err mci_tcp_conn_create(struct mci_tcp_thread *thread,
                                                struct mci_stream *stream);
void mci_tcp_conn_destroy(struct mci_tcp_conn *conn); /* cuts it off */

/* Goes on with what it stopped for the sake of others. */
void mci_tcp_conn_go_on(struct mci_tcp_conn *conn);

/* Whether it is in the middle of what would be refused now, or of gone. */
bool mci_tcp_conn_is_over(const struct mci_tcp_conn *conn,
                          const struct mci_exposed *gone);
/* Whether it has stood still in the middle of something for too long. */
bool mci_tcp_conn_is_stalled(const struct mci_tcp_conn *conn, uint64_t now_ns);

/* A sweep has been made on its behalf. */
void mci_tcp_conn_swept(struct mci_tcp_conn *conn);

/* ---- between the files of a connection ---- */

enum mci_tcp_step {
    MCI_TCP_STEP_ON,   /* something was done */
    MCI_TCP_STEP_RECV, /* waits for bytes */
    MCI_TCP_STEP_SEND, /* waits for room */
    MCI_TCP_STEP_WAIT, /* waits for a sweep */
    MCI_TCP_STEP_OVER  /* to be cut off */
};

static inline struct mc_transfer *
mci_tcp_conn_engine(const struct mci_tcp_conn *conn)
{
    return conn->thread->server->transfer;
}

/* Adds the answer to the present request; there must be room. */
struct mci_tcp_out *mci_tcp_conn_answer(struct mci_tcp_conn *conn,
                                        enum mc_err code, uint64_t len,
                                        uint64_t receipt);
void mci_tcp_conn_refuse(struct mci_tcp_conn *conn, enum mc_err code);
/* Sends of the answers what can be sent; adds to *moved_io. */
enum mci_tcp_step mci_tcp_conn_send(struct mci_tcp_conn *conn,
                                    uint64_t *moved_io);
void mci_tcp_conn_drop_answers(struct mci_tcp_conn *conn);
#endif
