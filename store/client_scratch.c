/* SPDX-License-Identifier: Apache-2.0 */
/* client_scratch.c - working memory out of the local buffer.
 *
 * A piece is registered for as long as it is out, and by itself: a call that names
 * a byte beside it, or a piece that was given back, is refused as any other memory
 * that is not registered, though it lies in the local buffer.
 */
#include "client.h"

static void give_space(struct mc_client *client, const struct mc_scratch *piece)
{
    mci_local_buffer_give(client->buffer, (uint32_t)(uintptr_t)piece->owner);
}

enum mc_err mc_client_take_scratch(struct mc_client *client, size_t len,
                                   struct mc_scratch *scratch_out)
{
    uint32_t handle = 0;
    struct mc_scratch piece = {.len = len};
    if (len == 0 || !scratch_out) {
        return MC_ERR_INVALID_PARAMS;
    }
    enum mc_err err =
        mci_local_buffer_take(client->buffer, len, &piece.data, &handle);
    if (err != MC_OK) {
        return err;
    }
    piece.owner = (void *)(uintptr_t)handle;
    err = mci_memory_add(&client->memory, piece.data, len);
    if (err != MC_OK) {
        give_space(client, &piece);
        return err;
    }
    *scratch_out = piece;
    return MC_OK;
}

enum mc_err mc_client_give_scratch(struct mc_client *client,
                                   struct mc_scratch *scratch)
{
    if (!scratch || !scratch->owner) {
        return MC_OK;
    }
    enum mc_err err = mc_client_unregister_buffer(client, scratch->data);
    if (err == MC_OK) {
        give_space(client, scratch);
        *scratch = (struct mc_scratch){.data = NULL};
    }
    return err;
}

uint64_t mc_client_local_buffer_bytes(const struct mc_client *client)
{
    return client->buffer->bytes;
}
