/* SPDX-License-Identifier: Apache-2.0 */
/* target.h - memory of somebody, as its peers know it.
 *
 * How rows go is chosen per target: local if this engine lends it itself, shm if
 * its owner can be reached so, else tcp. A refusal is remembered for a minute.
 * A transport keeps what it needs of a target (a parsed address, a mapping) in
 * kept[kind]: it sets it in reach, which several threads may be in at once, and
 * gives it up in forget, when no row is under way.
 *
 * Threads: any thread; constant but for the atomics.
 */
#ifndef TARGET_H
#define TARGET_H
#include "engine.h"

#define MCI_CHOICE_TTL_NS (UINT64_C(60) * 1000000000)

struct mc_target {
    struct mci_link link;         /* guarded by the engine's targets_lock */
    struct mc_transfer *transfer; /* NULL once that was closed */
    uint64_t registration;
    uint64_t bytes;
    char *endpoint; /* "": by tcp nowhere */
    char *shm;      /* "": not offered */
    _Atomic uint64_t shunned_until_ns[MCI_TRANSPORT_KINDS];
    _Atomic(void *) kept[MCI_TRANSPORT_KINDS]; /* the transport's own */
};

/* The engine closes: transports forget all targets. */
void mci_targets_detach(struct mc_transfer *transfer);

/* The first transport that reaches the target, NULL if none does. */
const struct mci_transport *mci_target_choose(struct mc_target *target,
                                              uint64_t deadline_ns);
/* Whether this transport, and no other, reaches it. */
bool mci_target_reaches(struct mc_target *target, enum mc_transport_kind kind,
                        uint64_t deadline_ns);
#endif
