/* SPDX-License-Identifier: Apache-2.0 */
/* chunks.h - memory for records, which the pools of all shards share.
 *
 * Chunks are cut from slabs. Asked for one by one, each would be a request that
 * makes malloc put together whatever small blocks were freed since the last
 * one; while a thread frees what a dead client left, a writer would pay for
 * that, under its shard's lock.
 *
 * The first slab is small, later ones are larger, up to MCI_SLAB_CHUNKS; what
 * is not handed out is never more than one of these. Chunks do not come back:
 * pools keep what they have.
 * Threads: any thread.
 */
#ifndef CHUNKS_H
#define CHUNKS_H
#include <pthread.h>

#include "object.h"

#define MCI_SLAB_CHUNKS 64

struct mci_chunks {
    pthread_mutex_t lock; /* a leaf, also under a shard's */
    /* guarded by lock: */
    struct mci_slab *slabs; /* the one that is cut first */
    uint32_t left;          /* chunks in it */
};

void mci_chunks_init(struct mci_chunks *chunks);
/* No record may be used any more. */
void mci_chunks_fini(struct mci_chunks *chunks);

/* MCI_POOL_CHUNK records, not zeroed; NULL: out of memory. */
struct mci_record *mci_chunks_take(struct mci_chunks *chunks);
#endif
