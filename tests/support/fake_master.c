/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_master.h"

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mci_bytes.h"
#include "mci_clock.h"

#define FRAME_MAX ((size_t)MC_MESSAGE_LEN_MAX + MCI_FRAME_HEAD)

/* ---- bytes --------------------------------------------------------------- */

/* False: closed, or the end. */
static bool read_bytes(struct fake_conn *conn, void *data, size_t len)
{
    uint8_t *at = data;
    while (len > 0) {
        struct pollfd one = {.fd = conn->fd, .events = POLLIN};
        if (atomic_load(&conn->master->stops) || conn->is_cut) {
            return false;
        }
        if (poll(&one, 1, 20) == 0) {
            continue;
        }
        ssize_t moved = recv(conn->fd, at, len, 0);
        if (moved <= 0) {
            return false;
        }
        at += moved;
        len -= (size_t)moved;
    }
    return true;
}

void fake_bytes(struct fake_conn *conn, const void *data, size_t len)
{
    const uint8_t *at = data;
    while (len > 0) {
        ssize_t moved = send(conn->fd, at, len, MSG_NOSIGNAL);
        if (moved <= 0) {
            conn->is_cut = true;
            return;
        }
        at += moved;
        len -= (size_t)moved;
    }
}

void fake_cut(struct fake_conn *conn)
{
    struct linger hard = {.l_onoff = 1, .l_linger = 0};
    (void)setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    conn->is_cut = true;
}

/* ---- answering ----------------------------------------------------------- */

void fake_begin(struct fake_conn *conn, const struct mci_request *request,
                enum mc_err code, struct mci_pack *pack)
{
    const struct mci_answer answer = {.version = MCI_CONTROL_VERSION,
                                      .slot = request->slot,
                                      .number = request->number,
                                      .code = code};
    mci_buf_clear(&conn->out);
    mci_pack_init(pack, &conn->out);
    conn->answer_at = mci_answer_begin(pack, &answer);
}

void fake_end(struct fake_conn *conn, struct mci_pack *pack)
{
    ck_assert_int_eq(mci_frame_finish(pack, conn->answer_at), MC_OK);
    fake_bytes(conn, conn->out.data, conn->out.len);
}

void fake_refuse(struct fake_conn *conn, const struct mci_request *request,
                 enum mc_err code)
{
    struct mci_pack pack;
    fake_begin(conn, request, code, &pack);
    mci_pack_nil(&pack);
    fake_end(conn, &pack);
}

/* ---- hello and heartbeat ------------------------------------------------- */

static enum mc_err admit(struct fake_master *master,
                         const struct mci_request *request,
                         const struct mci_hello *hello)
{
    if (atomic_load(&master->hello_code) != 0) {
        return (enum mc_err)atomic_load(&master->hello_code);
    }
    if (request->client == 0) {
        if (atomic_load(&master->hello_refusals) > 0) {
            atomic_fetch_sub(&master->hello_refusals, 1);
            return MC_ERR_SEGMENT_ALREADY_EXISTS;
        }
        if (master->incarnation != hello->incarnation) {
            master->incarnation = hello->incarnation;
            master->client++;
        }
        return MC_OK;
    }
    return request->incarnation == master->incarnation &&
                   request->epoch == atomic_load(&master->epoch)
               ? MC_OK
               : MC_ERR_CLIENT_NOT_FOUND;
}

static void answer_hello(struct fake_conn *conn,
                         const struct mci_request *request,
                         struct mci_unpack *args)
{
    struct fake_master *master = conn->master;
    struct mci_hello hello;
    struct mci_pack pack;
    mci_hello_unpack(args, &hello);
    (void)pthread_mutex_lock(&master->lock);
    enum mc_err code = admit(master, request, &hello);
    struct mci_welcome welcome = {.version_min = MCI_CONTROL_VERSION,
                                  .version_max = MCI_CONTROL_VERSION,
                                  .epoch = atomic_load(&master->epoch),
                                  .client = master->client,
                                  .client_ttl_ms = 10000,
                                  .heartbeat_ms =
                                      atomic_load(&master->heartbeat_ms),
                                  .software = mc_view_str("fake")};
    (void)pthread_mutex_unlock(&master->lock);
    if (atomic_load(&master->is_deaf)) {
        return;
    }
    fake_begin(conn, request, code, &pack);
    if (code == MC_OK || code == MC_ERR_NOT_SUPPORTED) {
        mci_welcome_pack(&pack, &welcome);
    } else {
        mci_pack_nil(&pack);
    }
    if (atomic_load(&master->hello_version) != 0) {
        /* [version, ...]: the first element, in one byte */
        conn->out.data[conn->answer_at + MCI_FRAME_HEAD + 1] =
            (uint8_t)atomic_load(&master->hello_version);
    }
    fake_end(conn, &pack);
}

