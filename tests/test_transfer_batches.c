/* SPDX-License-Identifier: Apache-2.0 */
/* Batches that are submitted, over each transport: each completes once, whatever
 * happens, and after that nobody touches the caller's memory. */
#include <check.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "alloc_fail.h"
#include "await.h"
#include "copy.h"
#include "engine.h"
#include "mci_clock.h"
#include "suite.h"
#include "transfer_rig.h"

#define LOCAL_BYTES (64 * RIG_MIB)

static bool begin(struct rig *rig, int kind)
{
    if (!rig_is_built(rig_kinds[kind])) {
        return false;
    }
    rig_open(rig, rig_kinds[kind], LOCAL_BYTES, LOCAL_BYTES);
    return true;
}

static bool is_readable(int fd)
{
    struct pollfd look = {.fd = fd, .events = POLLIN};
    return poll(&look, 1, 0) > 0;
}

/* ---- completions ------------------------------------------------------- */

START_TEST(each_batch_is_polled_once)
{
    enum { BATCHES = 40, ROWS = 8 };
    static struct mc_transfer_row rows[BATCHES][ROWS];
    static struct mc_span spans[BATCHES][ROWS];
    int seen[BATCHES] = {0};
    struct rig rig;
    if (!begin(&rig, _i)) {
        return;
    }
    int fd = mc_transfer_eventfd(rig.peer);
    ck_assert_int_ge(fd, 0);
    ck_assert(!is_readable(fd));
    for (size_t i = 0; i < BATCHES; i++) {
        struct mc_transfer_batch *batch = NULL;
        for (size_t k = 0; k < ROWS; k++) {
            uint64_t at = (i * ROWS + k) * 10000;
            spans[i][k] = (struct mc_span){rig.local + at, 10000};
            rig_fill(rig.local + at, 10000, at);
            rows[i][k] = rig_row(&rig, &spans[i][k], 1, at, true);
        }
        ck_assert_int_eq(mc_transfer_submit(rig.peer, rows[i], ROWS,
                                            rig_deadline(20000), &seen[i],
                                            &batch),
                         MC_OK);
    }
    size_t taken = 0;
    while (taken < BATCHES) {
        void *ctxs[7];
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        ck_assert_int_eq(poll(&wait, 1, 20000), 1);
        size_t count = mc_transfer_poll(rig.peer, ctxs, 7);
        for (size_t i = 0; i < count; i++) {
            *(int *)ctxs[i] += 1;
        }
        taken += count;
    }
    ck_assert(!is_readable(fd));
    for (size_t i = 0; i < BATCHES; i++) {
        ck_assert_int_eq(seen[i], 1);
        for (size_t k = 0; k < ROWS; k++) {
            uint64_t at = (i * ROWS + k) * 10000;
            ck_assert_int_eq(rows[i][k].err, MC_OK);
            ck_assert(rig_is_filled(rig.memory.base + at, 10000, at));
        }
    }
    rig_close(&rig);
}
END_TEST

START_TEST(a_batch_that_is_waited_for_is_not_polled)
{
    struct rig rig;
    struct mc_transfer_batch *batch = NULL;
    void *ctx = NULL;
    if (!begin(&rig, _i)) {
        return;
    }
    int fd = mc_transfer_eventfd(rig.peer);
    struct mc_span span = {rig.local, RIG_MIB};
    for (int i = 0; i < 200; i++) {
        struct mc_transfer_row row = rig_row(&rig, &span, 1, 0, i % 2 == 0);
        row.grant.tag += i % 7 == 6;
        ck_assert_int_eq(mc_transfer_submit(rig.peer, &row, 1,
                                            rig_deadline(20000), &row, &batch),
                         MC_OK);
        if (i % 3 == 0) {
            await_turn();
        }
        ck_assert_int_eq(mc_transfer_wait(batch),
                         i % 7 == 6 ? MC_ERR_TRANSFER_FAIL : MC_OK);
        ck_assert_uint_eq(mc_transfer_poll(rig.peer, &ctx, 1), 0);
        ck_assert(!is_readable(fd));
    }
    rig_close(&rig);
}
END_TEST

/* ---- a worker that is kept busy ---------------------------------------- */

static const struct mc_transfer_row *_Atomic held_row;
static _Atomic int is_held;
static pthread_t _Atomic moved_by;

