/* SPDX-License-Identifier: Apache-2.0 */
#include "control_server.h"

#include <string.h>

enum mc_err
mci_control_server_create(const struct mci_control_server_opts *opts,
                          struct mci_control_server **server_out,
                          uint16_t *port_out, const char **why_out)
{
    (void)opts;
    (void)server_out;
    (void)port_out;
    *why_out = "not built yet";
    return MC_ERR_NOT_SUPPORTED;
}

void mci_control_server_destroy(struct mci_control_server *server)
{
    (void)server;
}

void mci_control_server_stat(struct mci_control_server *server,
                             struct mci_control_stats *stats_out)
{
    (void)server;
    memset(stats_out, 0, sizeof *stats_out);
}
