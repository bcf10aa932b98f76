/* SPDX-License-Identifier: Apache-2.0 */
/* tool.h - what the subcommands of mc-events share beyond mci_tool.h: their
 * arguments, and how they are told to end.
 *
 * Threads: the main thread only.
 */
#ifndef TOOL_H
#define TOOL_H
#include "mc_key.h"
#include "mci_tool.h"

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
    TOOL_TOPIC = 1u << 10,
    TOOL_ASK = 1u << 11, /* of a recovery server: where, keys, --timeout */
    TOOL_TENANT = 1u << 12,
    TOOL_PROFILE = 1u << 13,
    TOOL_TOP = 1u << 14,
    TOOL_TIMEOUT = 1u << 15,
    TOOL_ADMIN = 1u << 16,
    TOOL_AGAIN = 1u << 17 /* --every of those that end without it */
};

extern const struct tool_option tool_options[]; /* the last: no name */

/* Arguments as given; NULL: not given. Strings are borrowed from argv. */
struct tool_args {
    const struct tool_command *command;
    const char *operand; /* NULL without one */
    const char *endpoint;
    const char *recovery;
    const char *admin;
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
    uint64_t timeout_ms;
    uint64_t top;
    double speed;
    bool is_engine; /* --profile engine */
    bool has_count;
    bool has_every;
    bool has_speed;
    bool has_wait;
    bool has_timeout;
    bool has_top;
};

#define TOOL_ENDPOINT_DEFAULT "tcp://127.0.0.1:5557"
#define TOOL_RECOVERY_DEFAULT "tcp://127.0.0.1:5558"

/* Reads argv behind the name of the subcommand. Returns TOOL_DONE with
 * *args_out filled, or TOOL_WRONG_USE after a line on stderr. *is_shown_out:
 * --help or --version was asked for and has been answered. */
int tool_args_read(const struct tool_command *command, int argc, char **argv,
                   struct tool_args *args_out, bool *is_shown_out);

/* The layout that --layout and --prefix name. False: nothing was given. Was
 * checked when the arguments were read. */
bool tool_args_layout(const struct tool_args *args,
                      struct mc_key_layout *layout_out);

/* SIGINT and SIGTERM: blocked from the start, so that no thread of a library
 * gets them, and seen by tool_wait alone. */
void tool_stop_catch(void);
bool tool_is_stopped(void);

/* Waits until fd (-1: none) is readable, timeout_ms passed (-1: for ever), or
 * the process was told to end. True if fd is readable. */
bool tool_wait(int fd, int64_t timeout_ms);

/* ANSI colours may be used on stdout: a terminal, and no NO_COLOR. */
bool tool_is_colored(void);

extern const struct tool_command tool_tail;
extern const struct tool_command tool_stat;
extern const struct tool_command tool_decode;
extern const struct tool_command tool_encode;
extern const struct tool_command tool_index;
extern const struct tool_command tool_record;
extern const struct tool_command tool_play;
extern const struct tool_command tool_replay;
extern const struct tool_command tool_snapshot;
extern const struct tool_command tool_status;
extern const struct tool_command tool_session;
extern const struct tool_command tool_sessions;
extern const struct tool_command tool_lint;
extern const struct tool_command tool_verify;

#endif
