/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_given_up.c - memory that a client lends, gives up and lends anew:
 * how much of it there is meanwhile, who may reach it how, and what those who
 * were in the middle of a write can still do. SAFETY B.6. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "await.h"
#include "client_outside.h"
#include "client_rig.h"
#include "copy.h"
#include "crowd_rig.h"
#include "ctl_proxy.h"
#include "data_proxy.h"
#include "keep_quiet.h"
#include "mc_log.h"
#include "mci_client.h"
#include "self_process.h"
#include "suite.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define PAGE UINT64_C(4096)
#define LENT (16 * MIB)

static struct process_rig process;

static void start(uint16_t port)
{
    const struct process_rig_opts opts = {
        .store = {.eviction_high_watermark = 1.0},
        .client_ttl_ms = 10000,
        .port = port};
    mc_log_set_sink(keep_quiet, NULL);
    process_open(&process, &opts);
}

static void restart(void)
{
    uint16_t port = process.port;
    process_close(&process);
    start(port);
}

static void stop(void)
{
    process_close(&process);
    mc_log_set_sink(NULL, NULL);
}

static struct mc_client_opts opts_of(const char *address, uint64_t bytes,
                                     const char *transport,
                                     const char *hostname)
{
    return (struct mc_client_opts){.master = address,
                                   .segment_bytes = bytes,
                                   .any_memory = true,
                                   .transport = transport,
                                   .local_hostname = hostname};
}

static struct mc_client *join(const char *address, uint64_t segment_bytes,
                              const char *transport, const char *hostname)
{
    const struct mc_client_opts opts =
        opts_of(address, segment_bytes, transport, hostname);
    struct mc_client *client = NULL;
    ck_assert_int_eq(mc_client_open(&opts, &client), MC_OK);
    return client;
}

static uint64_t capacity(struct mc_client *client)
{
    struct mc_client_stats stats;
    mc_client_stat(client, &stats);
    return stats.capacity_bytes;
}

/* Bytes that a client has read and written by one transport. */
static uint64_t moved(struct mc_client *client, enum mc_transport_kind kind)
{
    struct mc_transfer_stats stats;
    mc_transfer_stat(mci_client_outside(client)->transfer, &stats);
    return stats.read_bytes[kind] + stats.written_bytes[kind];
}

/* ---- how much memory there is --------------------------------------------- */

/* Files in memory stay as long as somebody has them mapped, which here is this
 * book of all that were made. */
#define FILES_MAX 256
static struct {
    pthread_mutex_t lock;
    int fds[FILES_MAX];
    int count;
    bool is_kept;
    uint64_t most; /* bytes there, and about to be, when pages were touched */
    unsigned touches; /* of segments */
} files = {.lock = PTHREAD_MUTEX_INITIALIZER};

static uint64_t bytes_there(void)
{
    uint64_t bytes = 0;
    for (int i = 0; i < files.count; i++) {
        struct stat stat;
        ck_assert_int_eq(fstat(files.fds[i], &stat), 0);
        bytes += (uint64_t)stat.st_blocks * 512;
    }
    return bytes;
}

/* In the place of the C library's. */
int memfd_create(const char *name, unsigned int flags)
{
    int fd = (int)syscall(SYS_memfd_create, name, flags);
    (void)pthread_mutex_lock(&files.lock);
    if (files.is_kept && fd >= 0 && files.count < FILES_MAX) {
        files.fds[files.count++] = dup(fd);
    }
    (void)pthread_mutex_unlock(&files.lock);
    return fd;
}

int madvise(void *at, size_t len, int advice)
{
    (void)pthread_mutex_lock(&files.lock);
    if (files.is_kept && advice == MADV_POPULATE_WRITE && len > LENT / 4) {
        uint64_t bytes = bytes_there() + len;
        files.most = bytes > files.most ? bytes : files.most;
        files.touches++;
    }
    (void)pthread_mutex_unlock(&files.lock);
    return (int)syscall(SYS_madvise, at, len, advice);
}

static void files_begin(void)
{
    (void)pthread_mutex_lock(&files.lock);
    files.is_kept = true;
    (void)pthread_mutex_unlock(&files.lock);
}

static void files_end(void)
{
    (void)pthread_mutex_lock(&files.lock);
    files.is_kept = false;
    while (files.count > 0) {
        (void)close(files.fds[--files.count]);
    }
    (void)pthread_mutex_unlock(&files.lock);
}

/* No more than that was there at any time that pages were touched, since the
 * last call, and that much is there now. */
