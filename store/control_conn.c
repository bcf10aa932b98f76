/* SPDX-License-Identifier: Apache-2.0 */
#include "control_conn.h"

#include <sys/epoll.h>
#include <unistd.h>

#include "mc_log.h"
#include "mci_alloc.h"
#include "mci_bytes.h"
#include "mci_clock.h"

/* Bytes taken from one connection before others are looked at. */
/* Of a first frame: hello is short. What begins a handshake of TLS reads as a
 * longer one, and who does that is not left waiting for what nobody sends. */
#define HELLO_LEN_MAX (UINT32_C(64) << 10)
#define TURN_BYTES (4 * MCI_CONN_BYTES)
/* Answers gathered before they are sent. */
#define GATHER_BYTES ((size_t)64 << 10)
#define GROW_MIN ((size_t)64 << 10)
#define BUF_MAX (MC_MESSAGE_LEN_MAX + MCI_FRAME_HEAD + MCI_CONN_BYTES)

/* ---- what is at hand ---------------------------------------------------- */

static const uint8_t *begin_of(const struct mci_control_conn *conn)
{
    if (conn->bytes_at) {
        return conn->bytes_at;
    }
    return conn->in.data ? conn->in.data + conn->in_at : NULL;
}

static size_t left_of(const struct mci_control_conn *conn)
{
    return conn->bytes_at ? (size_t)(conn->bytes_end - conn->bytes_at)
                          : conn->in.len - conn->in_at;
}

struct mc_view mci_conn_frame(const struct mci_control_conn *conn)
{
    return mc_view_make(begin_of(conn) + MCI_FRAME_HEAD,
                        conn->frame_len - MCI_FRAME_HEAD);
}

bool mci_conn_keep(struct mci_control_conn *conn)
{
    if (!conn->bytes_at) {
        return true;
    }
    size_t len = left_of(conn);
    mci_buf_clear(&conn->in);
    conn->in_at = 0;
    if (mci_buf_append(&conn->in, conn->bytes_at, len) != MC_OK) {
        return false;
    }
    conn->bytes_at = NULL;
    return true;
}

static void step_over_frame(struct mci_control_conn *conn)
{
    if (conn->bytes_at) {
        conn->bytes_at += conn->frame_len;
    } else {
        conn->in_at += conn->frame_len;
    }
    conn->frame_len = 0;
    conn->frame_ns = 0;
}

/* What is no whole frame yet waits for the rest of it. */
static void keep_rest(struct mci_control_conn *conn)
{
    size_t len = left_of(conn);
    if (!mci_conn_keep(conn)) {
        mci_conn_close(conn);
        return;
    }
    if (conn->in_at > 0) {
        if (len > 0) {
            memmove(conn->in.data, conn->in.data + conn->in_at, len);
        }
        conn->in.len = len;
        conn->in_at = 0;
    }
    conn->frame_len = 0;
}

/* ---- sending ------------------------------------------------------------ */

static enum mc_err send_some(struct mci_control_conn *conn, const uint8_t *data,
                             size_t len, size_t *sent_out)
{
    *sent_out = 0;
    while (*sent_out < len) {
        size_t moved = 0;
        /* Only read, whatever the type says. */
        const struct iovec part = {.iov_base =
                                       (void *)(uintptr_t)(data + *sent_out),
                                   .iov_len = len - *sent_out};
        enum mc_err err = mci_stream_send(conn->stream, &part, 1, &moved);
        if (err != MC_OK || moved == 0) {
            return err;
        }
        *sent_out += moved;
    }
    return MC_OK;
}

static void send_kept(struct mci_control_conn *conn)
{
    size_t sent = 0;
    if (!conn->stream || !mci_conn_has_unsent(conn)) {
        return;
    }
    if (send_some(conn, conn->out.data + conn->out_at,
                  conn->out.len - conn->out_at, &sent) != MC_OK) {
        mci_conn_close(conn);
        return;
    }
    if (sent > 0) {
        conn->progress_ns = mci_clock_ns();
    }
    conn->out_at += sent;
    if (conn->out_at == conn->out.len) {
        mci_buf_clear(&conn->out);
        conn->out_at = 0;
    }
}

