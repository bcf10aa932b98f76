/* SPDX-License-Identifier: Apache-2.0 */
/* local.c - memory that this engine lends itself. The owner's rules hold here as
 * well, and its own threads are not seen as stuck before they had time to finish
 * their piece. */
#include "copy.h"
#include "mci_clock.h"
#include "mci_list.h"
#include "target.h"

#define FENCE_PATIENCE_NS (UINT64_C(100) * MCI_NS_PER_MS)

struct local_guard {
    struct mci_guard guard;
    struct mci_exposed *exposed;
};

static enum mc_err local_open(struct mc_transfer *transfer, void **state_out)
{
    *state_out = transfer;
    return MC_OK;
}

static void local_close(void *state)
{
    (void)state;
}

static enum mc_err local_expose(void *state, struct mci_exposed *exposed)
{
    (void)state;
    (void)exposed;
    return MC_OK;
}

/* The engine waits for who is inside. */
static void local_conceal(void *state, struct mci_exposed *exposed)
{
    (void)state;
    (void)exposed;
}

static bool scan(void *ctx, uint64_t now_ns, struct mci_stuck_list *stuck)
{
    struct mc_transfer *transfer = ctx;
    return mci_gate_scan(&transfer->gate, mci_board_page(transfer->board),
                         now_ns, stuck);
}

static enum mc_err local_fence(void *state, const struct mc_fence *fences,
                               size_t count, struct mci_stuck_list *stuck)
{
    (void)fences;
    return mci_gate_settle(scan, state, count > 0 ? FENCE_PATIENCE_NS : 0,
                           stuck);
}

static enum mc_err local_reach(void *state, struct mc_target *target,
                               uint64_t deadline_ns)
{
    (void)deadline_ns;
    struct mci_exposed *exposed = mci_exposed_hold(state, target->registration);
    if (!exposed) {
        return MC_ERR_TRANSFER_FAIL;
    }
    mci_exposed_release(exposed);
    return MC_OK;
}

static void local_forget(void *state, struct mc_target *target)
{
    (void)state;
    (void)target;
}

static enum mc_err local_may(struct mci_guard *guard,
                             const struct mc_transfer_row *row,
                             const struct mc_grant *grant, uint64_t now_ns)
{
    struct local_guard *own = MCI_CONTAINER(guard, struct local_guard, guard);
    return mci_exposed_check(own->exposed, &row->terms, grant, row->offset,
                             mci_row_len(row), now_ns);
}

static enum mc_err move_inside(struct mci_exposed *exposed,
                               const struct mci_copy *job)
{
    struct mc_transfer *transfer = exposed->transfer;
    struct local_guard guard = {.guard = {.may = local_may},
                                .exposed = exposed};
    struct mci_copy copy = *job;
    copy.base = exposed->base;
    copy.guard = &guard.guard;
    copy.gate = &transfer->gate;
    copy.board = mci_board_page(transfer->board);
    return mci_copy_row(&copy);
}

static void spend(struct mci_exposed *exposed, struct mc_transfer_row *row)
{
    mci_exposed_spend(exposed, row->terms.subject,
                      mci_row_grant(row).deadline_ns);
    row->receipt = mc_grant_receipt(exposed->key, exposed->registration,
                                    row->terms.subject);
}

static enum mc_err move_row(struct mc_transfer *transfer,
                            const struct mci_copy *job)
{
    struct mc_transfer_row *row = job->row;
    struct mci_exposed *exposed =
        mci_exposed_hold(transfer, row->target->registration);
    if (!exposed) {
        return MC_ERR_TRANSFER_FAIL;
    }
    enum mc_err err = MC_ERR_TRANSFER_FAIL;
    if (mci_exposed_enter(exposed)) {
        err = move_inside(exposed, job);
        mci_exposed_leave(exposed);
    }
    if (err == MC_OK && row->terms.is_write && row->is_final) {
        spend(exposed, row);
    }
    mci_exposed_release(exposed);
    return mci_row_err(err, row->terms.is_write);
}

static void local_move(void *state, struct mc_transfer_row *const *rows,
                       size_t count, uint64_t deadline_ns,
                       const _Atomic int *canceled)
{
    for (size_t i = 0; i < count; i++) {
        struct mci_copy job = {
            .row = rows[i], .canceled = canceled, .deadline_ns = deadline_ns};
        rows[i]->err = move_row(state, &job);
    }
}

static enum mc_err seal_row(struct mc_transfer *transfer,
                            struct mc_transfer_row *row)
{
    struct mci_exposed *exposed =
        mci_exposed_hold(transfer, row->target->registration);
    if (!exposed) {
        return MC_ERR_TRANSFER_FAIL;
    }
    struct mc_grant grant = mci_row_grant(row);
    struct mci_granter granter = mci_exposed_granter(exposed);
    enum mc_err err = mci_grant_check_seal(&granter, &row->terms, &grant);
    if (err == MC_OK) {
        spend(exposed, row);
    }
    mci_exposed_release(exposed);
    return mci_row_err(err, true);
}

static void local_seal(void *state, struct mc_transfer_row *const *rows,
                       size_t count, uint64_t deadline_ns)
{
    (void)deadline_ns;
    for (size_t i = 0; i < count; i++) {
        rows[i]->err = seal_row(state, rows[i]);
    }
}

const struct mci_transport mci_transport_local = {
    .kind = MC_TRANSPORT_LOCAL,
    .name = "local",
    .open = local_open,
    .close = local_close,
    .expose = local_expose,
    .conceal = local_conceal,
    .fence = local_fence,
    .reach = local_reach,
    .forget = local_forget,
    .probe = local_reach,
    .move = local_move,
    .seal = local_seal,
};
