/* SPDX-License-Identifier: Apache-2.0 */
/* rows_ends.c - cancel, drain and close at every moment; who is told, and what
 * may be called then. */
#include <poll.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rows_kit.h"

#define LEN 4096

/* Where an operation of a kind can be held. */
static const struct moment {
    enum mc_row_kind kind;
    enum rows_step step;
} moments[] = {{MC_ROW_GET, ROWS_READ},
               {MC_ROW_GET, ROWS_BYTES},
               {MC_ROW_PUT, ROWS_OPEN},
               {MC_ROW_PUT, ROWS_BYTES},
               {MC_ROW_PUT, ROWS_END}};
#define MOMENTS ((int)(sizeof moments / sizeof moments[0]))

struct held {
    struct rows_kit kit;
    struct rows_memory memory;
    struct mc_row_span span;
    struct mc_row row;
    struct mc_row_op *op;
};

static void put_by_other(struct rows_kit *kit, const char *key)
{
    static uint8_t object[LEN];
    kit_fill(object, LEN, 9);
    ck_assert_int_eq(rows_on->put(kit->world, mc_view_str(key), object, LEN),
                     MC_OK);
}

/* False: it cannot be held there. The kit is open either way. */
static bool hold(struct held *held, const struct moment *moment,
                 uint32_t timeout_ms)
{
    held->op = NULL;
    const struct mc_row_driver_opts opts = {.workers = 1, .close_ms = 300};
    kit_open(&held->kit, NULL, &opts);
    held->memory = kit_memory(&held->kit, LEN);
    held->span = (struct mc_row_span){held->memory.region, 0, LEN};
    held->row = kit_row("k", &held->span);
    if (moment->kind == MC_ROW_GET) {
        put_by_other(&held->kit, "k");
    }
    if (!kit_fault(&held->kit, moment->step, ROWS_HOLD, 0)) {
        return false;
    }
    held->op = kit_submit(&held->kit, moment->kind, &held->row, 1, timeout_ms);
    ck_assert(AWAIT(rows_on->is_hit(held->kit.world)));
    return true;
}

/* ---- cancel ----------------------------------------------------------------------- */

static void expect_honest(struct held *held, const struct moment *moment,
                          struct mc_row_state state)
{
    static uint8_t object[LEN];
    int64_t size = rows_on->get(held->kit.world, mc_view_str("k"), object, LEN);
    if (state.status == MC_ROW_READY) {
        ck_assert_int_eq(size, LEN);
        ck_assert(moment->kind == MC_ROW_PUT ||
                  kit_is_filled(held->memory.bytes, LEN, 9));
    } else {
        kit_expect(state, MC_ROW_REASON_ASKED);
        ck_assert(moment->kind == MC_ROW_GET ||
                  size == MC_ERR_OBJECT_NOT_FOUND);
    }
}

START_TEST(a_cancel_ends_what_is_under_way_once)
{
    const struct moment *moment = &moments[_i];
    struct held held;
    struct mc_row_state state;
    if (hold(&held, moment, KIT_LONG_MS)) {
        mc_row_op_cancel(held.op);
        mc_row_op_cancel(held.op);
        rows_on->lift(held.kit.world);
        kit_await(held.op, &state, 1);
        expect_honest(&held, moment, state);
        ck_assert(moment->step == ROWS_END || state.status != MC_ROW_READY ||
                  moment->kind == MC_ROW_GET);
        kit_retire(&held.kit, &held.memory);
    }
    kit_close(&held.kit);
}
END_TEST

/* The peer is silent, and the operation has a minute left. Bytes of a put that the
 * network has may land. */
