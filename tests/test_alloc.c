/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc_fail.h"
#include "mc_err.h"
#include "mci_alloc.h"
#include "suite.h"

static struct mci_alloc_stats stats_now(void)
{
    struct mci_alloc_stats stats;
    mci_alloc_stats(&stats);
    return stats;
}

START_TEST(test_a_block_is_counted_while_it_lives)
{
    struct mci_alloc_stats before = stats_now();
    void *block = mci_alloc(100);
    ck_assert_ptr_nonnull(block);
    struct mci_alloc_stats during = stats_now();
    ck_assert_int_eq(during.blocks - before.blocks, 1);
    ck_assert_int_ge(during.bytes - before.bytes, 100);
    ck_assert_uint_eq(during.calls - before.calls, 1);
    ck_assert_int_eq((int64_t)(during.allocated_bytes - before.allocated_bytes),
                     during.bytes - before.bytes);
    mci_free(block);
    struct mci_alloc_stats after = stats_now();
    ck_assert_int_eq(after.blocks, before.blocks);
    ck_assert_int_eq(after.bytes, before.bytes);
    ck_assert_uint_eq(after.frees - before.frees, 1);
    ck_assert_uint_eq(after.allocated_bytes, during.allocated_bytes);
}
END_TEST

START_TEST(test_every_form_balances)
{
    struct mci_alloc_stats before = stats_now();
    void *blocks[] = {mci_alloc(1),
                      mci_calloc(3, 7),
                      mci_realloc(NULL, 20),
                      mci_alloc_aligned(64, 100),
                      mci_alloc_aligned(1, 1),
                      mci_strdup_n("abc", 3)};
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        ck_assert_ptr_nonnull(blocks[i]);
    }
    blocks[0] = mci_realloc(blocks[0], 100000);
    blocks[1] = mci_realloc(blocks[1], 1);
    ck_assert_int_eq(stats_now().blocks - before.blocks, 6);
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        mci_free(blocks[i]);
    }
    ck_assert_int_eq(stats_now().blocks, before.blocks);
    ck_assert_int_eq(stats_now().bytes, before.bytes);
}
END_TEST

START_TEST(test_contents_are_as_the_c_library_promises)
{
    unsigned char *zeroed = mci_calloc(5, 200);
    for (size_t i = 0; i < 1000; i++) {
        ck_assert_uint_eq(zeroed[i], 0);
    }
    memset(zeroed, 7, 1000);
    zeroed = mci_realloc(zeroed, 5000);
    ck_assert_uint_eq(zeroed[999], 7);
    mci_free(zeroed);
    void *aligned = mci_alloc_aligned(4096, 10);
    ck_assert_uint_eq((uintptr_t)aligned % 4096, 0);
    mci_free(aligned);
    char *copy = mci_strdup_n("a\0b", 3);
    ck_assert_mem_eq(copy, "a\0b", 4);
    mci_free(copy);
    copy = mci_strdup_n(NULL, 0);
    ck_assert_str_eq(copy, "");
    mci_free(copy);
}
END_TEST

START_TEST(test_size_zero_gives_a_block_and_free_takes_null)
{
    void *blocks[] = {mci_alloc(0), mci_calloc(0, 8), mci_calloc(8, 0),
                      mci_alloc_aligned(16, 0), mci_realloc(NULL, 0)};
    blocks[0] = mci_realloc(blocks[0], 0);
    for (size_t i = 0; i < sizeof blocks / sizeof blocks[0]; i++) {
        ck_assert_ptr_nonnull(blocks[i]);
        mci_free(blocks[i]);
    }
    mci_free(NULL);
}
END_TEST

START_TEST(test_sizes_that_cannot_be_are_refused)
{
    /* Not constants, or the compiler warns of them. */
    volatile size_t huge = SIZE_MAX / 2 + 1;
    struct mci_alloc_stats before = stats_now();
    ck_assert_ptr_null(mci_calloc(huge, 2));
    ck_assert_ptr_null(mci_strdup_n("", huge * 2 - 1));
    ck_assert_int_eq(stats_now().blocks, before.blocks);
    ck_assert_uint_eq(stats_now().calls, before.calls);
}
END_TEST

