/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_bytes.h - a fuzz target's input as a script: one byte after the other, and
 * zeros when it is used up. */
#ifndef FUZZ_BYTES_H
#define FUZZ_BYTES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

struct fuzz_bytes {
    const uint8_t *at;
    size_t len;
};

static inline void require(bool holds)
{
    if (!holds) {
        abort();
    }
}

static inline uint8_t fuzz_byte(struct fuzz_bytes *bytes)
{
    if (bytes->len == 0) {
        return 0;
    }
    bytes->len--;
    return *bytes->at++;
}

/* A number near another one, or anything. */
static inline uint64_t fuzz_near(struct fuzz_bytes *bytes, uint64_t number)
{
    uint8_t byte = fuzz_byte(bytes);
    if (byte < 160) {
        return number + 1;
    }
    if (byte < 250) {
        return number + byte - 200;
    }
    if (byte < 253) {
        return number + (UINT64_C(1) << 20) + byte - 251;
    }
    return (uint64_t)fuzz_byte(bytes) << 56 | fuzz_byte(bytes);
}
#endif
