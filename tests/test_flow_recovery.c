/* SPDX-License-Identifier: Apache-2.0 */
/* test_flow_recovery.c - a store with its publisher and recovery server, and a
 * follower that does not get all of it. What goes wrong on the way is chosen
 * here: messages are taken off the wire by a plain SUB socket and handed to the
 * subscriber, or not, or spoilt; what it then asks goes to the real server over
 * a real socket. Mirror and store must agree in the end. Public headers, and
 * ZeroMQ.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "await.h"
#include "flow_agree.h"
#include "mc_client.h"
#include "mc_subscriber.h"
#include "suite.h"

#define FRAMES 3
#define WAIT_MS 20000
#define TURN_MS 10

struct flow {
    struct mc_client *client;
    struct mc_client_stats stats;
    void *context;
    void *wire;
    struct mc_subscriber *subscriber;
    char log[4096]; /* signals */
    size_t log_len;
    uint64_t stored;  /* per the user: what it counts as there */
    uint64_t refused; /* messages spoilt so far */
};

static void on_event(void *ctx, const struct mc_delivery *delivery)
{
    struct flow *flow = ctx;
    if (delivery->event->type == MC_EVENT_CLEARED) {
        flow->stored = 0;
    } else if (delivery->event->type == MC_EVENT_STORED) {
        flow->stored++;
    } else {
        flow->stored--;
    }
}

static void on_signal(void *ctx, const struct mc_signal *signal)
{
    struct flow *flow = ctx;
    int len =
        snprintf(flow->log + flow->log_len, sizeof flow->log - flow->log_len,
                 "%s ", mc_signal_name(signal->type));
    ck_assert_int_gt(len, 0);
    flow->log_len += (size_t)len;
    ck_assert_uint_lt(flow->log_len, sizeof flow->log);
    if (signal->type == MC_SIGNAL_STALE) {
        flow->stored = 0;
    }
}

static void check_log(struct flow *flow, const char *want)
{
    ck_assert_str_eq(flow->log, want);
    flow->log_len = 0;
    flow->log[0] = '\0';
}

/* ---- the store --------------------------------------------------------- */

static void open_store(struct flow *flow,
                       const struct mc_publisher_opts *events)
{
    struct mc_client_opts opts = {
        .segment_bytes = 4 << 20,
        .events = *events,
    };
    opts.events.backend_id = "n1";
    ck_assert_int_eq(mc_client_open(&opts, &flow->client), MC_OK);
    mc_client_stat(flow->client, &flow->stats);
}

static void open_wire(struct flow *flow)
{
    const int unbounded = 0;
    const int wait_ms = WAIT_MS;
    flow->context = zmq_ctx_new();
    flow->wire = zmq_socket(flow->context, ZMQ_SUB);
    ck_assert_ptr_nonnull(flow->wire);
    (void)zmq_setsockopt(flow->wire, ZMQ_RCVHWM, &unbounded, sizeof unbounded);
    (void)zmq_setsockopt(flow->wire, ZMQ_RCVTIMEO, &wait_ms, sizeof wait_ms);
    (void)zmq_setsockopt(flow->wire, ZMQ_SUBSCRIBE, "", 0);
    ck_assert_int_eq(zmq_connect(flow->wire, flow->stats.events.endpoint), 0);
    ck_assert(AWAIT((mc_client_stat(flow->client, &flow->stats),
                     flow->stats.events.subscribers > 0)));
}

static void follow(struct flow *flow, struct mc_source_opts *source)
{
    struct mc_subscriber_opts opts = {.sources = source,
                                      .source_count = 1,
                                      .on_event = on_event,
                                      .on_signal = on_signal,
                                      .ctx = flow};
    ck_assert_int_eq(mc_subscriber_open(&opts, &flow->subscriber), MC_OK);
}

static struct flow *flow_make(const struct mc_publisher_opts *events)
{
    struct flow *flow = calloc(1, sizeof *flow);
    struct mc_publisher_opts own = *events;
    ck_assert_ptr_nonnull(flow);
    own.bind_endpoint = "tcp://127.0.0.1:*";
    own.replay_endpoint = "tcp://127.0.0.1:*";
    open_store(flow, &own);
    open_wire(flow);
    struct mc_source_opts source = {.recovery_endpoint =
                                        flow->stats.events.replay_endpoint};
    follow(flow, &source);
    return flow;
}

