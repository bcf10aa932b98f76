/* SPDX-License-Identifier: Apache-2.0 */
/* record_ring.h - storage of the event log: a queue of events of any legal
 * size that never allocates and never fails.
 *
 * Address space for the worst case (capacity events, each as long as it may
 * be) is reserved at init, in chunks; a chunk is touched when the chunks used
 * before it are all in use. So resident memory follows what was queued at most,
 * and a queue that is kept short stays in one warm chunk. A record lies whole
 * in its chunk.
 * Threads: one thread at a time; the event log's lock guards it.
 */
#ifndef RECORD_RING_H
#define RECORD_RING_H
#include <stdbool.h>

#include "mci_event_log.h"

struct mci_ring_chunk;

/* What stands before the strings of a record. */
struct mci_ring_record {
    uint64_t id;
    uint32_t size; /* with this header, multiple of 8 */
    uint16_t key_len;
    uint16_t group_len;
    uint16_t session_len;
    uint8_t tenant_len;
    uint8_t type;
    uint8_t medium;
    uint8_t group_continues;
};

#define MCI_RING_RECORD_STRINGS_MAX                             \
    (MC_TENANT_LEN_MAX + MC_KEY_LEN_MAX + MC_GROUP_ID_LEN_MAX + \
     MC_SESSION_ID_LEN_MAX)
#define MCI_RING_RECORD_MAX \
    (sizeof(struct mci_ring_record) + MCI_RING_RECORD_STRINGS_MAX)

struct mci_ring {
    uint8_t *base; /* the reserved address space */
    size_t reserved_bytes;
    uint32_t chunk_count;
    uint32_t chunks_touched;
    struct mci_ring_chunk *free;   /* last used first */
    struct mci_ring_chunk *oldest; /* never NULL */
    struct mci_ring_chunk *newest;
    uint64_t depth; /* records queued */
};

/* Errors: MC_ERR_NOMEM (no address space). */
MC_CHECK_RESULT enum mc_err mci_ring_init(struct mci_ring *ring,
                                          uint32_t capacity);
void mci_ring_fini(struct mci_ring *ring); /* zeroed is fine */

/* What push copies; strings within mc_limits.h. */
struct mci_ring_entry {
    uint64_t id;
    enum mc_event_type type;
    enum mc_medium medium;
    bool group_continues;
    struct mc_view tenant_id;
    struct mc_view object_key;
    struct mc_view group_id;
    struct mc_view session_id;
};

/* depth must be below the capacity. */
void mci_ring_push(struct mci_ring *ring, const struct mci_ring_entry *entry);

/* The oldest record, valid until it is popped; NULL if there is none. */
const struct mci_ring_record *mci_ring_peek(const struct mci_ring *ring);
void mci_ring_pop(struct mci_ring *ring);
void mci_ring_clear(struct mci_ring *ring);

/* Copies the oldest groups that fit whole into max_count records and max_bytes
 * bytes, and pops them. Returns how many records were copied, one behind the
 * other. The first group always fits where max_bytes is at least
 * MCI_EVENT_LOG_GROUP_MAX * MCI_RING_RECORD_MAX. */
uint32_t mci_ring_take(struct mci_ring *ring, uint32_t max_count,
                       void *bytes_out, size_t max_bytes);

/* From records as they were copied, aligned to 8 bytes, to views into them; an
 * empty string is none. lost_before is 0. */
void mci_ring_read(const void *bytes, uint32_t count,
                   struct mci_log_record *records_out);

/* Pops the oldest group whole; returns its number of records. */
uint32_t mci_ring_drop_group(struct mci_ring *ring);
#endif
