/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>

#include "suite.h"
#include "tls_record.h"

#define PARTS_MAX 40

static uint8_t bytes[PARTS_MAX * 1000 + 2 * MCI_TLS_RECORD_MAX];
static uint8_t room[MCI_TLS_RECORD_MAX];

static void fill_bytes(void)
{
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i * 7 + i / 251);
    }
}

/* Lays parts of these lengths over bytes, one behind the other. */
static size_t lay(const size_t *lens, int count, struct iovec *parts)
{
    size_t at = 0;
    for (int i = 0; i < count; i++) {
        parts[i] = (struct iovec){.iov_base = bytes + at, .iov_len = lens[i]};
        at += lens[i];
    }
    return at;
}

START_TEST(small_parts_become_one_record)
{
    const size_t lens[] = {3, 0, 5, 1};
    struct iovec parts[4];
    size_t total = lay(lens, 4, parts);
    struct iovec record = mci_tls_next_record(parts, 4, 0, room);
    ck_assert_ptr_eq(record.iov_base, room);
    ck_assert_uint_eq(record.iov_len, total);
    ck_assert_mem_eq(room, bytes, total);
}
END_TEST

START_TEST(a_large_or_last_part_is_borrowed_whole)
{
    const size_t lens[] = {MCI_TLS_RECORD_MAX, 8};
    struct iovec parts[2];
    (void)lay(lens, 2, parts);
    struct iovec record = mci_tls_next_record(parts, 2, 0, room);
    ck_assert_ptr_eq(record.iov_base, bytes);
    ck_assert_uint_eq(record.iov_len, MCI_TLS_RECORD_MAX);
    record = mci_tls_next_record(parts, 2, MCI_TLS_RECORD_MAX + 3, room);
    ck_assert_ptr_eq(record.iov_base, bytes + MCI_TLS_RECORD_MAX + 3);
    ck_assert_uint_eq(record.iov_len, 5);
}
END_TEST

START_TEST(one_byte_less_than_a_record_is_filled_up)
{
    const size_t lens[] = {MCI_TLS_RECORD_MAX - 1, 8};
    struct iovec parts[2];
    (void)lay(lens, 2, parts);
    struct iovec record = mci_tls_next_record(parts, 2, 0, room);
    ck_assert_ptr_eq(record.iov_base, room);
    ck_assert_uint_eq(record.iov_len, MCI_TLS_RECORD_MAX);
    ck_assert_mem_eq(room, bytes, MCI_TLS_RECORD_MAX);
}
END_TEST

START_TEST(nothing_is_left_of_nothing)
{
    const size_t lens[] = {0, 4, 0};
    struct iovec parts[3];
    (void)lay(lens, 3, parts);
    ck_assert_uint_eq(mci_tls_next_record(parts, 0, 0, room).iov_len, 0);
    ck_assert_uint_eq(mci_tls_next_record(parts, 1, 0, room).iov_len, 0);
    ck_assert_uint_eq(mci_tls_next_record(parts, 3, 4, room).iov_len, 0);
}
END_TEST

/* xorshift: any numbers, the same each time. */
static uint32_t next_below(uint32_t *state, uint32_t below)
{
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    return *state % below;
}

/* However much of each piece is taken, the stream is the parts in order, and a
 * piece that was not taken at all is the same when it is asked for again. */
START_TEST(any_pace_makes_the_same_stream)
{
    uint32_t state = 1 + (uint32_t)_i;
    size_t lens[PARTS_MAX];
    struct iovec parts[PARTS_MAX];
    for (int i = 0; i < PARTS_MAX; i++) {
        lens[i] = next_below(&state, 4) ? next_below(&state, 1000) : 0;
    }
    lens[next_below(&state, PARTS_MAX)] =
        next_below(&state, 2 * MCI_TLS_RECORD_MAX);
    size_t total = lay(lens, PARTS_MAX, parts);
    size_t sent = 0;
    while (sent < total) {
        struct iovec record = mci_tls_next_record(parts, PARTS_MAX, sent, room);
        ck_assert_uint_gt(record.iov_len, 0);
        ck_assert_mem_eq(record.iov_base, bytes + sent, record.iov_len);
        struct iovec again = mci_tls_next_record(parts, PARTS_MAX, sent, room);
        ck_assert_uint_eq(again.iov_len, record.iov_len);
        sent += 1 + next_below(&state, (uint32_t)record.iov_len);
    }
    ck_assert_uint_eq(sent, total);
    ck_assert_uint_eq(mci_tls_next_record(parts, PARTS_MAX, sent, room).iov_len,
                      0);
}
END_TEST

int main(void)
{
    fill_bytes();
    Suite *suite = suite_create("tls_record");
    TCase *records = tcase_create("records");
    tcase_add_test(records, small_parts_become_one_record);
    tcase_add_test(records, a_large_or_last_part_is_borrowed_whole);
    tcase_add_test(records, one_byte_less_than_a_record_is_filled_up);
    tcase_add_test(records, nothing_is_left_of_nothing);
    tcase_add_loop_test(records, any_pace_makes_the_same_stream, 0, 20);
    suite_add_tcase(suite, records);
    return suite_run(suite);
}
