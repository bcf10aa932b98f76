/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "mc_log.h"
#include "suite.h"

struct heard {
    atomic_int count;
    enum mc_log_level level;
    char text[2048];
};

static void hear(void *ctx, enum mc_log_level level, const char *text)
{
    struct heard *heard = ctx;
    atomic_fetch_add(&heard->count, 1);
    heard->level = level;
    (void)snprintf(heard->text, sizeof heard->text, "%s", text);
}

static void tear_down(void)
{
    mc_log_set_sink(NULL, NULL);
    mc_log_set_level(MC_LOG_WARN);
}

START_TEST(test_the_sink_gets_the_finished_line)
{
    struct heard heard = {0};
    mc_log_set_sink(hear, &heard);
    mc_log(MC_LOG_WARN, "peer %s:%d: %s", "10.0.0.2", 7001, "reset");
    ck_assert_int_eq(heard.count, 1);
    ck_assert_int_eq((int)heard.level, MC_LOG_WARN);
    ck_assert_str_eq(heard.text, "peer 10.0.0.2:7001: reset");
}
END_TEST

START_TEST(test_lines_above_the_level_are_dropped)
{
    struct heard heard = {0};
    mc_log_set_sink(hear, &heard);
    mc_log_set_level(MC_LOG_INFO);
    ck_assert_int_eq((int)mc_log_get_level(), MC_LOG_INFO);
    mc_log(MC_LOG_DEBUG, "unheard");
    ck_assert_int_eq(heard.count, 0);
    mc_log(MC_LOG_INFO, "heard");
    mc_log(MC_LOG_ERROR, "heard");
    ck_assert_int_eq(heard.count, 2);
}
END_TEST

START_TEST(test_levels_out_of_range_are_brought_into_it)
{
    mc_log_set_level((enum mc_log_level)99);
    ck_assert_int_eq((int)mc_log_get_level(), MC_LOG_TRACE);
    mc_log_set_level((enum mc_log_level) - 5);
    ck_assert_int_eq((int)mc_log_get_level(), MC_LOG_ERROR);
}
END_TEST

START_TEST(test_a_long_line_is_cut_at_1023_bytes)
{
    struct heard heard = {0};
    char text[1500];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    mc_log_set_sink(hear, &heard);
    mc_log(MC_LOG_ERROR, "%s", text);
    ck_assert_uint_eq(strlen(heard.text), 1023);
}
END_TEST

static void spoil_errno(void *ctx, enum mc_log_level level, const char *text)
{
    hear(ctx, level, text);
    errno = ENOSPC;
}

START_TEST(test_logging_leaves_errno_alone)
{
    struct heard heard = {0};
    mc_log_set_sink(spoil_errno, &heard);
    errno = EBADF;
    mc_log(MC_LOG_ERROR, "open: %s", "no");
    ck_assert_int_eq(errno, EBADF);
    ck_assert_int_eq(heard.count, 1);
}
END_TEST

static void log_once_more(void *ctx, enum mc_log_level level, const char *text)
{
    struct heard *heard = ctx;
    (void)level;
    (void)text;
    if (atomic_fetch_add(&heard->count, 1) == 0) {
        mc_log(MC_LOG_ERROR, "from within");
        mc_log_set_sink(NULL, NULL);
    }
}

START_TEST(test_a_sink_may_log_and_change_the_sink)
{
    struct heard heard = {0};
    mc_log_set_sink(log_once_more, &heard);
    mc_log(MC_LOG_ERROR, "first");
    ck_assert_int_eq(heard.count, 2);
}
END_TEST

/* Everything written to stderr while it runs. */
static void capture_stderr(void (*call)(void), char *text_out, size_t size)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    (void)fflush(stderr);
    int saved = dup(STDERR_FILENO);
    ck_assert_int_ge(saved, 0);
    ck_assert_int_ge(dup2(ends[1], STDERR_FILENO), 0);
    close(ends[1]);
    call();
    (void)fflush(stderr);
    ck_assert_int_ge(dup2(saved, STDERR_FILENO), 0);
    close(saved);
    ssize_t got = read(ends[0], text_out, size - 1);
    close(ends[0]);
    text_out[got > 0 ? got : 0] = '\0';
}

static void log_a_warning_and_an_info(void)
{
    mc_log(MC_LOG_WARN, "strange: %d", 7);
    mc_log(MC_LOG_INFO, "unheard");
}

START_TEST(test_without_a_sink_warnings_go_to_stderr)
{
    char text[256];
    mc_log_set_level(MC_LOG_WARN);
    capture_stderr(log_a_warning_and_an_info, text, sizeof text);
    ck_assert_str_eq(text, "mckv warn: strange: 7\n");
}
END_TEST

#define THREADS 4
#define LINES_EACH 200

static void count_only(void *ctx, enum mc_log_level level, const char *text)
{
    struct heard *heard = ctx;
    (void)level;
    ck_assert_str_eq(text, "line");
    atomic_fetch_add(&heard->count, 1);
}

static void *log_lines(void *ctx)
{
    for (int i = 0; i < LINES_EACH; i++) {
        mc_log(MC_LOG_ERROR, "line");
        mc_log_set_sink(count_only, ctx);
    }
    return NULL;
}

START_TEST(test_threads_may_log_and_set_the_sink_at_once)
{
    struct heard heard = {0};
    pthread_t threads[THREADS];
    mc_log_set_sink(count_only, &heard);
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, log_lines, &heard),
                         0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    ck_assert_int_eq(heard.count, THREADS * LINES_EACH);
}
END_TEST

int main(void)
{
    /* Once, here: the level is read from the environment at first use. */
    (void)setenv("MC_LOG_LEVEL", "Debug", 1);
    if (mc_log_get_level() != MC_LOG_DEBUG) {
        (void)fprintf(stderr, "MC_LOG_LEVEL is not looked at\n");
        return EXIT_FAILURE;
    }
    Suite *suite = suite_create("log");
    TCase *tcase = tcase_create("sink");
    tcase_add_checked_fixture(tcase, tear_down, tear_down);
    tcase_add_test(tcase, test_the_sink_gets_the_finished_line);
    tcase_add_test(tcase, test_lines_above_the_level_are_dropped);
    tcase_add_test(tcase, test_levels_out_of_range_are_brought_into_it);
    tcase_add_test(tcase, test_a_long_line_is_cut_at_1023_bytes);
    tcase_add_test(tcase, test_logging_leaves_errno_alone);
    tcase_add_test(tcase, test_a_sink_may_log_and_change_the_sink);
    tcase_add_test(tcase, test_without_a_sink_warnings_go_to_stderr);
    tcase_add_test(tcase, test_threads_may_log_and_set_the_sink_at_once);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
