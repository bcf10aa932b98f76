/* SPDX-License-Identifier: Apache-2.0 */
/* peer_rig.h - a master process in this one, with a bad network before it,
 * and clients that lend and write without moving a byte: they say with receipts
 * of their own making that what they wrote has ended.
 */
#ifndef PEER_RIG_H
#define PEER_RIG_H
#include <check.h>
#include <stdatomic.h>

#include "await.h"
#include "ctl_proxy.h"
#include "mc_master.h"
#include "mci_remote.h"

struct process {
    struct mc_master *master;
    struct ctl_proxy *proxy;
    uint16_t port;
};

struct peer {
    struct process *process;
    struct mci_remote *remote;
    struct mci_master_link link;
    uint64_t id[2];
    uint64_t registration;
    uint64_t bytes;
    uint8_t key[MC_GRANT_KEY_LEN];
    atomic_uint segment; /* 0: none now */
    atomic_uint renewed;
    atomic_uint fences;
    atomic_uint closed;
};

/* opts may be NULL: heartbeats every 100 ms, a ttl of 3 s. */
void process_open(struct process *process, const struct mc_master_opts *opts);
void process_close(struct process *process);
/* Ends the master and starts another one behind the same proxy. */
void process_restart(struct process *process,
                     const struct mc_master_opts *opts);

/* Through the proxy, or beside it. Lends bytes (0: none), again after each
 * renewal. */
void peer_open(struct process *process, struct peer *peer, const char *name,
               uint64_t bytes);
void peer_open_beside(struct process *process, struct peer *peer,
                      const char *name, uint64_t bytes);
void peer_close(struct peer *peer);

struct mci_call peer_call(uint64_t left_ms);

/* Calls on one key; lender: whose segment gives the receipt, NULL: none. */
enum mc_err peer_start(struct peer *peer, const char *key, uint64_t size,
                       struct mci_write_row *row, uint64_t left_ms);
enum mc_err peer_upsert(struct peer *peer, const char *key, uint64_t size,
                        struct mci_write_row *row, uint64_t left_ms);
enum mc_err peer_end(struct peer *peer, const struct peer *lender,
                     struct mci_write_row *row, uint64_t left_ms);
enum mc_err peer_revoke(struct peer *peer, const struct peer *lender,
                        struct mci_write_row *row, bool in_doubt,
                        uint64_t left_ms);
int64_t peer_remove(struct peer *peer, const char *key, uint64_t left_ms);
struct mc_probe peer_probe(struct peer *peer, const char *key);
bool peer_has(struct peer *peer, const char *key);
/* Start and end. */
enum mc_err peer_put(struct peer *peer, const struct peer *lender,
                     const char *key, uint64_t size);
struct mci_master_stats peer_figures(struct peer *peer);
#endif
