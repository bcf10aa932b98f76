/* SPDX-License-Identifier: Apache-2.0 */
/* test_recovery_server.c - a publisher that can be asked again, over sockets. */
#include <stdlib.h>

#include "alloc_fail.h"
#include "asker_rig.h"
#include "publisher_rig.h"
#include "recovery_map.h"
#include "suite.h"

/* ---- a store of three keys ---------------------------------------------------- */

static enum mc_err store_begin(void *ctx, struct mc_view tenant,
                               uint64_t *first_id_out)
{
    const struct publisher_rig *rig = ctx;
    (void)tenant;
    *first_id_out = mci_event_log_last_id(rig->log);
    return MC_OK;
}

static enum mc_err store_next(void *ctx, struct mc_view tenant,
                              struct mci_snapshot_cursor *cursor,
                              struct mci_snapshot_rows *rows_out)
{
    static struct mc_event_record row;
    static const char *const keys[] = {"a", "b", "c"};
    (void)ctx;
    (void)tenant;
    row = (struct mc_event_record){.type = MC_EVENT_STORED,
                                   .event_id = cursor->place + 1,
                                   .tenant_id = mc_view_str("default"),
                                   .medium = mc_view_str("cpu"),
                                   .object_key =
                                       mc_view_str(keys[cursor->place])};
    cursor->place++;
    cursor->at_end = cursor->place == 3;
    *rows_out = (struct mci_snapshot_rows){&row, 1};
    return MC_OK;
}

static uint64_t store_last_id(void *ctx)
{
    return mci_event_log_last_id(((const struct publisher_rig *)ctx)->log);
}

static uint64_t store_keys(void *ctx)
{
    (void)ctx;
    return 3;
}

static const struct mci_snapshot_source source = {store_begin, store_next,
                                                  store_last_id, store_keys};

static struct mc_publisher_opts asked_opts(void)
{
    struct mc_publisher_opts opts = rig_opts();
    opts.replay_endpoint = "tcp://127.0.0.1:*";
    opts.topic = "t@m";
    opts.heartbeat_ms = UINT64_MAX; /* no number but those of the test */
    return opts;
}

/* Events that fill every queue on the way; what is slow under a sanitizer must not
 * take as long as a reader may take nothing. */
#define PLENTY (SANITIZED ? 15000 : 60000)

static void open_asked(struct publisher_rig *rig,
                       const struct mc_publisher_opts *opts)
{
    rig_open(rig, opts);
    ck_assert_int_eq(mci_publisher_serve(rig->publisher, &source, rig), MC_OK);
}

/* As many messages as puts: each goes before the next one comes. */
static void publish_singly(struct publisher_rig *rig, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        uint64_t id = rig_put(rig, mc_view_str("a-key-of-some-length"));
        ck_assert(AWAIT(rig_stats(rig).published_events >= id));
    }
}

/* ---- what is answered --------------------------------------------------------- */

START_TEST(replay_is_to_the_byte_what_was_live)
{
    const struct mc_publisher_opts opts = asked_opts();
    struct publisher_rig rig;
    struct follower follower;
    struct asker asker;
    static uint8_t live[64][65536];
    size_t live_len[64];
    open_asked(&rig, &opts);
    rig_follow(&rig, &follower);
    for (size_t i = 0; i < 64; i++) {
        (void)rig_put_many(&rig, 1 + (uint32_t)i % 3);
        ck_assert(follower_next(&follower, FOLLOWER_WAIT_MS));
        ck_assert_uint_eq(follower.batch.seq, i + 1);
        live_len[i] = follower.views[2].len;
        ck_assert_uint_le(live_len[i], sizeof live[i]);
        memcpy(live[i], follower.views[2].data, live_len[i]);
        ck_assert(AWAIT(rig_stats(&rig).queue_depth == 0));
    }
    uint64_t tail = rig_stats(&rig).last_seq;
    asker_open(&asker, rig_stats(&rig).replay_endpoint, 0);
    asker_ask_replay(&asker, 1);
    for (size_t i = 0; i < 64; i++) {
        asker_must_next(&asker);
        ck_assert_uint_eq(asker_seq(&asker), i + 1);
        ck_assert(mc_view_equal(asker.frames[1], mc_view_str("t@m")));
        ck_assert(
            mc_view_equal(asker.frames[3], mc_view_make(live[i], live_len[i])));
    }
    for (uint64_t seq = 65; seq <= tail; seq++) {
        asker_must_next(&asker);
        ck_assert_uint_eq(asker_seq(&asker), seq);
    }
    asker_must_next(&asker);
    ck_assert(asker_has_end(&asker));
    asker_close(&asker);
    follower_close(&follower);
    rig_close(&rig);
}
END_TEST

