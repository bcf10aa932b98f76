/* SPDX-License-Identifier: Apache-2.0 */
/* test_known_network.c - what other stores failed at between processes: reads
 * that outlive their lease, ports that run out. */
#include <fcntl.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "await.h"
#include "client_rig.h"
#include "crowd_rig.h"
#include "keep_quiet.h"
#include "mc_log.h"
#include "mci_clock.h"
#include "sanitized.h"
#include "suite.h"

static struct process_rig process;

static struct mc_client *join(const char *address, uint64_t segment_bytes,
                              const char *transport)
{
    const struct mc_client_opts opts = {.master = address,
                                        .segment_bytes = segment_bytes,
                                        .any_memory = true,
                                        .timeout_ms = 5000,
                                        .transport = transport};
    struct mc_client *client = NULL;
    return mc_client_open(&opts, &client) == MC_OK ? client : NULL;
}

/* ---- D: a read that outlives its lease -------------------------------------- */

#define BIG (24 * MIB) /* the segment holds one of them */
#define LEASE_MS 300

/* Another process that lends memory, until it is killed. */
struct owner {
    pid_t pid;
    int to;   /* it is told the master's address here */
    int from; /* and says that it lends here */
};

static void lend(int from, int to)
{
    char address[32] = {0};
    if (read(from, address, sizeof address) <= 0 ||
        !join(address, BIG + MIB, "auto") || write(to, "!", 1) != 1) {
        _exit(1);
    }
    for (;;) {
        (void)pause();
    }
}

/* Before there is any thread. */
static void owner_fork(struct owner *owner)
{
    int there[2];
    int back[2];
    ck_assert(pipe(there) == 0 && pipe(back) == 0);
    owner->pid = fork();
    ck_assert_int_ge(owner->pid, 0);
    if (owner->pid == 0) {
        (void)close(there[1]);
        (void)close(back[0]);
        lend(there[0], back[1]);
    }
    (void)close(there[0]);
    (void)close(back[1]);
    owner->to = there[1];
    owner->from = back[0];
}

static void owner_tell(const struct owner *owner, const char *address)
{
    char word = 0;
    ck_assert_int_eq(write(owner->to, address, strlen(address) + 1),
                     (ssize_t)strlen(address) + 1);
    ck_assert_int_eq(read(owner->from, &word, 1), 1);
}

