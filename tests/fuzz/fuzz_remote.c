/* SPDX-License-Identifier: Apache-2.0 */
/* What a client reads: a real remote link asks, and a master over loopback answers
 * with the input. The first byte chooses the call, the second how much of the
 * answer is the input's: the result, or the whole frame behind its length. Rows
 * are of exact size, so that a step beyond them is seen; a refused call must
 * refuse every row; an answer asked for a second time is a refusal.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mc_log.h"
#include "mci_bytes.h"
#include "mci_clock.h"
#include "mci_remote.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ROWS 3
#define CONNS 64
#define FRAME_MAX (1 << 20)

static struct mci_remote *remote;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mc_view input; /* guarded; of the next answer */
static bool is_raw;
static bool is_used; /* it was given */

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

/* ---- the master ---------------------------------------------------------- */

static void pack_result(struct mci_pack *pack,
                        const struct mci_request *request,
                        struct mci_unpack *args)
{
    static const struct mci_pulse none;
    const struct mci_welcome welcome = {.version_min = MCI_CONTROL_VERSION,
                                        .version_max = MCI_CONTROL_VERSION,
                                        .epoch = 1000,
                                        .client = 1,
                                        .client_ttl_ms = 3600000,
                                        .heartbeat_ms = 3600000};
    if (request->op == MCI_OP_HELLO) {
        mci_welcome_pack(pack, &welcome);
    } else if (request->op == MCI_OP_HEARTBEAT) {
        mci_pulse_pack(pack, &none);
    } else if (request->op == MCI_OP_PUT_REVOKE) {
        uint32_t count = mci_rows_unpack(args);
        mci_rows_pack(pack, count);
        for (uint32_t i = 0; i < count; i++) {
            mci_pack_u64(pack, 0);
        }
    } else {
        mci_pack_nil(pack);
    }
}

static bool is_fuzzed(enum mci_op op)
{
    return op != MCI_OP_HELLO && op != MCI_OP_HEARTBEAT &&
           op != MCI_OP_CANCEL && op != MCI_OP_GOODBYE &&
           op != MCI_OP_PUT_REVOKE;
}

static void write_answer(struct mci_buf *out, const struct mci_request *request,
                         struct mci_unpack *args)
{
    struct mci_answer answer = {.version = MCI_CONTROL_VERSION,
                                .slot = request->slot,
                                .number = request->number};
    struct mci_pack pack;
    mci_buf_clear(out);
    mci_pack_init(&pack, out);
    (void)pthread_mutex_lock(&lock);
    bool fuzzed = is_fuzzed(request->op) && !is_used;
    if (is_fuzzed(request->op) && is_used) {
        answer.code = MC_ERR_INVALID_PARAMS;
    }
    size_t at = mci_answer_begin(&pack, &answer);
    if (fuzzed && is_raw) {
        out->len = MCI_FRAME_HEAD;
    }
    if (fuzzed) {
        is_used = true;
        require(mci_buf_append(out, input.data, input.len) == MC_OK);
    } else {
        pack_result(&pack, request, args);
    }
    (void)pthread_mutex_unlock(&lock);
    require(mci_frame_finish(&pack, at) == MC_OK);
}

/* False: closed. */
static bool serve(int fd, struct mci_buf *in, struct mci_buf *out)
{
    uint8_t head[MCI_FRAME_HEAD];
    struct mci_request request;
    struct mci_unpack unpack;
    if (recv(fd, head, sizeof head, MSG_WAITALL) != (ssize_t)sizeof head) {
        return false;
    }
    size_t len = mci_get_le32(head);
    require(len <= FRAME_MAX);
    mci_buf_clear(in);
    require(mci_buf_reserve(in, len) == MC_OK);
    if (recv(fd, in->data, len, MSG_WAITALL) != (ssize_t)len) {
        return false;
    }
    mci_unpack_init(&unpack, mc_view_make(in->data, len));
    mci_request_read(&unpack, &request);
    require(unpack.error == MCI_UNPACK_OK);
    write_answer(out, &request, &unpack);
    return send(fd, out->data, out->len, MSG_NOSIGNAL) == (ssize_t)out->len;
}

