/* SPDX-License-Identifier: Apache-2.0 */
/* Clean slots are taken first, the one that came back last before all others;
 * then one whose last request was given up, which costs its taker a cancel;
 * then a new one. So there are as many connections as calls were under way at a
 * time.
 */
#include <time.h>

#include "mci_alloc.h"
#include "remote.h"

void mci_remote_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(cond, &attr);
    (void)pthread_condattr_destroy(&attr);
}

void mci_remote_wait(struct mci_remote *remote, pthread_cond_t *cond,
                     uint64_t until_ns)
{
    uint64_t now_ns = mci_clock_ns();
    uint64_t wait_ns = until_ns > now_ns ? until_ns - now_ns : 0;
    if (wait_ns > REMOTE_SLICE_NS) {
        wait_ns = REMOTE_SLICE_NS;
    }
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    uint64_t nsec = (uint64_t)until.tv_nsec + wait_ns;
    until.tv_sec += (time_t)(nsec / MCI_NS_PER_S);
    until.tv_nsec = (long)(nsec % MCI_NS_PER_S);
    (void)pthread_cond_timedwait(cond, &remote->lock, &until);
}

static struct remote_slot *make_slot(struct mci_remote *remote)
{
    struct remote_slots *slots = &remote->slots;
    struct remote_slot *slot = mci_calloc(1, sizeof *slot);
    if (!slot) {
        return NULL;
    }
    mci_remote_wire_init(&slot->wire);
    slot->index = slots->count;
    slots->all[slots->count++] = slot;
    return slot;
}

/* An idle one, of whatever sort; the lock is held. NULL with MC_OK: none. */
static struct remote_slot *find_idle(struct mci_remote *remote,
                                     enum mc_err *err_out)
{
    struct remote_slots *slots = &remote->slots;
    struct remote_slot *slot = NULL;
    if (slots->clean_count > 0) {
        return slots->all[slots->clean[--slots->clean_count]];
    }
    if (slots->doubtful_count > 0) {
        return slots->all[slots->doubtful[--slots->doubtful_count]];
    }
    if (slots->count < MCI_SLOTS_MAX) {
        slot = make_slot(remote);
        *err_out = slot ? MC_OK : MC_ERR_NOMEM;
    }
    return slot;
}

struct remote_slot *mci_remote_slot_take(struct mci_remote *remote,
                                         uint64_t deadline_ns,
                                         enum mc_err *err_out)
{
    *err_out = MC_OK;
    (void)pthread_mutex_lock(&remote->lock);
    struct remote_slot *slot = find_idle(remote, err_out);
    while (!slot && *err_out == MC_OK && mci_clock_ns() < deadline_ns) {
        remote->slots.waiters++;
        mci_remote_wait(remote, &remote->changed, deadline_ns);
        remote->slots.waiters--;
        slot = find_idle(remote, err_out);
    }
    (void)pthread_mutex_unlock(&remote->lock);
    if (!slot && *err_out == MC_OK) {
        *err_out = MC_ERR_RPC_FAIL;
    }
    return slot;
}

void mci_remote_slot_give(struct mci_remote *remote, struct remote_slot *slot)
{
    struct remote_slots *slots = &remote->slots;
    mci_remote_wire_trim(&slot->wire);
    (void)pthread_mutex_lock(&remote->lock);
    if (slot->is_doubtful) {
        slots->doubtful[slots->doubtful_count++] = (uint16_t)slot->index;
    } else {
        slots->clean[slots->clean_count++] = (uint16_t)slot->index;
    }
    if (slots->waiters > 0) {
        (void)pthread_cond_broadcast(&remote->changed);
    }
    (void)pthread_mutex_unlock(&remote->lock);
}

void mci_remote_slots_reset(struct mci_remote *remote)
{
    struct remote_slots *slots = &remote->slots;
    while (slots->doubtful_count > 0) {
        uint16_t index = slots->doubtful[--slots->doubtful_count];
        slots->clean[slots->clean_count++] = index;
    }
    for (uint32_t i = 0; i < slots->clean_count; i++) {
        struct remote_slot *slot = slots->all[slots->clean[i]];
        mci_remote_wire_drop(&slot->wire);
        slot->is_doubtful = false;
        atomic_store(&slot->number, 0);
        atomic_store(&slot->generation, atomic_load(&remote->generation));
    }
}

void mci_remote_slots_fini(struct mci_remote *remote)
{
    for (uint32_t i = 0; i < remote->slots.count; i++) {
        mci_remote_wire_fini(&remote->slots.all[i]->wire);
        mci_free(remote->slots.all[i]);
    }
    remote->slots.count = 0;
}

uint32_t mci_remote_slots_list(struct mci_remote *remote, uint64_t generation,
                               uint64_t numbers_out[MCI_SLOTS_MAX])
{
    (void)pthread_mutex_lock(&remote->lock);
    uint32_t count = remote->slots.count;
    for (uint32_t i = 0; i < count; i++) {
        struct remote_slot *slot = remote->slots.all[i];
        bool is_ours = atomic_load(&slot->generation) == generation;
        numbers_out[i] = is_ours ? atomic_load(&slot->number) : 0;
    }
    (void)pthread_mutex_unlock(&remote->lock);
    return count;
}
