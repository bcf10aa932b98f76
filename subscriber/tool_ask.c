/* SPDX-License-Identifier: Apache-2.0 */
#include "tool_ask.h"

#include <inttypes.h>

#include "tool_line.h"

#define TIMEOUT_DEFAULT_MS 10000

static int fail(const struct tool_ask *ask, enum mc_err err)
{
    return tool_fail(ask->args->command, "%s: %s (%d)", ask->args->recovery,
                     mc_err_text(err), err);
}

int tool_ask_open(struct tool_ask *ask, const struct tool_args *args)
{
    const struct mc_ask_opts opts = {.endpoint = args->recovery,
                                     .curve_server_key = args->curve_server_key,
                                     .curve_key_file = args->curve_key_file};
    ask->args = args;
    enum mc_err err = mc_ask_open(&opts, &ask->ask);
    return err ? fail(ask, err) : TOOL_DONE;
}

void tool_ask_close(struct tool_ask *ask)
{
    mc_ask_close(ask->ask);
}

int tool_ask_begun(const struct tool_ask *ask, enum mc_err err)
{
    if (err == MC_ERR_INVALID_PARAMS) {
        return tool_wrong_use(ask->args->command,
                              "--tenant: is UTF-8 of 1 to %d bytes",
                              MC_TENANT_LEN_MAX);
    }
    return err ? fail(ask, err) : TOOL_DONE;
}

int tool_ask_judge(const struct tool_ask *ask, const struct mc_answer *answer)
{
    const struct tool_args *args = ask->args;
    if (answer->type == MC_ANSWER_BAD) {
        return tool_fail(args->command,
                         "%s: not an answer of a recovery "
                         "server: %s",
                         args->recovery, answer->fault);
    }
    if (answer->type == MC_ANSWER_REFUSED) {
        return tool_fail(args->command,
                         "%s: refused: it has no such tenant, too many are "
                         "asking, or it does not know the question",
                         args->recovery);
    }
    return TOOL_DONE;
}

int tool_ask_next(struct tool_ask *ask, struct mc_answer *answer_out)
{
    const struct tool_args *args = ask->args;
    uint64_t timeout_ms =
        args->has_timeout ? args->timeout_ms : TIMEOUT_DEFAULT_MS;
    enum mc_err err = mc_ask_next(ask->ask, 0, answer_out);
    if (err == MC_ERR_RPC_TIMEOUT) {
        int64_t wait_ms =
            timeout_ms < INT32_MAX ? (int64_t)timeout_ms : INT32_MAX;
        if (tool_flush(args->command) != TOOL_DONE) {
            return TOOL_FAILED;
        }
        (void)tool_wait(mc_ask_fd(ask->ask), wait_ms);
        if (tool_is_stopped()) {
            return tool_fail(args->command, "%s: interrupted", args->recovery);
        }
        err = mc_ask_next(ask->ask, 0, answer_out);
    }
    if (err == MC_ERR_RPC_TIMEOUT) {
        return tool_fail(args->command,
                         "%s: no answer within %" PRIu64 " ms (%d)",
                         args->recovery, timeout_ms, err);
    }
    return err ? fail(ask, err) : tool_ask_judge(ask, answer_out);
}

/* ---- status ----------------------------------------------------------- */

static void json_status(struct tool_line *line, const struct mc_answer *answer)
{
    tool_line_open(line, NULL, '{');
    tool_line_epoch(line, "epoch", answer->epoch);
    tool_line_number(line, "tail_seq", answer->tail_seq);
    tool_line_number(line, "oldest_seq", answer->oldest_seq);
    tool_line_number(line, "last_id", answer->last_id);
    tool_line_number(line, "keys", answer->keys);
    tool_line_text(line, "backend_id", answer->backend_id);
    tool_line_close(line, '}');
}

static void table_status(struct tool_line *line, const struct mc_answer *answer)
{
    tool_line_add(line, "backend     ");
    tool_line_safe(line, answer->backend_id);
    tool_line_format(line,
                     "\nepoch       %016" PRIx64 "\nkeys        %" PRIu64
                     "\nlast event  %" PRIu64 "\nmessages    ",
                     answer->epoch, answer->keys, answer->last_id);
    if (answer->tail_seq > 0) {
        tool_line_format(line, "%" PRIu64 " to %" PRIu64 " are kept",
                         answer->oldest_seq, answer->tail_seq);
    } else {
        tool_line_add(line, "none yet");
    }
}

static int show_status(const struct tool_args *args,
                       const struct mc_answer *answer)
{
    struct tool_line line = {0};
    if (args->json) {
        json_status(&line, answer);
    } else {
        table_status(&line, answer);
    }
    bool is_whole = !line.is_failed;
    (void)tool_line_write(&line, stdout);
    tool_line_fini(&line);
    return is_whole ? TOOL_DONE : tool_fail(args->command, "out of memory");
}

static int run(const struct tool_args *args)
{
    struct tool_ask ask = {0};
    struct mc_answer answer;
    int code = tool_ask_open(&ask, args);
    if (code == TOOL_DONE) {
        code = tool_ask_begun(&ask, mc_ask_status(ask.ask));
    }
    if (code == TOOL_DONE) {
        code = tool_ask_next(&ask, &answer);
    }
    if (code == TOOL_DONE) {
        code = show_status(args, &answer);
    }
    tool_ask_close(&ask);
    return code;
}

const struct tool_command tool_status = {
    .name = "status",
    .operands = "",
    .options = TOOL_ASK | TOOL_JSON,
    .summary = "where the stream stands, asked of the recovery server",
    .explanation =
        "Prints the epoch, the numbers of the oldest and newest message that\n"
        "are kept, the id of the event given out last, how many keys can be\n"
        "read, and the name of the store.",
    .example = "mc-events status --recovery tcp://127.0.0.1:5558 --json",
    .run = run,
};
