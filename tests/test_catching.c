/* SPDX-License-Identifier: Apache-2.0 */
/* Sources that recover by sequence number: engines, and stores without epochs.
 * What comes after a gap waits for what is before it. */
#include <stdio.h>

#include "alloc_fail.h"
#include "event_message.h"
#include "stream.h"
#include "suite.h"

#define MS UINT64_C(1000000)
#define HISTORY 64
#define LOG_MAX 8192

/* Messages by number, as a server has them; and what was said. */
struct rig {
    struct stream *stream;
    struct event_message message;
    struct event_message history[HISTORY];
    struct recovery_order open; /* number 0: no request */
    uint64_t tail;
    uint64_t now_ns;
    uint64_t asked;
    bool is_engine;
    char log[LOG_MAX]; /* events "k1", signals by name */
    size_t log_len;
};

static void say(struct rig *rig, struct mc_view text)
{
    int len = snprintf(rig->log + rig->log_len, LOG_MAX - rig->log_len, "%.*s ",
                       (int)text.len, text.data ? (const char *)text.data : "");
    ck_assert_int_gt(len, 0);
    rig->log_len += (size_t)len;
    ck_assert_uint_lt(rig->log_len, LOG_MAX);
}

static void on_event(void *ctx, const struct mc_delivery *delivery)
{
    if (delivery->engine) {
        char text[32];
        (void)snprintf(text, sizeof text, "m%d", (int)delivery->batch->seq);
        say(ctx, mc_view_str(text));
    } else {
        say(ctx, delivery->event->object_key);
    }
}

static void on_signal(void *ctx, const struct mc_signal *signal)
{
    say(ctx, mc_view_str(mc_signal_name(signal->type)));
}

static struct rig *rig_make(enum mc_source_profile profile, enum mc_begin begin,
                            uint64_t begin_seq)
{
    struct rig *rig = calloc(1, sizeof *rig);
    ck_assert_ptr_nonnull(rig);
    struct mc_source_opts source = {.recovery_endpoint = "model",
                                    .profile = profile,
                                    .worker = "w0",
                                    .begin = begin,
                                    .begin_seq = begin_seq};
    struct stream_opts opts = {.source_count = 1,
                               .sources = &source,
                               .max_events = 64,
                               .max_mirror_entries = 1000,
                               .on_event = on_event,
                               .on_signal = on_signal,
                               .ctx = rig};
    rig->is_engine = profile == MC_PROFILE_ENGINE;
    rig->now_ns = MS;
    ck_assert_int_eq(stream_create(&opts, &rig->stream), MC_OK);
    return rig;
}

static struct mc_source_stats stats_of(const struct rig *rig)
{
    struct mc_source_stats stats = {.epoch = 0};
    stream_stats(rig->stream, 0, &stats);
    return stats;
}

static void rig_free(struct rig *rig)
{
    struct mc_source_stats stats = stats_of(rig);
    ck_assert_uint_eq(stats.events + stats.refused_ids + stats.lost_ids,
                      stats.span_ids);
    stream_destroy(rig->stream);
    free(rig);
}

static void step(struct rig *rig)
{
    struct mc_subscriber_item item;
    struct recovery_order order;
    uint32_t source = 0;
    while (stream_step(rig->stream, &item)) {
    }
    while (stream_next_order(rig->stream, &source, &order)) {
        if (order.kind == RECOVERY_ASK) {
            ck_assert_uint_eq(rig->open.number, 0);
            ck_assert_int_eq(order.ask, ASKER_REPLAY);
            ck_assert((order.credit == 0) == rig->is_engine);
            rig->open = order;
            rig->asked++;
        } else if (order.kind == RECOVERY_DROP) {
            rig->open.number = 0;
        }
    }
}

