/* SPDX-License-Identifier: Apache-2.0 */
/* control_exec_once.c - requests that are no batches: segments, lists, figures,
 * walks, and the end of a client. */
#include "control_job.h"
#include "stat_words.h"

static uint32_t read_nothing(struct mci_job *job, struct mci_slice *slice)
{
    (void)slice;
    mci_unpack_skip(&job->args, 1);
    return 0;
}

static enum mc_err run_nothing(struct mci_job *job, struct mci_slice *slice,
                               uint32_t first, uint32_t count)
{
    (void)job, (void)slice, (void)first, (void)count;
    return MC_OK;
}

static void pack_nil(struct mci_job *job, struct mci_slice *slice,
                     struct mci_pack *pack, uint32_t count)
{
    (void)job, (void)slice, (void)count;
    mci_pack_nil(pack);
}

/* What there is to undo was undone when the slot was entered. */
const struct mci_job_op mci_job_cancel = {
    .head = read_nothing, .run = run_nothing, .pack = pack_nil};

static enum mc_err run_goodbye(struct mci_job *job, struct mci_slice *slice,
                               uint32_t first, uint32_t count)
{
    (void)slice, (void)first, (void)count;
    mci_registry_goodbye(job->ground->registry, job->member, job->call.now_ns);
    return MC_OK;
}

const struct mci_job_op mci_job_goodbye = {
    .head = read_nothing, .run = run_goodbye, .pack = pack_nil};

/* ---- segments ----------------------------------------------------------- */

static uint32_t read_mount(struct mci_job *job, struct mci_slice *slice)
{
    mci_mount_unpack(&job->args, &slice->mount);
    return 0;
}

static enum mc_err run_mount(struct mci_job *job, struct mci_slice *slice,
                             uint32_t first, uint32_t count)
{
    (void)first, (void)count;
    return mci_registry_mount(job->ground->registry, job->member, &slice->mount,
                              job->call.now_ns, &job->segment);
}

static void pack_segment(struct mci_job *job, struct mci_slice *slice,
                         struct mci_pack *pack, uint32_t count)
{
    (void)slice, (void)count;
    mci_pack_u64(pack, job->segment);
}

const struct mci_job_op mci_job_mount = {
    .head = read_mount, .run = run_mount, .pack = pack_segment};

static uint32_t read_unmount(struct mci_job *job, struct mci_slice *slice)
{
    (void)slice;
    mci_unmount_unpack(&job->args, &job->segment, &job->grace_ms);
    return 0;
}

static enum mc_err run_unmount(struct mci_job *job, struct mci_slice *slice,
                               uint32_t first, uint32_t count)
{
    (void)slice, (void)first, (void)count;
    return mci_registry_unmount(job->ground->registry, job->member,
                                job->segment, job->grace_ms, job->call.now_ns);
}

const struct mci_job_op mci_job_unmount = {
    .head = read_unmount, .run = run_unmount, .pack = pack_nil};

static uint32_t read_status(struct mci_job *job, struct mci_slice *slice)
{
    (void)slice;
    (void)mci_unpack_array(&job->args, 1, 1);
    job->segment = mci_unpack_u32(&job->args, UINT32_MAX);
    return 0;
}

static void pack_status(struct mci_job *job, struct mci_slice *slice,
                        struct mci_pack *pack, uint32_t count)
{
    (void)slice, (void)count;
    mci_pack_u64(pack, (uint64_t)mci_registry_segment_status(
                           job->ground->registry, job->segment));
}

const struct mci_job_op mci_job_segment_status = {
    .head = read_status, .run = run_nothing, .pack = pack_status};

static uint32_t read_segments(struct mci_job *job, struct mci_slice *slice)
{
    struct mci_segment_room *room = &slice->segments;
    room->count = mci_unpack_array(&job->args, 0, MCI_SEGMENTS_ASKED_MAX);
    for (uint32_t i = 0; i < room->count && job->args.error == MCI_UNPACK_OK;
         i++) {
        room->numbers[i] = mci_unpack_u32(&job->args, UINT32_MAX);
    }
    return 0;
}

static enum mc_err run_segments(struct mci_job *job, struct mci_slice *slice,
                                uint32_t first, uint32_t count)
{
    (void)first, (void)count;
    struct mci_segment_room *room = &slice->segments;
    if (room->count == 0) {
        room->count = (uint32_t)mci_registry_segments(
            job->ground->registry, 0, room->numbers, MCI_SEGMENTS_ASKED_MAX);
    }
    return MC_OK;
}