START_TEST(what_was_seen_can_be_asked_for)
{
    const struct mc_publisher_opts opts = asked_opts();
    struct publisher_rig rig;
    struct follower follower;
    struct asker asker;
    open_asked(&rig, &opts);
    rig_follow(&rig, &follower);
    asker_open(&asker, rig_stats(&rig).replay_endpoint, 0);
    for (int i = 0; i < 200; i++) {
        (void)rig_put_many(&rig, 1);
        ck_assert(follower_next(&follower, FOLLOWER_WAIT_MS));
        asker_ask_word(&asker, "status");
        asker_must_next(&asker);
        ck_assert_uint_eq(asker.count, 3);
        ck_assert(mc_view_equal(asker.frames[1], mc_view_str("status")));
        struct mc_view map = asker.frames[2];
        ck_assert_uint_ge(map_number(map, "tail_seq"), follower.batch.seq);
        ck_assert_uint_eq(map_number(map, "oldest_seq"), 1);
        ck_assert_uint_eq(map_number(map, "epoch"), PUBLISHER_RIG_EPOCH);
        ck_assert_uint_eq(map_number(map, "last_id"), (uint64_t)i + 1);
        ck_assert_uint_eq(map_number(map, "keys"), 3);
    }
    ck_assert(AWAIT(rig_stats(&rig).status_requests == 200));
    asker_close(&asker);
    follower_close(&follower);
    rig_close(&rig);
}
END_TEST

START_TEST(snapshot_comes_in_order)
{
    const struct mc_publisher_opts opts = asked_opts();
    struct publisher_rig rig;
    struct asker asker;
    open_asked(&rig, &opts);
    uint64_t id = rig_put_many(&rig, 5);
    asker_open(&asker, rig_stats(&rig).replay_endpoint, 0);
    asker_ask_word(&asker, "snapshot");
    for (uint64_t i = 0; i < 5; i++) {
        asker_must_next(&asker);
        ck_assert_uint_eq(asker.count, i < 4 ? 4 : 5);
        ck_assert(mc_view_equal(asker.frames[1], mc_view_str("snapshot")));
        ck_assert_uint_eq(mci_get_be64(asker.frames[2].data), i);
        if (i == 0) {
            ck_assert_uint_eq(map_number(asker.frames[3], "first_id"), id);
        }
    }
    ck_assert_uint_eq(asker.frames[4].len, 0);
    ck_assert_uint_eq(map_number(asker.frames[3], "last_id"), id);
    ck_assert(AWAIT(rig_stats(&rig).snapshot_requests == 1));
    ck_assert_uint_eq(rig_stats(&rig).snapshot_walks, 1);
    asker_close(&asker);
    rig_close(&rig);
}
END_TEST

