/* SPDX-License-Identifier: Apache-2.0 */
/* test_recovery.c - replays, credit, the line, and those who do not take what
 * they asked for. */
#include "alloc_fail.h"
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
    struct mci_recovery_message message;
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRIu64, seq);
    ck_assert(rig_give(&rig, &message));
    ck_assert(rig_is_for(&message, peer));
    ck_assert_uint_eq(message.count, 5);
    ck_assert_uint_eq(message.frames[1].len, 0);
    ck_assert(mc_view_equal(message.frames[2], mc_view_str("t@m")));
    ck_assert_uint_eq(mci_get_be64(message.frames[3].data), seq);
    ck_assert(mc_view_equal(message.frames[4], mc_view_str(text)));
    rig_tell(&rig, MCI_RECOVERY_SENT);
}

static void expect_end(const char *peer)
{
    struct mci_recovery_message message;
    ck_assert(rig_give(&rig, &message));
    ck_assert(rig_is_for(&message, peer));
    ck_assert(rig_is_end(&message));
    rig_tell(&rig, MCI_RECOVERY_SENT);
}

static void expect_silence(void)
{
    struct mci_recovery_message message;
    ck_assert(!rig_give(&rig, &message));
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

START_TEST(ten_seconds_without_progress_end_a_request)
{
    struct mci_recovery_message message;
    open_rig();
    rig_keep(&rig, 1, 5);
    rig_ask_replay(&rig, "a", 1);
    expect_batch("a", 1);
    uint64_t since_ns = rig.now_ns;
    while (rig.now_ns < since_ns + MCI_RECOVERY_PATIENCE_NS) {
        ck_assert(rig_give(&rig, &message));
        ck_assert(!rig_is_end(&message));
        rig_tell(&rig, MCI_RECOVERY_BLOCKED);
        rig.now_ns += MCI_RECOVERY_RETRY_NS;
    }
    ck_assert(rig_give(&rig, &message));
    ck_assert(rig_is_end(&message)); /* tried once */
    rig_tell(&rig, MCI_RECOVERY_BLOCKED);
    expect_silence();
    ck_assert_uint_eq(rig_recovery_stats(&rig).serving, 0);
    ck_assert_uint_eq(rig_recovery_stats(&rig).given_up, 1);
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

/* ---- the line --------------------------------------------------------------- */

static const char *peer_name(unsigned i)
{
    static char names[512][8];
    (void)snprintf(names[i], sizeof names[i], "p%u", i);
    return names[i];
}

static unsigned index_of(const struct mci_recovery_message *message)
{
    char name[8] = "";
    ck_assert_uint_lt(message->frames[0].len, sizeof name);
    memcpy(name, message->frames[0].data, message->frames[0].len);
    return (unsigned)strtoul(name + 1, NULL, 10);
}

START_TEST(sixty_four_readers_all_get_all_of_it_in_order)
{
    uint64_t got[64] = {0};
    unsigned ends = 0;
    struct mci_recovery_message message;
    open_rig();
    rig_keep(&rig, 1, 30);
    for (unsigned i = 0; i < 64; i++) {
        rig_ask_replay(&rig, peer_name(i), 1);
    }
    ck_assert_uint_eq(rig_recovery_stats(&rig).serving, MCI_RECOVERY_REPLAYS);
    while (rig_give(&rig, &message)) {
        unsigned i = index_of(&message);
        if (rig_is_end(&message)) {
            ck_assert_uint_eq(got[i], 30);
            ends++;
        } else {
            ck_assert_uint_eq(mci_get_be64(message.frames[3].data), ++got[i]);
        }
        rig_tell(&rig, MCI_RECOVERY_SENT);
        ck_assert_uint_le(rig_recovery_stats(&rig).serving,
                          MCI_RECOVERY_REPLAYS);
    }
    ck_assert_uint_eq(ends, 64);
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(those_served_take_turns)
{
    open_rig();
    rig_keep(&rig, 1, 3);
    rig_ask_replay(&rig, "a", 1);
    rig_ask_replay(&rig, "b", 1);
    for (uint64_t seq = 1; seq <= 3; seq++) {
        expect_batch("a", seq);
        expect_batch("b", seq);
    }
    expect_end("a");
    expect_end("b");
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(one_who_blocks_holds_up_nobody)
{
    struct mci_recovery_message message;
    open_rig();
    rig_keep(&rig, 1, 3);
    rig_ask_replay(&rig, "a", 1);
    rig_ask_replay(&rig, "b", 1);
    ck_assert(rig_give(&rig, &message));
    ck_assert(rig_is_for(&message, "a"));
    rig_tell(&rig, MCI_RECOVERY_BLOCKED);
    for (uint64_t seq = 1; seq <= 3; seq++) {
        expect_batch("b", seq);
    }
    expect_end("b");
    expect_silence();
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(full_line_answers_end_at_once)
{
    const unsigned held = MCI_RECOVERY_REPLAYS + MCI_RECOVERY_WAIT_MAX;
    open_rig();
    rig_keep(&rig, 1, 1);
    for (unsigned i = 0; i < held; i++) {
        rig_ask_paced(&rig, peer_name(i), 1, 0);
    }
    expect_silence();
    ck_assert_uint_eq(rig_recovery_stats(&rig).waiting, MCI_RECOVERY_WAIT_MAX);
    rig_ask_paced(&rig, "late", 1, 0);
    expect_end("late");
    ck_assert_uint_eq(rig_recovery_stats(&rig).refused, 1);
    ck_assert_uint_eq(rig_recovery_stats(&rig).waiting, MCI_RECOVERY_WAIT_MAX);
    /* One that ends makes room for one. */
    rig_top_up(&rig, peer_name(0), 1);
    expect_batch(peer_name(0), 1);
    expect_end(peer_name(0));
    expect_silence();
    rig_ask_paced(&rig, "later", 1, 0);
    expect_silence();
    ck_assert_uint_eq(rig_recovery_stats(&rig).refused, 1);
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(waiting_costs_no_patience)
{
    const char *peers[] = {"a", "b", "c", "d"};
    open_rig();
    rig_keep(&rig, 1, 40);
    for (int i = 0; i < 4; i++) {
        rig_ask_paced(&rig, peers[i], 1, 1);
    }
    rig_ask_replay(&rig, "e", 40);
    for (uint64_t seq = 1; seq <= 40; seq++) {
        for (int i = 0; i < 4; i++) {
            expect_batch(peers[i], seq);
        }
        rig.now_ns += MCI_RECOVERY_PATIENCE_NS / 2;
        for (int i = 0; i < 4; i++) {
            rig_top_up(&rig, peers[i], 1);
        }
    }
    expect_end("a");
    for (int i = 1; i < 4; i++) {
        expect_end(peers[i]);
    }
    expect_batch("e", 40);
    expect_end("e");
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(second_request_of_a_peer_is_served_after_the_first)
{
    open_rig();
    rig_keep(&rig, 1, 2);
    rig_ask_replay(&rig, "a", 1);
    rig_ask_replay(&rig, "a", 2);
    rig_ask_word(&rig, "a", "what"); /* in between */
    expect_batch("a", 1);
    expect_end("a");
    expect_batch("a", 2);
    expect_end("a");
    expect_batch("a", 2);
    expect_end("a");
    expect_silence();
    ck_assert_uint_eq(rig_recovery_stats(&rig).malformed, 1);
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(nobody_and_too_long_names_are_passed_over)
{
    char name[257];
    memset(name, 'x', 256);
    name[256] = '\0';
    open_rig();
    rig_ask_word(&rig, "", "status");
    rig_ask_word(&rig, name, "status");
    expect_silence();
    name[255] = '\0';
    rig_ask_word(&rig, name, "what");
    expect_end(name);
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(flood_of_nonsense_leaves_room_for_requests)
{
    struct mci_recovery_message message;
    open_rig();
    rig_keep(&rig, 1, 1);
    for (int i = 0; i < 10000; i++) {
        rig_ask_word(&rig, "bad", "what");
    }
    rig_ask_replay(&rig, "good", 1);
    unsigned good = 0;
    while (rig_give(&rig, &message)) {
        bool is_good = rig_is_for(&message, "good");
        good += is_good;
        rig_tell(&rig, is_good ? MCI_RECOVERY_SENT : MCI_RECOVERY_BLOCKED);
    }
    ck_assert_uint_eq(good, 2);
    ck_assert_uint_le(rig_recovery_stats(&rig).serving, MCI_RECOVERY_ASIDE_MAX);
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(create_survives_each_allocation_failing)
{
    struct alloc_fail fail;
    const struct mci_recovery_opts opts = rig_recovery_opts();
    ALLOC_FAIL_EACH(fail)
    {
        struct mci_recovery *recovery = NULL;
        alloc_fail_arm(&fail);
        enum mc_err err = mci_recovery_create(&opts, &recovery);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        mci_recovery_destroy(recovery);
    }
    mci_recovery_destroy(NULL);
}
END_TEST

static void add_line(Suite *suite)
{
    TCase *tc = tcase_create("the line");
    tcase_add_test(tc, sixty_four_readers_all_get_all_of_it_in_order);
    tcase_add_test(tc, those_served_take_turns);
    tcase_add_test(tc, one_who_blocks_holds_up_nobody);
    tcase_add_test(tc, full_line_answers_end_at_once);
    tcase_add_test(tc, waiting_costs_no_patience);
    tcase_add_test(tc, second_request_of_a_peer_is_served_after_the_first);
    tcase_add_test(tc, nobody_and_too_long_names_are_passed_over);
    tcase_add_test(tc, flood_of_nonsense_leaves_room_for_requests);
    tcase_add_test(tc, create_survives_each_allocation_failing);
    suite_add_tcase(suite, tc);
}

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
    tcase_add_test(tc, one_batch_in_time_keeps_a_request_alive);
    tcase_add_test(tc, reader_that_vanished_frees_what_it_held);
    suite_add_tcase(suite, tc);
    add_line(suite);
    return suite_run(suite);
}
