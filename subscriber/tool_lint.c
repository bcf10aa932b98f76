/* SPDX-License-Identifier: Apache-2.0 */
/* Judges what was recorded, or what is published now, as each known consumer
 * would; one row a consumer at the end. */
#include <inttypes.h>
#include <stdlib.h>

#include "lint.h"
#include "tool_follow.h"
#include "tool_line.h"
#include "tool_rows.h"

struct lint_tool {
    struct tool_follow follow;
    const struct tool_args *args;
    struct lint *lint;
    struct tool_rows *rows;
    struct tool_frames frames;
    struct tool_line line;
    uint64_t messages;
};

/* ---- what is judged ---------------------------------------------------- */

static int judge_row(void *ctx, struct json_object *row)
{
    struct lint_tool *tool = ctx;
    int code = tool_frames_read(&tool->frames, tool->rows, row);
    if (code == TOOL_DONE) {
        (void)lint_message(tool->lint, tool->frames.views, tool->frames.count);
    }
    return code;
}

static int judge_file(struct lint_tool *tool)
{
    int code = TOOL_FAILED;
    tool->rows = tool_rows_open(tool->args->command, tool->args->operand);
    if (tool->rows) {
        code = tool_rows_each(tool->rows, judge_row, tool);
    }
    tool_rows_close(tool->rows);
    tool_frames_fini(&tool->frames);
    return code;
}

static void on_message(void *ctx, uint32_t source, const struct mc_view *frames,
                       size_t count)
{
    struct lint_tool *tool = ctx;
    (void)source;
    (void)lint_message(tool->lint, frames, count);
    tool->messages++;
    if (tool->args->has_count && tool->messages == tool->args->count) {
        tool_follow_end(&tool->follow, TOOL_DONE);
    }
}

static int judge_live(struct lint_tool *tool)
{
    tool->follow = (struct tool_follow){.args = tool->args,
                                        .on_message = on_message,
                                        .ctx = tool,
                                        .is_raw = true};
    return tool_follow_run(&tool->follow);
}

/* ---- what is said ------------------------------------------------------ */

static void add_place(struct tool_line *line, const struct lint_finding *found)
{
    tool_line_format(line, " (message %" PRIu64, found->message);
    if (found->event != LINT_NO_EVENT) {
        tool_line_format(line, ", event %" PRIu32, found->event);
    }
    tool_line_format(line, ", byte %" PRIu32 ")", found->offset);
}

/* "takes all", "refuses 3 of 4 messages", "skips 2 events". */
static void add_verdict(struct tool_line *line, const struct lint_row *row)
{
    if (row->messages == 0) {
        tool_line_add(line, "nothing to judge");
    } else if (row->lost > 0) {
        tool_line_format(line, "%s %" PRIu64 " of %" PRIu64 " messages",
                         row->worst == LINT_DEAF ? "never gets"
                                                 : lint_cost_name(row->worst),
                         row->lost, row->messages);
    } else if (row->skipped > 0) {
        tool_line_format(line, "skips %" PRIu64 " of %" PRIu64 " events",
                         row->skipped, row->events);
    } else {
        tool_line_add(line, "takes all");
    }
    if (row->ignored > 0) {
        tool_line_format(line, ", ignores %" PRIu64, row->ignored);
    }
}

static void add_row(struct lint_tool *tool, enum lint_consumer consumer)
{
    struct lint_finding found[LINT_FINDINGS_MAX];
    struct lint_row row;
    struct tool_line *line = &tool->line;
    lint_row(tool->lint, consumer, &row);
    size_t count =
        lint_findings(tool->lint, consumer, found, LINT_FINDINGS_MAX);
    tool_line_format(line, "%-23s", lint_consumer_name(consumer));
    add_verdict(line, &row);
    for (size_t i = 0; i < count; i++) {
        tool_line_format(line, "%s%s", i == 0 ? ": " : "; ", found[i].rule);
        if (i == 0) {
            add_place(line, &found[i]);
            tool_line_format(line, ": %s", found[i].text);
        }
    }
}

