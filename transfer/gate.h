/* SPDX-License-Identifier: Apache-2.0 */
/* gate.h - who is inside a write, so that a fence blocks exactly what somebody
 * is inside of (SAFETY B.5).
 *
 * A thread that is about to write takes a slot and stores its attempt there, then
 * looks at the board; the owner posts on the board, then looks at the slots. All
 * of it is seq_cst, so one of both sees the other: the writer turns back, or the
 * owner knows that it is inside. Between pieces the writer looks again.
 * One gate lies in the owner's heap (its own threads), one in each shm peer's
 * control page.
 *
 * Threads: any, other processes among them.
 */
#ifndef GATE_H
#define GATE_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "board.h"
#include "mc_transfer.h"

#define MCI_GATE_SLOTS 256

/* A line of its own each. */
struct mci_gate_slot {
    _Atomic uint64_t attempt; /* 0: nobody is inside */
    _Atomic uint64_t incarnation;
    _Atomic uint64_t grant_ns; /* when its grant ends */
    _Atomic uint32_t is_taken;
    uint8_t space[36];
};

struct mci_gate {
    struct mci_gate_slot slots[MCI_GATE_SLOTS];
};

/* Enters: the slot, or -1 if the board refuses or all slots are taken until
 * deadline_ns. */
int mci_gate_enter(struct mci_gate *gate, const struct mci_board_page *board,
                   const struct mc_grant_terms *terms, uint64_t grant_ns,
                   uint64_t deadline_ns);
/* The one inside goes on under a grant that was made anew. */
void mci_gate_renew(struct mci_gate *gate, int slot, uint64_t grant_ns);
void mci_gate_leave(struct mci_gate *gate, int slot);

/* Adds to stuck what is inside though the board refuses it, or though its grant
 * has ended (its fence may have left the board meanwhile); false when there is no
 * more room. */
struct mci_stuck_list {
    struct mc_fence_stuck *rows;
    size_t max;
    size_t count;
};
bool mci_gate_scan(struct mci_gate *gate, const struct mci_board_page *board,
                   uint64_t now_ns, struct mci_stuck_list *stuck);

/* Scans again and again until nothing is added to stuck, at most for patience_ns.
 * Errors: MC_ERR_BUFFER_OVERFLOW (no room in stuck). */
typedef bool (*mci_scan_fn)(void *ctx, uint64_t now_ns,
                            struct mci_stuck_list *stuck);
MC_CHECK_RESULT enum mc_err mci_gate_settle(mci_scan_fn scan, void *ctx,
                                            uint64_t patience_ns,
                                            struct mci_stuck_list *stuck);
#endif
