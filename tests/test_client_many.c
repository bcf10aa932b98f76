/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_many.c - batches in the shapes that consumers use, and codes per
 * row: E2, E4, E5, E8, A2 of the known faults. */
#include <stdlib.h>
#include <string.h>

#include "client_rig.h"
#include "crowd_rig.h"
#include "mci_alloc.h"
#include "suite.h"

#define VALUE_LEN 64

static struct client_rig rig;
static uint8_t value[VALUE_LEN];

static void open_bytes(uint64_t bytes)
{
    const struct mc_client_opts opts = {.segment_bytes = bytes,
                                        .no_prefault = true};
    client_open(&rig, &opts);
    stamp_fill(value, sizeof value, 3);
}

static struct mc_span *make_spans(uint8_t *block, size_t count)
{
    struct mc_span *spans = must_alloc(count * sizeof *spans);
    for (size_t i = 0; i < count; i++) {
        spans[i] = (struct mc_span){block + i * VALUE_LEN, VALUE_LEN};
    }
    return spans;
}

/* E2: 710 keys of which one is missing. */
START_TEST(one_missing_key_is_one_missing_row)
{
    enum { ROWS = 710, MISSING = 333 };
    struct names names = names_make(ROWS, value, VALUE_LEN);
    uint8_t *block = must_alloc(ROWS * VALUE_LEN);
    struct mc_span *spans = make_spans(block, ROWS);
    open_bytes(MIB);
    ck_assert_int_eq(mc_client_batch_put(rig.client, names.keys, names.values,
                                         ROWS, NULL, names.results),
                     MC_OK);
    ck_assert_int_eq(mc_client_remove(rig.client, names.keys[MISSING], true),
                     MC_OK);
    ck_assert_int_eq(mc_client_batch_get_into(rig.client, names.keys, spans,
                                              ROWS, names.results),
                     MC_OK);
    for (int i = 0; i < ROWS; i++) {
        ck_assert_int_eq(names.results[i],
                         i == MISSING ? MC_ERR_OBJECT_NOT_FOUND : VALUE_LEN);
        uint64_t stamp = 0;
        ck_assert(stamp_read(block + i * VALUE_LEN, VALUE_LEN, &stamp));
        ck_assert_uint_eq(stamp, i == MISSING ? 0 : 3);
    }
    (void)client_events(&rig);
    client_close(&rig);
    names_free(&names);
    free(spans);
    free(block);
}
END_TEST

/* E8: as many results as rows, for none, one and many. */
START_TEST(every_row_has_its_result_and_no_other)
{
    static const size_t counts[] = {0, 1, 2, 64, 65, 127, 128, 129, 1025};
    struct names names = names_make(1026, value, VALUE_LEN);
    uint8_t *block = must_alloc(1026 * VALUE_LEN);
    struct mc_span *spans = make_spans(block, 1026);
    open_bytes(MIB);
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        size_t count = counts[c];
        names.results[count] = 4711;
        ck_assert_int_eq(mc_client_batch_upsert(rig.client, names.keys,
                                                names.values, count, NULL,
                                                names.results),
                         MC_OK);
        ck_assert_int_eq(mc_client_batch_put_from(rig.client, names.keys, spans,
                                                  count, NULL, names.results),
                         MC_OK);
        for (size_t i = 0; i < count; i++) {
            ck_assert_int_eq(names.results[i], 0);
        }
        ck_assert_int_eq(mc_client_batch_get_into(rig.client, names.keys, spans,
                                                  count, names.results),
                         MC_OK);
        for (size_t i = 0; i < count; i++) {
            ck_assert_int_eq(names.results[i], VALUE_LEN);
        }
        ck_assert_int_eq(names.results[count], 4711);
    }
    (void)client_events(&rig);
    client_close(&rig);
    names_free(&names);
    free(spans);
    free(block);
}
END_TEST

