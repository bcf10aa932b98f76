/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "tool_follow.h"
#include "tool_play.h"
#include "tool_show.h"
#include "tool_tail.h"

struct tool_player {
    const struct tool_args *args;
    struct mc_subscriber *subscriber;
    struct mc_key_layout layout;
    struct tool_show show;
    uint64_t shown;
    bool is_ended; /* --count was reached */
};

static void on_event(void *ctx, const struct mc_delivery *delivery)
{
    struct tool_player *player = ctx;
    if (!player->is_ended &&
        tool_filter_passes(player->args, delivery->event)) {
        tool_show_delivery(&player->show, delivery);
        player->shown++;
        player->is_ended =
            player->args->has_count && player->shown == player->args->count;
    }
}

static void on_signal(void *ctx, const struct mc_signal *signal)
{
    struct tool_player *player = ctx;
    if (!player->is_ended) {
        tool_show_signal(&player->show, signal);
    }
}

int tool_player_open(const struct tool_args *args,
                     struct tool_player **player_out)
{
    struct tool_player *player = calloc(1, sizeof *player);
    if (!player) {
        return tool_fail(args->command, "out of memory");
    }
    const struct mc_source_opts source = {.profile = tool_profile(args),
                                          .worker = TOOL_WORKER};
    const struct mc_subscriber_opts opts = {
        .sources = &source,
        .source_count = 1,
        .no_mirror = true,
        .on_event = on_event,
        .on_signal = on_signal,
        .ctx = player,
    };
    player->args = args;
    player->show.is_json = args->json;
    player->show.is_colored = tool_is_colored();
    if (tool_args_layout(args, &player->layout)) {
        player->show.layout = &player->layout;
    }
    enum mc_err err = mc_subscriber_open(&opts, &player->subscriber);
    if (err != MC_OK) {
        free(player);
        return tool_fail(args->command, "%s (%d)", mc_err_text(err), err);
    }
    tool_show_head(&player->show);
    *player_out = player;
    return TOOL_DONE;
}

void tool_player_close(struct tool_player *player)
{
    if (player) {
        struct mc_source_stats stats;
        mc_subscriber_stats(player->subscriber, 0, &stats);
        tool_follow_summary(player->args->command, &stats);
        mc_subscriber_close(player->subscriber);
        tool_line_fini(&player->show.line);
        free(player);
    }
}

bool tool_player_is_ended(const struct tool_player *player)
{
    return player->is_ended;
}

int tool_player_message(struct tool_player *player,
                        const struct mc_view *frames, size_t count)
{
    if (player->is_ended) {
        return TOOL_DONE;
    }
    enum mc_err err =
        mc_subscriber_inject(player->subscriber, 0, frames, count);
    if (err != MC_OK) {
        return tool_fail(player->args->command, "%s (%d)", mc_err_text(err),
                         err);
    }
    if (player->show.failed > 0) {
        return tool_fail(player->args->command, "out of memory");
    }
    return TOOL_DONE;
}
