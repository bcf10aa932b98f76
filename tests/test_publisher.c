/* SPDX-License-Identifier: Apache-2.0 */
/* test_publisher.c - what subscribers get, over real sockets. */
#include "mc_event_writer.h"
#include "publisher_rig.h"
#include "suite.h"

/* --- content ------------------------------------------------------------- */

START_TEST(events_arrive_as_they_were_appended)
{
    struct mc_publisher_opts opts = rig_opts();
    struct publisher_rig rig;
    struct follower follower;
    const struct mci_log_event events[2] = {{.type = MC_EVENT_REMOVED,
                                             .medium = MC_MEDIUM_CPU,
                                             .group_id = mc_view_str("g"),
                                             .session_id = mc_view_str("old")},
                                            {.type = MC_EVENT_STORED,
                                             .medium = MC_MEDIUM_DISK,
                                             .group_id = mc_view_str("g"),
                                             .session_id = mc_view_str("new")}};
    opts.dp_rank = 3;
    rig_stop_clock();
    rig_open(&rig, &opts);
    (void)rig_clear(&rig);
    (void)rig_put(&rig, mc_view_str("k1"));
    (void)mci_event_log_append(rig.log, &rig.tenant, mc_view_str("k1"), events,
                               2, NULL);
    rig_follow(&rig, &follower);
    ck_assert(follower_next(&follower, FOLLOWER_WAIT_MS));
    const struct mc_event *event = follower.events;
    ck_assert_uint_eq(follower.views[0].len, 0);
    ck_assert_uint_eq(follower.batch.seq, 1);
    ck_assert_uint_eq(follower.batch.count, 4);
    ck_assert_uint_eq(follower.batch.dp_rank, 3);
    ck_assert_uint_ge(follower.batch.timestamp_ms, UINT64_C(1700000000000));
    ck_assert_int_eq(event[0].type, MC_EVENT_CLEARED);
    ck_assert_int_eq(event[1].type, MC_EVENT_STORED);
    ck_assert_int_eq(event[2].type, MC_EVENT_REMOVED);
    ck_assert_int_eq(event[3].type, MC_EVENT_STORED);
    for (uint32_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(event[i].event_id, i + 1);
        ck_assert_uint_eq(event[i].epoch, PUBLISHER_RIG_EPOCH);
        ck_assert(mc_view_equal(event[i].backend_id, mc_view_str("n1")));
        ck_assert(mc_view_equal(event[i].tenant_id, mc_view_str("default")));
    }
    ck_assert(mc_view_equal(event[1].session_id, mc_view_str("session-1")));
    ck_assert(mc_view_equal(event[2].session_id, mc_view_str("old")));
    ck_assert(mc_view_equal(event[2].medium, mc_view_str("cpu")));
    ck_assert(mc_view_equal(event[3].session_id, mc_view_str("new")));
    ck_assert(mc_view_equal(event[3].medium, mc_view_str("disk")));
    ck_assert(mc_view_equal(event[3].object_key, mc_view_str("k1")));
    ck_assert(mc_view_equal(event[3].group_id, mc_view_str("g")));
    follower_close(&follower);
    rig_close(&rig);
    rig_free_clock();
}
END_TEST

