/* SPDX-License-Identifier: Apache-2.0 */
/* test_recovery_line.c - who is served when, and what one peer can take up. */
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

/* ---- the line --------------------------------------------------------------- */

START_TEST(sixty_four_readers_all_get_all_of_it_in_order)
{
    uint64_t got[64] = {0};
    unsigned ends = 0;
    struct mci_recovery_message message;
    open_rig();
    rig_keep(&rig, 1, 30);
    for (unsigned i = 0; i < 64; i++) {
        rig_ask_replay(&rig, rig_peer_name(i), 1);
    }
    ck_assert_uint_eq(rig_recovery_stats(&rig).serving, MCI_RECOVERY_REPLAYS);
    while (rig_give(&rig, &message)) {
        unsigned i = rig_peer_index(&message);
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
        rig_ask_paced(&rig, rig_peer_name(i), 1, 0);
    }
    expect_silence();
    ck_assert_uint_eq(rig_recovery_stats(&rig).waiting, MCI_RECOVERY_WAIT_MAX);
    rig_ask_paced(&rig, "late", 1, 0);
    expect_end("late");
    ck_assert_uint_eq(rig_recovery_stats(&rig).refused, 1);
    ck_assert_uint_eq(rig_recovery_stats(&rig).waiting, MCI_RECOVERY_WAIT_MAX);
    /* One that ends makes room for one. */
    rig_top_up(&rig, rig_peer_name(0), 1);
    expect_batch(rig_peer_name(0), 1);
    expect_end(rig_peer_name(0));
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
    rig_ask_word(&rig, "a", "what");
    rig_ask_replay(&rig, "a", 2);
    rig_ask_word(&rig, "a", "how");
    rig_ask_word(&rig, "a", "why");
    expect_batch("a", 1);
    expect_batch("a", 2);
    expect_end("a");
    expect_end("a"); /* of what is no request */
    expect_batch("a", 2);
    expect_end("a");
    expect_end("a");
    expect_end("a");
    expect_silence();
    ck_assert_uint_eq(rig_recovery_stats(&rig).malformed, 3);
    rig_close_recovery(&rig);
}
END_TEST

/* Whoever takes up the walks makes the snapshot of "a" wait; its replay, for which
 * there is room, must not be served before. */
START_TEST(second_request_does_not_overtake_the_first)
{
    struct mci_recovery_message message;
    open_rig();
    rig.keys = 1000;
    rig_keep(&rig, 1, 2);
    for (unsigned i = 0; i < MCI_RECOVERY_WALKS; i++) {
        rig_ask_word(&rig, rig_peer_name(i), "snapshot");
        for (int turn = 0; turn < 6; turn++) { /* begun: not to be joined */
            ck_assert(rig_give(&rig, &message));
            rig_tell(&rig, MCI_RECOVERY_SENT);
        }
    }
    rig_ask_word(&rig, "a", "snapshot");
    rig_ask_replay(&rig, "a", 1);
    bool has_snapshot = false;
    uint64_t seq = 0;
    while (rig_give(&rig, &message)) {
        if (!rig_is_for(&message, "a")) {
            ck_assert(!rig_is_end(&message));
        } else if (mc_view_equal(message.frames[2], mc_view_str("snapshot"))) {
            ck_assert_uint_eq(seq, 0);
            has_snapshot = has_snapshot || message.count == 6;
        } else if (!rig_is_end(&message)) {
            ck_assert(has_snapshot);
            ck_assert_uint_eq(mci_get_be64(message.frames[3].data), ++seq);
        }
        rig_tell(&rig, MCI_RECOVERY_SENT);
    }
    ck_assert_uint_eq(seq, 2);
    rig_close_recovery(&rig);
}
END_TEST

/* A tenant that cannot be is END; the peer's next answer comes after it, also if
 * it is the END that finds no room. */
