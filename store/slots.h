/* SPDX-License-Identifier: Apache-2.0 */
/* slots.h - sees to it that each request of a client is done once (SAFETY C).
 *
 * A client has up to MCI_SLOTS_MAX slots with one request outstanding in each.
 * Slots belong to a client incarnation, not to a connection: a request that is
 * sent again, perhaps over another connection, keeps its slot and number. Here is
 * decided what becomes of each number that comes: it is executed, it waits until
 * what runs in its slot has ended and asks again, it gets the answer that was
 * kept, or it is stale and must do nothing.
 *
 * Numbers rise. A number above the next one is executed as well: a client gives
 * numbers in order, so those between were given up before they arrived (reads,
 * which nobody cancels), and are stale if they still come. Reads are executed
 * again; only answers of what changes something are kept.
 *
 * Knows neither sockets nor the store: connections are pointers that are only
 * compared.
 * Threads: one thread at a time. Pure.
 */
#ifndef SLOTS_H
#define SLOTS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mc_err.h"
#include "mci_buf.h"

/* Answers that all slots of one client keep together. */
#define MCI_SLOTS_KEPT_MAX ((size_t)64 << 20)

#define MCI_SLOTS_CHUNK 16
#define MCI_SLOTS_CHUNKS 16

struct mci_request_slot;
struct mci_slots {
    struct mci_request_slot *chunks[MCI_SLOTS_CHUNKS]; /* as far as used */
    size_t kept_bytes;     /* memory of the answers that are kept */
    size_t promised_bytes; /* to the answers of what runs */
};

static inline void mci_slots_init(struct mci_slots *slots)
{
    *slots = (struct mci_slots){.kept_bytes = 0};
}
void mci_slots_fini(struct mci_slots *slots);

enum mci_slot_verdict {
    MCI_SLOT_EXECUTE, /* what changes something runs until mci_slots_leave */
    MCI_SLOT_WAIT,    /* ask again when leave has named this connection */
    MCI_SLOT_KEPT,    /* send `kept`; empty: it was lost for want of memory */
    MCI_SLOT_STALE,
    MCI_SLOT_FULL, /* no room to keep the answer; nothing has changed */
    MCI_SLOT_NOMEM /* likewise */
};

enum mci_slot_kind {
    MCI_SLOT_READS,
    MCI_SLOT_CHANGES,
    MCI_SLOT_CANCELS /* the number before this one was given up */
};

struct mci_slot_ask {
    uint32_t slot; /* below MCI_SLOTS_MAX */
    uint64_t number;
    enum mci_slot_kind kind;
    size_t answer_max; /* what its answer may take; of CHANGES */
    void *from;        /* the connection */
    bool is_undone;    /* for leave: what it started does not stand */
};

struct mci_slot_told {
    struct mc_view kept; /* borrowed until the slot is entered again */
    uint64_t given_up;   /* not 0: what this request started must be undone
                            before the one that asked is answered */
    void *replaced;      /* a connection that waited here; it waits no more and
                            is of no more use */
};

enum mci_slot_verdict mci_slots_enter(struct mci_slots *slots,
                                      const struct mci_slot_ask *ask,
                                      struct mci_slot_told *told_out);

/* False: this request was given up, or (a read) asked for again elsewhere, so
 * it must not go on. Asked between slices. */
bool mci_slots_goes_on(const struct mci_slots *slots,
                       const struct mci_slot_ask *ask);

struct mci_slot_left {
    bool must_undo; /* it was given up meanwhile: nothing was done, undo what it
                       started and leave again with is_undone */
    bool may_send;  /* the connection that brought it still is the slot's */
    void *waiter;   /* may ask again; NULL: none waits */
};
/* What changed something has ended; its answer is kept. Never fails: an answer
 * that cannot be kept is lost, and a repeat is told so. */
void mci_slots_leave(struct mci_slots *slots, const struct mci_slot_ask *ask,
                     struct mc_view answer, struct mci_slot_left *left_out);

/* A heartbeat says that `number` was the last one used: those below it can do
 * nothing from now on. Errors: MC_ERR_NOMEM. */
MC_CHECK_RESULT enum mc_err mci_slots_raise(struct mci_slots *slots,
                                            uint32_t slot, uint64_t number);

/* The connection does not wait any more. False: it did not, or leave has named
 * it already. */
bool mci_slots_forget(struct mci_slots *slots, uint32_t slot, const void *from);
#endif
