/* SPDX-License-Identifier: Apache-2.0 */
/* mc-events: finds the subcommand and runs it; and what all of them need of
 * the process: failures, signals, waiting, stdout. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tool.h"

static const struct tool_command *const commands[] = {
    &tool_tail,  &tool_stat,   &tool_decode, &tool_encode,
    &tool_index, &tool_record, &tool_play,
};
#define COMMAND_COUNT (sizeof commands / sizeof commands[0])

/* Names that the contract of the tools holds and that come later. */
static const char *const unbuilt[] = {"replay",  "snapshot", "status", "verify",
                                      "session", "sessions", "lint"};

static volatile sig_atomic_t is_stopped;
static sigset_t mask_outside; /* as it was before the start */
static bool is_unread;

static void say(const struct tool_command *command, const char *fmt,
                va_list args)
{
    fflush(stdout);
    fputs("mc-events: ", stderr);
    if (command) {
        fprintf(stderr, "%s: ", command->name);
    }
    vfprintf(stderr, fmt, args);
    fputc('\n', stderr);
}

void tool_say(const struct tool_command *command, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say(command, fmt, args);
    va_end(args);
}

int tool_fail(const struct tool_command *command, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say(command, fmt, args);
    va_end(args);
    return TOOL_FAILED;
}

int tool_wrong_use(const struct tool_command *command, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    say(command, fmt, args);
    va_end(args);
    fprintf(stderr, "try: mc-events %s%s--help\n", command ? command->name : "",
            command ? " " : "");
    return TOOL_WRONG_USE;
}

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

uint64_t tool_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int tool_flush(const struct tool_command *command)
{
    if (is_unread) {
        return TOOL_DONE;
    }
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout)) {
        return TOOL_DONE;
    }
    if (errno == EPIPE) {
        is_unread = true;
        return TOOL_DONE;
    }
    return tool_fail(command, "stdout: %s",
                     errno ? strerror(errno) : "write failed");
}

bool tool_is_unread(void)
{
    return is_unread;
}

bool tool_is_colored(void)
{
    const char *no_color = getenv("NO_COLOR");
    return (!no_color || !no_color[0]) && isatty(STDOUT_FILENO);
}

static void usage_print(FILE *out)
{
    fprintf(out, "usage: mc-events SUBCOMMAND [OPTIONS] [FILE]\n\n"
                 "Follows, reads, writes and records KV cache events.\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        fprintf(out, "  %-8s %s\n", commands[i]->name, commands[i]->summary);
    }
    fprintf(out, "\nmc-events SUBCOMMAND --help says more. Exit: 0 done, "
                 "1 failed, 2 wrong use.\n\n"
                 "example:\n  mc-events tail --count 10 --json\n");
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
    if (argc < 2) {
        usage_print(stderr);
        return TOOL_WRONG_USE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        usage_print(stdout);
        return tool_flush(NULL);
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("mc-events %s\n", MC_VERSION);
        return tool_flush(NULL);
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(argv[1], commands[i]->name) == 0) {
            return run(commands[i], argc - 2, argv + 2);
        }
    }
    for (size_t i = 0; i < sizeof unbuilt / sizeof unbuilt[0]; i++) {
        if (strcmp(argv[1], unbuilt[i]) == 0) {
            return tool_wrong_use(NULL, "%s: known, not built yet", argv[1]);
        }
    }
    return tool_wrong_use(NULL, "%s: no such subcommand", argv[1]);
}
