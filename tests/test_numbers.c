/* SPDX-License-Identifier: Apache-2.0 */
#include <check.h>
#include <stdlib.h>

#include "alloc_fail.h"
#include "numbers.h"
#include "suite.h"

#define KEYS 512

START_TEST(it_answers_what_a_plain_array_does)
{
    struct mci_numbers numbers = {.count = 0};
    uint64_t values[KEYS + 1] = {0};
    uint64_t dice = 88172645463325252ULL;
    size_t count = 0;
    for (int i = 0; i < 200000; i++) {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        uint64_t key = 1 + dice % KEYS;
        if (dice >> 40 & 1) {
            ck_assert_int_eq(mci_numbers_reserve(&numbers, 1), MC_OK);
            mci_numbers_put(&numbers, key, dice | 1);
            count += values[key] == 0;
            values[key] = dice | 1;
        } else {
            mci_numbers_remove(&numbers, key);
            count -= values[key] != 0;
            values[key] = 0;
        }
        uint64_t other = 1 + (dice >> 20) % KEYS;
        uint64_t value = 0;
        bool is_there = mci_numbers_get(&numbers, other, &value);
        ck_assert_int_eq(is_there, values[other] != 0);
        ck_assert_uint_eq(value, values[other]);
        ck_assert_uint_eq(numbers.count, count);
    }
    mci_numbers_fini(&numbers);
}
END_TEST

START_TEST(nothing_is_in_an_empty_one_and_zero_is_no_key)
{
    struct mci_numbers numbers = {.count = 0};
    uint64_t value = 7;
    ck_assert(!mci_numbers_get(&numbers, 1, &value));
    mci_numbers_remove(&numbers, 1);
    ck_assert_int_eq(mci_numbers_reserve(&numbers, SIZE_MAX), MC_ERR_NOMEM);
    ck_assert_int_eq(mci_numbers_reserve(&numbers, 1), MC_OK);
    mci_numbers_put(&numbers, UINT64_MAX, 3);
    ck_assert(!mci_numbers_get(&numbers, 0, &value));
    mci_numbers_remove(&numbers, 0);
    ck_assert_uint_eq(value, 7);
    ck_assert(mci_numbers_get(&numbers, UINT64_MAX, &value));
    ck_assert_uint_eq(value, 3);
    mci_numbers_fini(&numbers);
    ck_assert_uint_eq(numbers.count, 0);
}
END_TEST

START_TEST(growing_without_memory_keeps_what_is_there)
{
    struct alloc_fail fail;
    ALLOC_FAIL_EACH(fail)
    {
        struct mci_numbers numbers = {.count = 0};
        alloc_fail_arm(&fail);
        enum mc_err err = MC_OK;
        for (uint64_t key = 1; key <= 100 && err == MC_OK; key++) {
            err = mci_numbers_reserve(&numbers, 1);
            if (err == MC_OK) {
                mci_numbers_put(&numbers, key, key);
            }
        }
        alloc_fail_disarm(&fail);
        ck_assert_int_eq(err,
                         alloc_fail_happened(&fail) ? MC_ERR_NOMEM : MC_OK);
        uint64_t value = 0;
        for (uint64_t key = 1; key <= numbers.count; key++) {
            ck_assert(mci_numbers_get(&numbers, key, &value));
            ck_assert_uint_eq(value, key);
        }
        mci_numbers_fini(&numbers);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store.numbers");
    TCase *tcase = tcase_create("numbers");
    tcase_add_test(tcase, it_answers_what_a_plain_array_does);
    tcase_add_test(tcase, nothing_is_in_an_empty_one_and_zero_is_no_key);
    tcase_add_test(tcase, growing_without_memory_keeps_what_is_there);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
