/* SPDX-License-Identifier: Apache-2.0 */
/* The heartbeat thread: what it tells, what it carries out, and how it comes
 * back when the master has gone or has forgotten it.
 */
#include <signal.h>
#include <string.h>

#include "mci_clock.h"
#include "remote_rig.h"
#include "suite.h"

static struct rig rig;

static bool has_beaten(uint64_t times)
{
    uint64_t from = fake_last_beat(&rig.master).count;
    return AWAIT(fake_last_beat(&rig.master).count >= from + times);
}

/* ---- what it tells ------------------------------------------------------- */

START_TEST(open_attempts_are_told_and_renewed)
{
    rig_open(&rig);
    struct mci_write_row row;
    struct mc_grant grant = {.tag = 0};
    ck_assert_int_eq(rig_start(&rig, &row, 5000), MC_OK);
    ck_assert(has_beaten(2));
    ck_assert_uint_eq(fake_last_beat(&rig.master).attempt_count, 1);
    ck_assert_uint_eq(fake_last_beat(&rig.master).attempts[0], 100);
    const struct mci_renewal renewals[2] = {
        {.attempt = 100, .place_count = 1, .grants = {{77, 78}}},
        {.attempt = 101, .place_count = 1}};
    fake_pulse(&rig.master,
               &(struct mci_pulse){.renewals = renewals, .renewal_count = 2});
    ck_assert(AWAIT(mci_remote_attempt_grant(rig.remote, 100, 0, &grant) &&
                    grant.tag == 78));
    ck_assert_uint_eq(grant.deadline_ns, 77);
    ck_assert(!mci_remote_attempt_grant(rig.remote, 101, 0, &grant));
    rig_close(&rig);
}
END_TEST

START_TEST(what_the_master_has_closed_leaves_the_book)
{
    rig_open(&rig);
    struct mci_write_row row;
    ck_assert_int_eq(rig_start(&rig, &row, 5000), MC_OK);
    const uint64_t closed[1] = {100};
    fake_pulse(&rig.master,
               &(struct mci_pulse){.closed = closed, .closed_count = 1});
    ck_assert(AWAIT(atomic_load(&rig.closed) == 1));
    ck_assert_uint_eq(atomic_load(&rig.last_closed), 100);
    ck_assert(!mci_remote_attempt_touched(rig.remote, 100));
    rig_close(&rig);
}
END_TEST

/* SAFETY B.3, B.4 */
START_TEST(a_fence_is_acknowledged_at_once)
{
    char address[32];
    rig_begin(&rig);
    atomic_store(&rig.master.heartbeat_ms, 1000);
    struct mci_remote_opts opts = rig_opts(&rig, address);
    ck_assert_int_eq(mci_remote_open(&opts, &rig.remote), MC_OK);
    const struct mc_fence fences[2] = {{1, MC_FENCE_ATTEMPT, 100},
                                       {2, MC_FENCE_INCARNATION, 5}};
    const struct mci_pulse pulse = {.fences = fences, .fence_count = 2};
    fake_pulse(&rig.master, &pulse);
    ck_assert(AWAIT(fake_last_beat(&rig.master).fences_done == 2));
    ck_assert_uint_eq(atomic_load(&rig.fenced), 2);
    struct fake_beat beat = fake_last_beat(&rig.master);
    /* The one before brought them: a second ago if a beat lay between. */
    ck_assert_uint_le(beat.count, 4);
    /* What was done is not done again when it is told again. */
    fake_pulse(&rig.master, &pulse);
    ck_assert(has_beaten(2));
    ck_assert_uint_eq(atomic_load(&rig.fenced), 2);
    rig_close(&rig);
}
END_TEST

