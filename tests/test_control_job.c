/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs without a server around them: what an answer says has happened, also when
 * memory runs out at any point of it. */
#include <stdio.h>
#include <stdlib.h>

#include "alloc_fail.h"
#include "control_job.h"
#include "mci_bytes.h"
#include "mci_clock.h"
#include "suite.h"

#define EPOCH UINT64_C(0x0123456789abcdef)
#define SLOT 4
#define ROWS 300 /* two slices */
#define KEY_MAX 16

struct scene {
    struct mci_event_log *log;
    struct mci_master *master;
    struct mci_registry *registry;
    struct mci_member *member;
    struct mci_control_ground ground;
    struct mci_slice *slice;
    uint32_t client;
    uint64_t number;
};

static void beat(struct scene *scene)
{
    struct mci_heartbeat heartbeat = {.clock_ns = mci_clock_ns()};
    struct mci_pulse pulse;
    struct mci_pulse_room room = {
        .fences = calloc(MCI_FENCES_MAX, sizeof *room.fences),
        .closed = calloc(MC_ATTEMPTS_MAX, sizeof *room.closed),
        .renewals = calloc(MC_ATTEMPTS_MAX, sizeof *room.renewals)};
    ck_assert_int_eq(mci_registry_heartbeat(scene->registry, scene->member,
                                            &heartbeat, mci_clock_ns(), &room,
                                            &pulse),
                     MC_OK);
    free(room.fences);
    free(room.closed);
    free(room.renewals);
}

static void scene_open(struct scene *scene)
{
    struct mci_welcome welcome;
    uint32_t segment;
    *scene = (struct scene){.number = 0};
    const struct mci_log_opts log = {.epoch = EPOCH};
    ck_assert_int_eq(mci_event_log_create(&log, &scene->log), MC_OK);
    const struct mci_master_opts master = {.log = scene->log, .shards = 1};
    ck_assert_int_eq(mci_master_create(&master, &scene->master), MC_OK);
    const struct mci_registry_opts registry = {.master = scene->master,
                                               .epoch = EPOCH};
    ck_assert_int_eq(mci_registry_create(&registry, &scene->registry), MC_OK);
    const struct mci_hello hello = {
        .version_min = 1, .version_max = 1, .incarnation = 9};
    ck_assert_int_eq(
        mci_registry_hello(scene->registry, &hello, mci_clock_ns(), &welcome),
        MC_OK);
    scene->client = welcome.client;
    ck_assert_int_eq(
        mci_registry_member(scene->registry, welcome.client, 9, &scene->member),
        MC_OK);
    beat(scene);
    const struct mci_mount mount = {.id = {1, 2},
                                    .registration = 3,
                                    .bytes = 1 << 20,
                                    .base = 4096,
                                    .name = mc_view_str("node"),
                                    .endpoint = mc_view_str("node:1"),
                                    .protocol = mc_view_str("tcp")};
    ck_assert_int_eq(mci_registry_mount(scene->registry, scene->member, &mount,
                                        mci_clock_ns(), &segment),
                     MC_OK);
    scene->ground = (struct mci_control_ground){
        .master = scene->master, .registry = scene->registry, .epoch = EPOCH};
    scene->slice = mci_slice_create();
    ck_assert_ptr_nonnull(scene->slice);
}

static void scene_close(struct scene *scene)
{
    mci_slice_destroy(scene->slice);
    mci_member_release(scene->member);
    mci_registry_destroy(scene->registry);
    ck_assert(mci_master_check(scene->master));
    mci_master_destroy(scene->master);
    mci_event_log_destroy(scene->log);
}

static struct mci_request request_of(struct scene *scene, enum mci_op op)
{
    return (struct mci_request){.version = MCI_CONTROL_VERSION,
                                .op = op,
                                .slot = SLOT,
                                .number = ++scene->number,
                                .client = scene->client,
                                .incarnation = 9,
                                .epoch = EPOCH};
}

/* The args of a start, or keys. */
static void write_args(struct mci_buf *args, enum mci_op op)
{
    static char texts[ROWS][KEY_MAX];
    static struct mci_write_row rows[ROWS];
    static struct mc_view keys[ROWS];
    struct mci_pack pack;
    for (int i = 0; i < ROWS; i++) {
        int len = snprintf(texts[i], KEY_MAX, "key-%d", i);
        keys[i] = mc_view_make(texts[i], (size_t)len);
        rows[i] = (struct mci_write_row){.key = keys[i], .size = 8};
    }
    mci_pack_init(&pack, args);
    if (op == MCI_OP_PUT_START) {
        mci_start_pack(&pack, NULL, rows, ROWS);
    } else {
        mci_keys_pack(&pack, keys, ROWS);
    }
    ck_assert_int_eq(mci_pack_done(&pack), MC_OK);
}

/* From begin to end; the code of the answer, or of the refusal. */
static enum mc_err run(struct scene *scene, enum mci_op op,
                       const struct mci_buf *args, struct mci_buf *answer)
{
    struct mci_unpack unpack;
    struct mci_job job = {.ground = &scene->ground,
                          .request = request_of(scene, op),
                          .member = scene->member,
                          .deadline_ns = UINT64_MAX};
    mci_unpack_init(&unpack, mci_buf_view(args));
    enum mci_job_verdict verdict = mci_job_begin(&job, scene->slice, &unpack);
    if (verdict == MCI_JOB_REFUSED) {
        return job.err;
    }
    ck_assert_int_eq(verdict, MCI_JOB_READY);
    while (mci_job_run(&job, scene->slice, mci_clock_ns(), answer) !=
           MCI_JOB_OVER) {
    }
    ck_assert_uint_le(answer->len, mci_job_answer_max(&job));
    return job.err;
}