START_TEST(a_cancel_does_not_wait_for_bytes)
{
    const struct moment *moment = &moments[_i];
    struct held held;
    struct mc_row_state state;
    struct mc_row_driver_stats stats;
    if (moment->step == ROWS_BYTES && hold(&held, moment, KIT_LONG_MS) &&
        !rows_on->is_deaf(held.kit.world, moment->step)) {
        uint64_t begun_ms = kit_now_ms();
        mc_row_op_cancel(held.op);
        kit_await(held.op, &state, 1);
        ck_assert_uint_lt(kit_now_ms() - begun_ms, kit_ms(8000));
        kit_expect(state, MC_ROW_REASON_ASKED);
        ck_assert(state.remote_ended == (moment->kind == MC_ROW_GET));
        kit_retire(&held.kit, &held.memory);
        rows_on->lift(held.kit.world);
        ck_assert(AWAIT((mc_row_driver_stat(held.kit.driver, &stats),
                         stats.keys_written == 0)));
        held.op = NULL;
    }
    if (moment->step == ROWS_BYTES) {
        rows_on->lift(held.kit.world);
        if (held.op) {
            kit_await(held.op, &state, 1);
        }
        kit_close(&held.kit);
    }
}
END_TEST

START_TEST(a_cancel_ends_what_has_not_begun_at_once)
{
    struct held held;
    struct mc_row_state states[2];
    const struct moment moment = {(enum mc_row_kind)_i,
                                  _i == MC_ROW_PUT ? ROWS_OPEN : ROWS_READ};
    if (hold(&held, &moment, KIT_LONG_MS)) {
        struct rows_memory memory = kit_memory(&held.kit, LEN);
        const struct mc_row_span span = {memory.region, 0, LEN};
        const struct mc_row rows[] = {kit_row("a", &span), kit_row("b", &span)};
        struct mc_row_op *op =
            kit_submit(&held.kit, moment.kind, rows, 2, KIT_LONG_MS);
        ck_assert_uint_eq(mc_row_op_states(op, states), 2);
        ck_assert(states[0].status == MC_ROW_PENDING && !states[0].local_ended);
        ck_assert_int_eq(mc_row_op_release(op),
                         MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS);
        uint64_t requests = rows_on->requests(held.kit.world);
        mc_row_op_cancel(op);
        ck_assert_uint_eq(mc_row_op_states(op, states), 0);
        for (size_t i = 0; i < 2; i++) {
            kit_expect(states[i], MC_ROW_REASON_ASKED);
            ck_assert(states[i].local_ended && states[i].remote_ended);
        }
        ck_assert_uint_eq(rows_on->requests(held.kit.world), requests);
        kit_await(op, states, 2);
        kit_retire(&held.kit, &memory); /* while the other is held */
        rows_on->lift(held.kit.world);
        kit_await(held.op, states, 1);
    }
    kit_close(&held.kit);
}
END_TEST

START_TEST(what_has_ended_is_not_cancelled)
{
    struct rows_kit kit;
    struct mc_row_state state;
    kit_open(&kit, NULL, NULL);
    struct rows_memory memory = kit_memory(&kit, LEN);
    const struct mc_row_span span = {memory.region, 0, LEN};
    const struct mc_row row = kit_row("k", &span);
    struct mc_row_op *op = kit_submit(&kit, MC_ROW_PUT, &row, 1, 0);
    ck_assert_int_eq(mc_row_op_wait(op, KIT_LONG_MS), MC_OK);
    mc_row_op_cancel(op);
    kit_await(op, &state, 1);
    kit_expect(state, MC_ROW_REASON_MOVED);
    kit_close(&kit);
}
END_TEST

START_TEST(a_deadline_ends_what_waits)
{
    struct held held;
    struct mc_row_state state;
    if (hold(&held, &moments[0], KIT_LONG_MS)) {
        const struct mc_row row = kit_row("late", &held.span);
        struct mc_row_op *op = kit_submit(&held.kit, MC_ROW_PUT, &row, 1, 50);
        ck_assert_int_eq(mc_row_op_wait(held.op, 1), MC_ERR_RPC_TIMEOUT);
        kit_await(op, &state, 1);
        kit_expect(state, MC_ROW_REASON_TIMED_OUT);
        rows_on->lift(held.kit.world);
        kit_await(held.op, &state, 1);
    }
    kit_close(&held.kit);
}
END_TEST

/* ---- drain -------------------------------------------------------------------------- */

