/* SPDX-License-Identifier: Apache-2.0 */
/* Messages in, events and signals out: what is said in which order, what mirror
 * and index have seen when it is said, and that nothing is lost in silence. */
#include <inttypes.h>
#include <stdio.h>

#include "alloc_fail.h"
#include "event_message.h"
#include "stream.h"
#include "suite.h"

#define EPOCH UINT64_C(0x0123456789abcdef)
#define LOG_MAX 65536

/* A stream and all that it said, as text: events "+key" "-key" "*", signals
 * "gap 3-4" "epoch" "degraded utf8" "stale"; what the index heard in brackets,
 * before the event that it belongs to. */
struct rig {
    struct stream *stream;
    struct event_message message;
    char log[LOG_MAX];
    size_t log_len;
    bool is_index_full;
    bool is_index_stuck; /* at the next removed */
    bool has_no_memory;  /* once more after the next stale */
    int64_t blocks;      /* of mci_alloc before the stream was made */
};

static void say(struct rig *rig, const char *sign, struct mc_view text,
                const char *end)
{
    int len = snprintf(rig->log + rig->log_len, LOG_MAX - rig->log_len,
                       "%s%.*s%s ", sign, (int)text.len,
                       text.data ? (const char *)text.data : "", end);
    ck_assert_int_gt(len, 0);
    rig->log_len += (size_t)len;
    ck_assert_uint_lt(rig->log_len, LOG_MAX);
}

static bool hear_stored(void *ctx, const struct mc_event *event)
{
    struct rig *rig = ctx;
    say(rig, "[+", event->object_key, "]");
    return !rig->is_index_full;
}

static bool hear_replaced(void *ctx, const struct mc_event *event)
{
    struct rig *rig = ctx;
    say(rig, "[=", event->object_key, "]");
    return !rig->is_index_full;
}

static bool hear_removed(void *ctx, const struct mc_event *event)
{
    struct rig *rig = ctx;
    say(rig, "[-", event->object_key, "]");
    bool is_stuck = rig->is_index_stuck;
    rig->is_index_stuck = false;
    return !is_stuck;
}

static void hear_cleared(void *ctx, const struct mc_event *event)
{
    say(ctx, "[clear ", event->tenant_id, "]");
}

static void hear_lost(void *ctx, struct mc_view backend_id)
{
    say(ctx, "[lose ", backend_id, "]");
}

static void say_blocks(struct rig *rig, const char *sign,
                       const struct mc_index_engine *engine, size_t count)
{
    char text[32];
    (void)snprintf(text, sizeof text, " %zu]", count);
    say(rig, sign, engine->worker, text);
}

static bool hear_blocks_stored(void *ctx, const struct mc_index_engine *engine,
                               const struct engine_blocks *blocks)
{
    struct rig *rig = ctx;
    say_blocks(rig, "[+", engine, blocks->count);
    return !rig->is_index_full;
}

static bool hear_blocks_removed(void *ctx, const struct mc_index_engine *engine,
                                const struct engine_blocks *blocks)
{
    struct rig *rig = ctx;
    say_blocks(rig, "[-", engine, blocks->count);
    bool is_stuck = rig->is_index_stuck;
    rig->is_index_stuck = false;
    return !is_stuck;
}

static void hear_blocks_cleared(void *ctx, const struct mc_index_engine *engine)
{
    say_blocks(ctx, "[clear ", engine, 0);
}

/* What the mirror holds must be as of this very event. */
static void check_prefix(struct rig *rig, const struct mc_event *event)
{
    const struct mirror *mirror = stream_mirror(rig->stream, 0);
    struct mirror_row row;
    bool is_there =
        mirror && mirror_find(mirror, event->tenant_id, event->object_key,
                              event->medium, &row);
    ck_assert(is_there == (mirror && event->type == MC_EVENT_STORED));
}

static void on_event(void *ctx, const struct mc_delivery *delivery)
{
    struct rig *rig = ctx;
    const struct mc_event *event = delivery->event;
    if (delivery->source == 0) {
        check_prefix(rig, event);
    }
    if (event->type == MC_EVENT_STORED) {
        say(rig, delivery->replaces ? "=" : "+", event->object_key, "");
    } else if (event->type == MC_EVENT_REMOVED) {
        say(rig, "-", event->object_key, "");
    } else {
        say(rig, "*", event->tenant_id, "");
    }
}

