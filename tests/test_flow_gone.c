/* SPDX-License-Identifier: Apache-2.0 */
/* test_flow_gone.c - a node with many keys is killed, or closes; before the master
 * has taken all of them out, another client puts them anew, beside a node that
 * stays. Whatever a put says is there can be got, and of each key a follower hears
 * stored, removed, stored. mc-master and the nodes are processes; public headers
 * only. */
#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "await.h"
#include "flow_agree.h"
#include "keep_quiet.h"
#include "master_process.h"
#include "mc_client.h"
#include "mc_log.h"
#include "mc_subscriber.h"
#include "sanitized.h"
#include "self_process.h"
#include "suite.h"

#define SEGMENT_BYTES (16U << 20)
#define CHUNK 500
#define QUIET_MS 20000 /* for an event that must come */

#define KEYS (SANITIZED ? 4000 : 40000)

enum way { BY_KILL, BY_CLOSE, WAYS };

static struct master_process master;
static char names[KEYS][16];
static struct mc_view keys[KEYS];
static struct mc_view tags[KEYS];
static int64_t results[KEYS];

/* Of the follower, whose callbacks run on the test's thread. */
static uint8_t heard[KEYS]; /* events of the key */
static uint64_t heard_all;
static uint64_t out_of_turn;
static uint64_t signals;

static struct mc_client_opts opts_of(const char *address,
                                     uint64_t segment_bytes)
{
    return (struct mc_client_opts){
        .master = address, .segment_bytes = segment_bytes, .any_memory = true};
}

static struct mc_client *join(uint64_t segment_bytes)
{
    const struct mc_client_opts opts = opts_of(master.address, segment_bytes);
    struct mc_client *client = NULL;
    ck_assert_int_eq(mc_client_open(&opts, &client), MC_OK);
    return client;
}

/* ---- following ---------------------------------------------------------- */

static void on_event(void *ctx, const struct mc_delivery *delivery)
{
    const struct mc_event *event = delivery->event;
    (void)ctx;
    if (event->type == MC_EVENT_CLEARED) {
        return; /* the beginning of the epoch */
    }
    char text[16] = {0};
    ck_assert_uint_lt(event->object_key.len, sizeof text);
    memcpy(text, event->object_key.data, event->object_key.len);
    long number = strtol(text + 1, NULL, 10);
    ck_assert(number >= 0 && number < KEYS);
    bool is_stored = event->type == MC_EVENT_STORED;
    out_of_turn += (heard[number] % 2 == 0) != is_stored;
    heard[number]++;
    heard_all++;
}

static void on_signal(void *ctx, const struct mc_signal *signal)
{
    (void)ctx;
    signals += signal->type != MC_SIGNAL_EPOCH;
}

static struct mc_subscriber *follow(struct mc_client *client)
{
    struct mc_client_stats stats;
    struct mc_subscriber *subscriber = NULL;
    mc_client_stat(client, &stats);
    struct mc_source_opts source = {.endpoint = stats.events.endpoint};
    const struct mc_subscriber_opts opts = {.sources = &source,
                                            .source_count = 1,
                                            .on_event = on_event,
                                            .on_signal = on_signal};
    ck_assert_int_eq(mc_subscriber_open(&opts, &subscriber), MC_OK);
    ck_assert(
        AWAIT((mc_client_stat(client, &stats), stats.events.subscribers > 0)));
    return subscriber;
}

static void hear(struct mc_subscriber *subscriber, uint64_t count)
{
    while (heard_all < count) {
        size_t handled = 0;
        ck_assert_int_eq(mc_subscriber_poll(subscriber, QUIET_MS, 0, &handled),
                         MC_OK);
        ck_assert_uint_gt(handled, 0);
    }
}

/* ---- the node that goes ------------------------------------------------- */

static pid_t spawn_node(void)
{
    char how[] = "--node";
    char *args[] = {how, how, master.address, NULL};
    return self_spawn(args);
}

static enum mc_err get_first(struct mc_client *client)
{
    char got[16];
    uint64_t size = 0;
    return mc_client_get_into(client, keys[0], got, sizeof got, &size);
}

