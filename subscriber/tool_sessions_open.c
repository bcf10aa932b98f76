/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tool_follow.h"
#include "tool_session.h"
#include "tool_snapshot.h"

/* As many as an index takes: each block of a store is a head by itself. */
#define HEADS_MAX 65536

static int fail(const struct tool_args *args, enum mc_err err)
{
    return tool_fail(args->command, "%s: %s (%d)", args->recovery,
                     mc_err_text(err), err);
}

static int index_open(struct tool_sessions *sessions)
{
    struct mc_index_opts opts = {.max_readers = 1, .max_heads = HEADS_MAX};
    if (!tool_args_layout(sessions->args, &opts.layout) &&
        mc_key_layout_parse(mc_view_str("u64"), mc_view_str(""),
                            &opts.layout) != MC_OK) {
        return TOOL_FAILED;
    }
    enum mc_err err = mc_index_create(&opts, &sessions->index);
    if (!err) {
        err = mc_index_reader_create(sessions->index, &sessions->reader);
    }
    return err ? fail(sessions->args, err) : TOOL_DONE;
}

/* ---- of a store ------------------------------------------------------- */

static int on_row(void *ctx, const struct mc_event *event)
{
    const struct tool_sessions *sessions = ctx;
    (void)mc_index_stored(sessions->index, event->tenant_id, event->backend_id,
                          event->object_key, event->medium, event->session_id);
    return TOOL_DONE;
}

static int fill_from_store(struct tool_sessions *sessions)
{
    struct tool_snapshot snapshot = {
        .args = sessions->args, .on_row = on_row, .ctx = sessions};
    int code = tool_snapshot_run(&snapshot);
    if (snapshot.refused > 0) {
        tool_say(sessions->args->command, "%" PRIu64 " rows were refused",
                 snapshot.refused);
    }
    return code;
}

/* ---- of an engine ----------------------------------------------------- */

static int play(struct tool_ask *ask, struct mc_subscriber *subscriber)
{
    struct mc_answer answer;
    for (;;) {
        int code = tool_ask_next(ask, &answer);
        if (code != TOOL_DONE || answer.type == MC_ANSWER_END) {
            return code;
        }
        enum mc_err err = mc_subscriber_inject(subscriber, 0, answer.frames,
                                               MC_ANSWER_FRAMES);
        if (err) {
            return fail(ask->args, err);
        }
    }
}

static int fill_from_engine(struct tool_sessions *sessions)
{
    const struct tool_args *args = sessions->args;
    const struct mc_source_opts source = {.profile = MC_PROFILE_ENGINE,
                                          .worker = TOOL_WORKER,
                                          .tenant = args->tenant};
    const struct mc_subscriber_opts opts = {.sources = &source,
                                            .source_count = 1,
                                            .no_mirror = true,
                                            .index = sessions->index};
    struct mc_subscriber *subscriber = NULL;
    struct tool_ask ask = {0};
    enum mc_err err = mc_subscriber_open(&opts, &subscriber);
    int code = err ? fail(args, err) : tool_ask_open(&ask, args);
    if (code == TOOL_DONE) {
        code = tool_ask_begun(&ask, mc_ask_replay(ask.ask, 0, 0));
    }
    if (code == TOOL_DONE) {
        code = play(&ask, subscriber);
    }
    tool_ask_close(&ask);
    mc_subscriber_close(subscriber);
    return code;
}

/* A layout that matches nothing is a mistake more often than an empty store. */
static void look_at_stats(const struct tool_sessions *sessions)
{
    struct mc_index_stats stats;
    mc_index_stats(sessions->index, &stats);
    if (stats.matched_keys == 0 && stats.foreign_keys > 0) {
        tool_say(sessions->args->command,
                 "none of %" PRIu64 " keys is of the layout: see --layout and "
                 "--prefix",
                 stats.foreign_keys);
    }
    if (stats.dropped_heads > 0) {
        tool_say(sessions->args->command,
                 "a session is shown with %d of its heads: %" PRIu64
                 " were let go",
                 HEADS_MAX, stats.dropped_heads);
    }
    if (stats.refused_changes > 0) {
        tool_say(sessions->args->command,
                 "the index is full: %" PRIu64 " changes were left out",
                 stats.refused_changes);
    }
}

