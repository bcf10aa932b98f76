/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_faults.c - faults that stores of this kind were reported with,
 * asked of the embedded client. The ids are those of the list of known faults;
 * which of them stand elsewhere, or cannot be met here:
 *
 *   A1        test_client_refusals: ids_that_are_not_utf8_...
 *   D1        here for the client; test_store_leases: a_hold_keeps_...
 *   D4 D6 D7 D8   test_store_evict, test_store_pins
 *   E4        here: a value has at least one byte
 *   J4        no ranged call yet; sizes: test_client_refusals
 *   J6 J7     test_extent, test_store_evict
 *   J9        here through open; test_segment
 *   L1        a ratio of latencies belongs to bench; here: asking for much is
 *             right and is done while others evict
 */
#include <check.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_rig.h"
#include "crowd_rig.h"
#include "mci_alloc.h"
#include "sanitized.h"
#include "suite.h"

static struct client_rig rig;

static void open_bytes(uint64_t bytes)
{
    struct mc_client_opts opts = {.segment_bytes = bytes, .no_prefault = true};
    client_open(&rig, &opts);
}

/* ---- A: tags ----------------------------------------------------------------- */

/* A2: of five tagged keys two exist; the others keep their own ids. */
START_TEST(ids_are_not_shifted_by_rows_that_exist)
{
    uint8_t value[64] = {1};
    struct mc_view ids[5];
    char texts[5][8];
    client_open(&rig, NULL);
    struct names names = names_make(5, value, sizeof value);
    ck_assert_int_eq(client_put(&rig, "n/1#x1", value, 64), MC_OK);
    ck_assert_int_eq(client_put(&rig, "n/3#x3", value, 64), MC_OK);
    (void)client_events(&rig);
    for (int i = 0; i < 5; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "s%d", i);
        ids[i] = mc_view_str(texts[i]);
    }
    struct mc_replicate_config config = {.session_ids = ids,
                                         .session_id_count = 5};
    ck_assert_int_eq(mc_client_batch_put(rig.client, names.keys, names.values,
                                         5, &config, names.results),
                     MC_OK);
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(names.results[i], 0);
    }
    ck_assert_str_eq(client_events(&rig),
                     "+cpu:n/0#s0 +cpu:n/2#s2 +cpu:n/4#s4");
    ck_assert_mem_eq(client_probe(&rig, "n/1").session, "x1", 2);
    names_free(&names);
    client_close(&rig);
}
END_TEST

/* What a tagged batch of that many new keys allocates. */
static uint64_t allocated_by_batch(uint32_t count)
{
    uint8_t value[64] = {1};
    open_bytes(64 * MIB);
    struct names names = names_make(count, value, sizeof value);
    struct mc_replicate_config config = {.session_ids = names.keys,
                                         .session_id_count = count};
    struct mci_alloc_stats start;
    struct mci_alloc_stats end;
    mci_alloc_stats(&start);
    ck_assert_int_eq(mc_client_batch_put(rig.client, names.keys, names.values,
                                         count, &config, names.results),
                     MC_OK);
    mci_alloc_stats(&end);
    ck_assert_int_eq(names.results[count - 1], 0);
    names_free(&names);
    client_close(&rig);
    return end.allocated_bytes - start.allocated_bytes;
}

/* A3: four times the keys, about four times the bytes. */
START_TEST(a_tagged_batch_grows_with_its_keys_and_not_their_square)
{
    uint64_t small = allocated_by_batch(1024);
    uint64_t middle = allocated_by_batch(4096);
    uint64_t large = allocated_by_batch(16384);
    ck_assert_msg(middle * 2 <= small * 9 && large * 2 <= middle * 9,
                  "%ju %ju %ju", (uintmax_t)small, (uintmax_t)middle,
                  (uintmax_t)large);
    ck_assert_uint_lt(large / 16384, 1024);
}
END_TEST

