/* SPDX-License-Identifier: Apache-2.0 */
/* The whole subscriber: golden rows through inject, and publishers on real
 * sockets that lose, repeat, die, come back and flood. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "alloc_fail.h"
#include "event_message.h"
#include "loopback.h"
#include "mc_subscriber.h"
#include "suite.h"
#include "vectors.h"

#define EPOCH UINT64_C(0x0123456789abcdef)

/* What was heard, in order; a signal is its name, an event its sign and key. */
struct story {
    char text[4096];
    size_t len;
    uint64_t events;
    uint64_t last_id;
    bool is_disordered;
};

static void tell(struct story *story, const char *sign, struct mc_view word)
{
    size_t left = sizeof story->text - story->len;
    int len = snprintf(story->text + story->len, left, "%s%.*s ", sign,
                       (int)word.len, word.data ? (const char *)word.data : "");
    if (len > 0 && (size_t)len < left) {
        story->len += (size_t)len;
    }
}

static void on_event(void *ctx, const struct mc_delivery *delivery)
{
    struct story *story = ctx;
    const struct mc_event *event = delivery->event;
    story->events++;
    story->is_disordered |= event->event_id != story->last_id + 1;
    story->last_id = event->event_id;
    tell(story, event->type == MC_EVENT_STORED ? "+" : "-", event->object_key);
}

static void on_signal(void *ctx, const struct mc_signal *signal)
{
    struct story *story = ctx;
    story->last_id = signal->to_id > 0 ? signal->to_id : story->last_id;
    tell(story, mc_signal_name(signal->type), mc_view_str(""));
}

static void check_story(struct story *story, const char *want)
{
    ck_assert_str_eq(story->text, want);
    story->len = 0;
    story->text[0] = '\0';
}

static struct mc_subscriber *open_with(struct mc_subscriber_opts *opts,
                                       struct story *story,
                                       const char *endpoint)
{
    struct mc_source_opts source = {.endpoint = endpoint};
    struct mc_subscriber *subscriber = NULL;
    if (story) {
        opts->on_event = on_event;
        opts->on_signal = on_signal;
        opts->ctx = story;
    }
    opts->sources = &source;
    opts->source_count = 1;
    ck_assert_int_eq(mc_subscriber_open(opts, &subscriber), MC_OK);
    return subscriber;
}

static struct mc_subscriber *open_one(struct story *story, const char *endpoint)
{
    struct mc_subscriber_opts opts = {.own_thread = false};
    memset(story, 0, sizeof *story);
    return open_with(&opts, story, endpoint);
}

static struct mc_source_stats stats_of(const struct mc_subscriber *subscriber)
{
    struct mc_source_stats stats;
    mc_subscriber_stats(subscriber, 0, &stats);
    return stats;
}

static void check_sum(const struct mc_subscriber *subscriber)
{
    struct mc_source_stats stats = stats_of(subscriber);
    ck_assert_uint_eq(stats.events + stats.refused_ids + stats.lost_ids,
                      stats.span_ids);
}

/* ---- a publisher of its own ---- */

struct rig {
    struct loopback publisher;
    struct event_message message;
    struct story story;
    struct mc_subscriber *subscriber;
};

static void send_built(struct loopback *publisher,
                       struct event_message *message)
{
    event_message_frames(message);
    loopback_send(publisher, message->frames, 3);
    event_message_next(message);
}

static void send_one(struct rig *rig, uint64_t id, const char *key)
{
    event_message_stored(&rig->message, id, key, "s");
    send_built(&rig->publisher, &rig->message);
}

static struct rig *rig_make(void)
{
    struct rig *rig = calloc(1, sizeof *rig);
    ck_assert_ptr_nonnull(rig);
    rig->message.seq = 1;
    rig->message.epoch = EPOCH;
    loopback_open(&rig->publisher);
    rig->subscriber = open_one(&rig->story, rig->publisher.endpoint);
    loopback_await_subscriber(&rig->publisher);
    return rig;
}

static void rig_free(struct rig *rig)
{
    check_sum(rig->subscriber);
    mc_subscriber_close(rig->subscriber);
    loopback_close(&rig->publisher);
    free(rig);
}

/* Polls until so many messages were read, good ones or bad. */
static void poll_messages(struct mc_subscriber *subscriber, uint64_t count)
{
    for (;;) {
        struct mc_source_stats stats = stats_of(subscriber);
        if (stats.messages + stats.refused_messages >= count) {
            return;
        }
        ck_assert_int_eq(
            mc_subscriber_poll(subscriber, LOOPBACK_WAIT_MS, 0, NULL), MC_OK);
    }
}

static bool is_readable(const struct mc_subscriber *subscriber)
{
    struct pollfd polled = {.fd = mc_subscriber_fd(subscriber),
                            .events = POLLIN};
    return poll(&polled, 1, 0) == 1;
}

