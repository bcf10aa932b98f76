/* SPDX-License-Identifier: Apache-2.0 */
/* client_move.h - bytes between the caller's memory and the places that the
 * master named.
 *
 * A mover is one call's view of where segments are. It turns a place into a
 * transfer row and runs rows. In an embedded store the only segment is at hand
 * and rows are copied here: what is held, or belongs to an attempt of this
 * client, cannot change hands meanwhile, so there is nothing to check. Of a
 * master process every row goes through the transfer, own memory as well, since
 * fences and generations are looked at there.
 * Threads: a mover by one thread.
 */
#ifndef CLIENT_MOVE_H
#define CLIENT_MOVE_H
#include "client.h"
#include "mc_transfer.h"

struct mci_mover {
    struct mc_client *client;
    struct mci_target_set *targets; /* NULL: embedded */
    uint64_t incarnation;           /* that grants of this call are made for */
    const _Atomic int *stops;       /* as mci_until */
};

static inline bool mci_mover_stops(const struct mci_mover *mover)
{
    return mover->stops && atomic_load(mover->stops) != 0;
}

/* Errors: -11. */
MC_CHECK_RESULT enum mc_err mci_mover_begin(struct mc_client *client,
                                            const _Atomic int *stops,
                                            struct mci_mover *mover_out);
/* Who this client is may have changed since; before each request whose grants
 * are used. Errors: -11; the mover is as it was. */
MC_CHECK_RESULT enum mc_err mci_mover_again(struct mci_mover *mover);
void mci_mover_end(struct mci_mover *mover);

enum mci_nearness {
    MCI_NEAR_HERE = 0, /* in this process */
    MCI_NEAR_HOST = 1, /* on this machine */
    MCI_NEAR_AWAY = 2,
    MCI_NEAR_NOWHERE = 3 /* not known, or not to be had now */
};
/* May ask the master, until the deadline. */
enum mci_nearness mci_mover_near(struct mci_mover *mover, uint32_t segment,
                                 uint64_t deadline_ns);

/* What a row is about. */
struct mci_claim {
    const struct mci_place *place;
    const struct mc_grant *grant;
    uint64_t subject; /* attempt number, or version */
    uint64_t bytes;   /* of a copy */
    bool is_write;
};
/* Fills in all of a row but its spans, about `from` on in the object. Errors:
 * -101 (no such segment now), -900, -901, -11. */
MC_CHECK_RESULT enum mc_err mci_mover_aim(struct mci_mover *mover,
                                          const struct mci_claim *claim,
                                          uint64_t from, uint64_t deadline_ns,
                                          struct mc_transfer_row *row);

/* Tells of a row that failed, at debug level. */
void mci_mover_note(const struct mc_transfer_row *row);

/* As mc_transfer_run and mc_transfer_seal; run returns soon when the call is
 * stopped. */
void mci_mover_run(struct mci_mover *mover, struct mc_transfer_row *rows,
                   size_t count, uint64_t deadline_ns);
void mci_mover_seal(struct mci_mover *mover, struct mc_transfer_row *rows,
                    size_t count, uint64_t deadline_ns);
#endif