static void hold_row(const struct mc_transfer_row *row)
{
    if (row != atomic_load(&held_row)) {
        atomic_store(&moved_by, pthread_self());
        return;
    }
    atomic_store(&is_held, 1);
    ck_assert(AWAIT(atomic_load(&held_row) == NULL));
}

/* An engine of one worker, which moves the row until let go. */
struct busy {
    struct rig rig;
    struct mc_span span;
    struct mc_transfer_row row;
    struct mc_transfer_batch *batch;
};

static void make_busy(struct busy *busy, uint32_t queue_max)
{
    struct mc_transfer_opts opts = {
        .only = MC_TRANSPORT_LOCAL, .workers = 1, .queue_max = queue_max};
    rig_open(&busy->rig, MC_TRANSPORT_LOCAL, RIG_MIB, RIG_MIB);
    mc_target_close(busy->rig.target);
    mc_transfer_close(busy->rig.owner);
    ck_assert_int_eq(mc_transfer_open(&opts, &busy->rig.owner), MC_OK);
    busy->rig.peer = busy->rig.owner;
    ck_assert_int_eq(mc_transfer_register(busy->rig.peer, busy->rig.local,
                                          busy->rig.local_bytes),
                     MC_OK);
    rig_lend(&busy->rig);
    busy->span = (struct mc_span){busy->rig.local, 4096};
    busy->row = rig_row(&busy->rig, &busy->span, 1, 0, true);
    atomic_store(&is_held, 0);
    atomic_store(&held_row, &busy->row);
    mci_copy_set_hook(hold_row);
    ck_assert_int_eq(mc_transfer_submit(busy->rig.peer, &busy->row, 1,
                                        rig_deadline(60000), NULL,
                                        &busy->batch),
                     MC_OK);
    ck_assert(AWAIT(atomic_load(&is_held)));
}

static void let_go(struct busy *busy)
{
    atomic_store(&held_row, NULL);
    ck_assert_int_eq(mc_transfer_wait(busy->batch), MC_OK);
    mci_copy_set_hook(NULL);
    rig_close(&busy->rig);
}

START_TEST(who_waits_for_what_no_worker_began_runs_it)
{
    struct busy busy;
    struct mc_transfer_batch *batch = NULL;
    make_busy(&busy, 0);
    struct mc_transfer_row row = rig_row(&busy.rig, &busy.span, 1, 0, false);
    ck_assert_int_eq(mc_transfer_submit(busy.rig.peer, &row, 1,
                                        rig_deadline(20000), NULL, &batch),
                     MC_OK);
    ck_assert_int_eq(mc_transfer_wait(batch), MC_OK);
    ck_assert(pthread_equal(atomic_load(&moved_by), pthread_self()));
    let_go(&busy);
}
END_TEST

START_TEST(a_full_queue_refuses)
{
    struct busy busy;
    struct mc_transfer_batch *batches[2] = {NULL, NULL};
    struct mc_transfer_row rows[2];
    void *ctx = NULL;
    make_busy(&busy, 2);
    for (int i = 0; i < 2; i++) {
        rows[i] = rig_row(&busy.rig, &busy.span, 1, 0, false);
    }
    ck_assert_int_eq(mc_transfer_submit(busy.rig.peer, &rows[0], 1,
                                        rig_deadline(20000), &busy,
                                        &batches[0]),
                     MC_OK);
    ck_assert_int_eq(mc_transfer_submit(busy.rig.peer, &rows[1], 1,
                                        rig_deadline(20000), NULL, &batches[1]),
                     MC_ERR_NO_AVAILABLE_HANDLE);
    ck_assert_ptr_null(batches[1]);
    mc_transfer_cancel(batches[0]);
    ck_assert_int_eq(rows[0].err, MC_ERR_TRANSFER_FAIL);
    ck_assert(rows[0].local_ended && rows[0].remote_ended);
    ck_assert_uint_eq(mc_transfer_poll(busy.rig.peer, &ctx, 1), 1);
    ck_assert_ptr_eq(ctx, &busy);
    let_go(&busy);
}
END_TEST