/* How many rows of the answer to a start were granted. */
static uint64_t granted_in(const struct mci_buf *answer)
{
    struct mci_unpack unpack;
    struct mci_answer head;
    uint64_t granted = 0;
    mci_unpack_init(&unpack, mc_view_make(answer->data + MCI_FRAME_HEAD,
                                          answer->len - MCI_FRAME_HEAD));
    ck_assert_uint_eq(mci_get_le32(answer->data), answer->len - MCI_FRAME_HEAD);
    mci_answer_read(&unpack, &head);
    ck_assert_int_eq(head.code, MC_OK);
    ck_assert_uint_eq(mci_rows_unpack(&unpack), ROWS);
    for (uint32_t i = 0; i < ROWS; i++) {
        struct mci_write_row row;
        mci_started_unpack(&unpack, EPOCH, &row);
        ck_assert(row.err == MC_OK || row.err == MC_ERR_NOMEM);
        granted += row.err == MC_OK;
    }
    ck_assert_int_eq(mci_unpack_done(&unpack), MCI_UNPACK_OK);
    return granted;
}

static uint64_t open_attempts(struct scene *scene)
{
    struct mci_master_stats stats;
    mci_master_stat(scene->master, &stats);
    return stats.attempts;
}

START_TEST(a_start_without_memory_says_what_it_did)
{
    struct scene scene;
    struct mci_buf args;
    struct alloc_fail fail;
    scene_open(&scene);
    mci_buf_init(&args, 1 << 20);
    write_args(&args, MCI_OP_PUT_START);
    ALLOC_FAIL_EACH(fail)
    {
        struct mci_buf answer;
        fail.is_shared = true; /* tables that have grown stay */
        mci_buf_init(&answer, 1 << 20);
        alloc_fail_arm(&fail);
        enum mc_err err = run(&scene, MCI_OP_PUT_START, &args, &answer);
        alloc_fail_disarm(&fail);
        ck_assert(err == MC_OK || alloc_fail_happened(&fail));
        if (err == MC_OK) {
            ck_assert_uint_eq(open_attempts(&scene), granted_in(&answer));
        } else if (err != MC_ERR_RPC_TIMEOUT) {
            /* Refused: nothing was done. Only -901 leaves it open. */
            ck_assert_int_eq(err, MC_ERR_NOMEM);
            ck_assert_uint_eq(open_attempts(&scene), 0);
        }
        mci_registry_given_up(scene.registry, scene.member, SLOT, scene.number,
                              false, mci_clock_ns());
        ck_assert_uint_eq(open_attempts(&scene), 0);
        mci_buf_fini(&answer);
    }
    mci_buf_fini(&args);
    scene_close(&scene);
}
END_TEST

START_TEST(a_read_without_memory_is_refused_or_answered)
{
    struct scene scene;
    struct mci_buf args;
    struct alloc_fail fail;
    static const enum mci_op ops[] = {MCI_OP_GET, MCI_OP_EXIST};
    scene_open(&scene);
    mci_buf_init(&args, 1 << 20);
    write_args(&args, MCI_OP_GET);
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        ALLOC_FAIL_EACH(fail)
        {
            struct mci_buf answer;
            mci_buf_init(&answer, 1 << 20);
            alloc_fail_arm(&fail);
            enum mc_err err = run(&scene, ops[i], &args, &answer);
            alloc_fail_disarm(&fail);
            ck_assert_int_eq(err,
                             alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
            mci_buf_fini(&answer);
        }
    }
    mci_buf_fini(&args);
    scene_close(&scene);
}
END_TEST

START_TEST(what_is_late_is_not_begun)
{
    struct scene scene;
    struct mci_buf args;
    struct mci_buf answer;
    struct mci_unpack unpack;
    scene_open(&scene);
    mci_buf_init(&args, 1 << 20);
    mci_buf_init(&answer, 1 << 20);
    write_args(&args, MCI_OP_PUT_START);
    struct mci_job job = {.ground = &scene.ground,
                          .request = request_of(&scene, MCI_OP_PUT_START),
                          .member = scene.member,
                          .deadline_ns = 1000};
    mci_unpack_init(&unpack, mci_buf_view(&args));
    ck_assert_int_eq(mci_job_begin(&job, scene.slice, &unpack), MCI_JOB_READY);
    /* The first slice in time, the second one not. */
    ck_assert_int_eq(mci_job_run(&job, scene.slice, 999, &answer),
                     MCI_JOB_MORE);
    ck_assert_int_eq(mci_job_run(&job, scene.slice, 1000, &answer),
                     MCI_JOB_OVER);
    ck_assert_uint_eq(open_attempts(&scene), MCI_SLICE_ROWS);
    ck_assert_uint_eq(job.failed, ROWS - MCI_SLICE_ROWS);
    mci_unpack_init(&unpack, mci_buf_view(&args));
    ck_assert_int_eq(mci_job_begin(&job, scene.slice, &unpack), MCI_JOB_READY);
    ck_assert_int_eq(mci_job_run(&job, scene.slice, 1000, &answer),
                     MCI_JOB_OVER);
    ck_assert_int_eq(job.err, MC_ERR_RPC_TIMEOUT);
    mci_buf_fini(&answer);
    mci_buf_fini(&args);
    scene_close(&scene);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("control_job");
    TCase *jobs = tcase_create("jobs");
    tcase_set_timeout(jobs, 60);
    tcase_add_test(jobs, a_start_without_memory_says_what_it_did);
    tcase_add_test(jobs, a_read_without_memory_is_refused_or_answered);
    tcase_add_test(jobs, what_is_late_is_not_begun);
    suite_add_tcase(suite, jobs);
    return suite_run(suite);
}
