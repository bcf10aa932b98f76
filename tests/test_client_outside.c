/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_outside.c - a client and its master as processes of their own:
 * lending, restarts, copies, settings. F1, F2, F4, F14, G10 of the known
 * faults. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "await.h"
#include "client_outside.h"
#include "client_rig.h"
#include "crowd_rig.h"
#include "keep_quiet.h"
#include "mc_log.h"
#include "mc_master.h"
#include "mci_address.h"
#include "mci_client.h"
#include "mci_clock.h"
#include "sanitized.h"
#include "suite.h"

#define LEN 5000

static struct process_rig process;
static uint8_t value[LEN];
static uint8_t got[LEN];

static void start(uint16_t port, uint64_t lease_ms)
{
    const struct process_rig_opts opts = {
        .store = {.eviction_high_watermark = 1.0,
                  .default_kv_lease_ttl_ms = lease_ms},
        .client_ttl_ms = 3000,
        .port = port};
    mc_log_set_sink(keep_quiet, NULL);
    process_open(&process, &opts);
    stamp_fill(value, sizeof value, 17);
}

static void stop(void)
{
    process_close(&process);
    mc_log_set_sink(NULL, NULL);
}

static struct mc_client *join(uint64_t segment_bytes, const char *transport)
{
    const struct mc_client_opts opts = {.master = process.address,
                                        .segment_bytes = segment_bytes,
                                        .any_memory = true,
                                        .transport = transport};
    struct mc_client *client = NULL;
    ck_assert_int_eq(mc_client_open(&opts, &client), MC_OK);
    return client;
}

static enum mc_err put(struct mc_client *client, const char *key)
{
    return mc_client_put(client, mc_view_str(key), value, LEN, NULL);
}

static enum mc_err get(struct mc_client *client, const char *key)
{
    uint64_t size = 0;
    uint64_t stamp = 0;
    memset(got, 0, sizeof got);
    enum mc_err err =
        mc_client_get_into(client, mc_view_str(key), got, sizeof got, &size);
    if (err == MC_OK) {
        ck_assert_uint_eq(size, LEN);
        ck_assert(stamp_read(got, LEN, &stamp) && stamp == 17);
    }
    return err;
}

static bool exists(struct mc_client *client, const char *key)
{
    bool is_there = false;
    ck_assert_int_eq(mc_client_exist(client, mc_view_str(key), &is_there),
                     MC_OK);
    return is_there;
}

/* ---- several clients ------------------------------------------------------- */

START_TEST(what_one_writes_the_other_reads_by_every_transport)
{
    static const char *const transports[] = {"auto", "tcp", "shm"};
    for (size_t i = 0; i < 3; i++) {
        start(0, 0);
        struct mc_client *a = join(MIB, transports[i]);
        struct mc_client *b = join(MIB, transports[i]);
        struct mc_client *pure = join(MC_NONE, transports[i]);
        for (int k = 0; k < 20; k++) {
            char key[8];
            (void)snprintf(key, sizeof key, "k%d", k);
            ck_assert_int_eq(put(k % 2 ? a : b, key), MC_OK);
            ck_assert_int_eq(get(a, key), MC_OK);
            ck_assert_int_eq(get(b, key), MC_OK);
            ck_assert_int_eq(get(pure, key), MC_OK);
        }
        ck_assert_int_eq(mc_client_health(pure), 0);
        mc_client_close(pure);
        mc_client_close(b);
        mc_client_close(a);
        stop();
    }
}
END_TEST

