/* SPDX-License-Identifier: Apache-2.0 */
/* A master that answers wrongly costs the call, never memory or another call. */
#include <string.h>

#include "mc_log.h"
#include "mci_clock.h"
#include "remote_rig.h"
#include "suite.h"

static struct rig rig;

#define ROWS 3
#define FENCE 2 /* rows on both sides that nobody may touch */

/* ---- wrong rows, for every call that has rows ---------------------------- */

struct call {
    const char *name;
    enum mc_err (*run)(void);
    bool changes;
};

static struct mci_write_row writes[ROWS + 2 * FENCE];
static struct mci_read_row reads[ROWS + 2 * FENCE];
static struct mc_probe probes[ROWS + 2 * FENCE];
static int64_t results[ROWS + 2 * FENCE];
static enum mci_fate fates[ROWS + 2 * FENCE];
static struct mc_view keys[ROWS];

static void fill_rows(void)
{
    memset(writes, 0x5a, sizeof writes);
    memset(reads, 0x5a, sizeof reads);
    memset(probes, 0x5a, sizeof probes);
    memset(results, 0x5a, sizeof results);
    memset(fates, 0x5a, sizeof fates);
    for (size_t i = 0; i < ROWS; i++) {
        keys[i] = mc_view_str("key");
        writes[FENCE + i] = (struct mci_write_row){
            .key = keys[i],
            .attempt = {.epoch = 1000, .number = 100 + i},
            .place_count = 1};
        reads[FENCE + i] = (struct mci_read_row){.key = keys[i]};
    }
}

static bool is_untouched(const void *rows, size_t row_len)
{
    const uint8_t *bytes = rows;
    for (size_t i = 0; i < FENCE * row_len; i++) {
        if (bytes[i] != 0x5a || bytes[(FENCE + ROWS) * row_len + i] != 0x5a) {
            return false;
        }
    }
    return true;
}

static enum mc_err run_start(void)
{
    const struct mci_call call = rig_call(3000);
    return rig.link.ops->put_start(rig.link.ctx, &call, NULL, writes + FENCE,
                                   ROWS);
}

static enum mc_err run_upsert(void)
{
    const struct mci_call call = rig_call(3000);
    return rig.link.ops->upsert_start(rig.link.ctx, &call, NULL, writes + FENCE,
                                      ROWS);
}

static enum mc_err run_end(void)
{
    const struct mci_call call = rig_call(3000);
    return rig.link.ops->put_end(rig.link.ctx, &call, writes + FENCE, ROWS);
}

static enum mc_err run_revoke(void)
{
    const struct mci_call call = rig_call(3000);
    return rig.link.ops->put_revoke(rig.link.ctx, &call, writes + FENCE, ROWS);
}

static enum mc_err run_touch(void)
{
    const struct mci_call call = rig_call(3000);
    return rig.link.ops->attempt_touch(rig.link.ctx, &call, writes + FENCE,
                                       ROWS);
}

static enum mc_err run_fate(void)
{
    const struct mci_call call = rig_call(3000);
    const struct mci_attempt attempts[ROWS] = {{1000, 1}, {1000, 2}, {1000, 3}};
    return rig.link.ops->attempt_fate(rig.link.ctx, &call, attempts, ROWS,
                                      fates + FENCE);
}

static enum mc_err run_get(void)
{
    const struct mci_call call = rig_call(3000);
    return rig.link.ops->get(rig.link.ctx, &call, reads + FENCE, ROWS);
}

static enum mc_err run_exist(void)
{
    const struct mci_call call = rig_call(3000);
    return rig.link.ops->exist(rig.link.ctx, &call, keys, ROWS,
                               results + FENCE);
}

static enum mc_err run_size(void)
{
    const struct mci_call call = rig_call(3000);
    return rig.link.ops->get_size(rig.link.ctx, &call, keys, ROWS,
                                  results + FENCE);
}

static enum mc_err run_probe(void)
{
    const struct mci_call call = rig_call(3000);
    return rig.link.ops->probe(rig.link.ctx, &call, keys, ROWS, probes + FENCE,
                               results + FENCE);
}

static enum mc_err run_remove(void)
{
    const struct mci_call call = rig_call(3000);
    return rig.link.ops->remove(rig.link.ctx, &call, keys, ROWS, true,
                                results + FENCE);
}

