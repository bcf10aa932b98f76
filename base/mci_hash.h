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

/* The seeded one, of bytes that come in pieces, in order: begin, add, end. A
 * stream is the caller's memory, must not be moved, and may be dropped.
 * Threads: a stream by one thread at a time. */
#define MCI_HASH_ALIGN 64 /* of the state in it, wherever it lies itself */
struct mci_hash_stream {
    unsigned char state[576 + MCI_HASH_ALIGN];
};
void mci_hash_begin(struct mci_hash_stream *stream, uint64_t seed);
void mci_hash_add(struct mci_hash_stream *stream, const void *data, size_t len);
uint64_t mci_hash_end(struct mci_hash_stream *stream);

/* XXH3-128 in canonical (big-endian) byte order. */
void mci_hash128(const void *data, size_t len, uint8_t out[16]);
#endif
