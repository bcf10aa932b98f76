/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_session_faults.c - sessions while messages are late, lost or
 * repeated, time passes, and owners die: C3, C4, C8, C12 of the known faults. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "await.h"
#include "client.h"
#include "client_rig.h"
#include "ctl_proxy.h"
#include "keep_quiet.h"
#include "mc_client_sessions.h"
#include "mc_log.h"
#include "mci_client.h"
#include "mci_clock.h"
#include "suite.h"

#define PAGE 1000
#define LAYERS 4
#define LEN ((size_t)PAGE * LAYERS)
#define SOON_MS 200    /* for what does not come */
#define HALVES_MS 3000 /* the first half for what does not come */

static struct process_rig process;
static struct ctl_proxy *proxy;
static struct mc_client *lender;
static struct mc_client *client;
static uint64_t now_ns; /* of all, while a test turns it */
static bool is_turned;
static uint64_t ttl_ms = 10000;
static uint8_t source[LEN];
static uint8_t target[LEN];
static const struct mc_view key = {"k", 1};
static const struct mc_view read_key = {"r", 1};

static struct mc_client *join(uint64_t segment_bytes, uint16_t port)
{
    char address[32];
    struct mc_client *joined = NULL;
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", (unsigned)port);
    const struct mc_client_opts opts = {.master = address,
                                        .segment_bytes = segment_bytes,
                                        .any_memory = true,
                                        .transport = client_link()};
    ck_assert_int_eq(mc_client_open(&opts, &joined), MC_OK);
    return joined;
}

static void open_master(const struct process_rig_opts *opts)
{
    process_open(&process, opts);
    ck_assert_int_eq(mci_event_log_attach(process.log), MC_OK);
}

static void close_master(void)
{
    mci_event_log_detach(process.log);
    process_close(&process);
}

static void start(const struct mc_store_opts *store)
{
    struct process_rig_opts opts = {.client_ttl_ms = ttl_ms};
    opts.store = *store;
    opts.store.eviction_high_watermark = 1.0;
    mc_log_set_sink(keep_quiet, NULL);
    stamp_fill(source, sizeof source, 17);
    open_master(&opts);
    proxy = ctl_proxy_open(process.port);
    lender = join(MIB, ctl_proxy_port(proxy));
    client = join(MC_NONE, ctl_proxy_port(proxy));
}

static void start_plain(void)
{
    const struct mc_store_opts store = {.max_objects = 0};
    start(&store);
}

static void stop(void)
{
    mc_client_close(client);
    mc_client_close(lender);
    ctl_proxy_close(proxy);
    close_master();
    mc_log_set_sink(NULL, NULL);
    mci_clock_fake(NULL);
    is_turned = false;
}

static void turn_clock(void)
{
    now_ns = mci_clock_ns();
    mci_clock_fake(&now_ns);
    is_turned = true;
}

static void pass(uint64_t ms)
{
    __atomic_fetch_add(&now_ns, ms * MCI_NS_PER_MS, __ATOMIC_SEQ_CST);
}

static uint64_t heartbeats(struct mc_client *of)
{
    struct mci_remote_stats stats;
    mci_remote_stat(mci_client_outside(of)->remote, &stats);
    return stats.heartbeats;
}

/* Two, since the first may have been under way. On a clock that is turned they
 * come as it is turned, and no further than that. */
static void await_heartbeats(struct mc_client *of)
{
    for (int i = 0; i < 2; i++) {
        uint64_t seen = heartbeats(of);
        if (is_turned) {
            pass(150);
        }
        ck_assert(AWAIT(heartbeats(of) > seen));
    }
}

static int rule(enum ctl_way way, enum mci_op op, enum ctl_what what,
                unsigned count)
{
    const struct ctl_rule made = {
        .way = way, .op = op, .what = what, .count = count};
    return ctl_proxy_rule(proxy, &made);
}

/* ---- one session ------------------------------------------------------------- */

