/* SPDX-License-Identifier: Apache-2.0 */
/* board.h - the fences of an owner, where it and its shm peers can read them.
 *
 * A memfd of the owner; peers map it read-only. Sets of a few entries each,
 * found by hash: a fence goes into an entry that is free or expired, else in the
 * place of the one that would expire first, whose end becomes the floor before it
 * is overwritten. Writes whose grant ends at or below the floor are refused. So
 * memory is bounded, and a reader that looks at the entries first and at the
 * floor afterwards never misses a fence that could concern it.
 *
 * Entry words and floor are seq_cst: together with the slots of gate.h they make
 * sure that of an owner that posts and a writer that enters at the same time at
 * least one sees the other.
 *
 * Threads: one poster at a time (lock inside), any readers, other processes
 * among them.
 */
#ifndef BOARD_H
#define BOARD_H
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mc_err.h"
#include "mc_grant.h"

#define MCI_BOARD_SETS 4096
#define MCI_BOARD_WAYS 4
#define MCI_BOARD_MAGIC UINT64_C(0x31647262766b636d)

struct mci_board_entry {
    _Atomic uint64_t subject;    /* 0: free */
    _Atomic uint64_t until_kind; /* lowest bit: enum mc_fence_kind; the others:
                                    no grant it could refuse lives longer */
};

/* The shared memory itself; all zero is an empty one. */
struct mci_board_page {
    uint64_t magic;
    _Atomic uint64_t floor_ns;
    _Atomic uint64_t posted; /* ever */
    struct mci_board_entry entries[MCI_BOARD_SETS][MCI_BOARD_WAYS];
};

struct mci_board; /* the owner's side */

/* fd is -1 where there is no memfd: then for this process only. */
MC_CHECK_RESULT enum mc_err mci_board_create(struct mci_board **board_out);
void mci_board_destroy(struct mci_board *board); /* NULL is fine */
struct mci_board_page *mci_board_page(struct mci_board *board);

/* The descriptor of the page, borrowed, for peers: it cannot be mapped writable
 * any more. -1 if there is none. */
int mci_board_fd(const struct mci_board *board);

/* Posts fences until `until_ns`. */
void mci_board_post(struct mci_board *board, const struct mc_fence *fences,
                    size_t count, uint64_t now_ns, uint64_t until_ns);

/* True: no write of this attempt may go on whose grant ends at grant_ns. */
bool mci_board_refuses(const struct mci_board_page *page, uint64_t attempt,
                       uint64_t incarnation, uint64_t grant_ns);
#endif
