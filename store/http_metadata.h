/* SPDX-License-Identifier: Apache-2.0 */
/* http_metadata.h - the metadata server: small texts by key, over HTTP, in
 * memory.
 *
 * GET, PUT and DELETE /metadata?key=K, GET /health. Transfer engines keep there
 * how their segments and handshakes are reached. A key of a process that has
 * started again is overwritten by the new one, also a rpc_meta key: the newer
 * word is the true one. What is kept is bounded.
 * Threads: any thread, but open and close.
 */
#ifndef HTTP_METADATA_H
#define HTTP_METADATA_H
#include <stdint.h>

#include "mc_err.h"
#include "mc_view.h"

#define MCI_METADATA_KEY_MAX 4096
#define MCI_METADATA_VALUE_MAX (16 << 20)
#define MCI_METADATA_KEYS_MAX 65536
#define MCI_METADATA_BYTES_MAX (UINT64_C(1) << 30)

struct mci_metadata;

/* Errors as mci_http_server_open. */
MC_CHECK_RESULT enum mc_err mci_metadata_open(const char *address,
                                              uint16_t port,
                                              struct mci_metadata **out,
                                              uint16_t *port_out);
void mci_metadata_close(struct mci_metadata *metadata); /* NULL is fine */

/* The process of this name is gone: its ram and rpc_meta keys, under whatever
 * prefix. */
void mci_metadata_forget(struct mci_metadata *metadata, struct mc_view name);

struct mci_metadata_stats {
    uint64_t keys;
    uint64_t bytes; /* of keys and values */
};
void mci_metadata_stat(struct mci_metadata *metadata,
                       struct mci_metadata_stats *stats_out);
#endif
