/* SPDX-License-Identifier: Apache-2.0 */
#include "caller.h"

#include <string.h>

#include "mci_utf8.h"
#include "tenant.h"
#include "writer.h"

enum mc_err mci_key_check(struct mc_view key)
{
    if (!key.data || key.len == 0) {
        return MC_ERR_INVALID_PARAMS;
    }
    if (key.len > MC_KEY_LEN_MAX || memchr(key.data, 0, key.len) ||
        !mci_utf8_valid(key.data, key.len)) {
        return MC_ERR_INVALID_KEY;
    }
    return MC_OK;
}

static bool soft_pin_is_sound(const struct mci_master *master,
                              const struct mc_replicate_config *config)
{
    if (config->soft_pin_ttl_ms == 0) {
        return true;
    }
    return config->soft_pin_action == MC_SOFT_PIN_ENABLE &&
           (config->soft_pin_ttl_ms == MC_NONE ||
            config->soft_pin_ttl_ms <= master->soft_pin_max_ns / MCI_NS_PER_MS);
}

enum mc_err mci_config_check(const struct mci_master *master,
                             const struct mc_replicate_config *config)
{
    if (!config) {
        return MC_OK;
    }
    if (config->nof_replica_num > 0 ||
        (unsigned)config->soft_pin_action > MC_SOFT_PIN_DISABLE ||
        (unsigned)config->data_type > MC_DATA_GENERAL ||
        !soft_pin_is_sound(master, config)) {
        return MC_ERR_INVALID_PARAMS;
    }
    if (config->preferred_segment_count > 0 && !config->preferred_segments) {
        return MC_ERR_INVALID_PARAMS;
    }
    for (size_t i = 0; i < config->preferred_segment_count; i++) {
        if (!config->preferred_segments[i]) {
            return MC_ERR_INVALID_PARAMS;
        }
    }
    return config->dfs_replica_num > 0 ? MC_ERR_DFS_SERVICE_UNAVAILABLE : MC_OK;
}

enum mc_err mci_group_id_check(struct mc_view group_id)
{
    if (group_id.len > MC_GROUP_ID_LEN_MAX ||
        (group_id.len > 0 &&
         (!group_id.data || !mci_utf8_valid(group_id.data, group_id.len)))) {
        return MC_ERR_INVALID_PARAMS;
    }
    return MC_OK;
}

enum mc_err mci_call_begin(struct mci_master *master,
                           const struct mci_call *call, bool make,
                           struct mci_tenant **tenant_out)
{
    if (!mci_writer_of(master, call->client)) {
        return MC_ERR_CLIENT_NOT_FOUND;
    }
    return mci_tenant_find(master, call->tenant, make, tenant_out);
}

void mci_results_fill(int64_t *results, size_t count, enum mc_err err)
{
    for (size_t i = 0; i < count; i++) {
        results[i] = err;
    }
}

void mci_rows_fill(struct mci_write_row *rows, size_t count, enum mc_err err)
{
    for (size_t i = 0; i < count; i++) {
        rows[i].err = err;
    }
}
