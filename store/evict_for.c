/* SPDX-License-Identifier: Apache-2.0 */
/* evict_for.c - room for one allocation.
 *
 * The oldest copies go, as many bytes as are asked for. Mostly the first one
 * leaves a hole that is long enough; where it is too short, it must be known
 * first that some window can be cleared at all, so that nothing is evicted for
 * an allocation that fails. If the oldest ones have left no hole, the cheapest
 * window is cleared.
 */
#include <sched.h>

#include "evict.h"
#include "group.h"
#include "space.h"
#include "window.h"

#define CLAIM_TURNS 10000
#define WINDOW_TURNS 16 /* others use or lease what is in it meanwhile */

struct room {
    const struct mci_eviction *eviction;
    struct mci_space *space;
    uint64_t bytes;
    uint64_t owner;
    enum mci_level level;
    uint32_t claim;        /* the one that is given to */
    uint32_t window_claim; /* 0: none was begun */
    uint64_t given;
    bool is_taken;
    struct mci_extent taken;
};

static enum mc_err begin_claim(struct mci_space *space, uint32_t *claim_out)
{
    enum mc_err err = MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
    for (unsigned i = 0; i < CLAIM_TURNS; i++) {
        (void)pthread_mutex_lock(&space->lock);
        err = space->extents
                  ? mci_extents_claim_begin(space->extents, claim_out)
                  : MC_ERR_NO_AVAILABLE_HANDLE;
        space->open_claims += err == MC_OK;
        (void)pthread_mutex_unlock(&space->lock);
        if (err != MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS) {
            return err;
        }
        (void)sched_yield(); /* so many others are at it */
    }
    return MC_ERR_NO_AVAILABLE_HANDLE;
}

static void end_claim(struct mci_master *master, struct mci_space *space,
                      uint32_t claim)
{
    (void)pthread_mutex_lock(&space->lock);
    mci_extents_claim_end(space->extents, claim);
    space->open_claims--;
    mci_space_settle(master, space);
    (void)pthread_mutex_unlock(&space->lock);
}

/* Gives one evicted range to the claim, and takes if that is enough. */
static void give(struct room *room, const struct mci_range *range)
{
    struct mci_space *space = room->space;
    (void)pthread_mutex_lock(&space->lock);
    uint64_t len = mci_extents_get(space->extents, range->extent).len;
    struct mci_extent piece =
        mci_extents_claim_give(space->extents, room->claim, range->extent);
    uint64_t used = len;
    if (!room->is_taken && !atomic_load(&space->is_gone) &&
        mci_extents_claim_take(space->extents, room->claim, piece.handle,
                               room->bytes, mci_owner_of_ref(room->owner),
                               &room->taken)) {
        room->is_taken = true;
        used -= room->taken.len;
    }
    atomic_fetch_sub_explicit(&space->used_bytes, used, memory_order_relaxed);
    (void)pthread_mutex_unlock(&space->lock);
    room->given += len;
}

/* The sink: ranges of this space go to the claim, all else is given back. */
static void settle(void *ctx, struct mci_leavings *leavings)
{
    struct room *room = ctx;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < leavings->range_count; i++) {
        if (leavings->ranges[i].segment == room->space->slot) {
            give(room, &leavings->ranges[i]);
        } else {
            leavings->ranges[kept++] = leavings->ranges[i];
        }
    }
    leavings->range_count = kept;
    mci_leavings_clear(room->eviction->master, leavings);
}

/* Likewise, and then the rest of a group goes after its member. */
static void settle_all(struct room *room, struct mci_leavings *leavings)
{
    struct mci_group *group = NULL;
    if (leavings->group_count > 0) {
        group = leavings->groups[--leavings->group_count];
    }
    settle(room, leavings);
    if (group) {
        mci_evict_group(room->eviction, room->level, group);
    }
}

/* Evicts one more, at the lowest level that has any. */
static enum mci_evicted evict_next(struct room *room, uint64_t min_bytes)
{
    struct mci_leavings leavings;
    mci_leavings_init(&leavings);
    enum mci_evicted evicted =
        mci_evict_partial(room->eviction, room->level, min_bytes, &leavings);
    while (evicted == MCI_EVICTED_NONE) {
        evicted =
            mci_evict_oldest(room->eviction, room->level, min_bytes, &leavings);
        if (evicted == MCI_EVICTED_NONE) {
            if (room->level + 1 == MCI_LEVEL_BLOCKED) {
                break;
            }
            room->level = (enum mci_level)(room->level + 1);
        }
    }
    if (evicted == MCI_EVICTED_ONE) {
        settle_all(room, &leavings);
    }
    return evicted;
}

