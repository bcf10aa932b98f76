/* SPDX-License-Identifier: Apache-2.0 */
/* record_ring.c - see record_ring.h.
 *
 * A chunk is left when the next record does not fit, so a chunk that stands
 * between the oldest and the newest holds at least CHUNK_RECORDS_MIN records
 * whatever their sizes. Hence the number of chunks: as many as the capacity
 * needs at that rate, and two for the ends. Counts alone decide fullness.
 */
#include "record_ring.h"

#include <assert.h>
#include <string.h>
#include <sys/mman.h>

#define CHUNK_BYTES 65536u

struct mci_ring_chunk {
    struct mci_ring_chunk *next;
    uint32_t filled; /* offsets from the chunk's start */
    uint32_t taken;
};

#define CHUNK_RECORDS_MIN \
    ((CHUNK_BYTES - sizeof(struct mci_ring_chunk)) / MCI_RING_RECORD_MAX)

_Static_assert(MCI_RING_RECORD_MAX % 8 == 0, "records are padded to 8 bytes");
_Static_assert(sizeof(struct mci_ring_chunk) % 8 == 0, "records are aligned");

static void chunk_reset(struct mci_ring_chunk *chunk)
{
    chunk->next = NULL;
    chunk->filled = sizeof *chunk;
    chunk->taken = sizeof *chunk;
}

static struct mci_ring_chunk *chunk_get(struct mci_ring *ring)
{
    struct mci_ring_chunk *chunk = ring->free;
    if (chunk) {
        ring->free = chunk->next;
    } else {
        assert(ring->chunks_touched < ring->chunk_count);
        chunk = (struct mci_ring_chunk *)(void *)(ring->base +
                                                  (size_t)ring->chunks_touched *
                                                      CHUNK_BYTES);
        ring->chunks_touched++;
    }
    chunk_reset(chunk);
    return chunk;
}

enum mc_err mci_ring_init(struct mci_ring *ring, uint32_t capacity)
{
    uint32_t chunk_count = capacity / CHUNK_RECORDS_MIN + 3;
    size_t bytes = (size_t)chunk_count * CHUNK_BYTES;
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) {
        return MC_ERR_NOMEM;
    }
    *ring = (struct mci_ring){
        .base = base, .reserved_bytes = bytes, .chunk_count = chunk_count};
    ring->oldest = chunk_get(ring);
    ring->newest = ring->oldest;
    return MC_OK;
}

void mci_ring_fini(struct mci_ring *ring)
{
    if (ring->base) {
        (void)munmap(ring->base, ring->reserved_bytes);
    }
    memset(ring, 0, sizeof *ring);
}

static uint8_t *put_bytes(uint8_t *at, struct mc_view view)
{
    if (view.len > 0) {
        memcpy(at, view.data, view.len);
    }
    return at + view.len;
}

static uint32_t entry_size(const struct mci_ring_entry *entry)
{
    size_t size = sizeof(struct mci_ring_record) + entry->tenant_id.len +
                  entry->object_key.len + entry->group_id.len +
                  entry->session_id.len;
    assert(entry->tenant_id.len <= MC_TENANT_LEN_MAX);
    assert(entry->object_key.len <= MC_KEY_LEN_MAX);
    assert(entry->group_id.len <= MC_GROUP_ID_LEN_MAX);
    assert(entry->session_id.len <= MC_SESSION_ID_LEN_MAX);
    return (uint32_t)((size + 7) & ~(size_t)7);
}

void mci_ring_push(struct mci_ring *ring, const struct mci_ring_entry *entry)
{
    uint32_t size = entry_size(entry);
    struct mci_ring_chunk *chunk = ring->newest;
    if (chunk->filled + size > CHUNK_BYTES) {
        chunk = chunk_get(ring);
        ring->newest->next = chunk;
        ring->newest = chunk;
    }
    uint8_t *at = (uint8_t *)chunk + chunk->filled;
    struct mci_ring_record *record = (struct mci_ring_record *)(void *)at;
    record->id = entry->id;
    record->size = size;
    record->key_len = (uint16_t)entry->object_key.len;
    record->group_len = (uint16_t)entry->group_id.len;
    record->session_len = (uint16_t)entry->session_id.len;
    record->tenant_len = (uint8_t)entry->tenant_id.len;
    record->type = (uint8_t)entry->type;
    record->medium = (uint8_t)entry->medium;
    record->group_continues = entry->group_continues;
    at = put_bytes(at + sizeof *record, entry->tenant_id);
    at = put_bytes(at, entry->object_key);
    at = put_bytes(at, entry->group_id);
    (void)put_bytes(at, entry->session_id);
    chunk->filled += size;
    ring->depth++;
}

const struct mci_ring_record *mci_ring_peek(const struct mci_ring *ring)
{
    const struct mci_ring_chunk *chunk = ring->oldest;
    if (ring->depth == 0) {
        return NULL;
    }
    return (
        const struct mci_ring_record *)(const void *)((const uint8_t *)chunk +
                                                      chunk->taken);
}

void mci_ring_pop(struct mci_ring *ring)
{
    struct mci_ring_chunk *chunk = ring->oldest;
    chunk->taken += mci_ring_peek(ring)->size;
    ring->depth--;
    if (chunk->taken < chunk->filled) {
        return;
    }
    if (chunk == ring->newest) {
        chunk_reset(chunk);
        return;
    }
    ring->oldest = chunk->next;
    chunk->next = ring->free;
    ring->free = chunk;
}

void mci_ring_clear(struct mci_ring *ring)
{
    while (ring->depth > 0) {
        mci_ring_pop(ring);
    }
}

struct ring_group {
    uint32_t count;
    uint32_t bytes;
};

/* The records of a group may lie in two chunks, so they are found one by one. */
static struct ring_group oldest_group(const struct mci_ring *ring)
{
    struct ring_group group = {0, 0};
    const struct mci_ring_chunk *chunk = ring->oldest;
    uint32_t offset = chunk->taken;
    bool continues = true;
    while (continues) {
        if (offset == chunk->filled) {
            chunk = chunk->next;
            offset = sizeof *chunk;
        }
        const struct mci_ring_record *record =
            (const struct mci_ring_record *)(const void *)((const uint8_t *)
                                                               chunk +
                                                           offset);
        group.count++;
        group.bytes += record->size;
        offset += record->size;
        continues = record->group_continues;
    }
    return group;
}

uint32_t mci_ring_take(struct mci_ring *ring, uint32_t max_count,
                       void *bytes_out, size_t max_bytes)
{
    uint8_t *at = bytes_out;
    uint32_t count = 0;
    while (ring->depth > 0) {
        struct ring_group group = oldest_group(ring);
        if (group.count > max_count - count || group.bytes > max_bytes) {
            break;
        }
        count += group.count;
        max_bytes -= group.bytes;
        for (uint32_t i = 0; i < group.count; i++) {
            const struct mci_ring_record *record = mci_ring_peek(ring);
            memcpy(at, record, record->size);
            at += record->size;
            mci_ring_pop(ring);
        }
    }
    return count;
}

uint32_t mci_ring_drop_group(struct mci_ring *ring)
{
    uint32_t count = oldest_group(ring).count;
    for (uint32_t i = 0; i < count; i++) {
        mci_ring_pop(ring);
    }
    return count;
}
