/* SPDX-License-Identifier: Apache-2.0 */
/* Many threads on one remote, with and without a bad network. */
#include <stdio.h>
#include <string.h>

#include "ctl_proxy.h"
#include "mci_clock.h"
#include "remote_rig.h"
#include "suite.h"

static struct rig rig;

#define THREADS 32
#define TURNS 60

struct worker {
    pthread_t thread;
    unsigned faults;
    unsigned done;
};

/* Each turn: a write, a question; every attempt is this thread's alone. */
static void *run_worker(void *ctx)
{
    struct worker *worker = ctx;
    for (int i = 0; i < TURNS; i++) {
        struct mci_write_row row;
        int64_t result = 0;
        if (rig_start(&rig, &row, 20000) != MC_OK) {
            worker->faults++;
            continue;
        }
        worker->faults += row.places[0].offset != 4096 * row.attempt.number;
        worker->faults +=
            !mci_remote_attempt_touched(rig.remote, row.attempt.number);
        worker->faults +=
            rig_end(&rig, &row, 20000) != MC_OK || row.err != MC_OK;
        worker->faults +=
            rig_exist(&rig, &result, 20000) != MC_OK || result != 1;
        worker->done++;
    }
    return NULL;
}

static void run_workers(struct worker workers[THREADS])
{
    memset(workers, 0, THREADS * sizeof *workers);
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(
            pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]),
            0);
    }
}

static void check_workers(struct worker workers[THREADS])
{
    struct mci_remote_stats told;
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        ck_assert_uint_eq(workers[i].faults, 0);
        ck_assert_uint_eq(workers[i].done, TURNS);
    }
    mci_remote_stat(rig.remote, &told);
    ck_assert_uint_eq(told.attempts, 0);
    ck_assert_uint_eq(told.calls_by_op[MCI_OP_PUT_START], THREADS * TURNS);
    /* Each was done once, whatever was lost on the way. */
    ck_assert_uint_eq(atomic_load(&rig.done[MCI_OP_PUT_START]),
                      THREADS * TURNS);
    ck_assert_uint_eq(atomic_load(&rig.done[MCI_OP_PUT_END]), THREADS * TURNS);
}

START_TEST(threads_share_a_remote)
{
    struct worker workers[THREADS];
    struct mci_remote_stats told;
    rig_open(&rig);
    run_workers(workers);
    check_workers(workers);
    mci_remote_stat(rig.remote, &told);
    ck_assert_uint_le(told.connects, THREADS + 1);
    ck_assert_uint_eq(told.retries, 0);
    rig_close(&rig);
}
END_TEST

START_TEST(threads_share_a_remote_over_a_network_that_cuts)
{
    struct worker workers[THREADS];
    struct ctl_rule rules[3] = {
        {.way = CTL_ANSWER, .what = CTL_CUT, .skip = 50, .count = 40},
        {.way = CTL_REQUEST, .what = CTL_CUT, .skip = 100, .count = 40},
        {.way = CTL_ANSWER, .what = CTL_CUT_AFTER, .skip = 150, .count = 40}};
    char address[32];
    rig_begin(&rig);
    struct ctl_proxy *proxy = ctl_proxy_open(rig.master.port);
    struct mci_remote_opts opts = rig_opts(&rig, address);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u",
                   ctl_proxy_port(proxy));
    ck_assert_int_eq(mci_remote_open(&opts, &rig.remote), MC_OK);
    rig.link = mci_remote_link(rig.remote);
    for (int i = 0; i < 3; i++) {
        (void)ctl_proxy_rule(proxy, &rules[i]);
    }
    run_workers(workers);
    check_workers(workers);
    mci_remote_close(rig.remote, mci_clock_ns() + MCI_NS_PER_S);
    ctl_proxy_close(proxy);
    fake_close(&rig.master);
}
END_TEST

/* ---- all slots taken ----------------------------------------------------- */

static void *run_asker(void *ctx)
{
    int64_t *result = ctx;
    (void)!rig_exist(&rig, result, 20000);
    return NULL;
}

