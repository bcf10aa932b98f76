/* SPDX-License-Identifier: Apache-2.0 */
/* A source that recovers, against a model of a store that knows the truth:
 * each rule by the interleaving that would break it, and everything at random.
 * The user's view is checked at every callback: what it hears alternates. */
#include <stdio.h>

#include "alloc_fail.h"
#include "draw.h"
#include "publisher_model.h"
#include "stream.h"
#include "suite.h"

#define EPOCH (UINT64_C(0x19aca4b2f0a1) << 16)
#define MS UINT64_C(1000000)
#define LOG_MAX 16384

struct rig {
    struct publisher_model model;
    struct publisher_model *other; /* at the second place; NULL: nobody */
    struct stream *stream;
    uint64_t now_ns;
    bool is_silent;            /* the server answers nothing */
    bool is_told;              /* gap or degraded, and not yet recovered */
    uint64_t view[MODEL_KEYS]; /* version as the user was told; 0: none */
    uint64_t index[MODEL_KEYS];
    uint64_t delivered; /* live messages, up to this number */
    uint64_t signals[6];
    uint64_t asked[4]; /* by kind */
    char log[LOG_MAX]; /* signals alone */
    size_t log_len;
    enum mc_degraded_cause cause;
};

/* The number behind the letter. */
static uint64_t number_of(struct mc_view text)
{
    uint64_t number = 0;
    const char *digits = text.data;
    for (size_t i = 1; i < text.len; i++) {
        number = 10 * number + (uint64_t)(digits[i] - '0');
    }
    return number;
}

static int key_of(const struct mc_event *event)
{
    uint64_t key = number_of(event->object_key);
    ck_assert_uint_lt(key, MODEL_KEYS);
    return (int)key;
}

static void clear_tenant(uint64_t *keys, struct mc_view tenant)
{
    for (int key = 0; key < MODEL_KEYS; key++) {
        if (mc_view_equal(tenant, mc_view_str(model_tenant(key)))) {
            keys[key] = 0;
        }
    }
}

/* ---- the index: it must hear the same ---- */

static bool hear_stored(void *ctx, const struct mc_event *event)
{
    struct rig *rig = ctx;
    int key = key_of(event);
    ck_assert_uint_eq(rig->index[key], 0);
    rig->index[key] = number_of(event->session_id);
    return true;
}

static bool hear_replaced(void *ctx, const struct mc_event *event)
{
    struct rig *rig = ctx;
    int key = key_of(event);
    ck_assert_uint_ne(rig->index[key], 0);
    rig->index[key] = number_of(event->session_id);
    return true;
}

static bool hear_removed(void *ctx, const struct mc_event *event)
{
    struct rig *rig = ctx;
    int key = key_of(event);
    ck_assert_uint_ne(rig->index[key], 0);
    rig->index[key] = 0;
    return true;
}

static void hear_cleared(void *ctx, const struct mc_event *event)
{
    struct rig *rig = ctx;
    clear_tenant(rig->index, event->tenant_id);
}

static void hear_lost(void *ctx, struct mc_view backend_id)
{
    struct rig *rig = ctx;
    (void)backend_id;
    memset(rig->index, 0, sizeof rig->index);
}

/* ---- the user ---- */

static void on_event(void *ctx, const struct mc_delivery *delivery)
{
    struct rig *rig = ctx;
    const struct mc_event *event = delivery->event;
    if (event->type == MC_EVENT_CLEARED) {
        clear_tenant(rig->view, event->tenant_id);
        return;
    }
    int key = key_of(event);
    if (event->type == MC_EVENT_STORED) {
        ck_assert_uint_eq(rig->view[key], 0);
        rig->view[key] = number_of(event->session_id);
    } else {
        ck_assert_uint_eq(rig->view[key], number_of(event->session_id));
        rig->view[key] = 0;
    }
}

static void say(struct rig *rig, const char *word)
{
    int len =
        snprintf(rig->log + rig->log_len, LOG_MAX - rig->log_len, "%s ", word);
    if (len > 0 && (size_t)len < LOG_MAX - rig->log_len) {
        rig->log_len += (size_t)len;
    }
}

static void on_signal(void *ctx, const struct mc_signal *signal)
{
    struct rig *rig = ctx;
    rig->signals[signal->type]++;
    say(rig, mc_signal_name(signal->type));
    switch (signal->type) {
    case MC_SIGNAL_GAP:
        rig->is_told = true;
        break;
    case MC_SIGNAL_DEGRADED:
        rig->is_told = true;
        rig->cause = signal->cause;
        break;
    case MC_SIGNAL_RECOVERED:
        rig->is_told = false;
        break;
    case MC_SIGNAL_STALE:
        memset(rig->view, 0, sizeof rig->view);
        break;
    case MC_SIGNAL_EPOCH:
        break;
    }
}

/* ---- the rig ---- */

