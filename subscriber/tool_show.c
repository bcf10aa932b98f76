/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "tool_show.h"

void tool_show_line(struct tool_show *show)
{
    bool is_whole = !show->line.is_failed;
    if (!tool_line_write(&show->line, stdout) && !is_whole) {
        show->failed++;
    }
}

void tool_show_head(struct tool_show *show)
{
    if (!show->is_json) {
        tool_line_format(&show->line, "%8s %10s %-7s %-4s %s", "SEQ", "ID",
                         "TYPE", "MED", "KEY, then what is not plain");
        tool_show_line(show);
    }
}

void tool_show_fields(struct tool_line *line, const struct mc_event *event)
{
    tool_line_text(line, "event_type",
                   mc_view_str(mc_event_type_name(event->type)));
    tool_line_text(line, "tenant_id", event->tenant_id);
    tool_line_text(line, "backend_id", event->backend_id);
    tool_line_text(line, "medium", event->medium);
    tool_line_text(line, "group_id", event->group_id);
    tool_line_text(line, "session_id", event->session_id);
    tool_line_text(line, "object_key", event->object_key);
    tool_line_epoch(line, "epoch", event->epoch);
}

/* What a snapshot showed was in no message. */
static void json_event(struct tool_line *line,
                       const struct mc_delivery *delivery)
{
    const struct mc_event_batch *batch = delivery->batch;
    const struct mc_event *event = delivery->event;
    tool_line_open(line, NULL, '{');
    if (delivery->origin == MC_FROM_SNAPSHOT) {
        tool_line_null(line, "seq");
    } else {
        tool_line_number(line, "seq", batch->seq);
    }
    tool_line_number(line, "event_id", event->event_id);
    tool_line_number(line, "timestamp_ms", batch->timestamp_ms);
    tool_show_fields(line, event);
    tool_line_close(line, '}');
}

void tool_show_named(struct tool_line *line, const char *name,
                     struct mc_view text)
{
    if (text.data) {
        tool_line_format(line, " %s=", name);
        tool_line_safe(line, text);
    }
}

/* The medium, the key, and what is not plain. */
static void table_key(struct tool_show *show, const struct mc_event *event)
{
    struct tool_line *line = &show->line;
    tool_line_safe(line, event->medium);
    for (size_t pad = event->medium.data ? event->medium.len : 1; pad < 4;
         pad++) {
        tool_line_add(line, " ");
    }
    tool_line_add(line, " ");
    tool_line_safe(line, event->object_key);
    tool_show_named(line, "session", event->session_id);
    tool_show_named(line, "group", event->group_id);
    if (!mc_view_equal(event->tenant_id, mc_view_str("default"))) {
        tool_show_named(line, "tenant", event->tenant_id);
    }
    struct mc_key_page page;
    if (show->layout && event->object_key.data) {
        if (mc_key_parse(show->layout, event->object_key, &page)) {
            tool_line_format(line, " block=%016" PRIx64 " part=%" PRIu32,
                             page.hash, page.part);
        } else {
            tool_line_add(line, " block=-");
        }
    }
}

static void table_event(struct tool_show *show,
                        const struct mc_delivery *delivery)
{
    const struct mc_event *event = delivery->event;
    if (delivery->origin == MC_FROM_SNAPSHOT) {
        tool_line_format(&show->line, "%8s", "-");
    } else {
        tool_line_format(&show->line, "%8" PRIu64, delivery->batch->seq);
    }
    tool_line_format(&show->line, " %10" PRIu64 " %-7s ", event->event_id,
                     mc_event_type_name(event->type));
    table_key(show, event);
}

static void json_engine(struct tool_line *line,
                        const struct mc_event_batch *batch,
                        const struct mc_engine_event *event)
{
    tool_line_open(line, NULL, '{');
    tool_line_number(line, "seq", batch->seq);
    tool_line_number(line, "timestamp_ms", batch->timestamp_ms);
    tool_line_number(line, "dp_rank", batch->dp_rank);
    tool_show_engine_fields(line, event);
    tool_line_close(line, '}');
}

