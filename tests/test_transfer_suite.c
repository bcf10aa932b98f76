/* SPDX-License-Identifier: Apache-2.0 */
/* One suite over each transport: rows of every shape arrive whole, or not at all
 * where they may not. */
#include <check.h>
#include <string.h>

#include "engine.h"
#include "suite.h"
#include "transfer_rig.h"

#define SECRET 0x5a

static bool begin(struct rig *rig, int kind, uint64_t bytes, size_t local_bytes)
{
    if (!rig_is_built(rig_kinds[kind])) {
        return false;
    }
    rig_open(rig, rig_kinds[kind], bytes, local_bytes);
    return true;
}

static void write_bytes(struct rig *rig, const uint8_t *from, size_t len,
                        uint64_t offset)
{
    struct mc_span span = {(void *)(uintptr_t)from, len};
    struct mc_transfer_row row = rig_row(rig, &span, 1, offset, true);
    ck_assert_int_eq(rig_run(rig, &row), MC_OK);
    ck_assert(row.remote_ended);
    ck_assert_uint_eq(row.bytes, len);
    ck_assert_int_eq(row.transport, rig->kind);
}

START_TEST(what_is_written_is_read_back)
{
    static const size_t lens[] = {1,       2,       4095,     4096,
                                  65537,   1048575, 1048576,  1048577,
                                  3000001, 8388607, 16777213, 67108864};
    struct rig rig;
    if (!begin(&rig, _i, 65 * RIG_MIB, 130 * RIG_MIB)) {
        return;
    }
    uint8_t *back = rig.local + 65 * RIG_MIB;
    for (size_t i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        uint64_t offset = 3 * i;
        rig_fill(rig.local, lens[i], i);
        rig.memory.base[offset + lens[i]] = SECRET;
        write_bytes(&rig, rig.local, lens[i], offset);
        ck_assert(rig_is_filled(rig.memory.base + offset, lens[i], i));
        ck_assert_uint_eq(rig.memory.base[offset + lens[i]], SECRET);
        back[lens[i]] = SECRET;
        struct mc_span span = {back, lens[i]};
        struct mc_transfer_row row = rig_row(&rig, &span, 1, offset, false);
        ck_assert_int_eq(rig_run(&rig, &row), MC_OK);
        ck_assert_uint_eq(row.bytes, lens[i]);
        ck_assert(rig_is_filled(back, lens[i], i));
        ck_assert_uint_eq(back[lens[i]], SECRET);
    }
    rig_close(&rig);
}
END_TEST

/* Spans of odd lengths, empty ones among them, in an order of their own. */
static uint32_t cut(struct mc_span *spans, uint8_t *memory, size_t len)
{
    uint32_t count = 0;
    size_t at = 0;
    while (at < len && count < MC_SPANS_MAX - 1) {
        size_t piece = count % 5 == 4 ? 0 : 1 + (count * 7919U) % 60013U;
        piece = piece < len - at ? piece : len - at;
        spans[count++] = (struct mc_span){memory + at, piece};
        at += piece;
    }
    if (at < len) {
        spans[count++] = (struct mc_span){memory + at, len - at};
    }
    return count;
}

START_TEST(spans_are_gathered_and_scattered)
{
    static struct mc_span spans[MC_SPANS_MAX];
    const size_t len = 11 * RIG_MIB + 13;
    struct rig rig;
    if (!begin(&rig, _i, 12 * RIG_MIB, 24 * RIG_MIB)) {
        return;
    }
    rig_fill(rig.local, len, 1);
    uint32_t count = cut(spans, rig.local, len);
    struct mc_transfer_row row = rig_row(&rig, spans, count, 77, true);
    ck_assert_int_eq(rig_run(&rig, &row), MC_OK);
    ck_assert_uint_eq(row.bytes, len);
    ck_assert(rig_is_filled(rig.memory.base + 77, len, 1));
    count = cut(spans, rig.local + 12 * RIG_MIB, len);
    row = rig_row(&rig, spans, count, 77, false);
    ck_assert_int_eq(rig_run(&rig, &row), MC_OK);
    ck_assert(rig_is_filled(rig.local + 12 * RIG_MIB, len, 1));
    rig_close(&rig);
}
END_TEST

