/* SPDX-License-Identifier: Apache-2.0 */
/* core.h - the inside of a master: shards, spaces, and who guards what.
 *
 * A shard is a lock with a part of the objects under it. A space is a lent
 * segment: its free ranges under a lock of its own, and for each shard the lanes
 * in which the copies that stand there wait to be evicted, guarded by the
 * shard's lock. Writers are client incarnations, with the fates of their
 * attempts in atomics, so that they can be set under a shard lock.
 *
 * Spaces, tenants and writers are found by index through atomic pointers, are
 * made under tables_lock, and live as long as the master: their number is
 * bounded by how many there were at a time.
 */
#ifndef CORE_H
#define CORE_H
#include <pthread.h>
#include <stdatomic.h>

#include "chunks.h"
#include "mci_clock.h"
#include "mci_extent.h"
#include "mci_map.h"
#include "mci_master.h"
#include "named.h"
#include "object_table.h"

#define MCI_NEVER UINT64_MAX

/* ---- lanes and spaces ------------------------------------------------- */

enum mci_lane_kind { MCI_LANE_PLAIN = 0, MCI_LANE_SOFT = 1, MCI_LANE_HARD = 2 };
#define MCI_LANE_KINDS 3

/* Copies in one space and shard by last use. Guarded by the shard's lock; the
 * atomics are written under it and may be read without, as hints. */
struct mci_lane {
    struct mci_queue queue;
    uint32_t count;
    _Atomic uint64_t head_used_ns;  /* MCI_NEVER: empty */
    _Atomic uint64_t blocked_ns[2]; /* nothing in it can be evicted before; the
                                       second one without exist leases */
};

struct mci_space {
    uint32_t slot;
    _Atomic bool is_gone; /* true also while it is not in use */
    _Atomic bool is_shut; /* nothing is placed there now */
    _Atomic uint64_t used_bytes;
    _Atomic uint32_t turn;    /* where evictors begin to look */
    _Atomic bool is_lowering; /* the sweep is on its way to the low mark */
    _Atomic uint64_t capacity_bytes;
    _Atomic uint32_t id;         /* as told to clients; 0: not in use */
    _Atomic uint32_t client;     /* whose it is */
    _Atomic uint32_t host;       /* where that runs; 0: not known */
    uint32_t step_shard;         /* of its closing; guarded by lock */
    uint32_t open_claims;        /* of evictors; guarded by lock */
    pthread_mutex_t lock;        /* a leaf */
    struct mci_extents *extents; /* guarded by lock; NULL: not in use */
    unsigned granule_shift;      /* of places in records */
    char *name;                  /* guarded by lock; owned */
    struct mci_lane *lanes;      /* [kind * shard_count + shard] */
};

/* ---- shards ----------------------------------------------------------- */

struct mci_shard_counts {
    uint64_t objects;
    uint64_t attempts;
    uint64_t doubtful;
    uint64_t doubtful_bytes;
    uint64_t waiting_bytes; /* unlinked: leased or held only */
    uint64_t commits;
    uint64_t gets;
    uint64_t hits;
    uint64_t evicted_objects;
    uint64_t evicted_bytes;
};

struct mci_shard {
    pthread_mutex_t lock;
    uint32_t index;
    /* All below is guarded by lock; what is atomic is written under it. */
    struct mci_table table;
    struct mci_pool pool;
    struct mci_queue open;     /* attempts by last sign of life */
    struct mci_queue doubtful; /* attempts in quarantine */
    uint32_t untold;           /* from here on they were not told; 0: none */
    uint32_t limbo;            /* root */
    _Atomic uint64_t limbo_ns; /* when the first of limbo ends, or NEVER */
    _Atomic uint64_t soft_ns;  /* no soft pin ends before */
    struct mci_named_table
        *named;                /* leases; owned; NULL: there never were any */
    _Atomic uint64_t named_ns; /* no named lease ends before */
    struct mci_shard_counts counts;
} __attribute__((aligned(64)));

/* ---- groups, tenants, writers ----------------------------------------- */

