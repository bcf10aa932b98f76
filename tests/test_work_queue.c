/* SPDX-License-Identifier: Apache-2.0 */
/* test_work_queue.c - what is handed out when, and that each row is once. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "suite.h"
#include "work_queue.h"

#define NEVER UINT64_MAX

static void start(struct mci_work_queue *queue, uint32_t workers)
{
    const struct mci_work_limits limits = {.workers = workers,
                                           .rows_max = 100,
                                           .rows_per_part = 4,
                                           .bytes_per_part = 100};
    mci_work_queue_init(queue, &limits);
}

static struct mci_work work_of(enum mci_work_kind kind, size_t rows)
{
    return (struct mci_work){
        .kind = kind, .row_count = rows, .deadline_ns = NEVER};
}

static void add(struct mci_work_queue *queue, struct mci_work *work)
{
    ck_assert_int_eq(mci_work_queue_add(queue, work), MC_OK);
}

/* The next part, which has to be this one, to be run. */
static struct mci_work_part next(struct mci_work_queue *queue,
                                 const struct mci_work *work, size_t first,
                                 size_t count)
{
    struct mci_work_part part;
    ck_assert(mci_work_queue_take(queue, 1, &part));
    ck_assert_ptr_eq(part.work, work);
    ck_assert_uint_eq(part.first, first);
    ck_assert_uint_eq(part.count, count);
    ck_assert_int_eq(part.verdict, MCI_WORK_RUN);
    return part;
}

static bool is_nothing(struct mci_work_queue *queue)
{
    struct mci_work_part part;
    return !mci_work_queue_take(queue, 1, &part);
}

/* ---- order ---------------------------------------------------------------- */

START_TEST(four_gets_go_ahead_of_a_put_that_waits)
{
    struct mci_work_queue queue;
    struct mci_work gets[12];
    struct mci_work puts[2];
    start(&queue, 16);
    for (size_t i = 0; i < 2; i++) {
        puts[i] = work_of(MCI_WORK_PUT, 1);
        add(&queue, &puts[i]);
    }
    for (size_t i = 0; i < 12; i++) {
        gets[i] = work_of(MCI_WORK_GET, 1);
        add(&queue, &gets[i]);
    }
    for (size_t i = 0; i < 4; i++) {
        (void)next(&queue, &gets[i], 0, 1);
    }
    (void)next(&queue, &puts[0], 0, 1);
    for (size_t i = 4; i < 8; i++) {
        (void)next(&queue, &gets[i], 0, 1);
    }
    (void)next(&queue, &puts[1], 0, 1);
    for (size_t i = 8; i < 12; i++) {
        (void)next(&queue, &gets[i], 0, 1);
    }
    ck_assert(is_nothing(&queue));
}
END_TEST

START_TEST(gets_before_a_put_came_do_not_count)
{
    struct mci_work_queue queue;
    struct mci_work gets[8];
    struct mci_work put = work_of(MCI_WORK_PUT, 1);
    start(&queue, 16);
    for (size_t i = 0; i < 8; i++) {
        gets[i] = work_of(MCI_WORK_GET, 1);
        add(&queue, &gets[i]);
    }
    for (size_t i = 0; i < 3; i++) {
        (void)next(&queue, &gets[i], 0, 1);
    }
    add(&queue, &put);
    for (size_t i = 3; i < 7; i++) {
        (void)next(&queue, &gets[i], 0, 1);
    }
    (void)next(&queue, &put, 0, 1);
    (void)next(&queue, &gets[7], 0, 1);
}
END_TEST

START_TEST(puts_leave_a_worker_to_gets)
{
    for (uint32_t workers = 1; workers <= 4; workers++) {
        struct mci_work_queue queue;
        struct mci_work put = work_of(MCI_WORK_PUT, 40);
        struct mci_work get = work_of(MCI_WORK_GET, 1);
        struct mci_work_part part = {.first = 0};
        uint32_t most = workers > 1 ? workers - 1 : 1;
        start(&queue, workers);
        add(&queue, &put);
        for (uint32_t i = 0; i < most; i++) {
            part = next(&queue, &put, i * (size_t)4, 4);
        }
        ck_assert(is_nothing(&queue));
        add(&queue, &get);
        (void)next(&queue, &get, 0, 1);
        ck_assert(is_nothing(&queue));
        ck_assert(!mci_work_queue_end(&queue, &part));
        (void)next(&queue, &put, most * (size_t)4, 4);
    }
}
END_TEST

