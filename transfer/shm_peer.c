/* SPDX-License-Identifier: Apache-2.0 */
/* shm_peer.c - mappings of other owners' memory: one per target, made by the
 * first row, given up when the owner closes its socket or dies, when the memory
 * is given up, or with the target; unmapped when nobody is inside any more.
 *
 * A mapping is counted once by its target, once by the poller that watches it,
 * and by who moves rows.
 */
#include <sys/epoll.h>
#include <unistd.h>

#include "mci_clock.h"
#include "mci_cond.h"
#include "shm.h"

/* What stands in kept while somebody dials. */
static char dialing;

static struct shm_mapping *kept_mapping(const struct mc_target *target)
{
    void *kept = atomic_load(&target->kept[MC_TRANSPORT_SHM]);
    return kept == &dialing ? NULL : kept;
}

static bool is_stale(const struct shm_mapping *mapping)
{
    return atomic_load(&mapping->is_dead) ||
           atomic_load(mapping->generation) != mapping->generation_was;
}

/* ---- counts ------------------------------------------------------------ */

struct shm_mapping *shm_mapping_hold(struct shm_state *shm,
                                     struct mc_target *target)
{
    (void)pthread_mutex_lock(&shm->lock);
    struct shm_mapping *mapping = kept_mapping(target);
    if (mapping) {
        mapping->refs++;
    }
    (void)pthread_mutex_unlock(&shm->lock);
    return mapping;
}

void shm_mapping_release(struct shm_mapping *mapping)
{
    struct shm_state *shm = mapping->shm;
    (void)pthread_mutex_lock(&shm->lock);
    bool is_last = --mapping->refs == 0;
    if (is_last) {
        mci_list_remove(&mapping->link);
    }
    (void)pthread_mutex_unlock(&shm->lock);
    if (is_last) {
        shm_mapping_unmap(mapping);
    }
}

/* Takes it from its target; true: the target's count is now the caller's. Lock
 * held. */
static bool take_from_target(struct shm_mapping *mapping)
{
    if (!mapping->target) {
        return false;
    }
    atomic_store(&mapping->target->kept[MC_TRANSPORT_SHM], NULL);
    mapping->target = NULL;
    return true;
}

/* ---- on the poller's thread -------------------------------------------- */

static void unwatch(struct shm_mapping *mapping)
{
    if (mapping->is_watched) {
        mapping->is_watched = false;
        mci_poller_remove(mapping->shm->poller, &mapping->watch);
        mci_poller_remove(mapping->shm->poller, &mapping->death);
        shm_mapping_release(mapping);
    }
}

static void give_up(struct shm_mapping *mapping)
{
    struct shm_state *shm = mapping->shm;
    atomic_store(&mapping->is_dead, 1);
    (void)pthread_mutex_lock(&shm->lock);
    bool was_kept = take_from_target(mapping);
    (void)pthread_mutex_unlock(&shm->lock);
    if (was_kept) {
        shm_mapping_release(mapping);
    }
    unwatch(mapping);
}

/* The owner never says anything more: whatever comes is the end. */
static void on_socket(struct mci_watch *watch, uint32_t events)
{
    (void)events;
    give_up(MCI_CONTAINER(watch, struct shm_mapping, watch));
}

static void on_death(struct mci_watch *watch, uint32_t events)
{
    (void)events;
    give_up(MCI_CONTAINER(watch, struct shm_mapping, death));
}

static void begin_watch(struct mci_task *task)
{
    struct shm_mapping *mapping =
        MCI_CONTAINER(task, struct shm_mapping, watch_task);
    struct mci_poller *poller = mapping->shm->poller;
    mapping->watch = (struct mci_watch){.ready = on_socket, .fd = mapping->fd};
    mapping->death =
        (struct mci_watch){.ready = on_death, .fd = mapping->pidfd};
    if (mci_poller_add(poller, &mapping->watch, EPOLLIN) == MC_OK) {
        if (mci_poller_add(poller, &mapping->death, EPOLLIN) == MC_OK) {
            mapping->is_watched = true;
            return;
        }
        mci_poller_remove(poller, &mapping->watch);
    }
    give_up(mapping);
    shm_mapping_release(mapping);
}

/* Carries the count that the target had. */
static void drop(struct mci_task *task)
{
    struct shm_mapping *mapping =
        MCI_CONTAINER(task, struct shm_mapping, drop_task);
    unwatch(mapping);
    shm_mapping_release(mapping);
}

void shm_peer_close(struct shm_state *shm)
{
    while (!mci_list_is_empty(&shm->mappings)) {
        struct shm_mapping *mapping =
            MCI_CONTAINER(shm->mappings.next, struct shm_mapping, link);
        give_up(mapping);
    }
}

/* ---- targets ----------------------------------------------------------- */

/* The lock is held and left meanwhile. */
static enum mc_err dial(struct shm_state *shm, struct mc_target *target,
                        uint64_t deadline_ns)
{
    struct shm_mapping *mapping = NULL;
    atomic_store(&target->kept[MC_TRANSPORT_SHM], &dialing);
    (void)pthread_mutex_unlock(&shm->lock);
    enum mc_err err = shm_dial(target, deadline_ns, &mapping);
    (void)pthread_mutex_lock(&shm->lock);
    atomic_store(&target->kept[MC_TRANSPORT_SHM], mapping);
    if (mapping) {
        mapping->shm = shm;
        mapping->target = target;
        mapping->refs = 2;
        mci_list_push_back(&shm->mappings, &mapping->link);
        mapping->watch_task.run = begin_watch;
        mapping->drop_task.run = drop;
        mci_poller_post(shm->poller, &mapping->watch_task);
    }
    (void)pthread_cond_broadcast(&shm->reached);
    return err;
}

/* Takes a stale one out of the way; the lock is held. */
static void discard_stale(struct shm_state *shm, struct mc_target *target)
{
    struct shm_mapping *mapping = kept_mapping(target);
    if (mapping && is_stale(mapping) && take_from_target(mapping)) {
        mci_poller_post(shm->poller, &mapping->drop_task);
    }
}

enum mc_err shm_peer_reach(struct shm_state *shm, struct mc_target *target,
                           uint64_t deadline_ns)
{
    enum mc_err err = MC_OK;
    if (!target->shm[0]) {
        return MC_ERR_TRANSFER_FAIL;
    }
    (void)pthread_mutex_lock(&shm->lock);
    while (atomic_load(&target->kept[MC_TRANSPORT_SHM]) == &dialing &&
           mci_clock_ns() < deadline_ns) {
        mci_cond_wait(&shm->reached, &shm->lock, deadline_ns);
    }
    discard_stale(shm, target);
    void *kept = atomic_load(&target->kept[MC_TRANSPORT_SHM]);
    if (kept == &dialing) {
        err = MC_ERR_RPC_TIMEOUT;
    } else if (!kept) {
        err = shm_poller(shm) ? dial(shm, target, deadline_ns)
                              : MC_ERR_TRANSFER_FAIL;
    }
    (void)pthread_mutex_unlock(&shm->lock);
    return err;
}

void shm_peer_forget(struct shm_state *shm, struct mc_target *target)
{
    (void)pthread_mutex_lock(&shm->lock);
    struct shm_mapping *mapping = kept_mapping(target);
    if (mapping && take_from_target(mapping)) {
        mci_poller_post(shm->poller, &mapping->drop_task);
    }
    (void)pthread_mutex_unlock(&shm->lock);
}
