/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of README come from bench/bench.c, so it is tested like the
 * rest: with sides whose values are known beforehand. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../bench/bench.h"
#include "suite.h"

#define SAID_BYTES 8192

static char turns[64];
static int round_now;

static void note_turn(char who)
{
    size_t len = strlen(turns);
    ck_assert_uint_lt(len + 1, sizeof turns);
    turns[len] = who;
    turns[len + 1] = '\0';
}

/* 5, 1, 2, 3 ... : the first is the warm-up, which must not count. */
static bool ours(void *ctx, double seconds, double *value_out)
{
    (void)ctx;
    ck_assert(seconds > 0);
    note_turn('a');
    *value_out = round_now == 0 ? 5 : round_now;
    return true;
}

static bool peer(void *ctx, double seconds, double *value_out)
{
    (void)ctx;
    (void)seconds;
    note_turn('b');
    round_now++;
    *value_out = 10;
    return true;
}

static bool broken(void *ctx, double seconds, double *value_out)
{
    (void)ctx;
    (void)seconds;
    (void)value_out;
    return false;
}

static void run_rounds(struct bench *bench)
{
    turns[0] = '\0';
    round_now = 0;
    ck_assert(bench_rounds(bench, ours, peer, NULL));
    bench_note(bench, "a \"note\" of %d", 1);
}

static void run_absolute(struct bench *bench)
{
    bench_absolute(bench, 96);
    bench_require(bench, true, "unsaid");
}

static void run_unmet(struct bench *bench)
{
    bench_ratio(bench, 1, 2);
    bench_require(bench, false, "at most 64 B a key");
}

static void run_broken(struct bench *bench)
{
    ck_assert(!bench_rounds(bench, ours, broken, NULL));
}

static void run_nothing(struct bench *bench)
{
    (void)bench;
}

static const struct bench_target targets[] = {
    {"T1", "rounds", "ns", "we", "they", BENCH_LOWER, 0.2, 0.1, run_rounds},
    {"T2", "high", "ops/s", "we", "they", BENCH_HIGHER, 0.2, 0.3, run_rounds},
    {"T3", "bytes", "B", "we", NULL, BENCH_LOWER, 95, 64, run_absolute},
    {"T4", "unmet", "B", "we", "they", BENCH_LOWER, 1, 1, run_unmet},
    {"T5", "broken", "B", "we", "they", BENCH_LOWER, 1, 1, run_broken},
    {"T6", "nothing", "B", "we", "they", BENCH_LOWER, BENCH_NONE, BENCH_NONE,
     run_nothing},
};

/* What bench_main writes to standard output when called with these words. */
static const char *said(int argc, const char *const *words, int *code_out)
{
    static char text[SAID_BYTES];
    char *argv[16];
    FILE *file = tmpfile();
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < argc; i++) {
        argv[i] = (char *)(uintptr_t)words[i];
    }
    (void)fflush(stdout);
    int saved = dup(STDOUT_FILENO);
    ck_assert_int_ge(dup2(fileno(file), STDOUT_FILENO), 0);
    *code_out = bench_main(argc, argv, targets, BENCH_COUNT(targets));
    (void)fflush(stdout);
    ck_assert_int_ge(dup2(saved, STDOUT_FILENO), 0);
    (void)close(saved);
    rewind(file);
    size_t len = fread(text, 1, sizeof text - 1, file);
    text[len] = '\0';
    (void)fclose(file);
    return text;
}

#define SAY(code_out, ...)                                                   \
    said((int)(sizeof((const char *[]){"x", __VA_ARGS__}) / sizeof(char *)), \
         (const char *[]){"x", __VA_ARGS__}, code_out)

START_TEST(test_sides_take_turns_and_the_median_ratio_counts)
{
    int code;
    const char *text = SAY(&code, "--json", "--rounds", "5", "T1");
    ck_assert_int_eq(code, 0);
    ck_assert_str_eq(turns, "abababababab");
    ck_assert_str_eq(text, "{\"id\":\"T1\",\"what\":\"rounds\",\"ratio\":0.3,"
                           "\"min\":0.1,\"max\":0.5,\"rounds\":5,\"gate\":0.2,"
                           "\"goal\":0.1,\"better\":\"lower\",\"ok\":false,"
                           "\"unit\":\"ns\",\"ours_name\":\"we\",\"ours\":3,"
                           "\"peer_name\":\"they\",\"peer\":10,"
                           "\"note\":\"a \\\"note\\\" of 1\"}\n");
}
END_TEST

START_TEST(test_an_even_number_of_rounds_has_a_median_too)
{
    int code;
    const char *text = SAY(&code, "--json", "T1", "--rounds", "4");
    ck_assert_ptr_nonnull(strstr(text, "\"ratio\":0.25,\"min\":0.1,"));
}
END_TEST

START_TEST(test_nine_rounds_are_the_default_and_higher_may_be_better)
{
    int code;
    const char *text = SAY(&code, "--json", "T2");
    ck_assert_ptr_nonnull(strstr(text, "\"ratio\":0.5,"));
    ck_assert_ptr_nonnull(strstr(text, "\"rounds\":9,"));
    ck_assert_ptr_nonnull(strstr(text, "\"better\":\"higher\",\"ok\":true"));
}
END_TEST

