/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tool_store.h"
#include "tool_store_json.h"

/* ---- ls ---------------------------------------------------------------- */

struct row {
    struct mc_object_row object; /* its texts stand in a block of the row */
    char *texts;
};

struct list {
    struct row *rows;
    size_t count;
    size_t capacity;
    bool is_out_of_memory;
};

static struct mc_view keep(char **at, struct mc_view text)
{
    if (!text.data) {
        return text;
    }
    memcpy(*at, text.data, text.len);
    struct mc_view kept = mc_view_make(*at, text.len);
    *at += text.len;
    return kept;
}

static bool on_object(void *ctx, const struct mc_object_row *object)
{
    struct list *list = ctx;
    size_t len = object->tenant_id.len + object->key.len +
                 object->group_id.len + object->session_id.len;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 1024;
        struct row *rows =
            reallocarray(list->rows, capacity, sizeof *list->rows);
        if (!rows) {
            list->is_out_of_memory = true;
            return false;
        }
        list->rows = rows;
        list->capacity = capacity;
    }
    struct row *row = &list->rows[list->count];
    row->object = *object;
    row->texts = malloc(len ? len : 1);
    if (!row->texts) {
        list->is_out_of_memory = true;
        return false;
    }
    char *at = row->texts;
    row->object.tenant_id = keep(&at, object->tenant_id);
    row->object.key = keep(&at, object->key);
    row->object.group_id = keep(&at, object->group_id);
    row->object.session_id = keep(&at, object->session_id);
    list->count++;
    return true;
}

/* By bytes, so that `LC_ALL=C sort` agrees. */
static int compare(const void *left, const void *right)
{
    struct mc_view a = ((const struct row *)left)->object.key;
    struct mc_view b = ((const struct row *)right)->object.key;
    size_t len = a.len < b.len ? a.len : b.len;
    int order = memcmp(a.data, b.data, len);
    return order ? order : (a.len > b.len) - (a.len < b.len);
}

static void show_json(const struct mc_object_row *object)
{
    struct tool_json json;
    tool_json_begin(&json);
    tool_json_text(&json, "tenant_id", object->tenant_id);
    tool_json_text(&json, "key", object->key);
    tool_json_u64(&json, "size", object->size);
    tool_json_text(&json, "media", mc_view_str(mc_medium_name(object->media)));
    tool_json_text(&json, "session_id", object->session_id);
    tool_json_text(&json, "group_id", object->group_id);
    tool_json_u64(&json, "version", object->version);
    tool_json_u64(&json, "last_event_id", object->last_event_id);
    tool_json_write(&json);
}

static void show(const struct tool_args *args,
                 const struct mc_object_row *object)
{
    if (args->json) {
        show_json(object);
        return;
    }
    tool_put_safe(object->key);
    printf("\t%" PRIu64 "\t%s\t", object->size, mc_medium_name(object->media));
    tool_put_safe(object->session_id);
    printf("\n");
}

static int run_ls(const struct tool_args *args)
{
    struct list list = {.rows = NULL};
    struct mc_client *client = tool_client_open(args);
    if (!client) {
        return TOOL_FAILED;
    }
    enum mc_err err = mc_client_list(client, on_object, &list);
    mc_client_close(client);
    if (list.is_out_of_memory) {
        err = MC_ERR_NOMEM;
    }
    if (err == MC_OK && list.count > 0) {
        qsort(list.rows, list.count, sizeof *list.rows, compare);
    }
    for (size_t i = 0; i < list.count; i++) {
        if (err == MC_OK) {
            show(args, &list.rows[i].object);
        }
        free(list.rows[i].texts);
    }
    free(list.rows);
    return err == MC_OK ? TOOL_DONE
                        : tool_fail(args->command, "master %s: %s (%d)",
                                    args->master, mc_err_text(err), (int)err);
}

const struct tool_command tool_ls = {
    .name = "ls",
    .operands = "",
    .options = TOOL_MASTER | TOOL_JSON,
    .summary = "lists all objects of the tenant, sorted by key",
    .explanation = "Prints KEY SIZE MEDIA SESSION, tab separated, with - for "
                   "none. MEDIA is cpu, disk or\ncpu+disk. Control characters "
                   "and backslash are shown as \\xHH.",
    .example = "mc-store ls --tenant t1",
    .run = run_ls,
};

/* ---- stat -------------------------------------------------------------- */

