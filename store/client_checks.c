/* SPDX-License-Identifier: Apache-2.0 */
/* client_checks.c - the limits of calls on many keys. */
#include "client.h"
#include "mc_session.h"

enum mc_err mci_client_check_rows(const void *keys, const int64_t *results,
                                  size_t count)
{
    bool is_sound = count <= MC_ROWS_MAX && (count == 0 || (keys && results));
    return is_sound ? MC_OK : MC_ERR_INVALID_PARAMS;
}

enum mc_err mci_client_refuse(int64_t *results, size_t count, enum mc_err err)
{
    for (size_t i = 0; results && i < count; i++) {
        results[i] = err;
    }
    return err;
}

static enum mc_err check_groups(const struct mc_replicate_config *config,
                                size_t count)
{
    if (!config->group_ids) {
        return config->group_id_count == 0 ? MC_OK : MC_ERR_INVALID_PARAMS;
    }
    if (config->group_id_count != count) {
        return MC_ERR_INVALID_PARAMS;
    }
    for (size_t i = 0; i < count; i++) {
        if (mci_group_id_check(config->group_ids[i]) != MC_OK) {
            return MC_ERR_INVALID_PARAMS;
        }
    }
    return MC_OK;
}

enum mc_err mci_client_check_config(const struct mc_replicate_config *config,
                                    size_t count)
{
    if (!config) {
        return MC_OK;
    }
    if (!config->session_ids && config->session_id_count > 0) {
        return MC_ERR_INVALID_PARAMS;
    }
    enum mc_err err = mc_session_ids_check(config->session_ids,
                                           config->session_id_count, count);
    return err != MC_OK ? err : check_groups(config, count);
}

const struct mc_replicate_config *
mci_client_config(const struct mc_client *client,
                  const struct mc_replicate_config *config,
                  struct mc_replicate_config *own)
{
    if (!client->checksum || (config && config->checksum)) {
        return config;
    }
    *own = config ? *config : (struct mc_replicate_config){.replica_num = 0};
    own->checksum = true;
    return own;
}

size_t mci_client_replicas(const struct mc_replicate_config *config)
{
    size_t replicas = config ? config->replica_num : 0;
    if (replicas <= 1) {
        return 1;
    }
    return replicas < MCI_REPLICAS_MAX ? replicas : MCI_REPLICAS_MAX;
}
