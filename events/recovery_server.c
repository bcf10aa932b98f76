/* SPDX-License-Identifier: Apache-2.0 */
#include "recovery_server.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "mc_log.h"
#include "mci_alloc.h"
#include "mci_clock.h"
#include "mci_thread.h"
#include "opened_thread.h"

/* What waits for one reader: a replay's messages are at most 48 KiB, but for
 * single events. libzmq says that there is room again when half of it has been
 * taken, so that is the least that a reader has to take to be seen reading. */
#define MARK 16
#define WORD_LEN_MAX 4096 /* a frame; more from a peer cuts it off */
#define HEAR_MAX 64       /* requests at a time, */
#define SEND_MAX 64       /* and messages, so that both go on */
#define LISTEN_MS 50      /* longest time of not looking at the end */
#define LINGER_MS 100
#define PEER_LEN_MAX 255
/* One more than a request has, so that what is more is seen to be. */
#define ROOMS (1 + MCI_RECOVERY_PARTS_MAX)
#define ROOM_BYTES (MCI_RECOVERY_FRAME_MAX + 1)

struct mci_recovery_server {
    struct mci_recovery *recovery; /* its thread's own, as the socket */
    struct mci_zmq_socket socket;
    struct mci_recovery_server_opts opts;
    uint8_t peer[PEER_LEN_MAX + 1];
    uint8_t rooms[ROOMS][ROOM_BYTES];
    struct mci_opened_thread thread;
    char bound[256]; /* written before the thread says that it is open */
    _Atomic bool stops;
    pthread_mutex_t lock;            /* a leaf */
    struct mci_recovery_stats stats; /* guarded by lock */
};

/* ---- the thread -------------------------------------------------------------- */

/* One message with all its frames, however many: those beyond the rooms are only
 * counted. False if there is none. */
static bool hear_one(struct mci_recovery_server *server)
{
    struct mc_view frames[ROOMS];
    size_t peer_len = 0;
    size_t count = 0;
    bool has_more = false;
    if (!mci_zmq_receive(&server->socket, server->peer, sizeof server->peer,
                         &peer_len, &has_more)) {
        return false;
    }
    while (has_more) {
        size_t at = count < ROOMS ? count : ROOMS - 1;
        size_t len = 0;
        if (!mci_zmq_receive(&server->socket, server->rooms[at], ROOM_BYTES,
                             &len, &has_more)) {
            return false;
        }
        frames[at] = mc_view_make(server->rooms[at],
                                  len < ROOM_BYTES ? len : ROOM_BYTES);
        count = at + 1;
    }
    mci_recovery_hear(server->recovery, mc_view_make(server->peer, peer_len),
                      frames, count, mci_clock_ns());
    return true;
}

static enum mci_recovery_outcome
send_message(struct mci_recovery_server *server,
             const struct mci_recovery_message *message)
{
    switch (mci_zmq_send(&server->socket, message->frames, message->count)) {
    case MCI_ZMQ_SENT:
        return MCI_RECOVERY_SENT;
    case MCI_ZMQ_BLOCKED:
    case MCI_ZMQ_NOMEM:
        return MCI_RECOVERY_BLOCKED;
    default:
        return MCI_RECOVERY_GONE;
    }
}

static void send_some(struct mci_recovery_server *server)
{
    struct mci_recovery_message message;
    for (int i = 0; i < SEND_MAX; i++) {
        if (!mci_recovery_next(server->recovery, mci_clock_ns(),
                               mci_clock_wall_ms(), &message)) {
            return;
        }
        enum mci_recovery_outcome outcome = send_message(server, &message);
        mci_recovery_told(server->recovery, outcome, mci_clock_ns());
    }
}

static int wait_ms(const struct mci_recovery_server *server)
{
    uint64_t now_ns = mci_clock_ns();
    uint64_t wake_ns = mci_recovery_wake_at(server->recovery);
    if (wake_ns <= now_ns) {
        return 0;
    }
    uint64_t left_ms = (wake_ns - now_ns - 1) / MCI_NS_PER_MS + 1;
    return left_ms < LISTEN_MS ? (int)left_ms : LISTEN_MS;
}

static void tell_stats(struct mci_recovery_server *server)
{
    struct mci_recovery_stats stats;
    mci_recovery_stats(server->recovery, &stats);
    (void)pthread_mutex_lock(&server->lock);
    server->stats = stats;
    (void)pthread_mutex_unlock(&server->lock);
}

static void *run(void *arg)
{
    struct mci_recovery_server *server = arg;
    const struct mci_zmq_opts socket = {.kind = MCI_ZMQ_ANSWERS,
                                        .what = "recovery",
                                        .endpoint = server->opts.endpoint,
                                        .mark = MARK,
                                        .word_max = WORD_LEN_MAX,
                                        .curve = server->opts.curve};
    /* And libzmq's thread, which it makes: who writes is served first (T23). */
    mci_thread_wait_turn();
    enum mc_err err = mci_zmq_open(&server->socket, &socket, server->bound,
                                   sizeof server->bound);
    mci_opened_say(&server->thread, err);
    if (err) {
        return NULL;
    }
    while (!server->stops) {
        for (int i = 0; i < HEAR_MAX && hear_one(server); i++) {
        }
        send_some(server);
        tell_stats(server);
        if (mci_zmq_wait(&server->socket, wait_ms(server))) {
            mci_recovery_room(server->recovery, mci_clock_ns());
        }
    }
    mci_zmq_close(&server->socket, LINGER_MS);
    return NULL;
}

/* ---- its owner --------------------------------------------------------------- */

static void server_free(struct mci_recovery_server *server)
{
    mci_recovery_destroy(server->recovery);
    (void)pthread_mutex_destroy(&server->lock);
    mci_free(server);
}

enum mc_err
mci_recovery_server_create(const struct mci_recovery_server_opts *opts,
                           struct mci_recovery_server **server_out)
{
    struct mci_recovery_server *server = mci_calloc(1, sizeof *server);
    if (!server) {
        return MC_ERR_NOMEM;
    }
    server->opts = *opts;
    (void)pthread_mutex_init(&server->lock, NULL);
    enum mc_err err = mci_recovery_create(&opts->recovery, &server->recovery);
    if (!err) {
        err = mci_opened_start(&server->thread, "recovery", "mckv-recovery",
                               run, server);
    }
    if (err) {
        server_free(server);
        return err;
    }
    mc_log(MC_LOG_INFO, "recovery: at %s", server->bound);
    *server_out = server;
    return MC_OK;
}

void mci_recovery_server_destroy(struct mci_recovery_server *server)
{
    if (!server) {
        return;
    }
    server->stops = true;
    mci_opened_join(&server->thread);
    server_free(server);
}

const char *
mci_recovery_server_endpoint(const struct mci_recovery_server *server)
{
    return server->bound;
}

void mci_recovery_server_stats(struct mci_recovery_server *server,
                               struct mci_recovery_stats *stats_out)
{
    (void)pthread_mutex_lock(&server->lock);
    *stats_out = server->stats;
    (void)pthread_mutex_unlock(&server->lock);
}