static void note_beat(struct fake_master *master,
                      const struct mci_heartbeat *heartbeat)
{
    struct fake_beat *beat = &master->beat;
    beat->count++;
    beat->came_ns = mci_clock_ns();
    beat->fences_done = heartbeat->fences_done;
    beat->slot_count = heartbeat->slot_count;
    memcpy(beat->slots, heartbeat->slots,
           heartbeat->slot_count * sizeof beat->slots[0]);
    beat->stuck_count = heartbeat->stuck_count;
    beat->attempt_count = heartbeat->attempt_count;
    for (uint32_t i = 0; i < heartbeat->attempt_count && i < FAKE_KNOWN_MAX;
         i++) {
        beat->attempts[i] = heartbeat->attempts[i].number;
    }
}

static void answer_heartbeat(struct fake_conn *conn,
                             const struct mci_request *request,
                             struct mci_unpack *args)
{
    struct fake_master *master = conn->master;
    struct mci_heartbeat heartbeat;
    struct mci_pack pack;
    if (!conn->room) {
        conn->room = calloc(1, sizeof *conn->room);
        ck_assert_ptr_nonnull(conn->room);
        conn->room->attempts =
            calloc(MC_ATTEMPTS_MAX, sizeof *conn->room->attempts);
        conn->room->stuck = calloc(MC_ATTEMPTS_MAX, sizeof *conn->room->stuck);
        ck_assert_ptr_nonnull(conn->room->attempts);
        ck_assert_ptr_nonnull(conn->room->stuck);
    }
    mci_heartbeat_unpack(args, conn->room, &heartbeat);
    ck_assert_int_eq(mci_unpack_done(args), MCI_UNPACK_OK);
    if (atomic_load(&master->is_deaf)) {
        return;
    }
    fake_begin(conn, request, MC_OK, &pack);
    (void)pthread_mutex_lock(&master->lock);
    note_beat(master, &heartbeat);
    mci_pulse_pack(&pack, &master->pulse);
    master->pulse = (struct mci_pulse){.fence_count = 0};
    (void)pthread_mutex_unlock(&master->lock);
    fake_end(conn, &pack);
}

/* ---- requests ------------------------------------------------------------ */

static bool is_known(struct fake_master *master,
                     const struct mci_request *request)
{
    (void)pthread_mutex_lock(&master->lock);
    bool is_known = request->client == master->client &&
                    request->incarnation == master->incarnation &&
                    request->epoch == atomic_load(&master->epoch);
    master->seen[(unsigned)request->op % 64]++;
    if (request->op != MCI_OP_HEARTBEAT && request->op != MCI_OP_HELLO) {
        struct mci_request *one =
            &master->log[master->log_count++ % FAKE_LOG_MAX];
        *one = *request;
        one->tenant = mc_view_make(NULL, 0);
    }
    (void)pthread_mutex_unlock(&master->lock);
    return is_known;
}

static void answer_one(struct fake_conn *conn,
                       const struct mci_request *request,
                       struct mci_unpack *args)
{
    struct fake_master *master = conn->master;
    bool is_ours = is_known(master, request);
    if (request->op == MCI_OP_HELLO) {
        answer_hello(conn, request, args);
    } else if (!is_ours) {
        fake_refuse(conn, request, MC_ERR_CLIENT_NOT_FOUND);
    } else if (request->op == MCI_OP_HEARTBEAT) {
        answer_heartbeat(conn, request, args);
    } else if (request->op == MCI_OP_CANCEL || request->op == MCI_OP_GOODBYE) {
        fake_refuse(conn, request, MC_OK);
    } else if (!master->answer) {
        fake_refuse(conn, request, MC_ERR_NOT_SUPPORTED);
    } else {
        master->answer(master->ctx, conn, request, args);
    }
}

static void *run_conn(void *ctx)
{
    struct fake_conn *conn = ctx;
    uint8_t head[MCI_FRAME_HEAD];
    while (!conn->is_cut && read_bytes(conn, head, sizeof head)) {
        struct mci_request request;
        struct mci_unpack unpack;
        size_t len = mci_get_le32(head);
        mci_buf_clear(&conn->in);
        ck_assert_uint_le(len, MC_MESSAGE_LEN_MAX);
        ck_assert_int_eq(mci_buf_reserve(&conn->in, len), MC_OK);
        if (!read_bytes(conn, conn->in.data, len)) {
            break;
        }
        mci_unpack_init(&unpack, mc_view_make(conn->in.data, len));
        mci_request_read(&unpack, &request);
        ck_assert_int_eq(unpack.error, MCI_UNPACK_OK);
        answer_one(conn, &request, &unpack);
    }
    (void)pthread_mutex_lock(&conn->master->lock);
    (void)close(conn->fd);
    conn->fd = -1;
    (void)pthread_mutex_unlock(&conn->master->lock);
    return NULL;
}