/* Sends what was gathered; the connection keeps what the socket does not
 * take. */
static void send_gathered(struct mci_control_conn *conn)
{
    struct mci_buf *gathered = &conn->poller->out;
    size_t sent = 0;
    if (gathered->len == 0) {
        return;
    }
    if (conn->stream && !mci_conn_has_unsent(conn) &&
        send_some(conn, gathered->data, gathered->len, &sent) != MC_OK) {
        mci_conn_close(conn);
    }
    if (conn->stream && sent < gathered->len &&
        mci_buf_append(&conn->out, gathered->data + sent,
                       gathered->len - sent) != MC_OK) {
        mci_conn_close(conn);
    }
    mci_buf_clear(gathered);
}

/* The answer of a job, which is too large to be copied. */
static void send_answer(struct mci_control_conn *conn)
{
    if (conn->stream && conn->answer.len > 0) {
        if (mci_conn_has_unsent(conn)) {
            if (mci_buf_append(&conn->out, conn->answer.data,
                               conn->answer.len) != MC_OK) {
                mci_conn_close(conn);
            }
        } else {
            struct mci_buf spare = conn->out;
            conn->out = conn->answer;
            conn->out_at = 0;
            conn->answer = spare;
        }
        send_kept(conn);
    }
    mci_buf_clear(&conn->answer);
}

/* ---- frames ------------------------------------------------------------- */

static void end_malformed(struct mci_control_conn *conn)
{
    mci_count(&conn->poller->counts.malformed, 1);
    mc_log(MC_LOG_DEBUG, "control: peer %s: malformed frame",
           conn->stream ? mci_stream_peer(conn->stream) : "?");
    mci_conn_close(conn);
}

/* True if a whole frame is there; its length is taken. */
static bool find_frame(struct mci_control_conn *conn, uint64_t now_ns)
{
    size_t left = left_of(conn);
    if (left > 0 && conn->frame_ns == 0) {
        conn->frame_ns = now_ns;
    }
    if (left < MCI_FRAME_HEAD) {
        conn->frame_len = 0;
        return false;
    }
    uint32_t len = mci_get_le32(begin_of(conn));
    uint32_t len_max = conn->client ? MC_MESSAGE_LEN_MAX : HELLO_LEN_MAX;
    if (len == 0 || len > len_max) {
        end_malformed(conn);
        return false;
    }
    conn->frame_len = MCI_FRAME_HEAD + (size_t)len;
    return left >= conn->frame_len;
}

/* The frame at hand is not done with. */
static void hold(struct mci_control_conn *conn)
{
    send_gathered(conn);
    if (conn->stream && !mci_conn_keep(conn)) {
        mci_conn_close(conn);
    }
}

/* Executes what is complete, as long as answers are taken. */
static void execute(struct mci_control_conn *conn, uint64_t now_ns)
{
    while (conn->stream && !conn->ends && !mci_conn_has_unsent(conn) &&
           find_frame(conn, now_ns)) {
        switch (mci_request_handle(conn)) {
        case MCI_FRAME_DONE:
            step_over_frame(conn);
            break;
        case MCI_FRAME_HELD:
            hold(conn);
            return;
        case MCI_FRAME_MOVES:
            hold(conn);
            if (conn->stream) {
                conn->state = MCI_CONN_MOVES; /* by settle, as the last thing */
            }
            return;
        default:
            end_malformed(conn);
            break;
        }
        if (conn->poller->out.len >= GATHER_BYTES) {
            send_gathered(conn);
        }
    }
    send_gathered(conn);
    if (conn->stream) {
        keep_rest(conn);
    }
}

/* ---- receiving ---------------------------------------------------------- */

/* Where the next bytes go: behind what has come of a frame, or, if that is
 * nothing, into the memory of the poller. Grows as bytes arrive, whatever the
 * head of the frame claims. */
