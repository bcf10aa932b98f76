/* SPDX-License-Identifier: Apache-2.0 */
/* What a tool says of itself and of what went wrong. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "mci_tool.h"
#include "tool_program.h"

static const struct tool_program *current;
static bool is_unread;

void tool_begin(const struct tool_program *program)
{
    current = program;
}

const struct tool_program *tool_program(void)
{
    return current;
}

/* ---- on stderr --------------------------------------------------------- */

void tool_say_who(const struct tool_command *command)
{
    fflush(stdout);
    fprintf(stderr, "%s: ", current->name);
    if (command && !current->is_single) {
        fprintf(stderr, "%s: ", command->name);
    }
}

static void say(const struct tool_command *command, const char *fmt,
                va_list args)
{
    tool_say_who(command);
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
    bool is_of_command = command && !current->is_single;
    va_list args;
    va_start(args, fmt);
    say(command, fmt, args);
    va_end(args);
    fprintf(stderr, "try: %s %s%s--help\n", current->name,
            is_of_command ? command->name : "", is_of_command ? " " : "");
    return TOOL_WRONG_USE;
}

/* ---- stdout ------------------------------------------------------------ */

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

uint64_t tool_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- usage ------------------------------------------------------------- */

static void usage_print(FILE *out)
{
    fprintf(out, "usage: %s SUBCOMMAND %s\n\n%s\n\n", current->name,
            current->usage, current->summary);
    for (size_t i = 0; i < current->command_count; i++) {
        fprintf(out, "  %-*s %s\n", current->command_column,
                current->commands[i]->name, current->commands[i]->summary);
    }
    fprintf(out,
            "\n%s SUBCOMMAND --help says more. Exit: 0 done, 1 failed, 2 wrong "
            "use.\n\nexample:\n  %s\n",
            current->name, current->example);
}

const struct tool_command *tool_command_find(int argc, char **argv,
                                             int *code_out)
{
    const char *name = argc < 2 ? NULL : argv[1];
    if (!name) {
        usage_print(stderr);
        *code_out = TOOL_WRONG_USE;
        return NULL;
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        usage_print(stdout);
        *code_out = tool_flush(NULL);
        return NULL;
    }
    if (strcmp(name, "--version") == 0) {
        printf("%s %s\n", current->name, current->version);
        *code_out = tool_flush(NULL);
        return NULL;
    }
    for (size_t i = 0; i < current->command_count; i++) {
        if (strcmp(name, current->commands[i]->name) == 0) {
            return current->commands[i];
        }
    }
    const char *const *unbuilt = current->unbuilt;
    while (unbuilt && *unbuilt && strcmp(name, *unbuilt) != 0) {
        unbuilt++;
    }
    bool is_known = unbuilt && *unbuilt;
    *code_out = tool_wrong_use(
        NULL, is_known ? "%s: known, not built yet" : "%s: no such subcommand",
        name);
    return NULL;
}
