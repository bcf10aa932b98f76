/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_refusals.c - every wrong call answers its code, changes nothing,
 * and makes no event: bad sizes, vectors, settings, arrays. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client_rig.h"
#include "suite.h"

#define VALUE_LEN 100
#define STAMP UINT64_C(0x1122334455667788)

static struct client_rig rig;
static uint8_t value[4096];
static char *before;

/* A store with something in it, whose state is remembered. */
static void open_filled(void)
{
    client_open(&rig, NULL);
    stamp_fill(value, sizeof value, STAMP);
    ck_assert_int_eq(client_put(&rig, "a#s1@g1", value, VALUE_LEN), MC_OK);
    ck_assert_int_eq(client_put(&rig, "b", value, VALUE_LEN), MC_OK);
    (void)client_events(&rig);
    before = client_state(&rig);
}

static void close_unchanged(void)
{
    EXPECT_CLIENT_UNCHANGED(&rig, before);
    free(before);
    client_close(&rig);
}

/* ---- sizes ------------------------------------------------------------------ */

static void refuse_len(const void *data, size_t len, enum mc_err code)
{
    struct mc_view key = mc_view_str("new");
    struct mc_view old = mc_view_str("a");
    ck_assert_int_eq(mc_client_put(rig.client, key, data, len, NULL), code);
    ck_assert_int_eq(mc_client_upsert(rig.client, key, data, len, NULL), code);
    ck_assert_int_eq(mc_client_upsert(rig.client, old, data, len, NULL), code);
    struct mc_view one = mc_view_make(data, len);
    int64_t result = 77;
    ck_assert_int_eq(
        mc_client_batch_put(rig.client, &key, &one, 1, NULL, &result), MC_OK);
    ck_assert_int_eq(result, code);
    ck_assert_int_eq(
        mc_client_batch_upsert(rig.client, &old, &one, 1, NULL, &result),
        MC_OK);
    ck_assert_int_eq(result, code);
}

START_TEST(sizes_that_cannot_be_are_refused)
{
    open_filled();
    refuse_len(value, 0, MC_ERR_INVALID_PARAMS);
    refuse_len(value, SIZE_MAX, MC_ERR_INVALID_PARAMS);
    refuse_len(value, SIZE_MAX - 63, MC_ERR_INVALID_PARAMS);
    refuse_len(value, (size_t)1 << 63, MC_ERR_INVALID_PARAMS);
    refuse_len(value, MC_OBJECT_SIZE_MAX + 1, MC_ERR_INVALID_PARAMS);
    refuse_len(value, MC_OBJECT_SIZE_MAX, MC_ERR_NO_AVAILABLE_HANDLE);
    refuse_len(value, MIB + 1, MC_ERR_NO_AVAILABLE_HANDLE);
    refuse_len(NULL, 5, MC_ERR_INVALID_PARAMS);
    refuse_len(NULL, 0, MC_ERR_INVALID_PARAMS);
    close_unchanged();
}
END_TEST

START_TEST(a_buffer_that_is_too_small_gets_no_byte)
{
    open_filled();
    uint8_t buffer[VALUE_LEN] = {0};
    uint64_t size = 77;
    struct mc_view key = mc_view_str("a");
    size_t too_small[] = {0, 1, VALUE_LEN - 1};
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(
            mc_client_get_into(rig.client, key, buffer, too_small[i], &size),
            MC_ERR_INVALID_PARAMS);
        struct mc_span span = {buffer, too_small[i]};
        int64_t result = 77;
        ck_assert_int_eq(
            mc_client_batch_get_into(rig.client, &key, &span, 1, &result),
            MC_OK);
        ck_assert_int_eq(result, MC_ERR_INVALID_PARAMS);
    }
    ck_assert_int_eq(
        mc_client_get_into(rig.client, key, NULL, VALUE_LEN, &size),
        MC_ERR_INVALID_PARAMS);
    struct mc_span none = {NULL, VALUE_LEN};
    int64_t result = 77;
    ck_assert_int_eq(
        mc_client_batch_get_into(rig.client, &key, &none, 1, &result), MC_OK);
    ck_assert_int_eq(result, MC_ERR_INVALID_PARAMS);
    ck_assert_uint_eq(size, 77);
    for (size_t i = 0; i < sizeof buffer; i++) {
        ck_assert_uint_eq(buffer[i], 0);
    }
    close_unchanged();
}
END_TEST

