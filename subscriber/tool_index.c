/* SPDX-License-Identifier: Apache-2.0 */
#include "mc_index_script.h"
#include "tool_line.h"
#include "tool_rows.h"

/* --layout stands for the line with which a script begins. */
static enum mc_err give_layout(struct mc_index_script *script,
                               const struct tool_args *args)
{
    struct tool_line line = {0};
    struct mc_view answer;
    tool_line_open(&line, NULL, '{');
    tool_line_text(&line, "op", mc_view_str("layout"));
    tool_line_text(&line, "layout", mc_view_str(args->layout));
    tool_line_text(&line, "prefix",
                   mc_view_str(args->prefix ? args->prefix : ""));
    tool_line_close(&line, '}');
    enum mc_err err = MC_ERR_NOMEM;
    if (!line.is_failed) {
        err = mc_index_script_line(script, mc_view_make(line.text, line.len),
                                   &answer);
    }
    tool_line_fini(&line);
    return err;
}

static int run_line(struct mc_index_script *script, struct tool_rows *rows,
                    struct mc_view line)
{
    struct mc_view answer;
    if (tool_rows_check(rows, line) != TOOL_DONE) {
        return TOOL_FAILED;
    }
    enum mc_err err = mc_index_script_line(script, line, &answer);
    if (err == MC_ERR_INVALID_PARAMS) {
        return tool_rows_fail(rows, "%s", mc_index_script_fault(script));
    }
    if (err != MC_OK) {
        return tool_rows_fail(rows, "%s (%d)", mc_err_text(err), err);
    }
    if (answer.data) {
        fwrite(answer.data, 1, answer.len, stdout); /* tool_flush looks at it */
        putchar('\n');
    }
    return TOOL_DONE;
}

static int run_lines(struct mc_index_script *script, struct tool_rows *rows)
{
    struct mc_view line;
    int code = TOOL_DONE;
    while (code == TOOL_DONE && !tool_is_unread()) {
        enum tool_rows_step step = tool_rows_line(rows, &line);
        if (step != TOOL_ROW) {
            return step == TOOL_ROWS_END ? TOOL_DONE : TOOL_FAILED;
        }
        code = run_line(script, rows, line);
    }
    return code;
}

static int run(const struct tool_args *args)
{
    struct mc_index_script *script = NULL;
    struct tool_rows *rows = tool_rows_open(args->command, args->operand);
    if (!rows) {
        return TOOL_FAILED;
    }
    int code = TOOL_FAILED;
    enum mc_err err = mc_index_script_create(NULL, &script);
    if (err == MC_OK && args->layout) {
        err = give_layout(script, args);
    }
    if (err == MC_OK) {
        code = run_lines(script, rows);
    } else {
        tool_fail(args->command, "%s (%d)", mc_err_text(err), err);
    }
    mc_index_script_destroy(script);
    tool_rows_close(rows);
    return code;
}

const struct tool_command tool_index = {
    .name = "index",
    .operands = "[SCRIPT]",
    .operand_max = 1,
    .options = TOOL_LAYOUT,
    .summary = "operations and questions on an empty index",
    .explanation = "Reads JSON lines from SCRIPT or stdin: operations such as\n"
                   "{\"op\":\"stored\",\"tenant\",\"backend\",\"key\","
                   "\"medium\",\"session\"}\n"
                   "and questions such as "
                   "{\"q\":\"match\",\"tenant\",\"hashes\":[...]}. Prints\n"
                   "a line for each question, and for each chain that was "
                   "refused. A script\n"
                   "begins with {\"op\":\"layout\",\"layout\":L,\"prefix\":P}, "
                   "or --layout says\n"
                   "so. Lines that an index exported are operations too.",
    .example = "mc-events index --layout u64 script.jsonl",
    .run = run,
};