static void on_signal(void *ctx, const struct mc_signal *signal)
{
    char text[96] = "";
    if (signal->type == MC_SIGNAL_GAP) {
        (void)snprintf(text, sizeof text, "%" PRIu64 "-%" PRIu64,
                       signal->from_id, signal->to_id);
        say(ctx, "gap ", mc_view_str(text), "");
    } else if (signal->type == MC_SIGNAL_EPOCH) {
        (void)snprintf(text, sizeof text, "%" PRIx64 " %" PRIu64, signal->epoch,
                       signal->to_id);
        say(ctx, "epoch ", mc_view_str(text), "");
    } else if (signal->type == MC_SIGNAL_DEGRADED) {
        say(ctx, "degraded ", mc_view_str(mc_event_error_name(signal->reason)),
            "");
    } else {
        struct rig *rig = ctx;
        say(ctx, "stale", mc_view_str(""), "");
        if (rig->has_no_memory) {
            rig->has_no_memory = false;
            (void)mci_alloc_fail_at(1);
        }
    }
}

static struct stream_opts opts_of(struct rig *rig)
{
    return (struct stream_opts){
        .source_count = 2,
        .max_events = 256,
        .max_mirror_entries = 1000,
        .sink = {.ctx = rig,
                 .stored = hear_stored,
                 .replaced = hear_replaced,
                 .removed = hear_removed,
                 .cleared = hear_cleared,
                 .lost = hear_lost,
                 .blocks_stored = hear_blocks_stored,
                 .blocks_removed = hear_blocks_removed,
                 .blocks_cleared = hear_blocks_cleared},
        .on_event = on_event,
        .on_signal = on_signal,
        .ctx = rig,
    };
}

static struct rig *rig_make_with(const struct stream_opts *opts)
{
    struct rig *rig = opts->ctx;
    struct mci_alloc_stats stats;
    mci_alloc_stats(&stats);
    rig->blocks = stats.blocks;
    ck_assert_int_eq(stream_create(opts, &rig->stream), MC_OK);
    rig->message.seq = 1;
    rig->message.epoch = EPOCH;
    return rig;
}

static struct rig *rig_make(void)
{
    struct rig *rig = calloc(1, sizeof *rig);
    ck_assert_ptr_nonnull(rig);
    struct stream_opts opts = opts_of(rig);
    return rig_make_with(&opts);
}

/* H.5, at every quiet point. */
static void check_sum(struct rig *rig)
{
    for (uint32_t source = 0; source < 2; source++) {
        struct mc_source_stats stats;
        stream_stats(rig->stream, source, &stats);
        ck_assert_uint_eq(stats.events + stats.refused_ids + stats.lost_ids,
                          stats.span_ids);
    }
}

static void rig_free(struct rig *rig)
{
    check_sum(rig);
    stream_destroy(rig->stream);
    struct mci_alloc_stats stats;
    mci_alloc_stats(&stats);
    ck_assert_int_eq(stats.blocks, rig->blocks);
    free(rig);
}

static void feed_frames(struct rig *rig, uint32_t source,
                        const struct mc_view *frames, size_t count)
{
    struct mc_subscriber_item item;
    stream_take(rig->stream, source, frames, count, 1);
    while (stream_step(rig->stream, &item)) {
        ck_assert(!item.delivery != !item.signal);
    }
    ck_assert(stream_is_done(rig->stream));
    check_sum(rig);
}

/* Sends the message that was built to source 0 and begins the next one. */
static void feed(struct rig *rig)
{
    event_message_frames(&rig->message);
    feed_frames(rig, 0, rig->message.frames, 3);
    event_message_next(&rig->message);
}

static void check_log(struct rig *rig, const char *want)
{
    ck_assert_str_eq(rig->log, want);
    rig->log_len = 0;
    rig->log[0] = '\0';
}

/* One message with one stored, told and forgotten. */
static void feed_one(struct rig *rig, uint64_t id, const char *key)
{
    event_message_stored(&rig->message, id, key, NULL);
    feed(rig);
}

static void begin_with(struct rig *rig, const char *key)
{
    feed_one(rig, 1, key);
    rig->log_len = 0;
    rig->log[0] = '\0';
}

static struct mc_source_stats stats_of(struct rig *rig)
{
    struct mc_source_stats stats = {.epoch = 0};
    stream_stats(rig->stream, 0, &stats);
    return stats;
}

