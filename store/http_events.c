/* SPDX-License-Identifier: Apache-2.0 */
/* Pages about the event stream. */
#include "master_process.h"

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
    mci_http_print(response, ",\"epoch\":\"%016jx\",\"endpoint\":",
                   (uintmax_t)stats.epoch);
    mci_http_json_string(response, mc_view_str(stats.endpoint));
    mci_http_print(response, ",\"replay_endpoint\":");
    mci_http_json_string(response, mc_view_str(stats.replay_endpoint));
    mci_http_print(response, "}");
}

void mci_page_events_snapshot(void *ctx, const struct mci_http_request *request,
                              struct mci_http_response *response)
{
    (void)ctx;
    (void)request;
    mci_http_say(response, 501,
                 "snapshots of the event state are not built yet; "
                 "/get_all_keys lists what is readable\n");
}
