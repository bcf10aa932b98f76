/* SPDX-License-Identifier: Apache-2.0 */
#include "window.h"

#include "mci_alloc.h"
#include "space.h"

#define SAMPLES 8
#define PARTS_MIN 1024
#define PARTS_MAX (1U << 20)
#define SPREAD 4 /* a stretch is up to this many windows long */

enum mc_err mci_window_search_init(struct mci_window_search *search,
                                   const struct mci_eviction *eviction,
                                   uint64_t bytes)
{
    struct mci_extents_stats stats = {.capacity_bytes = 0};
    struct mci_space *space = eviction->space;
    (void)pthread_mutex_lock(&space->lock);
    if (space->extents) {
        mci_extents_stats(space->extents, &stats);
    }
    (void)pthread_mutex_unlock(&space->lock);
    uint64_t count = stats.allocated_count + stats.free_count + 1;
    uint64_t average = stats.capacity_bytes / count + 1;
    uint64_t needed = bytes / average * SPREAD;
    uint64_t capacity = needed < PARTS_MIN ? PARTS_MIN : needed;
    capacity = capacity > PARTS_MAX ? PARTS_MAX : capacity;
    search->parts = mci_alloc(capacity * sizeof *search->parts);
    if (!search->parts) {
        return MC_ERR_NOMEM;
    }
    search->capacity = (uint32_t)capacity;
    search->bytes = bytes;
    search->turn = eviction->now_ns;
    return MC_OK;
}

void mci_window_search_fini(struct mci_window_search *search)
{
    mci_free(search->parts);
    search->parts = NULL;
}

/* Copies the extents from a position on: until the stretch is long enough, or to
 * the end. The whole space if it has few enough. */
static uint32_t read_stretch(struct mci_window_search *search,
                             struct mci_space *space, uint64_t offset,
                             uint64_t bytes_max)
{
    uint32_t count = 0;
    uint64_t bytes = 0;
    (void)pthread_mutex_lock(&space->lock);
    uint32_t handle =
        space->extents ? mci_extents_near(space->extents, offset) : 0;
    while (handle != MCI_EXTENT_NONE && count < search->capacity &&
           bytes < bytes_max) {
        struct mci_extent extent = mci_extents_get(space->extents, handle);
        struct mci_window_part *part = &search->parts[count++];
        part->len = extent.len;
        part->extent = extent.handle;
        part->ref = mci_ref_of_owner(extent.owner);
        part->level = extent.state == MCI_EXTENT_FREE ? MCI_LEVEL_PLAIN
                                                      : MCI_LEVEL_BLOCKED;
        bytes += extent.len;
        handle = mci_extents_next(space->extents, handle);
    }
    (void)pthread_mutex_unlock(&space->lock);
    return count;
}

static void judge(struct mci_window_search *search,
                  const struct mci_eviction *eviction, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct mci_window_part *part = &search->parts[i];
        if (part->ref != 0) {
            part->level =
                (uint8_t)mci_evict_level(eviction, part->ref, part->extent);
        }
    }
}

static uint64_t cost_of(const struct mci_window_part *part)
{
    return part->ref != 0 ? part->len : 0;
}

/* The cheapest window of the first `count` parts that needs no higher level. */
static bool slide(const struct mci_window_search *search, uint32_t count,
                  enum mci_level level, struct mci_window *window_out)
{
    uint64_t len = 0;
    uint64_t cost = 0;
    uint32_t first = 0;
    bool found = false;
    for (uint32_t i = 0; i < count; i++) {
        const struct mci_window_part *part = &search->parts[i];
        if (part->level > level) {
            first = i + 1;
            len = 0;
            cost = 0;
            continue;
        }
        len += part->len;
        cost += cost_of(part);
        while (len - search->parts[first].len >= search->bytes) {
            len -= search->parts[first].len;
            cost -= cost_of(&search->parts[first]);
            first++;
        }
        if (len >= search->bytes && (!found || cost < window_out->cost)) {
            found = true;
            *window_out = (struct mci_window){
                .first = first, .end = i + 1, .level = level, .cost = cost};
        }
    }
    return found;
}

static bool look_at(struct mci_window_search *search,
                    const struct mci_eviction *eviction, uint32_t count,
                    struct mci_window *window_out)
{
    judge(search, eviction, count);
    for (unsigned level = 0; level < MCI_LEVEL_BLOCKED; level++) {
        if (slide(search, count, (enum mci_level)level, window_out)) {
            return true;
        }
    }
    return false;
}

/* xorshift64*: any spread will do. */
static uint64_t roll(struct mci_window_search *search)
{
    uint64_t x = search->turn ? search->turn : 1;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    search->turn = x;
    return x * UINT64_C(0x2545f4914f6cdd1d);
}

static bool is_better(const struct mci_window *a, const struct mci_window *b)
{
    return a->level != b->level ? a->level < b->level : a->cost < b->cost;
}

/* Reads one stretch at a random place and looks at it. */
static bool sample(struct mci_window_search *search,
                   const struct mci_eviction *eviction, uint64_t offset,
                   struct mci_window *window_out)
{
    uint64_t spread =
        search->bytes > MCI_NEVER / SPREAD ? MCI_NEVER : search->bytes * SPREAD;
    uint32_t count = read_stretch(search, eviction->space, offset, spread);
    return look_at(search, eviction, count, window_out);
}

bool mci_window_find(struct mci_window_search *search,
                     const struct mci_eviction *eviction, bool any,
                     struct mci_window *window_out)
{
    uint64_t capacity = atomic_load(&eviction->space->capacity_bytes);
    if (capacity == 0) {
        return false;
    }
    uint64_t best_offset = 0;
    struct mci_window best = {.level = MCI_LEVEL_BLOCKED};
    for (unsigned i = 0; i < SAMPLES; i++) {
        uint64_t offset = roll(search) % capacity;
        struct mci_window window;
        if (!sample(search, eviction, offset, &window)) {
            continue;
        }
        if (any) {
            *window_out = window;
            return true;
        }
        if (best.level == MCI_LEVEL_BLOCKED || is_better(&window, &best)) {
            best = window;
            best_offset = offset;
        }
    }
    if (best.level != MCI_LEVEL_BLOCKED) {
        return sample(search, eviction, best_offset, window_out);
    }
    /* Nothing in the samples: all of it, or of a large space as much as fits. */
    uint32_t count = read_stretch(search, eviction->space, 0, MCI_NEVER);
    return look_at(search, eviction, count, window_out);
}
