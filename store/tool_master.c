/* SPDX-License-Identifier: Apache-2.0 */
/* mc-master: flags in, one line out when all is bound, and then it waits to be
 * told to end.
 */
#include "tool_master.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Within this everything is closed, or what is left is left. */
#define STOP_S 2

void tool_master_say(const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    (void)fprintf(stderr, "mc-master: %s\n", text);
}

/* ---- failures --------------------------------------------------------------------- */

struct failure {
    const char *what; /* of mc_master_open */
    const char *flag;
    const char *value; /* as given, NULL: none */
};

static uint64_t port_of(const struct master_settings *settings,
                        const char *what)
{
    return strcmp(what, "rpc") == 0     ? settings->rpc_port
           : strcmp(what, "admin") == 0 ? settings->metrics_port
                                        : settings->metadata_port;
}

static int fail_open(const struct master_settings *settings, enum mc_err err,
                     const char *what)
{
    static const struct failure ports[] = {
        {"rpc", "rpc_port", NULL},
        {"admin", "metrics_port", NULL},
        {"metadata", "http_metadata_server_port", NULL}};
    const struct failure others[] = {
        {"events", "kv_events_bind_endpoint", settings->events.bind_endpoint},
        {"recovery", "kv_events_replay_endpoint",
         settings->events.replay_endpoint},
        {"tenant_quota_file", "tenant_quota_connector_uri",
         settings->quota_uri},
        {"tls", "tls_cert, --tls_key, --tls_ca", NULL}};
    for (size_t i = 0; i < sizeof ports / sizeof ports[0]; i++) {
        if (strcmp(ports[i].what, what) == 0) {
            tool_master_say("--%s %ju: %s (%d)", ports[i].flag,
                            (uintmax_t)port_of(settings, what),
                            err == MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS
                                ? "the port is taken"
                                : mc_err_text(err),
                            err);
            return 1;
        }
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strcmp(others[i].what, what) == 0) {
            tool_master_say(
                "--%s%s%s: %s (%d)", others[i].flag, others[i].value ? " " : "",
                others[i].value ? others[i].value : "", mc_err_text(err), err);
            return 1;
        }
    }
    tool_master_say("%s: %s (%d)", what, mc_err_text(err), err);
    return 1;
}

/* ---- running ---------------------------------------------------------------------- */

static const char *or_dash(const char *text)
{
    return text[0] ? text : "-";
}

static int say_ready(const struct mc_master_bound *bound)
{
    printf("ready rpc=%s admin=%s metadata=%s events=%s recovery=%s "
           "epoch=%016jx\n",
           bound->rpc, or_dash(bound->admin), or_dash(bound->metadata),
           or_dash(bound->events), or_dash(bound->recovery),
           (uintmax_t)bound->epoch);
    if (fflush(stdout) != 0 && errno != EPIPE) {
        tool_master_say("stdout: %s", strerror(errno));
        return 1;
    }
    return 0;
}

/* The memory that this process lends itself. */
static int open_segment(const struct master_settings *settings,
                        const struct mc_master_opts *opts,
                        const struct mc_master_bound *bound,
                        struct mc_client **client_out)
{
    char address[320];
    const char *port = strrchr(bound->rpc, ':');
    const char *host = opts->rpc_address ? opts->rpc_address : "127.0.0.1";
    if (settings->segment_bytes == 0) {
        return 0;
    }
    (void)snprintf(address, sizeof address,
                   strchr(host, ':') ? "[%s]%s" : "%s%s", host,
                   port ? port : "");
    const struct mc_client_opts client = {
        .master = address,
        .segment_bytes = settings->segment_bytes,
        .local_hostname =
            settings->segment_host ? settings->segment_host : host,
        .local_buffer_bytes = MC_NONE,
        .tls = opts->tls};
    enum mc_err err = mc_client_open(&client, client_out);
    if (err != MC_OK) {
        tool_master_say("--segment: %s (%d)", mc_err_text(err), err);
        return 1;
    }
    return 0;
}

static void end_at_once(int number)
{
    static const char text[] = "mc-master: not everything could be closed in "
                               "time\n";
    ssize_t written = write(STDERR_FILENO, text, sizeof text - 1);
    (void)written;
    (void)number;
    _exit(0);
}

/* Signals are seen here alone: they were blocked before any thread was made. */
static void wait_for_end(const sigset_t *ends)
{
    int number = 0;
    while (sigwait(ends, &number) != 0) {
    }
}

static void limit_the_end(void)
{
    sigset_t alarm_only;
    (void)sigemptyset(&alarm_only);
    (void)sigaddset(&alarm_only, SIGALRM);
    (void)signal(SIGALRM, end_at_once);
    (void)pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
    (void)alarm(STOP_S);
}

static int run(const struct master_settings *settings, const sigset_t *ends)
{
    struct mc_master_opts opts;
    struct mc_master *master = NULL;
    struct mc_client *client = NULL;
    struct mc_master_bound bound;
    const char *what = "memory";
    int code = tool_master_opts(settings, &opts);
    if (code != 0) {
        return code;
    }
    enum mc_err err = mc_master_open(&opts, &master, &what);
    if (err != MC_OK) {
        return fail_open(settings, err, what);
    }
    mc_master_bound(master, &bound);
    code = open_segment(settings, &opts, &bound, &client);
    if (code == 0) {
        code = say_ready(&bound);
    }
    if (code == 0) {
        wait_for_end(ends);
    }
    limit_the_end();
    mc_client_close(client);
    mc_master_close(master);
    return code;
}

int main(int argc, char **argv)
{
    static struct master_settings settings;
    sigset_t ends;
    bool is_shown = false;
    (void)sigemptyset(&ends);
    (void)sigaddset(&ends, SIGTERM);
    (void)sigaddset(&ends, SIGINT);
    (void)pthread_sigmask(SIG_BLOCK, &ends, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    int code = tool_master_read(argc, argv, &settings, &is_shown);
    if (code != 0 || is_shown) {
        return code;
    }
    return run(&settings, &ends);
}
