/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes straight into a connection of a control server over a core of its own.
 * The first byte says how: as they are, or as the args of a request of a known
 * client, whose operation and slot they name first. Whatever it is, the
 * connection must come to its end, and the core stay sound. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "await.h"
#include "control_conn.h"
#include "mc_log.h"
#include "mci_bytes.h"
#include "mci_clock.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define EPOCH UINT64_C(0x0123456789abcdef)
#define SEGMENT_BYTES (UINT64_C(1) << 20)
#define TTL_MS 3600000
#define CHECK_EVERY 4096

struct ground {
    struct mci_event_log *log;
    struct mci_master *master;
    struct mci_registry *registry;
    struct mci_control_server *server;
    uint32_t client;
    uint64_t incarnation;
    uint64_t number;
    uint64_t runs;
};
static struct ground ground;

static void require(int holds)
{
    if (!holds) {
        abort();
    }
}

static bool mount(struct mci_member *member)
{
    uint32_t segment = 0;
    const struct mci_mount mount = {.id = {1, ground.incarnation},
                                    .registration = ground.incarnation,
                                    .bytes = SEGMENT_BYTES,
                                    .base = 4096,
                                    .name = mc_view_str("node"),
                                    .endpoint = mc_view_str("node:1"),
                                    .protocol = mc_view_str("tcp")};
    return mci_registry_mount(ground.registry, member, &mount, mci_clock_ns(),
                              &segment) == MC_OK;
}

/* A client with a segment; a new one when an input has said goodbye. False if
 * there is no room yet, since former ones go in slices, or a goodbye that is
 * still under way has ended it already. */
static bool join(void)
{
    struct mci_welcome welcome;
    struct mci_member *member = NULL;
    if (ground.client != 0 &&
        mci_registry_member(ground.registry, ground.client, ground.incarnation,
                            &member) == MC_OK) {
        mci_member_release(member);
        return true;
    }
    ground.client = 0;
    const struct mci_hello hello = {.version_min = MCI_CONTROL_VERSION,
                                    .version_max = MCI_CONTROL_VERSION,
                                    .incarnation = ++ground.incarnation};
    if (mci_registry_hello(ground.registry, &hello, mci_clock_ns(), &welcome) !=
            MC_OK ||
        mci_registry_member(ground.registry, welcome.client, ground.incarnation,
                            &member) != MC_OK) {
        return false;
    }
    bool is_mounted = mount(member);
    if (is_mounted) {
        ground.client = welcome.client;
    } else {
        mci_registry_goodbye(ground.registry, member, mci_clock_ns());
    }
    mci_member_release(member);
    return is_mounted;
}

static void set_up(void)
{
    const struct mci_log_opts log = {.epoch = EPOCH};
    uint16_t port;
    const char *why;
    mc_log_set_level(MC_LOG_ERROR);
    require(mci_event_log_create(&log, &ground.log) == MC_OK);
    const struct mci_master_opts master = {.log = ground.log};
    require(mci_master_create(&master, &ground.master) == MC_OK);
    const struct mci_registry_opts registry = {
        .master = ground.master, .epoch = EPOCH, .client_ttl_ms = TTL_MS};
    require(mci_registry_create(&registry, &ground.registry) == MC_OK);
    const struct mci_control_server_opts server = {
        .master = ground.master,
        .registry = ground.registry,
        .listen = {.host = "127.0.0.1"},
        .epoch = EPOCH,
        .threads = 1};
    require(mci_control_server_create(&server, &ground.server, &port, &why) ==
            MC_OK);
}

/* Writes what the other end takes, and throws away what it answers, until it
 * has closed. */
static void exchange(int fd, const uint8_t *bytes, size_t len)
{
    uint8_t answer[4096];
    size_t sent = 0;
    ssize_t n = 1;
    while (sent < len && n > 0) {
        n = send(fd, bytes + sent, len - sent, MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
    }
    (void)shutdown(fd, SHUT_WR);
    do {
        n = recv(fd, answer, sizeof answer, 0);
    } while (n > 0);
    (void)close(fd);
}

static void send_to_server(const uint8_t *bytes, size_t len)
{
    int fds[2];
    struct mci_control_conn *conn = NULL;
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    int server_fd = dup(fds[1]);
    (void)close(fds[1]);
    struct timeval patience = {.tv_sec = 5};
    (void)setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &patience,
                     sizeof patience);
    (void)setsockopt(fds[0], SOL_SOCKET, SO_SNDTIMEO, &patience,
                     sizeof patience);
    require(fcntl(server_fd, F_SETFL, O_NONBLOCK) == 0);
    require(mci_control_admit(ground.server));
    require(mci_conn_create(ground.server, server_fd, &conn) == MC_OK);
    mci_conn_move(conn, &ground.server->pollers[0]);
    exchange(fds[0], bytes, len);
}

/* A request of the known client around these args. */
static void send_as_args(const uint8_t *data, size_t size)
{
    struct mci_buf frame;
    struct mci_pack pack;
    const struct mci_request request = {.version = MCI_CONTROL_VERSION,
                                        .op = (enum mci_op)data[0],
                                        .slot = data[1],
                                        .number = ++ground.number,
                                        .time_left_ms = 1000,
                                        .client = ground.client,
                                        .incarnation = ground.incarnation,
                                        .epoch = EPOCH};
    mci_buf_init(&frame, 1 << 20);
    mci_pack_init(&pack, &frame);
    size_t at = mci_request_begin(&pack, &request);
    require(mci_buf_append(&frame, data + 2, size - 2) == MC_OK);
    require(mci_frame_finish(&pack, at) == MC_OK);
    send_to_server(frame.data, frame.len);
    mci_buf_fini(&frame);
}

/* Those whose requests still are under way count too. */
static uint64_t connections(void)
{
    struct mci_control_stats stats;
    mci_control_server_stat(ground.server, &stats);
    return stats.connections;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!ground.server) {
        set_up();
    }
    if (size < 3 || size > 65536) {
        return 0;
    }
    require(AWAIT(join()));
    if (data[0] & 1) {
        send_as_args(data + 1, size - 1);
    } else {
        send_to_server(data + 1, size - 1);
    }
    if (++ground.runs % CHECK_EVERY == 0) {
        require(AWAIT(connections() == 0));
    }
    return 0;
}
