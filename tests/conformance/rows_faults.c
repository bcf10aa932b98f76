/* SPDX-License-Identifier: Apache-2.0 */
/* rows_faults.c - a bad network at every step, nodes and stores that go: each row
 * ends in time and once, READY is never said of what is not there, nobody touches
 * the memory afterwards, and in the end every key can be written and read. */
#include <stdio.h>

#include "rows_kit.h"

#define ROWS 4
#define LEN 5000
#define TIME_MS 500 /* of an operation */
#define SOON_MS 6000
#define ANY MC_ROW_REASON_COUNT

struct fault {
    enum mc_row_kind kind;
    enum rows_step step;
    enum rows_fault fault;
    unsigned count;
    enum mc_row_reason reason; /* of all rows */
    bool loses_revokes;        /* as well */
};

#define R(name) MC_ROW_REASON_##name
static const struct fault faults[] = {
    {MC_ROW_GET, ROWS_READ, ROWS_HOLD, 0, R(UNREACHABLE), false},
    {MC_ROW_GET, ROWS_READ, ROWS_LOSE, 0, R(UNREACHABLE), false},
    {MC_ROW_GET, ROWS_READ, ROWS_LOSE_ANSWER, 0, R(UNREACHABLE), false},
    {MC_ROW_GET, ROWS_READ, ROWS_REPEAT, 0, R(MOVED), false},
    {MC_ROW_GET, ROWS_READ, ROWS_CUT, 1, R(MOVED), false},
    {MC_ROW_GET, ROWS_BYTES, ROWS_HOLD, 0, R(TRANSFER), false},
    {MC_ROW_PUT, ROWS_OPEN, ROWS_HOLD, 0, R(UNREACHABLE), false},
    {MC_ROW_PUT, ROWS_OPEN, ROWS_LOSE, 0, R(UNREACHABLE), false},
    {MC_ROW_PUT, ROWS_OPEN, ROWS_LOSE_ANSWER, 0, R(UNREACHABLE), false},
    {MC_ROW_PUT, ROWS_OPEN, ROWS_REPEAT, 0, R(MOVED), false},
    {MC_ROW_PUT, ROWS_OPEN, ROWS_CUT, 1, R(MOVED), false},
    {MC_ROW_PUT, ROWS_BYTES, ROWS_HOLD, 0, R(TRANSFER), false},
    {MC_ROW_PUT, ROWS_END, ROWS_LOSE, 1, R(MOVED), false},
    {MC_ROW_PUT, ROWS_END, ROWS_LOSE_ANSWER, 1, R(MOVED), false},
    {MC_ROW_PUT, ROWS_END, ROWS_REPEAT, 0, R(MOVED), false},
    {MC_ROW_PUT, ROWS_END, ROWS_CUT, 1, R(MOVED), false},
    {MC_ROW_PUT, ROWS_END, ROWS_HOLD, 0, R(UNANSWERED), false},
    {MC_ROW_PUT, ROWS_END, ROWS_LOSE, 0, R(UNANSWERED), false},
    {MC_ROW_PUT, ROWS_END, ROWS_LOSE_ANSWER, 0, R(EXISTS), false},
    {MC_ROW_PUT, ROWS_END, ROWS_HOLD, 0, R(UNANSWERED), true},
    {MC_ROW_PUT, ROWS_END, ROWS_LOSE, 0, R(UNANSWERED), true},
    {MC_ROW_PUT, ROWS_END, ROWS_LOSE_ANSWER, 0, R(UNANSWERED), true},
};
#define FAULTS ((int)(sizeof faults / sizeof faults[0]))

struct scene {
    struct rows_kit kit;
    struct rows_memory memory;
    char names[ROWS][4];
    struct mc_row_span spans[ROWS];
    struct mc_row rows[ROWS];
    struct mc_row_state states[ROWS];
};

