/* SPDX-License-Identifier: Apache-2.0 */
/* tool_store.h - what the subcommands of mc-store share beyond mci_tool.h: their
 * arguments, the client, and what they print.
 *
 * Threads: the main thread only, but where it is said.
 */
#ifndef TOOL_STORE_H
#define TOOL_STORE_H
#include "mc_client.h"
#include "mci_tool.h"

/* Options by bit; what each one is called and takes stands in
 * tool_store_args.c. */
enum tool_option_bit {
    TOOL_MASTER = 1u << 0, /* --master --tenant --timeout --tls_* --transport */
    TOOL_JSON = 1u << 1,
    TOOL_SERVE = 1u << 2,
    TOOL_WRITE = 1u << 3, /* --replicas --soft-pin --hard-pin --upsert */
    TOOL_TAG = 1u << 4,   /* --session --group */
    TOOL_OUTPUT = 1u << 5,
    TOOL_FORCE = 1u << 6,
    TOOL_REGEX = 1u << 7,
    TOOL_LOAD = 1u << 8, /* of bench */
    TOOL_KEYGEN = 1u << 9
};

#define TOOL_MANY SIZE_MAX

extern const struct tool_option tool_options[]; /* the last: no name */

/* Arguments as given; NULL or 0: not given, unless it says otherwise. Strings
 * are borrowed from argv or the environment. */
struct tool_args {
    const struct tool_command *command;
    const char **operands;
    size_t operand_count;
    const char *master;
    const char *tenant;
    const char *transport;
    const char *tls_cert;
    const char *tls_key;
    const char *tls_ca;
    uint64_t timeout_ms;
    uint64_t segment_bytes;
    uint64_t local_buffer_bytes;
    const char *host;
    const char *metadata_server;
    const char *protocol;
    uint64_t port;
    uint64_t http_port;
    const char *session;
    const char *group;
    const char *output;
    const char *regex;
    const char *curve;
    const char *tls_dir;
    uint64_t replicas;
    uint64_t soft_pin_ms;
    uint64_t size_bytes;
    uint64_t count;
    uint64_t batch;
    uint64_t threads;
    bool has_soft_pin;
    bool has_segment;
    bool has_port;
    bool has_http_port;
    bool hard_pin;
    bool upsert;
    bool force;
    bool json;
    bool no_prefault;
    bool with_http;
};

#define TOOL_MASTER_DEFAULT "127.0.0.1:50051"
#define TOOL_HTTP_PORT_DEFAULT 9300

/* ---- arguments --------------------------------------------------------- */

/* Reads argv behind the name of the subcommand; the caller frees
 * args_out->operands, whatever it answers. Returns TOOL_DONE with *args_out
 * filled, or TOOL_WRONG_USE after a line on stderr. *is_shown_out: --help or
 * --version was asked for and has been answered. */
int tool_args_read(const struct tool_command *command, int argc, char **argv,
                   struct tool_args *args_out, bool *is_shown_out);
/* The same with the flags of mooncake_client: --name=value, -name=value, --name
 * value, --name and --noname. */
int tool_flags_read(const struct tool_command *command, int argc, char **argv,
                    struct tool_args *args_out, bool *is_shown_out);

/* What several options say together; fills in what the environment says. */
int tool_args_check(struct tool_args *args);

/* What the launchers of stores set: the value in the file that
 * MOONCAKE_CONFIG_PATH names, else of the variable MOONCAKE_<name>. NULL: neither.
 */
const char *tool_setting(const char *name);
/* Reads that file, if one is named. False after a line on stderr. */
bool tool_settings_load(const struct tool_command *command);
void tool_settings_free(void);

/* ---- the client -------------------------------------------------------- */

/* Opens a client that lends nothing, or a store inside this process with
 * --master embedded. NULL after a line on stderr. */
struct mc_client *tool_client_open(const struct tool_args *args);
/* What all subcommands with a master say to it. */
void tool_client_opts(const struct tool_args *args, struct mc_tls_opts *tls,
                      struct mc_client_opts *opts_out);

/* ---- words ------------------------------------------------------------- */

/* "mc-store: get: block-7: object not found (-704)"; `on` is shown safely. */
int tool_fail_on(const struct tool_command *command, struct mc_view on,
                 enum mc_err err);

/* To stdout; control characters and backslash as \xHH, "none" as "-". */
void tool_put_safe(struct mc_view text);
/* "KEY CODE", or as JSON. */
void tool_put_code(const struct tool_args *args, struct mc_view key,
                   int64_t code);
void tool_put_count(const struct tool_args *args, uint64_t removed);
/* "1.5 MB", powers of 1024; in text, which is returned. */
#define TOOL_SIZE_TEXT_LEN 32
const char *tool_size_text(uint64_t bytes, char text[TOOL_SIZE_TEXT_LEN]);

/* On stderr, if that is a terminal: "NAME: 120/1000", in place. At the end
 * once with is_done, which wipes it. */
void tool_progress(const struct tool_command *command, uint64_t done,
                   uint64_t of, bool is_done);

/* SIGINT and SIGTERM, blocked from then on in all threads, are waited for by
 * tool_stop_wait: true when one came, false after timeout_ms. */
void tool_stop_catch(void);
bool tool_stop_wait(uint64_t timeout_ms);

extern const struct tool_command tool_serve;
extern const struct tool_command tool_put;
extern const struct tool_command tool_put_many;
extern const struct tool_command tool_get;
extern const struct tool_command tool_exist;
extern const struct tool_command tool_probe;
extern const struct tool_command tool_ls;
extern const struct tool_command tool_rm;
extern const struct tool_command tool_clear;
extern const struct tool_command tool_stat;
extern const struct tool_command tool_bench;
extern const struct tool_command tool_keygen;
#endif
