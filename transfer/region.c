/* SPDX-License-Identifier: Apache-2.0 */
#include "region.h"

#include <stdatomic.h>
#include <string.h>

#include "mci_alloc.h"
#include "mci_cond.h"

enum mc_err mci_regions_init(struct mci_regions *regions)
{
    memset(regions, 0, sizeof *regions);
    if (pthread_rwlock_init(&regions->lock, NULL) != 0) {
        return MC_ERR_NOMEM;
    }
    if (pthread_mutex_init(&regions->wait_lock, NULL) != 0) {
        goto err_destroy_lock;
    }
    if (mci_cond_init(&regions->unpinned) != 0) {
        goto err_destroy_wait_lock;
    }
    return MC_OK;
err_destroy_wait_lock:
    (void)pthread_mutex_destroy(&regions->wait_lock);
err_destroy_lock:
    (void)pthread_rwlock_destroy(&regions->lock);
    return MC_ERR_NOMEM;
}

void mci_regions_fini(struct mci_regions *regions)
{
    for (size_t i = 0; i < regions->count; i++) {
        mci_free(regions->sorted[i]);
    }
    mci_free(regions->sorted);
    (void)pthread_cond_destroy(&regions->unpinned);
    (void)pthread_mutex_destroy(&regions->wait_lock);
    (void)pthread_rwlock_destroy(&regions->lock);
}

/* How many regions begin at or below an address; the lock is held. */
static size_t count_upto(const struct mci_regions *regions, uintptr_t address)
{
    size_t low = 0;
    size_t high = regions->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (regions->sorted[mid]->base <= address) {
            low = mid + 1;
        } else {
            high = mid;
        }
    }
    return low;
}

/* The region that holds all of a range, NULL if none; the lock is held. */
static struct mci_region *find(const struct mci_regions *regions,
                               const void *base, size_t len)
{
    uintptr_t address = (uintptr_t)base;
    size_t upto = count_upto(regions, address);
    if (upto == 0) {
        return NULL;
    }
    struct mci_region *region = regions->sorted[upto - 1];
    size_t into = address - region->base;
    if (into > region->len || len > region->len - into) {
        return NULL;
    }
    return region;
}

static enum mc_err make_room(struct mci_regions *regions)
{
    if (regions->count < regions->capacity) {
        return MC_OK;
    }
    if (regions->count >= MCI_REGIONS_MAX) {
        return MC_ERR_NOMEM;
    }
    size_t capacity = regions->capacity ? 2 * regions->capacity : 16;
    struct mci_region **sorted =
        mci_realloc(regions->sorted, capacity * sizeof(*sorted));
    if (!sorted) {
        return MC_ERR_NOMEM;
    }
    regions->sorted = sorted;
    regions->capacity = capacity;
    return MC_OK;
}

static enum mc_err insert(struct mci_regions *regions, size_t at,
                          uintptr_t base, size_t len)
{
    enum mc_err err = make_room(regions);
    if (err != MC_OK) {
        return err;
    }
    struct mci_region *region = mci_calloc(1, sizeof *region);
    if (!region) {
        return MC_ERR_NOMEM;
    }
    region->base = base;
    region->len = len;
    region->times = 1;
    memmove(regions->sorted + at + 1, regions->sorted + at,
            (regions->count - at) * sizeof(*regions->sorted));
    regions->sorted[at] = region;
    regions->count++;
    return MC_OK;
}

enum mc_err mci_regions_add(struct mci_regions *regions, void *base, size_t len)
{
    uintptr_t address = (uintptr_t)base;
    if (!base || len == 0 || len - 1 > UINTPTR_MAX - address) {
        return MC_ERR_INVALID_PARAMS;
    }
    enum mc_err err = MC_ERR_INVALID_PARAMS;
    (void)pthread_rwlock_wrlock(&regions->lock);
    size_t at = count_upto(regions, address);
    struct mci_region *before = at > 0 ? regions->sorted[at - 1] : NULL;
    struct mci_region *after = at < regions->count ? regions->sorted[at] : NULL;
    if (before && before->base == address && before->len == len) {
        if (before->times < UINT32_MAX) {
            before->times++;
            err = MC_OK;
        }
    } else if ((!before || address - before->base >= before->len) &&
               (!after || after->base - address >= len)) {
        err = insert(regions, at, address, len);
    }
    (void)pthread_rwlock_unlock(&regions->lock);
    return err;
}

