/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_checksums.c - objects with checksums, read by every call, while
 * bytes of them go wrong where they are kept. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_fail.h"
#include "suite.h"
#include "sums_rig.h"

static void put(size_t len, const struct mc_replicate_config *config)
{
    ck_assert_int_eq(mc_client_upsert(rig.client, key, value, len, config),
                     MC_OK);
}

/* ---- every call ------------------------------------------------------------ */

static int64_t by_get_into(size_t len)
{
    uint64_t size = 0;
    enum mc_err err = mc_client_get_into(rig.client, key, got, len, &size);
    return err != MC_OK ? err : (int64_t)size;
}

static int64_t by_batch_get_into(size_t len)
{
    const struct mc_view keys[] = {key, {"none", 4}};
    const struct mc_span buffers[] = {{got, len}, {got, len}};
    int64_t results[2];
    ck_assert_int_eq(
        mc_client_batch_get_into(rig.client, keys, buffers, 2, results), MC_OK);
    ck_assert_int_eq(results[1], MC_ERR_OBJECT_NOT_FOUND);
    return results[0];
}

static int64_t by_batch_get(size_t len)
{
    struct mc_span span;
    int64_t result = 0;
    (void)len;
    ck_assert_int_eq(mc_client_batch_get(rig.client, &key, 1, &span, &result),
                     MC_OK);
    if (result >= 0) {
        memcpy(got, span.data, span.len);
    }
    mc_client_free(span.data);
    return result;
}

/* Spans that end anywhere in blocks, and one that is too long. */
static int64_t by_multi_buffers(size_t len)
{
    struct mc_span spans[8];
    size_t count = 0;
    for (size_t at = 0; at < len && count < 7; count++) {
        size_t some = at + 50001 < len && count < 6 ? 50001 : len - at;
        spans[count] = (struct mc_span){got + at, some};
        at += some;
    }
    spans[count - 1].len += got + BYTES_MAX - (got + len) > 10 ? 10 : 0;
    const struct mc_spans list = {spans, count};
    int64_t result = 0;
    ck_assert_int_eq(mc_client_batch_get_into_multi_buffers(
                         rig.client, &key, &list, 1, false, &result),
                     MC_OK);
    return result;
}

static int64_t by_buffer(size_t len)
{
    struct mc_buffer buffer;
    (void)len;
    enum mc_err err = mc_client_get_buffer(rig.client, key, &buffer);
    if (err != MC_OK) {
        return err;
    }
    memcpy(got, buffer.data, buffer.len);
    int64_t size = (int64_t)buffer.len;
    mc_client_release_buffer(rig.client, &buffer);
    return size;
}

static int64_t by_ranges(size_t len)
{
    const struct mc_range range = {0, 0, len};
    int64_t result = 0;
    const struct mc_range_row row = {key, &range, 1, &result};
    ck_assert_int_eq(
        mc_client_get_into_ranges(rig.client, got, BYTES_MAX, &row, 1), MC_OK);
    return result;
}

static int64_t by_session_key(size_t len)
{
    const struct mc_fragment fragments[] = {{got, 0, len}, {got, 0, 0}};
    const struct mc_fragments row = {fragments, 2};
    int64_t result = 0;
    ck_assert_int_eq(
        mc_client_batch_get_session_start(rig.client, &key, 1, &result), MC_OK);
    ck_assert_int_eq(result, MC_OK);
    ck_assert_int_eq(mc_client_batch_get_into_multi_buffer_ranges(
                         rig.client, &key, &row, 1, &result),
                     MC_OK);
    ck_assert_int_eq(mc_client_batch_get_session_end(rig.client, &key, 1, NULL),
                     MC_OK);
    return result;
}

static const read_fn reads[] = {
    by_get,    by_get_into, by_batch_get_into, by_batch_get,  by_multi_buffers,
    by_buffer, by_ranges,   by_session,        by_session_key};
#define READS (int)(sizeof reads / sizeof reads[0])

START_TEST(whole_objects_match_and_are_counted)
{
    start();
    for (size_t i = 0; i < SIZES; i++) {
        put(sizes[i], &summed);
        uint64_t before = stats().checked_blocks;
        expect_read(reads[_i], sizes[i]);
        ck_assert_uint_ge(stats().checked_blocks - before,
                          mci_sums_count(sizes[i]));
    }
    ck_assert_uint_eq(mismatches(), 0);
    stop();
}
END_TEST

