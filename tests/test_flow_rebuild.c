/* SPDX-License-Identifier: Apache-2.0 */
/* test_flow_rebuild.c - an index built anew from the snapshot of a real store, over
 * the real recovery server, while a writer goes on: 30 000 blocks, or with MC_SOAK
 * ten millions of 200 000 sessions, and then it tells time and bytes. What the
 * store lists the index holds, block by block, and nothing else.
 */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "flow_agree.h"
#include "mc_client.h"
#include "mc_subscriber.h"
#include "resident.h"
#include "sanitized.h"
#include "suite.h"

#define FEW 30000
#define MANY 10000000
#define OF_A_SESSION 50
#define ROWS 256
#define RANGE_BYTES 256 /* of the segment, more than such a value takes */
#define PATIENCE_S 600

struct rebuild {
    uint64_t blocks;
    struct mc_client *client;
    struct mc_index *index;
    struct mc_index_reader *reader;
    struct mc_subscriber *subscriber;
    uint64_t seen; /* rows that the store listed */
    uint64_t wrong;
};

struct rows {
    char keys[ROWS][24];
    char sessions[ROWS][24];
    struct mc_view key_views[ROWS];
    struct mc_view session_views[ROWS];
    struct mc_view values[ROWS];
};

static double seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- the store ---------------------------------------------------------- */

static void open_store(struct rebuild *rebuild)
{
    const struct mc_client_opts opts = {
        .segment_bytes =
            (rebuild->blocks + rebuild->blocks / 8 + 65536) * RANGE_BYTES,
        .store = {.default_kv_lease_ttl_ms = MC_NONE,
                  .eviction_high_watermark = 1.0},
        .events = {.bind_endpoint = "tcp://127.0.0.1:*",
                   .replay_endpoint = "tcp://127.0.0.1:*",
                   .backend_id = "n1"}};
    ck_assert_int_eq(mc_client_open(&opts, &rebuild->client), MC_OK);
}

/* Upserts the blocks from..from+ROWS-1, which wrap. */
static bool put_rows(struct rebuild *rebuild, struct rows *rows, uint64_t from)
{
    int64_t results[ROWS];
    for (size_t i = 0; i < ROWS; i++) {
        uint64_t block = (from + i) % rebuild->blocks + 1;
        int len =
            snprintf(rows->keys[i], sizeof rows->keys[i], "%" PRIu64, block);
        rows->key_views[i] = mc_view_make(rows->keys[i], (size_t)len);
        len = snprintf(rows->sessions[i], sizeof rows->sessions[i], "s%" PRIu64,
                       block / OF_A_SESSION);
        rows->session_views[i] = mc_view_make(rows->sessions[i], (size_t)len);
        rows->values[i] = mc_view_make(rows->keys[i], 1);
    }
    const struct mc_replicate_config config = {
        .session_ids = rows->session_views, .session_id_count = ROWS};
    return mc_client_batch_upsert(rebuild->client, rows->key_views,
                                  rows->values, ROWS, &config,
                                  results) == MC_OK &&
           results[0] == 0 && results[ROWS - 1] == 0;
}

static void put_all(struct rebuild *rebuild)
{
    struct rows *rows = malloc(sizeof *rows);
    bool is_good = rows != NULL;
    for (uint64_t at = 0; is_good && at < rebuild->blocks; at += ROWS) {
        is_good = put_rows(rebuild, rows, at);
    }
    ck_assert(is_good);
    free(rows);
}

/* ---- the index ---------------------------------------------------------- */

static void open_index(struct rebuild *rebuild)
{
    struct mc_index_opts index = {0};
    struct mc_client_stats stats;
    mc_client_stat(rebuild->client, &stats);
    struct mc_source_opts source = {.endpoint = stats.events.endpoint,
                                    .recovery_endpoint =
                                        stats.events.replay_endpoint,
                                    .begin = MC_BEGIN_SNAPSHOT};
    struct mc_subscriber_opts opts = {.sources = &source, .source_count = 1};
    ck_assert_int_eq(mc_key_layout_parse(mc_view_str("u64"),
                                         mc_view_make(NULL, 0), &index.layout),
                     MC_OK);
    ck_assert_int_eq(mc_index_create(&index, &rebuild->index), MC_OK);
    ck_assert_int_eq(mc_index_reader_create(rebuild->index, &rebuild->reader),
                     MC_OK);
    opts.index = rebuild->index;
    ck_assert_int_eq(mc_subscriber_open(&opts, &rebuild->subscriber), MC_OK);
}

static struct mc_source_stats stats_of(const struct rebuild *rebuild)
{
    struct mc_source_stats stats;
    mc_subscriber_stats(rebuild->subscriber, 0, &stats);
    return stats;
}

