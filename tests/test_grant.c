/* SPDX-License-Identifier: Apache-2.0 */
/* The tags below were made by openssl's SipHash over the words in order. */
#include <string.h>

#include "mc_grant.h"
#include "suite.h"

static const uint8_t key[MC_GRANT_KEY_LEN] = {0, 1, 2,  3,  4,  5,  6,  7,
                                              8, 9, 10, 11, 12, 13, 14, 15};
static const struct mc_grant_terms terms = {
    .registration = 0x1112131415161718,
    .incarnation = 0x2122232425262728,
    .subject = 0x10000000001,
    .offset = 4096,
    .len = 2097152,
    .is_write = true,
};
#define DEADLINE_NS UINT64_C(123456789012345678)

START_TEST(a_tag_is_over_words_of_fixed_width)
{
    struct mc_grant_terms read = terms;
    read.is_write = false;
    ck_assert_uint_eq(mc_grant_tag(key, &terms, DEADLINE_NS),
                      UINT64_C(0xdbf0fad32e1a48f6));
    ck_assert_uint_eq(mc_grant_tag(key, &read, DEADLINE_NS),
                      UINT64_C(0x27c8ee6f82501368));
}
END_TEST

START_TEST(a_receipt_is_over_registration_and_attempt)
{
    ck_assert_uint_eq(mc_grant_receipt(key, terms.registration, terms.subject),
                      UINT64_C(0xd020efbdf3733867));
}
END_TEST

START_TEST(every_term_counts)
{
    uint64_t tag = mc_grant_tag(key, &terms, DEADLINE_NS);
    struct mc_grant_terms other[6];
    for (size_t i = 0; i < 6; i++) {
        other[i] = terms;
    }
    other[0].registration++;
    other[1].incarnation++;
    other[2].subject++;
    other[3].offset++;
    other[4].len++;
    other[5].is_write = false;
    for (size_t i = 0; i < 6; i++) {
        ck_assert_uint_ne(mc_grant_tag(key, &other[i], DEADLINE_NS), tag);
    }
    ck_assert_uint_ne(mc_grant_tag(key, &terms, DEADLINE_NS + 1), tag);
}
END_TEST

START_TEST(moving_a_byte_from_one_term_to_the_next_makes_another_tag)
{
    struct mc_grant_terms a = {.offset = 0x100, .len = 0};
    struct mc_grant_terms b = {.offset = 0, .len = 0x100};
    ck_assert_uint_ne(mc_grant_tag(key, &a, 0), mc_grant_tag(key, &b, 0));
}
END_TEST

START_TEST(receipts_are_of_one_registration_and_one_attempt)
{
    uint64_t receipt = mc_grant_receipt(key, 1, 2);
    uint8_t other[MC_GRANT_KEY_LEN];
    memcpy(other, key, sizeof other);
    other[15]++;
    ck_assert_uint_ne(receipt, 0);
    ck_assert_uint_ne(mc_grant_receipt(key, 2, 2), receipt);
    ck_assert_uint_ne(mc_grant_receipt(key, 1, 3), receipt);
    ck_assert_uint_ne(mc_grant_receipt(key, 2, 1), receipt);
    ck_assert_uint_ne(mc_grant_receipt(other, 1, 2), receipt);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("grant");
    TCase *grants = tcase_create("grants");
    tcase_add_test(grants, a_tag_is_over_words_of_fixed_width);
    tcase_add_test(grants, a_receipt_is_over_registration_and_attempt);
    tcase_add_test(grants, every_term_counts);
    tcase_add_test(grants,
                   moving_a_byte_from_one_term_to_the_next_makes_another_tag);
    tcase_add_test(grants, receipts_are_of_one_registration_and_one_attempt);
    suite_add_tcase(suite, grants);
    return suite_run(suite);
}
