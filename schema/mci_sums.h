/* SPDX-License-Identifier: Apache-2.0 */
/* mci_sums.h - how much room an object with checksums takes.
 *
 * Such an object has a sum of 8 bytes for each 64 KiB of it, the last block
 * being as long as what is left. The sums stand, little-endian, behind the bytes
 * of each of its copies, so that whoever keeps the object keeps them too; sizes
 * that are told are without them. Pure.
 */
#ifndef MCI_SUMS_H
#define MCI_SUMS_H
#include <stdbool.h>
#include <stdint.h>

#define MCI_SUM_BLOCK UINT64_C(65536)
#define MCI_SUM_LEN 8

/* Blocks of an object of so many bytes. */
static inline uint64_t mci_sums_count(uint64_t size)
{
    return size / MCI_SUM_BLOCK + (size % MCI_SUM_BLOCK != 0);
}

/* What a copy of an object takes. */
static inline uint64_t mci_placed_bytes(uint64_t size, bool has_sums)
{
    return has_sums ? size + mci_sums_count(size) * MCI_SUM_LEN : size;
}

/* And back. */
static inline uint64_t mci_placed_size(uint64_t placed, bool has_sums)
{
    const uint64_t both = MCI_SUM_BLOCK + MCI_SUM_LEN;
    uint64_t blocks = placed / both + (placed % both != 0);
    return has_sums ? placed - blocks * MCI_SUM_LEN : placed;
}
#endif