static struct rig *rig_make(enum mc_begin begin)
{
    struct rig *rig = calloc(1, sizeof *rig);
    ck_assert_ptr_nonnull(rig);
    struct mc_source_opts source = {.recovery_endpoint = "model",
                                    .begin = begin};
    struct stream_opts opts = {
        .source_count = 1,
        .sources = &source,
        .max_events = 256,
        .max_mirror_entries = 4 * MODEL_KEYS,
        .sink = {.ctx = rig,
                 .stored = hear_stored,
                 .replaced = hear_replaced,
                 .removed = hear_removed,
                 .cleared = hear_cleared,
                 .lost = hear_lost},
        .on_event = on_event,
        .on_signal = on_signal,
        .ctx = rig,
    };
    model_open(&rig->model, EPOCH);
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

/* H.5, whenever a message is done. */
static void check_sum(const struct rig *rig)
{
    struct mc_source_stats stats = stats_of(rig);
    ck_assert_uint_eq(stats.events + stats.refused_ids + stats.lost_ids,
                      stats.span_ids);
}

static void rig_free(struct rig *rig)
{
    stream_destroy(rig->stream);
    model_close(&rig->model);
    if (rig->other) {
        model_close(rig->other);
        free(rig->other);
    }
    free(rig);
}

/* Whose recovery server is asked. */
static struct publisher_model *server(struct rig *rig)
{
    return stream_place(rig->stream, 0) == 1 ? rig->other : &rig->model;
}

static void grant_or_drop(struct publisher_model *model,
                          const struct recovery_order *order)
{
    if (!model || model->request.number != order->number) {
        return;
    }
    if (order->kind == RECOVERY_DROP) {
        model->request.number = 0;
    } else {
        model_grant(model, order->credit);
    }
}

static void carry_out(struct rig *rig, const struct recovery_order *order)
{
    if (order->kind == RECOVERY_ASK) {
        struct asker_request request = {.number = order->number,
                                        .kind = order->ask,
                                        .from_seq = order->from_seq,
                                        .credit = order->credit};
        rig->asked[order->ask]++;
        ck_assert_uint_eq(server(rig)->request.number, 0);
        model_ask(server(rig), &request);
        return;
    }
    grant_or_drop(&rig->model, order);
    grant_or_drop(rig->other, order);
}

static void step(struct rig *rig)
{
    struct mc_subscriber_item item;
    struct recovery_order order;
    uint32_t source = 0;
    while (stream_step(rig->stream, &item)) {
        ck_assert(!item.delivery != !item.signal);
    }
    while (stream_next_order(rig->stream, &source, &order)) {
        carry_out(rig, &order);
    }
    check_sum(rig);
}

static void take(struct rig *rig, const struct mc_view *frames, size_t count)
{
    stream_take(rig->stream, 0, frames, count, rig->now_ns);
    step(rig);
}

/* A message of the publisher arrives, if the model still has it. */
static void arrive(struct rig *rig, uint64_t seq)
{
    uint8_t bytes[8];
    struct mc_view frames[3];
    if (model_message_frames(&rig->model, seq, bytes, frames)) {
        take(rig, frames, 3);
    }
}

/* The same, with its last byte cut off: it cannot be read. */
static void arrive_cut(struct rig *rig, uint64_t seq)
{
    uint8_t bytes[8];
    struct mc_view frames[3];
    if (model_message_frames(&rig->model, seq, bytes, frames)) {
        frames[2].len--;
        take(rig, frames, 3);
    }
}

/* The same, with one event that lacks its type. */
static void arrive_bad(struct rig *rig, uint64_t seq, uint64_t which)
{
    uint8_t bytes[8];
    struct mc_view frames[3];
    if (!model_message_frames(&rig->model, seq, bytes, frames)) {
        return;
    }
    uint8_t *copy = malloc(frames[2].len);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, frames[2].data, frames[2].len);
    static const char name[] = "event_type";
    for (size_t i = 0; i + sizeof name < frames[2].len; i++) {
        if (memcmp(copy + i, name, sizeof name - 1) == 0 && which-- == 0) {
            copy[i] = 'E'; /* the field is then missing */
            break;
        }
    }
    frames[2].data = copy;
    take(rig, frames, 3);
    free(copy);
}

static bool answer_one(struct rig *rig)
{
    struct publisher_model *model = server(rig);
    if (rig->is_silent || !model_answer(model)) {
        return false;
    }
    stream_take_answer(rig->stream, 0, model->request.number, model->frames,
                       model->frame_count, rig->now_ns);
    step(rig);
    return true;
}

static void answer_all(struct rig *rig)
{
    while (answer_one(rig)) {
    }
}

static void pass(struct rig *rig, uint64_t time_ns)
{
    rig->now_ns += time_ns;
    stream_take_tick(rig->stream, 0, rig->now_ns);
    step(rig);
}

static void connect_anew(struct rig *rig)
{
    stream_connected(rig->stream, 0, 0, rig->now_ns);
    step(rig);
}

static uint64_t put_one(struct rig *rig, int key)
{
    model_put(&rig->model, key);
    return model_publish(&rig->model);
}

static void put_heard(struct rig *rig, int key)
{
    arrive(rig, put_one(rig, key));
}

static void check_log(struct rig *rig, const char *want)
{
    ck_assert_str_eq(rig->log, want);
    rig->log_len = 0;
    rig->log[0] = '\0';
}

/* Mirror, index and user hold what the store does. */
static void check_truth(struct rig *rig)
{
    const struct mirror *mirror = stream_mirror(rig->stream, 0);
    uint64_t count = 0;
    for (int key = 0; key < MODEL_KEYS; key++) {
        struct mirror_row row = {.event_id = 0};
        uint64_t id = server(rig)->keys[key].id;
        (void)mirror_find(mirror, mc_view_str(model_tenant(key)),
                          mc_view_str(model_key_name(key)), mc_view_str("cpu"),
                          &row);
        ck_assert_msg(
            row.event_id == id && rig->view[key] == id && rig->index[key] == id,
            "key %d: store %ju, mirror %ju, user %ju, index %ju; %s", key,
            (uintmax_t)id, (uintmax_t)row.event_id, (uintmax_t)rig->view[key],
            (uintmax_t)rig->index[key], rig->log);
        count += id > 0;
    }
    ck_assert_uint_eq(mirror_count(mirror), count);
    struct mc_source_stats stats = stats_of(rig);
    ck_assert_uint_eq(stats.tombstones, 0);
    ck_assert(!stats.is_recovering);
}

