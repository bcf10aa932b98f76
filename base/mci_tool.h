/* SPDX-License-Identifier: Apache-2.0 */
/* mci_tool.h - what command-line tools share: how a program, its subcommands and
 * their options are described, how the command line is read, what is said when
 * something is wrong, and stdout.
 *
 * A program is told once, at the start of main. A subcommand is a row: a name,
 * the options that it takes, an example, and a function that runs with all
 * arguments read. Options are rows too: what one is called, what it takes, and
 * where in a struct of the tool its value goes. What is printed for programs
 * goes to stdout, words for people to stderr.
 * No library has any of this in it: tools link it on their own.
 * Threads: the main thread only, but where it is said.
 */
#ifndef MCI_TOOL_H
#define MCI_TOOL_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tool_exit { TOOL_DONE = 0, TOOL_FAILED = 1, TOOL_WRONG_USE = 2 };

/* ---- programs ---------------------------------------------------------- */

struct tool_args; /* of the tool */

struct tool_command {
    const char *name;
    const char *operands; /* as usage shows them: "KEY [FILE]" */
    size_t operand_min;
    size_t operand_max;
    unsigned options;        /* bits, see struct tool_option */
    const char *summary;     /* one line */
    const char *explanation; /* a paragraph or more, with line feeds */
    const char *example;
    int (*run)(const struct tool_args *args);
};

enum tool_takes {
    TOOL_TAKES_TEXT,     /* const char * */
    TOOL_TAKES_COUNT,    /* uint64_t, from 1 on */
    TOOL_TAKES_PORT,     /* uint64_t */
    TOOL_TAKES_SIZE,     /* uint64_t, bytes */
    TOOL_TAKES_DURATION, /* uint64_t, ms */
    TOOL_TAKES_SPEED,    /* double */
    TOOL_TAKES_NOTHING   /* bool: it was given */
};

struct tool_option {
    const char *name; /* with - and _ alike on the command line */
    unsigned bit;     /* taken by the subcommands that have one of these */
    enum tool_takes takes;
    size_t value_at;   /* of the field in the tool's struct */
    size_t given_at;   /* of its bool, 0: none */
    const char *value; /* as usage shows it; NULL: takes none */
    const char *text;
};

struct tool_program {
    const char *name;
    const char *version;
    bool is_single; /* it has no subcommands; those below are NULL or 0 */
    const struct tool_command *const *commands;
    size_t command_count;
    const char *const *unbuilt; /* names that come later, NULL at the end; or
                                   NULL */
    int command_column;         /* how wide their names are printed */
    const char *usage;          /* behind "SUBCOMMAND": "[OPTIONS] [FILE]" */
    const char *summary;
    const char *example;
    const struct tool_option *options; /* the last one has no name */
    int option_column;
    uint64_t count_max;
    uint64_t duration_ms_max;
};

/* Before anything else below; the program stays borrowed. Again: what is said
 * from now on is said by that one. */
void tool_begin(const struct tool_program *program);

/* The subcommand that argv[1] names. NULL: the program was asked about itself,
 * or there is none of that name, and all has been said; *code_out is the exit
 * code. */
const struct tool_command *tool_command_find(int argc, char **argv,
                                             int *code_out);

/* ---- options ----------------------------------------------------------- */

struct tool_reading {
    const struct tool_command *command;
    void *fields;          /* the struct that the options' places are in */
    const char **operands; /* room for operand_room of them */
    size_t operand_room;
    /* out */
    size_t
        operand_count; /* all that there were are within the command's limits */
    bool is_shown;     /* --help or --version was answered */
};

/* Reads argv behind the name of the subcommand: options are exact names, --name
 * VALUE or --name=VALUE, "--" ends them. Strings are borrowed from argv. Returns
 * TOOL_DONE, or TOOL_WRONG_USE after a line on stderr. */
int tool_options_read(int argc, char **argv, struct tool_reading *reading);

/* given, of len bytes, is this name, with dashes or underscores. */
bool tool_name_is(const char *name, const char *given, size_t len);

/* Digits with at most one point: no sign, exponent, hexadecimal or "inf".
 * *rest_out is what comes behind. */
bool tool_decimal_parse(const char *text, double *number_out,
                        const char **rest_out);
/* Digits and nothing else. */
bool tool_number_parse(const char *text, uint64_t max, uint64_t *number_out);
/* "1500ms", "2s", "5m", "1h"; a bare number is refused. */
bool tool_duration_parse(const char *text, uint64_t max_ms, uint64_t *ms_out);
/* "64MB", "4 gb", "1.5GiB", "4096"; powers of 1024. */
bool tool_size_parse(const char *text, uint64_t *bytes_out);

/* ---- words ------------------------------------------------------------- */

/* "mc-store: get: " on stderr, for a sentence that goes on there; command NULL:
 * the program alone. */
void tool_say_who(const struct tool_command *command);
/* The same, the words, and a line feed. fail returns TOOL_FAILED; wrong_use
 * returns TOOL_WRONG_USE and points to --help. */
void tool_say(const struct tool_command *command, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
int tool_fail(const struct tool_command *command, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
int tool_wrong_use(const struct tool_command *command, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Flushes stdout. TOOL_FAILED with a line on stderr if something could not be
 * written; a reader that went away is not a failure, see tool_is_unread. */
int tool_flush(const struct tool_command *command);
/* Whoever read our stdout has gone: time to end. */
bool tool_is_unread(void);

uint64_t tool_now_ns(void); /* monotonic. Any thread */
#endif
