/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_spans.c - objects from and into many buffers: J2, J3 of the known
 * faults. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "client_rig.h"
#include "crowd_rig.h"
#include "suite.h"

#define LEN 9000

static struct client_rig rig;
static uint8_t value[LEN];
static uint8_t got[LEN + 8];

static void open_rig(void)
{
    client_open(&rig, NULL);
    for (size_t i = 0; i < LEN; i++) {
        value[i] = (uint8_t)(i * 13 + i / 256);
    }
    memset(got, 0xcc, sizeof got);
}

static int64_t put_list(const char *key, const struct mc_span *spans,
                        size_t count)
{
    const struct mc_view view = mc_view_str(key);
    const struct mc_spans list = {spans, count};
    int64_t result = 77;
    ck_assert_int_eq(mc_client_batch_put_from_multi_buffers(
                         rig.client, &view, &list, 1, NULL, &result),
                     MC_OK);
    return result;
}

static int64_t get_list(const char *key, const struct mc_span *spans,
                        size_t count)
{
    const struct mc_view view = mc_view_str(key);
    const struct mc_spans list = {spans, count};
    int64_t result = 77;
    ck_assert_int_eq(mc_client_batch_get_into_multi_buffers(
                         rig.client, &view, &list, 1, true, &result),
                     MC_OK);
    return result;
}

START_TEST(spans_are_gathered_into_one_object_in_order)
{
    const struct mc_span spans[] = {{value + 100, 1},
                                    {value, 0},
                                    {NULL, 0},
                                    {value + 101, 4000},
                                    {value + 4101, 899}};
    uint64_t size = 0;
    open_rig();
    ck_assert_int_eq(put_list("a", spans, 5), 0);
    ck_assert_int_eq(mc_client_get_into(rig.client, mc_view_str("a"), got,
                                        sizeof got, &size),
                     MC_OK);
    ck_assert_uint_eq(size, 4900);
    ck_assert_mem_eq(got, value + 100, 4900);
    ck_assert_uint_eq(got[4900], 0xcc);
    client_close(&rig);
}
END_TEST

START_TEST(an_object_is_scattered_over_its_spans)
{
    struct mc_span spans[] = {
        {got + 4000, 10}, {got, 100}, {NULL, 0}, {got + 200, 800}};
    open_rig();
    ck_assert_int_eq(client_put(&rig, "a", value, 910), MC_OK);
    ck_assert_int_eq(get_list("a", spans, 4), 910);
    ck_assert_mem_eq(got + 4000, value, 10);
    ck_assert_mem_eq(got, value + 10, 100);
    ck_assert_mem_eq(got + 200, value + 110, 800);
    ck_assert(got[100] == 0xcc && got[199] == 0xcc && got[1000] == 0xcc &&
              got[4010] == 0xcc && got[3999] == 0xcc);
    client_close(&rig);
}
END_TEST

START_TEST(a_shorter_object_ends_within_a_span)
{
    struct mc_span spans[] = {{got, 100}, {got + 200, 100}, {got + 400, 100}};
    open_rig();
    ck_assert_int_eq(client_put(&rig, "a", value, 150), MC_OK);
    ck_assert_int_eq(client_put(&rig, "b", value, 1), MC_OK);
    ck_assert_int_eq(client_put(&rig, "c", value, 200), MC_OK);
    ck_assert_int_eq(get_list("a", spans, 3), 150);
    ck_assert_mem_eq(got + 200, value + 100, 50);
    ck_assert(got[250] == 0xcc && got[400] == 0xcc);
    ck_assert_int_eq(get_list("b", spans, 3), 1);
    ck_assert_int_eq(get_list("c", spans, 3), 200);
    ck_assert(got[300] == 0xcc && got[400] == 0xcc);
    client_close(&rig);
}
END_TEST

