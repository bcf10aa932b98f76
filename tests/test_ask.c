/* SPDX-License-Identifier: Apache-2.0 */
/* Questions and answers over a real socket: order, pacing, refusals, faults,
 * and a question that ends another. */
#include <check.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "alloc_fail.h"
#include "mc_ask.h"
#include "mci_bytes.h"
#include "router.h"
#include "suite.h"

#define EDGE(name)         \
    "\x83\xa5"             \
    "epoch"                \
    "\x07" name "\x02\xa8" \
    "tail_seq"             \
    "\x03"
#define FIRST   \
    EDGE("\xa8" \
         "first_id")
#define LAST    \
    EDGE("\xa7" \
         "last_id")
#define STATUS   \
    "\x86\xa5"   \
    "epoch"      \
    "\x07\xa8"   \
    "tail_seq"   \
    "\x09\xaa"   \
    "oldest_seq" \
    "\x05"       \
    "\xa7"       \
    "last_id"    \
    "\x11\xa4"   \
    "keys"       \
    "\x04\xaa"   \
    "backend_id" \
    "\xa1"       \
    "n"

static struct mc_ask *open_ask(const struct router *router)
{
    const struct mc_ask_opts opts = {.endpoint = router->endpoint};
    struct mc_ask *ask = NULL;
    ck_assert_int_eq(mc_ask_open(&opts, &ask), MC_OK);
    return ask;
}

static struct mc_answer await(struct mc_ask *ask, enum mc_answer_type type)
{
    struct mc_answer answer;
    ck_assert_int_eq(mc_ask_next(ask, ROUTER_WAIT_MS, &answer), MC_OK);
    ck_assert_msg(answer.type == type, "type %d, %s", answer.type,
                  answer.fault ? answer.fault : "no fault");
    return answer;
}

/* Frames as texts of which a number is 8 bytes. */
static void send_batch(struct router *router, const struct router_heard *to,
                       uint64_t seq, const char *payload)
{
    char number[8];
    mci_put_be64(number, seq);
    const struct mc_view frames[4] = {
        {"", 0}, {"t", 1}, {number, 8}, mc_view_str(payload)};
    router_send(router, to, frames, 4);
}

static void send_part(struct router *router, const struct router_heard *to,
                      uint64_t index, const char *payload, bool is_last)
{
    char number[8];
    mci_put_be64(number, index);
    const struct mc_view frames[5] = {
        {"", 0}, {"snapshot", 8}, {number, 8}, mc_view_str(payload), {"", 0}};
    router_send(router, to, frames, is_last ? 5 : 4);
}

static void send_status(struct router *router, const struct router_heard *to)
{
    const struct mc_view frames[3] = {
        {"", 0}, {"status", 6}, {STATUS, sizeof STATUS - 1}};
    router_send(router, to, frames, 3);
}

static void expect_ended(struct mc_ask *ask)
{
    struct mc_answer answer;
    ck_assert_int_eq(mc_ask_next(ask, 0, &answer),
                     MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS);
}

START_TEST(a_status_is_one_answer)
{
    struct router router;
    struct router_heard heard;
    struct mc_answer answer;
    router_open(&router);
    struct mc_ask *ask = open_ask(&router);
    expect_ended(ask);
    ck_assert_int_eq(mc_ask_status(ask), MC_OK);
    ck_assert_int_eq(mc_ask_next(ask, 1, &answer), MC_ERR_RPC_TIMEOUT);
    router_hear(&router, &heard);
    send_status(&router, &heard);
    struct pollfd polled = {.fd = mc_ask_fd(ask), .events = POLLIN};
    ck_assert_int_eq(poll(&polled, 1, ROUTER_WAIT_MS), 1);
    answer = await(ask, MC_ANSWER_STATUS);
    ck_assert_uint_eq(answer.epoch, 7);
    ck_assert_uint_eq(answer.tail_seq, 9);
    ck_assert_uint_eq(answer.oldest_seq, 5);
    ck_assert_uint_eq(answer.last_id, 17);
    ck_assert_uint_eq(answer.keys, 4);
    ck_assert(mc_view_equal(answer.backend_id, mc_view_str("n")));
    ck_assert_ptr_null(answer.fault);
    expect_ended(ask);
    router_forget(&heard);
    mc_ask_close(ask);
    router_close(&router);
}
END_TEST

START_TEST(a_replay_is_its_messages_and_an_end)
{
    struct router router;
    struct router_heard heard;
    router_open(&router);
    struct mc_ask *ask = open_ask(&router);
    ck_assert_int_eq(mc_ask_replay(ask, 3, 0), MC_OK);
    router_hear(&router, &heard);
    ck_assert_uint_eq(heard.count, 2); /* not paced */
    send_batch(&router, &heard, 3, "first");
    send_batch(&router, &heard, 7, "second");
    send_batch(&router, &heard, UINT64_MAX, "");
    struct mc_answer answer = await(ask, MC_ANSWER_BATCH);
    ck_assert_uint_eq(answer.number, 3);
    ck_assert(mc_view_equal(answer.frames[0], mc_view_str("t")));
    ck_assert_uint_eq(mci_get_be64(answer.frames[1].data), 3);
    ck_assert(mc_view_equal(answer.frames[2], mc_view_str("first")));
    answer = await(ask, MC_ANSWER_BATCH);
    ck_assert_uint_eq(answer.number, 7);
    (void)await(ask, MC_ANSWER_END);
    expect_ended(ask);
    router_forget(&heard);
    mc_ask_close(ask);
    router_close(&router);
}
END_TEST

