/* SPDX-License-Identifier: Apache-2.0 */
/* The tcp transport: a pool of connections to peers, and a server that begins
 * with the first exposure. */
#include <stdio.h>

#include "mci_address.h"
#include "mci_alloc.h"
#include "target.h"
#include "tcp_move.h"
#include "tcp_pool.h"
#include "tcp_server.h"

struct tcp {
    struct mc_transfer *transfer;
    struct mci_tcp_pool *pool;
    pthread_mutex_t lock;
    struct mci_tcp_server *_Atomic server; /* set once, under lock; NULL: not
                                              yet */
};

static enum mc_err serve(struct tcp *tcp)
{
    enum mc_err err = MC_OK;
    (void)pthread_mutex_lock(&tcp->lock);
    if (!atomic_load(&tcp->server)) {
        struct mci_tcp_server *server = NULL;
        err = mci_tcp_server_create(tcp->transfer, &server);
        if (!err) {
            atomic_store(&tcp->server, server);
        }
    }
    (void)pthread_mutex_unlock(&tcp->lock);
    return err;
}

static enum mc_err tcp_open(struct mc_transfer *transfer, void **state_out)
{
    struct tcp *tcp = mci_calloc(1, sizeof *tcp);
    if (!tcp) {
        return MC_ERR_NOMEM;
    }
    tcp->transfer = transfer;
    (void)pthread_mutex_init(&tcp->lock, NULL);
    enum mc_err err = mci_tcp_pool_create(transfer, &tcp->pool);
    if (err) {
        goto err_free;
    }
    if (transfer->opts.is_served_at_once) {
        err = serve(tcp);
    }
    if (err) {
        goto err_destroy_pool;
    }
    *state_out = tcp;
    return MC_OK;

err_destroy_pool:
    mci_tcp_pool_destroy(tcp->pool);
err_free:
    (void)pthread_mutex_destroy(&tcp->lock);
    mci_free(tcp);
    return err;
}

static void tcp_close(void *state)
{
    struct tcp *tcp = state;
    mci_tcp_server_destroy(atomic_load(&tcp->server));
    mci_tcp_pool_destroy(tcp->pool);
    (void)pthread_mutex_destroy(&tcp->lock);
    mci_free(tcp);
}

/* ---- owner --------------------------------------------------------------------- */

static enum mc_err tcp_endpoint(void *state,
                                char endpoint_out[MC_TRANSFER_ENDPOINT_SIZE])
{
    struct tcp *tcp = state;
    struct mci_tcp_server *server = atomic_load(&tcp->server);
    struct mci_address address;
    char text[MCI_HOST_LEN_MAX + 9];
    if (!server) {
        return MC_OK;
    }
    enum mc_err err = mci_address_parse(tcp->transfer->opts.host, &address);
    if (err) {
        return err;
    }
    address.port = server->port;
    address.has_port = true;
    mci_address_print(&address, text);
    (void)snprintf(endpoint_out, MC_TRANSFER_ENDPOINT_SIZE, "%s", text);
    return MC_OK;
}

static enum mc_err tcp_expose(void *state, struct mci_exposed *exposed)
{
    enum mc_err err = serve(state);
    return err ? err : tcp_endpoint(state, exposed->endpoint);
}

static void tcp_conceal(void *state, struct mci_exposed *exposed)
{
    struct tcp *tcp = state;
    struct mci_tcp_server *server = atomic_load(&tcp->server);
    if (server) {
        mci_tcp_server_sweep(server, exposed);
    }
}

/* The fences are on the board already, so that every thread that looks now cuts
 * off what they name. */
static enum mc_err tcp_fence(void *state, const struct mc_fence *fences,
                             size_t count, struct mci_stuck_list *stuck)
{
    struct tcp *tcp = state;
    struct mci_tcp_server *server = atomic_load(&tcp->server);
    (void)fences;
    (void)stuck; /* no connection is ever stuck */
    if (server && count > 0) {
        mci_tcp_server_sweep(server, NULL);
    }
    return MC_OK;
}

/* ---- peer ------------------------------------------------------------------------ */

/* Whether somebody answers there is found out by whoever has rows. */
static enum mc_err tcp_reach(void *state, struct mc_target *target,
                             uint64_t deadline_ns)
{
    struct tcp *tcp = state;
    struct mci_tcp_peer *peer;
    void *expected = NULL;
    (void)deadline_ns;
    if (target->endpoint[0] == '\0') {
        return MC_ERR_NOT_SUPPORTED;
    }
    if (atomic_load(&target->kept[MC_TRANSPORT_TCP])) {
        return MC_OK;
    }
    enum mc_err err = mci_tcp_peer_hold(tcp->pool, target->endpoint, &peer);
    if (err) {
        return err;
    }
    if (!atomic_compare_exchange_strong(&target->kept[MC_TRANSPORT_TCP],
                                        &expected, peer)) {
        mci_tcp_peer_release(peer);
    }
    return MC_OK;
}

static void tcp_forget(void *state, struct mc_target *target)
{
    struct mci_tcp_peer *peer =
        atomic_exchange(&target->kept[MC_TRANSPORT_TCP], NULL);
    (void)state;
    if (peer) {
        mci_tcp_peer_release(peer);
    }
}

const struct mci_transport mci_transport_tcp = {.kind = MC_TRANSPORT_TCP,
                                                .name = "tcp",
                                                .open = tcp_open,
                                                .close = tcp_close,
                                                .expose = tcp_expose,
                                                .conceal = tcp_conceal,
                                                .endpoint = tcp_endpoint,
                                                .fence = tcp_fence,
                                                .reach = tcp_reach,
                                                .forget = tcp_forget,
                                                .probe = mci_tcp_probe,
                                                .move = mci_tcp_move,
                                                .seal = mci_tcp_seal};