/* A4: every setting at once, over two keys: all are in force. */
START_TEST(tags_do_not_push_other_settings_out)
{
    static uint8_t value[64 * KIB];
    struct mc_view ids[2] = {mc_view_str("s0"), mc_view_str("s1")};
    struct mc_view groups[2] = {mc_view_str("g0"), mc_view_str("g1")};
    struct mc_replicate_config config = {.replica_num = 1,
                                         .soft_pin_action = MC_SOFT_PIN_ENABLE,
                                         .soft_pin_ttl_ms = 1000,
                                         .with_hard_pin = true,
                                         .data_type = MC_DATA_KVCACHE,
                                         .preferred_segment = "nowhere",
                                         .group_ids = groups,
                                         .group_id_count = 2,
                                         .session_ids = ids,
                                         .session_id_count = 2};
    client_open(&rig, NULL);
    struct names names = names_make(2, value, sizeof value);
    ck_assert_int_eq(mc_client_batch_put(rig.client, names.keys, names.values,
                                         2, &config, names.results),
                     MC_OK);
    ck_assert_int_eq(names.results[0], 0);
    ck_assert_int_eq(names.results[1], 0);
    ck_assert_str_eq(client_events(&rig), "+cpu:n/0#s0@g0 +cpu:n/1#s1@g1");
    for (int i = 0; i < 64; i++) {
        char key[8];
        (void)snprintf(key, sizeof key, "f%d", i);
        ck_assert_int_eq(client_put(&rig, key, value, sizeof value), MC_OK);
    }
    ck_assert(client_has(&rig, "n/0") && client_has(&rig, "n/1"));
    names_free(&names);
    client_close(&rig);
}
END_TEST

/* A13: keys of the engines go out as they came in, with their group. */
START_TEST(keys_of_engines_are_told_to_the_byte)
{
    static const char *const engine_keys[] = {
        "8d969eef6ecad3c29a3a629280e686cf0c3f5d5a86aff3ca12020c923adc6c92_0_k",
        "8d969eef6ecad3c29a3a629280e686cf0c3f5d5a86aff3ca12020c923adc6c92__k",
        "meta-llama/Llama-3.1-8B@tp_rank:0@8d969eef6ecad3c2",
        "vllm@meta-llama/Llama-3.1-8B@2@0@-7a2f9c44@half",
        "18446744073709551615",
        "0x8d969eef6ecad3c2",
        "caf\xc3\xa9 \xf0\x9f\x94\x91/\"quoted\" and spaced",
    };
    uint8_t value[64] = {1};
    struct mc_view group = mc_view_str("sglang-hicache:8d969eef6ecad3c2");
    struct mc_replicate_config config = {.group_ids = &group,
                                         .group_id_count = 1};
    client_open(&rig, NULL);
    for (size_t i = 0; i < sizeof engine_keys / sizeof engine_keys[0]; i++) {
        struct mc_view key = mc_view_str(engine_keys[i]);
        ck_assert_int_eq(mc_client_put(rig.client, key, value, 64, &config),
                         MC_OK);
        ck_assert_int_eq(mc_client_remove(rig.client, key, false), MC_OK);
        mci_event_log_take(rig.log, 0, &rig.taken);
        ck_assert_uint_eq(rig.taken.count, 2);
        for (int j = 0; j < 2; j++) {
            const struct mci_log_record *record = &rig.taken.records[j];
            ck_assert_int_eq(record->type,
                             j == 0 ? MC_EVENT_STORED : MC_EVENT_REMOVED);
            ck_assert(mc_view_equal(record->object_key, key));
            ck_assert(mc_view_equal(record->group_id, group));
        }
    }
    client_close(&rig);
}
END_TEST

/* ---- D: leases and removal ----------------------------------------------------- */

