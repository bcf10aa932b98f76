/* SPDX-License-Identifier: Apache-2.0 */
#include "control_job.h"
#include "mci_alloc.h"
#include "mci_clock.h"

/* Of an answer, beside its rows. */
#define ANSWER_HEAD_MAX 64

/* A walk waits for room in the event log in portions, to see in between whether
 * it is still wanted; longer than what makes a bulk producer overdue, or it would
 * never get its turn on a log that stays full. */
#define WALK_LOG_WAIT_NS (300 * MCI_NS_PER_MS)

struct mci_slice *mci_slice_create(void)
{
    return mci_calloc(1, sizeof(struct mci_slice));
}

void mci_slice_destroy(struct mci_slice *slice)
{
    if (slice) {
        mci_page_fini(&slice->list.page);
        mci_free(slice);
    }
}

/* ---- beginning ---------------------------------------------------------- */

static const struct mci_job_op *find_op(enum mci_op op)
{
    static const struct mci_job_op *const table[] = {
        [MCI_OP_GOODBYE] = &mci_job_goodbye,
        [MCI_OP_CANCEL] = &mci_job_cancel,
        [MCI_OP_SEGMENT_MOUNT] = &mci_job_mount,
        [MCI_OP_SEGMENT_UNMOUNT] = &mci_job_unmount,
        [MCI_OP_SEGMENT_STATUS] = &mci_job_segment_status,
        [MCI_OP_SEGMENT_GET] = &mci_job_segment_get,
        [MCI_OP_PUT_START] = &mci_job_put_start,
        [MCI_OP_UPSERT_START] = &mci_job_upsert_start,
        [MCI_OP_PUT_END] = &mci_job_put_end,
        [MCI_OP_PUT_REVOKE] = &mci_job_put_revoke,
        [MCI_OP_ATTEMPT_FATE] = &mci_job_fate,
        [MCI_OP_ATTEMPT_TOUCH] = &mci_job_touch,
        [MCI_OP_GET] = &mci_job_get,
        [MCI_OP_EXIST] = &mci_job_exist,
        [MCI_OP_GET_SIZE] = &mci_job_get_size,
        [MCI_OP_PROBE] = &mci_job_probe,
        [MCI_OP_RENEW_LEASE] = &mci_job_renew,
        [MCI_OP_RELEASE_LEASE] = &mci_job_release,
        [MCI_OP_REMOVE] = &mci_job_remove,
        [MCI_OP_REMOVE_BY_REGEX] = &mci_job_regex,
        [MCI_OP_REMOVE_ALL] = &mci_job_remove_all,
        [MCI_OP_REPLICA_CLEAR] = &mci_job_clear,
        [MCI_OP_LIST] = &mci_job_list,
        [MCI_OP_STAT] = &mci_job_stat,
    };
    size_t number = (size_t)op;
    return number < sizeof table / sizeof table[0] ? table[number] : NULL;
}

static void load(struct mci_job *job, struct mci_slice *slice)
{
    uint32_t left = job->count - job->done;
    job->loaded = left < MCI_SLICE_ROWS ? left : MCI_SLICE_ROWS;
    for (uint32_t i = 0; i < job->loaded; i++) {
        job->op->read(job, slice, i);
    }
    job->is_loaded = true;
    job->was_tried = false;
}

/* To the end and back, before anything is touched. */
static enum mc_err read_through(struct mci_job *job, struct mci_slice *slice)
{
    struct mci_unpack first = job->args;
    enum mc_err err = MC_OK;
    for (uint32_t i = 0; i < job->count && job->args.error == MCI_UNPACK_OK;
         i++) {
        job->op->read(job, slice, 0);
        if (job->op->check && err == MC_OK) {
            err = job->op->check(slice, 0);
        }
    }
    if (mci_unpack_done(&job->args) == MCI_UNPACK_OK) {
        job->args = first;
    }
    return err;
}

