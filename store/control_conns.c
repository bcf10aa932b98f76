/* SPDX-License-Identifier: Apache-2.0 */
/* control_conns.c - all connections of a poller: once a second for those that
 * stand still or keep memory they do not need, and at the end. */
#include "control_conn.h"
#include "mc_log.h"
#include "mci_bytes.h"
#include "mci_clock.h"

#define TICK_NS MCI_NS_PER_S
/* A slow but living peer gets a second for each of these. */
#define SLOW_BYTES_PER_S ((size_t)1 << 20)
/* Memory that a connection may keep while nothing happens. */
#define IDLE_KEEP ((size_t)4 << 10)

static bool stands_still(const struct mci_control_conn *conn, uint64_t now_ns)
{
    const struct mci_control_server *server = conn->server;
    uint64_t still_ns =
        now_ns > conn->progress_ns ? now_ns - conn->progress_ns : 0;
    if (conn->state != MCI_CONN_READS) {
        return false;
    }
    if (mci_conn_has_unsent(conn) || !conn->client) {
        return still_ns > server->stall_ns;
    }
    if (conn->in.len > 0) {
        size_t len =
            conn->in.len < MCI_FRAME_HEAD ? 0 : mci_get_le32(conn->in.data);
        uint64_t slow_ns = len / SLOW_BYTES_PER_S * MCI_NS_PER_S;
        return still_ns > server->stall_ns ||
               now_ns > conn->frame_ns + server->stall_ns + slow_ns;
    }
    return server->opts.idle_timeout_s > 0 && !conn->is_heartbeat &&
           still_ns > server->opts.idle_timeout_s * MCI_NS_PER_S;
}

static void trim(struct mci_control_conn *conn, uint64_t now_ns)
{
    bool is_idle = conn->state == MCI_CONN_READS && conn->in.len == 0 &&
                   !mci_conn_has_unsent(conn) &&
                   now_ns > conn->progress_ns + TICK_NS;
    if (is_idle &&
        conn->in.capacity + conn->out.capacity + conn->answer.capacity >
            IDLE_KEEP) {
        mci_buf_fini(&conn->in);
        mci_buf_fini(&conn->out);
        mci_buf_fini(&conn->answer);
    }
}

/* Hands out one connection after the other, whatever happens to the others
 * meanwhile: what is not yet handed out stands in `waiting`. */
static struct mci_control_conn *next_of(struct mci_control_poller *poller,
                                        struct mci_link *waiting)
{
    if (mci_list_is_empty(waiting)) {
        return NULL;
    }
    struct mci_control_conn *conn =
        MCI_CONTAINER(waiting->next, struct mci_control_conn, link);
    mci_list_remove(&conn->link);
    mci_list_push_back(&poller->conns, &conn->link);
    return conn;
}

static void take_all(struct mci_control_poller *poller,
                     struct mci_link *waiting)
{
    mci_list_init(waiting);
    if (!mci_list_is_empty(&poller->conns)) {
        mci_list_push_back(&poller->conns, waiting);
        mci_list_remove(&poller->conns);
    }
}

void mci_conns_look_over(struct mci_control_poller *poller, uint64_t now_ns)
{
    struct mci_link waiting;
    struct mci_control_conn *conn;
    if (now_ns < poller->tick_ns && poller->tick_ns < now_ns + 2 * TICK_NS) {
        return;
    }
    poller->tick_ns = now_ns + TICK_NS;
    take_all(poller, &waiting);
    while ((conn = next_of(poller, &waiting)) != NULL) {
        if (conn->stream && stands_still(conn, now_ns)) {
            mc_log(MC_LOG_DEBUG, "control: peer %s: stands still",
                   mci_stream_peer(conn->stream));
            mci_conn_close(conn);
            mci_conn_settle(conn);
        } else {
            trim(conn, now_ns);
        }
    }
}

void mci_conns_close(struct mci_control_poller *poller)
{
    struct mci_link waiting;
    struct mci_control_conn *conn;
    take_all(poller, &waiting);
    while ((conn = next_of(poller, &waiting)) != NULL) {
        mci_conn_close(conn);
        mci_conn_settle(conn);
    }
}
