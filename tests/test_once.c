/* SPDX-License-Identifier: Apache-2.0 */
/* Requests happen once (SAFETY C, D.1): a real master, a real client, and a
 * network that holds, repeats and loses what they say.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mci_clock.h"
#include "peer_rig.h"
#include "suite.h"

#define SIZE 4096
#define LONG_MS 20000
#define SHORT_MS 300

static struct process process;
static struct peer peer;  /* behind the network */
static struct peer other; /* beside it; lends */

static void open_all(void)
{
    process_open(&process, NULL);
    peer_open_beside(&process, &other, "other:1", 1 << 20);
    peer_open(&process, &peer, "peer:1", 0);
}

static void close_all(void)
{
    peer_close(&peer);
    peer_close(&other);
    process_close(&process);
}

static int hold(enum ctl_way way, enum mci_op op)
{
    const struct ctl_rule rule = {
        .way = way, .op = op, .what = CTL_HOLD, .count = 1};
    return ctl_proxy_rule(process.proxy, &rule);
}

/* Lets it arrive and waits until the master has dealt with it. */
static void let_arrive(int rule, enum mci_op op)
{
    unsigned answered = ctl_proxy_seen(process.proxy, CTL_ANSWER, op);
    ck_assert_uint_eq(ctl_proxy_hits(process.proxy, rule), 1);
    ctl_proxy_release(process.proxy, rule);
    ck_assert(AWAIT(ctl_proxy_seen(process.proxy, CTL_ANSWER, op) > answered));
}

/* The peer's next heartbeats have been heard. */
static bool has_beaten(struct peer *one)
{
    struct mci_remote_stats before;
    struct mci_remote_stats now;
    mci_remote_stat(one->remote, &before);
    return AWAIT((mci_remote_stat(one->remote, &now),
                  now.heartbeats >= before.heartbeats + 2));
}

/* ---- late requests ------------------------------------------------------- */

/* bugs.md C4 */
START_TEST(a_late_end_does_not_complete_a_newer_write)
{
    struct mci_write_row first;
    struct mci_write_row second;
    open_all();
    ck_assert_int_eq(peer_start(&peer, "k", SIZE, &first, LONG_MS), MC_OK);
    int late = hold(CTL_REQUEST, MCI_OP_PUT_END);
    ck_assert_int_eq(peer_end(&peer, &other, &first, SHORT_MS),
                     MC_ERR_RPC_TIMEOUT);
    ck_assert_int_eq(peer_end(&peer, &other, &first, LONG_MS), MC_OK);
    ck_assert_int_eq(peer_remove(&peer, "k", LONG_MS), MC_OK);
    ck_assert_int_eq(peer_start(&peer, "k", SIZE, &second, LONG_MS), MC_OK);
    let_arrive(late, MCI_OP_PUT_END);
    ck_assert_int_eq(peer_probe(&peer, "k").state, MC_OBJECT_WRITING);
    ck_assert_int_eq(peer_end(&peer, &other, &second, LONG_MS), MC_OK);
    ck_assert(peer_has(&peer, "k"));
    close_all();
}
END_TEST

START_TEST(a_late_revoke_leaves_a_newer_write_alone)
{
    struct mci_write_row first;
    struct mci_write_row second;
    open_all();
    ck_assert_int_eq(peer_start(&peer, "k", SIZE, &first, LONG_MS), MC_OK);
    int late = hold(CTL_REQUEST, MCI_OP_PUT_REVOKE);
    ck_assert_int_eq(peer_revoke(&peer, &other, &first, false, SHORT_MS),
                     MC_ERR_RPC_TIMEOUT);
    ck_assert_int_eq(peer_revoke(&peer, &other, &first, false, LONG_MS), MC_OK);
    ck_assert_int_eq(peer_start(&peer, "k", SIZE, &second, LONG_MS), MC_OK);
    let_arrive(late, MCI_OP_PUT_REVOKE);
    ck_assert_int_eq(peer_end(&peer, &other, &second, LONG_MS), MC_OK);
    ck_assert(peer_has(&peer, "k"));
    ck_assert_uint_eq(peer_figures(&peer).quarantined_bytes, 0);
    close_all();
}
END_TEST