static void flow_free(struct flow *flow)
{
    mc_subscriber_close(flow->subscriber);
    if (flow->wire) {
        zmq_close(flow->wire);
        zmq_ctx_term(flow->context);
    }
    if (flow->client) {
        mc_client_close(flow->client);
    }
    free(flow);
}

static void put(struct flow *flow, int number)
{
    char key[16];
    (void)snprintf(key, sizeof key, "key%d", number);
    ck_assert_int_eq(
        mc_client_upsert(flow->client, mc_view_str(key), key, 8, NULL), MC_OK);
}

static void drop(struct flow *flow, int number)
{
    char key[16];
    (void)snprintf(key, sizeof key, "key%d", number);
    ck_assert_int_eq(mc_client_remove(flow->client, mc_view_str(key), true),
                     MC_OK);
}

/* ---- the wire ---------------------------------------------------------- */

struct wired {
    zmq_msg_t parts[FRAMES];
    struct mc_view frames[FRAMES];
};

static void receive(struct flow *flow, struct wired *message)
{
    for (int i = 0; i < FRAMES; i++) {
        (void)zmq_msg_init(&message->parts[i]);
        ck_assert_int_ge(zmq_msg_recv(&message->parts[i], flow->wire, 0), 0);
        message->frames[i] = mc_view_make(zmq_msg_data(&message->parts[i]),
                                          zmq_msg_size(&message->parts[i]));
    }
}

static void forget(struct wired *message)
{
    for (int i = 0; i < FRAMES; i++) {
        (void)zmq_msg_close(&message->parts[i]);
    }
}

static void hand_on(struct flow *flow, const struct wired *message)
{
    ck_assert_int_eq(
        mc_subscriber_inject(flow->subscriber, 0, message->frames, FRAMES),
        MC_OK);
}

enum fate { FATE_ARRIVES, FATE_LOST, FATE_CUT };

/* The next message of the wire, whatever becomes of it. */
static void pass(struct flow *flow, enum fate fate)
{
    struct wired message;
    receive(flow, &message);
    if (fate == FATE_CUT) {
        message.frames[2].len--;
    }
    if (fate != FATE_LOST) {
        hand_on(flow, &message);
    }
    forget(&message);
}

static void put_and_pass(struct flow *flow, int number, enum fate fate)
{
    put(flow, number);
    pass(flow, fate);
}

static struct mc_source_stats stats_of(const struct flow *flow)
{
    struct mc_source_stats stats;
    mc_subscriber_stats(flow->subscriber, 0, &stats);
    return stats;
}

/* Whether a message waits on the wire. */
static bool has_more(struct flow *flow)
{
    zmq_pollitem_t item = {.socket = flow->wire, .events = ZMQ_POLLIN};
    return zmq_poll(&item, 1, 0) == 1;
}

/* Lets messages arrive and answers come until nothing is missing. */
static void await_recovery(struct flow *flow)
{
    for (int turn = 0; turn < WAIT_MS / TURN_MS; turn++) {
        while (flow->wire && has_more(flow)) {
            pass(flow, FATE_ARRIVES);
        }
        ck_assert_int_eq(mc_subscriber_poll(flow->subscriber, TURN_MS, 0, NULL),
                         MC_OK);
        if (!stats_of(flow).is_recovering && stats_of(flow).recoveries > 0) {
            return;
        }
    }
    ck_abort_msg("still recovering: %s", flow->log);
}

/* ---- comparing --------------------------------------------------------- */

static bool agrees(struct flow *flow)
{
    struct flow_agreement agreement =
        flow_compare(flow->client, flow->subscriber);
    return agreement.wrong == 0 && agreement.listed == agreement.held &&
           agreement.listed == flow->stored;
}

static void check_agreement(struct flow *flow)
{
    struct mc_source_stats stats = stats_of(flow);
    ck_assert(agrees(flow));
    ck_assert_uint_eq(stats.events + stats.refused_ids + stats.lost_ids,
                      stats.span_ids);
    ck_assert_uint_eq(stats.lost_ids, 0);
    ck_assert_uint_eq(stats.refused_ids, 0);
}

