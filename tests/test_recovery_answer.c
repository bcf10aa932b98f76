/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and answers of the golden dialogues, faults by name, and bytes that
 * are cut or changed. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "mc_limits.h"
#include "mci_bytes.h"
#include "recovery_answer.h"
#include "suite.h"
#include "vectors.h"

#define EPOCH UINT64_C(0x19aca4b2f0a1c3d7)

/* ---- golden dialogues ---- */

/* The request that these frames are, the delimiter first; false: none. */
static bool request_of(const struct vector_frames *heard,
                       struct asker_request *request_out)
{
    const struct mc_view *frames = heard->frames;
    size_t count = heard->count;
    struct asker_request request = {.number = 1};
    if (count < 2 || frames[0].len > 0) {
        return false;
    }
    if (mc_view_equal(frames[1], mc_view_str("status"))) {
        request.kind = ASKER_STATUS;
    } else if (mc_view_equal(frames[1], mc_view_str("snapshot"))) {
        request.kind = ASKER_SNAPSHOT;
        request.tenant = count > 2 ? frames[2] : mc_view_make(NULL, 0);
    } else if (frames[1].len == 8) {
        request.kind = ASKER_REPLAY;
        request.from_seq = mci_get_be64(frames[1].data);
        request.credit =
            count > 2 && frames[2].len == 4 ? mci_get_be32(frames[2].data) : 0;
    }
    *request_out = request;
    return request.kind != 0;
}

static bool same_frames(const struct vector_frames *heard,
                        const struct asker_frames *frames)
{
    bool is_same = heard->count == frames->count;
    for (size_t i = 0; is_same && i < heard->count; i++) {
        is_same = mc_view_equal(heard->frames[i], frames->frames[i]);
    }
    return is_same;
}

/* What an answer is, told by its frames as docs/events.md has them. */
static enum recovery_answer_type type_of(const struct vector_frames *sent)
{
    const struct mc_view *frames = sent->frames;
    size_t count = sent->count;
    if (mc_view_equal(frames[1], mc_view_str("status"))) {
        return RECOVERY_ANSWER_STATUS;
    }
    if (mc_view_equal(frames[1], mc_view_str("snapshot"))) {
        return count == 5 ? RECOVERY_ANSWER_SNAPSHOT_END
               : mci_get_be64(frames[2].data) == 0
                   ? RECOVERY_ANSWER_SNAPSHOT_FIRST
                   : RECOVERY_ANSWER_SNAPSHOT_ROWS;
    }
    return frames[count - 1].len == 0 ? RECOVERY_ANSWER_END
                                      : RECOVERY_ANSWER_BATCH;
}

static enum asker_kind kind_of(enum recovery_answer_type type)
{
    return type == RECOVERY_ANSWER_STATUS  ? ASKER_STATUS
           : type == RECOVERY_ANSWER_BATCH ? ASKER_REPLAY
                                           : ASKER_SNAPSHOT;
}

static void check_numbers(const struct vector_frames *sent, json_object *row,
                          const struct recovery_answer *answer)
{
    const struct mc_view *frames = sent->frames;
    switch (answer->type) {
    case RECOVERY_ANSWER_STATUS:
        ck_assert_uint_eq(answer->epoch, EPOCH);
        ck_assert(mc_view_equal(answer->backend_id, mc_view_str("n1")));
        ck_assert_uint_eq(
            answer->keys,
            json_object_array_length(json_object_object_get(row, "store")));
        ck_assert_uint_eq(answer->last_id, vector_number(row, "last_id"));
        break;
    case RECOVERY_ANSWER_BATCH:
        ck_assert_uint_eq(answer->seq,
                          mci_get_be64(frames[sent->count - 2].data));
        ck_assert(mc_view_equal(answer->payload, frames[sent->count - 1]));
        ck_assert(mc_view_equal(
            answer->topic, sent->count == 4 ? frames[1] : mc_view_make("", 0)));
        break;
    case RECOVERY_ANSWER_SNAPSHOT_ROWS:
        ck_assert(mc_view_equal(answer->payload, frames[3]));
        ck_assert_uint_eq(answer->index, mci_get_be64(frames[2].data));
        break;
    case RECOVERY_ANSWER_SNAPSHOT_FIRST:
        ck_assert_uint_eq(answer->first_id, vector_number(row, "last_id"));
        ck_assert_uint_eq(answer->epoch, EPOCH);
        break;
    case RECOVERY_ANSWER_SNAPSHOT_END:
        ck_assert_uint_ge(answer->last_id, vector_number(row, "last_id"));
        ck_assert_uint_eq(answer->epoch, EPOCH);
        break;
    default:
        break;
    }
}

