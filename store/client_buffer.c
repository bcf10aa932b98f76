/* SPDX-License-Identifier: Apache-2.0 */
/* client_buffer.c - the local buffer, and the calls that hand out of it. */
#include <sys/mman.h>

#include "client.h"
#include "mci_alloc.h"

enum mc_err mci_local_buffer_create(uint64_t bytes,
                                    struct mc_local_buffer **buffer_out)
{
    struct mc_local_buffer *buffer = mci_calloc(1, sizeof *buffer);
    if (!buffer) {
        return MC_ERR_NOMEM;
    }
    if (pthread_mutex_init(&buffer->lock, NULL) != 0) {
        mci_free(buffer);
        return MC_ERR_NOMEM;
    }
    buffer->bytes = bytes;
    atomic_init(&buffer->refs, 1);
    *buffer_out = buffer;
    return MC_OK;
}

struct mc_local_buffer *mc_client_hold_local_buffer(struct mc_client *client)
{
    (void)atomic_fetch_add(&client->buffer->refs, 1);
    return client->buffer;
}

void mc_local_buffer_release(struct mc_local_buffer *buffer)
{
    if (!buffer || atomic_fetch_sub(&buffer->refs, 1) > 1) {
        return;
    }
    if (buffer->base) {
        (void)munmap(buffer->base, buffer->bytes);
    }
    mci_extents_destroy(buffer->space);
    (void)pthread_mutex_destroy(&buffer->lock);
    mci_free(buffer);
}

static enum mc_err make(struct mc_local_buffer *buffer)
{
    if (buffer->bytes == 0) {
        return MC_ERR_NO_AVAILABLE_HANDLE;
    }
    struct mci_extents *space = NULL;
    enum mc_err err = mci_extents_create(buffer->bytes, 0, &space);
    if (err != MC_OK) {
        return err;
    }
    void *base = mmap(NULL, buffer->bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        mci_extents_destroy(space);
        return MC_ERR_NOMEM;
    }
    buffer->base = base;
    buffer->space = space;
    return MC_OK;
}

enum mc_err mci_local_buffer_take(struct mc_local_buffer *buffer, uint64_t len,
                                  void **data_out, uint32_t *handle_out)
{
    struct mci_extent extent;
    (void)pthread_mutex_lock(&buffer->lock);
    enum mc_err err = buffer->base ? MC_OK : make(buffer);
    if (err == MC_OK) {
        err = mci_extents_alloc(buffer->space, len, NULL, &extent);
    }
    (void)pthread_mutex_unlock(&buffer->lock);
    if (err == MC_OK) {
        *data_out = buffer->base + extent.offset;
        *handle_out = extent.handle;
    }
    return err;
}

void mci_local_buffer_give(struct mc_local_buffer *buffer, uint32_t handle)
{
    (void)pthread_mutex_lock(&buffer->lock);
    mci_extents_free(buffer->space, handle);
    (void)pthread_mutex_unlock(&buffer->lock);
}
