/* SPDX-License-Identifier: Apache-2.0 */
/* client_memory.c - see the header. */
#include "client_memory.h"

#include <string.h>

#include "mci_alloc.h"
#include "mci_clock.h"

#define ROOM_MIN 16
#define WAIT_STEP_MS 50 /* clocks of tests stand still; those of waits do not */

struct mci_memory_range {
    uintptr_t begin;
    uintptr_t end;
    uint32_t count; /* times registered */
    uint32_t uses;
    bool is_leaving; /* somebody waits for its uses to end */
};

enum mc_err mci_memory_init(struct mci_memory *memory)
{
    pthread_condattr_t attr;
    if (pthread_mutex_init(&memory->lock, NULL) != 0) {
        return MC_ERR_NOMEM;
    }
    bool is_made = pthread_condattr_init(&attr) == 0;
    if (is_made) {
        is_made = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0 &&
                  pthread_cond_init(&memory->changed, &attr) == 0;
        (void)pthread_condattr_destroy(&attr);
    }
    if (!is_made) {
        (void)pthread_mutex_destroy(&memory->lock);
        return MC_ERR_NOMEM;
    }
    memory->ranges = NULL;
    memory->room = 0;
    memory->wide_uses = 0;
    atomic_init(&memory->count, 0);
    return MC_OK;
}

void mci_memory_fini(struct mci_memory *memory)
{
    for (uint32_t i = 0; i < atomic_load(&memory->count); i++) {
        mci_free(memory->ranges[i]);
    }
    mci_free(memory->ranges);
    (void)pthread_cond_destroy(&memory->changed);
    (void)pthread_mutex_destroy(&memory->lock);
}

/* The first range that ends behind an address; count if there is none. */
static uint32_t find_behind(const struct mci_memory *memory, uintptr_t at)
{
    uint32_t low = 0;
    uint32_t high = atomic_load_explicit(&memory->count, memory_order_relaxed);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (memory->ranges[middle]->end > at) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

static struct mci_memory_range *range_at(const struct mci_memory *memory,
                                         uint32_t i)
{
    bool is_there =
        i < atomic_load_explicit(&memory->count, memory_order_relaxed);
    return is_there ? memory->ranges[i] : NULL;
}

/* ---- registering --------------------------------------------------------- */

static enum mc_err insert(struct mci_memory *memory, uint32_t at,
                          uintptr_t begin, uintptr_t end)
{
    uint32_t count = atomic_load(&memory->count);
    if (count == memory->room) {
        uint32_t room = memory->room ? memory->room * 2 : ROOM_MIN;
        struct mci_memory_range **ranges =
            mci_realloc(memory->ranges, room * sizeof(*ranges));
        if (!ranges) {
            return MC_ERR_NOMEM;
        }
        memory->ranges = ranges;
        memory->room = room;
    }
    struct mci_memory_range *range = mci_calloc(1, sizeof *range);
    if (!range) {
        return MC_ERR_NOMEM;
    }
    *range = (struct mci_memory_range){.begin = begin, .end = end, .count = 1};
    memmove(&memory->ranges[at + 1], &memory->ranges[at],
            (count - at) * sizeof(memory->ranges[0]));
    memory->ranges[at] = range;
    atomic_store(&memory->count, count + 1);
    return MC_OK;
}

enum mc_err mci_memory_add(struct mci_memory *memory, void *base, size_t len)
{
    uintptr_t begin = (uintptr_t)base;
    if (!base || len == 0 || len > UINTPTR_MAX - begin) {
        return MC_ERR_INVALID_PARAMS;
    }
    uintptr_t end = begin + len;
    (void)pthread_mutex_lock(&memory->lock);
    uint32_t at = find_behind(memory, begin);
    struct mci_memory_range *range = range_at(memory, at);
    enum mc_err err = MC_ERR_INVALID_PARAMS;
    if (!range || range->begin >= end) {
        err = insert(memory, at, begin, end);
    } else if (range->begin == begin && range->end == end &&
               !range->is_leaving) {
        range->count++;
        err = MC_OK;
    }
    (void)pthread_mutex_unlock(&memory->lock);
    return err;
}

/* ---- unregistering ------------------------------------------------------- */

static void wait_a_step(struct mci_memory *memory)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(WAIT_STEP_MS * MCI_NS_PER_MS);
    if (until.tv_nsec >= (long)MCI_NS_PER_S) {
        until.tv_nsec -= (long)MCI_NS_PER_S;
        until.tv_sec++;
    }
    (void)pthread_cond_timedwait(&memory->changed, &memory->lock, &until);
}