static struct mc_put_session *
put_open_with(struct mc_client *of, const struct mc_replicate_config *config,
              int64_t expected)
{
    const uint64_t size = LEN;
    struct mc_put_session *session = NULL;
    int64_t result = 7;
    enum mc_err err = mc_client_put_sessions_open(of, &key, &size, config, 1,
                                                  &session, &result);
    ck_assert(err == MC_OK || err == result);
    ck_assert_int_eq(result, expected);
    ck_assert(!session == (expected != MC_OK));
    return session;
}

static struct mc_put_session *put_open(struct mc_client *of, int64_t expected)
{
    return put_open_with(of, NULL, expected);
}

/* Into one of them, or out of the other. */
static int64_t move(struct mc_put_session *put, struct mc_get_session *get,
                    uint64_t offset, uint64_t len)
{
    const struct mc_fragment fragment = {(put ? source : target) + offset,
                                         offset, len};
    const struct mc_fragments fragments = {&fragment, 1};
    int64_t result = 7;
    ck_assert_int_eq(put ? mc_client_put_sessions_write(
                               client, &put, &fragments, 1, 0, &result)
                         : mc_client_get_sessions_read(client, &get, &fragments,
                                                       1, 0, &result),
                     MC_OK);
    return result;
}

static int64_t put_write(struct mc_put_session *session, uint64_t offset,
                         uint64_t len)
{
    return move(session, NULL, offset, len);
}

static int64_t put_finish(struct mc_put_session *session, bool is_revoke,
                          uint32_t timeout_ms)
{
    int64_t result = 7;
    ck_assert_int_eq((is_revoke ? mc_client_put_sessions_revoke
                                : mc_client_put_sessions_end)(
                         client, &session, 1, timeout_ms, &result),
                     MC_OK);
    return result;
}

static int64_t put_end(struct mc_put_session *session, uint32_t timeout_ms)
{
    return put_finish(session, false, timeout_ms);
}

static int64_t put_revoke(struct mc_put_session *session, uint32_t timeout_ms)
{
    return put_finish(session, true, timeout_ms);
}

static struct mc_put_session *put_written(void)
{
    struct mc_put_session *session = put_open(client, MC_OK);
    ck_assert_int_eq(put_write(session, 0, LEN), (int64_t)LEN);
    return session;
}

static struct mc_get_session *get_open(struct mc_view of, int64_t expected)
{
    struct mc_get_session *session = NULL;
    int64_t result = 7;
    ck_assert_int_eq(
        mc_client_get_sessions_open(client, &of, 1, &session, &result), MC_OK);
    ck_assert_int_eq(result, expected);
    return session;
}

static int64_t get_read(struct mc_get_session *session, uint64_t offset,
                        uint64_t len)
{
    return move(NULL, session, offset, len);
}

static enum mc_object_state state(void)
{
    struct mc_probe probe;
    ck_assert_int_eq(mc_client_probe(lender, key, &probe), MC_OK);
    return probe.state;
}

static uint64_t commits(void)
{
    struct mc_client_stats stats;
    mc_client_stat(lender, &stats);
    return stats.puts;
}

static bool is_free(void)
{
    struct mc_client_stats stats;
    mc_client_stat(lender, &stats);
    return stats.allocated_bytes == 0 && stats.quarantined_bytes == 0;
}

/* ---- late, lost, repeated ------------------------------------------------------ */

START_TEST(an_end_that_comes_late_touches_nothing_else)
{
    start_plain();
    struct mc_put_session *first = put_written();
    int held = rule(CTL_REQUEST, MCI_OP_PUT_END, CTL_HOLD, 1);
    ck_assert_int_eq(put_end(first, SOON_MS), MC_ERR_RPC_TIMEOUT);
    ck_assert_uint_eq(ctl_proxy_hits(proxy, held), 1);
    ck_assert_int_eq(put_write(first, 0, 1),
                     MC_ERR_INVALID_PARAMS); /* sealed */
    ck_assert_int_eq(put_end(first, 0), 0);
    ck_assert_int_eq(mc_client_remove(lender, key, true), MC_OK);
    struct mc_put_session *second = put_open(client, MC_OK);
    ctl_proxy_release(proxy, held);
    await_heartbeats(client);
    ck_assert_int_eq(state(), MC_OBJECT_WRITING);
    ck_assert_uint_eq(commits(), 1);
    ck_assert_int_eq(put_revoke(second, 0), 0);
    stop();
}
END_TEST

