/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "tool_follow.h"

#define MS UINT64_C(1000000)
#define MESSAGES_PER_TURN 64

void tool_follow_end(struct tool_follow *follow, int code)
{
    follow->is_ended = true;
    follow->code = code;
}

enum mc_source_profile tool_profile(const struct tool_args *args)
{
    return args->is_engine ? MC_PROFILE_ENGINE : MC_PROFILE_STORE;
}

static void on_event(void *ctx, const struct mc_delivery *delivery)
{
    struct tool_follow *follow = ctx;
    if (!follow->is_ended && follow->on_event) {
        follow->on_event(follow->ctx, delivery);
    }
}

static void on_signal(void *ctx, const struct mc_signal *signal)
{
    struct tool_follow *follow = ctx;
    if (!follow->is_ended && follow->on_signal) {
        follow->on_signal(follow->ctx, signal);
    }
}

static void on_message(void *ctx, uint32_t source, const struct mc_view *frames,
                       size_t count)
{
    struct tool_follow *follow = ctx;
    if (!follow->is_ended && follow->on_message) {
        follow->on_message(follow->ctx, source, frames, count);
    }
}

void tool_follow_summary(const struct tool_command *command,
                         const struct mc_source_stats *stats)
{
    tool_say(command,
             "%" PRIu64 " messages, %" PRIu64 " events, %" PRIu64
             " gaps (%" PRIu64 " ids, %" PRIu64 " messages lost), %" PRIu64
             " restarts, refused %" PRIu64 " messages and %" PRIu64
             " events, %" PRIu64 " duplicates, %" PRIu64 " recoveries",
             stats->messages, stats->events, stats->gaps, stats->lost_ids,
             stats->lost_seqs, stats->restarts, stats->refused_messages,
             stats->refused_events, stats->duplicates, stats->recoveries);
}

void tool_source_opts(const struct tool_args *args,
                      struct mc_source_opts *source_out)
{
    uint64_t seq = 0;
    bool is_number =
        args->from && tool_number_parse(args->from, UINT64_MAX, &seq);
    bool is_snapshot = args->from && strcmp(args->from, "snapshot") == 0;
    *source_out =
        (struct mc_source_opts){.endpoint = args->endpoint,
                                .recovery_endpoint = args->recovery,
                                .begin = is_number     ? MC_BEGIN_SEQ
                                         : is_snapshot ? MC_BEGIN_SNAPSHOT
                                                       : MC_BEGIN_NOW,
                                .begin_seq = seq,
                                .topic = args->topic,
                                .profile = tool_profile(args),
                                .worker = TOOL_WORKER,
                                .curve_server_key = args->curve_server_key,
                                .curve_key_file = args->curve_key_file};
}

/* What is made good has to be compared with what was told: a mirror. */
static enum mc_err open_subscriber(struct tool_follow *follow)
{
    struct mc_source_opts source;
    tool_source_opts(follow->args, &source);
    if (follow->is_raw) {
        source.recovery_endpoint = NULL;
    }
    const struct mc_subscriber_opts opts = {
        .sources = &source,
        .source_count = 1,
        .no_mirror = !source.recovery_endpoint,
        .on_event = on_event,
        .on_signal = on_signal,
        .on_message = on_message,
        .ctx = follow,
    };
    return mc_subscriber_open(&opts, &follow->subscriber);
}

/* Says once that nobody answers, a second after the start. */
static void look_for_publisher(const struct tool_follow *follow,
                               uint64_t begin_ns, bool *is_said)
{
    if (!*is_said && tool_now_ns() - begin_ns > 1000 * MS) {
        struct mc_source_stats stats;
        mc_subscriber_stats(follow->subscriber, 0, &stats);
        *is_said = true;
        if (!stats.is_connected) {
            tool_say(follow->args->command, "%s: nobody publishes there yet",
                     follow->args->endpoint);
        }
    }
}

/* How long may pass until something is due without a message. */
static int64_t wait_ms(const struct tool_follow *follow, uint64_t due_ns,
                       bool is_said)
{
    uint64_t now = tool_now_ns();
    int64_t wait = is_said ? -1 : 200;
    if (follow->tick_ms > 0) {
        int64_t left = due_ns > now ? (int64_t)((due_ns - now) / MS) + 1 : 0;
        wait = wait < 0 || left < wait ? left : wait;
    }
    return wait;
}

static int turn(struct tool_follow *follow)
{
    size_t handled;
    enum mc_err err =
        mc_subscriber_poll(follow->subscriber, 0, MESSAGES_PER_TURN, &handled);
    if (err != MC_OK && err != MC_ERR_RPC_TIMEOUT) {
        return tool_fail(follow->args->command, "%s: %s (%d)",
                         follow->args->endpoint, mc_err_text(err), err);
    }
    return TOOL_DONE;
}

int tool_follow_run(struct tool_follow *follow)
{
    const struct tool_command *command = follow->args->command;
    enum mc_err err = open_subscriber(follow);
    if (err != MC_OK) {
        return tool_fail(command, "%s: %s (%d)", follow->args->endpoint,
                         mc_err_text(err), err);
    }
    int fd = mc_subscriber_fd(follow->subscriber);
    uint64_t begin_ns = tool_now_ns();
    uint64_t due_ns = begin_ns + follow->tick_ms * MS;
    bool is_said = false;
    while (!follow->is_ended && !tool_is_stopped() && !tool_is_unread()) {
        bool is_ready = tool_wait(fd, 0);
        if (!is_ready) {
            if (tool_flush(command) != TOOL_DONE) {
                tool_follow_end(follow, TOOL_FAILED);
                break;
            }
            is_ready = tool_wait(fd, wait_ms(follow, due_ns, is_said));
        }
        if (is_ready && turn(follow) != TOOL_DONE) {
            tool_follow_end(follow, TOOL_FAILED);
        }
        if (!follow->is_ended && follow->tick_ms > 0 &&
            tool_now_ns() >= due_ns) {
            follow->on_tick(follow->ctx);
            due_ns += follow->tick_ms * MS;
        }
        look_for_publisher(follow, begin_ns, &is_said);
    }
    struct mc_source_stats stats;
    mc_subscriber_stats(follow->subscriber, 0, &stats);
    int flushed = tool_flush(command);
    tool_follow_summary(command, &stats);
    mc_subscriber_close(follow->subscriber);
    return follow->code != TOOL_DONE ? follow->code : flushed;
}