/* Rows, not keys. */
START_TEST(the_same_key_twice_is_two_rows)
{
    uint8_t other[VALUE_LEN];
    uint8_t got[2][VALUE_LEN];
    const struct mc_view keys[] = {mc_view_str("k"), mc_view_str("k")};
    const struct mc_view values[] = {{value, VALUE_LEN}, {other, VALUE_LEN}};
    const struct mc_span spans[] = {{got[0], VALUE_LEN}, {got[1], VALUE_LEN}};
    int64_t results[2];
    uint64_t stamp = 0;
    open_bytes(MIB);
    stamp_fill(other, sizeof other, 4);
    ck_assert_int_eq(
        mc_client_batch_put(rig.client, keys, values, 2, NULL, results), MC_OK);
    ck_assert(results[0] == 0 && results[1] == 0);
    ck_assert_int_eq(
        mc_client_batch_get_into(rig.client, keys, spans, 2, results), MC_OK);
    ck_assert(results[0] == VALUE_LEN && results[1] == VALUE_LEN);
    for (int i = 0; i < 2; i++) {
        ck_assert(stamp_read(got[i], VALUE_LEN, &stamp) && stamp == 3);
    }
    ck_assert_int_eq(
        mc_client_batch_upsert(rig.client, keys, values, 2, NULL, results),
        MC_OK);
    ck_assert(results[0] == 0 && results[1] == 0);
    ck_assert_int_eq(
        mc_client_batch_get_into(rig.client, keys, spans, 2, results), MC_OK);
    for (int i = 0; i < 2; i++) {
        ck_assert(stamp_read(got[i], VALUE_LEN, &stamp) && stamp == 4);
    }
    ck_assert_int_eq(mc_client_batch_remove(rig.client, keys, 2, true, results),
                     MC_OK);
    ck_assert(results[0] == 0 && results[1] == MC_ERR_OBJECT_NOT_FOUND);
    (void)client_events(&rig);
    client_close(&rig);
}
END_TEST

/* A2: what is left out takes its tag with it, over every border of a slice. */
START_TEST(tags_stay_with_their_rows_whatever_is_left_out)
{
    enum { ROWS = 2600 };
    struct names names = names_make(ROWS, value, VALUE_LEN);
    struct mc_view *tags = must_alloc(ROWS * sizeof *tags);
    struct mc_view *groups = must_alloc(ROWS * sizeof *groups);
    char(*texts)[16] = must_alloc(ROWS * sizeof *texts);
    open_bytes(MIB);
    for (int i = 0; i < ROWS; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "t%d", i);
        tags[i] = mc_view_str(texts[i]);
        groups[i] = i % 3 == 0 ? mc_view_str(texts[i]) : mc_view_make(NULL, 0);
        if (i % 5 == 0) {
            ck_assert_int_eq(mc_client_put(rig.client, names.keys[i], value,
                                           VALUE_LEN, NULL),
                             MC_OK);
        }
        if (i % 7 == 1) {
            names.values[i].len = 0; /* refused */
        }
    }
    (void)client_events(&rig);
    const struct mc_replicate_config config = {.session_ids = tags,
                                               .session_id_count = ROWS,
                                               .group_ids = groups,
                                               .group_id_count = ROWS};
    ck_assert_int_eq(mc_client_batch_put(rig.client, names.keys, names.values,
                                         ROWS, &config, names.results),
                     MC_OK);
    for (int i = 0; i < ROWS; i++) {
        struct mc_probe probe = client_probe(&rig, names.texts[i]);
        bool was_there = i % 5 == 0;
        bool is_refused = i % 7 == 1;
        ck_assert_int_eq(names.results[i],
                         is_refused ? MC_ERR_INVALID_PARAMS : 0);
        ck_assert_int_eq(probe.state, is_refused && !was_there
                                          ? MC_OBJECT_ABSENT
                                          : MC_OBJECT_READABLE);
        if (!is_refused && !was_there) {
            ck_assert_uint_eq(probe.session_len, strlen(texts[i]));
            ck_assert_mem_eq(probe.session, texts[i], probe.session_len);
        } else {
            ck_assert_uint_eq(probe.session_len, 0);
        }
    }
    (void)client_events(&rig);
    client_close(&rig);
    names_free(&names);
    free(tags);
    free(groups);
    free(texts);
}
END_TEST