START_TEST(a_drain_answers_at_once_and_asks_nobody)
{
    const struct moment *moment = &moments[_i];
    struct held held;
    struct mc_row_state state;
    struct mc_row_state queued;
    if (hold(&held, moment, KIT_LONG_MS)) {
        const struct mc_row row = kit_row("queued", &held.span);
        const struct mc_row_request more = {
            .kind = MC_ROW_GET, .rows = &row, .count = 1};
        struct mc_row_op *op =
            kit_submit(&held.kit, MC_ROW_PUT, &row, 1, KIT_LONG_MS);
        struct mc_row_op *none = NULL;
        uint64_t requests = rows_on->requests(held.kit.world);
        uint64_t begun_ms = kit_now_ms();
        enum mc_err err = mc_row_driver_drain(held.kit.driver, 0);
        ck_assert_uint_lt(kit_now_ms() - begun_ms, kit_ms(500));
        ck_assert_uint_eq(rows_on->requests(held.kit.world), requests);
        ck_assert(err == MC_ERR_RPC_TIMEOUT ||
                  (err == MC_OK && moment->step == ROWS_BYTES));
        kit_await(op, &queued, 1);
        kit_expect(queued, MC_ROW_REASON_CLOSING);
        ck_assert_int_eq(mc_row_driver_submit(held.kit.driver, &more, &none),
                         MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS);
        rows_on->lift(held.kit.world);
        ck_assert_int_eq(mc_row_driver_drain(held.kit.driver, KIT_LONG_MS),
                         MC_OK);
        kit_await(held.op, &state, 1);
        ck_assert(state.status == MC_ROW_READY ||
                  state.reason == MC_ROW_REASON_CLOSING);
        kit_retire(&held.kit, &held.memory);
    }
    kit_close(&held.kit);
}
END_TEST

START_TEST(a_drain_of_nothing_is_done)
{
    struct rows_kit kit;
    kit_open(&kit, NULL, NULL);
    uint64_t requests = rows_on->requests(kit.world);
    ck_assert_int_eq(mc_row_driver_drain(kit.driver, 0), MC_OK);
    ck_assert_int_eq(mc_row_driver_drain(kit.driver, 0), MC_OK);
    ck_assert_uint_eq(rows_on->requests(kit.world), requests);
    kit_close(&kit);
}
END_TEST

/* ---- close -------------------------------------------------------------------------- */

/* It comes to its end whatever is held, and after that the memory is nobody's. */
START_TEST(a_close_is_over_in_time)
{
    const struct moment *moment = &moments[_i];
    struct held held;
    if (hold(&held, moment, kit_ms(600))) {
        uint64_t begun_ms = kit_now_ms();
        /* What cannot be told that it is over is waited for. */
        if (rows_on->is_deaf(held.kit.world, moment->step)) {
            rows_on->lift(held.kit.world);
        }
        mc_row_driver_close(held.kit.driver);
        ck_assert_uint_lt(kit_now_ms() - begun_ms, kit_ms(8000));
        kit_poison(&held.memory);
        held.kit.driver = NULL;
        rows_on->lift(held.kit.world);
    }
    kit_close(&held.kit);
}
END_TEST

START_TEST(a_close_ends_what_nobody_released)
{
    enum { OPS = 40 };
    struct rows_kit kit;
    kit_open(&kit, NULL, NULL);
    struct rows_memory memory = kit_memory(&kit, LEN);
    const struct mc_row_span span = {memory.region, 0, LEN};
    for (int i = 0; i < OPS; i++) {
        char key[8] = {'k', (char)('0' + i % 10), (char)('a' + i / 10), '\0'};
        const struct mc_row row = kit_row(key, &span);
        (void)kit_submit(&kit, i % 2 ? MC_ROW_PUT : MC_ROW_GET, &row, 1, 0);
    }
    mc_row_driver_close(kit.driver);
    kit_poison(&memory);
    ck_assert_uint_eq(atomic_load(&kit.told), OPS); /* a row each, once */
    kit.driver = NULL;
    kit_close(&kit);
}
END_TEST

/* ---- being told ------------------------------------------------------------------------ */

static bool rings(struct mc_row_driver *driver)
{
    struct pollfd fd = {.fd = mc_row_driver_eventfd(driver), .events = POLLIN};
    ck_assert_int_ge(fd.fd, 0);
    return poll(&fd, 1, 0) == 1;
}

