/* SPDX-License-Identifier: Apache-2.0 */
/* exposed.h - a registration as its owner sees it: what may be touched, by whom,
 * and what is closed for good.
 *
 * Attempts that are spent (their final write has landed, or they were sealed) are
 * remembered here, fences on the engine's board, both until no grant that they
 * could refuse can be alive. The memory for that is bounded: when it is full the
 * floor rises, and write grants that end below it are refused (a slow writer
 * fails, nothing is corrupted).
 *
 * Threads: any thread; a registration is counted and stays readable as long as
 * somebody holds it. Its memory is the lender's, who takes it away after conceal:
 * who touches it is inside (enter, leave), or is closed by its transport's
 * conceal.
 */
#ifndef EXPOSED_H
#define EXPOSED_H
#include <pthread.h>
#include <stdatomic.h>

#include "mc_transfer.h"

/* By how much an owner's clock may seem late to whoever makes grants. */
#define MCI_GRANT_SLACK_NS (UINT64_C(1) * 1000000000)
#define MCI_GRANT_TTL_NS (UINT64_C(1000000) * MC_GRANT_TTL_MAX_MS)

struct mci_closed; /* closed.h */

struct mci_exposed {
    uint64_t registration;
    uint8_t key[MC_GRANT_KEY_LEN];
    uint8_t *base;
    uint64_t bytes;
    int fd; /* -1: not over shm; the lender's */
    uint64_t fd_offset;
    uint64_t map_bytes;                       /* of fd, from 0 */
    _Atomic uint64_t *generation;             /* NULL: none */
    uint64_t generation_offset;               /* in fd */
    char endpoint[MC_TRANSFER_ENDPOINT_SIZE]; /* filled in by the transports'
                                                 expose */
    char shm[64];
    /* further fields belong to exposed.c */
    struct mc_transfer *transfer;
    struct mci_closed *closed; /* spent */
    _Atomic uint32_t refs;
    _Atomic uint32_t inside;
    _Atomic int is_concealed;
    struct mci_exposed *next;
};

struct mci_exposures {
    pthread_rwlock_t lock;
    struct mci_exposed *first; /* guarded by lock */
};
MC_CHECK_RESULT enum mc_err mci_exposures_init(struct mci_exposures *exposures);
void mci_exposures_fini(struct mci_exposures *exposures);

/* Makes a registration that nobody finds yet. */
MC_CHECK_RESULT enum mc_err
mci_exposed_create(struct mc_transfer *transfer,
                   const struct mc_exposure_opts *opts,
                   struct mci_exposed **exposed_out);
void mci_exposed_publish(struct mci_exposed *exposed);
/* Takes out what is published, with the count of the list; NULL if there is
 * none. registration 0: any. */
struct mci_exposed *mci_exposed_take(struct mc_transfer *transfer,
                                     uint64_t registration);

/* NULL if there is none. The caller releases it. */
struct mci_exposed *mci_exposed_hold(struct mc_transfer *transfer,
                                     uint64_t registration);
void mci_exposed_release(struct mci_exposed *exposed);

/* False: it is concealed. Else the memory stays until leave, which must come
 * soon: conceal waits for it. */
bool mci_exposed_enter(struct mci_exposed *exposed);
void mci_exposed_leave(struct mci_exposed *exposed);
/* Raises the generation, lets nobody enter, and waits for who is inside. */
void mci_exposed_conceal(struct mci_exposed *exposed);

/* What is registered where, by what key; what a grant is held against. */
struct mci_granter {
    uint64_t registration;
    const uint8_t *key;
    uint64_t bytes;
};
/* May [offset, offset + len) be touched under this grant now? Looks at
 * registration, tag, deadline and range. Pure. Errors: MC_ERR_INVALID_PARAMS
 * (registration, tag, range, a write grant that ends later than any may),
 * MC_ERR_LEASE_EXPIRED (deadline). */
MC_CHECK_RESULT enum mc_err mci_grant_check(const struct mci_granter *granter,
                                            const struct mc_grant_terms *terms,
                                            const struct mc_grant *grant,
                                            uint64_t offset, uint64_t len,
                                            uint64_t now_ns);

/* As mci_grant_check, and for writes what is closed. To be asked before the
 * first byte and between pieces. Further errors: MC_ERR_INVALID_VERSION (spent or
 * fenced), MC_ERR_SEGMENT_NOT_FOUND (concealed). */
MC_CHECK_RESULT enum mc_err
mci_exposed_check(struct mci_exposed *exposed,
                  const struct mc_grant_terms *terms,
                  const struct mc_grant *grant, uint64_t offset, uint64_t len,
                  uint64_t now_ns);

/* May these terms be sealed? A deadline that is past does no harm there. Errors:
 * MC_ERR_INVALID_PARAMS. */
MC_CHECK_RESULT enum mc_err
mci_grant_check_seal(const struct mci_granter *granter,
                     const struct mc_grant_terms *terms,
                     const struct mc_grant *grant);
struct mci_granter mci_exposed_granter(const struct mci_exposed *exposed);

/* Closes an attempt here until `until_ns`; from now on check refuses it. Nobody
 * may be inside when its receipt is given out, which is for the caller to see
 * to. */
void mci_exposed_spend(struct mci_exposed *exposed, uint64_t attempt,
                       uint64_t until_ns);

/* The same question as check's last one, cheap, for the middle of a copy. */
bool mci_exposed_is_closed(struct mci_exposed *exposed, uint64_t attempt,
                           uint64_t incarnation);
#endif
