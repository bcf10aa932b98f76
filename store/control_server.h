/* SPDX-License-Identifier: Apache-2.0 */
/* control_server.h - answers the requests of clients over framed sockets.
 *
 * Pollers own connections; a request is executed on the poller that read it, in
 * slices of at most 256 rows with other requests in between. Slots see to it that
 * a request is done once (slots.h). Heartbeats have a poller of their own, long
 * walks (regex, remove_all) a worker of their own, so neither waits for the
 * other.
 * Threads: create and destroy by one; the counters for any.
 */
#ifndef CONTROL_SERVER_H
#define CONTROL_SERVER_H
#include "mci_stream.h"
#include "registry.h"

struct mci_control_server;

struct mci_control_server_opts {
    struct mci_master *master; /* borrowed, as the two below */
    struct mci_registry *registry;
    struct mci_tls *tls; /* NULL: none */
    struct mci_listen_opts listen;
    uint64_t epoch;
    uint32_t threads;        /* 0 = min(4, cores) */
    uint32_t idle_timeout_s; /* 0 = never */
    /* A peer that stops in the middle of a frame, does not take its answers, or
     * says nothing at all is closed after this; 0 = 30 s. */
    uint32_t stall_timeout_ms;
    uint32_t connections_max; /* 0 = 16 384; more are told so and closed */
    /* Fills the words that are not the core's (events). May be NULL. */
    void (*stat)(void *ctx, struct mci_stat_words *words);
    void *ctx;
};
MC_CHECK_RESULT enum mc_err
mci_control_server_create(const struct mci_control_server_opts *opts,
                          struct mci_control_server **server_out,
                          uint16_t *port_out, const char **why_out);
void mci_control_server_destroy(struct mci_control_server *server);

struct mci_control_stats {
    uint64_t requests[64]; /* by op */
    uint64_t failures[64]; /* refused as a whole */
    uint64_t partial[64];  /* batches of which some rows failed */
    uint64_t items[64];
    uint64_t failed_items[64];
    uint64_t stale;     /* numbers out of turn */
    uint64_t repeated;  /* answered from what was kept */
    uint64_t malformed; /* frames that cost their connection */
    uint64_t connections;
    uint64_t kept_bytes; /* answers kept for repeats */
};
void mci_control_server_stat(struct mci_control_server *server,
                             struct mci_control_stats *stats_out);
#endif
