/* SPDX-License-Identifier: Apache-2.0 */
/* quota.h - how much memory a tenant may have.
 *
 * Charged is what is readable or being written, per copy, and only where there
 * can be more than one tenant: a number per tenant that starts add to before
 * they allocate and that everything which takes a copy out of reach subtracts
 * from. What only leases hold is not counted, so a tenant can always make room.
 * Threads: any thread.
 */
#ifndef QUOTA_H
#define QUOTA_H
#include "core.h"

/* Takes bytes for a write, evicting of the same tenant where its quota is used
 * up. spared: a key that must not go, or NULL. Errors: -1700, -901. */
MC_CHECK_RESULT enum mc_err mci_quota_charge(struct mci_master *master,
                                             const struct mci_call *call,
                                             uint16_t tenant, uint64_t bytes,
                                             const struct mci_spot *spared);
void mci_quota_discharge(struct mci_master *master, uint16_t tenant,
                         uint64_t bytes);

/* Whether only tenants with a quota may write. */
bool mci_quota_is_policy(struct mci_master *master);

/* Evicts at least so many bytes of a tenant, if that many may go: the oldest
 * ones of one shard after the other. Errors: -901. */
MC_CHECK_RESULT enum mc_err mci_evict_of_tenant(struct mci_master *master,
                                                const struct mci_call *call,
                                                uint16_t tenant, uint64_t bytes,
                                                const struct mci_spot *spared,
                                                bool with_asked);
#endif