START_TEST(events_are_applied_one_by_one_before_each_is_told)
{
    struct rig *rig = rig_make();
    event_message_stored(&rig->message, 1, "a", "s");
    event_message_stored(&rig->message, 2, "b", "s");
    event_message_removed(&rig->message, 3, "a");
    event_message_cleared(&rig->message, 4);
    feed(rig);
    check_log(rig, "epoch 123456789abcdef 0 [+a] +a [+b] +b [-a] -a "
                   "[clear default] *default ");
    struct mc_source_stats stats = stats_of(rig);
    ck_assert_uint_eq(stats.events, 4);
    ck_assert_uint_eq(stats.stored, 2);
    ck_assert_uint_eq(stats.removed, 1);
    ck_assert_uint_eq(stats.cleared, 1);
    ck_assert_uint_eq(stats.mirror_entries, 0);
    ck_assert_uint_eq(stats.epoch, EPOCH);
    ck_assert_uint_eq(stats.last_event_id, 4);
    ck_assert_uint_eq(stats.contradictions, 0);
    rig_free(rig);
}
END_TEST

START_TEST(a_late_joiner_is_told_what_it_does_not_know)
{
    struct rig *rig = rig_make();
    rig->message.seq = 70;
    feed_one(rig, 501, "a");
    check_log(rig, "epoch 123456789abcdef 500 [+a] +a ");
    struct mc_source_stats stats = stats_of(rig);
    ck_assert(stats.has_baseline);
    ck_assert_uint_eq(stats.baseline_id, 500);
    ck_assert_uint_eq(stats.gaps, 0);
    /* Then a removed of what was stored before us is no contradiction. */
    event_message_removed(&rig->message, 502, "old");
    feed(rig);
    ck_assert_uint_eq(stats_of(rig).contradictions, 0);
    rig_free(rig);
}
END_TEST

START_TEST(a_gap_is_told_then_stale_then_the_event_is)
{
    struct rig *rig = rig_make();
    begin_with(rig, "a");
    rig->message.seq = 4;
    event_message_stored(&rig->message, 9, "b", NULL);
    event_message_stored(&rig->message, 10, "c", NULL);
    feed(rig);
    check_log(rig, "[lose n1] gap 2-8 stale [+b] +b [+c] +c ");
    struct mc_source_stats stats = stats_of(rig);
    ck_assert_uint_eq(stats.lost_ids, 7);
    ck_assert_uint_eq(stats.lost_seqs, 2);
    ck_assert_uint_eq(stats.gaps, 1);
    ck_assert_uint_eq(stats.stales, 1);
    ck_assert_uint_eq(stats.mirror_entries, 2);
    rig_free(rig);
}
END_TEST

START_TEST(a_hole_inside_a_message_is_told_before_its_event)
{
    struct rig *rig = rig_make();
    begin_with(rig, "a");
    event_message_stored(&rig->message, 2, "b", NULL);
    event_message_stored(&rig->message, 5, "c", NULL);
    feed(rig);
    check_log(rig, "[+b] +b [lose n1] gap 3-4 stale [+c] +c ");
    ck_assert_uint_eq(stats_of(rig).mirror_entries, 1);
    rig_free(rig);
}
END_TEST

START_TEST(an_epoch_inside_a_message_is_told_before_its_event)
{
    struct rig *rig = rig_make();
    begin_with(rig, "a");
    event_message_stored(&rig->message, 2, "b", NULL);
    rig->message.epoch = EPOCH + 1;
    event_message_stored(&rig->message, 1, "c", NULL);
    feed(rig);
    check_log(rig, "[+b] +b [lose n1] epoch 123456789abcdf0 0 stale [+c] +c ");
    rig_free(rig);
}
END_TEST

START_TEST(two_gaps_in_a_row_say_stale_once_if_nothing_came_between)
{
    struct rig *rig = rig_make();
    begin_with(rig, "a");
    rig->message.seq = 5; /* heartbeats show both gaps */
    feed(rig);
    rig->message.seq = 9;
    feed(rig);
    check_log(rig, "[lose n1] gap 0-0 stale gap 0-0 ");
    rig_free(rig);
}
END_TEST

START_TEST(duplicates_are_counted_and_not_told)
{
    struct rig *rig = rig_make();
    begin_with(rig, "a");
    rig->message.seq = 1;
    feed_one(rig, 1, "a");
    check_log(rig, "");
    ck_assert_uint_eq(stats_of(rig).duplicates, 1);
    ck_assert_uint_eq(stats_of(rig).contradictions, 0);
    rig_free(rig);
}
END_TEST

START_TEST(a_new_epoch_is_told_and_what_was_known_goes)
{
    struct rig *rig = rig_make();
    begin_with(rig, "a");
    rig->message.epoch = EPOCH + 1;
    rig->message.seq = 1;
    event_message_cleared(&rig->message, 1);
    event_message_stored(&rig->message, 2, "b", NULL);
    feed(rig);
    check_log(rig, "[lose n1] epoch 123456789abcdf0 0 stale [clear default] "
                   "*default [+b] +b ");
    ck_assert_uint_eq(stats_of(rig).restarts, 1);
    ck_assert_uint_eq(stats_of(rig).mirror_entries, 1);
    rig_free(rig);
}
END_TEST