START_TEST(what_is_stuck_is_asked_for_until_it_is_not)
{
    rig_open(&rig);
    const struct mc_fence fence = {1, MC_FENCE_ATTEMPT, 100};
    atomic_store(&rig.stuck_left, 4);
    fake_pulse(&rig.master,
               &(struct mci_pulse){.fences = &fence, .fence_count = 1});
    ck_assert(AWAIT(fake_last_beat(&rig.master).stuck_count == 1));
    ck_assert_uint_eq(fake_last_beat(&rig.master).fences_done, 1);
    ck_assert(AWAIT(fake_last_beat(&rig.master).stuck_count == 0));
    ck_assert_uint_ge(atomic_load(&rig.asked_stuck), 4);
    unsigned asked = atomic_load(&rig.asked_stuck);
    ck_assert(has_beaten(2));
    ck_assert_uint_eq(atomic_load(&rig.asked_stuck), asked);
    rig_close(&rig);
}
END_TEST

START_TEST(fences_out_of_order_are_not_believed)
{
    rig_open(&rig);
    const struct mc_fence fences[2] = {{5, MC_FENCE_ATTEMPT, 100},
                                       {5, MC_FENCE_ATTEMPT, 101}};
    fake_pulse(&rig.master,
               &(struct mci_pulse){.fences = fences, .fence_count = 2});
    ck_assert(has_beaten(3));
    ck_assert_uint_eq(atomic_load(&rig.fenced), 0);
    ck_assert_uint_eq(fake_last_beat(&rig.master).fences_done, 0);
    rig_close(&rig);
}
END_TEST

/* ---- life and death ------------------------------------------------------ */

START_TEST(a_forgotten_client_becomes_another_one)
{
    rig_open(&rig);
    struct mci_write_row row;
    struct mci_remote_self before = mci_remote_self(rig.remote);
    const struct mc_fence fence = {9, MC_FENCE_ATTEMPT, 1};
    ck_assert_int_eq(rig_start(&rig, &row, 5000), MC_OK);
    fake_pulse(&rig.master,
               &(struct mci_pulse){.fences = &fence, .fence_count = 1});
    ck_assert(AWAIT(fake_last_beat(&rig.master).fences_done == 9));
    fake_forget(&rig.master);
    ck_assert(AWAIT(atomic_load(&rig.renewed) == 1));
    struct mci_remote_self after = mci_remote_self(rig.remote);
    ck_assert_uint_ne(after.incarnation, before.incarnation);
    ck_assert_uint_ne(after.client, before.client);
    ck_assert_uint_eq(after.epoch, before.epoch);
    /* Its attempts, numbers and fences are those of another life. */
    ck_assert(has_beaten(1));
    struct fake_beat beat = fake_last_beat(&rig.master);
    ck_assert_uint_eq(beat.attempt_count, 0);
    ck_assert_uint_eq(beat.fences_done, 0);
    ck_assert_uint_eq(beat.slots[0], 0);
    ck_assert(!mci_remote_attempt_touched(rig.remote, 100));
    ck_assert(AWAIT(mci_remote_health(rig.remote) == 0));
    rig_close(&rig);
}
END_TEST

START_TEST(a_new_master_is_found_within_two_heartbeats)
{
    rig_open(&rig);
    atomic_store(&rig.master.heartbeat_ms, 500);
    fake_forget(&rig.master);
    ck_assert(AWAIT(atomic_load(&rig.renewed) == 1));
    ck_assert(has_beaten(1));
    uint64_t begun_ns = mci_clock_ns();
    fake_restart(&rig.master);
    ck_assert(AWAIT(atomic_load(&rig.renewed) == 2));
    ck_assert_uint_lt(mci_clock_ns() - begun_ns, 1000 * MCI_NS_PER_MS);
    ck_assert_uint_eq(mci_remote_self(rig.remote).epoch, 1001);
    rig_close(&rig);
}
END_TEST

START_TEST(a_held_name_is_waited_for)
{
    char address[32];
    rig_begin(&rig);
    atomic_store(&rig.master.hello_refusals, 3);
    struct mci_remote_opts opts = rig_opts(&rig, address);
    ck_assert_int_eq(mci_remote_open(&opts, &rig.remote), MC_OK);
    ck_assert_uint_eq(fake_seen(&rig.master, MCI_OP_HELLO), 4);
    struct mci_remote *other = NULL;
    atomic_store(&rig.master.hello_refusals, 1000);
    opts.connect_timeout_ms = 300;
    ck_assert_int_eq(mci_remote_open(&opts, &other),
                     MC_ERR_SEGMENT_ALREADY_EXISTS);
    ck_assert_ptr_null(other);
    rig_close(&rig);
}
END_TEST