static void poll_until_agreed(struct flow *flow)
{
    for (int turn = 0; turn < WAIT_MS / TURN_MS; turn++) {
        if (!stats_of(flow).is_recovering && agrees(flow)) {
            return;
        }
        ck_assert_int_eq(mc_subscriber_poll(flow->subscriber, TURN_MS, 0, NULL),
                         MC_OK);
    }
    ck_abort_msg("they differ: %s", flow->log);
}

/* ---- the stories ------------------------------------------------------- */

START_TEST(lost_messages_are_replayed)
{
    struct flow *flow = flow_make(&(struct mc_publisher_opts){.topic = "t"});
    pass(flow, FATE_ARRIVES); /* the store starts */
    put_and_pass(flow, 1, FATE_ARRIVES);
    put_and_pass(flow, 2, FATE_LOST);
    drop(flow, 1);
    pass(flow, FATE_LOST);
    put_and_pass(flow, 3, FATE_ARRIVES);
    await_recovery(flow);
    check_agreement(flow);
    check_log(flow, "epoch gap recovered ");
    ck_assert_uint_eq(stats_of(flow).recoveries_by_replay, 1);
    flow_free(flow);
}
END_TEST

START_TEST(a_message_that_was_spoilt_is_fetched_again)
{
    struct flow *flow =
        flow_make(&(struct mc_publisher_opts){.replay_layout = _i ? 3 : 4});
    pass(flow, FATE_ARRIVES);
    put_and_pass(flow, 1, FATE_ARRIVES);
    put_and_pass(flow, 2, FATE_CUT);
    put_and_pass(flow, 3, FATE_ARRIVES);
    await_recovery(flow);
    check_agreement(flow);
    check_log(flow, "epoch degraded recovered ");
    ck_assert_uint_eq(stats_of(flow).refused_messages, 1);
    flow_free(flow);
}
END_TEST

START_TEST(a_history_that_was_overrun_takes_a_snapshot)
{
    struct flow *flow =
        flow_make(&(struct mc_publisher_opts){.history_batches = 16});
    pass(flow, FATE_ARRIVES);
    for (int i = 0; i < 40; i++) {
        put_and_pass(flow, i, i == 0 ? FATE_ARRIVES : FATE_LOST);
    }
    drop(flow, 0);
    pass(flow, FATE_LOST);
    for (int i = 100; i < 120; i++) {
        put_and_pass(flow, i, FATE_LOST);
    }
    put_and_pass(flow, 40, FATE_ARRIVES);
    await_recovery(flow);
    check_agreement(flow);
    check_log(flow, "epoch gap recovered ");
    ck_assert_uint_eq(stats_of(flow).recoveries_by_snapshot, 1);
    flow_free(flow);
}
END_TEST

START_TEST(another_run_of_the_store_is_followed)
{
    struct flow *flow = flow_make(&(struct mc_publisher_opts){.topic = NULL});
    struct mc_publisher_opts again = {.heartbeat_ms = 0};
    char endpoint[256];
    char replay[256];
    pass(flow, FATE_ARRIVES);
    put_and_pass(flow, 1, FATE_ARRIVES);
    (void)snprintf(endpoint, sizeof endpoint, "%s",
                   flow->stats.events.endpoint);
    (void)snprintf(replay, sizeof replay, "%s",
                   flow->stats.events.replay_endpoint);
    mc_client_close(flow->client);
    zmq_close(flow->wire);
    zmq_ctx_term(flow->context);
    again.bind_endpoint = endpoint;
    again.replay_endpoint = replay;
    open_store(flow, &again);
    open_wire(flow);
    pass(flow, FATE_LOST); /* its beginning */
    put_and_pass(flow, 2, FATE_LOST);
    put_and_pass(flow, 3, FATE_ARRIVES);
    await_recovery(flow);
    check_agreement(flow);
    check_log(flow, "epoch epoch stale recovered ");
    flow_free(flow);
}
END_TEST

