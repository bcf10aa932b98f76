/* SPDX-License-Identifier: Apache-2.0 */
/* object.h - what is remembered of an object: records and labels.
 *
 * A record is one version of a key, or one attempt to make one; 72 bytes, in a
 * pool of its shard, named by an index of 32 bits. What is constant in a version
 * and of any length stands in its label: key, tag, tenant. What few versions
 * have (a group, a soft pin, copies beyond the first, a copy on disk) stands in
 * the extras at the end of the label; an upsert always has extras, because at
 * its end it may inherit any of them without allocating.
 *
 * All versions of a key form a chain that hangs in the shard's table; a readable
 * one comes first. Indexes, not pointers, connect records, so that 10 million of
 * them fit in little memory; a record never moves while it is in use.
 *
 * Threads: everything here is guarded by the lock of the record's shard, except
 * bytes and place of a version that is held, which do not change.
 */
#ifndef OBJECT_H
#define OBJECT_H
#include <stdbool.h>
#include <stdint.h>

#include "mc_err.h"
#include "mc_limits.h"
#include "mc_medium.h"
#include "mc_view.h"
#include "mci_list.h"
#include "mci_sums.h"

enum mci_record_state {
    MCI_RECORD_UNUSED = 0,
    MCI_RECORD_OPEN = 1,     /* an attempt; in the chain and the open queue */
    MCI_RECORD_READABLE = 2, /* in the chain, its copies in lanes */
    MCI_RECORD_COPY = 3,     /* a further memory copy of a version */
    MCI_RECORD_LIMBO = 4,    /* unlinked, leased; in the limbo heap */
    MCI_RECORD_HELD = 5,     /* unlinked, waits for holds and named leases */
    MCI_RECORD_DOUBTFUL = 6  /* an attempt ended in doubt; its range is in
                                quarantine; in the chain and the doubtful queue */
};

/* The first two are the media by which the version is readable; media.c alone
 * changes them. */
enum mci_record_mark {
    MCI_MARK_CPU = MC_MEDIUM_CPU,
    MCI_MARK_DISK = MC_MEDIUM_DISK,
    MCI_MARK_UPSERT = 4,
    MCI_MARK_PROMOTE = 8, /* an attempt to copy a version from disk to memory */
    MCI_MARK_HARD = 16,   /* never evicted */
    MCI_MARK_SOFT = 32,   /* stands in the lanes of soft pins */
    MCI_MARK_ASKED = 64,  /* used_ns also begins an exist lease */
    /* Readable: its write grant may outlive its end, by MC_GRANT_TTL_MAX_MS at
     * most, and used_ns is not before the end. */
    MCI_MARK_UNSPENT = 128,
    MCI_MARK_TOLD = 128 /* in doubt: whoever sees to the proof knows of it */
};
#define MCI_MARK_MEDIA (MCI_MARK_CPU | MCI_MARK_DISK)

struct mci_record {
    struct mci_label *label; /* owned; NULL in copies and nameless limbo */
    uint64_t lease_ns;       /* read until then; limbo: freed then */
    uint64_t used_ns; /* last use; open: the writer's last sign of life; in
                         doubt: since when */
    uint64_t bytes;   /* of each copy, its sums included */
    uint64_t number;  /* of the attempt; copies: index of their version */
    union {
        uint64_t cpu_id;    /* event of the last change of the medium cpu */
        uint64_t target;    /* promotion: number of the version to be copied */
        uint32_t next_copy; /* copies: the next one */
    } at;
    uint32_t prev; /* in the queue or heap of its state */
    uint32_t next;
    uint32_t extent; /* 0: no copy in memory */
    uint32_t place;  /* of the copy, in granules of its space */
    union {
        uint32_t holds; /* readers inside this process */
        uint32_t named; /* is_named: the first of its leases, which has them */
    } by;               /* named.h alone looks at it */
    uint16_t segment;
    uint8_t state : 7;
    uint8_t is_named : 1; /* it has leases with names */
    uint8_t marks;
};
_Static_assert(sizeof(struct mci_record) == 72, "a record is 72 bytes");

/* The memory copy of one record becomes the other's. */
static inline void mci_record_move_copy(struct mci_record *to,
                                        struct mci_record *from)
{
    to->segment = from->segment;
    to->extent = from->extent;
    to->place = from->place;
    from->extent = 0;
}

/* Where a record is, from outside its shard: shard in the upper half. */
static inline uint64_t mci_ref_make(uint32_t shard, uint32_t index)
{
    return (uint64_t)shard << 32 | index;
}