static void set_rows(struct scene *scene, uint32_t seed)
{
    scene->memory = kit_memory(&scene->kit, ROWS * LEN);
    for (uint32_t i = 0; i < ROWS; i++) {
        (void)snprintf(scene->names[i], sizeof scene->names[i], "k%u", i);
        scene->spans[i] =
            (struct mc_row_span){scene->memory.region, i * LEN, LEN};
        scene->rows[i] = kit_row(scene->names[i], &scene->spans[i]);
        if (seed > 0) {
            kit_fill(scene->memory.bytes + i * LEN, LEN, seed + i);
        }
    }
}

/* Workers for all parts at a time. */
static void open_scene(struct scene *scene)
{
    const struct mc_row_driver_opts opts = {.rows_per_call = 2,
                                            .close_ms = kit_ms(500)};
    kit_open(&scene->kit, NULL, &opts);
}

static void put_by_other(struct scene *scene)
{
    static uint8_t object[LEN];
    for (uint32_t i = 0; i < ROWS; i++) {
        kit_fill(object, LEN, 100 + i);
        ck_assert_int_eq(rows_on->put(scene->kit.world,
                                      mc_view_str(scene->names[i]), object,
                                      LEN),
                         MC_OK);
    }
}

static struct mc_row_driver_stats stats_of(const struct scene *scene)
{
    struct mc_row_driver_stats stats;
    mc_row_driver_stat(scene->kit.driver, &stats);
    return stats;
}

/* What is said to be READY is there, for others too. */
static void check_honest(struct scene *scene, enum mc_row_kind kind,
                         uint32_t seed)
{
    static uint8_t object[LEN];
    for (uint32_t i = 0; i < ROWS; i++) {
        if (scene->states[i].status != MC_ROW_READY) {
            continue;
        }
        const uint8_t *bytes = scene->memory.bytes + i * LEN;
        if (kind == MC_ROW_PUT) {
            ck_assert_int_eq(rows_on->get(scene->kit.world,
                                          mc_view_str(scene->names[i]), object,
                                          LEN),
                             LEN);
            bytes = object;
        }
        ck_assert(kit_is_filled(bytes, LEN, seed + i));
    }
}

static bool all_ready(struct scene *scene, enum mc_row_kind kind)
{
    bool is_ready = true;
    kit_await(kit_submit(&scene->kit, kind, scene->rows, ROWS, 0),
              scene->states, ROWS);
    for (size_t i = 0; i < ROWS; i++) {
        is_ready &= scene->states[i].status == MC_ROW_READY;
    }
    return is_ready;
}

/* Whoever wrote them: objects are of one put, or of the one before. */
static void check_usable(struct scene *scene, uint32_t before, uint32_t now)
{
    ck_assert(AWAIT(stats_of(scene).keys_unsettled == 0));
    ck_assert_uint_eq(stats_of(scene).keys_written, 0);
    set_rows(scene, now);
    ck_assert(AWAIT(all_ready(scene, MC_ROW_PUT)));
    kit_retire(&scene->kit, &scene->memory);
    set_rows(scene, 0);
    ck_assert(AWAIT(all_ready(scene, MC_ROW_GET)));
    for (uint32_t i = 0; i < ROWS; i++) {
        const uint8_t *bytes = scene->memory.bytes + i * LEN;
        ck_assert(kit_is_filled(bytes, LEN, before + i) ||
                  kit_is_filled(bytes, LEN, now + i));
    }
    kit_retire(&scene->kit, &scene->memory);
}

/* ---- requests ------------------------------------------------------------------- */

static bool set_faults(struct scene *scene, const struct fault *fault)
{
    return kit_fault(&scene->kit, fault->step, fault->fault, fault->count) &&
           (!fault->loses_revokes ||
            kit_fault(&scene->kit, ROWS_REVOKE, ROWS_LOSE, 0));
}

