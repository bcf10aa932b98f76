/* SPDX-License-Identifier: Apache-2.0 */
/* What becomes of each number, in every order in which requests, retries,
 * cancels and heartbeats of a slot can come. */
#include "slots.h"

#include <stdio.h>
#include <string.h>

#include "alloc_fail.h"
#include "suite.h"

/* ---- one line per step --------------------------------------------------- */

/* A step is a line: who, what, number, and what is to come of it.
 *
 *   A change 1 execute      connection A brings a request that changes something
 *   A read 1 execute        one that reads
 *   B cancel 2 execute 1    a cancel; request 1 must be undone
 *   A left 1 send           its request has ended: the answer may be sent
 *   A left 1 keep B         it may not; B is told to ask again
 *   A left 1 undo           it must be undone first
 *   A undone 1 keep B       it was, and has ended
 *   A on 1 yes              it may go on with its next slice
 *   - raise 3 ok            a heartbeat says that 3 was the last number used
 *   A forget 0 yes          A, which waits, goes away
 */
struct act {
    const char *who;
    const char *what;
    uint64_t number;
    const char *outcome;
    const char *more; /* another connection, or a number that is given up */
};

static char names[128][2];

static void *conn_of(const char *who)
{
    names[(unsigned char)who[0]][0] = who[0];
    return names[(unsigned char)who[0]];
}

static struct mci_slot_ask ask_of(const struct act *act,
                                  enum mci_slot_kind kind)
{
    return (struct mci_slot_ask){.slot = 3,
                                 .number = act->number,
                                 .kind = kind,
                                 .answer_max = 100,
                                 .from = conn_of(act->who)};
}

static const char *const verdicts[] = {
    [MCI_SLOT_EXECUTE] = "execute", [MCI_SLOT_WAIT] = "wait",
    [MCI_SLOT_KEPT] = "kept",       [MCI_SLOT_STALE] = "stale",
    [MCI_SLOT_FULL] = "full",       [MCI_SLOT_NOMEM] = "nomem"};

static void expect_more(const struct act *act, const struct mci_slot_told *told)
{
    char text[32] = "";
    if (told->given_up != 0) {
        (void)snprintf(text, sizeof text, "%ju", (uintmax_t)told->given_up);
    } else if (told->replaced) {
        (void)snprintf(text, sizeof text, "%s", (const char *)told->replaced);
    }
    ck_assert_str_eq(text, act->more ? act->more : "");
}

static void enter(struct mci_slots *slots, const struct act *act,
                  enum mci_slot_kind kind)
{
    struct mci_slot_told told;
    struct mci_slot_ask ask = ask_of(act, kind);
    enum mci_slot_verdict verdict = mci_slots_enter(slots, &ask, &told);
    ck_assert_str_eq(verdicts[verdict], act->outcome);
    expect_more(act, &told);
    if (verdict == MCI_SLOT_KEPT) {
        char text[32];
        int len =
            snprintf(text, sizeof text, "answer %ju", (uintmax_t)act->number);
        ck_assert(mc_view_equal(told.kept, mc_view_make(text, (size_t)len)));
    }
}

static void leave(struct mci_slots *slots, const struct act *act,
                  bool is_undone)
{
    char text[32];
    struct mci_slot_left left;
    struct mci_slot_ask ask = ask_of(act, MCI_SLOT_CHANGES);
    ask.is_undone = is_undone;
    int len = snprintf(text, sizeof text, "answer %ju", (uintmax_t)act->number);
    mci_slots_leave(slots, &ask, mc_view_make(text, (size_t)len), &left);
    const char *outcome = left.must_undo  ? "undo"
                          : left.may_send ? "send"
                                          : "keep";
    ck_assert_str_eq(outcome, act->outcome);
    ck_assert_str_eq(left.waiter ? (const char *)left.waiter : "",
                     act->more ? act->more : "");
}

