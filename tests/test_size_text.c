/* SPDX-License-Identifier: Apache-2.0 */
/* test_size_text.c - sizes as people write them. */
#include <check.h>

#include "size_text.h"
#include "suite.h"

START_TEST(sizes_are_numbers_with_a_unit_or_none)
{
    static const struct {
        const char *text;
        uint64_t bytes;
    } rows[] = {
        {"0", 0},
        {"7b", 7},
        {"3k", 3072},
        {"3Kb", 3072},
        {"2 mb", 2 << 20},
        {"1M", 1 << 20},
        {"5G", UINT64_C(5) << 30},
        {"16777215TB", UINT64_C(16777215) << 40},
        {"9999999999999999999", UINT64_C(9999999999999999999)},
        {"16777216TB", UINT64_MAX},
        {"9999999999999999999 k", UINT64_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint64_t bytes = 1;
        ck_assert_msg(mci_size_parse(rows[i].text, &bytes) &&
                          bytes == rows[i].bytes,
                      "%s: %ju", rows[i].text, (uintmax_t)bytes);
    }
}
END_TEST

START_TEST(other_texts_are_none)
{
    static const char *const texts[] = {"",
                                        "b",
                                        "gb",
                                        "-1",
                                        "+1",
                                        "1.5g",
                                        " 1",
                                        "1  k",
                                        "1kk",
                                        "1 xb",
                                        "4xb",
                                        "1gib",
                                        "0x10",
                                        "1bb",
                                        "1kb ",
                                        "1,0",
                                        "10000000000000000000"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        uint64_t bytes = 1;
        ck_assert_msg(!mci_size_parse(texts[i], &bytes), "%s", texts[i]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("size_text");
    TCase *tcase = tcase_create("texts");
    tcase_add_test(tcase, sizes_are_numbers_with_a_unit_or_none);
    tcase_add_test(tcase, other_texts_are_none);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
