/* SPDX-License-Identifier: Apache-2.0 */
/* test_row_outcome.c - every answer of the store at every stage, and what a row
 * makes of it: the table of docs/row_driver.md. */
#include <string.h>

#include "row_outcome.h"
#include "suite.h"

#define SIZE 100
#define R(name) MC_ROW_REASON_##name

struct answer {
    enum mci_row_stage at;
    int64_t result;
    bool is_touched;
    enum mci_row_stage then;
    enum mc_row_reason reason;
};

static const struct answer reads[] = {
    {MCI_ROW_READ, SIZE, false, MCI_ROW_OVER, R(MOVED)},
    {MCI_ROW_READ, SIZE - 1, false, MCI_ROW_OVER, R(WRONG_SIZE)},
    {MCI_ROW_READ, 0, false, MCI_ROW_OVER, R(WRONG_SIZE)},
    {MCI_ROW_READ, SIZE + 1, false, MCI_ROW_OVER, R(WRONG_SIZE)},
    {MCI_ROW_READ, -600, false, MCI_ROW_OVER, R(WRONG_SIZE)},
    {MCI_ROW_READ, -704, false, MCI_ROW_OVER, R(ABSENT)},
    {MCI_ROW_READ, -704, true, MCI_ROW_OVER, R(GONE)},
    {MCI_ROW_READ, -703, false, MCI_ROW_OVER, R(BEING_WRITTEN)},
    {MCI_ROW_READ, -703, true, MCI_ROW_OVER, R(GONE)},
    {MCI_ROW_READ, -702, false, MCI_ROW_OVER, R(GONE)},
    {MCI_ROW_READ, -707, true, MCI_ROW_READ_AGAIN, R(NONE)},
    {MCI_ROW_READ, -800, true, MCI_ROW_OVER, R(TRANSFER)},
    {MCI_ROW_READ, -801, true, MCI_ROW_OVER, R(CHECKSUM)},
    {MCI_ROW_READ, -900, false, MCI_ROW_OVER, R(UNREACHABLE)},
    {MCI_ROW_READ, -901, false, MCI_ROW_OVER, R(UNREACHABLE)},
    {MCI_ROW_READ, -103, false, MCI_ROW_OVER, R(UNREACHABLE)},
    {MCI_ROW_READ, -11, false, MCI_ROW_OVER, R(NO_MEMORY)},
    {MCI_ROW_READ, -1, false, MCI_ROW_OVER, R(REFUSED)},
    {MCI_ROW_READ_AGAIN, SIZE, true, MCI_ROW_OVER, R(MOVED)},
    {MCI_ROW_READ_AGAIN, SIZE - 1, true, MCI_ROW_OVER, R(WRONG_SIZE)},
    {MCI_ROW_READ_AGAIN, -704, false, MCI_ROW_OVER, R(GONE)},
    {MCI_ROW_READ_AGAIN, -703, false, MCI_ROW_OVER, R(GONE)},
    {MCI_ROW_READ_AGAIN, -707, true, MCI_ROW_OVER, R(LEASE_LOST)},
    {MCI_ROW_READ_AGAIN, -800, true, MCI_ROW_OVER, R(TRANSFER)},
};

