/* SPDX-License-Identifier: Apache-2.0 */
/* exposed.h - a registration as its owner sees it: what may be touched, by whom,
 * and what is closed for good.
 *
 * Attempts that are spent (their final write has landed, or they were sealed) or
 * fenced are remembered until no grant of them can be alive. The memory for that
 * is bounded: when it is full the floor rises, and grants that end below the
 * floor are refused (a slow writer fails, nothing is corrupted).
 *
 * Threads: any thread; a registration is counted and its memory is there as long
 * as somebody holds it or it is exposed.
 */
#ifndef EXPOSED_H
#define EXPOSED_H
#include <pthread.h>
#include <stdatomic.h>

#include "mc_transfer.h"

struct mci_closed; /* attempts that are spent here */

struct mci_exposed {
    uint64_t registration;
    uint8_t key[MC_GRANT_KEY_LEN];
    uint8_t *base;
    uint64_t bytes;
    int fd; /* -1: not over shm */
    uint64_t fd_offset;
    uint64_t map_bytes;           /* of fd, from 0 */
    _Atomic uint64_t *generation; /* NULL: none */
    char endpoint[280];           /* filled in by the transports' expose */
    char shm[64];
    /* further fields belong to exposed.c */
    struct mc_transfer *transfer;
    struct mci_closed *closed;
    _Atomic uint32_t refs;
    _Atomic int is_concealed;
    struct mci_exposed *next;
};

struct mci_exposures {
    pthread_rwlock_t lock;
    struct mci_exposed *first; /* guarded by lock */
};
void mci_exposures_init(struct mci_exposures *exposures);
void mci_exposures_fini(struct mci_exposures *exposures);

/* NULL if there is none. The caller releases it. */
struct mci_exposed *mci_exposed_hold(struct mc_transfer *transfer,
                                     uint64_t registration);
void mci_exposed_release(struct mci_exposed *exposed);

/* May [offset, offset + len) be touched under this grant now? Looks at
 * registration, tag, deadline, range within the terms, and for writes at what is
 * closed. To be asked before the first byte and between pieces. Errors:
 * MC_ERR_INVALID_PARAMS (tag or range), MC_ERR_LEASE_EXPIRED (deadline),
 * MC_ERR_INVALID_VERSION (spent or fenced), MC_ERR_SEGMENT_NOT_FOUND
 * (concealed). */
MC_CHECK_RESULT enum mc_err
mci_exposed_check(struct mci_exposed *exposed,
                  const struct mc_grant_terms *terms,
                  const struct mc_grant *grant, uint64_t offset, uint64_t len,
                  uint64_t now_ns);

/* Closes an attempt here until `until_ns`; from now on check refuses it. Nobody
 * may be inside when its receipt is given out, which is for the caller to see
 * to. */
void mci_exposed_spend(struct mci_exposed *exposed, uint64_t attempt,
                       uint64_t until_ns);

/* The same question as check's last one, cheap, for the middle of a copy. */
bool mci_exposed_is_closed(struct mci_exposed *exposed, uint64_t attempt,
                           uint64_t incarnation);
#endif
