/* SPDX-License-Identifier: Apache-2.0 */
/* Calls over the remote link, against a master that answers, cuts, stalls and
 * starts anew (SAFETY C and D.1 from the client's side).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_fail.h"
#include "ctl_proxy.h"
#include "mci_clock.h"
#include "remote_rig.h"
#include "suite.h"

static struct rig rig;

static uint64_t ms_since(uint64_t begun_ns)
{
    return (mci_clock_ns() - begun_ns) / MCI_NS_PER_MS;
}

static struct mci_remote_stats stats(void)
{
    struct mci_remote_stats told;
    mci_remote_stat(rig.remote, &told);
    return told;
}

/* ---- answers ------------------------------------------------------------- */

START_TEST(every_question_gets_its_answer)
{
    rig_open(&rig);
    const struct mci_link_ops *ops = rig.link.ops;
    void *ctx = rig.link.ctx;
    const struct mci_call call = rig_call(5000);
    const struct mc_view keys[2] = {mc_view_str("a"), mc_view_str("b")};
    struct mci_read_row reads[2] = {{.key = keys[0]}, {.key = keys[1]}};
    struct mc_probe probes[2];
    struct mci_master_stats figures;
    struct mci_cursor cursor = {.shard = 0};
    struct mci_page page;
    int64_t results[2];
    uint64_t removed = 0;
    ck_assert_int_eq(ops->exist(ctx, &call, keys, 2, results), MC_OK);
    ck_assert_int_eq(results[1], 1);
    ck_assert_int_eq(ops->get_size(ctx, &call, keys, 2, results), MC_OK);
    ck_assert_int_eq(results[1], 11);
    ck_assert_int_eq(ops->probe(ctx, &call, keys, 2, probes, results), MC_OK);
    ck_assert_uint_eq(probes[1].size, 11);
    ck_assert_int_eq(results[1], 0);
    ck_assert_int_eq(ops->get(ctx, &call, reads, 2), MC_OK);
    ck_assert_uint_eq(reads[1].size, 11);
    ck_assert_uint_eq(reads[1].places[0].segment, 7);
    ops->release(ctx, reads, 2);
    ck_assert_int_eq(ops->remove(ctx, &call, keys, 2, false, results), MC_OK);
    ck_assert_int_eq(results[1], 0);
    ck_assert_int_eq(ops->remove_all(ctx, &call, true, &removed), MC_OK);
    ck_assert_uint_eq(removed, 7);
    ck_assert_int_eq(ops->remove_by_regex(ctx, &call, keys[0], true, &removed),
                     MC_OK);
    ck_assert_int_eq(ops->stat(ctx, &call, &figures), MC_OK);
    ck_assert_uint_eq(figures.capacity_bytes, 7);
    ck_assert_int_eq(mci_page_init(&page), MC_OK);
    ck_assert_int_eq(ops->list(ctx, &call, keys[0], &cursor, &page), MC_OK);
    ck_assert(cursor.at_end);
    mci_page_fini(&page);
    rig_close(&rig);
}
END_TEST

START_TEST(a_write_goes_from_start_to_end)
{
    rig_open(&rig);
    struct mci_write_row row;
    struct mc_grant grant;
    enum mci_fate fate = MCI_FATE_UNKNOWN;
    const struct mci_call call = rig_call(5000);
    ck_assert_int_eq(rig_start(&rig, &row, 5000), MC_OK);
    ck_assert_uint_eq(row.attempt.number, 100);
    ck_assert_uint_eq(row.attempt.epoch, 1000);
    ck_assert_uint_eq(row.places[0].offset, 409600);
    ck_assert(mci_remote_attempt_touched(rig.remote, 100));
    ck_assert(mci_remote_attempt_grant(rig.remote, 100, 0, &grant));
    ck_assert_uint_eq(grant.deadline_ns, 100);
    ck_assert(!mci_remote_attempt_grant(rig.remote, 100, 1, &grant));
    ck_assert_uint_eq(stats().attempts, 1);
    ck_assert_int_eq(rig.link.ops->attempt_touch(rig.link.ctx, &call, &row, 1),
                     MC_OK);
    ck_assert_int_eq(
        rig.link.ops->attempt_fate(rig.link.ctx, &call, &row.attempt, 1, &fate),
        MC_OK);
    ck_assert_int_eq(fate, MCI_FATE_OPEN);
    ck_assert_int_eq(rig_end(&rig, &row, 5000), MC_OK);
    ck_assert_int_eq(row.err, MC_OK);
    ck_assert(!mci_remote_attempt_touched(rig.remote, 100));
    ck_assert_uint_eq(stats().attempts, 0);
    rig_close(&rig);
}
END_TEST

