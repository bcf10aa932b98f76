/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_stopped.c - a master, or an owner of memory, that stands still in
 * the middle: calls are over at their deadlines and closing soon, nobody touches
 * the caller's memory after that, and all goes on when it goes on. SAFETY B.7,
 * with a real mc-master. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "await.h"
#include "client_outside.h"
#include "client_rig.h"
#include "copy.h"
#include "crowd_rig.h"
#include "keep_quiet.h"
#include "master_process.h"
#include "mc_log.h"
#include "mci_client.h"
#include "mci_clock.h"
#include "sanitized.h"
#include "self_process.h"
#include "suite.h"

#define LEN (2 * MIB)
#define HUGE_LEN (24 * MIB) /* more than sockets hold */
#define TIMEOUT_MS 300
#define MIDDLE_MS 2000 /* for calls that must come to their middle */

static struct master_process master;
static struct mc_client *owner;
static struct mc_client *user;

static struct mc_client_opts opts_of(const char *address, uint64_t bytes,
                                     const char *transport)
{
    return (struct mc_client_opts){.master = address,
                                   .segment_bytes = bytes,
                                   .any_memory = true,
                                   .transport = transport};
}

/* Short is the time for what is stopped; 0: long. */
static struct mc_client *join(uint64_t segment_bytes, const char *transport,
                              uint32_t timeout_ms, uint32_t transfer_ms)
{
    struct mc_client_opts opts =
        opts_of(master.address, segment_bytes, transport);
    struct mc_client *client = NULL;
    opts.timeout_ms = timeout_ms;
    opts.transfer_timeout_ms = transfer_ms;
    ck_assert_int_eq(mc_client_open(&opts, &client), MC_OK);
    return client;
}

static void open_master(void)
{
    static const char *const flags[] = {"--eviction_high_watermark_ratio=1.0",
                                        NULL};
    mc_log_set_sink(keep_quiet, NULL);
    master_spawn(&master, flags);
}

static void close_master(void)
{
    master_end(&master);
    mc_log_set_sink(NULL, NULL);
}

/* ---- time and memory ------------------------------------------------------- */

static uint64_t begun_ns;

static void begin(void)
{
    begun_ns = mci_clock_ns();
}

/* A deadline, and what a loaded machine adds. */
static void expect_soon(void)
{
    ck_assert_uint_lt(mci_clock_ns() - begun_ns,
                      (SANITIZED ? 20 : 5) * MCI_NS_PER_S);
}