/* D5: which code remove answers when. */
START_TEST(remove_answers_as_callers_expect)
{
    uint8_t value[64] = {1};
    uint64_t size;
    uint64_t removed;
    bool exists;
    client_open(&rig, NULL);
    struct mc_view a = mc_view_str("a");
    ck_assert_int_eq(mc_client_remove(rig.client, a, false),
                     MC_ERR_OBJECT_NOT_FOUND);
    ck_assert_int_eq(client_put(&rig, "a", value, 64), MC_OK);
    ck_assert_int_eq(mc_client_remove(rig.client, a, false), MC_OK);
    ck_assert_int_eq(client_put(&rig, "a", value, 64), MC_OK);
    ck_assert_int_eq(client_put(&rig, "b", value, 64), MC_OK);
    ck_assert_int_eq(mc_client_exist(rig.client, a, &exists), MC_OK);
    ck_assert(exists);
    ck_assert_int_eq(mc_client_remove(rig.client, a, false),
                     MC_ERR_OBJECT_HAS_LEASE);
    struct mc_view keys[] = {a, mc_view_str("x"), mc_view_str("b")};
    int64_t results[3];
    ck_assert_int_eq(
        mc_client_batch_remove(rig.client, keys, 3, false, results), MC_OK);
    ck_assert_int_eq(results[0], MC_ERR_OBJECT_HAS_LEASE);
    ck_assert_int_eq(results[1], MC_ERR_OBJECT_NOT_FOUND);
    ck_assert_int_eq(results[2], 0);
    ck_assert_int_eq(client_put(&rig, "b", value, 64), MC_OK);
    ck_assert_int_eq(mc_client_get_size(rig.client, mc_view_str("b"), &size),
                     MC_OK);
    ck_assert_int_eq(client_put(&rig, "c", value, 64), MC_OK);
    ck_assert_int_eq(mc_client_remove_by_regex(rig.client, mc_view_str("."),
                                               false, &removed),
                     MC_OK);
    ck_assert_uint_eq(removed, 1);
    ck_assert_int_eq(mc_client_remove_all(rig.client, false, &removed), MC_OK);
    ck_assert_uint_eq(removed, 0);
    ck_assert_int_eq(mc_client_remove_by_regex(rig.client, mc_view_str("^a$"),
                                               true, &removed),
                     MC_OK);
    ck_assert_uint_eq(removed, 1);
    ck_assert_int_eq(mc_client_remove_all(rig.client, true, &removed), MC_OK);
    ck_assert_uint_eq(removed, 1);
    client_close(&rig);
}
END_TEST

/* Over a socket nobody can read without any lease. */
START_TEST(readers_under_eviction_get_whole_bytes)
{
    struct mc_client_opts opts = {.segment_bytes = POOL * 8 * KIB,
                                  .store.default_kv_lease_ttl_ms =
                                      client_link() ? 1 : MC_NONE};
    client_open(&rig, &opts);
    mci_event_log_detach(rig.log);
    struct reading reading = {.rig = &rig};
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL,
                                        i < 2 ? run_evictor : run_reader,
                                        &reading),
                         0);
    }
    unsigned enough = SANITIZED ? 5000 : 50000;
    while (atomic_load(&reading.reads) < enough &&
           atomic_load(&reading.faults) == 0) {
        sched_yield();
    }
    atomic_store(&reading.stop, true);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
    }
    ck_assert_uint_eq(atomic_load(&reading.faults), 0);
    struct mc_client_stats stats;
    mc_client_stat(rig.client, &stats);
    ck_assert_uint_gt(stats.evicted_objects, 0);
    client_close_detached(&rig);
}
END_TEST

/* E9. The pool is larger than what is asked for at a time, so that no exist
 * lease has to yield. */
START_TEST(what_exist_said_is_there_can_be_read)
{
    struct mc_client_opts opts = {.segment_bytes = POOL * 8 * KIB,
                                  .store.default_kv_lease_ttl_ms =
                                      client_link() ? 1 : MC_NONE,
                                  .store.exist_lease_ttl_ms = 60000};
    client_open(&rig, &opts);
    mci_event_log_detach(rig.log);
    struct reading reading = {.rig = &rig};
    pthread_t evictor;
    ck_assert_int_eq(pthread_create(&evictor, NULL, run_evictor, &reading), 0);
    uint32_t enough = SANITIZED ? 1000 : 10000;
    uint32_t hits = 0;
    uint32_t gone = 0;
    for (uint32_t i = 0; hits < enough && gone == 0; i++) {
        static uint8_t value[8 * KIB];
        char key[24];
        bool exists = false;
        uint64_t size;
        (void)snprintf(key, sizeof key, "p/%u", i % (4 * POOL));
        struct mc_view view = mc_view_str(key);
        if (mc_client_exist(rig.client, view, &exists) != MC_OK || !exists) {
            continue;
        }
        hits++;
        enum mc_err err =
            mc_client_get_into(rig.client, view, value, sizeof value, &size);
        gone += err != MC_OK && !(client_link() && err == MC_ERR_LEASE_EXPIRED);
        /* Let go of it, so that the pool keeps moving. */
        gone += mc_client_remove(rig.client, view, true) != MC_OK;
    }
    atomic_store(&reading.stop, true);
    ck_assert_int_eq(pthread_join(evictor, NULL), 0);
    ck_assert_uint_eq(gone, 0);
    ck_assert_uint_eq(atomic_load(&reading.faults), 0);
    client_close_detached(&rig);
}
END_TEST

