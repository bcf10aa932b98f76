/* SPDX-License-Identifier: Apache-2.0 */
/* control_request.c - what becomes of a frame: who asks, has it been done, and
 * if not, which job does it. */
#include "control_conn.h"
#include "mci_clock.h"

/* A job whose rows wait for the event log is tried again after this. */
#define AGAIN_NS MCI_NS_PER_MS

static struct mci_control_poller *home(const struct mci_control_conn *conn)
{
    return conn->poller;
}

/* ---- counting ----------------------------------------------------------- */

static size_t counted_as(enum mci_op op)
{
    return (size_t)op < MCI_OPS_COUNTED ? (size_t)op : 0;
}

static void count_job(struct mci_control_conn *conn, const struct mci_job *job)
{
    struct mci_control_counts *counts = &home(conn)->counts;
    size_t op = counted_as(job->request.op);
    mci_count(&counts->items[op], job->done);
    mci_count(&counts->failed_items[op], job->failed);
    if (job->err != MC_OK) {
        mci_count(&counts->failures[op], 1);
    } else if (job->failed > 0) {
        mci_count(&counts->partial[op], 1);
    }
}

static enum mci_frame_fate refuse(struct mci_control_conn *conn,
                                  const struct mci_request *request,
                                  enum mc_err code)
{
    mci_count(&home(conn)->counts.failures[counted_as(request->op)], 1);
    if (!mci_job_refuse(request, code, &home(conn)->out)) {
        mci_conn_close(conn);
    }
    return MCI_FRAME_DONE;
}

/* ---- slots -------------------------------------------------------------- */

/* Tells a connection that waits, or waited, in a slot. Guarded by the client's
 * lock, so that it stays until it has been told. */
static void mark_woken(struct mci_control_conn *conn, bool is_replaced)
{
    conn->is_woken = true;
    conn->is_replaced = is_replaced;
}

static void wake(struct mci_control_conn *conn)
{
    if (conn) {
        mci_poller_post(conn->poller->poller, &conn->wake);
    }
}

static enum mci_slot_verdict enter(struct mci_control_conn *conn,
                                   struct mci_slot_told *told)
{
    struct mci_control_client *client = conn->client;
    (void)pthread_mutex_lock(&client->lock);
    enum mci_slot_verdict verdict =
        mci_slots_enter(&client->slots, &conn->ask, told);
    if (told->replaced) {
        mark_woken(told->replaced, true);
    }
    if (verdict == MCI_SLOT_KEPT && told->kept.len > 0 &&
        mci_buf_append(&home(conn)->out, told->kept.data, told->kept.len) !=
            MC_OK) {
        told->kept.len = 0; /* done, but what came of it cannot be told */
    }
    (void)pthread_mutex_unlock(&client->lock);
    wake(told->replaced);
    return verdict;
}

static void undo(struct mci_control_conn *conn, uint64_t number, bool was_told)
{
    mci_registry_given_up(conn->server->ground.registry, conn->client->member,
                          conn->ask.slot, number, was_told, mci_clock_ns());
    mci_control_kick(conn->server);
}

/* True if the answer may be sent to this connection. */
static bool leave(struct mci_control_conn *conn, struct mc_view answer)
{
    struct mci_control_client *client = conn->client;
    struct mci_slot_left left;
    do {
        (void)pthread_mutex_lock(&client->lock);
        mci_slots_leave(&client->slots, &conn->ask, answer, &left);
        if (left.waiter) {
            mark_woken(left.waiter, false);
        }
        (void)pthread_mutex_unlock(&client->lock);
        if (left.must_undo) {
            undo(conn, conn->ask.number, false);
            conn->ask.is_undone = true;
        }
    } while (left.must_undo);
    wake(left.waiter);
    return left.may_send;
}

static bool goes_on(struct mci_control_conn *conn)
{
    struct mci_control_client *client = conn->client;
    (void)pthread_mutex_lock(&client->lock);
    bool it_does = mci_slots_goes_on(&client->slots, &conn->ask);
    (void)pthread_mutex_unlock(&client->lock);
    return it_does;
}