/* An engine's message: its blocks are cleared. */
static void engine_frames(struct event_message *message)
{
    static const uint8_t payload[] = {
        0x92, 0xcb, 0x41, 0xd0, 0,   0,   0,   0,   0,   0,
        0x91, 0x91, 0xb0, 'A',  'l', 'l', 'B', 'l', 'o', 'c',
        'k',  's',  'C',  'l',  'e', 'a', 'r', 'e', 'd'};
    mci_put_be64(message->seq_bytes, message->seq);
    memcpy(message->payload, payload, sizeof payload);
    message->frames[0] = mc_view_make("", 0);
    message->frames[1] = mc_view_make(message->seq_bytes, 8);
    message->frames[2] = mc_view_make(message->payload, sizeof payload);
}

/* Message n is published: key "kn". */
static void publish(struct rig *rig, uint64_t seq)
{
    struct event_message *message = &rig->history[seq];
    char key[16];
    memset(message, 0, sizeof *message);
    message->seq = seq;
    if (rig->is_engine) {
        engine_frames(message);
    } else {
        (void)snprintf(key, sizeof key, "k%d", (int)seq);
        event_message_stored(message, seq, key, NULL);
        event_message_frames(message);
    }
    rig->tail = seq > rig->tail ? seq : rig->tail;
}

static void arrive(struct rig *rig, uint64_t seq)
{
    stream_take(rig->stream, 0, rig->history[seq].frames, 3, rig->now_ns);
    step(rig);
}

static void hear(struct rig *rig, uint64_t from, uint64_t to)
{
    for (uint64_t seq = from; seq <= to; seq++) {
        publish(rig, seq);
        arrive(rig, seq);
    }
}

static void answer(struct rig *rig, uint64_t seq)
{
    stream_take_answer(rig->stream, 0, rig->open.number,
                       rig->history[seq].frames, 3, rig->now_ns);
    step(rig);
}

static void answer_end(struct rig *rig)
{
    uint8_t bytes[8];
    struct mc_view frames[2] = {mc_view_make(bytes, 8), mc_view_make("", 0)};
    mci_put_be64(bytes, UINT64_MAX);
    stream_take_answer(rig->stream, 0, rig->open.number, frames, 2,
                       rig->now_ns);
    step(rig);
}

/* All that the server has, but for one number. */
static void answer_all(struct rig *rig, uint64_t but)
{
    uint64_t tail = rig->tail;
    for (uint64_t seq = rig->open.from_seq; seq <= tail; seq++) {
        if (seq != but && rig->history[seq].frames[1].data &&
            rig->open.number) {
            answer(rig, seq);
        }
    }
    if (rig->open.number) {
        answer_end(rig);
    }
}

static void check_log(struct rig *rig, const char *want)
{
    ck_assert_str_eq(rig->log, want);
    rig->log_len = 0;
    rig->log[0] = '\0';
}

/* Stores name keys, engines the number of the message. */
#define EACH(rig, store, engine) ((rig)->is_engine ? (engine) : (store))

static struct rig *make_one(int is_engine)
{
    return rig_make(is_engine ? MC_PROFILE_ENGINE : MC_PROFILE_STORE,
                    MC_BEGIN_NOW, 0);
}

START_TEST(what_comes_after_a_gap_waits_for_what_is_before_it)
{
    struct rig *rig = make_one(_i);
    hear(rig, 1, 2);
    publish(rig, 3);
    publish(rig, 4);
    hear(rig, 5, 6);
    check_log(rig, EACH(rig, "epoch k1 k2 gap ", "epoch m1 m2 gap "));
    ck_assert_uint_eq(rig->open.from_seq, 3);
    answer_all(rig, 0);
    check_log(rig,
              EACH(rig, "k3 k4 k5 k6 recovered ", "m3 m4 m5 m6 recovered "));
    hear(rig, 7, 7);
    check_log(rig, EACH(rig, "k7 ", "m7 "));
    ck_assert_uint_eq(rig->asked, 1);
    ck_assert_uint_eq(stats_of(rig).lost_seqs, 0);
    ck_assert_uint_eq(stats_of(rig).recoveries, 1);
    rig_free(rig);
}
END_TEST

