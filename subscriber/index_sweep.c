/* SPDX-License-Identifier: Apache-2.0 */
/* Postponed work: sweeping what cleared owners held, ending epochs.
 *
 * A sweep passes all nodes, then the unfinished pages, then the sets, and after
 * that nothing leads to the slots that were retired before it began, so they
 * may be used again. Slots retired meanwhile wait for the next sweep. Each
 * change does a little of it; so does mc_index_maintain. */
#include "index.h"

#define STEP_NODES 64u
#define FIRST_NODES 1024u
#define EPOCH_EVERY 32u

static uint32_t high_of(const struct index_pool *pool)
{
    return atomic_load_explicit(&pool->high, memory_order_relaxed);
}

static uint32_t slot_state(const struct index_slot *slot)
{
    return atomic_load_explicit(&slot->state, memory_order_relaxed);
}

static void change_slots(struct mc_index *ix, uint32_t from, uint32_t to)
{
    uint32_t high = high_of(&ix->slots);
    for (uint32_t id = 1; id <= high; id++) {
        struct index_slot *slot = slot_at(ix, id);
        if (slot_state(slot) != from) {
            continue;
        }
        if (to == SLOT_FREE) {
            index_slot_free(ix, id);
        } else {
            atomic_store_explicit(&slot->state, to, memory_order_release);
        }
    }
}

static void end_sweep(struct mc_index *ix)
{
    change_slots(ix, SLOT_SWEPT,
                 ix->has_sweep_failed ? SLOT_RETIRED : SLOT_FREE);
    ix->sweep_phase = SWEEP_NONE;
}

/* One record. Returns false at the end of the phase. */
static bool sweep_one(struct mc_index *ix)
{
    uint32_t id = ++ix->sweep_at;
    switch (ix->sweep_phase) {
    case SWEEP_NODES:
        if (id > high_of(&ix->nodes)) {
            return false;
        }
        if (atomic_load_explicit(&node_at(ix, id)->tenant,
                                 memory_order_relaxed) &&
            !index_node_sweep(ix, id)) {
            ix->has_sweep_failed = true;
        }
        return true;
    case SWEEP_PARTS:
        if (id > high_of(&ix->parts)) {
            return false;
        }
        index_parts_sweep(ix, id);
        return true;
    case SWEEP_SETS:
        if (id > high_of(&ix->setrefs)) {
            return false;
        }
        index_set_sweep(ix, id);
        return true;
    case SWEEP_NONE:
        break;
    }
    return false;
}

static void sweep(struct mc_index *ix, uint32_t steps)
{
    while (steps-- && ix->sweep_phase != SWEEP_NONE) {
        if (sweep_one(ix)) {
            continue;
        }
        ix->sweep_at = 0;
        if (ix->sweep_phase == SWEEP_SETS) {
            end_sweep(ix);
        } else {
            ix->sweep_phase++;
        }
    }
}

static void start(struct mc_index *ix)
{
    change_slots(ix, SLOT_RETIRED, SLOT_SWEPT);
    ix->sweep_phase = SWEEP_NODES;
    ix->sweep_at = 0;
    ix->sweep_round++;
    ix->has_sweep_failed = false;
}

void index_sweep_begin(struct mc_index *ix)
{
    if (ix->sweep_phase == SWEEP_NONE && ix->dead_slots) {
        start(ix);
    }
    sweep(ix, FIRST_NODES);
}

void index_step(struct mc_index *ix)
{
    ix->step++;
    if (ix->sweep_phase != SWEEP_NONE) {
        sweep(ix, STEP_NODES + ix->dead_slots * 4);
    } else if (ix->dead_slots) {
        start(ix);
    }
    if (index_memory_has_limbo(&ix->memory) && ix->step % EPOCH_EVERY == 0) {
        (void)index_memory_advance(&ix->memory);
    }
}

bool mc_index_maintain(struct mc_index *ix, uint32_t steps)
{
    if (ix->sweep_phase == SWEEP_NONE && ix->dead_slots) {
        start(ix);
    }
    sweep(ix, steps);
    if (index_memory_has_limbo(&ix->memory)) {
        (void)index_memory_advance(&ix->memory);
    }
    return ix->sweep_phase != SWEEP_NONE || ix->dead_slots ||
           index_memory_has_limbo(&ix->memory);
}
