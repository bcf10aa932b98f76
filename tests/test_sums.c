/* SPDX-License-Identifier: Apache-2.0 */
/* test_sums.c - checksums of blocks: what they are of, and how they come about
 * where objects are written piece by piece. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_fail.h"
#include "block_sums.h"
#include "mci_bytes.h"
#include "suite.h"

#define BLOCK ((size_t)MCI_SUM_BLOCK)
#define SIZE (3 * BLOCK + 1000) /* four blocks */

static uint8_t data[SIZE];
static const struct mci_summed of = {.epoch = 7, .version = 9, .size = SIZE};

static void fill(void)
{
    for (size_t i = 0; i < SIZE; i++) {
        data[i] = (uint8_t)(i * 2654435761U >> 13);
    }
}

/* ---- room ------------------------------------------------------------------ */

START_TEST(room_for_sums_goes_there_and_back)
{
    static const uint64_t sizes[] = {1,
                                     65535,
                                     65536,
                                     65537,
                                     131072,
                                     131073,
                                     524288,
                                     UINT64_C(1) << 32,
                                     (UINT64_C(1) << 48) - 1,
                                     UINT64_C(1) << 48};
    static const uint64_t counts[] = {1, 1, 1,     2,           2,
                                      3, 8, 65536, 1ULL << 32U, 1ULL << 32U};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t placed = mci_placed_bytes(sizes[i], true);
        ck_assert_uint_eq(mci_sums_count(sizes[i]), counts[i]);
        ck_assert_uint_eq(placed, sizes[i] + 8 * counts[i]);
        ck_assert_uint_eq(mci_placed_size(placed, true), sizes[i]);
        ck_assert_uint_eq(mci_placed_bytes(sizes[i], false), sizes[i]);
        ck_assert_uint_eq(mci_placed_size(sizes[i], false), sizes[i]);
    }
    ck_assert_uint_eq(mci_sums_count(0), 0);
}
END_TEST