/* ---- vectors of sessions and groups ----------------------------------------- */

/* The whole call is refused, whichever row is bad, and each row says so. */
static void refuse_config(const struct mc_replicate_config *config,
                          enum mc_err code, const char *what)
{
    struct mc_view keys[] = {mc_view_str("n1"), mc_view_str("a"),
                             mc_view_str("n2")};
    struct mc_view values[] = {{value, 9}, {value, 9}, {value, 9}};
    int64_t results[] = {77, 77, 77};
    enum mc_err err =
        mc_client_batch_put(rig.client, keys, values, 3, config, results);
    ck_assert_msg(err == code, "batch_put, %s: %d", what, err);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(results[i], code);
        results[i] = 77;
    }
    err = mc_client_batch_upsert(rig.client, keys, values, 3, config, results);
    ck_assert_msg(err == code, "batch_upsert, %s: %d", what, err);
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(results[i], code);
    }
}

static void refuse_single(const struct mc_replicate_config *config,
                          enum mc_err code, const char *what)
{
    enum mc_err err =
        mc_client_put(rig.client, mc_view_str("n1"), value, 9, config);
    ck_assert_msg(err == code, "put, %s: %d", what, err);
    err = mc_client_upsert(rig.client, mc_view_str("a"), value, 9, config);
    ck_assert_msg(err == code, "upsert, %s: %d", what, err);
}

static struct mc_replicate_config tagged(const struct mc_view *ids,
                                         size_t count)
{
    return (struct mc_replicate_config){.session_ids = ids,
                                        .session_id_count = count};
}

static struct mc_replicate_config grouped(const struct mc_view *ids,
                                          size_t count)
{
    return (struct mc_replicate_config){.group_ids = ids,
                                        .group_id_count = count};
}

START_TEST(vectors_of_the_wrong_length_are_refused)
{
    struct mc_view ids[4] = {mc_view_str("s"), mc_view_str("s"),
                             mc_view_str("s"), mc_view_str("s")};
    open_filled();
    size_t wrong[] = {1, 2, 4, SIZE_MAX};
    for (int i = 0; i < 4; i++) {
        struct mc_replicate_config config = tagged(ids, wrong[i]);
        refuse_config(&config, MC_ERR_INVALID_PARAMS, "sessions");
        config = grouped(ids, wrong[i]);
        refuse_config(&config, MC_ERR_INVALID_PARAMS, "groups");
    }
    struct mc_replicate_config config = tagged(NULL, 3);
    refuse_config(&config, MC_ERR_INVALID_PARAMS, "sessions NULL");
    config = grouped(NULL, 3);
    refuse_config(&config, MC_ERR_INVALID_PARAMS, "groups NULL");
    config = tagged(ids, 2);
    refuse_single(&config, MC_ERR_INVALID_PARAMS, "two sessions");
    config = grouped(ids, 2);
    refuse_single(&config, MC_ERR_INVALID_PARAMS, "two groups");
    close_unchanged();
}
END_TEST

/* A1: bytes that a strict follower could not read never get in. */
START_TEST(ids_that_are_not_utf8_refuse_the_whole_call)
{
    static const struct mc_view bad[BAD_UTF8_COUNT] = BAD_UTF8_LIST;
    open_filled();
    for (int i = 0; i < BAD_UTF8_COUNT; i++) {
        for (int row = 0; row < 3; row++) {
            struct mc_view ids[3] = {mc_view_str("s"), mc_view_str("s"),
                                     mc_view_str("s")};
            ids[row] = bad[i];
            struct mc_replicate_config config = tagged(ids, 3);
            refuse_config(&config, MC_ERR_INVALID_PARAMS, "session");
            config = grouped(ids, 3);
            refuse_config(&config, MC_ERR_INVALID_PARAMS, "group");
        }
        struct mc_replicate_config config = tagged(&bad[i], 1);
        refuse_single(&config, MC_ERR_INVALID_PARAMS, "session");
        config = grouped(&bad[i], 1);
        refuse_single(&config, MC_ERR_INVALID_PARAMS, "group");
    }
    close_unchanged();
}
END_TEST