static void run(struct scene *scene, const struct fault *fault)
{
    enum mc_row_reason reason = fault->reason;
    uint64_t begun_ms = kit_now_ms();
    struct mc_row_op *op = kit_submit(&scene->kit, fault->kind, scene->rows,
                                      ROWS, kit_ms(TIME_MS));
    if (fault->fault == ROWS_HOLD &&
        rows_on->is_deaf(scene->kit.world, fault->step)) {
        ck_assert(
            AWAIT(rows_on->is_hit(scene->kit.world) || fault->loses_revokes));
        rows_on->lift(scene->kit.world);
        reason = R(MOVED);
    }
    kit_await(op, scene->states, ROWS);
    ck_assert_uint_lt(kit_now_ms() - begun_ms, kit_ms(SOON_MS));
    /* Bytes that the network holds may land; of others it is known. */
    bool may_land = fault->kind == MC_ROW_PUT && fault->step == ROWS_BYTES &&
                    reason == R(TRANSFER);
    for (size_t i = 0; i < ROWS; i++) {
        kit_expect(scene->states[i], reason);
        ck_assert(scene->states[i].remote_ended == !may_land);
    }
}

START_TEST(a_fault_at_any_step_ends_every_row)
{
    const struct fault *fault = &faults[_i];
    struct scene scene;
    uint32_t seed = fault->kind == MC_ROW_GET ? 100 : 200;
    open_scene(&scene);
    set_rows(&scene, fault->kind == MC_ROW_GET ? 0 : seed);
    if (fault->kind == MC_ROW_GET) {
        put_by_other(&scene);
    }
    if (set_faults(&scene, fault)) {
        run(&scene, fault);
        check_honest(&scene, fault->kind, seed);
        kit_retire(&scene.kit, &scene.memory);
        rows_on->lift(scene.kit.world);
        check_usable(&scene, seed, 300);
    }
    kit_close(&scene.kit);
}
END_TEST

/* Nobody knows whether there is a readable object, so nothing is claimed. */
START_TEST(a_look_that_is_lost_makes_nothing_ready)
{
    struct scene scene;
    open_scene(&scene);
    set_rows(&scene, 200);
    put_by_other(&scene);
    if (kit_fault(&scene.kit, ROWS_PROBE, (enum rows_fault)_i, 0)) {
        kit_await(kit_submit(&scene.kit, MC_ROW_PUT, scene.rows, ROWS,
                             kit_ms(TIME_MS)),
                  scene.states, ROWS);
        for (size_t i = 0; i < ROWS; i++) {
            kit_expect(scene.states[i], R(UNREACHABLE));
        }
        kit_retire(&scene.kit, &scene.memory);
        rows_on->lift(scene.kit.world);
        check_usable(&scene, 100, 300);
    }
    kit_close(&scene.kit);
}
END_TEST

/* What the driver left behind is taken back, so that another's bytes stand. */
static bool can_be_put(struct scene *scene, const char *key)
{
    static uint8_t mine[LEN];
    static uint8_t got[LEN];
    struct mc_view view = mc_view_str(key);
    kit_fill(mine, LEN, 77);
    return rows_on->put(scene->kit.world, view, mine, LEN) == MC_OK &&
           rows_on->get(scene->kit.world, view, got, LEN) == LEN &&
           kit_is_filled(got, LEN, 77);
}

/* A key whose end nobody hears of is settled as soon as somebody does; until then
 * nobody is asked about it, and a close does not wait for ever. */
START_TEST(what_is_unsettled_keeps_its_key_until_it_is)
{
    struct scene scene;
    open_scene(&scene);
    set_rows(&scene, 200);
    if (kit_fault(&scene.kit, ROWS_END, ROWS_LOSE, 0) &&
        kit_fault(&scene.kit, ROWS_REVOKE, ROWS_LOSE, 0)) {
        kit_await(kit_submit(&scene.kit, MC_ROW_PUT, scene.rows, ROWS,
                             kit_ms(TIME_MS)),
                  scene.states, ROWS);
        ck_assert_uint_eq(stats_of(&scene).keys_unsettled, ROWS);
        kit_expect(kit_run(&scene.kit, MC_ROW_PUT, "k1", scene.spans[1]),
                   R(WRITTEN_HERE));
        if (_i == 0) {
            rows_on->lift(scene.kit.world);
            ck_assert(AWAIT(stats_of(&scene).keys_settled == ROWS));
            kit_retire(&scene.kit, &scene.memory);
            check_usable(&scene, 200, 300);
        } else {
            uint64_t begun_ms = kit_now_ms();
            uint64_t requests = rows_on->requests(scene.kit.world);
            ck_assert_int_eq(mc_row_driver_drain(scene.kit.driver, 0), MC_OK);
            ck_assert_uint_lt(kit_now_ms() - begun_ms, kit_ms(300));
            /* One of the settler's may be on its way. */
            ck_assert_uint_le(rows_on->requests(scene.kit.world), requests + 4);
            mc_row_driver_close(scene.kit.driver);
            scene.kit.driver = NULL;
            kit_poison(&scene.memory);
            ck_assert_uint_lt(kit_now_ms() - begun_ms, kit_ms(SOON_MS));
            ck_assert(AWAIT(can_be_put(&scene, "k1")));
        }
    }
    kit_close(&scene.kit);
}
END_TEST

