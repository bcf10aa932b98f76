/* SPDX-License-Identifier: Apache-2.0 */
/* client_targets.h - where the segments of a master's clients are.
 *
 * What is known belongs to one incarnation of this client: a set of targets that
 * only grows, counted by the calls that use it. When the master has forgotten us
 * or is another one, a new empty set takes its place.
 * Threads: any thread.
 */
#ifndef CLIENT_TARGETS_H
#define CLIENT_TARGETS_H
#include "client_move.h"

struct mci_target {
    uint32_t segment;
    enum mci_nearness nearness;
    uint64_t registration;
    uint64_t bytes;
    struct mc_target *target;
    struct mci_target *next; /* in its bucket */
};

struct mci_target_set; /* counted */

/* The present set and the incarnation it belongs to; the caller releases it.
 * Errors: -11. */
MC_CHECK_RESULT enum mc_err mci_targets_hold(struct mci_outside *outside,
                                             struct mci_target_set **set_out,
                                             uint64_t *incarnation_out);
void mci_targets_release(struct mci_target_set *set); /* NULL is fine */

/* Valid as long as the set is held. Errors: -101, those of the link, -11. */
MC_CHECK_RESULT enum mc_err
mci_targets_find(struct mci_target_set *set, uint32_t segment,
                 uint64_t deadline_ns, const struct mci_target **target_out);
#endif
