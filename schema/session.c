/* SPDX-License-Identifier: Apache-2.0 */
#include "mc_session.h"

#include "mci_utf8.h"

enum mc_err mc_session_id_check(struct mc_view session_id)
{
    if (session_id.len > MC_SESSION_ID_LEN_MAX ||
        (session_id.len != 0 && !session_id.data)) {
        return MC_ERR_INVALID_PARAMS;
    }
    if (session_id.len != 0 &&
        !mci_utf8_valid(session_id.data, session_id.len)) {
        return MC_ERR_INVALID_PARAMS;
    }
    return MC_OK;
}

enum mc_err mc_session_ids_check(const struct mc_view *ids, size_t id_count,
                                 size_t key_count)
{
    if (!ids) {
        return id_count == 0 ? MC_OK : MC_ERR_INVALID_PARAMS;
    }
    if (id_count != key_count) {
        return MC_ERR_INVALID_PARAMS;
    }
    for (size_t i = 0; i < id_count; i++) {
        enum mc_err err = mc_session_id_check(ids[i]);
        if (err != MC_OK) {
            return err;
        }
    }
    return MC_OK;
}
