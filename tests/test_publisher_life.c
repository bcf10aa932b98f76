/* SPDX-License-Identifier: Apache-2.0 */
/* test_publisher_life.c - a publisher's beginning and its end. */
#include <stdlib.h>

#include "alloc_fail.h"
#include "publisher_rig.h"
#include "suite.h"

/* --- the beginning ------------------------------------------------------- */

static void expect_refused(const struct mc_publisher_opts *opts,
                           enum mc_err want, const char *words)
{
    struct publisher_rig rig;
    struct rig_lines lines;
    struct mc_publisher_opts log_opts = {0};
    rig_open_log(&rig, &log_opts);
    rig_lines_begin(&lines);
    ck_assert_int_eq(mci_publisher_check(opts), want);
    rig_lines_expect(&lines, words);
    ck_assert_int_eq(mci_publisher_create(opts, rig.log, &rig.publisher), want);
    rig_lines_expect(&lines, words);
    rig_lines_end();
    ck_assert_ptr_null(rig.publisher);
    ck_assert_int_eq(mci_event_log_attach(rig.log), MC_OK); /* it is free */
    rig_close(&rig);
}

START_TEST(missing_or_bad_settings_are_refused_by_name)
{
    static char long_text[5000];
    const char *bad_utf8[] = {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xe2\x82",
                              "\xf4\x90\x80\x80"};
    struct mc_publisher_opts opts = rig_opts();
    opts.backend_id = NULL;
    expect_refused(&opts, MC_ERR_INVALID_PARAMS, "backend id");
    opts.backend_id = "";
    expect_refused(&opts, MC_ERR_INVALID_PARAMS, "tcp://127.0.0.1:*");
    for (size_t i = 0; i < sizeof bad_utf8 / sizeof *bad_utf8; i++) {
        opts.backend_id = bad_utf8[i];
        expect_refused(&opts, MC_ERR_INVALID_PARAMS, "backend id: not UTF-8");
    }
    memset(long_text, 'x', MC_BACKEND_ID_LEN_MAX + 1);
    opts.backend_id = long_text;
    expect_refused(&opts, MC_ERR_INVALID_PARAMS, "backend id: 129 bytes");
    opts = rig_opts();
    opts.bind_endpoint = "";
    expect_refused(&opts, MC_ERR_INVALID_PARAMS, "endpoint");
    memset(long_text, 'x', sizeof long_text - 1);
    opts.bind_endpoint = long_text;
    expect_refused(&opts, MC_ERR_INVALID_PARAMS, "endpoint");
    opts = rig_opts();
    opts.model_name = long_text;
    expect_refused(&opts, MC_ERR_INVALID_PARAMS, "model name");
    opts = rig_opts();
    opts.lora_name = "\xff";
    expect_refused(&opts, MC_ERR_INVALID_PARAMS, "lora name");
    opts = rig_opts();
    opts.replay_endpoint = "tcp://127.0.0.1:99999";
    expect_refused(&opts, MC_ERR_INVALID_PARAMS, "tcp://127.0.0.1:99999");
    opts.replay_endpoint = long_text;
    expect_refused(&opts, MC_ERR_INVALID_PARAMS, "replay endpoint: 4999");
    opts = rig_opts();
    opts.replay_layout = 5;
    expect_refused(&opts, MC_ERR_INVALID_PARAMS, "replay layout 5");
    opts = rig_opts();
    opts.overflow = (enum mc_publisher_overflow)7;
    expect_refused(&opts, MC_ERR_INVALID_PARAMS, "overflow");
}
END_TEST

START_TEST(queue_capacity_is_0_or_at_least_the_minimum)
{
    const uint32_t refused[] = {1, 8, MCI_EVENT_LOG_CAPACITY_MIN - 1};
    struct mc_publisher_opts opts = rig_opts();
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        opts.queue_capacity = refused[i];
        expect_refused(&opts, MC_ERR_INVALID_PARAMS, "queue capacity");
    }
    opts.queue_capacity = MCI_EVENT_LOG_CAPACITY_MIN;
    ck_assert_int_eq(mci_publisher_check(&opts), MC_OK);
    opts.queue_capacity = 0;
    ck_assert_int_eq(mci_publisher_check(&opts), MC_OK);
}
END_TEST