/* Memory that ends with the call: whoever touched it later would be seen. */
static uint8_t *make_pages(size_t len, uint64_t stamp)
{
    uint8_t *pages = mmap(NULL, len, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(pages, MAP_FAILED);
    stamp_fill(pages, len, stamp);
    return pages;
}

static void drop_pages(uint8_t *pages, size_t len)
{
    ck_assert_int_eq(munmap(pages, len), 0);
}

static enum mc_err put(struct mc_client *client, const char *key, size_t len,
                       uint64_t stamp)
{
    uint8_t *pages = make_pages(len, stamp);
    begin();
    enum mc_err err = mc_client_put(client, mc_view_str(key), pages, len, NULL);
    expect_soon();
    drop_pages(pages, len);
    return err;
}

static enum mc_err get(struct mc_client *client, const char *key, size_t len,
                       uint64_t stamp)
{
    uint8_t *pages = make_pages(len, ~stamp);
    uint64_t size = 0;
    uint64_t found = 0;
    begin();
    enum mc_err err =
        mc_client_get_into(client, mc_view_str(key), pages, len, &size);
    expect_soon();
    if (err == MC_OK) {
        ck_assert_uint_eq(size, len);
        ck_assert(stamp_read(pages, len, &found) && found == stamp);
    }
    drop_pages(pages, len);
    return err;
}

/* The first call has its connection, later ones may get none. */
static bool is_unheard(enum mc_err err)
{
    return err == MC_ERR_RPC_TIMEOUT || err == MC_ERR_RPC_FAIL;
}

static struct mc_client_stats stats_of(struct mc_client *client)
{
    struct mc_client_stats stats;
    mc_client_stat(client, &stats);
    return stats;
}

/* ---- a master that stands still ---------------------------------------------- */

static void open_all(const char *transport, uint32_t timeout_ms)
{
    open_master();
    owner = join(8 * MIB, "auto", 0, 0);
    user = join(MC_NONE, transport, timeout_ms, 0);
    ck_assert_int_eq(put(owner, "a", LEN, 1), MC_OK);
    ck_assert(AWAIT(get(user, "a", LEN, 1) == MC_OK));
}

static void close_all(void)
{
    mc_client_close(user);
    mc_client_close(owner);
    close_master();
}

static const char *const transports[] = {"tcp", "shm"};

START_TEST(calls_are_over_in_time_while_the_master_stands_still)
{
    const struct mc_view key = mc_view_str("a");
    uint8_t *pages = make_pages(LEN, 9);
    struct mc_span span = {pages, LEN};
    struct mc_buffer buffer = {.data = NULL};
    int64_t result = 0;
    bool is_there = false;
    uint64_t found = 0;
    open_all(transports[_i], TIMEOUT_MS);
    master_stop(&master);
    ck_assert(is_unheard(get(user, "a", LEN, 1)));
    ck_assert(is_unheard(put(user, "b", LEN, 2)));
    begin();
    ck_assert_int_eq(mc_client_batch_get_into(user, &key, &span, 1, &result),
                     MC_OK);
    ck_assert(is_unheard((enum mc_err)result));
    expect_soon();
    begin();
    ck_assert(is_unheard(mc_client_upsert(user, key, pages, LEN, NULL)));
    expect_soon();
    begin();
    ck_assert(is_unheard(mc_client_get_buffer(user, key, &buffer)));
    expect_soon();
    begin();
    ck_assert(is_unheard(mc_client_exist(user, key, &is_there)));
    expect_soon();
    begin();
    ck_assert(is_unheard(mc_client_remove(user, key, true)));
    expect_soon();
    master_continue(&master);
    /* What was given up is not done after all, or it was before it was. */
    ck_assert(
        AWAIT(mc_client_health(user) == 0 &&
              mc_client_exist(user, mc_view_str("b"), &is_there) == MC_OK));
    ck_assert(!is_there);
    ck_assert(stamp_read(pages, LEN, &found) && found == 9);
    ck_assert_int_eq(put(owner, "c", LEN, 3), MC_OK);
    ck_assert(AWAIT(get(user, "c", LEN, 3) == MC_OK));
    ck_assert(AWAIT(put(user, "b", LEN, 4) == MC_OK));
    ck_assert_int_eq(get(owner, "b", LEN, 4), MC_OK);
    struct mc_client_stats stats = {.clients = 0};
    ck_assert(AWAIT((stats = stats_of(owner), stats.attempts == 0)));
    ck_assert_uint_eq(stats.clients, 2);
    ck_assert_uint_eq(stats.capacity_bytes, 8 * MIB);
    close_all();
    drop_pages(pages, LEN);
}
END_TEST

static void stop_master(const struct mc_transfer_row *row)
{
    (void)row;
    mci_copy_set_hook(NULL);
    master_stop(&master);
}

/* It stops while bytes move. They were granted, so a read needs it no more. */
START_TEST(a_master_that_stops_in_the_middle_costs_the_deadline)
{
    bool is_there = false;
    open_all("shm", MIDDLE_MS);
    mci_copy_set_hook(stop_master);
    ck_assert_int_eq(get(user, "a", LEN, 1), MC_OK);
    master_continue(&master);
    ck_assert(AWAIT(get(user, "a", LEN, 1) == MC_OK));
    mci_copy_set_hook(stop_master);
    ck_assert(is_unheard(put(user, "b", LEN, 2)));
    master_continue(&master);
    struct mc_client_stats stats = {.attempts = 1};
    ck_assert(AWAIT((stats = stats_of(owner), stats.attempts == 0)));
    ck_assert(
        AWAIT(mc_client_exist(user, mc_view_str("b"), &is_there) == MC_OK));
    ck_assert(AWAIT(put(user, "b", LEN, 2) == MC_OK));
    ck_assert(AWAIT(get(user, "b", LEN, 2) == MC_OK));
    close_all();
}
END_TEST

START_TEST(clients_close_soon_while_the_master_stands_still)
{
    uint8_t *memory = must_alloc(MIB);
    uint32_t segment = 0;
    open_all("tcp", TIMEOUT_MS);
    struct mc_client *pure = join(MC_NONE, "auto", 0, 0);
    struct mc_client *lender = join(4 * MIB, "auto", 0, 0);
    struct mc_client *busy = join(MC_NONE, "shm", MIDDLE_MS, 0);
    ck_assert_int_eq(mc_client_mount_segment(lender, memory, MIB, &segment),
                     MC_OK);
    ck_assert(AWAIT(get(busy, "a", LEN, 1) == MC_OK));
    mci_copy_set_hook(stop_master);
    ck_assert(is_unheard(put(busy, "b", LEN, 2)));
    struct mc_client *const clients[] = {pure, lender, busy};
    for (size_t i = 0; i < 3; i++) {
        begin();
        mc_client_close(clients[i]);
        expect_soon();
    }
    memset(memory, 0, MIB); /* ours again */
    master_continue(&master);
    /* It hears only now that they are gone. */
    ck_assert(AWAIT(get(user, "a", LEN, 1) == MC_OK));
    ck_assert(AWAIT(put(user, "c", LEN, 3) == MC_OK));
    ck_assert(AWAIT(get(user, "c", LEN, 3) == MC_OK));
    ck_assert(memory[0] == 0 && memcmp(memory, memory + 1, MIB - 1) == 0);
    close_all();
    free(memory);
}
END_TEST

/* ---- an owner that stands still ----------------------------------------------- */

static pid_t spawn_owner(void)
{
    char how[] = "--owner";
    char *args[] = {how, how, master.address, NULL};
    return self_spawn(args);
}

START_TEST(a_put_and_a_get_are_over_in_time_while_the_owner_stands_still)
{
    int status = 0;
    open_master();
    pid_t pid = spawn_owner();
    user = join(MC_NONE, "tcp", 0, TIMEOUT_MS);
    struct mc_client *patient = join(MC_NONE, "tcp", 0, 0);
    ck_assert(AWAIT(put(patient, "a", HUGE_LEN, 1) == MC_OK));
    ck_assert_int_eq(get(patient, "a", HUGE_LEN, 1), MC_OK);
    ck_assert_int_eq(kill(pid, SIGSTOP), 0);
    ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
    ck_assert_int_eq(get(user, "a", HUGE_LEN, 1), MC_ERR_TRANSFER_FAIL);
    struct mc_client_stats stats = stats_of(patient);
    for (int i = 0; i < 10 && stats.quarantined_bytes == 0; i++) {
        /* On a busy machine its time may be over before any byte went. */
        enum mc_err err = put(user, "b", HUGE_LEN - MIB, 2);
        ck_assert(err == MC_ERR_TRANSFER_FAIL ||
                  err == MC_ERR_NO_AVAILABLE_HANDLE); /* for another place */
        stats = stats_of(patient);
    }
    ck_assert_uint_gt(stats.quarantined_bytes, 0);
    ck_assert_int_eq(kill(pid, SIGCONT), 0);
    ck_assert(AWAIT((stats = stats_of(patient), stats.quarantined_bytes == 0)));
    ck_assert(AWAIT(get(patient, "a", HUGE_LEN, 1) == MC_OK));
    ck_assert(AWAIT(put(patient, "b", HUGE_LEN - MIB, 3) == MC_OK));
    ck_assert(AWAIT(get(patient, "b", HUGE_LEN - MIB, 3) == MC_OK));
    mc_client_close(patient);
    mc_client_close(user);
    self_kill(pid);
    close_master();
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--owner") == 0) {
        const struct mc_client_opts opts =
            opts_of(argv[2], 2 * HUGE_LEN, "auto");
        return self_lend(&opts);
    }
    Suite *suite = suite_create("client_stopped");
    TCase *tcase = tcase_create("stopped");
    tcase_set_timeout(tcase, 300);
    tcase_add_loop_test(
        tcase, calls_are_over_in_time_while_the_master_stands_still, 0, 2);
    tcase_add_test(tcase, a_master_that_stops_in_the_middle_costs_the_deadline);
    tcase_add_test(tcase, clients_close_soon_while_the_master_stands_still);
    tcase_add_test(
        tcase, a_put_and_a_get_are_over_in_time_while_the_owner_stands_still);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