static void pack_segments(struct mci_job *job, struct mci_slice *slice,
                          struct mci_pack *pack, uint32_t count)
{
    (void)count;
    struct mci_segment_room *room = &slice->segments;
    mci_pack_array(pack, room->count);
    for (uint32_t i = 0; i < room->count; i++) {
        struct mci_segment_row row;
        bool is_known = mci_registry_segment(
            job->ground->registry, room->numbers[i], &row, &room->texts);
        mci_segment_row_pack(pack, is_known ? &row : NULL);
    }
}

const struct mci_job_op mci_job_segment_get = {
    .head = read_segments, .run = run_segments, .pack = pack_segments};

/* ---- lists and figures -------------------------------------------------- */

static uint32_t read_list(struct mci_job *job, struct mci_slice *slice)
{
    mci_list_args_unpack(&job->args, &slice->list.head);
    return 0;
}

static enum mc_err run_list(struct mci_job *job, struct mci_slice *slice,
                            uint32_t first, uint32_t count)
{
    (void)first, (void)count;
    struct mci_list_room *room = &slice->list;
    struct mci_cursor cursor = {.shard = room->head.shard,
                                .tag = room->head.tag};
    struct mc_view tenant = job->request.tenant;
    enum mc_err err = room->page.rows ? MC_OK : mci_page_init(&room->page);
    if (err != MC_OK) {
        return err;
    }
    if (room->head.is_all) {
        tenant = mc_view_make(NULL, 0);
    } else if (!tenant.data) {
        tenant = mc_view_str("default");
    }
    err = mci_master_list(job->ground->master, tenant, &cursor, &room->page);
    if (err == MC_OK) {
        room->head.shard = cursor.shard;
        room->head.tag = cursor.tag;
        room->head.at_end = cursor.at_end;
    }
    return err;
}

static void pack_list(struct mci_job *job, struct mci_slice *slice,
                      struct mci_pack *pack, uint32_t count)
{
    (void)job, (void)count;
    const struct mci_page *page = &slice->list.page;
    mci_list_pack(pack, &slice->list.head, page->count);
    for (uint32_t i = 0; i < page->count; i++) {
        mci_object_row_pack(pack, &page->rows[i], page->media_ids[i]);
    }
}

const struct mci_job_op mci_job_list = {
    .head = read_list, .run = run_list, .pack = pack_list};

static enum mc_err run_stat(struct mci_job *job, struct mci_slice *slice,
                            uint32_t first, uint32_t count)
{
    (void)first, (void)count;
    const struct mci_control_ground *ground = job->ground;
    struct mci_master_stats stats;
    slice->stat = (struct mci_stat_words){.count = 0};
    mci_master_stat(ground->master, &stats);
    mci_stat_words_put(&slice->stat, &stats);
    if (ground->stat) {
        ground->stat(ground->ctx, &slice->stat);
    }
    return MC_OK;
}

static void pack_stat(struct mci_job *job, struct mci_slice *slice,
                      struct mci_pack *pack, uint32_t count)
{
    (void)job, (void)count;
    mci_stat_pack(pack, &slice->stat);
}

const struct mci_job_op mci_job_stat = {
    .head = read_nothing, .run = run_stat, .pack = pack_stat};

/* ---- walks -------------------------------------------------------------- */

static uint32_t read_regex(struct mci_job *job, struct mci_slice *slice)
{
    (void)slice;
    job->regex = mci_regex_unpack(&job->args, &job->force);
    return 0;
}

static enum mc_err run_regex(struct mci_job *job, struct mci_slice *slice,
                             uint32_t first, uint32_t count)
{
    (void)slice, (void)first, (void)count;
    return mci_master_remove_by_regex(job->ground->master, &job->call,
                                      job->regex, job->force, &job->removed);
}

static uint32_t read_force(struct mci_job *job, struct mci_slice *slice)
{
    (void)slice;
    job->force = mci_unpack_bool(&job->args);
    return 0;
}

static enum mc_err run_remove_all(struct mci_job *job, struct mci_slice *slice,
                                  uint32_t first, uint32_t count)
{
    (void)slice, (void)first, (void)count;
    return mci_master_remove_all(job->ground->master, &job->call, job->force,
                                 &job->removed);
}

static void pack_removed(struct mci_job *job, struct mci_slice *slice,
                         struct mci_pack *pack, uint32_t count)
{
    (void)slice, (void)count;
    mci_pack_u64(pack, job->removed);
}

const struct mci_job_op mci_job_regex = {.is_walk = true,
                                         .head = read_regex,
                                         .run = run_regex,
                                         .pack = pack_removed};

const struct mci_job_op mci_job_remove_all = {.is_walk = true,
                                              .head = read_force,
                                              .run = run_remove_all,
                                              .pack = pack_removed};