START_TEST(one_bad_event_costs_itself_and_trust_but_not_its_batch)
{
    struct rig *rig = rig_make();
    begin_with(rig, "a");
    for (uint64_t i = 0; i < 64; i++) {
        if (i == 2) {
            event_message_refused(&rig->message);
        } else {
            event_message_stored(&rig->message, 2 + i, i < 2 ? "x" : "y", NULL);
        }
    }
    feed(rig);
    const char *begin = "[+x] +x [+x] +x [lose n1] degraded event_type_form "
                        "stale [+y] +y ";
    ck_assert_int_eq(strncmp(rig->log, begin, strlen(begin)), 0);
    struct mc_source_stats stats = stats_of(rig);
    ck_assert_uint_eq(stats.events, 1 + 63);
    ck_assert_uint_eq(stats.refused_events, 1);
    ck_assert_uint_eq(stats.refused[MC_EVENT_ERROR_EVENT_TYPE_FORM], 1);
    ck_assert_uint_eq(stats.refused_ids, 1);
    ck_assert_uint_eq(stats.lost_ids, 0);
    ck_assert_uint_eq(stats.last_event_id, 65);
    rig_free(rig);
}
END_TEST

START_TEST(garbage_between_good_messages_is_told_and_costs_nothing_else)
{
    struct rig *rig = rig_make();
    begin_with(rig, "a");
    struct mc_view frames[4] = {mc_view_make("", 0), mc_view_make("1234567", 7),
                                mc_view_make("\x01", 1), mc_view_make("", 0)};
    feed_frames(rig, 0, frames, 3);
    feed_frames(rig, 0, frames, 1);
    feed_frames(rig, 0, frames, 0);
    feed_frames(rig, 0, frames, 9); /* of which four are looked at */
    check_log(rig, "degraded seq_size degraded frame_count degraded "
                   "frame_count degraded frame_count ");
    feed_one(rig, 2, "b");
    check_log(rig, "[+b] +b ");
    ck_assert_uint_eq(stats_of(rig).refused_messages, 4);
    ck_assert_uint_eq(stats_of(rig).mirror_entries, 2);
    rig_free(rig);
}
END_TEST

START_TEST(a_bad_message_in_its_turn_breaks_trust_and_its_ids_are_refused)
{
    struct rig *rig = rig_make();
    begin_with(rig, "a");
    event_message_stored(&rig->message, 2, "b", NULL);
    event_message_stored(&rig->message, 3, "c", NULL);
    event_message_frames(&rig->message);
    rig->message.frames[2].len--;
    feed_frames(rig, 0, rig->message.frames, 3);
    event_message_next(&rig->message);
    check_log(rig, "[lose n1] degraded payload_truncated stale ");
    feed_one(rig, 4, "d");
    check_log(rig, "[+d] +d ");
    ck_assert_uint_eq(stats_of(rig).refused_ids, 2);
    ck_assert_uint_eq(stats_of(rig).gaps, 0);
    rig_free(rig);
}
END_TEST

/* ---- replacements ---- */

START_TEST(a_replacement_reaches_the_index_as_one_change)
{
    struct rig *rig = rig_make();
    begin_with(rig, "a");
    event_message_removed(&rig->message, 2, "a");
    event_message_stored(&rig->message, 3, "a", "s");
    feed(rig);
    check_log(rig, "-a [=a] =a ");
    rig_free(rig);
}
END_TEST

START_TEST(a_replacement_on_two_media_is_one_change_for_each)
{
    struct rig *rig = rig_make();
    struct event_parts parts = {
        .id = 1, .type = "stored", .medium = "disk", .key = "a"};
    event_message_add(&rig->message, &parts);
    event_message_stored(&rig->message, 2, "a", NULL);
    feed(rig);
    check_log(rig, "epoch 123456789abcdef 0 [+a] +a [+a] +a ");
    event_message_removed(&rig->message, 3, "a");
    parts.id = 4;
    parts.type = "removed";
    event_message_add(&rig->message, &parts); /* disk is not stored again */
    event_message_stored(&rig->message, 5, "a", NULL);
    feed(rig);
    check_log(rig, "-a [-a] -a [=a] =a ");
    rig_free(rig);
}
END_TEST