static const struct call calls[] = {
    {"put_start", run_start, true},
    {"upsert_start", run_upsert, true},
    {"put_end", run_end, true},
    {"put_revoke", run_revoke, true},
    {"attempt_touch", run_touch, false},
    {"attempt_fate", run_fate, false},
    {"get", run_get, false},
    {"exist", run_exist, false},
    {"get_size", run_size, false},
    {"probe", run_probe, false},
    {"remove", run_remove, true},
};
#define CALLS ((int)(sizeof calls / sizeof calls[0]))

static void check_untouched(const struct call *call)
{
    ck_assert_msg(is_untouched(writes, sizeof writes[0]) &&
                      is_untouched(reads, sizeof reads[0]) &&
                      is_untouched(probes, sizeof probes[0]) &&
                      is_untouched(results, sizeof results[0]) &&
                      is_untouched(fates, sizeof fates[0]),
                  "%s wrote beyond its rows", call->name);
}

START_TEST(rows_that_were_not_asked_for_fail_the_call)
{
    static const enum rig_mode lies[] = {RIG_MORE_ROWS, RIG_FEWER_ROWS,
                                         RIG_NO_ROWS, RIG_BEHIND};
    const struct call *call = &calls[_i];
    rig_open(&rig);
    for (size_t i = 0; i < sizeof lies / sizeof lies[0]; i++) {
        struct mci_remote_stats told;
        fill_rows();
        rig_set(&rig, lies[i], 1);
        ck_assert_msg(call->run() == MC_ERR_RPC_FAIL, "%s, lie %zu", call->name,
                      i);
        check_untouched(call);
        if (call->changes && call->run != run_remove) {
            ck_assert_int_eq(writes[FENCE].err, MC_ERR_RPC_FAIL);
        }
        mci_remote_stat(rig.remote, &told);
        ck_assert_uint_eq(told.attempts, 0);
        /* What a change did, nobody knows; so it is cancelled. */
        unsigned cancels = fake_seen(&rig.master, MCI_OP_CANCEL);
        ck_assert_uint_eq(cancels, call->changes ? (unsigned)i : 0);
        fill_rows();
        ck_assert_msg(call->run() == MC_OK, "%s after it", call->name);
        check_untouched(call);
        ck_assert_uint_eq(fake_seen(&rig.master, MCI_OP_CANCEL),
                          call->changes ? (unsigned)i + 1 : 0);
        if (call->run == run_start || call->run == run_upsert) {
            ck_assert_int_eq(run_revoke(), MC_OK);
        }
    }
    rig_close(&rig);
}
END_TEST

/* ---- wrong frames -------------------------------------------------------- */

START_TEST(an_answer_to_something_else_is_none)
{
    static const enum rig_mode lies[] = {RIG_OTHER_NUMBER, RIG_OTHER_SLOT,
                                         RIG_NOISE, RIG_LEN_ZERO, RIG_LEN_HUGE};
    int64_t result = 0;
    rig_open(&rig);
    rig_set(&rig, lies[_i], 2);
    ck_assert_int_eq(rig_remove(&rig, &result, 5000), MC_OK);
    ck_assert_int_eq(result, 0);
    ck_assert_uint_eq(fake_seen(&rig.master, MCI_OP_REMOVE), 3);
    ck_assert_uint_eq(fake_logged(&rig.master, 0).number, 1);
    rig_close(&rig);
}
END_TEST

START_TEST(answers_of_long_ago_are_passed_over)
{
    int64_t result = 0;
    rig_open(&rig);
    rig_set(&rig, RIG_OLD_FIRST, 1);
    ck_assert_int_eq(rig_remove(&rig, &result, 5000), MC_OK);
    ck_assert_int_eq(result, 0);
    rig_set(&rig, RIG_TWICE, 1);
    ck_assert_int_eq(rig_exist(&rig, &result, 5000), MC_OK);
    ck_assert_int_eq(rig_remove(&rig, &result, 5000), MC_OK);
    ck_assert_int_eq(result, 0);
    ck_assert_int_eq(rig_exist(&rig, &result, 5000), MC_OK);
    ck_assert_int_eq(result, 1);
    ck_assert_uint_eq(fake_seen(&rig.master, MCI_OP_EXIST), 2);
    rig_close(&rig);
}
END_TEST

START_TEST(slow_bytes_are_waited_for_until_the_deadline)
{
    int64_t result = 0;
    rig_open(&rig);
    rig_set(&rig, RIG_SLOW, 1);
    ck_assert_int_eq(rig_remove(&rig, &result, 5000), MC_OK);
    rig_set(&rig, RIG_HALF, 1);
    uint64_t begun_ns = mci_clock_ns();
    ck_assert_int_eq(rig_remove(&rig, &result, 200), MC_ERR_RPC_TIMEOUT);
    ck_assert_uint_lt(mci_clock_ns() - begun_ns, 2 * MCI_NS_PER_S);
    ck_assert_int_eq(rig_remove(&rig, &result, 5000), MC_OK);
    rig_close(&rig);
}
END_TEST