/* For walks, on the worker. */
static bool walk_goes_on(void *ctx)
{
    struct mci_control_conn *conn = ctx;
    return !atomic_load(&conn->server->is_stopping) && goes_on(conn) &&
           mci_clock_ns() < conn->job.deadline_ns;
}

/* ---- jobs --------------------------------------------------------------- */

/* Jobs of one slice answer onto what the poller gathers, others onto memory of
 * the connection. */
static struct mci_buf *answer_of(struct mci_control_conn *conn)
{
    return conn->state == MCI_CONN_READS && conn->job.count <= MCI_SLICE_ROWS
               ? &home(conn)->out
               : &conn->answer;
}

static void finish(struct mci_control_conn *conn, struct mci_buf *buf)
{
    const struct mci_job *job = &conn->job;
    count_job(conn, job);
    if (job->request.op == MCI_OP_SEGMENT_UNMOUNT) {
        mci_control_kick(conn->server); /* its slices are due */
    }
    if (conn->ask.kind == MCI_SLOT_READS) {
        return;
    }
    struct mc_view answer =
        mc_view_make(buf->data + job->answer_at, buf->len - job->answer_at);
    if (!leave(conn, answer)) {
        buf->len = job->answer_at;
    }
}

/* Gives the job the poller's slice, and the poller a new one. False: no
 * memory. */
static bool lend_slice(struct mci_control_conn *conn)
{
    struct mci_slice *spare = mci_slice_create();
    if (spare) {
        conn->slice = home(conn)->slice;
        home(conn)->slice = spare;
    }
    return spare != NULL;
}

static void give_slice_back(struct mci_control_conn *conn)
{
    mci_slice_destroy(conn->slice);
    conn->slice = NULL;
}

static enum mci_job_state run_slice(struct mci_control_conn *conn,
                                    uint64_t now_ns, struct mci_buf *buf)
{
    struct mci_slice *slice = conn->slice ? conn->slice : home(conn)->slice;
    enum mci_job_state state = mci_job_run(&conn->job, slice, now_ns, buf);
    if (state == MCI_JOB_AGAIN && !conn->slice && !lend_slice(conn)) {
        /* As if its time were over. */
        state = mci_job_run(&conn->job, slice, UINT64_MAX, buf);
    }
    if (state != MCI_JOB_AGAIN && conn->slice) {
        give_slice_back(conn);
    }
    conn->again_ns = state == MCI_JOB_AGAIN ? now_ns + AGAIN_NS : 0;
    return state;
}

static enum mci_frame_fate start_job(struct mci_control_conn *conn,
                                     uint64_t now_ns)
{
    struct mci_buf *buf = answer_of(conn);
    if (run_slice(conn, now_ns, buf) == MCI_JOB_OVER) {
        finish(conn, buf);
        if (buf == &conn->answer) {
            /* Refused at once, so it is short. */
            (void)!mci_buf_append(&home(conn)->out, buf->data, buf->len);
            mci_buf_clear(buf);
        }
        return MCI_FRAME_DONE;
    }
    conn->state = MCI_CONN_RUNS;
    mci_list_push_back(&home(conn)->running, &conn->running_link);
    return MCI_FRAME_HELD;
}

/* Its answer comes from another thread. */
static void on_walked(struct mci_task *task)
{
    struct mci_control_conn *conn =
        MCI_CONTAINER(task, struct mci_control_conn, walk.done);
    mci_job_walked(&conn->job, &conn->answer);
    finish(conn, &conn->answer);
    mci_conn_go_on(conn);
    mci_conn_settle(conn);
}

static enum mci_frame_fate start_walk(struct mci_control_conn *conn)
{
    conn->job.goes_on = walk_goes_on;
    conn->job.goes_on_ctx = conn;
    conn->walk.job = &conn->job;
    conn->walk.poller = home(conn)->poller;
    conn->walk.done.run = on_walked;
    conn->state = MCI_CONN_WALKS;
    mci_walker_submit(&conn->server->walker, &conn->walk);
    return MCI_FRAME_HELD;
}

