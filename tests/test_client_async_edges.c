/* SPDX-License-Identifier: Apache-2.0 */
/* test_client_async_edges.c - every pair of offset and size that could wrap, as a
 * row of an operation: right or refused, its neighbours unhurt, and not one byte
 * outside. Memory ends where its page ends, with nothing behind it. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "client_rig.h"
#include "mc_client_async.h"
#include "suite.h"

#define PAGE 4096
#define SIZE 1000
#define ROOM (SIZE + 1) /* of each piece of memory */
#define CANARY 0xcc

static const uint64_t edges[] = {0,
                                 1,
                                 SIZE - 1,
                                 SIZE,
                                 SIZE + 1,
                                 UINT64_C(1) << 31,
                                 UINT64_C(1) << 32,
                                 UINT64_C(1) << 63,
                                 UINT64_MAX};
#define EDGES (sizeof edges / sizeof *edges)
#define PAIRS ((int)(EDGES * EDGES))

static struct client_rig rig;
static struct mc_async *async;
static uint8_t value[ROOM];
static uint8_t other[ROOM];

/* A piece of memory: ROOM bytes before a page that is shut. */
static uint8_t *pages;
static uint8_t *piece(size_t i)
{
    return pages + 2 * i * PAGE + PAGE - ROOM;
}

#define PIECES 4