void tool_show_delivery(struct tool_show *show,
                        const struct mc_delivery *delivery)
{
    const struct mc_event_batch *batch = delivery->batch;
    if (delivery->engine && show->is_json) {
        json_engine(&show->line, batch, delivery->engine);
    } else if (delivery->engine) {
        tool_line_format(&show->line, "%8" PRIu64 " rank %-5" PRIu32 " ",
                         batch->seq, batch->dp_rank);
        tool_show_engine_columns(&show->line, delivery->engine);
    } else if (show->is_json) {
        json_event(&show->line, delivery);
    } else {
        table_event(show, delivery);
    }
    tool_show_line(show);
}

void tool_show_row(struct tool_show *show, const struct mc_event *event)
{
    struct tool_line *line = &show->line;
    if (show->is_json) {
        tool_line_open(line, NULL, '{');
        tool_line_number(line, "event_id", event->event_id);
        tool_show_fields(line, event);
        tool_line_close(line, '}');
    } else {
        tool_line_format(line, "%10" PRIu64 " ", event->event_id);
        table_key(show, event);
    }
    tool_show_line(show);
}

static void json_signal(struct tool_line *line, const struct mc_signal *signal)
{
    tool_line_open(line, NULL, '{');
    tool_line_text(line, "signal", mc_view_str(mc_signal_name(signal->type)));
    switch (signal->type) {
    case MC_SIGNAL_GAP:
        tool_line_number(line, "from_id", signal->from_id);
        tool_line_number(line, "to_id", signal->to_id);
        tool_line_number(line, "from_seq", signal->from_seq);
        tool_line_number(line, "to_seq", signal->to_seq);
        break;
    case MC_SIGNAL_RECOVERED:
        tool_line_text(
            line, "by",
            mc_view_str(signal->by_snapshot ? "snapshot" : "replay"));
        break;
    case MC_SIGNAL_EPOCH:
        tool_line_epoch(line, "epoch", signal->epoch);
        break;
    case MC_SIGNAL_DEGRADED:
        tool_line_text(line, "reason", mc_view_str(mc_signal_reason(signal)));
        tool_line_number(line, "offset", signal->offset);
        break;
    case MC_SIGNAL_STALE:
        break;
    }
    tool_line_close(line, '}');
}

static void table_signal(struct tool_line *line, const struct mc_signal *signal)
{
    tool_line_format(line, "*** %s", mc_signal_name(signal->type));
    switch (signal->type) {
    case MC_SIGNAL_GAP:
        if (signal->to_id != 0) {
            tool_line_format(line, ": ids %" PRIu64 " to %" PRIu64,
                             signal->from_id, signal->to_id);
        }
        if (signal->to_seq != 0) {
            tool_line_format(line, "%s messages %" PRIu64 " to %" PRIu64,
                             signal->to_id ? "," : ":", signal->from_seq,
                             signal->to_seq);
        }
        tool_line_add(line, " were missed");
        break;
    case MC_SIGNAL_RECOVERED:
        tool_line_add(line,
                      signal->by_snapshot ? ": by snapshot" : ": by replay");
        break;
    case MC_SIGNAL_EPOCH:
        tool_line_format(line, ": the publisher began anew, %016" PRIx64,
                         signal->epoch);
        break;
    case MC_SIGNAL_DEGRADED:
        if (signal->cause != MC_DEGRADED_REFUSED) {
            tool_line_format(line, ": %s", mc_signal_reason(signal));
            break;
        }
        tool_line_format(line,
                         ": refused in message %" PRIu64 ": %s at byte %u",
                         signal->seq, mc_signal_reason(signal), signal->offset);
        break;
    case MC_SIGNAL_STALE:
        tool_line_add(line, ": what was known is void, starting again");
        break;
    }
}

void tool_show_signal(struct tool_show *show, const struct mc_signal *signal)
{
    if (show->is_json) {
        json_signal(&show->line, signal);
    } else {
        if (show->is_colored) {
            tool_line_add(&show->line, "\033[1;31m");
        }
        table_signal(&show->line, signal);
        if (show->is_colored) {
            tool_line_add(&show->line, "\033[0m");
        }
    }
    tool_show_line(show);
}
