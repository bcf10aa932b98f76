/* SPDX-License-Identifier: Apache-2.0 */
#include "tenant.h"

#include <string.h>

#include "mci_alloc.h"
#include "mci_utf8.h"

#define DEFAULT_NAME "default"
#define TENANTS_LIMIT 65535 /* an index is 16 bits */
#define DELETE_CHARACTER 0x7f

static enum mc_err check_name(struct mc_view name)
{
    const unsigned char *text = name.data;
    if (name.len > MC_TENANT_LEN_MAX || !mci_utf8_valid(text, name.len)) {
        return MC_ERR_INVALID_PARAMS;
    }
    for (size_t i = 0; i < name.len; i++) {
        if (text[i] < ' ' || text[i] == DELETE_CHARACTER) {
            return MC_ERR_INVALID_PARAMS;
        }
    }
    return text[0] == '_' ? MC_ERR_INVALID_PARAMS : MC_OK;
}

/* tables_lock is held. */
static enum mc_err add_tenant(struct mci_master *master, struct mc_view name,
                              struct mci_tenant **tenant_out)
{
    uint32_t count = atomic_load(&master->tenant_count);
    if (count >= master->opts.max_tenants) {
        return MC_ERR_TENANT_NOT_REGISTERED;
    }
    struct mci_tenant *tenant = mci_calloc(1, sizeof *tenant);
    if (!tenant) {
        return MC_ERR_NOMEM;
    }
    if (mci_map_put(&master->tenant_map, name, tenant, NULL) != MC_OK) {
        mci_free(tenant);
        return MC_ERR_NOMEM;
    }
    memcpy(tenant->name, name.data, name.len);
    tenant->log.name = mc_view_make(tenant->name, name.len);
    tenant->index = (uint16_t)count;
    atomic_store_explicit(&master->tenants[count], tenant,
                          memory_order_release);
    atomic_store(&master->tenant_count, count + 1);
    *tenant_out = tenant;
    return MC_OK;
}

enum mc_err mci_tenants_init(struct mci_master *master)
{
    uint32_t max = master->opts.max_tenants;
    if (max > TENANTS_LIMIT) {
        return MC_ERR_INVALID_PARAMS;
    }
    mci_map_init(&master->tenant_map, max);
    master->tenants = mci_calloc(max, sizeof *master->tenants);
    if (!master->tenants) {
        return MC_ERR_NOMEM;
    }
    struct mci_tenant *tenant = NULL;
    return add_tenant(master, mc_view_str(DEFAULT_NAME), &tenant);
}

void mci_tenants_fini(struct mci_master *master)
{
    uint32_t count = atomic_load(&master->tenant_count);
    for (uint32_t i = 0; i < count; i++) {
        mci_free(mci_tenant_at(master, (uint16_t)i));
    }
    mci_free((void *)master->tenants);
    mci_map_fini(&master->tenant_map);
}

enum mc_err mci_tenant_find(struct mci_master *master, struct mc_view name,
                            bool make, struct mci_tenant **tenant_out)
{
    if (name.len == 0 || mc_view_equal(name, mc_view_str(DEFAULT_NAME))) {
        *tenant_out = mci_tenant_at(master, 0);
        return MC_OK;
    }
    enum mc_err err = check_name(name);
    if (err == MC_OK && !master->opts.enable_multi_tenants) {
        err = MC_ERR_UNAVAILABLE_IN_CURRENT_MODE;
    }
    if (err != MC_OK) {
        return err;
    }
    (void)pthread_mutex_lock(&master->tables_lock);
    struct mci_tenant *tenant = mci_map_get(&master->tenant_map, name);
    if (!tenant && make) {
        err = add_tenant(master, name, &tenant);
    }
    (void)pthread_mutex_unlock(&master->tables_lock);
    if (err == MC_OK) {
        *tenant_out = tenant;
    }
    return err;
}

enum mc_err mci_master_tenant_check(struct mci_master *master,
                                    struct mc_view tenant)
{
    struct mci_tenant *found = NULL;
    return mci_tenant_find(master, tenant, false, &found);
}
