/* SPDX-License-Identifier: Apache-2.0 */
#include "closed.h"

#include <pthread.h>
#include <string.h>

#include "mci_alloc.h"
#include "mci_hash.h"

#define WAYS 8
#define CAPACITY_MIN 256

struct entry {
    uint64_t attempt; /* 0: free */
    uint64_t until_ns;
};

struct mci_closed {
    pthread_mutex_t lock; /* guards all below */
    struct entry *entries;
    size_t capacity; /* power of two; 0 before the first */
    size_t max;
    uint64_t floor_ns;
};

enum mc_err mci_closed_create(size_t max, struct mci_closed **closed_out)
{
    struct mci_closed *closed = mci_calloc(1, sizeof *closed);
    if (!closed) {
        return MC_ERR_NOMEM;
    }
    if (pthread_mutex_init(&closed->lock, NULL) != 0) {
        mci_free(closed);
        return MC_ERR_NOMEM;
    }
    size_t wanted = max ? max : MCI_CLOSED_MAX;
    closed->max = CAPACITY_MIN;
    while (closed->max < wanted) {
        closed->max *= 2;
    }
    *closed_out = closed;
    return MC_OK;
}

void mci_closed_destroy(struct mci_closed *closed)
{
    if (!closed) {
        return;
    }
    mci_free(closed->entries);
    (void)pthread_mutex_destroy(&closed->lock);
    mci_free(closed);
}

/* An attempt stands in one of two sets, so that hardly any is full before nearly
 * all are. */
struct sets {
    struct entry *either[2];
};

static struct sets sets_of(struct entry *entries, size_t capacity,
                           uint64_t attempt)
{
    size_t count = capacity / WAYS;
    uint64_t hash = mci_hash64(&attempt, sizeof attempt);
    return (struct sets){{entries + (size_t)(hash % count) * WAYS,
                          entries + (size_t)((hash >> 32) % count) * WAYS}};
}

static struct entry *find_entry(const struct sets *sets, uint64_t attempt)
{
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < WAYS; i++) {
            if (sets->either[s][i].attempt == attempt) {
                return &sets->either[s][i];
            }
        }
    }
    return NULL;
}

/* How many places of a set are free or have ended, and the first of them. */
static int count_free(struct entry *set, uint64_t now_ns,
                      struct entry **first_out)
{
    int count = 0;
    for (int i = WAYS - 1; i >= 0; i--) {
        if (set[i].attempt == 0 || set[i].until_ns <= now_ns) {
            *first_out = &set[i];
            count++;
        }
    }
    return count;
}

/* The attempt's own entry, a place in the emptier set, else NULL. */
static struct entry *find_place(const struct sets *sets, uint64_t attempt,
                                uint64_t now_ns)
{
    struct entry *places[2] = {NULL, NULL};
    struct entry *own = find_entry(sets, attempt);
    if (own) {
        return own;
    }
    int first = count_free(sets->either[0], now_ns, &places[0]);
    int second = count_free(sets->either[1], now_ns, &places[1]);
    return first >= second ? places[0] : places[1];
}

/* Moves what has not ended; false if a set is too small. */
static bool move_entries(const struct mci_closed *closed, struct entry *entries,
                         size_t capacity, uint64_t now_ns)
{
    for (size_t i = 0; i < closed->capacity; i++) {
        const struct entry *old = &closed->entries[i];
        if (old->attempt == 0 || old->until_ns <= now_ns) {
            continue;
        }
        const struct sets sets = sets_of(entries, capacity, old->attempt);
        struct entry *place = find_place(&sets, old->attempt, now_ns);
        if (!place) {
            return false;
        }
        *place = *old;
    }
    return true;
}

static size_t count_alive(const struct mci_closed *closed, uint64_t now_ns)
{
    size_t alive = 0;
    for (size_t i = 0; i < closed->capacity; i++) {
        alive += closed->entries[i].attempt != 0 &&
                 closed->entries[i].until_ns > now_ns;
    }
    return alive;
}

