/* SPDX-License-Identifier: Apache-2.0 */
/* mc-events: finds the subcommand and runs it; and what all of them need of
 * the process: signals and waiting. */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "tool.h"

static const struct tool_command *const commands[] = {
    &tool_tail,    &tool_stat,     &tool_decode, &tool_encode,   &tool_index,
    &tool_record,  &tool_play,     &tool_replay, &tool_snapshot, &tool_status,
    &tool_session, &tool_sessions, &tool_lint,   &tool_verify,
};

static const struct tool_program program = {
    .name = "mc-events",
    .version = MC_VERSION,
    .commands = commands,
    .command_count = sizeof commands / sizeof commands[0],
    .command_column = 8,
    .usage = "[OPTIONS] [OPERAND]",
    .summary = "Follows, reads, writes and records KV cache events.",
    .example = "mc-events tail --count 10 --json",
    .options = tool_options,
    .option_column = 27,
    .count_max = UINT64_MAX,
    .duration_ms_max = UINT64_C(1000000000000000)};

static volatile sig_atomic_t is_stopped;
static sigset_t mask_outside; /* as it was before the start */

static void on_stop(int number)
{
    (void)number;
    is_stopped = 1;
}

void tool_stop_catch(void)
{
    struct sigaction action = {.sa_handler = on_stop};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN); /* a write answers EPIPE, see tool_flush */
    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGTERM);
    sigprocmask(SIG_BLOCK, &mask, &mask_outside);
    sigdelset(&mask_outside, SIGINT);
    sigdelset(&mask_outside, SIGTERM);
}

bool tool_is_stopped(void)
{
    if (!is_stopped) {
        sigset_t pending;
        sigpending(&pending);
        is_stopped = sigismember(&pending, SIGINT) > 0 ||
                     sigismember(&pending, SIGTERM) > 0;
    }
    return is_stopped != 0;
}

bool tool_wait(int fd, int64_t timeout_ms)
{
    struct pollfd watched = {.fd = fd, .events = POLLIN};
    struct timespec timeout = {.tv_sec = timeout_ms / 1000,
                               .tv_nsec = timeout_ms % 1000 * 1000000};
    if (tool_is_stopped()) {
        return false;
    }
    int count =
        ppoll(&watched, 1, timeout_ms < 0 ? NULL : &timeout, &mask_outside);
    return count > 0;
}

bool tool_is_colored(void)
{
    const char *no_color = getenv("NO_COLOR");
    return (!no_color || !no_color[0]) && isatty(STDOUT_FILENO);
}

static int run(const struct tool_command *command, int argc, char **argv)
{
    struct tool_args args;
    bool is_shown;
    int code = tool_args_read(command, argc, argv, &args, &is_shown);
    if (code == TOOL_DONE && !is_shown) {
        tool_stop_catch();
        code = command->run(&args);
    }
    int flushed = tool_flush(command);
    return code != TOOL_DONE ? code : flushed;
}

int main(int argc, char **argv)
{
    int code = TOOL_DONE;
    tool_begin(&program);
    const struct tool_command *command = tool_command_find(argc, argv, &code);
    return command ? run(command, argc - 2, argv + 2) : code;
}
