/* SPDX-License-Identifier: Apache-2.0 */
#include "mci_remote.h"

#include <string.h>

enum mc_err mci_remote_open(const struct mci_remote_opts *opts,
                            struct mci_remote **remote_out)
{
    (void)opts;
    (void)remote_out;
    return MC_ERR_NOT_SUPPORTED;
}

void mci_remote_close(struct mci_remote *remote, uint64_t deadline_ns)
{
    (void)remote;
    (void)deadline_ns;
}

struct mci_master_link mci_remote_link(struct mci_remote *remote)
{
    static const struct mci_link_ops ops = {.put_start = NULL};
    return (struct mci_master_link){.ops = &ops, .ctx = remote};
}

struct mci_remote_self mci_remote_self(struct mci_remote *remote)
{
    (void)remote;
    return (struct mci_remote_self){.client = 0};
}

enum mc_err mci_remote_mount(struct mci_remote *remote,
                             const struct mci_mount *mount,
                             uint64_t deadline_ns, uint32_t *segment_out)
{
    (void)remote;
    (void)mount;
    (void)deadline_ns;
    (void)segment_out;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_err mci_remote_unmount(struct mci_remote *remote, uint32_t segment,
                               uint64_t grace_ms, uint64_t deadline_ns)
{
    (void)remote;
    (void)segment;
    (void)grace_ms;
    (void)deadline_ns;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_err mci_remote_segment_status(struct mci_remote *remote,
                                      uint32_t segment, uint64_t deadline_ns,
                                      enum mci_segment_status *status_out)
{
    (void)remote;
    (void)segment;
    (void)deadline_ns;
    (void)status_out;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_err mci_remote_segment(struct mci_remote *remote, uint32_t segment,
                               uint64_t deadline_ns,
                               const struct mci_segment_row **row_out)
{
    (void)remote;
    (void)segment;
    (void)deadline_ns;
    (void)row_out;
    return MC_ERR_NOT_SUPPORTED;
}

bool mci_remote_attempt_touched(struct mci_remote *remote, uint64_t attempt)
{
    (void)remote;
    (void)attempt;
    return false;
}

bool mci_remote_attempt_grant(struct mci_remote *remote, uint64_t attempt,
                              uint32_t place, struct mc_grant *grant_out)
{
    (void)remote;
    (void)attempt;
    (void)place;
    (void)grant_out;
    return false;
}

int mci_remote_health(const struct mci_remote *remote)
{
    (void)remote;
    return 2;
}

void mci_remote_stat(const struct mci_remote *remote,
                     struct mci_remote_stats *stats_out)
{
    (void)remote;
    memset(stats_out, 0, sizeof *stats_out);
}