START_TEST(a_late_remove_leaves_what_another_has_put_since)
{
    open_all();
    ck_assert_int_eq(peer_put(&peer, &other, "k", SIZE), MC_OK);
    int late = hold(CTL_REQUEST, MCI_OP_REMOVE);
    ck_assert_int_eq(peer_remove(&peer, "k", SHORT_MS), MC_ERR_RPC_TIMEOUT);
    ck_assert(peer_has(&peer, "k")); /* its slot has been cancelled first */
    ck_assert_int_eq(peer_remove(&other, "k", LONG_MS), MC_OK);
    ck_assert_int_eq(peer_put(&other, &other, "k", SIZE), MC_OK);
    let_arrive(late, MCI_OP_REMOVE);
    ck_assert(peer_has(&other, "k"));
    close_all();
}
END_TEST

START_TEST(a_heartbeat_is_enough_against_what_comes_late)
{
    open_all();
    ck_assert_int_eq(peer_put(&peer, &other, "k", SIZE), MC_OK);
    int late = hold(CTL_REQUEST, MCI_OP_REMOVE);
    ck_assert_int_eq(peer_remove(&peer, "k", SHORT_MS), MC_ERR_RPC_TIMEOUT);
    ck_assert(has_beaten(&peer));
    let_arrive(late, MCI_OP_REMOVE);
    ck_assert_uint_eq(ctl_proxy_seen(process.proxy, CTL_REQUEST, MCI_OP_CANCEL),
                      0);
    ck_assert(peer_has(&other, "k"));
    close_all();
}
END_TEST

START_TEST(a_late_start_opens_nothing)
{
    struct mci_write_row row;
    open_all();
    int late = hold(CTL_REQUEST, MCI_OP_PUT_START);
    ck_assert_int_eq(peer_start(&peer, "k", SIZE, &row, SHORT_MS),
                     MC_ERR_RPC_TIMEOUT);
    ck_assert(has_beaten(&peer));
    let_arrive(late, MCI_OP_PUT_START);
    ck_assert_uint_eq(peer_figures(&other).attempts, 0);
    ck_assert_uint_eq(peer_figures(&other).allocated_bytes, 0);
    ck_assert_int_eq(peer_put(&other, &other, "k", SIZE), MC_OK);
    close_all();
}
END_TEST

/* D.1 */
START_TEST(a_start_whose_answer_was_lost_is_closed_without_quarantine)
{
    struct mci_write_row row;
    open_all();
    int lost = hold(CTL_ANSWER, MCI_OP_PUT_START);
    ck_assert_int_eq(peer_start(&peer, "k", SIZE, &row, SHORT_MS),
                     MC_ERR_RPC_TIMEOUT);
    ck_assert_uint_eq(ctl_proxy_hits(process.proxy, lost), 1);
    ck_assert(AWAIT(peer_figures(&other).attempts == 0));
    ck_assert_uint_eq(peer_figures(&other).quarantined, 0);
    ck_assert(AWAIT(peer_figures(&other).allocated_bytes == 0));
    ck_assert_int_eq(peer_put(&other, &other, "k", SIZE), MC_OK);
    ck_assert_uint_eq(atomic_load(&other.fences), 0);
    close_all();
}
END_TEST

START_TEST(an_open_write_is_not_closed_by_heartbeats)
{
    struct mci_write_row row;
    int64_t result = 0;
    open_all();
    ck_assert_int_eq(peer_start(&peer, "k", SIZE, &row, LONG_MS), MC_OK);
    result = peer_remove(&peer, "another", LONG_MS); /* the slot moves on */
    ck_assert_int_eq(result, MC_ERR_OBJECT_NOT_FOUND);
    ck_assert(has_beaten(&peer));
    ck_assert(has_beaten(&peer));
    ck_assert_int_eq(peer_end(&peer, &other, &row, LONG_MS), MC_OK);
    ck_assert(peer_has(&peer, "k"));
    close_all();
}
END_TEST

