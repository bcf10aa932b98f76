/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_sizes.c - sizes, counts and memory: J2, J3, J5, J9, L1 of the known
 * faults. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "client_rig.h"
#include "crowd_rig.h"
#include "mci_alloc.h"
#include "suite.h"

static struct client_rig rig;

static void open_bytes(uint64_t bytes)
{
    struct mc_client_opts opts = {.segment_bytes = bytes, .no_prefault = true};
    client_open(&rig, &opts);
}

/* ---- J: sizes and memory ----------------------------------------------------------- */

/* J3: a size is taken by all paths or by none. */
START_TEST(every_size_goes_in_and_comes_out_by_every_path)
{
    static const size_t sizes[] = {1,        7,           4095,    4096,
                                   4097,     4 * MIB - 1, 4 * MIB, 4 * MIB + 1,
                                   16 * MIB, 16 * MIB + 1};
    uint8_t *value = must_alloc(16 * MIB + 9);
    uint8_t *got = must_alloc(16 * MIB + 9);
    open_bytes(64 * MIB);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t len = sizes[i];
        uint64_t size = 0;
        void *data = NULL;
        size_t data_len = 0;
        stamp_fill(value, len, 1000 + i);
        got[len] = 0xcc;
        struct mc_view key = mc_view_str("a");
        struct mc_view batch_key = mc_view_str("b");
        struct mc_view view = mc_view_make(value, len);
        int64_t result = 77;
        ck_assert_int_eq(mc_client_upsert(rig.client, key, value, len, NULL),
                         MC_OK);
        ck_assert_int_eq(mc_client_batch_upsert(rig.client, &batch_key, &view,
                                                1, NULL, &result),
                         MC_OK);
        ck_assert_int_eq(result, 0);
        ck_assert_int_eq(mc_client_get_into(rig.client, key, got, len, &size),
                         MC_OK);
        ck_assert(size == len && memcmp(got, value, len) == 0);
        ck_assert_uint_eq(got[len], 0xcc);
        ck_assert_int_eq(mc_client_get(rig.client, batch_key, &data, &data_len),
                         MC_OK);
        ck_assert(data_len == len && memcmp(data, value, len) == 0);
        mc_client_free(data);
        uint64_t removed;
        ck_assert_int_eq(mc_client_remove_all(rig.client, true, &removed),
                         MC_OK);
        struct mc_client_stats stats;
        mc_client_stat(rig.client, &stats);
        if (stats.allocated_bytes > 24 * MIB) { /* what the reads lease */
            (void)client_events(&rig);
            client_close(&rig);
            open_bytes(64 * MIB);
        }
    }
    (void)client_events(&rig);
    client_close(&rig);
    free(value);
    free(got);
}
END_TEST

/* J2: no 32-bit sum on the way. Runs where there is time and memory. */
START_TEST(an_object_over_four_gigabytes_is_whole)
{
    const char *soak = getenv("MC_SOAK");
    if (!soak || soak[0] != '1') {
        return;
    }
    size_t len = ((size_t)1 << 32) + 16;
    uint8_t *value = must_alloc(len);
    stamp_fill(value, len, UINT64_C(0x123456789abcdef));
    open_bytes(len + len / 4); /* under the watermark */
    struct mc_view behind = mc_view_str("behind");
    ck_assert_int_eq(client_put(&rig, "big", value, len), MC_OK);
    ck_assert_int_eq(mc_client_put(rig.client, behind, "canary", 6, NULL),
                     MC_OK);
    memset(value, 0, len);
    uint64_t size = 0;
    uint64_t stamp = 0;
    ck_assert_int_eq(
        mc_client_get_into(rig.client, mc_view_str("big"), value, len, &size),
        MC_OK);
    ck_assert(size == len && stamp_read(value, len, &stamp));
    ck_assert_uint_eq(stamp, UINT64_C(0x123456789abcdef));
    ck_assert_int_eq(mc_client_get_into(rig.client, behind, value, 6, &size),
                     MC_OK);
    ck_assert_mem_eq(value, "canary", 6);
    free(value);
    client_close(&rig);
}
END_TEST

/* An owner refuses what has been spent for as long as its grants could live:
 * transfer/closed.h bounds that table. */
#define SPENT_BYTES_MAX (INT64_C(16) * 1048576)

