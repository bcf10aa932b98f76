/* SPDX-License-Identifier: Apache-2.0 */
/* Both layouts of an answer to a replay request. */
#include "mci_bytes.h"
#include "mci_event_replay.h"
#include "suite.h"

static const uint8_t seq_nine[8] = {0, 0, 0, 0, 0, 0, 0, 9};
static const uint8_t seq_end[8] = {255, 255, 255, 255, 255, 255, 255, 255};

static struct mc_view text(const char *bytes)
{
    return mc_view_str(bytes);
}

static void check(const struct mci_replay_answer *answer, const char *topic,
                  const char *payload)
{
    ck_assert(mc_view_equal(answer->frames[0], text(topic)));
    ck_assert(mc_view_equal(answer->frames[1], mc_view_make(seq_nine, 8)));
    ck_assert(mc_view_equal(answer->frames[2], text(payload)));
    ck_assert_uint_eq(answer->seq, 9);
    ck_assert(!answer->is_end);
}

START_TEST(three_frames_are_the_old_layout_and_four_the_new)
{
    struct mci_replay_answer answer;
    struct mc_view seq = mc_view_make(seq_nine, 8);
    struct mc_view old[3] = {text(""), seq, text("batch")};
    struct mc_view new[4] = {text(""), text("kv"), seq, text("batch")};
    ck_assert_int_eq(mci_event_replay_parse(old, 3, &answer), MC_EVENT_OK);
    check(&answer, "", "batch");
    ck_assert_int_eq(mci_event_replay_parse(new, 4, &answer), MC_EVENT_OK);
    check(&answer, "kv", "batch");
}
END_TEST

START_TEST(an_empty_payload_ends_a_replay_whatever_its_number)
{
    struct mci_replay_answer answer;
    struct mc_view end = mc_view_make(seq_end, 8);
    struct mc_view old[3] = {text(""), end, text("")};
    struct mc_view new[4] = {text(""), text(""), end, mc_view_make(NULL, 0)};
    ck_assert_int_eq(mci_event_replay_parse(old, 3, &answer), MC_EVENT_OK);
    ck_assert(answer.is_end);
    ck_assert_uint_eq(answer.seq, MCI_REPLAY_SEQ_END);
    answer.is_end = false;
    ck_assert_int_eq(mci_event_replay_parse(new, 4, &answer), MC_EVENT_OK);
    ck_assert(answer.is_end);
    old[1] = mc_view_make(seq_nine, 8);
    answer.is_end = false;
    ck_assert_int_eq(mci_event_replay_parse(old, 3, &answer), MC_EVENT_OK);
    ck_assert(answer.is_end);
    ck_assert_uint_eq(answer.seq, 9);
    old[1] = end;
    old[2] = text("batch");
    ck_assert_int_eq(mci_event_replay_parse(old, 3, &answer), MC_EVENT_OK);
    ck_assert(!answer.is_end);
}
END_TEST

START_TEST(other_frames_are_refused_and_set_nothing)
{
    struct mci_replay_answer answer = {.seq = 77};
    struct mc_view seq = mc_view_make(seq_nine, 8);
    struct mc_view frames[5] = {text(""), text("kv"), seq, text("b"),
                                text("c")};
    for (size_t count = 0; count <= 5; count++) {
        enum mc_event_error error =
            mci_event_replay_parse(frames, count, &answer);
        if (count == 3) {
            /* The topic stands where the number should. */
            ck_assert_int_eq(error, MC_EVENT_ERROR_SEQ_SIZE);
        } else if (count != 4) {
            ck_assert_int_eq(error, MC_EVENT_ERROR_FRAME_COUNT);
        }
    }
    answer.seq = 77;
    frames[0] = text("x");
    ck_assert_int_eq(mci_event_replay_parse(frames, 4, &answer),
                     MC_EVENT_ERROR_FRAME_COUNT);
    frames[0] = text("");
    frames[2].len = 7;
    ck_assert_int_eq(mci_event_replay_parse(frames, 4, &answer),
                     MC_EVENT_ERROR_SEQ_SIZE);
    ck_assert_uint_eq(answer.seq, 77);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("event_replay");
    TCase *layouts = tcase_create("layouts");
    tcase_add_test(layouts, three_frames_are_the_old_layout_and_four_the_new);
    tcase_add_test(layouts, an_empty_payload_ends_a_replay_whatever_its_number);
    tcase_add_test(layouts, other_frames_are_refused_and_set_nothing);
    suite_add_tcase(suite, layouts);
    return suite_run(suite);
}