static void add_finding(struct tool_line *line,
                        const struct lint_finding *found)
{
    tool_line_open(line, NULL, '{');
    tool_line_text(line, "rule", mc_view_str(found->rule));
    tool_line_text(line, "costs", mc_view_str(lint_cost_name(found->cost)));
    tool_line_text(line, "wants", mc_view_str(found->text));
    tool_line_number(line, "messages", found->messages);
    tool_line_number(line, "events", found->events);
    tool_line_number(line, "message", found->message);
    if (found->event == LINT_NO_EVENT) {
        tool_line_null(line, "event");
    } else {
        tool_line_number(line, "event", found->event);
    }
    tool_line_number(line, "offset", found->offset);
    tool_line_close(line, '}');
}

static void add_json(struct lint_tool *tool, enum lint_consumer consumer)
{
    struct lint_finding found[LINT_FINDINGS_MAX];
    struct lint_row row;
    struct tool_line *line = &tool->line;
    lint_row(tool->lint, consumer, &row);
    size_t count =
        lint_findings(tool->lint, consumer, found, LINT_FINDINGS_MAX);
    tool_line_open(line, NULL, '{');
    tool_line_text(line, "consumer", mc_view_str(lint_consumer_name(consumer)));
    tool_line_text(line, "rules", mc_view_str(LINT_RULES_VERSION));
    tool_line_text(line, "verdict", mc_view_str(lint_cost_name(row.worst)));
    tool_line_number(line, "messages", row.messages);
    tool_line_number(line, "taken", row.taken);
    tool_line_number(line, "lost", row.lost);
    tool_line_number(line, "unjudged", row.unjudged);
    tool_line_number(line, "events", row.events);
    tool_line_number(line, "skipped", row.skipped);
    tool_line_number(line, "ignored", row.ignored);
    tool_line_open(line, "broken", '[');
    for (size_t i = 0; i < count; i++) {
        add_finding(line, &found[i]);
    }
    tool_line_close(line, ']');
    tool_line_close(line, '}');
}

static int show(struct lint_tool *tool)
{
    struct lint_row row;
    bool is_written = true;
    lint_row(tool->lint, (enum lint_consumer)0, &row);
    if (!tool->args->json) {
        tool_line_format(&tool->line,
                         "rules of %s: %" PRIu64 " messages, %" PRIu64
                         " events",
                         LINT_RULES_VERSION, row.messages, row.events);
        is_written = tool_line_write(&tool->line, stdout);
    }
    for (unsigned i = 0; is_written && i < LINT_CONSUMER_COUNT; i++) {
        if (tool->args->json) {
            add_json(tool, (enum lint_consumer)i);
        } else {
            add_row(tool, (enum lint_consumer)i);
        }
        is_written = tool_line_write(&tool->line, stdout);
    }
    if (row.unjudged > 0) {
        return tool_fail(tool->args->command,
                         "%" PRIu64 " messages could not be judged: too many "
                         "values, or no memory",
                         row.unjudged);
    }
    return TOOL_DONE; /* what was not written, the flush at the end tells */
}

static int run(const struct tool_args *args)
{
    struct lint_tool tool = {.args = args};
    if (lint_create(&tool.lint) != MC_OK) {
        return tool_fail(args->command, "out of memory");
    }
    int code = args->operand ? judge_file(&tool) : judge_live(&tool);
    if (code == TOOL_DONE) {
        code = show(&tool);
    }
    tool_line_fini(&tool.line);
    lint_destroy(tool.lint);
    return code;
}

const struct tool_command tool_lint = {
    .name = "lint",
    .operands = "[FILE]",
    .operand_max = 1,
    .options =
        TOOL_ENDPOINT | TOOL_LISTEN | TOOL_TOPIC | TOOL_COUNT | TOOL_JSON,
    .summary = "would each known consumer take these messages?",
    .explanation =
        "Judges messages by the published rules of Dynamo's router and "
        "indexer,\n"
        "Mooncake Conductor, llm-d and vLLM's subscriber, and prints a row "
        "for\n"
        "each with the rules that were broken, worst first, and where the "
        "first\n"
        "one was. Reads JSON lines as record writes them from FILE (- is "
        "stdin);\n"
        "without FILE it listens, until --count messages came or it is told "
        "to\n"
        "end. A row says: takes all; ignores (events that mean nothing to "
        "it);\n"
        "skips (events lost to it); refuses (messages); clears (messages, and\n"
        "all that it knew); never gets.",
    .example = "mc-events lint recording.jsonl",
    .run = run,
};