static void open_rig(void)
{
    static const struct mc_async_opts opts = {.rows_per_call = 2};
    client_open(&rig, NULL);
    ck_assert_int_eq(mc_async_open(rig.client, &opts, &async), MC_OK);
    stamp_fill(value, ROOM, 0x0102030405060708);
    stamp_fill(other, ROOM, 0x1112131415161718);
    pages = mmap(NULL, PIECES * 2 * PAGE, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(pages, MAP_FAILED);
    for (size_t i = 0; i < PIECES; i++) {
        ck_assert_int_eq(mprotect(pages + (2 * i + 1) * PAGE, PAGE, PROT_NONE),
                         0);
    }
}

static void close_rig(void)
{
    mc_async_close(async);
    (void)client_events(&rig);
    client_close(&rig);
    ck_assert_int_eq(munmap(pages, PIECES * 2 * PAGE), 0);
}

static void clear_pieces(void)
{
    for (size_t i = 0; i < PIECES; i++) {
        memset(pages + 2 * i * PAGE, CANARY, PAGE);
    }
}

/* A piece holds these bytes and nothing else was touched. */
static void expect_piece(size_t i, const uint8_t *bytes, size_t len)
{
    const uint8_t *page = pages + 2 * i * PAGE;
    size_t touched = 0;
    ck_assert_mem_eq(piece(i), bytes, len);
    for (size_t at = 0; at < PAGE; at++) {
        bool is_outside = at < PAGE - ROOM || at >= PAGE - ROOM + len;
        touched += is_outside && page[at] != CANARY;
    }
    ck_assert_uint_eq(touched, 0);
}

static void run(const struct mc_async_rows *rows)
{
    struct mc_async_op *op = NULL;
    ck_assert_int_eq(mc_async_submit(async, rows, &op), MC_OK);
    mc_async_wait(op);
}

/* The tested row stands between two that are well. */
#define ROWS 3
static const struct mc_view keys[ROWS] = {{"a", 1}, {"m", 1}, {"z", 1}};
static const uint64_t sizes[ROWS] = {SIZE, SIZE, SIZE};

static void put_all(void)
{
    for (size_t i = 0; i < ROWS; i++) {
        ck_assert_int_eq(mc_client_put(rig.client, keys[i], value, SIZE, NULL),
                         MC_OK);
    }
}

static void remove_all(void)
{
    uint64_t removed = 0;
    ck_assert_int_eq(mc_client_remove_all(rig.client, true, &removed), MC_OK);
    (void)client_events(&rig);
}

static bool fits(uint64_t offset, uint64_t len)
{
    return len <= SIZE && offset <= SIZE - len;
}

/* ---- ranges of sessions -------------------------------------------------------- */

START_TEST(ranges_that_are_read)
{
    struct mc_get_session *sessions[ROWS];
    int64_t results[ROWS];
    open_rig();
    put_all();
    ck_assert_int_eq(
        mc_client_get_sessions_open(rig.client, keys, ROWS, sessions, results),
        MC_OK);
    for (size_t i = 0; i < (size_t)PAIRS; i++) {
        uint64_t offset = edges[i / EDGES];
        uint64_t len = edges[i % EDGES];
        const struct mc_fragment before = {piece(0), 0, SIZE};
        const struct mc_fragment after = {piece(3), 0, SIZE};
        const struct mc_fragment tested[] = {{piece(1), offset, len},
                                             {piece(2), 1, 10}};
        const struct mc_fragments lists[ROWS] = {
            {&before, 1}, {tested, 2}, {&after, 1}};
        const struct mc_async_rows rows = {.kind = MC_ASYNC_READ,
                                           .count = ROWS,
                                           .results = results,
                                           .get_sessions = sessions,
                                           .fragments = lists};
        bool is_sound = fits(offset, len);
        clear_pieces();
        run(&rows);
        ck_assert(results[0] == SIZE && results[2] == SIZE);
        ck_assert_int_eq(results[1],
                         is_sound ? (int64_t)len + 10 : MC_ERR_INVALID_PARAMS);
        expect_piece(0, value, SIZE);
        expect_piece(1, value + (is_sound ? offset : 0), is_sound ? len : 0);
        expect_piece(2, value + 1, is_sound ? 10 : 0);
        expect_piece(3, value, SIZE);
    }
    mc_client_get_sessions_close(rig.client, sessions, ROWS);
    close_rig();
}
END_TEST

static void expect_object(size_t i, const uint8_t *bytes)
{
    uint64_t size = 0;
    clear_pieces();
    ck_assert_int_eq(
        mc_client_get_into(rig.client, keys[i], piece(3), ROOM, &size), MC_OK);
    ck_assert_uint_eq(size, SIZE);
    expect_piece(3, bytes, SIZE);
}

/* All pairs one after the other into one session, beside the bytes it should have
 * in the end; its neighbours in the segment are read in the end too. */
START_TEST(ranges_that_are_written)
{
    struct mc_put_session *sessions[ROWS];
    uint8_t expected[SIZE];
    int64_t results[ROWS];
    open_rig();
    ck_assert_int_eq(mc_client_put_sessions_open(rig.client, keys, sizes, NULL,
                                                 ROWS, sessions, results),
                     MC_OK);
    memcpy(expected, value, SIZE);
    for (size_t i = 0; i <= (size_t)PAIRS; i++) {
        /* The first one writes all of it. */
        uint64_t offset = i > 0 ? edges[(i - 1) / EDGES] : 0;
        uint64_t len = i > 0 ? edges[(i - 1) % EDGES] : SIZE;
        const struct mc_fragment around = {value, 0, SIZE};
        const struct mc_fragment tested = {piece(1), offset, len};
        const struct mc_fragments lists[ROWS] = {
            {&around, 1}, {&tested, 1}, {&around, 1}};
        const struct mc_async_rows rows = {.kind = MC_ASYNC_WRITE,
                                           .count = ROWS,
                                           .results = results,
                                           .put_sessions = sessions,
                                           .fragments = lists};
        bool is_sound = fits(offset, len);
        stamp_fill(piece(1), SIZE, i * 7919);
        run(&rows);
        ck_assert(results[0] == SIZE && results[2] == SIZE);
        ck_assert_int_eq(results[1],
                         is_sound ? (int64_t)len : MC_ERR_INVALID_PARAMS);
        if (is_sound) {
            memcpy(expected + offset, piece(1), len);
        }
    }
    ck_assert_int_eq(
        mc_client_put_sessions_end(rig.client, sessions, ROWS, 0, results),
        MC_OK);
    for (size_t i = 0; i < ROWS; i++) {
        ck_assert_int_eq(results[i], 0);
        expect_object(i, i == 1 ? expected : value);
    }
    close_rig();
}
END_TEST

/* ---- objects and spans ---------------------------------------------------------- */

/* As if there were no end of numbers. */
static bool sum_is(uint64_t a, uint64_t b, uint64_t least, uint64_t most)
{
    uint64_t sum = a + b;
    return sum < a ? most == UINT64_MAX : sum >= least && sum <= most;
}

/* An object fills its spans in order; lengths may say more than there is of the
 * object, never less. */
START_TEST(objects_into_two_spans)
{
    int64_t results[ROWS];
    open_rig();
    put_all();
    for (size_t i = 0; i < (size_t)PAIRS; i++) {
        uint64_t first = edges[i / EDGES];
        uint64_t second = edges[i % EDGES];
        const struct mc_span before = {piece(0), SIZE};
        const struct mc_span after = {piece(3), SIZE};
        const struct mc_span tested[] = {{piece(1), first}, {piece(2), second}};
        const struct mc_spans lists[ROWS] = {
            {&before, 1}, {tested, 2}, {&after, 1}};
        const struct mc_async_rows rows = {.kind = MC_ASYNC_GET,
                                           .count = ROWS,
                                           .results = results,
                                           .keys = keys,
                                           .spans = lists};
        bool is_sound = sum_is(first, second, SIZE, UINT64_MAX);
        size_t to_first = first < SIZE ? first : SIZE;
        clear_pieces();
        run(&rows);
        ck_assert(results[0] == SIZE && results[2] == SIZE);
        ck_assert_int_eq(results[1], is_sound ? SIZE : MC_ERR_INVALID_PARAMS);
        expect_piece(0, value, SIZE);
        expect_piece(1, value, is_sound ? to_first : 0);
        expect_piece(2, value + to_first, is_sound ? SIZE - to_first : 0);
        expect_piece(3, value, SIZE);
    }
    close_rig();
}
END_TEST

/* What has no bytes, or more than an object may, or than there is room for. */
START_TEST(objects_from_two_spans)
{
    int64_t results[ROWS];
    uint8_t got[2 * ROOM + 1];
    open_rig();
    memcpy(piece(1), value, ROOM);
    memcpy(piece(2), other, ROOM);
    for (size_t i = 0; i < 2 * (size_t)PAIRS; i++) {
        uint64_t first = edges[i / 2 / EDGES];
        uint64_t second = edges[i / 2 % EDGES];
        const struct mc_span around = {value, SIZE};
        const struct mc_span tested[] = {{piece(1), first}, {piece(2), second}};
        const struct mc_spans lists[ROWS] = {
            {&around, 1}, {tested, 2}, {&around, 1}};
        const struct mc_async_rows rows = {.kind = i % 2 == 0 ? MC_ASYNC_PUT
                                                              : MC_ASYNC_UPSERT,
                                           .count = ROWS,
                                           .results = results,
                                           .keys = keys,
                                           .spans = lists};
        bool is_sound = sum_is(first, second, 1, 2 * ROOM);
        bool is_object = sum_is(first, second, 1, MC_OBJECT_SIZE_MAX);
        uint64_t size = 0;
        run(&rows);
        ck_assert(results[0] == 0 && results[2] == 0);
        ck_assert_int_eq(results[1], is_sound    ? 0
                                     : is_object ? MC_ERR_NO_AVAILABLE_HANDLE
                                                 : MC_ERR_INVALID_PARAMS);
        expect_object(0, value);
        expect_object(2, value);
        memcpy(piece(1), value, ROOM);
        memcpy(piece(2), other, ROOM);
        memset(got, CANARY, sizeof got);
        enum mc_err err =
            mc_client_get_into(rig.client, keys[1], got, sizeof got, &size);
        ck_assert_int_eq(err, is_sound ? MC_OK : MC_ERR_OBJECT_NOT_FOUND);
        if (is_sound) {
            ck_assert_uint_eq(size, first + second);
            ck_assert_mem_eq(got, value, first);
            ck_assert_mem_eq(got + first, other, second);
        }
        ck_assert_uint_eq(got[size], CANARY);
        remove_all();
    }
    close_rig();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("client_async_edges");
    TCase *tcase = tcase_create("edges");
    tcase_set_timeout(tcase, 100);
    tcase_add_test(tcase, ranges_that_are_read);
    tcase_add_test(tcase, ranges_that_are_written);
    tcase_add_test(tcase, objects_into_two_spans);
    tcase_add_test(tcase, objects_from_two_spans);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
