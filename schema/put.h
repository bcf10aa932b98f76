/* SPDX-License-Identifier: Apache-2.0 */
/* put.h - msgpack values in their smallest form, onto memory known to suffice.
 *
 * Each function writes at `at` and returns where the next value goes. Nothing
 * is bounded here: the caller has made room for PUT_NUMBER_MAX bytes, or for
 * PUT_HEADER_MAX beside the body.
 * Threads: pure functions.
 */
#ifndef MC_PUT_H
#define MC_PUT_H
#include "mc_view.h"
#include "mci_bytes.h"

#define PUT_NUMBER_MAX 9
#define PUT_HEADER_MAX 5

static inline uint8_t *put_byte(uint8_t *at, unsigned byte)
{
    *at = (uint8_t)byte;
    return at + 1;
}

static inline uint8_t *put_8(uint8_t *at, unsigned form, uint64_t value)
{
    at[0] = (uint8_t)form;
    at[1] = (uint8_t)value;
    return at + 2;
}

static inline uint8_t *put_16(uint8_t *at, unsigned form, uint64_t value)
{
    at[0] = (uint8_t)form;
    mci_put_be16(at + 1, (uint16_t)value);
    return at + 3;
}

static inline uint8_t *put_32(uint8_t *at, unsigned form, uint64_t value)
{
    at[0] = (uint8_t)form;
    mci_put_be32(at + 1, (uint32_t)value);
    return at + 5;
}

static inline uint8_t *put_64(uint8_t *at, unsigned form, uint64_t value)
{
    at[0] = (uint8_t)form;
    mci_put_be64(at + 1, value);
    return at + 9;
}

static inline uint8_t *put_nil(uint8_t *at)
{
    return put_byte(at, 0xc0);
}

static inline uint8_t *put_u64(uint8_t *at, uint64_t value)
{
    if (value < 0x80) {
        return put_byte(at, (unsigned)value);
    }
    if (value <= UINT16_MAX) {
        return value <= UINT8_MAX ? put_8(at, 0xcc, value)
                                  : put_16(at, 0xcd, value);
    }
    return value <= UINT32_MAX ? put_32(at, 0xce, value)
                               : put_64(at, 0xcf, value);
}

static inline uint8_t *put_i64(uint8_t *at, int64_t value)
{
    if (value >= 0) {
        return put_u64(at, (uint64_t)value);
    }
    if (value >= -32) {
        return put_byte(at, (unsigned)value & 0xff);
    }
    if (value >= INT16_MIN) {
        return value >= INT8_MIN ? put_8(at, 0xd0, (uint64_t)value)
                                 : put_16(at, 0xd1, (uint64_t)value);
    }
    return value >= INT32_MIN ? put_32(at, 0xd2, (uint64_t)value)
                              : put_64(at, 0xd3, (uint64_t)value);
}

static inline uint8_t *put_str_header(uint8_t *at, size_t len)
{
    if (len < 32) {
        return put_byte(at, 0xa0 | (unsigned)len);
    }
    if (len <= UINT8_MAX) {
        return put_8(at, 0xd9, len);
    }
    return len <= UINT16_MAX ? put_16(at, 0xda, len) : put_32(at, 0xdb, len);
}

static inline uint8_t *put_bin_header(uint8_t *at, size_t len)
{
    if (len <= UINT8_MAX) {
        return put_8(at, 0xc4, len);
    }
    return len <= UINT16_MAX ? put_16(at, 0xc5, len) : put_32(at, 0xc6, len);
}

static inline uint8_t *put_array_header(uint8_t *at, size_t count)
{
    if (count < 16) {
        return put_byte(at, 0x90 | (unsigned)count);
    }
    return count <= UINT16_MAX ? put_16(at, 0xdc, count)
                               : put_32(at, 0xdd, count);
}

static inline uint8_t *put_map_header(uint8_t *at, size_t pairs)
{
    if (pairs < 16) {
        return put_byte(at, 0x80 | (unsigned)pairs);
    }
    return pairs <= UINT16_MAX ? put_16(at, 0xde, pairs)
                               : put_32(at, 0xdf, pairs);
}

/* Copies len bytes; the short lengths of names and keys in a few moves that
 * may overlap, without a call. */
static inline uint8_t *put_bytes(uint8_t *at, const void *from, size_t len)
{
    const uint8_t *bytes = from;
    if (len > 128) {
        memcpy(at, bytes, len);
    } else if (len >= 16) {
        for (size_t done = 0; done + 16 < len; done += 16) {
            memcpy(at + done, bytes + done, 16);
        }
        memcpy(at + len - 16, bytes + len - 16, 16);
    } else if (len >= 8) {
        memcpy(at, bytes, 8);
        memcpy(at + len - 8, bytes + len - 8, 8);
    } else if (len >= 4) {
        memcpy(at, bytes, 4);
        memcpy(at + len - 4, bytes + len - 4, 4);
    } else {
        for (size_t i = 0; i < len; i++) {
            at[i] = bytes[i];
        }
    }
    return at + len;
}

static inline uint8_t *put_str(uint8_t *at, struct mc_view text)
{
    return put_bytes(put_str_header(at, text.len), text.data, text.len);
}

/* None and empty are nil. */
static inline uint8_t *put_str_or_nil(uint8_t *at, struct mc_view text)
{
    return text.len == 0 ? put_nil(at) : put_str(at, text);
}
#endif
