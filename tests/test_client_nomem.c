/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_nomem.c - every call with its k-th allocation failing, for every k
 * until fewer than k happen: -11 and nothing changed, or done wholly; and after
 * close mci_alloc's balance is what it was. What must not need memory is shown
 * to allocate nothing. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_fail.h"
#include "client_rig.h"
#include "mci_master.h"
#include "suite.h"

#define ROWS 40
#define VALUE_LEN 3000

static struct client_rig rig;
static uint8_t value[VALUE_LEN];
static char names[ROWS][16];
static struct mc_view keys[ROWS];
static struct mc_view values[ROWS];
static struct mc_view ids[ROWS];
static struct mc_span spans[ROWS];
static struct mc_probe probes[ROWS];
static int64_t results[ROWS];

static void name_rows(void)
{
    stamp_fill(value, sizeof value, 42);
    for (int i = 0; i < ROWS; i++) {
        (void)snprintf(names[i], sizeof names[i], "row/%d", i);
        keys[i] = mc_view_str(names[i]);
        values[i] = mc_view_make(value, VALUE_LEN);
        ids[i] = mc_view_str(names[i]);
    }
}

static struct mc_replicate_config tagged(size_t count)
{
    return (struct mc_replicate_config){.session_ids = ids,
                                        .session_id_count = count,
                                        .group_ids = ids,
                                        .group_id_count = count};
}

/* ---- a client of a megabyte, with some of the rows in it -------------------- */

static void open_with(int rows)
{
    /* Nothing happens but what the test does: no sweep. */
    struct mc_client_opts opts = {.segment_bytes = MIB,
                                  .no_prefault = true,
                                  .store.eviction_high_watermark = 1.0};
    client_open(&rig, &opts);
    for (int i = 0; i < rows; i++) {
        ck_assert_int_eq(client_put(&rig, names[i], value, VALUE_LEN), MC_OK);
    }
}

static void open_empty(void)
{
    open_with(0);
}

static void open_some(void)
{
    open_with(ROWS / 2);
}

static void open_all(void)
{
    open_with(ROWS);
}

/* Full to the brim, none of it in the rows' way. */
static void open_full(void)
{
    open_with(0);
    for (int i = 0; i < 16; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "old/%d", i);
        ck_assert_int_eq(client_put(&rig, name, rig.text, 64 * KIB), MC_OK);
    }
}

/* ---- calls ------------------------------------------------------------------ */

/* Each runs once, armed in between; returns the code of the call. For batches,
 * rows have codes of their own in results. */

static enum mc_err call_put(void)
{
    struct mc_replicate_config config = tagged(1);
    return mc_client_put(rig.client, keys[0], value, VALUE_LEN, &config);
}

static enum mc_err call_upsert(void)
{
    struct mc_replicate_config config = tagged(1);
    config.group_ids = NULL;
    config.group_id_count = 0;
    return mc_client_upsert(rig.client, keys[0], value, VALUE_LEN - 1, &config);
}

static enum mc_err call_batch_put(void)
{
    struct mc_replicate_config config = tagged(ROWS);
    return mc_client_batch_put(rig.client, keys, values, ROWS, &config,
                               results);
}

static enum mc_err call_batch_upsert(void)
{
    struct mc_replicate_config config = tagged(ROWS);
    config.group_ids = NULL;
    config.group_id_count = 0;
    return mc_client_batch_upsert(rig.client, keys, values, ROWS, &config,
                                  results);
}

static enum mc_err call_get(void)
{
    void *data = NULL;
    size_t size = 0;
    enum mc_err err = mc_client_get(rig.client, keys[0], &data, &size);
    ck_assert((err == MC_OK) == (data != NULL));
    mc_client_free(data);
    return err;
}

static enum mc_err call_get_into(void)
{
    static uint8_t buffer[VALUE_LEN];
    uint64_t size = 0;
    return mc_client_get_into(rig.client, keys[0], buffer, sizeof buffer,
                              &size);
}

static enum mc_err call_batch_get(void)
{
    enum mc_err err =
        mc_client_batch_get(rig.client, keys, ROWS, spans, results);
    for (int i = 0; i < ROWS; i++) {
        if (err == MC_OK) {
            ck_assert((results[i] > 0) == (spans[i].data != NULL));
            mc_client_free(spans[i].data);
        }
    }
    return err;
}

