/* SPDX-License-Identifier: Apache-2.0 */
/* Requests happen once (SAFETY C), over real sockets: retries on the same and on
 * other connections, numbers out of turn, cancels before, while and after, and
 * heartbeats that say what was given up. */
#include <stdlib.h>

#include "await.h"
#include "server_rig.h"
#include "suite.h"

#define SEGMENT_BYTES ((uint64_t)64 << 20)

static void open_all(struct server_rig *rig, struct peer *peer, bool blocks)
{
    server_rig_open(rig, NULL, blocks);
    peer_join(peer, rig);
    (void)peer_mount(peer, 1, SEGMENT_BYTES);
}

static void close_all(struct server_rig *rig, struct peer *peer)
{
    peer_close(peer);
    server_rig_close(rig);
}

static enum mc_err cancel(struct peer *peer, uint64_t number)
{
    const struct asked asked = {.op = MCI_OP_CANCEL, .number = number};
    mci_pack_nil(peer_ask(peer, &asked));
    return peer_call(peer, &asked);
}

static enum mc_err start(struct peer *peer, uint64_t number, uint64_t first,
                         uint32_t count, uint64_t *numbers_out)
{
    const struct asked asked = {.op = MCI_OP_PUT_START, .number = number};
    peer_send_start(peer, &asked, first, count);
    enum mc_err err = peer_answer(peer, &asked);
    if (err == MC_OK) {
        (void)peer_read_started(peer, numbers_out, count);
    }
    return err;
}

/* ---- retries ------------------------------------------------------------- */

START_TEST(a_retried_start_answers_the_same_attempts_on_any_connection)
{
    struct server_rig rig;
    struct peer first;
    struct peer second;
    uint64_t numbers[3][4];
    open_all(&rig, &first, false);
    ck_assert_int_eq(start(&first, 2, 0, 4, numbers[0]), MC_OK);
    ck_assert_int_eq(start(&first, 2, 0, 4, numbers[1]), MC_OK);
    peer_join_as(&second, &first);
    ck_assert_int_eq(start(&second, 2, 0, 4, numbers[2]), MC_OK);
    ck_assert_mem_eq(numbers[0], numbers[1], sizeof numbers[0]);
    ck_assert_mem_eq(numbers[0], numbers[2], sizeof numbers[0]);
    ck_assert_uint_ne(numbers[0][0], 0);
    ck_assert_uint_eq(server_rig_core(&rig).attempts, 4);
    ck_assert_uint_eq(server_rig_stats(&rig).repeated, 2);
    peer_close(&second);
    close_all(&rig, &first);
}
END_TEST

START_TEST(a_retried_end_commits_once)
{
    struct server_rig rig;
    struct peer peer;
    uint64_t numbers[4];
    open_all(&rig, &peer, false);
    ck_assert_int_eq(start(&peer, 2, 0, 4, numbers), MC_OK);
    for (int i = 0; i < 3; i++) {
        const struct asked end = {.op = MCI_OP_PUT_END, .number = 3};
        peer_send_end(&peer, &end, 0, numbers, 4);
        ck_assert_int_eq(peer_answer(&peer, &end), MC_OK);
        ck_assert_uint_eq(peer_count_results(&peer, MC_OK), 4);
    }
    ck_assert_uint_eq(server_rig_core(&rig).commits, 4);
    close_all(&rig, &peer);
}
END_TEST

START_TEST(a_late_remove_deletes_nothing_that_was_put_after_it)
{
    struct server_rig rig;
    struct peer first;
    struct peer second;
    open_all(&rig, &first, false);
    peer_put(&first, 2, 0, 1);
    const struct asked asked = {.op = MCI_OP_REMOVE, .number = 4};
    peer_send_keys(&first, &asked, 0, 1);
    ck_assert_int_eq(peer_answer(&first, &asked), MC_OK);
    ck_assert_uint_eq(peer_count_results(&first, MC_OK), 1);
    peer_put(&first, 5, 0, 1);
    /* The same remove comes once more, and one that never arrived before. */
    peer_join_as(&second, &first);
    peer_send_keys(&second, &asked, 0, 1);
    ck_assert_int_eq(peer_answer(&second, &asked), MC_ERR_INVALID_VERSION);
    ck_assert_uint_eq(server_rig_core(&rig).objects, 1);
    ck_assert_uint_eq(server_rig_stats(&rig).stale, 1);
    peer_close(&second);
    close_all(&rig, &first);
}
END_TEST

