/* SPDX-License-Identifier: Apache-2.0 */
#include "mci_hash.h"

#include <string.h>

/* Keys are short, so the call into a library would cost as much as the hash. */
#define XXH_INLINE_ALL
#include <xxhash.h>

/* xxhash marks its input as never NULL. */
static const void *never_null(const void *data)
{
    return data ? data : "";
}

uint64_t mci_hash64(const void *data, size_t len)
{
    return XXH3_64bits(never_null(data), len);
}

uint64_t mci_hash64_seeded(const void *data, size_t len, uint64_t seed)
{
    return XXH3_64bits_withSeed(never_null(data), len, seed);
}

/* ---- in pieces --------------------------------------------------------- */

_Static_assert(sizeof(XXH3_state_t) <=
                   sizeof(struct mci_hash_stream) - MCI_HASH_ALIGN,
               "a stream has room for its state");
_Static_assert(_Alignof(XXH3_state_t) <= MCI_HASH_ALIGN,
               "a stream can align its state");

static XXH3_state_t *state_of(struct mci_hash_stream *stream)
{
    uintptr_t over = (uintptr_t)stream->state % MCI_HASH_ALIGN;
    return (XXH3_state_t *)(void *)(stream->state + MCI_HASH_ALIGN - over);
}

void mci_hash_begin(struct mci_hash_stream *stream, uint64_t seed)
{
    XXH3_state_t *state = state_of(stream);
    XXH3_INITSTATE(state);
    (void)XXH3_64bits_reset_withSeed(state, seed);
}

void mci_hash_add(struct mci_hash_stream *stream, const void *data, size_t len)
{
    (void)XXH3_64bits_update(state_of(stream), never_null(data), len);
}

uint64_t mci_hash_end(struct mci_hash_stream *stream)
{
    return XXH3_64bits_digest(state_of(stream));
}

/* ---- 128 bits ---------------------------------------------------------- */

void mci_hash128(const void *data, size_t len, uint8_t out[16])
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(never_null(data), len));
    memcpy(out, canonical.digest, sizeof canonical.digest);
}