START_TEST(another_key_between_them_makes_two_changes)
{
    struct rig *rig = rig_make();
    begin_with(rig, "a");
    event_message_removed(&rig->message, 2, "a");
    event_message_stored(&rig->message, 3, "b", NULL);
    event_message_stored(&rig->message, 4, "a", NULL);
    feed(rig);
    check_log(rig, "[-a] -a [+b] +b [+a] +a ");
    rig_free(rig);
}
END_TEST

START_TEST(a_stored_that_is_old_does_not_swallow_the_removed_before_it)
{
    struct rig *rig = rig_make();
    begin_with(rig, "a");
    event_message_removed(&rig->message, 2, "a");
    event_message_stored(&rig->message, 1, "a", NULL);
    feed(rig);
    check_log(rig, "[-a] -a ");
    ck_assert_uint_eq(stats_of(rig).mirror_entries, 0);
    rig_free(rig);
}
END_TEST

START_TEST(a_pair_far_apart_is_two_changes_on_both_sides)
{
    /* Media that nobody knows, one key: the search is bounded. */
    struct rig *rig = rig_make();
    char medium[16];
    begin_with(rig, "a");
    event_message_removed(&rig->message, 2, "a");
    for (uint64_t i = 0; i < 20; i++) {
        (void)snprintf(medium, sizeof medium, "m%d", (int)i);
        struct event_parts parts = {
            .id = 3 + i, .type = "stored", .medium = medium, .key = "a"};
        event_message_add(&rig->message, &parts);
    }
    event_message_stored(&rig->message, 23, "a", NULL);
    feed(rig);
    const char *begin = "[-a] -a [+a] +a ";
    ck_assert_int_eq(strncmp(rig->log, begin, strlen(begin)), 0);
    ck_assert_ptr_null(strchr(rig->log, '='));
    rig_free(rig);
}
END_TEST

START_TEST(a_pair_parted_by_a_loss_is_a_plain_stored)
{
    struct rig *rig = rig_make();
    begin_with(rig, "a");
    event_message_removed(&rig->message, 2, "a");
    event_message_stored(&rig->message, 3, "a", NULL);
    event_message_frames(&rig->message);
    (void)mci_alloc_fail_at(1); /* removed needs none */
    feed_frames(rig, 0, rig->message.frames, 3);
    ck_assert_int_eq(mci_alloc_fail_at(0), 0);
    check_log(rig, "-a [lose n1] stale [+a] +a ");
    rig_free(rig);
}
END_TEST

/* ---- held messages ---- */

START_TEST(a_held_message_is_told_before_the_one_that_confirms_it)
{
    struct rig *rig = rig_make();
    rig->message.epoch = 0;
    begin_with(rig, "a");
    feed_one(rig, 2, "b");
    rig->message.seq = 1; /* it has restarted */
    feed_one(rig, 1, "c");
    check_log(rig, "[+b] +b ");
    feed_one(rig, 2, "d");
    check_log(rig, "[lose n1] epoch 0 0 stale [+c] +c [+d] +d ");
    ck_assert_uint_eq(stats_of(rig).strays, 0);
    rig->message.seq = 1; /* and again */
    feed_one(rig, 1, "e");
    feed_one(rig, 2, "f");
    check_log(rig, "[lose n1] epoch 0 0 stale [+e] +e [+f] +f ");
    rig_free(rig);
}
END_TEST

START_TEST(a_stray_is_counted_and_forgotten)
{
    struct rig *rig = rig_make();
    begin_with(rig, "a");
    rig->message.seq = UINT64_C(1) << 50;
    feed_one(rig, 77, "b");
    rig->message.seq = 2;
    feed_one(rig, 2, "c");
    check_log(rig, "[+c] +c ");
    ck_assert_uint_eq(stats_of(rig).strays, 1);
    rig_free(rig);
}
END_TEST

START_TEST(a_message_that_cannot_be_held_for_lack_of_memory_is_believed)
{
    struct rig *rig = rig_make();
    begin_with(rig, "a");
    rig->message.seq = UINT64_C(1) << 50;
    event_message_stored(&rig->message, 77, "b", NULL);
    event_message_frames(&rig->message);
    (void)mci_alloc_fail_at(1);
    feed_frames(rig, 0, rig->message.frames, 3);
    ck_assert_int_eq(mci_alloc_fail_at(0), 0);
    check_log(rig, "[lose n1] gap 2-76 stale [+b] +b ");
    rig_free(rig);
}
END_TEST

/* ---- bounds and memory ---- */

