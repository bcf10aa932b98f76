/* SPDX-License-Identifier: Apache-2.0 */
#include "mci_unpack.h"
#include "suite.h"

static struct mci_unpack unpack_of(const char *bytes, size_t len)
{
    struct mci_unpack unpack;
    mci_unpack_init(&unpack, mc_view_make(bytes, len));
    return unpack;
}
#define UNPACK_OF(literal) unpack_of(literal, sizeof(literal) - 1)

static void check_fault(struct mci_unpack *unpack, enum mci_unpack_error error,
                        size_t offset)
{
    ck_assert_str_eq(mci_unpack_error_name(mci_unpack_done(unpack)),
                     mci_unpack_error_name(error));
    if (error != MCI_UNPACK_OK) {
        ck_assert_uint_eq(unpack->error_offset, offset);
    }
}

/* Bounds in the call */

START_TEST(integers_come_in_any_width_within_their_bounds)
{
    static const struct {
        const char *bytes;
        size_t len;
        uint64_t value;
    } rows[] = {
        {"\x05", 1, 5},
        {"\xcc\x05", 2, 5},
        {"\xcd\x00\x05", 3, 5},
        {"\xce\x00\x00\x00\x05", 5, 5},
        {"\xcf\x00\x00\x00\x00\x00\x00\x00\x05", 9, 5},
        {"\xd0\x05", 2, 5},
        {"\xd1\x00\x05", 3, 5},
        {"\xd2\x00\x00\x00\x05", 5, 5},
        {"\xd3\x00\x00\x00\x00\x00\x00\x00\x05", 9, 5},
        {"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", 9, UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct mci_unpack unpack = unpack_of(rows[i].bytes, rows[i].len);
        ck_assert_int_eq(mci_unpack_peek(&unpack), MCI_UNPACK_INTEGER);
        ck_assert_uint_eq(mci_unpack_u64(&unpack, rows[i].value),
                          rows[i].value);
        check_fault(&unpack, MCI_UNPACK_OK, 0);
        unpack = unpack_of(rows[i].bytes, rows[i].len);
        ck_assert_uint_eq(mci_unpack_u64(&unpack, rows[i].value - 1), 0);
        check_fault(&unpack, MCI_UNPACK_ERROR_RANGE, 0);
    }
}
END_TEST

START_TEST(numbers_outside_their_bounds_are_refused)
{
    struct mci_unpack unpack = UNPACK_OF("\xff");
    ck_assert_uint_eq(mci_unpack_u64(&unpack, UINT64_MAX), 0);
    check_fault(&unpack, MCI_UNPACK_ERROR_RANGE, 0);
    unpack = UNPACK_OF("\xce\xff\xff\xff\xff");
    ck_assert_uint_eq(mci_unpack_u32(&unpack, UINT32_MAX), UINT32_MAX);
    check_fault(&unpack, MCI_UNPACK_OK, 0);
    unpack = UNPACK_OF("\xcf\x00\x00\x00\x01\x00\x00\x00\x00");
    ck_assert_uint_eq(mci_unpack_u32(&unpack, UINT32_MAX), 0);
    check_fault(&unpack, MCI_UNPACK_ERROR_RANGE, 0);
    unpack = UNPACK_OF("\xd3\x80\x00\x00\x00\x00\x00\x00\x00");
    ck_assert_int_eq(mci_unpack_i64(&unpack, INT64_MIN, 0), INT64_MIN);
    check_fault(&unpack, MCI_UNPACK_OK, 0);
    unpack = UNPACK_OF("\xcf\x80\x00\x00\x00\x00\x00\x00\x00");
    ck_assert_int_eq(mci_unpack_i64(&unpack, INT64_MIN, INT64_MAX), 0);
    check_fault(&unpack, MCI_UNPACK_ERROR_RANGE, 0);
    unpack = UNPACK_OF("\xd0\x80");
    ck_assert_int_eq(mci_unpack_i64(&unpack, -127, 0), 0);
    check_fault(&unpack, MCI_UNPACK_ERROR_RANGE, 0);
}
END_TEST

START_TEST(counts_are_compared_before_they_are_believed)
{
    struct mci_unpack unpack = UNPACK_OF("\x93\x01\x02\x03");
    ck_assert_uint_eq(mci_unpack_array(&unpack, 3, 3), 3);
    unpack = UNPACK_OF("\x93\x01\x02\x03");
    ck_assert_uint_eq(mci_unpack_array(&unpack, 4, 9), 0);
    check_fault(&unpack, MCI_UNPACK_ERROR_LENGTH, 0);
    unpack = UNPACK_OF("\x93\x01\x02\x03");
    ck_assert_uint_eq(mci_unpack_array(&unpack, 0, 2), 0);
    check_fault(&unpack, MCI_UNPACK_ERROR_LENGTH, 0);
    unpack = UNPACK_OF("\x93\x01\x02");
    ck_assert_uint_eq(mci_unpack_array(&unpack, 0, 9), 0);
    check_fault(&unpack, MCI_UNPACK_ERROR_TRUNCATED, 3);
    unpack = UNPACK_OF("\xdd\xff\xff\xff\xff");
    ck_assert_uint_eq(mci_unpack_array(&unpack, 0, UINT32_MAX), 0);
    check_fault(&unpack, MCI_UNPACK_ERROR_TRUNCATED, 5);
    unpack = UNPACK_OF("\x82\xa1"
                       "a\x01\xa1"
                       "b");
    ck_assert_uint_eq(mci_unpack_map(&unpack, 0, 2), 2);
    unpack = UNPACK_OF("\x82\xa1"
                       "a");
    ck_assert_uint_eq(mci_unpack_map(&unpack, 0, 2), 0);
    check_fault(&unpack, MCI_UNPACK_ERROR_TRUNCATED, 3);
    unpack = UNPACK_OF("\x80");
    ck_assert_uint_eq(mci_unpack_array(&unpack, 0, 2), 0);
    check_fault(&unpack, MCI_UNPACK_ERROR_TYPE, 0);
}
END_TEST

START_TEST(texts_have_a_bound_and_are_utf8)
{
    struct mci_unpack unpack = UNPACK_OF("\xa3"
                                         "abc");
    struct mc_view text = mci_unpack_str(&unpack, 3);
    ck_assert(mc_view_equal(text, mc_view_str("abc")));
    unpack = UNPACK_OF("\xa3"
                       "abc");
    text = mci_unpack_str(&unpack, 2);
    ck_assert_ptr_null(text.data);
    check_fault(&unpack, MCI_UNPACK_ERROR_LENGTH, 0);
    unpack = UNPACK_OF("\x01\xa2\xc3\x28");
    (void)mci_unpack_u64(&unpack, 9);
    text = mci_unpack_str(&unpack, 9);
    ck_assert_ptr_null(text.data);
    check_fault(&unpack, MCI_UNPACK_ERROR_UTF8, 1);
    unpack = UNPACK_OF("\xa0");
    text = mci_unpack_str(&unpack, 0);
    ck_assert_ptr_nonnull(text.data);
    ck_assert_uint_eq(text.len, 0);
    check_fault(&unpack, MCI_UNPACK_OK, 0);
    unpack = UNPACK_OF("\xc4\x01x");
    text = mci_unpack_str(&unpack, 9);
    check_fault(&unpack, MCI_UNPACK_ERROR_TYPE, 0);
}
END_TEST

START_TEST(bytes_have_two_bounds)
{
    struct mci_unpack unpack = UNPACK_OF("\xc4\x02\xff\xfe");
    struct mc_view bytes = mci_unpack_bin(&unpack, 2, 2);
    ck_assert(mc_view_equal(bytes, mc_view_make("\xff\xfe", 2)));
    check_fault(&unpack, MCI_UNPACK_OK, 0);
    unpack = UNPACK_OF("\xc4\x02\xff\xfe");
    (void)mci_unpack_bin(&unpack, 3, 9);
    check_fault(&unpack, MCI_UNPACK_ERROR_LENGTH, 0);
    unpack = UNPACK_OF("\xc4\x02\xff\xfe");
    (void)mci_unpack_bin(&unpack, 0, 1);
    check_fault(&unpack, MCI_UNPACK_ERROR_LENGTH, 0);
    unpack = UNPACK_OF("\xa1x");
    (void)mci_unpack_bin(&unpack, 0, 9);
    check_fault(&unpack, MCI_UNPACK_ERROR_TYPE, 0);
    unpack = UNPACK_OF("\xc6\xff\xff\xff\xffx");
    (void)mci_unpack_bin(&unpack, 0, SIZE_MAX);
    check_fault(&unpack, MCI_UNPACK_ERROR_TRUNCATED, 6);
}
END_TEST

START_TEST(a_str_can_be_had_as_it_is)
{
    struct mci_unpack unpack = UNPACK_OF("\xa2\xff\xfe");
    struct mc_view text = mci_unpack_str_raw(&unpack, 2);
    ck_assert(mc_view_equal(text, mc_view_make("\xff\xfe", 2)));
    check_fault(&unpack, MCI_UNPACK_OK, 0);
    unpack = UNPACK_OF("\xa2\xff\xfe");
    ck_assert_ptr_null(mci_unpack_str_raw(&unpack, 1).data);
    check_fault(&unpack, MCI_UNPACK_ERROR_LENGTH, 0);
    unpack = UNPACK_OF("\xc4\x01x");
    ck_assert_ptr_null(mci_unpack_str_raw(&unpack, 9).data);
    check_fault(&unpack, MCI_UNPACK_ERROR_TYPE, 0);
    unpack = UNPACK_OF("\xd9\x05x");
    ck_assert_ptr_null(mci_unpack_str_raw(&unpack, 9).data);
    check_fault(&unpack, MCI_UNPACK_ERROR_TRUNCATED, 3);
}
END_TEST

START_TEST(nil_bool_and_float_are_read)
{
    struct mci_unpack unpack =
        UNPACK_OF("\xc0\xc3\xc2\xca\x3f\xc0\x00\x00"
                  "\xcb\xbf\xf8\x00\x00\x00\x00\x00\x00\xc0\x07\xc0\xa1x");
    mci_unpack_nil(&unpack);
    ck_assert(mci_unpack_bool(&unpack));
    ck_assert(!mci_unpack_bool(&unpack));
    ck_assert(mci_unpack_float(&unpack) == 1.5);
    ck_assert(mci_unpack_float(&unpack) == -1.5);
    ck_assert(mci_unpack_took_nil(&unpack));
    ck_assert(!mci_unpack_took_nil(&unpack));
    ck_assert_uint_eq(mci_unpack_u32(&unpack, 7), 7);
    ck_assert_ptr_null(mci_unpack_str_or_nil(&unpack, 9).data);
    ck_assert_uint_eq(mci_unpack_str_or_nil(&unpack, 9).len, 1);
    check_fault(&unpack, MCI_UNPACK_OK, 0);
    unpack = UNPACK_OF("\x01");
    mci_unpack_nil(&unpack);
    check_fault(&unpack, MCI_UNPACK_ERROR_TYPE, 0);
    unpack = UNPACK_OF("\x01");
    ck_assert(!mci_unpack_bool(&unpack));
    check_fault(&unpack, MCI_UNPACK_ERROR_TYPE, 0);
    unpack = UNPACK_OF("\x01");
    ck_assert(mci_unpack_float(&unpack) == 0);
    check_fault(&unpack, MCI_UNPACK_ERROR_TYPE, 0);
}
END_TEST

/* The sticky fault */

START_TEST(after_a_fault_every_read_answers_zero_and_moves_nothing)
{
    struct mci_unpack unpack = UNPACK_OF("\x07\xa1x\x05\xc0\xc3\x91\x01");
    ck_assert_uint_eq(mci_unpack_u64(&unpack, 7), 7);
    ck_assert_uint_eq(mci_unpack_u64(&unpack, 7), 0);
    const uint8_t *at = unpack.at;
    ck_assert_ptr_null(mci_unpack_str(&unpack, 9).data);
    ck_assert_ptr_null(mci_unpack_bin(&unpack, 0, 9).data);
    ck_assert_uint_eq(mci_unpack_u32(&unpack, 9), 0);
    ck_assert_int_eq(mci_unpack_i64(&unpack, -9, 9), 0);
    ck_assert(!mci_unpack_bool(&unpack));
    ck_assert(!mci_unpack_took_nil(&unpack));
    ck_assert_uint_eq(mci_unpack_array(&unpack, 0, 9), 0);
    ck_assert_uint_eq(mci_unpack_map(&unpack, 0, 9), 0);
    ck_assert_int_eq(mci_unpack_peek(&unpack), MCI_UNPACK_NONE);
    mci_unpack_nil(&unpack);
    mci_unpack_skip(&unpack, 9);
    mci_unpack_refuse(&unpack, MCI_UNPACK_ERROR_UTF8);
    ck_assert_ptr_eq(unpack.at, at);
    check_fault(&unpack, MCI_UNPACK_ERROR_TYPE, 1);
}
END_TEST

START_TEST(a_message_ends_where_it_ends)
{
    struct mci_unpack unpack = UNPACK_OF("\x01\x02");
    (void)mci_unpack_u64(&unpack, 9);
    check_fault(&unpack, MCI_UNPACK_ERROR_TRAILING, 1);
    unpack = unpack_of(NULL, 0);
    check_fault(&unpack, MCI_UNPACK_OK, 0);
    ck_assert_int_eq(mci_unpack_peek(&unpack), MCI_UNPACK_NONE);
    (void)mci_unpack_u64(&unpack, 9);
    check_fault(&unpack, MCI_UNPACK_ERROR_TRUNCATED, 0);
    unpack = UNPACK_OF("\xc1");
    mci_unpack_nil(&unpack);
    check_fault(&unpack, MCI_UNPACK_ERROR_MALFORMED, 0);
    unpack = UNPACK_OF("\x01");
    mci_unpack_refuse(&unpack, MCI_UNPACK_ERROR_RANGE);
    check_fault(&unpack, MCI_UNPACK_ERROR_RANGE, 0);
}
END_TEST

START_TEST(a_skip_goes_as_deep_as_it_may)
{
    struct mci_unpack unpack = UNPACK_OF("\x91\x81\x01\x91\xc0\x05");
    mci_unpack_skip(&unpack, 3);
    ck_assert_uint_eq(mci_unpack_u64(&unpack, 5), 5);
    check_fault(&unpack, MCI_UNPACK_OK, 0);
    unpack = UNPACK_OF("\x91\x81\x01\x91\xc0\x05");
    mci_unpack_skip(&unpack, 2);
    check_fault(&unpack, MCI_UNPACK_ERROR_DEPTH, 3);
    unpack = UNPACK_OF("\x90");
    mci_unpack_skip(&unpack, 0);
    check_fault(&unpack, MCI_UNPACK_ERROR_DEPTH, 0);
    unpack = UNPACK_OF("\x07");
    mci_unpack_skip(&unpack, 0);
    check_fault(&unpack, MCI_UNPACK_OK, 0);
    unpack = UNPACK_OF("\x92\xa1\xff\x01");
    mci_unpack_skip(&unpack, 9);
    check_fault(&unpack, MCI_UNPACK_ERROR_UTF8, 1);

    char deep[64];
    memset(deep, 0x91, sizeof deep);
    deep[63] = (char)0xc0;
    unpack = unpack_of(deep, sizeof deep);
    mci_unpack_skip(&unpack, 1000);
    check_fault(&unpack, MCI_UNPACK_ERROR_DEPTH, MCI_UNPACK_DEPTH_MAX);
}
END_TEST

START_TEST(every_fault_has_a_name_of_its_own)
{
    for (int i = 0; i < MCI_UNPACK_ERROR_COUNT_; i++) {
        for (int k = 0; k < i; k++) {
            ck_assert_str_ne(mci_unpack_error_name((enum mci_unpack_error)i),
                             mci_unpack_error_name((enum mci_unpack_error)k));
        }
    }
    ck_assert_str_eq(mci_unpack_error_name(MCI_UNPACK_ERROR_COUNT_), "unknown");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("unpack");
    TCase *bounds = tcase_create("bounds");
    tcase_add_test(bounds, integers_come_in_any_width_within_their_bounds);
    tcase_add_test(bounds, numbers_outside_their_bounds_are_refused);
    tcase_add_test(bounds, counts_are_compared_before_they_are_believed);
    tcase_add_test(bounds, texts_have_a_bound_and_are_utf8);
    tcase_add_test(bounds, bytes_have_two_bounds);
    tcase_add_test(bounds, a_str_can_be_had_as_it_is);
    tcase_add_test(bounds, nil_bool_and_float_are_read);
    suite_add_tcase(suite, bounds);
    TCase *faults = tcase_create("faults");
    tcase_add_test(faults,
                   after_a_fault_every_read_answers_zero_and_moves_nothing);
    tcase_add_test(faults, a_message_ends_where_it_ends);
    tcase_add_test(faults, a_skip_goes_as_deep_as_it_may);
    tcase_add_test(faults, every_fault_has_a_name_of_its_own);
    suite_add_tcase(suite, faults);
    return suite_run(suite);
}
