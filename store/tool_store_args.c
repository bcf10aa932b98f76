/* SPDX-License-Identifier: Apache-2.0 */
/* Options are exact names, --name VALUE or --name=VALUE, dashes and underscores
 * alike; getopt_long is not used because it takes abbreviations, which turn every
 * new option into a change of what old commands mean. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool_store.h"

enum option_kind { TEXT, COUNT, PORT, SIZE, DURATION, FLAG };

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
    {"master", TOOL_MASTER, TEXT, AT(master), 0, "HOST:PORT",
     "where the master is (" TOOL_MASTER_DEFAULT ")"},
    {"tenant", TOOL_MASTER, TEXT, AT(tenant), 0, "T",
     "whose objects (default)"},
    {"timeout", TOOL_MASTER, DURATION, AT(timeout_ms), 0, "D",
     "longest wait of a call (30s)"},
    {"transport", TOOL_MASTER, TEXT, AT(transport), 0, "T",
     "what bytes may take: auto, tcp, shm, rdma (auto)"},
    {"tls_cert", TOOL_MASTER, TEXT, AT(tls_cert), 0, "FILE",
     "certificate of this side, PEM"},
    {"tls_key", TOOL_MASTER, TEXT, AT(tls_key), 0, "FILE", "its key"},
    {"tls_ca", TOOL_MASTER, TEXT, AT(tls_ca), 0, "FILE", "whom to believe"},
    {"segment", TOOL_SERVE | TOOL_LOAD, SIZE, AT(segment_bytes),
     AT(has_segment), "SIZE", "memory to lend, such as 4GB"},
    {"host", TOOL_SERVE, TEXT, AT(host), 0, "NAME",
     "by which others reach this process (127.0.0.1)"},
    {"port", TOOL_SERVE, PORT, AT(port), AT(has_port), "P",
     "where bytes are served (a free one from 12300 on)"},
    {"metadata_server", TOOL_SERVE, TEXT, AT(metadata_server), 0, "URL",
     "P2PHANDSHAKE or http://host:port/metadata"},
    {"protocol", TOOL_SERVE, TEXT, AT(protocol), 0, "P", "tcp"},
    {"http_port", TOOL_SERVE, PORT, AT(http_port), AT(has_http_port), "P",
     "serve /health and /metrics there; 0: a free port"},
    {"no_prefault", TOOL_SERVE, FLAG, AT(no_prefault), 0, NULL,
     "touch memory on first use, not at the start"},
    {"session", TOOL_TAG, TEXT, AT(session), 0, "S",
     "the session that the object is tagged with"},
    {"group", TOOL_TAG, TEXT, AT(group), 0, "G", "the group that it joins"},
    {"upsert", TOOL_WRITE, FLAG, AT(upsert), 0, NULL,
     "replace what is there; else it stays"},
    {"replicas", TOOL_WRITE, COUNT, AT(replicas), 0, "N",
     "copies in memory, on distinct clients (1)"},
    {"soft-pin", TOOL_WRITE, DURATION, AT(soft_pin_ms), AT(has_soft_pin), "D",
     "evicted last, for so long"},
    {"hard-pin", TOOL_WRITE, FLAG, AT(hard_pin), 0, NULL, "never evicted"},
    {"output", TOOL_OUTPUT, TEXT, AT(output), 0, "FILE",
     "write there and not to stdout"},
    {"force", TOOL_FORCE, FLAG, AT(force), 0, NULL, "leased objects too"},
    {"regex", TOOL_REGEX, TEXT, AT(regex), 0, "RE",
     "all whose key it finds something in"},
    {"size", TOOL_LOAD, SIZE, AT(size_bytes), 0, "S",
     "bytes of an object (1MB)"},
    {"count", TOOL_LOAD, COUNT, AT(count), 0, "N", "objects (1000)"},
    {"batch", TOOL_LOAD, COUNT, AT(batch), 0, "B", "objects of a call (16)"},
    {"threads", TOOL_LOAD, COUNT, AT(threads), 0, "T",
     "that call at the same time (1)"},
    {"curve", TOOL_KEYGEN, TEXT, AT(curve), 0, "FILE",
     "keys for events, secret ones in FILE"},
    {"tls", TOOL_KEYGEN, TEXT, AT(tls_dir), 0, "DIR",
     "ca.pem, cert.pem and key.pem for trying it out"},
    {"host", TOOL_KEYGEN, TEXT, AT(host), 0, "NAME",
     "a further name or address that the certificate is good for"},
    {"json", TOOL_JSON, FLAG, AT(json), 0, NULL, "one object a line"},
};
#define OPTION_COUNT (sizeof options / sizeof options[0])

/* ---- values ------------------------------------------------------------ */