START_TEST(calls_one_after_the_other_use_one_connection)
{
    rig_open(&rig);
    int64_t result = 0;
    for (int i = 0; i < 20; i++) {
        ck_assert_int_eq(rig_exist(&rig, &result, 5000), MC_OK);
    }
    ck_assert_uint_eq(stats().connects, 2); /* and that of heartbeats */
    ck_assert_uint_eq(fake_logged(&rig.master, 0).number, 20);
    ck_assert_uint_eq(fake_logged(&rig.master, 0).slot, 0);
    ck_assert_uint_eq(stats().calls_by_op[MCI_OP_EXIST], 20);
    rig_close(&rig);
}
END_TEST

START_TEST(a_small_call_allocates_nothing)
{
    rig_open(&rig);
    struct mci_write_row row;
    int64_t result = 0;
    ck_assert_int_eq(rig_start(&rig, &row, 5000), MC_OK);
    ck_assert_int_eq(rig_end(&rig, &row, 5000), MC_OK);
    uint64_t before = mci_alloc_thread_calls();
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(rig_start(&rig, &row, 5000), MC_OK);
        ck_assert_int_eq(rig_end(&rig, &row, 5000), MC_OK);
        ck_assert_int_eq(rig_exist(&rig, &result, 5000), MC_OK);
    }
    ck_assert_uint_eq(mci_alloc_thread_calls(), before);
    rig_close(&rig);
}
END_TEST

/* SAFETY A.2 */
START_TEST(a_lease_is_counted_from_before_the_request)
{
    rig_open(&rig);
    struct mci_read_row row = {.key = mc_view_str("a")};
    const struct mci_call call = rig_call(5000);
    atomic_store(&rig.lease_ms, 1000);
    atomic_store(&rig.delay_ms, 200);
    rig_set(&rig, RIG_CUT, 2);
    ck_assert_int_eq(rig.link.ops->get(rig.link.ctx, &call, &row, 1), MC_OK);
    uint64_t end_ns = call.now_ns + row.lease_left_ns;
    ck_assert_uint_ge(stats().retries, 2);
    ck_assert_uint_ge(row.lease_left_ns, 900 * MCI_NS_PER_MS);
    /* Answered at 200 ms at the earliest, and that is not when it began. */
    ck_assert_uint_le(end_ns, mci_clock_ns() + 800 * MCI_NS_PER_MS);
    rig_close(&rig);
}
END_TEST

/* ---- once ---------------------------------------------------------------- */

START_TEST(a_lost_answer_is_asked_for_again_and_done_once)
{
    rig_open(&rig);
    struct mci_write_row row;
    rig_set(&rig, RIG_CUT, 3);
    ck_assert_int_eq(rig_start(&rig, &row, 5000), MC_OK);
    ck_assert_uint_eq(row.attempt.number, 100);
    ck_assert_uint_eq(atomic_load(&rig.done[MCI_OP_PUT_START]), 1);
    ck_assert_uint_eq(atomic_load(&rig.repeated[MCI_OP_PUT_START]), 3);
    rig_set(&rig, RIG_CUT_FIRST, 2);
    ck_assert_int_eq(rig_end(&rig, &row, 5000), MC_OK);
    ck_assert_uint_eq(atomic_load(&rig.done[MCI_OP_PUT_END]), 1);
    ck_assert_uint_eq(fake_logged(&rig.master, 0).number, 2);
    ck_assert_uint_eq(fake_logged(&rig.master, 2).number, 2);
    ck_assert_uint_eq(stats().retries, 5);
    rig_close(&rig);
}
END_TEST

START_TEST(time_left_shrinks_from_try_to_try)
{
    rig_open(&rig);
    int64_t result = 0;
    rig_set(&rig, RIG_CUT, 4);
    ck_assert_int_eq(rig_remove(&rig, &result, 5000), MC_OK);
    uint32_t first = fake_logged(&rig.master, 4).time_left_ms;
    uint32_t last = fake_logged(&rig.master, 0).time_left_ms;
    ck_assert_uint_le(first, 5000);
    ck_assert_uint_ge(first, 4000);
    ck_assert_uint_lt(last, first);
    rig_close(&rig);
}
END_TEST