static void take_out(struct mci_memory *memory, struct mci_memory_range *range)
{
    uint32_t at = find_behind(memory, range->begin);
    uint32_t count = atomic_load(&memory->count) - 1;
    memmove(&memory->ranges[at], &memory->ranges[at + 1],
            (count - at) * sizeof(memory->ranges[0]));
    atomic_store(&memory->count, count);
    mci_free(range);
}

/* A range that is about to go is not used by new calls, or there would be no
 * end of waiting. */
static enum mc_err take_back(struct mci_memory *memory,
                             struct mci_memory_range *range,
                             uint64_t deadline_ns)
{
    if (range->count > 1) {
        range->count--;
        return MC_OK;
    }
    range->is_leaving = true;
    while (range->uses > 0 || memory->wide_uses > 0) {
        if (mci_clock_ns() >= deadline_ns) {
            range->is_leaving = false;
            return MC_ERR_RPC_TIMEOUT;
        }
        wait_a_step(memory);
    }
    take_out(memory, range);
    return MC_OK;
}

enum mc_err mci_memory_remove(struct mci_memory *memory, void *base,
                              uint64_t deadline_ns)
{
    (void)pthread_mutex_lock(&memory->lock);
    struct mci_memory_range *range =
        range_at(memory, find_behind(memory, (uintptr_t)base));
    enum mc_err err = MC_ERR_INVALID_PARAMS;
    if (range && range->begin == (uintptr_t)base && !range->is_leaving) {
        err = take_back(memory, range, deadline_ns);
    }
    (void)pthread_mutex_unlock(&memory->lock);
    return err;
}

size_t mci_memory_len(struct mci_memory *memory, const void *data)
{
    uintptr_t begin = (uintptr_t)data;
    (void)pthread_mutex_lock(&memory->lock);
    const struct mci_memory_range *range =
        range_at(memory, find_behind(memory, begin));
    bool is_within = range && !range->is_leaving && range->begin <= begin;
    size_t len = is_within ? range->end - begin : 0;
    (void)pthread_mutex_unlock(&memory->lock);
    return len;
}

/* ---- using --------------------------------------------------------------- */

static struct mci_memory_range **used(struct mci_memory_use *use)
{
    return use->many ? use->many : use->few;
}

/* Most often it is the last one. */
static bool is_used(struct mci_memory_use *use,
                    const struct mci_memory_range *range)
{
    struct mci_memory_range **ranges = used(use);
    for (uint32_t i = use->count; i > 0; i--) {
        if (ranges[i - 1] == range) {
            return true;
        }
    }
    return false;
}

static bool has_room(struct mci_memory_use *use)
{
    uint32_t room = use->many ? use->room : MCI_MEMORY_USES;
    if (use->count < room) {
        return true;
    }
    if (room == MCI_MEMORY_USES_MAX) {
        return false;
    }
    struct mci_memory_range **many =
        mci_realloc(use->many, 2 * room * sizeof(*many));
    if (!many) {
        return false;
    }
    if (!use->many) {
        memcpy(many, use->few, sizeof use->few);
    }
    use->many = many;
    use->room = 2 * room;
    return true;
}

static void enter(struct mci_memory *memory, struct mci_memory_use *use,
                  struct mci_memory_range *range)
{
    if (use->is_wide || is_used(use, range)) {
        return;
    }
    if (!has_room(use)) {
        use->is_wide = true;
        memory->wide_uses++;
        return;
    }
    used(use)[use->count++] = range;
    range->uses++;
}

bool mci_memory_use(struct mci_memory *memory, struct mci_memory_use *use,
                    const void *data, size_t len)
{
    uintptr_t begin = (uintptr_t)data;
    if (len == 0) {
        return true;
    }
    if (atomic_load_explicit(&memory->count, memory_order_relaxed) == 0) {
        return false;
    }
    (void)pthread_mutex_lock(&memory->lock);
    struct mci_memory_range *range =
        range_at(memory, find_behind(memory, begin));
    bool is_within = range && !range->is_leaving && range->begin <= begin &&
                     len <= range->end - begin;
    if (is_within) {
        enter(memory, use, range);
    }
    (void)pthread_mutex_unlock(&memory->lock);
    return is_within;
}

void mci_memory_release(struct mci_memory *memory, struct mci_memory_use *use)
{
    if (use->count == 0) {
        return;
    }
    (void)pthread_mutex_lock(&memory->lock);
    struct mci_memory_range **ranges = used(use);
    for (uint32_t i = 0; i < use->count; i++) {
        ranges[i]->uses--;
    }
    memory->wide_uses -= use->is_wide;
    (void)pthread_cond_broadcast(&memory->changed);
    (void)pthread_mutex_unlock(&memory->lock);
    mci_free(use->many);
    *use = (struct mci_memory_use){.count = 0};
}
