/* SPDX-License-Identifier: Apache-2.0 */
/* control_exec_write.c - put_start, upsert_start, put_end, put_revoke. */
#include "control_job.h"
#include "mc_session.h"
#include "mci_clock.h"

/* [number, [[segment, offset, deadline, tag]...]] */
#define STARTED_ROW_MAX (1 + 9 + 1 + MCI_REPLICAS_MAX * (1 + 5 + 9 + 9 + 9))
#define CODE_ROW_MAX 5
_Static_assert(STARTED_ROW_MAX <= UINT8_MAX, "fits the table");

static int64_t row_code(const struct mci_slice *slice, uint32_t i)
{
    return slice->writes[i].err;
}

static void set_row_code(struct mci_slice *slice, uint32_t i, enum mc_err code)
{
    slice->writes[i].err = code;
}

/* ---- starts ------------------------------------------------------------- */

static uint32_t read_start_head(struct mci_job *job, struct mci_slice *slice)
{
    return mci_start_unpack(&job->args, &slice->config, &job->config);
}

/* The config stands in the slice, which others have used since. */
static void read_config_again(struct mci_job *job, struct mci_slice *slice)
{
    struct mci_unpack head = job->head;
    (void)mci_start_unpack(&head, &slice->config, &job->config);
}

static void read_start_row(struct mci_job *job, struct mci_slice *slice,
                           uint32_t i)
{
    mci_start_row_unpack(&job->args, &slice->writes[i]);
}

static enum mc_err check_start_row(const struct mci_slice *slice, uint32_t i)
{
    enum mc_err err = mc_session_id_check(slice->writes[i].session_id);
    return err != MC_OK ? err : mci_group_id_check(slice->writes[i].group_id);
}

/* Nobody has learned where these rows may write. */
static void take_back(struct mci_job *job, struct mci_write_row *rows,
                      uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        rows[i].in_doubt = false;
        rows[i].is_spent = true;
    }
    (void)!mci_master_put_revoke(job->ground->master, &job->call, rows, count);
    for (uint32_t i = 0; i < count; i++) {
        if (rows[i].attempt.number != 0) {
            rows[i].attempt.number = 0;
            rows[i].err = MC_ERR_NOMEM;
        }
    }
}

static enum mc_err finish_start(struct mci_job *job, struct mci_write_row *rows,
                                uint32_t count)
{
    uint64_t now_ns = job->call.now_ns;
    uint64_t left_ms = job->deadline_ns > now_ns
                           ? (job->deadline_ns - now_ns) / MCI_NS_PER_MS
                           : 0;
    enum mc_err err = mci_registry_started(
        job->ground->registry, job->member, job->request.slot,
        job->request.number, left_ms, rows, count, now_ns);
    if (err != MC_OK) {
        take_back(job, rows, count);
    }
    return MC_OK;
}

static enum mc_err run_put_start(struct mci_job *job, struct mci_slice *slice,
                                 uint32_t first, uint32_t count)
{
    if (job->done > 0) {
        read_config_again(job, slice);
    }
    struct mci_write_row *rows = &slice->writes[first];
    enum mc_err err = mci_master_put_start(job->ground->master, &job->call,
                                           job->config, rows, count);
    return err != MC_OK ? err : finish_start(job, rows, count);
}

static enum mc_err run_upsert_start(struct mci_job *job,
                                    struct mci_slice *slice, uint32_t first,
                                    uint32_t count)
{
    if (job->done > 0) {
        read_config_again(job, slice);
    }
    struct mci_write_row *rows = &slice->writes[first];
    enum mc_err err = mci_master_upsert_start(job->ground->master, &job->call,
                                              job->config, rows, count);
    return err != MC_OK ? err : finish_start(job, rows, count);
}

static void pack_started(struct mci_job *job, struct mci_slice *slice,
                         struct mci_pack *pack, uint32_t count)
{
    (void)job;
    for (uint32_t i = 0; i < count; i++) {
        mci_started_pack(pack, &slice->writes[i]);
    }
}

const struct mci_job_op mci_job_put_start = {.is_batch = true,
                                             .answer_row_max = STARTED_ROW_MAX,
                                             .head = read_start_head,
                                             .read = read_start_row,
                                             .check = check_start_row,
                                             .run = run_put_start,
                                             .code = row_code,
                                             .set_code = set_row_code,
                                             .pack = pack_started};

const struct mci_job_op mci_job_upsert_start = {.is_batch = true,
                                                .answer_row_max =
                                                    STARTED_ROW_MAX,
                                                .head = read_start_head,
                                                .read = read_start_row,
                                                .check = check_start_row,
                                                .run = run_upsert_start,
                                                .code = row_code,
                                                .set_code = set_row_code,
                                                .pack = pack_started};

/* ---- ends --------------------------------------------------------------- */

static uint32_t read_end_head(struct mci_job *job, struct mci_slice *slice)
{
    (void)slice;
    return mci_rows_unpack(&job->args);
}

/* A row without an attempt is passed over by the core and keeps this code. */
static void read_end_row(struct mci_job *job, struct mci_slice *slice,
                         uint32_t i)
{
    mci_end_row_unpack(&job->args, job->ground->epoch, &slice->writes[i]);
    slice->writes[i].err = MC_ERR_INVALID_VERSION;
}

static enum mc_err run_put_end(struct mci_job *job, struct mci_slice *slice,
                               uint32_t first, uint32_t count)
{
    const struct mci_control_ground *ground = job->ground;
    struct mci_write_row *rows = &slice->writes[first];
    mci_registry_ending(ground->registry, rows, count);
    enum mc_err err =
        mci_master_put_end(ground->master, &job->call, rows, count);
    if (err == MC_OK) {
        mci_registry_ended(ground->registry, job->member, rows, count);
    }
    return err;
}

static enum mc_err run_put_revoke(struct mci_job *job, struct mci_slice *slice,
                                  uint32_t first, uint32_t count)
{
    const struct mci_control_ground *ground = job->ground;
    struct mci_write_row *rows = &slice->writes[first];
    mci_registry_ending(ground->registry, rows, count);
    enum mc_err err =
        mci_master_put_revoke(ground->master, &job->call, rows, count);
    if (err == MC_OK) {
        mci_registry_ended(ground->registry, job->member, rows, count);
    }
    return err;
}

static void pack_ended(struct mci_job *job, struct mci_slice *slice,
                       struct mci_pack *pack, uint32_t count)
{
    (void)job;
    int64_t codes[MCI_SLICE_ROWS];
    for (uint32_t i = 0; i < count; i++) {
        codes[i] = slice->writes[i].err;
    }
    mci_results_more(pack, codes, count);
}

const struct mci_job_op mci_job_put_end = {.is_batch = true,
                                           .answer_row_max = CODE_ROW_MAX,
                                           .head = read_end_head,
                                           .read = read_end_row,
                                           .run = run_put_end,
                                           .code = row_code,
                                           .set_code = set_row_code,
                                           .pack = pack_ended};

const struct mci_job_op mci_job_put_revoke = {.is_batch = true,
                                              .answer_row_max = CODE_ROW_MAX,
                                              .head = read_end_head,
                                              .read = read_end_row,
                                              .run = run_put_revoke,
                                              .code = row_code,
                                              .set_code = set_row_code,
                                              .pack = pack_ended};