START_TEST(payload_is_to_the_byte_what_the_writer_writes)
{
    struct mc_publisher_opts opts = rig_opts();
    const struct mc_event_writer_opts writer_opts = {
        .plain = _i == 1,
        .epoch = PUBLISHER_RIG_EPOCH,
        .block_size = 16,
        .empty_token_ids = true,
        .model_name = mc_view_str("m"),
        .lora_name = mc_view_str("l"),
        .additional_salt = mc_view_str("s")};
    struct mc_event_writer *writer = NULL;
    struct publisher_rig rig;
    struct follower follower;
    uint8_t want[4096];
    size_t want_len = 0;
    opts.no_extra_fields = _i == 1;
    opts.block_size = 16;
    opts.empty_token_ids = true;
    opts.model_name = "m";
    opts.lora_name = "l";
    opts.additional_salt = "s";
    rig_open(&rig, &opts);
    rig_follow(&rig, &follower);
    (void)rig_put(&rig, mc_view_str("k1"));
    ck_assert(follower_next(&follower, FOLLOWER_WAIT_MS));
    const struct mc_event_record record = {
        .type = MC_EVENT_STORED,
        .event_id = 1,
        .timestamp_ms = follower.batch.timestamp_ms,
        .tenant_id = mc_view_str("default"),
        .backend_id = mc_view_str("n1"),
        .medium = mc_view_str("cpu"),
        .group_id = mc_view_str("sglang-hicache:0123456789abcdef"),
        .session_id = mc_view_str("session-1"),
        .object_key = mc_view_str("k1")};
    ck_assert_int_eq(mc_event_writer_create(&writer_opts, &writer), MC_OK);
    ck_assert_int_eq(mc_event_writer_batch(writer, record.timestamp_ms, &record,
                                           1, want, sizeof want, &want_len),
                     MC_OK);
    ck_assert(mc_view_equal(follower.views[2], mc_view_make(want, want_len)));
    ck_assert_uint_eq(follower.events[0].epoch,
                      _i == 1 ? 0 : PUBLISHER_RIG_EPOCH);
    ck_assert(AWAIT(rig_stats(&rig).published_bytes == want_len));
    mc_event_writer_destroy(writer);
    follower_close(&follower);
    rig_close(&rig);
}
END_TEST

START_TEST(a_fast_subscriber_misses_nothing_at_full_speed)
{
    const uint32_t count = SANITIZED ? 100000 : 1000000;
    struct mc_publisher_opts opts = rig_opts();
    struct publisher_rig rig;
    struct follower follower;
    opts.overflow = MC_PUBLISHER_BLOCK; /* the log loses nothing; does the
                                           socket? */
    opts.hwm_bytes = UINT64_C(4) << 30; /* above the burst */
    rig_open(&rig, &opts);
    rig_follow(&rig, &follower);
    uint64_t id = 0;
    for (uint32_t sent = 0; sent < count;) {
        id = rig_put_many(&rig, 500);
        sent += 500;
        while (follower_next(&follower, 0)) {
        }
    }
    follower_reach(&follower, id);
    ck_assert_uint_eq(follower.event_count, count);
    ck_assert_uint_eq(follower.seq_gaps, 0);
    ck_assert_uint_eq(follower.id_gaps, 0);
    ck_assert(AWAIT(rig_stats(&rig).published_events == count));
    ck_assert_uint_eq(rig_stats(&rig).published_batches, follower.messages);
    ck_assert_uint_eq(rig_stats(&rig).last_seq, follower.last_seq);
    ck_assert_uint_eq(rig_stats(&rig).last_event_id, count);
    ck_assert_uint_eq(rig_stats(&rig).dropped_events, 0);
    follower_close(&follower);
    rig_close(&rig);
}
END_TEST

START_TEST(topic_is_the_first_frame_and_filters)
{
    struct mc_publisher_opts opts = rig_opts();
    struct publisher_rig rig;
    struct follower wanted;
    struct follower other;
    opts.topic = "kv@n1";
    rig_open(&rig, &opts);
    follower_open_filtered(&other, rig_stats(&rig).endpoint, "kx", 0);
    follower_open_filtered(&wanted, rig_stats(&rig).endpoint, "kv@", 0);
    ck_assert(AWAIT(rig_stats(&rig).subscribers == 2));
    (void)rig_put_many(&rig, 1);
    ck_assert(follower_next(&wanted, FOLLOWER_WAIT_MS));
    ck_assert(mc_view_equal(wanted.views[0], mc_view_str("kv@n1")));
    ck_assert(!follower_next(&other, 0));
    follower_close(&other);
    follower_close(&wanted);
    rig_close(&rig);
}
END_TEST

/* --- who is there when --------------------------------------------------- */

START_TEST(first_subscriber_gets_the_epoch_from_its_first_event)
{
    const struct mc_publisher_opts opts = rig_opts();
    struct publisher_rig rig;
    struct follower follower;
    rig_stop_clock(); /* the second never passes */
    rig_open(&rig, &opts);
    (void)rig_clear(&rig);
    (void)rig_put_many(&rig, 500);
    ck_assert_uint_eq(rig_stats(&rig).published_batches, 0);
    rig_follow(&rig, &follower);
    follower_reach(&follower, 501);
    ck_assert_uint_eq(follower.event_count, 501);
    ck_assert_uint_eq(follower.last_seq, follower.messages);
    follower_close(&follower);
    rig_close(&rig);
    rig_free_clock();
}
END_TEST

