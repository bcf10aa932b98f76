/* SPDX-License-Identifier: Apache-2.0 */
#include "mc_medium.h"
#include "mc_session.h"
#include "suite.h"

static char text[MC_SESSION_ID_LEN_MAX + 1];

START_TEST(a_session_id_of_256_bytes_is_fine_and_one_more_is_not)
{
    memset(text, 's', sizeof text);
    ck_assert_int_eq(
        mc_session_id_check(mc_view_make(text, MC_SESSION_ID_LEN_MAX)), MC_OK);
    ck_assert_int_eq(
        mc_session_id_check(mc_view_make(text, MC_SESSION_ID_LEN_MAX + 1)),
        MC_ERR_INVALID_PARAMS);
}
END_TEST

START_TEST(none_and_empty_and_nul_are_fine)
{
    ck_assert_int_eq(mc_session_id_check(mc_view_make(NULL, 0)), MC_OK);
    ck_assert_int_eq(mc_session_id_check(mc_view_make("", 0)), MC_OK);
    ck_assert_int_eq(mc_session_id_check(mc_view_make("a\0b", 3)), MC_OK);
    ck_assert_int_eq(mc_session_id_check(mc_view_make("\0", 1)), MC_OK);
    ck_assert_int_eq(mc_session_id_check(mc_view_make(NULL, 1)),
                     MC_ERR_INVALID_PARAMS);
}
END_TEST

START_TEST(what_is_not_utf8_is_no_session_id)
{
    static const char *const bad[] = {"\xff", "\xc0\x80", "\xed\xa0\x80",
                                      "\xe2\x82", "\xf4\x90\x80\x80"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_int_eq(mc_session_id_check(mc_view_str(bad[i])),
                         MC_ERR_INVALID_PARAMS);
    }
    ck_assert_int_eq(mc_session_id_check(mc_view_str("\xf0\x9f\x9a\x80")),
                     MC_OK);
}
END_TEST

START_TEST(a_vector_has_one_id_per_key)
{
    struct mc_view ids[3] = {mc_view_make("a", 1), mc_view_make(NULL, 0),
                             mc_view_make("", 0)};
    ck_assert_int_eq(mc_session_ids_check(ids, 3, 3), MC_OK);
    ck_assert_int_eq(mc_session_ids_check(ids, 2, 3), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_session_ids_check(ids, 3, 2), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_session_ids_check(ids, 0, 3), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_session_ids_check(NULL, 0, 3), MC_OK);
    ck_assert_int_eq(mc_session_ids_check(NULL, 3, 3), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_session_ids_check(ids, 0, 0), MC_OK);
}
END_TEST

START_TEST(one_bad_id_refuses_the_vector)
{
    struct mc_view ids[3] = {mc_view_make("a", 1), mc_view_make("b", 1),
                             mc_view_make("\xff", 1)};
    ck_assert_int_eq(mc_session_ids_check(ids, 3, 3), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_session_ids_check(ids, 2, 2), MC_OK);
}
END_TEST

START_TEST(media_have_names)
{
    ck_assert_str_eq(mc_medium_name(MC_MEDIUM_NONE), "-");
    ck_assert_str_eq(mc_medium_name(MC_MEDIUM_CPU), "cpu");
    ck_assert_str_eq(mc_medium_name(MC_MEDIUM_DISK), "disk");
    ck_assert_str_eq(mc_medium_name(MC_MEDIUM_CPU | MC_MEDIUM_DISK),
                     "cpu+disk");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("session");
    TCase *ids = tcase_create("ids");
    tcase_add_test(ids, a_session_id_of_256_bytes_is_fine_and_one_more_is_not);
    tcase_add_test(ids, none_and_empty_and_nul_are_fine);
    tcase_add_test(ids, what_is_not_utf8_is_no_session_id);
    tcase_add_test(ids, a_vector_has_one_id_per_key);
    tcase_add_test(ids, one_bad_id_refuses_the_vector);
    suite_add_tcase(suite, ids);
    TCase *media = tcase_create("media");
    tcase_add_test(media, media_have_names);
    suite_add_tcase(suite, media);
    return suite_run(suite);
}
