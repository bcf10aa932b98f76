/* SPDX-License-Identifier: Apache-2.0 */
/* A follower that recovers, and beside it questions to the same recovery server
 * and master: what it holds is to be what they say. Both sides move while they
 * are compared, so a difference counts when a second comparison, a second later,
 * shows it with the same ids. */
#include <inttypes.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "tool_ask.h"
#include "tool_difference.h"
#include "tool_follow.h"
#include "tool_listed.h"

#define MS UINT64_C(1000000)
#define PATIENCE_DEFAULT_MS 10000
#define AGAIN_MS 1000
#define HEARTBEAT_MS 1500 /* by then one has come, unless there are none */
#define MESSAGES_PER_TURN 256
#define ATTEMPTS 5 /* at a snapshot of the epoch that is followed */

struct verify {
    const struct tool_args *args;
    struct mc_subscriber *subscriber;
    struct tool_ask ask;
    int poll_fd;   /* readable when either has something */
    bool is_heard; /* the stream itself */
    struct mc_event *events;
    struct tool_rowset held;
    struct tool_rowset stored;
    struct tool_differences found;
    uint64_t keys;
    uint64_t last_id;
};

/* ---- following -------------------------------------------------------- */

static int fail(const struct verify *verify, const char *where, enum mc_err err)
{
    return tool_fail(verify->args->command, "%s: %s (%d)", where,
                     mc_err_text(err), err);
}

static uint64_t patience_ms(const struct verify *verify)
{
    return verify->args->has_timeout ? verify->args->timeout_ms
                                     : PATIENCE_DEFAULT_MS;
}

/* Follows for up to wait_ms; less where there is something to do. */
static int follow(const struct verify *verify, int64_t wait_ms)
{
    size_t handled;
    if (tool_is_stopped()) {
        return TOOL_FAILED; /* said at the end, if it is to be */
    }
    if (!tool_wait(verify->poll_fd, 0)) {
        (void)tool_wait(verify->poll_fd, wait_ms);
    }
    enum mc_err err =
        mc_subscriber_poll(verify->subscriber, 0, MESSAGES_PER_TURN, &handled);
    return err ? fail(verify, verify->args->endpoint, err) : TOOL_DONE;
}

static int follow_for(const struct verify *verify, uint64_t ms)
{
    uint64_t end_ns = tool_now_ns() + ms * MS;
    int code = TOOL_DONE;
    while (code == TOOL_DONE && tool_now_ns() < end_ns) {
        uint64_t left_ns = end_ns - tool_now_ns();
        code = follow(verify, (int64_t)(left_ns / MS) + 1);
    }
    return code;
}

/* Whether nothing is to be made good and it has come as far as this id of this
 * run of the publisher, or to a later run. */
static bool has_reached(const struct mc_source_stats *stats, uint64_t epoch,
                        uint64_t id)
{
    return stats->has_baseline && !stats->is_recovering &&
           (stats->epoch == 0 || stats->epoch >= epoch) &&
           (stats->epoch > epoch || stats->last_event_id >= id);
}

/* Waits for that; fails when it has got no further for as long as one is
 * patient. */
static int await_id(const struct verify *verify, uint64_t epoch, uint64_t id)
{
    struct mc_source_stats stats;
    uint64_t progress = 0;
    uint64_t end_ns = tool_now_ns() + patience_ms(verify) * MS;
    for (;;) {
        mc_subscriber_stats(verify->subscriber, 0, &stats);
        if (has_reached(&stats, epoch, id)) {
            return TOOL_DONE;
        }
        uint64_t now = stats.events + stats.snapshot_rows;
        if (now != progress) {
            progress = now;
            end_ns = tool_now_ns() + patience_ms(verify) * MS;
        }
        if (tool_now_ns() >= end_ns) {
            return tool_fail(
                verify->args->command,
                "%s: stands at event %" PRIu64 " of %016" PRIx64
                "%s, and the store at %" PRIu64 " of %016" PRIx64,
                verify->args->endpoint, stats.last_event_id, stats.epoch,
                stats.is_recovering ? ", recovering" : "", id, epoch);
        }
        if (follow(verify, 50) != TOOL_DONE) {
            return TOOL_FAILED;
        }
    }
}

static void on_message(void *ctx, uint32_t source, const struct mc_view *frames,
                       size_t count)
{
    struct verify *verify = ctx;
    (void)source;
    (void)frames;
    (void)count;
    verify->is_heard = true;
}

