/* SPDX-License-Identifier: Apache-2.0 */
/* Makes connections, each on a thread of its own that ends with it. */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "mc_log.h"
#include "mci_alloc.h"
#include "mci_clock.h"
#include "mci_thread.h"
#include "tcp_pool_parts.h"

#define STACK_BYTES (512u << 10)

/* ---- wants ---------------------------------------------------------------- */

/* Locked. */
void mci_tcp_want_unref(struct mci_tcp_want *want)
{
    want->refs--;
    if (want->refs > 0) {
        return;
    }
    want->peer->refs--;
    mci_tcp_peer_free_if_unused(want->peer);
    (void)close(want->fd);
    mci_free(want);
}

/* Locked; gives up the reference of who ends it. */
void mci_tcp_want_end(struct mci_tcp_want *want, struct mci_tcp_link *link,
                      enum mc_err err)
{
    const uint64_t one = 1;
    want->link = link;
    want->err = err;
    want->is_over = true;
    ssize_t written = write(want->fd, &one, sizeof one);
    (void)written; /* the first one always fits */
    mci_tcp_want_unref(want);
}

struct mci_tcp_want *mci_tcp_want_create(struct mci_tcp_peer *peer,
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

/* Locked: a connection of the peer is gone, so another may be made. */
void mci_tcp_peer_closed_one(struct mci_tcp_peer *peer)
{
    peer->open--;
    if (!mci_list_is_empty(&peer->waiting) &&
        peer->open < peer->pool->open_max) {
        struct mci_tcp_want *want =
            MCI_CONTAINER(peer->waiting.next, struct mci_tcp_want, in_waiting);
        mci_list_remove(&want->in_waiting);
        peer->open++;
        mci_tcp_want_start(want);
        return;
    }
    mci_tcp_peer_free_if_unused(peer);
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
    mci_stream_tune_for_bulk(link->stream);
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
    mci_tcp_pool_lock(pool);
    bool is_dropped = want->is_dropped;
    peer->refs++; /* the want may be the last to hold it */
    if (err) {
        mci_tcp_peer_closed_one(peer);
    }
    mci_tcp_want_end(want, is_dropped ? NULL : link, err);
    mci_tcp_pool_unlock(pool);
    if (is_dropped && link) {
        mci_tcp_link_keep(link);
    }
    mci_tcp_pool_lock(pool);
    peer->refs--;
    mci_tcp_peer_free_if_unused(peer);
    pool->threads--;
    (void)pthread_cond_broadcast(&pool->ended);
    mci_tcp_pool_unlock(pool);
    return NULL;
}

static int start_thread(struct mci_tcp_want *want)
{
    pthread_attr_t attr;
    pthread_t thread;
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
    int failed = mci_thread_start(&thread, &attr, connect_run, want);
    (void)pthread_attr_destroy(&attr);
    return failed;
}

/* Locked; open counts it already. */
void mci_tcp_want_start(struct mci_tcp_want *want)
{
    struct mci_tcp_peer *peer = want->peer;
    int failed = start_thread(want);
    if (failed) {
        mc_log(MC_LOG_WARN, "peer %s: start a thread: %s", peer->endpoint,
               strerrordesc_np(failed));
        peer->open--;
        mci_tcp_want_end(want, NULL, MC_ERR_NOMEM);
        return;
    }
    peer->pool->threads++;
}