/* Lets everything come to rest: no more faults. */
static void settle(struct rig *rig)
{
    for (int i = 0; i < 400; i++) {
        answer_all(rig);
        if (i % 10 == 0) {
            arrive(rig, model_publish(&rig->model));
        }
        if (!stats_of(rig).is_recovering && i > 20) {
            return;
        }
        pass(rig, 100 * MS);
    }
    ck_abort_msg("still recovering: %s", rig->log);
}

static void check_quiet(struct rig *rig)
{
    settle(rig);
    check_truth(rig);
    ck_assert_msg(!rig->is_told, "%s", rig->log);
}

/* ---- a gap ---- */

START_TEST(what_was_missed_is_replayed_and_the_user_hears_what_is_different)
{
    struct rig *rig = rig_make(MC_BEGIN_NOW);
    put_heard(rig, 0);
    put_heard(rig, 1);
    (void)put_one(rig, 2);
    model_remove(&rig->model, 0);
    (void)model_publish(&rig->model);
    put_heard(rig, 3);
    check_log(rig, "epoch gap ");
    ck_assert_uint_ne(rig->view[0], 0);
    answer_all(rig);
    check_log(rig, "recovered ");
    check_truth(rig);
    ck_assert_uint_eq(rig->asked[ASKER_REPLAY], 1);
    ck_assert_uint_eq(rig->asked[ASKER_SNAPSHOT], 0);
    struct mc_source_stats stats = stats_of(rig);
    ck_assert_uint_eq(stats.lost_ids, 0);
    ck_assert_uint_eq(stats.refetched_ids, 2);
    ck_assert_uint_eq(stats.recoveries_by_replay, 1);
    rig_free(rig);
}
END_TEST

START_TEST(what_came_later_is_not_undone_by_what_is_fetched)
{
    struct rig *rig = rig_make(MC_BEGIN_NOW);
    put_heard(rig, 0);
    put_heard(rig, 1);
    (void)put_one(rig, 0); /* over the first one */
    (void)put_one(rig, 2);
    model_remove(&rig->model, 1);
    model_put(&rig->model, 1);
    (void)model_publish(&rig->model);
    put_heard(rig, 3);
    put_heard(rig, 0); /* again, before the replay: over the very first one */
    model_remove(&rig->model, 2);
    model_remove(&rig->model, 1);
    arrive(rig, model_publish(&rig->model));
    ck_assert_uint_eq(stats_of(rig).tombstones, 2);
    answer_all(rig);
    check_truth(rig);
    check_log(rig, "epoch gap recovered ");
    rig_free(rig);
}
END_TEST

START_TEST(a_cleared_that_is_fetched_takes_what_is_older_and_nothing_newer)
{
    struct rig *rig = rig_make(MC_BEGIN_NOW);
    for (int key = 0; key < 6; key++) {
        put_heard(rig, key);
    }
    model_clear(&rig->model, 0);
    (void)model_publish(&rig->model);
    (void)put_one(rig, 4);
    put_heard(rig, 0);
    put_heard(rig, 2);
    answer_all(rig);
    check_truth(rig);
    rig_free(rig);
}
END_TEST

START_TEST(a_loss_that_only_a_heartbeat_shows_is_made_good)
{
    struct rig *rig = rig_make(MC_BEGIN_NOW);
    put_heard(rig, 0);
    (void)put_one(rig, 1);
    (void)put_one(rig, 2);
    arrive(rig, model_publish(&rig->model));
    check_log(rig, "epoch gap ");
    answer_all(rig);
    check_log(rig, "recovered ");
    check_truth(rig);
    ck_assert_uint_eq(rig->asked[ASKER_SNAPSHOT], 0);
    rig_free(rig);
}
END_TEST

START_TEST(a_long_replay_is_granted_credit_as_it_is_taken)
{
    struct rig *rig = rig_make(MC_BEGIN_NOW);
    put_heard(rig, 0);
    for (int i = 0; i < 300; i++) {
        (void)put_one(rig, i % 20);
    }
    put_heard(rig, 21);
    ck_assert_uint_eq(rig->model.request.credit, RECOVERY_CREDIT);
    for (int i = 0; i < 200; i++) {
        ck_assert(answer_one(rig));
        ck_assert_uint_le(rig->model.request.credit, RECOVERY_CREDIT);
        ck_assert_uint_ge(rig->model.request.credit, RECOVERY_CREDIT / 2);
    }
    answer_all(rig);
    check_truth(rig);
    check_log(rig, "epoch gap recovered ");
    rig_free(rig);
}
END_TEST

START_TEST(lost_heartbeats_are_no_loss)
{
    struct rig *rig = rig_make(MC_BEGIN_NOW);
    put_heard(rig, 0);
    (void)model_publish(&rig->model);
    put_heard(rig, 1);
    check_log(rig, "epoch ");
    ck_assert_uint_eq(stats_of(rig).requests, 0);
    rig_free(rig);
}
END_TEST

