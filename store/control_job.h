/* SPDX-License-Identifier: Apache-2.0 */
/* control_job.h - one request on its way through the core, in slices.
 *
 * The args are read from the request's frame, 256 rows at a time, the core and
 * the registry are asked, and the answer is written behind what is in a buffer.
 * A batch over one slice is read through to its end before its first slice
 * touches anything, so a fault in its last row refuses all of it. Rows that found
 * the event log full have changed nothing and are tried again with the next call,
 * until the request's deadline; nothing waits in here.
 *
 * control_exec.c goes through the slices; what the rows of an operation are is
 * said by its entry in one of the tables below.
 * Threads: one thread at a time per job.
 */
#ifndef CONTROL_JOB_H
#define CONTROL_JOB_H
#include "mci_control.h"
#include "registry.h"

#define MCI_SLICE_ROWS 256

/* What requests are executed on. */
struct mci_control_ground {
    struct mci_master *master;
    struct mci_registry *registry;
    uint64_t epoch;
    void (*stat)(void *ctx, struct mci_stat_words *words);
    void *ctx;
};

struct mci_list_room {
    struct mci_list_head head;
    struct mci_page page; /* made with its first use */
};

struct mci_segment_room {
    uint32_t count; /* 0: all */
    uint32_t numbers[MCI_SEGMENTS_ASKED_MAX];
    struct mci_segment_texts texts;
};

/* The rows of one slice; large, so pollers have one and jobs borrow it. */
struct mci_slice {
    union {
        struct mci_write_row writes[MCI_SLICE_ROWS];
        struct mci_read_row reads[MCI_SLICE_ROWS];
        struct {
            struct mc_view keys[MCI_SLICE_ROWS];
            uint64_t numbers[MCI_SLICE_ROWS];
            int64_t results[MCI_SLICE_ROWS];
            struct mc_probe probes[MCI_SLICE_ROWS];
        };
        struct mci_mount mount;
        struct mci_segment_room segments;
        struct mci_stat_words stat;
    };
    struct mci_config_room config;
    struct mci_list_room list;
};

/* NULL: out of memory. */
struct mci_slice *mci_slice_create(void);
void mci_slice_destroy(struct mci_slice *slice); /* NULL is fine */

struct mci_job;

/* How an operation is executed. Batches have read, code and rows of the answer;
 * for the others head reads all of the args, run does it, pack writes the
 * result. */
struct mci_job_op {
    bool is_batch;
    bool is_walk; /* takes long: run is called on the worker, without a slice */
    uint8_t answer_row_max; /* bytes of a row of the answer, at most */
    uint32_t (*head)(struct mci_job *job, struct mci_slice *slice);
    void (*read)(struct mci_job *job, struct mci_slice *slice, uint32_t i);
    /* NULL: rows have nothing that could refuse the whole. */
    enum mc_err (*check)(const struct mci_slice *slice, uint32_t i);
    enum mc_err (*run)(struct mci_job *job, struct mci_slice *slice,
                       uint32_t first, uint32_t count);
    int64_t (*code)(const struct mci_slice *slice, uint32_t i);
    void (*set_code)(struct mci_slice *slice, uint32_t i, enum mc_err code);
    void (*pack)(struct mci_job *job, struct mci_slice *slice,
                 struct mci_pack *pack, uint32_t count);
};

struct mci_job {
    /* Set by whoever begins it. */
    const struct mci_control_ground *ground;
    struct mci_request request;
    struct mci_member *member;
    uint64_t deadline_ns;
    /* Asked between the steps of a walk; NULL: always. */
    bool (*goes_on)(void *ctx);
    void *goes_on_ctx;
    /* Kept by the job. */
    const struct mci_job_op *op;
    struct mci_unpack head; /* at the args */
    struct mci_unpack args; /* at the next row */
    struct mci_call call;
    const struct mc_replicate_config *config;
    struct mc_view regex;
    uint64_t removed;
    uint64_t grace_ms;
    uint32_t segment;
    bool force;
    bool is_named;   /* a get's rows take leases with names */
    uint32_t count;  /* rows of the request */
    uint32_t done;   /* rows whose answer is written */
    uint32_t loaded; /* rows in the slice */
    bool is_loaded;
    bool was_tried; /* what is loaded has been executed, in part */
    uint32_t failed;
    enum mc_err err; /* of the whole */
    size_t answer_at;
};

enum mci_job_verdict {
    MCI_JOB_READY,
    MCI_JOB_REFUSED,   /* job->err says why; nothing was touched */
    MCI_JOB_MALFORMED, /* the frame is not what it says */
    MCI_JOB_UNKNOWN    /* no such operation */
};
/* Reads the args, which begin at `args`, and checks them. The frame must stay
 * where it is until the job is over. */
enum mci_job_verdict mci_job_begin(struct mci_job *job, struct mci_slice *slice,
                                   const struct mci_unpack *args);

/* What the answer will take at most. */
size_t mci_job_answer_max(const struct mci_job *job);

enum mci_job_state {
    MCI_JOB_OVER, /* the answer is complete */
    MCI_JOB_MORE, /* rows are left; the slice may be used by others */
    MCI_JOB_AGAIN /* rows wait for room in the event log: later, and with the
                     same slice */
};
/* Executes one slice. A small batch (at most MCI_SLICE_ROWS) writes to buf only
 * when it is over, others need the same buf each time. */
enum mci_job_state mci_job_run(struct mci_job *job, struct mci_slice *slice,
                               uint64_t now_ns, struct mci_buf *buf);

/* For walks: run on any thread, without a slice, until it is done or goes_on says
 * that it is not wanted any more (by deadline too); then the answer. */
void mci_job_walk(struct mci_job *job);
void mci_job_walked(struct mci_job *job, struct mci_buf *buf);

/* Writes an answer without a result. False: no memory. */
MC_CHECK_RESULT bool mci_job_refuse(const struct mci_request *request,
                                    enum mc_err code, struct mci_buf *buf);

/* ---- tables ------------------------------------------------------------- */

extern const struct mci_job_op mci_job_put_start, mci_job_upsert_start,
    mci_job_put_end, mci_job_put_revoke;
extern const struct mci_job_op mci_job_get, mci_job_exist, mci_job_get_size,
    mci_job_probe, mci_job_touch, mci_job_fate;
extern const struct mci_job_op mci_job_renew, mci_job_release;
extern const struct mci_job_op mci_job_remove, mci_job_clear, mci_job_regex,
    mci_job_remove_all;
extern const struct mci_job_op mci_job_mount, mci_job_unmount,
    mci_job_segment_status, mci_job_segment_get, mci_job_list, mci_job_stat,
    mci_job_cancel, mci_job_goodbye;
#endif