static void expect_memory(unsigned touches, uint64_t bytes)
{
    (void)pthread_mutex_lock(&files.lock);
    ck_assert_uint_eq(files.touches, touches);
    ck_assert_uint_le(files.most, bytes + MIB); /* small files, header pages */
    ck_assert_uint_ge(bytes_there(), bytes);
    ck_assert_uint_le(bytes_there(), bytes + MIB);
    files.most = 0;
    files.touches = 0;
    (void)pthread_mutex_unlock(&files.lock);
}

static void put_and_get(struct mc_client *client, const char *key)
{
    static uint8_t value[MIB];
    static uint8_t got[MIB];
    uint64_t size = 0;
    uint64_t stamp = 0;
    stamp_fill(value, sizeof value, 5);
    ck_assert(AWAIT(mc_client_put(client, mc_view_str(key), value, sizeof value,
                                  NULL) == MC_OK));
    ck_assert_int_eq(
        mc_client_get_into(client, mc_view_str(key), got, sizeof got, &size),
        MC_OK);
    ck_assert(stamp_read(got, size, &stamp) && stamp == 5);
}

START_TEST(there_never_is_twice_the_memory)
{
    uint32_t segment = 0;
    uint64_t bytes = 0;
    files_begin();
    start(0);
    struct mc_client *owner = join(process.address, LENT, "auto", NULL);
    struct mc_client *user = join(process.address, MC_NONE, "shm", NULL);
    expect_memory(1, LENT);
    put_and_get(user, "a"); /* has it mapped from now on */
    for (int i = 0; i < 3; i++) {
        restart();
        ck_assert(AWAIT(capacity(user) == LENT));
        expect_memory(1, LENT);
        put_and_get(user, "a");
    }
    ck_assert_int_eq(
        mc_client_allocate_and_mount_segment(owner, LENT, &segment, &bytes),
        MC_OK);
    expect_memory(1, 2 * LENT);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 8; k++) { /* on both */
            char key[16];
            (void)snprintf(key, sizeof key, "%d.%d", i, k);
            put_and_get(user, key);
        }
        ck_assert_int_eq(mc_client_unmount_segment(owner, segment, 0), MC_OK);
        expect_memory(0, LENT);
        ck_assert_int_eq(
            mc_client_allocate_and_mount_segment(owner, LENT, &segment, &bytes),
            MC_OK);
        expect_memory(1, 2 * LENT);
    }
    restart(); /* both, one after the other */
    ck_assert(AWAIT(capacity(user) == 2 * LENT));
    expect_memory(2, 2 * LENT);
    mc_client_close(user);
    mc_client_close(owner);
    stop();
    files_end();
}
END_TEST

/* ---- memory of the user --------------------------------------------------- */

START_TEST(memory_of_the_user_is_reached_by_tcp_only)
{
    uint8_t *memory = must_alloc(4 * MIB);
    uint32_t segment = 0;
    uint64_t bytes = 0;
    start(0);
    struct mc_client *owner = join(process.address, MC_NONE, "auto", NULL);
    struct mc_client *user = join(process.address, MC_NONE, "auto", NULL);
    struct mc_client *shm = join(process.address, MC_NONE, "shm", NULL);
    ck_assert_int_eq(mc_client_mount_segment(owner, memory, 4 * MIB, &segment),
                     MC_OK);
    put_and_get(user, "a");
    ck_assert_uint_eq(moved(user, MC_TRANSPORT_TCP), 2 * MIB);
    ck_assert_uint_eq(moved(user, MC_TRANSPORT_SHM), 0);
    void *data = NULL;
    size_t size = 0;
    ck_assert_int_eq(mc_client_get(shm, mc_view_str("a"), &data, &size),
                     MC_ERR_TRANSFER_FAIL);
    ck_assert_int_eq(mc_client_unmount_segment(owner, segment, 0), MC_OK);
    /* And what was made is offered. */
    ck_assert_int_eq(
        mc_client_allocate_and_mount_segment(owner, 4 * MIB, &segment, &bytes),
        MC_OK);
    put_and_get(user, "b");
    ck_assert_uint_eq(moved(user, MC_TRANSPORT_TCP), 2 * MIB);
    ck_assert_uint_eq(moved(user, MC_TRANSPORT_SHM), 2 * MIB);
    ck_assert_int_eq(mc_client_get(shm, mc_view_str("b"), &data, &size), MC_OK);
    mc_client_free(data);
    mc_client_close(shm);
    mc_client_close(user);
    mc_client_close(owner);
    stop();
    free(memory);
}
END_TEST

struct writing {
    struct mc_client *client;
    uint8_t *value;
    size_t len;
    enum mc_err err;
};

static void *write_late(void *ctx)
{
    struct writing *writing = ctx;
    writing->err = mc_client_put(writing->client, mc_view_str("late"),
                                 writing->value, writing->len, NULL);
    return NULL;
}