/* ---- blows ------------------------------------------------------------------------ */

#define HUGE_LEN (20 * KIT_MIB) /* more than sockets hold */

static void open_huge(struct scene *scene)
{
    const struct rows_store store = {.bytes = 64 * KIT_MIB};
    kit_open(&scene->kit, &store, NULL);
    scene->memory = kit_memory(&scene->kit, HUGE_LEN);
    kit_fill(scene->memory.bytes, HUGE_LEN, 1);
    scene->spans[0] = (struct mc_row_span){scene->memory.region, 0, HUGE_LEN};
}

static struct mc_row_state run_for(struct scene *scene, enum mc_row_kind kind,
                                   const char *key, uint32_t timeout_ms)
{
    const struct mc_row row = kit_row(key, &scene->spans[0]);
    struct mc_row_state state;
    uint64_t begun_ms = kit_now_ms();
    kit_await(kit_submit(&scene->kit, kind, &row, 1, timeout_ms), &state, 1);
    ck_assert_uint_lt(kit_now_ms() - begun_ms, kit_ms(SOON_MS));
    return state;
}

/* Fresh memory, since nobody may touch the old. */
static void change_memory(struct scene *scene)
{
    kit_retire(&scene->kit, &scene->memory);
    scene->memory = kit_memory(&scene->kit, HUGE_LEN);
    kit_fill(scene->memory.bytes, HUGE_LEN, 2);
    scene->spans[0].region = scene->memory.region;
}

static bool is_bad(struct mc_row_state state)
{
    return state.status == MC_ROW_FAULT || state.status == MC_ROW_DECLINED;
}

static bool is_put(struct scene *scene, const char *key)
{
    return run_for(scene, MC_ROW_PUT, key, KIT_LONG_MS).status == MC_ROW_READY;
}

START_TEST(a_node_that_stands_still_costs_the_deadline)
{
    struct scene scene;
    open_huge(&scene);
    ck_assert(AWAIT(is_put(&scene, "a")));
    if (kit_strike(&scene.kit, ROWS_NODE_STOPS)) {
        struct mc_row_state got =
            run_for(&scene, MC_ROW_GET, "a", kit_ms(TIME_MS));
        change_memory(&scene);
        struct mc_row_state put =
            run_for(&scene, MC_ROW_PUT, "b", kit_ms(TIME_MS));
        change_memory(&scene);
        /* Copies by shared memory need no node. */
        bool is_shared = strcmp(rows_on->name, "shm") == 0;
        ck_assert(is_bad(got) || (is_shared && got.status == MC_ROW_READY));
        ck_assert(is_bad(put) || (is_shared && put.status == MC_ROW_READY));
        ck_assert(kit_strike(&scene.kit, ROWS_NODE_GOES_ON));
        ck_assert(AWAIT(is_put(&scene, "b")));
        ck_assert(AWAIT(stats_of(&scene).keys_unsettled == 0));
        ck_assert_int_eq(run_for(&scene, MC_ROW_GET, "a", KIT_LONG_MS).status,
                         MC_ROW_READY);
        ck_assert(kit_is_filled(scene.memory.bytes, HUGE_LEN, 1));
    }
    kit_close(&scene.kit);
}
END_TEST

