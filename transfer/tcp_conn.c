/* SPDX-License-Identifier: Apache-2.0 */
/* Works in steps: each moves some bytes, or says what to wait for. Answers go out
 * before more is read, but for requests that are here already, so that the
 * answers to a burst of small requests leave in one call. */
#include "tcp_conn.h"

#include <assert.h>
#include <sys/epoll.h>

#include "mc_log.h"
#include "mci_alloc.h"
#include "mci_clock.h"

#define TURN_BYTES (4 * MCI_PIECE_BYTES) /* then others are looked after */
#define HEAD_NS (10 * MCI_NS_PER_S)      /* for the rest of a head */
#define IDLE_NS (60 * MCI_NS_PER_S)      /* where idling is not welcome */
#define DRAIN_NS (10 * MCI_NS_PER_S)     /* between bytes that go nowhere */
#define ANSWER_NS (60 * MCI_NS_PER_S)    /* between bytes of an answer */
#define NOWHERE_BYTES (64u << 10)

/* ---- writes ------------------------------------------------------------------- */

static _Atomic uint32_t *inside_of(const struct mci_tcp_conn *conn)
{
    return mci_tcp_server_inside(conn->thread->server,
                                 conn->request.terms.registration,
                                 conn->request.terms.subject);
}

static void let_go(struct mci_tcp_conn *conn)
{
    if (conn->exposed) {
        mci_exposed_release(conn->exposed);
        conn->exposed = NULL;
    }
}

static enum mc_err check(const struct mci_tcp_conn *conn, uint64_t len)
{
    const struct mci_tcp_request *request = &conn->request;
    return mci_exposed_check(conn->exposed, &request->terms, &request->grant,
                             request->offset + conn->done, len, mci_clock_ns());
}

/* Nobody is inside the attempt, and nobody will be. */
static void give_receipt(struct mci_tcp_conn *conn)
{
    uint64_t receipt =
        mc_grant_receipt(conn->exposed->key, conn->request.terms.registration,
                         conn->request.terms.subject);
    (void)mci_tcp_conn_answer(conn, MC_OK, conn->request.len, receipt);
    let_go(conn);
    conn->stage = MCI_TCP_CONN_HEAD;
}

/* Grants that were renewed meanwhile may end later than the one at hand, but
 * none is made for longer than its bytes may take. */
static void close_attempt(struct mci_tcp_conn *conn)
{
    uint64_t until_ns = mci_clock_ns() +
                        mc_grant_write_ttl_ns(conn->request.terms.len) +
                        2 * MCI_GRANT_SLACK_NS;
    mci_exposed_spend(conn->exposed, conn->request.terms.subject, until_ns);
    if (atomic_load(inside_of(conn)) == 0) {
        give_receipt(conn);
        return;
    }
    conn->stage = MCI_TCP_CONN_SWEEP;
    if (mci_tcp_server_sweep_for(conn->thread, conn, &conn->sweep)) {
        conn->stage = MCI_TCP_CONN_HEAD;
        mci_tcp_conn_refuse(conn, MC_ERR_NOMEM);
        let_go(conn);
    }
}

void mci_tcp_conn_swept(struct mci_tcp_conn *conn)
{
    give_receipt(conn);
    mci_tcp_conn_go_on(conn);
}

static void end_write(struct mci_tcp_conn *conn)
{
    (void)atomic_fetch_sub(inside_of(conn), 1);
    (void)atomic_fetch_add(&conn->thread->server->ended, 1);
    conn->stage = MCI_TCP_CONN_HEAD;
    mci_count(&mci_tcp_conn_engine(conn)->counters.served_written_bytes,
              conn->request.len);
    if (conn->request.is_final) {
        close_attempt(conn);
        return;
    }
    (void)mci_tcp_conn_answer(conn, MC_OK, conn->request.len, 0);
    let_go(conn);
}

/* Counts first and checks then, see the top of tcp_server.h. */
static void begin_write(struct mci_tcp_conn *conn)
{
    conn->done = 0;
    (void)atomic_fetch_add(inside_of(conn), 1);
    conn->code = conn->exposed ? check(conn, conn->request.len)
                               : MC_ERR_SEGMENT_NOT_FOUND;
    conn->stage = MCI_TCP_CONN_WRITE;
    if (conn->code) {
        (void)atomic_fetch_sub(inside_of(conn), 1);
        let_go(conn);
        conn->stage = MCI_TCP_CONN_DRAIN;
    } else if (conn->request.len == 0) {
        end_write(conn);
    }
}