/* Digits with at most one point: no sign, exponent, hexadecimal or "inf". */
static bool decimal_parse(const char *text, double *number_out,
                          const char **rest_out)
{
    size_t len = strspn(text, "0123456789.");
    char *end;
    double number = strtod(text, &end);
    if (len == 0 || end != text + len) {
        return false;
    }
    *number_out = number;
    *rest_out = end;
    return true;
}

bool tool_duration_parse(const char *text, uint64_t *ms_out)
{
    static const struct {
        const char *suffix;
        double ms;
    } units[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}};
    double number;
    const char *rest;
    if (!decimal_parse(text, &number, &rest)) {
        return false;
    }
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (strcmp(rest, units[i].suffix) == 0 &&
            number * units[i].ms <= UINT32_MAX) {
            *ms_out = (uint64_t)(number * units[i].ms + 0.5);
            return true;
        }
    }
    return false;
}

bool tool_size_parse(const char *text, uint64_t *bytes_out)
{
    static const char prefixes[] = "KMGTP";
    double number;
    const char *rest;
    double unit = 1;
    if (!decimal_parse(text, &number, &rest)) {
        return false;
    }
    rest += strspn(rest, " ");
    for (unsigned i = 0; prefixes[i] && rest[0]; i++) {
        if ((rest[0] & ~0x20) == prefixes[i]) {
            unit = (double)(UINT64_C(1) << 10 * (i + 1));
            rest++;
            rest += rest[0] == 'i' && (rest[1] & ~0x20) == 'B';
            break;
        }
    }
    rest += (rest[0] & ~0x20) == 'B';
    if (*rest || number * unit >= 9e18) {
        return false;
    }
    *bytes_out = (uint64_t)(number * unit + 0.5);
    return true;
}

bool tool_number_parse(const char *text, uint64_t max, uint64_t *number_out)
{
    uint64_t number = 0;
    if (!text[0] || strlen(text) > 18) {
        return false;
    }
    for (; *text; text++) {
        if (*text < '0' || *text > '9') {
            return false;
        }
        number = number * 10 + (uint64_t)(*text - '0');
    }
    *number_out = number;
    return number <= max;
}

