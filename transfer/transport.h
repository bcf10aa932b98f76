/* SPDX-License-Identifier: Apache-2.0 */
/* transport.h - what a transport can do, as a const table of functions.
 *
 * The engine (engine.c) checks rows, chooses a transport per target and hands
 * rows over in runs of the same target; it names no transport but in the table.
 * A transport moves the rows of one run on the calling thread and fills in their
 * outcomes. What it cannot do points at the mci_no_* defaults.
 */
#ifndef TRANSPORT_H
#define TRANSPORT_H
#include "mc_transfer.h"

struct mci_stuck_list; /* gate.h */
struct mci_exposed;    /* exposed.h: a registration, as its owner sees it */

struct mci_transport {
    enum mc_transport_kind kind;
    const char *name;

    /* Once per engine. *state_out is passed back below. */
    enum mc_err (*open)(struct mc_transfer *transfer, void **state_out);
    void (*close)(void *state); /* no rows are under way */

    /* Owner: begins and ends serving a registration. After conceal nobody is
     * inside (but shm peers that are stopped in the middle). */
    enum mc_err (*expose)(void *state, struct mci_exposed *exposed);
    void (*conceal)(void *state, struct mci_exposed *exposed);
    /* Owner: host:port of who listens already; not touched if nobody does. NULL:
     * no transport of that kind. */
    enum mc_err (*endpoint)(void *state,
                            char endpoint_out[MC_TRANSFER_ENDPOINT_SIZE]);
    /* Owner: refuses from now on what the fences (already posted on the engine's
     * board) name, and waits until nothing is inside; adds what still is. With
     * count 0: what is inside though it was fenced at any time. Errors:
     * MC_ERR_BUFFER_OVERFLOW (no room in stuck). */
    enum mc_err (*fence)(void *state, const struct mc_fence *fences,
                         size_t count, struct mci_stuck_list *stuck);

    /* Peer: can it reach this target? Asked for each run of rows, by any thread:
     * cheap once it could. Maps as needed and remembers; connections can wait for
     * move. MC_ERR_RPC_TIMEOUT says that the caller's deadline was too short to
     * know; anything else may be remembered for a minute. */
    enum mc_err (*reach)(void *state, struct mc_target *target,
                         uint64_t deadline_ns);
    void (*forget)(void *state, struct mc_target *target); /* target closes */
    enum mc_err (*probe)(void *state, struct mc_target *target,
                         uint64_t deadline_ns);

    /* Moves rows of any targets that were reached; *canceled is looked at
     * between pieces. Every row ends locally. */
    void (*move)(void *state, struct mc_transfer_row *const *rows, size_t count,
                 uint64_t deadline_ns, const _Atomic int *canceled);
    void (*seal)(void *state, struct mc_transfer_row *const *rows, size_t count,
                 uint64_t deadline_ns);
};

extern const struct mci_transport mci_transport_local;
extern const struct mci_transport mci_transport_shm;
extern const struct mci_transport mci_transport_tcp;
#endif