START_TEST(events_of_a_publisher_come_in_order)
{
    struct rig *rig = rig_make();
    char key[16];
    for (uint64_t id = 1; id <= 1000; id++) {
        (void)snprintf(key, sizeof key, "k%d", (int)id);
        event_message_stored(&rig->message, id, key, "s");
        if (id % 10 == 0) {
            send_built(&rig->publisher, &rig->message);
        }
    }
    poll_messages(rig->subscriber, 100);
    ck_assert_uint_eq(rig->story.events, 1000);
    ck_assert(!rig->story.is_disordered);
    struct mc_source_stats stats = stats_of(rig->subscriber);
    ck_assert_uint_eq(stats.gaps, 0);
    ck_assert_uint_eq(stats.last_seq, 100);
    ck_assert_uint_eq(stats.last_event_id, 1000);
    ck_assert_uint_eq(stats.mirror_entries, 1000);
    ck_assert_uint_eq(mc_subscriber_mirror_count(rig->subscriber), 1000);
    rig_free(rig);
}
END_TEST

START_TEST(losses_and_repetitions_are_told_in_their_place)
{
    struct rig *rig = rig_make();
    send_one(rig, 1, "a");
    rig->message.seq = 1;
    send_one(rig, 1, "a");
    rig->message.seq = 7;
    send_one(rig, 9, "b");
    rig->message.seq = 8;
    send_one(rig, 10, "c");
    poll_messages(rig->subscriber, 4);
    check_story(&rig->story, "epoch +a gap stale +b +c ");
    ck_assert_uint_eq(stats_of(rig->subscriber).duplicates, 1);
    ck_assert_uint_eq(stats_of(rig->subscriber).lost_ids, 7);
    rig_free(rig);
}
END_TEST

START_TEST(garbage_between_good_messages_costs_nothing_else)
{
    struct rig *rig = rig_make();
    struct mc_view junk[5];
    for (int i = 0; i < 5; i++) {
        junk[i] = mc_view_make("garbage", 7);
    }
    for (uint64_t id = 1; id <= 64; id++) {
        send_one(rig, id, "k");
        loopback_send(&rig->publisher, junk, 1 + id % 5);
    }
    poll_messages(rig->subscriber, 128);
    ck_assert_uint_eq(rig->story.events, 64);
    ck_assert_uint_eq(stats_of(rig->subscriber).refused_messages, 64);
    ck_assert_uint_eq(stats_of(rig->subscriber).gaps, 0);
    ck_assert_uint_eq(stats_of(rig->subscriber).stales, 0);
    rig_free(rig);
}
END_TEST

START_TEST(of_a_batch_of_64_with_a_bad_event_63_arrive)
{
    struct rig *rig = rig_make();
    for (uint64_t id = 1; id <= 64; id++) {
        if (id == (uint64_t)_i) {
            event_message_refused(&rig->message);
        } else {
            event_message_stored(&rig->message, id, "k", NULL);
        }
    }
    send_built(&rig->publisher, &rig->message);
    send_one(rig, 65, "next");
    poll_messages(rig->subscriber, 2);
    struct mc_source_stats stats = stats_of(rig->subscriber);
    ck_assert_uint_eq(stats.events, 64);
    ck_assert_uint_eq(stats.refused_events, 1);
    ck_assert_uint_eq(stats.refused[MC_EVENT_ERROR_EVENT_TYPE_FORM], 1);
    ck_assert_uint_eq(stats.refused_ids, 1);
    ck_assert_uint_eq(stats.last_event_id, 65);
    ck_assert_uint_eq(stats.baseline_id, 0);
    rig_free(rig);
}
END_TEST

/* ---- restarts over a socket ---- */

struct rebirth {
    uint64_t epoch;  /* of the first life; 0 = none */
    uint64_t second; /* of the second */
    uint64_t seq;    /* where the second begins */
    const char *story;
};

static const struct rebirth rebirths[] = {
    {EPOCH, EPOCH + 1, 1, "epoch +a +b epoch stale +c +d "},
    {EPOCH, EPOCH + 1, 2, "epoch +a +b epoch stale +c +d "},
    {EPOCH, EPOCH + 1, 3, "epoch +a +b epoch stale +c +d "},
    {EPOCH, EPOCH + 1, UINT64_C(9) << 40, "epoch +a +b epoch stale +c +d "},
    {EPOCH, EPOCH - 1, 1, "epoch +a +b epoch stale +c +d "},
    {0, 0, 1, "epoch +a +b epoch stale +c +d "},
    {0, 0, 2, "epoch +a +b epoch stale +c +d "},
    /* Without epochs a new publisher that counts on is not seen to be one. */
    {0, 0, 3, "epoch +a +b +c +d "},
    {0, 0, 9, "epoch +a +b gap stale +c +d "},
    /* The same publisher after the connection broke and nothing was lost. */
    {EPOCH, EPOCH, 3, "epoch +a +b +c +d "},
};