/* A table that is at most half full, and not smaller than that, or as large as
 * it may be. */
static bool rebuild(struct mci_closed *closed, size_t least, uint64_t now_ns)
{
    size_t alive = count_alive(closed, now_ns);
    size_t capacity = CAPACITY_MIN;
    while (capacity < closed->max &&
           (capacity < 2 * (alive + 1) || capacity < least)) {
        capacity *= 2;
    }
    if (capacity == closed->capacity) {
        capacity *= 2;
    }
    for (; capacity <= closed->max; capacity *= 2) {
        struct entry *entries = mci_calloc(capacity, sizeof *entries);
        if (!entries) {
            return false;
        }
        if (move_entries(closed, entries, capacity, now_ns)) {
            mci_free(closed->entries);
            closed->entries = entries;
            closed->capacity = capacity;
            return true;
        }
        mci_free(entries);
    }
    return false;
}

/* The one that ends first, the new one among them, becomes the floor. */
static void raise_floor(struct mci_closed *closed, uint64_t attempt,
                        uint64_t until_ns)
{
    uint64_t floor_ns = until_ns;
    if (closed->capacity > 0) {
        const struct sets sets =
            sets_of(closed->entries, closed->capacity, attempt);
        struct entry *first = sets.either[0];
        for (int i = 0; i < 2 * WAYS; i++) {
            struct entry *entry = &sets.either[i / WAYS][i % WAYS];
            first = entry->until_ns < first->until_ns ? entry : first;
        }
        if (first->until_ns < until_ns) {
            floor_ns = first->until_ns;
            *first = (struct entry){attempt, until_ns};
        }
    }
    if (floor_ns > closed->floor_ns) {
        closed->floor_ns = floor_ns;
    }
}

static void add(struct mci_closed *closed, uint64_t attempt, uint64_t until_ns,
                uint64_t now_ns)
{
    size_t least = 0; /* grows, or two sizes with a full set would take turns */
    for (;;) {
        struct entry *place = NULL;
        if (closed->capacity > 0) {
            const struct sets sets =
                sets_of(closed->entries, closed->capacity, attempt);
            place = find_place(&sets, attempt, now_ns);
        }
        if (place) {
            if (place->attempt != attempt || place->until_ns < until_ns) {
                *place = (struct entry){attempt, until_ns};
            }
            return;
        }
        /* At its largest nothing is gained by looking all of it over. */
        if (closed->capacity == closed->max ||
            !rebuild(closed, least, now_ns)) {
            raise_floor(closed, attempt, until_ns);
            return;
        }
        least = 2 * closed->capacity;
    }
}

void mci_closed_add(struct mci_closed *closed, uint64_t attempt,
                    uint64_t until_ns, uint64_t now_ns)
{
    if (until_ns <= now_ns || attempt == 0) {
        return;
    }
    (void)pthread_mutex_lock(&closed->lock);
    if (until_ns > closed->floor_ns) {
        add(closed, attempt, until_ns, now_ns);
    }
    (void)pthread_mutex_unlock(&closed->lock);
}

bool mci_closed_refuses(struct mci_closed *closed, uint64_t attempt,
                        uint64_t grant_ns)
{
    bool refuses = false;
    (void)pthread_mutex_lock(&closed->lock);
    if (closed->capacity > 0) {
        const struct sets sets =
            sets_of(closed->entries, closed->capacity, attempt);
        refuses = find_entry(&sets, attempt) != NULL;
    }
    refuses = refuses || grant_ns <= closed->floor_ns;
    (void)pthread_mutex_unlock(&closed->lock);
    return refuses;
}

size_t mci_closed_capacity(struct mci_closed *closed)
{
    (void)pthread_mutex_lock(&closed->lock);
    size_t capacity = closed->capacity;
    (void)pthread_mutex_unlock(&closed->lock);
    return capacity;
}