/* Receives to `to`, at most len, which is not 0; *own_out 0: nothing came. */
static enum mci_tcp_step receive(struct mci_tcp_conn *conn, void *to,
                                 size_t len, size_t *own_out)
{
    struct iovec parts[2] = {{.iov_base = to, .iov_len = len}};
    size_t moved = 0;
    *own_out = mci_tcp_input_take(&conn->input, to, len);
    if (*own_out > 0) {
        return MCI_TCP_STEP_ON;
    }
    if (conn->is_dry) {
        return MCI_TCP_STEP_RECV;
    }
    if (mci_tcp_input_recv(&conn->input, conn->stream, parts, 1, own_out,
                           &moved)) {
        return MCI_TCP_STEP_OVER;
    }
    conn->is_dry = !mci_tcp_conn_engine(conn)->tls &&
                   moved < len + sizeof conn->input.bytes;
    return moved > 0 ? MCI_TCP_STEP_ON : MCI_TCP_STEP_RECV;
}

static enum mci_tcp_step write_some(struct mci_tcp_conn *conn,
                                    uint64_t *moved_io)
{
    uint64_t left = conn->request.len - conn->done;
    size_t len = (size_t)(left < MCI_PIECE_BYTES ? left : MCI_PIECE_BYTES);
    size_t own = 0;
    enum mc_err err = check(conn, len);
    if (err) {
        mc_log(MC_LOG_DEBUG, "peer %s: write cut off: %s",
               mci_stream_peer(conn->stream), mc_err_text(err));
        mci_count(&mci_tcp_conn_engine(conn)->counters.refused_requests, 1);
        return MCI_TCP_STEP_OVER;
    }
    enum mci_tcp_step step =
        receive(conn, conn->exposed->base + conn->request.offset + conn->done,
                len, &own);
    if (step != MCI_TCP_STEP_ON) {
        return step;
    }
    conn->done += own;
    *moved_io += own;
    conn->moved_ns = mci_clock_ns();
    if (conn->done == conn->request.len) {
        end_write(conn);
    }
    return MCI_TCP_STEP_ON;
}

static enum mci_tcp_step drain_some(struct mci_tcp_conn *conn,
                                    uint64_t *moved_io)
{
    uint8_t nowhere[NOWHERE_BYTES];
    uint64_t left = conn->request.len - conn->done;
    size_t own = 0;
    if (left > 0) {
        size_t len = left < sizeof nowhere ? (size_t)left : sizeof nowhere;
        enum mci_tcp_step step = receive(conn, nowhere, len, &own);
        if (step != MCI_TCP_STEP_ON) {
            return step;
        }
        conn->done += own;
        *moved_io += own;
        conn->moved_ns = mci_clock_ns();
    }
    if (conn->done == conn->request.len) {
        conn->stage = MCI_TCP_CONN_HEAD;
        mci_tcp_conn_refuse(conn, conn->code);
    }
    return MCI_TCP_STEP_ON;
}

/* ---- requests ------------------------------------------------------------------ */

static void begin_read(struct mci_tcp_conn *conn)
{
    const struct mci_tcp_request *request = &conn->request;
    conn->done = 0;
    enum mc_err err =
        conn->exposed ? check(conn, request->len) : MC_ERR_SEGMENT_NOT_FOUND;
    if (err) {
        mci_tcp_conn_refuse(conn, err);
        let_go(conn);
        return;
    }
    struct mci_tcp_out *out = mci_tcp_conn_answer(conn, MC_OK, request->len, 0);
    out->exposed = conn->exposed; /* with its count */
    out->terms = request->terms;
    out->grant = request->grant;
    out->offset = request->offset;
    out->len = request->len;
    conn->exposed = NULL;
}

/* The tag must be right, but neither a deadline that has passed nor what is
 * closed already stands in the way of closing. */
static void begin_seal(struct mci_tcp_conn *conn)
{
    const struct mci_tcp_request *request = &conn->request;
    if (!conn->exposed) {
        mci_tcp_conn_refuse(conn, MC_ERR_SEGMENT_NOT_FOUND);
        return;
    }
    struct mci_granter granter = mci_exposed_granter(conn->exposed);
    enum mc_err err =
        mci_grant_check_seal(&granter, &request->terms, &request->grant);
    if (err) {
        mci_tcp_conn_refuse(conn, err);
        let_go(conn);
        return;
    }
    close_attempt(conn);
}

static void begin_probe(struct mci_tcp_conn *conn)
{
    (void)mci_tcp_conn_answer(
        conn, conn->exposed ? MC_OK : MC_ERR_SEGMENT_NOT_FOUND, 0, 0);
    let_go(conn);
}

