/* SPDX-License-Identifier: Apache-2.0 */
#include "tool_live.h"

#include <inttypes.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "tool_follow.h"

#define MS UINT64_C(1000000)
#define PATIENCE_DEFAULT_MS 10000
#define HEARTBEAT_MS 1500 /* by then one has come, unless there are none */
#define MESSAGES_PER_TURN 256

static int fail(const struct tool_live *live, enum mc_err err)
{
    return tool_fail(live->args->command, "%s: %s (%d)", live->args->endpoint,
                     mc_err_text(err), err);
}

/* ---- opening and closing ----------------------------------------------- */

static void on_message(void *ctx, uint32_t source, const struct mc_view *frames,
                       size_t count)
{
    struct tool_live *live = ctx;
    (void)source;
    (void)frames;
    (void)count;
    live->is_heard = true;
}

int tool_live_watch(const struct tool_live *live, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};
    return epoll_ctl(live->poll_fd, EPOLL_CTL_ADD, fd, &event) == 0
               ? TOOL_DONE
               : tool_fail(live->args->command, "epoll: no descriptors left");
}

int tool_live_open(struct tool_live *live, const struct tool_args *args,
                   enum mc_begin begin, struct mc_index *index)
{
    struct mc_source_opts source;
    const struct mc_subscriber_opts opts = {.sources = &source,
                                            .source_count = 1,
                                            .index = index,
                                            .on_message = on_message,
                                            .ctx = live};
    tool_source_opts(args, &source);
    source.begin = begin;
    source.tenant = args->is_engine ? args->tenant : NULL;
    *live = (struct tool_live){.args = args};
    enum mc_err err = mc_subscriber_open(&opts, &live->subscriber);
    if (err) {
        return fail(live, err);
    }
    live->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    return live->poll_fd < 0
               ? tool_fail(args->command, "epoll: no descriptors left")
               : tool_live_watch(live, mc_subscriber_fd(live->subscriber));
}

void tool_live_close(struct tool_live *live)
{
    struct mc_source_stats stats;
    if (!live->subscriber) {
        return;
    }
    mc_subscriber_stats(live->subscriber, 0, &stats);
    tool_follow_summary(live->args->command, &stats);
    mc_subscriber_close(live->subscriber);
    if (live->poll_fd >= 0) {
        close(live->poll_fd);
    }
}

/* ---- following --------------------------------------------------------- */

uint64_t tool_live_patience_ms(const struct tool_live *live)
{
    return live->args->has_timeout ? live->args->timeout_ms
                                   : PATIENCE_DEFAULT_MS;
}

int tool_live_turn(const struct tool_live *live, int64_t wait_ms)
{
    size_t handled;
    if (tool_is_stopped()) {
        return TOOL_FAILED; /* said at the end, if it is to be */
    }
    if (!tool_wait(live->poll_fd, 0)) {
        (void)tool_wait(live->poll_fd, wait_ms);
    }
    enum mc_err err =
        mc_subscriber_poll(live->subscriber, 0, MESSAGES_PER_TURN, &handled);
    return err ? fail(live, err) : TOOL_DONE;
}

int tool_live_for(const struct tool_live *live, uint64_t ms)
{
    uint64_t end_ns = tool_now_ns() + ms * MS;
    int code = TOOL_DONE;
    while (code == TOOL_DONE && tool_now_ns() < end_ns) {
        uint64_t left_ns = end_ns - tool_now_ns();
        code = tool_live_turn(live, (int64_t)(left_ns / MS) + 1);
    }
    return code;
}

/* An engine has neither ids nor runs that one could tell apart. */
static bool has_reached(const struct tool_live *live,
                        const struct mc_source_stats *stats, uint64_t epoch,
                        uint64_t id)
{
    if (stats->is_recovering || live->args->is_engine) {
        return !stats->is_recovering;
    }
    return stats->has_baseline &&
           (stats->epoch == 0 || stats->epoch >= epoch) &&
           (stats->epoch > epoch || stats->last_event_id >= id);
}

int tool_live_reach(const struct tool_live *live, uint64_t epoch, uint64_t id)
{
    struct mc_source_stats stats;
    uint64_t progress = 0;
    uint64_t end_ns = tool_now_ns() + tool_live_patience_ms(live) * MS;
    for (;;) {
        mc_subscriber_stats(live->subscriber, 0, &stats);
        if (has_reached(live, &stats, epoch, id)) {
            return TOOL_DONE;
        }
        uint64_t now = stats.events + stats.snapshot_rows;
        if (now != progress) {
            progress = now;
            end_ns = tool_now_ns() + tool_live_patience_ms(live) * MS;
        }
        if (tool_now_ns() >= end_ns && stats.snapshot_rows == 0 &&
            !stats.has_baseline) {
            return tool_fail(live->args->command,
                             "%s: no answer within %" PRIu64
                             " ms, nor anything from %s",
                             live->args->recovery, tool_live_patience_ms(live),
                             live->args->endpoint);
        }
        if (tool_now_ns() >= end_ns) {
            return tool_fail(
                live->args->command,
                "%s: stands at event %" PRIu64 " of %016" PRIx64
                "%s, and the store at %" PRIu64 " of %016" PRIx64,
                live->args->endpoint, stats.last_event_id, stats.epoch,
                stats.is_recovering ? ", recovering" : "", id, epoch);
        }
        if (tool_live_turn(live, 50) != TOOL_DONE) {
            return TOOL_FAILED;
        }
    }
}

int tool_live_hear(const struct tool_live *live)
{
    const struct tool_args *args = live->args;
    struct mc_source_stats stats = {.is_connected = false};
    uint64_t end_ns = tool_now_ns() + tool_live_patience_ms(live) * MS;
    uint64_t quiet_ns = 0; /* no heartbeat comes if none came by then */
    while (!live->is_heard) {
        bool was_connected = stats.is_connected;
        mc_subscriber_stats(live->subscriber, 0, &stats);
        uint64_t now_ns = tool_now_ns();
        if (stats.is_connected && !was_connected) {
            quiet_ns = now_ns + HEARTBEAT_MS * MS;
        }
        if (stats.is_connected && now_ns >= quiet_ns) {
            tool_say(args->command,
                     "%s: nothing comes from there, not even heartbeats",
                     args->endpoint);
            break;
        }
        if (!stats.is_connected && now_ns >= end_ns) {
            return tool_fail(args->command, "%s: nobody publishes there%s%s%s",
                             args->endpoint, stats.has_baseline ? ", and " : "",
                             stats.has_baseline ? args->recovery : "",
                             stats.has_baseline ? " answers" : "");
        }
        if (tool_live_turn(live, 50) != TOOL_DONE) {
            return TOOL_FAILED;
        }
    }
    return TOOL_DONE;
}