START_TEST(targets_reach_beyond_four_gib)
{
    const uint64_t far = (UINT64_C(1) << 32) + 16;
    struct rig rig;
    if (!begin(&rig, _i, far + 4 * RIG_MIB, 4 * RIG_MIB)) {
        return;
    }
    rig_fill(rig.local, RIG_MIB + 1, 9);
    rig.memory.base[16] = SECRET;
    write_bytes(&rig, rig.local, RIG_MIB + 1, far);
    ck_assert(rig_is_filled(rig.memory.base + far, RIG_MIB + 1, 9));
    ck_assert_uint_eq(rig.memory.base[16], SECRET);
    struct mc_span span = {rig.local + 2 * RIG_MIB, RIG_MIB + 1};
    struct mc_transfer_row row = rig_row(&rig, &span, 1, far, false);
    ck_assert_int_eq(rig_run(&rig, &row), MC_OK);
    ck_assert(rig_is_filled(rig.local + 2 * RIG_MIB, RIG_MIB + 1, 9));
    rig_close(&rig);
}
END_TEST

START_TEST(thousands_of_rows_go_in_one_run)
{
    enum { COUNT = 4096, LEN = 1501 };
    static struct mc_transfer_row rows[COUNT];
    static struct mc_span spans[COUNT];
    struct rig rig;
    if (!begin(&rig, _i, 8 * RIG_MIB, 16 * RIG_MIB)) {
        return;
    }
    for (size_t i = 0; i < COUNT; i++) {
        spans[i] = (struct mc_span){rig.local + i * LEN, LEN};
        rig_fill(spans[i].data, LEN, i);
        rows[i] = rig_row(&rig, &spans[i], 1, (COUNT - 1 - i) * LEN, true);
    }
    ck_assert_int_eq(
        mc_transfer_run(rig.peer, rows, COUNT, rig_deadline(20000)), MC_OK);
    for (size_t i = 0; i < COUNT; i++) {
        ck_assert(
            rig_is_filled(rig.memory.base + (COUNT - 1 - i) * LEN, LEN, i));
        spans[i].data = rig.local + 8 * RIG_MIB + i * LEN;
        rows[i] = rig_row(&rig, &spans[i], 1, (COUNT - 1 - i) * LEN, false);
    }
    ck_assert_int_eq(
        mc_transfer_run(rig.peer, rows, COUNT, rig_deadline(20000)), MC_OK);
    for (size_t i = 0; i < COUNT; i++) {
        ck_assert(rig_is_filled(spans[i].data, LEN, i));
        ck_assert(rows[i].local_ended && rows[i].remote_ended);
    }
    rig_close(&rig);
}
END_TEST

START_TEST(rows_without_bytes_are_fine)
{
    struct rig rig;
    if (!begin(&rig, _i, RIG_MIB, RIG_MIB)) {
        return;
    }
    struct mc_span nothing = {NULL, 0};
    struct mc_transfer_row rows[4];
    rows[0] = rig_row(&rig, NULL, 0, 0, false);
    rows[1] = rig_row(&rig, &nothing, 1, RIG_MIB, false);
    rows[2] = rig_row(&rig, &nothing, 1, 7, true);
    rows[3] = rig_row(&rig, NULL, 0, 7, true);
    rows[3].is_final = true;
    ck_assert_int_eq(mc_transfer_run(rig.peer, rows, 4, rig_deadline(20000)),
                     MC_OK);
    ck_assert_uint_eq(rows[3].receipt,
                      mc_grant_receipt(rig.exposure.key,
                                       rig.exposure.registration,
                                       rows[3].terms.subject));
    ck_assert_int_eq(mc_transfer_run(rig.peer, NULL, 0, rig_deadline(20000)),
                     MC_OK);
    rig_close(&rig);
}
END_TEST

/* A row that is wrong answers so and nothing moves; its neighbours do. */
static void check_refused(struct rig *rig, struct mc_transfer_row wrong)
{
    struct mc_span span = {rig->local, 16};
    struct mc_transfer_row rows[3];
    rows[0] = rig_row(rig, &span, 1, 0, false);
    rows[1] = wrong;
    rows[2] = rig_row(rig, &span, 1, 0, false);
    ck_assert_int_eq(mc_transfer_run(rig->peer, rows, 3, rig_deadline(20000)),
                     MC_ERR_TRANSFER_FAIL);
    ck_assert_int_eq(rows[0].err, MC_OK);
    ck_assert_int_eq(rows[1].err, MC_ERR_INVALID_PARAMS);
    ck_assert_uint_eq(rows[1].bytes, 0);
    ck_assert(rows[1].local_ended && rows[1].remote_ended);
    ck_assert_int_eq(rows[2].err, MC_OK);
}