START_TEST(what_is_no_request_is_answered_with_end_and_forgotten)
{
    static uint8_t large[4000];
    const struct mc_view requests[][4] = {
        {{"12345678", 8}},
        {{"", 0}},
        {{"", 0}, {"1234567", 7}},
        {{"", 0}, {"", 0}},
        {{"", 0}, {large, sizeof large}},
        {{"", 0}, {"12345678", 8}, {"1234", 4}, {"", 0}},
        {{"x", 1}, {"12345678", 8}},
        {{"", 0}, {"snapshot", 8}, {large, sizeof large}},
    };
    const size_t counts[] = {1, 1, 2, 2, 2, 4, 2, 3};
    const size_t rows = sizeof counts / sizeof counts[0];
    const struct mc_publisher_opts opts = asked_opts();
    struct publisher_rig rig;
    struct asker asker;
    open_asked(&rig, &opts);
    publish_singly(&rig, 1);
    asker_open(&asker, rig_stats(&rig).replay_endpoint, 0);
    for (size_t i = 0; i < rows; i++) {
        asker_ask(&asker, requests[i], counts[i]);
        asker_must_next(&asker);
        ck_assert(asker_has_end(&asker));
    }
    asker_ask_replay(&asker, 1);
    asker_must_next(&asker);
    ck_assert_uint_eq(asker_seq(&asker), 1);
    asker_must_next(&asker);
    ck_assert(asker_has_end(&asker));
    ck_assert(AWAIT(rig_stats(&rig).malformed_requests == rows &&
                    rig_stats(&rig).replay_requests == 1));
    asker_close(&asker);
    rig_close(&rig);
}
END_TEST

START_TEST(layout_of_three_leaves_the_topic_out)
{
    struct mc_publisher_opts opts = asked_opts();
    struct publisher_rig rig;
    struct asker asker;
    opts.replay_layout = 3;
    open_asked(&rig, &opts);
    publish_singly(&rig, 1);
    asker_open(&asker, rig_stats(&rig).replay_endpoint, 0);
    asker_ask_replay(&asker, 0);
    asker_must_next(&asker);
    ck_assert_uint_eq(asker.count, 3);
    ck_assert_uint_eq(mci_get_be64(asker.frames[1].data), 1);
    asker_must_next(&asker);
    ck_assert_uint_eq(asker.count, 3);
    ck_assert_uint_eq(mci_get_be64(asker.frames[1].data), UINT64_MAX);
    ck_assert_uint_eq(asker.frames[2].len, 0);
    asker_close(&asker);
    rig_close(&rig);
}
END_TEST

START_TEST(heartbeats_stand_in_the_history)
{
    const uint64_t settings[] = {0, 250, UINT64_MAX};
    struct mc_publisher_opts opts = asked_opts();
    struct publisher_rig rig;
    struct asker asker;
    opts.heartbeat_ms = settings[_i];
    open_asked(&rig, &opts);
    publish_singly(&rig, 1);
    if (_i == 2) { /* off, so the clock may run */
        rig_stop_clock();
        rig_now_ns += 3600 * MCI_NS_PER_S;
        publish_singly(&rig, 1);
        ck_assert_uint_eq(rig_stats(&rig).heartbeats, 0);
        rig_free_clock();
    } else {
        ck_assert(AWAIT(rig_stats(&rig).heartbeats >= 1));
        asker_open(&asker, rig_stats(&rig).replay_endpoint, 0);
        asker_ask_replay(&asker, 2);
        asker_must_next(&asker);
        ck_assert_uint_eq(asker_seq(&asker), 2);
        const uint8_t *payload = asker.frames[3].data;
        ck_assert_uint_eq(asker.frames[3].len, 12); /* [u64, [], 0] */
        ck_assert_uint_eq(payload[10], 0x90);
        asker_close(&asker);
    }
    rig_close(&rig);
}
END_TEST

/* ---- many, slow and gone ------------------------------------------------------- */

#define READERS 64

