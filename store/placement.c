/* SPDX-License-Identifier: Apache-2.0 */
#include "placement.h"

#include <string.h>

#include "evict.h"
#include "space.h"
#include "sweep.h"
#include "writer.h"

#define EVICT_TRIES 8 /* segments in which room is made, one after the other */

#define BEST_OF 2 /* segments of which the emptier one is taken */

/* The order in which spaces are tried. */
struct order {
    const struct mci_want *want;
    uint32_t count; /* of slots */
    uint32_t start;
    uint64_t dice;
    uint32_t client; /* of the writer */
    uint32_t host;   /* likewise; 0: not known */
    bool is_local_first;
    bool is_emptier_first;
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
                                          .waited_ns = want->waited_ns,
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

/* Those that a test picks, from the start of this order on. */
typedef bool (*picks_fn)(const struct order *order, struct mci_space *space,
                         const void *ctx);

static enum mc_err take_picked(const struct order *order, take_fn take,
                               picks_fn picks, const void *ctx,
                               struct mci_placed *placed_out)
{
    for (uint32_t i = 0; i < order->count; i++) {
        uint32_t slot = (order->start + i) % order->count;
        struct mci_space *space = mci_space_at(order->want->master, slot);
        if (!may_take(order, space) || !picks(order, space, ctx)) {
            continue;
        }
        enum mc_err err = take_in(order, space, take, placed_out);
        if (is_final(err)) {
            return err;
        }
    }
    return MC_ERR_NO_AVAILABLE_HANDLE;
}

static bool is_named(const struct order *order, struct mci_space *space,
                     const void *name)
{
    (void)order;
    (void)pthread_mutex_lock(&space->lock);
    bool is_it = space->name && strcmp(space->name, name) == 0;
    (void)pthread_mutex_unlock(&space->lock);
    return is_it;
}

static enum mc_err take_preferred(const struct order *order, take_fn take,
                                  struct mci_placed *placed_out)
{
    const struct mc_replicate_config *config = order->want->config;
    enum mc_err err = MC_ERR_NO_AVAILABLE_HANDLE;
    for (size_t i = 0; config && !is_final(err) && preferred_name(config, i);
         i++) {
        err = take_picked(order, take, is_named, preferred_name(config, i),
                          placed_out);
    }
    return err;
}

static bool is_own(const struct order *order, struct mci_space *space,
                   const void *ctx)
{
    (void)ctx;
    return atomic_load(&space->client) == order->client;
}

static bool is_near(const struct order *order, struct mci_space *space,
                    const void *ctx)
{
    (void)ctx;
    return order->host != 0 && atomic_load(&space->host) == order->host;
}

/* The writer's own first, then those of its host. */
static enum mc_err take_local(const struct order *order, take_fn take,
                              struct mci_placed *placed_out)
{
    enum mc_err err = take_picked(order, take, is_own, NULL, placed_out);
    return is_final(err) ? err
                         : take_picked(order, take, is_near, NULL, placed_out);
}

static double free_share(struct mci_space *space)
{
    double capacity = (double)atomic_load(&space->capacity_bytes);
    double used = (double)atomic_load(&space->used_bytes);
    return capacity > 0 ? 1.0 - used / capacity : 0.0;
}

/* The emptier of two drawn by lot, and each fourth time just one: a segment that
 * comes empty among n gets no more than 7 / 4n of what is placed, not all. */
static enum mc_err take_emptier(const struct order *order, take_fn take,
                                struct mci_placed *placed_out)
{
    struct mci_space *best = NULL;
    uint32_t drawn = order->dice >> 16 & 3 ? 0 : BEST_OF - 1;
    uint32_t first = (uint32_t)(order->dice >> 32) % order->count;
    uint32_t step =
        1 + (uint32_t)order->dice % (order->count > 1 ? order->count - 1 : 1);
    for (uint32_t i = 0; i < order->count && drawn < BEST_OF; i++) {
        uint32_t slot = (uint32_t)((first + (uint64_t)i * step) % order->count);
        struct mci_space *space = mci_space_at(order->want->master, slot);
        if (!may_take(order, space)) {
            continue;
        }
        drawn++;
        if (!best || free_share(space) > free_share(best)) {
            best = space;
        }
    }
    return best ? take_in(order, best, take, placed_out)
                : MC_ERR_NO_AVAILABLE_HANDLE;
}

static enum mc_err take_somewhere(const struct order *order, take_fn take,
                                  uint32_t tries, struct mci_placed *placed_out)
{
    enum mc_err err = take_preferred(order, take, placed_out);
    if (!is_final(err) && order->is_local_first) {
        err = take_local(order, take, placed_out);
    }
    if (!is_final(err) && order->is_emptier_first && order->count > 0) {
        err = take_emptier(order, take, placed_out);
    }
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

/* splitmix64: neighbouring turns make lots that have nothing in common. */
static uint64_t lot_of(uint64_t turn)
{
    uint64_t x = (turn + 1) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static struct order make_order(const struct mci_want *want, uint32_t copies,
                               const struct mci_placed *placed)
{
    struct mci_master *master = want->master;
    enum mc_allocation_strategy strategy = master->opts.allocation_strategy;
    bool asks_near = want->config && want->config->prefer_alloc_in_same_node;
    struct order order = {.want = want,
                          .count = atomic_load(&master->space_count),
                          .client = want->call->client,
                          .placed = placed};
    order.start =
        atomic_fetch_add_explicit(&master->place_turn, 1, memory_order_relaxed);
    order.dice = lot_of(order.start);
    order.is_emptier_first = strategy == MC_ALLOCATION_FREE_RATIO_FIRST;
    order.is_local_first =
        copies == 1 && (asks_near || strategy == MC_ALLOCATION_LOCAL_FIRST);
    const struct mci_writer *writer = mci_writer_at(master, order.client);
    order.host = writer ? atomic_load(&writer->host) : 0;
    return order;
}

enum mc_err mci_place(const struct mci_want *want,
                      struct mci_placed *placed_out, uint32_t *count_out)
{
    struct mci_master *master = want->master;
    uint32_t copies = want->config && want->config->replica_num > 0
                          ? want->config->replica_num
                          : 1;
    copies = copies > MCI_REPLICAS_MAX ? MCI_REPLICAS_MAX : copies;
    struct order order = make_order(want, copies, placed_out);
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
