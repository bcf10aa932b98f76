/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_move.c - rows that an embedded store copies itself: whole, and
 * stopped in the middle. The word that stops them lies in the memory that is
 * copied to, so that the copy itself sets it, at a known byte. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "client_move.h"
#include "suite.h"

#define MIB ((size_t)1 << 20)
#define ROW (3 * MIB)
#define AT (MIB / 2) /* of the word */

static struct mc_client *client;
static uint8_t *user;

static void open_client(void)
{
    const struct mc_client_opts opts = {.segment_bytes = 2 * ROW,
                                        .any_memory = true};
    ck_assert_int_eq(mc_client_open(&opts, &client), MC_OK);
    user = calloc(2, ROW);
    ck_assert_ptr_nonnull(user);
}

static void close_client(void)
{
    free(user);
    mc_client_close(client);
}

/* A row about the bytes of the segment from offset on. */
static struct mc_transfer_row aim(struct mci_mover *mover, uint64_t offset,
                                  bool is_write, const struct mc_span *spans,
                                  uint32_t count)
{
    static const struct mc_grant grant;
    const struct mci_place place = {.offset = offset,
                                    .segment = client->segment_id};
    const struct mci_claim claim = {
        .place = &place, .grant = &grant, .bytes = ROW, .is_write = is_write};
    struct mc_transfer_row row;
    ck_assert_int_eq(mci_mover_aim(mover, &claim, 0, 0, &row), MC_OK);
    row.spans = spans;
    row.span_count = count;
    return row;
}

static uint8_t *to_of(bool is_write)
{
    return is_write ? client->segment.base : user;
}

static uint8_t *from_of(bool is_write)
{
    return is_write ? user : client->segment.base;
}

/* Two rows, whose source is full of ones and whose target of zeros. */
static void run(struct mc_transfer_row *rows, const struct mc_span *spans,
                uint32_t per_row, bool is_write, bool stops)
{
    struct mci_mover mover;
    memset(from_of(is_write), 1, 2 * ROW);
    memset(to_of(is_write), 0, 2 * ROW);
    const _Atomic int *word =
        (const _Atomic int *)(const void *)(to_of(is_write) + AT);
    ck_assert_int_eq(mci_mover_begin(client, stops ? word : NULL, &mover),
                     MC_OK);
    rows[0] = aim(&mover, 0, is_write, spans, per_row);
    rows[1] = aim(&mover, ROW, is_write, &spans[per_row], per_row);
    mci_mover_run(&mover, rows, 2, 0);
    mci_mover_end(&mover);
}

static void expect_copied(bool is_write, size_t len)
{
    const uint8_t *to = to_of(is_write);
    for (size_t i = 0; i < 2 * ROW; i++) {
        if (to[i] != (i < len)) {
            ck_abort_msg("byte %zu", i);
        }
    }
}

START_TEST(rows_are_copied_whole)
{
    struct mc_transfer_row rows[2];
    open_client();
    const struct mc_span spans[] = {{user, ROW}, {user + ROW, ROW}};
    run(rows, spans, 1, _i == 1, false);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(rows[i].err, MC_OK);
        ck_assert_uint_eq(rows[i].bytes, ROW);
    }
    expect_copied(_i == 1, 2 * ROW);
    close_client();
}
END_TEST

START_TEST(a_large_row_stops_at_its_next_piece)
{
    struct mc_transfer_row rows[2];
    open_client();
    const struct mc_span spans[] = {{user, ROW}, {user + ROW, ROW}};
    run(rows, spans, 1, _i == 1, true);
    ck_assert_int_eq(rows[0].err, MC_ERR_TRANSFER_FAIL);
    ck_assert_uint_eq(rows[0].bytes, MIB);
    ck_assert(rows[0].local_ended && rows[0].remote_ended);
    ck_assert_int_eq(rows[1].err, MC_ERR_TRANSFER_FAIL);
    ck_assert_uint_eq(rows[1].bytes, 0);
    expect_copied(_i == 1, MIB);
    close_client();
}
END_TEST

START_TEST(it_stops_between_spans)
{
    struct mc_transfer_row rows[2];
    const size_t first = AT + 4096; /* less than a piece */
    open_client();
    const struct mc_span spans[] = {
        {user, first},     {NULL, 0}, {user + first, ROW - first},
        {user + ROW, MIB}, {NULL, 0}, {user + ROW + MIB, ROW - MIB}};
    run(rows, spans, 3, _i == 1, true);
    ck_assert_int_eq(rows[0].err, MC_ERR_TRANSFER_FAIL);
    ck_assert_uint_eq(rows[0].bytes, first);
    ck_assert_uint_eq(rows[1].bytes, 0);
    expect_copied(_i == 1, first);
    run(rows, spans, 3, _i == 1, false);
    ck_assert(rows[0].err == MC_OK && rows[1].err == MC_OK);
    expect_copied(_i == 1, 2 * ROW);
    close_client();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_move");
    TCase *tcase = tcase_create("move");
    tcase_add_loop_test(tcase, rows_are_copied_whole, 0, 2);
    tcase_add_loop_test(tcase, a_large_row_stops_at_its_next_piece, 0, 2);
    tcase_add_loop_test(tcase, it_stops_between_spans, 0, 2);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