/* F14: what a client lent is gone when it closes; a second copy is not. */
START_TEST(a_second_copy_outlives_the_first_ones_owner)
{
    const struct mc_replicate_config two = {.replica_num = 2};
    const struct mc_view key = mc_view_str("two");
    struct mc_replicas replicas;
    int64_t count = 0;
    start(0, 0);
    struct mc_client *a = join(MIB, "tcp");
    struct mc_client *b = join(MIB, "tcp");
    struct mc_client *pure = join(MC_NONE, "tcp");
    ck_assert_int_eq(mc_client_put(pure, key, value, LEN, &two), MC_OK);
    ck_assert_int_eq(put(pure, "one"), MC_OK);
    ck_assert_int_eq(
        mc_client_batch_get_replicas(pure, &key, 1, &replicas, &count), MC_OK);
    ck_assert_int_eq(count, 2);
    ck_assert_str_ne(replicas.rows[0].endpoint, replicas.rows[1].endpoint);
    mc_client_close(a);
    ck_assert_int_eq(get(pure, "two"), MC_OK);
    mc_client_close(b);
    ck_assert(AWAIT(!exists(pure, "two") && !exists(pure, "one")));
    ck_assert_int_eq(get(pure, "two"), MC_ERR_OBJECT_NOT_FOUND);
    ck_assert_int_eq(put(pure, "three"), MC_ERR_NO_AVAILABLE_HANDLE);
    mc_client_close(pure);
    stop();
}
END_TEST

/* A copy that cannot be read any more is made up for by the other one; and a
 * write that did not reach all its copies leaves nothing behind. */
START_TEST(a_copy_that_fails_is_read_from_the_next_one)
{
    enum { KEYS = 12 };
    const struct mc_replicate_config two = {.replica_num = 2};
    struct mc_client_stats stats;
    start(0, 0);
    struct mc_client *a = join(MIB, "tcp");
    struct mc_client *b = join(MIB, "tcp");
    struct mc_client *pure = join(MC_NONE, "tcp");
    for (int i = 0; i < KEYS; i++) {
        char key[8];
        (void)snprintf(key, sizeof key, "k%d", i);
        ck_assert_int_eq(
            mc_client_put(pure, mc_view_str(key), value, LEN, &two), MC_OK);
    }
    /* As if its heartbeat had told so; the master does not know of it, and
     * nobody mends it. */
    mci_keeper_stop(mci_client_outside(a));
    mci_lent_conceal(mci_client_outside(a));
    for (int i = 0; i < KEYS; i++) {
        char key[8];
        (void)snprintf(key, sizeof key, "k%d", i);
        ck_assert_int_eq(get(pure, key), MC_OK);
        ck_assert_int_eq(get(b, key), MC_OK);
    }
    mci_keeper_stop(mci_client_outside(b));
    mci_lent_conceal(mci_client_outside(b));
    ck_assert_int_eq(get(pure, "k0"), MC_ERR_TRANSFER_FAIL);
    /* Each failed try keeps its range back until its grant is over, so that many
     * fit at the most. */
    for (int i = 0; i < (int)(MIB / LEN / 4); i++) {
        char key[8];
        (void)snprintf(key, sizeof key, "n%d", i);
        enum mc_err err = put(pure, key); /* they may lend again meanwhile */
        ck_assert_msg(err == MC_OK || err == MC_ERR_TRANSFER_FAIL, "%d", err);
        ck_assert(err == MC_OK || !exists(pure, key));
    }
    mc_client_stat(pure, &stats);
    ck_assert_uint_eq(stats.attempts, 0);
    mc_client_close(pure);
    mc_client_close(b);
    mc_client_close(a);
    stop();
}
END_TEST

/* ---- lending ------------------------------------------------------------------ */