START_TEST(slots_are_apart_and_numbers_may_jump)
{
    struct server_rig rig;
    struct peer peer;
    open_all(&rig, &peer, false);
    for (uint32_t slot = 1; slot < MCI_SLOTS_MAX; slot++) {
        struct asked asked = {
            .op = MCI_OP_PUT_START, .slot = slot, .number = 1 + slot % 7};
        uint64_t number;
        peer_send_start(&peer, &asked, slot, 1);
        ck_assert_int_eq(peer_answer(&peer, &asked), MC_OK);
        ck_assert_uint_eq(peer_read_started(&peer, &number, 1), 1);
    }
    ck_assert_uint_eq(server_rig_core(&rig).attempts, MCI_SLOTS_MAX - 1);
    close_all(&rig, &peer);
}
END_TEST

START_TEST(a_read_is_done_again)
{
    struct server_rig rig;
    struct peer peer;
    const struct asked asked = {.op = MCI_OP_EXIST, .slot = 1, .number = 1};
    open_all(&rig, &peer, false);
    peer_send_keys(&peer, &asked, 0, 1);
    ck_assert_int_eq(peer_answer(&peer, &asked), MC_OK);
    ck_assert_uint_eq(peer_count_results(&peer, 0), 1);
    peer_put(&peer, 2, 0, 1);
    peer_send_keys(&peer, &asked, 0, 1);
    ck_assert_int_eq(peer_answer(&peer, &asked), MC_OK);
    ck_assert_uint_eq(peer_count_results(&peer, 1), 1);
    close_all(&rig, &peer);
}
END_TEST

/* ---- cancels ------------------------------------------------------------- */

START_TEST(a_cancel_before_the_request_makes_it_do_nothing)
{
    struct server_rig rig;
    struct peer first;
    struct peer second;
    uint64_t number;
    open_all(&rig, &first, false);
    peer_join_as(&second, &first);
    ck_assert_int_eq(cancel(&first, 3), MC_OK);
    ck_assert_int_eq(start(&second, 2, 0, 1, &number), MC_ERR_INVALID_VERSION);
    ck_assert_uint_eq(server_rig_core(&rig).attempts, 0);
    ck_assert_int_eq(start(&first, 4, 0, 1, &number), MC_OK);
    peer_close(&second);
    close_all(&rig, &first);
}
END_TEST

START_TEST(a_cancel_after_the_request_closes_what_it_started)
{
    struct server_rig rig;
    struct peer first;
    struct peer second;
    uint64_t numbers[300];
    open_all(&rig, &first, false);
    ck_assert_int_eq(start(&first, 2, 0, 300, numbers), MC_OK);
    ck_assert_uint_eq(server_rig_core(&rig).attempts, 300);
    peer_join_as(&second, &first);
    ck_assert_int_eq(cancel(&second, 3), MC_OK);
    ck_assert_uint_eq(server_rig_core(&rig).attempts, 0);
    ck_assert_uint_eq(server_rig_core(&rig).quarantined, 0);
    ck_assert_int_eq(cancel(&second, 3), MC_OK);
    ck_assert_int_eq(start(&first, 2, 0, 300, numbers), MC_ERR_INVALID_VERSION);
    ck_assert_int_eq(start(&first, 4, 0, 300, numbers), MC_OK);
    ck_assert_uint_eq(server_rig_core(&rig).attempts, 300);
    peer_close(&second);
    close_all(&rig, &first);
}
END_TEST

/* The next number alone says that the answer was seen. */
START_TEST(what_was_answered_and_not_cancelled_stands)
{
    struct server_rig rig;
    struct peer peer;
    uint64_t numbers[2];
    open_all(&rig, &peer, false);
    ck_assert_int_eq(start(&peer, 2, 0, 1, &numbers[0]), MC_OK);
    ck_assert_int_eq(start(&peer, 3, 1, 1, &numbers[1]), MC_OK);
    ck_assert_uint_eq(server_rig_core(&rig).attempts, 2);
    close_all(&rig, &peer);
}
END_TEST