/* A server that keeps to the pace sends no more than it was granted; what it is
 * granted keeps it going. */
START_TEST(a_paced_replay_is_granted_more_as_it_is_taken)
{
    enum { WINDOW = 8, COUNT = 100 };
    struct router router;
    struct router_heard asked;
    router_open(&router);
    struct mc_ask *ask = open_ask(&router);
    ck_assert_int_eq(mc_ask_replay(ask, 1, WINDOW), MC_OK);
    router_hear(&router, &asked);
    ck_assert_uint_eq(asked.count, 3);
    uint64_t credit = mci_get_be32(asked.frames[2].data);
    uint64_t granted = credit;
    ck_assert_uint_eq(credit, WINDOW);
    uint64_t sent = 0;
    uint64_t taken = 0;
    while (taken < COUNT) {
        for (; credit > 0 && sent < COUNT; credit--) {
            send_batch(&router, &asked, ++sent, "x");
        }
        ck_assert_uint_eq(await(ask, MC_ANSWER_BATCH).number, ++taken);
        ck_assert_uint_le(sent - taken, WINDOW);
        if (credit == 0 && sent - taken <= WINDOW / 2 && sent < COUNT) {
            struct router_heard more;
            router_hear(&router, &more);
            ck_assert(mc_view_equal(more.peer, asked.peer));
            ck_assert(mc_view_equal(more.frames[1], mc_view_str("credit")));
            credit = mci_get_be32(more.frames[2].data);
            granted += credit;
            ck_assert_uint_le(granted - taken, WINDOW);
            router_forget(&more);
        }
    }
    router_forget(&asked);
    mc_ask_close(ask);
    router_close(&router);
}
END_TEST

START_TEST(a_snapshot_begins_counts_its_rows_and_ends)
{
    struct router router;
    struct router_heard heard;
    router_open(&router);
    struct mc_ask *ask = open_ask(&router);
    ck_assert_int_eq(mc_ask_snapshot(ask, mc_view_str("t1")), MC_OK);
    router_hear(&router, &heard);
    ck_assert(mc_view_equal(heard.frames[2], mc_view_str("t1")));
    send_part(&router, &heard, 0, FIRST, false);
    send_part(&router, &heard, 1, "rows", false);
    send_part(&router, &heard, 2, LAST, true);
    struct mc_answer answer = await(ask, MC_ANSWER_FIRST);
    ck_assert_uint_eq(answer.epoch, 7);
    ck_assert_uint_eq(answer.first_id, 2);
    ck_assert_uint_eq(answer.tail_seq, 3);
    answer = await(ask, MC_ANSWER_ROWS);
    ck_assert_uint_eq(answer.number, 1);
    ck_assert_uint_eq(answer.frames[0].len, 0);
    ck_assert(mc_view_equal(answer.frames[2], mc_view_str("rows")));
    answer = await(ask, MC_ANSWER_LAST);
    ck_assert_uint_eq(answer.last_id, 2);
    expect_ended(ask);
    router_forget(&heard);
    mc_ask_close(ask);
    router_close(&router);
}
END_TEST

enum question { ASKS_STATUS, ASKS_REPLAY, ASKS_SNAPSHOT };

/* What follows a question ends it, and what comes behind that is not heard. */
static const struct {
    enum question question;
    uint64_t numbers[3]; /* of the messages sent; 0 first: none */
    size_t good;         /* answers before the end */
    enum mc_answer_type type;
    const char *fault;
} ends[] = {
    {ASKS_REPLAY, {5, 5, 0}, 1, MC_ANSWER_BAD, "number"},
    {ASKS_REPLAY, {5, 4, 0}, 1, MC_ANSWER_BAD, "number"},
    {ASKS_REPLAY, {2, 0, 0}, 0, MC_ANSWER_BAD, "number"}, /* from 3 on */
    {ASKS_REPLAY, {3, UINT64_MAX, 0}, 1, MC_ANSWER_END, NULL},
    {ASKS_SNAPSHOT, {1, 0, 0}, 0, MC_ANSWER_BAD, "number"},
    {ASKS_SNAPSHOT, {UINT64_MAX, 0, 0}, 0, MC_ANSWER_REFUSED, NULL},
    {ASKS_STATUS, {UINT64_MAX, 0, 0}, 0, MC_ANSWER_REFUSED, NULL},
    {ASKS_STATUS, {1, 0, 0}, 0, MC_ANSWER_BAD, "frame_count"},
};