struct mci_label {
    uint32_t chain; /* next version of the key */
    uint16_t key_len;
    uint16_t tag_len;
    uint16_t tenant; /* index */
    uint8_t data_type;
    bool has_extras : 1;
    bool is_shared : 1; /* a version's own and another one's heirloom */
    bool has_sums : 1;  /* behind the bytes of each copy */
    char bytes[];       /* key, tag, padding, extras */
};

/* The next record in a version's or an attempt's chain. */
static inline uint32_t mci_record_chain(const struct mci_record *record)
{
    return record->label->chain;
}

/* Of a version's object, as it is told. */
static inline uint64_t mci_record_size(const struct mci_record *record)
{
    return mci_placed_size(record->bytes, record->label->has_sums);
}

struct mci_group;

/* A version's membership; a member while it is readable. */
struct mci_membership {
    struct mci_group *group; /* counted; NULL: ungrouped */
    struct mci_link link;    /* guarded by group->lock, as is ref */
    uint64_t ref;
};

struct mci_extras {
    struct mci_label *heirloom; /* owned: a label for the sake of its tag */
    struct mci_membership member;
    uint64_t soft_ns; /* pinned until then; open: how long, from its end on */
    uint64_t disk_id; /* event of the last change of the medium disk */
    uint32_t disk_client;
    uint32_t copies; /* first further memory copy */
    uint32_t spare;  /* record for a memory copy that goes before the disk's */
    uint8_t soft_action;
};

struct mci_label_opts {
    struct mc_view key;
    struct mc_view tag;
    uint16_t tenant;
    uint8_t data_type;
    bool has_extras;
    bool has_sums;
};

/* NULL when out of memory. */
struct mci_label *mci_label_create(const struct mci_label_opts *opts);

/* Frees the label and its heirloom. The group must have been put, and neither be
 * shared. */
void mci_label_destroy(struct mci_label *label);

/* A label's version is gone: true if the label can be destroyed, outside the
 * lock; false if it lives on as an heirloom. Its own heirloom is let go if
 * another version still needs it. */
bool mci_label_release(struct mci_label *label);

struct mc_view mci_label_key(const struct mci_label *label);

/* The tag, own or inherited; "none" if untagged. */
struct mc_view mci_label_tag(const struct mci_label *label);

/* NULL if it has none. */
struct mci_extras *mci_label_extras(const struct mci_label *label);

/* The tag of a label, own or inherited, becomes the one of heir, an untagged
 * label with extras. An own tag is shared, an inherited one moves. */
void mci_label_inherit(struct mci_label *heir, struct mci_label *from);

/* ---- pool ------------------------------------------------------------- */

#define MCI_POOL_CHUNK 64

struct mci_chunks; /* chunks.h */

/* Records by index, from 1 on. Grows by a chunk at a time and keeps what it has:
 * its bound is the most records that there ever were at a time. */
struct mci_pool {
    struct mci_chunks *source; /* set before the first record is taken */
    struct mci_record **chunks;
    uint32_t chunk_count;
    uint32_t chunk_max;
    uint32_t touched; /* indexes ever used */
    uint32_t unused;  /* list by `next` */
};

static inline struct mci_record *mci_pool_at(const struct mci_pool *pool,
                                             uint32_t index)
{
    return &pool->chunks[index / MCI_POOL_CHUNK][index % MCI_POOL_CHUNK];
}

/* A zeroed record in *index_out. Errors: MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mci_pool_take(struct mci_pool *pool,
                                          uint32_t *index_out);
void mci_pool_give(struct mci_pool *pool, uint32_t index);
/* Labels are not touched, and chunks are the source's. */
void mci_pool_fini(struct mci_pool *pool);

/* ---- queues ----------------------------------------------------------- */

/* A doubly linked list of records by `prev` and `next`; zeroed is empty. */
struct mci_queue {
    uint32_t head;
    uint32_t tail;
};

void mci_queue_push_back(const struct mci_pool *pool, struct mci_queue *queue,
                         uint32_t index);
void mci_queue_push_front(const struct mci_pool *pool, struct mci_queue *queue,
                          uint32_t index);
void mci_queue_remove(const struct mci_pool *pool, struct mci_queue *queue,
                      uint32_t index);

/* ---- limbo ------------------------------------------------------------ */

/* A pairing heap by lease_ns over `prev` (first child) and `next` (sibling):
 * the root is the one that ends first. It needs no memory of its own. */
void mci_limbo_push(const struct mci_pool *pool, uint32_t *root,
                    uint32_t index);
uint32_t mci_limbo_pop(const struct mci_pool *pool, uint32_t *root);
#endif