START_TEST(end_of_what_was_refused_is_not_overtaken)
{
    struct mci_recovery_message message;
    open_rig();
    rig_keep(&rig, 1, 1);
    rig_ask_tenant(&rig, "a", "nobody");
    rig_ask_replay(&rig, "a", 1);
    ck_assert(rig_give(&rig, &message));
    ck_assert(rig_is_end(&message));
    rig_tell(&rig, MCI_RECOVERY_BLOCKED);
    expect_silence();
    rig.now_ns += MCI_RECOVERY_RETRY_NS;
    expect_end("a");
    expect_batch("a", 1);
    expect_end("a");
    expect_silence();
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(one_peer_cannot_fill_the_line)
{
    const unsigned kept = 1 + MCI_RECOVERY_PEER_WAIT_MAX;
    open_rig();
    rig_keep(&rig, 1, 1);
    for (unsigned i = 0; i < 1000; i++) {
        rig_ask_replay(&rig, "greedy", 1);
    }
    ck_assert_uint_eq(rig_recovery_stats(&rig).waiting,
                      MCI_RECOVERY_PEER_WAIT_MAX);
    ck_assert_uint_eq(rig_recovery_stats(&rig).refused, 1000 - kept);
    /* Others go by. */
    rig_ask_replay(&rig, "b", 1);
    expect_batch("greedy", 1);
    expect_batch("b", 1);
    expect_end("greedy");
    expect_end("b");
    /* Each of its requests is answered, those that were refused with END, after
     * those that were not. */
    for (unsigned i = 1; i < kept; i++) {
        expect_batch("greedy", 1);
        expect_end("greedy");
    }
    for (unsigned i = kept; i < 1000; i++) {
        expect_end("greedy");
    }
    expect_silence();
    ck_assert_uint_eq(rig_recovery_stats(&rig).unanswered, 0);
    rig_close_recovery(&rig);
}
END_TEST

START_TEST(place_that_is_free_is_filled_at_once)
{
    const char *peers[] = {"a", "b", "c", "d", "e"};
    open_rig();
    rig_keep(&rig, 1, 1);
    for (int i = 0; i < 5; i++) {
        rig_ask_replay(&rig, peers[i], 1);
    }
    expect_batch("a", 1);
    for (int i = 1; i < 4; i++) {
        struct mci_recovery_message message;
        ck_assert(rig_give(&rig, &message));
        rig_tell(&rig, MCI_RECOVERY_BLOCKED);
    }
    expect_end("a");
    /* Nothing will be heard, and the others wait: e must not wait for them. */
    ck_assert_uint_le(mci_recovery_wake_at(rig.recovery), rig.now_ns);
    expect_batch("e", 1);
    expect_end("e");
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
    ck_assert_uint_eq(rig_recovery_stats(&rig).serving, 1);
    ck_assert_uint_eq(rig_recovery_stats(&rig).unanswered, 0);
    rig_close_recovery(&rig);
}
END_TEST

/* What cannot be told is counted. */
START_TEST(every_answer_is_sent_or_counted)
{
    const unsigned peers = MCI_RECOVERY_ASIDE_MAX + 7;
    struct mci_recovery_message message;
    open_rig();
    for (unsigned i = 0; i < peers; i++) { /* nobody reads */
        for (int turn = 0; turn < 3; turn++) {
            rig_ask_word(&rig, rig_peer_name(i), "status");
        }
        while (rig_give(&rig, &message)) {
            rig_tell(&rig, MCI_RECOVERY_BLOCKED);
        }
    }
    ck_assert_uint_eq(rig_recovery_stats(&rig).statuses, 3 * peers);
    ck_assert_uint_eq(rig_recovery_stats(&rig).unanswered, 3 * 7);
    rig.now_ns += MCI_RECOVERY_RETRY_MAX_NS;
    unsigned sent = 0;
    while (rig_give(&rig, &message)) { /* now all do */
        ck_assert(mc_view_equal(message.frames[2], mc_view_str("status")));
        sent++;
        rig_tell(&rig, MCI_RECOVERY_SENT);
    }
    ck_assert_uint_eq(sent, 3 * MCI_RECOVERY_ASIDE_MAX);
    ck_assert_uint_eq(rig_recovery_stats(&rig).serving, 0);
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

int main(void)
{
    Suite *suite = suite_create("recovery_line");
    TCase *tc = tcase_create("the line");
    tcase_add_test(tc, sixty_four_readers_all_get_all_of_it_in_order);
    tcase_add_test(tc, those_served_take_turns);
    tcase_add_test(tc, one_who_blocks_holds_up_nobody);
    tcase_add_test(tc, full_line_answers_end_at_once);
    tcase_add_test(tc, waiting_costs_no_patience);
    tcase_add_test(tc, place_that_is_free_is_filled_at_once);
    tcase_add_test(tc, create_survives_each_allocation_failing);
    suite_add_tcase(suite, tc);

    tc = tcase_create("one peer");
    tcase_add_test(tc, second_request_of_a_peer_is_served_after_the_first);
    tcase_add_test(tc, second_request_does_not_overtake_the_first);
    tcase_add_test(tc, end_of_what_was_refused_is_not_overtaken);
    tcase_add_test(tc, one_peer_cannot_fill_the_line);
    tcase_add_test(tc, nobody_and_too_long_names_are_passed_over);
    tcase_add_test(tc, flood_of_nonsense_leaves_room_for_requests);
    tcase_add_test(tc, every_answer_is_sent_or_counted);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