START_TEST(what_may_not_come_ends_a_question)
{
    struct router router;
    struct router_heard heard;
    router_open(&router);
    struct mc_ask *ask = open_ask(&router);
    enum mc_err err = ends[_i].question == ASKS_STATUS ? mc_ask_status(ask)
                      : ends[_i].question == ASKS_REPLAY
                          ? mc_ask_replay(ask, 3, 0)
                          : mc_ask_snapshot(ask, mc_view_make(NULL, 0));
    ck_assert_int_eq(err, MC_OK);
    router_hear(&router, &heard);
    for (size_t i = 0; i < 3 && ends[_i].numbers[i]; i++) {
        uint64_t number = ends[_i].numbers[i];
        if (ends[_i].question == ASKS_SNAPSHOT && number != UINT64_MAX) {
            send_part(&router, &heard, number, "rows", false);
        } else {
            send_batch(&router, &heard, number,
                       number == UINT64_MAX ? "" : "x");
        }
    }
    for (size_t i = 0; i < ends[_i].good; i++) {
        (void)await(ask, MC_ANSWER_BATCH);
    }
    struct mc_answer answer = await(ask, ends[_i].type);
    if (ends[_i].fault) {
        ck_assert_str_eq(answer.fault, ends[_i].fault);
    } else {
        ck_assert_ptr_null(answer.fault);
    }
    expect_ended(ask);
    router_forget(&heard);
    mc_ask_close(ask);
    router_close(&router);
}
END_TEST

START_TEST(a_question_ends_the_one_before_with_all_that_is_late)
{
    struct router router;
    struct router_heard heard[2];
    router_open(&router);
    struct mc_ask *ask = open_ask(&router);
    ck_assert_int_eq(mc_ask_replay(ask, 1, 0), MC_OK);
    router_hear(&router, &heard[0]);
    send_batch(&router, &heard[0], 1, "taken");
    send_batch(&router, &heard[0], 2, "late");
    send_batch(&router, &heard[0], 3, "later");
    (void)await(ask, MC_ANSWER_BATCH);
    ck_assert_int_eq(mc_ask_status(ask), MC_OK);
    router_hear(&router, &heard[1]);
    send_status(&router, &heard[1]);
    (void)await(ask, MC_ANSWER_STATUS);
    expect_ended(ask);
    for (int i = 0; i < 30; i++) { /* more than may be open at a time */
        ck_assert(AWAIT(mc_ask_status(ask) == MC_OK));
    }
    router_forget(&heard[0]);
    router_forget(&heard[1]);
    mc_ask_close(ask);
    router_close(&router);
}
END_TEST

START_TEST(what_cannot_be_asked_is_refused)
{
    struct mc_ask *ask = NULL;
    struct mc_ask_opts opts = {.endpoint = ""};
    ck_assert_int_eq(mc_ask_open(NULL, &ask), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_ask_open(&opts, &ask), MC_ERR_INVALID_PARAMS);
    opts.endpoint = "tcp://127.0.0.1:1";
    opts.curve_server_key = "no key";
    ck_assert_int_eq(mc_ask_open(&opts, &ask), MC_ERR_INVALID_PARAMS);
    ck_assert_ptr_null(ask);
    opts.curve_server_key = NULL;
    ck_assert_int_eq(mc_ask_open(&opts, &ask), MC_OK);
    ck_assert_int_eq(mc_ask_snapshot(ask, mc_view_str("")),
                     MC_ERR_INVALID_PARAMS);
    expect_ended(ask);
    mc_ask_close(ask);
    mc_ask_close(NULL);
}
END_TEST

START_TEST(opening_without_memory_leaves_nothing_behind)
{
    const struct mc_ask_opts opts = {.endpoint = "tcp://127.0.0.1:1"};
    struct alloc_fail fail;
    ALLOC_FAIL_EACH(fail)
    {
        struct mc_ask *ask = NULL;
        alloc_fail_arm(&fail);
        enum mc_err err = mc_ask_open(&opts, &ask);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        mc_ask_close(ask);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("ask");
    TCase *answers = tcase_create("answers");
    tcase_set_timeout(answers, 60);
    tcase_add_test(answers, a_status_is_one_answer);
    tcase_add_test(answers, a_replay_is_its_messages_and_an_end);
    tcase_add_test(answers, a_paced_replay_is_granted_more_as_it_is_taken);
    tcase_add_test(answers, a_snapshot_begins_counts_its_rows_and_ends);
    tcase_add_loop_test(answers, what_may_not_come_ends_a_question, 0,
                        sizeof ends / sizeof ends[0]);
    tcase_add_test(answers,
                   a_question_ends_the_one_before_with_all_that_is_late);
    suite_add_tcase(suite, answers);
    TCase *life = tcase_create("life");
    tcase_set_timeout(life, 60);
    tcase_add_test(life, what_cannot_be_asked_is_refused);
    tcase_add_test(life, opening_without_memory_leaves_nothing_behind);
    suite_add_tcase(suite, life);
    return suite_run(suite);
}