START_TEST(a_revoke_that_comes_late_touches_nothing_else)
{
    start_plain();
    struct mc_put_session *first = put_written();
    int held = rule(CTL_REQUEST, MCI_OP_PUT_REVOKE, CTL_HOLD, 1);
    ck_assert_int_eq(put_revoke(first, SOON_MS), MC_ERR_RPC_TIMEOUT);
    ck_assert_int_eq(put_write(first, 0, 1), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(put_revoke(first, 0), 0);
    struct mc_put_session *second = put_written();
    ctl_proxy_release(proxy, held);
    await_heartbeats(client);
    ck_assert_int_eq(put_end(second, 0), 0);
    ck_assert_int_eq(state(), MC_OBJECT_READABLE);
    stop();
}
END_TEST

/* What is repeated happens once, what is lost is asked for again. */
START_TEST(messages_that_come_twice_or_never_change_nothing)
{
    static const struct {
        enum ctl_way way;
        enum ctl_what what;
    } rows[] = {{CTL_REQUEST, CTL_REPEAT},
                {CTL_REQUEST, CTL_CUT},
                {CTL_REQUEST, CTL_CUT_AFTER},
                {CTL_ANSWER, CTL_CUT}};
    static const enum mci_op ops[] = {MCI_OP_PUT_START, MCI_OP_PUT_END,
                                      MCI_OP_PUT_REVOKE};
    start_plain();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t k = 0; k < 3; k++) {
            uint64_t before = commits();
            int made = rule(rows[i].way, ops[k], rows[i].what, 1);
            struct mc_put_session *session = put_written();
            if (ops[k] == MCI_OP_PUT_REVOKE) {
                ck_assert_int_eq(put_revoke(session, 0), 0);
                ck_assert_int_eq(state(), MC_OBJECT_ABSENT);
            } else {
                ck_assert_int_eq(put_end(session, 0), 0);
                ck_assert_int_eq(state(), MC_OBJECT_READABLE);
                ck_assert_uint_eq(commits(), before + 1);
                ck_assert_int_eq(mc_client_remove(lender, key, true), MC_OK);
            }
            ck_assert_uint_eq(ctl_proxy_hits(proxy, made), 1);
            ctl_proxy_lift(proxy, made);
        }
    }
    ck_assert(AWAIT(is_free()));
    stop();
}
END_TEST

/* C3: nobody hears of the revoke; the session stays, and can be revoked. */
START_TEST(a_revoke_that_is_lost_is_made_again)
{
    start_plain();
    struct mc_put_session *session = put_written();
    int lost = rule(CTL_REQUEST, MCI_OP_PUT_REVOKE, CTL_DROP, 0);
    ck_assert_int_eq(put_revoke(session, SOON_MS), MC_ERR_RPC_TIMEOUT);
    ck_assert_int_eq(put_write(session, 0, 1), MC_ERR_INVALID_PARAMS);
    ctl_proxy_lift(proxy, lost);
    ck_assert_int_eq(put_revoke(session, 0), 0);
    ck_assert_int_eq(put_revoke(put_open(client, MC_OK), 0), 0);
    ck_assert(AWAIT(is_free()));
    stop();
}
END_TEST

