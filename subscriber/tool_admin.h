/* SPDX-License-Identifier: Apache-2.0 */
/* tool_admin.h - the tenants and keys that a master lists on its admin port.
 *
 * Threads: the main thread only.
 */
#ifndef TOOL_ADMIN_H
#define TOOL_ADMIN_H
#include "tool.h"
#include "tool_compare.h"

/* A key as that page writes it: control characters as \xHH. Valid until the next
 * call; none for one that is longer than a key may be. */
struct mc_view tool_admin_spell(struct mc_view key);

/* GET url/get_all_keys?tenant_id=T: a row for each key, spelled so, with no
 * medium. TOOL_DONE, or TOOL_FAILED after a line on stderr. */
int tool_admin_keys(const struct tool_args *args, struct mc_view tenant,
                    struct tool_rowset *set);

/* GET url/api/v1/tenant_quotas: a row for each tenant, with no key and no medium;
 * none where the master has no such page or no tenants. TOOL_DONE, or
 * TOOL_FAILED after a line on stderr. */
int tool_admin_tenants(const struct tool_args *args, struct tool_rowset *set);
#endif
