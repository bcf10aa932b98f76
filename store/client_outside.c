/* SPDX-License-Identifier: Apache-2.0 */
/* client_outside.c - see the header. */
#include "client_outside.h"

#include "client_targets.h"

struct mc_transfer *mci_outside_transfer(struct mci_outside *outside)
{
    (void)outside;
    return NULL;
}

void mci_renewed_grant_init(struct mci_renewed_grant *renewed,
                            struct mci_outside *outside,
                            const struct mci_write_row *row, uint32_t place)
{
    (void)outside;
    (void)row;
    (void)place;
    *renewed = (struct mci_renewed_grant){.outside = outside};
}

enum mc_err mci_targets_hold(struct mci_outside *outside,
                             struct mci_target_set **set_out,
                             uint64_t *incarnation_out)
{
    (void)outside;
    (void)set_out;
    (void)incarnation_out;
    return MC_ERR_NOT_SUPPORTED;
}

void mci_targets_release(struct mci_target_set *set)
{
    (void)set;
}

enum mc_err mci_targets_find(struct mci_target_set *set, uint32_t segment,
                             uint64_t deadline_ns,
                             const struct mci_target **target_out)
{
    (void)set;
    (void)segment;
    (void)deadline_ns;
    (void)target_out;
    return MC_ERR_NOT_SUPPORTED;
}