/* The end was done, and its answer lost for good: who revokes now is told. */
START_TEST(what_was_published_is_not_revoked)
{
    start_plain();
    struct mc_put_session *session = put_written();
    int lost = rule(CTL_ANSWER, MCI_OP_PUT_END, CTL_DROP, 0);
    ck_assert_int_eq(put_end(session, SOON_MS), MC_ERR_RPC_TIMEOUT);
    ctl_proxy_lift(proxy, lost);
    ck_assert_int_eq(put_revoke(session, 0), MC_ERR_INVALID_VERSION);
    ck_assert_int_eq(state(), MC_OBJECT_READABLE);
    ck_assert_uint_eq(commits(), 1);
    stop();
}
END_TEST

/* ---- time ------------------------------------------------------------------------ */

START_TEST(who_writes_is_not_taken_over)
{
    const struct mc_store_opts store = {.put_start_release_timeout_ms = 2000};
    turn_clock();
    start(&store);
    struct mc_put_session *session = put_open(client, MC_OK);
    for (int i = 0; i < 12; i++) { /* several times the timeout */
        pass(500);
        uint64_t at = (uint64_t)(i % LAYERS) * PAGE;
        ck_assert_int_eq(put_write(session, at, PAGE), PAGE);
        await_heartbeats(client);
        (void)put_open(lender, MC_ERR_OBJECT_ALREADY_EXISTS);
    }
    ck_assert_int_eq(put_end(session, 0), 0);
    ck_assert_int_eq(state(), MC_OBJECT_READABLE);
    stop();
}
END_TEST

START_TEST(who_is_idle_is_taken_over)
{
    const struct mc_store_opts store = {.put_start_release_timeout_ms = 2000};
    turn_clock();
    start(&store);
    struct mc_put_session *session = put_written();
    for (int i = 0; i < 5; i++) {
        pass(500);
        await_heartbeats(client);
        await_heartbeats(lender);
    }
    ck_assert(AWAIT(state() == MC_OBJECT_ABSENT));
    struct mc_put_session *other = put_open(client, MC_OK);
    ck_assert_int_eq(put_end(session, 0), MC_ERR_INVALID_VERSION);
    ck_assert_int_eq(put_revoke(session, 0), 0);
    ck_assert_int_eq(put_revoke(other, 0), 0);
    ck_assert(AWAIT(is_free()));
    stop();
}
END_TEST

static bool is_renewed(struct mc_get_session *session)
{
    mci_sessions_lock(&client->sessions);
    bool is_due = !session->is_over && mci_clock_ns() >= session->renew_ns;
    bool is_asked = session->renew_ns == UINT64_MAX && !session->is_over;
    mci_sessions_unlock(&client->sessions);
    return !is_due && !is_asked;
}

/* C12: it lasts an hour and no longer, says so, and can be had anew. */
START_TEST(a_lease_is_renewed_for_an_hour)
{
    const struct mc_store_opts store = {.default_kv_lease_ttl_ms = 600000};
    ttl_ms = 3600000;
    turn_clock();
    start(&store);
    ck_assert_int_eq(mc_client_put(client, key, source, LEN, NULL), MC_OK);
    struct mc_get_session *session = get_open(key, MC_OK);
    ck_assert_int_eq(mc_client_remove(lender, key, true), MC_OK);
    uint64_t begun_ns = now_ns;
    while (now_ns - begun_ns < 3300 * MCI_NS_PER_S) {
        ck_assert_int_eq(get_read(session, 0, LEN), (int64_t)LEN);
        ck_assert_mem_eq(target, source, LEN);
        pass(100000);
        await_heartbeats(client);
        await_heartbeats(lender);
        ck_assert(AWAIT(is_renewed(session)));
    }
    pass(400000);
    ck_assert_int_eq(get_read(session, 0, LEN), MC_ERR_LEASE_EXPIRED);
    mc_client_get_sessions_close(client, &session, 1);
    (void)get_open(key, MC_ERR_OBJECT_NOT_FOUND);
    stop();
}
END_TEST

/* ---- owners ------------------------------------------------------------------------ */

