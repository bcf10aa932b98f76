/* SPDX-License-Identifier: Apache-2.0 */
/* What an owner remembers of attempts that are over: spent ones, fences, who is
 * inside; and that memory for it is bounded by a floor instead of by forgetting. */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_fail.h"
#include "board.h"
#include "closed.h"
#include "engine.h"
#include "gate.h"
#include "mci_clock.h"
#include "mci_hash.h"
#include "suite.h"

#define S MCI_NS_PER_S

/* ---- spent ------------------------------------------------------------- */

START_TEST(a_spent_attempt_is_refused_until_its_grants_are_over)
{
    struct mci_closed *closed = NULL;
    ck_assert_int_eq(mci_closed_create(0, &closed), MC_OK);
    ck_assert(!mci_closed_refuses(closed, 7, 10 * S));
    mci_closed_add(closed, 7, 10 * S, S);
    ck_assert(mci_closed_refuses(closed, 7, 10 * S));
    ck_assert(mci_closed_refuses(closed, 7, UINT64_MAX));
    ck_assert(!mci_closed_refuses(closed, 8, 10 * S));
    mci_closed_add(closed, 9, S, S); /* over already */
    ck_assert(!mci_closed_refuses(closed, 9, 10 * S));
    mci_closed_destroy(closed);
}
END_TEST

START_TEST(spent_attempts_make_room_when_they_are_over)
{
    struct mci_closed *closed = NULL;
    ck_assert_int_eq(mci_closed_create(0, &closed), MC_OK);
    size_t most = 0;
    for (uint64_t i = 1; i <= 100000; i++) {
        /* A hundred are alive at a time. */
        mci_closed_add(closed, i, (i + 100) * S, i * S);
        ck_assert(mci_closed_refuses(closed, i, (i + 100) * S));
        ck_assert(i < 50 || mci_closed_refuses(closed, i - 49, UINT64_MAX));
        size_t capacity = mci_closed_capacity(closed);
        most = capacity > most ? capacity : most;
    }
    ck_assert_uint_le(most, 4096);
    /* Nothing had to be refused for want of room. */
    ck_assert(!mci_closed_refuses(closed, 1000000, 1));
    mci_closed_destroy(closed);
}
END_TEST

START_TEST(a_full_table_raises_its_floor_and_forgets_nothing)
{
    struct mci_closed *closed = NULL;
    enum { MAX = 1024, COUNT = 20000 };
    ck_assert_int_eq(mci_closed_create(MAX, &closed), MC_OK);
    for (uint64_t i = 1; i <= COUNT; i++) {
        mci_closed_add(closed, i, (1000 + i) * S, S);
    }
    ck_assert_uint_le(mci_closed_capacity(closed), MAX);
    for (uint64_t i = 1; i <= COUNT; i++) {
        ck_assert_msg(mci_closed_refuses(closed, i, (1000 + i) * S),
                      "attempt %ju was forgotten", (uintmax_t)i);
    }
    /* Who is fresh enough goes on. */
    ck_assert(!mci_closed_refuses(closed, COUNT + 1, (COUNT + 2000) * S));
    ck_assert(mci_closed_refuses(closed, COUNT + 1, 1001 * S));
    mci_closed_destroy(closed);
}
END_TEST

/* Nobody else is refused while there is room, so that a floor does not stop
 * writes whose grants are as old as the last ones that ended. */
START_TEST(a_table_refuses_nobody_else_before_it_is_nearly_full)
{
    struct mci_closed *closed = NULL;
    enum { MAX = 16384, COUNT = MAX * 3 / 4 };
    ck_assert_int_eq(mci_closed_create(MAX, &closed), MC_OK);
    for (uint64_t i = 1; i <= COUNT; i++) {
        mci_closed_add(closed, i, 1000 * S, S);
        if (mci_closed_refuses(closed, COUNT + i, 1000 * S)) {
            ck_abort_msg("refused beside %ju others", (uintmax_t)i);
        }
    }
    for (uint64_t i = 1; i <= COUNT; i++) {
        ck_assert(mci_closed_refuses(closed, i, 1000 * S));
    }
    ck_assert_uint_eq(mci_closed_capacity(closed), MAX);
    mci_closed_destroy(closed);
}
END_TEST