/* Reasons of rows that go on are those they have if they are revoked. */
static const struct answer writes[] = {
    {MCI_ROW_OPEN, 0, false, MCI_ROW_WRITE, R(NONE)},
    {MCI_ROW_OPEN, -705, false, MCI_ROW_LOOK, R(BEING_WRITTEN)},
    {MCI_ROW_OPEN, -200, false, MCI_ROW_OVER, R(NO_SPACE)},
    {MCI_ROW_OPEN, -1700, false, MCI_ROW_OVER, R(OVER_QUOTA)},
    {MCI_ROW_OPEN, -1701, false, MCI_ROW_OVER, R(OVER_QUOTA)},
    {MCI_ROW_OPEN, -600, false, MCI_ROW_OVER, R(REFUSED)},
    {MCI_ROW_OPEN, -400, false, MCI_ROW_OVER, R(REFUSED)},
    {MCI_ROW_OPEN, -900, false, MCI_ROW_OVER, R(UNREACHABLE)},
    {MCI_ROW_OPEN, -901, false, MCI_ROW_OVER, R(UNREACHABLE)},
    {MCI_ROW_OPEN, -11, false, MCI_ROW_OVER, R(NO_MEMORY)},
    {MCI_ROW_WRITE, SIZE, false, MCI_ROW_END, R(NONE)},
    {MCI_ROW_WRITE, SIZE - 1, false, MCI_ROW_REVOKE, R(TRANSFER)},
    {MCI_ROW_WRITE, -800, false, MCI_ROW_REVOKE, R(TRANSFER)},
    {MCI_ROW_WRITE, -11, false, MCI_ROW_REVOKE, R(NO_MEMORY)},
    {MCI_ROW_WRITE, -600, false, MCI_ROW_REVOKE, R(REFUSED)},
    {MCI_ROW_END, 0, false, MCI_ROW_OVER, R(MOVED)},
    {MCI_ROW_END, -900, false, MCI_ROW_END_AGAIN, R(NONE)},
    {MCI_ROW_END, -901, false, MCI_ROW_END_AGAIN, R(NONE)},
    {MCI_ROW_END, -800, false, MCI_ROW_REVOKE, R(TRANSFER)},
    {MCI_ROW_END, -700, false, MCI_ROW_REVOKE, R(REFUSED)},
    {MCI_ROW_END, -300, false, MCI_ROW_REVOKE, R(GONE)},
    {MCI_ROW_END, -11, false, MCI_ROW_REVOKE, R(NO_MEMORY)},
    {MCI_ROW_END_AGAIN, 0, false, MCI_ROW_OVER, R(MOVED)},
    {MCI_ROW_END_AGAIN, -900, false, MCI_ROW_REVOKE, R(UNANSWERED)},
    {MCI_ROW_END_AGAIN, -901, false, MCI_ROW_REVOKE, R(UNANSWERED)},
    {MCI_ROW_END_AGAIN, -300, false, MCI_ROW_REVOKE, R(GONE)},
};

static void check_answer(const struct answer *row)
{
    struct mci_row_course course = {.stage = row->at,
                                    .is_touched = row->is_touched};
    mci_row_answer(&course, row->result, SIZE);
    ck_assert_msg(course.stage == row->then && course.reason == row->reason,
                  "stage %d, answer %jd: stage %d, reason %s", (int)row->at,
                  (intmax_t)row->result, (int)course.stage,
                  mc_row_reason_name(course.reason));
    bool has_code = course.reason != R(NONE) && row->result < 0;
    bool is_short = row->at == MCI_ROW_WRITE && row->result == SIZE - 1;
    ck_assert_int_eq(course.err, has_code   ? row->result
                                 : is_short ? MC_ERR_TRANSFER_FAIL
                                            : MC_OK);
}

START_TEST(a_read_ends_as_the_store_answers)
{
    for (size_t i = 0; i < sizeof reads / sizeof reads[0]; i++) {
        check_answer(&reads[i]);
    }
}
END_TEST

START_TEST(a_write_goes_on_as_the_store_answers)
{
    for (size_t i = 0; i < sizeof writes / sizeof writes[0]; i++) {
        check_answer(&writes[i]);
    }
}
END_TEST

/* What a revoke answers, after which it is known what became of it, or not. */
START_TEST(a_revoke_keeps_the_reason)
{
    static const struct {
        int64_t result;
        enum mci_row_stage then;
    } rows[] = {{0, MCI_ROW_OVER},         {-300, MCI_ROW_LOOK},
                {-900, MCI_ROW_UNSETTLED}, {-901, MCI_ROW_UNSETTLED},
                {-11, MCI_ROW_UNSETTLED},  {-703, MCI_ROW_UNSETTLED}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mci_row_course course = {.stage = MCI_ROW_REVOKE,
                                        .reason = R(UNANSWERED),
                                        .err = MC_ERR_RPC_TIMEOUT};
        mci_row_answer(&course, rows[i].result, SIZE);
        ck_assert_int_eq(course.stage, rows[i].then);
        ck_assert_int_eq(course.reason, R(UNANSWERED));
        ck_assert_int_eq(course.err, MC_ERR_RPC_TIMEOUT);
    }
}
END_TEST

