/* SPDX-License-Identifier: Apache-2.0 */
#include "gate.h"

#include <time.h>

#include "mci_clock.h"

/* Where a thread begins to look for a free slot: neighbours do not meet. */
static unsigned first_slot(void)
{
    static _Atomic uint32_t threads;
    static _Thread_local uint32_t mine;
    if (mine == 0) {
        mine = 1 + atomic_fetch_add_explicit(&threads, 1, memory_order_relaxed);
    }
    return mine % MCI_GATE_SLOTS;
}

static int take_slot(struct mci_gate *gate)
{
    unsigned first = first_slot();
    for (unsigned i = 0; i < MCI_GATE_SLOTS; i++) {
        unsigned at = (first + i) % MCI_GATE_SLOTS;
        if (atomic_load_explicit(&gate->slots[at].is_taken,
                                 memory_order_relaxed) == 0 &&
            atomic_exchange(&gate->slots[at].is_taken, 1) == 0) {
            return (int)at;
        }
    }
    return -1;
}

static int await_slot(struct mci_gate *gate, uint64_t deadline_ns)
{
    const struct timespec pause = {0, 50000};
    int at = take_slot(gate);
    while (at < 0 && mci_clock_ns() < deadline_ns) {
        (void)nanosleep(&pause, NULL);
        at = take_slot(gate);
    }
    return at;
}

int mci_gate_enter(struct mci_gate *gate, const struct mci_board_page *board,
                   const struct mc_grant_terms *terms, uint64_t grant_ns,
                   uint64_t deadline_ns)
{
    int at = await_slot(gate, deadline_ns);
    if (at < 0) {
        return -1;
    }
    struct mci_gate_slot *slot = &gate->slots[at];
    atomic_store(&slot->incarnation, terms->incarnation);
    atomic_store(&slot->grant_ns, grant_ns);
    atomic_store(&slot->attempt, terms->subject);
    if (mci_board_refuses(board, terms->subject, terms->incarnation,
                          grant_ns)) {
        mci_gate_leave(gate, at);
        return -1;
    }
    return at;
}

void mci_gate_renew(struct mci_gate *gate, int slot, uint64_t grant_ns)
{
    atomic_store(&gate->slots[slot].grant_ns, grant_ns);
}

void mci_gate_leave(struct mci_gate *gate, int slot)
{
    atomic_store(&gate->slots[slot].attempt, 0);
    atomic_store(&gate->slots[slot].is_taken, 0);
}

static bool is_listed(const struct mci_stuck_list *stuck, uint64_t attempt,
                      uint64_t incarnation)
{
    for (size_t i = 0; i < stuck->count; i++) {
        if (stuck->rows[i].attempt == attempt &&
            stuck->rows[i].incarnation == incarnation) {
            return true;
        }
    }
    return false;
}

/* The attempt is stored last on entering, so what is read after it is of the
 * same turn or of a later one; and a later one means that this one has left. */
bool mci_gate_scan(struct mci_gate *gate, const struct mci_board_page *board,
                   uint64_t now_ns, struct mci_stuck_list *stuck)
{
    for (unsigned i = 0; i < MCI_GATE_SLOTS; i++) {
        struct mci_gate_slot *slot = &gate->slots[i];
        uint64_t attempt = atomic_load(&slot->attempt);
        if (attempt == 0) {
            continue;
        }
        uint64_t incarnation = atomic_load(&slot->incarnation);
        uint64_t grant_ns = atomic_load(&slot->grant_ns);
        if ((grant_ns > now_ns &&
             !mci_board_refuses(board, attempt, incarnation, grant_ns)) ||
            is_listed(stuck, attempt, incarnation)) {
            continue;
        }
        if (stuck->count == stuck->max) {
            return false;
        }
        stuck->rows[stuck->count++] =
            (struct mc_fence_stuck){attempt, incarnation};
    }
    return true;
}

/* Of the machine: patience is with threads, whatever clock a test has set. */
static uint64_t monotonic_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * MCI_NS_PER_S + (uint64_t)now.tv_nsec;
}

enum mc_err mci_gate_settle(mci_scan_fn scan, void *ctx, uint64_t patience_ns,
                            struct mci_stuck_list *stuck)
{
    const struct timespec pause = {0, 20000};
    size_t before = stuck->count;
    uint64_t until_ns = monotonic_ns() + patience_ns;
    for (;;) {
        stuck->count = before;
        bool has_room = scan(ctx, mci_clock_ns(), stuck);
        if (has_room && stuck->count == before) {
            return MC_OK;
        }
        if (monotonic_ns() >= until_ns) {
            return has_room ? MC_OK : MC_ERR_BUFFER_OVERFLOW;
        }
        (void)nanosleep(&pause, NULL);
    }
}