static enum mc_err call_batch_get_into(void)
{
    static uint8_t buffers[ROWS][VALUE_LEN];
    struct mc_span into[ROWS];
    for (int i = 0; i < ROWS; i++) {
        into[i] = (struct mc_span){buffers[i], VALUE_LEN};
    }
    return mc_client_batch_get_into(rig.client, keys, into, ROWS, results);
}

static enum mc_err call_batch_exist(void)
{
    return mc_client_batch_exist(rig.client, keys, ROWS, results);
}

static enum mc_err call_batch_probe(void)
{
    return mc_client_batch_probe(rig.client, keys, ROWS, probes, results);
}

static enum mc_err call_get_size(void)
{
    uint64_t size;
    return mc_client_get_size(rig.client, keys[0], &size);
}

static enum mc_err call_batch_remove(void)
{
    return mc_client_batch_remove(rig.client, keys, ROWS, true, results);
}

static enum mc_err call_regex(void)
{
    uint64_t removed = 0;
    return mc_client_remove_by_regex(rig.client, mc_view_str("^row/(1|2).*"),
                                     true, &removed);
}

static enum mc_err call_remove_all(void)
{
    uint64_t removed = 0;
    return mc_client_remove_all(rig.client, true, &removed);
}

static bool count_row(void *ctx, const struct mc_object_row *row)
{
    (void)row;
    ++*(uint32_t *)ctx;
    return true;
}

static enum mc_err call_list(void)
{
    uint32_t count = 0;
    return mc_client_list(rig.client, count_row, &count);
}

/* Rows of more than one span, that end within one. */
static enum mc_err call_put_lists(void)
{
    struct mc_span two[ROWS][2];
    struct mc_spans lists[ROWS];
    for (int i = 0; i < ROWS; i++) {
        two[i][0] = (struct mc_span){value, VALUE_LEN - 9};
        two[i][1] = (struct mc_span){value + VALUE_LEN - 9, 9};
        lists[i] = (struct mc_spans){two[i], 2};
    }
    return mc_client_batch_put_from_multi_buffers(rig.client, keys, lists, ROWS,
                                                  NULL, results);
}

static enum mc_err call_get_lists(void)
{
    static uint8_t room[ROWS][2][VALUE_LEN];
    struct mc_span two[ROWS][2];
    struct mc_spans lists[ROWS];
    for (int i = 0; i < ROWS; i++) {
        two[i][0] = (struct mc_span){room[i][0], VALUE_LEN - 9};
        two[i][1] = (struct mc_span){room[i][1], VALUE_LEN};
        lists[i] = (struct mc_spans){two[i], 2};
    }
    enum mc_err err = mc_client_batch_get_into_multi_buffers(
        rig.client, keys, lists, ROWS, false, results);
    for (int i = 0; i < ROWS; i++) {
        ck_assert(results[i] == VALUE_LEN || results[i] == MC_ERR_NOMEM);
    }
    return err;
}

static enum mc_err call_ranges(void)
{
    static uint8_t room[16];
    const struct mc_range ranges[] = {{0, 0, 3}, {4, 1, 3}};
    int64_t codes[2] = {0, 0};
    const struct mc_range_row row = {keys[0], ranges, 2, codes};
    enum mc_err err =
        mc_client_get_into_ranges(rig.client, room, sizeof room, &row, 1);
    ck_assert(codes[0] == (err == MC_OK ? 3 : MC_ERR_NOMEM));
    return err;
}

static enum mc_err call_get_buffer(void)
{
    struct mc_buffer buffer = {.data = NULL};
    enum mc_err err = mc_client_get_buffer(rig.client, keys[0], &buffer);
    ck_assert((err == MC_OK) == (buffer.data != NULL));
    mc_client_release_buffer(rig.client, &buffer);
    return err;
}

static enum mc_err call_register(void)
{
    enum mc_err err = mc_client_register_buffer(rig.client, value, VALUE_LEN);
    if (err == MC_OK) {
        ck_assert_int_eq(mc_client_unregister_buffer(rig.client, value), MC_OK);
    }
    return err;
}

static enum mc_err call_replicas(void)
{
    struct mc_replicas replicas;
    return mc_client_batch_get_replicas(rig.client, keys, 1, &replicas,
                                        results);
}

struct scenario {
    const char *name;
    void (*open)(void);
    enum mc_err (*call)(void);
    bool is_batch_of_writes;
};

