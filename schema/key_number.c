/* SPDX-License-Identifier: Apache-2.0 */
#include "key_number.h"

/* 0 to 15, or -1 for any other byte. */
static int digit_value(uint8_t byte)
{
    if (byte >= '0' && byte <= '9') {
        return byte - '0';
    }
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

static bool parse_digits(const uint8_t *at, const uint8_t *end, unsigned base,
                         uint64_t *number_out)
{
    uint64_t number = 0;
    if (at == end) {
        return false;
    }
    for (; at < end; at++) {
        int digit = digit_value(*at);
        if (digit < 0 || digit >= (int)base ||
            __builtin_mul_overflow(number, (uint64_t)base, &number) ||
            __builtin_add_overflow(number, (uint64_t)digit, &number)) {
            return false;
        }
    }
    *number_out = number;
    return true;
}

bool key_number_parse(struct mc_view text, uint64_t *number_out)
{
    const uint8_t *at = text.data;
    if (text.len == 0) {
        return false;
    }
    if (text.len > 2 && at[0] == '0' && (at[1] | 0x20) == 'x') {
        return parse_digits(at + 2, at + text.len, 16, number_out);
    }
    return parse_digits(at, at + text.len, 10, number_out);
}