START_TEST(a_publisher_killed_and_bound_anew_is_followed_again)
{
    const struct rebirth *rebirth = &rebirths[_i];
    struct rig *rig = rig_make();
    bool goes_on = rebirth->epoch == rebirth->second && rebirth->epoch != 0;
    rig->message.epoch = rebirth->epoch;
    send_one(rig, 1, "a");
    send_one(rig, 2, "b");
    poll_messages(rig->subscriber, 2);
    loopback_close(&rig->publisher);
    loopback_bind(&rig->publisher);
    loopback_await_subscriber(&rig->publisher);
    rig->message.epoch = rebirth->second;
    rig->message.seq = rebirth->seq;
    send_one(rig, goes_on ? 3 : 1, "c");
    send_one(rig, goes_on ? 4 : 2, "d");
    poll_messages(rig->subscriber, 4);
    check_story(&rig->story, rebirth->story);
    struct mc_source_stats stats = stats_of(rig->subscriber);
    ck_assert_uint_eq(stats.connects, 2);
    ck_assert_uint_eq(stats.disconnects, 1);
    ck_assert_uint_eq(stats.events, 4);
    rig_free(rig);
}
END_TEST

/* ---- delivering ---- */

START_TEST(a_flood_before_a_slow_consumer_stays_within_its_bound)
{
    enum { COUNT = 4000, BYTES = 64 << 10 };
    struct loopback publisher;
    struct event_message *message = calloc(1, sizeof *message);
    struct story story = {.len = 0};
    struct mc_subscriber_opts opts = {.max_queue_bytes = BYTES};
    ck_assert_ptr_nonnull(message);
    loopback_open(&publisher);
    struct mc_subscriber *subscriber =
        open_with(&opts, &story, publisher.endpoint);
    loopback_await_subscriber(&publisher);
    message->seq = 1;
    message->epoch = EPOCH;
    for (uint64_t id = 1; id <= COUNT; id++) {
        event_message_stored(message, id, "k", NULL);
        send_built(&publisher, message);
    }
    ck_assert(AWAIT(stats_of(subscriber).queue_full > 0));
    for (uint64_t seen = 0; seen < COUNT;) {
        size_t handled = 0;
        ck_assert_uint_lt(stats_of(subscriber).queue_bytes, 2 * BYTES);
        ck_assert_int_eq(
            mc_subscriber_poll(subscriber, LOOPBACK_WAIT_MS, 7, &handled),
            MC_OK);
        ck_assert_uint_le(handled, 8); /* seven messages, and the epoch */
        seen = story.events;
    }
    ck_assert(!story.is_disordered);
    ck_assert_uint_eq(stats_of(subscriber).gaps, 0);
    ck_assert_uint_eq(stats_of(subscriber).queue_messages, 0);
    check_sum(subscriber);
    mc_subscriber_close(subscriber);
    loopback_close(&publisher);
    free(message);
}
END_TEST

START_TEST(next_gives_the_same_story_one_by_one)
{
    struct rig *rig = rig_make();
    struct story story = {.len = 0};
    send_one(rig, 1, "a");
    rig->message.seq = 5;
    event_message_stored(&rig->message, 4, "b", NULL);
    event_message_refused(&rig->message);
    event_message_stored(&rig->message, 6, "c", NULL);
    send_built(&rig->publisher, &rig->message);
    for (int i = 0; i < 8; i++) {
        struct mc_subscriber_item item;
        ck_assert_int_eq(
            mc_subscriber_next(rig->subscriber, LOOPBACK_WAIT_MS, &item),
            MC_OK);
        ck_assert(!item.delivery != !item.signal);
        if (item.delivery) {
            on_event(&story, item.delivery);
        } else {
            on_signal(&story, item.signal);
        }
    }
    struct mc_subscriber_item item;
    ck_assert_int_eq(mc_subscriber_next(rig->subscriber, 0, &item),
                     MC_ERR_RPC_TIMEOUT);
    check_story(&story, "epoch +a gap stale +b degraded stale +c ");
    check_story(&rig->story, "epoch +a gap stale +b degraded stale +c ");
    rig_free(rig);
}
END_TEST

START_TEST(the_fd_is_readable_until_all_was_delivered)
{
    struct rig *rig = rig_make();
    struct mc_subscriber_item item;
    /* Word of the connection comes first and is nothing to deliver. */
    ck_assert(AWAIT(is_readable(rig->subscriber)));
    ck_assert_int_eq(mc_subscriber_next(rig->subscriber, 0, &item),
                     MC_ERR_RPC_TIMEOUT);
    ck_assert(!is_readable(rig->subscriber));
    event_message_stored(&rig->message, 1, "a", NULL);
    event_message_stored(&rig->message, 2, "b", NULL);
    send_built(&rig->publisher, &rig->message);
    ck_assert(AWAIT(is_readable(rig->subscriber)));
    for (int i = 0; i < 3; i++) { /* the epoch and two events */
        ck_assert(is_readable(rig->subscriber));
        ck_assert_int_eq(mc_subscriber_next(rig->subscriber, 0, &item), MC_OK);
    }
    ck_assert(!is_readable(rig->subscriber));
    /* What was handed out last is still there to be looked at. */
    ck_assert(
        mc_view_equal(item.delivery->event->object_key, mc_view_str("b")));
    send_one(rig, 3, "c");
    ck_assert(AWAIT(is_readable(rig->subscriber)));
    ck_assert(
        mc_view_equal(item.delivery->event->object_key, mc_view_str("b")));
    size_t handled = 0;
    ck_assert_int_eq(mc_subscriber_poll(rig->subscriber, 0, 0, &handled),
                     MC_OK);
    ck_assert_uint_eq(handled, 1);
    ck_assert(!is_readable(rig->subscriber));
    rig_free(rig);
}
END_TEST