START_TEST(test_the_kth_allocation_fails_and_only_that)
{
    ck_assert_int_eq(mci_alloc_fail_at(3), 0);
    void *first = mci_alloc(1);
    void *second = mci_calloc(1, 1);
    ck_assert_ptr_nonnull(first);
    ck_assert_ptr_nonnull(second);
    ck_assert_int_ne(mci_alloc_fail_at(1), 0);
    ck_assert_ptr_null(mci_realloc(first, 1000000));
    ck_assert_int_eq(mci_alloc_fail_at(1), 0);
    ck_assert_ptr_null(mci_alloc_aligned(8, 8));
    void *third = mci_strdup_n("x", 1);
    ck_assert_ptr_nonnull(third);
    ck_assert_int_eq(mci_alloc_fail_at(0), 0);
    mci_free(first); /* still alive: the realloc failed */
    mci_free(second);
    mci_free(third);
}
END_TEST

START_TEST(test_tries_are_counted_also_when_they_fail)
{
    uint64_t before = mci_alloc_thread_calls();
    (void)mci_alloc_fail_at(1);
    ck_assert_ptr_null(mci_alloc(1));
    mci_free(mci_alloc(1));
    ck_assert_uint_eq(mci_alloc_thread_calls() - before, 2);
}
END_TEST

static void *allocate_and_free(void *unused)
{
    (void)unused;
    ck_assert_uint_eq(mci_alloc_thread_calls(), 0);
    void *block = mci_alloc(10);
    ck_assert_ptr_nonnull(block);
    mci_free(block);
    return NULL;
}

START_TEST(test_the_order_to_fail_is_the_calling_threads_own)
{
    pthread_t thread;
    (void)mci_alloc_fail_at(1);
    ck_assert_int_eq(pthread_create(&thread, NULL, allocate_and_free, NULL), 0);
    pthread_join(thread, NULL);
    ck_assert_ptr_null(mci_alloc(1));
}
END_TEST

#define THREADS 4
#define BLOCKS_EACH 500

static void *fill(void *blocks)
{
    for (size_t i = 0; i < BLOCKS_EACH; i++) {
        ((void **)blocks)[i] = mci_alloc(i + 1);
    }
    return NULL;
}

START_TEST(test_blocks_freed_by_another_thread_balance)
{
    static void *blocks[THREADS][BLOCKS_EACH];
    pthread_t threads[THREADS];
    struct mci_alloc_stats before = stats_now();
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, fill, blocks[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        (void)stats_now(); /* beside the others: for TSan to judge */
        pthread_join(threads[i], NULL);
    }
    ck_assert_int_eq(stats_now().blocks - before.blocks, THREADS * BLOCKS_EACH);
    for (int i = 0; i < THREADS; i++) {
        for (int j = 0; j < BLOCKS_EACH; j++) {
            mci_free(blocks[i][j]);
        }
    }
    ck_assert_int_eq(stats_now().blocks, before.blocks);
    ck_assert_int_eq(stats_now().bytes, before.bytes);
    ck_assert_uint_eq(stats_now().calls - before.calls, THREADS * BLOCKS_EACH);
}
END_TEST

static void free_late(void *block)
{
    mci_free(block);
}

static void *leave_a_block(void *key)
{
    mci_free(mci_alloc(1));
    pthread_setspecific(*(pthread_key_t *)key, mci_alloc(50));
    return NULL;
}

/* The thread's counters are gone by the time this destructor runs, or not; the
 * order is the C library's. */
START_TEST(test_what_a_thread_frees_at_its_very_end_is_counted)
{
    pthread_key_t key;
    pthread_t thread;
    mci_free(mci_alloc(1));
    ck_assert_int_eq(pthread_key_create(&key, free_late), 0);
    struct mci_alloc_stats before = stats_now();
    ck_assert_int_eq(pthread_create(&thread, NULL, leave_a_block, &key), 0);
    pthread_join(thread, NULL);
    ck_assert_int_eq(stats_now().blocks, before.blocks);
    ck_assert_int_eq(stats_now().bytes, before.bytes);
    ck_assert_uint_eq(stats_now().frees - before.frees, 2);
    pthread_key_delete(key);
}
END_TEST

