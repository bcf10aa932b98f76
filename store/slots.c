/* SPDX-License-Identifier: Apache-2.0 */
#include "slots.h"

#include "mci_alloc.h"
#include "mci_control.h"

_Static_assert(MCI_SLOTS_CHUNK *MCI_SLOTS_CHUNKS == MCI_SLOTS_MAX,
               "chunks hold all slots");

/* Memory that a slot keeps whatever its answers need. */
#define SPARE_MAX ((size_t)16 << 10)

enum phase {
    PHASE_VOID, /* the number is used up, and no answer of it is known */
    PHASE_DONE,
    PHASE_RUNNING
};

struct mci_request_slot {
    uint64_t number;   /* the last one that counts */
    uint64_t moved_to; /* while it runs: numbers below this are given up */
    enum phase phase;
    enum mci_slot_kind kind;
    bool is_given_up;
    size_t promised;
    const void *owner; /* the connection that is to be answered */
    void *waiter;
    struct mci_buf kept;
};

void mci_slots_fini(struct mci_slots *slots)
{
    for (uint32_t i = 0; i < MCI_SLOTS_CHUNKS; i++) {
        for (uint32_t j = 0; slots->chunks[i] && j < MCI_SLOTS_CHUNK; j++) {
            mci_buf_fini(&slots->chunks[i][j].kept);
        }
        mci_free(slots->chunks[i]);
    }
    mci_slots_init(slots);
}

/* NULL: never used. */
static struct mci_request_slot *find(const struct mci_slots *slots,
                                     uint32_t slot)
{
    struct mci_request_slot *chunk = slots->chunks[slot / MCI_SLOTS_CHUNK];
    return chunk ? &chunk[slot % MCI_SLOTS_CHUNK] : NULL;
}

/* NULL: out of memory. */
static struct mci_request_slot *make(struct mci_slots *slots, uint32_t slot)
{
    struct mci_request_slot **chunk = &slots->chunks[slot / MCI_SLOTS_CHUNK];
    if (!*chunk) {
        *chunk = mci_calloc(MCI_SLOTS_CHUNK, sizeof **chunk);
        for (uint32_t i = 0; *chunk && i < MCI_SLOTS_CHUNK; i++) {
            mci_buf_init(&(*chunk)[i].kept, MCI_SLOTS_KEPT_MAX);
        }
    }
    return find(slots, slot);
}

/* ---- kept answers ------------------------------------------------------- */

/* What drop_kept would let go of. */
static size_t droppable(const struct mci_request_slot *slot)
{
    return slot->kept.capacity > SPARE_MAX ? slot->kept.capacity : 0;
}

static void drop_kept(struct mci_slots *slots, struct mci_request_slot *slot)
{
    mci_buf_clear(&slot->kept);
    if (droppable(slot) > 0) {
        slots->kept_bytes -= droppable(slot);
        mci_buf_fini(&slot->kept);
    }
}

static void keep(struct mci_slots *slots, struct mci_request_slot *slot,
                 struct mc_view answer)
{
    size_t before = slot->kept.capacity;
    mci_buf_clear(&slot->kept);
    /* Lost: the copy stays empty. */
    (void)!mci_buf_append(&slot->kept, answer.data, answer.len);
    slots->kept_bytes += slot->kept.capacity - before;
}

/* ---- entering ----------------------------------------------------------- */

static enum mci_slot_verdict wait_for_end(struct mci_request_slot *slot,
                                          const struct mci_slot_ask *ask,
                                          struct mci_slot_told *told)
{
    if (slot->waiter != ask->from) {
        told->replaced = slot->waiter;
    }
    slot->waiter = ask->from;
    return MCI_SLOT_WAIT;
}

static enum mci_slot_verdict enter_running(struct mci_request_slot *slot,
                                           const struct mci_slot_ask *ask,
                                           struct mci_slot_told *told)
{
    if (ask->number < slot->number || ask->number < slot->moved_to) {
        return MCI_SLOT_STALE;
    }
    if (ask->number == slot->number) {
        slot->owner = ask->from;
    } else {
        slot->is_given_up = true;
        slot->moved_to = ask->number;
    }
    return wait_for_end(slot, ask, told);
}

/* The same number as the last. */
static enum mci_slot_verdict enter_again(struct mci_request_slot *slot,
                                         const struct mci_slot_ask *ask,
                                         struct mci_slot_told *told)
{
    if (slot->phase == PHASE_VOID || slot->is_given_up) {
        return MCI_SLOT_STALE;
    }
    slot->owner = ask->from;
    if (slot->kind == MCI_SLOT_READS) {
        return MCI_SLOT_EXECUTE;
    }
    told->kept = mci_buf_view(&slot->kept);
    return MCI_SLOT_KEPT;
}

