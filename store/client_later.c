/* SPDX-License-Identifier: Apache-2.0 */
/* client_later.c - calls that are declared and not built yet. */
#include "client.h"

enum mc_err mc_client_setup(const char *local_hostname,
                            const char *metadata_server,
                            uint64_t global_segment_size,
                            uint64_t local_buffer_size, const char *protocol,
                            const char *device_names,
                            const char *master_server_address,
                            struct mc_client **client_out)
{
    (void)local_hostname;
    (void)metadata_server;
    (void)global_segment_size;
    (void)local_buffer_size;
    (void)protocol;
    (void)device_names;
    (void)master_server_address;
    (void)client_out;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_err mc_client_register_buffer(struct mc_client *client, void *base,
                                      size_t len)
{
    (void)client;
    (void)base;
    (void)len;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_err mc_client_unregister_buffer(struct mc_client *client, void *base)
{
    (void)client;
    (void)base;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_err mc_client_put_from(struct mc_client *client, struct mc_view key,
                               const void *data, size_t len,
                               const struct mc_replicate_config *config)
{
    (void)client;
    (void)key;
    (void)data;
    (void)len;
    (void)config;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_err mc_client_upsert_from(struct mc_client *client, struct mc_view key,
                                  const void *data, size_t len,
                                  const struct mc_replicate_config *config)
{
    (void)client;
    (void)key;
    (void)data;
    (void)len;
    (void)config;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_err mc_client_batch_put_from(struct mc_client *client,
                                     const struct mc_view *keys,
                                     const struct mc_span *values, size_t count,
                                     const struct mc_replicate_config *config,
                                     int64_t *results_out)
{
    (void)client;
    (void)keys;
    (void)values;
    (void)count;
    (void)config;
    (void)results_out;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_err mc_client_batch_upsert_from(
    struct mc_client *client, const struct mc_view *keys,
    const struct mc_span *values, size_t count,
    const struct mc_replicate_config *config, int64_t *results_out)
{
    (void)client;
    (void)keys;
    (void)values;
    (void)count;
    (void)config;
    (void)results_out;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_err mc_client_batch_put_from_multi_buffers(
    struct mc_client *client, const struct mc_view *keys,
    const struct mc_spans *values, size_t count,
    const struct mc_replicate_config *config, int64_t *results_out)
{
    (void)client;
    (void)keys;
    (void)values;
    (void)count;
    (void)config;
    (void)results_out;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_err mc_client_put_parts(struct mc_client *client, struct mc_view key,
                                const struct mc_span *parts, size_t count,
                                const struct mc_replicate_config *config)
{
    (void)client;
    (void)key;
    (void)parts;
    (void)count;
    (void)config;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_err mc_client_upsert_parts(struct mc_client *client, struct mc_view key,
                                   const struct mc_span *parts, size_t count,
                                   const struct mc_replicate_config *config)
{
    (void)client;
    (void)key;
    (void)parts;
    (void)count;
    (void)config;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_err mc_client_batch_get_into_multi_buffers(
    struct mc_client *client, const struct mc_view *keys,
    const struct mc_spans *buffers, size_t count, bool prefer_same_node,
    int64_t *results_out)
{
    (void)client;
    (void)keys;
    (void)buffers;
    (void)count;
    (void)prefer_same_node;
    (void)results_out;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_err mc_client_get_into_ranges(struct mc_client *client, void *buffer,
                                      size_t capacity,
                                      const struct mc_range_row *rows,
                                      size_t count)
{
    (void)client;
    (void)buffer;
    (void)capacity;
    (void)rows;
    (void)count;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_err mc_client_get_buffer(struct mc_client *client, struct mc_view key,
                                 struct mc_buffer *buffer_out)
{
    (void)client;
    (void)key;
    (void)buffer_out;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_err mc_client_batch_get_buffer(struct mc_client *client,
                                       const struct mc_view *keys, size_t count,
                                       struct mc_buffer *buffers_out,
                                       int64_t *results_out)
{
    (void)client;
    (void)keys;
    (void)count;
    (void)buffers_out;
    (void)results_out;
    return MC_ERR_NOT_SUPPORTED;
}

void mc_client_release_buffer(struct mc_client *client,
                              struct mc_buffer *buffer)
{
    (void)client;
    (void)buffer;
}

enum mc_err mc_client_batch_get_replicas(struct mc_client *client,
                                         const struct mc_view *keys,
                                         size_t count,
                                         struct mc_replicas *replicas_out,
                                         int64_t *results_out)
{
    (void)client;
    (void)keys;
    (void)count;
    (void)replicas_out;
    (void)results_out;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_err mc_client_mount_segment(struct mc_client *client, void *base,
                                    uint64_t bytes, uint32_t *segment_out)
{
    (void)client;
    (void)base;
    (void)bytes;
    (void)segment_out;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_err mc_client_allocate_and_mount_segment(struct mc_client *client,
                                                 uint64_t bytes,
                                                 uint32_t *segment_out,
                                                 uint64_t *bytes_out)
{
    (void)client;
    (void)bytes;
    (void)segment_out;
    (void)bytes_out;
    return MC_ERR_NOT_SUPPORTED;
}

enum mc_err mc_client_unmount_segment(struct mc_client *client,
                                      uint32_t segment, uint64_t grace_ms)
{
    (void)client;
    (void)segment;
    (void)grace_ms;
    return MC_ERR_NOT_SUPPORTED;
}

const char *mc_client_hostname(const struct mc_client *client)
{
    (void)client;
    return "embedded";
}

int mc_client_health(const struct mc_client *client)
{
    (void)client;
    return 0;
}

uint16_t mc_client_http_port(const struct mc_client *client)
{
    (void)client;
    return 0;
}