START_TEST(over_its_bound_the_mirror_begins_anew_and_says_so)
{
    struct rig *rig = calloc(1, sizeof *rig);
    ck_assert_ptr_nonnull(rig);
    struct stream_opts opts = opts_of(rig);
    opts.max_mirror_entries = 2;
    rig_make_with(&opts);
    event_message_stored(&rig->message, 1, "a", NULL);
    event_message_stored(&rig->message, 2, "b", NULL);
    event_message_stored(&rig->message, 3, "c", NULL);
    feed(rig);
    check_log(rig, "epoch 123456789abcdef 0 [+a] +a [+b] +b [lose n1] stale "
                   "[+c] +c ");
    ck_assert_uint_eq(stats_of(rig).mirror_entries, 1);
    ck_assert_uint_eq(stats_of(rig).lost_ids, 0);
    rig_free(rig);
}
END_TEST

START_TEST(no_event_is_lost_in_silence_when_memory_fails)
{
    struct alloc_fail fail;
    ALLOC_FAIL_EACH(fail)
    {
        struct rig *rig = rig_make();
        begin_with(rig, "a");
        event_message_stored(&rig->message, 2, "b", "s");
        event_message_frames(&rig->message);
        alloc_fail_arm(&fail);
        feed_frames(rig, 0, rig->message.frames, 3);
        alloc_fail_disarm(&fail);
        bool is_failed = alloc_fail_happened(&fail);
        check_log(rig, is_failed ? "[lose n1] stale [+b] +b " : "[+b] +b ");
        ck_assert_uint_eq(stats_of(rig).mirror_entries, is_failed ? 1 : 2);
        rig_free(rig);
    }
    ck_assert_uint_gt(fail.k, 2);
}
END_TEST

START_TEST(an_event_that_can_never_be_applied_is_told_as_a_gap)
{
    struct rig *rig = rig_make();
    begin_with(rig, "a");
    rig->has_no_memory = true; /* not even after the source was dropped */
    event_message_stored(&rig->message, 2, "b", NULL);
    event_message_stored(&rig->message, 3, "c", NULL);
    event_message_frames(&rig->message);
    (void)mci_alloc_fail_at(1);
    feed_frames(rig, 0, rig->message.frames, 3);
    check_log(rig, "[lose n1] stale gap 2-2 [+c] +c ");
    ck_assert_uint_eq(stats_of(rig).lost_ids, 1);
    ck_assert_uint_eq(stats_of(rig).gaps, 1);
    ck_assert_uint_eq(stats_of(rig).mirror_entries, 1);
    rig_free(rig);
}
END_TEST

START_TEST(a_full_index_is_told_once)
{
    struct rig *rig = rig_make();
    begin_with(rig, "a");
    rig->is_index_full = true;
    feed_one(rig, 2, "b");
    feed_one(rig, 3, "c");
    check_log(rig, "[+b] +b degraded ok [+c] +c ");
    rig_free(rig);
}
END_TEST

START_TEST(a_block_that_the_index_cannot_take_out_takes_all_with_it)
{
    struct rig *rig = rig_make();
    begin_with(rig, "a");
    feed_one(rig, 2, "b");
    rig->log_len = 0;
    rig->is_index_stuck = true;
    event_message_removed(&rig->message, 3, "a");
    feed(rig);
    check_log(rig, "[-a] [lose n1] stale [-a] -a ");
    ck_assert_uint_eq(stats_of(rig).mirror_entries, 0);
    rig_free(rig);
}
END_TEST

static void feed_engine(struct rig *rig, uint8_t seq, const char *event,
                        size_t len)
{
    static const char head[] = "\x92\x01\x91";
    uint8_t seq_bytes[8] = {0, 0, 0, 0, 0, 0, 0, seq};
    uint8_t payload[64];
    ck_assert_uint_lt(len, sizeof payload - 3);
    memcpy(payload, head, 3);
    memcpy(payload + 3, event, len);
    struct mc_view frames[3] = {mc_view_make("", 0), mc_view_make(seq_bytes, 8),
                                mc_view_make(payload, len + 3)};
    feed_frames(rig, 1, frames, 3);
}

