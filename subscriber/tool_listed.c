/* SPDX-License-Identifier: Apache-2.0 */
#include "tool_listed.h"

#include "tool_admin.h"

void tool_listed_spell(const struct tool_rowset *held, struct tool_rowset *keys)
{
    for (size_t i = 0; i < held->count; i++) {
        const struct tool_names *names = &held->rows[i].names;
        const struct tool_names spelled = {.tenant = names->tenant,
                                           .key = tool_admin_spell(names->key)};
        tool_rowset_add(keys, &spelled, held->rows[i].event_id);
    }
    tool_rowset_sort(keys);
}

/* The tenants that the master names, those that something is held of, and the
 * one that every store has. */
static int gather_tenants(const struct tool_args *args,
                          const struct tool_rowset *held,
                          struct tool_rowset *tenants)
{
    const struct tool_names every = {.tenant = mc_view_str("default")};
    int code = tool_admin_tenants(args, tenants);
    tool_rowset_add(tenants, &every, 0);
    for (size_t i = 0; i < held->count; i++) {
        const struct mc_view tenant = held->rows[i].names.tenant;
        const struct tool_names names = {.tenant = tenant};
        if (i == 0 || !mc_view_equal(held->rows[i - 1].names.tenant, tenant)) {
            tool_rowset_add(tenants, &names, 0);
        }
    }
    tool_rowset_sort(tenants);
    return code;
}

int tool_listed_keys(const struct tool_args *args,
                     const struct tool_rowset *held, struct tool_rowset *listed)
{
    struct tool_rowset tenants = {0};
    int code = gather_tenants(args, held, &tenants);
    for (size_t i = 0; code == TOOL_DONE && i < tenants.count; i++) {
        code = tool_admin_keys(args, tenants.rows[i].names.tenant, listed);
    }
    listed->is_failed |= tenants.is_failed;
    tool_rowset_clear(&tenants);
    tool_rowset_sort(listed);
    return code;
}
