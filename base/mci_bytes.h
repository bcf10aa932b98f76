/* SPDX-License-Identifier: Apache-2.0 */
/* mci_bytes.h - fixed-width integers to and from bytes, and checked sums.
 *
 * Wire integers are read and written here only, never by laying a struct over
 * bytes. Nothing checks bounds: the caller has.
 */
#ifndef MCI_BYTES_H
#define MCI_BYTES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t mci_get_be16(const void *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return __builtin_bswap16(v);
}

static inline uint32_t mci_get_be32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return __builtin_bswap32(v);
}

static inline uint64_t mci_get_be64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return __builtin_bswap64(v);
}

static inline void mci_put_be16(void *p, uint16_t v)
{
    v = __builtin_bswap16(v);
    memcpy(p, &v, sizeof v);
}

static inline void mci_put_be32(void *p, uint32_t v)
{
    v = __builtin_bswap32(v);
    memcpy(p, &v, sizeof v);
}

static inline void mci_put_be64(void *p, uint64_t v)
{
    v = __builtin_bswap64(v);
    memcpy(p, &v, sizeof v);
}

/* Little-endian, as the host is. */
static inline uint32_t mci_get_le32(const void *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint64_t mci_get_le64(const void *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void mci_put_le32(void *p, uint32_t v)
{
    memcpy(p, &v, sizeof v);
}

static inline void mci_put_le64(void *p, uint64_t v)
{
    memcpy(p, &v, sizeof v);
}

/* *sum_out = a + b, *product_out = a * b; false, and nothing written, where it
 * would wrap. */
static inline bool mci_add_size(size_t a, size_t b, size_t *sum_out)
{
    size_t sum;
    if (__builtin_add_overflow(a, b, &sum)) {
        return false;
    }
    *sum_out = sum;
    return true;
}

static inline bool mci_mul_size(size_t a, size_t b, size_t *product_out)
{
    size_t product;
    if (__builtin_mul_overflow(a, b, &product)) {
        return false;
    }
    *product_out = product;
    return true;
}

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "mci_bytes.h assumes a little-endian host"
#endif
#endif
