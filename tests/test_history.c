/* SPDX-License-Identifier: Apache-2.0 */
/* test_history.c - which batches are kept, and how long they can be read. */
#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "alloc_fail.h"
#include "history.h"
#include "suite.h"

static struct mci_history *history_make(uint32_t batches, uint64_t bytes)
{
    struct mci_history *history = NULL;
    ck_assert_int_eq(mci_history_create(batches, bytes, &history), MC_OK);
    return history;
}

/* Adds a payload of `len` bytes that all say the number. */
static enum mc_err add(struct mci_history *history, uint64_t seq, size_t len)
{
    static _Thread_local char payload[4096];
    memset(payload, (int)(seq & 0x7f), len);
    return mci_history_add(history, seq, mc_view_make(payload, len));
}

static struct mci_history_stats stats_of(struct mci_history *history)
{
    struct mci_history_stats stats;
    mci_history_stats(history, &stats);
    return stats;
}

static bool says_its_number(const struct mci_history_batch *batch)
{
    const char *bytes = batch->payload.data;
    for (size_t i = 0; i < batch->payload.len; i++) {
        if (bytes[i] != (char)(batch->seq & 0x7f)) {
            return false;
        }
    }
    return true;
}

static uint64_t seq_from(struct mci_history *history, uint64_t from_seq)
{
    const struct mci_history_batch *batch = mci_history_hold(history, from_seq);
    uint64_t seq = batch ? batch->seq : 0;
    ck_assert(!batch || says_its_number(batch));
    mci_history_release(batch);
    return seq;
}

START_TEST(empty_history_has_nothing)
{
    struct mci_history *history = history_make(0, 0);
    ck_assert_ptr_null(mci_history_hold(history, 0));
    ck_assert_uint_eq(stats_of(history).oldest_seq, 0);
    ck_assert_uint_eq(stats_of(history).tail_seq, 0);
    mci_history_release(NULL);
    mci_history_destroy(history);
    mci_history_destroy(NULL);
}
END_TEST

START_TEST(lookup_finds_the_next_number_over_burnt_ones)
{
    struct mci_history *history = history_make(10, 1 << 20);
    const uint64_t seqs[] = {3, 4, 9, 10, 50};
    for (size_t i = 0; i < 5; i++) {
        ck_assert_int_eq(add(history, seqs[i], 10), MC_OK);
    }
    ck_assert_uint_eq(seq_from(history, 0), 3);
    ck_assert_uint_eq(seq_from(history, 3), 3);
    ck_assert_uint_eq(seq_from(history, 5), 9);
    ck_assert_uint_eq(seq_from(history, 11), 50);
    ck_assert_uint_eq(seq_from(history, 50), 50);
    ck_assert_uint_eq(seq_from(history, 51), 0);
    ck_assert_uint_eq(seq_from(history, UINT64_MAX), 0);
    ck_assert_uint_eq(stats_of(history).oldest_seq, 3);
    ck_assert_uint_eq(stats_of(history).tail_seq, 50);
    mci_history_destroy(history);
}
END_TEST

START_TEST(count_bounds_the_ring)
{
    struct mci_history *history = history_make(4, 1 << 20);
    for (uint64_t seq = 1; seq <= 11; seq++) {
        ck_assert_int_eq(add(history, seq, seq), MC_OK);
        ck_assert_uint_le(stats_of(history).batches, 4);
        ck_assert_uint_eq(stats_of(history).tail_seq, seq);
    }
    ck_assert_uint_eq(stats_of(history).oldest_seq, 8);
    ck_assert_uint_eq(seq_from(history, 1), 8);
    mci_history_destroy(history);
}
END_TEST

START_TEST(bytes_bound_the_ring_but_the_newest_stays)
{
    struct mci_history *history = history_make(100, 3000);
    for (uint64_t seq = 1; seq <= 10; seq++) {
        ck_assert_int_eq(add(history, seq, 900), MC_OK);
        ck_assert_uint_le(stats_of(history).bytes, 3000);
    }
    ck_assert_uint_eq(stats_of(history).batches, 3);
    ck_assert_uint_eq(stats_of(history).oldest_seq, 8);
    ck_assert_int_eq(add(history, 11, 4000), MC_OK);
    ck_assert_uint_eq(stats_of(history).batches, 1);
    ck_assert_uint_eq(seq_from(history, 0), 11);
    ck_assert_int_eq(add(history, 12, 0), MC_OK); /* the large one goes */
    ck_assert_uint_eq(seq_from(history, 0), 12);
    mci_history_destroy(history);
}
END_TEST