static void stat_json(const struct mc_client_stats *stats, int health)
{
    const struct mc_publisher_stats *events = &stats->events;
    struct tool_json json;
    tool_json_begin(&json);
    tool_json_i64(&json, "health", health);
    tool_json_u64(&json, "capacity_bytes", stats->capacity_bytes);
    tool_json_u64(&json, "allocated_bytes", stats->allocated_bytes);
    tool_json_u64(&json, "leased_only_bytes", stats->leased_only_bytes);
    tool_json_u64(&json, "quarantined_bytes", stats->quarantined_bytes);
    tool_json_u64(&json, "clients", stats->clients);
    tool_json_u64(&json, "segments", stats->segments);
    tool_json_u64(&json, "objects", stats->objects);
    tool_json_u64(&json, "attempts", stats->attempts);
    tool_json_u64(&json, "puts", stats->puts);
    tool_json_u64(&json, "gets", stats->gets);
    tool_json_u64(&json, "hits", stats->hits);
    tool_json_u64(&json, "evicted_objects", stats->evicted_objects);
    tool_json_u64(&json, "evicted_bytes", stats->evicted_bytes);
    tool_json_u64(&json, "evicted_windows", stats->evicted_windows);
    tool_json_u64(&json, "alloc_failures", stats->alloc_failures);
    tool_json_bool(&json, "events", events->enabled);
    if (events->enabled) {
        tool_json_hex(&json, "epoch", events->epoch);
        tool_json_text(&json, "endpoint", mc_view_str(events->endpoint));
        tool_json_u64(&json, "last_event_id", events->last_event_id);
        tool_json_u64(&json, "last_seq", events->last_seq);
        tool_json_u64(&json, "published_batches", events->published_batches);
        tool_json_u64(&json, "published_events", events->published_events);
        tool_json_u64(&json, "dropped_events", events->dropped_events);
        tool_json_u64(&json, "queue_depth", events->queue_depth);
        tool_json_u64(&json, "subscribers", events->subscribers);
        tool_json_text(&json, "replay_endpoint",
                       mc_view_str(events->replay_endpoint));
        tool_json_u64(&json, "replay_requests", events->replay_requests);
        tool_json_u64(&json, "snapshot_requests", events->snapshot_requests);
        tool_json_u64(&json, "waiting_requests", events->waiting_requests);
    }
    tool_json_write(&json);
}

static void stat_line(const char *name, uint64_t number)
{
    printf("%-18s %" PRIu64 "\n", name, number);
}

static void stat_size(const char *name, uint64_t bytes)
{
    char text[TOOL_SIZE_TEXT_LEN];
    printf("%-18s %s\n", name, tool_size_text(bytes, text));
}

static void stat_table(const struct mc_client_stats *stats)
{
    const struct mc_publisher_stats *events = &stats->events;
    stat_size("capacity", stats->capacity_bytes);
    stat_size("allocated", stats->allocated_bytes);
    stat_size("leased only", stats->leased_only_bytes);
    stat_size("quarantined", stats->quarantined_bytes);
    stat_line("clients", stats->clients);
    stat_line("segments", stats->segments);
    stat_line("objects", stats->objects);
    stat_line("open writes", stats->attempts);
    stat_line("puts", stats->puts);
    stat_line("gets", stats->gets);
    stat_line("hits", stats->hits);
    stat_line("evicted objects", stats->evicted_objects);
    stat_size("evicted", stats->evicted_bytes);
    stat_line("evicted windows", stats->evicted_windows);
    stat_line("without room", stats->alloc_failures);
    if (!events->enabled) {
        printf("%-18s off\n", "events");
        return;
    }
    printf("%-18s %s\n", "events", events->endpoint);
    printf("%-18s %016" PRIx64 "\n", "epoch", events->epoch);
    stat_line("last event", events->last_event_id);
    stat_line("last sequence", events->last_seq);
    stat_line("published", events->published_events);
    stat_line("dropped", events->dropped_events);
    stat_line("queued", events->queue_depth);
    stat_line("subscribers", events->subscribers);
    if (events->replay_endpoint[0]) {
        printf("%-18s %s\n", "recovery", events->replay_endpoint);
        stat_line("replays", events->replay_requests);
        stat_line("snapshots", events->snapshot_requests);
    }
}

static int run_stat(const struct tool_args *args)
{
    struct mc_client_stats stats = {.objects = 0};
    struct mc_client *client = tool_client_open(args);
    if (!client) {
        return TOOL_FAILED;
    }
    mc_client_stat(client, &stats);
    int health = mc_client_health(client);
    mc_client_close(client);
    if (args->json) {
        stat_json(&stats, health);
    } else {
        stat_table(&stats);
    }
    return TOOL_DONE;
}

const struct tool_command tool_stat = {
    .name = "stat",
    .operands = "",
    .options = TOOL_MASTER | TOOL_JSON,
    .summary = "shows capacity, objects, traffic and events",
    .explanation = "Figures since the master began.",
    .example = "mc-store stat --json",
    .run = run_stat,
};