struct waiter {
    atomic_int stage;
    void *block;
};

static void *hold_a_block(void *ctx)
{
    struct waiter *waiter = ctx;
    waiter->block = mci_alloc(1000);
    atomic_store(&waiter->stage, 1);
    while (atomic_load(&waiter->stage) != 2) {
        sched_yield();
    }
    mci_free(waiter->block);
    return NULL;
}

/* In the child only the forking thread is left, but the blocks of all are. */
static int count_in_child(const struct mci_alloc_stats *before)
{
    struct mci_alloc_stats now = stats_now();
    void *block = mci_alloc(1);
    struct mci_alloc_stats then = stats_now();
    mci_free(block);
    return now.blocks == before->blocks && now.bytes == before->bytes &&
                   then.blocks == before->blocks + 1
               ? 0
               : 1;
}

START_TEST(test_a_forked_child_keeps_the_balance)
{
    struct waiter waiter = {0};
    pthread_t thread;
    int status = -1;
    ck_assert_int_eq(pthread_create(&thread, NULL, hold_a_block, &waiter), 0);
    while (atomic_load(&waiter.stage) != 1) {
        sched_yield();
    }
    mci_free(mci_alloc(1)); /* so that this thread is counted already */
    struct mci_alloc_stats before = stats_now();
    pid_t child = fork();
    if (child == 0) {
        _exit(count_in_child(&before));
    }
    ck_assert_int_gt(child, 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    atomic_store(&waiter.stage, 2);
    pthread_join(thread, NULL);
    ck_assert_int_eq(stats_now().blocks, before.blocks - 1);
}
END_TEST

struct pair {
    void *first;
    void *second;
};

static enum mc_err make_pair(struct pair *pair)
{
    void *first = mci_alloc(10);
    void *second = first ? mci_alloc(10) : NULL;
    if (!second) {
        mci_free(first);
        return MC_ERR_NOMEM;
    }
    pair->first = first;
    pair->second = second;
    return MC_OK;
}

START_TEST(test_the_loop_of_failures_fails_each_allocation_once)
{
    struct alloc_fail fail;
    uint64_t rounds = 0;
    ALLOC_FAIL_EACH(fail)
    {
        struct pair pair = {0};
        alloc_fail_arm(&fail);
        enum mc_err err = make_pair(&pair);
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        rounds++;
        mci_free(pair.first);
        mci_free(pair.second);
    }
    ck_assert_uint_eq(rounds, 3);
}
END_TEST

static void add_counting(Suite *suite)
{
    TCase *tcase = tcase_create("counting");
    tcase_add_test(tcase, test_a_block_is_counted_while_it_lives);
    tcase_add_test(tcase, test_every_form_balances);
    tcase_add_test(tcase, test_contents_are_as_the_c_library_promises);
    tcase_add_test(tcase, test_size_zero_gives_a_block_and_free_takes_null);
    tcase_add_test(tcase, test_sizes_that_cannot_be_are_refused);
    suite_add_tcase(suite, tcase);
}

static void add_failing(Suite *suite)
{
    TCase *tcase = tcase_create("failing");
    tcase_add_test(tcase, test_the_kth_allocation_fails_and_only_that);
    tcase_add_test(tcase, test_tries_are_counted_also_when_they_fail);
    tcase_add_test(tcase, test_the_order_to_fail_is_the_calling_threads_own);
    tcase_add_test(tcase, test_the_loop_of_failures_fails_each_allocation_once);
    suite_add_tcase(suite, tcase);
}

static void add_threads(Suite *suite)
{
    TCase *tcase = tcase_create("threads");
    tcase_add_test(tcase, test_blocks_freed_by_another_thread_balance);
    tcase_add_test(tcase, test_what_a_thread_frees_at_its_very_end_is_counted);
    tcase_add_test(tcase, test_a_forked_child_keeps_the_balance);
    suite_add_tcase(suite, tcase);
}

int main(void)
{
    Suite *suite = suite_create("alloc");
    add_counting(suite);
    add_failing(suite);
    add_threads(suite);
    return suite_run(suite);
}