START_TEST(what_the_store_itself_has_lost_takes_a_snapshot)
{
    struct rig *rig = rig_make(MC_BEGIN_NOW);
    for (int key = 0; key < 6; key++) {
        put_heard(rig, key);
    }
    model_burn(&rig->model, 2); /* is gone */
    model_burn(&rig->model, 9); /* is there */
    put_heard(rig, 10);
    answer_all(rig);
    check_truth(rig);
    check_log(rig, "epoch gap recovered ");
    ck_assert_uint_eq(rig->asked[ASKER_REPLAY], 1);
    ck_assert_uint_eq(rig->asked[ASKER_SNAPSHOT], 1);
    ck_assert_uint_eq(stats_of(rig).covered_ids, 2);
    ck_assert_uint_eq(stats_of(rig).lost_ids, 0);
    ck_assert_uint_eq(stats_of(rig).recoveries_by_snapshot, 1);
    rig_free(rig);
}
END_TEST

START_TEST(a_history_that_was_overrun_takes_a_snapshot)
{
    struct rig *rig = rig_make(MC_BEGIN_NOW);
    for (int key = 0; key < 10; key++) {
        put_heard(rig, key);
    }
    for (int key = 0; key < 20; key++) {
        (void)put_one(rig, key);
    }
    model_remove(&rig->model, 3);
    model_forget(&rig->model, model_publish(&rig->model) - 2);
    put_heard(rig, 21);
    answer_all(rig);
    check_truth(rig);
    check_log(rig, "epoch gap recovered ");
    ck_assert_uint_eq(rig->asked[ASKER_SNAPSHOT], 1);
    rig_free(rig);
}
END_TEST

START_TEST(a_gap_during_a_recovery_is_part_of_it)
{
    struct rig *rig = rig_make(MC_BEGIN_NOW);
    put_heard(rig, 0);
    (void)put_one(rig, 1);
    put_heard(rig, 2);
    (void)answer_one(rig);
    (void)put_one(rig, 3);
    put_heard(rig, 4);
    check_log(rig, "epoch gap recovered gap ");
    answer_all(rig);
    check_log(rig, "recovered ");
    check_truth(rig);
    rig_free(rig);
}
END_TEST

/* ---- what cannot be read ---- */

START_TEST(a_refused_event_is_fetched_again_once)
{
    struct rig *rig = rig_make(MC_BEGIN_NOW);
    put_heard(rig, 20);
    for (int key = 0; key < 16; key++) {
        model_put(&rig->model, key);
    }
    arrive_bad(rig, model_publish(&rig->model), (uint64_t)_i);
    check_log(rig, "epoch degraded ");
    ck_assert_int_eq(rig->cause, MC_DEGRADED_REFUSED);
    ck_assert_uint_eq(stats_of(rig).events, 16);
    ck_assert_uint_eq(stats_of(rig).refused_ids, 1);
    answer_all(rig);
    check_log(rig, "recovered ");
    check_truth(rig);
    struct mc_source_stats stats = stats_of(rig);
    ck_assert_uint_eq(stats.refused_events, 1);
    ck_assert_uint_eq(stats.refused_ids, 0);
    ck_assert_uint_eq(stats.requests, 1);
    put_heard(rig, 17);
    check_log(rig, "");
    check_truth(rig);
    rig_free(rig);
}
END_TEST

START_TEST(a_refused_message_is_fetched_again_once)
{
    struct rig *rig = rig_make(MC_BEGIN_NOW);
    put_heard(rig, 0);
    arrive_cut(rig, put_one(rig, 1));
    if (_i > 0) { /* with or without something behind it */
        put_heard(rig, 2);
    }
    check_log(rig, "epoch degraded ");
    answer_all(rig);
    check_log(rig, "recovered ");
    check_truth(rig);
    ck_assert_uint_eq(stats_of(rig).requests, 1);
    rig_free(rig);
}
END_TEST

START_TEST(the_same_bytes_again_take_a_snapshot)
{
    struct rig *rig = rig_make(MC_BEGIN_NOW);
    put_heard(rig, 0);
    uint64_t seq = put_one(rig, 1);
    struct model_message *message = &rig->model.history[seq % MODEL_HISTORY];
    message->payload[message->len - 1] = 0xc1;
    arrive(rig, seq);
    if (_i > 0) {
        put_heard(rig, 2);
    }
    answer_all(rig);
    check_log(rig, "epoch degraded recovered ");
    check_truth(rig);
    ck_assert_uint_eq(stats_of(rig).refused_messages, 1);
    ck_assert_uint_eq(rig->asked[ASKER_REPLAY], 1);
    ck_assert_uint_eq(rig->asked[ASKER_SNAPSHOT], 1);
    rig_free(rig);
}
END_TEST

/* ---- connections and restarts ---- */

START_TEST(a_tail_that_was_lost_is_asked_for_after_a_reconnect)
{
    struct rig *rig = rig_make(MC_BEGIN_NOW);
    put_heard(rig, 0);
    (void)put_one(rig, 1);
    (void)put_one(rig, 2);
    connect_anew(rig);
    answer_all(rig);
    ck_assert_uint_eq(rig->asked[ASKER_STATUS], 1);
    ck_assert_uint_eq(rig->asked[ASKER_REPLAY], 0);
    pass(rig, 1000 * MS);
    answer_all(rig);
    ck_assert_uint_eq(rig->asked[ASKER_REPLAY], 1);
    check_truth(rig);
    check_log(rig, "epoch ");
    ck_assert_uint_eq(stats_of(rig).lost_ids, 0);
    rig_free(rig);
}
END_TEST

