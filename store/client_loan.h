/* SPDX-License-Identifier: Apache-2.0 */
/* client_loan.h - one segment that a client lends: its memory, its exposure to
 * peers, and its mount at the master.
 *
 * Memory is the user's, or made and then thrown away with every new beginning.
 * What the master was asked and did not answer is remembered, so that nothing
 * stays mounted that was given up. Which state a loan is in, and who may be at
 * work on it, is client_segments.c.
 * Threads: one thread at a time per loan; its link, state and flags are guarded
 * by the outside's lent_lock.
 */
#ifndef CLIENT_LOAN_H
#define CLIENT_LOAN_H
#include "client_outside.h"

enum lent_state {
    LENT_MOUNTED,
    LENT_GIVEN_UP, /* concealed, to be made anew */
    LENT_AT_WORK   /* being made, mounted or unmounted */
};

struct mci_loan {
    struct mci_link link;
    uint32_t handle;
    uint32_t segment; /* at the master, while mounted */
    enum lent_state state;
    bool was_renewed; /* while at work */
    bool is_leaving;  /* its mounting failed: to be withdrawn, then freed */
    bool is_unsure; /* the master may have it mounted, as who we are or were */
    uint64_t mounted_as;    /* incarnation; 0: not mounted, as far as we know */
    struct mci_mount mount; /* as it was sent last */
    bool is_made;           /* memory is ours */
    bool no_prefault;
    struct mci_segment memory; /* made */
    void *base;
    uint64_t bytes;
    bool is_exposed;
    struct mc_exposure exposure;
};

/* Errors: MC_ERR_INVALID_PARAMS. */
MC_CHECK_RESULT enum mc_err
mci_lending_check(const struct mci_lending *lending);

/* Raises the generation and cuts off peers; fine if it is not exposed. */
void mci_loan_conceal(struct mci_outside *outside, struct mci_loan *lent);
/* Of made memory, which nobody can touch any more. */
void mci_loan_drop_memory(struct mci_loan *lent);
/* Nobody can touch it, and nobody but us knows it. */
void mci_loan_free(struct mci_loan *lent);

/* At the master, within wait_ms; notes what it is known as there. Errors: those
 * of mci_remote_mount. */
MC_CHECK_RESULT enum mc_err mci_loan_mount(struct mci_outside *outside,
                                           struct mci_loan *lent,
                                           uint64_t wait_ms);
/* The master has it mounted no more. Errors: those of mci_remote_unmount; then
 * it may have. */
MC_CHECK_RESULT enum mc_err mci_loan_withdraw(struct mci_outside *outside,
                                              struct mci_loan *lent,
                                              uint64_t wait_ms);
/* Fresh memory, unless it is the user's, exposed and mounted. */
MC_CHECK_RESULT enum mc_err mci_loan_make_anew(struct mci_outside *outside,
                                               struct mci_loan *lent,
                                               uint64_t wait_ms);
#endif
