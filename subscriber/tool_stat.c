/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <string.h>

#include "tool_follow.h"
#include "tool_line.h"
#include "tool_tally.h"

#define MS UINT64_C(1000000)
#define EVERY_DEFAULT_MS 1000
#define NAMES_MAX 65536
#define TOP 10

struct stat {
    struct tool_follow follow;
    struct tool_line line;
    struct mc_source_stats now;
    struct mc_source_stats last; /* at the report before */
    struct tool_tally *tenants;
    struct tool_tally *sessions; /* names: tenant length, tenant, session */
    const struct mc_key_layout *layout;
    uint64_t layout_keys; /* of stored events */
    uint64_t foreign_keys;
    uint64_t begin_ns;
    uint64_t last_ns;
    uint64_t reports;
    bool is_live; /* redraw in place */
};

static void on_event(void *ctx, const struct mc_delivery *delivery)
{
    struct stat *stat = ctx;
    const struct mc_event *event = delivery->event;
    unsigned char name[256 + MC_SESSION_ID_LEN_MAX];
    tool_tally_add(stat->tenants, event->tenant_id);
    if (event->session_id.data && event->tenant_id.len < 256 &&
        event->session_id.len <= MC_SESSION_ID_LEN_MAX) {
        size_t len = event->tenant_id.len;
        name[0] = (unsigned char)len;
        memcpy(name + 1, event->tenant_id.data, len);
        memcpy(name + 1 + len, event->session_id.data, event->session_id.len);
        tool_tally_add(stat->sessions,
                       mc_view_make(name, 1 + len + event->session_id.len));
    }
    if (stat->layout && event->type == MC_EVENT_STORED) {
        struct mc_key_page page;
        bool is_known = mc_key_parse(stat->layout, event->object_key, &page);
        stat->layout_keys += is_known;
        stat->foreign_keys += !is_known;
    }
}

/* Per second, over the time since the report before. */
static uint64_t rate(uint64_t count, uint64_t interval_ns)
{
    double seconds = (double)interval_ns / 1e9;
    return seconds > 0 ? (uint64_t)((double)count / seconds + 0.5) : 0;
}

/* Figures that every report has, by name. */
struct figure {
    const char *name;
    size_t at; /* in struct mc_source_stats */
    bool has_rate;
};
#define FIGURE(name, has_rate)                                  \
    {                                                           \
#name, offsetof(struct mc_source_stats, name), has_rate \
    }
static const struct figure figures[] = {
    FIGURE(messages, true),
    FIGURE(bytes, true),
    FIGURE(events, true),
    FIGURE(stored, true),
    FIGURE(removed, true),
    FIGURE(cleared, true),
    FIGURE(heartbeats, false),
    FIGURE(duplicates, false),
    FIGURE(gaps, false),
    FIGURE(lost_ids, false),
    FIGURE(lost_seqs, false),
    FIGURE(restarts, false),
    FIGURE(recoveries, false),
    FIGURE(refetched_ids, false),
    FIGURE(covered_ids, false),
    FIGURE(failed_requests, false),
    FIGURE(connects, false),
    FIGURE(disconnects, false),
    FIGURE(refused_messages, false),
    FIGURE(refused_events, false),
    FIGURE(queue_messages, false),
    FIGURE(queue_bytes, false),
    FIGURE(queue_full, false),
};
#define FIGURE_COUNT (sizeof figures / sizeof figures[0])

static uint64_t value_of(const struct mc_source_stats *stats,
                         const struct figure *figure)
{
    uint64_t value;
    memcpy(&value, (const char *)stats + figure->at, sizeof value);
    return value;
}

static struct mc_view tenant_of(struct mc_view name)
{
    const unsigned char *bytes = name.data;
    return mc_view_make(bytes + 1, bytes[0]);
}

static struct mc_view session_of(struct mc_view name)
{
    const unsigned char *bytes = name.data;
    return mc_view_make(bytes + 1 + bytes[0], name.len - 1 - bytes[0]);
}

