/* SPDX-License-Identifier: Apache-2.0 */
#include "mci_utf8.h"

#include <stdint.h>
#include <string.h>
#include <utf8proc.h>

#define HIGH_BITS UINT64_C(0x8080808080808080)

/* The first byte at or after p that is not ASCII, or end. */
static const uint8_t *skip_ascii(const uint8_t *p, const uint8_t *end)
{
    while (end - p >= 8) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        word &= HIGH_BITS;
        if (word) {
            return p + __builtin_ctzll(word) / 8;
        }
        p += 8;
    }
    while (p < end && *p < 0x80) {
        p++;
    }
    return p;
}

bool mci_utf8_valid(const void *data, size_t len)
{
    if (len == 0) {
        return true;
    }
    const uint8_t *p = data;
    const uint8_t *end = p + len;
    for (p = skip_ascii(p, end); p < end; p = skip_ascii(p, end)) {
        utf8proc_int32_t codepoint;
        /* Looks at four bytes at most, so the length may be cut to that. */
        utf8proc_ssize_t left = end - p < 4 ? end - p : 4;
        utf8proc_ssize_t used = utf8proc_iterate(p, left, &codepoint);
        if (used <= 0) {
            return false;
        }
        p += used;
    }
    return true;
}