START_TEST(a_put_that_had_to_wait_longer_goes_as_soon_as_it_may)
{
    struct mci_work_queue queue;
    struct mci_work gets[6];
    struct mci_work put = work_of(MCI_WORK_PUT, 8);
    start(&queue, 2);
    add(&queue, &put);
    const struct mci_work_part part = next(&queue, &put, 0, 4);
    for (size_t i = 0; i < 6; i++) {
        gets[i] = work_of(MCI_WORK_GET, 1);
        add(&queue, &gets[i]);
    }
    for (size_t i = 0; i < 5; i++) {
        (void)next(&queue, &gets[i], 0, 1);
    }
    ck_assert(!mci_work_queue_end(&queue, &part));
    (void)next(&queue, &put, 4, 4);
    (void)next(&queue, &gets[5], 0, 1);
}
END_TEST

START_TEST(parts_of_an_ordered_work_go_one_by_one)
{
    struct mci_work_queue queue;
    struct mci_work first = work_of(MCI_WORK_PUT, 6);
    struct mci_work second = work_of(MCI_WORK_PUT, 1);
    struct mci_work_part other;
    first.is_ordered = true;
    start(&queue, 8);
    add(&queue, &first);
    add(&queue, &second);
    const struct mci_work_part part = next(&queue, &first, 0, 4);
    (void)next(&queue, &second, 0, 1);
    ck_assert(is_nothing(&queue));
    ck_assert(!mci_work_queue_take_of(&queue, &first, 1, &other));
    ck_assert(!mci_work_queue_end(&queue, &part));
    const struct mci_work_part last = next(&queue, &first, 4, 2);
    ck_assert(mci_work_queue_end(&queue, &last));
}
END_TEST

/* ---- parts ------------------------------------------------------------------ */

START_TEST(parts_have_bounded_rows_and_bytes)
{
    static const uint64_t bytes[] = {60, 40, 1, 0,   0,  0,          0,
                                     1,  99, 1, 101, 50, UINT64_MAX, 0};
    static const size_t counts[] = {2, 4, 3, 1, 1, 1, 1, 1};
    struct mci_work_queue queue;
    struct mci_work get = work_of(MCI_WORK_GET, sizeof bytes / sizeof *bytes);
    size_t first = 0;
    get.row_bytes = bytes;
    start(&queue, 8);
    add(&queue, &get);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        (void)next(&queue, &get, first, counts[i]);
        first += counts[i];
    }
    ck_assert_uint_eq(first, get.row_count);
    ck_assert(is_nothing(&queue));
}
END_TEST

START_TEST(a_work_without_rows_ends_too)
{
    struct mci_work_queue queue;
    struct mci_work get = work_of(MCI_WORK_GET, 0);
    start(&queue, 1);
    add(&queue, &get);
    const struct mci_work_part part = next(&queue, &get, 0, 0);
    ck_assert(is_nothing(&queue));
    ck_assert(!mci_work_queue_is_idle(&queue));
    ck_assert(mci_work_queue_end(&queue, &part));
    ck_assert(mci_work_queue_is_idle(&queue));
    ck_assert_uint_eq(queue.rows, 1);
    mci_work_queue_leave(&queue, &get);
    ck_assert_uint_eq(queue.rows, 0);
}
END_TEST

START_TEST(who_helps_is_no_worker)
{
    struct mci_work_queue queue;
    struct mci_work helped = work_of(MCI_WORK_PUT, 8);
    struct mci_work put = work_of(MCI_WORK_PUT, 1);
    struct mci_work_part parts[2];
    struct mci_work_part none;
    start(&queue, 2);
    add(&queue, &put);
    add(&queue, &helped);
    for (size_t i = 0; i < 2; i++) {
        ck_assert(mci_work_queue_take_of(&queue, &helped, 1, &parts[i]));
        ck_assert_uint_eq(parts[i].first, i * 4);
    }
    ck_assert(!mci_work_queue_take_of(&queue, &helped, 1, &none));
    (void)next(&queue, &put, 0, 1);
    ck_assert(!mci_work_queue_end(&queue, &parts[1]));
    ck_assert_uint_eq(queue.puts_running, 1);
    ck_assert(mci_work_queue_end(&queue, &parts[0]));
    ck_assert(!mci_work_queue_take_of(&queue, &helped, 1, &none));
}
END_TEST