START_TEST(what_the_replay_has_not_is_lost)
{
    struct rig *rig = make_one(_i);
    hear(rig, 1, 2);
    publish(rig, 3);
    publish(rig, 4);
    hear(rig, 5, 5);
    answer_all(rig, 3);
    check_log(rig, EACH(rig, "epoch k1 k2 gap stale k4 k5 ",
                        "epoch m1 m2 gap stale m4 m5 "));
    hear(rig, 6, 6);
    check_log(rig, EACH(rig, "k6 ", "m6 "));
    rig_free(rig);
}
END_TEST

START_TEST(a_replay_that_has_nothing_means_stale)
{
    struct rig *rig = make_one(_i);
    hear(rig, 1, 2);
    hear(rig, 4, 5);
    answer_end(rig);
    check_log(rig, EACH(rig, "epoch k1 k2 gap stale k4 k5 ",
                        "epoch m1 m2 gap stale m4 m5 "));
    rig_free(rig);
}
END_TEST

START_TEST(a_server_that_is_silent_holds_nothing_up_for_long)
{
    struct rig *rig = make_one(_i);
    hear(rig, 1, 2);
    hear(rig, 4, 5);
    rig->now_ns += 10000 * MS;
    stream_take_tick(rig->stream, 0, rig->now_ns);
    step(rig);
    check_log(rig, EACH(rig, "epoch k1 k2 gap degraded stale k4 k5 ",
                        "epoch m1 m2 gap degraded stale m4 m5 "));
    hear(rig, 7, 7); /* so soon afterwards it is not asked again */
    check_log(rig, EACH(rig, "gap stale k7 ", "gap stale m7 "));
    ck_assert_uint_eq(rig->asked, 1);
    rig->now_ns += 1000 * MS;
    publish(rig, 8);
    hear(rig, 9, 9);
    ck_assert_uint_eq(rig->asked, 2);
    answer_all(rig, 0);
    check_log(rig, EACH(rig, "gap k8 k9 recovered ", "gap m8 m9 recovered "));
    rig_free(rig);
}
END_TEST

START_TEST(a_message_that_cannot_be_read_is_fetched_once)
{
    struct rig *rig = make_one(_i / 2);
    bool is_good = _i % 2 == 0;
    hear(rig, 1, 2);
    publish(rig, 3);
    rig->history[3].frames[2].len--;
    arrive(rig, 3);
    rig->history[3].frames[2].len += is_good;
    hear(rig, 4, 4);
    check_log(rig, EACH(rig, "epoch k1 k2 degraded ", "epoch m1 m2 degraded "));
    ck_assert_uint_eq(rig->open.from_seq, 3);
    answer_all(rig, 0);
    if (is_good) {
        check_log(rig, EACH(rig, "k3 k4 recovered ", "m3 m4 recovered "));
    } else {
        check_log(rig, EACH(rig, "stale k4 ", "stale m4 "));
    }
    ck_assert_uint_eq(stats_of(rig).refused_messages, 1);
    ck_assert_uint_eq(rig->asked, 1);
    rig_free(rig);
}
END_TEST

START_TEST(a_new_connection_asks_for_what_came_meanwhile)
{
    struct rig *rig = make_one(_i);
    hear(rig, 1, 2);
    publish(rig, 3);
    stream_connected(rig->stream, 0, 0, rig->now_ns);
    step(rig);
    ck_assert_uint_eq(rig->open.from_seq, 3);
    answer_all(rig, 0);
    check_log(rig, EACH(rig, "epoch k1 k2 k3 ", "epoch m1 m2 m3 "));
    hear(rig, 4, 4);
    check_log(rig, EACH(rig, "k4 ", "m4 "));
    rig_free(rig);
}
END_TEST