START_TEST(a_tail_is_a_target_and_no_gap)
{
    struct rig *rig = rig_make(MC_BEGIN_NOW);
    put_heard(rig, 0);
    uint64_t seq = put_one(rig, 1);
    connect_anew(rig);
    answer_all(rig);
    arrive(rig, seq);
    pass(rig, 2000 * MS);
    ck_assert_uint_eq(rig->asked[ASKER_REPLAY], 0);
    check_truth(rig);
    check_log(rig, "epoch ");
    rig_free(rig);
}
END_TEST

START_TEST(a_publisher_that_starts_again_is_followed_from_its_beginning)
{
    struct rig *rig = rig_make(MC_BEGIN_NOW);
    put_heard(rig, 0);
    put_heard(rig, 1);
    model_restart(&rig->model, EPOCH + (_i ? 65536 : (uint64_t)-65536));
    connect_anew(rig);
    arrive(rig, model_publish(&rig->model));
    put_heard(rig, 2);
    check_log(rig, "epoch epoch stale ");
    check_quiet(rig);
    rig_free(rig);
}
END_TEST

START_TEST(the_beginning_of_another_run_is_made_good_when_it_was_missed)
{
    struct rig *rig = rig_make(MC_BEGIN_NOW);
    put_heard(rig, 0);
    model_restart(&rig->model, EPOCH + 65536);
    (void)model_publish(&rig->model);
    (void)put_one(rig, 5);
    connect_anew(rig);
    put_heard(rig, 2);
    answer_all(rig);
    check_log(rig, "epoch epoch stale recovered ");
    check_truth(rig);
    rig_free(rig);
}
END_TEST

START_TEST(another_run_is_noticed_by_its_status_alone)
{
    struct rig *rig = rig_make(MC_BEGIN_NOW);
    put_heard(rig, 0);
    model_restart(&rig->model, EPOCH + (_i ? 65536 : (uint64_t)-65536));
    (void)model_publish(&rig->model);
    (void)put_one(rig, 5);
    connect_anew(rig);
    answer_all(rig);
    check_log(rig, "epoch epoch stale recovered ");
    check_truth(rig);
    put_heard(rig, 6);
    check_truth(rig);
    check_log(rig, "");
    rig_free(rig);
}
END_TEST

START_TEST(old_ids_under_a_new_number_ask_for_the_status)
{
    struct rig *rig = rig_make(MC_BEGIN_NOW);
    put_heard(rig, 0);
    put_heard(rig, 1);
    uint64_t seq = put_one(rig, 2);
    arrive(rig, seq);
    struct model_message *again = &rig->model.history[seq % MODEL_HISTORY];
    uint8_t bytes[8];
    struct mc_view frames[3] = {mc_view_make("", 0), mc_view_make(bytes, 8),
                                mc_view_make(again->payload, again->len)};
    mci_put_be64(bytes, seq + 1);
    take(rig, frames, 3);
    ck_assert_uint_eq(rig->asked[ASKER_STATUS], 1);
    rig->model.last_id = _i ? rig->model.last_id : 1;
    answer_one(rig);
    check_log(rig, _i ? "epoch " : "epoch stale ");
    if (!_i) {
        rig->model.last_id = 3;
        answer_all(rig);
        check_log(rig, "recovered ");
    }
    check_truth(rig);
    rig_free(rig);
}
END_TEST

/* ---- joining ---- */

START_TEST(whoever_begins_with_a_snapshot_holds_all_of_it)
{
    struct rig *rig = rig_make(MC_BEGIN_SNAPSHOT);
    for (int key = 0; key < 20; key++) {
        (void)put_one(rig, key);
    }
    pass(rig, 0);
    (void)answer_one(rig);
    (void)answer_one(rig);
    for (int key = 0; key < 22; key += 3) {
        model_remove(&rig->model, key);
    }
    uint64_t removed = model_publish(&rig->model);
    if (_i == 0) {
        arrive(rig, removed);
    }
    uint64_t put = put_one(rig, 21);
    answer_all(rig);
    if (_i == 1) {
        ck_assert(rig->is_told || rig->signals[MC_SIGNAL_RECOVERED] == 0);
        arrive(rig, removed);
    }
    arrive(rig, put);
    check_quiet(rig);
    ck_assert_uint_eq(rig->signals[MC_SIGNAL_RECOVERED], 1);
    ck_assert_uint_eq(rig->asked[ASKER_SNAPSHOT], 1);
    rig_free(rig);
}
END_TEST

START_TEST(what_came_before_the_first_message_and_after_the_snapshot_is_fetched)
{
    struct rig *rig = rig_make(MC_BEGIN_SNAPSHOT);
    put_one(rig, 1);
    pass(rig, 0);
    (void)answer_one(rig); /* the first id is known now */
    put_one(rig, 2);
    put_one(rig, 1);
    put_heard(rig, 3); /* the subscription was slow */
    check_quiet(rig);
    rig_free(rig);
}
END_TEST

/* ---- servers that do not answer ---- */

