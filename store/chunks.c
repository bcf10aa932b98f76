/* SPDX-License-Identifier: Apache-2.0 */
#include "chunks.h"

#include "core.h"
#include "mci_alloc.h"

#define FIRST_CHUNKS 1

struct mci_slab {
    struct mci_slab *before;
    uint32_t count; /* of chunks */
    struct mci_record records[];
};

void mci_chunks_init(struct mci_chunks *chunks)
{
    mci_lock_init(&chunks->lock);
    chunks->slabs = NULL;
    chunks->left = 0;
}

void mci_chunks_fini(struct mci_chunks *chunks)
{
    while (chunks->slabs) {
        struct mci_slab *slab = chunks->slabs;
        chunks->slabs = slab->before;
        mci_free(slab);
    }
    (void)pthread_mutex_destroy(&chunks->lock);
}

/* lock is held. */
static bool add_slab(struct mci_chunks *chunks)
{
    uint32_t count = chunks->slabs ? chunks->slabs->count * 2 : FIRST_CHUNKS;
    count = count < MCI_SLAB_CHUNKS ? count : MCI_SLAB_CHUNKS;
    size_t records = (size_t)count * MCI_POOL_CHUNK;
    struct mci_slab *slab =
        mci_alloc(sizeof *slab + records * sizeof(struct mci_record));
    if (!slab) {
        return false;
    }
    slab->before = chunks->slabs;
    slab->count = count;
    chunks->slabs = slab;
    chunks->left = count;
    return true;
}

struct mci_record *mci_chunks_take(struct mci_chunks *chunks)
{
    struct mci_record *chunk = NULL;
    (void)pthread_mutex_lock(&chunks->lock);
    if (chunks->left > 0 || add_slab(chunks)) {
        struct mci_slab *slab = chunks->slabs;
        size_t at = slab->count - chunks->left;
        chunk = &slab->records[at * MCI_POOL_CHUNK];
        chunks->left--;
    }
    (void)pthread_mutex_unlock(&chunks->lock);
    return chunk;
}
