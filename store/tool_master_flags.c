/* SPDX-License-Identifier: Apache-2.0 */
/* The table of flags. A bare number has the unit that the flag has always had;
 * flags that are ours alone want a suffix.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "mci_tool.h"
#include "tool_master.h"

enum flag_kind {
    TEXT,
    SWITCH,
    COUNT,
    PORT,
    RATIO,       /* above 0, at most 1 */
    MS,          /* duration; a bare number is ms */
    SECONDS,     /* duration; a bare number is s */
    DURATION,    /* a bare number is refused */
    SIZE,        /* a bare number is refused */
    NOT_BUILT,   /* takes a value */
    NOT_BUILT_ON /* a switch */
};

struct flag {
    const char *name;
    enum flag_kind kind;
    size_t at;           /* of its field */
    const char *initial; /* as one would write it; NULL: none */
    const char *text;    /* NULL: another name of the row before it */
};

#define AT(field) offsetof(struct master_settings, field)

/* NOT_BUILT rows: what is asked for when `initial` is given is nothing. */
static const struct flag flags[] = {
    {"rpc_port", PORT, AT(rpc_port), "50051",
     "port for clients, 0: a free one"},
    {"port", PORT, AT(rpc_port), NULL, NULL},
    {"rpc_address", TEXT, AT(rpc_address), NULL, "address to bind (any)"},
    {"rpc_interface", TEXT, AT(rpc_interface), NULL,
     "bind to the address of this network interface"},
    {"rpc_thread_num", COUNT, AT(rpc_threads), "0",
     "threads for clients, 0: as many as cores, at most 4"},
    {"max_threads", COUNT, AT(rpc_threads), NULL, NULL},
    {"rpc_conn_timeout_seconds", SECONDS, AT(rpc_idle_ms), "0",
     "close idle connections after this, 0: never"},
    {"rpc_enable_tcp_no_delay", SWITCH, AT(no_delay), "true",
     "small messages go at once"},
    {"metrics_port", PORT, AT(metrics_port), "9003",
     "port of the admin pages, 0: a free one"},
    {"metrics_host", TEXT, AT(metrics_host), NULL,
     "address of the admin pages (any)"},
    {"default_kv_lease_ttl", MS, AT(lease_ms), "10s", "lease of a read"},
    {"exist_lease_ttl", DURATION, AT(exist_lease_ms), NULL,
     "lease of a question, 0: none (the read lease)"},
    {"default_kv_soft_pin_ttl", MS, AT(soft_pin_ms), "30m",
     "how long a soft pin holds"},
    {"max_kv_soft_pin_ttl", MS, AT(max_soft_pin_ms), "24h",
     "the longest that may be asked for"},
    {"allow_evict_soft_pinned_objects", SWITCH, AT(evict_soft_pinned), "true",
     "soft pinned objects go when nothing else can"},
    {"eviction_ratio", RATIO, AT(eviction_ratio), "0.05",
     "share freed beyond the mark"},
    {"eviction_high_watermark_ratio", RATIO, AT(high_watermark), "0.90",
     "share in use from which eviction begins"},
    {"client_ttl", SECONDS, AT(client_ttl_ms), "10s",
     "a client silent for so long is expired"},
    {"put_start_discard_timeout_sec", SECONDS, AT(discard_ms), "30s",
     "kept for its check only: living writers are never preempted"},
    {"put_start_release_timeout_sec", SECONDS, AT(release_ms), "600s",
     "an idle write is closed after this"},
    {"memory_allocator", TEXT, AT(memory_allocator), "offset", "offset"},
    {"allocation_strategy", TEXT, AT(allocation_strategy), "random",
     "random, free_ratio_first or local_first"},
    {"enable_http_metadata_server", SWITCH, AT(with_metadata), "false",
     "serve /metadata"},
    {"http_metadata_server_host", TEXT, AT(metadata_host), NULL,
     "its address (any)"},
    {"http_metadata_server_port", PORT, AT(metadata_port), "8080",
     "its port, 0: a free one"},
    {"enable_metadata_cleanup_on_timeout", SWITCH, AT(metadata_cleanup),
     "false", "drop the keys of expired clients"},
    {"enable_kv_events", SWITCH, AT(with_events), "false", "publish events"},
    {"kv_events_bind_endpoint", TEXT, AT(events.bind_endpoint), NULL,
     "where, such as tcp://*:5557"},
    {"kv_events_backend_id", TEXT, AT(events.backend_id), NULL,
     "the name of this store in its events"},
    {"kv_events_emit_legacy_compat", SWITCH, AT(legacy_compat), "true",
     "fields that older readers want"},
    {"kv_events_emit_object_key", SWITCH, AT(object_key), "true",
     "the key of an event"},
    {"kv_events_queue_capacity", COUNT, AT(queue_capacity), "65536",
     "events that may wait, 0: 65536"},
    {"kv_events_model_name", TEXT, AT(events.model_name), NULL,
     "stamped on events"},
    {"kv_events_additional_salt", TEXT, AT(events.additional_salt), NULL,
     "stamped on events"},
    {"kv_events_lora_name", TEXT, AT(events.lora_name), NULL,
     "stamped on events"},
    {"kv_events_block_size", COUNT, AT(block_size), "0", "stamped on events"},
    {"kv_events_dp_rank", COUNT, AT(dp_rank), "0", "stamped on events"},
    {"kv_events_replay_endpoint", TEXT, AT(events.replay_endpoint), NULL,
     "the recovery server"},
    {"kv_events_heartbeat", DURATION, AT(events.heartbeat_ms), NULL,
     "silence after which an empty message is sent, 0: off (1s with a "
     "recovery server)"},
    {"kv_events_overflow", TEXT, AT(overflow), "drop_oldest",
     "drop_oldest or block"},
    {"kv_events_history", COUNT, AT(history_batches), "65536",
     "messages kept for replay"},
    {"kv_events_history_bytes", SIZE, AT(events.history_bytes), "256MB",
     "their payload"},
    {"kv_events_replay_layout", TEXT, AT(replay_layout), "4",
     "frames of a replay answer, 4 or 3"},
    {"kv_events_hwm_bytes", SIZE, AT(events.hwm_bytes), "64MB",
     "what one slow subscriber may hold"},
    {"kv_events_topic", TEXT, AT(events.topic), NULL, "the first frame"},
    {"kv_events_extra_fields", SWITCH, AT(extra_fields), "true",
     "epoch, and session_id on removed and cleared"},
    {"kv_events_emit_seq_hashes", SWITCH, AT(events.emit_seq_hashes), "false",
     "hashes from keys that are numbers"},
    {"kv_events_legacy_token_ids", TEXT, AT(token_ids), "nil", "nil or empty"},
    {"kv_events_sequence_epoch", SWITCH, AT(events.sequence_epoch), "false",
     "numbers begin at the time of the start"},
    {"enable_multi_tenants", SWITCH, AT(with_tenants), "false",
     "tenants other than \"default\""},
    {"tenant_quota_connector_type", TEXT, AT(quota_type), "file", "file"},
    {"tenant_quota_connector_uri", TEXT, AT(quota_uri), NULL,
     "a JSON file of quotas"},
    {"segment", SIZE, AT(segment_bytes), "0",
     "lend memory from this process too"},
    {"segment_host", TEXT, AT(segment_host), NULL,
     "by which others reach it (rpc_address, or 127.0.0.1)"},
    {"tls_cert", TEXT, AT(tls.cert_file), NULL, "certificate of this side"},
    {"tls_key", TEXT, AT(tls.key_file), NULL, "its key"},
    {"tls_ca", TEXT, AT(tls.ca_file), NULL, "whom to believe"},
    {"curve_server_key_file", TEXT, AT(events.curve_server_key_file), NULL,
     "key pair of the event socket"},
    {"curve_allowed_keys_file", TEXT, AT(events.curve_allowed_keys_file), NULL,
     "public keys of those who may listen, one a line"},

    {"enable_metric_reporting", NOT_BUILT_ON, 0, "true", NULL},
    {"nof_eviction_ratio", NOT_BUILT, 0, "0.05", NULL},
    {"nof_eviction_high_watermark_ratio", NOT_BUILT, 0, "0.90", NULL},
    {"nof_heartbeat_interval_sec", NOT_BUILT, 0, "10", NULL},
    {"nof_heartbeat_probe_timeout_ms", NOT_BUILT, 0, "1000", NULL},
    {"nof_heartbeat_failures_threshold", NOT_BUILT, 0, "3", NULL},
    {"max_total_finished_tasks", NOT_BUILT, 0, "10000", NULL},
    {"max_total_pending_tasks", NOT_BUILT, 0, "10000", NULL},
    {"max_total_processing_tasks", NOT_BUILT, 0, "10000", NULL},
    {"pending_task_timeout_sec", NOT_BUILT, 0, "300", NULL},
    {"processing_task_timeout_sec", NOT_BUILT, 0, "300", NULL},
    {"max_retry_attempts", NOT_BUILT, 0, "10", NULL},
    {"enable_offload", NOT_BUILT_ON, 0, "false", NULL},
    {"offload_on_evict", NOT_BUILT_ON, 0, "false", NULL},
    {"offload_force_evict", NOT_BUILT_ON, 0, "false", NULL},
    {"offloading_queue_limit", NOT_BUILT, 0, "50000", NULL},
    {"offload_cap_ratio", NOT_BUILT, 0, "0.5", NULL},
    {"promotion_on_hit", NOT_BUILT_ON, 0, "false", NULL},
    {"promotion_admission_threshold", NOT_BUILT, 0, "2", NULL},
    {"promotion_queue_limit", NOT_BUILT, 0, "50000", NULL},
    {"promotion_max_per_heartbeat", NOT_BUILT, 0, "1", NULL},
    {"dynamic_replication_mode", NOT_BUILT, 0, "off", NULL},
    {"dynamic_replication_heat_window_seconds", NOT_BUILT, 0, "10", NULL},
    {"dynamic_replication_admission_qps_threshold", NOT_BUILT, 0, "0.8", NULL},
    {"dynamic_replication_max_memory_replicas", NOT_BUILT, 0, "2", NULL},
    {"root_fs_dir", NOT_BUILT, 0, "", NULL},
    {"global_file_segment_size", NOT_BUILT, 0, "", NULL},
    {"enable_disk_eviction", NOT_BUILT_ON, 0, "true", NULL},
    {"quota_bytes", NOT_BUILT, 0, "0", NULL},
    {"enable_ha", NOT_BUILT_ON, 0, "false", NULL},
    {"ha_backend_type", NOT_BUILT, 0, "etcd", NULL},
    {"ha_backend_connstring", NOT_BUILT, 0, "", NULL},
    {"etcd_endpoints", NOT_BUILT, 0, "", NULL},
    {"cluster_id", NOT_BUILT, 0, "mooncake_cluster", NULL},
    {"enable_oplog", NOT_BUILT_ON, 0, "false", NULL},
    {"oplog_poll_interval_ms", NOT_BUILT, 0, "1000", NULL},
    {"oplog_batch_max_entries", NOT_BUILT, 0, "1024", NULL},
    {"batch_oplog_retry_timeout_sec", NOT_BUILT, 0, "180", NULL},
    {"enable_snapshot", NOT_BUILT_ON, 0, "false", NULL},
    {"snapshot_interval_seconds", NOT_BUILT, 0, "600", NULL},
    {"snapshot_child_timeout_seconds", NOT_BUILT, 0, "300", NULL},
    {"snapshot_retention_count", NOT_BUILT, 0, "2", NULL},
    {"enable_snapshot_restore", NOT_BUILT_ON, 0, "false", NULL},
    {"snapshot_backup_dir", NOT_BUILT, 0, "", NULL},
    {"snapshot_object_store_type", NOT_BUILT, 0, "", NULL},
    {"snapshot_catalog_store_type", NOT_BUILT, 0, "", NULL},
    {"snapshot_catalog_store_connstring", NOT_BUILT, 0, "", NULL},
    {"pod_name", NOT_BUILT, 0, "", NULL},
    {"pod_namespace", NOT_BUILT, 0, "", NULL},
    {"enable_cxl", NOT_BUILT_ON, 0, "false", NULL},
    {"cxl_path", NOT_BUILT, 0, "/dev/dax0.0", NULL},
    {"cxl_size", NOT_BUILT, 0, "", NULL},
    {"logtostderr", NOT_BUILT_ON, 0, "true", NULL},
    {"alsologtostderr", NOT_BUILT_ON, 0, "true", NULL},
    {"v", NOT_BUILT, 0, "0", NULL},
    {"minloglevel", NOT_BUILT, 0, "0", NULL},
    {"stderrthreshold", NOT_BUILT, 0, "", NULL},
    {"log_dir", NOT_BUILT, 0, "", NULL},
};
#define FLAG_COUNT (sizeof flags / sizeof flags[0])