static uint64_t connections(struct mc_client *client)
{
    struct mc_transfer_stats stats;
    mc_transfer_stat(mci_client_outside(client)->transfer, &stats);
    return stats.connections;
}

static bool is_all(const uint8_t *bytes, size_t len, uint8_t byte)
{
    return bytes[0] == byte && memcmp(bytes, bytes + 1, len - 1) == 0;
}

/* A write whose second half is on its way while its master restarts: before the
 * memory is lent again its connection is closed, and nothing of it comes. */
START_TEST(memory_of_the_user_is_lent_again_once_its_connections_are_closed)
{
    uint8_t *memory = must_alloc(4 * MIB);
    uint32_t segment = 0;
    char hostname[32];
    char beside[32];
    pthread_t thread;
    struct writing writing = {.value = must_alloc(2 * MIB), .len = 2 * MIB};
    start(0);
    struct data_proxy *data = data_proxy_open();
    struct ctl_proxy *control = ctl_proxy_open(process.port);
    (void)snprintf(hostname, sizeof hostname, "127.0.0.1:%u",
                   (unsigned)data_proxy_port(data));
    (void)snprintf(beside, sizeof beside, "127.0.0.1:%u",
                   (unsigned)ctl_proxy_port(control));
    ck_assert_int_eq(setenv("MC_TCP_BIND_ADDRESS", DATA_PROXY_BIND, 1), 0);
    struct mc_client *owner = join(beside, MC_NONE, "auto", hostname);
    ck_assert_int_eq(unsetenv("MC_TCP_BIND_ADDRESS"), 0);
    writing.client = join(process.address, MC_NONE, "auto", NULL);
    memset(writing.value, 0xee, writing.len);
    ck_assert_int_eq(mc_client_mount_segment(owner, memory, 4 * MIB, &segment),
                     MC_OK);
    data_proxy_hold(data, DATA_TO_OWNER, MIB);
    ck_assert_int_eq(pthread_create(&thread, NULL, write_late, &writing), 0);
    ck_assert(AWAIT(data_proxy_is_held(data, DATA_TO_OWNER)));
    data_proxy_refuse(data, true); /* no other one comes in its place */
    ck_assert_uint_eq(data_proxy_closed(data), 0);
    ck_assert_uint_eq(connections(owner), 1);
    const struct ctl_rule rule = {
        .way = CTL_REQUEST, .op = MCI_OP_SEGMENT_MOUNT, .what = CTL_HOLD};
    int held = ctl_proxy_rule(control, &rule);
    restart();
    ck_assert(AWAIT(ctl_proxy_hits(control, held) > 0));
    ck_assert_uint_eq(connections(owner), 0);
    ck_assert(AWAIT(data_proxy_closed(data) > 0));
    memset(memory, 0x11, 4 * MIB); /* nobody touches it now */
    data_proxy_release(data, DATA_TO_OWNER);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_ne(writing.err, MC_OK);
    ck_assert(is_all(memory, 4 * MIB, 0x11));
    data_proxy_refuse(data, false);
    ctl_proxy_lift(control, held);
    ctl_proxy_release(control, held);
    ck_assert(AWAIT(capacity(writing.client) == 4 * MIB));
    ck_assert(is_all(memory, 4 * MIB, 0x11));
    put_and_get(writing.client, "b");
    mc_client_close(writing.client);
    mc_client_close(owner);
    ctl_proxy_close(control);
    data_proxy_close(data);
    stop();
    free(writing.value);
    free(memory);
}
END_TEST

/* ---- a writer of another process, stopped in the middle ---------------------- */

#define LATE_LEN (8 * MIB)
#define LATE_STAMP 77

static uint8_t *guarded; /* a page of the writer's value */

static void stop_between_pieces(const struct mc_transfer_row *row)
{
    if (row->bytes == MCI_PIECE_BYTES) {
        mci_copy_set_hook(NULL);
        (void)raise(SIGSTOP);
    }
}

/* The copy has come to the guarded page: it stops there, and then goes on. */
static void stop_inside_a_piece(int number, siginfo_t *how, void *context)
{
    (void)number, (void)context;
    if ((uint8_t *)how->si_addr < guarded ||
        (uint8_t *)how->si_addr >= guarded + PAGE ||
        mprotect(guarded, PAGE, PROT_READ | PROT_WRITE) != 0) {
        _exit(8);
    }
    (void)raise(SIGSTOP);
}

