/* SPDX-License-Identifier: Apache-2.0 */
#include "mci_client_http.h"

enum mc_err mci_client_http_open(const struct mci_client_http_opts *opts,
                                 struct mci_client_http **http_out,
                                 uint16_t *port_out)
{
    (void)opts;
    (void)http_out;
    (void)port_out;
    return MC_ERR_NOT_SUPPORTED;
}

void mci_client_http_close(struct mci_client_http *http)
{
    (void)http;
}