START_TEST(an_operation_is_named_until_it_is_taken)
{
    struct rows_kit kit;
    struct mc_row_state state;
    void *ctxs[4];
    kit_open(&kit, NULL, NULL);
    struct rows_memory memory = kit_memory(&kit, LEN);
    const struct mc_row_span span = {memory.region, 0, LEN};
    const struct mc_row row = kit_row("k", &span);
    ck_assert(!rings(kit.driver));
    ck_assert_uint_eq(mc_row_driver_poll(kit.driver, ctxs, 4), 0);
    struct mc_row_op *op = kit_submit(&kit, MC_ROW_PUT, &row, 1, 0);
    ck_assert_int_eq(mc_row_op_wait(op, KIT_LONG_MS), MC_OK);
    ck_assert(rings(kit.driver));
    ck_assert_uint_eq(mc_row_driver_poll(kit.driver, ctxs, 4), 1);
    ck_assert_ptr_eq(ctxs[0], &kit);
    ck_assert(!rings(kit.driver));
    ck_assert_uint_eq(mc_row_driver_poll(kit.driver, ctxs, 4), 0);
    ck_assert(AWAIT(atomic_load(&kit.told) == 1));
    kit_await(op, &state, 1);
    op = kit_submit(&kit, MC_ROW_PUT, &row, 1, 0);
    kit_await(op, &state, 1); /* released, so it is not named */
    ck_assert(!rings(kit.driver));
    ck_assert_uint_eq(mc_row_driver_poll(kit.driver, ctxs, 4), 0);
    kit_close(&kit);
}
END_TEST

/* From the call that tells of one operation the next is submitted. */
struct chain {
    struct rows_kit kit;
    struct mc_row_span span;
    struct mc_row_op *op;
    unsigned links;
    _Atomic unsigned done;
};

static void submit_link(struct chain *chain)
{
    const struct mc_row row =
        kit_row(chain->links % 2 ? "odd" : "even", &chain->span);
    const struct mc_row_request request = {
        .kind = chain->links % 3 ? MC_ROW_GET : MC_ROW_PUT,
        .rows = &row,
        .count = 1,
        .ctx = chain};
    chain->links++;
    ck_assert_int_eq(
        mc_row_driver_submit(chain->kit.driver, &request, &chain->op), MC_OK);
}

static void go_on(void *ctx, void *op_ctx)
{
    struct chain *chain = op_ctx;
    struct mc_row_state state;
    ck_assert_ptr_eq(ctx, chain);
    ck_assert_uint_eq(mc_row_op_states(chain->op, &state), 0);
    mc_row_op_cancel(chain->op);
    ck_assert_int_eq(mc_row_op_release(chain->op), MC_OK);
    if (chain->links < 50) {
        submit_link(chain);
    } else {
        atomic_store(&chain->done, 1);
    }
}

START_TEST(who_is_told_may_call)
{
    static struct chain chain;
    const struct mc_row_driver_opts opts = {
        .workers = 1, .on_change = go_on, .ctx = &chain};
    kit_open(&chain.kit, NULL, &opts);
    struct rows_memory memory = kit_memory(&chain.kit, LEN);
    chain.span = (struct mc_row_span){memory.region, 0, LEN};
    submit_link(&chain);
    ck_assert(AWAIT(atomic_load(&chain.done) == 1));
    kit_count(&chain.kit, MC_ROW_PUT, 17);
    kit_count(&chain.kit, MC_ROW_GET, 33);
    kit_close(&chain.kit);
}
END_TEST

/* Two calls at a time, each of which releases the operation that the other one is
 * told of. */
struct pair {
    struct rows_kit kit;
    struct mc_row_op *ops[2];
    int indices[2];
    _Atomic unsigned told;
    _Atomic unsigned released;
};

static void release_other(void *ctx, void *op_ctx)
{
    struct pair *pair = ctx;
    int other = 1 - *(int *)op_ctx;
    atomic_fetch_add(&pair->told, 1);
    ck_assert(AWAIT(atomic_load(&pair->told) == 2));
    ck_assert_int_eq(mc_row_op_release(pair->ops[other]), MC_OK);
    atomic_fetch_add(&pair->released, 1);
}