START_TEST(a_call_waits_for_a_slot_within_its_deadline)
{
    static pthread_t threads[MCI_SLOTS_MAX];
    static int64_t results[MCI_SLOTS_MAX];
    int64_t result = 0;
    rig_open(&rig);
    rig_set(&rig, RIG_STALL, MCI_SLOTS_MAX);
    for (int i = 0; i < MCI_SLOTS_MAX; i++) {
        ck_assert_int_eq(
            pthread_create(&threads[i], NULL, run_asker, &results[i]), 0);
    }
    ck_assert(AWAIT(fake_seen(&rig.master, MCI_OP_EXIST) == MCI_SLOTS_MAX));
    uint64_t begun_ns = mci_clock_ns();
    ck_assert_int_eq(rig_exist(&rig, &result, 300), MC_ERR_RPC_FAIL);
    ck_assert_uint_ge(mci_clock_ns() - begun_ns, 300 * MCI_NS_PER_MS);
    atomic_store(&rig.released, true);
    ck_assert_int_eq(rig_exist(&rig, &result, 20000), MC_OK);
    for (int i = 0; i < MCI_SLOTS_MAX; i++) {
        (void)pthread_join(threads[i], NULL);
        ck_assert_int_eq(results[i], 1);
    }
    ck_assert_int_eq(rig_exist(&rig, &result, 20000), MC_OK);
    rig_close(&rig);
}
END_TEST

/* ---- a master that comes and goes ---------------------------------------- */

static atomic_bool is_over;

/* Any outcome but a wrong one. */
static void *run_survivor(void *ctx)
{
    struct worker *worker = ctx;
    while (!atomic_load(&is_over)) {
        struct mci_write_row row;
        int64_t result = 0;
        enum mc_err err = rig_start(&rig, &row, 5000);
        if (err == MC_OK) {
            worker->faults += row.places[0].offset != 4096 * row.attempt.number;
            err = rig_end(&rig, &row, 5000);
        }
        worker->faults +=
            err != MC_OK && err != MC_ERR_RPC_TIMEOUT && err != MC_ERR_RPC_FAIL;
        err = rig_exist(&rig, &result, 5000);
        worker->faults += err != MC_OK || result != 1;
        worker->done++;
    }
    return NULL;
}

START_TEST(a_master_that_starts_anew_costs_calls_but_no_wrong_answer)
{
    struct worker workers[8];
    struct mci_remote_stats told;
    memset(workers, 0, sizeof workers);
    rig_open(&rig);
    atomic_store(&is_over, false);
    for (int i = 0; i < 8; i++) {
        ck_assert_int_eq(
            pthread_create(&workers[i].thread, NULL, run_survivor, &workers[i]),
            0);
    }
    for (unsigned i = 1; i <= 8; i++) {
        unsigned done = atomic_load(&rig.done[MCI_OP_EXIST]);
        ck_assert(AWAIT(atomic_load(&rig.done[MCI_OP_EXIST]) > done + 50));
        if (i % 2 == 0) {
            fake_restart(&rig.master);
        } else {
            fake_forget(&rig.master);
        }
        ck_assert(AWAIT(atomic_load(&rig.renewed) == i));
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < 8; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        ck_assert_uint_eq(workers[i].faults, 0);
        ck_assert_uint_gt(workers[i].done, 0);
    }
    mci_remote_stat(rig.remote, &told);
    ck_assert_uint_eq(told.renewals, 8);
    rig_close(&rig);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("remote_crowd");
    TCase *crowd = tcase_create("crowd");
    tcase_set_timeout(crowd, 120);
    tcase_add_test(crowd, threads_share_a_remote);
    tcase_add_test(crowd, threads_share_a_remote_over_a_network_that_cuts);
    tcase_add_test(crowd, a_call_waits_for_a_slot_within_its_deadline);
    tcase_add_test(crowd,
                   a_master_that_starts_anew_costs_calls_but_no_wrong_answer);
    suite_add_tcase(suite, crowd);
    return suite;
}

int main(void)
{
    return suite_run(make_suite());
}