static void put_round(int round, int count)
{
    enum { BATCH = 500, KEY_ROOM = 72 };
    static char text[BATCH][KEY_ROOM];
    static uint8_t bytes[64] = {1};
    struct mc_view keys[BATCH];
    struct mc_view values[BATCH];
    int64_t results[BATCH];
    for (int first = 0; first < count; first += BATCH) {
        for (int i = 0; i < BATCH; i++) {
            int len =
                snprintf(text[i], KEY_ROOM, "%064d__k%d", first + i, round);
            keys[i] = mc_view_make(text[i], (size_t)len);
            values[i] = mc_view_make(bytes, sizeof bytes);
        }
        ck_assert_int_eq(
            mc_client_batch_put(rig.client, keys, values, BATCH, NULL, results),
            MC_OK);
        for (int i = 0; i < BATCH; i++) {
            ck_assert_int_eq(results[i], 0);
        }
    }
}

/* J5, smaller: what an object costs, and that it is given back or used again. */
START_TEST(metadata_is_bounded_per_object_and_used_again)
{
    const int count = client_link() ? 50000 : 200000;
    const int rounds = client_link() ? 6 : 2;
    open_bytes((uint64_t)count * 80); /* below the high watermark */
    mci_event_log_detach(rig.log);
    struct mci_alloc_stats start;
    struct mci_alloc_stats full;
    struct mci_alloc_stats again;
    mci_alloc_stats(&start);
    for (int round = 0; round < rounds; round++) {
        put_round(round, count);
        mci_alloc_stats(round == 0 ? &full : &again);
        uint64_t removed = 0;
        ck_assert_int_eq(mc_client_remove_all(rig.client, true, &removed),
                         MC_OK);
        ck_assert_uint_eq(removed, (uint64_t)count);
    }
    int64_t each = (full.bytes - start.bytes) / count;
    int64_t spent = client_link() ? SPENT_BYTES_MAX : 0;
    ck_assert_msg(each < 400, "%jd bytes an object", (intmax_t)each);
    ck_assert_msg(
        again.bytes - full.bytes < (full.bytes - start.bytes) / 10 + spent,
        "%jd more the last time", (intmax_t)(again.bytes - full.bytes));
    client_close_detached(&rig);
}
END_TEST

/* As many small objects as a large cluster has: each costs what one of a million
 * does (the gate of T21, key apart). Runs where there is time and memory. */
START_TEST(twenty_five_million_keys_cost_no_more_each)
{
    const char *soak = getenv("MC_SOAK");
    if (!soak || soak[0] != '1' || client_link()) {
        return;
    }
    enum { BATCH = 5000, COUNT = 25000000, KEY_LEN = 20 };
    char *text = must_alloc((size_t)BATCH * (KEY_LEN + 1));
    struct mc_view *keys = must_alloc(BATCH * sizeof *keys);
    struct mc_view *values = must_alloc(BATCH * sizeof *values);
    int64_t *results = must_alloc(BATCH * sizeof *results);
    const struct mc_client_opts opts = {
        .segment_bytes = UINT64_C(64) * COUNT * 5 / 4, .no_prefault = true};
    client_open(&rig, &opts);
    mci_event_log_detach(rig.log);
    struct mci_alloc_stats start;
    struct mci_alloc_stats full;
    mci_alloc_stats(&start);
    for (int first = 0; first < COUNT; first += BATCH) {
        for (int i = 0; i < BATCH; i++) {
            char *key = text + (size_t)i * (KEY_LEN + 1);
            (void)snprintf(key, KEY_LEN + 1, "%020d", first + i);
            keys[i] = mc_view_make(key, KEY_LEN);
            values[i] = keys[i];
        }
        ck_assert_int_eq(
            mc_client_batch_put(rig.client, keys, values, BATCH, NULL, results),
            MC_OK);
        for (int i = 0; i < BATCH; i++) {
            ck_assert_int_eq(results[i], 0);
        }
    }
    mci_alloc_stats(&full);
    struct mc_client_stats stats;
    mc_client_stat(rig.client, &stats);
    ck_assert_uint_eq(stats.objects, COUNT);
    int64_t each = (full.bytes - start.bytes) / COUNT - KEY_LEN;
    ck_assert_msg(each < 200, "%jd bytes an object", (intmax_t)each);
    char got[KEY_LEN];
    uint64_t size = 0;
    for (int i = 0; i < COUNT; i += 999983) {
        char key[KEY_LEN + 1];
        (void)snprintf(key, sizeof key, "%020d", i);
        ck_assert_int_eq(mc_client_get_into(rig.client, mc_view_str(key), got,
                                            sizeof got, &size),
                         MC_OK);
        ck_assert_mem_eq(got, key, KEY_LEN);
    }
    uint64_t removed = 0;
    ck_assert_int_eq(mc_client_remove_all(rig.client, true, &removed), MC_OK);
    ck_assert_uint_eq(removed, COUNT);
    client_close_detached(&rig);
    free(results);
    free(values);
    free(keys);
    free(text);
}
END_TEST

