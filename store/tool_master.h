/* SPDX-License-Identifier: Apache-2.0 */
/* tool_master.h - what mc-master was told on its command line.
 *
 * Flags come from a config file, flag files and the command line; the later
 * word counts, and the command line is the last. Each flag is a row of a table:
 * its name, what it takes, where it goes. Flags that the original has and we do
 * not are rows too, so that launchers keep working: they are named in a warning.
 * Threads: the main thread only.
 */
#ifndef TOOL_MASTER_H
#define TOOL_MASTER_H
#include "mc_master.h"

struct master_settings {
    const char *rpc_address;
    const char *rpc_interface;
    uint64_t rpc_port;
    uint64_t rpc_threads;
    uint64_t rpc_idle_ms;
    bool no_delay;
    const char *metrics_host;
    uint64_t metrics_port;
    uint64_t lease_ms;
    uint64_t exist_lease_ms;
    bool has_exist_lease;
    uint64_t soft_pin_ms;
    uint64_t max_soft_pin_ms;
    bool evict_soft_pinned;
    double eviction_ratio;
    double high_watermark;
    uint64_t client_ttl_ms;
    uint64_t discard_ms;
    uint64_t release_ms;
    const char *memory_allocator;
    const char *allocation_strategy;
    bool with_metadata;
    const char *metadata_host;
    uint64_t metadata_port;
    bool metadata_cleanup;
    bool with_events;
    bool has_heartbeat;
    struct mc_publisher_opts events;
    bool legacy_compat;
    bool object_key;
    bool extra_fields;
    uint64_t queue_capacity;
    uint64_t history_batches;
    uint64_t block_size;
    uint64_t dp_rank;
    const char *overflow;
    const char *replay_layout;
    const char *token_ids;
    bool with_tenants;
    const char *quota_type;
    const char *quota_uri;
    uint64_t segment_bytes;
    const char *segment_host;
    struct mc_tls_opts tls;
};

/* Reads argv, config file and flag files. Returns 0 with *settings_out filled;
 * else an exit code, after a line on stderr. *is_shown_out: --help or --version
 * was answered. Strings live until the process ends. */
int tool_master_read(int argc, char **argv,
                     struct master_settings *settings_out, bool *is_shown_out);

/* ---- between its files --------------------------------------------------- */

struct flag; /* a row of the table, tool_master_flags.c */

/* By a name of len bytes, with dashes or underscores. "noNAME" of a switch finds
 * the switch: *is_no_out. NULL: there is none. */
const struct flag *tool_flag_find(const char *name, size_t len,
                                  bool *is_no_out);
bool tool_flag_is_switch(const struct flag *flag);
/* "true", "0"...: what a switch takes. */
bool tool_flag_is_bool(const char *text, bool *value_out);
/* value NULL: a switch on its own. where: what names it in messages, "--" or a
 * file's name and a colon. Returns an exit code. */
int tool_flag_set(const struct flag *flag, const char *value, bool is_no,
                  const char *where, struct master_settings *settings);
/* "--NAME=VALUE" or "NAME=VALUE" or the name alone with value apart (NULL: not
 * given). */
int tool_flag_set_text(const char *text, const char *value, const char *where,
                       struct master_settings *settings);
/* A copy that lives until the process ends; NULL after a line on stderr. */
const char *tool_keep(const char *text);
void tool_flag_defaults(struct master_settings *settings);
void tool_flag_print_all(void);

/* A flag file (one flag a line) and a JSON config (an object). Exit codes. */
int tool_master_flagfile(const char *path, unsigned depth,
                         struct master_settings *settings);
int tool_master_config(const char *path, struct master_settings *settings);

/* Turns settings into options; checks what several say together. Returns an
 * exit code. Strings are borrowed from settings. */
int tool_master_opts(const struct master_settings *settings,
                     struct mc_master_opts *opts_out);

/* Prints "mc-master: ..." on stderr. */
void tool_master_say(const char *fmt, ...)
    __attribute__((format(printf, 1, 2)));
#endif
