/* SPDX-License-Identifier: Apache-2.0 */
/* client_ask.c - asking, listing, removing: checks, and the link does it. */
#include <string.h>

#include "client.h"

/* ---- asking ------------------------------------------------------------ */

enum mc_err mc_client_batch_exist(struct mc_client *client,
                                  const struct mc_view *keys, size_t count,
                                  int64_t *results_out)
{
    enum mc_err err = mci_client_check_rows(keys, results_out, count);
    if (err != MC_OK) {
        return mci_client_refuse(results_out, count, err);
    }
    const struct mci_call call = mci_client_call(client);
    return client->link.ops->exist(client->link.ctx, &call, keys, count,
                                   results_out);
}

enum mc_err mc_client_exist(struct mc_client *client, struct mc_view key,
                            bool *exists_out)
{
    if (!exists_out) {
        return MC_ERR_INVALID_PARAMS;
    }
    int64_t result = 0;
    enum mc_err err = mci_client_code(
        mc_client_batch_exist(client, &key, 1, &result), &result);
    if (err == MC_OK) {
        *exists_out = result == 1;
    }
    return err;
}

enum mc_err mc_client_get_size(struct mc_client *client, struct mc_view key,
                               uint64_t *size_out)
{
    if (!size_out) {
        return MC_ERR_INVALID_PARAMS;
    }
    const struct mci_call call = mci_client_call(client);
    int64_t result = 0;
    enum mc_err err = mci_client_code(
        client->link.ops->get_size(client->link.ctx, &call, &key, 1, &result),
        &result);
    if (err == MC_OK) {
        *size_out = (uint64_t)result;
    }
    return err;
}

enum mc_err mci_client_probe_until(struct mc_client *client,
                                   const struct mc_view *keys, size_t count,
                                   uint64_t deadline_ns,
                                   struct mc_probe *probes_out,
                                   int64_t *results_out)
{
    enum mc_err err = mci_client_check_rows(keys, results_out, count);
    if (err == MC_OK && count > 0 && !probes_out) {
        err = MC_ERR_INVALID_PARAMS;
    }
    if (err != MC_OK) {
        return mci_client_refuse(results_out, count, err);
    }
    const struct mci_call call = mci_client_call_until(client, deadline_ns);
    return client->link.ops->probe(client->link.ctx, &call, keys, count,
                                   probes_out, results_out);
}

enum mc_err mc_client_batch_probe(struct mc_client *client,
                                  const struct mc_view *keys, size_t count,
                                  struct mc_probe *probes_out,
                                  int64_t *results_out)
{
    return mci_client_probe_until(client, keys, count, 0, probes_out,
                                  results_out);
}

enum mc_err mc_client_probe(struct mc_client *client, struct mc_view key,
                            struct mc_probe *probe_out)
{
    if (!probe_out) {
        return MC_ERR_INVALID_PARAMS;
    }
    struct mc_probe probe;
    int64_t result = 0;
    enum mc_err err = mci_client_code(
        mc_client_batch_probe(client, &key, 1, &probe, &result), &result);
    if (err == MC_OK) {
        *probe_out = probe;
    }
    return err;
}

/* ---- listing ----------------------------------------------------------- */

static bool show_page(const struct mci_page *page, mc_client_list_fn fn,
                      void *ctx)
{
    for (uint32_t i = 0; i < page->count; i++) {
        if (!fn(ctx, &page->rows[i])) {
            return false;
        }
    }
    return true;
}

enum mc_err mc_client_list(struct mc_client *client, mc_client_list_fn fn,
                           void *ctx)
{
    const struct mci_call call = mci_client_call(client);
    struct mc_view tenant =
        call.tenant.len > 0 ? call.tenant : mc_view_str("default");
    struct mci_cursor cursor = {.shard = 0};
    struct mci_page page;
    enum mc_err err = fn ? mci_page_init(&page) : MC_ERR_INVALID_PARAMS;
    if (err != MC_OK) {
        return err;
    }
    while (err == MC_OK && !cursor.at_end) {
        err = client->link.ops->list(client->link.ctx, &call, tenant, &cursor,
                                     &page);
        if (err == MC_OK && !show_page(&page, fn, ctx)) {
            break;
        }
    }
    mci_page_fini(&page);
    return err;
}

/* ---- removing ---------------------------------------------------------- */

enum mc_err mc_client_batch_remove(struct mc_client *client,
                                   const struct mc_view *keys, size_t count,
                                   bool force, int64_t *results_out)
{
    enum mc_err err = mci_client_check_rows(keys, results_out, count);
    if (err != MC_OK) {
        return mci_client_refuse(results_out, count, err);
    }
    const struct mci_call call = mci_client_call(client);
    return client->link.ops->remove(client->link.ctx, &call, keys, count, force,
                                    results_out);
}

enum mc_err mc_client_remove(struct mc_client *client, struct mc_view key,
                             bool force)
{
    int64_t result = 0;
    return mci_client_code(
        mc_client_batch_remove(client, &key, 1, force, &result), &result);
}

enum mc_err mc_client_remove_by_regex(struct mc_client *client,
                                      struct mc_view regex, bool force,
                                      uint64_t *removed_out)
{
    const struct mci_call call = mci_client_call(client);
    uint64_t removed = 0;
    if (!regex.data) {
        return MC_ERR_INVALID_PARAMS;
    }
    enum mc_err err = client->link.ops->remove_by_regex(client->link.ctx, &call,
                                                        regex, force, &removed);
    if (removed_out && (err == MC_OK || err == MC_ERR_RPC_TIMEOUT)) {
        *removed_out = removed;
    }
    return err;
}

enum mc_err mc_client_remove_all(struct mc_client *client, bool force,
                                 uint64_t *removed_out)
{
    const struct mci_call call = mci_client_call(client);
    uint64_t removed = 0;
    enum mc_err err =
        client->link.ops->remove_all(client->link.ctx, &call, force, &removed);
    if (removed_out && (err == MC_OK || err == MC_ERR_RPC_TIMEOUT)) {
        *removed_out = removed;
    }
    return err;
}
