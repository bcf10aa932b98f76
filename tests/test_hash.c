/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <string.h>

#include "mci_hash.h"
#include "suite.h"

/* Well-known digests of XXH3; they must not change, since keys are made of
 * them. */
START_TEST(test_hashes_are_xxh3)
{
    ck_assert_uint_eq(mci_hash64("", 0), UINT64_C(0x2d06800538d394c2));
    ck_assert_uint_eq(mci_hash64(NULL, 0), UINT64_C(0x2d06800538d394c2));
    ck_assert_uint_eq(mci_hash64("abc", 3), UINT64_C(0x78af5f94892f3950));
}
END_TEST

START_TEST(test_the_128_bit_hash_is_in_canonical_order)
{
    static const uint8_t of_abc[16] = {0x06, 0xb0, 0x5a, 0xb6, 0x73, 0x3a,
                                       0x61, 0x85, 0x78, 0xaf, 0x5f, 0x94,
                                       0x89, 0x2f, 0x39, 0x50};
    static const uint8_t of_nothing[16] = {0x99, 0xaa, 0x06, 0xd3, 0x01, 0x47,
                                           0x98, 0xd8, 0x60, 0x01, 0xc3, 0x24,
                                           0x46, 0x8d, 0x49, 0x7f};
    uint8_t out[16];
    mci_hash128("abc", 3, out);
    ck_assert_mem_eq(out, of_abc, sizeof out);
    mci_hash128("", 0, out);
    ck_assert_mem_eq(out, of_nothing, sizeof out);
}
END_TEST

START_TEST(test_a_seed_changes_the_hash_and_zero_does_not)
{
    ck_assert_uint_eq(mci_hash64_seeded("abc", 3, 0), mci_hash64("abc", 3));
    ck_assert_uint_ne(mci_hash64_seeded("abc", 3, 1), mci_hash64("abc", 3));
    ck_assert_uint_ne(mci_hash64_seeded("abc", 3, 1),
                      mci_hash64_seeded("abc", 3, 2));
}
END_TEST

START_TEST(test_pieces_have_the_hash_of_the_whole)
{
    static struct {
        uint8_t shift;
        struct mci_hash_stream stream;
    } at;
    static uint8_t bytes[5000];
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] = (uint8_t)(i * 31 >> 2);
    }
    for (size_t cut = 0; cut <= sizeof bytes; cut += 250) {
        mci_hash_begin(&at.stream, 17);
        mci_hash_add(&at.stream, bytes, cut);
        mci_hash_add(&at.stream, NULL, 0);
        mci_hash_add(&at.stream, bytes + cut, sizeof bytes - cut);
        ck_assert_uint_eq(mci_hash_end(&at.stream),
                          mci_hash64_seeded(bytes, sizeof bytes, 17));
    }
    mci_hash_begin(&at.stream, 17);
    ck_assert_uint_eq(mci_hash_end(&at.stream), mci_hash64_seeded("", 0, 17));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("hash");
    TCase *tcase = tcase_create("known answers");
    tcase_add_test(tcase, test_hashes_are_xxh3);
    tcase_add_test(tcase, test_the_128_bit_hash_is_in_canonical_order);
    tcase_add_test(tcase, test_a_seed_changes_the_hash_and_zero_does_not);
    tcase_add_test(tcase, test_pieces_have_the_hash_of_the_whole);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