START_TEST(an_engine_loses_all_with_a_block_that_the_index_keeps)
{
    static const char stored[] = "\x93\xab"
                                 "BlockStored\x92\x01\x02\xc0";
    static const char removed[] = "\x92\xac"
                                  "BlockRemoved\x91\x02";
    struct rig *rig = calloc(1, sizeof *rig);
    ck_assert_ptr_nonnull(rig);
    struct mc_source_opts sources[2] = {
        {.endpoint = NULL},
        {.profile = MC_PROFILE_ENGINE, .worker = "w0"},
    };
    struct stream_opts opts = opts_of(rig);
    opts.sources = sources;
    rig_make_with(&opts);
    feed_engine(rig, 1, stored, sizeof stored - 1);
    check_log(rig, "epoch 0 0 [+w0 2] + ");
    rig->is_index_stuck = true;
    feed_engine(rig, 2, removed, sizeof removed - 1);
    check_log(rig, "[-w0 1] [clear w0 0] stale [-w0 1] - ");
    rig->is_index_full = true;
    feed_engine(rig, 3, stored, sizeof stored - 1);
    feed_engine(rig, 4, stored, sizeof stored - 1);
    check_log(rig, "[+w0 2] + degraded ok [+w0 2] + ");
    rig_free(rig);
}
END_TEST

START_TEST(creating_without_memory_leaves_nothing_behind)
{
    struct alloc_fail fail;
    ALLOC_FAIL_EACH(fail)
    {
        struct rig *rig = calloc(1, sizeof *rig);
        ck_assert_ptr_nonnull(rig);
        struct stream_opts opts = opts_of(rig);
        alloc_fail_arm(&fail);
        enum mc_err err = stream_create(&opts, &rig->stream);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        stream_destroy(rig->stream);
        free(rig);
    }
    ck_assert_uint_gt(fail.k, 4);
}
END_TEST

/* ---- several sources, other publishers ---- */

START_TEST(a_loss_of_one_source_leaves_the_other_alone)
{
    struct rig *rig = rig_make();
    begin_with(rig, "a");
    struct event_message *other = calloc(1, sizeof *other);
    ck_assert_ptr_nonnull(other);
    other->seq = 1;
    other->epoch = EPOCH + 9;
    other->backend = "n2";
    event_message_stored(other, 1, "z", NULL);
    event_message_frames(other);
    feed_frames(rig, 1, other->frames, 3);
    event_message_next(other);
    other->seq = 8;
    event_message_stored(other, 5, "y", NULL);
    event_message_frames(other);
    feed_frames(rig, 1, other->frames, 3);
    check_log(rig, "epoch 123456789abcdf8 0 [+z] +z [lose n2] gap 2-4 stale "
                   "[+y] +y ");
    ck_assert_uint_eq(mirror_count(stream_mirror(rig->stream, 0)), 1);
    feed_one(rig, 2, "b");
    check_log(rig, "[+b] +b ");
    free(other);
    rig_free(rig);
}
END_TEST

START_TEST(every_backend_of_a_source_is_lost_with_it)
{
    struct rig *rig = rig_make();
    begin_with(rig, "a");
    rig->message.backend = "n2";
    feed_one(rig, 2, "b");
    rig->message.seq++;
    rig->log_len = 0;
    feed_one(rig, 9, "c");
    ck_assert_ptr_nonnull(strstr(rig->log, "[lose n1]"));
    ck_assert_ptr_nonnull(strstr(rig->log, "[lose n2]"));
    rig_free(rig);
}
END_TEST

START_TEST(a_publisher_without_epochs_or_rising_ids_is_followed_by_sequence)
{
    struct rig *rig = rig_make();
    rig->message.epoch = 0;
    feed_one(rig, 0, "a");
    feed_one(rig, 0, "b");
    event_message_removed(&rig->message, 0, "a");
    feed(rig);
    check_log(rig, "epoch 0 0 [+a] +a [+b] +b [-a] -a ");
    ck_assert_uint_eq(stats_of(rig).mirror_entries, 1);
    rig->message.seq++;
    feed_one(rig, 0, "c");
    check_log(rig, "[lose n1] gap 0-0 stale [+c] +c ");
    rig_free(rig);
}
END_TEST

START_TEST(without_a_mirror_all_else_is_the_same)
{
    struct rig *rig = calloc(1, sizeof *rig);
    ck_assert_ptr_nonnull(rig);
    struct stream_opts opts = opts_of(rig);
    opts.max_mirror_entries = 0;
    rig_make_with(&opts);
    feed_one(rig, 1, "a");
    rig->message.seq = 5;
    feed_one(rig, 9, "b");
    check_log(rig, "epoch 123456789abcdef 0 [+a] +a [lose n1] gap 2-8 stale "
                   "[+b] +b ");
    ck_assert_ptr_null(stream_mirror(rig->stream, 0));
    rig_free(rig);
}
END_TEST

