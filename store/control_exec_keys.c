/* SPDX-License-Identifier: Apache-2.0 */
/* control_exec_keys.c - batches over keys: get, exist, get_size, probe, remove,
 * replica_clear, and what is asked of attempts. */
#include "control_job.h"

/* [size, version, media, lease_left, [[segment, offset, deadline, tag]...],
 * lease, ref] */
#define READ_ROW_MAX (1 + 6 * 9 + 1 + MCI_REPLICAS_MAX * (1 + 5 + 9 + 9 + 9))
#define NUMBER_ROW_MAX 9
_Static_assert(READ_ROW_MAX <= UINT8_MAX, "fits the table");

static uint32_t read_rows_head(struct mci_job *job, struct mci_slice *slice)
{
    (void)slice;
    return mci_rows_unpack(&job->args);
}

static void read_key(struct mci_job *job, struct mci_slice *slice, uint32_t i)
{
    slice->keys[i] = mci_key_unpack(&job->args);
}

static int64_t result_code(const struct mci_slice *slice, uint32_t i)
{
    return slice->results[i];
}

static void set_result(struct mci_slice *slice, uint32_t i, enum mc_err code)
{
    slice->results[i] = code;
}

static void pack_results(struct mci_job *job, struct mci_slice *slice,
                         struct mci_pack *pack, uint32_t count)
{
    (void)job;
    mci_results_more(pack, slice->results, count);
}

/* ---- get ---------------------------------------------------------------- */

static uint32_t read_get_head(struct mci_job *job, struct mci_slice *slice)
{
    (void)slice;
    return mci_reads_unpack(&job->args, &job->is_named);
}

static void read_get_row(struct mci_job *job, struct mci_slice *slice,
                         uint32_t i)
{
    slice->reads[i].key = mci_key_unpack(&job->args);
    slice->reads[i].want_hold = false;
    slice->reads[i].want_lease = job->is_named;
}

static enum mc_err run_get(struct mci_job *job, struct mci_slice *slice,
                           uint32_t first, uint32_t count)
{
    struct mci_read_row *rows = &slice->reads[first];
    enum mc_err err =
        mci_master_get(job->ground->master, &job->call, rows, count);
    if (err == MC_OK) {
        mci_registry_granted(job->ground->registry, job->member, rows, count,
                             job->call.now_ns);
    }
    return err;
}

static int64_t read_row_code(const struct mci_slice *slice, uint32_t i)
{
    return slice->reads[i].err;
}

static void set_read_row_code(struct mci_slice *slice, uint32_t i,
                              enum mc_err code)
{
    slice->reads[i].err = code;
}

static void pack_read_rows(struct mci_job *job, struct mci_slice *slice,
                           struct mci_pack *pack, uint32_t count)
{
    (void)job;
    for (uint32_t i = 0; i < count; i++) {
        mci_read_row_pack(pack, &slice->reads[i]);
    }
}

const struct mci_job_op mci_job_get = {.is_batch = true,
                                       .answer_row_max = READ_ROW_MAX,
                                       .head = read_get_head,
                                       .read = read_get_row,
                                       .run = run_get,
                                       .code = read_row_code,
                                       .set_code = set_read_row_code,
                                       .pack = pack_read_rows};

/* ---- exist, get_size, probe --------------------------------------------- */

static enum mc_err run_exist(struct mci_job *job, struct mci_slice *slice,
                             uint32_t first, uint32_t count)
{
    return mci_master_exist(job->ground->master, &job->call,
                            &slice->keys[first], count, &slice->results[first]);
}

static enum mc_err run_get_size(struct mci_job *job, struct mci_slice *slice,
                                uint32_t first, uint32_t count)
{
    return mci_master_get_size(job->ground->master, &job->call,
                               &slice->keys[first], count,
                               &slice->results[first]);
}

static enum mc_err run_probe(struct mci_job *job, struct mci_slice *slice,
                             uint32_t first, uint32_t count)
{
    return mci_master_probe(job->ground->master, &job->call,
                            &slice->keys[first], count, &slice->probes[first],
                            &slice->results[first]);
}

static void pack_probes(struct mci_job *job, struct mci_slice *slice,
                        struct mci_pack *pack, uint32_t count)
{
    (void)job;
    for (uint32_t i = 0; i < count; i++) {
        mci_probe_pack(pack, &slice->probes[i], slice->results[i]);
    }
}

