/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <string.h>

#include "alloc_fail.h"
#include "mci_buf.h"
#include "suite.h"

static void assert_holds(const struct mci_buf *buf, const char *text)
{
    ck_assert(mc_view_equal(mci_buf_view(buf), mc_view_str(text)));
}

START_TEST(test_appends_stand_behind_each_other)
{
    struct mci_buf buf;
    mci_buf_init(&buf, 1000);
    ck_assert_int_eq(mci_buf_append(&buf, "ab", 2), MC_OK);
    ck_assert_int_eq(mci_buf_append_byte(&buf, 'c'), MC_OK);
    ck_assert_int_eq(mci_buf_append(&buf, NULL, 0), MC_OK);
    ck_assert_int_eq(mci_buf_printf(&buf, "-%d-", 42), MC_OK);
    assert_holds(&buf, "abc-42-");
    mci_buf_fini(&buf);
}
END_TEST

START_TEST(test_an_empty_buffer_gives_an_empty_view_not_none)
{
    struct mci_buf buf;
    mci_buf_init(&buf, 10);
    ck_assert_ptr_nonnull(mci_buf_view(&buf).data);
    ck_assert_uint_eq(mci_buf_view(&buf).len, 0);
    mci_buf_fini(&buf);
    struct mci_buf zeroed = {0};
    mci_buf_fini(&zeroed);
}
END_TEST

START_TEST(test_the_maximum_fits_and_one_more_does_not)
{
    struct mci_buf buf;
    mci_buf_init(&buf, 5);
    ck_assert_int_eq(mci_buf_append(&buf, "123456", 6), MC_ERR_BUFFER_OVERFLOW);
    ck_assert_int_eq(mci_buf_append(&buf, "12345", 5), MC_OK);
    ck_assert_int_eq(mci_buf_append_byte(&buf, '6'), MC_ERR_BUFFER_OVERFLOW);
    ck_assert_int_eq(mci_buf_printf(&buf, "%c", '6'), MC_ERR_BUFFER_OVERFLOW);
    ck_assert_int_eq(mci_buf_printf(&buf, "%s", ""), MC_OK);
    assert_holds(&buf, "12345");
    mci_buf_fini(&buf);
}
END_TEST

START_TEST(test_printf_may_fill_the_maximum)
{
    struct mci_buf buf;
    mci_buf_init(&buf, 4);
    ck_assert_int_eq(mci_buf_printf(&buf, "%d", 1234), MC_OK);
    assert_holds(&buf, "1234");
    mci_buf_fini(&buf);
}
END_TEST

START_TEST(test_lengths_near_the_end_of_size_t_do_not_wrap)
{
    struct mci_buf buf;
    mci_buf_init(&buf, SIZE_MAX);
    ck_assert_int_eq(mci_buf_append(&buf, "abc", 3), MC_OK);
    ck_assert_int_eq(mci_buf_reserve(&buf, SIZE_MAX), MC_ERR_BUFFER_OVERFLOW);
    ck_assert_int_eq(mci_buf_reserve(&buf, SIZE_MAX - 3), MC_ERR_NOMEM);
    assert_holds(&buf, "abc");
    mci_buf_fini(&buf);
}
END_TEST

START_TEST(test_what_was_reserved_is_appended_without_allocating)
{
    struct mci_buf buf;
    char text[300];
    memset(text, 'r', sizeof text);
    mci_buf_init(&buf, 1000);
    ck_assert_int_eq(mci_buf_reserve(&buf, sizeof text), MC_OK);
    uint64_t before = mci_alloc_thread_calls();
    for (size_t i = 0; i < sizeof text / 10; i++) {
        ck_assert_int_eq(mci_buf_append(&buf, text, 10), MC_OK);
    }
    ck_assert_uint_eq(mci_alloc_thread_calls(), before);
    mci_buf_fini(&buf);
}
END_TEST

START_TEST(test_clear_keeps_the_memory)
{
    struct mci_buf buf;
    mci_buf_init(&buf, 1000);
    ck_assert_int_eq(mci_buf_append(&buf, "abc", 3), MC_OK);
    uint64_t before = mci_alloc_thread_calls();
    mci_buf_clear(&buf);
    ck_assert_int_eq(mci_buf_append(&buf, "de", 2), MC_OK);
    assert_holds(&buf, "de");
    ck_assert_uint_eq(mci_alloc_thread_calls(), before);
    mci_buf_fini(&buf);
}
END_TEST

START_TEST(test_a_million_bytes_cost_few_allocations)
{
    struct mci_buf buf;
    mci_buf_init(&buf, 1000000);
    uint64_t before = mci_alloc_thread_calls();
    for (int i = 0; i < 1000000; i++) {
        if (mci_buf_append_byte(&buf, (uint8_t)i)) {
            ck_abort_msg("byte %d is refused", i);
        }
    }
    ck_assert_uint_le(mci_alloc_thread_calls() - before, 20);
    for (int i = 0; i < 1000000; i += 997) {
        ck_assert_uint_eq(buf.data[i], (uint8_t)i);
    }
    mci_buf_fini(&buf);
}
END_TEST

START_TEST(test_out_of_memory_leaves_the_content)
{
    struct alloc_fail fail;
    ALLOC_FAIL_EACH(fail)
    {
        struct mci_buf buf;
        char text[200];
        memset(text, 'x', sizeof text);
        mci_buf_init(&buf, 1000);
        ck_assert_int_eq(mci_buf_append(&buf, "abc", 3), MC_OK);
        alloc_fail_arm(&fail);
        enum mc_err err = mci_buf_append(&buf, text, sizeof text);
        alloc_fail_disarm(&fail);
        if (alloc_fail_happened(&fail)) {
            ck_assert_int_eq(err, MC_ERR_NOMEM);
            assert_holds(&buf, "abc");
        } else {
            ck_assert_int_eq(err, MC_OK);
            ck_assert_uint_eq(buf.len, 203);
        }
        mci_buf_fini(&buf);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("buf");
    TCase *tcase = tcase_create("content");
    tcase_add_test(tcase, test_appends_stand_behind_each_other);
    tcase_add_test(tcase, test_an_empty_buffer_gives_an_empty_view_not_none);
    tcase_add_test(tcase, test_the_maximum_fits_and_one_more_does_not);
    tcase_add_test(tcase, test_printf_may_fill_the_maximum);
    tcase_add_test(tcase, test_lengths_near_the_end_of_size_t_do_not_wrap);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("memory");
    tcase_add_test(tcase,
                   test_what_was_reserved_is_appended_without_allocating);
    tcase_add_test(tcase, test_clear_keeps_the_memory);
    tcase_add_test(tcase, test_a_million_bytes_cost_few_allocations);
    tcase_add_test(tcase, test_out_of_memory_leaves_the_content);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
