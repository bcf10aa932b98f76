/* SPDX-License-Identifier: Apache-2.0 */
/* test_publisher_life.c - a publisher's beginning, its end, and subscribers that
 * do not read. */
#include <stdlib.h>
#include <unistd.h>

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
    opts.replay_endpoint = "tcp://127.0.0.1:*";
    expect_refused(&opts, MC_ERR_NOT_SUPPORTED, "replay endpoint");
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
    ck_assert_double_lt(rig_seconds() - began, 2.0);
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
    ck_assert_double_lt(rig_seconds() - began, 2.0);
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

/* --- subscribers that do not read ---------------------------------------- */

static uint64_t resident_bytes(void)
{
    unsigned long long total = 0;
    unsigned long long resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%llu %llu", &total, &resident), 2);
    (void)fclose(file);
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void expect_resident_below(uint64_t limit)
{
    /* The sanitizers keep what was freed. */
    if (!PUBLISHER_RIG_SANITIZED) {
        ck_assert_uint_lt(resident_bytes(), limit);
    }
}

START_TEST(stopped_subscriber_costs_the_mark_and_nobody_waits_for_it)
{
    const uint64_t mark_bytes = 32 << 20;
    struct mc_publisher_opts opts = rig_opts();
    struct publisher_rig rig;
    struct follower stopped;
    struct follower running;
    opts.hwm_bytes = mark_bytes;
    opts.overflow = MC_PUBLISHER_BLOCK; /* a writer would hang if the socket
                                           could hold the log up */
    rig_open(&rig, &opts);
    rig_follow(&rig, &running);
    follower_open_filtered(&stopped, rig_stats(&rig).endpoint, "", 1);
    ck_assert(AWAIT(rig_stats(&rig).subscribers == 2));
    uint64_t before = resident_bytes();
    uint64_t id = 0;
    for (int i = 0; i < 800; i++) { /* 230 MB */
        id = rig_put_many(&rig, 640);
        while (running.last_id + 2000 < id) {
            ck_assert(follower_next(&running, FOLLOWER_WAIT_MS));
        }
    }
    follower_reach(&running, id);
    ck_assert_uint_eq(running.seq_gaps, 0);
    ck_assert_uint_ge(rig_stats(&rig).published_bytes, 4 * mark_bytes);
    expect_resident_below(before + 2 * mark_bytes);
    /* What it does get is no more than the mark, what the kernel keeps for two
     * sockets, and a little; and it ends before the end. */
    uint64_t got = 0;
    while (follower_next(&stopped, 500)) {
        got += stopped.views[2].len;
    }
    ck_assert_uint_lt(stopped.last_id, id);
    ck_assert_uint_gt(got, 0);
    ck_assert_uint_lt(got, mark_bytes + mark_bytes / 2 + (16 << 20));
    (void)rig_put_many(&rig, 1);
    ck_assert(follower_next(&stopped, FOLLOWER_WAIT_MS));
    ck_assert_uint_gt(stopped.seq_gaps, 0); /* and it sees the gap */
    ck_assert_uint_eq(stopped.faults, 0);
    follower_close(&stopped);
    follower_close(&running);
    rig_close(&rig);
}
END_TEST

START_TEST(without_subscribers_nothing_piles_up)
{
    const struct mc_publisher_opts opts = rig_opts();
    struct publisher_rig rig;
    uint64_t before = resident_bytes();
    rig_open(&rig, &opts);
    uint64_t id = rig_put_many(&rig, 1000000);
    expect_resident_below(before + (64 << 20));
    ck_assert(AWAIT(rig_stats(&rig).queue_depth == 0));
    expect_resident_below(before + (64 << 20));
    struct mc_publisher_stats stats = rig_stats(&rig);
    ck_assert_uint_eq(stats.last_event_id, id);
    rig_close(&rig);
}
END_TEST

struct blocked_writer {
    struct publisher_rig *rig;
    uint32_t count;
    pthread_t thread;
};

static void *blocked_writer_run(void *arg)
{
    struct blocked_writer *writer = arg;
    (void)rig_put_many(writer->rig, writer->count);
    return NULL;
}

START_TEST(blocked_writers_go_on_with_the_publisher_and_lose_nothing)
{
    struct mc_publisher_opts opts = rig_opts();
    struct publisher_rig rig;
    struct follower follower;
    struct blocked_writer writers[4];
    opts.overflow = MC_PUBLISHER_BLOCK;
    opts.queue_capacity = MCI_EVENT_LOG_CAPACITY_MIN;
    rig_stop_clock();
    rig_open(&rig, &opts);
    for (int i = 0; i < 4; i++) {
        writers[i] = (struct blocked_writer){.rig = &rig, .count = 5000};
        ck_assert_int_eq(pthread_create(&writers[i].thread, NULL,
                                        blocked_writer_run, &writers[i]),
                         0);
    }
    ck_assert(AWAIT(rig_stats(&rig).blocked_writers >= 4));
    ck_assert_uint_eq(rig_stats(&rig).queue_depth, MCI_EVENT_LOG_CAPACITY_MIN);
    rig_follow(&rig, &follower);
    follower_reach(&follower, 20000);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_join(writers[i].thread, NULL), 0);
    }
    ck_assert_uint_eq(follower.event_count, 20000);
    ck_assert_uint_eq(follower.seq_gaps, 0);
    ck_assert_uint_eq(rig_stats(&rig).dropped_events, 0);
    follower_close(&follower);
    rig_close(&rig);
    rig_free_clock();
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

    tc = tcase_create("subscribers that do not read");
    tcase_set_timeout(tc, 100);
    tcase_add_test(tc,
                   stopped_subscriber_costs_the_mark_and_nobody_waits_for_it);
    tcase_add_test(tc, without_subscribers_nothing_piles_up);
    tcase_add_test(tc,
                   blocked_writers_go_on_with_the_publisher_and_lose_nothing);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
