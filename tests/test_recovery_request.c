/* SPDX-License-Identifier: Apache-2.0 */
/* test_recovery_request.c - what is a request, and what is none. */
#include "recovery_request.h"

#include <string.h>

#include "suite.h"

#define FRAME(text)           \
    {                         \
        text, sizeof text - 1 \
    }
#define START "\x01\x02\x03\x04\x05\x06\x07\x08"

struct row {
    const char *name;
    size_t count;
    struct mc_view frames[5];
    struct mci_recovery_request want;
};

static char tenant_64[65];
static char tenant_65[66];

static const struct row good[] = {
    {"replay", 2, {FRAME(""), FRAME(START)}, {.kind = MCI_RECOVERY_REPLAY}},
    {"paced replay",
     3,
     {FRAME(""), FRAME(START), FRAME("\0\0\1\2")},
     {.kind = MCI_RECOVERY_REPLAY, .is_paced = true, .credit = 258}},
    {"replay paced without credit",
     3,
     {FRAME(""), FRAME(START), FRAME("\0\0\0\0")},
     {.kind = MCI_RECOVERY_REPLAY, .is_paced = true}},
    {"snapshot",
     2,
     {FRAME(""), FRAME("snapshot")},
     {.kind = MCI_RECOVERY_SNAPSHOT}},
    {"snapshot of a tenant",
     3,
     {FRAME(""), FRAME("snapshot"), FRAME("abcd")},
     {.kind = MCI_RECOVERY_SNAPSHOT, .tenant = FRAME("abcd")}},
    {"snapshot of the longest tenant",
     3,
     {FRAME(""), FRAME("snapshot"), {tenant_64, 64}},
     {.kind = MCI_RECOVERY_SNAPSHOT, .tenant = {tenant_64, 64}}},
    {"status", 2, {FRAME(""), FRAME("status")}, {.kind = MCI_RECOVERY_STATUS}},
    {"credit",
     3,
     {FRAME(""), FRAME("credit"), FRAME("\xff\xff\xff\xff")},
     {.kind = MCI_RECOVERY_CREDIT, .credit = UINT32_MAX}},
};

static const struct row bad[] = {
    {"nothing", 0, {FRAME("")}, {0}},
    {"delimiter alone", 1, {FRAME("")}, {0}},
    {"no delimiter", 1, {FRAME(START)}, {0}},
    {"word in the delimiter's place", 2, {FRAME("status"), FRAME("")}, {0}},
    {"no empty delimiter", 2, {FRAME("x"), FRAME(START)}, {0}},
    {"seven bytes", 2, {FRAME(""), FRAME("1234567")}, {0}},
    {"nine bytes", 2, {FRAME(""), FRAME("123456789")}, {0}},
    {"empty request", 2, {FRAME(""), FRAME("")}, {0}},
    {"credit of three bytes", 3, {FRAME(""), FRAME(START), FRAME("123")}, {0}},
    {"credit of five bytes", 3, {FRAME(""), FRAME(START), FRAME("12345")}, {0}},
    {"empty credit", 3, {FRAME(""), FRAME(START), FRAME("")}, {0}},
    {"two frames more",
     4,
     {FRAME(""), FRAME(START), FRAME("1234"), FRAME("")},
     {0}},
    {"credit without number", 2, {FRAME(""), FRAME("credit")}, {0}},
    {"credit of eight bytes",
     3,
     {FRAME(""), FRAME("credit"), FRAME(START)},
     {0}},
    {"status of something",
     3,
     {FRAME(""), FRAME("status"), FRAME("1234")},
     {0}},
    {"word in capitals", 2, {FRAME(""), FRAME("STATUS")}, {0}},
    {"empty tenant", 3, {FRAME(""), FRAME("snapshot"), FRAME("")}, {0}},
    {"tenant too long",
     3,
     {FRAME(""), FRAME("snapshot"), {tenant_65, 65}},
     {0}},
    {"tenant that is no text",
     3,
     {FRAME(""), FRAME("snapshot"), FRAME("\xff\xfe")},
     {0}},
};

static void fill_tenants(void)
{
    memset(tenant_64, 't', 64);
    memset(tenant_65, 't', 65);
}

START_TEST(request_is_read)
{
    struct mci_recovery_request request;
    const struct row *row = &good[_i];
    fill_tenants();
    mci_recovery_request_read(row->frames, row->count, &request);
    ck_assert_msg(request.kind == row->want.kind, "%s", row->name);
    ck_assert_int_eq(request.is_paced, row->want.is_paced);
    ck_assert_uint_eq(request.credit, row->want.credit);
    ck_assert(mc_view_equal(request.tenant, row->want.tenant));
    ck_assert_uint_eq(request.start, request.kind == MCI_RECOVERY_REPLAY
                                         ? UINT64_C(0x0102030405060708)
                                         : 0);
}
END_TEST

START_TEST(what_is_none_means_nothing)
{
    struct mci_recovery_request request;
    const struct row *row = &bad[_i];
    fill_tenants();
    mci_recovery_request_read(row->frames, row->count, &request);
    ck_assert_msg(request.kind == MCI_RECOVERY_MALFORMED, "%s", row->name);
    ck_assert_uint_eq(request.start, 0);
    ck_assert_uint_eq(request.credit, 0);
    ck_assert_ptr_null(request.tenant.data);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("recovery_request");
    TCase *tc = tcase_create("requests");
    tcase_add_loop_test(tc, request_is_read, 0, sizeof good / sizeof good[0]);
    tcase_add_loop_test(tc, what_is_none_means_nothing, 0,
                        sizeof bad / sizeof bad[0]);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