/* Read by another kind of request, an answer is bad; an END is none's. */
static void check_other_kinds(const struct vector_frames *sent,
                              enum recovery_answer_type type)
{
    for (int kind = ASKER_STATUS; kind <= ASKER_SNAPSHOT; kind++) {
        struct recovery_answer answer;
        recovery_answer_read((enum asker_kind)kind, &sent->frames[1],
                             sent->count - 1, &answer);
        if (type == RECOVERY_ANSWER_END) {
            ck_assert_int_eq(answer.type, type);
        } else if ((enum asker_kind)kind != kind_of(type)) {
            /* "snapshot" is a topic too, as far as one can see. */
            ck_assert_int_eq(answer.type,
                             kind == ASKER_REPLAY && sent->count == 4
                                 ? RECOVERY_ANSWER_BATCH
                                 : RECOVERY_ANSWER_BAD);
        }
    }
}

static void check_step(json_object *row, json_object *step, size_t *seen)
{
    struct vector_frames frames;
    struct asker_request request;
    struct asker_frames made;
    struct recovery_answer answer;
    bool is_heard = json_object_object_get(step, "heard") != NULL;
    bool is_sent = json_object_object_get(step, "sent") != NULL;
    if (!is_heard && !is_sent) {
        return;
    }
    vector_frames_make(step, &frames);
    if (is_heard && request_of(&frames, &request) &&
        asker_request_frames(&request, &made) && same_frames(&frames, &made)) {
        seen[0]++;
    }
    if (is_heard && frames.count == 3 &&
        mc_view_equal(frames.frames[1], mc_view_str("credit"))) {
        asker_credit_frames(mci_get_be32(frames.frames[2].data), &made);
        ck_assert(same_frames(&frames, &made));
    }
    if (is_sent) {
        enum recovery_answer_type type = type_of(&frames);
        recovery_answer_read(kind_of(type), &frames.frames[1], frames.count - 1,
                             &answer);
        ck_assert_msg(answer.type == type, "%s: %s", vector_string(row, "name"),
                      recovery_fault_name(answer.fault));
        check_numbers(&frames, row, &answer);
        check_other_kinds(&frames, type);
        seen[type]++;
    }
    vector_frames_free(&frames);
}

START_TEST(all_that_is_said_in_the_golden_dialogues_is_read)
{
    json_object *rows = vectors_load_copy("recovery.json");
    size_t seen[RECOVERY_ANSWER_STATUS + 1] = {0};
    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        json_object *row = json_object_array_get_idx(rows, i);
        json_object *steps = json_object_object_get(row, "steps");
        for (size_t k = 0; k < json_object_array_length(steps); k++) {
            check_step(row, json_object_array_get_idx(steps, k), seen);
        }
    }
    json_object_put(rows);
    ck_assert_uint_ge(seen[0], 30); /* requests */
    ck_assert_uint_ge(seen[RECOVERY_ANSWER_BATCH], 20);
    ck_assert_uint_ge(seen[RECOVERY_ANSWER_END], 20);
    ck_assert_uint_ge(seen[RECOVERY_ANSWER_STATUS], 3);
    ck_assert_uint_ge(seen[RECOVERY_ANSWER_SNAPSHOT_FIRST], 5);
    ck_assert_uint_ge(seen[RECOVERY_ANSWER_SNAPSHOT_ROWS], 3);
    ck_assert_uint_ge(seen[RECOVERY_ANSWER_SNAPSHOT_END], 5);
}
END_TEST

/* ---- faults ---- */

#define TEXT(text)               \
    {                            \
        (text), sizeof(text) - 1 \
    }
#define NUMBER_1 TEXT("\0\0\0\0\0\0\0\1")
#define NUMBER_0 TEXT("\0\0\0\0\0\0\0\0")
#define LAST_NUMBER TEXT("\xff\xff\xff\xff\xff\xff\xff\xff")
#define EPOCH_1 \
    "\xa5"      \
    "epoch"     \
    "\x01"