static bool falls_elsewhere(uint64_t attempt, uint64_t mask)
{
    uint64_t hash = mci_hash64(&attempt, sizeof attempt);
    return (hash & mask) != 0 || ((hash >> 32) & mask) != 0;
}

/* Attempts that fall into one set at every size. */
START_TEST(a_set_that_is_full_at_every_size_ends_at_the_floor)
{
    enum { COUNT = 40, MAX = 512, MASK = MAX / 8 - 1 };
    struct mci_closed *closed = NULL;
    uint64_t attempts[COUNT];
    uint64_t next = 1;
    for (int i = 0; i < COUNT; i++, next++) {
        while (falls_elsewhere(next, MASK)) {
            next++;
        }
        attempts[i] = next;
    }
    ck_assert_int_eq(mci_closed_create(MAX, &closed), MC_OK);
    for (int i = 0; i < COUNT; i++) {
        mci_closed_add(closed, attempts[i], 100 * S, S);
        ck_assert(mci_closed_refuses(closed, attempts[i], 100 * S));
    }
    ck_assert_uint_le(mci_closed_capacity(closed), MAX);
    ck_assert(mci_closed_refuses(closed, attempts[0], 100 * S));
    ck_assert(!mci_closed_refuses(closed, next, 100 * S + 1));
    mci_closed_destroy(closed);
}
END_TEST

START_TEST(a_table_that_cannot_grow_raises_its_floor)
{
    struct mci_closed *closed = NULL;
    ck_assert_int_eq(mci_closed_create(0, &closed), MC_OK);
    (void)mci_alloc_fail_at(1);
    mci_closed_add(closed, 5, 10 * S, S);
    ck_assert_int_eq(mci_alloc_fail_at(0), 0);
    ck_assert(mci_closed_refuses(closed, 5, 10 * S));
    ck_assert(mci_closed_refuses(closed, 6, 10 * S));
    ck_assert(!mci_closed_refuses(closed, 6, 10 * S + 1));
    mci_closed_add(closed, 6, 20 * S, S);
    ck_assert(mci_closed_refuses(closed, 6, 20 * S));
    ck_assert(!mci_closed_refuses(closed, 7, 20 * S));
    mci_closed_destroy(closed);
}
END_TEST

/* ---- the board --------------------------------------------------------- */

static void post(struct mci_board *board, enum mc_fence_kind kind,
                 uint64_t subject, uint64_t now_ns, uint64_t until_ns)
{
    struct mc_fence fence = {.kind = kind, .subject = subject};
    mci_board_post(board, &fence, 1, now_ns, until_ns);
}

START_TEST(fences_of_both_kinds_are_told_apart)
{
    struct mci_board *board = NULL;
    ck_assert_int_eq(mci_board_create(&board), MC_OK);
    const struct mci_board_page *page = mci_board_page(board);
    ck_assert(!mci_board_refuses(page, 5, 6, S));
    post(board, MC_FENCE_ATTEMPT, 5, S, 60 * S);
    post(board, MC_FENCE_INCARNATION, 8, S, 60 * S);
    ck_assert(mci_board_refuses(page, 5, 6, 50 * S));
    ck_assert(!mci_board_refuses(page, 6, 5, 50 * S));
    ck_assert(mci_board_refuses(page, 6, 8, 50 * S));
    ck_assert(!mci_board_refuses(page, 8, 6, 50 * S));
    ck_assert(!mci_board_refuses(page, 0, 0, 50 * S));
    mci_board_destroy(board);
}
END_TEST

