/* SPDX-License-Identifier: Apache-2.0 */
/* mci_peer_http.h - a metadata server that is spoken to by HTTP: texts by key.
 *
 * Each call is a request of its own, bounded by its timeout; redirects are not
 * followed, proxies not used.
 * Threads: any thread.
 */
#ifndef MCI_PEER_HTTP_H
#define MCI_PEER_HTTP_H
#include <stdint.h>

#include "mc_err.h"
#include "mc_view.h"

/* url: http://host:port/metadata; the key goes behind "?key=". Errors:
 * MC_ERR_RPC_FAIL (not reached; no answer of success; *status_out, if not NULL,
 * is the HTTP status, or 0), MC_ERR_RPC_TIMEOUT, MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mci_peer_http_put(const char *url, const char *key,
                                              struct mc_view body,
                                              uint32_t timeout_ms,
                                              long *status_out);
MC_CHECK_RESULT enum mc_err mci_peer_http_delete(const char *url,
                                                 const char *key,
                                                 uint32_t timeout_ms,
                                                 long *status_out);
#endif