START_TEST(ids_over_their_limit_refuse_the_whole_call)
{
    static char text[MC_GROUP_ID_LEN_MAX + 1];
    memset(text, 'i', sizeof text);
    open_filled();
    struct mc_view ids[3] = {mc_view_str(""), mc_view_str("s"),
                             mc_view_make(text, MC_SESSION_ID_LEN_MAX + 1)};
    struct mc_replicate_config config = tagged(ids, 3);
    refuse_config(&config, MC_ERR_INVALID_PARAMS, "257");
    ids[2].len = SIZE_MAX;
    refuse_config(&config, MC_ERR_INVALID_PARAMS, "wrapping");
    ids[2] = mc_view_make(NULL, 7);
    refuse_config(&config, MC_ERR_INVALID_PARAMS, "NULL with a length");
    ids[2] = mc_view_make(text, MC_GROUP_ID_LEN_MAX + 1);
    config = grouped(ids, 3);
    refuse_config(&config, MC_ERR_INVALID_PARAMS, "513");
    close_unchanged();
}
END_TEST

START_TEST(ids_at_their_limit_are_kept_to_the_byte)
{
    static char text[MC_GROUP_ID_LEN_MAX];
    memset(text, 'i', sizeof text);
    memcpy(text + MC_SESSION_ID_LEN_MAX - 3, "\xe2\x82\xac", 3);
    client_open(&rig, NULL);
    struct mc_view session = mc_view_make(text, MC_SESSION_ID_LEN_MAX);
    struct mc_view group = mc_view_make(text, MC_GROUP_ID_LEN_MAX);
    struct mc_replicate_config config = {.session_ids = &session,
                                         .session_id_count = 1,
                                         .group_ids = &group,
                                         .group_id_count = 1};
    ck_assert_int_eq(
        mc_client_put(rig.client, mc_view_str("k"), value, 9, &config), MC_OK);
    struct mc_probe probe = client_probe(&rig, "k");
    ck_assert_uint_eq(probe.session_len, MC_SESSION_ID_LEN_MAX);
    ck_assert_mem_eq(probe.session, text, MC_SESSION_ID_LEN_MAX);
    mci_event_log_take(rig.log, 0, &rig.taken);
    ck_assert_uint_eq(rig.taken.count, 1);
    ck_assert(mc_view_equal(rig.taken.records[0].session_id, session));
    ck_assert(mc_view_equal(rig.taken.records[0].group_id, group));
    client_close(&rig);
}
END_TEST

START_TEST(a_nul_inside_a_session_id_is_fine)
{
    client_open(&rig, NULL);
    struct mc_view session = mc_view_make("a\0b", 3);
    struct mc_replicate_config config = tagged(&session, 1);
    ck_assert_int_eq(
        mc_client_put(rig.client, mc_view_str("k"), value, 9, &config), MC_OK);
    struct mc_probe probe = client_probe(&rig, "k");
    ck_assert_uint_eq(probe.session_len, 3);
    ck_assert_mem_eq(probe.session, "a\0b", 3);
    mci_event_log_take(rig.log, 0, &rig.taken);
    ck_assert(mc_view_equal(rig.taken.records[0].session_id, session));
    client_close(&rig);
}
END_TEST

/* ---- settings of a write ----------------------------------------------------- */

START_TEST(settings_that_cannot_be_are_refused)
{
    const struct {
        struct mc_replicate_config config;
        enum mc_err code;
        const char *what;
    } rows[] = {
        {{.nof_replica_num = 1}, MC_ERR_INVALID_PARAMS, "nof"},
        {{.dfs_replica_num = 1}, MC_ERR_DFS_SERVICE_UNAVAILABLE, "dfs"},
        {{.soft_pin_ttl_ms = 5}, MC_ERR_INVALID_PARAMS, "ttl without enable"},
        {{.soft_pin_action = MC_SOFT_PIN_DISABLE, .soft_pin_ttl_ms = 5},
         MC_ERR_INVALID_PARAMS,
         "ttl with disable"},
        {{.soft_pin_action = MC_SOFT_PIN_ENABLE,
          .soft_pin_ttl_ms = 24 * 3600 * 1000 + 1},
         MC_ERR_INVALID_PARAMS,
         "ttl over the maximum"},
        {{.soft_pin_action = (enum mc_soft_pin_action)3},
         MC_ERR_INVALID_PARAMS,
         "action"},
        {{.data_type = (enum mc_data_type)10}, MC_ERR_INVALID_PARAMS, "type"},
        {{.preferred_segments = NULL, .preferred_segment_count = 1},
         MC_ERR_INVALID_PARAMS,
         "preferred NULL"},
    };
    open_filled();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        refuse_config(&rows[i].config, rows[i].code, rows[i].what);
        refuse_single(&rows[i].config, rows[i].code, rows[i].what);
    }
    close_unchanged();
}
END_TEST

