/* SPDX-License-Identifier: Apache-2.0 */
/* publisher_rig.h - a log and its publisher on a free port, short ways to
 * append, a clock that stands, and the log lines that were written.
 *
 * While the clock stands a publisher waits for its first subscription for as
 * long as the test likes.
 */
#ifndef PUBLISHER_RIG_H
#define PUBLISHER_RIG_H
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "await.h"
#include "follower_rig.h"
#include "mc_log.h"
#include "mci_clock.h"
#include "mci_publisher.h"
#include "sanitized.h"

#define PUBLISHER_RIG_EPOCH UINT64_C(0x0123456789abcdef)

/* What a close may take: 1.6 s by its own clock, and the end of a thread. Under a
 * sanitizer a batch that was begun may last seconds. */
#define PUBLISHER_RIG_CLOSE_S (SANITIZED ? 10.0 : 2.0)

struct publisher_rig {
    struct mci_event_log *log;
    struct mci_publisher *publisher;
    struct mci_log_tenant tenant;
};

static _Atomic uint64_t rig_now_ns;

static inline void rig_stop_clock(void)
{
    rig_now_ns = mci_clock_ns();
    mci_clock_fake((const uint64_t *)&rig_now_ns);
}

static inline void rig_free_clock(void)
{
    mci_clock_fake(NULL);
}

static inline struct mc_publisher_opts rig_opts(void)
{
    return (struct mc_publisher_opts){.bind_endpoint = "tcp://127.0.0.1:*",
                                      .backend_id = "n1"};
}

static inline void rig_open_log(struct publisher_rig *rig,
                                const struct mc_publisher_opts *opts)
{
    const struct mci_log_opts log_opts = {.epoch = PUBLISHER_RIG_EPOCH,
                                          .capacity = opts->queue_capacity,
                                          .overflow = opts->overflow};
    memset(rig, 0, sizeof *rig);
    rig->tenant.name = mc_view_str("default");
    ck_assert_int_eq(mci_event_log_create(&log_opts, &rig->log), MC_OK);
}

static inline void rig_open(struct publisher_rig *rig,
                            const struct mc_publisher_opts *opts)
{
    rig_open_log(rig, opts);
    ck_assert_int_eq(mci_publisher_create(opts, rig->log, &rig->publisher),
                     MC_OK);
}

static inline void rig_close(struct publisher_rig *rig)
{
    mci_publisher_destroy(rig->publisher);
    mci_event_log_destroy(rig->log);
}

static inline struct mc_publisher_stats rig_stats(struct publisher_rig *rig)
{
    struct mc_publisher_stats stats;
    mci_publisher_stats(rig->publisher, &stats);
    return stats;
}

static inline void rig_follow(struct publisher_rig *rig,
                              struct follower *follower)
{
    struct mc_publisher_stats stats = rig_stats(rig);
    follower_open(follower, stats.endpoint);
    ck_assert(AWAIT(rig_stats(rig).subscribers > stats.subscribers));
}

/* Appends one stored event; under `block` it waits for room. */
static inline uint64_t rig_put(struct publisher_rig *rig, struct mc_view key)
{
    const struct mci_log_event event = {
        .type = MC_EVENT_STORED,
        .medium = MC_MEDIUM_CPU,
        .group_id = mc_view_str("sglang-hicache:0123456789abcdef"),
        .session_id = mc_view_str("session-1")};
    uint32_t reserved = 0;
    if (mci_event_log_reserve(rig->log, 1, MCI_LOG_FOREGROUND, UINT64_MAX,
                              &reserved)) {
        return 0;
    }
    return mci_event_log_append(rig->log, &rig->tenant, key, &event, 1,
                                &reserved);
}

static inline uint64_t rig_put_many(struct publisher_rig *rig, uint32_t count)
{
    uint64_t id = 0;
    for (uint32_t i = 0; i < count; i++) {
        id = rig_put(rig, mc_view_str("a-key-of-some-length"));
    }
    return id;
}

static inline uint64_t rig_clear(struct publisher_rig *rig)
{
    return mci_event_log_append_cleared(rig->log, &rig->tenant, 0, true, NULL);
}

/* On the real clock, whatever the code under test sees. */
static inline double rig_seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The log lines of a test. */
struct rig_lines {
    pthread_mutex_t lock;
    char text[4096];
};

static inline void rig_line(void *ctx, enum mc_log_level level,
                            const char *text)
{
    struct rig_lines *lines = ctx;
    (void)level;
    (void)pthread_mutex_lock(&lines->lock);
    size_t len = strlen(lines->text);
    (void)snprintf(lines->text + len, sizeof lines->text - len, "%s\n", text);
    (void)pthread_mutex_unlock(&lines->lock);
}

static inline void rig_lines_begin(struct rig_lines *lines)
{
    *lines = (struct rig_lines){.lock = PTHREAD_MUTEX_INITIALIZER};
    mc_log_set_sink(rig_line, lines);
}

/* The lines since begin or the last call must hold the words. */
static inline void rig_lines_expect(struct rig_lines *lines, const char *words)
{
    (void)pthread_mutex_lock(&lines->lock);
    ck_assert_msg(strstr(lines->text, words) != NULL, "\"%s\" not in \"%s\"",
                  words, lines->text);
    lines->text[0] = '\0';
    (void)pthread_mutex_unlock(&lines->lock);
}

static inline void rig_lines_end(void)
{
    mc_log_set_sink(NULL, NULL);
}

#endif
