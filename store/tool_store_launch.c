/* SPDX-License-Identifier: Apache-2.0 */
/* What launchers of stores say: the flags of mooncake_client, and settings in
 * the environment or in the file that MOONCAKE_CONFIG_PATH names. A flag goes
 * before the file, the file before the environment, as it is with them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tool_store.h"
#include "tool_store_json.h"

#define CONFIG_LEN_MAX (1u << 20)
#define SEGMENT_DEFAULT (UINT64_C(4) << 30)

/* ---- settings ---------------------------------------------------------- */

static const struct {
    const char *name; /* of the variable, behind MOONCAKE_ */
    const char *key;  /* in the file */
} settings[] = {
    {"MASTER", "master_server_address"},
    {"TE_META_DATA_SERVER", "metadata_server"},
    {"PROTOCOL", "protocol"},
    {"DEVICE", "device_name"},
    {"GLOBAL_SEGMENT_SIZE", "global_segment_size"},
    {"LOCAL_BUFFER_SIZE", "local_buffer_size"},
    {"LOCAL_HOSTNAME", "local_hostname"},
    {"TENANT_ID", "tenant_id"},
    {"OFFLOAD_ENABLED", "enable_offload"},
    {"ENABLE_CLIENT_HTTP_SERVER", "enable_client_http_server"},
    {"CLIENT_HTTP_PORT", "client_http_port"},
};

static struct tool_json config;

bool tool_settings_load(const struct tool_command *command)
{
    const char *path = getenv("MOONCAKE_CONFIG_PATH");
    if (!path || !path[0]) {
        return true;
    }
    FILE *file = fopen(path, "rb");
    char *text = malloc(CONFIG_LEN_MAX);
    const char *why = "is too long";
    bool is_read = false;
    if (!file || !text) {
        why = strerror(errno);
    } else {
        size_t len = fread(text, 1, CONFIG_LEN_MAX - 1, file);
        text[len] = '\0';
        is_read = len < CONFIG_LEN_MAX - 1 &&
                  tool_json_read(&config, text, len, &why);
    }
    if (file) {
        (void)fclose(file);
    }
    free(text);
    if (!is_read) {
        (void)tool_fail(command, "%s (MOONCAKE_CONFIG_PATH): %s", path, why);
    }
    return is_read;
}

void tool_settings_free(void)
{
    tool_json_free(&config);
}

const char *tool_setting(const char *name)
{
    char variable[64];
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        const char *value = strcmp(settings[i].name, name) == 0
                                ? tool_json_typed(&config, settings[i].key)
                                : NULL;
        if (value && value[0]) {
            return value;
        }
    }
    (void)snprintf(variable, sizeof variable, "MOONCAKE_%s", name);
    const char *value = getenv(variable);
    return value && value[0] ? value : NULL;
}

/* ---- flags ------------------------------------------------------------- */

enum flag_kind { TEXT, SIZE, PORT, NUMBER, SWITCH, UNBUILT_SWITCH };

struct flag {
    const char *name;
    enum flag_kind kind;
    size_t value_at; /* of the field; 0: taken and not needed */
    size_t given_at;
    const char *text;
};

#define AT(field) offsetof(struct tool_args, field)

static const struct flag flags[] = {
    {"host", TEXT, AT(host), 0,
     "by which others reach this process; 0.0.0.0: 127.0.0.1"},
    {"port", PORT, AT(port), AT(has_port), "where bytes are served"},
    {"metadata_server", TEXT, AT(metadata_server), 0,
     "P2PHANDSHAKE or http://host:port/metadata"},
    {"device_names", TEXT, 0, 0, "not needed for tcp"},
    {"master_server_address", TEXT, AT(master), 0,
     "host:port of the master (" TOOL_MASTER_DEFAULT ")"},
    {"protocol", TEXT, AT(protocol), 0, "tcp"},
    {"global_segment_size", SIZE, AT(segment_bytes), AT(has_segment),
     "memory to lend (4 GB)"},
    {"local_buffer_size", SIZE, AT(local_buffer_bytes), 0,
     "for loading into (0)"},
    {"threads", NUMBER, 0, 0, "taken, not needed"},
    {"tenant_id", TEXT, AT(tenant), 0, "whose objects (default)"},
    {"enable_offload", UNBUILT_SWITCH, 0, 0, "not built"},
    {"start_offload_rpc_server", UNBUILT_SWITCH, 0, 0, "not built"},
    {"enable_http_server", SWITCH, AT(with_http), 0,
     "serve /health and /metrics"},
    {"http_port", PORT, AT(http_port), AT(has_http_port), "there (9300)"},
};
#define FLAG_COUNT (sizeof flags / sizeof flags[0])

static bool is_switch(const struct flag *flag)
{
    return flag->kind == SWITCH || flag->kind == UNBUILT_SWITCH;
}

