/* SPDX-License-Identifier: Apache-2.0 */
/* mc_master.h - a master process from the inside: the store core with its control
 * server, event publisher and HTTP pages.
 *
 * mc-master is this with flags around it. The master holds metadata only; it may
 * lend memory as well when its process opens a client on it.
 * Threads: any thread, but close.
 */
#ifndef MC_MASTER_H
#define MC_MASTER_H
#include "mc_client.h"
#include "mc_tls.h"

#ifdef __cplusplus
extern "C" {
#endif

struct mc_master; /* opaque */

/* All zero = the defaults. Strings are copied. */
struct mc_master_opts {
    struct mc_store_opts store;
    struct mc_publisher_opts events;
    const char *rpc_address; /* NULL = any */
    uint16_t rpc_port;       /* 0 = a free one (the tool's default is 50051) */
    uint32_t rpc_threads;    /* 0 = min(4, cores) */
    uint32_t rpc_idle_timeout_s; /* 0 = never */
    bool with_admin;
    const char *admin_address; /* NULL = any */
    uint16_t admin_port;       /* 0 = a free one */
    bool with_metadata;
    const char *metadata_address;
    uint16_t metadata_port;
    bool metadata_cleanup;         /* keys of a client go when it is expired */
    uint32_t client_ttl_ms;        /* 0 = 10 s */
    uint32_t heartbeat_ms;         /* 0 = 1 s, at most a third of client_ttl */
    const char *tenant_quota_file; /* JSON; NULL = none */
    const struct mc_tls_opts *tls; /* of the control port; NULL = none */
};

/* Everything is bound when this returns. *what_out, if not NULL, points to a
 * constant word for what failed ("rpc", "admin", "metadata", "events",
 * "store", "recovery", "tenant_quota_file", "tls"). Errors: MC_ERR_INVALID_PARAMS,
 * MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS (a port is taken), MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mc_master_open(const struct mc_master_opts *opts,
                                           struct mc_master **master_out,
                                           const char **what_out);
/* Stops within 2 seconds: connections are closed, queued events sent. */
void mc_master_close(struct mc_master *master); /* NULL is fine */

/* As bound, NUL-terminated, empty where there is none. */
struct mc_master_bound {
    char rpc[280];
    char admin[280];
    char metadata[280];
    char events[256];
    char recovery[256];
    uint64_t epoch;
};
void mc_master_bound(const struct mc_master *master,
                     struct mc_master_bound *bound_out);

#ifdef __cplusplus
}
#endif
#endif
