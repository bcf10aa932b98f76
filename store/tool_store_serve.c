/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool_store.h"

#define WATCH_MS 500
#define MOUNTED_MS 20
#define HOSTNAME_MAX 272

/* A setting that is a size, a port or a switch; false after a line on stderr. */
static bool setting_size(const struct tool_args *args, const char *name,
                         uint64_t *bytes)
{
    const char *text = tool_setting(name);
    if (!text || tool_size_parse(text, bytes)) {
        return true;
    }
    (void)tool_fail(args->command, "MOONCAKE_%s: %s is no size", name, text);
    return false;
}

static bool setting_is_on(const char *name)
{
    const char *text = tool_setting(name);
    return text && (strcmp(text, "1") == 0 || strcmp(text, "true") == 0 ||
                    strcmp(text, "True") == 0 || strcmp(text, "on") == 0);
}

/* What no flag said and a launcher did. */
static bool fill_in(struct tool_args *args)
{
    if (!args->has_segment) {
        args->has_segment = tool_setting("GLOBAL_SEGMENT_SIZE") != NULL;
        if (!setting_size(args, "GLOBAL_SEGMENT_SIZE", &args->segment_bytes)) {
            return false;
        }
    }
    if (!args->local_buffer_bytes &&
        !setting_size(args, "LOCAL_BUFFER_SIZE", &args->local_buffer_bytes)) {
        return false;
    }
    if (!args->protocol) {
        args->protocol = tool_setting("PROTOCOL");
    }
    if (!args->metadata_server) {
        args->metadata_server = tool_setting("TE_META_DATA_SERVER");
    }
    if (!args->host) {
        args->host = tool_setting("LOCAL_HOSTNAME");
    }
    if (setting_is_on("OFFLOAD_ENABLED")) {
        tool_say(args->command,
                 "MOONCAKE_OFFLOAD_ENABLED: known, not built yet");
    }
    args->with_http |=
        args->has_http_port || setting_is_on("ENABLE_CLIENT_HTTP_SERVER");
    if (!args->has_http_port) {
        const char *port = tool_setting("CLIENT_HTTP_PORT");
        args->http_port = TOOL_HTTP_PORT_DEFAULT;
        if (port &&
            !tool_number_parse(port, UINT16_MAX - 1, &args->http_port)) {
            (void)tool_fail(args->command,
                            "MOONCAKE_CLIENT_HTTP_PORT: %s is no port", port);
            return false;
        }
    }
    return true;
}

/* "host" or "host:port"; an address that stands for all of them is not one that
 * others could reach. */
static void hostname_make(const struct tool_args *args,
                          char hostname[HOSTNAME_MAX])
{
    const char *host = args->host;
    if (!host || !host[0] || strcmp(host, "0.0.0.0") == 0 ||
        strcmp(host, "::") == 0 || strcmp(host, "[::]") == 0) {
        host = "127.0.0.1";
    }
    if (args->has_port && args->port != 0) {
        (void)snprintf(hostname, HOSTNAME_MAX, "%s:%" PRIu64, host, args->port);
    } else {
        (void)snprintf(hostname, HOSTNAME_MAX, "%s", host);
    }
}

static enum mc_err open_client(const struct tool_args *args,
                               struct mc_client **client_out)
{
    char hostname[HOSTNAME_MAX];
    struct mc_tls_opts tls;
    struct mc_client_opts opts;
    tool_client_opts(args, &tls, &opts);
    hostname_make(args, hostname);
    opts.local_hostname = hostname;
    opts.metadata_server = args->metadata_server;
    opts.no_prefault = args->no_prefault;
    if (args->protocol) {
        opts.protocol = args->protocol;
    }
    if (args->local_buffer_bytes) {
        opts.local_buffer_bytes = args->local_buffer_bytes;
    }
    opts.with_http = args->with_http;
    opts.http_port = args->http_port ? (uint16_t)args->http_port : MC_HTTP_ANY;
    return mc_client_open(&opts, client_out);
}