START_TEST(sixty_four_readers_at_once_all_get_served)
{
    const struct mc_publisher_opts opts = asked_opts();
    static struct asker askers[READERS];
    struct publisher_rig rig;
    open_asked(&rig, &opts);
    (void)rig_put_many(&rig, 20000);
    ck_assert(AWAIT(rig_stats(&rig).published_events == 20000));
    uint64_t tail = rig_stats(&rig).last_seq;
    struct mc_publisher_stats stats = rig_stats(&rig);
    for (int i = 0; i < READERS; i++) {
        asker_open(&askers[i], stats.replay_endpoint, 4);
        asker_ask_replay(&askers[i], 1);
    }
    ck_assert(AWAIT(rig_stats(&rig).replay_requests == READERS));
    uint64_t got[READERS] = {0};
    for (int ended = 0; ended < READERS;) {
        ended = 0;
        for (int i = 0; i < READERS; i++) {
            while (got[i] <= tail && asker_next(&askers[i], 0)) {
                uint64_t seq = asker_has_end(&askers[i])
                                   ? tail + 1
                                   : asker_seq(&askers[i]);
                ck_assert_uint_eq(seq, ++got[i]);
            }
            ended += got[i] > tail;
        }
        await_turn();
    }
    for (int i = 0; i < READERS; i++) {
        asker_close(&askers[i]);
    }
    ck_assert_uint_eq(rig_stats(&rig).refused_requests, 0);
    rig_close(&rig);
}
END_TEST

START_TEST(reader_that_takes_nothing_delays_nobody)
{
    const struct mc_publisher_opts opts = asked_opts();
    struct publisher_rig rig;
    struct follower follower;
    struct asker stuck;
    struct asker asker;
    open_asked(&rig, &opts);
    rig_follow(&rig, &follower);
    uint64_t id = rig_put_many(&rig, PLENTY);
    follower_reach(&follower, id);
    struct mc_publisher_stats stats = rig_stats(&rig);
    asker_open(&stuck, stats.replay_endpoint, 1);
    asker_ask_replay(&stuck, 1);
    asker_must_next(&stuck);
    id = rig_put_many(&rig, PLENTY);
    follower_reach(&follower, id); /* live events do not feel it */
    ck_assert_uint_eq(follower.seq_gaps, 0);
    asker_open(&asker, stats.replay_endpoint, 0);
    asker_ask_replay(&asker, 1);
    uint64_t seq = 0;
    asker_must_next(&asker);
    while (!asker_has_end(&asker)) {
        ck_assert_uint_eq(asker_seq(&asker), ++seq);
        asker_must_next(&asker);
    }
    ck_assert_uint_ge(seq, stats.last_seq);
    /* And its answers are not lost. */
    seq = 1;
    asker_must_next(&stuck);
    while (!asker_has_end(&stuck)) {
        ck_assert_uint_eq(asker_seq(&stuck), ++seq);
        asker_must_next(&stuck);
    }
    ck_assert_uint_ge(seq, stats.last_seq);
    asker_close(&asker);
    asker_close(&stuck);
    follower_close(&follower);
    rig_close(&rig);
}
END_TEST

START_TEST(reader_that_vanishes_is_forgotten)
{
    const struct mc_publisher_opts opts = asked_opts();
    struct publisher_rig rig;
    struct asker asker;
    open_asked(&rig, &opts);
    (void)rig_put_many(&rig, PLENTY);
    ck_assert(AWAIT(rig_stats(&rig).published_events == PLENTY));
    asker_open(&asker, rig_stats(&rig).replay_endpoint, 1);
    asker_ask_replay(&asker, 1);
    asker_must_next(&asker);
    asker_close(&asker);
    ck_assert(AWAIT(rig_stats(&rig).given_up_requests == 1));
    rig_close(&rig);
}
END_TEST

/* ---- beginning and end --------------------------------------------------------- */

