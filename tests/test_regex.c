/* SPDX-License-Identifier: Apache-2.0 */
/* The door to PCRE2: what is found, what is refused, what it may cost. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_fail.h"
#include "mc_limits.h"
#include "mci_clock.h"
#include "mci_regex.h"
#include "suite.h"

#define VIEW(literal) mc_view_make("" literal, sizeof literal - 1)

static struct mci_regex *compile(struct mc_view pattern)
{
    struct mci_regex *regex = NULL;
    ck_assert_int_eq(mci_regex_compile(pattern, &regex), MC_OK);
    return regex;
}

static bool finds(struct mc_view pattern, struct mc_view text)
{
    struct mci_regex *regex = compile(pattern);
    bool found = false;
    ck_assert_int_eq(mci_regex_find(regex, text, &found), MC_OK);
    mci_regex_destroy(regex);
    return found;
}

struct find_row {
    struct mc_view pattern;
    struct mc_view text;
    bool found;
};

START_TEST(an_expression_is_found_anywhere_in_the_key)
{
    const struct find_row rows[] = {
        {VIEW("b"), VIEW("abc"), true},
        {VIEW("^b"), VIEW("abc"), false},
        {VIEW("c$"), VIEW("abc"), true},
        {VIEW(""), VIEW("abc"), true},
        {VIEW("a+b*"), VIEW("xxaay"), true},
        {VIEW("^model/[0-9a-f]{8}__k$"), VIEW("model/0011aaff__k"), true},
        {VIEW("^model/[0-9a-f]{8}__k$"), VIEW("model/0011aafg__k"), false},
        {VIEW("layer_(1|2)\\b"), VIEW("x/layer_2/y"), true},
        {VIEW("layer_(1|2)\\b"), VIEW("x/layer_23/y"), false},
        {VIEW("^.$"), VIEW("\xc3\xa9"), true}, /* a character, not a byte */
        {VIEW("\xc3\xa9"), VIEW("caf\xc3\xa9"), true},
        {VIEW("a\0b"), VIEW("xa\0by"), true},
        {VIEW("a\0b"), VIEW("a"), false},
        {VIEW("\\x00"), VIEW("a\0"), true},
        {VIEW("b"), VIEW("a\0b"), true}, /* looks behind a NUL */
        {VIEW("a"), VIEW(""), false},
        {VIEW("(?i)ABC"), VIEW("xabcx"), true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ck_assert_msg(finds(rows[i].pattern, rows[i].text) == rows[i].found,
                      "row %zu", i);
    }
}
END_TEST

START_TEST(what_is_no_expression_is_refused)
{
    static char too_long[MCI_REGEX_LEN_MAX + 1];
    memset(too_long, 'a', sizeof too_long);
    const struct mc_view bad[] = {
        VIEW("("),
        VIEW("[a"),
        VIEW("*a"),
        VIEW("a{2,1}"),
        VIEW("\\"),
        VIEW("(?<n>a)(?<n>b)"),
        VIEW("\\C"),
        VIEW("\xff"),
        VIEW("\xc0\x80"),
        VIEW("\xed\xa0\x80"),
        VIEW("\xe2\x82"),
        VIEW("\xf4\x90\x80\x80"),
        VIEW("((a{1000}){1000}){1000}"),
        mc_view_make(NULL, 0),
        mc_view_make(too_long, sizeof too_long),
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct mci_regex *regex = NULL;
        enum mc_err err = mci_regex_compile(bad[i], &regex);
        ck_assert_msg(err == MC_ERR_INVALID_PARAMS, "row %zu: %d", i, err);
        ck_assert_ptr_null(regex);
    }
    struct mci_regex *regex =
        compile(mc_view_make(too_long, MCI_REGEX_LEN_MAX));
    mci_regex_destroy(regex);
}
END_TEST

START_TEST(text_that_is_not_utf8_is_an_error_and_no_answer)
{
    const struct mc_view bad[] = {VIEW("a\xff"), VIEW("\xc0\x80"),
                                  VIEW("\xed\xa0\x80"), VIEW("\xe2\x82"),
                                  mc_view_make(NULL, 0)};
    struct mci_regex *regex = compile(VIEW("a"));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        bool found = true;
        ck_assert_int_eq(mci_regex_find(regex, bad[i], &found),
                         MC_ERR_INVALID_PARAMS);
        ck_assert(found);
    }
    mci_regex_destroy(regex);
}
END_TEST

