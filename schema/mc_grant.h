/* SPDX-License-Identifier: Apache-2.0 */
/* mc_grant.h - leave to touch a range of somebody's memory, for a while.
 *
 * Whoever lends memory (the owner) makes a registration of it with a secret key,
 * which it tells the master. The master grants a range to a client: the grant is
 * bound to the registration, to the incarnation of the client, to what the range
 * is used for (an attempt, or a version), to the direction, and to a deadline on
 * the owner's clock. The owner checks all of it before a byte moves.
 *
 * A receipt is the owner's word that an attempt can write no more there: every
 * later request of that attempt is refused, and none is under way.
 * Threads: plain values.
 */
#ifndef MC_GRANT_H
#define MC_GRANT_H
#include <stdbool.h>
#include <stdint.h>

#include "mc_err.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MC_GRANT_KEY_LEN 16
#define MC_GRANT_TTL_MAX_MS 60000 /* of a write grant; longer work renews it */

/* How long a write grant of so many bytes lasts at most, from when it is made;
 * so an owner knows for how long an attempt that it has closed might come. */
#define MC_GRANT_TTL_MIN_MS 5000
#define MC_GRANT_NS_PER_BYTE 60 /* 16 MiB/s, rounded up */
static inline uint64_t mc_grant_write_ttl_ns(uint64_t len)
{
    const uint64_t min_ns = UINT64_C(1000000) * MC_GRANT_TTL_MIN_MS;
    const uint64_t max_ns = UINT64_C(1000000) * MC_GRANT_TTL_MAX_MS;
    if (len >= (max_ns - min_ns) / MC_GRANT_NS_PER_BYTE) {
        return max_ns;
    }
    return min_ns + len * MC_GRANT_NS_PER_BYTE;
}

struct mc_grant {
    uint64_t deadline_ns; /* CLOCK_BOOTTIME of the owner */
    uint64_t tag;         /* over all of the terms and the deadline */
};

struct mc_grant_terms {
    uint64_t registration;
    uint64_t incarnation; /* of the client that may use it */
    uint64_t subject;     /* attempt number (writes) or version (reads) */
    uint64_t offset;      /* in the registration, of the range granted */
    uint64_t len;
    bool is_write;
};

/* The tag of a grant with these terms (SipHash-2-4). Pure. */
uint64_t mc_grant_tag(const uint8_t key[MC_GRANT_KEY_LEN],
                      const struct mc_grant_terms *terms, uint64_t deadline_ns);

/* The receipt of an attempt that is closed at this registration; never 0. */
uint64_t mc_grant_receipt(const uint8_t key[MC_GRANT_KEY_LEN],
                          uint64_t registration, uint64_t attempt);

/* What an owner is told to close, in order of number (SAFETY B.3). */
enum mc_fence_kind {
    MC_FENCE_ATTEMPT = 0,    /* subject: an attempt number */
    MC_FENCE_INCARNATION = 1 /* subject: the incarnation of a client */
};
struct mc_fence {
    uint64_t number; /* rises by one per owner */
    enum mc_fence_kind kind;
    uint64_t subject;
};

#ifdef __cplusplus
}
#endif
#endif