START_TEST(a_late_joiner_begins_with_a_snapshot)
{
    struct flow *flow = calloc(1, sizeof *flow);
    ck_assert_ptr_nonnull(flow);
    struct mc_publisher_opts events = {.bind_endpoint = "tcp://127.0.0.1:*",
                                       .replay_endpoint = "tcp://127.0.0.1:*"};
    open_store(flow, &events);
    for (int i = 0; i < 300; i++) {
        put(flow, i);
    }
    drop(flow, 7);
    struct mc_source_opts source = {.endpoint = flow->stats.events.endpoint,
                                    .recovery_endpoint =
                                        flow->stats.events.replay_endpoint,
                                    .begin = MC_BEGIN_SNAPSHOT};
    follow(flow, &source);
    for (int i = 300; i < 600; i++) {
        put(flow, i);
        ck_assert_int_eq(mc_subscriber_poll(flow->subscriber, 0, 0, NULL),
                         MC_OK);
    }
    await_recovery(flow);
    poll_until_agreed(flow);
    check_agreement(flow);
    flow_free(flow);
}
END_TEST

/* The log holds 1 024 events, writers do not wait for it: it loses some. */
START_TEST(what_an_overflowing_log_has_lost_is_made_good)
{
    struct flow *flow = calloc(1, sizeof *flow);
    ck_assert_ptr_nonnull(flow);
    struct mc_publisher_opts events = {.bind_endpoint = "tcp://127.0.0.1:*",
                                       .replay_endpoint = "tcp://127.0.0.1:*",
                                       .queue_capacity = 1024};
    open_store(flow, &events);
    struct mc_source_opts source = {.endpoint = flow->stats.events.endpoint,
                                    .recovery_endpoint =
                                        flow->stats.events.replay_endpoint,
                                    .begin = MC_BEGIN_SNAPSHOT};
    follow(flow, &source);
    await_recovery(flow);
    ck_assert(AWAIT((mc_client_stat(flow->client, &flow->stats),
                     flow->stats.events.subscribers > 0)));
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 100; i++) {
            put(flow, i + round % 3);
        }
        mc_client_stat(flow->client, &flow->stats);
        if (round > 20 && flow->stats.events.dropped_events > 0) {
            break;
        }
    }
    poll_until_agreed(flow);
    check_agreement(flow);
    flow_free(flow);
}
END_TEST

START_TEST(a_server_that_hangs_is_left_and_asked_again)
{
    struct flow *flow = flow_make(&(struct mc_publisher_opts){.topic = NULL});
    char replay[256];
    void *router = zmq_socket(flow->context, ZMQ_ROUTER);
    size_t len = sizeof replay;
    ck_assert_int_eq(zmq_bind(router, "tcp://127.0.0.1:*"), 0);
    ck_assert_int_eq(zmq_getsockopt(router, ZMQ_LAST_ENDPOINT, replay, &len),
                     0);
    mc_subscriber_close(flow->subscriber);
    struct mc_source_opts source = {.recovery_endpoint = replay};
    struct mc_subscriber_opts opts = {.sources = &source,
                                      .source_count = 1,
                                      .recovery_patience_ms = 50,
                                      .on_event = on_event,
                                      .on_signal = on_signal,
                                      .ctx = flow};
    ck_assert_int_eq(mc_subscriber_open(&opts, &flow->subscriber), MC_OK);
    pass(flow, FATE_ARRIVES);
    put_and_pass(flow, 1, FATE_ARRIVES);
    put_and_pass(flow, 2, FATE_LOST);
    put_and_pass(flow, 3, FATE_ARRIVES);
    while (stats_of(flow).failed_requests < 3) {
        ck_assert_int_eq(mc_subscriber_poll(flow->subscriber, TURN_MS, 0, NULL),
                         MC_OK);
    }
    check_log(flow, "epoch gap degraded ");
    ck_assert_uint_eq(stats_of(flow).gaps, 1);
    zmq_close(router);
    flow_free(flow);
}
END_TEST

/* A store that publishes and answers at free ports. */
static void open_plain(struct flow *flow)
{
    struct mc_publisher_opts events = {.bind_endpoint = "tcp://127.0.0.1:*",
                                       .replay_endpoint = "tcp://127.0.0.1:*"};
    open_store(flow, &events);
}