/* ---- finding -------------------------------------------------------------------- */

static const struct flag *find(const char *name, size_t len)
{
    for (size_t i = 0; i < FLAG_COUNT; i++) {
        if (tool_name_is(flags[i].name, name, len)) {
            return &flags[i];
        }
    }
    return NULL;
}

bool tool_flag_is_switch(const struct flag *flag)
{
    return flag->kind == SWITCH || flag->kind == NOT_BUILT_ON;
}

const struct flag *tool_flag_find(const char *name, size_t len, bool *is_no_out)
{
    const struct flag *flag = find(name, len);
    *is_no_out = false;
    if (!flag && len > 2 && strncmp(name, "no", 2) == 0) {
        size_t skip = len > 3 && (name[2] == '-' || name[2] == '_') ? 3 : 2;
        flag = find(name + skip, len - skip);
        *is_no_out = true;
        if (flag && !tool_flag_is_switch(flag)) {
            return NULL;
        }
    }
    return flag;
}

/* ---- values ---------------------------------------------------------------------- */

bool tool_flag_is_bool(const char *text, bool *value_out)
{
    static const char *const words[] = {"false", "true", "0",  "1", "no",
                                        "yes",   "off",  "on", "f", "t"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcasecmp(text, words[i]) == 0) {
            *value_out = i % 2 == 1;
            return true;
        }
    }
    return false;
}