START_TEST(memory_of_the_user_is_lent_and_given_back)
{
    uint8_t *memory = must_alloc(MIB);
    uint32_t segment = 0;
    uint32_t other = 0;
    start(0, 0);
    struct mc_client *owner = join(MC_NONE, "auto");
    struct mc_client *pure = join(MC_NONE, "auto");
    ck_assert_int_eq(put(pure, "a"), MC_ERR_NO_AVAILABLE_HANDLE);
    ck_assert_int_eq(mc_client_mount_segment(owner, NULL, MIB, &segment),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_client_mount_segment(owner, memory, 0, &segment),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(
        mc_client_mount_segment(owner, memory, UINT64_MAX, &segment),
        MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_client_mount_segment(owner, memory, MIB / 2, &segment),
                     MC_OK);
    ck_assert_int_eq(
        mc_client_mount_segment(owner, memory + MIB / 4, MIB / 2, &other),
        MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(put(pure, "a"), MC_OK);
    ck_assert_int_eq(get(pure, "a"), MC_OK);
    ck_assert_int_eq(put(owner, "b"), MC_OK);
    ck_assert_int_eq(get(owner, "b"), MC_OK);
    ck_assert_int_eq(mc_client_unmount_segment(owner, segment + 7, 0),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_client_unmount_segment(owner, segment, 0), MC_OK);
    memset(memory, 0, MIB); /* ours again */
    ck_assert_int_eq(mc_client_unmount_segment(owner, segment, 0),
                     MC_ERR_INVALID_PARAMS);
    /* The master has taken it out, so a put does not find it there. */
    ck_assert_int_eq(get(pure, "a"), MC_ERR_OBJECT_NOT_FOUND);
    ck_assert_int_eq(put(pure, "a"), MC_ERR_NO_AVAILABLE_HANDLE);
    ck_assert_int_eq(put(pure, "b"), MC_ERR_NO_AVAILABLE_HANDLE);
    ck_assert(memory[0] == 0 && memcmp(memory, memory + 1, MIB - 1) == 0);
    mc_client_close(pure);
    mc_client_close(owner);
    stop();
    free(memory);
}
END_TEST

/* Else a put would be told that what is on its way out is there. */
START_TEST(all_is_taken_out_when_unmount_returns)
{
    enum { KEYS = 30000 };
    static char names[KEYS][16];
    static struct mc_view keys[KEYS];
    static int64_t results[KEYS];
    uint32_t segment = 0;
    uint64_t bytes = 0;
    start(0, 0);
    struct mc_client *owner = join(MC_NONE, "tcp");
    struct mc_client *pure = join(MC_NONE, "tcp");
    ck_assert_int_eq(
        mc_client_allocate_and_mount_segment(owner, 16 * MIB, &segment, &bytes),
        MC_OK);
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(names[i], sizeof names[i], "k%d", i);
        keys[i] = mc_view_str(names[i]);
    }
    static struct mc_view values[KEYS];
    for (int i = 0; i < KEYS; i++) {
        values[i] = keys[i];
    }
    ck_assert_int_eq(
        mc_client_batch_put(pure, keys, values, KEYS, NULL, results), MC_OK);
    for (int i = 0; i < KEYS; i++) {
        ck_assert_int_eq(results[i], 0);
    }
    ck_assert_int_eq(mc_client_unmount_segment(owner, segment, 0), MC_OK);
    ck_assert_int_eq(mc_client_batch_exist(pure, keys, KEYS, results), MC_OK);
    for (int i = 0; i < KEYS; i++) {
        ck_assert_int_eq(results[i], 0);
    }
    mc_client_close(pure);
    mc_client_close(owner);
    stop();
}
END_TEST

/* F4. */
START_TEST(with_grace_objects_stay_and_nothing_new_comes)
{
    uint32_t segment = 0;
    uint64_t bytes = 0;
    start(0, 0);
    struct mc_client *owner = join(MC_NONE, "tcp");
    struct mc_client *pure = join(MC_NONE, "tcp");
    ck_assert_int_eq(
        mc_client_allocate_and_mount_segment(owner, 100000, &segment, &bytes),
        MC_OK);
    ck_assert_uint_ge(bytes, 100000);
    ck_assert_int_eq(put(pure, "a"), MC_OK);
    ck_assert_int_eq(mc_client_unmount_segment(owner, segment, 300), MC_OK);
    ck_assert_int_eq(put(pure, "a"), MC_ERR_NO_AVAILABLE_HANDLE);
    mc_client_close(pure);
    mc_client_close(owner);
    stop();
}
END_TEST

struct unmounting {
    struct mc_client *owner;
    uint32_t segment;
    atomic_int err;
};

static void *unmount(void *ctx)
{
    struct unmounting *unmounting = ctx;
    atomic_store(&unmounting->err,
                 mc_client_unmount_segment(unmounting->owner,
                                           unmounting->segment, 1500));
    return NULL;
}

START_TEST(readers_read_during_the_grace)
{
    struct unmounting unmounting;
    uint64_t bytes = 0;
    pthread_t thread;
    start(0, 0);
    struct mc_client *owner = join(MC_NONE, "tcp");
    struct mc_client *pure = join(MC_NONE, "tcp");
    unmounting.owner = owner;
    atomic_init(&unmounting.err, 1);
    ck_assert_int_eq(mc_client_allocate_and_mount_segment(
                         owner, MIB, &unmounting.segment, &bytes),
                     MC_OK);
    ck_assert_int_eq(put(pure, "a"), MC_OK);
    ck_assert_int_eq(pthread_create(&thread, NULL, unmount, &unmounting), 0);
    char key[24];
    unsigned number = 0;
    ck_assert(AWAIT(((void)snprintf(key, sizeof key, "n%u", number++),
                     put(pure, key) == MC_ERR_NO_AVAILABLE_HANDLE)));
    ck_assert_int_eq(get(pure, "a"), MC_OK);
    ck_assert_int_eq(atomic_load(&unmounting.err), 1);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_int_eq(atomic_load(&unmounting.err), MC_OK);
    ck_assert(AWAIT(get(pure, "a") == MC_ERR_OBJECT_NOT_FOUND));
    mc_client_close(pure);
    mc_client_close(owner);
    stop();
}
END_TEST

/* F5: what readers remember of a segment is not taken for the next one. */
START_TEST(a_segment_that_comes_again_is_another_one)
{
    uint64_t bytes = 0;
    start(0, 0);
    struct mc_client *owner = join(MC_NONE, "auto");
    struct mc_client *pure = join(MC_NONE, "auto");
    for (int i = 0; i < 30; i++) {
        uint32_t segment = 0;
        char key[8];
        (void)snprintf(key, sizeof key, "k%d", i);
        ck_assert_int_eq(
            mc_client_allocate_and_mount_segment(owner, MIB, &segment, &bytes),
            MC_OK);
        ck_assert(AWAIT(put(pure, key) == MC_OK));
        ck_assert_int_eq(get(pure, key), MC_OK);
        ck_assert_int_eq(mc_client_unmount_segment(owner, segment, 0), MC_OK);
        enum mc_err err = get(pure, key);
        ck_assert_int_eq(err, MC_ERR_OBJECT_NOT_FOUND);
    }
    mc_client_close(pure);
    mc_client_close(owner);
    stop();
}
END_TEST

/* ---- the master goes and comes back -------------------------------------------- */

/* The master has a segment of that number, and it is this one. */
static void expect_number(struct mc_client *of, uint32_t segment)
{
    uint32_t number = 0;
    struct mci_segment_row row;
    struct mci_segment_texts texts;
    ck_assert(AWAIT(mc_client_segment_number(of, segment, &number) !=
                    MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS));
    ck_assert_int_eq(mc_client_segment_number(of, segment, &number), MC_OK);
    ck_assert(mci_registry_segment(process.registry, number, &row, &texts));
    ck_assert_msg(
        row.segment == number &&
            mc_view_equal(row.name, mc_view_str(mc_client_hostname(of))),
        "%u", number);
    ck_assert_int_eq(mc_client_segment_number(of, segment + 9, &number),
                     MC_ERR_INVALID_PARAMS);
}

/* F1, F2. */
START_TEST(after_a_restart_what_was_lent_is_lent_again_and_empty)
{
    uint8_t *memory = must_alloc(MIB);
    uint32_t segment = 0;
    start(0, 0);
    uint16_t port = process.port;
    struct mc_client *owner = join(MIB, "auto");
    struct mc_client *user = join(MC_NONE, "auto");
    ck_assert_int_eq(mc_client_mount_segment(user, memory, MIB, &segment),
                     MC_OK);
    expect_number(user, segment);
    for (int i = 0; i < 50; i++) {
        char key[8];
        (void)snprintf(key, sizeof key, "k%d", i);
        ck_assert_int_eq(put(user, key), MC_OK);
    }
    process_close(&process);
    ck_assert(AWAIT(mc_client_health(owner) != 0));
    start(port, 0);
    ck_assert(
        AWAIT(mc_client_health(owner) == 0 && mc_client_health(user) == 0));
    struct mc_client_stats stats = {.objects = 0};
    ck_assert(
        AWAIT((mc_client_stat(user, &stats), stats.capacity_bytes == 2 * MIB)));
    ck_assert_uint_eq(stats.objects, 0);
    expect_number(user, segment);
    ck_assert_int_eq(get(user, "k1"), MC_ERR_OBJECT_NOT_FOUND);
    ck_assert(AWAIT(put(user, "n") == MC_OK));
    for (int i = 0; i < 50; i++) {
        char key[8];
        (void)snprintf(key, sizeof key, "n%d", i);
        ck_assert_int_eq(put(i % 2 ? user : owner, key), MC_OK);
        ck_assert_int_eq(get(i % 2 ? owner : user, key), MC_OK);
    }
    ck_assert_int_eq(mc_client_unmount_segment(user, segment, 0), MC_OK);
    mc_client_close(user);
    mc_client_close(owner);
    stop();
    free(memory);
}
END_TEST

START_TEST(a_client_closes_soon_when_its_master_is_gone)
{
    start(0, 0);
    struct mc_client *owner = join(MIB, "auto");
    ck_assert_int_eq(put(owner, "a"), MC_OK);
    process_close(&process);
    uint64_t before_ns = mci_clock_ns();
    mc_client_close(owner);
    uint64_t took_ns = mci_clock_ns() - before_ns;
    ck_assert_uint_lt(took_ns, (SANITIZED ? 20 : 5) * MCI_NS_PER_S);
    mc_log_set_sink(NULL, NULL);
}
END_TEST

START_TEST(calls_without_a_master_answer_within_their_time)
{
    start(0, 0);
    const struct mc_client_opts opts = {.master = process.address,
                                        .segment_bytes = MIB,
                                        .any_memory = true,
                                        .timeout_ms = 300};
    struct mc_client *client = NULL;
    ck_assert_int_eq(mc_client_open(&opts, &client), MC_OK);
    ck_assert_int_eq(put(client, "a"), MC_OK);
    process_close(&process);
    uint64_t before_ns = mci_clock_ns();
    enum mc_err err = get(client, "a");
    ck_assert(err == MC_ERR_RPC_FAIL || err == MC_ERR_RPC_TIMEOUT);
    err = put(client, "b");
    ck_assert(err == MC_ERR_RPC_FAIL || err == MC_ERR_RPC_TIMEOUT);
    ck_assert_uint_lt(mci_clock_ns() - before_ns, 20 * MCI_NS_PER_S);
    mc_client_close(client);
    mc_log_set_sink(NULL, NULL);
}
END_TEST

/* ---- settings ------------------------------------------------------------------- */

START_TEST(a_client_is_set_up_by_position)
{
    struct mc_client *client = NULL;
    start(0, 0);
    ck_assert_int_eq(mc_client_setup("localhost", "P2PHANDSHAKE", MIB, MIB,
                                     "tcp", "", process.address, &client),
                     MC_OK);
    ck_assert_int_eq(strncmp(mc_client_hostname(client), "localhost:", 10), 0);
    ck_assert_int_eq(put(client, "a"), MC_OK);
    ck_assert_int_eq(get(client, "a"), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_client_register_buffer(client, got, sizeof got), MC_OK);
    ck_assert_int_eq(get(client, "a"), MC_OK);
    mc_client_close(client);
    client = NULL;
    ck_assert_int_eq(mc_client_setup("h", "P2PHANDSHAKE", MIB, MIB, "rdma", "",
                                     process.address, &client),
                     MC_ERR_NOT_SUPPORTED);
    ck_assert_int_eq(mc_client_setup("h", "P2PHANDSHAKE", MIB, MIB, "tcp", "",
                                     process.address, NULL),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_ptr_null(client);
    stop();
}
END_TEST

static struct mc_client *join_as(const char *hostname, const char *transport)
{
    const struct mc_client_opts opts = {.master = process.address,
                                        .local_hostname = hostname,
                                        .segment_bytes = MC_NONE,
                                        .any_memory = true,
                                        .transport = transport};
    struct mc_client *client = NULL;
    ck_assert_int_eq(mc_client_open(&opts, &client), MC_OK);
    return client;
}

START_TEST(who_has_a_name_is_served_under_it_before_it_lends)
{
    struct mci_address told;
    const char *why = NULL;
    int fd = -1;
    start(0, 0);
    struct mc_client *a = join_as("127.0.0.1", "tcp");
    struct mc_client *b = join_as("127.0.0.1", "tcp");
    ck_assert_str_ne(mc_client_hostname(a), mc_client_hostname(b));
    ck_assert_int_eq(mci_address_parse(mc_client_hostname(a), &told), MC_OK);
    ck_assert(told.has_port && told.port != 0);
    ck_assert_int_eq(
        mci_address_connect(&told, mci_clock_deadline(mci_clock_ns(), 30000),
                            &fd, &why),
        MC_OK);
    (void)close(fd);
    mc_client_close(b);
    mc_client_close(a);
    stop();
}
END_TEST

/* Where nobody comes by tcp a port is no name, so two may be given the same. */
START_TEST(who_is_not_served_by_tcp_has_no_name)
{
    struct mci_registry_stats stats;
    start(0, 0);
    struct mc_client *a = join_as("127.0.0.1:12345", "shm");
    struct mc_client *b = join_as("127.0.0.1:12345", "shm");
    ck_assert_str_eq(mc_client_hostname(a), "127.0.0.1");
    ck_assert_str_eq(mc_client_hostname(b), "127.0.0.1");
    mci_registry_stat(process.registry, &stats);
    ck_assert_uint_eq(stats.clients, 2);
    mc_client_close(b);
    mc_client_close(a);
    stop();
}
END_TEST

static int ask_http(uint16_t port, const char *path, char *room, size_t max)
{
    const struct sockaddr_in at = {.sin_family = AF_INET,
                                   .sin_port = htons(port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char request[512];
    int len = snprintf(request, sizeof request,
                       "GET %s HTTP/1.0\r\nHost: h\r\n\r\n", path);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t got_len = 0;
    int status = 0;
    if (connect(fd, (const struct sockaddr *)&at, sizeof at) == 0 &&
        send(fd, request, (size_t)len, MSG_NOSIGNAL) == len) {
        ssize_t more = 0;
        while (got_len < max - 1 &&
               (more = recv(fd, room + got_len, max - 1 - got_len, 0)) > 0) {
            got_len += (size_t)more;
        }
    }
    room[got_len] = '\0';
    (void)close(fd);
    return sscanf(room, "HTTP/%*s %d", &status) == 1 ? status : 0;
}

START_TEST(a_metadata_server_hears_of_a_client_and_of_its_end)
{
    const struct mc_master_opts opts = {.rpc_address = "127.0.0.1",
                                        .with_metadata = true,
                                        .metadata_address = "127.0.0.1"};
    struct mc_master *master = NULL;
    const char *what = NULL;
    struct mc_master_bound bound;
    mc_log_set_sink(keep_quiet, NULL);
    enum mc_err err = mc_master_open(&opts, &master, &what);
    ck_assert_msg(err == MC_OK, "%d %s", err, what ? what : "");
    mc_master_bound(master, &bound);
    const char *colon = strrchr(bound.metadata, ':');
    ck_assert_ptr_nonnull(colon);
    uint16_t port = (uint16_t)strtoul(colon + 1, NULL, 10);
    char url[320];
    char room[8192];
    char path[400];
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u/metadata",
                   (unsigned)port);
    const char *rpc_port = strrchr(bound.rpc, ':');
    char address[64];
    (void)snprintf(address, sizeof address, "127.0.0.1%s", rpc_port);
    struct mc_client *client = NULL;
    const struct mc_client_opts client_opts = {.master = address,
                                               .segment_bytes = MIB,
                                               .metadata_server = url,
                                               .with_http = true,
                                               .http_port = MC_HTTP_ANY};
    ck_assert_int_eq(mc_client_open(&client_opts, &client), MC_OK);
    (void)snprintf(path, sizeof path, "/metadata?key=mooncake%%2Fram%%2F%s",
                   mc_client_hostname(client));
    ck_assert(AWAIT(ask_http(port, path, room, sizeof room) == 200));
    ck_assert_ptr_nonnull(strstr(room, "\"buffers\":[{"));
    (void)snprintf(path, sizeof path, "/metadata?key=mooncake/rpc_meta/%s",
                   mc_client_hostname(client));
    ck_assert(AWAIT(ask_http(port, path, room, sizeof room) == 200));
    ck_assert_ptr_nonnull(strstr(room, "\"rpc_port\":"));
    uint16_t http_port = mc_client_http_port(client);
    ck_assert_uint_ne(http_port, 0);
    ck_assert_int_eq(ask_http(http_port, "/health", room, sizeof room), 200);
    ck_assert_int_eq(ask_http(http_port, "/metrics", room, sizeof room), 200);
    ck_assert_ptr_nonnull(strstr(room, "mooncake_transfer_read_bytes"));
    mc_client_close(client);
    ck_assert_int_eq(ask_http(port, path, room, sizeof room), 404);
    mc_master_close(master);
    mc_log_set_sink(NULL, NULL);
}
END_TEST

/* ---- which way bytes go --------------------------------------------------------- */

static void expect_way(const struct mc_client *client, const char *way,
                       uint64_t rows)
{
    struct mc_client_moved moved;
    mc_client_moved(client, &moved);
    const struct {
        const char *name;
        const struct mc_client_way *way;
    } all[] = {
        {"local", &moved.local}, {"shm", &moved.shm}, {"tcp", &moved.tcp}};
    for (size_t i = 0; i < 3; i++) {
        bool is_it = strcmp(all[i].name, way) == 0;
        ck_assert_msg(all[i].way->rows == (is_it ? 2 * rows : 0) &&
                          all[i].way->written_bytes ==
                              (is_it ? rows * LEN : 0) &&
                          all[i].way->read_bytes == (is_it ? rows * LEN : 0),
                      "%s where %s was meant: %ju rows", all[i].name, way,
                      (uintmax_t)all[i].way->rows);
    }
}

static void expect_line(uint16_t port, const char *name, const char *way,
                        uint64_t figure)
{
    char room[16384];
    char line[160];
    (void)snprintf(line, sizeof line, "\n%s{transport=\"%s\"} %ju\n", name, way,
                   (uintmax_t)figure);
    ck_assert_int_eq(ask_http(port, "/metrics", room, sizeof room), 200);
    ck_assert_msg(strstr(room, line) != NULL, "%s", line);
}

START_TEST(which_way_bytes_went_is_told)
{
    static const struct {
        const char *variable; /* NULL: none; else it is set to 0 */
        bool is_owner;
        const char *way;
    } rows[] = {{NULL, false, "shm"},
                {"MC_STORE_SHM", false, "tcp"},
                {NULL, true, "local"},
                {"MC_STORE_MEMCPY", true, "shm"}};
    const char *variable = rows[_i].variable;
    if (variable) {
        ck_assert_int_eq(setenv(variable, "0", 1), 0);
    }
    start(0, 0);
    struct mc_client_opts opts = {.master = process.address,
                                  .segment_bytes = MIB,
                                  .any_memory = true,
                                  .with_http = true,
                                  .http_port = MC_HTTP_ANY};
    struct mc_client *owner = NULL;
    struct mc_client *pure = NULL;
    ck_assert_int_eq(mc_client_open(&opts, &owner), MC_OK);
    opts.segment_bytes = MC_NONE;
    ck_assert_int_eq(mc_client_open(&opts, &pure), MC_OK);
    struct mc_client *client = rows[_i].is_owner ? owner : pure;
    for (int i = 0; i < 5; i++) {
        char key[8];
        (void)snprintf(key, sizeof key, "k%d", i);
        ck_assert_int_eq(put(client, key), MC_OK);
        ck_assert_int_eq(get(client, key), MC_OK);
    }
    expect_way(client, rows[_i].way, 5);
    expect_way(client == owner ? pure : owner, "none", 0);
    uint16_t port = mc_client_http_port(client);
    expect_line(port, "mckv_transport_rows", rows[_i].way, 10);
    expect_line(port, "mckv_transport_read_bytes", rows[_i].way, 5 * LEN);
    expect_line(port, "mckv_transport_write_bytes", rows[_i].way, 5 * LEN);
    mc_client_close(pure);
    mc_client_close(owner);
    stop();
    if (variable) {
        ck_assert_int_eq(unsetenv(variable), 0);
    }
}
END_TEST

/* ---- a range of ports that is taken --------------------------------------------- */

struct taken {
    int fd;
    unsigned agains;
    unsigned free_at; /* the port is free from that one on; 0: never */
};

static void count_agains(void *ctx, enum mc_log_level level, const char *text)
{
    struct taken *taken = ctx;
    (void)level;
    if (!strstr(text, "again in 100 ms")) {
        return;
    }
    if (++taken->agains == taken->free_at) {
        (void)close(taken->fd);
    }
}

static uint16_t take_port(int *fd_out)
{
    const struct mci_listen_opts opts = {.host = NULL};
    const char *why = NULL;
    uint16_t port = 0;
    ck_assert_int_eq(mci_address_listen(&opts, fd_out, &port, &why), MC_OK);
    return port;
}

START_TEST(a_range_that_is_taken_is_looked_through_as_often_as_is_set)
{
    static const struct {
        const char *retries;
        unsigned free_at;
        unsigned agains;
        enum mc_err err;
    } rows[] = {{"1", 0, 0, MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS},
                {"0", 0, 0, MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS},
                {"3", 0, 2, MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS},
                {"3", 2, 2, MC_OK},
                {NULL, 5, 5, MC_OK},
                {"none", 1, 1, MC_OK}};
    struct taken taken = {.free_at = rows[_i].free_at};
    char port[8];
    (void)snprintf(port, sizeof port, "%u", (unsigned)take_port(&taken.fd));
    ck_assert_int_eq(setenv("MC_STORE_CLIENT_MIN_PORT", port, 1), 0);
    ck_assert_int_eq(setenv("MC_STORE_CLIENT_MAX_PORT", port, 1), 0);
    if (rows[_i].retries) {
        ck_assert_int_eq(
            setenv("MC_STORE_CLIENT_SETUP_RETRIES", rows[_i].retries, 1), 0);
    }
    start(0, 0);
    mc_log_set_sink(count_agains, &taken);
    mc_log_set_level(MC_LOG_INFO);
    const struct mc_client_opts opts = {.master = process.address,
                                        .segment_bytes = MIB};
    struct mc_client *client = NULL;
    ck_assert_int_eq(mc_client_open(&opts, &client), rows[_i].err);
    ck_assert_uint_eq(taken.agains, rows[_i].agains);
    mc_client_close(client);
    mc_log_set_level(MC_LOG_WARN);
    stop();
    if (rows[_i].free_at == 0) {
        (void)close(taken.fd);
    }
    (void)unsetenv("MC_STORE_CLIENT_MIN_PORT");
    (void)unsetenv("MC_STORE_CLIENT_MAX_PORT");
    (void)unsetenv("MC_STORE_CLIENT_SETUP_RETRIES");
}
END_TEST

static TCase *outside(void)
{
    TCase *tcase = tcase_create("outside");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, what_one_writes_the_other_reads_by_every_transport);
    tcase_add_test(tcase, a_second_copy_outlives_the_first_ones_owner);
    tcase_add_test(tcase, a_copy_that_fails_is_read_from_the_next_one);
    tcase_add_test(tcase, memory_of_the_user_is_lent_and_given_back);
    tcase_add_test(tcase, all_is_taken_out_when_unmount_returns);
    tcase_add_test(tcase, with_grace_objects_stay_and_nothing_new_comes);
    tcase_add_test(tcase, readers_read_during_the_grace);
    tcase_add_test(tcase, a_segment_that_comes_again_is_another_one);
    tcase_add_test(tcase,
                   after_a_restart_what_was_lent_is_lent_again_and_empty);
    tcase_add_test(tcase, a_client_closes_soon_when_its_master_is_gone);
    tcase_add_test(tcase, calls_without_a_master_answer_within_their_time);
    tcase_add_test(tcase, a_client_is_set_up_by_position);
    tcase_add_test(tcase, who_has_a_name_is_served_under_it_before_it_lends);
    tcase_add_test(tcase, who_is_not_served_by_tcp_has_no_name);
    tcase_add_test(tcase, a_metadata_server_hears_of_a_client_and_of_its_end);
    tcase_add_loop_test(tcase, which_way_bytes_went_is_told, 0, 4);
    tcase_add_loop_test(
        tcase, a_range_that_is_taken_is_looked_through_as_often_as_is_set, 0,
        6);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("client outside");
    suite_add_tcase(suite, outside());
    return suite_run(suite);
}