static void go(enum way way, pid_t pid, struct mc_client *node,
               struct mc_client *client)
{
    if (way == BY_CLOSE) {
        mc_client_close(node);
        return;
    }
    self_kill(pid);
    /* Until the master knows: a copy that cannot be reached is another code. */
    ck_assert(AWAIT(get_first(client) == MC_ERR_OBJECT_NOT_FOUND));
}

/* ---- putting and getting ------------------------------------------------ */

static void put(struct mc_client *client, int from, int count, const char *tag)
{
    for (int i = 0; i < count; i++) {
        tags[i] = mc_view_str(tag);
    }
    const struct mc_replicate_config config = {
        .session_ids = tags, .session_id_count = (size_t)count};
    ck_assert_int_eq(mc_client_batch_put(client, &keys[from], &keys[from],
                                         (size_t)count, &config, results),
                     MC_OK);
    for (int i = 0; i < count; i++) {
        ck_assert_msg(results[i] == 0, "put %s: %jd", names[from + i],
                      (intmax_t)results[i]);
    }
}

static void get_chunk(struct mc_client *client, int from)
{
    static char got[CHUNK][16];
    struct mc_span spans[CHUNK];
    for (int i = 0; i < CHUNK; i++) {
        spans[i] = (struct mc_span){got[i], sizeof got[i]};
    }
    ck_assert_int_eq(
        mc_client_batch_get_into(client, &keys[from], spans, CHUNK, results),
        MC_OK);
    for (int i = 0; i < CHUNK; i++) {
        ck_assert_msg(results[i] == (int64_t)keys[from + i].len,
                      "%s was put and is not there: %jd", names[from + i],
                      (intmax_t)results[i]);
        ck_assert(memcmp(got[i], names[from + i], keys[from + i].len) == 0);
    }
}

static void begin(void)
{
    memset(heard, 0, sizeof heard);
    heard_all = 0;
    out_of_turn = 0;
    signals = 0;
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(names[i], sizeof names[i], "k%d", i);
        keys[i] = mc_view_str(names[i]);
    }
}

START_TEST(what_a_put_says_is_there_can_be_got)
{
    static const char *const flags[] = {
        "--client_ttl=3",
        "--eviction_high_watermark_ratio=1.0",
        "--enable_kv_events",
        "--kv_events_bind_endpoint=tcp://127.0.0.1:*",
        "--kv_events_backend_id=n1",
        NULL};
    struct mc_client_stats stats;
    struct mc_client *node = NULL;
    pid_t pid = 0;
    mc_log_set_sink(keep_quiet, NULL);
    master_spawn(&master, flags);
    begin();
    if (_i == BY_KILL) {
        pid = spawn_node();
    } else {
        node = join(SEGMENT_BYTES);
    }
    struct mc_client *client = join(MC_NONE);
    struct mc_subscriber *subscriber = follow(client);
    ck_assert(AWAIT((mc_client_stat(client, &stats), stats.segments == 1)));
    put(client, 0, KEYS, "first");
    hear(subscriber, KEYS);
    struct mc_client *other = join(SEGMENT_BYTES);

    go((enum way)_i, pid, node, client);
    for (int from = 0; from < KEYS; from += CHUNK) {
        put(client, from, CHUNK, "second");
        get_chunk(client, from);
    }
    hear(subscriber, 3 * (uint64_t)KEYS);
    ck_assert_uint_eq(out_of_turn, 0);
    ck_assert_uint_eq(signals, 0);
    for (int i = 0; i < KEYS; i++) {
        ck_assert_uint_eq(heard[i], 3);
    }
    ck_assert_uint_eq(flow_must_agree(client, subscriber), KEYS);
    ck_assert(AWAIT((mc_client_stat(client, &stats), stats.segments == 1)));
    ck_assert_uint_eq(stats.objects, KEYS);
    mc_subscriber_close(subscriber);
    mc_client_close(other);
    mc_client_close(client);
    master_end(&master);
    mc_log_set_sink(NULL, NULL);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "--node") == 0) {
        const struct mc_client_opts opts = opts_of(argv[2], SEGMENT_BYTES);
        return self_lend(&opts);
    }
    Suite *suite = suite_create("flow_gone");
    TCase *tcase = tcase_create("gone");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, what_a_put_says_is_there_can_be_got, 0, WAYS);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