START_TEST(a_server_that_is_silent_is_asked_again_ever_more_seldom)
{
    struct rig *rig = rig_make(MC_BEGIN_NOW);
    put_heard(rig, 0);
    rig->is_silent = true;
    (void)put_one(rig, 1);
    put_heard(rig, 2);
    uint64_t asked = rig->asked[ASKER_REPLAY];
    ck_assert_uint_eq(asked, 1);
    for (int s = 0; s < 600; s++) {
        pass(rig, 1000 * MS);
    }
    asked = rig->asked[ASKER_REPLAY] + rig->asked[ASKER_SNAPSHOT];
    ck_assert_uint_ge(asked, 15); /* 40 s apart, at most */
    ck_assert_uint_le(asked, 40);
    check_log(rig, "epoch gap degraded ");
    ck_assert_int_eq(rig->cause, MC_DEGRADED_UNANSWERED);
    rig->is_silent = false;
    settle(rig);
    check_log(rig, "recovered ");
    check_truth(rig);
    rig_free(rig);
}
END_TEST

/* Also where the status was asked for first. */
START_TEST(whoever_begins_with_a_snapshot_hears_that_nobody_answers)
{
    struct rig *rig = rig_make(MC_BEGIN_SNAPSHOT);
    rig->is_silent = true;
    for (int s = 0; s < 60; s++) {
        pass(rig, 1000 * MS);
    }
    check_log(rig, "degraded ");
    ck_assert_int_eq(rig->cause, MC_DEGRADED_UNANSWERED);
    rig->is_silent = false;
    put_one(rig, 1);
    for (int s = 0; s < 60; s++) {
        pass(rig, 1000 * MS);
    }
    check_quiet(rig);
    rig_free(rig);
}
END_TEST

START_TEST(an_answer_that_is_none_is_a_failure)
{
    struct rig *rig = rig_make(MC_BEGIN_NOW);
    struct mc_view junk = mc_view_make("junk", 4);
    put_heard(rig, 0);
    (void)put_one(rig, 1);
    put_heard(rig, 2);
    stream_take_answer(rig->stream, 0, rig->model.request.number, &junk, 1,
                       rig->now_ns);
    step(rig);
    check_log(rig, "epoch gap degraded ");
    ck_assert_int_eq(rig->cause, MC_DEGRADED_BAD_ANSWER);
    ck_assert_uint_eq(rig->model.request.number, 0);
    check_quiet(rig);
    check_log(rig, "recovered ");
    rig_free(rig);
}
END_TEST

START_TEST(late_answers_of_a_dropped_request_are_nobodys)
{
    struct rig *rig = rig_make(MC_BEGIN_NOW);
    put_heard(rig, 0);
    (void)put_one(rig, 1);
    put_heard(rig, 2);
    uint64_t number = rig->model.request.number;
    rig->is_silent = true;
    pass(rig, 11000 * MS);
    ck_assert(model_answer(&rig->model) || rig->model.request.number == 0);
    struct mc_view junk = mc_view_make("junk", 4);
    stream_take_answer(rig->stream, 0, number, &junk, 1, rig->now_ns);
    step(rig);
    ck_assert_uint_eq(stats_of(rig).failed_requests, 1);
    rig->is_silent = false;
    check_quiet(rig);
    rig_free(rig);
}
END_TEST

/* ---- bounds ---- */

START_TEST(too_much_of_the_past_begins_a_later_snapshot)
{
    struct rig *rig = rig_make(MC_BEGIN_NOW);
    for (int key = 0; key < MODEL_KEYS; key++) {
        put_heard(rig, key);
    }
    model_burn(&rig->model, 0);
    put_heard(rig, 1);
    /* Graves for a quarter of 4 x MODEL_KEYS: as many as there are keys. */
    for (int round = 0; round < 3; round++) {
        while (rig->model.request.kind != ASKER_SNAPSHOT && answer_one(rig)) {
        }
        for (int key = 0; key < MODEL_KEYS; key++) {
            model_remove(&rig->model, key);
        }
        arrive(rig, model_publish(&rig->model));
        model_clear(&rig->model, 0);
        model_clear(&rig->model, 1);
        arrive(rig, model_publish(&rig->model));
        for (int key = 0; key < MODEL_KEYS; key++) {
            put_heard(rig, key);
        }
    }
    ck_assert_uint_le(stats_of(rig).tombstones, MODEL_KEYS);
    check_quiet(rig);
    rig_free(rig);
}
END_TEST

/* ---- everything at random ---- */

static void change(struct rig *rig, uint64_t *state)
{
    int key = (int)draw(state, MODEL_KEYS);
    uint64_t kind = draw(state, 40);
    if (kind < 22) {
        model_put(&rig->model, key);
    } else if (kind < 36) {
        model_remove(&rig->model, key);
    } else if (kind < 38) {
        model_clear(&rig->model, key % MODEL_TENANTS);
    } else if (draw(state, 4) == 0) {
        model_burn(&rig->model, key);
    }
    if (draw(state, 3) == 0) {
        (void)model_publish(&rig->model);
    }
}

static void deliver(struct rig *rig, uint64_t *state, uint64_t faults)
{
    if (rig->delivered >= rig->model.last_seq) {
        return;
    }
    uint64_t seq = ++rig->delivered;
    uint64_t kind = draw(state, 100);
    if (kind < faults) {
        return; /* lost */
    }
    if (kind < 2 * faults) {
        arrive_bad(rig, seq, draw(state, 3));
    } else if (kind < 3 * faults) {
        arrive_cut(rig, seq);
    } else {
        arrive(rig, seq);
        if (kind > 96) {
            arrive(rig, seq > 3 ? seq - draw(state, 3) : seq);
        }
    }
}

static void restart(struct rig *rig)
{
    model_restart(&rig->model, rig->model.epoch + 65536);
    rig->delivered = 0;
    connect_anew(rig);
}