/* Its answer was kept, and never seen. */
static bool is_given_up_by(const struct mci_request_slot *slot,
                           const struct mci_slot_ask *ask)
{
    return ask->kind == MCI_SLOT_CANCELS && ask->number == slot->number + 1 &&
           slot->phase == PHASE_DONE && slot->kind == MCI_SLOT_CHANGES &&
           !slot->is_given_up;
}

static enum mci_slot_verdict enter_next(struct mci_slots *slots,
                                        struct mci_request_slot *slot,
                                        const struct mci_slot_ask *ask,
                                        struct mci_slot_told *told)
{
    size_t used = slots->kept_bytes - droppable(slot) + slots->promised_bytes;
    if (ask->kind == MCI_SLOT_CHANGES &&
        (used > MCI_SLOTS_KEPT_MAX ||
         ask->answer_max > MCI_SLOTS_KEPT_MAX - used)) {
        return MCI_SLOT_FULL;
    }
    told->given_up = is_given_up_by(slot, ask) ? slot->number : 0;
    drop_kept(slots, slot);
    slot->number = ask->number;
    slot->moved_to = ask->number;
    slot->kind = ask->kind;
    slot->is_given_up = false;
    slot->owner = ask->from;
    slot->phase = ask->kind == MCI_SLOT_READS ? PHASE_DONE : PHASE_RUNNING;
    slot->promised = ask->kind == MCI_SLOT_CHANGES ? ask->answer_max : 0;
    slots->promised_bytes += slot->promised;
    return MCI_SLOT_EXECUTE;
}

enum mci_slot_verdict mci_slots_enter(struct mci_slots *slots,
                                      const struct mci_slot_ask *ask,
                                      struct mci_slot_told *told_out)
{
    *told_out = (struct mci_slot_told){.given_up = 0};
    struct mci_request_slot *slot = make(slots, ask->slot);
    if (!slot) {
        return MCI_SLOT_NOMEM;
    }
    if (slot->phase == PHASE_RUNNING) {
        return enter_running(slot, ask, told_out);
    }
    if (ask->number < slot->number) {
        return MCI_SLOT_STALE;
    }
    if (ask->number == slot->number) {
        return enter_again(slot, ask, told_out);
    }
    return enter_next(slots, slot, ask, told_out);
}

/* ---- running and leaving ------------------------------------------------ */

bool mci_slots_goes_on(const struct mci_slots *slots,
                       const struct mci_slot_ask *ask)
{
    const struct mci_request_slot *slot = find(slots, ask->slot);
    if (!slot || slot->number != ask->number || slot->is_given_up) {
        return false;
    }
    return ask->kind != MCI_SLOT_READS || slot->owner == ask->from;
}

/* What was given up keeps no answer, and its number is used up. */
static void end_given_up(struct mci_request_slot *slot)
{
    slot->number = slot->moved_to - 1;
    slot->phase = PHASE_VOID;
}

void mci_slots_leave(struct mci_slots *slots, const struct mci_slot_ask *ask,
                     struct mc_view answer, struct mci_slot_left *left_out)
{
    struct mci_request_slot *slot = find(slots, ask->slot);
    *left_out = (struct mci_slot_left){.must_undo = false};
    if (slot->is_given_up && slot->kind == MCI_SLOT_CHANGES &&
        !ask->is_undone) {
        left_out->must_undo = true;
        return;
    }
    slots->promised_bytes -= slot->promised;
    slot->promised = 0;
    left_out->may_send = !slot->is_given_up && slot->owner == ask->from;
    left_out->waiter = slot->waiter;
    slot->waiter = NULL;
    if (slot->is_given_up) {
        end_given_up(slot);
    } else {
        slot->phase = PHASE_DONE;
        keep(slots, slot, answer);
    }
}

enum mc_err mci_slots_raise(struct mci_slots *slots, uint32_t slot_number,
                            uint64_t number)
{
    if (number == 0) {
        return MC_OK;
    }
    struct mci_request_slot *slot = make(slots, slot_number);
    if (!slot) {
        return MC_ERR_NOMEM;
    }
    if (slot->phase == PHASE_RUNNING) {
        if (number > slot->moved_to) {
            slot->moved_to = number;
            slot->is_given_up = true;
        }
    } else if (number - 1 > slot->number) {
        drop_kept(slots, slot);
        slot->number = number - 1;
        slot->moved_to = number - 1;
        slot->phase = PHASE_VOID;
        slot->is_given_up = false;
    }
    return MC_OK;
}

bool mci_slots_forget(struct mci_slots *slots, uint32_t slot_number,
                      const void *from)
{
    struct mci_request_slot *slot = find(slots, slot_number);
    if (!slot || slot->waiter != from) {
        return false;
    }
    slot->waiter = NULL;
    return true;
}