static bool find_room(struct mci_control_conn *conn, struct iovec *part)
{
    if (conn->in.len == 0) {
        part->iov_base = conn->poller->bytes;
        part->iov_len = MCI_CONN_BYTES;
        return true;
    }
    size_t want = GROW_MIN;
    if (conn->in.len >= MCI_FRAME_HEAD) {
        size_t frame = MCI_FRAME_HEAD + (size_t)mci_get_le32(conn->in.data);
        size_t more = conn->in.len > GROW_MIN ? conn->in.len : GROW_MIN;
        want = frame > conn->in.len ? frame - conn->in.len : 1;
        want = want < more ? want : more;
    }
    if (mci_buf_reserve(&conn->in, want) != MC_OK) {
        return false;
    }
    part->iov_base = conn->in.data + conn->in.len;
    part->iov_len = want;
    return true;
}

/* False: nothing came. */
static bool receive(struct mci_control_conn *conn, size_t *moved_out)
{
    struct iovec part;
    *moved_out = 0;
    if (!find_room(conn, &part) ||
        mci_stream_recv(conn->stream, &part, 1, moved_out) != MC_OK) {
        mci_conn_close(conn);
        return false;
    }
    if (*moved_out == 0) {
        return false;
    }
    uint64_t now_ns = mci_clock_ns();
    conn->progress_ns = now_ns;
    if (part.iov_base == conn->poller->bytes) {
        conn->bytes_at = conn->poller->bytes;
        conn->bytes_end = conn->bytes_at + *moved_out;
    } else {
        conn->in.len += *moved_out;
    }
    execute(conn, now_ns);
    return *moved_out == part.iov_len;
}

static void receive_all(struct mci_control_conn *conn)
{
    size_t total = 0;
    bool is_full = true;
    while (is_full && conn->stream && !conn->ends &&
           conn->state == MCI_CONN_READS && !mci_conn_has_unsent(conn)) {
        size_t moved = 0;
        is_full = receive(conn, &moved);
        total += moved;
        is_full =
            (is_full && total < TURN_BYTES) ||
            (conn->stream && moved > 0 && mci_stream_has_pending(conn->stream));
    }
}

void mci_conn_go_on(struct mci_control_conn *conn)
{
    send_answer(conn);
    step_over_frame(conn);
    conn->state = MCI_CONN_READS;
    execute(conn, mci_clock_ns());
    if (conn->stream && mci_stream_has_pending(conn->stream)) {
        receive_all(conn);
    }
}

/* ---- life --------------------------------------------------------------- */

static void on_ready(struct mci_watch *watch, uint32_t events)
{
    struct mci_control_conn *conn =
        MCI_CONTAINER(watch, struct mci_control_conn, watch);
    if (conn->state != MCI_CONN_READS) {
        if (events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP)) {
            mci_conn_close(conn);
        }
    } else if (mci_conn_has_unsent(conn)) {
        send_kept(conn);
        if (conn->stream && !mci_conn_has_unsent(conn)) {
            execute(conn, mci_clock_ns());
            receive_all(conn);
        }
    } else {
        receive_all(conn);
    }
    mci_conn_settle(conn);
}

static uint32_t events_of(const struct mci_control_conn *conn)
{
    if (conn->state != MCI_CONN_READS) {
        return EPOLLRDHUP; /* nobody waits for the answer any more */
    }
    return (uint32_t)(mci_conn_has_unsent(conn)
                          ? mci_stream_send_events(conn->stream)
                          : mci_stream_recv_events(conn->stream));
}

static void conn_free(struct mci_control_conn *conn)
{
    struct mci_control_server *server = conn->server;
    mci_list_remove(&conn->link);
    mci_list_remove(&conn->running_link);
    if (conn->slice) {
        mci_slice_destroy(conn->slice);
    }
    mci_control_client_release(conn->client);
    mci_buf_fini(&conn->in);
    mci_buf_fini(&conn->out);
    mci_buf_fini(&conn->answer);
    mci_free(conn);
    mci_control_leave(server);
}