/* ---- E: batches ----------------------------------------------------------------- */

/* E2: one absent key among 710 costs itself. */
START_TEST(one_absent_key_costs_one_row)
{
    enum { ROWS = 710, ABSENT = 333 };
    static uint8_t value[512];
    open_bytes(4 * MIB);
    struct names names = names_make(ROWS, value, sizeof value);
    struct mc_span *spans = must_alloc(ROWS * sizeof *spans);
    stamp_fill(value, sizeof value, 7);
    ck_assert_int_eq(mc_client_batch_put(rig.client, names.keys, names.values,
                                         ROWS, NULL, names.results),
                     MC_OK);
    ck_assert_int_eq(mc_client_remove(rig.client, names.keys[ABSENT], false),
                     MC_OK);
    ck_assert_int_eq(
        mc_client_batch_get(rig.client, names.keys, ROWS, spans, names.results),
        MC_OK);
    for (int i = 0; i < ROWS; i++) {
        uint64_t stamp = 0;
        if (i == ABSENT) {
            ck_assert_int_eq(names.results[i], MC_ERR_OBJECT_NOT_FOUND);
            ck_assert_ptr_null(spans[i].data);
            continue;
        }
        ck_assert(names.results[i] == 512 &&
                  stamp_read(spans[i].data, spans[i].len, &stamp) &&
                  stamp == 7);
        mc_client_free(spans[i].data);
    }
    free(spans);
    names_free(&names);
    client_close(&rig);
}
END_TEST

/* E5: a second put is no failure, and the first bytes stand. */
START_TEST(a_second_put_answers_ok_and_leaves_the_first_bytes)
{
    uint8_t first[64];
    uint8_t second[80];
    uint8_t got[80];
    uint64_t size = 0;
    uint64_t stamp = 0;
    stamp_fill(first, sizeof first, 1);
    stamp_fill(second, sizeof second, 2);
    client_open(&rig, NULL);
    ck_assert_int_eq(client_put(&rig, "a#s1", first, sizeof first), MC_OK);
    ck_assert_int_eq(client_put(&rig, "a#s2", second, sizeof second), MC_OK);
    struct mc_view keys[] = {mc_view_str("a"), mc_view_str("b"),
                             mc_view_str("b")};
    struct mc_view values[] = {{second, 80}, {first, 64}, {second, 80}};
    int64_t results[3] = {77, 77, 77};
    ck_assert_int_eq(
        mc_client_batch_put(rig.client, keys, values, 3, NULL, results), MC_OK);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(results[i], 0);
    }
    ck_assert_str_eq(client_events(&rig), "+cpu:a#s1 +cpu:b");
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(
            mc_client_get_into(rig.client, keys[i], got, sizeof got, &size),
            MC_OK);
        ck_assert_uint_eq(size, 64);
        ck_assert(stamp_read(got, size, &stamp) && stamp == 1);
    }
    client_close(&rig);
}
END_TEST