/* READY only for what is readable. */
START_TEST(a_look_decides_between_ready_and_what_was_before)
{
    static const enum mc_row_reason before[] = {R(BEING_WRITTEN), R(UNANSWERED),
                                                R(GONE)};
    for (size_t i = 0; i < 3; i++) {
        for (int state = MC_OBJECT_ABSENT; state <= MC_OBJECT_READABLE;
             state++) {
            struct mci_row_course course = {.stage = MCI_ROW_LOOK,
                                            .reason = before[i]};
            mci_row_looked(&course, 0, (enum mc_object_state)state);
            ck_assert_int_eq(course.stage, MCI_ROW_OVER);
            ck_assert_int_eq(course.reason, state == MC_OBJECT_READABLE
                                                ? R(EXISTS)
                                                : before[i]);
        }
        struct mci_row_course course = {.stage = MCI_ROW_LOOK,
                                        .reason = before[i]};
        mci_row_looked(&course, MC_ERR_RPC_FAIL, MC_OBJECT_READABLE);
        ck_assert_int_eq(course.reason, R(UNREACHABLE));
        ck_assert_int_eq(course.err, MC_ERR_RPC_FAIL);
    }
}
END_TEST

/* What has opened nothing is over at once; what has is revoked; what has asked for
 * its end goes on. */
