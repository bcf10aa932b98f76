/* SPDX-License-Identifier: Apache-2.0 */
/* tool.h - what the subcommands of mc-events share: how one is described, its
 * arguments, how it fails, and how it is told to end.
 *
 * A subcommand is a row: a name, the options that it takes, an example, and a
 * function that runs with all arguments read and checked. What it prints for
 * programs goes to stdout, words for people to stderr. It returns the exit
 * code: 0 done, 1 the operation failed, 2 wrong use.
 * Threads: the main thread only.
 */
#ifndef TOOL_H
#define TOOL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mc_key.h"

enum tool_exit { TOOL_DONE = 0, TOOL_FAILED = 1, TOOL_WRONG_USE = 2 };

/* Options by bit; what each one is called and takes stands in tool_args.c. */
enum tool_option_bit {
    TOOL_ENDPOINT = 1u << 0,
    TOOL_LISTEN = 1u << 1, /* those that every listening subcommand takes */
    TOOL_JSON = 1u << 2,
    TOOL_LAYOUT = 1u << 3, /* --layout and --prefix */
    TOOL_FILTER = 1u << 4, /* --tenant --session --group --type --medium */
    TOOL_FROM = 1u << 5,
    TOOL_COUNT = 1u << 6,
    TOOL_EVERY = 1u << 7,
    TOOL_SPEED = 1u << 8,
    TOOL_WAIT = 1u << 9,
    TOOL_TOPIC = 1u << 10
};

struct tool_args;

struct tool_command {
    const char *name;
    const char *operands; /* as usage shows them: "[FILE]" */
    size_t operand_min;   /* how many there may be: 0 or 1 ... */
    size_t operand_max;
    unsigned options;        /* bits of enum tool_option_bit */
    const char *summary;     /* one line */
    const char *explanation; /* a paragraph or more, with line feeds */
    const char *example;
    int (*run)(const struct tool_args *args);
};

/* Arguments as given; NULL: not given. Strings are borrowed from argv. */
struct tool_args {
    const struct tool_command *command;
    const char *operand; /* NULL without one */
    const char *endpoint;
    const char *recovery;
    const char *profile;
    const char *curve_server_key;
    const char *curve_key_file;
    const char *layout;
    const char *prefix;
    const char *tenant;
    const char *session;
    const char *group;
    const char *type;
    const char *medium;
    const char *from;
    const char *topic;
    bool json;
    uint64_t count; /* 0: not given */
    uint64_t every_ms;
    uint64_t wait_ms;
    double speed;
    bool has_count;
    bool has_every;
    bool has_speed;
    bool has_wait;
};

#define TOOL_ENDPOINT_DEFAULT "tcp://127.0.0.1:5557"

/* Reads argv behind the name of the subcommand. Returns TOOL_DONE with
 * *args_out filled, or TOOL_WRONG_USE after a line on stderr. *is_shown_out:
 * --help or --version was asked for and has been answered. */
int tool_args_read(const struct tool_command *command, int argc, char **argv,
                   struct tool_args *args_out, bool *is_shown_out);

/* The layout that --layout and --prefix name. False: nothing was given. Was
 * checked when the arguments were read. */
bool tool_args_layout(const struct tool_args *args,
                      struct mc_key_layout *layout_out);

/* "1500ms", "2s", "5m", "1h"; a bare number is refused. */
bool tool_duration_parse(const char *text, uint64_t *ms_out);

/* Prints "mc-events: NAME: ..." with a line feed on stderr and returns
 * TOOL_FAILED; the other returns TOOL_WRONG_USE and points to --help. */
int tool_fail(const struct tool_command *command, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
int tool_wrong_use(const struct tool_command *command, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void tool_say(const struct tool_command *command, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* SIGINT and SIGTERM: blocked from the start, so that no thread of a library
 * gets them, and seen by tool_wait alone. */
void tool_stop_catch(void);
bool tool_is_stopped(void);

/* Waits until fd (-1: none) is readable, timeout_ms passed (-1: for ever), or
 * the process was told to end. True if fd is readable. */
bool tool_wait(int fd, int64_t timeout_ms);

uint64_t tool_now_ns(void); /* monotonic */

/* Flushes stdout. TOOL_FAILED with a line on stderr if something could not be
 * written; a reader that went away is not a failure, see tool_is_unread. */
int tool_flush(const struct tool_command *command);
/* Whoever read our stdout has gone: time to end. */
bool tool_is_unread(void);

/* ANSI colours may be used on stdout: a terminal, and no NO_COLOR. */
bool tool_is_colored(void);

extern const struct tool_command tool_tail;
extern const struct tool_command tool_stat;
extern const struct tool_command tool_decode;
extern const struct tool_command tool_encode;
extern const struct tool_command tool_index;
extern const struct tool_command tool_record;
extern const struct tool_command tool_play;

#endif
