/* SPDX-License-Identifier: Apache-2.0 */
/* One lock for the pool; nothing that can block is done under it. A peer's count
 * of open connections includes those that are being made, so the bound holds at
 * any moment, and a peer is there as long as it has one or somebody holds it. */
#include "tcp_pool_parts.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "mci_alloc.h"
#include "mci_clock.h"

#define PEERS_MAX 65536
#define IDLE_MAX 512 /* in all */
#define IDLE_NS (300 * MCI_NS_PER_S)

/* ---- peers ---------------------------------------------------------------- */

/* Locked. */
void mci_tcp_peer_free_if_unused(struct mci_tcp_peer *peer)
{
    if (peer->refs > 0 || peer->open > 0) {
        return;
    }
    (void)mci_map_remove(&peer->pool->peers,
                         mc_view_make(peer->endpoint, peer->endpoint_len));
    mci_free(peer->endpoint);
    mci_free(peer);
}

static enum mc_err peer_create(struct mci_tcp_pool *pool, const char *endpoint,
                               struct mci_tcp_peer **peer_out)
{
    struct mci_tcp_peer *peer = mci_calloc(1, sizeof *peer);
    if (!peer) {
        return MC_ERR_NOMEM;
    }
    enum mc_err err = mci_address_parse(endpoint, &peer->address);
    if (!err && !peer->address.has_port) {
        err = MC_ERR_INVALID_PARAMS;
    }
    if (err) {
        goto err_free;
    }
    peer->pool = pool;
    peer->refs = 1;
    mci_list_init(&peer->idle);
    mci_list_init(&peer->waiting);
    peer->endpoint_len = strlen(endpoint);
    peer->endpoint = mci_strdup_n(endpoint, peer->endpoint_len);
    err = MC_ERR_NOMEM;
    if (!peer->endpoint) {
        goto err_free;
    }
    err = mci_map_put(&pool->peers,
                      mc_view_make(peer->endpoint, peer->endpoint_len), peer,
                      NULL);
    if (err) {
        goto err_free;
    }
    *peer_out = peer;
    return MC_OK;

err_free:
    mci_free(peer->endpoint);
    mci_free(peer);
    return err == MC_ERR_BUFFER_OVERFLOW ? MC_ERR_NOMEM : err;
}

enum mc_err mci_tcp_peer_hold(struct mci_tcp_pool *pool, const char *endpoint,
                              struct mci_tcp_peer **peer_out)
{
    enum mc_err err = MC_OK;
    mci_tcp_pool_lock(pool);
    struct mci_tcp_peer *peer =
        mci_map_get(&pool->peers, mc_view_make(endpoint, strlen(endpoint)));
    if (peer) {
        peer->refs++;
        *peer_out = peer;
    } else {
        err = peer_create(pool, endpoint, peer_out);
    }
    mci_tcp_pool_unlock(pool);
    return err;
}

void mci_tcp_peer_release(struct mci_tcp_peer *peer)
{
    struct mci_tcp_pool *pool = peer->pool;
    mci_tcp_pool_lock(pool);
    peer->refs--;
    mci_tcp_peer_free_if_unused(peer);
    mci_tcp_pool_unlock(pool);
}

/* ---- taking ----------------------------------------------------------------- */

/* Locked. */
static struct mci_tcp_link *unlist(struct mci_link *in_peer)
{
    struct mci_tcp_link *link =
        MCI_CONTAINER(in_peer, struct mci_tcp_link, in_peer);
    mci_list_remove(&link->in_peer);
    mci_list_remove(&link->in_pool);
    link->peer->idle_count--;
    link->peer->pool->idle_count--;
    return link;
}

/* Nothing can have come on an idle connection but its end, or what TLS says
 * after its handshake. */
