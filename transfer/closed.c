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

static struct entry *set_of(struct entry *entries, size_t capacity,
                            uint64_t attempt)
{
    size_t sets = capacity / WAYS;
    uint64_t hash = mci_hash64(&attempt, sizeof attempt);
    return entries + (size_t)(hash % sets) * WAYS;
}

/* The attempt's own entry, a free or ended one, else NULL. */
static struct entry *find_place(struct entry *set, uint64_t attempt,
                                uint64_t now_ns)
{
    struct entry *place = NULL;
    for (int i = 0; i < WAYS; i++) {
        if (set[i].attempt == attempt) {
            return &set[i];
        }
        if (!place && (set[i].attempt == 0 || set[i].until_ns <= now_ns)) {
            place = &set[i];
        }
    }
    return place;
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
        struct entry *set = set_of(entries, capacity, old->attempt);
        struct entry *place = find_place(set, old->attempt, now_ns);
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

/* A table that is at most a quarter full, and not smaller than that, where it
 * may be so large. */
static bool rebuild(struct mci_closed *closed, size_t least, uint64_t now_ns)
{
    size_t alive = count_alive(closed, now_ns);
    size_t capacity = CAPACITY_MIN;
    while (capacity < 4 * (alive + 1) || capacity < least) {
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
        struct entry *set = set_of(closed->entries, closed->capacity, attempt);
        struct entry *first = &set[0];
        for (int i = 1; i < WAYS; i++) {
            first = set[i].until_ns < first->until_ns ? &set[i] : first;
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
            place =
                find_place(set_of(closed->entries, closed->capacity, attempt),
                           attempt, now_ns);
        }
        if (place) {
            if (place->attempt != attempt || place->until_ns < until_ns) {
                *place = (struct entry){attempt, until_ns};
            }
            return;
        }
        if (!rebuild(closed, least, now_ns)) {
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
        const struct entry *set =
            set_of(closed->entries, closed->capacity, attempt);
        for (int i = 0; i < WAYS && !refuses; i++) {
            refuses = set[i].attempt == attempt;
        }
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