static void happen(struct rig *rig, uint64_t *state, uint64_t faults)
{
    uint64_t kind = draw(state, 100);
    if (kind < 40) {
        change(rig, state);
    } else if (kind < 75) {
        deliver(rig, state, faults);
    } else if (kind < 96) {
        (void)answer_one(rig);
    } else if (kind < 98) {
        pass(rig, draw(state, 400) * MS);
    } else if (kind == 98 && draw(state, 10) == 0) {
        rig->delivered = rig->model.last_seq; /* a connection that broke */
        connect_anew(rig);
    } else if (draw(state, 60) == 0) {
        restart(rig);
    } else if (draw(state, 30) == 0 && rig->model.last_seq > 4) {
        model_forget(&rig->model, rig->model.last_seq - 2);
    }
}

START_TEST(at_random_it_comes_to_hold_what_the_store_holds)
{
    uint64_t state = UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)(_i + 1);
    struct rig *rig = rig_make(_i % 3 == 0 ? MC_BEGIN_SNAPSHOT : MC_BEGIN_NOW);
    uint64_t faults = (uint64_t)(_i % 4) * 4;
    if (_i % 3 != 0) {
        put_heard(rig, 0);
        rig->delivered = rig->model.last_seq;
    }
    pass(rig, 0);
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 300; i++) {
            happen(rig, &state, faults);
        }
        while (rig->delivered < rig->model.last_seq) {
            deliver(rig, &state, 0);
        }
        if (rig->model.building.count > 0) {
            arrive(rig, model_publish(&rig->model));
        }
        check_quiet(rig);
        rig->delivered = rig->model.last_seq;
    }
    rig_free(rig);
}
END_TEST

/* ---- several publishers of one store ---- */

static struct rig *rig_of_two(uint64_t epoch)
{
    struct rig *rig = rig_make(MC_BEGIN_NOW);
    rig->other = calloc(1, sizeof *rig->other);
    ck_assert_ptr_nonnull(rig->other);
    model_open(rig->other, epoch);
    return rig;
}

/* The other one publishes, and it arrives. */
static void other_heard(struct rig *rig)
{
    uint8_t bytes[8];
    struct mc_view frames[3];
    uint64_t seq = model_publish(rig->other);
    ck_assert(model_message_frames(rig->other, seq, bytes, frames));
    stream_take_from(rig->stream, 0, 1, frames, 3, rig->now_ns);
    step(rig);
}

static void other_put(struct rig *rig, int key)
{
    model_put(rig->other, key);
    other_heard(rig);
}

START_TEST(of_two_publishers_the_greater_epoch_wins)
{
    struct rig *rig = rig_of_two(EPOCH + 65536);
    put_heard(rig, 0);
    put_heard(rig, 1);
    for (int key = 2; key < 5; key++) {
        model_put(rig->other, key);
    }
    (void)model_publish(rig->other); /* before it is heard */
    other_heard(rig);                /* a heartbeat says no epoch */
    put_heard(rig, 2);
    check_log(rig, "epoch ");
    other_put(rig, 6);
    check_log(rig, "epoch stale ");
    ck_assert_uint_eq(stream_place(rig->stream, 0), 1);
    answer_all(rig);
    check_log(rig, "recovered ");
    put_heard(rig, 3);
    put_heard(rig, 9);
    check_truth(rig);
    check_log(rig, "");
    ck_assert_uint_eq(stats_of(rig).passed_over, 3);
    rig_free(rig);
}
END_TEST

START_TEST(a_publisher_that_is_heard_is_not_left_for_an_older_one)
{
    struct rig *rig = rig_of_two(EPOCH - 65536);
    put_heard(rig, 0);
    other_put(rig, 5);
    rig->now_ns += 2900 * MS;
    other_put(rig, 6);
    put_heard(rig, 1);
    check_log(rig, "epoch ");
    check_truth(rig);
    rig->now_ns += 2900 * MS;
    arrive(rig, model_publish(&rig->model)); /* a heartbeat is a word too */
    rig->now_ns += 2900 * MS;
    other_put(rig, 7);
    check_log(rig, "");
    rig->now_ns += 200 * MS;
    other_put(rig, 8); /* and now it is silent */
    check_log(rig, "epoch stale ");
    answer_all(rig);
    check_log(rig, "recovered ");
    check_truth(rig);
    rig_free(rig);
}
END_TEST

START_TEST(two_ways_to_one_publisher_are_one)
{
    struct rig *rig = rig_of_two(EPOCH);
    for (int key = 0; key < 8; key++) {
        model_put(&rig->model, key);
        uint64_t seq = model_publish(&rig->model);
        uint8_t bytes[8];
        struct mc_view frames[3];
        ck_assert(model_message_frames(&rig->model, seq, bytes, frames));
        if (key % 3 != 1) {
            arrive(rig, seq);
        }
        stream_take_from(rig->stream, 0, 1, frames, 3, rig->now_ns);
        step(rig);
    }
    check_log(rig, "epoch ");
    check_truth(rig);
    ck_assert_uint_eq(stats_of(rig).duplicates, 5);
    rig_free(rig);
}
END_TEST

