/* SPDX-License-Identifier: Apache-2.0 */
/* The answers of a connection. Those that bring bytes are checked again before
 * each piece; one that nothing was sent of can still become a refusal. */
#include <assert.h>

#include "mc_log.h"
#include "mci_clock.h"
#include "tcp_conn.h"

static struct mci_tcp_out *out_at(struct mci_tcp_conn *conn, uint32_t i)
{
    return &conn->outs[(conn->out_from + i) % MCI_TCP_OUTS];
}

/* The answer to the present request; there is room. */
struct mci_tcp_out *mci_tcp_conn_answer(struct mci_tcp_conn *conn,
                                        enum mc_err code, uint64_t len,
                                        uint64_t receipt)
{
    const struct mci_tcp_answer words = {.op = conn->request.op,
                                         .number = conn->request.number,
                                         .code = code,
                                         .len = len,
                                         .receipt = receipt};
    assert(conn->out_count < MCI_TCP_OUTS);
    struct mci_tcp_out *out = out_at(conn, conn->out_count++);
    out->exposed = NULL;
    out->len = 0;
    mci_tcp_answer_write(&words, out->head);
    return out;
}

void mci_tcp_conn_refuse(struct mci_tcp_conn *conn, enum mc_err code)
{
    mci_count(&mci_tcp_conn_engine(conn)->counters.refused_requests, 1);
    mc_log(MC_LOG_DEBUG, "peer %s: request refused: %s",
           mci_stream_peer(conn->stream), mc_err_text(code));
    (void)mci_tcp_conn_answer(conn, code, 0, 0);
}

static void out_drop(struct mci_tcp_out *out)
{
    if (out->exposed) {
        mci_exposed_release(out->exposed);
        out->exposed = NULL;
    }
}

/* Its grant does not hold any more, and nothing of it has been sent. */
static void out_recode(struct mci_tcp_out *out, enum mc_err code)
{
    struct mci_tcp_answer words = {0};
    enum mc_err err = mci_tcp_answer_read(out->head, &words);
    assert(err == MC_OK);
    (void)err;
    words.code = code;
    words.len = 0;
    mci_tcp_answer_write(&words, out->head);
    out_drop(out);
    out->len = 0;
}

/* Adds what is left of an answer after `done` bytes of it, at most room bytes of
 * data; false: it has begun and may not go on. */
static bool gather_out(struct mci_tcp_out *out, uint64_t done, uint64_t room,
                       struct iovec *parts, int *count_io)
{
    if (out->exposed) {
        uint64_t sent =
            done > MCI_TCP_ANSWER_LEN ? done - MCI_TCP_ANSWER_LEN : 0;
        uint64_t len = out->len - sent < room ? out->len - sent : room;
        enum mc_err err =
            mci_exposed_check(out->exposed, &out->terms, &out->grant,
                              out->offset + sent, len, mci_clock_ns());
        if (err && done > 0) {
            return false;
        }
        if (err) {
            out_recode(out, err);
        }
    }
    if (done < MCI_TCP_ANSWER_LEN) {
        parts[*count_io].iov_base = out->head + done;
        parts[*count_io].iov_len = MCI_TCP_ANSWER_LEN - (size_t)done;
        (*count_io)++;
        done = MCI_TCP_ANSWER_LEN;
    }
    uint64_t sent = done - MCI_TCP_ANSWER_LEN;
    if (out->exposed && sent < out->len) {
        uint64_t len = out->len - sent < room ? out->len - sent : room;
        parts[*count_io].iov_base = out->exposed->base + out->offset + sent;
        parts[*count_io].iov_len = (size_t)len;
        (*count_io)++;
    }
    return true;
}

static void sent_some(struct mci_tcp_conn *conn, uint64_t moved)
{
    conn->out_done += moved;
    while (conn->out_count > 0) {
        struct mci_tcp_out *out = out_at(conn, 0);
        uint64_t whole = MCI_TCP_ANSWER_LEN + out->len;
        if (conn->out_done < whole) {
            return;
        }
        if (out->exposed) {
            mci_count(&mci_tcp_conn_engine(conn)->counters.served_read_bytes,
                      out->len);
            (void)atomic_fetch_add(&conn->thread->server->ended, 1);
        }
        out_drop(out);
        conn->out_done -= whole;
        conn->out_from = (conn->out_from + 1) % MCI_TCP_OUTS;
        conn->out_count--;
    }
}

enum mci_tcp_step mci_tcp_conn_send(struct mci_tcp_conn *conn,
                                    uint64_t *moved_io)
{
    struct iovec parts[2 * MCI_TCP_OUTS];
    uint64_t room = MCI_PIECE_BYTES;
    uint64_t done = conn->out_done;
    size_t moved = 0;
    int count = 0;
    for (uint32_t i = 0; i < conn->out_count && room > 0; i++) {
        struct mci_tcp_out *out = out_at(conn, i);
        if (!gather_out(out, done, room, parts, &count)) {
            return MCI_TCP_STEP_OVER;
        }
        room -= out->len < room ? out->len : room;
        done = 0;
    }
    if (mci_stream_send(conn->stream, parts, count, &moved)) {
        return MCI_TCP_STEP_OVER;
    }
    if (moved == 0) {
        return MCI_TCP_STEP_SEND;
    }
    conn->moved_ns = mci_clock_ns();
    *moved_io += moved;
    sent_some(conn, moved);
    return mci_stream_is_full(conn->stream, parts, count, moved)
               ? MCI_TCP_STEP_SEND
               : MCI_TCP_STEP_ON;
}

void mci_tcp_conn_drop_answers(struct mci_tcp_conn *conn)
{
    for (uint32_t i = 0; i < conn->out_count; i++) {
        out_drop(out_at(conn, i));
    }
    conn->out_count = 0;
}