static const struct scenario scenarios[] = {
    {"put", open_empty, call_put, false},
    {"put of what exists", open_some, call_put, false},
    {"put that evicts", open_full, call_put, false},
    {"upsert of nothing", open_empty, call_upsert, false},
    {"upsert of what exists", open_some, call_upsert, false},
    {"upsert that evicts", open_full, call_upsert, false},
    {"batch put", open_empty, call_batch_put, true},
    {"batch put of some that exist", open_some, call_batch_put, true},
    {"batch put that evicts", open_full, call_batch_put, true},
    {"batch upsert", open_some, call_batch_upsert, true},
    {"batch upsert that evicts", open_full, call_batch_upsert, true},
    {"get", open_some, call_get, false},
    {"get_into", open_some, call_get_into, false},
    {"batch get", open_all, call_batch_get, false},
    {"batch get_into", open_all, call_batch_get_into, false},
    {"batch exist", open_some, call_batch_exist, false},
    {"batch probe", open_some, call_batch_probe, false},
    {"get_size", open_some, call_get_size, false},
    {"batch remove", open_all, call_batch_remove, false},
    {"regex", open_all, call_regex, false},
    {"remove_all", open_all, call_remove_all, false},
    {"list", open_all, call_list, false},
    {"put of many spans", open_empty, call_put_lists, true},
    {"get into many spans", open_all, call_get_lists, false},
    {"ranges", open_some, call_ranges, false},
    {"get_buffer", open_some, call_get_buffer, false},
    {"register", open_some, call_register, false},
    {"replicas", open_some, call_replicas, false},
};
#define SCENARIOS ((int)(sizeof scenarios / sizeof scenarios[0]))

/* A row that was refused has changed nothing; one that was not is done. */
static void check_rows(uint32_t *refused_out)
{
    for (int i = 0; i < ROWS; i++) {
        struct mc_probe probe = client_probe(&rig, names[i]);
        if (results[i] == MC_ERR_NOMEM) {
            ++*refused_out;
            /* open_some put the first half, without tags */
            ck_assert(probe.state == MC_OBJECT_ABSENT ||
                      (i < ROWS / 2 && probe.session_len == 0));
            continue;
        }
        ck_assert_int_eq(results[i], 0);
        ck_assert_int_eq(probe.state, MC_OBJECT_READABLE);
        ck_assert_uint_eq(probe.size, VALUE_LEN);
    }
}

static void check_call(const struct scenario *scenario, enum mc_err err,
                       const char *before)
{
    uint32_t refused = 0;
    ck_assert_msg(err == MC_OK || err == MC_ERR_NOMEM, "%s: %d", scenario->name,
                  err);
    if (err == MC_ERR_NOMEM) {
        char *now = client_state(&rig);
        ck_assert_str_eq(now, before);
        ck_assert_str_eq(client_events(&rig), "");
        free(now);
    } else if (scenario->is_batch_of_writes) {
        check_rows(&refused);
    }
    struct mc_client_stats stats;
    mc_client_stat(rig.client, &stats);
    ck_assert_uint_eq(stats.attempts, 0);
}

START_TEST(a_call_survives_each_failing_allocation)
{
    const struct scenario *scenario = &scenarios[_i];
    struct alloc_fail fail;
    name_rows();
    scenario->open(); /* what a thread keeps exists before */
    ck_assert_int_eq(scenario->call(), MC_OK);
    client_close(&rig);
    ALLOC_FAIL_EACH(fail)
    {
        scenario->open();
        (void)client_events(&rig);
        char *before = client_state(&rig);
        alloc_fail_arm(&fail);
        enum mc_err err = scenario->call();
        alloc_fail_disarm(&fail);
        check_call(scenario, err, before);
        if (!alloc_fail_happened(&fail)) {
            ck_assert_int_eq(err, MC_OK);
        }
        free(before);
        client_close(&rig);
    }
}
END_TEST

/* ---- opening ---------------------------------------------------------------- */

