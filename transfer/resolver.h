/* SPDX-License-Identifier: Apache-2.0 */
/* resolver.h - the addresses of a host, as the system knows them.
 *
 * Lists are the caller's, who ends them with freeaddrinfo.
 * Threads: any thread.
 */
#ifndef RESOLVER_H
#define RESOLVER_H
#include <netdb.h>
#include <stdint.h>

#include "mc_err.h"

/* For as long as the system takes; numbers (AI_NUMERICHOST) take no time. 0, or an
 * error of getaddrinfo. */
int mci_resolve(const char *host, int flags, struct addrinfo **all_out);

/* By a deadline. Errors, each with a constant text in *why_out:
 * MC_ERR_RPC_TIMEOUT, MC_ERR_RPC_FAIL. */
MC_CHECK_RESULT enum mc_err mci_resolve_by(const char *host,
                                           uint64_t deadline_ns,
                                           struct addrinfo **all_out,
                                           const char **why_out);
#endif
