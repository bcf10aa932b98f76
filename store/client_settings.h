/* SPDX-License-Identifier: Apache-2.0 */
/* client_settings.h - what a client was asked for, by its options and by the
 * environment, in one place and checked.
 *
 * An option that is set goes before the environment. Variables that are known
 * but not built are named once, in a warning.
 * Threads: plain values; the environment is read when a client is opened.
 */
#ifndef CLIENT_SETTINGS_H
#define CLIENT_SETTINGS_H
#include "mc_client.h"
#include "mc_transfer.h"
#include "mci_address.h"

#define MCI_HOSTNAME_MAX 280 /* as of an endpoint */

struct mci_settings {
    uint32_t timeout_ms; /* 0 = none, as the two below */
    uint32_t connect_timeout_ms;
    uint32_t transfer_timeout_ms;
    uint64_t local_buffer_bytes;
    bool checksum;
    /* Of a master process. */
    struct mci_address address; /* of this client; without port: look for one */
    bool has_address;           /* it was given */
    uint16_t port_min;
    uint16_t port_max;
    uint32_t port_tries;      /* how often the range is looked through */
    const char *bind_address; /* NULL: any */
    bool no_shm;
    bool no_local;
    enum mc_transport_kind only;
    const char *metadata_url; /* NULL: none */
    const char *cluster_id;   /* of metadata keys; NULL: none */
};

/* Pointers are borrowed of the options and the environment. Errors, with a line
 * in the log: -600, -1012. */
MC_CHECK_RESULT enum mc_err
mci_settings_read(const struct mc_client_opts *opts,
                  struct mci_settings *settings_out);

/* A master that is not in this process. */
bool mci_settings_is_remote(const struct mc_client_opts *opts);
#endif