static void carry_out(struct mci_slots *slots, const struct act *act)
{
    struct mci_slot_ask change = ask_of(act, MCI_SLOT_CHANGES);
    struct mci_slot_ask read = ask_of(act, MCI_SLOT_READS);
    const char *yes = NULL;
    if (strcmp(act->what, "change") == 0) {
        enter(slots, act, MCI_SLOT_CHANGES);
    } else if (strcmp(act->what, "read") == 0) {
        enter(slots, act, MCI_SLOT_READS);
    } else if (strcmp(act->what, "cancel") == 0) {
        enter(slots, act, MCI_SLOT_CANCELS);
    } else if (strcmp(act->what, "left") == 0) {
        leave(slots, act, false);
    } else if (strcmp(act->what, "undone") == 0) {
        leave(slots, act, true);
    } else if (strcmp(act->what, "on") == 0) {
        yes = mci_slots_goes_on(slots, &change) ? "yes" : "no";
    } else if (strcmp(act->what, "reads on") == 0) {
        yes = mci_slots_goes_on(slots, &read) ? "yes" : "no";
    } else if (strcmp(act->what, "forget") == 0) {
        yes = mci_slots_forget(slots, 3, conn_of(act->who)) ? "yes" : "no";
    } else {
        ck_assert_str_eq(act->what, "raise");
        ck_assert_int_eq(mci_slots_raise(slots, 3, act->number), MC_OK);
    }
    if (yes) {
        ck_assert_str_eq(yes, act->outcome);
    }
}

#define ACTS_MAX 16
struct play {
    const char *title;
    struct act acts[ACTS_MAX];
};

static const struct play plays[] = {
    {"numbers in turn are executed",
     {{"A", "change", 1, "execute", NULL},
      {"A", "left", 1, "send", NULL},
      {"A", "read", 2, "execute", NULL},
      {"A", "change", 3, "execute", NULL},
      {"A", "left", 3, "send", NULL}}},
    {"a retry gets the kept answer, on any connection, ever again",
     {{"A", "change", 1, "execute", NULL},
      {"A", "left", 1, "send", NULL},
      {"A", "change", 1, "kept", NULL},
      {"B", "change", 1, "kept", NULL},
      {"B", "change", 2, "execute", NULL},
      {"B", "left", 2, "send", NULL},
      {"A", "change", 1, "stale", NULL}}},
    {"a retry while it runs waits, and the old connection is not answered",
     {{"A", "change", 1, "execute", NULL},
      {"B", "change", 1, "wait", NULL},
      {"A", "on", 1, "yes", NULL},
      {"A", "left", 1, "keep", "B"},
      {"B", "change", 1, "kept", NULL}}},
    {"of two that retry the later one waits",
     {{"A", "change", 1, "execute", NULL},
      {"B", "change", 1, "wait", NULL},
      {"C", "change", 1, "wait", "B"},
      {"B", "forget", 0, "no", NULL},
      {"A", "left", 1, "keep", "C"},
      {"C", "change", 1, "kept", NULL}}},
    {"one that waits may go away",
     {{"A", "change", 1, "execute", NULL},
      {"B", "change", 1, "wait", NULL},
      {"B", "forget", 0, "yes", NULL},
      {"A", "left", 1, "keep", NULL},
      {"C", "change", 1, "kept", NULL}}},
    {"lower numbers are stale",
     {{"A", "change", 0, "stale", NULL},
      {"A", "change", 5, "execute", NULL},
      {"B", "change", 4, "stale", NULL},
      {"A", "left", 5, "send", NULL},
      {"B", "change", 4, "stale", NULL},
      {"B", "read", 1, "stale", NULL},
      {"B", "cancel", 3, "stale", NULL}}},
    {"a cancel before the request arrives makes it stale",
     {{"A", "cancel", 2, "execute", NULL},
      {"A", "left", 2, "send", NULL},
      {"B", "change", 1, "stale", NULL},
      {"A", "change", 3, "execute", NULL}}},
    {"a cancel after it has ended has it undone",
     {{"A", "change", 1, "execute", NULL},
      {"A", "left", 1, "send", NULL},
      {"B", "cancel", 2, "execute", "1"},
      {"B", "left", 2, "send", NULL},
      {"A", "change", 1, "stale", NULL},
      {"C", "cancel", 2, "kept", NULL},
      {"C", "change", 3, "execute", NULL}}},
    {"a cancel while it runs stops it, and waits until it is undone",
     {{"A", "change", 1, "execute", NULL},
      {"A", "on", 1, "yes", NULL},
      {"B", "cancel", 2, "wait", NULL},
      {"A", "on", 1, "no", NULL},
      {"A", "left", 1, "undo", NULL},
      {"C", "change", 1, "stale", NULL},
      {"A", "undone", 1, "keep", "B"},
      {"A", "change", 1, "stale", NULL},
      {"B", "cancel", 2, "execute", NULL},
      {"B", "left", 2, "send", NULL},
      {"B", "change", 3, "execute", NULL}}},
    {"a cancel that waits is asked again over another connection",
     {{"A", "change", 1, "execute", NULL},
      {"B", "cancel", 2, "wait", NULL},
      {"C", "cancel", 2, "wait", "B"},
      {"A", "left", 1, "undo", NULL},
      {"A", "undone", 1, "keep", "C"},
      {"C", "cancel", 2, "execute", NULL}}},
    {"a later request gives up what runs",
     {{"A", "change", 1, "execute", NULL},
      {"B", "change", 2, "wait", NULL},
      {"A", "on", 1, "no", NULL},
      {"A", "left", 1, "undo", NULL},
      {"A", "undone", 1, "keep", "B"},
      {"B", "change", 2, "execute", NULL},
      {"B", "left", 2, "send", NULL}}},
    {"a much later one makes those between stale",
     {{"A", "change", 1, "execute", NULL},
      {"B", "change", 4, "wait", NULL},
      {"C", "change", 3, "stale", NULL},
      {"A", "left", 1, "undo", NULL},
      {"A", "undone", 1, "keep", "B"},
      {"C", "change", 3, "stale", NULL},
      {"B", "change", 4, "execute", NULL}}},
    {"a next number says that the answer was seen, and undoes nothing",
     {{"A", "change", 1, "execute", NULL},
      {"A", "left", 1, "send", NULL},
      {"A", "change", 2, "execute", NULL},
      {"A", "left", 2, "send", NULL},
      {"A", "cancel", 4, "execute", NULL}}},
    {"reads are executed again, and no cancel undoes them",
     {{"A", "read", 1, "execute", NULL},
      {"B", "read", 1, "execute", NULL},
      {"A", "reads on", 1, "no", NULL},
      {"B", "reads on", 1, "yes", NULL},
      {"C", "cancel", 2, "execute", NULL},
      {"B", "reads on", 1, "no", NULL},
      {"C", "left", 2, "send", NULL},
      {"B", "read", 1, "stale", NULL}}},
    {"a heartbeat makes what is below its number stale",
     {{"-", "raise", 3, "ok", NULL},
      {"A", "change", 2, "stale", NULL},
      {"A", "change", 1, "stale", NULL},
      {"A", "change", 3, "execute", NULL}}},
    {"a heartbeat stops what runs below its number",
     {{"A", "change", 1, "execute", NULL},
      {"-", "raise", 1, "ok", NULL},
      {"A", "on", 1, "yes", NULL},
      {"-", "raise", 2, "ok", NULL},
      {"A", "on", 1, "no", NULL},
      {"A", "left", 1, "undo", NULL},
      {"A", "undone", 1, "keep", NULL},
      {"B", "change", 1, "stale", NULL},
      {"B", "cancel", 2, "execute", NULL}}},
    {"a heartbeat does not take back an answer that is on its way",
     {{"A", "change", 1, "execute", NULL},
      {"-", "raise", 1, "ok", NULL},
      {"A", "left", 1, "send", NULL},
      {"-", "raise", 1, "ok", NULL},
      {"B", "change", 1, "kept", NULL},
      {"-", "raise", 2, "ok", NULL},
      {"B", "change", 1, "kept", NULL},
      {"-", "raise", 0, "ok", NULL},
      {"B", "cancel", 2, "execute", "1"}}},
    {"an older heartbeat takes nothing back",
     {{"A", "change", 7, "execute", NULL},
      {"-", "raise", 5, "ok", NULL},
      {"A", "on", 7, "yes", NULL},
      {"A", "left", 7, "send", NULL},
      {"-", "raise", 5, "ok", NULL},
      {"A", "change", 7, "kept", NULL}}},
};
#define PLAYS (sizeof plays / sizeof plays[0])

