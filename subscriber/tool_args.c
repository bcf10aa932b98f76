/* SPDX-License-Identifier: Apache-2.0 */
/* Options are exact names, --name VALUE or --name=VALUE, dashes and underscores
 * alike; getopt_long is not used because it takes abbreviations, which turn every
 * new option into a change of what old commands mean. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mc_event.h"
#include "tool.h"

enum option_kind { TEXT, COUNT, DURATION, SPEED, FLAG };

struct option {
    const char *name;
    unsigned bit;
    enum option_kind kind;
    size_t value_at; /* of the field in struct tool_args */
    size_t given_at; /* of its bool, 0: none */
    const char *value;
    const char *text;
};

#define AT(field) offsetof(struct tool_args, field)

static const struct option options[] = {
    {"endpoint", TOOL_ENDPOINT, TEXT, AT(endpoint), 0, "EP",
     "where events are published (" TOOL_ENDPOINT_DEFAULT ")"},
    {"topic", TOOL_TOPIC, TEXT, AT(topic), 0, "T",
     "subscribe to topics that begin so (all)"},
    {"recovery", TOOL_LISTEN, TEXT, AT(recovery), 0, "EP",
     "the recovery server; not built yet"},
    {"replay", TOOL_LISTEN, TEXT, AT(recovery), 0, "EP",
     "the same as --recovery"},
    {"profile", TOOL_LISTEN, TEXT, AT(profile), 0, "store|engine",
     "whose events: store; engine is not built yet"},
    {"curve_server_key", TOOL_LISTEN, TEXT, AT(curve_server_key), 0, "K",
     "the publisher's public key, for encrypted events"},
    {"curve_key_file", TOOL_LISTEN, TEXT, AT(curve_key_file), 0, "F",
     "our own key pair (mc-store keygen --curve)"},
    {"from", TOOL_FROM, TEXT, AT(from), 0, "now|snapshot|SEQ",
     "where to begin (now); the others need a recovery server"},
    {"tenant", TOOL_FILTER, TEXT, AT(tenant), 0, "T", "only this tenant"},
    {"session", TOOL_FILTER, TEXT, AT(session), 0, "S", "only this session"},
    {"group", TOOL_FILTER, TEXT, AT(group), 0, "G", "only this group"},
    {"type", TOOL_FILTER, TEXT, AT(type), 0, "T",
     "only stored, removed or cleared"},
    {"medium", TOOL_FILTER, TEXT, AT(medium), 0, "M",
     "only this medium, such as cpu"},
    {"layout", TOOL_LAYOUT, TEXT, AT(layout), 0, "L",
     "u64, sglang:mha:tp=N, sglang:mla or vllm:tp=N"},
    {"prefix", TOOL_LAYOUT, TEXT, AT(prefix), 0, "P",
     "exact text before each key of the layout"},
    {"count", TOOL_COUNT, COUNT, AT(count), AT(has_count), "N",
     "end after so many"},
    {"every", TOOL_EVERY, DURATION, AT(every_ms), AT(has_every), "D",
     "time between two reports (1s)"},
    {"speed", TOOL_SPEED, SPEED, AT(speed), AT(has_speed), "X",
     "times the recorded pace; 0: no pauses"},
    {"wait", TOOL_WAIT, DURATION, AT(wait_ms), AT(has_wait), "D",
     "longest wait for a first subscriber (1s)"},
    {"json", TOOL_JSON, FLAG, AT(json), 0, NULL, "one object a line"},
};
#define OPTION_COUNT (sizeof options / sizeof options[0])

bool tool_duration_parse(const char *text, uint64_t *ms_out)
{
    static const struct {
        const char *suffix;
        uint64_t ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
    /* Digits and a point only: no sign, exponent, hexadecimal or "inf". */
    size_t len = strspn(text, "0123456789.");
    char *end;
    double number = strtod(text, &end);
    if (len == 0 || end != text + len) {
        return false;
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(end, units[i].suffix) == 0) {
            double ms = number * (double)units[i].ms;
            if (ms > 1e15) {
                return false;
            }
            *ms_out = (uint64_t)(ms + 0.5);
            return true;
        }
    }
    return false;
}

