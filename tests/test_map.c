/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "alloc_fail.h"
#include "mci_map.h"
#include "suite.h"

static struct mc_view key_of(const char *text)
{
    return mc_view_str(text);
}

static void must_put(struct mci_map *map, struct mc_view key, void *value)
{
    ck_assert_int_eq(mci_map_put(map, key, value, NULL), MC_OK);
}

START_TEST(test_what_was_put_is_found_until_removed)
{
    struct mci_map map;
    int one;
    int two;
    mci_map_init(&map, 100);
    ck_assert_ptr_null(mci_map_get(&map, key_of("a")));
    ck_assert_ptr_null(mci_map_remove(&map, key_of("a")));
    must_put(&map, key_of("a"), &one);
    must_put(&map, key_of("b"), &two);
    ck_assert_ptr_eq(mci_map_get(&map, key_of("a")), &one);
    ck_assert_ptr_eq(mci_map_get(&map, key_of("b")), &two);
    ck_assert_ptr_null(mci_map_get(&map, key_of("ab")));
    ck_assert_ptr_eq(mci_map_remove(&map, key_of("a")), &one);
    ck_assert_ptr_null(mci_map_get(&map, key_of("a")));
    ck_assert_uint_eq(map.count, 1);
    mci_map_fini(&map);
}
END_TEST

START_TEST(test_a_second_put_replaces_and_tells_the_old_value)
{
    struct mci_map map;
    int one;
    int two;
    void *old = &two;
    mci_map_init(&map, 1);
    ck_assert_int_eq(mci_map_put(&map, key_of("a"), &one, &old), MC_OK);
    ck_assert_ptr_null(old);
    ck_assert_int_eq(mci_map_put(&map, key_of("a"), &two, &old), MC_OK);
    ck_assert_ptr_eq(old, &one);
    ck_assert_ptr_eq(mci_map_get(&map, key_of("a")), &two);
    ck_assert_uint_eq(map.count, 1);
    mci_map_fini(&map);
}
END_TEST

START_TEST(test_keys_are_bytes_and_copied)
{
    struct mci_map map;
    char key[] = {'x', '\0', 'y'};
    int one;
    int two;
    int three;
    mci_map_init(&map, 10);
    must_put(&map, mc_view_make(key, 3), &one);
    must_put(&map, mc_view_make(key, 1), &two);
    must_put(&map, mc_view_make(key, 0), &three);
    memset(key, 'z', sizeof key);
    ck_assert_ptr_eq(mci_map_get(&map, mc_view_make("x\0y", 3)), &one);
    ck_assert_ptr_eq(mci_map_get(&map, key_of("x")), &two);
    ck_assert_ptr_eq(mci_map_get(&map, mc_view_make(NULL, 0)), &three);
    mci_map_fini(&map);
}
END_TEST

START_TEST(test_at_the_maximum_new_keys_are_refused_and_old_ones_replaced)
{
    struct mci_map map;
    int one;
    void *old = &map;
    mci_map_init(&map, 2);
    must_put(&map, key_of("a"), &one);
    must_put(&map, key_of("b"), &one);
    ck_assert_int_eq(mci_map_put(&map, key_of("c"), &one, &old),
                     MC_ERR_BUFFER_OVERFLOW);
    ck_assert_ptr_eq(old, &map);
    must_put(&map, key_of("b"), &map);
    ck_assert_ptr_eq(mci_map_remove(&map, key_of("a")), &one);
    must_put(&map, key_of("c"), &one);
    ck_assert_uint_eq(map.count, 2);
    mci_map_fini(&map);
}
END_TEST

START_TEST(test_fini_takes_zeroed_and_unused_maps)
{
    struct mci_map map = {0};
    mci_map_fini(&map);
    ck_assert_ptr_null(map.slots);
    mci_map_init(&map, 5);
    mci_map_fini(&map);
    ck_assert_ptr_null(map.slots);
    ck_assert_uint_eq(map.count, 0);
    ck_assert_uint_eq(map.max, 5);
    ck_assert_ptr_null(mci_map_get(&map, mc_view_str("k")));
}
END_TEST

#define KEYS 3000

static struct mc_view numbered(unsigned number, char text[24])
{
    (void)snprintf(text, 24, "key-%u", number);
    return mc_view_str(text);
}

/* A plain array says what the map must answer; removal leaves no key behind
 * that a closed hole would hide. */