START_TEST(unregistering_waits_for_rows_under_way)
{
    struct busy busy;
    make_busy(&busy, 0);
    ck_assert_int_eq(
        mc_transfer_unregister(busy.rig.peer, busy.rig.local, rig_deadline(5)),
        MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS);
    ck_assert(mc_transfer_is_registered(busy.rig.peer, busy.rig.local, 1));
    atomic_store(&held_row, NULL);
    ck_assert_int_eq(mc_transfer_unregister(busy.rig.peer, busy.rig.local,
                                            rig_deadline(20000)),
                     MC_OK);
    ck_assert(!mc_transfer_is_registered(busy.rig.peer, busy.rig.local, 1));
    let_go(&busy);
}
END_TEST

START_TEST(concealing_waits_for_threads_of_this_process)
{
    struct busy busy;
    make_busy(&busy, 0);
    struct mci_exposed *exposed =
        mci_exposed_hold(busy.rig.owner, busy.rig.exposure.registration);
    ck_assert_uint_eq(atomic_load(&exposed->inside), 1);
    atomic_store(&held_row, NULL);
    mc_transfer_conceal(busy.rig.owner, busy.rig.exposure.registration);
    ck_assert_uint_eq(atomic_load(&exposed->inside), 0);
    mci_exposed_release(exposed);
    let_go(&busy);
}
END_TEST

START_TEST(a_thread_inside_is_stuck_and_what_it_is_not_in_is_proven)
{
    struct busy busy;
    struct mc_fence_stuck stuck[4];
    size_t count = 9;
    make_busy(&busy, 0);
    struct mc_fence fences[2] = {
        {1, MC_FENCE_ATTEMPT, busy.row.terms.subject},
        {2, MC_FENCE_ATTEMPT, busy.row.terms.subject + 1000}};
    ck_assert_int_eq(
        mc_transfer_fence(busy.rig.owner, fences, 2, stuck, 4, &count), MC_OK);
    ck_assert_uint_eq(count, 1);
    ck_assert_uint_eq(stuck[0].attempt, busy.row.terms.subject);
    ck_assert_uint_eq(stuck[0].incarnation, RIG_INCARNATION);
    ck_assert_int_eq(
        mc_transfer_fence(busy.rig.owner, fences, 2, stuck, 0, &count),
        MC_ERR_BUFFER_OVERFLOW);
    atomic_store(&held_row, NULL);
    (void)mc_transfer_wait(busy.batch);
    ck_assert_int_eq(
        mc_transfer_fence(busy.rig.owner, NULL, 0, stuck, 4, &count), MC_OK);
    ck_assert_uint_eq(count, 0);
    mci_copy_set_hook(NULL);
    rig_close(&busy.rig);
}
END_TEST

/* ---- at any moment ----------------------------------------------------- */

/* Nobody may touch it; then it is the caller's again. */
static void poison(const struct rig *rig)
{
    ck_assert_int_eq(mprotect(rig->local, rig->local_bytes, PROT_NONE), 0);
    await_turn();
    await_turn();
    ck_assert_int_eq(
        mprotect(rig->local, rig->local_bytes, PROT_READ | PROT_WRITE), 0);
}

static void check_ended(const struct mc_transfer_row *row, uint64_t len)
{
    ck_assert(row->local_ended);
    ck_assert_uint_le(row->bytes, len);
    ck_assert(row->err == MC_ERR_TRANSFER_FAIL || row->bytes == len);
}

START_TEST(a_batch_is_canceled_at_any_moment)
{
    struct rig rig;
    struct mc_transfer_batch *batch = NULL;
    size_t cut = 0;
    if (!begin(&rig, _i)) {
        return;
    }
    struct mc_span span = {rig.local, 32 * RIG_MIB};
    for (unsigned i = 0; i < 60; i++) {
        struct mc_transfer_row row = rig_row(&rig, &span, 1, 0, i % 2 == 0);
        ck_assert_int_eq(mc_transfer_submit(rig.peer, &row, 1,
                                            rig_deadline(20000), NULL, &batch),
                         MC_OK);
        for (unsigned k = 0; k < i / 6; k++) {
            await_turn();
        }
        mc_transfer_cancel(batch);
        (void)mc_transfer_wait(batch);
        check_ended(&row, span.len);
        poison(&rig);
        cut += row.err != MC_OK;
    }
    ck_assert_uint_gt(cut, 0);
    rig_close(&rig);
}
END_TEST

