/* SPDX-License-Identifier: Apache-2.0 */
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "mc_err.h"
#include "suite.h"

struct row {
    enum mc_err err;
    int number;
    enum mc_err_scope scope;
    const char *name;
};

static const struct row rows[] = {
#define ROW(name, number, scope, text) \
    {name, number, MC_ERR_SCOPE_##scope, #name},
    MC_ERR_LIST(ROW)
#undef ROW
};
#define ROW_COUNT (sizeof rows / sizeof rows[0])

START_TEST(test_ok_is_zero_and_all_others_are_negative)
{
    ck_assert_int_eq(MC_OK, 0);
    for (size_t i = 1; i < ROW_COUNT; i++) {
        ck_assert_int_lt((int)rows[i].err, 0);
        ck_assert_int_eq((int)rows[i].err, rows[i].number);
    }
}
END_TEST

START_TEST(test_numbers_names_and_texts_are_there_once)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        ck_assert_uint_gt(strlen(mc_err_text(rows[i].err)), 0);
        for (size_t j = 0; j < i; j++) {
            ck_assert_int_ne(rows[i].number, rows[j].number);
            ck_assert_str_ne(mc_err_name(rows[i].err),
                             mc_err_name(rows[j].err));
            ck_assert_str_ne(mc_err_text(rows[i].err),
                             mc_err_text(rows[j].err));
        }
    }
}
END_TEST

/* Callers of the store compare with these numbers. */
START_TEST(test_published_numbers_stand)
{
    static const struct {
        int number;
        const char *name;
    } published[] = {{-10, "BUFFER_OVERFLOW"},
                     {-200, "NO_AVAILABLE_HANDLE"},
                     {-300, "INVALID_VERSION"},
                     {-400, "INVALID_KEY"},
                     {-600, "INVALID_PARAMS"},
                     {-703, "REPLICA_IS_NOT_READY"},
                     {-704, "OBJECT_NOT_FOUND"},
                     {-705, "OBJECT_ALREADY_EXISTS"},
                     {-706, "OBJECT_HAS_LEASE"},
                     {-707, "LEASE_EXPIRED"},
                     {-800, "TRANSFER_FAIL"},
                     {-901, "RPC_TIMEOUT"},
                     {-1011, "UNAVAILABLE_IN_CURRENT_MODE"},
                     {-1702, "TENANT_NOT_EMPTY"},
                     {0, "OK"}};
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        enum mc_err err = (enum mc_err)published[i].number;
        ck_assert_str_eq(mc_err_name(err), published[i].name);
    }
}
END_TEST

START_TEST(test_names_are_those_of_the_list_without_prefix)
{
    for (size_t i = 1; i < ROW_COUNT; i++) {
        ck_assert_str_eq(mc_err_name(rows[i].err),
                         rows[i].name + strlen("MC_ERR_"));
    }
}
END_TEST

START_TEST(test_scope_says_what_is_lost)
{
    for (size_t i = 0; i < ROW_COUNT; i++) {
        ck_assert_int_eq((int)mc_err_scope(rows[i].err), (int)rows[i].scope);
    }
    ck_assert_int_eq((int)mc_err_scope(MC_OK), MC_ERR_SCOPE_NONE);
    ck_assert_int_eq((int)mc_err_scope(MC_ERR_RPC_FAIL), MC_ERR_SCOPE_PEER);
    ck_assert_int_eq((int)mc_err_scope(MC_ERR_OBJECT_NOT_FOUND),
                     MC_ERR_SCOPE_CALL);
}
END_TEST

START_TEST(test_a_number_outside_the_list_has_words_too)
{
    static const int strange[] = {1, -2, -9999, 2147483647};
    for (size_t i = 0; i < sizeof strange / sizeof strange[0]; i++) {
        enum mc_err err = (enum mc_err)strange[i];
        ck_assert_str_eq(mc_err_name(err), "UNKNOWN");
        ck_assert_str_eq(mc_err_text(err), "unknown error");
        ck_assert_int_eq((int)mc_err_scope(err), MC_ERR_SCOPE_CALL);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("err");
    TCase *tcase = tcase_create("list");
    tcase_add_test(tcase, test_ok_is_zero_and_all_others_are_negative);
    tcase_add_test(tcase, test_numbers_names_and_texts_are_there_once);
    tcase_add_test(tcase, test_published_numbers_stand);
    tcase_add_test(tcase, test_names_are_those_of_the_list_without_prefix);
    tcase_add_test(tcase, test_scope_says_what_is_lost);
    tcase_add_test(tcase, test_a_number_outside_the_list_has_words_too);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
