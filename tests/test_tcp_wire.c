/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "suite.h"
#include "tcp_wire.h"

static const struct mci_tcp_request write_request = {
    .op = MCI_TCP_WRITE,
    .is_final = true,
    .number = UINT64_C(0x0102030405060708),
    .terms = {.registration = 0x1111111111111111,
              .incarnation = 0x2222222222222222,
              .subject = 0x3333333333333333,
              .offset = 0x1000,
              .len = 0x2000,
              .is_write = true},
    .grant = {.deadline_ns = 0x4444444444444444, .tag = 0x5555555555555555},
    .offset = 0x1800,
    .len = 0x800};

static const struct mci_tcp_answer read_answer = {.op = MCI_TCP_READ,
                                                  .number = 9,
                                                  .code = MC_OK,
                                                  .len = 0x10203,
                                                  .receipt = 0};

START_TEST(test_a_request_has_these_bytes)
{
    static const uint8_t expected[MCI_TCP_REQUEST_LEN] = {
        'M',  'K',  'R',  'Q',  1,    2,    3,    0,    8,    7,    6,
        5,    4,    3,    2,    1,    0x11, 0x11, 0x11, 0x11, 0x11, 0x11,
        0x11, 0x11, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x33,
        0x33, 0x33, 0x33, 0x33, 0x33, 0x33, 0x33, 0,    0x10, 0,    0,
        0,    0,    0,    0,    0,    0x20, 0,    0,    0,    0,    0,
        0,    0x44, 0x44, 0x44, 0x44, 0x44, 0x44, 0x44, 0x44, 0x55, 0x55,
        0x55, 0x55, 0x55, 0x55, 0x55, 0x55, 0,    0x18, 0,    0,    0,
        0,    0,    0,    0,    8,    0,    0,    0,    0,    0,    0};
    uint8_t head[MCI_TCP_REQUEST_LEN];
    struct mci_tcp_request back;
    memset(head, 0xEE, sizeof head);
    mci_tcp_request_write(&write_request, head);
    ck_assert_mem_eq(head, expected, sizeof head);
    ck_assert_int_eq(mci_tcp_request_read(head, &back), MC_OK);
    ck_assert_int_eq(back.op, MCI_TCP_WRITE);
    ck_assert(back.is_final && back.terms.is_write);
    ck_assert_uint_eq(back.number, write_request.number);
    ck_assert_uint_eq(back.terms.registration, 0x1111111111111111);
    ck_assert_uint_eq(back.terms.incarnation, 0x2222222222222222);
    ck_assert_uint_eq(back.terms.subject, 0x3333333333333333);
    ck_assert_uint_eq(back.terms.offset, 0x1000);
    ck_assert_uint_eq(back.terms.len, 0x2000);
    ck_assert_uint_eq(back.grant.deadline_ns, 0x4444444444444444);
    ck_assert_uint_eq(back.grant.tag, 0x5555555555555555);
    ck_assert_uint_eq(back.offset, 0x1800);
    ck_assert_uint_eq(back.len, 0x800);
}
END_TEST

START_TEST(test_an_answer_has_these_bytes)
{
    static const uint8_t expected[MCI_TCP_ANSWER_LEN] = {
        'M', 'K', 'A',  'N',  1,    2,    0, 0, 7, 0, 0, 0,   0, 0,
        0,   0,   0x45, 0xFD, 0xFF, 0xFF, 0, 0, 0, 0, 0, 0,   0, 0,
        0,   0,   0,    0,    1,    0,    0, 0, 0, 0, 0, 0x80};
    const struct mci_tcp_answer answer = {.op = MCI_TCP_WRITE,
                                          .number = 7,
                                          .code = (enum mc_err) - 699,
                                          .len = 0,
                                          .receipt = 0x8000000000000001};
    uint8_t head[MCI_TCP_ANSWER_LEN];
    struct mci_tcp_answer back;
    memset(head, 0xEE, sizeof head);
    mci_tcp_answer_write(&answer, head);
    ck_assert_mem_eq(head, expected, sizeof head);
    ck_assert_int_eq(mci_tcp_answer_read(head, &back), MC_OK);
    ck_assert_int_eq(back.op, MCI_TCP_WRITE);
    ck_assert_uint_eq(back.number, 7);
    ck_assert_int_eq((int)back.code, -699);
    ck_assert_uint_eq(back.len, 0);
    ck_assert_uint_eq(back.receipt, 0x8000000000000001);
}
END_TEST

struct spoilt {
    const char *what;
    size_t at;
    uint8_t byte;
    enum mc_err err;
};