static void json_rows(struct stat *stat, const char *name,
                      const struct tool_tally *tally, uint64_t interval_ns)
{
    struct tool_tally_row rows[TOP];
    struct tool_line *line = &stat->line;
    size_t count = tool_tally_top(tally, rows, TOP);
    tool_line_open(line, name, '[');
    for (size_t i = 0; i < count; i++) {
        tool_line_open(line, NULL, '{');
        if (tally == stat->sessions) {
            tool_line_text(line, "tenant_id", tenant_of(rows[i].name));
            tool_line_text(line, "session_id", session_of(rows[i].name));
        } else {
            tool_line_text(line, "tenant_id", rows[i].name);
        }
        tool_line_number(line, "events", rows[i].total);
        tool_line_number(line, "events_per_s",
                         rate(rows[i].recent, interval_ns));
        tool_line_close(line, '}');
    }
    tool_line_close(line, ']');
}

static void json_report(struct stat *stat, uint64_t now_ns)
{
    struct tool_line *line = &stat->line;
    uint64_t interval_ns = now_ns - stat->last_ns;
    tool_line_open(line, NULL, '{');
    tool_line_number(line, "elapsed_ms", (now_ns - stat->begin_ns) / MS);
    tool_line_number(line, "interval_ms", interval_ns / MS);
    tool_line_bool(line, "connected", stat->now.is_connected);
    tool_line_epoch(line, "epoch", stat->now.epoch);
    tool_line_number(line, "last_seq", stat->now.last_seq);
    tool_line_number(line, "last_event_id", stat->now.last_event_id);
    for (size_t i = 0; i < FIGURE_COUNT; i++) {
        tool_line_number(line, figures[i].name,
                         value_of(&stat->now, &figures[i]));
    }
    tool_line_open(line, "per_s", '{');
    for (size_t i = 0; i < FIGURE_COUNT; i++) {
        if (figures[i].has_rate) {
            tool_line_number(line, figures[i].name,
                             rate(value_of(&stat->now, &figures[i]) -
                                      value_of(&stat->last, &figures[i]),
                                  interval_ns));
        }
    }
    tool_line_close(line, '}');
    tool_line_open(line, "refused", '{');
    for (int i = 1; i < MC_EVENT_ERROR_COUNT_; i++) {
        if (stat->now.refused[i] > 0) {
            tool_line_number(line, mc_event_error_name((enum mc_event_error)i),
                             stat->now.refused[i]);
        }
    }
    tool_line_close(line, '}');
    if (stat->layout) {
        tool_line_number(line, "layout_keys", stat->layout_keys);
        tool_line_number(line, "foreign_keys", stat->foreign_keys);
    }
    json_rows(stat, "tenants", stat->tenants, interval_ns);
    tool_line_number(line, "session_count", tool_tally_count(stat->sessions));
    json_rows(stat, "sessions", stat->sessions, interval_ns);
    tool_line_close(line, '}');
}

static void table_rows(struct stat *stat, const char *name,
                       const struct tool_tally *tally, uint64_t interval_ns)
{
    struct tool_tally_row rows[TOP];
    struct tool_line *line = &stat->line;
    size_t count = tool_tally_top(tally, rows, TOP);
    tool_line_format(line, "%s (%zu)\n", name, tool_tally_count(tally));
    for (size_t i = 0; i < count; i++) {
        tool_line_format(line, "  %14" PRIu64 " %10" PRIu64 "/s  ",
                         rows[i].total, rate(rows[i].recent, interval_ns));
        if (tally == stat->sessions) {
            struct mc_view tenant = tenant_of(rows[i].name);
            tool_line_safe(line, session_of(rows[i].name));
            if (!mc_view_equal(tenant, mc_view_str("default"))) {
                tool_line_add(line, " tenant=");
                tool_line_safe(line, tenant);
            }
        } else {
            tool_line_safe(line, rows[i].name);
        }
        tool_line_add(line, "\n");
    }
    if (tool_tally_others(tally) > 0) {
        tool_line_format(line,
                         "  %14" PRIu64 "                under more names\n",
                         tool_tally_others(tally));
    }
}