/* ---- bounds ----------------------------------------------------------------- */

START_TEST(a_full_queue_takes_nothing)
{
    struct mci_work_queue queue;
    struct mci_work most = work_of(MCI_WORK_GET, 99);
    struct mci_work one = work_of(MCI_WORK_GET, 0);
    struct mci_work more = work_of(MCI_WORK_GET, 1);
    struct mci_work over = work_of(MCI_WORK_GET, 101);
    struct mci_work_part part;
    start(&queue, 8);
    ck_assert_int_eq(mci_work_queue_add(&queue, &over),
                     MC_ERR_NO_AVAILABLE_HANDLE);
    add(&queue, &most);
    add(&queue, &one);
    ck_assert_int_eq(mci_work_queue_add(&queue, &more),
                     MC_ERR_NO_AVAILABLE_HANDLE);
    ck_assert_int_eq(more.state, MCI_WORK_NEW);
    ck_assert(mci_work_queue_cancel(&queue, &one, &part));
    ck_assert(mci_work_queue_end(&queue, &part));
    ck_assert_int_eq(mci_work_queue_add(&queue, &more),
                     MC_ERR_NO_AVAILABLE_HANDLE);
    mci_work_queue_leave(&queue, &one);
    add(&queue, &more);
}
END_TEST

/* ---- not begun --------------------------------------------------------------- */

START_TEST(what_was_canceled_does_not_begin)
{
    struct mci_work_queue queue;
    struct mci_work get = work_of(MCI_WORK_GET, 9);
    struct mci_work_part rest;
    struct mci_work_part again;
    start(&queue, 8);
    add(&queue, &get);
    const struct mci_work_part part = next(&queue, &get, 0, 4);
    ck_assert(!mci_work_stops(&get));
    ck_assert(mci_work_queue_cancel(&queue, &get, &rest));
    ck_assert(mci_work_stops(&get));
    ck_assert_uint_eq(rest.first, 4);
    ck_assert_uint_eq(rest.count, 5);
    ck_assert_int_eq(rest.verdict, MCI_WORK_CANCELED);
    ck_assert(!mci_work_queue_cancel(&queue, &get, &again));
    ck_assert(is_nothing(&queue));
    ck_assert(!mci_work_queue_end(&queue, &rest));
    ck_assert(mci_work_queue_end(&queue, &part));
    ck_assert(!mci_work_queue_cancel(&queue, &get, &again));
}
END_TEST

START_TEST(what_is_late_does_not_begin)
{
    struct mci_work_queue queue;
    struct mci_work gets[3];
    struct mci_work_part part;
    start(&queue, 8);
    ck_assert_uint_eq(queue.due_ns, NEVER);
    for (size_t i = 0; i < 3; i++) {
        gets[i] = work_of(i == 1 ? MCI_WORK_PUT : MCI_WORK_GET, 9);
        gets[i].deadline_ns = 30 - i * 10;
        add(&queue, &gets[i]);
    }
    ck_assert_uint_eq(queue.due_ns, 10);
    ck_assert(!mci_work_queue_take_late(&queue, 9, &part));
    ck_assert(mci_work_queue_take_late(&queue, 10, &part));
    ck_assert_ptr_eq(part.work, &gets[2]);
    ck_assert_uint_eq(part.count, 9);
    ck_assert_int_eq(part.verdict, MCI_WORK_LATE);
    ck_assert(!mci_work_queue_take_late(&queue, 10, &part));
    ck_assert_uint_eq(queue.due_ns, 20);
    /* A worker that comes at the same time sees it too. */
    (void)next(&queue, &gets[0], 0, 4);
    ck_assert(mci_work_queue_take(&queue, 30, &part));
    ck_assert_ptr_eq(part.work, &gets[0]);
    ck_assert_uint_eq(part.first, 4);
    ck_assert_uint_eq(part.count, 5);
    ck_assert_int_eq(part.verdict, MCI_WORK_LATE);
    ck_assert(mci_work_queue_take_late(&queue, 30, &part));
    ck_assert_ptr_eq(part.work, &gets[1]);
    ck_assert_uint_eq(queue.puts_running, 0);
    ck_assert_uint_eq(queue.due_ns, NEVER);
}
END_TEST

