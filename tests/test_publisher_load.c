/* SPDX-License-Identifier: Apache-2.0 */
/* test_publisher_load.c - what waits for whom: slow subscribers, none at all,
 * many small messages, blocked writers. */
#include "publisher_rig.h"
#include "resident.h"
#include "suite.h"

static void expect_resident_below(uint64_t limit)
{
    /* The sanitizers keep what was freed. */
    if (!SANITIZED) {
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

/* A mark that followed the mean size on the live socket muted a subscriber for
 * good that had read everything: thousands of small messages raised it, the
 * first large ones lowered it. */
START_TEST(reading_subscriber_is_never_muted_when_sizes_change)
{
    const struct mc_publisher_opts opts = rig_opts();
    struct publisher_rig rig;
    struct follower follower;
    uint64_t id = 0;
    rig_open(&rig, &opts);
    rig_follow(&rig, &follower);
    for (int i = 0; i < 3000; i++) { /* one event a message */
        follower_reach(&follower, rig_put_many(&rig, 1));
    }
    ck_assert_uint_gt(follower.messages, 2900);
    for (int i = 0; i < 20; i++) {
        id = rig_put_many(&rig, 2000);
        follower_reach(&follower, id);
    }
    ck_assert_uint_eq(follower.seq_gaps, 0);
    ck_assert_uint_eq(follower.event_count, id);
    follower_close(&follower);
    rig_close(&rig);
}
END_TEST

/* Events one by one, as fast as messages can be sent, must not fill the queue of
 * a subscriber with messages of one event. */
START_TEST(events_that_follow_closely_share_messages)
{
    const uint32_t count = 60000;
    struct mc_publisher_opts opts = rig_opts();
    struct publisher_rig rig;
    struct follower follower;
    opts.overflow = MC_PUBLISHER_BLOCK;
    rig_open(&rig, &opts);
    rig_follow(&rig, &follower);
    double began = rig_seconds();
    for (uint32_t i = 0; i < count; i++) {
        double until = rig_seconds() + 5e-6;
        while (rig_seconds() < until) {
        }
        (void)rig_put_many(&rig, 1);
    }
    follower_reach(&follower, count);
    double spent = rig_seconds() - began;
    ck_assert_uint_eq(follower.event_count, count);
    ck_assert_uint_eq(follower.seq_gaps, 0);
    /* Each message was full, or 1 ms after the one before. */
    const uint64_t full = count / MC_BATCH_EVENTS_MAX;
    ck_assert_double_lt((double)follower.messages,
                        spent / 950e-6 + (double)full + 10);
    follower_close(&follower);
    rig_close(&rig);
}
END_TEST

START_TEST(messages_keep_to_the_size_that_the_mark_allows)
{
    struct mc_publisher_opts opts = rig_opts();
    struct publisher_rig rig;
    struct follower follower;
    size_t longest = 0;
    opts.hwm_bytes = 8 << 20; /* 1024 messages of 8 KiB */
    rig_open(&rig, &opts);
    rig_follow(&rig, &follower);
    (void)rig_put_many(&rig, 5000);
    while (follower.last_id < 5000) {
        ck_assert(follower_next(&follower, FOLLOWER_WAIT_MS));
        if (follower.views[2].len > longest) {
            longest = follower.views[2].len;
        }
    }
    ck_assert_uint_le(longest, 8192);
    ck_assert_uint_gt(longest, 4096);
    ck_assert_uint_eq(follower.seq_gaps, 0);
    follower_close(&follower);
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

#define CROWD 64

/* Sockets of one context that take one message each and no more. */
struct crowd {
    void *context;
    void *sockets[CROWD];
};

static void crowd_open(struct crowd *crowd, const char *endpoint)
{
    const int one = 1;
    const int linger = 0;
    const int kernel_bytes = 4096;
    crowd->context = zmq_ctx_new();
    for (int i = 0; i < CROWD; i++) {
        void *socket = zmq_socket(crowd->context, ZMQ_SUB);
        ck_assert_ptr_nonnull(socket);
        (void)zmq_setsockopt(socket, ZMQ_RCVHWM, &one, sizeof one);
        (void)zmq_setsockopt(socket, ZMQ_RCVBUF, &kernel_bytes,
                             sizeof kernel_bytes);
        (void)zmq_setsockopt(socket, ZMQ_LINGER, &linger, sizeof linger);
        (void)zmq_setsockopt(socket, ZMQ_SUBSCRIBE, "", 0);
        ck_assert_int_eq(zmq_connect(socket, endpoint), 0);
        crowd->sockets[i] = socket;
    }
}

static void crowd_close(struct crowd *crowd)
{
    for (int i = 0; i < CROWD; i++) {
        (void)zmq_close(crowd->sockets[i]);
    }
    (void)zmq_ctx_term(crowd->context);
}

/* Queues hold the same messages, so 64 full ones are about as large as one. */
START_TEST(sixty_four_stopped_subscribers_cost_one_mark)
{
    const uint64_t mark_bytes = 8 << 20;
    struct mc_publisher_opts opts = rig_opts();
    struct publisher_rig rig;
    struct follower running;
    struct crowd crowd;
    opts.hwm_bytes = mark_bytes;
    opts.overflow = MC_PUBLISHER_BLOCK;
    rig_open(&rig, &opts);
    rig_follow(&rig, &running);
    crowd_open(&crowd, rig_stats(&rig).endpoint);
    ck_assert(AWAIT(rig_stats(&rig).subscribers == 1 + CROWD));
    uint64_t before = resident_bytes();
    uint64_t id = 0;
    for (int i = 0; i < 200; i++) {
        id = rig_put_many(&rig, 640);
        while (running.last_id + 2000 < id) {
            ck_assert(follower_next(&running, FOLLOWER_WAIT_MS));
        }
    }
    follower_reach(&running, id); /* the one that reads gets all of it */
    ck_assert_uint_eq(running.seq_gaps, 0);
    ck_assert_uint_ge(rig_stats(&rig).published_bytes, 4 * mark_bytes);
    expect_resident_below(before + 4 * mark_bytes);
    crowd_close(&crowd);
    ck_assert(AWAIT(rig_stats(&rig).subscribers == 1));
    follower_close(&running);
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
    Suite *suite = suite_create("publisher_load");
    TCase *tc = tcase_create("load");
    tcase_set_timeout(tc, 100);
    tcase_add_test(tc,
                   stopped_subscriber_costs_the_mark_and_nobody_waits_for_it);
    tcase_add_test(tc, reading_subscriber_is_never_muted_when_sizes_change);
    tcase_add_test(tc, events_that_follow_closely_share_messages);
    tcase_add_test(tc, messages_keep_to_the_size_that_the_mark_allows);
    tcase_add_test(tc, without_subscribers_nothing_piles_up);
    tcase_add_test(tc, sixty_four_stopped_subscribers_cost_one_mark);
    tcase_add_test(tc,
                   blocked_writers_go_on_with_the_publisher_and_lose_nothing);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
