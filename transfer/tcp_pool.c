/* SPDX-License-Identifier: Apache-2.0 */
/* One lock for the pool; nothing that can block is done under it. A peer's count
 * of open connections includes those that are being made, so the bound holds at
 * any moment, and a peer is there as long as it has one or somebody holds it. */
#include "tcp_pool.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mc_log.h"
#include "mci_alloc.h"
#include "mci_clock.h"
#include "mci_map.h"

#define PEERS_MAX 65536
#define IDLE_MAX 512 /* in all */
#define IDLE_NS (300 * MCI_NS_PER_S)
#define STACK_BYTES (512u << 10)

struct mci_tcp_pool {
    struct mc_transfer *transfer;
    uint32_t idle_max; /* per peer */
    uint32_t open_max;
    pthread_mutex_t lock; /* guards all below, and all of peers and wants */
    pthread_cond_t ended; /* a thread */
    uint32_t threads;
    bool is_closing;
    struct mci_map peers; /* by endpoint */
    struct mci_link idle; /* longest idle first */
    uint32_t idle_count;
};

struct mci_tcp_peer {
    struct mci_tcp_pool *pool;
    uint32_t refs;
    uint32_t open; /* in use, idle, or being made */
    uint32_t idle_count;
    struct mci_link idle;    /* last used at the end */
    struct mci_link waiting; /* wants */
    struct mci_address address;
    size_t endpoint_len;
    char *endpoint;
};

struct mci_tcp_want {
    struct mci_tcp_peer *peer; /* held */
    uint64_t deadline_ns;
    struct mci_link in_waiting;
    uint32_t refs; /* of the caller, and of a thread or the waiting list */
    int fd;
    bool is_over;
    bool is_dropped;
    enum mc_err err;
    struct mci_tcp_link *link;
};

static void lock(struct mci_tcp_pool *pool)
{
    (void)pthread_mutex_lock(&pool->lock);
}

static void unlock(struct mci_tcp_pool *pool)
{
    (void)pthread_mutex_unlock(&pool->lock);
}

/* ---- peers ---------------------------------------------------------------- */

/* Locked. */
static void peer_free_if_unused(struct mci_tcp_peer *peer)
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
    lock(pool);
    struct mci_tcp_peer *peer =
        mci_map_get(&pool->peers, mc_view_make(endpoint, strlen(endpoint)));
    if (peer) {
        peer->refs++;
        *peer_out = peer;
    } else {
        err = peer_create(pool, endpoint, peer_out);
    }
    unlock(pool);
    return err;
}

void mci_tcp_peer_release(struct mci_tcp_peer *peer)
{
    struct mci_tcp_pool *pool = peer->pool;
    lock(pool);
    peer->refs--;
    peer_free_if_unused(peer);
    unlock(pool);
}

/* ---- wants ---------------------------------------------------------------- */

/* Locked. */
static void want_unref(struct mci_tcp_want *want)
{
    want->refs--;
    if (want->refs > 0) {
        return;
    }
    want->peer->refs--;
    peer_free_if_unused(want->peer);
    (void)close(want->fd);
    mci_free(want);
}

/* Locked; gives up the reference of who ends it. */
static void want_end(struct mci_tcp_want *want, struct mci_tcp_link *link,
                     enum mc_err err)
{
    const uint64_t one = 1;
    want->link = link;
    want->err = err;
    want->is_over = true;
    ssize_t written = write(want->fd, &one, sizeof one);
    (void)written; /* the first one always fits */
    want_unref(want);
}

static struct mci_tcp_want *want_create(struct mci_tcp_peer *peer,
                                        uint64_t deadline_ns)
{
    struct mci_tcp_want *want = mci_calloc(1, sizeof *want);
    if (!want) {
        return NULL;
    }
    want->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (want->fd < 0) {
        mc_log(MC_LOG_WARN, "peer %s: eventfd: %s", peer->endpoint,
               strerrordesc_np(errno));
        mci_free(want);
        return NULL;
    }
    mci_list_init(&want->in_waiting);
    want->peer = peer;
    want->deadline_ns = deadline_ns;
    want->refs = 2;
    return want;
}

/* ---- connecting ------------------------------------------------------------- */

static void start(struct mci_tcp_want *want);

/* Locked: a connection of the peer is gone, so another may be made. */
static void closed_one(struct mci_tcp_peer *peer)
{
    peer->open--;
    if (!mci_list_is_empty(&peer->waiting) &&
        peer->open < peer->pool->open_max) {
        struct mci_tcp_want *want =
            MCI_CONTAINER(peer->waiting.next, struct mci_tcp_want, in_waiting);
        mci_list_remove(&want->in_waiting);
        peer->open++;
        start(want);
        return;
    }
    peer_free_if_unused(peer);
}