/* SAFETY C.3 */
START_TEST(a_change_that_ran_out_of_time_is_cancelled)
{
    rig_open(&rig);
    int64_t result = 0;
    uint64_t begun_ns = mci_clock_ns();
    rig_set(&rig, RIG_STALL, 1);
    ck_assert_int_eq(rig_remove(&rig, &result, 300), MC_ERR_RPC_TIMEOUT);
    ck_assert_int_eq(result, MC_ERR_RPC_TIMEOUT);
    ck_assert_uint_ge(ms_since(begun_ns), 300);
    ck_assert_uint_lt(ms_since(begun_ns), 2000);
    /* Heartbeats say at once that its number is over. */
    ck_assert(AWAIT(fake_last_beat(&rig.master).slots[0] == 2));
    ck_assert_int_eq(rig_exist(&rig, &result, 5000), MC_OK);
    ck_assert_int_eq(fake_logged(&rig.master, 1).op, MCI_OP_CANCEL);
    ck_assert_uint_eq(fake_logged(&rig.master, 1).number, 2);
    ck_assert_uint_eq(fake_logged(&rig.master, 1).slot, 0);
    ck_assert_uint_eq(fake_logged(&rig.master, 0).number, 3);
    ck_assert_uint_eq(fake_logged(&rig.master, 0).slot, 0);
    ck_assert_uint_eq(stats().timeouts, 1);
    /* What comes late is not taken for an answer. */
    atomic_store(&rig.released, true);
    ck_assert_int_eq(rig_exist(&rig, &result, 5000), MC_OK);
    ck_assert_int_eq(result, 1);
    rig_close(&rig);
}
END_TEST

START_TEST(a_given_up_number_is_told_long_before_the_next_beat)
{
    char address[32];
    int64_t result = 0;
    rig_begin(&rig);
    atomic_store(&rig.master.heartbeat_ms, 60000);
    struct mci_remote_opts opts = rig_opts(&rig, address);
    ck_assert_int_eq(mci_remote_open(&opts, &rig.remote), MC_OK);
    rig.link = mci_remote_link(rig.remote);
    ck_assert(AWAIT(fake_last_beat(&rig.master).count == 1));
    rig_set(&rig, RIG_STALL, 1);
    ck_assert_int_eq(rig_remove(&rig, &result, 100), MC_ERR_RPC_TIMEOUT);
    ck_assert(AWAIT(fake_last_beat(&rig.master).slots[0] == 2));
    rig_close(&rig);
}
END_TEST

START_TEST(a_read_that_ran_out_of_time_needs_no_cancel)
{
    rig_open(&rig);
    int64_t result = 0;
    rig_set(&rig, RIG_HALF, 1);
    ck_assert_int_eq(rig_exist(&rig, &result, 200), MC_ERR_RPC_TIMEOUT);
    ck_assert_int_eq(result, MC_ERR_RPC_TIMEOUT);
    ck_assert_int_eq(rig_exist(&rig, &result, 5000), MC_OK);
    ck_assert_uint_eq(fake_seen(&rig.master, MCI_OP_CANCEL), 0);
    ck_assert_uint_eq(fake_logged(&rig.master, 0).number, 2);
    rig_close(&rig);
}
END_TEST

START_TEST(what_was_never_sent_has_failed)
{
    rig_open(&rig);
    int64_t result = 0;
    uint64_t begun_ns = mci_clock_ns();
    atomic_store(&rig.master.is_deaf, true); /* no hello is answered */
    ck_assert_int_eq(rig_remove(&rig, &result, 300), MC_ERR_RPC_FAIL);
    ck_assert_uint_ge(ms_since(begun_ns), 300);
    ck_assert_uint_lt(ms_since(begun_ns), 2000);
    ck_assert(AWAIT(mci_remote_health(rig.remote) == 2));
    atomic_store(&rig.master.is_deaf, false);
    ck_assert_int_eq(rig_remove(&rig, &result, 5000), MC_OK);
    ck_assert(AWAIT(mci_remote_health(rig.remote) == 0));
    ck_assert_uint_eq(fake_seen(&rig.master, MCI_OP_CANCEL), 0);
    rig_close(&rig);
}
END_TEST