START_TEST(test_random_puts_and_removes_answer_like_an_array)
{
    static unsigned char model[KEYS];
    static unsigned char seen[KEYS];
    struct mci_map map;
    uint32_t state = 12345;
    size_t count = 0;
    char text[24];
    memset(model, 0, sizeof model);
    memset(seen, 0, sizeof seen);
    mci_map_init(&map, KEYS);
    for (int i = 0; i < 60000; i++) {
        state = state * 1664525u + 1013904223u;
        unsigned number = (state >> 8) % KEYS;
        void *expected = model[number] ? &model[number] : NULL;
        struct mc_view key = numbered(number, text);
        if (state >> 31) {
            void *old = NULL;
            ck_assert_int_eq(mci_map_put(&map, key, &model[number], &old),
                             MC_OK);
            ck_assert_ptr_eq(old, expected);
            count += expected ? 0 : 1;
            model[number] = 1;
        } else {
            ck_assert_ptr_eq(mci_map_remove(&map, key), expected);
            count -= expected ? 1 : 0;
            model[number] = 0;
        }
        ck_assert_uint_eq(map.count, count);
    }
    for (unsigned number = 0; number < KEYS; number++) {
        ck_assert_ptr_eq(mci_map_get(&map, numbered(number, text)),
                         model[number] ? &model[number] : NULL);
    }
    size_t cursor = 0;
    struct mc_view key;
    void *value;
    while (mci_map_next(&map, &cursor, &key, &value)) {
        size_t number = (size_t)((unsigned char *)value - model);
        ck_assert(mc_view_equal(key, numbered((unsigned)number, text)));
        ck_assert_uint_eq(seen[number]++, 0);
        count--;
    }
    ck_assert_uint_eq(count, 0);
    ck_assert_mem_eq(seen, model, sizeof model);
    mci_map_fini(&map);
}
END_TEST

START_TEST(test_it_stays_at_most_three_quarters_full)
{
    struct mci_map map;
    char text[24];
    mci_map_init(&map, KEYS);
    for (unsigned number = 0; number < KEYS; number++) {
        must_put(&map, numbered(number, text), &map);
        ck_assert_uint_le(map.count * 4, map.capacity * 3);
        ck_assert_uint_eq(map.capacity & (map.capacity - 1), 0);
    }
    mci_map_fini(&map);
}
END_TEST

/* 12 entries fill the first table, so the 13th grows it. */
START_TEST(test_out_of_memory_changes_nothing)
{
    struct alloc_fail fail;
    int failures = 0;
    ALLOC_FAIL_EACH(fail)
    {
        struct mci_map map;
        char text[24];
        mci_map_init(&map, 100);
        for (unsigned number = 0; number < 12; number++) {
            must_put(&map, numbered(number, text), &map);
        }
        void *old = &map;
        alloc_fail_arm(&fail);
        enum mc_err err = mci_map_put(&map, key_of("new"), &map, &old);
        alloc_fail_disarm(&fail);
        if (alloc_fail_happened(&fail)) {
            ck_assert_int_eq(err, MC_ERR_NOMEM);
            ck_assert_ptr_eq(old, &map);
            ck_assert_uint_eq(map.count, 12);
            ck_assert_ptr_null(mci_map_get(&map, key_of("new")));
            failures++;
        } else {
            ck_assert_int_eq(err, MC_OK);
        }
        for (unsigned number = 0; number < 12; number++) {
            ck_assert_ptr_eq(mci_map_get(&map, numbered(number, text)), &map);
        }
        mci_map_fini(&map);
    }
    ck_assert_int_eq(failures, 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("map");
    TCase *tcase = tcase_create("map");
    tcase_add_test(tcase, test_what_was_put_is_found_until_removed);
    tcase_add_test(tcase, test_a_second_put_replaces_and_tells_the_old_value);
    tcase_add_test(tcase, test_keys_are_bytes_and_copied);
    tcase_add_test(
        tcase, test_at_the_maximum_new_keys_are_refused_and_old_ones_replaced);
    tcase_add_test(tcase, test_fini_takes_zeroed_and_unused_maps);
    tcase_add_test(tcase, test_random_puts_and_removes_answer_like_an_array);
    tcase_add_test(tcase, test_it_stays_at_most_three_quarters_full);
    tcase_add_test(tcase, test_out_of_memory_changes_nothing);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