START_TEST(a_follower_with_a_thread_of_its_own_recovers_by_itself)
{
    struct flow *flow = calloc(1, sizeof *flow);
    ck_assert_ptr_nonnull(flow);
    open_plain(flow);
    for (int i = 0; i < 200; i++) {
        put(flow, i);
    }
    struct mc_source_opts source = {.endpoint = flow->stats.events.endpoint,
                                    .recovery_endpoint =
                                        flow->stats.events.replay_endpoint,
                                    .begin = MC_BEGIN_SNAPSHOT};
    struct mc_subscriber_opts opts = {.sources = &source,
                                      .source_count = 1,
                                      .own_thread = true,
                                      .on_event = on_event,
                                      .on_signal = on_signal,
                                      .ctx = flow};
    ck_assert_int_eq(mc_subscriber_open(&opts, &flow->subscriber), MC_OK);
    for (int i = 200; i < 300; i++) {
        put(flow, i);
    }
    ck_assert(AWAIT(stats_of(flow).mirror_entries == 300 &&
                    stats_of(flow).recoveries == 1));
    ck_assert_uint_eq(stats_of(flow).lost_ids, 0);
    flow_free(flow);
}
END_TEST

/* Of the first one something is lost, of the second one nothing. */
START_TEST(what_one_source_has_missed_is_not_asked_of_another)
{
    struct flow *flow = flow_make(&(struct mc_publisher_opts){.topic = NULL});
    struct flow second = {.wire = NULL};
    open_plain(&second);
    mc_subscriber_close(flow->subscriber);
    struct mc_source_opts sources[2] = {
        {.recovery_endpoint = flow->stats.events.replay_endpoint},
        {.endpoint = second.stats.events.endpoint,
         .recovery_endpoint = second.stats.events.replay_endpoint,
         .begin = MC_BEGIN_SNAPSHOT}};
    struct mc_subscriber_opts opts = {.sources = sources,
                                      .source_count = 2,
                                      .on_event = on_event,
                                      .on_signal = on_signal,
                                      .ctx = flow};
    ck_assert_int_eq(mc_subscriber_open(&opts, &flow->subscriber), MC_OK);
    pass(flow, FATE_ARRIVES);
    put(&second, 7);
    for (int i = 0; i < 21; i++) {
        put_and_pass(flow, i, i % 3 == 1 ? FATE_LOST : FATE_ARRIVES);
    }
    await_recovery(flow);
    struct mc_source_stats stats;
    for (int turn = 0; turn < WAIT_MS / TURN_MS; turn++) {
        mc_subscriber_stats(flow->subscriber, 1, &stats);
        if (stats.recoveries == 1 && stats.mirror_entries == 1) {
            break;
        }
        ck_assert_int_eq(mc_subscriber_poll(flow->subscriber, TURN_MS, 0, NULL),
                         MC_OK);
    }
    ck_assert_uint_eq(stats.recoveries, 1);
    ck_assert_uint_eq(stats.mirror_entries, 1);
    ck_assert_uint_eq(stats.gaps, 0);
    ck_assert_uint_eq(stats.replays_asked, 0);
    ck_assert_uint_eq(stats_of(flow).mirror_entries, 21);
    ck_assert_uint_eq(stats_of(flow).snapshots_asked, 0);
    mc_client_close(second.client);
    flow_free(flow);
}
END_TEST