struct mci_group {
    uint32_t refs; /* guarded by the lock of its stripe */
    uint16_t tenant;
    pthread_mutex_t lock; /* after a shard's, before the log's */
    /* guarded by lock: */
    uint64_t lease_ns;
    uint64_t asked_ns; /* exist leases, which yield */
    struct mci_link members;
    bool is_partial;              /* in the line of those to be evicted first */
    struct mci_link partial_link; /* guarded by master->partial_lock */
    size_t key_len;
    char key[]; /* tenant index in two bytes, then the id */
};
#define MCI_GROUP_KEY_HEAD 2

#define MCI_GROUP_STRIPES 64
struct mci_group_stripe {
    pthread_mutex_t lock; /* a leaf */
    struct mci_map map;
} __attribute__((aligned(64)));

struct mci_tenant {
    struct mci_log_tenant log; /* name; counts guarded by the log's lock */
    _Atomic bool has_quota;
    _Atomic uint64_t quota_bytes;
    _Atomic uint64_t charged_bytes; /* open or readable, per copy; only with
                                       multi-tenancy */
    _Atomic uint32_t evict_turn;    /* the shard that is looked at next */
    uint16_t index;
    char name[MC_TENANT_LEN_MAX + 1];
};

#define MCI_SERIAL_BITS 44
#define MCI_FATES 65536

struct mci_writer {
    uint32_t id;
    _Atomic bool is_expired; /* true also while the id is not in use */
    _Atomic uint64_t last_serial;
    _Atomic uint32_t open; /* attempts */
    _Atomic uint64_t last_lease;
    _Atomic uint32_t leases; /* named ones that are not dropped yet */
    _Atomic uint64_t disk_copies;
    _Atomic uint32_t host;            /* where it runs; 0: not known */
    _Atomic(_Atomic uint8_t *) fates; /* [MCI_FATES], made at the first start */
    uint32_t step_shard; /* of its expiry; guarded by tables_lock */
    bool is_going;       /* counted in master->going; guarded by tables_lock */
    bool is_used;        /* guarded by tables_lock */
};

/* ---- master ----------------------------------------------------------- */

#define MCI_WRITER_CHUNK 1024

struct mci_writer_chunk {
    _Atomic(struct mci_writer *) writers[MCI_WRITER_CHUNK];
};

struct mci_master {
    struct mc_store_opts opts; /* with the defaults filled in */
    uint64_t read_lease_ns;
    uint64_t exist_lease_ns;
    uint64_t soft_pin_ns;
    uint64_t soft_pin_max_ns;
    uint64_t idle_ns;
    struct mci_event_log *log;
    uint64_t epoch;
    uint64_t seed;
    uint32_t shard_count;
    unsigned shard_bits;
    struct mci_shard *shards;
    /* Spaces that are gone and not given back, clients that are and not gone
     * through. 0: the bytes of all that is linked are there. */
    _Atomic uint32_t going;
    struct mci_chunks chunks;   /* of the records of all shards */
    _Atomic uint64_t key_count; /* keys that have a version or an attempt */
    _Atomic uint64_t alloc_failures;
    _Atomic uint64_t evicted_windows;
    _Atomic uint64_t untold; /* attempts in doubt */
    _Atomic uint64_t due_ns; /* no limbo, soft pin or named lease ends before */
    _Atomic uint32_t sweep_shard;

    pthread_mutex_t tables_lock; /* a leaf, for the three tables below */
    _Atomic(struct mci_space *) spaces[MCI_SEGMENTS_MAX];
    _Atomic uint32_t space_count; /* slots ever used */
    uint32_t space_generation;
    _Atomic uint32_t place_turn;
    _Atomic(struct mci_tenant *) *tenants;
    _Atomic uint32_t tenant_count;
    struct mci_map tenant_map;
    _Atomic uint32_t quota_count;
    _Atomic uint64_t quota_sum;  /* of all quotas */
    _Atomic uint64_t lent_bytes; /* of all spaces that are not gone */
    _Atomic(struct mci_writer_chunk *) *writers;
    uint32_t writer_count;
    _Atomic uint64_t client_count; /* not expired */
    struct mci_map host_map;       /* names to numbers from 1 */

