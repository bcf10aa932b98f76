/* SPDX-License-Identifier: Apache-2.0 */
/* test_recovery_random.c - a few peers ask at random and read or do not: each gets
 * all its answers, whole and in the order of its requests. */
#include "recovery_rig.h"
#include "suite.h"

static struct recovery_rig rig;

#define CROWD 7
#define ASKED_MAX 400

enum answer { ANSWER_END, ANSWER_REPLAY, ANSWER_SNAPSHOT };

/* A peer, and what it has to hear next. */
struct asking {
    enum answer due[ASKED_MAX];
    size_t asked;
    size_t answered;
    uint64_t statuses; /* still to come */
    uint64_t last;     /* number or index of the part heard last; 0: none */
};

static struct asking asking[CROWD];
static uint64_t dice;

static uint64_t roll(uint64_t sides)
{
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return dice % sides;
}

static void ask_something(unsigned i)
{
    struct asking *peer = &asking[i];
    uint64_t refused = rig_recovery_stats(&rig).refused;
    enum answer due = (enum answer)roll(3);
    if (roll(4) == 0) {
        rig_ask_word(&rig, rig_peer_name(i), "status");
        peer->statuses++;
        return;
    }
    if (due == ANSWER_REPLAY) {
        rig_ask_replay(&rig, rig_peer_name(i), 1 + roll(25));
    } else if (due == ANSWER_SNAPSHOT) {
        rig_ask_word(&rig, rig_peer_name(i), "snapshot");
    } else {
        rig_ask_word(&rig, rig_peer_name(i), "what");
    }
    ck_assert_uint_lt(peer->asked, ASKED_MAX);
    peer->due[peer->asked++] =
        rig_recovery_stats(&rig).refused > refused ? ANSWER_END : due;
}

/* The message must be a part of what is due to its peer. */
static void hear_answer(const struct mci_recovery_message *message)
{
    struct asking *peer = &asking[rig_peer_index(message)];
    if (mc_view_equal(message->frames[2], mc_view_str("status"))) {
        ck_assert_uint_gt(peer->statuses--, 0);
        return;
    }
    ck_assert_uint_lt(peer->answered, peer->asked);
    enum answer due = peer->due[peer->answered];
    bool is_part = mc_view_equal(message->frames[2], mc_view_str("snapshot"));
    bool is_end = is_part ? message->count == 6 : rig_is_end(message);
    uint64_t number = mci_get_be64(message->frames[3].data);
    ck_assert(is_part == (due == ANSWER_SNAPSHOT));
    ck_assert(is_end || due != ANSWER_END);
    ck_assert(is_part ? number == peer->last : is_end || number > peer->last);
    peer->last = is_part ? number + 1 : number;
    if (is_end) {
        peer->last = 0;
        peer->answered++;
    }
}

static bool is_all_answered(void)
{
    bool is_all = true;
    for (unsigned i = 0; i < CROWD; i++) {
        is_all = is_all && asking[i].answered == asking[i].asked &&
                 asking[i].statuses == 0;
    }
    return is_all;
}

START_TEST(answers_of_each_peer_come_whole_and_in_order)
{
    struct mci_recovery_message message;
    memset(asking, 0, sizeof asking);
    dice = (uint64_t)_i * 7919 + 1;
    rig_open_recovery(&rig, rig_recovery_opts(), 0);
    rig.keys = 300;
    rig.slice = 20;
    rig_keep(&rig, 1, 20);
    for (int turn = 0; turn < 30000; turn++) {
        if (turn < 3000 && roll(4) == 0) {
            ask_something((unsigned)roll(CROWD));
        }
        if (!rig_give(&rig, &message)) {
            rig.now_ns += MCI_RECOVERY_RETRY_NS;
        } else if (roll(5) == 0) {
            rig_tell(&rig, MCI_RECOVERY_BLOCKED);
        } else {
            hear_answer(&message);
            rig_tell(&rig, MCI_RECOVERY_SENT);
        }
    }
    ck_assert(is_all_answered());
    ck_assert_uint_eq(rig_recovery_stats(&rig).serving, 0);
    ck_assert_uint_eq(rig_recovery_stats(&rig).unanswered, 0);
    ck_assert_uint_gt(rig_recovery_stats(&rig).refused, 0);
    rig_close_recovery(&rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("recovery_random");
    TCase *tc = tcase_create("at random");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, answers_of_each_peer_come_whole_and_in_order, 0,
                        20);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