static bool count_parse(const char *text, uint64_t *count_out)
{
    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (errno != 0 || *end != 0 || number == 0) {
        return false;
    }
    *count_out = number;
    return true;
}

static bool speed_parse(const char *text, double *speed_out)
{
    size_t len = strspn(text, "0123456789.");
    char *end;
    double number = strtod(text, &end);
    if (len == 0 || end != text + len || *end != 0 || number > 1e9) {
        return false;
    }
    *speed_out = number;
    return true;
}

/* Sets one option; false if the value is not of its kind. */
static bool option_set(const struct option *option, const char *value,
                       struct tool_args *args)
{
    char *base = (char *)args;
    bool is_good = true;
    switch (option->kind) {
    case TEXT:
        *(const char **)(void *)(base + option->value_at) = value;
        break;
    case COUNT:
        is_good =
            count_parse(value, (uint64_t *)(void *)(base + option->value_at));
        break;
    case DURATION:
        is_good = tool_duration_parse(
            value, (uint64_t *)(void *)(base + option->value_at));
        break;
    case SPEED:
        is_good =
            speed_parse(value, (double *)(void *)(base + option->value_at));
        break;
    case FLAG:
        *(bool *)(base + option->value_at) = true;
        break;
    }
    if (is_good && option->given_at) {
        *(bool *)(base + option->given_at) = true;
    }
    return is_good;
}

static void usage_print(const struct tool_command *command)
{
    printf("usage: mc-events %s%s%s%s\n\n%s\n\n%s\n", command->name,
           command->options ? " [OPTIONS]" : "",
           command->operands[0] ? " " : "", command->operands, command->summary,
           command->explanation);
    printf("\noptions:\n");
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (command->options & options[i].bit) {
            char left[48];
            snprintf(left, sizeof left, "--%s%s%s", options[i].name,
                     options[i].value ? " " : "",
                     options[i].value ? options[i].value : "");
            printf("  %-27s %s\n", left, options[i].text);
        }
    }
    printf("  %-27s %s\n  %-27s %s\n", "--help", "this text", "--version",
           "the version");
    printf("\nexample:\n  %s\n", command->example);
}

static char plain(char c)
{
    return (char)(c == '_' ? '-' : c);
}

static bool name_is(const char *name, const char *given, size_t len)
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
static const struct option *option_find(const struct tool_command *command,
                                        const char *text,
                                        const char **value_out)
{
    if (text[1] != '-') {
        return NULL;
    }
    const char *name = text + 2;
    size_t len = strcspn(name, "=");
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if ((command->options & options[i].bit) &&
            name_is(options[i].name, name, len)) {
            *value_out = name[len] == '=' ? name + len + 1 : NULL;
            return &options[i];
        }
    }
    return NULL;
}

static int known_but_unbuilt(const struct tool_args *args)
{
    const struct tool_command *command = args->command;
    if (args->recovery) {
        return tool_wrong_use(command,
                              "--recovery: the recovery server is not built "
                              "yet; events can be followed from now on only");
    }
    if (!args->curve_server_key != !args->curve_key_file) {
        return tool_wrong_use(command, "--curve_server_key and "
                                       "--curve_key_file go together");
    }
    if (args->profile && strcmp(args->profile, "engine") == 0) {
        return tool_wrong_use(command, "--profile engine: reading the events "
                                       "of engines is not built yet");
    }
    if (args->profile && strcmp(args->profile, "store") != 0) {
        return tool_wrong_use(command, "--profile %s: is store or engine",
                              args->profile);
    }
    return TOOL_DONE;
}

static int from_check(const struct tool_args *args)
{
    if (!args->from || strcmp(args->from, "now") == 0) {
        return TOOL_DONE;
    }
    size_t digits = strspn(args->from, "0123456789");
    if (strcmp(args->from, "snapshot") != 0 &&
        (digits == 0 || args->from[digits])) {
        return tool_wrong_use(args->command,
                              "--from %s: is now, snapshot or a sequence "
                              "number",
                              args->from);
    }
    return tool_wrong_use(args->command,
                          "--from %s: what was published before now can only "
                          "be asked of a recovery server (--recovery), which "
                          "is not built yet",
                          args->from);
}