/* Until the stream is heard and not only the recovery server, or nothing would be
 * proved of it. One that is at rest without heartbeats says nothing. */
static int await_stream(const struct verify *verify)
{
    struct mc_source_stats stats = {.is_connected = false};
    uint64_t end_ns = tool_now_ns() + patience_ms(verify) * MS;
    while (!verify->is_heard) {
        bool was_connected = stats.is_connected;
        mc_subscriber_stats(verify->subscriber, 0, &stats);
        if (stats.is_connected && !was_connected) {
            end_ns = tool_now_ns() + HEARTBEAT_MS * MS;
        }
        if (tool_now_ns() >= end_ns && stats.is_connected) {
            tool_say(verify->args->command,
                     "%s: nothing comes from there, not even heartbeats",
                     verify->args->endpoint);
            break;
        }
        if (tool_now_ns() >= end_ns) {
            return tool_fail(verify->args->command,
                             "%s: nobody publishes there, and %s answers",
                             verify->args->endpoint, verify->args->recovery);
        }
        if (follow(verify, 50) != TOOL_DONE) {
            return TOOL_FAILED;
        }
    }
    return TOOL_DONE;
}

/* ---- what the store says ---------------------------------------------- */

static int add_rows(struct verify *verify, const struct mc_answer *answer)
{
    struct mc_event_batch batch;
    struct mc_event_fault fault;
    if (mc_event_read(answer->frames, MC_ANSWER_FRAMES, verify->events,
                      MC_EVENT_COUNT_MAX, &batch, &fault) != MC_EVENT_OK ||
        batch.refused > 0) {
        return tool_fail(verify->args->command,
                         "%s: rows of the snapshot cannot be read",
                         verify->args->recovery);
    }
    for (uint32_t i = 0; i < batch.count; i++) {
        const struct mc_event *event = &verify->events[i];
        const struct tool_names names = {event->tenant_id, event->object_key,
                                         event->medium, event->session_id,
                                         event->group_id};
        tool_rowset_add(&verify->stored, &names, event->event_id);
    }
    return TOOL_DONE;
}

/* Reads answers, to the last one, while following goes on. */
static int read_answers(struct verify *verify, struct mc_answer *last_out)
{
    uint64_t end_ns = tool_now_ns() + patience_ms(verify) * MS;
    int code = TOOL_DONE;
    for (;;) {
        enum mc_err err = mc_ask_next(verify->ask.ask, 0, last_out);
        if (err == MC_ERR_RPC_TIMEOUT) {
            if (tool_now_ns() >= end_ns) {
                return fail(verify, verify->args->recovery, err);
            }
            code = follow(verify, 50);
        } else if (err) {
            return fail(verify, verify->args->recovery, err);
        } else {
            end_ns = tool_now_ns() + patience_ms(verify) * MS;
            code = tool_ask_judge(&verify->ask, last_out);
            if (code == TOOL_DONE && last_out->type == MC_ANSWER_ROWS) {
                code = add_rows(verify, last_out);
            }
        }
        if (code != TOOL_DONE ||
            (!err && (last_out->type == MC_ANSWER_LAST ||
                      last_out->type == MC_ANSWER_STATUS))) {
            return code;
        }
    }
}

/* A snapshot of the run that is followed, with the follower as far as its end.
 * Where the master has started again in between, another one. */
static int take_snapshot(struct verify *verify)
{
    for (int i = 0; i < ATTEMPTS; i++) {
        struct mc_answer last;
        struct mc_source_stats stats;
        tool_rowset_clear(&verify->stored);
        int code = tool_ask_begun(
            &verify->ask,
            mc_ask_snapshot(verify->ask.ask, mc_view_make(NULL, 0)));
        if (code == TOOL_DONE) {
            code = read_answers(verify, &last);
        }
        if (code == TOOL_DONE) {
            code = await_id(verify, last.epoch, last.last_id);
        }
        if (code != TOOL_DONE) {
            return code;
        }
        mc_subscriber_stats(verify->subscriber, 0, &stats);
        if (stats.epoch == last.epoch || stats.epoch == 0) {
            verify->last_id = last.last_id;
            return TOOL_DONE;
        }
    }
    return tool_fail(verify->args->command,
                     "%s: answers for an earlier run of %s, again and again",
                     verify->args->recovery, verify->args->endpoint);
}