/* The first, a middle and the last block, and each one's sum. */
START_TEST(a_wrong_byte_anywhere_is_told_with_its_block)
{
    start();
    for (size_t i = 0; i < SIZES; i++) {
        size_t len = sizes[i];
        uint64_t count = mci_sums_count(len);
        const uint64_t blocks[] = {0, count / 2, count - 1};
        put(len, &summed);
        for (size_t k = 0; k < 3; k++) {
            uint64_t data_at = blocks[k] * BLOCK;
            uint64_t sum_at = len + blocks[k] * MCI_SUM_LEN + 3;
            uint64_t last_at =
                blocks[k] + 1 == count ? len - 1 : (blocks[k] + 1) * BLOCK - 1;
            const uint64_t offsets[] = {data_at, last_at, sum_at};
            for (size_t m = 0; m < 3; m++) {
                uint64_t before = mismatches();
                spoil(0, offsets[m]);
                ck_assert_int_eq(reads[_i](len), MC_ERR_CHECKSUM_MISMATCH);
                ck_assert_uint_gt(mismatches(), before);
                expect_last(blocks[k], len);
                spoil(0, offsets[m]);
            }
        }
        expect_read(reads[_i], len);
    }
    stop();
}
END_TEST

START_TEST(without_checksums_nothing_is_looked_at)
{
    start();
    put(3 * MIB, NULL);
    value[7] ^= 0x40;
    spoil(0, 7);
    expect_read(reads[_i], 3 * MIB);
    ck_assert_uint_eq(stats().checked_blocks, 0);
    ck_assert_uint_eq(mismatches(), 0);
    struct mc_mismatch last;
    ck_assert(!mc_client_last_mismatch(rig.client, &last));
    stop();
}
END_TEST

/* ---- more than one copy ---------------------------------------------------- */

START_TEST(another_copy_takes_over)
{
    start();
    if (join_other()) {
        size_t len = 3 * 65536 + 1;
        put(len, &twice);
        for (uint32_t copy = 0; copy < 2; copy++) {
            spoil(copy, BLOCK + 5);
            expect_read(reads[_i], len);
            spoil(copy, BLOCK + 5);
            spoil(copy, len + 8); /* the sum of block 1 */
            expect_read(reads[_i], len);
            spoil(copy, len + 8);
        }
        ck_assert_uint_ge(mismatches(), 2); /* the nearer copy's */
        expect_last(1, len);
        uint64_t before = mismatches();
        spoil(0, 5);
        spoil(1, 3 * BLOCK);
        ck_assert_int_eq(reads[_i](len), MC_ERR_CHECKSUM_MISMATCH);
        ck_assert_uint_ge(mismatches(), before + 2);
    }
    stop();
}
END_TEST

/* Each piece finds the copy in which it is right. */
START_TEST(pieces_of_a_row_go_their_own_ways)
{
    const struct mc_range ranges[] = {{0, 0, BLOCK},
                                      {BLOCK, BLOCK, BLOCK},
                                      {2 * BLOCK, 2 * BLOCK, BLOCK},
                                      {3 * BLOCK, 3 * BLOCK, BLOCK}};
    int64_t results[4];
    const struct mc_range_row row = {key, ranges, 4, results};
    start();
    bool has_two = join_other();
    put(4 * BLOCK, has_two ? &twice : &summed);
    spoil(0, 0);
    if (has_two) {
        spoil(1, BLOCK);
        spoil(0, 2 * BLOCK);
        spoil(1, 2 * BLOCK);
    }
    memset(got, 0, 4 * BLOCK);
    ck_assert_int_eq(
        mc_client_get_into_ranges(rig.client, got, BYTES_MAX, &row, 1), MC_OK);
    ck_assert_int_eq(results[0],
                     has_two ? (int64_t)BLOCK : MC_ERR_CHECKSUM_MISMATCH);
    ck_assert_int_eq(results[1], BLOCK);
    ck_assert_int_eq(results[2],
                     has_two ? MC_ERR_CHECKSUM_MISMATCH : (int64_t)BLOCK);
    ck_assert_int_eq(results[3], BLOCK);
    if (has_two) {
        ck_assert_mem_eq(got, value, 2 * BLOCK);
    }
    ck_assert_mem_eq(got + 3 * BLOCK, value + 3 * BLOCK, BLOCK);
    stop();
}
END_TEST

/* ---- parts of blocks ------------------------------------------------------- */