/* A job that is nobody's any more. */
static void drop_job(struct mci_control_conn *conn)
{
    mci_list_remove(&conn->running_link);
    if (conn->slice) {
        give_slice_back(conn);
    }
    mci_buf_clear(&conn->answer);
}

void mci_request_step(struct mci_control_conn *conn, uint64_t now_ns)
{
    bool is_read = conn->ask.kind == MCI_SLOT_READS;
    mci_list_remove(&conn->running_link);
    if (!atomic_load(&conn->server->is_stopping) && goes_on(conn)) {
        if (run_slice(conn, now_ns, &conn->answer) != MCI_JOB_OVER) {
            mci_list_push_back(&home(conn)->running, &conn->running_link);
            return;
        }
        finish(conn, &conn->answer);
    } else {
        drop_job(conn);
        if (!is_read) {
            (void)leave(conn, mc_view_make("", 0));
        }
    }
    mci_conn_go_on(conn);
    mci_conn_settle(conn);
}

bool mci_request_abandon(struct mci_control_conn *conn)
{
    bool is_over = false;
    if (conn->state == MCI_CONN_RUNS && conn->ask.kind == MCI_SLOT_READS) {
        drop_job(conn);
        is_over = true;
    } else if (conn->state == MCI_CONN_WAITS) {
        (void)pthread_mutex_lock(&conn->client->lock);
        is_over = !conn->is_woken &&
                  mci_slots_forget(&conn->client->slots, conn->ask.slot, conn);
        (void)pthread_mutex_unlock(&conn->client->lock);
    }
    return is_over;
}

/* ---- requests in slots -------------------------------------------------- */

static enum mci_frame_fate execute(struct mci_control_conn *conn,
                                   uint64_t now_ns)
{
    struct mci_slot_told told;
    const struct mci_request *request = &conn->job.request;
    switch (enter(conn, &told)) {
    case MCI_SLOT_EXECUTE:
        if (told.given_up != 0) {
            undo(conn, told.given_up, true);
        }
        return conn->job.op->is_walk ? start_walk(conn)
                                     : start_job(conn, now_ns);
    case MCI_SLOT_WAIT:
        conn->state = MCI_CONN_WAITS;
        return MCI_FRAME_HELD;
    case MCI_SLOT_KEPT:
        mci_count(&home(conn)->counts.repeated, 1);
        return told.kept.len > 0 ? MCI_FRAME_DONE
                                 : refuse(conn, request, MC_ERR_RPC_TIMEOUT);
    case MCI_SLOT_STALE:
        mci_count(&home(conn)->counts.stale, 1);
        return refuse(conn, request, MC_ERR_INVALID_VERSION);
    case MCI_SLOT_FULL:
        return refuse(conn, request, MC_ERR_NO_AVAILABLE_HANDLE);
    default:
        return refuse(conn, request, MC_ERR_NOMEM);
    }
}

static enum mci_slot_kind kind_of(enum mci_op op)
{
    if (op == MCI_OP_CANCEL) {
        return MCI_SLOT_CANCELS;
    }
    return mci_op_mutates(op) ? MCI_SLOT_CHANGES : MCI_SLOT_READS;
}

/* Goodbye stands outside of slots: there is nothing after it. */
static enum mci_frame_fate say_goodbye(struct mci_control_conn *conn,
                                       uint64_t now_ns)
{
    (void)mci_job_run(&conn->job, home(conn)->slice, now_ns, &home(conn)->out);
    mci_control_kick(conn->server);
    return MCI_FRAME_DONE;
}

/* What is executed in slices, or waits, needs its frame in one place for as long
 * as that lasts. False: no memory. */
static bool keep_frame(struct mci_control_conn *conn,
                       struct mci_request *request, struct mci_unpack *args)
{
    if (!conn->bytes_at) {
        return true;
    }
    if (!mci_conn_keep(conn)) {
        return false;
    }
    mci_unpack_init(args, mci_conn_frame(conn));
    mci_request_read(args, request);
    return true;
}

