/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_keys.c - every call that takes a key, times every key that is
 * none: its code, nothing changed, no event; and the longest key that is one. */
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

/* ---- keys, through every call that takes one ------------------------------- */

typedef int64_t (*key_call_fn)(struct mc_view key);

static int64_t by_put(struct mc_view key)
{
    return mc_client_put(rig.client, key, value, VALUE_LEN, NULL);
}

static int64_t by_upsert(struct mc_view key)
{
    return mc_client_upsert(rig.client, key, value, VALUE_LEN, NULL);
}

/* Batches run with a good row on each side, which must be left alone by the bad
 * one: "a" exists, so that putting it again changes nothing. */
static int64_t middle_of(enum mc_err err, const int64_t *results, int64_t good)
{
    ck_assert_int_eq(err, MC_OK);
    ck_assert_int_eq(results[0], good);
    ck_assert_int_eq(results[2], good);
    return results[1];
}

static int64_t by_batch_put(struct mc_view key)
{
    struct mc_view keys[] = {mc_view_str("a"), key, mc_view_str("b")};
    struct mc_view values[] = {{value, 9}, {value, 9}, {value, 9}};
    int64_t results[] = {77, 77, 77};
    return middle_of(
        mc_client_batch_put(rig.client, keys, values, 3, NULL, results),
        results, 0);
}

static int64_t by_batch_upsert(struct mc_view key)
{
    struct mc_view value_view = {value, 9};
    int64_t result = 77;
    ck_assert_int_eq(
        mc_client_batch_upsert(rig.client, &key, &value_view, 1, NULL, &result),
        MC_OK);
    return result;
}

static int64_t by_get_into(struct mc_view key)
{
    uint8_t buffer[VALUE_LEN] = {0};
    uint64_t size = 77;
    enum mc_err err =
        mc_client_get_into(rig.client, key, buffer, sizeof buffer, &size);
    ck_assert_uint_eq(size, 77);
    ck_assert_uint_eq(buffer[0], 0);
    return err;
}

static int64_t by_batch_get_into(struct mc_view key)
{
    uint8_t buffer[3][VALUE_LEN] = {{0}, {0}, {0}};
    struct mc_view keys[] = {mc_view_str("a"), key, mc_view_str("b")};
    struct mc_span spans[] = {
        {buffer[0], VALUE_LEN}, {buffer[1], VALUE_LEN}, {buffer[2], VALUE_LEN}};
    int64_t results[] = {77, 77, 77};
    enum mc_err err =
        mc_client_batch_get_into(rig.client, keys, spans, 3, results);
    ck_assert_uint_eq(buffer[1][0], 0);
    ck_assert_mem_eq(buffer[2], value, VALUE_LEN);
    return middle_of(err, results, VALUE_LEN);
}

static int64_t by_get(struct mc_view key)
{
    void *data = &rig;
    size_t size = 77;
    enum mc_err err = mc_client_get(rig.client, key, &data, &size);
    ck_assert_ptr_eq(data, &rig);
    ck_assert_uint_eq(size, 77);
    return err;
}

static int64_t by_batch_get(struct mc_view key)
{
    struct mc_view keys[] = {mc_view_str("a"), key, mc_view_str("b")};
    struct mc_span spans[3];
    int64_t results[] = {77, 77, 77};
    enum mc_err err = mc_client_batch_get(rig.client, keys, 3, spans, results);
    int64_t code = middle_of(err, results, VALUE_LEN);
    ck_assert_ptr_null(spans[1].data);
    ck_assert_uint_eq(spans[1].len, 0);
    ck_assert_uint_eq(spans[0].len, VALUE_LEN);
    mc_client_free(spans[0].data);
    mc_client_free(spans[2].data);
    return code;
}

static int64_t by_exist(struct mc_view key)
{
    bool exists = true;
    enum mc_err err = mc_client_exist(rig.client, key, &exists);
    ck_assert(exists);
    return err;
}

static int64_t by_batch_exist(struct mc_view key)
{
    struct mc_view keys[] = {mc_view_str("a"), key, mc_view_str("b")};
    int64_t results[] = {77, 77, 77};
    return middle_of(mc_client_batch_exist(rig.client, keys, 3, results),
                     results, 1);
}

static int64_t by_get_size(struct mc_view key)
{
    uint64_t size = 77;
    enum mc_err err = mc_client_get_size(rig.client, key, &size);
    ck_assert_uint_eq(size, 77);
    return err;
}

static int64_t by_probe(struct mc_view key)
{
    struct mc_probe probe;
    return mc_client_probe(rig.client, key, &probe);
}

static int64_t by_batch_probe(struct mc_view key)
{
    static const struct mc_probe zero;
    struct mc_view keys[] = {mc_view_str("a"), key, mc_view_str("b")};
    struct mc_probe probes[3];
    int64_t results[] = {77, 77, 77};
    enum mc_err err =
        mc_client_batch_probe(rig.client, keys, 3, probes, results);
    ck_assert_mem_eq(&probes[1], &zero, sizeof zero);
    ck_assert_int_eq(probes[2].state, MC_OBJECT_READABLE);
    return middle_of(err, results, 0);
}