/* ---- rows --------------------------------------------------------------------- */

START_TEST(too_many_rows_are_refused_and_each_says_so)
{
    enum { MANY = MC_ROWS_MAX + 1 };
    struct mc_view *keys = calloc(MANY, sizeof *keys);
    struct mc_view *values = calloc(MANY, sizeof *values);
    struct mc_span *spans = calloc(MANY, sizeof *spans);
    struct mc_probe *probes = calloc(MANY, sizeof *probes);
    int64_t *results = calloc(MANY, sizeof *results);
    ck_assert(keys && values && spans && probes && results);
    for (int i = 0; i < MANY; i++) {
        keys[i] = mc_view_str("n");
        values[i] = mc_view_make(value, 9);
        spans[i] = (struct mc_span){value, sizeof value};
    }
    open_filled();
    struct mc_client *client = rig.client;
    enum mc_err errs[] = {
        mc_client_batch_put(client, keys, values, MANY, NULL, results),
        mc_client_batch_upsert(client, keys, values, MANY, NULL, results),
        mc_client_batch_get_into(client, keys, spans, MANY, results),
        mc_client_batch_exist(client, keys, MANY, results),
        mc_client_batch_probe(client, keys, MANY, probes, results),
        mc_client_batch_remove(client, keys, MANY, true, results),
        mc_client_batch_get(client, keys, MANY, spans, results),
    };
    for (size_t i = 0; i < sizeof errs / sizeof errs[0]; i++) {
        ck_assert_msg(errs[i] == MC_ERR_INVALID_PARAMS, "call %zu: %d", i,
                      errs[i]);
    }
    ck_assert_int_eq(results[0], MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(results[MANY - 1], MC_ERR_INVALID_PARAMS);
    close_unchanged();
    free(keys);
    free(values);
    free(spans);
    free(probes);
    free(results);
}
END_TEST

START_TEST(no_rows_are_no_fault)
{
    open_filled();
    struct mc_client *client = rig.client;
    struct mc_view key = mc_view_str("a");
    struct mc_span span = {value, 9};
    struct mc_probe probe;
    int64_t result = 77;
    ck_assert_int_eq(mc_client_batch_put(client, &key, &key, 0, NULL, &result),
                     MC_OK);
    ck_assert_int_eq(mc_client_batch_upsert(client, NULL, NULL, 0, NULL, NULL),
                     MC_OK);
    ck_assert_int_eq(mc_client_batch_get_into(client, &key, &span, 0, &result),
                     MC_OK);
    ck_assert_int_eq(mc_client_batch_get(client, NULL, 0, NULL, NULL), MC_OK);
    ck_assert_int_eq(mc_client_batch_exist(client, NULL, 0, NULL), MC_OK);
    ck_assert_int_eq(mc_client_batch_probe(client, &key, 0, &probe, &result),
                     MC_OK);
    ck_assert_int_eq(mc_client_batch_remove(client, NULL, 0, true, NULL),
                     MC_OK);
    ck_assert_int_eq(result, 77);
    close_unchanged();
}
END_TEST

START_TEST(missing_arrays_are_refused)
{
    open_filled();
    struct mc_client *client = rig.client;
    struct mc_view key = mc_view_str("n");
    struct mc_view one = mc_view_make(value, 9);
    struct mc_span span = {value, sizeof value};
    struct mc_probe probe;
    int64_t result = 77;
    size_t size;
    uint64_t removed = 77;
    enum mc_err errs[] = {
        mc_client_batch_put(client, NULL, &one, 1, NULL, &result),
        mc_client_batch_put(client, &key, NULL, 1, NULL, &result),
        mc_client_batch_put(client, &key, &one, 1, NULL, NULL),
        mc_client_batch_upsert(client, NULL, &one, 1, NULL, &result),
        mc_client_batch_upsert(client, &key, NULL, 1, NULL, &result),
        mc_client_batch_upsert(client, &key, &one, 1, NULL, NULL),
        mc_client_batch_get_into(client, NULL, &span, 1, &result),
        mc_client_batch_get_into(client, &key, NULL, 1, &result),
        mc_client_batch_get_into(client, &key, &span, 1, NULL),
        mc_client_batch_get(client, NULL, 1, &span, &result),
        mc_client_batch_get(client, &key, 1, NULL, &result),
        mc_client_batch_get(client, &key, 1, &span, NULL),
        mc_client_batch_exist(client, NULL, 1, &result),
        mc_client_batch_exist(client, &key, 1, NULL),
        mc_client_batch_probe(client, NULL, 1, &probe, &result),
        mc_client_batch_probe(client, &key, 1, NULL, &result),
        mc_client_batch_probe(client, &key, 1, &probe, NULL),
        mc_client_batch_remove(client, NULL, 1, true, &result),
        mc_client_batch_remove(client, &key, 1, true, NULL),
        mc_client_get(client, key, NULL, &size),
        mc_client_get_into(client, key, NULL, 5, &removed),
        mc_client_exist(client, key, NULL),
        mc_client_get_size(client, key, NULL),
        mc_client_probe(client, key, NULL),
        mc_client_list(client, NULL, NULL),
        mc_client_remove_by_regex(client, mc_view_make(NULL, 0), true,
                                  &removed),
        mc_client_remove_by_regex(client, mc_view_make(NULL, 9), true,
                                  &removed),
    };
    for (size_t i = 0; i < sizeof errs / sizeof errs[0]; i++) {
        ck_assert_msg(errs[i] == MC_ERR_INVALID_PARAMS, "call %zu: %d", i,
                      errs[i]);
    }
    ck_assert_uint_eq(removed, 77);
    close_unchanged();
}
END_TEST

START_TEST(bad_expressions_are_refused)
{
    static char too_long[5000];
    memset(too_long, 'a', sizeof too_long);
    const struct mc_view bad[] = {mc_view_str("("), mc_view_str("[a"),
                                  mc_view_str("*"), mc_view_str("\xff"),
                                  mc_view_make(too_long, sizeof too_long)};
    open_filled();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t removed = 77;
        ck_assert_int_eq(
            mc_client_remove_by_regex(rig.client, bad[i], true, &removed),
            MC_ERR_INVALID_PARAMS);
        ck_assert_uint_eq(removed, 77);
    }
    close_unchanged();
}
END_TEST

