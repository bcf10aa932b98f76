/* SPDX-License-Identifier: Apache-2.0 */
/* test_flow_crowd.c - exactness over the socket: eight threads put, upsert and
 * remove the same 100 keys with a remove_all loop beside them, a subscriber
 * follows over loopback TCP. Nothing may be missed, each key's events must
 * alternate, and at the end the mirror says what the store says, tags included.
 * The writers pause while more than 20 000 ids are not yet followed, so that no
 * socket queue comes near its mark. Public headers only.
 */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "await.h"
#include "draw.h"
#include "flow_agree.h"
#include "mc_client.h"
#include "mc_subscriber.h"
#include "mci_clock.h"
#include "sanitized.h"
#include "suite.h"

#define WRITERS 8
#define KEYS 100
#define AHEAD_MAX 20000
#define RUN_MS (SANITIZED ? 3000 : 10000)

struct crowd {
    struct mc_client *client;
    struct mc_subscriber *subscriber;
    atomic_bool stop;
    _Atomic uint64_t followed_id;
    _Atomic uint64_t faults;
    _Atomic int64_t last_fault;
    /* The subscriber's thread alone: */
    uint64_t next_id;
    uint64_t holes;
    uint64_t signals;
    bool is_stored[KEYS];
    uint64_t out_of_turn;
};

static void fault(struct crowd *crowd, int64_t code)
{
    atomic_fetch_add(&crowd->faults, 1);
    atomic_store(&crowd->last_fault, code);
}

/* ---- following ------------------------------------------------------------ */

static uint32_t number_of(struct mc_view key)
{
    const char *text = key.data;
    ck_assert_uint_eq(key.len, 3);
    return (uint32_t)(text[1] - '0') * 10 + (uint32_t)(text[2] - '0');
}

static void take_turn(struct crowd *crowd, const struct mc_event *event)
{
    if (event->type == MC_EVENT_CLEARED) {
        for (uint32_t i = 0; i < KEYS; i++) {
            crowd->out_of_turn += crowd->is_stored[i];
        }
        return;
    }
    bool *is_stored = &crowd->is_stored[number_of(event->object_key)];
    crowd->out_of_turn += *is_stored == (event->type == MC_EVENT_STORED);
    *is_stored = event->type == MC_EVENT_STORED;
}

static void on_event(void *ctx, const struct mc_delivery *delivery)
{
    struct crowd *crowd = ctx;
    const struct mc_event *event = delivery->event;
    crowd->holes += event->event_id != crowd->next_id;
    crowd->next_id = event->event_id + 1;
    take_turn(crowd, event);
    atomic_store(&crowd->followed_id, event->event_id);
}

static void on_signal(void *ctx, const struct mc_signal *signal)
{
    struct crowd *crowd = ctx;
    /* The first one: a publisher is followed from its first event on. */
    crowd->signals += signal->type != MC_SIGNAL_EPOCH || signal->to_id != 0;
}

/* ---- writing -------------------------------------------------------------- */

struct writer {
    struct crowd *crowd;
    pthread_t thread;
    uint64_t number;
    uint64_t random;
};

static void pause_while_ahead(struct crowd *crowd)
{
    while (!atomic_load(&crowd->stop) &&
           mc_client_last_event_id(crowd->client) >
               atomic_load(&crowd->followed_id) + AHEAD_MAX) {
        await_turn();
    }
}

static void write_one(struct writer *writer, uint64_t count)
{
    struct crowd *crowd = writer->crowd;
    char key_text[4];
    char tag_text[48];
    (void)snprintf(key_text, sizeof key_text, "k%02u",
                   (unsigned)draw(&writer->random, KEYS));
    (void)snprintf(tag_text, sizeof tag_text, "w%ju-%ju",
                   (uintmax_t)writer->number, (uintmax_t)count);
    struct mc_view key = mc_view_str(key_text);
    struct mc_view tag = mc_view_str(tag_text);
    struct mc_replicate_config config = {.session_ids = &tag,
                                         .session_id_count = 1};
    const struct mc_replicate_config *how =
        draw(&writer->random, 4) == 0 ? NULL : &config;
    uint64_t dice = draw(&writer->random, 10);
    enum mc_err err = MC_OK;
    if (dice < 4) {
        err = mc_client_put(crowd->client, key, tag_text, 16, how);
    } else if (dice < 7) {
        err = mc_client_upsert(crowd->client, key, tag_text, 16, how);
    } else {
        err =
            mc_client_remove(crowd->client, key, draw(&writer->random, 2) == 0);
        if (err == MC_ERR_OBJECT_NOT_FOUND ||
            err == MC_ERR_REPLICA_IS_NOT_READY) {
            err = MC_OK;
        }
    }
    if (err != MC_OK) {
        fault(crowd, err);
    }
}

static void *run_writer(void *ctx)
{
    struct writer *writer = ctx;
    for (uint64_t i = 0; !atomic_load(&writer->crowd->stop); i++) {
        pause_while_ahead(writer->crowd);
        write_one(writer, i);
    }
    return NULL;
}