static enum mc_err connect_link(struct mci_tcp_want *want,
                                struct mci_tcp_link **link_out)
{
    struct mci_tcp_peer *peer = want->peer;
    struct mc_transfer *transfer = peer->pool->transfer;
    uint64_t until_ns = mci_clock_deadline(mci_clock_ns(), MCI_TCP_CONNECT_MS);
    struct mci_tcp_link *link = mci_calloc(1, sizeof *link);
    if (!link) {
        return MC_ERR_NOMEM;
    }
    if (until_ns > want->deadline_ns) {
        until_ns = want->deadline_ns;
    }
    enum mc_err err = mci_stream_connect(&peer->address, transfer->tls,
                                         until_ns, &link->stream);
    if (err) {
        mci_free(link);
        return err;
    }
    link->peer = peer;
    link->next_number = 1;
    mci_list_init(&link->in_peer);
    mci_list_init(&link->in_pool);
    mci_count(&transfer->counters.connections, 1);
    mci_count(&transfer->counters.connects, 1);
    *link_out = link;
    return MC_OK;
}

static void *connect_run(void *arg)
{
    struct mci_tcp_want *want = arg;
    struct mci_tcp_peer *peer = want->peer;
    struct mci_tcp_pool *pool = peer->pool;
    struct mci_tcp_link *link = NULL;
    enum mc_err err = connect_link(want, &link);
    lock(pool);
    bool is_dropped = want->is_dropped;
    peer->refs++; /* the want may be the last to hold it */
    if (err) {
        closed_one(peer);
    }
    want_end(want, is_dropped ? NULL : link, err);
    unlock(pool);
    if (is_dropped && link) {
        mci_tcp_link_keep(link);
    }
    lock(pool);
    peer->refs--;
    peer_free_if_unused(peer);
    pool->threads--;
    (void)pthread_cond_broadcast(&pool->ended);
    unlock(pool);
    return NULL;
}

static int start_thread(struct mci_tcp_want *want)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&thread, &attr, connect_run, want);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attr);
    return failed;
}

/* Locked; open counts it already. */
static void start(struct mci_tcp_want *want)
{
    struct mci_tcp_peer *peer = want->peer;
    int failed = start_thread(want);
    if (failed) {
        mc_log(MC_LOG_WARN, "peer %s: start a thread: %s", peer->endpoint,
               strerrordesc_np(failed));
        peer->open--;
        want_end(want, NULL, MC_ERR_NOMEM);
        return;
    }
    peer->pool->threads++;
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
        lock(pool);
        if (!mci_list_is_empty(&peer->idle)) {
            link = unlist(peer->idle.prev);
        }
        unlock(pool);
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
    struct mci_tcp_want *want = want_create(peer, deadline_ns);
    if (!want) {
        return MC_ERR_NOMEM;
    }
    lock(pool);
    peer->refs++;
    if (peer->open < pool->open_max) {
        peer->open++;
        start(want);
    } else {
        mci_list_push_back(&peer->waiting, &want->in_waiting);
        if (!mci_list_is_empty(&peer->idle)) {
            old = unlist(peer->idle.next);
        }
    }
    unlock(pool);
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
    lock(pool);
    bool is_over = want->is_over;
    if (is_over) {
        *link_out = want->link;
        *err_out = want->err;
        want->link = NULL;
    }
    unlock(pool);
    return is_over;
}

void mci_tcp_want_drop(struct mci_tcp_want *want)
{
    struct mci_tcp_pool *pool = want->peer->pool;
    lock(pool);
    struct mci_tcp_link *link = want->link;
    want->link = NULL;
    want->is_dropped = true;
    if (!mci_list_is_empty(&want->in_waiting)) {
        mci_list_remove(&want->in_waiting);
        want_unref(want);
    }
    want_unref(want);
    unlock(pool);
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
    lock(pool);
    closed_one(peer);
    unlock(pool);
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
    lock(pool);
    if (!mci_list_is_empty(&peer->waiting)) {
        struct mci_tcp_want *want =
            MCI_CONTAINER(peer->waiting.next, struct mci_tcp_want, in_waiting);
        mci_list_remove(&want->in_waiting);
        link->was_idle = true;
        want_end(want, link, MC_OK);
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
    unlock(pool);
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
    lock(pool);
    pool->is_closing = true;
    while (pool->threads > 0) {
        (void)pthread_cond_wait(&pool->ended, &pool->lock);
    }
    while (!mci_list_is_empty(&pool->idle)) {
        struct mci_tcp_link *oldest =
            MCI_CONTAINER(pool->idle.next, struct mci_tcp_link, in_pool);
        (void)unlist(&oldest->in_peer);
        unlock(pool);
        end_link(oldest, false);
        lock(pool);
    }
    unlock(pool);
    mci_map_fini(&pool->peers);
    (void)pthread_cond_destroy(&pool->ended);
    (void)pthread_mutex_destroy(&pool->lock);
    mci_free(pool);
}