#define FIRST_2 \
    "\xa8"      \
    "first_id"  \
    "\x02"
#define LAST_2 \
    "\xa7"     \
    "last_id"  \
    "\x02"
#define TAIL_3 \
    "\xa8"     \
    "tail_seq" \
    "\x03"
#define OLDEST_1 \
    "\xaa"       \
    "oldest_seq" \
    "\x01"
#define KEYS_4 \
    "\xa4"     \
    "keys"     \
    "\x04"
#define BACKEND \
    "\xaa"      \
    "backend_id"
#define EDGE_FIRST "\x83" EPOCH_1 FIRST_2 TAIL_3
#define EDGE_LAST "\x83" EPOCH_1 LAST_2 TAIL_3
#define STATUS_BUT_BACKEND EPOCH_1 LAST_2 TAIL_3 OLDEST_1 KEYS_4

struct row {
    const char *what;
    enum asker_kind kind;
    enum recovery_answer_type type;
    enum recovery_fault fault;
    size_t count;
    struct mc_view frames[5];
};

#define GOOD(kind, type) ASKER_##kind, RECOVERY_ANSWER_##type, 0
#define BAD(kind, fault) \
    ASKER_##kind, RECOVERY_ANSWER_BAD, RECOVERY_FAULT_##fault

static const struct row rows[] = {
    {"nothing", BAD(STATUS, FRAME_COUNT), 0, {{NULL, 0}}},
    /* END, in both layouts, and what comes near it */
    {"end in three frames",
     GOOD(REPLAY, END),
     3,
     {TEXT(""), LAST_NUMBER, TEXT("")}},
    {"end in two", GOOD(REPLAY, END), 2, {LAST_NUMBER, TEXT("")}},
    {"end with any number", GOOD(REPLAY, END), 2, {NUMBER_1, TEXT("")}},
    {"end with any topic",
     GOOD(SNAPSHOT, END),
     3,
     {TEXT("t"), LAST_NUMBER, TEXT("")}},
    {"a status is refused",
     GOOD(STATUS, END),
     3,
     {TEXT(""), LAST_NUMBER, TEXT("")}},
    {"end of one frame", BAD(REPLAY, FRAME_COUNT), 1, {LAST_NUMBER}},
    {"end of four",
     BAD(REPLAY, FRAME_COUNT),
     4,
     {TEXT(""), LAST_NUMBER, TEXT(""), TEXT("")}},
    {"end with a short number",
     BAD(REPLAY, NUMBER_SIZE),
     2,
     {TEXT("1234567"), TEXT("")}},
    /* replay */
    {"a message", GOOD(REPLAY, BATCH), 3, {TEXT("t"), NUMBER_1, TEXT("\x90")}},
    {"without topic", GOOD(REPLAY, BATCH), 2, {NUMBER_1, TEXT("\x90")}},
    {"from 0 on", GOOD(REPLAY, BATCH), 2, {NUMBER_0, TEXT("\x90")}},
    {"a number of END with a payload",
     BAD(REPLAY, NUMBER),
     2,
     {LAST_NUMBER, TEXT("\x90")}},
    {"a long number",
     BAD(REPLAY, NUMBER_SIZE),
     3,
     {TEXT(""), TEXT("123456789"), TEXT("\x90")}},
    {"a status", BAD(REPLAY, NUMBER_SIZE), 2, {TEXT("status"), TEXT("\x80")}},
    {"a snapshot's end",
     BAD(REPLAY, FRAME_COUNT),
     4,
     {TEXT("snapshot"), NUMBER_1, TEXT(EDGE_LAST), TEXT("")}},
    /* snapshot */
    {"its beginning",
     GOOD(SNAPSHOT, SNAPSHOT_FIRST),
     3,
     {TEXT("snapshot"), NUMBER_0, TEXT(EDGE_FIRST)}},
    {"rows",
     GOOD(SNAPSHOT, SNAPSHOT_ROWS),
     3,
     {TEXT("snapshot"), NUMBER_1, TEXT("\x93")}},
    {"its end",
     GOOD(SNAPSHOT, SNAPSHOT_END),
     4,
     {TEXT("snapshot"), NUMBER_1, TEXT(EDGE_LAST), TEXT("")}},
    {"an end at 0",
     BAD(SNAPSHOT, NUMBER),
     4,
     {TEXT("snapshot"), NUMBER_0, TEXT(EDGE_LAST), TEXT("")}},
    {"an end with more",
     BAD(SNAPSHOT, PAYLOAD_SIZE),
     4,
     {TEXT("snapshot"), NUMBER_1, TEXT(EDGE_LAST), TEXT("x")}},
    {"an end of first ids",
     BAD(SNAPSHOT, MISSING),
     4,
     {TEXT("snapshot"), NUMBER_1, TEXT(EDGE_FIRST), TEXT("")}},
    {"five frames",
     BAD(SNAPSHOT, FRAME_COUNT),
     5,
     {TEXT("snapshot"), NUMBER_1, TEXT(EDGE_LAST), TEXT(""), TEXT("")}},
    {"two frames",
     BAD(SNAPSHOT, FRAME_COUNT),
     2,
     {TEXT("snapshot"), TEXT("\x80")}},
    {"no rows",
     BAD(SNAPSHOT, PAYLOAD_SIZE),
     3,
     {TEXT("snapshot"), NUMBER_1, TEXT("")}},
    {"a word and no payload",
     BAD(SNAPSHOT, FRAME_COUNT),
     2,
     {TEXT("snapshot"), TEXT("")}},
    {"a short index",
     BAD(SNAPSHOT, NUMBER_SIZE),
     3,
     {TEXT("snapshot"), TEXT("\0\0\0\0\0\0\0"), TEXT(EDGE_FIRST)}},
    {"another word",
     BAD(SNAPSHOT, WORD),
     3,
     {TEXT("Snapshot"), NUMBER_0, TEXT(EDGE_FIRST)}},
    /* status */
    {"a status",
     GOOD(STATUS, STATUS),
     2,
     {TEXT("status"), TEXT("\x86" STATUS_BUT_BACKEND BACKEND "\xa1"
                           "n")}},
    {"one with more names",
     GOOD(STATUS, STATUS),
     2,
     {TEXT("status"), TEXT("\x88"
                           "\xa1"
                           "x"
                           "\x91\xc0" STATUS_BUT_BACKEND "\xa0"
                           "\xc3" BACKEND "\xa1"
                           "n")}},
    {"one in wide forms",
     GOOD(SNAPSHOT, SNAPSHOT_FIRST),
     3,
     {TEXT("snapshot"), NUMBER_0,
      TEXT("\xde\0\3"
           "\xd9\5"
           "epoch"
           "\xcf\0\0\0\0\0\0\0\1" FIRST_2 TAIL_3)}},
    {"one frame", BAD(STATUS, FRAME_COUNT), 1, {TEXT("status")}},
    {"three frames",
     BAD(STATUS, FRAME_COUNT),
     3,
     {TEXT("status"), TEXT("\x80"), TEXT("")}},
    {"a word of a snapshot",
     BAD(STATUS, WORD),
     2,
     {TEXT("snapshot"), TEXT("\x80")}},
    {"an empty map", BAD(STATUS, MAP), 2, {TEXT("status"), TEXT("")}},
    {"an array", BAD(STATUS, MAP), 2, {TEXT("status"), TEXT("\x90")}},
    {"a map of nothing",
     BAD(STATUS, MISSING),
     2,
     {TEXT("status"), TEXT("\x80")}},
    {"a lying count",
     BAD(STATUS, MAP),
     2,
     {TEXT("status"), TEXT("\xdf\xff\xff\xff\xff")}},
    {"bytes behind",
     BAD(STATUS, MAP),
     2,
     {TEXT("status"), TEXT("\x86" STATUS_BUT_BACKEND BACKEND "\xa1"
                           "n"
                           "\xc0")}},
    {"no name of a store",
     BAD(STATUS, VALUE),
     2,
     {TEXT("status"), TEXT("\x86" STATUS_BUT_BACKEND BACKEND "\xa0")}},
    {"a number for a name",
     BAD(STATUS, VALUE),
     2,
     {TEXT("status"), TEXT("\x86" STATUS_BUT_BACKEND BACKEND "\x01")}},
    {"a name that is not UTF-8",
     BAD(STATUS, VALUE),
     2,
     {TEXT("status"), TEXT("\x86" STATUS_BUT_BACKEND BACKEND "\xa2\xc3\x28")}},
    {"one missing",
     BAD(STATUS, MISSING),
     2,
     {TEXT("status"), TEXT("\x85" STATUS_BUT_BACKEND)}},
    {"oldest after tail",
     BAD(STATUS, VALUE),
     2,
     {TEXT("status"), TEXT("\x86" EPOCH_1 LAST_2 "\xa8"
                           "tail_seq"
                           "\x00" OLDEST_1 KEYS_4 BACKEND "\xa1"
                           "n")}},
    {"one twice",
     BAD(SNAPSHOT, DUPLICATE),
     3,
     {TEXT("snapshot"), NUMBER_0, TEXT("\x84" EPOCH_1 FIRST_2 TAIL_3 EPOCH_1)}},
    {"nil",
     BAD(SNAPSHOT, VALUE),
     3,
     {TEXT("snapshot"), NUMBER_0,
      TEXT("\x83"
           "\xa5"
           "epoch"
           "\xc0" FIRST_2 TAIL_3)}},
    {"a negative",
     BAD(SNAPSHOT, VALUE),
     3,
     {TEXT("snapshot"), NUMBER_0,
      TEXT("\x83"
           "\xa5"
           "epoch"
           "\xff" FIRST_2 TAIL_3)}},
    {"a str",
     BAD(SNAPSHOT, VALUE),
     3,
     {TEXT("snapshot"), NUMBER_0,
      TEXT("\x83"
           "\xa5"
           "epoch"
           "\xa1"
           "1" FIRST_2 TAIL_3)}},
    {"a float",
     BAD(SNAPSHOT, VALUE),
     3,
     {TEXT("snapshot"), NUMBER_0,
      TEXT("\x83"
           "\xa5"
           "epoch"
           "\xca\0\0\0\0" FIRST_2 TAIL_3)}},
    {"a name that is a number",
     BAD(SNAPSHOT, NAME),
     3,
     {TEXT("snapshot"), NUMBER_0,
      TEXT("\x84" EPOCH_1 FIRST_2 TAIL_3 "\x01\x01")}},
    {"a name that is bin",
     BAD(SNAPSHOT, NAME),
     3,
     {TEXT("snapshot"), NUMBER_0,
      TEXT("\x84" EPOCH_1 FIRST_2 TAIL_3 "\xc4\x01"
           "a"
           "\x01")}},
    {"a name of bad UTF-8",
     BAD(SNAPSHOT, NAME),
     3,
     {TEXT("snapshot"), NUMBER_0,
      TEXT("\x84" EPOCH_1 FIRST_2 TAIL_3 "\xa1\xff"
           "\x01")}},
    {"byte C1",
     BAD(SNAPSHOT, MAP),
     3,
     {TEXT("snapshot"), NUMBER_0,
      TEXT("\x84" EPOCH_1 FIRST_2 TAIL_3 "\xa1"
           "x"
           "\xc1")}},
    {"too deep",
     BAD(SNAPSHOT, MAP),
     3,
     {TEXT("snapshot"), NUMBER_0,
      TEXT("\x84" EPOCH_1 FIRST_2 TAIL_3 "\xa1"
           "x"
           "\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91\x91"
           "\x91\xc0")}},
};