START_TEST(all_can_be_canceled)
{
    struct mci_work_queue queue;
    struct mci_work works[4];
    struct mci_work_part parts[4];
    size_t dropped = 0;
    start(&queue, 8);
    for (size_t i = 0; i < 4; i++) {
        works[i] = work_of(i % 2 == 0 ? MCI_WORK_GET : MCI_WORK_PUT, 3);
        add(&queue, &works[i]);
    }
    const struct mci_work_part running = next(&queue, &works[0], 0, 3);
    while (mci_work_queue_cancel_next(&queue, &parts[dropped])) {
        ck_assert_int_eq(parts[dropped].verdict, MCI_WORK_CANCELED);
        ck_assert(mci_work_queue_end(&queue, &parts[dropped]));
        dropped++;
    }
    ck_assert_uint_eq(dropped, 3);
    ck_assert(mci_work_stops(&works[0]));
    ck_assert(!mci_work_queue_is_idle(&queue));
    ck_assert(mci_work_queue_end(&queue, &running));
    ck_assert(mci_work_queue_is_idle(&queue));
}
END_TEST

/* ---- anything at any time ------------------------------------------------------ */

#define WORKS 12
#define ROWS 15
#define PARTS 64

struct world {
    struct mci_work_queue queue;
    struct mci_work works[WORKS];
    uint64_t bytes[WORKS][ROWS];
    uint8_t seen[WORKS][ROWS];
    bool is_mine[WORKS]; /* not added, or it has left */
    bool has_ended[WORKS];
    struct mci_work_part out[PARTS]; /* handed out, not ended */
    size_t out_count;
    uint64_t now_ns;
    uint32_t draws;
};

static uint32_t draw(struct world *world, uint32_t below)
{
    world->draws = world->draws * 1664525u + 1013904223u;
    return (world->draws >> 8) % below;
}

static void add_some(struct world *world, size_t w)
{
    struct mci_work *work = &world->works[w];
    if (!world->is_mine[w]) {
        return;
    }
    *work = work_of((enum mci_work_kind)draw(world, 2), draw(world, ROWS + 1));
    work->is_ordered = draw(world, 3) == 0;
    work->row_bytes = world->bytes[w];
    work->deadline_ns =
        draw(world, 2) == 0 ? world->now_ns + draw(world, 40) : NEVER;
    memset(world->seen[w], 0, sizeof world->seen[w]);
    world->has_ended[w] = false;
    for (size_t i = 0; i < ROWS; i++) {
        world->bytes[w][i] = draw(world, 120);
    }
    size_t rows = world->queue.rows;
    size_t weight = work->row_count > 0 ? work->row_count : 1;
    bool fits = rows + weight <= world->queue.limits.rows_max;
    ck_assert_int_eq(mci_work_queue_add(&world->queue, work),
                     fits ? MC_OK : MC_ERR_NO_AVAILABLE_HANDLE);
    ck_assert_uint_eq(world->queue.rows, fits ? rows + weight : rows);
    world->is_mine[w] = !fits;
}

static void check_part(struct world *world, const struct mci_work_part *part)
{
    size_t w = (size_t)(part->work - world->works);
    uint64_t bytes = 0;
    ck_assert(!world->is_mine[w] && !world->has_ended[w]);
    for (size_t i = part->first; i < part->first + part->count; i++) {
        ck_assert_uint_eq(world->seen[w][i], 0);
        world->seen[w][i] = 1;
        bytes += world->bytes[w][i];
    }
    if (part->verdict == MCI_WORK_RUN) {
        ck_assert(part->count <= 4);
        ck_assert(part->count <= 1 || bytes <= 100);
        ck_assert(part->work->deadline_ns > world->now_ns);
        ck_assert(!mci_work_stops(part->work));
    }
    for (size_t i = 0; i < world->out_count; i++) {
        ck_assert(!part->work->is_ordered || part->verdict != MCI_WORK_RUN ||
                  world->out[i].work != part->work);
    }
    ck_assert(world->out_count < PARTS);
    world->out[world->out_count++] = *part;
}