START_TEST(numbers_become_what_the_table_says)
{
    struct mci_slots slots;
    const struct play *play = &plays[_i];
    mci_slots_init(&slots);
    for (size_t i = 0; i < ACTS_MAX && play->acts[i].who; i++) {
        carry_out(&slots, &play->acts[i]);
    }
    mci_slots_fini(&slots);
}
END_TEST

/* ---- kept answers -------------------------------------------------------- */

static enum mci_slot_verdict do_one(struct mci_slots *slots, uint32_t slot,
                                    uint64_t number, struct mc_view answer)
{
    struct mci_slot_told told;
    struct mci_slot_left left;
    struct mci_slot_ask ask = {.slot = slot,
                               .number = number,
                               .kind = MCI_SLOT_CHANGES,
                               .answer_max = answer.len,
                               .from = &slots};
    enum mci_slot_verdict verdict = mci_slots_enter(slots, &ask, &told);
    if (verdict == MCI_SLOT_EXECUTE) {
        mci_slots_leave(slots, &ask, answer, &left);
    }
    return verdict;
}

START_TEST(answers_that_are_kept_are_bounded_and_counted)
{
    struct mci_slots slots;
    size_t len = MCI_SLOTS_KEPT_MAX / 8;
    uint8_t *bytes = mci_calloc(1, len);
    const struct mc_view answer = mc_view_make(bytes, len);
    uint32_t slot = 0;
    mci_slots_init(&slots);
    ck_assert_uint_eq(slots.kept_bytes, 0);
    while (do_one(&slots, slot, 1, answer) == MCI_SLOT_EXECUTE) {
        slot++;
        ck_assert_uint_le(slot, 8);
    }
    ck_assert_uint_ge(slot, 4);
    ck_assert_uint_le(slots.kept_bytes, MCI_SLOTS_KEPT_MAX);
    ck_assert_int_eq(do_one(&slots, slot, 1, answer), MCI_SLOT_FULL);
    /* The next number in a slot lets go of what it kept. */
    ck_assert_int_eq(do_one(&slots, 0, 2, mc_view_str("short")),
                     MCI_SLOT_EXECUTE);
    ck_assert_int_eq(do_one(&slots, slot, 1, answer), MCI_SLOT_EXECUTE);
    mci_slots_fini(&slots);
    ck_assert_uint_eq(slots.kept_bytes, 0);
    mci_free(bytes);
}
END_TEST

