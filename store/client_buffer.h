/* SPDX-License-Identifier: Apache-2.0 */
/* client_buffer.h - memory of the client into which objects are read for callers
 * that have none of their own.
 *
 * Bounded: what does not fit is refused, and what was handed out comes back by
 * its handle. Made on first use.
 * Threads: any thread, but init and fini.
 */
#ifndef CLIENT_BUFFER_H
#define CLIENT_BUFFER_H
#include <pthread.h>
#include <stdint.h>

#include "mci_extent.h"

struct mci_local_buffer {
    pthread_mutex_t lock;
    uint64_t bytes;
    uint8_t *base;             /* NULL: not made yet */
    struct mci_extents *space; /* guarded by lock */
};

MC_CHECK_RESULT enum mc_err
mci_local_buffer_init(struct mci_local_buffer *buffer, uint64_t bytes);
/* What is handed out is gone. */
void mci_local_buffer_fini(struct mci_local_buffer *buffer);

/* Errors: -200 (full), -11. */
MC_CHECK_RESULT enum mc_err
mci_local_buffer_take(struct mci_local_buffer *buffer, uint64_t len,
                      void **data_out, uint32_t *handle_out);
void mci_local_buffer_give(struct mci_local_buffer *buffer, uint32_t handle);
#endif