static bool truth_parse(const char *text, bool *is_true_out)
{
    static const char *const words[] = {"true",  "1", "yes", "t", "y", "on",
                                        "false", "0", "no",  "f", "n", "off"};
    for (size_t i = 0; i < 12; i++) {
        if (strcasecmp(text, words[i]) == 0) {
            *is_true_out = i < 6;
            return true;
        }
    }
    return false;
}

/* "NAME", or "noNAME" and "no-NAME" of a switch: *is_off_out. */
static const struct flag *flag_find(const char *name, size_t len,
                                    bool *is_off_out)
{
    bool is_no = len > 2 && strncmp(name, "no", 2) == 0;
    size_t skip = is_no && (name[2] == '-' || name[2] == '_') ? 3 : 2;
    for (size_t i = 0; i < FLAG_COUNT; i++) {
        *is_off_out = false;
        if (tool_name_is(flags[i].name, name, len)) {
            return &flags[i];
        }
        *is_off_out = true;
        if (is_no && is_switch(&flags[i]) &&
            tool_name_is(flags[i].name, name + skip, len - skip)) {
            return &flags[i];
        }
    }
    return NULL;
}

/* False: the value is not of the flag's kind. */
static bool flag_set(const struct flag *flag, const char *value,
                     struct tool_args *args)
{
    char *base = (char *)args;
    uint64_t ignored;
    bool is_true = false;
    uint64_t *number =
        flag->value_at ? (uint64_t *)(void *)(base + flag->value_at) : &ignored;
    bool is_good = true;
    switch (flag->kind) {
    case TEXT:
        if (flag->value_at) {
            *(const char **)(void *)(base + flag->value_at) = value;
        }
        break;
    case SIZE:
        is_good = tool_size_parse(value, number);
        break;
    case PORT:
        is_good = tool_number_parse(value, UINT16_MAX - 1, number);
        break;
    case NUMBER:
        is_good = tool_number_parse(value, UINT32_MAX, number);
        break;
    case SWITCH:
        is_good = truth_parse(value, (bool *)(base + flag->value_at));
        break;
    case UNBUILT_SWITCH:
        is_good = truth_parse(value, &is_true);
        if (is_true) {
            tool_say(args->command, "--%s: known, not built yet", flag->name);
        }
        break;
    }
    if (is_good && flag->given_at) {
        *(bool *)(base + flag->given_at) = true;
    }
    return is_good;
}

static int flag_read(int argc, char **argv, int *at, struct tool_args *args)
{
    const char *text = argv[*at];
    const char *name = text + (text[1] == '-' ? 2 : 1);
    size_t len = strcspn(name, "=");
    bool is_off;
    const struct flag *flag = flag_find(name, len, &is_off);
    if (!flag) {
        return tool_wrong_use(args->command, "%s: no such flag", text);
    }
    const char *value = name[len] == '=' ? name + len + 1 : NULL;
    if (is_off && value) {
        return tool_wrong_use(args->command, "%s: takes no value", text);
    }
    if (!value && is_switch(flag)) {
        value = is_off ? "false" : "true";
    }
    if (!value) {
        if (*at + 1 >= argc) {
            return tool_wrong_use(args->command, "%s: needs a value", text);
        }
        value = argv[++*at];
    }
    if (!flag_set(flag, value, args)) {
        return tool_wrong_use(args->command, "--%s %s: not understood",
                              flag->name, value);
    }
    return TOOL_DONE;
}

static void usage_print(void)
{
    printf(
        "usage: mooncake_client [FLAGS]\n\n"
        "Lends memory to a store until it is told to end: mc-store serve, "
        "with the flags\nof its launchers. Forms: --name=value, -name=value, "
        "--name value, --name, --noname.\n\nflags:\n");
    for (size_t i = 0; i < FLAG_COUNT; i++) {
        printf("  --%-26s %s\n", flags[i].name, flags[i].text);
    }
    printf(
        "\nexample:\n  mooncake_client --master_server_address=10.0.0.1:50051 "
        "--host=10.0.0.2 --global_segment_size=\"4 GB\"\n");
}

int tool_flags_read(const struct tool_command *command, int argc, char **argv,
                    struct tool_args *args_out, bool *is_shown_out)
{
    *args_out = (struct tool_args){.command = command};
    *is_shown_out = false;
    for (int i = 0; i < argc; i++) {
        const char *name = argv[i] + strspn(argv[i], "-");
        if (argv[i][0] != '-') {
            return tool_wrong_use(command, "%s: is no flag", argv[i]);
        }
        if (strcmp(name, "help") == 0 || strcmp(name, "version") == 0) {
            if (name[0] == 'h') {
                usage_print();
            } else {
                printf("mooncake_client %s\n", MC_VERSION);
            }
            *is_shown_out = true;
            return TOOL_DONE;
        }
        int code = flag_read(argc, argv, &i, args_out);
        if (code != TOOL_DONE) {
            return code;
        }
    }
    if (!args_out->has_segment && !tool_setting("GLOBAL_SEGMENT_SIZE")) {
        args_out->segment_bytes = SEGMENT_DEFAULT;
        args_out->has_segment = true;
    }
    return tool_args_check(args_out);
}