START_TEST(a_late_request_comes_after_its_cancel)
{
    char address[32];
    int64_t result = 0;
    rig_begin(&rig);
    struct ctl_proxy *proxy = ctl_proxy_open(rig.master.port);
    struct mci_remote_opts opts = rig_opts(&rig, address);
    (void)snprintf(address, sizeof address, "127.0.0.1:%u",
                   ctl_proxy_port(proxy));
    ck_assert_int_eq(mci_remote_open(&opts, &rig.remote), MC_OK);
    rig.link = mci_remote_link(rig.remote);
    int late = ctl_proxy_rule(proxy, &(struct ctl_rule){.way = CTL_REQUEST,
                                                        .op = MCI_OP_REMOVE,
                                                        .what = CTL_HOLD,
                                                        .count = 1});
    ck_assert_int_eq(rig_remove(&rig, &result, 200), MC_ERR_RPC_TIMEOUT);
    ck_assert_uint_eq(ctl_proxy_hits(proxy, late), 1);
    ck_assert_int_eq(rig_remove(&rig, &result, 5000), MC_OK);
    ck_assert_uint_eq(atomic_load(&rig.done[MCI_OP_REMOVE]), 1);
    ctl_proxy_release(proxy, late);
    ck_assert(AWAIT(fake_seen(&rig.master, MCI_OP_REMOVE) == 2));
    ck_assert_uint_eq(fake_logged(&rig.master, 0).number, 1);
    ck_assert_uint_eq(fake_logged(&rig.master, 1).number, 3);
    ck_assert_int_eq(fake_logged(&rig.master, 2).op, MCI_OP_CANCEL);
    mci_remote_close(rig.remote, mci_clock_ns() + MCI_NS_PER_S);
    ctl_proxy_close(proxy);
    fake_close(&rig.master);
}
END_TEST

/* ---- attempts that nobody knows (D.1) ------------------------------------ */

START_TEST(a_write_stays_in_the_book_until_its_end_was_answered)
{
    rig_open(&rig);
    struct mci_write_row row;
    ck_assert_int_eq(rig_start(&rig, &row, 5000), MC_OK);
    rig_set(&rig, RIG_STALL, 1);
    ck_assert_int_eq(rig_end(&rig, &row, 200), MC_ERR_RPC_TIMEOUT);
    ck_assert(AWAIT(fake_last_beat(&rig.master).slots[0] == 3));
    ck_assert_uint_eq(fake_last_beat(&rig.master).attempt_count, 1);
    ck_assert_uint_eq(fake_last_beat(&rig.master).attempts[0], 100);
    /* -901 of a row: nothing has changed. */
    atomic_store(&rig.row_code, MC_ERR_RPC_TIMEOUT);
    ck_assert_int_eq(rig_end(&rig, &row, 5000), MC_OK);
    ck_assert_int_eq(row.err, MC_ERR_RPC_TIMEOUT);
    ck_assert_uint_eq(stats().attempts, 1);
    atomic_store(&rig.row_code, MC_ERR_INVALID_VERSION);
    ck_assert_int_eq(rig_end(&rig, &row, 5000), MC_OK);
    ck_assert_int_eq(row.err, MC_ERR_INVALID_VERSION);
    ck_assert_uint_eq(stats().attempts, 0);
    rig_close(&rig);
}
END_TEST

START_TEST(a_start_that_nobody_saw_is_not_in_the_book)
{
    rig_open(&rig);
    struct mci_write_row row;
    rig_set(&rig, RIG_STALL, 1);
    ck_assert_int_eq(rig_start(&rig, &row, 200), MC_ERR_RPC_TIMEOUT);
    ck_assert_int_eq(row.err, MC_ERR_RPC_TIMEOUT);
    ck_assert_uint_eq(row.attempt.number, 0);
    ck_assert(AWAIT(fake_last_beat(&rig.master).slots[0] == 2));
    ck_assert_uint_eq(fake_last_beat(&rig.master).attempt_count, 0);
    rig_close(&rig);
}
END_TEST

/* ---- another epoch, another incarnation ---------------------------------- */