START_TEST(a_store_that_takes_over_is_followed_at_its_own_place)
{
    struct flow *flow = calloc(1, sizeof *flow);
    struct flow second = {.wire = NULL};
    ck_assert_ptr_nonnull(flow);
    open_plain(flow);
    open_plain(&second);
    struct mc_publisher_opts later = {
        .bind_endpoint = second.stats.events.endpoint,
        .replay_endpoint = second.stats.events.replay_endpoint};
    struct mc_publisher_place other = {later.bind_endpoint,
                                       later.replay_endpoint};
    struct mc_source_opts source = {.endpoint = flow->stats.events.endpoint,
                                    .recovery_endpoint =
                                        flow->stats.events.replay_endpoint,
                                    .begin = MC_BEGIN_SNAPSHOT,
                                    .others = &other,
                                    .other_count = 1};
    mc_client_close(second.client);
    follow(flow, &source);
    await_recovery(flow);
    put(flow, 1);
    poll_until_agreed(flow);
    flow->log_len = 0;
    struct mc_client *first = flow->client;
    struct flow *standby = calloc(1, sizeof *standby);
    ck_assert_ptr_nonnull(standby);
    open_store(standby, &later); /* so its epoch is greater */
    flow->client = standby->client;
    for (int i = 10; i < 30; i++) {
        put(flow, i);
    }
    poll_until_agreed(flow);
    check_agreement(flow);
    ck_assert_uint_eq(stats_of(flow).epoch, standby->stats.events.epoch);
    ck_assert_ptr_nonnull(strstr(flow->log, "epoch stale "));
    flow->client = first; /* which goes on and is not followed any more */
    put(flow, 3);
    flow->client = standby->client;
    put(flow, 31);
    poll_until_agreed(flow);
    mc_client_close(first);
    free(standby);
    flow_free(flow);
}
END_TEST

START_TEST(keys_of_curve_open_the_recovery_server_too)
{
    char keys[2][2][41]; /* the store's and ours, public and secret */
    char paths[3][32] = {"/tmp/mc-flow-XXXXXX", "/tmp/mc-flow-XXXXXX",
                         "/tmp/mc-flow-XXXXXX"};
    int fds[3];
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(zmq_curve_keypair(keys[i][0], keys[i][1]), 0);
    }
    for (int i = 0; i < 3; i++) {
        fds[i] = mkstemp(paths[i]);
        ck_assert_int_ge(fds[i], 0);
        if (i < 2) {
            (void)dprintf(fds[i], "public %s\nsecret %s\n", keys[i][0],
                          keys[i][1]);
        } else {
            (void)dprintf(fds[i], "%s\n", keys[1][0]);
        }
        close(fds[i]);
    }
    struct flow *flow = calloc(1, sizeof *flow);
    ck_assert_ptr_nonnull(flow);
    struct mc_publisher_opts events = {.bind_endpoint = "tcp://127.0.0.1:*",
                                       .replay_endpoint = "tcp://127.0.0.1:*",
                                       .curve_server_key_file = paths[0],
                                       .curve_allowed_keys_file = paths[2]};
    open_store(flow, &events);
    put(flow, 1);
    struct mc_source_opts source = {.endpoint = flow->stats.events.endpoint,
                                    .recovery_endpoint =
                                        flow->stats.events.replay_endpoint,
                                    .curve_server_key = keys[0][0],
                                    .curve_key_file = paths[1],
                                    .begin = MC_BEGIN_SNAPSHOT};
    follow(flow, &source);
    await_recovery(flow);
    check_agreement(flow);
    flow_free(flow);
    for (int i = 0; i < 3; i++) {
        (void)unlink(paths[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("flow_recovery");
    TCase *losses = tcase_create("losses");
    tcase_set_timeout(losses, 60);
    tcase_add_test(losses, lost_messages_are_replayed);
    tcase_add_loop_test(losses, a_message_that_was_spoilt_is_fetched_again, 0,
                        2);
    tcase_add_test(losses, a_history_that_was_overrun_takes_a_snapshot);
    tcase_add_test(losses, another_run_of_the_store_is_followed);
    tcase_add_test(losses, a_late_joiner_begins_with_a_snapshot);
    tcase_add_test(losses, what_an_overflowing_log_has_lost_is_made_good);
    tcase_add_test(losses, a_server_that_hangs_is_left_and_asked_again);
    tcase_add_test(losses,
                   a_follower_with_a_thread_of_its_own_recovers_by_itself);
    tcase_add_test(losses, what_one_source_has_missed_is_not_asked_of_another);
    tcase_add_test(losses,
                   a_store_that_takes_over_is_followed_at_its_own_place);
    tcase_add_test(losses, keys_of_curve_open_the_recovery_server_too);
    suite_add_tcase(suite, losses);
    return suite_run(suite);
}
