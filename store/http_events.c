/* SPDX-License-Identifier: Apache-2.0 */
/* Pages about the event stream. */
#include <string.h>

#include "http_lines.h"
#include "master_process.h"
#include "mci_alloc.h"

#define LINE_BYTES_MAX (1 << 20) /* of a row, escaped */

static void write_number(struct mci_http_response *response, const char *name,
                         uint64_t number)
{
    mci_http_print(response, ",\"%s\":%ju", name, (uintmax_t)number);
}

/* The fields of all versions of the original, and what only we count. The same
 * figure has had two names: keys that could not be parsed, keyless events. */
void mci_page_events_status(void *ctx, const struct mci_http_request *request,
                            struct mci_http_response *response)
{
    const struct mc_master *master = ctx;
    struct mc_publisher_stats stats;
    (void)request;
    mci_process_events(master, &stats);
    mci_http_print(response, "{\"enabled\":%s",
                   stats.enabled ? "true" : "false");
    write_number(response, "published_batches", stats.published_batches);
    write_number(response, "published_events", stats.published_events);
    write_number(response, "dropped_events", stats.dropped_events);
    write_number(response, "skipped_unparsed_keys", stats.skipped_events);
    write_number(response, "skipped_keyless_events", stats.skipped_events);
    write_number(response, "published_bytes", stats.published_bytes);
    write_number(response, "queue_depth", stats.queue_depth);
    write_number(response, "queue_capacity", stats.queue_capacity);
    write_number(response, "blocked_writers", stats.blocked_writers);
    write_number(response, "last_seq", stats.last_seq);
    write_number(response, "last_event_id", stats.last_event_id);
    write_number(response, "heartbeats", stats.heartbeats);
    write_number(response, "subscribers", stats.subscribers);
    write_number(response, "history_batches", stats.history_batches);
    write_number(response, "history_bytes", stats.history_bytes);
    write_number(response, "history_oldest_seq", stats.history_oldest_seq);
    write_number(response, "replay_requests", stats.replay_requests);
    write_number(response, "snapshot_requests", stats.snapshot_requests);
    write_number(response, "status_requests", stats.status_requests);
    write_number(response, "malformed_requests", stats.malformed_requests);
    write_number(response, "refused_requests", stats.refused_requests);
    write_number(response, "given_up_requests", stats.given_up_requests);
    write_number(response, "unanswered_requests", stats.unanswered_requests);
    write_number(response, "waiting_requests", stats.waiting_requests);
    write_number(response, "replayed_batches", stats.replayed_batches);
    write_number(response, "snapshot_batches", stats.snapshot_batches);
    write_number(response, "snapshot_walks", stats.snapshot_walks);
    mci_http_print(response, ",\"epoch\":\"%016jx\",\"endpoint\":",
                   (uintmax_t)stats.epoch);
    mci_http_json_string(response, mc_view_str(stats.endpoint));
    mci_http_print(response, ",\"replay_endpoint\":");
    mci_http_json_string(response, mc_view_str(stats.replay_endpoint));
    mci_http_print(response, ",\"backend_id\":");
    mci_http_json_string(response, mc_view_str(stats.backend_id));
    mci_http_print(response, "}");
}

/* ---- what can be read now ------------------------------------------------- */

/* A walk of its own through the store while its lines are being sent. */
struct walk {
    struct mc_master *master;
    struct mci_snapshot snapshot;
    struct mci_snapshot_cursor cursor;
    struct mci_snapshot_rows rows;
    size_t at; /* of rows */
    uint64_t first_id;
    bool has_begun;
    bool has_ended;
    uint64_t epoch;
    char backend_id[MC_BACKEND_ID_LEN_MAX + 1];
    char tenant[MC_TENANT_LEN_MAX];
    size_t tenant_len;             /* 0: all */
    struct mci_http_response line; /* its body is what is being sent */
    struct mci_http_lines lines;
};

static void write_edge(struct walk *walk, const char *name, uint64_t id)
{
    struct mc_publisher_stats stats;
    mci_process_events(walk->master, &stats);
    mci_http_print(
        &walk->line, "{\"epoch\":\"%016jx\",\"%s\":%ju,\"tail_seq\":%ju}\n",
        (uintmax_t)walk->epoch, name, (uintmax_t)id, (uintmax_t)stats.last_seq);
}

static void write_text(struct walk *walk, const char *name, struct mc_view text)
{
    mci_http_print(&walk->line, ",\"%s\":", name);
    if (text.len > 0) {
        mci_http_json_string(&walk->line, text);
    } else {
        mci_http_print(&walk->line, "null");
    }
}