const struct mci_job_op mci_job_exist = {.is_batch = true,
                                         .answer_row_max = NUMBER_ROW_MAX,
                                         .head = read_rows_head,
                                         .read = read_key,
                                         .run = run_exist,
                                         .code = result_code,
                                         .set_code = set_result,
                                         .pack = pack_results};

const struct mci_job_op mci_job_get_size = {.is_batch = true,
                                            .answer_row_max = NUMBER_ROW_MAX,
                                            .head = read_rows_head,
                                            .read = read_key,
                                            .run = run_get_size,
                                            .code = result_code,
                                            .set_code = set_result,
                                            .pack = pack_results};

const struct mci_job_op mci_job_probe = {.is_batch = true,
                                         .head = read_rows_head,
                                         .read = read_key,
                                         .run = run_probe,
                                         .code = result_code,
                                         .set_code = set_result,
                                         .pack = pack_probes};

/* ---- remove, replica_clear ---------------------------------------------- */

static uint32_t read_remove_head(struct mci_job *job, struct mci_slice *slice)
{
    (void)slice;
    return mci_remove_unpack(&job->args, &job->force);
}

static enum mc_err run_remove(struct mci_job *job, struct mci_slice *slice,
                              uint32_t first, uint32_t count)
{
    return mci_master_remove(job->ground->master, &job->call,
                             &slice->keys[first], count, job->force,
                             &slice->results[first]);
}

static uint32_t read_clear_head(struct mci_job *job, struct mci_slice *slice)
{
    (void)slice;
    return mci_clear_unpack(&job->args, &job->segment);
}

static enum mc_err run_clear(struct mci_job *job, struct mci_slice *slice,
                             uint32_t first, uint32_t count)
{
    return mci_master_replica_clear(job->ground->master, &job->call,
                                    &slice->keys[first], count, job->segment,
                                    &slice->results[first]);
}

const struct mci_job_op mci_job_remove = {.is_batch = true,
                                          .answer_row_max = NUMBER_ROW_MAX,
                                          .head = read_remove_head,
                                          .read = read_key,
                                          .run = run_remove,
                                          .code = result_code,
                                          .set_code = set_result,
                                          .pack = pack_results};

const struct mci_job_op mci_job_clear = {.is_batch = true,
                                         .answer_row_max = NUMBER_ROW_MAX,
                                         .head = read_clear_head,
                                         .read = read_key,
                                         .run = run_clear,
                                         .code = result_code,
                                         .set_code = set_result,
                                         .pack = pack_results};

/* ---- attempts ----------------------------------------------------------- */

static void read_touch_row(struct mci_job *job, struct mci_slice *slice,
                           uint32_t i)
{
    slice->keys[i] = mci_touch_row_unpack(&job->args, &slice->numbers[i]);
}

static enum mc_err run_touch(struct mci_job *job, struct mci_slice *slice,
                             uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++) {
        const struct mci_attempt attempt = {.epoch = job->ground->epoch,
                                            .number = slice->numbers[i]};
        slice->results[i] = mci_master_attempt_touch(
            job->ground->master, &job->call, slice->keys[i], attempt);
    }
    return MC_OK;
}

static void read_number(struct mci_job *job, struct mci_slice *slice,
                        uint32_t i)
{
    slice->numbers[i] = mci_unpack_u64(&job->args, UINT64_MAX);
}

static enum mc_err run_fate(struct mci_job *job, struct mci_slice *slice,
                            uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++) {
        const struct mci_attempt attempt = {.epoch = job->ground->epoch,
                                            .number = slice->numbers[i]};
        slice->results[i] = mci_master_attempt_fate(job->ground->master,
                                                    job->call.client, attempt);
    }
    return MC_OK;
}

const struct mci_job_op mci_job_touch = {.is_batch = true,
                                         .answer_row_max = NUMBER_ROW_MAX,
                                         .head = read_rows_head,
                                         .read = read_touch_row,
                                         .run = run_touch,
                                         .code = result_code,
                                         .set_code = set_result,
                                         .pack = pack_results};

const struct mci_job_op mci_job_fate = {.is_batch = true,
                                        .answer_row_max = NUMBER_ROW_MAX,
                                        .head = read_rows_head,
                                        .read = read_number,
                                        .run = run_fate,
                                        .code = result_code,
                                        .set_code = set_result,
                                        .pack = pack_results};