START_TEST(a_stop_leaves_no_trace_and_no_doubt)
{
    static const struct {
        enum mci_row_stage at;
        enum mci_row_stage then;
        bool is_stopped;
    } rows[] = {{MCI_ROW_READ, MCI_ROW_OVER, true},
                {MCI_ROW_READ_AGAIN, MCI_ROW_OVER, true},
                {MCI_ROW_OPEN, MCI_ROW_OVER, true},
                {MCI_ROW_WRITE, MCI_ROW_REVOKE, true},
                {MCI_ROW_END, MCI_ROW_REVOKE, true},
                {MCI_ROW_END_AGAIN, MCI_ROW_END_AGAIN, false},
                {MCI_ROW_REVOKE, MCI_ROW_REVOKE, false},
                {MCI_ROW_LOOK, MCI_ROW_LOOK, false},
                {MCI_ROW_UNSETTLED, MCI_ROW_UNSETTLED, false},
                {MCI_ROW_OVER, MCI_ROW_OVER, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mci_row_course course = {.stage = rows[i].at, .reason = R(GONE)};
        mci_row_stop(&course, R(ASKED));
        ck_assert_int_eq(course.stage, rows[i].then);
        ck_assert_int_eq(course.reason,
                         rows[i].is_stopped ? R(ASKED) : R(GONE));
    }
}
END_TEST

START_TEST(without_time_every_row_is_over)
{
    static const struct {
        enum mci_row_stage at;
        enum mci_row_stage then;
        enum mc_row_reason reason;
    } rows[] = {{MCI_ROW_READ, MCI_ROW_OVER, R(TIMED_OUT)},
                {MCI_ROW_READ_AGAIN, MCI_ROW_OVER, R(LEASE_LOST)},
                {MCI_ROW_OPEN, MCI_ROW_OVER, R(TIMED_OUT)},
                {MCI_ROW_WRITE, MCI_ROW_UNSETTLED, R(TIMED_OUT)},
                {MCI_ROW_END, MCI_ROW_UNSETTLED, R(TIMED_OUT)},
                {MCI_ROW_END_AGAIN, MCI_ROW_UNSETTLED, R(UNANSWERED)},
                {MCI_ROW_REVOKE, MCI_ROW_UNSETTLED, R(ASKED)},
                {MCI_ROW_LOOK, MCI_ROW_OVER, R(UNREACHABLE)},
                {MCI_ROW_UNSETTLED, MCI_ROW_UNSETTLED, R(ASKED)},
                {MCI_ROW_OVER, MCI_ROW_OVER, R(ASKED)}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mci_row_course course = {.stage = rows[i].at,
                                        .reason = R(ASKED)};
        mci_row_late(&course);
        ck_assert_int_eq(course.stage, rows[i].then);
        ck_assert_int_eq(course.reason, rows[i].reason);
    }
}
END_TEST

/* Whatever is answered, a row comes to its end, with a reason. */
START_TEST(no_answers_lead_in_a_circle)
{
    static const int64_t answers[] = {0,    SIZE, -1,   -11,  -200, -300,
                                      -600, -700, -703, -704, -705, -707,
                                      -800, -900, -901, -9999};
    const size_t count = sizeof answers / sizeof answers[0];
    for (size_t seed = 0; seed < count * count * count; seed++) {
        size_t dice = seed;
        struct mci_row_course course = {.stage = seed % 2 ? MCI_ROW_OPEN
                                                          : MCI_ROW_READ};
        int steps = 0;
        while (course.stage < MCI_ROW_UNSETTLED) {
            enum mci_row_stage at = course.stage;
            if (at == MCI_ROW_LOOK) {
                mci_row_looked(&course, answers[dice % count],
                               MC_OBJECT_WRITING);
            } else {
                mci_row_answer(&course, answers[dice % count], SIZE);
            }
            ck_assert(course.stage > at);
            dice = dice / count + seed;
            ck_assert_int_lt(++steps, 8);
        }
        ck_assert_int_ne(course.reason, R(NONE));
    }
}
END_TEST

START_TEST(a_probe_alone_has_a_reason)
{
    ck_assert_int_eq(mci_row_reason_of_probe(0, MC_OBJECT_READABLE), R(EXISTS));
    ck_assert_int_eq(mci_row_reason_of_probe(0, MC_OBJECT_WRITING),
                     R(BEING_WRITTEN));
    ck_assert_int_eq(mci_row_reason_of_probe(0, MC_OBJECT_ABSENT), R(ABSENT));
    ck_assert_int_eq(mci_row_reason_of_probe(-400, MC_OBJECT_ABSENT),
                     R(REFUSED));
    ck_assert_int_eq(mci_row_reason_of_probe(-901, MC_OBJECT_ABSENT),
                     R(UNREACHABLE));
}
END_TEST

START_TEST(every_reason_has_its_words)
{
    for (int i = 0; i < MC_ROW_REASON_COUNT; i++) {
        enum mc_row_reason reason = (enum mc_row_reason)i;
        ck_assert_uint_gt(strlen(mc_row_reason_text(reason)), 0);
        for (int k = 0; k < i; k++) {
            enum mc_row_reason other = (enum mc_row_reason)k;
            ck_assert_str_ne(mc_row_reason_name(reason),
                             mc_row_reason_name(other));
            ck_assert_str_ne(mc_row_reason_text(reason),
                             mc_row_reason_text(other));
        }
    }
    ck_assert_int_eq(mc_row_reason_status(R(NONE)), MC_ROW_PENDING);
    ck_assert_int_eq(mc_row_reason_status(R(NO_SPACE)), MC_ROW_DECLINED);
    ck_assert_str_eq(mc_row_reason_name(R(NO_SPACE)), "NO_SPACE");
    ck_assert_str_eq(mc_row_status_name(MC_ROW_CANCELLED), "CANCELLED");
    ck_assert_str_eq(mc_row_status_name((enum mc_row_status)77), "UNKNOWN");
    ck_assert_str_eq(mc_row_reason_name((enum mc_row_reason) - 1), "UNKNOWN");
    ck_assert_str_eq(mc_row_reason_text((enum mc_row_reason)77),
                     "unknown reason");
    ck_assert_int_eq(mc_row_reason_status((enum mc_row_reason)77),
                     MC_ROW_FAULT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("row outcome");
    TCase *tcase = tcase_create("answers");
    tcase_add_test(tcase, a_read_ends_as_the_store_answers);
    tcase_add_test(tcase, a_write_goes_on_as_the_store_answers);
    tcase_add_test(tcase, a_revoke_keeps_the_reason);
    tcase_add_test(tcase, a_look_decides_between_ready_and_what_was_before);
    tcase_add_test(tcase, a_stop_leaves_no_trace_and_no_doubt);
    tcase_add_test(tcase, without_time_every_row_is_over);
    tcase_add_test(tcase, no_answers_lead_in_a_circle);
    tcase_add_test(tcase, a_probe_alone_has_a_reason);
    tcase_add_test(tcase, every_reason_has_its_words);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
