/* SPDX-License-Identifier: Apache-2.0 */
/* mc-store: finds the subcommand and runs it. Under the name mooncake_client it
 * is its own serve, with the flags that launchers of stores use. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tool_store.h"

static const struct tool_command *const commands[] = {
    &tool_serve, &tool_put,   &tool_put_many, &tool_get,
    &tool_exist, &tool_probe, &tool_ls,       &tool_rm,
    &tool_clear, &tool_stat,  &tool_bench,    &tool_keygen,
};

static const struct tool_program program = {
    .name = "mc-store",
    .version = MC_VERSION,
    .commands = commands,
    .command_count = sizeof commands / sizeof commands[0],
    .command_column = 9,
    .usage = "[OPTIONS] [OPERANDS]",
    .summary = "Lends memory to a store, and stores, loads, lists and removes "
               "its objects.",
    .example = "mc-store put block-7 block.bin --session s1",
    .options = tool_options,
    .option_column = 22,
    .count_max = UINT32_MAX,
    .duration_ms_max = UINT32_MAX};

static const struct tool_program launched = {
    .name = "mooncake_client", .version = MC_VERSION, .is_single = true};

/* ---- signals ----------------------------------------------------------- */

static sigset_t stop_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    return set;
}

void tool_stop_catch(void)
{
    sigset_t set = stop_signals();
    sigprocmask(SIG_BLOCK, &set, NULL);
}

bool tool_stop_wait(uint64_t timeout_ms)
{
    sigset_t set = stop_signals();
    struct timespec timeout = {
        .tv_sec = (time_t)(timeout_ms / 1000),
        .tv_nsec = (long)(timeout_ms % 1000) * 1000000,
    };
    return sigtimedwait(&set, NULL, &timeout) > 0;
}

/* ---- the client -------------------------------------------------------- */

void tool_client_opts(const struct tool_args *args, struct mc_tls_opts *tls,
                      struct mc_client_opts *opts_out)
{
    bool is_rdma = args->transport && strcmp(args->transport, "rdma") == 0;
    *opts_out = (struct mc_client_opts){
        .master = args->master,
        .tenant = args->tenant,
        .any_memory = true,
        .timeout_ms = (uint32_t)args->timeout_ms,
        .transfer_timeout_ms = (uint32_t)args->timeout_ms,
        .segment_bytes = MC_NONE,
        .local_buffer_bytes = MC_NONE,
        .protocol = is_rdma ? "rdma" : NULL,
        .transport = is_rdma ? NULL : args->transport,
    };
    if (args->tls_cert) {
        *tls = (struct mc_tls_opts){.cert_file = args->tls_cert,
                                    .key_file = args->tls_key,
                                    .ca_file = args->tls_ca};
        opts_out->tls = tls;
    }
}

struct mc_client *tool_client_open(const struct tool_args *args)
{
    struct mc_tls_opts tls;
    struct mc_client_opts opts;
    struct mc_client *client = NULL;
    tool_client_opts(args, &tls, &opts);
    if (strcmp(args->master, "embedded") == 0) {
        opts.segment_bytes = args->has_segment ? args->segment_bytes : 0;
        opts.store.enable_multi_tenants = args->tenant != NULL;
    }
    enum mc_err err = mc_client_open(&opts, &client);
    if (err != MC_OK) {
        (void)tool_fail(args->command, "master %s: %s (%d)", args->master,
                        mc_err_text(err), (int)err);
        return NULL;
    }
    return client;
}

/* ---- start ------------------------------------------------------------- */

static int run(const struct tool_command *command, int argc, char **argv,
               bool is_launched)
{
    struct tool_args args;
    bool is_shown = false;
    int code = TOOL_FAILED;
    if (tool_settings_load(command)) {
        code = is_launched
                   ? tool_flags_read(command, argc, argv, &args, &is_shown)
                   : tool_args_read(command, argc, argv, &args, &is_shown);
        if (code == TOOL_DONE && !is_shown) {
            code = command->run(&args);
        }
        free(args.operands);
    }
    tool_settings_free();
    int flushed = tool_flush(command);
    return code != TOOL_DONE ? code : flushed;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

int main(int argc, char **argv)
{
    int code = TOOL_DONE;
    signal(SIGPIPE, SIG_IGN); /* a write answers EPIPE, see tool_flush */
    if (argc > 0 && strcmp(base_name(argv[0]), "mooncake_client") == 0) {
        tool_begin(&launched);
        return run(&tool_serve, argc - 1, argv + 1, true);
    }
    tool_begin(&program);
    const struct tool_command *command = tool_command_find(argc, argv, &code);
    return command ? run(command, argc - 2, argv + 2, false) : code;
}