/* Follows until it has come so far and nothing is to be made good; where writing
 * goes on, 256 upserts every 10 ms meanwhile. */
static void follow_until(struct rebuild *rebuild, uint64_t id, bool writes_on)
{
    struct rows *rows = malloc(sizeof *rows);
    double due = seconds();
    double end = due + PATIENCE_S;
    struct mc_source_stats stats;
    uint64_t failed = rows == NULL;
    uint64_t turns = 0;
    do {
        failed +=
            mc_subscriber_poll(rebuild->subscriber, 10, 64, NULL) != MC_OK;
        if (writes_on && seconds() >= due) {
            failed += !put_rows(rebuild, rows, turns++ * 7919 * ROWS);
            due += 0.01;
        }
        stats = stats_of(rebuild);
    } while (failed == 0 && seconds() < end &&
             (stats.is_recovering || stats.recoveries == 0 ||
              stats.last_event_id < id));
    free(rows);
    ck_assert_uint_eq(failed, 0);
    ck_assert(!stats.is_recovering && stats.recoveries > 0 &&
              stats.last_event_id >= id);
}

/* ---- comparing ---------------------------------------------------------- */

static bool compare_row(void *ctx, const struct mc_object_row *row)
{
    struct rebuild *rebuild = ctx;
    struct mc_index_place places[2];
    struct mc_index_match match = {.places = places, .place_capacity = 2};
    char text[24];
    size_t len = row->key.len < sizeof text ? row->key.len : sizeof text - 1;
    memcpy(text, row->key.data, len);
    text[len] = '\0';
    uint64_t block = strtoull(text, NULL, 10);
    mc_index_match(rebuild->reader, row->tenant_id, &block, 1, &match);
    rebuild->wrong += match.place_count != 1 || places[0].blocks != 1 ||
                      places[0].tier != MC_TIER_EXTERNAL;
    rebuild->seen++;
    return true;
}

static void compare(struct rebuild *rebuild)
{
    struct mc_index_stats index;
    uint64_t blocks = 0;
    ck_assert_int_eq(mc_client_list(rebuild->client, compare_row, rebuild),
                     MC_OK);
    mc_index_stats(rebuild->index, &index);
    ck_assert_uint_eq(rebuild->seen, rebuild->blocks);
    ck_assert_uint_eq(rebuild->wrong, 0);
    ck_assert_uint_eq(index.resident, rebuild->blocks);
    ck_assert_uint_eq(flow_must_agree(rebuild->client, rebuild->subscriber),
                      rebuild->blocks);
    (void)mc_index_resident(rebuild->reader, mc_view_str("default"),
                            mc_view_str("s7"), NULL, 0, &blocks);
    ck_assert_uint_eq(blocks, OF_A_SESSION);
}

START_TEST(an_index_is_built_anew_from_a_real_snapshot)
{
    bool is_soak = getenv("MC_SOAK") && !SANITIZED;
    struct rebuild rebuild = {.blocks = is_soak ? MANY : FEW};
    struct mc_client_stats stats;
    struct mc_index_stats index;
    double began = seconds();
    open_store(&rebuild);
    put_all(&rebuild);
    double put_s = seconds() - began;
    uint64_t store_bytes = resident_bytes();
    began = seconds();
    open_index(&rebuild);
    follow_until(&rebuild, 0, true);
    double rebuilt_s = seconds() - began;
    struct mc_source_stats source = stats_of(&rebuild);
    mc_client_stat(rebuild.client, &stats);
    follow_until(&rebuild, stats.events.last_event_id, false);
    uint64_t bytes = resident_bytes() - store_bytes;
    ck_assert_uint_ge(source.snapshot_rows, rebuild.blocks);
    compare(&rebuild);
    mc_index_stats(rebuild.index, &index);
    if (is_soak) {
        printf("%" PRIu64 " blocks put in %.1f s; from a snapshot in %.1f s "
               "(%" PRIu64 " rows of %" PRIu64 " snapshots, %" PRIu64 " events "
               "meanwhile); index %.2f "
               "GB, with the mirror %.2f GB\n",
               rebuild.blocks, put_s, rebuilt_s, source.snapshot_rows,
               source.snapshots_asked, source.events, (double)index.bytes / 1e9,
               (double)bytes / 1e9);
    }
    mc_subscriber_close(rebuild.subscriber);
    mc_index_reader_destroy(rebuild.reader);
    mc_index_destroy(rebuild.index);
    mc_client_close(rebuild.client);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("flow_rebuild");
    TCase *index = tcase_create("index");
    tcase_set_timeout(index, 2 * PATIENCE_S);
    tcase_add_test(index, an_index_is_built_anew_from_a_real_snapshot);
    suite_add_tcase(suite, index);
    return suite_run(suite);
}