/* ---- as events come --------------------------------------------------- */

/* A store is followed from a snapshot on, an engine from the oldest message that
 * it keeps. */
static int follow(struct tool_sessions *sessions)
{
    const struct tool_args *args = sessions->args;
    int code = tool_live_open(
        &sessions->live, args,
        args->is_engine ? MC_BEGIN_SEQ : MC_BEGIN_SNAPSHOT, sessions->index);
    code = code ? code : tool_live_hear(&sessions->live);
    return code ? code : tool_live_reach(&sessions->live, 0, 0);
}

/* Answers after each pause. Where one draws on a terminal, in place. */
static int answer_on(struct tool_sessions *sessions, tool_sessions_fn answer,
                     void *ctx)
{
    const struct tool_args *args = sessions->args;
    for (;;) {
        if (args->has_every && !args->json && tool_is_colored()) {
            (void)fputs("\033[H\033[J", stdout);
        }
        int code = answer(sessions, ctx);
        code = code ? code : tool_flush(args->command);
        if (code != TOOL_DONE || !args->has_every || tool_is_unread()) {
            return code;
        }
        code = tool_live_for(&sessions->live, args->every_ms);
        if (code != TOOL_DONE) {
            return code;
        }
    }
}

/* ---- asking ----------------------------------------------------------- */

static int fill(struct tool_sessions *sessions)
{
    const struct tool_args *args = sessions->args;
    int code = index_open(sessions);
    if (code != TOOL_DONE) {
        return code;
    }
    code = args->endpoint    ? follow(sessions)
           : args->is_engine ? fill_from_engine(sessions)
                             : fill_from_store(sessions);
    if (code == TOOL_DONE) {
        look_at_stats(sessions);
    }
    return code;
}

int tool_sessions_run(const struct tool_args *args, tool_sessions_fn answer,
                      void *ctx)
{
    struct tool_args own = *args;
    struct tool_sessions sessions = {.args = &own};
    if (own.has_every && own.every_ms == 0) {
        return tool_wrong_use(own.command, "--every: is more than nothing");
    }
    if (!own.endpoint && own.has_every) {
        own.endpoint = TOOL_ENDPOINT_DEFAULT;
    }
    int code = fill(&sessions);
    code = code ? code : answer_on(&sessions, answer, ctx);
    if (code != TOOL_DONE && tool_is_stopped() && sessions.live.subscriber) {
        code =
            own.has_every ? TOOL_DONE : tool_fail(own.command, "interrupted");
    }
    tool_live_close(&sessions.live);
    if (sessions.reader) {
        mc_index_reader_destroy(sessions.reader);
    }
    mc_index_destroy(sessions.index);
    return code;
}

/* Nothing is applied meanwhile, so a second look finds as much as the first. */
struct mc_index_place *tool_sessions_places(struct tool_sessions *sessions,
                                            struct mc_view tenant,
                                            struct mc_view session,
                                            size_t *count_out)
{
    uint64_t blocks;
    size_t count =
        mc_index_resident(sessions->reader, tenant, session, NULL, 0, &blocks);
    if (count == SIZE_MAX) {
        return NULL;
    }
    struct mc_index_place *places = calloc(count + 1, sizeof *places);
    if (places && mc_index_resident(sessions->reader, tenant, session, places,
                                    count, &blocks) != count) {
        free(places);
        return NULL;
    }
    *count_out = count;
    return places;
}

void tool_sessions_json(struct tool_line *line,
                        const struct mc_index_place *places, size_t count)
{
    tool_line_open(line, "resident", '[');
    for (size_t i = 0; i < count; i++) {
        tool_line_open(line, NULL, '{');
        tool_line_text(line, "owner", places[i].owner);
        tool_line_text(line, "tier", mc_view_str(mc_tier_name(places[i].tier)));
        tool_line_number(line, "blocks", places[i].blocks);
        tool_line_number(line, "prefix", places[i].prefix);
        tool_line_close(line, '}');
    }
    tool_line_close(line, ']');
}