static void *run_remover(void *ctx)
{
    struct crowd *crowd = ctx;
    while (!atomic_load(&crowd->stop)) {
        uint64_t removed = 0;
        enum mc_err err = mc_client_remove_all(crowd->client, false, &removed);
        if (err != MC_OK) {
            fault(crowd, err);
        }
        pause_while_ahead(crowd);
        await_turn();
    }
    return NULL;
}

static void run_threads(struct crowd *crowd)
{
    struct writer writers[WRITERS];
    pthread_t remover;
    for (uint64_t i = 0; i < WRITERS; i++) {
        writers[i].crowd = crowd;
        writers[i].number = i;
        writers[i].random = (i + 1) * UINT64_C(0x9E3779B97F4A7C15);
        ck_assert_int_eq(
            pthread_create(&writers[i].thread, NULL, run_writer, &writers[i]),
            0);
    }
    ck_assert_int_eq(pthread_create(&remover, NULL, run_remover, crowd), 0);
    uint64_t end_ns = mci_clock_ns() + RUN_MS * MCI_NS_PER_MS;
    while (mci_clock_ns() < end_ns) {
        await_turn();
    }
    atomic_store(&crowd->stop, true);
    for (uint64_t i = 0; i < WRITERS; i++) {
        ck_assert_int_eq(pthread_join(writers[i].thread, NULL), 0);
    }
    ck_assert_int_eq(pthread_join(remover, NULL), 0);
}

/* ---- comparing ------------------------------------------------------------ */

static void compare(struct crowd *crowd)
{
    struct mc_source_stats stats;
    (void)flow_must_agree(crowd->client, crowd->subscriber);
    mc_subscriber_stats(crowd->subscriber, 0, &stats);
    ck_assert_uint_eq(stats.gaps, 0);
    ck_assert_uint_eq(stats.lost_ids, 0);
    ck_assert_uint_eq(stats.contradictions, 0);
    ck_assert_uint_eq(stats.duplicates, 0);
    ck_assert_uint_eq(stats.refused_events, 0);
    ck_assert_uint_eq(stats.last_event_id,
                      mc_client_last_event_id(crowd->client));
}

/* The follower polls on this test's main thread would starve run_threads' wait,
 * so it polls on one of its own. */
static void *run_follower(void *ctx)
{
    struct crowd *crowd = ctx;
    while (!atomic_load(&crowd->stop) ||
           atomic_load(&crowd->followed_id) <
               mc_client_last_event_id(crowd->client)) {
        size_t handled = 0;
        if (mc_subscriber_poll(crowd->subscriber, 2000, 0, &handled) != MC_OK) {
            fault(crowd, -1);
            return NULL;
        }
        if (handled == 0 && atomic_load(&crowd->stop)) {
            fault(crowd, -2); /* something is still missing after 2 s */
            return NULL;
        }
    }
    return NULL;
}

static void open_crowd(struct crowd *crowd, enum mc_publisher_overflow overflow)
{
    struct mc_client_opts opts = {
        .segment_bytes = 1 << 20,
        .store = {.default_kv_lease_ttl_ms = MC_NONE},
        .events = {.bind_endpoint = "tcp://127.0.0.1:*",
                   .backend_id = "n1",
                   .overflow = overflow},
    };
    struct mc_client_stats stats;
    ck_assert_int_eq(mc_client_open(&opts, &crowd->client), MC_OK);
    mc_client_stat(crowd->client, &stats);
    struct mc_source_opts source = {.endpoint = stats.events.endpoint};
    struct mc_subscriber_opts follow = {.sources = &source,
                                        .source_count = 1,
                                        .on_event = on_event,
                                        .on_signal = on_signal,
                                        .ctx = crowd};
    crowd->next_id = 1;
    ck_assert_int_eq(mc_subscriber_open(&follow, &crowd->subscriber), MC_OK);
    ck_assert(AWAIT(
        (mc_client_stat(crowd->client, &stats), stats.events.subscribers > 0)));
}

START_TEST(the_mirror_equals_the_store_under_load)
{
    static struct crowd crowd;
    pthread_t follower;
    memset(&crowd, 0, sizeof crowd);
    open_crowd(&crowd, _i == 0 ? MC_PUBLISHER_DROP_OLDEST : MC_PUBLISHER_BLOCK);
    ck_assert_int_eq(pthread_create(&follower, NULL, run_follower, &crowd), 0);
    run_threads(&crowd);
    ck_assert_int_eq(pthread_join(follower, NULL), 0);
    ck_assert_msg(atomic_load(&crowd.faults) == 0, "fault %jd",
                  (intmax_t)atomic_load(&crowd.last_fault));
    compare(&crowd);
    ck_assert_uint_eq(crowd.holes, 0);
    ck_assert_uint_eq(crowd.signals, 0);
    ck_assert_uint_eq(crowd.out_of_turn, 0);
    ck_assert_uint_gt(crowd.next_id, 1000);
    mc_subscriber_close(crowd.subscriber);
    mc_client_close(crowd.client);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("flow_crowd");
    TCase *tcase = tcase_create("crowd");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, the_mirror_equals_the_store_under_load, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