START_TEST(rows_that_are_wrong_are_told_from_those_that_fail)
{
    static struct mc_span many[MC_TRANSFER_SPANS_MAX + 1];
    struct rig rig;
    if (!begin(&rig, _i, RIG_MIB, RIG_MIB)) {
        return;
    }
    struct mc_span span = {rig.local, 100};
    struct mc_transfer_row row = rig_row(&rig, &span, 1, 0, true);
    struct mc_transfer_row wrong = row;
    wrong.offset = RIG_MIB - 99;
    wrong.terms.len = RIG_MIB;
    check_refused(&rig, wrong); /* past the target */
    wrong = row;
    wrong.offset = UINT64_MAX - 50;
    wrong.terms.len = UINT64_MAX;
    check_refused(&rig, wrong);
    wrong = row;
    wrong.offset = 1;
    check_refused(&rig, wrong); /* past its terms */
    wrong = row;
    wrong.target = NULL;
    check_refused(&rig, wrong);
    wrong = row;
    wrong.terms.registration++;
    check_refused(&rig, wrong);
    wrong = row;
    wrong.terms.is_write = false;
    wrong.is_final = true;
    check_refused(&rig, wrong);
    struct mc_span null_span = {NULL, 100};
    wrong = row;
    wrong.spans = &null_span;
    check_refused(&rig, wrong);
    struct mc_span huge[2] = {{rig.local, SIZE_MAX}, {rig.local, 101}};
    wrong = row;
    wrong.spans = huge;
    wrong.span_count = 2;
    check_refused(&rig, wrong); /* the sum wraps to 100 */
    wrong = row;
    wrong.spans = many;
    wrong.span_count = MC_TRANSFER_SPANS_MAX + 1;
    check_refused(&rig, wrong);
    wrong.span_count = MC_TRANSFER_SPANS_MAX;
    ck_assert_int_eq(rig_run(&rig, &wrong), MC_OK);
    rig_close(&rig);
}
END_TEST

START_TEST(memory_must_be_registered)
{
    static uint8_t elsewhere[64];
    struct rig rig;
    if (!begin(&rig, _i, RIG_MIB, RIG_MIB)) {
        return;
    }
    struct mc_span spans[2] = {{rig.local, 10}, {elsewhere, sizeof elsewhere}};
    check_refused(&rig, rig_row(&rig, spans, 2, 0, false));
    struct mc_span over = {rig.local + RIG_MIB - 10, 11};
    check_refused(&rig, rig_row(&rig, &over, 1, 0, false));
    /* Nothing is left pinned by what was refused. */
    ck_assert_int_eq(mc_transfer_unregister(rig.peer, rig.local, 0), MC_OK);
    rig_close(&rig);
}
END_TEST

START_TEST(a_deadline_that_is_past_moves_nothing)
{
    struct rig rig;
    if (!begin(&rig, _i, RIG_MIB, RIG_MIB)) {
        return;
    }
    memset(rig.local, SECRET, 100);
    struct mc_span span = {rig.local, 100};
    struct mc_transfer_row rows[2];
    rows[0] = rig_row(&rig, &span, 1, 0, true);
    rows[1] = rig_row(&rig, &span, 1, 0, false);
    ck_assert_int_eq(mc_transfer_run(rig.peer, rows, 2, 1),
                     MC_ERR_TRANSFER_FAIL);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(rows[i].err, MC_ERR_TRANSFER_FAIL);
        ck_assert(rows[i].local_ended && rows[i].remote_ended);
        ck_assert_uint_eq(rows[i].bytes, 0);
    }
    ck_assert_uint_eq(rig.memory.base[0], 0);
    rig_close(&rig);
}
END_TEST

START_TEST(what_moved_is_counted)
{
    struct rig rig;
    if (!begin(&rig, _i, RIG_MIB, RIG_MIB)) {
        return;
    }
    struct mc_transfer_stats stats;
    write_bytes(&rig, rig.local, 1000, 0);
    struct mc_span span = {rig.local, 300};
    struct mc_transfer_row row = rig_row(&rig, &span, 1, 0, false);
    ck_assert_int_eq(rig_run(&rig, &row), MC_OK);
    row.grant.tag++;
    ck_assert_int_eq(rig_run(&rig, &row), MC_ERR_TRANSFER_FAIL);
    mc_transfer_stat(rig.peer, &stats);
    ck_assert_uint_eq(stats.written_bytes[rig.kind], 1000);
    ck_assert_uint_eq(stats.read_bytes[rig.kind], 300);
    ck_assert_uint_eq(stats.rows, 3);
    ck_assert_uint_eq(stats.failed_rows, 1);
    rig_close(&rig);
}
END_TEST

