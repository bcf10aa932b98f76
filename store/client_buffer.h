/* SPDX-License-Identifier: Apache-2.0 */
/* client_buffer.h - memory of the client into which objects are read for callers
 * that have none of their own.
 *
 * Bounded: what does not fit is refused, and what was handed out comes back by
 * its handle. Made on first use. Counted:
 * it lives as long as its client, or as whoever holds it.
 * Threads: any thread.
 */
#ifndef CLIENT_BUFFER_H
#define CLIENT_BUFFER_H
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "mc_client.h"
#include "mci_extent.h"

struct mc_local_buffer {
    _Atomic uint32_t refs;
    pthread_mutex_t lock;
    uint64_t bytes;
    uint8_t *base;             /* NULL: not made yet */
    struct mci_extents *space; /* guarded by lock */
};

/* Ends with mc_local_buffer_release; what is handed out is gone with the last. */
MC_CHECK_RESULT enum mc_err
mci_local_buffer_create(uint64_t bytes, struct mc_local_buffer **buffer_out);

/* Errors: -200 (full), -11. */
MC_CHECK_RESULT enum mc_err
mci_local_buffer_take(struct mc_local_buffer *buffer, uint64_t len,
                      void **data_out, uint32_t *handle_out);
void mci_local_buffer_give(struct mc_local_buffer *buffer, uint32_t handle);
#endif