void mci_conn_settle(struct mci_control_conn *conn)
{
    if (conn->state == MCI_CONN_MOVES) {
        mci_conn_move(conn, mci_control_pulse(conn->server));
        return; /* another poller's from here on */
    }
    if (conn->stream && conn->ends && !mci_conn_has_unsent(conn)) {
        mci_conn_close(conn);
    }
    if (conn->stream) {
        mci_poller_change(conn->poller->poller, &conn->watch, events_of(conn));
    } else if (conn->state == MCI_CONN_READS) {
        conn_free(conn);
    }
}

void mci_conn_close(struct mci_control_conn *conn)
{
    if (!conn->stream) {
        return;
    }
    mci_heartbeat_hung_up(conn);
    if (conn->is_watched) {
        mci_poller_remove(conn->poller->poller, &conn->watch);
        conn->is_watched = false;
    }
    mci_stream_close(conn->stream);
    conn->stream = NULL;
    if (conn->state != MCI_CONN_READS && mci_request_abandon(conn)) {
        conn->state = MCI_CONN_READS;
    }
}

/* On the poller it was moved to. */
static void arrive(struct mci_task *task)
{
    struct mci_control_conn *conn =
        MCI_CONTAINER(task, struct mci_control_conn, move);
    struct mci_control_poller *poller = conn->poller;
    conn->state = MCI_CONN_READS;
    mci_list_push_back(&poller->conns, &conn->link);
    if (atomic_load(&conn->server->is_stopping) ||
        mci_poller_add(poller->poller, &conn->watch,
                       (uint32_t)mci_stream_recv_events(conn->stream)) !=
            MC_OK) {
        mci_conn_close(conn);
    } else {
        conn->is_watched = true;
        if (conn->in.len > 0) {
            execute(conn, mci_clock_ns());
        }
    }
    mci_conn_settle(conn);
}

void mci_conn_move(struct mci_control_conn *conn,
                   struct mci_control_poller *poller)
{
    if (conn->is_watched) {
        mci_poller_remove(conn->poller->poller, &conn->watch);
        conn->is_watched = false;
    }
    mci_list_remove(&conn->link);
    conn->state = MCI_CONN_MOVES;
    conn->poller = poller;
    mci_poller_post(poller->poller, &conn->move);
}

/* On its poller: it waited in a slot. */
static void on_wake(struct mci_task *task)
{
    struct mci_control_conn *conn =
        MCI_CONTAINER(task, struct mci_control_conn, wake);
    (void)pthread_mutex_lock(&conn->client->lock);
    bool is_replaced = conn->is_replaced;
    conn->is_woken = false;
    conn->is_replaced = false;
    (void)pthread_mutex_unlock(&conn->client->lock);
    conn->state = MCI_CONN_READS;
    if (is_replaced) {
        mci_conn_close(conn);
    } else if (conn->stream) {
        execute(conn, mci_clock_ns());
    }
    mci_conn_settle(conn);
}

enum mc_err mci_conn_create(struct mci_control_server *server, int fd,
                            struct mci_control_conn **conn_out)
{
    struct mci_control_conn *conn = mci_calloc(1, sizeof *conn);
    if (!conn) {
        (void)close(fd);
        return MC_ERR_NOMEM;
    }
    enum mc_err err = mci_stream_accept(fd, server->opts.tls, &conn->stream);
    if (err != MC_OK) {
        mci_free(conn);
        return err;
    }
    conn->server = server;
    conn->watch.fd = mci_stream_fd(conn->stream);
    conn->watch.ready = on_ready;
    conn->move.run = arrive;
    conn->wake.run = on_wake;
    conn->progress_ns = mci_clock_ns();
    mci_list_init(&conn->link);
    mci_list_init(&conn->running_link);
    mci_buf_init(&conn->in, BUF_MAX);
    mci_buf_init(&conn->out, 2 * BUF_MAX);
    mci_buf_init(&conn->answer, BUF_MAX);
    *conn_out = conn;
    return MC_OK;
}
