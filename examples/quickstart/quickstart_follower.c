/* SPDX-License-Identifier: Apache-2.0 */
/* quickstart_follower.c - a request router's side of the quickstart: follows the
 * store, keeps mirror and index, and answers for each request how many of its
 * leading blocks wait in the store.
 *
 * The moment to answer is an event: req/<n> being stored. So an answer depends
 * on the stream alone, whatever the two processes do in time. stdin is the pipe
 * from the writer, --acks-fd (3) the one to it (pipe_lines.h). */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "options.h"
#include "pipe_lines.h"
#include "report.h"

#define PATIENCE_MS 60000
#define WRITER_STATS 5

enum phase { FOLLOWING, COMPARING, DONE, FAILED };

struct follower {
    struct options options;
    struct trace trace;
    struct pipe_reader writer;
    struct mc_key_layout layout;
    struct mc_index *index;
    struct mc_index_reader *reader;
    struct mc_subscriber *subscriber;
    struct report report;
    FILE *record;
    FILE *answers;
    uint64_t *chain; /* as long as the longest request */
    uint64_t begin_ns;
    uint64_t answered;  /* requests */
    uint64_t event_id;  /* newest one applied */
    uint64_t wanted_id; /* of the list to compare */
    char list_path[4096];
    uint64_t keys;
    uint64_t writer_stats[WRITER_STATS]; /* reads, hits, puts, evicted, waits */
    bool has_joined;
    uint64_t signals; /* gap, stale and degraded: none is expected */
    enum phase phase;
};

static void fail(struct follower *follower, const char *what, const char *why)
{
    fprintf(stderr, "follower: %s: %s\n", what, why);
    follower->phase = FAILED;
}

static void tell(struct follower *follower, const char *word, uint64_t number)
{
    bool is_told = number == UINT64_MAX
                       ? pipe_line_write(follower->options.acks_fd, "%s", word)
                       : pipe_line_write(follower->options.acks_fd,
                                         "%s %" PRIu64, word, number);
    if (!is_told) {
        fail(follower, "writer", "has gone");
    }
}

/* The chain of a request is known to the router: it observes it, and asks. */
static void answer(struct follower *follower, uint64_t n)
{
    const struct trace_request *request = &follower->trace.requests[n];
    const struct mc_view tenant = mc_view_str("default");
    struct mc_index_match match = {0};
    for (size_t i = 0; i < request->count; i++) {
        struct trace_names names;
        trace_name(request->ids[i], &names);
        follower->chain[i] = names.hash;
    }
    enum mc_index_result result =
        mc_index_observe(follower->index, tenant,
                         mc_view_make(request->session, request->session_len),
                         follower->chain, request->count);
    if (result != MC_INDEX_APPLIED) {
        fail(follower, "observe", mc_index_result_name(result));
        return;
    }
    mc_index_match(follower->reader, tenant, follower->chain, request->count,
                   &match);
    report_answer(&follower->report, request, match.store);
    if (follower->answers) {
        fprintf(follower->answers, "%" PRIu64 " %" PRIu64 "\n", n, match.store);
    }
    follower->answered++;
    tell(follower, "ack", n);
}

/* "req/12": the number; false for all other keys. */
static bool is_request(struct mc_view key, uint64_t *n_out)
{
    char text[32];
    char *end;
    if (key.len < 5 || key.len >= sizeof text ||
        memcmp(key.data, "req/", 4) != 0) {
        return false;
    }
    memcpy(text, key.data, key.len);
    text[key.len] = 0;
    *n_out = strtoull(text + 4, &end, 10);
    return *end == 0;
}

/* The mirror is as of wanted_id now: does it say what the store's list says? */
static void compare(struct follower *follower)
{
    struct check check = {.subscriber = follower->subscriber,
                          .reader = follower->reader,
                          .layout = &follower->layout,
                          .list_path = follower->list_path};
    follower->phase = FAILED;
    if (check_run(&check)) {
        follower->keys = check.keys;
        if (check.differences == 0) {
            follower->phase = DONE;
        } else {
            fprintf(stderr,
                    "follower: index and store DISAGREE as of event %" PRIu64
                    ": %" PRIu64 " differences\n",
                    follower->wanted_id, check.differences);
        }
    }
}

static void on_event(void *ctx, const struct mc_delivery *delivery)
{
    struct follower *follower = ctx;
    const struct mc_event *event = delivery->event;
    uint64_t n;
    report_event(&follower->report, event);
    follower->event_id = event->event_id;
    if (event->type == MC_EVENT_STORED) {
        if (!follower->has_joined) {
            follower->has_joined = true;
            tell(follower, "joined", UINT64_MAX);
        }
        if (is_request(event->object_key, &n)) {
            if (n < follower->trace.count && n == follower->answered) {
                answer(follower, n);
            } else {
                fail(follower, "stream", "a request out of order");
            }
        }
    }
    if (follower->phase == COMPARING &&
        follower->event_id == follower->wanted_id) {
        compare(follower);
    }
}