START_TEST(a_number_taken_for_stale_was_not_done)
{
    int64_t result = 0;
    rig_open(&rig);
    rig_set(&rig, RIG_STALE, 1);
    ck_assert_int_eq(rig_remove(&rig, &result, 5000), MC_ERR_RPC_FAIL);
    ck_assert_int_eq(rig_remove(&rig, &result, 5000), MC_OK);
    rig_close(&rig);
}
END_TEST

/* ---- versions ------------------------------------------------------------ */

static char lines[4096];

static void keep_line(void *ctx, enum mc_log_level level, const char *text)
{
    (void)ctx;
    if (level == MC_LOG_ERROR) {
        (void)strncat(lines, text, sizeof lines - strlen(lines) - 1);
    }
}

START_TEST(another_version_is_named_at_open)
{
    char address[32];
    struct mci_remote *remote = NULL;
    rig_begin(&rig);
    struct mci_remote_opts opts = rig_opts(&rig, address);
    lines[0] = '\0';
    mc_log_set_sink(keep_line, NULL);
    atomic_store(&rig.master.hello_version, 9);
    ck_assert_int_eq(mci_remote_open(&opts, &remote), MC_ERR_NOT_SUPPORTED);
    ck_assert_ptr_nonnull(strstr(lines, "version 9"));
    atomic_store(&rig.master.hello_version, 0);
    atomic_store(&rig.master.hello_code, MC_ERR_NOT_SUPPORTED);
    lines[0] = '\0';
    ck_assert_int_eq(mci_remote_open(&opts, &remote), MC_ERR_NOT_SUPPORTED);
    ck_assert_ptr_nonnull(strstr(lines, "versions 2 to 2"));
    atomic_store(&rig.master.hello_code, MC_ERR_UNAVAILABLE_IN_CURRENT_MODE);
    ck_assert_int_eq(mci_remote_open(&opts, &remote),
                     MC_ERR_UNAVAILABLE_IN_CURRENT_MODE);
    mc_log_set_sink(NULL, NULL);
    fake_close(&rig.master);
}
END_TEST

START_TEST(another_version_in_the_middle_fails_the_call)
{
    int64_t result = 0;
    rig_open(&rig);
    rig_set(&rig, RIG_VERSION, 1);
    ck_assert_int_eq(rig_exist(&rig, &result, 5000), MC_ERR_NOT_SUPPORTED);
    rig_set(&rig, RIG_VERSION, 1);
    ck_assert_int_eq(rig_remove(&rig, &result, 5000), MC_ERR_RPC_TIMEOUT);
    ck_assert_int_eq(rig_remove(&rig, &result, 5000), MC_OK);
    rig_close(&rig);
}
END_TEST

START_TEST(an_address_that_is_none_is_refused)
{
    static const char *const bad[] = {"", "host", ":1", "a:b", NULL};
    struct mci_remote *remote = NULL;
    mc_log_set_level(MC_LOG_ERROR);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const struct mci_remote_opts opts = {.master = bad[i]};
        ck_assert_int_eq(mci_remote_open(&opts, &remote),
                         MC_ERR_INVALID_PARAMS);
    }
    ck_assert_ptr_null(remote);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("remote_lies");
    TCase *rows = tcase_create("rows");
    tcase_set_timeout(rows, 60);
    tcase_add_loop_test(rows, rows_that_were_not_asked_for_fail_the_call, 0,
                        CALLS);
    suite_add_tcase(suite, rows);
    TCase *frames = tcase_create("frames");
    tcase_add_loop_test(frames, an_answer_to_something_else_is_none, 0, 5);
    tcase_add_test(frames, answers_of_long_ago_are_passed_over);
    tcase_add_test(frames, slow_bytes_are_waited_for_until_the_deadline);
    tcase_add_test(frames, a_number_taken_for_stale_was_not_done);
    suite_add_tcase(suite, frames);
    TCase *versions = tcase_create("versions");
    tcase_add_test(versions, another_version_is_named_at_open);
    tcase_add_test(versions, another_version_in_the_middle_fails_the_call);
    tcase_add_test(versions, an_address_that_is_none_is_refused);
    suite_add_tcase(suite, versions);
    return suite;
}

int main(void)
{
    return suite_run(make_suite());
}