START_TEST(poll_and_next_return_when_nothing_comes)
{
    struct story story;
    struct mc_subscriber *subscriber = open_one(&story, "tcp://127.0.0.1:1");
    struct mc_subscriber_item item;
    size_t handled = 7;
    ck_assert_int_eq(mc_subscriber_poll(subscriber, 20, 0, &handled), MC_OK);
    ck_assert_uint_eq(handled, 0);
    ck_assert_int_eq(mc_subscriber_next(subscriber, 20, &item),
                     MC_ERR_RPC_TIMEOUT);
    ck_assert(!stats_of(subscriber).is_connected);
    mc_subscriber_close(subscriber);
}
END_TEST

/* ---- two sources ---- */

struct tally {
    uint64_t events[2];
    uint64_t signals[2];
    bool is_wrong;
};

static void tally_event(void *ctx, const struct mc_delivery *delivery)
{
    struct tally *tally = ctx;
    tally->events[delivery->source]++;
    tally->is_wrong |= !mc_view_equal(
        delivery->event->object_key, mc_view_str(delivery->source ? "b" : "a"));
}

static void tally_signal(void *ctx, const struct mc_signal *signal)
{
    struct tally *tally = ctx;
    tally->signals[signal->source] += signal->type != MC_SIGNAL_EPOCH;
}

START_TEST(two_sources_do_not_hear_each_other)
{
    struct loopback publishers[2];
    struct event_message *messages = calloc(2, sizeof *messages);
    struct mc_source_opts sources[2] = {{0}, {0}};
    struct tally tally = {.is_wrong = false};
    ck_assert_ptr_nonnull(messages);
    for (int i = 0; i < 2; i++) {
        loopback_open(&publishers[i]);
        sources[i].endpoint = publishers[i].endpoint;
        messages[i].seq = 1;
        messages[i].epoch = EPOCH; /* even so */
    }
    struct mc_subscriber_opts opts = {.sources = sources,
                                      .source_count = 2,
                                      .on_event = tally_event,
                                      .on_signal = tally_signal,
                                      .ctx = &tally};
    struct mc_subscriber *subscriber = NULL;
    ck_assert_int_eq(mc_subscriber_open(&opts, &subscriber), MC_OK);
    for (int i = 0; i < 2; i++) {
        loopback_await_subscriber(&publishers[i]);
    }
    for (uint64_t id = 1; id <= 200; id++) {
        for (int i = 0; i < 2; i++) {
            messages[i].seq += i == 1 && id % 50 == 0; /* the second loses */
            event_message_stored(&messages[i], id + (i == 1 ? id / 50 : 0),
                                 i ? "b" : "a", NULL);
            send_built(&publishers[i], &messages[i]);
        }
    }
    while (tally.events[0] + tally.events[1] < 400) {
        ck_assert_int_eq(
            mc_subscriber_poll(subscriber, LOOPBACK_WAIT_MS, 0, NULL), MC_OK);
    }
    ck_assert(!tally.is_wrong);
    ck_assert_uint_eq(tally.events[0], 200);
    ck_assert_uint_eq(tally.signals[0], 0);
    ck_assert_uint_eq(tally.signals[1], 8); /* four gaps, four stales */
    struct mc_mirror_entry entry;
    ck_assert(mc_subscriber_mirror_get(subscriber, 0, mc_view_str("default"),
                                       mc_view_str("a"), mc_view_str("cpu"),
                                       &entry));
    ck_assert_uint_eq(entry.event_id, 200);
    ck_assert(!mc_subscriber_mirror_get(subscriber, 1, mc_view_str("default"),
                                        mc_view_str("a"), mc_view_str("cpu"),
                                        &entry));
    mc_subscriber_close(subscriber);
    for (int i = 0; i < 2; i++) {
        loopback_close(&publishers[i]);
    }
    free(messages);
}
END_TEST

/* ---- a thread of its own ---- */

struct shared_tally {
    atomic_ullong events;
    atomic_ullong signals;
    atomic_bool is_disordered;
};

static void share_event(void *ctx, const struct mc_delivery *delivery)
{
    struct shared_tally *tally = ctx;
    uint64_t before = atomic_fetch_add(&tally->events, 1);
    if (delivery->event->event_id != before + 1) {
        atomic_store(&tally->is_disordered, true);
    }
}

static void share_signal(void *ctx, const struct mc_signal *signal)
{
    struct shared_tally *tally = ctx;
    (void)signal;
    atomic_fetch_add(&tally->signals, 1);
}