static bool option_set(const struct option *option, const char *value,
                       struct tool_args *args)
{
    char *base = (char *)args;
    uint64_t *number = (uint64_t *)(void *)(base + option->value_at);
    bool is_good = true;
    switch (option->kind) {
    case TEXT:
        *(const char **)(void *)(base + option->value_at) = value;
        break;
    case COUNT:
        is_good = tool_number_parse(value, UINT32_MAX, number) && *number > 0;
        break;
    case PORT:
        is_good = tool_number_parse(value, UINT16_MAX - 1, number);
        break;
    case SIZE:
        is_good = tool_size_parse(value, number);
        break;
    case DURATION:
        is_good = tool_duration_parse(value, number);
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

static const char *const kinds[] = {
    [TEXT] = "a text",
    [COUNT] = "a whole number from 1 on",
    [PORT] = "a port, 0 to 65534",
    [SIZE] = "a size such as 64MB",
    [DURATION] = "a number with ms, s, m or h",
    [FLAG] = "nothing",
};

/* ---- usage ------------------------------------------------------------- */

static void usage_print(const struct tool_command *command)
{
    printf("usage: mc-store %s%s%s%s\n\n%s\n\n%s\n", command->name,
           command->options ? " [OPTIONS]" : "",
           command->operands[0] ? " " : "", command->operands, command->summary,
           command->explanation);
    printf("\noptions:\n");
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        if (command->options & options[i].bit) {
            char left[48];
            (void)snprintf(left, sizeof left, "--%s%s%s", options[i].name,
                           options[i].value ? " " : "",
                           options[i].value ? options[i].value : "");
            printf("  %-22s %s\n", left, options[i].text);
        }
    }
    printf("  %-22s %s\n  %-22s %s\n", "--help", "this text", "--version",
           "the version");
    printf("\nexample:\n  %s\n", command->example);
}

/* ---- reading ----------------------------------------------------------- */

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

/* One option at argv[*at], with its value there or in the next one. */
static int option_read(int argc, char **argv, int *at, struct tool_args *args)
{
    const struct tool_command *command = args->command;
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
    if (!option_set(option, value, args)) {
        return tool_wrong_use(command, "--%s %s: is %s", option->name, value,
                              kinds[option->kind]);
    }
    return TOOL_DONE;
}

int tool_args_check(struct tool_args *args)
{
    static const char *const transports[] = {"auto", "tcp", "shm", "rdma"};
    const struct tool_command *command = args->command;
    size_t i = 0;
    while (args->transport && i < 4 &&
           strcmp(args->transport, transports[i]) != 0) {
        i++;
    }
    if (i == 4) {
        return tool_wrong_use(command,
                              "--transport %s: is auto, tcp, shm or rdma",
                              args->transport);
    }
    if (!args->tls_cert != !args->tls_key || !args->tls_cert != !args->tls_ca) {
        return tool_wrong_use(command,
                              "--tls_cert, --tls_key and --tls_ca go together");
    }
    if (!(command->options & TOOL_MASTER)) {
        return TOOL_DONE;
    }
    if (!args->master) {
        args->master = tool_setting("MASTER");
    }
    if (!args->master || !args->master[0]) {
        args->master = TOOL_MASTER_DEFAULT;
    }
    if (!args->tenant) {
        args->tenant = tool_setting("TENANT_ID");
    }
    return TOOL_DONE;
}

static int read_all(int argc, char **argv, struct tool_args *args,
                    bool *is_shown_out)
{
    bool is_past_options = false;
    for (int i = 0; i < argc; i++) {
        const char *text = argv[i];
        if (is_past_options || text[0] != '-' || text[1] == 0) {
            args->operands[args->operand_count++] = text;
        } else if (strcmp(text, "--") == 0) {
            is_past_options = true;
        } else if (strcmp(text, "--help") == 0 || strcmp(text, "-h") == 0) {
            usage_print(args->command);
            *is_shown_out = true;
            return TOOL_DONE;
        } else if (strcmp(text, "--version") == 0) {
            printf("mc-store %s\n", MC_VERSION);
            *is_shown_out = true;
            return TOOL_DONE;
        } else {
            int code = option_read(argc, argv, &i, args);
            if (code != TOOL_DONE) {
                return code;
            }
        }
    }
    return TOOL_DONE;
}

int tool_args_read(const struct tool_command *command, int argc, char **argv,
                   struct tool_args *args_out, bool *is_shown_out)
{
    *args_out = (struct tool_args){.command = command};
    *is_shown_out = false;
    args_out->operands = calloc((size_t)argc + 1, sizeof *args_out->operands);
    if (!args_out->operands) {
        return tool_fail(command, "%s (%d)", mc_err_text(MC_ERR_NOMEM),
                         MC_ERR_NOMEM);
    }
    int code = read_all(argc, argv, args_out, is_shown_out);
    if (code != TOOL_DONE || *is_shown_out) {
        return code;
    }
    if (args_out->operand_count > command->operand_max) {
        return tool_wrong_use(command, "too many operands");
    }
    if (args_out->operand_count < command->operand_min) {
        return tool_wrong_use(command, "an operand is missing");
    }
    return tool_args_check(args_out);
}