START_TEST(a_board_over_its_size_refuses_more_and_never_less)
{
    enum { COUNT = 4 * MCI_BOARD_SETS * MCI_BOARD_WAYS };
    struct mci_board *board = NULL;
    ck_assert_int_eq(mci_board_create(&board), MC_OK);
    const struct mci_board_page *page = mci_board_page(board);
    for (uint64_t i = 1; i <= COUNT; i++) {
        post(board, MC_FENCE_ATTEMPT, i, S, (100 + i) * S);
    }
    size_t forgotten = 0;
    for (uint64_t i = 1; i <= COUNT; i++) {
        forgotten += !mci_board_refuses(page, i, 0, (100 + i) * S);
    }
    ck_assert_uint_eq(forgotten, 0);
    ck_assert(!mci_board_refuses(page, COUNT + 1, 0, (COUNT + 200) * S));
    mci_board_destroy(board);
}
END_TEST

START_TEST(fences_that_are_over_give_up_their_places)
{
    struct mci_board *board = NULL;
    ck_assert_int_eq(mci_board_create(&board), MC_OK);
    const struct mci_board_page *page = mci_board_page(board);
    for (uint64_t i = 1; i <= 200000; i++) {
        /* A few dozen are alive at a time. */
        post(board, MC_FENCE_ATTEMPT, i, i * S, (i + 30) * S);
        ck_assert(mci_board_refuses(page, i, 0, UINT64_MAX));
    }
    ck_assert_uint_eq(atomic_load(&page->floor_ns), 0);
    mci_board_destroy(board);
}
END_TEST

/* ---- the gate ---------------------------------------------------------- */

static size_t scan(struct mci_gate *gate, struct mci_board *board,
                   uint64_t now_ns)
{
    struct mc_fence_stuck rows[4];
    struct mci_stuck_list stuck = {.rows = rows, .max = 4};
    ck_assert(mci_gate_scan(gate, mci_board_page(board), now_ns, &stuck));
    return stuck.count;
}

START_TEST(who_is_inside_is_seen_and_who_is_fenced_stays_out)
{
    static struct mci_gate gate;
    struct mci_board *board = NULL;
    struct mc_grant_terms terms = {.subject = 5, .incarnation = 6};
    ck_assert_int_eq(mci_board_create(&board), MC_OK);
    const struct mci_board_page *page = mci_board_page(board);
    int slot = mci_gate_enter(&gate, page, &terms, 50 * S, UINT64_MAX);
    ck_assert_int_ge(slot, 0);
    ck_assert_uint_eq(scan(&gate, board, S), 0);
    post(board, MC_FENCE_ATTEMPT, 5, S, 60 * S);
    ck_assert_uint_eq(scan(&gate, board, S), 1);
    ck_assert_int_eq(mci_gate_enter(&gate, page, &terms, 50 * S, UINT64_MAX),
                     -1);
    mci_gate_leave(&gate, slot);
    ck_assert_uint_eq(scan(&gate, board, S), 0);
    /* One that outstayed its grant counts, its fence may be gone. */
    terms.subject = 7;
    slot = mci_gate_enter(&gate, page, &terms, 50 * S, UINT64_MAX);
    ck_assert_uint_eq(scan(&gate, board, 49 * S), 0);
    ck_assert_uint_eq(scan(&gate, board, 50 * S), 1);
    mci_gate_renew(&gate, slot, 70 * S);
    ck_assert_uint_eq(scan(&gate, board, 50 * S), 0);
    mci_gate_leave(&gate, slot);
    mci_board_destroy(board);
}
END_TEST

START_TEST(a_gate_without_a_free_slot_waits_for_the_deadline)
{
    static struct mci_gate gate;
    struct mci_board *board = NULL;
    struct mc_grant_terms terms = {.subject = 5, .incarnation = 6};
    int slots[MCI_GATE_SLOTS];
    ck_assert_int_eq(mci_board_create(&board), MC_OK);
    const struct mci_board_page *page = mci_board_page(board);
    uint64_t grant_ns = mci_clock_ns() + 50 * S;
    for (int i = 0; i < MCI_GATE_SLOTS; i++) {
        slots[i] = mci_gate_enter(&gate, page, &terms, grant_ns, UINT64_MAX);
        ck_assert_int_ge(slots[i], 0);
    }
    ck_assert_int_eq(
        mci_gate_enter(&gate, page, &terms, grant_ns, mci_clock_ns() + 1000),
        -1);
    mci_gate_leave(&gate, slots[100]);
    ck_assert_int_eq(mci_gate_enter(&gate, page, &terms, grant_ns, UINT64_MAX),
                     slots[100]);
    mci_board_destroy(board);
}
END_TEST