START_TEST(taken_port_is_told_with_its_cause)
{
    struct mc_publisher_opts opts = asked_opts();
    struct publisher_rig first;
    struct publisher_rig second;
    struct rig_lines lines;
    open_asked(&first, &opts);
    struct mc_publisher_stats stats = rig_stats(&first);
    ck_assert_int_eq(strncmp(stats.replay_endpoint, "tcp://127.0.0.1:", 16), 0);
    opts.replay_endpoint = stats.replay_endpoint;
    rig_open(&second, &opts);
    rig_lines_begin(&lines);
    ck_assert_int_eq(mci_publisher_serve(second.publisher, &source, &second),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_ptr_nonnull(strstr(lines.text, stats.replay_endpoint));
    rig_lines_expect(&lines, "Address already in use");
    rig_lines_end();
    ck_assert_str_eq(rig_stats(&second).replay_endpoint, "");
    rig_close(&second);
    rig_close(&first);
}
END_TEST

START_TEST(without_an_endpoint_nothing_is_kept)
{
    const struct mc_publisher_opts opts = rig_opts();
    struct publisher_rig rig;
    open_asked(&rig, &opts);
    publish_singly(&rig, 3);
    ck_assert_str_eq(rig_stats(&rig).replay_endpoint, "");
    ck_assert_uint_eq(rig_stats(&rig).history_batches, 0);
    rig_close(&rig);
}
END_TEST

START_TEST(serve_survives_each_allocation_failing)
{
    const struct mc_publisher_opts opts = asked_opts();
    struct publisher_rig rig;
    struct alloc_fail fail;
    rig_open_log(&rig, &opts);
    ALLOC_FAIL_EACH(fail)
    {
        alloc_fail_arm(&fail);
        enum mc_err err = mci_publisher_create(&opts, rig.log, &rig.publisher);
        if (!err) {
            err = mci_publisher_serve(rig.publisher, &source, &rig);
        }
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        mci_publisher_destroy(rig.publisher);
        rig.publisher = NULL;
    }
    ck_assert_uint_gt(fail.k, 10);
    rig_close(&rig);
}
END_TEST

START_TEST(close_with_stuck_readers_ends_within_two_seconds)
{
    const struct mc_publisher_opts opts = asked_opts();
    static struct asker askers[6];
    struct publisher_rig rig;
    open_asked(&rig, &opts);
    (void)rig_put_many(&rig, PLENTY);
    ck_assert(AWAIT(rig_stats(&rig).published_events == PLENTY));
    struct mc_publisher_stats stats = rig_stats(&rig);
    for (int i = 0; i < 6; i++) {
        asker_open(&askers[i], stats.replay_endpoint, 1);
        asker_ask_replay(&askers[i], 1);
    }
    ck_assert(AWAIT(rig_stats(&rig).replay_requests == 6));
    double began = rig_seconds();
    rig_close(&rig);
    ck_assert_double_lt(rig_seconds() - began, 2.0);
    for (int i = 0; i < 6; i++) {
        asker_close(&askers[i]);
    }
}
END_TEST

static void add_crowd(Suite *suite)
{
    TCase *tc = tcase_create("many, slow and gone");
    tcase_set_timeout(tc, 100);
    tcase_add_test(tc, sixty_four_readers_at_once_all_get_served);
    tcase_add_test(tc, reader_that_takes_nothing_delays_nobody);
    tcase_add_test(tc, reader_that_vanishes_is_forgotten);
    suite_add_tcase(suite, tc);
}

int main(void)
{
    Suite *suite = suite_create("recovery_server");
    TCase *tc = tcase_create("what is answered");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, replay_is_to_the_byte_what_was_live);
    tcase_add_test(tc, what_was_seen_can_be_asked_for);
    tcase_add_test(tc, snapshot_comes_in_order);
    tcase_add_test(tc, what_is_no_request_is_answered_with_end_and_forgotten);
    tcase_add_test(tc, layout_of_three_leaves_the_topic_out);
    tcase_add_loop_test(tc, heartbeats_stand_in_the_history, 0, 3);
    suite_add_tcase(suite, tc);
    add_crowd(suite);

    tc = tcase_create("beginning and end");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, taken_port_is_told_with_its_cause);
    tcase_add_test(tc, without_an_endpoint_nothing_is_kept);
    tcase_add_test(tc, serve_survives_each_allocation_failing);
    tcase_add_test(tc, close_with_stuck_readers_ends_within_two_seconds);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
