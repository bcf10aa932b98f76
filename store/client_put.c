/* SPDX-License-Identifier: Apache-2.0 */
/* client_put.c - the calls that write. */
#include "client_write.h"

static enum mc_err write_one(struct mci_writing *writing)
{
    int64_t result = MC_OK;
    writing->results = &result;
    return mci_client_code(mci_write(writing, 1), &result);
}

/* ---- any memory ---------------------------------------------------------- */

enum mc_err mc_client_put(struct mc_client *client, struct mc_view key,
                          const void *data, size_t len,
                          const struct mc_replicate_config *config)
{
    const struct mc_view value = mc_view_make(data, len);
    struct mci_writing writing = {.client = client,
                                  .config = config,
                                  .keys = &key,
                                  .values = &value,
                                  .takes_any_memory = true};
    return write_one(&writing);
}

enum mc_err mc_client_upsert(struct mc_client *client, struct mc_view key,
                             const void *data, size_t len,
                             const struct mc_replicate_config *config)
{
    const struct mc_view value = mc_view_make(data, len);
    struct mci_writing writing = {.client = client,
                                  .config = config,
                                  .keys = &key,
                                  .values = &value,
                                  .replaces = true,
                                  .takes_any_memory = true};
    return write_one(&writing);
}

enum mc_err mc_client_batch_put(struct mc_client *client,
                                const struct mc_view *keys,
                                const struct mc_view *values, size_t count,
                                const struct mc_replicate_config *config,
                                int64_t *results_out)
{
    struct mci_writing writing = {.client = client,
                                  .config = config,
                                  .keys = keys,
                                  .values = values,
                                  .results = results_out,
                                  .takes_any_memory = true};
    return mci_write(&writing, count);
}

enum mc_err mc_client_batch_upsert(struct mc_client *client,
                                   const struct mc_view *keys,
                                   const struct mc_view *values, size_t count,
                                   const struct mc_replicate_config *config,
                                   int64_t *results_out)
{
    struct mci_writing writing = {.client = client,
                                  .config = config,
                                  .keys = keys,
                                  .values = values,
                                  .results = results_out,
                                  .replaces = true,
                                  .takes_any_memory = true};
    return mci_write(&writing, count);
}

enum mc_err mc_client_put_parts(struct mc_client *client, struct mc_view key,
                                const struct mc_span *parts, size_t count,
                                const struct mc_replicate_config *config)
{
    const struct mc_spans list = {.spans = parts, .count = count};
    struct mci_writing writing = {.client = client,
                                  .config = config,
                                  .keys = &key,
                                  .lists = &list,
                                  .takes_any_memory = true};
    return write_one(&writing);
}

enum mc_err mc_client_upsert_parts(struct mc_client *client, struct mc_view key,
                                   const struct mc_span *parts, size_t count,
                                   const struct mc_replicate_config *config)
{
    const struct mc_spans list = {.spans = parts, .count = count};
    struct mci_writing writing = {.client = client,
                                  .config = config,
                                  .keys = &key,
                                  .lists = &list,
                                  .replaces = true,
                                  .takes_any_memory = true};
    return write_one(&writing);
}

enum mc_err mc_client_batch_put_parts(struct mc_client *client,
                                      const struct mc_view *keys,
                                      const struct mc_spans *values,
                                      size_t count,
                                      const struct mc_replicate_config *config,
                                      int64_t *results_out)
{
    struct mci_writing writing = {.client = client,
                                  .config = config,
                                  .keys = keys,
                                  .lists = values,
                                  .results = results_out,
                                  .takes_any_memory = true};
    return mci_write(&writing, count);
}

enum mc_err mc_client_batch_upsert_parts(
    struct mc_client *client, const struct mc_view *keys,
    const struct mc_spans *values, size_t count,
    const struct mc_replicate_config *config, int64_t *results_out)
{
    struct mci_writing writing = {.client = client,
                                  .config = config,
                                  .keys = keys,
                                  .lists = values,
                                  .results = results_out,
                                  .replaces = true,
                                  .takes_any_memory = true};
    return mci_write(&writing, count);
}

/* ---- registered memory --------------------------------------------------- */

enum mc_err mc_client_put_from(struct mc_client *client, struct mc_view key,
                               const void *data, size_t len,
                               const struct mc_replicate_config *config)
{
    const struct mc_span span = {.data = (void *)(uintptr_t)data, .len = len};
    struct mci_writing writing = {
        .client = client, .config = config, .keys = &key, .spans = &span};
    return write_one(&writing);
}

enum mc_err mc_client_upsert_from(struct mc_client *client, struct mc_view key,
                                  const void *data, size_t len,
                                  const struct mc_replicate_config *config)
{
    const struct mc_span span = {.data = (void *)(uintptr_t)data, .len = len};
    struct mci_writing writing = {.client = client,
                                  .config = config,
                                  .keys = &key,
                                  .spans = &span,
                                  .replaces = true};
    return write_one(&writing);
}

enum mc_err mc_client_batch_put_from(struct mc_client *client,
                                     const struct mc_view *keys,
                                     const struct mc_span *values, size_t count,
                                     const struct mc_replicate_config *config,
                                     int64_t *results_out)
{
    struct mci_writing writing = {.client = client,
                                  .config = config,
                                  .keys = keys,
                                  .spans = values,
                                  .results = results_out};
    return mci_write(&writing, count);
}

enum mc_err mc_client_batch_upsert_from(
    struct mc_client *client, const struct mc_view *keys,
    const struct mc_span *values, size_t count,
    const struct mc_replicate_config *config, int64_t *results_out)
{
    struct mci_writing writing = {.client = client,
                                  .config = config,
                                  .keys = keys,
                                  .spans = values,
                                  .results = results_out,
                                  .replaces = true};
    return mci_write(&writing, count);
}

enum mc_err mc_client_batch_put_from_multi_buffers(
    struct mc_client *client, const struct mc_view *keys,
    const struct mc_spans *values, size_t count,
    const struct mc_replicate_config *config, int64_t *results_out)
{
    struct mci_writing writing = {.client = client,
                                  .config = config,
                                  .keys = keys,
                                  .lists = values,
                                  .results = results_out};
    return mci_write(&writing, count);
}

/* ---- registering --------------------------------------------------------- */

enum mc_err mc_client_register_buffer(struct mc_client *client, void *base,
                                      size_t len)
{
    return mci_memory_add(&client->memory, base, len);
}

enum mc_err mc_client_unregister_buffer(struct mc_client *client, void *base)
{
    uint64_t now_ns = mci_clock_ns();
    return mci_memory_remove(&client->memory, base,
                             mci_clock_deadline(now_ns, client->timeout_ms));
}

size_t mc_client_registered_len(struct mc_client *client, const void *data)
{
    return mci_memory_len(&client->memory, data);
}