/* A search that hits its limit ends the call; what it had not decided stays. */
START_TEST(an_expression_that_hits_its_limit_is_refused)
{
    static char key[2000];
    memset(key, 'a', sizeof key);
    client_open(&rig, NULL);
    ck_assert_int_eq(mc_client_put(rig.client, mc_view_make(key, sizeof key),
                                   value, 9, NULL),
                     MC_OK);
    (void)client_events(&rig);
    before = client_state(&rig);
    uint64_t removed = 0;
    ck_assert_int_eq(mc_client_remove_by_regex(rig.client,
                                               mc_view_str("(a+)+(a+)+$x?\\d"),
                                               true, &removed),
                     MC_ERR_INVALID_PARAMS);
    close_unchanged();
}
END_TEST

static TCase *values(void)
{
    TCase *tcase = tcase_create("values");
    tcase_add_test(tcase, sizes_that_cannot_be_are_refused);
    tcase_add_test(tcase, a_buffer_that_is_too_small_gets_no_byte);
    tcase_add_test(tcase, vectors_of_the_wrong_length_are_refused);
    tcase_add_test(tcase, ids_that_are_not_utf8_refuse_the_whole_call);
    tcase_add_test(tcase, ids_over_their_limit_refuse_the_whole_call);
    tcase_add_test(tcase, ids_at_their_limit_are_kept_to_the_byte);
    tcase_add_test(tcase, a_nul_inside_a_session_id_is_fine);
    tcase_add_test(tcase, settings_that_cannot_be_are_refused);
    return tcase;
}

static TCase *calls(void)
{
    TCase *tcase = tcase_create("calls");
    tcase_add_test(tcase, too_many_rows_are_refused_and_each_says_so);
    tcase_add_test(tcase, no_rows_are_no_fault);
    tcase_add_test(tcase, missing_arrays_are_refused);
    tcase_add_test(tcase, bad_expressions_are_refused);
    tcase_add_test(tcase, an_expression_that_hits_its_limit_is_refused);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("client refusals");
    suite_add_tcase(suite, values());
    suite_add_tcase(suite, calls());
    return suite_run(suite);
}