START_TEST(without_a_subscriber_it_begins_after_a_second)
{
    const struct mc_publisher_opts opts = rig_opts();
    struct publisher_rig rig;
    rig_stop_clock();
    rig_open(&rig, &opts);
    (void)rig_put_many(&rig, 10);
    rig_now_ns += MCI_NS_PER_S - 1;
    ck_assert_uint_eq(rig_stats(&rig).published_events, 0);
    rig_now_ns += 1;
    ck_assert(AWAIT(rig_stats(&rig).published_events == 10));
    ck_assert_uint_eq(rig_stats(&rig).queue_depth, 0);
    rig_close(&rig);
    rig_free_clock();
}
END_TEST

START_TEST(late_joiner_gets_what_comes_after_it_joined)
{
    const struct mc_publisher_opts opts = rig_opts();
    struct publisher_rig rig;
    struct follower early;
    struct follower late;
    rig_open(&rig, &opts);
    rig_follow(&rig, &early);
    (void)rig_put_many(&rig, 300);
    follower_reach(&early, 300);
    rig_follow(&rig, &late);
    (void)rig_put_many(&rig, 300);
    follower_reach(&late, 600);
    follower_reach(&early, 600);
    ck_assert_uint_eq(late.event_count, 300);
    ck_assert_uint_eq(late.seq_gaps, 0);
    ck_assert_uint_eq(late.last_seq, early.last_seq);
    ck_assert_uint_eq(early.event_count, 600);
    follower_close(&late);
    follower_close(&early);
    rig_close(&rig);
}
END_TEST

START_TEST(subscribers_are_counted_as_they_come_and_go)
{
    const struct mc_publisher_opts opts = rig_opts();
    struct publisher_rig rig;
    struct follower a;
    struct follower b;
    rig_open(&rig, &opts);
    ck_assert_uint_eq(rig_stats(&rig).subscribers, 0);
    rig_follow(&rig, &a);
    rig_follow(&rig, &b);
    ck_assert_uint_eq(rig_stats(&rig).subscribers, 2);
    follower_close(&a);
    ck_assert(AWAIT(rig_stats(&rig).subscribers == 1));
    follower_close(&b);
    ck_assert(AWAIT(rig_stats(&rig).subscribers == 0));
    rig_close(&rig);
}
END_TEST

/* --- numbers ------------------------------------------------------------- */

START_TEST(lost_events_burn_numbers_on_the_wire)
{
    struct mc_publisher_opts opts = rig_opts();
    struct publisher_rig rig;
    struct follower follower;
    opts.queue_capacity = MCI_EVENT_LOG_CAPACITY_MIN;
    rig_stop_clock();
    rig_open(&rig, &opts); /* holds still: nobody subscribes yet */
    (void)rig_put_many(&rig, MCI_EVENT_LOG_CAPACITY_MIN + 92);
    ck_assert_uint_eq(rig_stats(&rig).dropped_events, 92);
    ck_assert_uint_eq(rig_stats(&rig).queue_depth, MCI_EVENT_LOG_CAPACITY_MIN);
    rig_follow(&rig, &follower);
    ck_assert(follower_next(&follower, FOLLOWER_WAIT_MS));
    ck_assert_uint_eq(follower.batch.seq, 93);
    ck_assert_uint_eq(follower.events[0].event_id, 93);
    follower_reach(&follower, MCI_EVENT_LOG_CAPACITY_MIN + 92);
    ck_assert_uint_eq(follower.seq_gaps, 0);
    ck_assert_uint_eq(follower.event_count, MCI_EVENT_LOG_CAPACITY_MIN);
    follower_close(&follower);
    rig_close(&rig);
    rig_free_clock();
}
END_TEST