static void take_out(struct mci_regions *regions, struct mci_region *region)
{
    size_t at = count_upto(regions, region->base) - 1;
    regions->count--;
    memmove(regions->sorted + at, regions->sorted + at + 1,
            (regions->count - at) * sizeof(*regions->sorted));
    mci_free(region);
}

/* MC_OK: it is out, or was counted down. */
static enum mc_err try_remove(struct mci_regions *regions, uintptr_t base,
                              bool is_last_try)
{
    enum mc_err err = MC_ERR_INVALID_PARAMS;
    (void)pthread_rwlock_wrlock(&regions->lock);
    size_t upto = count_upto(regions, base);
    struct mci_region *region = upto > 0 ? regions->sorted[upto - 1] : NULL;
    if (region && region->base == base) {
        err = MC_OK;
        if (region->times > 1) {
            region->times--;
            region->is_leaving = false;
        } else if (atomic_load(&region->pins) == 0) {
            take_out(regions, region);
        } else {
            region->is_leaving = !is_last_try;
            err = MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
        }
    }
    (void)pthread_rwlock_unlock(&regions->lock);
    return err;
}

enum mc_err mci_regions_remove(struct mci_regions *regions, void *base,
                               uint64_t deadline_ns)
{
    enum mc_err err = MC_OK;
    bool is_last_try = false;
    (void)atomic_fetch_add(&regions->waiters, 1);
    (void)pthread_mutex_lock(&regions->wait_lock);
    for (;;) {
        is_last_try = mci_clock_ns() >= deadline_ns;
        err = try_remove(regions, (uintptr_t)base, is_last_try);
        if (err != MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS || is_last_try) {
            break;
        }
        mci_cond_wait(&regions->unpinned, &regions->wait_lock, deadline_ns);
    }
    (void)pthread_mutex_unlock(&regions->wait_lock);
    (void)atomic_fetch_sub(&regions->waiters, 1);
    return err;
}

bool mci_regions_has(struct mci_regions *regions, const void *base, size_t len)
{
    (void)pthread_rwlock_rdlock(&regions->lock);
    bool has = find(regions, base, len) != NULL;
    (void)pthread_rwlock_unlock(&regions->lock);
    return has;
}

/* The lock is held; the last one found is asked first. */
static struct mci_region *find_again(const struct mci_regions *regions,
                                     const struct mc_span *span,
                                     struct mci_region *last)
{
    if (last) {
        uintptr_t into = (uintptr_t)span->data - last->base;
        if (into <= last->len && span->len <= last->len - into) {
            return last;
        }
    }
    return find(regions, span->data, span->len);
}

static void drop_pins(struct mci_regions *regions, const struct mc_span *spans,
                      size_t count)
{
    struct mci_region *region = NULL;
    for (size_t i = 0; i < count; i++) {
        if (spans[i].len > 0) {
            region = find_again(regions, &spans[i], region);
            (void)atomic_fetch_sub(&region->pins, 1);
        }
    }
}

bool mci_regions_pin(struct mci_regions *regions, const struct mc_span *spans,
                     size_t count)
{
    struct mci_region *region = NULL;
    size_t done = 0;
    (void)pthread_rwlock_rdlock(&regions->lock);
    for (; done < count; done++) {
        if (spans[done].len == 0) {
            continue;
        }
        region = find_again(regions, &spans[done], region);
        if (!region || region->is_leaving) {
            break;
        }
        (void)atomic_fetch_add(&region->pins, 1);
    }
    if (done < count) {
        drop_pins(regions, spans, done);
    }
    (void)pthread_rwlock_unlock(&regions->lock);
    return done == count;
}

void mci_regions_unpin(struct mci_regions *regions, const struct mc_span *spans,
                       size_t count)
{
    (void)pthread_rwlock_rdlock(&regions->lock);
    drop_pins(regions, spans, count);
    (void)pthread_rwlock_unlock(&regions->lock);
    if (atomic_load(&regions->waiters) > 0) {
        (void)pthread_mutex_lock(&regions->wait_lock);
        (void)pthread_cond_broadcast(&regions->unpinned);
        (void)pthread_mutex_unlock(&regions->wait_lock);
    }
}
