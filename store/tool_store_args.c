/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "tool_store.h"

#define AT(field) offsetof(struct tool_args, field)

const struct tool_option tool_options[] = {
    {"master", TOOL_MASTER, TOOL_TAKES_TEXT, AT(master), 0, "HOST:PORT",
     "where the master is (" TOOL_MASTER_DEFAULT ")"},
    {"tenant", TOOL_MASTER, TOOL_TAKES_TEXT, AT(tenant), 0, "T",
     "whose objects (default)"},
    {"timeout", TOOL_MASTER, TOOL_TAKES_DURATION, AT(timeout_ms), 0, "D",
     "longest wait of a call (30s)"},
    {"transport", TOOL_MASTER, TOOL_TAKES_TEXT, AT(transport), 0, "T",
     "what bytes may take: auto, tcp, shm, rdma (auto)"},
    {"tls_cert", TOOL_MASTER, TOOL_TAKES_TEXT, AT(tls_cert), 0, "FILE",
     "certificate of this side, PEM"},
    {"tls_key", TOOL_MASTER, TOOL_TAKES_TEXT, AT(tls_key), 0, "FILE",
     "its key"},
    {"tls_ca", TOOL_MASTER, TOOL_TAKES_TEXT, AT(tls_ca), 0, "FILE",
     "whom to believe"},
    {"segment", TOOL_SERVE | TOOL_LOAD, TOOL_TAKES_SIZE, AT(segment_bytes),
     AT(has_segment), "SIZE", "memory to lend, such as 4GB"},
    {"host", TOOL_SERVE, TOOL_TAKES_TEXT, AT(host), 0, "NAME",
     "by which others reach this process (127.0.0.1)"},
    {"port", TOOL_SERVE, TOOL_TAKES_PORT, AT(port), AT(has_port), "P",
     "where bytes are served (a free one from 12300 on)"},
    {"metadata_server", TOOL_SERVE, TOOL_TAKES_TEXT, AT(metadata_server), 0,
     "URL", "P2PHANDSHAKE or http://host:port/metadata"},
    {"protocol", TOOL_SERVE, TOOL_TAKES_TEXT, AT(protocol), 0, "P", "tcp"},
    {"http_port", TOOL_SERVE, TOOL_TAKES_PORT, AT(http_port), AT(has_http_port),
     "P", "serve /health and /metrics there; 0: a free port"},
    {"no_prefault", TOOL_SERVE, TOOL_TAKES_NOTHING, AT(no_prefault), 0, NULL,
     "touch memory on first use, not at the start"},
    {"session", TOOL_TAG, TOOL_TAKES_TEXT, AT(session), 0, "S",
     "the session that the object is tagged with"},
    {"group", TOOL_TAG, TOOL_TAKES_TEXT, AT(group), 0, "G",
     "the group that it joins"},
    {"upsert", TOOL_WRITE, TOOL_TAKES_NOTHING, AT(upsert), 0, NULL,
     "replace what is there; else it stays"},
    {"replicas", TOOL_WRITE, TOOL_TAKES_COUNT, AT(replicas), 0, "N",
     "copies in memory, on distinct clients (1)"},
    {"soft-pin", TOOL_WRITE, TOOL_TAKES_DURATION, AT(soft_pin_ms),
     AT(has_soft_pin), "D", "evicted last, for so long"},
    {"hard-pin", TOOL_WRITE, TOOL_TAKES_NOTHING, AT(hard_pin), 0, NULL,
     "never evicted"},
    {"output", TOOL_OUTPUT, TOOL_TAKES_TEXT, AT(output), 0, "FILE",
     "write there and not to stdout"},
    {"force", TOOL_FORCE, TOOL_TAKES_NOTHING, AT(force), 0, NULL,
     "leased objects too"},
    {"regex", TOOL_REGEX, TOOL_TAKES_TEXT, AT(regex), 0, "RE",
     "all whose key it finds something in"},
    {"size", TOOL_LOAD, TOOL_TAKES_SIZE, AT(size_bytes), 0, "S",
     "bytes of an object (1MB)"},
    {"count", TOOL_LOAD, TOOL_TAKES_COUNT, AT(count), 0, "N", "objects (1000)"},
    {"batch", TOOL_LOAD, TOOL_TAKES_COUNT, AT(batch), 0, "B",
     "objects of a call (16)"},
    {"threads", TOOL_LOAD, TOOL_TAKES_COUNT, AT(threads), 0, "T",
     "that call at the same time (1)"},
    {"curve", TOOL_KEYGEN, TOOL_TAKES_TEXT, AT(curve), 0, "FILE",
     "keys for events, secret ones in FILE"},
    {"tls", TOOL_KEYGEN, TOOL_TAKES_TEXT, AT(tls_dir), 0, "DIR",
     "ca.pem, cert.pem and key.pem for trying it out"},
    {"host", TOOL_KEYGEN, TOOL_TAKES_TEXT, AT(host), 0, "NAME",
     "a further name or address that the certificate is good for"},
    {"json", TOOL_JSON, TOOL_TAKES_NOTHING, AT(json), 0, NULL,
     "one object a line"},
    {.name = NULL},
};

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
    struct tool_reading reading = {.command = command,
                                   .fields = args_out,
                                   .operands = args_out->operands,
                                   .operand_room = (size_t)argc};
    int code = tool_options_read(argc, argv, &reading);
    args_out->operand_count = reading.operand_count;
    *is_shown_out = reading.is_shown;
    if (code != TOOL_DONE || reading.is_shown) {
        return code;
    }
    return tool_args_check(args_out);
}