START_TEST(longest_backend_id_is_taken)
{
    static char text[MC_BACKEND_ID_LEN_MAX + 1];
    struct mc_publisher_opts opts = rig_opts();
    memset(text, 'x', MC_BACKEND_ID_LEN_MAX);
    opts.backend_id = text;
    ck_assert_int_eq(mci_publisher_check(&opts), MC_OK);
}
END_TEST

START_TEST(publishing_is_wanted_only_with_an_endpoint)
{
    struct mc_publisher_opts opts = {0};
    ck_assert(!mci_publisher_is_wanted(&opts));
    opts.bind_endpoint = "";
    ck_assert(!mci_publisher_is_wanted(&opts));
    opts.bind_endpoint = "tcp://127.0.0.1:*";
    ck_assert(mci_publisher_is_wanted(&opts));
}
END_TEST

START_TEST(taken_port_and_bad_endpoints_are_told_with_their_cause)
{
    const char *endpoints[] = {
        "nonsense",           "tcp://256.1.1.1:5557",  "tcp://127.0.0.1:99999",
        "tcp://127.0.0.1:-1", "tcp://127.0.0.1:12x",   "tcp://127.0.0.1:",
        "tcp://127.0.0.1",    "tcp://127.0.0.1:65536", "tcp://"};
    struct mc_publisher_opts opts = rig_opts();
    struct publisher_rig first;
    struct publisher_rig second;
    struct rig_lines lines;
    rig_open(&first, &opts);
    struct mc_publisher_stats stats = rig_stats(&first);
    opts.bind_endpoint = stats.endpoint;
    rig_open_log(&second, &opts);
    rig_lines_begin(&lines);
    ck_assert_int_eq(mci_publisher_create(&opts, second.log, &second.publisher),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_ptr_null(second.publisher);
    ck_assert_ptr_nonnull(strstr(lines.text, stats.endpoint));
    rig_lines_expect(&lines, "Address already in use");
    for (size_t i = 0; i < sizeof endpoints / sizeof *endpoints; i++) {
        opts.bind_endpoint = endpoints[i];
        ck_assert_int_eq(
            mci_publisher_create(&opts, second.log, &second.publisher),
            MC_ERR_INVALID_PARAMS);
        rig_lines_expect(&lines, endpoints[i]);
    }
    rig_lines_end();
    /* And the log takes a publisher that can bind. */
    opts = rig_opts();
    ck_assert_int_eq(mci_publisher_create(&opts, second.log, &second.publisher),
                     MC_OK);
    rig_close(&second);
    rig_close(&first);
}
END_TEST

START_TEST(log_with_a_consumer_takes_no_publisher)
{
    const struct mc_publisher_opts opts = rig_opts();
    struct mci_publisher *another = NULL;
    struct publisher_rig rig;
    rig_open(&rig, &opts);
    ck_assert_int_eq(mci_publisher_create(&opts, rig.log, &another),
                     MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS);
    ck_assert_ptr_null(another);
    rig_close(&rig);
    mci_publisher_destroy(NULL);
}
END_TEST

START_TEST(free_port_is_told)
{
    const char *endpoints[] = {"tcp://127.0.0.1:*", "tcp://127.0.0.1:0"};
    struct mc_publisher_opts opts = rig_opts();
    struct publisher_rig rig;
    opts.bind_endpoint = endpoints[_i];
    opts.hwm_bytes = 1;
    rig_open(&rig, &opts);
    struct mc_publisher_stats stats = rig_stats(&rig);
    ck_assert(stats.enabled);
    ck_assert_int_eq(strncmp(stats.endpoint, "tcp://127.0.0.1:", 16), 0);
    ck_assert_int_gt(strtol(stats.endpoint + 16, NULL, 10), 0);
    ck_assert_uint_eq(stats.epoch, PUBLISHER_RIG_EPOCH);
    ck_assert_uint_eq(stats.queue_capacity, MCI_EVENT_LOG_CAPACITY_DEFAULT);
    rig_close(&rig);
}
END_TEST

START_TEST(create_survives_each_allocation_failing)
{
    const struct mc_publisher_opts opts = rig_opts();
    struct publisher_rig rig;
    struct alloc_fail fail;
    rig_open_log(&rig, &opts);
    ALLOC_FAIL_EACH(fail)
    {
        alloc_fail_arm(&fail);
        enum mc_err err = mci_publisher_create(&opts, rig.log, &rig.publisher);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        mci_publisher_destroy(rig.publisher);
        rig.publisher = NULL;
        ck_assert_int_eq(mci_event_log_attach(rig.log), MC_OK);
        mci_event_log_detach(rig.log);
    }
    ck_assert_uint_gt(fail.k, 5);
    rig_close(&rig);
}
END_TEST

/* --- the end ------------------------------------------------------------- */

START_TEST(close_sends_what_is_queued)
{
    const struct mc_publisher_opts opts = rig_opts();
    struct publisher_rig rig;
    struct follower follower;
    rig_open(&rig, &opts);
    rig_follow(&rig, &follower);
    uint64_t id = rig_put_many(&rig, 5000);
    rig_close(&rig);
    follower_reach(&follower, id);
    ck_assert_uint_eq(follower.event_count, 5000);
    ck_assert_uint_eq(follower.seq_gaps, 0);
    follower_close(&follower);
}
END_TEST

START_TEST(close_without_subscribers_is_quick_also_before_it_began)
{
    const struct mc_publisher_opts opts = rig_opts();
    struct publisher_rig rig;
    rig_stop_clock(); /* it will not begin */
    rig_open(&rig, &opts);
    (void)rig_put_many(&rig, 60000);
    double began = rig_seconds();
    rig_close(&rig);
    ck_assert_double_lt(rig_seconds() - began, PUBLISHER_RIG_CLOSE_S);
    rig_free_clock();
}
END_TEST

START_TEST(close_with_a_stalled_subscriber_ends_within_two_seconds)
{
    const struct mc_publisher_opts opts = rig_opts();
    struct publisher_rig rig;
    struct follower stalled;
    rig_open(&rig, &opts);
    struct mc_publisher_stats stats = rig_stats(&rig);
    follower_open_filtered(&stalled, stats.endpoint, "", 1);
    ck_assert(AWAIT(rig_stats(&rig).subscribers == 1));
    /* More than the kernel keeps for it, and a full log at the end. */
    for (int i = 0; i < 20; i++) {
        (void)rig_put_many(&rig, 20000);
        ck_assert(AWAIT(rig_stats(&rig).queue_depth == 0));
    }
    (void)rig_put_many(&rig, 60000);
    double began = rig_seconds();
    rig_close(&rig);
    ck_assert_double_lt(rig_seconds() - began, PUBLISHER_RIG_CLOSE_S);
    follower_close(&stalled);
}
END_TEST

START_TEST(opening_and_closing_leaks_nothing)
{
    const struct mc_publisher_opts opts = rig_opts();
    struct mci_alloc_stats before;
    struct mci_alloc_stats after;
    mci_alloc_stats(&before);
    for (int i = 0; i < 5; i++) {
        struct publisher_rig rig;
        rig_open(&rig, &opts);
        (void)rig_put_many(&rig, 100);
        rig_close(&rig);
    }
    mci_alloc_stats(&after);
    ck_assert_int_eq(after.blocks, before.blocks);
    ck_assert_int_eq(after.bytes, before.bytes);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("publisher_life");
    TCase *tc = tcase_create("the beginning");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, missing_or_bad_settings_are_refused_by_name);
    tcase_add_test(tc, queue_capacity_is_0_or_at_least_the_minimum);
    tcase_add_test(tc, longest_backend_id_is_taken);
    tcase_add_test(tc, publishing_is_wanted_only_with_an_endpoint);
    tcase_add_test(tc, taken_port_and_bad_endpoints_are_told_with_their_cause);
    tcase_add_test(tc, log_with_a_consumer_takes_no_publisher);
    tcase_add_loop_test(tc, free_port_is_told, 0, 2);
    tcase_add_test(tc, create_survives_each_allocation_failing);
    suite_add_tcase(suite, tc);

    tc = tcase_create("the end");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, close_sends_what_is_queued);
    tcase_add_test(tc, close_without_subscribers_is_quick_also_before_it_began);
    tcase_add_test(tc, close_with_a_stalled_subscriber_ends_within_two_seconds);
    tcase_add_test(tc, opening_and_closing_leaks_nothing);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