static int64_t by_remove(struct mc_view key)
{
    return mc_client_remove(rig.client, key, true);
}

static int64_t by_batch_remove(struct mc_view key)
{
    struct mc_view keys[] = {mc_view_str("x"), key, mc_view_str("y")};
    int64_t results[] = {77, 77, 77};
    return middle_of(mc_client_batch_remove(rig.client, keys, 3, true, results),
                     results, MC_ERR_OBJECT_NOT_FOUND);
}

static const struct {
    const char *name;
    key_call_fn call;
    int64_t absent; /* its answer for a good key that is not there, 1: writes */
} key_calls[] = {
    {"put", by_put, 1},
    {"upsert", by_upsert, 1},
    {"batch_put", by_batch_put, 1},
    {"batch_upsert", by_batch_upsert, 1},
    {"get_into", by_get_into, MC_ERR_OBJECT_NOT_FOUND},
    {"batch_get_into", by_batch_get_into, MC_ERR_OBJECT_NOT_FOUND},
    {"get", by_get, MC_ERR_OBJECT_NOT_FOUND},
    {"batch_get", by_batch_get, MC_ERR_OBJECT_NOT_FOUND},
    {"exist", by_exist, 1},
    {"batch_exist", by_batch_exist, 0},
    {"get_size", by_get_size, MC_ERR_OBJECT_NOT_FOUND},
    {"probe", by_probe, 0},
    {"batch_probe", by_batch_probe, 0},
    {"remove", by_remove, MC_ERR_OBJECT_NOT_FOUND},
    {"batch_remove", by_batch_remove, MC_ERR_OBJECT_NOT_FOUND},
};
#define KEY_CALLS ((int)(sizeof key_calls / sizeof key_calls[0]))

static void check_key(int call, struct mc_view key, int64_t code,
                      const char *what)
{
    int64_t got = key_calls[call].call(key);
    ck_assert_msg(got == code, "%s, key %s: %jd", key_calls[call].name, what,
                  (intmax_t)got);
}

START_TEST(a_bad_key_is_refused_by_every_call)
{
    static const struct mc_view bad[BAD_UTF8_COUNT] = BAD_UTF8_LIST;
    static char too_long[MC_KEY_LEN_MAX + 1];
    memset(too_long, 'k', sizeof too_long);
    open_filled();
    check_key(_i, mc_view_str(""), MC_ERR_INVALID_PARAMS, "empty");
    check_key(_i, mc_view_make(NULL, 0), MC_ERR_INVALID_PARAMS, "none");
    check_key(_i, mc_view_make(NULL, 5), MC_ERR_INVALID_PARAMS, "NULL");
    check_key(_i, mc_view_make(too_long, sizeof too_long), MC_ERR_INVALID_KEY,
              "too long");
    check_key(_i, mc_view_make(too_long, SIZE_MAX), MC_ERR_INVALID_KEY,
              "wrapping");
    check_key(_i, mc_view_make("a\0b", 3), MC_ERR_INVALID_KEY, "NUL within");
    check_key(_i, mc_view_make("a\0", 2), MC_ERR_INVALID_KEY, "NUL behind");
    check_key(_i, mc_view_make("\0", 1), MC_ERR_INVALID_KEY, "NUL");
    for (int i = 0; i < BAD_UTF8_COUNT; i++) {
        check_key(_i, bad[i], MC_ERR_INVALID_KEY, "not UTF-8");
    }
    close_unchanged();
}
END_TEST

START_TEST(a_key_at_its_limit_is_taken_by_every_call)
{
    static char longest[MC_KEY_LEN_MAX];
    memset(longest, 'k', sizeof longest);
    memcpy(longest, "\xf0\x9f\x94\x91", 4); /* counted in bytes */
    struct mc_view key = mc_view_make(longest, sizeof longest);
    open_filled();
    if (key_calls[_i].absent == 1) { /* writes, or answers by output */
        if (key_calls[_i].call == by_exist) {
            bool exists = true;
            ck_assert_int_eq(mc_client_exist(rig.client, key, &exists), MC_OK);
            ck_assert(!exists);
        } else {
            check_key(_i, key, MC_OK, "longest");
            ck_assert_int_eq(mc_client_remove(rig.client, key, false), MC_OK);
            ck_assert_str_ne(client_events(&rig), "");
        }
    } else if (key_calls[_i].call != by_batch_exist) {
        check_key(_i, key, key_calls[_i].absent, "longest");
    } else {
        check_key(_i, key, 0, "longest");
    }
    free(before);
    client_close(&rig);
}
END_TEST

static TCase *keys(void)
{
    TCase *tcase = tcase_create("keys");
    tcase_add_loop_test(tcase, a_bad_key_is_refused_by_every_call, 0,
                        KEY_CALLS);
    tcase_add_loop_test(tcase, a_key_at_its_limit_is_taken_by_every_call, 0,
                        KEY_CALLS);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("client keys");
    suite_add_tcase(suite, keys());
    return suite_run(suite);
}