/* A space may stand before the suffix. */
static bool parse_number(const char *text, double *number_out,
                         const char **suffix_out)
{
    const char *rest;
    if (!tool_decimal_parse(text, number_out, &rest)) {
        return false;
    }
    *suffix_out = rest + (rest[0] == ' ' && rest[1] != '\0');
    return true;
}

struct unit {
    const char *suffix;
    uint64_t factor;
};

/* bare: what a number without suffix counts, 0: refused but for 0 itself. */
static bool parse_with_unit(const char *text, const struct unit *units,
                            uint64_t bare, uint64_t *out)
{
    double number;
    const char *suffix;
    if (!parse_number(text, &number, &suffix)) {
        return false;
    }
    uint64_t factor = bare;
    if (suffix[0] == '\0' && bare == 0) {
        factor = 1;
        if (number > 0) {
            return false;
        }
    }
    for (; suffix[0] != '\0' && units->suffix; units++) {
        if (strcasecmp(suffix, units->suffix) == 0) {
            factor = units->factor;
            suffix += strlen(suffix);
        }
    }
    double product = number * (double)factor;
    if (suffix[0] != '\0' || product > 9e15) {
        return false;
    }
    *out = (uint64_t)(product + 0.5);
    return true;
}

static const struct unit durations[] = {{"ms", 1},      {"s", 1000},
                                        {"m", 60000},   {"min", 60000},
                                        {"h", 3600000}, {NULL, 0}};
