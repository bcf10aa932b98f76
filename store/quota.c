/* SPDX-License-Identifier: Apache-2.0 */
#include "core.h"
#include "tenant.h"

enum mc_err mci_master_quota_set(struct mci_master *master,
                                 struct mc_view tenant, uint64_t bytes)
{
    (void)master, (void)tenant, (void)bytes;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_err mci_master_quota_get(struct mci_master *master,
                                 struct mc_view tenant,
                                 struct mci_quota *quota_out)
{
    (void)master, (void)tenant, (void)quota_out;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_err mci_master_quota_delete(struct mci_master *master,
                                    struct mc_view tenant)
{
    (void)master, (void)tenant;
    return MC_ERR_NOT_SUPPORTED;
}

size_t mci_master_quotas(struct mci_master *master, uint32_t *from,
                         struct mci_quota *quotas_out, size_t max)
{
    (void)master, (void)from, (void)quotas_out, (void)max;
    return 0;
}
