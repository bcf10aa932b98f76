/* SPDX-License-Identifier: Apache-2.0 */
/* mc_log.h - lines for people, through one sink.
 *
 * The libraries write nothing below MC_LOG_WARN unless the level is lowered
 * (mc_log_set_level, or the environment variable MC_LOG_LEVEL at first use:
 * error, warn, info, debug, trace). No payloads are ever logged, and keys only
 * from MC_LOG_DEBUG on.
 * Threads: any thread; the sink may be called by several threads at once.
 */
#ifndef MC_LOG_H
#define MC_LOG_H

#ifdef __cplusplus
extern "C" {
#endif

enum mc_log_level {
    MC_LOG_ERROR = 0, /* the process cannot go on as asked */
    MC_LOG_WARN = 1,  /* strange but handled */
    MC_LOG_INFO = 2,  /* life of the process */
    MC_LOG_DEBUG = 3, /* per object */
    MC_LOG_TRACE = 4  /* per message */
};

/* Gets one finished line without a line feed; text is borrowed for the call. */
typedef void (*mc_log_sink_fn)(void *ctx, enum mc_log_level level,
                               const char *text);

/* Sets where lines go; NULL restores stderr. A line that another thread has
 * begun may still reach the old sink. */
void mc_log_set_sink(mc_log_sink_fn sink, void *ctx);

/* Lines above this level are dropped before they are formatted. */
void mc_log_set_level(enum mc_log_level level);
enum mc_log_level mc_log_get_level(void);

/* Writes one line, cut at 1023 bytes. */
void mc_log(enum mc_log_level level, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif
#endif
