/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_lane.h - the rows of one call that go to one peer, over one connection.
 *
 * Rows become pieces, each a request; several are outstanding, and answers come
 * in their order. When the connection breaks, what was not answered goes again
 * over a new one, from the first byte that is not known to have moved: same bytes,
 * same attempt. A row that was in the middle twice fails. A connection that
 * had been idle may have been closed by the peer meanwhile, so its first break is
 * nobody's fault.
 *
 * A write has ended at the target when there is a receipt, when nothing of it was
 * ever sent, or when all of it was answered well over a single connection.
 *
 * Threads: that of the call.
 */
#ifndef TCP_LANE_H
#define TCP_LANE_H
#include "engine.h"
#include "tcp_pool.h"
#include "tcp_wire.h"

#define MCI_TCP_WINDOW 32 /* pieces outstanding; power of two */
#define MCI_TCP_WINDOW_BYTES (UINT64_C(64) << 20)
#define MCI_TCP_PIECE_BYTES (UINT64_C(4) << 20)

struct mci_tcp_row { /* a row on its way */
    struct mc_transfer_row *row;
    struct mci_tcp_row *next; /* in its lane */
    enum mci_tcp_op op;
    uint64_t len;
    uint64_t issued;   /* bytes in requests */
    uint64_t answered; /* bytes that have moved, from the first */
    uint64_t receipt;
    uint32_t outstanding; /* pieces */
    uint32_t tries;       /* connections that broke in the middle of it */
    enum mc_err err;
    bool is_issued; /* all of it, or all that will be */
    bool was_sent;  /* a byte of a request, at least */
    bool was_cut;   /* and its connection broke before the answer */
    bool is_over;
};

struct mci_tcp_piece {
    struct mci_tcp_row *row;
    struct mci_tcp_request request;
    uint64_t at; /* in the row */
    uint8_t head[MCI_TCP_REQUEST_LEN];
};

struct mci_tcp_lane {
    struct mci_tcp_peer *peer; /* held */
    struct mci_tcp_link *link; /* one of both, until the lane is over */
    struct mci_tcp_want *want;
    uint64_t deadline_ns;
    enum mc_err why_broken; /* as an owner said; 0: it did not */
    struct mci_tcp_row *first_row;
    struct mci_tcp_row **last_row;
    struct mci_tcp_row *issuing;
    uint32_t rows_left;
    uint32_t breaks;
    bool has_answers; /* over this connection */
    /* pieces, a ring of running numbers: answered < sent <= made */
    uint32_t first;
    uint32_t sent;
    uint32_t made;
    uint64_t window_bytes;
    uint64_t sent_len;  /* of pieces[sent], head and bytes */
    bool is_full;       /* the socket takes no more before it says so */
    uint64_t data_left; /* of the answer to pieces[first] */
    struct mci_span_place out;
    struct mci_span_place in;
    struct mci_tcp_piece pieces[MCI_TCP_WINDOW];
};

void mci_tcp_lane_init(struct mci_tcp_lane *lane, struct mci_tcp_peer *peer,
                       uint64_t deadline_ns);
void mci_tcp_lane_add(struct mci_tcp_lane *lane, struct mci_tcp_row *row);

/* Gets a connection, or asks for one. */
void mci_tcp_lane_start(struct mci_tcp_lane *lane);

static inline bool mci_tcp_lane_is_over(const struct mci_tcp_lane *lane)
{
    return lane->rows_left == 0;
}

/* What to wait for; -1 if there is nothing to wait for any more. */
int mci_tcp_lane_fd(const struct mci_tcp_lane *lane, short *events_out);
/* Bytes are here already. */
bool mci_tcp_lane_has_pending(const struct mci_tcp_lane *lane);

/* Moves what can be moved. events: as poll found. */
void mci_tcp_lane_run(struct mci_tcp_lane *lane, short events);

/* Ends all rows and breaks the connection if something is outstanding. */
void mci_tcp_lane_cut(struct mci_tcp_lane *lane, enum mc_err err);
#endif