static enum mc_err evict_oldest_bytes(struct room *room)
{
    while (!room->is_taken && room->given < room->bytes) {
        enum mci_evicted evicted = evict_next(room, 0);
        if (evicted == MCI_EVICTED_TIMEOUT) {
            return MC_ERR_RPC_TIMEOUT;
        }
        if (evicted != MCI_EVICTED_ONE) {
            break;
        }
    }
    return MC_OK;
}

/* ---- windows ----------------------------------------------------------- */

static enum mc_err clear_window(struct room *room,
                                const struct mci_window_search *search,
                                const struct mci_window *window)
{
    for (uint32_t i = window->first; i < window->end && !room->is_taken; i++) {
        const struct mci_window_part *part = &search->parts[i];
        if (part->ref == 0) {
            continue;
        }
        struct mci_leavings leavings;
        mci_leavings_init(&leavings);
        enum mci_evicted evicted = mci_evict_extent(
            room->eviction, window->level, part->ref, part->extent, &leavings);
        if (evicted == MCI_EVICTED_TIMEOUT) {
            return MC_ERR_RPC_TIMEOUT;
        }
        if (evicted != MCI_EVICTED_ONE) {
            break; /* used or leased meanwhile: another window */
        }
        settle_all(room, &leavings);
    }
    return MC_OK;
}

/* Holes may be taken by others while a window is being cleared. */
static enum mc_err clear_windows(struct room *room,
                                 struct mci_window_search *search)
{
    enum mc_err err = MC_OK;
    end_claim(room->eviction->master, room->space, room->claim);
    room->claim = room->window_claim;
    room->window_claim = 0;
    for (unsigned i = 0; i < WINDOW_TURNS && !room->is_taken; i++) {
        struct mci_window window;
        if (!mci_window_find(search, room->eviction, false, &window)) {
            break;
        }
        room->level = window.level;
        err = clear_window(room, search, &window);
        if (err != MC_OK) {
            break;
        }
        atomic_fetch_add(&room->eviction->master->evicted_windows, 1);
    }
    return err;
}

/* What was evicted may have become a hole with what others gave back. */
static void take_hole(struct room *room)
{
    room->is_taken = mci_space_take(room->space, room->bytes, room->owner,
                                    &room->taken) == MC_OK;
}

/* The oldest copy is shorter than what is asked for. */
static enum mc_err evict_several(struct room *room)
{
    struct mci_window_search search;
    struct mci_window window;
    enum mc_err err =
        mci_window_search_init(&search, room->eviction, room->bytes);
    if (err != MC_OK) {
        return err;
    }
    err = begin_claim(room->space, &room->window_claim);
    if (err == MC_OK &&
        !mci_window_find(&search, room->eviction, true, &window)) {
        err = MC_ERR_NO_AVAILABLE_HANDLE;
    }
    if (err == MC_OK) {
        err = evict_oldest_bytes(room);
    }
    if (err == MC_OK && !room->is_taken) {
        err = clear_windows(room, &search);
    }
    if (err == MC_OK && !room->is_taken) {
        end_claim(room->eviction->master, room->space, room->claim);
        room->claim = 0;
        take_hole(room);
    }
    mci_window_search_fini(&search);
    return err;
}

/* ---- all of it --------------------------------------------------------- */

static enum mc_err make_room(struct room *room)
{
    switch (evict_next(room, room->bytes)) {
    case MCI_EVICTED_ONE:
        return room->is_taken ? MC_OK : evict_several(room);
    case MCI_EVICTED_SMALL:
        return evict_several(room);
    case MCI_EVICTED_TIMEOUT:
        return MC_ERR_RPC_TIMEOUT;
    default:
        return MC_ERR_NO_AVAILABLE_HANDLE;
    }
}

enum mc_err mci_evict_for(const struct mci_eviction *eviction, uint64_t bytes,
                          uint64_t owner, struct mci_extent *extent_out)
{
    struct room room = {
        .space = eviction->space, .bytes = bytes, .owner = owner};
    struct mci_eviction own = *eviction;
    own.sink = settle;
    own.sink_ctx = &room;
    room.eviction = &own;
    if (bytes > atomic_load(&eviction->space->capacity_bytes)) {
        return MC_ERR_NO_AVAILABLE_HANDLE;
    }
    enum mc_err err = begin_claim(room.space, &room.claim);
    if (err != MC_OK) {
        return err;
    }
    err = make_room(&room);
    if (room.claim != 0) {
        end_claim(room.eviction->master, room.space, room.claim);
    }
    if (room.window_claim != 0) {
        end_claim(room.eviction->master, room.space, room.window_claim);
    }
    if (room.is_taken) {
        *extent_out = room.taken;
        return MC_OK;
    }
    return err != MC_OK ? err : MC_ERR_NO_AVAILABLE_HANDLE;
}