enum mci_job_verdict mci_job_begin(struct mci_job *job, struct mci_slice *slice,
                                   const struct mci_unpack *args)
{
    job->op = find_op(job->request.op);
    job->head = *args;
    job->args = *args;
    job->done = 0;
    job->failed = 0;
    job->removed = 0;
    job->is_loaded = false;
    job->err = MC_OK;
    if (!job->op) {
        return MCI_JOB_UNKNOWN;
    }
    job->call = (struct mci_call){.client = job->request.client,
                                  .tenant = job->request.tenant};
    job->count = job->op->head(job, slice);
    if (job->op->is_batch && job->args.error == MCI_UNPACK_ERROR_LENGTH) {
        job->err = MC_ERR_INVALID_PARAMS; /* more rows than may be */
        return MCI_JOB_REFUSED;
    }
    if (job->op->is_batch && job->count <= MCI_SLICE_ROWS) {
        load(job, slice);
    } else if (job->op->is_batch) {
        job->err = read_through(job, slice);
    }
    if (job->args.error != MCI_UNPACK_OK ||
        (!(job->op->is_batch && job->count > MCI_SLICE_ROWS) &&
         mci_unpack_done(&job->args) != MCI_UNPACK_OK)) {
        return MCI_JOB_MALFORMED;
    }
    return job->err == MC_OK ? MCI_JOB_READY : MCI_JOB_REFUSED;
}

size_t mci_job_answer_max(const struct mci_job *job)
{
    return ANSWER_HEAD_MAX + (size_t)job->count * job->op->answer_row_max;
}

/* ---- answering ---------------------------------------------------------- */

static size_t begin_answer(const struct mci_request *request, enum mc_err code,
                           struct mci_pack *pack)
{
    const struct mci_answer answer = {.version = MCI_CONTROL_VERSION,
                                      .slot = request->slot,
                                      .number = request->number,
                                      .code = code};
    return mci_answer_begin(pack, &answer);
}

bool mci_job_refuse(const struct mci_request *request, enum mc_err code,
                    struct mci_buf *buf)
{
    struct mci_pack pack;
    size_t before = buf->len;
    mci_pack_init(&pack, buf);
    size_t at = begin_answer(request, code, &pack);
    mci_pack_nil(&pack);
    if (mci_frame_finish(&pack, at) != MC_OK) {
        buf->len = before;
        return false;
    }
    return true;
}

/* An answer that cannot be written, of something that may have been done, says
 * that the outcome is unknown; the client then undoes what it can. */
static void finish(struct mci_job *job, struct mci_pack *pack)
{
    enum mc_err err = mci_frame_finish(pack, job->answer_at);
    if (err != MC_OK) {
        pack->buf->len = job->answer_at;
        job->err =
            mci_op_mutates(job->request.op) ? MC_ERR_RPC_TIMEOUT : MC_ERR_NOMEM;
        (void)!mci_job_refuse(&job->request, job->err, pack->buf);
    }
}

static enum mci_job_state refuse(struct mci_job *job, enum mc_err err,
                                 struct mci_buf *buf)
{
    job->err = err;
    job->answer_at = buf->len;
    (void)!mci_job_refuse(&job->request, err, buf);
    return MCI_JOB_OVER;
}

/* ---- batches ------------------------------------------------------------ */

static bool has_rows_to_try(const struct mci_job *job,
                            const struct mci_slice *slice)
{
    for (uint32_t i = 0; i < job->loaded; i++) {
        if (job->op->code(slice, i) == MC_ERR_RPC_TIMEOUT) {
            return true;
        }
    }
    return false;
}

static void try_again(struct mci_job *job, struct mci_slice *slice)
{
    for (uint32_t i = 0; i < job->loaded; i++) {
        if (job->op->code(slice, i) == MC_ERR_RPC_TIMEOUT) {
            /* The row has the code of a refusal as well. */
            (void)!job->op->run(job, slice, i, 1);
        }
    }
}