/* Follows as far as the store is now. */
static int catch_up(struct verify *verify)
{
    struct mc_answer status;
    int code = tool_ask_begun(&verify->ask, mc_ask_status(verify->ask.ask));
    if (code == TOOL_DONE) {
        code = read_answers(verify, &status);
    }
    return code ? code : await_id(verify, status.epoch, status.last_id);
}

/* ---- comparing -------------------------------------------------------- */

static bool on_entry(void *ctx, const struct mc_mirror_entry *entry)
{
    struct tool_rowset *held = ctx;
    const struct tool_names names = {entry->tenant_id, entry->object_key,
                                     entry->medium, entry->session_id,
                                     entry->group_id};
    tool_rowset_add(held, &names, entry->event_id);
    return !held->is_failed;
}

static void gather_held(struct verify *verify)
{
    tool_rowset_clear(&verify->held);
    mc_subscriber_mirror_walk(verify->subscriber, on_entry, &verify->held);
    tool_rowset_sort(&verify->held);
}

/* How many different keys there are in a sorted set. */
static uint64_t count_keys(const struct tool_rowset *set)
{
    uint64_t count = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct tool_names *names = &set->rows[i].names;
        const struct tool_names *before = i ? &set->rows[i - 1].names : NULL;
        count += !before || !mc_view_equal(before->tenant, names->tenant) ||
                 !mc_view_equal(before->key, names->key);
    }
    return count;
}

static int compare_keys(struct verify *verify)
{
    struct tool_rowset listed = {0};
    struct tool_rowset keys = {0};
    int code = tool_listed_keys(verify->args, &verify->held, &listed);
    if (code == TOOL_DONE) {
        code = catch_up(verify);
    }
    if (code == TOOL_DONE) {
        gather_held(verify);
        tool_listed_spell(&verify->held, &keys);
        tool_rowset_compare(&keys, &listed, tool_differences_add_key,
                            &verify->found);
        verify->found.is_failed |= listed.is_failed || keys.is_failed;
    }
    tool_rowset_clear(&listed);
    tool_rowset_clear(&keys);
    return code;
}

/* Into `found`. */
static int compare(struct verify *verify)
{
    tool_differences_clear(&verify->found);
    int code = take_snapshot(verify);
    if (code != TOOL_DONE) {
        return code;
    }
    gather_held(verify);
    tool_rowset_sort(&verify->stored);
    verify->keys = count_keys(&verify->held);
    verify->found.is_failed =
        verify->held.is_failed || verify->stored.is_failed;
    tool_rowset_compare(&verify->held, &verify->stored, tool_differences_add,
                        &verify->found);
    tool_rowset_clear(&verify->stored);
    if (verify->args->admin) {
        code = compare_keys(verify);
    }
    tool_rowset_clear(&verify->held);
    if (code == TOOL_DONE && verify->found.is_failed) {
        code = tool_fail(verify->args->command, "out of memory");
    }
    tool_differences_sort(&verify->found);
    return code;
}

/* Compares, and where that shows something, again. */
static int compare_twice(struct verify *verify)
{
    int code = compare(verify);
    if (code != TOOL_DONE || verify->found.count == 0) {
        return code;
    }
    struct tool_differences earlier = verify->found;
    verify->found = (struct tool_differences){0};
    code = follow_for(verify, AGAIN_MS);
    if (code == TOOL_DONE) {
        code = compare(verify);
    }
    tool_differences_keep(&verify->found, &earlier);
    tool_differences_clear(&earlier);
    return code;
}

/* ---- telling ---------------------------------------------------------- */

static int show(struct verify *verify)
{
    struct tool_line line = {0};
    const struct tool_differences *found = &verify->found;
    bool is_json = verify->args->json;
    for (size_t i = 0; i < found->count; i++) {
        if (is_json) {
            tool_difference_json(&line, &found->rows[i]);
        } else {
            tool_difference_text(&line, &found->rows[i]);
        }
        (void)tool_line_write(&line, stdout);
    }
    if (found->count == 0 && is_json) {
        tool_line_open(&line, NULL, '{');
        tool_line_number(&line, "ok_keys", verify->keys);
        tool_line_number(&line, "last_id", verify->last_id);
        tool_line_close(&line, '}');
        (void)tool_line_write(&line, stdout);
    } else if (found->count == 0) {
        tool_line_format(&line, "ok %" PRIu64 " keys", verify->keys);
        (void)tool_line_write(&line, stdout);
    }
    tool_line_fini(&line);
    int code = tool_flush(verify->args->command);
    if (found->count > 0) {
        code = tool_fail(verify->args->command,
                         "%zu differences, of %" PRIu64 " keys", found->count,
                         verify->keys);
    }
    return code;
}