START_TEST(each_fault_has_its_name)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct row *row = &rows[i];
        struct recovery_answer answer;
        recovery_answer_read(row->kind, row->frames, row->count, &answer);
        ck_assert_msg(answer.type == row->type && answer.fault == row->fault,
                      "row %zu, %s: type %d, %s", i, row->what, answer.type,
                      recovery_fault_name(answer.fault));
    }
}
END_TEST

START_TEST(values_are_read_as_they_stand)
{
    static const struct mc_view frames[2] = {
        {"status", 6},
        TEXT("\x86"
             "\xa5"
             "epoch"
             "\xcf\xff\xff\xff\xff\xff\xff\xff\xff"
             "\xa8"
             "tail_seq"
             "\xcd\x01\x02"
             "\xaa"
             "oldest_seq"
             "\x05"
             "\xa7"
             "last_id"
             "\xce\x80\0\0\0"
             "\xa4"
             "keys"
             "\xcc\xc8" BACKEND "\xa3"
             "n-1")};
    struct recovery_answer answer;
    recovery_answer_read(ASKER_STATUS, frames, 2, &answer);
    ck_assert_int_eq(answer.type, RECOVERY_ANSWER_STATUS);
    ck_assert_uint_eq(answer.epoch, UINT64_MAX);
    ck_assert_uint_eq(answer.tail_seq, 258);
    ck_assert_uint_eq(answer.oldest_seq, 5);
    ck_assert_uint_eq(answer.last_id, UINT64_C(0x80000000));
    ck_assert_uint_eq(answer.keys, 200);
    ck_assert(mc_view_equal(answer.backend_id, mc_view_str("n-1")));
}
END_TEST

