/* SPDX-License-Identifier: Apache-2.0 */
/* test_recovery.c - replays, credit, and those who do not take what they asked
 * for. */
#include "mci_alloc.h"
#include "recovery_rig.h"
#include "suite.h"

static struct recovery_rig rig;

static void open_rig(void)
{
    rig_open_recovery(&rig, rig_recovery_opts(), 0);
}

/* The next message must be the batch for the peer, and is sent. */
static void expect_batch(const char *peer, uint64_t seq)
{
    rig_must_batch(&rig, peer, seq);
}

static void expect_end(const char *peer)
{
    rig_must_end(&rig, peer);
}

static void expect_silence(void)
{
    rig_must_rest(&rig);
}

/* ---- replays ---------------------------------------------------------------- */

START_TEST(replay_gives_its_range_in_order_and_end)
{
    open_rig();
    rig_keep(&rig, 1, 5);
    rig_keep(&rig, 9, 10); /* 6 to 8 were burnt */
    rig_ask_replay(&rig, "a", 4);
    rig_keep(&rig, 11, 20); /* beyond the tail at its arrival */
    expect_batch("a", 4);
    expect_batch("a", 5);
    expect_batch("a", 9);
    expect_batch("a", 10);
    expect_end("a");
    expect_silence();
    ck_assert_uint_eq(mci_recovery_wake_at(rig.recovery), UINT64_MAX);
    ck_assert_uint_eq(rig_recovery_stats(&rig).batches, 4);
    ck_assert_uint_eq(rig_recovery_stats(&rig).serving, 0);
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(replay_of_nothing_is_end)
{
    const uint64_t starts[] = {0, 6, UINT64_MAX};
    open_rig();
    rig_ask_replay(&rig, "a", 0); /* there is no batch at all */
    expect_end("a");
    rig_keep(&rig, 1, 5);
    for (size_t i = 1; i < 3; i++) {
        rig_ask_replay(&rig, "a", starts[i]);
        expect_end("a");
    }
    rig_ask_replay(&rig, "a", 0);
    expect_batch("a", 1);
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(three_frames_leave_the_topic_out)
{
    struct mci_recovery_opts opts = rig_recovery_opts();
    struct mci_recovery_message message;
    opts.layout = 3;
    rig_open_recovery(&rig, opts, 0);
    rig_keep(&rig, 1, 1);
    rig_ask_replay(&rig, "a", 1);
    ck_assert(rig_give(&rig, &message));
    ck_assert_uint_eq(message.count, 4);
    ck_assert_uint_eq(mci_get_be64(message.frames[2].data), 1);
    ck_assert(mc_view_equal(message.frames[3], mc_view_str("1")));
    rig_tell(&rig, MCI_RECOVERY_SENT);
    ck_assert(rig_give(&rig, &message));
    ck_assert_uint_eq(message.count, 4);
    ck_assert_uint_eq(mci_get_be64(message.frames[2].data), UINT64_MAX);
    ck_assert_uint_eq(message.frames[3].len, 0);
    rig_tell(&rig, MCI_RECOVERY_SENT);
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(history_that_moved_on_leaves_a_hole_or_the_end)
{
    rig_open_recovery(&rig, rig_recovery_opts(), 8);
    rig_keep(&rig, 1, 8);
    rig_ask_replay(&rig, "a", 1);
    expect_batch("a", 1);
    rig_keep(&rig, 9, 12); /* 1 to 4 are gone */
    expect_batch("a", 5);
    rig_keep(&rig, 13, 20); /* all of its range is */
    expect_end("a");
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(batch_that_is_blocked_is_kept_and_sent_once)
{
    struct mci_alloc_stats before;
    struct mci_alloc_stats after;
    struct mci_recovery_message message;
    rig_open_recovery(&rig, rig_recovery_opts(), 2);
    rig_keep(&rig, 1, 2);
    rig_ask_replay(&rig, "a", 1);
    mci_alloc_stats(&before);
    ck_assert(rig_give(&rig, &message));
    rig_tell(&rig, MCI_RECOVERY_BLOCKED);
    expect_silence();
    ck_assert_uint_eq(mci_recovery_wake_at(rig.recovery),
                      rig.now_ns + MCI_RECOVERY_RETRY_NS);
    rig_keep(&rig, 3, 9); /* the ring has moved on; what is held is not lost */
    mci_alloc_stats(&after);
    ck_assert_int_eq(after.blocks - before.blocks, 1);
    rig.now_ns += MCI_RECOVERY_RETRY_NS;
    expect_batch("a", 1);
    mci_alloc_stats(&after);
    ck_assert_int_eq(after.blocks, before.blocks);
    expect_end("a"); /* 2 was not held */
    rig_close_recovery(&rig);
}
END_TEST

/* ---- credit ----------------------------------------------------------------- */

START_TEST(credit_paces_a_replay)
{
    open_rig();
    rig_keep(&rig, 1, 6);
    rig_ask_paced(&rig, "a", 1, 2);
    expect_batch("a", 1);
    expect_batch("a", 2);
    expect_silence();
    rig_top_up(&rig, "b", 9); /* who has no request */
    expect_silence();
    rig_top_up(&rig, "a", 3);
    expect_batch("a", 3);
    expect_batch("a", 4);
    expect_batch("a", 5);
    expect_silence();
    rig_top_up(&rig, "a", 1);
    expect_batch("a", 6);
    expect_end("a"); /* which needs none */
    rig_top_up(&rig, "a", 1);
    expect_silence();
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(credit_that_came_while_in_line_counts)
{
    open_rig();
    rig_keep(&rig, 1, 3);
    const char *peers[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++) {
        rig_ask_paced(&rig, peers[i], 1, 0);
    }
    rig_ask_paced(&rig, "e", 3, 0);
    rig_top_up(&rig, "e", UINT32_MAX);
    rig_top_up(&rig, "e", UINT32_MAX);
    expect_silence();
    ck_assert_uint_eq(rig_recovery_stats(&rig).waiting, 1);
    rig_top_up(&rig, "a", 3);
    for (uint64_t seq = 1; seq <= 3; seq++) {
        expect_batch("a", seq);
    }
    expect_end("a");
    expect_batch("e", 3);
    expect_end("e");
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(paced_replay_without_credit_holds_nothing)
{
    struct mci_alloc_stats before;
    struct mci_alloc_stats after;
    rig_open_recovery(&rig, rig_recovery_opts(), 2);
    rig_keep(&rig, 1, 2);
    mci_alloc_stats(&before);
    rig_ask_paced(&rig, "a", 1, 0);
    expect_silence();
    rig_keep(&rig, 3, 9);
    mci_alloc_stats(&after);
    ck_assert_int_eq(after.blocks, before.blocks);
    rig_close_recovery(&rig);
}
END_TEST

/* ---- who does not take it --------------------------------------------------- */

/* Until then; how often it was tried. */
static unsigned block_until(const char *peer, uint64_t until_ns)
{
    struct mci_recovery_message message;
    unsigned tries = 0;
    while (rig.now_ns < until_ns) {
        ck_assert(rig_give(&rig, &message));
        ck_assert(rig_is_for(&message, peer));
        ck_assert(!rig_is_end(&message));
        rig_tell(&rig, MCI_RECOVERY_BLOCKED);
        expect_silence();
        rig.now_ns = mci_recovery_wake_at(rig.recovery);
        tries++;
    }
    return tries;
}

START_TEST(ten_seconds_without_progress_end_a_request)
{
    struct mci_recovery_message message;
    open_rig();
    rig_keep(&rig, 1, 5);
    rig_ask_replay(&rig, "a", 1);
    expect_batch("a", 1);
    uint64_t since_ns = rig.now_ns;
    block_until("a", since_ns + MCI_RECOVERY_PATIENCE_NS);
    ck_assert(rig_give(&rig, &message)); /* tried once more, */
    ck_assert(!rig_is_end(&message));
    rig_tell(&rig, MCI_RECOVERY_BLOCKED);
    ck_assert_uint_eq(rig_recovery_stats(&rig).given_up, 1);
    ck_assert_uint_eq(rig_recovery_stats(&rig).serving, 1);
    while (rig_recovery_stats(&rig).serving > 0) { /* and then END, in vain */
        rig.now_ns = mci_recovery_wake_at(rig.recovery);
        ck_assert_uint_lt(rig.now_ns - since_ns,
                          MCI_RECOVERY_PATIENCE_NS +
                              MCI_RECOVERY_ASIDE_PATIENCE_NS +
                              2 * MCI_RECOVERY_RETRY_MAX_NS);
        ck_assert(rig_give(&rig, &message));
        ck_assert(rig_is_end(&message));
        rig_tell(&rig, MCI_RECOVERY_BLOCKED);
    }
    ck_assert_uint_ge(rig.now_ns - since_ns,
                      MCI_RECOVERY_PATIENCE_NS +
                          MCI_RECOVERY_ASIDE_PATIENCE_NS);
    ck_assert_uint_eq(rig_recovery_stats(&rig).unanswered, 1);
    expect_silence();
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(room_that_came_at_the_last_moment_is_used)
{
    open_rig();
    rig_keep(&rig, 1, 3);
    rig_ask_replay(&rig, "a", 1);
    expect_batch("a", 1);
    block_until("a", rig.now_ns + MCI_RECOVERY_PATIENCE_NS);
    expect_batch("a", 2); /* this time there is room */
    expect_batch("a", 3);
    expect_end("a");
    ck_assert_uint_eq(rig_recovery_stats(&rig).given_up, 0);
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(end_of_what_was_given_up_waits_for_room)
{
    struct mci_recovery_message message;
    open_rig();
    rig_keep(&rig, 1, 3);
    rig_ask_replay(&rig, "a", 1);
    rig_ask_replay(&rig, "a", 3);
    expect_batch("a", 1);
    block_until("a", rig.now_ns + MCI_RECOVERY_PATIENCE_NS);
    ck_assert(rig_give(&rig, &message));
    rig_tell(&rig, MCI_RECOVERY_BLOCKED);
    for (int i = 0; i < 5; i++) {
        rig.now_ns += MCI_RECOVERY_RETRY_MAX_NS;
        ck_assert(rig_give(&rig, &message));
        ck_assert(rig_is_end(&message));
        rig_tell(&rig, MCI_RECOVERY_BLOCKED);
        expect_silence(); /* its second request waits for that */
    }
    rig.now_ns += MCI_RECOVERY_RETRY_MAX_NS;
    expect_end("a");
    expect_batch("a", 3);
    expect_end("a");
    expect_silence();
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(blocked_reader_is_tried_less_and_less)
{
    struct mci_recovery_message message;
    open_rig();
    rig_keep(&rig, 1, 5);
    rig_ask_replay(&rig, "a", 1);
    expect_batch("a", 1);
    unsigned tries = block_until("a", rig.now_ns + MCI_RECOVERY_PATIENCE_NS);
    ck_assert_uint_lt(tries, 200); /* every 2 ms it would be 5000 */
    ck_assert_uint_gt(tries, 150);
    /* What has just been taken makes it brisk again: it is tried as soon as
     * there may be room. */
    expect_batch("a", 2);
    ck_assert(rig_give(&rig, &message));
    rig_tell(&rig, MCI_RECOVERY_BLOCKED);
    ck_assert_uint_eq(mci_recovery_wake_at(rig.recovery),
                      rig.now_ns + MCI_RECOVERY_RETRY_NS);
    mci_recovery_room(rig.recovery, rig.now_ns);
    ck_assert(rig_give(&rig, &message));
    rig_tell(&rig, MCI_RECOVERY_BLOCKED);
    rig.now_ns += MCI_RECOVERY_BRISK_NS;
    ck_assert(rig_give(&rig, &message));
    rig_tell(&rig, MCI_RECOVERY_BLOCKED);
    mci_recovery_room(rig.recovery, rig.now_ns);
    expect_silence();
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(one_batch_in_time_keeps_a_request_alive)
{
    struct mci_recovery_message message;
    open_rig();
    rig_keep(&rig, 1, 20);
    rig_ask_paced(&rig, "a", 1, 1);
    for (uint64_t seq = 1; seq <= 20; seq++) {
        expect_batch("a", seq);
        rig.now_ns += MCI_RECOVERY_PATIENCE_NS - 1;
        if (seq < 20) {
            expect_silence();
        }
        rig_top_up(&rig, "a", 1);
    }
    expect_end("a");
    /* And without: it is ended at the time that it says it wants to be asked. */
    rig_ask_paced(&rig, "b", 1, 0);
    expect_silence();
    ck_assert_uint_eq(mci_recovery_wake_at(rig.recovery),
                      rig.now_ns + MCI_RECOVERY_PATIENCE_NS);
    rig.now_ns = mci_recovery_wake_at(rig.recovery);
    ck_assert(rig_give(&rig, &message));
    ck_assert(rig_is_end(&message));
    rig_tell(&rig, MCI_RECOVERY_SENT);
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(reader_that_vanished_frees_what_it_held)
{
    struct mci_alloc_stats before;
    struct mci_alloc_stats after;
    struct mci_recovery_message message;
    rig_open_recovery(&rig, rig_recovery_opts(), 2);
    rig_keep(&rig, 1, 2);
    mci_alloc_stats(&before);
    rig_ask_replay(&rig, "a", 1);
    ck_assert(rig_give(&rig, &message));
    rig_tell(&rig, MCI_RECOVERY_BLOCKED);
    rig_keep(&rig, 3, 9);
    rig.now_ns += MCI_RECOVERY_RETRY_NS;
    ck_assert(rig_give(&rig, &message));
    rig_tell(&rig, MCI_RECOVERY_GONE);
    mci_alloc_stats(&after);
    ck_assert_int_eq(after.blocks, before.blocks);
    ck_assert_uint_eq(rig_recovery_stats(&rig).serving, 0);
    ck_assert_uint_eq(rig_recovery_stats(&rig).vanished, 1);
    expect_silence();
    rig_close_recovery(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("recovery");
    TCase *tc = tcase_create("replays");
    tcase_add_test(tc, replay_gives_its_range_in_order_and_end);
    tcase_add_test(tc, replay_of_nothing_is_end);
    tcase_add_test(tc, three_frames_leave_the_topic_out);
    tcase_add_test(tc, history_that_moved_on_leaves_a_hole_or_the_end);
    tcase_add_test(tc, batch_that_is_blocked_is_kept_and_sent_once);
    suite_add_tcase(suite, tc);

    tc = tcase_create("credit");
    tcase_add_test(tc, credit_paces_a_replay);
    tcase_add_test(tc, credit_that_came_while_in_line_counts);
    tcase_add_test(tc, paced_replay_without_credit_holds_nothing);
    suite_add_tcase(suite, tc);

    tc = tcase_create("who does not take it");
    tcase_add_test(tc, ten_seconds_without_progress_end_a_request);
    tcase_add_test(tc, room_that_came_at_the_last_moment_is_used);
    tcase_add_test(tc, end_of_what_was_given_up_waits_for_room);
    tcase_add_test(tc, blocked_reader_is_tried_less_and_less);
    tcase_add_test(tc, one_batch_in_time_keeps_a_request_alive);
    tcase_add_test(tc, reader_that_vanished_frees_what_it_held);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
