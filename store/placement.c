/* SPDX-License-Identifier: Apache-2.0 */
#include "placement.h"

#include <string.h>

#include "evict.h"
#include "space.h"
#include "sweep.h"

#define EVICT_TRIES 8 /* segments in which room is made, one after the other */

/* The order in which spaces are tried. */
struct order {
    const struct mci_want *want;
    uint32_t count; /* of slots */
    uint32_t start;
    const struct mci_placed *placed;
    uint32_t placed_count;
};

static bool has_client(const struct order *order, uint32_t client)
{
    for (uint32_t i = 0; i < order->placed_count; i++) {
        if (order->placed[i].client == client) {
            return true;
        }
    }
    return false;
}

static bool may_take(const struct order *order, struct mci_space *space)
{
    return !atomic_load(&space->is_gone) && !atomic_load(&space->is_shut) &&
           atomic_load(&space->capacity_bytes) >= order->want->bytes &&
           !has_client(order, atomic_load(&space->client));
}

/* ---- preferred ones ---------------------------------------------------- */

static const char *preferred_name(const struct mc_replicate_config *config,
                                  size_t i)
{
    if (config->preferred_segment && config->preferred_segment[0] != '\0') {
        return i == 0 ? config->preferred_segment : NULL;
    }
    return i < config->preferred_segment_count ? config->preferred_segments[i]
                                               : NULL;
}

static bool is_named(struct mci_space *space, const char *name)
{
    (void)pthread_mutex_lock(&space->lock);
    bool is_it = space->name && strcmp(space->name, name) == 0;
    (void)pthread_mutex_unlock(&space->lock);
    return is_it;
}

/* ---- trying ------------------------------------------------------------ */

typedef enum mc_err (*take_fn)(const struct mci_want *want,
                               struct mci_space *space,
                               struct mci_extent *extent_out);

static enum mc_err take_free(const struct mci_want *want,
                             struct mci_space *space,
                             struct mci_extent *extent_out)
{
    return mci_space_take(space, want->bytes, want->owner, extent_out);
}

static enum mc_err take_by_evicting(const struct mci_want *want,
                                    struct mci_space *space,
                                    struct mci_extent *extent_out)
{
    const struct mci_eviction eviction = {.master = want->master,
                                          .space = space,
                                          .now_ns = want->call->now_ns,
                                          .deadline_ns =
                                              want->call->deadline_ns,
                                          .cls = MCI_LOG_FOREGROUND,
                                          .spared = want->spared};
    return mci_evict_for(&eviction, want->bytes, want->owner, extent_out);
}

static enum mc_err take_in(const struct order *order, struct mci_space *space,
                           take_fn take, struct mci_placed *placed_out)
{
    struct mci_extent extent;
    enum mc_err err = take(order->want, space, &extent);
    if (err == MC_OK) {
        /* The id stays as long as something is allocated. */
        placed_out->segment_id = atomic_load(&space->id);
        placed_out->client = atomic_load(&space->client);
        placed_out->slot = (uint16_t)space->slot;
        placed_out->extent = extent.handle;
        placed_out->offset = extent.offset;
        placed_out->place = (uint32_t)(extent.offset >> space->granule_shift);
    }
    return err;
}

/* Another segment may help against this. */
static bool is_final(enum mc_err err)
{
    return err != MC_ERR_NO_AVAILABLE_HANDLE;
}

static enum mc_err take_preferred(const struct order *order, take_fn take,
                                  struct mci_placed *placed_out)
{
    const struct mc_replicate_config *config = order->want->config;
    if (!config) {
        return MC_ERR_NO_AVAILABLE_HANDLE;
    }
    for (size_t i = 0; preferred_name(config, i); i++) {
        for (uint32_t slot = 0; slot < order->count; slot++) {
            struct mci_space *space = mci_space_at(order->want->master, slot);
            if (!may_take(order, space) ||
                !is_named(space, preferred_name(config, i))) {
                continue;
            }
            enum mc_err err = take_in(order, space, take, placed_out);
            if (is_final(err)) {
                return err;
            }
        }
    }
    return MC_ERR_NO_AVAILABLE_HANDLE;
}

static enum mc_err take_somewhere(const struct order *order, take_fn take,
                                  uint32_t tries, struct mci_placed *placed_out)
{
    enum mc_err err = take_preferred(order, take, placed_out);
    for (uint32_t i = 0; i < order->count && tries > 0 && !is_final(err); i++) {
        uint32_t slot = (order->start + i) % order->count;
        struct mci_space *space = mci_space_at(order->want->master, slot);
        if (may_take(order, space)) {
            tries--;
            err = take_in(order, space, take, placed_out);
        }
    }
    return err;
}

enum mc_err mci_place(const struct mci_want *want,
                      struct mci_placed *placed_out, uint32_t *count_out)
{
    struct mci_master *master = want->master;
    uint32_t copies = want->config && want->config->replica_num > 0
                          ? want->config->replica_num
                          : 1;
    copies = copies > MCI_REPLICAS_MAX ? MCI_REPLICAS_MAX : copies;
    struct order order = {.want = want,
                          .count = atomic_load(&master->space_count),
                          .placed = placed_out};
    order.start =
        atomic_fetch_add_explicit(&master->place_turn, 1, memory_order_relaxed);

    enum mc_err err = take_somewhere(&order, take_free, UINT32_MAX, placed_out);
    if (err == MC_ERR_NO_AVAILABLE_HANDLE &&
        mci_reclaim_due(master, want->call->now_ns)) {
        err = take_somewhere(&order, take_free, UINT32_MAX, placed_out);
    }
    if (err == MC_ERR_NO_AVAILABLE_HANDLE) {
        err = take_somewhere(&order, take_by_evicting, EVICT_TRIES, placed_out);
    }
    if (err != MC_OK) {
        if (err == MC_ERR_NO_AVAILABLE_HANDLE) {
            atomic_fetch_add(&master->alloc_failures, 1);
        }
        return err;
    }
    for (order.placed_count = 1; order.placed_count < copies;
         order.placed_count++) {
        if (take_somewhere(&order, take_free, UINT32_MAX,
                           &placed_out[order.placed_count]) != MC_OK) {
            break; /* as many as there are is fine */
        }
    }
    *count_out = order.placed_count;
    return MC_OK;
}