START_TEST(a_cancel_meets_a_large_start_anywhere_and_leaves_nothing)
{
    struct server_rig rig;
    struct peer first;
    struct peer second;
    enum { COUNT = 20000 };
    open_all(&rig, &first, false);
    peer_join_as(&second, &first);
    for (uint64_t i = 0; i < 12; i++) {
        const struct asked asked = {.op = MCI_OP_PUT_START,
                                    .number = 2 + 2 * i};
        peer_send_start(&first, &asked, 0, COUNT);
        if (i % 3 > 0) {
            /* Somewhere on its way. */
            (void)AWAIT(server_rig_core(&rig).attempts > i * 1000);
        }
        ck_assert_int_eq(cancel(&second, asked.number + 1), MC_OK);
        ck_assert_uint_eq(server_rig_core(&rig).attempts, 0);
        /* If it had come to its end, its answer is there; else none is, or it is
         * stale. Whatever it is: a new connection follows. */
        peer_close(&first);
        peer_join_as(&first, &second);
        ck_assert_uint_eq(server_rig_core(&rig).attempts, 0);
    }
    peer_close(&second);
    close_all(&rig, &first);
}
END_TEST

/* ---- while the event log is full ----------------------------------------- */

/* Removes wait for room, so they are under way for as long as the test likes. */
struct stuck {
    struct server_rig rig;
    struct peer first;
    struct peer second;
    struct asked asked;
};

static void stuck_open(struct stuck *stuck, uint32_t count)
{
    open_all(&stuck->rig, &stuck->first, true);
    peer_put(&stuck->first, 2, 0, count);
    peer_join_as(&stuck->second, &stuck->first);
    server_rig_fill(&stuck->rig);
    stuck->asked = (struct asked){.op = MCI_OP_REMOVE, .number = 4};
    peer_send_keys(&stuck->first, &stuck->asked, 0, count);
    ck_assert(!peer_has_answer(&stuck->first, 20));
}

static void stuck_close(struct stuck *stuck)
{
    peer_close(&stuck->second);
    close_all(&stuck->rig, &stuck->first);
}

START_TEST(what_waits_for_the_log_is_done_once_there_is_room)
{
    struct stuck stuck;
    stuck_open(&stuck, 300);
    server_rig_drain(&stuck.rig);
    ck_assert(AWAIT(
        (server_rig_drain(&stuck.rig), peer_has_answer(&stuck.first, 0))));
    ck_assert_int_eq(peer_answer(&stuck.first, &stuck.asked), MC_OK);
    ck_assert_uint_eq(peer_count_results(&stuck.first, MC_OK), 300);
    stuck_close(&stuck);
}
END_TEST

START_TEST(what_waits_in_vain_answers_per_row_and_has_changed_nothing)
{
    struct stuck stuck;
    stuck_open(&stuck, 2);
    const struct asked asked = {
        .op = MCI_OP_REMOVE, .slot = 1, .number = 1, .time_left_ms = 50};
    peer_send_keys(&stuck.second, &asked, 0, 3);
    ck_assert_int_eq(peer_answer(&stuck.second, &asked), MC_OK);
    ck_assert_uint_eq(peer_count_results(&stuck.second, MC_ERR_RPC_TIMEOUT), 3);
    ck_assert_uint_eq(server_rig_core(&stuck.rig).objects, 2);
    stuck_close(&stuck);
}
END_TEST

START_TEST(others_are_answered_while_one_waits_for_the_log)
{
    struct stuck stuck;
    uint64_t number;
    stuck_open(&stuck, 2);
    for (uint64_t i = 1; i < 200; i++) {
        struct asked asked = {.op = MCI_OP_EXIST, .slot = 1, .number = i};
        peer_send_keys(&stuck.second, &asked, 0, 2);
        ck_assert_int_eq(peer_answer(&stuck.second, &asked), MC_OK);
        ck_assert_uint_eq(peer_count_results(&stuck.second, 1), 2);
    }
    const struct asked asked = {
        .op = MCI_OP_PUT_START, .slot = 1, .number = 200};
    peer_send_start(&stuck.second, &asked, 100, 1);
    ck_assert_int_eq(peer_answer(&stuck.second, &asked), MC_OK);
    ck_assert_uint_eq(peer_read_started(&stuck.second, &number, 1), 1);
    ck_assert(!peer_has_answer(&stuck.first, 0));
    stuck_close(&stuck);
}
END_TEST