START_TEST(thirty_thousand_rows_go_and_come)
{
    enum { ROWS = 30000 };
    struct names names = names_make(ROWS, value, VALUE_LEN);
    uint8_t *block = must_alloc((size_t)ROWS * VALUE_LEN);
    struct mc_span *spans = make_spans(block, ROWS);
    open_bytes(8 * MIB);
    for (uint64_t i = 0; i < ROWS; i++) {
        stamp_fill(spans[i].data, VALUE_LEN, i);
    }
    ck_assert_int_eq(mc_client_batch_put_from(rig.client, names.keys, spans,
                                              ROWS, NULL, names.results),
                     MC_OK);
    memset(block, 0, (size_t)ROWS * VALUE_LEN);
    ck_assert_int_eq(
        mc_client_batch_exist(rig.client, names.keys, ROWS, names.results),
        MC_OK);
    for (int i = 0; i < ROWS; i++) {
        ck_assert_int_eq(names.results[i], 1);
    }
    ck_assert_int_eq(mc_client_batch_get_into(rig.client, names.keys, spans,
                                              ROWS, names.results),
                     MC_OK);
    for (uint64_t i = 0; i < ROWS; i++) {
        uint64_t stamp = UINT64_MAX;
        ck_assert_int_eq(names.results[i], VALUE_LEN);
        ck_assert(stamp_read(spans[i].data, VALUE_LEN, &stamp) && stamp == i);
    }
    (void)client_events(&rig);
    client_close(&rig);
    names_free(&names);
    free(spans);
    free(block);
}
END_TEST

START_TEST(a_single_get_or_put_allocates_nothing)
{
    uint8_t got[VALUE_LEN];
    uint64_t size;
    open_bytes(MIB);
    for (int i = 0; i < 3; i++) { /* warm */
        ck_assert_int_eq(client_upsert(&rig, "a", value, VALUE_LEN), MC_OK);
        ck_assert_int_eq(mc_client_get_into(rig.client, mc_view_str("a"), got,
                                            sizeof got, &size),
                         MC_OK);
    }
    uint64_t before = mci_alloc_thread_calls();
    for (int i = 0; i < 10; i++) {
        ck_assert_int_eq(mc_client_get_into(rig.client, mc_view_str("a"), got,
                                            sizeof got, &size),
                         MC_OK);
        ck_assert_int_eq(
            mc_client_put(rig.client, mc_view_str("a"), value, VALUE_LEN, NULL),
            MC_OK);
    }
    ck_assert_uint_eq(mci_alloc_thread_calls(), before);
    (void)client_events(&rig);
    client_close(&rig);
}
END_TEST

START_TEST(replicas_tell_where_the_bytes_are)
{
    const struct mc_view keys[] = {mc_view_str("a"), mc_view_str("none")};
    struct mc_replicas replicas[2];
    int64_t results[2];
    open_bytes(MIB);
    ck_assert_int_eq(client_put(&rig, "a", value, VALUE_LEN), MC_OK);
    ck_assert_int_eq(
        mc_client_batch_get_replicas(rig.client, keys, 2, replicas, results),
        MC_OK);
    ck_assert_int_eq(results[0], 1);
    ck_assert_int_eq(results[1], MC_ERR_OBJECT_NOT_FOUND);
    ck_assert_uint_eq(replicas[0].count, 1);
    ck_assert_uint_eq(replicas[1].count, 0);
    ck_assert_int_eq(replicas[0].rows[0].medium, MC_MEDIUM_CPU);
    ck_assert_uint_eq(replicas[0].rows[0].size, VALUE_LEN);
    ck_assert_uint_ne(replicas[0].rows[0].address, 0);
    const char *owner =
        mc_client_hostname(rig.lender ? rig.lender : rig.client);
    ck_assert_str_eq(replicas[0].rows[0].segment, owner);
    bool is_served = !client_link() || strcmp(client_link(), "shm") != 0;
    ck_assert_str_eq(replicas[0].rows[0].endpoint, is_served ? owner : "");
    ck_assert_int_eq(
        mc_client_batch_get_replicas(rig.client, keys, 2, NULL, results),
        MC_ERR_INVALID_PARAMS);
    client_close(&rig);
}
END_TEST

static TCase *many(void)
{
    TCase *tcase = tcase_create("many");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, one_missing_key_is_one_missing_row);
    tcase_add_test(tcase, every_row_has_its_result_and_no_other);
    tcase_add_test(tcase, the_same_key_twice_is_two_rows);
    tcase_add_test(tcase, tags_stay_with_their_rows_whatever_is_left_out);
    tcase_add_test(tcase, thirty_thousand_rows_go_and_come);
    tcase_add_test(tcase, a_single_get_or_put_allocates_nothing);
    tcase_add_test(tcase, replicas_tell_where_the_bytes_are);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("client many");
    suite_add_tcase(suite, many());
    return suite_run(suite);
}