START_TEST(what_cannot_be_read_of_another_publisher_is_counted_and_nothing_else)
{
    struct rig *rig = rig_of_two(EPOCH + 65536);
    struct mc_view junk[3] = {mc_view_make("", 0),
                              mc_view_make("\0\0\0\0\0\0\0\2", 8),
                              mc_view_make("junk", 4)};
    put_heard(rig, 0);
    stream_take_from(rig->stream, 0, 1, junk, 3, rig->now_ns);
    step(rig);
    put_heard(rig, 1);
    check_log(rig, "epoch degraded ");
    ck_assert_uint_eq(stats_of(rig).refused_messages, 1);
    ck_assert_uint_eq(stats_of(rig).requests, 0);
    check_truth(rig);
    rig_free(rig);
}
END_TEST

/* ---- without memory ---- */

/* A gap, a refusal and a snapshot, with changes all along. */
static void live_through(struct rig *rig)
{
    put_heard(rig, 0);
    put_heard(rig, 1);
    (void)put_one(rig, 2);
    put_heard(rig, 0);
    model_remove(&rig->model, 1);
    arrive(rig, model_publish(&rig->model));
    (void)answer_one(rig);
    arrive_bad(rig, put_one(rig, 3), 0);
    model_burn(&rig->model, 4);
    put_heard(rig, 5);
    for (int i = 0; i < 5; i++) {
        (void)answer_one(rig);
        put_heard(rig, 6 + i);
        model_remove(&rig->model, 2 + i);
        arrive(rig, model_publish(&rig->model));
    }
    model_clear(&rig->model, 0);
    arrive(rig, model_publish(&rig->model));
    answer_all(rig);
}

START_TEST(without_memory_it_holds_the_truth_a_little_later)
{
    struct alloc_fail fail;
    ALLOC_FAIL_EACH(fail)
    {
        struct rig *rig = rig_make(MC_BEGIN_NOW);
        alloc_fail_arm(&fail);
        live_through(rig);
        alloc_fail_disarm(&fail);
        check_quiet(rig);
        rig_free(rig);
    }
    ck_assert_uint_gt(fail.k, 20);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("recovering");
    TCase *gaps = tcase_create("gaps");
    tcase_add_test(
        gaps, what_was_missed_is_replayed_and_the_user_hears_what_is_different);
    tcase_add_test(gaps, what_came_later_is_not_undone_by_what_is_fetched);
    tcase_add_test(
        gaps, a_cleared_that_is_fetched_takes_what_is_older_and_nothing_newer);
    tcase_add_test(gaps, a_loss_that_only_a_heartbeat_shows_is_made_good);
    tcase_add_test(gaps, a_long_replay_is_granted_credit_as_it_is_taken);
    tcase_add_test(gaps, lost_heartbeats_are_no_loss);
    tcase_add_test(gaps, what_the_store_itself_has_lost_takes_a_snapshot);
    tcase_add_test(gaps, a_history_that_was_overrun_takes_a_snapshot);
    tcase_add_test(gaps, a_gap_during_a_recovery_is_part_of_it);
    suite_add_tcase(suite, gaps);
    TCase *refusals = tcase_create("refusals");
    tcase_add_loop_test(refusals, a_refused_event_is_fetched_again_once, 0, 16);
    tcase_add_loop_test(refusals, a_refused_message_is_fetched_again_once, 0,
                        2);
    tcase_add_loop_test(refusals, the_same_bytes_again_take_a_snapshot, 0, 2);
    suite_add_tcase(suite, refusals);
    TCase *runs = tcase_create("runs");
    tcase_add_test(runs, a_tail_that_was_lost_is_asked_for_after_a_reconnect);
    tcase_add_test(runs, a_tail_is_a_target_and_no_gap);
    tcase_add_loop_test(
        runs, a_publisher_that_starts_again_is_followed_from_its_beginning, 0,
        2);
    tcase_add_test(
        runs, the_beginning_of_another_run_is_made_good_when_it_was_missed);
    tcase_add_loop_test(runs, another_run_is_noticed_by_its_status_alone, 0, 2);
    tcase_add_loop_test(runs, old_ids_under_a_new_number_ask_for_the_status, 0,
                        2);
    tcase_add_loop_test(runs, whoever_begins_with_a_snapshot_holds_all_of_it, 0,
                        2);
    tcase_add_test(
        runs,
        what_came_before_the_first_message_and_after_the_snapshot_is_fetched);
    suite_add_tcase(suite, runs);
    TCase *places = tcase_create("places");
    tcase_add_test(places, of_two_publishers_the_greater_epoch_wins);
    tcase_add_test(places,
                   a_publisher_that_is_heard_is_not_left_for_an_older_one);
    tcase_add_test(places, two_ways_to_one_publisher_are_one);
    tcase_add_test(
        places,
        what_cannot_be_read_of_another_publisher_is_counted_and_nothing_else);
    suite_add_tcase(suite, places);
    TCase *servers = tcase_create("servers");
    tcase_add_test(servers,
                   a_server_that_is_silent_is_asked_again_ever_more_seldom);
    tcase_add_test(servers,
                   whoever_begins_with_a_snapshot_hears_that_nobody_answers);
    tcase_add_test(servers, an_answer_that_is_none_is_a_failure);
    tcase_add_test(servers, late_answers_of_a_dropped_request_are_nobodys);
    tcase_add_test(servers, too_much_of_the_past_begins_a_later_snapshot);
    tcase_add_test(servers, without_memory_it_holds_the_truth_a_little_later);
    suite_add_tcase(suite, servers);
    TCase *random = tcase_create("random");
    tcase_set_timeout(random, 60);
    tcase_add_loop_test(random, at_random_it_comes_to_hold_what_the_store_holds,
                        0, 30);
    suite_add_tcase(suite, random);
    return suite_run(suite);
}