START_TEST(a_map_that_is_cut_anywhere_is_no_map)
{
    static const char whole[] = "\x87" STATUS_BUT_BACKEND BACKEND "\xa3"
                                "n-1"
                                "\xa1"
                                "x"
                                "\x92\x01\xa1"
                                "y";
    const size_t len = sizeof whole - 1;
    struct recovery_answer answer;
    for (size_t cut = 0; cut <= len; cut++) {
        char *copy = malloc(cut ? cut : 1); /* its end is seen */
        ck_assert_ptr_nonnull(copy);
        memcpy(copy, whole, cut);
        struct mc_view frames[2] = {mc_view_str("status"), {copy, cut}};
        recovery_answer_read(ASKER_STATUS, frames, 2, &answer);
        if (cut == len) {
            ck_assert_int_eq(answer.type, RECOVERY_ANSWER_STATUS);
        } else {
            ck_assert_int_eq(answer.fault, RECOVERY_FAULT_MAP);
        }
        free(copy);
    }
}
END_TEST

START_TEST(a_payload_over_the_limit_is_not_looked_at)
{
    const size_t len = (size_t)MC_EVENT_PAYLOAD_MAX + 1;
    char *payload = calloc(1, len);
    ck_assert_ptr_nonnull(payload);
    struct mc_view frames[2] = {{"12345678", 8}, {payload, len}};
    struct recovery_answer answer;
    recovery_answer_read(ASKER_REPLAY, frames, 2, &answer);
    ck_assert_int_eq(answer.fault, RECOVERY_FAULT_PAYLOAD_SIZE);
    frames[1].len--;
    recovery_answer_read(ASKER_REPLAY, frames, 2, &answer);
    ck_assert_int_eq(answer.type, RECOVERY_ANSWER_BATCH);
    free(payload);
}
END_TEST

