/* SPDX-License-Identifier: Apache-2.0 */
/* The second opinion is a table: the well-formed byte sequences of the Unicode
 * Standard (Table 3-7), row by row, with no arithmetic shared with the code
 * under test. */
#include <stdint.h>
#include <string.h>

#include "mci_utf8.h"
#include "suite.h"

struct well_formed {
    size_t len;
    uint8_t low[4];
    uint8_t high[4];
};

static const struct well_formed table[] = {
    {1, {0x00}, {0x7F}},
    {2, {0xC2, 0x80}, {0xDF, 0xBF}},
    {3, {0xE0, 0xA0, 0x80}, {0xE0, 0xBF, 0xBF}},
    {3, {0xE1, 0x80, 0x80}, {0xEC, 0xBF, 0xBF}},
    {3, {0xED, 0x80, 0x80}, {0xED, 0x9F, 0xBF}},
    {3, {0xEE, 0x80, 0x80}, {0xEF, 0xBF, 0xBF}},
    {4, {0xF0, 0x90, 0x80, 0x80}, {0xF0, 0xBF, 0xBF, 0xBF}},
    {4, {0xF1, 0x80, 0x80, 0x80}, {0xF3, 0xBF, 0xBF, 0xBF}},
    {4, {0xF4, 0x80, 0x80, 0x80}, {0xF4, 0x8F, 0xBF, 0xBF}},
};

/* Length of the well-formed sequence at p, 0 if there is none. */
static size_t sequence_len(const uint8_t *p, size_t len)
{
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        const struct well_formed *row = &table[i];
        size_t at = 0;
        while (at < row->len && at < len && p[at] >= row->low[at] &&
               p[at] <= row->high[at]) {
            at++;
        }
        if (at == row->len) {
            return at;
        }
    }
    return 0;
}

static bool is_well_formed(const uint8_t *p, size_t len)
{
    while (len > 0) {
        size_t used = sequence_len(p, len);
        if (used == 0) {
            return false;
        }
        p += used;
        len -= used;
    }
    return true;
}

/* Without Check's bookkeeping, which would cost more than the answer. */
static void compare(const uint8_t *p, size_t len)
{
    if (mci_utf8_valid(p, len) != is_well_formed(p, len)) {
        ck_abort_msg("%zu bytes %02x %02x %02x %02x are judged wrongly", len,
                     p[0], len > 1 ? p[1] : 0, len > 2 ? p[2] : 0,
                     len > 3 ? p[3] : 0);
    }
}

START_TEST(test_all_sequences_of_one_to_three_bytes)
{
    uint8_t bytes[4] = {0};
    for (unsigned a = 0; a < 256; a++) {
        bytes[0] = (uint8_t)a;
        compare(bytes, 1);
        for (unsigned b = 0; b < 256; b++) {
            bytes[1] = (uint8_t)b;
            compare(bytes, 2);
            for (unsigned c = 0; c < 256; c++) {
                bytes[2] = (uint8_t)c;
                compare(bytes, 3);
            }
        }
    }
}
END_TEST

/* All leading bytes; of the others each value on either side of a bound. */
START_TEST(test_sequences_of_four_bytes_around_every_bound)
{
    static const uint8_t edges[] = {0x00, 0x7F, 0x80, 0x81, 0x8F, 0x90, 0x9F,
                                    0xA0, 0xBF, 0xC0, 0xC2, 0xED, 0xF4, 0xFF};
    uint8_t bytes[4];
    for (unsigned a = 0; a < 256; a++) {
        bytes[0] = (uint8_t)a;
        for (unsigned b = 0; b < 256; b++) {
            bytes[1] = (uint8_t)b;
            for (size_t c = 0; c < sizeof edges; c++) {
                bytes[2] = edges[c];
                for (size_t d = 0; d < sizeof edges; d++) {
                    bytes[3] = edges[d];
                    compare(bytes, 4);
                }
            }
        }
    }
}
END_TEST

