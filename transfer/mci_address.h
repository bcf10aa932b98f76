/* SPDX-License-Identifier: Apache-2.0 */
/* mci_address.h - host and port as people write them, and sockets of them.
 *
 * "host:port", "host", "[v6]:port", "v6" (two colons or more and no brackets).
 * Names are resolved by the system, all answers tried in order.
 * Threads: any thread.
 */
#ifndef MCI_ADDRESS_H
#define MCI_ADDRESS_H
#include <stdbool.h>
#include <stdint.h>

#include "mc_err.h"

#define MCI_HOST_LEN_MAX 255

struct mci_address {
    char host[MCI_HOST_LEN_MAX + 1]; /* without brackets */
    uint16_t port;
    bool has_port;
};

/* Errors: MC_ERR_INVALID_PARAMS (empty, too long, a port that is none). */
MC_CHECK_RESULT enum mc_err mci_address_parse(const char *text,
                                              struct mci_address *address_out);

/* The host is an address, not a name to be looked up. No brackets. */
bool mci_host_is_number(const char *host);

/* Writes "host:port", with brackets where they are needed. room: at least
 * MCI_HOST_LEN_MAX + 9 bytes. */
void mci_address_print(const struct mci_address *address, char *room);

/* Connects a non-blocking tcp socket with TCP_NODELAY, by deadline. Errors, each
 * with errno's word in *why_out (a constant text): MC_ERR_RPC_TIMEOUT,
 * MC_ERR_RPC_FAIL. */
MC_CHECK_RESULT enum mc_err
mci_address_connect(const struct mci_address *address, uint64_t deadline_ns,
                    int *fd_out, const char **why_out);

struct mci_listen_opts {
    const char *host;  /* NULL or "": any address of both families */
    uint16_t port;     /* 0: a free one */
    uint16_t port_min; /* with port 0 and not 0: the first free of a range */
    uint16_t port_max;
    unsigned backlog; /* 0 = 1024 */
};
/* Listens with SO_REUSEADDR, non-blocking. *port_out: as bound. Errors:
 * MC_ERR_INVALID_PARAMS (unknown host), MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS
 * (the port is taken), MC_ERR_INTERNAL_ERROR; *why_out as above. */
MC_CHECK_RESULT enum mc_err
mci_address_listen(const struct mci_listen_opts *opts, int *fd_out,
                   uint16_t *port_out, const char **why_out);
#endif
