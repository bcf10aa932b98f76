/* SPDX-License-Identifier: Apache-2.0 */
/* client_rig.c - see the header. */
#include "client_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mci_client.h"
#include "store_rig.h"

const char *client_link(void)
{
    const char *link = getenv("MC_CLIENT_LINK");
    bool is_remote = link && link[0] != '\0' && strcmp(link, "embedded") != 0;
    return is_remote ? link : NULL;
}

struct mc_client *client_join(struct client_rig *rig,
                              const struct mc_client_opts *opts)
{
    struct mc_client_opts given = *opts;
    struct mc_client *client = NULL;
    given.store = (struct mc_store_opts){.max_objects = 0};
    given.events = (struct mc_publisher_opts){.bind_endpoint = NULL};
    given.master = rig->process.address;
    given.transport = client_link();
    ck_assert_int_eq(mc_client_open(&given, &client), MC_OK);
    return client;
}

static void open_remote(struct client_rig *rig,
                        const struct mc_client_opts *opts)
{
    const struct process_rig_opts process = {
        .store = opts->store,
        .log_capacity = opts->events.queue_capacity,
        .overflow = opts->events.overflow,
        .expected_bytes = opts->segment_bytes};
    process_open(&rig->process, &process);
    struct mc_client_opts given = *opts;
    given.timeout_ms = 0; /* what is short is short for the tested one */
    rig->lender = client_join(rig, &given);
    given.timeout_ms = opts->timeout_ms;
    given.segment_bytes = MC_NONE;
    rig->client = client_join(rig, &given);
    rig->log = rig->process.log;
}

static void open_any(struct client_rig *rig, const struct mc_client_opts *opts,
                     bool any_memory)
{
    struct mc_client_opts given = {.segment_bytes = MIB};
    if (opts) {
        given = *opts;
    }
    given.any_memory = any_memory;
    if (given.store.eviction_high_watermark == 0) {
        given.store.eviction_high_watermark = 1.0;
    }
    *rig = (struct client_rig){0};
    if (client_link()) {
        open_remote(rig, &given);
    } else {
        ck_assert_int_eq(mc_client_open(&given, &rig->client), MC_OK);
        rig->log = mci_client_log(rig->client);
    }
    ck_assert_int_eq(mci_event_log_attach(rig->log), MC_OK);
    rig->last_id = mci_event_log_last_id(rig->log);
    ck_assert_int_eq(mci_log_taken_init(&rig->taken), MC_OK);
    rig->text = malloc(CLIENT_TEXT_MAX);
    ck_assert_ptr_nonnull(rig->text);
}

void client_open(struct client_rig *rig, const struct mc_client_opts *opts)
{
    open_any(rig, opts, true);
}

void client_open_strict(struct client_rig *rig,
                        const struct mc_client_opts *opts)
{
    open_any(rig, opts, false);
}

void client_close_detached(struct client_rig *rig)
{
    mc_client_close(rig->client);
    mc_client_close(rig->lender);
    if (rig->process.server) {
        process_close(&rig->process);
    }
    mci_log_taken_fini(&rig->taken);
    free(rig->text);
}

void client_close(struct client_rig *rig)
{
    mci_event_log_detach(rig->log);
    client_close_detached(rig);
}

const char *client_events(struct client_rig *rig)
{
    size_t len = 0;
    rig->text[0] = '\0';
    do {
        mci_event_log_take(rig->log, 0, &rig->taken);
        for (uint32_t i = 0; i < rig->taken.count; i++) {
            const struct mci_log_record *record = &rig->taken.records[i];
            ck_assert_uint_eq(record->id, rig->last_id + 1);
            rig->last_id = record->id;
            len = rig_print_record(rig->text, len, CLIENT_TEXT_MAX - 2, record);
            rig->text[len++] = record->group_continues ? '&' : ' ';
            rig->text[len] = '\0';
        }
    } while (rig->taken.count > 0);
    if (len > 0) {
        rig->text[len - 1] = '\0';
    }
    return rig->text;
}

/* ---- state --------------------------------------------------------------- */

#define LINES_MAX 8192
#define LINE_MAX 512

struct lines {
    char **lines;
    uint32_t count;
};