START_TEST(blocks_that_are_read_in_part_are_not_looked_at)
{
    static const struct {
        uint64_t from;
        uint64_t len;
        uint64_t checked;
    } rows[] = {{0, BLOCK - 1, 0},
                {1, BLOCK, 0},
                {1, 2 * BLOCK - 1, 1},
                {BLOCK, BLOCK, 1},
                {BLOCK - 1, 2 * BLOCK + 1, 2},
                {3 * BLOCK, 1000, 1},
                {3 * BLOCK, 999, 0},
                {2 * BLOCK + 1, BLOCK + 999, 1}};
    size_t len = 3 * BLOCK + 1000;
    start();
    put(len, &summed);
    struct mc_get_session *session = open_session();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct mc_range range = {0, rows[i].from, rows[i].len};
        int64_t result = 0;
        const struct mc_range_row row = {key, &range, 1, &result};
        uint64_t before = stats().checked_blocks;
        ck_assert_int_eq(
            mc_client_get_into_ranges(rig.client, got, BYTES_MAX, &row, 1),
            MC_OK);
        ck_assert_int_eq(result, (int64_t)rows[i].len);
        ck_assert_uint_eq(stats().checked_blocks - before, rows[i].checked);
        ck_assert_int_eq(read_session(session, rows[i].from, rows[i].len),
                         (int64_t)rows[i].len);
        ck_assert_uint_eq(stats().checked_blocks - before, 2 * rows[i].checked);
        spoil(0, rows[i].from);
        spoil(0, rows[i].from + rows[i].len - 1);
        ck_assert_int_eq(read_session(session, rows[i].from, 100), 100);
        spoil(0, rows[i].from);
        spoil(0, rows[i].from + rows[i].len - 1);
    }
    ck_assert_uint_eq(mismatches(), 0);
    mc_client_get_sessions_close(rig.client, &session, 1);
    stop();
}
END_TEST

/* ---- memory that is shared ------------------------------------------------- */

START_TEST(rows_may_share_a_buffer)
{
    const struct mc_view keys[] = {{"a", 1}, {"b", 1}, {"a", 1}};
    int64_t results[3];
    start();
    const struct mc_span buffers[] = {
        {got, 2 * BLOCK}, {got, 2 * BLOCK}, {got + BLOCK, 2 * BLOCK}};
    ck_assert_int_eq(
        mc_client_put(rig.client, keys[0], value, 2 * BLOCK, &summed), MC_OK);
    ck_assert_int_eq(
        mc_client_put(rig.client, keys[1], value + 5, 2 * BLOCK, &summed),
        MC_OK);
    ck_assert_int_eq(
        mc_client_batch_get_into(rig.client, keys, buffers, 3, results), MC_OK);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(results[i], 2 * BLOCK);
    }
    ck_assert_uint_eq(mismatches(), 0);
    stop();
}
END_TEST

START_TEST(a_list_of_all_its_spans_has_room_for_the_sums)
{
    struct mc_span *spans = malloc(MC_SPANS_MAX * sizeof *spans);
    start();
    ck_assert_ptr_nonnull(spans);
    for (size_t i = 0; i < MC_SPANS_MAX; i++) {
        spans[i] = (struct mc_span){value + i * 33, 33};
    }
    const struct mc_spans list = {spans, MC_SPANS_MAX};
    int64_t result = 0;
    ck_assert_int_eq(mc_client_batch_put_from_multi_buffers(
                         rig.client, &key, &list, 1, &summed, &result),
                     MC_OK);
    ck_assert_int_eq(result, MC_OK);
    expect_read(by_get, MC_SPANS_MAX * 33);
    ck_assert_uint_eq(stats().checked_blocks,
                      mci_sums_count(MC_SPANS_MAX * 33));
    free(spans);
    stop();
}
END_TEST

/* ---- versions -------------------------------------------------------------- */

/* The bytes of another version, its sums included, are not this one's. */
START_TEST(bytes_of_another_object_do_not_pass)
{
    const struct mc_view twin = {"twin", 4};
    const size_t placed = mci_placed_bytes(BLOCK + 1, true);
    start();
    put(BLOCK + 1, &summed);
    ck_assert_int_eq(mc_client_put(rig.client, twin, value, BLOCK + 1, &summed),
                     MC_OK);
    uint8_t *mine = copy_of(key, 0);
    overwrite(got, mine, placed);
    overwrite(got + placed, copy_of(twin, 0), placed);
    ck_assert_mem_eq(got, got + placed, BLOCK + 1);
    ck_assert_mem_ne(got + BLOCK + 1, got + placed + BLOCK + 1, 8);
    overwrite(mine, got + placed, placed);
    ck_assert_int_eq(by_get(0), MC_ERR_CHECKSUM_MISMATCH);
    overwrite(mine, NULL, placed); /* lost memory */
    ck_assert_int_eq(by_get(0), MC_ERR_CHECKSUM_MISMATCH);
    stop();
}
END_TEST