/* A writer and an owner at the same time: never does the owner find nobody
 * inside while the writer finds no fence. */
struct duel {
    struct mci_gate *gate;
    struct mci_board *board;
    pthread_barrier_t barrier;
    _Atomic uint64_t attempt;
    _Atomic int has_entered;
    _Atomic int stops;
};

static void *write_on(void *arg)
{
    struct duel *duel = arg;
    for (;;) {
        (void)pthread_barrier_wait(&duel->barrier);
        if (atomic_load(&duel->stops)) {
            return NULL;
        }
        struct mc_grant_terms terms = {.subject = atomic_load(&duel->attempt),
                                       .incarnation = 1};
        int slot = mci_gate_enter(duel->gate, mci_board_page(duel->board),
                                  &terms, UINT64_MAX, UINT64_MAX);
        atomic_store(&duel->has_entered, slot >= 0);
        (void)pthread_barrier_wait(&duel->barrier);
        if (slot >= 0) {
            mci_gate_leave(duel->gate, slot);
        }
        (void)pthread_barrier_wait(&duel->barrier);
    }
}

START_TEST(of_owner_and_writer_one_sees_the_other)
{
    static struct mci_gate gate;
    struct duel duel = {.gate = &gate};
    pthread_t writer;
    int met[2] = {0, 0};
    ck_assert_int_eq(mci_board_create(&duel.board), MC_OK);
    ck_assert_int_eq(pthread_barrier_init(&duel.barrier, NULL, 2), 0);
    ck_assert_int_eq(pthread_create(&writer, NULL, write_on, &duel), 0);
    for (uint64_t i = 1; i <= 3000; i++) {
        atomic_store(&duel.attempt, i);
        (void)pthread_barrier_wait(&duel.barrier);
        post(duel.board, MC_FENCE_ATTEMPT, i, i * S, (i + 60) * S);
        size_t stuck = scan(&gate, duel.board, i * S);
        (void)pthread_barrier_wait(&duel.barrier);
        bool has_entered = atomic_load(&duel.has_entered);
        ck_assert(!has_entered || stuck == 1);
        met[has_entered]++;
        (void)pthread_barrier_wait(&duel.barrier);
    }
    atomic_store(&duel.stops, 1);
    (void)pthread_barrier_wait(&duel.barrier);
    ck_assert_int_eq(pthread_join(writer, NULL), 0);
    (void)pthread_barrier_destroy(&duel.barrier);
    mci_board_destroy(duel.board);
}
END_TEST

/* ---- registrations ----------------------------------------------------- */

static struct mc_transfer *open_engine(void)
{
    struct mc_transfer *transfer = NULL;
    struct mc_transfer_opts opts = {.only = MC_TRANSPORT_LOCAL};
    ck_assert_int_eq(mc_transfer_open(&opts, &transfer), MC_OK);
    return transfer;
}