START_TEST(open_survives_each_failing_allocation)
{
    struct alloc_fail fail;
    struct mc_client_opts opts[] = {
        {.segment_bytes = MIB, .no_prefault = true},
        {.segment_bytes = MC_NONE},
        {.segment_bytes = MIB,
         .no_prefault = true,
         .tenant = "t1",
         .store.enable_multi_tenants = true},
    };
    for (size_t i = 0; i < sizeof opts / sizeof opts[0]; i++) {
        struct mc_client *client = NULL;
        ck_assert_int_eq(mc_client_open(&opts[i], &client), MC_OK);
        mc_client_close(client);
        ALLOC_FAIL_EACH(fail)
        {
            client = NULL;
            alloc_fail_arm(&fail);
            enum mc_err err = mc_client_open(&opts[i], &client);
            alloc_fail_disarm(&fail);
            ck_assert_int_eq(err,
                             alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
            ck_assert((err == MC_OK) == (client != NULL));
            mc_client_close(client);
        }
    }
}
END_TEST

/* ---- growing ---------------------------------------------------------------- */

/* Tables and pools grow while thousands are put; whenever one does, that growth
 * fails first, and the put comes again. */
START_TEST(each_growth_of_a_table_may_fail)
{
    enum { PUTS = 6000 };
    struct mci_alloc_stats start;
    mci_alloc_stats(&start);
    name_rows();
    open_empty();
    uint64_t refused = 0;
    for (int i = 0; i < PUTS; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "g/%d", i);
        for (uint64_t k = 1;; k++) {
            (void)mci_alloc_fail_at(k);
            enum mc_err err =
                mc_client_put(rig.client, mc_view_str(name), value, 100, NULL);
            bool failed = mci_alloc_fail_at(0) == 0;
            if (err != MC_OK) {
                ck_assert(failed);
                ck_assert_int_eq(err, MC_ERR_NOMEM);
                ck_assert(!client_has(&rig, name));
                refused++;
            } else if (!failed) {
                break;
            }
        }
        if (i % 256 == 0) {
            (void)client_events(&rig);
        }
    }
    struct mc_client_stats stats;
    mc_client_stat(rig.client, &stats);
    ck_assert_uint_eq(stats.objects, PUTS);
    ck_assert_uint_eq(stats.puts, PUTS);
    ck_assert_uint_gt(refused, PUTS / 100);
    client_close(&rig);
    struct mci_alloc_stats end;
    mci_alloc_stats(&end);
    ck_assert_int_eq(end.blocks, start.blocks);
    ck_assert_int_eq(end.bytes, start.bytes);
}
END_TEST

/* ---- what allocates nothing -------------------------------------------------- */

START_TEST(removing_and_asking_allocate_nothing)
{
    name_rows();
    open_all();
    struct mc_view key = keys[0];
    bool exists;
    uint64_t size;
    uint64_t removed;
    static uint8_t buffer[VALUE_LEN];
    ck_assert_int_eq(
        mc_client_get_into(rig.client, key, buffer, VALUE_LEN, &size),
        MC_OK); /* what a thread keeps */
    uint64_t calls = mci_alloc_thread_calls();
    ck_assert_int_eq(
        mc_client_get_into(rig.client, key, buffer, VALUE_LEN, &size), MC_OK);
    uint64_t by_read = mci_alloc_thread_calls() - calls;
    ck_assert_int_eq(mc_client_exist(rig.client, key, &exists), MC_OK);
    ck_assert_int_eq(mc_client_get_size(rig.client, key, &size), MC_OK);
    ck_assert_int_eq(mc_client_remove(rig.client, key, true), MC_OK);
    ck_assert_int_eq(
        mc_client_batch_remove(rig.client, keys, ROWS, true, results), MC_OK);
    ck_assert_int_eq(mc_client_remove_all(rig.client, true, &removed), MC_OK);
    ck_assert_uint_eq(mci_alloc_thread_calls() - calls, by_read);
    ck_assert_uint_eq(by_read, 0);
    client_close(&rig);
}
END_TEST

START_TEST(close_allocates_nothing)
{
    name_rows();
    open_all();
    mci_event_log_detach(rig.log);
    uint64_t calls = mci_alloc_thread_calls();
    mc_client_close(rig.client);
    ck_assert_uint_eq(mci_alloc_thread_calls(), calls);
    mci_log_taken_fini(&rig.taken);
    free(rig.text);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client nomem");
    TCase *each = tcase_create("each call");
    tcase_set_timeout(each, 120);
    tcase_add_loop_test(each, a_call_survives_each_failing_allocation, 0,
                        SCENARIOS);
    tcase_add_test(each, open_survives_each_failing_allocation);
    tcase_add_test(each, each_growth_of_a_table_may_fail);
    suite_add_tcase(suite, each);
    TCase *nothing = tcase_create("nothing");
    tcase_add_test(nothing, removing_and_asking_allocate_nothing);
    tcase_add_test(nothing, close_allocates_nothing);
    suite_add_tcase(suite, nothing);
    return suite_run(suite);
}