START_TEST(with_its_own_thread_it_delivers_without_being_asked)
{
    struct loopback publisher;
    struct event_message *message = calloc(1, sizeof *message);
    struct shared_tally tally = {0};
    struct mc_subscriber_opts opts = {.own_thread = true,
                                      .on_event = share_event,
                                      .on_signal = share_signal,
                                      .ctx = &tally};
    struct mc_subscriber_item item;
    ck_assert_ptr_nonnull(message);
    loopback_open(&publisher);
    struct mc_subscriber *subscriber =
        open_with(&opts, NULL, publisher.endpoint);
    loopback_await_subscriber(&publisher);
    ck_assert_int_eq(mc_subscriber_fd(subscriber), -1);
    ck_assert_int_eq(mc_subscriber_poll(subscriber, 0, 0, NULL),
                     MC_ERR_UNAVAILABLE_IN_CURRENT_MODE);
    ck_assert_int_eq(mc_subscriber_next(subscriber, 0, &item),
                     MC_ERR_UNAVAILABLE_IN_CURRENT_MODE);
    ck_assert_int_eq(mc_subscriber_inject(subscriber, 0, NULL, 0),
                     MC_ERR_UNAVAILABLE_IN_CURRENT_MODE);
    message->seq = 1;
    message->epoch = EPOCH;
    for (uint64_t id = 1; id <= 500; id++) {
        event_message_stored(message, id, "k", NULL);
        send_built(&publisher, message);
    }
    ck_assert(AWAIT(atomic_load(&tally.events) == 500));
    /* Counters are any thread's. */
    ck_assert(AWAIT(stats_of(subscriber).events == 500));
    ck_assert(!atomic_load(&tally.is_disordered));
    ck_assert_uint_eq(atomic_load(&tally.signals), 1);
    mc_subscriber_close(subscriber);
    loopback_close(&publisher);
    free(message);
}
END_TEST

struct flood {
    struct loopback publisher;
    atomic_bool is_stopped;
    atomic_ullong sent;
};

static void *run_flood(void *arg)
{
    struct flood *flood = arg;
    struct event_message *message = calloc(1, sizeof *message);
    loopback_open(&flood->publisher);
    message->seq = 1;
    message->epoch = EPOCH;
    atomic_store(&flood->sent, 1);
    for (uint64_t id = 1; !atomic_load(&flood->is_stopped); id++) {
        if (id < 100000) { /* the socket of the publisher has no bound */
            event_message_stored(message, id, "key", "session");
            send_built(&flood->publisher, message);
        } else {
            await_turn();
        }
    }
    loopback_close(&flood->publisher);
    free(message);
    return NULL;
}

START_TEST(it_can_be_closed_while_events_flow)
{
    struct flood flood = {.is_stopped = false};
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, run_flood, &flood), 0);
    ck_assert(AWAIT(atomic_load(&flood.sent) > 0));
    for (int i = 0; i < 12; i++) {
        struct shared_tally tally = {0};
        struct mc_subscriber_opts opts = {.own_thread = i % 2 == 1,
                                          .on_event = share_event,
                                          .on_signal = share_signal,
                                          .ctx = &tally,
                                          .max_queue_bytes = 4096};
        struct mc_subscriber_item item;
        struct mc_subscriber *subscriber =
            open_with(&opts, NULL, flood.publisher.endpoint);
        if (i % 2 == 0 && i < 8) { /* inside of a message */
            ck_assert_int_eq(
                mc_subscriber_next(subscriber, LOOPBACK_WAIT_MS, &item), MC_OK);
        } else if (i < 8) {
            ck_assert(AWAIT(atomic_load(&tally.events) > 0));
        }
        mc_subscriber_close(subscriber);
    }
    atomic_store(&flood.is_stopped, true);
    pthread_join(thread, NULL);
}
END_TEST

/* ---- inject ---- */

START_TEST(golden_rows_mean_here_what_they_say)
{
    static const char *const files[] = {"decode.json", "decode-more.json"};
    json_object *rows = vectors_load(files[_i]);
    for (size_t i = 0; i < json_object_array_length(rows); i++) {
        json_object *row = json_object_array_get_idx(rows, i);
        json_object *expect = json_object_object_get(row, "expect");
        json_object *events = json_object_object_get(expect, "events");
        struct vector_frames frames;
        struct story story;
        struct mc_subscriber *subscriber = open_one(&story, NULL);
        vector_frames_make(row, &frames);
        ck_assert_int_eq(
            mc_subscriber_inject(subscriber, 0, frames.frames, frames.count),
            MC_OK);
        struct mc_source_stats stats = stats_of(subscriber);
        uint64_t refused = 0;
        size_t count = events ? json_object_array_length(events) : 0;
        for (size_t k = 0; k < count; k++) {
            json_object *event = json_object_array_get_idx(events, k);
            refused += vector_string(event, "error") != NULL;
        }
        const char *name = vector_string(row, "name");
        ck_assert_msg(stats.refused_messages == (events ? 0 : 1), "%s", name);
        ck_assert_msg(stats.refused_events == refused, "%s", name);
        ck_assert_msg(stats.events + stats.duplicates == count - refused, "%s",
                      name);
        ck_assert_msg(stats.heartbeats == (events && count == 0), "%s", name);
        check_sum(subscriber);
        mc_subscriber_close(subscriber);
        vector_frames_free(&frames);
    }
    json_object_put(rows);
}
END_TEST