static bool keep_row(void *ctx, const struct mc_object_row *row)
{
    struct lines *lines = ctx;
    ck_assert_uint_lt(lines->count, LINES_MAX);
    char *line = malloc(LINE_MAX);
    ck_assert_ptr_nonnull(line);
    lines->lines[lines->count++] = line;
    (void)snprintf(line, LINE_MAX, "%.*s #%.*s @%.*s %u %ju v%ju e%ju\n",
                   row->key.len < 64 ? (int)row->key.len : 64,
                   (const char *)row->key.data, (int)row->session_id.len,
                   row->session_id.data ? (const char *)row->session_id.data
                                        : "",
                   row->group_id.len < 64 ? (int)row->group_id.len : 64,
                   row->group_id.data ? (const char *)row->group_id.data : "",
                   row->media, (uintmax_t)row->size, (uintmax_t)row->version,
                   (uintmax_t)row->last_event_id);
    return true;
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static size_t print_stats(struct client_rig *rig, char *text)
{
    struct mc_client_stats stats;
    mc_client_stat(rig->client, &stats);
    return (size_t)snprintf(
        text, LINE_MAX,
        "allocated %ju leased %ju objects %ju attempts %ju puts %ju "
        "evicted %ju id %ju\n",
        (uintmax_t)stats.allocated_bytes, (uintmax_t)stats.leased_only_bytes,
        (uintmax_t)stats.objects, (uintmax_t)stats.attempts,
        (uintmax_t)stats.puts, (uintmax_t)stats.evicted_objects,
        (uintmax_t)mc_client_last_event_id(rig->client));
}

char *client_state(struct client_rig *rig)
{
    struct lines lines = {.lines = calloc(LINES_MAX, sizeof *lines.lines)};
    ck_assert_ptr_nonnull(lines.lines);
    ck_assert_int_eq(mc_client_list(rig->client, keep_row, &lines), MC_OK);
    qsort(lines.lines, lines.count, sizeof *lines.lines, compare_lines);
    char *text = malloc((size_t)(lines.count + 1) * LINE_MAX);
    ck_assert_ptr_nonnull(text);
    size_t len = print_stats(rig, text);
    for (uint32_t i = 0; i < lines.count; i++) {
        size_t more = strlen(lines.lines[i]);
        memcpy(text + len, lines.lines[i], more + 1);
        len += more;
        free(lines.lines[i]);
    }
    free(lines.lines);
    return text;
}

/* ---- single keys --------------------------------------------------------- */

static enum mc_err write_one(struct client_rig *rig, const char *spec,
                             struct mc_view value, bool replaces)
{
    struct mci_write_row row = rig_row(spec, 0);
    struct mc_replicate_config config = {0};
    if (row.session_id.data) {
        config.session_ids = &row.session_id;
        config.session_id_count = 1;
    }
    if (row.group_id.data) {
        config.group_ids = &row.group_id;
        config.group_id_count = 1;
    }
    if (replaces) {
        return mc_client_upsert(rig->client, row.key, value.data, value.len,
                                &config);
    }
    return mc_client_put(rig->client, row.key, value.data, value.len, &config);
}

enum mc_err client_put(struct client_rig *rig, const char *spec,
                       const void *data, size_t len)
{
    return write_one(rig, spec, mc_view_make(data, len), false);
}

enum mc_err client_upsert(struct client_rig *rig, const char *spec,
                          const void *data, size_t len)
{
    return write_one(rig, spec, mc_view_make(data, len), true);
}

struct mc_probe client_probe(struct client_rig *rig, const char *key)
{
    struct mc_probe probe;
    ck_assert_int_eq(mc_client_probe(rig->client, mc_view_str(key), &probe),
                     MC_OK);
    return probe;
}

bool client_has(struct client_rig *rig, const char *key)
{
    return client_probe(rig, key).state == MC_OBJECT_READABLE;
}

/* ---- stamps -------------------------------------------------------------- */

void stamp_fill(void *data, size_t len, uint64_t stamp)
{
    uint8_t *bytes = data;
    size_t at = 0;
    for (; at + sizeof stamp <= len; at += sizeof stamp) {
        memcpy(bytes + at, &stamp, sizeof stamp);
    }
    memcpy(bytes + at, &stamp, len - at);
}

bool stamp_read(const void *data, size_t len, uint64_t *stamp_out)
{
    const uint8_t *bytes = data;
    uint64_t stamp;
    if (len < sizeof stamp) {
        return false;
    }
    memcpy(&stamp, bytes, sizeof stamp);
    *stamp_out = stamp;
    /* The same eight bytes over and over: each equals the one eight before. */
    return memcmp(bytes, bytes + sizeof stamp, len - sizeof stamp) == 0;
}
