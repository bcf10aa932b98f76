/* SPDX-License-Identifier: Apache-2.0 */
/* Options are exact names; getopt_long is not used because it takes
 * abbreviations, which turn every new option into a change of what old commands
 * mean. */
#include <stdio.h>
#include <string.h>

#include "mci_tool.h"
#include "tool_program.h"

#define SPEED_MAX 1e9

static const char *const wanted[] = {
    [TOOL_TAKES_TEXT] = "a text",
    [TOOL_TAKES_COUNT] = "a whole number from 1 on",
    [TOOL_TAKES_PORT] = "a port, 0 to 65534",
    [TOOL_TAKES_SIZE] = "a size such as 64MB",
    [TOOL_TAKES_DURATION] = "a number with ms, s, m or h",
    [TOOL_TAKES_SPEED] = "a number, 0 or more",
    [TOOL_TAKES_NOTHING] = "nothing",
};

static bool speed_parse(const char *text, double *speed_out)
{
    double number;
    const char *rest;
    if (!tool_decimal_parse(text, &number, &rest) || *rest ||
        number > SPEED_MAX) {
        return false;
    }
    *speed_out = number;
    return true;
}

/* False: the value is not of the option's kind. */
static bool option_set(const struct tool_option *option, const char *value,
                       void *fields)
{
    const struct tool_program *program = tool_program();
    char *base = fields;
    void *at = base + option->value_at;
    bool is_good = true;
    switch (option->takes) {
    case TOOL_TAKES_TEXT:
        *(const char **)at = value;
        break;
    case TOOL_TAKES_COUNT:
        is_good = tool_number_parse(value, program->count_max, at) &&
                  *(uint64_t *)at > 0;
        break;
    case TOOL_TAKES_PORT:
        is_good = tool_number_parse(value, UINT16_MAX - 1, at);
        break;
    case TOOL_TAKES_SIZE:
        is_good = tool_size_parse(value, at);
        break;
    case TOOL_TAKES_DURATION:
        is_good = tool_duration_parse(value, program->duration_ms_max, at);
        break;
    case TOOL_TAKES_SPEED:
        is_good = speed_parse(value, at);
        break;
    case TOOL_TAKES_NOTHING:
        *(bool *)at = true;
        break;
    }
    if (is_good && option->given_at) {
        *(bool *)(base + option->given_at) = true;
    }
    return is_good;
}

static void usage_print(const struct tool_command *command)
{
    const struct tool_program *program = tool_program();
    int column = program->option_column;
    printf("usage: %s %s%s%s%s\n\n%s\n\n%s\n", program->name, command->name,
           command->options ? " [OPTIONS]" : "",
           command->operands[0] ? " " : "", command->operands, command->summary,
           command->explanation);
    printf("\noptions:\n");
    for (const struct tool_option *option = program->options; option->name;
         option++) {
        if (command->options & option->bit) {
            char left[48];
            (void)snprintf(left, sizeof left, "--%s%s%s", option->name,
                           option->value ? " " : "",
                           option->value ? option->value : "");
            printf("  %-*s %s\n", column, left, option->text);
        }
    }
    printf("  %-*s %s\n  %-*s %s\n", column, "--help", "this text", column,
           "--version", "the version");
    printf("\nexample:\n  %s\n", command->example);
}

static char plain(char c)
{
    return (char)(c == '_' ? '-' : c);
}

bool tool_name_is(const char *name, const char *given, size_t len)
{
    if (strlen(name) != len) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (plain(name[i]) != plain(given[i])) {
            return false;
        }
    }
    return true;
}

/* "--name" or "--name=value": the option it names, and its value if inside. */
static const struct tool_option *option_find(const struct tool_command *command,
                                             const char *text,
                                             const char **value_out)
{
    const struct tool_program *program = tool_program();
    if (text[1] != '-') {
        return NULL;
    }
    const char *name = text + 2;
    size_t len = strcspn(name, "=");
    for (const struct tool_option *option = program->options; option->name;
         option++) {
        if ((command->options & option->bit) &&
            tool_name_is(option->name, name, len)) {
            *value_out = name[len] == '=' ? name + len + 1 : NULL;
            return option;
        }
    }
    return NULL;
}

/* One option at argv[*at], with its value there or in the next one. */
static int option_read(int argc, char **argv, int *at,
                       const struct tool_reading *reading)
{
    const struct tool_command *command = reading->command;
    const char *value = NULL;
    const struct tool_option *option = option_find(command, argv[*at], &value);
    if (!option) {
        return tool_wrong_use(command, "%s: no such option", argv[*at]);
    }
    bool takes_value = option->takes != TOOL_TAKES_NOTHING;
    if (!takes_value && value) {
        return tool_wrong_use(command, "--%s: takes no value", option->name);
    }
    if (takes_value && !value) {
        if (*at + 1 >= argc) {
            return tool_wrong_use(command, "--%s: needs a value", option->name);
        }
        value = argv[++*at];
    }
    if (!option_set(option, value, reading->fields)) {
        return tool_wrong_use(command, "--%s %s: is %s", option->name, value,
                              wanted[option->takes]);
    }
    return TOOL_DONE;
}

int tool_options_read(int argc, char **argv, struct tool_reading *reading)
{
    const struct tool_command *command = reading->command;
    bool is_past_options = false;
    reading->operand_count = 0;
    reading->is_shown = false;
    for (int i = 0; i < argc; i++) {
        const char *text = argv[i];
        if (is_past_options || text[0] != '-' || text[1] == 0) {
            if (reading->operand_count < reading->operand_room) {
                reading->operands[reading->operand_count] = text;
            }
            reading->operand_count++;
        } else if (strcmp(text, "--") == 0) {
            is_past_options = true;
        } else if (strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0) {
            usage_print(command);
            reading->is_shown = true;
            return TOOL_DONE;
        } else if (strcmp(text, "--version") == 0) {
            const struct tool_program *program = tool_program();
            printf("%s %s\n", program->name, program->version);
            reading->is_shown = true;
            return TOOL_DONE;
        } else {
            int code = option_read(argc, argv, &i, reading);
            if (code != TOOL_DONE) {
                return code;
            }
        }
    }
    if (reading->operand_count > command->operand_max) {
        return tool_wrong_use(command, "too many operands");
    }
    if (reading->operand_count < command->operand_min) {
        return tool_wrong_use(command, "an operand is missing");
    }
    return TOOL_DONE;
}