START_TEST(what_cannot_be_lent_is_refused)
{
    static _Atomic uint64_t words[512];
    struct mc_transfer *transfer = open_engine();
    struct mc_exposure exposure = {.registration = 77};
    uint8_t *base = (uint8_t *)words + 2048;
    const struct mc_exposure_opts wrong[] = {
        {.base = NULL, .bytes = 8, .fd = -1},
        {.base = base, .bytes = 0, .fd = -1},
        {.base = base, .bytes = UINT64_MAX, .fd = -1},
        {.base = base,
         .bytes = 8,
         .fd = 1,
         .fd_offset = UINT64_MAX,
         .generation = words},
        {.base = base,
         .bytes = 8,
         .fd = 1,
         .fd_offset = 8,
         .generation = words}, /* before the file */
        {.base = base,
         .bytes = 8,
         .fd = 1,
         .fd_offset = 4096,
         .generation = base + 8}, /* in the data */
        {.base = base,
         .bytes = 8,
         .fd = 1,
         .fd_offset = 4096,
         .generation = base - 12},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ck_assert_int_eq(mc_transfer_expose(transfer, &wrong[i], &exposure),
                         MC_ERR_INVALID_PARAMS);
    }
    ck_assert_uint_eq(exposure.registration, 77);
    mc_transfer_close(transfer);
}
END_TEST

START_TEST(registrations_have_numbers_and_keys_of_their_own)
{
    static uint8_t memory[4096];
    struct mc_transfer *transfer = open_engine();
    struct mc_exposure_opts opts = {
        .base = memory, .bytes = sizeof memory, .fd = -1};
    struct mc_exposure a;
    struct mc_exposure b;
    ck_assert_int_eq(mc_transfer_expose(transfer, &opts, &a), MC_OK);
    ck_assert_int_eq(mc_transfer_expose(transfer, &opts, &b), MC_OK);
    ck_assert_uint_ne(a.registration, 0);
    ck_assert_uint_ne(a.registration, b.registration);
    ck_assert_int_ne(memcmp(a.key, b.key, sizeof a.key), 0);
    ck_assert_str_eq(a.shm, "");
    ck_assert_str_eq(a.endpoint, "");
    mc_transfer_close(transfer);
}
END_TEST

START_TEST(lending_without_memory_leaves_nothing)
{
    static uint8_t memory[4096];
    struct alloc_fail fail;
    struct mc_transfer *transfer = open_engine();
    struct mc_exposure_opts opts = {
        .base = memory, .bytes = sizeof memory, .fd = -1};
    ALLOC_FAIL_EACH(fail)
    {
        struct mc_exposure exposure = {.registration = 0};
        alloc_fail_arm(&fail);
        enum mc_err err = mc_transfer_expose(transfer, &opts, &exposure);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        mc_transfer_conceal(transfer, exposure.registration);
    }
    mc_transfer_close(transfer);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("exposed");
    TCase *spent = tcase_create("spent");
    tcase_add_test(spent, a_spent_attempt_is_refused_until_its_grants_are_over);
    tcase_add_test(spent, spent_attempts_make_room_when_they_are_over);
    tcase_add_test(spent, a_full_table_raises_its_floor_and_forgets_nothing);
    tcase_add_test(spent, a_table_refuses_nobody_else_before_it_is_nearly_full);
    tcase_add_test(spent, a_set_that_is_full_at_every_size_ends_at_the_floor);
    tcase_add_test(spent, a_table_that_cannot_grow_raises_its_floor);
    suite_add_tcase(suite, spent);
    TCase *board = tcase_create("board");
    tcase_add_test(board, fences_of_both_kinds_are_told_apart);
    tcase_add_test(board, a_board_over_its_size_refuses_more_and_never_less);
    tcase_add_test(board, fences_that_are_over_give_up_their_places);
    suite_add_tcase(suite, board);
    TCase *gate = tcase_create("gate");
    tcase_set_timeout(gate, 60);
    tcase_add_test(gate, who_is_inside_is_seen_and_who_is_fenced_stays_out);
    tcase_add_test(gate, a_gate_without_a_free_slot_waits_for_the_deadline);
    tcase_add_test(gate, of_owner_and_writer_one_sees_the_other);
    suite_add_tcase(suite, gate);
    TCase *registrations = tcase_create("registrations");
    tcase_add_test(registrations, what_cannot_be_lent_is_refused);
    tcase_add_test(registrations,
                   registrations_have_numbers_and_keys_of_their_own);
    tcase_add_test(registrations, lending_without_memory_leaves_nothing);
    suite_add_tcase(suite, registrations);
    return suite_run(suite);
}
