/* SPDX-License-Identifier: Apache-2.0 */
/* mci_siphash.h - SipHash-2-4: a short tag that only holders of a key can make.
 *
 * For what others hand back to us and must not have made up: grants, receipts.
 * Threads: a pure function.
 */
#ifndef MCI_SIPHASH_H
#define MCI_SIPHASH_H
#include <stddef.h>
#include <stdint.h>

#define MCI_SIPHASH_KEY_LEN 16

uint64_t mci_siphash(const uint8_t key[MCI_SIPHASH_KEY_LEN], const void *data,
                     size_t len);
#endif