/* In a process of its own, where nobody takes assertions. */
static int play_writer(const char *address, bool is_inside)
{
    const struct mc_client_opts opts = opts_of(address, MC_NONE, "shm", NULL);
    struct mc_client *client = NULL;
    uint8_t *value = mmap(NULL, LATE_LEN, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (value == MAP_FAILED) {
        return 9;
    }
    mc_log_set_sink(keep_quiet, NULL);
    stamp_fill(value, LATE_LEN, LATE_STAMP);
    if (mc_client_open(&opts, &client) != MC_OK) {
        return 7;
    }
    if (is_inside) {
        struct sigaction action = {.sa_flags = SA_SIGINFO};
        action.sa_sigaction = stop_inside_a_piece;
        guarded = value + 3 * MIB / 2;
        if (sigaction(SIGSEGV, &action, NULL) != 0 ||
            mprotect(guarded, PAGE, PROT_NONE) != 0) {
            return 9;
        }
    } else {
        mci_copy_set_hook(stop_between_pieces);
    }
    (void)!mc_client_put(client, mc_view_str("late"), value, LATE_LEN, NULL);
    mc_client_close(client);
    return 0;
}

static pid_t spawn_writer(bool is_inside)
{
    char how[] = "--writer";
    char where[] = "inside";
    char *args[] = {how, how, process.address, is_inside ? where : NULL, NULL};
    int status = 0;
    pid_t pid = self_spawn(args);
    ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
    ck_assert_msg(WIFSTOPPED(status), "status %x", status);
    return pid;
}

static void expect_whole(struct mc_client *client, const char *key,
                         uint64_t stamp)
{
    static uint8_t got[MIB];
    uint64_t size = 0;
    uint64_t found = 0;
    enum mc_err err =
        mc_client_get_into(client, mc_view_str(key), got, sizeof got, &size);
    ck_assert_msg(err == MC_OK, "%s: %d", key, err);
    ck_assert_uint_eq(size, MIB);
    ck_assert_msg(stamp_read(got, MIB, &found), "%s", key);
    ck_assert_uint_eq(found, stamp);
}

/* All of the memory that was lent again is others' when the writer goes on. */
START_TEST(a_stopped_writer_reaches_nothing_that_was_lent_again)
{
    static uint8_t value[MIB];
    const struct mc_replicate_config pinned = {.with_hard_pin = true};
    bool is_inside = _i % 2;
    bool by_unmount = _i / 2;
    uint32_t segment = 0;
    uint64_t bytes = 0;
    int status = 0;
    start(0);
    struct mc_client *owner = join(process.address, MC_NONE, "auto", NULL);
    struct mc_client *other = join(process.address, MC_NONE, "auto", NULL);
    ck_assert_int_eq(
        mc_client_allocate_and_mount_segment(owner, LENT, &segment, &bytes),
        MC_OK);
    pid_t pid = spawn_writer(is_inside);
    if (by_unmount) {
        ck_assert_int_eq(mc_client_unmount_segment(owner, segment, 0), MC_OK);
        ck_assert_int_eq(
            mc_client_allocate_and_mount_segment(owner, LENT, &segment, &bytes),
            MC_OK);
    } else {
        restart();
        ck_assert(AWAIT(capacity(other) == LENT));
    }
    char key[16];
    unsigned count = 0;
    enum mc_err err = MC_OK;
    while (err != MC_ERR_NO_AVAILABLE_HANDLE) {
        (void)snprintf(key, sizeof key, "f%u", count);
        stamp_fill(value, MIB, count + 1);
        err = mc_client_put(other, mc_view_str(key), value, MIB, &pinned);
        count += err == MC_OK;
        ck_assert(err == MC_OK || err == MC_ERR_NO_AVAILABLE_HANDLE);
    }
    ck_assert_uint_eq(count, LENT / MIB);
    ck_assert_int_eq(kill(pid, SIGCONT), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x",
                  status);
    for (unsigned i = 0; i < count; i++) {
        (void)snprintf(key, sizeof key, "f%u", i);
        expect_whole(other, key, i + 1);
    }
    bool is_there = true;
    ck_assert_int_eq(mc_client_exist(other, mc_view_str("late"), &is_there),
                     MC_OK);
    ck_assert(!is_there);
    mc_client_close(other);
    mc_client_close(owner);
    stop();
}
END_TEST

int main(int argc, char **argv)
{
    if (argc >= 3 && strcmp(argv[1], "--writer") == 0) {
        return play_writer(argv[2], argc > 3);
    }
    Suite *suite = suite_create("client_given_up");
    TCase *tcase = tcase_create("given up");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, there_never_is_twice_the_memory);
    tcase_add_test(tcase, memory_of_the_user_is_reached_by_tcp_only);
    tcase_add_test(
        tcase,
        memory_of_the_user_is_lent_again_once_its_connections_are_closed);
    tcase_add_loop_test(
        tcase, a_stopped_writer_reaches_nothing_that_was_lent_again, 0, 4);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