START_TEST(test_a_figure_alone_has_no_peer)
{
    int code;
    const char *text = SAY(&code, "--json", "T3");
    ck_assert_ptr_nonnull(strstr(text, "\"ratio\":96,"));
    ck_assert_ptr_nonnull(strstr(text, "\"ok\":false"));
    ck_assert_ptr_nonnull(strstr(text, "\"peer\":null"));
    ck_assert_ptr_null(strstr(text, "unsaid"));
}
END_TEST

START_TEST(test_what_is_asked_besides_or_fails_makes_a_row_not_ok)
{
    int code;
    const char *text = SAY(&code, "--json", "T4");
    ck_assert_ptr_nonnull(strstr(text, "\"ratio\":0.5,"));
    ck_assert_ptr_nonnull(strstr(text, "\"ok\":false"));
    ck_assert_ptr_nonnull(strstr(text, "at most 64 B a key"));
    text = SAY(&code, "--json", "T5");
    ck_assert_int_eq(code, 0);
    ck_assert_ptr_nonnull(strstr(text, "\"ratio\":null"));
    ck_assert_ptr_nonnull(strstr(text, "\"ok\":false"));
    ck_assert_ptr_nonnull(strstr(text, "\"error\":"));
    text = SAY(&code, "--json", "T6");
    ck_assert_ptr_nonnull(strstr(text, "\"gate\":null,\"goal\":null"));
    ck_assert_ptr_nonnull(strstr(text, "\"ok\":false"));
}
END_TEST

START_TEST(test_rows_for_people_tell_gate_and_goal)
{
    int code;
    const char *text = SAY(&code, "T2", "T5", "T77");
    ck_assert_ptr_nonnull(strstr(text, "T2    high"));
    ck_assert_ptr_nonnull(strstr(text, "gate >= 0.2 met  goal >= 0.3 met"));
    ck_assert_ptr_nonnull(strstr(text, "T5    broken\n      not measured: "));
    ck_assert_ptr_null(strstr(text, "T1 "));
}
END_TEST

START_TEST(test_list_tells_ids_and_runs_nothing)
{
    int code;
    turns[0] = '\0';
    const char *text = SAY(&code, "--list");
    ck_assert_str_eq(text, "T1\nT2\nT3\nT4\nT5\nT6\n");
    ck_assert_str_eq(turns, "");
}
END_TEST

START_TEST(test_options_that_make_no_sense_are_refused)
{
    int code = 0;
    (void)SAY(&code, "--rounds", "0");
    ck_assert_int_eq(code, 2);
    (void)SAY(&code, "--rounds");
    ck_assert_int_eq(code, 2);
    (void)SAY(&code, "--seconds", "nan");
    ck_assert_int_eq(code, 2);
    (void)SAY(&code, "--what");
    ck_assert_int_eq(code, 2);
}
END_TEST

START_TEST(test_percentiles_are_of_sorted_values)
{
    double values[200];
    for (int i = 0; i < 200; i++) {
        values[i] = (double)((i * 37) % 200);
    }
    ck_assert_double_eq(bench_percentile(values, 200, 0.99), 198);
    ck_assert_double_eq(bench_percentile(values, 200, 0.5), 100);
    ck_assert_double_eq(bench_percentile(values, 200, 1), 199);
    ck_assert_double_eq(bench_percentile(values, 1, 0.99), 0);
}
END_TEST

static uint64_t do_four(void *ctx)
{
    ++*(int *)ctx;
    return 4;
}

static uint64_t give_up(void *ctx)
{
    (void)ctx;
    return 0;
}

START_TEST(test_time_and_rate_count_units)
{
    int calls = 0;
    double ns = 0;
    double begin = bench_now();
    ck_assert(bench_time(do_four, &calls, 0.01, &ns));
    double elapsed = bench_now() - begin;
    double total = ns * 4 * calls / 1e9;
    ck_assert(total >= 0.01 && total <= elapsed);
    double rate = 0;
    ck_assert(bench_rate(do_four, &calls, 0.001, &rate));
    ck_assert(isfinite(rate) && rate > 0);
    ck_assert(!bench_time(give_up, NULL, 0.01, &ns));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bench");
    TCase *tcase = tcase_create("rows");
    tcase_add_test(tcase, test_sides_take_turns_and_the_median_ratio_counts);
    tcase_add_test(tcase, test_an_even_number_of_rounds_has_a_median_too);
    tcase_add_test(tcase,
                   test_nine_rounds_are_the_default_and_higher_may_be_better);
    tcase_add_test(tcase, test_a_figure_alone_has_no_peer);
    tcase_add_test(tcase,
                   test_what_is_asked_besides_or_fails_makes_a_row_not_ok);
    tcase_add_test(tcase, test_rows_for_people_tell_gate_and_goal);
    tcase_add_test(tcase, test_list_tells_ids_and_runs_nothing);
    tcase_add_test(tcase, test_options_that_make_no_sense_are_refused);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("measuring");
    tcase_add_test(tcase, test_percentiles_are_of_sorted_values);
    tcase_add_test(tcase, test_time_and_rate_count_units);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