static bool is_alive(const struct mci_tcp_link *link)
{
    uint8_t byte;
    ssize_t got =
        recv(mci_stream_fd(link->stream), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (got < 0) {
        return errno == EAGAIN || errno == EWOULDBLOCK;
    }
    return got > 0 && link->peer->pool->transfer->tls;
}

static struct mci_tcp_link *take_idle(struct mci_tcp_peer *peer)
{
    struct mci_tcp_pool *pool = peer->pool;
    for (;;) {
        struct mci_tcp_link *link = NULL;
        mci_tcp_pool_lock(pool);
        if (!mci_list_is_empty(&peer->idle)) {
            link = unlist(peer->idle.prev);
        }
        mci_tcp_pool_unlock(pool);
        if (!link || is_alive(link)) {
            return link;
        }
        mci_tcp_link_abort(link);
    }
}

enum mc_err mci_tcp_peer_take(struct mci_tcp_peer *peer, bool is_fresh,
                              uint64_t deadline_ns,
                              struct mci_tcp_link **link_out,
                              struct mci_tcp_want **want_out)
{
    struct mci_tcp_pool *pool = peer->pool;
    struct mci_tcp_link *link = is_fresh ? NULL : take_idle(peer);
    struct mci_tcp_link *old = NULL;
    if (link) {
        link->was_idle = true;
        *link_out = link;
        *want_out = NULL;
        return MC_OK;
    }
    struct mci_tcp_want *want = mci_tcp_want_create(peer, deadline_ns);
    if (!want) {
        return MC_ERR_NOMEM;
    }
    mci_tcp_pool_lock(pool);
    peer->refs++;
    if (peer->open < pool->open_max) {
        peer->open++;
        mci_tcp_want_start(want);
    } else {
        mci_list_push_back(&peer->waiting, &want->in_waiting);
        if (!mci_list_is_empty(&peer->idle)) {
            old = unlist(peer->idle.next);
        }
    }
    mci_tcp_pool_unlock(pool);
    if (old) {
        mci_tcp_link_abort(old);
    }
    *link_out = NULL;
    *want_out = want;
    return MC_OK;
}

int mci_tcp_want_fd(const struct mci_tcp_want *want)
{
    return want->fd;
}

bool mci_tcp_want_look(struct mci_tcp_want *want,
                       struct mci_tcp_link **link_out, enum mc_err *err_out)
{
    struct mci_tcp_pool *pool = want->peer->pool;
    mci_tcp_pool_lock(pool);
    bool is_over = want->is_over;
    if (is_over) {
        *link_out = want->link;
        *err_out = want->err;
        want->link = NULL;
    }
    mci_tcp_pool_unlock(pool);
    return is_over;
}

void mci_tcp_want_drop(struct mci_tcp_want *want)
{
    struct mci_tcp_pool *pool = want->peer->pool;
    mci_tcp_pool_lock(pool);
    struct mci_tcp_link *link = want->link;
    want->link = NULL;
    want->is_dropped = true;
    if (!mci_list_is_empty(&want->in_waiting)) {
        mci_list_remove(&want->in_waiting);
        mci_tcp_want_unref(want);
    }
    mci_tcp_want_unref(want);
    mci_tcp_pool_unlock(pool);
    if (link) {
        mci_tcp_link_keep(link);
    }
}

/* ---- giving back -------------------------------------------------------------- */

static void end_link(struct mci_tcp_link *link, bool is_abort)
{
    struct mci_tcp_peer *peer = link->peer;
    struct mci_tcp_pool *pool = peer->pool;
    if (is_abort) {
        mci_stream_abort(link->stream);
    } else {
        mci_stream_close(link->stream);
    }
    mci_free(link);
    mci_count_down(&pool->transfer->counters.connections, 1);
    mci_tcp_pool_lock(pool);
    mci_tcp_peer_closed_one(peer);
    mci_tcp_pool_unlock(pool);
}

void mci_tcp_link_abort(struct mci_tcp_link *link)
{
    end_link(link, true);
}

/* Locked: one that is idle for too long, or too many. */
static struct mci_tcp_link *take_stale(struct mci_tcp_pool *pool,
                                       uint64_t now_ns)
{
    if (mci_list_is_empty(&pool->idle)) {
        return NULL;
    }
    struct mci_tcp_link *oldest =
        MCI_CONTAINER(pool->idle.next, struct mci_tcp_link, in_pool);
    bool is_stale =
        now_ns > oldest->since_ns && now_ns - oldest->since_ns > IDLE_NS;
    if (!is_stale && pool->idle_count <= IDLE_MAX) {
        return NULL;
    }
    return unlist(&oldest->in_peer);
}

void mci_tcp_link_keep(struct mci_tcp_link *link)
{
    struct mci_tcp_peer *peer = link->peer;
    struct mci_tcp_pool *pool = peer->pool;
    uint64_t now_ns = mci_clock_ns();
    struct mci_tcp_link *stale = NULL;
    bool is_kept = true;
    mci_tcp_pool_lock(pool);
    if (!mci_list_is_empty(&peer->waiting)) {
        struct mci_tcp_want *want =
            MCI_CONTAINER(peer->waiting.next, struct mci_tcp_want, in_waiting);
        mci_list_remove(&want->in_waiting);
        link->was_idle = true;
        mci_tcp_want_end(want, link, MC_OK);
    } else if (pool->is_closing || peer->idle_count >= pool->idle_max) {
        is_kept = false;
    } else {
        link->since_ns = now_ns;
        mci_list_push_back(&peer->idle, &link->in_peer);
        mci_list_push_back(&pool->idle, &link->in_pool);
        peer->idle_count++;
        pool->idle_count++;
        stale = take_stale(pool, now_ns);
    }
    mci_tcp_pool_unlock(pool);
    if (!is_kept) {
        end_link(link, false);
    }
    if (stale) {
        end_link(stale, false);
    }
}

/* ---- life --------------------------------------------------------------------- */

enum mc_err mci_tcp_pool_create(struct mc_transfer *transfer,
                                struct mci_tcp_pool **pool_out)
{
    struct mci_tcp_pool *pool = mci_calloc(1, sizeof *pool);
    if (!pool) {
        return MC_ERR_NOMEM;
    }
    pool->transfer = transfer;
    pool->idle_max = transfer->opts.connections_per_peer;
    pool->open_max = pool->idle_max < 2 ? 16 : 8 * pool->idle_max;
    (void)pthread_mutex_init(&pool->lock, NULL);
    (void)pthread_cond_init(&pool->ended, NULL);
    mci_map_init(&pool->peers, PEERS_MAX);
    mci_list_init(&pool->idle);
    *pool_out = pool;
    return MC_OK;
}

void mci_tcp_pool_destroy(struct mci_tcp_pool *pool)
{
    if (!pool) {
        return;
    }
    mci_tcp_pool_lock(pool);
    pool->is_closing = true;
    while (pool->threads > 0) {
        (void)pthread_cond_wait(&pool->ended, &pool->lock);
    }
    while (!mci_list_is_empty(&pool->idle)) {
        struct mci_tcp_link *oldest =
            MCI_CONTAINER(pool->idle.next, struct mci_tcp_link, in_pool);
        (void)unlist(&oldest->in_peer);
        mci_tcp_pool_unlock(pool);
        end_link(oldest, false);
        mci_tcp_pool_lock(pool);
    }
    mci_tcp_pool_unlock(pool);
    mci_map_fini(&pool->peers);
    (void)pthread_cond_destroy(&pool->ended);
    (void)pthread_mutex_destroy(&pool->lock);
    mci_free(pool);
}