/* Undoing must not come too late. */
static uint64_t deadline_of(const struct mci_control_conn *conn,
                            const struct mci_request *request)
{
    return request->op == MCI_OP_CANCEL || request->op == MCI_OP_GOODBYE
               ? UINT64_MAX
               : conn->frame_ns + request->time_left_ms * MCI_NS_PER_MS;
}

static void set_up(struct mci_control_conn *conn,
                   const struct mci_request *request)
{
    struct mci_job *job = &conn->job;
    job->ground = &conn->server->ground;
    job->request = *request;
    job->member = conn->client->member;
    job->goes_on = NULL;
    job->deadline_ns = deadline_of(conn, request);
    conn->ask = (struct mci_slot_ask){.slot = request->slot,
                                      .number = request->number,
                                      .kind = kind_of(request->op),
                                      .from = conn};
}

static enum mci_job_verdict begin_job(struct mci_control_conn *conn,
                                      struct mci_request *request,
                                      struct mci_unpack *args)
{
    struct mci_job *job = &conn->job;
    set_up(conn, request);
    enum mci_job_verdict verdict = mci_job_begin(job, home(conn)->slice, args);
    if (verdict == MCI_JOB_READY && job->count > MCI_SLICE_ROWS &&
        conn->bytes_at) {
        if (!keep_frame(conn, request, args)) {
            job->err = MC_ERR_NOMEM;
            return MCI_JOB_REFUSED;
        }
        set_up(conn, request);
        verdict = mci_job_begin(job, home(conn)->slice, args);
    }
    return verdict;
}

static enum mci_frame_fate do_job(struct mci_control_conn *conn,
                                  struct mci_request *request,
                                  struct mci_unpack *args)
{
    uint64_t now_ns = mci_clock_ns();
    switch (begin_job(conn, request, args)) {
    case MCI_JOB_READY:
        break;
    case MCI_JOB_REFUSED:
        return refuse(conn, request, conn->job.err);
    case MCI_JOB_UNKNOWN:
        return refuse(conn, request, MC_ERR_NOT_SUPPORTED);
    default:
        return MCI_FRAME_BAD;
    }
    if (request->op == MCI_OP_GOODBYE) {
        return say_goodbye(conn, now_ns);
    }
    conn->ask.answer_max = mci_job_answer_max(&conn->job);
    return execute(conn, now_ns);
}

/* ---- who asks ----------------------------------------------------------- */

static enum mci_frame_fate handle_slotted(struct mci_control_conn *conn,
                                          struct mci_request *request,
                                          struct mci_unpack *args)
{
    if (request->epoch != conn->server->ground.epoch) {
        return refuse(conn, request, MC_ERR_INVALID_VERSION);
    }
    enum mc_err err =
        mci_conn_belong(conn, request->client, request->incarnation);
    if (err != MC_OK) {
        return refuse(conn, request, err);
    }
    if (kind_of(request->op) != MCI_SLOT_READS &&
        !keep_frame(conn, request, args)) {
        return refuse(conn, request, MC_ERR_NOMEM);
    }
    return do_job(conn, request, args);
}

enum mci_frame_fate mci_request_handle(struct mci_control_conn *conn)
{
    struct mci_unpack unpack;
    struct mci_request request;
    mci_unpack_init(&unpack, mci_conn_frame(conn));
    mci_request_read(&unpack, &request);
    if (unpack.error != MCI_UNPACK_OK) {
        return unpack.error == MCI_UNPACK_ERROR_RANGE &&
                       request.version != MCI_CONTROL_VERSION &&
                       request.version != 0
                   ? mci_version_refuse(conn, &request)
                   : MCI_FRAME_BAD;
    }
    mci_count(&home(conn)->counts.requests[counted_as(request.op)], 1);
    if (conn->is_refused && request.op != MCI_OP_HELLO) {
        return MCI_FRAME_BAD;
    }
    switch (request.op) {
    case MCI_OP_HELLO:
        return mci_hello_handle(conn, &request, &unpack);
    case MCI_OP_HEARTBEAT:
        return mci_heartbeat_handle(conn, &request, &unpack);
    default:
        return handle_slotted(conn, &request, &unpack);
    }
}