START_TEST(a_longer_object_moves_no_byte)
{
    struct mc_span spans[] = {{got, 100}, {got + 200, 49}};
    open_rig();
    ck_assert_int_eq(client_put(&rig, "a", value, 150), MC_OK);
    ck_assert_int_eq(get_list("a", spans, 2), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(get_list("a", spans, 0), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(get_list("a", NULL, 2), MC_ERR_INVALID_PARAMS);
    spans[0].data = NULL;
    ck_assert_int_eq(get_list("a", spans, 2), MC_ERR_INVALID_PARAMS);
    for (size_t i = 0; i < sizeof got; i++) {
        ck_assert_uint_eq(got[i], 0xcc);
    }
    client_close(&rig);
}
END_TEST

START_TEST(spans_that_make_no_object_are_refused)
{
    const struct mc_span empty[] = {{value, 0}, {value, 0}};
    const struct mc_span no_memory[] = {{value, 1}, {NULL, 1}};
    const struct mc_span too_long[] = {{value, MC_OBJECT_SIZE_MAX}, {value, 1}};
    const struct mc_span wrapping[] = {{value, SIZE_MAX}, {value, 2}};
    open_rig();
    ck_assert_int_eq(put_list("a", empty, 2), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(put_list("a", empty, 0), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(put_list("a", NULL, 1), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(put_list("a", no_memory, 2), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(put_list("a", too_long, 2), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(put_list("a", wrapping, 2), MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(
        mc_client_put_parts(rig.client, mc_view_str("a"), empty, 2, NULL),
        MC_ERR_INVALID_PARAMS);
    ck_assert(!client_has(&rig, "a"));
    ck_assert_str_eq(client_events(&rig), "");
    client_close(&rig);
}
END_TEST

START_TEST(as_many_spans_as_are_allowed_and_not_one_more)
{
    struct mc_span *spans = must_alloc((MC_SPANS_MAX + 1) * sizeof *spans);
    open_rig();
    for (size_t i = 0; i <= MC_SPANS_MAX; i++) {
        spans[i] = (struct mc_span){value + i, 1};
    }
    ck_assert_int_eq(put_list("a", spans, MC_SPANS_MAX), 0);
    ck_assert_int_eq(put_list("b", spans, MC_SPANS_MAX + 1),
                     MC_ERR_INVALID_PARAMS);
    for (size_t i = 0; i <= MC_SPANS_MAX; i++) {
        spans[i] = (struct mc_span){got + MC_SPANS_MAX - i, 1};
    }
    ck_assert_int_eq(get_list("a", spans, MC_SPANS_MAX), MC_SPANS_MAX);
    ck_assert_int_eq(get_list("a", spans, MC_SPANS_MAX + 1),
                     MC_ERR_INVALID_PARAMS);
    for (size_t i = 0; i < MC_SPANS_MAX; i++) {
        ck_assert_uint_eq(got[MC_SPANS_MAX - i], value[i]);
    }
    client_close(&rig);
    free(spans);
}
END_TEST

/* E5: an existing object is a success, and the first bytes stay. */
START_TEST(the_first_bytes_stay_whatever_call_comes_second)
{
    const struct mc_view key = mc_view_str("a");
    const struct mc_span span = {value + 1, 50};
    const struct mc_view view = mc_view_make(value + 2, 60);
    const struct mc_span parts[] = {{value, 9}, {value, 9}};
    int64_t result = 77;
    uint64_t size = 0;
    open_rig();
    ck_assert_int_eq(mc_client_put(rig.client, key, value, 40, NULL), MC_OK);
    ck_assert_int_eq(mc_client_put(rig.client, key, value + 3, 40, NULL),
                     MC_OK);
    ck_assert_int_eq(mc_client_put_from(rig.client, key, value + 1, 50, NULL),
                     MC_OK);
    ck_assert_int_eq(
        mc_client_batch_put_from(rig.client, &key, &span, 1, NULL, &result),
        MC_OK);
    ck_assert_int_eq(result, 0);
    ck_assert_int_eq(
        mc_client_batch_put(rig.client, &key, &view, 1, NULL, &result), MC_OK);
    ck_assert_int_eq(result, 0);
    ck_assert_int_eq(put_list("a", parts, 2), 0);
    ck_assert_int_eq(mc_client_put_parts(rig.client, key, parts, 2, NULL),
                     MC_OK);
    ck_assert_int_eq(
        mc_client_get_into(rig.client, key, got, sizeof got, &size), MC_OK);
    ck_assert_uint_eq(size, 40);
    ck_assert_mem_eq(got, value, 40);
    const struct mc_spans list = {.spans = parts, .count = 2};
    ck_assert_int_eq(
        mc_client_batch_put_parts(rig.client, &key, &list, 1, NULL, &result),
        MC_OK);
    ck_assert_int_eq(result, 0);
    ck_assert_str_eq(client_events(&rig), "+cpu:a");
    client_close(&rig);
}
END_TEST

/* Upserts replace by every path. */
START_TEST(the_last_bytes_stand_after_upserts)
{
    const struct mc_view key = mc_view_str("a");
    const struct mc_span span = {value + 1, 50};
    const struct mc_span parts[] = {{value + 5, 9}, {value + 14, 30}};
    int64_t result = 77;
    uint64_t size = 0;
    open_rig();
    ck_assert_int_eq(mc_client_upsert_from(rig.client, key, value, 40, NULL),
                     MC_OK);
    ck_assert_int_eq(
        mc_client_batch_upsert_from(rig.client, &key, &span, 1, NULL, &result),
        MC_OK);
    ck_assert_int_eq(result, 0);
    ck_assert_int_eq(mc_client_upsert_parts(rig.client, key, parts, 2, NULL),
                     MC_OK);
    ck_assert_int_eq(
        mc_client_get_into(rig.client, key, got, sizeof got, &size), MC_OK);
    ck_assert_uint_eq(size, 39);
    ck_assert_mem_eq(got, value + 5, 39);
    /* Many of those: each row by itself, from memory that nobody registered. */
    const struct mc_span mine[] = {{(void *)(uintptr_t) "of the ", 7},
                                   {(void *)(uintptr_t) "stack", 5}};
    const struct mc_view keys[] = {mc_view_str("a"), mc_view_str("b")};
    const struct mc_spans lists[] = {{mine, 2}, {NULL, 1}};
    int64_t results[2] = {77, 77};
    ck_assert_int_eq(
        mc_client_batch_upsert_parts(rig.client, keys, lists, 2, NULL, results),
        MC_OK);
    ck_assert_int_eq(results[0], 0);
    ck_assert_int_eq(results[1], MC_ERR_INVALID_PARAMS);
    ck_assert_int_eq(
        mc_client_get_into(rig.client, key, got, sizeof got, &size), MC_OK);
    ck_assert_uint_eq(size, 12);
    ck_assert_mem_eq(got, "of the stack", 12);
    ck_assert(!client_has(&rig, "b"));
    (void)client_events(&rig);
    client_close(&rig);
}
END_TEST

/* J2: sizes that sum up to 2^32 + 16. Runs where there is time and memory. */
START_TEST(no_sum_of_spans_is_cut_to_32_bits)
{
    const char *soak = getenv("MC_SOAK");
    if (!soak || soak[0] != '1') {
        return;
    }
    size_t half = (size_t)1 << 31;
    uint8_t *at = mmap(NULL, half + 16, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert_ptr_ne(at, MAP_FAILED);
    const struct mc_client_opts opts = {
        .segment_bytes = UINT64_C(2) * half + MIB, .no_prefault = true};
    const struct mc_span spans[] = {{at, half}, {at, half}, {at + half, 16}};
    client_open(&rig, &opts);
    memset(at + half, 0x5a, 16);
    ck_assert_int_eq(client_put(&rig, "canary", value, LEN), MC_OK);
    ck_assert_int_eq(put_list("large", spans, 3), 0);
    const struct mc_range range = {.to = 0, .from = 2 * half, .len = 16};
    int64_t result = 0;
    const struct mc_range_row row = {mc_view_str("large"), &range, 1, &result};
    ck_assert_int_eq(
        mc_client_get_into_ranges(rig.client, got, sizeof got, &row, 1), MC_OK);
    ck_assert_int_eq(result, 16);
    ck_assert_mem_eq(got, at + half, 16);
    uint64_t size = 0;
    ck_assert_int_eq(mc_client_get_into(rig.client, mc_view_str("canary"), got,
                                        sizeof got, &size),
                     MC_OK);
    ck_assert_mem_eq(got, value, LEN);
    client_close(&rig);
    ck_assert_int_eq(munmap(at, half + 16), 0);
}
END_TEST

static TCase *spans(void)
{
    TCase *tcase = tcase_create("spans");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, spans_are_gathered_into_one_object_in_order);
    tcase_add_test(tcase, an_object_is_scattered_over_its_spans);
    tcase_add_test(tcase, a_shorter_object_ends_within_a_span);
    tcase_add_test(tcase, a_longer_object_moves_no_byte);
    tcase_add_test(tcase, spans_that_make_no_object_are_refused);
    tcase_add_test(tcase, as_many_spans_as_are_allowed_and_not_one_more);
    tcase_add_test(tcase, the_first_bytes_stay_whatever_call_comes_second);
    tcase_add_test(tcase, the_last_bytes_stand_after_upserts);
    tcase_add_test(tcase, no_sum_of_spans_is_cut_to_32_bits);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("client spans");
    suite_add_tcase(suite, spans());
    return suite_run(suite);
}