START_TEST(suppressed_events_are_counted_and_burn_numbers)
{
    struct mc_publisher_opts opts = rig_opts();
    struct publisher_rig rig;
    struct follower follower;
    opts.no_object_key = true;
    rig_stop_clock();
    rig_open(&rig, &opts);
    (void)rig_clear(&rig);
    (void)rig_put_many(&rig, 100);
    (void)rig_clear(&rig);
    rig_follow(&rig, &follower);
    follower_reach(&follower, 102);
    ck_assert_uint_eq(follower.event_count, 2);
    ck_assert_uint_eq(follower.id_gaps, 100);
    ck_assert_uint_eq(follower.seq_gaps, 100);
    ck_assert(AWAIT(rig_stats(&rig).skipped_events == 100));
    ck_assert(AWAIT(rig_stats(&rig).published_events == 2));
    ck_assert_uint_eq(rig_stats(&rig).dropped_events, 0);
    follower_close(&follower);
    rig_close(&rig);
    rig_free_clock();
}
END_TEST

START_TEST(sequence_epoch_begins_high)
{
    struct mc_publisher_opts opts = rig_opts();
    struct publisher_rig rig;
    struct follower follower;
    opts.sequence_epoch = true;
    uint64_t seconds = mci_clock_wall_ms() / 1000 - UINT64_C(1735689600);
    rig_open(&rig, &opts);
    rig_follow(&rig, &follower);
    (void)rig_put_many(&rig, 1);
    ck_assert(follower_next(&follower, FOLLOWER_WAIT_MS));
    ck_assert_uint_eq(follower.batch.seq & 0xffffffff, 1);
    ck_assert_uint_ge(follower.batch.seq >> 32, seconds);
    ck_assert_uint_le(follower.batch.seq >> 32, seconds + 60);
    follower_close(&follower);
    rig_close(&rig);
}
END_TEST

START_TEST(heartbeats_come_in_silence_with_numbers_of_their_own)
{
    struct mc_publisher_opts opts = rig_opts();
    struct publisher_rig rig;
    struct follower follower;
    opts.heartbeat_ms = 60000;
    rig_stop_clock();
    rig_open(&rig, &opts);
    rig_follow(&rig, &follower);
    (void)rig_put_many(&rig, 1);
    ck_assert(follower_next(&follower, FOLLOWER_WAIT_MS));
    for (uint64_t beat = 1; beat <= 3; beat++) {
        ck_assert(AWAIT(rig_stats(&rig).heartbeats == beat - 1));
        rig_now_ns += 60 * MCI_NS_PER_S;
        ck_assert(follower_next(&follower, FOLLOWER_WAIT_MS));
        ck_assert_uint_eq(follower.batch.count, 0);
        ck_assert_uint_eq(follower.batch.seq, beat + 1);
    }
    ck_assert(AWAIT(rig_stats(&rig).heartbeats == 3));
    (void)rig_put_many(&rig, 1);
    follower_reach(&follower, 2);
    ck_assert_uint_eq(follower.batch.seq, 5);
    ck_assert_uint_eq(follower.seq_gaps, 0);
    ck_assert(AWAIT(rig_stats(&rig).published_batches == 2));
    follower_close(&follower);
    rig_close(&rig);
    rig_free_clock();
}
END_TEST

static void add_content(Suite *suite)
{
    TCase *tc = tcase_create("content");
    tcase_set_timeout(tc, 100);
    tcase_add_test(tc, events_arrive_as_they_were_appended);
    tcase_add_loop_test(tc, payload_is_to_the_byte_what_the_writer_writes, 0,
                        2);
    tcase_add_test(tc, a_fast_subscriber_misses_nothing_at_full_speed);
    tcase_add_test(tc, topic_is_the_first_frame_and_filters);
    suite_add_tcase(suite, tc);
}

int main(void)
{
    Suite *suite = suite_create("publisher");
    add_content(suite);
    TCase *tc = tcase_create("who is there when");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, first_subscriber_gets_the_epoch_from_its_first_event);
    tcase_add_test(tc, without_a_subscriber_it_begins_after_a_second);
    tcase_add_test(tc, late_joiner_gets_what_comes_after_it_joined);
    tcase_add_test(tc, subscribers_are_counted_as_they_come_and_go);
    suite_add_tcase(suite, tc);

    tc = tcase_create("numbers");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, lost_events_burn_numbers_on_the_wire);
    tcase_add_test(tc, suppressed_events_are_counted_and_burn_numbers);
    tcase_add_test(tc, sequence_epoch_begins_high);
    tcase_add_test(tc, heartbeats_come_in_silence_with_numbers_of_their_own);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