START_TEST(catastrophic_expressions_hit_a_limit_soon)
{
    static const char *const patterns[] = {
        "(a+)+$",         "(a|a)*$",
        "(a*)*b",         "^(([a-z])+.)+[A-Z]([a-z])+$",
        "(.*)*x(.*)*y",   "(?:a|(?R))*c",
        "(a?){64}a{64}b", "^(\\w+\\s?)*$\\d",
    };
    static char text[4096];
    memset(text, 'a', sizeof text);
    text[sizeof text - 1] = '!';
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        struct mci_regex *regex = compile(mc_view_str(patterns[i]));
        bool found = false;
        uint64_t start = mci_clock_ns();
        enum mc_err err =
            mci_regex_find(regex, mc_view_make(text, sizeof text), &found);
        uint64_t took_ms = (mci_clock_ns() - start) / MCI_NS_PER_MS;
        ck_assert_msg(err == MC_ERR_INVALID_PARAMS || (err == MC_OK && !found),
                      "%s: %d", patterns[i], err);
        ck_assert_msg(took_ms < 2000, "%s: %ju ms", patterns[i],
                      (uintmax_t)took_ms);
        /* The expression is as good as before for other keys. */
        ck_assert_int_eq(mci_regex_find(regex, VIEW("!"), &found), MC_OK);
        mci_regex_destroy(regex);
    }
    struct mci_regex *regex = compile(VIEW("(a+)+$"));
    bool found;
    ck_assert_int_eq(
        mci_regex_find(regex, mc_view_make(text, sizeof text), &found),
        MC_ERR_INVALID_PARAMS);
    mci_regex_destroy(regex);
}
END_TEST

/* An expression may lower its limits, never raise them. */
START_TEST(limits_cannot_be_raised_from_within)
{
    static char text[64];
    memset(text, 'a', sizeof text - 1);
    bool found;
    struct mci_regex *regex = compile(
        VIEW("(*LIMIT_MATCH=4000000000)(*LIMIT_DEPTH=4000000000)(a+)+$x"));
    ck_assert_int_eq(mci_regex_find(regex, mc_view_str(text), &found), MC_OK);
    mci_regex_destroy(regex);
    regex = compile(VIEW("(*LIMIT_MATCH=4000000000)(a+)+[^b]$y?\\d"));
    text[sizeof text - 2] = '!';
    ck_assert_int_eq(mci_regex_find(regex, mc_view_str(text), &found),
                     MC_ERR_INVALID_PARAMS);
    mci_regex_destroy(regex);
}
END_TEST

START_TEST(ordinary_searches_allocate_nothing)
{
    static const char *const patterns[] = {
        "^k/", "[0-9a-f]{64}__k$", "layer_(1|2|3)", "(.+)/(.+)/(.+)", "zzz"};
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        struct mci_regex *regex = compile(mc_view_str(patterns[i]));
        uint64_t calls = mci_alloc_thread_calls();
        bool found;
        for (int round = 0; round < 100; round++) {
            ck_assert_int_eq(
                mci_regex_find(regex, VIEW("k/0123/layer_2/abcdef"), &found),
                MC_OK);
        }
        ck_assert_uint_eq(mci_alloc_thread_calls(), calls);
        mci_regex_destroy(regex);
    }
}
END_TEST

START_TEST(compile_survives_each_failing_allocation)
{
    static const char *const patterns[] = {
        "a", "^(k|v)/[0-9a-f]{64}(?<part>_[kv])?$",
        "((((((((((a)b)c)d)e)f)g)h)i)j)(?1)(?2)(?3)\\p{L}[\xc3\xa9-\xd0\xb0]"};
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        struct alloc_fail fail;
        ALLOC_FAIL_EACH(fail)
        {
            struct mci_regex *regex = NULL;
            alloc_fail_arm(&fail);
            enum mc_err err =
                mci_regex_compile(mc_view_str(patterns[i]), &regex);
            alloc_fail_disarm(&fail);
            ck_assert_int_eq(err,
                             alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
            mci_regex_destroy(regex);
        }
    }
}
END_TEST

START_TEST(a_deep_search_allocates_nothing_either)
{
    static char text[MC_KEY_LEN_MAX];
    memset(text, 'a', sizeof text);
    struct mci_regex *regex = compile(VIEW("^(?:a|b)*$"));
    struct mci_regex *deeper = compile(VIEW("^((?:(a)|(b))*)*[cd]$"));
    uint64_t calls = mci_alloc_thread_calls();
    bool found = false;
    ck_assert_int_eq(
        mci_regex_find(regex, mc_view_make(text, sizeof text), &found), MC_OK);
    ck_assert(found);
    ck_assert_int_eq(
        mci_regex_find(deeper, mc_view_make(text, sizeof text), &found),
        MC_ERR_INVALID_PARAMS);
    ck_assert_uint_eq(mci_alloc_thread_calls(), calls);
    mci_regex_destroy(regex);
    mci_regex_destroy(deeper);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("regex");
    TCase *answers = tcase_create("answers");
    tcase_add_test(answers, an_expression_is_found_anywhere_in_the_key);
    tcase_add_test(answers, what_is_no_expression_is_refused);
    tcase_add_test(answers, text_that_is_not_utf8_is_an_error_and_no_answer);
    suite_add_tcase(suite, answers);
    TCase *bounds = tcase_create("bounds");
    tcase_set_timeout(bounds, 60);
    tcase_add_test(bounds, catastrophic_expressions_hit_a_limit_soon);
    tcase_add_test(bounds, limits_cannot_be_raised_from_within);
    suite_add_tcase(suite, bounds);
    TCase *memory = tcase_create("memory");
    tcase_add_test(memory, ordinary_searches_allocate_nothing);
    tcase_add_test(memory, compile_survives_each_failing_allocation);
    tcase_add_test(memory, a_deep_search_allocates_nothing_either);
    suite_add_tcase(suite, memory);
    return suite_run(suite);
}
