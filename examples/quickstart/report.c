/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "report.h"

#define MINUTE_MS 60000
#define BAR_WIDTH 40
#define TOP 10
#define KEY_SHOWN 16
#define LINE_EVERY_NS UINT64_C(500000000)

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool report_init(struct report *report, const struct trace *trace)
{
    uint64_t last = 0;
    for (size_t i = 0; i < trace->count; i++) {
        if (trace->requests[i].timestamp_ms > last) {
            last = trace->requests[i].timestamp_ms;
        }
    }
    *report = (struct report){.count = (size_t)(last / MINUTE_MS) + 1};
    report->minutes = calloc(report->count, sizeof *report->minutes);
    return report->minutes != NULL;
}

void report_fini(struct report *report)
{
    free(report->minutes);
    *report = (struct report){0};
}

void report_event(struct report *report, const struct mc_event *event)
{
    report->last_ns = now_ns();
    if (report->events++ == 0) {
        report->first_ns = report->last_ns;
    }
    if (report->last_ns < report->next_line_ns) {
        return;
    }
    report->next_line_ns = report->last_ns + LINE_EVERY_NS;
    struct mc_view key = event->object_key;
    struct mc_view session = event->session_id;
    if (!session.data) {
        session = mc_view_str("-");
    }
    printf("    event %-8" PRIu64 " %-7s %.*s%s session %.*s\n",
           event->event_id, mc_event_type_name(event->type),
           key.len > KEY_SHOWN ? KEY_SHOWN : (int)key.len,
           key.data ? (const char *)key.data : "",
           key.len > KEY_SHOWN ? "..." : "", (int)session.len,
           (const char *)session.data);
}

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void print_bar(size_t number, const struct report_minute *minute)
{
    char bar[BAR_WIDTH + 1];
    double share = percent(minute->resident, minute->blocks);
    int len = (int)(share * BAR_WIDTH / 100 + 0.5);
    for (int i = 0; i < BAR_WIDTH; i++) {
        bar[i] = i < len ? '#' : '.';
    }
    bar[BAR_WIDTH] = 0;
    printf("minute %3zu %5" PRIu64 " requests %7" PRIu64
           " blocks  %5.1f %% %s\n",
           number, minute->requests, minute->blocks, share, bar);
}

static void print_until(struct report *report, size_t end)
{
    for (; report->shown < end; report->shown++) {
        print_bar(report->shown, &report->minutes[report->shown]);
    }
    fflush(stdout);
}

void report_answer(struct report *report, const struct trace_request *request,
                   uint64_t resident)
{
    size_t number = (size_t)(request->timestamp_ms / MINUTE_MS);
    struct report_minute *minute = &report->minutes[number];
    if (number > report->shown) {
        print_until(report, number);
    }
    minute->requests++;
    minute->blocks += request->count;
    minute->resident += resident;
}

void report_end(struct report *report)
{
    struct report_minute all = {0};
    print_until(report, report->count);
    for (size_t i = 0; i < report->count; i++) {
        all.requests += report->minutes[i].requests;
        all.blocks += report->minutes[i].blocks;
        all.resident += report->minutes[i].resident;
    }
    double seconds = (double)(report->last_ns - report->first_ns) / 1e9;
    printf("\n%" PRIu64 " requests, %" PRIu64 " blocks; %" PRIu64
           " leading blocks waited in the store: hit rate %.4f\n",
           all.requests, all.blocks, all.resident,
           percent(all.resident, all.blocks) / 100);
    printf("%" PRIu64 " events in %.2f s: %.0f events per second\n",
           report->events, seconds,
           seconds > 0 ? (double)report->events / seconds : 0);
}

struct top_row {
    char session[MC_SESSION_ID_LEN_MAX];
    size_t session_len;
    uint64_t blocks;
};
struct top {
    struct top_row rows[TOP];
    size_t count;
};

static bool take_session(void *ctx, const struct mc_index_session *row)
{
    struct top *top = ctx;
    if (top->count == TOP && row->blocks <= top->rows[TOP - 1].blocks) {
        return true;
    }
    size_t at = top->count < TOP ? top->count++ : TOP - 1;
    while (at > 0 && row->blocks > top->rows[at - 1].blocks) {
        top->rows[at] = top->rows[at - 1];
        at--;
    }
    struct top_row *kept = &top->rows[at];
    kept->blocks = row->blocks;
    kept->session_len = row->session.len;
    memcpy(kept->session, row->session.data, row->session.len);
    return true;
}

bool report_sessions(struct mc_index_reader *reader)
{
    struct top top = {0};
    enum mc_err err =
        mc_index_sessions(reader, mc_view_str("default"), take_session, &top);
    if (err != MC_OK) {
        fprintf(stderr, "follower: sessions: %s (%d)\n", mc_err_text(err), err);
        return false;
    }
    printf("\nlargest sessions        blocks in lineage   in the store   "
           "of these leading\n");
    for (size_t i = 0; i < top.count; i++) {
        struct mc_view session =
            mc_view_make(top.rows[i].session, top.rows[i].session_len);
        struct mc_index_place places[4];
        uint64_t blocks = 0;
        uint64_t held = 0;
        uint64_t prefix = 0;
        size_t count = mc_index_resident(reader, mc_view_str("default"),
                                         session, places, 4, &blocks);
        for (size_t j = 0; j < count && j < 4; j++) {
            held += places[j].blocks;
            prefix = places[j].prefix > prefix ? places[j].prefix : prefix;
        }
        printf("  %-22.*s %16" PRIu64 " %14" PRIu64 " %17" PRIu64 "\n",
               (int)session.len, (const char *)session.data, blocks, held,
               prefix);
    }
    return true;
}
