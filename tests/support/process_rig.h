/* SPDX-License-Identifier: Apache-2.0 */
/* process_rig.h - a master as in a process of its own, reached over a socket:
 * the core with its event log in the test's hand, registry, control server,
 * sweeper. */
#ifndef PROCESS_RIG_H
#define PROCESS_RIG_H
#include "control_server.h"
#include "mc_client.h"
#include "mci_event_log.h"
#include "sweeper.h"

struct process_rig_opts {
    struct mc_store_opts store;
    uint32_t log_capacity;
    enum mc_publisher_overflow overflow;
    uint64_t expected_bytes;
    uint64_t client_ttl_ms; /* 0 = 10 s */
    uint64_t heartbeat_ms;  /* 0 = 100 ms */
    uint16_t port;          /* 0 = a free one */
    bool no_sweeper;
};

struct process_rig {
    struct mci_event_log *log;
    struct mci_master *master;
    struct mci_registry *registry;
    struct mci_control_server *server;
    struct mci_sweeper sweeper;
    uint16_t port;
    char address[32]; /* 127.0.0.1:port */
};

void process_open(struct process_rig *rig, const struct process_rig_opts *opts);
/* Clients may still be open, and find that it is gone. */
void process_close(struct process_rig *rig);
#endif