static void *expire_and_cut(void *ctx)
{
    struct rig *one = ctx;
    (void)AWAIT(fake_seen(&one->master, MCI_OP_REMOVE) == 1);
    fake_forget(&one->master);
    fake_cut_all(&one->master);
    return NULL;
}

static void *restart_soon(void *ctx)
{
    struct rig *one = ctx;
    (void)AWAIT(fake_seen(&one->master, MCI_OP_REMOVE) == 1);
    fake_restart(&one->master);
    return NULL;
}

START_TEST(a_change_sent_to_one_epoch_is_not_sent_to_another)
{
    rig_open(&rig);
    int64_t result = 0;
    rig_set(&rig, RIG_STALL, 1);
    pthread_t restarter;
    ck_assert_int_eq(pthread_create(&restarter, NULL, restart_soon, &rig), 0);
    ck_assert_int_eq(rig_remove(&rig, &result, 5000), MC_ERR_RPC_TIMEOUT);
    (void)pthread_join(restarter, NULL);
    ck_assert_uint_eq(fake_seen(&rig.master, MCI_OP_REMOVE), 1);
    ck_assert(AWAIT(atomic_load(&rig.renewed) == 1));
    ck_assert_uint_eq(mci_remote_self(rig.remote).epoch, 1001);
    atomic_store(&rig.released, true);
    ck_assert_int_eq(rig_remove(&rig, &result, 5000), MC_OK);
    ck_assert_uint_eq(fake_seen(&rig.master, MCI_OP_CANCEL), 0);
    rig_close(&rig);
}
END_TEST

START_TEST(a_read_is_asked_anew_in_the_next_epoch)
{
    rig_open(&rig);
    int64_t result = 0;
    ck_assert_int_eq(rig_exist(&rig, &result, 5000), MC_OK);
    fake_restart(&rig.master);
    ck_assert_int_eq(rig_exist(&rig, &result, 5000), MC_OK);
    ck_assert_int_eq(result, 1);
    ck_assert_uint_eq(fake_logged(&rig.master, 0).epoch, 1001);
    ck_assert_uint_eq(fake_logged(&rig.master, 0).number, 1);
    rig_close(&rig);
}
END_TEST

START_TEST(what_an_unknown_client_asked_was_not_done_and_is_asked_anew)
{
    rig_open(&rig);
    struct mci_write_row row;
    uint64_t before = mci_remote_self(rig.remote).incarnation;
    rig_set(&rig, RIG_UNKNOWN, 1);
    ck_assert_int_eq(rig_start(&rig, &row, 5000), MC_OK);
    ck_assert_uint_eq(row.attempt.number, 100);
    ck_assert_uint_eq(atomic_load(&rig.done[MCI_OP_PUT_START]), 1);
    ck_assert_uint_ne(mci_remote_self(rig.remote).incarnation, before);
    ck_assert(AWAIT(atomic_load(&rig.renewed) == 1));
    ck_assert_uint_eq(stats().renewals, 1);
    rig_close(&rig);
}
END_TEST

START_TEST(a_repeated_change_of_an_unknown_client_may_have_been_done)
{
    rig_open(&rig);
    int64_t result = 0;
    rig_set(&rig, RIG_STALL, 1);
    pthread_t expirer;
    ck_assert_int_eq(pthread_create(&expirer, NULL, expire_and_cut, &rig), 0);
    ck_assert_int_eq(rig_remove(&rig, &result, 5000), MC_ERR_RPC_TIMEOUT);
    (void)pthread_join(expirer, NULL);
    ck_assert_uint_eq(fake_seen(&rig.master, MCI_OP_REMOVE), 1);
    rig_close(&rig);
}
END_TEST