START_TEST(contradictions_are_counted)
{
    struct rig *rig = rig_make();
    begin_with(rig, "a");
    feed_one(rig, 2, "a");
    event_message_removed(&rig->message, 3, "never");
    feed(rig);
    ck_assert_uint_eq(stats_of(rig).contradictions, 2);
    check_log(rig, "[+a] +a [-never] -never ");
    rig_free(rig);
}
END_TEST

static void add_order(Suite *suite)
{
    TCase *order = tcase_create("order");
    tcase_add_test(order, events_are_applied_one_by_one_before_each_is_told);
    tcase_add_test(order, a_late_joiner_is_told_what_it_does_not_know);
    tcase_add_test(order, a_gap_is_told_then_stale_then_the_event_is);
    tcase_add_test(order,
                   two_gaps_in_a_row_say_stale_once_if_nothing_came_between);
    tcase_add_test(order, a_hole_inside_a_message_is_told_before_its_event);
    tcase_add_test(order, an_epoch_inside_a_message_is_told_before_its_event);
    tcase_add_test(order, duplicates_are_counted_and_not_told);
    tcase_add_test(order, a_new_epoch_is_told_and_what_was_known_goes);
    tcase_add_test(order,
                   one_bad_event_costs_itself_and_trust_but_not_its_batch);
    tcase_add_test(
        order, garbage_between_good_messages_is_told_and_costs_nothing_else);
    tcase_add_test(
        order, a_bad_message_in_its_turn_breaks_trust_and_its_ids_are_refused);
    suite_add_tcase(suite, order);
}

static void add_changes(Suite *suite)
{
    TCase *changes = tcase_create("replacements");
    tcase_add_test(changes, a_replacement_reaches_the_index_as_one_change);
    tcase_add_test(changes, a_replacement_on_two_media_is_one_change_for_each);
    tcase_add_test(changes, another_key_between_them_makes_two_changes);
    tcase_add_test(changes,
                   a_stored_that_is_old_does_not_swallow_the_removed_before_it);
    tcase_add_test(changes, a_pair_far_apart_is_two_changes_on_both_sides);
    tcase_add_test(changes, a_pair_parted_by_a_loss_is_a_plain_stored);
    suite_add_tcase(suite, changes);
    TCase *held = tcase_create("held");
    tcase_add_test(held,
                   a_held_message_is_told_before_the_one_that_confirms_it);
    tcase_add_test(held, a_stray_is_counted_and_forgotten);
    tcase_add_test(
        held, a_message_that_cannot_be_held_for_lack_of_memory_is_believed);
    suite_add_tcase(suite, held);
}

/* No event has id 0, but something may say so. */
START_TEST(another_epoch_is_told_though_its_event_counts_for_nothing)
{
    struct rig *rig = rig_make();
    feed_one(rig, 1, "a");
    event_message_stored(&rig->message, 2, "b", NULL);
    rig->message.epoch = EPOCH + 1;
    event_message_stored(&rig->message, 0, "c", NULL);
    feed(rig);
    feed_one(rig, 1, "d");
    const char *stale = strstr(rig->log, "stale ");
    ck_assert_ptr_nonnull(stale);
    ck_assert_ptr_nonnull(strstr(stale, " +d "));
    rig_free(rig);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("stream");
    add_order(suite);
    add_changes(suite);
    TCase *memory = tcase_create("memory");
    tcase_add_test(memory,
                   another_epoch_is_told_though_its_event_counts_for_nothing);
    tcase_add_test(memory, over_its_bound_the_mirror_begins_anew_and_says_so);
    tcase_add_test(memory, no_event_is_lost_in_silence_when_memory_fails);
    tcase_add_test(memory, an_event_that_can_never_be_applied_is_told_as_a_gap);
    tcase_add_test(memory, a_full_index_is_told_once);
    tcase_add_test(memory,
                   a_block_that_the_index_cannot_take_out_takes_all_with_it);
    tcase_add_test(memory,
                   an_engine_loses_all_with_a_block_that_the_index_keeps);
    tcase_add_test(memory, creating_without_memory_leaves_nothing_behind);
    suite_add_tcase(suite, memory);
    TCase *sources = tcase_create("sources");
    tcase_add_test(sources, a_loss_of_one_source_leaves_the_other_alone);
    tcase_add_test(sources, every_backend_of_a_source_is_lost_with_it);
    tcase_add_test(
        sources,
        a_publisher_without_epochs_or_rising_ids_is_followed_by_sequence);
    tcase_add_test(sources, without_a_mirror_all_else_is_the_same);
    tcase_add_test(sources, contradictions_are_counted);
    suite_add_tcase(suite, sources);
    return suite_run(suite);
}
