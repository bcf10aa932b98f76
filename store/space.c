/* SPDX-License-Identifier: Apache-2.0 */
#include "space.h"

#include <string.h>

#include "mci_alloc.h"
#include "writer.h"

#define SLOT_BITS 12
_Static_assert(MCI_SEGMENTS_MAX == 1 << SLOT_BITS, "slots of segment ids");
#define GRANULE_MAX (1U << 20)
#define GENERATION_MAX (UINT32_MAX >> SLOT_BITS)

/* ---- making ------------------------------------------------------------ */

static void init_lanes(struct mci_lane *lanes, size_t count)
{
    memset(lanes, 0, count * sizeof *lanes);
    for (size_t i = 0; i < count; i++) {
        atomic_init(&lanes[i].head_used_ns, MCI_NEVER);
    }
}

static struct mci_space *make_space(struct mci_master *master, uint32_t slot)
{
    size_t lane_count = (size_t)MCI_LANE_KINDS * master->shard_count;
    struct mci_space *space = mci_calloc(1, sizeof *space);
    struct mci_lane *lanes = mci_alloc(lane_count * sizeof *lanes);
    if (!space || !lanes) {
        mci_free(space);
        mci_free(lanes);
        return NULL;
    }
    init_lanes(lanes, lane_count);
    mci_lock_init(&space->lock);
    space->slot = slot;
    space->lanes = lanes;
    atomic_init(&space->is_gone, true);
    return space;
}

static bool is_free(struct mci_space *space)
{
    return atomic_load(&space->id) == 0;
}

/* A space that is not in use; tables_lock is held. */
static enum mc_err find_unused(struct mci_master *master,
                               struct mci_space **space_out)
{
    uint32_t count = atomic_load(&master->space_count);
    for (uint32_t i = 0; i < count; i++) {
        if (is_free(mci_space_at(master, i))) {
            *space_out = mci_space_at(master, i);
            return MC_OK;
        }
    }
    if (count == MCI_SEGMENTS_MAX) {
        return MC_ERR_NO_AVAILABLE_HANDLE;
    }
    struct mci_space *space = make_space(master, count);
    if (!space) {
        return MC_ERR_NOMEM;
    }
    atomic_store_explicit(&master->spaces[count], space, memory_order_release);
    atomic_store(&master->space_count, count + 1);
    *space_out = space;
    return MC_OK;
}

/* A place in a record has 32 bits, so large segments have larger granules. */
static uint32_t granule_for(uint64_t bytes)
{
    uint32_t granule = MCI_EXTENT_GRANULE_DEFAULT;
    while (bytes / granule > UINT32_MAX && granule < GRANULE_MAX) {
        granule *= 2;
    }
    return granule;
}

/* tables_lock is held. */
static enum mc_err put_in_use(struct mci_master *master,
                              const struct mci_lent *lent,
                              struct mci_extents *extents, char *name,
                              uint32_t *segment_out)
{
    struct mci_space *space = NULL;
    enum mc_err err = find_unused(master, &space);
    if (err != MC_OK) {
        return err;
    }
    struct mci_extents_stats stats;
    mci_extents_stats(extents, &stats);
    master->space_generation = master->space_generation % GENERATION_MAX + 1;
    uint32_t id = master->space_generation << SLOT_BITS | space->slot;
    (void)pthread_mutex_lock(&space->lock);
    space->extents = extents;
    space->name = name;
    space->step_shard = 0;
    space->granule_shift = (unsigned)__builtin_ctz(granule_for(lent->bytes));
    atomic_store(&space->client, lent->client);
    atomic_store(&space->host,
                 atomic_load(&mci_writer_at(master, lent->client)->host));
    atomic_store(&space->used_bytes, 0);
    atomic_store(&space->capacity_bytes, stats.capacity_bytes);
    atomic_store(&space->id, id);
    atomic_store(&space->is_shut, lent->is_shut);
    atomic_store(&space->is_gone, false);
    (void)pthread_mutex_unlock(&space->lock);
    atomic_fetch_add(&master->lent_bytes, stats.capacity_bytes);
    *segment_out = id;
    return MC_OK;
}

enum mc_err mci_master_segment_add(struct mci_master *master,
                                   const struct mci_lent *lent,
                                   uint32_t *segment_out)
{
    struct mci_extents *extents = NULL;
    enum mc_err err = lent->bytes == 0 ? MC_ERR_INVALID_PARAMS : MC_OK;
    if (err == MC_OK) {
        err =
            mci_extents_create(lent->bytes, granule_for(lent->bytes), &extents);
    }
    if (err != MC_OK) {
        return err;
    }
    const char *text = lent->name ? lent->name : "";
    char *name = mci_strdup_n(text, strlen(text));
    if (!name) {
        mci_extents_destroy(extents);
        return MC_ERR_NOMEM;
    }
    (void)pthread_mutex_lock(&master->tables_lock);
    err = MC_ERR_CLIENT_NOT_FOUND;
    if (mci_writer_of(master, lent->client)) {
        err = put_in_use(master, lent, extents, name, segment_out);
    }
    (void)pthread_mutex_unlock(&master->tables_lock);
    if (err != MC_OK) {
        mci_free(name);
        mci_extents_destroy(extents);
    }
    return err;
}

