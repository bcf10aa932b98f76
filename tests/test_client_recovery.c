/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_recovery.c - an embedded store that can be asked again: what it
 * stored, what it said, and that it closes while it is asked. */
#include <stdio.h>

#include "asker_rig.h"
#include "await.h"
#include "mc_client.h"
#include "mc_event.h"
#include "mci_alloc.h"
#include "suite.h"

#define KEYS 500

static struct mc_client *open_client(void)
{
    const struct mc_client_opts opts = {
        .events = {.bind_endpoint = "tcp://127.0.0.1:*",
                   .replay_endpoint = "tcp://127.0.0.1:*",
                   .backend_id = "n1",
                   .heartbeat_ms = MC_NONE}};
    struct mc_client *client = NULL;
    ck_assert_int_eq(mc_client_open(&opts, &client), MC_OK);
    return client;
}

static struct mc_publisher_stats events_of(struct mc_client *client)
{
    struct mc_client_stats stats;
    mc_client_stat(client, &stats);
    return stats.events;
}

static void put_keys(struct mc_client *client, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char key[16];
        int len = snprintf(key, sizeof key, "k%u", i);
        ck_assert_int_eq(mc_client_put(client, mc_view_make(key, (size_t)len),
                                       "value", 5, NULL),
                         MC_OK);
    }
}

/* Events in a payload. */
static uint32_t count_in(struct mc_view payload)
{
    static struct mc_event events[MC_BATCH_EVENTS_MAX];
    const struct mc_view frames[] = {
        mc_view_str(""), mc_view_make("\0\0\0\0\0\0\0\1", 8), payload};
    struct mc_event_batch batch;
    ck_assert_int_eq(
        mc_event_read(frames, 3, events, MC_BATCH_EVENTS_MAX, &batch, NULL),
        MC_EVENT_OK);
    ck_assert_uint_eq(batch.refused, 0);
    return batch.count;
}

START_TEST(embedded_store_is_asked_for_what_it_said_and_has)
{
    struct mc_client *client = open_client();
    struct asker asker;
    put_keys(client, KEYS);
    ck_assert(AWAIT(events_of(client).published_events == KEYS + 1));
    asker_open(&asker, events_of(client).replay_endpoint, 0);
    asker_ask_replay(&asker, 1);
    uint32_t replayed = 0;
    asker_must_next(&asker);
    while (!asker_has_end(&asker)) {
        replayed += count_in(asker.frames[3]);
        asker_must_next(&asker);
    }
    ck_assert_uint_eq(replayed, KEYS + 1);
    asker_ask_word(&asker, "snapshot");
    asker_must_next(&asker); /* the map at the beginning */
    uint32_t rows = 0;
    asker_must_next(&asker);
    while (asker.count == 4) {
        rows += count_in(asker.frames[3]);
        asker_must_next(&asker);
    }
    ck_assert_uint_eq(rows, KEYS);
    asker_close(&asker);
    mc_client_close(client);
}
END_TEST

START_TEST(store_closes_while_it_is_walked)
{
    struct asker askers[4];
    struct mci_alloc_stats before;
    struct mci_alloc_stats after;
    mci_alloc_stats(&before);
    struct mc_client *client = open_client();
    put_keys(client, 20000);
    struct mc_publisher_stats stats = events_of(client);
    for (int i = 0; i < 4; i++) {
        asker_open(&askers[i], stats.replay_endpoint, 1);
        asker_ask_word(&askers[i], "snapshot");
    }
    asker_must_next(&askers[0]);
    mc_client_close(client);
    mci_alloc_stats(&after);
    ck_assert_int_eq(after.blocks, before.blocks);
    for (int i = 0; i < 4; i++) {
        asker_close(&askers[i]);
    }
}
END_TEST

START_TEST(endpoint_that_is_taken_is_an_error_of_open)
{
    struct mc_client *first = open_client();
    struct mc_client *second = NULL;
    struct mc_publisher_stats stats = events_of(first);
    const struct mc_client_opts opts = {
        .events = {.bind_endpoint = "tcp://127.0.0.1:*",
                   .replay_endpoint = stats.replay_endpoint,
                   .backend_id = "n1"}};
    ck_assert_int_eq(mc_client_open(&opts, &second), MC_ERR_INVALID_PARAMS);
    ck_assert_ptr_null(second);
    mc_client_close(first);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_recovery");
    TCase *tc = tcase_create("embedded");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, embedded_store_is_asked_for_what_it_said_and_has);
    tcase_add_test(tc, store_closes_while_it_is_walked);
    tcase_add_test(tc, endpoint_that_is_taken_is_an_error_of_open);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