/* Of two layers, the first one is read and written. */
static void begin_both(struct mc_get_session **reading,
                       struct mc_put_session **writing)
{
    ck_assert_int_eq(mc_client_put(client, read_key, source, LEN, NULL), MC_OK);
    *reading = get_open(read_key, MC_OK);
    *writing = put_open(client, MC_OK);
    ck_assert_int_eq(get_read(*reading, 0, PAGE), PAGE);
    ck_assert_int_eq(put_write(*writing, 0, PAGE), PAGE);
}

START_TEST(an_owner_that_goes_between_layers_is_told_of)
{
    struct mc_get_session *reading;
    struct mc_put_session *writing;
    start_plain();
    begin_both(&reading, &writing);
    mc_client_close(lender);
    lender = join(MIB, process.port);
    ck_assert_int_lt(get_read(reading, PAGE, PAGE), 0);
    ck_assert_int_eq(put_write(writing, PAGE, PAGE), MC_ERR_TRANSFER_FAIL);
    ck_assert_int_ne(put_end(writing, SOON_MS), 0);
    ck_assert_int_ne(state(), MC_OBJECT_READABLE);
    ck_assert_int_eq(put_revoke(writing, 0), 0);
    mc_client_get_sessions_close(client, &reading, 1);
    struct mc_put_session *again = put_written();
    ck_assert_int_eq(put_end(again, 0), 0);
    stop();
}
END_TEST

static uint64_t renewals(struct mc_client *of)
{
    struct mci_remote_stats stats;
    mci_remote_stat(mci_client_outside(of)->remote, &stats);
    return stats.renewals;
}

/* Another master knows nothing of it: nothing of it is read or published, and the
 * handles are had back. */
START_TEST(sessions_do_not_outlive_their_master)
{
    const struct process_rig_opts opts = {.client_ttl_ms = ttl_ms};
    struct mc_get_session *reading;
    struct mc_put_session *writing;
    start_plain();
    begin_both(&reading, &writing);
    close_master();
    open_master(&opts);
    ctl_proxy_target(proxy, process.port);
    ctl_proxy_cut(proxy);
    ck_assert(AWAIT(renewals(client) > 0 && renewals(lender) > 0));
    ck_assert_int_lt(get_read(reading, PAGE, PAGE), 0);
    ck_assert_int_lt(put_write(writing, PAGE, PAGE), 0);
    ck_assert_int_lt(put_end(writing, 0), 0);
    ck_assert_int_eq(state(), MC_OBJECT_ABSENT);
    ck_assert_int_eq(put_revoke(writing, 0), MC_ERR_INVALID_VERSION);
    mc_client_get_sessions_close(client, &reading, 1);
    ck_assert(AWAIT(mc_client_put(client, read_key, source, LEN, NULL) ==
                    MC_OK)); /* its memory is mounted again */
    stop();
}
END_TEST

/* C2: both have all bytes. */
START_TEST(two_copies_are_written)
{
    const struct mc_replicate_config two = {.replica_num = 2};
    uint64_t read = 0;
    start_plain();
    struct mc_client *other = join(MIB, process.port);
    struct mc_put_session *session = put_open_with(client, &two, MC_OK);
    ck_assert_int_eq(put_write(session, 0, LEN / 2), (int64_t)(LEN / 2));
    ck_assert_int_eq(put_write(session, LEN / 2, LEN / 2), (int64_t)(LEN / 2));
    ck_assert_int_eq(put_end(session, 0), 0);
    mc_client_close(lender);
    lender = other;
    ck_assert_int_eq(mc_client_get_into(client, key, target, LEN, &read),
                     MC_OK);
    ck_assert_mem_eq(target, source, LEN);
    stop();
}
END_TEST