static const struct unit sizes[] = {{"B", 1},
                                    {"KB", 1 << 10},
                                    {"MB", 1 << 20},
                                    {"GB", UINT64_C(1) << 30},
                                    {"K", 1 << 10},
                                    {"M", 1 << 20},
                                    {"G", UINT64_C(1) << 30},
                                    {"TB", UINT64_C(1) << 40},
                                    {NULL, 0}};

static bool parse_ratio(const char *text, double *ratio_out)
{
    double number;
    const char *suffix;
    if (!parse_number(text, &number, &suffix) || suffix[0] != '\0' ||
        number <= 0 || number > 1) {
        return false;
    }
    *ratio_out = number;
    return true;
}

/* What a kind wants, for the message that refuses something else. */
static const char *wanted(enum flag_kind kind)
{
    switch (kind) {
    case SWITCH:
    case NOT_BUILT_ON:
        return "true or false";
    case PORT:
        return "a port from 0 to 65535";
    case RATIO:
        return "a number above 0 and at most 1";
    case MS:
        return "a number of ms, or with ms, s, m or h";
    case SECONDS:
        return "a number of seconds, or with ms, s, m or h";
    case DURATION:
        return "0, or a number with ms, s, m or h";
    case SIZE:
        return "0, or a number with KB, MB or GB";
    default:
        return "a whole number";
    }
}