static void owner_kill(const struct owner *owner)
{
    int status;
    (void)kill(owner->pid, SIGCONT);
    ck_assert_int_eq(kill(owner->pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(owner->pid, &status, 0), owner->pid);
    (void)close(owner->to);
    (void)close(owner->from);
}

struct read_once {
    struct mc_client *client;
    uint8_t *at;
    enum mc_err err;
    uint64_t size;
    atomic_bool is_over;
};

static void *read_once(void *ctx)
{
    struct read_once *once = ctx;
    once->err = mc_client_get_into(once->client, mc_view_str("old"), once->at,
                                   BIG, &once->size);
    atomic_store(&once->is_over, true);
    return NULL;
}

static enum mc_err put_big(struct mc_client *client, const char *key,
                           uint64_t stamp)
{
    static uint8_t value[BIG];
    stamp_fill(value, BIG, stamp);
    return mc_client_put(client, mc_view_str(key), value, BIG, NULL);
}

/* Stops the owner somewhere in the middle of a read, puts other bytes where it
 * reads from, and lets it go on. Returns whether that cut the read short. */
static bool overtake(struct read_once *once, struct mc_client *writer,
                     const struct owner *owner, uint64_t stamp)
{
    uint64_t removed = 0;
    uint64_t found = 0;
    pthread_t thread;
    memset(once->at, 0xee, BIG);
    atomic_store(&once->is_over, false);
    ck_assert_int_eq(put_big(writer, "old", stamp), MC_OK);
    ck_assert_int_eq(pthread_create(&thread, NULL, read_once, once), 0);
    uint64_t middle = mci_clock_ns() + stamp / 2 % 8 * 500000;
    while (mci_clock_ns() < middle && !atomic_load(&once->is_over)) {
        sched_yield();
    }
    ck_assert_int_eq(kill(owner->pid, SIGSTOP), 0);
    ck_assert_int_eq(mc_client_remove_all(writer, true, &removed), MC_OK);
    uint64_t until = mci_clock_ns() + 4 * LEASE_MS * MCI_NS_PER_MS;
    bool is_placed = false;
    while (!is_placed && mci_clock_ns() < until) {
        is_placed = put_big(writer, "new", stamp + 1) == MC_OK;
        await_turn();
    }
    ck_assert_int_eq(kill(owner->pid, SIGCONT), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    bool is_whole = once->size == BIG && stamp_read(once->at, BIG, &found);
    ck_assert_msg(once->err != MC_OK || (is_whole && found == stamp),
                  "size %ju of stamp %ju for %ju", (uintmax_t)once->size,
                  (uintmax_t)found, (uintmax_t)stamp);
    ck_assert(once->err == MC_OK || once->err == MC_ERR_LEASE_EXPIRED ||
              once->err == MC_ERR_TRANSFER_FAIL ||
              once->err == MC_ERR_RPC_TIMEOUT ||
              once->err == MC_ERR_OBJECT_NOT_FOUND);
    (void)AWAIT(mc_client_remove_all(writer, true, &removed) == MC_OK &&
                put_big(writer, "old", 0) == MC_OK);
    ck_assert_int_eq(mc_client_remove_all(writer, true, &removed), MC_OK);
    return is_placed && once->err != MC_OK;
}

START_TEST(a_read_that_outlives_its_lease_is_whole_or_fails)
{
    const struct process_rig_opts opts = {
        .store = {.default_kv_lease_ttl_ms = LEASE_MS,
                  .eviction_high_watermark = 1.0},
        .client_ttl_ms = 10000};
    int rounds = getenv("MC_SOAK") ? 100 : 5;
    int overtaken = 0;
    struct owner owner;
    owner_fork(&owner);
    mc_log_set_sink(keep_quiet, NULL);
    process_open(&process, &opts);
    owner_tell(&owner, process.address);
    struct mc_client *writer = join(process.address, MC_NONE, "shm");
    struct read_once once = {.client = join(process.address, MC_NONE, "tcp"),
                             .at = must_alloc(BIG)};
    ck_assert(writer && once.client);
    for (int i = 0; i < rounds; i++) {
        overtaken += overtake(&once, writer, &owner, 2 * (uint64_t)i + 2);
    }
    ck_assert_int_gt(overtaken, 0);
    mc_client_close(writer);
    mc_client_close(once.client);
    owner_kill(&owner);
    process_close(&process);
    mc_log_set_sink(NULL, NULL);
    free(once.at);
}
END_TEST

/* ---- G: few ports -------------------------------------------------------------- */

#define PORTS 500
#define SKIPPED 77

/* A network of our own with so few ports; false: not allowed here. */
static bool leave_for_few_ports(void)
{
    int flags = geteuid() == 0 ? CLONE_NEWNET : CLONE_NEWNET | CLONE_NEWUSER;
    struct ifreq lo = {.ifr_name = "lo"};
    char range[32];
    if (unshare(flags) != 0) {
        return false;
    }
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool is_up = fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &lo) == 0;
    lo.ifr_flags |= IFF_UP;
    is_up = is_up && ioctl(fd, SIOCSIFFLAGS, &lo) == 0;
    (void)close(fd);
    fd = open("/proc/sys/net/ipv4/ip_local_port_range", O_WRONLY | O_CLOEXEC);
    int len = snprintf(range, sizeof range, "20000 %d\n", 20000 + PORTS - 1);
    is_up = is_up && fd >= 0 && write(fd, range, (size_t)len) == len;
    if (fd >= 0) {
        (void)close(fd);
    }
    return is_up;
}

struct mover {
    struct mc_client *client;
    unsigned number;
    unsigned rounds;
    unsigned faults;
};

static void *move_often(void *ctx)
{
    struct mover *mover = ctx;
    uint8_t bytes[100];
    for (unsigned i = 0; i < mover->rounds; i++) {
        char key[24];
        uint64_t size = 0;
        uint64_t stamp = 0;
        (void)snprintf(key, sizeof key, "%u/%u", mover->number, i % 64);
        stamp_fill(bytes, sizeof bytes, i);
        mover->faults += mc_client_upsert(mover->client, mc_view_str(key),
                                          bytes, sizeof bytes, NULL) != MC_OK;
        mover->faults +=
            mc_client_get_into(mover->client, mc_view_str(key), bytes,
                               sizeof bytes, &size) != MC_OK;
        mover->faults += !stamp_read(bytes, size, &stamp) || stamp != i;
    }
    return NULL;
}

/* In a process of its own. Each client is a peer with connections of its own. */
static int move_with_few_ports(unsigned rounds)
{
    const struct process_rig_opts opts = {
        .store = {.default_kv_lease_ttl_ms = 2000}};
    struct mover movers[4];
    pthread_t threads[4];
    unsigned faults = 0;
    if (!leave_for_few_ports()) {
        return SKIPPED;
    }
    process_open(&process, &opts);
    struct mc_client *owner = join(process.address, 16 * MIB, "tcp");
    struct mc_client *client = join(process.address, MC_NONE, "tcp");
    for (unsigned i = 0; owner && client && i < 4; i++) {
        movers[i] =
            (struct mover){.client = client, .number = i, .rounds = rounds};
        faults +=
            pthread_create(&threads[i], NULL, move_often, &movers[i]) != 0;
    }
    for (unsigned i = 0; owner && client && i < 4; i++) {
        (void)pthread_join(threads[i], NULL);
        faults += movers[i].faults;
    }
    faults += !owner || !client;
    mc_client_close(client);
    mc_client_close(owner);
    process_close(&process);
    return faults ? 1 : 0;
}

START_TEST(small_calls_do_not_use_up_the_ports)
{
    unsigned rounds = getenv("MC_SOAK") ? 6250 : SANITIZED ? 100 : 250;
    int status = 0;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        _exit(move_with_few_ports(rounds));
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    if (WEXITSTATUS(status) == SKIPPED) {
        (void)fprintf(stderr, "no network of our own here: skipped\n");
        return;
    }
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

static TCase *network(void)
{
    TCase *tcase = tcase_create("network");
    tcase_set_timeout(tcase, 240);
    tcase_add_test(tcase, a_read_that_outlives_its_lease_is_whole_or_fails);
    tcase_add_test(tcase, small_calls_do_not_use_up_the_ports);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("known network");
    suite_add_tcase(suite, network());
    return suite_run(suite);
}