/* A range is on its way for longer than the revoke may take. */
START_TEST(a_revoke_does_not_wait_for_ever_and_says_what_may_land)
{
    struct mc_client_stats stats;
    start_plain();
    struct mc_put_session *session = put_written();
    mci_sessions_lock(&client->sessions);
    session->moving++; /* as by a thread that writes */
    session->refs++;
    mci_sessions_unlock(&client->sessions);
    ck_assert_int_eq(put_end(session, SOON_MS), MC_ERR_RPC_TIMEOUT);
    /* Its owner hears of no fence. */
    int held = rule(CTL_ANSWER, MCI_OP_HEARTBEAT, CTL_HOLD, 0);
    ck_assert_int_eq(put_revoke(session, HALVES_MS), 0);
    mc_client_stat(lender, &stats);
    ck_assert_uint_ge(stats.quarantined_bytes, LEN);
    ck_assert_int_eq(state(), MC_OBJECT_ABSENT);
    ctl_proxy_lift(proxy, held);
    ctl_proxy_release(proxy, held);
    mci_sessions_lock(&client->sessions);
    session->moving--;
    mci_put_session_drop(&client->sessions, session);
    mci_sessions_unlock(&client->sessions);
    ck_assert(AWAIT(is_free())); /* its owner has fenced it */
    stop();
}
END_TEST

/* ---- at a time ------------------------------------------------------------------------ */

static void *end_by_key(void *ctx)
{
    int64_t *result = ctx;
    enum mc_err err = mc_client_batch_put_session_end(client, &key, 1, result);
    *result = err == MC_OK ? *result : err;
    return NULL;
}

/* C8: once, whoever says it. */
START_TEST(an_end_by_two_at_a_time_happens_once)
{
    const uint64_t size = LEN;
    start_plain();
    for (int i = 0; i < 30; i++) {
        pthread_t threads[2];
        int64_t results[2] = {7, 7};
        int64_t result = 7;
        ck_assert_int_eq(mc_client_batch_put_session_start(client, &key, &size,
                                                           NULL, 1, &result),
                         MC_OK);
        ck_assert_int_eq(result, 0);
        for (int t = 0; t < 2; t++) {
            ck_assert_int_eq(
                pthread_create(&threads[t], NULL, end_by_key, &results[t]), 0);
        }
        for (int t = 0; t < 2; t++) {
            ck_assert_int_eq(pthread_join(threads[t], NULL), 0);
        }
        ck_assert(results[0] == 0 || results[1] == 0);
        for (int t = 0; t < 2; t++) {
            ck_assert(results[t] == 0 || results[t] == MC_ERR_INVALID_PARAMS);
        }
        ck_assert_uint_eq(commits(), (uint64_t)i + 1);
        ck_assert_int_eq(mc_client_remove(lender, key, true), MC_OK);
    }
    stop();
}
END_TEST

static TCase *messages(void)
{
    TCase *tcase = tcase_create("messages");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, an_end_that_comes_late_touches_nothing_else);
    tcase_add_test(tcase, a_revoke_that_comes_late_touches_nothing_else);
    tcase_add_test(tcase, messages_that_come_twice_or_never_change_nothing);
    tcase_add_test(tcase, a_revoke_that_is_lost_is_made_again);
    tcase_add_test(tcase, what_was_published_is_not_revoked);
    return tcase;
}

static TCase *passing(void)
{
    TCase *tcase = tcase_create("time");
    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, who_writes_is_not_taken_over);
    tcase_add_test(tcase, who_is_idle_is_taken_over);
    tcase_add_test(tcase, a_lease_is_renewed_for_an_hour);
    return tcase;
}

static TCase *owners(void)
{
    TCase *tcase = tcase_create("owners");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, an_owner_that_goes_between_layers_is_told_of);
    tcase_add_test(tcase, sessions_do_not_outlive_their_master);
    tcase_add_test(tcase, two_copies_are_written);
    tcase_add_test(tcase,
                   a_revoke_does_not_wait_for_ever_and_says_what_may_land);
    tcase_add_test(tcase, an_end_by_two_at_a_time_happens_once);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("client session faults");
    suite_add_tcase(suite, messages());
    suite_add_tcase(suite, passing());
    suite_add_tcase(suite, owners());
    return suite_run(suite);
}
