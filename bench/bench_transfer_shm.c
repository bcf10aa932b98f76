/* SPDX-License-Identifier: Apache-2.0 */
/* T6t: reading from another process's memory on the same host, in batches of 32 of
 * 1 MiB, beside memcpy of buffers that are as cold. The owner is a process of its
 * own; the lookup of metadata is not part of it, as it is of T6, the check of each
 * grant is.
 *
 * Both sides walk source pools of the same size, eight times the last cache, and
 * fill the same ring of buffers. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "mc_transfer.h"
#include "mci_clock.h"
#include "mci_segment.h"

#define MIB ((size_t)1 << 20)
#define POOL_BYTES (256 * MIB)
#define BATCH 32

struct work {
    struct mc_transfer *transfer;
    struct mc_target *target;
    struct mc_exposure exposure;
    uint8_t *source; /* the peer's */
    uint8_t *ring;
    size_t at; /* in pool and ring */
};

/* ---- the owner --------------------------------------------------------- */

/* Lends a segment until the pipe is closed. */
static void lend(int tell, int wait)
{
    struct mci_segment segment;
    struct mc_transfer *transfer = NULL;
    struct mc_exposure exposure;
    char byte;
    const struct mci_segment_opts segment_opts = {.bytes = POOL_BYTES};
    const struct mc_transfer_opts opts = {.only = MC_TRANSPORT_SHM};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (mci_segment_init(&segment, &segment_opts) != MC_OK ||
        mc_transfer_open(&opts, &transfer) != MC_OK) {
        return;
    }
    memset(segment.base, 0x5a, POOL_BYTES);
    const struct mc_exposure_opts exposed = {
        .base = segment.base,
        .bytes = segment.bytes,
        .fd = segment.fd,
        .fd_offset = segment.header->data_offset,
        .generation = &segment.header->generation};
    if (mc_transfer_expose(transfer, &exposed, &exposure) == MC_OK &&
        write(tell, &exposure, sizeof exposure) == (ssize_t)sizeof exposure) {
        (void)!read(wait, &byte, 1);
    }
    mc_transfer_close(transfer);
    mci_segment_fini(&segment);
}

struct owner {
    pid_t pid;
    int keep; /* closed: it ends */
};

static bool start_owner(struct owner *owner, struct mc_exposure *exposure_out)
{
    int tell[2];
    int wait[2];
    if (pipe(tell) != 0 || pipe(wait) != 0) {
        return false;
    }
    (void)fflush(NULL);
    owner->pid = fork();
    if (owner->pid == 0) {
        (void)close(tell[0]);
        (void)close(wait[1]);
        lend(tell[1], wait[0]);
        _exit(0);
    }
    (void)close(tell[1]);
    (void)close(wait[0]);
    owner->keep = wait[1];
    ssize_t len = read(tell[0], exposure_out, sizeof *exposure_out);
    (void)close(tell[0]);
    return owner->pid > 0 && len == (ssize_t)sizeof *exposure_out;
}

static void end_owner(const struct owner *owner)
{
    (void)close(owner->keep);
    (void)waitpid(owner->pid, NULL, 0);
}

/* ---- both sides -------------------------------------------------------- */

static void fill_row(struct work *work, struct mc_transfer_row *row,
                     struct mc_span *span)
{
    *span = (struct mc_span){work->ring + work->at, MIB};
    *row = (struct mc_transfer_row){
        .target = work->target,
        .spans = span,
        .span_count = 1,
        .offset = work->at,
        .terms = {.registration = work->exposure.registration,
                  .subject = 1,
                  .offset = work->at,
                  .len = MIB}};
    row->grant.deadline_ns = mci_clock_ns() + 600 * MCI_NS_PER_S;
    row->grant.tag =
        mc_grant_tag(work->exposure.key, &row->terms, row->grant.deadline_ns);
    work->at = (work->at + MIB) % POOL_BYTES;
}

static uint64_t read_batch(void *ctx)
{
    struct work *work = ctx;
    struct mc_transfer_row rows[BATCH];
    struct mc_span spans[BATCH];
    for (size_t i = 0; i < BATCH; i++) {
        fill_row(work, &rows[i], &spans[i]);
    }
    return mc_transfer_run(work->transfer, rows, BATCH,
                           mci_clock_ns() + 60 * MCI_NS_PER_S) == MC_OK
               ? BATCH
               : 0;
}

static uint64_t copy_batch(void *ctx)
{
    struct work *work = ctx;
    for (size_t i = 0; i < BATCH; i++) {
        memcpy(work->ring + work->at, work->source + work->at, MIB);
        bench_keep(work->ring + work->at);
        work->at = (work->at + MIB) % POOL_BYTES;
    }
    return BATCH;
}

static bool ours(void *ctx, double seconds, double *value_out)
{
    return bench_rate(read_batch, ctx, seconds, value_out);
}

static bool peer(void *ctx, double seconds, double *value_out)
{
    return bench_rate(copy_batch, ctx, seconds, value_out);
}

static bool open_peer(struct work *work)
{
    const struct mc_transfer_opts opts = {.only = MC_TRANSPORT_SHM,
                                          .any_memory = true};
    const struct mc_target_opts target = {.registration =
                                              work->exposure.registration,
                                          .bytes = POOL_BYTES,
                                          .shm = work->exposure.shm};
    work->source = malloc(POOL_BYTES);
    work->ring = malloc(POOL_BYTES);
    if (!work->source || !work->ring ||
        mc_transfer_open(&opts, &work->transfer) != MC_OK ||
        mc_target_open(work->transfer, &target, &work->target) != MC_OK) {
        return false;
    }
    memset(work->source, 0x5a, POOL_BYTES);
    memset(work->ring, 0, POOL_BYTES);
    return true;
}

static void run_t6t(struct bench *bench)
{
    struct owner owner = {.pid = -1, .keep = -1};
    struct work work = {.at = 0};
    if (start_owner(&owner, &work.exposure) && open_peer(&work)) {
        (void)bench_rounds(bench, ours, peer, &work);
    } else {
        bench_fail(bench, "no shared memory here");
    }
    mc_target_close(work.target);
    mc_transfer_close(work.transfer);
    end_owner(&owner);
    free(work.source);
    free(work.ring);
}

static const struct bench_target targets[] = {{
    .id = "T6t",
    .what = "rows of 1 MiB read over shared memory / memcpy, cold",
    .unit = "MiB/s",
    .ours = "mckv",
    .peer = "memcpy",
    .better = BENCH_HIGHER,
    .gate = BENCH_NONE,
    .goal = BENCH_NONE,
    .run = run_t6t,
}};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, targets, BENCH_COUNT(targets));
}
