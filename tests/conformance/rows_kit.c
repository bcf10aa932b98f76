/* SPDX-License-Identifier: Apache-2.0 */
#include "rows_kit.h"

#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#include "sanitized.h"
#include "suite.h"

#define MARK 0xa5

const struct rows_harness *rows_on;

int rows_suite(const struct rows_harness *harness)
{
    Suite *suite = suite_create("row driver");
    rows_on = harness;
    suite_add_tcase(suite, rows_basic_case());
    suite_add_tcase(suite, rows_limits_case());
    suite_add_tcase(suite, rows_ends_case());
    suite_add_tcase(suite, rows_crowd_case());
    suite_add_tcase(suite, rows_faults_case());
    return suite_run(suite);
}

/* ---- a driver on a store -------------------------------------------------------- */

static void count_change(void *ctx, void *op_ctx)
{
    struct rows_kit *kit = ctx;
    (void)op_ctx;
    atomic_fetch_add(&kit->told, 1);
}

void kit_open(struct rows_kit *kit, const struct rows_store *store,
              const struct mc_row_driver_opts *opts)
{
    const struct rows_store usual = {.bytes = 8 * KIT_MIB};
    struct mc_row_driver_opts given = {.workers = 0};
    memset(kit, 0, sizeof *kit);
    if (opts) {
        given = *opts;
    }
    if (!given.on_change) {
        given.on_change = count_change;
        given.ctx = kit;
    }
    kit->world = rows_on->open(store ? store : &usual);
    ck_assert_int_eq(rows_on->driver(kit->world, &given, &kit->driver), MC_OK);
}

void kit_count(struct rows_kit *kit, enum mc_row_kind kind, size_t rows)
{
    kit->submitted[kind] += rows;
}

static void check_counts(struct rows_kit *kit)
{
    struct mc_row_driver_stats stats;
    uint64_t gets = 0;
    uint64_t puts = 0;
    mc_row_driver_stat(kit->driver, &stats);
    ck_assert_uint_eq(stats.gets[MC_ROW_REASON_NONE], 0);
    ck_assert_uint_eq(stats.puts[MC_ROW_REASON_NONE], 0);
    for (int i = 0; i < MC_ROW_REASON_COUNT; i++) {
        gets += stats.gets[i];
        puts += stats.puts[i];
    }
    ck_assert_uint_eq(gets, kit->submitted[MC_ROW_GET]);
    ck_assert_uint_eq(puts, kit->submitted[MC_ROW_PUT]);
}

void kit_close(struct rows_kit *kit)
{
    if (kit->driver) {
        check_counts(kit);
        mc_row_driver_close(kit->driver);
    }
    rows_on->close(kit->world);
}

/* ---- memory ------------------------------------------------------------------------ */

struct rows_memory kit_memory(struct rows_kit *kit, size_t len)
{
    struct rows_memory memory = {.len = len};
    memory.bytes = mmap(NULL, len, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(memory.bytes, MAP_FAILED);
    memset(memory.bytes, MARK, len);
    ck_assert_int_eq(mc_row_driver_register(kit->driver, memory.bytes, len,
                                            MC_MEMORY_HOST, &memory.region),
                     MC_OK);
    return memory;
}

void kit_poison(struct rows_memory *memory)
{
    ck_assert_int_eq(mprotect(memory->bytes, memory->len, PROT_NONE), 0);
}

void kit_retire(struct rows_kit *kit, struct rows_memory *memory)
{
    ck_assert_int_eq(mc_row_driver_unregister(kit->driver, memory->region),
                     MC_OK);
    kit_poison(memory);
}

bool kit_is_marked(const struct rows_memory *memory, size_t from, size_t len)
{
    for (size_t i = from; i < from + len; i++) {
        if (memory->bytes[i] != MARK) {
            return false;
        }
    }
    return true;
}

static uint8_t byte_at(size_t i, uint32_t seed)
{
    uint32_t mixed = ((uint32_t)i + seed * 7919U) * 2654435761U;
    return (uint8_t)(mixed >> 24);
}

void kit_fill(void *data, size_t len, uint32_t seed)
{
    uint8_t *bytes = data;
    for (size_t i = 0; i < len; i++) {
        bytes[i] = byte_at(i, seed);
    }
}

bool kit_is_filled(const void *data, size_t len, uint32_t seed)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != byte_at(i, seed)) {
            return false;
        }
    }
    return true;
}

/* ---- rows -------------------------------------------------------------------------- */

struct mc_row kit_row(const char *key, const struct mc_row_span *span)
{
    return (struct mc_row){
        .key = mc_view_str(key), .spans = span, .span_count = 1};
}

struct mc_row_op *kit_submit(struct rows_kit *kit, enum mc_row_kind kind,
                             const struct mc_row *rows, size_t count,
                             uint32_t timeout_ms)
{
    const struct mc_row_request request = {.kind = kind,
                                           .rows = rows,
                                           .count = count,
                                           .timeout_ms = timeout_ms,
                                           .ctx = kit};
    struct mc_row_op *op = NULL;
    ck_assert_int_eq(mc_row_driver_submit(kit->driver, &request, &op), MC_OK);
    kit_count(kit, kind, count);
    return op;
}

void kit_await(struct mc_row_op *op, struct mc_row_state *states, size_t count)
{
    ck_assert_int_eq(mc_row_op_wait(op, KIT_LONG_MS), MC_OK);
    ck_assert_uint_eq(mc_row_op_states(op, states), 0);
    for (size_t i = 0; i < count; i++) {
        ck_assert(states[i].status != MC_ROW_PENDING && states[i].local_ended);
        ck_assert_int_eq(states[i].status,
                         mc_row_reason_status(states[i].reason));
        ck_assert(states[i].status != MC_ROW_READY || states[i].remote_ended);
    }
    ck_assert_int_eq(mc_row_op_release(op), MC_OK);
}

struct mc_row_state kit_run(struct rows_kit *kit, enum mc_row_kind kind,
                            const char *key, struct mc_row_span span)
{
    const struct mc_row row = kit_row(key, &span);
    struct mc_row_state state;
    kit_await(kit_submit(kit, kind, &row, 1, 0), &state, 1);
    return state;
}

void kit_expect(struct mc_row_state state, enum mc_row_reason reason)
{
    ck_assert_msg(state.reason == reason, "%s, not %s",
                  mc_row_reason_name(state.reason), mc_row_reason_name(reason));
}

/* ---- time and faults ------------------------------------------------------------------ */

uint32_t kit_ms(uint32_t ms)
{
    return SANITIZED ? 4 * ms : ms;
}

uint64_t kit_now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

bool kit_fault(struct rows_kit *kit, enum rows_step step, enum rows_fault fault,
               unsigned count)
{
    bool is_able = rows_on->fault(kit->world, step, fault, count);
    if (!is_able) {
        (void)printf("%s: no fault %d at step %d\n", rows_on->name, (int)fault,
                     (int)step);
    }
    return is_able;
}

bool kit_strike(struct rows_kit *kit, enum rows_blow blow)
{
    bool is_able = rows_on->strike(kit->world, blow);
    if (!is_able) {
        (void)printf("%s: no blow %d\n", rows_on->name, (int)blow);
    }
    return is_able;
}