/* What several options say together, or one of them says about a list. */
static int values_check(const struct tool_args *args)
{
    int code = known_but_unbuilt(args);
    if (code == TOOL_DONE) {
        code = from_check(args);
    }
    if (code != TOOL_DONE) {
        return code;
    }
    if (args->type && strcmp(args->type, "stored") != 0 &&
        strcmp(args->type, "removed") != 0 &&
        strcmp(args->type, "cleared") != 0) {
        return tool_wrong_use(args->command,
                              "--type %s: is stored, removed or cleared",
                              args->type);
    }
    if (args->prefix && !args->layout) {
        return tool_wrong_use(args->command, "--prefix needs --layout");
    }
    struct mc_key_layout layout;
    if (args->layout &&
        mc_key_layout_parse(mc_view_str(args->layout),
                            mc_view_str(args->prefix), &layout) != MC_OK) {
        return tool_wrong_use(args->command,
                              "--layout %s: is u64, sglang:mha:tp=N, "
                              "sglang:mla or vllm:tp=N, tp from 1 to %d, and a "
                              "prefix is UTF-8 of at most %d bytes",
                              args->layout, MC_KEY_RANKS_MAX, MC_KEY_LEN_MAX);
    }
    return TOOL_DONE;
}

bool tool_args_layout(const struct tool_args *args,
                      struct mc_key_layout *layout_out)
{
    return args->layout &&
           mc_key_layout_parse(mc_view_str(args->layout),
                               mc_view_str(args->prefix), layout_out) == MC_OK;
}

/* One option at argv[*at], with its value there or in the next one. */
static int option_read(const struct tool_command *command, int argc,
                       char **argv, int *at, struct tool_args *args)
{
    const char *value = NULL;
    const struct option *option = option_find(command, argv[*at], &value);
    if (!option) {
        return tool_wrong_use(command, "%s: no such option", argv[*at]);
    }
    if (option->kind == FLAG && value) {
        return tool_wrong_use(command, "--%s: takes no value", option->name);
    }
    if (option->kind != FLAG && !value) {
        if (*at + 1 >= argc) {
            return tool_wrong_use(command, "--%s: needs a value", option->name);
        }
        value = argv[++*at];
    }
    if (option_set(option, value, args)) {
        return TOOL_DONE;
    }
    switch (option->kind) {
    case DURATION:
        return tool_wrong_use(command,
                              "--%s %s: is a number with ms, s, m or h",
                              option->name, value);
    case SPEED:
        return tool_wrong_use(command, "--%s %s: is a number, 0 or more",
                              option->name, value);
    default:
        return tool_wrong_use(command, "--%s %s: is a whole number from 1 on",
                              option->name, value);
    }
}

int tool_args_read(const struct tool_command *command, int argc, char **argv,
                   struct tool_args *args_out, bool *is_shown_out)
{
    struct tool_args args = {.command = command};
    size_t operands = 0;
    bool is_past_options = false;
    *is_shown_out = false;
    for (int i = 0; i < argc; i++) {
        const char *text = argv[i];
        if (is_past_options || text[0] != '-' || text[1] == 0) {
            args.operand = text;
            operands++;
        } else if (strcmp(text, "--") == 0) {
            is_past_options = true;
        } else if (strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0) {
            usage_print(command);
            *is_shown_out = true;
            return TOOL_DONE;
        } else if (strcmp(text, "--version") == 0) {
            printf("mc-events %s\n", MC_VERSION);
            *is_shown_out = true;
            return TOOL_DONE;
        } else {
            int code = option_read(command, argc, argv, &i, &args);
            if (code != TOOL_DONE) {
                return code;
            }
        }
    }
    if (operands < command->operand_min || operands > command->operand_max) {
        return tool_wrong_use(command, "%s",
                              operands > command->operand_max
                                  ? "too many operands"
                                  : "an operand is missing");
    }
    if (!args.endpoint && (command->options & TOOL_LISTEN)) {
        args.endpoint = TOOL_ENDPOINT_DEFAULT;
    }
    int code = values_check(&args);
    if (code == TOOL_DONE) {
        *args_out = args;
    }
    return code;
}