/* ---- the master ---------------------------------------------------------- */

static void begin_conn(struct fake_master *master, int fd)
{
    int yes = 1;
    struct fake_conn *conn = calloc(1, sizeof *conn);
    ck_assert_ptr_nonnull(conn);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    conn->master = master;
    conn->fd = fd;
    mci_buf_init(&conn->in, FRAME_MAX);
    mci_buf_init(&conn->out, FRAME_MAX);
    (void)pthread_mutex_lock(&master->lock);
    ck_assert_uint_lt(master->conn_count, FAKE_CONNS_MAX);
    master->conns[master->conn_count++] = conn;
    (void)pthread_mutex_unlock(&master->lock);
    ck_assert_int_eq(pthread_create(&conn->thread, NULL, run_conn, conn), 0);
}

static void *run_master(void *ctx)
{
    struct fake_master *master = ctx;
    while (!atomic_load(&master->stops)) {
        struct pollfd one = {.fd = master->listener, .events = POLLIN};
        if (poll(&one, 1, 20) > 0) {
            int fd = accept4(master->listener, NULL, NULL, SOCK_CLOEXEC);
            if (fd >= 0) {
                begin_conn(master, fd);
            }
        }
    }
    return NULL;
}

void fake_open(struct fake_master *master, fake_fn answer, void *ctx)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof at;
    memset(master, 0, sizeof *master);
    atomic_init(&master->epoch, 1000);
    atomic_init(&master->heartbeat_ms, 100);
    master->answer = answer;
    master->ctx = ctx;
    (void)pthread_mutex_init(&master->lock, NULL);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    master->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(master->listener, 0);
    ck_assert_int_eq(bind(master->listener, (struct sockaddr *)&at, sizeof at),
                     0);
    ck_assert_int_eq(listen(master->listener, 512), 0);
    ck_assert_int_eq(
        getsockname(master->listener, (struct sockaddr *)&at, &len), 0);
    master->port = ntohs(at.sin_port);
    ck_assert_int_eq(pthread_create(&master->thread, NULL, run_master, master),
                     0);
}

void fake_close(struct fake_master *master)
{
    atomic_store(&master->stops, true);
    (void)pthread_join(master->thread, NULL);
    for (unsigned i = 0; i < master->conn_count; i++) {
        struct fake_conn *conn = master->conns[i];
        (void)pthread_join(conn->thread, NULL);
        mci_buf_fini(&conn->in);
        mci_buf_fini(&conn->out);
        if (conn->room) {
            free(conn->room->attempts);
            free(conn->room->stuck);
            free(conn->room);
        }
        free(conn);
    }
    (void)close(master->listener);
    (void)pthread_mutex_destroy(&master->lock);
}

void fake_forget(struct fake_master *master)
{
    (void)pthread_mutex_lock(&master->lock);
    master->incarnation = 0;
    (void)pthread_mutex_unlock(&master->lock);
}

void fake_cut_all(struct fake_master *master)
{
    (void)pthread_mutex_lock(&master->lock);
    for (unsigned i = 0; i < master->conn_count; i++) {
        if (master->conns[i]->fd >= 0) {
            (void)shutdown(master->conns[i]->fd, SHUT_RDWR);
        }
    }
    (void)pthread_mutex_unlock(&master->lock);
}

void fake_restart(struct fake_master *master)
{
    fake_forget(master);
    atomic_fetch_add(&master->epoch, 1);
    fake_cut_all(master);
}

void fake_pulse(struct fake_master *master, const struct mci_pulse *pulse)
{
    (void)pthread_mutex_lock(&master->lock);
    master->pulse = *pulse;
    (void)pthread_mutex_unlock(&master->lock);
}

unsigned fake_seen(struct fake_master *master, enum mci_op op)
{
    (void)pthread_mutex_lock(&master->lock);
    unsigned seen = master->seen[(unsigned)op % 64];
    (void)pthread_mutex_unlock(&master->lock);
    return seen;
}

struct fake_beat fake_last_beat(struct fake_master *master)
{
    (void)pthread_mutex_lock(&master->lock);
    struct fake_beat beat = master->beat;
    (void)pthread_mutex_unlock(&master->lock);
    return beat;
}

struct mci_request fake_logged(struct fake_master *master, unsigned back)
{
    struct mci_request request = {.number = 0};
    (void)pthread_mutex_lock(&master->lock);
    if (back < master->log_count) {
        request = master->log[(master->log_count - 1 - back) % FAKE_LOG_MAX];
    }
    (void)pthread_mutex_unlock(&master->lock);
    return request;
}
