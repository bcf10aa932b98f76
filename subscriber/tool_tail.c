/* SPDX-License-Identifier: Apache-2.0 */
#include "tool_tail.h"
#include "tool_follow.h"
#include "tool_show.h"

bool tool_filter_passes(const struct tool_args *args,
                        const struct mc_event *event)
{
    const struct {
        const char *wanted;
        struct mc_view is;
    } rows[] = {
        {args->tenant, event->tenant_id},
        {args->session, event->session_id},
        {args->group, event->group_id},
        {args->medium, event->medium},
        {args->type, mc_view_str(mc_event_type_name(event->type))},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].wanted &&
            !mc_view_equal(mc_view_str(rows[i].wanted), rows[i].is)) {
            return false;
        }
    }
    return true;
}

struct tail {
    struct tool_follow follow;
    struct tool_show show;
    uint64_t shown;
};

static void on_event(void *ctx, const struct mc_delivery *delivery)
{
    struct tail *tail = ctx;
    const struct tool_args *args = tail->follow.args;
    if (tool_filter_passes(args, delivery->event)) {
        tool_show_delivery(&tail->show, delivery);
        tail->shown++;
        if (args->has_count && tail->shown == args->count) {
            tool_follow_end(&tail->follow, TOOL_DONE);
        }
    }
}

static void on_signal(void *ctx, const struct mc_signal *signal)
{
    struct tail *tail = ctx;
    tool_show_signal(&tail->show, signal);
}

static int run(const struct tool_args *args)
{
    struct mc_key_layout layout;
    struct tail tail = {
        .follow = {.args = args, .on_event = on_event, .on_signal = on_signal},
        .show = {.is_json = args->json, .is_colored = tool_is_colored()},
    };
    tail.follow.ctx = &tail;
    if (tool_args_layout(args, &layout)) {
        tail.show.layout = &layout;
    }
    tool_show_head(&tail.show);
    int code = tool_follow_run(&tail.follow);
    if (tail.show.failed > 0) {
        code = tool_fail(args->command, "%llu lines lost: out of memory",
                         (unsigned long long)tail.show.failed);
    }
    tool_line_fini(&tail.show.line);
    return code;
}

const struct tool_command tool_tail = {
    .name = "tail",
    .operands = "",
    .options = TOOL_ENDPOINT | TOOL_LISTEN | TOOL_TOPIC | TOOL_FROM |
               TOOL_FILTER | TOOL_COUNT | TOOL_LAYOUT | TOOL_JSON,
    .summary = "one line an event, as they come",
    .explanation =
        "Signals (gap, epoch, degraded, stale) pass every filter. In the\n"
        "table control characters and backslash are \\xHH; tenant is shown\n"
        "unless it is default, and --layout adds the block of each key.",
    .example = "mc-events tail --session agent-7 --type stored --count 10",
    .run = run,
};