static void count_message(void *ctx, uint32_t source,
                          const struct mc_view *frames, size_t count)
{
    uint64_t *seen = ctx;
    (void)source;
    *seen = *seen * 10 + count;
    for (size_t i = 0; i < count; i++) {
        ck_assert(frames[i].data || frames[i].len == 0);
    }
}

START_TEST(every_message_is_seen_before_it_is_read_even_a_bad_one)
{
    uint64_t seen = 0;
    struct mc_source_opts source = {.endpoint = NULL};
    struct mc_subscriber_opts opts = {.sources = &source,
                                      .source_count = 1,
                                      .on_message = count_message,
                                      .ctx = &seen};
    struct mc_subscriber *subscriber = NULL;
    struct mc_view junk[3] = {{"", 0}, {"x", 1}, {"y", 1}};
    ck_assert_int_eq(mc_subscriber_open(&opts, &subscriber), MC_OK);
    for (size_t count = 0; count <= 3; count++) {
        ck_assert_int_eq(mc_subscriber_inject(subscriber, 0, junk, count),
                         MC_OK);
    }
    ck_assert_uint_eq(seen, 123);
    ck_assert_int_eq(mc_subscriber_inject(subscriber, 1, junk, 3),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_subscriber_inject(subscriber, 0, NULL, 3),
                     MC_ERR_INVALID_PARAMS);
    mc_subscriber_close(subscriber);
}
END_TEST

START_TEST(what_next_left_of_a_message_comes_before_what_is_injected)
{
    struct rig *rig = rig_make();
    struct mc_subscriber_item item;
    event_message_stored(&rig->message, 1, "a", NULL);
    event_message_stored(&rig->message, 2, "b", NULL);
    send_built(&rig->publisher, &rig->message);
    ck_assert_int_eq(
        mc_subscriber_next(rig->subscriber, LOOPBACK_WAIT_MS, &item), MC_OK);
    event_message_stored(&rig->message, 3, "c", NULL);
    event_message_frames(&rig->message);
    ck_assert_int_eq(
        mc_subscriber_inject(rig->subscriber, 0, rig->message.frames, 3),
        MC_OK);
    check_story(&rig->story, "epoch +a +b +c ");
    ck_assert(!is_readable(rig->subscriber));
    rig_free(rig);
}
END_TEST

static bool count_entry(void *ctx, const struct mc_mirror_entry *entry)
{
    uint64_t *sum = ctx;
    *sum += entry->event_id;
    return entry->event_id != 0;
}

static bool stop_at_once(void *ctx, const struct mc_mirror_entry *entry)
{
    (void)entry;
    ++*(uint64_t *)ctx;
    return false;
}

START_TEST(the_mirror_can_be_asked_and_walked)
{
    struct story story;
    struct event_message *message = calloc(1, sizeof *message);
    struct mc_mirror_entry entry;
    struct mc_subscriber *subscriber = open_one(&story, NULL);
    ck_assert_ptr_nonnull(message);
    message->epoch = EPOCH;
    event_message_stored(message, 1, "a", "s1");
    event_message_stored(message, 2, "b", NULL);
    event_message_removed(message, 3, "b");
    event_message_stored(message, 4, "c", NULL);
    event_message_frames(message);
    ck_assert_int_eq(mc_subscriber_inject(subscriber, 0, message->frames, 3),
                     MC_OK);
    ck_assert(mc_subscriber_mirror_get(subscriber, 0, mc_view_str("default"),
                                       mc_view_str("a"), mc_view_str("cpu"),
                                       &entry));
    ck_assert(mc_view_equal(entry.session_id, mc_view_str("s1")));
    ck_assert_ptr_null(entry.group_id.data);
    ck_assert(!mc_subscriber_mirror_get(subscriber, 0, mc_view_str("default"),
                                        mc_view_str("b"), mc_view_str("cpu"),
                                        &entry));
    ck_assert(!mc_subscriber_mirror_get(subscriber, 9, mc_view_str("default"),
                                        mc_view_str("a"), mc_view_str("cpu"),
                                        &entry));
    uint64_t sum = 0;
    mc_subscriber_mirror_walk(subscriber, count_entry, &sum);
    ck_assert_uint_eq(sum, 5);
    uint64_t calls = 0;
    mc_subscriber_mirror_walk(subscriber, stop_at_once, &calls);
    ck_assert_uint_eq(calls, 1);
    ck_assert_uint_eq(mc_subscriber_mirror_count(subscriber), 2);
    mc_subscriber_close(subscriber);
    free(message);
}
END_TEST

