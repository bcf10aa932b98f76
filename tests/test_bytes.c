/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <string.h>

#include "mc_view.h"
#include "mci_bytes.h"
#include "suite.h"

START_TEST(test_integers_are_big_endian_at_any_address)
{
    uint8_t bytes[16] = {0};
    static const uint8_t expected[] = {0xEE, 1, 2, 3, 4, 5, 6, 7, 8, 0xEE};
    for (size_t at = 0; at < 4; at++) {
        memset(bytes, 0xEE, sizeof bytes);
        mci_put_be64(bytes + 1 + at, UINT64_C(0x0102030405060708));
        ck_assert_mem_eq(bytes + at, expected, sizeof expected);
        ck_assert_uint_eq(mci_get_be64(bytes + 1 + at),
                          UINT64_C(0x0102030405060708));
        ck_assert_uint_eq(mci_get_be32(bytes + 1 + at), 0x01020304);
        ck_assert_uint_eq(mci_get_be16(bytes + 1 + at), 0x0102);
    }
    mci_put_be32(bytes, 0xA1B2C3D4);
    ck_assert_mem_eq(bytes, "\xA1\xB2\xC3\xD4", 4);
    mci_put_be16(bytes, 0xFFFE);
    ck_assert_mem_eq(bytes, "\xFF\xFE\xC3\xD4", 4);
}
END_TEST

START_TEST(test_sums_and_products_that_wrap_are_refused)
{
    size_t out = 77;
    ck_assert(mci_add_size(SIZE_MAX - 1, 1, &out));
    ck_assert_uint_eq(out, SIZE_MAX);
    ck_assert(mci_mul_size(SIZE_MAX / 2, 2, &out));
    ck_assert_uint_eq(out, SIZE_MAX - 1);
    ck_assert(!mci_add_size(SIZE_MAX, 1, &out));
    ck_assert(!mci_mul_size(SIZE_MAX / 2 + 1, 2, &out));
    ck_assert_uint_eq(out, SIZE_MAX - 1);
}
END_TEST

START_TEST(test_views_compare_bytes_and_tell_none_from_empty)
{
    struct mc_view none = mc_view_str(NULL);
    struct mc_view empty = mc_view_str("");
    ck_assert(mc_view_equal(none, none));
    ck_assert(mc_view_equal(empty, mc_view_make("x", 0)));
    ck_assert(!mc_view_equal(none, empty));
    ck_assert(!mc_view_equal(empty, none));
    ck_assert(mc_view_equal(mc_view_make("a\0b", 3), mc_view_make("a\0b", 3)));
    ck_assert(!mc_view_equal(mc_view_make("a\0b", 3), mc_view_make("a\0c", 3)));
    ck_assert(!mc_view_equal(mc_view_str("ab"), mc_view_str("abc")));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bytes");
    TCase *tcase = tcase_create("bytes");
    tcase_add_test(tcase, test_integers_are_big_endian_at_any_address);
    tcase_add_test(tcase, test_sums_and_products_that_wrap_are_refused);
    tcase_add_test(tcase, test_views_compare_bytes_and_tell_none_from_empty);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