static void write_row(struct walk *walk, const struct mc_event_record *row)
{
    mci_http_print(&walk->line, "{\"event_id\":%ju,\"event_type\":\"stored\"",
                   (uintmax_t)row->event_id);
    write_text(walk, "tenant_id", row->tenant_id);
    write_text(walk, "backend_id", mc_view_str(walk->backend_id));
    write_text(walk, "medium", row->medium);
    write_text(walk, "group_id", row->group_id);
    write_text(walk, "session_id", row->session_id);
    write_text(walk, "object_key", row->object_key);
    mci_http_print(&walk->line, ",\"epoch\":\"%016jx\"}\n",
                   (uintmax_t)walk->epoch);
}

static enum mc_err next_rows(struct walk *walk)
{
    const struct mc_view tenant =
        walk->tenant_len ? mc_view_make(walk->tenant, walk->tenant_len)
                         : mc_view_make(NULL, 0);
    walk->at = 0;
    return mci_snapshot_walk.next(&walk->snapshot, tenant, &walk->cursor,
                                  &walk->rows);
}

/* Writes the next line; false at the end. */
static bool write_next(struct walk *walk, enum mc_err *err)
{
    if (!walk->has_begun) {
        walk->has_begun = true;
        write_edge(walk, "first_id", walk->first_id);
        return true;
    }
    while (walk->at == walk->rows.count && !walk->cursor.at_end) {
        *err = next_rows(walk);
        if (*err) {
            return false;
        }
    }
    if (walk->at < walk->rows.count) {
        write_row(walk, &walk->rows.records[walk->at++]);
        return true;
    }
    if (walk->has_ended) {
        return false;
    }
    walk->has_ended = true;
    write_edge(walk, "last_id", mci_snapshot_walk.last_id(&walk->snapshot));
    return true;
}

static bool next_line(void *ctx, struct mc_view *line_out, enum mc_err *err_out)
{
    struct walk *walk = ctx;
    mci_buf_clear(&walk->line.body);
    if (!write_next(walk, err_out)) {
        return false;
    }
    *line_out = mci_buf_view(&walk->line.body);
    *err_out = walk->line.has_failed ? MC_ERR_NOMEM : MC_OK;
    return !walk->line.has_failed;
}

static int64_t read_walk(void *ctx, char *out, size_t max)
{
    struct walk *walk = ctx;
    return mci_http_lines_read(&walk->lines, out, max);
}

static void close_walk(void *ctx)
{
    struct walk *walk = ctx;
    mci_buf_fini(&walk->line.body);
    mci_snapshot_fini(&walk->snapshot);
    mci_free(walk);
}

static enum mc_err open_walk(struct walk *walk, struct mc_master *master,
                             struct mc_view tenant)
{
    struct mc_publisher_stats stats;
    mci_process_events(master, &stats);
    walk->master = master;
    walk->lines = (struct mci_http_lines){.next = next_line, .ctx = walk};
    walk->epoch = stats.epoch;
    memcpy(walk->backend_id, stats.backend_id, sizeof stats.backend_id);
    mci_buf_init(&walk->line.body, LINE_BYTES_MAX);
    enum mc_err err =
        mci_snapshot_init(&walk->snapshot, master->core, master->log);
    if (!err) {
        err = mci_snapshot_walk.begin(&walk->snapshot, tenant, &walk->first_id);
    }
    if (!err && tenant.len > 0) {
        memcpy(walk->tenant, tenant.data, tenant.len);
        walk->tenant_len = tenant.len;
    }
    return err;
}

/* The lines of what the recovery server says in messages: an id at the
 * beginning, a row per key and medium, an id at the end. */
void mci_page_events_snapshot(void *ctx, const struct mci_http_request *request,
                              struct mci_http_response *response)
{
    struct mc_master *master = ctx;
    struct mc_view tenant = {NULL, 0};
    (void)mci_http_arg(request, "tenant_id", &tenant);
    if (!master->publisher) {
        mci_page_fail(response, MC_ERR_UNAVAILABLE_IN_CURRENT_MODE);
        return;
    }
    struct walk *walk = mci_calloc(1, sizeof *walk);
    if (!walk) {
        response->has_failed = true;
        return;
    }
    enum mc_err err = open_walk(walk, master, tenant);
    if (err) {
        close_walk(walk);
        mci_page_fail(response, err);
        return;
    }
    response->content_type = MCI_HTTP_LINES;
    response->source = (struct mci_http_source){
        .read = read_walk, .close = close_walk, .ctx = walk};
}