START_TEST(a_new_start_is_seen_though_its_replay_is_empty)
{
    struct rig *rig = make_one(_i);
    hear(rig, 1, 20);
    stream_connected(rig->stream, 0, 0, rig->now_ns);
    step(rig);
    hear(rig, 1, 2);
    rig->log_len = 0;
    answer_end(rig);
    hear(rig, 3, 3);
    check_log(rig, EACH(rig, "epoch stale k1 k2 k3 ", "epoch stale m1 m2 m3 "));
    ck_assert_uint_eq(stats_of(rig).restarts, 1);
    rig_free(rig);
}
END_TEST

START_TEST(a_number_to_begin_with_is_replayed_before_what_comes)
{
    struct rig *rig =
        rig_make(_i ? MC_PROFILE_ENGINE : MC_PROFILE_STORE, MC_BEGIN_SEQ, 3);
    for (uint64_t seq = 1; seq <= 5; seq++) {
        publish(rig, seq);
    }
    stream_take_tick(rig->stream, 0, rig->now_ns);
    step(rig);
    ck_assert_uint_eq(rig->open.from_seq, 3);
    hear(rig, 6, 6);
    check_log(rig, "");
    answer_all(rig, 0);
    check_log(rig, EACH(rig, "epoch k3 k4 k5 k6 ", "epoch m3 m4 m5 m6 "));
    hear(rig, 7, 7);
    check_log(rig, EACH(rig, "k7 ", "m7 "));
    rig_free(rig);
}
END_TEST

START_TEST(a_store_without_epochs_is_followed_though_a_snapshot_was_wanted)
{
    struct rig *rig = rig_make(MC_PROFILE_STORE, MC_BEGIN_SNAPSHOT, 0);
    hear(rig, 1, 2);
    hear(rig, 4, 4);
    check_log(rig, "epoch k1 degraded k2 gap ");
    publish(rig, 3);
    answer_all(rig, 0);
    check_log(rig, "k3 k4 recovered ");
    rig_free(rig);
}
END_TEST

START_TEST(what_cannot_be_kept_is_replayed_too)
{
    struct alloc_fail fail;
    ALLOC_FAIL_EACH(fail)
    {
        struct rig *rig = make_one(_i);
        hear(rig, 1, 2);
        publish(rig, 3);
        alloc_fail_arm(&fail);
        hear(rig, 4, 6);
        alloc_fail_disarm(&fail);
        answer_all(rig, 0);
        answer_all(rig, 0);
        hear(rig, 7, 7);
        check_log(rig, EACH(rig, "epoch k1 k2 gap k3 k4 k5 k6 recovered k7 ",
                            "epoch m1 m2 gap m3 m4 m5 m6 recovered m7 "));
        rig_free(rig);
    }
    ck_assert_uint_gt(fail.k, 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("catching");
    TCase *numbers = tcase_create("numbers");
    tcase_add_loop_test(
        numbers, what_comes_after_a_gap_waits_for_what_is_before_it, 0, 2);
    tcase_add_loop_test(numbers, what_the_replay_has_not_is_lost, 0, 2);
    tcase_add_loop_test(numbers, a_replay_that_has_nothing_means_stale, 0, 2);
    tcase_add_loop_test(
        numbers, a_server_that_is_silent_holds_nothing_up_for_long, 0, 2);
    tcase_add_loop_test(numbers, a_message_that_cannot_be_read_is_fetched_once,
                        0, 4);
    tcase_add_loop_test(numbers, a_new_connection_asks_for_what_came_meanwhile,
                        0, 2);
    tcase_add_loop_test(numbers, a_new_start_is_seen_though_its_replay_is_empty,
                        0, 2);
    tcase_add_loop_test(
        numbers, a_number_to_begin_with_is_replayed_before_what_comes, 0, 2);
    tcase_add_test(
        numbers,
        a_store_without_epochs_is_followed_though_a_snapshot_was_wanted);
    tcase_add_loop_test(numbers, what_cannot_be_kept_is_replayed_too, 0, 2);
    suite_add_tcase(suite, numbers);
    return suite_run(suite);
}