START_TEST(held_batch_outlives_the_ring_and_the_history)
{
    struct mci_history *history = history_make(2, 1 << 20);
    struct mci_alloc_stats before;
    struct mci_alloc_stats after;
    mci_alloc_stats(&before);
    ck_assert_int_eq(add(history, 1, 100), MC_OK);
    const struct mci_history_batch *first = mci_history_hold(history, 1);
    const struct mci_history_batch *again = mci_history_hold(history, 1);
    ck_assert_ptr_eq(first, again);
    mci_history_release(again);
    for (uint64_t seq = 2; seq <= 5; seq++) {
        ck_assert_int_eq(add(history, seq, 100), MC_OK);
    }
    mci_alloc_stats(&after);
    ck_assert_int_eq(after.blocks - before.blocks, 3); /* two and the held */
    mci_history_destroy(history);
    ck_assert_uint_eq(first->seq, 1);
    ck_assert_uint_eq(first->payload.len, 100);
    ck_assert(says_its_number(first));
    mci_history_release(first);
}
END_TEST

/* What one thread sees while another adds to a ring of a single batch. */
struct looker {
    struct mci_history *history;
    atomic_bool ends;
    uint64_t looks;
    uint64_t empty;
};

static void *look(void *ctx)
{
    struct looker *looker = ctx;
    while (!looker->ends) {
        const struct mci_history_batch *batch =
            mci_history_hold(looker->history, 0);
        looker->empty += !batch || stats_of(looker->history).tail_seq == 0;
        looker->looks++;
        mci_history_release(batch);
    }
    return NULL;
}

START_TEST(ring_of_one_is_never_found_empty)
{
    struct looker looker = {.history = history_make(1, 0)};
    pthread_t thread;
    ck_assert_int_eq(add(looker.history, 1, 8), MC_OK);
    ck_assert_int_eq(pthread_create(&thread, NULL, look, &looker), 0);
    for (uint64_t seq = 2; seq < 100000; seq++) {
        ck_assert_int_eq(add(looker.history, seq, 8), MC_OK);
    }
    looker.ends = true;
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert_uint_gt(looker.looks, 0);
    ck_assert_uint_eq(looker.empty, 0);
    mci_history_destroy(looker.history);
}
END_TEST

START_TEST(failed_allocation_leaves_the_number_missing)
{
    struct mci_history *history = history_make(10, 1 << 20);
    ck_assert_int_eq(add(history, 1, 10), MC_OK);
    (void)mci_alloc_fail_at(1);
    ck_assert_int_eq(add(history, 2, 10), MC_ERR_NOMEM);
    ck_assert_int_eq(add(history, 3, 10), MC_OK);
    ck_assert_uint_eq(seq_from(history, 2), 3);
    ck_assert_uint_eq(stats_of(history).batches, 2);
    mci_history_destroy(history);
}
END_TEST

START_TEST(create_survives_each_allocation_failing)
{
    struct alloc_fail fail;
    ALLOC_FAIL_EACH(fail)
    {
        struct mci_history *history = NULL;
        alloc_fail_arm(&fail);
        enum mc_err err = mci_history_create(8, 0, &history);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        ck_assert(!err || !history);
        mci_history_destroy(history);
    }
}
END_TEST

#define LAST_SEQ 20000

struct reader {
    struct mci_history *history;
    uint64_t faults;
    uint64_t read;
    pthread_t thread;
};

/* Reads on from what it read last, holding each batch while it looks. */
static void *reader_run(void *arg)
{
    struct reader *reader = arg;
    uint64_t seq = 0;
    while (seq < LAST_SEQ) {
        const struct mci_history_batch *batch =
            mci_history_hold(reader->history, seq + 1);
        if (batch) {
            reader->faults += batch->seq <= seq || !says_its_number(batch);
            reader->read++;
            seq = batch->seq;
            mci_history_release(batch);
        }
    }
    return NULL;
}

START_TEST(readers_hold_batches_while_the_ring_moves_on)
{
    struct mci_history *history = history_make(16, 1 << 20);
    struct reader readers[2];
    for (int i = 0; i < 2; i++) {
        readers[i] = (struct reader){.history = history};
        ck_assert_int_eq(
            pthread_create(&readers[i].thread, NULL, reader_run, &readers[i]),
            0);
    }
    int failures = 0;
    for (uint64_t seq = 1; seq <= LAST_SEQ; seq++) {
        failures += add(history, seq, 64 + seq % 512) != MC_OK;
    }
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_join(readers[i].thread, NULL), 0);
        ck_assert_uint_eq(readers[i].faults, 0);
        ck_assert_uint_gt(readers[i].read, 0);
    }
    ck_assert_int_eq(failures, 0);
    mci_history_destroy(history);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("history");
    TCase *tc = tcase_create("ring");
    tcase_add_test(tc, empty_history_has_nothing);
    tcase_add_test(tc, lookup_finds_the_next_number_over_burnt_ones);
    tcase_add_test(tc, count_bounds_the_ring);
    tcase_add_test(tc, bytes_bound_the_ring_but_the_newest_stays);
    tcase_add_test(tc, ring_of_one_is_never_found_empty);
    suite_add_tcase(suite, tc);

    tc = tcase_create("ownership");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, held_batch_outlives_the_ring_and_the_history);
    tcase_add_test(tc, failed_allocation_leaves_the_number_missing);
    tcase_add_test(tc, create_survives_each_allocation_failing);
    tcase_add_test(tc, readers_hold_batches_while_the_ring_moves_on);
    suite_add_tcase(suite, tc);
    return suite_run(suite);
}
