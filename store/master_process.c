/* SPDX-License-Identifier: Apache-2.0 */
#include "mc_master.h"

#include <string.h>

enum mc_err mc_master_open(const struct mc_master_opts *opts,
                           struct mc_master **master_out, const char **what_out)
{
    (void)opts;
    (void)master_out;
    if (what_out) {
        *what_out = "rpc";
    }
    return MC_ERR_NOT_SUPPORTED;
}

void mc_master_close(struct mc_master *master)
{
    (void)master;
}

void mc_master_bound(const struct mc_master *master,
                     struct mc_master_bound *bound_out)
{
    (void)master;
    memset(bound_out, 0, sizeof *bound_out);
}