static void table_report(struct stat *stat, uint64_t now_ns)
{
    struct tool_line *line = &stat->line;
    uint64_t interval_ns = now_ns - stat->last_ns;
    tool_line_format(line,
                     "%s %s after %" PRIu64 " s, epoch %016" PRIx64
                     ", message %" PRIu64 ", event %" PRIu64 "\n",
                     stat->follow.args->endpoint,
                     stat->now.is_connected ? "connected" : "not connected",
                     (now_ns - stat->begin_ns) / (1000 * MS), stat->now.epoch,
                     stat->now.last_seq, stat->now.last_event_id);
    for (size_t i = 0; i < FIGURE_COUNT; i++) {
        uint64_t value = value_of(&stat->now, &figures[i]);
        tool_line_format(line, "  %14" PRIu64, value);
        if (figures[i].has_rate) {
            uint64_t before = value_of(&stat->last, &figures[i]);
            tool_line_format(line, " %10" PRIu64 "/s",
                             rate(value - before, interval_ns));
        } else {
            tool_line_format(line, " %12s", "");
        }
        tool_line_format(line, "  %s\n", figures[i].name);
    }
    for (int i = 1; i < MC_EVENT_ERROR_COUNT_; i++) {
        if (stat->now.refused[i] > 0) {
            tool_line_format(line, "  %14" PRIu64 " %12s  refused: %s\n",
                             stat->now.refused[i], "",
                             mc_event_error_name((enum mc_event_error)i));
        }
    }
    if (stat->layout) {
        tool_line_format(
            line,
            "  %14" PRIu64 " of %" PRIu64 " stored keys are of the layout\n",
            stat->layout_keys, stat->layout_keys + stat->foreign_keys);
    }
    table_rows(stat, "tenants", stat->tenants, interval_ns);
    table_rows(stat, "sessions", stat->sessions, interval_ns);
}

static void on_tick(void *ctx)
{
    struct stat *stat = ctx;
    const struct tool_args *args = stat->follow.args;
    uint64_t now_ns = tool_now_ns();
    mc_subscriber_stats(stat->follow.subscriber, 0, &stat->now);
    if (args->json) {
        json_report(stat, now_ns);
    } else {
        if (stat->is_live) {
            tool_line_add(&stat->line, "\033[H\033[J");
        }
        table_report(stat, now_ns);
    }
    bool is_whole = !stat->line.is_failed;
    bool is_written = tool_line_write(&stat->line, stdout);
    tool_tally_roll(stat->tenants);
    tool_tally_roll(stat->sessions);
    stat->last = stat->now;
    stat->last_ns = now_ns;
    stat->reports++;
    if (!is_written && !is_whole) {
        tool_follow_end(&stat->follow,
                        tool_fail(args->command, "out of memory"));
    } else if (args->has_count && stat->reports == args->count) {
        tool_follow_end(&stat->follow, TOOL_DONE);
    }
}

static int run(const struct tool_args *args)
{
    struct mc_key_layout layout;
    struct stat stat = {
        .follow = {.args = args,
                   .on_event = on_event,
                   .on_tick = on_tick,
                   .tick_ms =
                       args->has_every ? args->every_ms : EVERY_DEFAULT_MS},
        .tenants = tool_tally_create(NAMES_MAX),
        .sessions = tool_tally_create(NAMES_MAX),
        .begin_ns = tool_now_ns(),
        .is_live = tool_is_colored(),
    };
    int code;
    stat.follow.ctx = &stat;
    stat.last_ns = stat.begin_ns;
    if (tool_args_layout(args, &layout)) {
        stat.layout = &layout;
    }
    if (stat.follow.tick_ms == 0) {
        code = tool_wrong_use(args->command, "--every: is more than nothing");
    } else if (!stat.tenants || !stat.sessions) {
        code = tool_fail(args->command, "out of memory");
    } else {
        code = tool_follow_run(&stat.follow);
    }
    tool_tally_destroy(stat.tenants);
    tool_tally_destroy(stat.sessions);
    tool_line_fini(&stat.line);
    return code;
}

const struct tool_command tool_stat = {
    .name = "stat",
    .operands = "",
    .options = TOOL_ENDPOINT | TOOL_LISTEN | TOOL_TOPIC | TOOL_COUNT |
               TOOL_EVERY | TOOL_LAYOUT | TOOL_JSON,
    .summary = "rates by type, tenant and session, losses and refusals",
    .explanation =
        "A report every --every, redrawn in place on a terminal; --count ends\n"
        "after so many. --layout counts how many stored keys are of a layout.\n"
        "A session is counted by the events that carry its id.",
    .example = "mc-events stat --every 500ms --json",
    .run = run,
};