/* Says what a person would ask about, when it changes. */
static void watch(const struct tool_args *args, struct mc_client *client)
{
    static const char *const states[] = {
        "known to the master again",
        "the master does not know this process now",
        "the master cannot be reached"};
    int health = 0;
    while (!tool_stop_wait(WATCH_MS)) {
        int now = mc_client_health(client);
        if (now != health && now >= 0 && now <= 2) {
            tool_say(args->command, "%s: %s", args->master, states[now]);
            health = now;
        }
    }
}

/* What the master calls it. A master that goes at this very moment has it mounted
 * again soon. */
static enum mc_err lend(const struct tool_args *args, struct mc_client *client,
                        uint32_t *number_out)
{
    uint32_t segment = 0;
    uint64_t bytes;
    enum mc_err err = mc_client_allocate_and_mount_segment(
        client, args->segment_bytes, &segment, &bytes);
    if (err != MC_OK) {
        return err;
    }
    do {
        err = mc_client_segment_number(client, segment, number_out);
    } while (err == MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS &&
             !tool_stop_wait(MOUNTED_MS));
    return err;
}

static int serve(const struct tool_args *args, struct mc_client *client)
{
    uint32_t segment = 0;
    enum mc_err err = lend(args, client, &segment);
    if (err != MC_OK) {
        return tool_fail(args->command, "segment of %" PRIu64 " bytes: %s (%d)",
                         args->segment_bytes, mc_err_text(err), (int)err);
    }
    printf("ready segment=%" PRIu32 " endpoint=%s", segment,
           mc_client_hostname(client));
    if (args->with_http) {
        printf(" http=%u", (unsigned)mc_client_http_port(client));
    }
    printf("\n");
    int code = tool_flush(args->command);
    if (code == TOOL_DONE) {
        watch(args, client);
    }
    return code;
}

static int run(const struct tool_args *given)
{
    struct tool_args args = *given;
    struct mc_client *client = NULL;
    if (!fill_in(&args)) {
        return TOOL_FAILED;
    }
    if (!args.has_segment || args.segment_bytes == 0) {
        return tool_wrong_use(args.command,
                              "--segment: how much memory to lend is missing");
    }
    if (strcmp(args.master, "embedded") == 0) {
        return tool_wrong_use(args.command,
                              "--master embedded: nobody could reach it");
    }
    tool_stop_catch();
    enum mc_err err = open_client(&args, &client);
    if (err == MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS) {
        char hostname[HOSTNAME_MAX];
        hostname_make(&args, hostname);
        return tool_fail(args.command, "--%s %s: the port is taken (%d)",
                         args.has_port ? "port" : "host", hostname, (int)err);
    }
    if (err != MC_OK) {
        return tool_fail(args.command, "master %s: %s (%d)", args.master,
                         mc_err_text(err), (int)err);
    }
    int code = serve(&args, client);
    mc_client_close(client);
    return code;
}

const struct tool_command tool_serve = {
    .name = "serve",
    .operands = "",
    .options = TOOL_MASTER | TOOL_SERVE,
    .summary = "lends memory to a store until it is told to end",
    .explanation =
        "Prints one line when its memory can be used:\n"
        "  ready segment=ID endpoint=HOST:PORT\n"
        "ID is what the pages of the master call its memory. SIGTERM or SIGINT "
        "takes the\nmemory back and ends it with 0. Settings that are not "
        "given are taken from\nMOONCAKE_GLOBAL_SEGMENT_SIZE, "
        "_LOCAL_HOSTNAME, _MASTER, _TENANT_ID, _PROTOCOL,\n"
        "_TE_META_DATA_SERVER, _LOCAL_BUFFER_SIZE, "
        "_ENABLE_CLIENT_HTTP_SERVER,\n_CLIENT_HTTP_PORT, or the file that "
        "MOONCAKE_CONFIG_PATH names.",
    .example = "mc-store serve --segment 4GB --host 10.0.0.2",
    .run = run,
};
