/* SPDX-License-Identifier: Apache-2.0 */
#include "tool_snapshot.h"

#include <inttypes.h>
#include <stdlib.h>

#include "tool_show.h"

struct walk {
    struct tool_snapshot *snapshot;
    struct tool_ask ask;
    struct mc_event *events; /* MC_EVENT_COUNT_MAX of them */
};

/* A row says what can be read now: nothing else is one. */
static int hand_on(struct tool_snapshot *snapshot, const struct mc_event *event)
{
    bool is_row = event->type == MC_EVENT_STORED;
    snapshot->rows += is_row;
    snapshot->refused += !is_row;
    if (is_row && snapshot->on_row) {
        return snapshot->on_row(snapshot->ctx, event);
    }
    if (!is_row && snapshot->on_refused) {
        return snapshot->on_refused(snapshot->ctx, event);
    }
    return TOOL_DONE;
}

static int read_rows(struct walk *walk, const struct mc_answer *answer)
{
    const struct tool_args *args = walk->snapshot->args;
    struct mc_event_batch batch;
    struct mc_event_fault fault;
    if (mc_event_read(answer->frames, MC_ANSWER_FRAMES, walk->events,
                      MC_EVENT_COUNT_MAX, &batch, &fault) != MC_EVENT_OK) {
        return tool_fail(args->command,
                         "%s: message %" PRIu64 " of the snapshot: %s at byte "
                         "%" PRIu32,
                         args->recovery, answer->number,
                         mc_event_error_name(fault.error), fault.offset);
    }
    int code = TOOL_DONE;
    for (uint32_t i = 0; code == TOOL_DONE && i < batch.count; i++) {
        code = hand_on(walk->snapshot, &walk->events[i]);
    }
    return code;
}

static int take(struct walk *walk, const struct mc_answer *answer)
{
    const struct tool_snapshot *snapshot = walk->snapshot;
    switch (answer->type) {
    case MC_ANSWER_FIRST:
        return snapshot->on_first ? snapshot->on_first(snapshot->ctx, answer)
                                  : TOOL_DONE;
    case MC_ANSWER_ROWS:
        return read_rows(walk, answer);
    case MC_ANSWER_LAST:
        return snapshot->on_last ? snapshot->on_last(snapshot->ctx, answer)
                                 : TOOL_DONE;
    default: /* mc_ask lets nothing else through */
        return TOOL_FAILED;
    }
}

static int walk_on(struct walk *walk)
{
    struct mc_answer answer = {.type = MC_ANSWER_FIRST};
    int code = TOOL_DONE;
    while (code == TOOL_DONE && !tool_is_unread() &&
           answer.type != MC_ANSWER_LAST) {
        code = tool_ask_next(&walk->ask, &answer);
        if (code == TOOL_DONE) {
            code = take(walk, &answer);
        }
    }
    return code;
}

int tool_snapshot_run(struct tool_snapshot *snapshot)
{
    const struct tool_args *args = snapshot->args;
    struct walk walk = {.snapshot = snapshot};
    walk.events = calloc(MC_EVENT_COUNT_MAX, sizeof *walk.events);
    if (!walk.events) {
        return tool_fail(args->command, "out of memory");
    }
    int code = tool_ask_open(&walk.ask, args);
    if (code == TOOL_DONE) {
        struct mc_view tenant =
            args->tenant ? mc_view_str(args->tenant) : mc_view_make(NULL, 0);
        code = tool_ask_begun(&walk.ask, mc_ask_snapshot(walk.ask.ask, tenant));
    }
    if (code == TOOL_DONE) {
        code = walk_on(&walk);
    }
    tool_ask_close(&walk.ask);
    free(walk.events);
    return code;
}

/* ---- the subcommand --------------------------------------------------- */

static void json_edge(struct tool_show *show, const char *name, uint64_t id,
                      const struct mc_answer *answer)
{
    struct tool_line *line = &show->line;
    tool_line_open(line, NULL, '{');
    tool_line_epoch(line, "epoch", answer->epoch);
    tool_line_number(line, name, id);
    tool_line_number(line, "tail_seq", answer->tail_seq);
    tool_line_close(line, '}');
    tool_show_line(show);
}

static int on_first(void *ctx, const struct mc_answer *answer)
{
    struct tool_show *show = ctx;
    if (show->is_json) {
        json_edge(show, "first_id", answer->first_id, answer);
    } else {
        tool_line_format(&show->line, "%10s %-4s %s", "ID", "MED",
                         "KEY, then what is not plain");
        tool_show_line(show);
    }
    return TOOL_DONE;
}

static int on_row(void *ctx, const struct mc_event *event)
{
    tool_show_row(ctx, event);
    return TOOL_DONE;
}

static int on_refused(void *ctx, const struct mc_event *event)
{
    struct tool_show *show = ctx;
    struct tool_line *line = &show->line;
    const char *why = event->type == MC_EVENT_NONE
                          ? mc_event_error_name(event->error)
                          : "not_stored";
    if (show->is_json) {
        tool_line_open(line, NULL, '{');
        tool_line_text(line, "error", mc_view_str(why));
        tool_line_number(line, "offset", event->error_offset);
        tool_line_close(line, '}');
    } else {
        tool_line_format(line, "*** refused: %s at byte %" PRIu32, why,
                         event->error_offset);
    }
    tool_show_line(show);
    return TOOL_DONE;
}

static int on_last(void *ctx, const struct mc_answer *answer)
{
    struct tool_show *show = ctx;
    if (show->is_json) {
        json_edge(show, "last_id", answer->last_id, answer);
    }
    return TOOL_DONE;
}

static int run(const struct tool_args *args)
{
    struct mc_key_layout layout;
    struct tool_show show = {.is_json = args->json};
    if (tool_args_layout(args, &layout)) {
        show.layout = &layout;
    }
    struct tool_snapshot snapshot = {.args = args,
                                     .on_first = on_first,
                                     .on_row = on_row,
                                     .on_refused = on_refused,
                                     .on_last = on_last,
                                     .ctx = &show};
    int code = tool_snapshot_run(&snapshot);
    tool_say(args->command, "%" PRIu64 " rows, %" PRIu64 " refused",
             snapshot.rows, snapshot.refused);
    if (show.failed > 0) {
        code = tool_fail(args->command, "%" PRIu64 " lines lost: out of memory",
                         show.failed);
    }
    tool_line_fini(&show.line);
    return code == TOOL_DONE && snapshot.refused > 0 ? TOOL_FAILED : code;
}

const struct tool_command tool_snapshot = {
    .name = "snapshot",
    .operands = "",
    .options = TOOL_ASK | TOOL_TENANT | TOOL_LAYOUT | TOOL_JSON,
    .summary = "all that can be read now, asked of the recovery server",
    .explanation =
        "A line for each key and medium, with the id of the event that said\n"
        "so. As JSON they stand between {\"epoch\",\"first_id\",\"tail_seq\"} "
        "and\n"
        "{\"epoch\",\"last_id\",\"tail_seq\"}, as GET /kv_events/snapshot has "
        "them.",
    .example = "mc-events snapshot --tenant default --json",
    .run = run,
};
