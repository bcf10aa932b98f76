/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "mc_event.h"
#include "tool.h"

#define AT(field) offsetof(struct tool_args, field)

const struct tool_option tool_options[] = {
    {"endpoint", TOOL_ENDPOINT, TOOL_TAKES_TEXT, AT(endpoint), 0, "EP",
     "where events are published (" TOOL_ENDPOINT_DEFAULT ")"},
    {"topic", TOOL_TOPIC, TOOL_TAKES_TEXT, AT(topic), 0, "T",
     "subscribe to topics that begin so (all)"},
    {"recovery", TOOL_LISTEN, TOOL_TAKES_TEXT, AT(recovery), 0, "EP",
     "ask this recovery server for what was missed"},
    {"recovery", TOOL_ASK, TOOL_TAKES_TEXT, AT(recovery), 0, "EP",
     "the recovery server (" TOOL_RECOVERY_DEFAULT ")"},
    {"replay", TOOL_LISTEN | TOOL_ASK, TOOL_TAKES_TEXT, AT(recovery), 0, "EP",
     "the same as --recovery"},
    {"profile", TOOL_LISTEN | TOOL_PROFILE, TOOL_TAKES_TEXT, AT(profile), 0,
     "store|engine", "whose events (store); engine: vLLM or SGLang"},
    {"curve_server_key", TOOL_LISTEN | TOOL_ASK, TOOL_TAKES_TEXT,
     AT(curve_server_key), 0, "K",
     "the publisher's public key, for encrypted events"},
    {"curve_key_file", TOOL_LISTEN | TOOL_ASK, TOOL_TAKES_TEXT,
     AT(curve_key_file), 0, "F", "our own key pair (mc-store keygen --curve)"},
    {"admin", TOOL_ADMIN, TOOL_TAKES_TEXT, AT(admin), 0, "URL",
     "the master's admin port, such as http://127.0.0.1:9003"},
    {"timeout", TOOL_ASK | TOOL_TIMEOUT, TOOL_TAKES_DURATION, AT(timeout_ms),
     AT(has_timeout), "D", "longest wait for each answer (10s)"},
    {"from", TOOL_FROM, TOOL_TAKES_TEXT, AT(from), 0, "now|snapshot|SEQ",
     "where to begin (now); the others ask the recovery server "
     "(" TOOL_RECOVERY_DEFAULT ")"},
    {"tenant", TOOL_FILTER, TOOL_TAKES_TEXT, AT(tenant), 0, "T",
     "only this tenant"},
    {"tenant", TOOL_TENANT, TOOL_TAKES_TEXT, AT(tenant), 0, "T",
     "of this tenant"},
    {"session", TOOL_FILTER, TOOL_TAKES_TEXT, AT(session), 0, "S",
     "only this session"},
    {"group", TOOL_FILTER, TOOL_TAKES_TEXT, AT(group), 0, "G",
     "only this group"},
    {"type", TOOL_FILTER, TOOL_TAKES_TEXT, AT(type), 0, "T",
     "only stored, removed or cleared"},
    {"medium", TOOL_FILTER, TOOL_TAKES_TEXT, AT(medium), 0, "M",
     "only this medium, such as cpu"},
    {"layout", TOOL_LAYOUT, TOOL_TAKES_TEXT, AT(layout), 0, "L",
     "u64, sglang:mha:tp=N, sglang:mla or vllm:tp=N"},
    {"prefix", TOOL_LAYOUT, TOOL_TAKES_TEXT, AT(prefix), 0, "P",
     "exact text before each key of the layout"},
    {"count", TOOL_COUNT, TOOL_TAKES_COUNT, AT(count), AT(has_count), "N",
     "end after so many"},
    {"every", TOOL_EVERY, TOOL_TAKES_DURATION, AT(every_ms), AT(has_every), "D",
     "time between two reports (1s)"},
    {"every", TOOL_AGAIN, TOOL_TAKES_DURATION, AT(every_ms), AT(has_every), "D",
     "again after each such pause (once)"},
    {"speed", TOOL_SPEED, TOOL_TAKES_SPEED, AT(speed), AT(has_speed), "X",
     "times the recorded pace; 0: no pauses"},
    {"wait", TOOL_WAIT, TOOL_TAKES_DURATION, AT(wait_ms), AT(has_wait), "D",
     "longest wait for a first subscriber (1s)"},
    {"top", TOOL_TOP, TOOL_TAKES_COUNT, AT(top), AT(has_top), "N",
     "at most so many, the largest first (20)"},
    {"json", TOOL_JSON, TOOL_TAKES_NOTHING, AT(json), 0, NULL,
     "one object a line"},
    {.name = NULL},
};

static int source_check(const struct tool_args *args)
{
    const struct tool_command *command = args->command;
    if (!args->curve_server_key != !args->curve_key_file) {
        return tool_wrong_use(command, "--curve_server_key and "
                                       "--curve_key_file go together");
    }
    if (args->profile && !args->is_engine &&
        strcmp(args->profile, "store") != 0) {
        return tool_wrong_use(command, "--profile %s: is store or engine",
                              args->profile);
    }
    if (args->is_engine && (command->options & TOOL_FILTER) &&
        (args->tenant || args->group)) {
        return tool_wrong_use(command, "--tenant and --group: the events of "
                                       "engines name neither");
    }
    return TOOL_DONE;
}

static bool is_number(const char *text)
{
    uint64_t number;
    return tool_number_parse(text, UINT64_MAX, &number);
}

static int from_check(const struct tool_args *args)
{
    if (!args->from || strcmp(args->from, "now") == 0) {
        return TOOL_DONE;
    }
    bool is_snapshot = strcmp(args->from, "snapshot") == 0;
    if (!is_snapshot && !is_number(args->from)) {
        return tool_wrong_use(args->command,
                              "--from %s: is now, snapshot or a sequence "
                              "number",
                              args->from);
    }
    if (is_snapshot && args->is_engine) {
        return tool_wrong_use(args->command,
                              "--from snapshot: an engine has none; begin with "
                              "a number, 0 for all that it keeps");
    }
    return TOOL_DONE;
}

/* What several options say together, or one of them says about a list. */
static int values_check(const struct tool_args *args)
{
    int code = source_check(args);
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

int tool_args_read(const struct tool_command *command, int argc, char **argv,
                   struct tool_args *args_out, bool *is_shown_out)
{
    struct tool_args args = {.command = command};
    struct tool_reading reading = {.command = command,
                                   .fields = &args,
                                   .operands = &args.operand,
                                   .operand_room = 1};
    int code = tool_options_read(argc, argv, &reading);
    *is_shown_out = reading.is_shown;
    if (code != TOOL_DONE || reading.is_shown) {
        return code;
    }
    if (!args.endpoint && (command->options & TOOL_LISTEN)) {
        args.endpoint = TOOL_ENDPOINT_DEFAULT;
    }
    bool asks = (command->options & (TOOL_ASK | TOOL_ADMIN)) ||
                (args.from && strcmp(args.from, "now") != 0);
    if (!args.recovery && asks) {
        args.recovery = TOOL_RECOVERY_DEFAULT;
    }
    args.is_engine = args.profile && strcmp(args.profile, "engine") == 0;
    code = values_check(&args);
    if (code == TOOL_DONE) {
        *args_out = args;
    }
    return code;
}