struct mci_space *mci_space_find(struct mci_master *master, uint32_t id)
{
    uint32_t slot = id & (MCI_SEGMENTS_MAX - 1);
    if (id == 0 || slot >= atomic_load(&master->space_count)) {
        return NULL;
    }
    struct mci_space *space = mci_space_at(master, slot);
    return atomic_load(&space->id) == id ? space : NULL;
}

/* ---- ending ------------------------------------------------------------ */

bool mci_space_is_going(const struct mci_master *master,
                        struct mci_space *space)
{
    if (atomic_load(&space->id) == 0 || !atomic_load(&space->is_gone)) {
        return false;
    }
    (void)pthread_mutex_lock(&space->lock);
    bool is_going = space->extents && atomic_load(&space->is_gone) &&
                    space->step_shard < master->shard_count;
    (void)pthread_mutex_unlock(&space->lock);
    return is_going;
}

void mci_space_settle(struct mci_master *master, struct mci_space *space)
{
    if (!space->extents || !atomic_load(&space->is_gone) ||
        space->open_claims > 0) {
        return;
    }
    struct mci_extents_stats stats;
    mci_extents_stats(space->extents, &stats);
    if (stats.allocated_count > 0) {
        return;
    }
    mci_extents_destroy(space->extents);
    mci_free(space->name);
    space->extents = NULL;
    space->name = NULL;
    atomic_store(&space->capacity_bytes, 0);
    atomic_store(&space->id, 0);
    atomic_fetch_sub(&master->going, 1);
}

void mci_master_segment_close(struct mci_master *master, uint32_t segment)
{
    struct mci_space *space = mci_space_find(master, segment);
    if (!space) {
        return;
    }
    (void)pthread_mutex_lock(&space->lock);
    if (atomic_load(&space->id) == segment) {
        if (!atomic_load(&space->is_gone)) {
            atomic_fetch_add(&master->going, 1); /* before it can be seen */
            atomic_store(&space->is_gone, true);
            atomic_fetch_sub(&master->lent_bytes,
                             atomic_load(&space->capacity_bytes));
        }
        mci_space_settle(master, space);
    }
    (void)pthread_mutex_unlock(&space->lock);
}

void mci_master_segment_admit(struct mci_master *master, uint32_t segment,
                              bool is_admitted)
{
    struct mci_space *space = mci_space_find(master, segment);
    if (!space) {
        return;
    }
    (void)pthread_mutex_lock(&space->lock);
    if (atomic_load(&space->id) == segment) {
        atomic_store(&space->is_shut, !is_admitted);
    }
    (void)pthread_mutex_unlock(&space->lock);
}

bool mci_master_segment_usage(struct mci_master *master, uint32_t segment,
                              uint64_t *bytes_out, uint64_t *used_out)
{
    struct mci_space *space = mci_space_find(master, segment);
    if (!space) {
        return false;
    }
    (void)pthread_mutex_lock(&space->lock);
    bool is_it = atomic_load(&space->id) == segment;
    *bytes_out = is_it ? atomic_load(&space->capacity_bytes) : 0;
    *used_out = is_it ? atomic_load(&space->used_bytes) : 0;
    (void)pthread_mutex_unlock(&space->lock);
    return is_it;
}

void mci_spaces_fini(struct mci_master *master)
{
    uint32_t count = atomic_load(&master->space_count);
    for (uint32_t i = 0; i < count; i++) {
        struct mci_space *space = mci_space_at(master, i);
        mci_extents_destroy(space->extents);
        mci_free(space->name);
        mci_free(space->lanes);
        (void)pthread_mutex_destroy(&space->lock);
        mci_free(space);
    }
}

/* ---- ranges ------------------------------------------------------------ */

void mci_space_free(struct mci_master *master, const struct mci_range *range)
{
    struct mci_space *space = mci_space_at(master, range->segment);
    (void)pthread_mutex_lock(&space->lock);
    struct mci_extent extent = mci_extents_get(space->extents, range->extent);
    mci_extents_free(space->extents, range->extent);
    atomic_fetch_sub_explicit(&space->used_bytes, extent.len,
                              memory_order_relaxed);
    mci_space_settle(master, space);
    (void)pthread_mutex_unlock(&space->lock);
}

enum mc_err mci_space_take(struct mci_space *space, uint64_t bytes,
                           uint64_t owner, struct mci_extent *extent_out)
{
    enum mc_err err = MC_ERR_NO_AVAILABLE_HANDLE;
    (void)pthread_mutex_lock(&space->lock);
    if (!atomic_load(&space->is_gone) && !atomic_load(&space->is_shut)) {
        err = mci_extents_alloc(space->extents, bytes, mci_owner_of_ref(owner),
                                extent_out);
    }
    if (err == MC_OK) {
        atomic_fetch_add_explicit(&space->used_bytes, extent_out->len,
                                  memory_order_relaxed);
    }
    (void)pthread_mutex_unlock(&space->lock);
    return err;
}