START_TEST(a_deadline_ends_a_run_in_the_middle)
{
    struct rig rig;
    size_t cut = 0;
    if (!begin(&rig, _i)) {
        return;
    }
    struct mc_span span = {rig.local, LOCAL_BYTES};
    for (unsigned i = 0; i < 40; i++) {
        struct mc_transfer_row row = rig_row(&rig, &span, 1, 0, i % 2 == 0);
        uint64_t deadline_ns = mci_clock_ns() + i * 200000;
        (void)mc_transfer_run(rig.peer, &row, 1, deadline_ns);
        check_ended(&row, span.len);
        poison(&rig);
        cut += row.err != MC_OK;
        if (row.err == MC_OK) {
            ck_assert(row.remote_ended);
        }
    }
    ck_assert_uint_gt(cut, 0);
    rig_close(&rig);
}
END_TEST

START_TEST(closing_completes_what_is_pending)
{
    enum { BATCHES = 32, SHARE = RIG_MIB / 2 };
    struct mc_transfer_row rows[BATCHES];
    struct mc_span spans[BATCHES];
    struct rig rig;
    if (!begin(&rig, _i)) {
        return;
    }
    for (size_t i = 0; i < BATCHES; i++) {
        struct mc_transfer_batch *batch = NULL;
        spans[i] = (struct mc_span){rig.local + i * SHARE, SHARE};
        rows[i] = rig_row(&rig, &spans[i], 1, i * SHARE, true);
        rows[i].err = MC_ERR_INTERNAL_ERROR;
        rows[i].local_ended = false;
        ck_assert_int_eq(mc_transfer_submit(rig.peer, &rows[i], 1,
                                            rig_deadline(20000), NULL, &batch),
                         MC_OK);
    }
    mc_transfer_close(rig.peer);
    poison(&rig);
    struct mc_transfer_opts opts = {.only = rig.kind};
    if (rig.peer == rig.owner) {
        ck_assert_int_eq(mc_transfer_open(&opts, &rig.owner), MC_OK);
        rig.peer = rig.owner;
    } else {
        ck_assert_int_eq(mc_transfer_open(&opts, &rig.peer), MC_OK);
    }
    for (size_t i = 0; i < BATCHES; i++) {
        ck_assert(rows[i].err == MC_OK || rows[i].err == MC_ERR_TRANSFER_FAIL);
        ck_assert(rows[i].local_ended);
    }
    rig_close(&rig);
}
END_TEST

/* ---- many -------------------------------------------------------------- */

struct mover {
    pthread_t thread;
    struct rig rig; /* a copy, with attempts of its own */
    size_t number;
    size_t wrong;
};

/* A place of its own: what it wrote last is what it reads. */
static void *move_on(void *arg)
{
    struct mover *mover = arg;
    uint8_t *own = mover->rig.local + mover->number * RIG_MIB;
    uint64_t offset = mover->number * RIG_MIB;
    mover->rig.serial = (mover->number + 1) << 32;
    for (uint64_t i = 0; i < 30; i++) {
        size_t len = 1 + (i * 7919 + mover->number * 131) % (RIG_MIB / 2);
        struct mc_span from = {own, len};
        struct mc_span into = {own + RIG_MIB / 2, len};
        rig_fill(own, len, i);
        struct mc_transfer_row rows[2];
        rows[0] = rig_row(&mover->rig, &from, 1, offset, true);
        rows[0].is_final = true;
        enum mc_err err =
            mc_transfer_run(mover->rig.peer, &rows[0], 1, rig_deadline(60000));
        rows[1] = rig_row(&mover->rig, &into, 1, offset, false);
        if (err == MC_OK) {
            err = mc_transfer_run(mover->rig.peer, &rows[1], 1,
                                  rig_deadline(60000));
        }
        mover->wrong += err != MC_OK || rows[0].receipt == 0 ||
                        memcmp(from.data, into.data, len) != 0;
    }
    return NULL;
}

START_TEST(sixty_four_threads_move_at_a_time)
{
    enum { MOVERS = 64 };
    static struct mover movers[MOVERS];
    struct rig rig;
    if (!begin(&rig, _i)) {
        return;
    }
    for (size_t i = 0; i < MOVERS; i++) {
        movers[i] = (struct mover){.rig = rig, .number = i};
        ck_assert_int_eq(
            pthread_create(&movers[i].thread, NULL, move_on, &movers[i]), 0);
    }
    for (size_t i = 0; i < MOVERS; i++) {
        ck_assert_int_eq(pthread_join(movers[i].thread, NULL), 0);
        ck_assert_uint_eq(movers[i].wrong, 0);
    }
    rig_close(&rig);
}
END_TEST