START_TEST(a_retry_of_what_runs_waits_and_gets_its_answer)
{
    struct stuck stuck;
    stuck_open(&stuck, 2);
    peer_send_keys(&stuck.second, &stuck.asked, 0, 2);
    ck_assert(!peer_has_answer(&stuck.second, 20));
    server_rig_drain(&stuck.rig);
    ck_assert_int_eq(peer_answer(&stuck.second, &stuck.asked), MC_OK);
    ck_assert_uint_eq(peer_count_results(&stuck.second, MC_OK), 2);
    /* The connection that the retry replaced gets no answer. */
    ck_assert(!peer_has_answer(&stuck.first, 20));
    stuck_close(&stuck);
}
END_TEST

START_TEST(of_two_retries_the_later_one_is_answered)
{
    struct stuck stuck;
    struct peer third;
    stuck_open(&stuck, 2);
    peer_join_as(&third, &stuck.first);
    peer_send_keys(&stuck.second, &stuck.asked, 0, 2);
    ck_assert(!peer_has_answer(&stuck.second, 20));
    peer_send_keys(&third, &stuck.asked, 0, 2);
    peer_expect_end(&stuck.second);
    server_rig_drain(&stuck.rig);
    ck_assert_int_eq(peer_answer(&third, &stuck.asked), MC_OK);
    ck_assert_uint_eq(peer_count_results(&third, MC_OK), 2);
    peer_close(&third);
    stuck_close(&stuck);
}
END_TEST

START_TEST(it_goes_on_when_its_connection_is_gone)
{
    struct stuck stuck;
    stuck_open(&stuck, 2);
    peer_close(&stuck.first);
    server_rig_drain(&stuck.rig);
    ck_assert(AWAIT(server_rig_core(&stuck.rig).objects == 0));
    peer_send_keys(&stuck.second, &stuck.asked, 0, 2);
    ck_assert_int_eq(peer_answer(&stuck.second, &stuck.asked), MC_OK);
    ck_assert_uint_eq(peer_count_results(&stuck.second, MC_OK), 2);
    stuck_close(&stuck);
}
END_TEST

START_TEST(one_that_waits_may_go_away_too)
{
    struct stuck stuck;
    stuck_open(&stuck, 2);
    peer_send_keys(&stuck.second, &stuck.asked, 0, 2);
    ck_assert(!peer_has_answer(&stuck.second, 20));
    ck_assert_uint_eq(server_rig_stats(&stuck.rig).connections, 3);
    peer_close(&stuck.second);
    ck_assert(AWAIT(server_rig_stats(&stuck.rig).connections == 2));
    peer_close(&stuck.first);
    server_rig_drain(&stuck.rig);
    ck_assert(AWAIT(server_rig_core(&stuck.rig).objects == 0));
    ck_assert(AWAIT(server_rig_stats(&stuck.rig).connections == 1));
    stuck_close(&stuck);
}
END_TEST

START_TEST(a_cancel_stops_what_waits_and_is_answered_then)
{
    struct stuck stuck;
    stuck_open(&stuck, 600);
    ck_assert_int_eq(cancel(&stuck.second, 5), MC_OK);
    server_rig_drain(&stuck.rig);
    ck_assert(!peer_has_answer(&stuck.first, 20));
    ck_assert_uint_eq(server_rig_core(&stuck.rig).objects, 600);
    /* The slot goes on, and the first connection is of use again. */
    const struct asked asked = {.op = MCI_OP_EXIST, .number = 6};
    peer_send_keys(&stuck.first, &asked, 0, 2);
    ck_assert_int_eq(peer_answer(&stuck.first, &asked), MC_OK);
    stuck_close(&stuck);
}
END_TEST