START_TEST(a_tenant_of_the_longest_name_can_be_asked_for)
{
    char name[MC_TENANT_LEN_MAX + 1];
    struct asker_frames frames;
    memset(name, 't', sizeof name);
    struct asker_request request = {.kind = ASKER_SNAPSHOT,
                                    .tenant = {name, MC_TENANT_LEN_MAX}};
    ck_assert(asker_request_frames(&request, &frames));
    ck_assert_uint_eq(frames.count, 3);
    request.tenant.len++;
    ck_assert(!asker_request_frames(&request, &frames));
}
END_TEST

START_TEST(faults_are_named)
{
    ck_assert_str_eq(recovery_fault_name(RECOVERY_FAULT_NONE), "none");
    ck_assert_str_eq(recovery_fault_name(RECOVERY_FAULT_VALUE), "value");
    ck_assert_str_eq(recovery_fault_name(RECOVERY_FAULT_COUNT_), "unknown");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("recovery_answer");
    TCase *golden = tcase_create("golden");
    tcase_add_test(golden, all_that_is_said_in_the_golden_dialogues_is_read);
    suite_add_tcase(suite, golden);
    TCase *faults = tcase_create("faults");
    tcase_add_test(faults, each_fault_has_its_name);
    tcase_add_test(faults, values_are_read_as_they_stand);
    tcase_add_test(faults, a_map_that_is_cut_anywhere_is_no_map);
    tcase_add_test(faults, a_payload_over_the_limit_is_not_looked_at);
    tcase_add_test(faults, a_tenant_of_the_longest_name_can_be_asked_for);
    tcase_add_test(faults, faults_are_named);
    suite_add_tcase(suite, faults);
    return suite_run(suite);
}