/* ---- out of memory ----------------------------------------------------- */

START_TEST(an_engine_opens_whole_or_not_at_all)
{
    struct alloc_fail fail;
    struct mc_transfer_opts opts = {.only = rig_kinds[_i], .host = "here"};
    if (!rig_is_built(rig_kinds[_i])) {
        return;
    }
    ALLOC_FAIL_EACH(fail)
    {
        struct mc_transfer *transfer = NULL;
        alloc_fail_arm(&fail);
        enum mc_err err = mc_transfer_open(&opts, &transfer);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        mc_transfer_close(transfer);
    }
}
END_TEST

START_TEST(rows_that_lack_memory_fail_and_leave_nothing)
{
    struct alloc_fail fail;
    struct rig rig;
    if (!begin(&rig, _i)) {
        return;
    }
    struct mc_span span = {rig.local, 4096};
    struct mc_target_opts opts = {.registration = rig.exposure.registration,
                                  .bytes = rig.memory.bytes,
                                  .endpoint = rig.exposure.endpoint,
                                  .shm = rig.exposure.shm};
    ALLOC_FAIL_EACH(fail)
    {
        struct mc_target *target = NULL;
        struct mc_transfer_batch *batch = NULL;
        fail.is_shared = true;
        struct mc_transfer_row row = rig_row(&rig, &span, 1, 0, true);
        row.is_final = true;
        alloc_fail_arm(&fail);
        enum mc_err err = mc_target_open(rig.peer, &opts, &target);
        if (err == MC_OK) {
            row.target = target;
            err = mc_transfer_submit(rig.peer, &row, 1, rig_deadline(20000),
                                     NULL, &batch);
        }
        if (err == MC_OK) {
            err = mc_transfer_wait(batch);
            ck_assert(row.local_ended);
        }
        alloc_fail_disarm(&fail);
        ck_assert(err == MC_OK || alloc_fail_happened(&fail));
        mc_target_close(target);
    }
    struct mc_transfer_row row = rig_row(&rig, &span, 1, 0, true);
    ck_assert_int_eq(rig_run(&rig, &row), MC_OK);
    rig_close(&rig);
}
END_TEST

static void add_busy(Suite *suite)
{
    TCase *busy = tcase_create("busy");
    tcase_set_timeout(busy, 60);
    tcase_add_test(busy, who_waits_for_what_no_worker_began_runs_it);
    tcase_add_test(busy, a_full_queue_refuses);
    tcase_add_test(busy, unregistering_waits_for_rows_under_way);
    tcase_add_test(busy, concealing_waits_for_threads_of_this_process);
    tcase_add_test(busy,
                   a_thread_inside_is_stuck_and_what_it_is_not_in_is_proven);
    suite_add_tcase(suite, busy);
}

int main(void)
{
    Suite *suite = suite_create("transfer_batches");
    TCase *completions = tcase_create("completions");
    tcase_set_timeout(completions, 60);
    tcase_add_loop_test(completions, each_batch_is_polled_once, 0, RIG_KINDS);
    tcase_add_loop_test(completions, a_batch_that_is_waited_for_is_not_polled,
                        0, RIG_KINDS);
    suite_add_tcase(suite, completions);
    add_busy(suite);
    TCase *moments = tcase_create("moments");
    tcase_set_timeout(moments, 100);
    tcase_add_loop_test(moments, a_batch_is_canceled_at_any_moment, 0,
                        RIG_KINDS);
    tcase_add_loop_test(moments, a_deadline_ends_a_run_in_the_middle, 0,
                        RIG_KINDS);
    tcase_add_loop_test(moments, closing_completes_what_is_pending, 0,
                        RIG_KINDS);
    tcase_add_loop_test(moments, sixty_four_threads_move_at_a_time, 0,
                        RIG_KINDS);
    suite_add_tcase(suite, moments);
    TCase *memory = tcase_create("memory");
    tcase_set_timeout(memory, 60);
    tcase_add_loop_test(memory, an_engine_opens_whole_or_not_at_all, 0,
                        RIG_KINDS);
    tcase_add_loop_test(memory, rows_that_lack_memory_fail_and_leave_nothing, 0,
                        RIG_KINDS);
    suite_add_tcase(suite, memory);
    return suite_run(suite);
}