START_TEST(test_random_sequences_of_four_to_forty_bytes)
{
    uint64_t state = 88172645463325252u;
    uint8_t bytes[40];
    int valid = 0;
    for (int i = 0; i < 500000; i++) {
        size_t len = 4 + (size_t)i % 37;
        for (size_t at = 0; at < len;) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            /* Mostly sequences from the table, so that valid text occurs. */
            const struct well_formed *row =
                &table[state % (sizeof table / sizeof table[0])];
            for (size_t j = 0; j < row->len && at < len; j++) {
                unsigned span = (unsigned)(row->high[j] - row->low[j]) + 1;
                bytes[at++] =
                    (uint8_t)(row->low[j] + (state >> (8 + 8 * j)) % span);
            }
        }
        if (i % 3 == 0) {
            bytes[(state >> 40) % len] = (uint8_t)(state >> 50);
        }
        valid += is_well_formed(bytes, len) ? 1 : 0;
        compare(bytes, len);
    }
    ck_assert_int_gt(valid, 50000);
    ck_assert_int_lt(valid, 450000);
}
END_TEST

START_TEST(test_named_cases)
{
    static const struct {
        const char *bytes;
        size_t len;
        bool is_valid;
    } cases[] = {
        {"", 0, true},
        {"a\0b", 3, true},
        {"\xFF", 1, false},
        {"\xC0\x80", 2, false},         /* overlong NUL */
        {"\xE0\x80\x80", 3, false},     /* overlong */
        {"\xF0\x80\x80\x80", 4, false}, /* overlong */
        {"\xED\xA0\x80", 3, false},     /* first surrogate */
        {"\xED\xBF\xBF", 3, false},     /* last surrogate */
        {"\xED\x9F\xBF", 3, true},
        {"\xE2\x82", 2, false},         /* cut */
        {"\xE2\x82\xAC", 3, true},      /* euro sign */
        {"\xEF\xBF\xBE", 3, true},      /* U+FFFE, a noncharacter */
        {"\xEF\xBF\xBF", 3, true},      /* U+FFFF */
        {"\xEF\xB7\x90", 3, true},      /* U+FDD0 */
        {"\xF4\x8F\xBF\xBF", 4, true},  /* U+10FFFF */
        {"\xF4\x90\x80\x80", 4, false}, /* U+110000 */
        {"\xF8\x88\x80\x80\x80", 5, false},
        {"\x80", 1, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ck_assert_msg(mci_utf8_valid(cases[i].bytes, cases[i].len) ==
                          cases[i].is_valid,
                      "case %zu", i);
    }
    ck_assert(mci_utf8_valid(NULL, 0));
}
END_TEST

/* The skip takes eight bytes at a time: a bad byte must be seen at each place
 * and a good sequence may lie across each border. */
START_TEST(test_every_place_in_a_long_text_is_looked_at)
{
    for (size_t len = 1; len <= 40; len++) {
        for (size_t at = 0; at < len; at++) {
            uint8_t bytes[40];
            memset(bytes, 'a', sizeof bytes);
            ck_assert(mci_utf8_valid(bytes, len));
            bytes[at] = 0xFF;
            ck_assert(!mci_utf8_valid(bytes, len));
            memcpy(bytes + at, "\xC3\xA9", at + 1 < sizeof bytes ? 2 : 1);
            ck_assert(mci_utf8_valid(bytes, len) == (at + 1 < len));
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("utf8");
    TCase *tcase = tcase_create("table");
    tcase_set_timeout(tcase, 100);
    tcase_add_test(tcase, test_all_sequences_of_one_to_three_bytes);
    tcase_add_test(tcase, test_sequences_of_four_bytes_around_every_bound);
    tcase_add_test(tcase, test_random_sequences_of_four_to_forty_bytes);
    suite_add_tcase(suite, tcase);
    tcase = tcase_create("cases");
    tcase_add_test(tcase, test_named_cases);
    tcase_add_test(tcase, test_every_place_in_a_long_text_is_looked_at);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
