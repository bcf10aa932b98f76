/* SPDX-License-Identifier: Apache-2.0 */
/* After "SipHash: a fast short-input PRF" by J.-P. Aumasson and D. J.
 * Bernstein: two rounds for each word, four at the end. The names are those of
 * the paper. */
#include "mci_siphash.h"

#include "mci_bytes.h"

struct sip {
    uint64_t v0;
    uint64_t v1;
    uint64_t v2;
    uint64_t v3;
};

static inline uint64_t rotl(uint64_t word, unsigned bits)
{
    return word << bits | word >> (64 - bits);
}

static inline void sip_round(struct sip *s)
{
    s->v0 += s->v1;
    s->v2 += s->v3;
    s->v1 = rotl(s->v1, 13) ^ s->v0;
    s->v3 = rotl(s->v3, 16) ^ s->v2;
    s->v0 = rotl(s->v0, 32);
    s->v2 += s->v1;
    s->v0 += s->v3;
    s->v1 = rotl(s->v1, 17) ^ s->v2;
    s->v3 = rotl(s->v3, 21) ^ s->v0;
    s->v2 = rotl(s->v2, 32);
}

static inline void sip_word(struct sip *s, uint64_t word)
{
    s->v3 ^= word;
    sip_round(s);
    sip_round(s);
    s->v0 ^= word;
}

uint64_t mci_siphash(const uint8_t key[MCI_SIPHASH_KEY_LEN], const void *data,
                     size_t len)
{
    const uint8_t *at = data;
    uint64_t k0 = mci_get_le64(key);
    uint64_t k1 = mci_get_le64(key + 8);
    struct sip s = {
        .v0 = k0 ^ UINT64_C(0x736f6d6570736575),
        .v1 = k1 ^ UINT64_C(0x646f72616e646f6d),
        .v2 = k0 ^ UINT64_C(0x6c7967656e657261),
        .v3 = k1 ^ UINT64_C(0x7465646279746573),
    };
    size_t whole = len / 8;
    for (size_t i = 0; i < whole; i++, at += 8) {
        sip_word(&s, mci_get_le64(at));
    }
    uint64_t last = (uint64_t)len << 56;
    for (size_t i = 0; i < len % 8; i++) {
        last |= (uint64_t)at[i] << (8 * i);
    }
    sip_word(&s, last);
    s.v2 ^= 0xff;
    for (unsigned i = 0; i < 4; i++) {
        sip_round(&s);
    }
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