static void *run_master(void *ctx)
{
    struct pollfd fds[CONNS] = {{.fd = *(int *)ctx, .events = POLLIN}};
    struct mci_buf in;
    struct mci_buf out;
    nfds_t count = 1;
    int yes = 1;
    mci_buf_init(&in, FRAME_MAX);
    mci_buf_init(&out, 4 * FRAME_MAX);
    for (;;) {
        (void)poll(fds, count, -1);
        for (nfds_t i = count - 1; i > 0; i--) {
            if (fds[i].revents != 0 && !serve(fds[i].fd, &in, &out)) {
                (void)close(fds[i].fd);
                fds[i] = fds[--count];
            }
        }
        if (fds[0].revents != 0 && count < CONNS) {
            int fd = accept(fds[0].fd, NULL, NULL);
            require(fd >= 0);
            (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
            fds[count++] = (struct pollfd){.fd = fd, .events = POLLIN};
        }
    }
    return NULL;
}

static void open_all(void)
{
    static int listener;
    static pthread_t thread;
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof at;
    char address[32];
    mc_log_set_level(MC_LOG_ERROR);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    require(bind(listener, (struct sockaddr *)&at, sizeof at) == 0);
    require(listen(listener, 64) == 0);
    require(getsockname(listener, (struct sockaddr *)&at, &len) == 0);
    require(pthread_create(&thread, NULL, run_master, &listener) == 0);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", ntohs(at.sin_port));
    const struct mci_remote_opts opts = {.master = address};
    require(mci_remote_open(&opts, &remote) == MC_OK);
}

/* ---- the calls ----------------------------------------------------------- */

static struct mci_master_link table;
static struct mci_call call;

static void *make_rows(size_t row_len)
{
    void *rows = calloc(ROWS, row_len);
    require(rows != NULL);
    return rows;
}

static void try_writes(unsigned which)
{
    struct mci_write_row *rows = make_rows(sizeof *rows);
    const struct mci_link_ops *ops = table.ops;
    for (size_t i = 0; i < ROWS; i++) {
        rows[i].key = mc_view_str("key");
        rows[i].attempt.epoch = which < 2 ? 0 : 1000;
        rows[i].attempt.number = which < 2 ? 0 : 5 + i;
    }
    enum mc_err err =
        which == 0   ? ops->put_start(table.ctx, &call, NULL, rows, ROWS)
        : which == 1 ? ops->upsert_start(table.ctx, &call, NULL, rows, ROWS)
        : which == 2 ? ops->put_end(table.ctx, &call, rows, ROWS)
                     : ops->attempt_touch(table.ctx, &call, rows, ROWS);
    for (size_t i = 0; i < ROWS; i++) {
        require(err == MC_OK || rows[i].err == err);
        require(rows[i].place_count <= MCI_REPLICAS_MAX);
        require(which >= 2 || rows[i].err == MC_OK ||
                rows[i].attempt.number == 0);
    }
    if (which < 2 && err == MC_OK) {
        struct mci_remote_stats stats;
        (void)ops->put_revoke(table.ctx, &call, rows, ROWS);
        mci_remote_stat(remote, &stats);
        require(stats.attempts == 0);
    }
    free(rows);
}

static void try_reads(bool want_lease)
{
    struct mci_read_row *rows = make_rows(sizeof *rows);
    for (size_t i = 0; i < ROWS; i++) {
        rows[i].key = mc_view_str("key");
        rows[i].want_lease = want_lease;
    }
    enum mc_err err = table.ops->get(table.ctx, &call, rows, ROWS);
    for (size_t i = 0; i < ROWS; i++) {
        require(err == MC_OK || rows[i].err == err);
        require(rows[i].place_count <= MCI_REPLICAS_MAX);
    }
    free(rows);
}

static void try_leases(bool renews)
{
    struct mci_read_row *rows = make_rows(sizeof *rows);
    for (size_t i = 0; i < ROWS; i++) {
        rows[i].lease = (struct mci_lease){.epoch = 1000, .number = 5 + i};
    }
    enum mc_err err =
        renews ? table.ops->lease_renew(table.ctx, &call, rows, ROWS)
               : table.ops->lease_release(table.ctx, &call, rows, ROWS);
    for (size_t i = 0; i < ROWS; i++) {
        require(err == MC_OK || rows[i].err == err);
        require(rows[i].place_count <= MCI_REPLICAS_MAX);
    }
    free(rows);
}

static void try_keys(unsigned which)
{
    const struct mc_view keys[ROWS] = {mc_view_str("a"), mc_view_str("b"),
                                       mc_view_str("c")};
    const struct mci_attempt attempts[ROWS] = {{1000, 1}, {1000, 2}, {1000, 3}};
    int64_t *results = make_rows(sizeof *results);
    struct mc_probe *probes = make_rows(sizeof *probes);
    enum mci_fate *fates = make_rows(sizeof *fates);
    const struct mci_link_ops *ops = table.ops;
    enum mc_err err = MC_OK;
    switch (which) {
    case 0:
        err = ops->exist(table.ctx, &call, keys, ROWS, results);
        break;
    case 1:
        err = ops->get_size(table.ctx, &call, keys, ROWS, results);
        break;
    case 2:
        err = ops->probe(table.ctx, &call, keys, ROWS, probes, results);
        break;
    case 3:
        err = ops->remove(table.ctx, &call, keys, ROWS, true, results);
        break;
    default:
        (void)ops->attempt_fate(table.ctx, &call, attempts, ROWS, fates);
        break;
    }
    for (size_t i = 0; i < ROWS; i++) {
        require(err == MC_OK || results[i] == err);
        require(probes[i].session_len <= sizeof probes[i].session);
    }
    free(results);
    free(probes);
    free(fates);
}

static void try_others(unsigned which)
{
    const struct mci_segment_row *row = NULL;
    struct mci_cursor cursor = {.shard = 0};
    struct mci_master_stats stats;
    struct mci_page page;
    uint64_t removed = 0;
    switch (which) {
    case 0:
        (void)mci_remote_segment(remote, (uint32_t)mci_clock_ns(),
                                 call.deadline_ns, &row);
        break;
    case 1:
        require(mci_page_init(&page) == MC_OK);
        (void)table.ops->list(table.ctx, &call, mc_view_str("t"), &cursor,
                              &page);
        require(page.count <= page.capacity);
        mci_page_fini(&page);
        break;
    case 2:
        (void)table.ops->stat(table.ctx, &call, &stats);
        break;
    default:
        (void)table.ops->remove_all(table.ctx, &call, true, &removed);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > FRAME_MAX) {
        return 0;
    }
    if (!remote) {
        open_all();
        table = mci_remote_link(remote);
    }
    (void)pthread_mutex_lock(&lock);
    input = mc_view_make(data + 2, size - 2);
    is_raw = (data[1] & 1) != 0;
    is_used = false;
    (void)pthread_mutex_unlock(&lock);
    call.now_ns = mci_clock_ns();
    /* A frame may be an old answer, behind which another is waited for. */
    call.deadline_ns =
        call.now_ns + (is_raw ? 300 * MCI_NS_PER_MS : 20 * MCI_NS_PER_S);
    unsigned which = data[0] % 17;
    if (which < 4) {
        try_writes(which);
    } else if (which == 4) {
        try_reads(false);
    } else if (which < 10) {
        try_keys(which - 5);
    } else if (which == 14) {
        try_reads(true);
    } else if (which > 14) {
        try_leases(which == 15);
    } else {
        try_others(which - 10);
    }
    return 0;
}
