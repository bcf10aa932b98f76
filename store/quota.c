/* SPDX-License-Identifier: Apache-2.0 */
#include "quota.h"

#include "tenant.h"

#define RETRIES 2

/* ---- what counts ------------------------------------------------------- */

static bool counts(const struct mci_master *master)
{
    return master->opts.enable_multi_tenants;
}

bool mci_quota_is_policy(struct mci_master *master)
{
    return counts(master) && atomic_load(&master->quota_count) > 0;
}

/* All quotas together may be more than what is lent; then each counts for its
 * share of it. */
static uint64_t effective_bytes(struct mci_master *master,
                                const struct mci_tenant *tenant)
{
    uint64_t bytes = atomic_load(&tenant->quota_bytes);
    uint64_t sum = atomic_load(&master->quota_sum);
    uint64_t lent = atomic_load(&master->lent_bytes);
    if (sum <= lent || lent == 0) {
        return bytes;
    }
    return (uint64_t)((double)bytes / (double)sum * (double)lent);
}

/* ---- charging ---------------------------------------------------------- */

static bool try_charge(struct mci_tenant *tenant, uint64_t bytes, uint64_t max)
{
    uint64_t before = atomic_fetch_add(&tenant->charged_bytes, bytes);
    if (before <= max && bytes <= max - before) {
        return true;
    }
    atomic_fetch_sub(&tenant->charged_bytes, bytes);
    return false;
}

enum mc_err mci_quota_charge(struct mci_master *master,
                             const struct mci_call *call, uint16_t tenant,
                             uint64_t bytes, const struct mci_spot *spared)
{
    if (!counts(master)) {
        return MC_OK;
    }
    struct mci_tenant *who = mci_tenant_at(master, tenant);
    if (!atomic_load(&who->has_quota)) {
        atomic_fetch_add(&who->charged_bytes, bytes);
        return MC_OK;
    }
    for (unsigned retry = 0;; retry++) {
        uint64_t max = effective_bytes(master, who);
        if (try_charge(who, bytes, max)) {
            return MC_OK;
        }
        if (bytes > max || retry == RETRIES) {
            return MC_ERR_TENANT_QUOTA_EXCEEDED;
        }
        uint64_t charged = atomic_load(&who->charged_bytes);
        uint64_t over = charged > max - bytes ? charged - (max - bytes) : 0;
        enum mc_err err =
            mci_evict_of_tenant(master, call, tenant, over, spared, retry > 0);
        if (err != MC_OK) {
            return err;
        }
    }
}

void mci_quota_discharge(struct mci_master *master, uint16_t tenant,
                         uint64_t bytes)
{
    if (counts(master)) {
        atomic_fetch_sub(&mci_tenant_at(master, tenant)->charged_bytes, bytes);
    }
}

/* ---- setting ----------------------------------------------------------- */

/* tables_lock is held. */
static void sum_up(struct mci_master *master)
{
    uint64_t sum = 0;
    uint32_t quotas = 0;
    uint32_t count = atomic_load(&master->tenant_count);
    for (uint32_t i = 0; i < count; i++) {
        const struct mci_tenant *tenant = mci_tenant_at(master, (uint16_t)i);
        if (atomic_load(&tenant->has_quota)) {
            uint64_t bytes = atomic_load(&tenant->quota_bytes);
            sum = bytes > UINT64_MAX - sum ? UINT64_MAX : sum + bytes;
            quotas++;
        }
    }
    atomic_store(&master->quota_sum, sum);
    atomic_store(&master->quota_count, quotas);
}

static enum mc_err find(struct mci_master *master, struct mc_view name,
                        bool make, struct mci_tenant **tenant_out)
{
    if (!counts(master)) {
        return MC_ERR_UNAVAILABLE_IN_CURRENT_MODE;
    }
    enum mc_err err = mci_tenant_find(master, name, make, tenant_out);
    if (err == MC_OK && !*tenant_out) {
        err = MC_ERR_TENANT_NOT_REGISTERED;
    }
    return err;
}

enum mc_err mci_master_quota_set(struct mci_master *master,
                                 struct mc_view tenant, uint64_t bytes)
{
    struct mci_tenant *who = NULL;
    enum mc_err err = find(master, tenant, true, &who);
    if (err != MC_OK) {
        return err;
    }
    (void)pthread_mutex_lock(&master->tables_lock);
    atomic_store(&who->quota_bytes, bytes);
    atomic_store(&who->has_quota, true);
    sum_up(master);
    (void)pthread_mutex_unlock(&master->tables_lock);
    return MC_OK;
}

static struct mci_quota describe(struct mci_master *master,
                                 const struct mci_tenant *tenant)
{
    bool is_set = atomic_load(&tenant->has_quota);
    return (struct mci_quota){
        .tenant = tenant->log.name,
        .bytes = is_set ? atomic_load(&tenant->quota_bytes) : 0,
        .effective_bytes = is_set ? effective_bytes(master, tenant) : 0,
        .charged_bytes = atomic_load(&tenant->charged_bytes),
        .is_set = is_set};
}

enum mc_err mci_master_quota_get(struct mci_master *master,
                                 struct mc_view tenant,
                                 struct mci_quota *quota_out)
{
    struct mci_tenant *who = NULL;
    enum mc_err err = find(master, tenant, false, &who);
    if (err == MC_OK && !atomic_load(&who->has_quota)) {
        err = MC_ERR_TENANT_NOT_REGISTERED;
    }
    if (err == MC_OK) {
        *quota_out = describe(master, who);
    }
    return err;
}

static bool is_empty(struct mci_master *master, const struct mci_tenant *tenant)
{
    uint64_t commits = 0;
    uint64_t readable = 0;
    mci_event_log_tenant_counts(master->log, &tenant->log, &commits, &readable);
    return readable == 0 && atomic_load(&tenant->charged_bytes) == 0;
}

enum mc_err mci_master_quota_delete(struct mci_master *master,
                                    struct mc_view tenant)
{
    struct mci_tenant *who = NULL;
    enum mc_err err = find(master, tenant, false, &who);
    if (err == MC_OK && !atomic_load(&who->has_quota)) {
        err = MC_ERR_TENANT_NOT_REGISTERED;
    }
    if (err == MC_OK && !is_empty(master, who)) {
        err = MC_ERR_TENANT_NOT_EMPTY;
    }
    if (err != MC_OK) {
        return err;
    }
    (void)pthread_mutex_lock(&master->tables_lock);
    atomic_store(&who->has_quota, false);
    sum_up(master);
    (void)pthread_mutex_unlock(&master->tables_lock);
    return MC_OK;
}

size_t mci_master_quotas(struct mci_master *master, uint32_t *from,
                         struct mci_quota *quotas_out, size_t max)
{
    size_t count = 0;
    uint32_t tenants = atomic_load(&master->tenant_count);
    while (*from < tenants && count < max) {
        quotas_out[count++] =
            describe(master, mci_tenant_at(master, (uint16_t)*from));
        (*from)++;
    }
    return count;
}