START_TEST(what_runs_has_room_for_its_answer_put_by)
{
    struct mci_slots slots;
    struct mci_slot_told told;
    struct mci_slot_left left;
    struct mci_slot_ask ask = {.slot = 0,
                               .number = 1,
                               .kind = MCI_SLOT_CHANGES,
                               .answer_max = MCI_SLOTS_KEPT_MAX,
                               .from = &slots};
    mci_slots_init(&slots);
    ck_assert_int_eq(mci_slots_enter(&slots, &ask, &told), MCI_SLOT_EXECUTE);
    ck_assert_int_eq(do_one(&slots, 1, 1, mc_view_str("x")), MCI_SLOT_FULL);
    mci_slots_leave(&slots, &ask, mc_view_str("x"), &left);
    ck_assert_int_eq(do_one(&slots, 1, 1, mc_view_str("x")), MCI_SLOT_EXECUTE);
    mci_slots_fini(&slots);
}
END_TEST

START_TEST(all_slots_can_be_used)
{
    struct mci_slots slots;
    mci_slots_init(&slots);
    for (uint32_t i = 0; i < MCI_SLOTS_CHUNK * MCI_SLOTS_CHUNKS; i++) {
        ck_assert_int_eq(do_one(&slots, i, 1, mc_view_str("x")),
                         MCI_SLOT_EXECUTE);
        ck_assert_int_eq(do_one(&slots, i, 1, mc_view_str("x")), MCI_SLOT_KEPT);
    }
    mci_slots_fini(&slots);
}
END_TEST

START_TEST(without_memory_nothing_is_executed_twice)
{
    struct alloc_fail fail;
    ALLOC_FAIL_EACH(fail)
    {
        struct mci_slots slots;
        struct mci_slot_told told;
        struct mci_slot_ask ask = {.slot = 9,
                                   .number = 1,
                                   .kind = MCI_SLOT_CHANGES,
                                   .answer_max = 64,
                                   .from = &slots};
        mci_slots_init(&slots);
        alloc_fail_arm(&fail);
        enum mci_slot_verdict verdict =
            do_one(&slots, 9, 1, mc_view_str("answer"));
        alloc_fail_disarm(&fail);
        if (verdict == MCI_SLOT_EXECUTE) {
            ck_assert_int_eq(mci_slots_enter(&slots, &ask, &told),
                             MCI_SLOT_KEPT);
            ck_assert_uint_eq(told.kept.len,
                              alloc_fail_happened(&fail) ? 0 : 6);
        } else {
            ck_assert_int_eq(verdict, MCI_SLOT_NOMEM);
        }
        mci_slots_fini(&slots);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("slots");
    TCase *numbers = tcase_create("numbers");
    TCase *kept = tcase_create("kept");
    tcase_add_loop_test(numbers, numbers_become_what_the_table_says, 0,
                        (int)PLAYS);
    suite_add_tcase(suite, numbers);
    tcase_add_test(kept, answers_that_are_kept_are_bounded_and_counted);
    tcase_add_test(kept, what_runs_has_room_for_its_answer_put_by);
    tcase_add_test(kept, all_slots_can_be_used);
    tcase_add_test(kept, without_memory_nothing_is_executed_twice);
    suite_add_tcase(suite, kept);
    return suite_run(suite);
}