START_TEST(a_session_reads_its_version_whatever_the_key_has_now)
{
    size_t len = 2 * BLOCK + 7;
    start();
    put(len, &summed);
    uint8_t *mine = copy_of(key, 0);
    struct mc_get_session *session = open_session();
    ck_assert_int_eq(read_session(session, 0, BLOCK), BLOCK);
    value[0] ^= 1;
    put(len, NULL);
    ck_assert_int_eq(read_session(session, BLOCK, BLOCK + 7), BLOCK + 7);
    ck_assert_uint_eq(stats().checked_blocks, 3);
    overwrite(mine + 2 * BLOCK, NULL, 1);
    ck_assert_int_eq(read_session(session, BLOCK, BLOCK + 7),
                     MC_ERR_CHECKSUM_MISMATCH);
    ck_assert_int_eq(read_session(session, BLOCK, BLOCK), BLOCK);
    mc_client_get_sessions_close(rig.client, &session, 1);
    expect_read(by_get, len); /* of now, without sums */
    put(len, &summed);
    expect_read(by_get, len);
    stop();
}
END_TEST

/* Sums that a session has kept are not the last word. */
START_TEST(what_a_session_kept_is_fetched_again_before_it_is_believed)
{
    size_t len = 2 * BLOCK;
    start();
    put(len, &summed);
    struct mc_get_session *session = open_session();
    spoil(0, len + 8); /* of block 1, which is not looked at */
    ck_assert_int_eq(read_session(session, 0, BLOCK), BLOCK);
    ck_assert_int_eq(read_session(session, BLOCK, BLOCK),
                     MC_ERR_CHECKSUM_MISMATCH);
    spoil(0, len + 8);
    ck_assert_int_eq(read_session(session, BLOCK, BLOCK), BLOCK);
    mc_client_get_sessions_close(rig.client, &session, 1);
    stop();
}
END_TEST

/* ---- room ------------------------------------------------------------------ */

START_TEST(sizes_are_told_without_the_sums_that_take_room)
{
    uint64_t size = 0;
    size_t len = 3 * BLOCK + 1;
    start();
    uint64_t before = stats().allocated_bytes;
    put(len, &summed);
    ck_assert_int_eq(mc_client_get_size(rig.client, key, &size), MC_OK);
    ck_assert_uint_eq(size, len);
    ck_assert_uint_eq(client_probe(&rig, "k").size, len);
    uint64_t taken = stats().allocated_bytes - before;
    ck_assert_uint_ge(taken, mci_placed_bytes(len, true));
    ck_assert_uint_lt(taken, mci_placed_bytes(len, true) + 64);
    ck_assert_int_eq(mc_client_remove(rig.client, key, true), MC_OK);
    ck_assert_uint_eq(stats().objects, 0);
    stop();
}
END_TEST

/* An object that fits without its sums does not fit with them. */
START_TEST(sums_need_room_too)
{
    const struct mc_client_opts opts = {.segment_bytes = MIB};
    client_open(&rig, &opts);
    value = calloc(1, MIB);
    got = NULL;
    ck_assert_ptr_nonnull(value);
    ck_assert_int_eq(mc_client_put(rig.client, key, value, MIB, &summed),
                     MC_ERR_NO_AVAILABLE_HANDLE);
    ck_assert_int_eq(
        mc_client_put(rig.client, key, value, MIB - 16 * 8, &summed), MC_OK);
    ck_assert_int_eq(mc_client_remove(rig.client, key, true), MC_OK);
    stop();
}
END_TEST

