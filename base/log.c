/* SPDX-License-Identifier: Apache-2.0 */
/* The sink and its ctx change together, so they stand under a lock; it is left
 * before the sink is called, since a sink may itself log or change the sink. */
#include "mc_log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define LINE_BYTES 1024
#define LEVEL_UNSET (-1)

static const char *const level_names[] = {"error", "warn", "info", "debug",
                                          "trace"};
#define LEVEL_COUNT ((int)(sizeof level_names / sizeof level_names[0]))

static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
static mc_log_sink_fn sink_now; /* guarded by sink_lock; NULL is stderr */
static void *sink_ctx;          /* guarded by sink_lock */
static atomic_int level_now = LEVEL_UNSET;

static int level_from_environment(void)
{
    const char *wanted = getenv("MC_LOG_LEVEL");
    if (!wanted) {
        return MC_LOG_WARN;
    }
    for (int i = 0; i < LEVEL_COUNT; i++) {
        if (strcasecmp(wanted, level_names[i]) == 0) {
            return i;
        }
    }
    return MC_LOG_WARN;
}

static int current_level(void)
{
    int level = atomic_load_explicit(&level_now, memory_order_relaxed);
    if (level != LEVEL_UNSET) {
        return level;
    }
    int first = level_from_environment();
    /* Whoever set a level meanwhile wins over the environment. */
    if (atomic_compare_exchange_strong(&level_now, &level, first)) {
        return first;
    }
    return level;
}

void mc_log_set_level(enum mc_log_level level)
{
    int wanted = (int)level;
    if (wanted < MC_LOG_ERROR) {
        wanted = MC_LOG_ERROR;
    }
    if (wanted > MC_LOG_TRACE) {
        wanted = MC_LOG_TRACE;
    }
    atomic_store(&level_now, wanted);
}

enum mc_log_level mc_log_get_level(void)
{
    return (enum mc_log_level)current_level();
}

void mc_log_set_sink(mc_log_sink_fn sink, void *ctx)
{
    pthread_mutex_lock(&sink_lock);
    sink_now = sink;
    sink_ctx = sink ? ctx : NULL;
    pthread_mutex_unlock(&sink_lock);
}

static void write_stderr(enum mc_log_level level, const char *text)
{
    int number = (int)level;
    const char *name =
        number >= 0 && number < LEVEL_COUNT ? level_names[number] : "?";
    /* One call, so that lines of several threads do not mix. */
    (void)fprintf(stderr, "mckv %s: %s\n", name, text);
}

void mc_log(enum mc_log_level level, const char *fmt, ...)
{
    if ((int)level > current_level()) {
        return;
    }
    int saved_errno = errno;
    char line[LINE_BYTES];
    va_list args;
    va_start(args, fmt);
    int len = vsnprintf(line, sizeof line, fmt, args);
    va_end(args);
    if (len < 0) {
        line[0] = '\0';
    }
    pthread_mutex_lock(&sink_lock);
    mc_log_sink_fn sink = sink_now;
    void *ctx = sink_ctx;
    pthread_mutex_unlock(&sink_lock);
    if (sink) {
        sink(ctx, level, line);
    } else {
        write_stderr(level, line);
    }
    errno = saved_errno;
}