START_TEST(an_attempt_of_another_epoch_is_not_named_to_this_one)
{
    rig_open(&rig);
    struct mci_write_row row;
    enum mci_fate fate = MCI_FATE_OPEN;
    ck_assert_int_eq(rig_start(&rig, &row, 5000), MC_OK);
    fake_restart(&rig.master);
    ck_assert(AWAIT(atomic_load(&rig.renewed) == 1));
    ck_assert_uint_eq(stats().attempts, 0);
    ck_assert_int_eq(rig_end(&rig, &row, 5000), MC_OK);
    ck_assert_int_eq(row.err, MC_ERR_INVALID_VERSION);
    const struct mci_call call = rig_call(5000);
    ck_assert_int_eq(rig.link.ops->put_revoke(rig.link.ctx, &call, &row, 1),
                     MC_OK);
    ck_assert_int_eq(row.err, MC_ERR_INVALID_VERSION);
    ck_assert_int_eq(
        rig.link.ops->attempt_fate(rig.link.ctx, &call, &row.attempt, 1, &fate),
        MC_OK);
    ck_assert_int_eq(fate, MCI_FATE_UNKNOWN);
    ck_assert_uint_eq(fake_seen(&rig.master, MCI_OP_PUT_END), 0);
    ck_assert_uint_eq(fake_seen(&rig.master, MCI_OP_PUT_REVOKE), 0);
    rig_close(&rig);
}
END_TEST

/* ---- batches ------------------------------------------------------------- */

START_TEST(rows_without_an_attempt_are_passed_over)
{
    rig_open(&rig);
    struct mci_write_row rows[3];
    const struct mci_call call = rig_call(5000);
    ck_assert_int_eq(rig_start(&rig, &rows[0], 5000), MC_OK);
    ck_assert_int_eq(rig_start(&rig, &rows[2], 5000), MC_OK);
    rows[1] = (struct mci_write_row){.err = MC_ERR_NO_AVAILABLE_HANDLE};
    ck_assert_int_eq(rig.link.ops->put_end(rig.link.ctx, &call, rows, 3),
                     MC_OK);
    ck_assert_int_eq(rows[0].err, MC_OK);
    ck_assert_int_eq(rows[1].err, MC_ERR_NO_AVAILABLE_HANDLE);
    ck_assert_int_eq(rows[2].err, MC_OK);
    ck_assert_uint_eq(stats().attempts, 0);
    rig_close(&rig);
}
END_TEST

#define LONG_ROWS 17000 /* keys of 4 KiB: more than one message */

START_TEST(a_batch_over_the_size_of_a_message_is_split_and_joined)
{
    rig_open(&rig);
    char *text = malloc(MC_KEY_LEN_MAX);
    struct mci_write_row *rows = calloc(LONG_ROWS, sizeof *rows);
    struct mc_view *keys = calloc(LONG_ROWS, sizeof *keys);
    int64_t *results = calloc(LONG_ROWS, sizeof *results);
    ck_assert(text && rows && keys && results);
    memset(text, 'k', MC_KEY_LEN_MAX);
    for (size_t i = 0; i < LONG_ROWS; i++) {
        keys[i] = mc_view_make(text, MC_KEY_LEN_MAX);
        rows[i].key = keys[i];
    }
    const struct mci_call call = rig_call(60000);
    ck_assert_int_eq(
        rig.link.ops->exist(rig.link.ctx, &call, keys, LONG_ROWS, results),
        MC_OK);
    ck_assert_int_eq(results[LONG_ROWS - 1], 1);
    ck_assert_uint_eq(fake_seen(&rig.master, MCI_OP_EXIST), 2);
    rig.next_attempt = 100; /* what was not asked so far */
    ck_assert_int_eq(
        rig.link.ops->put_start(rig.link.ctx, &call, NULL, rows, LONG_ROWS),
        MC_OK);
    ck_assert_uint_eq(fake_seen(&rig.master, MCI_OP_PUT_START), 2);
    for (size_t i = 0; i < LONG_ROWS; i++) {
        ck_assert_uint_eq(rows[i].attempt.number, 100 + i);
    }
    ck_assert_uint_eq(stats().attempts, LONG_ROWS);
    ck_assert_int_eq(
        rig.link.ops->put_revoke(rig.link.ctx, &call, rows, LONG_ROWS), MC_OK);
    ck_assert_uint_eq(stats().attempts, 0);
    free(text);
    free(rows);
    free(keys);
    free(results);
    rig_close(&rig);
}
END_TEST

