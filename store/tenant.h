/* SPDX-License-Identifier: Apache-2.0 */
/* tenant.h - key spaces by name.
 *
 * "default" is always there. With multi-tenancy off any other name is refused,
 * not folded; with it on, a tenant is made by its first write and stays.
 * Threads: any thread; takes a leaf lock, so not under a shard's.
 */
#ifndef TENANT_H
#define TENANT_H
#include "core.h"

/* Makes the table with its default tenant. Errors: -600 (max_tenants), -11. */
MC_CHECK_RESULT enum mc_err mci_tenants_init(struct mci_master *master);
void mci_tenants_fini(struct mci_master *master);

/* The tenant of a call; none or empty is "default". Unknown: NULL, or made if
 * `make`. Errors: -600 (a bad name), -1011 (multi-tenancy is off), -1701 (no
 * more tenants), -11. */
MC_CHECK_RESULT enum mc_err mci_tenant_find(struct mci_master *master,
                                            struct mc_view name, bool make,
                                            struct mci_tenant **tenant_out);
#endif