START_TEST(a_client_may_ask_for_all_of_its_writes)
{
    start_with(true);
    put(2 * BLOCK, NULL);
    spoil(0, 1);
    ck_assert_int_eq(by_get(0), MC_ERR_CHECKSUM_MISMATCH);
    spoil(0, 1);
    expect_read(by_get, 2 * BLOCK);
    stop();
    ck_assert_int_eq(setenv("MOONCAKE_STORE_CHECKSUM", "1", 1), 0);
    start();
    const struct mc_replicate_config plain = {.with_hard_pin = true};
    put(BLOCK, &plain);
    expect_read(by_get, BLOCK);
    ck_assert_uint_eq(stats().checked_blocks, 1);
    stop();
    ck_assert_int_eq(setenv("MOONCAKE_STORE_CHECKSUM", "0", 1), 0);
    start();
    put(BLOCK, NULL);
    expect_read(by_get, BLOCK);
    ck_assert_uint_eq(stats().checked_blocks, 0);
    stop();
    ck_assert_int_eq(unsetenv("MOONCAKE_STORE_CHECKSUM"), 0);
}
END_TEST

/* ---- want of memory -------------------------------------------------------- */

START_TEST(want_of_memory_is_said_and_nothing_is_left)
{
    struct alloc_fail fail;
    const struct mc_range ranges[] = {{0, 0, BLOCK}, {BLOCK, BLOCK, BLOCK}};
    int64_t results[2];
    const struct mc_range_row row = {key, ranges, 2, results};
    start();
    put(2 * BLOCK, &summed);
    ALLOC_FAIL_EACH(fail)
    {
        fail.is_shared = client_link() != NULL;
        alloc_fail_arm(&fail);
        enum mc_err err =
            mc_client_get_into(rig.client, key, got, 2 * BLOCK, NULL);
        alloc_fail_disarm(&fail);
        ck_assert(err == MC_OK || alloc_fail_happened(&fail));
    }
    ALLOC_FAIL_EACH(fail)
    {
        fail.is_shared = client_link() != NULL;
        alloc_fail_arm(&fail);
        enum mc_err err =
            mc_client_get_into_ranges(rig.client, got, BYTES_MAX, &row, 1);
        alloc_fail_disarm(&fail);
        for (size_t i = 0; i < 2; i++) {
            ck_assert(err == results[i] ||
                      (err == MC_OK && results[i] == (int64_t)BLOCK) ||
                      (err == MC_OK && results[i] == MC_ERR_NOMEM));
        }
    }
    /* What is put anew takes and gives records, which the store keeps. */
    fail.is_shared = true;
    for (uint64_t k = 1; k < 40; k++) {
        (void)mci_alloc_fail_at(k);
        enum mc_err err =
            mc_client_upsert(rig.client, key, value, 2 * BLOCK, &summed);
        (void)mci_alloc_fail_at(0);
        ck_assert(err == MC_OK || err == MC_ERR_NOMEM);
        expect_read(by_get, 2 * BLOCK);
    }
    ck_assert_uint_eq(mismatches(), 0);
    stop();
}
END_TEST

static TCase *every_call(void)
{
    TCase *tcase = tcase_create("every call");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, whole_objects_match_and_are_counted, 0, READS);
    tcase_add_loop_test(tcase, a_wrong_byte_anywhere_is_told_with_its_block, 0,
                        READS);
    tcase_add_loop_test(tcase, without_checksums_nothing_is_looked_at, 0,
                        READS);
    tcase_add_loop_test(tcase, another_copy_takes_over, 0, READS);
    return tcase;
}

static TCase *reading(void)
{
    TCase *tcase = tcase_create("reading");
    tcase_add_test(tcase, pieces_of_a_row_go_their_own_ways);
    tcase_add_test(tcase, blocks_that_are_read_in_part_are_not_looked_at);
    tcase_add_test(tcase, rows_may_share_a_buffer);
    tcase_add_test(tcase, a_list_of_all_its_spans_has_room_for_the_sums);
    tcase_add_test(tcase, bytes_of_another_object_do_not_pass);
    tcase_add_test(tcase, a_session_reads_its_version_whatever_the_key_has_now);
    tcase_add_test(tcase,
                   what_a_session_kept_is_fetched_again_before_it_is_believed);
    tcase_add_test(tcase, sizes_are_told_without_the_sums_that_take_room);
    tcase_add_test(tcase, sums_need_room_too);
    tcase_add_test(tcase, a_client_may_ask_for_all_of_its_writes);
    tcase_add_test(tcase, want_of_memory_is_said_and_nothing_is_left);
    return tcase;
}

int main(void)
{
    Suite *suite = suite_create("client_checksums");
    suite_add_tcase(suite, every_call());
    suite_add_tcase(suite, reading());
    return suite_run(suite);
}