START_TEST(a_master_that_does_not_answer_is_told_as_such)
{
    rig_open(&rig);
    ck_assert_int_eq(mci_remote_health(rig.remote), 0);
    atomic_store(&rig.master.is_deaf, true);
    ck_assert(AWAIT(mci_remote_health(rig.remote) == 2));
    atomic_store(&rig.master.is_deaf, false);
    ck_assert(AWAIT(mci_remote_health(rig.remote) == 0));
    ck_assert_uint_eq(atomic_load(&rig.renewed), 0);
    rig_close(&rig);
}
END_TEST

START_TEST(heartbeats_go_on_while_calls_stall)
{
    rig_open(&rig);
    int64_t result = 0;
    rig_set(&rig, RIG_STALL, 1);
    uint64_t from = fake_last_beat(&rig.master).count;
    ck_assert_int_eq(rig_exist(&rig, &result, 1000), MC_ERR_RPC_TIMEOUT);
    ck_assert_uint_ge(fake_last_beat(&rig.master).count, from + 4);
    rig_close(&rig);
}
END_TEST

/* ---- the end ------------------------------------------------------------- */

START_TEST(a_client_that_leaves_says_so)
{
    rig_open(&rig);
    ck_assert(has_beaten(1));
    mci_remote_close(rig.remote, mci_clock_ns() + 5 * MCI_NS_PER_S);
    ck_assert_uint_eq(fake_seen(&rig.master, MCI_OP_GOODBYE), 1);
    ck_assert_int_eq(fake_logged(&rig.master, 0).op, MCI_OP_GOODBYE);
    fake_close(&rig.master);
}
END_TEST

START_TEST(leaving_a_master_that_is_deaf_takes_little_time)
{
    rig_open(&rig);
    ck_assert(has_beaten(1));
    atomic_store(&rig.master.is_deaf, true);
    rig_set(&rig, RIG_STALL, 1000);
    uint64_t begun_ns = mci_clock_ns();
    mci_remote_close(rig.remote, mci_clock_ns() + 60 * MCI_NS_PER_S);
    ck_assert_uint_lt(mci_clock_ns() - begun_ns, 5 * MCI_NS_PER_S);
    atomic_store(&rig.released, true);
    fake_close(&rig.master);
    mci_remote_close(NULL, 0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("remote_life");
    TCase *telling = tcase_create("telling");
    tcase_set_timeout(telling, 30);
    tcase_add_test(telling, open_attempts_are_told_and_renewed);
    tcase_add_test(telling, what_the_master_has_closed_leaves_the_book);
    tcase_add_test(telling, a_fence_is_acknowledged_at_once);
    tcase_add_test(telling, what_is_stuck_is_asked_for_until_it_is_not);
    tcase_add_test(telling, fences_out_of_order_are_not_believed);
    suite_add_tcase(suite, telling);
    TCase *life = tcase_create("life");
    tcase_set_timeout(life, 30);
    tcase_add_test(life, a_forgotten_client_becomes_another_one);
    tcase_add_test(life, a_new_master_is_found_within_two_heartbeats);
    tcase_add_test(life, a_held_name_is_waited_for);
    tcase_add_test(life, a_master_that_does_not_answer_is_told_as_such);
    tcase_add_test(life, heartbeats_go_on_while_calls_stall);
    suite_add_tcase(suite, life);
    TCase *end = tcase_create("end");
    tcase_set_timeout(end, 30);
    tcase_add_test(end, a_client_that_leaves_says_so);
    tcase_add_test(end, leaving_a_master_that_is_deaf_takes_little_time);
    suite_add_tcase(suite, end);
    return suite;
}

int main(void)
{
    return suite_run(make_suite());
}