/* Executes what is loaded. An error: all of the request is refused. */
static enum mc_err execute(struct mci_job *job, struct mci_slice *slice,
                           bool is_late)
{
    if (job->was_tried) {
        try_again(job, slice);
        return MC_OK;
    }
    job->was_tried = true;
    if (!is_late) {
        enum mc_err err = job->op->run(job, slice, 0, job->loaded);
        return job->done == 0 ? err : MC_OK;
    }
    if (job->done == 0) {
        return MC_ERR_RPC_TIMEOUT;
    }
    for (uint32_t i = 0; i < job->loaded; i++) {
        job->op->set_code(slice, i, MC_ERR_RPC_TIMEOUT);
    }
    return MC_OK;
}

static void write_rows(struct mci_job *job, struct mci_slice *slice,
                       struct mci_buf *buf)
{
    struct mci_pack pack;
    mci_pack_init(&pack, buf);
    if (job->done == 0) {
        job->answer_at = begin_answer(&job->request, MC_OK, &pack);
        mci_rows_pack(&pack, job->count);
    }
    for (uint32_t i = 0; i < job->loaded; i++) {
        job->failed += job->op->code(slice, i) < 0;
    }
    job->op->pack(job, slice, &pack, job->loaded);
    job->done += job->loaded;
    job->is_loaded = false;
    if (job->done == job->count || pack.err != MC_OK) {
        finish(job, &pack);
        job->count = job->done;
    }
}

static enum mci_job_state run_batch(struct mci_job *job,
                                    struct mci_slice *slice, uint64_t now_ns,
                                    struct mci_buf *buf)
{
    bool is_late = now_ns >= job->deadline_ns;
    if (!job->is_loaded) {
        load(job, slice);
    }
    enum mc_err err = execute(job, slice, is_late);
    if (err != MC_OK) {
        return refuse(job, err, buf);
    }
    if (!is_late && has_rows_to_try(job, slice)) {
        return MCI_JOB_AGAIN;
    }
    write_rows(job, slice, buf);
    return job->done == job->count ? MCI_JOB_OVER : MCI_JOB_MORE;
}

/* ---- the others --------------------------------------------------------- */

static void write_result(struct mci_job *job, struct mci_slice *slice,
                         struct mci_buf *buf)
{
    struct mci_pack pack;
    mci_pack_init(&pack, buf);
    job->answer_at = begin_answer(&job->request, job->err, &pack);
    job->op->pack(job, slice, &pack, 0);
    finish(job, &pack);
}

enum mci_job_state mci_job_run(struct mci_job *job, struct mci_slice *slice,
                               uint64_t now_ns, struct mci_buf *buf)
{
    job->call.now_ns = now_ns;
    if (job->op->is_batch) {
        return run_batch(job, slice, now_ns, buf);
    }
    enum mc_err err = now_ns < job->deadline_ns ? job->op->run(job, slice, 0, 0)
                                                : MC_ERR_RPC_TIMEOUT;
    if (err != MC_OK) {
        return refuse(job, err, buf);
    }
    write_result(job, slice, buf);
    return MCI_JOB_OVER;
}

static bool walk_goes_on(const struct mci_job *job)
{
    return !job->goes_on || job->goes_on(job->goes_on_ctx);
}

void mci_job_walk(struct mci_job *job)
{
    job->call.goes_on = job->goes_on;
    job->call.goes_on_ctx = job->goes_on_ctx;
    uint64_t removed = 0;
    do {
        job->call.now_ns = mci_clock_ns();
        job->call.deadline_ns = job->call.now_ns + WALK_LOG_WAIT_NS;
        job->removed = 0;
        job->err = walk_goes_on(job) ? job->op->run(job, NULL, 0, 0)
                                     : MC_ERR_RPC_TIMEOUT;
        removed += job->removed;
    } while (job->err == MC_ERR_RPC_TIMEOUT && walk_goes_on(job));
    job->removed = removed;
}

void mci_job_walked(struct mci_job *job, struct mci_buf *buf)
{
    if (job->err != MC_OK && job->err != MC_ERR_RPC_TIMEOUT) {
        (void)refuse(job, job->err, buf);
        return;
    }
    write_result(job, NULL, buf);
}
