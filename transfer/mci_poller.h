/* SPDX-License-Identifier: Apache-2.0 */
/* mci_poller.h - one thread that waits for many descriptors.
 *
 * Everything that is watched by a poller is touched by its thread only; other
 * threads post to it. Callbacks run without locks held, one at a time.
 * Threads: create, post and destroy from any thread; all else from callbacks.
 */
#ifndef MCI_POLLER_H
#define MCI_POLLER_H
#include <stdbool.h>
#include <stdint.h>

#include "mc_err.h"

struct mci_poller;

struct mci_poller_opts {
    const char *name; /* of the thread, at most 15 characters */
    /* Called about once per turn, after the events; says when it wants to be
     * called again at the latest (absolute, UINT64_MAX: never; a time in the
     * past: at once, after looking for events). NULL: none. */
    uint64_t (*turn)(void *ctx, uint64_t now_ns);
    void *ctx;
};

/* Errors: MC_ERR_NOMEM, MC_ERR_INTERNAL_ERROR (descriptors, threads). */
MC_CHECK_RESULT enum mc_err
mci_poller_create(const struct mci_poller_opts *opts,
                  struct mci_poller **poller_out);
/* Ends the thread and joins it; what was posted before is done first. What is
 * watched stays the caller's to close. NULL is fine. */
void mci_poller_destroy(struct mci_poller *poller);

/* Embedded in what is watched. EPOLLERR and EPOLLHUP are told whatever was asked
 * for, again and again: whoever cannot act on them now takes the watch out. */
struct mci_watch {
    void (*ready)(struct mci_watch *watch, uint32_t events); /* EPOLL* */
    int fd;
    uint32_t events; /* kept by the poller */
};
MC_CHECK_RESULT enum mc_err mci_poller_add(struct mci_poller *poller,
                                           struct mci_watch *watch,
                                           uint32_t events);
void mci_poller_change(struct mci_poller *poller, struct mci_watch *watch,
                       uint32_t events);
/* After this, ready is not called any more, also not for events of this turn;
 * the descriptor may be closed and the watch freed. */
void mci_poller_remove(struct mci_poller *poller, struct mci_watch *watch);

/* Embedded in what is handed over; run once on the poller's thread, in order.
 * The caller keeps it alive until then. Never fails. */
struct mci_task {
    void (*run)(struct mci_task *task);
    struct mci_task *next; /* kept by the poller */
};
void mci_poller_post(struct mci_poller *poller, struct mci_task *task);

/* True on the poller's own thread. */
bool mci_poller_is_current(const struct mci_poller *poller);
#endif