/* ---- an index ---- */

/* An index asked inside callbacks: how many leading blocks of 1, 2, 3 are
 * held. */
struct asker {
    struct mc_index_reader *reader;
    char answers[64];
    size_t count;
};

static void ask(struct asker *asker)
{
    static const uint64_t chain[] = {1, 2, 3};
    struct mc_index_match match = {.places = NULL};
    mc_index_match(asker->reader, mc_view_str("default"), chain, 3, &match);
    asker->answers[asker->count++] = (char)('0' + match.store);
}

static void ask_at_event(void *ctx, const struct mc_delivery *delivery)
{
    (void)delivery;
    ask(ctx);
}

static void ask_at_signal(void *ctx, const struct mc_signal *signal)
{
    struct asker *asker = ctx;
    asker->answers[asker->count++] = mc_signal_name(signal->type)[0];
    ask(asker);
}

static struct mc_index *make_index(void)
{
    struct mc_index_opts opts = {.max_nodes = 1000};
    struct mc_index *index = NULL;
    ck_assert_int_eq(mc_key_layout_parse(mc_view_str("u64"),
                                         mc_view_make(NULL, 0), &opts.layout),
                     MC_OK);
    ck_assert_int_eq(mc_index_create(&opts, &index), MC_OK);
    return index;
}

START_TEST(an_index_asked_in_a_callback_answers_as_of_that_event)
{
    struct asker asker = {.count = 0};
    struct mc_index *index = make_index();
    struct event_message *message = calloc(1, sizeof *message);
    struct mc_source_opts source = {.endpoint = NULL};
    struct mc_subscriber_opts opts = {.sources = &source,
                                      .source_count = 1,
                                      .index = index,
                                      .on_event = ask_at_event,
                                      .on_signal = ask_at_signal,
                                      .ctx = &asker};
    struct mc_subscriber *subscriber = NULL;
    ck_assert_ptr_nonnull(message);
    ck_assert_int_eq(mc_index_reader_create(index, &asker.reader), MC_OK);
    ck_assert_int_eq(mc_subscriber_open(&opts, &subscriber), MC_OK);
    message->seq = 1;
    message->epoch = EPOCH;
    event_message_stored(message, 1, "1", "s");
    event_message_stored(message, 2, "2", "s");
    event_message_stored(message, 3, "3", "s");
    event_message_removed(message, 4, "2");
    event_message_stored(message, 5, "2", "s");
    event_message_removed(message, 6, "3");
    event_message_frames(message);
    ck_assert_int_eq(mc_subscriber_inject(subscriber, 0, message->frames, 3),
                     MC_OK);
    /* A pair of removed and stored is one change: 2 never leaves. */
    ck_assert_str_eq(asker.answers, "e0123332");
    event_message_next(message);
    message->seq = 9;
    event_message_stored(message, 20, "1", "s");
    event_message_frames(message);
    ck_assert_int_eq(mc_subscriber_inject(subscriber, 0, message->frames, 3),
                     MC_OK);
    ck_assert_str_eq(asker.answers, "e0123332g0s01");
    mc_subscriber_close(subscriber);
    mc_index_reader_destroy(asker.reader);
    mc_index_destroy(index);
    free(message);
}
END_TEST

/* ---- opening ---- */