static bool store(const struct flag *flag, const char *value,
                  struct master_settings *settings)
{
    char *at = (char *)settings + flag->at;
    uint64_t *number = (uint64_t *)(void *)at;
    switch (flag->kind) {
    case TEXT:
        *(const char **)(void *)at = value;
        return true;
    case SWITCH:
        return tool_flag_is_bool(value, (bool *)at);
    case COUNT:
        return tool_number_parse(value, UINT32_MAX, number);
    case PORT:
        return tool_number_parse(value, UINT16_MAX, number);
    case RATIO:
        return parse_ratio(value, (double *)(void *)at);
    case MS:
        return parse_with_unit(value, durations, 1, number);
    case SECONDS:
        return parse_with_unit(value, durations, 1000, number);
    case DURATION:
        return parse_with_unit(value, durations, 0, number);
    case SIZE:
        return parse_with_unit(value, sizes, 0, number);
    case NOT_BUILT:
        return true;
    case NOT_BUILT_ON: {
        bool ignored;
        return tool_flag_is_bool(value, &ignored);
    }
    }
    return false;
}

static bool asks_for_nothing(const struct flag *flag, const char *value)
{
    bool is_on = false;
    bool was_on = false;
    if (flag->kind == NOT_BUILT_ON) {
        return tool_flag_is_bool(value, &is_on) &&
               tool_flag_is_bool(flag->initial, &was_on) &&
               (is_on == was_on || !is_on);
    }
    return strcmp(value, flag->initial) == 0 || value[0] == '\0';
}

int tool_flag_set(const struct flag *flag, const char *value, bool is_no,
                  const char *where, struct master_settings *settings)
{
    if (is_no && value) {
        tool_master_say("%sno%s: takes no value", where, flag->name);
        return 2;
    }
    if (!value) {
        value = is_no ? "false" : "true";
    }
    if (!store(flag, value, settings)) {
        tool_master_say("%s%s %s: is %s", where, flag->name, value,
                        wanted(flag->kind));
        return 2;
    }
    if ((flag->kind == NOT_BUILT || flag->kind == NOT_BUILT_ON) &&
        !asks_for_nothing(flag, value)) {
        tool_master_say("warning: %s%s: is known, but not built; it has no "
                        "effect",
                        where, flag->name);
    }
    if (flag->at == AT(exist_lease_ms)) {
        settings->has_exist_lease = true;
    }
    if (flag->at == AT(events.heartbeat_ms)) {
        settings->has_heartbeat = true;
    }
    return 0;
}

void tool_flag_defaults(struct master_settings *settings)
{
    memset(settings, 0, sizeof *settings);
    for (size_t i = 0; i < FLAG_COUNT; i++) {
        const struct flag *flag = &flags[i];
        if (flag->initial && flag->text) {
            (void)store(flag, flag->initial, settings);
        }
    }
}

void tool_flag_print_all(void)
{
    static const char *const takes[] = {"TEXT", "BOOL", "N", "PORT", "RATIO",
                                        "D",    "D",    "D", "SIZE"};
    for (size_t i = 0; i < FLAG_COUNT; i++) {
        const struct flag *flag = &flags[i];
        char left[64];
        if (!flag->text) {
            continue;
        }
        (void)snprintf(left, sizeof left, "--%s %s", flag->name,
                       takes[flag->kind]);
        printf("  %-42s %s%s%s%s\n", left, flag->text,
               flag->initial ? " (" : "", flag->initial ? flag->initial : "",
               flag->initial ? ")" : "");
    }
}