START_TEST(more_attempts_than_the_book_holds_are_refused_unsent)
{
    rig_open(&rig);
    struct mci_write_row *rows = calloc(MC_ATTEMPTS_MAX, sizeof *rows);
    ck_assert_ptr_nonnull(rows);
    for (size_t i = 0; i < MC_ATTEMPTS_MAX; i++) {
        rows[i].key = mc_view_str("k");
    }
    const struct mci_call call = rig_call(60000);
    struct mci_write_row one;
    ck_assert_int_eq(rig.link.ops->put_start(rig.link.ctx, &call, NULL, rows,
                                             MC_ATTEMPTS_MAX),
                     MC_OK);
    ck_assert_uint_eq(stats().attempts, MC_ATTEMPTS_MAX);
    ck_assert_int_eq(rig_start(&rig, &one, 5000), MC_ERR_NO_AVAILABLE_HANDLE);
    ck_assert_int_eq(one.err, MC_ERR_NO_AVAILABLE_HANDLE);
    ck_assert(
        AWAIT(fake_last_beat(&rig.master).attempt_count == MC_ATTEMPTS_MAX));
    ck_assert_int_eq(
        rig.link.ops->put_revoke(rig.link.ctx, &call, rows, MC_ATTEMPTS_MAX),
        MC_OK);
    ck_assert_int_eq(rig_start(&rig, &one, 5000), MC_OK);
    free(rows);
    rig_close(&rig);
}
END_TEST

/* ---- segments ------------------------------------------------------------ */

START_TEST(a_segment_is_asked_for_once_per_identity)
{
    rig_open(&rig);
    const struct mci_segment_row *row = NULL;
    const struct mci_segment_row *again = NULL;
    uint64_t deadline_ns = mci_clock_ns() + 5 * MCI_NS_PER_S;
    ck_assert_int_eq(mci_remote_segment(rig.remote, 7, deadline_ns, &row),
                     MC_OK);
    ck_assert(mc_view_equal(row->endpoint, mc_view_str("127.0.0.1:12300")));
    ck_assert_int_eq(mci_remote_segment(rig.remote, 7, deadline_ns, &again),
                     MC_OK);
    ck_assert_ptr_eq(row, again);
    ck_assert_uint_eq(fake_seen(&rig.master, MCI_OP_SEGMENT_GET), 1);
    fake_forget(&rig.master);
    ck_assert(AWAIT(atomic_load(&rig.renewed) == 1));
    ck_assert_int_eq(mci_remote_segment(rig.remote, 7, deadline_ns, &again),
                     MC_OK);
    ck_assert_ptr_ne(row, again);
    ck_assert(mc_view_equal(row->name, mc_view_str("one:1"))); /* still there */
    ck_assert_uint_eq(fake_seen(&rig.master, MCI_OP_SEGMENT_GET), 2);
    /* Another row than was asked for. */
    ck_assert_int_eq(mci_remote_segment(rig.remote, 8, deadline_ns, &again),
                     MC_ERR_RPC_FAIL);
    rig_close(&rig);
}
END_TEST

START_TEST(segments_are_mounted_and_unmounted)
{
    rig_open(&rig);
    const struct mci_mount mount = {.id = {1, 2},
                                    .registration = 5,
                                    .bytes = 1 << 20,
                                    .base = 4096,
                                    .name = mc_view_str("client:1"),
                                    .protocol = mc_view_str("tcp")};
    uint64_t deadline_ns = mci_clock_ns() + 5 * MCI_NS_PER_S;
    enum mci_segment_status status = MCI_SEGMENT_UNDEFINED;
    uint32_t segment = 0;
    rig_set(&rig, RIG_CUT, 1);
    ck_assert_int_eq(
        mci_remote_mount(rig.remote, &mount, deadline_ns, &segment), MC_OK);
    ck_assert_uint_eq(segment, 7);
    ck_assert_uint_eq(atomic_load(&rig.done[MCI_OP_SEGMENT_MOUNT]), 1);
    ck_assert_int_eq(
        mci_remote_segment_status(rig.remote, 7, deadline_ns, &status), MC_OK);
    ck_assert_int_eq(status, MCI_SEGMENT_OK);
    ck_assert_int_eq(mci_remote_unmount(rig.remote, 7, 0, deadline_ns), MC_OK);
    rig_close(&rig);
}
END_TEST

/* ---- memory -------------------------------------------------------------- */