static void on_signal(void *ctx, const struct mc_signal *signal)
{
    struct follower *follower = ctx;
    if (signal->type != MC_SIGNAL_EPOCH) {
        follower->signals++;
        printf("*** %s: ids %" PRIu64 " to %" PRIu64 " %s\n",
               mc_signal_name(signal->type), signal->from_id, signal->to_id,
               mc_event_error_name(signal->reason));
    }
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void on_message(void *ctx, uint32_t source, const struct mc_view *frames,
                       size_t count)
{
    struct follower *follower = ctx;
    (void)source;
    if (!follower->record) {
        return;
    }
    fprintf(follower->record, "{\"t_ns\":%" PRIu64 ",\"frames\":[",
            now_ns() - follower->begin_ns);
    for (size_t i = 0; i < count; i++) {
        const unsigned char *bytes = frames[i].data;
        fputs(i ? ",\"" : "\"", follower->record);
        for (size_t j = 0; j < frames[i].len; j++) {
            fputc("0123456789abcdef"[bytes[j] >> 4], follower -> record);
            fputc("0123456789abcdef"[bytes[j] & 15], follower -> record);
        }
        fputc('"', follower->record);
    }
    fputs("]}\n", follower->record);
}

static enum mc_err open_parts(struct follower *follower, const char *endpoint)
{
    const struct mc_source_opts source = {.endpoint = endpoint};
    struct mc_subscriber_opts opts = {.sources = &source,
                                      .source_count = 1,
                                      .on_event = on_event,
                                      .on_signal = on_signal,
                                      .on_message = on_message,
                                      .ctx = follower};
    struct mc_index_opts index_opts = {.block_bytes =
                                           follower->options.block_bytes};
    enum mc_err err = mc_key_layout_parse(mc_view_str("sglang:mla"),
                                          mc_view_str(NULL), &follower->layout);
    index_opts.layout = follower->layout;
    if (err == MC_OK) {
        err = mc_index_create(&index_opts, &follower->index);
    }
    if (err == MC_OK) {
        err = mc_index_reader_create(follower->index, &follower->reader);
    }
    if (err == MC_OK) {
        opts.index = follower->index;
        err = mc_subscriber_open(&opts, &follower->subscriber);
    }
    return err;
}

static bool open_files(struct follower *follower)
{
    const struct options *options = &follower->options;
    struct {
        const char *path;
        FILE **file;
    } files[] = {{options->record_path, &follower->record},
                 {options->answers_path, &follower->answers}};
    for (size_t i = 0; i < 2; i++) {
        if (files[i].path) {
            *files[i].file = fopen(files[i].path, "we");
            if (!*files[i].file) {
                fail(follower, files[i].path, strerror(errno));
                return false;
            }
        }
    }
    return true;
}

/* "stats READS HITS PUTS EVICTED WAITS" */
static bool read_stats(struct follower *follower, const char *line)
{
    const char *at = line + strlen("stats ");
    if (strncmp(line, "stats ", strlen("stats ")) != 0) {
        return false;
    }
    for (size_t i = 0; i < WRITER_STATS; i++) {
        if (!pipe_number(&at, &follower->writer_stats[i])) {
            return false;
        }
    }
    return true;
}

/* "end EVENT_ID FILE" */
static bool read_end(struct follower *follower, const char *line)
{
    const char *at = line + strlen("end ");
    size_t capacity = sizeof follower->list_path;
    if (strncmp(line, "end ", strlen("end ")) != 0 ||
        !pipe_number(&at, &follower->wanted_id)) {
        return false;
    }
    int len = snprintf(follower->list_path, capacity, "%s", at);
    return len > 0 && (size_t)len < capacity;
}

static void on_writer_line(struct follower *follower, const char *line)
{
    if (read_stats(follower, line)) {
        return;
    }
    if (!read_end(follower, line)) {
        fail(follower, "strange word from the writer", line);
        return;
    }
    follower->phase = COMPARING;
    if (follower->event_id == follower->wanted_id) {
        compare(follower);
    } else if (follower->event_id > follower->wanted_id) {
        follower->phase = FOLLOWING; /* it has changed since */
        tell(follower, "again", UINT64_MAX);
    }
}

/* Takes lines and events until the list has been compared. */
static void follow(struct follower *follower)
{
    while (follower->phase < DONE) {
        struct pollfd watched[2] = {
            {.fd = mc_subscriber_fd(follower->subscriber), .events = POLLIN},
            {.fd = STDIN_FILENO, .events = POLLIN}};
        int ready = poll(watched, 2, PATIENCE_MS);
        if (ready == 0 || (ready < 0 && errno != EINTR)) {
            fail(follower, "wait", ready ? strerror(errno) : "nothing comes");
        }
        if (watched[0].revents) {
            enum mc_err err =
                mc_subscriber_poll(follower->subscriber, 0, 16, NULL);
            if (err != MC_OK && err != MC_ERR_RPC_TIMEOUT) {
                fail(follower, "poll", mc_err_text(err));
            }
        }
        const char *line;
        while (follower->phase < DONE &&
               (line = pipe_line_read(&follower->writer, 0))) {
            on_writer_line(follower, line);
        }
        if (follower->phase < DONE && follower->writer.is_closed) {
            fail(follower, "writer", "ended too early");
        }
    }
}

static void show_end(struct follower *follower)
{
    struct mc_source_stats stats;
    mc_subscriber_stats(follower->subscriber, 0, &stats);
    const uint64_t *writer = follower->writer_stats;
    report_end(&follower->report);
    printf("the writer read %" PRIu64 " blocks, verified the %" PRIu64
           " that it found and put %" PRIu64 "; %" PRIu64
           " were evicted; it waited %" PRIu64 " times for the event log\n",
           writer[0], writer[1], writer[2], writer[3], writer[4]);
    printf("gaps %" PRIu64 ", ids lost %" PRIu64 ", refused %" PRIu64
           ", duplicates %" PRIu64 "\n",
           stats.gaps, stats.lost_ids,
           stats.refused_messages + stats.refused_events, stats.duplicates);
    if (!report_sessions(follower->reader)) {
        follower->phase = FAILED;
    }
    if (follower->answered != follower->trace.count) {
        fail(follower, "requests", "not all were answered");
    }
    if (stats.gaps + stats.lost_ids + follower->signals > 0) {
        fail(follower, "stream", "something was lost or refused");
    }
    if (follower->phase == DONE) {
        printf("\nindex and store agree: %" PRIu64 " keys (as of event %" PRIu64
               ")\n",
               follower->keys, follower->wanted_id);
    }
}

static void run(struct follower *follower)
{
    const char *line = pipe_line_read(&follower->writer, PATIENCE_MS);
    if (!line || strncmp(line, "ready ", strlen("ready ")) != 0) {
        fail(follower, "writer", "is not ready");
        return;
    }
    const char *endpoint = line + strlen("ready ");
    printf("%zu requests, %zu blocks, %zu different ones; the store holds %zu "
           "of %zu bytes; events on %s\n\n",
           follower->trace.count, follower->trace.blocks,
           follower->trace.distinct, trace_pool_blocks(&follower->trace),
           follower->options.block_bytes, endpoint);
    fflush(stdout);
    enum mc_err err = open_parts(follower, endpoint);
    if (err != MC_OK) {
        fail(follower, endpoint, mc_err_text(err));
        return;
    }
    follow(follower);
    if (follower->answered > 0) {
        show_end(follower);
    }
    tell(follower, follower->phase == DONE ? "done" : "failed", UINT64_MAX);
}

static void close_parts(struct follower *follower)
{
    mc_subscriber_close(follower->subscriber);
    if (follower->reader) {
        mc_index_reader_destroy(follower->reader);
    }
    mc_index_destroy(follower->index);
    FILE *files[] = {follower->record, follower->answers};
    for (size_t i = 0; i < 2; i++) {
        if (files[i]) {
            bool is_written = !ferror(files[i]);
            if (fclose(files[i]) != 0 || !is_written) {
                fail(follower, "file", "not all could be written");
            }
        }
    }
    report_fini(&follower->report);
    free(follower->chain);
    trace_free(&follower->trace);
}

int main(int argc, char **argv)
{
    struct follower follower = {.writer = {.fd = STDIN_FILENO}};
    signal(SIGPIPE, SIG_IGN);
    int code = options_read(argc, argv, "follower", &follower.options);
    if (code != 0) {
        return code;
    }
    follower.begin_ns = now_ns();
    if (!trace_read(follower.options.trace_path, &follower.trace)) {
        return 1;
    }
    follower.chain = malloc(follower.trace.longest * sizeof *follower.chain);
    if (!follower.chain || !report_init(&follower.report, &follower.trace)) {
        fail(&follower, "start", "out of memory");
    } else if (open_files(&follower)) {
        run(&follower);
    }
    close_parts(&follower);
    return follower.phase == DONE ? 0 : 1;
}
