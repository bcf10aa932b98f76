/* SPDX-License-Identifier: Apache-2.0 */
/* engine.c - opens, checks and runs. */
#include "engine.h"

#include "mci_alloc.h"

enum mc_err mc_transfer_open(const struct mc_transfer_opts *opts,
                             struct mc_transfer **transfer_out)
{
    (void)opts;
    (void)transfer_out;
    return MC_ERR_NOT_SUPPORTED;
}

void mc_transfer_close(struct mc_transfer *transfer)
{
    (void)transfer;
}

bool mci_engine_is_elsewhere(const struct mc_transfer *transfer)
{
    (void)transfer;
    return false;
}

enum mc_err mc_transfer_register(struct mc_transfer *transfer, void *base,
                                 size_t len)
{
    (void)transfer;
    (void)base;
    (void)len;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_err mc_transfer_unregister(struct mc_transfer *transfer, void *base,
                                   uint64_t deadline_ns)
{
    (void)transfer;
    (void)base;
    (void)deadline_ns;
    return MC_ERR_NOT_SUPPORTED;
}

bool mc_transfer_is_registered(const struct mc_transfer *transfer,
                               const void *base, size_t len)
{
    (void)transfer;
    (void)base;
    (void)len;
    return false;
}

enum mc_err mc_transfer_expose(struct mc_transfer *transfer,
                               const struct mc_exposure_opts *opts,
                               struct mc_exposure *exposure_out)
{
    (void)transfer;
    (void)opts;
    (void)exposure_out;
    return MC_ERR_NOT_SUPPORTED;
}

void mc_transfer_conceal(struct mc_transfer *transfer, uint64_t registration)
{
    (void)transfer;
    (void)registration;
}

enum mc_err mc_transfer_fence(struct mc_transfer *transfer,
                              const struct mc_fence *fences, size_t count,
                              struct mc_fence_stuck *stuck_out,
                              size_t stuck_max, size_t *stuck_count_out)
{
    (void)transfer;
    (void)fences;
    (void)count;
    (void)stuck_out;
    (void)stuck_max;
    (void)stuck_count_out;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_err mc_target_open(struct mc_transfer *transfer,
                           const struct mc_target_opts *opts,
                           struct mc_target **target_out)
{
    (void)transfer;
    (void)opts;
    (void)target_out;
    return MC_ERR_NOT_SUPPORTED;
}

void mc_target_close(struct mc_target *target)
{
    (void)target;
}

enum mc_err mc_target_probe(struct mc_target *target, uint64_t deadline_ns)
{
    (void)target;
    (void)deadline_ns;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_transport_kind mc_target_transport(struct mc_target *target,
                                           uint64_t deadline_ns)
{
    (void)target;
    (void)deadline_ns;
    return MC_TRANSPORT_AUTO;
}

enum mc_err mc_transfer_run(struct mc_transfer *transfer,
                            struct mc_transfer_row *rows, size_t count,
                            uint64_t deadline_ns)
{
    (void)transfer;
    (void)rows;
    (void)count;
    (void)deadline_ns;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_err mc_transfer_seal(struct mc_transfer *transfer,
                             struct mc_transfer_row *rows, size_t count,
                             uint64_t deadline_ns)
{
    (void)transfer;
    (void)rows;
    (void)count;
    (void)deadline_ns;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_err mc_transfer_submit(struct mc_transfer *transfer,
                               struct mc_transfer_row *rows, size_t count,
                               uint64_t deadline_ns, void *ctx,
                               struct mc_transfer_batch **batch_out)
{
    (void)transfer;
    (void)rows;
    (void)count;
    (void)deadline_ns;
    (void)ctx;
    (void)batch_out;
    return MC_ERR_NOT_SUPPORTED;
}

void mc_transfer_cancel(struct mc_transfer_batch *batch)
{
    (void)batch;
}

enum mc_err mc_transfer_wait(struct mc_transfer_batch *batch)
{
    (void)batch;
    return MC_ERR_NOT_SUPPORTED;
}

size_t mc_transfer_poll(struct mc_transfer *transfer, void **ctxs_out,
                        size_t max)
{
    (void)transfer;
    (void)ctxs_out;
    (void)max;
    return 0;
}

int mc_transfer_eventfd(struct mc_transfer *transfer)
{
    (void)transfer;
    return -1;
}

void mc_transfer_stat(const struct mc_transfer *transfer,
                      struct mc_transfer_stats *stats_out)
{
    (void)transfer;
    *stats_out = (struct mc_transfer_stats){.rows = 0};
}

struct mci_exposed *mci_exposed_hold(struct mc_transfer *transfer,
                                     uint64_t registration)
{
    (void)transfer;
    (void)registration;
    return NULL;
}

void mci_exposed_release(struct mci_exposed *exposed)
{
    (void)exposed;
}

enum mc_err mci_exposed_check(struct mci_exposed *exposed,
                              const struct mc_grant_terms *terms,
                              const struct mc_grant *grant, uint64_t offset,
                              uint64_t len, uint64_t now_ns)
{
    (void)exposed;
    (void)terms;
    (void)grant;
    (void)offset;
    (void)len;
    (void)now_ns;
    return MC_ERR_SEGMENT_NOT_FOUND;
}

void mci_exposed_spend(struct mci_exposed *exposed, uint64_t attempt,
                       uint64_t until_ns)
{
    (void)exposed;
    (void)attempt;
    (void)until_ns;
}

bool mci_exposed_is_closed(struct mci_exposed *exposed, uint64_t attempt,
                           uint64_t incarnation)
{
    (void)exposed;
    (void)attempt;
    (void)incarnation;
    return true;
}

uint64_t mci_row_len(const struct mc_transfer_row *row)
{
    uint64_t len = 0;
    for (uint32_t i = 0; i < row->span_count; i++) {
        len += row->spans[i].len;
    }
    return len;
}