START_TEST(a_call_without_memory_says_so_and_keeps_its_slot)
{
    rig_open(&rig);
    struct alloc_fail fail;
    ALLOC_FAIL_EACH(fail)
    {
        struct mci_write_row row = {.key = mc_view_str("key")};
        const struct mci_call call = rig_call(2000);
        fail.is_shared = true;
        alloc_fail_arm(&fail);
        enum mc_err err =
            rig.link.ops->put_start(rig.link.ctx, &call, NULL, &row, 1);
        alloc_fail_disarm(&fail);
        ck_assert(err == MC_OK || err == MC_ERR_NOMEM ||
                  err == MC_ERR_RPC_TIMEOUT);
        ck_assert_int_eq(row.err, err);
        if (err == MC_OK) {
            ck_assert_int_eq(rig_end(&rig, &row, 2000), MC_OK);
        }
    }
    int64_t result = 0;
    ck_assert_int_eq(rig_exist(&rig, &result, 5000), MC_OK);
    rig_close(&rig);
}
END_TEST

START_TEST(a_remote_that_gets_no_memory_is_not_opened)
{
    char address[32];
    rig_begin(&rig);
    struct mci_remote_opts opts = rig_opts(&rig, address);
    struct alloc_fail fail;
    ALLOC_FAIL_EACH(fail)
    {
        struct mci_remote *remote = NULL;
        fail.is_shared = true;
        alloc_fail_arm(&fail);
        enum mc_err err = mci_remote_open(&opts, &remote);
        alloc_fail_disarm(&fail);
        ck_assert(err == MC_OK || alloc_fail_happened(&fail));
        mci_remote_close(remote, mci_clock_ns() + MCI_NS_PER_S);
    }
    fake_close(&rig.master);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("remote");
    TCase *answers = tcase_create("answers");
    tcase_add_test(answers, every_question_gets_its_answer);
    tcase_add_test(answers, a_write_goes_from_start_to_end);
    tcase_add_test(answers, calls_one_after_the_other_use_one_connection);
    tcase_add_test(answers, a_small_call_allocates_nothing);
    tcase_add_test(answers, a_lease_is_counted_from_before_the_request);
    suite_add_tcase(suite, answers);
    TCase *once = tcase_create("once");
    tcase_add_test(once, a_lost_answer_is_asked_for_again_and_done_once);
    tcase_add_test(once, time_left_shrinks_from_try_to_try);
    tcase_add_test(once, a_change_that_ran_out_of_time_is_cancelled);
    tcase_add_test(once, a_given_up_number_is_told_long_before_the_next_beat);
    tcase_add_test(once, a_read_that_ran_out_of_time_needs_no_cancel);
    tcase_add_test(once, what_was_never_sent_has_failed);
    tcase_add_test(once, a_late_request_comes_after_its_cancel);
    tcase_add_test(once, a_write_stays_in_the_book_until_its_end_was_answered);
    tcase_add_test(once, a_start_that_nobody_saw_is_not_in_the_book);
    suite_add_tcase(suite, once);
    TCase *epochs = tcase_create("epochs");
    tcase_add_test(epochs, a_change_sent_to_one_epoch_is_not_sent_to_another);
    tcase_add_test(epochs, a_read_is_asked_anew_in_the_next_epoch);
    tcase_add_test(epochs,
                   what_an_unknown_client_asked_was_not_done_and_is_asked_anew);
    tcase_add_test(epochs,
                   a_repeated_change_of_an_unknown_client_may_have_been_done);
    tcase_add_test(epochs,
                   an_attempt_of_another_epoch_is_not_named_to_this_one);
    suite_add_tcase(suite, epochs);
    TCase *batches = tcase_create("batches");
    tcase_set_timeout(batches, 120);
    tcase_add_test(batches, rows_without_an_attempt_are_passed_over);
    tcase_add_test(batches,
                   a_batch_over_the_size_of_a_message_is_split_and_joined);
    tcase_add_test(batches,
                   more_attempts_than_the_book_holds_are_refused_unsent);
    suite_add_tcase(suite, batches);
    TCase *segments = tcase_create("segments");
    tcase_add_test(segments, a_segment_is_asked_for_once_per_identity);
    tcase_add_test(segments, segments_are_mounted_and_unmounted);
    suite_add_tcase(suite, segments);
    TCase *memory = tcase_create("memory");
    tcase_set_timeout(memory, 60);
    tcase_add_test(memory, a_call_without_memory_says_so_and_keeps_its_slot);
    tcase_add_test(memory, a_remote_that_gets_no_memory_is_not_opened);
    suite_add_tcase(suite, memory);
    return suite;
}

int main(void)
{
    return suite_run(make_suite());
}