START_TEST(a_target_can_be_asked)
{
    struct rig rig;
    if (!begin(&rig, _i, RIG_MIB, RIG_MIB)) {
        return;
    }
    ck_assert_int_eq(mc_target_probe(rig.target, rig_deadline(20000)), MC_OK);
    ck_assert_int_eq(mc_target_transport(rig.target, rig_deadline(20000)),
                     rig.kind);
    mc_transfer_conceal(rig.owner, rig.exposure.registration);
    ck_assert_int_ne(mc_target_probe(rig.target, rig_deadline(20000)), MC_OK);
    rig_close(&rig);
}
END_TEST

/* ---- where peers come to ------------------------------------------------ */

static const char *endpoint_of(struct mc_transfer *transfer)
{
    static char endpoint[MC_TRANSFER_ENDPOINT_SIZE];
    memset(endpoint, 'x', sizeof endpoint);
    ck_assert_int_eq(mc_transfer_endpoint(transfer, endpoint), MC_OK);
    return endpoint;
}

START_TEST(the_endpoint_is_told_once_somebody_listens)
{
    struct rig rig;
    enum mc_transport_kind kind = rig_kinds[_i];
    if (!rig_is_built(kind)) {
        return;
    }
    rig_open(&rig, kind, RIG_MIB, RIG_PAGE);
    ck_assert_str_eq(endpoint_of(rig.owner), rig.exposure.endpoint);
    ck_assert_int_eq(endpoint_of(rig.owner)[0] != '\0',
                     kind == MC_TRANSPORT_TCP);
    rig_close(&rig);
}
END_TEST

START_TEST(who_is_served_at_once_has_an_endpoint_before_it_lends)
{
    uint8_t page[64];
    const struct mc_exposure_opts lent = {
        .base = page, .bytes = sizeof page, .fd = -1};
    struct mc_transfer_opts opts = {.host = "::1", .no_shm = true};
    struct mc_transfer *transfer = NULL;
    struct mc_exposure exposure;
    ck_assert_int_eq(mc_transfer_open(&opts, &transfer), MC_OK);
    ck_assert_str_eq(endpoint_of(transfer), "");
    mc_transfer_close(transfer);
    opts.is_served_at_once = true;
    ck_assert_int_eq(mc_transfer_open(&opts, &transfer), MC_OK);
    ck_assert_mem_eq(endpoint_of(transfer), "[::1]:", 6);
    ck_assert_int_eq(mc_transfer_expose(transfer, &lent, &exposure), MC_OK);
    ck_assert_str_eq(endpoint_of(transfer), exposure.endpoint);
    mc_transfer_close(transfer);
    opts.host = "a host"; /* nobody is told to come there */
    ck_assert_int_eq(mc_transfer_open(&opts, &transfer), MC_OK);
    ck_assert_int_eq(mc_transfer_endpoint(transfer, exposure.endpoint),
                     MC_ERR_INVALID_PARAMS);
    ck_assert_str_ne(exposure.endpoint, "");
    mc_transfer_close(transfer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("transfer_suite");
    TCase *rows = tcase_create("rows");
    tcase_set_timeout(rows, 100);
    tcase_add_loop_test(rows, what_is_written_is_read_back, 0, RIG_KINDS);
    tcase_add_loop_test(rows, spans_are_gathered_and_scattered, 0, RIG_KINDS);
    tcase_add_loop_test(rows, targets_reach_beyond_four_gib, 0, RIG_KINDS);
    tcase_add_loop_test(rows, thousands_of_rows_go_in_one_run, 0, RIG_KINDS);
    tcase_add_loop_test(rows, rows_without_bytes_are_fine, 0, RIG_KINDS);
    tcase_add_loop_test(rows, what_moved_is_counted, 0, RIG_KINDS);
    tcase_add_loop_test(rows, a_target_can_be_asked, 0, RIG_KINDS);
    tcase_add_loop_test(rows, the_endpoint_is_told_once_somebody_listens, 0,
                        RIG_KINDS);
    tcase_add_test(rows, who_is_served_at_once_has_an_endpoint_before_it_lends);
    suite_add_tcase(suite, rows);
    TCase *refusals = tcase_create("refusals");
    tcase_set_timeout(refusals, 100);
    tcase_add_loop_test(refusals,
                        rows_that_are_wrong_are_told_from_those_that_fail, 0,
                        RIG_KINDS);
    tcase_add_loop_test(refusals, memory_must_be_registered, 0, RIG_KINDS);
    tcase_add_loop_test(refusals, a_deadline_that_is_past_moves_nothing, 0,
                        RIG_KINDS);
    suite_add_tcase(suite, refusals);
    return suite_run(suite);
}