START_TEST(a_range_covers_whole_blocks_and_the_short_last_one)
{
    static const struct {
        uint64_t from;
        uint64_t len;
        uint64_t first;
        uint64_t count;
    } rows[] = {{0, SIZE, 0, 4},
                {0, BLOCK, 0, 1},
                {0, BLOCK - 1, 0, 0},
                {1, BLOCK, 1, 0},
                {1, 2 * BLOCK - 1, 1, 1},
                {BLOCK - 1, BLOCK + 1, 1, 1},
                {3 * BLOCK, 1000, 3, 1},
                {3 * BLOCK, 999, 3, 0},
                {3 * BLOCK + 1, 999, 4, 0},
                {2 * BLOCK + 5, BLOCK - 5 + 1000, 3, 1},
                {SIZE, 0, 4, 0},
                {BLOCK, 0, 1, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct mci_blocks blocks =
            mci_blocks_within(SIZE, rows[i].from, rows[i].len);
        ck_assert_uint_eq(blocks.count, rows[i].count);
        if (blocks.count > 0) {
            ck_assert_uint_eq(blocks.first, rows[i].first);
        }
    }
}
END_TEST

/* ---- what a sum is of ------------------------------------------------------ */

START_TEST(a_sum_names_its_version_size_and_block)
{
    struct mci_summed other = of;
    uint64_t sum = mci_sum_make(&of, 1, data);
    ck_assert_uint_eq(mci_sum_make(&other, 1, data), sum);
    ck_assert_uint_ne(mci_sum_make(&of, 2, data), sum);
    other.version++;
    ck_assert_uint_ne(mci_sum_make(&other, 1, data), sum);
    other = of;
    other.epoch++;
    ck_assert_uint_ne(mci_sum_make(&other, 1, data), sum);
    other = of;
    other.size++;
    ck_assert_uint_ne(mci_sum_make(&other, 1, data), sum);
    ck_assert_uint_ne(mci_sum_none(&of, 1), sum);
    ck_assert_uint_ne(mci_sum_none(&of, 1), 0);
}
END_TEST

START_TEST(every_bit_of_a_block_counts)
{
    uint64_t sum = mci_sum_make(&of, 0, data);
    for (size_t at = 0; at < BLOCK; at += 4093) {
        data[at] ^= 1;
        ck_assert_uint_ne(mci_sum_make(&of, 0, data), sum);
        data[at] ^= 1;
    }
    ck_assert_uint_eq(mci_sum_make(&of, 0, data), sum);
}
END_TEST

/* However the bytes are cut, the sums are those of the whole blocks. */
START_TEST(spans_do_not_change_a_sum)
{
    for (size_t cut = 1; cut < SIZE; cut += 7919) {
        struct mc_span spans[] = {{data, cut / 2},
                                  {NULL, 0},
                                  {data + cut / 2, cut - cut / 2},
                                  {data + cut, SIZE - cut}};
        struct mci_sum_walk walk;
        mci_sum_walk_begin(&walk, &of, spans);
        for (uint64_t block = 0; block < 4; block++) {
            ck_assert_uint_eq(mci_sum_walk_next(&walk, block),
                              mci_sum_make(&of, block, data + block * BLOCK));
        }
        mci_sum_walk_begin(&walk, &of, spans);
        mci_sum_walk_skip(&walk, 2 * BLOCK);
        ck_assert_uint_eq(mci_sum_walk_next(&walk, 2),
                          mci_sum_make(&of, 2, data + 2 * BLOCK));
    }
}
END_TEST

/* ---- piece by piece -------------------------------------------------------- */

static struct mci_block_sums sums;

static void begin(void)
{
    fill();
    ck_assert_int_eq(mci_block_sums_init(&sums, &of), MC_OK);
}

static void write_piece(uint64_t from, uint64_t len)
{
    mci_block_sums_make(&sums, from, data + from, len);
    mci_block_sums_note(&sums, from, data + from, len);
}

/* Which blocks have their sums, a bit each, and no other has anything but the
 * mark of none. */
static unsigned end(void)
{
    unsigned known = 0;
    uint64_t without = mci_block_sums_end(&sums);
    ck_assert_uint_eq(mci_block_sums_end(&sums), without);
    for (uint64_t block = 0; block < 4; block++) {
        uint64_t sum = mci_get_le64(sums.sums + block * MCI_SUM_LEN);
        if (sum == mci_sum_make(&of, block, data + block * BLOCK)) {
            known |= 1U << block;
        } else {
            ck_assert_uint_eq(sum, mci_sum_none(&of, block));
            without--;
        }
    }
    ck_assert_uint_eq(without, 0);
    mci_block_sums_fini(&sums);
    return known;
}

START_TEST(pieces_in_order_have_sums_whatever_their_length)
{
    static const uint64_t lens[] = {1000,  4096,      BLOCK - 1,
                                    BLOCK, BLOCK + 1, SIZE};
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        begin();
        for (uint64_t from = 0; from < SIZE; from += lens[i]) {
            write_piece(from, SIZE - from < lens[i] ? SIZE - from : lens[i]);
        }
        ck_assert_uint_eq(end(), 15);
    }
}
END_TEST

START_TEST(blocks_grow_side_by_side)
{
    begin();
    for (uint64_t at = 0; at < BLOCK; at += BLOCK / 4) {
        for (uint64_t block = 3; block-- > 0;) {
            write_piece(block * BLOCK + at, BLOCK / 4);
        }
    }
    ck_assert_uint_eq(end(), 7);
}
END_TEST

START_TEST(pieces_out_of_order_leave_a_block_without)
{
    begin();
    write_piece(BLOCK / 2, BLOCK / 2);
    write_piece(0, BLOCK / 2);
    write_piece(BLOCK, 2 * BLOCK + 1000);
    ck_assert_uint_eq(end(), 14);

    begin(); /* a gap that is filled later */
    write_piece(0, 100);
    write_piece(200, BLOCK - 200);
    write_piece(100, 100);
    ck_assert_uint_eq(end(), 0);
}
END_TEST