static void begin(struct mci_tcp_conn *conn)
{
    (void)atomic_load(&conn->thread->server->ended);
    conn->exposed = mci_exposed_hold(mci_tcp_conn_engine(conn),
                                     conn->request.terms.registration);
    switch (conn->request.op) {
    case MCI_TCP_READ:
        begin_read(conn);
        break;
    case MCI_TCP_WRITE:
        begin_write(conn);
        break;
    case MCI_TCP_SEAL:
        begin_seal(conn);
        break;
    default:
        begin_probe(conn);
        break;
    }
}

static enum mci_tcp_step read_head(struct mci_tcp_conn *conn)
{
    const uint8_t *head = mci_tcp_input_head(&conn->input, MCI_TCP_REQUEST_LEN);
    enum mc_err err = mci_tcp_request_read(head, &conn->request);
    mci_tcp_input_drop(&conn->input, MCI_TCP_REQUEST_LEN);
    if (err == MC_ERR_NOT_SUPPORTED) {
        conn->request = (struct mci_tcp_request){.op = MCI_TCP_PROBE};
        mci_tcp_conn_refuse(conn, err);
        conn->stage = MCI_TCP_CONN_LAST;
        return MCI_TCP_STEP_ON;
    }
    if (err || conn->request.number != conn->last_number + 1) {
        mc_log(MC_LOG_DEBUG, "peer %s: not a request of ours",
               mci_stream_peer(conn->stream));
        mci_count(&mci_tcp_conn_engine(conn)->counters.refused_requests, 1);
        return MCI_TCP_STEP_OVER;
    }
    conn->last_number++;
    begin(conn);
    return MCI_TCP_STEP_ON;
}

static enum mci_tcp_step receive_head(struct mci_tcp_conn *conn)
{
    struct iovec parts[1];
    size_t own = 0;
    size_t moved = 0;
    size_t room = sizeof conn->input.bytes - mci_tcp_input_len(&conn->input);
    if (conn->is_dry) {
        return MCI_TCP_STEP_RECV;
    }
    if (mci_tcp_input_recv(&conn->input, conn->stream, parts, 0, &own,
                           &moved)) {
        return MCI_TCP_STEP_OVER;
    }
    conn->is_dry = !mci_tcp_conn_engine(conn)->tls && moved < room;
    if (moved == 0) {
        return MCI_TCP_STEP_RECV;
    }
    conn->moved_ns = mci_clock_ns();
    return MCI_TCP_STEP_ON;
}

/* ---- running --------------------------------------------------------------------- */

static enum mci_tcp_step do_step(struct mci_tcp_conn *conn, uint64_t *moved_io)
{
    bool has_head = conn->stage == MCI_TCP_CONN_HEAD &&
                    mci_tcp_input_len(&conn->input) >= MCI_TCP_REQUEST_LEN;
    if (conn->out_count == MCI_TCP_OUTS || (conn->out_count > 0 && !has_head)) {
        return mci_tcp_conn_send(conn, moved_io);
    }
    switch (conn->stage) {
    case MCI_TCP_CONN_HEAD:
        return has_head ? read_head(conn) : receive_head(conn);
    case MCI_TCP_CONN_WRITE:
        return write_some(conn, moved_io);
    case MCI_TCP_CONN_DRAIN:
        return drain_some(conn, moved_io);
    case MCI_TCP_CONN_SWEEP:
        return MCI_TCP_STEP_WAIT;
    default:
        return MCI_TCP_STEP_OVER;
    }
}

static void watch(struct mci_tcp_conn *conn, enum mci_tcp_step step)
{
    int events = 0;
    if (step == MCI_TCP_STEP_RECV) {
        events = mci_stream_recv_events(conn->stream);
    } else if (step == MCI_TCP_STEP_SEND) {
        events = mci_stream_send_events(conn->stream);
    }
    mci_poller_change(conn->thread->poller, &conn->watch, (uint32_t)events);
}

void mci_tcp_conn_go_on(struct mci_tcp_conn *conn)
{
    enum mci_tcp_step step = MCI_TCP_STEP_ON;
    uint64_t moved = 0;
    while (step == MCI_TCP_STEP_ON && moved < TURN_BYTES) {
        step = do_step(conn, &moved);
    }
    if (step == MCI_TCP_STEP_OVER) {
        mci_tcp_conn_destroy(conn);
        return;
    }
    watch(conn, step);
    mci_list_remove(&conn->in_eager);
    if (step == MCI_TCP_STEP_ON) {
        mci_list_push_back(&conn->thread->eager, &conn->in_eager);
    }
}