/* J5: a bound on objects is a bound. */
START_TEST(a_bound_on_objects_answers_no_room)
{
    uint8_t value[64] = {1};
    struct mc_client_opts opts = {.segment_bytes = MIB,
                                  .store.max_objects = 100};
    client_open(&rig, &opts);
    for (int i = 0; i < 110; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%d", i);
        ck_assert_int_eq(client_put(&rig, key, value, 64),
                         i < 100 ? MC_OK : MC_ERR_NO_AVAILABLE_HANDLE);
    }
    ck_assert_int_eq(client_put(&rig, "k5", value, 64), MC_OK);
    ck_assert_int_eq(client_upsert(&rig, "k5", value, 64), MC_OK);
    ck_assert_int_eq(mc_client_remove(rig.client, mc_view_str("k7"), false),
                     MC_OK);
    ck_assert_int_eq(client_put(&rig, "k100", value, 64), MC_OK);
    (void)client_events(&rig);
    client_close(&rig);
}
END_TEST

/* J9: odd sizes of a segment are rounded up; none at all is a client too. */
START_TEST(odd_segment_sizes_open_and_hold_what_they_promise)
{
    static const uint64_t sizes[] = {1, 4095, 4096, 16 * MIB + 1,
                                     UINT64_C(1000000007)};
    uint8_t value[64] = {1};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        open_bytes(sizes[i]);
        struct mc_client_stats stats;
        mc_client_stat(rig.client, &stats);
        ck_assert_uint_ge(stats.capacity_bytes, sizes[i]);
        ck_assert_uint_lt(stats.capacity_bytes - sizes[i], 4096);
        ck_assert_int_eq(client_put(&rig, "a", value, 64), MC_OK);
        (void)client_events(&rig);
        client_close(&rig);
    }
    open_bytes(MC_NONE);
    bool exists = true;
    ck_assert_int_eq(client_put(&rig, "a", value, 64),
                     MC_ERR_NO_AVAILABLE_HANDLE);
    ck_assert_int_eq(mc_client_exist(rig.client, mc_view_str("a"), &exists),
                     MC_OK);
    ck_assert(!exists);
    client_close(&rig);
}
END_TEST

/* L1, L4: thirty thousand keys in one call while another thread evicts. */
START_TEST(asking_for_thirty_thousand_is_right_while_others_evict)
{
    enum { ROWS = 30000 };
    struct mc_client_opts opts = {.segment_bytes = POOL * 8 * KIB + 4 * MIB,
                                  .store.exist_lease_ttl_ms = MC_NONE};
    uint8_t value[64] = {1};
    client_open(&rig, &opts);
    mci_event_log_detach(rig.log);
    struct names names = names_make(ROWS, value, sizeof value);
    struct mc_replicate_config pinned = {.with_hard_pin = true};
    for (uint32_t i = 0; i < ROWS; i += 2) {
        ck_assert_int_eq(
            mc_client_put(rig.client, names.keys[i], value, 64, &pinned),
            MC_OK);
    }
    struct reading reading = {.rig = &rig};
    pthread_t evictor;
    ck_assert_int_eq(pthread_create(&evictor, NULL, run_evictor, &reading), 0);
    bool agrees = true;
    for (int round = 0; round < 20; round++) {
        ck_assert_int_eq(
            mc_client_batch_exist(rig.client, names.keys, ROWS, names.results),
            MC_OK);
        for (int i = 0; i < ROWS; i++) {
            agrees = agrees && names.results[i] == (i % 2 == 0);
        }
    }
    atomic_store(&reading.stop, true);
    ck_assert_int_eq(pthread_join(evictor, NULL), 0);
    ck_assert(agrees);
    ck_assert_uint_eq(atomic_load(&reading.faults), 0);
    names_free(&names);
    client_close_detached(&rig);
}
END_TEST

static TCase *memory(void)
{
    TCase *tcase = tcase_create("memory");
    tcase_set_timeout(tcase, getenv("MC_SOAK") ? 1200 : 120);
    tcase_add_test(tcase, every_size_goes_in_and_comes_out_by_every_path);
    tcase_add_test(tcase, an_object_over_four_gigabytes_is_whole);
    tcase_add_test(tcase, metadata_is_bounded_per_object_and_used_again);
    tcase_add_test(tcase, twenty_five_million_keys_cost_no_more_each);
    tcase_add_test(tcase, a_bound_on_objects_answers_no_room);
    tcase_add_test(tcase, odd_segment_sizes_open_and_hold_what_they_promise);
    tcase_add_test(tcase,
                   asking_for_thirty_thousand_is_right_while_others_evict);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("client sizes");
    suite_add_tcase(suite, memory());
    return suite_run(suite);
}