    struct mci_group_stripe groups[MCI_GROUP_STRIPES];
    _Atomic uint64_t group_count;
    pthread_mutex_t partial_lock; /* a leaf */
    struct mci_link partial;      /* groups, each with a ref */
};

static inline struct mci_space *mci_space_at(struct mci_master *master,
                                             uint32_t slot)
{
    return atomic_load_explicit(&master->spaces[slot], memory_order_acquire);
}

/* Where a record's copy stands in its space. */
static inline uint64_t mci_place_offset(const struct mci_space *space,
                                        const struct mci_record *record)
{
    return (uint64_t)record->place << space->granule_shift;
}

static inline struct mci_lane *mci_lane_of(struct mci_master *master,
                                           const struct mci_shard *shard,
                                           uint32_t slot,
                                           enum mci_lane_kind kind)
{
    return &mci_space_at(master, slot)
                ->lanes[(size_t)kind * master->shard_count + shard->index];
}

static inline struct mci_tenant *mci_tenant_at(struct mci_master *master,
                                               uint16_t index)
{
    return atomic_load_explicit(&master->tenants[index], memory_order_acquire);
}

static inline void mci_shard_lock(struct mci_shard *shard)
{
    (void)pthread_mutex_lock(&shard->lock);
}

static inline void mci_shard_unlock(struct mci_shard *shard)
{
    (void)pthread_mutex_unlock(&shard->lock);
}

/* What a copy of a size takes up. */
static inline uint64_t mci_range_bytes(uint64_t size)
{
    const uint64_t mask = MCI_EXTENT_GRANULE_DEFAULT - 1;
    return (size + mask) & ~mask;
}

/* Lowers a hint to a time, never raises it. */
static inline void mci_hint_lower(_Atomic uint64_t *hint, uint64_t at_ns)
{
    uint64_t old = atomic_load_explicit(hint, memory_order_relaxed);
    while (at_ns < old &&
           !atomic_compare_exchange_weak_explicit(
               hint, &old, at_ns, memory_order_relaxed, memory_order_relaxed)) {
    }
}

/* Initializes a lock of which little is done under. */
void mci_lock_init(pthread_mutex_t *lock);

/* ---- what is left over ------------------------------------------------ */

/* Space, labels and groups that are to be given back once the shard lock is
 * left. One change of one key makes at most MCI_LEAVINGS_PER_CHANGE ranges and
 * two labels; bulk work goes on while there is room. */
#define MCI_LEAVINGS_PER_CHANGE (2 * MCI_REPLICAS_MAX)
#define MCI_LEAVINGS_RANGES 96
#define MCI_LEAVINGS_LABELS 64

struct mci_range {
    uint64_t bytes; /* as asked for */
    uint32_t extent;
    uint16_t segment;
};

struct mci_leavings {
    struct mci_range ranges[MCI_LEAVINGS_RANGES];
    struct mci_label *labels[MCI_LEAVINGS_LABELS];
    struct mci_group *groups[MCI_LEAVINGS_LABELS];
    uint32_t range_count;
    uint32_t label_count;
    uint32_t group_count;
};

static inline void mci_leavings_init(struct mci_leavings *leavings)
{
    leavings->range_count = 0;
    leavings->label_count = 0;
    leavings->group_count = 0;
}

/* There is room for what one more change makes. */
static inline bool mci_leavings_have_room(const struct mci_leavings *leavings)
{
    return leavings->range_count + MCI_LEAVINGS_PER_CHANGE <=
               MCI_LEAVINGS_RANGES &&
           leavings->label_count + 2 <= MCI_LEAVINGS_LABELS &&
           leavings->group_count + 2 <= MCI_LEAVINGS_LABELS;
}

void mci_leavings_range(struct mci_leavings *leavings, uint16_t segment,
                        uint32_t extent, uint64_t bytes);
void mci_leavings_label(struct mci_leavings *leavings,
                        struct mci_label *label); /* NULL is fine */
void mci_leavings_group(struct mci_leavings *leavings,
                        struct mci_group *group); /* NULL is fine */

/* Gives all of it back and empties it. No lock may be held. */
void mci_leavings_clear(struct mci_master *master,
                        struct mci_leavings *leavings);
#endif
