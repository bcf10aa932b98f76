/* SPDX-License-Identifier: Apache-2.0 */
/* control_exec_lease.c - batches over leases with names: renewed, with grants
 * made anew that end when they do, and released. */
#include "control_job.h"

/* [size, media, lease_left, [[segment, offset, deadline, tag]...]] */
#define RENEWED_ROW_MAX (1 + 3 * 9 + 1 + MCI_REPLICAS_MAX * (1 + 5 + 9 + 9 + 9))
#define CODE_ROW_MAX 5
_Static_assert(RENEWED_ROW_MAX <= UINT8_MAX, "fits the table");

static uint32_t read_head(struct mci_job *job, struct mci_slice *slice)
{
    (void)slice;
    return mci_rows_unpack(&job->args);
}

static void read_row(struct mci_job *job, struct mci_slice *slice, uint32_t i)
{
    mci_lease_row_unpack(&job->args, job->ground->epoch, &slice->reads[i]);
}

static int64_t row_code(const struct mci_slice *slice, uint32_t i)
{
    return slice->reads[i].err;
}

static void set_row_code(struct mci_slice *slice, uint32_t i, enum mc_err code)
{
    slice->reads[i].err = code;
}

static enum mc_err run_renew(struct mci_job *job, struct mci_slice *slice,
                             uint32_t first, uint32_t count)
{
    struct mci_read_row *rows = &slice->reads[first];
    enum mc_err err =
        mci_master_lease_renew(job->ground->master, &job->call, rows, count);
    if (err == MC_OK) {
        mci_registry_granted(job->ground->registry, job->member, rows, count,
                             job->call.now_ns);
    }
    return err;
}

static void pack_renewed(struct mci_job *job, struct mci_slice *slice,
                         struct mci_pack *pack, uint32_t count)
{
    (void)job;
    for (uint32_t i = 0; i < count; i++) {
        mci_renewed_pack(pack, &slice->reads[i]);
    }
}

static enum mc_err run_release(struct mci_job *job, struct mci_slice *slice,
                               uint32_t first, uint32_t count)
{
    return mci_master_lease_release(job->ground->master, &job->call,
                                    &slice->reads[first], count);
}

static void pack_codes(struct mci_job *job, struct mci_slice *slice,
                       struct mci_pack *pack, uint32_t count)
{
    (void)job;
    for (uint32_t i = 0; i < count; i++) {
        mci_pack_i64(pack, slice->reads[i].err);
    }
}

const struct mci_job_op mci_job_renew = {.is_batch = true,
                                         .answer_row_max = RENEWED_ROW_MAX,
                                         .head = read_head,
                                         .read = read_row,
                                         .run = run_renew,
                                         .code = row_code,
                                         .set_code = set_row_code,
                                         .pack = pack_renewed};

const struct mci_job_op mci_job_release = {.is_batch = true,
                                           .answer_row_max = CODE_ROW_MAX,
                                           .head = read_head,
                                           .read = read_row,
                                           .run = run_release,
                                           .code = row_code,
                                           .set_code = set_row_code,
                                           .pack = pack_codes};
