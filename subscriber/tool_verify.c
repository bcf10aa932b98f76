/* SPDX-License-Identifier: Apache-2.0 */
/* A follower that recovers, and beside it questions to the same recovery server
 * and master: what it holds is to be what they say. Both sides move while they
 * are compared, so a difference counts when a second comparison, a second later,
 * shows it with the same ids. */
#include <inttypes.h>
#include <stdlib.h>

#include "tool_ask.h"
#include "tool_difference.h"
#include "tool_listed.h"
#include "tool_live.h"

#define MS UINT64_C(1000000)
#define AGAIN_MS 1000
#define ATTEMPTS 5 /* at a snapshot of the epoch that is followed */

struct verify {
    const struct tool_args *args;
    struct tool_live live;
    struct tool_ask ask;
    struct mc_event *events;
    struct tool_rowset held;
    struct tool_rowset stored;
    struct tool_differences found;
    uint64_t keys;
    uint64_t last_id;
};

static int fail(const struct verify *verify, const char *where, enum mc_err err)
{
    return tool_fail(verify->args->command, "%s: %s (%d)", where,
                     mc_err_text(err), err);
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
    uint64_t end_ns = tool_now_ns() + tool_live_patience_ms(&verify->live) * MS;
    int code = TOOL_DONE;
    for (;;) {
        enum mc_err err = mc_ask_next(verify->ask.ask, 0, last_out);
        if (err == MC_ERR_RPC_TIMEOUT) {
            if (tool_now_ns() >= end_ns) {
                return fail(verify, verify->args->recovery, err);
            }
            code = tool_live_turn(&verify->live, 50);
        } else if (err) {
            return fail(verify, verify->args->recovery, err);
        } else {
            end_ns = tool_now_ns() + tool_live_patience_ms(&verify->live) * MS;
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
            code = tool_live_reach(&verify->live, last.epoch, last.last_id);
        }
        if (code != TOOL_DONE) {
            return code;
        }
        mc_subscriber_stats(verify->live.subscriber, 0, &stats);
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
    return code ? code
                : tool_live_reach(&verify->live, status.epoch, status.last_id);
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
    mc_subscriber_mirror_walk(verify->live.subscriber, on_entry, &verify->held);
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

/* Compares again after a while: what is left of what was found before. */
static int compare_again(struct verify *verify)
{
    struct tool_differences earlier = verify->found;
    verify->found = (struct tool_differences){0};
    int code = tool_live_for(&verify->live, AGAIN_MS);
    if (code == TOOL_DONE) {
        code = compare(verify);
    }
    tool_differences_keep(&verify->found, &earlier);
    tool_differences_clear(&earlier);
    return code;
}

/* What is found counts if it stays. While it becomes less, something is under
 * way: keys of a node that is gone are not listed from that moment on, but their
 * events come as fast as the master takes them out. */
static int compare_until_it_stays(struct verify *verify)
{
    size_t before = SIZE_MAX;
    int code = compare(verify);
    while (code == TOOL_DONE && verify->found.count > 0 &&
           verify->found.count < before) {
        before = verify->found.count;
        code = compare_again(verify);
    }
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

static int open_all(struct verify *verify)
{
    const struct tool_args *args = verify->args;
    verify->events = calloc(MC_EVENT_COUNT_MAX, sizeof *verify->events);
    if (!verify->events) {
        return tool_fail(args->command, "out of memory");
    }
    int code = tool_live_open(&verify->live, args, MC_BEGIN_SNAPSHOT, NULL);
    code = code ? code : tool_ask_open(&verify->ask, args);
    return code ? code
                : tool_live_watch(&verify->live, mc_ask_fd(verify->ask.ask));
}

static void close_all(struct verify *verify)
{
    tool_differences_clear(&verify->found);
    tool_rowset_clear(&verify->held);
    tool_rowset_clear(&verify->stored);
    tool_ask_close(&verify->ask);
    tool_live_close(&verify->live);
    free(verify->events);
}

static int verify_on(struct verify *verify)
{
    const struct tool_args *args = verify->args;
    int code = tool_live_reach(&verify->live, 0, 0);
    code = code ? code : tool_live_hear(&verify->live);
    while (code == TOOL_DONE) {
        code = compare_until_it_stays(verify);
        code = code ? code : show(verify);
        if (code != TOOL_DONE || !args->has_every || tool_is_unread()) {
            break;
        }
        code = tool_live_for(&verify->live, args->every_ms);
    }
    return code;
}

/* With --every being told to end is a good end. */
static int run(const struct tool_args *args)
{
    struct verify verify = {.args = args};
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
    close_all(&verify);
    return code;
}

const struct tool_command tool_verify = {
    .name = "verify",
    .operands = "",
    .options = TOOL_ENDPOINT | TOOL_LISTEN | TOOL_TOPIC | TOOL_TIMEOUT |
               TOOL_ADMIN | TOOL_AGAIN | TOOL_JSON,
    .summary = "whether following ends where the store stands",
    .explanation =
        "Follows the events with recovery, then compares what that gives with\n"
        "a fresh snapshot, and with --admin also with the keys of the master.\n"
        "Prints \"ok N keys\", or the differences, and then exits with 1: "
        "what\n"
        "two comparisons a second apart show with the same event ids, once it\n"
        "does not become less. With --every it goes on until there is one, or\n"
        "it is told to end.",
    .example = "mc-events verify --admin http://127.0.0.1:9003 --every 10s",
    .run = run,
};