START_TEST(two_who_are_told_may_release_each_others)
{
    static struct pair pair = {.indices = {0, 1}};
    const struct mc_row_driver_opts opts = {
        .workers = 2, .on_change = release_other, .ctx = &pair};
    kit_open(&pair.kit, NULL, &opts);
    struct rows_memory memory = kit_memory(&pair.kit, LEN);
    const struct mc_row_span span = {memory.region, 0, LEN};
    const struct mc_row row = kit_row("none", &span);
    for (int i = 0; i < 2; i++) {
        const struct mc_row_request request = {.kind = MC_ROW_GET,
                                               .rows = &row,
                                               .count = 1,
                                               .ctx = &pair.indices[i]};
        ck_assert_int_eq(
            mc_row_driver_submit(pair.kit.driver, &request, &pair.ops[i]),
            MC_OK);
    }
    ck_assert(AWAIT(atomic_load(&pair.released) == 2));
    kit_count(&pair.kit, MC_ROW_GET, 2);
    kit_close(&pair.kit);
}
END_TEST

/* ---- after a fork ----------------------------------------------------------------------- */

static int play_child(struct rows_kit *kit, struct mc_row_op *op,
                      const struct mc_row *row)
{
    const struct mc_row_request request = {.rows = row, .count = 1};
    const enum mc_err gone = MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
    struct mc_row_op *more = NULL;
    struct mc_row_state state;
    uint32_t region = 0;
    int faults = 0;
    faults += mc_row_driver_submit(kit->driver, &request, &more) != gone;
    faults += mc_row_driver_drain(kit->driver, 0) != gone;
    faults += mc_row_driver_register(kit->driver, kit, sizeof *kit,
                                     MC_MEMORY_HOST, &region) != gone;
    faults += mc_row_driver_unregister(kit->driver, 1) != gone;
    faults += mc_row_driver_probe(kit->driver, &row->key, 1, 0, &state) != gone;
    faults += mc_row_op_wait(op, 0) != gone;
    faults += mc_row_op_release(op) != gone;
    mc_row_op_cancel(op);
    mc_row_driver_close(kit->driver);
    return faults;
}

START_TEST(the_child_of_a_fork_is_refused)
{
    struct rows_kit kit;
    struct mc_row_state state;
    int status = 0;
    kit_open(&kit, NULL, NULL);
    struct rows_memory memory = kit_memory(&kit, LEN);
    const struct mc_row_span span = {memory.region, 0, LEN};
    const struct mc_row row = kit_row("k", &span);
    struct mc_row_op *op = kit_submit(&kit, MC_ROW_PUT, &row, 1, 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        _exit(play_child(&kit, op, &row));
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    kit_await(op, &state, 1);
    kit_expect(state, MC_ROW_REASON_MOVED);
    kit_close(&kit);
}
END_TEST

TCase *rows_ends_case(void)
{
    TCase *tcase = tcase_create("ends");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, a_cancel_ends_what_is_under_way_once, 0,
                        MOMENTS);
    tcase_add_loop_test(tcase, a_cancel_does_not_wait_for_bytes, 0, MOMENTS);
    tcase_add_loop_test(tcase, a_cancel_ends_what_has_not_begun_at_once, 0, 2);
    tcase_add_test(tcase, what_has_ended_is_not_cancelled);
    tcase_add_test(tcase, a_deadline_ends_what_waits);
    tcase_add_loop_test(tcase, a_drain_answers_at_once_and_asks_nobody, 0,
                        MOMENTS);
    tcase_add_test(tcase, a_drain_of_nothing_is_done);
    tcase_add_loop_test(tcase, a_close_is_over_in_time, 0, MOMENTS);
    tcase_add_test(tcase, a_close_ends_what_nobody_released);
    tcase_add_test(tcase, an_operation_is_named_until_it_is_taken);
    tcase_add_test(tcase, who_is_told_may_call);
    tcase_add_test(tcase, two_who_are_told_may_release_each_others);
    tcase_add_test(tcase, the_child_of_a_fork_is_refused);
    return tcase;
}