START_TEST(test_heads_that_make_no_sense_are_refused)
{
    static const struct spoilt requests[] = {
        {"magic", 0, 'm', MC_ERR_INVALID_PARAMS},
        {"magic of an answer", 2, 'A', MC_ERR_INVALID_PARAMS},
        {"version", 4, 2, MC_ERR_NOT_SUPPORTED},
        {"op 0", 5, 0, MC_ERR_INVALID_PARAMS},
        {"op 5", 5, 5, MC_ERR_INVALID_PARAMS},
        {"a read that writes", 5, 1, MC_ERR_INVALID_PARAMS},
        {"a write that reads", 6, 2, MC_ERR_INVALID_PARAMS},
        {"unknown flag", 6, 7, MC_ERR_INVALID_PARAMS},
        {"not zero", 7, 1, MC_ERR_INVALID_PARAMS},
        {"final seal", 5, 3, MC_ERR_INVALID_PARAMS},
        {"too long", 84, 1, MC_ERR_INVALID_PARAMS},
    };
    static const struct spoilt answers[] = {
        {"magic", 3, 'n', MC_ERR_INVALID_PARAMS},
        {"version", 4, 0, MC_ERR_NOT_SUPPORTED},
        {"op 0", 5, 0, MC_ERR_INVALID_PARAMS},
        {"flags", 6, 1, MC_ERR_INVALID_PARAMS},
        {"not zero", 7, 1, MC_ERR_INVALID_PARAMS},
        {"a code above 0", 16, 1, MC_ERR_INVALID_PARAMS},
        {"not zero", 23, 1, MC_ERR_INVALID_PARAMS},
    };
    struct mci_tcp_request request = {.number = 77};
    struct mci_tcp_answer answer = {.number = 77};
    uint8_t head[MCI_TCP_REQUEST_LEN];
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        mci_tcp_request_write(&write_request, head);
        head[requests[i].at] = requests[i].byte;
        ck_assert_msg(mci_tcp_request_read(head, &request) == requests[i].err,
                      "%s", requests[i].what);
        ck_assert_uint_eq(request.number, 77);
    }
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        mci_tcp_answer_write(&read_answer, head);
        head[answers[i].at] = answers[i].byte;
        ck_assert_msg(mci_tcp_answer_read(head, &answer) == answers[i].err,
                      "%s", answers[i].what);
        ck_assert_uint_eq(answer.number, 77);
    }
}
END_TEST

START_TEST(test_ranges_that_wrap_or_are_too_long_are_refused)
{
    static const struct {
        uint64_t offset;
        uint64_t len;
        enum mc_err err;
    } rows[] = {
        {0, 0, MC_OK},
        {0, MCI_TCP_PIECE_MAX, MC_OK},
        {0, MCI_TCP_PIECE_MAX + 1, MC_ERR_INVALID_PARAMS},
        {UINT64_MAX - 10, 10, MC_OK},
        {UINT64_MAX - 10, 11, MC_ERR_INVALID_PARAMS},
        {UINT64_MAX, 0, MC_OK},
        {2, UINT64_MAX, MC_ERR_INVALID_PARAMS},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mci_tcp_request request = write_request;
        uint8_t head[MCI_TCP_REQUEST_LEN];
        request.offset = rows[i].offset;
        request.len = rows[i].len;
        mci_tcp_request_write(&request, head);
        ck_assert_int_eq(mci_tcp_request_read(head, &request), rows[i].err);
    }
}
END_TEST

START_TEST(test_an_answer_fits_its_request_or_nothing_does)
{
    struct mci_tcp_request request = write_request;
    const struct mci_tcp_answer good = {.op = MCI_TCP_WRITE,
                                        .number = request.number,
                                        .code = MC_OK,
                                        .len = request.len,
                                        .receipt = 1};
    struct mci_tcp_answer answer = good;
    ck_assert(mci_tcp_answer_fits(&answer, &request));
    answer.number++;
    ck_assert(!mci_tcp_answer_fits(&answer, &request));
    answer = good;
    answer.op = MCI_TCP_SEAL;
    ck_assert(!mci_tcp_answer_fits(&answer, &request));
    answer = good;
    answer.len--;
    ck_assert(!mci_tcp_answer_fits(&answer, &request));
    answer = good;
    answer.receipt = 0;
    ck_assert(!mci_tcp_answer_fits(&answer, &request));
    answer = good;
    answer.code = MC_ERR_INVALID_VERSION;
    ck_assert(!mci_tcp_answer_fits(&answer, &request));
    answer.len = 0;
    ck_assert(!mci_tcp_answer_fits(&answer, &request));
    answer.receipt = 0;
    ck_assert(mci_tcp_answer_fits(&answer, &request));
    request.is_final = false;
    answer = good;
    ck_assert(!mci_tcp_answer_fits(&answer, &request));
    answer.receipt = 0;
    ck_assert(mci_tcp_answer_fits(&answer, &request));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tcp_wire");
    TCase *tcase = tcase_create("wire");
    tcase_add_test(tcase, test_a_request_has_these_bytes);
    tcase_add_test(tcase, test_an_answer_has_these_bytes);
    tcase_add_test(tcase, test_heads_that_make_no_sense_are_refused);
    tcase_add_test(tcase, test_ranges_that_wrap_or_are_too_long_are_refused);
    tcase_add_test(tcase, test_an_answer_fits_its_request_or_nothing_does);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
