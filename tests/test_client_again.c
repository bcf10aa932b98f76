/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_again.c - a put that loses its place on the way is written
 * elsewhere, however long its first try took. F8 of the known faults. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "await.h"
#include "client_rig.h"
#include "crowd_rig.h"
#include "ctl_proxy.h"
#include "fake_master.h"
#include "keep_quiet.h"
#include "mc_log.h"
#include "mci_clock.h"
#include "suite.h"

#define LEN 5000

static struct process_rig process;
static struct ctl_proxy *proxy;
static uint64_t now_ns; /* of all, while a test turns it */
static uint8_t value[LEN];

static void start(void)
{
    const struct process_rig_opts opts = {.client_ttl_ms = 3000};
    now_ns = mci_clock_ns();
    mci_clock_fake(&now_ns);
    mc_log_set_sink(keep_quiet, NULL);
    stamp_fill(value, sizeof value, 17);
    process_open(&process, &opts);
    proxy = ctl_proxy_open(process.port);
}

static void stop(void)
{
    ctl_proxy_close(proxy);
    process_close(&process);
    mc_log_set_sink(NULL, NULL);
    mci_clock_fake(NULL);
}

static struct mc_client *join(uint64_t segment_bytes, uint16_t port)
{
    char address[32];
    struct mc_client *client = NULL;
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", (unsigned)port);
    const struct mc_client_opts opts = {
        .master = address, .segment_bytes = segment_bytes, .any_memory = true};
    ck_assert_int_eq(mc_client_open(&opts, &client), MC_OK);
    return client;
}

static void pass(uint64_t ms)
{
    __atomic_fetch_add(&now_ns, ms * MCI_NS_PER_MS, __ATOMIC_SEQ_CST);
}

static int rule_of(enum mci_op op, enum ctl_what what, unsigned count)
{
    const struct ctl_rule rule = {
        .way = CTL_REQUEST, .op = op, .what = what, .count = count};
    return ctl_proxy_rule(proxy, &rule);
}

/* A put on a thread of its own. */
struct putting {
    struct mc_client *client;
    pthread_t thread;
    enum mc_err err;
};

static void *put(void *ctx)
{
    struct putting *putting = ctx;
    putting->err =
        mc_client_put(putting->client, mc_view_str("k"), value, LEN, NULL);
    return NULL;
}

static void begin_put(struct putting *putting, struct mc_client *client)
{
    *putting = (struct putting){.client = client};
    ck_assert_int_eq(pthread_create(&putting->thread, NULL, put, putting), 0);
}

static void expect_put(struct putting *putting)
{
    uint8_t got[LEN];
    uint64_t size = 0;
    uint64_t stamp = 0;
    ck_assert_int_eq(pthread_join(putting->thread, NULL), 0);
    ck_assert_int_eq(putting->err, MC_OK);
    ck_assert_int_eq(mc_client_get_into(putting->client, mc_view_str("k"), got,
                                        sizeof got, &size),
                     MC_OK);
    ck_assert_uint_eq(size, LEN);
    ck_assert(stamp_read(got, LEN, &stamp) && stamp == 17);
}

/* Its end is on the way for longer than a machine under load holds a thread up,
 * and meanwhile the owner of its place leaves. */
START_TEST(a_slow_put_whose_owner_leaves_is_written_elsewhere)
{
    struct putting putting;
    start();
    struct mc_client *leaves = join(MIB, process.port);
    struct mc_client *client = join(MC_NONE, ctl_proxy_port(proxy));
    int held = rule_of(MCI_OP_PUT_END, CTL_HOLD, 1);
    begin_put(&putting, client);
    ck_assert(AWAIT(ctl_proxy_hits(proxy, held) == 1));
    struct mc_client *stays = join(MIB, process.port);
    mc_client_close(leaves);
    pass(1500);
    ctl_proxy_release(proxy, held);
    expect_put(&putting);
    ck_assert_uint_ge(ctl_proxy_seen(proxy, CTL_REQUEST, MCI_OP_PUT_START), 2);
    mc_client_close(client);
    mc_client_close(stays);
    stop();
}
END_TEST

/* The core knows that a writer is expired before all of the master does, and says
 * so by row; that costs no try, until the master knows who it is. */
static void answer_start(void *ctx, struct fake_conn *conn,
                         const struct mci_request *request,
                         struct mci_unpack *args)
{
    atomic_uint *starts = ctx;
    struct mci_pack pack;
    struct mci_write_row row = {.err = MC_ERR_CLIENT_NOT_FOUND};
    (void)args;
    if (request->op != MCI_OP_PUT_START) {
        fake_refuse(conn, request, MC_ERR_NOT_SUPPORTED);
        return;
    }
    if (atomic_fetch_add(starts, 1) >= 10) {
        row.err = MC_ERR_OBJECT_ALREADY_EXISTS; /* to a put that is well */
    }
    fake_begin(conn, request, MC_OK, &pack);
    mci_rows_pack(&pack, 1);
    mci_started_pack(&pack, &row);
    fake_end(conn, &pack);
}

START_TEST(a_put_of_who_was_taken_for_dead_waits_for_another_identity)
{
    struct fake_master *master = must_alloc(sizeof *master);
    atomic_uint starts = 0;
    fake_open(master, answer_start, &starts);
    struct mc_client *client = join(MC_NONE, master->port);
    ck_assert_int_eq(mc_client_put(client, mc_view_str("k"), value, LEN, NULL),
                     MC_OK);
    ck_assert_uint_eq(atomic_load(&starts), 11);
    mc_client_close(client);
    fake_close(master);
    free(master);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_again");
    TCase *tcase = tcase_create("again");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, a_slow_put_whose_owner_leaves_is_written_elsewhere);
    tcase_add_test(tcase,
                   a_put_of_who_was_taken_for_dead_waits_for_another_identity);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
