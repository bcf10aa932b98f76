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

void mci_hash128(const void *data, size_t len, uint8_t out[16])
{
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(never_null(data), len));
    memcpy(out, canonical.digest, sizeof canonical.digest);
}