START_TEST(a_node_that_dies_is_a_fault)
{
    struct scene scene;
    open_huge(&scene);
    ck_assert(AWAIT(is_put(&scene, "a")));
    if (kit_strike(&scene.kit, ROWS_NODE_DIES)) {
        memset(scene.memory.bytes, 0, HUGE_LEN);
        struct mc_row_state got =
            run_for(&scene, MC_ROW_GET, "a", kit_ms(1000));
        ck_assert(got.status == MC_ROW_FAULT || got.status == MC_ROW_MISS ||
                  (got.status == MC_ROW_READY &&
                   kit_is_filled(scene.memory.bytes, HUGE_LEN, 1)));
        change_memory(&scene);
        ck_assert(is_bad(run_for(&scene, MC_ROW_PUT, "b", kit_ms(1000))));
        change_memory(&scene);
    }
    kit_close(&scene.kit);
}
END_TEST

START_TEST(a_store_that_is_gone_is_a_fault)
{
    const struct mc_row_driver_opts opts = {.close_ms = kit_ms(300)};
    struct scene scene;
    kit_open(&scene.kit, NULL, &opts);
    set_rows(&scene, 200);
    ck_assert(AWAIT(all_ready(&scene, MC_ROW_PUT)));
    if (kit_strike(&scene.kit, ROWS_STORE_DIES)) {
        for (int kind = MC_ROW_GET; kind <= MC_ROW_PUT; kind++) {
            kit_await(kit_submit(&scene.kit, (enum mc_row_kind)kind, scene.rows,
                                 ROWS, kit_ms(TIME_MS)),
                      scene.states, ROWS);
            for (size_t i = 0; i < ROWS; i++) {
                kit_expect(scene.states[i], R(UNREACHABLE));
            }
        }
        kit_retire(&scene.kit, &scene.memory);
    }
    kit_close(&scene.kit);
}
END_TEST

/* In the middle of a put: its end is never heard of, and a close says so soon. */
START_TEST(a_store_that_goes_in_the_middle_is_closed_soon)
{
    const struct mc_row_driver_opts opts = {.close_ms = kit_ms(300)};
    struct scene scene;
    kit_open(&scene.kit, NULL, &opts);
    set_rows(&scene, 200);
    if (kit_fault(&scene.kit, ROWS_END, ROWS_HOLD, 0) &&
        !rows_on->is_deaf(scene.kit.world, ROWS_END)) {
        struct mc_row_op *op = kit_submit(&scene.kit, MC_ROW_PUT, scene.rows,
                                          ROWS, kit_ms(TIME_MS));
        ck_assert(AWAIT(rows_on->is_hit(scene.kit.world)));
        ck_assert(kit_strike(&scene.kit, ROWS_STORE_DIES));
        kit_await(op, scene.states, ROWS);
        for (size_t i = 0; i < ROWS; i++) {
            ck_assert_int_eq(scene.states[i].status, MC_ROW_FAULT);
        }
        kit_retire(&scene.kit, &scene.memory);
        uint64_t begun_ms = kit_now_ms();
        mc_row_driver_close(scene.kit.driver);
        scene.kit.driver = NULL;
        ck_assert_uint_lt(kit_now_ms() - begun_ms, kit_ms(SOON_MS));
    }
    rows_on->lift(scene.kit.world);
    kit_close(&scene.kit);
}
END_TEST

TCase *rows_faults_case(void)
{
    TCase *tcase = tcase_create("faults");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, a_fault_at_any_step_ends_every_row, 0, FAULTS);
    tcase_add_loop_test(tcase, a_look_that_is_lost_makes_nothing_ready,
                        ROWS_LOSE, ROWS_LOSE_ANSWER + 1);
    tcase_add_loop_test(tcase, what_is_unsettled_keeps_its_key_until_it_is, 0,
                        2);
    tcase_add_test(tcase, a_node_that_stands_still_costs_the_deadline);
    tcase_add_test(tcase, a_node_that_dies_is_a_fault);
    tcase_add_test(tcase, a_store_that_is_gone_is_a_fault);
    tcase_add_test(tcase, a_store_that_goes_in_the_middle_is_closed_soon);
    return tcase;
}