/* ---- the subcommand --------------------------------------------------- */

static int watch(const struct verify *verify, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data = {.fd = fd}};
    return epoll_ctl(verify->poll_fd, EPOLL_CTL_ADD, fd, &event) == 0
               ? TOOL_DONE
               : tool_fail(verify->args->command, "epoll: no descriptors left");
}

static int open_follower(struct verify *verify)
{
    struct mc_source_opts source;
    tool_source_opts(verify->args, &source);
    source.begin = MC_BEGIN_SNAPSHOT;
    const struct mc_subscriber_opts opts = {.sources = &source,
                                            .source_count = 1,
                                            .on_message = on_message,
                                            .ctx = verify};
    enum mc_err err = mc_subscriber_open(&opts, &verify->subscriber);
    return err ? fail(verify, verify->args->endpoint, err) : TOOL_DONE;
}

static int open_all(struct verify *verify)
{
    verify->events = calloc(MC_EVENT_COUNT_MAX, sizeof *verify->events);
    verify->poll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (!verify->events || verify->poll_fd < 0) {
        return tool_fail(verify->args->command, "out of memory");
    }
    int code = open_follower(verify);
    code = code ? code : tool_ask_open(&verify->ask, verify->args);
    code = code ? code : watch(verify, mc_subscriber_fd(verify->subscriber));
    return code ? code : watch(verify, mc_ask_fd(verify->ask.ask));
}

static void close_all(struct verify *verify)
{
    tool_differences_clear(&verify->found);
    tool_rowset_clear(&verify->held);
    tool_rowset_clear(&verify->stored);
    tool_ask_close(&verify->ask);
    mc_subscriber_close(verify->subscriber);
    free(verify->events);
    if (verify->poll_fd >= 0) {
        close(verify->poll_fd);
    }
}

static int verify_on(struct verify *verify)
{
    const struct tool_args *args = verify->args;
    int code = await_id(verify, 0, 0);
    code = code ? code : await_stream(verify);
    while (code == TOOL_DONE) {
        code = compare_twice(verify);
        code = code ? code : show(verify);
        if (code != TOOL_DONE || !args->has_every || tool_is_unread()) {
            break;
        }
        code = follow_for(verify, args->every_ms);
    }
    return code;
}

/* With --every being told to end is a good end. */
static int run(const struct tool_args *args)
{
    struct verify verify = {.args = args, .poll_fd = -1};
    if (args->is_engine) {
        return tool_wrong_use(args->command, "--profile engine: an engine has "
                                             "no snapshot to compare with");
    }
    int code = open_all(&verify);
    code = code ? code : verify_on(&verify);
    if (code != TOOL_DONE && tool_is_stopped() && verify.found.count == 0) {
        code = args->has_every ? TOOL_DONE
                               : tool_fail(args->command, "interrupted");
    }
    if (verify.subscriber) {
        struct mc_source_stats stats;
        mc_subscriber_stats(verify.subscriber, 0, &stats);
        tool_follow_summary(args->command, &stats);
    }
    close_all(&verify);
    return code;
}

const struct tool_command tool_verify = {
    .name = "verify",
    .operands = "",
    .options = TOOL_ENDPOINT | TOOL_LISTEN | TOOL_TOPIC | TOOL_TIMEOUT |
               TOOL_ADMIN | TOOL_EVERY | TOOL_JSON,
    .summary = "whether following ends where the store stands",
    .explanation =
        "Follows the events with recovery, then compares what that gives with\n"
        "a fresh snapshot, and with --admin also with the keys of the master.\n"
        "Prints \"ok N keys\", or the differences, and then exits with 1: "
        "what\n"
        "two comparisons a second apart show with the same event ids. With\n"
        "--every it goes on until there is one, or it is told to end.",
    .example = "mc-events verify --admin http://127.0.0.1:9003 --every 10s",
    .run = run,
};