START_TEST(wrong_options_are_refused)
{
    struct mc_source_opts source = {.endpoint = "tcp://127.0.0.1:1"};
    struct mc_source_opts recovering = {.endpoint = "tcp://127.0.0.1:1",
                                        .recovery_endpoint = "tcp://x:1"};
    struct mc_source_opts many[65] = {{0}};
    struct mc_subscriber_opts none = {.source_count = 1};
    struct mc_subscriber_opts empty = {.sources = &source};
    struct mc_subscriber_opts over = {.sources = many, .source_count = 65};
    struct mc_subscriber_opts wide = {.sources = &source,
                                      .source_count = 1,
                                      .max_message_events =
                                          MC_EVENT_COUNT_MAX + 1};
    struct mc_subscriber_opts early = {.sources = &recovering,
                                       .source_count = 1};
    struct mc_subscriber *subscriber = NULL;
    ck_assert_int_eq(mc_subscriber_open(NULL, &subscriber),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_subscriber_open(&none, &subscriber),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_subscriber_open(&empty, &subscriber),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_subscriber_open(&over, &subscriber),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(mc_subscriber_open(&wide, &subscriber),
                     MC_ERR_INVALID_PARAMS);
    early.no_mirror = true; /* and so nothing to tell differences from */
    ck_assert_int_eq(mc_subscriber_open(&early, &subscriber),
                     MC_ERR_INVALID_PARAMS);
    recovering.recovery_endpoint = NULL;
    recovering.begin = MC_BEGIN_SNAPSHOT;
    early.no_mirror = false;
    ck_assert_int_eq(mc_subscriber_open(&early, &subscriber),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_ptr_null(subscriber);
    over.source_count = 64;
    ck_assert_int_eq(mc_subscriber_open(&over, &subscriber), MC_OK);
    mc_subscriber_close(subscriber);
    mc_subscriber_close(NULL);
}
END_TEST

START_TEST(opening_without_memory_leaves_nothing_behind)
{
    struct mc_source_opts sources[2] = {{.endpoint = "tcp://127.0.0.1:1"},
                                        {.endpoint = NULL}};
    struct mc_subscriber_opts opts = {.sources = sources, .source_count = 2};
    struct alloc_fail fail;
    ALLOC_FAIL_EACH(fail)
    {
        struct mc_subscriber *subscriber = NULL;
        alloc_fail_arm(&fail);
        enum mc_err err = mc_subscriber_open(&opts, &subscriber);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        mc_subscriber_close(subscriber);
    }
    ck_assert_uint_gt(fail.k, 8);
}
END_TEST

START_TEST(a_message_of_more_events_than_asked_for_is_refused)
{
    struct story story = {.len = 0};
    struct mc_subscriber_opts opts = {.max_message_events = 2};
    struct event_message *message = calloc(1, sizeof *message);
    ck_assert_ptr_nonnull(message);
    struct mc_subscriber *subscriber = open_with(&opts, &story, NULL);
    for (uint64_t id = 1; id <= 3; id++) {
        event_message_stored(message, id, "k", NULL);
    }
    event_message_frames(message);
    ck_assert_int_eq(mc_subscriber_inject(subscriber, 0, message->frames, 3),
                     MC_OK);
    check_story(&story, "degraded ");
    ck_assert_uint_eq(stats_of(subscriber).refused[MC_EVENT_ERROR_EVENTS_COUNT],
                      1);
    mc_subscriber_close(subscriber);
    free(message);
}
END_TEST

START_TEST(signals_have_names)
{
    ck_assert_str_eq(mc_signal_name(MC_SIGNAL_GAP), "gap");
    ck_assert_str_eq(mc_signal_name(MC_SIGNAL_RECOVERED), "recovered");
    ck_assert_str_eq(mc_signal_name(MC_SIGNAL_EPOCH), "epoch");
    ck_assert_str_eq(mc_signal_name(MC_SIGNAL_DEGRADED), "degraded");
    ck_assert_str_eq(mc_signal_name(MC_SIGNAL_STALE), "stale");
    ck_assert_str_eq(mc_signal_name((enum mc_signal_type)99), "unknown");
}
END_TEST

static void add_flow(Suite *suite)
{
    TCase *flow = tcase_create("flow");
    tcase_set_timeout(flow, 60);
    tcase_add_test(flow, events_of_a_publisher_come_in_order);
    tcase_add_test(flow, losses_and_repetitions_are_told_in_their_place);
    tcase_add_test(flow, garbage_between_good_messages_costs_nothing_else);
    tcase_add_loop_test(flow, of_a_batch_of_64_with_a_bad_event_63_arrive, 1,
                        65);
    tcase_add_loop_test(flow,
                        a_publisher_killed_and_bound_anew_is_followed_again, 0,
                        sizeof rebirths / sizeof rebirths[0]);
    tcase_add_test(flow, two_sources_do_not_hear_each_other);
    suite_add_tcase(suite, flow);
}

static void add_delivery(Suite *suite)
{
    TCase *delivery = tcase_create("delivery");
    tcase_set_timeout(delivery, 60);
    tcase_add_test(delivery,
                   a_flood_before_a_slow_consumer_stays_within_its_bound);
    tcase_add_test(delivery, next_gives_the_same_story_one_by_one);
    tcase_add_test(delivery, the_fd_is_readable_until_all_was_delivered);
    tcase_add_test(delivery, poll_and_next_return_when_nothing_comes);
    tcase_add_test(delivery,
                   with_its_own_thread_it_delivers_without_being_asked);
    tcase_add_test(delivery, it_can_be_closed_while_events_flow);
    suite_add_tcase(suite, delivery);
}

int main(void)
{
    Suite *suite = suite_create("subscriber");
    add_flow(suite);
    add_delivery(suite);
    TCase *inject = tcase_create("inject");
    tcase_set_timeout(inject, 60);
    tcase_add_loop_test(inject, golden_rows_mean_here_what_they_say, 0, 2);
    tcase_add_test(inject,
                   every_message_is_seen_before_it_is_read_even_a_bad_one);
    tcase_add_test(inject,
                   what_next_left_of_a_message_comes_before_what_is_injected);
    tcase_add_test(inject, the_mirror_can_be_asked_and_walked);
    tcase_add_test(inject,
                   an_index_asked_in_a_callback_answers_as_of_that_event);
    suite_add_tcase(suite, inject);
    TCase *life = tcase_create("life");
    tcase_add_test(life, wrong_options_are_refused);
    tcase_add_test(life, opening_without_memory_leaves_nothing_behind);
    tcase_add_test(life, a_message_of_more_events_than_asked_for_is_refused);
    tcase_add_test(life, signals_have_names);
    suite_add_tcase(suite, life);
    return suite_run(suite);
}