START_TEST(the_same_key_twice_in_a_batch_is_done_in_row_order)
{
    uint8_t bytes[3][64];
    uint8_t got[64];
    struct mc_view keys[3];
    struct mc_view values[3];
    struct mc_view ids[] = {mc_view_str("s0"), mc_view_str(""),
                            mc_view_str("s2")};
    struct mc_span spans[3];
    int64_t results[3];
    uint64_t size = 0;
    uint64_t stamp = 0;
    for (int i = 0; i < 3; i++) {
        stamp_fill(bytes[i], 64, (uint64_t)i);
        keys[i] = mc_view_str("a");
        values[i] = mc_view_make(bytes[i], 64);
    }
    struct mc_replicate_config config = {.session_ids = ids,
                                         .session_id_count = 3};
    client_open(&rig, NULL);
    ck_assert_int_eq(
        mc_client_batch_upsert(rig.client, keys, values, 3, &config, results),
        MC_OK);
    ck_assert(results[0] == 0 && results[1] == 0 && results[2] == 0);
    ck_assert_int_eq(mc_client_get_into(rig.client, keys[0], got, 64, &size),
                     MC_OK);
    ck_assert(stamp_read(got, 64, &stamp) && stamp == 2);
    ck_assert_mem_eq(client_probe(&rig, "a").session, "s2", 2);
    ck_assert_int_eq(mc_client_batch_get(rig.client, keys, 3, spans, results),
                     MC_OK);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(results[i], 64);
        mc_client_free(spans[i].data);
    }
    ck_assert_int_eq(mc_client_batch_remove(rig.client, keys, 3, true, results),
                     MC_OK);
    ck_assert_int_eq(results[0], 0);
    ck_assert_int_eq(results[1], MC_ERR_OBJECT_NOT_FOUND);
    ck_assert_int_eq(results[2], MC_ERR_OBJECT_NOT_FOUND);
    client_close(&rig);
}
END_TEST

/* E8: as many answers as rows, each its own. */
START_TEST(results_are_per_row_for_one_and_many)
{
    enum { ROWS = 5000 };
    uint8_t value[64] = {1};
    open_bytes(8 * MIB);
    struct names names = names_make(ROWS, value, sizeof value);
    for (uint32_t count = 1; count <= ROWS; count = count * 5 + 1) {
        for (uint32_t i = 0; i < count; i++) {
            names.results[i] = 77;
            names.values[i].len = i % 3 == 0 ? 0 : 64;
        }
        ck_assert_int_eq(mc_client_batch_put(rig.client, names.keys,
                                             names.values, count, NULL,
                                             names.results),
                         MC_OK);
        bool agrees = true;
        for (uint32_t i = 0; i < count; i++) {
            agrees = agrees && names.results[i] ==
                                   (i % 3 == 0 ? MC_ERR_INVALID_PARAMS : 0);
        }
        ck_assert(agrees);
        ck_assert_int_eq(
            mc_client_batch_exist(rig.client, names.keys, count, names.results),
            MC_OK);
        for (uint32_t i = 0; i < count; i++) {
            agrees = agrees && names.results[i] == (i % 3 != 0);
        }
        ck_assert(agrees);
    }
    names_free(&names);
    (void)client_events(&rig);
    client_close(&rig);
}
END_TEST

static TCase *tags(void)
{
    TCase *tcase = tcase_create("tags");
    tcase_add_test(tcase, ids_are_not_shifted_by_rows_that_exist);
    tcase_add_test(tcase,
                   a_tagged_batch_grows_with_its_keys_and_not_their_square);
    tcase_add_test(tcase, tags_do_not_push_other_settings_out);
    tcase_add_test(tcase, keys_of_engines_are_told_to_the_byte);
    return tcase;
}

static TCase *leases(void)
{
    TCase *tcase = tcase_create("leases");
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, remove_answers_as_callers_expect);
    tcase_add_test(tcase, readers_under_eviction_get_whole_bytes);
    tcase_add_test(tcase, what_exist_said_is_there_can_be_read);
    return tcase;
}

static TCase *batches(void)
{
    TCase *tcase = tcase_create("batches");
    tcase_add_test(tcase, one_absent_key_costs_one_row);
    tcase_add_test(tcase, a_second_put_answers_ok_and_leaves_the_first_bytes);
    tcase_add_test(tcase, the_same_key_twice_in_a_batch_is_done_in_row_order);
    tcase_add_test(tcase, results_are_per_row_for_one_and_many);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("client faults");
    suite_add_tcase(suite, tags());
    suite_add_tcase(suite, leases());
    suite_add_tcase(suite, batches());
    return suite_run(suite);
}
