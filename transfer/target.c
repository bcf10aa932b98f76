/* SPDX-License-Identifier: Apache-2.0 */
#include "target.h"

#include <string.h>

#include "mci_alloc.h"
#include "mci_clock.h"

static char *copy_text(const char *text)
{
    return mci_strdup_n(text ? text : "", text ? strlen(text) : 0);
}

enum mc_err mc_target_open(struct mc_transfer *transfer,
                           const struct mc_target_opts *opts,
                           struct mc_target **target_out)
{
    if (opts->registration == 0) {
        return MC_ERR_INVALID_PARAMS;
    }
    if (mci_engine_is_elsewhere(transfer)) {
        return MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
    }
    struct mc_target *target = mci_calloc(1, sizeof *target);
    if (!target) {
        return MC_ERR_NOMEM;
    }
    target->transfer = transfer;
    target->registration = opts->registration;
    target->bytes = opts->bytes;
    target->endpoint = copy_text(opts->endpoint);
    target->shm = copy_text(opts->shm);
    if (!target->endpoint || !target->shm) {
        mci_free(target->endpoint);
        mci_free(target->shm);
        mci_free(target);
        return MC_ERR_NOMEM;
    }
    (void)pthread_mutex_lock(&transfer->targets_lock);
    mci_list_push_back(&transfer->targets, &target->link);
    (void)pthread_mutex_unlock(&transfer->targets_lock);
    *target_out = target;
    return MC_OK;
}

static void forget(struct mc_target *target)
{
    struct mc_transfer *transfer = target->transfer;
    for (size_t i = 0; i < mci_transport_count; i++) {
        const struct mci_transport *transport = mci_transports[i];
        if (transfer->states[transport->kind]) {
            transport->forget(transfer->states[transport->kind], target);
        }
    }
}

void mci_targets_detach(struct mc_transfer *transfer)
{
    while (!mci_list_is_empty(&transfer->targets)) {
        struct mc_target *target =
            MCI_CONTAINER(transfer->targets.next, struct mc_target, link);
        mci_list_remove(&target->link);
        forget(target);
        target->transfer = NULL;
    }
}

void mc_target_close(struct mc_target *target)
{
    if (!target ||
        (target->transfer && mci_engine_is_elsewhere(target->transfer))) {
        return;
    }
    if (target->transfer) {
        (void)pthread_mutex_lock(&target->transfer->targets_lock);
        mci_list_remove(&target->link);
        (void)pthread_mutex_unlock(&target->transfer->targets_lock);
        forget(target);
    }
    mci_free(target->endpoint);
    mci_free(target->shm);
    mci_free(target);
}

/* Only what costs time to find out is not asked again for a while. */
static bool is_shunned(struct mc_target *target, enum mc_transport_kind kind)
{
    return kind == MC_TRANSPORT_SHM &&
           atomic_load(&target->shunned_until_ns[kind]) > mci_clock_ns();
}

static bool reach(struct mc_target *target,
                  const struct mci_transport *transport, uint64_t deadline_ns)
{
    void *state = target->transfer->states[transport->kind];
    if (!state || is_shunned(target, transport->kind)) {
        return false;
    }
    enum mc_err err = transport->reach(state, target, deadline_ns);
    if (err == MC_OK) {
        return true;
    }
    if (err != MC_ERR_RPC_TIMEOUT) {
        atomic_store(&target->shunned_until_ns[transport->kind],
                     mci_clock_ns() + MCI_CHOICE_TTL_NS);
    }
    return false;
}

const struct mci_transport *mci_target_choose(struct mc_target *target,
                                              uint64_t deadline_ns)
{
    for (size_t i = 0; i < mci_transport_count; i++) {
        if (reach(target, mci_transports[i], deadline_ns)) {
            return mci_transports[i];
        }
    }
    return NULL;
}

bool mci_target_reaches(struct mc_target *target, enum mc_transport_kind kind,
                        uint64_t deadline_ns)
{
    const struct mci_transport *transport = mci_transport_get(kind);
    return transport && reach(target, transport, deadline_ns);
}

enum mc_err mc_target_probe(struct mc_target *target, uint64_t deadline_ns)
{
    if (!target->transfer || mci_engine_is_elsewhere(target->transfer)) {
        return MC_ERR_UNAVAILABLE_IN_CURRENT_STATUS;
    }
    const struct mci_transport *transport =
        mci_target_choose(target, deadline_ns);
    if (!transport) {
        return MC_ERR_TRANSFER_FAIL;
    }
    return transport->probe(target->transfer->states[transport->kind], target,
                            deadline_ns);
}

enum mc_transport_kind mc_target_transport(struct mc_target *target,
                                           uint64_t deadline_ns)
{
    if (!target->transfer || mci_engine_is_elsewhere(target->transfer)) {
        return MC_TRANSPORT_AUTO;
    }
    const struct mci_transport *transport =
        mci_target_choose(target, deadline_ns);
    return transport ? transport->kind : MC_TRANSPORT_AUTO;
}