START_TEST(a_block_that_is_written_whole_has_its_sum_again)
{
    begin();
    write_piece(100, 100);
    write_piece(0, BLOCK);
    ck_assert_uint_eq(end(), 1);

    begin(); /* a stream is dropped for it */
    write_piece(0, 100);
    data[5] ^= 1;
    write_piece(0, BLOCK);
    for (size_t i = 0; i < MCI_BLOCK_STREAMS; i++) {
        ck_assert_uint_eq(sums.streams[i].len, 0);
    }
    ck_assert_uint_eq(end(), 1);
}
END_TEST

START_TEST(what_is_written_over_in_part_has_no_sum)
{
    begin();
    write_piece(0, SIZE);
    data[BLOCK + 10] ^= 1;
    write_piece(BLOCK + 10, 1);
    ck_assert_uint_eq(end(), 13);
}
END_TEST

START_TEST(what_failed_has_no_sum)
{
    begin();
    write_piece(0, SIZE);
    mci_block_sums_spoil(&sums, BLOCK - 1, 2);
    mci_block_sums_spoil(&sums, 3 * BLOCK, 0);
    ck_assert_uint_eq(end(), 12);
}
END_TEST

START_TEST(streams_are_bounded_and_used_again)
{
    const struct mci_summed many = {.version = 1, .size = 40 * BLOCK};
    fill();
    ck_assert_int_eq(mci_block_sums_init(&sums, &many), MC_OK);
    for (uint64_t round = 0; round < 2; round++) {
        for (uint64_t i = 0; i < MCI_BLOCK_STREAMS + 1; i++) {
            uint64_t from = (round * (MCI_BLOCK_STREAMS + 1) + i) * BLOCK;
            mci_block_sums_note(&sums, from, data, 100);
        }
        for (uint64_t i = 0; i < MCI_BLOCK_STREAMS + 1; i++) {
            uint64_t from = (round * (MCI_BLOCK_STREAMS + 1) + i) * BLOCK + 100;
            mci_block_sums_note(&sums, from, data + 100, BLOCK - 100);
        }
    }
    ck_assert_uint_eq(mci_block_sums_end(&sums), 40 - 2 * MCI_BLOCK_STREAMS);
    mci_block_sums_fini(&sums);
}
END_TEST

START_TEST(want_of_memory_is_said)
{
    struct alloc_fail fail;
    ALLOC_FAIL_EACH(fail)
    {
        struct mci_block_sums made;
        alloc_fail_arm(&fail);
        enum mc_err err = mci_block_sums_init(&made, &of);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        mci_block_sums_fini(&made);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sums");
    TCase *blocks = tcase_create("blocks");
    tcase_add_checked_fixture(blocks, fill, NULL);
    tcase_add_test(blocks, room_for_sums_goes_there_and_back);
    tcase_add_test(blocks, a_range_covers_whole_blocks_and_the_short_last_one);
    tcase_add_test(blocks, a_sum_names_its_version_size_and_block);
    tcase_add_test(blocks, every_bit_of_a_block_counts);
    tcase_add_test(blocks, spans_do_not_change_a_sum);
    suite_add_tcase(suite, blocks);

    TCase *pieces = tcase_create("piece by piece");
    tcase_add_test(pieces, pieces_in_order_have_sums_whatever_their_length);
    tcase_add_test(pieces, blocks_grow_side_by_side);
    tcase_add_test(pieces, pieces_out_of_order_leave_a_block_without);
    tcase_add_test(pieces, a_block_that_is_written_whole_has_its_sum_again);
    tcase_add_test(pieces, what_is_written_over_in_part_has_no_sum);
    tcase_add_test(pieces, what_failed_has_no_sum);
    tcase_add_test(pieces, streams_are_bounded_and_used_again);
    tcase_add_test(pieces, want_of_memory_is_said);
    suite_add_tcase(suite, pieces);
    return suite_run(suite);
}