START_TEST(a_heartbeat_stops_what_its_slot_has_given_up)
{
    struct stuck stuck;
    struct peer pulse;
    const uint64_t slots[] = {5};
    stuck_open(&stuck, 2);
    peer_pulse(&pulse, &stuck.first);
    ck_assert_int_eq(peer_beat(&pulse, slots, 1), MC_OK);
    server_rig_drain(&stuck.rig);
    ck_assert(!peer_has_answer(&stuck.first, 20));
    ck_assert_uint_eq(server_rig_core(&stuck.rig).objects, 2);
    peer_close(&pulse);
    stuck_close(&stuck);
}
END_TEST

START_TEST(a_walk_that_waits_for_the_log_is_stopped_by_a_cancel)
{
    struct stuck stuck;
    stuck_open(&stuck, 2);
    const struct asked walk = {.op = MCI_OP_REMOVE_ALL, .slot = 1, .number = 1};
    mci_pack_bool(peer_ask(&stuck.second, &walk), true);
    peer_send(&stuck.second);
    ck_assert(!peer_has_answer(&stuck.second, 20));
    const struct asked asked = {.op = MCI_OP_CANCEL, .slot = 1, .number = 2};
    struct peer third;
    peer_join_as(&third, &stuck.first);
    mci_pack_nil(peer_ask(&third, &asked));
    ck_assert_int_eq(peer_call(&third, &asked), MC_OK);
    ck_assert_uint_eq(server_rig_core(&stuck.rig).objects, 2);
    peer_close(&third);
    stuck_close(&stuck);
}
END_TEST

START_TEST(a_server_ends_while_requests_wait_for_the_log)
{
    struct stuck stuck;
    stuck_open(&stuck, 2);
    peer_send_keys(&stuck.second, &stuck.asked, 0, 2);
    ck_assert(!peer_has_answer(&stuck.second, 20));
    const struct asked walk = {.op = MCI_OP_REMOVE_ALL, .slot = 1, .number = 1};
    struct peer third;
    peer_join_as(&third, &stuck.first);
    mci_pack_bool(peer_ask(&third, &walk), true);
    peer_send(&third);
    ck_assert(!peer_has_answer(&third, 20));
    mci_control_server_destroy(stuck.rig.server);
    stuck.rig.server = NULL;
    peer_close(&third);
    stuck_close(&stuck);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("control_once");
    TCase *retries = tcase_create("retries");
    tcase_set_timeout(retries, 60);
    tcase_add_test(retries,
                   a_retried_start_answers_the_same_attempts_on_any_connection);
    tcase_add_test(retries, a_retried_end_commits_once);
    tcase_add_test(retries,
                   a_late_remove_deletes_nothing_that_was_put_after_it);
    tcase_add_test(retries, slots_are_apart_and_numbers_may_jump);
    tcase_add_test(retries, a_read_is_done_again);
    suite_add_tcase(suite, retries);
    TCase *cancels = tcase_create("cancels");
    tcase_set_timeout(cancels, 60);
    tcase_add_test(cancels, a_cancel_before_the_request_makes_it_do_nothing);
    tcase_add_test(cancels, a_cancel_after_the_request_closes_what_it_started);
    tcase_add_test(cancels, what_was_answered_and_not_cancelled_stands);
    tcase_add_test(cancels,
                   a_cancel_meets_a_large_start_anywhere_and_leaves_nothing);
    suite_add_tcase(suite, cancels);
    TCase *full = tcase_create("full log");
    tcase_set_timeout(full, 60);
    tcase_add_test(full, what_waits_for_the_log_is_done_once_there_is_room);
    tcase_add_test(full,
                   what_waits_in_vain_answers_per_row_and_has_changed_nothing);
    tcase_add_test(full, others_are_answered_while_one_waits_for_the_log);
    tcase_add_test(full, a_retry_of_what_runs_waits_and_gets_its_answer);
    tcase_add_test(full, of_two_retries_the_later_one_is_answered);
    tcase_add_test(full, it_goes_on_when_its_connection_is_gone);
    tcase_add_test(full, one_that_waits_may_go_away_too);
    tcase_add_test(full, a_cancel_stops_what_waits_and_is_answered_then);
    tcase_add_test(full, a_heartbeat_stops_what_its_slot_has_given_up);
    tcase_add_test(full, a_walk_that_waits_for_the_log_is_stopped_by_a_cancel);
    tcase_add_test(full, a_server_ends_while_requests_wait_for_the_log);
    suite_add_tcase(suite, full);
    return suite_run(suite);
}
