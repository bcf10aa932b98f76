/* SPDX-License-Identifier: Apache-2.0 */
#include "core.h"

enum mc_err mci_master_attempt_alive(struct mci_master *master, uint64_t ref,
                                     uint64_t number, uint64_t now_ns)
{
    (void)master, (void)ref, (void)number, (void)now_ns;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_err mci_master_attempt_abandon(struct mci_master *master, uint64_t ref,
                                       uint64_t number, uint64_t until_ns,
                                       uint64_t now_ns)
{
    (void)master, (void)ref, (void)number, (void)until_ns, (void)now_ns;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_err mci_master_attempt_doubt(struct mci_master *master, uint64_t ref,
                                     uint64_t number, uint64_t now_ns)
{
    (void)master, (void)ref, (void)number, (void)now_ns;
    return MC_ERR_NOT_SUPPORTED;
}

size_t mci_master_doubts_take(struct mci_master *master,
                              struct mci_doubt *doubts_out, size_t max)
{
    (void)master, (void)doubts_out, (void)max;
    return 0;
}

void mci_master_doubts_free(struct mci_master *master,
                            const struct mci_doubt *doubts, size_t count)
{
    (void)master, (void)doubts, (void)count;
}

uint64_t mci_master_release_ns(const struct mci_master *master)
{
    return master->idle_ns;
}
