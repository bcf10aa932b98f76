/* SPDX-License-Identifier: Apache-2.0 */
/* Tags and receipts are of the same key, so the first word says which of them it
 * is: a grant can never be handed in as a receipt. All words are little-endian
 * and of fixed width. */
#include "mc_grant.h"

#include "mci_bytes.h"
#include "mci_siphash.h"

enum grant_kind { GRANT_READ = 0, GRANT_WRITE = 1, GRANT_RECEIPT = 2 };

static void put_words(uint8_t *at, const uint64_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        mci_put_le64(at + 8 * i, words[i]);
    }
}

uint64_t mc_grant_tag(const uint8_t key[MC_GRANT_KEY_LEN],
                      const struct mc_grant_terms *terms, uint64_t deadline_ns)
{
    const uint64_t words[] = {
        terms->is_write ? GRANT_WRITE : GRANT_READ,
        terms->registration,
        terms->incarnation,
        terms->subject,
        terms->offset,
        terms->len,
        deadline_ns,
    };
    uint8_t bytes[sizeof words];
    put_words(bytes, words, sizeof words / sizeof words[0]);
    return mci_siphash(key, bytes, sizeof bytes);
}

uint64_t mc_grant_receipt(const uint8_t key[MC_GRANT_KEY_LEN],
                          uint64_t registration, uint64_t attempt)
{
    const uint64_t words[] = {GRANT_RECEIPT, registration, attempt};
    uint8_t bytes[sizeof words];
    put_words(bytes, words, sizeof words / sizeof words[0]);
    uint64_t receipt = mci_siphash(key, bytes, sizeof bytes);
    return receipt != 0 ? receipt : 1;
}
