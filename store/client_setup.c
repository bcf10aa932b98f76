/* SPDX-License-Identifier: Apache-2.0 */
/* client_setup.c - the settings by position that others open their stores
 * with. */
#include <string.h>

#include "client.h"

static uint64_t bytes_or_none(uint64_t bytes)
{
    return bytes > 0 ? bytes : MC_NONE;
}

/* As many as the callers' own words have. */
/* NOLINTNEXTLINE(readability-function-size) */
enum mc_err mc_client_setup(const char *local_hostname,
                            const char *metadata_server,
                            uint64_t global_segment_size,
                            uint64_t local_buffer_size, const char *protocol,
                            const char *device_names,
                            const char *master_server_address,
                            struct mc_client **client_out)
{
    const struct mc_client_opts opts = {
        .master = master_server_address,
        .segment_bytes = bytes_or_none(global_segment_size),
        .local_hostname =
            local_hostname && local_hostname[0] != '\0' ? local_hostname : NULL,
        .metadata_server = metadata_server,
        .protocol = protocol,
        .local_buffer_bytes = bytes_or_none(local_buffer_size)};
    (void)device_names; /* of a transport that is not built */
    return client_out ? mc_client_open(&opts, client_out)
                      : MC_ERR_INVALID_PARAMS;
}