/* ---- lost and repeated --------------------------------------------------- */

START_TEST(what_is_repeated_by_the_network_is_done_once)
{
    const struct ctl_rule twice = {.way = CTL_REQUEST, .what = CTL_REPEAT};
    struct mci_write_row row;
    open_all();
    (void)ctl_proxy_rule(process.proxy, &twice);
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(peer_start(&peer, "k", SIZE, &row, LONG_MS), MC_OK);
        ck_assert_uint_eq(peer_figures(&other).attempts, 1);
        ck_assert_int_eq(peer_end(&peer, &other, &row, LONG_MS), MC_OK);
        ck_assert_int_eq(peer_remove(&peer, "k", LONG_MS), MC_OK);
        ck_assert(!peer_has(&peer, "k"));
    }
    ck_assert_uint_eq(peer_figures(&other).commits, 20);
    close_all();
}
END_TEST

START_TEST(a_lost_answer_is_given_again)
{
    const struct ctl_rule once = {
        .way = CTL_ANSWER, .op = MCI_OP_PUT_START, .what = CTL_CUT, .count = 1};
    struct mci_write_row row;
    struct mci_remote_stats told;
    open_all();
    for (int i = 0; i < 20; i++) {
        (void)ctl_proxy_rule(process.proxy, &once);
        ck_assert_int_eq(peer_start(&peer, "k", SIZE, &row, LONG_MS), MC_OK);
        ck_assert_uint_eq(peer_figures(&other).attempts, 1);
        ck_assert_int_eq(peer_end(&peer, &other, &row, LONG_MS), MC_OK);
        ck_assert_int_eq(peer_remove(&peer, "k", LONG_MS), MC_OK);
    }
    mci_remote_stat(peer.remote, &told);
    ck_assert_uint_ge(told.retries, 20);
    ck_assert_uint_eq(peer_figures(&other).commits, 20);
    close_all();
}
END_TEST

/* bugs.md C6 */
START_TEST(an_end_needs_its_own_start)
{
    struct mci_write_row row;
    struct mci_write_row own;
    open_all();
    struct mci_remote_self self = mci_remote_self(peer.remote);
    ck_assert_int_eq(peer_start(&other, "k", SIZE, &own, LONG_MS), MC_OK);
    for (int i = 0; i < 3; i++) {
        row = own; /* another client's */
        if (i == 1) {
            row.key = mc_view_str("unknown");
        }
        if (i == 2) { /* never started */
            row.attempt.number = (uint64_t)self.client << 40 | 999999;
        }
        ck_assert_int_eq(peer_end(&peer, &other, &row, LONG_MS),
                         MC_ERR_INVALID_VERSION);
        ck_assert_int_eq(peer_revoke(&peer, &other, &row, false, LONG_MS),
                         MC_ERR_INVALID_VERSION);
        ck_assert_int_eq(peer_probe(&peer, "k").state, MC_OBJECT_WRITING);
    }
    ck_assert_int_eq(peer_end(&other, &other, &own, LONG_MS), MC_OK);
    row = own;
    ck_assert_int_eq(peer_revoke(&peer, &other, &row, false, LONG_MS),
                     MC_ERR_INVALID_VERSION);
    ck_assert(peer_has(&peer, "k"));
    close_all();
}
END_TEST

/* bugs.md C8 */
struct ender {
    struct mci_write_row row;
    unsigned faults;
};

static void *end_often(void *ctx)
{
    struct ender *ender = ctx;
    for (int i = 0; i < 100; i++) {
        enum mc_err err = peer_end(&peer, &other, &ender->row, LONG_MS);
        ender->faults += err != MC_OK;
    }
    return NULL;
}

