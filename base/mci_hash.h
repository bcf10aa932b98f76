/* SPDX-License-Identifier: Apache-2.0 */
/* mci_hash.h - hashes of bytes, by xxhash (XXH3).
 *
 * Not for anything an attacker must not predict, except where a seed drawn at
 * start is given.
 */
#ifndef MCI_HASH_H
#define MCI_HASH_H
#include <stddef.h>
#include <stdint.h>

uint64_t mci_hash64(const void *data, size_t len);
uint64_t mci_hash64_seeded(const void *data, size_t len, uint64_t seed);

/* XXH3-128 in canonical (big-endian) byte order. */
void mci_hash128(const void *data, size_t len, uint8_t out[16]);
#endif