static void end_some(struct world *world)
{
    if (world->out_count == 0) {
        return;
    }
    size_t p = draw(world, (uint32_t)world->out_count);
    const struct mci_work_part part = world->out[p];
    size_t w = (size_t)(part.work - world->works);
    world->out[p] = world->out[--world->out_count];
    bool is_last = true;
    for (size_t i = 0; i < world->out_count; i++) {
        is_last &= world->out[i].work != part.work;
    }
    for (size_t i = 0; i < part.work->row_count; i++) {
        is_last &= world->seen[w][i] == 1;
    }
    ck_assert_int_eq(mci_work_queue_end(&world->queue, &part), is_last);
    world->has_ended[w] |= is_last;
}

static uint32_t puts_of_workers(const struct world *world)
{
    uint32_t puts = 0;
    for (size_t i = 0; i < world->out_count; i++) {
        puts += world->out[i].takes_worker &&
                world->out[i].work->kind == MCI_WORK_PUT;
    }
    return puts;
}

static void step(struct world *world)
{
    struct mci_work_queue *queue = &world->queue;
    size_t w = draw(world, WORKS);
    struct mci_work_part part;
    bool is_taken = false;
    switch (draw(world, 8)) {
    case 0:
        add_some(world, w);
        break;
    case 1:
    case 2:
        is_taken = mci_work_queue_take(queue, world->now_ns, &part);
        break;
    case 3:
        is_taken = !world->is_mine[w] &&
                   mci_work_queue_take_of(queue, &world->works[w],
                                          world->now_ns, &part);
        break;
    case 4:
        world->now_ns += draw(world, 10);
        is_taken = mci_work_queue_take_late(queue, world->now_ns, &part);
        break;
    case 5:
        is_taken = !world->is_mine[w] && draw(world, 4) == 0 &&
                   mci_work_queue_cancel(queue, &world->works[w], &part);
        break;
    case 6:
        end_some(world);
        break;
    default:
        if (world->has_ended[w] && !world->is_mine[w]) {
            mci_work_queue_leave(queue, &world->works[w]);
            world->is_mine[w] = true;
        }
    }
    if (is_taken) {
        check_part(world, &part);
    }
    ck_assert_uint_eq(queue->puts_running, puts_of_workers(world));
    ck_assert(queue->puts_running <= 2);
}

START_TEST(each_row_is_handed_out_once_and_each_work_ends_once)
{
    struct world world = {.draws = (uint32_t)_i};
    struct mci_work_part part;
    start(&world.queue, 3);
    for (size_t w = 0; w < WORKS; w++) {
        world.is_mine[w] = true;
    }
    for (size_t i = 0; i < 5000; i++) {
        step(&world);
    }
    while (mci_work_queue_cancel_next(&world.queue, &part)) {
        check_part(&world, &part);
    }
    while (world.out_count > 0) {
        end_some(&world);
    }
    ck_assert(mci_work_queue_is_idle(&world.queue));
    for (size_t w = 0; w < WORKS; w++) {
        ck_assert(world.is_mine[w] || world.has_ended[w]);
        if (!world.is_mine[w]) {
            mci_work_queue_leave(&world.queue, &world.works[w]);
        }
    }
    ck_assert_uint_eq(world.queue.rows, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("work_queue");
    TCase *order = tcase_create("order");
    tcase_add_test(order, four_gets_go_ahead_of_a_put_that_waits);
    tcase_add_test(order, gets_before_a_put_came_do_not_count);
    tcase_add_test(order, puts_leave_a_worker_to_gets);
    tcase_add_test(order, a_put_that_had_to_wait_longer_goes_as_soon_as_it_may);
    tcase_add_test(order, parts_of_an_ordered_work_go_one_by_one);
    suite_add_tcase(suite, order);
    TCase *parts = tcase_create("parts");
    tcase_add_test(parts, parts_have_bounded_rows_and_bytes);
    tcase_add_test(parts, a_work_without_rows_ends_too);
    tcase_add_test(parts, who_helps_is_no_worker);
    tcase_add_test(parts, a_full_queue_takes_nothing);
    suite_add_tcase(suite, parts);
    TCase *dropped = tcase_create("dropped");
    tcase_add_test(dropped, what_was_canceled_does_not_begin);
    tcase_add_test(dropped, what_is_late_does_not_begin);
    tcase_add_test(dropped, all_can_be_canceled);
    suite_add_tcase(suite, dropped);
    TCase *any = tcase_create("any");
    tcase_add_loop_test(
        any, each_row_is_handed_out_once_and_each_work_ends_once, 0, 20);
    suite_add_tcase(suite, any);
    return suite_run(suite);
}