START_TEST(ends_may_be_repeated_by_anybody)
{
    struct ender enders[2];
    pthread_t threads[2];
    open_all();
    memset(enders, 0, sizeof enders);
    ck_assert_int_eq(peer_start(&peer, "k", SIZE, &enders[0].row, LONG_MS),
                     MC_OK);
    enders[1].row = enders[0].row;
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(
            pthread_create(&threads[i], NULL, end_often, &enders[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        (void)pthread_join(threads[i], NULL);
        ck_assert_uint_eq(enders[i].faults, 0);
    }
    ck_assert(peer_has(&peer, "k"));
    ck_assert_uint_eq(peer_figures(&other).commits, 1);
    close_all();
}
END_TEST

/* ---- other lives --------------------------------------------------------- */

/* SAFETY C.4 */
START_TEST(an_expired_client_is_not_revived)
{
    const struct ctl_rule silence = {
        .way = CTL_REQUEST, .op = MCI_OP_HEARTBEAT, .what = CTL_DROP};
    const struct mc_master_opts opts = {.client_ttl_ms = 900,
                                        .heartbeat_ms = 100};
    struct mci_write_row row;
    process_open(&process, &opts);
    peer_open_beside(&process, &other, "other:1", 1 << 20);
    peer_open(&process, &peer, "peer:1", 0);
    struct mci_remote_self before = mci_remote_self(peer.remote);
    ck_assert_int_eq(peer_start(&peer, "k", SIZE, &row, LONG_MS), MC_OK);
    int late = hold(CTL_REQUEST, MCI_OP_PUT_END);
    int dropped = ctl_proxy_rule(process.proxy, &silence);
    ck_assert_int_eq(peer_end(&peer, &other, &row, SHORT_MS),
                     MC_ERR_RPC_TIMEOUT);
    ck_assert(AWAIT(peer_figures(&other).attempts == 0)); /* expired */
    ctl_proxy_lift(process.proxy, dropped);
    ck_assert(AWAIT(atomic_load(&peer.renewed) == 1));
    ck_assert_uint_ne(mci_remote_self(peer.remote).incarnation,
                      before.incarnation);
    let_arrive(late, MCI_OP_PUT_END);
    ck_assert(!peer_has(&other, "k"));
    ck_assert_int_eq(peer_end(&peer, &other, &row, LONG_MS),
                     MC_ERR_INVALID_VERSION);
    ck_assert_int_eq(peer_put(&peer, &other, "k", SIZE), MC_OK);
    close_all();
}
END_TEST

START_TEST(another_master_is_met_as_another_client)
{
    struct mci_write_row row;
    open_all();
    peer_close(&other);
    struct peer lender;
    peer_open(&process, &lender, "lender:1", 1 << 20);
    uint64_t epoch = mci_remote_self(peer.remote).epoch;
    ck_assert_int_eq(peer_put(&peer, &lender, "k", SIZE), MC_OK);
    ck_assert_int_eq(peer_start(&peer, "open", SIZE, &row, LONG_MS), MC_OK);
    process_restart(&process, NULL);
    ck_assert(AWAIT(atomic_load(&lender.renewed) == 1));
    ck_assert(AWAIT(atomic_load(&peer.renewed) == 1));
    ck_assert_uint_gt(mci_remote_self(peer.remote).epoch, epoch);
    ck_assert(!peer_has(&peer, "k"));
    ck_assert_int_eq(peer_end(&peer, &lender, &row, LONG_MS),
                     MC_ERR_INVALID_VERSION);
    ck_assert_int_eq(peer_put(&peer, &lender, "k", SIZE), MC_OK);
    ck_assert(peer_has(&peer, "k"));
    peer_close(&lender);
    peer_close(&peer);
    process_close(&process);
}
END_TEST

/* Another process: what it does says its exit code. */
static int live_twice(int from_parent, int to_parent)
{
    static struct peer one;
    char address[32] = "";
    char byte = 0;
    if (read(from_parent, address, sizeof address) <= 0) {
        return 1;
    }
    const struct mci_remote_opts opts = {
        .master = address, .name = "stopped:1", .timeout_ms = LONG_MS};
    if (mci_remote_open(&opts, &one.remote) != MC_OK) {
        return 2;
    }
    one.link = mci_remote_link(one.remote);
    uint64_t before = mci_remote_self(one.remote).incarnation;
    struct mci_write_row row;
    if (peer_start(&one, "k", SIZE, &row, LONG_MS) != MC_OK ||
        write(to_parent, "x", 1) != 1 || read(from_parent, &byte, 1) != 1) {
        return 3;
    }
    /* Stopped before that was read, for longer than the ttl. */
    struct mci_write_row other_row;
    if (peer_start(&one, "l", SIZE, &other_row, LONG_MS) != MC_OK) {
        return 4;
    }
    if (mci_remote_self(one.remote).incarnation == before) {
        return 5;
    }
    if (peer_end(&one, NULL, &row, LONG_MS) != MC_ERR_INVALID_VERSION ||
        peer_end(&one, NULL, &other_row, LONG_MS) != MC_OK) {
        return 6;
    }
    mci_remote_close(one.remote, mci_clock_ns() + MCI_NS_PER_S);
    return 0;
}

START_TEST(a_client_that_was_stopped_too_long_comes_back_as_another)
{
    const struct mc_master_opts opts = {.client_ttl_ms = 900,
                                        .heartbeat_ms = 100};
    char address[32] = "";
    char byte = 0;
    int down[2];
    int up[2];
    int status = -1;
    ck_assert_int_eq(pipe(down), 0);
    ck_assert_int_eq(pipe(up), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        _exit(live_twice(down[0], up[1]));
    }
    process_open(&process, &opts);
    peer_open_beside(&process, &other, "other:1", 1 << 20);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", process.port);
    ck_assert_int_eq(write(down[1], address, sizeof address),
                     (ssize_t)sizeof address);
    ck_assert_int_eq(read(up[0], &byte, 1), 1);
    ck_assert_uint_eq(peer_figures(&other).attempts, 1);
    ck_assert_int_eq(kill(child, SIGSTOP), 0);
    ck_assert(AWAIT(peer_figures(&other).attempts == 0)); /* expired */
    ck_assert_int_eq(write(down[1], "x", 1), 1);
    ck_assert_int_eq(kill(child, SIGCONT), 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert(peer_has(&other, "l"));
    ck_assert(!peer_has(&other, "k"));
    peer_close(&other);
    process_close(&process);
    for (int i = 0; i < 2; i++) {
        (void)close(down[i]);
        (void)close(up[i]);
    }
}
END_TEST

/* ---- many at once -------------------------------------------------------- */

#define THREADS 16
#define TURNS 40

struct worker {
    pthread_t thread;
    int index;
    unsigned faults;
};

/* Counts what is not as it must be, and says what. */
static void expect(struct worker *worker, const char *what, int64_t got,
                   int64_t wanted)
{
    if (got != wanted) {
        worker->faults++;
        (void)fprintf(stderr, "worker %d: %s: %jd, renewed %u\n", worker->index,
                      what, (intmax_t)got, atomic_load(&peer.renewed));
    }
}

/* Keys of its own, so it knows what every answer must be. */
static void *run_worker(void *ctx)
{
    struct worker *worker = ctx;
    char key[32];
    (void)snprintf(key, sizeof key, "worker/%d", worker->index);
    for (int i = 0; i < TURNS; i++) {
        struct mci_write_row row;
        expect(worker, "absent", peer_has(&peer, key), false);
        expect(worker, "start", peer_start(&peer, key, SIZE, &row, LONG_MS),
               MC_OK);
        if (i % 3 == 2) {
            expect(worker, "revoke",
                   peer_revoke(&peer, &other, &row, false, LONG_MS), MC_OK);
            continue;
        }
        expect(worker, "end", peer_end(&peer, &other, &row, LONG_MS), MC_OK);
        expect(worker, "there", peer_has(&peer, key), true);
        expect(worker, "remove", peer_remove(&peer, key, LONG_MS), MC_OK);
    }
    expect(worker, "put", peer_put(&peer, &other, key, SIZE), MC_OK);
    return NULL;
}

START_TEST(a_bad_network_changes_no_outcome)
{
    static const struct ctl_rule rules[] = {
        {.way = CTL_ANSWER, .what = CTL_CUT, .skip = 40, .count = 60},
        {.way = CTL_REQUEST, .what = CTL_REPEAT, .skip = 60, .count = 300},
        {.way = CTL_REQUEST, .what = CTL_CUT, .skip = 80, .count = 60},
        {.way = CTL_REQUEST, .what = CTL_CUT_AFTER, .skip = 90, .count = 60},
        {.way = CTL_ANSWER, .what = CTL_REPEAT, .skip = 100, .count = 300}};
    const struct mc_master_opts opts = {.client_ttl_ms = 5000,
                                        .heartbeat_ms = 1000};
    struct worker workers[THREADS];
    process_open(&process, &opts);
    peer_open_beside(&process, &other, "other:1", 1 << 20);
    peer_open(&process, &peer, "peer:1", 0);
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        (void)ctl_proxy_rule(process.proxy, &rules[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.index = i};
        ck_assert_int_eq(
            pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]),
            0);
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        ck_assert_uint_eq(workers[i].faults, 0);
    }
    ck_assert_uint_eq(atomic_load(&peer.renewed), 0);
    struct mci_master_stats figures = peer_figures(&other);
    ck_assert_uint_eq(figures.objects, THREADS);
    ck_assert_uint_eq(figures.attempts, 0);
    ck_assert_uint_eq(figures.quarantined, 0);
    /* Of 40 turns 13 are revoked; and the one at the end. */
    ck_assert_uint_eq(figures.commits, THREADS * (TURNS - 13 + 1));
    close_all();
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("once");
    TCase *late = tcase_create("late");
    tcase_set_timeout(late, 60);
    tcase_add_test(late, a_late_end_does_not_complete_a_newer_write);
    tcase_add_test(late, a_late_revoke_leaves_a_newer_write_alone);
    tcase_add_test(late, a_late_remove_leaves_what_another_has_put_since);
    tcase_add_test(late, a_heartbeat_is_enough_against_what_comes_late);
    tcase_add_test(late, a_late_start_opens_nothing);
    tcase_add_test(late,
                   a_start_whose_answer_was_lost_is_closed_without_quarantine);
    tcase_add_test(late, an_open_write_is_not_closed_by_heartbeats);
    suite_add_tcase(suite, late);
    TCase *lost = tcase_create("lost");
    tcase_set_timeout(lost, 60);
    tcase_add_test(lost, what_is_repeated_by_the_network_is_done_once);
    tcase_add_test(lost, a_lost_answer_is_given_again);
    tcase_add_test(lost, an_end_needs_its_own_start);
    tcase_add_test(lost, ends_may_be_repeated_by_anybody);
    suite_add_tcase(suite, lost);
    TCase *lives = tcase_create("lives");
    tcase_set_timeout(lives, 60);
    tcase_add_test(lives, an_expired_client_is_not_revived);
    tcase_add_test(lives, another_master_is_met_as_another_client);
    tcase_add_test(lives,
                   a_client_that_was_stopped_too_long_comes_back_as_another);
    suite_add_tcase(suite, lives);
    TCase *crowd = tcase_create("crowd");
    tcase_set_timeout(crowd, 120);
    tcase_add_test(crowd, a_bad_network_changes_no_outcome);
    suite_add_tcase(suite, crowd);
    return suite;
}

int main(void)
{
    return suite_run(make_suite());
}