static void ready(struct mci_watch *watch, uint32_t events)
{
    struct mci_tcp_conn *conn =
        MCI_CONTAINER(watch, struct mci_tcp_conn, watch);
    bool is_broken = (events & (EPOLLERR | EPOLLHUP)) != 0;
    if (is_broken && (conn->stage == MCI_TCP_CONN_SWEEP ||
                      !mci_list_is_empty(&conn->in_eager))) {
        mci_tcp_conn_destroy(conn); /* nothing else would see it */
        return;
    }
    conn->is_dry = false;
    mci_tcp_conn_go_on(conn);
}

/* ---- looking after ----------------------------------------------------------------- */

bool mci_tcp_conn_is_over(const struct mci_tcp_conn *conn,
                          const struct mci_exposed *gone)
{
    if (conn->stage == MCI_TCP_CONN_WRITE &&
        (conn->exposed == gone || check(conn, 0) != MC_OK)) {
        return true;
    }
    for (uint32_t i = 0; i < conn->out_count; i++) {
        const struct mci_exposed *exposed =
            conn->outs[(conn->out_from + i) % MCI_TCP_OUTS].exposed;
        if (exposed &&
            (exposed == gone || atomic_load(&exposed->is_concealed))) {
            return true;
        }
    }
    return false;
}

static bool is_late(uint64_t since_ns, uint64_t patience_ns, uint64_t now_ns)
{
    return now_ns > since_ns && now_ns - since_ns > patience_ns;
}

/* Who has never asked for anything, and everybody in a crowd, may be idle for a
 * while only; others for as long as they like. */
static bool is_idle_too_long(const struct mci_tcp_conn *conn, uint64_t now_ns)
{
    const struct mci_tcp_server *server = conn->thread->server;
    bool is_crowd =
        atomic_load(&server->conn_count) > server->conns_max / 4 * 3;
    return (conn->last_number == 0 || is_crowd) &&
           is_late(conn->moved_ns, IDLE_NS, now_ns);
}

bool mci_tcp_conn_is_stalled(const struct mci_tcp_conn *conn, uint64_t now_ns)
{
    if (conn->out_count > 0) {
        const struct mci_tcp_out *out = &conn->outs[conn->out_from];
        return is_late(conn->moved_ns, ANSWER_NS, now_ns) ||
               (out->exposed && now_ns >= out->grant.deadline_ns);
    }
    switch (conn->stage) {
    case MCI_TCP_CONN_HEAD:
        return mci_tcp_input_len(&conn->input) > 0
                   ? is_late(conn->moved_ns, HEAD_NS, now_ns)
                   : is_idle_too_long(conn, now_ns);
    case MCI_TCP_CONN_WRITE:
        return now_ns >= conn->request.grant.deadline_ns;
    case MCI_TCP_CONN_DRAIN:
        return is_late(conn->moved_ns, DRAIN_NS, now_ns);
    default:
        return false;
    }
}

/* ---- life ----------------------------------------------------------------------------- */

enum mc_err mci_tcp_conn_create(struct mci_tcp_thread *thread,
                                struct mci_stream *stream)
{
    struct mci_tcp_conn *conn = mci_calloc(1, sizeof *conn);
    enum mc_err err = MC_ERR_NOMEM;
    if (!conn) {
        goto err_close;
    }
    conn->thread = thread;
    conn->stream = stream;
    conn->moved_ns = mci_clock_ns();
    conn->watch.ready = ready;
    conn->watch.fd = mci_stream_fd(stream);
    mci_list_init(&conn->in_eager);
    err = mci_poller_add(thread->poller, &conn->watch, EPOLLIN);
    if (err) {
        goto err_free;
    }
    mci_list_push_back(&thread->conns, &conn->in_thread);
    mci_count(&thread->server->transfer->counters.connections, 1);
    return MC_OK;

err_free:
    mci_free(conn);
err_close:
    mci_stream_close(stream);
    return err;
}

void mci_tcp_conn_destroy(struct mci_tcp_conn *conn)
{
    struct mci_tcp_server *server = conn->thread->server;
    mci_poller_remove(conn->thread->poller, &conn->watch);
    mci_stream_abort(conn->stream);
    if (conn->stage == MCI_TCP_CONN_WRITE) {
        (void)atomic_fetch_sub(inside_of(conn), 1);
    }
    if (conn->sweep) {
        mci_tcp_sweep_forget(conn->sweep);
    }
    let_go(conn);
    mci_tcp_conn_drop_answers(conn);
    mci_list_remove(&conn->in_thread);
    mci_list_remove(&conn->in_eager);
    mci_count_down(&server->transfer->counters.connections, 1);
    (void)atomic_fetch_sub(&server->conn_count, 1);
    mci_free(conn);
}
